//! `roo-lsp run`: one task without an editor.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::path::Path;

use serde_json::{Map, Value, json};

use super::arguments::{Common, Format, OnAsk, Run, View, Words};
use super::session::{Surroundings, check_profile};
use super::signals::{Signal, Signals};
use super::story::Story;
use super::{CliError, Ending, read_input};
use crate::config::{Layer, Settings};
use crate::engine::{Engine, Follower};
use crate::modes::Modes;
use crate::protocol::event::{ApprovalOption, Event, EventParams, OptionKind, Suggestion};
use crate::protocol::ids::{TaskId, Urid};
use crate::protocol::task::{
    ApprovalRespondParams, QuestionAnswerParams, TaskStartParams, TaskStartResult, TaskState,
};

/// Who answers, as other clients see it.
const BY: &str = "cli";
/// The profile that `--script` stands for.
pub(super) const SCRIPT_PROFILE: &str = "script";

/// Runs a task to its end.
pub(super) async fn run(common: Common, run: Run) -> Result<Ending, CliError> {
    let surroundings = Surroundings::find(&common)?;
    let settings = surroundings.settings(Some(Layer::from_command_line(flags(&run.view))))?;
    let profile = run.profile.or_else(|| run.view.script.is_some().then(|| SCRIPT_PROFILE.to_owned()));
    check(&settings, &surroundings.customization()?.modes(), run.mode.as_deref(), profile.as_deref())?;
    let prompt = match run.prompt.as_str() {
        "-" => read_input()?,
        prompt => prompt.to_owned(),
    };
    let signals = Signals::listen()?;
    let engine = surroundings.engine(settings)?;
    let TaskStartResult { task_id, urid } =
        engine.start(TaskStartParams { prompt, mode: run.mode, profile, ..TaskStartParams::default() })?;
    let follower = engine.follow(&task_id, 0).await?;
    let viewer = Viewer::new(run.view.format, run.view.on_ask, run.prompt != "-");
    let ending = Watch::new(&engine, task_id, urid, viewer, signals).follow(follower, None).await;
    engine.shutdown().await;
    ending
}

/// Finds what would fail the task at its first request.
fn check(
    settings: &Settings,
    modes: &Modes,
    mode: Option<&str>,
    profile: Option<&str>,
) -> Result<(), CliError> {
    if let Some(slug) = mode {
        modes.find(slug).map_err(|error| CliError::Usage(error.to_string()))?;
    }
    let default = settings.profile_of(mode.unwrap_or(&settings.mode)).0;
    match (settings.profiles.get(profile.unwrap_or(default)), profile) {
        (Some(profile), _) => check_profile(profile).map_err(|error| CliError::Other(error.to_string())),
        (None, Some(name)) => Err(CliError::Usage(format!(
            "there is no model profile '{name}'; define profiles.{name} in config.yaml"
        ))),
        // The engine says so, before the task comes to be.
        (None, None) => Ok(()),
    }
}

/// The settings that the flags stand for.
pub(super) fn flags(view: &View) -> Map<String, Value> {
    let mut keys = Map::new();
    if let Some(script) = &view.script {
        keys.insert("profiles".into(), json!({ SCRIPT_PROFILE: scripted_profile(script) }));
    }
    let mut approve = Map::new();
    if view.allow_write {
        approve.insert("write".into(), true.into());
    }
    if !view.allow_command.is_empty() {
        let rules: Vec<&[String]> = view.allow_command.iter().map(|Words(words)| words.as_slice()).collect();
        approve.insert("execute".into(), json!({ "allow": rules }));
    }
    if !approve.is_empty() {
        keys.insert("autoApprove".into(), Value::Object(approve));
    }
    keys
}

/// A profile that plays a script.
pub(super) fn scripted_profile(script: &Path) -> Value {
    json!({ "provider": "scripted", "script": script })
}

/// How a task is shown, and how its questions are answered.
pub(super) struct Viewer {
    format: Format,
    on_ask: OnAsk,
    terminal: bool,
    story: Story,
}

