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
use roo_formats::config::Position;
use roo_formats::config::yaml::{self, Step};
use roo_formats::hooks::{Compared, DECLARATION, EventName};
use roo_formats::modes::Severity;
use roo_text::render::{exact_line, without_hidden};

/// The largest hooks file, in bytes.
pub const FILE_LIMIT: usize = 256 << 10;
/// The most hooks of a file.
const HOOKS_LIMIT: usize = 500;
/// The longest command, in bytes.
const COMMAND_LIMIT: usize = 16 << 10;
/// The longest time that a hook may have, in seconds.
const TIMEOUT_LIMIT: f64 = 86_400.0;
/// The most problems of a file that are told one by one.
const PROBLEMS_LIMIT: usize = 20;
/// Maximum length of text searched for positions, in bytes: each is a walk from the beginning.
const WALK_LIMIT: usize = 1 << 20;

/// Kinds of hooks of the contract that are not run here.
const OTHER_TYPES: &[&str] = &["prompt", "agent", "http", "mcp_tool"];

/// Whose a hook is.
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
pub struct Place {
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
    /// Whose it is.
    pub source: Source,
    /// Position in its file.
    pub place: Place,
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

/// Problem with a hooks file or with a part of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct HookFileProblem {
    /// Position, if known.
    pub position: Option<Position>,
    /// Severity.
    pub severity: Severity,
    /// Problem and remedy.
    pub message: String,
}

impl HookFileProblem {
    fn whole_file(position: Option<Position>, message: String) -> Self {
        Self { position, severity: Severity::Error, message }
    }
}

/// The hooks of a file, and what is wrong with the others.
#[derive(Clone, Debug, Default)]
pub struct HookFile {
    /// Those that can be run, in the order of the file.
    pub hooks: Vec<Hook>,
    /// In the order of the file.
    pub problems: Vec<HookFileProblem>,
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
    pub fn parse(text: &str, form: Form, source: Source) -> Result<Self, HookFileProblem> {
        let value = value(text)?;
        let mut reader =
            HookFileReader { text, source, hooks: vec![], problems: vec![], untold: 0, full: false };
        reader.file(&value, form)?;
        Ok(reader.finish())
    }
}

