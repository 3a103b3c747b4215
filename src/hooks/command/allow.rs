//! Allowing: every command of a plain line must match a rule, and nothing about it may be in doubt.

use super::place::{Place, Program};
use super::{git, programs};
use crate::shell::{Command, Join, Redirect, Script, Value};

/// The rules that allow a line, or why it asks.
pub(super) fn allowed(
    rules: &[Vec<String>],
    script: &Script,
    place: &dyn Place,
) -> Result<Vec<Vec<String>>, String> {
    let commands = script.plain()?;
    let directory = moved_to(commands)?;
    if let Some(directory) = directory {
        // Where a link leads is for the place to say.
        place.readable(directory)?;
    }
    let mut used: Vec<Vec<String>> = Vec::new();
    for (index, command) in commands.iter().enumerate() {
        let fed = command.join == Some(Join::Pipe)
            || command.redirects.iter().any(|to| to.operator.starts_with('<'));
        let judged = Judged { command, fed, place, directory: directory.filter(|_| index > 0) };
        let rule = judged.rule(rules)?;
        if !used.contains(rule) {
            used.push(rule.clone());
        }
    }
    Ok(used)
}

/// The directory that `cd <directory> && …` leads to. A `cd` anywhere else would leave open where the
/// commands behind it run.
fn moved_to(commands: &[Command]) -> Result<Option<&str>, String> {
    let moves = |command: &Command| command.words.first().and_then(|word| word.literal()) == Some("cd");
    if !commands.iter().any(moves) {
        return Ok(None);
    }
    let [first, rest @ ..] = commands else { return Ok(None) };
    if !moves(first) || rest.iter().any(moves) {
        return Err("it changes the directory on its way".to_owned());
    }
    // Behind `;` or a new line it would run here where the directory is missing.
    let guarded = rest.first().is_none_or(|second| second.join == Some(Join::And))
        && rest.iter().all(|command| matches!(command.join, Some(Join::And | Join::Pipe)));
    match first.words.as_slice() {
        [_, directory] if guarded => match directory.literal() {
            Some(directory) if !directory.is_empty() && !directory.starts_with('-') => {
                if programs::leads_outside(directory) {
                    Err(format!("`{directory}` may lead out of the workspace"))
                } else if programs::names_protected(directory) {
                    Err(format!("`{directory}` steers agents or tools"))
                } else {
                    Ok(Some(directory))
                }
            }
            _ => Err("it changes to a directory that isn't known".to_owned()),
        },
        _ => Err("it changes the directory on its way".to_owned()),
    }
}

/// A question about one path.
type Check = fn(&dyn Place, &str) -> Result<(), String>;

/// One command of a plain line.
struct Judged<'a> {
    command: &'a Command,
    /// Whether its input comes from the line.
    fed: bool,
    place: &'a dyn Place,
    /// Where it runs, when not in the place itself.
    directory: Option<&'a str>,
}

