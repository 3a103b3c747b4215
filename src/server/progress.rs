//! `$/progress`: one line for each request at work, for every client that shows progress. It tells what came
//! last, whichever branch it came from; it begins and ends with the request. Each command in the background has a line of its
//! own, which can be cancelled by itself.
//!
//! A courtesy, and no more: at most four messages a second and request, and none is waited for by a
//! task.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tower_lsp::ls_types::notification::Progress;
use tower_lsp::ls_types::{
    ProgressParams, ProgressParamsValue, ProgressToken, WorkDoneProgress, WorkDoneProgressBegin,
    WorkDoneProgressEnd, WorkDoneProgressReport,
};

use super::session::{Session, WorkspaceServices};
use super::subscription::{KnownRequests, Requests};
use crate::view::{BackgroundCommand, RequestView, Update, newest_tree, shortening_line};
use roo_engine::engine::Follower;
use roo_engine::engine::clock::time_of_day;
use roo_protocol::event::EventParams;
use roo_protocol::ids::{CommandId, TaskId};
use roo_protocol::task::TaskState;
use roo_text::render::one_line;

/// The shortest time between two messages of a request.
const PACE: Duration = Duration::from_millis(250);
/// The longest line, in characters.
const LINE: usize = 100;
const TOKEN: &str = "roo/";
/// Separator of task and command in a token.
const COMMAND: &str = "command/";

/// The task whose progress has this token, and the command in the background if it is one's.
pub(super) fn cancelled_by(token: &str) -> Option<(TaskId, Option<CommandId>)> {
    let (task, rest) = token.strip_prefix(TOKEN)?.split_once('/')?;
    let command = rest.strip_prefix(COMMAND).map(CommandId::new);
    Some((TaskId::new(task), command))
}

/// Shows the progress of every request that comes to live here.
pub(super) async fn accompany(
    session: Arc<Session>,
    services: Arc<WorkspaceServices>,
    mut requests: Requests,
) {
    let known = requests.known();
    while let Some(follower) = requests.next(&services.engine).await {
        let (session, services, known) = (Arc::clone(&session), Arc::clone(&services), known.clone());
        session.clone().spawn(async move {
            let mut line = ProgressLine::default();
            if follower.position() > 0
                && let Ok(task) = services.engine.get(follower.root()).await
            {
                line.mode = task.item.mode;
                line.title = task.item.title;
            }
            show(&session, follower, line, &known).await;
        });
    }
}

async fn show(session: &Session, mut follower: Follower, mut line: ProgressLine, known: &KnownRequests) {
    let root = follower.root().clone();
    let mut shown = ProgressDisplay { session, root, bars: 0, bar: None, commands: vec![] };
    loop {
        let batch = tokio::select! {
            () = shown.due(&line) => vec![],
            batch = follower.next(|| session.process.clock.now()) => match batch {
                Ok(batch) => batch,
                Err(error) => {
                    tracing::warn!(%error, "progress can no longer be shown");
                    known.forget(follower.root());
                    shown.end("").await;
                    return;
                }
            },
        };
        line.take(&batch);
        shown.update_commands(&line).await;
        if !shown.update(&line).await {
            return;
        }
    }
}

/// Progress line of a request.
#[derive(Debug, Default)]
struct ProgressLine {
    /// Of the request.
    mode: String,
    title: String,
    at_work: bool,
    view: RequestView,
    /// The branch that does something; none for the request's own task.
    branch: Option<TaskId>,
    doing: String,
}

impl ProgressLine {
    /// Takes in what came together.
    fn take(&mut self, batch: &[Arc<EventParams>]) {
        if let Some(nodes) = newest_tree(batch.iter().map(AsRef::as_ref)) {
            self.view.set_tree(nodes);
        }
        batch.iter().for_each(|event| self.apply(event));
    }

