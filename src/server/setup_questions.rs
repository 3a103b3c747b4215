//! Setup of a model for a client of plain LSP, by message requests: provider, model, and one short request before anything
//! is written. A key can't be asked for in this way, as it would be shown; it has to be there already.

use std::sync::Arc;

use serde::Deserialize;
use tokio_util::sync::CancellationToken;
use tower_lsp::ls_types::MessageType;

use super::popup::{ANOTHER_IS_OPEN, show_popup};
use super::profiles;
use super::session::{Session, WorkspaceServices};
use crate::model_setup::{
    Candidate, ProfileName, environment, free_name, offered_providers, window_to_write,
};
use roo_formats::config::{Profile, Provider};
use roo_model::providers::{KeyState, key_state};
use roo_protocol::model::ModelItem;
use roo_protocol::profile::{DraftField, ProfileDraft, ProfileSaveParams};

/// The harmless first choice.
const CANCEL: &str = "Cancel";
/// Number of models that are offered: each is a button.
const MODELS: usize = 12;

/// Fields of `roo.setUpModel`; what is left out is asked for.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct SetupFields {
    provider: Option<String>,
    model: Option<String>,
    base_url: Option<String>,
    profile: Option<String>,
}

/// Asks, tries and writes, and tells what came of it. Ends where the user closes a question.
pub(super) async fn run(session: &Arc<Session>, services: &Arc<WorkspaceServices>, fields: SetupFields) {
    match set_up(session, services, fields).await {
        Ok(Some(message)) => session.tell(MessageType::INFO, &message).await,
        Ok(None) => {}
        Err(problem) => session.tell(MessageType::ERROR, &problem).await,
    }
}

async fn set_up(
    session: &Session,
    services: &WorkspaceServices,
    fields: SetupFields,
) -> Result<Option<String>, String> {
    let provider = match &fields.provider {
        Some(name) => Provider::find(name).ok_or_else(|| format!("there is no provider '{name}'"))?,
        None => match ask_provider(session).await? {
            Some(provider) => provider,
            None => return Ok(None),
        },
    };
    if let Some(name) = &fields.profile {
        name.parse::<ProfileName>().map_err(|error| error.to_string())?;
    }
    let draft = ProfileDraft {
        provider: provider.as_str().to_owned(),
        base_url: fields.base_url.into(),
        ..ProfileDraft::default()
    };
    // What a profile of that name keeps, such as its address and key, is what is asked and tried.
    let drafted = profiles::draft_of(&session.process, &draft, fields.profile.as_deref()).await;
    let profile = drafted.map_err(|error| error.to_string())?.candidate.profile;
    let state = key_state(&profile, &environment).map_err(|error| error.to_string())?;
    if state == KeyState::Missing {
        let name = provider.as_str();
        let variable = provider.spec().key_variable.map(|variable| format!(", or set {variable}"));
        return Err(format!(
            "{name} needs a key: run `roo-lsp login {name}` in a terminal{}, then run roo.setUpModel again",
            variable.unwrap_or_default()
        ));
    }
    let (model, offered) = match fields.model {
        // The list may tell its context window; the request that follows shows whether it answers.
        Some(model) => {
            (model, Candidate::new(profile.clone(), None).offered_models().await.unwrap_or_default())
        }
        None => match ask_model(session, profile.clone()).await? {
            Some(chosen) => chosen,
            None => return Ok(None),
        },
    };
    // The window that it had is that of another model.
    let profile = Profile { model: Some(model.clone()), context_window: None, ..profile };
    let window = window_to_write(&profile, &offered);
    let draft = ProfileDraft { model: DraftField::Set(model), context_window: window.into(), ..draft };
    let profile = match fields.profile {
        Some(name) => name,
        None => {
            let settings = services.engine.settings().await;
            free_name(&settings, provider).as_str().to_owned()
        }
    };
    let params = ProfileSaveParams { profile, draft, is_default: true, untested: false };
    let saved =
        profiles::save(&session.process, services, params).await.map_err(|error| error.to_string())?;
    let message = [vec![saved.message], saved.warnings].concat().join(" ");
    if saved.saved { Ok(Some(format!("{} {message}", saved.test.message))) } else { Err(message) }
}

async fn ask_provider(session: &Session) -> Result<Option<Provider>, String> {
    let offered = offered_providers().await;
    let title = |(provider, is_running): &(Provider, bool)| {
        format!("{}{}", provider.as_str(), if *is_running { " (running)" } else { "" })
    };
    let chosen = choose(session, "Who serves the model?", offered.iter().map(title).collect()).await?;
    Ok(chosen
        .and_then(|chosen| offered.into_iter().find(|entry| title(entry) == chosen))
        .map(|(provider, _)| provider))
}

/// The chosen model, and all that the endpoint offers; none where the user closed the question.
async fn ask_model(session: &Session, profile: Profile) -> Result<Option<(String, Vec<ModelItem>)>, String> {
    let name = profile.provider.as_str();
    let models = Candidate::new(profile, None).offered_models().await.map_err(|error| error.to_string())?;
    if models.is_empty() {
        return Err(format!(
            "the endpoint of {name} lists no models; name one: roo.setUpModel with provider and model"
        ));
    }
    let more = models.len().saturating_sub(MODELS);
    let more = match more {
        0 => String::new(),
        more => format!(" {more} others can be named: roo.setUpModel with provider and model."),
    };
    let question = format!("Which model of {name}?{more}");
    let names = models.iter().take(MODELS).map(|model| model.id.clone()).collect();
    Ok(choose(session, &question, names).await?.map(|chosen| (chosen, models)))
}

/// Returns what the user chose; none where they closed the question.
async fn choose(session: &Session, question: &str, choices: Vec<String>) -> Result<Option<String>, String> {
    let choices = [vec![CANCEL.to_owned()], choices].concat();
    let never = CancellationToken::new();
    let answer = show_popup(
        session,
        MessageType::INFO,
        format!("roo: {question}"),
        choices,
        &never,
        Some(ANOTHER_IS_OPEN),
    )
    .await;
    match answer {
        Ok(answer) => Ok(answer.map(|choice| choice.title).filter(|title| title != CANCEL)),
        Err(_) => Err("your editor can't ask; run `roo-lsp setup` in a terminal, or roo.setUpModel with provider and model"
            .to_owned()),
    }
}
