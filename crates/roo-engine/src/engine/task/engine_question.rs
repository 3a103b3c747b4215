//! Questions that the engine itself asks the user.

use super::{STOP, Task, next_question};
use crate::engine::event::{Event, ask_of};
use roo_protocol::event::{QuestionKind, Suggestion};
use roo_protocol::message::MessageKind;
use roo_protocol::task::PendingQuestion;

/// Asks whether to go on, in the words of `go_on`, or to stop.
pub(super) fn ask_engine_question(task: &Task, kind: QuestionKind, text: String, go_on: &str) -> Vec<Event> {
    let suggestions = [go_on, STOP].map(|text| Suggestion { text: text.to_owned(), mode: None }).into();
    let shown = task.message(MessageKind::Ask(ask_of(kind)), text.clone(), vec![]);
    let question =
        PendingQuestion { question_id: next_question(task), kind, text, suggestions, secret: false };
    vec![Event::Shown { message: shown }, Event::QuestionAsked { question, call_id: None }]
}
