//! Copy of the trace in a workspace: copies in `.orchestration/`, made from the original and never read back. A
//! checkout of another commit may take them away or bring old ones; the original does not notice.
//!
//! Nothing is written by way of a link: a workspace can't lead the server's pen elsewhere.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::chain;
use roo_protocol::ids::Digest;
use roo_text::render::exact_line;

/// The directory in the workspace.
pub const DIRECTORY: &str = ".orchestration";
/// The copy of the records.
pub const TRACE_FILE: &str = "agent_trace.jsonl";
/// File name of the map of intents.
pub const MAP_FILE: &str = "intent_map.md";
/// Number of files of one chain set aside.
const MOST_ASIDE: usize = 100;
/// Lines longer than this are no records.
const LONGEST_LINE: u64 = 8 << 20;

/// Reasons why a workspace has no copy. The original is complete all the same.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ProjectionError {
    /// Something that is no directory or no file is in its place, such as a link.
    #[error("{} is not a regular {expected} (it may be a symlink), so the trace is not copied there: remove it", path.display())]
    Foreign {
        /// Path of the unexpected file.
        path: PathBuf,
        /// Expected kind of file.
        expected: &'static str,
    },
    /// A file operation failed.
    #[error("can't {doing} {}: {source}; the trace itself is complete", path.display())]
    Io {
        /// Attempted operation.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// Reason why it failed.
        source: Arc<io::Error>,
    },
}

/// Which file the copy was when it was last written, by what a file system can't be talked out of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Projected {
    /// The number of its first record.
    pub(super) first: u64,
    /// The number of its last record. None in what older versions wrote.
    #[serde(default)]
    pub(super) last: Option<u64>,
    length: u64,
    device: u64,
    inode: u64,
    changed: i64,
    changed_nanos: i64,
}

impl Projected {
    fn from_file(file: &File, first: u64, last: u64) -> io::Result<Self> {
        let found = file.metadata()?;
        Ok(Self {
            first,
            last: Some(last),
            length: found.len(),
            device: found.dev(),
            inode: found.ino(),
            changed: found.ctime(),
            changed_nanos: found.ctime_nsec(),
        })
    }
}

/// The directory in a workspace where copies go.
pub(super) struct Projection {
    root: PathBuf,
    /// The longest copy, in bytes.
    limit: u64,
}

/// Records that are to be in the copy.
pub(super) struct Lines<'a> {
    /// Their lines.
    pub(super) bytes: &'a [u8],
    /// The number of the record before them.
    pub(super) after: u64,
    /// The number of the last one.
    pub(super) last: u64,
}

/// The newest records, for a copy that begins anew.
pub(super) struct Newest {
    /// The number of the first one.
    pub(super) first: u64,
    /// Their lines.
    pub(super) lines: Vec<u8>,
}

impl Projection {
    pub(super) fn new(root: PathBuf, limit: u64) -> Self {
        Self { root, limit }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.join(DIRECTORY).join(name)
    }

