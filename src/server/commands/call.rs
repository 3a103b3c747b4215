//! The call of a command: who makes it, with which argument, and what comes of it.

use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tower_lsp::jsonrpc::{Error, Result};

use super::super::params::in_words;
use super::super::session::{Session, WorkspaceServices};
use roo_protocol::ids::{ApprovalId, CommandId, Digest, HunkId, QuestionId, TaskId};
use roo_protocol::task::{SendWhen, TaskSnapshot};

#[derive(Clone, Copy)]
pub(super) struct CommandCall<'a> {
    pub(super) session: &'a Arc<Session>,
    pub(super) services: &'a Arc<WorkspaceServices>,
    /// The first argument; null if there is none.
    pub(super) argument: &'a Value,
}

impl CommandCall<'_> {
    /// Reads the argument; a bare text stands for the field `main`.
    pub(super) fn read<T: DeserializeOwned>(&self, main: &str) -> Result<T> {
        read(self.argument, main)
    }
}

pub(super) struct CommandOutcome {
    /// For the client.
    pub(super) value: Value,
    /// For the user of a plain client; none where something else shows it.
    pub(super) message: Option<String>,
}

impl CommandOutcome {
    pub(super) fn silent(value: Value) -> Self {
        Self { value, message: None }
    }

    pub(super) fn told(value: Value, message: String) -> Self {
        Self { value, message: Some(message) }
    }
}

/// Allowed fields of a command's object.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Fields {
    pub(super) task_id: Option<TaskId>,
    pub(super) approval_id: Option<ApprovalId>,
    pub(super) digest: Option<Digest>,
    pub(super) question_id: Option<QuestionId>,
    pub(super) option_id: Option<String>,
    pub(super) hunk_ids: Vec<HunkId>,
    pub(super) command_id: Option<CommandId>,
    pub(super) text: Option<String>,
    pub(super) mode: Option<String>,
    pub(super) profile: Option<String>,
    pub(super) when: SendWhen,
    pub(super) seq: Option<u64>,
    pub(super) images: Vec<String>,
}

impl Fields {
    /// Returns whether a task is meant: by its own id, by that of its request, or as any.
    pub(super) fn means(&self, task: &TaskSnapshot) -> bool {
        self.task_id.as_ref().is_none_or(|id| *id == task.item.task_id || *id == task.root_id)
    }
}

fn read<T: DeserializeOwned>(argument: &Value, main: &str) -> Result<T> {
    let object = match argument {
        Value::Null => json!({}),
        Value::String(text) => json!({ main: text }),
        Value::Object(_) => argument.clone(),
        _ => return Err(Error::invalid_params("the argument must be one string or one object")),
    };
    serde_path_to_error::deserialize(object).map_err(|error| Error::invalid_params(in_words(&error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_an_object_or_nothing_is_read() {
        let fields: Fields = read(&json!("hello"), "text").unwrap();
        assert_eq!(fields.text.as_deref(), Some("hello"));
        let fields: Fields = read(&json!({ "taskId": "t", "other": 1 }), "text").unwrap();
        assert_eq!(fields.task_id, Some(TaskId::new("t")));
        let fields: Fields = read(&Value::Null, "text").unwrap();
        assert!(fields.text.is_none());
    }

    #[test]
    fn anything_else_is_an_error_of_the_arguments() {
        for argument in [json!(1), json!([]), json!({ "text": 1 })] {
            let error = read::<Fields>(&argument, "text").unwrap_err();
            assert_eq!(error.code.code(), -32602, "{argument}");
        }
    }
}
