//! `roo-lsp setup`: setup of a model that answers, by four questions.
//!
//! The key and the profile are written at the end, after a request has worked.

use std::io::Write as _;

use super::arguments::{Common, Setup};
use super::dialogue::Dialogue;
use super::login;
use super::models::line;
use super::session::SessionContext;
use super::terminal;
use super::{CliError, Ending};
use crate::model_setup::{self, Candidate, KeyPlace, ProfileEdit, WriteError, environment, worked};
use roo_formats::config::edit::{OtherFields, ProfileFields};
use roo_formats::config::{Profile, Provider};
use roo_model::providers::{self, KeyState, ModelError, ModelErrorKind, Probe};
use roo_protocol::model::ModelItem;
use serde_json::Value;

/// Number of models that are shown at once.
const SHOWN: usize = 20;
/// Number of times that an address, a key or a model may be wrong.
const TRIES: usize = 5;

/// Asks for provider, key and model, tries them, and writes them down.
pub(super) fn setup(common: &Common, arguments: &Setup) -> Result<Ending, CliError> {
    let context = SessionContext::find(common)?;
    let settings = context.settings(None)?;
    let dialogue = Dialogue::new();
    let provider = match arguments.provider {
        Some(provider) => provider,
        None => choose_provider(&dialogue)?,
    };
    let (key, endpoint) = reach(&dialogue, provider, arguments.base_url.clone())?;
    let mut candidate = Candidate::new(endpoint.clone(), key);
    let (model, window, probe) = choose_model(&dialogue, &mut candidate)?;
    dialogue.tell(worked(&model, &probe))?;

    let name = match &arguments.profile {
        Some(name) => name.clone(),
        None => model_setup::free_name(&settings, provider),
    };
    let mut fields = vec![("provider", Value::from(provider.as_str()))];
    fields.extend(endpoint.base_url.as_deref().map(|url| ("baseUrl", Value::from(url))));
    fields.push(("model", Value::from(model.as_str())));
    fields.extend(window.map(|tokens| ("contextWindow", Value::from(tokens))));
    let mut place = KeyPlace::File;
    if arguments.keyring {
        place = KeyPlace::Keyring;
        fields.extend(candidate.keep_in_keyring().map(|command| ("apiKeyCommand", Value::from(command))));
    }
    let named = fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    let fields = ProfileFields { named, others: OtherFields::Keep };
    let profile = ProfileEdit { name: name.clone(), fields, is_default: true, before: None };
    let file = &context.directories.config_file();
    let store = login::store()?;
    let saved = model_setup::save(file, profile.clone(), &candidate, place, &store);
    super::block_on(saved)?.map_err(|error| match error {
        WriteError::Edit { .. } => {
            let profile = profile.apply("").unwrap_or_default();
            CliError::Other(format!("{error}. What to add:\n{profile}"))
        }
        error => error.into(),
    })?;
    let name = name.as_str();
    writeln!(
        terminal::stdout(),
        "profile {name}: {model} of {}, written to {}\nTry it: roo-lsp run \"Say what this project does\"",
        provider.as_str(),
        file.display()
    )?;
    if settings.profiles.contains_key(&settings.profile) {
        writeln!(
            terminal::stdout(),
            "Requests use {name} from now on; before, they used {}. To go back, set `profile: {}` there.",
            settings.profile,
            settings.profile
        )?;
    }
    Ok(Ending::Done)
}

impl From<WriteError> for CliError {
    fn from(error: WriteError) -> Self {
        Self::Other(error.to_string())
    }
}

/// Servers on this machine that answer come first.
fn choose_provider(dialogue: &Dialogue) -> Result<Provider, CliError> {
    let all = super::block_on(model_setup::offered_providers())?;
    dialogue.tell("Who serves the model?")?;
    for (number, (provider, is_running)) in (1..).zip(&all) {
        let runs = if *is_running { " It is running." } else { "" };
        dialogue.tell(format_args!(
            "  {number:>2}  {:<17} {}{runs}",
            provider.as_str(),
            provider.spec().description
        ))?;
    }
    loop {
        let answer = dialogue.ask("Number or name:")?;
        let by_number = answer.parse::<usize>().ok().and_then(|number| all.get(number.checked_sub(1)?));
        if let Some(provider) = by_number.map(|(provider, _)| *provider).or_else(|| Provider::find(&answer)) {
            return Ok(provider);
        }
        dialogue.tell(format_args!("There is no provider '{answer}' in the list."))?;
    }
}

