//! The git worktree in which a branch works beside others, from the plan to have one until its changes are merged and it is
//! removed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::results::summary;
use super::{Stage, Task};
use crate::engine::event::{BranchWorktree, ConflictBase, EndState, Event};
use crate::policy::{PlannedEdit, PlannedMerge};
use roo_catalog::{ToolCall, ToolName};
use roo_model::prompts::replies;
use roo_model::providers::ToolResult;
use roo_protocol::event::ToolStatus;

/// Number of conflicts after which the user is asked.
const MAX_CONFLICTS: u32 = 3;

/// Work tree of a branch.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::engine) enum Worktree {
    /// It is to be made.
    Due,
    /// There is none, for this reason: the branch works in the folder of its parent.
    Unavailable(String),
    /// The branch works in it.
    Open(OpenWorktree),
    /// The branch stops with its request, and has changed nothing that is not merged: it is removed, and recreated when the
    /// branch goes on. What a kill leaves of it is replaced then.
    Unused(OpenWorktree),
    /// The branch works in it no more.
    Closed {
        last: OpenWorktree,
        /// Reason why it was not removed; none if it is gone.
        kept: Option<String>,
    },
}

/// Work tree in which a branch works.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::engine) struct OpenWorktree {
    pub(in crate::engine) top: PathBuf,
    /// The folder in it that stands for that of the parent.
    pub(in crate::engine) folder: PathBuf,
    /// The snapshot that a merge begins with.
    pub(in crate::engine) base: String,
    /// Texts that it begins with in files of which a conflict was found; none where the file was not there.
    pub(in crate::engine) conflict_bases: BTreeMap<String, Option<String>>,
    /// Changed files that the last merge left behind.
    pub(in crate::engine) left_out: Vec<String>,
    /// Number of conflicts since the user last said something, or since the last merge.
    conflicts: u32,
    /// Reason why the last attempt merged nothing.
    not_merged: Option<String>,
    /// Something in it was not merged when the branch stopped.
    is_needed: bool,
}

/// Purpose of closing a work tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum WorktreeClosing {
    /// It is removed, unless something in it is not merged.
    End,
    /// It is found out whether something in it is not merged.
    Look,
    /// It is removed: nothing in it is missed.
    Remove,
}

impl Worktree {
    pub(super) fn open(made: &BranchWorktree) -> Self {
        Self::Open(OpenWorktree {
            top: made.top.clone(),
            folder: made.folder.clone(),
            base: made.base.clone(),
            conflict_bases: BTreeMap::new(),
            left_out: vec![],
            conflicts: 0,
            not_merged: None,
            is_needed: false,
        })
    }
}

impl Task {
    /// The work tree in which it works.
    pub(in crate::engine) fn open_worktree(&self) -> Option<&OpenWorktree> {
        match &self.worktree {
            Some(Worktree::Open(open)) => Some(open),
            _ => None,
        }
    }

    fn open_worktree_mut(&mut self) -> Option<&mut OpenWorktree> {
        match &mut self.worktree {
            Some(Worktree::Open(open)) => Some(open),
            _ => None,
        }
    }

    /// The folder of its work tree, while it works there.
    pub(in crate::engine) fn own_folder(&self) -> Option<&Path> {
        self.open_worktree().map(|open| open.folder.as_path())
    }

    /// The folder of a work tree that is there still.
    pub(in crate::engine) fn left_worktree(&self) -> Option<&Path> {
        match self.worktree.as_ref()? {
            Worktree::Open(last) | Worktree::Unused(last) | Worktree::Closed { last, kept: Some(_) } => {
                Some(&last.folder)
            }
            Worktree::Due | Worktree::Unavailable(_) | Worktree::Closed { kept: None, .. } => None,
        }
    }

    /// Reason why its work tree was kept when it ended.
    pub(in crate::engine) fn why_worktree_is_kept(&self) -> Option<&str> {
        match self.worktree.as_ref()? {
            Worktree::Closed { kept, .. } => kept.as_deref(),
            _ => None,
        }
    }

