//! The first storey of command policy: a command line against the user's rules.
//!
//! A rule is the beginning of an argument list, compared word by word and never as a string. Allowing
//! is strict: the line must be nothing but literal words, and anything else asks. Denying is broad: a
//! denied program is looked for behind paths, variables, wrappers and in every part of a compound
//! line. Neither is a boundary: what an allowed program does once it runs is for a sandbox to limit.

mod programs;
mod words;

use crate::config::Execute;

/// How many command lines inside command lines (`sh -c '…'`) are looked into.
const NESTING: usize = 4;

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
    /// The rules don't decide.
    Ask {
        /// Why not, to follow "asks because".
        reason: String,
    },
}

/// Judges a command line for `/bin/sh -c`.
pub fn judge(rules: &Execute, line: &str) -> CommandVerdict {
    if let Some(rule) = denied(&rules.deny, line, 0) {
        return CommandVerdict::Deny { rule: rule.to_vec() };
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

fn denied<'a>(rules: &'a [Vec<String>], line: &str, nesting: usize) -> Option<&'a [String]> {
    if rules.is_empty() || nesting > NESTING {
        return None;
    }
    words::commands(line).iter().find_map(|words| denied_command(rules, words, nesting))
}

/// The rule that denies a simple command, or a command that it runs.
fn denied_command<'a>(rules: &'a [Vec<String>], words: &[String], nesting: usize) -> Option<&'a [String]> {
    // Where a command may begin: at the front, and behind everything that runs its arguments.
    let mut begins = vec![false; words.len() + 1];
    begins[0] = true;
    for (index, word) in words.iter().enumerate() {
        if !begins[index] {
            continue;
        }
        if programs::is_keyword(word) || words::is_assignment(word) {
            begins[index + 1] = true;
            continue;
        }
        let name = programs::name(word);
        let arguments = &words[index + 1..];
        if let Some(rule) = rules.iter().find(|rule| denies(rule, word, &name, arguments)) {
            return Some(rule);
        }
        if programs::is_launcher(&name) {
            operands(arguments).into_iter().for_each(|operand| begins[index + 1 + operand] = true);
        }
        for (option, argument) in arguments.iter().enumerate() {
            if programs::begins_command(&name, argument) {
                begins[index + 1 + option + 1] = true;
            }
        }
        if programs::evaluates(&name)
            && let Some(rule) = arguments.iter().find_map(|argument| denied(rules, argument, nesting + 1))
        {
            return Some(rule);
        }
    }
    None
}

fn denies(rule: &[String], program: &str, name: &str, arguments: &[String]) -> bool {
    let Some((denied, rest)) = rule.split_first() else { return false };
    (denied == program
        || denied.eq_ignore_ascii_case(name)
        || denied.eq_ignore_ascii_case(file_name(program)))
        && (rest.is_empty()
            || operands(arguments)
                .into_iter()
                .chain([0])
                .any(|operand| arguments[operand..].starts_with(rest)))
}

fn file_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// Where the first operand may be: behind options, of which each may or may not take a value, and
/// behind variables and numbers, as of `env` and `timeout`.
fn operands(arguments: &[String]) -> Vec<usize> {
    let mut operands = Vec::new();
    let mut after_option = false;
    for (index, word) in arguments.iter().enumerate() {
        let option = word.starts_with(['-', '+']);
        if !option && !words::is_assignment(word) {
            operands.push(index);
            if !after_option && !word.starts_with(|c: char| c.is_ascii_digit()) {
                break;
            }
        }
        after_option = option && !word.contains('=');
    }
    operands
}

#[cfg(test)]
mod tests;
