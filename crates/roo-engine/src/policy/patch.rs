//! Judging a patch: every place that it touches is checked like an edit of its own, and one that is refused
//! refuses the whole.

use std::collections::BTreeMap;

use serde_json::json;

use super::action::{ProposedMerge, ProposedPatch, ProposedRefactoring, ReviewedTexts};
use super::context::ToolCallContext;
use super::decision::{AskReason, CallAssessment, Refusal, TITLE};
use super::edit::refuse_cut_line;
use super::escaped;
use super::gate::{Action, Gate, unread_refusal};
use super::place_check::Access;
use super::plan::{Plan, PlannedFile, PlannedMerge, PlannedPatch};
use super::preview::Preview;
use super::review::{Review, ReviewState, ReviewedEdit};
use super::rule::{NamedAllowRule, RefusalRule};
use super::{protected, remote};
use crate::tool_run::FileDetails;
use roo_catalog::{ApplyPatch, ToolName};
use roo_formats::modes;
use roo_protocol::ids::Digest;
use roo_protocol::rule::RuleSubject;
use roo_text::patch::{self, FilePatch, PatchOf};
use roo_text::{diff, render};
use roo_workspace::{
    FileEdit, FileText, Location, Protection, Purpose, ReadError, Resolved, check_encodable,
};

/// The most files that one patch changes: each is a question to its user.
const MAX_FILES: usize = 200;

/// Part of a patch that changes one file, and where that is.
struct Placed {
    patch: FilePatch,
    file: Resolved,
    moved_to: Option<Resolved>,
}

impl Placed {
    /// Every place that is touched, and how.
    fn touched(&self) -> impl Iterator<Item = (&Resolved, Access)> {
        let access = match (&self.patch.change, &self.moved_to) {
            (PatchOf::Delete, _) | (_, Some(_)) => Access::Remove,
            _ => Access::Write,
        };
        [(&self.file, access)].into_iter().chain(self.moved_to.iter().map(|to| (to, Access::Write)))
    }

    /// A refusal of this part.
    fn wrong(&self, problem: impl std::fmt::Display) -> Refusal {
        wrong(&self.file.display(), self.patch.line, problem)
    }
}

/// What the checks of the places of an edit have found.
pub(super) struct ExaminedPlaces {
    must_ask: Option<AskReason>,
    /// True if all of them are in the request's own directory.
    shared: bool,
    /// Rule by which one of them runs later.
    later: Option<&'static str>,
}

/// Kind of an edit of several files.
pub(super) enum EditKind {
    /// A patch of the model.
    Patch,
    /// The merge of a branch's work tree.
    Merge(PlannedMerge),
    /// A rename or a code action of a language server.
    Refactoring,
}

fn wrong(path: &str, line: usize, problem: impl std::fmt::Display) -> Refusal {
    let text = format!(
        "The patch was not applied, no file has changed. {path} (line {line} of the patch): {problem}"
    );
    Refusal::mistake(RefusalRule::Content, text)
}

impl Gate {
    /// Judges a patch.
    pub(crate) async fn patch(
        &self,
        call_context: ToolCallContext<'_>,
        call: &ApplyPatch,
    ) -> Result<CallAssessment, Refusal> {
        let placed = self.place(call)?;
        let examined =
            self.examine_places(call_context, ToolName::ApplyPatch, placed.iter().flat_map(Placed::touched))?;
        let proposed = self.fit(placed, call_context.seen).await?;
        let encodings = self.removed_encodings(&proposed.edits).await;
        self.assess_edits(call_context, EditKind::Patch, proposed, examined, &encodings)
    }

    /// Looks at the encodings of the files that are to be deleted or moved: when they are gone, nobody else knows them.
    pub(super) async fn removed_encodings(&self, edits: &[FileEdit]) -> FileDetails {
        let mut encodings = FileDetails::default();
        for edit in edits.iter().filter(|edit| edit.after().is_none() || edit.moved_to().is_some()) {
            encodings
                .add_encoding(edit.file().display(), self.workspace().encoding_on_disk(edit.file()).await);
        }
        encodings
    }

