//! What roo-lsp processes write in a workspace for themselves while a command runs, told apart from what the command
//! wrote.
//!
//! Where the sandbox keeps protected names from being written, no change of them is the command's, and nothing of this
//! is asked. Elsewhere a command could have written the same files. So a file counts as the server's only where it is
//! as the trace says that it was written last, or belongs to another request that was at work meanwhile.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::trace::Recorder;
use crate::changes::{Change, Kind, What};
use crate::modes::is_urid;
use crate::protocol::ids::Urid;
use crate::trace::CurrentCopies;
use crate::trace::projection::{DIRECTORY, MAP_FILE, TRACE_FILE, is_set_aside, is_temporary};

/// Where requests have their directories, relative to the first workspace folder.
const TASKS: [&str; 2] = [".roo", "tasks"];
/// How much of a request's log is looked at for its id, in bytes.
const LOG_BEGINNING: u64 = 64 << 10;
/// By how much times of files lag behind the clock at most.
const LAG: Duration = Duration::from_secs(1);

/// Knows what roo-lsp processes write in a workspace for themselves.
pub(super) struct ServerFiles {
    recorder: Arc<Recorder>,
    /// Where the logs of the workspace's requests are.
    requests: PathBuf,
    /// The request of the command.
    own: Urid,
}

impl ServerFiles {
    /// For commands of a request. `private` is the workspace's part of the state directory.
    pub(super) fn new(recorder: Arc<Recorder>, private: &Path, own: Urid) -> Self {
        Self { recorder, requests: private.join("requests"), own }
    }

    /// Leaves out those changes that the command was not allowed to make and did not make. `root` is the first
    /// workspace folder; `begun` is when the command began. Reads the disk.
    pub(super) fn leave_out(&self, root: &Path, begun: SystemTime, changes: &mut Vec<Change>) {
        let is_candidate = |change: &Change| {
            let is_ours = change.path.starts_with(DIRECTORY) || change.path.starts_with(TASKS[0]);
            change.root == 0 && is_ours && change.is_violation()
        };
        if !changes.iter().any(is_candidate) {
            return;
        }
        // What can't be looked up is nobody else's.
        let copies = self.recorder.current_copies().unwrap_or_else(|error| {
            tracing::warn!(%error, "the copies of the trace can't be checked");
            CurrentCopies::default()
        });
        let before = changes.iter().find(|change| change.path == Path::new(DIRECTORY).join(TRACE_FILE));
        let before = before.and_then(|change| change.before.as_ref()?.digest);
        changes.retain(|change| {
            let Some(names) = names(change).filter(|_| is_candidate(change)) else { return true };
            let after = change.after.as_ref();
            let is_new_directory =
                change.what == What::Created && after.is_some_and(|after| after.kind == Kind::Directory);
            let is_servers = match names.as_slice() {
                [DIRECTORY] => is_new_directory,
                [DIRECTORY, TRACE_FILE] => copies.trace,
                [DIRECTORY, MAP_FILE] => copies.map,
                // Those that were left have been removed under the trace's lock.
                [DIRECTORY, name] if is_temporary(name) => {
                    root.join(&change.path).symlink_metadata().is_err()
                }
                // Others' records that were in the place of the copy before.
                [DIRECTORY, name] if is_set_aside(name) => {
                    copies.trace && before.is_some() && before == after.and_then(|after| after.digest)
                }
                [above] => *above == TASKS[0] && is_new_directory,
                [above, tasks] => [*above, *tasks] == TASKS && is_new_directory,
                [above, tasks, urid, below @ ..] if [*above, *tasks] == TASKS => {
                    let is_anothers = is_urid(urid) && *urid != self.own.as_str();
                    is_anothers && (below.is_empty() && is_new_directory || self.was_at_work(urid, begun))
                }
                _ => false,
            };
            !is_servers
        });
    }

    /// Whether a request of the workspace has gone on since some time.
    fn was_at_work(&self, urid: &str, since: SystemTime) -> bool {
        let since = since.checked_sub(LAG).unwrap_or(SystemTime::UNIX_EPOCH);
        let named = format!("\"urid\":\"{urid}\"");
        let requests = fs::read_dir(&self.requests).into_iter().flatten().flatten();
        let logs = requests.map(|request| request.path().join("log.jsonl"));
        let recent = |log: &PathBuf| {
            let modified = fs::metadata(log).and_then(|found| found.modified());
            modified.is_ok_and(|modified| modified >= since)
        };
        logs.filter(recent).any(|log| {
            let mut beginning = Vec::new();
            let read = File::open(log).and_then(|log| log.take(LOG_BEGINNING).read_to_end(&mut beginning));
            read.is_ok() && String::from_utf8_lossy(&beginning).contains(&named)
        })
    }
}

/// The parts of a path; none where one is no text.
fn names(change: &Change) -> Option<Vec<&str>> {
    change.path.iter().map(|name| name.to_str()).collect()
}
