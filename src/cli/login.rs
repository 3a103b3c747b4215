//! `roo-lsp login`: keeps a provider's key, once its endpoint has taken it.

use std::io::Write as _;

use super::arguments::Login;
use super::dialogue::Dialogue;
use super::session::environment;
use super::terminal;
use super::{CliError, Ending};
use roo_formats::config::{Directories, Profile, Provider};
use roo_model::providers::{self, KeyStore, ModelError};

/// The name under which a key that is not stored yet is handed to the endpoint.
const CANDIDATE: &str = "ROO_LSP_CANDIDATE_KEY";

/// Asks for the key, tests it and stores it.
pub(super) fn login(arguments: &Login) -> Result<Ending, CliError> {
    let profile = profile(arguments.provider, arguments.base_url.as_deref());
    let name = profile.provider.as_str();
    let store = store()?;
    if arguments.remove {
        let removed = store.remove(&profile).map_err(|error| CliError::Other(error.to_string()))?;
        let text = if removed { "removed" } else { "there was none" };
        writeln!(terminal::stdout(), "key of {name}: {text}")?;
        return Ok(Ending::Done);
    }
    let variable = profile.provider.spec().key_variable;
    if variable.is_none() && profile.base_url.is_none() {
        return Err(CliError::Other(format!("{name} needs no key")));
    }
    let key = Dialogue::new().ask_secret(&format!("Key of {name} (it is not shown):"))?;
    if !arguments.offline {
        super::block_on(test(&profile, &key))?.map_err(|error| {
            CliError::Other(format!(
                "{error} The key was not stored; --offline stores one that can't be tested here."
            ))
        })?;
    }
    store.store(&profile, &key).map_err(|error| CliError::Other(error.to_string()))?;
    let tested = if arguments.offline { "not tested" } else { "the endpoint accepts it" };
    let file = store.file(&profile);
    writeln!(terminal::stdout(), "key of {name}: {tested}; stored in {}", file.display())?;
    let set = |variable: &&str| environment(variable).is_some_and(|value| !value.trim().is_empty());
    if let Some(variable) = variable.filter(|_| profile.base_url.is_none()).filter(set) {
        writeln!(terminal::stderr(), "roo-lsp: {variable} is set and takes precedence over the stored key")?;
    }
    Ok(Ending::Done)
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

/// Checks that an endpoint takes a key.
pub(super) async fn test(profile: &Profile, key: &str) -> Result<(), ModelError> {
    let (profile, environment) = with_key(profile, Some(key));
    providers::check_key(&profile, &environment).await
}

/// A profile with a key that is not stored yet, and the environment that has it.
pub(super) fn with_key(
    profile: &Profile,
    key: Option<&str>,
) -> (Profile, impl Fn(&str) -> Option<String> + Sync) {
    let key = key.map(str::to_owned);
    let named = key.as_ref().map(|_| CANDIDATE.to_owned());
    let profile = Profile { api_key_env: named.or_else(|| profile.api_key_env.clone()), ..profile.clone() };
    (profile, move |name: &str| key.clone().filter(|_| name == CANDIDATE).or_else(|| environment(name)))
}
