use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;

use tokio_util::sync::CancellationToken;

use super::*;
use roo_text::position::Encoding;
use roo_workspace::Setup;

/// A repository whose workspace is one of its directories, or all of it.
struct Fixture {
    directory: tempfile::TempDir,
    workspace: Workspace,
    environment: Environment,
}

impl Fixture {
    fn new(below: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path().join("repository");
        fs::create_dir_all(top.join(below)).unwrap();
        let workspace = Workspace::open(Setup {
            folders: vec![top.join(below)],
            state_directory: directory.path().join("state"),
            documents: Default::default(),
            editor: None,
            encoding: Encoding::Utf16,
        })
        .unwrap();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let environment =
            Environment::chosen([("PATH".into(), path), ("HOME".into(), directory.path().into())]);
        let fixture = Self { directory, workspace, environment };
        fixture.run(&["init", "-q", "-b", "main"]);
        fixture
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join("repository").join(name)
    }

    fn put(&self, name: &str, text: &str) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), text).unwrap();
    }

    /// Runs git as a user would, and returns what it printed.
    fn run(&self, arguments: &[&str]) -> String {
        let identity = ["NAME", "EMAIL"]
            .iter()
            .flat_map(|what| ["AUTHOR", "COMMITTER"].map(|who| (format!("GIT_{who}_{what}"), "ada")));
        let output = std::process::Command::new("git")
            .args(arguments)
            .current_dir(self.path(""))
            .env_clear()
            .envs(self.environment.variables())
            .envs(identity)
            .env("GIT_AUTHOR_DATE", "2026-01-02T03:04:05Z")
            .env("GIT_COMMITTER_DATE", "2026-01-02T03:04:05Z")
            .output()
            .unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Commits everything and returns the commit.
    fn commit(&self, message: &str) -> String {
        self.run(&["add", "-A"]);
        self.run(&["commit", "-q", "-m", message]);
        self.run(&["rev-parse", "HEAD"])
    }

    fn git(&self) -> Git<'_> {
        Git { workspace: &self.workspace, environment: &self.environment }
    }
}

#[tokio::test]
async fn a_summary_counts_changes_and_names_the_branch_alone_where_that_takes_long() {
    let fixture = Fixture::new("");
    fixture.put("a.txt", "one\n");
    fixture.commit("First");
    fixture.put("a.txt", "two\n");
    fixture.put("b.txt", "new\n");
    let branch = Duration::from_secs(60);
    let summary =
        async |changes| fixture.git().summary_within(SummaryLimits { changes, branch }).await.unwrap();
    assert_eq!(summary(branch).await, "main: 1 changed, 1 untracked");
    assert_eq!(summary(Duration::ZERO).await, "main: changes not counted, as that takes long here");
}

