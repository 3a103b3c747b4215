//! A user, with a client that follows the request: answers what is asked, by plan, and now and then does something
//! unasked.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use roo_durable::simulated_disk::Random;
use roo_engine::engine::{Engine, EngineError};
use roo_protocol::checkpoint::{CheckpointRestoreParams, RestoreConflicts, RestoreScope, RestoreWhat};
use roo_protocol::event::{Event, EventParams, OptionKind};
use roo_protocol::ids::{CommandId, TaskId};
use roo_protocol::task::{
    ApprovalRespondParams, PendingApproval, PendingQuestion, QuestionAnswerParams, SendWhen, TaskSendParams,
    TaskStartParams, TaskState,
};
use tokio::time::{Instant, sleep_until, timeout};

use super::editor::PlannedEditor;
use super::model::FILES;
use super::plan::{End, Part, Plan, numbers};
use super::world::Witness;

/// Time after which a request that nothing happens in must have ended or must wait for its user.
const PATIENCE: Duration = Duration::from_secs(6 * 3600);
/// Time after its end in which a request still says something.
const AFTER_END: Duration = Duration::from_secs(10);
/// Number of events after which a request is thought to go on forever.
const MAX_EVENTS: usize = 4000;

/// How a life ended for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LifeEnd {
    /// The request has ended.
    Finished,
    /// The time has come to kill the server.
    Killed,
    /// The time has come to ask the server to end.
    ShutDown,
    /// The power was lost.
    PowerLost,
    /// Something is wrong.
    Wrong(String),
}

/// What the user will do.
#[derive(Clone, Debug)]
enum Act {
    Respond(PendingApproval, bool),
    Answer(PendingQuestion),
    Resume,
    Send,
    /// The whole request, or one of its tasks.
    Cancel(TaskId),
    Background,
    Stop(TaskId, CommandId),
    EditFile,
    Restore,
    Condense,
}

/// The user, over all lives.
#[derive(Debug)]
pub struct User {
    plan: Plan,
    random: Random,
    witness: Witness,
    editor: Option<Arc<PlannedEditor>>,
    folder: PathBuf,
    task: Option<TaskId>,
    follow_ups: usize,
    /// The number of the last event seen, and of the last that was seen and must survive a loss of power.
    pub seen: u64,
    pub promised: u64,
    /// Number of things done, by name.
    pub acts: BTreeMap<&'static str, u64>,
}

/// What a life has shown.
struct View {
    due: BTreeMap<(Instant, usize), Act>,
    acts: usize,
    approvals: BTreeMap<String, PendingApproval>,
    questions: BTreeMap<String, PendingQuestion>,
    state: Option<TaskState>,
    /// The tasks that have not ended.
    open: BTreeSet<TaskId>,
    last: u64,
    events: usize,
    /// The last cancellation counts as the end of all patience.
    gave_up: usize,
}

impl User {
    pub fn new(plan: &Plan, folder: PathBuf, editor: Option<Arc<PlannedEditor>>, witness: Witness) -> Self {
        Self {
            plan: plan.clone(),
            random: numbers(plan.seed, Part::User),
            witness,
            editor,
            folder,
            task: None,
            follow_ups: plan.follow_ups,
            seen: 0,
            promised: 0,
            acts: BTreeMap::new(),
        }
    }

    /// The request, once its start was answered.
    pub fn task(&self) -> Option<&TaskId> {
        self.task.as_ref()
    }

    /// Works with a server until the life's end.
    pub async fn live(&mut self, engine: &Engine, end: End) -> LifeEnd {
        let task = match self.task.clone() {
            Some(task) => task,
            None => match self.start(engine).await {
                Ok(task) => task,
                Err(wrong) => return LifeEnd::Wrong(wrong),
            },
        };
        for _ in 0..200 {
            match engine.follow(&task, 0).await {
                Ok(follower) => return self.follow(engine, &task, follower, end).await,
                // Not even its beginning was durable when the power was lost.
                Err(EngineError::NotFound { .. } | EngineError::WrongState { .. }) if self.promised == 0 => {
                    self.witness.tell("the request is gone, and nothing of it was promised");
                    self.task = None;
                    self.seen = 0;
                    return Box::pin(self.live(engine, end)).await;
                }
                Err(error) => self.witness.tell(format!("the request can't be followed: {error}")),
            }
            tokio::time::sleep(Duration::from_secs(10)).await;
        }
        LifeEnd::Wrong("the request can't be followed".to_owned())
    }

