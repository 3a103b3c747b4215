//! Judging the merge of a branch's work tree: what the branch changed there is put together with what the folder holds now,
//! file by file, and judged as one edit.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::time::Duration;

use serde_json::json;
use tokio::time::timeout;

use super::action::{ConflictingFile, MergeConflict, ProposedPatch};
use super::context::{MergeSource, ToolCallContext};
use super::decision::{CallAssessment, CheckedCall, Refusal};
use super::gate::Gate;
use super::patch::EditKind;
use super::place_check::Access;
use super::plan::{Plan, PlannedMerge};
use super::preview::Preview;
use super::rule::{NamedAllowRule, RefusalRule};
use crate::mentions::git::{ChangedPath, Git, GitError, Snapshots};
use roo_catalog::ToolName;
use roo_formats::modes;
use roo_model::prompts::replies;
use roo_protocol::ids::Urid;
use roo_text::merge::{Merge, SideNames};
use roo_text::render::exact_line;
use roo_workspace::{FileEdit, Purpose, ReadError, Resolved};

/// The most files that one merge changes.
const MAX_FILES: usize = 1000;

/// The most pairs of a deleted and a created file that are compared.
const MAX_COMPARED_PAIRS: usize = 10_000;

/// Time limit for all that git does for a merge.
const DEADLINE: Duration = Duration::from_secs(300);

/// The byte order mark, which texts of files don't have.
const BOM: char = '\u{feff}';

/// Merge of a branch's work tree, as far as it can be told from the files.
struct MergeProposal {
    /// The snapshot of the work tree that was merged.
    snapshot: String,
    /// The changes of the folder.
    edits: Vec<FileEdit>,
    /// Changed files that can't be merged, with the reasons.
    left_out: Vec<String>,
    conflicts: Vec<ConflictingFile>,
}

/// State of one file, on three sides: when the branch began, in the folder, and in the work tree. None where it isn't there.
struct Sides {
    base: Option<String>,
    ours: Option<String>,
    theirs: Option<String>,
}

/// What comes of one file.
enum MergedFile {
    /// The folder has all of it.
    Nothing,
    /// The folder gets this text; none where the file is deleted.
    Text(Option<String>),
    /// Both sides changed the same.
    Conflict {
        /// The text for the work tree, to be resolved there; none where its own stays.
        resolving: Option<String>,
        /// What conflicts.
        what: String,
    },
}

impl Gate {
    /// Judges the merge of a branch's work tree.
    pub(crate) async fn merge(
        &self,
        call_context: ToolCallContext<'_>,
        source: MergeSource<'_>,
        unchanged: CheckedCall,
    ) -> Result<CheckedCall, Refusal> {
        let MergeProposal { snapshot, edits, left_out, conflicts } =
            self.propose_merge(call_context.urid, source).await?;
        if !conflicts.is_empty() {
            return Ok(CheckedCall::from(conflict(source, conflicts)));
        }
        // What needs no edit is merged all the same: others may have made the same changes.
        if snapshot == source.base && source.conflict_bases.is_empty() && left_out.is_empty() {
            return Ok(unchanged);
        }
        let touched = edits.iter().flat_map(|edit| {
            let is_removed = edit.after().is_none() || edit.moved_to().is_some();
            let access = if is_removed { Access::Remove } else { Access::Write };
            [(edit.file(), access)].into_iter().chain(edit.moved_to().map(|to| (to, Access::Write)))
        });
        let examined = self.examine_places(call_context, ToolName::WriteToFile, touched)?;
        for edit in &edits {
            if let Some(after) = edit.after() {
                let name = edit.moved_to().unwrap_or(edit.file()).display();
                self.refuse_masks(&name, edit.before(), after)?;
            }
        }
        let merge = PlannedMerge { snapshot, left_out };
        let proposed = ProposedPatch { edits, notice: None, review: None };
        let encodings = self.removed_encodings(&proposed.edits).await;
        self.assess_edits(call_context, EditKind::Merge(merge), proposed, examined, &encodings)
            .map(CheckedCall::from)
    }

