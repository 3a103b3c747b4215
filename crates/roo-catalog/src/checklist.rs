//! To-do lists as models write them: lines of Markdown, or lists of objects.

use serde_json::Value;

use crate::reader::{InvalidCall, Reader, type_name};
use roo_protocol::task::TodoStatus;

/// A to-do list as it was read.
#[derive(Debug, Default)]
pub(crate) struct Checklist {
    /// At least one.
    pub(crate) entries: Vec<(String, TodoStatus)>,
    /// Lines that are no entries, but for blank ones.
    pub(crate) left_out: Vec<String>,
}

impl Checklist {
    /// Reads a parameter; none where it is not there or blank.
    pub(crate) fn parameter(reader: &Reader<'_>, name: &str) -> Result<Option<Self>, InvalidCall> {
        let list = match reader.get(name) {
            None => return Ok(None),
            Some(Value::Array(items)) => Self::from_items(reader, name, items)?,
            Some(Value::String(text)) if text.trim().is_empty() => return Ok(None),
            Some(Value::String(text)) => match serde_json::from_str(text) {
                Ok(Value::Array(items)) if !items.is_empty() => Self::from_items(reader, name, &items)?,
                _ => Self::from_lines(text),
            },
            Some(other) => {
                return Err(reader.bad(name, format!("expected a list, got {}", type_name(other))));
            }
        };
        if list.entries.is_empty() {
            return Err(
                reader.bad(name, "it has no entry. Write each entry on a line of its own, as `[ ] entry`")
            );
        }
        Ok(Some(list))
    }

    fn from_lines(text: &str) -> Self {
        let mut list = Self::default();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            match entry(line) {
                Some(entry) => list.entries.push(entry),
                None => list.left_out.push(line.to_owned()),
            }
        }
        list
    }

    /// Items that are text may have a box.
    fn from_items(reader: &Reader<'_>, name: &str, items: &[Value]) -> Result<Self, InvalidCall> {
        let read = |item: &Value| {
            if let Some(text) = item.as_str() {
                return Ok(entry(text).unwrap_or_else(|| (text.trim().to_owned(), TodoStatus::Pending)));
            }
            let content = item.get("content").and_then(Value::as_str).map(str::trim);
            let status = match item.get("status") {
                None | Some(Value::Null) => Some(TodoStatus::Pending),
                Some(status) => status.as_str().and_then(status_of),
            };
            match (content, status) {
                (Some(content), Some(status)) => Ok((content.to_owned(), status)),
                _ => Err(reader.bad(
                    name,
                    format!(
                        "expected entries with `content` and `status` (pending, in_progress or completed), got {item}"
                    ),
                )),
            }
        };
        let entries = items.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let entries = entries.into_iter().filter(|(content, _)| !content.is_empty());
        Ok(Self { entries: entries.collect(), left_out: vec![] })
    }
}

/// An entry: a box and a text, after the mark of a list if there is one.
fn entry(line: &str) -> Option<(String, TodoStatus)> {
    let line = line.trim();
    let behind_number = || {
        let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
        rest.strip_prefix(['.', ')']).filter(|_| rest.len() < line.len())
    };
    let line = line.strip_prefix(['-', '*', '+']).or_else(behind_number).unwrap_or(line).trim_start();
    let (mark, content) = line.strip_prefix('[')?.split_once(']')?;
    let status = TodoStatus::from_mark(mark)?;
    let content = content.trim();
    (!content.is_empty()).then(|| (content.to_owned(), status))
}

/// The status of this name.
pub(crate) fn status_of(word: &str) -> Option<TodoStatus> {
    match word {
        "pending" => Some(TodoStatus::Pending),
        "in_progress" => Some(TodoStatus::InProgress),
        "completed" => Some(TodoStatus::Completed),
        _ => None,
    }
}
