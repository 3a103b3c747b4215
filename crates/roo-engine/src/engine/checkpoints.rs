//! Checkpoints of a request: what its tasks changed, from its log, and going back to an earlier state of its files and
//! its conversation.
//!
//! A restore is decided on from the log and the files as they are ([`Plan`]), told of by an event before anything
//! changes, written as one edit of several files, and closed by a second event. Nothing is deleted: a restore changes
//! files as any call does, so it is a checkpoint too and can be undone.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use serde_json::json;
use tokio::sync::oneshot;

use super::actor_message::{Command, RestoreOrder};
use super::audit;
use super::event::{ConversationCut, Event, NewMessage, Restore, RestoredDigests, checkpoint_file};
use super::restore_plan::{self, Content, LoadedContents, Restored};
use super::task::{Input, Task};
use super::tree::{Fact, Tree};
use super::{Engine, EngineError, fold_log, state};
use crate::mentions::git::make_parents;
use crate::policy::{MadeThere, ReplacedPlace, RestoreEdits};
use crate::tool_run::{
    BinaryContents, FileDetails, SavedContent, SavedFile, ShadowError, is_executable, make_executable,
    missing_directories,
};
use roo_durable::{Record, RequestDirectory};
use roo_formats::config::SandboxLevel;
use roo_model::prompts;
use roo_protocol::checkpoint::{
    Checkpoint, CheckpointDiffParams, CheckpointDiffResult, CheckpointListResult, CheckpointRestoreParams,
    CheckpointRestoreResult, EndedBranch, FileDiff, LeftOutFile, RestoreConflict, RestoreConflicts,
    RestoreScope, RestoreWhat, RestoredConversation, TaskEditParams,
};
use roo_protocol::ids::{Digest, MessageId, TaskId, ToolCallId};
use roo_protocol::task::HistoryItem;
use roo_sandbox::exec::{Environment, EnvironmentRules, find_program};
use roo_text::{diff, render};
use roo_trace::record::{Author, FileChange, Side};
use roo_workspace::{
    BytesEdit, Contents, FileEdit, FileOrLink, ImageType, Location, PathError, Purpose, ReadError, Resolved,
    Standing, TextEncoding, UnencodableCharacter, Workspace, file_that_stays,
};

/// The longest message that is told of as not sent, in characters.
const UNSENT: usize = 2000;

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

/// What two requests have done to the files since the last event that they share.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// What became of them.
    pub requests: [ComparedRequest; 2],
    /// The number of that event.
    pub since: u64,
    /// The files that either has changed, by path.
    pub files: Vec<ComparedFile>,
    /// Files that can't be compared.
    pub left_out: Vec<LeftOutFile>,
}

/// One of two requests that are compared.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparedRequest {
    /// The request in short.
    pub item: HistoryItem,
    /// Its result, or the reason why it is in its state, where that isn't plain.
    pub outcome: Option<String>,
}

impl ComparedRequest {
    fn of(tree: &Tree) -> Self {
        let outcome = tree.root().result().or(tree.root().reason()).map(str::to_owned);
        Self { item: tree.history_item(), outcome }
    }
}

/// A file that one of two requests has changed, or both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComparedFile {
    /// Relative to the first workspace folder; a full path elsewhere.
    pub path: String,
    /// Author of the changes.
    pub changed_by: ChangedBy,
    /// What the second request has in place of the first one's lines, as a unified diff; empty where they are equal.
    pub diff: String,
}

/// The one of two requests that changed a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangedBy {
    /// Only the first.
    First,
    /// Only the second.
    Second,
    /// Both.
    Both,
}

/// What a restore would do to files.
#[derive(Default)]
struct PlannedFiles {
    edits: RestoreEdits,
    /// The same for the log and the trace.
    changes: Vec<FileChange>,
    /// The contents of files that are no text.
    binaries: BinaryContents,
    /// Details of the files that it makes and deletes.
    details: FileDetails,
    /// Paths that are written when the others are.
    behind: BTreeSet<String>,
}

/// A file to be restored where something else stands, or that is or was a symbolic link.
struct StandingFile<'a> {
    path: String,
    saved: Vec<&'a SavedFile>,
    place: Resolved,
    standing: Standing,
    before: Option<Content>,
    after: Option<Content>,
}

/// What a restore needs besides.
struct Prepared {
    /// The files as they are before it and after.
    files: Vec<SavedFile>,
    /// The state that the conversation goes back to.
    then: Option<Task>,
}

