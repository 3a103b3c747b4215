//! A restore, from the wish of a client to the order for the request's actor, which writes the files and both events.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::content::digest_of;
use super::past::{Past, state_before};
use super::plan::{Plan, PlannedFiles, worktree_of};
use crate::engine::actor_message::{Command, RestoreOrder};
use crate::engine::event::{NewMessage, Restore, RestoredDigests};
use crate::engine::task::{Input, Task};
use crate::engine::tree::Tree;
use crate::engine::{Engine, EngineError};
use crate::tool_run::SavedFile;
use roo_protocol::checkpoint::{
    CheckpointRestoreParams, CheckpointRestoreResult, RestoreScope, RestoreWhat, TaskEditParams,
};
use roo_workspace::Purpose;

/// What a restore needs besides.
struct Prepared {
    /// The files as they are before it and after.
    files: Vec<SavedFile>,
    /// The state that the conversation goes back to.
    then: Option<Task>,
}

impl Engine {
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
