//! Messages and questions for a plain client's user: approvals and questions as message requests where the client has
//! them, the ends of requests as messages. A branch asks by its name; its end is its parent's business.
//!
//! A popup is one way to answer among others. It only brings the question; the first answer counts,
//! wherever it comes from. A popup that is closed answers nothing.
//!
//! There is one popup at a time: some clients put the next one over it, where a key that is meant for one answers the other.
//! A popup that is no longer needed is taken away, and only when the client has let go of it comes the next one. Where the
//! client does not, what waits behind it comes as a message.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tower_lsp::jsonrpc::{Error, ErrorCode};
use tower_lsp::ls_types::MessageType;

use super::answer_outcome::{answer_in_words, resume_after_answer, void_in_words};
use super::popup::{PATIENCE, show_popup};
use super::session::{MESSAGE, Session, WorkspaceServices};
use super::subscription::Requests;
use super::{commands, customization, task_document};
use crate::view::{BranchTree, RECOVERED, newest_tree};
use roo_engine::customization::{Customization, Grant};
use roo_engine::engine::EngineError;
use roo_protocol::customization::{PendingKind, PendingTrust, TrustReport};
use roo_protocol::event::{ApprovalOption, Event, EventParams, OptionKind, Suggestion};
use roo_protocol::ids::{Digest, TaskId};
use roo_protocol::rule::RuleSubject;
use roo_protocol::task::{
    ApprovalRespondParams, PendingApproval, PendingQuestion, QuestionAnswerParams, TaskState,
};
use roo_text::render::{exact_line, one_line};

/// The harmless first choices: an editor may take the first one at a stray key.
const SHOW_DETAILS: &str = "Show details";
const SHOW_TASK: &str = "Show the task";
const LATER: &str = "Later";
const BACK: &str = "Back";
const TRUST: &str = "Trust this workspace";
const APPROVE: &str = "Approve this version";
const LET_DELEGATE: &str = "Yes, let them delegate";
const NO_DELEGATION: &str = "No";
/// Time that an interrupted request has to go on before its user is told that it is interrupted: whoever answers or resumes it
/// brings it to life by that.
const RESUME_GRACE: Duration = Duration::from_secs(1);
/// No id of a task's question.
const TRUST_ID: &str = "trust";

/// Something that the user is asked.
#[derive(Clone, Debug)]
enum UserPrompt {
    Approval(Asker, PendingApproval),
    Question(Asker, PendingQuestion),
    /// Trust in the workspace's files that steer agents, by paths.
    Trust(Vec<String>),
    /// What a file waits for that counts only with the user's answer.
    File(FileQuestion),
}

/// A question about the current version of a file.
#[derive(Clone, Debug)]
struct FileQuestion {
    /// Differs from that of another version of the file, and from those of tasks' questions.
    id: String,
    path: String,
    digest: Digest,
    about: FileTopic,
}

/// What a question about a file is about.
#[derive(Clone, Debug)]
enum FileTopic {
    /// Whether it may give what it would, one line each.
    Approval(Vec<String>),
    /// Whether its modes may delegate to each other.
    Delegation(Vec<String>),
}

impl FileQuestion {
    /// The questions that wait for an answer.
    fn all(report: TrustReport) -> Vec<UserPrompt> {
        let teams = [report.delegation, report.own_delegation];
        let modes_of =
            |path: &str| teams.iter().flatten().find(|team| team.path == path).map(|team| team.modes.clone());
        let question = |waiting: PendingTrust| {
            let PendingTrust { path, digest, kind, widens } = waiting;
            let about = match kind {
                PendingKind::File => FileTopic::Approval(widens),
                PendingKind::Delegation => FileTopic::Delegation(modes_of(&path)?),
            };
            Some(UserPrompt::File(Self { id: format!("{path} {digest}"), path, digest, about }))
        };
        report.pending_approvals.into_iter().filter_map(question).collect()
    }

