//! The workspace's copy of the trace in `.orchestration/`, written from the original and never read back. A checkout of
//! another commit may remove it or bring an old one; the original is not affected.
//!
//! Nothing is written through a link, so a workspace can't redirect the server's writes.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, Dir, DirEntry, Mode, OFlags, RenameFlags};
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
/// Has programs that read no private exclude file of git, such as `npm pack`, leave out what is this machine's. Intents are
/// the project's.
pub const IGNORE_FILE: &str = ".gitignore";
/// The text of that file.
pub const IGNORE_RULES: &str = "# roo-lsp: files of this machine. What you write here instead stays.\n\
                                /.gitignore\n/agent_trace*.jsonl\n/intent_map.md\n/.*.new\n";
/// The most files of one chain that are set aside.
const MAX_SET_ASIDE: usize = 100;
/// The longest line of a record, in bytes.
const MAX_LINE_BYTES: u64 = 8 << 20;

/// A workspace's copy could not be written. The original is complete nevertheless.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ProjectionError {
    /// Something else, such as a link, is in the place of the directory or file.
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

/// Identity of the copy when it was last written, by metadata that programs can't forge.
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

/// The directory of a workspace's copies.
pub(super) struct Projection {
    root: PathBuf,
    /// The longest copy, in bytes.
    limit: u64,
}

/// Records to be appended to the copy.
pub(super) struct AppendedLines<'a> {
    /// Their lines.
    pub(super) bytes: &'a [u8],
    /// The number of the record before them.
    pub(super) after: u64,
    /// The number of the last one.
    pub(super) last: u64,
}

/// The newest records, for a copy that is rewritten.
pub(super) struct NewestLines {
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

