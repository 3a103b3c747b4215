//! Who answered an approval or a question, or settled it otherwise.

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

/// The user at a terminal, in events and rules.
pub const TERMINAL: &str = "cli";
const SERVER: &str = "server";
const UNATTENDED: &str = "--on-ask deny";
/// Before the id of a standing rule.
const RULE: &str = "rule ";

/// Whoever answered an approval or a question, or settled it otherwise.
///
/// In the log it is a text, which earlier versions wrote too. A client whose name reads as something else is an object there, and
/// is told from it for clients as well.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "RecordedDecider", into = "RecordedDecider")]
pub enum Decider {
    /// A client, by the name that it gave itself.
    Client(String),
    /// The user at a terminal.
    Terminal,
    /// The server, where nothing has to be decided any more.
    Server,
    /// A run that asks nobody and refuses what would be asked.
    Unattended,
    /// The standing rule of this id.
    Rule(String),
}

/// A decider as it is in the log.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum RecordedDecider {
    Text(String),
    Client { client: String },
}

impl Decider {
    /// The id of the standing rule that decided.
    pub(in crate::engine) fn rule_id(&self) -> Option<&str> {
        match self {
            Self::Rule(id) => Some(id),
            Self::Client(_) | Self::Terminal | Self::Server | Self::Unattended => None,
        }
    }

    fn from_text(text: String) -> Self {
        match text.as_str() {
            TERMINAL => Self::Terminal,
            SERVER => Self::Server,
            UNATTENDED => Self::Unattended,
            _ => match text.strip_prefix(RULE) {
                Some(id) => Self::Rule(id.to_owned()),
                None => Self::Client(text),
            },
        }
    }

    /// Whether the name of a client reads as what is none.
    fn is_ambiguous(name: &str) -> bool {
        !matches!(Self::from_text(name.to_owned()), Self::Client(_))
    }
}

impl From<&str> for Decider {
    fn from(client: &str) -> Self {
        Self::Client(client.to_owned())
    }
}

impl From<RecordedDecider> for Decider {
    fn from(recorded: RecordedDecider) -> Self {
        match recorded {
            RecordedDecider::Text(text) => Self::from_text(text),
            RecordedDecider::Client { client } => Self::Client(client),
        }
    }
}

impl From<Decider> for RecordedDecider {
    fn from(decider: Decider) -> Self {
        match decider {
            Decider::Client(client) if Decider::is_ambiguous(&client) => Self::Client { client },
            other => Self::Text(other.to_string()),
        }
    }
}

impl Display for Decider {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(name) if Self::is_ambiguous(name) => write!(formatter, "client {name}"),
            Self::Client(name) => formatter.write_str(name),
            Self::Terminal => formatter.write_str(TERMINAL),
            Self::Server => formatter.write_str(SERVER),
            Self::Unattended => formatter.write_str(UNATTENDED),
            Self::Rule(id) => write!(formatter, "{RULE}{id}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn all() -> Vec<Decider> {
        let names = ["Neovim", "", "ruler", "rule r1", "cli", "server", "--on-ask deny", "client cli"];
        let clients = names.map(Decider::from);
        let rule = Decider::Rule("r1".to_owned());
        clients.into_iter().chain([Decider::Terminal, Decider::Server, Decider::Unattended, rule]).collect()
    }

    #[test]
    fn what_is_written_is_read_as_what_it_was() {
        for decider in all() {
            let written = serde_json::to_value(&decider).unwrap();
            assert_eq!(serde_json::from_value::<Decider>(written).unwrap(), decider);
        }
    }

    #[test]
    fn texts_of_earlier_versions_are_written_as_they_were_read() {
        for text in ["Neovim", "", "rule r1", "rule ", "cli", "server", "--on-ask deny", "--on-ask allow"] {
            let decider: Decider = serde_json::from_value(json!(text)).unwrap();
            assert_eq!(serde_json::to_value(&decider).unwrap(), json!(text));
            assert_eq!(decider.to_string(), text);
        }
    }

    #[test]
    fn a_client_can_not_name_itself_as_what_it_is_not() {
        let texts = ["rule r1", "cli", "server", "--on-ask deny"];
        for name in texts {
            let client = Decider::from(name);
            assert_eq!(client.rule_id(), None);
            assert_eq!(serde_json::to_value(&client).unwrap(), json!({ "client": name }));
            assert!(!texts.contains(&client.to_string().as_str()), "{client}");
        }
        assert_eq!(serde_json::to_value(Decider::from("Neovim")).unwrap(), json!("Neovim"));
    }
}
