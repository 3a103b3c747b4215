//! `roo-lsp hooks`: which hooks there are, what is wrong with their files, hooks of another program taken
//! over, and an event to try them with.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::arguments::{Common, HooksCommand};
use super::session::SessionContext;
use super::signals::{Signal, Signals};
use super::terminal;
use super::{CliError, Ending, read_input};
use crate::configuration_file::{ConfigurationFile, read};
use roo_engine::customization::{Customization, GLOBAL_HOOKS, PROJECT_HOOKS};
use roo_engine::hooks::{
    EventName, FILE_LIMIT, Form, Hook, HookContext, HookFile, ImportError, PermissionMode, Source, import,
};
use roo_formats::{FileProblem, Severity};
use roo_text::render;

/// The largest file, in bytes.
const LIMIT: u64 = FILE_LIMIT as u64;
/// Paths of another program's hooks, below the workspace folder or the home directory.
const OTHER_SETTINGS: [&str; 2] = [".claude/settings.json", ".claude/settings.local.json"];

/// Runs `hooks list`, `check`, `import` or `run`.
pub(super) fn hooks(common: &Common, command: Option<HooksCommand>) -> Result<Ending, CliError> {
    match command {
        None | Some(HooksCommand::List) => list(&SessionContext::find(common)?),
        Some(HooksCommand::Check { file: Some(file) }) => check_file(&file),
        Some(HooksCommand::Check { file: None }) => check_all(&SessionContext::find(common)?),
        Some(HooksCommand::Import { files, user, write }) => {
            take_over(&SessionContext::find(common)?, files, user, write)
        }
        Some(HooksCommand::Run { event }) => super::block_on(run(common.clone(), event))?,
    }
}

/// All hooks, the user's first, each with whether it counts or waits for an approval.
pub(super) fn all(customization: &Customization) -> Vec<(Hook, bool)> {
    let effective = customization.user_hooks();
    let of_user = effective.hooks().iter().filter(|hook| hook.source == Source::User).cloned();
    let counts = |hook: &Hook| effective.hooks().iter().any(|other| other.source == hook.source);
    let hooks = of_user.chain(customization.project_hooks());
    hooks.map(|hook| (counts(&hook), hook)).map(|(runs, hook)| (hook, runs)).collect()
}

fn list(context: &SessionContext) -> Result<Ending, CliError> {
    let customization = context.customization()?;
    let all = all(&customization);
    let mut text = String::new();
    for (hook, runs) in &all {
        // Writing to a string can't fail.
        let _ = writeln!(
            text,
            "{:<9}  {:<18}  {}{}",
            hook.source.as_str(),
            if *runs { "runs" } else { "waits for approval" },
            hook.shown(),
            details(hook)
        );
    }
    if all.is_empty() {
        text.push_str("no hooks\n");
    }
    terminal::stdout().write_all(text.as_bytes())?;
    tell(&customization)?;
    Ok(Ending::Done)
}

fn details(hook: &Hook) -> String {
    let mut details = vec![format!("{} s", hook.timeout.as_secs_f64())];
    if hook.background {
        details.push("in the background".to_owned());
    }
    if hook.fail_closed {
        details.push("fails closed".to_owned());
    }
    format!("  ({})", details.join(", "))
}

/// Problems, and what of the workspace is left out, on standard error.
fn tell(customization: &Customization) -> Result<(), CliError> {
    let mut out = terminal::stderr();
    for problem in hook_problems(customization) {
        writeln!(out, "roo-lsp: {}", render::exact_line(&problem.to_string()))?;
    }
    let trust = customization.trust();
    if !trust.trusted && trust.brings.iter().any(|path| path == PROJECT_HOOKS) {
        writeln!(
            out,
            "roo-lsp: this workspace is not trusted, so no hook of {PROJECT_HOOKS} runs (see roo-lsp trust)"
        )?;
    }
    Ok(())
}

/// Returns the problems of the hook files.
fn hook_problems(customization: &Customization) -> Vec<FileProblem> {
    let is_ours = |problem: &FileProblem| problem.file.file_name().is_some_and(|name| name == GLOBAL_HOOKS);
    customization.problems().into_iter().filter(is_ours).collect()
}

fn check_all(context: &SessionContext) -> Result<Ending, CliError> {
    let customization = context.customization()?;
    let checked = print(&hook_problems(&customization), customization.user_hooks().hooks().len())?;
    let own = context.folder.join(PROJECT_HOOKS);
    if customization.trust().trusted || !own.is_file() {
        return Ok(checked);
    }
    writeln!(
        terminal::stderr(),
        "roo-lsp: {PROJECT_HOOKS} has no effect until the workspace is trusted (`roo-lsp trust`); it is checked anyway"
    )?;
    Ok(match check_file(&own)? {
        Ending::Done => checked,
        worse => worse,
    })
}

fn readable(path: &Path) -> Result<String, CliError> {
    let shown = || render::exact_line(&path.to_string_lossy());
    let text =
        read(path, LIMIT).map_err(|error| CliError::Other(format!("can't read {}: {error}", shown())))?;
    text.ok_or_else(|| CliError::Other(format!("can't read {}: it does not exist", shown())))
}

/// Looks at one file, wherever it is. Settings of another program may hold anything besides.
fn check_file(path: &Path) -> Result<Ending, CliError> {
    let form = match path.file_name().and_then(|name| name.to_str()) {
        Some(name) if name.starts_with("settings") => Form::Settings,
        _ => Form::Hooks,
    };
    let (problems, count) = match HookFile::parse(&readable(path)?, form, Source::Workspace) {
        Ok(file) => (file.problems, file.hooks.len()),
        Err(problem) => (vec![problem], 0),
    };
    let problems = problems.into_iter().map(|problem| FileProblem::new(path, problem));
    print(&problems.collect::<Vec<_>>(), count)
}

