//! `execute_command`: a command line in a directory of the workspace, and what the model reads of it.
//!
//! The command runs in a task of its own, up to the decision of what it changed. The call waits for it; when it takes too
//! long, the call ends and the command goes to the background ([`crate::tool_run::BackgroundCommands`]).

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::command_effects::{self, Before, CommandEffects};
use super::context_command;
use super::npm;
use super::withheld::{self, Ended, Explanation};
use crate::policy::command::only_shows;
use crate::policy::{
    Action, CheckedCall, CommandSession, Confined, Execute, Gate, NamedAllowRule, Permitted, Refusal, Tool,
    ToolCallContext, Watch,
};
use crate::tool_run::{BinaryContents, ChangesUnknown, Outcome, ToolContext};
use crate::tool_run::{RunningCommand, Snapshot, StopReason};
use roo_catalog::ExecuteCommand;
use roo_protocol::event::ToolStatus;
use roo_protocol::ids::Digest;
use roo_sandbox::egress::proxy_environment;
use roo_sandbox::exec::redaction::Redactor;
use roo_sandbox::exec::sandbox::{Confinement, LeftRunning, Level, git_ssh_command};
use roo_sandbox::exec::{
    self, Collector, Command, CommandHandle, Environment, Escapes, NO_SIGNING, Output, Overflow, Status,
    Terminal, known_secrets,
};
use roo_text::render::exact_line;
use roo_trace::record::{CommandRun, FileChange, Side};
use roo_workspace::{Location, ONE_LINE_CHARACTERS, Protection, Purpose, Resolved, protection};

/// A command in the foreground that has printed nothing for so long is waited for no longer, where the user has set no time
/// limit.
const SILENCE: Duration = Duration::from_secs(600);
/// Time between two looks at the git repositories that a command in the background makes.
const LOOK: Duration = Duration::from_secs(5);
/// Time for which a command that is to run on, or at which something was typed, is waited for, at most, to tell what it
/// prints.
pub(super) const BEGINNING: Duration = Duration::from_secs(3);
/// Time without output after which that is told.
pub(super) const QUIET: Duration = Duration::from_millis(250);

/// The variable by which programs print no colours.
const NO_COLOR: &str = "NO_COLOR";
/// The variable by which git finds `ssh`.
const GIT_SSH: &str = "GIT_SSH_COMMAND";
/// The variable that names the socket of an SSH agent.
const SSH_AGENT: &str = "SSH_AUTH_SOCK";

/// Bounds of a command, and the watch that finds what it changed.
#[derive(Default)]
pub(super) struct Bounds {
    /// Whether it is to run on, and in what.
    pub session: CommandSession,
    /// Sandbox that bounds it; none where nothing does.
    pub confined: Option<Box<Confined>>,
    /// Watch that finds its changes; none where they are not.
    pub watch: Option<Box<Watch>>,
}

impl Tool for ExecuteCommand {
    async fn judge(self, gate: &Gate, call_context: ToolCallContext<'_>) -> Result<CheckedCall, Refusal> {
        if let Some(native) = gate.native(&self, call_context.urid) {
            return Ok(CheckedCall::Free {
                rule: NamedAllowRule::Native,
                reason: "the server answers it itself; nothing is run",
                action: Some(Box::new(native)),
            });
        }
        gate.execute(call_context, self).await.map(CheckedCall::from)
    }
}

impl Action for Execute {
    fn run<'a>(self: Box<Self>, _: Permitted, context: &'a ToolContext) -> BoxFuture<'a, Outcome> {
        let Self { command, parts, directory, timeout, session, confined, watch } = *self;
        let bounds = Bounds { session, confined, watch };
        Box::pin(async move {
            if parts.is_empty() {
                run(command, directory, timeout, bounds, context).await
            } else {
                let script = context_command::script(&parts);
                let outcome = run(script, directory, timeout, bounds, context).await;
                context_command::complete(outcome, &command, context).await
            }
        })
    }
}

