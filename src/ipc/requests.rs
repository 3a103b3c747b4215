//! The requests that clients start and steer. There is a current one, as in Roo Code, which commands without a task's id mean; others
//! go on beside it. What a client says is never an approval.
//!
//! Where an editor works on the same engine, its user answers, and what is started there is told and steered like what clients
//! start: the newest request is the current one. No request is given up then, as there is nobody else to go on with it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use roo_engine::customization::Customization;
use roo_engine::engine::{Decider, Engine, EngineError, Follower, Journal, Resumable};
use roo_engine::server_tools::DECLINE;
use roo_protocol::event::{Event, EventParams, OptionKind, QuestionKind};
use roo_protocol::ids::{QuestionId, TaskId};
use roo_protocol::task::{
    PendingApproval, PendingQuestion, QuestionAnswerParams, QueueDeleteParams, SendWhen, TaskSendParams,
    TaskStartParams, TaskState,
};
use roo_protocol::tree::TreeNode;
use roo_text::render::one_line;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::client_configuration::ClientConfiguration;
use super::clients::Clients;
use super::command::{Command, NewTask};
use super::lists;
use crate::masking::Mask;
use crate::roo_api::{Lifecycle, RooEvent, Vocabulary, notice};
use crate::roo_follower::{self, Followed, FollowedRequests, RooFollower};
use crate::shell_word::shell_word;
use crate::view::{newest_tree, waits_for_user};

/// Name of clients, in events.
const CLIENT: &str = "ipc";
/// The longest line about what a request waits for, in characters.
const LINE: usize = 200;

/// What is done when permission is asked and settings don't answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WhenAsked {
    /// The request waits until its user resumes it elsewhere.
    Wait,
    Deny,
    Allow,
    /// An editor on the same engine asks its user.
    Editor,
}

/// Parts that the requests need.
pub(crate) struct Setup {
    /// Whoever gives it ends it.
    pub(crate) engine: Arc<Engine>,
    pub(crate) customization: Arc<Customization>,
    /// The workspace folder.
    pub(crate) folder: PathBuf,
    pub(crate) when_asked: WhenAsked,
}

/// The requests of a server.
pub(super) struct Requests {
    engine: Arc<Engine>,
    customization: Arc<Customization>,
    folder: PathBuf,
    when_asked: WhenAsked,
    clients: Arc<Clients>,
    end: CancellationToken,
    /// Commands that are carried out, and requests that are followed.
    work: TaskTracker,
    /// Those whose events are told.
    followed: FollowedRequests,
    current: Mutex<Option<TaskId>>,
    /// Held while a command is carried out: commands of all clients are carried out one after the other.
    steering: tokio::sync::Mutex<()>,
}

