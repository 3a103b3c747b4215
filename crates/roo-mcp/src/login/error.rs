//! Reasons why a login does not come about.

use std::io;
use std::time::Duration;

use crate::network::RefusedAddress;

/// Reasons why there is no login. Says what to do; holds no secrets.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    /// The server's own address.
    #[error(transparent)]
    Address(#[from] RefusedAddress),
    /// The server's own address is open to everyone on the way.
    #[error(
        "its address is not encrypted, and everybody on the way could read the tokens; a login needs https"
    )]
    Unencrypted,
    /// An address that the server or its authorization server names.
    #[error("{owner} names an address for {what} that is not used: {address}: {reason}")]
    Named {
        /// Who names it.
        owner: String,
        what: &'static str,
        /// The address, without a query.
        address: String,
        reason: String,
    },
    /// Nothing answers.
    #[error("{host} can't be reached: {reason}")]
    Unreachable {
        /// Host and port.
        host: String,
        reason: String,
    },
    /// The server lets everybody in, and names nobody to log in at.
    #[error("the server answers without a login, and names no authorization server")]
    NotNeeded,
    /// What the server names has no metadata.
    #[error("{address} has no metadata of {what}; report this to the operators of the server")]
    NoMetadata {
        /// Where it was looked for.
        address: String,
        what: &'static str,
    },
    /// The metadata are of another server.
    #[error(
        "the metadata of {server} are those of another server, {named}; a token for one must not reach the other"
    )]
    WrongResource {
        /// The server that the metadata are of.
        named: String,
        server: String,
    },
    /// The metadata are of another authorization server.
    #[error("the metadata of {expected} are those of another authorization server, {named}")]
    WrongIssuer {
        /// The one that the server names.
        expected: String,
        /// The one that the metadata name.
        named: String,
    },
    /// The answer is of another authorization server.
    #[error("the answer in the browser came from {}, not from {expected}", .named.as_deref().unwrap_or("an authorization server that it does not name"))]
    WrongSender {
        /// The one that was asked.
        expected: String,
        /// The one that the answer names.
        named: Option<String>,
    },
    /// The authorization server lacks something that can't be done without.
    #[error("{issuer} does not support {what}, which a login needs")]
    Unsupported {
        /// The authorization server.
        issuer: String,
        /// What it lacks.
        what: &'static str,
    },
    /// The authorization server knows no clients but those that somebody registered.
    #[error(
        "{issuer} lets no client register itself; register one there (a public client with the redirect address http://127.0.0.1/callback), and give its id with --client-id"
    )]
    NoRegistration {
        /// The authorization server.
        issuer: String,
    },
    /// The authorization server did not register the client.
    #[error(
        "{issuer} did not register roo-lsp as a client: {reason}; a client that is registered already is given with --client-id"
    )]
    Registration {
        /// The authorization server.
        issuer: String,
        reason: String,
    },
    /// The port for the answer can't be used.
    #[error("the browser's answer can't be received on 127.0.0.1: {0}")]
    Listener(io::Error),
    /// The user or the authorization server said no.
    #[error("the login was refused: {0}")]
    Refused(String),
    /// Something else than the browser answers.
    #[error("the login was given up after {0} answers that don't belong to it")]
    StrayAnswers(usize),
    /// The browser did not answer.
    #[error("there was no answer from the browser within {} minutes", .0.as_secs() / 60)]
    NoAnswer(Duration),
    /// No token was given.
    #[error("{host} gave no token: {reason}")]
    NoToken {
        /// Host and port.
        host: String,
        reason: String,
    },
    /// The system has no random numbers.
    #[error("the system gives no random numbers")]
    Random,
}