    fn text(&self) -> String {
        let path = exact_line(&self.path);
        match &self.about {
            FileTopic::Approval(widens) => {
                let widens: Vec<String> = widens.iter().map(|line| exact_line(line)).collect();
                format!("Roo: approve {path} as it is now? {}", widens.join("; "))
            }
            FileTopic::Delegation(modes) => format!(
                "Roo: may the modes of {path} delegate to each other, as in Roo Code? None has `canDelegateTo`: {}",
                modes.join(", ")
            ),
        }
    }

    fn answers(&self) -> &'static [&'static str] {
        match &self.about {
            FileTopic::Approval(_) => &[APPROVE],
            FileTopic::Delegation(_) => &[LET_DELEGATE, NO_DELEGATION],
        }
    }

    /// What an answer grants; none where it puts the question off.
    fn grant(&self, answer: &str) -> Option<Grant> {
        match answer {
            APPROVE | LET_DELEGATE => {
                Some(Grant::File { path: self.path.clone(), digest: Some(self.digest) })
            }
            NO_DELEGATION => Some(Grant::RefusedDelegation { digest: self.digest }),
            _ => None,
        }
    }
}

/// Client that asks.
#[derive(Clone, Debug)]
struct Asker {
    root: TaskId,
    /// The name of the branch; none for the request's own task.
    branch: Option<String>,
}

impl Asker {
    fn asks(&self) -> String {
        match &self.branch {
            Some(branch) => format!("roo {branch} asks"),
            None => "roo asks".to_owned(),
        }
    }
}

impl UserPrompt {
    fn from_event(event: &EventParams, branch: Option<String>) -> Option<Self> {
        let asker = Asker { root: event.root_id.clone(), branch };
        match event.event.clone() {
            Event::ApprovalRequested { approval } => Some(Self::Approval(asker, approval)),
            Event::QuestionAsked { question } => Some(Self::Question(asker, question)),
            _ => None,
        }
    }

    fn id(&self) -> &str {
        match self {
            Self::Approval(_, approval) => approval.approval_id.as_str(),
            Self::Question(_, question) => question.question_id.as_str(),
            Self::Trust(_) => TRUST_ID,
            Self::File(question) => &question.id,
        }
    }

    /// The user is being asked.
    fn note_shown(&self, session: &Session) {
        if let Self::Approval(_, approval) = self {
            session.shown_approvals.note(approval);
        }
    }

    /// Returns it on one line. An approval is cut, for its details can be shown; what else is asked is answered by this text
    /// alone. `waiting` is how many others wait behind it.
    fn text(&self, waiting: usize) -> String {
        let number = if waiting == 0 { String::new() } else { format!(" (1 of {})", waiting + 1) };
        let text = match self {
            Self::Approval(asker, approval) => {
                let text = format!("{}{number}: {} ({})", asker.asks(), approval.title, approval.reason);
                return one_line(&text, MESSAGE);
            }
            Self::Question(asker, question) => format!("{}{number}: {}", asker.asks(), question.text),
            Self::Trust(brings) => {
                format!(
                    "Roo: trust this workspace? These files in it would steer agents: {}",
                    brings.join(", ")
                )
            }
            Self::File(question) => question.text(),
        };
        one_line(&text, usize::MAX)
    }

    /// Asks it without a popup.
    fn message(&self) -> String {
        format!("{} {}", self.text(0), self.hint())
    }

    /// Explains how to answer without a popup.
    fn hint(&self) -> &'static str {
        match self {
            Self::Approval(..) => "Run roo.approve, roo.deny or roo.showDiff.",
            Self::Question(..) => "Run roo.answer with your answer.",
            Self::Trust(_) => "Run roo.trustWorkspace if you trust it.",
            Self::File(_) => "Run roo.trustWorkspace with the file's path to answer.",
        }
    }

    /// `opened` says that the user has seen all of it.
    fn choices(&self, opened: bool) -> Vec<String> {
        let (first, others): (_, Vec<String>) = match self {
            Self::Approval(_, approval) => {
                (SHOW_DETAILS, offered(approval, opened).map(|option| option.name.clone()).collect())
            }
            Self::Question(_, question) => {
                let labels = question.suggestions.iter().map(Suggestion::label);
                // An editor may not have enough space for all of it, and the task document has.
                match is_long(question) {
                    true => (SHOW_TASK, std::iter::once(LATER.to_owned()).chain(labels).collect()),
                    false => (LATER, labels.collect()),
                }
            }
            Self::Trust(_) => (LATER, vec![TRUST.to_owned()]),
            Self::File(question) => {
                (LATER, question.answers().iter().map(|answer| (*answer).to_owned()).collect())
            }
        };
        std::iter::once(first.to_owned()).chain(others).collect()
    }
}

