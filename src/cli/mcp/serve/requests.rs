//! Requests that agents start and steer by the MCP server. What a calling agent says is never an approval: what needs one
//! follows the flags of the command line, or the request is given up to the process in which its user answers.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::error::RequestError;
use super::progress::ProgressReport;
use super::status::{self, TaskStatus};
use crate::cli::arguments::Unattended;
use crate::cli::session::SessionContext;
use crate::cli::{CliError, run, tasks};
use crate::live_settings::LiveSettings;
use crate::masking::Mask;
use crate::shell_word::shell_word;
use crate::view::{MessageRole, RECOVERED, RequestView, Update, newest_tree, waits_for_user};
use roo_engine::customization::Customization;
use roo_engine::engine::{Decider, Engine, EngineError, Follower, Resumable};
use roo_engine::mentions::{self, MentionKind};
use roo_engine::server_tools::DECLINE;
use roo_protocol::event::{Event, EventParams, OptionKind, QuestionKind};
use roo_protocol::ids::{QuestionId, TaskId};
use roo_protocol::task::{
    ContextItem, PendingApproval, PendingQuestion, QuestionAnswerParams, SendWhen, TaskSendParams,
    TaskStartParams, TaskState,
};
use roo_text::render::one_line;
use roo_workspace::{Purpose, Workspace};

/// The longest line about what is being done, in characters.
const LINE: usize = 200;
/// Time limit for a cancelled request to end.
const CANCEL: Duration = Duration::from_secs(10);
/// The most requests that are at work at once.
const MAX_RUNNING_REQUESTS: usize = 16;
/// Name of calling agents, in events.
const CALLER: &str = "mcp";

/// What is known of a request that was started here, for those who wait for it.
#[derive(Clone, Debug, Default)]
struct Progress {
    /// True while this process drives it.
    is_driven: bool,
    /// True if nothing in it goes on by itself.
    is_at_rest: bool,
    /// Number of lines so far.
    step: u64,
    /// What is being done, of any length.
    line: String,
}

/// A request that was started here.
struct OwnRequest {
    /// Held while somebody changes who drives it, or what it is told.
    steering: tokio::sync::Mutex<()>,
    progress: watch::Sender<Progress>,
    /// Its share of what may be at work at once; none while it is at rest.
    slot: Mutex<Option<OwnedSemaphorePermit>>,
    /// Approvals and questions that were answered here, while the events don't tell of it yet.
    answered: Mutex<HashSet<String>>,
}

impl OwnRequest {
    fn new() -> Arc<Self> {
        let (steering, progress) = (tokio::sync::Mutex::default(), watch::Sender::default());
        Arc::new(Self { steering, progress, slot: Mutex::default(), answered: Mutex::default() })
    }

    fn slot(&self) -> MutexGuard<'_, Option<OwnedSemaphorePermit>> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answered(&self) -> MutexGuard<'_, HashSet<String>> {
        self.answered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn works(&self, slot: Option<OwnedSemaphorePermit>) {
        if slot.is_some() {
            *self.slot() = slot;
        }
        self.progress.send_modify(|progress| (progress.is_driven, progress.is_at_rest) = (true, false));
    }

    fn rests(&self, is_driven: bool) {
        self.slot().take();
        self.progress.send_modify(|progress| (progress.is_driven, progress.is_at_rest) = (is_driven, true));
    }

    fn report(&self, line: String) {
        self.progress.send_modify(|progress| {
            progress.step += 1;
            progress.line = line;
        });
    }
}

/// A request to be started.
pub(super) struct NewRequest {
    pub(super) prompt: String,
    pub(super) mode: Option<String>,
    pub(super) profile: Option<String>,
    /// Paths of files that it is about.
    pub(super) files: Vec<String>,
}

/// The requests of the workspace, for calling agents.
pub(super) struct Requests {
    pub(super) engine: Arc<Engine>,
    pub(super) context: SessionContext,
    settings: Arc<LiveSettings>,
    customization: Arc<Customization>,
    on_ask: Unattended,
    slots: Arc<Semaphore>,
    own: Mutex<HashMap<TaskId, Arc<OwnRequest>>>,
}

impl Requests {
    pub(super) fn new(
        engine: Engine,
        context: SessionContext,
        settings: Arc<LiveSettings>,
        customization: Arc<Customization>,
        on_ask: Unattended,
    ) -> Arc<Self> {
        let (engine, own) = (Arc::new(engine), Mutex::default());
        let slots = Arc::new(Semaphore::new(MAX_RUNNING_REQUESTS));
        Arc::new(Self { engine, context, settings, customization, on_ask, slots, own })
    }

