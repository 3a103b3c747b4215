//! Logins to HTTP servers: what of them is kept where. The tokens are in the system's keyring, or, if the user says so, in a
//! file of the state directory that only they can read. A file of each login tells which of the two, so that the keyring is
//! asked only for what is in it. Commands of agents can't read that directory.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use futures_util::future::BoxFuture;
use roo_durable::PrivateFile;
use roo_engine::customization::McpServer;
use roo_formats::config::Directories;
use roo_formats::mcp::{Level, ResolvedRemote, ResolvedServer, Transport};
use roo_mcp::AddressPolicy;
use roo_mcp::login::{CredentialKey, CredentialStore, Credentials, StoreError};
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;

use crate::keyring::{KeyringError, KeyringItem};

/// The longest file, in bytes.
const FILE: u64 = 256 << 10;

/// The logins of one user.
#[derive(Clone)]
pub(crate) struct Logins {
    directory: PathBuf,
}

/// The file of a login.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record {
    /// Name of the server, for people.
    server: String,
    /// The workspace folder that the server is of; none for one of the user's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    workspace: Option<String>,
    /// The authorization server.
    issuer: String,
    /// Time of the login in nanoseconds since 1970, by which it is told from an earlier one.
    made: u64,
    /// The tokens; none where they are in the keyring.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    credentials: Option<Credentials>,
}

/// Place for tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoginPlace {
    /// The system's keyring.
    Keyring,
    /// A file that only its user can read.
    File,
}

/// Reasons why a login can't be kept or read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoginsError {
    #[error("{0}")]
    Disk(String),
    #[error(transparent)]
    Keyring(#[from] KeyringError),
}

/// A server that can be logged in to.
pub(crate) struct LoginTarget {
    pub(crate) remote: ResolvedRemote,
    pub(crate) policy: AddressPolicy,
    pub(crate) key: CredentialKey,
    /// True if it is of the older transport.
    pub(crate) sse: bool,
}

impl LoginTarget {
    /// The server, if it is reached by HTTP. `root` is the workspace folder.
    ///
    /// # Errors
    /// Says why nobody can log in to it.
    pub(crate) fn new(server: &McpServer, root: &str) -> Result<Self, String> {
        let configured = &server.configured;
        if !server.is_approved {
            return Err("it waits for your approval: roo-lsp trust --approve .roo/mcp.json".to_owned());
        }
        let level = configured.level;
        let resolved = super::resolved(&configured.server, level, root).map_err(|error| error.to_string())?;
        let policy = super::policy_of(level);
        let sse = matches!(resolved.transport, Transport::Sse(_));
        match (key(&resolved, level, root), resolved.transport) {
            (_, Transport::Stdio(_)) => {
                Err("it is a program, and gets its secrets as variables of `env` in mcp.json".to_owned())
            }
            (Some(key), Transport::StreamableHttp(remote) | Transport::Sse(remote)) => {
                Ok(Self { remote, policy, key, sse })
            }
            (None, _) => Err("mcp.json sets its header `Authorization`; take that out to log in".to_owned()),
        }
    }
}

/// What the login of a server is kept by; none for programs, and for servers that have a header in its place.
pub(super) fn key(server: &ResolvedServer, level: Level, root: &str) -> Option<CredentialKey> {
    let (Transport::StreamableHttp(remote) | Transport::Sse(remote)) = &server.transport else { return None };
    if remote.headers.keys().any(|name| name.eq_ignore_ascii_case("authorization")) {
        return None;
    }
    Some(match level {
        Level::User => CredentialKey::new(&remote.url, None),
        Level::Workspace => CredentialKey::new(&remote.url, Some(Path::new(root))),
    })
}

impl Logins {
    pub(crate) fn new(directories: &Directories) -> Self {
        Self { directory: directories.state.join("mcp-logins") }
    }

