//! Effect of each event on the state of a task.

use std::collections::HashMap;
use std::slice;
use std::sync::Arc;

use super::batch::{
    Approval, Authorization, CurrentCall, FinishedCall, GivenApproval, HeldAnswer, HookChanges, ToolBatch,
};
use super::compaction;
use super::conversation::FilePart;
use super::guard::{SAME_LOOKS, VAIN_ANSWERS};
use super::results::summary;
use super::shortening::within;
use super::{
    AgentSettings, Answered, Begins, Choice, Compaction, Conversation, Decider, Gather, Import, LeftOut,
    Lifecycle, LoopGuard, MeasuredRequest, OpenTask, Phase, Prompt, PromptPlace, SamplingTally, TITLE, Task,
    Title, Unsaved, Worktree, is_stop,
};
use crate::engine::event::{AnswerWords, Circle, ConversationCut, EndState, Ending, Event, is_failure};
use crate::policy::{PlannedBranch, Review};
use roo_catalog::{Effect as ToolEffect, ToolId, ToolName};
use roo_model::prompts::{self, replies};
use roo_model::providers::{AssistantBlock, Finish, Item, ToolResult};
use roo_protocol::checkpoint::RestoreWhat;
use roo_protocol::context::{Shortening, ShorteningMethod};
use roo_protocol::event::{QuestionKind, ToolStatus};
use roo_protocol::ids::{ApprovalId, Digest, MessageId, TaskId, ToolCallId, Urid};
use roo_protocol::message::Message;
use roo_protocol::rule::SandboxAccess;
use roo_protocol::task::{ForkOrigin, PendingQuestion, ToolUsage, Usage};
use roo_text::render::one_line;

