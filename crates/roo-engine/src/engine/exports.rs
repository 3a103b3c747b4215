//! The tasks of a request in the form of Roo Code's history: what the user and the model said, calls and results, as the model
//! sees them now. Branches are tasks of their own, whose entries name the task that delegated them. Pure.

use std::collections::HashMap;

use super::event::{EndState, Event};
use super::task::{PromptPlace, Task};
use super::tree::Fold;
use roo_durable::Record;
use roo_formats::roo_code::tasks::{
    AnswerPart, InputPart, PastCall, PastContent, PastMessage, PastResult, PastTask, TaskItem,
};
use roo_model::prompts::replies;
use roo_model::providers::Item;
use roo_protocol::event::ToolStatus;
use roo_protocol::ids::{MessageId, TaskId, ToolCallId};

/// Returns the tasks of a request, parents before children; none for a log without a beginning.
pub(super) fn past_tasks(root: &TaskId, records: &[Record<Event>], workspace: Option<&str>) -> Vec<PastTask> {
    let mut fold = Fold::new(root.clone());
    let mut conversations: HashMap<TaskId, PastConversation> = HashMap::new();
    for record in records {
        let before = fold.tree().and_then(|tree| tree.task(&record.task_id));
        conversations.entry(record.task_id.clone()).or_default().add(record, before);
        if let Event::RestoreFinished { done: true, conversation_before: Some(seq), .. } = &record.event {
            conversations.entry(root.clone()).or_default().go_back(*seq);
        }
        fold.add(record);
    }
    let Some(tree) = fold.finish() else { return vec![] };
    let tasks = tree.tasks();
    let children = |id: &TaskId| {
        let own = tasks.iter().filter(|task| task.parent.as_ref() == Some(id));
        own.map(|task| task.id.to_string()).collect::<Vec<_>>()
    };
    let mut past = vec![];
    for (number, task) in (1..).zip(tasks) {
        let PastConversation { messages, prompt, .. } =
            conversations.remove(&task.id).unwrap_or_default().finished();
        let origin = task.imported.as_ref().map(|import| &import.origin);
        let is_branch = task.parent.is_some();
        past.push(PastTask {
            item: TaskItem {
                id: task.id.to_string(),
                root_task_id: match is_branch {
                    true => Some(root.to_string()),
                    false => origin.and_then(|origin| origin.root_task_id.clone()),
                },
                parent_task_id: match &task.parent {
                    Some(parent) => Some(parent.to_string()),
                    None => origin.and_then(|origin| origin.parent_task_id.clone()),
                },
                child_ids: children(&task.id),
                number,
                ts: task.updated_at,
                task: prompt.unwrap_or_else(|| task.title().to_owned()),
                usage: task.totals.usage,
                workspace: workspace.map(str::to_owned),
                mode: Some(task.settings.mode.clone()),
                profile: Some(task.settings.profile.clone()),
                is_completed: task.end_state() == Some(EndState::Completed),
            },
            created_at: task.created_at,
            messages: messages.into_iter().map(|(_, message)| message).collect(),
        });
    }
    past
}

/// The call whose question the user answered with this message, if hooks are asked about it.
fn answered_call(task: &Task, message: &MessageId) -> Option<ToolCallId> {
    let prompt = task.gather.prompts.iter().find(|prompt| prompt.id == *message)?;
    match &prompt.place {
        PromptPlace::Result(call) => Some(call.clone()),
        PromptPlace::Item(_) => None,
    }
}

/// The conversation of a task on its way.
#[derive(Default)]
struct PastConversation {
    /// Each with the number of its first event.
    messages: Vec<(u64, PastMessage)>,
    /// What the model gets with its next request.
    input: Vec<InputPart>,
    /// The number and time of the first part of it.
    input_begin: Option<(u64, i64)>,
    /// The answer of the request that runs.
    answer: Vec<AnswerPart>,
    answer_begin: Option<(u64, i64)>,
    /// The user's messages that a hook may still block.
    fresh: Vec<(MessageId, String)>,
    prompt: Option<String>,
}

