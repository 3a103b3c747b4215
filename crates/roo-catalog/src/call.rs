//! From what a model sent to what it asks for.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::parameters::*;
use super::spec::{Kind, ToolName};
use roo_protocol::event::Suggestion;
use roo_protocol::ids::{CommandId, ToolCallId};
use roo_protocol::task::TodoStatus;
use roo_text::edit::{Occurrences, Replacement};
use roo_text::lines::LineRange;

/// A tool call as a model made it, from XML-like text or native tool calling alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Unique within the request.
    pub id: ToolCallId,
    /// The name as sent; may be unknown.
    pub name: String,
    /// The parameters as sent. From XML-like text every value is a string.
    pub params: Map<String, Value>,
    /// What the stream parser found wrong with the call; such a call is answered, never run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// What the server changed in the call before anything was made of it. The model reads it with the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl ToolCall {
    /// The text of its result, behind the note if there is one.
    pub fn with_note(&self, text: String) -> String {
        match &self.note {
            Some(note) => format!("{note}\n{text}"),
            None => text,
        }
    }
}

/// A well-formed call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Invocation {
    /// `read_file`
    ReadFile(ReadFile),
    /// `write_to_file`
    WriteToFile(WriteToFile),
    /// `apply_diff`
    ApplyDiff(ApplyDiff),
    /// `search_and_replace`
    SearchAndReplace(SearchAndReplace),
    /// `insert_content`
    InsertContent(InsertContent),
    /// `apply_patch`
    ApplyPatch(ApplyPatch),
    /// `list_files`
    ListFiles(ListFiles),
    /// `search_files`
    SearchFiles(SearchFiles),
    /// `execute_command`
    ExecuteCommand(ExecuteCommand),
    /// `read_command_output`
    ReadCommandOutput(ReadCommandOutput),
    /// `stop_command`
    StopCommand(StopCommand),
    /// `ask_followup_question`
    AskFollowupQuestion(AskFollowupQuestion),
    /// `update_todo_list`
    UpdateTodoList(UpdateTodoList),
    /// `switch_mode`
    SwitchMode(SwitchMode),
    /// `skill`
    Skill(Skill),
    /// `select_active_intent`
    SelectActiveIntent(SelectActiveIntent),
    /// `request_scope_expansion`
    RequestScopeExpansion(RequestScopeExpansion),
    /// `new_task`
    NewTask(NewTask),
    /// `attempt_completion`
    AttemptCompletion(AttemptCompletion),
    /// `complete_with_failure`
    CompleteWithFailure(CompleteWithFailure),
}

impl Invocation {
    /// The tool.
    pub fn tool(&self) -> ToolName {
        match self {
            Self::ReadFile(_) => ToolName::ReadFile,
            Self::WriteToFile(_) => ToolName::WriteToFile,
            Self::ApplyDiff(_) => ToolName::ApplyDiff,
            Self::SearchAndReplace(_) => ToolName::SearchAndReplace,
            Self::InsertContent(_) => ToolName::InsertContent,
            Self::ApplyPatch(_) => ToolName::ApplyPatch,
            Self::ListFiles(_) => ToolName::ListFiles,
            Self::SearchFiles(_) => ToolName::SearchFiles,
            Self::ExecuteCommand(_) => ToolName::ExecuteCommand,
            Self::ReadCommandOutput(_) => ToolName::ReadCommandOutput,
            Self::StopCommand(_) => ToolName::StopCommand,
            Self::AskFollowupQuestion(_) => ToolName::AskFollowupQuestion,
            Self::UpdateTodoList(_) => ToolName::UpdateTodoList,
            Self::SwitchMode(_) => ToolName::SwitchMode,
            Self::Skill(_) => ToolName::Skill,
            Self::SelectActiveIntent(_) => ToolName::SelectActiveIntent,
            Self::RequestScopeExpansion(_) => ToolName::RequestScopeExpansion,
            Self::NewTask(_) => ToolName::NewTask,
            Self::AttemptCompletion(_) => ToolName::AttemptCompletion,
            Self::CompleteWithFailure(_) => ToolName::CompleteWithFailure,
        }
    }

