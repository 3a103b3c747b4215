//! Recent writes to disk by edits of tasks and by the editor on its user's behalf, so that they aren't attributed to a
//! command that ran at the same time.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use roo_protocol::ids::Digest;

/// The most writes of one file that are remembered. Older ones don't matter for its current state.
const MAX_WRITES_PER_FILE: usize = 8;

/// The writes since the oldest [`WriteMark`] that is still held. A command may run for days, so they are bounded by the
/// files that are written meanwhile, and not by their number.
#[derive(Clone, Debug, Default)]
pub(super) struct WrittenFiles {
    state: Arc<Mutex<WriteState>>,
}

#[derive(Debug, Default)]
struct WriteState {
    next: u64,
    /// Number of marks held of each time.
    marks: BTreeMap<u64, usize>,
    /// With the digest of the bytes; none for a deleted file.
    written: HashMap<PathBuf, VecDeque<(u64, Option<Digest>)>>,
}

/// A point in the sequence of writes. Later writes are remembered until it is dropped.
#[derive(Debug)]
pub struct WriteMark {
    number: u64,
    files: WrittenFiles,
}

/// Writes since a mark.
#[derive(Debug)]
pub struct WrittenSince(HashMap<PathBuf, Vec<Option<Digest>>>);

impl WrittenFiles {
    /// Records that a file has these exact bytes, or was deleted.
    pub(super) fn add(&self, path: &Path, digest: Option<Digest>) {
        let mut state = self.state();
        let number = state.next;
        state.next += 1;
        if state.marks.is_empty() {
            return;
        }
        let writes = state.written.entry(path.to_owned()).or_default();
        writes.push_back((number, digest));
        if writes.len() > MAX_WRITES_PER_FILE {
            writes.pop_front();
        }
    }

    pub(super) fn mark(&self) -> WriteMark {
        let mut state = self.state();
        let number = state.next;
        *state.marks.entry(number).or_default() += 1;
        WriteMark { number, files: self.clone() }
    }

    pub(super) fn since(&self, mark: &WriteMark) -> WrittenSince {
        let since = |writes: &VecDeque<(u64, Option<Digest>)>| -> Vec<Option<Digest>> {
            writes.iter().filter(|(number, _)| *number >= mark.number).map(|(_, digest)| *digest).collect()
        };
        let state = self.state();
        let files = state.written.iter().map(|(path, writes)| (path.clone(), since(writes)));
        WrittenSince(files.filter(|(_, digests)| !digests.is_empty()).collect())
    }

    fn state(&self) -> MutexGuard<'_, WriteState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for WriteMark {
    fn drop(&mut self) {
        let mut state = self.files.state();
        if let Some(held) = state.marks.get_mut(&self.number) {
            *held -= 1;
            if *held == 0 {
                state.marks.remove(&self.number);
            }
        }
        let Some(oldest) = state.marks.keys().next().copied() else {
            state.written.clear();
            return;
        };
        state.written.retain(|_, writes| {
            writes.retain(|(number, _)| *number >= oldest);
            !writes.is_empty()
        });
    }
}

impl WrittenSince {
    /// Returns whether a write left a file with these bytes, or deleted it.
    pub fn left(&self, path: &Path, digest: Option<Digest>) -> bool {
        self.0.get(path).is_some_and(|digests| digests.contains(&digest))
    }

    /// Returns the digest of the bytes that the last write of a file left, or none within for one that was deleted; none
    /// where nobody wrote it.
    pub fn last(&self, path: &Path) -> Option<Option<Digest>> {
        self.0.get(path)?.last().copied()
    }

    /// Returns whether something was written below a directory.
    pub fn is_below(&self, directory: &Path) -> bool {
        self.0.keys().any(|path| path.starts_with(directory))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_since_a_mark_are_identified_by_their_bytes() {
        let written = WrittenFiles::default();
        let (one, two) = (Digest::of("one"), Digest::of("two"));
        written.add(Path::new("/w/early"), Some(one));
        let mark = written.mark();
        written.add(Path::new("/w/src/a"), Some(one));
        written.add(Path::new("/w/src/a"), Some(two));
        written.add(Path::new("/w/gone"), None);
        let since = written.since(&mark);
        assert!(!since.left(Path::new("/w/early"), Some(one)));
        assert!(since.left(Path::new("/w/src/a"), Some(one)) && since.left(Path::new("/w/src/a"), Some(two)));
        assert_eq!(since.last(Path::new("/w/src/a")), Some(Some(two)));
        assert_eq!((since.last(Path::new("/w/gone")), since.last(Path::new("/w/early"))), (Some(None), None));
        assert!(!since.left(Path::new("/w/src/a"), None) && since.left(Path::new("/w/gone"), None));
        assert!(since.is_below(Path::new("/w/src")) && !since.is_below(Path::new("/w/docs")));
    }

    #[test]
    fn writes_are_remembered_while_a_mark_before_them_is_held() {
        let written = WrittenFiles::default();
        let (long, short) = (written.mark(), written.mark());
        written.add(Path::new("/w/early"), None);
        drop(short);
        for number in 0..10_000 {
            written.add(&PathBuf::from(format!("/w/{number}")), None);
            written.add(Path::new("/w/often"), Some(Digest::of(format!("{number}"))));
        }
        let since = written.since(&long);
        assert!(since.left(Path::new("/w/early"), None) && since.left(Path::new("/w/0"), None));
        assert!(since.left(Path::new("/w/often"), Some(Digest::of("9999"))));
        assert!(!since.left(Path::new("/w/often"), Some(Digest::of("0"))));
        let later = written.mark();
        written.add(Path::new("/w/late"), None);
        drop(long);
        let since = written.since(&later);
        assert!(since.left(Path::new("/w/late"), None) && !since.left(Path::new("/w/early"), None));
        assert_eq!(written.state().written.len(), 1);
        drop(later);
        written.add(Path::new("/w/late"), None);
        assert!(written.state().written.is_empty());
    }
}
