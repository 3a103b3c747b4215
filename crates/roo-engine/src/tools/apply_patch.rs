//! `apply_patch`: several files, all or none.

use std::collections::BTreeMap;

use futures_util::future::BoxFuture;
use quick_xml::escape::partial_escape;

use crate::policy::{
    Action, CheckedCall, Gate, Permitted, Preview, ProposedPatch, Refusal, Tool, ToolCallContext, shown_patch,
};
use crate::tool_run::{AppliedEdit, Outcome, ToolContext};
use roo_catalog::ApplyPatch;
use roo_protocol::event::ToolStatus;
use roo_protocol::ids::Digest;
use roo_trace::record::{Author, FileChange, Side};
use roo_workspace::{ChangedFile, FileEdit, Reviewed, WriteError};

impl Tool for ApplyPatch {
    async fn judge(self, gate: &Gate, call_context: ToolCallContext<'_>) -> Result<CheckedCall, Refusal> {
        gate.patch(call_context, &self).await.map(CheckedCall::from)
    }

    async fn preview(self, gate: &Gate, seen: &BTreeMap<String, Digest>) -> Option<Vec<Preview>> {
        let proposed = gate.propose_patch(&self, seen).await.ok()?;
        Some(proposed.edits.into_iter().map(Preview::from).collect())
    }
}

impl Action for ProposedPatch {
    fn run<'a>(self: Box<Self>, _: Permitted, context: &'a ToolContext) -> BoxFuture<'a, Outcome> {
        Box::pin(run(*self, context))
    }

    fn shown(&self) -> Option<String> {
        Some(shown_patch(self))
    }
}

/// Changes the files, if each still holds the text that the patch was made for.
pub(super) async fn run(proposed: ProposedPatch, context: &ToolContext) -> Outcome {
    let ProposedPatch { edits, notice, review: answered } = proposed;
    let count = edits.len();
    let label = match edits.as_slice() {
        [edit] => format!("roo-lsp: edit {}", edit.file().display()),
        _ => format!("roo-lsp: change {count} files"),
    };
    if context.review {
        return review(&edits, notice, &label, context).await;
    }
    // Not raced against a cancellation: a change that happens must be told, and the task gives one that
    // hangs in an editor a time limit of its own.
    let changed = match context.workspace.write_all(&edits, &label).await {
        Ok(changed) => changed,
        Err(error) => return failed(&edits, &error),
    };
    let state = if answered.is_some() { REVIEWED } else { WRITTEN };
    let mut by_model = answered.map(|review| review.by_model.into_iter()).unwrap_or_default();
    let mut told = Told::new(Outcome::new(ToolStatus::Ok, String::new(), summary(&edits)));
    for (edit, changed) in edits.iter().zip(&changed) {
        told.changed(edit, changed);
        if let Some(by_model) = by_model.next().flatten() {
            told.edited_by_user(&by_model);
        }
    }
    told.end(state, notice)
}

/// Has the user choose among the changes. What they left out is no mistake of anybody's, and is told.
async fn review(edits: &[FileEdit], notice: Option<String>, label: &str, context: &ToolContext) -> Outcome {
    let reviewed = context.cancel.run_until_cancelled(context.workspace.review(edits, label)).await;
    let reviewed = match reviewed {
        Some(Ok(reviewed)) => reviewed,
        Some(Err(error)) => return failed(edits, &error),
        None => {
            let text = "The user's review of the patch was cancelled. What they apply in their editor's preview \
                        from now on is theirs: read the files before going on.";
            return Outcome { seen: forgotten(edits), ..Outcome::interrupted(text) };
        }
    };
    if reviewed.iter().all(|one| *one == Reviewed::Left) {
        let text = "The user reviewed the changes in their editor and accepted none of them. No file has changed. \
                    Take another approach, or ask what they want.";
        return Outcome::new(ToolStatus::Denied, text, "The user accepted none of the changes");
    }
    let all = reviewed.iter().all(|one| matches!(one, Reviewed::Taken(_)));
    let taken = reviewed.iter().filter(|one| **one != Reviewed::Left).count();
    let summary = match all {
        true => summary(edits),
        false => format!("Changed {taken} of {} files, as the user chose", edits.len()),
    };
    let mut told = Told::new(Outcome::new(ToolStatus::Ok, String::new(), summary));
    for (edit, one) in edits.iter().zip(&reviewed) {
        match one {
            Reviewed::Taken(changed) => told.changed(edit, changed),
            Reviewed::Left => told.file(edit, "left out by the user; it is as it was"),
            Reviewed::Other { text, changed } => told.other(edit, text.as_deref(), changed),
        }
    }
    let outcome = told.end(if all { WRITTEN } else { CHOSEN }, notice);
    Outcome { is_partial: !all, ..outcome }
}

