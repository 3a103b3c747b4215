//! The conversation of a task as the engine returns it at once: each message with the call that it shows.

use roo_protocol::message::Message;
use roo_protocol::task::{CallOutcome, TaskSnapshot};
use serde_json::Value;

use super::{CallResult, CallTarget, MessageRole};

/// A message, with the call that it shows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Passage<'t> {
    pub(crate) role: MessageRole,
    pub(crate) message: &'t Message,
    /// Call in a message that shows one.
    pub(crate) call: Option<PastCall<'t>>,
}

/// A call with what it was to do and what came of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PastCall<'t> {
    pub(crate) target: CallTarget,
    /// Text that the call gave its tool: a diff, the content of a file, or what is wrong with the call.
    pub(crate) body: Option<String>,
    /// Outcome; none where the call has none yet.
    pub(crate) result: Option<CallResult<'t>>,
    /// True if the end of the task tells of it.
    pub(crate) ends_task: bool,
}

/// Messages of a task with their calls, oldest first.
pub(crate) fn conversation(task: &TaskSnapshot) -> impl Iterator<Item = Passage<'_>> {
    task.messages.iter().map(|message| {
        let role = MessageRole::new(message);
        let outcome = || task.calls.iter().find(|call| call.message_id == message.id);
        let call = match role {
            MessageRole::Call => Some(PastCall::of_tool(message, outcome())),
            MessageRole::Command => Some(PastCall::of_command(message, outcome())),
            _ => None,
        };
        Passage { role, message, call }
    })
}

impl<'t> PastCall<'t> {
    /// The call in a message with Roo Code's JSON. The tool has another name there, and some calls have no subject.
    fn of_tool(message: &Message, outcome: Option<&'t CallOutcome>) -> Self {
        let payload: Value = serde_json::from_str(&message.text).unwrap_or_default();
        let field = |name: &str| payload[name].as_str();
        let target = match outcome {
            Some(outcome) => CallTarget::new(&outcome.name, &outcome.subject),
            None => CallTarget::new(field("tool").unwrap_or("call"), field("path").unwrap_or_default()),
        };
        let body = ["diff", "content", "error"].into_iter().find_map(field).map(str::to_owned);
        let result = outcome.map(CallResult::of_outcome);
        let ends_task =
            field("tool") == Some("finishTask") && result.is_none_or(|result| result.is_success());
        Self { target, body, result, ends_task }
    }

    /// The call in a message with the command line that it runs.
    fn of_command(message: &Message, outcome: Option<&'t CallOutcome>) -> Self {
        let target = CallTarget::command(&message.text);
        Self { target, body: None, result: outcome.map(CallResult::of_outcome), ends_task: false }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::view::CallEnding;

    fn snapshot(messages: &Value, calls: &Value) -> TaskSnapshot {
        serde_json::from_value(json!({
            "taskId": "t", "urid": "20260102-03-04-0a0b0c0d", "title": "Go", "mode": "code", "state": "running",
            "createdAt": 0, "updatedAt": 0, "seq": 9, "rootId": "t", "todo": [], "queue": [], "toolUsage": {},
            "usage": { "tokensIn": 0, "tokensOut": 0, "cacheReads": 0, "cacheWrites": 0, "costUsd": 0.0 },
            "messages": messages, "calls": calls,
        }))
        .unwrap()
    }

    #[test]
    fn a_call_has_the_name_subject_and_outcome_that_the_server_knows() {
        let messages = json!([
            { "id": "r1.b0", "say": "tool", "text": r#"{"tool":"appliedDiff","path":"a","diff":"-x\n+y"}"# },
            { "id": "r1.b1", "say": "tool", "text": r#"{"tool":"readFile","path":"b"}"# },
            { "id": "r1.b2", "ask": "command", "text": "exit 3" },
        ]);
        let calls = json!([
            { "messageId": "r1.b2", "name": "execute_command", "subject": "exit 3", "status": "ok", "summary": "exit code 3", "exitCode": 3 },
            { "messageId": "r1.b0", "name": "apply_diff", "subject": "./a", "status": "denied", "summary": "no" },
        ]);
        let task = snapshot(&messages, &calls);
        let calls: Vec<PastCall<'_>> = conversation(&task).filter_map(|passage| passage.call).collect();
        let seen = calls.iter().map(|call| {
            let CallTarget { name, subject, .. } = &call.target;
            (name.as_str(), subject.as_str(), call.result.map(|result| result.ending()))
        });
        assert_eq!(
            seen.collect::<Vec<_>>(),
            [
                ("apply_diff", "./a", Some(CallEnding::Failed)),
                ("readFile", "b", None),
                ("execute_command", "exit 3", Some(CallEnding::FailedExit)),
            ]
        );
        assert_eq!(calls[0].body.as_deref(), Some("-x\n+y"));
        assert!(calls[2].target.is_command());
    }

    #[test]
    fn only_a_completion_that_fails_is_not_told_by_the_end_of_the_task() {
        let messages = json!([{ "id": "r1.b0", "say": "tool", "text": r#"{"tool":"finishTask"}"# }]);
        for (status, ends_task) in [("ok", true), ("skipped", false), ("failed", false)] {
            let calls = json!([{ "messageId": "r1.b0", "name": "attempt_completion", "subject": "", "status": status, "summary": "" }]);
            let task = snapshot(&messages, &calls);
            let passage = conversation(&task).next().unwrap();
            assert_eq!(passage.call.unwrap().ends_task, ends_task, "{status}");
        }
    }
}
