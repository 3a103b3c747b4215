//! The files that say which programs run, as hooks or as MCP servers: the user's, and a workspace's, which counts as it was
//! approved. What they hold is in [`super::hook_files`] and [`super::mcp_files`].
//!
//! An approval is about the text, and about every script of the workspace that the commands name. When one of these
//! changes, nothing of the workspace's file runs until it is approved again.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::Scope;
use super::files::Files;
use super::script::{Script, ScriptState};
use super::trust::TrustState;
use roo_durable::{Fingerprint, WatchedFile};
use roo_formats::{FileProblem, Problem, Severity};
use roo_protocol::customization::{PendingKind, PendingTrust};
use roo_protocol::ids::Digest;

/// The most words of the commands of a file that may be files of the workspace.
const SCRIPTS_LIMIT: usize = 5000;

/// Programs that a file brings.
pub(super) trait Programs: Sized {
    /// Path of the workspace's file.
    const PROJECT: &'static str;
    /// The largest file, in bytes.
    const LIMIT: usize;
    /// Word for one of them.
    const ONE: &'static str;
    /// How grave it is that those of a trusted workspace wait for an approval.
    const WAITING: Severity;
    /// What happens to the last valid ones while the user's file is broken.
    const STAY: &'static str;

    /// Reads the text of a file; with what is wrong with parts of it.
    fn parse(text: &str, scope: Scope) -> Result<(Self, Vec<Problem>), Problem>;

    /// Returns whether there are none.
    fn is_empty(&self) -> bool;

    /// The files of the workspace that the commands name.
    fn scripts(&self, root: &Path) -> BTreeSet<PathBuf>;

    /// Of all that an approval is about, with the digest of the file's text and of each script; none when there is nothing
    /// to approve.
    fn approval(&self, text: Digest, scripts: &[(&Path, Digest)]) -> Option<Digest>;

    /// Lists what an approval lets happen, one line each.
    fn lines(&self) -> Vec<String>;
}

/// The user's file, and the workspace's.
pub(super) struct ProgramFiles<P> {
    user: ProgramFile<P>,
    project: Option<ProgramFile<P>>,
    root: Option<PathBuf>,
}

/// One file.
struct ProgramFile<P> {
    file: WatchedFile,
    scope: Scope,
    valid: Option<Valid<P>>,
    problems: Vec<FileProblem>,
    /// The first of the problems that leave something out.
    fault: Option<FileProblem>,
}

/// Content of the last valid version of a file.
struct Valid<P> {
    digest: Digest,
    programs: P,
    scripts: Vec<Script>,
}

impl<P: Programs> ProgramFiles<P> {
    pub(super) fn new(user: PathBuf, root: Option<&Path>) -> Self {
        Self {
            user: ProgramFile::new(user, Scope::Global),
            project: root.map(|root| ProgramFile::new(root.join(P::PROJECT), Scope::Project)),
            root: root.map(Path::to_owned),
        }
    }

    /// Returns whether it matters if the workspace is trusted: it has such a file, or had one just now.
    pub(super) fn depends_on_trust(&self) -> bool {
        let is_there = |file: &ProgramFile<P>| Fingerprint::from_file(file.file.path()).is_some();
        self.project.as_ref().is_some_and(|file| file.valid.is_some() || is_there(file))
    }

    /// Reads what may have changed; whether it had. Of a workspace that isn't trusted nothing is read. `now` is in
    /// milliseconds since the Unix epoch.
    pub(super) fn refresh(&mut self, files: &Files, trusted: bool, now: i64) -> bool {
        let mut changed = self.user.refresh(files, None, now);
        if let Some(project) = &mut self.project {
            changed |= match trusted {
                true => project.refresh(files, self.root.as_deref(), now),
                false => project.forget(),
            };
        }
        changed
    }

    /// Returns whether a file may be being saved, so that what it held before still counts.
    pub(super) fn is_being_saved(&self) -> bool {
        std::iter::once(&self.user).chain(&self.project).any(|file| file.file.is_being_saved())
    }

