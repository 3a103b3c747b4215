//! The past of a request, as its log tells it: checkpoints, the user's messages, and where its conversation can be cut.

use std::collections::{BTreeMap, BTreeSet};

use super::saved_changes::{self, LoadedContents};
use crate::engine::event::{ConversationCut, Event, Restore};
use crate::engine::log_fold::{fold_log, state};
use crate::engine::task::Task;
use crate::engine::tree::Tree;
use crate::engine::{Engine, EngineError};
use crate::tool_run::{SavedContent, SavedFile};
use roo_durable::{Record, RequestDirectory};
use roo_model::prompts;
use roo_protocol::checkpoint::{CheckpointRestoreParams, LeftOutFile, RestoreWhat};
use roo_protocol::ids::{Digest, MessageId, TaskId};
use roo_text::render;

/// Files that a task changed, as they were before and after.
pub(super) struct KnownCheckpoint {
    pub(super) seq: u64,
    pub(super) task_id: TaskId,
    pub(super) at: i64,
    pub(super) summary: String,
    pub(super) files: Vec<SavedFile>,
}

/// What the log of a request tells of its past.
pub(super) struct Past {
    pub(super) tree: Tree,
    pub(super) checkpoints: Vec<KnownCheckpoint>,
    /// The user's messages to the root task, with the numbers of their events.
    pub(super) messages: Vec<(u64, MessageId)>,
    /// What the first message holds but the prompt.
    opening: Option<String>,
    /// The last place at or before the wanted event where the root task was between two requests, and the number of
    /// items that its model knew there.
    cut: Option<(u64, usize)>,
}

impl Past {
    pub(super) fn check_event(&self, seq: u64) -> Result<(), EngineError> {
        if (2..=self.tree.last_seq()).contains(&seq) {
            return Ok(());
        }
        Err(EngineError::NotFound { what: "event", id: seq.to_string() })
    }

    /// The changes of each file, in the order in which they were made.
    pub(super) fn by_path(
        &self,
        is_meant: impl Fn(&KnownCheckpoint) -> bool,
    ) -> BTreeMap<String, Vec<&SavedFile>> {
        let mut by_path: BTreeMap<String, Vec<&SavedFile>> = BTreeMap::new();
        for known in self.checkpoints.iter().filter(|known| is_meant(known)) {
            for file in &known.files {
                by_path.entry(file.path.clone()).or_default().push(file);
            }
        }
        by_path
    }

    /// The files that may have been moved to where they are, from a place that can't be restored.
    pub(super) fn possible_moves(&self, is_meant: impl Fn(&KnownCheckpoint) -> bool) -> BTreeSet<&str> {
        let checkpoints = self.checkpoints.iter().filter(|known| is_meant(known));
        let moves = checkpoints.flat_map(|known| saved_changes::possible_moves(&known.files));
        moves.map(|file| file.path.as_str()).collect()
    }

    /// Where the conversation is cut so that it is as it was before an event.
    pub(super) fn cut(&self, params: &CheckpointRestoreParams) -> Result<ConversationCut, EngineError> {
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

impl Engine {
    /// What the log tells. A restore that a killed server left unfinished is settled first.
    pub(super) async fn past(&self, task: &TaskId, until: Option<u64>) -> Result<Past, EngineError> {
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

    /// What the log tells of a request of whatever workspace.
    pub(super) async fn past_anywhere(&self, root: &TaskId) -> Result<Past, EngineError> {
        let (directory, root) = (self.request_anywhere(root)?, root.clone());
        let read = roo_durable::spawn_blocking(move || read_past(&directory, &root, None));
        read.await.unwrap_or(Err(EngineError::Ending))
    }

    /// Reads the contents that are kept of these changes.
    pub(super) async fn load(
        &self,
        task: &TaskId,
        by_path: &BTreeMap<String, Vec<&SavedFile>>,
    ) -> Result<LoadedContents, EngineError> {
        let wanted: BTreeSet<Digest> =
            by_path.values().flatten().flat_map(|file| saved_changes::digests(file)).collect();
        let contents = self.request_anywhere(task)?.contents();
        let read = roo_durable::spawn_blocking(move || {
            let read = |digest: Digest| Some((digest, contents.read(digest).ok().flatten()?));
            wanted.into_iter().filter_map(read).collect()
        });
        read.await.map_err(|_| EngineError::Ending)
    }
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
pub(in crate::engine) fn state_before(
    directory: &RequestDirectory,
    root: &TaskId,
    before: u64,
) -> Result<Task, EngineError> {
    let (fold, ()) = fold_log(directory, root, Some(before), |(), _, _| {})?;
    Ok(state(root, fold)?.root().clone())
}

/// Takes out of what is to be undone the files that would be deleted and may be the only copy of others.
pub(super) fn take_possible_moves(
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
