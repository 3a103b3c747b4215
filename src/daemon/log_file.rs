//! The daemon's log: a file of bounded size, with the one before it beside it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// The size at which a new file is begun, in bytes. Two are kept.
const LIMIT: u64 = 1024 * 1024;

/// A log that is being written.
pub(crate) struct LogFile {
    path: PathBuf,
    file: File,
    size: u64,
}

impl LogFile {
    /// Goes on with the file, or begins it.
    ///
    /// # Errors
    /// When it can't be opened.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
        let size = file.metadata()?.len();
        Ok(Self { path: path.to_owned(), file, size })
    }

    /// The whole log, oldest first. What isn't there is empty.
    ///
    /// # Errors
    /// When a file can't be read.
    pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
        let mut all = Vec::new();
        for path in [&before(path), path] {
            match fs::read(path) {
                Ok(mut bytes) => all.append(&mut bytes),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(all)
    }
}

impl Write for LogFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.size >= LIMIT {
            fs::rename(&self.path, before(&self.path))?;
            *self = Self::open(&self.path)?;
        }
        let written = self.file.write(bytes)?;
        self.size += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// The file before this one.
fn before(path: &Path) -> PathBuf {
    path.with_extension("old.log")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_does_not_grow_without_end() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.log");
        let mut log = LogFile::open(&path).unwrap();
        let line = [b'x'; 64 * 1024];
        for _ in 0..64 {
            log.write_all(&line).unwrap();
        }
        log.write_all(b"the end").unwrap();
        let whole = LogFile::read(&path).unwrap();
        assert!(whole.len() as u64 <= 2 * LIMIT + line.len() as u64, "{}", whole.len());
        assert!(whole.ends_with(b"the end"));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
    }
}
