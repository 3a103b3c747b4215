//! A command line taken apart: what [`super::read`] answers.

use std::ops::Range;

use super::construct::{Document, Join, Way};
use super::structure::Structure;
use super::word::{Opaque, Value};

/// A command line as the shell would read it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// Every simple command, in the order of the text, wherever it stands.
    pub commands: Vec<Command>,
    /// Problems that keep the line from being plain, in the order of the text. None: all of it is known.
    pub problems: Vec<Problem>,
    /// The line as a tree, where both readings agree on one; else why not, as a sentence about the line.
    pub(super) structure: Option<Result<Structure, String>>,
    /// The loops over words, in the order of the text: the variable, and where the words stand.
    pub(super) loops: Vec<(String, Vec<Range<usize>>)>,
}

impl Script {
    /// The commands, where nothing in the line is opaque, compound or in doubt. Words may still be
    /// patterns. Else what stands in the way, as a sentence about the line.
    pub fn plain(&self) -> Result<&[Command], String> {
        match self.problems.first() {
            None => Ok(&self.commands),
            Some(problem) => Err(problem.to_string()),
        }
    }

    /// The line as a tree. Unlike in plain lines, words may hold expansions, and commands may stand in loops,
    /// conditions, groups and substitutions. Else what stands in the way, as a sentence about the line.
    pub fn structure(&self) -> Result<&Structure, String> {
        match &self.structure {
            Some(Ok(structure)) => Ok(structure),
            Some(Err(problem)) => Err(problem.clone()),
            None => Err(self.problems.first().map_or_else(|| Problem::Empty.to_string(), Problem::to_string)),
        }
    }

    /// Returns whether there may be commands that aren't listed.
    pub fn is_incomplete(&self) -> bool {
        self.problems.iter().any(|problem| {
            matches!(
                problem,
                Problem::Nul
                    | Problem::TooLong(_)
                    | Problem::TooComplex
                    | Problem::TooDeep
                    | Problem::Error(_)
            )
        })
    }
}

/// A simple command: a program and its arguments, or only variables or redirections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Command {
    /// The program and its arguments.
    pub words: Vec<Word>,
    /// Variables set before the program, as they are written.
    pub assignments: Vec<String>,
    /// Redirections.
    pub redirects: Vec<Redirect>,
    /// Constructs around it, from the outside in.
    pub ways: Vec<Way>,
    /// The operator between it and the command before; none for the first of a list and after a line's end.
    pub join: Option<Join>,
}

/// A word of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// Byte range in the line.
    pub range: Range<usize>,
    pub value: Value,
    /// Visible text, quotes removed. The value, where that is known.
    pub visible: String,
}

impl Word {
    /// The word's text where it is literal.
    pub fn literal(&self) -> Option<&str> {
        match &self.value {
            Value::Literal(text) => Some(text),
            Value::Pattern(_) | Value::Opaque(_) => None,
        }
    }
}

/// A redirection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// The file descriptor before the operator, as it is written.
    pub descriptor: String,
    pub operator: String,
    /// The file, descriptor, text, or delimiter after the operator; none where it closes.
    pub target: Option<Word>,
    pub document: Option<Document>,
}

impl Problem {
    /// Returns whether the line can't be judged whatever the strict reading makes of it.
    pub(super) fn is_fatal(&self) -> bool {
        !matches!(self, Self::Opaque { .. } | Self::Assignment | Self::Construct(_))
    }
}

/// Reasons why a line isn't plain. Shown as a sentence about the line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// There is nothing in it.
    #[error("it is empty")]
    Empty,
    /// It holds a NUL, which no command line can.
    #[error("it contains a NUL character, which no shell accepts")]
    Nul,
    /// It holds a character that isn't what it looks like.
    #[error("it contains the character U+{:04X}, which can be mistaken for another", u32::from(*.0))]
    Deceptive(char),
    /// It is too long to be taken apart.
    #[error("it has {0} bytes, too many to be parsed")]
    TooLong(usize),
    /// It took too much work to be taken apart.
    #[error("it is too complicated to be parsed")]
    TooComplex,
    /// Constructs stand in each other too deeply.
    #[error("it is nested too deeply to be parsed")]
    TooDeep,
    /// It holds too many commands.
    #[error("it contains more than {} commands", super::PLAIN_COMMANDS)]
    TooManyCommands,
    /// Something fits nowhere, or something is missing.
    #[error("it can't be parsed: `{0}` doesn't fit the shell's grammar")]
    Error(String),
    /// The value of a word isn't known.
    #[error("it holds {what}: `{text}`", what = .opaque.what())]
    Opaque {
        /// The beginning of the word, safe to show.
        text: String,
        /// Reason.
        opaque: Opaque,
    },
    /// It sets a variable.
    #[error("it sets a variable")]
    Assignment,
    /// It holds a construct that can't be judged by its commands alone.
    #[error("it holds {0}")]
    Construct(&'static str),
    /// Lexical rules say no more than this, or something else than the grammar.
    #[error("it {0}")]
    NotPlain(String),
}
