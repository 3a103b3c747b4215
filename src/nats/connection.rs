//! The connection to a NATS server: who connects, over what, and messages that nobody keeps.
//!
//! Without TLS only a server of this machine is reached, unless the user says otherwise: prompts, code and logs go over it. A
//! connection that is lost comes back by itself.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use async_nats::{Client, ConnectOptions, Event, ServerAddr};
use futures_util::StreamExt as _;
use percent_encoding::percent_decode_str;
use tokio::sync::watch;

use super::error::NatsError;
use super::names::Prefix;

/// The longest pause between two attempts to reach a server again.
const MAX_PAUSE: Duration = Duration::from_secs(5);
/// Time to wait for an answer.
const ANSWER: Duration = Duration::from_secs(10);
/// Schemes of addresses, and whether they say that TLS is used.
const SCHEMES: &[(&str, bool)] = &[("nats", false), ("tls", true)];

/// Address of a server. What is in it to log in with is kept apart and never shown.
#[derive(Clone)]
pub(crate) struct ServerAddress {
    server: ServerAddr,
    login: Option<Login>,
}

/// What was part of an address to log in with.
#[derive(Clone)]
enum Login {
    Password { user: String, password: String },
    Token(String),
}

impl FromStr for ServerAddress {
    type Err = NatsError;

    fn from_str(text: &str) -> Result<Self, NatsError> {
        let server: ServerAddr = text.parse().map_err(|_| NatsError::Address)?;
        if !SCHEMES.iter().any(|(scheme, _)| *scheme == server.scheme()) {
            return Err(NatsError::Address);
        }
        let mut url = server.into_inner();
        let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let login = match (decoded(url.username()), url.password().map(decoded)) {
            (user, Some(password)) => Some(Login::Password { user, password }),
            (token, None) => Some(token).filter(|token| !token.is_empty()).map(Login::Token),
        };
        // The client's own messages have the address.
        url.set_username("").and_then(|()| url.set_password(None)).map_err(|()| NatsError::Address)?;
        let server = ServerAddr::from_url(url).map_err(|_| NatsError::Address)?;
        Ok(Self { server, login })
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.server.host(), self.server.port())
    }
}

impl fmt::Debug for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl ServerAddress {
    fn says_tls(&self) -> bool {
        SCHEMES.iter().any(|(scheme, is_tls)| *is_tls && *scheme == self.server.scheme())
    }

    fn is_of_this_machine(&self) -> bool {
        let host = self.server.host().trim_matches(['[', ']']);
        host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
    }
}

/// A server, and how this process shows who it is.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) address: ServerAddress,
    /// What subjects begin with.
    pub(crate) prefix: Prefix,
    /// File of a user's JWT and key (`.creds`).
    pub(crate) credentials: Option<PathBuf>,
    /// Certificates of authorities, in place of the system's.
    pub(crate) authorities: Option<PathBuf>,
    /// Certificate of this client, and its key.
    pub(crate) certificate: Option<(PathBuf, PathBuf)>,
    /// True if a server of another machine may be reached without TLS.
    pub(crate) plaintext: bool,
}

impl Server {
    fn needs_tls(&self) -> bool {
        let has_files = self.authorities.is_some() || self.certificate.is_some();
        has_files || self.address.says_tls() || !(self.plaintext || self.address.is_of_this_machine())
    }
}

/// A connection. Clones share it.
#[derive(Clone)]
pub(crate) struct Connection {
    client: Client,
    prefix: Prefix,
    is_connected: watch::Receiver<bool>,
}

/// A message that came in.
#[derive(Debug)]
pub(crate) struct IncomingMessage {
    pub(crate) subject: String,
    pub(crate) payload: Vec<u8>,
    reply: Option<String>,
}

/// Messages of a subject as they come in.
pub(crate) struct Subscription(async_nats::Subscriber);

impl Subscription {
    /// The next message; none when the connection is closed.
    pub(crate) async fn next(&mut self) -> Option<IncomingMessage> {
        let message = self.0.next().await?;
        Some(IncomingMessage {
            subject: message.subject.to_string(),
            payload: message.payload.to_vec(),
            reply: message.reply.map(|reply| reply.to_string()),
        })
    }
}

