//! The state that the records of a request's log fold to, up to any event.

use super::EngineError;
use super::event::Event;
use super::shared_records::as_own;
use super::tree::{Fold, Tree};
use roo_durable::{Record, RequestDirectory};
use roo_protocol::ids::TaskId;

/// The state that the records of a request's log fold to, and what `look` makes of the records.
pub(super) fn read_tree<T: Default>(
    directory: &RequestDirectory,
    root: &TaskId,
    mut look: impl FnMut(&mut T, &Record<Event>),
) -> Result<(Tree, T), EngineError> {
    let (fold, made) = fold_log(directory, root, None, |made, _, record| look(made, record))?;
    Ok((state(root, fold)?, made))
}

/// Folds the records of a log up to an event, or all. Each is given to `look` with the state before it and with what `look`
/// has made of the records so far.
pub(super) fn fold_log<T: Default>(
    directory: &RequestDirectory,
    root: &TaskId,
    before: Option<u64>,
    mut look: impl FnMut(&mut T, Option<&Tree>, &Record<Event>),
) -> Result<(Fold, T), EngineError> {
    let (fold, made) = fold_once(directory, root, before, vec![], &mut look)?;
    match fold.missing_marks() {
        missing if missing.is_empty() => Ok((fold, made)),
        // A conversation was restored. The state that it goes back to was missed, and so was every state since.
        missing => fold_once(directory, root, before, missing, &mut look),
    }
}

/// As [`fold_log`], where the numbers of the events are known before which conversations were restored to.
pub(super) fn fold_once<T: Default>(
    directory: &RequestDirectory,
    root: &TaskId,
    before: Option<u64>,
    marks: Vec<u64>,
    mut look: impl FnMut(&mut T, Option<&Tree>, &Record<Event>),
) -> Result<(Fold, T), EngineError> {
    let (mut fold, mut made) = (Fold::with_marks(root.clone(), marks), T::default());
    roo_durable::read_while(directory, 0, |mut record: Record<Event>| {
        as_own(root, &mut record);
        let is_wanted = before.is_none_or(|before| record.seq < before);
        if is_wanted {
            look(&mut made, fold.tree(), &record);
            fold.add(&record);
        }
        is_wanted
    })?;
    Ok((fold, made))
}

pub(super) fn state(root: &TaskId, fold: Fold) -> Result<Tree, EngineError> {
    fold.finish().ok_or_else(|| EngineError::WrongState {
        task: root.clone(),
        problem: "its log does not begin with its creation".into(),
    })
}
