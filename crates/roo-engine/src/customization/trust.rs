//! Trust in the files by which a workspace steers agents. Kept in the user's state directory, never in the workspace:
//! `trust.json`, for the user alone.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Scope;
use super::files::Files;
use roo_durable::private_file::FileLock;
use roo_durable::{DirectoryIdentity, PrivateFile};
use roo_protocol::ids::Digest;

/// The version of the file's format.
const VERSION: u32 = 2;
/// The largest file that is read, in bytes.
const LIMIT: u64 = 1 << 20;

/// Trust of the user in one workspace. The default is nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TrustState {
    pub(super) trusted: bool,
    /// Files that may give a mode more than it has, or whose hooks or MCP servers may run: paths relative to the first folder, and the digest of what
    /// was shown of them.
    pub(super) approved: BTreeSet<(String, Digest)>,
    /// Answer to the question whether the modes of a file may delegate to each other.
    pub(super) delegation: Option<DelegationAnswer>,
    /// The same of the user's own modes, which is kept for all workspaces together.
    pub(super) own_delegation: Option<DelegationAnswer>,
    /// True if the modes count as if all of their files were approved, for what runs nothing.
    pub(super) approves_modes: bool,
}

impl TrustState {
    /// Trusts a workspace as far as its files only steer: texts and modes, but no programs.
    fn of_texts() -> Self {
        Self { trusted: true, approves_modes: true, ..Self::default() }
    }
}

/// Answer of the user about the modes of a file without `canDelegateTo`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DelegationAnswer {
    /// Of the file and the modes that the question was about.
    pub(super) digest: Digest,
    pub(super) allowed: bool,
}

/// Granted trust.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grant {
    /// The files of the workspace may steer agents.
    Workspace,
    /// The same, if it brings what the user was shown and nothing else.
    AsShown {
        /// As in the report.
        brings: Vec<String>,
    },
    /// A file may give a mode more than it has, or its hooks or MCP servers may run.
    File {
        /// As in the report.
        path: String,
        /// Digest that the user has seen; none for the file as it is.
        digest: Option<Digest>,
    },
    /// The modes of the workspace's file, or the user's own, may not delegate to each other, which is not asked again for them as
    /// they are.
    RefusedDelegation {
        /// Digest of what the user has seen.
        digest: Digest,
    },
    /// Whether the modes of the workspace's file may delegate to each other, as it is now.
    Delegation {
        /// The answer.
        allowed: bool,
    },
    /// Whether the user's own modes may delegate to each other, as they are now, in every workspace.
    OwnDelegation {
        /// The answer; none to be asked again.
        allowed: Option<bool>,
    },
}

/// Reasons why trust can't be read, granted or kept.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// There is no workspace folder.
    #[error("there is no workspace folder to trust; open one")]
    NoFolder,
    /// The workspace isn't trusted, so nothing of it was looked at.
    #[error("'{path}' can't be approved: a workspace must be trusted first")]
    NotTrusted {
        /// File to be approved.
        path: String,
    },
    /// The file can't be read as what it should be.
    #[error("'{path}' can't be approved until it is fixed: {problem}")]
    Broken {
        /// File to be approved.
        path: String,
        problem: String,
    },
    /// Nothing of this file waits for an approval.
    #[error("nothing in '{path}' waits for approval: {why}")]
    NothingPending {
        /// File to be approved.
        path: String,
        /// Reason.
        why: String,
    },
    /// The file is no longer what the user has seen.
    #[error("'{path}' has changed since; review it again")]
    Changed {
        /// The file.
        path: String,
    },
    /// The workspace brings something else than the user has seen.
    #[error("the files of the workspace that steer agents have changed since; review them again")]
    BringsOther,
    /// The file that keeps the trust is damaged, so that nothing is trusted.
    #[error("this file is damaged ({problem}), so the workspace is untrusted; trust the workspace again")]
    Damaged { problem: String },
    /// The directory that was trusted is no longer the one at its path.
    #[error(
        "the workspace is untrusted, because its path now leads to another directory than the one that was trusted; trust it again if it is yours"
    )]
    Replaced,
    /// The trust can't be kept.
    #[error("can't write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Reason.
        source: io::Error,
    },
}

/// The file.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stored {
    version: u32,
    /// Of the first folder's real path: the directory's name has a part of it only.
    root: Digest,
    directory: DirectoryIdentity,
    trusted: bool,
    approved: Vec<Approved>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    delegation: Option<DelegationAnswer>,
}

#[derive(Serialize, Deserialize)]
struct Approved {
    path: String,
    digest: Digest,
}

/// Keeps the trust of one workspace.
pub(super) struct TrustStore {
    file: PrivateFile,
    /// None without a folder: then nothing is to be trusted.
    root: Option<PathBuf>,
    /// True if texts and modes are trusted without a look at the file.
    trusts_texts: bool,
}

impl TrustStore {
    pub(super) fn new(state_directory: &Path, root: Option<&Path>) -> Self {
        Self::from_file(PrivateFile::new(state_directory.join("trust.json")), root)
    }

