//! The end of a restore that failed or was cut off by the end of the server: which files it has written, as the files
//! themselves tell.

use std::collections::{BTreeMap, BTreeSet};

use crate::engine::event::{Event, NewMessage, Restore, RestoredDigests};
use crate::engine::tree::{Fact, Tree};
use crate::engine::{Engine, audit};
use roo_protocol::ids::{Digest, TaskId, ToolCallId};
use roo_text::render;
use roo_trace::record::{Author, FileChange};
use roo_workspace::{Contents, Location, PathEntry, PathError, Purpose, ReadError, Workspace};

/// The longest message that is told of as not sent, in characters.
const MAX_UNSENT_CHARS: usize = 2000;

impl Engine {
    /// The ends of restores that a killed server left unfinished, as the files tell them, behind the facts of the
    /// interruption. The trace has records of those that happened before any log tells of their ends. What was to be said
    /// behind a restore is said, and waits for the user to let the task go on.
    pub(in crate::engine) async fn settle_restores(&self, tree: &Tree, mut facts: Vec<Fact>) -> Vec<Fact> {
        let mut said = None;
        for task in tree.tasks() {
            let Some((started, restore)) = &task.restore else { continue };
            // A change of several files is brought to one side first.
            self.workspace().settle().await;
            let mut folders: BTreeMap<Option<usize>, FolderEvidence> = BTreeMap::new();
            let mut unchanged_behind: BTreeSet<&String> = BTreeSet::new();
            for file in &restore.digests {
                let now = digests_now(self.workspace(), file).await.ok();
                if file.behind {
                    let is_unchanged = now.is_some_and(|now| {
                        is_it(now.as_ref(), file.before) && !is_it(now.as_ref(), file.after)
                    });
                    unchanged_behind.extend(is_unchanged.then_some(&file.path));
                } else {
                    folders.entry(folder_of(self.workspace(), &file.path)).or_default().add(file, now);
                }
            }
            let unchanged = unchanged_folders(&folders);
            let is_unchanged = |file: &&RestoredDigests| match file.behind {
                true => unchanged_behind.contains(&file.path),
                false => unchanged.contains(&folder_of(self.workspace(), &file.path)),
            };
            let (left, written): (Vec<_>, Vec<_>) = restore.digests.iter().partition(is_unchanged);
            let done = !written.is_empty() || left.is_empty();
            let left: Vec<String> = left.iter().map(|file| file.path.clone()).collect();
            let unsent = restore.say.as_ref().map(|NewMessage { text, .. }| {
                format!("; your message was not sent: {}", render::one_line(text, MAX_UNSENT_CHARS))
            });
            let unsent = unsent.unwrap_or_default();
            let reason = match (done, left.is_empty()) {
                (false, _) => Some(format!("the server ended before the files were written{unsent}")),
                (true, true) => None,
                (true, false) => {
                    let files = render::one_line(&left.join(", "), 200);
                    Some(format!(
                        "the server ended before the files of all folders were written; not restored: {files}{unsent}"
                    ))
                }
            };
            if done && !written.is_empty() {
                let changes = self.restored_changes(&task.id, &written).await;
                let services = self.current.newest();
                audit::undone_if_missing(
                    task,
                    tree,
                    restored_call(*started),
                    &restore.by,
                    changes,
                    &services,
                )
                .await;
            }
            let conversation_before = restore.cut.as_ref().filter(|_| done).map(|cut| cut.before);
            said = said.or_else(|| restore.say.as_ref().filter(|_| reason.is_none()));
            let unchanged = if done { left } else { vec![] };
            let event =
                Event::RestoreFinished { started: *started, done, reason, unchanged, conversation_before };
            facts.push((task.id.clone(), event));
        }
        if let Some(say) = said {
            let now = self.now();
            facts = tree.saying(facts, say, now);
            let then = tree.after(&facts, now);
            facts.extend(then.interrupt());
        }
        facts
    }

    /// Changes that a restore made, with the texts that are kept.
    async fn restored_changes(&self, task: &TaskId, files: &[&RestoredDigests]) -> Vec<FileChange> {
        let (services, task) = (self.current.newest(), task.clone());
        let files: Vec<RestoredDigests> = files.iter().map(|file| (*file).clone()).collect();
        let read = roo_durable::spawn_blocking(move || {
            let change = |file: RestoredDigests| FileChange {
                before: services.checkpoints.side(&task, file.before),
                after: services.checkpoints.side(&task, file.after),
                path: file.path,
                old_path: None,
                author: Author::Human,
            };
            files.into_iter().map(change).collect()
        });
        // Only a runtime that is ending runs nothing more.
        read.await.unwrap_or_default()
    }
}

/// Digests by which a content is known: of the text, and of the bytes in whatever encoding.
type ContentDigests = [Digest; 2];

