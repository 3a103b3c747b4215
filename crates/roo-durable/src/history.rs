//! An index of what the logs of a workspace come to, so that a list of requests reads one file and none of the logs.
//!
//! It is a cache and nothing else: every entry names the state of the log that it was made from, and counts only while the
//! log is in that state. So an index that is missing, damaged, old or written by two processes at once costs time alone.

use std::collections::HashMap;
use std::io::{self, Read as _};
use std::path::PathBuf;
use std::str::FromStr as _;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::disk::{Disk, FileIdentity, FileStamp};
use super::replace::replace_unsynced;
use roo_protocol::ids::TaskId;

/// Number of lines without a use that the file may have besides as many as there are entries.
const SPARE: usize = 256;

/// The index of one workspace, as it was read.
#[derive(Debug)]
pub struct History {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    /// The file that `entries` are from.
    read: Option<FileStamp>,
    entries: HashMap<String, Entry>,
    lines: usize,
}

#[derive(Debug)]
struct Entry {
    log: LogState,
    /// As JSON.
    summary: Box<str>,
}

/// Part of a stamp that is the same after a restart of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LogState {
    number: u64,
    length: u64,
    modified: u64,
}

impl From<FileStamp> for LogState {
    fn from(stamp: FileStamp) -> Self {
        let FileStamp { identity: FileIdentity(_, number), length, modified } = stamp;
        Self { number, length, modified }
    }
}

impl History {
    pub(super) fn new(disk: Arc<dyn Disk>, path: PathBuf) -> Self {
        Self { disk, path, read: None, entries: HashMap::new(), lines: 0 }
    }

    /// Reads the file, if it is another one than was read. What can't be read is as good as nothing.
    pub fn refresh(&mut self) {
        let stamp = self.disk.stamp(&self.path).ok();
        if stamp.is_some() && stamp == self.read {
            return;
        }
        (self.read, self.lines) = (stamp, 0);
        self.entries.clear();
        let mut text = Vec::new();
        let read = self.disk.read(&self.path, 0).and_then(|mut file| file.read_to_end(&mut text));
        if read.is_err() {
            return;
        }
        self.entries.reserve(text.iter().filter(|&&byte| byte == b'\n').count());
        for line in text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            self.lines += 1;
            if let Some((id, entry)) = parse(line) {
                // A later line replaces an earlier one.
                match self.entries.get_mut(id) {
                    Some(known) => *known = entry,
                    None => drop(self.entries.insert(id.to_owned(), entry)),
                }
            }
        }
    }

    /// Returns whether there is an entry about a request, of whatever state of its log.
    pub fn knows(&self, request: &TaskId) -> bool {
        self.entries.contains_key(request.as_str())
    }

    /// The summary of a request whose log is in this state.
    pub fn get<S: DeserializeOwned>(&self, request: &TaskId, log: FileStamp) -> Option<S> {
        let entry = self.entries.get(request.as_str()).filter(|entry| entry.log == log.into())?;
        serde_json::from_str(&entry.summary).ok()
    }

    /// Adds what logs came to that were in these states, and removes what is not in `requests` when that is due. It needs no
    /// sync: what is lost is made again.
    ///
    /// # Errors
    /// What the disk says; [`io::ErrorKind::InvalidData`] for a summary that can't be written as JSON.
    pub fn add<S: Serialize>(
        &mut self,
        new: &[(TaskId, FileStamp, S)],
        is_there: impl Fn(&str) -> bool,
    ) -> io::Result<()> {
        // Whoever wrote last may have been killed within a line.
        let mut lines = vec![b'\n'];
        for (id, stamp, summary) in new {
            let log = LogState::from(*stamp);
            let summary = serde_json::to_string(summary)?.into_boxed_str();
            let entry = Entry { log, summary };
            write(&mut lines, id.as_str(), &entry);
            self.entries.insert(id.as_str().to_owned(), entry);
        }
        self.lines += new.len();
        if self.lines > 2 * self.entries.len() + SPARE || self.entries.keys().any(|id| !is_there(id)) {
            self.entries.retain(|id, _| is_there(id));
            return self.rewrite();
        }
        if new.is_empty() {
            return Ok(());
        }
        let file = match self.disk.open(&self.path, false) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.disk.open(&self.path, true)?,
            file => file?,
        };
        // Others may have added lines since: they are read again, with these.
        file.append_all(&lines)
    }

    /// Removes what is known of a request, for good.
    ///
    /// # Errors
    /// What the disk says.
    pub fn forget(&mut self, request: &TaskId) -> io::Result<()> {
        self.refresh();
        match self.entries.remove(request.as_str()) {
            Some(_) => self.rewrite(),
            None => Ok(()),
        }
    }

    fn rewrite(&mut self) -> io::Result<()> {
        let mut lines = Vec::new();
        for (id, entry) in &self.entries {
            write(&mut lines, id, entry);
        }
        self.lines = self.entries.len();
        let temporary = self.path.with_extension("new");
        replace_unsynced(self.disk.as_ref(), &temporary, &self.path, &lines)?;
        self.read = self.disk.stamp(&self.path).ok();
        Ok(())
    }
}