fn failed(edits: &[FileEdit], error: &WriteError) -> Outcome {
    let text = format!("{error} The patch was not applied.");
    let summary = format!("Could not apply the patch: {}", error.reason());
    let mut outcome = Outcome::new(ToolStatus::Failed, text, summary);
    outcome.is_stale = matches!(error, WriteError::Stale { .. } | WriteError::Exists { .. });
    // What the task believes of the files is worth nothing any more.
    Outcome { seen: forgotten(edits), ..outcome }
}

fn forgotten(edits: &[FileEdit]) -> Vec<(String, Option<Digest>)> {
    edits.iter().flat_map(FileEdit::places).map(|place| (place.display(), None)).collect()
}

/// Report on a patch, file by file.
struct Told {
    outcome: Outcome,
}

impl Told {
    fn new(outcome: Outcome) -> Self {
        Self { outcome: Outcome { text: "<patch_result>\n".to_owned(), ..outcome } }
    }

    fn file(&mut self, edit: &FileEdit, operation: &str) {
        let moved = edit.moved_to().map(|to| format!("<to>{}</to>", partial_escape(to.display())));
        self.outcome.text.push_str(&format!(
            "<file><path>{}</path>{}<operation>{operation}</operation></file>\n",
            partial_escape(edit.file().display()),
            moved.unwrap_or_default(),
        ));
    }

    /// A file that is as the patch says.
    fn changed(&mut self, edit: &FileEdit, changed: &ChangedFile) {
        self.file(
            edit,
            match edit {
                FileEdit::Create { .. } => "created",
                FileEdit::Update { .. } => "modified",
                FileEdit::Delete { .. } => "deleted",
                FileEdit::Move { .. } => "moved",
            },
        );
        if matches!(edit, FileEdit::Move { .. } | FileEdit::Delete { .. }) {
            self.outcome.seen.push((edit.file().display(), None));
        }
        if changed.after.is_some() {
            let name = edit.moved_to().unwrap_or(edit.file()).display();
            self.outcome.seen.push((name, changed.after));
        }
        self.applied(changed);
        self.removed(edit, changed);
        self.outcome.changes.push(change_of(edit, changed));
    }

    /// The user put other lines in the place of the model's in the file that was told last.
    fn edited_by_user(&mut self, by_model: &str) {
        if let Some(change) = self.outcome.changes.pop() {
            self.outcome.changes.extend(change.edited_by_user(by_model));
        }
    }

    /// A file that is neither as it was nor as the patch says.
    fn other(&mut self, edit: &FileEdit, text: Option<&str>, changed: &ChangedFile) {
        self.file(edit, "differs from the old and the proposed text; read it");
        self.outcome.seen.extend(edit.places().map(|place| (place.display(), None)));
        self.applied(changed);
        let change = change_of(edit, changed);
        let after = text.map_or(Side::Absent, Side::text);
        self.removed(edit, changed);
        self.outcome.changes.push(FileChange { after, author: Author::Mixed, ..change });
    }

    /// A file that is gone from its place.
    fn removed(&mut self, edit: &FileEdit, changed: &ChangedFile) {
        if let Some(encoding) = changed.removed_encoding {
            self.outcome.details.add_encoding(edit.file().display(), encoding);
        }
        if changed.removed_executable {
            self.outcome.details.add_executable(edit.file().display());
        }
    }

    fn applied(&mut self, changed: &ChangedFile) {
        let ChangedFile { uri, before, after, .. } = changed.clone();
        self.outcome.edits.push(AppliedEdit { uri, before, after });
    }

    fn end(mut self, state: &str, notice: Option<String>) -> Outcome {
        let text = &mut self.outcome.text;
        text.push_str(&format!("<notice><i>{state}</i></notice>\n"));
        if let Some(notice) = notice {
            text.push_str(&format!("<notice><i>{}</i></notice>\n", partial_escape(notice)));
        }
        text.push_str("</patch_result>");
        self.outcome
    }
}

const WRITTEN: &str =
    "All files now hold what the patch says. There is no need to read them again: go on from here.";

const REVIEWED: &str =
    "The user went through this patch change by change. The files now hold what they accepted of it.";

const CHOSEN: &str = "The user chose among the changes and doesn't want those that they left out as proposed: go on \
                      from what the files hold now, or ask.";

fn summary(edits: &[FileEdit]) -> String {
    match edits {
        [FileEdit::Create { file, .. }] => format!("Created {}", file.display()),
        [FileEdit::Update { file, .. }] => format!("Changed {}", file.display()),
        [FileEdit::Delete { file, .. }] => format!("Deleted {}", file.display()),
        [FileEdit::Move { from, to, .. }] => format!("Moved {} to {}", from.display(), to.display()),
        edits => format!("Changed {} files", edits.len()),
    }
}

