//! Declaration of the file of intents: its keys, their values and their descriptions.

use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::intent::{Enforced, Status};
use crate::declaration::{Declaration, published};

/// The format of `.orchestration/active_intents.yaml`.
pub static DECLARATION: LazyLock<Declaration> = LazyLock::new(Declaration::of::<IntentList>);

/// The JSON Schema of the file of intents, for editors.
pub fn schema() -> Value {
    published::<IntentList>()
}

/// Intents of a workspace.
#[derive(JsonSchema)]
#[schemars(title = "Intents")]
pub struct IntentList {
    /// The intents, at most 1000. A file may have 256 KiB of plain YAML.
    pub active_intents: Option<Vec<IntentEntry>>,
    /// Another name of `active_intents`, which counts where that one is missing.
    #[schemars(extend("doNotSuggest" = true))]
    pub intents: Option<Vec<IntentEntry>>,
}

/// An intent as it is written. It may have other keys besides.
#[derive(Debug, Default, Deserialize, JsonSchema)]
pub struct IntentEntry {
    /// Id by which tasks select it, such as `INT-001`: a letter, then letters, digits, `.`, `_` and `-`. Required.
    #[schemars(required, regex(pattern = "^[A-Za-z][A-Za-z0-9._-]{0,63}$"))]
    pub id: Option<String>,
    /// Display name. Required.
    #[schemars(required)]
    pub name: Option<String>,
    /// Status. Tasks may select intents that are `PENDING` or `IN_PROGRESS`; the server writes `IN_PROGRESS` when one
    /// does. Required.
    #[schemars(required, with = "StatusWord")]
    pub status: Option<String>,
    /// The files that may be changed: globs relative to the workspace. `*` matches within a name, `**` matches any number
    /// of names, neither matches a leading dot; a leading `!` excludes (quote it). Required.
    #[schemars(with = "Option<Vec<ScopePattern>>")]
    pub owned_scope: Option<Vec<String>>,
    /// Another name of `owned_scope`, which counts where that one is missing.
    #[schemars(with = "Option<Vec<ScopePattern>>", extend("doNotSuggest" = true))]
    pub scope: Option<Vec<String>>,
    /// Constraints, in words for the model.
    pub constraints: Option<Vec<String>>,
    /// Constraints that the server checks: `no_new_files`, `no_delete`, `ask_commands`.
    #[schemars(with = "Option<Vec<Enforced>>")]
    pub enforce: Option<Vec<String>>,
    /// Acceptance criteria, in words for the model.
    pub acceptance_criteria: Option<Vec<String>>,
    /// Requirements that it implements, such as `REQ-001`; recorded in the trace.
    pub requirements: Option<Vec<String>>,
    /// Hosts that its commands may ask to reach. Default: none.
    pub network: Option<Vec<String>>,
    /// MCP servers that its tasks may use, or single tools as `server/tool`. Default: what the task's mode has.
    pub mcp: Option<Vec<String>>,
    /// Id of the parent intent; this one never covers more than its parent.
    pub parent: Option<String>,
    /// Files that the model should look at.
    pub related_files: Option<Vec<String>>,
}

/// A status, or another word for one.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub enum StatusWord {
    /// As the server writes it.
    Written(Status),
    /// Such as `TODO`, `planned` or `done`.
    Other(String),
}

/// A glob of paths, or with a leading `!` one of paths that are excluded.
#[derive(JsonSchema)]
pub struct ScopePattern(pub String);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::yaml::Step;
    use crate::declaration::{disagreements, words_of};

    #[test]
    fn what_is_declared_is_what_is_read() {
        let intent = [Step::from("active_intents"), Step::Index(0)];
        assert_eq!(disagreements::<IntentEntry>(DECLARATION.at(&intent)), [""; 0]);
    }

    #[test]
    fn the_declared_words_are_those_that_are_read_and_written() {
        let declared = |words: Vec<crate::declaration::Word>| -> Vec<String> {
            words.into_iter().map(|word| word.word).collect()
        };
        assert_eq!(declared(words_of::<Status>()), Status::ALL.map(Status::as_str));
        assert_eq!(declared(words_of::<Enforced>()), Enforced::ALL.map(Enforced::as_str));
    }
}
