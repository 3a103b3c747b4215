//! The text of a hooks file: `.roo/hooks.json` of a workspace, `hooks.json` of a user. JSON in the form of
//! the public contract, with the key `roo` of a hook besides.
//!
//! A hook that is wrong is left out with its problem, and the others stay.

use std::borrow::Cow;
use std::time::Duration;

use serde::de::IgnoredAny;
use serde_json::Value;

use super::condition::Condition;
use super::matcher::Matcher;
use super::tool_names;
use roo_formats::config::yaml::{self, Step};
use roo_formats::declaration::{did_you_mean, meant_or_known};
use roo_formats::hooks::{
    Compared, DECLARATION, EventName, HookEntry, HookGroup, HookList, HookOptions, HooksByEvent, MatcherText,
};
use roo_formats::{Placed, Position, Problem, ProblemList, Severity};
use roo_text::misspelling;
use roo_text::render::{exact_line, without_hidden};

/// The largest hooks file, in bytes.
pub const FILE_LIMIT: usize = 256 << 10;
/// The most hooks of a file.
const HOOKS_LIMIT: usize = 500;
/// The longest command, in bytes.
const COMMAND_LIMIT: usize = 16 << 10;
/// The most problems of a file that are told one by one.
const PROBLEMS_LIMIT: usize = 20;
/// Maximum length of text searched for positions, in bytes: each is a walk from the beginning.
const WALK_LIMIT: usize = 1 << 20;

/// Kinds of hooks of the contract that are not run here.
const OTHER_TYPES: &[&str] = &["prompt", "agent", "http", "mcp_tool"];

/// Owner of a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// The user's own.
    User,
    /// The workspace's.
    Workspace,
}

impl Source {
    /// For people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Workspace => "workspace",
        }
    }
}

/// Program that a hook runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Program {
    /// A line for a shell.
    Line(String),
    /// A program and its arguments, without a shell.
    Direct {
        /// A path, or a name to be found in the search path.
        program: String,
        arguments: Vec<String>,
    },
}

impl Program {
    /// For people: the line, or the words.
    pub fn shown(&self) -> String {
        match self {
            Self::Line(line) => exact_line(line),
            Self::Direct { program, arguments } => {
                let words = std::iter::once(program).chain(arguments).map(String::as_str);
                // Only a NUL can't be quoted, and the file's reader takes none.
                let line = shlex::try_join(words).unwrap_or_else(|_| program.clone());
                exact_line(&line)
            }
        }
    }
}

/// Position of a hook in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HookPosition {
    /// The number of its group among those of the event, from 0.
    pub group: usize,
    /// Its number in the group, from 0.
    pub hook: usize,
}

/// One hook.
#[derive(Clone, Debug)]
pub struct Hook {
    /// Event that triggers it.
    pub event: EventName,
    /// For what it runs.
    pub matcher: Matcher,
    /// The matcher as it is written; empty for everything.
    pub matcher_text: String,
    /// For which calls it runs, more closely.
    pub condition: Option<Condition>,
    /// Program to run.
    pub program: Program,
    pub timeout: Duration,
    /// True if nobody waits for it.
    pub background: bool,
    /// True if a call is refused that it could not judge.
    pub fail_closed: bool,
    /// True if it runs outside of the sandbox. Of a user's own hooks only.
    pub is_unconfined: bool,
    /// Owner of the hook.
    pub source: Source,
    /// Position in its file.
    pub position: HookPosition,
}

impl Hook {
    /// For people: when it runs, and what.
    pub fn shown(&self) -> String {
        let matcher = match self.matcher_text.as_str() {
            "" | "*" => String::new(),
            text => format!(" ({})", exact_line(text)),
        };
        let condition = self.condition.as_ref();
        let condition =
            condition.map(|condition| format!(" if {}", exact_line(condition.as_str()))).unwrap_or_default();
        let outside = if self.is_unconfined { " (outside the sandbox)" } else { "" };
        format!("{}{matcher}{condition}: {}{outside}", self.event, self.program.shown())
    }
}

/// The hooks of a file, and what is wrong with the others.
#[derive(Clone, Debug, Default)]
pub struct HookFile {
    /// Those that can be run, in the order of the file.
    pub hooks: Vec<Hook>,
    /// In the order of the file.
    pub problems: Vec<Problem>,
}

/// Syntax of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A hooks file of ours: other keys are pointed out.
    Hooks,
    /// The settings of another program, with hooks among them.
    Settings,
}

