//! One intent.

use schemars::JsonSchema;
use serde_json::{Value, json};

use super::scope::Scope;
use roo_protocol::ids::Digest;

/// The longest id, in characters.
const MAX_ID_CHARS: usize = 64;

/// A declared goal with an owned scope. Only what can be used: an intent with a mistake in it is
/// [`super::Invalid`].
#[derive(Clone, Debug)]
pub struct Intent {
    /// Its id, as `INT-001`.
    pub id: String,
    /// Display name.
    pub name: String,
    /// Status.
    pub status: Status,
    /// The patterns of its scope, as written.
    pub owned_scope: Vec<String>,
    /// The scope.
    pub scope: Scope,
    /// Constraints, in words.
    pub constraints: Vec<String>,
    /// Constraints that the gate checks.
    pub enforce: Vec<Enforced>,
    /// Acceptance criteria, in words.
    pub acceptance_criteria: Vec<String>,
    /// The requirements that it serves.
    pub requirements: Vec<String>,
    /// The hosts that its commands may reach.
    pub network: Vec<String>,
    /// The MCP servers that its tasks may use, or tools as `server/tool`; all when none.
    pub mcp: Option<Vec<String>>,
    /// The intent that it is a part of; it never covers more than that one.
    pub parent: Option<String>,
    /// Files to look at, for the model.
    pub related_files: Vec<String>,
}

/// Status of an intent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, JsonSchema)]
#[schemars(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Status {
    /// Nobody works on it yet.
    Pending,
    /// It is worked on.
    InProgress,
    /// It can't go on.
    Blocked,
    /// It is done.
    Completed,
    /// It was given up.
    Abandoned,
}

impl Status {
    /// All of them, in the order of a life.
    pub const ALL: [Self; 5] =
        [Self::Pending, Self::InProgress, Self::Blocked, Self::Completed, Self::Abandoned];

    /// Reads one of the words that are in use.
    pub fn parse(word: &str) -> Option<Self> {
        let plain = word.trim().to_ascii_uppercase().replace([' ', '-'], "_");
        Some(match plain.as_str() {
            "TODO" | "PENDING" | "PLANNED" | "NOT_STARTED" => Self::Pending,
            "IN_PROGRESS" | "ACTIVE" => Self::InProgress,
            "BLOCKED" => Self::Blocked,
            "COMPLETED" | "DONE" => Self::Completed,
            "ABANDONED" => Self::Abandoned,
            _ => return None,
        })
    }

    /// The word that is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::InProgress => "IN_PROGRESS",
            Self::Blocked => "BLOCKED",
            Self::Completed => "COMPLETED",
            Self::Abandoned => "ABANDONED",
        }
    }

    /// Returns whether a task may work on it.
    pub fn is_selectable(self) -> bool {
        matches!(self, Self::Pending | Self::InProgress)
    }
}

/// A constraint that the gate checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, JsonSchema)]
#[schemars(rename_all = "snake_case")]
pub enum Enforced {
    /// Files may be changed, not created.
    NoNewFiles,
    /// Files may not be deleted.
    NoDelete,
    /// Every command asks, whatever rules allow.
    AskCommands,
}

impl Enforced {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::NoNewFiles, Self::NoDelete, Self::AskCommands];

    /// Reads its word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|enforced| enforced.as_str() == word)
    }

    /// Its word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoNewFiles => "no_new_files",
            Self::NoDelete => "no_delete",
            Self::AskCommands => "ask_commands",
        }
    }
}

impl Intent {
    /// Returns the part that governs: all that says what may be done, without where it stands. A binding holds as long
    /// as this stays. Keys are sorted, so that equal intents are equal texts.
    pub fn governing(&self) -> Value {
        let mut governing = json!({
            "acceptance_criteria": self.acceptance_criteria,
            "constraints": self.constraints,
            "enforce": self.enforce.iter().map(|enforced| enforced.as_str()).collect::<Vec<_>>(),
            "id": self.id,
            "name": self.name,
            "network": self.network,
            "owned_scope": self.owned_scope,
            "parent": self.parent,
            "requirements": self.requirements,
        });
        // So that the digests of all others stay.
        if let Some(mcp) = &self.mcp {
            governing["mcp"] = json!(mcp);
        }
        governing
    }

    /// Returns whether its tasks may use a tool of a server, or its resources where no tool is named.
    pub fn permits_server(&self, server: &str, tool: Option<&str>) -> bool {
        let names = |entry: &String| match (entry.split_once('/'), tool) {
            (Some(named), Some(tool)) => named == (server, tool),
            (Some(_), None) => false,
            (None, _) => entry == server,
        };
        self.mcp.as_ref().is_none_or(|entries| entries.iter().any(names))
    }

    /// The digest of what governs.
    pub fn digest(&self) -> Digest {
        Digest::of(self.governing().to_string())
    }

    /// Describes all that it allows.
    pub fn allows(&self) -> Vec<String> {
        let granted = self.owned_scope.iter().filter(|pattern| !pattern.starts_with('!'));
        let mut allowed: Vec<String> = granted.map(|pattern| format!("scope: {pattern}")).collect();
        allowed.extend(self.network.iter().map(|host| format!("network: {host}")));
        match &self.mcp {
            None => allowed.push("mcp: every server".to_owned()),
            Some(entries) => allowed.extend(entries.iter().map(|entry| format!("mcp: {entry}"))),
        }
        allowed
    }

    /// Describes what it allows that `known` did not; empty when it only tightens.
    pub fn loosens(&self, known: &Self) -> Vec<String> {
        let mut loosened: Vec<String> =
            self.scope.beyond(&known.scope).into_iter().map(|pattern| format!("scope: {pattern}")).collect();
        let lost = |what: &str, old: &[String], new: &[String]| -> Vec<String> {
            let lost = old.iter().filter(|text| !new.contains(text));
            lost.map(|text| format!("{what} dropped: {text}")).collect()
        };
        loosened.extend(lost("constraint", &known.constraints, &self.constraints));
        let words = |intent: &Self| -> Vec<String> {
            intent.enforce.iter().map(|enforced| enforced.as_str().to_owned()).collect()
        };
        loosened.extend(lost("check", &words(known), &words(self)));
        let hosts = self.network.iter().filter(|host| !known.network.contains(host));
        loosened.extend(hosts.map(|host| format!("network: {host}")));
        match (&known.mcp, &self.mcp) {
            (None, _) => {}
            (Some(_), None) => loosened.push("mcp: every server".to_owned()),
            (Some(known), Some(now)) => {
                let more = now.iter().filter(|entry| !known.contains(entry));
                loosened.extend(more.map(|entry| format!("mcp: {entry}")));
            }
        }
        if known.parent.is_some() && self.parent != known.parent {
            loosened.push("no longer within its parent".to_owned());
        }
        loosened
    }
}

/// Returns whether a text may be an intent's id: a letter, then letters, digits, dots, underscores and hyphens.
pub(crate) fn is_intent_id(text: &str) -> bool {
    text.len() <= MAX_ID_CHARS
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
}
