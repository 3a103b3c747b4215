//! The limit on open files: raised for this process, given back to the programs that it starts.
//!
//! Programs that use `select` or that close every descriptor up to the limit rely on a low one.

use std::io;
use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::process::Command;

/// The limit that this process was started with. The limit itself is the process's, and so is this.
static INHERITED: OnceLock<Rlimit> = OnceLock::new();

/// Raises the limit as far as the system allows. To be called once, before anything is started.
pub fn raise_limit() {
    let inherited = getrlimit(Resource::Nofile);
    if inherited.current == inherited.maximum || INHERITED.set(inherited).is_err() {
        return;
    }
    // A system that refuses leaves what there was, and work is divided by that.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: inherited.maximum, ..inherited });
}

/// The number of files that this process may have open.
pub fn limit() -> usize {
    let limit = getrlimit(Resource::Nofile).current;
    limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX)
}

/// The soft limit that this process was started with, if it was raised: what [`lower_limit`] takes in a program that this
/// one starts.
pub fn inherited_limit() -> Option<u64> {
    INHERITED.get()?.current
}

/// Gives this process a lower limit, if there is one.
///
/// # Errors
/// When the system refuses.
pub fn lower_limit(limit: Option<u64>) -> io::Result<()> {
    match limit {
        Some(limit) => {
            Ok(setrlimit(Resource::Nofile, Rlimit { current: Some(limit), ..getrlimit(Resource::Nofile) })?)
        }
        None => Ok(()),
    }
}

/// Lets a program start with the limit that this process was started with.
pub(crate) fn inherit_limit(command: &mut Command) {
    let Some(inherited) = INHERITED.get() else { return };
    let inherited = *inherited;
    let restore = move || setrlimit(Resource::Nofile, inherited).map_err(io::Error::from);
    #[expect(unsafe_code, reason = "between fork and exec it makes one system call and allocates nothing")]
    unsafe {
        command.pre_exec(restore);
    }
}
