//! The list in which a reader of a configuration file collects problems.

use serde_json::Value;

use crate::config::yaml::Step;
use crate::declaration::{Part, UnknownKey};
use crate::problem::{Problem, Severity};
use crate::text_range::{Position, TextRange};

/// Problems of one text. Finds their positions, and counts those beyond a limit.
#[derive(Debug)]
pub struct ProblemList<'a> {
    text: &'a str,
    locate: fn(&str, &[Step]) -> Option<Position>,
    limit: usize,
    found: Vec<Problem>,
    untold: usize,
    first_error: Option<String>,
}

impl<'a> ProblemList<'a> {
    /// No problems yet. `locate` finds the part at the end of a path; at most `limit` problems are told one by one.
    pub fn new(text: &'a str, locate: fn(&str, &[Step]) -> Option<Position>, limit: usize) -> Self {
        Self { text, locate, limit, found: vec![], untold: 0, first_error: None }
    }

    /// Adds a problem with the part at the end of a path.
    pub fn add(&mut self, severity: Severity, path: &[Step], message: impl Into<String>) {
        self.suggest(severity, path, message, None);
    }

    /// Adds a problem with what the part at the end of a path may be meant for.
    pub fn suggest(
        &mut self,
        severity: Severity,
        path: &[Step],
        message: impl Into<String>,
        suggestion: Option<&str>,
    ) {
        let message = message.into();
        if severity == Severity::Error && self.first_error.is_none() {
            self.first_error = Some(message.clone());
        }
        if self.found.len() >= self.limit {
            self.untold += 1;
            return;
        }
        let range = (self.locate)(self.text, path).map(|start| TextRange::at(self.text, start));
        self.found.push(Problem::new(severity, range, message).with_suggestion(suggestion));
    }

    /// Adds something that does not count.
    pub fn error(&mut self, path: &[Step], message: impl Into<String>) {
        self.add(Severity::Error, path, message);
    }

    /// Adds something that may not be meant as it counts.
    pub fn warning(&mut self, path: &[Step], message: impl Into<String>) {
        self.add(Severity::Warning, path, message);
    }

    /// Adds a key that isn't declared, in the mapping at a path.
    pub fn unknown_key(&mut self, severity: Severity, path: &[Step], key: &UnknownKey<'_, '_>) {
        let path = [path, &[Step::Name(key.name.to_owned())]].concat();
        self.suggest(severity, &path, key.to_string(), key.meant);
    }

    /// Adds what a mapping at a path has that its declaration doesn't allow. `inner` names keys whose content is checked
    /// on its own.
    pub fn check(&mut self, part: Option<&Part<'_>>, path: &[Step], value: &Value, inner: &[&str]) {
        for mismatch in part.into_iter().flat_map(|part| part.mismatches(value, inner)) {
            let path = [path, &mismatch.path].concat();
            let suggestion = mismatch.suggestion.as_deref();
            self.suggest(mismatch.kind.severity(), &path, mismatch.message, suggestion);
        }
    }

    /// Takes the message of the first error since it was taken last.
    pub fn take_first_error(&mut self) -> Option<String> {
        self.first_error.take()
    }

    /// The problems in the order of the text.
    pub fn finish(mut self) -> Vec<Problem> {
        self.found.sort_by_key(|problem| problem.start().map(|at| (at.line, at.column)));
        if self.untold > 0 {
            let message = format!("and {} more problems in this file", self.untold);
            self.found.push(Problem::error(None, message));
        }
        self.found
    }
}
