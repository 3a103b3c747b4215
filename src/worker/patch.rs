//! The patch of a result, brought into the files of whoever submitted it. All of it is applied or nothing: where the user has
//! changed the same lines since, the patch doesn't fit, and the files stay as they are.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::git::{ANSWER, GitFailure, git, line};

/// Reasons why a patch is not applied.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApplyError {
    #[error("{} is in no git repository", .0.display())]
    NoRepository(PathBuf),
    #[error("your files already have these changes")]
    Applied,
    #[error("it does not fit your files as they are now, so nothing was changed: {0}")]
    Conflict(String),
    #[error(transparent)]
    Git(#[from] GitFailure),
}

/// Applies a patch to the repository that a folder is in, and returns the paths that it changes, from the repository's top.
pub(crate) async fn apply(folder: &Path, patch: &[u8]) -> Result<Vec<String>, ApplyError> {
    let top = line(folder, &["rev-parse", "--show-toplevel"], &[]).await;
    let top = PathBuf::from(top.map_err(|_| ApplyError::NoRepository(folder.to_owned()))?);
    let run = |options: &[&str]| {
        let all = ["apply", "--binary", "--whitespace=nowarn"].iter().chain(options).chain(&["-"]);
        all.map(OsString::from).collect::<Vec<_>>()
    };
    let listed = git(&top, &run(&["--numstat", "-z"]), &[], patch, ANSWER).await?;
    match git(&top, &run(&[]), &[], patch, ANSWER).await {
        Ok(_) => Ok(paths(&listed)),
        Err(GitFailure::Refused { reason, .. }) => {
            let reversed = git(&top, &run(&["--check", "--reverse"]), &[], patch, ANSWER).await;
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
        assert_eq!(apply(folder.path(), PATCH).await.unwrap(), ["a.txt", "b.txt"]);
        assert_eq!(
            fs::read_to_string(folder.path().join("a.txt")).unwrap(),
            "the user's\nzero\none\nTWO\nthree\n"
        );
        assert!(matches!(apply(folder.path(), PATCH).await, Err(ApplyError::Applied)));
    }

    #[tokio::test]
    async fn a_patch_that_does_not_fit_changes_nothing() {
        let folder = repository("one\nzwei\nthree\n").await;
        assert!(matches!(apply(folder.path(), PATCH).await, Err(ApplyError::Conflict(_))));
        assert_eq!(fs::read_to_string(folder.path().join("a.txt")).unwrap(), "one\nzwei\nthree\n");
        assert!(!folder.path().join("b.txt").exists());
    }

    #[tokio::test]
    async fn a_patch_leads_out_of_no_repository() {
        let folder = repository("").await;
        let patch =
            b"diff --git a/../x b/../x\nnew file mode 100644\n--- /dev/null\n+++ b/../x\n@@ -0,0 +1 @@\n+x\n";
        assert!(apply(folder.path(), patch).await.is_err());
    }
}
