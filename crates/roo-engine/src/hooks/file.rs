//! The text of a hooks file: `.roo/hooks.json` of a workspace, `hooks.json` of a user. JSON in the form of
//! the public contract, with the key `roo` of a hook besides.
//!
//! A hook that is wrong is left out with its problem, and the others stay.

use std::time::Duration;

use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use super::condition::Condition;
use super::matcher::Matcher;
use super::tool_names;
use roo_formats::config::yaml::{self, Step};
use roo_formats::declaration::{did_you_mean, meant_or_known};
use roo_formats::hooks::{Compared, DECLARATION, EventName};
use roo_formats::{Position, Problem, ProblemList, Severity};
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
        /// Its arguments.
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
    /// Timeout.
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

/// Content of the key `roo` of a hook.
#[derive(Default)]
struct Own {
    fail_closed: bool,
    is_unconfined: bool,
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

type JsonObject = Map<String, Value>;

fn key(name: &str) -> Step {
    Step::Key(name.to_owned())
}

impl HookFileReader<'_> {
    fn file(&mut self, value: &Value, form: Form) -> Result<(), Problem> {
        let file = match value {
            Value::Object(file) => file,
            Value::Null => return Ok(()),
            _ => {
                let message = "expected an object with `hooks`".to_owned();
                return Err(Problem::error_at(self.text, yaml::locate(self.text, &[]), message));
            }
        };
        if form == Form::Hooks {
            self.problems.check(Some(&DECLARATION.root()), &[], value, &["hooks"]);
        }
        let events = match file.get("hooks") {
            Some(Value::Object(events)) => events,
            Some(Value::Null) => return Ok(()),
            None if form == Form::Settings => return Ok(()),
            None => return Err(self.without_hooks(file)),
            Some(_) => {
                let position = yaml::locate(self.text, &[key("hooks")]);
                let message = "`hooks` must be an object with a list for each event".to_owned();
                return Err(Problem::error_at(self.text, position, message));
            }
        };
        for (name, groups) in events {
            self.event(name, groups);
        }
        if file.get("disableAllHooks") == Some(&Value::Bool(true)) {
            self.hooks.clear();
            self.problems.warning(&[key("disableAllHooks")], "no hook of this file runs");
        }
        Ok(())
    }

    /// The problem of a file without `hooks`, at a key that may be meant for it.
    fn without_hooks(&self, file: &JsonObject) -> Problem {
        let misspelt = file.keys().find(|key| misspelling::meant(key, ["hooks"]).is_some());
        let Some(key) = misspelt else {
            let message = "`hooks` is missing; add an object with a list for each event";
            return Problem::error_at(self.text, yaml::locate(self.text, &[]), message);
        };
        let position = yaml::locate(self.text, &[Step::Name(key.clone())]);
        let message = format!("unknown key `{}`{}", exact_line(key), did_you_mean(Some("hooks")));
        Problem::error_at(self.text, position, message).with_suggestion(Some("hooks"))
    }

