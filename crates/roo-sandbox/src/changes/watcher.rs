//! The kernel's notifications of what happens in directories: inotify(7) on Linux, nothing elsewhere.

use std::io;
use std::os::fd::OwnedFd;

/// Something that the kernel told.
#[derive(Debug)]
pub(super) enum Event<'a> {
    /// Something happened to a name in a watched directory.
    Name {
        /// The directory's watch.
        watch: i32,
        name: &'a [u8],
        /// True if the name came up or went away, perhaps both.
        came_or_went: bool,
        /// True if the content may be another one.
        content: bool,
    },
    /// A directory is gone, or no longer watched.
    Ended { watch: i32 },
    /// More happened than the kernel could keep.
    Lost,
}

#[cfg(target_os = "linux")]
pub(super) use linux::Watcher;

#[cfg(target_os = "linux")]
mod linux {
    use std::mem::MaybeUninit;
    use std::os::fd::AsRawFd as _;

    use rustix::fs::inotify::{CreateFlags, ReadFlags, Reader, WatchFlags, add_watch, init, remove_watch};
    use rustix::io::Errno;

    use super::{Event, OwnedFd, io};

    /// Watched events of each directory. A mapping of a file into memory tells of no write; that the file was open for
    /// writing is told when the last mapping has gone.
    const WATCHED: WatchFlags = WatchFlags::CREATE
        .union(WatchFlags::DELETE)
        .union(WatchFlags::MOVE)
        .union(WatchFlags::MODIFY)
        .union(WatchFlags::CLOSE_WRITE)
        .union(WatchFlags::ATTRIB)
        .union(WatchFlags::ONLYDIR);

    /// Watches directories. The kernel bounds how many a user may watch; the rest is for their editors.
    #[derive(Debug)]
    pub(in super::super) struct Watcher(OwnedFd);

    impl Watcher {
        pub(in super::super) fn new() -> io::Result<Self> {
            Ok(Self(init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?))
        }

        /// Watches a directory. Of the same directory the watch is the same.
        pub(in super::super) fn add(&mut self, directory: &OwnedFd) -> io::Result<i32> {
            // By handle: through no link, and whatever its path is by now.
            Ok(add_watch(&self.0, format!("/proc/self/fd/{}", directory.as_raw_fd()), WATCHED)?)
        }

        pub(in super::super) fn remove(&mut self, watch: i32) {
            // A directory that is gone is no longer watched.
            let _ = remove_watch(&self.0, watch);
        }

        /// Takes all that has been told up to now.
        pub(in super::super) fn drain(&mut self, mut tell: impl FnMut(Event<'_>)) -> io::Result<()> {
            let mut buffer = [MaybeUninit::uninit(); 64 << 10];
            let mut reader = Reader::new(&self.0, &mut buffer);
            loop {
                let event = match reader.next() {
                    Ok(event) => event,
                    Err(Errno::WOULDBLOCK) => return Ok(()),
                    Err(Errno::INTR) => continue,
                    Err(error) => return Err(error.into()),
                };
                let (flags, watch) = (event.events(), event.wd());
                if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
                    tell(Event::Lost);
                } else if flags.contains(ReadFlags::IGNORED) {
                    tell(Event::Ended { watch });
                } else if let Some(name) = event.file_name() {
                    let came_or_went = flags.intersects(
                        ReadFlags::CREATE | ReadFlags::DELETE | ReadFlags::MOVED_FROM | ReadFlags::MOVED_TO,
                    );
                    let content = flags.intersects(ReadFlags::MODIFY | ReadFlags::CLOSE_WRITE);
                    tell(Event::Name { watch, name: name.to_bytes(), came_or_went, content });
                }
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) use nothing::Watcher;

#[cfg(not(target_os = "linux"))]
mod nothing {
    use super::{Event, OwnedFd, io};

    /// Nothing is watched here: everything is walked.
    #[derive(Debug)]
    pub(in super::super) enum Watcher {}

    impl Watcher {
        pub(in super::super) fn new() -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub(in super::super) fn add(&mut self, _: &OwnedFd) -> io::Result<i32> {
            match *self {}
        }

        pub(in super::super) fn remove(&mut self, _: i32) {
            match *self {}
        }

        pub(in super::super) fn drain(&mut self, _: impl FnMut(Event<'_>)) -> io::Result<()> {
            match *self {}
        }
    }
}
