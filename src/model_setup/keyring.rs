//! Keys of model endpoints in the system's keyring: a profile reads one by its `apiKeyCommand`.

use std::borrow::Cow;

use roo_formats::config::Profile;
use roo_model::providers::is_usable_key;

use crate::keyring::{KeyringError, KeyringItem};

/// The key of a profile's endpoint.
fn item(profile: &Profile) -> KeyringItem {
    let owner = profile.provider.spec().owner();
    let endpoint = match profile.base_url.as_deref() {
        Some(url) => format!("{owner} {}", without_user(url)),
        None => owner.to_owned(),
    };
    KeyringItem::new(profile.provider.as_str(), "endpoint", endpoint)
}

/// Returns an address without the user and password that it may have: everybody on the machine can read a command line. One
/// that has none stays as it is written, so that the keys that were stored for it are found.
fn without_user(url: &str) -> Cow<'_, str> {
    // As programs read an address, `https:name:word@host` has a password too.
    let scheme = url.find(':').map_or(0, |colon| colon + 1);
    let (scheme, rest) = url.split_at(scheme);
    let host = rest.len() - rest.trim_start_matches(['/', '\\']).len();
    let end = rest[host..].find(['/', '\\', '?', '#']).map_or(rest.len(), |end| host + end);
    match rest[host..end].rfind('@') {
        Some(at) => format!("{scheme}{}{}", &rest[..host], &rest[host + at + 1..]).into(),
        None => url.into(),
    }
}

/// Returns the command that prints the key of a profile's endpoint.
pub(crate) fn lookup(profile: &Profile) -> Vec<String> {
    item(profile).lookup()
}

/// Stores the key of a profile's endpoint.
pub(crate) async fn store(profile: &Profile, key: &str) -> Result<(), KeyringError> {
    if !is_usable_key(key) {
        return Err(KeyringError::Unusable);
    }
    item(profile).store(key).await
}

/// Removes the key of a profile's endpoint; whether there was one.
pub(crate) async fn remove(profile: &Profile) -> Result<bool, KeyringError> {
    item(profile).remove().await
}

#[cfg(test)]
mod tests {
    use roo_formats::config::Provider;

    use super::*;

    #[test]
    fn no_password_is_on_a_command_line() {
        let lookup_of = |url: &str| {
            let base_url = Some(url.to_owned());
            lookup(&Profile { base_url, ..Profile::new(Provider::find("openai").unwrap()) })
        };
        for (url, shown) in [
            ("https://models.example/v1", "https://models.example/v1"),
            ("https://models.example/a@b?c=d@e", "https://models.example/a@b?c=d@e"),
            ("https://me:s3cret@models.example/v1", "https://models.example/v1"),
            ("https://me:s3cret@models.example", "https://models.example"),
            ("https://me:s3@cret@models.example:8080/v1", "https://models.example:8080/v1"),
            ("https:me:s3cret@models.example/v1", "https:models.example/v1"),
            ("https:\\\\me:s3cret@models.example/v1", "https:\\\\models.example/v1"),
        ] {
            let command = lookup_of(url);
            assert_eq!(command[5], format!("openai {shown}"));
            assert_eq!(command[..5], ["secret-tool", "lookup", "service", "roo-lsp", "endpoint"]);
        }
    }
}
