//! What each event makes of the state of a task.

use std::sync::Arc;

use super::batch::{
    Approval, Authorization, FinishedCall, GivenApproval, HeldAnswer, HookChanges, Stage, ToolBatch,
};
use super::results::summary;
use super::{
    Answered, Begins, Choice, Conversation, Gather, LoopGuard, Phase, Prompt, TITLE, Task, Title, Unsaved,
    allows, identity, is_stop, offers,
};
use crate::engine::event::{Ending, Event, is_failure};
use crate::policy::{PlannedBranch, PlannedEdit};
use roo_model::prompts;
use roo_model::providers::{AssistantBlock, Finish, Item, ToolResult};
use roo_protocol::event::{QuestionKind, ToolStatus};
use roo_protocol::ids::{ApprovalId, Digest, MessageId, TaskId};
use roo_protocol::message::Message;
use roo_protocol::rule::RuleSubject;
use roo_protocol::task::{PendingApproval, PendingQuestion, TaskState, Usage};
use roo_text::render::one_line;

impl Task {
    /// Folds one event.
    pub fn apply(&mut self, event: &Event, seq: u64, at: i64) {
        self.seq = seq;
        self.updated_at = at;
        match event {
            Event::Created { .. } => self.created_at = at,
            // The budget is the request's.
            Event::Shown { .. } | Event::EditApplied { .. } | Event::BudgetReset => {}
            Event::UserSaid { message, text, mentions, hooks } => {
                self.hear_user(message, text, *mentions, *hooks);
            }
            Event::PromptRefused { message_id, message, ends } => {
                self.drop_prompt(message_id);
                if *ends {
                    self.fail(message.text.clone());
                }
            }
            Event::Gathered { text, images, seen } => self.take_gathered(text, images, seen),
            Event::Corrected { text, mistake } => self.correct(text, *mistake),
            Event::ContextReduced { before } => self.conversation.reduce(*before),
            Event::IntentSelected { intent, .. } => self.intents.bound = Some(intent.clone()),
            Event::ModeSwitched { change, .. } => self.settings.change(change),
            Event::TurnStarted { request } => self.start_request(*request),
            Event::Spoke { message } => self.push_block(AssistantBlock::Text { text: message.text.clone() }),
            Event::Thought { message, opaque, origin } => {
                let (text, opaque, origin) = (message.text.clone(), opaque.clone(), origin.clone());
                self.push_block(AssistantBlock::Thinking { text, opaque, origin });
            }
            Event::Called { call, .. } => self.push_block(AssistantBlock::Call { call: call.clone() }),
            Event::TurnEnded { finish, total } => self.end_request(*finish, *total),
            Event::TurnFailed { total, .. } => {
                self.totals.usage = *total;
                if let Phase::Requesting { attempt, .. } = self.phase {
                    self.phase = Phase::RequestDue { attempt };
                }
            }
            Event::RetryScheduled { due, attempt, .. } => {
                self.phase = Phase::Backoff { attempt: *attempt, due: *due };
            }
            Event::RetryDue => {
                if let Phase::Backoff { attempt, .. } = self.phase {
                    self.phase = Phase::RequestDue { attempt };
                }
            }
            Event::HooksHeard { params, addition, goes_on, batch, .. } => {
                if *goes_on {
                    self.guard.count_continuation();
                }
                let changes = HookChanges { params: params.clone(), addition: addition.clone() };
                self.hear_hooks(changes, *batch);
            }
            Event::GateDecided { rule, .. } => {
                if let Some(call) = self.in_progress_mut() {
                    call.rule = Some(rule.clone());
                }
            }
            Event::ApprovalRequested { approval } => self.ask_approval(approval),
            Event::AnswerHeld { by, option_id, text, .. } => {
                let answer = HeldAnswer { by: by.clone(), option_id: option_id.clone(), text: text.clone() };
                if let Some(authorization) = self.authorization_mut() {
                    authorization.hold(answer);
                }
            }
            Event::ApprovalResolved { approval_id, by, option_id, text } => {
                self.resolve_approval(approval_id, by, option_id.as_deref(), text.as_ref());
            }
            Event::QuestionAsked { question, call_id } => self.ask(question, call_id.is_some()),
            Event::QuestionAnswered { question_id, by, text, images, mode } => {
                let answered = Answered { by: by.clone(), answer: text.clone() };
                self.answered.insert(question_id.to_string(), answered);
                self.take_answer(text.as_deref(), images, mode.as_deref());
            }
            Event::Delegated { child, plan, .. } => self.delegate(child, plan),
            Event::ToolStarted { write, .. } => self.start_tool(write.as_ref()),
            Event::ToolRestarted { .. } => {
                if let Some(call) = self.in_progress_mut() {
                    call.restart();
                }
            }
            Event::ToolFinished { result, seen, mistake, ends, saves, withheld, .. } => {
                if let Some(call) = self.current_call().map(identity) {
                    self.offers.command_ended(call, withheld.as_ref());
                }
                self.finish_call(result, seen, *mistake);
                self.note_saving(*saves, result);
                if ends.is_some() {
                    self.ending.clone_from(ends);
                }
            }
            Event::ChangesUnknown { fault } => self.unknown_changes.push(fault.clone()),
            Event::CommandBackgrounded { command } => self.commands.begin(command.clone()),
            Event::CommandEnded { command_id, text, .. } => self.commands.end(command_id, text),
            Event::TodoChanged { items } => self.todo.clone_from(items),
            Event::QueueChanged { items } => self.queue.clone_from(items),
            Event::Halted { reason } => self.fail(reason.clone()),
            Event::CancelRequested => {
                let reason = Some("cancelled by the user".to_owned());
                self.ending = Some(Ending { state: TaskState::Cancelled, result: None, reason });
            }
            Event::Interrupted => {
                self.interrupted = true;
                self.commands.interrupt();
            }
            Event::Resumed => self.go_on(),
            Event::Ended { state, result, reason, .. } => {
                self.end(Ending { state: *state, result: result.clone(), reason: reason.clone() });
            }
        }
    }

