//! The types of `roo/rule/*`: what a user has allowed or refused permanently.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::approval::OptionKind;

/// Subject of a standing rule. All of it: nothing else is allowed or refused by it.
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
        /// Description of what it allows, for people.
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
    /// Trust in the workspace's first folder, and commands that stay in the sandbox. It is only offered: the answer is kept
    /// as trust and as a rule about [`Self::ConfinedCommands`].
    TrustAndConfinedCommands {
        /// Files by which the folder steers agents, as `roo/trust/get` lists them.
        brings: Vec<String>,
    },
    /// Access that the sandbox withholds from commands.
    #[serde(alias = "sandboxPaths")]
    SandboxAccess(Box<SandboxAccess>),
    /// The same for certain commands alone.
    CommandAccess {
        /// The words with which they begin, each with its program first.
        commands: Vec<Vec<String>>,
        /// Granted access.
        access: Box<SandboxAccess>,
    },
    /// The network, for commands that ask for it.
    Network,
    /// Pages of a host in the browser.
    BrowserPages {
        /// The host, with its port where that is not the usual one.
        host: String,
    },
}

/// Access that the sandbox withholds from commands unless the user grants it. Paths are absolute and without links.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SandboxAccess {
    /// Paths that commands would read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub readable: Vec<String>,
    /// Paths that commands would write.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub writable: Vec<String>,
    /// Hosts to connect to, each with its port: `registry.example.com:443`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// Names of environment variables that they would see.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<String>,
    /// Unix sockets of other programs that they would connect to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sockets: Vec<String>,
    /// SSH keys with which git would sign: files, or public keys themselves.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub signing_keys: Vec<String>,
}

impl SandboxAccess {
    /// Reports whether there are none.
    pub fn is_empty(&self) -> bool {
        self.lists().into_iter().all(Vec::is_empty)
    }

    /// Adds what others have.
    pub fn extend(&mut self, other: &Self) {
        for (own, others) in self.lists_mut().into_iter().zip(other.lists()) {
            let new: Vec<String> = others.iter().filter(|name| !own.contains(name)).cloned().collect();
            own.extend(new);
        }
    }

    /// Puts them into one order.
    pub fn sort(&mut self) {
        self.lists_mut().into_iter().for_each(|own| own.sort());
    }

    /// Takes away what others have.
    pub fn remove(&mut self, other: &Self) {
        for (own, others) in self.lists_mut().into_iter().zip(other.lists()) {
            own.retain(|name| !others.contains(name));
        }
    }

    /// Leaves at most so many of each kind.
    pub fn truncate(&mut self, most: usize) {
        self.lists_mut().into_iter().for_each(|own| own.truncate(most));
    }

    fn lists(&self) -> [&Vec<String>; 6] {
        [&self.readable, &self.writable, &self.hosts, &self.variables, &self.sockets, &self.signing_keys]
    }

    fn lists_mut(&mut self) -> [&mut Vec<String>; 6] {
        [
            &mut self.readable,
            &mut self.writable,
            &mut self.hosts,
            &mut self.variables,
            &mut self.sockets,
            &mut self.signing_keys,
        ]
    }
}

impl std::fmt::Display for SandboxAccess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let access = |verb: &str, names: &[String]| {
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            (!names.is_empty()).then(|| format!("{verb} {}", names.join(", ")))
        };
        let variables = if self.variables.len() == 1 { "see the variable" } else { "see the variables" };
        let verbs = ["read", "write", "reach", variables, "connect to", "sign commits and tags with the key"];
        let all: Vec<String> =
            verbs.into_iter().zip(self.lists()).filter_map(|(verb, names)| access(verb, names)).collect();
        f.write_str(&all.join(" and "))
    }
}

/// Scope of a standing rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RuleScope {
    /// In the workspace in which it was made.
    #[default]
    Workspace,
    /// In all of the user's workspaces.
    User,
}

/// Effect of a standing rule.
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
    /// Effect of the rule.
    pub verdict: RuleVerdict,
    /// Subject.
    pub subject: RuleSubject,
    /// Scope.
    #[serde(default)]
    pub scope: RuleScope,
    /// The same in a sentence.
    pub text: String,
    /// Creation time, in milliseconds since the Unix epoch.
    pub created_at: i64,
    /// Author of the rule.
    pub by: String,
}

/// `roo/rule/list`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RuleListParams {}

/// Result of `roo/rule/list`.
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