impl HookFile {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// A text that is too large, no JSON, or no object with hooks.
    pub fn parse(text: &str, form: Form, source: Source) -> Result<Self, Problem> {
        let limit = (WALK_LIMIT / text.len().max(1)).clamp(1, PROBLEMS_LIMIT);
        let problems = ProblemList::new(text, yaml::locate, limit);
        let mut reader = HookFileReader { text, source, hooks: vec![], problems, full: false };
        reader.file(&value(text)?, form)?;
        Ok(Self { hooks: reader.hooks, problems: reader.problems.finish() })
    }
}

/// The value of a text that is strictly JSON; where it is wrong, the problem is at its place.
pub(super) fn value(text: &str) -> Result<Value, Problem> {
    if text.len() > FILE_LIMIT {
        let message = format!("the file has more than {FILE_LIMIT} bytes and is ignored");
        return Err(Problem::error(None, message));
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim().is_empty() {
        return Ok(Value::Null);
    }
    // Other programs read such files too, so nothing but JSON is taken. The other reader knows of keys that
    // are there twice, and of their places.
    serde_json::from_str::<IgnoredAny>(text).map_err(|error| {
        let position = Position { line: error.line(), column: error.column().max(1) };
        let reason = error.to_string();
        let reason = reason.split(" at line ").next().unwrap_or_default();
        Problem::error_at(text, Some(position), format!("invalid JSON: {reason}"))
    })?;
    yaml::parse(text)
}

/// Reads values and collects what is wrong with them.
struct HookFileReader<'a> {
    text: &'a str,
    source: Source,
    hooks: Vec<Hook>,
    problems: ProblemList<'a>,
    /// True if there are as many hooks as there may be.
    full: bool,
}

