//! Checkpoints of a request: what its tasks changed, from its log, and going back to an earlier state of its files and
//! its conversation.
//!
//! A restore is decided on from the log and the files as they are ([`Plan`]), told of by an event before anything
//! changes, written as one edit of several files, and closed by a second event. Nothing is deleted: a restore changes
//! files as any call does, so it is a checkpoint too and can be undone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::json;
use tokio::sync::oneshot;

use super::actor_message::{Command, NewMessage, RestoreOrder};
use super::event::{ConversationCut, Event, Restore, RestoredDigests, checkpoint_file};
use super::restore_plan::{self, LoadedContents, Restored};
use super::task::Task;
use super::tree::{Fact, Tree};
use super::{Engine, EngineError, fold_log, state};
use crate::tool_run::SavedFile;
use roo_durable::{Record, RequestDirectory};
use roo_model::prompts;
use roo_protocol::checkpoint::{
    Checkpoint, CheckpointDiffParams, CheckpointDiffResult, CheckpointListResult, CheckpointRestoreParams,
    CheckpointRestoreResult, FileDiff, LeftOutFile, RestoreConflict, RestoreConflicts, RestoreScope,
    RestoreWhat, RestoredConversation, TaskEditParams,
};
use roo_protocol::ids::{Digest, MessageId, TaskId};
use roo_text::{diff, render};
use roo_trace::record::{Author, FileChange, Side};
use roo_workspace::{FileEdit, Location, Purpose, ReadError};

/// Files that a task changed, as they were before and after.
struct KnownCheckpoint {
    seq: u64,
    task_id: TaskId,
    at: i64,
    summary: String,
    files: Vec<SavedFile>,
}

/// What the log of a request tells of its past.
struct Past {
    tree: Tree,
    checkpoints: Vec<KnownCheckpoint>,
    /// The user's messages to the root task, with the numbers of their events.
    messages: Vec<(u64, MessageId)>,
    /// What the first message holds but the prompt.
    opening: Option<String>,
    /// The last place at or before the wanted event where the root task was between two requests, and the number of
    /// items that its model knew there.
    cut: Option<(u64, usize)>,
}

/// What a restore would do.
struct Plan {
    edits: Vec<FileEdit>,
    /// The same for the log and the trace.
    changes: Vec<FileChange>,
    cut: Option<ConversationCut>,
    told: CheckpointRestoreResult,
}

impl Engine {
    /// The checkpoints of a task and its branches, oldest first.
    ///
    /// # Errors
    /// [`EngineError::NotFound`], or [`EngineError::Store`] when the log can't be read.
    pub async fn checkpoints(&self, task: &TaskId) -> Result<CheckpointListResult, EngineError> {
        let past = self.past(task, None).await?;
        let is_within = |known: &&KnownCheckpoint| past.tree.is_within(&known.task_id, task);
        let told = |known: &KnownCheckpoint| Checkpoint {
            seq: known.seq,
            task_id: known.task_id.clone(),
            at: known.at,
            files: known.files.iter().map(checkpoint_file).collect(),
            summary: known.summary.clone(),
        };
        Ok(CheckpointListResult {
            checkpoints: past.checkpoints.iter().filter(is_within).map(told).collect(),
        })
    }

    /// What a task and its branches changed between two checkpoints, or since one.
    ///
    /// # Errors
    /// [`EngineError::NotFound`] for an event that isn't there.
    pub async fn checkpoint_diff(
        &self,
        params: &CheckpointDiffParams,
    ) -> Result<CheckpointDiffResult, EngineError> {
        let CheckpointDiffParams { task_id, from, to } = params;
        let past = self.past(task_id, None).await?;
        for seq in [Some(from), to.as_ref()].into_iter().flatten() {
            past.check_event(*seq)?;
        }
        let is_meant = |known: &KnownCheckpoint| {
            known.seq >= *from
                && to.is_none_or(|to| known.seq < to)
                && past.tree.is_within(&known.task_id, task_id)
        };
        let by_path = past.by_path(is_meant);
        let contents = self.load(task_id, &by_path).await?;
        let mut result = CheckpointDiffResult::default();
        for (path, changes) in by_path {
            let before = restore_plan::before(&changes, &contents);
            let after = match to {
                Some(_) => restore_plan::after(&changes, &contents),
                None => self.text_now(&path).await,
            };
            match (before, after) {
                (Ok(before), Ok(after)) if before == after => {}
                (Ok(before), Ok(after)) => result.files.push(self.file_diff(path, before, after)),
                (Err(reason), _) | (_, Err(reason)) => {
                    result.left_out.push(LeftOutFile { path, reason });
                }
            }
        }
        Ok(result)
    }

