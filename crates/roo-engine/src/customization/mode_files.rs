//! One file that brings modes: read again when it has changed; the last good modes stay while a newer text
//! is broken.

use std::path::{Path, PathBuf};

use super::Scope;
use super::files::{Files, Text};
use roo_durable::WatchedFile;
use roo_formats::modes::{self, FILE_LIMIT, Mode, ModePart, ParsedModes};
use roo_formats::{FileProblem, Problem, Severity};
use roo_protocol::ids::Digest;

#[derive(Clone)]
pub(super) struct ModeFile {
    file: WatchedFile,
    scope: Scope,
    good: Option<ValidModes>,
    problems: Vec<FileProblem>,
}

/// Last valid modes.
#[derive(Clone)]
struct ValidModes {
    text: String,
    digest: Digest,
    modes: Vec<Mode>,
    names_delegation: bool,
}

/// Problem with a mode, in itself or beside others.
pub(super) struct ModeProblem<'a> {
    pub(super) part: ModePart<'a>,
    pub(super) severity: Severity,
    pub(super) message: String,
    /// Slug that the part may be meant for.
    pub(super) suggestion: Option<&'a str>,
}

impl<'a> ModeProblem<'a> {
    pub(super) fn of_mode(slug: &'a str, severity: Severity, message: String) -> Self {
        Self { part: ModePart::Slug(slug), severity, message, suggestion: None }
    }
}

impl ModeFile {
    pub(super) fn new(path: PathBuf, scope: Scope) -> Self {
        Self { file: WatchedFile::new(path), scope, good: None, problems: vec![] }
    }

    pub(super) fn path(&self) -> &Path {
        self.file.path()
    }

    pub(super) fn modes(&self) -> &[Mode] {
        self.good.as_ref().map_or(&[], |good| &good.modes)
    }

    /// Returns whether one of its modes says to whom it may delegate.
    pub(super) fn names_delegation(&self) -> bool {
        self.good.as_ref().is_some_and(|good| good.names_delegation)
    }

    /// Of the text that the modes come from.
    pub(super) fn digest(&self) -> Option<Digest> {
        self.good.as_ref().map(|good| good.digest)
    }

    pub(super) fn problems(&self) -> &[FileProblem] {
        &self.problems
    }

    /// Reports problems with modes of the file at their positions, as far as that may cost.
    pub(super) fn problems_with(&self, mut found: Vec<ModeProblem<'_>>) -> Vec<FileProblem> {
        let text = self.good.as_ref().map_or("", |good| &good.text);
        let untold = found.split_off(found.len().min(modes::places_limit(text)));
        let parts: Vec<ModePart<'_>> = found.iter().map(|problem| problem.part).collect();
        let ranges = if parts.is_empty() { vec![] } else { modes::locate(text, &parts) };
        let problem = |(range, ModeProblem { severity, message, suggestion, .. })| {
            let problem = Problem::new(severity, range, message).with_suggestion(suggestion);
            FileProblem::new(self.path(), problem)
        };
        let mut problems: Vec<FileProblem> = ranges.into_iter().zip(found).map(problem).collect();
        if let Some(severity) = untold.iter().map(|problem| problem.severity).max() {
            let message = format!("and {} more problems with modes of this file", untold.len());
            problems.push(FileProblem::new(self.path(), Problem::new(severity, None, message)));
        }
        problems
    }

    /// Returns whether nothing is to be read again.
    pub(super) fn is_current(&self) -> bool {
        self.file.is_current()
    }

    /// Returns whether the file may be being saved, so that what it held before still counts.
    pub(super) fn is_being_saved(&self) -> bool {
        self.file.is_being_saved()
    }

    /// Reads the file if it may have changed; whether it had. `now` is in milliseconds since the Unix epoch.
    pub(super) fn refresh(&mut self, files: &Files, now: i64) -> bool {
        let scope = self.scope;
        let Some(text) = self.file.refresh(now, |path| files.text(path, scope, FILE_LIMIT as u64)) else {
            return false;
        };
        let before = (self.digest(), std::mem::take(&mut self.problems));
        match text {
            Ok(None) => self.good = None,
            Ok(Some(text)) => self.read(text),
            Err(error) => self.broken(Problem::error(None, error.to_string())),
        }
        before.0 != self.digest() || before.1 != self.problems
    }

    /// Takes a text as that of the file.
    pub(super) fn read(&mut self, Text { text, digest }: Text) {
        match ParsedModes::parse(&text, self.scope.into()) {
            Ok(ParsedModes { modes, problems, names_delegation }) => {
                self.problems =
                    problems.into_iter().map(|problem| FileProblem::new(self.path(), problem)).collect();
                self.good = Some(ValidModes { text, digest, modes, names_delegation });
            }
            Err(problem) => self.broken(problem),
        }
    }

    fn broken(&mut self, mut problem: Problem) {
        if !self.modes().is_empty() {
            problem.message.push_str("; the modes of its last valid version stay in force");
        }
        self.problems = vec![FileProblem::new(self.path(), problem)];
    }
}
