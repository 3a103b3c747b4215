//! The language servers that are known, and which of them are installed.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// A known language server.
#[derive(Debug)]
struct Preset {
    /// Programs by which it is started, the preferred one first.
    programs: &'static [&'static str],
    args: &'static [&'static str],
    /// Language ids of LSP by file extension.
    languages: &'static [(&'static str, &'static str)],
    /// Files of which one is directly in a workspace folder that it serves.
    markers: &'static [&'static str],
    /// See [`InstalledServer::reports_on_open_only`].
    reports_on_open_only: bool,
    /// See [`InstalledServer::compiler`].
    compiler: Option<&'static Compiler>,
}

/// How a server has a compiler check what is saved, and reports unasked what that finds.
#[derive(Debug)]
pub(crate) struct Compiler {
    /// Section of the server's settings.
    pub(crate) section: &'static str,
    /// Makes settings by which it builds in a directory of its own.
    settings: fn(&Path) -> Value,
    /// Part of the names of its work while it checks (`$/progress`).
    pub(crate) token: &'static str,
}

impl Compiler {
    /// Returns the settings of a server that may write a directory.
    pub(crate) fn settings(&self, directory: &Path) -> Value {
        (self.settings)(directory)
    }
}

const CARGO_CHECK: Compiler = Compiler {
    section: "rust-analyzer",
    settings: |directory| json!({ "cargo": { "targetDir": directory.join("target") } }),
    token: "flycheck",
};

const PRESETS: &[Preset] = &[
    Preset {
        programs: &["rust-analyzer"],
        args: &[],
        languages: &[("rs", "rust")],
        markers: &["Cargo.toml", "rust-project.json"],
        reports_on_open_only: false,
        compiler: Some(&CARGO_CHECK),
    },
    Preset {
        programs: &["gopls"],
        args: &["serve"],
        languages: &[("go", "go")],
        markers: &["go.mod", "go.work"],
        reports_on_open_only: false,
        compiler: None,
    },
    Preset {
        programs: &["basedpyright-langserver", "pyright-langserver"],
        args: &["--stdio"],
        languages: &[("py", "python"), ("pyi", "python")],
        markers: &["pyproject.toml", "pyrightconfig.json", "setup.py", "setup.cfg", "requirements.txt"],
        reports_on_open_only: false,
        compiler: None,
    },
    Preset {
        programs: &["typescript-language-server"],
        args: &["--stdio"],
        languages: &[
            ("ts", "typescript"),
            ("mts", "typescript"),
            ("cts", "typescript"),
            ("tsx", "typescriptreact"),
            ("js", "javascript"),
            ("mjs", "javascript"),
            ("cjs", "javascript"),
            ("jsx", "javascriptreact"),
        ],
        markers: &["tsconfig.json", "jsconfig.json", "package.json"],
        reports_on_open_only: true,
        compiler: None,
    },
    Preset {
        programs: &["clangd"],
        args: &[],
        languages: &[
            ("c", "c"),
            ("h", "c"),
            ("cc", "cpp"),
            ("cpp", "cpp"),
            ("cxx", "cpp"),
            ("hh", "cpp"),
            ("hpp", "cpp"),
        ],
        markers: &["compile_commands.json", "compile_flags.txt", ".clangd"],
        reports_on_open_only: false,
        compiler: None,
    },
];

/// A language server that is installed, for a workspace that it serves.
#[derive(Debug)]
pub struct InstalledServer {
    /// Its name: that of the program.
    pub name: &'static str,
    /// The program, as it was found on PATH.
    pub program: PathBuf,
    /// Arguments.
    pub args: &'static [&'static str],
    languages: &'static [(&'static str, &'static str)],
    /// True if it reports nothing about a changed text that has as few problems as before, none: only when a document is
    /// opened is there always a report.
    pub(crate) reports_on_open_only: bool,
    /// The compiler that it has check what is saved; none where it finds all problems itself.
    pub(crate) compiler: Option<&'static Compiler>,
}