    /// Goes back to how files and conversation were before an event, or says what that would do.
    ///
    /// # Errors
    /// [`EngineError::NotFound`] for an event that isn't there, [`EngineError::WrongState`] while the request runs,
    /// [`EngineError::Mismatch`] where it isn't what the preview told any more, or where a file can't be written.
    pub async fn restore(
        &self,
        params: CheckpointRestoreParams,
        by: &str,
    ) -> Result<CheckpointRestoreResult, EngineError> {
        self.restore_and_say(params, None, by).await
    }

    /// Replaces a message of the user's: the conversation goes on from there, with or without the files.
    ///
    /// # Errors
    /// Those of [`Engine::restore`]; [`EngineError::NotFound`] for a message that isn't there.
    pub async fn edit_message(
        &self,
        params: TaskEditParams,
        by: &str,
    ) -> Result<CheckpointRestoreResult, EngineError> {
        let TaskEditParams { task_id, message_id, text, images, files, preview, conflicts, digest } = params;
        if text.trim().is_empty() {
            return Err(EngineError::Mismatch { problem: "the new text is empty".into() });
        }
        let past = self.past(&task_id, None).await?;
        let found = past.messages.iter().rev().find(|(_, id)| *id == message_id);
        let Some(&(seq, _)) = found else {
            return Err(EngineError::NotFound { what: "message of the user's", id: message_id.to_string() });
        };
        let what = if files { RestoreWhat::Both } else { RestoreWhat::Conversation };
        let scope = RestoreScope::Request;
        let params = CheckpointRestoreParams { task_id, seq, what, scope, preview, conflicts, digest };
        self.restore_and_say(params, Some(NewMessage { text, images }), by).await
    }

    async fn restore_and_say(
        &self,
        params: CheckpointRestoreParams,
        say: Option<NewMessage>,
        by: &str,
    ) -> Result<CheckpointRestoreResult, EngineError> {
        let past = self.past(&params.task_id, Some(params.seq)).await?;
        check_at_rest(&past.tree, &params)?;
        let plan = self.plan(&past, &params).await?;
        if params.preview {
            return Ok(plan.told);
        }
        if params.digest.is_some_and(|digest| digest != plan.told.digest) {
            let problem = "the files or the task have changed since the preview; look at it again".to_owned();
            return Err(EngineError::Mismatch { problem });
        }
        if plan.edits.is_empty() && plan.cut.is_none() {
            return Ok(plan.told);
        }
        self.carry_out(past, plan, params, say, by).await
    }

    async fn carry_out(
        &self,
        past: Past,
        plan: Plan,
        params: CheckpointRestoreParams,
        say: Option<NewMessage>,
        by: &str,
    ) -> Result<CheckpointRestoreResult, EngineError> {
        let Plan { edits, changes, cut, mut told } = plan;
        let digests = changes.iter().map(|change| {
            let digest = |side: &Side| match side {
                Side::Text { digest, .. } => Some(*digest),
                Side::Absent | Side::Opaque(_) => None,
            };
            let path = change.path.clone();
            RestoredDigests { path, before: digest(&change.before), after: digest(&change.after) }
        });
        let digests = digests.collect();
        let (directory, root) = (self.request(&params.task_id)?, params.task_id.root());
        let (services, task) = (self.current.read().await, params.task_id.clone());
        let (saved, before) = (changes.clone(), cut.as_ref().map(|cut| cut.before));
        let prepared = tokio::task::spawn_blocking(move || {
            let files = services.checkpoints.save(&task, &saved, &services.gate.mask());
            let then = before.map(|before| state_before(&directory, &root, before)).transpose()?;
            Ok::<_, EngineError>((files, then))
        });
        let (files, then) = prepared.await.map_err(|_| EngineError::Ending)??;
        let CheckpointRestoreParams { task_id, seq, what, scope, .. } = params;
        let (done, finished) = oneshot::channel();
        let order = RestoreOrder {
            restore: Arc::new(Restore { seq, what, scope, by: by.to_owned(), files, digests, cut }),
            edits,
            changes,
            then,
            say,
            last_seq: past.tree.last_seq(),
            done,
        };
        self.command(&task_id, Command::Restore(Box::new(order))).await?;
        told.restored_as = Some(finished.await.unwrap_or(Err(EngineError::Ending))?);
        Ok(told)
    }