    fn from_file(file: PrivateFile, root: Option<&Path>) -> Self {
        Self { file, root: root.map(Path::to_owned), trusts_texts: false }
    }

    /// Trusts texts and modes, whatever the user has decided.
    pub(super) fn trusting_texts(self) -> Self {
        Self { trusts_texts: true, ..self }
    }

    pub(super) fn file(&self) -> &Path {
        self.file.path()
    }

    /// Reads the current trust.
    pub(super) fn read(&self) -> Result<TrustState, TrustError> {
        let Some(root) = &self.root else { return Ok(TrustState::default()) };
        if self.trusts_texts {
            return Ok(TrustState::of_texts());
        }
        let damaged = |problem: String| TrustError::Damaged { problem };
        let bytes = match self.file.read(LIMIT) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Ok(TrustState::default()),
            Err(error) => return Err(damaged(error.to_string())),
        };
        let stored: Stored = serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
        if stored.version != VERSION || stored.root != digest(root) {
            return Err(damaged("it has another version or belongs to another workspace".to_owned()));
        }
        if !DirectoryIdentity::read(root).is_ok_and(|found| found.is_same(stored.directory)) {
            return if stored.trusted { Err(TrustError::Replaced) } else { Ok(TrustState::default()) };
        }
        let approved = stored.approved.into_iter().map(|file| (file.path, file.digest)).collect();
        Ok(TrustState {
            trusted: stored.trusted,
            approved,
            delegation: stored.delegation,
            own_delegation: None,
            approves_modes: false,
        })
    }

    /// Holds off all other changes of the trust, whichever process would make them.
    pub(super) fn lock(&self) -> Result<FileLock, TrustError> {
        self.root.as_ref().ok_or(TrustError::NoFolder)?;
        self.file.lock().map_err(|source| self.unwritten(source))
    }

    /// Keeps this; it outlives a loss of power.
    pub(super) fn write(&self, state: &TrustState) -> Result<(), TrustError> {
        let root = self.root.as_deref().ok_or(TrustError::NoFolder)?;
        let approved =
            state.approved.iter().map(|(path, digest)| Approved { path: path.clone(), digest: *digest });
        let stored = |directory| Stored {
            version: VERSION,
            root: digest(root),
            directory,
            trusted: state.trusted,
            approved: approved.collect(),
            delegation: state.delegation,
        };
        let written = DirectoryIdentity::read(root)
            .and_then(|directory| self.file.replace(&serde_json::to_vec_pretty(&stored(directory))?));
        written.map_err(|source| self.unwritten(source))
    }

    fn unwritten(&self, source: io::Error) -> TrustError {
        TrustError::Write { path: self.file().to_owned(), source }
    }
}

fn digest(root: &Path) -> Digest {
    Digest::of(root.as_os_str().as_encoded_bytes())
}

/// Lists the files by which the workspace steers agents, as paths relative to its first folder. Looks at names only.
pub(super) fn brings(files: &Files, root: &Path) -> Vec<String> {
    let at_root = |name: &str| {
        matches!(name, ".roomodes" | "AGENTS.md" | "AGENT.md" | "AGENTS.local.md")
            || [".roorules", ".clinerules"].iter().any(|start| is_kind(name, start))
    };
    let in_roo = |name: &str| {
        matches!(name, "hooks.json" | "mcp.json")
            || ["rules", "commands", "skills", "system-prompt"].iter().any(|start| is_kind(name, start))
    };
    let in_agents = |name: &str| is_kind(name, "skills");
    let below = |directory: &str, names: Vec<String>| -> Vec<String> {
        names.into_iter().map(|name| format!("{directory}/{name}")).collect()
    };
    let mut found = files.names(root, Scope::Project, at_root);
    found.extend(below(".roo", files.names(&root.join(".roo"), Scope::Project, in_roo)));
    found.extend(below(".agents", files.names(&root.join(".agents"), Scope::Project, in_agents)));
    found
}

/// Returns whether a name is `start` or `start-<mode>`.
fn is_kind(name: &str, start: &str) -> bool {
    name.strip_prefix(start).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use roo_durable::simulated_disk::{SimulatedDisk, assert_old_or_new};

    #[test]
    fn a_loss_of_power_or_a_full_disk_leaves_the_old_trust_or_the_new() {
        let root = tempfile::tempdir().unwrap();
        let store_on = |disk: &SimulatedDisk| {
            let file = PrivateFile::on(Arc::new(disk.clone()), "/state/trust.json");
            TrustStore::from_file(file, Some(root.path()))
        };
        let approved = BTreeSet::from([("hooks.json".to_owned(), Digest::of("hooks"))]);
        let (old, new) =
            (TrustState { trusted: true, approved, ..TrustState::default() }, TrustState::default());
        assert_old_or_new(
            |disk| store_on(disk).write(&old).unwrap(),
            |disk| store_on(disk).write(&new),
            |disk| store_on(disk).read().unwrap(),
        );
    }
}