fn is_long(question: &PendingQuestion) -> bool {
    question.text.chars().count() > MESSAGE
}

/// Result of a popup.
enum Closed {
    /// It was answered, or nobody waits for the answer any more.
    Done,
    /// The user looked, and is to be asked again.
    Again,
    /// It was closed without an answer.
    Dismissed,
    /// The client has no popups.
    Unsupported,
}

enum Notice {
    /// With the name of the branch that it is about.
    Event(Arc<EventParams>, Option<String>),
    Closed(UserPrompt, Closed),
    /// A task has asked it before this client was there.
    Waits(UserPrompt),
    /// A request has had its time to go on.
    Interrupted(TaskId),
    /// The user has granted or revoked trust, wherever they were asked.
    TrustChanged,
    /// The client keeps a popup that was taken away, and others wait behind it.
    Silenced,
}

/// Tells and asks, for every request that comes to live here.
pub(super) async fn accompany(
    session: Arc<Session>,
    services: Arc<WorkspaceServices>,
    mut requests: Requests,
) {
    let (sender, notices) = mpsc::unbounded_channel();
    let delivery = Delivery::new(Arc::clone(&session), Arc::clone(&services), sender.clone());
    session.spawn(delivery.run(notices));
    for prompt in asked_before(&services).await {
        let _ = sender.send(Notice::Waits(prompt));
    }
    let known = requests.known();
    while let Some(mut follower) = requests.next(&services.engine).await {
        let (session, sender, known) = (Arc::clone(&session), sender.clone(), known.clone());
        session.clone().spawn(async move {
            let mut tree = BranchTree::default();
            while let Ok(batch) = follower.next(|| session.process.clock.now()).await {
                if let Some(nodes) = newest_tree(batch.iter().map(AsRef::as_ref)) {
                    tree.set(nodes);
                }
                for event in batch.into_iter().filter(|event| is_of_interest(event)) {
                    let branch = tree.name(&event.task_id);
                    // Both ends live as long as the session.
                    let _ = sender.send(Notice::Event(event, branch));
                }
            }
            known.forget(follower.root());
        });
    }
}

/// What the requests ask that other clients have started, and that nobody has answered yet.
async fn asked_before(services: &WorkspaceServices) -> Vec<UserPrompt> {
    let mut prompts = Vec::new();
    for journal in services.engine.journals() {
        let root = journal.root();
        let Ok(known) = services.engine.resumable(root).await else { continue };
        // What an interrupted request has asked is asked again when it goes on.
        if known.nodes.first().is_none_or(|node| node.state == TaskState::Interrupted) {
            continue;
        }
        let mut tree = BranchTree::default();
        tree.set(&known.nodes);
        let asker = |task: &TaskId| Asker { root: root.clone(), branch: tree.name(task) };
        prompts.extend(known.approvals.into_iter().map(|(task, it)| UserPrompt::Approval(asker(&task), it)));
        prompts.extend(known.questions.into_iter().map(|(task, it)| UserPrompt::Question(asker(&task), it)));
    }
    prompts
}

fn is_of_interest(params: &EventParams) -> bool {
    match &params.event {
        Event::ApprovalRequested { .. }
        | Event::ApprovalResolved { .. }
        | Event::QuestionAsked { .. }
        | Event::QuestionAnswered { .. }
        | Event::ServerDegraded { .. }
        | Event::ServerRecovered => true,
        Event::TaskState { .. } => params.task_id == params.root_id,
        _ => false,
    }
}

