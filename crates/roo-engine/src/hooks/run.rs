//! Running all hooks of an event at once.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::answer::{self, HookAnswer};
use super::file::Hook;
use super::outcome::{Outcome, RankedAnswer};
use super::process::{self, FinishedHook, HookEnd, Job, Printed};
use super::sandbox::{self, HookSandbox, Needs};
use super::tool_input::Input;
use roo_formats::hooks::EventName;
use roo_sandbox::exec::Environment;
use roo_text::render::one_line;

/// Number of hooks of one event that run at once.
const AT_ONCE: usize = 64;
/// Maximum length of a command that names its hook in messages, in characters.
const NAME: usize = 80;

/// An event that has come.
pub(super) struct Firing<'a> {
    pub(super) event: EventName,
    /// Inputs that the matchers are compared with: mostly one thing.
    pub(super) inputs: Vec<Input>,
    /// Fields common to all hooks: who asks, and where.
    pub(super) common: Map<String, Value>,
    /// The request's log.
    pub(super) transcript: Option<&'a Path>,
    /// File in which a hook may leave variables for later commands.
    pub(super) environment_file: Option<&'a Path>,
    pub(super) sandbox: &'a HookSandbox,
    /// Has the hooks that nobody waits for.
    pub(super) unwaited: &'a TaskTracker,
    /// Directories from which paths in conditions are meant.
    pub(super) folders: Vec<&'a Path>,
    pub(super) cancel: &'a CancellationToken,
}

/// One hook, asked about one thing.
struct HookRun<'a> {
    hook: &'a Hook,
    number: usize,
    input: usize,
    job: Job,
}

/// Runs the hooks that match, and puts together what they answer.
pub(super) async fn fire(hooks: &[Hook], root: &Path, firing: Firing<'_>) -> Outcome {
    let asked = asked(hooks, root, &firing);
    if asked.is_empty() {
        return Outcome::nothing(firing.event);
    }
    let environment = Arc::new(Environment::inherited());
    let mut waited_for = Vec::new();
    for asked in asked {
        if asked.hook.background {
            // Nobody waits; it ends with its time or with the task.
            let (environment, cancel) = (Arc::clone(&environment), firing.cancel.clone());
            let bounded = bounded(asked.hook, &firing, &environment);
            firing.unwaited.spawn(async move { run(asked.job, &environment, bounded, &cancel).await });
        } else {
            waited_for.push(asked);
        }
    }
    let environment = &environment;
    let mut answers = Vec::new();
    for HookRun { hook, number, input, job } in waited_for {
        let bounded = bounded(hook, &firing, environment);
        answers.push(async move {
            let ended = run(job, environment, bounded, firing.cancel).await;
            let name = format!("`{}`", one_line(&hook.program.shown(), NAME));
            let answer: HookAnswer = answer::read(hook.event, &name, hook.fail_closed, &ended);
            tracing::debug!(
                hook = hook.shown(),
                ending = ?ended.ending,
                stderr = ended.stderr.text(),
                "a hook has run"
            );
            RankedAnswer {
                hook: number,
                input,
                source: hook.source,
                shown: hook.shown(),
                ended: answer::ending_in_words(&ended.ending),
                answer,
            }
        });
    }
    let given: Vec<RankedAnswer> = stream::iter(answers).buffer_unordered(AT_ONCE).collect().await;
    let inputs: Vec<Map<String, Value>> = firing.inputs.into_iter().map(|input| input.fields).collect();
    Outcome::merged(firing.event, &inputs, given)
}

/// The sandbox of one hook.
fn bounded(hook: &Hook, firing: &Firing<'_>, environment: &Environment) -> HookSandbox {
    let environment_file = firing.environment_file.filter(|_| firing.event == EventName::SessionStart);
    let needs = Needs { transcript: firing.transcript, environment_file };
    match firing.sandbox {
        _ if hook.is_unconfined => HookSandbox::Off,
        HookSandbox::On(bounds) => HookSandbox::On(Box::new(bounds.for_hook(hook, needs, environment))),
        other => other.clone(),
    }
}

/// Runs a hook to its end.
async fn run(
    job: Job,
    environment: &Environment,
    sandbox: HookSandbox,
    cancel: &CancellationToken,
) -> FinishedHook {
    match sandbox {
        HookSandbox::Off => process::run(job, environment, cancel).await,
        HookSandbox::On(bounds) => sandbox::run(job, environment, &bounds, cancel).await,
        HookSandbox::Missing(reason) => FinishedHook {
            ending: HookEnd::Failed(reason),
            stdout: Printed::default(),
            stderr: Printed::default(),
            is_confined: true,
        },
    }
}

/// The hooks that match, each with what it is told. Of equal programs the first stands for all.
fn asked<'a>(hooks: &'a [Hook], root: &Path, firing: &Firing<'_>) -> Vec<HookRun<'a>> {
    let of_event: Vec<(usize, &Hook)> =
        hooks.iter().enumerate().filter(|(_, hook)| hook.event == firing.event).collect();
    if of_event.is_empty() {
        return vec![];
    }
    let variables = variables(root, firing);
    let mut asked: Vec<HookRun<'a>> = Vec::new();
    for (input_number, input) in firing.inputs.iter().enumerate() {
        let names: Vec<&str> = input.names.iter().map(String::as_str).collect();
        let mut seen: Vec<&Hook> = Vec::new();
        for (number, hook) in &of_event {
            // What is compared with nothing always matches.
            let matched = if names.is_empty() { Some("") } else { hook.matcher.first(names.iter().copied()) };
            let Some(name) = matched else { continue };
            if let Some(condition) = &hook.condition {
                let fields = Value::Object(input.fields.clone());
                if !condition.fits(&names, &fields, &firing.folders) {
                    continue;
                }
            }
            if seen.iter().any(|earlier| stands_for(earlier, hook)) {
                continue;
            }
            seen.push(hook);
            let job = Job {
                program: hook.program.clone(),
                directory: root.to_owned(),
                variables: variables.clone(),
                input: told(firing, input, name),
                timeout: hook.timeout,
            };
            asked.push(HookRun { hook, number: *number, input: input_number, job });
        }
    }
    asked
}

/// Returns whether a hook does all that a later one would. One that must not fail is no stand-in for one that may, and
/// one whose answer nobody waits for is none for one that may forbid.
fn stands_for(earlier: &Hook, later: &Hook) -> bool {
    earlier.program == later.program
        && earlier.fail_closed == later.fail_closed
        && earlier.is_unconfined == later.is_unconfined
        && (later.background || !earlier.background)
}

/// Builds the standard input of a hook.
fn told(firing: &Firing<'_>, input: &Input, name: &str) -> Vec<u8> {
    let mut event = firing.common.clone();
    event.insert("hook_event_name".to_owned(), firing.event.as_str().into());
    if firing.event.compared() == roo_formats::hooks::Compared::Tool {
        event.insert("tool_name".to_owned(), name.into());
        event.insert("tool_input".to_owned(), Value::Object(input.fields.clone()));
    }
    let mut bytes = Value::Object(event).to_string().into_bytes();
    bytes.push(b'\n');
    bytes
}

fn variables(root: &Path, firing: &Firing<'_>) -> Vec<(&'static str, OsString)> {
    let mut variables = vec![
        ("CLAUDE_PROJECT_DIR", root.as_os_str().to_owned()),
        ("ROO_PROJECT_DIR", root.as_os_str().to_owned()),
    ];
    if let Some(file) = firing.environment_file.filter(|_| firing.event == EventName::SessionStart) {
        variables.push(("CLAUDE_ENV_FILE", file.as_os_str().to_owned()));
    }
    variables
}
