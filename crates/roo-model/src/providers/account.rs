//! What requests have in common whose rates a provider limits together. No requests are made here.

use reqwest::Url;

use super::key::Key;
use super::secret::Secret;
use roo_protocol::ids::Digest;

/// An endpoint's host, with the key that it is asked with. Says neither: only whether two are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AccountId(Digest);

impl AccountId {
    /// The account of the requests to a host, with a key and with further headers that may be keys.
    pub(super) fn new(url: &Url, key: &Key, header_secrets: &[Secret]) -> Self {
        let stored;
        let key: Vec<&str> = match key {
            Key::None => vec![],
            Key::Given(secret) => vec![secret.expose()],
            Key::Stored(key) => {
                stored = key.newest();
                vec![stored.expose()]
            }
            Key::Command(command) => command.argv().collect(),
        };
        let headers = header_secrets.iter().map(Secret::expose);
        let host = url.origin().ascii_serialization();
        let parts: Vec<&str> = [host.as_str()].into_iter().chain(key).chain(headers).collect();
        Self(Digest::of(parts.join("\0")))
    }

    /// The account of all scripts.
    pub(super) fn of_scripts() -> Self {
        Self(Digest::of("scripted"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_a_host_with_a_key() {
        let account = |url: &str, key: &str| {
            AccountId::new(&Url::parse(url).unwrap(), &Key::Given(Secret::new(key)), &[])
        };
        let own = account("https://models.example/v1/chat", "sk-1");
        assert_eq!(own, account("https://models.example/v1/responses?x=1", "sk-1"));
        assert_ne!(own, account("https://models.example/v1/chat", "sk-2"));
        assert_ne!(own, account("https://models.example:8443/v1/chat", "sk-1"));
        assert!(!format!("{own:?}").contains("sk-1"));
    }
}