    /// Judges changes that a language server proposes, for a tool of this name.
    pub(crate) fn refactoring(
        &self,
        call_context: ToolCallContext<'_>,
        tool: ToolName,
        proposed: ProposedPatch,
    ) -> Result<CallAssessment, Refusal> {
        let places = || proposed.edits.iter().map(FileEdit::file);
        let examined =
            self.examine_places(call_context, tool, places().map(|place| (place, Access::Write)))?;
        let first = places().next().map(Resolved::location);
        for edit in &proposed.edits {
            let name = edit.file().display();
            self.refuse_unread(call_context, edit.file())?;
            if Some(edit.file().location()) != first {
                let text = format!(
                    "It changes files of several workspace folders, such as {name}, and only one is changed at once. Make \
                     the change by other tools."
                );
                return Err(Refusal::mistake(RefusalRule::Content, text));
            }
            self.refuse_masks(&name, edit.before(), edit.after().unwrap_or_default())?;
        }
        self.assess_edits(call_context, EditKind::Refactoring, proposed, examined, &FileDetails::default())
    }

    /// Refuses a file that the task hasn't read and may not read without its user.
    pub(crate) fn refuse_unread(
        &self,
        call_context: ToolCallContext<'_>,
        file: &Resolved,
    ) -> Result<(), Refusal> {
        let name = file.display();
        match self.needs_permission_to_read(file) && !call_context.seen.contains_key(&name) {
            true => Err(unread_refusal(&name)),
            false => Ok(()),
        }
    }

    /// Runs the checks over all places that an edit of several files touches.
    pub(super) fn examine_places<'a>(
        &self,
        call_context: ToolCallContext<'_>,
        tool: ToolName,
        touched: impl Iterator<Item = (&'a Resolved, Access)>,
    ) -> Result<ExaminedPlaces, Refusal> {
        let task_directory = modes::task_directory(call_context.urid);
        let mut examined = ExaminedPlaces { must_ask: None, shared: true, later: None };
        for (place, access) in touched {
            // Requests live in the first root; a directory of that name elsewhere is like any other.
            let is_first = matches!(place.location(), Location::Inside { root: 0 });
            call_context
                .mode
                .permits_file(tool, place.relative(), is_first.then_some(task_directory.as_str()))
                .map_err(|error| Refusal::mistake(RefusalRule::Mode, error))?;
            let reason = self.examine(call_context, place, access)?;
            examined.must_ask = examined.must_ask.or(reason);
            match protected::protection_at(self.policy_context(), call_context, place) {
                Protection::OwnTaskDirectory => {}
                Protection::Tier2 { rule } => {
                    examined.shared = false;
                    examined.later = examined.later.or(Some(rule));
                }
                _ => examined.shared = false,
            }
        }
        Ok(examined)
    }

