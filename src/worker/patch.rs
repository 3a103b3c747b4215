//! The patch of a result, brought into the files of whoever submitted it. All of it is applied or nothing: where the user has
//! changed the same lines since, the patch doesn't fit, and the files stay as they are.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::git::{ANSWER, GitFailure, UserConfiguration, git, is_outside_repositories, line};

/// Reasons why a patch is not applied.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApplyError {
    #[error("{} is in no git repository", .0.display())]
    NoRepository(PathBuf),
    #[error("your files already have these changes")]
    Applied,
    #[error("it does not fit your files as they are now, so nothing was changed: {0}")]
    Conflict(String),
    #[error("it has to be looked at first, as it changes {}", .0.join(", "))]
    NeedsReview(Vec<String>),
    #[error(transparent)]
    Git(#[from] GitFailure),
}

/// The most paths that are named where a patch has to be looked at.
const NAMED: usize = 10;

/// The top directory of the repository that a folder is in.
pub(crate) async fn repository_top(folder: &Path) -> Result<PathBuf, ApplyError> {
    let configuration = UserConfiguration::trusted_directories().await?;
    let trusted = configuration.variables();
    match line(folder, &["rev-parse", "--show-toplevel"], &trusted).await {
        Err(failure) if is_outside_repositories(&failure) => Err(ApplyError::NoRepository(folder.to_owned())),
        top => Ok(PathBuf::from(top?)),
    }
}

/// Applies a patch to the repository that a folder is in, and returns the paths that it changes, from the repository's top.
/// Nobody has been asked about it, so it is not applied where it changes what `is_protected` says of a path, or makes anything
/// but plain files.
pub(crate) async fn apply(
    folder: &Path,
    patch: &[u8],
    is_protected: impl Fn(&Path) -> bool,
) -> Result<Vec<String>, ApplyError> {
    let top = repository_top(folder).await?;
    let configuration = UserConfiguration::trusted_directories().await?;
    let trusted = configuration.variables();
    let run = |options: &[&str]| {
        let all = ["apply", "--binary", "--whitespace=nowarn"].iter().chain(options).chain(&["-"]);
        all.map(OsString::from).collect::<Vec<_>>()
    };
    let listed = paths(&git(&top, &run(&["--numstat", "-z"]), &trusted, patch, ANSWER).await?);
    let is_protected = |path: &&String| is_protected(&top.join(path));
    let mut reviewed: Vec<String> = listed.iter().filter(is_protected).take(NAMED).cloned().collect();
    reviewed.extend(not_plain(patch).map(str::to_owned));
    if !reviewed.is_empty() {
        return Err(ApplyError::NeedsReview(reviewed));
    }
    match git(&top, &run(&[]), &trusted, patch, ANSWER).await {
        Ok(_) => Ok(listed),
        Err(GitFailure::Refused { reason, .. }) => {
            let reversed = git(&top, &run(&["--check", "--reverse"]), &trusted, patch, ANSWER).await;
            Err(if reversed.is_ok() { ApplyError::Applied } else { ApplyError::Conflict(reason) })
        }
        Err(failure) => Err(failure.into()),
    }
}

/// The paths of `git apply --numstat -z`: added lines, removed lines and path, with tabs between them.
fn paths(listed: &[u8]) -> Vec<String> {
    let entries = listed.split(|byte| *byte == 0).filter(|entry| !entry.is_empty());
    let path = |entry: &[u8]| {
        let path = entry.splitn(3, |byte| *byte == b'\t').nth(2)?;
        Some(String::from_utf8_lossy(path).into_owned())
    };
    entries.filter_map(path).collect()
}