/// Runs a command. Documents with unsaved text are saved first, so that it sees what was edited. `timeout` is how long the
/// model wants to wait for its end.
pub(super) async fn run(
    command: String,
    directory: Resolved,
    timeout: Option<Duration>,
    bounds: Bounds,
    context: &ToolContext,
) -> Outcome {
    let cancelled =
        || Outcome::new(ToolStatus::Interrupted, "The command was cancelled before it started.", "cancelled");
    let Some(unsaved) = context.cancel.run_until_cancelled(context.workspace.save_dirty()).await else {
        return cancelled();
    };
    let Bounds { session, confined, watch } = bounds;
    let is_staged = confined.as_ref().is_some_and(|confined| confined.level == Level::L3);
    let judged_at_end = match &confined {
        _ if is_staged => Some("what it writes is staged, and reaches the workspace at its end"),
        Some(confined) if confined.is_open_for_git() => {
            Some("git may change protected files in it, which are judged at its end")
        }
        _ => None,
    };
    if session.background
        && let Some(obstacle) = obstacle(judged_at_end, context)
    {
        let text = format!("The command did not run: it can't go to the background, because {obstacle}.");
        return Outcome::new(ToolStatus::Failed, text, "not started");
    }
    let terminal = match session.pty.then(|| open_terminal(context)).transpose() {
        Ok(terminal) => terminal,
        Err(error) => {
            let text = format!("The command did not run: there is no terminal for it ({error}).");
            return Outcome::new(ToolStatus::Failed, text, "not started");
        }
    };
    let watched = match watch {
        Some(watch) => {
            let committed = confined.as_ref().map(|confined| confined.committed.clone()).unwrap_or_default();
            let begun = command_effects::before(watch, committed, &context.workspace);
            context.cancel.run_until_cancelled(begun).await.map(|begun| begun.map(Some))
        }
        None if is_staged => Some(Err("there is no directory for what it writes".to_owned())),
        None => Some(Ok(None)),
    };
    let watched = match watched {
        None => return cancelled(),
        Some(Ok(watched)) => watched,
        Some(Err(reason)) => {
            let text = format!("The command did not run: its changes can't be tracked, because {reason}.");
            return Outcome::new(ToolStatus::Failed, text, "not started");
        }
    };
    // A supervisor or a stage keeps what the command replaces.
    let shadow = context.shadow.as_ref().filter(|_| !watched.as_ref().is_some_and(Before::keeps_contents));
    let before = match shadow {
        Some(shadow) => match context.cancel.run_until_cancelled(shadow.snapshot(&context.sources())).await {
            Some(before) => before,
            None => return cancelled(),
        },
        None => None,
    };
    let confinement = confined.as_ref().map(|confined| match &watched {
        Some(before) => before.bounds(confined),
        None => confined.confinement.clone(),
    });
    let passed = confined.as_ref().map_or(&context.environment, |confined| &confined.environment);
    let mut environment = Environment::inherited_by(passed);
    if confined.is_some() && folder_of(&directory, context).is_some_and(lacks_generated_hooks) {
        // It would fail, and the installation of packages with it.
        environment = environment.with(&BTreeMap::from([("HUSKY".to_owned(), "0".to_owned())]));
    }
    let mut environment = environment.with(&context.variables);
    if sets_force_color(&command) {
        // Node.js warns where both are set.
        environment = environment.without(NO_COLOR);
    }
    if let Some(port) = watched.as_ref().and_then(Before::proxy_port) {
        let present = |name: &str| environment.get(name).map(|value| value.to_string_lossy().into_owned());
        let proxy = proxy_environment(port, present);
        environment = environment.with(&proxy);
        if let Some(confined) = &confined {
            let roots = context.workspace.roots().paths();
            let directories = std::iter::once(directory.absolute()).chain(roots);
            let npm = npm::variables(confined.hosts(), &environment, directories);
            environment = environment.with(&npm);
        }
        if environment.get(GIT_SSH).is_none()
            && let Some(line) = git_ssh_command(port)
        {
            environment = environment.with(&BTreeMap::from([(GIT_SSH.to_owned(), line)]));
        }
    }
    if let Some(agent) = ssh_agent()
        && confinement.as_ref().is_some_and(|confinement| confinement.sockets.contains(&agent))
    {
        let agent = agent.to_string_lossy().into_owned();
        environment = environment.with(&BTreeMap::from([(SSH_AGENT.to_owned(), agent)]));
    }
    if let Some(before) = &watched {
        environment = before.with_signing(environment);
    }
    let hidden = confinement.as_ref().map(|confinement| confinement.hidden.as_slice()).unwrap_or_default();
    let mut secrets = known_secrets(&environment, context.workspace.roots().paths(), hidden);
    let committed = confined.iter().flat_map(|confined| &confined.committed);
    committed.for_each(|file| secrets.add_variable_file(file));
    let secrets = Arc::new(secrets);
    let redactor = || Redactor::new(context.redact_secrets, &secrets);
    let limits = context.command_limits;
    let stays = judged_at_end.is_some() || !context.background.is_possible();
    let mut head = format!("Directory: {}", directory.display());
    if !unsaved.is_empty() {
        let names = unsaved.iter().map(|document| document.path.as_str()).collect::<Vec<_>>().join(", ");
        head.push_str(&format!("\nThese files have unsaved changes that the command did not see: {names}"));
    }
    let collector = Collector::default().with_redactor(redactor());
    let handle = Arc::new(CommandHandle::new(terminal));
    let id = context.command_id.clone();
    let running =
        Arc::new(RunningCommand::new(id, command.clone(), collector, Arc::clone(&handle), session.held));
    let run = Run {
        command: Command {
            line: command,
            directory: directory.absolute().to_owned(),
            // What can't go to the background has no other end.
            timeout: if stays { timeout.or(limits.timeout) } else { limits.timeout },
            handle: Some(handle),
        },
        head: head.clone(),
        bounds: confined.zip(confinement),
        watched,
        before,
        is_staged,
        running: Arc::clone(&running),
        environment,
        shown: redactor(),
        context: context.clone(),
    };
    if context.cancel.is_cancelled() {
        return cancelled();
    }
    let mut job = tokio::spawn(run.finish());
    let wait = match session.background {
        true => timeout.or(Some(BEGINNING)),
        false => timeout.or(limits.foreground).filter(|_| !stays),
    };
    match attend(&mut job, &running, (wait, session.background), judged_at_end, context).await {
        ForegroundEnd::Ended(outcome) => *outcome,
        ForegroundEnd::Background(why) => {
            let output = tell_output(running.take_output(), &running, context).await;
            let id = running.id.clone();
            let types = match &running.handle.terminal {
                Some(_) => " send_command_input types at its terminal;",
                None => "",
            };
            let text = format!(
                "{head}\nThe command is still running{why}. It is in the background now, as {id}: it runs on until \
                 it ends, \
                 you stop it or the task ends, and you are told how it ended. read_command_output returns what it \
                 prints from now on;{types} stop_command ends it.\n{output}"
            );
            context.background.add(Arc::clone(&running), job);
            Outcome {
                background: Some((id.clone(), running.line.clone())),
                ..Outcome::new(ToolStatus::Ok, text, format!("in the background as {id}"))
            }
        }
    }
}

/// Returns whether a line sets the variable by which programs print colours whatever they print to.
fn sets_force_color(line: &str) -> bool {
    roo_shell::read(line).commands.iter().any(|command| {
        let words = command.words.iter().map(|word| word.visible.as_str());
        let mut texts = command.assignments.iter().map(String::as_str).chain(words);
        texts.any(|text| text.starts_with("FORCE_COLOR="))
    })
}

/// Results of waiting for a command in the foreground.
enum ForegroundEnd {
    /// It has ended.
    Ended(Box<Outcome>),
    /// It goes to the background, for this reason.
    Background(String),
}

