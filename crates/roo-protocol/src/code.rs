//! The types of `roo/code/ask`: questions about code that a client passes on to the language servers that it runs for its user.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::task::Position;

/// `roo/code/ask`, from the server: what the language servers of the editor know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CodeAskParams {
    /// The question.
    pub question: CodeQuestionKind,
    /// The file that it is about. It need not be open.
    pub uri: String,
    /// The place in it, in the text as the editor has it.
    pub position: Position,
    /// Part of a name, for `symbols`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
}

/// Kinds of questions about code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum CodeQuestionKind {
    /// Where the symbol at the place is used and declared.
    References,
    /// Where the symbol at the place is defined.
    Definition,
    /// The symbols of the project around the file whose names are like `query`.
    Symbols,
}

/// Answer of a client to `roo/code/ask`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CodeAskResult {
    /// False if no language server of the editor answers for the file: the server asks one of its own then.
    pub is_known: bool,
    /// Places, for `references` and `definition`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<CodePlace>,
    /// Symbols, for `symbols`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub symbols: Vec<CodeSymbol>,
}

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CodePlace {
    /// The file.
    pub uri: String,
    /// Zero-based line.
    pub line: u32,
}

/// A symbol of a project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CodeSymbol {
    /// Its name.
    pub name: String,
    /// Its kind by the number that LSP has for it.
    pub kind: u32,
    /// Name of what it is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// Where it is defined.
    pub place: CodePlace,
}
