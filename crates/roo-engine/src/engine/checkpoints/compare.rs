//! Comparison of two requests of which one is a fork of the other, or both of a third.

use std::collections::BTreeSet;

use super::content::diff_of;
use super::saved_changes;
use crate::engine::tree::Tree;
use crate::engine::{Engine, EngineError};
use crate::tool_run::SavedFile;
use roo_protocol::checkpoint::LeftOutFile;
use roo_protocol::ids::TaskId;
use roo_protocol::task::HistoryItem;

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
    fn new(tree: &Tree) -> Self {
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
    Both,
}

impl Engine {
    /// Compares what two requests of which one was forked from the other, or both from a third, have done to the files since.
    ///
    /// # Errors
    /// [`EngineError::Mismatch`] for requests that share no event, [`EngineError::NotFound`], or [`EngineError::Store`]
    /// when a log can't be read.
    pub async fn compare(&self, one: &TaskId, other: &TaskId) -> Result<Comparison, EngineError> {
        let (one, other) = (one.root(), other.root());
        let since = self.last_shared(&one, &other).await?;
        let (ours, theirs) = (self.past_anywhere(&one).await?, self.past_anywhere(&other).await?);
        let requests = [ComparedRequest::new(&ours.tree), ComparedRequest::new(&theirs.tree)];
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
                    (Some(changes), _) => saved_changes::after(changes, own_contents),
                    (None, Some(changes)) => saved_changes::before(changes, other_contents),
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
}
