//! `roo-lsp cassette`: requests kept as files in a team's repository, and played with the modes as they are now.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;

use super::arguments::{CassetteCommand, CheckCassettes, Common, RecordCassette, Run};
use super::notices::Notices;
use super::run::{FinishedRun, run_request};
use super::session::SessionContext;
use super::{CliError, Ending, tasks, terminal};
use roo_catalog::ToolProtocol;
use roo_durable::disk::{Access, RealDisk};
use roo_durable::{read_named, replace_checked};
use roo_engine::customization::Customization;
use roo_engine::engine::cassette::{
    self, Cassette, CassetteBlock, CassetteCall, CassetteTask, CassetteTurn, Conditions, Placeholders, Played,
};
use roo_engine::engine::{Governed, Instructions, ToolSources};
use roo_engine::intent_store::Orchestration;
use roo_formats::config::{Settings, ToolChoice};
use roo_formats::modes::{Mode, Modes};
use roo_sandbox::exec::redaction::TextMask;
use roo_sandbox::exec::{Environment, known_secrets};
use roo_text::{diff, render};
use roo_workspace::Workspace;

/// The largest cassette, in bytes.
const MAX_CASSETTE_BYTES: u64 = 64 << 20;
/// First line of every cassette.
const HEADER: &str =
    "# Recorded by `roo-lsp cassette record`; `roo-lsp cassette check` plays it, without a model.\n";

/// Records a cassette, or checks some.
pub(super) async fn cassette(
    common: Common,
    command: CassetteCommand,
    notices: &Notices,
) -> Result<Ending, CliError> {
    match command {
        CassetteCommand::Record(record) => self::record(common, *record, notices).await,
        CassetteCommand::Check(check) => self::check(&common, &check),
    }
}

async fn record(common: Common, record: RecordCassette, notices: &Notices) -> Result<Ending, CliError> {
    let RecordCassette { file, request, force, mode, profile, view, prompt } = record;
    // Before anything is run, which takes long.
    if !force && file.exists() {
        return Err(exists(&file));
    }
    let context = SessionContext::find(&common)?;
    let (engine, request) = match (request, prompt) {
        (Some(request), _) => {
            let engine = context.engine(Arc::new(Arc::new(context.settings_to_look())))?;
            let request = tasks::find(&engine, &request).await?.root();
            (engine, request)
        }
        (None, prompt) => {
            let run = Run {
                prompt: prompt.unwrap_or_default(),
                input: None,
                unquoted: vec![],
                mode,
                profile,
                detach: false,
                view,
            };
            let is_named = common.workspace.is_some();
            let FinishedRun { engine, request, ending } =
                run_request(&context, is_named, run, notices).await?;
            if !matches!(ending, Ending::Done | Ending::Failed) {
                return Ok(ending);
            }
            (engine, request)
        }
    };
    let unfit =
        |problem: String| CliError::Other(format!("the request can't be kept as a cassette: {problem}"));
    let mut kept = engine.cassette(&request).await?.map_err(|error| unfit(error.to_string()))?;
    let player = PlayContext::new(&context, &common)?;
    let placeholders = player.placeholders(&kept)?;
    placeholders.replace_in(&mut kept);
    let played = player.play(&kept, &placeholders)?;
    // Prompts are not in the log.
    kept.prompts.clone_from(&played.cassette.prompts);
    let Differences { text, count, .. } = Differences::between(&kept, &played);
    if count > 0 {
        return Err(unfit(format!("played again, it goes another way\n{text}")));
    }
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder).map_err(|error| cannot_write(&file, &error))?;
    }
    if force {
        replace(&file, &played.cassette)?;
    } else {
        create(&file, &played.cassette)?;
    }
    let turns: usize = kept.tasks.iter().map(|task| task.turns.len()).sum();
    writeln!(terminal::stdout(), "{}: recorded, {}", file.display(), counted(turns, "request to the model"))?;
    Ok(Ending::Done)
}

fn check(common: &Common, check: &CheckCassettes) -> Result<Ending, CliError> {
    let context = SessionContext::find(common)?;
    let player = PlayContext::new(&context, common)?;
    let mut ending = Ending::Done;
    for file in &check.files {
        let is_as_wanted = match check_file(&player, file, check.update) {
            Ok((told, is_as_wanted)) => {
                terminal::stdout().write_all(told.as_bytes())?;
                is_as_wanted
            }
            // The others are worth a look all the same.
            Err(error) => {
                writeln!(terminal::stderr(), "roo-lsp: {error}")?;
                false
            }
        };
        if !is_as_wanted {
            ending = Ending::Failed;
        }
    }
    Ok(ending)
}