    fn own(&self) -> MutexGuard<'_, HashMap<TaskId, Arc<OwnRequest>>> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The mask of secrets, as the settings want it now. Reads the disk.
    pub(super) async fn mask(&self) -> Result<Mask, RequestError> {
        let (enabled, folder) = (self.engine.settings().await.redact_secrets, self.context.folder.clone());
        let read = tokio::task::spawn_blocking(move || Mask::new(enabled, std::iter::once(&*folder))).await;
        read.map_err(|_| RequestError::Ending)
    }

    /// The task of this name.
    pub(super) async fn find(&self, name: &str) -> Result<TaskId, RequestError> {
        match tasks::find(&self.engine, name).await {
            Ok(task) => Ok(task),
            Err(CliError::Engine(error)) => Err(error.into()),
            Err(error) => Err(RequestError::Unknown(error.to_string())),
        }
    }

    /// Starts a request and drives it from now on.
    pub(super) async fn start(self: &Arc<Self>, new: NewRequest) -> Result<TaskStatus, RequestError> {
        self.check_trust().await?;
        self.check_mentions(&new.prompt).await?;
        let slot = self.free_slot()?;
        let requests = Arc::clone(self);
        let starting = tokio::task::spawn_blocking(move || requests.start_blocking(new));
        let task = starting.await.map_err(|_| RequestError::Ending)??;
        let follower = self.engine.follow(&task, 0).await?;
        let own = OwnRequest::new();
        own.works(Some(slot));
        self.own().insert(task.clone(), Arc::clone(&own));
        tokio::spawn(Arc::clone(self).drive(own, follower));
        self.status(&task).await
    }

    /// A share of what may be at work at once.
    fn free_slot(&self) -> Result<OwnedSemaphorePermit, RequestError> {
        Arc::clone(&self.slots)
            .try_acquire_owned()
            .map_err(|_| RequestError::Full { most: MAX_RUNNING_REQUESTS })
    }

    fn start_blocking(&self, new: NewRequest) -> Result<TaskId, RequestError> {
        let NewRequest { prompt, mode, profile, files } = new;
        let settings = self.settings.read_blocking();
        run::check(&settings.settings, &self.customization, mode.as_deref(), profile.as_deref())
            .map_err(|error| RequestError::Invalid(error.to_string()))?;
        let workspace = self.engine.workspace();
        let context: Result<Vec<_>, _> = files.iter().map(|file| context_item(workspace, file)).collect();
        let params =
            TaskStartParams { prompt, mode, profile, context: context?, ..TaskStartParams::default() };
        Ok(self.engine.start(params)?.task_id)
    }

    async fn check_trust(&self) -> Result<(), RequestError> {
        let customization = Arc::clone(&self.customization);
        let trust = tokio::task::spawn_blocking(move || customization.trust()).await;
        match trust.map_err(|_| RequestError::Ending)?.trusted {
            true => Ok(()),
            false => Err(RequestError::Untrusted { folder: self.folder_in_shell() }),
        }
    }

    /// The workspace folder as a word of a command line.
    pub(super) fn folder_in_shell(&self) -> String {
        shell_word(&self.context.folder.to_string_lossy())
    }

    /// Refuses what a message would fetch without a question because its user wrote it: another agent did.
    async fn check_mentions(&self, text: &str) -> Result<(), RequestError> {
        let reads = self.engine.settings().await.auto_approve.read;
        for mention in mentions::parse(text) {
            let is_users = match mention.kind {
                MentionKind::ServerPrompt { .. } | MentionKind::ServerResource { .. } => true,
                MentionKind::Path { .. }
                | MentionKind::Symbol { .. }
                | MentionKind::Problems
                | MentionKind::GitChanges
                | MentionKind::Commit { .. } => !reads,
                MentionKind::Terminal | MentionKind::Url | MentionKind::Command { .. } => false,
            };
            if is_users {
                let name = text.get(mention.range.clone()).unwrap_or_default();
                return Err(RequestError::Mention(one_line(name, LINE)));
            }
        }
        Ok(())
    }

