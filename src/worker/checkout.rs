//! The checkout that a request works in, and what it has changed there.
//!
//! Agents have a clone of their own. What they changed is found by a second repository in the state directory, which no command
//! sees: nothing that a command does to its clone says what git does here, nor what the patch is made against.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::git::{
    ANSWER, GitFailure, UserConfiguration, git, is_login_failure, is_outside_repositories, line,
};
use super::submission::{CommitId, Source};
use super::work_result::MAX_PATCH_BYTES;

/// Name of the branch that a checkout is on.
const BRANCH: &str = "roo-lsp";
/// Patterns of what the engine keeps in a workspace for this machine alone; no copy and no patch has them.
const PRIVATE: &str =
    "/.orchestration/agent_trace*.jsonl\n/.orchestration/intent_map.md\n/.orchestration/.*.new\n";
/// Directory of what the agents of a request note for each other: it goes on with the request, and is in no result.
const NOTES: &str = ".roo/tasks";

/// What git says where this machine can't do more.
const DISK_IS_FULL: [&str; 4] =
    ["No space left on device", "Disk quota exceeded", "Cannot allocate memory", "Too many open files"];
/// The most repositories that are nested in each other.
const MAX_DEPTH: usize = 20;
/// Name of a file that isn't there.
const NO_FILE: &str = ".roo-lsp-nested";
/// Maximum number of attempts to list files that come and go.
const MAX_ATTEMPTS: usize = 10;
/// What git says of a file that it has seen and that is gone by then.
const FILE_IS_GONE: &str = "unable to stat";

/// Reasons why there is no checkout or no patch.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CheckoutError {
    #[error(transparent)]
    Git(#[from] GitFailure),
    #[error("the commit {0} is not in what was submitted")]
    NoCommit(String),
    #[error("{} is not in a git repository: the commit to work on is taken from one", .0.display())]
    NoRepository(PathBuf),
    #[error("the repository has no commit `{0}`: make one, or name another")]
    NotCommitted(String),
    #[error("git can't read the bundle that was submitted: {0}")]
    Bundle(String),
    #[error("the worker can't log in to the repository: {0}")]
    Login(GitFailure),
    #[error(
        "this clone is shallow, so that it lacks the history that is sent: get it by `git fetch --unshallow`, or have the \
         worker clone the repository: --repository URL"
    )]
    Shallow,
    #[error("the checkout can't be made in {}: {source}", path.display())]
    Files { path: PathBuf, source: io::Error },
}

impl CheckoutError {
    /// Returns whether it would be the same on every worker: what an agent has left can't be passed on.
    pub(super) fn is_lasting(&self) -> bool {
        match self {
            Self::Git(GitFailure::Refused { reason, .. }) => {
                !DISK_IS_FULL.iter().any(|words| reason.contains(words))
            }
            Self::Git(GitFailure::TooMuch { .. }) => true,
            Self::Git(GitFailure::Start(_)) | Self::Files { .. } => false,
            Self::NoCommit(_)
            | Self::NotCommitted(_)
            | Self::NoRepository(_)
            | Self::Bundle(_)
            | Self::Login(_)
            | Self::Shallow => true,
        }
    }
}

pub(super) struct Checkout {
    /// The work tree.
    folder: PathBuf,
    /// Our repository.
    repository: PathBuf,
    /// What was checked out.
    commit: CommitId,
    /// Its files.
    base: String,
}

