//! Marks of the requests that are under way in this process, kept on disk, so that the next process knows which of them it left
//! when it was killed, and by which settings and trust they ran.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use crate::live_settings::SaidSettings;
use roo_protocol::ids::{Digest, TaskId};

/// What the names of marks that are being written begin with.
const UNFINISHED: &str = ".";

/// The marks of one process, and those that the one before it left.
#[derive(Debug)]
pub(crate) struct InterruptedRequests {
    /// None where nothing is marked.
    folder: Option<PathBuf>,
    state: Mutex<Marks>,
}

#[derive(Debug, Default)]
struct Marks {
    /// Requests that a process was killed with, and that nobody has gone on with.
    left: BTreeMap<TaskId, RunningMark>,
    /// Those that this process is about to go on with by itself.
    resuming: BTreeSet<TaskId>,
}

/// How a request runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RunningMark {
    pub(super) engine: EngineKey,
    /// What was said of settings beside the file.
    pub(super) said: SaidSettings,
    /// True if an editor was connected, which may come back with unsaved text.
    pub(super) has_editor: bool,
}

/// The engine in which a request is under way: only the same one may go on with it unasked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EngineKey {
    pub(super) folders: Vec<PathBuf>,
    pub(super) settings_file: PathBuf,
    /// A digest of the settings that count there.
    pub(super) settings: Digest,
    /// True if the workspace is trusted.
    pub(super) is_trusted: bool,
}

/// Requests that were left in one engine.
pub(super) struct InterruptedGroup {
    pub(super) mark: RunningMark,
    pub(super) requests: Vec<TaskId>,
}

impl InterruptedRequests {
    /// Marks in this folder, which is the user's alone and is made when it is needed. What is there was left by the process
    /// before. Reads the disk.
    pub(crate) fn new(folder: PathBuf) -> Self {
        let state = Marks { left: read_all(&folder), resuming: BTreeSet::new() };
        Self { folder: Some(folder), state: Mutex::new(state) }
    }

    /// No marks: no other process goes on with the requests of this one.
    pub(crate) fn none() -> Self {
        Self { folder: None, state: Mutex::default() }
    }

    /// Returns whether a process has left requests in this folder. Reads the disk.
    pub(crate) fn are_in(folder: &Path) -> bool {
        !read_all(folder).is_empty()
    }

    /// Marks a request as being under way. A failure is logged: the request goes on, and is not resumed unasked.
    pub(super) async fn mark(&self, request: &TaskId, mark: &RunningMark) {
        let Some(folder) = self.folder.clone() else { return };
        // Plain values always become JSON.
        let (name, bytes) = (request.to_string(), serde_json::to_vec(mark).unwrap_or_default());
        let written = tokio::task::spawn_blocking(move || write(&folder, &name, &bytes)).await;
        if let Ok(Err(error)) = written {
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

    /// This process is about to go on with all that were left. Returns them by their engines.
    pub(super) fn begin_resuming(&self) -> Vec<InterruptedGroup> {
        let mut state = self.state();
        state.resuming = state.left.keys().cloned().collect();
        let mut together: Vec<InterruptedGroup> = Vec::new();
        for (request, mark) in &state.left {
            match together.iter_mut().find(|left| left.mark.engine == mark.engine) {
                Some(left) => {
                    left.requests.push(request.clone());
                    left.mark.has_editor |= mark.has_editor;
                }
                None => {
                    together.push(InterruptedGroup { mark: mark.clone(), requests: vec![request.clone()] })
                }
            }
        }
        together
    }

    /// The requests that were left in this engine. Whoever gets them goes on with them and says so by
    /// [`InterruptedRequests::settle`]; nobody else gets them.
    pub(super) fn take_in(&self, engine: &EngineKey) -> Vec<TaskId> {
        let mut state = self.state();
        let (taken, left): (BTreeMap<_, _>, _) =
            std::mem::take(&mut state.left).into_iter().partition(|(_, mark)| mark.engine == *engine);
        state.left = left;
        taken.into_keys().collect()
    }

    /// This process goes on with a request, or doesn't.
    pub(super) fn settle(&self, request: &TaskId) {
        self.state().resuming.remove(request);
    }

    /// This process won't go on by itself with those of these that nobody has taken.
    pub(super) fn give_up(&self, requests: &[TaskId]) {
        let mut state = self.state();
        for request in requests {
            if state.left.contains_key(request) {
                state.resuming.remove(request);
            }
        }
    }

    /// Returns the requests that this process is about to go on with.
    pub(super) fn resuming(&self) -> Vec<TaskId> {
        self.state().resuming.iter().cloned().collect()
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

    fn state(&self) -> MutexGuard<'_, Marks> {
        // Every change under the lock is complete or not begun.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes a mark, whole or not at all: a process that is killed meanwhile leaves the one before.
fn write(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let unfinished = folder.join(format!("{UNFINISHED}{name}"));
    // What a client says of settings is nobody else's.
    let mut file =
        OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&unfinished)?;
    file.write_all(bytes)?;
    fs::rename(unfinished, folder.join(name))
}

fn read_all(folder: &Path) -> BTreeMap<TaskId, RunningMark> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let left = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok().filter(|name| !name.starts_with(UNFINISHED))?;
        // One that can't be read, as of an earlier version, marks nothing.
        let mark = serde_json::from_slice(&fs::read(entry.path()).ok()?).ok()?;
        Some((TaskId::new(name), mark))
    });
    left.collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use serde_json::json;

