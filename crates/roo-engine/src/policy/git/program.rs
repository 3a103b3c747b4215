//! Git as the server starts it by itself.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use roo_sandbox::exec::{Environment, find_program};

/// Git in a directory, with what commands see of the environment.
///
/// # Errors
/// [`io::ErrorKind::NotFound`] where there is none outside of the workspace folders.
pub(super) fn git(directory: &Path, roots: &[PathBuf]) -> io::Result<Command> {
    let environment = Environment::inherited();
    let program = find_program(&environment, "git", roots).ok_or(io::ErrorKind::NotFound)?;
    let mut command = Command::new(program);
    command.current_dir(directory).env_clear().envs(environment.variables()).stdin(Stdio::null());
    // Objects are as they are named, and nothing is fetched to look at them.
    command.env("GIT_NO_REPLACE_OBJECTS", "1").env("GIT_NO_LAZY_FETCH", "1");
    Ok(command)
}
