//! Keys of model endpoints: where they come from.

use std::fmt;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::PoisonError;
use std::time::Duration;

use roo_process::{ProcessEnd, run_for_output};
use tokio::process::Command;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::key_store::read_key;
use super::secret::{Secret, is_usable};
use super::{ModelError, ModelErrorKind};

/// Time that a key command may take.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);
/// No key is longer than this.
const KEY_LIMIT: u64 = 64 * 1024;

/// Sources of an endpoint's key.
#[derive(Debug)]
pub(super) enum Key {
    /// The endpoint needs none.
    None,
    /// Known already.
    Given(Secret),
    /// In a file, where its owner may put another one.
    Stored(StoredKey),
    /// A command prints it. Run by the first request that needs it.
    Command(KeyCommand),
}

impl Key {
    /// The key.
    ///
    /// # Errors
    /// A configuration error if the command fails, takes longer than 10 s or prints nothing usable.
    pub(super) async fn get(&self) -> Result<Option<RequestKey>, ModelError> {
        match self {
            Self::None => Ok(None),
            Self::Given(secret) => Ok(Some(RequestKey { secret: secret.clone(), is_fresh: true })),
            Self::Stored(stored) => Ok(Some(RequestKey { secret: stored.newest(), is_fresh: false })),
            Self::Command(command) => command.get().await.map(Some),
        }
    }

    /// The endpoint refused a key: it is not used again where its source may know a newer one.
    pub(super) async fn forget(&self, refused: &Secret) {
        if let Self::Command(command) = self {
            // Another request may have a newer one already.
            command.cached.lock().await.take_if(|cached| cached.expose() == refused.expose());
        }
    }

    /// The key in the place of one that the endpoint refused and that was forgotten; none where its source has no other.
    ///
    /// # Errors
    /// As for [`Self::get`].
    pub(super) async fn renewed(&self, refused: &RequestKey) -> Result<Option<RequestKey>, ModelError> {
        let newer = match self {
            Self::Stored(stored) => stored.read_anew().await,
            // To run it again at once would give the same, and may disturb its user.
            Self::Command(_) if refused.is_fresh => None,
            Self::Command(command) => Some(command.get().await?),
            Self::None | Self::Given(_) => None,
        };
        Ok(newer.filter(|newer| newer.secret.expose() != refused.secret.expose()))
    }
}

/// The key of one request.
#[derive(Clone, Debug)]
pub(super) struct RequestKey {
    pub(super) secret: Secret,
    /// Whether its source was asked for this request; otherwise it may have another one by now.
    is_fresh: bool,
}

/// A key in a file.
#[derive(Debug)]
pub(super) struct StoredKey {
    file: PathBuf,
    newest: std::sync::Mutex<Secret>,
}

impl StoredKey {
    /// The key that was read from a file.
    pub(super) fn new(file: PathBuf, secret: Secret) -> Self {
        Self { file, newest: std::sync::Mutex::new(secret) }
    }

    /// The key as it was read last.
    pub(super) fn newest(&self) -> Secret {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The key as it is now; none where there is no usable one.
    async fn read_anew(&self) -> Option<RequestKey> {
        let file = self.file.clone();
        let secret = tokio::task::spawn_blocking(move || read_key(file)).await.ok()??;
        *self.newest.lock().unwrap_or_else(PoisonError::into_inner) = secret.clone();
        Some(RequestKey { secret, is_fresh: true })
    }
}

/// A program with arguments, run without a shell, and what it printed.
#[derive(Debug)]
pub(super) struct KeyCommand {
    program: String,
    arguments: Vec<String>,
    cached: Mutex<Option<Secret>>,
}

impl KeyCommand {
    /// None for an empty argument list.
    pub(super) fn new(argv: &[String]) -> Option<Self> {
        let (program, arguments) = argv.split_first()?;
        Some(Self { program: program.clone(), arguments: arguments.to_vec(), cached: Mutex::new(None) })
    }

    /// The program and its arguments.
    pub(super) fn argv(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.program).chain(&self.arguments).map(String::as_str)
    }

    async fn get(&self) -> Result<RequestKey, ModelError> {
        // Held while the command runs, so that requests which start together ask once.
        let mut cached = self.cached.lock().await;
        if let Some(secret) = &*cached {
            return Ok(RequestKey { secret: secret.clone(), is_fresh: false });
        }
        let secret = match timeout(COMMAND_TIMEOUT, self.run()).await {
            Ok(result) => result?,
            Err(_) => return Err(self.failed("took longer than 10 s")),
        };
        *cached = Some(secret.clone());
        Ok(RequestKey { secret, is_fresh: true })
    }

    async fn run(&self) -> Result<Secret, ModelError> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let output = run_for_output(command, KEY_LIMIT)
            .await
            .map_err(|error| self.failed(format!("could not be run: {error}")))?;
        match output.end {
            ProcessEnd::Code(0) => {}
            ProcessEnd::Code(code) => return Err(self.failed(format!("ended with exit code {code}"))),
            ProcessEnd::Signal(signal) => return Err(self.failed(format!("was ended by signal {signal}"))),
        }
        match std::str::from_utf8(&output.stdout).map(str::trim) {
            Ok(text) if is_usable(text) => Ok(Secret::new(text)),
            _ => Err(self.failed("printed no usable key")),
        }
    }

    fn failed(&self, what: impl fmt::Display) -> ModelError {
        // Only the program is named: its arguments, and what it printed, may be secret.
        ModelError::new(
            ModelErrorKind::Configuration,
            format!(
                "The profile's `apiKeyCommand` ({}) {what}. Run it in a terminal: it must print the key alone.",
                self.program
            ),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Key {
        let argv = ["/bin/sh", "-c", script].map(str::to_owned);
        Key::Command(KeyCommand::new(&argv).unwrap())
    }

    #[tokio::test]
    async fn a_command_runs_once_and_again_after_a_refusal() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("runs");
        let key = sh(&format!("echo run >> '{}'; echo '  sk-123 '", log.display()));
        let runs = || std::fs::read_to_string(&log).unwrap().lines().count();
        let first = key.get().await.unwrap().unwrap();
        assert_eq!(first.secret.expose(), "sk-123");
        let kept = key.get().await.unwrap().unwrap();
        assert_eq!(runs(), 1);
        key.forget(&Secret::new("sk-another")).await;
        key.get().await.unwrap();
        assert_eq!(runs(), 1, "a newer one is kept");
        key.forget(&first.secret).await;
        assert!(key.renewed(&first).await.unwrap().is_none());
        assert_eq!(runs(), 1, "what the command has just printed it would print again");
        assert!(key.renewed(&kept).await.unwrap().is_none(), "the same key is no newer one");
        assert_eq!(runs(), 2);
    }

    #[tokio::test]
    async fn a_failing_command_is_named_without_what_it_printed() {
        for script in ["echo sk-secret; exit 3", "printf 'sk-secret\\nsecond'", "true"] {
            let error = sh(script).get().await.unwrap_err();
            assert_eq!(error.kind, ModelErrorKind::Configuration, "{script}");
            assert!(error.message.contains("apiKeyCommand"), "{error}");
            assert!(!error.message.contains("sk-secret"), "{error}");
        }
    }

    #[test]
    fn a_secret_is_never_shown() {
        let key = Key::Given(Secret::new("sk-123"));
        assert!(!format!("{key:?}").contains("123"));
    }
}
