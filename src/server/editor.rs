//! The connected editor as the workspace sees it: edits by `workspace/applyEdit`, saves by
//! `roo/document/save`.
//!
//! When to edit, what the text must be before, and how long an answer may take is decided by
//! [`crate::workspace`].

use std::collections::HashMap;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tower_lsp::Client;
use tower_lsp::ls_types::request::{ApplyWorkspaceEdit, Request};
use tower_lsp::ls_types::{
    ApplyWorkspaceEditParams, DocumentChanges, OneOf, OptionalVersionedTextDocumentIdentifier,
    TextDocumentEdit, TextEdit, Uri, WorkspaceEdit,
};

use super::capabilities::Edits;
use super::documents::to_lsp;
use crate::protocol::task::{DocumentSaveParams, DocumentSaveResult};
use crate::text::position::Range;
use crate::workspace::{EditRefused, Editor};

/// `roo/document/save`.
enum DocumentSave {}

impl Request for DocumentSave {
    type Params = DocumentSaveParams;
    type Result = DocumentSaveResult;
    const METHOD: &'static str = "roo/document/save";
}

/// An editor behind a client.
pub(super) struct ClientEditor {
    pub(super) client: Client,
    pub(super) edits: Edits,
    /// Whether it answers `roo/document/save`.
    pub(super) saves: bool,
}

impl Editor for ClientEditor {
    fn apply_edit<'a>(
        &'a self,
        label: &'a str,
        uri: &'a str,
        version: i32,
        edits: Vec<(Range, String)>,
    ) -> BoxFuture<'a, Result<(), EditRefused>> {
        async move {
            let uri: Uri =
                uri.parse().map_err(|error| EditRefused { reason: format!("{uri} is no URI: {error}") })?;
            let edits = edits.into_iter().map(|(range, text)| TextEdit::new(to_lsp(range), text));
            let params = ApplyWorkspaceEditParams {
                label: Some(label.to_owned()),
                edit: workspace_edit(self.edits, uri, version, edits.collect()),
            };
            match self.client.send_request::<ApplyWorkspaceEdit>(params).await {
                Ok(answer) if answer.applied => Ok(()),
                Ok(answer) => {
                    let reason = answer.failure_reason.unwrap_or_else(|| "it gave no reason".to_owned());
                    Err(EditRefused { reason })
                }
                Err(error) => Err(EditRefused { reason: error.message.into_owned() }),
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
            match self.client.send_request::<DocumentSave>(params).await {
                Ok(answer) => answer.saved,
                Err(error) => {
                    tracing::warn!(%error, "the client did not save");
                    vec![]
                }
            }
        }
        .boxed()
    }
}

fn workspace_edit(how: Edits, uri: Uri, version: i32, edits: Vec<TextEdit>) -> WorkspaceEdit {
    match how {
        Edits::Versioned => WorkspaceEdit {
            document_changes: Some(DocumentChanges::Edits(vec![TextDocumentEdit {
                text_document: OptionalVersionedTextDocumentIdentifier { uri, version: Some(version) },
                edits: edits.into_iter().map(OneOf::Left).collect(),
            }])),
            ..WorkspaceEdit::default()
        },
        Edits::Plain => {
            WorkspaceEdit { changes: Some(HashMap::from([(uri, edits)])), ..WorkspaceEdit::default() }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_edit_is_bound_to_its_version_where_the_client_knows_versions() {
        let uri: Uri = "file:///a".parse().unwrap();
        let edit = workspace_edit(Edits::Versioned, uri.clone(), 7, vec![]);
        assert_eq!(
            serde_json::to_value(edit).unwrap(),
            json!({ "documentChanges": [{ "textDocument": { "uri": "file:///a", "version": 7 }, "edits": [] }] })
        );
        let edit = workspace_edit(Edits::Plain, uri, 7, vec![]);
        assert_eq!(serde_json::to_value(edit).unwrap(), json!({ "changes": { "file:///a": [] } }));
    }
}
