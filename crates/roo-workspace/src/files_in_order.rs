//! Looking into all files below a directory on several threads, with what is found in the order of the walk.
//!
//! The walk itself is shared by the threads: to list a directory is a task like to look into some of its files. What is to
//! do and what is done is kept by its place in the order, and a thread takes the first that nobody has begun. So what
//! comes first is found first, and only little is known of what comes later.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::num::NonZero;
use std::ops::ControlFlow;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rustix::fs::{Mode, OFlags, openat};

use super::Workspace;
use super::directory_listing::{DirectoryWalk, FoundKind, Listed, ListedDirectory, Listing, WalkedDirectory};
use super::file::{EntryError, ReadError};
use super::ignore::Rules;
use super::links::several_names;
use super::read_access::ReadAccess;
use super::resolver::Resolved;

/// The most threads.
const THREADS: usize = 8;

/// Files that one thread looks into at once.
const BATCH: usize = 64;

/// Number of tasks that may be begun or done before an earlier one is done, which bounds what is kept of their findings.
const AHEAD: usize = 32;

/// The largest buffer that a thread keeps for the next file, in bytes.
const BUFFER: usize = 1 << 20;

/// What is done with each file.
pub trait FileVisitor: Sync {
    /// What a thread keeps between files.
    type Worker;
    /// What is found in a file.
    type Found: Send;

    /// Begins the work of a thread.
    fn worker(&self) -> Self::Worker;

    /// Returns whether to look into a file, by its path below the directory.
    fn is_wanted(&self, path: &str) -> bool;

    /// Looks into a file.
    fn visit(&self, worker: &mut Self::Worker, file: &mut VisitedFile<'_>) -> Option<Self::Found>;

    /// Returns whether to stop. It is asked before each file.
    fn is_cancelled(&self) -> bool;
}

/// A file that is looked into: a regular one when its directory was listed, whose own name is free to read.
pub struct VisitedFile<'a> {
    visit: &'a Visit<'a>,
    directory: BorrowedFd<'a>,
    path: &'a str,
    name: &'a str,
    buffer: &'a mut Vec<u8>,
}

impl VisitedFile<'_> {
    /// Below the directory that is walked, `/` between names.
    pub fn path(&self) -> &str {
        self.path
    }

    pub fn place(&self) -> Resolved {
        self.visit.top.below(self.path)
    }

    /// Reads the whole file from disk. None where another of its names is hidden or likely to hold a secret.
    ///
    /// # Errors
    /// When it isn't a regular file, is larger than `limit` bytes, or can't be read.
    pub fn read(&mut self, limit: u64) -> Result<Option<&[u8]>, ReadError> {
        match self.read_entry(limit) {
            Ok(length) => Ok(length.and_then(|length| self.buffer.get(..length))),
            Err(error) => Err(error.on(&self.place(), limit)),
        }
    }

    fn read_entry(&mut self, limit: u64) -> Result<Option<usize>, EntryError> {
        // What has taken the place of the file that was listed may be anything.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let opened = rustix::io::retry_on_intr(|| openat(self.directory, self.name, flags, Mode::empty()));
        let mut file = match opened {
            Err(rustix::io::Errno::LOOP | rustix::io::Errno::NXIO) => return Err(EntryError::NotAFile),
            opened => File::from(opened.map_err(io::Error::from)?),
        };
        let found = file.metadata()?;
        if !found.is_file() {
            return Err(EntryError::NotAFile);
        }
        if let Some(rules) = &self.visit.rules
            && let Some(linked) = several_names(&found)
            && self.visit.workspace.ignores.by_other_names(&self.place(), rules, &linked) != ReadAccess::Free
        {
            return Ok(None);
        }
        read_into(self.buffer, &mut file, found.len(), limit).map(Some)
    }
}

