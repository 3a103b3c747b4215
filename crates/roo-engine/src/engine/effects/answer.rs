//! The answer of a model as it comes in: shown while it runs, reported block by block, and cut off where it is too long.

use futures_util::StreamExt;

use crate::engine::actor_message::Report;
use crate::engine::effect_context::EffectContext;
use crate::engine::journal::{Journal, LiveId};
use crate::engine::reporter::Reporter;
use crate::engine::task::{self, Input};
use roo_model::parser::{StreamEvent, StreamParser, Update};
use roo_model::providers::{Finish, Model, ModelError, ModelErrorKind, ModelRequest, Output};
use roo_protocol::ids::TaskId;
use roo_protocol::message::Say;
use roo_protocol::task::Usage;

/// The longest answer that is taken, in bytes of text, thinking and arguments together: a model or an
/// endpoint that runs on forever must not take the server, and every task in it, along.
const MAX_ANSWER_BYTES: usize = 32 << 20;
/// The most calls of one answer.
const MAX_ANSWER_CALLS: usize = 256;

/// Asks the model and reports its blocks. What was used is left in `usage` even when it fails.
pub(super) async fn stream(
    model: &dyn Model,
    request: ModelRequest,
    mut shown: AnswerDisplay<'_>,
    around: &EffectContext,
    reporter: &Reporter,
    usage: &mut Usage,
) -> Result<Finish, ModelError> {
    let mut parser = StreamParser::new(request.protocol);
    let mut updates = Vec::new();
    let mut size = AnswerLength::default();
    let mut stream = model.stream(request);
    let finish = loop {
        match stream.next().await {
            Some(Ok(Output::Event(event))) => {
                size.add(&event)?;
                parser.push(event, &mut updates);
            }
            Some(Ok(Output::Usage(newest))) => *usage = newest,
            Some(Ok(Output::Finished(finish))) => break finish,
            Some(Err(error)) => return Err(error),
            None => {
                return Err(ModelError {
                    kind: ModelErrorKind::Cut,
                    message: "The model's answer was cut off before its end.".into(),
                });
            }
        }
        for update in updates.drain(..) {
            shown.update(update, model.origin(), &around.journal, reporter).await;
        }
    };
    // The conversation is the task's again before it grows: a second owner would mean a copy.
    drop(stream);
    parser.finish(true, &mut updates);
    for update in updates.drain(..) {
        shown.update(update, model.origin(), &around.journal, reporter).await;
    }
    Ok(finish)
}

/// Shows running text, and reports closed blocks.
pub(super) struct AnswerDisplay<'a> {
    task: &'a TaskId,
    request: u32,
    block: u32,
    open: Option<LiveId>,
}

impl<'a> AnswerDisplay<'a> {
    pub(super) fn new(task: &'a TaskId, request: u32) -> Self {
        Self { task, request, block: 0, open: None }
    }

    async fn update(&mut self, update: Update, origin: &str, journal: &Journal, reporter: &Reporter) {
        match update {
            Update::TextDelta(text) => self.extend(Say::Text, &text, journal),
            Update::ThinkingDelta(text) => self.extend(Say::Reasoning, &text, journal),
            Update::CallBegun { name } => self.extend(Say::Tool, &format!("{name}\n"), journal),
            Update::ParameterDelta { text, .. } => self.extend(Say::Tool, &text, journal),
            Update::Closed(block) => {
                if let Some(open) = self.open.take() {
                    journal.close(self.task, &open);
                }
                self.block += 1;
                let input = Input::ModelBlock { block, origin: origin.to_owned() };
                reporter.send(Report::Progress(input)).await;
            }
        }
    }

    fn extend(&mut self, say: Say, text: &str, journal: &Journal) {
        let block = self.block;
        let request = self.request;
        let id =
            self.open.get_or_insert_with(|| LiveId::Message(task::block_message_id(request, block), say));
        journal.extend(self.task, id, text);
    }
}

/// Length of the answer received so far.
#[derive(Default)]
struct AnswerLength {
    bytes: usize,
    calls: usize,
}

impl AnswerLength {
    fn add(&mut self, event: &StreamEvent) -> Result<(), ModelError> {
        match event {
            StreamEvent::Text(text)
            | StreamEvent::Thinking(text)
            | StreamEvent::CallArguments { text, .. } => {
                self.bytes += text.len();
            }
            StreamEvent::CallStart { .. } => self.calls += 1,
            StreamEvent::ThinkingEnd(_) | StreamEvent::CallEnd { .. } => {}
        }
        let message = if self.bytes > MAX_ANSWER_BYTES {
            format!("The model's answer is longer than {} MiB; it was cut off.", MAX_ANSWER_BYTES >> 20)
        } else if self.calls > MAX_ANSWER_CALLS {
            format!("The model's answer makes more than {MAX_ANSWER_CALLS} calls; it was cut off.")
        } else {
            return Ok(());
        };
        // Making it again would bring the same.
        Err(ModelError { kind: ModelErrorKind::Invalid, message })
    }
}