impl Checkout {
    /// Makes a checkout in a folder that isn't there, with our repository in another one. `bundle`: the file where the source is
    /// one.
    pub(super) async fn make(
        folder: &Path,
        private: &Path,
        source: &Source,
        bundle: &Path,
        commit: &CommitId,
    ) -> Result<Self, CheckoutError> {
        let repository = private.join("repository.git");
        let files = |path: &Path| {
            let path = path.to_owned();
            move |source| CheckoutError::Files { path, source }
        };
        let own = repository.as_os_str();
        init_bare(private, &repository, commit).await?;
        fs::create_dir_all(repository.join("info")).map_err(files(&repository))?;
        fs::write(repository.join("info/exclude"), PRIVATE).map_err(files(&repository))?;
        match source {
            Source::Bundle { .. } => {
                let fetched = fetch(&repository, bundle.as_os_str(), "+HEAD:refs/heads/submitted", &[]).await;
                if let Err(failure) = fetched {
                    check_bundle(&repository, bundle).await?;
                    return Err(failure.into());
                }
                find_commit(&repository, commit.as_str(), &[]).await?;
            }
            Source::Repository { url } => fetch_commit(&repository, url, commit).await?,
        }
        let branch = format!("refs/heads/{BRANCH}");
        line(&repository, &["update-ref", &branch, commit.as_str()], &[]).await?;
        line(&repository, &["symbolic-ref", "HEAD", &branch], &[]).await?;
        let tree = format!("{}^{{tree}}", commit.as_str());
        let base = line(&repository, &["rev-parse", "--verify", "--end-of-options", &tree], &[]).await?;
        let clone =
            ["clone", "--quiet", "--no-hardlinks", "--template=", "--single-branch", "--no-tags", "--"];
        let clone = clone.map(OsString::from);
        let clone = [&clone[..], &[own.to_owned(), folder.as_os_str().to_owned()]].concat();
        git(private, &clone, &[], &[], ANSWER).await?;
        // It leads into the state directory.
        line(folder, &["remote", "remove", "origin"], &[]).await?;
        Ok(Self { folder: folder.to_owned(), repository, commit: commit.clone(), base })
    }

    pub(super) fn commit(&self) -> &CommitId {
        &self.commit
    }

    /// The id of the files as they were checked out.
    pub(super) fn base(&self) -> &str {
        &self.base
    }

    /// The id of the files as they are, without those that git ignores. Those of nested repositories are files like any others.
    pub(super) async fn tree(&self) -> Result<String, CheckoutError> {
        let variables = self.variables();
        self.open_nested().await?;
        self.add_all(&variables).await?;
        // A repository may ignore it. Through a link it would be another directory.
        let is_directory = |path: &Path| path.symlink_metadata().is_ok_and(|found| found.is_dir());
        let notes = self.folder.join(NOTES);
        if notes.parent().is_some_and(is_directory) && is_directory(&notes) {
            line(&self.folder, &["add", "--all", "--force", "--", NOTES], &variables).await?;
        }
        Ok(line(&self.folder, &["write-tree"], &variables).await?)
    }

    /// Has git take note of all files. Agents work on meanwhile, so that one may be gone that git has just seen.
    async fn add_all(&self, variables: &[(&str, OsString)]) -> Result<(), CheckoutError> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            match line(&self.folder, &["add", "--all", "--", "."], variables).await {
                Err(GitFailure::Refused { reason, .. })
                    if attempts < MAX_ATTEMPTS && reason.contains(FILE_IS_GONE) => {}
                added => return Ok(added.map(drop)?),
            }
        }
    }

    /// Has git take nested repositories for plain directories: it does so where it knows a file in them.
    async fn open_nested(&self) -> Result<(), CheckoutError> {
        let variables = self.variables();
        let others = ["ls-files", "-z", "--others", "--exclude-standard", "--", "."];
        let mut empty = None;
        // In one there may be others.
        for _ in 0..MAX_DEPTH {
            let found = git(&self.folder, &others, &variables, &[], MAX_PATCH_BYTES).await?;
            // Of untracked directories, git names those alone that are repositories.
            let nested = found.split(|&byte| byte == 0).filter(|name| name.ends_with(b"/"));
            let nested: Vec<&OsStr> = nested.map(OsStr::from_bytes).collect();
            if nested.is_empty() {
                break;
            }
            let empty = match &empty {
                Some(empty) => empty,
                None => {
                    let hash = ["hash-object", "-t", "blob", "--", "/dev/null"];
                    empty.insert(line(&self.folder, &hash, &variables).await?)
                }
            };
            for name in nested {
                let mut entry = OsString::from(format!("100644,{empty},"));
                entry.push(name);
                // It isn't there, so that it goes when the others are added.
                entry.push(NO_FILE);
                let add = ["update-index", "--add", "--cacheinfo"].map(OsString::from);
                line(&self.folder, &[&add[..], &[entry]].concat(), &variables).await?;
            }
        }
        Ok(())
    }

    /// What leads from the files as they were checked out to those of an id.
    pub(super) async fn changes(&self, tree: &str) -> Result<Vec<u8>, CheckoutError> {
        self.diff(tree, &["."]).await
    }

    /// The same without what the agents have noted; none for nothing.
    pub(super) async fn result(&self, tree: &str) -> Result<Option<Vec<u8>>, CheckoutError> {
        let patch = self.diff(tree, &[".", &format!(":(exclude){NOTES}")]).await?;
        Ok(Some(patch).filter(|patch| !patch.is_empty()))
    }

    async fn diff(&self, tree: &str, paths: &[&str]) -> Result<Vec<u8>, CheckoutError> {
        let arguments = [
            "diff-tree",
            "-r",
            "--patch",
            "--binary",
            "--full-index",
            "--no-renames",
            "--no-ext-diff",
            "--no-textconv",
            "--no-color",
            "--src-prefix=a/",
            "--dst-prefix=b/",
            &self.base,
            tree,
            "--",
        ];
        let arguments = [&arguments[..], paths].concat();
        Ok(git(&self.folder, &arguments, &self.variables(), &[], MAX_PATCH_BYTES).await?)
    }

    /// Brings a patch into the files as they were checked out.
    pub(super) async fn restore(&self, patch: &[u8]) -> Result<(), CheckoutError> {
        let arguments = ["apply", "--binary", "--whitespace=nowarn", "-"];
        git(&self.folder, &arguments, &self.variables(), patch, ANSWER).await?;
        Ok(())
    }

    fn variables(&self) -> [(&'static str, OsString); 3] {
        [
            ("GIT_DIR", self.repository.clone().into()),
            ("GIT_WORK_TREE", self.folder.clone().into()),
            ("GIT_INDEX_FILE", self.repository.join("index").into()),
        ]
    }
}