    /// The ends of restores that a killed server left unfinished, as the files tell them.
    pub(super) async fn settle_restores(&self, tree: &Tree) -> Vec<Fact> {
        let mut facts = Vec::new();
        for task in tree.tasks() {
            let Some((started, restore)) = &task.restore else { continue };
            // A change of several files is brought to one side first.
            self.workspace().settle().await;
            let mut done = true;
            for file in &restore.digests {
                done &= self.text_now(&file.path).await.map(|text| text.map(Digest::of)) == Ok(file.after);
            }
            let reason = (!done).then(|| "the server ended before the files were written".to_owned());
            let cut = restore.cut.as_ref().filter(|_| done);
            let conversation_before = cut.map(|cut| cut.before);
            let event = Event::RestoreFinished { started: *started, done, reason, conversation_before };
            facts.push((task.id.clone(), event));
        }
        facts
    }

    /// What the log tells. A restore that a killed server left unfinished is settled first.
    async fn past(&self, task: &TaskId, until: Option<u64>) -> Result<Past, EngineError> {
        let root = task.root();
        let directory = self.request(&root)?;
        let read = || {
            let (directory, root) = (directory.clone(), root.clone());
            async move {
                let read = tokio::task::spawn_blocking(move || read_past(&directory, &root, until));
                read.await.unwrap_or(Err(EngineError::Ending))
            }
        };
        let mut past = read().await?;
        let is_unfinished = past.tree.tasks().iter().any(|task| task.restore.is_some());
        let is_open = until.is_some() && !past.tree.root().state().is_final();
        if is_unfinished || is_open {
            let _passing = self.open(&root).await?;
            past = read().await?;
        }
        match past.tree.task(task) {
            Some(_) => Ok(past),
            None => Err(EngineError::NotFound { what: "task", id: task.to_string() }),
        }
    }

    async fn plan(&self, past: &Past, params: &CheckpointRestoreParams) -> Result<Plan, EngineError> {
        past.check_event(params.seq)?;
        let CheckpointRestoreParams { task_id, seq, what, scope, conflicts, .. } = params;
        let mut told = CheckpointRestoreResult {
            files: vec![],
            conflicts: vec![],
            left_out: vec![],
            conversation: None,
            digest: Digest::of(""),
            restored_as: None,
        };
        let (mut edits, mut changes) = (Vec::new(), Vec::new());
        if *what != RestoreWhat::Conversation {
            let is_meant = |known: &KnownCheckpoint| {
                known.seq >= *seq
                    && match scope {
                        RestoreScope::Task => known.task_id == *task_id,
                        RestoreScope::Subtree => past.tree.is_within(&known.task_id, task_id),
                        RestoreScope::Request => true,
                    }
            };
            let by_path = past.by_path(is_meant);
            let contents = self.load(task_id, &by_path).await?;
            for (path, saved) in by_path {
                self.plan_file(&path, &saved, &contents, *conflicts, (&mut edits, &mut changes), &mut told)
                    .await;
            }
        }
        let cut = match what {
            RestoreWhat::Files => None,
            RestoreWhat::Conversation | RestoreWhat::Both => Some(past.cut(params)?),
        };
        told.conversation =
            cut.as_ref().map(|cut| RestoredConversation { before: cut.before, dropped: cut.dropped });
        let texts: Vec<_> = (told.files.iter())
            .map(|file| {
                (&file.path, file.before.as_ref().map(Digest::of), file.after.as_ref().map(Digest::of))
            })
            .collect();
        let shown = json!([texts, told.conflicts, told.left_out, told.conversation]);
        told.digest = Digest::of(shown.to_string());
        Ok(Plan { edits, changes, cut, told })
    }

