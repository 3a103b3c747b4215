//! The file of this program, also when an update has replaced it since it was started.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// What Linux appends to the name of a program whose file was replaced or removed.
const REPLACED: &[u8] = b" (deleted)";

/// Returns a path by which this very program can be started again.
///
/// # Errors
/// When it isn't known.
pub fn own_program() -> io::Result<PathBuf> {
    let named = std::env::current_exe()?;
    // It leads to the file even where another one has taken its name, but is no name to show.
    let linked = Path::new("/proc/self/exe");
    let identity = |path: &Path| path.metadata().map(|found| (found.dev(), found.ino())).ok();
    let is_replaced = linked.exists() && identity(&named) != identity(linked);
    Ok(if is_replaced { linked.to_owned() } else { named })
}

/// Returns the file that has this program's name, for what finds it by name alone: a later version, where it was replaced.
///
/// # Errors
/// When there is none.
pub fn own_program_file() -> io::Result<PathBuf> {
    let named = std::env::current_exe()?;
    match named.exists() {
        true => named.canonicalize(),
        false => Path::new(before_replacement(named.as_os_str())).canonicalize(),
    }
}

/// The name that a program had before its file was replaced.
fn before_replacement(name: &OsStr) -> &OsStr {
    OsStr::from_bytes(name.as_bytes().strip_suffix(REPLACED).unwrap_or(name.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_was_replaced_is_found_by_its_name() {
        for name in ["/bin/roo-lsp", "/bin/roo-lsp (deleted)"] {
            assert_eq!(before_replacement(OsStr::new(name)), "/bin/roo-lsp");
        }
    }

    #[test]
    fn this_program_is_where_it_was_started_from() {
        let named = std::env::current_exe().unwrap();
        assert_eq!(own_program().unwrap(), named);
        assert_eq!(own_program_file().unwrap(), named.canonicalize().unwrap());
    }
}
