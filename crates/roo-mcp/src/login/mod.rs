//! Logging in to HTTP servers by OAuth 2.1: what a server and its authorization server say of themselves (RFC 9728,
//! RFC 8414), registration (RFC 7591), the user's consent in a browser (PKCE, redirect to the loopback), and tokens that are
//! bound to the server's address (RFC 8707) and refreshed when they expire.
//!
//! What is not here: where credentials are kept ([`CredentialStore`]), and who opens the browser. Addresses that servers name
//! obey the rules of `crate::network`, and those of `web.rs` besides. Errors and logs hold no secrets.

mod callback;
mod challenge;
mod credentials;
mod discovery;
mod error;
mod flow;
mod held;
mod token;
mod web;

pub(crate) use self::challenge::Challenge;
pub(crate) use self::held::{HeldCredentials, RefreshError};

pub use self::credentials::{
    CredentialKey, CredentialStore, Credentials, OAuthClient, StoreError, TokenEndpointAuthentication,
};
pub use self::error::LoginError;
pub use self::flow::{DiscoveredLogin, GivenClient, LoginRequest, PendingLogin, discover};
