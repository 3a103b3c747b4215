//! What a tool call looks like in the public contract, and what a rewrite of it means for ours.
//!
//! Every input has besides `roo`, with our tool and its parameters as they are. A rewrite that changes
//! `roo.parameters` gives all of them anew; else the contract's fields are taken back.

use std::path::{Component, Path, PathBuf};

use serde_json::{Map, Value, json};

use super::tool_names;
use roo_catalog::{ApplyPatch, Invocation, ReadRequest, ToolCall};
use roo_protocol::task::TodoStatus;
use roo_text::blocks::{self, Block};
use roo_text::edit::Occurrences;
use roo_text::patch::{self, Hunk, Mark, Patch, PatchOf};

/// Where a path of a call really leads; none when that can't be said.
pub type RealPath<'a> = &'a (dyn Fn(&str) -> Option<PathBuf> + Sync);

/// A tool call that hooks are asked about.
#[derive(Clone, Copy)]
pub struct ToolUse<'a> {
    /// As the model made it.
    pub call: &'a ToolCall,
    /// What it asks for; none for a tool of an MCP server.
    pub invocation: Option<&'a Invocation>,
    /// Where its paths lead: absolute, with links followed.
    pub real_path: RealPath<'a>,
}

/// A rewrite that can't be brought back to our parameters, in one sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RewriteError(String);

/// One thing that hooks are asked about. Most calls are one; a call that reads several files is one for each.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Input {
    /// The tool's names, in the order of preference.
    pub(super) names: Vec<String>,
    /// In the contract's form.
    pub(super) fields: Map<String, Value>,
}

type Object = Map<String, Value>;

fn object(value: Value) -> Object {
    match value {
        Value::Object(object) => object,
        _ => Object::new(),
    }
}

