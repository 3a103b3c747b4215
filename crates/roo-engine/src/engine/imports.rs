//! Requests made from the history of another program.
//!
//! Its conversation becomes events of our own: what the user and the model said, calls, results, the end. So every front end
//! shows it, and a message to it goes on from there like any other. [`Event::Imported`] says how many of them are not ours:
//! nothing of them was judged or run here, and a replay says nothing about them. The id of the request follows from the
//! other program's, so that a task is imported once.

use std::collections::{HashMap, VecDeque};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use uuid::{Builder, Uuid};

use super::EngineError;
use super::event::{EndState, Ending, Event, call_message};
use super::task::{TITLE, Task, block_message_id, todo_items};
use roo_catalog::{Invocation, ToolCall, ToolProtocol, parse};
use roo_durable::{Record, WorkspaceDirectory};
use roo_formats::config::Limits;
use roo_formats::modes;
use roo_formats::roo_code::tasks::{
    AnswerPart, InputPart, PastCall, PastContent, PastMessage, PastResult, PastTask, words_in,
};
use roo_model::parser::{Block, StreamEvent, StreamParser, Update};
use roo_model::prompts::{replies, user_message};
use roo_model::providers::{Finish, Item, ToolResult};
use roo_protocol::event::{QuestionKind, ToolStatus};
use roo_protocol::ids::{Digest, MessageId, QuestionId, TaskId, ToolCallId, Urid};
use roo_protocol::message::{Message, MessageKind, Say};
use roo_protocol::task::{ImportOrigin, PendingQuestion, Usage};
use roo_text::render::one_line;

/// Result of a call of which nothing is recorded.
const NO_RESULT: &str = "The task was interrupted before this call had a result.";
/// What Roo Code's results of refused calls have in them.
const DENIED: [&str; 2] = ["The user denied this operation", "\"status\":\"denied\""];
/// The longest summary of a result, in characters.
const SUMMARY: usize = 200;

/// How an imported request goes on.
#[derive(Clone, Debug)]
pub struct ImportSettings {
    /// The slug of its mode.
    pub mode: String,
    /// Emoji of the mode.
    pub emoji: String,
    /// The name of its model profile.
    pub profile: String,
    /// Tool protocol of the profile.
    pub protocol: ToolProtocol,
    pub limits: Limits,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportedRequest {
    pub task_id: TaskId,
    /// Its id for people.
    pub urid: Urid,
    /// True if it was there already; it stays as it is.
    pub was_known: bool,
}

/// The requests of a workspace that another program's tasks have become, and those that they are to become.
///
/// A task is known again by its own id alone. When it began says only where it stands in the history: what tells that may change
/// as the task goes on.
pub struct ImportedRequests {
    directory: WorkspaceDirectory,
    /// By the part of their ids that follows from the other program's.
    known: HashMap<String, TaskId>,
}

impl ImportedRequests {
    /// Those of a workspace. Reads the names of its requests.
    ///
    /// # Errors
    /// [`EngineError::Store`] when they can't be read.
    pub fn open(directory: WorkspaceDirectory) -> Result<Self, EngineError> {
        let requests = directory.requests()?.into_iter();
        let known = requests.filter_map(|id| Some((lasting_part(&id)?.to_owned(), id))).collect();
        Ok(Self { directory, known })
    }

    /// Returns whether a task of another program was imported. Reads the disk.
    pub fn has(&self, program: &str, past: &PastTask) -> bool {
        self.known_id(&ids(program, past).0).is_some()
    }

    /// The id by which a request that would have this one is there.
    fn known_id(&self, id: &TaskId) -> Option<&TaskId> {
        let known = self.known.get(lasting_part(id)?)?;
        self.directory.request(known).exists().then_some(known)
    }

