//! Copies of a request: its log in parts, as it grows, and a request made of such parts where another process goes on with it.
//!
//! The payloads beside the log belong to it. The contents of changed files don't: what is missing of those, its checkpoint
//! misses.

use std::io::{self, Read as _};

use super::line;
use super::{RequestDirectory, StoreError};
use roo_protocol::ids::Digest;

/// Complete lines of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogPart {
    /// The lines, with their line ends.
    pub bytes: Vec<u8>,
    /// The number of the newest record in them; none without one.
    pub last_seq: Option<u64>,
}

impl RequestDirectory {
    /// The complete lines of the log from an offset on, up to the record `last` at most.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn log_part(&self, offset: u64, last: u64) -> Result<LogPart, StoreError> {
        let path = self.log();
        let mut bytes = Vec::new();
        let read = self.disk().read(&path, offset).and_then(|mut log| log.read_to_end(&mut bytes));
        read.map_err(StoreError::io("read", &path))?;
        let mut part = LogPart::default();
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let Some(whole) = line.strip_suffix(b"\n") else { break };
            if let Some(mark) = line::mark(whole) {
                if mark.seq > last {
                    break;
                }
                part.last_seq = Some(mark.seq);
            }
            part.bytes.extend_from_slice(line);
        }
        Ok(part)
    }

    /// The payloads beside the log.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn payloads(&self) -> Result<Vec<Digest>, StoreError> {
        let path = self.blobs();
        match self.disk().names(&path) {
            Ok(names) => Ok(names.iter().filter_map(|name| Digest::parse(name)).collect()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(vec![]),
            Err(error) => Err(StoreError::io("list", &path)(error)),
        }
    }

    /// The bytes of a payload.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn payload(&self, digest: Digest) -> Result<Vec<u8>, StoreError> {
        let path = self.blob(digest);
        let mut bytes = Vec::new();
        let read = self.disk().read(&path, 0).and_then(|mut file| file.read_to_end(&mut bytes));
        read.map_err(StoreError::io("read", &path))?;
        Ok(bytes)
    }

    /// Makes a request of the bytes of a log and of its payloads. It survives power loss when this returns; before, there is
    /// none of it. Returns false and changes nothing where the request exists.
    ///
    /// # Errors
    /// [`StoreError::Held`] while a process runs the request or makes it, [`StoreError::Io`], also for a payload that is
    /// not the one of its digest.
    pub fn restore(&self, log: &[u8], payloads: &[(Digest, Vec<u8>)]) -> Result<bool, StoreError> {
        for (digest, bytes) in payloads {
            if Digest::of(bytes) != *digest {
                let damaged =
                    io::Error::new(io::ErrorKind::InvalidData, "its bytes are not those of its digest");
                return Err(StoreError::io("write", &self.blob(*digest))(damaged));
            }
        }
        self.appear(log, payloads.iter().map(|(digest, bytes)| (*digest, bytes.as_slice())))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;
    use crate::simulated_disk::SimulatedDisk;
    use crate::{Loaded, Record, RequestLog, WorkspaceDirectory};
    use roo_protocol::ids::TaskId;

    fn request(disk: &SimulatedDisk) -> RequestDirectory {
        let workspace =
            WorkspaceDirectory::on(Arc::new(disk.clone()), Path::new("/state"), Path::new("/work"));
        workspace.request(&TaskId::new("a"))
    }

    fn record(seq: u64) -> Record<Value> {
        // Some are kept beside the log.
        let text = if seq.is_multiple_of(2) { "x".repeat(40_000) } else { String::new() };
        Record { seq, at: 0, task_id: TaskId::new("a"), event: json!({ "n": seq, "text": text }) }
    }

    #[test]
    fn a_request_goes_on_from_parts_of_its_log() {
        let disk = SimulatedDisk::new();
        let mut log = RequestLog::create(request(&disk)).unwrap();
        log.append(&[record(1), record(2)]).unwrap();
        let first = request(&disk).log_part(0, u64::MAX).unwrap();
        assert_eq!(first.last_seq, Some(2));
        log.append(&[record(3), record(4)]).unwrap();
        let second = request(&disk).log_part(first.bytes.len() as u64, 3).unwrap();
        assert_eq!(second.last_seq, Some(3), "no further than it was asked for");
        let payload = |digest| (digest, request(&disk).payload(digest).unwrap());
        let payloads: Vec<_> = request(&disk).payloads().unwrap().into_iter().map(payload).collect();
        assert_eq!(payloads.len(), 1, "two records have the same one");

        let other = SimulatedDisk::new();
        assert!(request(&other).restore(&[first.bytes, second.bytes].concat(), &payloads).unwrap());
        let (mut log, Loaded { records, damage }) = RequestLog::open::<Value>(request(&other)).unwrap();
        assert_eq!((records, damage), (vec![record(1), record(2), record(3)], vec![]));
        log.append(&[record(4)]).unwrap();
        assert!(!request(&other).restore(&[], &[]).unwrap(), "it is there");
    }

    #[test]
    fn a_line_that_is_being_written_is_in_no_part() {
        let disk = SimulatedDisk::new();
        let mut log = RequestLog::create(request(&disk)).unwrap();
        log.append(&[record(1)]).unwrap();
        let whole = request(&disk).log_part(0, u64::MAX).unwrap().bytes;
        let other = SimulatedDisk::new();
        request(&other).restore(&[&whole[..], b"{\"seq\":2"].concat(), &[]).unwrap();
        let part = request(&other).log_part(0, u64::MAX).unwrap();
        assert_eq!((part.bytes, part.last_seq), (whole, Some(1)));
    }

    #[test]
    fn a_payload_of_another_digest_makes_no_request() {
        let disk = SimulatedDisk::new();
        let payload = (Digest::of("one"), b"another".to_vec());
        assert!(request(&disk).restore(b"", &[payload]).is_err());
        assert!(!request(&disk).exists());
    }
}
