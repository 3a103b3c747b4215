//! Marks of the requests that are under way in this process, kept on disk, so that the next process knows which of them it left
//! when it was killed.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use roo_protocol::ids::{Digest, TaskId};

/// The marks of one process, and those that the one before it left.
#[derive(Debug)]
pub(crate) struct LeftRequests {
    /// None where nothing is marked.
    folder: Option<PathBuf>,
}

/// The engine in which a request is under way: only the same one may go on with it unasked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Mark {
    pub(super) folders: Vec<PathBuf>,
    pub(super) settings_file: PathBuf,
    /// A digest of the settings that count there.
    pub(super) settings: Digest,
}

impl LeftRequests {
    /// Marks in this folder, which is the user's alone and is made when it is needed.
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder: Some(folder) }
    }

    /// No marks: no other process goes on with the requests of this one.
    pub(crate) fn none() -> Self {
        Self { folder: None }
    }

    /// Marks a request as being under way. A failure is logged: the request goes on, and is not resumed unasked.
    pub(super) async fn mark(&self, request: &TaskId, mark: &Mark) {
        let Some(folder) = &self.folder else { return };
        let write = async {
            tokio::fs::create_dir_all(folder).await?;
            let bytes = serde_json::to_vec(mark)?;
            tokio::fs::write(folder.join(request.as_str()), bytes).await
        };
        if let Err(error) = write.await {
            tracing::warn!(%error, %request, "a request can't be marked as being under way");
        }
    }

    /// A request is not under way any more.
    pub(super) async fn unmark(&self, request: &TaskId) {
        let Some(folder) = &self.folder else { return };
        match tokio::fs::remove_file(folder.join(request.as_str())).await {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(%error, %request, "the mark of a request is left");
            }
            _ => {}
        }
    }

    /// The requests that were left in this engine.
    pub(super) async fn left_in(&self, engine: &Mark) -> Vec<TaskId> {
        let Some(folder) = self.folder.clone() else { return vec![] };
        let engine = engine.clone();
        let found = tokio::task::spawn_blocking(move || read_all(&folder, &engine)).await;
        found.unwrap_or_default().into_iter().collect()
    }

    /// Removes all marks: the process ends in good order, and its requests wait for their user.
    pub(super) async fn clear(&self) {
        let Some(folder) = &self.folder else { return };
        match tokio::fs::remove_dir_all(folder).await {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(%error, "the marks of requests are left");
            }
            _ => {}
        }
    }
}

fn read_all(folder: &Path, engine: &Mark) -> BTreeSet<TaskId> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let left = entries.filter_map(|entry| {
        // One that was cut off marks nothing.
        let mark: Mark = serde_json::from_slice(&std::fs::read(entry.path()).ok()?).ok()?;
        let name = entry.file_name().into_string().ok()?;
        (mark == *engine).then(|| TaskId::new(name))
    });
    left.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(folder: &str, settings: &str) -> Mark {
        Mark {
            folders: vec![folder.into()],
            settings_file: "/c/config.yaml".into(),
            settings: Digest::of(settings),
        }
    }

    #[tokio::test]
    async fn what_is_left_is_found_by_the_same_engine_alone() {
        let directory = tempfile::tempdir().unwrap();
        let left = LeftRequests::new(directory.path().join("marks"));
        let engine = mark("/w", "s");
        assert_eq!(left.left_in(&engine).await, []);
        let (one, other) = (TaskId::new("one"), TaskId::new("other"));
        left.mark(&one, &engine).await;
        left.mark(&other, &mark("/w", "laxer")).await;
        std::fs::write(directory.path().join("marks/cut"), "{\"folders\":").unwrap();
        assert_eq!(left.left_in(&engine).await, std::slice::from_ref(&one));
        assert_eq!(left.left_in(&mark("/elsewhere", "s")).await, []);
        left.unmark(&one).await;
        left.unmark(&one).await;
        assert_eq!(left.left_in(&engine).await, []);
        left.clear().await;
        assert!(!directory.path().join("marks").exists());
    }
}