/// What a restore would do.
struct Plan {
    files: PlannedFiles,
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
        let problem = match self.services.shadow.as_ref().and_then(|shadow| shadow.problem()) {
            Some(problem) => Some(problem),
            None => self.shadow_obstacle().await,
        };
        Ok(CheckpointListResult {
            checkpoints: past.checkpoints.iter().filter(is_within).map(told).collect(),
            notice: problem.map(|problem| {
                format!("Commands that run without a sandbox have no checkpoints: {problem}.")
            }),
        })
    }

    /// Undoes in another folder what a request has changed since an event: there the files are as in the workspace now. Returns
    /// those for which that fails.
    pub(super) async fn undo_since(
        &self,
        request: &TaskId,
        seq: u64,
        folder: &Path,
    ) -> Result<Vec<LeftOutFile>, EngineError> {
        let past = self.past(request, None).await?;
        let mut by_path = past.by_path(|known| known.seq > seq);
        let contents = self.load(request, &by_path).await?;
        let mut left_out = take_possible_moves(&mut by_path, past.possible_moves(|known| known.seq > seq));
        // What is in the way of one file may go with another.
        by_path.retain(|path, saved| undo_in(folder, path, saved, &contents).is_err());
        for (path, saved) in by_path {
            if let Err(reason) = undo_in(folder, &path, &saved, &contents) {
                left_out.push(LeftOutFile { path, reason });
            }
        }
        Ok(left_out)
    }

    /// Compares what two requests of which one was forked from the other, or both from a third, have done to the files since.
    ///
    /// # Errors
    /// [`EngineError::Mismatch`] for requests that share no event, [`EngineError::NotFound`], or [`EngineError::Store`]
    /// when a log can't be read.
    pub async fn compare(&self, one: &TaskId, other: &TaskId) -> Result<Comparison, EngineError> {
        let (one, other) = (one.root(), other.root());
        let since = self.last_shared(&one, &other).await?;
        let (ours, theirs) = (self.past_anywhere(&one).await?, self.past_anywhere(&other).await?);
        let requests = [ComparedRequest::of(&ours.tree), ComparedRequest::of(&theirs.tree)];
        let (ours, theirs) =
            (ours.by_path(|known| known.seq > since), theirs.by_path(|known| known.seq > since));
        let our_contents = self.load(&one, &ours).await?;
        let their_contents = self.load(&other, &theirs).await?;
        let mut result = Comparison { requests, since, files: vec![], left_out: vec![] };
        let paths: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
        for path in paths {
            let (our, their) = (ours.get(path), theirs.get(path));
            // A file that only one has changed is in the other as it was when they parted.
            let side = |own: Option<&Vec<&SavedFile>>,
                        own_contents,
                        other: Option<&Vec<&SavedFile>>,
                        other_contents| {
                match (own, other) {
                    (Some(changes), _) => restore_plan::after(changes, own_contents),
                    (None, Some(changes)) => restore_plan::before(changes, other_contents),
                    (None, None) => Ok(None),
                }
            };
            let left = side(our, &our_contents, their, &their_contents);
            let right = side(their, &their_contents, our, &our_contents);
            match (left, right) {
                (Ok(left), Ok(right)) => {
                    let changed_by = match (our, their) {
                        (Some(_), Some(_)) => ChangedBy::Both,
                        (Some(_), None) => ChangedBy::First,
                        (None, _) => ChangedBy::Second,
                    };
                    let diff = if left == right {
                        String::new()
                    } else {
                        diff_of(left.as_ref(), right.as_ref(), path)
                    };
                    result.files.push(ComparedFile { path: path.clone(), changed_by, diff });
                }
                (Err(reason), _) | (_, Err(reason)) => {
                    result.left_out.push(LeftOutFile { path: path.clone(), reason });
                }
            }
        }
        Ok(result)
    }

    /// What the log tells of a request of whatever workspace.
    async fn past_anywhere(&self, root: &TaskId) -> Result<Past, EngineError> {
        let (directory, root) = (self.request_anywhere(root)?, root.clone());
        let read = roo_durable::spawn_blocking(move || read_past(&directory, &root, None));
        read.await.unwrap_or(Err(EngineError::Ending))
    }

    /// The number of the last event that two requests share.
    async fn last_shared(&self, one: &TaskId, other: &TaskId) -> Result<u64, EngineError> {
        let (ours, theirs) = (self.origins(one).await?, self.origins(other).await?);
        let shared = ours.iter().find_map(|(id, seq)| {
            let (_, their_seq) = theirs.iter().find(|(their_id, _)| their_id == id)?;
            Some(*seq.min(their_seq))
        });
        shared.ok_or_else(|| EngineError::Mismatch {
            problem: format!(
                "{one} and {other} share no event: neither is a fork of the other, nor both of a third"
            ),
        })
    }

    /// The requests whose events a request has, itself first, each with the number of the last one.
    async fn origins(&self, request: &TaskId) -> Result<Vec<(TaskId, u64)>, EngineError> {
        let (mut next, mut until) = (request.clone(), u64::MAX);
        let mut all = vec![];
        loop {
            let tree = self.past_anywhere(&next).await?.tree;
            until = until.min(tree.last_seq());
            all.push((next, until));
            match &tree.root().forked_from {
                Some(from) => {
                    until = until.min(from.seq);
                    next = from.task_id.clone();
                }
                None => return Ok(all),
            }
        }
    }

    /// Returns the reason why commands have no checkpoints by these settings; none where they do.
    async fn shadow_obstacle(&self) -> Option<String> {
        let settings = self.settings().await;
        if settings.sandbox.level != SandboxLevel::Off {
            return None;
        }
        let roots: Vec<PathBuf> = self.workspace().roots().paths().map(Path::to_path_buf).collect();
        let environment = Environment::inherited_by(&EnvironmentRules::new(settings.sandbox.env.clone()));
        find_program(&environment, "git", &roots).is_none().then(|| ShadowError::NoGit.to_string())
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
                None => content_now(self.workspace(), &path, &changes).await,
            };
            match (before, after) {
                (Ok(before), Ok(after)) if before == after => {}
                (Ok(before), Ok(after)) => {
                    result.files.push(self.file_diff(path, before.as_ref(), after.as_ref()));
                }
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
        let mut plan = self.plan(&past, &params).await?;
        if params.preview {
            return Ok(plan.told);
        }
        if params.digest.is_some_and(|digest| digest != plan.told.digest) {
            let problem = "the files or the task have changed since the preview; look at it again".to_owned();
            return Err(EngineError::Mismatch { problem });
        }
        if plan.files.edits.is_empty() && plan.cut.is_none() {
            return Ok(plan.told);
        }
        let prepared = self.prepare(&plan, &params).await?;
        let last_seq = match plan.cut.is_some() && past.tree.root().is_stopped() {
            true => self.end_branches(&past, &mut plan, &params).await?,
            false => past.tree.last_seq(),
        };
        self.carry_out(last_seq, plan, prepared, params, say, by).await
    }

    /// Ends a stopped request for good, as the conversation that is restored has no calls that wait for its branches. What can
    /// refuse the restore is looked at before. Returns the number of the newest event then.
    async fn end_branches(
        &self,
        past: &Past,
        plan: &mut Plan,
        params: &CheckpointRestoreParams,
    ) -> Result<u64, EngineError> {
        let last_seq = past.tree.last_seq();
        let unwritable = plan.files.changes.iter().find_map(|change| self.why_not_writable(&change.path));
        if let Some(problem) = unwritable {
            return Err(EngineError::Mismatch { problem });
        }
        self.command(&params.task_id, Command::CheckRestore(last_seq)).await?;
        self.end_and_wait(&params.task_id.root(), last_seq, Input::Cancel).await?;
        let ended = self.past(&params.task_id, Some(params.seq)).await?.tree;
        for branch in &mut plan.told.ended_branches {
            branch.worktree = ended.task(&branch.task_id).and_then(worktree_of);
        }
        Ok(ended.last_seq())
    }

    /// Reason why a file can't be written, as far as that can be seen.
    fn why_not_writable(&self, path: &str) -> Option<String> {
        let place = self.workspace().resolve(path, Purpose::Write).ok()?;
        if self.workspace().documents().at(place.absolute()).is_some() {
            // An editor changes what it has open.
            return None;
        }
        let directory = place.absolute().ancestors().skip(1).find(|directory| directory.is_dir())?;
        let access = rustix::fs::access(directory, rustix::fs::Access::WRITE_OK);
        access.err().map(|error| format!("{path} can't be written: {error}"))
    }

    /// Keeps what the files of a restore are before it, and finds the state that the conversation goes back to.
    async fn prepare(&self, plan: &Plan, params: &CheckpointRestoreParams) -> Result<Prepared, EngineError> {
        let Plan { files: PlannedFiles { changes, binaries, details, .. }, cut, .. } = plan;
        let (directory, root) = (self.request(&params.task_id)?, params.task_id.root());
        let (services, task) = (self.current.read().await, params.task_id.clone());
        let (changes, before) = (changes.clone(), cut.as_ref().map(|cut| cut.before));
        let (binaries, details) = (binaries.clone(), details.clone());
        let prepared = roo_durable::spawn_blocking(move || {
            let mask = services.gate.mask();
            let files = services.checkpoints.save(&task, &changes, &details, &binaries, &mask);
            let then = before.map(|before| state_before(&directory, &root, before)).transpose()?;
            Ok(Prepared { files, then })
        });
        prepared.await.unwrap_or(Err(EngineError::Ending))
    }

    async fn carry_out(
        &self,
        last_seq: u64,
        plan: Plan,
        Prepared { files, then }: Prepared,
        params: CheckpointRestoreParams,
        say: Option<NewMessage>,
        by: &str,
    ) -> Result<CheckpointRestoreResult, EngineError> {
        let Plan { files: PlannedFiles { edits, changes, behind, .. }, cut, mut told } = plan;
        let digests = changes.iter().map(|change| RestoredDigests {
            path: change.path.clone(),
            before: digest_of(&change.before),
            after: digest_of(&change.after),
            behind: behind.contains(&change.path),
        });
        let digests = digests.collect();
        let CheckpointRestoreParams { task_id, seq, what, scope, .. } = params;
        let (done, finished) = oneshot::channel();
        let order = RestoreOrder {
            restore: Arc::new(Restore { seq, what, scope, by: by.to_owned(), files, digests, cut, say }),
            edits,
            changes,
            then,
            last_seq,
            done,
        };
        self.command(&task_id, Command::Restore(Box::new(order))).await?;
        told.restored_as = Some(finished.await.unwrap_or(Err(EngineError::Ending))?);
        Ok(told)
    }

    /// The ends of restores that a killed server left unfinished, as the files tell them, behind the facts of the
    /// interruption. The trace has records of those that happened before any log tells of their ends. What was to be said
    /// behind a restore is said, and waits for the user to let the task go on.
    pub(super) async fn settle_restores(&self, tree: &Tree, mut facts: Vec<Fact>) -> Vec<Fact> {
        let mut said = None;
        for task in tree.tasks() {
            let Some((started, restore)) = &task.restore else { continue };
            // A change of several files is brought to one side first.
            self.workspace().settle().await;
            let mut folders: BTreeMap<Option<usize>, FolderEvidence> = BTreeMap::new();
            let mut unchanged_behind: BTreeSet<&String> = BTreeSet::new();
            for file in &restore.digests {
                let now = digests_now(self.workspace(), file).await.ok();
                if file.behind {
                    let is_unchanged = now.is_some_and(|now| {
                        is_it(now.as_ref(), file.before) && !is_it(now.as_ref(), file.after)
                    });
                    unchanged_behind.extend(is_unchanged.then_some(&file.path));
                } else {
                    folders.entry(folder_of(self.workspace(), &file.path)).or_default().add(file, now);
                }
            }
            let unchanged = unchanged_folders(&folders);
            let is_unchanged = |file: &&RestoredDigests| match file.behind {
                true => unchanged_behind.contains(&file.path),
                false => unchanged.contains(&folder_of(self.workspace(), &file.path)),
            };
            let (left, written): (Vec<_>, Vec<_>) = restore.digests.iter().partition(is_unchanged);
            let done = !written.is_empty() || left.is_empty();
            let left: Vec<String> = left.iter().map(|file| file.path.clone()).collect();
            let unsent = restore.say.as_ref().map(|NewMessage { text, .. }| {
                format!("; your message was not sent: {}", render::one_line(text, UNSENT))
            });
            let unsent = unsent.unwrap_or_default();
            let reason = match (done, left.is_empty()) {
                (false, _) => Some(format!("the server ended before the files were written{unsent}")),
                (true, true) => None,
                (true, false) => {
                    let files = render::one_line(&left.join(", "), 200);
                    Some(format!(
                        "the server ended before the files of all folders were written; not restored: {files}{unsent}"
                    ))
                }
            };
            if done && !written.is_empty() {
                let changes = self.restored_changes(&task.id, &written).await;
                let services = self.current.newest();
                audit::undone_if_missing(
                    task,
                    tree,
                    restored_call(*started),
                    &restore.by,
                    changes,
                    &services,
                )
                .await;
            }
            let conversation_before = restore.cut.as_ref().filter(|_| done).map(|cut| cut.before);
            said = said.or_else(|| restore.say.as_ref().filter(|_| reason.is_none()));
            let unchanged = if done { left } else { vec![] };
            let event =
                Event::RestoreFinished { started: *started, done, reason, unchanged, conversation_before };
            facts.push((task.id.clone(), event));
        }
        if let Some(say) = said {
            let now = self.now();
            facts = tree.saying(facts, say, now);
            let then = tree.after(&facts, now);
            facts.extend(then.interrupt());
        }
        facts
    }

    /// Changes that a restore made, with the texts that are kept.
    async fn restored_changes(&self, task: &TaskId, files: &[&RestoredDigests]) -> Vec<FileChange> {
        let (services, task) = (self.current.newest(), task.clone());
        let files: Vec<RestoredDigests> = files.iter().map(|file| (*file).clone()).collect();
        let read = roo_durable::spawn_blocking(move || {
            let change = |file: RestoredDigests| FileChange {
                before: services.checkpoints.side(&task, file.before),
                after: services.checkpoints.side(&task, file.after),
                path: file.path,
                old_path: None,
                author: Author::Human,
            };
            files.into_iter().map(change).collect()
        });
        // Only a runtime that is ending runs nothing more.
        read.await.unwrap_or_default()
    }

    /// What the log tells. A restore that a killed server left unfinished is settled first.
    async fn past(&self, task: &TaskId, until: Option<u64>) -> Result<Past, EngineError> {
        let root = task.root();
        let directory = self.readable(&root).await?;
        let read = || {
            let (directory, root) = (directory.clone(), root.clone());
            async move {
                let read = roo_durable::spawn_blocking(move || read_past(&directory, &root, until));
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
            ended_branches: vec![],
            digest: Digest::of(""),
            restored_as: None,
        };
        let mut files = PlannedFiles::default();
        if *what != RestoreWhat::Conversation {
            let is_meant = |known: &KnownCheckpoint| {
                known.seq >= *seq
                    && match scope {
                        RestoreScope::Task => known.task_id == *task_id,
                        RestoreScope::Subtree => past.tree.is_within(&known.task_id, task_id),
                        RestoreScope::Request => true,
                    }
            };
            let mut by_path = past.by_path(is_meant);
            let contents = self.load(task_id, &by_path).await?;
            told.left_out = take_possible_moves(&mut by_path, past.possible_moves(is_meant));
            let links: BTreeSet<PathBuf> = (by_path.iter())
                .filter(|(_, saved)| restore_plan::was_link(saved))
                .filter_map(|(path, _)| Some(self.standing(path)?.0.absolute().to_owned()))
                .collect();
            let mut standing_files = vec![];
            for (path, saved) in by_path {
                match self.standing_file(&path, &saved, &links) {
                    Some(found) => standing_files.push((path, saved, found)),
                    None => {
                        self.plan_file(&path, &saved, &contents, *conflicts, &mut files, &mut told).await;
                    }
                }
            }
            self.plan_standing(standing_files, &contents, *conflicts, &mut files, &mut told).await;
        }
        let cut = match what {
            RestoreWhat::Files => None,
            RestoreWhat::Conversation | RestoreWhat::Both => Some(past.cut(params)?),
        };
        told.conversation =
            cut.as_ref().map(|cut| RestoredConversation { before: cut.before, dropped: cut.dropped });
        if cut.is_some() {
            let goes_on = |task: &&Task| task.parent.is_some() && task.end_state().is_none();
            let branches = past.tree.tasks().iter().filter(goes_on).map(|task| EndedBranch {
                task_id: task.id.clone(),
                title: task.title().to_owned(),
                worktree: worktree_of(task),
            });
            told.ended_branches = branches.collect();
        }
        let digests: Vec<_> = (files.changes.iter())
            .map(|change| (&change.path, digest_of(&change.before), digest_of(&change.after)))
            .collect();
        let shown = json!([digests, told.conflicts, told.left_out, told.conversation]);
        told.digest = Digest::of(shown.to_string());
        Ok(Plan { files, cut, told })
    }

    async fn plan_file(
        &self,
        path: &str,
        saved: &[&SavedFile],
        contents: &LoadedContents,
        conflicts: RestoreConflicts,
        files: &mut PlannedFiles,
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
        let before = match content_now(self.workspace(), &path, saved).await {
            Ok(before) => before,
            Err(reason) => return told.left_out.push(LeftOutFile { path, reason }),
        };
        let Some(after) = undone(&path, saved, before.clone(), contents, conflicts, told) else { return };
        let after = match after {
            // A document has no byte order mark.
            Some(Content::Text(text)) if before.is_some() => {
                Some(Content::Text(restore_plan::without_mark(&text).to_owned()))
            }
            after => after,
        };
        let after = match after {
            // An editor minds the encoding of what it has open itself.
            Some(bytes @ Content::Bytes(_))
                if self.workspace().documents().at(place.absolute()).is_some() =>
            {
                let text =
                    bytes.text().map(|text| Content::Text(restore_plan::without_mark(&text).to_owned()));
                if text.is_none() {
                    let reason = "it was not text, and an editor has it open as text".to_owned();
                    return told.left_out.push(LeftOutFile { path, reason });
                }
                text
            }
            after => after,
        };
        match self.plan_edit(place, saved, before.as_ref(), after.as_ref(), files).await {
            Ok(true) => {}
            Ok(false) => return,
            Err(reason) => return told.left_out.push(LeftOutFile { path, reason }),
        }
        self.add_change(path, before.as_ref(), after.as_ref(), files, told);
    }

    /// What is on disk where this is known to be.
    async fn on_disk(
        &self,
        place: &Resolved,
        known: &Content,
        files: &mut PlannedFiles,
    ) -> Result<FileOrLink, String> {
        let bytes = match known {
            Content::Link(target) => return Ok(FileOrLink::Link(Arc::clone(target))),
            Content::Bytes(bytes) => {
                files.binaries.add(Arc::clone(bytes));
                Arc::clone(bytes)
            }
            Content::Text(text) => {
                let bytes = self.workspace().bytes_on_disk(place).await.map_err(|error| error.to_string())?;
                if !holds(&bytes, text) {
                    return Err("it is not saved, or has changed meanwhile".to_owned());
                }
                bytes.into()
            }
        };
        Ok(FileOrLink::File(bytes))
    }

    fn add_change(
        &self,
        path: String,
        before: Option<&Content>,
        after: Option<&Content>,
        files: &mut PlannedFiles,
        told: &mut CheckpointRestoreResult,
    ) {
        files.changes.push(FileChange {
            path: path.clone(),
            old_path: None,
            before: side_of(before),
            after: side_of(after),
            author: Author::Human,
        });
        told.files.push(self.file_diff(path, before, after));
    }

    /// What stands at a path as it is written; none for one that is in no workspace folder or can't be looked at.
    fn standing(&self, path: &str) -> Option<(Resolved, Standing)> {
        self.workspace().standing(path).ok().flatten()
    }

    /// Returns what stands at a path where that isn't simply the file that is to be restored. A link that no agent made, and what is
    /// behind it, is the user's way of naming a file.
    fn standing_file(
        &self,
        path: &str,
        saved: &[&SavedFile],
        links: &BTreeSet<PathBuf>,
    ) -> Option<(Resolved, Standing)> {
        let (place, standing) = self.standing(path)?;
        let is_meant = match &standing {
            Standing::Directory => true,
            Standing::Plain | Standing::Link(_) => restore_plan::was_link(saved),
            Standing::Below(above) => !above.is_symlink() || links.contains(above),
        };
        is_meant.then_some((place, standing))
    }

    /// Plans files where something else stands, against what the rest of the plan leaves.
    async fn plan_standing(
        &self,
        found: Vec<(String, Vec<&SavedFile>, (Resolved, Standing))>,
        contents: &LoadedContents,
        conflicts: RestoreConflicts,
        files: &mut PlannedFiles,
        told: &mut CheckpointRestoreResult,
    ) {
        let mut planned = vec![];
        for (path, saved, (place, standing)) in found {
            let before = match &standing {
                Standing::Plain => content_now(self.workspace(), &path, &saved).await,
                Standing::Link(target) => Ok(Some(Content::Link(target.as_slice().into()))),
                Standing::Directory | Standing::Below(_) => Ok(None),
            };
            let before = match before {
                Ok(before) => before,
                Err(reason) => {
                    told.left_out.push(LeftOutFile { path, reason });
                    continue;
                }
            };
            let is_link = |content: &Option<Content>| content.as_ref().is_some_and(Content::is_link);
            let becomes_link = || match restore_plan::undo(&saved, before.clone(), contents) {
                Restored::Content(after) => is_link(&after),
                Restored::LeftOut(_) | Restored::Conflict { .. } => false,
            };
            if standing == Standing::Plain && !is_link(&before) && !becomes_link() {
                self.plan_file(&path, &saved, contents, conflicts, files, told).await;
                continue;
            }
            let after = undone(&path, &saved, before.clone(), contents, conflicts, told);
            if let Some(after) = after.filter(|after| *after != before) {
                planned.push(StandingFile { path, saved, place, standing, before, after });
            }
        }
        // What is removed makes room for the others.
        planned.sort_by_key(|file| file.after.is_some());
        for file in planned {
            let path = file.path.clone();
            if let Err(reason) = self.plan_in_place(file, files, told).await {
                told.left_out.push(LeftOutFile { path, reason });
            }
        }
    }

    async fn plan_in_place(
        &self,
        file: StandingFile<'_>,
        files: &mut PlannedFiles,
        told: &mut CheckpointRestoreResult,
    ) -> Result<(), String> {
        let StandingFile { path, saved, place, standing, before, after } = file;
        match &standing {
            Standing::Directory => {
                let stays = file_that_stays(place.absolute(), &files.edits.removed_places());
                if let Some(stays) = stays.map_err(|error| error.to_string())? {
                    return Err(format!("it is a directory now, and {} in it stays", stays.display()));
                }
            }
            Standing::Below(above) if !files.edits.removed_places().contains(above) => {
                return Err(format!("{} stays, which is in place of a directory", above.display()));
            }
            Standing::Plain | Standing::Link(_) | Standing::Below(_) => {}
        }
        let made = match (&before, &after) {
            (_, None) => MadeThere::Nothing,
            (Some(before), Some(after)) => {
                let before = self.on_disk(&place, before, files).await?;
                let encoding = restore_plan::removed_encoding(&saved).unwrap_or(TextEncoding::UTF_8);
                let after = match after {
                    Content::Link(target) => FileOrLink::Link(Arc::clone(target)),
                    file => FileOrLink::File(bytes_of(file, encoding)?),
                };
                MadeThere::Swapped(before, after)
            }
            (None, Some(Content::Link(target))) => MadeThere::Link(Arc::clone(target)),
            (None, Some(file)) => {
                let mut made = PlannedFiles::default();
                self.plan_edit(place.clone(), &saved, None, Some(file), &mut made).await?;
                files.binaries.extend(made.binaries);
                files.edits.executables.append(&mut made.edits.executables);
                files.details.add_directories(path.clone(), made.details.directories_of(&path));
                match (made.edits.texts.pop(), made.edits.bytes.pop()) {
                    (Some(edit), _) => MadeThere::Text(edit),
                    (None, Some(edit)) => MadeThere::Bytes(edit),
                    (None, None) => return Ok(()),
                }
            }
        };
        for content in [&before, &after] {
            if let Some(Content::Link(target)) = content {
                files.binaries.link(Arc::clone(target));
            }
        }
        files.edits.replaced.push(ReplacedPlace { place, standing, made });
        files.behind.insert(path.clone());
        self.add_change(path, before.as_ref(), after.as_ref(), files, told);
        Ok(())
    }

    /// Adds the edit that leads from one content of a file to the other. Returns whether there is anything to do.
    async fn plan_edit(
        &self,
        file: Resolved,
        saved: &[&SavedFile],
        before: Option<&Content>,
        after: Option<&Content>,
        files: &mut PlannedFiles,
    ) -> Result<bool, String> {
        let PlannedFiles { edits, binaries, details, .. } = files;
        let encoding = restore_plan::removed_encoding(saved);
        if let (Some(Content::Text(text_before)), Some(Content::Text(after)), Some(encoding)) =
            (before, after, encoding)
        {
            // It was made anew, perhaps in another encoding than it had.
            let recoded = self.workspace().recoded(&file, text_before, after, encoding).await;
            if let Some(edit) = recoded.map_err(|error| error.reason())? {
                edits.bytes.push(edit);
                return Ok(true);
            }
        }
        if before == after {
            return Ok(false);
        }
        let encoding = encoding.unwrap_or(TextEncoding::UTF_8);
        match (before, after) {
            (None, Some(_)) => {
                details.add_directories(file.display(), missing_directories(file.absolute()));
                edits.executables.extend(restore_plan::was_executable(saved).then(|| file.clone()));
            }
            (Some(_), None) => {
                if is_executable(file.absolute()) {
                    details.add_executable(file.display());
                }
                edits.directories.extend(directories_above(&file, restore_plan::made_directories(saved)));
            }
            _ => {}
        }
        let edit = match (before, after) {
            (Some(Content::Bytes(_)), _) | (_, Some(Content::Bytes(_))) => {
                let before = match before {
                    None => None,
                    Some(Content::Bytes(bytes) | Content::Link(bytes)) => Some(Arc::clone(bytes)),
                    Some(Content::Text(text)) => {
                        let now = self.workspace().bytes_on_disk(&file).await;
                        let now = now.map_err(|error| error.to_string())?;
                        // The plan is for what it held when it was read.
                        if !holds(&now, text) {
                            return Err("it has changed meanwhile".to_owned());
                        }
                        Some(now.into())
                    }
                };
                let after = after.map(|it| bytes_of(it, encoding)).transpose()?;
                before.iter().chain(&after).for_each(|bytes| binaries.add(Arc::clone(bytes)));
                edits.bytes.push(BytesEdit { file, before, after });
                return Ok(true);
            }
            (Some(Content::Text(before)), Some(Content::Text(after))) => {
                FileEdit::Update { file, before: before.clone(), after: after.clone() }
            }
            (Some(Content::Text(before)), None) => {
                details.add_encoding(file.display(), self.workspace().encoding_on_disk(&file).await);
                FileEdit::Delete { file, before: before.clone() }
            }
            (None, Some(Content::Text(text))) => FileEdit::Create { file, text: text.clone(), encoding },
            (Some(Content::Link(_)), _) | (_, Some(Content::Link(_))) => {
                return Err("it is a symbolic link".to_owned());
            }
            (None, None) => return Ok(false),
        };
        edits.texts.push(edit);
        Ok(true)
    }

    fn file_diff(&self, path: String, before: Option<&Content>, after: Option<&Content>) -> FileDiff {
        let uri = self.workspace().resolve(&path, Purpose::Read).map_or_else(
            |_| self.standing(&path).map_or_else(|| path.clone(), |(place, _)| place.uri()),
            |place| {
                let open = self.workspace().documents().at(place.absolute());
                open.map_or_else(|| place.uri(), |document| document.uri)
            },
        );
        let diff = diff_of(before, after, &path);
        FileDiff { path, uri, before: before.map(in_words), after: after.map(in_words), diff }
    }

    /// Reads the contents that are kept of these changes.
    async fn load(
        &self,
        task: &TaskId,
        by_path: &BTreeMap<String, Vec<&SavedFile>>,
    ) -> Result<LoadedContents, EngineError> {
        let wanted: BTreeSet<Digest> =
            by_path.values().flatten().flat_map(|file| restore_plan::digests(file)).collect();
        let contents = self.request_anywhere(task)?.contents();
        let read = roo_durable::spawn_blocking(move || {
            let read = |digest: Digest| Some((digest, contents.read(digest).ok().flatten()?));
            wanted.into_iter().filter_map(read).collect()
        });
        read.await.map_err(|_| EngineError::Ending)
    }
}