    /// Assesses an edit of several files whose places were examined.
    pub(super) fn assess_edits(
        &self,
        call_context: ToolCallContext<'_>,
        kind: EditKind,
        mut proposed: ProposedPatch,
        examined: ExaminedPlaces,
        encodings: &FileDetails,
    ) -> Result<CallAssessment, Refusal> {
        let ExaminedPlaces { mut must_ask, shared, later } = examined;
        let name = match kind {
            EditKind::Patch => "patch",
            EditKind::Merge(_) => "merge",
            EditKind::Refactoring => "refactoring",
        };
        let identity = json!({ "tool": name, "files": planned_files(&proposed.edits) });
        let is_approved = call_context.approved == Some(Digest::of(identity.to_string()));
        if call_context.review.is_some() {
            let files: Vec<Preview> = proposed.edits.iter().cloned().map(Preview::from).collect();
            let reviewed = Review::state(call_context.review, is_approved, &files);
            must_ask = must_ask.or_else(|| reviewed.ask());
            if let ReviewState::Reviewed(edits) = reviewed {
                self.take_reviewed(&mut proposed, edits)?;
            }
        }
        for edit in &proposed.edits {
            let path = edit.moved_to().unwrap_or(edit.file()).relative();
            must_ask = must_ask.or_else(|| {
                let after = edit.after()?;
                remote::ask(edit.before(), after).or_else(|| escaped::ask(path, edit.before(), after))
            });
        }
        let granted = shared && must_ask.is_none();
        let allowed_by =
            if granted { Some(NamedAllowRule::OwnTaskDirectory.into()) } else { self.write_rule() };
        let label = later.map(|rule| format!(" (runs later: {rule})")).unwrap_or_default();
        let mut files = planned_files(&proposed.edits);
        for file in files.iter_mut().filter(|file| file.after.is_none()) {
            file.encoding = encodings.encoding_of(&file.path);
        }
        let title = title(&proposed.edits);
        let (title, merge, action): (String, _, Box<dyn Action>) = match kind {
            EditKind::Patch => (title, None, Box::new(proposed)),
            EditKind::Refactoring => (title, None, Box::new(ProposedRefactoring { patch: proposed })),
            EditKind::Merge(merge) => {
                let action = ProposedMerge { patch: proposed, merge: merge.clone() };
                (format!("Merge the branch: {title}"), Some(merge), Box::new(action))
            }
        };
        Ok(CallAssessment {
            identity,
            title: format!("{title}{label}"),
            // Shown from the action.
            subject: String::new(),
            must_ask,
            undecided: None,
            allowed_by,
            // Context for the request's own branches is free.
            standing: (!granted).then_some(RuleSubject::Edits),
            alternative: None,
            plan: Plan::WriteAll(PlannedPatch { files, merge }),
            action: Some(action),
        })
    }

    /// Leaves of a patch what its user accepted, with their own lines.
    fn take_reviewed(&self, proposed: &mut ProposedPatch, edits: Vec<ReviewedEdit>) -> Result<(), Refusal> {
        if edits.is_empty() {
            return Err(Refusal::forbidden(RefusalRule::Content, "The user accepted none of the changes."));
        }
        let (edits, by_model): (Vec<_>, Vec<_>) =
            edits.into_iter().map(|reviewed| (reviewed.edit, reviewed.model_text)).unzip();
        for edit in &edits {
            if let Some(after) = edit.after() {
                let name = edit.moved_to().unwrap_or(edit.file()).display();
                self.refuse_masks(&name, edit.before(), after)?;
            }
        }
        proposed.edits = edits;
        proposed.review = Some(ReviewedTexts { by_model });
        Ok(())
    }

    /// Returns what a patch would make of its files as they are now.
    pub(crate) async fn propose_patch(
        &self,
        call: &ApplyPatch,
        seen: &BTreeMap<String, Digest>,
    ) -> Result<ProposedPatch, Refusal> {
        self.fit(self.place(call)?, seen).await
    }

    /// Finds out where the paths of a patch lead. No place may be meant twice, and none may be needed as a
    /// directory by another.
    fn place(&self, call: &ApplyPatch) -> Result<Vec<Placed>, Refusal> {
        let patch =
            patch::parse(&call.patch).map_err(|error| Refusal::mistake(RefusalRule::Content, error))?;
        let count = patch.files.len();
        if count > MAX_FILES {
            let text =
                format!("The patch changes {count} files, and at most {MAX_FILES} go at once: make several.");
            return Err(Refusal::mistake(RefusalRule::Content, text));
        }
        let mut placed: Vec<Placed> = Vec::new();
        for patch in patch.files {
            let file = self.resolve(&patch.path, Purpose::Write)?;
            let target = match &patch.change {
                PatchOf::Update { moved_to: Some(target), .. } => Some(target),
                _ => None,
            };
            let moved_to = target.map(|target| self.resolve(target, Purpose::Write)).transpose()?;
            let new = Placed { patch, file, moved_to };
            let is_removed = new.touched().any(|(_, access)| access == Access::Remove);
            if is_removed && self.is_link(&new.patch.path) {
                let problem = "it is a symbolic link. Name the file that it leads to.";
                return Err(wrong(&new.patch.path, new.patch.line, problem));
            }
            let earlier = || placed.iter().flat_map(Placed::touched).map(|(place, _)| place);
            let own: Vec<&Resolved> = new.touched().map(|(place, _)| place).collect();
            for (index, place) in own.iter().enumerate() {
                let others = || earlier().chain(own[..index].iter().copied());
                let path = place.absolute();
                if others().any(|other| other.absolute() == path) {
                    let problem = "the patch names it twice. Put all its hunks below one header.";
                    return Err(wrong(&place.display(), new.patch.line, problem));
                }
                let nests = |other: &Resolved| {
                    path.starts_with(other.absolute()) || other.absolute().starts_with(path)
                };
                if let Some(other) = others().find(|other| nests(other)) {
                    let problem =
                        format!("it and {} can't both be files: one is in the other.", other.display());
                    return Err(wrong(&place.display(), new.patch.line, problem));
                }
                // What is outside of all is refused as that.
                let elsewhere = |other: &Resolved| match (other.location(), place.location()) {
                    (Location::Inside { root: one }, Location::Inside { root: two }) => one != two,
                    _ => false,
                };
                if let Some(other) = others().find(|other| elsewhere(other)) {
                    let problem = format!(
                        "it is in another workspace folder than {}. Make one patch for each folder.",
                        other.display()
                    );
                    return Err(wrong(&place.display(), new.patch.line, problem));
                }
            }
            placed.push(new);
        }
        Ok(placed)
    }