    /// The path of the user's file.
    pub(super) fn user_path(&self) -> &Path {
        self.user.file.path()
    }

    /// The user's programs.
    pub(super) fn user(&self) -> Option<&P> {
        self.user.programs()
    }

    /// The workspace's programs, whether or not they are approved; none of a workspace that isn't trusted.
    pub(super) fn project(&self) -> Option<&P> {
        self.project.as_ref()?.programs()
    }

    /// Returns whether the workspace's programs were approved as they are.
    pub(super) fn project_is_approved(&self, trust: &TrustState) -> bool {
        let approval = self.project.as_ref().and_then(ProgramFile::approval);
        approval.is_some_and(|digest| is_approved::<P>(trust, digest))
    }

    /// Returns the first problem that leaves out programs which the user, or a workspace that they trust, means to run. That
    /// they wait for an approval is no such problem.
    pub(super) fn fault(&self) -> Option<FileProblem> {
        // Of a workspace that isn't trusted nothing is held.
        let project = self.project.as_ref();
        let of_project = project.and_then(|file| file.fault.clone().or_else(|| file.unreadable().next()));
        self.user.fault.clone().or(of_project)
    }

    /// The workspace's programs, if they wait for an approval.
    pub(super) fn pending(&self, trust: &TrustState) -> Option<PendingTrust> {
        let project = self.project.as_ref().filter(|_| trust.trusted)?;
        let digest = project.approval().filter(|digest| !is_approved::<P>(trust, *digest))?;
        let path = P::PROJECT.to_owned();
        Some(PendingTrust { path, digest, kind: PendingKind::File, widens: project.lines() })
    }

    /// Returns the problems of the files in use.
    pub(super) fn problems(&self, trust: &TrustState) -> Vec<FileProblem> {
        let mut problems = self.user.problems.clone();
        if let Some(project) = self.project.as_ref().filter(|_| trust.trusted) {
            problems.extend_from_slice(&project.problems);
            problems.extend(project.unreadable());
            if self.pending(trust).is_some() {
                let (one, path) = (P::ONE, P::PROJECT);
                let message = format!(
                    "no {one} of this file runs until you approve its current version: `roo-lsp trust --approve {path}`, \
                     or the command roo.trustWorkspace with this path"
                );
                let problem = Problem::new(P::WAITING, None, message);
                problems.push(FileProblem::new(project.file.path(), problem));
            }
        }
        problems
    }
}

fn is_approved<P: Programs>(trust: &TrustState, digest: Digest) -> bool {
    trust.approved.contains(&(P::PROJECT.to_owned(), digest))
}

impl<P: Programs> ProgramFile<P> {
    fn new(path: PathBuf, scope: Scope) -> Self {
        Self { file: WatchedFile::new(path), scope, valid: None, problems: vec![], fault: None }
    }

    fn programs(&self) -> Option<&P> {
        self.valid.as_ref().map(|valid| &valid.programs)
    }

    fn digest(&self) -> Option<Digest> {
        self.valid.as_ref().map(|valid| valid.digest)
    }

    fn problem(&self, message: String) -> FileProblem {
        FileProblem::error(self.file.path(), None, message)
    }

    /// Of all that an approval is about; none when there is nothing to approve, or something of it can't be known.
    fn approval(&self) -> Option<Digest> {
        let valid = self.valid.as_ref().filter(|valid| valid.scripts.len() <= SCRIPTS_LIMIT)?;
        let mut scripts = Vec::new();
        for script in &valid.scripts {
            match &script.state {
                ScriptState::Missing => {}
                ScriptState::Known(digest) => scripts.push((script.path.as_path(), *digest)),
                ScriptState::Unreadable(_) => return None,
            }
        }
        valid.programs.approval(valid.digest, &scripts)
    }

