//! Properties that a helper inherited and the shell must not.

use std::fs;
use std::io;
use std::os::fd::BorrowedFd;

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