/// Waits for a command until it ends or goes to the background.
async fn attend(
    job: &mut JoinHandle<Outcome>,
    running: &RunningCommand,
    (wait, to_background): (Option<Duration>, bool),
    judged_at_end: Option<&'static str>,
    context: &ToolContext,
) -> ForegroundEnd {
    let mut cancelled = context.cancel.clone();
    let mut asked = context.foreground.to_background.clone();
    let mut unwanted = context.foreground.stop.clone();
    let mut deadline = wait.and_then(|wait| Some((Instant::now().checked_add(wait)?, wait)));
    let mut silence = context.command_limits.timeout.is_none().then_some(SILENCE);
    loop {
        let why = tokio::select! {
            biased;
            ended = &mut *job => return ForegroundEnd::Ended(Box::new(outcome_of(&running.line, ended))),
            () = cancelled.cancelled() => {
                running.stop(StopReason::Cancelled);
                cancelled = CancellationToken::new();
                continue;
            }
            () = unwanted.cancelled() => {
                running.stop(StopReason::User);
                unwanted = CancellationToken::new();
                continue;
            }
            () = asked.cancelled() => {
                asked = CancellationToken::new();
                ", and the user has sent it to the background".to_owned()
            }
            () = running.settled(QUIET), if to_background => return ForegroundEnd::Background(String::new()),
            wait = passed(deadline) => {
                deadline = None;
                format!(" after {} s", wait.as_secs_f64())
            }
            () = silent(running, silence) => {
                silence = None;
                if judged_at_end.is_some() || !context.background.has_room() {
                    running.stop(StopReason::Silent(SILENCE));
                    continue;
                }
                format!(" and has printed nothing for {} s", SILENCE.as_secs())
            }
        };
        let Some(obstacle) = obstacle(judged_at_end, context) else { return ForegroundEnd::Background(why) };
        (context.output)(&format!(
            "\n[The command can't go to the background: {obstacle}. It continues in the foreground.]\n"
        ));
    }
}

