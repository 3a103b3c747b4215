//! The plan of a restore, from the log and the files as they are: which edits it makes, what it leaves out and why. It
//! changes nothing yet.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;

use super::content::{bytes_of, content_now, digest_of, holds, side_of};
use super::past::{KnownCheckpoint, Past, take_possible_moves};
use super::saved_changes::{self, Content, LoadedContents, Restored};
use crate::engine::event::ConversationCut;
use crate::engine::task::Task;
use crate::engine::{Engine, EngineError};
use crate::policy::{MadeThere, ReplacedPlace, RestoreEdits};
use crate::tool_run::{BinaryContents, FileDetails, SavedFile, is_executable, missing_directories};
use roo_protocol::checkpoint::{
    CheckpointRestoreParams, CheckpointRestoreResult, EndedBranch, LeftOutFile, RestoreConflict,
    RestoreConflicts, RestoreScope, RestoreWhat, RestoredConversation,
};
use roo_protocol::ids::Digest;
use roo_trace::record::{Author, FileChange};
use roo_workspace::{
    BytesEdit, FileEdit, FileOrLink, Location, PathEntry, Purpose, Resolved, TextEncoding, file_that_stays,
};

/// What a restore would do.
pub(super) struct Plan {
    pub(super) files: PlannedFiles,
    pub(super) cut: Option<ConversationCut>,
    pub(super) told: CheckpointRestoreResult,
}

/// What a restore would do to files.
#[derive(Default)]
pub(super) struct PlannedFiles {
    pub(super) edits: RestoreEdits,
    /// The same for the log and the trace.
    pub(super) changes: Vec<FileChange>,
    /// The contents of files that are no text.
    pub(super) binaries: BinaryContents,
    /// Details of the files that it makes and deletes.
    pub(super) details: FileDetails,
    /// Paths that are written when the others are.
    pub(super) behind: BTreeSet<String>,
}

/// A file to be restored where something else stands, or that is or was a symbolic link.
struct StandingFile<'a> {
    path: String,
    saved: Vec<&'a SavedFile>,
    place: Resolved,
    standing: PathEntry,
    before: Option<Content>,
    after: Option<Content>,
}

impl Engine {
    pub(super) async fn plan(
        &self,
        past: &Past,
        params: &CheckpointRestoreParams,
    ) -> Result<Plan, EngineError> {
        past.check_event(params.seq)?;
        let CheckpointRestoreParams { task_id, seq, what, scope, conflicts, .. } = params;
        let mut told = CheckpointRestoreResult {
            files: vec![],
            conflicts: vec![],
            left_out: vec![],
            conversation: None,
            ended_branches: vec![],
            digest: Digest::of(""),
            restored_as: None,
        };
        let mut files = PlannedFiles::default();
        if *what != RestoreWhat::Conversation {
            let is_meant = |known: &KnownCheckpoint| {
                known.seq >= *seq
                    && match scope {
                        RestoreScope::Task => known.task_id == *task_id,
                        RestoreScope::Subtree => past.tree.is_within(&known.task_id, task_id),
                        RestoreScope::Request => true,
                    }
            };
            let mut by_path = past.by_path(is_meant);
            let contents = self.load(task_id, &by_path).await?;
            told.left_out = take_possible_moves(&mut by_path, past.possible_moves(is_meant));
            let links: BTreeSet<PathBuf> = (by_path.iter())
                .filter(|(_, saved)| saved_changes::was_link(saved))
                .filter_map(|(path, _)| Some(self.standing(path)?.0.absolute().to_owned()))
                .collect();
            let mut standing_files = vec![];
            for (path, saved) in by_path {
                match self.standing_file(&path, &saved, &links) {
                    Some(found) => standing_files.push((path, saved, found)),
                    None => {
                        self.plan_file(&path, &saved, &contents, *conflicts, &mut files, &mut told).await;
                    }
                }
            }
            self.plan_standing(standing_files, &contents, *conflicts, &mut files, &mut told).await;
        }
        let cut = match what {
            RestoreWhat::Files => None,
            RestoreWhat::Conversation | RestoreWhat::Both => Some(past.cut(params)?),
        };
        told.conversation =
            cut.as_ref().map(|cut| RestoredConversation { before: cut.before, dropped: cut.dropped });
        if cut.is_some() {
            let goes_on = |task: &&Task| task.parent.is_some() && task.end_state().is_none();
            let branches = past.tree.tasks().iter().filter(goes_on).map(|task| EndedBranch {
                task_id: task.id.clone(),
                title: task.title().to_owned(),
                worktree: worktree_of(task),
            });
            told.ended_branches = branches.collect();
        }
        let digests: Vec<_> = (files.changes.iter())
            .map(|change| (&change.path, digest_of(&change.before), digest_of(&change.after)))
            .collect();
        let shown = json!([digests, told.conflicts, told.left_out, told.conversation]);
        told.digest = Digest::of(shown.to_string());
        Ok(Plan { files, cut, told })
    }

