//! Failures of a NATS server or of the way to it, in words for users. No text has a credential in it.

use std::io;
use std::path::PathBuf;

/// A failure of NATS.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NatsError {
    #[error("the address of the NATS server is no URL such as tls://nats.example.com:4222")]
    Address,
    #[error(
        "'{0}' is no name for subjects: it needs words of letters, digits, - and _, with a dot between each two"
    )]
    Name(String),
    #[error("the {what} {} can't be used: {source}", path.display())]
    File { what: &'static str, path: PathBuf, source: io::Error },
    #[error("can't connect to the NATS server {server}: {reason}")]
    Connect { server: String, reason: String },
    #[error(
        "{size} bytes are more than the {limit} that {what} may have; see the limits on the page Workers of the documentation"
    )]
    TooLarge { what: &'static str, size: u64, limit: u64 },
    #[error("NATS can't {doing}: {reason}")]
    Failed { doing: &'static str, reason: String },
}

impl NatsError {
    /// A failed operation, for `map_err`.
    pub(super) fn failed<E: std::fmt::Display>(doing: &'static str) -> impl FnOnce(E) -> Self {
        move |error| Self::Failed { doing, reason: error.to_string() }
    }
}