/// The digests of the content of a file that was to be restored; none where no file is.
async fn digests_now(
    workspace: &Workspace,
    file: &RestoredDigests,
) -> Result<Option<ContentDigests>, String> {
    if file.behind
        && let Some((_, PathEntry::Link(target))) = workspace.path_entry(&file.path).ok().flatten()
    {
        return Ok(Some([Digest::of(target); 2]));
    }
    let place = match workspace.resolve(&file.path, Purpose::Read) {
        Err(PathError::IsADirectory { .. } | PathError::NotADirectory { .. }) => return Ok(None),
        place => place.map_err(|error| error.to_string())?,
    };
    match workspace.read_to_replace(&place).await {
        Ok(Contents::Text(file)) => Ok(Some([Digest::of(file.text), file.digest])),
        Ok(Contents::Binary { digest, .. }) => Ok(Some([digest; 2])),
        Err(ReadError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

/// Returns whether a content is the one of a digest.
fn is_it(now: Option<&ContentDigests>, digest: Option<Digest>) -> bool {
    match (now, digest) {
        (Some(now), Some(digest)) => now.contains(&digest),
        (now, digest) => now.is_none() && digest.is_none(),
    }
}

/// The workspace folder in which a file is; none for one that is in none.
fn folder_of(workspace: &Workspace, path: &str) -> Option<usize> {
    match workspace.resolve(path, Purpose::Read).ok()?.location() {
        Location::Inside { root } => Some(root),
        Location::Outside => None,
    }
}

/// The files that a restore which has just failed did not leave as it was to.
pub(in crate::engine) async fn not_restored(workspace: &Workspace, restore: &Restore) -> Vec<String> {
    // A change of several files is brought to one side first.
    workspace.settle().await;
    let mut left = Vec::new();
    for file in &restore.digests {
        let now = digests_now(workspace, file).await;
        if !now.is_ok_and(|now| is_it(now.as_ref(), file.after)) {
            left.push(file.path.clone());
        }
    }
    left
}

/// What the files of one workspace folder tell of a restore. They are written all or none, but their user may have changed
/// some since.
#[derive(Clone, Copy, Debug, Default)]
struct FolderEvidence {
    /// A file is as the restore was to leave it.
    is_written: bool,
    /// A file is as it was before the restore.
    is_unwritten: bool,
}

impl FolderEvidence {
    /// Looks at a file; none for one that can't be read.
    fn add(&mut self, file: &RestoredDigests, now: Option<Option<ContentDigests>>) {
        let Some(now) = now.filter(|_| file.before != file.after) else { return };
        self.is_written |= is_it(now.as_ref(), file.after);
        self.is_unwritten |= is_it(now.as_ref(), file.before);
    }
}

/// The folders whose files a restore that was cut off has left as they were. Folders are written in the order of their
/// numbers, so one without evidence is judged by those around it.
fn unchanged_folders(folders: &BTreeMap<Option<usize>, FolderEvidence>) -> BTreeSet<Option<usize>> {
    let last_written = folders.iter().rfind(|(_, evidence)| evidence.is_written).map(|(folder, _)| *folder);
    let behind = |folder: &Option<usize>| last_written.is_none_or(|written| written < *folder);
    let mut rest = folders.iter().filter(|(folder, _)| behind(folder)).peekable();
    while rest.next_if(|(_, evidence)| !evidence.is_unwritten).is_some() {}
    rest.map(|(folder, _)| *folder).collect()
}

/// Names the record of a restore in the trace.
pub(in crate::engine) fn restored_call(started: u64) -> (&'static str, ToolCallId) {
    ("restore", ToolCallId::new(format!("restore_{started}")))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use roo_protocol::checkpoint::{RestoreScope, RestoreWhat};

    /// What files that were `before` and are to be `after` tell of a restore, as they are now.
    fn evidence(files: &[(&str, &str, &str)]) -> FolderEvidence {
        let mut evidence = FolderEvidence::default();
        for (before, after, now) in files {
            let [before, after, now] = [before, after, now].map(|text| Some(Digest::of(text)));
            let file = RestoredDigests { path: "a".into(), before, after, behind: false };
            evidence.add(&file, Some(now.map(|now| [now; 2])));
        }
        evidence
    }

    fn unchanged(folders: &[&[(&str, &str, &str)]]) -> Vec<usize> {
        let folders = folders.iter().enumerate().map(|(folder, files)| (Some(folder), evidence(files)));
        unchanged_folders(&folders.collect()).into_iter().flatten().collect()
    }

    #[tokio::test]
    async fn what_a_failed_restore_has_written_is_seen_in_the_files() {
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path().join("w");
        std::fs::create_dir(&folder).unwrap();
        let workspace = Workspace::open(roo_workspace::Setup {
            folders: vec![folder.clone()],
            state_directory: directory.path().join("state"),
            documents: Arc::default(),
            editor: None,
            encoding: roo_text::position::Encoding::Utf16,
        });
        let files = [("restored", Some("old")), ("left", Some("old")), ("made", None), ("gone", None)];
        for (path, text) in [("restored", "old"), ("left", "new"), ("made", "new")] {
            std::fs::write(folder.join(path), text).unwrap();
        }
        let digests = files.map(|(path, after)| RestoredDigests {
            path: path.to_owned(),
            before: Some(Digest::of("new")),
            after: after.map(Digest::of),
            behind: false,
        });
        let restore = Restore {
            seq: 2,
            what: RestoreWhat::Files,
            scope: RestoreScope::Request,
            by: "test".to_owned(),
            files: vec![],
            digests: digests.into(),
            cut: None,
            say: None,
        };
        assert_eq!(not_restored(&workspace.unwrap(), &restore).await, ["left", "made"]);
    }

    #[test]
    fn a_folder_is_as_it_was_where_a_file_is_and_none_is_restored() {
        let (old, new, touched) = (("a", "b", "a"), ("a", "b", "b"), ("a", "b", "x"));
        assert_eq!(unchanged(&[&[new, touched], &[new]]), [0_usize; 0]);
        assert_eq!(unchanged(&[&[new], &[old, touched]]), [1]);
        assert_eq!(unchanged(&[&[old], &[old]]), [0, 1]);
        // A folder is written before those behind it.
        assert_eq!(unchanged(&[&[touched], &[new], &[old]]), [2]);
        assert_eq!(unchanged(&[&[new], &[old], &[touched]]), [1, 2]);
        // Without evidence, and behind one that is restored, a folder counts as restored too.
        assert_eq!(unchanged(&[&[new], &[touched]]), [0_usize; 0]);
    }
}