/// Returns the trace's record of one of the files.
fn change_of(edit: &FileEdit, changed: &ChangedFile) -> FileChange {
    let side = |text: Option<&str>, digest: Option<Digest>| match text {
        None => Side::Absent,
        Some(text) => Side::Text { text: text.into(), digest: digest.unwrap_or_else(|| Digest::of(text)) },
    };
    let as_proposed = edit.after().is_none_or(|after| changed.text_after == Some(Digest::of(after)));
    FileChange {
        path: edit.moved_to().unwrap_or(edit.file()).display(),
        old_path: edit.moved_to().map(|_| edit.file().display()),
        before: side(edit.before(), changed.before),
        after: side(edit.after(), changed.after),
        // An editor may have formatted what it was given.
        author: if as_proposed { Author::Ai } else { Author::Mixed },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::fixture::Fixture;
    use roo_workspace::{Purpose, Resolved};

    fn place(fixture: &Fixture, name: &str) -> Resolved {
        fixture.context.workspace.resolve(name, Purpose::Write).unwrap()
    }

    #[tokio::test]
    async fn every_file_is_changed_and_reported() {
        let fixture = Fixture::new(&[("a.rs", "old\n"), ("gone.rs", "x\n"), ("from.rs", "same\n")]);
        let at = |name| place(&fixture, name);
        let edits = vec![
            FileEdit::create(at("docs/new.md"), "new\n".into()),
            FileEdit::Update { file: at("a.rs"), before: "old\n".into(), after: "new\n".into() },
            FileEdit::Delete { file: at("gone.rs"), before: "x\n".into() },
            FileEdit::Move {
                from: at("from.rs"),
                to: at("to.rs"),
                before: "same\n".into(),
                after: "same\n".into(),
            },
        ];
        let proposed = ProposedPatch { edits, notice: Some("a < b".into()), review: None };
        let outcome = run(proposed, &fixture.context).await;
        assert_eq!((outcome.status, outcome.summary.as_str()), (ToolStatus::Ok, "Changed 4 files"));
        assert_eq!(
            outcome.text,
            format!(
                "<patch_result>\n\
                 <file><path>docs/new.md</path><operation>created</operation></file>\n\
                 <file><path>a.rs</path><operation>modified</operation></file>\n\
                 <file><path>gone.rs</path><operation>deleted</operation></file>\n\
                 <file><path>from.rs</path><to>to.rs</to><operation>moved</operation></file>\n\
                 <notice><i>{WRITTEN}</i></notice>\n<notice><i>a &lt; b</i></notice>\n</patch_result>"
            )
        );
        assert_eq!((fixture.read("docs/new.md"), fixture.read("a.rs")), ("new\n".into(), "new\n".into()));
        assert_eq!(fixture.read("to.rs"), "same\n");
        assert!(!fixture.path("gone.rs").exists() && !fixture.path("from.rs").exists());
        let digest = |text: &str| Some(Digest::of(text));
        let seen: Vec<(&str, Option<Digest>)> =
            outcome.seen.iter().map(|(name, digest)| (name.as_str(), *digest)).collect();
        assert_eq!(
            seen,
            [
                ("docs/new.md", digest("new\n")),
                ("a.rs", digest("new\n")),
                ("gone.rs", None),
                ("from.rs", None),
                ("to.rs", digest("same\n")),
            ]
        );
        let moved = &outcome.changes[3];
        assert_eq!((moved.path.as_str(), moved.old_path.as_deref()), ("to.rs", Some("from.rs")));
        assert_eq!(outcome.changes[2].after, Side::Absent);
        assert_eq!(outcome.edits.len(), 4);
    }

    #[tokio::test]
    async fn one_file_that_is_another_by_now_leaves_all_as_they_are() {
        let fixture = Fixture::new(&[("a.rs", "old\n"), ("b.rs", "changed\n")]);
        let update = |name, before: &str| FileEdit::Update {
            file: place(&fixture, name),
            before: before.into(),
            after: "new\n".into(),
        };
        let edits = vec![update("a.rs", "old\n"), update("b.rs", "as read\n")];
        let outcome = run(ProposedPatch { edits, notice: None, review: None }, &fixture.context).await;
        assert_eq!(outcome.status, ToolStatus::Failed);
        assert!(outcome.text.contains("b.rs has been changed since it was read"), "{}", outcome.text);
        assert_eq!((fixture.read("a.rs"), fixture.read("b.rs")), ("old\n".into(), "changed\n".into()));
        assert_eq!(outcome.seen, [("a.rs".to_owned(), None), ("b.rs".to_owned(), None)]);
        assert_eq!((outcome.edits, outcome.changes), (vec![], vec![]));
    }
}
