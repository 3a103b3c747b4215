//! The machine: its system, and which well-known programs a command would find.

use std::ffi::CStr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use roo_sandbox::exec::{Environment, shell as command_shell};
use roo_text::render::exact_line;

/// The programs that are looked for.
const PROGRAMS: &[&str] = &[
    "node", "npm", "pnpm", "yarn", "bun", "deno", "python3", "pip", "uv", "poetry", "cargo", "rustc", "go",
    "java", "mvn", "gradle", "ruby", "php", "dotnet", "gcc", "clang", "make", "cmake", "ninja", "docker",
    "podman", "git", "gh", "rg", "jq", "curl", "tree",
];

/// Files in which systems describe themselves; os-release(5).
const RELEASE: &[&str] = &["/etc/os-release", "/usr/lib/os-release"];

/// Operating system, processors, shell.
pub(super) fn system() -> Vec<String> {
    let name = rustix::system::uname();
    let text = |part: &CStr| part.to_string_lossy().into_owned();
    let kernel = format!("{} {} ({})", text(name.sysname()), text(name.release()), text(name.machine()));
    let release = RELEASE.iter().find_map(|path| std::fs::read_to_string(path).ok());
    let system = match release.as_deref().and_then(pretty_name) {
        Some(distribution) => format!("{distribution}, {kernel}"),
        None => kernel,
    };
    let processors = match std::thread::available_parallelism() {
        Ok(count) => count.to_string(),
        Err(error) => format!("unknown: {error}"),
    };
    let shell = match std::env::var("SHELL") {
        Ok(shell) => exact_line(&shell),
        Err(_) => "unknown".to_owned(),
    };
    vec![
        format!("Operating system: {}", exact_line(&system)),
        format!("Processors: {processors}"),
        format!("Shell of the user: {shell}; commands run in {}", command_shell().name()),
    ]
}

/// The name for people in the text of os-release(5).
fn pretty_name(release: &str) -> Option<String> {
    let value = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    shlex::split(value)?.into_iter().next()
}

/// Finds the programs that commands can run.
pub(super) fn programs() -> Vec<String> {
    let environment = Environment::inherited();
    let Some((_, path)) = environment.variables().find(|(name, _)| *name == "PATH") else {
        return vec!["unknown: PATH is not set".to_owned()];
    };
    let directories: Vec<PathBuf> = std::env::split_paths(path).collect();
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for program in PROGRAMS {
        match directories.iter().map(|directory| directory.join(program)).find(|file| is_executable(file)) {
            Some(file) => found.push(format!("{program}: {}", exact_line(&file.to_string_lossy()))),
            None => missing.push(*program),
        }
    }
    if !missing.is_empty() {
        found.push(format!("not found: {}", missing.join(", ")));
    }
    found
}

fn is_executable(file: &Path) -> bool {
    file.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_has_a_name_for_people() {
        assert_eq!(
            pretty_name("ID=x\nPRETTY_NAME=\"Some Linux 12 (name)\"\n"),
            Some("Some Linux 12 (name)".into())
        );
        assert_eq!(pretty_name("PRETTY_NAME=Plain"), Some("Plain".into()));
        assert_eq!(pretty_name("NAME=x"), None);
    }

    #[test]
    fn a_program_is_a_file_that_may_be_run() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("tool");
        std::fs::write(&file, "").unwrap();
        assert!(!is_executable(&file) && !is_executable(directory.path()));
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert!(is_executable(&file));
    }
}
