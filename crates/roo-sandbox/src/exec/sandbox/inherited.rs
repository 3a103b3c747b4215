//! Properties that a helper inherited and the shell must not.

use std::fs;
use std::io;
use std::os::fd::{BorrowedFd, FromRawFd as _, OwnedFd};

use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};

/// Keeps every descriptor beyond the standard streams from the programs that this one starts: a directory
/// that an editor or a shell left open would be a way around all that a command is confined to. To be called
/// while there is one thread.
pub(super) fn keep_from_children() -> io::Result<()> {
    // The listing's own descriptor is in it, so it stays open until the end.
    let mut listing = fs::read_dir("/proc/self/fd")?;
    let numbers: Vec<i32> =
        listing.by_ref().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    for number in numbers.into_iter().filter(|number| *number > 2) {
        #[expect(
            unsafe_code,
            reason = "there is no other way to name a descriptor that somebody else opened"
        )]
        // SAFETY: it was open when it was listed, and nothing but this thread could have closed it.
        let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
        if let Ok(flags) = fcntl_getfd(descriptor) {
            fcntl_setfd(descriptor, flags | FdFlags::CLOEXEC)?;
        }
    }
    drop(listing);
    Ok(())
}

/// A descriptor that the helper which started this one left open for it, by its number. To be called once.
pub(super) fn take(number: i32) -> Option<OwnedFd> {
    #[expect(unsafe_code, reason = "there is no other way to name a descriptor that another program opened")]
    // SAFETY: beyond the standard streams, what is open at the start belongs to nothing in this process.
    let descriptor = (number > 2).then(|| unsafe { BorrowedFd::borrow_raw(number) })?;
    fcntl_getfd(descriptor).ok()?;
    #[expect(unsafe_code, reason = "as above")]
    // SAFETY: it is open, and nothing else in this process owns it.
    Some(unsafe { OwnedFd::from_raw_fd(number) })
}