    async fn start(&mut self, engine: &Engine) -> Result<TaskId, String> {
        for _ in 0..200 {
            let params = TaskStartParams {
                prompt: "Go.".to_owned(),
                mode: Some(self.plan.mode.to_owned()),
                ..TaskStartParams::default()
            };
            match engine.start(params) {
                Ok(started) => {
                    self.task = Some(started.task_id.clone());
                    return Ok(started.task_id);
                }
                Err(error) => self.witness.tell(format!("a request can't be started: {error}")),
            }
            tokio::time::sleep(Duration::from_secs(10)).await;
        }
        Err("no request can be started".to_owned())
    }

    async fn follow(
        &mut self,
        engine: &Engine,
        task: &TaskId,
        mut follower: roo_engine::engine::Follower,
        end: End,
    ) -> LifeEnd {
        let mut view = View {
            due: BTreeMap::new(),
            acts: 0,
            approvals: BTreeMap::new(),
            questions: BTreeMap::new(),
            state: None,
            open: BTreeSet::new(),
            last: 0,
            events: 0,
            gave_up: 0,
        };
        loop {
            let next = view.due.first_key_value().map(|((at, _), _)| *at);
            // What a request has to say after its end comes at once.
            let is_over = view.state.is_some_and(TaskState::is_final);
            let patience = Instant::now() + if is_over { AFTER_END } else { PATIENCE };
            let at = next.unwrap_or(patience).min(patience);
            let batch = tokio::select! {
                biased;
                batch = follower.next(|| engine.now()) => Some(batch),
                () = sleep_until(at) => None,
            };
            match batch {
                Some(Ok(events)) => {
                    for event in events {
                        if let Err(wrong) = self.see(&mut view, task, &event) {
                            return LifeEnd::Wrong(wrong);
                        }
                        match end {
                            End::Kill { events } if view.events >= events => return LifeEnd::Killed,
                            End::Shutdown { events } if view.events >= events => return LifeEnd::ShutDown,
                            _ => {}
                        }
                    }
                    if view.events > MAX_EVENTS {
                        return LifeEnd::Wrong(format!("there are {} events and no end", view.events));
                    }
                }
                Some(Err(error)) => {
                    self.witness.tell(format!("events can't be read: {error}"));
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
                None => match view.due.pop_first() {
                    Some((_, act)) if next.is_some() => {
                        if let Err(wrong) = self.act(engine, task, &mut view, act).await {
                            return LifeEnd::Wrong(wrong);
                        }
                    }
                    _ => match self.settle(engine, task, &mut view).await {
                        Ok(true) => return LifeEnd::Finished,
                        Ok(false) => {}
                        Err(wrong) => return LifeEnd::Wrong(wrong),
                    },
                },
            }
        }
    }

    /// Nothing is going to happen by itself: returns whether that is the end. What waits for the user gets its end, and
    /// what waits for nobody is a defect.
    async fn settle(&mut self, engine: &Engine, task: &TaskId, view: &mut View) -> Result<bool, String> {
        match view.state {
            Some(state) if state.is_final() => {
                if self.follow_ups == 0 {
                    return Ok(true);
                }
                self.follow_ups -= 1;
                let wait = self.delay();
                let act = if self.random.one_in(3) { Act::Restore } else { Act::Send };
                view.plan(wait, act);
            }
            Some(TaskState::Interrupted) => {
                if view.gave_up > 20 {
                    return Err("it stays interrupted, whatever its user does".to_owned());
                }
                view.gave_up += 1;
                view.plan(Duration::ZERO, Act::Resume);
            }
            _ => {
                if view.approvals.is_empty() && view.questions.is_empty() {
                    let state = engine.get(task).await.map(|snapshot| format!("{:?}", snapshot.item.state));
                    let tree = engine.tree(task).await.map(|tree| tree.text).unwrap_or_default();
                    return Err(format!("it neither ends nor waits for its user: {state:?}\n{tree}"));
                }
                view.gave_up += 1;
                if view.gave_up > 20 {
                    return Err(format!("it can't be cancelled; {:?} wait", view.questions));
                }
                view.plan(Duration::ZERO, Act::Cancel(task.clone()));
            }
        }
        Ok(false)
    }

    fn see(&mut self, view: &mut View, root: &TaskId, params: &EventParams) -> Result<(), String> {
        let Some(seq) = params.seq else { return Ok(()) };
        if seq != view.last + 1 {
            return Err(format!("a client that has seen event {} is told event {seq}", view.last));
        }
        view.last = seq;
        self.seen = self.seen.max(seq);
        view.events += 1;
        match &params.event {
            Event::TaskState { state, .. } => {
                if params.task_id == *root {
                    view.state = Some(*state);
                }
                match state.is_final() {
                    true => view.open.remove(&params.task_id),
                    false => view.open.insert(params.task_id.clone()),
                };
                if state.is_final() {
                    self.promised = self.promised.max(seq);
                }
                if *state == TaskState::Interrupted && params.task_id == *root {
                    let wait = self.delay();
                    view.plan(wait, Act::Resume);
                }
            }
            Event::ApprovalRequested { approval } => {
                view.approvals.insert(approval.approval_id.to_string(), approval.clone());
                let allows = !self.plan.refusals.happens(&mut self.random);
                let wait = self.delay();
                view.plan(wait, Act::Respond(approval.clone(), allows));
            }
            Event::ApprovalResolved { approval_id, .. } => {
                view.approvals.remove(approval_id.as_str());
                self.promised = self.promised.max(seq);
            }
            Event::QuestionAsked { question } => {
                view.questions.insert(question.question_id.to_string(), question.clone());
                let wait = self.delay();
                view.plan(wait, Act::Answer(question.clone()));
            }
            Event::QuestionAnswered { question_id, .. } => {
                view.questions.remove(question_id.as_str());
                self.promised = self.promised.max(seq);
            }
            Event::CommandBackgrounded { command_id, .. } if self.random.one_in(2) => {
                let wait = self.delay();
                view.plan(wait, Act::Stop(params.task_id.clone(), command_id.clone()));
            }
            Event::ToolStarted { name, .. } if name == "execute_command" && self.random.one_in(6) => {
                let wait = self.delay();
                view.plan(wait, Act::Background);
            }
            Event::RestoreStarted { .. } | Event::RestoreFinished { .. } => {
                self.promised = self.promised.max(seq);
            }
            _ => {}
        }
        if self.plan.interventions.happens(&mut self.random) {
            let act = match self.random.below(6) {
                0 if view.open.is_empty() => Act::Cancel(root.clone()),
                0 => {
                    let mut open = view.open.iter();
                    Act::Cancel(open.nth(self.random.below(view.open.len())).unwrap_or(root).clone())
                }
                1 => Act::Restore,
                2 => Act::Condense,
                _ => Act::Send,
            };
            let wait = self.delay();
            view.plan(wait, act);
        }
        if self.plan.user_edits.happens(&mut self.random) {
            let wait = self.delay();
            view.plan(wait, Act::EditFile);
        }
        Ok(())
    }

    /// How long the user takes for something.
    fn delay(&mut self) -> Duration {
        match self.plan.absences.happens(&mut self.random) {
            true => Duration::from_secs(3600),
            false => Duration::from_millis([0, 0, 2, 30, 700, 9000][self.random.below(6)]),
        }
    }

    async fn act(&mut self, engine: &Engine, task: &TaskId, view: &mut View, act: Act) -> Result<(), String> {
        let name = act.name();
        *self.acts.entry(name).or_default() += 1;
        let done = timeout(PATIENCE, self.carry_out(engine, task, view, act)).await;
        match done {
            Err(_) => Err(format!("'{name}' of the user's is never answered")),
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => {
                self.witness.tell(format!("'{name}' of the user's is refused: {error}"));
                Ok(())
            }
        }
    }

    async fn carry_out(
        &mut self,
        engine: &Engine,
        task: &TaskId,
        view: &mut View,
        act: Act,
    ) -> Result<(), EngineError> {
        match act {
            Act::Respond(approval, allows) => {
                if !view.approvals.contains_key(approval.approval_id.as_str()) {
                    return Ok(());
                }
                let kind = if allows { OptionKind::AllowOnce } else { OptionKind::RejectOnce };
                let Some(option) = approval.options.iter().find(|option| option.kind == kind) else {
                    return Ok(());
                };
                let call = approval.tool_call_id.to_string();
                self.witness
                    .tell(format!("the user answers {} of {call} by {}", approval.approval_id, option.id));
                {
                    let mut seen = self.witness.seen();
                    // Before it is asked: it may count although the answer to it is lost.
                    if allows {
                        seen.allowed.insert(call.clone());
                        // A loss of power may take a refusal, which secures nothing. Then it is asked again, and this counts.
                        seen.refused.remove(&call);
                    }
                }
                let params = ApprovalRespondParams {
                    approval_id: approval.approval_id.clone(),
                    digest: approval.digest,
                    option_id: option.id.clone(),
                    opened: true,
                    text: (!allows).then(|| "Not this way.".to_owned()),
                    hunks: vec![],
                };
                match engine.respond(params, "user").await {
                    Ok(answer) if answer.accepted && !allows => {
                        self.witness.seen().refused.insert(call);
                    }
                    Ok(_) => {}
                    Err(error) => {
                        if matches!(error, EngineError::Refused | EngineError::Overloaded) {
                            view.plan(Duration::from_secs(5), Act::Respond(approval, allows));
                        }
                        return Err(error);
                    }
                }
            }
            Act::Answer(question) => {
                if !view.questions.contains_key(question.question_id.as_str()) {
                    return Ok(());
                }
                let suggestions = &question.suggestions;
                let text = match suggestions.is_empty() || self.random.one_in(4) {
                    true => "Go on.".to_owned(),
                    false => suggestions[self.random.below(suggestions.len())].text.clone(),
                };
                self.witness.tell(format!("the user answers {} by '{text}'", question.question_id));
                let params =
                    QuestionAnswerParams { question_id: question.question_id.clone(), text, images: vec![] };
                if let Err(error) = engine.answer(params, "user").await {
                    if matches!(error, EngineError::Refused | EngineError::Overloaded) {
                        view.plan(Duration::from_secs(5), Act::Answer(question));
                    }
                    return Err(error);
                }
            }
            Act::Resume => engine.resume(task).await?,
            Act::Cancel(task) => {
                self.witness.tell(format!("the user cancels {task}"));
                engine.cancel(&task).await?;
            }
            Act::Send => {
                self.witness.tell("the user says more");
                let when = if self.random.one_in(2) { SendWhen::Now } else { SendWhen::AfterTurn };
                let params = TaskSendParams {
                    task_id: task.clone(),
                    text: "And more.".to_owned(),
                    images: vec![],
                    when,
                };
                engine.send(params).await?;
            }
            Act::Background => engine.background_command(task).await?,
            Act::Stop(task, command) => engine.stop_command(&task, command).await?,
            Act::Condense => engine.condense(task).await?,
            Act::EditFile => self.edit_file(),
            Act::Restore => return self.restore(engine, task).await,
        }
        Ok(())
    }

    /// Edits a file, in the editor or on disk.
    fn edit_file(&mut self) {
        let name = FILES[self.random.below(FILES.len())];
        if let Some(editor) = &self.editor {
            if self.random.one_in(3) {
                return editor.toggle(name);
            }
            if editor.text(name).is_some() {
                return match self.random.one_in(3) {
                    true => editor.save_file(name),
                    false => editor.user_types(name),
                };
            }
        }
        let path = self.folder.join(name);
        let Ok(text) = fs::read_to_string(&path) else { return };
        let line = format!("user {:08x}", self.random.next() & 0xffff_ffff);
        fs::write(&path, format!("{text}{line}\n")).unwrap();
        self.witness.tell(format!("the user writes '{line}' to {name}"));
        self.witness.seen().by_user.entry(name.to_owned()).or_default().insert(line);
    }

    /// Restores an earlier state, where there is one.
    async fn restore(&mut self, engine: &Engine, task: &TaskId) -> Result<(), EngineError> {
        let checkpoints = engine.checkpoints(task).await?.checkpoints;
        if checkpoints.is_empty() {
            return Ok(());
        }
        let seq = checkpoints[self.random.below(checkpoints.len())].seq;
        let what = [RestoreWhat::Files, RestoreWhat::Both, RestoreWhat::Conversation][self.random.below(3)];
        self.witness.tell(format!("the user restores {what:?} to before {seq}"));
        let params = CheckpointRestoreParams {
            task_id: task.clone(),
            seq,
            what,
            scope: RestoreScope::Request,
            preview: false,
            conflicts: RestoreConflicts::Keep,
            digest: None,
        };
        engine.restore(params, "user").await.map(drop)
    }
}

impl Act {
    fn name(&self) -> &'static str {
        match self {
            Self::Respond(..) => "respond",
            Self::Answer(..) => "answer",
            Self::Resume => "resume",
            Self::Send => "send",
            Self::Cancel(_) => "cancel",
            Self::Background => "background",
            Self::Stop(..) => "stop",
            Self::EditFile => "edit",
            Self::Restore => "restore",
            Self::Condense => "condense",
        }
    }
}

impl View {
    fn plan(&mut self, wait: Duration, act: Act) {
        self.acts += 1;
        self.due.insert((Instant::now() + wait, self.acts), act);
    }
}