    /// The directory of the files.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    fn file(&self, key: &CredentialKey) -> PrivateFile {
        PrivateFile::new(self.directory.join(format!("{key}.json")))
    }

    fn record(&self, key: &CredentialKey) -> Result<Option<Record>, LoginsError> {
        let file = self.file(key);
        let failed = |reason: String| LoginsError::Disk(format!("{}: {reason}", file.path().display()));
        let Some(bytes) = file.read(FILE).map_err(|error| failed(error.to_string()))? else {
            return Ok(None);
        };
        // What a parser says could quote a token.
        serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|_| failed("it was not written by roo-lsp".to_owned()))
    }

    fn write(&self, key: &CredentialKey, record: &Record) -> Result<(), LoginsError> {
        let file = self.file(key);
        let failed = |reason: String| LoginsError::Disk(format!("{}: {reason}", file.path().display()));
        let bytes = serde_json::to_vec(record).map_err(|error| failed(error.to_string()))?;
        file.replace(&bytes).map_err(|error| failed(error.to_string()))
    }

    /// A number that is another one after another login; 0 without one. Reads the disk.
    pub(super) fn made(&self, key: &CredentialKey) -> u64 {
        self.record(key).ok().flatten().map_or(0, |record| record.made)
    }

    /// Fails where the keyring can't be used.
    pub(crate) async fn check_keyring(&self, key: &CredentialKey) -> Result<(), LoginsError> {
        item("", key).read().await?;
        Ok(())
    }

    /// The logins to servers of this name, those of the user's and of this workspace folder: also of servers that have another
    /// address now, or are no longer configured. Reads the disk.
    ///
    /// # Errors
    /// The directory can't be read.
    pub(crate) fn named(&self, server: &str, root: &str) -> Result<Vec<CredentialKey>, LoginsError> {
        let failed = |error: io::Error| LoginsError::Disk(format!("{}: {error}", self.directory.display()));
        let entries = match fs::read_dir(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
            entries => entries.map_err(failed)?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let name = entry.map_err(failed)?.file_name();
            let Some(key) = name.to_str().and_then(|name| CredentialKey::parse(name.strip_suffix(".json")?))
            else {
                continue;
            };
            let is_meant = |record: &Record| {
                record.server == server && record.workspace.as_deref().is_none_or(|folder| folder == root)
            };
            if self.record(&key)?.as_ref().is_some_and(is_meant) {
                found.push(key);
            }
        }
        Ok(found)
    }

    /// Scopes of a login that there is already; empty where there is none, or it can't be read.
    pub(crate) async fn scopes(&self, key: &CredentialKey) -> Vec<String> {
        let known = self.credentials(key).await.ok().flatten().and_then(|credentials| credentials.scope);
        known.iter().flat_map(|scopes| scopes.split_whitespace()).map(str::to_owned).collect()
    }

    /// Keeps the tokens of a login, in the place of an earlier one. `workspace` is the folder that the server is of.
    pub(crate) async fn keep(
        &self,
        key: &CredentialKey,
        server: &str,
        workspace: Option<String>,
        credentials: Credentials,
        place: LoginPlace,
    ) -> Result<(), LoginsError> {
        let _lock = self.locked(key).await?;
        let issuer = credentials.issuer.clone();
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let made = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
        let credentials = match place {
            LoginPlace::File => {
                if matches!(self.record(key), Ok(Some(Record { credentials: None, .. }))) {
                    // They would stay behind, and the authorization server may still take them.
                    item(server, key).remove().await?;
                }
                Some(credentials)
            }
            LoginPlace::Keyring => {
                item(server, key).store(&text_of(&credentials)?).await?;
                None
            }
        };
        self.write(key, &Record { server: server.to_owned(), workspace, issuer, made, credentials })
    }

    /// Removes the tokens of a login. Returns the authorization server, if there was one.
    pub(crate) async fn remove(&self, key: &CredentialKey) -> Result<Option<String>, LoginsError> {
        let _lock = self.locked(key).await?;
        let Some(record) = self.record(key)? else { return Ok(None) };
        if record.credentials.is_none() {
            item("", key).remove().await?;
        }
        let file = self.file(key);
        file.remove().map_err(|error| LoginsError::Disk(format!("{}: {error}", file.path().display())))?;
        Ok(Some(record.issuer))
    }

    /// Waits for the sole right to change a login.
    async fn locked(&self, key: &CredentialKey) -> Result<Box<dyn Send>, LoginsError> {
        let file = self.file(key);
        let shown = file.path().display().to_string();
        let failed = |reason: String| LoginsError::Disk(format!("{shown}: {reason}"));
        let locked = spawn_blocking(move || file.lock()).await.map_err(|error| failed(error.to_string()))?;
        Ok(Box::new(locked.map_err(|error| failed(error.to_string()))?))
    }

    async fn credentials(&self, key: &CredentialKey) -> Result<Option<Credentials>, LoginsError> {
        let Some(record) = self.record(key)? else { return Ok(None) };
        if record.credentials.is_some() {
            return Ok(record.credentials);
        }
        let Some(text) = item(&record.server, key).read().await? else { return Ok(None) };
        let unreadable = || KeyringError::Unreadable(": it was not written by roo-lsp".to_owned());
        Ok(Some(serde_json::from_str(&text).map_err(|_| unreadable())?))
    }

    async fn refreshed(&self, key: &CredentialKey, credentials: &Credentials) -> Result<(), LoginsError> {
        let Some(record) = self.record(key)? else { return Ok(()) };
        if record.credentials.is_some() {
            let credentials = Some(credentials.clone());
            return self.write(key, &Record { credentials, ..record });
        }
        Ok(item(&record.server, key).store(&text_of(credentials)?).await?)
    }
}

/// The place of a login in the keyring.
fn item(server: &str, key: &CredentialKey) -> KeyringItem {
    KeyringItem::new(&format!("MCP server {server}"), "mcp-login", key.to_string())
}

fn text_of(credentials: &Credentials) -> Result<String, LoginsError> {
    serde_json::to_string(credentials).map_err(|error| LoginsError::Disk(error.to_string()))
}

fn store_error(error: LoginsError) -> StoreError {
    StoreError(error.to_string())
}

impl CredentialStore for Logins {
    fn load<'a>(&'a self, key: &'a CredentialKey) -> BoxFuture<'a, Result<Option<Credentials>, StoreError>> {
        Box::pin(async move { self.credentials(key).await.map_err(store_error) })
    }

    fn replace<'a>(
        &'a self,
        key: &'a CredentialKey,
        credentials: &'a Credentials,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move { self.refreshed(key, credentials).await.map_err(store_error) })
    }

    fn lock<'a>(&'a self, key: &'a CredentialKey) -> BoxFuture<'a, Result<Box<dyn Send>, StoreError>> {
        Box::pin(async move { self.locked(key).await.map_err(store_error) })
    }
}