impl Task {
    /// Folds one event.
    pub fn apply(&mut self, event: &Event, seq: u64, at: i64) {
        self.seq = seq;
        self.updated_at = at;
        match event {
            Event::Created { .. } => self.created_at = at,
            Event::Forked { title, from, directory, .. } => {
                self.created_at = at;
                self.title = Title::Named(title.clone());
                self.forked_from = Some(from.clone());
                self.notices.push(replies::forked(&from.urid, &self.urid, directory.as_deref()));
            }
            Event::Imported { origin, events } => {
                self.imported = Some(Import { origin: origin.clone(), until: seq.saturating_add(*events) });
            }
            // The budget is the request's.
            Event::Shown { .. }
            | Event::EditApplied { .. }
            | Event::CheckpointSaved { .. }
            | Event::BudgetReset => {}
            Event::RestoreStarted { restore } => self.restore = Some((seq, Arc::clone(restore))),
            Event::RestoreFinished { started, done, unchanged, .. } => {
                self.finish_restore(*started, *done, unchanged);
            }
            Event::UserSaid { message, text, mentions, hooks } => {
                self.add_user_message(message, text, *mentions, *hooks);
            }
            Event::PromptRefused { message_id, message, ends } => {
                self.refuse_prompt(message_id, message, *ends);
            }
            Event::Gathered { commands, text, images, seen } => {
                // A mode that comes with what is looked up belongs to the message.
                self.mode_chosen_at = self.mode_chosen_at.filter(|at| at.saturating_add(1) != seq);
                self.add_gathered(commands, text, images, seen);
            }
            Event::Corrected { text, mistake } => self.correct(text, *mistake),
            Event::ContextReduced { before } => {
                self.guard.forget_looks();
                self.files.leave_out(&self.conversation.calls_before(*before), false);
                self.conversation.reduce(*before);
            }
            Event::ContextLimited { tokens } => self.context.limit_to(*tokens),
            Event::ImagesRefused => self.context.refuse_images(),
            Event::NewestImagesRefused => {
                self.context.leave_out_newest_images();
                self.conversation.leave_out_newest_images(replies::image_refused());
            }
            Event::SummaryRequested { .. } => self.context.request_summary(),
            Event::ShorteningStarted { method, manual } => {
                if *method == ShorteningMethod::Summary {
                    self.context.try_summary(self.conversation.size());
                }
                let cut = compaction::cut(&self.conversation, &self.context);
                self.enter(Phase::Compacting(Compaction { method: *method, is_manual: *manual, cut }));
            }
            Event::ContextShortened { left_out, tokens_before, tokens_after } => {
                self.guard.forget_looks();
                self.files.leave_out(&left_out.calls(), !left_out.texts.is_empty());
                self.conversation.put_placeholders(left_out);
                self.end_shortening(ShorteningMethod::Placeholders, (*tokens_before, *tokens_after));
            }
            Event::ContextCondensed {
                cut, message, by_model, tokens_before, tokens_after, total, ..
            } => {
                self.totals.usage = *total;
                self.guard.forget_looks();
                self.files.leave_out(&self.conversation.calls_before(*cut), true);
                self.conversation.condense(*cut, message.clone());
                let method = if *by_model { ShorteningMethod::Summary } else { ShorteningMethod::Outline };
                self.end_shortening(method, (*tokens_before, *tokens_after));
            }
            Event::ContextKept { total, .. } => self.keep_conversation(*total),
            Event::ContextRestored { seq, left_out, .. } => self.restore_conversation(*seq, left_out),
            Event::WorktreeMade { worktree } => {
                self.notices.push(replies::in_worktree(&worktree.folder, &worktree.left_out));
                self.worktree = Some(Worktree::open(worktree));
            }
            Event::WorktreeUnavailable { reason } => {
                self.worktree = Some(Worktree::Unavailable(reason.clone()));
            }
            Event::MergeConflicted { files } => self.add_conflicts(files),
            Event::WorktreeClosed { kept } => self.close_worktree(kept.as_ref()),
            Event::WorktreeUnused => self.leave_worktree(),
            Event::IntentSelected { intent, .. } => self.intents.bound = Some(intent.clone()),
            Event::ModeSwitched { change, call_id } => {
                if change.mode.as_ref().is_some_and(|(slug, _)| *slug != self.settings.mode) {
                    self.mode_chosen_at = call_id.is_none().then_some(seq);
                }
                let is_other_model = self.settings.changes_model(change);
                self.settings.change(change);
                if change.mode.is_some() || is_other_model {
                    self.context.change_frame(is_other_model);
                }
                if is_other_model {
                    self.change_phase(Phase::change_model);
                }
            }
            Event::TurnStarted { request } => self.start_request(*request),
            Event::Spoke { message } => self.push_block(AssistantBlock::Text { text: message.text.clone() }),
            Event::Thought { message, opaque, origin } => {
                let (text, opaque, origin) = (message.text.clone(), opaque.clone(), origin.clone());
                self.push_block(AssistantBlock::Thinking { text, opaque, origin });
            }
            Event::Called { call, .. } => self.push_block(AssistantBlock::Call { call: call.clone() }),
            Event::TurnEnded { finish, total, context, tail, beginning } => {
                self.measure(context.as_deref());
                self.context.answered();
                self.end_request(*finish, *total, (tail.clone(), beginning.as_deref()));
            }
            Event::TurnFailed { total, context, .. } => {
                self.totals.usage = *total;
                self.measure(context.as_deref());
                self.change_phase(Phase::fail_request);
            }
            Event::RetryScheduled { due, attempt, .. } => {
                self.enter(Phase::Backoff { attempt: *attempt, due: *due });
            }
            Event::RetryDue => self.change_phase(Phase::retry),
            // The request is the same one.
            Event::RequestDelayed { .. } => self.change_phase(|phase| phase.set_delayed(true)),
            Event::DelayEnded { .. } => self.change_phase(|phase| phase.set_delayed(false)),
            Event::HookMessagesReceived { params, addition, goes_on, batch, .. } => {
                let changes = HookChanges { params: params.clone(), addition: addition.clone() };
                self.apply_hook_changes(changes, *goes_on, *batch);
            }
            Event::GateDecided { verdict, .. } => {
                self.change_call(|call| call.verdict = Some(verdict.clone()));
            }
            Event::ApprovalRequested { approval } => self.change_call(|call| call.ask(approval.clone())),
            Event::ApprovalReconsidered { .. } => self.change_call(CurrentCall::judge_again),
            Event::AnswerHeld { by, option_id, text, review, .. } => {
                let (by, option_id) = (by.clone(), *option_id);
                let answer = HeldAnswer { by, option_id, text: text.clone(), review: review.clone() };
                self.change_call(|call| call.hold(answer));
            }
            Event::ApprovalResolved { approval_id, by, option_id, text, review } => {
                let told = (text.as_ref(), review.as_ref());
                self.resolve_approval(approval_id, by, *option_id, told);
            }
            Event::QuestionAsked { question, call_id } => self.ask(question, call_id.is_some()),
            Event::QuestionAnswered { question_id, by, text, images, mode, words } => {
                let answered = Answered { by: by.clone(), answer: text.clone() };
                self.answered.insert(question_id.to_string(), answered);
                if let (Some(words), Some(text)) = (words, text) {
                    self.gather_for_answer(words, text);
                }
                self.take_answer(text.as_deref(), images, mode.as_deref());
            }
            Event::Delegated { child, plan, .. } => self.delegate(child, plan),
            Event::ToolStarted { write, .. } => self.change_call(|call| call.start(write.clone())),
            Event::ToolRestarted { .. } => self.change_call(CurrentCall::restart),
            Event::ToolFinished { result, seen, mistake, ends, saves, withheld, circle, .. } => {
                self.end_merge(result);
                self.finish_call(result, seen, *mistake, withheld.as_ref(), circle.unwrap_or_default());
                self.note_saving(*saves, result);
                ends.iter().for_each(|ending| self.begin_ending(ending.clone()));
            }
            Event::SamplingStarted { server, tokens, allow_all, .. } => {
                self.sampling.begin(server, *tokens, *allow_all);
            }
            Event::SamplingEnded { taken, total, .. } => {
                self.totals.usage = *total;
                self.sampling.end(*taken);
            }
            Event::ChangesUnknown { fault } => self.unknown_changes.push(fault.clone()),
            Event::CommandBackgrounded { command } => self.commands.begin(command.clone()),
            Event::CommandEnded { command_id, text, .. } => self.commands.end(command_id, text),
            Event::TodoChanged { items } => self.todo.clone_from(items),
            Event::QueueChanged { items } => self.queue.clone_from(items),
            Event::Halted { reason } => self.fail(reason.clone()),
            Event::CancelRequested => self.cancel(),
            Event::StopRequested { reason } => self.stop(reason.clone()),
            Event::Stopped { state, reason, .. } => {
                let ending = Ending { state: *state, result: None, reason: reason.clone() };
                self.lifecycle.stop(ending);
            }
            Event::Interrupted => {
                self.set_interrupted();
                self.commands.interrupt();
            }
            Event::Resumed => self.resume(),
            Event::Ended { state, result, reason, .. } => {
                self.end(Ending { state: *state, result: result.clone(), reason: reason.clone() });
                if let Some(import) = self.imported.as_ref().filter(|import| import.until == seq) {
                    self.notices.push(replies::imported(&import.origin.program));
                }
            }
        }
    }

