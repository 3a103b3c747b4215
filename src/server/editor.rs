//! The connected editor as the workspace sees it: edits by `workspace/applyEdit`, saves by
//! `roo/document/save`.
//!
//! When to edit, what the text must be before, and how long an answer may take is decided by
//! [`roo_workspace`].

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tower_lsp::Client;
use tower_lsp::ls_types::request::Request;
use tower_lsp::ls_types::{ApplyWorkspaceEditResponse, MessageType};

use super::negotiated::Edits;
use roo_protocol::code::{CodeAskParams, CodeAskResult};
use roo_protocol::task::{DocumentSaveParams, DocumentSaveResult};
use roo_text::position::Range;
use roo_text::render::exact_line;
use roo_workspace::{DocumentChange, EditRefused, Editor, FileOperations, path_of};

/// `workspace/applyEdit`, with a document's URI as its editor spells it: the crate's own type refuses raw
/// spaces and letters.
enum ApplyEdit {}

impl Request for ApplyEdit {
    type Params = Value;
    type Result = ApplyWorkspaceEditResponse;
    const METHOD: &'static str = "workspace/applyEdit";
}

/// `roo/document/save`.
enum DocumentSave {}

impl Request for DocumentSave {
    type Params = DocumentSaveParams;
    type Result = DocumentSaveResult;
    const METHOD: &'static str = "roo/document/save";
}

/// `roo/code/ask`.
enum CodeAsk {}

impl Request for CodeAsk {
    type Params = CodeAskParams;
    type Result = CodeAskResult;
    const METHOD: &'static str = "roo/code/ask";
}

/// An editor behind a client.
pub(super) struct ClientEditor {
    pub(super) client: Client,
    pub(super) edits: Edits,
    /// Operations on files that its edits may hold.
    pub(super) files: FileOperations,
    /// True if it has its user confirm annotated edits.
    pub(super) reviews: bool,
    /// True if it answers `roo/document/save`.
    pub(super) saves: bool,
    /// True if it answers `roo/code/ask`.
    pub(super) answers_code: bool,
    /// The connection is over: nothing will be answered any more.
    pub(super) ended: CancellationToken,
}

impl ClientEditor {
    async fn apply(&self, label: &str, edit: Value) -> Result<(), EditRefused> {
        let params = json!({ "label": label, "edit": edit });
        let asked = self.client.send_request::<ApplyEdit>(params);
        match self.ended.run_until_cancelled(asked).await {
            Some(Ok(answer)) if answer.applied => Ok(()),
            Some(Ok(answer)) => {
                let reason = answer.failure_reason.unwrap_or_else(|| "it gave no reason".to_owned());
                Err(EditRefused { reason })
            }
            Some(Err(error)) => Err(EditRefused { reason: error.message.into_owned() }),
            None => Err(EditRefused { reason: "it was closed".to_owned() }),
        }
    }
}

impl Editor for ClientEditor {
    fn apply_edit<'a>(
        &'a self,
        label: &'a str,
        uri: &'a str,
        version: i32,
        edits: Vec<(Range, String)>,
    ) -> BoxFuture<'a, Result<(), EditRefused>> {
        let change = DocumentChange::Text { uri: uri.to_owned(), version: Some(version), edits };
        async move { self.apply(label, workspace_edit(self.edits, &[change])).await }.boxed()
    }

    fn apply_all<'a>(
        &'a self,
        label: &'a str,
        changes: Vec<DocumentChange>,
    ) -> BoxFuture<'a, Result<(), EditRefused>> {
        async move { self.apply(label, workspace_edit(self.edits, &changes)).await }.boxed()
    }

    fn file_operations(&self) -> FileOperations {
        self.files
    }

    fn reviews(&self) -> bool {
        self.reviews
    }

    fn review<'a>(
        &'a self,
        label: &'a str,
        changes: Vec<DocumentChange>,
    ) -> BoxFuture<'a, Result<(), EditRefused>> {
        async move { self.apply(label, edit_to_confirm(label, &changes)).await }.boxed()
    }

    fn changed_elsewhere(&self, uri: &str) {
        let name = path_of(uri).map_or_else(|| uri.to_owned(), |path| path.to_string_lossy().into_owned());
        let name = exact_line(&name);
        let message = format!(
            "roo: an agent has changed {name} in another editor; it has not read the unsaved text here"
        );
        let (client, ended) = (self.client.clone(), self.ended.clone());
        // A client that doesn't read keeps no task waiting.
        tokio::spawn(async move {
            ended.run_until_cancelled(client.show_message(MessageType::WARNING, message)).await;
        });
    }

    fn answers_code(&self) -> bool {
        self.answers_code
    }

    fn ask_code(&self, question: CodeAskParams) -> BoxFuture<'_, Option<CodeAskResult>> {
        async move {
            let asked = self.client.send_request::<CodeAsk>(question);
            match self.ended.run_until_cancelled(asked).await? {
                Ok(answer) => Some(answer),
                Err(error) => {
                    tracing::warn!(%error, "the client did not answer about code");
                    None
                }
            }
        }
        .boxed()
    }

    fn save<'a>(&'a self, uris: &'a [String]) -> BoxFuture<'a, Vec<String>> {
        async move {
            if !self.saves {
                return vec![];
            }
            let params = DocumentSaveParams { uris: uris.to_vec() };
            let asked = self.client.send_request::<DocumentSave>(params);
            match self.ended.run_until_cancelled(asked).await {
                Some(Ok(answer)) => answer.saved,
                Some(Err(error)) => {
                    tracing::warn!(%error, "the client did not save");
                    vec![]
                }
                None => vec![],
            }
        }
        .boxed()
    }
}

