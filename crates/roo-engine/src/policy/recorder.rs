//! Recorder of the trace of what agents do in one workspace.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use uuid::Uuid;

use crate::intent_store::{Binding, Intents, Orchestration};
use roo_durable::reserve::Reserve;
use roo_formats::intents::Recent;
use roo_trace::projection::{self, ProjectionError};
use roo_trace::query::{Filter, query};
use roo_trace::record::{Draft, Entry, FileChange, IntentRef, Own};
use roo_trace::{ComparableForms, CurrentCopies, Ledger, LedgerError, Setup};
use roo_workspace::{ProtectedBy, Protection, UnsyncedNames, Workspace, protection};

/// The most records that a task is told of an intent.
const RECENT: usize = 20;

/// Keeps the trace of one workspace. Its methods wait for the disk.
pub struct Recorder {
    state_directory: PathBuf,
    folder: Option<PathBuf>,
    orchestration: Arc<Orchestration>,
    ledger: OnceLock<Ledger>,
    forms: ComparableForms,
    reserve: Reserve,
    /// Synced before a record tells of a file in them.
    unsynced_names: Arc<UnsyncedNames>,
    /// What happened and is not compared yet, in order.
    queue: Mutex<VecDeque<(Entry, Option<Binding>)>>,
    /// Records that are not written yet. Nothing is changed before they are.
    pending: Mutex<Vec<Draft>>,
    /// Reason why it could not be written.
    problem: Mutex<Option<LedgerError>>,
}

impl Recorder {
    /// The trace below the workspace's part of the state directory, with a copy in the first folder.
    /// Nothing is opened yet.
    pub fn new(
        state_directory: PathBuf,
        folder: Option<PathBuf>,
        orchestration: Arc<Orchestration>,
        reserve: Reserve,
    ) -> Self {
        Self {
            state_directory,
            folder,
            orchestration,
            ledger: OnceLock::new(),
            forms: ComparableForms::default(),
            reserve,
            unsynced_names: Arc::default(),
            queue: Mutex::default(),
            pending: Mutex::default(),
            problem: Mutex::default(),
        }
    }

    /// Has what was written to a workspace survive power loss before any record does.
    #[must_use]
    pub(crate) fn behind(self, workspace: &Workspace) -> Self {
        Self { unsynced_names: Arc::clone(workspace.unsynced_names()), ..self }
    }

    /// Records what happened. When this returns without an error it survives power loss.
    ///
    /// # Errors
    /// [`LedgerError`]; it is kept in memory then, and [`Self::settle`] tries again.
    pub fn record(&self, entry: Entry, intent: Option<&Binding>) -> Result<(), LedgerError> {
        self.enqueue(entry, intent.cloned());
        self.settle()
    }