impl Connection {
    /// Connects. `name`: what the server lists this client as.
    ///
    /// # Errors
    /// [`NatsError::File`], or [`NatsError::Connect`] when the server can't be reached or refuses.
    pub(crate) async fn open(server: &Server, name: &str) -> Result<Self, NatsError> {
        let (connected, is_connected) = watch::channel(true);
        let shown = server.address.to_string();
        let told = shown.clone();
        let on_event = move |event| {
            match &event {
                Event::Connected => {
                    connected.send_replace(true);
                    tracing::info!("connected to the NATS server {told}");
                }
                Event::Disconnected => {
                    connected.send_replace(false);
                    tracing::warn!("the connection to the NATS server {told} is lost; it is tried again");
                }
                Event::ServerError(error) => tracing::warn!("the NATS server {told} says: {error}"),
                Event::SlowConsumer(_) => tracing::warn!("messages of the NATS server {told} were dropped"),
                _ => {}
            }
            std::future::ready(())
        };
        let mut options = ConnectOptions::new()
            .name(name)
            .max_reconnects(None::<usize>)
            .reconnect_delay_callback(pause)
            .request_timeout(Some(ANSWER))
            .require_tls(server.needs_tls())
            .event_callback(on_event);
        options = match server.address.login.clone() {
            Some(Login::Password { user, password }) => options.user_and_password(user, password),
            Some(Login::Token(token)) => options.token(token),
            None => options,
        };
        if let Some(path) = &server.credentials {
            let file = |source| NatsError::File { what: "credentials file", path: path.clone(), source };
            options = options.credentials_file(path).await.map_err(file)?;
        }
        let (certificate, key) =
            server.certificate.as_ref().map(|(certificate, key)| (certificate, key)).unzip();
        let files = [
            ("file of authorities", server.authorities.as_ref()),
            ("client certificate", certificate),
            ("key of the client certificate", key),
        ];
        for (what, path) in files {
            // The client says which of them can't be read with no more than "TLS error".
            if let Some(path) = path {
                tokio::fs::metadata(path).await.map_err(|source| NatsError::File {
                    what,
                    path: path.clone(),
                    source,
                })?;
            }
        }
        if let Some(path) = &server.authorities {
            options = options.add_root_certificates(path.clone());
        }
        if let Some((certificate, key)) = &server.certificate {
            options = options.add_client_certificate(certificate.clone(), key.clone());
        }
        let client = options.connect(server.address.server.clone()).await;
        let client =
            client.map_err(|error| NatsError::Connect { server: shown, reason: error.to_string() })?;
        Ok(Self { client, prefix: server.prefix.clone(), is_connected })
    }