/// Appends a line: the checksum of the rest, then, with blanks between, the id, the state of the log and the summary.
fn write(lines: &mut Vec<u8>, id: &str, entry: &Entry) {
    let Entry { log: LogState { number, length, modified }, summary } = entry;
    let text = format!("{id} {number} {length} {modified} {summary}");
    let sum = crc32fast::hash(text.as_bytes());
    lines.extend(format!("{sum:08x} {text}\n").into_bytes());
}

fn parse(line: &[u8]) -> Option<(&str, Entry)> {
    let (sum, text) = std::str::from_utf8(line).ok()?.split_once(' ')?;
    if u32::from_str_radix(sum, 16).ok()? != crc32fast::hash(text.as_bytes()) {
        return None;
    }
    let mut parts = text.splitn(5, ' ');
    let id = parts.next()?;
    let mut number = || parts.next().and_then(|number| u64::from_str(number).ok());
    let log = LogState { number: number()?, length: number()?, modified: number()? };
    Some((id, Entry { log, summary: parts.next()?.into() }))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;
    use crate::disk::Access;
    use crate::simulated_disk::SimulatedDisk;

    const PLACE: &str = "/state/history";

    fn stamp(length: u64) -> FileStamp {
        FileStamp { identity: FileIdentity(1, 2), length, modified: 3 }
    }

    fn history(disk: &SimulatedDisk) -> History {
        let mut history = History::new(Arc::new(disk.clone()), PLACE.into());
        history.refresh();
        history
    }

    fn disk() -> SimulatedDisk {
        let disk = SimulatedDisk::new();
        disk.create_directories(Path::new("/state")).unwrap();
        disk
    }

    fn entry(id: &str, length: u64) -> (TaskId, FileStamp, String) {
        (TaskId::new(id), stamp(length), format!("{id} of {length}\nbytes"))
    }

    fn found(history: &History, id: &str, length: u64) -> Option<String> {
        history.get(&TaskId::new(id), stamp(length))
    }

    #[test]
    fn an_entry_counts_for_the_log_that_it_was_made_from() {
        let disk = disk();
        let mut writer = history(&disk);
        writer.add(&[entry("a", 10), entry("b", 20)], |_| true).unwrap();
        writer.add(&[entry("a", 11)], |_| true).unwrap();
        for reader in [&writer, &history(&disk)] {
            assert_eq!(found(reader, "a", 11).unwrap(), "a of 11\nbytes");
            assert_eq!(found(reader, "a", 10), None, "its log has grown");
            assert_eq!(found(reader, "b", 20).unwrap(), "b of 20\nbytes");
            assert_eq!(found(reader, "c", 20), None);
            assert!(reader.knows(&TaskId::new("a")) && !reader.knows(&TaskId::new("c")));
        }
    }

    #[test]
    fn two_writers_see_what_the_other_one_added() {
        let disk = disk();
        let (mut one, mut other) = (history(&disk), history(&disk));
        one.add(&[entry("a", 1)], |_| true).unwrap();
        other.add(&[entry("b", 1)], |_| true).unwrap();
        for history in [&mut one, &mut other] {
            history.refresh();
            assert!(found(history, "a", 1).is_some() && found(history, "b", 1).is_some());
        }
    }

    #[test]
    fn what_is_deleted_is_gone_from_the_file() {
        let disk = disk();
        let mut history = history(&disk);
        history.add(&[entry("secret", 1), entry("b", 1), entry("c", 1)], |_| true).unwrap();
        history.forget(&TaskId::new("secret")).unwrap();
        history.add::<String>(&[], |id| id != "c").unwrap();
        let text = String::from_utf8(disk.bytes(Path::new(PLACE)).unwrap()).unwrap();
        assert!(!text.contains("secret") && !text.contains("c of") && text.contains("b of"), "{text}");
        assert!(found(&history, "b", 1).is_some());
    }

    #[test]
    fn a_file_that_many_lines_replace_each_other_in_stays_small() {
        let disk = disk();
        let mut history = history(&disk);
        for length in 0..2000 {
            history.add(&[entry("a", length)], |_| true).unwrap();
        }
        let lines = disk.bytes(Path::new(PLACE)).unwrap().split(|&byte| byte == b'\n').count();
        assert!(lines < 3 * SPARE, "{lines}");
        assert!(found(&history, "a", 1999).is_some());
    }

    #[test]
    fn a_loss_of_power_at_any_moment_leaves_entries_that_are_right_or_none() {
        let disk = disk();
        let mut writer = history(&disk);
        let first = disk.operations();
        writer.add(&[entry("a", 1)], |_| true).unwrap();
        writer.add(&[entry("b", 1)], |_| true).unwrap();
        for (operations, left) in disk.every_power_loss(first) {
            let mut reader = history(&left);
            for id in ["a", "b"] {
                let right = format!("{id} of 1\nbytes");
                assert!(found(&reader, id, 1).is_none_or(|found| found == right), "{operations}");
            }
            // What is added after a torn line counts.
            if left.exists(Path::new("/state")).unwrap() {
                reader.add(&[entry("c", 1)], |_| true).unwrap();
                assert!(found(&history(&left), "c", 1).is_some(), "{operations}");
            }
        }
    }

    #[test]
    fn a_disk_that_refuses_leaves_what_there_was() {
        let disk = disk();
        history(&disk).add(&[entry("a", 1)], |_| true).unwrap();
        for first in 0..8 {
            let mut writer = history(&disk);
            disk.fill_from(first);
            let _ = writer.add(&[entry("b", 1)], |_| true);
            disk.heal();
            assert!(found(&history(&disk), "a", 1).is_some());
        }
    }

    proptest! {
        #[test]
        fn a_damaged_file_gives_no_wrong_entry(at in 0usize..200, with in any::<u8>()) {
            let disk = disk();
            history(&disk).add(&[entry("a", 1), entry("b", 1)], |_| true).unwrap();
            let mut bytes = disk.bytes(Path::new(PLACE)).unwrap();
            let at = at % bytes.len();
            bytes[at] = with;
            disk.write(Path::new(PLACE), &mut bytes.as_slice(), Access::Private).unwrap();
            let reader = history(&disk);
            for id in ["a", "b"] {
                let right = format!("{id} of 1\nbytes");
                prop_assert!(found(&reader, id, 1).is_none_or(|found| found == right));
            }
        }

        #[test]
        fn reading_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            parse(&bytes);
        }
    }
}
