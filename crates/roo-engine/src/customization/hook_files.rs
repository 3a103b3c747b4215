//! The files that bring hooks: which of them count, and whether what a workspace's would run was approved.
//!
//! A workspace's hooks count as they were approved: by the text of their file and of every script of the
//! workspace that their commands name. When one of these changes, none of them runs until they are approved
//! again.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use super::files::Files;
use super::script::{Script, ScriptState};
use super::trust::TrustState;
use super::{PROJECT_HOOKS, Scope};
use crate::hooks::{FILE_LIMIT, Form, Hook, HookFile, Source, UserHooks, scripts};
use roo_durable::Fingerprint;
use roo_formats::{FileProblem, Severity};
use roo_protocol::customization::{PendingKind, PendingTrust};
use roo_protocol::ids::Digest;

/// The most words of the commands of a file that may be files of the workspace.
const SCRIPTS_LIMIT: usize = 5000;

/// The files, and what came of them.
pub(super) struct HookFiles {
    user: WatchedHookFile,
    project: Option<WatchedHookFile>,
    root: Option<PathBuf>,
    /// Made of what was read last.
    effective: Option<(Option<TrustState>, Arc<UserHooks>)>,
    nothing: Arc<UserHooks>,
}

/// One file.
struct WatchedHookFile {
    path: PathBuf,
    scope: Scope,
    /// Of what was read last; none when that may have changed since without a trace.
    seen: Option<Option<Fingerprint>>,
    good: Option<ValidHooks>,
    problems: Vec<FileProblem>,
    /// The first of the problems that leave out a hook.
    fault: Option<FileProblem>,
}

/// Content of the last valid version of a file.
struct ValidHooks {
    digest: Digest,
    hooks: Vec<Hook>,
    scripts: Vec<Script>,
}

impl HookFiles {
    pub(super) fn new(user: PathBuf, root: Option<&Path>) -> Self {
        let watched = |path, scope| WatchedHookFile {
            path,
            scope,
            seen: None,
            good: None,
            problems: vec![],
            fault: None,
        };
        Self {
            user: watched(user, Scope::Global),
            project: root.map(|root| watched(root.join(PROJECT_HOOKS), Scope::Project)),
            root: root.map(Path::to_owned),
            effective: None,
            nothing: Arc::new(UserHooks::new(root.map(Path::to_owned), vec![])),
        }
    }

    /// The hooks that count now. Reads only what has changed; where there are no files it asks for their
    /// names alone. `trust` is asked for when a workspace has hooks.
    pub(super) fn effective(&mut self, files: &Files, trust: impl FnOnce() -> TrustState) -> Arc<UserHooks> {
        let mut changed = self.user.refresh(files, None);
        let there = self.project.as_ref().is_some_and(|file| Fingerprint::from_file(&file.path).is_some());
        let trust = there.then(trust);
        if let Some(project) = &mut self.project {
            if trust.as_ref().is_some_and(|trust| trust.trusted) {
                changed |= project.refresh(files, self.root.as_deref());
            } else {
                changed |= project.forget();
            }
        }
        match &self.effective {
            Some((known, hooks)) if !changed && *known == trust => return Arc::clone(hooks),
            _ => {}
        }
        let mut all = self.user.hooks().to_vec();
        if let Some((project, trust)) = self.project.as_ref().zip(trust.as_ref())
            && project.approval().is_some_and(|digest| is_approved(trust, digest))
        {
            all.extend_from_slice(project.hooks());
        }
        let fault = self.fault().map(|problem| in_words(&problem));
        let hooks = match all.is_empty() && fault.is_none() {
            true => Arc::clone(&self.nothing),
            false => Arc::new(UserHooks::new(self.root.clone(), all).with_fault(fault)),
        };
        self.effective = Some((trust, Arc::clone(&hooks)));
        hooks
    }

    /// Returns a problem that leaves out hooks which the user, or a workspace that they trust, means to run. Hooks that wait
    /// for an approval are no such problem. To be asked behind [`HookFiles::effective`].
    pub(super) fn fault(&self) -> Option<FileProblem> {
        // Of a workspace that isn't trusted nothing is held.
        let project = self.project.as_ref();
        let of_project = project.and_then(|file| file.fault.clone().or_else(|| file.unreadable().next()));
        self.user.fault.clone().or(of_project)
    }

