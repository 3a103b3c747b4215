//! Setting up a model, for the terminal and for clients' forms: a profile that is not written yet, the short request that
//! shows whether it answers, its key, and its place in the user's settings file. Nothing here asks a person.

mod draft;
pub(crate) mod keyring;
mod settings_edit;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::keyring::KeyringError;
use roo_formats::config::edit::EditError;
use roo_formats::config::{Profile, Provider, Settings, SettingsProblem, WireFormat};
use roo_model::providers::{self, KeyStore, ModelError, ModelErrorKind, Probe, StoreKeyError};
use roo_protocol::model::ModelItem;

pub(crate) use self::draft::{Draft, DraftError};
pub(crate) use self::settings_edit::{InvalidName, LockedSettings, ProfileEdit, ProfileName, UsableSettings};

/// The name under which a key that is not stored yet is handed to the endpoint.
const CANDIDATE: &str = "ROO_LSP_CANDIDATE_KEY";

/// Time that a server on this machine may take to say that it is there.
const LOCAL_ANSWER: Duration = Duration::from_secs(2);

/// A variable of the process's environment.
pub(crate) fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// A profile to be tried, with the key if that is not stored yet.
#[derive(Clone)]
pub(crate) struct Candidate {
    pub(crate) profile: Profile,
    key: Option<String>,
}

/// The key is not shown.
impl fmt::Debug for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Candidate").field(&self.profile).finish()
    }
}

impl Candidate {
    pub(crate) fn new(profile: Profile, key: Option<String>) -> Self {
        Self { profile, key }
    }

    /// Has the profile take its key from the keyring, if there is one to be stored; the command that it takes it by.
    pub(crate) fn keep_in_keyring(&mut self) -> Option<&[String]> {
        self.key.as_ref()?;
        Some(self.profile.api_key_command.insert(keyring::lookup(&self.profile)))
    }

    /// The profile, and the environment that has its key.
    fn asked(&self) -> (Profile, impl Fn(&str) -> Option<String> + Sync + use<>) {
        let key = self.key.clone();
        let mut profile = self.profile.clone();
        if key.is_some() {
            profile.api_key_env = Some(CANDIDATE.to_owned());
            profile.api_key_command = None;
        }
        (profile, move |name: &str| key.clone().filter(|_| name == CANDIDATE).or_else(|| environment(name)))
    }

    /// Refuses a key that can't be one.
    fn check_form(&self) -> Result<(), ModelError> {
        let message = match self.key.as_deref() {
            Some("") => "No key was given.",
            Some(key) if !providers::is_usable_key(key) => {
                "That is not a key: a key is one line of visible ASCII characters."
            }
            _ => return Ok(()),
        };
        Err(ModelError { kind: ModelErrorKind::Configuration, message: message.to_owned() })
    }

    /// Checks that the endpoint takes the key.
    pub(crate) async fn check_key(&self) -> Result<(), ModelError> {
        self.check_form()?;
        let (profile, environment) = self.asked();
        providers::check_key(&profile, &environment).await
    }

    /// Returns the models that the endpoint offers.
    pub(crate) async fn offered_models(&self) -> Result<Vec<ModelItem>, ModelError> {
        self.check_form()?;
        let (profile, environment) = self.asked();
        providers::offered_models(&profile, &environment).await
    }

    /// Makes one short request.
    pub(crate) async fn test(&self) -> Result<Probe, ModelError> {
        self.check_form()?;
        if self.profile.model.as_deref().is_none_or(|model| model.trim().is_empty())
            && !self.profile.plays_script()
        {
            let message =
                "The profile names no model; choose one of those that the endpoint lists.".to_owned();
            return Err(ModelError { kind: ModelErrorKind::Configuration, message });
        }
        let (profile, environment) = self.asked();
        providers::probe(&profile, &environment).await
    }
}

/// The context window that an endpoint tells of a model in its list, where the catalogue knows none.
pub(crate) fn window_to_write(profile: &Profile, offered: &[ModelItem]) -> Option<u64> {
    if profile.context_window().is_some() {
        return None;
    }
    let item = offered.iter().find(|item| Some(&item.id) == profile.model.as_ref())?;
    item.context_window
}

/// The name for a new profile: `default`, or what is free.
pub(crate) fn free_name(settings: &Settings, provider: Provider) -> ProfileName {
    let usual = [ProfileName::usual(), ProfileName::from_provider(provider, None)].into_iter();
    let numbered = (2..).map(|number| ProfileName::from_provider(provider, Some(number)));
    let is_free = |name: &ProfileName| !settings.profiles.contains_key(name.as_str());
    usual.chain(numbered).find(is_free).unwrap_or_else(ProfileName::usual)
}

/// The providers to choose from, each with whether it is known to run: servers on this machine that answer come first,
/// those that don't come last.
pub(crate) async fn offered_providers() -> Vec<(Provider, bool)> {
    let (local, others): (Vec<Provider>, Vec<Provider>) = Provider::all()
        .filter(|provider| provider.spec().wire_format != WireFormat::Script)
        .partition(|provider| provider.spec().is_local());
    let running = join_all(local.iter().map(|provider| is_running(*provider))).await;
    let (running, silent): (Vec<_>, Vec<_>) = local.into_iter().zip(running).partition(|(_, runs)| *runs);
    let others = others.into_iter().map(|provider| (provider, false));
    running.into_iter().chain(others).chain(silent).collect()
}