impl ToolUse<'_> {
    /// What hooks are asked about.
    pub(super) fn inputs(&self, root: &Path) -> Vec<Input> {
        let Some(invocation) = self.invocation else {
            // A tool of a server: its input is its own.
            let fields = self.call.params.clone();
            return vec![Input { names: vec![self.call.name.clone()], fields }];
        };
        let names: Vec<String> =
            tool_names::names(invocation.tool()).into_iter().map(str::to_owned).collect();
        let roo = json!({ "tool": invocation.tool().as_str(), "parameters": self.call.params });
        let with_roo = |mut fields: Object| {
            fields.insert("roo".to_owned(), roo.clone());
            Input { names: names.clone(), fields }
        };
        let fields = match invocation {
            Invocation::ReadFile(read) => read.files.iter().map(|file| self.read(file, root)).collect(),
            Invocation::ApplyPatch(patch) => {
                let input = |fields: Object| {
                    let creates = fields.contains_key("content").then(|| "Write".to_owned());
                    let Input { names, fields } = with_roo(fields);
                    Input { names: creates.into_iter().chain(names).collect(), fields }
                };
                return self.patched(patch, root).into_iter().map(input).collect();
            }
            other => vec![self.fields(other, root)],
        };
        fields.into_iter().map(with_roo).collect()
    }

    fn path(&self, named: &str, root: &Path) -> Value {
        let real = (self.real_path)(named).unwrap_or_else(|| lexical(root, named));
        real.to_string_lossy().into_owned().into()
    }

    fn read(&self, file: &ReadRequest, root: &Path) -> Object {
        let mut fields = object(json!({ "file_path": self.path(&file.path, root) }));
        if let Some(range) = file.ranges.first() {
            fields.insert("offset".to_owned(), range.start.into());
            if range.end < usize::MAX {
                fields.insert("limit".to_owned(), (range.end - range.start + 1).into());
            }
        }
        fields
    }

    /// The files of a patch, and the names that it gives them: each is one that a hook may refuse. One that
    /// can't be read runs for nobody, and is shown as it is.
    fn patched(&self, call: &ApplyPatch, root: &Path) -> Vec<Object> {
        let Ok(Patch { files }) = patch::parse(&call.patch) else {
            return vec![object(json!({ "patch": call.patch }))];
        };
        let mut inputs = Vec::new();
        for file in &files {
            let path = self.path(&file.path, root);
            match &file.change {
                PatchOf::Add { text } => inputs.push(json!({ "file_path": path, "content": text })),
                PatchOf::Delete => {
                    inputs.push(json!({ "file_path": path, "old_string": "", "new_string": "" }))
                }
                PatchOf::Update { moved_to, hunks } => {
                    inputs.push(edit(path, &hunks.iter().map(block_of).collect::<Vec<_>>(), &call.patch));
                    let target = moved_to.as_ref().map(|target| self.path(target, root));
                    inputs.extend(target.map(|path| json!({ "file_path": path, "content": "" })));
                }
            }
        }
        inputs.into_iter().map(object).collect()
    }

    fn fields(&self, invocation: &Invocation, root: &Path) -> Object {
        let path = |named: &str| self.path(named, root);
        object(match invocation {
            // One file at a time, see above.
            Invocation::ReadFile(_) | Invocation::ApplyPatch(_) => Value::Null,
            Invocation::WriteToFile(p) => json!({ "file_path": path(&p.path), "content": p.content }),
            Invocation::ApplyDiff(p) => {
                edit(path(&p.path), &blocks::parse(&p.diff).unwrap_or_default(), &p.diff)
            }
            Invocation::SearchAndReplace(p) => json!({
                "file_path": path(&p.path),
                "old_string": p.replacement.search,
                "new_string": p.replacement.replace,
                "replace_all": p.replacement.occurrences == Occurrences::All,
            }),
            Invocation::InsertContent(p) => {
                json!({ "file_path": path(&p.path), "old_string": "", "new_string": p.content })
            }
            Invocation::ListFiles(p) => {
                json!({ "path": path(&p.path), "pattern": if p.recursive { "**/*" } else { "*" } })
            }
            Invocation::SearchFiles(p) => {
                let mut fields = json!({
                    "pattern": p.regex,
                    "path": path(&p.path),
                    "output_mode": "content",
                });
                if let Some(glob) = &p.file_pattern {
                    fields["glob"] = glob.as_str().into();
                }
                fields
            }
            Invocation::ExecuteCommand(p) => {
                let mut fields = json!({ "command": p.command });
                if let Some(seconds) = p.timeout {
                    fields["timeout"] = seconds.saturating_mul(1000).into();
                }
                fields
            }
            Invocation::ReadCommandOutput(p) => json!({ "bash_id": p.command }),
            Invocation::StopCommand(p) => json!({ "shell_id": p.command }),
            Invocation::SelectActiveIntent(p) => json!({ "intent_id": p.intent_id }),
            Invocation::RequestScopeExpansion(p) => json!({ "patterns": p.patterns, "reason": p.reason }),
            Invocation::AskFollowupQuestion(p) => {
                let options = p.suggestions.iter().map(|suggestion| json!({ "label": suggestion.text }));
                json!({ "questions": [{
                    "question": p.question,
                    "header": "Question",
                    "options": options.collect::<Vec<_>>(),
                    "multiSelect": false,
                }] })
            }
            Invocation::UpdateTodoList(p) => {
                let item = |(content, status): &(String, TodoStatus)| json!({ "content": content, "status": todo_word(*status), "activeForm": content });
                json!({ "todos": p.items.iter().map(item).collect::<Vec<_>>() })
            }
            Invocation::Skill(p) => match &p.arguments {
                Some(arguments) => json!({ "skill": p.name, "args": arguments }),
                None => json!({ "skill": p.name }),
            },
            Invocation::NewTask(p) => json!({
                "prompt": p.message,
                "description": p.message.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim(),
                "subagent_type": p.mode,
            }),
            Invocation::SwitchMode(_)
            | Invocation::AttemptCompletion(_)
            | Invocation::CompleteWithFailure(_) => Value::Object(self.call.params.clone()),
        })
    }

    /// Our parameters after a rewrite of these inputs; none where nothing changes.
    pub(super) fn rewritten(
        &self,
        root: &Path,
        before: &[Input],
        after: &[Option<Object>],
    ) -> Result<Option<Object>, RewriteError> {
        let mut params = self.call.params.clone();
        let Some(invocation) = self.invocation else {
            return Ok(after.first().cloned().flatten().filter(|changed| *changed != params));
        };
        let own = |fields: &Object| fields.get("roo").and_then(|roo| roo.get("parameters")).cloned();
        for (input, changed) in before.iter().zip(after) {
            let Some(changed) = changed else { continue };
            match (own(&input.fields), own(changed)) {
                (Some(old), Some(Value::Object(new))) if old != Value::Object(new.clone()) => {
                    return Ok((new != params).then_some(new));
                }
                _ => {}
            }
        }
        if let Invocation::ApplyPatch(_) = invocation {
            let differs = |(before, after): (&Input, &Option<Object>)| {
                after.as_ref().is_some_and(|after| !Change { root, before: &before.fields, after }.is_none())
            };
            return match before.iter().zip(after).any(differs) {
                true => Err(RewriteError(
                    "a patch can only be rewritten whole, by `roo.parameters.patch`".to_owned(),
                )),
                false => Ok(None),
            };
        }
        if let Invocation::ReadFile(read) = invocation {
            return self.reads(root, read.files.as_slice(), before, after);
        }
        let (Some(before), Some(Some(changed))) = (before.first(), after.first()) else { return Ok(None) };
        let change = Change { root, before: &before.fields, after: changed };
        if change.is_none() {
            return Ok(None);
        }
        self.take_back(invocation, &change, &mut params)?;
        Ok((params != self.call.params).then_some(params))
    }

    /// What a rewrite of a call that reads files means.
    fn reads(
        &self,
        root: &Path,
        files: &[ReadRequest],
        before: &[Input],
        after: &[Option<Object>],
    ) -> Result<Option<Object>, RewriteError> {
        let mut entries = Vec::new();
        let mut any = false;
        for ((file, before), after) in files.iter().zip(before).zip(after) {
            let mut path = file.path.clone();
            let mut ranges: Vec<(usize, usize)> =
                file.ranges.iter().map(|range| (range.start, range.end)).collect();
            if let Some(after) = after {
                let change = Change { root, before: &before.fields, after };
                if !change.is_none() {
                    any = true;
                    path = change.path("file_path", &file.path)?;
                    if change.differs("offset") || change.differs("limit") {
                        ranges = change.range()?.into_iter().collect();
                    }
                }
            }
            let mut entry = json!({ "path": path });
            if !ranges.is_empty() {
                let pairs = ranges.iter().map(|(start, end)| json!([start, end]));
                entry["line_ranges"] = pairs.collect();
            }
            entries.push(entry);
        }
        Ok(any.then(|| object(json!({ "files": entries }))))
    }

    fn take_back(
        &self,
        invocation: &Invocation,
        change: &Change<'_>,
        params: &mut Object,
    ) -> Result<(), RewriteError> {
        let mut set = |name: &str, value: Value| {
            params.insert(name.to_owned(), value);
        };
        match invocation {
            Invocation::ReadFile(_) | Invocation::ApplyPatch(_) => {}
            // What binds a task is its own word.
            Invocation::SelectActiveIntent(_) => change.refuse(&["intent_id"])?,
            Invocation::RequestScopeExpansion(_) => change.refuse(&["patterns", "reason"])?,
            Invocation::WriteToFile(p) => {
                set("path", change.path("file_path", &p.path)?.into());
                set("content", change.text("content")?.into());
            }
            Invocation::ApplyDiff(p) => {
                set("path", change.path("file_path", &p.path)?.into());
                if let Some(diff) = change.edits(&blocks::parse(&p.diff).unwrap_or_default())? {
                    set("diff", diff.into());
                }
                // The nested form would say it a second time.
                if params.remove("args").is_some() && !params.contains_key("diff") {
                    params.insert("diff".to_owned(), p.diff.as_str().into());
                }
            }
            Invocation::SearchAndReplace(p) => {
                let (old, new) = match params.contains_key("old_string") {
                    true => ("old_string", "new_string"),
                    false => ("search", "replace"),
                };
                let path = match params.contains_key("file_path") {
                    true => "file_path",
                    false => "path",
                };
                params.insert(path.to_owned(), change.path("file_path", &p.path)?.into());
                params.insert(old.to_owned(), change.text("old_string")?.into());
                params.insert(new.to_owned(), change.text("new_string")?.into());
                change.refuse(&["replace_all"])?;
            }
            Invocation::InsertContent(p) => {
                set("path", change.path("file_path", &p.path)?.into());
                set("content", change.text("new_string")?.into());
                change.refuse(&["old_string"])?;
            }
            Invocation::ListFiles(p) => {
                set("path", change.path("path", &p.path)?.into());
                if change.differs("pattern") {
                    let recursive = match change.text("pattern")?.as_str() {
                        "*" => false,
                        "**/*" | "**" => true,
                        _ => {
                            return Err(RewriteError(
                                "a listing has no pattern that could be changed".to_owned(),
                            ));
                        }
                    };
                    set("recursive", recursive.into());
                }
            }
            Invocation::SearchFiles(p) => {
                set("regex", change.text("pattern")?.into());
                match change.after.get("path") {
                    Some(_) => set("path", change.path("path", &p.path)?.into()),
                    None => set("path", ".".into()),
                }
                match change.after.get("glob") {
                    Some(_) => set("file_pattern", change.text("glob")?.into()),
                    None => {
                        params.remove("file_pattern");
                    }
                }
            }
            Invocation::ExecuteCommand(_) => {
                set("command", change.text("command")?.into());
                if change.differs("timeout") {
                    match change.after.get("timeout").map(Value::as_f64) {
                        None => {
                            params.remove("timeout");
                        }
                        // In milliseconds there, and here in whole seconds.
                        Some(Some(milliseconds)) if (1.0..=1e12).contains(&milliseconds) => {
                            let seconds = (milliseconds / 1000.0).ceil();
                            set("timeout", json!(seconds as u64));
                        }
                        Some(_) => return Err(wrong("timeout", "a number of milliseconds")),
                    }
                }
            }
            Invocation::ReadCommandOutput(_) => set("command_id", change.text("bash_id")?.into()),
            Invocation::StopCommand(_) => set("command_id", change.text("shell_id")?.into()),
            Invocation::AskFollowupQuestion(_) => {
                let questions = change.after.get("questions").and_then(Value::as_array);
                let Some([question]) = questions.map(Vec::as_slice) else {
                    return Err(wrong("questions", "a list of one question"));
                };
                if change.after.contains_key("answers") {
                    return Err(RewriteError("a question is answered by the user alone".to_owned()));
                }
                let text = question.get("question").and_then(Value::as_str);
                set("question", text.ok_or_else(|| wrong("question", "a text"))?.into());
                let options = question.get("options").and_then(Value::as_array);
                let label = |option: &Value| {
                    option.get("label").and_then(Value::as_str).map(|label| json!({ "text": label }))
                };
                let labels = options.into_iter().flatten().map(label).collect::<Option<Vec<_>>>();
                set("follow_up", labels.ok_or_else(|| wrong("options", "a list of labels"))?.into());
            }
            Invocation::UpdateTodoList(_) => {
                let items = change.after.get("todos").and_then(Value::as_array);
                let line = |item: &Value| {
                    let content = item.get("content")?.as_str()?;
                    let status = todo_status(item.get("status")?.as_str()?)?;
                    let content = content.replace('\n', " ");
                    Some(format!("{} {content}\n", status.mark()))
                };
                let lines = items.map(|items| items.iter().map(line).collect::<Option<String>>());
                set("todos", lines.flatten().ok_or_else(|| wrong("todos", "a list of entries"))?.into());
            }
            Invocation::Skill(_) => {
                // It may have come by an older name.
                for old in ["skill", "task"] {
                    params.remove(old);
                }
                params.insert("name".to_owned(), change.text("skill")?.into());
                match change.after.get("args") {
                    Some(_) => params.insert("args".to_owned(), change.text("args")?.into()),
                    None => params.remove("args"),
                };
            }
            Invocation::NewTask(_) => {
                set("message", change.text("prompt")?.into());
                set("mode", change.text("subagent_type")?.into());
            }
            Invocation::SwitchMode(_)
            | Invocation::AttemptCompletion(_)
            | Invocation::CompleteWithFailure(_) => {
                *params = change.after.clone();
                params.remove("roo");
            }
        }
        Ok(())
    }
}

