//! Programs that the server starts by itself: never one that lies in the workspace, whatever the search path.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use super::Environment;

/// Finds the program of this name or absolute path that commands with this environment would start. None if it lies
/// in one of the `roots`, also where a link leads there.
pub fn find_program(environment: &Environment, name: &str, roots: &[PathBuf]) -> Option<PathBuf> {
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
        let environment = Environment::inherited();
        let found = |name: &str| {
            find_program(&environment, top.join(name).to_str().unwrap(), &[top.join("w")]).is_some()
        };
        assert_eq!(["sign", "w/sign", "link", "missing"].map(found), [true, false, false, false]);
        assert!(find_program(&environment, "sh", &[]).is_some_and(|path| path.is_absolute()));
        assert_eq!(find_program(&environment, "sh", &["/".into()]), None);
    }
}