/// What a patch changes besides plain files, by the lines of its heads: those of contents begin otherwise. Renames have two
/// paths, of which git lists one, and no worker makes them.
fn not_plain(patch: &[u8]) -> impl Iterator<Item = &'static str> {
    let mut found = BTreeSet::new();
    for line in patch.split(|byte| *byte == b'\n') {
        let after = |start: &str| line.strip_prefix(start.as_bytes());
        if after("rename ").or(after("copy ")).is_some() {
            found.insert("names of files");
        }
        let mode = after("new file mode ").or(after("new mode "));
        let mode = mode.or_else(|| after("index ")?.splitn(2, |byte| *byte == b' ').nth(1));
        let digits = mode.and_then(|mode| mode.split(u8::is_ascii_whitespace).next());
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u32::from_str_radix(digits, 8).ok()).map(|mode| mode & 0o170_000) {
            Some(0o120_000) => found.insert("symbolic links"),
            None | Some(0o100_000) => false,
            Some(_) => found.insert("submodules"),
        };
    }
    found.into_iter()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const PATCH: &[u8] =
        b"diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -2,3 +2,3 @@\n one\n-two\n+TWO\n three\n\
diff --git a/b.txt b/b.txt\nnew file mode 100644\n--- /dev/null\n+++ b/b.txt\n@@ -0,0 +1 @@\n+new\n";

    async fn repository(text: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        git(folder.path(), &["init", "--quiet"], &[], &[], ANSWER).await.unwrap();
        fs::write(folder.path().join("a.txt"), text).unwrap();
        folder
    }

    #[tokio::test]
    async fn a_patch_is_applied_beside_what_the_user_has_changed() {
        let folder = repository("the user's\nzero\none\ntwo\nthree\n").await;
        assert_eq!(apply(folder.path(), PATCH, |_| false).await.unwrap(), ["a.txt", "b.txt"]);
        assert_eq!(
            fs::read_to_string(folder.path().join("a.txt")).unwrap(),
            "the user's\nzero\none\nTWO\nthree\n"
        );
        assert!(matches!(apply(folder.path(), PATCH, |_| false).await, Err(ApplyError::Applied)));
    }

    #[tokio::test]
    async fn a_patch_that_does_not_fit_changes_nothing() {
        let folder = repository("one\nzwei\nthree\n").await;
        assert!(matches!(apply(folder.path(), PATCH, |_| false).await, Err(ApplyError::Conflict(_))));
        assert_eq!(fs::read_to_string(folder.path().join("a.txt")).unwrap(), "one\nzwei\nthree\n");
        assert!(!folder.path().join("b.txt").exists());
    }

    #[tokio::test]
    async fn a_patch_leads_out_of_no_repository() {
        let folder = repository("").await;
        let patch =
            b"diff --git a/../x b/../x\nnew file mode 100644\n--- /dev/null\n+++ b/../x\n@@ -0,0 +1 @@\n+x\n";
        assert!(apply(folder.path(), patch, |_| false).await.is_err());
    }

    #[tokio::test]
    async fn what_is_protected_and_what_is_no_plain_file_is_left_to_the_user() {
        let folder = repository("zero\none\ntwo\nthree\n").await;
        let top = folder.path().canonicalize().unwrap();
        let protected = apply(folder.path(), PATCH, |path| path == top.join("b.txt")).await;
        assert_eq!(protected.unwrap_err().to_string(), "it has to be looked at first, as it changes b.txt");
        let new = |mode: &str| {
            format!(
                "diff --git a/x b/x\nnew file mode {mode}\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+/home/user/.ssh\n\\ No newline at end of file\n"
            )
        };
        let renames =
            "diff --git a/a.txt b/x\nsimilarity index 100%\nrename from a.txt\nrename to x\n".to_owned();
        let leads_on = "diff --git a/a.txt b/a.txt\nold mode 100644\nnew mode 0120000\n".to_owned();
        for (patch, what) in [
            (new("120000"), "symbolic links"),
            (new("160000"), "submodules"),
            (leads_on, "symbolic links"),
            (renames, "names of files"),
        ] {
            let refused = apply(folder.path(), patch.as_bytes(), |_| false).await.unwrap_err().to_string();
            assert!(refused.ends_with(what), "{patch}: {refused}");
        }
        let left: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left.len(), 2, "{left:?}");
        assert_eq!(apply(folder.path(), new("100755").as_bytes(), |_| false).await.unwrap(), ["x"]);
    }
}