/// Returns the reason why a command can't go to the background; none where it can.
fn obstacle(judged_at_end: Option<&'static str>, context: &ToolContext) -> Option<&'static str> {
    if judged_at_end.is_some() {
        judged_at_end
    } else if !context.background.is_possible() {
        Some("no task could watch it there")
    } else if !context.background.has_room() {
        Some("too many commands run there already")
    } else {
        None
    }
}

fn open_terminal(context: &ToolContext) -> io::Result<Terminal> {
    if !context.commands.starts_processes() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    Terminal::open()
}

async fn passed(deadline: Option<(Instant, Duration)>) -> Duration {
    match deadline {
        Some((at, wait)) => {
            sleep_until(at).await;
            wait
        }
        None => std::future::pending().await,
    }
}

async fn silent(running: &RunningCommand, limit: Option<Duration>) {
    match limit {
        Some(limit) => running.silent(limit).await,
        None => std::future::pending().await,
    }
}

/// Returns the outcome of the own task of the command with this line.
pub(crate) fn outcome_of(line: &str, ended: Result<Outcome, tokio::task::JoinError>) -> Outcome {
    // Only a defect or the end of the server ends it otherwise.
    ended.unwrap_or_else(|error| {
        let fault =
            ChangesUnknown { command: line.to_owned(), reason: format!("its end is not known ({error})") };
        Outcome { fault: Some(fault.clone()), ..Outcome::failed(fault.to_string()) }
    })
}

/// All that a command needs to come to its end without its call.
struct Run {
    command: Command,
    /// The first lines of the result.
    head: String,
    bounds: Option<(Box<Confined>, Confinement)>,
    watched: Option<Before>,
    /// The workspace before the command, where nothing else keeps what it replaces.
    before: Option<Snapshot>,
    is_staged: bool,
    running: Arc<RunningCommand>,
    environment: Environment,
    /// Masks what people see while it runs.
    shown: Redactor,
    context: ToolContext,
}

impl Run {
    async fn finish(self) -> Outcome {
        let Self { command, head, bounds, watched, before, is_staged, running, environment, shown, context } =
            self;
        let ran = {
            let mut ran =
                pin!(run_to_end(&command, &environment, bounds.as_ref(), &running, shown, &context));
            tokio::select! {
                ran = &mut ran => ran,
                () = has_disallowed_repository(watched.as_ref(), &running, &context) => {
                    running.stop(StopReason::Repository);
                    ran.await
                }
            }
        };
        let (exit, left) = match ran {
            Ok((status, left)) => (Ok(status), left),
            Err(error) => (Err(error), LeftRunning::default()),
        };
        let output = running.finish_output();
        let (status, summary, how) = match &exit {
            Ok(status) => ending(*status, command.timeout, is_staged, running.stop_reason()),
            Err(error @ exec::ExecError::Wait(_)) => {
                (ToolStatus::Failed, "end unknown".to_owned(), format!("{error}."))
            }
            Err(error) => {
                return Outcome::new(
                    ToolStatus::Failed,
                    format!("The command did not run: {error}."),
                    "not started",
                );
            }
        };
        let preview = output.preview.clone();
        let mut text = format!("{head}\n{how}\n{}", tell_output(output, &running, &context).await);
        let mut found = effects(watched, &exit, &preview, &context).await;
        // While a command runs in the background, its user and others work on: what they change can't be told from its own.
        if let Some(before) = before.filter(|_| context.background.get(&running.id).is_none())
            && let Some(shadow) = &context.shadow
        {
            found.complete(shadow.changes(before, &context.sources()).await);
        }
        if found.undid_git {
            // An exit code of 0 alone reads as if the change had been made.
            let line = exact_line(&running.line);
            text = format!(
                "Not done: what this command changed of git's own files was undone, as told below. If the task needs it, \
                 the user can run this themselves: {line}\n{text}"
            );
        }
        text.push_str(&left_running(&left));
        text.push_str(&found.told);
        if let Some(reason) = &found.unknown {
            text.push_str(&format!("\nWhat the command changed is not known: {reason}. The user is asked."));
        }
        let level = bounds.as_ref().map_or("L0".to_owned(), |(confined, _)| confined.level.to_string());
        let explanation = bounds.map_or_else(Explanation::default, |(confined, confinement)| {
            let bounds = (&*confined, &confinement);
            explain(&running.line, bounds, &exit, &found, &preview, &environment, &context)
        });
        text.push_str(&explanation.text);
        let status = match status {
            ToolStatus::Ok if found.unknown.is_some() || found.incomplete => ToolStatus::Failed,
            status if found.violations.is_empty() => status,
            _ => ToolStatus::Failed,
        };
        let exit_code = match exit {
            Ok(Status::Code(code)) => Some(code),
            _ => None,
        };
        let run = CommandRun { digest: Digest::of(&command.line), exit_code };
        let CommandEffects { changes, binaries, details, commits, violations, short, unknown, .. } = found;
        let fault = unknown.map(|reason| ChangesUnknown { command: command.line.clone(), reason });
        let summary = match &fault {
            Some(_) => format!("{summary}; what it changed is not known"),
            None => summary,
        };
        let summary = [summary, short, explanation.summary];
        let summary: Vec<String> = summary.into_iter().filter(|part| !part.is_empty()).collect();
        let summary = summary.join("; ");
        Outcome {
            sandbox: Some(level),
            command: Some(run),
            changes: with_recalled_texts(changes, &binaries, &context),
            binaries,
            details,
            commits,
            violations,
            withheld: explanation.grantable,
            fault,
            exit_code,
            ..Outcome::new(status, text, summary)
        }
    }
}

/// Waits until a command in the background has had a git repository for some seconds that may not stay. Other commands are
/// judged at their end, which is near.
async fn has_disallowed_repository(
    watched: Option<&Before>,
    running: &RunningCommand,
    context: &ToolContext,
) {
    let made = watched.and_then(|before| Some((before, before.made_repositories()?)));
    let Some((before, mut made)) = made else { return std::future::pending().await };
    let mut known = BTreeSet::new();
    loop {
        sleep(LOOK).await;
        if context.background.get(&running.id).is_some() {
            // Only a defect ends a look otherwise, and then the end of the command is judged.
            let Some((again, found)) = before.disallowed_repositories(made).await else {
                return std::future::pending().await;
            };
            if !found.is_disjoint(&known) {
                return;
            }
            (made, known) = (again, found);
        }
    }
}

/// Runs a command to its end, and prints what people may see of its output.
async fn run_to_end(
    command: &Command,
    environment: &Environment,
    bounds: Option<&(Box<Confined>, Confinement)>,
    running: &RunningCommand,
    mut shown: Redactor,
    context: &ToolContext,
) -> Result<(Status, LeftRunning), exec::ExecError> {
    let mut escapes = Escapes::default();
    let print = |text: &str| {
        if !text.is_empty() {
            (context.output)(text);
        }
    };
    let show = |text: &str| {
        running.print(text);
        let plain = escapes.plain(text);
        let visible = shown.push(&plain);
        running.look_at(&visible);
        print(&visible);
    };
    let exit = match bounds {
        None => (context.commands)
            .run(command, environment, Box::new(show), running.stopped())
            .await
            .map(|status| (status, LeftRunning::default())),
        Some((confined, confinement)) => {
            let sandbox = &confined.sandbox;
            exec::run_confined(command, environment, sandbox, confinement, show, running.stopped()).await
        }
    };
    print(&shown.finish());
    exit
}

/// Finds out what a command that has ended changed, where that is watched.
async fn effects(
    watched: Option<Before>,
    exit: &Result<Status, exec::ExecError>,
    output: &str,
    context: &ToolContext,
) -> CommandEffects {
    let Some(before) = watched else { return CommandEffects::default() };
    let ended = match exit {
        Ok(Status::Code(_) | Status::Signal(_)) => command_effects::Ended::Itself,
        Ok(Status::DiskFilled) => command_effects::Ended::DiskFilled,
        Ok(Status::TimedOut | Status::Cancelled) | Err(_) => command_effects::Ended::CutOff,
    };
    command_effects::after(before, ended, was_to_sign(output), &context.workspace).await
}

/// Returns whether git was to sign and could not. That its configuration is printed, as by `env`, doesn't say so.
fn was_to_sign(output: &str) -> bool {
    output.lines().any(|line| line.contains(NO_SIGNING) && !line.starts_with("GIT_CONFIG_VALUE_"))
}

/// The real path of the socket of the user's SSH agent; none where none runs.
fn ssh_agent() -> Option<PathBuf> {
    let path = PathBuf::from(std::env::var_os(SSH_AGENT)?).canonicalize().ok()?;
    path.metadata().is_ok_and(|found| found.file_type().is_socket()).then_some(path)
}

/// Explains what the sandbox withheld from a command that has ended.
fn explain(
    line: &str,
    (confined, confinement): (&Confined, &Confinement),
    exit: &Result<Status, exec::ExecError>,
    found: &CommandEffects,
    output: &str,
    environment: &Environment,
    context: &ToolContext,
) -> Explanation {
    let withheld_variable = |name: &str| {
        environment.get(name).is_none()
            && std::env::var_os(name).is_some()
            && !confined.environment.excludes(name)
    };
    let ended = Ended {
        confinement,
        succeeded: matches!(exit, Ok(Status::Code(0))),
        only_shows: only_shows(line),
        refused: &found.refused,
        refused_hosts: &found.refused_hosts,
        refused_sockets: &found.refused_sockets,
        may_be_granted_hosts: confined.may_be_granted_hosts(),
        reaches_hosts: confined.reaches_hosts(),
        machine_listens: &exec::machine_listens_at,
        agent: ssh_agent(),
        withheld_variable: &withheld_variable,
        output,
        declined: &context.declined,
        git: &found.git,
    };
    withheld::explain(&ended, &context.workspace, environment.get("HOME").map(Path::new))
}

/// Fills in what an agent has read not long ago where the command's record has a digest alone.
fn with_recalled_texts(
    mut changes: Vec<FileChange>,
    binaries: &BinaryContents,
    context: &ToolContext,
) -> Vec<FileChange> {
    for change in &mut changes {
        if let Side::Opaque(digest) = change.before
            // Its bytes tell the encoding too.
            && binaries.of(digest).is_none()
            && let Some(text) = context.workspace.recall(digest)
        {
            change.before = Side::Text { text, digest };
        }
    }
    changes
}

/// Returns a command's output for the model; the whole of a long output is saved.
pub(super) async fn tell_output(output: Output, running: &RunningCommand, context: &ToolContext) -> String {
    match output.overflow {
        None if output.preview.is_empty() => "Output: none".to_owned(),
        None => format!("Output:\n{}", output.preview.trim_end_matches('\n')),
        Some(overflow) => {
            let stem = running.file_stem(&context.overflow_stem);
            let whereabouts = save(overflow, &stem, context).await;
            format!("{whereabouts}\n{}", output.preview.trim_end_matches('\n'))
        }
    }
}

/// Returns how the call ended, in a word for people and in a sentence for the model.
fn ending(
    status: Status,
    timeout: Option<Duration>,
    is_staged: bool,
    stop: StopReason,
) -> (ToolStatus, String, String) {
    let effects = match is_staged {
        false => "its effects may be incomplete",
        true => "none of its changes to the workspace were made, except to build output and caches",
    };
    match status {
        Status::Code(0) => (ToolStatus::Ok, "exit code 0".to_owned(), "Exit code: 0".to_owned()),
        Status::Code(code) => {
            // How shells tell that a signal ended what they ran.
            let signal = code.checked_sub(128).and_then(signal_name);
            let note = signal.map(|name| format!(" (as when {name} ends a process)")).unwrap_or_default();
            let how = format!("The command was not successful. Exit code: {code}{note}");
            (ToolStatus::Ok, format!("exit code {code}"), how)
        }
        Status::Signal(signal) => {
            let name = signal_name(signal).map_or_else(|| format!("signal {signal}"), str::to_owned);
            let how = format!("The command was not successful. It was ended by {name}.");
            (ToolStatus::Ok, format!("ended by {name}"), how)
        }
        Status::TimedOut => {
            let limit = timeout.unwrap_or_default().as_secs_f64();
            let how = format!(
                "The command was ended because it took longer than {limit} s; {effects}. \
                 Don't run it again as it is: give it a longer timeout or less to do."
            );
            (ToolStatus::Failed, format!("timed out after {limit} s"), how)
        }
        Status::DiskFilled => {
            let rest = match is_staged {
                false => "What it wrote is still there: remove what is not needed.",
                true => "What it wrote was removed, except for build output and caches.",
            };
            let how = format!(
                "The command was ended because it filled a disk: too little space is left there for anything else. {rest} Write less."
            );
            (ToolStatus::Failed, "ended: it filled a disk".to_owned(), how)
        }
        Status::Cancelled => {
            let (status, summary, how) = match stop {
                StopReason::Cancelled => (ToolStatus::Interrupted, "cancelled", "The command was cancelled"),
                StopReason::TaskEnded => {
                    (ToolStatus::Interrupted, "ended with its task", "The command was ended with its task")
                }
                StopReason::Model => (ToolStatus::Ok, "stopped", "The command was stopped"),
                StopReason::User => (ToolStatus::Ok, "stopped by the user", "The user stopped the command"),
                StopReason::Repository => {
                    let how = format!(
                        "The command was ended because it made a git repository that can make git run programs; {effects}."
                    );
                    return (
                        ToolStatus::Failed,
                        "ended: it made a git repository that may not stay".to_owned(),
                        how,
                    );
                }
                StopReason::Silent(limit) => {
                    let limit = limit.as_secs();
                    let how = format!(
                        "The command was ended because it printed nothing for {limit} s; {effects}. Don't run it \
                         again as it is: make it report its progress, or give it less to do."
                    );
                    return (ToolStatus::Failed, format!("ended: no output for {limit} s"), how);
                }
            };
            (status, summary.to_owned(), format!("{how}; {effects}."))
        }
    }
}

/// Returns the text for the model about processes that were ended with their shell; empty where there were none.
fn left_running(left: &LeftRunning) -> String {
    let LeftRunning { count, names } = left;
    let count = match count {
        0 => return String::new(),
        1 => "1 process".to_owned(),
        count => format!("{count} processes"),
    };
    let names: Vec<String> = names.iter().map(|name| exact_line(name)).collect();
    format!(
        "\nEnded {count} that the command left running: {}. To keep a server running, start it without `&` in a call \
         of its own: it goes to the background by itself.",
        names.join(", ")
    )
}

/// The names of signals that end processes, where their numbers are the same on all systems.
fn signal_name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        6 => "SIGABRT",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        15 => "SIGTERM",
        _ => return None,
    })
}

