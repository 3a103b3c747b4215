//! One session: a request of the engine as a client of the protocol sees and steers it. A session has an actor, so that what a
//! client says counts in its order; the engine never waits for it, and it never waits for its user.
//!
//! The request begins with the first prompt, under the session's id. A turn is over when nothing in the request goes on by
//! itself: it has ended, or it waits for what its user says next.

mod commands;
mod conversation;
mod options;
mod prompt;
mod questions;
mod tool_calls;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use agent_client_protocol::Error;
use agent_client_protocol::v1::Responder;
use agent_client_protocol::v1::schema::{
    ConfigOptionUpdate, ContentBlock, CurrentModeUpdate, NoticeSeverity, PromptResponse, SessionConfigOption,
    SessionConfigOptionValue, SessionId, SessionModeId, SessionModeState, SessionUpdate,
    SetSessionConfigOptionRequest, SetSessionConfigOptionResponse, SetSessionModeResponse, StopReason,
    ToolCall, ToolCallId, ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields, ToolKind,
};
use roo_durable::StoreError;
use roo_engine::customization::Grant;
use roo_engine::engine::{Decider, EngineError, Follower, Resumable};
use roo_engine::server_tools::DECLINE;
use roo_protocol::customization::TrustReport;
use roo_protocol::event::{Event, EventParams, OptionKind, QuestionKind};
use roo_protocol::ids::TaskId;
use roo_protocol::task::{
    PendingApproval, PendingQuestion, QuestionAnswerParams, SendWhen, TaskSendParams, TaskStartParams,
    TaskState, ToolStatus,
};
use roo_text::render::one_line;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::{CancellationToken, DropGuard};

use self::conversation::{ClientUpdate, Conversation, Edit};
use self::options::{Chosen, INTENT, MODE, Options, PROFILE};
use self::prompt::UserMessage;
use self::questions::{Asker, Reply, TRUST, TRUST_CALL, TRUST_TITLE};
use super::client::Client;
use super::error;
use super::workspace::Workspace;
use crate::masking::Mask;
use crate::view::{Prompt, newest_tree, waits_for_user};

/// The longest question in a form or a choice, in characters.
const QUESTION: usize = 4000;
/// The most edits whose diffs are shown of a session that is loaded: the newest ones.
const EDITS: usize = 50;

/// What has happened in a request, all at once.
type Batch = Result<Vec<Arc<EventParams>>, StoreError>;

/// What a session is told.
enum Command {
    Open(Open, oneshot::Sender<Result<Choices, Error>>),
    Introduce(Vec<String>),
    Prompt(Vec<ContentBlock>, Responder<PromptResponse>),
    Cancel,
    SetMode(SessionModeId, Responder<SetSessionModeResponse>),
    SetOption(SetSessionConfigOptionRequest, Responder<SetSessionConfigOptionResponse>),
    Close(oneshot::Sender<()>),
    TrustAnswered(Reply),
    ApprovalAnswered(Box<PendingApproval>, Reply),
    QuestionAnswered(PendingQuestion, Reply),
}

/// How a session is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Open {
    /// Nothing was said in it.
    New,
    /// What was said is told.
    Load,
    /// What was said is known to the client.
    Resume,
}

/// What a session's user chooses from.
pub(super) struct Choices {
    pub(super) modes: SessionModeState,
    pub(super) config: Vec<SessionConfigOption>,
}

/// The way to a session.
#[derive(Clone)]
pub(super) struct SessionHandle {
    commands: mpsc::UnboundedSender<Command>,
    pub(super) workspace: Arc<Workspace>,
}

impl SessionHandle {
    /// Begins a session of this id.
    pub(super) fn begin(
        client: Client,
        workspace: Arc<Workspace>,
        task: TaskId,
        ended: CancellationToken,
    ) -> Self {
        let (commands, mut received) = mpsc::unbounded_channel();
        let session = Session::new(client, Arc::clone(&workspace), task, commands.clone());
        tokio::spawn(async move {
            ended.run_until_cancelled(session.run(&mut received)).await;
            // Whoever was sending at the end has its command in here all the same, and would wait for the answer.
            received.close();
            while received.recv().await.is_some() {}
        });
        Self { commands, workspace }
    }

    /// Opens it, and returns what its user chooses from.
    ///
    /// # Errors
    /// A request that isn't there or can't be read.
    pub(super) async fn open(&self, how: Open) -> Result<Choices, Error> {
        let (sender, opened) = oneshot::channel();
        self.send(Command::Open(how, sender));
        opened.await.unwrap_or_else(|_| Err(error::internal("the session is closed")))
    }

    /// Tells what the client wants to know of a session that it knows now, and these notices.
    pub(super) fn introduce(&self, notices: Vec<String>) {
        self.send(Command::Introduce(notices));
    }