/// So many directories right above a file, as far as they are below its workspace folder.
fn directories_above(file: &Resolved, number: u32) -> impl Iterator<Item = PathBuf> {
    let most = Path::new(file.relative()).components().count().saturating_sub(1);
    let number = most.min(usize::try_from(number).unwrap_or_default());
    file.absolute().ancestors().skip(1).take(number).map(Path::to_path_buf)
}

/// Undoes changes of a file. Notes why that is not possible; none where nothing is to be done then.
fn undone(
    path: &str,
    saved: &[&SavedFile],
    before: Option<Content>,
    contents: &LoadedContents,
    conflicts: RestoreConflicts,
    told: &mut CheckpointRestoreResult,
) -> Option<Option<Content>> {
    let path = path.to_owned();
    match restore_plan::undo(saved, before, contents) {
        Restored::Content(after) => Some(after),
        Restored::LeftOut(reason) => {
            told.left_out.push(LeftOutFile { path, reason });
            None
        }
        Restored::Conflict { reason, marked } => {
            let marked = marked.filter(|_| conflicts == RestoreConflicts::Mark);
            let reason = reason.to_owned();
            told.conflicts.push(RestoreConflict { path, reason, marked: marked.is_some() });
            marked.map(|marked| Some(Content::Text(marked)))
        }
    }
}

