//! Git for checkouts and patches: with nobody's configuration, without hooks, and killed when it is no longer waited for.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::Stdio;

use roo_process::run_with_input;
use roo_text::render::one_line;
use tokio::process::Command;

/// The longest part of what git says that is shown, in characters.
const SHOWN: usize = 600;
/// The most that is read of a short answer, in bytes.
pub(super) const ANSWER: u64 = 1 << 20;
/// Variables of the user's that git gets: where programs are, and, for repositories of others, what it logs in with.
const KEPT: &[&str] =
    &["PATH", "HOME", "SSH_AUTH_SOCK", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"];

/// Reasons why git did not do it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GitFailure {
    #[error("git can't be run: {0}")]
    Start(#[from] std::io::Error),
    #[error("git {what} failed: {reason}")]
    Refused { what: String, reason: String },
    #[error("git {what} printed more than {limit} bytes")]
    TooMuch { what: String, limit: u64 },
}

/// Runs git in a directory with an input, and returns what it prints: at most `limit` bytes.
pub(super) async fn git(
    directory: &Path,
    arguments: &[impl AsRef<OsStr>],
    variables: &[(&str, OsString)],
    input: &[u8],
    limit: u64,
) -> Result<Vec<u8>, GitFailure> {
    let mut command = Command::new("git");
    command
        .args([
            "--no-pager",
            "-c",
            "core.fsmonitor=false",
            "-c",
            "core.hooksPath=/dev/null",
            "-c",
            "gc.auto=0",
        ])
        .args(arguments)
        .current_dir(directory)
        .env_clear()
        .envs(KEPT.iter().filter_map(|name| Some((name, std::env::var_os(name)?))))
        .env("LC_ALL", "C")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_ALLOW_PROTOCOL", "file:https:ssh")
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let what =
        || arguments.first().map_or_else(String::new, |name| name.as_ref().to_string_lossy().into_owned());
    let output = run_with_input(command, input, limit + 1).await?;
    if output.stdout.len() as u64 > limit {
        return Err(GitFailure::TooMuch { what: what(), limit });
    }
    if !output.is_success() {
        let reason = one_line(String::from_utf8_lossy(&output.stderr).trim(), SHOWN);
        return Err(GitFailure::Refused { what: what(), reason });
    }
    Ok(output.stdout)
}

/// The same for one line.
pub(super) async fn line(
    directory: &Path,
    arguments: &[impl AsRef<OsStr>],
    variables: &[(&str, OsString)],
) -> Result<String, GitFailure> {
    let printed = git(directory, arguments, variables, &[], ANSWER).await?;
    Ok(String::from_utf8_lossy(&printed).trim_end().to_owned())
}