    pub(super) fn prompt(&self, prompt: Vec<ContentBlock>, responder: Responder<PromptResponse>) {
        self.send(Command::Prompt(prompt, responder));
    }

    pub(super) fn cancel(&self) {
        self.send(Command::Cancel);
    }

    pub(super) fn set_mode(&self, mode: SessionModeId, responder: Responder<SetSessionModeResponse>) {
        self.send(Command::SetMode(mode, responder));
    }

    pub(super) fn set_option(
        &self,
        request: SetSessionConfigOptionRequest,
        responder: Responder<SetSessionConfigOptionResponse>,
    ) {
        self.send(Command::SetOption(request, responder));
    }

    /// Ends it: what runs is stopped, to be resumed later.
    pub(super) async fn close(&self) {
        let (sender, closed) = oneshot::channel();
        self.send(Command::Close(sender));
        // It may have ended.
        let _ = closed.await;
    }

    /// Returns whether both lead to one session.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.commands.same_channel(&other.commands)
    }

    fn send(&self, command: Command) {
        if self.commands.send(command).is_err() {
            tracing::debug!("a session that is closed was told something");
        }
    }
}

/// A prompt whose client waits for the answer.
struct OpenPrompt {
    responder: Responder<PromptResponse>,
    /// Ends the wait for it to be withdrawn.
    _answered: DropGuard,
}

/// Something that the client's user is being asked.
struct OpenQuestion {
    /// Its answer has come, from whomever.
    over: CancellationToken,
    /// The call by which it is shown, where that has no other end than the answer.
    call: Option<ToolCallId>,
}

/// What the user has said, in one prompt or more.
struct NextTurn {
    message: UserMessage,
    prompts: Vec<OpenPrompt>,
}

/// Prompts that are answered when the request rests.
#[derive(Default)]
struct Turn {
    prompts: Vec<OpenPrompt>,
    is_cancelled: bool,
}

struct Session {
    client: Client,
    workspace: Arc<Workspace>,
    id: SessionId,
    task: TaskId,
    commands: mpsc::UnboundedSender<Command>,
    conversation: Conversation,
    mask: Mask,
    chosen: Chosen,
    /// False before it is opened, and where that failed.
    is_open: bool,
    /// True if there is a request.
    is_begun: bool,
    /// The number of the newest event that was told.
    seq: u64,
    batches: Option<mpsc::Receiver<Batch>>,
    turn: Option<Turn>,
    /// Waits until the user has said whether the workspace is trusted, and until a turn that was cancelled is over.
    next: Option<NextTurn>,
    /// By ids of approvals and questions.
    asked: HashMap<String, OpenQuestion>,
    /// Ids of the questions that wait for what the user says next, in the order in which they were left.
    left: Vec<String>,
    /// The question whether the workspace is trusted.
    trust_question: Option<CancellationToken>,
    has_asked_for_trust: bool,
    /// The slash commands that were told last.
    commands_told: Option<SessionUpdate>,
}

impl Session {
    fn new(
        client: Client,
        workspace: Arc<Workspace>,
        task: TaskId,
        commands: mpsc::UnboundedSender<Command>,
    ) -> Self {
        let conversation = Conversation::new(workspace.folder().to_owned(), client.shows_compaction());
        Self {
            id: SessionId::new(task.as_str()),
            client,
            workspace,
            task,
            commands,
            conversation,
            mask: Mask::default(),
            chosen: Chosen::default(),
            is_open: false,
            is_begun: false,
            seq: 0,
            batches: None,
            turn: None,
            next: None,
            asked: HashMap::new(),
            left: Vec::new(),
            trust_question: None,
            has_asked_for_trust: false,
            commands_told: None,
        }
    }

