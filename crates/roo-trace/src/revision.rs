//! Revision of a repository: the commit at HEAD, read from its files. No program is run.

use std::path::{Path, PathBuf};

use super::record::Vcs;
use roo_durable::disk::{Disk as _, RealDisk};

/// Files of a repository that name a commit are short; a list of packed references is not.
const SHORT: u64 = 4096;
const PACKED: u64 = 16 << 20;
/// Maximum number of references that name one another.
const MAX_HOPS: usize = 5;

/// The commit at HEAD. None without a repository, and in one without a commit.
pub(super) fn head_commit(folder: &Path) -> Option<Vcs> {
    let git = git_directory(folder)?;
    // The references of a linked work tree are those of its repository.
    let common = text(&git.join("commondir"), SHORT).map(|path| git.join(path.trim()));
    let mut name = text(&git.join("HEAD"), SHORT)?;
    for _ in 0..MAX_HOPS {
        let Some(reference) = name.trim().strip_prefix("ref:").map(str::trim) else {
            let revision = name.trim().to_owned();
            return is_commit(&revision).then(|| Vcs { kind: Some("git".to_owned()), revision });
        };
        if !is_plain(reference) {
            return None;
        }
        name = [Some(&git), common.as_ref()]
            .into_iter()
            .flatten()
            .find_map(|base| text(&base.join(reference), SHORT).or_else(|| packed(base, reference)))?;
    }
    None
}

fn git_directory(folder: &Path) -> Option<PathBuf> {
    let git = folder.join(".git");
    if git.is_dir() {
        return Some(git);
    }
    let link = text(&git, SHORT)?;
    Some(folder.join(link.trim().strip_prefix("gitdir:")?.trim()))
}

fn packed(git: &Path, reference: &str) -> Option<String> {
    let packed = text(&git.join("packed-refs"), PACKED)?;
    let line = packed.lines().find_map(|line| line.strip_suffix(reference)?.strip_suffix(' '));
    line.map(str::to_owned)
}

/// Returns whether a reference stays below its directory.
fn is_plain(reference: &str) -> bool {
    reference.starts_with("refs/") && reference.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

fn is_commit(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn text(path: &Path, limit: u64) -> Option<String> {
    String::from_utf8(RealDisk.read_beginning(path, limit).ok()??).ok()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const COMMIT: &str = "a1b2c3d4e5f6a7b8c9d0e1f2a3b4c5d6e7f8a9b0";

    fn repository(files: &[(&str, &str)]) -> Option<String> {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        head_commit(folder.path()).map(|vcs| vcs.revision)
    }

    #[test]
    fn head_is_followed_to_its_commit() {
        let head = (".git/HEAD", "ref: refs/heads/main\n");
        let commit = format!("{COMMIT}\n");
        assert_eq!(repository(&[(".git/HEAD", &commit)]).unwrap(), COMMIT);
        assert_eq!(repository(&[head, (".git/refs/heads/main", &commit)]).unwrap(), COMMIT);
        let packed = format!("# pack-refs\n{COMMIT} refs/heads/other\n{COMMIT} refs/heads/main\n");
        assert_eq!(repository(&[head, (".git/packed-refs", &packed)]).unwrap(), COMMIT);
        let linked = [
            (".git", "gitdir: main/.git/worktrees/w\n"),
            ("main/.git/worktrees/w/HEAD", "ref: refs/heads/main\n"),
            ("main/.git/worktrees/w/commondir", "../..\n"),
            ("main/.git/refs/heads/main", &commit),
        ];
        assert_eq!(repository(&linked).unwrap(), COMMIT);
    }

    #[test]
    fn what_names_no_commit_is_left_out() {
        assert_eq!(repository(&[]), None);
        assert_eq!(repository(&[(".git/HEAD", "ref: refs/heads/main\n")]), None);
        assert_eq!(repository(&[(".git/HEAD", "ref: refs/../../secret\n"), ("secret", COMMIT)]), None);
        assert_eq!(repository(&[(".git/HEAD", "something else\n")]), None);
        assert_eq!(repository(&[(".git/HEAD", "ref: refs/a\n"), (".git/refs/a", "ref: refs/a\n")]), None);
    }
}
