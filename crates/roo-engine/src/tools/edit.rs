//! Commits a proposed text: the end of every tool that edits a file.

use futures_util::future::BoxFuture;
use quick_xml::escape::partial_escape;

use crate::policy::{Action, Permitted, ProposedEdit, shown_edit};
use crate::tool_run::{AppliedEdit, Outcome, ToolContext};
use roo_protocol::event::ToolStatus;
use roo_protocol::ids::Digest;
use roo_trace::record::{Author, FileChange, Side};

impl Action for ProposedEdit {
    fn run<'a>(self: Box<Self>, _: Permitted, context: &'a ToolContext) -> BoxFuture<'a, Outcome> {
        Box::pin(run(*self, context))
    }

    fn shown(&self) -> Option<String> {
        Some(shown_edit(self))
    }
}

/// Writes the proposed text, if the file still holds the text that it was made from.
async fn run(proposal: ProposedEdit, context: &ToolContext) -> Outcome {
    let ProposedEdit { path, before, after, notice, review } = proposal;
    let shown = path.display();
    let label = format!("roo-lsp: edit {shown}");
    // Not raced against a cancellation: a write that happens must be told, and the task gives one that
    // hangs in an editor a time limit of its own.
    let written = context.workspace.write(&path, before.as_ref().map(Digest::of), &after, &label).await;
    let written = match written {
        Ok(written) => written,
        Err(error) => {
            let (text, summary) = (error.to_string(), format!("Could not write {shown}: {}", error.reason()));
            let outcome = Outcome::new(ToolStatus::Failed, text, summary);
            // What the task believes of the file is worth nothing any more.
            return Outcome { seen: vec![(shown, None)], ..outcome };
        }
    };

    let unchanged = written.before == Some(written.after);
    let state = if review.is_some() { REVIEWED } else { WRITTEN };
    let (operation, done, state) = match (unchanged, &before) {
        (true, _) => ("unchanged", "Left", "The file already held exactly this text; nothing was written."),
        (false, None) => ("created", "Created", state),
        (false, Some(_)) => ("modified", "Changed", state),
    };
    let notice = notice.map(|notice| format!("<notice><i>{}</i></notice>\n", partial_escape(notice)));
    let text = format!(
        "<file_write_result>\n<path>{}</path>\n<operation>{operation}</operation>\n<notice><i>{state}</i></notice>\n{}</file_write_result>",
        partial_escape(&shown),
        notice.unwrap_or_default(),
    );
    let change = FileChange {
        path: shown.clone(),
        old_path: None,
        before: match &before {
            None => Side::Absent,
            Some(text) => Side::Text {
                text: text.as_str().into(),
                digest: written.before.unwrap_or_else(|| Digest::of(text)),
            },
        },
        // An editor may have formatted what it was given.
        author: if written.is_as_given { Author::Ai } else { Author::Mixed },
        after: Side::Text { text: after.as_str().into(), digest: written.after },
    };
    let by_model = review.and_then(|review| review.by_model.into_iter().next().flatten());
    let changes = match by_model {
        _ if unchanged => Vec::new(),
        Some(by_model) => change.edited_by_user(&by_model).into(),
        None => vec![change],
    };
    let edit = AppliedEdit { uri: written.uri, before: written.before, after: Some(written.after) };
    Outcome {
        seen: vec![(path.display(), Some(written.after))],
        edits: if unchanged { Vec::new() } else { vec![edit] },
        changes,
        ..Outcome::new(ToolStatus::Ok, text, format!("{done} {shown}"))
    }
}

const WRITTEN: &str = "The file now holds the new text. There is no need to read it again: go on from here.";

const REVIEWED: &str =
    "The user went through this edit change by change. The file now holds what they accepted of it.";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::fixture::Fixture;
    use roo_workspace::{Purpose, file_uri};

    async fn write(fixture: &Fixture, name: &str, before: Option<&str>, after: &str) -> Outcome {
        let proposal = ProposedEdit {
            path: fixture.context.workspace.resolve(name, Purpose::Write).unwrap(),
            before: before.map(str::to_owned),
            after: after.to_owned(),
            notice: Some("a < b".to_owned()),
            review: None,
        };
        run(proposal, &fixture.context).await
    }

    #[tokio::test]
    async fn a_new_file_is_created_and_reported() {
        let fixture = Fixture::new(&[]);
        let outcome = write(&fixture, "src/a.rs", None, "text").await;
        assert_eq!(fixture.read("src/a.rs"), "text");
        assert_eq!((outcome.status, outcome.summary.as_str()), (ToolStatus::Ok, "Created src/a.rs"));
        assert_eq!(
            outcome.text,
            format!(
                "<file_write_result>\n<path>src/a.rs</path>\n<operation>created</operation>\n\
                 <notice><i>{WRITTEN}</i></notice>\n<notice><i>a &lt; b</i></notice>\n</file_write_result>"
            )
        );
        let after = Digest::of("text");
        assert_eq!(outcome.seen, [("src/a.rs".to_owned(), Some(after))]);
        let uri = file_uri(&fixture.path("src/a.rs").canonicalize().unwrap());
        assert_eq!(outcome.edits, [AppliedEdit { uri, before: None, after: Some(after) }]);
    }

    #[tokio::test]
    async fn a_file_is_modified_only_from_the_text_it_holds() {
        let fixture = Fixture::new(&[("a.rs", "old")]);
        let outcome = write(&fixture, "a.rs", Some("old"), "new").await;
        assert!(outcome.text.contains("<operation>modified</operation>"));
        let outcome = write(&fixture, "a.rs", Some("old"), "newer").await;
        assert_eq!(outcome.status, ToolStatus::Failed);
        assert!(
            outcome.text.contains("a.rs has been changed since it was read")
                && outcome.text.contains("Read it again")
        );
        assert_eq!(outcome.summary, "Could not write a.rs: it has been changed since it was read");
        assert_eq!(outcome.seen, [("a.rs".to_owned(), None)], "what it believed of the file is forgotten");
        assert_eq!(outcome.edits, []);
        assert_eq!(fixture.read("a.rs"), "new");
        let outcome = write(&fixture, "a.rs", None, "newest").await;
        assert!(outcome.text.contains("exists already"));
    }

    #[tokio::test]
    async fn writing_what_is_there_is_no_edit() {
        let fixture = Fixture::new(&[("a.rs", "same")]);
        let outcome = write(&fixture, "a.rs", Some("same"), "same").await;
        assert!(outcome.text.contains("<operation>unchanged</operation>"));
        assert_eq!(outcome.edits, []);
    }
}
