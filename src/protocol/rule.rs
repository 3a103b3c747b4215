//! The types of `roo/rule/*`: what a user has allowed or refused for good.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a standing rule is about. All of it: nothing else is allowed or refused by it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum RuleSubject {
    /// Commands that begin with these words, by the same rules as `autoApprove.execute`.
    Commands {
        /// Each with its program first.
        commands: Vec<Vec<String>>,
    },
    /// Commands that the rules of a preset allow, by the same rules as `autoApprove.execute.presets`.
    Preset {
        /// Its name.
        preset: String,
        /// What it allows, for people.
        about: String,
    },
    /// Edits of files of the workspace that need no permission of their own.
    Edits,
    /// Looks at files of the workspace that need no permission of their own.
    Reads,
    /// Subtasks and changes of mode.
    Delegation,
}

/// Which way a standing rule goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RuleVerdict {
    /// It runs without asking.
    Allow,
    /// It never runs.
    Deny,
}

/// A standing rule of one workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuleItem {
    /// Its id.
    pub rule_id: String,
    /// Which way it goes.
    pub verdict: RuleVerdict,
    /// What it is about.
    pub subject: RuleSubject,
    /// The same in a sentence.
    pub text: String,
    /// When it was made, in milliseconds since the Unix epoch.
    pub created_at: i64,
    /// Who made it.
    pub by: String,
}

/// `roo/rule/list`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RuleListParams {}

/// What `roo/rule/list` answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuleListResult {
    /// The rules of this workspace, the oldest first.
    pub rules: Vec<RuleItem>,
}

/// `roo/rule/revoke`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuleRevokeParams {
    /// The rule's id.
    pub rule_id: String,
}

impl RuleSubject {
    /// What is allowed or refused, to follow a verb.
    pub fn text(&self) -> String {
        match self {
            Self::Commands { commands } => {
                let lines: Vec<String> = commands.iter().map(|words| format!("`{}`", shown(words))).collect();
                lines.join(" and ")
            }
            Self::Preset { preset, about } => format!("{about} (the preset `{preset}`)"),
            Self::Edits => "edits of this workspace's files".to_owned(),
            Self::Reads => "looks at this workspace's files".to_owned(),
            Self::Delegation => "subtasks and changes of mode".to_owned(),
        }
    }
}

/// The words of a command, each recognisable as one.
fn shown(words: &[String]) -> String {
    let word = |word: &String| {
        let plain =
            !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_./=:@%+,".contains(c));
        if plain { word.clone() } else { format!("{word:?}") }
    };
    words.iter().map(word).collect::<Vec<_>>().join(" ")
}