    /// What it works on, for people: a path, a command, a question.
    pub fn subject(&self) -> String {
        match self {
            Self::ReadFile(p) => p.files.iter().map(|f| f.path.as_str()).collect::<Vec<_>>().join(", "),
            Self::WriteToFile(p) => p.path.clone(),
            Self::ApplyDiff(p) => p.path.clone(),
            Self::SearchAndReplace(p) => p.path.clone(),
            Self::InsertContent(p) => p.path.clone(),
            Self::ApplyPatch(p) => p.named_files().collect::<Vec<_>>().join(", "),
            Self::ListFiles(p) => p.path.clone(),
            Self::SearchFiles(p) => match &p.file_pattern {
                Some(pattern) => format!("{} in {}/{pattern}", p.regex, p.path),
                None => format!("{} in {}", p.regex, p.path),
            },
            Self::ExecuteCommand(p) => p.command.clone(),
            Self::ReadCommandOutput(p) => p.command.as_ref().map(CommandId::to_string).unwrap_or_default(),
            Self::StopCommand(p) => p.command.to_string(),
            Self::AskFollowupQuestion(p) => p.question.clone(),
            Self::UpdateTodoList(p) => format!("{} entries", p.items.len()),
            Self::SwitchMode(p) => p.mode.clone(),
            Self::Skill(p) => p.name.clone(),
            Self::SelectActiveIntent(p) => p.intent_id.clone(),
            Self::RequestScopeExpansion(p) => p.patterns.join(", "),
            Self::NewTask(p) => {
                format!("{}: {}", p.mode, p.message.lines().next().unwrap_or_default().trim())
            }
            // They work on nothing: what they say is their result.
            Self::AttemptCompletion(_) | Self::CompleteWithFailure(_) => String::new(),
        }
    }
}

/// Why a call can't be understood. The text is for the model: it says what to change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCall {
    /// No tool of that name.
    #[error("There is no tool named '{0}'. Use one of the tools described in your instructions.")]
    UnknownTool(String),
    /// A required parameter is not there.
    #[error(
        "The call of {tool} lacks the parameter '{parameter}'. Call it again with all required parameters."
    )]
    Missing {
        /// The tool.
        tool: ToolName,
        /// What is missing.
        parameter: &'static str,
    },
    /// A parameter has a value that the tool can't use.
    #[error("The parameter '{parameter}' of {tool} can't be used: {problem}")]
    Bad {
        /// The tool.
        tool: ToolName,
        /// The parameter.
        parameter: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The stream parser could not read the call.
    #[error("The call of {name} could not be read: {problem}. Make the call again.")]
    Unreadable {
        /// The name as sent.
        name: String,
        /// What is wrong.
        problem: String,
    },
}