    /// Returns whether a task's request was started here.
    pub(super) fn is_own(&self, task: &TaskId) -> bool {
        self.own().contains_key(&task.root())
    }

    /// A request that was started here.
    fn yours(&self, task: &TaskId, name: &str) -> Result<Arc<OwnRequest>, RequestError> {
        let own = self.own().get(&task.root()).cloned();
        own.ok_or_else(|| RequestError::NotYours { id: one_line(name, LINE), folder: self.folder_in_shell() })
    }

    /// State of a task's request.
    pub(super) async fn status(&self, task: &TaskId) -> Result<TaskStatus, RequestError> {
        let task = task.root();
        let progress = self.own().get(&task).map(|own| own.progress.borrow().clone());
        let is_driven = progress.is_some_and(|progress| progress.is_driven);
        let mask = self.mask().await?;
        status::read(&self.engine, &task, is_driven, &self.folder_in_shell(), &mask).await
    }

    /// Waits until nothing in a request goes on by itself, at most so long, and returns its state. The caller is told what is
    /// done meanwhile if it wants to be. What another process drives is looked at when the time is over.
    pub(super) async fn wait(
        &self,
        task: &TaskId,
        limit: Duration,
        cancelled: &CancellationToken,
        report: Option<ProgressReport>,
    ) -> Result<TaskStatus, RequestError> {
        let end = Instant::now() + limit;
        let own = self.own().get(&task.root()).cloned();
        let progress = own.map(|own| own.progress.subscribe());
        let Some(mut progress) = progress.filter(|progress| progress.borrow().is_driven) else {
            if self.status(task).await?.is_open_elsewhere() {
                tokio::select! {
                    () = tokio::time::sleep_until(end) => {}
                    () = cancelled.cancelled() => return Err(RequestError::Cancelled),
                }
            }
            return self.status(task).await;
        };
        let (mask, mut reported) = (self.mask().await?, 0);
        loop {
            let Progress { is_at_rest, step, line, .. } = progress.borrow_and_update().clone();
            if is_at_rest {
                break;
            }
            if let Some(report) = report.as_ref().filter(|_| step > reported) {
                reported = step;
                report.send(step, one_line(&mask.masked(line), LINE)).await;
            }
            tokio::select! {
                // The request holds the sender.
                _ = progress.changed() => {}
                () = tokio::time::sleep_until(end) => break,
                () = cancelled.cancelled() => return Err(RequestError::Cancelled),
            }
        }
        self.status(task).await
    }

    /// Answers what a request asks the caller, or tells it more. Nothing that its user has to answer is answered by that.
    pub(super) async fn answer(
        self: &Arc<Self>,
        name: &str,
        text: String,
        question: Option<String>,
    ) -> Result<TaskStatus, RequestError> {
        let task = self.find(name).await?.root();
        let own = self.yours(&task, name)?;
        self.check_trust().await?;
        self.check_mentions(&text).await?;
        let steering = own.steering.lock().await;
        let about = |error| RequestError::about(name, error);
        let Resumable { approvals, questions, seq, .. } = self.engine.resumable(&task).await?;
        let (callers, users): (Vec<_>, Vec<_>) =
            questions.into_iter().partition(|(_, question)| !question.kind.is_for_user_alone());
        let chosen = match (question, callers.as_slice()) {
            (Some(wanted), _) => {
                let found = callers.iter().find(|(_, asked)| asked.question_id.as_str() == wanted);
                let not_asked =
                    || RequestError::NotAsked { id: name.to_owned(), question: one_line(&wanted, LINE) };
                Some(found.ok_or_else(not_asked)?.1.clone())
            }
            (None, [(_, only)]) => Some(only.clone()),
            (None, []) => None,
            (None, several) => {
                let ids: Vec<&str> = several.iter().map(|(_, asked)| asked.question_id.as_str()).collect();
                return Err(RequestError::WhichQuestion { id: name.to_owned(), questions: ids.join(", ") });
            }
        };
        let state = self.engine.get(&task).await?.item.state;
        if chosen.is_none()
            && let Some(what) = users_business(&approvals, &users, &self.mask().await?)
        {
            return Err(RequestError::UsersAnswer(name.to_owned(), what));
        }
        let slot = match own.slot().is_some() {
            true => None,
            false => Some(self.free_slot()?),
        };
        // From before anything is said, so that no event is missed.
        let follower = match own.progress.borrow().is_driven {
            true => None,
            false => Some(self.engine.follow(&task, seq)),
        };
        let follower = match follower {
            Some(follower) => Some(follower.await.map_err(about)?),
            None => None,
        };
        match chosen {
            Some(asked) => self.answer_question(&own, &task, state, asked, text).await.map_err(about)?,
            None => {
                // Never at once: what is asked between the look above and this must not take it for its answer.
                let when = SendWhen::AfterTurn;
                let said = TaskSendParams { task_id: task.clone(), text, images: vec![], when };
                self.engine.send(said).await.map_err(about)?;
            }
        }
        own.works(slot);
        if let Some(follower) = follower {
            tokio::spawn(Arc::clone(self).drive(Arc::clone(&own), follower));
        }
        drop(steering);
        self.status(&task).await
    }

