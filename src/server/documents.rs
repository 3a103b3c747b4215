//! Text sync: what the editor says of its documents, applied at once and in order. Nothing here waits.

use tower_lsp::ls_types::{
    self as lsp, DidChangeTextDocumentParams, DidCloseTextDocumentParams, DidOpenTextDocumentParams,
    DidSaveTextDocumentParams,
};

use crate::text::position::{Encoding, Position, Range};
use crate::workspace::{Change, DocumentError, Documents};

pub(super) fn open(documents: &Documents, params: DidOpenTextDocumentParams) {
    let document = params.text_document;
    documents.open(document.uri.as_str(), document.version, document.text);
}

pub(super) fn change(
    documents: &Documents,
    params: DidChangeTextDocumentParams,
    encoding: Encoding,
) -> Result<(), DocumentError> {
    let document = params.text_document;
    let changes: Vec<Change> = params
        .content_changes
        .into_iter()
        .map(|change| Change { range: change.range.map(from_lsp), text: change.text })
        .collect();
    documents.change(document.uri.as_str(), document.version, &changes, encoding)
}

pub(super) fn save(documents: &Documents, params: &DidSaveTextDocumentParams) -> Result<(), DocumentError> {
    documents.save(params.text_document.uri.as_str())
}

pub(super) fn close(documents: &Documents, params: &DidCloseTextDocumentParams) -> Result<(), DocumentError> {
    documents.close(params.text_document.uri.as_str())
}

fn from_lsp(range: lsp::Range) -> Range {
    let place = |at: lsp::Position| Position { line: at.line, character: at.character };
    Range { start: place(range.start), end: place(range.end) }
}

pub(super) fn to_lsp(range: Range) -> lsp::Range {
    let place = |at: Position| lsp::Position { line: at.line, character: at.character };
    lsp::Range { start: place(range.start), end: place(range.end) }
}