    /// Lists what would run, one line each, with the scripts.
    fn lines(&self) -> Vec<String> {
        let Some(valid) = &self.valid else { return vec![] };
        let known = valid.scripts.iter().filter_map(|script| match &script.state {
            ScriptState::Known(digest) => {
                Some(format!("with {} as it is now, {digest}", script.path.display()))
            }
            _ => None,
        });
        valid.programs.lines().into_iter().chain(known).collect()
    }

    /// Returns why the commands can't be approved.
    fn unreadable(&self) -> impl Iterator<Item = FileProblem> {
        let scripts = self.valid.as_ref().map_or(&[][..], |valid| &valid.scripts);
        let too_many = (scripts.len() > SCRIPTS_LIMIT).then(|| {
            let one = P::ONE;
            self.problem(format!(
                "no {one} of this file runs, because its commands name too many files; name fewer"
            ))
        });
        let unreadable =
            scripts.iter().take(SCRIPTS_LIMIT).filter_map(|script| match &script.state {
                ScriptState::Unreadable(reason) => {
                    let (one, name) = (P::ONE, script.path.display());
                    Some(self.problem(format!(
                        "no {one} of this file runs, because '{name}' can't be read: {reason}"
                    )))
                }
                _ => None,
            });
        too_many.into_iter().chain(unreadable)
    }

    /// Leaves everything behind; whether there was anything.
    fn forget(&mut self) -> bool {
        let before = self.valid.take().is_some() | !self.problems.is_empty();
        self.problems.clear();
        self.fault = None;
        self.file.forget();
        before
    }

    /// Reads what may have changed; whether it had. `root` is where scripts are looked for.
    fn refresh(&mut self, files: &Files, root: Option<&Path>, now: i64) -> bool {
        let mut changed = self.refresh_file(files, root, now);
        if let (Some(valid), Some(root)) = (&mut self.valid, root) {
            for script in valid.scripts.iter_mut().take(SCRIPTS_LIMIT) {
                changed |= script.refresh(root);
            }
        }
        changed
    }

    fn refresh_file(&mut self, files: &Files, root: Option<&Path>, now: i64) -> bool {
        let scope = self.scope;
        let Some(text) = self.file.refresh(now, |path| files.text(path, scope, P::LIMIT as u64)) else {
            return false;
        };
        let before = (self.digest(), std::mem::take(&mut self.problems));
        match text {
            Ok(None) => (self.valid, self.fault) = (None, None),
            Ok(Some(text)) => match P::parse(&text.text, scope) {
                Ok((programs, problems)) => {
                    let of_file = |problem| FileProblem::new(self.file.path(), problem);
                    self.problems = problems.into_iter().map(of_file).collect();
                    let is_error = |problem: &&FileProblem| problem.problem.severity == Severity::Error;
                    self.fault = self.problems.iter().find(is_error).cloned();
                    // Of the same text, what is known of the scripts stays known.
                    if self.digest() != Some(text.digest) {
                        let scripts = root.map(|root| programs.scripts(root)).unwrap_or_default();
                        let scripts = scripts.into_iter().map(Script::new).collect();
                        self.valid = Some(Valid { digest: text.digest, programs, scripts });
                    }
                }
                Err(problem) => self.broken(FileProblem::new(self.file.path(), problem)),
            },
            Err(error) => self.broken(self.problem(error.to_string())),
        }
        (before.0, &before.1) != (self.digest(), &self.problems)
    }

    /// The user's programs stay as they were last valid: they may guard something. A workspace's are no longer what was
    /// approved.
    fn broken(&mut self, mut problem: FileProblem) {
        match self.scope {
            Scope::Global if self.programs().is_some_and(|programs| !programs.is_empty()) => {
                problem.problem.message.push_str("; ");
                problem.problem.message.push_str(P::STAY);
            }
            Scope::Global => self.fault = Some(problem.clone()),
            Scope::Project => (self.valid, self.fault) = (None, Some(problem.clone())),
        }
        self.problems = vec![problem];
    }
}
