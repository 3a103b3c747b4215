//! A file of the workspace that an approved command names: who changes it changes what runs, so its content counts for the
//! approval.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use roo_durable::Fingerprint;
use roo_protocol::ids::Digest;

/// The largest script whose text counts, in bytes. A command with a larger one can't be approved.
pub(super) const SCRIPT_LIMIT: u64 = 16 << 20;

/// A file of the workspace that a command may name.
pub(super) struct Script {
    /// Relative to the root.
    pub(super) path: PathBuf,
    seen: Option<Option<Fingerprint>>,
    pub(super) state: ScriptState,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ScriptState {
    /// No regular file is there.
    Missing,
    Known(Digest),
    /// It is there, and what it holds can't be known.
    Unreadable(String),
}

impl Script {
    /// A file of which nothing is known yet.
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, seen: None, state: ScriptState::Missing }
    }

    /// Reads it if it may have changed; whether it had.
    pub(super) fn refresh(&mut self, root: &Path) -> bool {
        let path = root.join(&self.path);
        let found = Fingerprint::from_file(&path);
        if self.seen == Some(found) {
            return false;
        }
        self.seen = found.is_none_or(|found| found.is_settled(SystemTime::now())).then_some(found);
        let state = match content(&path) {
            Ok(Some(digest)) => ScriptState::Known(digest),
            Ok(None) => ScriptState::Missing,
            Err(error) => ScriptState::Unreadable(error.to_string()),
        };
        let changed = self.state != state;
        self.state = state;
        changed
    }
}

/// Of a regular file's bytes; none when there is none. Waits for no pipe.
fn content(path: &Path) -> io::Result<Option<Digest>> {
    let nonblocking = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = match OpenOptions::new().read(true).custom_flags(nonblocking).open(path) {
        Ok(file) => file,
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    let found = File::metadata(&file)?;
    if !found.is_file() {
        return Ok(None);
    }
    if found.len() > SCRIPT_LIMIT {
        return Err(io::Error::other(format!("it has more than {SCRIPT_LIMIT} bytes")));
    }
    let mut bytes = Vec::new();
    file.take(SCRIPT_LIMIT + 1).read_to_end(&mut bytes)?;
    Ok(Some(Digest::of(bytes)))
}

fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::InvalidFilename
    )
}
