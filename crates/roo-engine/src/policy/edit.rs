//! Judging an edit of one file: what all tools have in common that make a file's new text from its old one.

use std::collections::BTreeMap;

use serde_json::json;

use super::action::{ProposedEdit, ReviewedTexts};
use super::context::ToolCallContext;
use super::decision::{CallAssessment, Refusal, TITLE};
use super::escaped;
use super::gate::{Gate, unread_refusal};
use super::place_check::Access;
use super::plan::{Plan, PlannedWrite};
use super::preview::Preview;
use super::review::{Review, ReviewState, ReviewedEdit};
use super::rule::{NamedAllowRule, RefusalRule};
use super::{protected, remote};
use roo_catalog::ToolName;
use roo_formats::modes;
use roo_protocol::ids::Digest;
use roo_protocol::rule::RuleSubject;
use roo_sandbox::exec::redaction;
use roo_text::omission::{self, Omission};
use roo_text::{diff, render};
use roo_workspace::{
    FileText, Location, Protection, Purpose, ReadError, Resolved, check_encodable, copied_cut_line,
};

/// An edit of one file.
pub(crate) trait Edit: Sync {
    const TOOL: ToolName;

    /// True if it changes what a file holds, so that there has to be one. Nothing is told then of a file that the task
    /// may not read.
    const CHANGES_EXISTING: bool = false;

    /// True if text can be left out of what it writes.
    const MAY_OMIT: bool = false;

    /// The file, as the model named it.
    fn path(&self) -> &str;

    /// The new text, and what the model should know about how it came to be.
    fn apply(&self, gate: &Gate, file: &FileBefore<'_>) -> Result<(String, Option<String>), Refusal>;
}

/// A file as an edit finds it.
pub(crate) struct FileBefore<'a> {
    pub(crate) name: &'a str,
    /// Its text and digest; none for a new file.
    pub(crate) current: Option<&'a FileText>,
    /// The digest of the text that the task has last seen.
    pub(crate) seen: Option<Digest>,
}

impl FileBefore<'_> {
    pub(crate) fn text(&self) -> Option<&str> {
        self.current.map(|file| file.text.as_str())
    }

    /// Its text, of a file that has to be there.
    pub(crate) fn existing(&self) -> Result<&str, Refusal> {
        self.text().ok_or_else(|| {
            let text = format!("{} does not exist. Use write_to_file to create it.", self.name);
            Refusal::mistake(RefusalRule::Content, text)
        })
    }
}

impl Gate {
    /// Judges an edit of one file.
    pub(crate) async fn edit<E: Edit>(
        &self,
        call_context: ToolCallContext<'_>,
        edit: &E,
    ) -> Result<CallAssessment, Refusal> {
        let path = self.resolve(edit.path(), Purpose::Write)?;
        let task_directory = modes::task_directory(call_context.urid);
        // Requests live in the first root; a directory of that name elsewhere is like any other.
        let is_first = matches!(path.location(), Location::Inside { root: 0 });
        let mode = call_context.mode;
        mode.permits_file(E::TOOL, path.relative(), is_first.then_some(task_directory.as_str()))
            .map_err(|error| Refusal::mistake(RefusalRule::Mode, error))?;
        let own = protected::protection_at(self.policy_context(), call_context, &path);
        let inside = matches!(path.location(), Location::Inside { .. });
        let must_ask = self.examine(call_context, &path, Access::Write)?;
        let shared = own == Protection::OwnTaskDirectory;
        let granted = inside && shared && must_ask.is_none();
        let mut proposal = self.propose(path, call_context.seen, edit).await?;
        let name = proposal.path.display();
        let before = proposal.before.as_deref().map(Digest::of);
        let mut after = Digest::of(&proposal.after);
        let identity = json!({ "tool": "write", "path": name, "before": before, "after": after });
        let is_approved = call_context.approved == Some(Digest::of(identity.to_string()));
        let reviewed = Review::state(call_context.review, is_approved, &[Preview::from(&proposal)]);
        let must_ask = must_ask.or_else(|| reviewed.ask());
        if let ReviewState::Reviewed(edits) = reviewed {
            let one = edits.into_iter().next();
            let Some((text, by_model)) = one.and_then(ReviewedEdit::into_text) else {
                return Err(Refusal::forbidden(
                    RefusalRule::Content,
                    "The user accepted none of the changes.",
                ));
            };
            self.refuse_masks(&name, proposal.before.as_deref(), &text)?;
            after = Digest::of(&text);
            proposal.after = text;
            proposal.review = Some(ReviewedTexts { by_model: vec![by_model] });
        }
        let must_ask = must_ask.or_else(|| remote::ask(proposal.before.as_deref(), &proposal.after));
        let escaped = escaped::ask(proposal.path.relative(), proposal.before.as_deref(), &proposal.after);
        if escaped.is_some() {
            let lines = proposal.notice.iter().map(String::as_str).chain([escaped::NOTICE]);
            proposal.notice = Some(lines.collect::<Vec<_>>().join("\n"));
        }
        let must_ask = must_ask.or(escaped);
        let label = match &own {
            Protection::Tier2 { rule } if inside => format!(" (runs later: {rule})"),
            _ => String::new(),
        };
        let title = format!("{} {name}{label}", if before.is_some() { "Edit" } else { "Create" });
        let allowed_by =
            if granted { Some(NamedAllowRule::OwnTaskDirectory.into()) } else { self.write_rule() };
        Ok(CallAssessment {
            identity,
            // Shown from the action.
            subject: String::new(),
            title,
            must_ask,
            undecided: None,
            allowed_by,
            // Context for the request's own branches is free.
            standing: (!granted).then_some(RuleSubject::Edits),
            alternative: None,
            plan: Plan::Write(PlannedWrite { path: name, before, after, shared }),
            action: Some(Box::new(proposal)),
        })
    }

