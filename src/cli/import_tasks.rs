//! `roo-lsp import roo`: the tasks and files that Roo Code, or Cline, keeps in its directory, taken over.
//!
//! Each task becomes a finished request of the workspace that it belongs to, whichever that is; nothing is written into the
//! workspaces themselves. What can't be read is told and left out.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::arguments::{Common, ImportRoo};
use super::dialogue::Dialogue;
use super::session::SessionContext;
use super::{CliError, Ending, terminal};
use crate::configuration_file::ConfigurationFile;
use roo_durable::{WorkspaceDirectory, read_regular};
use roo_engine::engine::{ImportSettings, import_task, is_imported};
use roo_formats::FileProblem;
use roo_formats::config::{Profile, Settings};
use roo_formats::modes::{self, Modes, ParsedModes, Source};
use roo_formats::roo_code::tasks::{
    self, CONVERSATION_FILES, ITEM_FILE, MESSAGES_FILE, PastTask, TASK_FILE_LIMIT, TaskFiles, TaskItem,
};
use roo_text::render::{counted, exact_line, one_line};

/// Directory of the tasks in that of the program.
const TASKS: &str = "tasks";
/// Lists of all tasks: Roo Code's and Cline's.
const LISTS: [&str; 2] = ["tasks/_index.json", "state/taskHistory.json"];
/// Files of modes, the newest name first. JSON is read as YAML.
const MODES: [&str; 2] = ["settings/custom_modes.yaml", "settings/cline_custom_modes.json"];
/// Files of MCP servers, the newest name first.
const SERVERS: [&str; 2] = ["settings/mcp_settings.json", "settings/cline_mcp_settings.json"];
/// File of the user's modes in the configuration directory.
const OWN_MODES: &str = "custom_modes.yaml";
/// Files below the home directory in which editors keep theirs.
const EDITOR_FILES: [&str; 2] = [".config", "Library/Application Support"];
/// Directories of editors in those.
const EDITORS: [&str; 5] = ["Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf"];
/// Directories of editors that are reached from elsewhere, below the home directory.
const REMOTE_EDITORS: [&str; 4] =
    [".vscode-server/data", ".cursor-server/data", ".windsurf-server/data", ".local/share/code-server"];
/// Directory of Roo Code in that of an editor.
const ROO_CODE: &str = "User/globalStorage/rooveterinaryinc.roo-cline";
/// The editor whose modes of Roo Code are read where they are.
const READ_IN_PLACE: &str = "Code";
/// Part of the name of Cline's directory.
const CLINE: &str = "claude-dev";
/// The most tasks of a directory.
const MOST_TASKS: usize = 20_000;
/// The longest title in a list, in characters.
const TITLE: usize = 60;

/// The directory of a program.
struct Storage {
    path: PathBuf,
    program: &'static str,
    /// Names of the directories of tasks, in order.
    ids: Vec<String>,
    /// Entries of tasks that have no file of their own.
    listed: BTreeMap<String, TaskItem>,
}

/// A workspace that tasks go to.
struct Target {
    directory: WorkspaceDirectory,
    modes: Arc<Modes>,
}

/// What came of the tasks.
#[derive(Default)]
struct Count {
    imported: usize,
    known: usize,
    left_out: usize,
    elsewhere: usize,
}

/// Returns the directories of Roo Code in the usual places, those that have tasks.
pub(super) fn usual_places(context: &SessionContext) -> Vec<PathBuf> {
    let Some(home) = &context.directories.home else { return vec![] };
    let local = EDITOR_FILES.iter().flat_map(|base| EDITORS.map(|editor| home.join(base).join(editor)));
    let all = local.chain(REMOTE_EDITORS.map(|place| home.join(place)));
    all.map(|editor| editor.join(ROO_CODE)).filter(|place| place.join(TASKS).is_dir()).collect()
}