impl Judged<'_> {
    fn rule<'r>(&self, rules: &'r [Vec<String>]) -> Result<&'r Vec<String>, String> {
        let words: Vec<String> = self.command.words.iter().map(|word| word.visible.clone()).collect();
        let literals = self.command.words.iter().take_while(|word| word.literal().is_some()).count();
        let Some(program) = words.first().filter(|_| literals > 0) else {
            return Err("it holds no program that a rule could name".to_owned());
        };
        let mut reason = match rules.iter().any(|rule| rule.first() == Some(program)) {
            true => format!("no rule allows `{program}` with these arguments"),
            false => format!("no rule allows `{program}`"),
        };
        let matching = |rule: &&Vec<String>| {
            !rule.is_empty() && rule.len() <= literals && words.starts_with(rule.as_slice())
        };
        for rule in rules.iter().filter(matching) {
            match self.objection(rule, &words) {
                None => return Ok(rule),
                Some(objection) => reason = objection,
            }
        }
        Err(reason)
    }

    fn objection(&self, rule: &[String], words: &[String]) -> Option<String> {
        programs::objection(rule, words, self.fed, self.directory)
            .or_else(|| self.program(&words[0]))
            .or_else(|| self.patterns(&words[0]))
            .or_else(|| self.reads(rule, words))
            .or_else(|| self.command.redirects.iter().find_map(|redirect| self.redirect(redirect)))
    }

    /// Whether the name leads to what the rule means.
    fn program(&self, program: &str) -> Option<String> {
        if program.contains('/') {
            // The rule names this very path, but not from another directory.
            let moved = self.directory.filter(|_| !program.starts_with('/'));
            return moved.map(|directory| format!("`{program}` is another program in `{directory}`"));
        }
        if programs::is_builtin(program) {
            return None;
        }
        match self.place.program(program) {
            Program::Installed(_) => None,
            Program::Workspace(file) => Some(format!("`{program}` is {file}, a file of the workspace")),
            Program::Missing => Some(format!("there is no program `{program}`")),
        }
    }

    /// Names of files may look like options, and may be of any kind.
    fn patterns(&self, program: &str) -> Option<String> {
        let patterns = self.command.words.iter().filter_map(|word| match &word.value {
            Value::Pattern(pattern) => Some(pattern),
            Value::Literal(_) | Value::Opaque(_) => None,
        });
        for pattern in patterns {
            let text = &pattern.text;
            if !programs::only_reads(&programs::name(program)) {
                return Some(format!(
                    "the shell replaces `{text}` by names of files, and `{program}` may do more than read them"
                ));
            }
            if pattern.prefix.is_empty() || pattern.prefix.starts_with('-') {
                return Some(format!(
                    "`{text}` may stand for a file whose name looks like an option; write `./{text}`"
                ));
            }
            // A dot and a wildcard fit the directory above too.
            let hidden = |part: &str| part.starts_with('.') && part.contains(['*', '?', '[']);
            if text.split('/').any(hidden) {
                return Some(format!("`{text}` may lead out of the workspace"));
            }
        }
        None
    }

    /// Whether it is given what may not be read without asking, or shows what was committed of it.
    fn reads(&self, rule: &[String], words: &[String]) -> Option<String> {
        let name = programs::name(&words[0]);
        if programs::only_names(&name) {
            return None;
        }
        let unread = programs::unread(&name, words);
        for (index, word) in words.iter().enumerate().skip(rule.len().max(1)) {
            let is_script = unread == Some(index)
                || (programs::may_be_script(&name, words, index) && !self.place.is_there(&self.path(word)));
            let of_file: Check = if programs::only_lists(&name) {
                |place, path| place.within(path)
            } else if programs::shows(&name) && !is_script {
                |place, path| place.readable(path)
            } else {
                |place, path| place.reachable(path)
            };
            let judged = match &self.command.words[index].value {
                Value::Pattern(pattern) => self.found(&pattern.text, pattern.prefix.len(), of_file),
                _ if unread == Some(index) => Ok(()),
                _ => self.operand(word, of_file),
            };
            if let Err(reason) = judged {
                return Some(reason);
            }
        }
        if name == "git" { self.committed(rule, words) } else { None }
    }

    /// A word that may be a path, or hold one.
    fn operand(&self, word: &str, of_file: Check) -> Result<(), String> {
        let value = word.split_once('=').map(|(_, value)| value).filter(|_| word.starts_with("--"));
        if let Some(file) = value.or((!word.starts_with('-')).then_some(word)) {
            of_file(self.place, &self.path(file))?;
        }
        programs::parts(word).try_for_each(|part| match self.place.is_there(&self.path(part)) {
            true => of_file(self.place, &self.path(part)),
            false => Ok(()),
        })
    }

    /// The names that a pattern stands for.
    fn found(&self, pattern: &str, literal: usize, of_file: Check) -> Result<(), String> {
        let path = self.path(pattern);
        let literal = literal + path.len() - pattern.len();
        self.place.matching(&path, literal)?.iter().try_for_each(|name| {
            match self.place.is_directory(name) {
                // What is in it is for the sandbox to hide.
                true => self.place.reachable(name),
                false => of_file(self.place, name),
            }
        })
    }

    /// Whether git would show what was committed under a name that may not be read.
    fn committed(&self, rule: &[String], words: &[String]) -> Option<String> {
        let is_there = |path: &str| self.place.is_there(&self.path(path));
        git::searches_revision(&words[1..], is_there).or_else(|| {
            let searched = programs::unread("git", words);
            let further = words.iter().enumerate().skip(rule.len().max(1));
            let names = further.filter(|(index, word)| !word.starts_with('-') && searched != Some(*index));
            names
                .flat_map(|(_, word)| programs::parts(word).chain([word.as_str()]))
                .find_map(|path| self.place.recorded(self.directory, path).err())
        })
    }

    fn redirect(&self, redirect: &Redirect) -> Option<String> {
        let Some(target) = &redirect.target else {
            return Some(format!("`{}` leads nowhere", redirect.operator));
        };
        let text = &target.visible;
        match redirect.operator.as_str() {
            // Plain lines have descriptors alone here.
            "<&" | ">&" => None,
            "<<" | "<<-" if redirect.document.is_some() => None,
            "<" | ">" | ">>" | ">|" => {
                let Some(path) = target.literal() else {
                    return Some(format!("a redirection leads to `{text}`, which isn't known"));
                };
                if path == "/dev/null" {
                    None
                } else if path.starts_with("/dev/") {
                    // Among others `/dev/tcp/<host>/<port>`, which bash takes for a connection.
                    Some(format!("`{path}` is no file"))
                } else if let Some(directory) = self.directory {
                    Some(format!("`{path}` is redirected to in another directory, `{directory}`"))
                } else if redirect.operator == "<" {
                    self.place.readable(path).err()
                } else {
                    self.place.writable(path).err()
                }
            }
            operator => Some(format!("it holds `{operator}`")),
        }
    }

    fn path(&self, path: &str) -> String {
        match self.directory {
            Some(directory) if !path.starts_with('/') => {
                format!("{}/{path}", directory.trim_end_matches('/'))
            }
            _ => path.to_owned(),
        }
    }
}