    /// What subjects begin with.
    pub(crate) fn prefix(&self) -> &Prefix {
        &self.prefix
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// The largest message that the server takes, in bytes.
    pub(crate) fn largest_message(&self) -> usize {
        self.client.max_payload()
    }

    /// Waits until there is a connection, and a moment longer with each attempt that has failed since.
    pub(crate) async fn pause(&self, attempt: usize) {
        tokio::time::sleep(pause(attempt)).await;
        // The sender lives as long as the client.
        let _ = self.is_connected.clone().wait_for(|is_connected| *is_connected).await;
    }

    /// Waits until the connection is lost.
    pub(crate) async fn lost(&self) {
        // The sender lives as long as the client.
        let _ = self.is_connected.clone().wait_for(|is_connected| !*is_connected).await;
    }

    /// Listens to a subject.
    ///
    /// # Errors
    /// [`NatsError::Failed`].
    pub(crate) async fn subscribe(&self, subject: String) -> Result<Subscription, NatsError> {
        let subscriber = self.client.subscribe(subject).await;
        Ok(Subscription(subscriber.map_err(NatsError::failed("listen to a subject"))?))
    }

    /// Sends a message that nobody keeps: who doesn't listen misses it.
    ///
    /// # Errors
    /// [`NatsError::TooLarge`] or [`NatsError::Failed`].
    pub(crate) async fn publish(&self, subject: String, payload: Vec<u8>) -> Result<(), NatsError> {
        self.check_size(payload.len())?;
        let sent = self.client.publish(subject, payload.into()).await;
        sent.map_err(NatsError::failed("send a message"))
    }

    /// Answers a message, if whoever sent it waits for that.
    ///
    /// # Errors
    /// As [`Connection::publish`].
    pub(crate) async fn answer(&self, message: &IncomingMessage, payload: Vec<u8>) -> Result<(), NatsError> {
        match &message.reply {
            Some(reply) => self.publish(reply.clone(), payload).await,
            None => Ok(()),
        }
    }

    /// Sends a message, and waits for its answer.
    ///
    /// # Errors
    /// [`NatsError::Failed`], also when nobody listens.
    pub(crate) async fn request(&self, subject: String, payload: Vec<u8>) -> Result<Vec<u8>, NatsError> {
        self.check_size(payload.len())?;
        let answer = self.client.request(subject, payload.into()).await;
        let answer = answer.map_err(NatsError::failed("get an answer"))?;
        Ok(answer.payload.to_vec())
    }

    /// Waits until the server has everything that was sent.
    pub(crate) async fn flush(&self) {
        // One that is gone gets it when it is back, if this process is still there.
        let _ = tokio::time::timeout(ANSWER, self.client.flush()).await;
    }

    fn check_size(&self, size: usize) -> Result<(), NatsError> {
        let limit = self.largest_message();
        if size <= limit {
            return Ok(());
        }
        Err(NatsError::TooLarge {
            what: "a message of this NATS server",
            size: size as u64,
            limit: limit as u64,
        })
    }
}

/// Pause before an attempt: longer with each.
fn pause(attempt: usize) -> Duration {
    let factor = 1 << attempt.min(6);
    (Duration::from_millis(100) * factor).min(MAX_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(address: &str) -> Server {
        Server {
            address: address.parse().unwrap(),
            prefix: "roo".parse().unwrap(),
            credentials: None,
            authorities: None,
            certificate: None,
            plaintext: false,
        }
    }

    #[test]
    fn an_address_is_shown_without_its_password() {
        let server = server("tls://me:hunter2@nats.example.com");
        assert_eq!(server.address.to_string(), "nats.example.com:4222");
        assert!(!format!("{server:?} {:?}", server.address.server).contains("hunter2"), "{server:?}");
        let refused = "ftp://me:hunter2@nats.example.com".parse::<ServerAddress>().unwrap_err();
        assert!(!refused.to_string().contains("hunter2"), "{refused}");
    }

    #[test]
    fn a_password_or_a_token_may_be_part_of_an_address() {
        let login = |address: &str| match server(address).address.login {
            Some(Login::Password { user, password }) => format!("{user} {password}"),
            Some(Login::Token(token)) => token,
            None => String::new(),
        };
        assert_eq!(login("nats://me:a%40b@localhost"), "me a@b");
        assert_eq!(login("nats://token@localhost"), "token");
        assert_eq!(login("localhost:4222"), "");
    }

    #[test]
    fn other_machines_are_reached_by_tls() {
        for (address, needs_tls) in [
            ("nats://127.0.0.1:4222", false),
            ("nats://localhost", false),
            ("nats://[::1]:4222", false),
            ("tls://127.0.0.1", true),
            ("nats://nats.example.com", true),
            ("nats://127.example.com", true),
        ] {
            assert_eq!(server(address).needs_tls(), needs_tls, "{address}");
        }
        let plain = Server { plaintext: true, ..server("nats://nats.example.com") };
        assert!(!plain.needs_tls());
    }

    #[test]
    fn attempts_are_further_apart_with_each_and_never_too_far() {
        assert_eq!(pause(0), Duration::from_millis(100));
        assert_eq!(pause(3), Duration::from_millis(800));
        assert_eq!(pause(1000), MAX_PAUSE);
    }
}