    fn io<'a>(&'a self, doing: &'static str, name: &'a str) -> impl Fn(io::Error) -> ProjectionError + 'a {
        move |source| ProjectionError::Io { doing, path: self.path(name), source: Arc::new(source) }
    }

    /// The directory itself, made if it is missing.
    fn directory(&self) -> Result<File, ProjectionError> {
        let failed = self.io("open", "");
        let root = rustix::fs::openat(CWD, &self.root, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|error| failed(error.into()))?;
        match rustix::fs::mkdirat(&root, DIRECTORY, Mode::from_bits_truncate(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(self.io("create", "")(error.into())),
        }
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(&root, DIRECTORY, flags, Mode::empty()) {
            Ok(directory) => Ok(File::from(directory)),
            Err(Errno::LOOP | Errno::NOTDIR) => {
                Err(ProjectionError::Foreign { path: self.path(""), expected: "directory" })
            }
            Err(error) => Err(failed(error.into())),
        }
    }

    /// A file of the directory. None when it is not there.
    fn open(&self, directory: &File, name: &str, flags: OFlags) -> Result<Option<File>, ProjectionError> {
        let foreign = || ProjectionError::Foreign { path: self.path(name), expected: "file" };
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = match rustix::fs::openat(directory, name, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP | Errno::ISDIR | Errno::NXIO) => return Err(foreign()),
            Err(error) => return Err(self.io("open", name)(error.into())),
        };
        let found = file.metadata().map_err(self.io("look at", name))?;
        if found.is_file() && found.nlink() == 1 { Ok(Some(file)) } else { Err(foreign()) }
    }

    /// Replaces a file at once: readers see the old one or the new one.
    fn replace(&self, directory: &File, name: &str, bytes: &[u8]) -> Result<File, ProjectionError> {
        let failed = self.io("write", name);
        let temporary = format!(".{name}.{}.new", std::process::id());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // What a process of the same number has left behind.
        let _ = rustix::fs::unlinkat(directory, &temporary, AtFlags::empty());
        let mode = Mode::from_bits_truncate(0o644);
        let file =
            rustix::fs::openat(directory, &temporary, flags, mode).map_err(|error| failed(error.into()))?;
        let mut file = File::from(file);
        let written = file.write_all(bytes);
        // A directory in the place of the file is no file of ours.
        let in_place =
            written.and_then(|()| Ok(rustix::fs::renameat(directory, &temporary, directory, name)?));
        match in_place {
            Ok(()) => Ok(file),
            Err(error) => {
                // What failed is told; the leftover is not worth a second message.
                let _ = rustix::fs::unlinkat(directory, &temporary, AtFlags::empty());
                Err(failed(error))
            }
        }
    }

    /// Adds lines to the copy. Where it is not what was written last, lacks records, as after a crash or a full
    /// disk, or is too long, it begins anew with the newest records, as many as half of its limit holds.
    pub(super) fn append(
        &self,
        known: Option<Projected>,
        lines: &Lines<'_>,
        chain: &str,
        newest: impl FnOnce(u64) -> io::Result<Newest>,
    ) -> Result<Projected, ProjectionError> {
        let directory = self.directory()?;
        let found = self.open(&directory, TRACE_FILE, OFlags::RDWR | OFlags::APPEND)?;
        let failed = self.io("write", TRACE_FILE);
        if let (Some(known), Some(file)) = (known, &found) {
            let same = Projected::from_file(file, known.first, lines.after).map_err(&failed)? == known;
            if same && known.length + lines.bytes.len() as u64 <= self.limit {
                let mut file = file;
                if let Err(error) = file.write_all(lines.bytes) {
                    // Half a line must not stay; if it does, the copy begins anew the next time.
                    let _ = file.set_len(known.length);
                    return Err(failed(error));
                }
                return Projected::from_file(file, known.first, lines.last).map_err(&failed);
            }
        }
        if let Some(file) = found {
            self.set_aside(&directory, &file, chain)?;
        }
        let newest = newest(self.limit / 2).map_err(&failed)?;
        let file = self.replace(&directory, TRACE_FILE, &newest.lines)?;
        Projected::from_file(&file, newest.first, lines.last).map_err(&failed)
    }

    /// Returns whether the copy is the one that was written last, and nobody has changed it since.
    pub(super) fn is_current(&self, known: Option<Projected>) -> bool {
        let found = known.zip(self.open_present(TRACE_FILE));
        found.is_some_and(|(known, file)| {
            let now =
                Projected::from_file(&file, known.first, 0).map(|now| Projected { last: known.last, ..now });
            now.is_ok_and(|now| now == known)
        })
    }

    /// Returns whether the map of intents holds a text of this digest.
    pub(super) fn has_map(&self, digest: Digest) -> bool {
        self.open_present(MAP_FILE).is_some_and(|mut file| {
            let mut text = Vec::new();
            file.read_to_end(&mut text).is_ok() && Digest::of(text) == digest
        })
    }

    /// A file of the directory, to be read; none where it isn't there as it should be. Makes nothing.
    fn open_present(&self, name: &str) -> Option<File> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = rustix::fs::openat(CWD, self.root.join(DIRECTORY), flags, Mode::empty()).ok()?;
        self.open(&File::from(directory), name, OFlags::RDONLY).ok().flatten()
    }

    /// Removes what replacements of killed processes left behind. Under the lock of the trace nobody else replaces
    /// anything.
    pub(super) fn sweep(&self) {
        // Nothing depends on it, and a workspace may have no such directory.
        let Ok(entries) = std::fs::read_dir(self.path("")) else { return };
        for entry in entries.flatten() {
            if entry.file_name().to_str().is_some_and(is_temporary) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }

    /// Moves a file away in which other programs or other people's servers have written: their records are
    /// not ours to replace.
    fn set_aside(&self, directory: &File, file: &File, chain: &str) -> Result<(), ProjectionError> {
        let failed = self.io("read", TRACE_FILE);
        let mut reader = BufReader::new(file);
        let mut line = Vec::new();
        loop {
            line.clear();
            let length = reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line).map_err(&failed)?;
            if length == 0 {
                return Ok(());
            }
            let line = line.trim_ascii();
            let found = chain::chain_of(line);
            let others = match &found {
                Some(found) => found != chain,
                // A record of another program, and no damaged one of ours.
                None => super::record::Record::read(line).is_ok_and(|record| record.own().is_none()),
            };
            if others {
                // Whoever wrote the file chose the name of its chain.
                let short = found.as_deref().and_then(|chain| chain.get(..8));
                let short = short.filter(|short| short.bytes().all(|byte| byte.is_ascii_hexdigit()));
                let short = short.map_or_else(|| Digest::of(line).hex()[..8].to_owned(), str::to_owned);
                return self.move_aside(directory, file, &short);
            }
        }
    }

    /// Gives a file of others a name of its own, which no other file has. Where what has it is the beginning of
    /// this file, as one that was set aside before, nothing is lost by taking its place.
    fn move_aside(&self, directory: &File, file: &File, short: &str) -> Result<(), ProjectionError> {
        let failed = |error: Errno| self.io("set aside", TRACE_FILE)(error.into());
        let names = (1..=MOST_ASIDE).map(|number| match number {
            1 => format!("agent_trace.{short}.jsonl"),
            number => format!("agent_trace.{short}-{number}.jsonl"),
        });
        for name in names {
            match rustix::fs::renameat_with(directory, TRACE_FILE, directory, &name, RenameFlags::NOREPLACE) {
                Ok(()) => {}
                Err(Errno::EXIST) => match self.open(directory, &name, OFlags::RDONLY) {
                    Ok(Some(there)) if begins(file, &there).unwrap_or(false) => {
                        rustix::fs::renameat(directory, TRACE_FILE, directory, &name).map_err(failed)?;
                    }
                    _ => continue,
                },
                Err(error) => return Err(failed(error)),
            }
            let path = exact_line(&self.path(&name).to_string_lossy());
            tracing::warn!(
                "the copy of the trace in this workspace held another trace's records, for example a colleague's; they were moved to {path}, and the copy starts over"
            );
            return Ok(());
        }
        Err(failed(Errno::EXIST))
    }

    /// Writes the map of intents.
    pub(super) fn write_map(&self, text: &str) -> Result<(), ProjectionError> {
        let directory = self.directory()?;
        if let Some(mut file) = self.open(&directory, MAP_FILE, OFlags::RDONLY)? {
            let mut old = String::new();
            if file.read_to_string(&mut old).is_ok() && old == text {
                return Ok(());
            }
        }
        self.replace(&directory, MAP_FILE, text.as_bytes()).map(drop)
    }
}

