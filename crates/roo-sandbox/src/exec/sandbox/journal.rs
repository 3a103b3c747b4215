//! Observations of a supervisor about a command: a file of lines that it writes while the command runs and the server
//! reads when the command has ended.
//!
//! What changed is for [`crate::changes`] to find. Where the supervisor carried out every call itself, what it did not put
//! down was changed by somebody else ([`Journal::has_left_alone`]).

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, openat};
use serde::{Deserialize, Serialize};

use super::helper_protocol::{JsonPath, path_bytes};

/// The file's name in the directory of a capture.
const NAME: &str = "journal";

/// The file with the contents, one after another: to make a file for each would take far longer.
const CONTENTS: &str = "contents";

/// The longest journal that is read, in bytes. A command that writes more is compared without the rest.
const MAX_JOURNAL_BYTES: u64 = 64 << 20;

/// State of a file before a command first wrote, replaced, moved or removed it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BeforeImage {
    /// Absolute path when the command began.
    #[serde(with = "path_bytes")]
    pub path: PathBuf,
    /// As `st_mode` has it, with the kind.
    pub mode: u32,
    /// In bytes.
    pub size: u64,
    /// Seconds and nanoseconds.
    pub modified: (i64, i64),
    /// Time of the last change of its inode: seconds and nanoseconds.
    pub changed: (i64, i64),
    /// Its number.
    pub inode: u64,
    /// The number of its device.
    pub device: u64,
    /// Offset and length of its content among those of the capture, in bytes; none where it was not kept.
    pub content: Option<(u64, u64)>,
    /// Target of a symbolic link, as written.
    pub target: Option<Vec<u8>>,
    /// True if only its permissions were about to change.
    pub keeps_content: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum JournalLine {
    Before(Box<BeforeImage>),
    /// A directory was to be moved, with all that is in it.
    MovedDirectory {
        from: JsonPath,
        to: JsonPath,
        device: u64,
        inode: u64,
    },
    /// From here on the supervisor carries out the calls that it puts down: all that change something below the `roots`
    /// and not below `except`, and all that change what steers a git directory below the `repositories`.
    CarriesOut {
        roots: Vec<JsonPath>,
        except: Vec<JsonPath>,
        repositories: Vec<JsonPath>,
    },
    /// The kernel was left to carry out a call that may have been another one by then.
    LeftToKernel,
    /// The file at a path changes, or everything below it if `all`.
    Touched {
        path: JsonPath,
        all: bool,
        /// Device and number of a file with several names, which changes at each of them.
        file: Option<(u64, u64)>,
    },
    /// A call that would have changed a path which the sandbox does not let the command write.
    Refused {
        path: JsonPath,
    },
    /// A socket that the command named by an absolute path and was not connected to.
    RefusedSocket {
        path: JsonPath,
    },
}

/// Writes a journal and what belongs to it.
pub(super) struct Writer {
    journal: File,
    contents: File,
    end: u64,
}

impl Writer {
    /// Begins a journal in a private, empty directory.
    pub(super) fn new(directory: OwnedFd) -> io::Result<Self> {
        Ok(Self { journal: create(&directory, NAME)?, contents: create(&directory, CONTENTS)?, end: 0 })
    }

    pub(super) fn add(&mut self, line: &JournalLine) -> io::Result<()> {
        let mut json = serde_json::to_vec(line)?;
        json.push(b'\n');
        self.journal.write_all(&json)
    }

    /// Copies a content of at most so many bytes. Gives where it is.
    pub(super) fn copy(&mut self, from: &File, most: u64) -> io::Result<(u64, u64)> {
        let length = io::copy(&mut from.take(most), &mut self.contents)?;
        let begin = self.end;
        self.end += length;
        Ok((begin, length))
    }
}

fn create(directory: &impl AsFd, name: &str) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    Ok(openat(directory, name, flags, Mode::RUSR | Mode::WUSR)?.into())
}

/// A directory that a command moved, or failed to move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovedDirectory {
    /// Path when the command began.
    pub from: PathBuf,
    /// Current path, if the file there is this one.
    pub to: PathBuf,
    /// The numbers of its device and of itself on it.
    pub identity: (u64, u64),
}

