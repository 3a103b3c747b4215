//! What is said to a request while a worker has it, on a subject of its own, and how that is answered.

use roo_engine::engine::{Engine, EngineError};
use roo_protocol::error::ErrorKind;
use roo_protocol::event::{ApprovalOption, OptionKind};
use roo_protocol::ids::{QuestionId, TaskId};
use roo_protocol::task::{ApprovalRespondParams, QuestionAnswerParams, SendWhen, TaskSendParams};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::setup::WhenAsked;

/// The largest message, in bytes.
const MAX_MESSAGE_BYTES: usize = 1 << 20;
/// Author of what comes over NATS, in events.
const CLIENT: &str = "nats";

/// What is said to a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "camelCase")]
pub(crate) enum Control {
    /// Answers an approval, once: a rule is for the user of the worker's machine to make.
    Approval(ApprovalRespondParams),
    /// Answers a question.
    Answer(QuestionAnswerParams),
    /// Says something, which reaches the model after its turn.
    Message { text: String },
    /// Ends the request.
    Cancel,
}

/// The answer to that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reply {
    /// Reason why it was not done; none where it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    /// True if another answer to the same would count.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) waits: bool,
}

/// Returns whether an option decides once. The others make a rule, and are not taken over NATS.
pub(crate) fn counts_once(option: &ApprovalOption) -> bool {
    matches!(option.kind, OptionKind::AllowOnce | OptionKind::RejectOnce)
}