/// Reads a call.
///
/// # Errors
/// [`InvalidCall`], worded for the model.
pub fn parse(call: &ToolCall) -> Result<Invocation, InvalidCall> {
    let tool = ToolName::parse(&call.name).ok_or_else(|| InvalidCall::UnknownTool(call.name.clone()))?;
    if let Some(problem) = &call.problem {
        return Err(InvalidCall::Unreadable { name: call.name.clone(), problem: problem.clone() });
    }
    let reader = Reader { tool, params: &call.params };
    Ok(match tool {
        ToolName::ReadFile => Invocation::ReadFile(ReadFile { files: reader.files()? }),
        ToolName::WriteToFile => {
            let content = reader.verbatim("content")?;
            Invocation::WriteToFile(WriteToFile {
                path: reader.path("path")?,
                content: unwrap_code_fence(content),
            })
        }
        ToolName::ApplyDiff => {
            let (path, diff) = match reader.get("args") {
                Some(args) if reader.get("diff").is_none() => reader.nested_diff(args)?,
                _ => (reader.path("path")?, reader.verbatim("diff")?),
            };
            Invocation::ApplyDiff(ApplyDiff { path, diff })
        }
        ToolName::SearchAndReplace => Invocation::SearchAndReplace(reader.search_and_replace()?),
        ToolName::InsertContent => Invocation::InsertContent(InsertContent {
            path: reader.path("path")?,
            line: reader.integer("line")?.ok_or(reader.missing("line"))?,
            content: reader.verbatim("content")?,
        }),
        ToolName::ApplyPatch => {
            let name = if reader.get("patch").is_none() && reader.get("input").is_some() {
                "input"
            } else {
                "patch"
            };
            Invocation::ApplyPatch(ApplyPatch { patch: reader.verbatim(name)? })
        }
        ToolName::ListFiles => Invocation::ListFiles(ListFiles {
            path: reader.path("path")?,
            recursive: reader.boolean("recursive")?.unwrap_or(false),
        }),
        ToolName::SearchFiles => Invocation::SearchFiles(SearchFiles {
            path: reader.path("path")?,
            regex: reader.text("regex")?,
            file_pattern: reader.optional_text("file_pattern")?,
        }),
        ToolName::ExecuteCommand => Invocation::ExecuteCommand(ExecuteCommand {
            command: reader.text("command")?,
            cwd: reader.optional_text("cwd")?,
            timeout: match reader.integer("timeout")? {
                Some(0) | None => None,
                Some(seconds) => Some(seconds as u64),
            },
            network: reader.boolean("network")?.unwrap_or(false),
        }),
        ToolName::ReadCommandOutput => Invocation::ReadCommandOutput(ReadCommandOutput {
            command: reader.command_id()?,
            timeout: reader.integer("timeout")?.unwrap_or(0) as u64,
        }),
        ToolName::StopCommand => Invocation::StopCommand(StopCommand {
            command: reader.command_id()?.ok_or(reader.missing("command_id"))?,
        }),
        ToolName::AskFollowupQuestion => Invocation::AskFollowupQuestion(AskFollowupQuestion {
            question: reader.text("question")?,
            suggestions: reader.suggestions()?,
        }),
        ToolName::UpdateTodoList => {
            Invocation::UpdateTodoList(UpdateTodoList { items: checklist(&reader.text("todos")?) })
        }
        ToolName::SwitchMode => {
            let mode = reader.first_text(&["mode_slug", "mode"])?;
            Invocation::SwitchMode(SwitchMode { mode, reason: reader.optional_text("reason")? })
        }
        ToolName::Skill => {
            let name = reader.first_text(&["name", "skill", "task"])?;
            Invocation::Skill(Skill { name, arguments: reader.optional_text("args")? })
        }
        ToolName::SelectActiveIntent => {
            Invocation::SelectActiveIntent(SelectActiveIntent { intent_id: reader.text("intent_id")? })
        }
        ToolName::RequestScopeExpansion => {
            let lines = reader.text("patterns")?;
            let patterns = lines.lines().map(str::trim).filter(|line| !line.is_empty());
            Invocation::RequestScopeExpansion(RequestScopeExpansion {
                patterns: patterns.map(str::to_owned).collect(),
                reason: reader.text("reason")?,
            })
        }
        ToolName::NewTask => Invocation::NewTask(NewTask {
            mode: reader.text("mode")?,
            message: reader.verbatim("message")?,
            todos: reader.optional_text("todos")?.as_deref().map(checklist).unwrap_or_default(),
        }),
        ToolName::AttemptCompletion => {
            Invocation::AttemptCompletion(AttemptCompletion { result: reader.text("result")? })
        }
        ToolName::CompleteWithFailure => {
            let reason = reader.first_text(&["reason", "result"])?;
            Invocation::CompleteWithFailure(CompleteWithFailure { reason })
        }
    })
}