    async fn plan_file(
        &self,
        path: &str,
        saved: &[&SavedFile],
        contents: &LoadedContents,
        conflicts: RestoreConflicts,
        files: &mut PlannedFiles,
        told: &mut CheckpointRestoreResult,
    ) {
        let path = path.to_owned();
        let place = match self.workspace().resolve(&path, Purpose::Write) {
            Ok(place) if matches!(place.location(), Location::Inside { .. }) => place,
            Ok(_) => {
                let reason = "it is outside of the workspace".to_owned();
                return told.left_out.push(LeftOutFile { path, reason });
            }
            Err(error) => return told.left_out.push(LeftOutFile { path, reason: error.to_string() }),
        };
        let before = match content_now(self.workspace(), &path, saved).await {
            Ok(before) => before,
            Err(reason) => return told.left_out.push(LeftOutFile { path, reason }),
        };
        let Some(after) = undone(&path, saved, before.clone(), contents, conflicts, told) else { return };
        let after = match after {
            // A document has no byte order mark.
            Some(Content::Text(text)) if before.is_some() => {
                Some(Content::Text(saved_changes::without_mark(&text).to_owned()))
            }
            after => after,
        };
        let after = match after {
            // An editor minds the encoding of what it has open itself.
            Some(bytes @ Content::Bytes(_))
                if self.workspace().documents().at(place.absolute()).is_some() =>
            {
                let text =
                    bytes.text().map(|text| Content::Text(saved_changes::without_mark(&text).to_owned()));
                if text.is_none() {
                    let reason = "it was not text, and an editor has it open as text".to_owned();
                    return told.left_out.push(LeftOutFile { path, reason });
                }
                text
            }
            after => after,
        };
        match self.plan_edit(place, saved, before.as_ref(), after.as_ref(), files).await {
            Ok(true) => {}
            Ok(false) => return,
            Err(reason) => return told.left_out.push(LeftOutFile { path, reason }),
        }
        self.add_change(path, before.as_ref(), after.as_ref(), files, told);
    }

    /// What is on disk where this is known to be.
    async fn on_disk(
        &self,
        place: &Resolved,
        known: &Content,
        files: &mut PlannedFiles,
    ) -> Result<FileOrLink, String> {
        let bytes = match known {
            Content::Link(target) => return Ok(FileOrLink::Link(Arc::clone(target))),
            Content::Bytes(bytes) => {
                files.binaries.add(Arc::clone(bytes));
                Arc::clone(bytes)
            }
            Content::Text(text) => {
                let bytes = self.workspace().bytes_on_disk(place).await.map_err(|error| error.to_string())?;
                if !holds(&bytes, text) {
                    return Err("it is not saved, or has changed meanwhile".to_owned());
                }
                bytes.into()
            }
        };
        Ok(FileOrLink::File(bytes))
    }

    fn add_change(
        &self,
        path: String,
        before: Option<&Content>,
        after: Option<&Content>,
        files: &mut PlannedFiles,
        told: &mut CheckpointRestoreResult,
    ) {
        files.changes.push(FileChange {
            path: path.clone(),
            old_path: None,
            before: side_of(before),
            after: side_of(after),
            author: Author::Human,
        });
        told.files.push(self.file_diff(path, before, after));
    }

    /// Returns what stands at a path where that isn't simply the file that is to be restored. A link that no agent made, and what is
    /// behind it, is the user's way of naming a file.
    fn standing_file(
        &self,
        path: &str,
        saved: &[&SavedFile],
        links: &BTreeSet<PathBuf>,
    ) -> Option<(Resolved, PathEntry)> {
        let (place, standing) = self.standing(path)?;
        let is_meant = match &standing {
            PathEntry::Directory => true,
            PathEntry::Plain | PathEntry::Link(_) => saved_changes::was_link(saved),
            PathEntry::Below(above) => !above.is_symlink() || links.contains(above),
        };
        is_meant.then_some((place, standing))
    }