/// A path made absolute, without asking the disk.
fn lexical(root: &Path, named: &str) -> PathBuf {
    let mut path = PathBuf::new();
    for part in root.join(named).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                path.pop();
            }
            other => path.push(other),
        }
    }
    path
}

fn wrong(field: &str, expected: &str) -> RewriteError {
    RewriteError(format!("`updatedInput.{field}` must be {expected}"))
}

/// An edit of one file. What looks for words in it finds all of them in the two strings.
fn edit(path: Value, blocks: &[Block], diff: &str) -> Value {
    if blocks.is_empty() {
        return json!({ "file_path": path, "old_string": "", "new_string": diff });
    }
    let pairs: Vec<(String, String)> =
        blocks.iter().map(|block| (block.search.join("\n"), block.replace.join("\n"))).collect();
    let join = |part: fn(&(String, String)) -> &String| {
        pairs.iter().map(part).cloned().collect::<Vec<_>>().join("\n")
    };
    let edits = pairs.iter().map(|(old, new)| json!({ "old_string": old, "new_string": new }));
    json!({
        "file_path": path,
        "old_string": join(|pair| &pair.0),
        "new_string": join(|pair| &pair.1),
        "replace_all": false,
        "edits": edits.collect::<Vec<_>>(),
    })
}

fn todo_word(status: TodoStatus) -> &'static str {
    match status {
        TodoStatus::Pending => "pending",
        TodoStatus::InProgress => "in_progress",
        TodoStatus::Completed => "completed",
    }
}

