//! The kernel's notifications of names that change, for a helper (inotify(7)).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A queue of notifications that a helper fills and reads. Whoever closes it last waits for the kernel, some 20 milliseconds:
/// so this outlives the helper, whose end is waited for, and is closed by a thread of its own.
#[derive(Debug)]
pub(super) struct NameChanges(Option<OwnedFd>);

impl NameChanges {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self(Some(open()?)))
    }
}

impl AsFd for NameChanges {
    fn as_fd(&self) -> BorrowedFd<'_> {
        #[expect(clippy::expect_used, reason = "it is taken by nothing but `drop`")]
        self.0.as_ref().expect("it is open").as_fd()
    }
}

impl Drop for NameChanges {
    fn drop(&mut self) {
        let queue = self.0.take();
        // Where no thread can be started, it is closed here.
        let _ = std::thread::Builder::new().spawn(move || drop(queue));
    }
}

#[cfg(target_os = "linux")]
fn open() -> io::Result<OwnedFd> {
    use rustix::event::{EventfdFlags, eventfd};
    use rustix::fs::inotify::{CreateFlags, init};

    // The kernel bounds how many a user has; one in which nothing ever comes stands in.
    let queue = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK);
    Ok(queue.or_else(|_| eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK))?)
}

#[cfg(not(target_os = "linux"))]
fn open() -> io::Result<OwnedFd> {
    Err(io::ErrorKind::Unsupported.into())
}
