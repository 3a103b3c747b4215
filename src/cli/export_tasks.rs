//! `roo-lsp tasks export --format roo`: a request as files that Roo Code reads, a directory for each of its tasks.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

use super::CliError;
use roo_formats::roo_code::tasks::{CONVERSATION_FILES, ITEM_FILE, MESSAGES_FILE, PastTask, TaskFileTexts};
use roo_text::render::{counted, exact_line};

/// Directory of the tasks in that of the program.
const TASKS: &str = "tasks";

/// Writes tasks below a directory, which has the layout of Roo Code's own. Returns a sentence that says so.
///
/// # Errors
/// When a task is there already, or can't be written.
pub(super) fn export_tasks(past: &[PastTask], directory: &Path) -> Result<String, CliError> {
    let tasks = directory.join(TASKS);
    let shown = exact_line(&directory.display().to_string());
    let failed = |error: io::Error| CliError::Other(format!("can't write to {shown}: {error}"));
    for task in past {
        let place = tasks.join(&task.item.id);
        if place.exists() {
            let place = exact_line(&place.display().to_string());
            return Err(CliError::Other(format!(
                "{place} is there already; give another directory, or remove it"
            )));
        }
    }
    for task in past {
        let place = tasks.join(&task.item.id);
        fs::create_dir_all(&place).map_err(failed)?;
        let TaskFileTexts { item, conversation, messages } = task.write();
        // The entry last: without it, Roo Code lists no task.
        for (name, text) in
            [(CONVERSATION_FILES[0], conversation), (MESSAGES_FILE, messages), (ITEM_FILE, item)]
        {
            create(&place.join(name), &text).map_err(failed)?;
        }
    }
    Ok(format!("{} written to {shown}\n", counted(past.len(), "task")))
}

fn create(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(text.as_bytes())
}