impl InstalledServer {
    /// Returns the language id of a file; none where it is not one of the server's.
    pub fn language_of(&self, path: &Path) -> Option<&'static str> {
        let extension = path.extension()?.to_str()?;
        self.languages.iter().find(|(known, _)| *known == extension).map(|(_, language)| *language)
    }

    #[cfg(test)]
    pub(crate) fn fake() -> Self {
        Self {
            name: "fake-server",
            program: "/fake".into(),
            args: &[],
            languages: &[("rs", "rust")],
            reports_on_open_only: false,
            compiler: None,
        }
    }

    #[cfg(test)]
    pub(crate) fn fake_with_compiler() -> Self {
        Self { compiler: Some(&CARGO_CHECK), ..Self::fake() }
    }
}

/// Returns the known servers that are found in the directories of `search_path` and serve one of the workspace folders: a
/// file such as `Cargo.toml` is in it. A program inside of a workspace folder counts as not there, since the workspace
/// could have brought it. Reads the disk.
pub fn installed(folders: &[PathBuf], search_path: &OsStr) -> Vec<InstalledServer> {
    let serves = |preset: &&Preset| {
        folders.iter().any(|folder| preset.markers.iter().any(|marker| folder.join(marker).is_file()))
    };
    let directories: Vec<PathBuf> =
        env::split_paths(search_path).filter(|directory| directory.is_absolute()).collect();
    let find = |preset: &Preset| {
        preset.programs.iter().find_map(|&name| {
            let program = directories.iter().map(|directory| directory.join(name));
            let program = program.into_iter().find(|program| is_outside_program(program, folders))?;
            let Preset { args, languages, reports_on_open_only, compiler, .. } = *preset;
            Some(InstalledServer { name, program, args, languages, reports_on_open_only, compiler })
        })
    };
    PRESETS.iter().filter(serves).filter_map(find).collect()
}

/// Returns whether a path is that of a program, and neither it nor what it leads to is in a folder.
fn is_outside_program(program: &Path, folders: &[PathBuf]) -> bool {
    let Ok(real) = program.canonicalize() else { return false };
    let Some(Ok(directory)) = program.parent().map(Path::canonicalize) else { return false };
    let is_inside = |folder: &PathBuf| real.starts_with(folder) || directory.starts_with(folder);
    let is_program = |found: fs::Metadata| found.is_file() && found.permissions().mode() & 0o111 != 0;
    !folders.iter().any(is_inside) && fs::metadata(&real).is_ok_and(is_program)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn put(path: &Path, mode: u32) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_server_counts_where_it_is_a_program_of_the_user_and_the_workspace_is_of_its_kind() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let (workspace, bin) = (root.join("w"), root.join("bin"));
        put(&bin.join("rust-analyzer"), 0o755);
        put(&bin.join("gopls"), 0o644);
        put(&workspace.join("bin/pyright-langserver"), 0o755);
        put(&workspace.join("clangd"), 0o755);
        symlink(workspace.join("clangd"), bin.join("clangd")).unwrap();
        symlink(workspace.join("bin"), root.join("link")).unwrap();
        let path =
            env::join_paths([&bin, &workspace.join("bin"), &root.join("link"), Path::new("bin")]).unwrap();
        let names = || -> Vec<_> {
            installed(std::slice::from_ref(&workspace), &path).iter().map(|server| server.name).collect()
        };
        assert!(names().is_empty(), "there is nothing that it serves");
        for marker in ["Cargo.toml", "go.mod", "setup.py", "compile_flags.txt"] {
            put(&workspace.join(marker), 0o644);
        }
        assert_eq!(names(), ["rust-analyzer"]);
        put(&bin.join("pyright-langserver"), 0o755);
        put(&bin.join("basedpyright-langserver"), 0o755);
        assert_eq!(names(), ["rust-analyzer", "basedpyright-langserver"]);
        let server = &installed(std::slice::from_ref(&workspace), &path)[1];
        assert_eq!(server.program, bin.join("basedpyright-langserver"));
        assert_eq!(server.language_of(Path::new("/w/a.pyi")), Some("python"));
        assert_eq!(server.language_of(Path::new("/w/a.rs")), None);
    }
}
