//! Reading: what a file holds, as exact bytes and as text.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::path::Path;

use cap_fs_ext::{FollowSymlinks, OpenOptionsFollowExt as _};
use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt as _};

use super::encoding::{self, Decoded, TextEncoding};
use super::image::ImageType;
use super::resolver::Resolved;
use roo_protocol::ids::Digest;

/// The largest file that is shown, in bytes.
pub(super) const READ_LIMIT: u64 = 64 << 20;

/// The largest file that is edited, in bytes.
pub const EDIT_LIMIT: u64 = 20 << 20;

/// Reasons why a file can't be read. The texts are for the model.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It doesn't exist.
    #[error("{path} does not exist.")]
    NotFound {
        /// The file.
        path: String,
    },
    /// A directory, device, pipe, socket or link.
    #[error("{path} is not a regular file, so it can't be read.")]
    NotAFile {
        /// Requested path.
        path: String,
    },
    /// Larger than the limit.
    #[error("{path} has {size} bytes, and at most {limit} are read: use a command for parts of it.")]
    TooLarge {
        /// The file.
        path: String,
        /// In bytes.
        size: u64,
        /// In bytes.
        limit: u64,
    },
    /// `.rooignore` hides it.
    #[error("{path} is ignored. {reason}")]
    Ignored {
        /// The file.
        path: String,
        /// The rule, and what to do.
        reason: String,
    },
    /// No text; only when it is to be edited.
    #[error(
        "{path} is a binary file, or text that can't be decoded without loss. It can't be edited: a save would damage it."
    )]
    NotText {
        /// The file.
        path: String,
    },
    /// The system returned an error.
    #[error("{path} can't be read: {source}")]
    Io {
        /// The file.
        path: String,
        /// Reason.
        source: io::Error,
    },
}

/// Content of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contents {
    /// Text, perhaps with replacement characters.
    Text(FileText),
    /// Anything else.
    Binary {
        /// All of it.
        bytes: Vec<u8>,
        /// Of the bytes.
        digest: Digest,
    },
}

/// The text of a file or of the buffer over it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileText {
    /// The whole text, without a byte order mark.
    pub text: String,
    /// Of the exact bytes on disk, byte order mark included; of the UTF-8 of a buffer.
    pub digest: Digest,
    /// Its encoding, which writes keep.
    pub encoding: TextEncoding,
    /// True if bytes that could not be decoded were replaced. Such a file can't be edited.
    pub lossy: bool,
}

impl Contents {
    /// Classifies the bytes of a file. An image is no text, even where a small one could be decoded.
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        let digest = Digest::of(&bytes);
        if ImageType::of_bytes(&bytes).is_some() {
            return Self::Binary { bytes, digest };
        }
        match encoding::decode(bytes) {
            Ok(Decoded { text, encoding, lossy }) => Self::Text(FileText { text, digest, encoding, lossy }),
            Err(bytes) => Self::Binary { bytes, digest },
        }
    }

    /// Reads a file on disk, whatever an editor has.
    pub fn of_file(file: &Resolved, limit: u64) -> Result<Self, ReadError> {
        read_disk(file, limit).map(Self::from_bytes)
    }

    /// The digest of the whole file.
    pub fn digest(&self) -> Digest {
        match self {
            Self::Text(text) => text.digest,
            Self::Binary { digest, .. } => *digest,
        }
    }
}

/// Reads a whole file from disk, without waiting for pipes and devices.
pub fn read_disk(file: &Resolved, limit: u64) -> Result<Vec<u8>, ReadError> {
    let read = || {
        let (directory, name) = file.parent()?;
        read_entry(&directory, name, limit)
    };
    read().map_err(|error| error.on(file, limit))
}

/// Reads at most the first `limit` bytes of a file from disk, without waiting for pipes and devices.
pub fn read_beginning(file: &Resolved, limit: u64) -> Result<Vec<u8>, ReadError> {
    let read = || {
        let (directory, name) = file.parent()?;
        let (file, _) = open_entry(&directory, name)?;
        let mut bytes = Vec::new();
        file.take(limit).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    read().map_err(|error: EntryError| error.on(file, limit))
}

/// Returns whether a text differs from what the disk holds at an editor's path; none where that is not known: the disk holds no
/// text, or in an encoding that an editor may guess otherwise.
pub(super) fn differs(path: &Path, text: &str) -> Option<bool> {
    match path.metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Some(!text.is_empty()),
        Ok(found) if found.is_file() && found.len() <= EDIT_LIMIT => {
            match Contents::from_bytes(std::fs::read(path).ok()?) {
                Contents::Text(disk) if disk.lossy => None,
                Contents::Text(disk) if disk.text == text => Some(false),
                Contents::Text(disk) => disk.encoding.is_utf8().then_some(true),
                Contents::Binary { .. } => None,
            }
        }
        _ => None,
    }
}