    /// Makes a finished request of a task that another program kept. Reads and writes the disk.
    ///
    /// # Errors
    /// [`EngineError::Store`] when its log can't be written.
    pub fn import(
        &mut self,
        program: &str,
        past: &PastTask,
        settings: ImportSettings,
    ) -> Result<ImportedRequest, EngineError> {
        let (task_id, urid) = ids(program, past);
        if let Some(known) = self.known_id(&task_id) {
            return Ok(ImportedRequest { task_id: known.clone(), urid, was_known: true });
        }
        let Some(records) = records(&task_id, &urid, program, past, settings) else {
            // The first event makes a task, whatever is in it.
            return Err(EngineError::NotFound { what: "task", id: past.item.id.clone() });
        };
        let is_new = self.directory.request(&task_id).create_whole(&records)?;
        self.known.extend(lasting_part(&task_id).map(|part| (part.to_owned(), task_id.clone())));
        Ok(ImportedRequest { task_id, urid, was_known: !is_new })
    }
}

/// The part of a request's id behind its time.
fn lasting_part(id: &TaskId) -> Option<&str> {
    const TIME: usize = "01234567-89ab-".len();
    id.as_str().get(TIME..).filter(|part| !part.is_empty())
}

/// The ids of the request that a task becomes. But for their time they follow from the task's own id.
fn ids(program: &str, past: &PastTask) -> (TaskId, Urid) {
    let digest = Digest::of_parts(&[program.as_bytes(), b"\0", past.item.id.as_bytes()]);
    let (mut random, mut shown) = ([0; 10], [0; 16]);
    let (first, second) = digest.as_bytes().split_at(shown.len());
    shown.copy_from_slice(first);
    random.copy_from_slice(&second[..10]);
    let created = u64::try_from(past.created_at).unwrap_or_default();
    let id = Builder::from_unix_timestamp_millis(created, &random).into_uuid();
    let at = Timestamp::from_millisecond(past.created_at).unwrap_or_default();
    let urid = modes::urid(at.to_zoned(TimeZone::system()).datetime(), Uuid::from_bytes(shown));
    (TaskId::new(id.to_string()), urid)
}

/// The records of the request.
fn records(
    id: &TaskId,
    urid: &Urid,
    program: &str,
    past: &PastTask,
    settings: ImportSettings,
) -> Option<Vec<Record<Event>>> {
    let title = one_line(past.item.task.trim(), TITLE);
    let created = Event::Created {
        parent: None,
        urid: urid.clone(),
        mode: settings.mode,
        profile: settings.profile,
        protocol: settings.protocol,
        title,
        limits: settings.limits,
        emoji: settings.emoji,
        gather: false,
        unread: vec![],
        pinned: false,
        intent: None,
        within: vec![],
        worktree: false,
    };
    let task = Task::created(id.clone(), &created, 1, past.created_at)?;
    let record = Record { seq: 1, at: past.created_at, task_id: id.clone(), event: created };
    let mut log = ImportedLog {
        task,
        records: vec![record],
        at: past.created_at,
        open: VecDeque::new(),
        lacks_call: false,
        has_prompt: false,
        by_tags: !past.has_native_calls(),
        usage: past.item.usage,
    };
    let item = &past.item;
    let origin = ImportOrigin {
        program: program.to_owned(),
        task_id: item.id.clone(),
        parent_task_id: item.parent_task_id.clone(),
        root_task_id: item.root_task_id.clone(),
        child_task_ids: item.child_ids.clone(),
    };
    log.push(Event::Imported { origin: origin.clone(), events: 0 });
    let last_answer =
        past.messages.iter().rposition(|message| matches!(message.content, PastContent::Answer(_)));
    for (index, message) in past.messages.iter().enumerate() {
        log.message(message, last_answer == Some(index));
    }
    log.end(program);
    let mut records = log.records;
    let events = records.len().saturating_sub(2) as u64;
    records[1].event = Event::Imported { origin, events };
    Some(records)
}

/// A log on its way, and the state that it comes to.
struct ImportedLog {
    task: Task,
    records: Vec<Record<Event>>,
    /// Time of the newest message.
    at: i64,
    /// The calls of the newest answer without results, each with the id by which its result names it.
    open: VecDeque<(String, ToolCall)>,
    /// The newest answer has no call.
    lacks_call: bool,
    has_prompt: bool,
    /// Calls are tags in the text.
    by_tags: bool,
    /// What the whole task used.
    usage: Usage,
}

impl ImportedLog {
    fn next_seq(&self) -> u64 {
        self.records.len() as u64 + 1
    }

    fn push(&mut self, event: Event) {
        let (seq, at) = (self.next_seq(), self.at);
        self.task.apply(&event, seq, at);
        self.records.push(Record { seq, at, task_id: self.task.id.clone(), event });
    }