    async fn run(mut self, commands: &mut mpsc::UnboundedReceiver<Command>) {
        loop {
            let batch = async {
                match &mut self.batches {
                    Some(batches) => batches.recv().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                command = commands.recv() => match command {
                    Some(Command::Close(closed)) => {
                        self.close().await;
                        // Nobody may wait for it.
                        let _ = closed.send(());
                        return;
                    }
                    Some(command) => self.command(command).await,
                    None => return,
                },
                batch = batch => match batch {
                    Some(Ok(batch)) => self.happened(&batch).await,
                    Some(Err(error)) => {
                        self.batches = None;
                        self.end_turn(&Err(error::internal(format!("the request can't be followed any more: {error}"))));
                    }
                    None => self.batches = None,
                },
            }
            self.say_next().await;
        }
    }

    async fn command(&mut self, command: Command) {
        match command {
            Command::Open(how, opened) => {
                let choices = self.open(how).await;
                // Nobody may wait for it.
                let _ = opened.send(choices);
            }
            Command::Introduce(notices) => {
                // Whoever has loaded it again knows none.
                self.commands_told = None;
                self.tell_commands().await;
                notices.iter().for_each(|text| self.notice(NoticeSeverity::Warning, text));
            }
            Command::Prompt(prompt, responder) => self.prompt(prompt, responder).await,
            Command::Cancel => self.cancel().await,
            Command::SetMode(mode, responder) => {
                let set = self.set_mode(&mode.0).await;
                self.client.respond(responder, set.map(|()| SetSessionModeResponse::new()));
                self.tell_options().await;
            }
            Command::SetOption(request, responder) => {
                let set = self.set_option(&request).await;
                self.client.respond(responder, set.map(SetSessionConfigOptionResponse::new));
            }
            Command::TrustAnswered(reply) => self.trust_answered(reply).await,
            Command::ApprovalAnswered(approval, reply) => self.answer_approval(*approval, reply).await,
            Command::QuestionAnswered(question, reply) => self.answer_question(question, reply).await,
            // It ends the loop.
            Command::Close(_) => {}
        }
    }

    async fn open(&mut self, how: Open) -> Result<Choices, Error> {
        self.renew_mask().await;
        if how != Open::New {
            self.read_past(how).await?;
        }
        let options = Options::read(&self.workspace).await?;
        self.is_open = true;
        Ok(Choices { modes: options.mode_state(&self.chosen), config: options.config(&self.chosen) })
    }

    /// Reads what has happened in the request, and tells it to a client that wants it.
    async fn read_past(&mut self, how: Open) -> Result<(), Error> {
        let engine = &self.workspace.engine;
        let events =
            engine.newest_events(&self.task, usize::MAX).await.map_err(|error| error::from_engine(&error))?;
        let is_first = !std::mem::replace(&mut self.is_begun, true);
        // Where it is loaded again, what happens goes on as before: what is newer comes that way.
        let told = self.seq;
        let events = events.into_iter().filter(|params| is_first || params.seq.is_none_or(|seq| seq <= told));
        let mut past = Conversation::new(self.workspace.folder().to_owned(), self.client.shows_compaction());
        past.set_mask(self.mask.clone());
        past.set_past(true);
        let mut edits = VecDeque::new();
        for params in events {
            let told = past.apply(&params);
            if is_first {
                self.seq = params.seq.unwrap_or(self.seq);
                self.follow_choice(&params);
            }
            if how == Open::Load {
                self.tell(told);
                self.client.drained().await;
            }
            if let Event::ToolFinished { tool_call_id, status: ToolStatus::Ok, .. } = &params.event {
                edits.extend(past.take_edit(&params.task_id, tool_call_id, params.seq));
                // Each is read from the disk.
                edits.drain(..edits.len().saturating_sub(EDITS));
            }
        }
        for edit in edits.into_iter().filter(|_| how == Open::Load) {
            self.tell_edit(edit).await;
        }
        past.set_past(false);
        if is_first {
            let found = self.workspace.engine.get(&self.task).await;
            if how == Open::Load && found.is_ok_and(|found| found.item.state == TaskState::Interrupted) {
                self.tell(past.fail_open_calls());
            }
            self.conversation = past;
        }
        if let Ok(tree) = self.workspace.engine.tree(&self.task).await {
            self.conversation.set_tree(&tree.nodes);
        }
        Ok(())
    }

    async fn prompt(&mut self, prompt: Vec<ContentBlock>, responder: Responder<PromptResponse>) {
        if !self.is_open {
            return self.client.respond(responder, Err(error::no_session(&self.id.0)));
        }
        let folders = self.workspace.folders.iter().map(std::path::PathBuf::as_path);
        let message = match UserMessage::read(prompt, folders) {
            Ok(message) => message,
            Err(error) => return self.client.respond(responder, Err(error)),
        };
        // Whoever withdraws a prompt wants an end of the turn.
        let (withdrawn, answered, commands) =
            (responder.cancellation(), CancellationToken::new(), self.commands.clone());
        let prompt = OpenPrompt { responder, _answered: answered.clone().drop_guard() };
        tokio::spawn(async move {
            if answered.run_until_cancelled(withdrawn.cancelled()).await.is_some() {
                // The session may have ended.
                let _ = commands.send(Command::Cancel);
            }
        });
        match &mut self.next {
            Some(next) => {
                next.message.extend(message);
                next.prompts.push(prompt);
            }
            None => self.next = Some(NextTurn { message, prompts: vec![prompt] }),
        }
        if let Some(report) = self.untrusted().await {
            self.ask_for_trust(report);
        }
    }

    fn ask_for_trust(&mut self, report: TrustReport) {
        let over = CancellationToken::new();
        self.trust_question = Some(over.clone());
        let (asker, workspace, commands) =
            (self.asker(over), Arc::clone(&self.workspace), self.commands.clone());
        let call = ToolCall::new(ToolCallId::new(TRUST_CALL), TRUST_TITLE).kind(ToolKind::Other);
        self.tell(vec![SessionUpdate::ToolCall(call).into()]);
        tokio::spawn(async move {
            if let Some(reply) = asker.trust(&workspace, &report).await {
                // The session may have ended.
                let _ = commands.send(Command::TrustAnswered(reply));
            }
        });
    }

    /// What an untrusted workspace brings, if its user has not been asked about it.
    async fn untrusted(&mut self) -> Option<TrustReport> {
        if std::mem::replace(&mut self.has_asked_for_trust, true) {
            return None;
        }
        let workspace = Arc::clone(&self.workspace);
        let report = tokio::task::spawn_blocking(move || workspace.customization.trust()).await.ok()?;
        (!report.trusted && !report.brings.is_empty()).then_some(report)
    }

    async fn trust_answered(&mut self, reply: Reply) {
        if reply == Reply::Cancelled {
            return self.cancel().await;
        }
        if self.trust_question.take().is_none() {
            return;
        }
        let (workspace, grant) = (Arc::clone(&self.workspace), Grant::Workspace);
        let mut status = ToolCallStatus::Completed;
        if reply == Reply::Chosen(TRUST.to_owned()) {
            let granted = tokio::task::spawn_blocking(move || workspace.customization.grant(&grant)).await;
            if let Ok(Err(error)) = granted {
                status = ToolCallStatus::Failed;
                self.notice(NoticeSeverity::Error, &error.to_string());
            }
        }
        self.end_call(Some(ToolCallId::new(TRUST_CALL)), status);
        self.tell_options().await;
    }

    /// Says to the request what its user has said, or begins it, unless something is to be waited for.
    async fn say_next(&mut self) {
        let is_ending = self.turn.as_ref().is_some_and(|turn| turn.is_cancelled);
        if is_ending || self.trust_question.is_some() {
            return;
        }
        let Some(NextTurn { message, prompts }) = self.next.take() else { return };
        self.renew_mask().await;
        self.tell_commands().await;
        if let Some(files) = &self.workspace.files {
            files.speak_for(&self.id);
        }
        let result = match self.is_begun {
            true => self.continue_request(message).await,
            false => self.start(message).await,
        };
        match result {
            Ok(()) => {
                self.turn.get_or_insert_default().prompts.extend(prompts);
                self.check_rest().await;
            }
            // What was said before goes on.
            Err(error) => self.answer_prompts(prompts, &Err(error)),
        }
    }

    async fn start(&mut self, message: UserMessage) -> Result<(), Error> {
        let UserMessage { text, images } = message;
        let Chosen { mode, profile, intent } = self.chosen.clone();
        let params = TaskStartParams { prompt: text, mode, profile, images, context: vec![] };
        let (workspace, task) = (Arc::clone(&self.workspace), self.task.clone());
        let started = tokio::task::spawn_blocking(move || workspace.engine.start_as(task, params));
        let started = started.await.map_err(|_| error::internal("the server is ending"))?;
        started.map_err(|error| error::from_engine(&error))?;
        self.is_begun = true;
        if let Some((id, digest)) = intent
            && let Err(error) = self.workspace.engine.select_intent(&self.task, &id, digest).await
        {
            self.notice(NoticeSeverity::Error, &format!("the intent {id} was not selected: {error}"));
        }
        self.follow().await
    }

    async fn continue_request(&mut self, message: UserMessage) -> Result<(), Error> {
        if self.batches.is_none() {
            self.follow().await?;
        }
        if !self.answer_left(&message).await? {
            let UserMessage { text, images } = message;
            let params = TaskSendParams { task_id: self.task.clone(), text, images, when: SendWhen::Now };
            self.workspace.engine.send(params).await.map_err(|error| error::from_engine(&error))?;
        }
        self.ask_what_waits().await;
        Ok(())
    }

    /// Answers the question that was left last by what was said. Returns false where none was left that still waits: what is said
    /// is for the request's own task then.
    async fn answer_left(&mut self, message: &UserMessage) -> Result<bool, Error> {
        if self.left.is_empty() {
            return Ok(false);
        }
        let engine = &self.workspace.engine;
        let now = engine.resumable(&self.task).await.map_err(|error| error::from_engine(&error))?;
        let waiting = |id: &String| {
            let mut questions = now.questions.iter().map(|(_, question)| &question.question_id);
            questions.find(|waiting| waiting.as_str() == id).cloned()
        };
        let Some(question_id) = self.left.iter().rev().find_map(waiting) else { return Ok(false) };
        let UserMessage { text, images } = message.clone();
        let answer = QuestionAnswerParams { question_id, text, images };
        match engine.answer(answer, self.client.name()).await {
            Ok(answer) => Ok(answer.accepted),
            // Somebody has answered it meanwhile.
            Err(EngineError::NotFound { .. }) => Ok(false),
            Err(error) => Err(error::from_engine(&error)),
        }
    }

    /// Asks what waits for an answer and is not being asked: what waited before, and what was left and not answered now.
    async fn ask_what_waits(&mut self) {
        self.left.clear();
        let Ok(now) = self.workspace.engine.resumable(&self.task).await else { return };
        // What is not told yet is asked when it is.
        let told: HashSet<String> =
            self.conversation.view().prompts().map(|(_, prompt)| prompt.id().to_owned()).collect();
        for (task, approval) in &now.approvals {
            if told.contains(approval.approval_id.as_str()) {
                self.ask_approval(task, approval);
            }
        }
        for (task, question) in &now.questions {
            if told.contains(question.question_id.as_str()) {
                self.ask_question(task, question);
            }
        }
    }

    /// Follows the request from what was told last.
    async fn follow(&mut self) -> Result<(), Error> {
        let follower = self.workspace.engine.follow(&self.task, self.seq).await;
        let follower = follower.map_err(|error| error::from_engine(&error))?;
        let (sender, batches) = mpsc::channel(1);
        tokio::spawn(forward(follower, Arc::clone(&self.workspace), self.client.clone(), sender));
        self.batches = Some(batches);
        Ok(())
    }

    async fn cancel(&mut self) {
        self.withdraw_next();
        let Some(turn) = &mut self.turn else { return };
        turn.is_cancelled = true;
        match self.workspace.engine.cancel(&self.task).await {
            Ok(()) => self.check_rest().await,
            Err(error) => {
                tracing::warn!(task = %self.task, %error, "a request was not cancelled");
                self.end_turn(&Ok(StopReason::Cancelled));
            }
        }
    }

    /// What was not said to the request yet is never said.
    fn withdraw_next(&mut self) {
        if let Some(over) = self.trust_question.take() {
            over.cancel();
            self.end_call(Some(ToolCallId::new(TRUST_CALL)), ToolCallStatus::Failed);
        }
        if let Some(NextTurn { prompts, .. }) = self.next.take() {
            self.answer_prompts(prompts, &Ok(StopReason::Cancelled));
        }
    }

    async fn close(&mut self) {
        self.workspace.engine.release(&self.task).await;
        for (_, OpenQuestion { over, call }) in std::mem::take(&mut self.asked) {
            over.cancel();
            self.end_call(call, ToolCallStatus::Failed);
        }
        self.withdraw_next();
        self.end_turn(&Ok(StopReason::Cancelled));
        if let Some(files) = &self.workspace.files {
            files.forget(&self.id);
        }
    }

    /// Something has happened in the request.
    async fn happened(&mut self, batch: &[Arc<EventParams>]) {
        if let Some(nodes) = newest_tree(batch.iter().map(AsRef::as_ref)) {
            self.conversation.set_tree(nodes);
        }
        for params in batch {
            let told = self.conversation.apply(params);
            self.tell(told);
            self.seq = params.seq.unwrap_or(self.seq);
            self.react(params).await;
        }
        self.check_rest().await;
    }

    async fn react(&mut self, params: &EventParams) {
        let task = &params.task_id;
        match &params.event {
            Event::ApprovalRequested { approval } => self.ask_approval(task, approval),
            Event::QuestionAsked { question } => self.ask_question(task, question),
            Event::ApprovalResolved { approval_id, .. } => self.is_over(approval_id.as_str()),
            Event::QuestionAnswered { question_id, .. } => self.is_over(question_id.as_str()),
            Event::ModeSwitched { .. } | Event::IntentSelected { .. } if task.is_root() => {
                let mode = self.chosen.mode.clone();
                self.follow_choice(params);
                if let Some(mode) = self.chosen.mode.clone().filter(|now| Some(now) != mode.as_ref()) {
                    let update = CurrentModeUpdate::new(SessionModeId::new(mode));
                    self.tell(vec![SessionUpdate::CurrentModeUpdate(update).into()]);
                }
                self.tell_options().await;
            }
            Event::ToolFinished { tool_call_id, status: ToolStatus::Ok, .. } => {
                if let Some(edit) = self.conversation.take_edit(task, tool_call_id, params.seq) {
                    self.tell_edit(edit).await;
                }
            }
            _ => {}
        }
    }

    /// Takes in what the request's own task goes on with.
    fn follow_choice(&mut self, params: &EventParams) {
        if !params.task_id.is_root() {
            return;
        }
        match &params.event {
            Event::TaskCreated { mode, .. } => self.chosen.mode = Some(mode.clone()),
            Event::ModeSwitched { mode, profile } => {
                if mode.is_some() {
                    self.chosen.mode.clone_from(mode);
                }
                if profile.is_some() {
                    self.chosen.profile.clone_from(profile);
                }
            }
            Event::IntentSelected { intent_id, digest, .. } => {
                self.chosen.intent = Some((intent_id.clone(), *digest));
            }
            _ => {}
        }
    }

    /// Tells what a call has changed.
    async fn tell_edit(&mut self, edit: Edit) {
        let Edit { call, changes } = edit;
        match self.workspace.engine.checkpoint_diff(&changes).await {
            Ok(found) if found.files.is_empty() => {}
            Ok(found) => {
                let fields = ToolCallUpdateFields::new().content(tool_calls::diffs(found.files));
                self.tell(vec![SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(call, fields)).into()]);
            }
            Err(error) => tracing::debug!(%error, "the changes of a call can't be told"),
        }
    }