/// The digest of a file's text, without its byte order mark.
pub(super) fn digest_of_text(path: &Path) -> Option<Digest> {
    match path.metadata() {
        Ok(found) if found.is_file() && found.len() <= EDIT_LIMIT => {
            match Contents::from_bytes(std::fs::read(path).ok()?) {
                Contents::Text(text) => Some(Digest::of(&text.text)),
                Contents::Binary { .. } => None,
            }
        }
        _ => None,
    }
}

/// Reasons why an entry of a directory can't be read.
#[derive(Debug)]
pub(super) enum EntryError {
    NotAFile,
    TooLarge { size: u64 },
    Io(io::Error),
}

impl EntryError {
    pub(super) fn on(self, file: &Resolved, limit: u64) -> ReadError {
        let path = file.display();
        match self {
            Self::NotAFile => ReadError::NotAFile { path },
            Self::TooLarge { size } => ReadError::TooLarge { path, size, limit },
            Self::Io(error) if error.kind() == io::ErrorKind::NotFound => ReadError::NotFound { path },
            Self::Io(error) if error.kind() == io::ErrorKind::IsADirectory => ReadError::NotAFile { path },
            Self::Io(source) => ReadError::Io { path, source },
        }
    }
}

impl From<io::Error> for EntryError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Reads a regular file of a directory.
pub(super) fn read_entry(directory: &Dir, name: &str, limit: u64) -> Result<Vec<u8>, EntryError> {
    let (file, found) = open_entry(directory, name)?;
    read_opened(file, found.len(), limit)
}

/// Reads the whole of an opened file that had `size` bytes, as long as it has at most `limit`.
pub(super) fn read_opened(file: impl Read, size: u64, limit: u64) -> Result<Vec<u8>, EntryError> {
    if size > limit {
        return Err(EntryError::TooLarge { size });
    }
    // Capacity for one more byte, so that finding the end needs no larger buffer.
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or_default().saturating_add(1));
    // One byte more, to notice a file that grows.
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    match bytes.len() as u64 {
        size if size > limit => Err(EntryError::TooLarge { size }),
        _ => Ok(bytes),
    }
}

/// Opens a regular file of a directory, no link followed, and says what the system knows of it.
pub(super) fn open_entry(directory: &Dir, name: &str) -> Result<(File, Metadata), EntryError> {
    // Opening has an effect on some devices, so the type is checked before as well as after.
    if !directory.symlink_metadata(name)?.is_file() {
        return Err(EntryError::NotAFile);
    }
    let mut options = OpenOptions::new();
    options.read(true).follow(FollowSymlinks::No);
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    options.custom_flags(flags.bits().cast_signed());
    let file = directory.open_with(name, &options)?.into_std();
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(EntryError::NotAFile);
    }
    Ok((file, found))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::resolver::{Purpose, Roots};

    fn text(bytes: &[u8]) -> FileText {
        match Contents::from_bytes(bytes.to_vec()) {
            Contents::Text(text) => text,
            Contents::Binary { .. } => panic!("binary"),
        }
    }

    #[test]
    fn the_byte_order_mark_is_kept_aside_and_counts_in_the_digest() {
        let bytes = "\u{feff}a\r\nb\r\n".as_bytes();
        let read = text(bytes);
        assert_eq!(read.text, "a\r\nb\r\n");
        assert_eq!(read.encoding.encode(&read.text).unwrap(), bytes);
        assert_eq!(read.digest, Digest::of(bytes));
    }

    #[test]
    fn binary_content_is_recognised() {
        assert_eq!(text(b"caf\xe9").text, "café");
        assert_eq!(text("café".as_bytes()).text, "café");
        assert!(matches!(Contents::from_bytes(b"\x89PNG\0".to_vec()), Contents::Binary { .. }));
    }

    #[test]
    fn pipes_sockets_and_large_files_are_refused_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let roots = Roots::open(&[directory.path().to_path_buf()]).unwrap();
        let resolve = |name| roots.resolve(name, Purpose::Read).unwrap();
        let (pipe, socket, large) = (resolve("pipe"), resolve("socket"), resolve("large"));
        rustix::fs::mknodat(
            rustix::fs::CWD,
            directory.path().join("pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        let _listener = UnixListener::bind(directory.path().join("socket")).unwrap();
        fs::write(directory.path().join("large"), [b'x'; 11]).unwrap();
        assert!(matches!(read_disk(&pipe, 10), Err(ReadError::NotAFile { .. })));
        assert!(matches!(read_disk(&socket, 10), Err(ReadError::NotAFile { .. })));
        assert!(matches!(read_disk(&large, 10), Err(ReadError::TooLarge { size: 11, limit: 10, .. })));
        assert_eq!(read_disk(&large, 11).unwrap().len(), 11);
        assert!(matches!(read_disk(&resolve("missing"), 10), Err(ReadError::NotFound { .. })));
    }
}