    fn message(&mut self, PastMessage { at, content }: &PastMessage, is_last_answer: bool) {
        // Times of other machines may go back.
        self.at = at.unwrap_or(self.at).max(self.at);
        match content {
            PastContent::Input(parts) => self.input(parts),
            PastContent::Answer(parts) => self.answer(parts, is_last_answer),
            PastContent::Summary(text) => self.summary(text),
        }
    }

    /// Lets the task go on where it had come to an end, or had made no call.
    fn reopen(&mut self) {
        if self.task.state().is_final() {
            self.push(Event::Resumed);
        }
        if std::mem::take(&mut self.lacks_call) {
            self.push(Event::Corrected { text: String::new(), mistake: false });
        }
    }

    fn answer(&mut self, parts: &[AnswerPart], is_last: bool) {
        self.close_calls(&mut VecDeque::new());
        self.reopen();
        let request = self.task.request_number().saturating_add(1);
        self.push(Event::TurnStarted { request });
        let mut block = 0;
        for part in parts {
            match part {
                AnswerPart::Text(text) if self.by_tags => {
                    for part in parts_of_text(text) {
                        self.block(&part, request, &mut block);
                    }
                }
                part => self.block(part, request, &mut block),
            }
        }
        let total = if is_last { self.usage } else { Usage::default() };
        self.push(Event::TurnEnded {
            finish: Finish::Done,
            total,
            context: None,
            tail: None,
            beginning: None,
        });
        self.lacks_call = self.open.is_empty();
    }

    fn block(&mut self, part: &AnswerPart, request: u32, block: &mut u32) {
        let id = block_message_id(request, *block);
        *block = block.saturating_add(1);
        let say = |say, text: &String| Message {
            id: id.clone(),
            kind: MessageKind::Say(say),
            text: text.clone(),
            images: vec![],
        };
        match part {
            AnswerPart::Text(text) => self.push(Event::Spoke { message: say(Say::Text, text) }),
            AnswerPart::Thinking(text) => {
                let message = say(Say::Reasoning, text);
                self.push(Event::Thought { message, opaque: None, origin: String::new() });
            }
            AnswerPart::Call(PastCall { id: theirs, name, params }) => {
                // Ids are our own, as those of other programs may be repeated.
                let call = ToolCall {
                    id: ToolCallId::new(format!("call_{}", self.next_seq())),
                    name: name.clone(),
                    params: params.clone(),
                    problem: None,
                    note: None,
                };
                self.open.push_back((theirs.clone(), call.clone()));
                self.push(Event::Called { message: call_message(id, &call), call });
            }
        }
    }

    fn input(&mut self, parts: &[InputPart]) {
        let mut rest: VecDeque<InputPart> = parts.iter().cloned().collect();
        let had_calls = !self.open.is_empty();
        if had_calls {
            self.close_calls(&mut rest);
        }
        let mut images: Vec<String> = vec![];
        let mut texts: Vec<String> = vec![];
        let mut words: Vec<String> = vec![];
        for part in rest {
            match part {
                InputPart::Words(said) => words.push(said),
                InputPart::Text(text) => texts.push(text),
                InputPart::Image(url) => images.push(url),
                // Of a call that isn't there.
                InputPart::Result(result) => texts.push(result.text),
            }
        }
        for said in words {
            self.say(said, std::mem::take(&mut images));
        }
        let text = texts
            .iter()
            .map(|text| text.trim())
            .filter(|text| !text.is_empty())
            .collect::<Vec<_>>()
            .join("\n\n");
        if text.is_empty() && images.is_empty() {
            return;
        }
        if self.task.state().is_final() {
            self.push(Event::Resumed);
        }
        if images.is_empty() && std::mem::take(&mut self.lacks_call) {
            self.push(Event::Corrected { text, mistake: false });
            return;
        }
        self.reopen();
        self.push(Event::Gathered { commands: String::new(), text, images, seen: vec![] });
    }

    /// The user said something.
    fn say(&mut self, text: String, images: Vec<String>) {
        self.reopen();
        let (id, say) = match std::mem::replace(&mut self.has_prompt, true) {
            false => ("m1".to_owned(), Say::Text),
            true => (format!("m{}", self.next_seq()), Say::UserFeedback),
        };
        let told = user_message(&text);
        let message = Message { id: MessageId::new(id), kind: MessageKind::Say(say), text, images };
        self.push(Event::UserSaid { message, text: told, mentions: false, hooks: false });
    }