    fn ask_approval(&mut self, task: &TaskId, approval: &PendingApproval) {
        let key = approval.approval_id.to_string();
        if self.asked.contains_key(&key) {
            return;
        }
        let over = CancellationToken::new();
        self.asked.insert(key, OpenQuestion { over: over.clone(), call: None });
        let fields = self.conversation.fields(task, &approval.tool_call_id);
        let call = self.conversation.call(task, &approval.tool_call_id).id.clone();
        let (asker, workspace) = (self.asker(over), Arc::clone(&self.workspace));
        let (commands, approval) = (self.commands.clone(), approval.clone());
        tokio::spawn(async move {
            if let Some(reply) = asker.approval(&workspace, &approval, call, fields).await {
                // The session may have ended.
                let _ = commands.send(Command::ApprovalAnswered(Box::new(approval), reply));
            }
        });
    }

    /// Asks the client's user a question of the agent, unless that is done already.
    fn ask_question(&mut self, task: &TaskId, question: &PendingQuestion) {
        let key = question.question_id.to_string();
        if self.asked.contains_key(&key) {
            return;
        }
        let over = CancellationToken::new();
        let asker = self.asker(over.clone());
        let mut question = question.clone();
        // Before it is cut: a part of a secret isn't found.
        let text = self.mask.masked(format!("{}{}", self.conversation.branch_prefix(task), question.text));
        question.text = one_line_if_long(&text);
        let call = asker.shown_call(&question);
        let id = call.as_ref().map(|call| call.tool_call_id.clone());
        self.tell(call.into_iter().map(|call| SessionUpdate::ToolCall(call).into()).collect());
        self.asked.insert(key, OpenQuestion { over, call: id });
        let commands = self.commands.clone();
        tokio::spawn(async move {
            if let Some(reply) = asker.question(&question).await {
                // The session may have ended.
                let _ = commands.send(Command::QuestionAnswered(question, reply));
            }
        });
    }