    fn apply(&mut self, params: &EventParams) {
        let own = params.task_id == params.root_id;
        let Some(update) = self.view.apply(params) else { return };
        let doing = match &update {
            Update::Created { mode, title, .. } => {
                if own {
                    (self.mode, self.title) = ((*mode).to_owned(), (*title).to_owned());
                }
                "starts".to_owned()
            }
            Update::Forked { .. } => {
                self.title = self.view.root().map(|root| root.title.clone()).unwrap_or_default();
                "starts".to_owned()
            }
            Update::State { state, reason, .. } => {
                // Only the request's own end is its end.
                if own {
                    self.at_work = !state.is_final() && *state != TaskState::Interrupted;
                }
                match (state, reason) {
                    (TaskState::Running, Some(reason)) => (*reason).to_owned(),
                    (TaskState::Running, None) => "goes on".to_owned(),
                    _ => state.as_str().to_owned(),
                }
            }
            Update::ModelAsked | Update::AnswerVoid { .. } => "asks the model".to_owned(),
            Update::CallStarted { target, .. } => format!("{} {}", target.name, target.subject),
            Update::ApprovalRequested(approval) => format!("waits for approval: {}", approval.title),
            Update::QuestionAsked(question) => format!("waits for an answer: {}", question.text),
            Update::ContextShortening { method } => shortening_line(*method).to_owned(),
            Update::RetryScheduled { at, attempt, reason } => {
                let what = if *attempt > 1 { "tries again" } else { "asks the model" };
                format!("{what} at {}: {reason}", time_of_day(*at))
            }
            Update::Warning { reason } => (*reason).to_owned(),
            // It may come after the request's end.
            Update::Recovered if self.at_work => "goes on".to_owned(),
            _ => return,
        };
        self.at_work |= own && !matches!(update, Update::State { .. });
        self.branch = (!own).then(|| params.task_id.clone());
        self.doing = doing;
    }

    fn text(&self) -> String {
        let who = match &self.branch {
            Some(task) => self.view.tree().name(task).unwrap_or_else(|| "a branch".to_owned()),
            None => self.mode.clone(),
        };
        one_line(&format!("{who}: {}", self.doing), LINE)
    }
}

/// Displayed progress.
struct ProgressDisplay<'a> {
    session: &'a Session,
    root: TaskId,
    bars: u32,
    bar: Option<Bar>,
    /// The commands in the background that are shown.
    commands: Vec<CommandId>,
}

struct Bar {
    token: ProgressToken,
    text: String,
    at: Instant,
}

