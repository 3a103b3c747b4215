//! The first storey of command policy: a command line against the user's rules.
//!
//! A rule is the beginning of an argument list, compared word by word and never as a string. Allowing
//! is strict: the line must be nothing but literal words, and anything else asks. Denying is broad: a
//! denied program is looked for behind paths, variables, wrappers and in every part of a compound
//! line. Neither is a boundary: what an allowed program does once it runs is for a sandbox to limit.

mod native;
mod programs;
mod words;

pub use native::{is_context_command, is_urid_recipe, makes_directory};

use crate::config::Execute;

/// How many command lines inside command lines (`sh -c '…'`) are looked into.
const NESTING: usize = 4;
/// How many words behind a program are searched for the rest of a denying rule.
const OPTIONS: usize = 32;

/// What the rules say of a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandVerdict {
    /// It may run.
    Allow {
        /// The rule that allows it.
        rule: Vec<String>,
    },
    /// It must not run.
    Deny {
        /// The rule that denies it.
        rule: Vec<String>,
    },
    /// It is nested too deeply to be looked for what the rules deny.
    TooDeep,
    /// The rules don't decide.
    Ask {
        /// Why not, to follow "asks because".
        reason: String,
    },
}

/// Judges a command line for `/bin/sh -c`.
pub fn judge(rules: &Execute, line: &str) -> CommandVerdict {
    match denied(&rules.deny, line, 0) {
        Some(Denied::By(rule)) => return CommandVerdict::Deny { rule: rule.to_vec() },
        Some(Denied::TooDeep) => return CommandVerdict::TooDeep,
        None => {}
    }
    match allowed(&rules.allow, line) {
        Ok(rule) => CommandVerdict::Allow { rule: rule.to_vec() },
        Err(reason) => CommandVerdict::Ask { reason },
    }
}

fn allowed<'a>(rules: &'a [Vec<String>], line: &str) -> Result<&'a [String], String> {
    let words = words::literal(line)?;
    let mut reason = "no rule allows it".to_owned();
    for rule in rules.iter().filter(|rule| !rule.is_empty() && words.starts_with(rule)) {
        match programs::objection(rule, &words) {
            None => return Ok(rule),
            Some(objection) => reason = objection,
        }
    }
    Err(reason)
}

/// Why a line is denied.
enum Denied<'a> {
    By(&'a [String]),
    TooDeep,
}

fn denied<'a>(rules: &'a [Vec<String>], line: &str, nesting: usize) -> Option<Denied<'a>> {
    if rules.is_empty() {
        return None;
    }
    if nesting > NESTING {
        return Some(Denied::TooDeep);
    }
    let seen = words::commands(line);
    let found = seen.commands.iter().find_map(|words| denied_command(rules, words, nesting));
    // A document may reach an interpreter by a pipe or a file, so any in the line counts.
    let run = || seen.commands.iter().flatten().any(|word| programs::evaluates(&programs::name(word)));
    found
        .or_else(|| {
            let documents = if !seen.documents.is_empty() && run() { seen.documents.as_slice() } else { &[] };
            documents.iter().find_map(|document| denied(rules, document, nesting + 1))
        })
        .or_else(|| seen.too_deep.then_some(Denied::TooDeep))
}

/// The rule that denies a simple command, or a command that it runs.
fn denied_command<'a>(rules: &'a [Vec<String>], words: &[String], nesting: usize) -> Option<Denied<'a>> {
    // One pass, so that no line takes long. `operands` reads what a launcher's command may be.
    let mut operands = Some(Operands::default());
    let mut finder = None;
    let mut evaluating = false;
    for (index, word) in words.iter().enumerate() {
        if evaluating
            && let Some(denied) = std::iter::once(word.as_str())
                .chain(programs::attached(word))
                .find_map(|line| denied(rules, line, nesting + 1))
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
        if let Some(rule) = rules.iter().find(|rule| denies(rule, word, &name, &words[index + 1..])) {
            return Some(Denied::By(rule));
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

/// Where the first operand may be: behind options, of which each may or may not take a value, and
/// behind variables and numbers, as of `env` and `timeout`.
#[derive(Default)]
struct Operands {
    /// Whether one more operand comes before.
    leading: bool,
    after_option: bool,
    found: bool,
}

impl Operands {
    /// Whether this word, the next one, may be the first operand.
    fn takes(&mut self, word: &str) -> bool {
        let option = word.starts_with(['-', '+']);
        let may_be = !option && !words::is_assignment(word);
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
    if denied != program && !denied.eq_ignore_ascii_case(name) && !denied.eq_ignore_ascii_case(file) {
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

#[cfg(test)]
mod tests;
