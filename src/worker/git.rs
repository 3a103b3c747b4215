//! Git for checkouts and patches: with nobody's configuration, without hooks, and killed when it is no longer waited for.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
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

/// Variables of the user's by which git, and the programs that keep its credentials, log in to repositories elsewhere.
const LOGIN: &[&str] = &[
    "GIT_SSH_COMMAND",
    "GIT_SSH",
    "GIT_SSH_VARIANT",
    "GIT_ASKPASS",
    "SSH_ASKPASS",
    "GIT_SSL_CAINFO",
    "GIT_SSL_CAPATH",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "XDG_CONFIG_HOME",
    "XDG_CACHE_HOME",
    "XDG_RUNTIME_DIR",
    "DBUS_SESSION_BUS_ADDRESS",
];
/// What git says where it can't log in.
const LOGIN_FAILED: [&str; 4] =
    ["Authentication failed", "could not read Username", "could not read Password", "Permission denied ("];
/// What git says of a directory that is in no repository.
const NO_REPOSITORY: &str = "not a git repository";

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

/// Returns whether git was run where there is no repository.
pub(super) fn is_outside_repositories(failure: &GitFailure) -> bool {
    matches!(failure, GitFailure::Refused { reason, .. } if reason.contains(NO_REPOSITORY))
}

/// Returns whether git could not log in to a repository elsewhere.
pub(super) fn is_login_failure(failure: &GitFailure) -> bool {
    let is_said = |reason: &str| LOGIN_FAILED.iter().any(|words| reason.contains(words));
    matches!(failure, GitFailure::Refused { reason, .. } if is_said(reason))
}

/// What counts of the user's own configuration of git, as variables: chosen keys of the user's files and of the system's, and variables
/// that git has for the same.
pub(super) struct UserConfiguration(Vec<(String, OsString)>);

impl UserConfiguration {
    /// What allows to work in directories of other owners.
    pub(super) async fn trusted_directories() -> Result<Self, GitFailure> {
        Self::read(|key| key == "safe.directory").await
    }

    /// What is needed to log in to repositories elsewhere. Nothing of it leads to another address than the one that was allowed.
    pub(super) async fn credentials() -> Result<Self, GitFailure> {
        let is_wanted = |key: &str| {
            key.starts_with("credential.")
                || key.starts_with("http.")
                || matches!(key, "core.sshcommand" | "core.askpass" | "ssh.variant")
        };
        let mut configuration = Self::read(is_wanted).await?;
        let set = LOGIN.iter().filter_map(|name| Some(((*name).to_owned(), std::env::var_os(name)?)));
        configuration.0.extend(set);
        Ok(configuration)
    }

    /// Reads the keys that are wanted. Git spells section and name of a key in small letters.
    async fn read(is_wanted: impl Fn(&str) -> bool) -> Result<Self, GitFailure> {
        let mut command = Command::new("git");
        command
            .args(["config", "--null", "--show-scope", "--list"])
            // Where no repository has a say.
            .current_dir("/")
            .env_remove("GIT_DIR")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let output = run_with_input(command, &[], ANSWER).await?;
        // It fails where there is none.
        let printed = if output.is_success() { output.stdout } else { vec![] };
        let mut fields = printed.split(|byte| *byte == 0);
        let mut wanted = Vec::new();
        while let (Some(scope), Some(entry)) = (fields.next(), fields.next()) {
            let mut parts = entry.splitn(2, |byte| *byte == b'\n');
            let key = String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
            if matches!(scope, b"system" | b"global" | b"command") && is_wanted(&key) {
                // A key that stands alone is true.
                let value = parts.next().unwrap_or(b"true");
                wanted.push((key, OsStr::from_bytes(value).to_owned()));
            }
        }
        let mut variables = vec![("GIT_CONFIG_COUNT".to_owned(), wanted.len().to_string().into())];
        for (number, (key, value)) in wanted.into_iter().enumerate() {
            variables.push((format!("GIT_CONFIG_KEY_{number}"), key.into()));
            variables.push((format!("GIT_CONFIG_VALUE_{number}"), value));
        }
        Ok(Self(variables))
    }

    /// The variables that tell git of it.
    pub(super) fn variables(&self) -> Vec<(&str, OsString)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.clone())).collect()
    }
}
