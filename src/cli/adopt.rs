//! `roo-lsp tasks adopt`: a workspace that was moved or renamed goes on with its tasks.

use std::fmt::Write as _;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::CliError;
use super::dialogue::Dialogue;
use super::session::SessionContext;
use crate::shell_word::shell_word;
use roo_durable::{AdoptedTrace, DirectoryIdentity, StoreError, VanishedFolder, WorkspaceDirectory};
use roo_engine::approvals::StandingRules;
use roo_text::render;

/// Takes over what is kept of the workspace under its earlier path, or lists the folders that it could have been. Asks
/// first, unless the user is sure. Returns what is to be printed.
pub(super) fn adopt(
    context: &SessionContext,
    earlier: Option<&Path>,
    is_sure: bool,
) -> Result<String, CliError> {
    let own = context.state();
    let Some(earlier) = earlier else { return Ok(candidates(&own)) };
    let shown = render::exact_line(&earlier.display().to_string());
    let failed = |error: io::Error| CliError::Other(format!("can't look at {shown}: {error}"));
    match earlier.canonicalize() {
        // A link at the earlier path leads here.
        Ok(there) if there == context.folder => {}
        Ok(_) => {
            let problem = format!("{shown} is still there, and its tasks are its own");
            return Err(CliError::Other(problem));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    let states = earlier_paths(earlier).map_err(failed)?.map(|folder| own.for_workspace(&folder));
    let found = states.iter().find(|state| state.path() != own.path() && state.path().exists());
    let Some(state) = found else {
        return Err(CliError::Other(format!("nothing is kept of {shown}\n{}", candidates(&own).trim_end())));
    };
    if !is_sure && !confirms(state, &shown)? {
        return Ok("Nothing was taken over.\n".to_owned());
    }
    let adopted = own.adopt(state).map_err(|error| match error {
        StoreError::Held { .. } => CliError::Other(format!(
            "a task of {shown} is open in another roo-lsp: close that window, or `roo-lsp daemon stop`"
        )),
        error => error.into(),
    })?;
    let rules = StandingRules::new(own.path(), Some(&context.folder));
    rules.adopt(state.path()).map_err(|error| CliError::Other(error.to_string()))?;
    let mut left = own.remove_adopted(state)?;
    let (tasks, belong) = match adopted.requests {
        0 => ("No tasks".to_owned(), "belong"),
        1 => ("1 task".to_owned(), "belongs"),
        several => (format!("{several} tasks"), "belong"),
    };
    let mut text = match adopted.trace {
        AdoptedTrace::Moved if adopted.requests == 0 => {
            format!("The trace of {shown} is this workspace's now.\n")
        }
        AdoptedTrace::Moved => format!("{tasks} and the trace of {shown} are this workspace's now.\n"),
        AdoptedTrace::Missing | AdoptedTrace::Left(_) => {
            format!("{tasks} of {shown} {belong} to this workspace now.\n")
        }
    };
    // Writing to a string can't fail.
    if let AdoptedTrace::Left(path) = &adopted.trace {
        let _ = writeln!(
            text,
            "Its trace stays in {}: this workspace has one of its own by now.",
            path.display()
        );
        left.retain(|other| other != path);
    }
    for path in left {
        let _ = writeln!(text, "{} stays: this workspace has its own, or it can't be moved.", path.display());
    }
    if let Some(notice) = rules.notice() {
        let _ = writeln!(text, "{notice}.");
    }
    text.push_str("Trust is not taken over: `roo-lsp trust` trusts the workspace where it is now.\n");
    Ok(text)
}

/// Asks whether the tasks of that folder are to be this workspace's.
///
/// # Errors
/// Without a person to answer: then it is to be said in the command.
fn confirms(state: &WorkspaceDirectory, shown: &str) -> Result<bool, CliError> {
    let tasks = match state.requests()?.len() {
        0 => "What is kept".to_owned(),
        1 => "1 task".to_owned(),
        several => format!("{several} tasks"),
    };
    let dialogue = Dialogue::new();
    if !dialogue.is_with_person() {
        let problem = format!(
            "{tasks} of {shown} would become this workspace's, with all else that is kept of it; add --yes"
        );
        return Err(CliError::Other(problem));
    }
    let answer = dialogue.ask(&format!("{tasks} of {shown}: take over into this workspace? [y/N]"))?;
    Ok(["y", "yes"].contains(&answer.to_lowercase().as_str()))
}

/// What to say where there are no tasks: that they may be those of a folder that is gone, if that was this directory, or had
/// this one's name where nobody knows.
pub(super) fn suggestion(context: &SessionContext) -> Option<String> {
    let folder = &context.folder;
    let own = DirectoryIdentity::read(folder).ok();
    let is_this =
        |other: &VanishedFolder| other.identity.zip(own).is_some_and(|(noted, own)| noted.is_same(own));
    let has_its_name = |other: &VanishedFolder| other.path.file_name() == folder.file_name();
    let vanished = context.state().vanished_folders();
    if let Some(VanishedFolder { path, .. }) = vanished.iter().find(|other| is_this(other)) {
        let word = shell_word(&path.to_string_lossy());
        return Some(format!(
            "It was {} before; take its tasks over: roo-lsp tasks adopt {word}\n",
            path.display()
        ));
    }
    let VanishedFolder { path, .. } = vanished.iter().find(|other| has_its_name(other))?;
    let word = shell_word(&path.to_string_lossy());
    Some(format!(
        "{} had tasks and is gone. If this is the same folder, take them over: roo-lsp tasks adopt {word}\n",
        path.display()
    ))
}

fn candidates(own: &WorkspaceDirectory) -> String {
    let folders = own.vanished_folders();
    if folders.is_empty() {
        return "No folder is known that had tasks and is gone. Name the one that the workspace was in: roo-lsp \
                tasks adopt DIRECTORY\n"
            .to_owned();
    }
    folders.iter().fold("Folders that had tasks and are gone:\n".to_owned(), |mut text, folder| {
        let _ = writeln!(text, "  {}", render::exact_line(&folder.path.display().to_string()));
        text
    })
}

/// The path with the links in what is left of it resolved, by which the workspace was known, and as it was written.
fn earlier_paths(given: &Path) -> io::Result<[PathBuf; 2]> {
    let mut written = PathBuf::new();
    for component in std::path::absolute(given)?.components() {
        match component {
            Component::ParentDir => drop(written.pop()),
            component => written.push(component),
        }
    }
    let mut resolved = written.clone();
    for ancestor in written.ancestors().skip(1) {
        if let Ok(real) = ancestor.canonicalize() {
            resolved = real.join(written.strip_prefix(ancestor).unwrap_or(&written));
            break;
        }
    }
    Ok([resolved, written])
}
