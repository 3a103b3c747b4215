//! Keys in the system's keyring, by `secret-tool`: a profile reads one by its `apiKeyCommand`.

use std::io::{self, Write as _};
use std::process::Stdio;
use std::time::Duration;

use roo_formats::config::Profile;
use roo_process::{ProcessEnd, run_for_output};
use roo_text::render::one_line;
use tokio::process::Command;
use tokio::time::timeout;

const PROGRAM: &str = "secret-tool";
/// Time limit: the user may have to unlock the keyring.
const DEADLINE: Duration = Duration::from_secs(60);
/// The longest key, in bytes: as much as a pipe takes at once.
const LONGEST: usize = 4096;

/// Reasons why the keyring could not take a key.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeyringError {
    #[error(
        "the keyring can't be used: secret-tool could not be run ({0}); install it, or keep the key in another place"
    )]
    NotRun(io::Error),
    #[error("the keyring did not take the key{0}")]
    Refused(String),
    #[error("the keyring was not unlocked within a minute")]
    TookTooLong,
    #[error("the key is too long for the keyring")]
    TooLong,
}

/// The attributes by which the key of a profile's endpoint is found.
fn attributes(profile: &Profile) -> [String; 4] {
    let owner = profile.provider.spec().owner();
    let endpoint =
        profile.base_url.as_deref().map_or_else(|| owner.to_owned(), |url| format!("{owner} {url}"));
    ["service".to_owned(), "roo-lsp".to_owned(), "endpoint".to_owned(), endpoint]
}

/// Returns the command that prints the key of a profile's endpoint.
pub(super) fn lookup(profile: &Profile) -> Vec<String> {
    [PROGRAM, "lookup"].map(str::to_owned).into_iter().chain(attributes(profile)).collect()
}

/// Stores the key of a profile's endpoint.
pub(super) async fn store(profile: &Profile, key: &str) -> Result<(), KeyringError> {
    if key.len() > LONGEST {
        return Err(KeyringError::TooLong);
    }
    let (input, mut keys) = io::pipe().map_err(KeyringError::NotRun)?;
    keys.write_all(key.as_bytes()).map_err(KeyringError::NotRun)?;
    drop(keys);
    let mut command = Command::new(PROGRAM);
    command.args(["store", "--label", &format!("roo-lsp: {}", profile.provider.as_str())]);
    command.args(attributes(profile)).stdin(input).stdout(Stdio::null()).stderr(Stdio::piped());
    let output = timeout(DEADLINE, run_for_output(command, 0))
        .await
        .map_err(|_| KeyringError::TookTooLong)?
        .map_err(KeyringError::NotRun)?;
    match output.end {
        ProcessEnd::Code(0) => Ok(()),
        _ => {
            let said = String::from_utf8_lossy(&output.stderr);
            let said = said.trim();
            Err(KeyringError::Refused(match said {
                "" => String::new(),
                said => format!(": {}", one_line(said, 200)),
            }))
        }
    }
}
