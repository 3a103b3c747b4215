//! The entry of a task in the history.

use serde_json::{Map, Value, json};

use super::{ITEM_FILE, TaskError, is_id, is_time};
use roo_protocol::task::Usage;

/// Keys of the folder: Roo Code's and Cline's.
const FOLDER: [&str; 2] = ["workspace", "cwdOnTaskInitialization"];

/// The most tasks to which one delegated.
const MAX_CHILDREN: usize = 1000;

/// Entry of a task in the history.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskItem {
    /// Its id.
    pub id: String,
    /// The first of the tasks that delegated to one another.
    pub root_task_id: Option<String>,
    /// The task that delegated it.
    pub parent_task_id: Option<String>,
    /// The tasks to which it delegated.
    pub child_ids: Vec<String>,
    /// Its place in the list, from 1.
    pub number: u64,
    /// Time of its newest message, in milliseconds since the Unix epoch.
    pub ts: i64,
    /// Its prompt.
    pub task: String,
    /// Tokens and cost.
    pub usage: Usage,
    /// The workspace folder as the file has it, which may be anything.
    pub workspace: Option<String>,
    /// The slug of its mode.
    pub mode: Option<String>,
    /// The name of its profile.
    pub profile: Option<String>,
    /// True if its user has nothing more for it to do.
    pub is_completed: bool,
}

impl TaskItem {
    /// Reads an entry. What is missing but for the id is empty.
    pub(super) fn read(value: &Value) -> Result<Self, TaskError> {
        let object = value.as_object().ok_or(TaskError::Shape { file: ITEM_FILE })?;
        let id = text(object, "id").ok_or(TaskError::Shape { file: ITEM_FILE })?;
        let ids = object.get("childIds").and_then(Value::as_array);
        let ids = ids.into_iter().flatten().filter_map(Value::as_str).filter(|id| is_id(id));
        let number = |key: &str| count(object.get(key));
        let other = |key: &str| text(object, key).filter(|id| is_id(id));
        Ok(Self {
            id,
            root_task_id: other("rootTaskId"),
            parent_task_id: other("parentTaskId"),
            child_ids: ids.take(MAX_CHILDREN).map(str::to_owned).collect(),
            number: number("number"),
            ts: i64::try_from(number("ts")).ok().filter(is_time).unwrap_or_default(),
            task: text(object, "task").unwrap_or_default(),
            usage: Usage {
                tokens_in: number("tokensIn"),
                tokens_out: number("tokensOut"),
                cache_reads: number("cacheReads"),
                cache_writes: number("cacheWrites"),
                cost_usd: cost(object.get("totalCost")),
            },
            workspace: FOLDER.iter().find_map(|key| text(object, key)),
            mode: text(object, "mode"),
            profile: text(object, "apiConfigName"),
            is_completed: object.get("status").and_then(Value::as_str) == Some("completed"),
        })
    }

    pub(super) fn to_json(&self) -> Value {
        let Usage { tokens_in, tokens_out, cache_reads, cache_writes, cost_usd } = self.usage;
        let mut item = json!({
            "id": self.id,
            "number": self.number.max(1),
            "ts": self.ts,
            "task": self.task,
            "tokensIn": tokens_in,
            "tokensOut": tokens_out,
            "cacheWrites": cache_writes,
            "cacheReads": cache_reads,
            "totalCost": cost_usd,
            "status": if self.is_completed { "completed" } else { "active" },
        });
        let optional = [
            ("rootTaskId", &self.root_task_id),
            ("parentTaskId", &self.parent_task_id),
            ("workspace", &self.workspace),
            ("mode", &self.mode),
            ("apiConfigName", &self.profile),
        ];
        for (key, value) in optional {
            if let Some(value) = value {
                item[key] = value.as_str().into();
            }
        }
        if !self.child_ids.is_empty() {
            item["childIds"] = json!(self.child_ids);
        }
        item
    }
}

/// A text that is not empty.
fn text(object: &Map<String, Value>, key: &str) -> Option<String> {
    object.get(key)?.as_str().filter(|text| !text.trim().is_empty()).map(str::to_owned)
}

/// A number of things. JavaScript has no whole numbers of its own; the cast saturates.
pub(crate) fn count(value: Option<&Value>) -> u64 {
    let Some(value) = value else { return 0 };
    value.as_u64().or_else(|| value.as_f64().map(|number| number as u64)).unwrap_or_default()
}

/// A cost. Nothing was ever paid back.
pub(super) fn cost(value: Option<&Value>) -> f64 {
    value.and_then(Value::as_f64).filter(|cost| cost.is_finite() && *cost > 0.0).unwrap_or_default()
}
