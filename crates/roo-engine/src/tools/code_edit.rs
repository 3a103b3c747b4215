//! Changes that a language server proposes: a rename, or a code action. They are judged, reviewed, written and undone as one
//! edit of several files, like a patch.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use futures_util::future::BoxFuture;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::apply_patch;
use super::code_question::{About, EDITOR, for_editor, open_documents};
use super::patch_call::patch_call;
use crate::policy::{
    Action, CheckedCall, Gate, Permitted, Preview, ProposedPatch, ProposedRefactoring, Refusal, RefusalRule,
    ToolCallContext, shown_patch,
};
use crate::tool_run::{Outcome, ToolContext};
use roo_catalog::{ToolCall, ToolName};
use roo_language_servers::{Answer, Document, Place, Question, RangeEdit, WorkspaceEdit, apply_range_edits};
use roo_protocol::code::{ProposedFileEdits, ProposedTextEdit};
use roo_text::position::{Encoding, Positions};
use roo_text::render::{exact_line, one_line};
use roo_workspace::{EditorAnswer, FileEdit, FileText, Purpose, Resolved, check_encodable, path_of};

/// The longest text of a language server in a refusal, in characters.
const REASON: usize = 200;

/// Number of times that a server is asked: again where the texts that it proposes changes of are not those that are here.
const ROUNDS: usize = 4;

/// A change that a language server is to propose.
pub(super) struct CodeEdit<'a> {
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

    /// Asks the language servers of the editors, and where none of them knows, one of our own.
    async fn propose(&self, gate: &Gate, place: &Resolved) -> Result<ProposedPatch, Refusal> {
        let workspace = gate.workspace();
        let text = workspace.read_for_edit(place).await.map_err(|error| mistake(&error))?.text;
        let offset = match self.about.offset(&place.display(), &text) {
            Ok(offset) => offset,
            // The line that it shows may hold a secret.
            Err(reason) => return Err(mistake(&gate.masked(reason).await)),
        };
        if workspace.answers_code() {
            let by_editor = self.propose_by_editor(gate, place, (&text, offset));
            if let Ok(proposed) = timeout(EDITOR, by_editor).await
                && let Some(proposed) = proposed?
            {
                return Ok(proposed);
            }
        }
        self.propose_by_own(gate, place, (&text, offset)).await
    }

    /// Asks the editors until what one of them proposes is about the texts as they are here; none where they don't know, or it
    /// never is.
    async fn propose_by_editor(
        &self,
        gate: &Gate,
        place: &Resolved,
        at: (&str, usize),
    ) -> Result<Option<ProposedPatch>, Refusal> {
        let Some(question) = for_editor(&self.question) else { return Ok(None) };
        let workspace = gate.workspace();
        for _ in 0..ROUNDS {
            let Some(answer) = workspace.ask_code(place, at, &question).await else { return Ok(None) };
            if let Some(reason) = &answer.result.refusal {
                let reason = gate.masked(one_line(reason.trim_end_matches('.'), REASON)).await;
                return Err(mistake(&format!(
                    "The language server of the editor proposes nothing: {reason}."
                )));
            }
            // One that can't be read is no better when it is asked for again.
            let Some(edit) = edit_of(&answer) else { return Ok(None) };
            let Some(files) = self.fitting(gate, &answer, &edit).await? else { continue };
            if let Some(left) = self.left_out(gate, place, at, &edit).await {
                return Err(mistake(&format!(
                    "The language server of the editor leaves out {}, where the symbol is used, so nothing was changed. Make the \
                     call again, or change the uses by other tools.",
                    exact_line(&left.to_string_lossy())
                )));
            }
            return Ok(Some(ProposedPatch { edits: files, notice: None, review: None }));
        }
        Ok(None)
    }

    /// The edits of the files as they are here; none where an editor's answer is about other texts.
    async fn fitting(
        &self,
        gate: &Gate,
        answer: &EditorAnswer,
        edit: &WorkspaceEdit,
    ) -> Result<Option<Vec<FileEdit>>, Refusal> {
        let workspace = gate.workspace();
        let changed = changed_files(gate, edit.files.clone()).await?;
        let mut edits = Vec::new();
        for ChangedFile { file, current, path, edits: proposed } in changed {
            let told = answer.result.files.iter().find(|told| path_of(&told.uri).as_ref() == Some(&path));
            let is_current =
                match (workspace.documents().at(file.absolute()), told.and_then(|told| told.version)) {
                    (Some(open), Some(version)) => open.editor == answer.editor && open.version == version,
                    (None, None) => self.names_symbol(&current.text, &proposed, edit.encoding),
                    (Some(_), None) | (None, Some(_)) => false,
                };
            let Ok(after) = apply_range_edits(&current.text, &proposed, edit.encoding) else {
                return Ok(None);
            };
            if !is_current {
                return Ok(None);
            }
            edits.extend(file_edit(file, current, after)?);
        }
        match edits.is_empty() {
            true => Err(self.no_change()),
            false => Ok(Some(edits)),
        }
    }

    /// Returns whether what a rename replaces is the symbol, in a text that the editor doesn't have: its language server may not have
    /// noticed how the file has changed on disk.
    fn names_symbol(&self, text: &str, edits: &[RangeEdit], encoding: Encoding) -> bool {
        let (Question::Rename(_), About::Symbol(symbol)) = (&self.question, &self.about) else { return true };
        let positions = Positions::new(text, encoding);
        edits.iter().all(|edit| {
            let replaced = text.get(positions.offset(edit.range.start)..positions.offset(edit.range.end));
            // Some only add, as a field's name to what was short for it.
            replaced.is_some_and(|replaced| replaced.contains(&symbol.name) || symbol.name.contains(replaced))
        })
    }

    /// Returns a file in which what is renamed is used and which the edit leaves as it is.
    async fn left_out(
        &self,
        gate: &Gate,
        place: &Resolved,
        at: (&str, usize),
        edit: &WorkspaceEdit,
    ) -> Option<PathBuf> {
        if !matches!(self.question, Question::Rename(_)) {
            return None;
        }
        let workspace = gate.workspace();
        let real = |path: &Path| {
            let place = workspace.resolve(&path.to_string_lossy(), Purpose::Read);
            place.map_or_else(|_| path.to_owned(), |place| place.absolute().to_owned())
        };
        let renamed: BTreeSet<PathBuf> = edit.files.keys().map(|path| real(path)).collect();
        let uses = workspace.ask_code(place, at, &for_editor(&Question::References)?).await?.result.places;
        uses.iter().filter_map(|used| path_of(&used.uri)).find(|path| !renamed.contains(&real(path)))
    }

    /// Asks our own server until it has seen every file that it wants to change as it is here, so that its positions are those of
    /// the texts that are changed.
    async fn propose_by_own(
        &self,
        gate: &Gate,
        place: &Resolved,
        (text, offset): (&str, usize),
    ) -> Result<ProposedPatch, Refusal> {
        let document = Document { path: place.absolute().to_owned(), text: text.into() };
        let asked = Place { document: document.clone(), offset };
        let open = open_documents(gate.workspace()).into_iter();
        let mut shown: BTreeMap<PathBuf, Document> =
            open.map(|document| (document.path.clone(), document)).collect();
        shown.insert(document.path.clone(), document);
        for _ in 0..ROUNDS {
            let others: Vec<Document> = shown.values().cloned().collect();
            // The gate's effect is dropped where its task is cancelled.
            let cancel = CancellationToken::new();
            let reply = gate.language_servers().ask(self.question.clone(), &asked, &others, &cancel).await;
            let Answer::Edit(edit) = reply.map_err(|error| mistake(&error))?.answer else {
                return Err(mistake(&"The language server proposed no edit."));
            };
            let changed = changed_files(gate, edit.files).await?;
            let mut is_new = false;
            for ChangedFile { file, current, .. } in &changed {
                let known = shown.get(file.absolute()).is_some_and(|known| *known.text == *current.text);
                if !known {
                    is_new = true;
                    let document =
                        Document { path: file.absolute().to_owned(), text: current.text.as_str().into() };
                    shown.insert(document.path.clone(), document);
                }
            }
            if is_new {
                continue;
            }
            let mut files = Vec::new();
            for ChangedFile { file, current, edits, .. } in changed {
                let after = apply_range_edits(&current.text, &edits, edit.encoding).map_err(|unfit| {
                    let name = file.display();
                    mistake(&format!(
                        "The language server proposed a change of {name} that doesn't fit its text: {unfit}. Nothing was changed."
                    ))
                })?;
                files.extend(file_edit(file, current, after)?);
            }
            if files.is_empty() {
                return Err(self.no_change());
            }
            return Ok(ProposedPatch { edits: files, notice: None, review: None });
        }
        Err(mistake(&"The files changed while the language server was asked. Make the call again."))
    }

    fn no_change(&self) -> Refusal {
        mistake(&format!("The language server proposed no change for {}.", exact_line(self.path)))
    }
}

