//! Opening files that another program may have replaced by a pipe or a device, without blocking on them.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;

/// Directory without regular files, whose files are opened as they are: `/dev/null`, `/dev/stdout`, and the result of
/// `<(…)` in a shell.
const DEVICES: &str = "/dev";

/// Opens a regular file for reading, links followed.
///
/// # Errors
/// Those of the system; [`io::ErrorKind::InvalidInput`] for anything but a regular file.
pub fn open_regular(path: &Path) -> io::Result<File> {
    open(path, OpenOptions::new().read(true))
}

/// Reads a regular file of at most `limit` bytes as text, links followed.
///
/// # Errors
/// Those of [`open_regular`]; [`io::ErrorKind::FileTooLarge`], and [`io::ErrorKind::InvalidData`] if it isn't UTF-8.
pub fn read_regular(path: &Path, limit: u64) -> io::Result<String> {
    read_text(open_regular(path)?, limit)
}

fn read_text(file: File, limit: u64) -> io::Result<String> {
    let mut text = String::new();
    file.take(limit.saturating_add(1)).read_to_string(&mut text)?;
    match text.len() as u64 > limit {
        true => Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it has more than {limit} bytes"))),
        false => Ok(text),
    }
}

/// Reads a file that the user names, as [`read_regular`] does; below `/dev` it may be anything of that length.
///
/// # Errors
/// Those of [`read_regular`].
pub fn read_named(path: &Path, limit: u64) -> io::Result<String> {
    match path.starts_with(DEVICES) {
        true => read_text(File::open(path)?, limit),
        false => read_regular(path, limit),
    }
}

/// Creates or truncates a regular file that the user names; below `/dev` it may be anything.
///
/// # Errors
/// Those of [`open_regular`].
pub fn create_named(path: &Path) -> io::Result<File> {
    if path.starts_with(DEVICES) {
        return File::create(path);
    }
    match open(path, OpenOptions::new().write(true)) {
        Ok(file) => file.set_len(0).map(|()| file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => File::create(path),
        Err(error) => Err(error),
    }
}

fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let check = |found: fs::Metadata| match found.is_file() {
        true => Ok(()),
        false if found.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")),
    };
    // Opening has an effect on some devices, so the type is checked before as well as after.
    check(fs::metadata(path)?)?;
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let file = options.custom_flags(flags).open(path)?;
    check(file.metadata()?)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn a_pipe_in_the_place_of_a_file_does_not_block() {
        let place = tempfile::tempdir().unwrap();
        let pipe = place.path().join("pipe");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        for found in [open_regular(&pipe), create_named(&pipe)] {
            assert_eq!(found.unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
        assert!(read_named(Path::new("/dev/null"), 1).unwrap().is_empty());
        assert_eq!(read_named(Path::new("/dev/zero"), 1).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        create_named(Path::new("/dev/null")).unwrap();
        assert_eq!(open_regular(place.path()).unwrap_err().kind(), io::ErrorKind::IsADirectory);
    }

    #[test]
    fn a_file_is_read_up_to_its_limit_and_written_from_its_beginning() {
        use std::io::Write as _;

        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("file");
        for text in ["a longer text", "short"] {
            create_named(&path).unwrap().write_all(text.as_bytes()).unwrap();
            assert_eq!(read_regular(&path, text.len() as u64).unwrap(), text);
        }
        assert_eq!(read_regular(&path, 4).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    }
}
