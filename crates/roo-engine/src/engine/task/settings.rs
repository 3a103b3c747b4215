//! Mode, model and intents of a task.

use crate::intent_store::Binding;
use crate::policy::ModeChange;
use roo_catalog::ToolProtocol;

/// Mode and model of a task.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentSettings {
    /// The slug of its mode.
    pub mode: String,
    /// Emoji of its mode in trees.
    pub emoji: String,
    /// The name of its model profile.
    pub profile: String,
    /// The user chose the profile, for whatever mode, and for its branches too.
    pub pinned: bool,
    /// Tool protocol of its model.
    pub protocol: ToolProtocol,
}

impl AgentSettings {
    /// Returns whether a change gives the task another model, or has it talk to its model in another way.
    pub(super) fn changes_model(&self, change: &ModeChange) -> bool {
        let differs = |(profile, protocol): &(String, ToolProtocol)| {
            *profile != self.profile || *protocol != self.protocol
        };
        change.profile.as_ref().is_some_and(differs)
    }

    pub(super) fn change(&mut self, change: &ModeChange) {
        if let Some((slug, emoji)) = &change.mode {
            self.mode.clone_from(slug);
            self.emoji.clone_from(emoji);
        }
        if let Some((profile, protocol)) = &change.profile {
            // Whoever changes the profile alone means it for all modes.
            self.pinned |= change.mode.is_none();
            self.profile.clone_from(profile);
            self.protocol = *protocol;
        }
    }
}

/// The intents that a task works for.
#[derive(Clone, Debug, PartialEq)]
pub struct IntentScope {
    /// The intent that it has bound.
    pub bound: Option<Binding>,
    /// Bindings of the tasks above it when they delegated.
    pub within: Vec<Binding>,
}

impl IntentScope {
    /// Bindings that limit a branch of the task.
    pub(super) fn inherited_by_branches(&self) -> Vec<Binding> {
        self.within.iter().chain(&self.bound).cloned().collect()
    }
}