/// A file that an edit changes, as it is here.
struct ChangedFile {
    file: Resolved,
    current: FileText,
    /// The file as the edit names it.
    path: PathBuf,
    edits: Vec<RangeEdit>,
}

/// Reads the files that an edit changes.
async fn changed_files(
    gate: &Gate,
    files: BTreeMap<PathBuf, Vec<RangeEdit>>,
) -> Result<Vec<ChangedFile>, Refusal> {
    let mut changed: Vec<ChangedFile> = Vec::new();
    for (path, edits) in files {
        let file = gate.resolve(&path.to_string_lossy(), Purpose::Write)?;
        if changed.iter().any(|other| other.file.absolute() == file.absolute()) {
            let name = file.display();
            return Err(mistake(&format!(
                "The language server changes {name} under two names. Nothing was changed."
            )));
        }
        let current = gate.workspace().read_for_edit(&file).await.map_err(|error| mistake(&error))?;
        changed.push(ChangedFile { file, current, path, edits });
    }
    Ok(changed)
}

/// The edit of a file; none where its text stays.
fn file_edit(file: Resolved, current: FileText, after: String) -> Result<Option<FileEdit>, Refusal> {
    if after == current.text {
        return Ok(None);
    }
    check_encodable(&file, &current, &after).map_err(|error| mistake(&error))?;
    Ok(Some(FileEdit::Update { file, before: current.text, after }))
}

/// The edit that an editor proposes; none where it is about something else than files, or is too large.
fn edit_of(answer: &EditorAnswer) -> Option<WorkspaceEdit> {
    let range_edit = |edit: &ProposedTextEdit| RangeEdit { range: edit.range, text: edit.new_text.clone() };
    let file = |file: &ProposedFileEdits| {
        Some((path_of(&file.uri)?, file.edits.iter().map(range_edit).collect::<Vec<_>>()))
    };
    let files: Vec<_> = answer.result.files.iter().map(file).collect::<Option<_>>()?;
    let edit = WorkspaceEdit::new(files, answer.encoding).ok()?;
    (!edit.files.is_empty()).then_some(edit)
}

fn mistake(reason: &dyn fmt::Display) -> Refusal {
    Refusal::mistake(RefusalRule::Content, reason)
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