    /// Plans files where something else stands, against what the rest of the plan leaves.
    async fn plan_standing(
        &self,
        found: Vec<(String, Vec<&SavedFile>, (Resolved, PathEntry))>,
        contents: &LoadedContents,
        conflicts: RestoreConflicts,
        files: &mut PlannedFiles,
        told: &mut CheckpointRestoreResult,
    ) {
        let mut planned = vec![];
        for (path, saved, (place, standing)) in found {
            let before = match &standing {
                PathEntry::Plain => content_now(self.workspace(), &path, &saved).await,
                PathEntry::Link(target) => Ok(Some(Content::Link(target.as_slice().into()))),
                PathEntry::Directory | PathEntry::Below(_) => Ok(None),
            };
            let before = match before {
                Ok(before) => before,
                Err(reason) => {
                    told.left_out.push(LeftOutFile { path, reason });
                    continue;
                }
            };
            let is_link = |content: &Option<Content>| content.as_ref().is_some_and(Content::is_link);
            let becomes_link = || match saved_changes::undo(&saved, before.clone(), contents) {
                Restored::Content(after) => is_link(&after),
                Restored::LeftOut(_) | Restored::Conflict { .. } => false,
            };
            if standing == PathEntry::Plain && !is_link(&before) && !becomes_link() {
                self.plan_file(&path, &saved, contents, conflicts, files, told).await;
                continue;
            }
            let after = undone(&path, &saved, before.clone(), contents, conflicts, told);
            if let Some(after) = after.filter(|after| *after != before) {
                planned.push(StandingFile { path, saved, place, standing, before, after });
            }
        }
        // What is removed makes room for the others.
        planned.sort_by_key(|file| file.after.is_some());
        for file in planned {
            let path = file.path.clone();
            if let Err(reason) = self.plan_in_place(file, files, told).await {
                told.left_out.push(LeftOutFile { path, reason });
            }
        }
    }

    async fn plan_in_place(
        &self,
        file: StandingFile<'_>,
        files: &mut PlannedFiles,
        told: &mut CheckpointRestoreResult,
    ) -> Result<(), String> {
        let StandingFile { path, saved, place, standing, before, after } = file;
        match &standing {
            PathEntry::Directory => {
                let stays = file_that_stays(place.absolute(), &files.edits.removed_places());
                if let Some(stays) = stays.map_err(|error| error.to_string())? {
                    return Err(format!("it is a directory now, and {} in it stays", stays.display()));
                }
            }
            PathEntry::Below(above) if !files.edits.removed_places().contains(above) => {
                return Err(format!("{} stays, which is in place of a directory", above.display()));
            }
            PathEntry::Plain | PathEntry::Link(_) | PathEntry::Below(_) => {}
        }
        let made = match (&before, &after) {
            (_, None) => MadeThere::Nothing,
            (Some(before), Some(after)) => {
                let before = self.on_disk(&place, before, files).await?;
                let encoding = saved_changes::removed_encoding(&saved).unwrap_or(TextEncoding::UTF_8);
                let after = match after {
                    Content::Link(target) => FileOrLink::Link(Arc::clone(target)),
                    file => FileOrLink::File(bytes_of(file, encoding)?),
                };
                MadeThere::Swapped(before, after)
            }
            (None, Some(Content::Link(target))) => MadeThere::Link(Arc::clone(target)),
            (None, Some(file)) => {
                let mut made = PlannedFiles::default();
                self.plan_edit(place.clone(), &saved, None, Some(file), &mut made).await?;
                files.binaries.extend(made.binaries);
                files.edits.executables.append(&mut made.edits.executables);
                files.details.add_directories(path.clone(), made.details.directories_of(&path));
                match (made.edits.texts.pop(), made.edits.bytes.pop()) {
                    (Some(edit), _) => MadeThere::Text(edit),
                    (None, Some(edit)) => MadeThere::Bytes(edit),
                    (None, None) => return Ok(()),
                }
            }
        };
        for content in [&before, &after] {
            if let Some(Content::Link(target)) = content {
                files.binaries.link(Arc::clone(target));
            }
        }
        files.edits.replaced.push(ReplacedPlace { place, standing, made });
        files.behind.insert(path.clone());
        self.add_change(path, before.as_ref(), after.as_ref(), files, told);
        Ok(())
    }

