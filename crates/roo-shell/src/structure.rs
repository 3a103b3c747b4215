//! A command line as a tree: what may run after what, and what each word is made of.
//!
//! Only the strict reading makes one, so everything in it means the same to bash and to a POSIX shell, but for
//! `&>` and `[[`. Nothing is expanded here: which values variables and substitutions have is for whoever judges.

use std::ops::Range;

use super::construct::{Document, Join, Way};

/// A whole line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Structure {
    /// Its commands.
    pub list: List,
    /// The texts of its here-documents, in the order of their ends.
    pub documents: Vec<Document>,
}

/// Pipelines, one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct List {
    /// At least one.
    pub items: Vec<Item>,
}

/// A pipeline and the operator before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// `;`, `&&` or `||`; none for the first.
    pub join: Option<Join>,
    /// True if `!` stands before it.
    pub is_negated: bool,
    /// The commands, each of which reads what the one before it prints.
    pub stages: Vec<Stage>,
}

/// A command of a pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    pub body: Body,
    /// Redirections.
    pub redirects: Vec<Redirect>,
}

/// Body of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// A program with its arguments, or variables alone.
    Simple(Simple),
    /// `( … )`
    Subshell(List),
    /// `{ …; }`
    Group(List),
    /// `for name in words; do …; done`
    For {
        variable: String,
        /// Words that it iterates over.
        words: Vec<Word>,
        /// Body for each word.
        body: List,
    },
    /// `if …; then …; elif …; then …; else …; fi`
    If {
        /// Each condition, and what runs where it holds.
        branches: Vec<(List, List)>,
        /// Body if no branch holds.
        otherwise: Option<List>,
    },
    /// `while …; do …; done`, or `until`.
    While {
        /// Condition before each round.
        condition: List,
        /// Body of each round.
        body: List,
    },
}

/// A simple command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Simple {
    /// Variables that are set before the program.
    pub assignments: Vec<Assignment>,
    /// The program and its arguments; none where only variables are set.
    pub words: Vec<Word>,
}

/// `name=value`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The variable.
    pub name: String,
    /// All of it, the name included, in bytes of the line.
    pub range: Range<usize>,
    /// Assigned value.
    pub value: Vec<Part>,
}

/// A redirection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// The file descriptor before the operator, as it is written.
    pub descriptor: String,
    pub operator: &'static str,
    /// The file, descriptor or delimiter behind it.
    pub target: Word,
    /// The index of its here-document.
    pub document: Option<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// Byte range in the line.
    pub range: Range<usize>,
    pub parts: Vec<Part>,
}

/// A part of a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Text that stands for itself, its quotes removed.
    Text(String),
    /// An unquoted `*`, `?` or `[`.
    Wildcard(char),
    /// `$name` or `${name}`
    Variable {
        name: String,
        /// True if it stands within double quotes, and so never falls apart.
        quoted: bool,
    },
    /// `$?`
    Status,
    /// `$(…)`
    Substitution {
        /// Commands.
        list: List,
        /// True if it stands within double quotes.
        quoted: bool,
    },
}

impl Word {
    /// The text, where the word is nothing else.
    pub fn literal(&self) -> Option<String> {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Text(more) => text.push_str(more),
                _ => return None,
            }
        }
        Some(text)
    }
}

/// A simple command with how it is reached: what both readings of a line are compared by.
#[derive(Debug)]
pub(super) struct Reached<'a> {
    pub(super) simple: &'a Simple,
    pub(super) ways: Vec<Way>,
    pub(super) join: Option<Join>,
}

/// Elements of a structure that have a counterpart in the other reading, in the order of the text.
#[derive(Debug, Default)]
pub(super) struct Flat<'a> {
    pub(super) commands: Vec<Reached<'a>>,
    pub(super) redirects: Vec<&'a Redirect>,
    /// The variables and words of loops.
    pub(super) loops: Vec<(&'a str, Vec<Range<usize>>)>,
}

impl Structure {
    pub(super) fn flatten(&self) -> Flat<'_> {
        let mut flat = Flat::default();
        flat.list(&self.list, &[]);
        flat
    }

    /// Every simple command with its redirections, wherever it stands.
    pub fn simple_commands(&self) -> impl Iterator<Item = &Simple> {
        self.flatten().commands.into_iter().map(|reached| reached.simple)
    }
}

impl<'a> Flat<'a> {
    fn list(&mut self, list: &'a List, ways: &[Way]) {
        for item in &list.items {
            let negated = [ways, &[Way::Negation]].concat();
            // The grammar negates what stands directly after the mark.
            for (index, stage) in item.stages.iter().enumerate() {
                let join = if index > 0 { Some(Join::Pipe) } else { item.join };
                let is_negated = item.is_negated && index == 0;
                self.stage(stage, if is_negated { &negated } else { ways }, join.filter(|_| !is_negated));
            }
        }
    }

    fn stage(&mut self, stage: &'a Stage, ways: &[Way], join: Option<Join>) {
        let within = |way: Way| [ways, &[way]].concat();
        match &stage.body {
            Body::Simple(simple) => {
                self.commands.push(Reached { simple, ways: ways.to_vec(), join });
                let values = simple.assignments.iter().flat_map(|assignment| &assignment.value);
                values
                    .chain(simple.words.iter().flat_map(|word| &word.parts))
                    .for_each(|part| self.part(part, ways));
            }
            Body::Subshell(list) => self.list(list, &within(Way::Subshell)),
            Body::Group(list) => self.list(list, &within(Way::Group)),
            Body::For { variable, words, body } => {
                self.loops.push((variable, words.iter().map(|word| word.range.clone()).collect()));
                let ways = within(Way::Loop);
                words.iter().flat_map(|word| &word.parts).for_each(|part| self.part(part, &ways));
                self.list(body, &ways);
            }
            Body::If { branches, otherwise } => {
                let ways = within(Way::Branch);
                for (condition, body) in branches {
                    self.list(condition, &ways);
                    self.list(body, &ways);
                }
                otherwise.iter().for_each(|list| self.list(list, &ways));
            }
            Body::While { condition, body } => {
                let ways = within(Way::Loop);
                self.list(condition, &ways);
                self.list(body, &ways);
            }
        }
        for redirect in &stage.redirects {
            self.redirects.push(redirect);
            redirect.target.parts.iter().for_each(|part| self.part(part, ways));
        }
    }

    fn part(&mut self, part: &'a Part, ways: &[Way]) {
        if let Part::Substitution { list, .. } = part {
            self.list(list, &[ways, &[Way::Substitution]].concat());
        }
    }
}