    async fn answer_question(
        &self,
        own: &OwnRequest,
        task: &TaskId,
        state: TaskState,
        asked: PendingQuestion,
        text: String,
    ) -> Result<(), EngineError> {
        if state == TaskState::Interrupted {
            self.engine.resume(task).await?;
            if asked.kind == QuestionKind::ApiReqFailed {
                // To go on was the answer.
                return Ok(());
            }
        }
        self.answer_as(own, asked.question_id, text, CALLER).await
    }

    async fn answer_as(
        &self,
        own: &OwnRequest,
        question_id: QuestionId,
        text: String,
        by: impl Into<Decider>,
    ) -> Result<(), EngineError> {
        let id = question_id.to_string();
        own.answered().insert(id.clone());
        let answer = self.engine.answer(QuestionAnswerParams { question_id, text, images: vec![] }, by).await;
        if !answer.as_ref().is_ok_and(|answer| answer.accepted) {
            own.answered().remove(&id);
        }
        answer.map(drop)
    }

    /// Ends a request with all its branches.
    pub(super) async fn cancel(&self, name: &str) -> Result<TaskStatus, RequestError> {
        let task = self.find(name).await?.root();
        let own = self.yours(&task, name)?;
        let _steering = own.steering.lock().await;
        match tokio::time::timeout(CANCEL, self.engine.cancel_and_wait(&task)).await {
            Ok(Err(error)) => return Err(RequestError::about(name, error)),
            // Before the events tell of it: the caller may start the next task at once.
            Ok(Ok(_)) => drop(own.slot().take()),
            // What takes longer is told by its state.
            Err(_) => {}
        }
        self.status(&task).await
    }

    /// Follows a request that this process drives until it has ended, or until only its user can go on.
    async fn drive(self: Arc<Self>, own: Arc<OwnRequest>, mut follower: Follower) {
        let task = follower.root().clone();
        let mut view = RequestView::default();
        if let Ok(tree) = self.engine.tree(&task).await {
            view.set_tree(&tree.nodes);
        }
        loop {
            let batch = match follower.next(|| self.engine.now()).await {
                Ok(batch) => batch,
                Err(error) => {
                    tracing::warn!(%task, %error, "a request can't be followed any more");
                    return own.rests(false);
                }
            };
            if let Some(nodes) = newest_tree(batch.iter().map(AsRef::as_ref)) {
                view.set_tree(nodes);
            }
            let mut ends = false;
            for params in &batch {
                self.take(&own, &mut view, params).await;
                ends |= params.task_id.is_root()
                    && matches!(&params.event, Event::TaskState { state, .. } if state.is_final());
            }
            let may_rest = waits_for_user(view.tree().nodes()) && own.answered().is_empty();
            if (ends || may_rest) && self.comes_to_rest(&own, &follower).await {
                return;
            }
        }
    }

    /// Takes in an event: tells those who wait, and answers what the flags answer.
    async fn take(&self, own: &OwnRequest, view: &mut RequestView, params: &EventParams) {
        let line = view.apply(params).and_then(|update| line_of(&update));
        if let Some(line) = line {
            let line = match view.tree().name(&params.task_id) {
                Some(branch) => format!("{branch}: {line}"),
                None => line,
            };
            own.report(line);
        }
        let answered = match &params.event {
            Event::ApprovalRequested { approval } => self.answer_approval(own, approval).await,
            Event::QuestionAsked { question } if question.kind == QuestionKind::McpElicitation => {
                // It is for the user alone, who is not here. The call goes on, and the server is told.
                let id = question.question_id.clone();
                self.answer_as(own, id, DECLINE.to_owned(), Decider::Unattended).await
            }
            Event::ApprovalResolved { approval_id, .. } => {
                own.answered().remove(approval_id.as_str());
                Ok(())
            }
            Event::QuestionAnswered { question_id, .. } => {
                own.answered().remove(question_id.as_str());
                Ok(())
            }
            _ => Ok(()),
        };
        if let Err(error) = answered {
            tracing::warn!(task = %params.task_id, %error, "a question of a task was not answered");
        }
    }

