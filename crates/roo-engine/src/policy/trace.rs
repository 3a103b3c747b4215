//! The trace of what agents do: the hook that refuses to go on while it can't be kept, and the one that
//! keeps it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use uuid::Uuid;

use super::check::{Access, CheckContext, Finding, Hook};
use super::gate::Refusal;
use super::post::{AuditRecord, PostHook};
use super::rule::RefusalRule;
use crate::intent_store::{Binding, Intents, Orchestration};
use roo_durable::reserve::Reserve;
use roo_formats::intents::Recent;
use roo_trace::projection::{self, ProjectionError};
use roo_trace::query::{Filter, query};
use roo_trace::record::{Draft, Entry, IntentRef};
use roo_trace::{CurrentCopies, Forms, Ledger, LedgerError, Setup};
use roo_workspace::{ProtectedBy, Protection, protection};

/// The most records that a task is told of an intent.
const RECENT: usize = 20;

/// Keeps the trace of one workspace. Its methods wait for the disk.
pub struct Recorder {
    state_directory: PathBuf,
    folder: Option<PathBuf>,
    orchestration: Arc<Orchestration>,
    ledger: OnceLock<Ledger>,
    forms: Forms,
    reserve: Reserve,
    /// Records that could not be written yet. Nothing is changed before they are.
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
        let (ledger, pending, problem) = (OnceLock::new(), Mutex::default(), Mutex::default());
        let forms = Forms::default();
        Self { state_directory, folder, orchestration, ledger, forms, reserve, pending, problem }
    }

    /// Looks at what an edit is about to replace and to write, each text with its file's path, so that less is
    /// left to do when it has happened.
    pub fn look_ahead(&self, texts: &[(String, String)]) {
        self.forms.look_ahead(texts.iter().map(|(path, text)| (path.as_str(), text.as_str())));
    }

    /// Puts down what happened. When this returns without an error it survives power loss.
    ///
    /// # Errors
    /// [`LedgerError`]; it is kept in memory then, and [`Self::settle`] tries again.
    pub fn record(&self, mut entry: Entry, intent: Option<&Binding>) -> Result<(), LedgerError> {
        entry.intent = intent.map(|binding| self.intent(binding));
        let draft =
            Draft::new(&entry, &self.forms, Uuid::new_v4).labelled(|path| match protection(path, None) {
                Protection::Tier1 { by: ProtectedBy::Name(rule) } | Protection::Tier2 { rule } => Some(rule),
                Protection::Tier1 { by: ProtectedBy::Pattern(_) }
                | Protection::None
                | Protection::Denied
                | Protection::OwnTaskDirectory => None,
            });
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        pending.push(draft);
        self.write(&mut pending)
    }

    /// Puts down what could not be put down before.
    ///
    /// # Errors
    /// [`LedgerError`], as long as it still can't.
    pub fn settle(&self) -> Result<(), LedgerError> {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        if pending.is_empty() { Ok(()) } else { self.write(&mut pending) }
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
            Err(LedgerError::Io { source, .. }) if self.reserve.relieve(&source) => {
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
        let records = query(&self.state_directory, &filter).unwrap_or_default();
        records.iter().filter_map(|record| record.own()).any(|own| own.tool_call_id == call)
    }
}

/// Refuses what would change something while the trace of earlier changes can't be kept.
pub(super) struct Traceable;

impl Hook for Traceable {
    fn check(&self, context: &CheckContext<'_>) -> Finding {
        if context.access == Access::Look {
            return Finding::Pass;
        }
        match context.policy_context.recorder.settle() {
            Ok(()) => Finding::Pass,
            Err(error) => {
                let text = format!("Nothing can be changed now: {error}. Ask the user to fix that.");
                Finding::Deny(Refusal::forbidden(RefusalRule::Trace, text))
            }
        }
    }
}

/// Puts every audit record into the trace.
pub(super) struct Trace;

impl PostHook for Trace {
    fn after(&self, recorder: &Recorder, audit_record: &AuditRecord) {
        if let Err(error) = recorder.record(audit_record.entry.clone(), audit_record.intent.as_ref()) {
            tracing::error!(%error, "the trace is behind");
        }
    }
}