/// Result of a journal.
#[derive(Debug, Default)]
pub struct Journal {
    contents: Option<File>,
    /// By path, in the order of the first change to each.
    pub images: Vec<BeforeImage>,
    /// The directories that were to be moved, in order.
    pub moved_directories: Vec<MovedDirectory>,
    /// Paths that the command tried to change and may not write, each once.
    pub refused: Vec<PathBuf>,
    /// Sockets to which the command tried and failed to connect, each once, as it named them.
    pub refused_sockets: Vec<PathBuf>,
    /// Paths that the command touched, and whether with all below them.
    touched: HashMap<PathBuf, bool>,
    /// Files with several names that it touched.
    touched_files: HashSet<(u64, u64)>,
    /// Directories below which the supervisor has put down everything that it carried out.
    roots: Vec<PathBuf>,
    /// Directories that are not recorded.
    except: Vec<PathBuf>,
    /// Directories below which it has put down what steers git directories.
    repositories: Vec<PathBuf>,
    /// True if the supervisor carried out calls at all.
    is_carried_out: bool,
    /// True if it left some to the kernel, or if not all of the journal can be read.
    is_broken: bool,
}

/// A journal that is read while it grows.
#[derive(Debug)]
pub struct JournalReader {
    directory: PathBuf,
    /// Bytes that have been read.
    position: u64,
    is_broken: bool,
}

impl JournalReader {
    /// Nothing is read yet of the journal in the directory of a capture.
    pub fn new(directory: PathBuf) -> Self {
        Self { directory, position: 0, is_broken: false }
    }

    /// Reads what has come up since; nothing where there is no journal.
    ///
    /// # Errors
    /// When it is there and can't be read.
    pub fn read_on(&mut self) -> io::Result<Journal> {
        let mut journal = Journal { is_broken: self.is_broken, ..Journal::default() };
        let mut file = match File::open(self.directory.join(NAME)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(journal),
            Err(error) => return Err(error),
        };
        if self.is_broken || file.metadata()?.len() <= self.position {
            return Ok(journal);
        }
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(self.position))?;
        file.take((MAX_JOURNAL_BYTES + 1).saturating_sub(self.position)).read_to_end(&mut bytes)?;
        journal.is_broken |= self.position + bytes.len() as u64 > MAX_JOURNAL_BYTES;
        // A supervisor that was killed may leave half a line at the end, and has not carried out that call.
        for line in bytes.split_inclusive(|&byte| byte == b'\n').filter(|line| line.ends_with(b"\n")) {
            self.position += line.len() as u64;
            match serde_json::from_slice(line) {
                Ok(line) => journal.add(line),
                Err(_) => {
                    journal.is_broken = true;
                    break;
                }
            }
        }
        self.is_broken = journal.is_broken;
        Ok(journal)
    }
}

