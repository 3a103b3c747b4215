//! Denying: a denied program is looked for wherever it can be seen.
//!
//! Both readings of a line count, the grammar's and the broad one, so that what one of them misses or
//! can't make sense of is still seen by the other.

use super::{destructive, programs};
use roo_shell::{Join, Script};

/// Nesting depth of command lines (`sh -c '…'`) that are looked into.
const NESTING: usize = 4;
/// Number of words behind a program that are searched for the rest of a denying rule.
const OPTIONS: usize = 32;

/// The word of a denying rule that stands for every program.
const EVERYTHING: &str = "*";

/// Reasons why a line is denied.
pub(super) enum Denied<'a> {
    By(&'a [String]),
    /// It would destroy everything; what it would do, as a sentence about it.
    Destroys(String),
    TooDeep,
}

/// Returns the rule or reason that denies a line, if there is one.
pub(super) fn denied<'a>(rules: &'a [Vec<String>], line: &str, script: &Script) -> Option<Denied<'a>> {
    let mut search = Search { rules, unread: roo_shell::LINE_BYTES };
    search.script(script, 0).or_else(|| search.text(line, 0))
}

/// Returns whether a line runs a program with one of these beginnings of arguments, also behind others and in lines inside of
/// it.
pub(super) fn runs(commands: &[Vec<String>], line: &str) -> bool {
    matches!(denied(commands, line, &roo_shell::read(line)), Some(Denied::By(_)))
}

struct Search<'a> {
    rules: &'a [Vec<String>],
    /// Number of bytes of nested command lines that the grammar may still read.
    unread: usize,
}

