//! Keys that `roo-lsp login` keeps: one file for each endpoint in the state directory, for its user alone.
//!
//! Commands of agents can't read that directory. A key from the environment or from a command goes first. The key of a
//! provider's own endpoint is never taken for another one.

use std::io;
use std::path::PathBuf;

use reqwest::Url;

use super::secret::{Secret, is_usable};
use roo_durable::PrivateFile;
use roo_formats::config::{Directories, Profile};

/// No key is longer than this, in bytes.
const MAX_KEY_BYTES: u64 = 64 * 1024;

/// The stored keys of one user.
#[derive(Clone, Debug)]
pub struct KeyStore {
    directory: PathBuf,
}

/// The text to be stored is no key.
#[derive(Debug, thiserror::Error)]
pub enum StoreKeyError {
    /// It can't stand in a request's header.
    #[error("that is not a key: a key is one line of visible ASCII characters")]
    Unusable,
    /// The disk failed.
    #[error("the key can't be stored in {}: {source}", file.display())]
    Disk {
        /// File that was to be written.
        file: PathBuf,
        /// Reason.
        source: io::Error,
    },
}

impl KeyStore {
    /// The store of these directories.
    pub fn new(directories: &Directories) -> Self {
        Self { directory: directories.state.join("keys") }
    }

    /// The store of a process's user; none without a home.
    pub(super) fn from_environment(environment: &dyn Fn(&str) -> Option<String>) -> Option<Self> {
        Directories::from_environment(|name| environment(name).map(Into::into))
            .ok()
            .map(|found| Self::new(&found))
    }

    /// The file of the key for a profile's endpoint, whether or not there is one.
    pub fn file(&self, profile: &Profile) -> PathBuf {
        let owner = profile.provider.spec().owner();
        self.directory.join(match &profile.base_url {
            None => format!("{owner}.key"),
            Some(url) => format!("{owner}@{}.key", origin(url)),
        })
    }

    /// Keeps the key for a profile's endpoint in the place of an older one.
    ///
    /// # Errors
    /// No key, or what the disk says.
    pub fn store(&self, profile: &Profile, key: &str) -> Result<(), StoreKeyError> {
        if !is_usable(key) {
            return Err(StoreKeyError::Unusable);
        }
        let file = self.file(profile);
        PrivateFile::new(&file).replace(key.as_bytes()).map_err(|source| StoreKeyError::Disk { file, source })
    }

    /// Removes the key for a profile's endpoint. Returns whether there was one.
    ///
    /// # Errors
    /// What the disk says.
    pub fn remove(&self, profile: &Profile) -> io::Result<bool> {
        PrivateFile::new(self.file(profile)).remove()
    }

    /// The key for a profile's endpoint, if a usable one is there.
    pub(super) fn read(&self, profile: &Profile) -> Option<Secret> {
        read_key(self.file(profile))
    }
}

/// The key in a file of a store, if a usable one is there.
pub(super) fn read_key(file: PathBuf) -> Option<Secret> {
    let bytes = PrivateFile::new(file).read(MAX_KEY_BYTES).ok()??;
    let text = str::from_utf8(&bytes).ok()?.trim();
    is_usable(text).then(|| Secret::new(text))
}

/// The origin of a URL as a part of a file's name: nothing in it leads to another directory.
fn origin(url: &str) -> String {
    let origin =
        Url::parse(url.trim()).map_or_else(|_| url.to_owned(), |url| url.origin().ascii_serialization());
    origin.chars().map(|c| if c.is_ascii_alphanumeric() || "-.".contains(c) { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use roo_formats::config::Provider;

    #[test]
    fn a_key_is_for_its_user_alone_and_serves_both_formats_of_its_owner() {
        let directory = tempfile::tempdir().unwrap();
        let store = KeyStore { directory: directory.path().join("keys") };
        let profile = |name| Profile::new(Provider::find(name).unwrap());
        let openai = profile("openai");
        assert!(store.read(&openai).is_none());
        store.store(&openai, "sk-old").unwrap();
        store.store(&profile("openai-responses"), "sk-new").unwrap();
        assert_eq!(store.read(&openai).unwrap().expose(), "sk-new");
        assert!(store.read(&profile("anthropic")).is_none());
        let at = |url: &str| Profile { base_url: Some(url.to_owned()), ..profile("openai") };
        assert!(store.read(&at("https://models.example/v1")).is_none(), "the usual key stays at home");
        store.store(&at("https://models.example/v1"), "sk-other").unwrap();
        assert_eq!(store.read(&at("https://models.example/v2")).unwrap().expose(), "sk-other");
        assert!(
            store.read(&at("http://models.example/v1")).is_none(),
            "in plain text it is another endpoint"
        );
        assert_eq!(store.file(&at("../../x")).parent(), Some(store.directory.as_path()));
        let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(store.file(&openai)), 0o600);
        assert_eq!(mode(store.directory.clone()), 0o700);
        assert!(store.remove(&openai).unwrap() && !store.remove(&openai).unwrap());
    }

    #[test]
    fn what_is_no_key_is_not_stored() {
        let directory = tempfile::tempdir().unwrap();
        let store = KeyStore { directory: directory.path().to_owned() };
        for text in ["", "two\nlines", "with space", "é"] {
            let refused = store.store(&Profile::new(Provider::find("openai").unwrap()), text);
            assert!(matches!(refused, Err(StoreKeyError::Unusable)), "{text:?}");
        }
    }
}