    /// Returns what an edit would make of its file as it is now; none where it doesn't fit.
    pub(crate) async fn preview_edit<E: Edit>(
        &self,
        edit: &E,
        seen: &BTreeMap<String, Digest>,
    ) -> Option<Vec<Preview>> {
        if edit.path().is_empty() {
            return None;
        }
        let path = self.resolve(edit.path(), Purpose::Write).ok()?;
        let ProposedEdit { path: file, before, after, .. } = self.propose(path, seen, edit).await.ok()?;
        Some(vec![Preview { file, moved_to: None, before, after: Some(after) }])
    }

    /// The new text that an edit leads to, from the text as it is now.
    async fn propose<E: Edit>(
        &self,
        path: Resolved,
        seen: &BTreeMap<String, Digest>,
        edit: &E,
    ) -> Result<ProposedEdit, Refusal> {
        let name = path.display();
        let unread = self.needs_permission_to_read(&path) && !seen.contains_key(&name);
        if unread && E::CHANGES_EXISTING {
            return Err(unread_refusal(&name));
        }
        let current = match self.workspace().read_for_edit(&path).await {
            Ok(file) => Some(file),
            Err(ReadError::NotFound { .. }) => None,
            Err(_) if unread => return Err(unread_refusal(&name)),
            Err(error) => return Err(Refusal::mistake(RefusalRule::Content, error)),
        };
        if unread && current.is_some() {
            return Err(unread_refusal(&name));
        }
        let file = FileBefore { name: &name, current: current.as_ref(), seen: seen.get(&name).copied() };
        let (after, notice) = edit.apply(self, &file)?;
        let before = file.text();
        if E::MAY_OMIT
            && let Some(left_out) = omission::find(&name, before, &after)
        {
            return Err(omission_refusal(&left_out));
        }
        refuse_cut_line(&name, before, &after)?;
        self.refuse_masks(&name, before, &after)?;
        if before == Some(after.as_str()) {
            let text = format!("{name} already holds this text; nothing was changed.");
            return Err(Refusal::mistake(RefusalRule::Content, text));
        }
        if let Some(file) = &current {
            check_encodable(&path, file, &after)
                .map_err(|error| Refusal::mistake(RefusalRule::Content, error))?;
        }
        let before = current.map(|file| file.text);
        Ok(ProposedEdit { path, before, after, notice, review: None })
    }
}

/// Returns the text about a write for whoever is asked about it.
pub(crate) fn shown(proposal: &ProposedEdit) -> String {
    let diff = diff::of_file(proposal.before.as_deref(), &proposal.after, &proposal.path.display());
    render::visible(&diff).into_owned()
}

/// To an edit that looks for a mask, which is in no file.
pub(crate) fn of_masked(searched: &str, refusal: Refusal) -> Refusal {
    if !redaction::holds_mask(searched) {
        return refusal;
    }
    let reason = format!(
        "{}\nA mask such as [masked: …] stands for a secret that you are not shown; the file itself holds the secret. \
         Search for other lines.",
        refusal.reason()
    );
    refusal.saying(reason)
}

/// Refuses a text with a line that a tool had cut when it showed it: the file would lose the rest of the line.
pub(super) fn refuse_cut_line(name: &str, before: Option<&str>, after: &str) -> Result<(), Refusal> {
    let Some(line) = before.and_then(|before| copied_cut_line(before, after)) else { return Ok(()) };
    let text = format!(
        "Line {line} of the new text of {name} ends in … where you were shown only a part of a long line, and the file would lose \
         the rest of it. Leave that line as it is, and change others or a part of it (apply_diff, search_and_replace, \
         insert_content)."
    );
    Err(Refusal::mistake(RefusalRule::Content, text))
}

/// To an edit that leaves text out and says so in a comment: the file would lose it.
fn omission_refusal(left_out: &Omission) -> Refusal {
    let text = format!(
        "Line {} of the new text, `{}`, stands for text that you left out, and the file would lose it. Write all of it, or \
         change only the lines that change. If the file is to have this very line, add it with insert_content.",
        left_out.line,
        render::one_line(&left_out.text, TITLE),
    );
    Refusal::mistake(RefusalRule::Content, text)
}