    async fn plan_file(
        &self,
        path: &str,
        saved: &[&SavedFile],
        contents: &LoadedContents,
        conflicts: RestoreConflicts,
        (edits, changes): (&mut Vec<FileEdit>, &mut Vec<FileChange>),
        told: &mut CheckpointRestoreResult,
    ) {
        let path = path.to_owned();
        let place = match self.workspace().resolve(&path, Purpose::Write) {
            Ok(place) if matches!(place.location(), Location::Inside { .. }) => place,
            Ok(_) => {
                let reason = "it is outside of the workspace".to_owned();
                return told.left_out.push(LeftOutFile { path, reason });
            }
            Err(error) => return told.left_out.push(LeftOutFile { path, reason: error.to_string() }),
        };
        let before = match self.text_now(&path).await {
            Ok(before) => before,
            Err(reason) => return told.left_out.push(LeftOutFile { path, reason }),
        };
        let after = match restore_plan::undo(saved, before.as_deref(), contents) {
            Restored::Text(after) => after,
            Restored::LeftOut(reason) => return told.left_out.push(LeftOutFile { path, reason }),
            Restored::Conflict { reason, marked } => {
                let marked = marked.filter(|_| conflicts == RestoreConflicts::Mark);
                let reason = reason.to_owned();
                told.conflicts.push(RestoreConflict { path: path.clone(), reason, marked: marked.is_some() });
                match marked {
                    Some(marked) => Some(marked),
                    None => return,
                }
            }
        };
        let file = place.clone();
        let edit = match (before.clone(), after.clone()) {
            (Some(before), Some(after)) => {
                let after = restore_plan::without_mark(&after).to_owned();
                if before == after {
                    return;
                }
                FileEdit::Update { file, before, after }
            }
            (Some(before), None) => FileEdit::Delete { file, before },
            (None, Some(text)) => FileEdit::Create { file, text },
            (None, None) => return,
        };
        let side = |text: Option<&str>| text.map_or(Side::Absent, Side::text);
        changes.push(FileChange {
            path: path.clone(),
            old_path: None,
            before: side(edit.before()),
            after: side(edit.after()),
            author: Author::Human,
        });
        told.files.push(self.file_diff(path, before, edit.after().map(str::to_owned)));
        edits.push(edit);
    }