    fn summary(&mut self, text: &str) {
        self.close_calls(&mut VecDeque::new());
        self.reopen();
        let items = self.task.conversation.items();
        let cut = items.len();
        if cut == 0 {
            return;
        }
        let answers = items.iter().map(|item| match item {
            Item::Assistant { .. } => 1,
            Item::Summary { answers, .. } => *answers,
            Item::User { .. } | Item::Results { .. } => 0,
        });
        let message = Item::Summary {
            text: text.to_owned(),
            summary: text.to_owned(),
            kept: vec![],
            images: vec![],
            answers: answers.sum(),
        };
        let total = self.task.totals.usage;
        self.push(Event::ContextCondensed {
            cut,
            message,
            by_model: true,
            manual: false,
            tokens_before: 0,
            tokens_after: 0,
            cost_usd: 0.0,
            total,
        });
    }

    /// Gives each open call its result, which is taken out of what the model got next.
    fn close_calls(&mut self, input: &mut VecDeque<InputPart>) {
        let mut completed = None;
        let mut is_first = true;
        while let Some((theirs, call)) = self.open.pop_front() {
            let found = match self.by_tags {
                true if is_first => of_tags(&call, input),
                true => None,
                false => of_id(&theirs, input),
            };
            is_first = false;
            let is_last = self.open.is_empty();
            match parse(&call) {
                Ok(Invocation::AttemptCompletion(completion))
                    if found.as_ref().is_none_or(|result| !result.is_error) =>
                {
                    let feedback = found.and_then(|result| words_in(&result.text));
                    let result = completion.result.trim().to_owned();
                    self.complete(&call, &result, is_last);
                    completed = Some(result);
                    input.extend(feedback.map(InputPart::Words));
                }
                Ok(Invocation::AskFollowupQuestion(question)) => {
                    self.ask(&call, question.question.trim().to_owned(), found);
                }
                Ok(Invocation::UpdateTodoList(update)) => {
                    let items = todo_items(&self.task.todo, update.items);
                    self.push(Event::TodoChanged { items });
                    self.finish(&call, found);
                }
                _ => {
                    self.push(Event::ToolStarted {
                        call_id: call.id.clone(),
                        name: call.name.clone(),
                        subject: call.subject(),
                        write: None,
                    });
                    self.finish(&call, found);
                }
            }
        }
        if let Some(result) = completed {
            self.ended(EndState::Completed, Some(result), None);
        }
    }

    fn complete(&mut self, call: &ToolCall, result: &str, is_last: bool) {
        let message = Message {
            id: MessageId::new(format!("{}.end", call.id)),
            kind: MessageKind::Say(Say::CompletionResult),
            text: result.to_owned(),
            images: vec![],
        };
        self.push(Event::Shown { message });
        let ending = Ending { state: EndState::Completed, result: Some(result.to_owned()), reason: None };
        let told = replies::ended();
        let result = result_of(call, ToolStatus::Ok, told.clone(), vec![]);
        self.push(finished(told, result, is_last.then_some(ending)));
    }

    /// The task asked its user something, and had an answer or not.
    fn ask(&mut self, call: &ToolCall, text: String, found: Option<PastResult>) {
        let question_id = QuestionId::new(format!("{}.q{}", self.task.id, self.next_seq()));
        let question = PendingQuestion {
            question_id: question_id.clone(),
            kind: QuestionKind::Followup,
            text,
            suggestions: vec![],
            secret: false,
        };
        self.push(Event::QuestionAsked { question, call_id: Some(call.id.clone()) });
        let answer =
            found.as_ref().map(|result| words_in(&result.text).unwrap_or_else(|| result.text.clone()));
        let images = found.as_ref().map(|result| result.images.clone()).unwrap_or_default();
        self.push(Event::QuestionAnswered {
            question_id,
            by: "user".into(),
            text: answer.clone(),
            images,
            mode: None,
            words: None,
        });
        match (answer, found) {
            (Some(answer), Some(PastResult { images, is_error: false, .. })) => {
                let result = result_of(call, ToolStatus::Ok, user_message(&answer), images);
                self.push(finished(one_line(&answer, SUMMARY), result, None));
            }
            (_, found) => self.finish(call, found),
        }
    }

