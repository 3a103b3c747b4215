//! What is said to an instance and to a task.

use roo_protocol::ids::{ApprovalId, Digest};
use serde::Deserialize;

/// The largest message, in bytes.
const MAX_MESSAGE_BYTES: usize = 4 << 20;

/// What is said to an instance.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "type", content = "payload")]
pub(super) enum InstanceCommand {
    #[serde(rename = "start_task")]
    Start(NewTask),
    #[serde(rename = "stop_task")]
    Stop(TaskReference),
    #[serde(rename = "resume_task")]
    Resume(TaskReference),
}

/// What is said to a task.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "type", content = "payload", rename_all = "snake_case")]
pub(super) enum TaskCommand {
    /// Answers the question that waits, or says something.
    Message(Words),
    /// Allows an action.
    ApproveAsk(Verdict),
    /// Refuses one.
    DenyAsk(Verdict),
}

/// A task to be started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NewTask {
    pub(super) text: String,
    /// Images as data URLs.
    #[serde(default)]
    pub(super) images: Vec<String>,
    /// The slug of its mode.
    #[serde(default)]
    pub(super) mode: Option<String>,
    /// The name of its model profile.
    #[serde(default)]
    pub(super) provider_profile: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TaskReference {
    pub(super) task_id: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Words {
    pub(super) text: String,
    /// Images as data URLs.
    #[serde(default)]
    pub(super) images: Vec<String>,
}

/// An answer to an approval. Roo Code names none: it means whatever is asked when the message arrives, which may be another
/// action than its user has seen. Here the action is named, as the event `taskInteractive` has it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Verdict {
    pub(super) approval_id: ApprovalId,
    pub(super) digest: Digest,
    #[serde(default)]
    pub(super) text: Option<String>,
}

/// Reasons why a message is no command.
#[derive(Debug, thiserror::Error)]
pub(super) enum InvalidCommand {
    #[error("the message has {0} bytes; the most are {MAX_MESSAGE_BYTES}")]
    TooLarge(usize),
    #[error("the message can't be read: {0}")]
    Format(#[from] serde_json::Error),
}

/// Reads a command.
pub(super) fn parse<'m, C: Deserialize<'m>>(message: &'m [u8]) -> Result<C, InvalidCommand> {
    if message.len() > MAX_MESSAGE_BYTES {
        return Err(InvalidCommand::TooLarge(message.len()));
    }
    Ok(serde_json::from_slice(message)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read_as_roo_code_writes_them() {
        let start = br#"{"type":"start_task","instanceId":"i","payload":{"text":"Do it.","mode":"code"},"timestamp":1}"#;
        let expected =
            NewTask { text: "Do it.".to_owned(), mode: Some("code".to_owned()), ..NewTask::default() };
        assert_eq!(parse::<InstanceCommand>(start).unwrap(), InstanceCommand::Start(expected));
        let stop = br#"{"type":"stop_task","instanceId":"i","payload":{"taskId":"t"},"timestamp":1}"#;
        let task = TaskReference { task_id: "t".to_owned() };
        assert_eq!(parse::<InstanceCommand>(stop).unwrap(), InstanceCommand::Stop(task));
        let words = br#"{"type":"message","taskId":"t","payload":{"text":"More."},"timestamp":1}"#;
        let said = Words { text: "More.".to_owned(), images: vec![] };
        assert_eq!(parse::<TaskCommand>(words).unwrap(), TaskCommand::Message(said));
    }

    #[test]
    fn an_approval_names_its_action() {
        let blind = br#"{"type":"approve_ask","taskId":"t","payload":{"text":"Yes."},"timestamp":1}"#;
        assert!(parse::<TaskCommand>(blind).unwrap_err().to_string().contains("approvalId"));
        let named = format!(
            r#"{{"type":"approve_ask","payload":{{"approvalId":"t.5","digest":"sha256:{}"}}}}"#,
            "a".repeat(64)
        );
        assert!(matches!(parse(named.as_bytes()).unwrap(), TaskCommand::ApproveAsk(_)));
    }

    #[test]
    fn what_is_no_command_is_refused() {
        for message in [&b"{"[..], b"[]", br#"{"type":"unknown","payload":{}}"#, br#"{"type":"start_task"}"#]
        {
            assert!(parse::<InstanceCommand>(message).is_err());
        }
        let large = vec![b' '; MAX_MESSAGE_BYTES + 1];
        assert!(matches!(parse::<InstanceCommand>(&large), Err(InvalidCommand::TooLarge(_))));
    }
}