    /// Returns what a merge would change, for whoever is asked about it; none where it can't be told any more.
    pub(crate) async fn preview_merge(&self, urid: &Urid, source: MergeSource<'_>) -> Option<Vec<Preview>> {
        let proposed = self.propose_merge(urid, source).await.ok()?;
        proposed.conflicts.is_empty().then(|| proposed.edits.into_iter().map(Preview::from).collect())
    }

    async fn propose_merge(&self, urid: &Urid, source: MergeSource<'_>) -> Result<MergeProposal, Refusal> {
        let proposed = timeout(DEADLINE, self.propose_merge_now(urid, source)).await;
        proposed.unwrap_or_else(|_| Err(git_failed(GitError::TimedOut(DEADLINE))))
    }

    async fn propose_merge_now(
        &self,
        urid: &Urid,
        source: MergeSource<'_>,
    ) -> Result<MergeProposal, Refusal> {
        let environment = self.environment();
        let workspace = self.workspace().beside(source.folder);
        let git = Git { workspace: &workspace, environment: &environment };
        let snapshots = Snapshots::open(git, source.store).await.map_err(git_failed)?;
        let directory = modes::task_directory(urid);
        let snapshot = snapshots.take(Some(&directory)).await.map_err(git_failed)?;
        let mut changed = snapshots.changed(source.base, &snapshot).await.map_err(git_failed)?;
        // A conflict may be resolved by the text with which the branch began.
        for path in source.conflict_bases.keys() {
            if !changed.iter().any(|file| file.path == *path) {
                let is_there = snapshots.has(&snapshot, path).await.map_err(git_failed)?;
                changed.push(ChangedPath {
                    path: path.clone(),
                    was_there: is_there,
                    is_there,
                    changes_permission: false,
                    unmergeable: None,
                });
            }
        }
        if changed.len() > MAX_FILES {
            let text = format!(
                "You changed {} files in your worktree, and at most {MAX_FILES} are merged at once. Undo what need not be \
                 merged, such as build output.",
                changed.len()
            );
            return Err(Refusal::mistake(RefusalRule::Content, text));
        }
        let mut proposal = MergeProposal { snapshot, edits: vec![], left_out: vec![], conflicts: vec![] };
        for file in changed {
            self.merge_file(file, source, &snapshots, &mut proposal).await.map_err(
                |problem| match problem {
                    FileProblem::Git(error) => git_failed(error),
                    FileProblem::Refusal(refusal) => refusal,
                },
            )?;
        }
        proposal.edits = pair_moves(proposal.edits);
        Ok(proposal)
    }

