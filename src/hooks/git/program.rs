//! Git and its kin as the server starts them by itself: never a program that lies in the workspace, whatever the search path.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::exec::Environment;

/// Git in a directory, with what commands see of the environment.
///
/// # Errors
/// [`io::ErrorKind::NotFound`] where there is none outside of the workspace folders.
pub(super) fn git(directory: &Path, roots: &[PathBuf]) -> io::Result<Command> {
    let environment = Environment::inherited();
    let program = find("git", roots).ok_or(io::ErrorKind::NotFound)?;
    let mut command = Command::new(program);
    command.current_dir(directory).env_clear().envs(environment.variables()).stdin(Stdio::null());
    Ok(command)
}

/// The program of this name or path, if it is none of the workspace's.
pub(super) fn find(name: &str, roots: &[PathBuf]) -> Option<PathBuf> {
    let is_outside = |path: &PathBuf| !roots.iter().any(|root| path.starts_with(root));
    let usable = |path: PathBuf| {
        let real = path.canonicalize().ok().filter(is_outside)?;
        let is_program =
            real.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0);
        // Under its own name: some programs are several, by the name of a link.
        is_program.then_some(path)
    };
    if name.contains('/') {
        return usable(name.into()).filter(|path| path.is_absolute());
    }
    let environment = Environment::inherited();
    let search = environment.get("PATH").unwrap_or_default();
    std::env::split_paths(search).find_map(|directory| usable(directory.join(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_of_the_workspace_is_none() {
        let place = tempfile::tempdir().unwrap();
        let top = place.path().canonicalize().unwrap();
        std::fs::create_dir(top.join("w")).unwrap();
        for name in ["w/sign", "sign"] {
            std::fs::write(top.join(name), "").unwrap();
            std::fs::set_permissions(top.join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        std::os::unix::fs::symlink(top.join("w/sign"), top.join("link")).unwrap();
        let found = |name: &str| find(top.join(name).to_str().unwrap(), &[top.join("w")]).is_some();
        assert_eq!(["sign", "w/sign", "link", "missing"].map(found), [true, false, false, false]);
        assert!(find("sh", &[]).is_some_and(|path| path.is_absolute()));
        assert_eq!(find("sh", &["/".into()]), None);
    }
}
