//! `roo-lsp setup`: setup of a model that answers, by four questions.
//!
//! The key and the profile are written at the end, after a request has worked.

use std::fs;
use std::io::{self, Write as _};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::timeout;

use super::arguments::{Common, Setup};
use super::dialogue::Dialogue;
use super::login::{self, with_key};
use super::models::line;
use super::session::{SessionContext, environment};
use super::terminal;
use super::{CliError, Ending};
use roo_durable::PrivateFile;
use roo_formats::config::edit::{self, EditError};
use roo_formats::config::{Profile, Provider, Settings, WireFormat};
use roo_model::providers::{self, ModelErrorKind, Probe};
use roo_protocol::model::ModelItem;

/// Time that a server on this machine may take to say that it is there.
const LOCAL_ANSWER: Duration = Duration::from_secs(2);
/// Number of models that are shown at once.
const SHOWN: usize = 20;
/// Number of times that a key or a model may be wrong.
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
    let endpoint = login::profile(provider, arguments.base_url.as_deref());
    let key = ask_key(&dialogue, &endpoint)?;
    let (profile, environment) = with_key(&endpoint, key.as_deref());
    let (model, probe) = choose_model(&dialogue, profile, &environment)?;
    dialogue.tell(worked(&model, &probe))?;

    if let Some(key) = &key {
        login::store()?.store(&endpoint, key).map_err(|error| CliError::Other(error.to_string()))?;
    }
    let name = arguments.profile.clone().unwrap_or_else(|| free_name(&settings, provider));
    let mut fields = vec![("provider", provider.as_str())];
    fields.extend(endpoint.base_url.as_deref().map(|url| ("baseUrl", url)));
    fields.push(("model", &model));
    let file = &context.config_file;
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(unwritten(file, &error)),
    };
    match edit::with_profile(&text, &name, &fields) {
        Ok(text) => {
            // A link, as to a repository of dotfiles, stays one.
            let target = file.canonicalize().unwrap_or_else(|_| file.clone());
            PrivateFile::new(target).replace(text.as_bytes()).map_err(|error| unwritten(file, &error))?;
            writeln!(
                terminal::stdout(),
                "profile {name}: {model} of {}, written to {}\nTry it: roo-lsp run \"Say what this project does\"",
                provider.as_str(),
                file.display()
            )?;
            Ok(Ending::Done)
        }
        Err(error @ (EditError::Unusual | EditError::Exists | EditError::Unreadable)) => {
            let profile = edit::with_profile("", &name, &fields).unwrap_or_default();
            Err(CliError::Other(format!("{}: {error}. What to add:\n{profile}", file.display())))
        }
    }
}

fn unwritten(file: &std::path::Path, error: &io::Error) -> CliError {
    CliError::Other(format!("can't write {}: {error}", file.display()))
}

/// `default`, or what is free.
fn free_name(settings: &Settings, provider: Provider) -> String {
    let names = ["default".to_owned(), provider.as_str().to_owned()];
    let numbered = (2..).map(|number| format!("{}-{number}", provider.as_str()));
    names.into_iter().chain(numbered).find(|name| !settings.profiles.contains_key(name)).unwrap_or_default()
}

/// Servers on this machine that answer come first.
fn choose_provider(dialogue: &Dialogue) -> Result<Provider, CliError> {
    let (local, others): (Vec<Provider>, Vec<Provider>) = Provider::all()
        .filter(|provider| provider.spec().wire_format != WireFormat::Script)
        .partition(|provider| provider.spec().is_local());
    let running = super::block_on(join_all(local.iter().map(|provider| is_running(*provider))))?;
    let (running, silent): (Vec<_>, Vec<_>) = local.into_iter().zip(running).partition(|(_, runs)| *runs);
    let first = running.len();
    let all: Vec<Provider> = running
        .into_iter()
        .map(|(provider, _)| provider)
        .chain(others)
        .chain(silent.into_iter().map(|(provider, _)| provider))
        .collect();
    dialogue.tell("Who serves the model?")?;
    for (number, provider) in (1..).zip(&all) {
        let runs = if number <= first { " It is running." } else { "" };
        dialogue.tell(format_args!(
            "  {number:>2}  {:<17} {}{runs}",
            provider.as_str(),
            provider.spec().description
        ))?;
    }
    loop {
        let answer = dialogue.ask("Number or name:")?;
        let by_number = answer.parse::<usize>().ok().and_then(|number| all.get(number.checked_sub(1)?));
        if let Some(provider) = by_number.copied().or_else(|| Provider::find(&answer)) {
            return Ok(provider);
        }
        dialogue.tell(format_args!("There is no provider '{answer}' in the list."))?;
    }
}

async fn is_running(provider: Provider) -> bool {
    let profile = Profile::new(provider);
    match timeout(LOCAL_ANSWER, providers::list_models(&profile, &environment)).await {
        Ok(Ok(_)) => true,
        Ok(Err(error)) => error.kind == ModelErrorKind::Unauthorized,
        Err(_) => false,
    }
}

/// A key that the endpoint takes, where there is none yet.
fn ask_key(dialogue: &Dialogue, profile: &Profile) -> Result<Option<String>, CliError> {
    let takes_none = profile.provider.spec().key_variable.is_none();
    if providers::has_key(profile, &environment) {
        match super::block_on(providers::check_key(profile, &environment))? {
            Ok(()) => return Ok(None),
            // A local server may list its models elsewhere; what matters is whether a model answers.
            Err(error) if error.kind != ModelErrorKind::Unauthorized && !takes_none => {
                return Err(CliError::Other(error.to_string()));
            }
            Err(error) if error.kind != ModelErrorKind::Unauthorized => return Ok(None),
            Err(error) => dialogue.tell(error)?,
        }
    }
    for _ in 0..TRIES {
        let question = format!("Key of {} (it is not shown):", profile.provider.as_str());
        let key = dialogue.ask_secret(&question)?;
        match super::block_on(login::test(profile, &key))? {
            Ok(()) => return Ok(Some(key)),
            Err(error)
                if matches!(error.kind, ModelErrorKind::Unauthorized | ModelErrorKind::Configuration) =>
            {
                dialogue.tell(error)?;
            }
            Err(error) => return Err(CliError::Other(error.to_string())),
        }
    }
    Err(CliError::Other("the endpoint accepted no key; nothing was written".to_owned()))
}

/// A model of the endpoint's list that answers.
fn choose_model(
    dialogue: &Dialogue,
    mut profile: Profile,
    environment: &(dyn Fn(&str) -> Option<String> + Sync),
) -> Result<(String, Probe), CliError> {
    let offered = match super::block_on(providers::offered_models(&profile, environment))? {
        Ok(models) => models,
        Err(error) => {
            dialogue.tell(error)?;
            providers::known_models(&profile)
        }
    };
    for _ in 0..TRIES {
        let model = ask_model(dialogue, &offered)?;
        profile.model = Some(model.clone());
        dialogue.tell("One short request to see whether it answers …")?;
        match super::block_on(providers::probe(&profile, environment))? {
            Ok(probe) => return Ok((model, probe)),
            Err(error) => dialogue.tell(error)?,
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

/// Returns the line about a model that answered a short request.
pub(super) fn worked(model: &str, probe: &Probe) -> String {
    let cost = match probe.usage.cost_usd {
        0.0 => String::new(),
        cost => format!(" for ${cost:.6}"),
    };
    format!("{model} answered in {:.1} s{cost}", probe.took.as_secs_f64())
}
