//! The types of `roo/prompt/*`: help with a prompt that is being written.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `roo/prompt/complete`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromptCompleteParams {
    /// The prompt up to the cursor.
    pub prompt: String,
}

/// Result of `roo/prompt/complete`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromptCompleteResult {
    /// The end of the prompt that each item replaces, such as `@src/ca`; empty where nothing is to be completed.
    pub replaced: String,
    /// The items, the best one first. For files that is how well the path fits, then what is open in the editor, then
    /// what was changed last; what agents may not see is not among them.
    pub items: Vec<PromptItem>,
    /// True if there are more for what was typed so far: ask again with the next letter.
    pub is_incomplete: bool,
}

/// Something that a prompt can name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromptItem {
    /// The text for the prompt, such as `@src/cart.py` or `/code`.
    pub text: String,
    /// Kind of what it names.
    pub kind: PromptItemKind,
    /// A line about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// Kinds of what a prompt can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum PromptItemKind {
    /// A file.
    File,
    /// A file that is shown to models as an image.
    Image,
    /// A folder; its path ends with `/`.
    Folder,
    /// Something else that `@` can point at.
    Keyword,
    /// A mode, for the first word of a prompt.
    Mode,
    /// A slash command.
    Command,
    /// A name that code of the workspace defines.
    Symbol,
}