    /// Returns whether a name is a link itself.
    fn is_link(&self, named: &str) -> bool {
        let root = self.workspace().roots().paths().next();
        root.is_some_and(|root| root.join(named).symlink_metadata().is_ok_and(|found| found.is_symlink()))
    }

    /// The new texts, from the texts as they are now.
    async fn fit(
        &self,
        placed: Vec<Placed>,
        seen: &BTreeMap<String, Digest>,
    ) -> Result<ProposedPatch, Refusal> {
        let (mut edits, mut notices) = (Vec::new(), Vec::new());
        for one in placed {
            let before = self.text_before(&one, seen).await?;
            if let PatchOf::Add { text } = &one.patch.change {
                self.refuse_masks(&one.file.display(), None, text)?;
            }
            if let Some(to) = &one.moved_to
                && self.text_at(to, seen).await?.is_some()
            {
                return Err(one.wrong(format!(
                    "{} exists already, and a move replaces no file. Choose another name.",
                    to.display()
                )));
            }
            let name = one.file.display();
            let Placed { patch, file, moved_to } = &one;
            let file = file.clone();
            edits.push(match (&patch.change, before) {
                (PatchOf::Add { text }, None) => FileEdit::create(file, text.clone()),
                (PatchOf::Add { .. }, Some(_)) => {
                    return Err(one.wrong("it exists already. Change it with `*** Update File:`."));
                }
                (_, None) => return Err(one.wrong("it does not exist. Create it with `*** Add File:`.")),
                (PatchOf::Delete, Some(before)) => FileEdit::Delete { file, before: before.text },
                (PatchOf::Update { hunks, .. }, Some(current)) => {
                    let before = current.text.clone();
                    let applied = patch::apply(&before, hunks).map_err(|error| one.wrong(error))?;
                    notices.extend(applied.notices.iter().map(|notice| format!("{name}: {notice}")));
                    let after = applied.text;
                    refuse_cut_line(&name, Some(&before), &after)?;
                    self.refuse_masks(&name, Some(&before), &after)?;
                    check_encodable(&file, &current, &after)
                        .map_err(|error| Refusal::mistake(RefusalRule::Content, error))?;
                    match moved_to {
                        Some(to) => FileEdit::Move { from: file, to: to.clone(), before, after },
                        None if before == after => {
                            return Err(one.wrong("it already holds this text. Leave it out."));
                        }
                        None => FileEdit::Update { file, before, after },
                    }
                }
            });
        }
        let notice = (!notices.is_empty()).then(|| notices.join("\n"));
        Ok(ProposedPatch { edits, notice, review: None })
    }