/// Reasons why it was not done.
#[derive(Debug, thiserror::Error)]
pub(super) enum ControlError {
    #[error("the message has {0} bytes; the most are {MAX_MESSAGE_BYTES}")]
    TooLarge(usize),
    #[error("the message can't be read: {0}")]
    Format(#[from] serde_json::Error),
    #[error("this worker takes no approvals; it was started without `--on-ask ask`")]
    NoApprovals,
    #[error("only answers that count once are taken: {0} makes a rule")]
    Rule(String),
    #[error("no such approval waits")]
    NotWaiting,
    #[error("no such question waits")]
    NotAsked,
    #[error("the question is for the user of this worker, which was started without `--on-ask ask`: {0}")]
    ForUser(String),
    #[error("it was answered by {0} before")]
    Late(String),
    #[error("that is a command, which is carried out; the question still waits")]
    Command,
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl ControlError {
    /// Returns whether what was to be answered waits for another answer.
    fn leaves_waiting(&self) -> bool {
        match self {
            Self::TooLarge(_) | Self::Rule(_) | Self::Command => true,
            Self::Engine(error) => !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::WrongState),
            Self::Format(_)
            | Self::NoApprovals
            | Self::NotWaiting
            | Self::NotAsked
            | Self::ForUser(_)
            | Self::Late(_) => false,
        }
    }
}

impl Reply {
    /// The answer as JSON.
    pub(super) fn to_bytes(done: Result<(), ControlError>) -> Vec<u8> {
        let waits = done.as_ref().is_err_and(ControlError::leaves_waiting);
        let reply = Self { error: done.err().map(|error| error.to_string()), waits };
        serde_json::to_value(&reply).unwrap_or(Value::Null).to_string().into_bytes()
    }
}

/// Carries out what is said to a request.
pub(super) async fn carry_out(
    engine: &Engine,
    request: &TaskId,
    when_asked: WhenAsked,
    message: &[u8],
) -> Result<(), ControlError> {
    if message.len() > MAX_MESSAGE_BYTES {
        return Err(ControlError::TooLarge(message.len()));
    }
    match serde_json::from_slice(message)? {
        Control::Approval(answer) => {
            if when_asked != WhenAsked::Ask {
                return Err(ControlError::NoApprovals);
            }
            let waiting = engine.resumable(request).await?.approvals;
            let waiting = waiting.into_iter().find(|(_, asked)| asked.approval_id == answer.approval_id);
            let (_, asked) = waiting.ok_or(ControlError::NotWaiting)?;
            let option = asked.options.into_iter().find(|option| option.id == answer.option_id);
            // The engine says what is wrong with one that isn't there.
            if let Some(option) = option
                && !counts_once(&option)
            {
                return Err(ControlError::Rule(option.id));
            }
            let answered = engine.respond(answer, CLIENT).await?;
            if answered.accepted { Ok(()) } else { Err(ControlError::Late(answered.by)) }
        }
        Control::Answer(answer) => {
            if when_asked != WhenAsked::Ask {
                check_question(engine, request, &answer.question_id).await?;
            }
            let answered = engine.answer(answer, CLIENT).await?;
            match answered.accepted {
                true => Ok(()),
                false if answered.waits => Err(ControlError::Command),
                false => Err(ControlError::Late(answered.by)),
            }
        }
        Control::Message { text } => {
            let (task_id, images, when) = (request.clone(), vec![], SendWhen::AfterTurn);
            Ok(engine.send(TaskSendParams { task_id, text, images, when }).await?)
        }
        Control::Cancel => Ok(engine.cancel(request).await?),
    }
}

/// Refuses to answer what the user of this machine has left to nobody, such as whether limits may be exceeded.
async fn check_question(
    engine: &Engine,
    request: &TaskId,
    question_id: &QuestionId,
) -> Result<(), ControlError> {
    let waiting = engine.resumable(request).await?.questions;
    let asked = waiting.into_iter().find(|(_, question)| question.question_id == *question_id);
    let (_, question) = asked.ok_or(ControlError::NotAsked)?;
    if question.kind.is_for_user_alone() {
        return Err(ControlError::ForUser(question.text));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use roo_protocol::event::{Event, QuestionKind};
    use roo_protocol::task::{PendingQuestion, TaskStartParams};

    use super::*;
    use crate::scripted_engine::ScriptedEngine;

    /// Works on a todo list until it is asked whether it may go on beyond its limit of one model request.
    const BUSY: &str =
        "turns: [{ calls: [{ tool: update_todo_list, params: { todos: \"[ ] a\" } }], repeat: true }]\n";
    /// Asks whoever answers.
    const ASKS: &str = "turns: [{ calls: [{ tool: ask_followup_question, params: { question: Which?, follow_up: [{ text: This }] } }] }]\n";

    /// Starts a request, and waits until it asks something.
    async fn asking(engine: &Engine) -> (TaskId, PendingQuestion) {
        let params = TaskStartParams { prompt: "Do it.".to_owned(), ..TaskStartParams::default() };
        let request = engine.start(params).unwrap().task_id;
        let mut follower = engine.follow(&request, 0).await.unwrap();
        loop {
            for params in follower.next(|| engine.now()).await.unwrap() {
                if let Event::QuestionAsked { question } = &params.event {
                    return (request, question.clone());
                }
            }
        }
    }

    async fn answered(
        engine: &Engine,
        request: &TaskId,
        question: &PendingQuestion,
        when_asked: WhenAsked,
    ) -> Result<(), ControlError> {
        let (question_id, text) = (question.question_id.clone(), question.suggestions[0].text.clone());
        let said = Control::Answer(QuestionAnswerParams { question_id, text, images: vec![] });
        carry_out(engine, request, when_asked, &serde_json::to_vec(&said).unwrap()).await
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn leave_to_go_on_beyond_limits_is_taken_only_where_approvals_are() {
        let limits = serde_json::json!({ "limits": { "requests": 1 } });
        let ScriptedEngine { engine, .. } = &ScriptedEngine::new(BUSY, limits);
        let (request, question) = asking(engine).await;
        assert_eq!(question.kind, QuestionKind::AutoApprovalMaxReqReached);
        for when_asked in [WhenAsked::Deny, WhenAsked::Allow] {
            let refused = answered(engine, &request, &question, when_asked).await;
            assert!(matches!(refused, Err(ControlError::ForUser(_))), "{refused:?}");
        }
        assert_eq!(engine.resumable(&request).await.unwrap().questions.len(), 1, "it still waits");
        answered(engine, &request, &question, WhenAsked::Ask).await.unwrap();
        engine.shutdown().await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn what_the_model_asks_is_answered_over_nats_by_whoever_submitted_it() {
        let ScriptedEngine { engine, .. } = &ScriptedEngine::new(ASKS, serde_json::json!({}));
        let (request, question) = asking(engine).await;
        let other =
            PendingQuestion { question_id: QuestionId::new(format!("{request}.1")), ..question.clone() };
        let unknown = answered(engine, &request, &other, WhenAsked::Deny).await;
        assert!(matches!(unknown, Err(ControlError::NotAsked)), "{unknown:?}");
        answered(engine, &request, &question, WhenAsked::Deny).await.unwrap();
        engine.shutdown().await;
    }

    #[test]
    fn what_is_said_is_read_as_it_is_written() {
        let said = [
            r#"{"command":"approval","approvalId":"a.1","digest":"sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","optionId":"allow_once"}"#,
            r#"{"command":"answer","questionId":"q.1","text":"Yes."}"#,
            r#"{"command":"message","text":"Hurry."}"#,
            r#"{"command":"cancel"}"#,
        ];
        for text in said {
            let control: Control = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&control).unwrap(), text);
        }
        assert!(serde_json::from_str::<Control>(r#"{"command":"format disk"}"#).is_err());
    }

    #[test]
    fn a_reply_has_an_error_or_nothing() {
        assert_eq!(Reply::to_bytes(Ok(())), b"{}");
        let refused = String::from_utf8(Reply::to_bytes(Err(ControlError::NotWaiting))).unwrap();
        assert_eq!(refused, r#"{"error":"no such approval waits"}"#);
        let rule =
            String::from_utf8(Reply::to_bytes(Err(ControlError::Rule("allow_always".to_owned())))).unwrap();
        assert!(rule.ends_with(r#","waits":true}"#), "{rule}");
    }
}