/// The endpoint, and a key that it takes where there is none yet. Where no server listens, or another one than was meant, it may be
/// at another address, or be started now.
fn reach(
    dialogue: &Dialogue,
    provider: Provider,
    mut base_url: Option<String>,
) -> Result<(Option<String>, Profile), CliError> {
    login::check_endpoint(&login::profile(provider, base_url.as_deref()))?;
    for _ in 0..TRIES {
        let endpoint = login::profile(provider, base_url.as_deref());
        let (known, reached) = match providers::key_state(&endpoint, &environment) {
            Ok(KeyState::Missing) => (KeyState::Missing, None),
            Ok(known) => (known, Some(super::block_on(providers::check_key(&endpoint, &environment))?)),
            Err(error) => (KeyState::NotNeeded, Some(Err(error))),
        };
        match reached {
            Some(Err(error)) if may_be_elsewhere(&endpoint, &error) => {
                dialogue.tell(in_terms_of_questions(&error))?;
                // A local server may list its models elsewhere; what matters is whether a model answers.
                let is_of_use = takes_no_key(provider)
                    && matches!(error.kind, ModelErrorKind::Invalid | ModelErrorKind::Malformed);
                match ask_address(dialogue, provider, is_of_use)? {
                    Some(url) => base_url = Some(url),
                    None if is_of_use => return Ok((None, endpoint)),
                    None => {}
                }
            }
            reached => return Ok((ask_key(dialogue, &endpoint, known, reached)?, endpoint)),
        }
    }
    Err(CliError::Other("no server was found; nothing was written".to_owned()))
}

/// Returns whether an error may be that of a wrong address. The provider's own endpoint elsewhere has none.
fn may_be_elsewhere(endpoint: &Profile, error: &ModelError) -> bool {
    use ModelErrorKind::{Configuration, Invalid, Malformed, NotRunning, Unreachable};
    let is_own = endpoint.base_url.is_none() && !endpoint.provider.spec().is_local();
    !is_own && matches!(error.kind, Configuration | Invalid | Malformed | NotRunning | Unreachable)
}

fn takes_no_key(provider: Provider) -> bool {
    provider.spec().key_variable.is_none()
}

/// Another address; none to stay with this one.
fn ask_address(dialogue: &Dialogue, provider: Provider, is_of_use: bool) -> Result<Option<String>, CliError> {
    let usual = provider.spec().base_url;
    let otherwise = if is_of_use { "to use this one all the same" } else { "to try this one again" };
    let answer = dialogue.ask(&format!("Its address, such as {usual}, or nothing {otherwise}:"))?;
    Ok((!answer.is_empty()).then(|| completed(&answer, provider)))
}

/// An address with what people leave out of one: the scheme, and the version that all servers have that their users usually run
/// on their own machine.
fn completed(answer: &str, provider: Provider) -> String {
    let is_local = provider.spec().is_local();
    let is_here = ["localhost", "127.", "[::1]"].iter().any(|start| answer.starts_with(start));
    let answer = answer.trim_end_matches('/');
    let (scheme, rest) = match answer.split_once("://") {
        Some(parts) => parts,
        // No key goes over a network in clear text unless the user says so.
        None if is_local || is_here => ("http", answer),
        None => ("https", answer),
    };
    let version = if is_local && !rest.contains(['/', '?']) { "/v1" } else { "" };
    format!("{scheme}://{rest}{version}")
}

/// What is wrong with an endpoint that no profile has yet.
fn in_terms_of_questions(error: &ModelError) -> String {
    error.to_string().replace("The profile's `baseUrl`", "The address").replace("`baseUrl`", "the address")
}

