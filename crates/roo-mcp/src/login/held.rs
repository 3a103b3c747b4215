//! The credentials of a server that is connected to: its token, refreshed when it expires or the server refuses it.

use std::sync::Arc;

use roo_sandbox::egress::Resolve;
use tokio::sync::Mutex;

use super::credentials::{CredentialKey, CredentialStore, Credentials, StoreError};
use super::error::LoginError;
use super::token::{self, TokenError};
use super::web::Web;
use crate::network::AddressPolicy;

/// Time before the end of a token at which it is refreshed, in seconds; half of its lifetime if that is shorter.
const EARLY: u64 = 30;

/// Credentials in use. Clones are the same ones.
#[derive(Clone)]
pub(crate) struct HeldCredentials(Arc<Held>);

struct Held {
    key: CredentialKey,
    store: Arc<dyn CredentialStore>,
    web: Web,
    current: Mutex<Current>,
}

struct Current {
    credentials: Credentials,
    /// True if the store has older ones, as it failed to take these.
    is_unstored: bool,
}

/// Reasons why there is no usable token.
#[derive(Clone, Debug)]
pub(crate) enum RefreshError {
    /// The user has to log in again, for this reason.
    NeedsLogin(String),
    /// The authorization server can't be reached.
    Unavailable(String),
    /// The credentials can't be read or kept.
    Store(String),
}

impl From<StoreError> for RefreshError {
    fn from(StoreError(reason): StoreError) -> Self {
        Self::Store(reason)
    }
}

impl HeldCredentials {
    /// Reads the credentials of a server; none if there are none.
    pub(crate) async fn load(
        key: CredentialKey,
        store: Arc<dyn CredentialStore>,
        server: &str,
        policy: AddressPolicy,
        resolver: Arc<dyn Resolve>,
        user_agent: String,
    ) -> Result<Option<Self>, RefreshError> {
        let Some(credentials) = store.load(&key).await? else { return Ok(None) };
        // They were given for this address, so it is one that may have them.
        let web = Web::new(server, policy, resolver, user_agent)
            .map_err(|error| RefreshError::NeedsLogin(error.to_string()))?;
        Ok(Some(Self(Arc::new(Held {
            key,
            store,
            web,
            current: Mutex::new(Current { credentials, is_unstored: false }),
        }))))
    }

    /// The token for the next request.
    pub(crate) async fn token(&self) -> Result<String, RefreshError> {
        let current = self.0.current.lock().await;
        match is_over(&current.credentials, token::now()) {
            false => Ok(current.credentials.access_token.clone()),
            true => {
                let over = current.credentials.access_token.clone();
                drop(current);
                self.other_than(over).await
            }
        }
    }

    /// The token for a request that was refused with this one.
    pub(crate) async fn token_after(&self, refused: String) -> Result<String, RefreshError> {
        self.other_than(refused).await
    }

    /// Another token than this one. A caller that gives up does not end the refresh: what it would lose is the login.
    async fn other_than(&self, old: String) -> Result<String, RefreshError> {
        let held = Arc::clone(&self.0);
        let refreshed = tokio::spawn(async move { held.refresh(&old).await });
        refreshed.await.unwrap_or_else(|error| Err(RefreshError::Unavailable(error.to_string())))
    }
}

impl Held {
    async fn refresh(&self, old: &str) -> Result<String, RefreshError> {
        let mut current = self.current.lock().await;
        let Current { credentials: current, is_unstored } = &mut *current;
        if current.access_token != old {
            return Ok(current.access_token.clone());
        }
        // Refresh tokens are often good for one use: of several processes one refreshes, and the others take what it got.
        let _lock = self.store.lock(&self.key).await?;
        let Some(stored) = self.store.load(&self.key).await? else {
            return Err(RefreshError::NeedsLogin("you logged out".to_owned()));
        };
        // Refresh tokens that are used a second time look stolen, and end the login.
        if !*is_unstored {
            *current = stored;
        }
        if current.access_token != old && !is_over(current, token::now()) {
            return Ok(current.access_token.clone());
        }
        let Some(refresh) = current.refresh_token.clone() else {
            return Err(RefreshError::NeedsLogin("it has ended and can't be refreshed".to_owned()));
        };
        let unavailable = |error: LoginError| RefreshError::Unavailable(error.to_string());
        let endpoint =
            self.web.allow(&current.issuer, "tokens", &current.token_endpoint).map_err(unavailable)?;
        let grant =
            [("grant_type", "refresh_token"), ("refresh_token", &refresh), ("resource", &current.resource)];
        let tokens = token::request(&self.web, &endpoint, &current.client, &grant).await;
        let tokens = tokens.map_err(|error| match error {
            TokenError::Refused(code) => RefreshError::NeedsLogin(format!("it can't be refreshed ({code})")),
            TokenError::Failed(error) => unavailable(error),
        })?;
        current.access_token = tokens.access;
        current.refresh_token = tokens.refresh.or(Some(refresh));
        current.scope = tokens.scope.or(current.scope.take());
        current.expiry = tokens.expiry;
        let stored = self.store.replace(&self.key, current).await;
        *is_unstored = stored.is_err();
        if let Err(StoreError(reason)) = stored {
            tracing::warn!(%reason, "the refreshed login of an MCP server can't be kept; it ends with this process");
        }
        Ok(current.access_token.clone())
    }
}

/// Whether a token has ended, or nearly so.
fn is_over(credentials: &Credentials, now: u64) -> bool {
    credentials.expiry.is_some_and(|expiry| now.saturating_add(EARLY.min(expiry.lifetime / 2)) >= expiry.at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::login::credentials::{Expiry, OAuthClient, TokenEndpointAuthentication};

    #[test]
    fn a_token_is_refreshed_shortly_before_it_ends() {
        let of = |expiry| Credentials {
            issuer: String::new(),
            token_endpoint: String::new(),
            resource: String::new(),
            client: OAuthClient {
                id: String::new(),
                secret: None,
                authentication: TokenEndpointAuthentication::None,
            },
            scope: None,
            access_token: String::new(),
            refresh_token: None,
            expiry,
        };
        let long = of(Some(Expiry { lifetime: 3600, at: 4600 }));
        assert_eq!([4569, 4570, 5000].map(|now| is_over(&long, now)), [false, true, true]);
        let short = of(Some(Expiry { lifetime: 10, at: 1010 }));
        assert_eq!([1004, 1005].map(|now| is_over(&short, now)), [false, true]);
        assert!(!is_over(&of(None), u64::MAX));
    }
}