/// Beginning of the line by which an approval explains what trust in a folder means.
pub const TRUST_EXPLANATION: &str = "Trusting this folder lets what it brings steer agents";

impl RuleSubject {
    /// Returns whether its approval asks about more than one call, so that who refuses it has not refused the call:
    /// where the call stands is judged again then.
    pub fn is_offer(&self) -> bool {
        matches!(
            self,
            Self::ConfinedCommands | Self::TrustAndConfinedCommands { .. } | Self::SandboxAccess(_)
        )
    }

    /// Returns whether an answer of this kind declines the offer without refusing the call, which is judged again without it.
    pub fn is_declined_by(&self, answer: OptionKind) -> bool {
        match self {
            Self::ConfinedCommands | Self::TrustAndConfinedCommands { .. } => {
                answer == OptionKind::RejectAlways
            }
            Self::SandboxAccess(_) => !answer.allows(),
            _ => false,
        }
    }

    /// Returns whether a rule about this may decide an approval that offers a rule about `asked`. Only the gate knows
    /// whether it does.
    pub fn may_decide(&self, asked: &Self) -> bool {
        match (self, asked) {
            (Self::Preset { .. }, Self::Commands { .. })
            | (Self::ConfinedCommands, Self::TrustAndConfinedCommands { .. } | Self::Commands { .. })
            | (Self::CommandAccess { .. }, Self::SandboxAccess(_)) => true,
            _ => std::mem::discriminant(self) == std::mem::discriminant(asked),
        }
    }

    /// The question that an offer asks; none for what is no offer.
    pub fn question(&self) -> Option<String> {
        match self {
            Self::ConfinedCommands => Some("Run commands in the sandbox without asking?".to_owned()),
            Self::TrustAndConfinedCommands { brings } => {
                let brings = match brings.as_slice() {
                    [] => String::new(),
                    brings => format!(" ({} will steer agents)", brings.join(", ")),
                };
                Some(format!("Trust this folder{brings} and run its commands in the sandbox without asking?"))
            }
            Self::SandboxAccess(access) => Some(format!("Let this command {access}?")),
            _ => None,
        }
    }

    /// Describes what is allowed or refused, to follow a verb.
    pub fn text(&self) -> String {
        match self {
            Self::Commands { commands } => in_words(commands),
            Self::Preset { preset, about } => format!("{about} (the preset `{preset}`)"),
            Self::Edits => "edits of this workspace's files".to_owned(),
            Self::Reads => "reads of this workspace's files".to_owned(),
            Self::Delegation => "subtasks and mode switches".to_owned(),
            Self::ConfinedCommands => "commands that stay in the sandbox".to_owned(),
            Self::TrustAndConfinedCommands { .. } => {
                "commands that stay in the sandbox, and trust this folder".to_owned()
            }
            Self::SandboxAccess(access) => format!("commands to {access}"),
            Self::CommandAccess { commands, access } => format!("{} to {access}", in_words(commands)),
            Self::Network => "commands that ask for it to reach the network".to_owned(),
            Self::BrowserPages { host } => format!("pages of `{host}` in the browser"),
        }
    }
}

fn in_words(commands: &[Vec<String>]) -> String {
    let lines: Vec<String> = commands.iter().map(|words| format!("`{}`", shown(words))).collect();
    lines.join(" and ")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offer_can_be_declined_without_refusing_the_call() {
        let access = RuleSubject::SandboxAccess(Box::default());
        let trust = RuleSubject::TrustAndConfinedCommands { brings: vec![] };
        for (offer, once) in [(RuleSubject::ConfinedCommands, false), (trust, false), (access, true)] {
            assert!(offer.is_offer() && offer.is_declined_by(OptionKind::RejectAlways));
            assert_eq!(offer.is_declined_by(OptionKind::RejectOnce), once, "{offer:?}");
            assert!(!offer.is_declined_by(OptionKind::AllowOnce));
        }
        assert!(!RuleSubject::Edits.is_declined_by(OptionKind::RejectAlways));
    }

    #[test]
    fn rules_of_earlier_versions_are_read() {
        let rule = r#"{ "kind": "sandboxPaths", "readable": ["/home/a/.env"] }"#;
        let access = SandboxAccess { readable: vec!["/home/a/.env".to_owned()], ..SandboxAccess::default() };
        assert_eq!(
            serde_json::from_str::<RuleSubject>(rule).unwrap(),
            RuleSubject::SandboxAccess(Box::new(access))
        );
    }
}