    fn hear_user(&mut self, message: &Message, text: &str, mentions: bool, hooks: bool) {
        if let Title::Unnamed { .. } = self.title {
            self.title = Title::Named(one_line(message.text.trim(), TITLE));
        }
        self.queue.retain(|item| item.id != message.id.as_str());
        // What a branch begins with is its parent's word.
        let is_brief = self.parent.is_some() && self.prompt.is_none();
        self.prompt = Some(message.id.clone());
        if hooks {
            if self.fresh {
                let again = self.totals.requests > 0;
                self.gather.begins = Some(if again { Begins::Again } else { Begins::Anew });
            }
            if !is_brief {
                let (id, text, item) =
                    (message.id.clone(), message.text.clone(), self.conversation.items().len());
                self.gather.prompts.push(Prompt { id, text, item });
            }
        }
        self.conversation.push(Item::User { text: text.to_owned(), images: message.images.clone() });
        if mentions {
            self.gather.messages.push(message.text.clone());
        }
        // What the user says may make a call right that was wrong or useless before.
        self.guard = LoopGuard::default();
    }

    /// Takes a message out of the conversation that no model has read.
    fn drop_prompt(&mut self, id: &MessageId) {
        let Some(index) = self.gather.prompts.iter().position(|prompt| prompt.id == *id) else { return };
        let Prompt { item, text, .. } = self.gather.prompts.remove(index);
        if let Some(mentions) = self.gather.messages.iter().position(|message| *message == text) {
            self.gather.messages.remove(mentions);
        }
        let Some(removed) = self.conversation.remove(item) else { return };
        // The first prompt names the request. The next one does that in its place.
        if let Item::User { text: whole, .. } = removed
            && let Some(rest) = whole.strip_prefix(&prompts::user_message(&text))
            && !rest.is_empty()
        {
            self.title = Title::Unnamed { rest: rest.to_owned() };
        }
        let behind = self.gather.prompts.iter_mut().filter(|prompt| prompt.item > item);
        behind.for_each(|prompt| prompt.item -= 1);
    }