struct Delivery {
    session: Arc<Session>,
    services: Arc<WorkspaceServices>,
    notices: mpsc::UnboundedSender<Notice>,
    popups: bool,
    /// Still to be asked, oldest first.
    waiting: VecDeque<UserPrompt>,
    /// The ids of what was found waiting at the start. Their events may come as well.
    found_waiting: HashSet<String>,
    /// The ids of what was asked about the workspace's trust and its files, and has no answer. It is asked once for each
    /// start: what was put off comes again next time.
    asked_of_workspace: HashSet<String>,
    /// The ids of what waits and was told as a message meanwhile.
    told: HashSet<String>,
    /// What is to be told of requests that are interrupted, unless they go on at once.
    interrupted: HashMap<TaskId, String>,
    open: Option<OpenPopup>,
}

/// A popup that the client has not answered yet.
struct OpenPopup {
    id: String,
    /// Its question was answered elsewhere.
    settled: CancellationToken,
    /// When that was; none where it still waits for its answer.
    settled_at: Option<Instant>,
}

impl Delivery {
    fn new(
        session: Arc<Session>,
        services: Arc<WorkspaceServices>,
        notices: mpsc::UnboundedSender<Notice>,
    ) -> Self {
        let popups = session.negotiated().is_some_and(|negotiated| negotiated.popups);
        Self {
            session,
            services,
            notices,
            popups,
            waiting: VecDeque::new(),
            found_waiting: HashSet::new(),
            asked_of_workspace: HashSet::new(),
            told: HashSet::new(),
            interrupted: HashMap::new(),
            open: None,
        }
    }

    async fn run(mut self, mut notices: mpsc::UnboundedReceiver<Notice>) {
        let mut trust = self.session.trust_changes.subscribe();
        self.ask_of_workspace(true).await;
        loop {
            while self.open.is_none()
                && let Some(next) = self.waiting.pop_front()
            {
                self.ask(next).await;
            }
            let notice = tokio::select! {
                // What follows from an answer about trust comes before what tasks ask.
                biased;
                // The session has the sender, so there is always one.
                _ = trust.changed() => Some(Notice::TrustChanged),
                notice = notices.recv() => notice,
                () = self.silenced() => Some(Notice::Silenced),
            };
            let Some(notice) = notice else { return };
            if matches!(notice, Notice::Event(..)) && self.asks_for_trust() {
                // Another program may have been told.
                let is_trusted = customization::ask(&self.services, Customization::is_trusted).await;
                if matches!(is_trusted, Ok(true)) {
                    self.ask_of_workspace(false).await;
                }
            }
            match notice {
                Notice::TrustChanged => self.ask_of_workspace(false).await,
                Notice::Silenced => self.tell_what_waits().await,
                Notice::Event(event, branch) => self.on_event(&event, branch).await,
                Notice::Closed(asked, closed) => self.on_closed(asked, closed).await,
                Notice::Interrupted(root) => {
                    if let Some(message) = self.interrupted.remove(&root) {
                        self.session.tell(MessageType::WARNING, &message).await;
                    }
                }
                Notice::Waits(asked) => {
                    self.found_waiting.insert(asked.id().to_owned());
                    self.waiting.push_back(asked);
                }
            }
        }
    }

    /// Asks about the trust in the workspace, or about files that wait for an answer, and takes back what is no longer a
    /// question. Trust itself is asked about at the start alone: who has just revoked it needs no question.
    async fn ask_of_workspace(&mut self, at_start: bool) {
        let report = customization::ask(&self.services, |customization| customization.trust()).await;
        let Ok(report) = report else { return };
        let questions = match at_start && !report.trusted && !report.brings.is_empty() {
            true => vec![UserPrompt::Trust(report.brings)],
            false => FileQuestion::all(report),
        };
        let ids: HashSet<String> = questions.iter().map(|question| question.id().to_owned()).collect();
        let asked = std::mem::take(&mut self.asked_of_workspace);
        for id in asked.difference(&ids) {
            self.settle(id);
        }
        // They decide what agents are told, so they come before what agents ask.
        for question in questions.into_iter().rev().filter(|question| !asked.contains(question.id())) {
            self.waiting.push_front(question);
        }
        self.asked_of_workspace = ids;
    }

