//! The copy of a request in its stream: the log in parts, the payloads beside it, and what has changed in the checkout.
//!
//! The files are copied before the records that tell of them. So the newest part of a log always finds the files as they were
//! when it was written, or with a change that a call was at when its worker died, as after a crash on one machine.

use std::collections::HashSet;

use roo_durable::{RequestDirectory, StoreError};
use roo_protocol::ids::{Digest, TaskId};

use super::checkout::{Checkout, CheckoutError};
use super::work_result::MAX_PATCH_BYTES;
use crate::nats::{Appended, Claim, LogMessage, LogState, NatsError, Storage};

/// The most bytes of a log in one message.
const PART: usize = 256 << 10;
/// The largest payload, in bytes.
const MAX_PAYLOAD_BYTES: u64 = 64 << 20;

/// Reasons why a request is not copied, or not made of its copy.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReplicaError {
    #[error(transparent)]
    Nats(#[from] NatsError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Checkout(#[from] CheckoutError),
    #[error("a part of the log is missing in its stream")]
    Gap,
    #[error("the worker is ending")]
    Ending,
}

/// The files in NATS of a request.
pub(super) fn patch_file(request: &TaskId) -> String {
    format!("{request}/patch")
}

fn payload_file(request: &TaskId, digest: Digest) -> String {
    format!("{request}/payload/{}", digest.hex())
}

/// The copy of a request, for the worker that has claimed it.
pub(super) struct Replica<'c> {
    storage: &'c Storage,
    claim: Claim,
    request: TaskId,
    directory: RequestDirectory,
    checkout: &'c Checkout,
    /// Length of the log that is copied.
    offset: u64,
    /// The number of the newest record that is copied.
    seq: u64,
    payloads: HashSet<Digest>,
    /// The id of the files that are copied, and the file that they are in; none for files as they were checked out.
    tree: (String, Option<String>),
    /// Files that an earlier state was in.
    superseded: Vec<String>,
}

impl<'c> Replica<'c> {
    /// Makes a request and its files of their copy. Without one, nothing is made.
    pub(super) async fn restore(
        storage: &'c Storage,
        request: &TaskId,
        (claim, log): (Claim, Vec<LogMessage>),
        directory: RequestDirectory,
        checkout: &'c Checkout,
    ) -> Result<Self, ReplicaError> {
        let (bytes, state) = assemble(log)?;
        let mut tree = (checkout.base().to_owned(), None);
        let mut payloads = Vec::new();
        if let Some(state) = &state {
            for digest in &state.payloads {
                let file = storage.file(&payload_file(request, *digest), MAX_PAYLOAD_BYTES).await?;
                payloads.push((*digest, file));
            }
            if let Some(file) = &state.tree {
                checkout.restore(&storage.file(file, MAX_PATCH_BYTES).await?).await?;
                tree = (checkout.tree().await?, Some(file.clone()));
            }
        }
        let known = payloads.iter().map(|(digest, _)| *digest).collect();
        let (offset, seq) = (bytes.len() as u64, state.map_or(0, |state| state.seq));
        if seq > 0 {
            let own = directory.clone();
            blocking(move || own.restore(&bytes, &payloads).map(drop)).await?;
        }
        let request = request.clone();
        Ok(Self {
            storage,
            claim,
            request,
            directory,
            checkout,
            offset,
            seq,
            payloads: known,
            tree,
            superseded: vec![],
        })
    }

    /// The number of the newest record that is copied; 0 before the first.
    pub(super) fn seq(&self) -> u64 {
        self.seq
    }

    /// Copies what has changed in the checkout.
    pub(super) async fn copy_files(&mut self) -> Result<(), ReplicaError> {
        let tree = self.checkout.tree().await?;
        if tree == self.tree.0 {
            return Ok(());
        }
        let file = if tree == self.checkout.base() {
            None
        } else {
            let (file, patch) =
                (format!("{}/tree/{tree}", self.request), self.checkout.changes(&tree).await?);
            self.storage.keep(&file, &patch).await;
            Some(file)
        };
        self.superseded.extend(std::mem::replace(&mut self.tree, (tree, file)).1);
        Ok(())
    }

    /// Copies the log up to a record.
    pub(super) async fn copy_log(&mut self, last: u64) -> Result<Appended, ReplicaError> {
        let (own, offset) = (self.directory.clone(), self.offset);
        let part = blocking(move || own.log_part(offset, last)).await?;
        if part.bytes.is_empty() {
            return Ok(Appended::Kept);
        }
        let seq = part.last_seq.unwrap_or(self.seq);
        let payloads = self.copy_payloads().await?;
        let state = LogState { seq, tree: self.tree.1.clone(), payloads };
        let size = PART.min(self.storage.connection().largest_message() / 2).max(1);
        let pieces = part.bytes.chunks(size);
        let (count, mut offset) = (pieces.len(), self.offset);
        for (number, bytes) in pieces.enumerate() {
            let state = (number + 1 == count).then(|| state.clone());
            let message = LogMessage { offset, bytes: bytes.to_vec(), state };
            if self.claim.append(&message).await? == Appended::Lost {
                return Ok(Appended::Lost);
            }
            offset += bytes.len() as u64;
        }
        (self.offset, self.seq) = (offset, seq);
        for file in std::mem::take(&mut self.superseded) {
            if self.tree.1.as_ref() != Some(&file) {
                self.storage.forget(&file).await;
            }
        }
        Ok(Appended::Kept)
    }

