//! Answers to an approval, by the ids that options have on the wire and in the log.

use serde::{Deserialize, Serialize};

use roo_protocol::event::{ApprovalOption, OptionKind};
use roo_protocol::rule::RuleSubject;
use roo_protocol::task::{
    ALLOW_ALWAYS, ALLOW_COMMANDS, ALLOW_EVERYWHERE, ALLOW_ONCE, ALLOW_PRESET, REJECT_ALWAYS, REJECT_ONCE,
    REVIEW_ONCE,
};

/// An answer to an approval. On the wire and in the log it is the id of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    /// Allows this one action.
    AllowOnce,
    /// Allows what the user picks of it in their editor.
    ReviewOnce,
    /// Allows its like in the workspace from now on.
    AllowAlways,
    /// Allows its like in every workspace from now on.
    AllowEverywhere,
    /// Allows what is offered instead from now on: a preset of rules.
    AllowPreset,
    /// Grants what was withheld to commands of this kind alone.
    AllowCommands,
    /// Refuses this one action.
    RejectOnce,
    /// Refuses its like from now on.
    RejectAlways,
}

impl Choice {
    const ALL: [Self; 8] = [
        Self::AllowOnce,
        Self::ReviewOnce,
        Self::AllowAlways,
        Self::AllowEverywhere,
        Self::AllowPreset,
        Self::AllowCommands,
        Self::RejectOnce,
        Self::RejectAlways,
    ];

    /// The choice of this id; none for one that no version has offered.
    pub(in crate::engine) fn parse(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|choice| choice.id() == id)
    }

    pub(in crate::engine) fn id(self) -> &'static str {
        match self {
            Self::AllowOnce => ALLOW_ONCE,
            Self::ReviewOnce => REVIEW_ONCE,
            Self::AllowAlways => ALLOW_ALWAYS,
            Self::AllowEverywhere => ALLOW_EVERYWHERE,
            Self::AllowPreset => ALLOW_PRESET,
            Self::AllowCommands => ALLOW_COMMANDS,
            Self::RejectOnce => REJECT_ONCE,
            Self::RejectAlways => REJECT_ALWAYS,
        }
    }

    /// Returns the kind as which clients show it.
    pub(in crate::engine) fn kind(self) -> OptionKind {
        match self {
            Self::AllowOnce | Self::ReviewOnce => OptionKind::AllowOnce,
            Self::AllowAlways | Self::AllowEverywhere | Self::AllowPreset | Self::AllowCommands => {
                OptionKind::AllowAlways
            }
            Self::RejectOnce => OptionKind::RejectOnce,
            Self::RejectAlways => OptionKind::RejectAlways,
        }
    }

    /// Returns whether it allows the action.
    pub(in crate::engine) fn allows(self) -> bool {
        self.kind().allows()
    }

    pub(super) fn named(self, name: &str) -> ApprovalOption {
        ApprovalOption { id: self.id().to_owned(), name: name.to_owned(), kind: self.kind(), scope: None }
    }

    /// Returns what the answer allows or refuses from now on, where it makes a rule about this.
    pub(super) fn scope(self, subject: &RuleSubject) -> Option<String> {
        let what = subject.text();
        let counts = match (self, subject) {
            (
                Self::RejectAlways,
                RuleSubject::ConfinedCommands | RuleSubject::TrustAndConfinedCommands { .. },
            ) => "Asks about each command in this project".to_owned(),
            (Self::AllowAlways | Self::AllowPreset | Self::AllowCommands, _) => {
                format!("Allows {what} in this project without asking")
            }
            (Self::AllowEverywhere, _) => format!("Allows {what} in all your projects without asking"),
            (Self::RejectAlways, _) => format!("Refuses {what} in this project without asking"),
            (Self::AllowOnce | Self::ReviewOnce | Self::RejectOnce, _) => return None,
        };
        Some(format!("{counts}, in every task, until you revoke it with roo-lsp policy revoke."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_names_a_choice_by_the_id_of_its_option() {
        for choice in Choice::ALL {
            assert_eq!(serde_json::to_value(choice).unwrap(), choice.id());
            assert_eq!(Choice::parse(choice.id()), Some(choice));
            assert_eq!(serde_json::from_value::<Choice>(choice.id().into()).unwrap(), choice);
        }
    }

    #[test]
    fn an_option_that_is_not_known_is_no_choice() {
        assert_eq!(Choice::parse("allow_everything"), None);
        assert!(serde_json::from_value::<Choice>("allow_everything".into()).is_err());
    }
}
