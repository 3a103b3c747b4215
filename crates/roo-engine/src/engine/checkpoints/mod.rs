//! Checkpoints of a request: what its tasks changed, from its log, and going back to an earlier state of its files and
//! its conversation.
//!
//! A restore is decided on from the log and the files as they are ([`plan`]), told of by an event before anything
//! changes, written as one edit of several files, and closed by a second event. Nothing is deleted: a restore changes
//! files as any call does, so it is a checkpoint too and can be undone.
//!
//! What a call changed is saved by `crate::tool_run` and kept by the engine's `checkpoint_store`, not here.

mod compare;
mod content;
mod past;
mod plan;
mod restore;
mod saved_changes;
mod settle;
mod undo;

use std::path::{Path, PathBuf};

use self::content::content_now;
use self::past::KnownCheckpoint;
use super::event::checkpoint_file;
use super::{Engine, EngineError};
use crate::tool_run::ShadowError;
use roo_formats::config::SandboxLevel;
use roo_protocol::checkpoint::{
    Checkpoint, CheckpointDiffParams, CheckpointDiffResult, CheckpointListResult, LeftOutFile,
};
use roo_protocol::ids::TaskId;
use roo_sandbox::exec::{Environment, EnvironmentRules, find_program};

pub use self::compare::{ChangedBy, ComparedFile, ComparedRequest, Comparison};
pub(super) use self::past::state_before;
pub(super) use self::settle::{not_restored, restored_call};

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
            let before = saved_changes::before(&changes, &contents);
            let after = match to {
                Some(_) => saved_changes::after(&changes, &contents),
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
}