/// Reasons why a command was not carried out.
#[derive(Debug, thiserror::Error)]
enum CommandError {
    #[error("there is no current task; start or resume one first")]
    NoTask,
    #[error("the server is ending")]
    Ending,
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl Requests {
    /// No requests yet. `end`: cancelled when the server ends.
    pub(super) fn new(setup: Setup, clients: Arc<Clients>, end: CancellationToken) -> Arc<Self> {
        let Setup { engine, customization, folder, when_asked } = setup;
        Arc::new(Self {
            engine,
            customization,
            folder,
            when_asked,
            clients,
            end,
            work: TaskTracker::new(),
            followed: FollowedRequests::default(),
            current: Mutex::default(),
            steering: tokio::sync::Mutex::default(),
        })
    }

    /// Carries out the commands that have begun, and follows no request any more. The requests go on.
    pub(super) async fn shut_down(&self) {
        self.work.close();
        self.work.wait().await;
    }

    /// True if an editor works on the same engine.
    fn has_editor(&self) -> bool {
        self.when_asked == WhenAsked::Editor
    }

    /// Follows the requests that live here and those that come to, whoever starts them, if an editor may do so too.
    pub(super) fn follow_all(self: &Arc<Self>) {
        if !self.has_editor() {
            return;
        }
        // Before the look, so that none is missed.
        let opened = self.engine.opened();
        let (requests, end) = (Arc::clone(self), self.end.clone());
        self.work.spawn(async move {
            end.run_until_cancelled(requests.take_up_all(opened)).await;
        });
    }

    async fn take_up_all(self: &Arc<Self>, mut opened: Receiver<Arc<Journal>>) {
        let mut journals = self.engine.journals();
        // The newest one first: it is the current one.
        journals.sort_by(|one, other| other.root().cmp(one.root()));
        for journal in journals {
            let known = journal.published();
            self.take_up(&journal, known).await;
        }
        loop {
            match opened.recv().await {
                Ok(journal) => self.take_up(&journal, journal.opened_at()).await,
                Err(RecvError::Lagged(_)) => {
                    for journal in self.engine.journals() {
                        self.take_up(&journal, journal.opened_at()).await;
                    }
                }
                Err(RecvError::Closed) => return,
            }
        }
    }

    /// Follows a request that lives here, unless it is followed. Events up to the number `known` are not told.
    async fn take_up(self: &Arc<Self>, journal: &Arc<Journal>, known: u64) {
        let _steering = self.steering.lock().await;
        let task = journal.root();
        if self.followed.contains(task) {
            return;
        }
        let follower = journal.follow(0);
        let vocabulary = self.vocabulary().await;
        if known == 0 {
            // It is told so behind its beginning.
            self.focus(task, || {});
        } else if self.current().is_none() {
            self.focus(task, || {
                self.clients.broadcast(&RooEvent::Lifecycle(Lifecycle::Focused, task.clone()))
            });
        }
        self.follow(task, follower, vocabulary, known);
    }

    fn current(&self) -> Option<TaskId> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_current(&self, task: Option<TaskId>) {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = task;
    }

    /// Carries out a command, also if the client goes meanwhile. Where that fails, all clients are told why.
    pub(super) async fn carry_out(self: &Arc<Self>, command: Command) {
        let requests = Arc::clone(self);
        let carried_out = self.work.spawn(async move { requests.carry_out_alone(command).await });
        // It can't panic, and nobody aborts it.
        let _ = carried_out.await;
    }

    async fn carry_out_alone(self: &Arc<Self>, command: Command) {
        let _steering = self.steering.lock().await;
        let done = match command {
            Command::StartNewTask(new) => self.start(new).await,
            Command::CancelTask(id) => self.cancel(id).await,
            Command::CloseTask(id) => self.close(id).await,
            Command::ResumeTask(id) => self.resume(&TaskId::new(id)).await,
            Command::SendMessage { text, images } => self.send(text, images).await,
            Command::DeleteQueuedMessage(item_id) => self.delete_queued(item_id).await,
            Command::CancelExecution => self.cancel_command().await,
            Command::GetCommands => {
                self.list(|requests| RooEvent::Commands(lists::commands(&requests.customization))).await
            }
            Command::GetModes => {
                let settings = self.engine.settings().await;
                let read =
                    move |requests: &Self| RooEvent::Modes(lists::modes(&requests.customization, &settings));
                self.list(read).await
            }
            Command::GetModels => {
                let settings = self.engine.settings().await;
                self.clients.broadcast(&RooEvent::Models(lists::models(&settings)));
                Ok(())
            }
        };
        if let Err(error) = done {
            tracing::warn!("a command of an IPC client was not carried out: {error}");
            let mask = self.mask().await;
            let text = mask.masked(error.to_string());
            self.clients.broadcast(&notice(self.current(), self.engine.now(), text));
        }
    }

    /// Answers a question whose answer is on the disk.
    async fn list(
        self: &Arc<Self>,
        read: impl FnOnce(&Self) -> RooEvent + Send + 'static,
    ) -> Result<(), CommandError> {
        let requests = Arc::clone(self);
        let answer = tokio::task::spawn_blocking(move || read(&requests)).await;
        self.clients.broadcast(&answer.map_err(|_| CommandError::Ending)?);
        Ok(())
    }

    async fn mask(&self) -> Mask {
        roo_follower::mask(&self.engine, &self.folder).await
    }

    async fn start(self: &Arc<Self>, new: NewTask) -> Result<(), CommandError> {
        let NewTask { configuration, text, images, new_tab } = new;
        let configuration = ClientConfiguration::new(&configuration);
        let told = configuration.notice();
        if let Some(told) = &told {
            tracing::warn!("{told}");
        }
        let ClientConfiguration { mode, profile, .. } = configuration;
        let params = TaskStartParams { prompt: text, mode, profile, images, ..TaskStartParams::default() };
        let engine = Arc::clone(&self.engine);
        let started = tokio::task::spawn_blocking(move || engine.start(params)).await;
        let task = started.map_err(|_| CommandError::Ending)??.task_id;
        // Beside an editor its user sees all of them.
        if !new_tab
            && !self.has_editor()
            && let Some(earlier) = self.current()
        {
            self.leave(&earlier).await;
        }
        self.focus(&task, || {});
        let follower = self.engine.follow(&task, 0).await?;
        let vocabulary = self.vocabulary().await.with_notice(told);
        self.follow(&task, follower, vocabulary, 0);
        Ok(())
    }

    /// Makes a task the current one, and tells so once it is there.
    fn focus(&self, task: &TaskId, tell: impl FnOnce()) {
        let earlier = self.current();
        if earlier.as_ref() == Some(task) {
            return;
        }
        if let Some(earlier) = earlier {
            self.clients.broadcast(&RooEvent::Lifecycle(Lifecycle::Unfocused, earlier));
        }
        self.set_current(Some(task.clone()));
        tell();
    }

    async fn cancel(self: &Arc<Self>, id: Option<String>) -> Result<(), CommandError> {
        let task = self.named(id)?;
        self.ensure_followed(&task).await?;
        self.engine.cancel(&task).await?;
        Ok(())
    }

    /// Leaves a task as it is, to be resumed. Beside an editor it is cancelled, so that its user sees that nothing of it goes on.
    async fn close(&self, id: Option<String>) -> Result<(), CommandError> {
        let task = self.named(id)?;
        let state = self.engine.get(&task).await?.item.state;
        if !self.has_editor() {
            self.leave(&task).await;
        } else {
            if !state.is_final() {
                self.engine.cancel(&task).await?;
            }
            self.unfocus(&task);
        }
        Ok(())
    }

    async fn leave(&self, task: &TaskId) {
        self.followed.end(task);
        let has_ended = self.engine.get(task).await.is_ok_and(|task| task.item.state.is_final());
        self.engine.release(task).await;
        if !has_ended {
            self.clients.broadcast(&RooEvent::Lifecycle(Lifecycle::Aborted, task.clone()));
        }
        self.unfocus(task);
    }

    /// There is no current task, if it was this one.
    fn unfocus(&self, task: &TaskId) {
        if self.current().as_ref() == Some(task) {
            self.clients.broadcast(&RooEvent::Lifecycle(Lifecycle::Unfocused, task.clone()));
            self.set_current(None);
        }
    }

    async fn resume(self: &Arc<Self>, task: &TaskId) -> Result<(), CommandError> {
        let task = task.root();
        let state = self.engine.get(&task).await?.item.state;
        self.ensure_followed(&task).await?;
        self.focus(&task, || self.clients.broadcast(&RooEvent::Lifecycle(Lifecycle::Focused, task.clone())));
        // A completed task goes on with what is said to it next.
        if state != TaskState::Completed {
            let (known, resumed) = self.engine.resume_and_read(&task).await?;
            match resumed {
                // It was not interrupted.
                Ok(()) | Err(EngineError::WrongState { .. }) => {}
                Err(error) => return Err(error.into()),
            }
            for (_, approval) in known.approvals {
                self.answer_approval(&approval).await;
            }
        }
        Ok(())
    }

    async fn send(self: &Arc<Self>, text: String, images: Vec<String>) -> Result<(), CommandError> {
        let task = self.current().ok_or(CommandError::NoTask)?;
        self.ensure_followed(&task).await?;
        let state = self.engine.get(&task).await?.item.state;
        let Resumable { questions, .. } = self.engine.resumable(&task).await?;
        let asked = questions.into_iter().find(|(_, question)| !question.kind.is_for_user_alone());
        if let Some((_, PendingQuestion { question_id, .. })) = asked {
            if state == TaskState::Interrupted {
                self.engine.resume(&task).await?;
            }
            self.engine.answer(QuestionAnswerParams { question_id, text, images }, CLIENT).await?;
            return Ok(());
        }
        // Never at once: what is asked meanwhile must not take it for its answer.
        let when = SendWhen::AfterTurn;
        self.engine.send(TaskSendParams { task_id: task.clone(), text, images, when }).await?;
        if state == TaskState::Interrupted {
            self.engine.resume(&task).await?;
        }
        Ok(())
    }

    async fn delete_queued(&self, item_id: String) -> Result<(), CommandError> {
        let task_id = self.current().ok_or(CommandError::NoTask)?;
        self.engine.delete_queued(QueueDeleteParams { task_id, item_id }).await?;
        Ok(())
    }

    /// Ends the command that the current task runs. The task goes on.
    async fn cancel_command(&self) -> Result<(), CommandError> {
        let task = self.current().ok_or(CommandError::NoTask)?;
        self.engine.stop_foreground_command(&task).await?;
        Ok(())
    }

    /// The request that a command is about.
    fn named(&self, id: Option<String>) -> Result<TaskId, CommandError> {
        let named = id.map(|id| TaskId::new(id).root());
        named.or_else(|| self.current()).ok_or(CommandError::NoTask)
    }

    async fn vocabulary(&self) -> Vocabulary {
        roo_follower::vocabulary(&self.engine, self.mask().await).await
    }

    /// Follows a request, unless it is followed. What has happened in it is not told again.
    async fn ensure_followed(self: &Arc<Self>, task: &TaskId) -> Result<(), CommandError> {
        if self.followed.contains(task) {
            return Ok(());
        }
        let known = self.engine.resumable(task).await?.seq;
        let follower = self.engine.follow(task, 0).await?;
        let vocabulary = self.vocabulary().await;
        self.follow(task, follower, vocabulary, known);
        Ok(())
    }

    /// Tells what happens in a request, unless it is followed. Events up to the number `known` are not told.
    fn follow(self: &Arc<Self>, task: &TaskId, follower: Follower, vocabulary: Vocabulary, known: u64) {
        let Some(over) = self.followed.begin(task, &self.end) else { return };
        let followed = RooFollower::new(Arc::clone(&self.engine), follower, vocabulary, known);
        let (requests, task) = (Arc::clone(self), task.clone());
        self.work.spawn(async move {
            over.run_until_cancelled(requests.tell_events(&task, followed)).await;
        });
    }

    /// Tells what happens until the request has ended, or only its user can go on.
    async fn tell_events(self: &Arc<Self>, task: &TaskId, mut followed: RooFollower) {
        let mut nodes: Vec<TreeNode> = vec![];
        let (mut is_released, mut has_ended) = (false, false);
        let mut left = self.engine.left();
        loop {
            left.mark_unchanged();
            let may_be_over = has_ended && !followed.has_more();
            // What happened before the request was given up is told all the same.
            if followed.is_up_to_date() && (is_released || may_be_over && self.is_over(task, &followed).await)
            {
                return;
            }
            let next = tokio::select! {
                next = followed.next() => next,
                // The engine has the sender.
                _ = left.changed(), if may_be_over => continue,
            };
            let batch = match next {
                Ok(Followed::Events(batch)) => batch,
                Ok(Followed::Due(told)) => {
                    self.tell(told);
                    continue;
                }
                Err(error) => {
                    tracing::warn!("the task {task} can't be followed any more: {error}");
                    self.followed.ended(task);
                    return;
                }
            };
            if let Some(newest) = newest_tree(batch.iter().map(AsRef::as_ref)) {
                nodes = newest.to_vec();
            }
            for params in &batch {
                if let Event::TaskState { state, .. } = &params.event
                    && params.task_id == *task
                {
                    has_ended = state.is_final();
                }
                let Some(told) = followed.translate(params).await else { continue };
                self.tell(told);
                let is_begin = matches!(&params.event, Event::TaskCreated { parent_id: None, .. });
                if is_begin && self.current().as_ref() == Some(task) {
                    self.tell(vec![RooEvent::Lifecycle(Lifecycle::Focused, task.clone())]);
                }
                if !is_released {
                    self.answer(params).await;
                }
            }
            if !is_released && !self.has_editor() && !nodes.is_empty() && waits_for_user(&nodes) {
                is_released = self.needs_user(task, &followed).await;
            }
        }
    }

    /// Returns whether a request has ended, is no longer live, and all of it is told. It is no longer followed then: whoever goes on with
    /// it opens it again, and has it followed again.
    async fn is_over(&self, task: &TaskId, followed: &RooFollower) -> bool {
        let _steering = self.steering.lock().await;
        // What is followed may be a little behind.
        let ended = self.engine.tree(task).await.is_ok_and(|tree| has_ended(&tree.nodes, task));
        let is_over = ended && !self.engine.is_live(task) && followed.is_up_to_date();
        if is_over {
            self.followed.ended(task);
        }
        is_over
    }

    fn tell(&self, events: Vec<RooEvent>) {
        events.iter().for_each(|event| self.clients.broadcast(event));
    }

    /// Answers what is not left to anybody.
    async fn answer(&self, params: &EventParams) {
        match &params.event {
            Event::ApprovalRequested { approval } => self.answer_approval(approval).await,
            // It is for the user alone, who is not here. The call goes on, and the server is told.
            Event::QuestionAsked { question }
                if question.kind == QuestionKind::McpElicitation && !self.has_editor() =>
            {
                self.decline(question.question_id.clone()).await;
            }
            _ => {}
        }
    }

    async fn decline(&self, question_id: QuestionId) {
        let answer = QuestionAnswerParams { question_id, text: DECLINE.to_owned(), images: vec![] };
        if let Err(error) = self.engine.answer(answer, Decider::Unattended).await {
            tracing::warn!("a question of an MCP server was not declined: {error}");
        }
    }

    /// Answers an approval as the user of the command line wants it.
    async fn answer_approval(&self, approval: &PendingApproval) {
        let (kind, by) = match self.when_asked {
            WhenAsked::Wait | WhenAsked::Editor => return,
            WhenAsked::Deny => (OptionKind::RejectOnce, Decider::Unattended),
            WhenAsked::Allow => (OptionKind::AllowOnce, "--on-ask allow".into()),
        };
        let Some(answer) = approval.answer_by(kind) else { return };
        match self.engine.respond(answer, by).await {
            // It may have been answered meanwhile.
            Ok(_) | Err(EngineError::NotFound { .. }) => {}
            Err(error) => tracing::warn!("an approval was not answered: {error}"),
        }
    }

    /// Gives a request up to the process in which its user answers, if nothing in it goes on without them. Says how.
    async fn needs_user(&self, task: &TaskId, followed: &RooFollower) -> bool {
        let _steering = self.steering.lock().await;
        let Ok(Resumable { urid, seq, nodes, approvals, questions }) = self.engine.resumable(task).await
        else {
            return false;
        };
        // What is followed may be a little behind; then the rest is looked at too.
        if seq > followed.position() || has_ended(&nodes, task) || !waits_for_user(&nodes) {
            return false;
        }
        let users: Vec<String> = approvals
            .iter()
            .map(|(_, approval)| format!("permission to {}", approval.title))
            .chain(
                questions
                    .iter()
                    .filter(|(_, question)| question.kind.is_for_user_alone())
                    .map(|(_, question)| question.text.clone()),
            )
            .collect();
        if users.is_empty() {
            return false;
        }
        self.followed.ended(task);
        self.engine.release(task).await;
        let folder = shell_word(&self.folder.to_string_lossy());
        tracing::warn!(
            "{urid} waits for {}; continue with: roo-lsp tasks resume {urid} --workspace {folder}",
            one_line(&users.join(" and "), LINE)
        );
        true
    }
}

/// Returns whether a request has ended, by the tree of its tasks.
fn has_ended(nodes: &[TreeNode], request: &TaskId) -> bool {
    nodes.iter().any(|node| node.id == *request && node.state.is_final())
}
