//! The types of `roo/code/ask`: questions about code that a client passes on to the language servers that it runs for its user.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::task::{Position, Range};

/// `roo/code/ask`, from the server: what the language servers of the editor know.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CodeAskParams {
    /// The question.
    pub question: CodeQuestionKind,
    /// The file that it is about. It need not be open.
    pub uri: String,
    /// The place in it, in the text as the editor has it, counted in the negotiated encoding.
    pub position: Position,
    /// Part of a name, for `symbols`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// The new name, for `rename`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_name: Option<String>,
    /// The title of the action, for `action`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

/// Kinds of questions about code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum CodeQuestionKind {
    /// Where the symbol at the place is used and declared.
    #[default]
    References,
    /// Where the symbol at the place is defined.
    Definition,
    /// The symbols of the project around the file whose names are like `query`.
    Symbols,
    /// What is known of the symbol at the place, without what this server tells of it.
    Hover,
    /// What changes where the symbol at the place is called `newName`. The client changes nothing.
    Rename,
    /// What is offered to do about the line of the place, without what this server offers: the actions that change texts.
    Actions,
    /// What changes by the action `title` for the line of the place. The client changes nothing.
    Action,
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
    /// Text, for `hover`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Actions, for `actions`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<OfferedCodeAction>,
    /// Proposed changes, for `rename` and `action`: each file once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<ProposedFileEdits>,
    /// Why nothing is proposed, in the words of the language server, for `rename` and `action`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
}

/// A fix or a refactoring that a language server of the editor offers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OfferedCodeAction {
    /// Its title, by which it is asked for.
    pub title: String,
    /// Its kind, such as `quickfix`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// True if it is what most users want.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_preferred: bool,
}

/// Proposed changes of a file's text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProposedFileEdits {
    /// The file.
    pub uri: String,
    /// The version of the document that they are about; none for a file that is not open, of which they are about the text on disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<i32>,
    /// The changes, all against the text before, counted in the negotiated encoding.
    pub edits: Vec<ProposedTextEdit>,
}

/// New text for a range.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProposedTextEdit {
    /// Range in the text before.
    pub range: Range,
    /// Text to put there.
    pub new_text: String,
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