impl<'a> Search<'a> {
    /// Looks for denied programs in a line inside a line.
    fn line(&mut self, line: &str, nesting: usize) -> Option<Denied<'a>> {
        if nesting > NESTING {
            return self.too_deep();
        }
        // For a lone word there is nothing that the grammar would tell.
        let worth = line.contains(|c: char| !c.is_alphanumeric());
        if let Some(unread) = self.unread.checked_sub(line.len()).filter(|_| worth) {
            self.unread = unread;
            if let Some(denied) = self.script(&roo_shell::read(line), nesting) {
                return Some(denied);
            }
        }
        self.text(line, nesting)
    }

    /// Depth alone denies nothing where nothing is denied.
    fn too_deep(&self) -> Option<Denied<'a>> {
        (!self.rules.is_empty()).then_some(Denied::TooDeep)
    }

    /// Looks through what the grammar sees.
    fn script(&mut self, script: &Script, nesting: usize) -> Option<Denied<'a>> {
        for (index, command) in script.commands.iter().enumerate() {
            let words: Vec<String> = command.words.iter().map(|word| word.visible.clone()).collect();
            if let Some(denied) = self.command(&words, nesting) {
                return Some(denied);
            }
            if let Some(what) = destructive::redirects(command) {
                return Some(Denied::Destroys(what));
            }
            // An expansion may leave several words.
            let split = |word: &roo_shell::Word| match word.literal() {
                Some(text) => vec![text.to_owned()],
                None => word.visible.split(' ').map(str::to_owned).collect(),
            };
            let split: Vec<String> = command.words.iter().flat_map(split).collect();
            if split != words
                && let Some(denied) = self.command(&split, nesting)
            {
                return Some(denied);
            }
            if !words.iter().any(|word| programs::evaluates(&programs::name(word))) {
                continue;
            }
            // An interpreter runs what it is given as input.
            let given = command.redirects.iter().filter(|redirect| redirect.operator == "<<<");
            let given = given.filter_map(|redirect| Some(redirect.target.as_ref()?.visible.clone()));
            let feeders = script.commands[..index]
                .iter()
                .rev()
                .zip(script.commands[..=index].iter().rev())
                .take_while(|(_, fed)| fed.join == Some(Join::Pipe))
                .filter_map(|(feeder, _)| feeder.words.split_first())
                .filter(|(program, _)| programs::prints(&programs::name(&program.visible)))
                .map(|(_, words)| {
                    words.iter().map(|word| word.visible.as_str()).collect::<Vec<_>>().join(" ")
                });
            for text in given.chain(feeders).collect::<Vec<_>>() {
                if let Some(denied) = self.line(&text, nesting + 1) {
                    return Some(denied);
                }
            }
        }
        None
    }

    /// Looks through what the broad reading sees.
    fn text(&mut self, line: &str, nesting: usize) -> Option<Denied<'a>> {
        if let Some(what) = destructive::multiplies(line) {
            return Some(Denied::Destroys(what));
        }
        let seen = roo_shell::scan(line);
        if let Some(denied) = seen.commands.iter().find_map(|words| self.command(words, nesting)) {
            return Some(denied);
        }
        // A document may reach an interpreter by a pipe or a file, so any in the line counts.
        let run = || seen.commands.iter().flatten().any(|word| programs::evaluates(&programs::name(word)));
        let documents = if !seen.documents.is_empty() && run() { seen.documents.as_slice() } else { &[] };
        documents
            .iter()
            .find_map(|document| self.line(document, nesting + 1))
            .or_else(|| self.too_deep().filter(|_| seen.too_deep))
    }

    /// The rule that denies a simple command, or a command that it runs.
    fn command(&mut self, words: &[String], nesting: usize) -> Option<Denied<'a>> {
        // One pass, so that no line takes long. `operands` reads what a launcher's command may be.
        let mut operands = Some(Operands::default());
        let mut finder = None;
        let mut evaluating = false;
        for (index, word) in words.iter().enumerate() {
            if evaluating
                && let Some(denied) = std::iter::once(word.as_str())
                    .chain(programs::attached(word))
                    .find_map(|line| self.line(line, nesting + 1))
            {
                return Some(denied);
            }
            let executed = index.checked_sub(1).is_some_and(|previous| {
                finder.as_deref().is_some_and(|finder| programs::begins_command(finder, &words[previous]))
            });
            let may_begin = operands.as_mut().is_some_and(|operands| operands.takes(word));
            if !executed && !may_begin {
                continue;
            }
            if programs::is_keyword(word) {
                operands = Some(Operands::default());
                continue;
            }
            let name = programs::name(word);
            if let Some(rule) = self.rules.iter().find(|rule| denies(rule, word, &name, &words[index + 1..]))
            {
                return Some(Denied::By(rule));
            }
            if let Some(what) = destructive::destroys(&name, &words[index + 1..]) {
                return Some(Denied::Destroys(what));
            }
            if programs::is_launcher(&name) {
                operands = Some(Operands { leading: programs::has_operand(&name), ..Operands::default() });
            } else if operands.as_ref().is_some_and(|operands| operands.found) {
                operands = None;
            }
            evaluating |= programs::evaluates(&name);
            if programs::is_finder(&name) {
                finder = Some(name);
            }
        }
        None
    }
}

/// Positions where the first operand may be: behind options, of which each may or may not take a value, and behind
/// variables and numbers, as of `env` and `timeout`.
#[derive(Default)]
struct Operands {
    /// True if one more operand comes before.
    leading: bool,
    after_option: bool,
    found: bool,
}

impl Operands {
    /// Returns whether this word, the next one, may be the first operand.
    fn takes(&mut self, word: &str) -> bool {
        let option = word.starts_with(['-', '+']);
        let may_be = !option && !roo_shell::is_assignment(word);
        self.found = may_be && !self.after_option && !word.starts_with(|c: char| c.is_ascii_digit());
        if self.found && self.leading {
            (self.found, self.leading) = (false, false);
        }
        self.after_option = option && !word.contains('=');
        may_be
    }
}

fn denies(rule: &[String], program: &str, name: &str, arguments: &[String]) -> bool {
    let Some((denied, rest)) = rule.split_first() else { return false };
    let file = program.rsplit('/').next().unwrap_or(program);
    if denied != EVERYTHING
        && denied != program
        && !denied.eq_ignore_ascii_case(name)
        && !denied.eq_ignore_ascii_case(file)
    {
        return false;
    }
    let mut operands = Operands::default();
    let found = arguments.starts_with(rest)
        || arguments.iter().take(OPTIONS).enumerate().any(|(index, word)| {
            !operands.found && operands.takes(word) && arguments[index..].starts_with(rest)
        });
    // So many options that what follows them isn't looked at.
    found || (!operands.found && arguments.len() > OPTIONS)
}