    fn add_user_message(&mut self, message: &Message, text: &str, mentions: bool, hooks: bool) {
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
                let place = PromptPlace::Item(self.conversation.items().len());
                let (id, text) = (message.id.clone(), message.text.clone());
                self.gather.prompts.push(Prompt { id, text, place });
            }
        }
        self.conversation.push_pinned(Item::User { text: text.to_owned(), images: message.images.clone() });
        if mentions {
            self.gather.messages.push(message.text.clone());
        }
        // What the user says may make a call right that was wrong or useless before.
        self.guard = LoopGuard::default();
        self.forget_conflicts();
    }

    /// Has everything looked up for the user's answer to the question of the current call that is looked up for a message.
    fn gather_for_answer(&mut self, words: &AnswerWords, text: &str) {
        let Some(call) = self.current_call().map(|call| call.id.clone()) else { return };
        if words.hooks {
            let (id, text, place) = (words.message_id.clone(), text.to_owned(), PromptPlace::Result(call));
            self.gather.prompts.push(Prompt { id, text, place });
        }
        if words.mentions {
            self.gather.messages.push(text.to_owned());
        }
    }

    /// Drops a message that a hook refused, and ends a task that has nothing else to do.
    fn refuse_prompt(&mut self, id: &MessageId, message: &Message, ends: bool) {
        self.drop_prompt(id);
        if ends {
            self.fail(message.text.clone());
        }
    }

    /// Takes a message or an answer out of the conversation that no model has read.
    fn drop_prompt(&mut self, id: &MessageId) {
        let Some(index) = self.gather.prompts.iter().position(|prompt| prompt.id == *id) else { return };
        let Prompt { place, text, .. } = self.gather.prompts.remove(index);
        if let Some(mentions) = self.gather.messages.iter().position(|message| *message == text) {
            self.gather.messages.remove(mentions);
        }
        let item = match place {
            PromptPlace::Item(item) => item,
            PromptPlace::Result(call) => {
                self.conversation.replace_result(&call, &replies::answer_blocked());
                return;
            }
        };
        let Some(removed) = self.conversation.remove(item) else { return };
        // The first prompt names the request. The next one does that in its place.
        if let Item::User { text: whole, .. } = &*removed
            && let Some(rest) = whole.strip_prefix(&prompts::user_message(&text))
            && !rest.is_empty()
        {
            self.title = Title::Unnamed { rest: rest.to_owned() };
        }
        for prompt in &mut self.gather.prompts {
            prompt.place.shift(|behind| if behind > item { behind - 1 } else { behind });
        }
    }

    fn add_gathered(
        &mut self,
        commands: &str,
        text: &str,
        images: &[String],
        seen: &[(String, Option<Digest>)],
    ) {
        if !commands.is_empty() {
            self.conversation.push_pinned(Item::User { text: commands.to_owned(), images: vec![] });
        }
        if !text.is_empty() || !images.is_empty() {
            self.conversation.push(Item::User { text: text.to_owned(), images: images.to_vec() });
        }
        self.files.see(seen);
        self.gather = Gather::default();
    }

    fn correct(&mut self, text: &str, mistake: bool) {
        if !text.is_empty() {
            self.conversation.push_text(text);
        }
        if mistake {
            self.guard.count_mistake();
        }
        self.enter(Phase::FIRST_ATTEMPT);
    }

    fn start_request(&mut self, request: u32) {
        if let Some(text) = self.commands.take_ended() {
            self.conversation.push_text(text);
        }
        for notice in std::mem::take(&mut self.notices) {
            self.conversation.push_text(notice);
        }
        self.totals.requests = request;
        self.fresh = false;
        self.context.begin_request(*self.conversation.size());
        self.change_phase(Phase::start_request);
    }

    fn measure(&mut self, request: Option<&MeasuredRequest>) {
        if let Some(request) = request {
            self.context.measure(*request);
        }
    }

    fn end_shortening(&mut self, method: ShorteningMethod, (tokens_before, tokens_after): (u64, u64)) {
        let (seq, at) = (self.seq, self.updated_at);
        let done = Shortening { seq, at, method, tokens_before, tokens_after, restored: false };
        self.context.add(done, self.conversation.size());
        self.enter(Phase::FIRST_ATTEMPT);
    }

    fn keep_conversation(&mut self, total: Usage) {
        self.totals.usage = total;
        let method = match self.phase() {
            Some(Phase::Compacting(Compaction { method, .. })) => Some(*method),
            // Nothing was tried, as nothing could be shortened.
            _ => None,
        };
        self.context.keep(method, self.conversation.size());
        self.enter(Phase::FIRST_ATTEMPT);
    }

    fn restore_conversation(&mut self, seq: u64, left_out: &LeftOut) {
        let before = self.conversation.items().len();
        self.conversation.restore(left_out);
        // What comes back stands before all that is still looked up.
        let added = self.conversation.items().len().saturating_sub(before);
        self.gather.prompts.iter_mut().for_each(|prompt| prompt.place.shift(|item| item + added));
        self.context.restore(seq, self.conversation.size());
    }

    fn push_block(&mut self, block: AssistantBlock) {
        self.change_phase(|phase| phase.push_block(block));
    }

    fn end_request(
        &mut self,
        finish: Finish,
        total: Usage,
        (tail, beginning): (Option<Box<str>>, Option<&str>),
    ) {
        self.totals.usage = total;
        if let Lifecycle::Open(OpenTask { phase, .. }) = &mut self.lifecycle {
            let blocks = phase.end_request(finish);
            self.conversation.push_answer(blocks, tail, beginning);
        }
    }

    fn apply_hook_changes(&mut self, changes: HookChanges, goes_on: bool, review: bool) {
        if goes_on {
            self.guard.count_continuation();
        }
        self.change_batch(|batch| batch.hooks_review |= review);
        self.change_call(|call| call.hooks = changes);
    }

    /// Ends the wait for the user's approval. One that is void leaves the call to the gate.
    fn resolve_approval(
        &mut self,
        id: &ApprovalId,
        by: &Decider,
        option_id: Option<Choice>,
        (feedback, review): (Option<&String>, Option<&Arc<Review>>),
    ) {
        let answered = Answered { by: by.clone(), answer: option_id.map(|choice| choice.id().to_owned()) };
        self.answered.insert(id.to_string(), answered);
        let Lifecycle::Open(OpenTask { phase, .. }) = &mut self.lifecycle else { return };
        let Some(current) = phase.batch_mut().and_then(ToolBatch::current_mut) else { return };
        let Some(authorization) = current.authorization_mut() else { return };
        let (Some(asked), Some(choice)) = (authorization.take_asked(id), option_id) else { return };
        if choice.allows() {
            let given = GivenApproval {
                id: id.clone(),
                by: by.clone(),
                digest: asked.request.digest,
                review: review.cloned(),
            };
            *authorization = Authorization::Gate(Approval::Given(given));
            self.guard.allow(&current.call);
            return;
        }
        match asked.request.rule.filter(|rule| rule.is_declined_by(choice.kind())) {
            Some(offer) => self.offers.decline(&offer),
            None => {
                let (feedback, review) = (feedback.cloned(), review.cloned());
                let is_unattended = *by == Decider::Unattended;
                *authorization = Authorization::Refused { feedback, review, is_unattended };
                self.guard.refuse(&current.call);
            }
        }
    }

    fn ask(&mut self, question: &PendingQuestion, by_call: bool) {
        let question = question.clone();
        if by_call {
            self.change_call(|call| call.question(question));
        } else {
            self.enter(Phase::Question(question));
        }
    }

    fn take_answer(&mut self, text: Option<&str>, images: &[String], mode: Option<&str>) {
        let Lifecycle::Open(OpenTask { phase, .. }) = &mut self.lifecycle else { return };
        let Some(question) = phase.answer(text, images, mode) else { return };
        match question.kind {
            QuestionKind::ChangesUnknown => self.unknown_changes.clear(),
            QuestionKind::ApiReqFailed => self.context.try_again(),
            _ => {}
        }
        if text.is_some_and(is_stop) && !self.is_stopping() {
            self.fail(question.text);
        }
    }

    fn delegate(&mut self, child: &TaskId, plan: &Arc<PlannedBranch>) {
        self.guard.count_delegation();
        self.change_batch(|batch| batch.delegate(child.clone(), Arc::clone(plan)));
    }

    fn finish_call(
        &mut self,
        result: &ToolResult,
        seen: &[(String, Option<Digest>)],
        mistake: bool,
        withheld: Option<&SandboxAccess>,
        circle: Circle,
    ) {
        let Some(batch) = self.lifecycle.batch_mut() else { return };
        let created = batch.created_files(&result.call_id);
        let Some(finished) = batch.finish(result) else { return };
        let effect = ToolId::of_call(&result.name).map(|tool| tool.effect());
        let part = match (ToolName::parse(&result.name), effect) {
            (Some(ToolName::WriteToFile), _) => FilePart::Written,
            (Some(ToolName::GenerateImage), _) => FilePart::Read,
            (_, Some(ToolEffect::Write)) => FilePart::Changed,
            _ => FilePart::Read,
        };
        for file in seen {
            let part = if created.contains(&file.0) { FilePart::Written } else { part };
            self.files.see_with_next_request(&result.call_id, slice::from_ref(file), part);
        }
        if let Some(results) = batch.take_results() {
            self.guard.count_answer(&results, circle);
            self.files.begin_request();
            self.gather.batch |= batch.hooks_review;
            let newest = self.conversation.newest_answer();
            let room = self.context.result_room(self.conversation.size(), newest);
            let lengths: HashMap<ToolCallId, usize> =
                results.iter().map(|result| (result.call_id.clone(), result.text.len())).collect();
            let results = within(results, room);
            let is_cut = |result: &&ToolResult| lengths.get(&result.call_id) != Some(&result.text.len());
            let cut = results.iter().filter(is_cut).map(|result| result.call_id.clone()).collect();
            self.files.leave_out(&cut, false);
            self.conversation.push(Item::Results { results });
            self.lifecycle.close_batch();
        }
        let (FinishedCall::Current(call) | FinishedCall::Delegated(call, _)) = &finished;
        self.guard.count_result(call, result, mistake, circle);
        if circle.same_looks == SAME_LOOKS {
            self.notices.push(replies::same_look(&call.name, &call.subject(), SAME_LOOKS));
        }
        if circle.vain_answers == VAIN_ANSWERS {
            self.notices.push(replies::looks_in_vain(VAIN_ANSWERS));
        }
        if result.status != ToolStatus::Skipped {
            self.totals.count_tool(&result.name, is_failure(result.status));
        }
        match &finished {
            FinishedCall::Current(call) => self.offers.call_ended(call, withheld),
            // A subtask that was cancelled has not failed at its work.
            FinishedCall::Delegated(_, plan) if result.status == ToolStatus::Failed => {
                self.guard.count_failure(plan);
            }
            FinishedCall::Delegated(..) => {}
        }
    }

    /// Takes note of whether a call saved what others need.
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

    /// Makes this the task of a fork. What is open ends, as nothing runs, waits or is asked there, and what was used is the
    /// other request's.
    pub(in crate::engine) fn begin_fork(&mut self, urid: &Urid, from: &ForkOrigin) {
        self.urid = urid.clone();
        self.totals.usage = Usage::default();
        self.totals.tools = ToolUsage::default();
        // What the user allowed, they allowed the other request.
        self.sampling = SamplingTally::default();
        self.queue.clear();
        self.commands.interrupt();
        self.restore = None;
        self.imported = None;
        // It is the other request's.
        self.worktree = None;
        self.lifecycle.open_again();
        self.set_interrupted();
        let reason = format!("forked from {} at event {}", from.urid, from.seq);
        self.begin_ending(Ending { state: EndState::Cancelled, result: None, reason: Some(reason) });
    }

    /// Ends a restore, and tells the model of what it can't know.
    fn finish_restore(&mut self, started: u64, done: bool, unchanged: &[String]) {
        let Some((_, restore)) = self.restore.take_if(|(seq, _)| *seq == started) else { return };
        if !done {
            return;
        }
        let paths = restore.digests.iter().map(|file| file.path.clone());
        let paths: Vec<String> = paths.filter(|path| !unchanged.contains(path)).collect();
        self.files.see(&paths.iter().map(|path| (path.clone(), None)).collect::<Vec<_>>());
        match restore.what {
            RestoreWhat::Files => self.notices.push(replies::files_restored(&paths)),
            RestoreWhat::Conversation => self.notices.push(replies::conversation_restored()),
            RestoreWhat::Both if unchanged.is_empty() => {}
            RestoreWhat::Both => self.notices.push(replies::files_not_restored(unchanged)),
        }
    }

    /// Makes the conversation, and what belongs to it, what they were in an earlier state of this task. What the task
    /// used, was answered and has waiting stays, and so does the model that the user has chosen. Where the user edits a message,
    /// so does a mode that they have chosen since.
    pub(in crate::engine) fn go_back(&mut self, then: Self, cut: &ConversationCut, is_edit: bool) {
        let title = match &cut.opening {
            Some(rest) => Title::Unnamed { rest: rest.clone() },
            None => self.title.clone(),
        };
        let now = std::mem::replace(self, then);
        self.title = title;
        self.urid = now.urid;
        self.forked_from = now.forked_from;
        self.imported = now.imported;
        self.created_at = now.created_at;
        self.limits = now.limits;
        self.updated_at = now.updated_at;
        self.seq = now.seq;
        self.lifecycle = now.lifecycle;
        self.queue = now.queue;
        self.answered = now.answered;
        self.totals = now.totals;
        self.offers = now.offers;
        self.commands = now.commands;
        self.unknown_changes = now.unknown_changes;
        self.notices = now.notices;
        self.restore = now.restore;
        self.worktree = now.worktree;
        let chosen_at = now.mode_chosen_at.filter(|at| is_edit && *at >= cut.before);
        let mut settings = AgentSettings {
            profile: now.settings.profile,
            protocol: now.settings.protocol,
            pinned: now.settings.pinned,
            ..self.settings.clone()
        };
        if chosen_at.is_some() {
            self.mode_chosen_at = chosen_at;
            settings.mode = now.settings.mode;
            settings.emoji = now.settings.emoji;
        }
        let before = std::mem::replace(&mut self.settings, settings);
        let model = |settings: &AgentSettings| (settings.profile.clone(), settings.protocol);
        if before != self.settings {
            self.context.change_frame(model(&before) != model(&self.settings));
        }
    }

    fn resume(&mut self) {
        match &mut self.lifecycle {
            Lifecycle::Stopped(_) => {
                self.guard.reopen();
                self.context.try_again();
                self.unsaved = None;
                self.lifecycle.open_again();
                self.take_worktree_up();
            }
            Lifecycle::Ended(_) => {
                self.guard.reopen();
                self.context.try_again();
                self.unsaved = None;
                self.fresh = true;
                self.lifecycle = Lifecycle::open();
            }
            Lifecycle::Open(open) => {
                open.interrupted = false;
                self.change_call(CurrentCall::resume);
            }
        }
    }

    fn enter(&mut self, next: Phase) {
        self.change_phase(|phase| *phase = next);
    }

    fn change_phase(&mut self, change: impl FnOnce(&mut Phase)) {
        if let Lifecycle::Open(open) = &mut self.lifecycle {
            change(&mut open.phase);
        }
    }

    fn change_batch(&mut self, change: impl FnOnce(&mut ToolBatch)) {
        self.change_phase(|phase| {
            if let Some(batch) = phase.batch_mut() {
                change(batch);
            }
        });
    }

    fn change_call(&mut self, change: impl FnOnce(&mut CurrentCall)) {
        self.change_batch(|batch| {
            if let Some(call) = batch.current_mut() {
                change(call);
            }
        });
    }

    /// Ends the task when its open calls have their results.
    fn begin_ending(&mut self, ending: Ending) {
        if let Lifecycle::Open(open) = &mut self.lifecycle {
            if open.ending.is_none() {
                open.waited_before_end = self.queue.iter().map(|item| item.id.clone()).collect();
            }
            open.ending = Some(ending);
            open.stops = false;
        }
    }

    fn cancel(&mut self) {
        // One that has stopped ends for good.
        self.lifecycle.open_again();
        self.begin_ending(cancellation());
    }

    /// Stops the task with its request, when its open calls have their results.
    fn stop(&mut self, reason: Option<String>) {
        self.begin_ending(match reason {
            Some(_) => Ending { state: EndState::Failed, result: None, reason },
            None => cancellation(),
        });
        if let Lifecycle::Open(open) = &mut self.lifecycle {
            open.stops = true;
        }
    }

    /// Ends the task as failed, when its open calls have their results.
    fn fail(&mut self, reason: String) {
        self.begin_ending(Ending { state: EndState::Failed, result: None, reason: Some(reason) });
    }

    fn end(&mut self, ending: Ending) {
        if self.is_stopping() && self.has_open_branches() {
            self.lifecycle.stop(ending);
            return;
        }
        self.lifecycle = Lifecycle::Ended(ending);
        if self.parent.is_some() {
            // A subtask never goes on, so nobody needs its conversation but in the log.
            self.conversation = Conversation::default();
            self.files.forget();
        }
    }
}

/// The end of a task that its user doesn't want any more.
fn cancellation() -> Ending {
    let reason = Some("cancelled by the user".to_owned());
    Ending { state: EndState::Cancelled, result: None, reason }
}
