//! The first storey of command policy: a command line against the user's rules.
//!
//! A rule is the beginning of an argument list, compared word by word and never as a string. Allowing
//! is strict: every command of the line must be plain and match a rule, and anything else asks. Denying
//! is broad: a denied program is looked for behind paths, variables, wrappers and in every part of a
//! compound line. Neither is a boundary: what an allowed program does once it runs is for a sandbox to
//! limit.

mod allow;
mod deny;
mod destructive;
mod flow;
mod git;
mod hidden;
mod knowledge;
mod listing;
mod native;
mod place;
mod programs;
mod repository;
mod summary;
mod value;
mod variables;
mod wrapper;

pub use native::{is_context_command, is_urid_recipe, makes_directory};
pub(super) use place::meets_processes;
pub use place::{Directory, Entry, Place, Program};
pub use repository::{Repositories, Repository};
pub use summary::{Step, Summary, summarize};

use self::allow::Rule;
use self::value::{Argument, Kind};
use crate::config::Execute;
use crate::shell;
use crate::text::render;

/// Characters of a reason that are shown: it may quote an argument.
const REASON: usize = 400;

/// What the rules say of a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandVerdict {
    /// It may run.
    Allow {
        /// The rules that allow its commands, each once.
        rules: Vec<Vec<String>>,
    },
    /// It must not run.
    Deny {
        /// The rule that denies it.
        rule: Vec<String>,
    },
    /// It would destroy everything, so it never runs.
    Destroys {
        /// What it would do, as a sentence about it.
        what: String,
    },
    /// It would read what `.rooignore` hides, so it can't.
    Hidden {
        /// Why, worded for the model.
        reason: String,
    },
    /// It is nested too deeply to be looked for what the rules deny.
    TooDeep,
    /// The rules don't decide.
    Ask {
        /// Why not, to follow "asks because".
        reason: String,
    },
}

/// Judges a command line for `bash -c`, or `sh -c` where there is no bash.
pub fn judge(rules: &Execute, line: &str, place: &dyn Place) -> CommandVerdict {
    if let Some(problem) = knowledge::problem() {
        return CommandVerdict::Ask { reason: format!("what is known of programs can't be read: {problem}") };
    }
    let script = shell::read(line);
    match deny::denied(&rules.deny, line, &script) {
        Some(deny::Denied::By(rule)) => return CommandVerdict::Deny { rule: rule.to_vec() },
        Some(deny::Denied::Destroys(what)) => return CommandVerdict::Destroys { what },
        Some(deny::Denied::TooDeep) => return CommandVerdict::TooDeep,
        None => {}
    }
    match flow::allowed(&all(rules, &[]), &script, place) {
        Ok(used) => {
            CommandVerdict::Allow { rules: used.into_iter().map(|rule| rule.words.clone()).collect() }
        }
        Err(reason) => match hidden::reads(&script, place) {
            Some(reason) => CommandVerdict::Hidden { reason },
            None => CommandVerdict::Ask { reason: render::one_line(&reason, REASON) },
        },
    }
}

/// The rules that allow, and some more.
fn all(rules: &Execute, more: &[Vec<String>]) -> Vec<Rule> {
    let own = |words: &Vec<String>| Rule { words: words.clone(), preset: None, is_exact: false };
    rules.allow.iter().chain(more).filter(|words| !words.is_empty()).map(own).collect()
}

/// The rules that would allow a line which asks only because there are none: its commands, word by word. None
/// where no rule could, or where the line holds what each case needs a look at.
pub fn rules_for(rules: &Execute, line: &str, place: &dyn Place) -> Option<Vec<Vec<String>>> {
    let script = shell::read(line);
    let structure = script.structure().ok()?;
    let own: Vec<Vec<String>> = structure.simple_commands().map(named).collect::<Option<_>>()?;
    let own: Vec<Vec<String>> = own.into_iter().filter(|words| !words.is_empty()).collect();
    let known = all(rules, &own);
    let used = flow::allowed(&known, &script, place).ok()?;
    let used = used.into_iter().map(|rule| rule.words.clone());
    let new: Vec<Vec<String>> = used.filter(|rule| !rules.allow.contains(rule)).collect();
    (!new.is_empty()).then_some(new)
}

/// The words of a command that a rule for it would have; none where they aren't known.
fn named(command: &shell::structure::Simple) -> Option<Vec<String>> {
    let word = |word: &shell::structure::Word| Some(Argument { text: word.literal()?, kind: Kind::Exact });
    let mut words: Vec<Argument> = command.words.iter().map(word).collect::<Option<_>>()?;
    for _ in 0..=wrapper::MOST {
        let name = words.first().map(|word| programs::name(&word.text)).unwrap_or_default();
        if name == "xargs" {
            let at = wrapper::unwrap_xargs(&words).ok()?.at;
            words.drain(..at);
        } else if knowledge::knowledge().wrappers.has(&name) && words.len() > 1 {
            let at = wrapper::unwrap(&name, &words).ok()?.at;
            words.drain(..at);
        }
    }
    Some(words.into_iter().map(|word| word.text).collect())
}

#[cfg(test)]
mod tests;