    /// Returns whether its work tree is to be made before its first request.
    pub(super) fn needs_worktree(&self) -> bool {
        matches!(self.worktree, Some(Worktree::Due))
    }

    /// Reason why it has no work tree although it was to have one.
    pub(in crate::engine) fn worktree_unavailable(&self) -> Option<&str> {
        match &self.worktree {
            Some(Worktree::Unavailable(reason)) => Some(reason),
            _ => None,
        }
    }

    /// Returns whether the current call would merge its work tree into the folder of its parent: it is judged and run there.
    pub(crate) fn merges(&self) -> bool {
        let completes = |call: &ToolCall| call.is_of(ToolName::AttemptCompletion);
        self.open_worktree().is_some() && self.current_call().is_some_and(completes)
    }

    /// Returns whether its work tree is to be removed now, or looked at for that.
    pub(in crate::engine) fn closes_worktree(&self) -> bool {
        (self.has_only_worktree_left() || self.puts_worktree_away()) && !self.is_interrupted()
    }

    /// Its work tree, if it is there, and what is to be done to close it.
    pub(in crate::engine) fn worktree_closing(&self) -> Option<(&OpenWorktree, WorktreeClosing)> {
        match self.worktree.as_ref()? {
            Worktree::Open(last) if self.is_stopping() => Some((last, WorktreeClosing::Look)),
            Worktree::Open(last) => Some((last, WorktreeClosing::End)),
            Worktree::Unused(last) => Some((last, WorktreeClosing::Remove)),
            Worktree::Due | Worktree::Unavailable(_) | Worktree::Closed { .. } => None,
        }
    }

    /// Returns whether all is done for a stop but for its work tree. Below others it is needed as long as they are.
    fn puts_worktree_away(&self) -> bool {
        let is_open = match &self.worktree {
            Some(Worktree::Open(open)) => !open.is_needed,
            Some(Worktree::Unused(_)) => true,
            _ => false,
        };
        is_open && self.is_stopping() && self.does_nothing()
    }

    fn does_nothing(&self) -> bool {
        let has_commands = self.ends_commands() && !self.commands.running().is_empty();
        self.in_progress().is_none() && !self.has_open_branches() && !has_commands
    }

    /// Returns whether it has completed and its server ended before its work tree was removed.
    pub(in crate::engine) fn closes_worktree_when_resumed(&self) -> bool {
        let completes = self.ending().is_some_and(|ending| ending.state == EndState::Completed);
        self.has_only_worktree_left() && completes && self.is_interrupted()
    }

    /// Returns whether all is done but for its work tree.
    fn has_only_worktree_left(&self) -> bool {
        let is_there = matches!(self.worktree, Some(Worktree::Open(_) | Worktree::Unused(_)));
        is_there && self.is_ending() && !self.is_stopping() && self.does_nothing()
    }

    /// Returns whether the answer that is worked off opens more than one branch.
    pub(in crate::engine) fn opens_parallel_branches(&self) -> bool {
        self.batch().is_some_and(|batch| batch.delegations() > 1)
    }

    /// The merge that the current call makes.
    pub(super) fn merge_in_progress(&self) -> Option<&PlannedMerge> {
        match &self.in_progress()?.stage {
            Stage::Run { write, .. } => write.as_ref().and_then(PlannedEdit::merge),
            Stage::SettleWrite { write, .. } => write.merge(),
            _ => None,
        }
    }

    /// Folds that the work tree has both versions of these files.
    pub(super) fn add_conflicts(&mut self, files: &[ConflictBase]) {
        let Some(open) = self.open_worktree_mut() else { return };
        open.conflicts += 1;
        for file in files {
            open.conflict_bases.insert(file.path.clone(), file.text.clone());
        }
    }

