//! Attachments from git: its uncommitted changes, and single commits.
//!
//! A repository is as hostile as its files: git runs with the environment of commands, without hooks,
//! pagers, external diffs, text conversions, submodules and transports, and not at all where the
//! repository itself names filter programs or is not the workspace's own. What `.rooignore` hides or what may hold secrets is left out.

mod repository;
mod snapshot;
mod work_tree;

pub(crate) use self::snapshot::{ChangedPath, Snapshots};
pub(crate) use self::work_tree::{NewWorkTree, WorkTreePurpose, copy_directory, make_parents};

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

use self::repository::{QUESTIONS, Repository};
use roo_process::{ProcessEnd, ProcessOutput, run_for_output};
use roo_sandbox::exec::{Environment, Escapes, find_program};
use roo_text::render::{cut, exact_line, one_line};
use roo_workspace::{PathError, Purpose, ReadAccess, Workspace};

/// The most lines of one answer.
const LINES: usize = 500;

/// The most files that are listed.
const LISTED: usize = 200;

/// The most characters of one line.
const LINE_CHARACTERS: usize = 2000;

/// Time limit for the whole answer.
const DEADLINE: Duration = Duration::from_secs(20);

/// Time limits for the two steps of a summary, for which the first request of every task waits. To count changes takes
/// seconds in a large repository on a slow disk; then the branch alone is told.
const SUMMARY: SummaryLimits =
    SummaryLimits { changes: Duration::from_millis(200), branch: Duration::from_millis(200) };

/// The longest name of a branch with what it follows, in characters.
const BRANCH: usize = 200;

/// The most that is read of what git prints, in bytes.
const OUTPUT: u64 = 4 << 20;

/// The most files that are kept out of one diff; they are named on git's command line.
const MAX_WITHHELD_FILES: usize = 500;

/// Arguments common to all calls of git. The environment of commands says much of it, too; here it can be read.
const ALWAYS: &[&str] = &[
    "--no-pager",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.pager=cat",
    "-c",
    "protocol.allow=never",
];

/// Arguments of all calls that show changes.
const DIFF: &[&str] = &[
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--no-renames",
    "--ignore-submodules=all",
    // Only what is below the directory, and paths from there.
    "--relative",
];

/// Time limits for the steps of a summary.
struct SummaryLimits {
    /// For the number of changed files.
    changes: Duration,
    /// For the branch, where that took too long.
    branch: Duration,
}

fn not_started(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "git isn't installed, or not in PATH".to_owned(),
        _ => format!("git can't be run: {error}"),
    }
}

/// Reasons why there is nothing to show. The texts are for people and models.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GitError {
    #[error("no workspace folder is open")]
    NoRoot,
    #[error("{}", not_started(.0))]
    Start(#[from] io::Error),
    #[error("git refused: {0}")]
    Refused(String),
    #[error("git took longer than {} seconds", .0.as_secs())]
    TimedOut(Duration),
    #[error("it was cancelled")]
    Cancelled,
    #[error("the repository's own configuration names programs that git would run for it ({0})")]
    Filters(String),
    #[error("the repository or its work tree is outside this workspace and doesn't refer back to it")]
    Elsewhere,
    #[error("the repository takes objects from elsewhere, through alternates or symlinks")]
    Borrows,
    #[error("there is no such commit in this repository")]
    NoCommit,
    #[error("the workspace is in no git repository")]
    NoRepository,
    #[error("the repository has no commit yet")]
    Unborn,
    #[error("its files can't be written: {0}")]
    Files(io::Error),
    #[error("more than {MAX_WITHHELD_FILES} of its files must be withheld")]
    TooManyWithheld,
    #[error("it changes too many files")]
    TooManyFiles,
}

/// The git repository of a workspace's first folder.
pub(crate) struct Git<'a> {
    pub(crate) workspace: &'a Workspace,
    pub(crate) environment: &'a Environment,
}