/// Reads the parameters of one call.
struct Reader<'a> {
    tool: ToolName,
    params: &'a Map<String, Value>,
}

impl<'a> Reader<'a> {
    fn get(&self, name: &str) -> Option<&'a Value> {
        self.params.get(name).filter(|value| !value.is_null())
    }

    fn missing(&self, parameter: &'static str) -> InvalidCall {
        InvalidCall::Missing { tool: self.tool, parameter }
    }

    fn bad(&self, parameter: &str, problem: impl Into<String>) -> InvalidCall {
        InvalidCall::Bad { tool: self.tool, parameter: parameter.to_owned(), problem: problem.into() }
    }

    /// The text as sent. Empty text counts as given.
    fn verbatim(&self, name: &'static str) -> Result<String, InvalidCall> {
        match self.get(name) {
            None => Err(self.missing(name)),
            Some(Value::String(text)) => Ok(text.clone()),
            Some(other) => Err(self.bad(name, format!("expected text, got {}", type_name(other)))),
        }
    }

    /// Trimmed text that is not empty.
    fn text(&self, name: &'static str) -> Result<String, InvalidCall> {
        self.optional_text(name)?.ok_or(self.missing(name))
    }

    /// The first of these parameters that has text; the others are names that old prompts use.
    fn first_text(&self, names: &[&'static str]) -> Result<String, InvalidCall> {
        for name in names {
            if let Some(text) = self.optional_text(name)? {
                return Ok(text);
            }
        }
        Err(self.missing(names.first().copied().unwrap_or_default()))
    }

    fn optional_text(&self, name: &'static str) -> Result<Option<String>, InvalidCall> {
        match self.get(name) {
            None => Ok(None),
            Some(_) => {
                let text = self.verbatim(name)?;
                let text = text.trim();
                Ok((!text.is_empty()).then(|| text.to_owned()))
            }
        }
    }

    fn command_id(&self) -> Result<Option<CommandId>, InvalidCall> {
        let text = match self.optional_text("command_id")? {
            Some(text) => Some(text),
            // Roo named the file of the output.
            None => self.optional_text("artifact_id")?,
        };
        Ok(text.map(|text| CommandId::new(text.strip_suffix(".txt").unwrap_or(&text))))
    }

    fn path(&self, name: &'static str) -> Result<String, InvalidCall> {
        self.text(name)
    }

    fn integer(&self, name: &str) -> Result<Option<usize>, InvalidCall> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let number = match value {
            Value::Number(number) => number.as_u64(),
            Value::String(text) if text.trim().is_empty() => return Ok(None),
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        };
        match number.and_then(|number| usize::try_from(number).ok()) {
            Some(number) => Ok(Some(number)),
            None => Err(self.bad(name, format!("expected a whole number from 0, got {value}"))),
        }
    }

    fn boolean(&self, name: &str) -> Result<Option<bool>, InvalidCall> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(Value::String(text)) => match text.trim().to_ascii_lowercase().as_str() {
                "" => Ok(None),
                "true" => Ok(Some(true)),
                "false" => Ok(Some(false)),
                _ => Err(self.bad(name, format!("expected true or false, got '{text}'"))),
            },
            Some(other) => Err(self.bad(name, format!("expected true or false, got {}", type_name(other)))),
        }
    }

    fn range(
        &self,
        name: &str,
        start: Option<usize>,
        end: Option<usize>,
    ) -> Result<Option<LineRange>, InvalidCall> {
        if start.is_none() && end.is_none() {
            return Ok(None);
        }
        let range = LineRange { start: start.unwrap_or(1), end: end.unwrap_or(usize::MAX) };
        if range.start == 0 {
            return Err(self.bad(name, "lines are counted from 1"));
        }
        if range.end < range.start {
            return Err(
                self.bad(name, format!("the range {}-{} ends before it begins", range.start, range.end))
            );
        }
        Ok(Some(range))
    }

    /// The shapes of `read_file`: nested `args`, `files` as JSON, and `path` with a range.
    fn files(&self) -> Result<Vec<ReadRequest>, InvalidCall> {
        let files = if let Some(args) = self.get("args") {
            match args {
                Value::String(text) => self.files_from_xml(text)?,
                other => self.files_from_json(other)?,
            }
        } else if let Some(files) = self.get("files") {
            match files {
                Value::String(text) => {
                    let value = serde_json::from_str(text)
                        .map_err(|error| self.bad("files", format!("not a JSON list: {error}")))?;
                    self.files_from_json(&value)?
                }
                other => self.files_from_json(other)?,
            }
        } else {
            let path = self.optional_text("path")?.ok_or(self.missing("args"))?;
            let (start, end) = match (self.integer("offset")?, self.integer("limit")?) {
                (None, None) => (self.integer("start_line")?, self.integer("end_line")?),
                (offset, limit) => {
                    let start = offset.unwrap_or(1);
                    (Some(start), limit.map(|limit| start.saturating_add(limit.max(1)) - 1))
                }
            };
            vec![ReadRequest { path, ranges: self.range("start_line", start, end)?.into_iter().collect() }]
        };
        if files.is_empty() {
            return Err(self.missing("args"));
        }
        Ok(files)
    }

    fn files_from_xml(&self, text: &str) -> Result<Vec<ReadRequest>, InvalidCall> {
        let mut files = Vec::new();
        for file in elements(text, "file") {
            let path = elements(file, "path").next().map(|path| unescape(path.trim())).unwrap_or_default();
            if path.is_empty() {
                return Err(self.bad("args", "a <file> without a <path>"));
            }
            let mut ranges = Vec::new();
            for range in elements(file, "line_range") {
                ranges.push(self.range_text(range)?);
            }
            files.push(ReadRequest { path, ranges });
        }
        Ok(files)
    }

    fn range_text(&self, text: &str) -> Result<LineRange, InvalidCall> {
        let parsed = text.trim().split_once('-').and_then(|(start, end)| {
            Some((start.trim().parse::<usize>().ok()?, end.trim().parse::<usize>().ok()?))
        });
        let (start, end) = parsed.ok_or_else(|| {
            self.bad("line_range", format!("expected start-end, such as 1-80, got '{}'", text.trim()))
        })?;
        // Both ends are given, so there is a range.
        Ok(self.range("line_range", Some(start), Some(end))?.unwrap_or(LineRange { start, end }))
    }

    fn files_from_json(&self, value: &Value) -> Result<Vec<ReadRequest>, InvalidCall> {
        let list = match value {
            Value::Array(list) => list.as_slice(),
            Value::Object(object) => match object.get("file") {
                Some(Value::Array(list)) => list.as_slice(),
                Some(one) => std::slice::from_ref(one),
                None => std::slice::from_ref(value),
            },
            _ => return Err(self.bad("files", "expected a list of files")),
        };
        list.iter().map(|file| self.file_from_json(file)).collect()
    }

    fn file_from_json(&self, file: &Value) -> Result<ReadRequest, InvalidCall> {
        let path = match file {
            Value::String(path) => path.as_str(),
            _ => file.get("path").and_then(Value::as_str).unwrap_or_default(),
        }
        .trim();
        if path.is_empty() {
            return Err(self.bad("files", "a file without a path"));
        }
        let ranges = match file.get("line_ranges").or_else(|| file.get("line_range")) {
            None | Some(Value::Null) => vec![],
            Some(Value::Array(list)) => {
                // One range written without the outer list.
                if list.len() == 2 && list.iter().all(Value::is_u64) {
                    vec![self.range_from_json(&Value::Array(list.clone()))?]
                } else {
                    list.iter().map(|range| self.range_from_json(range)).collect::<Result<_, _>>()?
                }
            }
            Some(one) => vec![self.range_from_json(one)?],
        };
        Ok(ReadRequest { path: path.to_owned(), ranges })
    }

    fn range_from_json(&self, value: &Value) -> Result<LineRange, InvalidCall> {
        let line =
            |value: Option<&Value>| value.and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
        let (start, end) = match value {
            Value::String(text) => return self.range_text(text),
            Value::Array(pair) if pair.len() == 2 => (line(pair.first()), line(pair.get(1))),
            Value::Object(object) => (line(object.get("start")), line(object.get("end"))),
            _ => (None, None),
        };
        self.range("line_ranges", start, end)?
            .filter(|_| start.is_some() && end.is_some())
            .ok_or_else(|| self.bad("line_ranges", format!("expected [start, end], got {value}")))
    }

    /// The nested form of Roo's multi-file experiment, for one file.
    fn nested_diff(&self, args: &Value) -> Result<(String, String), InvalidCall> {
        let text = args.as_str().ok_or_else(|| self.bad("args", "expected text"))?;
        let files: Vec<&str> = elements(text, "file").collect();
        let [file] = files.as_slice() else {
            return Err(self.bad("args", "expected exactly one <file>; make one call for each file"));
        };
        let path = elements(file, "path").next().map(|path| unescape(path.trim())).unwrap_or_default();
        if path.is_empty() {
            return Err(self.missing("path"));
        }
        let mut diff = String::new();
        for part in elements(file, "diff") {
            let content = elements(part, "content").next().unwrap_or(part);
            let content = content.trim();
            let content =
                content.strip_prefix("<![CDATA[").and_then(|c| c.strip_suffix("]]>")).unwrap_or(content);
            let start = elements(part, "start_line").next().map(str::trim);
            let content = content.trim_matches('\n');
            match start {
                Some(line) if !content.contains(":start_line:") => {
                    diff.push_str(&content.replacen(
                        "<<<<<<< SEARCH\n",
                        &format!("<<<<<<< SEARCH\n:start_line:{line}\n-------\n"),
                        1,
                    ));
                }
                _ => diff.push_str(content),
            }
            diff.push('\n');
        }
        if diff.is_empty() {
            return Err(self.missing("diff"));
        }
        Ok((path, diff))
    }

    fn search_and_replace(&self) -> Result<SearchAndReplace, InvalidCall> {
        // Roo's later tools of this kind name their parameters otherwise and want one occurrence.
        let (path, search, replace, occurrences) = if self.get("old_string").is_some() {
            let all = self.boolean("replace_all")?.unwrap_or(false);
            (
                self.path(if self.get("file_path").is_some() { "file_path" } else { "path" })?,
                self.verbatim("old_string")?,
                self.verbatim("new_string")?,
                if all { Occurrences::All } else { Occurrences::One },
            )
        } else {
            (self.path("path")?, self.verbatim("search")?, self.verbatim("replace")?, Occurrences::All)
        };
        if search.is_empty() {
            return Err(self.bad("search", "it is empty"));
        }
        Ok(SearchAndReplace {
            path,
            replacement: Replacement {
                search,
                replace,
                range: self.range("start_line", self.integer("start_line")?, self.integer("end_line")?)?,
                use_regex: self.boolean("use_regex")?.unwrap_or(false),
                ignore_case: self.boolean("ignore_case")?.unwrap_or(false),
                occurrences,
            },
        })
    }

    fn suggestions(&self) -> Result<Vec<Suggestion>, InvalidCall> {
        let Some(value) = self.get("follow_up") else { return Err(self.missing("follow_up")) };
        match value {
            Value::String(text) => match serde_json::from_str::<Value>(text) {
                Ok(list @ Value::Array(_)) => self.suggestions_from_json(&list),
                _ => self.suggestions_from_xml(text),
            },
            other => self.suggestions_from_json(other),
        }
    }

    fn suggestions_from_json(&self, value: &Value) -> Result<Vec<Suggestion>, InvalidCall> {
        let list = value.as_array().ok_or_else(|| self.bad("follow_up", "expected a list of suggestions"))?;
        let mut suggestions = Vec::new();
        for item in list {
            let text =
                item.as_str().or_else(|| item.get("text")?.as_str()).or_else(|| item.get("answer")?.as_str());
            let text = text.ok_or_else(|| self.bad("follow_up", "a suggestion without text"))?;
            let mode = item.get("mode").and_then(Value::as_str).filter(|mode| !mode.is_empty());
            suggestions.push(Suggestion { text: text.to_owned(), mode: mode.map(str::to_owned) });
        }
        Ok(suggestions)
    }

    fn suggestions_from_xml(&self, text: &str) -> Result<Vec<Suggestion>, InvalidCall> {
        let mut suggestions = Vec::new();
        for part in text.split("<suggest").skip(1) {
            let Some((attributes, rest)) = part.split_once('>') else { continue };
            let Some((answer, _)) = rest.split_once("</suggest>") else {
                return Err(self.bad("follow_up", "a <suggest> without </suggest>"));
            };
            let mode = attributes
                .split_once("mode=")
                .map(|(_, value)| value.trim().trim_matches(['"', '\'']))
                .filter(|mode| !mode.is_empty())
                .map(str::to_owned);
            let text = unescape(answer.trim());
            if !text.is_empty() {
                suggestions.push(Suggestion { text, mode });
            }
        }
        if suggestions.is_empty() && !text.trim().is_empty() {
            return Err(self.bad("follow_up", "expected <suggest>…</suggest> elements"));
        }
        Ok(suggestions)
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// The contents of the elements of this name, by tag search: models write paths and ranges that no
/// XML reader takes, such as `a && b` or `Vec<T>`.
fn elements<'a>(text: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let mut rest = text;
    std::iter::from_fn(move || {
        let start = rest.find(&open)? + open.len();
        let length = rest[start..].find(&close)?;
        let content = &rest[start..start + length];
        rest = &rest[start + length + close.len()..];
        Some(content)
    })
}