    /// Merges one file.
    async fn merge_file(
        &self,
        file: ChangedPath,
        source: MergeSource<'_>,
        snapshots: &Snapshots<'_>,
        proposal: &mut MergeProposal,
    ) -> Result<(), FileProblem> {
        let ChangedPath { path, was_there, is_there, changes_permission, unmergeable } = file;
        let name = exact_line(&path);
        let mut leave_out = |why: &str| proposal.left_out.push(format!("{name} ({why})"));
        if let Some(why) = unmergeable {
            leave_out(why);
            return Ok(());
        }
        let place = match self.workspace().resolve(&path, Purpose::Write) {
            Ok(place) if Path::new(place.relative()) == Path::new(&path) => place,
            Ok(_) => {
                leave_out("there is a symbolic link on its way");
                return Ok(());
            }
            Err(error) => {
                leave_out(&error.to_string());
                return Ok(());
            }
        };
        let not_text = "it is no text, or too large";
        let base = match source.conflict_bases.get(&path) {
            Some(Some(id)) => snapshots.kept(id).await?,
            Some(None) => None,
            None if was_there => match snapshots.text(source.base, &path).await? {
                None => {
                    leave_out(not_text);
                    return Ok(());
                }
                text => text,
            },
            None => None,
        };
        let theirs = match is_there {
            true => match snapshots.text(&proposal.snapshot, &path).await? {
                None => {
                    leave_out(not_text);
                    return Ok(());
                }
                text => text,
            },
            false => None,
        };
        let ours = match self.workspace().read_for_edit(&place).await {
            Ok(file) => Some(file.text),
            Err(ReadError::NotFound { .. }) => None,
            Err(error) => {
                leave_out(&error.to_string());
                return Ok(());
            }
        };
        let sides = Sides { base: base.map(without_mark), ours, theirs: theirs.map(without_mark) };
        if let Some(line) = sides.unresolved() {
            let text = format!(
                "Nothing was merged. {name} still has a mark of a conflict in line {line} of your worktree's file. Make of \
                 each such place what serves both changes, remove the marks, and complete again."
            );
            return Err(FileProblem::Refusal(Refusal::mistake(RefusalRule::Content, text)));
        }
        if changes_permission {
            proposal.left_out.push(format!("{name} (its permission to be executed; its text is merged)"));
        }
        match sides.merge() {
            MergedFile::Nothing => {}
            MergedFile::Text(after) => proposal.edits.extend(match (sides.ours, after) {
                (Some(before), Some(after)) => Some(FileEdit::Update { file: place, before, after }),
                (None, Some(text)) => Some(FileEdit::create(place, text)),
                (Some(before), None) => Some(FileEdit::Delete { file: place, before }),
                (None, None) => None,
            }),
            MergedFile::Conflict { resolving, what } => {
                let Sides { ours, theirs, .. } = sides;
                let description = format!("{name}: {what}");
                proposal.conflicts.push(ConflictingFile { path, ours, theirs, resolving, description });
            }
        }
        Ok(())
    }
}

/// Takes a file that is deleted and one that is created with most of its lines for one that is moved, as what is known of
/// the lines goes with it then.
fn pair_moves(mut edits: Vec<FileEdit>) -> Vec<FileEdit> {
    let (mut deleted, mut created) = (Vec::new(), Vec::new());
    for (index, edit) in edits.iter().enumerate() {
        match edit {
            FileEdit::Delete { before, .. } => deleted.push((index, LineCounts::new(before))),
            FileEdit::Create { text, .. } => created.push((index, LineCounts::new(text))),
            _ => {}
        }
    }
    if deleted.len() * created.len() > MAX_COMPARED_PAIRS {
        return edits;
    }
    let mut pairs: Vec<(usize, usize, usize)> = Vec::new();
    for (from, before) in &deleted {
        for (to, after) in &created {
            if before.is_most_of(after) && can_be_moved(edits[*from].file(), edits[*to].file()) {
                pairs.push((before.shared(after), *from, *to));
            }
        }
    }
    // The most similar pairs first, and of equally similar ones the first in the order of paths.
    pairs.sort_by_key(|(shared, from, to)| (std::cmp::Reverse(*shared), *from, *to));
    let mut gone = BTreeSet::new();
    let mut paired = BTreeSet::new();
    for (_, from, to) in pairs {
        if gone.contains(&from) || !paired.insert(to) {
            continue;
        }
        gone.insert(from);
        if let (FileEdit::Delete { file, before }, FileEdit::Create { file: target, text, .. }) =
            (&edits[from], &edits[to])
        {
            edits[to] = FileEdit::Move {
                from: file.clone(),
                to: target.clone(),
                before: before.clone(),
                after: text.clone(),
            };
        }
    }
    let mut index = 0;
    edits.retain(|_| {
        index += 1;
        !gone.contains(&(index - 1))
    });
    edits
}

/// Returns whether one edit can move a file there: within a folder, and neither is to be a directory of the other.
fn can_be_moved(from: &Resolved, to: &Resolved) -> bool {
    let (one, other) = (from.absolute(), to.absolute());
    from.location() == to.location() && !one.starts_with(other) && !other.starts_with(one)
}