/// Imports what these directories have. Fails if a task was left out.
pub(super) fn import_tasks(
    common: &Common,
    arguments: &ImportRoo,
    places: &[PathBuf],
) -> Result<Ending, CliError> {
    let context = SessionContext::find(common)?;
    let settings = context.settings_to_look();
    // By one path, whose last name tells the program, however it was written.
    let open = |path: &PathBuf| Storage::open(&path.canonicalize().unwrap_or_else(|_| path.clone()));
    let storages = places.iter().map(open).collect::<Result<Vec<_>, _>>()?;
    // Whoever names a directory has said what they want.
    if arguments.path.is_none() && !may_import(&storages, arguments)? {
        writeln!(terminal::stdout(), "Nothing was imported.")?;
        return Ok(Ending::Done);
    }
    let only = common.workspace.as_ref().map(|_| context.folder.as_path());
    let mut targets: BTreeMap<PathBuf, Result<Target, String>> = BTreeMap::new();
    let mut count = Count::default();
    for storage in &storages {
        // Before the tasks, which go on in them.
        import_modes(&context, &storage.path, arguments.dry_run)?;
        name_servers(&storage.path)?;
        for id in &storage.ids {
            let outcome =
                storage.import(id, only, (&context, &settings), &mut targets, arguments, &mut count);
            if let Err(reason) = outcome {
                count.left_out += 1;
                let reason = exact_line(&reason);
                writeln!(terminal::stderr(), "roo-lsp: not imported: task {}: {reason}", exact_line(id))?;
            }
        }
    }
    tell(&count, arguments)?;
    Ok(if count.left_out == 0 { Ending::Done } else { Ending::Failed })
}

/// Says what was found, and asks whether it is to be imported.
fn may_import(storages: &[Storage], arguments: &ImportRoo) -> Result<bool, CliError> {
    let dialogue = Dialogue::new();
    for storage in storages {
        let found = counted(storage.ids.len(), "task");
        dialogue.tell(format!("{found} in {}", exact_line(&storage.path.display().to_string())))?;
    }
    if arguments.yes || arguments.dry_run {
        return Ok(true);
    }
    let answer = dialogue.ask("Import this? [y/N]")?;
    Ok(["y", "yes"].contains(&answer.to_lowercase().as_str()))
}

fn tell(count: &Count, arguments: &ImportRoo) -> Result<(), CliError> {
    let done = if arguments.dry_run { "would be imported" } else { "imported" };
    let mut text = format!("{} {done}", counted(count.imported, "task"));
    for (number, what) in [
        (count.known, "imported before"),
        (count.left_out, "left out"),
        (count.elsewhere, "of other workspaces"),
    ] {
        if number > 0 {
            text.push_str(&format!(", {number} {what}"));
        }
    }
    Ok(writeln!(terminal::stdout(), "{text}")?)
}