#[tokio::test]
async fn changes_are_status_and_diff() {
    let fixture = Fixture::new("");
    fixture.put("a.txt", "one\n");
    fixture.put("b.txt", "b\n");
    fixture.commit("start");
    assert_eq!(fixture.git().changes().await.unwrap(), "There are no changes.");
    fixture.put("a.txt", "two\n");
    fixture.put("new\n.txt", "");
    fixture.put("staged.txt", "s\n");
    fixture.run(&["add", "staged.txt"]);
    fs::remove_file(fixture.path("b.txt")).unwrap();
    insta::assert_snapshot!(fixture.git().changes().await.unwrap(), @"
     M a.txt
     D b.txt
    A  staged.txt
    (1 of the changed or new files are not shown: hidden by .rooignore, perhaps secret, or oddly named.)

    diff --git a/a.txt b/a.txt
    index 5626abf..f719efd 100644
    --- a/a.txt
    +++ b/a.txt
    @@ -1 +1 @@
    -one
    +two
    diff --git a/b.txt b/b.txt
    deleted file mode 100644
    index 6178079..0000000
    --- a/b.txt
    +++ /dev/null
    @@ -1 +0,0 @@
    -b
    diff --git a/staged.txt b/staged.txt
    new file mode 100644
    index 0000000..b478595
    --- /dev/null
    +++ b/staged.txt
    @@ -0,0 +1 @@
    +s
    ");
}

#[tokio::test]
async fn before_the_first_commit_what_is_staged_is_shown() {
    let fixture = Fixture::new("");
    fixture.put("a.txt", "one\n");
    fixture.run(&["add", "a.txt"]);
    let text = fixture.git().changes().await.unwrap();
    assert!(text.starts_with("A  a.txt\n") && text.contains("\n+one"), "{text}");
}

#[tokio::test]
async fn only_what_is_in_the_workspace_is_shown() {
    let fixture = Fixture::new("sub/w");
    fixture.put("outside.txt", "1\n");
    fixture.put("sub/w/inside.txt", "1\n");
    let commit = fixture.commit("both");
    fixture.put("outside.txt", "hunter2\n");
    fixture.put("sub/w/inside.txt", "2\n");
    let text = fixture.git().changes().await.unwrap();
    assert!(text.starts_with(" M inside.txt\n") && text.contains("--- a/inside.txt"), "{text}");
    assert!(!text.contains("outside") && !text.contains("hunter2"), "{text}");
    let text = fixture.git().commit(&commit).await.unwrap();
    assert!(text.contains("+++ b/inside.txt") && !text.contains("outside"), "{text}");

    fixture.run(&["checkout", "-q", "."]);
    fixture.put("outside.txt", "2\n");
    let commit = fixture.commit("elsewhere");
    let text = fixture.git().commit(&commit).await.unwrap();
    assert!(text.ends_with("elsewhere\n\nIt changes nothing in this workspace."), "{text}");
}

#[tokio::test]
async fn hidden_files_and_secrets_are_left_out() {
    let fixture = Fixture::new("");
    fixture.put(".rooignore", "private/\n");
    for name in ["private/a.txt", ".env", "open.txt", "[x]*.pem"] {
        fixture.put(name, "hunter2\n");
    }
    symlink(".env", fixture.path("link.txt")).unwrap();
    fixture.put("open.txt", "1\n");
    let odd = fixture.path("private").join(OsStr::from_bytes(b"\xff.txt"));
    fs::write(&odd, "hunter2\n").unwrap();
    let commit = fixture.commit("start");
    for name in ["private/a.txt", ".env", "[x]*.pem"] {
        fixture.put(name, "hunter3\n");
    }
    fs::write(&odd, "hunter3\n").unwrap();
    fixture.put("open.txt", "2\n");
    let changes = fixture.git().changes().await.unwrap();
    assert!(
        changes
            .starts_with(" M .env\n M [x]*.pem\n M open.txt\n(4 of the changed or new files are not shown"),
        "{changes}"
    );
    let commit = fixture.git().commit(&commit).await.unwrap();
    for text in [changes, commit] {
        assert!(
            text.contains("open.txt") && !text.contains("hunter") && !text.contains("private/a"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn a_commit_has_a_head_a_summary_and_a_diff() {
    let fixture = Fixture::new("");
    fixture.put("a.txt", "one\n");
    fixture.commit("start");
    fixture.put("a.txt", "two\n");
    let commit = fixture.commit("Count on\n\nOne is not enough.");
    assert_eq!(
        fixture.git().commit(&commit[..7]).await.unwrap(),
        fixture.git().commit(&commit).await.unwrap()
    );
    let text = fixture.git().commit(&commit).await.unwrap().replace(&commit, "<hash>");
    insta::assert_snapshot!(text, @"
    commit <hash>
    Author: ada <ada>
    Date: 2026-01-02T03:04:05Z

    Count on

    One is not enough.

     a.txt | 2 +-
     1 file changed, 1 insertion(+), 1 deletion(-)

    diff --git a/a.txt b/a.txt
    index 5626abf..f719efd 100644
    --- a/a.txt
    +++ b/a.txt
    @@ -1 +1 @@
    -one
    +two
    ");
}

#[tokio::test]
async fn a_merge_is_shown_against_its_first_parent() {
    let fixture = Fixture::new("");
    fixture.put("a.txt", "1\n");
    fixture.commit("start");
    fixture.run(&["checkout", "-q", "-b", "side"]);
    fixture.put("side.txt", "side\n");
    fixture.commit("side");
    fixture.run(&["checkout", "-q", "main"]);
    fixture.put("b.txt", "b\n");
    fixture.commit("main");
    fixture.run(&["merge", "-q", "--no-ff", "-m", "both", "side"]);
    let text = fixture.git().commit(&fixture.run(&["rev-parse", "HEAD"])).await.unwrap();
    assert!(text.contains("+side") && !text.contains("b.txt"), "{text}");
}

#[tokio::test]
async fn what_is_no_commit_says_so() {
    let fixture = Fixture::new("");
    fixture.put("a.txt", "one\n");
    fixture.commit("start");
    let blob = fixture.run(&["rev-parse", "HEAD:a.txt"]);
    for id in ["0123456", blob.as_str()] {
        assert!(matches!(fixture.git().commit(id).await, Err(GitError::NoCommit)), "{id}");
    }
    fs::remove_dir_all(fixture.path(".git")).unwrap();
    let error = fixture.git().changes().await.unwrap_err().to_string();
    assert!(error.contains("not a git repository"), "{error}");
}

#[tokio::test]
async fn long_answers_and_lines_are_cut() {
    let fixture = Fixture::new("");
    fixture.put("a.txt", "");
    fixture.commit("start");
    fixture.put("a.txt", &format!("{}\n{}\u{1b}[2Jend\n", "é".repeat(3000), "x\n".repeat(600)));
    let text = fixture.git().changes().await.unwrap();
    assert_eq!(text.lines().count(), LINES);
    assert!(text.ends_with("lines are shown.)") && !text.contains('\u{1b}'), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= LINE_CHARACTERS));
}

#[tokio::test]
async fn a_git_that_lies_in_the_workspace_is_not_run() {
    let mut fixture = Fixture::new("");
    fixture.put("a.txt", "one\n");
    fixture.put("bin/git", "#!/bin/sh\ntouch \"$(dirname \"$0\")/ran\"\n");
    fs::set_permissions(fixture.path("bin/git"), fs::Permissions::from_mode(0o755)).unwrap();
    let search = fixture.environment.get("PATH").unwrap().to_owned();
    let search = format!("{}:{}", fixture.path("bin").display(), search.to_string_lossy());
    fixture.environment = Environment::chosen([("PATH".into(), search.into())]);
    assert!(fixture.git().changes().await.unwrap().contains("a.txt"));
    assert!(!fixture.path("bin/ran").exists());
}

/// A repository that wants a program run has it run by nobody.
#[tokio::test]
async fn a_repository_runs_no_program() {
    let fixture = Fixture::new("");
    fixture.put("a.txt", "one\n");
    fixture.commit("start");
    fixture.put("a.txt", "two\n");
    let commit = fixture.commit("next");
    let trap = fixture.directory.path().join("trap.sh");
    let trapped = fixture.directory.path().join("trapped");
    fs::write(&trap, "#!/bin/sh\ntouch \"$(dirname \"$0\")/trapped\"\ncat \"$@\"\n").unwrap();
    fs::set_permissions(&trap, fs::Permissions::from_mode(0o755)).unwrap();
    let trap = trap.to_string_lossy();
    for key in [
        "core.fsmonitor",
        "core.pager",
        "pager.diff",
        "pager.show",
        "pager.status",
        "core.sshCommand",
        "diff.external",
        "diff.evil.command",
        "diff.evil.textconv",
        "gpg.program",
    ] {
        fixture.run(&["config", key, &trap]);
    }
    fixture.run(&["config", "log.showSignature", "true"]);
    fixture.put(".gitattributes", "* diff=evil\n");
    fs::create_dir_all(fixture.path(".git/hooks")).unwrap();
    fs::copy(&*trap, fixture.path(".git/hooks/post-index-change")).unwrap();
    fixture.put("a.txt", "three\n");
    assert!(fixture.git().changes().await.unwrap().contains("+three"));
    assert!(fixture.git().commit(&commit).await.unwrap().contains("+two"));
    assert!(!trapped.exists());

    // A filter can't be turned off by name, so nothing is looked at.
    fixture.put(".gitattributes", "* filter=evil\n");
    fixture.run(&["config", "filter.evil.clean", &trap]);
    fixture.put("a.txt", "four\n");
    let error = fixture.git().changes().await.unwrap_err();
    assert!(matches!(&error, GitError::Filters(name) if name == "filter.evil.clean"), "{error}");
    assert!(fixture.git().commit(&commit).await.unwrap().contains("+two"));
    assert!(!trapped.exists());
    // The trap works: a plain diff, as a user may run it, does run the filter.
    fixture.run(&["diff", "--no-ext-diff", "--no-textconv"]);
    assert!(trapped.exists());
}

#[tokio::test]
async fn filters_of_the_users_own_configuration_are_theirs() {
    let fixture = Fixture::new("");
    fixture.put("a.txt", "one\n");
    fixture.commit("start");
    fixture.put("a.txt", "two\n");
    fs::write(fixture.directory.path().join(".gitconfig"), "[filter \"own\"]\nclean = cat\n").unwrap();
    assert!(fixture.git().changes().await.unwrap().contains("+two"));
}

/// Another repository on the machine, beside the workspace's, with a commit and a change; the commit.
fn other(fixture: &Fixture, name: &str) -> String {
    let top = fixture.directory.path().join(name);
    fs::create_dir_all(&top).unwrap();
    let top = top.to_str().unwrap();
    fs::write(format!("{top}/a.txt"), "hunter2\n").unwrap();
    fixture.run(&["-C", top, "init", "-q", "-b", "main"]);
    fixture.run(&["-C", top, "add", "-A"]);
    fixture.run(&["-C", top, "commit", "-q", "-m", "hunter2"]);
    fixture.run(&["-C", top, "rev-parse", "HEAD"])
}

async fn assert_elsewhere(fixture: &Fixture, commit: &str) {
    for found in [fixture.git().changes().await, fixture.git().commit(commit).await] {
        assert!(matches!(found, Err(GitError::Elsewhere)), "{found:?}");
    }
}

#[tokio::test]
async fn a_redirection_to_another_repository_is_not_followed() {
    let fixture = Fixture::new("");
    let commit = other(&fixture, "other");
    let redirect = |to: &str| {
        let _ = fs::remove_dir_all(fixture.path(".git"));
        let _ = fs::remove_file(fixture.path(".git"));
        fs::write(fixture.path(".git"), format!("gitdir: {to}\n")).unwrap();
    };
    let elsewhere = fixture.directory.path().join("other/.git");
    redirect(elsewhere.to_str().unwrap());
    assert_elsewhere(&fixture, &commit).await;
    redirect("../other/.git");
    assert_elsewhere(&fixture, &commit).await;

    // One that claims to be a work tree of it.
    fixture.put("evil/HEAD", &commit);
    fixture.put("evil/commondir", elsewhere.to_str().unwrap());
    fixture.put("evil/gitdir", fixture.path(".git").to_str().unwrap());
    redirect("evil");
    assert_elsewhere(&fixture, &commit).await;

    // A work tree of it that belongs to another directory.
    let linked = fixture.directory.path().join("linked");
    let other = fixture.directory.path().join("other");
    fs::remove_file(fixture.path(".git")).unwrap();
    fixture.run(&["-C", other.to_str().unwrap(), "worktree", "add", "-q", linked.to_str().unwrap()]);
    redirect(elsewhere.join("worktrees/linked").to_str().unwrap());
    assert_elsewhere(&fixture, &commit).await;

    fs::remove_file(fixture.path(".git")).unwrap();
    symlink(&elsewhere, fixture.path(".git")).unwrap();
    assert_elsewhere(&fixture, &commit).await;
}

#[tokio::test]
async fn a_work_tree_that_lies_elsewhere_is_not_shown() {
    let fixture = Fixture::new("");
    fixture.put("a.txt", "one\n");
    let commit = fixture.commit("start");
    let elsewhere = fixture.directory.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::write(elsewhere.join("a.txt"), "hunter2\n").unwrap();
    fixture.run(&["config", "core.worktree", elsewhere.to_str().unwrap()]);
    assert_elsewhere(&fixture, &commit).await;
}

#[tokio::test]
async fn contents_that_lie_elsewhere_are_not_shown() {
    let fixture = Fixture::new("");
    fixture.put("a.txt", "one\n");
    fixture.commit("start");
    let commit = other(&fixture, "other");
    let objects = fixture.directory.path().join("other/.git/objects");
    let info = ".git/objects/info/alternates";
    let assert_borrows = async || {
        for found in [fixture.git().changes().await, fixture.git().commit(&commit).await] {
            assert!(matches!(found, Err(GitError::Borrows)), "{found:?}");
        }
    };
    fixture.put(info, &format!("{}\n", objects.display()));
    assert_borrows().await;
    fixture.put(info, "# near\n../../../other/.git/objects\n");
    assert_borrows().await;
    // Read as git reads it, and not as the disk would.
    let quoted = format!("\"{}\"", objects.display());
    fs::create_dir_all(fixture.path(".git/objects").join(&quoted)).unwrap();
    fixture.put(info, &format!("{quoted}\n"));
    assert_borrows().await;
    fs::create_dir_all(fixture.path("other/.git/objects")).unwrap();
    fs::create_dir_all(fixture.path("a/b/c/d")).unwrap();
    symlink(fixture.path("a/b/c/d"), fixture.path(".git/objects/l")).unwrap();
    fixture.put(info, "l/../../../../other/.git/objects\n");
    assert_borrows().await;
    // By one of its own.
    fixture.put("objects/info/alternates", &format!("{}\n", objects.display()));
    fixture.put(info, "../../objects\n");
    assert_borrows().await;
    // Alternates that lead to each other end.
    fixture.put("objects/info/alternates", "../.git/objects\n");
    assert_borrows().await;
    fs::remove_file(fixture.path("objects/info/alternates")).unwrap();
    assert!(fixture.git().changes().await.is_ok());

    fs::remove_file(fixture.path(info)).unwrap();
    symlink(objects.join(&commit[..2]), fixture.path(".git/objects").join(&commit[..2])).unwrap();
    assert_borrows().await;
    fs::remove_dir_all(fixture.path(".git/objects")).unwrap();
    symlink(&objects, fixture.path(".git/objects")).unwrap();
    assert_borrows().await;
}

/// A workspace over a directory of the machine, with the environment of a fixture.
fn workspace(fixture: &Fixture, name: &str) -> Workspace {
    Workspace::open(Setup {
        folders: vec![fixture.directory.path().join(name)],
        state_directory: fixture.directory.path().join("state"),
        documents: Default::default(),
        editor: None,
        encoding: Encoding::Utf16,
    })
    .unwrap()
}

#[tokio::test]
async fn linked_work_trees_and_submodules_are_the_workspaces_own() {
    let fixture = Fixture::new("");
    fixture.put("a.txt", "one\n");
    fixture.commit("start");
    let linked = fixture.directory.path().join("linked");
    fixture.run(&["worktree", "add", "-q", linked.to_str().unwrap()]);
    let commit = other(&fixture, "other");
    let other = fixture.directory.path().join("other");
    let add = ["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", other.to_str().unwrap()];
    fixture.run(&[&add[..], &["module"]].concat());

    fs::write(linked.join("a.txt"), "two\n").unwrap();
    let workspace_of = |name: &str| workspace(&fixture, name);
    let tree = workspace_of("linked");
    let git = Git { workspace: &tree, environment: &fixture.environment };
    assert!(git.changes().await.unwrap().contains("+two"));

    let module = workspace_of("repository/module");
    let git = Git { workspace: &module, environment: &fixture.environment };
    fs::write(fixture.path("module/a.txt"), "three\n").unwrap();
    assert!(git.changes().await.unwrap().contains("+three"));
    assert!(git.commit(&commit).await.unwrap().contains("+hunter2"));
}

/// Git itself fails now and then where two work trees come or go at the same time, so a git that refuses to change them without
/// the lock stands in for it.
#[tokio::test]
async fn one_work_tree_of_a_repository_comes_or_goes_at_a_time() {
    let fixture = Fixture::new("");
    fixture.put("a.txt", "one\n");
    fixture.commit("start");
    let programs = fixture.directory.path().join("programs");
    fs::create_dir(&programs).unwrap();
    let path = fixture.environment.variables().find(|(name, _)| *name == "PATH").unwrap().1.to_owned();
    let path = path.into_string().unwrap();
    let refusing = format!(
        "#!/bin/sh\ncase \"$*\" in *'worktree add'* | *'worktree remove'*)\n\
         flock --nonblock .git true && {{ echo 'not locked' >&2; exit 1; }};;\nesac\nPATH='{path}' exec git \"$@\"\n"
    );
    fs::write(programs.join("git"), refusing).unwrap();
    fs::set_permissions(programs.join("git"), fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{path}", programs.display());
    let home = fixture.directory.path().into();
    let environment = Environment::chosen([("PATH".into(), path.into()), ("HOME".into(), home)]);

    let git = Git { workspace: &fixture.workspace, environment: &environment };
    let cancel = CancellationToken::new();
    let make_and_remove = async |name: &str| {
        let made = git.add_work_tree(WorkTreePurpose::Branch, name, &cancel).await.unwrap();
        assert_eq!(fs::read_to_string(made.folder.join("a.txt")).unwrap(), "one\n");
        assert!(git.remove_merged_work_tree(&made.top).await, "{name}");
    };
    tokio::join!(make_and_remove("1"), make_and_remove("2"), make_and_remove("3"));
    assert_eq!(fixture.run(&["worktree", "list", "--porcelain"]).matches("worktree ").count(), 1);
    assert!(!fixture.directory.path().join("repository-branches").exists());
    let fork = git.add_work_tree(WorkTreePurpose::Fork, "4", &cancel).await.unwrap();
    assert!(git.remove_work_tree(&fork.top).await);
}
