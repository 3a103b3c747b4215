//! Files that roo-lsp processes write in a workspace for themselves while a command runs, told apart from what the
//! command wrote.
//!
//! Where the sandbox keeps protected names from being written, no change of them is the command's, and nothing of this
//! is asked. Elsewhere a command could have written the same files. So a file counts as the server's only where it is
//! as the trace says that it was written last, or belongs to another request that was at work meanwhile.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::git::TASK_RULES;
use super::recorder::Recorder;
use roo_formats::modes::is_urid;
use roo_protocol::ids::{Digest, Urid};
use roo_sandbox::changes::{Change, Kind, What};
use roo_trace::CurrentCopies;
use roo_trace::projection::{
    DIRECTORY, IGNORE_FILE, IGNORE_RULES, MAP_FILE, TRACE_FILE, is_set_aside, is_temporary,
};

/// Directory of requests, relative to the first workspace folder.
const TASKS: [&str; 2] = [".roo", "tasks"];
/// Length of the part of a request's log in which its id is searched, in bytes.
const LOG_BEGINNING: u64 = 64 << 10;
/// By how much times of files lag behind the clock at most.
const LAG: Duration = Duration::from_secs(1);

/// Knows what roo-lsp processes write in a workspace for themselves.
pub(super) struct ServerFiles {
    recorder: Arc<Recorder>,
    /// Directory of the logs of the workspace's requests.
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
        // A path that can't be looked up is nobody else's.
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
            let is_new_file_of = |text: &str| {
                let digest = after.and_then(|after| after.digest);
                change.what == What::Created && digest == Some(Digest::of(text))
            };
            let is_servers = match names.as_slice() {
                [DIRECTORY] => is_new_directory,
                [DIRECTORY, TRACE_FILE] => copies.trace,
                [DIRECTORY, MAP_FILE] => copies.map,
                [DIRECTORY, IGNORE_FILE] => is_new_file_of(IGNORE_RULES),
                [above, tasks, IGNORE_FILE] if [*above, *tasks] == TASKS => is_new_file_of(TASK_RULES),
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

    /// Returns whether a request of the workspace has gone on since some time.
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::intent_store::Orchestration;
    use roo_durable::reserve::Reserve;
    use roo_protocol::ids::{TaskId, ToolCallId};
    use roo_sandbox::changes::{
        Allowed, FileIndex, IndexedRoot, Keep, Limits, Mark, Marker, Recording, Scope, Store,
    };
    use roo_sandbox::exec::sandbox::Journal;
    use roo_text::position::Encoding;
    use roo_trace::record::{Decision, Entry, Outcome};
    use roo_workspace::{Setup, Workspace};

    const OWN: &str = "20260102-03-04-abcdef01";
    const ANOTHER: &str = "20260102-03-04-abcdef02";

    /// Nothing may be changed, as with no sandbox that could hold it.
    struct Protected;

    impl Scope for Protected {
        fn allowed(&self, _root: usize, _path: &Path) -> Allowed {
            Allowed::Protected
        }

        fn keep(&self, _root: usize, _path: &Path) -> Keep {
            Keep::Content
        }
    }

    impl Marker for Protected {
        fn mark(&self, _path: &Path, _kind: Kind) -> Mark {
            Mark::None
        }
    }

    struct Fixture {
        directory: tempfile::TempDir,
        store: Store,
        index: Arc<FileIndex>,
    }

    impl Fixture {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            fs::create_dir(directory.path().join("work")).unwrap();
            let store = Store::open(directory.path().join("kept"), Limits::default()).unwrap();
            Self { directory, store, index: Arc::default() }
        }

        fn root(&self) -> PathBuf {
            self.directory.path().canonicalize().unwrap().join("work")
        }

        fn write(&self, name: &str, text: &str) {
            let path = self.root().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        /// The recorder of one process.
        fn recorder(&self) -> Recorder {
            let state = self.directory.path().join("state");
            let workspace = Workspace::open(Setup {
                folders: vec![self.root()],
                state_directory: state.clone(),
                documents: Arc::default(),
                editor: None,
                encoding: Encoding::Utf16,
            });
            let orchestration = Arc::new(Orchestration::new(Arc::new(workspace.unwrap()), &state));
            let reserve = Reserve::new(&state);
            Recorder::new(state, Some(self.root()), orchestration, reserve)
        }

        /// Another process appends to the trace.
        fn append(&self) {
            let entry = Entry {
                at: 0,
                outcome: Outcome::Denied,
                tool_call: "execute_command".to_owned(),
                tool_call_id: ToolCallId::new("call_1"),
                task: TaskId::new("task"),
                parent_task: None,
                urid: Urid::new(ANOTHER),
                mode: "code".to_owned(),
                model: None,
                intent: None,
                decision: Decision::default(),
                sandbox: None,
                files: vec![],
                prompt: None,
                command: None,
                commit: None,
                violations: vec![],
                server_call: None,
                requested: None,
                claimed: None,
            };
            self.recorder().record(entry, None).unwrap();
        }

        /// A command begins.
        fn begin(&self) -> Recording {
            let roots = [IndexedRoot { path: self.root(), marker: Arc::new(Protected) }];
            self.index.begin(&roots, &Protected, &self.store).unwrap()
        }

        /// The changes that the command is still blamed for.
        fn blamed(&self, recording: &Recording) -> Vec<String> {
            let state = self.directory.path().join("state");
            let files = ServerFiles::new(Arc::new(self.recorder()), &state, Urid::new(OWN));
            let mut changes = recording.changes(&Protected, &Journal::default()).changes;
            files.leave_out(&self.root(), SystemTime::now(), &mut changes);
            changes.iter().map(|change| change.path.to_str().unwrap().to_owned()).collect()
        }
    }

    #[test]
    fn what_another_process_adds_to_the_trace_is_its_own() {
        let fixture = Fixture::new();
        let first = fixture.begin();
        fixture.append();
        assert_eq!(fixture.blamed(&first), [""; 0]);
        let second = fixture.begin();
        fixture.append();
        // It was about to replace the copy when it was killed.
        fixture.write(".orchestration/.agent_trace.jsonl.7.new", "{");
        assert_eq!(fixture.blamed(&second), [""; 0]);
        assert!(!fixture.root().join(".orchestration/.agent_trace.jsonl.7.new").exists());
    }

    #[test]
    fn records_of_others_that_are_set_aside_are_not_the_commands() {
        let fixture = Fixture::new();
        let others =
            concat!(r#"{"version":"0.1.0","id":"x","timestamp":"2026-01-02T03:04:05Z","files":[]}"#, "\n");
        fixture.write(".orchestration/agent_trace.jsonl", others);
        let recording = fixture.begin();
        fixture.append();
        let names = fs::read_dir(fixture.root().join(".orchestration")).unwrap().count();
        assert_eq!((fixture.blamed(&recording), names), (vec![], 3));
    }

    #[test]
    fn rules_of_git_that_a_process_makes_there_are_its_own_and_no_others() {
        let fixture = Fixture::new();
        let recording = fixture.begin();
        fixture.append();
        fixture.write(".roo/tasks/.gitignore", TASK_RULES);
        assert_eq!(fixture.blamed(&recording), [""; 0]);
        let recording = fixture.begin();
        fixture.write(".orchestration/.gitignore", "");
        fixture.write(".roo/tasks/.gitignore", "");
        assert_eq!(fixture.blamed(&recording), [".orchestration/.gitignore", ".roo/tasks/.gitignore"]);
        let other = Fixture::new();
        let recording = other.begin();
        other.write(".roo/tasks/.gitignore", "!*\n");
        assert_eq!(other.blamed(&recording), [".roo/tasks/.gitignore"]);
    }

    #[test]
    fn what_a_command_writes_there_is_a_violation() {
        let fixture = Fixture::new();
        fixture.append();
        let recording = fixture.begin();
        let copy = fixture.root().join(".orchestration/agent_trace.jsonl");
        fs::write(&copy, fs::read_to_string(&copy).unwrap() + "{}\n").unwrap();
        for name in ["active_intents.yaml", "agent_trace.0123abcd.jsonl", "intent_map.md", "x"] {
            fixture.write(&format!(".orchestration/{name}"), "x");
        }
        let expected =
            ["active_intents.yaml", "agent_trace.0123abcd.jsonl", "agent_trace.jsonl", "intent_map.md", "x"];
        assert_eq!(fixture.blamed(&recording), expected.map(|name| format!(".orchestration/{name}")));
        let linked = Fixture::new();
        let recording = linked.begin();
        symlink("/etc", linked.root().join(".orchestration")).unwrap();
        assert_eq!(linked.blamed(&recording), [".orchestration"]);
    }

    #[test]
    fn the_directory_of_another_request_is_its_own_while_it_works() {
        let fixture = Fixture::new();
        let recording = fixture.begin();
        let notes = format!(".roo/tasks/{ANOTHER}/notes.md");
        fixture.write(&notes, "x");
        fixture.write(".roo/mcp.json", "{}");
        fixture.write(".roo/tasks/free", "");
        let rest = [".roo/mcp.json".to_owned(), ".roo/tasks/free".to_owned()];
        // There is no such request.
        assert_eq!(fixture.blamed(&recording), [&rest[..1], &[notes], &rest[1..]].concat());
        let log = fixture.directory.path().join("state/requests/1/log.jsonl");
        fs::create_dir_all(log.parent().unwrap()).unwrap();
        fs::write(&log, format!("{{\"event\":{{\"urid\":\"{ANOTHER}\"}}}}\n")).unwrap();
        assert_eq!(fixture.blamed(&recording), rest);
        // It was over long before the command began.
        let long_ago = SystemTime::now() - Duration::from_secs(3600);
        File::options().write(true).open(&log).unwrap().set_modified(long_ago).unwrap();
        assert_eq!(fixture.blamed(&recording).len(), 3);
    }
}