fn unescape(text: &str) -> String {
    quick_xml::escape::unescape(text).map_or_else(|_| text.to_owned(), std::borrow::Cow::into_owned)
}

/// Drops a code fence around the whole text, which some models put there.
fn unwrap_code_fence(content: String) -> String {
    let inner = content.strip_prefix("```").and_then(|rest| {
        let (_, body) = rest.split_once('\n')?;
        let body = body.strip_suffix("```").or_else(|| body.strip_suffix("```\n"))?;
        // A file that merely begins with a fence has more of them inside.
        (!body.contains("\n```") && (body.is_empty() || body.ends_with('\n'))).then(|| body.to_owned())
    });
    inner.unwrap_or(content)
}

/// The entries of a Markdown checklist; other lines are not entries.
fn checklist(text: &str) -> Vec<(String, TodoStatus)> {
    text.lines()
        .filter_map(|line| {
            let line = line.trim();
            let line = line.strip_prefix('-').unwrap_or(line).trim_start();
            let (mark, content) = line.strip_prefix('[')?.split_once(']')?;
            let status = TodoStatus::from_mark(mark)?;
            let content = content.trim();
            (!content.is_empty()).then(|| (content.to_owned(), status))
        })
        .collect()
}

/// Whether a parameter of this tool keeps its white space when it comes from a tag.
pub fn is_verbatim(tool: ToolName, parameter: &str) -> bool {
    tool.spec().parameters.iter().any(|p| p.name == parameter && p.kind == Kind::Verbatim)
        || matches!(parameter, "old_string" | "new_string")
        || (tool == ToolName::ApplyPatch && parameter == "input")
}

#[cfg(test)]
mod tests;