    /// Copies the payloads that are new.
    async fn copy_payloads(&mut self) -> Result<Vec<Digest>, ReplicaError> {
        let own = self.directory.clone();
        let mut new = blocking(move || own.payloads()).await?;
        new.retain(|digest| !self.payloads.contains(digest));
        for digest in &new {
            let (own, digest) = (self.directory.clone(), *digest);
            let bytes = blocking(move || own.payload(digest)).await?;
            self.storage.keep(&payload_file(&self.request, digest), &bytes).await;
            self.payloads.insert(digest);
        }
        Ok(new)
    }

    /// What the request has changed in all; none for nothing.
    pub(super) async fn patch(&self) -> Result<Option<Vec<u8>>, ReplicaError> {
        let tree = self.checkout.tree().await?;
        Ok(self.checkout.result(&tree).await?)
    }

    /// Removes what only another worker would need.
    pub(super) async fn forget(self) {
        for file in self.superseded.iter().chain(self.tree.1.as_ref()) {
            self.storage.forget(file).await;
        }
        for digest in &self.payloads {
            self.storage.forget(&payload_file(&self.request, *digest)).await;
        }
    }
}

/// The bytes of a log and the state behind them. What a worker has left of a part counts for nothing.
fn assemble(log: Vec<LogMessage>) -> Result<(Vec<u8>, Option<LogState>), ReplicaError> {
    let (mut bytes, mut whole, mut newest): (Vec<u8>, usize, Option<LogState>) = (vec![], 0, None);
    let mut payloads = Vec::new();
    for message in log {
        let offset = usize::try_from(message.offset).map_err(|_| ReplicaError::Gap)?;
        if offset > bytes.len() {
            return Err(ReplicaError::Gap);
        }
        bytes.truncate(offset);
        bytes.extend(message.bytes);
        if let Some(state) = message.state {
            payloads.extend(&state.payloads);
            (whole, newest) = (bytes.len(), Some(state));
        }
    }
    bytes.truncate(whole);
    Ok((bytes, newest.map(|state| LogState { payloads, ..state })))
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, ReplicaError> {
    Ok(roo_durable::spawn_blocking(work).await.map_err(|_| ReplicaError::Ending)??)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(offset: u64, bytes: &str, state: Option<(u64, &str)>) -> LogMessage {
        let payloads = vec![Digest::of(bytes)];
        let state = state.map(|(seq, tree)| LogState { seq, tree: Some(tree.to_owned()), payloads });
        LogMessage { offset, bytes: bytes.as_bytes().to_vec(), state }
    }

    fn assembled(log: Vec<LogMessage>) -> (String, Option<(u64, String, usize)>) {
        let (bytes, state) = assemble(log).unwrap();
        let state = state.map(|state| (state.seq, state.tree.unwrap(), state.payloads.len()));
        (String::from_utf8(bytes).unwrap(), state)
    }

    #[test]
    fn a_log_is_its_parts_one_after_the_other() {
        let log = vec![
            message(0, "one\n", Some((1, "t1"))),
            message(4, "tw", None),
            message(6, "o\n", Some((2, "t2"))),
        ];
        assert_eq!(assembled(log), ("one\ntwo\n".to_owned(), Some((2, "t2".to_owned(), 2))));
        assert_eq!(assembled(vec![]), (String::new(), None));
    }

    #[test]
    fn what_is_left_of_a_part_counts_for_nothing() {
        let left = vec![message(0, "one\n", Some((1, "t1"))), message(4, "tw", None)];
        assert_eq!(assembled(left.clone()), ("one\n".to_owned(), Some((1, "t1".to_owned(), 1))));
        let next = [left, vec![message(4, "2\n", Some((2, "t2")))]].concat();
        assert_eq!(assembled(next), ("one\n2\n".to_owned(), Some((2, "t2".to_owned(), 2))));
        assert_eq!(assembled(vec![message(0, "on", None)]), (String::new(), None));
    }

    #[test]
    fn a_log_with_a_gap_is_none() {
        let log = vec![message(0, "one\n", Some((1, "t1"))), message(5, "two\n", Some((2, "t2")))];
        assert!(matches!(assemble(log), Err(ReplicaError::Gap)));
    }
}
