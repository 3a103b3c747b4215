//! `roo-lsp import roo`: the tasks, modes and MCP servers that Roo Code, or Cline, keeps in its directory, taken over.
//!
//! Its profiles and settings are not there to be read: they come by an export, in `settings`. The user's rules are where this program
//! reads them too.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::modes;
use super::tasks::{self, TaskImport};
use crate::cli::arguments::{Common, ImportRoo};
use crate::cli::dialogue::Dialogue;
use crate::cli::mcp::{Taking, import_roo_servers};
use crate::cli::session::SessionContext;
use crate::cli::{CliError, Ending, terminal};
use roo_formats::roo_code::places::{MODES, RULES, SERVERS, TASKS, storages, storages_in_use};
use roo_formats::roo_code::tasks::{
    CONVERSATION_FILES, ITEM_FILE, MESSAGES_FILE, PastTask, TASK_FILE_LIMIT, TaskFiles, TaskItem, read_list,
};
use roo_text::render::{counted, exact_line};

/// Lists of all tasks: Roo Code's and Cline's.
const LISTS: [&str; 2] = ["tasks/_index.json", "state/taskHistory.json"];
/// Part of the name of Cline's directory.
const CLINE: &str = "claude-dev";
/// The program's name.
const ROO_CODE: &str = "Roo Code";
/// The most tasks of a directory.
const MAX_TASKS: usize = 20_000;

/// The directory of a program.
struct Storage {
    path: PathBuf,
    program: &'static str,
    /// Names of the directories of tasks, in order.
    ids: Vec<String>,
    /// Entries of tasks that have no file of their own.
    listed: BTreeMap<String, TaskItem>,
    /// The file of the user's modes, unless they count where they are.
    modes: Option<PathBuf>,
    /// The file of MCP servers.
    servers: Option<PathBuf>,
}

/// Imports what the directory has that is named, or else what those in the usual places have. Fails if something was left out.
pub(super) fn import(common: &Common, arguments: &ImportRoo) -> Result<Ending, CliError> {
    let context = SessionContext::find(common)?;
    let home = context.directories.home.as_deref();
    let places = match &arguments.path {
        Some(directory) => vec![directory.clone()],
        None => {
            let has_something =
                |place: &PathBuf| [TASKS, "settings"].iter().any(|name| may_be_there(&place.join(name)));
            home.into_iter().flat_map(storages).filter(has_something).collect()
        }
    };
    if places.is_empty() {
        return Err(CliError::Other(
            "Roo Code has no tasks in the usual places; give its directory rooveterinaryinc.roo-cline, or an exported \
             settings file"
                .to_owned(),
        ));
    }
    // By one path, whose last name tells the program, however it was written.
    let open = |path: &PathBuf| Storage::open(&path.canonicalize().unwrap_or_else(|_| path.clone()), home);
    let (mut storages, mut is_whole) = (vec![], true);
    for place in &places {
        match open(place) {
            Ok(storage) => storages.push(storage),
            // One that nobody named is no reason to leave out the others.
            Err(error @ (CliError::Usage(_) | CliError::Other(_))) if arguments.path.is_none() => {
                is_whole = false;
                writeln!(terminal::stderr(), "roo-lsp: not imported: {}", exact_line(&error.to_string()))?;
            }
            Err(error) => return Err(error),
        }
    }
    if storages.is_empty() {
        writeln!(terminal::stdout(), "Nothing was imported.")?;
        return Ok(Ending::Failed);
    }
    // Whoever names a directory has said what they want.
    if arguments.path.is_none() && !may_import(&storages, arguments)? {
        writeln!(terminal::stdout(), "Nothing was imported.")?;
        return Ok(Ending::Done);
    }
    // Before the tasks, which go on in them.
    for file in storages.iter().filter_map(|storage| storage.modes.as_deref()) {
        is_whole &= modes::import_file(&context, file, arguments.dry_run)?;
    }
    let servers: Vec<PathBuf> = storages.iter().filter_map(|storage| storage.servers.clone()).collect();
    if !servers.is_empty() {
        let ImportRoo { dry_run, replace, approvals, .. } = *arguments;
        is_whole &= import_roo_servers(&context, servers, Taking { dry_run, replace, approvals })?;
    }
    let mut tasks = TaskImport::new(common, &context, arguments.dry_run);
    for storage in &storages {
        for id in &storage.ids {
            tasks.take(storage.program, id, storage.read(id))?;
        }
    }
    let ending = tasks.finish()?;
    if storages.iter().any(|storage| storage.program == ROO_CODE) {
        tell_the_rest(&context)?;
    }
    if !arguments.dry_run {
        modes::ask_delegation(&context)?;
    }
    Ok(if is_whole { ending } else { Ending::Failed })
}

