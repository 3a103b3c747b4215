//! What a request changed, from its log, and undoing parts of it as an edit of its user's.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::event::Event;
use super::log_fold::read_tree;
use super::tree::Tree;
use super::{Engine, EngineError, audit};
use crate::policy::RestoreEdits;
use crate::tool_run::{RecordedLines, RequestChanges, RequestDiff};
use roo_durable::RequestDirectory;
use roo_protocol::changes::{
    ChangedFile, ChangesListResult, ChangesUndoParams, ChangesUndoResult, RecordedChange, UndoConflict,
};
use roo_protocol::ids::{ChangeId, TaskId};
use roo_protocol::review::HunkKind;
use roo_trace::record::{Author, FileChange, Side};
use roo_workspace::{FileEdit, Purpose, ReadError, Resolved, TextEncoding, Workspace};

/// A change as it was recorded, with what is told of it.
struct KnownChange {
    /// The number of the event that has it.
    seq: u64,
    path: String,
    lines: RecordedLines,
    /// The encoding of a file that the change deleted; none for plain UTF-8.
    encoding: Option<TextEncoding>,
    told: RecordedChange,
}

/// Tells the changes that are to be undone.
type ChangeFilter<'a> = dyn Fn(&KnownChange) -> bool + Sync + 'a;

impl Engine {
    /// What a task and its branches changed, as far as it was recorded, and where it is now.
    ///
    /// # Errors
    /// [`EngineError::NotFound`], or [`EngineError::Store`] when the log can't be read.
    pub async fn changes(&self, task: &TaskId) -> Result<ChangesListResult, EngineError> {
        Ok(located(self.known_changes(task).await?.1, self.workspace(), false).await)
    }

    /// Undoes changes as its user's edit, the newest first. What the user or anybody else has changed since stays and
    /// is reported.
    ///
    /// # Errors
    /// [`EngineError::NotFound`] for a change that is not in the list.
    pub async fn undo_changes(
        &self,
        params: ChangesUndoParams,
        by: &str,
    ) -> Result<ChangesUndoResult, EngineError> {
        let (tree, known) = self.known_changes(&params.task_id).await?;
        for id in &params.change_ids {
            if known.iter().all(|change| change.told.change_id != *id) {
                return Err(EngineError::NotFound { what: "change", id: id.to_string() });
            }
        }
        let is_chosen = |change: &KnownChange| {
            params.change_ids.contains(&change.told.change_id) || params.path.as_ref() == Some(&change.path)
        };
        let mut by_file: BTreeMap<String, Vec<KnownChange>> = BTreeMap::new();
        for change in known {
            by_file.entry(change.path.clone()).or_default().push(change);
        }
        by_file.retain(|_, changes| changes.iter().any(is_chosen));
        let mut result = ChangesUndoResult::default();
        for (path, all) in by_file {
            self.undo_in_file((&tree, &params.task_id), &path, (&all, &is_chosen), by, &mut result).await;
        }
        Ok(result)
    }

