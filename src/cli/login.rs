//! `roo-lsp login`: keeps a provider's key, once its endpoint has taken it.

use std::io::Write as _;

use super::arguments::Login;
use super::dialogue::Dialogue;
use super::terminal;
use super::{CliError, Ending};
use crate::model_setup::{Candidate, environment, keyring};
use roo_formats::config::{Directories, Profile, Provider};
use roo_model::providers::{self, KeyState, KeyStore};

/// Asks for the key, tests it and stores it.
pub(super) fn login(arguments: &Login) -> Result<Ending, CliError> {
    let profile = profile(arguments.provider, arguments.base_url.as_deref());
    let name = profile.provider.as_str();
    let store = store()?;
    if arguments.remove {
        let removed = match arguments.keyring {
            true => super::block_on(keyring::remove(&profile))?.map_err(failed)?,
            false => store.remove(&profile).map_err(failed)?,
        };
        let text = if removed { "removed" } else { "there was none" };
        writeln!(terminal::stdout(), "key of {name}: {text}")?;
        return Ok(Ending::Done);
    }
    let variable = profile.provider.spec().key_variable;
    if variable.is_none() && profile.base_url.is_none() {
        return Err(CliError::Other(format!("{name} needs no key")));
    }
    check_endpoint(&profile)?;
    let key = Dialogue::new().ask_secret(&format!("Key of {name} (it is not shown):"))?;
    if !arguments.offline {
        let candidate = Candidate::new(profile.clone(), Some(key.clone()));
        super::block_on(candidate.check_key())?.map_err(|error| {
            CliError::Other(format!(
                "{error} The key was not stored; --offline stores one that can't be tested here."
            ))
        })?;
    }
    let tested = if arguments.offline { "not tested" } else { "the endpoint accepts it" };
    if arguments.keyring {
        super::block_on(keyring::store(&profile, &key))?.map_err(failed)?;
        let command = serde_json::to_string(&keyring::lookup(&profile)).map_err(failed)?;
        writeln!(
            terminal::stdout(),
            "key of {name}: {tested}; stored in the keyring\nA profile uses it by:\n  apiKeyCommand: {command}"
        )?;
        return Ok(Ending::Done);
    }
    store.store(&profile, &key).map_err(failed)?;
    let file = store.file(&profile);
    writeln!(terminal::stdout(), "key of {name}: {tested}; stored in {}", file.display())?;
    let set = |variable: &&str| environment(variable).is_some_and(|value| !value.trim().is_empty());
    if let Some(variable) = variable.filter(|_| profile.base_url.is_none()).filter(set) {
        writeln!(terminal::stderr(), "roo-lsp: {variable} is set and takes precedence over the stored key")?;
    }
    Ok(Ending::Done)
}

fn failed(error: impl std::fmt::Display) -> CliError {
    CliError::Other(error.to_string())
}

/// A provider's own endpoint, or another one that speaks like it.
pub(super) fn profile(provider: Provider, base_url: Option<&str>) -> Profile {
    Profile { base_url: base_url.map(str::to_owned), ..Profile::new(provider) }
}

/// The user's stored keys.
pub(super) fn store() -> Result<KeyStore, CliError> {
    let directories = Directories::from_environment(|name| std::env::var_os(name));
    Ok(KeyStore::new(&directories.map_err(super::SessionError::from)?))
}

/// Refuses an endpoint whose address can't be used, before anything is asked.
pub(super) fn check_endpoint(profile: &Profile) -> Result<KeyState, CliError> {
    providers::key_state(profile, &environment)
        .map_err(|error| CliError::Usage(error.to_string().replace("The profile's `baseUrl`", "--base-url")))
}