/// Returns whether there is a directory, as far as this user can see.
fn may_be_there(path: &Path) -> bool {
    match fs::metadata(path) {
        Ok(found) => found.is_dir(),
        Err(error) => error.kind() == io::ErrorKind::PermissionDenied,
    }
}

/// Says what counts without an import, and what needs another one.
fn tell_the_rest(context: &SessionContext) -> Result<(), CliError> {
    let mut out = terminal::stderr();
    if let Some(rules) =
        context.directories.home.as_ref().map(|home| home.join(RULES)).filter(|path| path.is_dir())
    {
        let rules = exact_line(&rules.display().to_string());
        writeln!(out, "roo-lsp: nothing to import: your rules in {rules} count as they are")?;
    }
    Ok(writeln!(
        out,
        "roo-lsp: not imported: profiles and settings, which only an export holds (in Roo Code: Settings, About Roo Code, \
         Export): roo-lsp import roo FILE"
    )?)
}

/// Says what was found, and asks whether it is to be imported.
fn may_import(storages: &[Storage], arguments: &ImportRoo) -> Result<bool, CliError> {
    let dialogue = Dialogue::new();
    for storage in storages {
        let mut found = vec![counted(storage.ids.len(), "task")];
        found.extend(storage.modes.as_ref().map(|_| "modes".to_owned()));
        found.extend(storage.servers.as_ref().map(|_| "MCP servers".to_owned()));
        dialogue.tell(format!(
            "{} in {}",
            found.join(", "),
            exact_line(&storage.path.display().to_string())
        ))?;
    }
    if arguments.yes || arguments.dry_run {
        return Ok(true);
    }
    let answer = dialogue.ask("Import this? [y/N]")?;
    Ok(["y", "yes"].contains(&answer.to_lowercase().as_str()))
}

impl Storage {
    /// `home`: the user's home directory, where it is known.
    fn open(path: &Path, home: Option<&Path>) -> Result<Self, CliError> {
        let shown = exact_line(&path.display().to_string());
        let directory = path.join(TASKS);
        let mut ids = vec![];
        match fs::read_dir(&directory) {
            Ok(entries) => {
                let names = entries.filter_map(Result::ok).filter(|entry| entry.path().is_dir());
                ids.extend(names.filter_map(|entry| entry.file_name().into_string().ok()).take(MAX_TASKS));
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
        if ids.len() == MAX_TASKS {
            writeln!(
                terminal::stderr(),
                "roo-lsp: {shown} has more than {MAX_TASKS} tasks; the others are not read"
            )?;
        }
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let is_cline = name.contains(CLINE) || path.join(LISTS[1]).is_file();
        let mut listed = BTreeMap::new();
        for list in LISTS {
            // A list that can't be read is no reason to leave out tasks that need none.
            let Ok(Some(text)) = tasks::read(&path.join(list), TASK_FILE_LIMIT) else { continue };
            match read_list(list, &text) {
                Ok(items) => listed.extend(items.into_iter().map(|item| (item.id.clone(), item))),
                Err(error) => writeln!(terminal::stderr(), "roo-lsp: not read: {shown}: {error}")?,
            }
        }
        let program = if is_cline { "Cline" } else { ROO_CODE };
        let first = |names: [&str; 2]| names.iter().map(|name| path.join(name)).find(|path| path.is_file());
        let counts_here = |place: PathBuf| place.canonicalize().is_ok_and(|place| place == path);
        let is_in_use = home.is_some_and(|home| storages_in_use(home).into_iter().any(counts_here));
        let modes = first(MODES).filter(|_| !is_in_use);
        Ok(Self { path: path.to_owned(), program, ids, listed, modes, servers: first(SERVERS) })
    }

    /// Reads a task.
    fn read(&self, id: &str) -> Result<PastTask, String> {
        let directory = self.path.join(TASKS).join(id);
        let file = |name: &str| {
            tasks::read(&directory.join(name), TASK_FILE_LIMIT)
                .map_err(|error| format!("{name} can't be read: {error}"))
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
}