    /// A question has its answer, from whomever.
    fn is_over(&mut self, id: &str) {
        self.left.retain(|left| left != id);
        if let Some(OpenQuestion { over, call }) = self.asked.remove(id) {
            over.cancel();
            let is_cancelled = self.turn.as_ref().is_some_and(|turn| turn.is_cancelled);
            self.end_call(
                call,
                if is_cancelled { ToolCallStatus::Failed } else { ToolCallStatus::Completed },
            );
        }
    }

    /// Tells the end of the call by which a question was shown.
    fn end_call(&self, call: Option<ToolCallId>, status: ToolCallStatus) {
        let ended = |call| ToolCallUpdate::new(call, ToolCallUpdateFields::new().status(status));
        self.tell(call.map(|call| SessionUpdate::ToolCallUpdate(ended(call)).into()).into_iter().collect());
    }

    async fn answer_approval(&mut self, approval: PendingApproval, reply: Reply) {
        let by = Decider::from(self.client.name());
        // All of it was shown.
        let (answer, by) = match reply {
            Reply::Chosen(option) => (Some(approval.answer(option)), by),
            Reply::Cancelled => return self.cancel().await,
            // Nobody can be asked, so nothing is allowed.
            Reply::Unable(reason) => {
                self.notice(NoticeSeverity::Error, &format!("permission can't be asked for: {reason}"));
                (approval.answer_by(OptionKind::RejectOnce), Decider::Unattended)
            }
            Reply::Text(_) | Reply::Later => (None, by),
        };
        let Some(answer) = answer else { return };
        match self.workspace.engine.respond(answer, by).await {
            // Where somebody else was first, the events say so.
            Ok(_) | Err(EngineError::NotFound { .. }) => {}
            Err(error @ EngineError::Mismatch { .. }) => {
                self.notice(NoticeSeverity::Error, &error.to_string());
                self.is_over(approval.approval_id.as_str());
                if let Some((task, waiting)) = self.waiting_approval(&approval) {
                    self.ask_approval(&task, &waiting);
                }
            }
            Err(error) => self.was_not_answered(approval.approval_id.as_str(), &error),
        }
    }