    /// Returns when the client has had its time to let go of a popup, and the user has not been told of all that waits
    /// behind it.
    async fn silenced(&self) {
        let is_untold = |asked: &UserPrompt| !self.told.contains(asked.id());
        match self.open.as_ref().and_then(|open| open.settled_at) {
            Some(settled_at) if self.waiting.iter().any(is_untold) => {
                sleep_until(settled_at + PATIENCE).await;
            }
            _ => std::future::pending().await,
        }
    }

    /// Tells the user of all that waits, once. It comes as a popup all the same when the client lets go of the other one.
    async fn tell_what_waits(&mut self) {
        for asked in &self.waiting {
            if self.told.insert(asked.id().to_owned()) {
                self.tell_waits(asked).await;
            }
        }
    }

    /// Returns whether the question about trust is open, or waits.
    fn asks_for_trust(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.id == TRUST_ID)
            || self.waiting.iter().any(|asked| asked.id() == TRUST_ID)
    }

    async fn on_event(&mut self, event: &EventParams, branch: Option<String>) {
        match &event.event {
            Event::ApprovalResolved { approval_id, .. } => self.settle(approval_id.as_str()),
            Event::QuestionAnswered { question_id, .. } => self.settle(question_id.as_str()),
            Event::TaskState { state, result, reason, .. } => {
                let told = ending(*state, result.as_deref(), reason.as_deref());
                self.interrupted.remove(&event.root_id);
                match told {
                    Some((_, message)) if *state == TaskState::Interrupted => {
                        self.tell_unless_resumed(event.root_id.clone(), message);
                    }
                    Some((kind, message)) => self.session.tell(kind, &message).await,
                    None => {}
                }
            }
            Event::ServerDegraded { reason, .. } => self.session.tell(MessageType::WARNING, reason).await,
            Event::ServerRecovered => self.session.tell(MessageType::INFO, RECOVERED).await,
            _ => {
                let asked = UserPrompt::from_event(event, branch);
                self.waiting.extend(asked.filter(|asked| !self.found_waiting.contains(asked.id())));
            }
        }
    }

    /// Tells that a request is interrupted if it still is in a moment.
    fn tell_unless_resumed(&mut self, root: TaskId, message: String) {
        self.interrupted.insert(root.clone(), message);
        let notices = self.notices.clone();
        self.session.spawn(async move {
            tokio::time::sleep(RESUME_GRACE).await;
            // Both ends live as long as the session.
            let _ = notices.send(Notice::Interrupted(root));
        });
    }

    /// This question is gone.
    fn settle(&mut self, id: &str) {
        self.waiting.retain(|asked| asked.id() != id);
        self.told.remove(id);
        if let Some(open) = self.open.as_mut().filter(|open| open.id == id) {
            open.settled.cancel();
            open.settled_at.get_or_insert_with(Instant::now);
        }
    }

    async fn on_closed(&mut self, asked: UserPrompt, closed: Closed) {
        let is_settled = self.open.take().is_none_or(|open| open.settled.is_cancelled());
        if matches!(closed, Closed::Unsupported) {
            self.popups = false;
        }
        if is_settled {
            return;
        }
        match closed {
            Closed::Done => {}
            Closed::Again => self.waiting.push_front(asked),
            Closed::Dismissed | Closed::Unsupported => self.tell_waits(&asked).await,
        }
    }

    async fn ask(&mut self, asked: UserPrompt) {
        if !self.popups {
            self.tell_waits(&asked).await;
            return;
        }
        let waiting = match asked {
            UserPrompt::Trust(_) | UserPrompt::File(_) => 0,
            UserPrompt::Approval(..) | UserPrompt::Question(..) => self.waiting.len(),
        };
        let settled = CancellationToken::new();
        self.open = Some(OpenPopup { id: asked.id().to_owned(), settled: settled.clone(), settled_at: None });
        let (session, services) = (Arc::clone(&self.session), Arc::clone(&self.services));
        let notices = self.notices.clone();
        self.session.spawn(async move {
            let closed = popup(&session, &services, &asked, waiting, &settled).await;
            // Both ends live as long as the session.
            let _ = notices.send(Notice::Closed(asked, closed));
        });
    }

    async fn tell_waits(&self, asked: &UserPrompt) {
        asked.note_shown(&self.session);
        self.session.client.show_message(MessageType::INFO, asked.message()).await;
    }
}