impl Storage {
    fn open(path: &Path) -> Result<Self, CliError> {
        let shown = exact_line(&path.display().to_string());
        let directory = path.join(TASKS);
        let mut ids = vec![];
        match fs::read_dir(&directory) {
            Ok(entries) => {
                let names = entries.filter_map(Result::ok).filter(|entry| entry.path().is_dir());
                ids.extend(names.filter_map(|entry| entry.file_name().into_string().ok()).take(MOST_TASKS));
            }
            // One without tasks may have modes.
            Err(error) if error.kind() == io::ErrorKind::NotFound && path.join("settings").is_dir() => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(CliError::Usage(format!(
                    "{shown} has no directory `{TASKS}`, so it is not where Roo Code keeps its tasks; give the directory \
                     rooveterinaryinc.roo-cline of an editor's globalStorage"
                )));
            }
            Err(error) => {
                return Err(CliError::Other(format!("can't read {}: {error}", directory.display())));
            }
        }
        ids.sort();
        if ids.len() == MOST_TASKS {
            writeln!(
                terminal::stderr(),
                "roo-lsp: {shown} has more than {MOST_TASKS} tasks; the others are not read"
            )?;
        }
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let is_cline = name.contains(CLINE) || path.join(LISTS[1]).is_file();
        let mut listed = BTreeMap::new();
        for list in LISTS {
            // A list that can't be read is no reason to leave out tasks that need none.
            let Ok(Some(text)) = read(&path.join(list)) else { continue };
            match tasks::read_list(list, &text) {
                Ok(items) => listed.extend(items.into_iter().map(|item| (item.id.clone(), item))),
                Err(error) => writeln!(terminal::stderr(), "roo-lsp: not read: {shown}: {error}")?,
            }
        }
        let program = if is_cline { "Cline" } else { "Roo Code" };
        Ok(Self { path: path.to_owned(), program, ids, listed })
    }

    /// Reads a task.
    fn read(&self, id: &str) -> Result<PastTask, String> {
        let directory = self.path.join(TASKS).join(id);
        let file = |name: &str| {
            read(&directory.join(name)).map_err(|error| format!("{name} can't be read: {error}"))
        };
        let mut conversation = None;
        for name in CONVERSATION_FILES {
            conversation = match conversation {
                None => file(name)?,
                found => found,
            };
        }
        let item = file(ITEM_FILE)?;
        // It is wanted for what the others lack.
        let messages = file(MESSAGES_FILE).unwrap_or_default();
        let files = TaskFiles {
            id,
            item: item.as_deref(),
            listed: self.listed.get(id),
            conversation: conversation.as_deref(),
            messages: messages.as_deref(),
        };
        PastTask::read(&files).map_err(|error| error.to_string())
    }

    /// Imports a task, if it is of the workspace that is wanted alone.
    fn import(
        &self,
        id: &str,
        only: Option<&Path>,
        (context, settings): (&SessionContext, &Settings),
        targets: &mut BTreeMap<PathBuf, Result<Target, String>>,
        arguments: &ImportRoo,
        count: &mut Count,
    ) -> Result<(), String> {
        let past = self.read(id)?;
        let folder = match folder(past.item.workspace.as_deref()) {
            Ok(folder) => folder,
            // Of whatever folder it is, it isn't of this one.
            Err(_) if only.is_some() => {
                count.elsewhere += 1;
                return Ok(());
            }
            Err(reason) => return Err(reason),
        };
        if only.is_some_and(|only| only != folder) {
            count.elsewhere += 1;
            return Ok(());
        }
        let target =
            targets.entry(folder.clone()).or_insert_with(|| Target::open(context, settings, &folder));
        let Target { directory, modes } = target.as_ref().map_err(String::clone)?;
        if is_imported(directory, self.program, &past) {
            count.known += 1;
            return Ok(());
        }
        let title = one_line(past.item.task.trim(), TITLE);
        let place = exact_line(&folder.display().to_string());
        let failed = |error: io::Error| error.to_string();
        if arguments.dry_run {
            count.imported += 1;
            return writeln!(terminal::stdout(), "{id}  {title} ({place})").map_err(failed);
        }
        let settings = how_it_goes_on(&past, settings, modes);
        let imported =
            import_task(directory, self.program, &past, settings).map_err(|error| error.to_string())?;
        match imported.was_known {
            true => count.known += 1,
            false => count.imported += 1,
        }
        writeln!(terminal::stdout(), "{}  {title} ({place})", imported.urid).map_err(failed)
    }
}

impl Target {
    fn open(context: &SessionContext, settings: &Settings, folder: &Path) -> Result<Self, String> {
        let context = SessionContext { directories: context.directories.clone(), folder: folder.to_owned() };
        let customization = context.customization().map_err(|error| error.to_string())?;
        Ok(Self { directory: context.state(), modes: customization.modes_by(settings) })
    }
}

/// The mode, model and limits by which a task goes on: its own, where there are such.
fn how_it_goes_on(past: &PastTask, settings: &Settings, modes: &Modes) -> ImportSettings {
    let own = past.item.mode.as_deref().and_then(|slug| modes.get(slug));
    let mode = own.or_else(|| modes.get(&settings.mode));
    let slug = mode.map_or_else(|| settings.mode.clone(), |mode| mode.slug.clone());
    let own = past.item.profile.as_ref().filter(|name| settings.profiles.contains_key(*name));
    let profile = own.cloned().unwrap_or_else(|| settings.profile_of(&slug).0.to_owned());
    ImportSettings {
        emoji: mode.map(|mode| mode.emoji.clone()).unwrap_or_default(),
        protocol: settings.profiles.get(&profile).map(Profile::tool_protocol).unwrap_or_default(),
        mode: slug,
        profile,
        limits: settings.limits,
    }
}