    use super::*;

    fn mark(folder: &str, settings: &str) -> RunningMark {
        let engine = EngineKey {
            folders: vec![folder.into()],
            settings_file: "/c/config.yaml".into(),
            settings: Digest::of(settings),
            is_trusted: true,
        };
        let options = json!({ "roo": { "mode": "code" } });
        RunningMark { engine, said: SaidSettings { options, ..SaidSettings::default() }, has_editor: false }
    }

    fn id(name: &str) -> TaskId {
        TaskId::new(name)
    }

    #[tokio::test]
    async fn what_was_left_is_taken_once_and_by_the_same_engine_alone() {
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path().join("marks");
        let process = InterruptedRequests::new(folder.clone());
        assert!(!InterruptedRequests::are_in(&folder));
        let engine = mark("/w", "s");
        process.mark(&id("one"), &engine).await;
        process.mark(&id("other"), &mark("/w", "laxer")).await;
        process.mark(&id("ended"), &engine).await;
        process.unmark(&id("ended")).await;
        process.unmark(&id("ended")).await;
        assert_eq!(process.take_in(&engine.engine), [], "its own are not left");
        assert_eq!(fs::metadata(folder.join("one")).unwrap().permissions().mode() & 0o777, 0o600);
        fs::write(folder.join("cut"), "{\"engine\":").unwrap();
        fs::copy(folder.join("one"), folder.join(".half")).unwrap();

        assert!(InterruptedRequests::are_in(&folder));
        let next = InterruptedRequests::new(folder.clone());
        let untrusted = EngineKey { is_trusted: false, ..engine.engine.clone() };
        assert_eq!(next.take_in(&untrusted), []);
        assert_eq!(next.take_in(&mark("/elsewhere", "s").engine), []);
        assert_eq!(next.take_in(&engine.engine), [id("one")]);
        assert_eq!(next.take_in(&engine.engine), []);
        next.clear().await;
        assert!(!folder.exists());
    }

    #[tokio::test]
    async fn what_a_process_is_about_to_go_on_with_is_told_until_it_does_or_does_not() {
        let directory = tempfile::tempdir().unwrap();
        let process = InterruptedRequests::new(directory.path().join("marks"));
        let engine = mark("/w", "s");
        process.mark(&id("a"), &engine).await;
        process.mark(&id("b"), &RunningMark { has_editor: true, ..engine.clone() }).await;
        process.mark(&id("c"), &mark("/v", "s")).await;

        let next = InterruptedRequests::new(directory.path().join("marks"));
        assert_eq!(next.resuming(), []);
        let together = next.begin_resuming();
        let told: Vec<_> =
            together.iter().map(|left| (left.requests.clone(), left.mark.has_editor)).collect();
        assert_eq!(told, [(vec![id("a"), id("b")], true), (vec![id("c")], false)]);
        assert_eq!(together[0].mark.said, engine.said);
        assert_eq!(next.take_in(&engine.engine).len(), 2);
        next.settle(&id("a"));
        next.give_up(&[id("b"), id("c")]);
        assert_eq!(next.resuming(), [id("b")], "who has taken it says so");
        assert_eq!(next.take_in(&mark("/v", "s").engine), [id("c")], "a client may still go on with it");
    }
}