    /// Adds the edit that leads from one content of a file to the other. Returns whether there is anything to do.
    async fn plan_edit(
        &self,
        file: Resolved,
        saved: &[&SavedFile],
        before: Option<&Content>,
        after: Option<&Content>,
        files: &mut PlannedFiles,
    ) -> Result<bool, String> {
        let PlannedFiles { edits, binaries, details, .. } = files;
        let encoding = saved_changes::removed_encoding(saved);
        if let (Some(Content::Text(text_before)), Some(Content::Text(after)), Some(encoding)) =
            (before, after, encoding)
        {
            // It was recreated, perhaps in another encoding than it had.
            let recoded = self.workspace().recoded(&file, text_before, after, encoding).await;
            if let Some(edit) = recoded.map_err(|error| error.reason())? {
                edits.bytes.push(edit);
                return Ok(true);
            }
        }
        if before == after {
            return Ok(false);
        }
        let encoding = encoding.unwrap_or(TextEncoding::UTF_8);
        match (before, after) {
            (None, Some(_)) => {
                details.add_directories(file.display(), missing_directories(file.absolute()));
                edits.executables.extend(saved_changes::was_executable(saved).then(|| file.clone()));
            }
            (Some(_), None) => {
                if is_executable(file.absolute()) {
                    details.add_executable(file.display());
                }
                edits.directories.extend(directories_above(&file, saved_changes::made_directories(saved)));
            }
            _ => {}
        }
        let edit = match (before, after) {
            (Some(Content::Bytes(_)), _) | (_, Some(Content::Bytes(_))) => {
                let before = match before {
                    None => None,
                    Some(Content::Bytes(bytes) | Content::Link(bytes)) => Some(Arc::clone(bytes)),
                    Some(Content::Text(text)) => {
                        let now = self.workspace().bytes_on_disk(&file).await;
                        let now = now.map_err(|error| error.to_string())?;
                        // The plan is for what it held when it was read.
                        if !holds(&now, text) {
                            return Err("it has changed meanwhile".to_owned());
                        }
                        Some(now.into())
                    }
                };
                let after = after.map(|it| bytes_of(it, encoding)).transpose()?;
                before.iter().chain(&after).for_each(|bytes| binaries.add(Arc::clone(bytes)));
                edits.bytes.push(BytesEdit { file, before, after });
                return Ok(true);
            }
            (Some(Content::Text(before)), Some(Content::Text(after))) => {
                FileEdit::Update { file, before: before.clone(), after: after.clone() }
            }
            (Some(Content::Text(before)), None) => {
                details.add_encoding(file.display(), self.workspace().encoding_on_disk(&file).await);
                FileEdit::Delete { file, before: before.clone() }
            }
            (None, Some(Content::Text(text))) => FileEdit::Create { file, text: text.clone(), encoding },
            (Some(Content::Link(_)), _) | (_, Some(Content::Link(_))) => {
                return Err("it is a symbolic link".to_owned());
            }
            (None, None) => return Ok(false),
        };
        edits.texts.push(edit);
        Ok(true)
    }
}

/// So many directories right above a file, as far as they are below its workspace folder.
fn directories_above(file: &Resolved, number: u32) -> impl Iterator<Item = PathBuf> {
    let most = Path::new(file.relative()).components().count().saturating_sub(1);
    let number = most.min(usize::try_from(number).unwrap_or_default());
    file.absolute().ancestors().skip(1).take(number).map(Path::to_path_buf)
}

/// Undoes changes of a file. Notes why that is not possible; none where nothing is to be done then.
fn undone(
    path: &str,
    saved: &[&SavedFile],
    before: Option<Content>,
    contents: &LoadedContents,
    conflicts: RestoreConflicts,
    told: &mut CheckpointRestoreResult,
) -> Option<Option<Content>> {
    let path = path.to_owned();
    match saved_changes::undo(saved, before, contents) {
        Restored::Content(after) => Some(after),
        Restored::LeftOut(reason) => {
            told.left_out.push(LeftOutFile { path, reason });
            None
        }
        Restored::Conflict { reason, marked } => {
            let marked = marked.filter(|_| conflicts == RestoreConflicts::Mark);
            let reason = reason.to_owned();
            told.conflicts.push(RestoreConflict { path, reason, marked: marked.is_some() });
            marked.map(|marked| Some(Content::Text(marked)))
        }
    }
}

pub(super) fn worktree_of(task: &Task) -> Option<String> {
    task.left_worktree().map(|folder| folder.display().to_string())
}
