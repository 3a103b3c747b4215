//! `rename_symbol`: a new name for a symbol, wherever it is used.

use super::find_references::SymbolAt;
use super::prelude::*;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenameSymbol {
    pub symbol: SymbolAt,
    pub new_name: String,
}

impl Declaration for RenameSymbol {
    const SPEC: ToolSpec = ToolSpec {
        description: "Renames a symbol wherever the project uses it, by its language server: in all files together, or in none.",
        parameters: &[
            required("path", Kind::Text, "A file that has the symbol, relative to the workspace."),
            required("line", Kind::Integer, "Its line there, from 1."),
            required("symbol", Kind::Text, "The symbol as that line has it, such as `parse_line`."),
            required("new_name", Kind::Text, "The new name."),
        ],
        example: "<rename_symbol>\n<path>src/parse.rs</path>\n<line>12</line>\n<symbol>parse_line</symbol>\n<new_name>read_line</new_name>\n</rename_symbol>",
        mistake: "To rename a file: that is no symbol.",
        needs: Needs::LanguageServer,
        ..ToolSpec::new(ToolName::RenameSymbol, Group::Edit, Effect::Write)
    };

    fn parse(reader: &Reader<'_>) -> Result<Self, InvalidCall> {
        Ok(Self { symbol: SymbolAt::parse(reader)?, new_name: reader.text("new_name")? })
    }

    fn subject(&self) -> String {
        format!("{} to {} in {}:{}", self.symbol.name, self.new_name, self.symbol.path, self.symbol.line)
    }

    fn shown(&self) -> Shown {
        Shown::Tool(json!({
            "tool": "renameSymbol",
            "path": self.symbol.path,
            "line": self.symbol.line,
            "symbol": self.symbol.name,
            "newName": self.new_name,
        }))
    }

    fn edited_files(&self) -> Vec<&str> {
        vec![&self.symbol.path]
    }
}
