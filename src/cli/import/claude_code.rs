//! `roo-lsp import claude-code`: the sessions that Claude Code keeps, taken over as requests that can be continued.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::tasks::{self, TaskImport};
use crate::cli::arguments::{Common, ImportClaudeCode};
use crate::cli::dialogue::Dialogue;
use crate::cli::session::SessionContext;
use crate::cli::{CliError, Ending, terminal};
use roo_formats::claude_code::{SESSION_LIMIT, read_session, session_of};
use roo_formats::roo_code::tasks::{PastTask, TaskError};
use roo_text::render::{counted, exact_line};

/// The program's name.
const CLAUDE_CODE: &str = "Claude Code";
/// The variable that names its directory, and the usual one below the home directory.
const VARIABLE: &str = "CLAUDE_CONFIG_DIR";
const DIRECTORY: &str = ".claude";
/// The directory of its sessions, with one for each folder.
const PROJECTS: &str = "projects";
/// The most sessions that are looked at.
const MAX_SESSIONS: usize = 20_000;

/// Imports the sessions below the directory that is named, or else below the usual one. Fails if one was left out.
pub(super) fn import(common: &Common, arguments: &ImportClaudeCode) -> Result<Ending, CliError> {
    let context = SessionContext::find(common)?;
    let directory = match &arguments.path {
        Some(directory) => directory.clone(),
        None => usual_place(&context).ok_or_else(|| {
            let message = format!(
                "{CLAUDE_CODE} has no sessions in the usual place; give its directory, such as ~/{DIRECTORY}/{PROJECTS}"
            );
            CliError::Other(message)
        })?,
    };
    let shown = exact_line(&directory.display().to_string());
    let mut files = vec![];
    collect(&directory, true, &mut files).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => CliError::Usage(format!("there is no directory {shown}")),
        _ => CliError::Other(format!("can't read {shown}: {error}")),
    })?;
    files.sort();
    if files.len() == MAX_SESSIONS {
        writeln!(
            terminal::stderr(),
            "roo-lsp: {shown} has more than {MAX_SESSIONS} sessions; the others are not read"
        )?;
    }
    if arguments.path.is_none() && !may_import(files.len(), &shown, arguments)? {
        writeln!(terminal::stdout(), "Nothing was imported.")?;
        return Ok(Ending::Done);
    }
    let mut tasks = TaskImport::new(common, &context, arguments.dry_run);
    for (id, file) in &files {
        match read(id, file) {
            Ok(None) => tasks.pass_over_empty(),
            Ok(Some(past)) => tasks.take(CLAUDE_CODE, id, Ok(past))?,
            Err(reason) => tasks.take(CLAUDE_CODE, id, Err(reason))?,
        }
    }
    tasks.finish()
}

fn usual_place(context: &SessionContext) -> Option<PathBuf> {
    let named = std::env::var_os(VARIABLE).map(PathBuf::from).filter(|path| path.is_absolute());
    let directory = named.or_else(|| Some(context.directories.home.as_ref()?.join(DIRECTORY)))?;
    Some(directory.join(PROJECTS)).filter(|path| path.is_dir())
}

/// Says what was found, and asks whether it is to be imported.
fn may_import(sessions: usize, place: &str, arguments: &ImportClaudeCode) -> Result<bool, CliError> {
    let dialogue = Dialogue::new();
    dialogue.tell(format!("{} in {place}", counted(sessions, "session")))?;
    if arguments.yes || arguments.dry_run {
        return Ok(true);
    }
    let answer = dialogue.ask("Import them? [y/N]")?;
    Ok(["y", "yes"].contains(&answer.to_lowercase().as_str()))
}

/// The sessions in a directory, and in those in it if it is that of all folders.
fn collect(directory: &Path, with_folders: bool, files: &mut Vec<(String, PathBuf)>) -> io::Result<()> {
    for entry in fs::read_dir(directory)?.filter_map(Result::ok) {
        let path = entry.path();
        if path.is_dir() {
            if with_folders && let Err(error) = collect(&path, false, files) {
                // The others are read all the same.
                let _ = writeln!(
                    terminal::stderr(),
                    "roo-lsp: can't read {}: {error}",
                    exact_line(&path.display().to_string())
                );
            }
        } else if let Some(id) = entry.file_name().to_str().and_then(session_of)
            && files.len() < MAX_SESSIONS
        {
            files.push((id.to_owned(), path));
        }
    }
    Ok(())
}

/// A session; none where its user has said nothing.
fn read(id: &str, file: &Path) -> Result<Option<PastTask>, String> {
    let text = tasks::read(file, SESSION_LIMIT).map_err(|error| format!("it can't be read: {error}"))?;
    match read_session(id, &text.unwrap_or_default()) {
        Ok(past) => Ok(Some(past)),
        Err(TaskError::Empty) => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}