    fn event(&mut self, name: &str, groups: &Value) {
        let named = [key("hooks"), Step::Name(name.to_owned())];
        let Some(event) = EventName::parse(name) else {
            let shown = exact_line(name);
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
        let path = [key("hooks"), key(name)];
        let Value::Array(groups) = groups else {
            self.problems
                .error(&path, format!("`{name}` must be a list of `{{ \"matcher\": …, \"hooks\": […] }}`"));
            return;
        };
        for (index, group) in groups.iter().enumerate() {
            self.group(event, index, group);
        }
    }

    fn group(&mut self, event: EventName, index: usize, group: &Value) {
        let path = [key("hooks"), key(event.as_str()), Step::Index(index)];
        if !group.is_object() {
            self.problems.error(&path, "expected an object with `matcher` and `hooks`");
            return;
        }
        let at = |step: Step| [&path[..], &[step]].concat();
        self.problems.take_first_error();
        self.problems.check(DECLARATION.at(&path).as_ref(), &path, group, &["hooks"]);
        if self.problems.take_first_error().is_some() {
            return;
        }
        let matcher_text = group.get("matcher").and_then(Value::as_str).unwrap_or_default();
        if let (std::borrow::Cow::Owned(_), _) = without_hidden(matcher_text) {
            let message = "the matcher contains invisible characters; write them as `\\u…`".to_owned();
            self.problems.error(&at(key("matcher")), message);
            return;
        }
        let matcher = match Matcher::parse(matcher_text, event) {
            Ok(matcher) => matcher,
            Err(error) => {
                let message = format!(
                    "the matcher '{}' is invalid, so its hooks never run: {error}",
                    exact_line(matcher_text)
                );
                self.problems.error(&at(key("matcher")), message);
                return;
            }
        };
        self.doubt(event, &matcher, &at(key("matcher")));
        let hooks = group.get("hooks").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        for (number, hook) in hooks.iter().enumerate() {
            let path = [&path[..], &[key("hooks"), Step::Index(number)]].concat();
            if self.hooks.len() >= HOOKS_LIMIT {
                if !std::mem::replace(&mut self.full, true) {
                    let message = format!("there are more than {HOOKS_LIMIT} hooks; the rest are ignored");
                    self.problems.error(&path, message);
                }
                return;
            }
            let position = HookPosition { group: index, hook: number };
            let matcher = (matcher.clone(), matcher_text);
            if let Some(hook) = self.hook(event, matcher, position, hook, &path) {
                self.hooks.push(hook);
            }
        }
    }

    /// Points out a matcher that nothing can match.
    fn doubt(&mut self, event: EventName, matcher: &Matcher, path: &[Step]) {
        let Matcher::Names(names) = matcher else {
            if event.compared() == Compared::Nothing && !matches!(matcher, Matcher::All) {
                self.problems.warning(path, format!("{event} has no matcher: its hooks always run"));
            }
            return;
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

    /// One hook; none when something in it is wrong.
    fn hook(
        &mut self,
        event: EventName,
        (matcher, matcher_text): (Matcher, &str),
        position: HookPosition,
        value: &Value,
        path: &[Step],
    ) -> Option<Hook> {
        let Value::Object(object) = value else {
            self.problems
                .error(path, "expected a hook: `{ \"type\": \"command\", \"command\": … }`".to_owned());
            return None;
        };
        let at = |name: &str| [path, &[key(name)]].concat();
        match object.get("type").map(Value::as_str) {
            Some(Some("command")) => {}
            Some(Some(other)) if OTHER_TYPES.contains(&other) => {
                let message = format!("hooks of the type '{other}' are not supported; only `command` is");
                self.problems.error(&at("type"), message);
                return None;
            }
            None => {
                self.problems.error(path, "`type` is missing: write `\"type\": \"command\"`".to_owned());
                return None;
            }
            Some(other) => {
                let meant = other.and_then(|other| misspelling::meant(other, ["command"]));
                let message = format!("`type` must be `command`{}", did_you_mean(meant));
                self.problems.suggest(Severity::Error, &at("type"), message, meant);
                return None;
            }
        }
        self.problems.take_first_error();
        self.problems.check(DECLARATION.at(path).as_ref(), path, value, &[]);
        let text = |name: &str| object.get(name).and_then(Value::as_str);
        let program = self.program(object, path);
        let timeout = object.get("timeout").and_then(Value::as_f64).filter(|seconds| *seconds > 0.0);
        let timeout = timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let timeout = timeout.map_or(event.default_timeout(), |timeout| match event {
            // Nobody is to wait for long when all is over.
            EventName::SessionEnd => timeout.min(Duration::from_secs(60)),
            _ => timeout,
        });
        let condition = text("if").map(|text| Condition::parse(text.to_owned()));
        if condition.is_some() && event.compared() != Compared::Tool {
            let message = format!("`if` applies to tools, and {event} has none: the hook never runs");
            self.problems.error(&at("if"), message);
        }
        if text("shell").is_some_and(|shell| shell != "bash") {
            self.problems.error(&at("shell"), "the only supported shell is `bash`");
        }
        let background = ["async", "asyncRewake"].into_iter().find(|name| is_set(object, name));
        if let Some(name) = background {
            let message = "an `async` hook is not waited for, and its output has no effect";
            self.problems.warning(&at(name), message);
        }
        let Own { fail_closed, is_unconfined } = self.own(event, object, path);
        if self.problems.take_first_error().is_some() {
            return None;
        }
        Some(Hook {
            event,
            matcher,
            matcher_text: matcher_text.to_owned(),
            condition,
            program: program?,
            timeout,
            background: background.is_some(),
            fail_closed,
            is_unconfined,
            source: self.source,
            position,
        })
    }

    fn program(&mut self, object: &JsonObject, path: &[Step]) -> Option<Program> {
        let at = [path, &[key("command")]].concat();
        let line = object.get("command").and_then(Value::as_str)?;
        let arguments = object
            .get("args")
            .and_then(Value::as_array)
            .map(|words| words.iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<String>>());
        let words = || std::iter::once(line).chain(arguments.iter().flatten().map(String::as_str));
        if words().any(|word| word.contains('\0')) {
            self.problems
                .error(&at, "the command contains a NUL character, which no program accepts".to_owned());
            return None;
        }
        if words().map(str::len).sum::<usize>() > COMMAND_LIMIT {
            self.problems
                .error(&at, format!("the command has more than {COMMAND_LIMIT} bytes; put it in a script"));
            return None;
        }
        if let (std::borrow::Cow::Owned(_), _) = without_hidden(line) {
            let message = "the command contains invisible characters; remove them".to_owned();
            self.problems.error(&at, message);
            return None;
        }
        Some(match arguments {
            None => Program::Line(line.to_owned()),
            Some(arguments) => Program::Direct { program: line.to_owned(), arguments },
        })
    }

    /// Reads the options under the key `roo`.
    fn own(&mut self, event: EventName, object: &JsonObject, path: &[Step]) -> Own {
        let Some(own) = object.get("roo").and_then(Value::as_object) else { return Own::default() };
        let at = |name: &str| [path, &[key("roo"), key(name)]].concat();
        let fail_closed = is_set(own, "failClosed");
        if fail_closed && event != EventName::PreToolUse {
            let message = format!("only PreToolUse can deny a call, so this has no effect on {event}");
            self.problems.warning(&at("failClosed"), message);
        }
        let wants_out = own.get("sandbox") == Some(&Value::Bool(false));
        let is_unconfined = wants_out && self.source == Source::User;
        if wants_out && !is_unconfined {
            let message = "hooks of a workspace always run in the sandbox; only your own hooks file may run a hook outside it";
            self.problems.warning(&at("sandbox"), message);
        }
        Own { fail_closed, is_unconfined }
    }
}

fn is_set(object: &JsonObject, name: &str) -> bool {
    object.get(name) == Some(&Value::Bool(true))
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
