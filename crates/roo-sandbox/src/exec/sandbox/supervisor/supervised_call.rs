//! A call that is looked at, with its arguments as its caller meant them.

use std::sync::Arc;

use nix::libc;
use rustix::fs::Mode;
use rustix::io::Errno;

use crate::exec::sandbox::caller::{Caller, GivenPath, Unresolved};
use crate::exec::sandbox::notifications::{Listener, Notification};

/// The largest value of an extended attribute that the kernel takes, in bytes.
const MAX_ATTRIBUTE_BYTES: usize = 64 << 10;

/// A call that is looked at.
pub(super) struct SupervisedCall<'a> {
    pub(super) listener: &'a Arc<Listener>,
    pub(super) notification: &'a Notification,
    pub(super) caller: Caller,
}

impl SupervisedCall<'_> {
    pub(super) fn argument(&self, number: usize) -> u64 {
        self.notification.arguments.get(number).copied().unwrap_or_default()
    }

    /// The registers hold integers of the C language in their lower half.
    #[allow(clippy::cast_possible_truncation, reason = "what is cut off is no part of the argument")]
    pub(super) fn integer(&self, number: usize) -> i32 {
        self.argument(number) as i32
    }

    pub(super) fn mode(&self, number: usize) -> Mode {
        Mode::from_raw_mode(self.integer(number).cast_unsigned() & 0o7777)
    }

    pub(super) fn text(&self, number: usize) -> Result<Vec<u8>, Unresolved> {
        self.caller.text(self.argument(number))
    }

    /// A path from the working directory.
    pub(super) fn here(&self, number: usize) -> Result<GivenPath, Unresolved> {
        Ok(GivenPath::new(libc::AT_FDCWD, self.text(number)?))
    }

    /// A path from a directory that is named too.
    pub(super) fn at(&self, directory: usize, number: usize) -> Result<GivenPath, Unresolved> {
        Ok(GivenPath::new(self.integer(directory), self.text(number)?))
    }

    /// The value of an extended attribute.
    pub(super) fn attribute_value(&self) -> Result<Vec<u8>, Unresolved> {
        let length = usize::try_from(self.argument(3)).map_err(|_| Errno::TOOBIG)?;
        if length > MAX_ATTRIBUTE_BYTES {
            return Err(Errno::TOOBIG.into());
        }
        if length == 0 {
            return Ok(vec![]);
        }
        let value = self.caller.memory(self.argument(2), length)?;
        if value.len() == length { Ok(value) } else { Err(Errno::FAULT.into()) }
    }

    /// Checks that what was read of the caller is its own, and not of another process that got its number.
    pub(super) fn check(&self) -> Result<(), Unresolved> {
        let is_waiting = self.listener.is_waiting(self.notification);
        if is_waiting { Ok(()) } else { Err(Errno::INTR.into()) }
    }
}
