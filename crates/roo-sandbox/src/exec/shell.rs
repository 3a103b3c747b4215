//! The shell that runs commands: bash where there is one, found once.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Paths of bash on almost every system.
const WELL_KNOWN: &[&str] = &["/bin/bash", "/usr/bin/bash"];

/// Shell of POSIX systems.
const FALLBACK: &str = "/bin/sh";

/// A shell. Each command is a fresh process of it, which reads no start-up file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shell {
    program: PathBuf,
    is_bash: bool,
}

/// The shell of this process. It is found at the first call, and stays: nothing that a command or a
/// workspace does later chooses another.
pub fn shell() -> &'static Shell {
    static SHELL: OnceLock<Shell> = OnceLock::new();
    SHELL.get_or_init(|| {
        let here = std::env::current_dir().ok();
        let path = std::env::var_os("PATH").unwrap_or_default();
        Shell::find(WELL_KNOWN.iter().map(Path::new), &path, here.as_deref())
    })
}

impl Shell {
    /// The first bash of the well-known places and of the absolute entries of a search path, or
    /// `/bin/sh`. Entries in `workspace` don't count.
    pub fn find<'a>(
        well_known: impl IntoIterator<Item = &'a Path>,
        path: &OsStr,
        workspace: Option<&Path>,
    ) -> Self {
        let entries = std::env::split_paths(path)
            .filter(|entry| entry.is_absolute())
            .filter_map(|entry| entry.join("bash").canonicalize().ok())
            .filter(|bash| !workspace.is_some_and(|workspace| bash.starts_with(workspace)));
        let bash = well_known.into_iter().map(Path::to_path_buf).chain(entries).find(|bash| is_program(bash));
        match bash {
            Some(program) => Self { program, is_bash: true },
            None => Self { program: FALLBACK.into(), is_bash: false },
        }
    }

    /// Its absolute path.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Its name for people and models.
    pub fn name(&self) -> std::borrow::Cow<'_, str> {
        self.program.to_string_lossy()
    }

    /// The arguments that make it run a line.
    pub fn arguments<'a>(&self, line: &'a str) -> impl Iterator<Item = &'a str> {
        let options: &[&str] = if self.is_bash { &["--noprofile", "--norc"] } else { &[] };
        options.iter().copied().chain(["-c", "--", line])
    }
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(path: &Path) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "").unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn bash_is_taken_from_outside_of_the_workspace_only() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let workspace = root.join("w");
        for bash in ["w/bin/bash", "system/bash"] {
            program(&root.join(bash));
        }
        std::fs::create_dir(root.join("links")).unwrap();
        std::os::unix::fs::symlink(workspace.join("bin/bash"), root.join("links/bash")).unwrap();
        let path = format!(".:w/bin:{0}/w/bin:{0}/links:{0}/system", root.display());
        let found = Shell::find([], path.as_ref(), Some(&workspace));
        assert_eq!(found, Shell { program: root.join("system/bash"), is_bash: true });
        let known = root.join("w/bin/bash");
        assert_eq!(Shell::find([known.as_path()], OsStr::new(""), None).program(), known);
    }

    #[test]
    fn without_bash_it_is_the_shell_of_posix() {
        let found = Shell::find([], OsStr::new(".:/no/such/directory"), None);
        assert_eq!(found.program(), Path::new("/bin/sh"));
        assert_eq!(found.arguments("true").collect::<Vec<_>>(), ["-c", "--", "true"]);
    }

    #[test]
    fn bash_reads_no_file_at_its_start() {
        let bash = Shell { program: "/bin/bash".into(), is_bash: true };
        assert_eq!(bash.arguments("true").collect::<Vec<_>>(), ["--noprofile", "--norc", "-c", "--", "true"]);
    }
}