    /// The workspace's hooks, if they wait for an approval. To be asked behind [`HookFiles::effective`].
    pub(super) fn pending(&self, trust: &TrustState) -> Option<PendingTrust> {
        let project = self.project.as_ref().filter(|_| trust.trusted)?;
        let digest = project.approval().filter(|digest| !is_approved(trust, *digest))?;
        let path = PROJECT_HOOKS.to_owned();
        Some(PendingTrust { path, digest, kind: PendingKind::File, widens: project.lines() })
    }

    /// Returns the problems of the files in use. To be asked behind [`HookFiles::effective`].
    pub(super) fn problems(&self, trust: &TrustState) -> Vec<FileProblem> {
        let mut problems = self.user.problems.clone();
        if let Some(project) = self.project.as_ref().filter(|_| trust.trusted) {
            problems.extend_from_slice(&project.problems);
            problems.extend(project.unreadable());
            if self.pending(trust).is_some() {
                let message = format!(
                    "no hook of this file runs until you approve its current version: `roo-lsp trust --approve \
                         {PROJECT_HOOKS}`, or the command roo.trustWorkspace with this path"
                );
                problems.push(FileProblem::error(&project.path, None, message));
            }
        }
        problems
    }

    /// The workspace's hooks, whether or not they are approved; none of a workspace that isn't trusted.
    pub(super) fn project_hooks(&self) -> &[Hook] {
        self.project.as_ref().map_or(&[], WatchedHookFile::hooks)
    }
}

/// Returns the reason why nothing runs without the hooks of a file.
fn in_words(problem: &FileProblem) -> String {
    format!(
        "{problem}; no agent runs until you correct this (`roo-lsp hooks check` lists all problems), because these hooks \
         may be there to refuse something"
    )
}

fn is_approved(trust: &TrustState, digest: Digest) -> bool {
    trust.approved.contains(&(PROJECT_HOOKS.to_owned(), digest))
}

/// Returns the problems of a hooks file that held this text.
pub fn problems_of(path: &Path, text: &str, scope: Scope) -> Vec<FileProblem> {
    let problems = match HookFile::parse(text, Form::Hooks, scope.into()) {
        Ok(file) => file.problems,
        Err(problem) => vec![problem],
    };
    problems.into_iter().map(|problem| FileProblem::new(path, problem)).collect()
}

impl From<Scope> for Source {
    fn from(scope: Scope) -> Self {
        match scope {
            Scope::Global => Self::User,
            Scope::Project => Self::Workspace,
        }
    }
}

impl WatchedHookFile {
    fn hooks(&self) -> &[Hook] {
        self.good.as_ref().map_or(&[], |good| &good.hooks)
    }

    /// Of all that an approval is about; none when there is nothing to approve, or something of it can't be
    /// known.
    fn approval(&self) -> Option<Digest> {
        let good = self.good.as_ref().filter(|good| !good.hooks.is_empty())?;
        if good.scripts.len() > SCRIPTS_LIMIT {
            return None;
        }
        let mut shown = format!("{}\n", good.digest);
        for script in &good.scripts {
            match &script.state {
                ScriptState::Missing => {}
                ScriptState::Known(digest) => {
                    shown.push_str(&format!("{digest} {}\n", script.path.display()));
                }
                ScriptState::Unreadable(_) => return None,
            }
        }
        Some(Digest::of(shown))
    }

