//! What is submitted: a prompt, and the commit that agents work on. It comes from others and is checked here; nothing in it can
//! allow anything.

use roo_protocol::ids::TaskId;
use serde::{Deserialize, Deserializer, Serialize};

use super::repository_address::{InvalidAddress, RepositoryAddress};

/// The version of this format.
const VERSION: u32 = 1;
/// The largest submission, in bytes.
const MAX_SUBMISSION_BYTES: usize = 512 << 10;

/// Work for a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Submission {
    version: u32,
    /// Id of the request.
    pub(crate) request: TaskId,
    /// Where the commit is.
    pub(crate) source: Source,
    pub(crate) commit: CommitId,
    pub(crate) prompt: String,
    /// The slug of its mode; that of the worker's settings when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) mode: Option<String>,
    /// The name of a model profile of the worker's settings; the mode's or the default one when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) profile: Option<String>,
    #[serde(default)]
    pub(crate) limits: SubmittedLimits,
}

/// Where a commit is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub(crate) enum Source {
    /// In a bundle of git among the files in NATS.
    Bundle { file: String },
    /// In a repository that the worker clones.
    Repository { url: String },
}

/// Limits of a request, where they are tighter than those of the worker's settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SubmittedLimits {
    /// Model requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) requests: Option<u32>,
    /// US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cost_usd: Option<f64>,
}

/// The id of a commit: 40 or 64 hexadecimal digits, so that it is no option and no other name for git.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub(crate) struct CommitId(String);

impl CommitId {
    /// Reads an id; none for any other name.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let is_id = matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_id.then(|| Self(text.to_ascii_lowercase()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Git's name for the format of its repository; none for the one that git takes where nothing is said.
    pub(super) fn object_format(&self) -> Option<&'static str> {
        (self.0.len() == 64).then_some("sha256")
    }
}

impl<'de> Deserialize<'de> for CommitId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("the commit is not the id of one"))
    }
}

/// Reasons why a submission is refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidSubmission {
    #[error("the submission has {0} bytes; the most are {MAX_SUBMISSION_BYTES}")]
    TooLarge(usize),
    #[error("the submission can't be read: {0}")]
    Format(String),
    #[error("the submission is of version {0}, which this worker doesn't know; update roo-lsp on it")]
    Version(u32),
    #[error("the submission's request is not the id of one")]
    Request,
    #[error("the submission has no prompt")]
    NoPrompt,
    #[error("this worker doesn't clone {0}; `--allow-repository` of `roo-lsp worker` names what it clones")]
    Repository(String),
    #[error(
        "the address of the repository holds a password; workers log in with the git credentials of their user"
    )]
    Password,
}

impl Submission {
    /// A submission of a request.
    pub(crate) fn new(request: TaskId, source: Source, commit: CommitId, prompt: String) -> Self {
        let limits = SubmittedLimits::default();
        Self { version: VERSION, request, source, commit, prompt, mode: None, profile: None, limits }
    }

    /// Reads a submission. `repositories` and what is below them may be cloned.
    pub(crate) fn parse(bytes: &[u8], repositories: &[RepositoryAddress]) -> Result<Self, InvalidSubmission> {
        if bytes.len() > MAX_SUBMISSION_BYTES {
            return Err(InvalidSubmission::TooLarge(bytes.len()));
        }
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        let format = |error: serde_json::Error| InvalidSubmission::Format(error.to_string());
        let Versioned { version } = serde_json::from_slice(bytes).map_err(format)?;
        if version != VERSION {
            return Err(InvalidSubmission::Version(version));
        }
        let submission: Self = serde_json::from_slice(bytes).map_err(format)?;
        // It names files and directories.
        let request = uuid::Uuid::try_parse(submission.request.as_str());
        if !request.is_ok_and(|id| id.to_string() == submission.request.as_str()) {
            return Err(InvalidSubmission::Request);
        }
        if submission.prompt.trim().is_empty() {
            return Err(InvalidSubmission::NoPrompt);
        }
        if let Source::Repository { url } = &submission.source {
            match RepositoryAddress::parse(url) {
                Ok(address) if repositories.iter().any(|allowed| allowed.covers(&address)) => {}
                Err(InvalidAddress::Password) => return Err(InvalidSubmission::Password),
                Ok(_) | Err(InvalidAddress::Form) => return Err(InvalidSubmission::Repository(url.clone())),
            }
        }
        Ok(submission)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn submitted() -> Value {
        json!({
            "version": 1,
            "request": "0190a5c0-0000-7000-8000-000000000001",
            "source": { "kind": "bundle", "file": "x/bundle" },
            "commit": "0123456789012345678901234567890123456789",
            "prompt": "Fix it.",
        })
    }

    fn parse(value: &Value) -> Result<Submission, InvalidSubmission> {
        Submission::parse(
            value.to_string().as_bytes(),
            &[RepositoryAddress::parse("https://example.com/team/").unwrap()],
        )
    }

    fn with(key: &str, value: Value) -> Value {
        let mut all = submitted();
        all[key] = value;
        all
    }

    #[test]
    fn a_submission_is_read_as_it_was_written() {
        let submission = parse(&submitted()).unwrap();
        assert_eq!(submission.limits, SubmittedLimits::default());
        let written = serde_json::to_value(&submission).unwrap();
        assert_eq!(parse(&written).unwrap(), submission);
    }

    #[test]
    fn what_names_no_commit_or_no_request_is_refused() {
        for commit in ["HEAD", "--upload-pack=x", "012345", "z123456789012345678901234567890123456789"] {
            assert!(matches!(parse(&with("commit", commit.into())), Err(InvalidSubmission::Format(_))));
        }
        for request in
            ["", "../x", "0190A5C0-0000-7000-8000-000000000001", "0190a5c00000700080000000000000001"]
        {
            assert_eq!(parse(&with("request", request.into())), Err(InvalidSubmission::Request), "{request}");
        }
        assert_eq!(parse(&with("prompt", " ".into())), Err(InvalidSubmission::NoPrompt));
        assert_eq!(parse(&with("version", 2.into())), Err(InvalidSubmission::Version(2)));
        assert!(matches!(Submission::parse(b"{", &[]), Err(InvalidSubmission::Format(_))));
        let large = vec![b' '; MAX_SUBMISSION_BYTES + 1];
        assert_eq!(
            Submission::parse(&large, &[]),
            Err(InvalidSubmission::TooLarge(MAX_SUBMISSION_BYTES + 1))
        );
    }

    #[test]
    fn repositories_are_cloned_where_the_worker_allows_it() {
        let source = |url: &str| with("source", json!({ "kind": "repository", "url": url }));
        assert!(parse(&source("https://example.com/team/one.git")).is_ok());
        for url in [
            "https://example.com/other/one.git",
            "https://example.com/team-evil/one.git",
            "https://example.com/team/../other/one.git",
            "ext::sh -c x",
            "/etc",
            "",
        ] {
            assert!(matches!(parse(&source(url)), Err(InvalidSubmission::Repository(_))), "{url}");
        }
        let with_password = parse(&source("https://me:secret1@example.com/team/one.git")).unwrap_err();
        assert!(!with_password.to_string().contains("secret1"), "{with_password}");
    }
}