    /// The approval, if it still waits.
    fn waiting_approval(&self, approval: &PendingApproval) -> Option<(TaskId, PendingApproval)> {
        self.conversation.view().prompts().find_map(|(task, prompt)| match prompt {
            Prompt::Approval(waiting) if waiting.approval_id == approval.approval_id => {
                Some((task.clone(), waiting.clone()))
            }
            _ => None,
        })
    }

    async fn answer_question(&mut self, question: PendingQuestion, reply: Reply) {
        let id = question.question_id.to_string();
        let text = match (reply, question.kind) {
            (Reply::Text(text), _) => text,
            (Reply::Cancelled, _) => return self.cancel().await,
            (Reply::Unable(reason), QuestionKind::McpElicitation) => {
                self.notice(
                    NoticeSeverity::Warning,
                    &format!("an MCP server's question was declined: {reason}"),
                );
                DECLINE.to_owned()
            }
            // What is said to an agent is not for a server.
            (Reply::Chosen(_) | Reply::Later, QuestionKind::McpElicitation) => DECLINE.to_owned(),
            (Reply::Unable(_) | Reply::Chosen(_) | Reply::Later, _) => {
                if let Some(OpenQuestion { call, .. }) = self.asked.remove(&id) {
                    self.end_call(call, ToolCallStatus::Completed);
                    self.left.push(id);
                }
                return self.check_rest().await;
            }
        };
        let answer = QuestionAnswerParams { question_id: question.question_id, text, images: vec![] };
        let by = self.client.name();
        match self.workspace.engine.answer(answer, by).await {
            Ok(_) | Err(EngineError::NotFound { .. }) => {}
            Err(error) => self.was_not_answered(&id, &error),
        }
    }

