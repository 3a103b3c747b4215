//! The list in which a reader of a configuration file collects problems.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::config::yaml::Step;
use crate::declaration::{Mismatch, MismatchKind, Part, UnknownKey};
use crate::problem::{Problem, Severity};
use crate::text_range::{Position, TextRange};
use roo_text::render::counted;

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
    pub(crate) fn unknown_key(&mut self, severity: Severity, path: &[Step], key: &UnknownKey<'_, '_>) {
        let path = [path, &[Step::Name(key.name.to_owned())]].concat();
        self.suggest(severity, &path, key.to_string(), key.meant);
    }

    /// Adds what a mapping at a path has that its declaration doesn't allow. `inner` names keys whose content is checked
    /// on its own.
    pub fn check(&mut self, part: Option<&Part<'_>>, path: &[Step], value: &Value, inner: &[&str]) {
        for mismatch in part.into_iter().flat_map(|part| part.mismatches(value, inner)) {
            self.add_mismatch(path, &mismatch);
        }
    }

    /// Adds what a mapping at a path has that its declaration doesn't allow, and reads the rest. All keys of the type may be
    /// missing; nothing is read where the rest is not of the type either.
    pub(crate) fn read<T: DeserializeOwned + Default>(
        &mut self,
        part: Option<&Part<'_>>,
        path: &[Step],
        value: &Value,
    ) -> T {
        let mismatches = part.map(|part| part.mismatches(value, &[])).unwrap_or_default();
        mismatches.iter().for_each(|mismatch| self.add_mismatch(path, mismatch));
        let mut rest = value.clone();
        // From the back, so that the places of items stay.
        for mismatch in mismatches.iter().rev().filter(|mismatch| mismatch.kind == MismatchKind::Value) {
            remove(&mut rest, &mismatch.path);
        }
        serde_json::from_value(rest).unwrap_or_default()
    }

    fn add_mismatch(&mut self, path: &[Step], mismatch: &Mismatch) {
        let path = [path, &mismatch.path].concat();
        let suggestion = mismatch.suggestion.as_deref();
        self.suggest(mismatch.kind.severity(), &path, mismatch.message.as_str(), suggestion);
    }

    /// Takes the message of the first error since it was taken last.
    pub fn take_first_error(&mut self) -> Option<String> {
        self.first_error.take()
    }

    /// The problems in the order of the text.
    pub fn finish(mut self) -> Vec<Problem> {
        self.found.sort_by_key(|problem| problem.start().map(|at| (at.line, at.column)));
        if self.untold > 0 {
            let message = format!("and {} in this file", counted(self.untold, "more problem"));
            self.found.push(Problem::error(None, message));
        }
        self.found
    }
}

/// Removes the part at the end of a path.
fn remove(value: &mut Value, path: &[Step]) {
    let Some((last, above)) = path.split_last() else {
        *value = Value::Null;
        return;
    };
    let parent = above.iter().try_fold(value, |value, step| match step {
        Step::Key(key) | Step::Name(key) => value.get_mut(key),
        Step::Index(index) => value.get_mut(index),
    });
    match (parent, last) {
        (Some(Value::Object(object)), Step::Key(key) | Step::Name(key)) => {
            object.remove(key);
        }
        (Some(Value::Array(items)), Step::Index(index)) if *index < items.len() => {
            items.remove(*index);
        }
        _ => {}
    }
}
