//! What a login gives, and where it is kept.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use url::Url;

/// The tokens of a login, and what is needed to refresh them. Secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credentials {
    /// The authorization server.
    pub issuer: String,
    /// Address for refreshing.
    pub token_endpoint: String,
    /// The server that the tokens are for.
    pub resource: String,
    /// The client that they were given to.
    pub client: OAuthClient,
    /// Scopes that were granted, separated by spaces; none if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// Goes with every request.
    pub access_token: String,
    /// Gives a new access token; none where a new login is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh_token: Option<String>,
    /// Lifetime of the access token in seconds, and its end in seconds since 1970; none if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expiry: Option<Expiry>,
}

/// When an access token ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expiry {
    /// Its lifetime, in seconds.
    pub lifetime: u64,
    /// Its end, in seconds since 1970.
    pub at: u64,
}

/// A client as an authorization server knows it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OAuthClient {
    pub id: String,
    /// Its secret, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// How it proves to be itself where tokens are given.
    pub authentication: TokenEndpointAuthentication,
}

/// How a client proves to be itself where tokens are given, by its names in RFC 7591.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenEndpointAuthentication {
    /// Not at all: it is a public client.
    None,
    /// By a header.
    ClientSecretBasic,
    /// By a field of the request.
    ClientSecretPost,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("issuer", &self.issuer).finish_non_exhaustive()
    }
}

impl fmt::Debug for OAuthClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuthClient").field("id", &self.id).finish_non_exhaustive()
    }
}

/// What credentials are bound to: the address of a server and the owner of its entry. A server of another address has none
/// of them, whatever its name, and a workspace's server has none of the user's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CredentialKey(Arc<[u8; 32]>);

impl CredentialKey {
    /// The key of a server of the user's, or of the one in this workspace folder.
    pub fn new(url: &str, workspace: Option<&Path>) -> Self {
        let url = match Url::parse(url) {
            Ok(mut parsed) => {
                parsed.set_fragment(None);
                parsed.to_string()
            }
            Err(_) => url.to_owned(),
        };
        let mut hasher = Sha256::new();
        match workspace {
            None => hasher.update("user"),
            Some(folder) => {
                hasher.update("workspace\0");
                hasher.update(folder.as_os_str().as_encoded_bytes());
            }
        }
        // Neither paths nor addresses have this byte.
        hasher.update("\0");
        hasher.update(url);
        Self(Arc::new(hasher.finalize().into()))
    }

    /// Reads a key as it is displayed; none from anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        if !text.is_ascii() || text.len() != 2 * bytes.len() {
            return None;
        }
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).ok()?;
        }
        Some(Self(Arc::new(bytes)))
    }
}

/// The key as hexadecimal digits. They tell nothing of the address, which may hold secrets.
impl fmt::Display for CredentialKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Keeps credentials.
pub trait CredentialStore: Send + Sync {
    /// Reads credentials; none if there are none.
    fn load<'a>(&'a self, key: &'a CredentialKey) -> BoxFuture<'a, Result<Option<Credentials>, StoreError>>;

    /// Puts credentials in the place of those that are there.
    fn replace<'a>(
        &'a self,
        key: &'a CredentialKey,
        credentials: &'a Credentials,
    ) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Waits for the sole right to replace credentials, against other processes too. It ends with the value.
    fn lock<'a>(&'a self, key: &'a CredentialKey) -> BoxFuture<'a, Result<Box<dyn Send>, StoreError>>;
}

/// Credentials can't be read or kept, for this reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct StoreError(pub String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_of_one_address_and_one_owner() {
        let key = CredentialKey::new("https://mcp.example.com/mcp", None);
        assert_eq!(key, CredentialKey::new("HTTPS://mcp.example.com:443/mcp#x", None));
        for other in ["https://mcp.example.com/", "https://mcp.example.org/mcp", "http://mcp.example.com/mcp"]
        {
            assert_ne!(key, CredentialKey::new(other, None), "{other}");
        }
        let of = |folder| CredentialKey::new("https://mcp.example.com/mcp", Some(Path::new(folder)));
        assert_ne!(key, of("/a"));
        assert_ne!(of("/a"), of("/b"));
    }

    #[test]
    fn secrets_are_not_printed() {
        let credentials = Credentials {
            issuer: "https://auth.example.com".to_owned(),
            token_endpoint: String::new(),
            resource: String::new(),
            client: OAuthClient {
                id: "me".to_owned(),
                secret: Some("s3cret".to_owned()),
                authentication: TokenEndpointAuthentication::ClientSecretBasic,
            },
            scope: None,
            access_token: "s3cret".to_owned(),
            refresh_token: Some("s3cret".to_owned()),
            expiry: None,
        };
        let shown = format!("{credentials:?} {:?}", credentials.client);
        assert!(shown.contains("auth.example.com") && !shown.contains("s3cret"), "{shown}");
    }
}