fn todo_status(word: &str) -> Option<TodoStatus> {
    match word {
        "pending" => Some(TodoStatus::Pending),
        "in_progress" => Some(TodoStatus::InProgress),
        "completed" => Some(TodoStatus::Completed),
        _ => None,
    }
}

/// What a rewrite changes of an input.
struct Change<'a> {
    root: &'a Path,
    before: &'a Object,
    after: &'a Object,
}

impl Change<'_> {
    /// Whether nothing changes but what is only for reading.
    fn is_none(&self) -> bool {
        let fields = self.before.keys().chain(self.after.keys());
        !fields.filter(|name| *name != "roo").any(|name| self.differs(name))
    }

    fn differs(&self, field: &str) -> bool {
        self.before.get(field) != self.after.get(field)
    }

    /// Refuses a change of what our tool can't do otherwise.
    fn refuse(&self, fields: &[&str]) -> Result<(), RewriteError> {
        let changed = fields.iter().find(|field| self.after.contains_key(**field) && self.differs(field));
        match changed {
            Some(field) => {
                Err(RewriteError(format!("`updatedInput.{field}` can't be changed for this tool")))
            }
            None => Ok(()),
        }
    }

    fn text(&self, field: &str) -> Result<String, RewriteError> {
        let text = self.after.get(field).and_then(Value::as_str);
        text.map(str::to_owned).ok_or_else(|| wrong(field, "a text: a rewrite has all fields"))
    }

    /// A path: as the model wrote it where it stays, and below the root relative to it.
    fn path(&self, field: &str, named: &str) -> Result<String, RewriteError> {
        if !self.differs(field) {
            return Ok(named.to_owned());
        }
        let path = self.text(field)?;
        let below = Path::new(&path).strip_prefix(self.root).ok();
        let below = below.and_then(Path::to_str).filter(|below| !below.is_empty());
        Ok(below.map(str::to_owned).unwrap_or(path))
    }

    fn range(&self) -> Result<Option<(usize, usize)>, RewriteError> {
        let number = |field: &str| match self.after.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => value
                .as_u64()
                .and_then(|number| usize::try_from(number).ok())
                .map(Some)
                .ok_or_else(|| wrong(field, "a whole number")),
        };
        let (offset, limit) = (number("offset")?, number("limit")?);
        if offset.is_none() && limit.is_none() {
            return Ok(None);
        }
        let start = offset.unwrap_or(1).max(1);
        let end = limit.map_or(usize::MAX, |limit| start.saturating_add(limit.max(1)) - 1);
        // As large as a range in JSON may be.
        Ok(Some((start, end.min(1 << 40))))
    }

    /// The new diff; none when the edits stay.
    fn edits(&self, blocks: &[Block]) -> Result<Option<String>, RewriteError> {
        let pair = |value: &Object| {
            let text = |field: &str| value.get(field).and_then(Value::as_str).map(str::to_owned);
            text("old_string").zip(text("new_string"))
        };
        let pairs: Vec<(String, String)> = if self.differs("edits") && self.after.contains_key("edits") {
            let edits = self.after.get("edits").and_then(Value::as_array);
            let edits = edits.map(|edits| edits.iter().map(|edit| edit.as_object().and_then(pair)).collect());
            let pairs: Option<Vec<(String, String)>> = edits.flatten();
            pairs.ok_or_else(|| wrong("edits", "a list of `old_string` and `new_string`"))?
        } else if self.differs("old_string") || self.differs("new_string") {
            if blocks.len() > 1 {
                let message = "an edit of several places is changed by `updatedInput.edits`";
                return Err(RewriteError(message.to_owned()));
            }
            vec![pair(self.after).ok_or_else(|| wrong("old_string", "a text, as `new_string`"))?]
        } else {
            return Ok(None);
        };
        let line = |index: usize| blocks.get(index).and_then(|block| block.start_line);
        let diff = pairs.iter().enumerate().map(|(index, (old, new))| block(old, new, line(index)));
        Ok(Some(diff.collect::<Vec<_>>().join("\n\n")))
    }
}