/// The lines of a text that say something, with how often each is in it.
struct LineCounts<'a> {
    counts: HashMap<&'a str, usize>,
    total: usize,
}

impl<'a> LineCounts<'a> {
    fn new(text: &'a str) -> Self {
        let mut counts: HashMap<&str, usize> = HashMap::new();
        let lines = text.lines().filter(|line| line.contains(char::is_alphanumeric));
        lines.for_each(|line| *counts.entry(line).or_default() += 1);
        Self { total: counts.values().sum(), counts }
    }

    /// Number of lines that both have.
    fn shared(&self, other: &Self) -> usize {
        let shared =
            |(line, count): (&&str, &usize)| other.counts.get(line).map_or(0, |there| *count.min(there));
        self.counts.iter().map(shared).sum()
    }

    /// Returns whether more than half of the lines of both are the same.
    fn is_most_of(&self, other: &Self) -> bool {
        let most = self.total.max(other.total);
        self.shared(other) * 2 > most
    }
}

/// Reasons why a file ends the whole merge.
enum FileProblem {
    Git(GitError),
    Refusal(Refusal),
}

impl From<GitError> for FileProblem {
    fn from(error: GitError) -> Self {
        Self::Git(error)
    }
}

/// A call that merges nothing, but has the branch resolve conflicts.
fn conflict(source: MergeSource<'_>, files: Vec<ConflictingFile>) -> CallAssessment {
    let names: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
    CallAssessment {
        identity: json!({ "tool": "conflict", "files": names }),
        title: "Resolve conflicts".to_owned(),
        subject: String::new(),
        must_ask: None,
        undecided: None,
        allowed_by: Some(NamedAllowRule::Worktree.into()),
        standing: None,
        alternative: None,
        plan: Plan::Conflict,
        action: Some(Box::new(MergeConflict {
            folder: source.folder.to_owned(),
            store: source.store.to_owned(),
            files,
        })),
    }
}

/// A refusal where git fails.
fn git_failed(error: GitError) -> Refusal {
    let text = format!(
        "What you changed in your worktree can't be merged: {error}. Nothing was merged. End with complete_with_failure and \
         say so."
    );
    Refusal::forbidden(RefusalRule::Content, text)
}

fn without_mark(text: String) -> String {
    text.strip_prefix(BOM).map(str::to_owned).unwrap_or(text)
}

impl Sides {
    fn merge(&self) -> MergedFile {
        let Self { base, ours, theirs } = self;
        if ours == theirs || base == theirs {
            return MergedFile::Nothing;
        }
        if base == ours {
            return MergedFile::Text(theirs.clone());
        }
        let (ours, theirs) = match (ours, theirs) {
            (Some(ours), Some(theirs)) => (ours, theirs),
            (Some(ours), None) => {
                let what = "others have changed it, and you deleted it; it is back in your worktree";
                return MergedFile::Conflict { resolving: Some(ours.clone()), what: what.to_owned() };
            }
            (None, _) => {
                let what = "others have deleted it, and you changed it; completing again creates it";
                return MergedFile::Conflict { resolving: None, what: what.to_owned() };
            }
        };
        let merge = Merge::new(base.as_deref().unwrap_or_default(), ours, theirs);
        match merge.text() {
            Some(text) if text == *ours => MergedFile::Nothing,
            Some(text) => MergedFile::Text(Some(text)),
            None => {
                let names = SideNames { ours: replies::OTHERS, theirs: replies::OWN };
                let lines: Vec<String> = merge
                    .conflicts()
                    .iter()
                    .map(|lines| match (lines.start + 1, lines.end) {
                        (first, last) if last <= first => format!("line {first}"),
                        (first, last) => format!("lines {first} to {last}"),
                    })
                    .collect();
                let what = format!("{} of the workspace's file", lines.join(", "));
                MergedFile::Conflict { resolving: Some(merge.marked(names)), what }
            }
        }
    }