impl Journal {
    /// Reads the journal in the directory of a capture; an empty one where nothing was captured.
    ///
    /// # Errors
    /// When it is there and can't be read.
    pub fn read(directory: &Path) -> io::Result<Self> {
        let contents = match File::open(directory.join(CONTENTS)) {
            Ok(contents) => Some(contents),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        Ok(Self { contents, ..JournalReader::new(directory.to_owned()).read_on()? })
    }

    fn add(&mut self, line: JournalLine) {
        match line {
            JournalLine::Before(image) => self.images.push(*image),
            JournalLine::MovedDirectory { from, to, device, inode } => self
                .moved_directories
                .push(MovedDirectory { from: from.0, to: to.0, identity: (device, inode) }),
            JournalLine::Refused { path } => self.refused.push(path.0),
            JournalLine::RefusedSocket { path } => self.refused_sockets.push(path.0),
            JournalLine::Touched { path, all, file } => {
                *self.touched.entry(path.0).or_default() |= all;
                self.touched_files.extend(file);
            }
            JournalLine::CarriesOut { roots, except, repositories } => {
                let paths = |places: Vec<JsonPath>| places.into_iter().map(|place| place.0).collect();
                self.roots = paths(roots);
                self.except = paths(except);
                self.repositories = paths(repositories);
                self.is_carried_out = true;
            }
            JournalLine::LeftToKernel => self.is_broken = true,
        }
    }

    /// Adds what was touched by a later part of the same journal, and how complete it is.
    pub fn add_touched(&mut self, later: Self) {
        for (path, all) in later.touched {
            *self.touched.entry(path).or_default() |= all;
        }
        self.touched_files.extend(later.touched_files);
        if later.is_carried_out {
            (self.roots, self.except) = (later.roots, later.except);
            (self.repositories, self.is_carried_out) = (later.repositories, true);
        }
        self.is_broken |= later.is_broken;
    }

    /// Returns whether everything that the command touched at a place is known.
    pub(crate) fn is_complete_at(&self, path: &Path) -> bool {
        self.is_complete()
            && self.roots.iter().any(|root| path.starts_with(root))
            && !self.except.iter().any(|except| path.starts_with(except))
    }

    /// Returns whether it is certain that the command did not change what is at a place: neither by its path, nor with
    /// a directory above it, nor, where it is a file with these numbers of its device and of itself, by another name.
    pub(crate) fn has_left_alone(&self, path: &Path, file: Option<(u64, u64)>) -> bool {
        let is_touched = self.touched.contains_key(path)
            || self.has_touched_around(path)
            || file.is_some_and(|file| self.has_touched_file(file));
        !is_touched && self.is_complete_at(path)
    }

    /// Returns whether it is certain that the command changed nothing at a place in a git directory or below it. The place is
    /// one of what steers git, and not of its history.
    pub fn has_left_git_alone(&self, place: &Path) -> bool {
        let is_put_down = self.repositories.iter().any(|git| place.starts_with(git));
        self.is_complete() && is_put_down && !self.has_touched_below(place) && !self.has_touched_around(place)
    }

    /// Returns whether the command touched a directory above a path with all that is in it.
    fn has_touched_around(&self, path: &Path) -> bool {
        path.ancestors().skip(1).any(|above| self.touched.get(above) == Some(&true))
    }

    /// Returns whether the command touched a file with several names, by the numbers of its device and of itself.
    pub(crate) fn has_touched_file(&self, file: (u64, u64)) -> bool {
        self.touched_files.contains(&file)
    }

    /// Returns whether the command touched something below a directory.
    pub fn has_touched_below(&self, directory: &Path) -> bool {
        self.touched.keys().any(|path| path.starts_with(directory))
    }

    /// The paths that the command touched, and whether with all below them.
    pub fn touched(&self) -> impl Iterator<Item = (&Path, bool)> {
        self.touched.iter().map(|(path, all)| (path.as_path(), *all))
    }

    /// Returns whether the supervisor has put down all that the command did of what it was to put down.
    pub fn is_complete(&self) -> bool {
        self.is_carried_out && !self.is_broken
    }

    /// Returns whether the supervisor carried out the command's calls, but for those that it left to the kernel.
    pub fn is_carried_out(&self) -> bool {
        self.is_carried_out
    }

    /// The content of a file as it was, where it was kept.
    pub fn content(&self, image: &BeforeImage) -> Option<Vec<u8>> {
        let (begin, length) = image.content?;
        let mut bytes = vec![0; usize::try_from(length).ok()?];
        self.contents.as_ref()?.read_exact_at(&mut bytes, begin).ok()?;
        Some(bytes)
    }
}

impl BeforeImage {
    pub(super) fn from_stat(path: PathBuf, found: &rustix::fs::Stat) -> Self {
        // The fields have other types on other processors.
        #[allow(clippy::unnecessary_cast, reason = "not on all processors")]
        Self {
            path,
            mode: found.st_mode as u32,
            size: found.st_size.unsigned_abs() as u64,
            modified: (found.st_mtime as i64, found.st_mtime_nsec as i64),
            changed: (found.st_ctime as i64, found.st_ctime_nsec as i64),
            inode: found.st_ino as u64,
            device: found.st_dev as u64,
            content: None,
            target: None,
            keeps_content: false,
        }
    }
}

/// A path of bytes.
pub(super) fn path_of(bytes: Vec<u8>) -> PathBuf {
    OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_is_read_up_to_the_line_that_was_cut_off() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(Journal::read(directory.path()).unwrap().images, []);
        std::fs::write(directory.path().join("a"), "old text").unwrap();
        let found = rustix::fs::stat(directory.path().join("a")).unwrap();
        let handle = rustix::fs::open(directory.path(), OFlags::RDONLY, Mode::empty()).unwrap();
        let mut writer = Writer::new(handle).unwrap();
        let mut image = BeforeImage::from_stat("/w/\u{e9}".into(), &found);
        for _ in 0..2 {
            let file = File::open(directory.path().join("a")).unwrap();
            image.content = Some(writer.copy(&file, 100).unwrap());
        }
        assert_eq!(image.content, Some((8, 8)));
        writer.add(&JournalLine::Before(Box::new(image.clone()))).unwrap();
        let (from, to) = (PathBuf::from("/w/d"), PathBuf::from("/w/e"));
        let line = JournalLine::MovedDirectory {
            from: JsonPath(from.clone()),
            to: JsonPath(to.clone()),
            device: 1,
            inode: 2,
        };
        writer.add(&line).unwrap();
        writer.add(&JournalLine::Refused { path: JsonPath(path_of(b"/x\xff".to_vec())) }).unwrap();
        writer.journal.write_all(b"{\"refused\":{\"pa").unwrap();
        let journal = Journal::read(directory.path()).unwrap();
        assert_eq!(journal.images, [image.clone()]);
        assert_eq!(journal.content(&image).unwrap(), b"old text");
        assert_eq!(journal.moved_directories, [MovedDirectory { from, to, identity: (1, 2) }]);
        assert_eq!(journal.refused, [path_of(b"/x\xff".to_vec())]);
    }

