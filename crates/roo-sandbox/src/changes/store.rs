//! Contents that can be brought back: files named by their digest in a private directory.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use uuid::Uuid;

use super::Keep;
use super::files::{open_file, read_at_most, remove_tree};
use super::record::{Fingerprint, is_fresh};
use roo_durable::disk::RealDisk;
use roo_durable::replace_unsynced;
use roo_protocol::ids::Digest;

/// Number of fingerprints remembered; after that it starts over.
const MAX_DIGESTS: usize = 1 << 20;

/// Time for which withheld writes of a command are kept for the user.
const KEPT_FOR: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// After this long nobody writes a content any more whose name is not its own yet.
const ABANDONED: Duration = Duration::from_secs(24 * 60 * 60);

/// Directory of files kept for the user.
const MOVED: &str = "moved";

/// The largest file that is copied when it can't be moved, in bytes.
const MAX_COPY_BYTES: u64 = 64 << 20;

/// A file in a store that is removed with this.
#[derive(Debug)]
pub struct PrivateFile(PathBuf);

impl PrivateFile {
    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for PrivateFile {
    fn drop(&mut self) {
        // What is left is removed when it is old.
        let _ = fs::remove_file(&self.0);
    }
}

/// Limits of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest file, in bytes.
    pub file: u64,
    /// All of them, in bytes. Older ones go first, and none that a [`super::Recording`] needs.
    pub total: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { file: 1 << 20, total: 2 << 30 }
    }
}

/// A directory with contents. What has been read once is known by its fingerprint and is not read
/// again.
pub struct Store {
    directory: PathBuf,
    limits: Limits,
    index: Mutex<ContentIndex>,
}

#[derive(Default)]
struct ContentIndex {
    digests: HashMap<Fingerprint, Digest>,
    /// Contents of the directory, with size and time of last use.
    kept: HashMap<Digest, (u64, u64)>,
    total: u64,
    generations: Vec<Weak<Generation>>,
    next: u64,
}

/// A point in time: what was kept then stays as long as this lives.
#[derive(Debug)]
pub(super) struct Generation(u64);