    /// The first line of the work tree's file with a mark of a conflict that was not there before, from 1.
    fn unresolved(&self) -> Option<usize> {
        let is_mark = |line: &str| {
            let line = line.trim_end_matches('\r');
            line.strip_prefix("<<<<<<< ").is_some_and(|name| name == replies::OTHERS)
                || line.strip_prefix(">>>>>>> ").is_some_and(|name| name == replies::OWN)
        };
        let has_marks = |text: &str| text.lines().any(is_mark);
        if self.ours.as_deref().is_some_and(has_marks) {
            return None;
        }
        self.theirs.as_deref()?.lines().position(is_mark).map(|index| index + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    fn sides(base: Option<&str>, ours: Option<&str>, theirs: Option<&str>) -> Sides {
        let [base, ours, theirs] = [base, ours, theirs].map(|text| text.map(str::to_owned));
        Sides { base, ours, theirs }
    }

    fn merged(base: Option<&str>, ours: Option<&str>, theirs: Option<&str>) -> String {
        match sides(base, ours, theirs).merge() {
            MergedFile::Nothing => "nothing".to_owned(),
            MergedFile::Text(None) => "deleted".to_owned(),
            MergedFile::Text(Some(text)) => text,
            MergedFile::Conflict { resolving, what } => {
                format!("conflict: {what}\n{}", resolving.unwrap_or_default())
            }
        }
    }

    #[test]
    fn what_the_branch_changed_is_put_together_with_what_others_did() {
        assert_eq!(merged(Some("a\nb\nc\n"), Some("A\nb\nc\n"), Some("a\nb\nC\n")), "A\nb\nC\n");
        assert_eq!(merged(Some("a\n"), Some("a\n"), Some("b\n")), "b\n");
        assert_eq!(merged(None, None, Some("new\n")), "new\n");
        assert_eq!(merged(Some("a\n"), Some("a\n"), None), "deleted");
        assert_eq!(merged(Some("a\n"), None, None), "nothing");
        assert_eq!(merged(Some("a\n"), Some("b\n"), Some("b\n")), "nothing");
    }

    #[test]
    fn a_conflict_names_its_lines_and_keeps_both_versions() {
        assert_eq!(
            merged(Some("a\nb\nc\n"), Some("a\nmine\nc\n"), Some("a\nother\nc\n")),
            "conflict: line 2 of the workspace's file\n\
             a\n<<<<<<< others\nmine\n=======\nother\n>>>>>>> this branch\nc\n"
        );
        assert!(merged(None, Some("x\n"), Some("y\n")).starts_with("conflict: line 1 of"));
        assert!(merged(Some("a\n"), Some("b\n"), None).ends_with("it is back in your worktree\nb\n"));
        assert!(merged(Some("a\n"), None, Some("b\n")).contains("others have deleted it"));
    }

    #[test]
    fn a_text_with_most_of_the_lines_of_another_is_its_new_version() {
        let is_most = |one: &str, other: &str| LineCounts::new(one).is_most_of(&LineCounts::new(other));
        assert!(is_most("a\nb\nc\n", "a\nb\nd\n"));
        assert!(!is_most("a\nb\n", "a\nc\n") && !is_most("a\n", "a\nb\nc\n"));
        assert!(!is_most("}\n}\n", "}\n}\n") && !is_most("", ""));
        assert!(!is_most("a\nb\nc\n", "a\na\na\n"));
    }

    #[test]
    fn a_mark_that_was_left_is_found_unless_the_folder_has_it_too() {
        let marked = "a\n<<<<<<< others\nx\n=======\ny\n>>>>>>> this branch\n";
        assert_eq!(sides(None, Some("a\n"), Some(marked)).unresolved(), Some(2));
        assert_eq!(sides(None, Some(marked), Some(marked)).unresolved(), None);
        assert_eq!(sides(None, Some("a\n"), Some("a\n<<<<<<< HEAD\n")).unresolved(), None);
    }
}