/// Saves the whole output and says where it is, or why it isn't.
async fn save(overflow: Overflow, stem: &str, context: &ToolContext) -> String {
    let Overflow { text, bytes, lost } = overflow;
    let how = match text.lines().any(|line| line.len() > ONE_LINE_CHARACTERS) {
        true => "with lines that read_file can't show whole: search_files shows what is around a match",
        false => "to be read with read_file",
    };
    let path = format!("{}/{stem}.txt", context.task_directory);
    let saved = match context.workspace.resolve(&path, Purpose::Write) {
        Ok(target) if is_own(&target, &path, &context.task_directory) => {
            let written = context.workspace.write(&target, None, &text, "Roo: command output").await;
            written.map(|_| ()).map_err(|error| error.to_string())
        }
        Ok(target) => Err(format!("{path} leads to {}, where the server doesn't write", target.display())),
        Err(error) => Err(error.to_string()),
    };
    match saved {
        Ok(()) if lost == 0 => {
            format!("Output ({bytes} bytes; all of it is in {path}, {how}):")
        }
        Ok(()) => format!(
            "Output ({bytes} bytes; its beginning and end are in {path}, {how}; {lost} bytes between them were not kept):"
        ),
        Err(error) => format!("Output ({bytes} bytes; what is left out here is lost: {error}):"),
    }
}