/// Gets what a name leads to, from a bundle or a repository elsewhere. `refs`: the name there and the one here.
async fn fetch(
    repository: &Path,
    from: &OsStr,
    refs: &str,
    variables: &[(&str, OsString)],
) -> Result<(), GitFailure> {
    let fetch = ["fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--end-of-options"];
    let fetch = [&fetch.map(OsString::from)[..], &[from.to_owned(), refs.into()]].concat();
    git(repository, &fetch, variables, &[], ANSWER).await.map(drop)
}

/// Gets a commit from a repository elsewhere, with its history, by the credentials of this process's user. Where no branch holds
/// it, a tag may.
async fn fetch_commit(repository: &Path, url: &str, commit: &CommitId) -> Result<(), CheckoutError> {
    let (url, id) = (OsStr::new(url), commit.as_str());
    let configuration = UserConfiguration::credentials().await?;
    let credentials = configuration.variables();
    let branches = fetch(repository, url, "+refs/heads/*:refs/heads/submitted/*", &credentials).await;
    branches.map_err(|failure| match is_login_failure(&failure) {
        true => CheckoutError::Login(failure),
        false => failure.into(),
    })?;
    match find_commit(repository, id, &[]).await {
        Err(CheckoutError::NoCommit(_)) => {}
        found => return found.map(drop),
    }
    // Not every server gives out what no name leads to.
    match fetch(repository, url, &format!("+{id}:refs/heads/commit"), &credentials).await {
        Err(GitFailure::Refused { .. }) => {
            fetch(repository, url, "+refs/tags/*:refs/tags/*", &credentials).await?;
        }
        fetched => fetched?,
    }
    find_commit(repository, id, &[]).await.map(drop)
}

/// Makes a bare repository that can hold a commit.
async fn init_bare(directory: &Path, repository: &Path, commit: &CommitId) -> Result<(), GitFailure> {
    let init = ["init", "--quiet", "--bare", "--template="].map(OsString::from);
    let format = commit.object_format().map(|format| OsString::from(format!("--object-format={format}")));
    let init = init.into_iter().chain(format).chain([repository.into()]);
    git(directory, &init.collect::<Vec<_>>(), &[], &[], ANSWER).await.map(drop)
}

/// Writes a commit of a repository, with its history, into a bundle; nothing in the repository changes. `scratch`: a directory
/// for a repository that borrows its objects.
pub(crate) async fn bundle(
    folder: &Path,
    commit: &CommitId,
    scratch: &Path,
    file: &Path,
) -> Result<(), CheckoutError> {
    let configuration = UserConfiguration::trusted_directories().await?;
    let trusted = configuration.variables();
    if line(folder, &["rev-parse", "--is-shallow-repository"], &trusted).await? == "true" {
        return Err(CheckoutError::Shallow);
    }
    let objects =
        line(folder, &["rev-parse", "--path-format=absolute", "--git-path", "objects"], &trusted).await?;
    let own = scratch.join("borrowing.git");
    init_bare(scratch, &own, commit).await?;
    let alternates = own.join("objects/info/alternates");
    let written =
        fs::create_dir_all(own.join("objects/info")).and_then(|()| fs::write(&alternates, objects + "\n"));
    written.map_err(|source| CheckoutError::Files { path: alternates, source })?;
    // A bundle holds names and not ids.
    line(&own, &["update-ref", "HEAD", commit.as_str()], &[]).await?;
    let create = ["bundle", "create", "--quiet"].map(OsString::from);
    let create = [&create[..], &[file.as_os_str().to_owned(), "HEAD".into()]].concat();
    git(&own, &create, &[], &[], ANSWER).await?;
    Ok(())
}

