//! Facts that a task should know before it begins: the files of the workspace, the machine, and what the project can
//! run.
//!
//! Everything is looked at and nothing is run, so that it costs little and works where no program is
//! installed. A part that can't be had says why and takes nothing from the others.

mod files;
mod machine;
mod scripts;

use std::sync::Arc;
use std::time::Duration;

use roo_text::render::exact_line;
use roo_workspace::{Purpose, Workspace};
use tokio::time::Instant;

/// The most workspace folders that are described.
const FOLDERS: usize = 8;

/// Limits of the list of files.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Files and directories of one workspace folder.
    pub entries: usize,
    /// Levels of directories.
    pub depth: usize,
    /// Time limit for looking at files.
    pub time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { entries: 400, depth: 8, time: Duration::from_secs(2) }
    }
}

/// Describes all of it in Markdown. Never fails: it names what it could not find out.
pub async fn system_context(workspace: &Arc<Workspace>, limits: Limits) -> String {
    let workspace = Arc::clone(workspace);
    let work = move || describe(&workspace, limits);
    // Only a runtime that is ending runs nothing more.
    roo_durable::spawn_blocking(work)
        .await
        .unwrap_or_else(|error| format!("The system context can't be gathered: {error}."))
}

/// Limits of the list that every task begins with, for which its first request waits.
const SHORT: Limits = Limits { entries: 150, depth: 4, time: Duration::from_millis(200) };

/// Draws the files of the workspace folders in short; none without a folder. Reads the disk.
pub(crate) fn files(workspace: &Workspace) -> Option<String> {
    let until = Instant::now() + SHORT.time;
    let folders = folders(workspace);
    let drawn = folders.iter().filter_map(|folder| {
        let root = workspace.resolve(folder, Purpose::List).ok()?;
        Some((folder, files::tree(workspace, &root, SHORT, until)))
    });
    let drawn: Vec<String> = match folders.len() {
        0 => return None,
        1 => drawn.map(|(_, tree)| tree).collect(),
        _ => drawn.map(|(folder, tree)| format!("{}\n{tree}", exact_line(folder))).collect(),
    };
    Some(drawn.join("\n"))
}

/// The workspace folders that are described.
fn folders(workspace: &Workspace) -> Vec<String> {
    workspace.roots().paths().take(FOLDERS).map(|path| path.to_string_lossy().into_owned()).collect()
}

fn describe(workspace: &Workspace, limits: Limits) -> String {
    let until = Instant::now() + limits.time;
    let folders = folders(workspace);
    let mut text = "# System context\n\n## Working directory\n\n".to_owned();
    match folders.first() {
        Some(first) => text.push_str(&exact_line(first)),
        None => text.push_str("None: no workspace folder is open."),
    }
    for folder in &folders {
        text.push_str(&format!("\n\n## Files of {}\n\n", exact_line(folder)));
        match workspace.resolve(folder, Purpose::List) {
            Ok(root) => text.push_str(&files::tree(workspace, &root, limits, until)),
            Err(error) => text.push_str(&format!("Not available: {error}")),
        }
    }
    text.push_str(&format!("\n\n## System\n\n{}", list(machine::system())));
    text.push_str(&format!("\n\n## Programs on PATH\n\n{}", list(machine::programs())));
    text.push_str("\n\n## What the project can run\n\n");
    let found: Vec<String> =
        folders.iter().flat_map(|folder| scripts::package_scripts(workspace, folder)).collect();
    match found.is_empty() {
        true => text.push_str(&format!("None found: there is no {}.", scripts::MANIFESTS.join(", no "))),
        false => text.push_str(&list(found)),
    }
    text.push('\n');
    text
}

fn list(items: Vec<String>) -> String {
    items.iter().map(|item| format!("- {item}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests;
