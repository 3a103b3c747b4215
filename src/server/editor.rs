//! The connected editor as the workspace sees it: edits by `workspace/applyEdit`, saves by
//! `roo/document/save`.
//!
//! When to edit, what the text must be before, and how long an answer may take is decided by
//! [`crate::workspace`].

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tower_lsp::Client;
use tower_lsp::ls_types::ApplyWorkspaceEditResponse;
use tower_lsp::ls_types::request::Request;

use super::capabilities::Edits;
use crate::protocol::task::{DocumentSaveParams, DocumentSaveResult};
use crate::text::position::Range;
use crate::workspace::{EditRefused, Editor};

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
            let params = json!({ "label": label, "edit": workspace_edit(self.edits, uri, version, &edits) });
            match self.client.send_request::<ApplyEdit>(params).await {
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

fn workspace_edit(how: Edits, uri: &str, version: i32, edits: &[(Range, String)]) -> Value {
    let edits = edits.iter().map(|(range, text)| json!({ "range": range, "newText": text }));
    let edits: Vec<Value> = edits.collect();
    match how {
        Edits::Versioned => json!({
            "documentChanges": [{ "textDocument": { "uri": uri, "version": version }, "edits": edits }],
        }),
        Edits::Plain => json!({ "changes": { uri: edits } }),
    }
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
        assert_eq!(
            workspace_edit(Edits::Versioned, uri, 7, &edits),
            json!({ "documentChanges": [{ "textDocument": { "uri": uri, "version": 7 }, "edits": [edit] }] })
        );
        let plain = json!({ "changes": { uri: [edit] } });
        assert_eq!(workspace_edit(Edits::Plain, uri, 7, &edits), plain);
    }
}
