//! One file that brings modes: read again when it has changed; the last good modes stay while a newer text
//! is broken.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::files::{FileError, Files, Fingerprint, Text};
use super::{Problem, Scope};
use roo_formats::modes::{self, FILE_LIMIT, Mode, ModeFileProblem, ParsedModes, Severity};
use roo_protocol::ids::Digest;

#[derive(Clone)]
pub(super) struct ModeFile {
    path: PathBuf,
    scope: Scope,
    /// Of what was read last; none when that may have changed since without a trace.
    seen: Option<Option<Fingerprint>>,
    good: Option<Good>,
    problems: Vec<Problem>,
}

/// Last valid modes.
#[derive(Clone)]
struct Good {
    text: String,
    digest: Digest,
    modes: Vec<Mode>,
}

/// Problem with a mode, in itself or beside others.
pub(super) struct ModeProblem<'a> {
    pub(super) slug: &'a str,
    pub(super) severity: Severity,
    pub(super) message: String,
}

impl ModeFile {
    pub(super) fn new(path: PathBuf, scope: Scope) -> Self {
        Self { path, scope, seen: None, good: None, problems: vec![] }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn modes(&self) -> &[Mode] {
        self.good.as_ref().map_or(&[], |good| &good.modes)
    }

    /// Of the text that the modes come from.
    pub(super) fn digest(&self) -> Option<Digest> {
        self.good.as_ref().map(|good| good.digest)
    }

    pub(super) fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Reports problems with modes of the file at their positions, as far as that may cost.
    pub(super) fn problems_with(&self, mut found: Vec<ModeProblem<'_>>) -> Vec<Problem> {
        let text = self.good.as_ref().map_or("", |good| &good.text);
        let untold = found.split_off(found.len().min(modes::places_limit(text)));
        let slugs: Vec<&str> = found.iter().map(|problem| problem.slug).collect();
        let positions = if slugs.is_empty() { vec![] } else { modes::locate(text, &slugs) };
        let problem = |(position, ModeProblem { severity, message, .. })| Problem {
            file: self.path.clone(),
            position,
            severity,
            message,
        };
        let mut problems: Vec<Problem> = positions.into_iter().zip(found).map(problem).collect();
        if let Some(severity) = untold.iter().map(|problem| problem.severity).max() {
            let message = format!("and {} more problems with modes of this file", untold.len());
            problems.push(Problem { file: self.path.clone(), position: None, severity, message });
        }
        problems
    }

    /// Returns whether nothing is to be read again.
    pub(super) fn is_current(&self) -> bool {
        self.seen == Some(Fingerprint::from_file(&self.path))
    }

    /// Reads the file if it may have changed; whether it had.
    pub(super) fn refresh(&mut self, files: &Files) -> bool {
        // Taken before reading, so that a change in between is seen the next time.
        let found = Fingerprint::from_file(&self.path);
        if self.seen == Some(found) {
            return false;
        }
        self.seen = found.is_none_or(|found| found.is_settled(SystemTime::now())).then_some(found);
        let before = (self.digest(), std::mem::take(&mut self.problems));
        match files.text(&self.path, self.scope, FILE_LIMIT as u64) {
            Ok(None) => self.good = None,
            Ok(Some(text)) => self.read(text),
            Err(error) => {
                // It may have become readable although it is the same: by .rooignore, or by its rights.
                self.seen = None;
                self.broken(unreadable(&error));
            }
        }
        before.0 != self.digest() || before.1 != self.problems
    }

    /// Takes a text as that of the file.
    pub(super) fn read(&mut self, Text { text, digest }: Text) {
        match ParsedModes::parse(&text, self.scope.into()) {
            Ok(ParsedModes { modes, problems }) => {
                self.problems = problems.into_iter().map(|problem| located(&self.path, problem)).collect();
                self.good = Some(Good { text, digest, modes });
            }
            Err(problem) => self.broken(problem),
        }
    }

    fn broken(&mut self, mut problem: ModeFileProblem) {
        if !self.modes().is_empty() {
            problem.message.push_str("; the modes of its last valid version stay in force");
        }
        self.problems = vec![located(&self.path, problem)];
    }
}

fn unreadable(error: &FileError) -> ModeFileProblem {
    ModeFileProblem { position: None, severity: Severity::Error, message: error.to_string() }
}

fn located(path: &Path, problem: ModeFileProblem) -> Problem {
    let ModeFileProblem { position, severity, message } = problem;
    Problem { file: path.to_owned(), position, severity, message }
}
