//! `go_to_definition`: where a symbol is defined.

use super::prelude::*;
use super::find_references::SymbolAt;

/// Finds the definition of a symbol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoToDefinition {
    pub symbol: SymbolAt,
}

impl Declaration for GoToDefinition {
    const SPEC: ToolSpec = ToolSpec {
        description: "Finds where a symbol that is used in a line is defined, by its language server.",
        parameters: &[
            required("path", Kind::Text, "The file that has the symbol, relative to the workspace."),
            required("line", Kind::Integer, "Its line there, from 1."),
            required("symbol", Kind::Text, "The symbol as that line has it, such as `parse_line`."),
        ],
        example: "<go_to_definition>\n<path>src/parse.rs</path>\n<line>12</line>\n<symbol>parse_line</symbol>\n</go_to_definition>",
        mistake: "A line in which the symbol is not written.",
        hook_names: &["Read"],
        needs: Needs::CodeAnswers,
        ..ToolSpec::new(ToolName::GoToDefinition, Group::Read, Effect::Read)
    };

    fn parse(reader: &Reader<'_>) -> Result<Self, InvalidCall> {
        Ok(Self { symbol: SymbolAt::parse(reader)? })
    }

    fn subject(&self) -> String {
        self.symbol.subject()
    }

    fn shown(&self) -> Shown {
        self.symbol.shown("goToDefinition")
    }

    fn hook_inputs(&self, view: &HookView<'_>) -> Vec<HookInput> {
        self.symbol.hook_inputs(view)
    }

    fn take_back(&self, change: &Rewrite<'_>, params: &mut Object) -> Result<(), RewriteError> {
        self.symbol.take_back(change, params)
    }
}