    #[test]
    fn a_journal_that_grows_is_read_once() {
        let directory = tempfile::tempdir().unwrap();
        let mut reader = JournalReader::new(directory.path().to_owned());
        assert!(!reader.read_on().unwrap().is_complete());
        let handle = rustix::fs::open(directory.path(), OFlags::RDONLY, Mode::empty()).unwrap();
        let mut writer = Writer::new(handle).unwrap();
        let places = |name: &str| vec![JsonPath(name.into())];
        let begun = JournalLine::CarriesOut {
            roots: places("/w"),
            except: places("/w/.git"),
            repositories: places("/w/.git"),
        };
        writer.add(&begun).unwrap();
        let touched =
            |name: &str| JournalLine::Touched { path: JsonPath(name.into()), all: false, file: None };
        writer.add(&touched("/w/a")).unwrap();
        let mut line = serde_json::to_vec(&touched("/w/.git/worktrees/b/HEAD")).unwrap();
        line.push(b'\n');
        let (begin, end) = line.split_at(20);
        writer.journal.write_all(begin).unwrap();
        let paths =
            |journal: &Journal| journal.touched().map(|(path, _)| path.to_owned()).collect::<Vec<_>>();
        let mut journal = reader.read_on().unwrap();
        assert_eq!((paths(&journal), journal.is_complete()), (vec!["/w/a".into()], true));
        assert!(journal.has_left_git_alone(Path::new("/w/.git/worktrees/b")));
        writer.journal.write_all(end).unwrap();
        let later = reader.read_on().unwrap();
        assert_eq!(paths(&later), [PathBuf::from("/w/.git/worktrees/b/HEAD")]);
        journal.add_touched(later);
        assert!(!journal.has_left_git_alone(Path::new("/w/.git/worktrees/b")));
        writer.add(&JournalLine::LeftToKernel).unwrap();
        journal.add_touched(reader.read_on().unwrap());
        journal.add_touched(reader.read_on().unwrap());
        assert!(!journal.is_complete() && !journal.has_left_alone(Path::new("/w/b"), None));
    }
}