impl ProgressDisplay<'_> {
    /// Resolves when the line differs from what is shown and may be sent.
    async fn due(&self, line: &ProgressLine) {
        match &self.bar {
            Some(bar) if bar.text != line.text() => tokio::time::sleep_until(bar.at + PACE).await,
            _ => std::future::pending().await,
        }
    }

    /// Shows the line, if it may be shown now. False when the client wants no progress.
    async fn update(&mut self, line: &ProgressLine) -> bool {
        match &mut self.bar {
            None if line.at_work => return self.begin(line).await,
            Some(_) if !line.at_work => self.end(&line.text()).await,
            Some(bar) if bar.text != line.text() && bar.at.elapsed() >= PACE => {
                (bar.text, bar.at) = (line.text(), Instant::now());
                let report = WorkDoneProgressReport {
                    message: Some(bar.text.clone()),
                    ..WorkDoneProgressReport::default()
                };
                let token = bar.token.clone();
                self.send(token, WorkDoneProgress::Report(report)).await;
            }
            _ => {}
        }
        true
    }

    /// Shows each command in the background as long as it runs.
    async fn update_commands(&mut self, line: &ProgressLine) {
        let running = line.view.commands();
        let runs = |id: &CommandId| running.iter().any(|command| command.id == *id);
        let (known, ended): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.commands).into_iter().partition(|id| runs(id));
        self.commands = known;
        for id in ended {
            let end = WorkDoneProgressEnd { message: Some("has ended".to_owned()) };
            self.send(self.token_of(&id), WorkDoneProgress::End(end)).await;
        }
        for BackgroundCommand { id, line: command } in running {
            if self.commands.contains(id) {
                continue;
            }
            let token = self.token_of(id);
            if self.session.client.create_work_done_progress(token.clone()).await.is_err() {
                return;
            }
            let begin = WorkDoneProgressBegin {
                title: format!("roo: {id}"),
                cancellable: Some(true),
                message: Some(one_line(command, LINE)),
                percentage: None,
            };
            self.send(token, WorkDoneProgress::Begin(begin)).await;
            self.commands.push(id.clone());
        }
    }

    fn token_of(&self, command: &CommandId) -> ProgressToken {
        ProgressToken::String(format!("{TOKEN}{}/{COMMAND}{command}", self.root))
    }

    async fn begin(&mut self, line: &ProgressLine) -> bool {
        self.bars += 1;
        let token = ProgressToken::String(format!("{TOKEN}{}/{}", self.root, self.bars));
        if let Err(error) = self.session.client.create_work_done_progress(token.clone()).await {
            tracing::info!(%error, "the client wants no progress");
            return false;
        }
        let begin = WorkDoneProgressBegin {
            title: format!("roo: {}", one_line(&line.title, LINE)),
            cancellable: Some(true),
            message: Some(line.text()),
            percentage: None,
        };
        self.send(token.clone(), WorkDoneProgress::Begin(begin)).await;
        self.bar = Some(Bar { token, text: line.text(), at: Instant::now() });
        true
    }

    async fn end(&mut self, message: &str) {
        if let Some(bar) = self.bar.take() {
            let end = WorkDoneProgressEnd { message: Some(message.to_owned()) };
            self.send(bar.token, WorkDoneProgress::End(end)).await;
        }
    }

    async fn send(&self, token: ProgressToken, value: WorkDoneProgress) {
        let params = ProgressParams { token, value: ProgressParamsValue::WorkDone(value) };
        self.session.client.send_notification::<Progress>(params).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use roo_protocol::event::{DegradedUntil, Event};
    use roo_protocol::ids::{ToolCallId, Urid};
    use roo_protocol::task::ToolUsage;
    use roo_protocol::tree::TreeNode;

    fn event(task: &str, event: Event) -> EventParams {
        let task_id = TaskId::new(task);
        EventParams { root_id: task_id.root(), task_id, seq: None, from: None, at: 0, event }
    }

    fn begun() -> ProgressLine {
        let mut line = ProgressLine::default();
        line.apply(&event(
            "t",
            Event::TaskCreated {
                parent_id: None,
                urid: Urid::new("u"),
                mode: "code".into(),
                title: "Mend it".into(),
                emoji: "💻".into(),
            },
        ));
        line
    }

    fn state(task: &str, state: TaskState) -> EventParams {
        let (result, reason, usage, tool_usage) = (None, None, None, ToolUsage::default());
        event(task, Event::TaskState { state, result, reason, usage, tool_usage })
    }

    fn reads(task: &str) -> EventParams {
        let subject = "src/a.rs\nsrc/b.rs".to_owned();
        let tool_call_id = ToolCallId::new("c");
        event(task, Event::ToolStarted { tool_call_id, name: "read_file".into(), subject })
    }

    #[test]
    fn the_line_says_who_does_what() {
        let mut line = begun();
        assert!(line.at_work);
        line.apply(&reads("t"));
        assert_eq!(line.text(), "code: read_file src/a.rs ⏎ src/b.rs");
        line.apply(&reads("t.1"));
        assert_eq!(line.text(), "a branch: read_file src/a.rs ⏎ src/b.rs");
        let nodes = vec![TreeNode {
            id: TaskId::new("t.1"),
            parent_id: Some(TaskId::new("t")),
            mode: "debug".into(),
            emoji: "🪲".into(),
            title: "Find the cause".into(),
            state: TaskState::Running,
            started_at: 0,
            ended_at: None,
            tokens: 0,
            cost_usd: 0.0,
        }];
        line.apply(&event("t", Event::TreeChanged { nodes }));
        assert_eq!(line.text(), "🪲 Find the cause: read_file src/a.rs ⏎ src/b.rs");
    }

    #[test]
    fn a_warning_stays_in_the_line_until_it_is_over() {
        let until = Some(DegradedUntil::Recovered);
        let mut line = begun();
        line.apply(&event("t", Event::ServerDegraded { reason: "the disk is full".into(), until }));
        assert_eq!(line.text(), "code: the disk is full");
        line.apply(&event("t", Event::ServerRecovered));
        assert_eq!(line.text(), "code: goes on");
        line.apply(&state("t", TaskState::Completed));
        line.apply(&event("t", Event::ServerRecovered));
        assert!(!line.at_work);
        assert_eq!(line.text(), "code: completed");
    }

    #[test]
    fn the_end_of_a_branch_is_not_the_end() {
        let mut line = begun();
        line.apply(&state("t.1", TaskState::Completed));
        assert!(line.at_work);
        line.apply(&state("t", TaskState::Cancelled));
        assert!(!line.at_work);
        // What a branch still says begins nothing.
        line.apply(&state("t.1", TaskState::Interrupted));
        line.apply(&reads("t.1"));
        assert!(!line.at_work);
        line.apply(&state("t", TaskState::Running));
        assert!(line.at_work);
    }

    #[test]
    fn a_token_names_its_task() {
        assert_eq!(cancelled_by("roo/abc/2"), Some((TaskId::new("abc"), None)));
        let command = Some(CommandId::new("cmd-7"));
        assert_eq!(cancelled_by("roo/abc/command/cmd-7"), Some((TaskId::new("abc"), command)));
        assert_eq!(cancelled_by("rust/abc"), None);
        assert_eq!(cancelled_by("roo/abc"), None);
    }
}