impl Viewer {
    /// A viewer on this process's standard streams. `stdin_free`: whether nothing else reads it.
    pub(super) fn new(format: Format, on_ask: OnAsk, stdin_free: bool) -> Self {
        let error_is_terminal = io::stderr().is_terminal();
        let colour = error_is_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let terminal = stdin_free && error_is_terminal && io::stdin().is_terminal();
        Self { format, on_ask, terminal, story: Story::new(colour) }
    }

    fn show(&mut self, params: &EventParams) -> io::Result<()> {
        match self.format {
            Format::Ndjson => {
                let mut line = serde_json::to_vec(params)?;
                line.push(b'\n');
                io::stdout().lock().write_all(&line)
            }
            Format::Text => {
                let text = self.story.tell(params);
                let mut out = io::stderr().lock();
                out.write_all(text.as_bytes())?;
                out.flush()
            }
        }
    }

    /// The option to choose; none leaves the question waiting.
    async fn choose(&self, options: &[ApprovalOption]) -> Option<String> {
        let of_kind =
            |kind| options.iter().find(|option| option.kind == kind).map(|option| option.id.clone());
        match self.on_ask {
            OnAsk::Allow => of_kind(OptionKind::AllowOnce),
            OnAsk::Deny => of_kind(OptionKind::RejectOnce),
            OnAsk::Ask if self.terminal => {
                let line = ask("  Allow? [y/N] ".to_owned()).await?;
                of_kind(match line.trim() {
                    "y" | "Y" | "yes" => OptionKind::AllowOnce,
                    _ => OptionKind::RejectOnce,
                })
            }
            OnAsk::Ask => None,
        }
    }

    /// The answer to a question; none leaves it waiting.
    async fn answer(&self, suggestions: &[Suggestion]) -> Option<String> {
        if !self.terminal {
            return None;
        }
        loop {
            let line = ask("  > ".to_owned()).await?;
            let line = line.trim();
            let chosen = line.parse::<usize>().ok().and_then(|n| suggestions.get(n.checked_sub(1)?));
            match chosen {
                Some(suggestion) => return Some(suggestion.text.clone()),
                None if line.is_empty() => {}
                None => return Some(line.to_owned()),
            }
        }
    }
}

/// Asks on the terminal; none at the end of input.
async fn ask(prompt: String) -> Option<String> {
    let read = move || {
        let mut out = io::stderr().lock();
        out.write_all(prompt.as_bytes()).and_then(|()| out.flush()).ok()?;
        drop(out);
        let mut line = String::new();
        (io::stdin().lock().read_line(&mut line).ok()? > 0).then_some(line)
    };
    tokio::task::spawn_blocking(read).await.ok()?
}

/// What came of waiting for something.
enum Heard<T> {
    /// It came.
    This(T),
    /// The user wants the task to end.
    Cancelled,
    /// The user wants no more, or the process shall end.
    End(Ending),
}

/// How signals end a task.
struct Stop<'a> {
    engine: &'a Engine,
    task: TaskId,
    signals: Signals,
    cancelled: bool,
}

impl Stop<'_> {
    /// Waits for something, or for a signal. The first interrupt ends the task in good order, the second
    /// one ends the wait for that.
    async fn hear<T>(&mut self, wanted: impl Future<Output = T>) -> Result<Heard<T>, CliError> {
        let signal = tokio::select! {
            wanted = wanted => return Ok(Heard::This(wanted)),
            signal = self.signals.next() => signal,
        };
        match signal {
            Signal::Terminate => Ok(Heard::End(Ending::Terminated)),
            Signal::Interrupt if self.cancelled => Ok(Heard::End(Ending::Interrupted)),
            Signal::Interrupt => {
                self.cancelled = true;
                self.engine.cancel(&self.task).await?;
                Ok(Heard::Cancelled)
            }
        }
    }
}

/// Shows a task and answers what it asks.
pub(super) struct Watch<'a> {
    urid: Urid,
    viewer: Viewer,
    stop: Stop<'a>,
}