    /// Answers an approval as the user of the command line wants it.
    async fn answer_approval(&self, own: &OwnRequest, approval: &PendingApproval) -> Result<(), EngineError> {
        let (kind, by) = match self.on_ask {
            Unattended::Wait => return Ok(()),
            Unattended::Deny => (OptionKind::RejectOnce, Decider::Unattended),
            Unattended::Allow => (OptionKind::AllowOnce, "--on-ask allow".into()),
        };
        let Some(answer) = approval.answer_by(kind) else { return Ok(()) };
        let id = approval.approval_id.to_string();
        own.answered().insert(id.clone());
        let answer = self.engine.respond(answer, by).await;
        if !answer.as_ref().is_ok_and(|answer| answer.accepted) {
            own.answered().remove(&id);
        }
        answer.map(drop)
    }

    /// Returns whether this process has nothing more to do for a request: it has ended, or only its user can answer, who does
    /// so in another process. Where the caller can answer, the request is at rest and stays here.
    async fn comes_to_rest(&self, own: &OwnRequest, follower: &Follower) -> bool {
        let _steering = own.steering.lock().await;
        let task = follower.root();
        let Ok(Resumable { seq, nodes, approvals, questions, .. }) = self.engine.resumable(task).await else {
            return false;
        };
        if nodes.first().is_some_and(|root| root.state.is_final()) {
            own.rests(false);
            return true;
        }
        // What is followed may be a little behind; then the rest is looked at too.
        if seq > follower.position() || !waits_for_user(&nodes) || !own.answered().is_empty() {
            return false;
        }
        let is_users =
            !approvals.is_empty() || questions.iter().any(|(_, asked)| asked.kind.is_for_user_alone());
        if is_users {
            self.engine.release(task).await;
        }
        own.rests(!is_users);
        is_users
    }
}

/// Names a file of the workspace for a prompt.
fn context_item(workspace: &Workspace, file: &str) -> Result<ContextItem, RequestError> {
    let place = workspace.resolve(file, Purpose::Read);
    let place = place.map_err(|error| RequestError::File(one_line(file, LINE), error.to_string()))?;
    Ok(ContextItem { uri: place.uri(), range: None })
}

/// Says what only the user can answer.
fn users_business(
    approvals: &[(TaskId, PendingApproval)],
    questions: &[(TaskId, PendingQuestion)],
    mask: &Mask,
) -> Option<String> {
    let line = |text: &str| one_line(&mask.masked(text.to_owned()), LINE);
    let approvals = approvals.iter().map(|(_, approval)| format!("permission to {}", line(&approval.title)));
    let questions = questions.iter().map(|(_, asked)| line(&asked.text));
    let all: Vec<String> = approvals.chain(questions).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// What is being done, in a line.
fn line_of(update: &Update<'_>) -> Option<String> {
    Some(match update {
        Update::Created { title, mode, .. } => format!("begins in the mode {mode}: {title}"),
        Update::CallStarted { target, .. } => format!("{} {}", target.name, target.subject).trim().to_owned(),
        Update::CallFinished { result, .. } => format!("{} {}", result.ending().mark(), result.summary),
        Update::Message { message, role: MessageRole::Answer } => message.text.trim().to_owned(),
        Update::ApprovalRequested(approval) => format!("asks its user for permission: {}", approval.title),
        Update::QuestionAsked(question) => format!("asks: {}", question.text),
        Update::RetryScheduled { reason, .. } => format!("waits for the model: {reason}"),
        Update::State { state, reason, .. } => match reason {
            Some(reason) => format!("{}: {reason}", state.as_str()),
            None => state.as_str().to_owned(),
        },
        Update::Warning { reason } => (*reason).to_owned(),
        Update::Recovered => RECOVERED.to_owned(),
        _ => return None,
    })
}
