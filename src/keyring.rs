//! Secrets in the system's keyring, by `secret-tool`. What they are, and by which attributes they are found, is for others to
//! say. A secret goes through a pipe and never stands on a command line.

use std::io::{self, Write as _};
use std::process::Stdio;
use std::time::Duration;

use roo_process::{ProcessEnd, ProcessOutput, run_for_output};
use roo_text::render::one_line;
use tokio::process::Command;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

const PROGRAM: &str = "secret-tool";
/// Time limit: the user may have to unlock the keyring.
const DEADLINE: Duration = Duration::from_secs(60);
/// The longest secret, in bytes: the program keeps no more of it.
pub(crate) const MAX_SECRET_BYTES: usize = 8191;

/// Reasons why the keyring could not be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeyringError {
    #[error(
        "the keyring can't be used: secret-tool could not be run ({0}); install it, or keep the secret in another place"
    )]
    NotRun(io::Error),
    #[error("the keyring did not take the secret{0}")]
    Refused(String),
    #[error("the keyring could not be changed{0}")]
    Failed(String),
    #[error("the keyring could not be read{0}")]
    Unreadable(String),
    #[error("the keyring was not unlocked within a minute")]
    TookTooLong,
    #[error("the secret is too long for the keyring")]
    TooLong,
    #[error("that is not a key: a key is one line of visible ASCII characters")]
    Unusable,
}

/// A secret of this program by the attributes that it is found by. Everybody on the machine can read them.
pub(crate) struct KeyringItem {
    label: String,
    attributes: [String; 4],
}

impl KeyringItem {
    /// The secret whose attribute of this name has this value. Users see the label.
    pub(crate) fn new(label: &str, name: &str, value: String) -> Self {
        let attributes = ["service".to_owned(), "roo-lsp".to_owned(), name.to_owned(), value];
        Self { label: format!("roo-lsp: {label}"), attributes }
    }

    /// The command that prints the secret.
    pub(crate) fn lookup(&self) -> Vec<String> {
        [PROGRAM, "lookup"].map(str::to_owned).into_iter().chain(self.attributes.clone()).collect()
    }

    /// Reads the secret; none if there is none.
    pub(crate) async fn read(&self) -> Result<Option<String>, KeyringError> {
        let output = self.run(&["lookup"], "", MAX_SECRET_BYTES as u64 + 1).await?;
        // Without words the program says that there is none; what it fails with, it names.
        match failure(&output) {
            None => match String::from_utf8(output.stdout) {
                Ok(secret) => Ok(Some(secret.trim_end_matches('\n').to_owned())),
                Err(_) => Err(KeyringError::Unreadable(": it is no text".to_owned())),
            },
            Some(said) if said.is_empty() => Ok(None),
            Some(said) => Err(KeyringError::Unreadable(said)),
        }
    }

    /// Puts a secret in the place of the one that is there.
    pub(crate) async fn store(&self, secret: &str) -> Result<(), KeyringError> {
        if secret.len() > MAX_SECRET_BYTES {
            return Err(KeyringError::TooLong);
        }
        let output = self.run(&["store", "--label", &self.label], secret, 0).await?;
        failure(&output).map_or(Ok(()), |said| Err(KeyringError::Refused(said)))
    }

    /// Removes the secret; whether there was one.
    pub(crate) async fn remove(&self) -> Result<bool, KeyringError> {
        match failure(&self.run(&["lookup"], "", 0).await?) {
            Some(said) if said.is_empty() => return Ok(false),
            Some(said) => return Err(KeyringError::Failed(said)),
            None => {}
        }
        let output = self.run(&["clear"], "", 0).await?;
        failure(&output).map_or(Ok(true), |said| Err(KeyringError::Failed(said)))
    }

    /// Runs a command of the program on the secret, and keeps so many bytes of what it prints.
    async fn run(&self, arguments: &[&str], input: &str, limit: u64) -> Result<ProcessOutput, KeyringError> {
        let (read, mut written) = io::pipe().map_err(KeyringError::NotRun)?;
        let mut command = Command::new(PROGRAM);
        command.args(arguments).args(&self.attributes);
        command.stdin(read).stderr(Stdio::piped());
        command.stdout(if limit == 0 { Stdio::null() } else { Stdio::piped() });
        let input = input.to_owned();
        // A pipe may hold less than that. A program that does not read it says why.
        let writing = spawn_blocking(move || {
            let _ = written.write_all(input.as_bytes());
        });
        let output = timeout(DEADLINE, run_for_output(command, limit)).await;
        let output = output.map_err(|_| KeyringError::TookTooLong)?.map_err(KeyringError::NotRun)?;
        // It has ended: nobody has the other end of the pipe any more.
        let _ = writing.await;
        Ok(output)
    }
}

/// What the program says where it fails.
fn failure(output: &ProcessOutput) -> Option<String> {
    if matches!(output.end, ProcessEnd::Code(0)) {
        return None;
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Some(match said.trim() {
        "" => String::new(),
        said => format!(": {}", one_line(said, 200)),
    })
}