fn print(problems: &[FileProblem], hooks: usize) -> Result<Ending, CliError> {
    let mut out = terminal::stdout();
    for problem in problems {
        let severity = if problem.problem.severity == Severity::Error { "error" } else { "warning" };
        writeln!(out, "{severity}: {}", render::exact_line(&problem.to_string()))?;
    }
    writeln!(out, "{hooks} hooks")?;
    let wrong = problems.iter().any(|problem| problem.problem.severity == Severity::Error);
    Ok(if wrong { Ending::Failed } else { Ending::Done })
}

fn take_over(
    context: &SessionContext,
    files: Vec<PathBuf>,
    user: bool,
    write: bool,
) -> Result<Ending, CliError> {
    let home = context.directories.home.as_ref();
    let (target, base) = match user {
        true => {
            let home = home.ok_or_else(|| CliError::Usage("HOME is not set; name a file".to_owned()))?;
            (context.directories.config.join(GLOBAL_HOOKS), home)
        }
        false => (context.folder.join(PROJECT_HOOKS), &context.folder),
    };
    let named = !files.is_empty();
    let sources = if named { files } else { OTHER_SETTINGS.map(|name| base.join(name)).to_vec() };
    let failed = |path: &Path, error: &dyn std::fmt::Display| {
        CliError::Other(format!("{}: {error}", render::exact_line(&path.to_string_lossy())))
    };
    let file = ConfigurationFile::open(target.clone(), LIMIT).map_err(|error| failed(&target, &error))?;
    let mut text = file.text().to_owned();
    let (mut found, mut left_out) = (0, false);
    let mut notes = terminal::stderr();
    for source in &sources {
        let settings = match read(source, LIMIT).map_err(|error| failed(source, &error))? {
            Some(settings) => settings,
            None if named => return Err(failed(source, &"it does not exist")),
            None => continue,
        };
        found += 1;
        let imported = import(&text, &settings).map_err(|error| match error {
            ImportError::Own(_) => failed(&target, &error),
            ImportError::Settings(_) => failed(source, &error),
        })?;
        let shown = render::exact_line(&source.to_string_lossy());
        for problem in imported.problems {
            left_out |= problem.severity == Severity::Error;
            let problem = FileProblem::new(source, problem);
            writeln!(notes, "roo-lsp: {}", render::exact_line(&problem.to_string()))?;
        }
        for hook in &imported.added {
            writeln!(notes, "roo-lsp: from {shown}: {hook}")?;
        }
        if imported.known > 0 {
            writeln!(notes, "roo-lsp: {shown}: {} hooks existed already", imported.known)?;
        }
        if !imported.added.is_empty() {
            text = imported.text;
        }
    }
    if found == 0 {
        return Err(CliError::Other(format!("there is neither {}", OTHER_SETTINGS.join(" nor "))));
    }
    if !write {
        terminal::stdout().write_all(text.as_bytes())?;
        writeln!(notes, "roo-lsp: nothing was written; use --write to write this to {}", target.display())?;
    } else if text == file.text() {
        writeln!(notes, "roo-lsp: nothing new for {}", target.display())?;
    } else {
        file.replace(&context.folder, &text).map_err(|error| failed(&target, &error))?;
        writeln!(terminal::stdout(), "{}", render::exact_line(&target.to_string_lossy()))?;
    }
    Ok(if left_out { Ending::Failed } else { Ending::Done })
}

/// Runs the hooks of an event that standard input tells, and prints what comes of it.
async fn run(common: Common, event: String) -> Result<Ending, CliError> {
    let event = EventName::parse(&event).ok_or_else(|| {
        let known: Vec<&str> = EventName::all().map(EventName::as_str).collect();
        let shown = render::exact_line(&event);
        CliError::Usage(format!("there is no event '{shown}'; the events are {}", known.join(", ")))
    })?;
    let context = SessionContext::find(&common)?;
    let customization = context.customization()?;
    let input = read_input()?;
    let given: Map<String, Value> = match input.trim() {
        "" => Map::new(),
        text => serde_json::from_str(text)
            .map_err(|error| CliError::Usage(format!("standard input is not a JSON object: {error}")))?,
    };
    tell(&customization)?;
    let hooks = customization.user_hooks();
    let (unwaited, cancel) = (TaskTracker::new(), CancellationToken::new());
    let judge = context.judge(context.settings(None)?, context.bounds())?;
    let sandbox = judge.hook_sandbox(&hooks).await;
    let hook_context = HookContext {
        session: "try-out",
        agent: None,
        transcript: None,
        permission_mode: PermissionMode::Default,
        environment_file: None,
        sandbox: &sandbox,
        folders: &[],
        unwaited: &unwaited,
        cancel: &cancel,
    };
    let mut signals = Signals::listen()?;
    let outcome = tokio::select! {
        outcome = hooks.try_out(event, given, &hook_context) => outcome,
        // The hooks end with what waits for them.
        signal = signals.next() => {
            return Ok(match signal {
                Signal::Interrupt => Ending::Interrupted,
                Signal::Terminate => Ending::Terminated,
            });
        }
    };
    writeln!(terminal::stdout(), "{:#}", outcome.to_json())?;
    Ok(Ending::Done)
}