/// Reads a file that had `size` bytes into a buffer. Returns its length.
fn read_into(buffer: &mut Vec<u8>, file: &mut File, size: u64, limit: u64) -> Result<usize, EntryError> {
    if size > limit {
        return Err(EntryError::TooLarge { size });
    }
    // One byte more, to find the end without another look, or a file that grows.
    let wanted = usize::try_from(size).unwrap_or(usize::MAX).saturating_add(1);
    if buffer.len() < wanted {
        buffer.resize(wanted, 0);
    } else if buffer.len() > BUFFER && wanted <= BUFFER {
        *buffer = vec![0; wanted];
    }
    let mut length = 0;
    loop {
        if length == buffer.len() {
            buffer.resize(length.saturating_mul(2), 0);
        }
        match file.read(buffer.get_mut(length..).unwrap_or_default()) {
            Ok(0) => return Ok(length),
            Ok(read) => length += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
        if length as u64 > limit {
            return Err(EntryError::TooLarge { size: length as u64 });
        }
        // The system gave less than was asked for, and as much as there was.
        if length as u64 == size {
            return Ok(length);
        }
    }
}

impl Workspace {
    /// Looks into all files below a directory, as [`super::Walk`] finds them, that are free to read by their names. What
    /// is found is taken in the order of the walk, until `take` has enough.
    pub fn visit_files<V: FileVisitor>(
        &self,
        directory: &Resolved,
        leave_out: fn(&str) -> bool,
        visitor: &V,
        take: impl FnMut(V::Found) -> ControlFlow<()> + Send,
    ) {
        let rules = self.rules(directory);
        let walk = DirectoryWalk::new(directory, rules.clone(), leave_out);
        let first = Task::List(walk.top());
        let visit = Visit { workspace: self, top: directory, rules, walk };
        let search = OrderedSearch {
            visit: &visit,
            visitor,
            line: Mutex::new(Line { places: BTreeMap::from([(vec![], Place::Waiting(first))]), take }),
            changed: Condvar::new(),
            is_over: AtomicBool::new(false),
        };
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get).min(THREADS);
        std::thread::scope(|scope| {
            for _ in 1..threads {
                scope.spawn(|| search.work());
            }
            search.work();
        });
    }
}

/// The files that are looked into.
struct Visit<'a> {
    workspace: &'a Workspace,
    top: &'a Resolved,
    /// None outside of the workspace, where no rules hide anything.
    rules: Option<Arc<Rules>>,
    walk: DirectoryWalk,
}

/// Something for one thread to do.
enum Task {
    /// To list a directory, and to look into the files that are its first entries.
    List(WalkedDirectory),
    /// To look into files of a directory, by their names.
    Look(Arc<ListedDirectory>, Vec<String>),
}

/// A place in the order of the walk: numbers of entries from the top on.
type Position = Vec<u32>;

/// What is known of a place.
enum Place<F> {
    Waiting(Task),
    Begun,
    Done(Vec<F>),
}

/// All places that are not taken yet, and who takes them.
struct Line<F, T> {
    places: BTreeMap<Position, Place<F>>,
    take: T,
}

struct OrderedSearch<'a, V: FileVisitor, T> {
    visit: &'a Visit<'a>,
    visitor: &'a V,
    line: Mutex<Line<V::Found, T>>,
    /// Something became ready to be begun, or nothing more is needed.
    changed: Condvar,
    /// Set when nothing more is needed.
    is_over: AtomicBool,
}

/// Ends the work of all threads when one of them panics, as what it had begun is never done.
struct EndOnPanic<'a, V: FileVisitor, T>(&'a OrderedSearch<'a, V, T>);

impl<V: FileVisitor, T> Drop for EndOnPanic<'_, V, T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.end();
        }
    }
}

