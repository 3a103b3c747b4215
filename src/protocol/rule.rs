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
    /// Commands that stay in the sandbox.
    ConfinedCommands,
    /// Paths that the sandbox withholds from commands.
    SandboxPaths(SandboxPaths),
    /// The network, for commands that ask for it.
    Network,
}

/// What the sandbox withholds from commands unless the user grants it. Paths are absolute and without links.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SandboxPaths {
    /// What commands would read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub readable: Vec<String>,
    /// What commands would write.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub writable: Vec<String>,
    /// SSH keys with which git would sign: files, or public keys themselves.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub signing_keys: Vec<String>,
}

impl SandboxPaths {
    /// Reports whether there are none.
    pub fn is_empty(&self) -> bool {
        self.readable.is_empty() && self.writable.is_empty() && self.signing_keys.is_empty()
    }

    /// Adds what others have.
    pub fn extend(&mut self, other: &Self) {
        for (own, others) in [
            (&mut self.readable, &other.readable),
            (&mut self.writable, &other.writable),
            (&mut self.signing_keys, &other.signing_keys),
        ] {
            let new: Vec<String> = others.iter().filter(|path| !own.contains(path)).cloned().collect();
            own.extend(new);
        }
    }

    /// Puts them into one order.
    pub fn sort(&mut self) {
        self.readable.sort();
        self.writable.sort();
        self.signing_keys.sort();
    }

    /// Takes away what others have.
    pub fn remove(&mut self, other: &Self) {
        self.readable.retain(|path| !other.readable.contains(path));
        self.writable.retain(|path| !other.writable.contains(path));
        self.signing_keys.retain(|key| !other.signing_keys.contains(key));
    }
}

impl std::fmt::Display for SandboxPaths {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let access = |verb: &str, paths: &[String]| {
            let paths: Vec<String> = paths.iter().map(|path| format!("`{path}`")).collect();
            (!paths.is_empty()).then(|| format!("{verb} {}", paths.join(", ")))
        };
        let all = [
            access("read", &self.readable),
            access("write", &self.writable),
            access("sign commits and tags with the key", &self.signing_keys),
        ];
        f.write_str(&all.into_iter().flatten().collect::<Vec<_>>().join(" and to "))
    }
}

/// Where a standing rule counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RuleScope {
    /// In the workspace in which it was made.
    #[default]
    Workspace,
    /// In all of the user's workspaces.
    User,
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

/// A standing rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuleItem {
    /// Its id.
    pub rule_id: String,
    /// Which way it goes.
    pub verdict: RuleVerdict,
    /// What it is about.
    pub subject: RuleSubject,
    /// Where it counts.
    #[serde(default)]
    pub scope: RuleScope,
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
    /// The rules of this workspace, the oldest first, then those of the user's that count in all workspaces.
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
    /// Whether its approval asks about more than one call, so that who refuses it has not refused the call: where the
    /// call stands is judged again then.
    pub fn is_offer(&self) -> bool {
        matches!(self, Self::ConfinedCommands | Self::SandboxPaths(_))
    }

    /// The question that an offer asks; none for what is no offer.
    pub fn question(&self) -> Option<String> {
        match self {
            Self::ConfinedCommands => Some("Run commands in the sandbox without asking?".to_owned()),
            Self::SandboxPaths(paths) => Some(format!("Let this command {paths}?")),
            _ => None,
        }
    }

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
            Self::ConfinedCommands => "commands that stay in the sandbox".to_owned(),
            Self::SandboxPaths(paths) => format!("commands to {paths}"),
            Self::Network => "commands that ask for it to reach the network".to_owned(),
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
