//! The list in which a reader of a configuration file collects problems.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::config::yaml::Step;
use crate::declaration::{Declaration, Mismatch, MismatchKind, Part, UnknownKey};
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

    /// Reads a file as the type that is declared for it, and adds what its declaration doesn't allow. `holds` says what is
    /// in the one key without which it is no such file, such as `a list of modes`. Values of `Inner` and lists of them are
    /// not looked into, as they are read one by one.
    ///
    /// # Errors
    /// That key is missing, or its value is of another type.
    pub fn read_file<T: DeserializeOwned + Default, Inner: JsonSchema>(
        &mut self,
        declaration: &Declaration,
        file: &Map<String, Value>,
        holds: &str,
    ) -> Result<T, Problem> {
        let root = declaration.root();
        if let Some(key) = root.missing_key(file) {
            let is_meant = |unknown: &UnknownKey<'_, '_>| unknown.meant == Some(key);
            let Some(misspelt) = root.unknown_keys(file).into_iter().find(is_meant) else {
                return Err(Problem::error(None, format!("`{key}` is missing; add {holds}")));
            };
            let position = (self.locate)(self.text, &[Step::Name(misspelt.name.to_owned())]);
            let problem = Problem::error_at(self.text, position, misspelt.to_string());
            return Err(problem.with_suggestion(misspelt.meant));
        }
        let (read, mismatches) = root.read::<T, Inner>(&[], &Value::Object(file.clone()));
        let is_wrong =
            |path: &[Step]| mismatches.iter().any(|it| it.kind == MismatchKind::Value && it.path == path);
        for key in root.required() {
            let path = [Step::from(key)];
            if is_wrong(&path) {
                let position = (self.locate)(self.text, &path);
                return Err(Problem::error_at(self.text, position, format!("`{key}` must be {holds}")));
            }
        }
        self.add_mismatches(&[], &mismatches);
        Ok(read)
    }

    /// Reads a value at a path as the type that is declared there, and adds what its declaration doesn't allow; see
    /// [`Part::read`].
    pub fn read<T: DeserializeOwned + Default>(
        &mut self,
        part: Option<&Part<'_>>,
        path: &[Step],
        value: &Value,
    ) -> T {
        self.read_outer::<T, ()>(part, path, value)
    }

    /// The same without a look into values of `Inner` and lists of them, which are read one by one.
    pub fn read_outer<T: DeserializeOwned + Default, Inner: JsonSchema>(
        &mut self,
        part: Option<&Part<'_>>,
        path: &[Step],
        value: &Value,
    ) -> T {
        let (read, mismatches) = part.map(|part| part.read::<T, Inner>(path, value)).unwrap_or_default();
        self.add_mismatches(path, &mismatches);
        read
    }

    /// Adds what a value at a path has that its declaration doesn't allow.
    pub fn add_mismatches(&mut self, path: &[Step], mismatches: &[Mismatch]) {
        for mismatch in mismatches {
            let path = [path, &mismatch.path].concat();
            let suggestion = mismatch.suggestion.as_deref();
            self.suggest(mismatch.kind.severity(), &path, mismatch.message.as_str(), suggestion);
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
            let message = format!("and {} in this file", counted(self.untold, "more problem"));
            self.found.push(Problem::error(None, message));
        }
        self.found
    }
}