/// A key that the endpoint takes, where there is none yet.
fn ask_key(
    dialogue: &Dialogue,
    profile: &Profile,
    known: KeyState,
    reached: Option<Result<(), ModelError>>,
) -> Result<Option<String>, CliError> {
    let takes_none = takes_no_key(profile.provider);
    if let Some(reached) = reached {
        match reached {
            Ok(()) => return Ok(None),
            // A local server may list its models elsewhere; what matters is whether a model answers.
            Err(error) if error.kind != ModelErrorKind::Unauthorized && !takes_none => {
                return Err(CliError::Other(in_terms_of_questions(&error)));
            }
            Err(error) if error.kind != ModelErrorKind::Unauthorized => return Ok(None),
            Err(_) if known == KeyState::NotNeeded => dialogue.tell("The endpoint asks for a key.")?,
            Err(error) => dialogue.tell(format_args!(
                "The key that is set already was refused: {}",
                in_terms_of_questions(&error)
            ))?,
        }
    }
    for _ in 0..TRIES {
        let question = format!("Key of {} (it is not shown):", profile.provider.as_str());
        let key = dialogue.ask_secret(&question)?;
        match super::block_on(Candidate::new(profile.clone(), Some(key.clone())).check_key())? {
            Ok(()) => return Ok(Some(key)),
            Err(error)
                if matches!(error.kind, ModelErrorKind::Unauthorized | ModelErrorKind::Configuration) =>
            {
                dialogue.tell(in_terms_of_questions(&error))?;
            }
            Err(error) => return Err(CliError::Other(in_terms_of_questions(&error))),
        }
    }
    Err(CliError::Other("the endpoint accepted no key; nothing was written".to_owned()))
}

/// A model of the endpoint's list that answers.
fn choose_model(
    dialogue: &Dialogue,
    candidate: &mut Candidate,
) -> Result<(String, Option<u64>, Probe), CliError> {
    let offered = match super::block_on(candidate.offered_models())? {
        Ok(models) => models,
        Err(error) => {
            dialogue.tell(in_terms_of_questions(&error))?;
            providers::known_models(&candidate.profile)
        }
    };
    for _ in 0..TRIES {
        let model = ask_model(dialogue, &offered)?;
        candidate.profile.model = Some(model.clone());
        dialogue.tell("One short request to see whether it answers …")?;
        match super::block_on(candidate.test())? {
            Ok(probe) => {
                let window = model_setup::window_to_write(&candidate.profile, &offered);
                return Ok((model, window, probe));
            }
            Err(error) => dialogue.tell(in_terms_of_questions(&error))?,
        }
    }
    Err(CliError::Other("no model answered; nothing was written".to_owned()))
}

fn ask_model(dialogue: &Dialogue, offered: &[ModelItem]) -> Result<String, CliError> {
    let mut shown: Vec<&ModelItem> = offered.iter().collect();
    loop {
        for (number, model) in (1..).zip(shown.iter().take(SHOWN)) {
            dialogue.tell(format_args!("  {number:>2}  {}", line(model)))?;
        }
        if shown.len() > SHOWN {
            dialogue.tell(format_args!("  … and {} more", shown.len() - SHOWN))?;
        }
        let answer = dialogue.ask("Model (number, name, or a part of the name):")?;
        let by_number = answer.parse::<usize>().ok().and_then(|number| shown.get(number.checked_sub(1)?));
        if let Some(model) = by_number {
            return Ok(model.id.clone());
        }
        let matching: Vec<&ModelItem> =
            offered.iter().filter(|model| model.id.to_lowercase().contains(&answer.to_lowercase())).collect();
        match matching.as_slice() {
            _ if answer.is_empty() => {}
            _ if offered.is_empty() || offered.iter().any(|model| model.id == answer) => return Ok(answer),
            [] => dialogue.tell(format_args!("The endpoint has no model '{answer}'."))?,
            [one] => return Ok(one.id.clone()),
            _ => shown = matching,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_completed_as_its_server_wants_it() {
        for (provider, answer, expected) in [
            ("ollama", "localhost:9999", "http://localhost:9999/v1"),
            ("ollama", "gpu:11434/", "http://gpu:11434/v1"),
            ("ollama", "http://gpu:11434", "http://gpu:11434/v1"),
            ("vllm", "https://gpu/api/v2", "https://gpu/api/v2"),
            ("openai", "127.0.0.1:8000", "http://127.0.0.1:8000"),
            ("openai", "gateway.example/v1", "https://gateway.example/v1"),
        ] {
            assert_eq!(completed(answer, Provider::find(provider).unwrap()), expected);
        }
    }
}