impl<V: FileVisitor, T: FnMut(V::Found) -> ControlFlow<()>> OrderedSearch<'_, V, T> {
    /// Does what is to do until there is nothing left.
    fn work(&self) {
        let _end = EndOnPanic(self);
        let mut worker = self.visitor.worker();
        let mut buffer = Vec::new();
        while let Some((position, task)) = self.next() {
            let mut found = Vec::new();
            let mut look = |directory: BorrowedFd<'_>, at: &ListedDirectory, names: &[String]| {
                for name in names {
                    if self.is_over() {
                        break;
                    }
                    let path = &at.path_of(name);
                    let mut file =
                        VisitedFile { visit: self.visit, directory, path, name, buffer: &mut buffer };
                    found.extend(self.visitor.visit(&mut worker, &mut file));
                }
            };
            // What can't be read is left out.
            match task {
                Task::List(directory) => {
                    if let Ok(listing) = self.visit.walk.list(&directory) {
                        let (handle, at, names) = self.add(&position, listing);
                        if let Ok(handle) = handle.fd() {
                            look(handle, &at, &names);
                        }
                    }
                }
                Task::Look(at, names) => {
                    if let Ok(handle) = self.visit.walk.open(at.path())
                        && let Ok(handle) = handle.fd()
                    {
                        look(handle, &at, &names);
                    }
                }
            }
            self.finish(position, found);
        }
    }

    /// The first that nobody has begun; none when there will be nothing more.
    fn next(&self) -> Option<(Position, Task)> {
        let mut line = self.line();
        loop {
            if self.is_over() || line.places.is_empty() {
                return None;
            }
            let mut places = line.places.iter_mut().take(AHEAD);
            let waiting = places.find(|(_, place)| matches!(place, Place::Waiting(_)));
            if let Some((position, place)) = waiting
                && let Place::Waiting(task) = std::mem::replace(place, Place::Begun)
            {
                return Some((position.clone(), task));
            }
            line = self.changed.wait(line).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Adds what is in a directory behind it. Returns the first files, which are looked into at once.
    fn add(
        &self,
        position: &Position,
        listing: Listing,
    ) -> (rustix::fs::Dir, Arc<ListedDirectory>, Vec<String>) {
        let Listing { directory, handle, entries } = listing;
        let directory = Arc::new(directory);
        let (mut first, mut tasks, mut names) = (None, Vec::new(), Vec::new());
        let mut end_batch = |tasks: &mut Vec<Task>, names: &mut Vec<String>| {
            let names = std::mem::take(names);
            if first.is_none() {
                first = Some(names);
            } else if !names.is_empty() {
                tasks.push(Task::Look(Arc::clone(&directory), names));
            }
        };
        for Listed { name, kind, access } in entries {
            match kind {
                FoundKind::Directory => {
                    end_batch(&mut tasks, &mut names);
                    tasks.push(Task::List(directory.below(&name)));
                }
                FoundKind::File
                    if access == ReadAccess::Free && self.visitor.is_wanted(&directory.path_of(&name)) =>
                {
                    names.push(name);
                    if names.len() == BATCH {
                        end_batch(&mut tasks, &mut names);
                    }
                }
                FoundKind::File | FoundKind::Other => {}
            }
        }
        end_batch(&mut tasks, &mut names);
        if !tasks.is_empty() {
            let mut line = self.line();
            for (number, task) in (0..).zip(tasks) {
                let position = position.iter().copied().chain([number]).collect();
                line.places.insert(position, Place::Waiting(task));
            }
            self.changed.notify_all();
        }
        (handle, directory, first.unwrap_or_default())
    }

    /// Takes what was found, as far as all before it is done.
    fn finish(&self, position: Position, found: Vec<V::Found>) {
        let mut line = self.line();
        let Line { places, take } = &mut *line;
        places.insert(position, Place::Done(found));
        while let Some(first) = places.first_entry()
            && matches!(first.get(), Place::Done(_))
        {
            let Place::Done(found) = first.remove() else { continue };
            // Of what was cut short, the beginning is not taken either.
            if self.is_over() {
                break;
            }
            if found.into_iter().any(|found| take(found).is_break()) {
                self.is_over.store(true, Ordering::Relaxed);
            }
        }
        self.changed.notify_all();
    }

    fn line(&self) -> MutexGuard<'_, Line<V::Found, T>> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed) || self.visitor.is_cancelled()
    }
}

impl<V: FileVisitor, T> OrderedSearch<'_, V, T> {
    /// Lets all threads end. It takes the lock, so that none is between its last look and its wait.
    fn end(&self) {
        let line = self.line.lock();
        self.is_over.store(true, Ordering::Relaxed);
        drop(line);
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests;
