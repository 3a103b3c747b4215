//! Command lines against the user's rules.
//!
//! A rule is the beginning of an argument list, compared word by word and never as a string. Allowing
//! is strict: every command of the line must be plain and match a rule, and anything else asks. Denying
//! is broad: a denied program is looked for behind paths, variables, wrappers and in every part of a
//! compound line. Neither is a boundary: what an allowed program does once it runs is for a sandbox to
//! limit.

mod allow;
mod deny;
mod destructive;
mod diagnosis;
mod flow;
mod git;
mod hidden;
mod knowledge;
mod listing;
mod native;
mod no_disk;
mod place;
mod preset;
mod programs;
mod repository;
mod summary;
mod value;
mod variables;
mod wrapper;

pub use diagnosis::{problems, rule_problem, unknown_preset};
pub(super) use git::{changes_work_tree, may_sign};
pub use native::{independent_parts, is_context_command, is_urid_recipe, makes_directory};
pub use no_disk::NoDisk;
pub(super) use place::meets_processes;
pub use place::{Directory, Entry, Place, Program};
pub use preset::{Preset, preset, presets, suggested_presets};
pub use repository::{Repositories, Repository};
pub use summary::{Step, Summary, summarize};

use self::allow::Rule;
use self::value::{Argument, Kind};
use roo_formats::config::Execute;
use roo_text::render;

/// Characters of a reason that are shown: it may quote an argument.
const REASON: usize = 400;

/// Decisions of the rules on a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandVerdict {
    /// It may run.
    Allow {
        /// Rules and presets that allow its commands, each once.
        by: Vec<AllowedBy>,
    },
    /// It must not run.
    Deny {
        /// The rule that denies it.
        rule: Vec<String>,
    },
    /// It would destroy everything, so it never runs.
    Destroys {
        /// Sentence about the damage that it would do.
        what: String,
    },
    /// It would read what `.rooignore` hides, so it can't.
    Hidden {
        /// Reason, worded for the model.
        reason: String,
    },
    /// It is nested too deeply to be looked for what the rules deny.
    TooDeep,
    /// The rules don't decide.
    Ask {
        /// Reason, to follow "asks because".
        reason: String,
    },
}

/// Sources that allow a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllowedBy {
    /// A rule of the user's own.
    Rule(Vec<String>),
    /// A rule of a preset.
    Preset(&'static str),
}

impl CommandVerdict {
    fn allow(rules: Vec<&Rule>) -> Self {
        let mut by = Vec::new();
        for rule in rules {
            let one = match rule.preset {
                Some(preset) => AllowedBy::Preset(preset),
                None => AllowedBy::Rule(rule.words.clone()),
            };
            if !by.contains(&one) {
                by.push(one);
            }
        }
        Self::Allow { by }
    }
}

/// Judges a command line for `bash -c`, or `sh -c` where there is no bash.
pub fn judge(rules: &Execute, line: &str, place: &dyn Place) -> CommandVerdict {
    if let Some(problem) = knowledge::problem() {
        return CommandVerdict::Ask { reason: format!("what is known of programs can't be read: {problem}") };
    }
    let script = roo_shell::read(line);
    match deny::denied(&rules.deny, line, &script) {
        Some(deny::Denied::By(rule)) => return CommandVerdict::Deny { rule: rule.to_vec() },
        Some(deny::Denied::Destroys(what)) => return CommandVerdict::Destroys { what },
        Some(deny::Denied::TooDeep) => return CommandVerdict::TooDeep,
        None => {}
    }
    let own = own(&rules.allow);
    match flow::allowed(&all(&own, &rules.presets), &script, place) {
        Ok(used) => CommandVerdict::allow(used),
        Err(reason) => match hidden::reads(&script, place) {
            Some(reason) => CommandVerdict::Hidden { reason },
            None => CommandVerdict::Ask { reason: render::one_line(&reason, REASON) },
        },
    }
}

