//! `find_references`: where a symbol is used.

use super::prelude::*;

/// A symbol in a line of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SymbolAt {
    /// As the model wrote it.
    pub path: String,
    /// Line, from 1.
    pub line: usize,
    /// The symbol's text.
    pub name: String,
}

impl SymbolAt {
    /// Reads the parameters that name a symbol.
    pub(super) fn parse(reader: &Reader<'_>) -> Result<Self, InvalidCall> {
        let line = reader.integer("line")?.ok_or(reader.missing("line"))?;
        if line == 0 {
            return Err(reader.bad("line", "lines are numbered from 1"));
        }
        Ok(Self { path: reader.path("path")?, line, name: reader.text("symbol")? })
    }

    /// The symbol and its place, for people.
    pub(super) fn subject(&self) -> String {
        format!("{} in {}:{}", self.name, self.path, self.line)
    }

    /// Returns the call for clients.
    pub(super) fn shown(&self, tool: &str) -> Shown {
        Shown::Tool(json!({ "tool": tool, "path": self.path, "line": self.line, "symbol": self.name }))
    }

    /// Returns the call for hooks: one that reads the file.
    pub(super) fn hook_inputs(&self, view: &HookView<'_>) -> Vec<HookInput> {
        file_hook_inputs(view, &self.path)
    }

    /// Takes back the file that a hook has changed.
    pub(super) fn take_back(&self, change: &Rewrite<'_>, params: &mut Object) -> Result<(), RewriteError> {
        take_back_file(change, &self.path, params)
    }
}

/// Finds the references of a symbol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FindReferences {
    pub symbol: SymbolAt,
    /// Number of lines of the result to skip.
    pub offset: usize,
}

impl Declaration for FindReferences {
    const SPEC: ToolSpec = ToolSpec {
        description: "Finds every use of a symbol in the project by its language server, without namesakes or comments.",
        parameters: &[
            required("path", Kind::Text, "The file that has the symbol, relative to the workspace."),
            required("line", Kind::Integer, "Its line there, from 1."),
            required("symbol", Kind::Text, "The symbol as that line has it, such as `parse_line`."),
            optional("offset", Kind::Integer, "How many results to skip; 0 when left out."),
        ],
        example: "<find_references>\n<path>src/parse.rs</path>\n<line>12</line>\n<symbol>parse_line</symbol>\n</find_references>",
        mistake: "The path of a file that doesn't have the symbol in that line.",
        hook_names: &["Read"],
        needs: Needs::CodeAnswers,
        ..ToolSpec::new(ToolName::FindReferences, Group::Read, Effect::Read)
    };

    fn parse(reader: &Reader<'_>) -> Result<Self, InvalidCall> {
        let offset = reader.integer("offset")?.unwrap_or_default();
        Ok(Self { symbol: SymbolAt::parse(reader)?, offset })
    }

    fn subject(&self) -> String {
        self.symbol.subject()
    }

    fn shown(&self) -> Shown {
        self.symbol.shown("findReferences")
    }

    fn hook_inputs(&self, view: &HookView<'_>) -> Vec<HookInput> {
        self.symbol.hook_inputs(view)
    }

    fn take_back(&self, change: &Rewrite<'_>, params: &mut Object) -> Result<(), RewriteError> {
        self.symbol.take_back(change, params)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Invocation, ToolCall, parse};
    use roo_protocol::ids::ToolCallId;

    fn read(params: Value) -> Result<Invocation, String> {
        let Value::Object(params) = params else { panic!("parameters are an object") };
        let name = "find_references".to_owned();
        let call = ToolCall { id: ToolCallId::new("c"), name, params, problem: None, note: None };
        parse(&call).map_err(|error| error.to_string())
    }

    #[test]
    fn a_symbol_is_a_word_in_a_line_in_both_protocols() {
        let of_tags = read(json!({ "path": "a.rs", "line": "12", "symbol": " b\n", "offset": "100" }));
        let symbol = SymbolAt { path: "a.rs".to_owned(), line: 12, name: "b".to_owned() };
        assert_eq!(of_tags, Ok(FindReferences { symbol, offset: 100 }.into()));
        assert_eq!(of_tags, read(json!({ "path": "a.rs", "line": 12, "symbol": "b", "offset": 100 })));
        for (params, error) in [
            (json!({ "path": "a.rs", "line": 0, "symbol": "b" }), "numbered from 1"),
            (json!({ "path": "a.rs", "symbol": "b" }), "lacks the parameter 'line'"),
            (json!({ "path": "a.rs", "line": 1, "symbol": " " }), "'symbol'"),
        ] {
            let found = read(params).unwrap_err();
            assert!(found.contains(error), "{found}");
        }
    }
}
