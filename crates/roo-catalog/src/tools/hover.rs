//! `hover`: what a language server knows of a symbol.

use super::prelude::*;
use super::find_references::SymbolAt;

/// Tells what is known of a symbol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hover {
    pub symbol: SymbolAt,
}

impl Declaration for Hover {
    const SPEC: ToolSpec = ToolSpec {
        description: "Returns the type or signature of a symbol and its documentation, by its language server.",
        parameters: &[
            required("path", Kind::Text, "The file that has the symbol, relative to the workspace."),
            required("line", Kind::Integer, "Its line there, from 1."),
            required("symbol", Kind::Text, "The symbol as that line has it, such as `parse_line`."),
        ],
        example: "<hover>\n<path>src/parse.rs</path>\n<line>12</line>\n<symbol>parse_line</symbol>\n</hover>",
        mistake: "To read the definition itself: use go_to_definition, then read_file.",
        hook_names: &["Read"],
        needs: Needs::LanguageServer,
        ..ToolSpec::new(ToolName::Hover, Group::Read, Effect::Read)
    };

    fn parse(reader: &Reader<'_>) -> Result<Self, InvalidCall> {
        Ok(Self { symbol: SymbolAt::parse(reader)? })
    }

    fn subject(&self) -> String {
        self.symbol.subject()
    }

    fn shown(&self) -> Shown {
        self.symbol.shown("hover")
    }

    fn hook_inputs(&self, view: &HookView<'_>) -> Vec<HookInput> {
        self.symbol.hook_inputs(view)
    }

    fn take_back(&self, change: &Rewrite<'_>, params: &mut Object) -> Result<(), RewriteError> {
        self.symbol.take_back(change, params)
    }
}
