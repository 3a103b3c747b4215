//! Keys in the system's keyring, by `secret-tool`: a profile reads one by its `apiKeyCommand`.

use std::borrow::Cow;
use std::io::{self, Write as _};
use std::process::Stdio;
use std::time::Duration;

use roo_formats::config::Profile;
use roo_model::providers::is_usable_key;
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
    #[error("the keyring could not be changed{0}")]
    Failed(String),
    #[error("the keyring was not unlocked within a minute")]
    TookTooLong,
    #[error("the key is too long for the keyring")]
    TooLong,
    #[error("that is not a key: a key is one line of visible ASCII characters")]
    Unusable,
}

/// The attributes by which the key of a profile's endpoint is found.
fn attributes(profile: &Profile) -> [String; 4] {
    let owner = profile.provider.spec().owner();
    let endpoint = match profile.base_url.as_deref() {
        Some(url) => format!("{owner} {}", without_user(url)),
        None => owner.to_owned(),
    };
    ["service".to_owned(), "roo-lsp".to_owned(), "endpoint".to_owned(), endpoint]
}

/// Returns an address without the user and password that it may have: everybody on the machine can read a command line. One
/// that has none stays as it is written, so that the keys that were stored for it are found.
fn without_user(url: &str) -> Cow<'_, str> {
    // As programs read an address, `https:name:word@host` has a password too.
    let scheme = url.find(':').map_or(0, |colon| colon + 1);
    let (scheme, rest) = url.split_at(scheme);
    let host = rest.len() - rest.trim_start_matches(['/', '\\']).len();
    let end = rest[host..].find(['/', '\\', '?', '#']).map_or(rest.len(), |end| host + end);
    match rest[host..end].rfind('@') {
        Some(at) => format!("{scheme}{}{}", &rest[..host], &rest[host + at + 1..]).into(),
        None => url.into(),
    }
}

/// Returns the command that prints the key of a profile's endpoint.
pub(crate) fn lookup(profile: &Profile) -> Vec<String> {
    [PROGRAM, "lookup"].map(str::to_owned).into_iter().chain(attributes(profile)).collect()
}

/// Stores the key of a profile's endpoint.
pub(crate) async fn store(profile: &Profile, key: &str) -> Result<(), KeyringError> {
    if key.len() > LONGEST {
        return Err(KeyringError::TooLong);
    }
    if !is_usable_key(key) {
        return Err(KeyringError::Unusable);
    }
    let label = format!("roo-lsp: {}", profile.provider.as_str());
    let said = run(&["store", "--label", &label], profile, key).await?;
    said.map_err(KeyringError::Refused)
}

/// Removes the key of a profile's endpoint; whether there was one.
pub(crate) async fn remove(profile: &Profile) -> Result<bool, KeyringError> {
    // Without words the program says that there is none; what it fails with, it names.
    match run(&["lookup"], profile, "").await? {
        Err(said) if said.is_empty() => return Ok(false),
        Err(said) => return Err(KeyringError::Failed(said)),
        Ok(()) => {}
    }
    run(&["clear"], profile, "").await?.map_err(KeyringError::Failed)?;
    Ok(true)
}

/// Runs a command of the program on the key of a profile's endpoint; what it says where it fails.
async fn run(arguments: &[&str], profile: &Profile, input: &str) -> Result<Result<(), String>, KeyringError> {
    let (read, mut written) = io::pipe().map_err(KeyringError::NotRun)?;
    written.write_all(input.as_bytes()).map_err(KeyringError::NotRun)?;
    drop(written);
    let mut command = Command::new(PROGRAM);
    command.args(arguments).args(attributes(profile));
    command.stdin(read).stdout(Stdio::null()).stderr(Stdio::piped());
    let output = timeout(DEADLINE, run_for_output(command, 0))
        .await
        .map_err(|_| KeyringError::TookTooLong)?
        .map_err(KeyringError::NotRun)?;
    if matches!(output.end, ProcessEnd::Code(0)) {
        return Ok(Ok(()));
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Ok(Err(match said.trim() {
        "" => String::new(),
        said => format!(": {}", one_line(said, 200)),
    }))
}

#[cfg(test)]
mod tests {
    use roo_formats::config::Provider;

    use super::*;

    #[test]
    fn no_password_is_on_a_command_line() {
        let lookup_of = |url: &str| {
            let base_url = Some(url.to_owned());
            lookup(&Profile { base_url, ..Profile::new(Provider::find("openai").unwrap()) })
        };
        for (url, shown) in [
            ("https://models.example/v1", "https://models.example/v1"),
            ("https://models.example/a@b?c=d@e", "https://models.example/a@b?c=d@e"),
            ("https://me:s3cret@models.example/v1", "https://models.example/v1"),
            ("https://me:s3cret@models.example", "https://models.example"),
            ("https://me:s3@cret@models.example:8080/v1", "https://models.example:8080/v1"),
            ("https:me:s3cret@models.example/v1", "https:models.example/v1"),
            ("https:\\\\me:s3cret@models.example/v1", "https:\\\\models.example/v1"),
        ] {
            let command = lookup_of(url);
            assert_eq!(command[5], format!("openai {shown}"));
            assert_eq!(command[..5], ["secret-tool", "lookup", "service", "roo-lsp", "endpoint"]);
        }
    }
}