/// Returns whether a file begins with all that another one holds.
fn begins(file: &File, with: &File) -> io::Result<bool> {
    let length = with.metadata()?.len();
    if length > file.metadata()?.len() {
        return Ok(false);
    }
    let mut file = file;
    file.rewind()?;
    let (mut file, mut with) = (BufReader::new(file), BufReader::new(with.take(length)));
    loop {
        let (one, other) = (file.fill_buf()?, with.fill_buf()?);
        let both = one.len().min(other.len());
        if both == 0 {
            return Ok(other.is_empty());
        }
        if one[..both] != other[..both] {
            return Ok(false);
        }
        file.consume(both);
        with.consume(both);
    }
}

/// Makes the directory for the copies in a workspace folder, if there is none.
///
/// # Errors
/// Why there is none.
pub fn make_directory(folder: &Path) -> Result<(), ProjectionError> {
    Projection::new(folder.to_owned(), 0).directory().map(drop)
}

/// Returns whether a name is that of a file which is about to replace another one of the directory.
pub fn is_temporary(name: &str) -> bool {
    [TRACE_FILE, MAP_FILE].iter().any(|file| {
        let rest = name.strip_prefix('.').and_then(|name| name.strip_prefix(file));
        rest.and_then(|rest| rest.strip_prefix('.')?.strip_suffix(".new"))
            .is_some_and(|number| number.bytes().all(|digit| digit.is_ascii_digit()))
    })
}

/// Returns whether a name is one that a copy gets which holds records of others.
pub fn is_set_aside(name: &str) -> bool {
    let middle = name.strip_prefix("agent_trace.").and_then(|rest| rest.strip_suffix(".jsonl"));
    middle.is_some_and(|middle| {
        let (chain, number) = middle.split_once('-').unwrap_or((middle, "2"));
        let is_chain = chain.len() == 8 && chain.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_chain && !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit())
    })
}

/// The copy of a workspace, to be read.
pub(super) fn path_of(root: &Path) -> PathBuf {
    root.join(DIRECTORY).join(TRACE_FILE)
}
