//! What a command left behind: the files that it changed, for the trace, and what it was not allowed to
//! change, undone or held for the user.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use crate::changes::{BUDGET, Change, Held, Kind, Settled, Settlement, Snapshot, State};
use crate::hooks::Watch;
use crate::protocol::ids::Digest;
use crate::text::render::exact_line;
use crate::trace::record::{Author, FileChange, FileState, Side, Violation};

/// The most files of which the trace tells that a command changed them.
const FILES: usize = 256;
/// The largest file whose text is looked at, in bytes.
const TEXT: u64 = 1 << 20;
/// The most violations that a model is told one by one.
const TOLD: usize = 20;

/// The files before a command.
pub(super) struct Before {
    watch: Box<Watch>,
    snapshot: Result<Snapshot, String>,
}

/// What a command left behind.
#[derive(Default)]
pub(super) struct Aftermath {
    /// What it was allowed to change.
    pub(super) changes: Vec<FileChange>,
    /// What it was not, and what became of that.
    pub(super) violations: Vec<Violation>,
    /// For the model; empty when there is nothing to say.
    pub(super) told: String,
}

/// Records the files.
pub(super) async fn before(watch: Box<Watch>) -> Before {
    let taken = tokio::task::spawn_blocking(move || {
        let snapshot = Snapshot::take(&watch.roots, &watch.scope, &watch.store, BUDGET);
        Before { snapshot: snapshot.map_err(|error| error.to_string()), watch }
    });
    // Only a runtime that is ending runs nothing more, and its command with it.
    match taken.await {
        Ok(before) => before,
        Err(_) => std::future::pending().await,
    }
}

/// Compares, and undoes what was not allowed. All processes of the command are dead.
pub(super) async fn after(before: Before) -> Aftermath {
    let compared = tokio::task::spawn_blocking(move || {
        let Before { watch, snapshot } = before;
        match snapshot {
            Ok(snapshot) => compare(&watch, &snapshot),
            Err(error) => unknown(&error),
        }
    });
    compared.await.unwrap_or_default()
}

fn unknown(error: &str) -> Aftermath {
    Aftermath {
        told: format!("\nWhat the command changed is not known: {error}. Look before you go on."),
        ..Aftermath::default()
    }
}

fn compare(watch: &Watch, snapshot: &Snapshot) -> Aftermath {
    let found = snapshot.diff(&watch.scope, BUDGET);
    let settled = snapshot.restore(&found, &watch.store);
    let mut aftermath = found.unknown.as_deref().map(unknown).unwrap_or_default();
    aftermath.changes = found
        .changes
        .iter()
        .filter(|change| !change.is_violation())
        .filter_map(|change| traced(watch, change))
        .take(FILES)
        .collect();
    let mut told: Vec<String> = Vec::new();
    for Settled { change, settlement } in &settled {
        let path = exact_line(&change.path.to_string_lossy());
        let (action, words) = match settlement {
            Settlement::Restored { moved: Some(moved) } => (
                "restored",
                format!(
                    "it was taken back; what the command wrote is kept in {}",
                    exact_line(&moved.to_string_lossy())
                ),
            ),
            Settlement::Restored { moved: None } => ("restored", "it was taken back".to_owned()),
            Settlement::Held { why, .. } => {
                let why = match why {
                    Held::ChangedMeanwhile => "somebody changed it after the command".to_owned(),
                    Held::NotKept => "what it was is not kept".to_owned(),
                    Held::Failed(error) => error.clone(),
                };
                ("held", format!("it could not be taken back ({why}); ask the user"))
            }
        };
        if told.len() < TOLD {
            told.push(format!("\n- {path}: {words}"));
        }
        aftermath.violations.push(Violation {
            path: change.path.to_string_lossy().into_owned(),
            before: state(change.before.as_ref()),
            after: state(change.after.as_ref()),
            action: action.to_owned(),
        });
    }
    if !settled.is_empty() {
        let more = settled.len().saturating_sub(told.len());
        let more = if more > 0 { format!("\n- and {more} more") } else { String::new() };
        aftermath.told.push_str(&format!(
            "\nScope Violation: the command changed what it may not change:{}{more}",
            told.concat()
        ));
    }
    aftermath
}

fn state(state: Option<&State>) -> FileState {
    match state {
        None => FileState::Absent,
        Some(state) => FileState::Present(digest(state)),
    }
}

/// The digest of a state; where the content was not looked at, one of what is known of it.
fn digest(state: &State) -> Digest {
    state.digest.unwrap_or_else(|| Digest::of(format!("{:?} {} {}", state.kind, state.mode, state.size)))
}

/// A change of a file, as the trace tells it; none for directories and the like.
fn traced(watch: &Watch, change: &Change) -> Option<FileChange> {
    let is_file = |state: &Option<State>| state.as_ref().is_none_or(|state| state.kind == Kind::File);
    if !is_file(&change.before) || !is_file(&change.after) {
        return None;
    }
    let root = watch.roots.get(change.root)?;
    let absolute = root.join(&change.path);
    let side = |state: &Option<State>| match state {
        None => Side::Absent,
        Some(state) => Side::Opaque(digest(state)),
    };
    let after = match &change.after {
        Some(_) => text(&absolute).unwrap_or_else(|| side(&change.after)),
        None => Side::Absent,
    };
    let named = if change.root == 0 { change.path.clone() } else { absolute };
    Some(FileChange {
        path: named.to_string_lossy().into_owned(),
        old_path: change.renamed_from.as_ref().map(|path| path.to_string_lossy().into_owned()),
        before: side(&change.before),
        after,
        author: Author::Ai,
    })
}

fn text(path: &Path) -> Option<Side> {
    let found = fs::symlink_metadata(path).ok()?;
    if !found.is_file() || found.len() > TEXT {
        return None;
    }
    let text: Arc<str> = String::from_utf8(fs::read(path).ok()?).ok()?.into();
    Some(Side::text(text))
}