/// One SEARCH/REPLACE block.
fn block(old: &str, new: &str, line: Option<usize>) -> String {
    let line = line.map(|line| format!(":start_line:{line}\n-------\n")).unwrap_or_default();
    let part = |text: &str| match text {
        "" => String::new(),
        text => text.split('\n').map(|line| escaped(line) + "\n").collect(),
    };
    format!("<<<<<<< SEARCH\n{line}{}=======\n{}>>>>>>> REPLACE", part(old), part(new))
}

/// A line that can't be taken for a marker: the reader takes one backslash away where one would be.
fn escaped(line: &str) -> String {
    let body = line.trim_start();
    let bare = body.trim_start_matches('\\');
    let is_marker =
        ["<<<<<<<", "=======", ">>>>>>>", "-------"].iter().any(|marker| bare.starts_with(marker));
    let is_line_marker = [":start_line:", ":end_line:"].iter().any(|marker| bare.starts_with(marker));
    let indentation = line.get(..line.len() - body.len()).unwrap_or_default();
    match (is_marker && indentation.is_empty()) || is_line_marker {
        true => format!("{indentation}\\{body}"),
        false => line.to_owned(),
    }
}

/// A hunk as the contract shows an edit.
fn block_of(hunk: &Hunk) -> Block {
    let side = |gone: Mark| {
        let lines = hunk.lines.iter().filter(move |line| line.mark != gone);
        lines.map(|line| line.text.clone()).collect()
    };
    Block {
        line: hunk.line,
        start_line: None,
        decoded: false,
        search: side(Mark::Insert),
        replace: side(Mark::Remove),
    }
}