    fn take_gathered(&mut self, text: &str, images: &[String], seen: &[(String, Option<Digest>)]) {
        if !text.is_empty() || !images.is_empty() {
            self.conversation.push(Item::User { text: text.to_owned(), images: images.to_vec() });
        }
        self.files.see(seen);
        self.gather = Gather::default();
    }

    fn correct(&mut self, text: &str, mistake: bool) {
        self.conversation.push_text(text);
        if mistake {
            self.guard.count_mistake();
        }
        self.phase = Phase::RequestDue { attempt: 1 };
    }

    fn start_request(&mut self, request: u32) {
        if let Some(text) = self.commands.take_ended() {
            self.conversation.push_text(text);
        }
        self.totals.requests = request;
        self.fresh = false;
        if let Phase::RequestDue { attempt } = self.phase {
            self.phase = Phase::Requesting { attempt, blocks: vec![] };
        }
    }

    fn push_block(&mut self, block: AssistantBlock) {
        if let Phase::Requesting { blocks, .. } = &mut self.phase {
            blocks.push(block);
        }
    }

    fn end_request(&mut self, finish: Finish, total: Usage) {
        self.totals.usage = total;
        let blocks = match &mut self.phase {
            Phase::Requesting { blocks, .. } => std::mem::take(blocks),
            _ => vec![],
        };
        let calls = blocks.iter().filter_map(|block| match block {
            AssistantBlock::Call { call } => Some(call.clone()),
            AssistantBlock::Text { .. } | AssistantBlock::Thinking { .. } => None,
        });
        self.phase = match ToolBatch::new(calls) {
            Some(batch) => Phase::Tools(Box::new(batch)),
            None => Phase::Unanswerable(finish),
        };
        self.conversation.push_answer(blocks);
    }

    fn hear_hooks(&mut self, changes: HookChanges, review: bool) {
        let Phase::Tools(batch) = &mut self.phase else { return };
        batch.hooks_review |= review;
        if let Some(call) = batch.current_mut() {
            call.hooks = changes;
        }
    }

    fn authorization_mut(&mut self) -> Option<&mut Authorization> {
        self.in_progress_mut()?.authorization_mut()
    }

    fn ask_approval(&mut self, request: &PendingApproval) {
        if let Some(authorization) = self.authorization_mut() {
            *authorization = Authorization::ask(request.clone());
        }
    }

    /// Ends the wait for the user's approval. One that is void leaves the call to the gate.
    fn resolve_approval(
        &mut self,
        id: &ApprovalId,
        by: &str,
        option_id: Option<&str>,
        feedback: Option<&String>,
    ) {
        let answered = Answered { by: by.to_owned(), answer: option_id.map(str::to_owned) };
        self.answered.insert(id.to_string(), answered);
        let Some(current) = self.in_progress_mut() else { return };
        let call = current.call.clone();
        let Some(authorization) = current.authorization_mut() else { return };
        let (Some(asked), Some(option)) = (authorization.take_asked(id), option_id) else { return };
        if allows(option) {
            let given = GivenApproval { id: id.clone(), by: by.to_owned(), digest: asked.request.digest };
            *authorization = Authorization::Gate(Approval::Given(given));
            self.guard.allow(&call);
            return;
        }
        let judges_again = |offer: &RuleSubject| {
            Choice::parse(option).is_some_and(|choice| offers::judges_again(offer, choice))
        };
        match asked.request.rule.filter(|rule| rule.is_offer() && judges_again(rule)) {
            Some(offer) => self.offers.decline(&offer),
            None => {
                *authorization = Authorization::Refused { feedback: feedback.cloned() };
                self.guard.refuse(&call);
            }
        }
    }

