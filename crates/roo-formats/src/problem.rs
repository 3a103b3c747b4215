//! Problems of configuration files, with their positions.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::text_range::{Position, TextRange};

/// Severity of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Something counts as it is, and may surprise.
    Information,
    /// Something counts, but perhaps not as it was meant.
    Warning,
    /// Something does not count.
    Error,
}

/// Problem with a file or with a part of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Problem {
    /// The part; none when the file as a whole is meant.
    pub range: Option<TextRange>,
    /// Severity.
    pub severity: Severity,
    /// Problem and remedy.
    pub message: String,
    /// The key or value that the one in the range may be meant for, without quotes.
    pub suggestion: Option<String>,
}

impl Problem {
    /// A problem with a part of a text.
    pub fn new(severity: Severity, range: Option<TextRange>, message: impl Into<String>) -> Self {
        Self { range, severity, message: message.into(), suggestion: None }
    }

    /// Something that does not count.
    pub fn error(range: Option<TextRange>, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, range, message)
    }

    /// Something that does not count, at a position of a text.
    pub fn error_at(text: &str, position: Option<Position>, message: impl Into<String>) -> Self {
        Self::error(position.map(|position| TextRange::at(text, position)), message)
    }

    /// The same problem with what the part may be meant for.
    #[must_use]
    pub fn with_suggestion(self, suggestion: Option<&str>) -> Self {
        Self { suggestion: suggestion.map(str::to_owned), ..self }
    }

    /// Start of the part.
    pub fn start(&self) -> Option<Position> {
        self.range.map(|range| range.start)
    }
}

/// Problem with a file. Displays as `file:3:5: …`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileProblem {
    /// The file.
    pub file: PathBuf,
    /// Problem.
    pub problem: Problem,
}

impl FileProblem {
    /// A problem of a file.
    pub fn new(file: &Path, problem: Problem) -> Self {
        Self { file: file.to_owned(), problem }
    }

    /// An error of a file.
    pub fn error(file: &Path, range: Option<TextRange>, message: impl Into<String>) -> Self {
        Self::new(file, Problem::error(range, message))
    }
}

impl fmt::Display for FileProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file.display())?;
        if let Some(at) = self.problem.start() {
            write!(f, "{}:{}:", at.line, at.column)?;
        }
        write!(f, " {}", self.problem)
    }
}