impl HookFileReader<'_> {
    fn file(&mut self, value: &Value, form: Form) -> Result<(), Problem> {
        let start = |problem: Problem| match problem.range {
            None => Problem::error_at(self.text, yaml::locate(self.text, &[]), problem.message),
            Some(_) => problem,
        };
        let file = match value {
            Value::Object(file) => file,
            Value::Null => return Ok(()),
            _ => return Err(start(Problem::error(None, "expected an object with `hooks`"))),
        };
        // What else is in the settings of another program is its own affair.
        let mut untold = ProblemList::new(self.text, yaml::locate, 0);
        let problems = match form {
            Form::Hooks => &mut self.problems,
            Form::Settings if DECLARATION.root().missing_key(file).is_some() => return Ok(()),
            Form::Settings => &mut untold,
        };
        let holds = "an object with a list for each event";
        let file: HookList =
            problems.read_file::<_, HooksByEvent>(&DECLARATION, file, holds).map_err(start)?;
        let Some(events) = file.hooks else { return Ok(()) };
        for (name, groups) in &events.value {
            self.event(&events, name, groups);
        }
        if let Some(disables) = file.disable_all_hooks.filter(|disables| disables.value) {
            self.hooks.clear();
            self.problems.warning(&disables.path, "no hook of this file runs");
        }
        Ok(())
    }

    fn event<T>(&mut self, events: &Placed<T>, name: &str, groups: &Value) {
        let Some(event) = EventName::parse(name) else {
            let (named, shown) = (events.below(Step::Name(name.to_owned())), exact_line(name));
            if EventName::never_comes(name) {
                self.problems
                    .warning(&named, format!("the event '{shown}' is not supported, so its hooks never run"));
                return;
            }
            let known: Vec<&str> = EventName::all().map(EventName::as_str).collect();
            let (end, meant) = meant_or_known(name, &known, "the events are");
            let message = format!("there is no event '{shown}'{end}");
            self.problems.suggest(Severity::Error, &named, message, meant);
            return;
        };
        let path = events.below(Step::from(name));
        let Value::Array(groups) = groups else {
            self.problems
                .error(&path, format!("`{name}` must be a list of `{{ \"matcher\": …, \"hooks\": […] }}`"));
            return;
        };
        for (index, group) in groups.iter().enumerate() {
            self.group(event, &[&path[..], &[Step::Index(index)]].concat(), index, group);
        }
    }

    fn group(&mut self, event: EventName, path: &[Step], index: usize, group: &Value) {
        if !group.is_object() {
            self.problems.error(path, "expected an object with `matcher` and `hooks`");
            return;
        }
        self.problems.take_first_error();
        let part = DECLARATION.at(path);
        let group: HookGroup = self.problems.read_outer::<_, HookEntry>(part.as_ref(), path, group);
        if self.problems.take_first_error().is_some() {
            return;
        }
        let Placed { path, value: MatcherText(matcher_text) } = group.matcher.unwrap_or_default();
        if let (Cow::Owned(_), _) = without_hidden(&matcher_text) {
            let message = "the matcher contains invisible characters; write them as `\\u…`".to_owned();
            self.problems.error(&path, message);
            return;
        }
        let matcher = match Matcher::parse(&matcher_text, event) {
            Ok(matcher) => matcher,
            Err(error) => {
                let message = format!(
                    "the matcher '{}' is invalid, so its hooks never run: {error}",
                    exact_line(&matcher_text)
                );
                self.problems.error(&path, message);
                return;
            }
        };
        self.doubt(event, &matcher, &path);
        let hooks = group.hooks.unwrap_or_default();
        for (number, hook) in hooks.value.iter().enumerate() {
            let path = hooks.below(Step::Index(number));
            if self.hooks.len() >= HOOKS_LIMIT {
                if !std::mem::replace(&mut self.full, true) {
                    let message = format!("there are more than {HOOKS_LIMIT} hooks; the rest are ignored");
                    self.problems.error(&path, message);
                }
                return;
            }
            let position = HookPosition { group: index, hook: number };
            let matcher = (matcher.clone(), matcher_text.as_str());
            if let Some(hook) = self.hook(event, matcher, position, hook, &path) {
                self.hooks.push(hook);
            }
        }
    }

    /// Points out a matcher that nothing can match.
    fn doubt(&mut self, event: EventName, matcher: &Matcher, path: &[Step]) {
        let names = match matcher {
            Matcher::Names(names) => names,
            Matcher::Pattern(pattern) if event.compared() == Compared::Tool => {
                return self.doubt_pattern(matcher, pattern.as_str(), path);
            }
            matcher => {
                if event.compared() == Compared::Nothing && !matches!(matcher, Matcher::All) {
                    self.problems.warning(path, format!("{event} has no matcher: its hooks always run"));
                }
                return;
            }
        };
        for name in names {
            let shown = exact_line(name);
            let message = match event.compared() {
                Compared::Nothing => format!("{event} has no matcher: its hooks always run"),
                Compared::Tool if tool_names::is_known(name) => continue,
                Compared::Tool if tool_names::never_comes(name) => {
                    format!("the tool '{shown}' is not supported")
                }
                Compared::Tool if name.starts_with("mcp__") && name.matches("__").count() < 2 => {
                    format!("there is no tool '{shown}'; `{shown}__.*` matches all tools of that server")
                }
                Compared::Tool if name.starts_with("mcp__") => continue,
                Compared::Tool => format!("there is no tool '{shown}'"),
                Compared::Word(words) if !words.contains(&name.as_str()) => {
                    format!("'{shown}' never occurs for this event; the values are {}", words.join(", "))
                }
                Compared::Word(_) | Compared::Mode => continue,
            };
            self.problems.warning(path, message);
        }
    }

    /// Points out a pattern that no built-in tool matches and that names no tools of servers.
    fn doubt_pattern(&mut self, matcher: &Matcher, pattern: &str, path: &[Step]) {
        let names = tool_names::all();
        let matches_one = matcher.first(names.iter().map(|(name, _)| *name)).is_some();
        if matches_one || pattern.contains("mcp") {
            return;
        }
        let shown = exact_line(pattern);
        let is_rule = pattern.split_once('(').is_some_and(|(tool, rest)| {
            tool_names::is_known(tool.trim_start_matches('^')) && rest.contains(')')
        });
        let message = match is_rule {
            true => format!(
                "the matcher '{shown}' matches no tool: it is a pattern for the tool's name alone; a rule such as \
                 `Bash(git *)` goes into the hook's `if`"
            ),
            false => format!(
                "the matcher '{shown}' matches no built-in tool; tools of servers are named `mcp__server__tool`"
            ),
        };
        self.problems.warning(path, message);
    }

    /// Points out a condition that asks for no known tool.
    fn doubt_condition(&mut self, condition: &Placed<String>) {
        let parsed = Condition::parse(condition.value.as_str());
        let Some(tool) = parsed.built_in_tool().filter(|tool| !tool_names::is_known(tool)) else { return };
        let shown = exact_line(tool);
        if tool_names::never_comes(tool) {
            let message = format!("the tool '{shown}' is not supported, so the hook never runs");
            self.problems.warning(&condition.path, message);
            return;
        }
        let names = tool_names::all();
        let meant = misspelling::meant(tool, names.iter().map(|(name, _)| *name));
        let message = format!("there is no tool '{shown}', so the hook never runs{}", did_you_mean(meant));
        self.problems.warning(&condition.path, message);
    }

    /// One hook; none when something in it is wrong.
    fn hook(
        &mut self,
        event: EventName,
        (matcher, matcher_text): (Matcher, &str),
        position: HookPosition,
        value: &Value,
        path: &[Step],
    ) -> Option<Hook> {
        let part = DECLARATION.at(path).filter(|_| value.is_object());
        let Some(part) = part else {
            self.problems.error(path, "expected a hook: `{ \"type\": \"command\", \"command\": … }`");
            return None;
        };
        let (entry, mismatches) = part.read::<HookEntry, ()>(path, value);
        let hook_type = &entry.hook_type;
        match hook_type.value.as_deref() {
            Some("command") => {}
            Some(other) if OTHER_TYPES.contains(&other) => {
                let message = format!("hooks of the type '{other}' are not supported; only `command` is");
                self.problems.error(&hook_type.path, message);
                return None;
            }
            None if !hook_type.is_written() => {
                self.problems.error(path, "`type` is missing: write `\"type\": \"command\"`");
                return None;
            }
            other => {
                let meant = other.and_then(|other| misspelling::meant(other, ["command"]));
                let message = format!("`type` must be `command`{}", did_you_mean(meant));
                self.problems.suggest(Severity::Error, &hook_type.path, message, meant);
                return None;
            }
        }
        self.problems.take_first_error();
        self.problems.add_mismatches(path, &mismatches);
        let program = self.program(entry.command, entry.args);
        let timeout = entry.timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let timeout = timeout.map_or(event.default_timeout(), |timeout| match event {
            // Nobody is to wait for long when all is over.
            EventName::SessionEnd => timeout.min(Duration::from_secs(60)),
            _ => timeout,
        });
        if let Some(condition) = &entry.condition {
            if event.compared() == Compared::Tool {
                self.doubt_condition(condition);
            } else {
                let message = format!("`if` applies to tools, and {event} has none: the hook never runs");
                self.problems.error(&condition.path, message);
            }
        }
        if let Some(shell) = entry.shell.filter(|shell| shell.value != "bash") {
            self.problems.error(&shell.path, "the only supported shell is `bash`");
        }
        let background = [entry.background, entry.async_rewake].into_iter().flatten().find(|it| it.value);
        if let Some(background) = &background {
            let message = "an `async` hook is not waited for, and its output has no effect";
            self.problems.warning(&background.path, message);
        }
        let HookOptions { fail_closed, sandbox } = entry.roo.unwrap_or_default();
        let fail_closed = self.fail_closed(event, fail_closed);
        let is_unconfined = self.is_unconfined(sandbox);
        if self.problems.take_first_error().is_some() {
            return None;
        }
        Some(Hook {
            event,
            matcher,
            matcher_text: matcher_text.to_owned(),
            condition: entry.condition.map(|condition| Condition::parse(condition.value)),
            program: program?,
            timeout,
            background: background.is_some(),
            fail_closed,
            is_unconfined,
            source: self.source,
            position,
        })
    }

    fn program(
        &mut self,
        command: Option<Placed<String>>,
        arguments: Option<Vec<String>>,
    ) -> Option<Program> {
        let Placed { path: at, value: line } = command?;
        let words = || std::iter::once(&line).chain(arguments.iter().flatten());
        if words().any(|word| word.contains('\0')) {
            self.problems
                .error(&at, "the command contains a NUL character, which no program accepts".to_owned());
            return None;
        }
        if words().map(String::len).sum::<usize>() > COMMAND_LIMIT {
            self.problems
                .error(&at, format!("the command has more than {COMMAND_LIMIT} bytes; put it in a script"));
            return None;
        }
        if let (Cow::Owned(_), _) = without_hidden(&line) {
            let message = "the command contains invisible characters; remove them".to_owned();
            self.problems.error(&at, message);
            return None;
        }
        Some(match arguments {
            None => Program::Line(line),
            Some(arguments) => Program::Direct { program: line, arguments },
        })
    }

    /// Returns whether a call is refused that the hook could not judge.
    fn fail_closed(&mut self, event: EventName, written: Option<Placed<bool>>) -> bool {
        let Some(written) = written.filter(|written| written.value) else { return false };
        if event != EventName::PreToolUse {
            let message = format!("only PreToolUse can deny a call, so this has no effect on {event}");
            self.problems.warning(&written.path, message);
        }
        true
    }

    /// Returns whether the hook runs outside of the sandbox.
    fn is_unconfined(&mut self, sandbox: Option<Placed<bool>>) -> bool {
        let Some(sandbox) = sandbox.filter(|sandbox| !sandbox.value) else { return false };
        if self.source != Source::User {
            let message = "a hook of a workspace can't leave the sandbox; only your own hooks file may run a hook outside it";
            self.problems.warning(&sandbox.path, message);
        }
        self.source == Source::User
    }
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