/// Returns whether a place is where its path says, in the request's own task directory: nobody is asked about this
/// write, so no link of the repository may lead it elsewhere.
fn is_own(target: &Resolved, path: &str, task_directory: &str) -> bool {
    let urid = task_directory.rsplit('/').next();
    matches!(target.location(), Location::Inside { root: 0 })
        && target.relative() == path
        && protection(path, urid) == Protection::OwnTaskDirectory
}

/// The innermost workspace folder that a directory is in.
fn folder_of<'a>(directory: &Resolved, context: &'a ToolContext) -> Option<&'a Path> {
    let around = context.workspace.roots().paths().filter(|root| directory.absolute().starts_with(root));
    around.max_by_key(|root| root.components().count())
}

/// Returns whether husky would generate its hooks in a folder for the first time. A command can't make them: what is in their
/// directory runs whenever the user commits.
fn lacks_generated_hooks(root: &Path) -> bool {
    let husky = root.join(".husky");
    husky.is_dir() && husky.join("_").symlink_metadata().is_err()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::tool_run::{BackgroundCommands, ShadowRepositories};
    use crate::tools::fixture::Fixture;
    use crate::tools::read_command_output::Awaited;
    use crate::tools::{read_command_output, stop_command};
    use roo_protocol::ids::CommandId;

    #[test]
    fn a_line_that_forces_colours_is_found() {
        for line in ["FORCE_COLOR=1 npx vitest run", "export FORCE_COLOR=1; x", "env FORCE_COLOR=3 x"] {
            assert!(sets_force_color(line), "{line}");
        }
        assert!(
            !["npx vitest run", "echo $FORCE_COLOR", "NO_COLOR=1 x"]
                .iter()
                .any(|line| sets_force_color(line))
        );
    }

    #[test]
    fn a_program_to_sign_with_that_is_only_printed_was_not_asked() {
        assert!(was_to_sign(&format!(
            "error: cannot run {NO_SIGNING}: Not a directory\nfatal: failed to sign"
        )));
        assert!(!was_to_sign(&format!("A=1\nGIT_CONFIG_VALUE_3={NO_SIGNING}\n")));
    }

    async fn run_in(fixture: &Fixture, command: &str, timeout: Option<Duration>) -> Outcome {
        let directory = fixture.context.workspace.resolve(".", Purpose::Directory).unwrap();
        run(command.to_owned(), directory, timeout, Bounds::default(), &fixture.context).await
    }

    async fn check(command: &str, summary: &str, text: &str) {
        let found = run_in(&Fixture::new(&[]), command, None).await;
        assert_eq!(
            (found.status, found.summary.as_str(), found.text.as_str()),
            (ToolStatus::Ok, summary, text)
        );
    }

    #[tokio::test]
    async fn success_and_failure_are_told_with_the_output() {
        check("echo hello; echo you >&2", "exit code 0", "Directory: .\nExit code: 0\nOutput:\nhello\nyou")
            .await;
        check("true", "exit code 0", "Directory: .\nExit code: 0\nOutput: none").await;
        check(
            "echo no; exit 3",
            "exit code 3",
            "Directory: .\nThe command was not successful. Exit code: 3\nOutput:\nno",
        )
        .await;
        check(
            "exit 137",
            "exit code 137",
            "Directory: .\nThe command was not successful. Exit code: 137 (as when SIGKILL ends a process)\n\
             Output: none",
        )
        .await;
        check(
            "kill -15 $$",
            "ended by SIGTERM",
            "Directory: .\nThe command was not successful. It was ended by SIGTERM.\nOutput: none",
        )
        .await;
    }

    #[tokio::test]
    async fn a_command_that_can_not_start_has_failed() {
        let fixture = Fixture::new(&[]);
        let gone = fixture.path("gone");
        std::fs::create_dir(&gone).expect("a directory");
        let directory = fixture.context.workspace.resolve("gone", Purpose::Directory).expect("it is there");
        std::fs::remove_dir(&gone).expect("it is empty");
        let found = run("true".to_owned(), directory, None, Bounds::default(), &fixture.context).await;
        assert_eq!((found.status, found.summary.as_str()), (ToolStatus::Failed, "not started"));
        assert!(found.text.contains("gone"), "{}", found.text);
    }

    #[tokio::test]
    async fn files_that_the_command_did_not_see_are_named() {
        let fixture = Fixture::new(&[]);
        fixture.open("src/a.rs", "not on disk");
        fixture.open("b.md", "not on disk");
        let found = run_in(&fixture, "true", None).await;
        let line = found.text.lines().find(|line| line.contains("did not see: ")).unwrap_or_default();
        assert!(line.contains("/b.md, ") && line.ends_with("/src/a.rs"), "{}", found.text);
    }

    #[tokio::test]
    async fn output_is_shown_while_it_arrives_without_control_sequences() {
        let fixture = Fixture::new(&[]);
        let found = run_in(&fixture, r"printf '10%%\r\033[32m100%%\033[0m\n'", None).await;
        assert!(found.text.ends_with("Output:\n100%"), "{}", found.text);
        assert_eq!(*fixture.shown.lock().expect("the text"), "10%\r100%\n");
    }

    #[tokio::test]
    async fn secrets_in_the_output_are_masked_for_the_model_and_for_people() {
        let token = "ghp_a7Kq2Lm9Zx4Tr0Vb8Nc1Wd6Yf3Hg5Js7Kq2L";
        let mut fixture = Fixture::new(&[]);
        fixture.context.variables = [("API_TOKEN".to_owned(), "plain-words".to_owned())].into();
        let line = format!(
            "echo use {token}; echo $API_TOKEN; printf ghp_a7Kq2Lm9; printf 'Zx4Tr0Vb8Nc1Wd6Yf3Hg5Js7Kq2L end'"
        );
        let found = run_in(&fixture, &line, None).await;
        for text in [found.text, fixture.shown.lock().expect("the text").clone()] {
            assert!(!text.contains("ghp_a7") && !text.contains("plain-words"), "{text}");
            assert!(text.contains("use ") && text.contains(" end"), "{text}");
        }
        fixture.put(".env", b"DATABASE_PASSWORD=plain-too\n");
        let found = run_in(&fixture, "cat .env", None).await;
        assert!(!found.text.contains("plain-too"), "{}", found.text);
        fixture.context.redact_secrets = false;
        let found = run_in(&fixture, &line, None).await;
        assert_eq!(found.text.matches(token).count(), 2, "{}", found.text);
    }

    #[tokio::test]
    async fn a_large_output_is_saved_whole_and_its_ends_are_told() {
        let fixture = Fixture::new(&[]);
        let found = run_in(&fixture, "seq 1 20000; exit 1", None).await;
        let expected: String = (1..=20_000).map(|n| format!("{n}\n")).collect();
        assert_eq!(fixture.read(".roo/tasks/20260102-03-04-abcdef01/call.txt"), expected);
        assert!(found.text.contains("Exit code: 1\n"), "{}", found.text);
        assert!(
            found
                .text
                .contains("(108894 bytes; all of it is in .roo/tasks/20260102-03-04-abcdef01/call.txt, "),
            "{}",
            found.text
        );
        assert!(
            found.text.contains("\n1\n2\n3\n") && found.text.ends_with("\n19999\n20000"),
            "{}",
            found.text
        );
    }

    #[tokio::test]
    async fn a_line_that_can_not_be_read_whole_is_told() {
        let found = run_in(&Fixture::new(&[]), "seq -s, 1 20000", None).await;
        let expected = "call.txt, with lines that read_file can't show whole: search_files shows what is around a match):";
        assert!(found.text.contains(expected), "{}", found.text);
        let found = run_in(&Fixture::new(&[]), "seq 1 20000", None).await;
        assert!(found.text.contains("call.txt, to be read with read_file):"), "{}", found.text);
    }

    #[tokio::test]
    async fn an_output_that_can_not_be_saved_loses_nothing_else() {
        let fixture = Fixture::new(&[]);
        fixture.put(".roo", b"in the way");
        let found = run_in(&fixture, "seq 1 20000; exit 4", None).await;
        assert_eq!((found.status, found.summary.as_str()), (ToolStatus::Ok, "exit code 4"));
        assert!(
            found.text.contains("what is left out here is lost: .roo/tasks/20260102-03-04-abcdef01/call.txt"),
            "{}",
            found.text
        );
        assert!(
            found.text.contains("\n1\n2\n3\n") && found.text.ends_with("\n19999\n20000"),
            "{}",
            found.text
        );
    }

    #[tokio::test]
    async fn a_large_output_is_not_saved_through_a_link() {
        for (link, to) in
            [(".roo", "../out"), (".roo", "src"), (".roo/tasks/20260102-03-04-abcdef01", "../../src")]
        {
            let fixture = Fixture::new(&[]);
            let (out, inside) = (fixture.path("../out"), fixture.path("src"));
            for directory in [&out, &inside] {
                std::fs::create_dir(directory).expect("a directory");
            }
            let link = fixture.path(link);
            std::fs::create_dir_all(link.parent().expect("it has one")).expect("a directory");
            std::os::unix::fs::symlink(to, link).expect("a link");
            let found = run_in(&fixture, "seq 1 20000", None).await;
            assert!(found.text.contains("where the server doesn't write"), "{}", found.text);
            assert!(found.text.ends_with("\n19999\n20000"), "{}", found.text);
            for directory in [&out, &inside] {
                assert_eq!(std::fs::read_dir(directory).expect("it is there").count(), 0);
            }
        }
    }

    #[tokio::test]
    async fn a_time_limit_keeps_the_output_so_far() {
        let mut fixture = Fixture::new(&[]);
        fixture.context.command_limits.timeout = Some(Duration::from_millis(1500));
        let found = run_in(&fixture, "echo begun; sleep 1000", None).await;
        assert_eq!((found.status, found.summary.as_str()), (ToolStatus::Failed, "timed out after 1.5 s"));
        assert!(
            found.text.contains("longer than 1.5 s") && found.text.ends_with("Output:\nbegun"),
            "{}",
            found.text
        );
    }

    #[tokio::test]
    async fn cancelling_keeps_the_output_so_far() {
        let mut fixture = Fixture::new(&[]);
        let cancel = fixture.context.cancel.clone();
        fixture.context.output = Arc::new(move |_| cancel.cancel());
        let found = run_in(&fixture, "echo begun; sleep 1000", None).await;
        assert_eq!((found.status, found.summary.as_str()), (ToolStatus::Interrupted, "cancelled"));
        assert!(found.text.ends_with("Output:\nbegun"), "{}", found.text);
    }

    #[tokio::test]
    async fn a_command_that_is_cancelled_during_its_snapshot_does_not_start() {
        let mut fixture = Fixture::new(&[]);
        let shadow = Arc::new(ShadowRepositories::new(fixture.path("../state/shadow")));
        let root = fixture.context.workspace.roots().paths().next().expect("a folder");
        let lock = shadow.lock_of(root);
        std::fs::create_dir_all(lock.parent().expect("it has one")).expect("a directory");
        let lock = std::fs::File::create(lock).expect("a file");
        lock.lock().expect("nobody has it");
        fixture.context.shadow = Some(shadow);
        let cancel = fixture.context.cancel.clone();
        // The snapshot waits for the lock by then.
        let cancelled = async move {
            cancel.cancel();
            drop(lock);
        };
        let (found, ()) = tokio::join!(run_in(&fixture, "touch ran", None), cancelled);
        assert_eq!(found.text, "The command was cancelled before it started.");
        assert!(!fixture.path("ran").exists());
    }

    /// Runs a command that goes to the background when it has printed something.
    async fn run_to_background(fixture: &mut Fixture, command: &str) -> (Outcome, Arc<RunningCommand>) {
        let to_background = fixture.context.foreground.to_background.clone();
        fixture.context.output = Arc::new(move |_| to_background.cancel());
        let outcome = run_in(fixture, command, None).await;
        let running = fixture.context.background.get(&CommandId::new("cmd-1")).expect("it runs on");
        (outcome, running)
    }

    #[tokio::test]
    async fn the_user_stops_a_command_in_the_foreground_and_its_call_says_so() {
        let mut fixture = Fixture::new(&[]);
        let stop = fixture.context.foreground.stop.clone();
        fixture.context.output = Arc::new(move |_| stop.cancel());
        let outcome = run_in(&fixture, "echo begun; sleep 600", None).await;
        assert_eq!((outcome.status, outcome.summary.as_str()), (ToolStatus::Ok, "stopped by the user"));
        assert!(outcome.text.contains("The user stopped the command"), "{}", outcome.text);
        assert!(outcome.text.contains("begun"), "{}", outcome.text);
    }

    #[tokio::test]
    async fn what_comes_in_the_background_is_read_once_and_told_at_the_end() {
        let mut fixture = Fixture::new(&[]);
        let line = "mkfifo one two; echo begun; read x <one; echo $x; read x <two; echo $x; exit 3";
        let (outcome, running) = run_to_background(&mut fixture, line).await;
        assert_eq!(
            (outcome.status, outcome.summary.as_str()),
            (ToolStatus::Ok, "in the background as cmd-1")
        );
        assert!(outcome.text.ends_with("Output:\nbegun"), "{}", outcome.text);
        assert_eq!(outcome.background, Some((CommandId::new("cmd-1"), line.to_owned())));
        let mut printed = running.printed();
        std::fs::write(fixture.path("one"), "one\n").expect("it is read");
        while running.unread() == 0 {
            printed.changed().await.expect("it prints");
        }
        let read = read_command_output::read(
            Some(running.id.clone()),
            Awaited::default(),
            Duration::ZERO,
            &fixture.context,
        )
        .await;
        assert!(read.text.starts_with("cmd-1 is still running: mkfifo"), "{}", read.text);
        assert!(read.text.ends_with("Output:\none"), "{}", read.text);
        std::fs::write(fixture.path("two"), "two\n").expect("it is read");
        let ended = outcome_of(&running.line, running.take_job().expect("nobody has taken it").await);
        assert_eq!(ended.summary, "exit code 3");
        assert!(ended.text.ends_with("Output:\ntwo"), "{}", ended.text);
    }

    #[tokio::test]
    async fn a_command_that_takes_too_long_goes_to_the_background_and_can_be_stopped() {
        let mut fixture = Fixture::new(&[]);
        fixture.context.command_limits.foreground = Some(Duration::from_secs(1000));
        let found = run_in(&fixture, "sleep 1000", Some(Duration::from_millis(10))).await;
        assert!(found.text.contains("is still running after 0.01 s"), "{}", found.text);
        let running = fixture.context.background.get(&CommandId::new("cmd-1")).expect("it runs on");
        let list =
            read_command_output::read(None, Awaited::default(), Duration::ZERO, &fixture.context).await;
        assert_eq!(list.text, "cmd-1: sleep 1000 (0 bytes of new output)");
        running.stop(StopReason::Model);
        let ended = outcome_of(&running.line, running.take_job().expect("nobody has taken it").await);
        assert_eq!((ended.status, ended.summary.as_str()), (ToolStatus::Ok, "stopped"));
        fixture.context.background.remove(&running.id);
        let gone = stop_command::stop(running.id.clone(), &fixture.context).await;
        assert_eq!(gone.status, ToolStatus::Failed);
        assert!(gone.text.ends_with("No command runs in the background."), "{}", gone.text);
    }

    /// Time passes at once where nothing happens.
    #[tokio::test(start_paused = true)]
    async fn a_silent_command_goes_to_the_background_or_is_ended_where_it_can_not() {
        let mut fixture = Fixture::new(&[]);
        let found = run_in(&fixture, "sleep 1000", None).await;
        assert!(found.text.contains("has printed nothing for 600 s"), "{}", found.text);
        let running = fixture.context.background.get(&CommandId::new("cmd-1")).expect("it runs on");
        running.stop(StopReason::TaskEnded);
        let ended = outcome_of(&running.line, running.take_job().expect("nobody has taken it").await);
        assert_eq!((ended.status, ended.summary.as_str()), (ToolStatus::Interrupted, "ended with its task"));

        fixture.context.background = Arc::new(BackgroundCommands::none());
        let found = run_in(&fixture, "sleep 1000", None).await;
        assert_eq!(
            (found.status, found.summary.as_str()),
            (ToolStatus::Failed, "ended: no output for 600 s")
        );
    }

    #[tokio::test]
    async fn a_call_that_is_cancelled_already_does_not_start() {
        let fixture = Fixture::new(&[]);
        fixture.context.cancel.cancel();
        let found = run_in(&fixture, "touch ran", None).await;
        assert_eq!(found.status, ToolStatus::Interrupted);
        assert!(!fixture.path("ran").exists());
    }
}