/// Plays a cassette. Returns what is to be told, and whether the file is as the request goes now.
fn check_file(player: &PlayContext<'_>, file: &Path, update: bool) -> Result<(String, bool), CliError> {
    let kept = read(file)?;
    let placeholders = player.placeholders(&kept)?;
    let played = player.play(&kept, &placeholders)?;
    let Differences { text, count, is_fatal } = Differences::between(&kept, &played);
    let name = file.display();
    if count == 0 {
        return Ok((format!("{name}: as recorded\n"), true));
    }
    if update && !is_fatal {
        replace(file, &played.cassette)?;
        return Ok((format!("{text}{name}: updated\n"), true));
    }
    let hint = match (is_fatal, update) {
        (true, true) => "it was not updated, record it again",
        (true, false) => "record it again if that is meant",
        (false, _) => "--update takes them over if they are meant",
    };
    Ok((format!("{text}{name}: {}; {hint}\n", counted(count, "difference")), false))
}

fn counted(count: usize, what: &str) -> String {
    // What is counted is the first word.
    match (count, what.split_once(' ')) {
        (1, _) => format!("1 {what}"),
        (_, Some((first, rest))) => format!("{count} {first}s {rest}"),
        (_, None) => format!("{count} {what}s"),
    }
}

/// What cassettes are played with: what the workspace alone brings, so that every machine plays them in the same way.
struct PlayContext<'a> {
    context: &'a SessionContext,
    settings: Settings,
    workspace: Arc<Workspace>,
    customization: Customization,
    orchestration: Orchestration,
    modes: Arc<Modes>,
}

impl<'a> PlayContext<'a> {
    fn new(context: &'a SessionContext, common: &Common) -> Result<Self, CliError> {
        // The user's own settings are those of one machine; a file that is named is the same everywhere.
        let settings = match common.config {
            Some(_) => context.settings(None)?,
            None => Settings::default(),
        };
        let workspace = context.workspace()?;
        let customization = Customization::of_workspace(context.folder.clone())
            .map_err(|error| CliError::Other(error.to_string()))?;
        let orchestration = Orchestration::new(Arc::clone(&workspace), context.state().path());
        let modes = customization.modes_by(&settings);
        Ok(Self { context, settings, workspace, customization, orchestration, modes })
    }

    fn placeholders(&self, cassette: &Cassette) -> Result<Placeholders, CliError> {
        let (folder, home) = (&self.context.folder, self.context.directories.home.as_deref());
        let folders = || std::iter::once(folder.as_path());
        let mask = TextMask::new(true, || known_secrets(&Environment::inherited(), folders(), &[]));
        Placeholders::new(folder, home, &cassette.matchers, mask)
            .map_err(|error| CliError::Other(error.to_string()))
    }

    fn play(&self, cassette: &Cassette, placeholders: &Placeholders) -> Result<Played, CliError> {
        let compose = |mode: &Mode, protocol: ToolProtocol, choice: &ToolChoice| {
            Instructions::new(
                mode,
                &self.modes,
                protocol,
                ToolSources {
                    has_code_index: self.settings.index.enabled,
                    has_image_generation: self.settings.generates_images(),
                    ..ToolSources::built_in(choice)
                },
                &self.customization,
                Governed { orchestration: &self.orchestration, require: self.settings.intents.require },
                &self.workspace,
            )
        };
        let conditions = Conditions { modes: &self.modes, compose: &compose, has_task_directory: true };
        let played = cassette::play(cassette, &conditions);
        let mut played = played.map_err(|unknown| CliError::Other(unknown.to_string()))?;
        placeholders.replace_in(&mut played.cassette);
        Ok(played)
    }
}

fn read(file: &Path) -> Result<Cassette, CliError> {
    let name = file.display();
    let text = read_named(file, MAX_CASSETTE_BYTES)
        .map_err(|error| CliError::Other(format!("the cassette {name} can't be read: {error}")))?;
    let cassette: Cassette = serde_yaml::from_str(&text)
        .map_err(|error| CliError::Other(format!("the cassette {name} can't be used: {error}")))?;
    if cassette.is_of_this_version() {
        return Ok(cassette);
    }
    Err(CliError::Other(format!("the cassette {name} is of another version; record it again")))
}

fn as_text(cassette: &Cassette) -> Result<String, CliError> {
    let text = serde_yaml::to_string(cassette).map_err(|error| CliError::Other(error.to_string()))?;
    Ok(HEADER.to_owned() + &text)
}

/// Writes a new file. One that has appeared in the meantime stays as it is.
fn create(file: &Path, cassette: &Cassette) -> Result<(), CliError> {
    let text = as_text(cassette)?;
    let created = fs::File::create_new(file).and_then(|mut created| created.write_all(text.as_bytes()));
    created.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => exists(file),
        _ => cannot_write(file, &error),
    })
}

/// Writes a file, or replaces it at once.
fn replace(file: &Path, cassette: &Cassette) -> Result<(), CliError> {
    let text = as_text(cassette)?;
    let replaced = || {
        // A link stays one.
        let target = file.canonicalize().or_else(|_| std::path::absolute(file))?;
        // A device must not be replaced by a file.
        let check = || match target.metadata() {
            Ok(found) if !found.is_file() => Err(io::Error::other("it is not a regular file")),
            _ => Ok(()),
        };
        replace_checked(&RealDisk, &target, text.as_bytes(), Access::Shared, check)
    };
    replaced().map_err(|error| cannot_write(file, &error))
}