    fn ask(&mut self, question: &PendingQuestion, by_call: bool) {
        let question = question.clone();
        if !by_call {
            self.phase = Phase::Question(question);
        } else if let Some(call) = self.in_progress_mut() {
            call.stage = Stage::Question(question);
        }
    }

    fn take_answer(&mut self, text: Option<&str>, images: &[String], mode: Option<&str>) {
        match &mut self.phase {
            Phase::Question(question) => {
                let PendingQuestion { kind, text: asked, .. } = question.clone();
                self.phase = Phase::RequestDue { attempt: 1 };
                if kind == QuestionKind::ChangesUnknown {
                    self.unknown_changes.clear();
                }
                if text.is_some_and(is_stop) {
                    self.fail(asked);
                }
            }
            Phase::Tools(batch) => {
                if let Some(call) = batch.current_mut() {
                    call.answer(text, images, mode);
                }
            }
            _ => {}
        }
    }

    fn delegate(&mut self, child: &TaskId, plan: &Arc<PlannedBranch>) {
        self.guard.count_delegation();
        if let Phase::Tools(batch) = &mut self.phase {
            batch.delegate(child.clone(), Arc::clone(plan));
        }
    }

    fn start_tool(&mut self, write: Option<&PlannedEdit>) {
        if let Some(call) = self.in_progress_mut() {
            call.start(write.cloned());
        }
    }

    fn finish_call(&mut self, result: &ToolResult, seen: &[(String, Option<Digest>)], mistake: bool) {
        let Phase::Tools(batch) = &mut self.phase else { return };
        let Some(finished) = batch.finish(result) else { return };
        let results = batch.take_results().map(|results| (results, batch.hooks_review));
        self.count_result(&finished, result, mistake);
        self.files.see(seen);
        if let Some((results, hooks_review)) = results {
            self.gather.batch |= hooks_review;
            self.conversation.push(Item::Results { results });
            self.phase = Phase::RequestDue { attempt: 1 };
        }
    }

    fn count_result(&mut self, finished: &FinishedCall, result: &ToolResult, mistake: bool) {
        let (FinishedCall::Current(call) | FinishedCall::Delegated(call, _)) = finished;
        self.guard.count_result(call, result.status, mistake);
        if result.status != ToolStatus::Skipped {
            self.totals.count_tool(&result.name, is_failure(result.status));
        }
        // A subtask that was cancelled has not failed at its work.
        if let FinishedCall::Delegated(_, plan) = finished
            && result.status == ToolStatus::Failed
        {
            self.guard.count_failure(plan);
        }
    }

    fn note_saving(&mut self, saves: Option<bool>, result: &ToolResult) {
        match saves {
            None => {}
            Some(true) => self.unsaved = None,
            Some(false) => {
                let attempts = self.unsaved.as_ref().map_or(0, |unsaved| unsaved.attempts) + 1;
                self.unsaved = Some(Unsaved { attempts, reason: summary(&result.text) });
            }
        }
    }

    fn go_on(&mut self) {
        self.interrupted = false;
        match &mut self.phase {
            Phase::Ended(_) => {
                self.guard.reopen();
                self.unsaved = None;
                self.fresh = true;
                self.phase = Phase::RequestDue { attempt: 1 };
            }
            Phase::Tools(batch) => {
                if let Some(call) = batch.current_mut() {
                    call.resume();
                }
            }
            _ => {}
        }
    }

    /// Ends the task as failed, when its open calls have their results.
    fn fail(&mut self, reason: String) {
        self.ending = Some(Ending { state: TaskState::Failed, result: None, reason: Some(reason) });
    }

    fn end(&mut self, ending: Ending) {
        self.ending = None;
        self.interrupted = false;
        self.phase = Phase::Ended(ending);
        if self.parent.is_some() {
            // A subtask never goes on, so nobody needs its conversation but in the log.
            self.conversation = Conversation::default();
            self.files.seen.clear();
        }
    }
}
