//! Modes, model profiles and intents that a session's user chooses from.

use std::sync::Arc;

use agent_client_protocol::Error;
use agent_client_protocol::v1::schema::{
    SessionConfigOption, SessionConfigOptionCategory, SessionConfigSelectOption, SessionMode,
    SessionModeState,
};
use roo_formats::config::Settings;
use roo_protocol::customization::ModeItem;
use roo_protocol::ids::Digest;
use roo_protocol::intent::{IntentItem, IntentListResult};

use crate::acp::error;
use crate::acp::workspace::Workspace;

/// Ids of the options.
pub(super) const MODE: &str = "mode";
pub(super) const PROFILE: &str = "model";
pub(super) const INTENT: &str = "intent";
/// The value of the option [`INTENT`] of a task that is bound to none.
const NO_INTENT: &str = "";

/// What a user has chosen for a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Chosen {
    /// The slug of a mode; that of the settings where none was chosen.
    pub(super) mode: Option<String>,
    /// The name of a model profile; that of the mode where none was chosen.
    pub(super) profile: Option<String>,
    pub(super) intent: Option<(String, Digest)>,
}

/// What there is to choose from.
pub(super) struct Options {
    settings: Arc<Settings>,
    modes: Vec<ModeItem>,
    intents: IntentListResult,
}

impl Options {
    /// Reads them from the disk.
    pub(super) async fn read(workspace: &Arc<Workspace>) -> Result<Self, Error> {
        let settings = workspace.engine.settings().await;
        let (by, of) = (Arc::clone(&settings), Arc::clone(workspace));
        let read = tokio::task::spawn_blocking(move || {
            (of.customization.mode_list(&by).modes, of.engine.orchestration().list())
        });
        let (modes, intents) = read.await.map_err(|_| error::internal("the server is ending"))?;
        Ok(Self { settings, modes, intents })
    }

    /// The mode that counts.
    pub(super) fn mode<'c>(&'c self, chosen: &'c Chosen) -> &'c str {
        chosen.mode.as_deref().unwrap_or(&self.settings.mode)
    }

    fn profile<'c>(&'c self, chosen: &'c Chosen) -> &'c str {
        let of_mode = self.settings.profile_of(self.mode(chosen)).0;
        chosen.profile.as_deref().unwrap_or(of_mode)
    }

    /// Returns whether there is such a mode.
    pub(super) fn has_mode(&self, slug: &str) -> bool {
        self.modes.iter().any(|mode| mode.slug == slug)
    }

    /// Returns whether there is such a profile.
    pub(super) fn has_profile(&self, name: &str) -> bool {
        self.settings.profiles.contains_key(name)
    }

    /// The intent of this id that can be selected.
    pub(super) fn intent(&self, id: &str) -> Option<&IntentItem> {
        self.intents.intents.iter().find(|intent| intent.selectable && intent.intent_id == id)
    }

    /// The modes, with the one that counts.
    pub(super) fn mode_state(&self, chosen: &Chosen) -> SessionModeState {
        let mode = |mode: &ModeItem| {
            SessionMode::new(mode.slug.clone(), mode_name(mode)).description(about_mode(mode))
        };
        SessionModeState::new(self.mode(chosen).to_owned(), self.modes.iter().map(mode).collect())
    }

    /// All options, with the values that count.
    pub(super) fn config(&self, chosen: &Chosen) -> Vec<SessionConfigOption> {
        let mode = |mode: &ModeItem| {
            SessionConfigSelectOption::new(mode.slug.clone(), mode_name(mode)).description(about_mode(mode))
        };
        let modes: Vec<_> = self.modes.iter().map(mode).collect();
        let profiles: Vec<_> = self
            .settings
            .profiles
            .iter()
            .map(|(name, profile)| {
                let model =
                    profile.model.as_deref().map(|model| format!("{} {model}", profile.provider.as_str()));
                SessionConfigSelectOption::new(name.clone(), name.clone())
                    .description(model.unwrap_or_else(|| profile.provider.as_str().to_owned()))
            })
            .collect();
        let mut options = vec![
            SessionConfigOption::select(MODE, "Mode", self.mode(chosen).to_owned(), modes)
                .category(SessionConfigOptionCategory::Mode),
            SessionConfigOption::select(PROFILE, "Model", self.profile(chosen).to_owned(), profiles)
                .category(SessionConfigOptionCategory::Model)
                .description("The model profile"),
        ];
        options.extend(self.intent_option(chosen));
        options
    }

    /// None where the workspace has no intents.
    fn intent_option(&self, chosen: &Chosen) -> Option<SessionConfigOption> {
        let selectable: Vec<&IntentItem> =
            self.intents.intents.iter().filter(|intent| intent.selectable).collect();
        let bound = chosen.intent.as_ref().map_or(NO_INTENT, |(id, _)| id);
        if selectable.is_empty() && bound == NO_INTENT {
            return None;
        }
        let none = SessionConfigSelectOption::new(NO_INTENT, "None");
        let one = |intent: &&IntentItem| {
            SessionConfigSelectOption::new(intent.intent_id.clone(), intent.name.clone())
                .description(format!("{}, {}", intent.intent_id, intent.status))
        };
        let mut values: Vec<_> = std::iter::once(none).chain(selectable.iter().map(one)).collect();
        if !values.iter().any(|value| &*value.value.0 == bound) {
            values.push(SessionConfigSelectOption::new(bound.to_owned(), bound.to_owned()));
        }
        Some(
            SessionConfigOption::select(INTENT, "Intent", bound.to_owned(), values)
                .category(SessionConfigOptionCategory::Other("_intent".to_owned()))
                .description("The declared goal that covers what is changed"),
        )
    }
}

fn mode_name(mode: &ModeItem) -> String {
    format!("{} {}", mode.emoji, mode.name).trim().to_owned()
}

fn about_mode(mode: &ModeItem) -> Option<String> {
    mode.description.clone().or_else(|| mode.when_to_use.clone())
}