/// The folder of a workspace, by its real path. What the file says may be anything.
fn folder(workspace: Option<&str>) -> Result<PathBuf, String> {
    let named = workspace.ok_or("nothing says which folder it belongs to")?;
    let shown = one_line(named, 200);
    let path = Path::new(named);
    let is_plain = path.is_absolute()
        && !named.contains('\0')
        && !path.components().any(|part| part == std::path::Component::ParentDir);
    if !is_plain {
        return Err(format!("its folder `{shown}` is no absolute path of this machine"));
    }
    match path.canonicalize() {
        Ok(folder) if folder.is_dir() => Ok(folder),
        Ok(_) => Err(format!("`{shown}`, which it belongs to, is not a folder")),
        Err(error) => Err(format!("its folder `{shown}` can't be used: {error}")),
    }
}

/// Copies the user's modes, unless they are read where they are or there are others.
fn import_modes(context: &SessionContext, storage: &Path, dry_run: bool) -> Result<(), CliError> {
    let is_read = EDITOR_FILES.iter().any(|base| {
        let home = context.directories.home.as_ref();
        home.is_some_and(|home| {
            let place = home.join(base).join(READ_IN_PLACE).join(ROO_CODE);
            place.canonicalize().is_ok_and(|place| place == storage)
        })
    });
    let Some(source) =
        MODES.iter().map(|name| storage.join(name)).find(|path| path.is_file()).filter(|_| !is_read)
    else {
        return Ok(());
    };
    let shown = exact_line(&source.display().to_string());
    let skip =
        |reason: &str| writeln!(terminal::stderr(), "roo-lsp: not imported: modes of {shown}: {reason}");
    let text = match read_regular(&source, modes::FILE_LIMIT as u64) {
        Ok(text) => text,
        Err(error) => return Ok(skip(&error.to_string())?),
    };
    match ParsedModes::parse(&text, Source::Global) {
        Ok(parsed) if parsed.modes.is_empty() => return Ok(()),
        Ok(_) => {}
        Err(problem) => {
            let problem = FileProblem::new(&source, problem);
            return Ok(skip(&exact_line(&problem.to_string()))?);
        }
    }
    let path = context.directories.config.join(OWN_MODES);
    let own = exact_line(&path.display().to_string());
    let file = ConfigurationFile::open(path, modes::FILE_LIMIT as u64)
        .map_err(|error| CliError::Other(format!("can't read {own}: {error}")))?;
    if file.text() == text {
        return Ok(());
    }
    if !file.text().trim().is_empty() {
        return Ok(skip(&format!("{own} has others"))?);
    }
    if !dry_run {
        file.replace(&context.folder, &text)
            .map_err(|error| CliError::Other(format!("can't write {own}: {error}")))?;
    }
    let done = if dry_run { "would be written to" } else { "written to" };
    Ok(writeln!(terminal::stdout(), "modes: {done} {own}, from {shown}")?)
}

/// Says where MCP servers are, which have an import of their own.
fn name_servers(storage: &Path) -> Result<(), CliError> {
    let found = SERVERS.iter().map(|name| storage.join(name)).find(|path| path.is_file());
    if let Some(path) = found {
        let shown = exact_line(&path.display().to_string());
        writeln!(terminal::stderr(), "roo-lsp: MCP servers of {shown}: roo-lsp mcp import --from roo")?;
    }
    Ok(())
}

/// The text of a file; none when it isn't there. No pipe is waited for.
fn read(path: &Path) -> io::Result<Option<String>> {
    match read_regular(path, TASK_FILE_LIMIT) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