    /// Keeps what happened for the next [`Self::settle`]. Returns at once: comparing the texts of a large file takes
    /// longer than writing it.
    pub(crate) fn enqueue(&self, entry: Entry, intent: Option<Binding>) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).push_back((entry, intent));
    }

    /// Writes what is not written yet. When this returns, files that were written before the call survive power loss; when
    /// it returns without an error, so does the record of it.
    ///
    /// # Errors
    /// [`LedgerError`], as long as it can't be written.
    pub fn settle(&self) -> Result<(), LedgerError> {
        // Whoever holds this has the turn, so that records are in the order of what they tell.
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some((entry, intent)) = self.dequeue() {
            pending.push(self.draft(entry, intent.as_ref()));
        }
        // Behind the queue: whoever put a record there had written its files before.
        self.unsynced_names.sync();
        if pending.is_empty() { Ok(()) } else { self.write(&mut pending) }
    }

    fn dequeue(&self) -> Option<(Entry, Option<Binding>)> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    fn draft(&self, mut entry: Entry, intent: Option<&Binding>) -> Draft {
        entry.intent = intent.map(|binding| self.intent(binding));
        Draft::new(&entry, &self.forms, Uuid::new_v4).labelled(|path| match protection(path, None) {
            Protection::Tier1 { by: ProtectedBy::Name(rule) } | Protection::Tier2 { rule } => Some(rule),
            Protection::Tier1 { by: ProtectedBy::Pattern(_) }
            | Protection::None
            | Protection::Denied
            | Protection::OwnTaskDirectory => None,
        })
    }

    /// Returns the reason why the trace is behind; none when it isn't.
    pub fn problem(&self) -> Option<LedgerError> {
        self.problem.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn write(&self, pending: &mut Vec<Draft>) -> Result<(), LedgerError> {
        let written = self.try_to_write(pending);
        *self.problem.lock().unwrap_or_else(PoisonError::into_inner) = written.as_ref().err().cloned();
        written
    }

    fn try_to_write(&self, pending: &mut Vec<Draft>) -> Result<(), LedgerError> {
        let appended = match self.ledger().and_then(|ledger| ledger.append(pending)) {
            Err(LedgerError::Io { source, .. }) if self.reserve.release_if_full(&source) => {
                tracing::warn!("the disk is full: the space reserved for this is in use now");
                self.ledger()?.append(pending)?
            }
            appended => appended?,
        };
        pending.clear();
        for damage in appended.damage {
            tracing::error!(%damage, "the trace was damaged");
        }
        if let Some(problem) = appended.copy_problem {
            tracing::warn!(%problem, "the workspace has no copy of the newest trace records");
        }
        Ok(())
    }

    /// Makes the directory for the copy in the workspace, if there is none.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) fn make_copy_directory(&self) -> Result<(), ProjectionError> {
        self.folder.as_ref().map_or(Ok(()), |folder| projection::make_directory(folder))
    }

    /// Which files of the workspace's copy are as some process wrote them last.
    ///
    /// # Errors
    /// [`LedgerError::Io`].
    pub(super) fn current_copies(&self) -> Result<CurrentCopies, LedgerError> {
        self.ledger()?.current_copies()
    }

    fn ledger(&self) -> Result<&Ledger, LedgerError> {
        if let Some(ledger) = self.ledger.get() {
            return Ok(ledger);
        }
        let (ledger, damage) = Ledger::open(Setup::new(self.state_directory.clone(), self.folder.clone()))?;
        for damage in damage {
            tracing::error!(%damage, "the trace was damaged");
        }
        Ok(self.ledger.get_or_init(|| ledger))
    }

    fn intent(&self, binding: &Binding) -> IntentRef {
        let known = match self.orchestration.intents() {
            Intents::Present { file, .. } => file.get(&binding.id).cloned(),
            Intents::Absent | Intents::Broken(_) => None,
        };
        IntentRef {
            id: binding.id.clone(),
            name: known.as_ref().map(|intent| intent.name.clone()).unwrap_or_default(),
            digest: Some(binding.digest),
            requirements: known.map(|intent| intent.requirements).unwrap_or_default(),
        }
    }

    /// Returns what was done for an intent, the newest last.
    pub fn recent(&self, intent: &str) -> Vec<Recent> {
        let filter = Filter { intent: Some(intent.to_owned()), limit: Some(RECENT), ..Filter::default() };
        // What can't be written is told of by the hook that refuses changes.
        let _ = self.settle();
        let records = query(&self.state_directory, &filter).unwrap_or_default();
        let recent = |record: roo_trace::record::Record| {
            let own = record.own()?;
            Some(Recent {
                at: record.timestamp.clone(),
                what: record.files.first().map_or_else(|| own.tool_call.clone(), |file| file.path.clone()),
                outcome: own.outcome.as_str().to_owned(),
            })
        };
        records.into_iter().filter_map(recent).collect()
    }

    /// Returns whether a call is in the trace already.
    pub fn has(&self, task: &str, call: &str) -> bool {
        let filter = Filter { task: Some(task.to_owned()), ..Filter::default() };
        let _ = self.settle();
        let records = query(&self.state_directory, &filter).unwrap_or_default();
        records.iter().filter_map(|record| record.own()).any(|own| own.tool_call_id == call)
    }

    /// Returns those of a call's changes that are not in the trace already.
    pub fn missing(&self, task: &str, call: &str, changes: Vec<FileChange>) -> Vec<FileChange> {
        let filter = Filter { task: Some(task.to_owned()), ..Filter::default() };
        let _ = self.settle();
        let records = query(&self.state_directory, &filter).unwrap_or_default();
        let is_recorded = |change: &FileChange| {
            records.iter().any(|record| {
                let is_of_file = record.files.iter().any(|file| file.path == change.path);
                let is_same = |own: &Own| {
                    own.tool_call_id == call
                        && own.before == Some(change.before.state())
                        && own.after == Some(change.after.state())
                };
                is_of_file && record.own().is_some_and(is_same)
            })
        };
        changes.into_iter().filter(|change| !is_recorded(change)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use roo_protocol::ids::{TaskId, ToolCallId, Urid};
    use roo_text::position::Encoding;
    use roo_trace::record::{Author, Decision, Outcome, Side};
    use roo_workspace::{Documents, Setup as WorkspaceSetup};

    use super::*;

    /// A recorder without a copy in a folder.
    fn recorder(place: &tempfile::TempDir) -> Recorder {
        let (root, state) = (place.path().join("work"), place.path().join("state"));
        fs::create_dir_all(&root).unwrap();
        let setup = WorkspaceSetup {
            folders: vec![root],
            state_directory: state.clone(),
            documents: Arc::new(Documents::default()),
            editor: None,
            encoding: Encoding::Utf16,
        };
        let workspace = Arc::new(Workspace::open(setup).unwrap());
        let orchestration = Arc::new(Orchestration::new(workspace, &state));
        Recorder::new(state.clone(), None, orchestration, Reserve::new(&state))
    }

    fn edit_by(call: &str, files: Vec<FileChange>) -> Entry {
        Entry {
            at: 0,
            outcome: Outcome::Ok,
            tool_call: "insert_content".to_owned(),
            tool_call_id: ToolCallId::new(call),
            task: TaskId::new("task"),
            parent_task: None,
            urid: Urid::new("20260102-03-04-abcdef01"),
            mode: "code".to_owned(),
            model: None,
            intent: None,
            decision: Decision::default(),
            sandbox: None,
            files,
            prompt: None,
            command: None,
            commit: None,
            violations: vec![],
            server_call: None,
            requested: None,
            claimed: None,
        }
    }

    #[test]
    fn only_a_change_that_its_call_made_before_from_the_same_text_is_in_the_trace_already() {
        let place = tempfile::tempdir().unwrap();
        let recorder = recorder(&place);
        let change = |path: &str, before: &str| FileChange {
            path: path.to_owned(),
            old_path: None,
            before: Side::text(before),
            after: Side::text(format!("{before}model\n")),
            author: Author::Ai,
        };
        let (one, other) = (change("one.txt", "begin\n"), change("two.txt", "begin\n"));
        recorder.record(edit_by("call", vec![one.clone()]), None).unwrap();
        let missing = |call: &str, changes: &[FileChange]| recorder.missing("task", call, changes.to_vec());
        assert_eq!(missing("call", &[one.clone(), other.clone()]), [other]);
        let from_another_text = change("one.txt", "begin\nuser\n");
        assert_eq!(missing("call", std::slice::from_ref(&from_another_text)), [from_another_text]);
        assert_eq!(missing("another", std::slice::from_ref(&one)), [one]);
    }
}