/// A `WorkspaceEdit`. Only a client that takes `documentChanges` is given operations on files.
pub(super) fn workspace_edit(how: Edits, changes: &[DocumentChange]) -> Value {
    match how {
        Edits::Versioned => json!({ "documentChanges": document_changes(changes, None) }),
        Edits::Plain => {
            let texts = changes.iter().filter_map(|change| match change {
                DocumentChange::Text { uri, edits, .. } => {
                    Some((uri.clone(), text_edits(edits, None).into()))
                }
                _ => None,
            });
            json!({ "changes": texts.collect::<serde_json::Map<String, Value>>() })
        }
    }
}

/// A `WorkspaceEdit` of which the user chooses.
fn edit_to_confirm(label: &str, changes: &[DocumentChange]) -> Value {
    let annotation = json!({
        "label": label,
        "needsConfirmation": true,
        "description": "What is not ticked stays as it is, and the model is told.",
    });
    json!({
        "documentChanges": document_changes(changes, Some(ANNOTATION)),
        "changeAnnotations": { ANNOTATION: annotation },
    })
}

/// The id of the one annotation of an edit.
const ANNOTATION: &str = "roo";

fn text_edits(edits: &[(Range, String)], annotation: Option<&str>) -> Vec<Value> {
    let one =
        |(range, text): &(Range, String)| annotated(json!({ "range": range, "newText": text }), annotation);
    edits.iter().map(one).collect()
}

fn annotated(mut part: Value, annotation: Option<&str>) -> Value {
    if let Some(annotation) = annotation {
        part["annotationId"] = annotation.into();
    }
    part
}

fn document_changes(changes: &[DocumentChange], annotation: Option<&str>) -> Vec<Value> {
    let text = |uri: &str, version: Option<i32>, edits: &[(Range, String)]| {
        let edits = text_edits(edits, annotation);
        json!({ "textDocument": { "uri": uri, "version": version }, "edits": edits })
    };
    let mut all = Vec::new();
    for change in changes {
        match change {
            DocumentChange::Create { uri, text: whole } => {
                let options = json!({ "overwrite": false, "ignoreIfExists": false });
                let create = json!({ "kind": "create", "uri": uri, "options": options });
                all.push(annotated(create, annotation));
                all.push(text(uri, None, &[(Range::default(), whole.clone())]));
            }
            DocumentChange::Text { edits, .. } if edits.is_empty() => {}
            DocumentChange::Text { uri, version, edits } => all.push(text(uri, *version, edits)),
            DocumentChange::Rename { from, to, edits } => {
                let options = json!({ "overwrite": false, "ignoreIfExists": false });
                let rename = json!({ "kind": "rename", "oldUri": from, "newUri": to, "options": options });
                all.push(annotated(rename, annotation));
                if !edits.is_empty() {
                    all.push(text(to, None, edits));
                }
            }
            DocumentChange::Delete { uri } => {
                let options = json!({ "recursive": false, "ignoreIfNotExists": false });
                all.push(annotated(json!({ "kind": "delete", "uri": uri, "options": options }), annotation));
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_is_bound_to_its_version_where_the_client_knows_versions() {
        let uri = "file:///a b é";
        let edits = [(Range::default(), "new".to_owned())];
        let start = json!({ "line": 0, "character": 0 });
        let edit = json!({ "range": { "start": start, "end": start }, "newText": "new" });
        let changes = [DocumentChange::Text { uri: uri.to_owned(), version: Some(7), edits: edits.to_vec() }];
        assert_eq!(
            workspace_edit(Edits::Versioned, &changes),
            json!({ "documentChanges": [{ "textDocument": { "uri": uri, "version": 7 }, "edits": [edit] }] })
        );
        let plain = json!({ "changes": { uri: [edit] } });
        assert_eq!(workspace_edit(Edits::Plain, &changes), plain);
    }
}