    async fn undo_in_file(
        &self,
        (tree, task): (&Tree, &TaskId),
        path: &str,
        (all, is_chosen): (&[KnownChange], &ChangeFilter<'_>),
        by: &str,
        result: &mut ChangesUndoResult,
    ) {
        let changes: Vec<&KnownChange> = all.iter().filter(|change| is_chosen(change)).collect();
        let conflict = |change: &KnownChange, reason: &str| UndoConflict {
            change_id: change.told.change_id.clone(),
            reason: reason.to_owned(),
        };
        let read = match self.workspace().resolve(path, Purpose::Write) {
            Ok(place) => text_of(self.workspace(), &place)
                .await
                .map(|text| (place, text))
                .map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        let (place, before) = match read {
            Ok(read) => read,
            Err(reason) => {
                result.conflicts.extend(changes.iter().map(|change| conflict(change, &reason)));
                return;
            }
        };
        let mut now = before.clone();
        let mut undone = Vec::new();
        // The encoding in which a file that was gone comes back.
        let mut encoding = None;
        for change in changes.iter().rev() {
            let remains =
                |later: &&KnownChange| change.is_before(later) && !undone.contains(&later.told.change_id);
            let lines = change.lines.followed_by(all.iter().filter(remains).map(|later| &later.lines));
            match lines.undo(now.as_deref()).or_else(|| change.lines.undo(now.as_deref())) {
                Some(text) => {
                    if now.is_none() {
                        encoding = Some(change.encoding.unwrap_or(TextEncoding::UTF_8));
                    }
                    now = text;
                    undone.push(change.told.change_id.clone());
                }
                None => result.conflicts.push(conflict(change, "the file holds other lines there by now")),
            }
        }
        let recoded = match (&before, &now, encoding) {
            (Some(before), Some(after), Some(encoding)) => {
                let recoded = self.workspace().recoded(&place, before, after, encoding).await;
                recoded.map_err(|error| error.reason())
            }
            _ => Ok(None),
        };
        let file = place.clone();
        let mut edits = RestoreEdits::default();
        let planned = recoded.map(|recoded| match (recoded, before.clone(), now.clone()) {
            // It was recreated in another encoding than it had.
            (Some(recoded), ..) => edits.bytes.push(recoded),
            (None, Some(before), Some(after)) if before != after => {
                edits.texts.push(FileEdit::Update { file, before, after });
            }
            (None, Some(before), None) => edits.texts.push(FileEdit::Delete { file, before }),
            (None, None, Some(text)) => {
                let encoding = encoding.unwrap_or(TextEncoding::UTF_8);
                edits.texts.push(FileEdit::Create { file, text, encoding });
            }
            // What was chosen cancels out, so the file is as it is to be.
            (None, ..) => {}
        });
        if planned.is_ok() && edits.is_empty() {
            result.undone.extend(undone);
            return;
        }
        let written = match planned {
            Ok(()) => {
                let label = format!("roo-lsp: undo changes of {}", place.display());
                self.current.read().await.gate.restore_for_user(&edits, &label).await
            }
            Err(reason) => Err(reason),
        };
        if let Err(reason) = written {
            let failed = changes.iter().filter(|change| undone.contains(&change.told.change_id));
            result.conflicts.extend(failed.map(|change| conflict(change, &reason)));
            return;
        }
        result.undone.extend(undone);
        let side = |text: Option<String>| text.map_or(Side::Absent, Side::text);
        let change = FileChange {
            path: place.display(),
            old_path: None,
            before: side(before),
            after: side(now),
            author: Author::Human,
        };
        if let (Some(state), Some(last)) = (tree.task(task), changes.last()) {
            let undo = ("undo", last.told.tool_call_id.clone());
            audit::undone(state, tree, undo, by, vec![change], &self.current.newest()).await;
        }
    }

    /// The recorded changes of a task and its branches, oldest first, and the state of the request.
    async fn known_changes(&self, task: &TaskId) -> Result<(Tree, Vec<KnownChange>), EngineError> {
        known_changes(self.readable(&task.root()).await?, task).await
    }
}

/// The recorded changes of a task and its branches in a log, oldest first, and the state of the request.
async fn known_changes(
    directory: RequestDirectory,
    task: &TaskId,
) -> Result<(Tree, Vec<KnownChange>), EngineError> {
    let request = task.root();
    let read = roo_durable::spawn_blocking(move || {
        read_tree(&directory, &request, |found: &mut Vec<KnownChange>, record| {
            let Event::ToolFinished { recorded, result, .. } = &record.event else { return };
            let mut number = 0;
            for file in recorded {
                for lines in &file.changes {
                    number += 1;
                    let told = RecordedChange {
                        change_id: ChangeId::new(format!("c{}.{number}", record.seq)),
                        task_id: record.task_id.clone(),
                        tool_call_id: result.call_id.clone(),
                        tool: result.name.clone(),
                        at: record.at,
                        kind: lines.kind,
                        by_user: file.by_user,
                        old_text: lines.old_text.clone(),
                        new_text: lines.new_text.clone(),
                        line: None,
                    };
                    let (path, lines) = (file.path.clone(), lines.clone());
                    found.push(KnownChange { seq: record.seq, path, lines, encoding: file.encoding, told });
                }
            }
        })
    });
    let (tree, mut found) = read.await.unwrap_or(Err(EngineError::Ending))?;
    if tree.task(task).is_none() {
        return Err(EngineError::NotFound { what: "task", id: task.to_string() });
    }
    found.retain(|change| tree.is_within(&change.told.task_id, task));
    Ok((tree, found))
}

impl KnownChange {
    /// Returns whether another change of the same file is of a later call.
    fn is_before(&self, other: &Self) -> bool {
        self.seq < other.seq
    }

    /// The line, counted from 0, where a text holds it, among all changes of its file; none where it doesn't.
    fn find(&self, all: &[Self], text: Option<&str>) -> Option<usize> {
        let later = all.iter().filter(|later| self.is_before(later)).map(|later| &later.lines);
        self.lines.followed_by(later).find(text).or_else(|| self.lines.find(text))
    }
}

/// A file that was created and changed since as one change, where it is still as these left it.
fn as_created(known: &[KnownChange], text: Option<&str>) -> Option<RecordedChange> {
    let (first, later) = known.split_first()?;
    let created = first.lines.created(later.iter().map(|change| &change.lines))?;
    let told = RecordedChange { new_text: created, line: Some(1), ..first.told.clone() };
    (text == Some(told.new_text.as_str())).then_some(told)
}

/// Finds out where changes are now, by file. Each file is read once. With `is_merged`, a file that the request created is one change.
async fn located(known: Vec<KnownChange>, workspace: &Workspace, is_merged: bool) -> ChangesListResult {
    let mut by_path: BTreeMap<String, Vec<KnownChange>> = BTreeMap::new();
    for change in known {
        by_path.entry(change.path.clone()).or_default().push(change);
    }
    let mut files = Vec::new();
    for (path, known) in by_path {
        let Ok(place) = workspace.resolve(&path, Purpose::Read) else { continue };
        let text = text_of(workspace, &place).await.ok();
        let created =
            text.as_ref().filter(|_| is_merged).and_then(|text| as_created(&known, text.as_deref()));
        let changes = match created {
            Some(created) => vec![created],
            None => {
                let located = known.iter().map(|change| {
                    let line = text.as_ref().and_then(|text| change.find(&known, text.as_deref()));
                    let line = line.and_then(|line| u32::try_from(line + 1).ok());
                    RecordedChange { line, ..change.told.clone() }
                });
                located.collect()
            }
        };
        let open = workspace.documents().at(place.absolute());
        let uri = open.map_or_else(|| place.uri(), |document| document.uri);
        files.push(ChangedFile { uri, path, changes });
    }
    ChangesListResult { files }
}

/// The text of a file, or of the document over it; none where no file is.
async fn text_of(workspace: &Workspace, place: &Resolved) -> Result<Option<String>, ReadError> {
    match workspace.read_for_edit(place).await {
        Ok(file) => Ok(Some(file.text)),
        Err(ReadError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// What the request of a running call has changed so far.
pub(super) struct ChangesSoFar {
    pub(super) directory: RequestDirectory,
    pub(super) request: TaskId,
    pub(super) workspace: Arc<Workspace>,
}

impl RequestChanges for ChangesSoFar {
    fn diff<'a>(&'a self, path: Option<&'a str>) -> BoxFuture<'a, Result<RequestDiff, String>> {
        Box::pin(async move {
            let known = known_changes(self.directory.clone(), &self.request).await;
            let mut known = known.map_err(|error| error.to_string())?.1;
            known.retain(|change| path.is_none_or(|path| change.path == path));
            let changes = located(known, &self.workspace, true).await;
            Ok(RequestDiff { text: as_diff(&changes), files: changes.files.len() })
        })
    }
}

/// Writes the changes that the files still hold as a unified diff, with the id and tool of each.
pub fn as_diff(changes: &ChangesListResult) -> String {
    let mut text = String::new();
    for file in &changes.files {
        let mut present: Vec<&RecordedChange> =
            file.changes.iter().filter(|change| change.line.is_some()).collect();
        present.sort_by_key(|change| change.line);
        let gone = file.changes.len() - present.len();
        let has = |kind| present.iter().any(|change| change.kind == kind);
        let name = |side: &str, is_absent: bool| match is_absent {
            true => "/dev/null".to_owned(),
            false => format!("{side}/{}", file.path),
        };
        let (old, new) = (name("a", has(HunkKind::Create)), name("b", has(HunkKind::Delete)));
        text.push_str(&format!("--- {old}\n+++ {new}\n"));
        let mut shift = 0_i64;
        for change in present {
            let count = |text: &str| i64::try_from(text.lines().count()).unwrap_or(i64::MAX);
            let (old_count, new_count) = (count(&change.old_text), count(&change.new_text));
            let line = i64::from(change.line.unwrap_or(1));
            let extent =
                |line: i64, count: i64| format!("{},{count}", if count == 0 { line - 1 } else { line });
            text.push_str(&format!(
                "@@ -{} +{} @@ {} {}{}\n",
                extent(line - shift, old_count),
                extent(line, new_count),
                change.change_id,
                change.tool,
                if change.by_user { ", by the user" } else { "" },
            ));
            for (sign, lines) in [('-', &change.old_text), ('+', &change.new_text)] {
                for line in lines.lines() {
                    text.push_str(&format!("{sign}{}\n", roo_text::render::visible(line)));
                }
            }
            shift += new_count - old_count;
        }
        match gone {
            0 => {}
            1 => text.push_str("# 1 change is not in the file any more\n"),
            gone => text.push_str(&format!("# {gone} changes are not in the file any more\n")),
        }
    }
    text
}