    /// The engine did not take an answer. What was asked still waits, and is asked again with the next prompt.
    fn was_not_answered(&mut self, id: &str, error: &EngineError) {
        self.is_over(id);
        self.end_turn(&Err(error::from_engine(error)));
    }

    /// Ends the turn if nothing in the request goes on by itself.
    async fn check_rest(&mut self) {
        let Some(&Turn { is_cancelled, .. }) = self.turn.as_ref() else { return };
        let Some(root) = self.conversation.view().root() else { return };
        let (state, reason) = (root.state, root.reason.clone());
        let may_rest = waits_for_user(self.conversation.view().tree().nodes()) && self.asked.is_empty();
        let is_over = state.is_final() || state == TaskState::Interrupted;
        if !is_over && !may_rest {
            return;
        }
        // What is followed may be a little behind; then the rest is looked at too.
        let Ok(now) = self.workspace.engine.resumable(&self.task).await else { return };
        if now.seq > self.seq {
            return;
        }
        let end = match state {
            TaskState::Completed => Ok(StopReason::EndTurn),
            TaskState::Failed => {
                Err(error::internal(reason.unwrap_or_else(|| "the task has failed".to_owned())))
            }
            TaskState::Cancelled | TaskState::Interrupted => Ok(StopReason::Cancelled),
            TaskState::Running | TaskState::Waiting | TaskState::Paused => match self.rests(&now) {
                Some(reason) => Ok(reason),
                None => return,
            },
        };
        self.end_turn(&if is_cancelled { Ok(StopReason::Cancelled) } else { end });
    }

    /// The reason for which a request rests that has not ended; none while it goes on. `now`: what waits in it.
    fn rests(&self, now: &Resumable) -> Option<StopReason> {
        let is_left = |id: &str| self.left.iter().any(|left| left == id);
        let all_left = now.approvals.is_empty()
            && now.questions.iter().all(|(_, asked)| is_left(asked.question_id.as_str()));
        if !waits_for_user(&now.nodes) || !all_left {
            return None;
        }
        let is = |kind: QuestionKind| now.questions.iter().any(|(_, asked)| asked.kind == kind);
        Some(match () {
            () if is(QuestionKind::AutoApprovalMaxReqReached) || is(QuestionKind::MistakeLimitReached) => {
                StopReason::MaxTurnRequests
            }
            () if is(QuestionKind::ApiReqFailed) && self.conversation.was_refused() => StopReason::Refusal,
            () => StopReason::EndTurn,
        })
    }

    fn end_turn(&mut self, end: &Result<StopReason, Error>) {
        if let Some(turn) = self.turn.take() {
            self.answer_prompts(turn.prompts, end);
        }
    }

    fn answer_prompts(&self, prompts: Vec<OpenPrompt>, end: &Result<StopReason, Error>) {
        let masked = |mut error: Error| {
            error.message = self.mask.masked(error.message);
            error
        };
        let end = end.clone().map_err(masked);
        for prompt in prompts {
            self.client.respond(prompt.responder, end.clone().map(PromptResponse::new));
        }
    }