    /// Lists what the hooks would run, one line each, with the scripts.
    fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> =
            self.hooks().iter().map(|hook| format!("would run on {}", hook.shown())).collect();
        let scripts = self.good.iter().flat_map(|good| &good.scripts);
        let known = scripts.filter_map(|script| match &script.state {
            ScriptState::Known(digest) => Some((script.path.display(), *digest)),
            _ => None,
        });
        lines.extend(known.map(|(path, digest)| format!("with {path} as it is now, {digest}")));
        lines
    }

    fn unreadable(&self) -> impl Iterator<Item = FileProblem> {
        let too_many = self.good.as_ref().filter(|good| good.scripts.len() > SCRIPTS_LIMIT).map(|_| {
            let message =
                "no hook of this file runs, because the commands name too many files; move them into scripts";
            FileProblem::error(&self.path, None, message.to_owned())
        });
        let scripts = self.good.iter().flat_map(|good| &good.scripts).take(SCRIPTS_LIMIT);
        let unreadable = scripts.filter_map(|script| match &script.state {
            ScriptState::Unreadable(reason) => {
                let name = script.path.display();
                let message = format!("no hook of this file runs, because '{name}' can't be read: {reason}");
                Some(FileProblem::error(&self.path, None, message))
            }
            _ => None,
        });
        too_many.into_iter().chain(unreadable)
    }

    /// Leaves everything behind; whether there was anything.
    fn forget(&mut self) -> bool {
        let before = self.good.take().is_some() | !self.problems.is_empty();
        self.problems.clear();
        self.fault = None;
        self.seen = None;
        before
    }

    /// Reads what may have changed; whether it had. `root` is where scripts are looked for.
    fn refresh(&mut self, files: &Files, root: Option<&Path>) -> bool {
        let mut changed = self.refresh_file(files, root);
        if let (Some(good), Some(root)) = (&mut self.good, root) {
            for script in good.scripts.iter_mut().take(SCRIPTS_LIMIT) {
                changed |= script.refresh(root);
            }
        }
        changed
    }

    fn refresh_file(&mut self, files: &Files, root: Option<&Path>) -> bool {
        // Taken before reading, so that a change in between is seen the next time.
        let found = Fingerprint::from_file(&self.path);
        if self.seen == Some(found) {
            return false;
        }
        self.seen = found.is_none_or(|found| found.is_settled(SystemTime::now())).then_some(found);
        let before = (self.good.as_ref().map(|good| good.digest), std::mem::take(&mut self.problems));
        match files.text(&self.path, self.scope, FILE_LIMIT as u64) {
            Ok(None) => (self.good, self.fault) = (None, None),
            Ok(Some(text)) => match HookFile::parse(&text.text, Form::Hooks, self.scope.into()) {
                Ok(file) => {
                    self.problems =
                        file.problems.into_iter().map(|p| FileProblem::new(&self.path, p)).collect();
                    let is_error = |problem: &&FileProblem| problem.problem.severity == Severity::Error;
                    self.fault = self.problems.iter().find(is_error).cloned();
                    if self.good.as_ref().map(|good| good.digest) != Some(text.digest) {
                        let scripts = root.map(|root| named(&file.hooks, root)).unwrap_or_default();
                        self.good = Some(ValidHooks { digest: text.digest, hooks: file.hooks, scripts });
                    }
                }
                Err(problem) => self.broken(FileProblem::new(&self.path, problem)),
            },
            Err(error) => {
                // It may become readable although it stays the same.
                self.seen = None;
                self.broken(FileProblem::error(&self.path, None, error.to_string()));
            }
        }
        (before.0, &before.1) != (self.good.as_ref().map(|good| good.digest), &self.problems)
    }

    /// The user's hooks stay as they were last good: they may guard something. A workspace's are no longer what
    /// was approved.
    fn broken(&mut self, mut problem: FileProblem) {
        match self.scope {
            Scope::Global if !self.hooks().is_empty() => {
                problem.problem.message.push_str("; the hooks of its last valid version stay in force");
            }
            Scope::Global => self.fault = Some(problem.clone()),
            Scope::Project => (self.good, self.fault) = (None, Some(problem.clone())),
        }
        self.problems = vec![problem];
    }
}

/// The files that commands name.
fn named(hooks: &[Hook], root: &Path) -> Vec<Script> {
    let paths: BTreeSet<PathBuf> = hooks.iter().flat_map(|hook| scripts(&hook.program, root)).collect();
    paths.into_iter().map(Script::new).collect()
}

#[cfg(test)]
#[path = "hook_files_tests.rs"]
mod tests;