impl Store {
    /// Opens a directory, which is made for the user alone. It must be outside of every root.
    ///
    /// # Errors
    /// When it can't be made or read.
    pub fn open(directory: impl Into<PathBuf>, limits: Limits) -> io::Result<Self> {
        let directory = directory.into();
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory.join(MOVED))?;
        let mut index = ContentIndex { next: 1, ..ContentIndex::default() };
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            let name = entry.file_name();
            match name.to_str().and_then(Digest::parse) {
                Some(digest) => {
                    // It may be gone already if another server has made room.
                    if let Ok(found) = entry.metadata() {
                        index.total += found.len();
                        index.kept.insert(digest, (found.len(), 0));
                    }
                }
                None if name == MOVED => {}
                // Others may be writing here; what is old was left by a server that was killed meanwhile. One that
                // another server removes first is as gone, and one that nobody can remove harms nobody.
                None if is_older(&entry, ABANDONED) => {
                    let _ = fs::remove_file(entry.path());
                }
                None => {}
            }
        }
        Ok(Self { directory, limits, index: Mutex::new(index) })
    }

    /// Removes what has been kept for the user in a store's directory for longer than 30 days.
    ///
    /// # Errors
    /// When something can't be removed; the rest is.
    pub fn forget_old(directory: &Path, now: SystemTime) -> io::Result<()> {
        let mut failed = Ok(());
        for entry in fs::read_dir(directory.join(MOVED))? {
            let entry = entry?;
            if moved_at(&entry.file_name()).is_some_and(|at| at + KEPT_FOR < now)
                && let Err(error) = remove_tree(&entry.path())
            {
                failed = Err(error);
            }
        }
        failed
    }

    /// Returns the directory in which a store keeps files for the user.
    pub fn moved_in(directory: &Path) -> PathBuf {
        directory.join(MOVED)
    }

    fn index(&self) -> MutexGuard<'_, ContentIndex> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the path of a content.
    pub fn path(&self, digest: Digest) -> PathBuf {
        self.directory.join(digest.hex())
    }

    /// The content with a digest, if it is kept and what it should be.
    pub fn content(&self, digest: Digest) -> Option<Vec<u8>> {
        let bytes = fs::read(self.path(digest)).ok()?;
        (Digest::of(&bytes) == digest).then_some(bytes)
    }

    /// A place for something that is moved out of a root, named by when and what it was.
    pub(super) fn place_for(&self, path: &Path) -> PathBuf {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let short: String = name.chars().take(64).collect();
        self.directory.join(MOVED).join(format!("{}-{short}", Uuid::now_v7()))
    }

    /// Moves something out of the way, to where the user can look at it. Gives where it is; none where it could not be
    /// kept, and is gone.
    ///
    /// # Errors
    /// When it can be neither moved nor removed.
    pub fn quarantine(&self, path: &Path) -> io::Result<Option<PathBuf>> {
        let place = self.place_for(path);
        match fs::rename(path, &place) {
            Ok(()) => return Ok(Some(place)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(_) => {}
        }
        // On another file system.
        let is_small =
            path.symlink_metadata().is_ok_and(|found| found.is_file() && found.len() <= MAX_COPY_BYTES);
        let kept = is_small && fs::copy(path, &place).is_ok();
        remove_tree(path)?;
        Ok(kept.then_some(place))
    }

    /// A private file with a content, removed with what is given.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn private_file(&self, content: &[u8]) -> io::Result<PrivateFile> {
        let path = self.directory.join(format!("{}.new", Uuid::new_v4()));
        let file = PrivateFile(path);
        File::options().write(true).create_new(true).mode(0o600).open(&file.0)?.write_all(content)?;
        Ok(file)
    }

    pub(super) fn begin(&self) -> Arc<Generation> {
        let mut index = self.index();
        index.next += 1;
        let generation = Arc::new(Generation(index.next));
        index.generations.retain(|generation| generation.strong_count() > 0);
        index.generations.push(Arc::downgrade(&generation));
        generation
    }

    /// The digest of a file as it is in a directory, kept with its content if that is wanted and within
    /// the limits. None when it is not wanted, too large, or was changed meanwhile.
    pub(super) fn digest_of(
        &self,
        directory: &OwnedFd,
        name: &[u8],
        print: Fingerprint,
        keep: Keep,
        generation: &Arc<Generation>,
    ) -> Option<Digest> {
        if keep == Keep::Nothing || print.size > self.limits.file {
            return None;
        }
        {
            let mut index = self.index();
            if let Some(digest) = index.digests.get(&print).copied()
                && self.is_kept(&mut index, digest, generation)
            {
                return Some(digest);
            }
        }
        let (file, opened) = open_file(directory, name).ok()?;
        if opened != print {
            return None;
        }
        let bytes = read_at_most(file, self.limits.file).ok()??;
        let digest = Digest::of(&bytes);
        if keep == Keep::Content {
            // Without its content the digest still tells a change.
            let _ = self.keep(digest, &bytes, generation);
        }
        if !is_fresh(print.changed) {
            let digests = &mut self.index().digests;
            if digests.len() >= MAX_DIGESTS {
                digests.clear();
            }
            digests.insert(print, digest);
        }
        Some(digest)
    }

    /// Returns whether a content is kept, and keeps it for a generation. What an earlier process has left is looked at
    /// once: it may have lost power.
    fn is_kept(&self, index: &mut ContentIndex, digest: Digest, generation: &Arc<Generation>) -> bool {
        let Some((size, used)) = index.kept.get_mut(&digest) else { return false };
        if *used > 0 || self.content(digest).is_some() {
            *used = generation.0;
            return true;
        }
        index.total -= *size;
        index.kept.remove(&digest);
        false
    }

    fn keep(&self, digest: Digest, bytes: &[u8], generation: &Arc<Generation>) -> io::Result<()> {
        let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let mut index = self.index();
        if self.is_kept(&mut index, digest, generation) {
            return Ok(());
        }
        self.make_room(&mut index, size)?;
        let pending = self.directory.join(format!("{}.new", Uuid::new_v4()));
        // Its digest tells later whether a loss of power has left all of it.
        replace_unsynced(&RealDisk, &pending, &self.path(digest), bytes)?;
        index.kept.insert(digest, (size, generation.0));
        index.total += size;
        Ok(())
    }

    /// Removes what nobody has needed for longest.
    fn make_room(&self, index: &mut ContentIndex, size: u64) -> io::Result<()> {
        if index.total + size <= self.limits.total {
            return Ok(());
        }
        let living = index.generations.iter().filter_map(Weak::upgrade).map(|living| living.0).min();
        let oldest = living.unwrap_or(u64::MAX);
        let mut unneeded: Vec<(u64, Digest, u64)> = index
            .kept
            .iter()
            .filter(|(_, (_, used))| *used < oldest)
            .map(|(digest, (size, used))| (*used, *digest, *size))
            .collect();
        unneeded.sort_by_key(|(used, _, _)| *used);
        for (_, digest, freed) in unneeded {
            if index.total + size <= self.limits.total {
                break;
            }
            fs::remove_file(self.path(digest))?;
            index.kept.remove(&digest);
            index.total -= freed;
        }
        if index.total + size <= self.limits.total { Ok(()) } else { Err(io::ErrorKind::StorageFull.into()) }
    }
}

fn is_older(entry: &fs::DirEntry, age: Duration) -> bool {
    let written = entry.metadata().and_then(|found| found.modified());
    written.is_ok_and(|at| at.elapsed().is_ok_and(|passed| passed > age))
}

/// Returns the time at which something was moved here, by its name.
fn moved_at(name: &OsStr) -> Option<SystemTime> {
    let id = Uuid::parse_str(name.to_str()?.get(..36)?).ok()?;
    let (seconds, nanoseconds) = id.get_timestamp()?.to_unix();
    Some(SystemTime::UNIX_EPOCH + Duration::new(seconds, nanoseconds))
}