    async fn set_mode(&mut self, slug: &str) -> Result<(), Error> {
        let options = Options::read(&self.workspace).await?;
        if !options.has_mode(slug) {
            return Err(error::invalid(format!("there is no mode '{}'", one_line(slug, 80))));
        }
        if self.is_begun {
            let switched = self.workspace.engine.switch_mode(&self.task, slug).await;
            switched.map_err(|error| error::from_engine(&error))?;
        }
        self.chosen.mode = Some(slug.to_owned());
        // A mode brings its model.
        self.chosen.profile = None;
        Ok(())
    }

    async fn set_option(
        &mut self,
        request: &SetSessionConfigOptionRequest,
    ) -> Result<Vec<SessionConfigOption>, Error> {
        let SessionConfigOptionValue::ValueId { value } = &request.value else {
            return Err(error::invalid("the option takes one of its values"));
        };
        let value = &*value.0;
        match &*request.config_id.0 {
            MODE => {
                self.set_mode(value).await?;
                let update = CurrentModeUpdate::new(SessionModeId::new(value));
                self.tell(vec![SessionUpdate::CurrentModeUpdate(update).into()]);
            }
            PROFILE => {
                if !Options::read(&self.workspace).await?.has_profile(value) {
                    return Err(error::invalid(format!(
                        "there is no model profile '{}'",
                        one_line(value, 80)
                    )));
                }
                if self.is_begun {
                    let selected = self.workspace.engine.select_profile(&self.task, value).await;
                    selected.map_err(|error| error::from_engine(&error))?;
                }
                self.chosen.profile = Some(value.to_owned());
            }
            INTENT => self.set_intent(value).await?,
            id => return Err(error::invalid(format!("there is no option '{}'", one_line(id, 80)))),
        }
        Ok(Options::read(&self.workspace).await?.config(&self.chosen))
    }

    async fn set_intent(&mut self, id: &str) -> Result<(), Error> {
        if id.is_empty() {
            if self.is_begun && self.chosen.intent.is_some() {
                return Err(error::invalid("a task that is bound to an intent stays bound to one"));
            }
            self.chosen.intent = None;
            return Ok(());
        }
        let options = Options::read(&self.workspace).await?;
        let digest = options.intent(id).map(|intent| intent.digest);
        let unknown =
            || error::invalid(format!("there is no intent '{}' that can be selected", one_line(id, 80)));
        let digest = digest.ok_or_else(unknown)?;
        if self.is_begun {
            let selected = self.workspace.engine.select_intent(&self.task, id, digest).await;
            selected.map_err(|error| error::from_engine(&error))?;
        }
        self.chosen.intent = Some((id.to_owned(), digest));
        Ok(())
    }

    /// Tells the options as they are now.
    async fn tell_options(&mut self) {
        if let Ok(options) = Options::read(&self.workspace).await {
            let update = ConfigOptionUpdate::new(options.config(&self.chosen));
            self.tell(vec![SessionUpdate::ConfigOptionUpdate(update).into()]);
        }
    }

    /// Tells the slash commands, unless they are those that were told last.
    async fn tell_commands(&mut self) {
        let commands = commands::available(&self.workspace).await;
        if self.commands_told.as_ref() != Some(&commands) {
            self.commands_told = Some(commands.clone());
            self.tell(vec![commands.into()]);
        }
    }

    async fn renew_mask(&mut self) {
        self.mask = self.workspace.mask().await;
        self.conversation.set_mask(self.mask.clone());
    }

    fn asker(&self, over: CancellationToken) -> Asker {
        Asker { client: self.client.clone(), session: self.id.clone(), mask: self.mask.clone(), over }
    }

    fn tell(&self, told: Vec<ClientUpdate>) {
        for told in told {
            match told {
                ClientUpdate::Update(update) => self.client.update(&self.id, *update, &self.mask),
                ClientUpdate::Notice(severity, text) => self.notice(severity, &text),
            }
        }
    }

    fn notice(&self, severity: NoticeSeverity, text: &str) {
        self.client.notice(&self.id, severity, text, &self.mask);
    }
}

/// Hands on what happens as fast as the client reads.
async fn forward(
    mut follower: Follower,
    workspace: Arc<Workspace>,
    client: Client,
    batches: mpsc::Sender<Batch>,
) {
    loop {
        let batch = tokio::select! {
            () = batches.closed() => return,
            batch = async {
                client.drained().await;
                follower.next(|| workspace.engine.now()).await
            } => batch,
        };
        let is_last = batch.is_err();
        if batches.send(batch).await.is_err() || is_last {
            return;
        }
    }
}

fn one_line_if_long(text: &str) -> String {
    match text.chars().count() > QUESTION {
        true => one_line(text, QUESTION),
        false => text.to_owned(),
    }
}