impl<'a> Watch<'a> {
    /// A watch over a task of this engine.
    pub(super) fn new(
        engine: &'a Engine,
        task: TaskId,
        urid: Urid,
        viewer: Viewer,
        signals: Signals,
    ) -> Self {
        Self { urid, viewer, stop: Stop { engine, task, signals, cancelled: false } }
    }

    /// Follows the task to its end. `pending` is a question that waits since before: it is asked once the
    /// task goes on.
    pub(super) async fn follow(
        mut self,
        mut follower: Follower,
        mut pending: Option<EventParams>,
    ) -> Result<Ending, CliError> {
        let engine = self.stop.engine;
        loop {
            let batch = match self.stop.hear(follower.next(|| engine.now())).await? {
                Heard::This(batch) => batch?,
                Heard::Cancelled => continue,
                Heard::End(ending) => return Ok(ending),
            };
            for params in batch {
                let runs = matches!(params.event, Event::TaskState { state: TaskState::Running, .. });
                let asked_again = pending.take_if(|_| runs);
                for params in [Some(params.as_ref()), asked_again.as_ref()].into_iter().flatten() {
                    if let Some(ending) = self.take(params).await? {
                        return Ok(ending);
                    }
                }
            }
        }
    }

    /// Shows an event, and answers it if it asks something.
    async fn take(&mut self, params: &EventParams) -> Result<Option<Ending>, CliError> {
        self.viewer.show(params)?;
        match &params.event {
            // It is void by now.
            Event::ApprovalRequested { .. } | Event::QuestionAsked { .. } if self.stop.cancelled => Ok(None),
            Event::ApprovalRequested { approval } => {
                let option_id = match self.stop.hear(self.viewer.choose(&approval.options)).await? {
                    Heard::This(Some(option_id)) => option_id,
                    Heard::This(None) => {
                        return self.waits(
                            "permission",
                            " (--on-ask=allow or --on-ask=deny answers without a terminal)",
                        );
                    }
                    Heard::Cancelled => return self.unanswered(None),
                    Heard::End(ending) => return self.unanswered(Some(ending)),
                };
                let (approval_id, digest) = (approval.approval_id.clone(), approval.digest);
                let answer = ApprovalRespondParams { approval_id, digest, option_id, text: None };
                self.stop.engine.respond(answer, BY).await?;
                Ok(None)
            }
            Event::QuestionAsked { question } => {
                let text = match self.stop.hear(self.viewer.answer(&question.suggestions)).await? {
                    Heard::This(Some(text)) => text,
                    Heard::This(None) => return self.waits("an answer", ""),
                    Heard::Cancelled => return self.unanswered(None),
                    Heard::End(ending) => return self.unanswered(Some(ending)),
                };
                let question_id = question.question_id.clone();
                let answer = QuestionAnswerParams { question_id, text, images: vec![] };
                self.stop.engine.answer(answer, BY).await?;
                Ok(None)
            }
            Event::TaskState { state, result, .. } if state.is_final() => {
                if let (Some(result), Format::Text) = (result, self.viewer.format) {
                    writeln!(io::stdout(), "{result}")?;
                }
                Ok(Some(match state {
                    TaskState::Completed => Ending::Done,
                    TaskState::Cancelled => Ending::Interrupted,
                    _ => Ending::Failed,
                }))
            }
            _ => Ok(None),
        }
    }

    /// Leaves a prompt's line.
    fn unanswered(&self, ending: Option<Ending>) -> Result<Option<Ending>, CliError> {
        if self.viewer.terminal {
            writeln!(io::stderr())?;
        }
        Ok(ending)
    }

    fn waits(&self, what: &str, otherwise: &str) -> Result<Option<Ending>, CliError> {
        let ending = self.unanswered(Some(Ending::Waiting))?;
        let urid = &self.urid;
        writeln!(
            io::stderr(),
            "roo-lsp: {urid} waits for {what}; go on with: roo-lsp tasks resume {urid}{otherwise}"
        )?;
        Ok(ending)
    }
}