impl Git<'_> {
    /// The state of the working tree: status and diff against the last commit.
    pub(super) async fn changes(&self) -> Result<String, GitError> {
        within(self.read_changes()).await
    }

    /// A commit: who, when and why, what it changed, and how. `id` holds hexadecimal digits only.
    pub(super) async fn commit(&self, id: &str) -> Result<String, GitError> {
        within(self.read_commit(id)).await
    }

    /// The branch, and how many files are changed, in one line.
    pub(crate) async fn summary(&self) -> Result<String, GitError> {
        self.summary_within(SUMMARY).await
    }

    async fn summary_within(&self, limits: SummaryLimits) -> Result<String, GitError> {
        // Without starting a program: every task asks.
        let root = self.workspace.roots().paths().next().ok_or(GitError::NoRoot)?;
        if !root.ancestors().any(|above| above.join(".git").symlink_metadata().is_ok()) {
            return Err(GitError::NoRepository);
        }
        match timeout(limits.changes, self.count_changes()).await {
            Ok(counted) => counted,
            Err(_) => timeout(limits.branch, self.branch_alone())
                .await
                .unwrap_or(Err(GitError::TimedOut(limits.branch))),
        }
    }

    async fn branch_alone(&self) -> Result<String, GitError> {
        self.check_repository().await?;
        let branch = self.line(&["symbolic-ref", "--short", "HEAD"]).await?;
        Ok(format!("{}: changes not counted, as that takes long here", one_line(&branch, BRANCH)))
    }

    async fn count_changes(&self) -> Result<String, GitError> {
        self.check_repository().await?;
        self.check_filters().await?;
        let status =
            ["status", "--branch", "--porcelain=v1", "-z", "--untracked-files=normal", "--no-renames"];
        let status = self.names(&[&status[..], &["--ignore-submodules=all", "--", "."]].concat()).await?;
        let (mut branch, mut changed, mut untracked) = (String::new(), 0, 0);
        for entry in &status {
            match entry.get(..3) {
                Some(b"## ") => branch = String::from_utf8_lossy(&entry[3..]).into_owned(),
                Some(b"?? ") => untracked += 1,
                _ => changed += 1,
            }
        }
        let branch = one_line(&branch, BRANCH);
        Ok(match (changed, untracked) {
            (0, 0) => format!("{branch}: no changes"),
            (changed, 0) => format!("{branch}: {changed} changed"),
            (changed, untracked) => format!("{branch}: {changed} changed, {untracked} untracked"),
        })
    }

    async fn read_changes(&self) -> Result<String, GitError> {
        self.check_repository().await?;
        let prefix = self.line(&["rev-parse", "--show-prefix"]).await?;
        self.check_filters().await?;
        let status = ["status", "--porcelain=v1", "-z", "--untracked-files=normal", "--no-renames"];
        let status = self.names(&[&status[..], &["--ignore-submodules=all", "--", "."]].concat()).await?;
        let mut shown = ChangedFiles::default();
        for entry in &status {
            let Some((state, path)) = entry.split_at_checked(3) else { continue };
            // The paths of this format begin at the top of the repository.
            let path = path.strip_prefix(prefix.as_bytes()).unwrap_or(path);
            self.list(&mut shown, path, &String::from_utf8_lossy(state));
        }
        if shown.is_empty() {
            return Ok("There are no changes.".to_owned());
        }
        let against = match self.run(&["rev-parse", "--verify", "--quiet", "HEAD"]).await?.is_success() {
            true => "HEAD",
            // Before the first commit there is only what is staged.
            false => "--cached",
        };
        let diff = self.show(&["diff", against], &[], &shown).await?;
        Ok(bounded(&format!("{}\n{diff}", shown.text())))
    }

    async fn read_commit(&self, id: &str) -> Result<String, GitError> {
        let named = format!("{id}^{{commit}}");
        self.check_repository().await?;
        let found = self.run(&["rev-parse", "--verify", "--quiet", "--end-of-options", &named]).await?;
        let hash = String::from_utf8_lossy(&found.stdout).trim().to_owned();
        if !found.is_success() || hash.is_empty() {
            return Err(GitError::NoCommit);
        }
        let format = "--format=commit %H%nAuthor: %an <%ae>%nDate: %ad%n%n%B";
        let head = ["show", "--no-patch", "--no-show-signature", "--no-notes", "--date=iso-strict", format];
        let head = self.text(&[&head[..], &[&hash]].concat()).await?;
        let base = ["show", "--diff-merges=first-parent", "--format="];
        let names = self.names(&[&base[..], DIFF, &["--name-only", "-z", &hash]].concat()).await?;
        let mut shown = ChangedFiles::default();
        names.iter().for_each(|path| self.list(&mut shown, path, ""));
        if shown.is_empty() {
            return Ok(bounded(&format!("{}\n\nIt changes nothing in this workspace.", head.trim_end())));
        }
        let diff = self.show(&[&base[..], &["--stat=100", "--patch"]].concat(), &[&hash], &shown).await?;
        let withheld = shown.withheld_note();
        Ok(bounded(&format!(
            "{}\n\n{}\n{withheld}",
            head.trim_end(),
            diff.trim_start_matches('\n').trim_end()
        )))
    }

    /// Runs a command that shows changes, without the files that may not be shown.
    async fn show(
        &self,
        command: &[&str],
        revision: &[&str],
        shown: &ChangedFiles,
    ) -> Result<String, GitError> {
        if shown.withheld.len() > MAX_WITHHELD_FILES {
            return Err(GitError::TooManyWithheld);
        }
        let mut arguments: Vec<OsString> =
            [command, DIFF, revision, &["--", "."]].concat().into_iter().map(OsString::from).collect();
        arguments.extend(shown.withheld.iter().map(|path| {
            let mut exclude = OsString::from(":(exclude,literal)");
            exclude.push(path);
            exclude
        }));
        self.text(&arguments).await
    }

    /// Lists a changed file, if it may be shown.
    fn list(&self, shown: &mut ChangedFiles, path: &[u8], state: &str) {
        match std::str::from_utf8(path) {
            Ok(text) => {
                let line = format!("{state}{}", exact_line(text));
                shown.list(self.access(text), OsStr::from_bytes(path), line);
            }
            // No rule can be asked about it.
            Err(_) => shown.list(ReadAccess::Outside, OsStr::from_bytes(path), String::new()),
        }
    }

    /// Refuses a repository that is not the workspace's own, and says where there is none.
    async fn check_repository(&self) -> Result<(), GitError> {
        let root = self.workspace.roots().paths().next().ok_or(GitError::NoRoot)?;
        let repository = Repository::parse(root, &self.text(QUESTIONS).await?)?;
        if !repository.is_own() {
            let config = repository.config();
            let question = ["--null", "--get", "core.worktree"].map(OsStr::new);
            let arguments =
                [&[OsStr::new("config"), OsStr::new("--file"), config.as_os_str()], &question[..]];
            let found = self.run(&arguments.concat()).await?;
            let work_tree = std::str::from_utf8(&found.stdout).ok().and_then(|path| path.strip_suffix('\0'));
            if !work_tree.is_some_and(|path| found.is_success() && repository.is_submodule(path)) {
                return Err(GitError::Elsewhere);
            }
        }
        repository.check_contents()
    }

    /// Filters run programs when a changed file is looked at. Those of the user's own configuration
    /// may; a repository has none to choose.
    async fn check_filters(&self) -> Result<(), GitError> {
        let root = self.workspace.roots().paths().next().ok_or(GitError::NoRoot)?.to_owned();
        self.check_filters_in(&root).await
    }

    /// Checks the configuration that counts in a directory.
    async fn check_filters_in(&self, directory: &Path) -> Result<(), GitError> {
        let arguments = ["config", "--show-scope", "--name-only", "--get-regexp", "^filter\\..*\\."];
        let found = self.run_in(directory, &arguments).await?;
        // 1 says that there are none; anything else, that nobody knows.
        if !matches!(found.end, ProcessEnd::Code(0 | 1)) {
            return Err(refused(&found));
        }
        let names = String::from_utf8_lossy(&found.stdout);
        let own = names.lines().find_map(|line| {
            let (scope, name) = line.split_once('\t')?;
            (!matches!(scope, "global" | "system" | "command")).then_some(name)
        });
        match own {
            Some(name) => Err(GitError::Filters(one_line(name, 100))),
            None => Ok(()),
        }
    }

    /// Returns the access to a path and to its target.
    fn access(&self, path: &str) -> ReadAccess {
        let Ok(root) = self.workspace.resolve(".", Purpose::List) else { return ReadAccess::Outside };
        let by_name = match self.workspace.rules(&root) {
            Some(rules) => rules.access(path.trim_end_matches('/'), path.ends_with('/')),
            None => ReadAccess::Outside,
        };
        if by_name != ReadAccess::Free {
            return by_name;
        }
        match self.workspace.resolve(path, Purpose::Read) {
            Ok(place) => self.workspace.read_access(&place),
            // A new directory, or one in the place of a file: its name decides.
            Err(PathError::IsADirectory { .. }) => by_name,
            // What git tracks there is the link, or something that is gone.
            Err(
                PathError::DanglingLink { .. } | PathError::NotFound { .. } | PathError::NotADirectory { .. },
            ) => by_name,
            Err(_) => ReadAccess::Outside,
        }
    }

    /// Returns the output of git, or its beginning.
    async fn text(&self, arguments: &[impl AsRef<OsStr>]) -> Result<String, GitError> {
        let output = self.run(arguments).await?;
        if !output.is_success() && !is_cut(&output) {
            return Err(refused(&output));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// The one line that git prints, without its end.
    async fn line(&self, arguments: &[&str]) -> Result<String, GitError> {
        let mut line = self.text(arguments).await?;
        if line.ends_with('\n') {
            line.pop();
        }
        Ok(line)
    }

    /// The names that git prints, all of them: what is left out of a diff must not depend on a limit.
    async fn names(&self, arguments: &[&str]) -> Result<Vec<Vec<u8>>, GitError> {
        let output = self.run(arguments).await?;
        if is_cut(&output) {
            return Err(GitError::TooManyFiles);
        }
        if !output.is_success() {
            return Err(refused(&output));
        }
        let names = output.stdout.split(|&byte| byte == 0);
        Ok(names.filter(|name| !name.trim_ascii().is_empty()).map(<[u8]>::to_vec).collect())
    }

    async fn run(&self, arguments: &[impl AsRef<OsStr>]) -> Result<ProcessOutput, GitError> {
        let root = self.workspace.roots().paths().next().ok_or(GitError::NoRoot)?.to_owned();
        self.run_in(&root, arguments).await
    }

    async fn run_in(
        &self,
        directory: &Path,
        arguments: &[impl AsRef<OsStr>],
    ) -> Result<ProcessOutput, GitError> {
        let roots: Vec<PathBuf> = self.workspace.roots().paths().map(Path::to_path_buf).collect();
        start(directory, &roots, self.environment, arguments).await.map_err(GitError::Start)
    }
}

/// Returns whether git had more to print than was read.
fn is_cut(output: &ProcessOutput) -> bool {
    output.stdout.len() as u64 >= OUTPUT
}

fn refused(output: &ProcessOutput) -> GitError {
    let error = String::from_utf8_lossy(&output.stderr);
    GitError::Refused(one_line(&Escapes::default().plain(&error), 300))
}

async fn within(work: impl Future<Output = Result<String, GitError>>) -> Result<String, GitError> {
    timeout(DEADLINE, work).await.unwrap_or(Err(GitError::TimedOut(DEADLINE)))
}

/// Runs git to its end. It is killed when the future is dropped.
async fn start(
    directory: &Path,
    roots: &[PathBuf],
    environment: &Environment,
    arguments: &[impl AsRef<OsStr>],
) -> io::Result<ProcessOutput> {
    start_with(directory, roots, environment, arguments, &[], OUTPUT).await
}

/// The same with further variables, reading at most `limit` bytes.
async fn start_with(
    directory: &Path,
    roots: &[PathBuf],
    environment: &Environment,
    arguments: &[impl AsRef<OsStr>],
    variables: &[(&str, OsString)],
    limit: u64,
) -> io::Result<ProcessOutput> {
    let program = find_program(environment, "git", roots).ok_or(io::ErrorKind::NotFound)?;
    let mut command = Command::new(program);
    command
        .args(ALWAYS)
        .args(arguments)
        .current_dir(directory)
        .env_clear()
        .envs(environment.clone().cautious_git().variables())
        .env("GIT_OPTIONAL_LOCKS", "0")
        .env("GIT_NO_LAZY_FETCH", "1")
        .env("GIT_TERMINAL_PROMPT", "0")
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // A pipe that is full enough is closed, and git with it.
    run_for_output(command, limit).await
}

/// The changed files, as far as they may be shown.
#[derive(Default)]
struct ChangedFiles {
    lines: Vec<String>,
    /// Files after the last line.
    more: usize,
    /// Files whose changes are left out of diffs.
    withheld: BTreeSet<OsString>,
}

impl ChangedFiles {
    fn list(&mut self, access: ReadAccess, path: &OsStr, line: String) {
        if access != ReadAccess::Free {
            self.withheld.insert(path.to_owned());
        }
        // The name of what may hold a secret is no secret.
        match access {
            ReadAccess::Free | ReadAccess::Secret if self.lines.len() == LISTED => self.more += 1,
            ReadAccess::Free | ReadAccess::Secret => self.lines.push(line),
            ReadAccess::Ignored | ReadAccess::Outside => {}
        }
    }

    fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.withheld.is_empty()
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for line in &self.lines {
            text.push_str(line);
            text.push('\n');
        }
        if self.more > 0 {
            text.push_str(&format!("({} more files)\n", self.more));
        }
        text + &self.withheld_note()
    }

    fn withheld_note(&self) -> String {
        match self.withheld.len() {
            0 => String::new(),
            count => format!(
                "({count} of the changed or new files are not shown: hidden by .rooignore, perhaps secret, or oddly \
                 named.)\n"
            ),
        }
    }
}

/// At most [`LINES`] lines, without control sequences.
fn bounded(text: &str) -> String {
    let text = Escapes::default().plain(text).into_owned();
    let mut lines: Vec<_> = text.lines().map(|line| cut(line, LINE_CHARACTERS)).collect();
    if lines.len() > LINES {
        let note = format!("(Only {} of {} lines are shown.)", LINES - 1, lines.len());
        lines.truncate(LINES - 1);
        lines.push(note.into());
    }
    lines.join("\n").trim_end().to_owned()
}

#[cfg(test)]
mod tests;
