//! Requests that come to be with all of their records at once: those that another program's files tell of.
//!
//! The payloads are durable before the log appears with every record. Without a log a request doesn't exist, so whatever is
//! left of one that was cut off counts for nothing.

use std::path::Path;

use serde::Serialize;

use super::disk::Access;
use super::line::{self, Record};
use super::lines::MAX_LINE_BYTES;
use super::replace::replace;
use super::{RequestDirectory, StoreError};
use roo_protocol::ids::Digest;

impl RequestDirectory {
    /// Makes a request of these records, numbered from 1. It survives power loss when this returns; before, there is none of
    /// it. Returns false and changes nothing where the request exists.
    ///
    /// # Errors
    /// [`StoreError::Held`] while a process runs the request or makes it, [`StoreError::Sequence`] and [`StoreError::TooLong`]
    /// for records that make no log, [`StoreError::Io`].
    pub fn create_whole<E: Serialize>(&self, records: &[Record<E>]) -> Result<bool, StoreError> {
        let mut payloads: Vec<(Digest, String)> = vec![];
        let mut lines = Vec::new();
        for (expected, record) in (1..).zip(records) {
            if record.seq != expected {
                return Err(StoreError::Sequence { expected, found: record.seq });
            }
            let begin = lines.len();
            line::encode(record, 0, &mut lines, |digest, text| payloads.push((digest, text.to_owned())))?;
            let length = lines.len() - begin;
            if length > MAX_LINE_BYTES {
                return Err(StoreError::TooLong { length });
            }
        }
        if records.is_empty() {
            return Err(StoreError::Sequence { expected: 1, found: 0 });
        }
        self.appear(&lines, payloads.iter().map(|(digest, text)| (*digest, text.as_bytes())))
    }

    /// Makes a request of the bytes of a log and of its payloads, as [`RequestDirectory::create_whole`].
    pub(super) fn appear<'a>(
        &self,
        log: &[u8],
        payloads: impl IntoIterator<Item = (Digest, &'a [u8])>,
    ) -> Result<bool, StoreError> {
        if self.exists() {
            return Ok(false);
        }
        self.create()?;
        let _lock = self.lock()?;
        if self.exists() {
            return Ok(false);
        }
        let disk = self.disk().as_ref();
        let write = |path: &Path, bytes: &[u8]| {
            replace(disk, path, bytes, Access::Private).map_err(StoreError::io("write", path))
        };
        for (index, (digest, bytes)) in payloads.into_iter().enumerate() {
            if index == 0 {
                self.create_blobs()?;
            }
            write(&self.blob(digest), bytes)?;
        }
        self.sync()?;
        write(&self.log(), log)?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;
    use crate::simulated_disk::SimulatedDisk;
    use crate::{Loaded, RequestLog, WorkspaceDirectory};
    use roo_protocol::ids::TaskId;

    fn request(disk: &SimulatedDisk) -> RequestDirectory {
        let requests =
            WorkspaceDirectory::on(Arc::new(disk.clone()), Path::new("/state"), Path::new("/work"));
        requests.request(&TaskId::new("a"))
    }

    fn record(seq: u64) -> Record<Value> {
        // Some are kept beside the log.
        let text = if seq.is_multiple_of(2) { "x".repeat(40_000) } else { String::new() };
        Record { seq, at: 0, task_id: TaskId::new("a"), event: json!({ "n": seq, "text": text }) }
    }

    #[test]
    fn a_request_appears_with_all_of_its_records() {
        let disk = SimulatedDisk::new();
        let records = [record(1), record(2), record(3)];
        assert!(request(&disk).create_whole(&records).unwrap());
        let (mut log, Loaded { records: found, damage }) = RequestLog::open::<Value>(request(&disk)).unwrap();
        assert_eq!((found, damage), (records.to_vec(), vec![]));
        log.append(&[record(4)]).unwrap();
        assert_eq!(log.last_seq(), 4);
    }

    #[test]
    fn a_request_that_exists_stays_as_it_is() {
        let disk = SimulatedDisk::new();
        assert!(request(&disk).create_whole(&[record(1)]).unwrap());
        assert!(!request(&disk).create_whole(&[record(1), record(2)]).unwrap());
        let (_log, Loaded { records, .. }) = RequestLog::open::<Value>(request(&disk)).unwrap();
        assert_eq!(records, [record(1)]);
    }

    #[test]
    fn records_with_a_gap_make_no_request() {
        let disk = SimulatedDisk::new();
        for records in [vec![], vec![record(2)], vec![record(1), record(3)]] {
            assert!(matches!(request(&disk).create_whole(&records), Err(StoreError::Sequence { .. })));
            assert!(!request(&disk).exists());
        }
    }
}
