//! `roo-lsp tasks adopt`: a workspace that was moved or renamed goes on with its tasks.

use std::fmt::Write as _;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::CliError;
use super::session::SessionContext;
use crate::shell_word::shell_word;
use roo_durable::{AdoptedTrace, WorkspaceDirectory};
use roo_text::render;

/// Takes over what is kept of the workspace under its earlier path, or lists the folders that it could have been. Returns
/// what is to be printed.
pub(super) fn adopt(context: &SessionContext, earlier: Option<&Path>) -> Result<String, CliError> {
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
    let states = earlier_paths(earlier).map_err(failed)?.map(|folder| own.of(&folder));
    let found = states.iter().find(|state| state.path() != own.path() && state.path().exists());
    let Some(state) = found else {
        return Err(CliError::Other(format!("nothing is kept of {shown}\n{}", candidates(&own).trim_end())));
    };
    let adopted = own.adopt(state)?;
    let tasks = match adopted.requests {
        0 => "No tasks".to_owned(),
        1 => "1 task".to_owned(),
        several => format!("{several} tasks"),
    };
    let mut text = match adopted.trace {
        AdoptedTrace::Moved => format!("{tasks} and the trace of {shown} are this workspace's now.\n"),
        AdoptedTrace::Missing | AdoptedTrace::Left(_) => {
            format!("{tasks} of {shown} belong to this workspace now.\n")
        }
    };
    if let AdoptedTrace::Left(path) = &adopted.trace {
        // Writing to a string can't fail.
        let _ = writeln!(
            text,
            "Its trace stays in {}: this workspace has one of its own by now.",
            path.display()
        );
    }
    text.push_str("Trust is not taken over: `roo-lsp trust` trusts the workspace where it is now.\n");
    Ok(text)
}

/// What to say where there are no tasks: that they may be those of a folder that is gone, if it had this one's name or stood
/// beside it.
pub(super) fn suggestion(context: &SessionContext) -> Option<String> {
    let folder = &context.folder;
    let is_like =
        |other: &PathBuf| other.file_name() == folder.file_name() || other.parent() == folder.parent();
    let other = context.state().vanished_folders().into_iter().find(is_like)?;
    let word = shell_word(&other.to_string_lossy());
    Some(format!("If it was {} before, take its tasks over: roo-lsp tasks adopt {word}\n", other.display()))
}

fn candidates(own: &WorkspaceDirectory) -> String {
    let folders = own.vanished_folders();
    if folders.is_empty() {
        return "No folder is known that had tasks and is gone. Name the one that the workspace was in: roo-lsp \
                tasks adopt DIRECTORY\n"
            .to_owned();
    }
    folders.iter().fold("Folders that had tasks and are gone:\n".to_owned(), |mut text, folder| {
        let _ = writeln!(text, "  {}", render::exact_line(&folder.display().to_string()));
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