    /// A file that the task may know; none where there is none.
    async fn text_at(
        &self,
        place: &Resolved,
        seen: &BTreeMap<String, Digest>,
    ) -> Result<Option<FileText>, Refusal> {
        let name = place.display();
        let unread = self.needs_permission_to_read(place) && !seen.contains_key(&name);
        match self.workspace().read_for_edit(place).await {
            Err(ReadError::NotFound { .. }) => Ok(None),
            _ if unread => Err(unread_refusal(&name)),
            Ok(file) => Ok(Some(file)),
            Err(error) => Err(Refusal::mistake(RefusalRule::Content, error)),
        }
    }

    async fn text_before(
        &self,
        one: &Placed,
        seen: &BTreeMap<String, Digest>,
    ) -> Result<Option<FileText>, Refusal> {
        let name = one.file.display();
        let is_new = matches!(one.patch.change, PatchOf::Add { .. });
        // Whether it is there is not told either.
        if !is_new && self.needs_permission_to_read(&one.file) && !seen.contains_key(&name) {
            return Err(unread_refusal(&name));
        }
        let Some(file) = self.text_at(&one.file, seen).await? else { return Ok(None) };
        let FileText { text, digest, .. } = &file;
        if let PatchOf::Delete = one.patch.change {
            // All of it goes, so all of it must be known.
            match seen.get(&name) {
                Some(known) if known == digest => {}
                Some(known) => {
                    let changes = self.changes_since(*known, text, &name);
                    let problem = format!("it has changed since you read it. Read it again.{changes}");
                    return Err(one.wrong(problem));
                }
                None => {
                    return Err(one.wrong(
                        "you have not read it, or no longer have its text. Read it before you delete it.",
                    ));
                }
            }
        }
        Ok(Some(file))
    }
}

fn planned_files(edits: &[FileEdit]) -> Vec<PlannedFile> {
    edits.iter().flat_map(planned).collect()
}

/// Returns what an edit leaves at each of its places.
fn planned(edit: &FileEdit) -> Vec<PlannedFile> {
    let (before, after) = (edit.before().map(Digest::of), edit.after().map(Digest::of));
    let file = |place: &Resolved, before, after| PlannedFile {
        path: place.display(),
        before,
        after,
        moved_from: None,
        encoding: None,
    };
    match edit.moved_to() {
        None => vec![file(edit.file(), before, after)],
        Some(to) => {
            let moved_from = Some(edit.file().display());
            vec![PlannedFile { moved_from, ..file(to, None, after) }, file(edit.file(), before, None)]
        }
    }
}

fn title(edits: &[FileEdit]) -> String {
    let name = |edit: &FileEdit| match edit {
        FileEdit::Move { from, to, .. } => format!("{} to {}", from.display(), to.display()),
        edit => edit.file().display(),
    };
    let (verb, names) = match edits {
        [edit @ FileEdit::Create { .. }] => ("Create".to_owned(), name(edit)),
        [edit @ FileEdit::Update { .. }] => ("Edit".to_owned(), name(edit)),
        [edit @ FileEdit::Delete { .. }] => ("Delete".to_owned(), name(edit)),
        [edit @ FileEdit::Move { .. }] => ("Move".to_owned(), name(edit)),
        edits => {
            let names = edits.iter().map(name).collect::<Vec<_>>().join(", ");
            (format!("Change {} files:", edits.len()), names)
        }
    };
    format!("{verb} {}", render::one_line(&names, TITLE))
}

/// Returns the text about a patch for whoever is asked about it.
pub(crate) fn shown(proposed: &ProposedPatch) -> String {
    let diffs = proposed.edits.iter().map(|edit| match edit {
        FileEdit::Create { file, text, .. } if text.is_empty() => {
            format!("--- /dev/null\n+++ b/{}\n", file.display())
        }
        FileEdit::Create { file, text, .. } => diff::of_file(None, text, &file.display()),
        FileEdit::Update { file, before, after } => diff::of_file(Some(before), after, &file.display()),
        FileEdit::Delete { file, before } => diff::of_deleted(before, &file.display()),
        FileEdit::Move { from, to, before, after } => {
            diff::of_moved(before, after, &from.display(), &to.display())
        }
    });
    let mut all = String::new();
    for diff in diffs {
        all.push_str(&diff);
        if !all.ends_with('\n') {
            all.push('\n');
        }
    }
    render::visible(&all).into_owned()
}