fn exists(file: &Path) -> CliError {
    CliError::Usage(format!("{} exists; --force replaces it", file.display()))
}

fn cannot_write(file: &Path, error: &io::Error) -> CliError {
    CliError::Other(format!("{} can't be written: {error}", file.display()))
}

/// What differs between a recorded cassette and a play of it.
#[derive(Default)]
struct Differences {
    text: String,
    count: usize,
    /// What was recorded isn't enough to play the request to its end.
    is_fatal: bool,
}

impl Differences {
    fn between(recorded: &Cassette, played: &Played) -> Self {
        let mut found = Self::default();
        let (before, after) = (parts(recorded), parts(&played.cassette));
        let text_of = |parts: &[Part], title: &str| {
            parts.iter().find(|other| other.title == title).map(|other| other.text.clone())
        };
        for Part { title, text, of_both } in &before {
            match (text_of(&after, title), &played.stopped) {
                (Some(now), _) => found.compare(title, text, &now),
                (None, None) if !of_both => found.compare(title, text, ""),
                // It didn't come so far.
                (None, _) => {}
            }
        }
        for Part { title, text, of_both } in &after {
            if !of_both && text_of(&before, title).is_none() {
                found.compare(title, "", text);
            }
        }
        let problems = played.permitted.iter().chain(&played.stopped);
        for problem in problems {
            found.text.push_str(&format!("{}\n", render::visible(problem)));
            found.count += 1;
            found.is_fatal = true;
        }
        found
    }

    fn compare(&mut self, title: &str, recorded: &str, now: &str) {
        if recorded != now {
            // Texts of models and of files must not control a terminal.
            self.text.push_str(&render::visible(&diff::unified(recorded, now, title)));
            self.count += 1;
        }
    }
}

/// A part of a cassette that is compared as a text.
struct Part {
    title: String,
    text: String,
    /// True if it is compared only where both cassettes have it.
    of_both: bool,
}

/// The parts of a cassette that are compared.
fn parts(cassette: &Cassette) -> Vec<Part> {
    let part = |title: String, text: String| Part { title, text, of_both: false };
    let mut parts = vec![];
    for (mode, prompt) in &cassette.prompts {
        parts.push(part(format!("system prompt of the mode {mode}"), lines(&prompt.system)));
        parts.push(part(format!("tools of the mode {mode}"), lines(&prompt.tools.join("\n"))));
        parts.extend(prompt.definitions.iter().map(|(tool, definition)| {
            let text = format!("{}\n{:#}\n", definition.description, definition.parameters);
            // Which tools there are is said above.
            Part { title: format!("tool {tool} of the mode {mode}"), text, of_both: true }
        }));
    }
    for CassetteTask { branch, turns, end } in &cassette.tasks {
        let of = branch.as_ref().map_or_else(String::new, |branch| format!(" of the branch {branch}"));
        for (number, turn) in (1..).zip(turns) {
            let CassetteTurn { mode, messages, looked_up, answer, .. } = turn;
            let texts = [&looked_up.commands, &looked_up.text].into_iter().chain(messages);
            let texts: String = texts.map(|text| lines(text)).collect();
            parts.push(part(format!("request {number}{of}"), format!("mode: {mode}\n{texts}")));
            let calls = answer.iter().filter_map(|block| match block {
                CassetteBlock::Call(call) => Some(call),
                CassetteBlock::Text(_) | CassetteBlock::Thinking(_) => None,
            });
            for (place, call) in (1..).zip(calls) {
                let title = format!("call {place} of answer {number}{of}: {}", call.tool);
                parts.extend(result_of(call).map(|text| part(title, text)));
            }
        }
        if let Some(end) = end {
            let text = serde_json::to_value(end).map_or_else(|_| String::new(), |end| format!("{end}\n"));
            parts.push(part(format!("end{of}"), text));
        }
    }
    parts
}

/// What came of a call; none where it has no result yet.
fn result_of(call: &CassetteCall) -> Option<String> {
    let status = serde_json::to_value(call.status?).unwrap_or_default();
    let denied = call.denied.as_ref().map_or_else(String::new, |rule| format!("denied: {rule}\n"));
    let refused = if call.refused.is_some() { "refused by the user\n" } else { "" };
    let result = lines(call.result.as_deref().unwrap_or_default());
    Some(format!("status: {}\n{denied}{refused}{result}", status.as_str().unwrap_or_default()))
}

/// A text that ends with a line end, so that a diff says nothing of it.
fn lines(text: &str) -> String {
    match text {
        "" => String::new(),
        text if text.ends_with('\n') => text.to_owned(),
        text => format!("{text}\n"),
    }
}
