//! What was written to disk of late, by edits of tasks and by the editor at its user's word, so that it isn't
//! taken for what a command wrote meanwhile.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::protocol::ids::Digest;

/// The most writes that are remembered; a command during which there are more is told of the newest.
const MOST: usize = 4096;

/// The writes of late.
#[derive(Debug, Default)]
pub(super) struct WrittenFiles {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    /// With the digest of the bytes; none for a file that went.
    recent: VecDeque<(u64, PathBuf, Option<Digest>)>,
}

/// A point in time among the writes.
#[derive(Clone, Copy, Debug)]
pub struct Mark(u64);

/// What was written since a mark.
#[derive(Debug)]
pub struct WrittenSince(HashMap<PathBuf, Vec<Option<Digest>>>);

impl WrittenFiles {
    /// A file holds this now, by its exact bytes, or is gone.
    pub(super) fn add(&self, path: &Path, digest: Option<Digest>) {
        let mut state = self.state();
        let number = state.next;
        state.next += 1;
        state.recent.push_back((number, path.to_owned(), digest));
        if state.recent.len() > MOST {
            state.recent.pop_front();
        }
    }

    pub(super) fn mark(&self) -> Mark {
        Mark(self.state().next)
    }

    pub(super) fn since(&self, mark: Mark) -> WrittenSince {
        let mut files: HashMap<PathBuf, Vec<Option<Digest>>> = HashMap::new();
        for (_, path, digest) in self.state().recent.iter().filter(|(number, ..)| *number >= mark.0) {
            files.entry(path.clone()).or_default().push(*digest);
        }
        WrittenSince(files)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WrittenSince {
    /// Whether a file was left in this state: with these bytes, or gone.
    pub fn left(&self, path: &Path, digest: Option<Digest>) -> bool {
        self.0.get(path).is_some_and(|digests| digests.contains(&digest))
    }

    /// Whether something was written below a directory.
    pub fn is_below(&self, directory: &Path) -> bool {
        self.0.keys().any(|path| path.starts_with(directory))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_since_a_mark_is_known_by_its_bytes() {
        let written = WrittenFiles::default();
        let (one, two) = (Digest::of("one"), Digest::of("two"));
        written.add(Path::new("/w/early"), Some(one));
        let mark = written.mark();
        written.add(Path::new("/w/src/a"), Some(one));
        written.add(Path::new("/w/src/a"), Some(two));
        written.add(Path::new("/w/gone"), None);
        let since = written.since(mark);
        assert!(!since.left(Path::new("/w/early"), Some(one)));
        assert!(since.left(Path::new("/w/src/a"), Some(one)) && since.left(Path::new("/w/src/a"), Some(two)));
        assert!(!since.left(Path::new("/w/src/a"), None) && since.left(Path::new("/w/gone"), None));
        assert!(since.is_below(Path::new("/w/src")) && !since.is_below(Path::new("/w/docs")));
        for number in 0..MOST {
            written.add(&PathBuf::from(format!("/w/{number}")), None);
        }
        assert!(!written.since(mark).left(Path::new("/w/gone"), None));
    }
}