    fn finish(&mut self, call: &ToolCall, found: Option<PastResult>) {
        let (status, text, images) = match found {
            None => (ToolStatus::Interrupted, NO_RESULT.to_owned(), vec![]),
            Some(PastResult { text, images, is_error, .. }) => {
                let status = match is_error {
                    _ if DENIED.iter().any(|denied| text.contains(denied)) => ToolStatus::Denied,
                    true => ToolStatus::Failed,
                    false => ToolStatus::Ok,
                };
                (status, text, images)
            }
        };
        let summary = one_line(text.trim(), SUMMARY);
        let result = result_of(call, status, text, images);
        self.push(finished(summary, result, None));
    }

    fn end(&mut self, program: &str) {
        self.close_calls(&mut VecDeque::new());
        if !self.task.state().is_final() {
            self.ended(EndState::Cancelled, None, Some(format!("it had not ended in {program}")));
        }
    }

    fn ended(&mut self, state: EndState, result: Option<String>, reason: Option<String>) {
        let (usage, tool_usage) = (self.task.totals.usage, self.task.totals.tools.clone());
        self.push(Event::Ended { state, result, reason, usage, tool_usage });
    }
}

fn result_of(call: &ToolCall, status: ToolStatus, text: String, images: Vec<String>) -> ToolResult {
    ToolResult {
        call_id: call.id.clone(),
        name: call.name.clone(),
        subject: call.subject(),
        status,
        text,
        images,
    }
}

fn finished(summary: String, result: ToolResult, ends: Option<Ending>) -> Event {
    Event::ToolFinished {
        summary,
        result,
        seen: vec![],
        mistake: false,
        ends,
        saves: None,
        withheld: None,
        recorded: vec![],
        exit_code: None,
        circle: None,
    }
}

/// An answer of text alone, with the calls in it. One that can't be read as calls is text.
fn parts_of_text(text: &str) -> Vec<AnswerPart> {
    let mut updates = vec![];
    let mut parser = StreamParser::new(ToolProtocol::Xml);
    parser.push(StreamEvent::Text(text.to_owned()), &mut updates);
    parser.finish(true, &mut updates);
    let parts = updates.into_iter().filter_map(|update| match update {
        Update::Closed(block) => Some(match block {
            Block::Text(text) => Some(AnswerPart::Text(text)),
            Block::Thinking { text, .. } => Some(AnswerPart::Thinking(text)),
            Block::Call { problem: Some(_), .. } => None,
            Block::Call { name, params, .. } => {
                Some(AnswerPart::Call(PastCall { id: String::new(), name, params }))
            }
        }),
        _ => None,
    });
    parts.collect::<Option<Vec<_>>>().unwrap_or_else(|| vec![AnswerPart::Text(text.to_owned())])
}

/// The result of the call of this id.
fn of_id(id: &str, input: &mut VecDeque<InputPart>) -> Option<PastResult> {
    let place =
        input.iter().position(|part| matches!(part, InputPart::Result(result) if result.call == id))?;
    match input.remove(place) {
        Some(InputPart::Result(result)) => Some(result),
        _ => None,
    }
}

/// The result of a call that was made by tags: the texts of the next message, after a heading with the tool's name. The user's
/// words are the answer to a question, and go on for themselves behind anything else.
fn of_tags(call: &ToolCall, input: &mut VecDeque<InputPart>) -> Option<PastResult> {
    let asks = matches!(parse(call), Ok(Invocation::AskFollowupQuestion(_)));
    let (mut texts, mut images, mut rest) = (vec![], vec![], VecDeque::new());
    for part in input.drain(..) {
        match part {
            InputPart::Text(text) => texts.push(text),
            InputPart::Words(words) if asks => texts.push(words),
            InputPart::Image(url) => images.push(url),
            InputPart::Result(result) => texts.push(result.text),
            part @ InputPart::Words(_) => rest.push_back(part),
        }
    }
    *input = rest;
    if texts.is_empty() && images.is_empty() {
        return None;
    }
    let text = texts.join("\n\n");
    let is_heading = |line: &str| line.starts_with('[') && line.ends_with("] Result:");
    let text = match text.split_once('\n') {
        Some((first, rest)) if is_heading(first) => rest.trim_start_matches('\n').to_owned(),
        None if is_heading(&text) => String::new(),
        _ => text,
    };
    Some(PastResult { call: String::new(), text, images, is_error: false })
}

#[cfg(test)]
mod tests;