/// Finds out whether a bundle is the reason why nothing could be fetched from it. Its head is read, and what it builds on; what is
/// wrong in its objects is not told from a disk that is full.
async fn check_bundle(repository: &Path, bundle: &Path) -> Result<(), CheckoutError> {
    let verify = ["bundle".as_ref(), "verify".as_ref(), "--quiet".as_ref(), bundle.as_os_str()];
    match line(repository, &verify, &[]).await {
        Err(GitFailure::Refused { reason, .. }) => return Err(CheckoutError::Bundle(reason)),
        verified => drop(verified?),
    }
    let heads = ["bundle".as_ref(), "list-heads".as_ref(), bundle.as_os_str(), "HEAD".as_ref()];
    match line(repository, &heads, &[]).await?.is_empty() {
        true => Err(CheckoutError::Bundle("it has no HEAD".to_owned())),
        false => Ok(()),
    }
}

/// The id of a commit of the user's repository.
pub(crate) async fn commit(folder: &Path, name: &str) -> Result<CommitId, CheckoutError> {
    let configuration = UserConfiguration::trusted_directories().await?;
    let trusted = configuration.variables();
    match find_commit(folder, name, &trusted).await {
        Ok(id) => CommitId::parse(&id).ok_or_else(|| CheckoutError::NotCommitted(name.to_owned())),
        Err(CheckoutError::NoCommit(name)) => {
            Err(match line(folder, &["rev-parse", "--git-dir"], &trusted).await {
                Err(failure) if is_outside_repositories(&failure) => {
                    CheckoutError::NoRepository(folder.to_owned())
                }
                Err(failure) => failure.into(),
                Ok(_) => CheckoutError::NotCommitted(name),
            })
        }
        Err(error) => Err(error),
    }
}