/// What a tool answered, in the contract's form, with the text that the model reads under `roo`.
pub(super) fn response(tool: &ToolUse<'_>, root: &Path, text: &str, ok: bool) -> Value {
    let path = |named: &str| tool.path(named, root);
    let mut response = match tool.invocation {
        Some(Invocation::ExecuteCommand(_)) => {
            json!({ "stdout": text, "stderr": "", "interrupted": false, "isImage": false })
        }
        Some(Invocation::WriteToFile(p)) => json!({ "filePath": path(&p.path), "success": ok }),
        Some(Invocation::ApplyDiff(p)) => json!({ "filePath": path(&p.path), "success": ok }),
        Some(Invocation::SearchAndReplace(p)) => json!({ "filePath": path(&p.path), "success": ok }),
        Some(Invocation::InsertContent(p)) => json!({ "filePath": path(&p.path), "success": ok }),
        Some(Invocation::ReadFile(p)) => {
            let first = p.files.first().map(|file| path(&file.path));
            json!({ "type": "text", "file": { "filePath": first, "content": text } })
        }
        _ => json!({ "content": text }),
    };
    response["roo"] = json!({ "text": text, "ok": ok });
    response
}

/// The text that a hook puts in the place of a tool's result; none when it can't be told.
pub(super) fn response_text(value: &Value, before: &Value) -> Option<String> {
    if let Value::String(text) = value {
        return Some(text.clone());
    }
    let changed = |path: &str| {
        let new = value.pointer(path).and_then(Value::as_str)?;
        (before.pointer(path).and_then(Value::as_str) != Some(new)).then(|| new.to_owned())
    };
    if let Some(text) = changed("/roo/text") {
        return Some(text);
    }
    if let Some(out) = value.get("stdout").and_then(Value::as_str) {
        let errors = value.get("stderr").and_then(Value::as_str).filter(|text| !text.is_empty());
        return Some(errors.map_or_else(|| out.to_owned(), |errors| format!("{out}\n{errors}")));
    }
    let text = |path: &str| value.pointer(path).and_then(Value::as_str).map(str::to_owned);
    text("/content").or_else(|| text("/file/content")).or_else(|| text("/text"))
}

#[cfg(test)]
#[path = "tool_input_tests.rs"]
mod tests;
