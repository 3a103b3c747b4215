//! Changes that a language server proposes: a rename, or a code action. They are judged, reviewed, written and undone as one
//! edit of several files, like a patch.

use std::collections::BTreeMap;
use std::path::PathBuf;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::apply_patch;
use super::code_question::{About, open_documents};
use super::patch_call::patch_call;
use crate::policy::{
    Action, CheckedCall, Gate, Permitted, Preview, ProposedPatch, ProposedRefactoring, Refusal, RefusalRule,
    ToolCallContext, shown_patch,
};
use crate::tool_run::{Outcome, ToolContext};
use roo_catalog::{ToolCall, ToolName};
use roo_language_servers::{Answer, Document, Place, Question, apply_range_edits};
use roo_text::render::exact_line;
use roo_workspace::{FileEdit, Purpose, Resolved, check_encodable};

/// Number of times that a server is asked again, with the files open that it wants to change.
const ROUNDS: usize = 4;

/// A change that a language server is to propose.
pub(super) struct CodeEdit<'a> {
    /// The tool.
    pub(super) tool: ToolName,
    /// What is asked for.
    pub(super) question: Question,
    /// The file, as the model named it.
    pub(super) path: &'a str,
    /// The place in it.
    pub(super) about: About,
}

impl CodeEdit<'_> {
    /// Judges the change that it comes to now.
    pub(super) async fn judge(
        self,
        gate: &Gate,
        call_context: ToolCallContext<'_>,
    ) -> Result<CheckedCall, Refusal> {
        let place = gate.resolve(self.path, Purpose::Read)?;
        gate.refuse_unread(call_context, &place)?;
        let proposed = self.propose(gate, &place).await?;
        gate.refactoring(call_context, self.tool, proposed).map(CheckedCall::from)
    }

    /// Returns what it would make of the files as they are now.
    pub(super) async fn preview(self, gate: &Gate) -> Option<Vec<Preview>> {
        let place = gate.resolve(self.path, Purpose::Read).ok()?;
        let proposed = self.propose(gate, &place).await.ok()?;
        Some(proposed.edits.into_iter().map(Preview::from).collect())
    }

    /// Asks the server until it has seen every file that it wants to change as it is here, so that its positions are those of
    /// the texts that are changed.
    async fn propose(&self, gate: &Gate, place: &Resolved) -> Result<ProposedPatch, Refusal> {
        let mistake = |reason: &dyn std::fmt::Display| Refusal::mistake(RefusalRule::Content, reason);
        let workspace = gate.workspace();
        let text = workspace.read_for_edit(place).await.map_err(|error| mistake(&error))?.text;
        let offset = match self.about.offset(&place.display(), &text) {
            Ok(offset) => offset,
            // The line that it shows may hold a secret.
            Err(reason) => return Err(mistake(&gate.masked(reason).await)),
        };
        let document = Document { path: place.absolute().to_owned(), text: text.as_str().into() };
        let asked = Place { document: document.clone(), offset };
        let mut shown: BTreeMap<PathBuf, Document> =
            open_documents(workspace).into_iter().map(|document| (document.path.clone(), document)).collect();
        shown.insert(document.path.clone(), document);
        for _ in 0..ROUNDS {
            let others: Vec<Document> = shown.values().cloned().collect();
            // The gate's effect is dropped where its task is cancelled.
            let cancel = CancellationToken::new();
            let reply = gate.language_servers().ask(self.question.clone(), &asked, &others, &cancel).await;
            let Answer::Edit(edit) = reply.map_err(|error| mistake(&error))?.answer else {
                return Err(mistake(&"The language server proposed no edit."));
            };
            let mut places = Vec::new();
            let mut is_new = false;
            for (path, edits) in edit.files {
                let place = gate.resolve(&path.to_string_lossy(), Purpose::Write)?;
                if places.iter().any(|(other, ..): &(Resolved, _, _)| other.absolute() == place.absolute()) {
                    let name = place.display();
                    return Err(mistake(&format!(
                        "The language server changes {name} under two names. Nothing was changed."
                    )));
                }
                let before = workspace.read_for_edit(&place).await.map_err(|error| mistake(&error))?;
                let known = shown.get(place.absolute()).is_some_and(|known| *known.text == *before.text);
                if !known {
                    is_new = true;
                    let document =
                        Document { path: place.absolute().to_owned(), text: before.text.as_str().into() };
                    shown.insert(document.path.clone(), document);
                }
                places.push((place, before, edits));
            }
            if is_new {
                continue;
            }
            let mut files = Vec::new();
            for (file, current, edits) in places {
                let after = apply_range_edits(&current.text, &edits, edit.encoding).map_err(|unfit| {
                    let name = file.display();
                    mistake(&format!(
                        "The language server proposed a change of {name} that doesn't fit its text: {unfit}. Nothing was changed."
                    ))
                })?;
                if after != current.text {
                    check_encodable(&file, &current, &after).map_err(|error| mistake(&error))?;
                    files.push(FileEdit::Update { file, before: current.text, after });
                }
            }
            if files.is_empty() {
                let name = exact_line(self.path);
                return Err(mistake(&format!("The language server proposed no change for {name}.")));
            }
            return Ok(ProposedPatch { edits: files, notice: None, review: None });
        }
        Err(mistake(&"The files changed while the language server was asked. Make the call again."))
    }
}

impl Action for ProposedRefactoring {
    fn run<'a>(self: Box<Self>, _: Permitted, context: &'a ToolContext) -> BoxFuture<'a, Outcome> {
        Box::pin(apply_patch::run(self.patch, context))
    }

    fn shown(&self) -> Option<String> {
        Some(shown_patch(&self.patch))
    }

    fn for_hooks(&self) -> Option<ToolCall> {
        patch_call("refactoring", &self.patch.edits)
    }
}