/// Returns the message for a request's end; none while it continues.
fn ending(state: TaskState, result: Option<&str>, reason: Option<&str>) -> Option<(MessageType, String)> {
    let detail =
        result.or(reason).map(|detail| format!(": {}", one_line(detail, MESSAGE))).unwrap_or_default();
    let (kind, advice) = match state {
        TaskState::Completed | TaskState::Cancelled => (MessageType::INFO, ""),
        TaskState::Failed => (MessageType::ERROR, ""),
        TaskState::Interrupted => (MessageType::WARNING, ". Run roo.resume to continue."),
        TaskState::Running | TaskState::Waiting | TaskState::Paused => return None,
    };
    Some((kind, format!("{}{detail}{advice}", state.as_str())))
}

/// Asks once, and passes the answer on.
async fn popup(
    session: &Arc<Session>,
    services: &Arc<WorkspaceServices>,
    asked: &UserPrompt,
    waiting: usize,
    settled: &CancellationToken,
) -> Closed {
    asked.note_shown(session);
    let opened =
        matches!(asked, UserPrompt::Approval(_, approval) if session.shown_approvals.has_in_full(approval));
    let (text, choices) = (asked.text(waiting), asked.choices(opened));
    let meanwhile = asked.message();
    let answer = show_popup(session, MessageType::INFO, text, choices, settled, Some(&meanwhile)).await;
    let choice = match answer {
        Ok(Some(choice)) => choice.title,
        Ok(None) => return Closed::Dismissed,
        Err(Error { code: ErrorCode::MethodNotFound, .. }) => return Closed::Unsupported,
        Err(error) => {
            tracing::info!(%error, "a message request failed");
            return Closed::Dismissed;
        }
    };
    let (outcome, asker, what) = match asked {
        UserPrompt::Approval(asker, approval) => {
            let Some(option) = approval.options.iter().find(|option| option.name == choice) else {
                show_details(session, services, &asker.root, approval).await;
                return Closed::Again;
            };
            if let Some(scope) = &option.scope
                && !confirms(session, scope, &option.name, settled).await
            {
                return Closed::Again;
            }
            let params = ApprovalRespondParams {
                approval_id: approval.approval_id.clone(),
                digest: approval.digest,
                option_id: option.id.clone(),
                opened: session.shown_approvals.has_in_full(approval),
                text: None,
                hunks: vec![],
            };
            (customization::respond(session, services, params).await, asker, &approval.title)
        }
        UserPrompt::Question(asker, question) if is_long(question) && choice == SHOW_TASK => {
            show_task(session, services, &asker.root).await;
            return Closed::Again;
        }
        UserPrompt::Question(asker, question) => {
            let chosen = question.suggestions.iter().find(|suggestion| suggestion.label() == choice);
            let Some(text) = chosen.map(|suggestion| suggestion.text.clone()) else {
                return Closed::Dismissed;
            };
            let question_id = question.question_id.clone();
            let params = QuestionAnswerParams { question_id, text, images: vec![] };
            (services.engine.answer(params, session.decider()).await, asker, &question.text)
        }
        UserPrompt::Trust(_) | UserPrompt::File(_) => {
            let grant = match asked {
                UserPrompt::File(question) => question.grant(&choice),
                _ => (choice == TRUST).then_some(Grant::Workspace),
            };
            if let Some(grant) = grant
                && let Err(error) = customization::grant(session, services, grant).await
            {
                session.tell(MessageType::ERROR, &error.message).await;
            }
            return Closed::Done;
        }
    };
    let told = match outcome {
        Ok(answer) => {
            let goes_on = resume_after_answer(session, services, &asker.root, &answer).await;
            if answer.accepted && goes_on {
                return Closed::Done;
            }
            answer_in_words(&answer, what, goes_on)
        }
        Err(EngineError::NotFound { .. }) => void_in_words(what),
        Err(error) => error.to_string(),
    };
    session.tell(MessageType::INFO, &told).await;
    Closed::Done
}