/// The content of a file, or of the document over it; none where no file is. Where it was a link, the link is meant.
async fn content_now(
    workspace: &Workspace,
    path: &str,
    saved: &[&SavedFile],
) -> Result<Option<Content>, String> {
    if restore_plan::was_link(saved)
        && let Some((_, Standing::Link(target))) = workspace.standing(path).ok().flatten()
    {
        return Ok(Some(Content::Link(target.into())));
    }
    let place = match workspace.resolve(path, Purpose::Read) {
        Err(PathError::IsADirectory { .. } | PathError::NotADirectory { .. }) => return Ok(None),
        place => place.map_err(|error| error.to_string())?,
    };
    match workspace.read_to_replace(&place).await {
        Ok(Contents::Text(file)) => Ok(Some(Content::Text(file.text))),
        Ok(Contents::Binary { bytes, .. }) => Ok(Some(Content::Bytes(bytes.into()))),
        Err(ReadError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

/// Returns whether a file's bytes are this text, in whatever encoding.
fn holds(bytes: &[u8], text: &str) -> bool {
    match Contents::from_bytes(bytes.to_vec()) {
        Contents::Text(now) => restore_plan::without_mark(&now.text) == restore_plan::without_mark(text),
        Contents::Binary { .. } => false,
    }
}

/// Digests by which a content is known: of the text, and of the bytes in whatever encoding.
type ContentDigests = [Digest; 2];

/// The digests of the content of a file that was to be restored; none where no file is.
async fn digests_now(
    workspace: &Workspace,
    file: &RestoredDigests,
) -> Result<Option<ContentDigests>, String> {
    if file.behind
        && let Some((_, Standing::Link(target))) = workspace.standing(&file.path).ok().flatten()
    {
        return Ok(Some([Digest::of(target); 2]));
    }
    let place = match workspace.resolve(&file.path, Purpose::Read) {
        Err(PathError::IsADirectory { .. } | PathError::NotADirectory { .. }) => return Ok(None),
        place => place.map_err(|error| error.to_string())?,
    };
    match workspace.read_to_replace(&place).await {
        Ok(Contents::Text(file)) => Ok(Some([Digest::of(file.text), file.digest])),
        Ok(Contents::Binary { digest, .. }) => Ok(Some([digest; 2])),
        Err(ReadError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

/// Returns whether a content is the one of a digest.
fn is_it(now: Option<&ContentDigests>, digest: Option<Digest>) -> bool {
    match (now, digest) {
        (Some(now), Some(digest)) => now.contains(&digest),
        (now, digest) => now.is_none() && digest.is_none(),
    }
}

/// A content as bytes, of a text in this encoding.
fn bytes_of(content: &Content, encoding: TextEncoding) -> Result<Arc<[u8]>, String> {
    match content {
        Content::Bytes(bytes) | Content::Link(bytes) => Ok(Arc::clone(bytes)),
        Content::Text(text) => {
            encoding.encode(text).map(Arc::from).map_err(|UnencodableCharacter(character)| {
                format!("its encoding {} has no {character:?}", encoding.name())
            })
        }
    }
}

/// A content as the trace and the log get it: what is no text by its digest alone.
fn side_of(content: Option<&Content>) -> Side {
    match content {
        None => Side::Absent,
        Some(Content::Text(text)) => Side::text(text.as_str()),
        Some(other @ (Content::Bytes(_) | Content::Link(_))) => Side::Opaque(other.digest()),
    }
}

fn digest_of(side: &Side) -> Option<Digest> {
    match side {
        Side::Absent => None,
        Side::Text { digest, .. } | Side::Opaque(digest) => Some(*digest),
    }
}

/// A content for people: what it is, where it is no text.
fn in_words(content: &Content) -> String {
    match content {
        Content::Text(text) => text.clone(),
        Content::Bytes(bytes) => {
            let kind = ImageType::of_bytes(bytes).map_or("not text", ImageType::media_type);
            format!("({kind}, {} bytes)\n", bytes.len())
        }
        Content::Link(target) => format!("(symbolic link to {})\n", String::from_utf8_lossy(target)),
    }
}

fn diff_of(before: Option<&Content>, after: Option<&Content>, path: &str) -> String {
    match (before, after) {
        (Some(Content::Text(before)), None) => diff::of_deleted(before, path),
        (None, None) => String::new(),
        (None, Some(Content::Text(after))) => diff::of_file(None, after, path),
        (Some(Content::Text(before)), Some(Content::Text(after))) => diff::of_file(Some(before), after, path),
        (before, after) => diff::of_bytes(before.is_some(), after.is_some(), path),
    }
}

/// The workspace folder in which a file is; none for one that is in none.
fn folder_of(workspace: &Workspace, path: &str) -> Option<usize> {
    match workspace.resolve(path, Purpose::Read).ok()?.location() {
        Location::Inside { root } => Some(root),
        Location::Outside => None,
    }
}

/// The files that a restore which has just failed did not leave as it was to.
pub(super) async fn not_restored(workspace: &Workspace, restore: &Restore) -> Vec<String> {
    // A change of several files is brought to one side first.
    workspace.settle().await;
    let mut left = Vec::new();
    for file in &restore.digests {
        let now = digests_now(workspace, file).await;
        if !now.is_ok_and(|now| is_it(now.as_ref(), file.after)) {
            left.push(file.path.clone());
        }
    }
    left
}

/// What the files of one workspace folder tell of a restore. They are written all or none, but their user may have changed
/// some since.
#[derive(Clone, Copy, Debug, Default)]
struct FolderEvidence {
    /// A file is as the restore was to leave it.
    is_written: bool,
    /// A file is as it was before the restore.
    is_unwritten: bool,
}

impl FolderEvidence {
    /// Looks at a file; none for one that can't be read.
    fn add(&mut self, file: &RestoredDigests, now: Option<Option<ContentDigests>>) {
        let Some(now) = now.filter(|_| file.before != file.after) else { return };
        self.is_written |= is_it(now.as_ref(), file.after);
        self.is_unwritten |= is_it(now.as_ref(), file.before);
    }
}

/// The folders whose files a restore that was cut off has left as they were. Folders are written in the order of their
/// numbers, so one without evidence is judged by those around it.
fn unchanged_folders(folders: &BTreeMap<Option<usize>, FolderEvidence>) -> BTreeSet<Option<usize>> {
    let last_written = folders.iter().rfind(|(_, evidence)| evidence.is_written).map(|(folder, _)| *folder);
    let behind = |folder: &Option<usize>| last_written.is_none_or(|written| written < *folder);
    let mut rest = folders.iter().filter(|(folder, _)| behind(folder)).peekable();
    while rest.next_if(|(_, evidence)| !evidence.is_unwritten).is_some() {}
    rest.map(|(folder, _)| *folder).collect()
}

/// Names the record of a restore in the trace.
pub(super) fn restored_call(started: u64) -> (&'static str, ToolCallId) {
    ("restore", ToolCallId::new(format!("restore_{started}")))
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

    /// The files that may have been moved to where they are, from a place that can't be restored.
    fn possible_moves(&self, is_meant: impl Fn(&KnownCheckpoint) -> bool) -> BTreeSet<&str> {
        let checkpoints = self.checkpoints.iter().filter(|known| is_meant(known));
        let moves = checkpoints.flat_map(|known| restore_plan::possible_moves(&known.files));
        moves.map(|file| file.path.as_str()).collect()
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
        let now = self.tree.root().conversation.length();
        let dropped = u64::try_from(now.saturating_sub(items)).unwrap_or(u64::MAX);
        let opening = self.opening.clone().filter(|_| items == 0);
        Ok(ConversationCut { before, dropped, opening })
    }
}

/// Takes out of what is to be undone the files that would be deleted and may be the only copy of others.
fn take_possible_moves(
    by_path: &mut BTreeMap<String, Vec<&SavedFile>>,
    moves: BTreeSet<&str>,
) -> Vec<LeftOutFile> {
    let is_taken = |path: &str, changes: &[&SavedFile]| {
        moves.contains(path) && changes.first().is_some_and(|first| first.before == SavedContent::Absent)
    };
    let taken = by_path.extract_if(.., |path, changes| is_taken(path, changes));
    let reason =
        "a file of this name was deleted by the same call, and its content, which isn't known, may be here";
    taken.map(|(path, _)| LeftOutFile { path, reason: reason.to_owned() }).collect()
}

fn worktree_of(task: &Task) -> Option<String> {
    task.left_worktree().map(|folder| folder.display().to_string())
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

/// What is found in a log while it is read.
#[derive(Default)]
struct Found {
    checkpoints: Vec<KnownCheckpoint>,
    messages: Vec<(u64, MessageId)>,
    opening: Option<String>,
    cut: Option<(u64, usize)>,
}

impl Found {
    fn add(&mut self, (seq, at): (u64, i64), task: &TaskId, summary: String, files: &[SavedFile]) {
        let (task_id, files) = (task.clone(), files.to_vec());
        self.checkpoints.push(KnownCheckpoint { seq, task_id, at, summary, files });
    }

    /// Takes out of a restore's checkpoint what the restore left as it was.
    fn settle(&mut self, started: u64, done: bool, unchanged: &[String]) {
        if done {
            let restore = self.checkpoints.iter_mut().rfind(|known| known.seq == started);
            restore.into_iter().for_each(|known| known.files.retain(|file| !unchanged.contains(&file.path)));
        } else {
            self.checkpoints.retain(|known| known.seq != started);
        }
    }
}

fn read_past(directory: &RequestDirectory, root: &TaskId, until: Option<u64>) -> Result<Past, EngineError> {
    let (fold, found) = fold_log(directory, root, None, |found: &mut Found, tree, record| {
        let Record { seq, at, task_id, event } = record;
        if let Some(tree) = tree
            && until.is_some_and(|until| *seq <= until)
            && tree.root().is_between_requests()
        {
            found.cut = Some((*seq, tree.root().conversation.length()));
        }
        match event {
            Event::CheckpointSaved { summary, files, .. } => {
                found.add((*seq, *at), task_id, summary.clone(), files);
            }
            Event::RestoreStarted { restore } => {
                found.add((*seq, *at), task_id, summary_of(restore), &restore.files);
            }
            Event::RestoreFinished { started, done, unchanged, .. } => {
                found.settle(*started, *done, unchanged);
            }
            Event::Forked { .. } => {
                let unfinished = tree.and_then(|tree| tree.root().restore.as_ref());
                unfinished.into_iter().for_each(|(started, _)| found.settle(*started, false, &[]));
            }
            Event::UserSaid { message, text, .. } if task_id == root => {
                found.messages.push((*seq, message.id.clone()));
                if found.opening.is_none() {
                    let prompt = prompts::user_message(&message.text);
                    found.opening = Some(text.strip_prefix(&prompt).unwrap_or_default().to_owned());
                }
            }
            _ => {}
        }
    })?;
    let Found { checkpoints, messages, opening, cut } = found;
    let opening = opening.filter(|opening| !opening.is_empty());
    Ok(Past { tree: state(root, fold)?, checkpoints, messages, opening, cut })
}

/// Undoes changes of a file in a folder that nobody else uses yet. Returns the reason why it can't.
fn undo_in(folder: &Path, path: &str, saved: &[&SavedFile], contents: &LoadedContents) -> Result<(), String> {
    let relative = Path::new(path);
    let is_within = relative.components().all(|part| matches!(part, Component::Normal(_)));
    let place = folder.join(relative);
    let leads_in = || make_parents(folder, relative).map_err(|error| error.to_string());
    let link = restore_plan::was_link(saved).then(|| std::fs::read_link(&place).ok()).flatten();
    if !is_within || !leads_in()? || (place.is_symlink() && link.is_none()) {
        return Err("it is outside of the folder, or behind a link or a file".to_owned());
    }
    if place.is_dir() && link.is_none() {
        remove_empty_directories(&place).map_err(|error| format!("it is a directory: {error}"))?;
    }
    let removed = restore_plan::removed_encoding(saved);
    let read = || std::fs::read(&place).map(Contents::from_bytes);
    let (now, encoding) = match link.as_ref().map_or_else(read, |_| Err(io::ErrorKind::NotFound.into())) {
        Ok(Contents::Text(file)) if !file.lossy => {
            (Some(Content::Text(file.text)), removed.unwrap_or(file.encoding))
        }
        Ok(Contents::Text(_)) => return Err("it can't be decoded without loss".to_owned()),
        Ok(Contents::Binary { bytes, .. }) => {
            (Some(Content::Bytes(bytes.into())), removed.unwrap_or(TextEncoding::UTF_8))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            (None, removed.unwrap_or(TextEncoding::UTF_8))
        }
        Err(error) => return Err(error.to_string()),
    };
    let now = link.map_or(now, |target| Some(Content::Link(target.as_os_str().as_bytes().into())));
    let is_there = now.is_some();
    let was_link = now.as_ref().is_some_and(Content::is_link);
    let remove = |place: &Path| if is_there { std::fs::remove_file(place) } else { Ok(()) };
    let done = match restore_plan::undo(saved, now, contents) {
        Restored::Content(Some(Content::Link(target))) => {
            remove(&place).and_then(|()| symlink(OsStr::from_bytes(&target), &place))
        }
        Restored::Content(Some(content)) => {
            let bytes = bytes_of(&content, encoding)?;
            let removed = if was_link { remove(&place) } else { Ok(()) };
            let written = removed.and_then(|()| std::fs::write(&place, bytes));
            match !is_there && restore_plan::was_executable(saved) {
                true => written.and_then(|()| make_executable(&place)),
                false => written,
            }
        }
        Restored::Content(None) if is_there => std::fs::remove_file(&place),
        Restored::Content(None) => Ok(()),
        Restored::LeftOut(reason) => return Err(reason),
        Restored::Conflict { reason, .. } => return Err(reason.to_owned()),
    };
    done.map_err(|error| error.to_string())
}

/// Removes a directory in which there are only directories.
fn remove_empty_directories(directory: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_empty_directories(&entry.path())?;
        }
    }
    std::fs::remove_dir(directory)
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
    let (fold, ()) = fold_log(directory, root, Some(before), |(), _, _| {})?;
    Ok(state(root, fold)?.root().clone())
}

#[cfg(test)]
mod tests {
    use roo_workspace::FileText;

    use super::*;

    /// What files that were `before` and are to be `after` tell of a restore, as they are now.
    fn evidence(files: &[(&str, &str, &str)]) -> FolderEvidence {
        let mut evidence = FolderEvidence::default();
        for (before, after, now) in files {
            let [before, after, now] = [before, after, now].map(|text| Some(Digest::of(text)));
            let file = RestoredDigests { path: "a".into(), before, after, behind: false };
            evidence.add(&file, Some(now.map(|now| [now; 2])));
        }
        evidence
    }

    fn unchanged(folders: &[&[(&str, &str, &str)]]) -> Vec<usize> {
        let folders = folders.iter().enumerate().map(|(folder, files)| (Some(folder), evidence(files)));
        unchanged_folders(&folders.collect()).into_iter().flatten().collect()
    }

    #[tokio::test]
    async fn what_a_failed_restore_has_written_is_seen_in_the_files() {
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path().join("w");
        std::fs::create_dir(&folder).unwrap();
        let workspace = Workspace::open(roo_workspace::Setup {
            folders: vec![folder.clone()],
            state_directory: directory.path().join("state"),
            documents: Arc::default(),
            editor: None,
            encoding: roo_text::position::Encoding::Utf16,
        });
        let files = [("restored", Some("old")), ("left", Some("old")), ("made", None), ("gone", None)];
        for (path, text) in [("restored", "old"), ("left", "new"), ("made", "new")] {
            std::fs::write(folder.join(path), text).unwrap();
        }
        let digests = files.map(|(path, after)| RestoredDigests {
            path: path.to_owned(),
            before: Some(Digest::of("new")),
            after: after.map(Digest::of),
            behind: false,
        });
        let restore = Restore {
            seq: 2,
            what: RestoreWhat::Files,
            scope: RestoreScope::Request,
            by: "test".to_owned(),
            files: vec![],
            digests: digests.into(),
            cut: None,
            say: None,
        };
        assert_eq!(not_restored(&workspace.unwrap(), &restore).await, ["left", "made"]);
    }

    #[test]
    fn a_folder_is_as_it_was_where_a_file_is_and_none_is_restored() {
        let (old, new, touched) = (("a", "b", "a"), ("a", "b", "b"), ("a", "b", "x"));
        assert_eq!(unchanged(&[&[new, touched], &[new]]), [0_usize; 0]);
        assert_eq!(unchanged(&[&[new], &[old, touched]]), [1]);
        assert_eq!(unchanged(&[&[old], &[old]]), [0, 1]);
        // A folder is written before those behind it.
        assert_eq!(unchanged(&[&[touched], &[new], &[old]]), [2]);
        assert_eq!(unchanged(&[&[new], &[old], &[touched]]), [1, 2]);
        // Without evidence, and behind one that is restored, a folder counts as restored too.
        assert_eq!(unchanged(&[&[new], &[touched]]), [0_usize; 0]);
    }

    #[test]
    fn changes_of_a_file_that_is_not_utf_8_are_undone_in_its_encoding() {
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path().canonicalize().unwrap();
        let wide = |text: &str| -> Vec<u8> {
            format!("\u{feff}{text}").encode_utf16().flat_map(u16::to_le_bytes).collect()
        };
        let Contents::Text(FileText { encoding, .. }) = Contents::from_bytes(wide("x")) else { panic!() };
        let texts = ["Straße\n", "Gasse\n"];
        let contents = LoadedContents::from(texts.map(|text| (Digest::of(text), text.as_bytes().to_vec())));
        let [old, new] = texts.map(|text| SavedContent::Kept(Digest::of(text)));
        let changed = SavedFile {
            path: "a".into(),
            before: old,
            after: new,
            lines: vec![],
            encoding: None,
            executable: false,
            directories: 0,
        };
        let deleted = SavedFile { after: SavedContent::Absent, encoding: Some(encoding), ..changed.clone() };
        std::fs::write(folder.join("a"), wide("Gasse\n")).unwrap();
        undo_in(&folder, "a", &[&changed], &contents).unwrap();
        assert_eq!(std::fs::read(folder.join("a")).unwrap(), wide("Straße\n"));
        std::fs::remove_file(folder.join("a")).unwrap();
        undo_in(&folder, "a", &[&deleted], &contents).unwrap();
        assert_eq!(std::fs::read(folder.join("a")).unwrap(), wide("Straße\n"));
        // Deleted and made anew in UTF-8.
        std::fs::write(folder.join("a"), "Gasse\n").unwrap();
        let made = SavedFile { before: SavedContent::Absent, ..changed };
        undo_in(&folder, "a", &[&deleted, &made], &contents).unwrap();
        assert_eq!(std::fs::read(folder.join("a")).unwrap(), wide("Straße\n"));
    }

    #[test]
    fn files_directories_and_links_take_each_others_place_in_another_folder() {
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path().canonicalize().unwrap();
        let texts = ["text\n", "target", "other"];
        let contents = LoadedContents::from(texts.map(|text| (Digest::of(text), text.as_bytes().to_vec())));
        let kept = SavedContent::Kept(Digest::of("text\n"));
        let [link, other] = ["target", "other"].map(|target| SavedContent::Link(Digest::of(target)));
        let file = |before, after| SavedFile {
            path: "a".into(),
            before,
            after,
            lines: vec![],
            encoding: None,
            executable: false,
            directories: 0,
        };
        let place = folder.join("a");
        std::fs::create_dir_all(place.join("empty")).unwrap();
        undo_in(&folder, "a", &[&file(kept, SavedContent::Absent)], &contents).unwrap();
        assert_eq!(std::fs::read_to_string(&place).unwrap(), "text\n");
        undo_in(&folder, "a", &[&file(link, kept)], &contents).unwrap();
        assert_eq!(std::fs::read_link(&place).unwrap(), Path::new("target"));
        // It leads to somewhere else by now.
        assert!(undo_in(&folder, "a", &[&file(kept, other)], &contents).is_err());
        undo_in(&folder, "a", &[&file(kept, link)], &contents).unwrap();
        assert_eq!(std::fs::read_to_string(&place).unwrap(), "text\n");
    }

    #[test]
    fn pictures_are_undone_in_another_folder_by_their_bytes() {
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path().canonicalize().unwrap();
        let (old, new) = (b"\x89PNG\r\n\x1a\n old", b"\x89PNG\r\n\x1a\n new");
        let contents = LoadedContents::from([old, new].map(|bytes| (Digest::of(bytes), bytes.to_vec())));
        let [kept_old, kept_new] = [old, new].map(|bytes| SavedContent::KeptBytes(Digest::of(bytes)));
        let file = |before, after| SavedFile {
            path: "a".into(),
            before,
            after,
            lines: vec![],
            encoding: None,
            executable: false,
            directories: 0,
        };
        let (made, changed) = (file(SavedContent::Absent, kept_old), file(kept_old, kept_new));
        std::fs::write(folder.join("a"), new).unwrap();
        undo_in(&folder, "a", &[&changed], &contents).unwrap();
        assert_eq!(std::fs::read(folder.join("a")).unwrap(), old);
        undo_in(&folder, "a", &[&made], &contents).unwrap();
        assert!(!folder.join("a").exists());
    }
}