/// Returns whether a line only shows what is on disk or in git's history: then errors in its output are text that it found.
pub(crate) fn only_shows(line: &str) -> bool {
    let rules = Execute { presets: vec!["git-read".to_owned()], ..Execute::default() };
    matches!(judge(&rules, line, &NoDisk { is_writable: true }), CommandVerdict::Allow { .. })
}

/// The user's own rules.
fn own(allow: &[Vec<String>]) -> Vec<Rule> {
    let rule = |words: &Vec<String>| Rule { words: words.clone(), ..Rule::default() };
    allow.iter().filter(|words| !words.is_empty()).map(rule).collect()
}

/// All rules that allow: the user's own first, then those of presets. A preset that there isn't has none.
fn all<'a>(own: &'a [Rule], presets: &[String]) -> Vec<&'a Rule> {
    let presets = presets.iter().filter_map(|name| preset(name));
    own.iter().chain(presets.flat_map(Preset::rules)).collect()
}

/// The rules that would allow a line which asks only because there are none: its commands, word by word. None
/// where no rule could, or where the line holds what each case needs a look at.
pub(crate) fn rules_for(rules: &Execute, line: &str, place: &dyn Place) -> Option<Vec<Vec<String>>> {
    let script = roo_shell::read(line);
    let structure = script.structure().ok()?;
    let named: Vec<Vec<String>> = structure.simple_commands().map(named).collect::<Option<_>>()?;
    let named: Vec<Vec<String>> = named.into_iter().filter(|words| !words.is_empty()).collect();
    let known = own(&[rules.allow.as_slice(), &named].concat());
    let used = flow::allowed(&all(&known, &rules.presets), &script, place).ok()?;
    let used = used.into_iter().filter(|rule| rule.preset.is_none()).map(|rule| rule.words.clone());
    let new: Vec<Vec<String>> = used.filter(|rule| !rules.allow.contains(rule)).collect();
    (!new.is_empty()).then_some(new)
}

/// Returns whether a line consists of commands that begin with these words, and a rule for each would allow it.
pub(crate) fn consists_of(commands: &[Vec<String>], line: &str, place: &dyn Place) -> bool {
    let rules = Execute { allow: commands.to_vec(), ..Execute::default() };
    matches!(judge(&rules, line, place), CommandVerdict::Allow { .. })
}

/// The fewest words of each command by which [`consists_of`] still recognizes a line: its programs, and what they run. None
/// where no rule could allow the line.
pub(crate) fn shortest_commands(line: &str, place: &dyn Place) -> Option<Vec<Vec<String>>> {
    let mut commands = rules_for(&Execute::default(), line, place)?;
    for index in 0..commands.len() {
        let words = commands.get(index)?.clone();
        let shortest = (1..words.len()).find_map(|count| {
            let mut shorter = commands.clone();
            shorter.get_mut(index)?.truncate(count);
            consists_of(&shorter, line, place).then_some(shorter)
        });
        commands = shortest.unwrap_or(commands);
    }
    commands.dedup();
    Some(commands)
}

/// The first of these presets that would allow a line which asks, together with the rules that there are.
pub(crate) fn preset_for(
    rules: &Execute,
    among: &[&'static Preset],
    line: &str,
    place: &dyn Place,
) -> Option<&'static Preset> {
    let script = roo_shell::read(line);
    let own = own(&rules.allow);
    let known = all(&own, &rules.presets);
    let allows = |preset: &&&'static Preset| {
        let known: Vec<&Rule> = known.iter().copied().chain(preset.rules()).collect();
        flow::allowed(&known, &script, place).is_ok()
    };
    among.iter().filter(|preset| !rules.presets.iter().any(|name| name == preset.name)).find(allows).copied()
}

/// The words of a command that a rule for it would have; none where they aren't known.
fn named(command: &roo_shell::structure::Simple) -> Option<Vec<String>> {
    let word =
        |word: &roo_shell::structure::Word| Some(Argument { text: word.literal()?, kind: Kind::Exact });
    let mut words: Vec<Argument> = command.words.iter().map(word).collect::<Option<_>>()?;
    for _ in 0..=wrapper::MAX_WRAPPERS {
        let name = words.first().map(|word| word.text.clone()).unwrap_or_default();
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
