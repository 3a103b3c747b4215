//! `roo-lsp run`: one task without an editor.

use std::io::{self, BufRead as _, IsTerminal as _, Read as _, Write as _};
use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::arguments::{Common, Format, OnAsk, Run, View};
use super::session::Surroundings;
use super::story::Story;
use super::{CliError, Ending};
use crate::config::Layer;
use crate::engine::{Engine, Follower};
use crate::protocol::event::{ApprovalOption, Event, EventParams, OptionKind};
use crate::protocol::ids::TaskId;
use crate::protocol::task::{ApprovalRespondParams, QuestionAnswerParams, TaskStartParams, TaskState};

/// Who answers, as other clients see it.
const BY: &str = "cli";

/// Runs a task to its end.
pub(super) async fn run(common: Common, run: Run) -> Result<Ending, CliError> {
    let surroundings = Surroundings::find(&common)?;
    let mut keys = flags(&run.view)?;
    if let Some(profile) = &run.profile {
        keys.insert("profile".into(), profile.as_str().into());
    }
    let settings = surroundings.settings(Some(Layer::from_command_line(keys)))?;
    let engine = Arc::new(surroundings.engine(settings)?);
    let prompt = match run.prompt.as_str() {
        "-" => {
            let mut prompt = String::new();
            io::stdin().read_to_string(&mut prompt)?;
            prompt
        }
        prompt => prompt.to_owned(),
    };
    let params =
        TaskStartParams { prompt, mode: run.mode.clone(), profile: None, ..TaskStartParams::default() };
    let task = engine.start(params)?.task_id;
    let follower = engine.follow(&task, 0).await?;
    let viewer = Viewer::new(run.view.format, run.view.on_ask, run.prompt != "-");
    let ending = watch(&engine, &task, follower, viewer).await;
    engine.shutdown().await;
    ending
}

/// The settings that the flags stand for.
pub(super) fn flags(view: &View) -> Result<Map<String, Value>, CliError> {
    let mut keys = Map::new();
    if let Some(script) = &view.script {
        keys.insert("profiles".into(), json!({ "script": scripted_profile(script) }));
        keys.insert("profile".into(), "script".into());
    }
    let mut approve = Map::new();
    if view.allow_write {
        approve.insert("write".into(), true.into());
    }
    if !view.allow_command.is_empty() {
        let rules: Option<Vec<Vec<String>>> =
            view.allow_command.iter().map(|words| shlex::split(words)).collect();
        let rules = rules.ok_or_else(|| {
            CliError::Other("--allow-command takes plain words, such as 'cargo test'".to_owned())
        })?;
        approve.insert("execute".into(), json!({ "allow": rules }));
    }
    if !approve.is_empty() {
        keys.insert("autoApprove".into(), Value::Object(approve));
    }
    Ok(keys)
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

/// Follows a task to its end, answering what it asks.
pub(super) async fn watch(
    engine: &Arc<Engine>,
    task: &TaskId,
    mut follower: Follower,
    mut viewer: Viewer,
) -> Result<Ending, CliError> {
    let mut cancelled = false;
    loop {
        let batch = tokio::select! {
            batch = follower.next(|| engine.now()) => batch?,
            signal = tokio::signal::ctrl_c() => {
                // The first one ends the task in good order, the second one ends the wait for that.
                if cancelled || signal.is_err() {
                    return Ok(Ending::Interrupted);
                }
                cancelled = true;
                engine.cancel(task).await?;
                continue;
            }
        };
        for params in batch {
            viewer.show(&params)?;
            match &params.event {
                Event::ApprovalRequested { approval } => {
                    let Some(option_id) = viewer.choose(&approval.options).await else {
                        return waiting(task, "permission");
                    };
                    let params = ApprovalRespondParams {
                        approval_id: approval.approval_id.clone(),
                        digest: approval.digest,
                        option_id,
                        text: None,
                    };
                    engine.respond(params, BY).await?;
                }
                Event::QuestionAsked { question } => {
                    let line = if viewer.terminal { ask("  > ".to_owned()).await } else { None };
                    let Some(line) = line else { return waiting(task, "an answer") };
                    let line = line.trim();
                    let suggestions = &question.suggestions;
                    let chosen = line.parse::<usize>().ok().and_then(|n| suggestions.get(n.checked_sub(1)?));
                    let text = chosen.map_or_else(|| line.to_owned(), |suggestion| suggestion.text.clone());
                    let question_id = question.question_id.clone();
                    let params = QuestionAnswerParams { question_id, text, images: vec![] };
                    engine.answer(params, BY).await?;
                }
                Event::TaskState { state, result, .. } if state.is_final() => {
                    if let (Some(result), Format::Text) = (result, viewer.format) {
                        writeln!(io::stdout(), "{result}")?;
                    }
                    return Ok(match state {
                        TaskState::Completed => Ending::Done,
                        TaskState::Cancelled => Ending::Interrupted,
                        _ => Ending::Failed,
                    });
                }
                _ => {}
            }
        }
    }
}

fn waiting(task: &TaskId, what: &str) -> Result<Ending, CliError> {
    writeln!(
        io::stderr(),
        "roo-lsp: the task {task} waits for {what}, and there is no terminal to ask on. It is kept: resume it in an \
         editor, or run again with --on-ask."
    )?;
    Ok(Ending::Waiting)
}