/// The value of a text that is strictly JSON; where it is wrong, the problem is at its place.
pub(super) fn value(text: &str) -> Result<Value, HookFileProblem> {
    if text.len() > FILE_LIMIT {
        let message = format!("the file has more than {FILE_LIMIT} bytes and is ignored");
        return Err(HookFileProblem::whole_file(None, message));
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim().is_empty() {
        return Ok(Value::Null);
    }
    // Other programs read such files too, so nothing but JSON is taken. The other reader knows of keys that
    // are there twice, and of their places.
    serde_json::from_str::<IgnoredAny>(text).map_err(|error| {
        let position = Position { line: error.line(), column: error.column().max(1) };
        let text = error.to_string();
        let reason = text.split(" at line ").next().unwrap_or_default();
        HookFileProblem::whole_file(Some(position), format!("invalid JSON: {reason}"))
    })?;
    yaml::parse(text).map_err(|(position, message)| HookFileProblem::whole_file(position, message))
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
    problems: Vec<HookFileProblem>,
    untold: usize,
    /// True if there are as many hooks as there may be.
    full: bool,
}

type JsonObject = Map<String, Value>;

fn key(name: &str) -> Step {
    Step::Key(name.to_owned())
}

impl HookFileReader<'_> {
    fn file(&mut self, value: &Value, form: Form) -> Result<(), HookFileProblem> {
        let file = match value {
            Value::Object(file) => file,
            Value::Null => return Ok(()),
            _ => {
                let message = "expected an object with `hooks`".to_owned();
                return Err(HookFileProblem::whole_file(yaml::locate(self.text, &[]), message));
            }
        };
        if form == Form::Hooks {
            self.unknown_keys(file, &[]);
        }
        let events = match file.get("hooks") {
            Some(Value::Object(events)) => events,
            Some(Value::Null) => return Ok(()),
            None if form == Form::Settings => return Ok(()),
            None => {
                let message = "`hooks` is missing; add an object with a list for each event".to_owned();
                return Err(HookFileProblem::whole_file(yaml::locate(self.text, &[]), message));
            }
            Some(_) => {
                let position = yaml::locate(self.text, &[key("hooks")]);
                let message = "`hooks` must be an object with a list for each event".to_owned();
                return Err(HookFileProblem::whole_file(position, message));
            }
        };
        for (name, groups) in events {
            self.event(name, groups);
        }
        match file.get("disableAllHooks") {
            None | Some(Value::Null | Value::Bool(false)) => {}
            Some(Value::Bool(true)) => {
                self.hooks.clear();
                self.warning(&[key("disableAllHooks")], "no hook of this file runs".to_owned());
            }
            Some(_) => {
                self.error(&[key("disableAllHooks")], "`disableAllHooks` must be true or false".to_owned());
            }
        }
        Ok(())
    }

    fn finish(mut self) -> HookFile {
        if self.untold > 0 {
            let message = format!("and {} more problems in this file", self.untold);
            self.problems.push(HookFileProblem::whole_file(None, message));
        }
        HookFile { hooks: self.hooks, problems: self.problems }
    }

    fn error(&mut self, path: &[Step], message: String) {
        self.problem(Severity::Error, path, message);
    }

    fn warning(&mut self, path: &[Step], message: String) {
        self.problem(Severity::Warning, path, message);
    }

    fn problem(&mut self, severity: Severity, path: &[Step], message: String) {
        let limit = (WALK_LIMIT / self.text.len().max(1)).clamp(1, PROBLEMS_LIMIT);
        if self.problems.len() >= limit {
            self.untold += 1;
            return;
        }
        let position = yaml::locate(self.text, path);
        self.problems.push(HookFileProblem { position, severity, message });
    }

    /// Points out the keys of a mapping that aren't declared at `path`.
    fn unknown_keys(&mut self, object: &JsonObject, path: &[Step]) {
        for unknown in DECLARATION.at(path).iter().flat_map(|part| part.unknown_keys(object)) {
            self.warning(&[path, &[Step::Name(unknown.name.to_owned())]].concat(), unknown.to_string());
        }
    }

    fn event(&mut self, name: &str, groups: &Value) {
        let named = [key("hooks"), Step::Name(name.to_owned())];
        let Some(event) = EventName::parse(name) else {
            let shown = exact_line(name);
            if EventName::never_comes(name) {
                self.warning(&named, format!("the event '{shown}' is not supported, so its hooks never run"));
                return;
            }
            let known: Vec<&str> = EventName::all().map(EventName::as_str).collect();
            let message = match known.iter().find(|known| known.eq_ignore_ascii_case(name)) {
                Some(known) => format!("there is no event '{shown}'; write `{known}`"),
                None => format!("there is no event '{shown}'; the events are {}", known.join(", ")),
            };
            self.error(&named, message);
            return;
        };
        let path = [key("hooks"), key(name)];
        let Value::Array(groups) = groups else {
            self.error(&path, format!("`{name}` must be a list of `{{ \"matcher\": …, \"hooks\": […] }}`"));
            return;
        };
        for (index, group) in groups.iter().enumerate() {
            self.group(event, index, group);
        }
    }

    fn group(&mut self, event: EventName, index: usize, group: &Value) {
        let path = [key("hooks"), key(event.as_str()), Step::Index(index)];
        let Value::Object(group) = group else {
            self.error(&path, "expected an object with `matcher` and `hooks`".to_owned());
            return;
        };
        let at = |step: Step| [&path[..], &[step]].concat();
        self.unknown_keys(group, &path);
        let matcher_text = match group.get("matcher") {
            None | Some(Value::Null) => "",
            Some(Value::String(text)) => text,
            Some(_) => {
                self.error(&at(key("matcher")), "`matcher` must be a string".to_owned());
                return;
            }
        };
        if let (std::borrow::Cow::Owned(_), _) = without_hidden(matcher_text) {
            let message = "the matcher contains invisible characters; write them as `\\u…`".to_owned();
            self.error(&at(key("matcher")), message);
            return;
        }
        let matcher = match Matcher::parse(matcher_text, event) {
            Ok(matcher) => matcher,
            Err(error) => {
                let message = format!(
                    "the matcher '{}' is invalid, so its hooks never run: {error}",
                    exact_line(matcher_text)
                );
                self.error(&at(key("matcher")), message);
                return;
            }
        };
        self.doubt(event, &matcher, &at(key("matcher")));
        let hooks = match group.get("hooks") {
            Some(Value::Array(hooks)) => hooks,
            Some(_) => {
                self.error(&at(key("hooks")), "`hooks` must be a list of hooks".to_owned());
                return;
            }
            None => {
                self.error(&path, "`hooks` is missing; add a list of hooks to run".to_owned());
                return;
            }
        };
        for (number, hook) in hooks.iter().enumerate() {
            let path = [&path[..], &[key("hooks"), Step::Index(number)]].concat();
            if self.hooks.len() >= HOOKS_LIMIT {
                if !std::mem::replace(&mut self.full, true) {
                    let message = format!("there are more than {HOOKS_LIMIT} hooks; the rest are ignored");
                    self.error(&path, message);
                }
                return;
            }
            let place = Place { group: index, hook: number };
            let matcher = (matcher.clone(), matcher_text);
            if let Some(hook) = self.hook(event, matcher, place, hook, &path) {
                self.hooks.push(hook);
            }
        }
    }

    /// Points out a matcher that nothing can match.
    fn doubt(&mut self, event: EventName, matcher: &Matcher, path: &[Step]) {
        let Matcher::Names(names) = matcher else {
            if event.compared() == Compared::Nothing && !matches!(matcher, Matcher::All) {
                self.warning(path, format!("{event} has no matcher: its hooks always run"));
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
            self.warning(path, message);
        }
    }

    /// One hook; none when something in it is wrong.
    fn hook(
        &mut self,
        event: EventName,
        (matcher, matcher_text): (Matcher, &str),
        place: Place,
        value: &Value,
        path: &[Step],
    ) -> Option<Hook> {
        let Value::Object(object) = value else {
            self.error(path, "expected a hook: `{ \"type\": \"command\", \"command\": … }`".to_owned());
            return None;
        };
        let at = |name: &str| [path, &[key(name)]].concat();
        match object.get("type").map(Value::as_str) {
            Some(Some("command")) => {}
            Some(Some(other)) if OTHER_TYPES.contains(&other) => {
                let message = format!("hooks of the type '{other}' are not supported; only `command` is");
                self.error(&at("type"), message);
                return None;
            }
            None => {
                self.error(path, "`type` is missing: write `\"type\": \"command\"`".to_owned());
                return None;
            }
            Some(_) => {
                self.error(&at("type"), "`type` must be `command`".to_owned());
                return None;
            }
        }
        self.unknown_keys(object, path);
        let before = self.errors();
        let program = self.program(object, path);
        let timeout = self.timeout(event, object, path);
        let condition = self.text(object, "if", path).map(Condition::parse);
        if condition.is_some() && event.compared() != Compared::Tool {
            self.error(
                &at("if"),
                format!("`if` applies to tools, and {event} has none: the hook never runs"),
            );
        }
        match self.text(object, "shell", path).as_deref() {
            None | Some("bash") => {}
            Some(_) => self.error(&at("shell"), "the only supported shell is `bash`".to_owned()),
        }
        let background = self.flag(object, "async", path) | self.flag(object, "asyncRewake", path);
        if background {
            let name = if object.contains_key("async") { "async" } else { "asyncRewake" };
            let message = "an `async` hook is not waited for, and its output has no effect";
            self.warning(&at(name), message.to_owned());
        }
        let Own { fail_closed, is_unconfined } = self.own(event, object, path);
        (self.errors() == before).then_some(())?;
        Some(Hook {
            event,
            matcher,
            matcher_text: matcher_text.to_owned(),
            condition,
            program: program?,
            timeout,
            background,
            fail_closed,
            is_unconfined,
            source: self.source,
            place,
        })
    }

    fn errors(&self) -> usize {
        let errors = self.problems.iter().filter(|problem| problem.severity == Severity::Error).count();
        // What is not told may be an error.
        errors + self.untold
    }

    fn program(&mut self, object: &JsonObject, path: &[Step]) -> Option<Program> {
        let at = [path, &[key("command")]].concat();
        let line = match object.get("command") {
            Some(Value::String(line)) => line,
            Some(_) => {
                self.error(&at, "`command` must be a string".to_owned());
                return None;
            }
            None => {
                self.error(path, "`command` is missing; add the command line to run".to_owned());
                return None;
            }
        };
        if line.trim().is_empty() {
            self.error(&at, "`command` is empty".to_owned());
            return None;
        }
        let arguments = match object.get("args") {
            None | Some(Value::Null) => None,
            Some(Value::Array(words)) if words.iter().all(Value::is_string) => {
                Some(words.iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>())
            }
            Some(_) => {
                let at = [path, &[key("args")]].concat();
                self.error(&at, "`args` must be a list of strings".to_owned());
                return None;
            }
        };
        let words = || std::iter::once(line).chain(arguments.iter().flatten());
        if words().any(|word| word.contains('\0')) {
            self.error(&at, "the command contains a NUL character, which no program accepts".to_owned());
            return None;
        }
        if words().map(String::len).sum::<usize>() > COMMAND_LIMIT {
            self.error(&at, format!("the command has more than {COMMAND_LIMIT} bytes; put it in a script"));
            return None;
        }
        if let (std::borrow::Cow::Owned(_), _) = without_hidden(line) {
            let message = "the command contains invisible characters; remove them".to_owned();
            self.error(&at, message);
            return None;
        }
        Some(match arguments {
            None => Program::Line(line.clone()),
            Some(arguments) => Program::Direct { program: line.clone(), arguments },
        })
    }

    fn timeout(&mut self, event: EventName, object: &JsonObject, path: &[Step]) -> Duration {
        let given = match object.get("timeout") {
            None | Some(Value::Null) => return event.default_timeout(),
            Some(value) => value.as_f64().filter(|seconds| *seconds > 0.0 && *seconds <= TIMEOUT_LIMIT),
        };
        let Some(seconds) = given.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()) else {
            let message = format!("`timeout` must be a number of seconds, at most {TIMEOUT_LIMIT}");
            self.error(&[path, &[key("timeout")]].concat(), message);
            return event.default_timeout();
        };
        // Nobody is to wait for long when all is over.
        if event == EventName::SessionEnd { seconds.min(Duration::from_secs(60)) } else { seconds }
    }

    /// Reads the options under the key `roo`: `roo`.
    fn own(&mut self, event: EventName, object: &JsonObject, path: &[Step]) -> Own {
        let at = [path, &[key("roo")]].concat();
        match object.get("roo") {
            None | Some(Value::Null) => Own::default(),
            Some(Value::Object(own)) => {
                self.unknown_keys(own, &at);
                let closed = self.flag(own, "failClosed", &at);
                if closed && event != EventName::PreToolUse {
                    let message =
                        format!("only PreToolUse can deny a call, so this has no effect on {event}");
                    self.warning(&[&at[..], &[key("failClosed")]].concat(), message);
                }
                self.flag(own, "sandbox", &at);
                let wants_out = own.get("sandbox") == Some(&Value::Bool(false));
                let is_unconfined = wants_out && self.source == Source::User;
                if wants_out && !is_unconfined {
                    let message = "hooks of a workspace always run in the sandbox; only your own hooks file may run a hook outside it";
                    self.warning(&[&at[..], &[key("sandbox")]].concat(), message.to_owned());
                }
                Own { fail_closed: closed, is_unconfined }
            }
            Some(_) => {
                self.error(&at, "`roo` must be an object".to_owned());
                Own::default()
            }
        }
    }

    fn text(&mut self, object: &JsonObject, name: &str, path: &[Step]) -> Option<String> {
        match object.get(name) {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text.clone()),
            Some(_) => {
                self.error(&[path, &[key(name)]].concat(), format!("`{name}` must be a string"));
                None
            }
        }
    }

    fn flag(&mut self, object: &JsonObject, name: &str, path: &[Step]) -> bool {
        match object.get(name) {
            None | Some(Value::Null) => false,
            Some(Value::Bool(flag)) => *flag,
            Some(_) => {
                self.error(&[path, &[key(name)]].concat(), format!("`{name}` must be true or false"));
                false
            }
        }
    }
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
