//! The tools of Claude Code that there are here too, by the names and parameters that they have here: a model that goes on with
//! the session reads calls like those that it can make. All others stay as they were.

use serde_json::{Map, Value};

use crate::roo_code::tasks::{AnswerPart, PastCall};

/// Names a call as it would be here. `folder`: the folder of the session, below which paths are relative.
pub(super) fn as_ours(part: &mut AnswerPart, folder: Option<&str>) {
    if let AnswerPart::Call(call) = part
        && let Some((name, params)) = ours(call, folder)
    {
        (call.name, call.params) = (name.to_owned(), params);
    }
}

fn ours(call: &PastCall, folder: Option<&str>) -> Option<(&'static str, Map<String, Value>)> {
    let text = |key: &str| call.params.get(key).and_then(Value::as_str);
    let path = |key: &str| text(key).map(|path| below(path, folder));
    let (name, params): (_, Vec<(&str, String)>) = match call.name.as_str() {
        "Bash" => ("execute_command", vec![("command", text("command")?.to_owned())]),
        "Read" => ("read_file", vec![("path", path("file_path")?)]),
        "Write" => {
            ("write_to_file", vec![("path", path("file_path")?), ("content", text("content")?.to_owned())])
        }
        "Edit" => (
            "search_and_replace",
            vec![
                ("path", path("file_path")?),
                ("search", text("old_string")?.to_owned()),
                ("replace", text("new_string")?.to_owned()),
            ],
        ),
        "Grep" => (
            "search_files",
            vec![
                ("path", path("path").unwrap_or_else(|| ".".to_owned())),
                ("regex", text("pattern")?.to_owned()),
            ],
        ),
        "TodoWrite" => ("update_todo_list", vec![("todos", todos(call.params.get("todos")?)?)]),
        _ => return None,
    };
    let params = params.into_iter().map(|(key, value)| (key.to_owned(), Value::from(value)));
    Some((name, params.collect()))
}

/// A path as it is below the folder.
fn below(path: &str, folder: Option<&str>) -> String {
    let folder = folder.map(|folder| folder.trim_end_matches('/'));
    let inside = folder.and_then(|folder| path.strip_prefix(folder)?.strip_prefix('/'));
    inside.filter(|rest| !rest.is_empty()).unwrap_or(path).to_owned()
}

/// A list of what is to be done, as a checklist.
fn todos(list: &Value) -> Option<String> {
    let items = list.as_array()?.iter().filter_map(|item| {
        let mark = match item.get("status")?.as_str()? {
            "completed" => 'x',
            "in_progress" => '-',
            _ => ' ',
        };
        Some(format!("[{mark}] {}", item.get("content")?.as_str()?))
    });
    Some(items.collect::<Vec<_>>().join("\n")).filter(|text| !text.is_empty())
}