/// The same as git prints it.
async fn find_commit(
    folder: &Path,
    name: &str,
    variables: &[(&str, OsString)],
) -> Result<String, CheckoutError> {
    let named = format!("{name}^{{commit}}");
    let verify = ["rev-parse", "--verify", "--quiet", "--end-of-options", &named];
    match line(folder, &verify, variables).await {
        Err(GitFailure::Refused { .. }) => Err(CheckoutError::NoCommit(name.to_owned())),
        found => Ok(found?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn shell(folder: &Path, line: &str) {
        let mut command = tokio::process::Command::new("sh");
        let identity = ["GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"];
        command.args(["-ec", line]).current_dir(folder).envs(identity.map(|name| (name, "a@b.c")));
        assert!(command.status().await.unwrap().success(), "{line}");
    }

    #[tokio::test]
    async fn where_there_is_no_commit_the_reason_is_said() {
        let directory = tempfile::tempdir().unwrap();
        let problem = async || commit(directory.path(), "HEAD").await.unwrap_err().to_string();
        assert!(problem().await.contains("is not in a git repository"), "{}", problem().await);
        shell(directory.path(), "git init -q").await;
        assert_eq!(problem().await, "the repository has no commit `HEAD`: make one, or name another");
    }

    #[tokio::test]
    async fn the_files_of_nested_repositories_are_in_the_result() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        for name in ["origin", "private", "private-2"] {
            fs::create_dir(path(name)).unwrap();
        }
        shell(&path("origin"), "git init -q; echo a >a; git add a; git commit -qm a").await;
        let there = commit(&path("origin"), "HEAD").await.unwrap();
        let source = Source::Repository { url: format!("file://{}", path("origin").display()) };
        let made = async |folder: &str, private: &str| {
            Checkout::make(&path(folder), &path(private), &source, &path("bundle"), &there).await.unwrap()
        };
        let checkout = made("work", "private").await;
        let line = "mkdir -p born/inner unborn empty; (cd born; git init -q; echo x >x; git add x; git commit -qm x; \
                    echo y >y; cd inner; git init -q; echo z >z); (cd unborn; git init -q; echo q >q); cd empty; git init -q";
        shell(&path("work"), line).await;
        let tree = checkout.tree().await.unwrap();
        let patch = checkout.changes(&tree).await.unwrap();
        let copy = made("copy", "private-2").await;
        copy.restore(&patch).await.unwrap();
        for name in ["born/x", "born/y", "born/inner/z", "unborn/q"] {
            assert_eq!(
                fs::read(path("copy").join(name)).unwrap(),
                fs::read(path("work").join(name)).unwrap(),
                "{name}"
            );
        }
        assert_eq!(copy.tree().await.unwrap(), tree);
        shell(&path("work"), "echo more >born/x; rm born/y").await;
        let tree = checkout.tree().await.unwrap();
        let patch = String::from_utf8(checkout.changes(&tree).await.unwrap()).unwrap();
        assert!(patch.contains("+more") && !patch.contains("born/y") && !patch.contains(NO_FILE), "{patch}");
    }

    #[tokio::test]
    async fn a_commit_that_no_branch_holds_is_checked_out() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::create_dir(path("origin")).unwrap();
        let begin = "git init -q -b main; echo a >a; git add a; git commit -qm a; git checkout -q --detach; ";
        let made = "echo b >b; git add b; git commit -qm b; git tag v1; git checkout -q main";
        shell(&path("origin"), &format!("{begin}{made}")).await;
        let there = commit(&path("origin"), "v1").await.unwrap();
        let source = Source::Repository { url: format!("file://{}", path("origin").display()) };
        let make = async |number: u8, commit: &CommitId| {
            let (work, private) = (path(&format!("work-{number}")), path(&format!("private-{number}")));
            fs::create_dir(&private).unwrap();
            Checkout::make(&work, &private, &source, &path("bundle"), commit).await.map(|_| work)
        };
        let work = make(1, &there).await.unwrap();
        assert_eq!(fs::read_to_string(work.join("b")).unwrap(), "b\n");
        let nowhere = CommitId::parse(&"1".repeat(40)).unwrap();
        assert!(matches!(make(2, &nowhere).await, Err(CheckoutError::NoCommit(_))));
    }

    #[tokio::test]
    async fn a_repository_whose_ids_are_sha_256_is_bundled_and_checked_out() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        for name in ["origin", "private", "scratch"] {
            fs::create_dir(path(name)).unwrap();
        }
        let line = "git init -q --object-format=sha256; echo a >a; git add a; git commit -qm a";
        shell(&path("origin"), line).await;
        let there = commit(&path("origin"), "HEAD").await.unwrap();
        bundle(&path("origin"), &there, &path("scratch"), &path("bundle")).await.unwrap();
        let source = Source::Bundle { file: "bundle".to_owned() };
        let checkout =
            Checkout::make(&path("work"), &path("private"), &source, &path("bundle"), &there).await.unwrap();
        fs::write(path("work").join("a"), "b\n").unwrap();
        let patch = checkout.changes(&checkout.tree().await.unwrap()).await.unwrap();
        let changed = crate::worker::patch::apply(&path("origin"), &patch, |_| false).await.unwrap();
        assert_eq!(
            (changed, fs::read_to_string(path("origin").join("a")).unwrap()),
            (vec!["a".to_owned()], "b\n".to_owned())
        );
    }

    #[tokio::test]
    async fn a_shallow_clone_is_no_source_of_a_bundle() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        for name in ["origin", "scratch"] {
            fs::create_dir(path(name)).unwrap();
        }
        let line = "git init -q; for name in a b; do echo $name >$name; git add $name; git commit -qm $name; done; \
                    git clone -q --depth 1 file://$PWD ../shallow";
        shell(&path("origin"), line).await;
        let there = commit(&path("shallow"), "HEAD").await.unwrap();
        let refused = bundle(&path("shallow"), &there, &path("scratch"), &path("bundle")).await.unwrap_err();
        assert!(refused.to_string().contains("git fetch --unshallow"), "{refused}");
    }

    #[test]
    fn a_disk_that_is_full_is_no_fault_of_what_was_submitted() {
        let refused = |reason: &str| {
            let reason = reason.to_owned();
            CheckoutError::Git(GitFailure::Refused { what: "add".to_owned(), reason }).is_lasting()
        };
        assert!(refused("error: 'sub/' does not have a commit checked out"));
        assert!(!refused("fatal: cannot write: No space left on device"));
    }
}
