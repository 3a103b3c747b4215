//! The first storey of command policy: a command line against the user's rules.
//!
//! A rule is the beginning of an argument list, compared word by word and never as a string. Allowing
//! is strict: every command of the line must be plain and match a rule, and anything else asks. Denying
//! is broad: a denied program is looked for behind paths, variables, wrappers and in every part of a
//! compound line. Neither is a boundary: what an allowed program does once it runs is for a sandbox to
//! limit.

mod allow;
mod deny;
mod git;
mod knowledge;
mod native;
mod place;
mod programs;
mod summary;

pub use native::{is_context_command, is_urid_recipe, makes_directory};
pub use place::{Directory, Place, Program};
pub use summary::{Step, Summary, summarize};

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
        Some(deny::Denied::TooDeep) => return CommandVerdict::TooDeep,
        None => {}
    }
    match allow::allowed(&rules.allow, &script, place) {
        Ok(rules) => CommandVerdict::Allow { rules },
        Err(reason) => CommandVerdict::Ask { reason: render::one_line(&reason, REASON) },
    }
}

/// The rules that would allow a line which asks only because there are none: its commands, word by word. None
/// where no rule could, or where the line holds what each case needs a look at.
pub fn rules_for(rules: &Execute, line: &str, place: &dyn Place) -> Option<Vec<Vec<String>>> {
    let script = shell::read(line);
    let commands = script.plain().ok()?;
    let words = |command: &shell::Command| -> Option<Vec<String>> {
        command.words.iter().map(|word| word.literal().map(str::to_owned)).collect()
    };
    let own: Vec<Vec<String>> = commands.iter().map(words).collect::<Option<_>>()?;
    let known = allow::allowed(&[rules.allow.clone(), own].concat(), &script, place).ok()?;
    let new: Vec<Vec<String>> = known.into_iter().filter(|rule| !rules.allow.contains(rule)).collect();
    (!new.is_empty()).then_some(new)
}

#[cfg(test)]
mod tests;