    /// Opens the directory, which is created if it is missing.
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
            Ok(directory) => {
                let directory = File::from(directory);
                // The copy is complete without it.
                let _ = create_ignore_file(&directory, IGNORE_RULES);
                Ok(directory)
            }
            Err(Errno::LOOP | Errno::NOTDIR) => {
                Err(ProjectionError::Foreign { path: self.path(""), expected: "directory" })
            }
            Err(error) => Err(failed(error.into())),
        }
    }

    /// Opens a file of the directory. None when it doesn't exist.
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

    /// Replaces a file atomically.
    fn replace(&self, directory: &File, name: &str, bytes: &[u8]) -> Result<File, ProjectionError> {
        let failed = self.io("write", name);
        let temporary = format!(".{name}.{}.new", std::process::id());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // A process with the same id may have left it behind.
        let _ = rustix::fs::unlinkat(directory, &temporary, AtFlags::empty());
        let mode = Mode::from_bits_truncate(0o644);
        let file =
            rustix::fs::openat(directory, &temporary, flags, mode).map_err(|error| failed(error.into()))?;
        let mut file = File::from(file);
        let written = file.write_all(bytes);
        // A directory in the place of the file was not created by this program.
        let in_place =
            written.and_then(|()| Ok(rustix::fs::renameat(directory, &temporary, directory, name)?));
        match in_place {
            Ok(()) => Ok(file),
            Err(error) => {
                // The first error is returned; one about the temporary file is not needed.
                let _ = rustix::fs::unlinkat(directory, &temporary, AtFlags::empty());
                Err(failed(error))
            }
        }
    }

    /// Appends lines to the copy. If it was changed, lacks records, as after a crash or on a full disk, or is too long,
    /// it is rewritten with the newest records, up to half of its limit.
    pub(super) fn append(
        &self,
        known: Option<Projected>,
        lines: &AppendedLines<'_>,
        chain: &str,
        newest: impl FnOnce(u64) -> io::Result<NewestLines>,
    ) -> Result<Projected, ProjectionError> {
        let directory = self.directory()?;
        let found = self.open(&directory, TRACE_FILE, OFlags::RDWR | OFlags::APPEND)?;
        let failed = self.io("write", TRACE_FILE);
        if let (Some(known), Some(file)) = (known, &found) {
            let same = Projected::from_file(file, known.first, lines.after).map_err(&failed)? == known;
            if same && known.length + lines.bytes.len() as u64 <= self.limit {
                let mut file = file;
                if let Err(error) = file.write_all(lines.bytes) {
                    // A torn line has to go; if it stays, the next append rewrites the copy.
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

    /// Returns whether the copy is unchanged since it was written last.
    pub(super) fn is_current(&self, known: Option<Projected>) -> bool {
        let found = known.zip(self.open_present(TRACE_FILE));
        found.is_some_and(|(known, file)| {
            let now =
                Projected::from_file(&file, known.first, 0).map(|now| Projected { last: known.last, ..now });
            now.is_ok_and(|now| now == known)
        })
    }

    /// Returns whether the map of intents has a text with this digest.
    pub(super) fn has_map(&self, digest: Digest) -> bool {
        self.open_present(MAP_FILE).is_some_and(|mut file| {
            let mut text = Vec::new();
            file.read_to_end(&mut text).is_ok() && Digest::of(text) == digest
        })
    }

    /// Opens a file of the directory for reading; none if it is missing or not a regular file. Creates nothing.
    fn open_present(&self, name: &str) -> Option<File> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = rustix::fs::openat(CWD, self.root.join(DIRECTORY), flags, Mode::empty()).ok()?;
        self.open(&File::from(directory), name, OFlags::RDONLY).ok().flatten()
    }

    /// Removes temporary files of killed processes. Under the lock of the trace no other process has any.
    pub(super) fn sweep(&self) {
        // Nothing depends on this, and a workspace may have no such directory.
        let Ok(entries) = std::fs::read_dir(self.path("")) else { return };
        for entry in entries.flatten() {
            if entry.file_name().to_str().is_some_and(is_temporary) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }

    /// Moves away a file to which other programs or other users' servers have written, as their records must not be
    /// replaced.
    fn set_aside(&self, directory: &File, file: &File, chain: &str) -> Result<(), ProjectionError> {
        let failed = self.io("read", TRACE_FILE);
        let mut reader = BufReader::new(file);
        let mut line = Vec::new();
        loop {
            line.clear();
            let length =
                reader.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line).map_err(&failed)?;
            if length == 0 {
                return Ok(());
            }
            let line = line.trim_ascii();
            let found = chain::chain_of(line);
            let others = match &found {
                Some(found) => found != chain,
                // A record of another program, and not a damaged one of this program.
                None => super::record::Record::read(line).is_ok_and(|record| record.own().is_none()),
            };
            if others {
                // The name of its chain is untrusted.
                let short = found.as_deref().and_then(|chain| chain.get(..8));
                let short = short.filter(|short| short.bytes().all(|byte| byte.is_ascii_hexdigit()));
                let short = short.map_or_else(|| Digest::of(line).hex()[..8].to_owned(), str::to_owned);
                return self.move_aside(directory, file, &short);
            }
        }
    }

    /// Renames a file of others to an unused name. A file that was set aside before and is the beginning of this one
    /// may be replaced.
    fn move_aside(&self, directory: &File, file: &File, short: &str) -> Result<(), ProjectionError> {
        let failed = |error: Errno| self.io("set aside", TRACE_FILE)(error.into());
        let names = (1..=MAX_SET_ASIDE).map(|number| match number {
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

/// Creates the directory for the copies in a workspace folder if it is missing. An empty one gets a copy without records,
/// which git ignores: what cleans a work tree removes empty directories, and fails on one that commands can't write.
///
/// # Errors
/// When it can't be created.
pub fn make_directory(folder: &Path) -> Result<(), ProjectionError> {
    let projection = Projection::new(folder.to_owned(), 0);
    let directory = projection.directory()?;
    let failed = |doing| projection.io(doing, TRACE_FILE);
    let entries = Dir::read_from(&directory).map_err(|error| failed("look for")(error.into()))?;
    let is_content = |entry: &DirEntry| !matches!(entry.file_name().to_bytes(), b"." | b".." | b".gitignore");
    if entries.flatten().any(|entry| is_content(&entry)) {
        return Ok(());
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::openat(&directory, TRACE_FILE, flags, Mode::from_bits_truncate(0o644)) {
        // Another process has just made it.
        Ok(_) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(failed("create")(error.into())),
    }
}

/// Creates the file of git's rules in a directory. One that is there stays as it is.
///
/// # Errors
/// When it can't be written.
pub fn create_ignore_file(directory: &File, rules: &str) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::openat(directory, IGNORE_FILE, flags, Mode::from_bits_truncate(0o644)) {
        Ok(file) => File::from(file).write_all(rules.as_bytes()),
        Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Returns whether a name is that of a temporary file.
pub fn is_temporary(name: &str) -> bool {
    [TRACE_FILE, MAP_FILE].iter().any(|file| {
        let rest = name.strip_prefix('.').and_then(|name| name.strip_prefix(file));
        rest.and_then(|rest| rest.strip_prefix('.')?.strip_suffix(".new"))
            .is_some_and(|number| number.bytes().all(|digit| digit.is_ascii_digit()))
    })
}

/// Returns whether a name is that of a file that was set aside.
pub fn is_set_aside(name: &str) -> bool {
    let middle = name.strip_prefix("agent_trace.").and_then(|rest| rest.strip_suffix(".jsonl"));
    middle.is_some_and(|middle| {
        let (chain, number) = middle.split_once('-').unwrap_or((middle, "2"));
        let is_chain = chain.len() == 8 && chain.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_chain && !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit())
    })
}

/// Opens the copy of a workspace for reading.
pub(super) fn path_of(root: &Path) -> PathBuf {
    root.join(DIRECTORY).join(TRACE_FILE)
}