/// Asks once more before an answer counts that is not about one call alone.
async fn confirms(session: &Session, scope: &str, name: &str, settled: &CancellationToken) -> bool {
    let choices = [BACK, name].map(str::to_owned).into();
    let answer = show_popup(session, MessageType::WARNING, scope.to_owned(), choices, settled, None).await;
    matches!(answer, Ok(Some(choice)) if choice.title == name)
}

/// Returns the options of a popup. To refuse a call for good is a rare wish, and a long row of buttons hides the usual
/// ones.
fn offered(approval: &PendingApproval, opened: bool) -> impl Iterator<Item = &ApprovalOption> {
    let is_offer = approval.rule.as_ref().is_some_and(RuleSubject::is_offer);
    approval.answers(opened).filter(move |option| is_offer || option.kind != OptionKind::RejectAlways)
}

async fn show_details(
    session: &Arc<Session>,
    services: &WorkspaceServices,
    task: &TaskId,
    approval: &PendingApproval,
) {
    let (kind, message) = match commands::open_details(session, services, task, approval).await {
        Ok((_, true)) => return,
        Ok((path, false)) => (MessageType::INFO, format!("the details are in {}", path.display())),
        Err(error) => (MessageType::ERROR, error.message.into_owned()),
    };
    session.tell(kind, &message).await;
}