async fn is_running(provider: Provider) -> bool {
    let profile = Profile::new(provider);
    match timeout(LOCAL_ANSWER, providers::list_models(&profile, &environment)).await {
        Ok(Ok(_)) => true,
        Ok(Err(error)) => error.kind == ModelErrorKind::Unauthorized,
        Err(_) => false,
    }
}

/// Returns the line about a model that answered a short request.
pub(crate) fn worked(model: &str, probe: &Probe) -> String {
    let cost = match probe.usage.cost_usd {
        0.0 => String::new(),
        cost => format!(" for ${cost:.6}"),
    };
    format!("{model} answered in {:.1} s{cost}", probe.took.as_secs_f64())
}

/// Place in which a new key is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyPlace {
    /// A file of the user's state directory.
    File,
    /// The system's keyring.
    Keyring,
}

/// Reasons why a profile was not written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WriteError {
    #[error("can't write {}: {source}", file.display())]
    Disk { file: PathBuf, source: io::Error },
    #[error(transparent)]
    Read(#[from] SettingsProblem),
    #[error("the settings file can't be changed while it is invalid: {0}")]
    Broken(String),
    #[error("{} was saved by another program meanwhile, so it was left as it is; try again", .0.display())]
    Saved(PathBuf),
    #[error("{}: {error}", file.display())]
    Edit { file: PathBuf, error: EditError },
    #[error(transparent)]
    Store(#[from] StoreKeyError),
    #[error(transparent)]
    Keyring(#[from] KeyringError),
    #[error("the server is ending")]
    Interrupted,
}

/// Writes a profile to the settings file, and stores its key if it has one that is not stored yet. Nothing is stored before it
/// is known that the profile can be written; until it is, no other process edits the file.
pub(crate) async fn save(
    file: &Path,
    profile: ProfileEdit,
    candidate: &Candidate,
    place: KeyPlace,
    store: &KeyStore,
) -> Result<(), WriteError> {
    let (locked, edit) = (file.to_owned(), profile.clone());
    let locked = on_disk(move || {
        let locked = LockedSettings::lock(locked)?;
        locked.check(|before| edit.apply(before.text()))?;
        Ok(locked)
    })
    .await?;
    store_key(candidate, place, store).await?;
    on_disk(move || locked.edit(|before| profile.apply(before.text())).map(drop)).await
}

/// Does what may wait for the disk.
async fn on_disk<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, WriteError> + Send + 'static,
) -> Result<T, WriteError> {
    spawn_blocking(work).await.unwrap_or(Err(WriteError::Interrupted))
}

/// Stores the key of a candidate, if it has one that is not stored yet.
async fn store_key(candidate: &Candidate, place: KeyPlace, store: &KeyStore) -> Result<(), WriteError> {
    let Some(key) = candidate.key.clone() else { return Ok(()) };
    match place {
        KeyPlace::File => {
            let (store, profile) = (store.clone(), candidate.profile.clone());
            on_disk(move || Ok(store.store(&profile, &key)?)).await?;
        }
        KeyPlace::Keyring => keyring::store(&candidate.profile, &key).await?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use roo_formats::config::Directories;
    use roo_formats::config::edit::{OtherFields, ProfileFields};

    use super::*;

    #[tokio::test]
    async fn no_key_is_stored_for_a_profile_that_can_not_be_written() {
        let directory = tempfile::tempdir().unwrap();
        let directories = Directories {
            config: directory.path().join("config"),
            state: directory.path().join("state"),
            home: None,
            settings_file: None,
        };
        let (file, store) = (directories.config_file(), KeyStore::new(&directories));
        let candidate =
            Candidate::new(Profile::new(Provider::find("openai").unwrap()), Some("sk-0123".to_owned()));
        let fields = ProfileFields {
            named: vec![("provider".to_owned(), "openai".into())],
            others: OtherFields::Keep,
        };
        let profile = ProfileEdit { name: "mine".parse().unwrap(), fields, is_default: true, before: None };
        fs::create_dir(&directories.config).unwrap();
        for unusable in [
            "profiles: { a: { provider: openai } }\n",
            "limits: 3\n",
            "profiles:\n  mine:\n    provider: vllm\n",
        ] {
            fs::write(&file, unusable).unwrap();
            let saved = save(&file, profile.clone(), &candidate, KeyPlace::File, &store).await;
            assert!(saved.is_err() && !store.file(&candidate.profile).exists(), "{unusable}");
        }
        fs::write(&file, "mode: code\n").unwrap();
        save(&file, profile, &candidate, KeyPlace::File, &store).await.unwrap();
        assert!(store.file(&candidate.profile).exists());
        let written = fs::read_to_string(&file).unwrap();
        assert_eq!(written, "mode: code\nprofile: mine\nprofiles:\n  mine:\n    provider: openai\n");
    }
}
