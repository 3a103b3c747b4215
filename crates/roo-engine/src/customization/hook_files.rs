//! The hooks that count: the user's, and behind them a workspace's as they were approved.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::files::Files;
use super::program_files::{ProgramFiles, Programs};
use super::trust::TrustState;
use super::{PROJECT_HOOKS, Scope};
use crate::hooks::{FILE_LIMIT, Form, Hook, HookFile, Source, UserHooks, missing_script, scripts};
use roo_formats::{FileProblem, Problem, Severity};
use roo_protocol::customization::PendingTrust;
use roo_protocol::ids::Digest;

/// The files, and what came of them.
pub(super) struct HookFiles {
    files: ProgramFiles<Hooks>,
    root: Option<PathBuf>,
    /// Made of what was read last.
    effective: Option<(Option<TrustState>, Arc<UserHooks>)>,
    nothing: Arc<UserHooks>,
}

/// The hooks of a file.
struct Hooks(Vec<Hook>);

impl HookFiles {
    pub(super) fn new(user: PathBuf, root: Option<&Path>) -> Self {
        Self {
            files: ProgramFiles::new(user, root),
            root: root.map(Path::to_owned),
            effective: None,
            nothing: Arc::new(UserHooks::new(root.map(Path::to_owned), vec![])),
        }
    }

    /// The hooks that count now. Reads only what has changed; where there are no files it asks for their
    /// names alone. `trust` is asked for when a workspace has hooks; `now` is in milliseconds since the Unix epoch.
    pub(super) fn effective(
        &mut self,
        files: &Files,
        now: i64,
        trust: impl FnOnce() -> TrustState,
    ) -> Arc<UserHooks> {
        let trust = self.files.depends_on_trust().then(trust);
        let changed = self.files.refresh(files, trust.as_ref().is_some_and(|trust| trust.trusted), now);
        match &self.effective {
            Some((known, hooks)) if !changed && *known == trust => return Arc::clone(hooks),
            _ => {}
        }
        let hooks_of = |hooks: Option<&Hooks>| hooks.map(|hooks| hooks.0.clone()).unwrap_or_default();
        let mut all = hooks_of(self.files.user());
        if trust.as_ref().is_some_and(|trust| self.files.project_is_approved(trust)) {
            all.extend(hooks_of(self.files.project()));
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
        self.files.fault()
    }

    /// The workspace's hooks, if they wait for an approval. To be asked behind [`HookFiles::effective`].
    pub(super) fn pending(&self, trust: &TrustState) -> Option<PendingTrust> {
        self.files.pending(trust)
    }

    /// Returns the problems of the files in use. To be asked behind [`HookFiles::effective`].
    pub(super) fn problems(&self, trust: &TrustState) -> Vec<FileProblem> {
        self.files.problems(trust)
    }

    /// A warning for each hook that counts and whose program or script is not there. To be asked behind
    /// [`HookFiles::effective`].
    pub(super) fn missing_scripts(&self, home: Option<&Path>) -> Vec<FileProblem> {
        let hooks = self.effective.iter().flat_map(|(_, effective)| effective.hooks());
        let warning = |hook: &Hook| {
            let missing = missing_script(&hook.program, self.root.as_deref(), home)?;
            let file = match (hook.source, &self.root) {
                (Source::Workspace, Some(root)) => root.join(PROJECT_HOOKS),
                _ => self.files.user_path().to_owned(),
            };
            let message = format!("the hook {} {missing}", hook.shown());
            Some(FileProblem::new(&file, Problem::new(Severity::Warning, None, message)))
        };
        hooks.filter_map(warning).collect()
    }

    /// Returns whether a file may be being saved. To be asked behind [`HookFiles::effective`].
    pub(super) fn is_being_saved(&self) -> bool {
        self.files.is_being_saved()
    }

    /// The workspace's hooks, whether or not they are approved; none of a workspace that isn't trusted.
    pub(super) fn project_hooks(&self) -> &[Hook] {
        self.files.project().map_or(&[], |hooks| &hooks.0)
    }
}

impl Programs for Hooks {
    const PROJECT: &'static str = PROJECT_HOOKS;
    const LIMIT: usize = FILE_LIMIT;
    const ONE: &'static str = "hook";
    // It may be there to refuse something.
    const WAITING: Severity = Severity::Error;
    const STAY: &'static str = "the hooks of its last valid version stay in force";

    fn parse(text: &str, scope: Scope) -> Result<(Self, Vec<Problem>), Problem> {
        let file = HookFile::parse(text, Form::Hooks, scope.into())?;
        Ok((Self(file.hooks), file.problems))
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn scripts(&self, root: &Path) -> BTreeSet<PathBuf> {
        self.0.iter().flat_map(|hook| scripts(&hook.program, root)).collect()
    }

    fn approval(&self, text: Digest, scripts: &[(&Path, Digest)]) -> Option<Digest> {
        let scripts = scripts.iter().map(|(path, digest)| format!("{digest} {}\n", path.display()));
        let shown: String = std::iter::once(format!("{text}\n")).chain(scripts).collect();
        (!self.is_empty()).then(|| Digest::of(shown))
    }

    fn lines(&self) -> Vec<String> {
        self.0.iter().map(|hook| format!("would run on {}", hook.shown())).collect()
    }
}

/// Returns the reason why nothing runs without the hooks of a file.
fn in_words(problem: &FileProblem) -> String {
    format!(
        "{problem}; no agent runs until you correct this (`roo-lsp hooks check` lists all problems), because these hooks \
         may be there to refuse something"
    )
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

#[cfg(test)]
#[path = "hook_files_tests.rs"]
mod tests;