impl PastConversation {
    /// Takes in the next record. `before` is the task as it was until then.
    fn add(&mut self, record: &Record<Event>, before: Option<&Task>) {
        let Record { seq, at, event, .. } = record;
        let place = (*seq, *at);
        match event {
            Event::UserSaid { message, .. } => {
                self.prompt.get_or_insert_with(|| message.text.trim().to_owned());
                self.fresh.push((message.id.clone(), message.text.trim().to_owned()));
                self.give(place, InputPart::Words(message.text.trim().to_owned()));
                self.give_images(place, &message.images);
            }
            Event::PromptRefused { message_id, .. } => {
                match before.and_then(|task| answered_call(task, message_id)) {
                    Some(call) => self.refuse_answer(call.as_str()),
                    None => self.refuse(message_id),
                }
            }
            Event::Gathered { commands, text, images, .. } => {
                self.give_text(place, commands);
                self.give_text(place, text);
                self.give_images(place, images);
            }
            Event::Corrected { text, .. } | Event::CommandEnded { text, .. } => self.give_text(place, text),
            Event::TurnStarted { .. } => {
                self.flush();
                self.answer_begin = Some(place);
            }
            Event::Spoke { message } => self.answer.push(AnswerPart::Text(message.text.trim().to_owned())),
            Event::Thought { message, .. } if !message.text.trim().is_empty() => {
                self.answer.push(AnswerPart::Thinking(message.text.trim().to_owned()));
            }
            Event::Called { call, .. } => self.answer.push(AnswerPart::Call(PastCall {
                id: call.id.to_string(),
                name: call.name.clone(),
                params: call.params.clone(),
            })),
            Event::TurnFailed { .. } => self.answer.clear(),
            Event::TurnEnded { .. } => {
                let parts = std::mem::take(&mut self.answer);
                let (seq, at) = self.answer_begin.take().unwrap_or(place);
                // Endpoints refuse an answer without content.
                if parts.iter().any(|part| !matches!(part, AnswerPart::Thinking(_))) {
                    let content = PastContent::Answer(parts);
                    self.messages.push((seq, PastMessage { at: Some(at), content }));
                }
            }
            Event::ToolFinished { result, .. } => self.give(
                place,
                InputPart::Result(PastResult {
                    call: result.call_id.to_string(),
                    text: result.text.clone(),
                    images: result.images.clone(),
                    is_error: result.status != ToolStatus::Ok,
                }),
            ),
            // A summary that stands for a part alone is left out: the reader has the whole conversation, and bounds of its own.
            Event::ContextCondensed { cut, message: Item::Summary { text, .. }, .. }
                if before.is_some_and(|task| task.conversation.items().len() == *cut) =>
            {
                self.flush();
                let content = PastContent::Summary(text.trim().to_owned());
                self.messages.push((*seq, PastMessage { at: Some(*at), content }));
            }
            // Its summary stands for nothing any more.
            Event::ContextRestored { seq, .. } => self.messages.retain(|(number, _)| number != seq),
            _ => {}
        }
    }

    fn give(&mut self, place: (u64, i64), part: InputPart) {
        self.input_begin.get_or_insert(place);
        self.input.push(part);
    }

    fn give_text(&mut self, place: (u64, i64), text: &str) {
        if !text.trim().is_empty() {
            self.give(place, InputPart::Text(text.trim().to_owned()));
        }
    }

    fn give_images(&mut self, place: (u64, i64), images: &[String]) {
        images.iter().for_each(|url| self.give(place, InputPart::Image(url.clone())));
    }

    /// Takes out a message that a hook blocked.
    fn refuse(&mut self, id: &MessageId) {
        let Some((_, text)) = self.fresh.iter().find(|(fresh, _)| fresh == id) else { return };
        self.prompt.take_if(|prompt| *prompt == *text);
        let is_it = |part: &InputPart| matches!(part, InputPart::Words(words) if words == text);
        if let Some(place) = self.input.iter().rposition(is_it) {
            self.input.remove(place);
            // Its images follow it.
            while matches!(self.input.get(place), Some(InputPart::Image(_))) {
                self.input.remove(place);
            }
        }
    }

    /// Takes out an answer that a hook blocked.
    fn refuse_answer(&mut self, call: &str) {
        for part in &mut self.input {
            if let InputPart::Result(result) = part
                && result.call == call
            {
                result.text = replies::answer_blocked();
                result.images.clear();
            }
        }
    }

    /// Ends what the model gets with a request.
    fn flush(&mut self) {
        self.fresh.clear();
        let parts = std::mem::take(&mut self.input);
        if let Some((seq, at)) = self.input_begin.take().filter(|_| !parts.is_empty()) {
            self.messages.push((seq, PastMessage { at: Some(at), content: PastContent::Input(parts) }));
        }
    }

    /// Forgets what the model no longer sees: all from this number on.
    fn go_back(&mut self, before: u64) {
        self.flush();
        self.messages.retain(|(seq, _)| *seq < before);
    }

    fn finished(mut self) -> Self {
        self.flush();
        self
    }
}