/// Shows the document of the task that asks, or tells where it is.
async fn show_task(session: &Arc<Session>, services: &Arc<WorkspaceServices>, task: &TaskId) {
    let (kind, message) = match task_document::open(session, services, task).await {
        Ok(path) if commands::show(session, &path, true).await => return,
        Ok(path) => (MessageType::INFO, format!("the task is in {}", path.display())),
        Err(error) => (MessageType::ERROR, error.message.into_owned()),
    };
    session.tell(kind, &message).await;
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt as _;
    use serde_json::json;
    use tower_lsp::jsonrpc::Request;
    use tower_service::Service as _;

    use super::*;
    use crate::server::handlers::service;
    use crate::server::services::ServeGuest;
    use crate::server::session::ProcessServices;
    use crate::server::shared_engines::EngineSource;
    use roo_engine::engine::clock::SystemClock;
    use roo_formats::config::Directories;
    use roo_protocol::event::{ApprovalOption, OptionKind, QuestionKind};
    use roo_protocol::ids::{ApprovalId, Digest, QuestionId, ToolCallId};
    use roo_protocol::task::ToolUsage;

    #[test]
    fn the_first_choice_is_harmless() {
        let option =
            |name: &str, kind| ApprovalOption { id: name.into(), name: name.into(), kind, scope: None };
        let approval = PendingApproval {
            approval_id: ApprovalId::new("t.a1"),
            tool_call_id: ToolCallId::new("c"),
            digest: Digest::of(""),
            title: "Write a".into(),
            subject: String::new(),
            reason: "write".into(),
            options: vec![option("Deny", OptionKind::RejectOnce), option("Allow", OptionKind::AllowOnce)],
            must_open: false,
            rule: None,
            alternative: None,
            reviewable: false,
        };
        let branch = Asker { root: TaskId::new("t"), branch: Some("🪲 Find the cause".into()) };
        let asked = UserPrompt::Approval(branch.clone(), approval.clone());
        assert_eq!(asked.choices(false), ["Show details", "Deny", "Allow"]);
        let long = UserPrompt::Approval(branch, PendingApproval { must_open: true, ..approval });
        assert_eq!(long.choices(false), ["Show details", "Deny"]);
        assert_eq!(long.choices(true), ["Show details", "Deny", "Allow"]);
        assert_eq!(asked.text(0), "roo 🪲 Find the cause asks: Write a (write)");
        let question = PendingQuestion {
            question_id: QuestionId::new("t.q1"),
            kind: QuestionKind::Followup,
            text: "Which?".into(),
            suggestions: vec![Suggestion { text: "this".into(), mode: None }],
            secret: false,
        };
        let asker = Asker { root: TaskId::new("t"), branch: None };
        let asked = UserPrompt::Question(asker.clone(), question.clone());
        assert_eq!(asked.choices(false), ["Later", "this"]);
        assert_eq!(asked.text(0), "roo asks: Which?");
        assert_eq!(asked.text(2), "roo asks (1 of 3): Which?");
        let ways = "There are three ways. ".repeat(20);
        let long = PendingQuestion { text: format!("{ways}\nShall I take the third?"), ..question };
        let asked = UserPrompt::Question(asker, long);
        assert_eq!(asked.choices(false), ["Show the task", "Later", "this"]);
        assert_eq!(asked.text(0), format!("roo asks: {ways}⏎ Shall I take the third?"));
    }

    /// A request is in a state, for a reason that is its name.
    fn in_state(request: &str, state: TaskState) -> Notice {
        let task_id = TaskId::new(request);
        let (reason, tool_usage) = (Some(request.to_owned()), ToolUsage::default());
        let event = Event::TaskState { state, result: None, reason, usage: None, tool_usage };
        let event = EventParams { root_id: task_id.clone(), task_id, seq: None, from: None, at: 0, event };
        Notice::Event(Arc::new(event), None)
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_lets_an_interrupted_request_go_on_in_time_is_not_told_to_resume_it() {
        let directory = tempfile::tempdir().unwrap();
        let below = |name: &str| directory.path().join(name);
        let (config, state) = (below("config"), below("state"));
        let directories = Directories { config, state, home: None, settings_file: None };
        let serve_guest: ServeGuest = |_, _, _, _| Box::pin(async {});
        let process =
            ProcessServices { directories, clock: Arc::new(SystemClock), notice: None, serve_guest };
        let (mut methods, client) = service(process, EngineSource::Own);
        let initialize = Request::build("initialize").params(json!({ "capabilities": {} })).id(1).finish();
        methods.call(initialize).await.unwrap();
        let session = Arc::clone(methods.session());
        let services = Arc::clone(session.services().await.unwrap());
        let (sender, notices) = mpsc::unbounded_channel();
        session.spawn(Delivery::new(Arc::clone(&session), services, sender.clone()).run(notices));

        let told = client.filter_map(async |message| {
            let text = message.params()?["message"].as_str()?.to_owned();
            text.contains("roo.resume").then_some(text)
        });
        let mut told = std::pin::pin!(told);
        sender.send(in_state("answered", TaskState::Interrupted)).unwrap();
        sender.send(in_state("left", TaskState::Interrupted)).unwrap();
        sender.send(in_state("answered", TaskState::Running)).unwrap();
        let begun = Instant::now();
        let first = told.next().await;
        assert_eq!(first.as_deref(), Some("roo: interrupted: left. Run roo.resume to continue."));
        assert_eq!(begun.elapsed(), RESUME_GRACE);
        // What would have been told of the answered one would have come before this.
        sender.send(in_state("later", TaskState::Interrupted)).unwrap();
        let second = told.next().await;
        assert_eq!(second.as_deref(), Some("roo: interrupted: later. Run roo.resume to continue."));
    }

    #[test]
    fn only_the_end_of_a_task_is_told() {
        let told = |state| ending(state, Some("42"), None).map(|(_, message)| message);
        assert_eq!(told(TaskState::Completed).as_deref(), Some("completed: 42"));
        let (_, message) = ending(TaskState::Interrupted, None, Some(&"long ".repeat(99))).unwrap();
        assert!(message.ends_with("…. Run roo.resume to continue."), "{message}");
        assert_eq!(told(TaskState::Running), None);
    }
}