    /// Folds the result of a call that may have been a merge. To be called before the call is finished.
    pub(super) fn end_merge(&mut self, result: &ToolResult) {
        let is_done = result.status == ToolStatus::Ok;
        let merge = self.merge_in_progress().cloned().filter(|_| is_done);
        let attempted = self.merges() && self.current_call().is_some_and(|call| call.id == result.call_id);
        let Some(open) = self.open_worktree_mut() else { return };
        if let Some(PlannedMerge { snapshot, left_out }) = merge {
            open.base = snapshot;
            open.left_out = left_out;
            open.conflict_bases.clear();
            open.conflicts = 0;
            open.not_merged = None;
        } else if attempted && matches!(result.status, ToolStatus::Denied | ToolStatus::Failed) {
            open.not_merged = Some(summary(&result.text));
        }
    }

    /// The user has said something: conflicts are counted again.
    pub(super) fn forget_conflicts(&mut self) {
        if let Some(open) = self.open_worktree_mut() {
            open.conflicts = 0;
        }
    }

    /// The event of a work tree that was closed, or looked at.
    pub(super) fn worktree_closed(&self, kept: Option<String>) -> Event {
        match self.worktree_closing() {
            Some((_, WorktreeClosing::Look)) if kept.is_none() => Event::WorktreeUnused,
            _ => Event::WorktreeClosed { kept },
        }
    }

    /// Folds that it works in its work tree no more, or, where it stops, what becomes of that.
    pub(super) fn close_worktree(&mut self, kept: Option<&String>) {
        let stops = self.is_stopping();
        self.worktree = match self.worktree.take() {
            Some(Worktree::Open(open)) if stops => {
                Some(Worktree::Open(OpenWorktree { is_needed: true, ..open }))
            }
            Some(Worktree::Unused(_)) if stops => Some(Worktree::Due),
            Some(Worktree::Open(last) | Worktree::Unused(last)) => {
                Some(Worktree::Closed { last, kept: kept.cloned() })
            }
            other => other,
        };
    }

    /// Folds that nothing in its work tree is missed.
    pub(super) fn leave_worktree(&mut self) {
        if let Some(Worktree::Open(last)) = self.worktree.take() {
            self.worktree = Some(Worktree::Unused(last));
        }
    }

    /// Folds that it goes on after a stop.
    pub(super) fn take_worktree_up(&mut self) {
        self.worktree = match self.worktree.take() {
            Some(Worktree::Unused(_)) => Some(Worktree::Due),
            Some(Worktree::Open(open)) => Some(Worktree::Open(OpenWorktree { is_needed: false, ..open })),
            other => other,
        };
    }

    /// Returns the question to the user where one conflict follows another.
    pub(super) fn too_many_conflicts(&self) -> Option<String> {
        let open = self.open_worktree().filter(|open| open.conflicts >= MAX_CONFLICTS)?;
        let reason = open.not_merged.as_deref().unwrap_or_default();
        Some(format!(
            "The changes of this branch have met {} conflicts one after another. {reason} Its worktree is {}. Tell the model \
             how to continue, or stop the request.",
            open.conflicts,
            open.folder.display()
        ))
    }

    /// What the parent is told of the work tree beside the result; none where it is gone or there was none.
    pub(in crate::engine) fn worktree_note(&self, completed: bool) -> Option<String> {
        let (last, kept) = match self.worktree.as_ref()? {
            Worktree::Closed { kept: None, .. }
            | Worktree::Due
            | Worktree::Unused(_)
            | Worktree::Unavailable(_) => return None,
            Worktree::Closed { last, kept: Some(kept) } => (last, Some(kept.as_str())),
            Worktree::Open(last) => (last, None),
        };
        Some(match completed {
            true => replies::worktree_kept(&last.folder, &last.left_out, kept),
            false => replies::not_merged(&last.folder, last.not_merged.as_deref()),
        })
    }
}

/// Returns whether a call would complete a branch whose commands still run in its work tree.
pub(super) fn waits_for_commands(task: &Task, call: &ToolCall) -> bool {
    task.open_worktree().is_some()
        && call.is_of(ToolName::AttemptCompletion)
        && !task.commands.running().is_empty()
}