    /// The text of a file, or of the document over it; none where no file is.
    async fn text_now(&self, path: &str) -> Result<Option<String>, String> {
        let place = self.workspace().resolve(path, Purpose::Read).map_err(|error| error.to_string())?;
        match self.workspace().read_for_edit(&place).await {
            Ok(file) => Ok(Some(file.text)),
            Err(ReadError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }

    fn file_diff(&self, path: String, before: Option<String>, after: Option<String>) -> FileDiff {
        let uri = self.workspace().resolve(&path, Purpose::Read).map_or_else(
            |_| path.clone(),
            |place| {
                let open = self.workspace().documents().at(place.absolute());
                open.map_or_else(|| place.uri(), |document| document.uri)
            },
        );
        let diff = match (&before, &after) {
            (Some(before), None) => diff::of_deleted(before, &path),
            (before, after) => diff::of_file(before.as_deref(), after.as_deref().unwrap_or_default(), &path),
        };
        FileDiff { path, uri, before, after, diff }
    }

    /// Reads the contents that are kept of these changes.
    async fn load(
        &self,
        task: &TaskId,
        by_path: &BTreeMap<String, Vec<&SavedFile>>,
    ) -> Result<LoadedContents, EngineError> {
        let wanted: BTreeSet<Digest> =
            by_path.values().flatten().flat_map(|file| restore_plan::digests(file)).collect();
        let contents = self.services.checkpoints.of(task);
        let read = tokio::task::spawn_blocking(move || {
            let read = |digest: Digest| {
                let bytes = contents.read(digest).ok().flatten()?;
                Some((digest, String::from_utf8(bytes).ok()?))
            };
            wanted.into_iter().filter_map(read).collect()
        });
        read.await.map_err(|_| EngineError::Ending)
    }
}

impl Past {
    fn check_event(&self, seq: u64) -> Result<(), EngineError> {
        if (2..=self.tree.last_seq()).contains(&seq) {
            return Ok(());
        }
        Err(EngineError::NotFound { what: "event", id: seq.to_string() })
    }

    /// The changes of each file, in the order in which they were made.
    fn by_path(&self, is_meant: impl Fn(&KnownCheckpoint) -> bool) -> BTreeMap<String, Vec<&SavedFile>> {
        let mut by_path: BTreeMap<String, Vec<&SavedFile>> = BTreeMap::new();
        for known in self.checkpoints.iter().filter(|known| is_meant(known)) {
            for file in &known.files {
                by_path.entry(file.path.clone()).or_default().push(file);
            }
        }
        by_path
    }

    /// Where the conversation is cut so that it is as it was before an event.
    fn cut(&self, params: &CheckpointRestoreParams) -> Result<ConversationCut, EngineError> {
        let wrong = |problem: &str| EngineError::WrongState {
            task: params.task_id.clone(),
            problem: problem.to_owned(),
        };
        if !params.task_id.is_root() {
            return Err(wrong(
                "it is a subtask, whose conversation is part of the request's: restore that of the request",
            ));
        }
        let (before, items) = self.cut.ok_or_else(|| wrong("it had no conversation then"))?;
        let now = self.tree.root().conversation.items().len();
        let dropped = u64::try_from(now.saturating_sub(items)).unwrap_or(u64::MAX);
        let opening = self.opening.clone().filter(|_| items == 0);
        Ok(ConversationCut { before, dropped, opening })
    }
}

/// Refuses a restore while something runs that it would pull files or conversation from under.
fn check_at_rest(tree: &Tree, params: &CheckpointRestoreParams) -> Result<(), EngineError> {
    let wrong = |problem: &str| {
        Err(EngineError::WrongState { task: params.task_id.clone(), problem: problem.to_owned() })
    };
    if params.preview {
        return Ok(());
    }
    if tree.tasks().iter().any(|task| !task.state().is_final() && !task.is_interrupted()) {
        return wrong("the request is running; cancel it, then restore");
    }
    if params.what != RestoreWhat::Files && !tree.root().state().is_final() {
        return wrong("the request is interrupted; cancel it, then restore its conversation");
    }
    Ok(())
}

fn read_past(directory: &RequestDirectory, root: &TaskId, until: Option<u64>) -> Result<Past, EngineError> {
    let (mut checkpoints, mut messages, mut opening, mut cut) = (Vec::new(), Vec::new(), None, None);
    let mut started: BTreeMap<u64, usize> = BTreeMap::new();
    let mut void: BTreeSet<usize> = BTreeSet::new();
    let fold = fold_log(directory, root, None, |tree, record| {
        let Record { seq, at, task_id, event } = record;
        if let Some(tree) = tree
            && until.is_some_and(|until| *seq <= until)
            && tree.root().is_between_requests()
        {
            cut = Some((*seq, tree.root().conversation.items().len()));
        }
        let mut add = |summary: String, files: &Vec<SavedFile>| {
            let (task_id, files) = (task_id.clone(), files.clone());
            checkpoints.push(KnownCheckpoint { seq: *seq, task_id, at: *at, summary, files });
            checkpoints.len() - 1
        };
        match event {
            Event::CheckpointSaved { summary, files, .. } => {
                add(summary.clone(), files);
            }
            Event::RestoreStarted { restore } => {
                let index = add(summary_of(restore), &restore.files);
                started.insert(*seq, index);
            }
            Event::RestoreFinished { started: seq, done: false, .. } => {
                void.extend(started.get(seq));
            }
            Event::UserSaid { message, text, .. } if task_id == root => {
                messages.push((*seq, message.id.clone()));
                if opening.is_none() {
                    let prompt = prompts::user_message(&message.text);
                    opening = Some(text.strip_prefix(&prompt).unwrap_or_default().to_owned());
                }
            }
            _ => {}
        }
    })?;
    let mut index = 0;
    checkpoints.retain(|_| {
        index += 1;
        !void.contains(&(index - 1))
    });
    let opening = opening.filter(|opening| !opening.is_empty());
    Ok(Past { tree: state(root, fold)?, checkpoints, messages, opening, cut })
}

/// Names a restore in one line.
fn summary_of(restore: &Restore) -> String {
    let what = match restore.what {
        RestoreWhat::Files => "files",
        RestoreWhat::Conversation => "conversation",
        RestoreWhat::Both => "files and conversation",
    };
    format!("{} restored to before {}", render::one_line(what, 40), restore.seq)
}

/// The state of the root task before an event.
pub(super) fn state_before(
    directory: &RequestDirectory,
    root: &TaskId,
    before: u64,
) -> Result<Task, EngineError> {
    let fold = fold_log(directory, root, Some(before), |_, _| {})?;
    Ok(state(root, fold)?.root().clone())
}
