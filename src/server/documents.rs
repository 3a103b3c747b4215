//! Text sync: what the editor says of its documents, applied at once and in order. Nothing here waits.
//!
//! A document's URI is kept as its editor spells it. The types of the LSP crate aren't used: they refuse
//! the raw spaces and letters that some editors write.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::params::in_words;
use roo_text::position::{Encoding, Range};
use roo_workspace::{Change, DocumentError, Documents};

/// One notification of text sync.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TextSync {
    Opened { uri: String, version: i32, text: String },
    Changed { uri: String, version: i32, changes: Vec<Change> },
    Saved { uri: String },
    Closed { uri: String },
}

impl TextSync {
    /// The notifications that are text sync.
    pub(crate) const METHODS: &[&str] =
        &["textDocument/didOpen", "textDocument/didChange", "textDocument/didSave", "textDocument/didClose"];

    /// Reads a notification; none when it is about something else.
    ///
    /// # Errors
    /// What is wrong with the parameters, and where.
    pub(crate) fn read(method: &str, params: Value) -> Option<Result<Self, String>> {
        Some(match method {
            "textDocument/didOpen" => parse(params).map(|DidOpen { text_document: document }| Self::Opened {
                uri: document.uri,
                version: document.version,
                text: document.text,
            }),
            "textDocument/didChange" => parse(params).map(|DidChange { text_document, content_changes }| {
                let changes = content_changes.into_iter();
                let changes = changes.map(|change| Change { range: change.range, text: change.text });
                let (uri, version) = (text_document.uri, text_document.version);
                Self::Changed { uri, version, changes: changes.collect() }
            }),
            "textDocument/didSave" => {
                parse(params).map(|named: Named| Self::Saved { uri: named.text_document.uri })
            }
            "textDocument/didClose" => {
                parse(params).map(|named: Named| Self::Closed { uri: named.text_document.uri })
            }
            _ => return None,
        })
    }

    /// Applies it.
    ///
    /// # Errors
    /// As [`Documents::change`].
    pub(crate) fn apply(self, documents: &Documents, encoding: Encoding) -> Result<(), DocumentError> {
        match self {
            Self::Opened { uri, version, text } => {
                documents.open(&uri, version, text);
                Ok(())
            }
            Self::Changed { uri, version, changes } => documents.change(&uri, version, &changes, encoding),
            Self::Saved { uri } => documents.save(&uri),
            Self::Closed { uri } => documents.close(&uri),
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DidOpen {
    text_document: Opened,
}

#[derive(Deserialize)]
struct Opened {
    uri: String,
    version: i32,
    text: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DidChange {
    text_document: Versioned,
    content_changes: Vec<ContentChange>,
}

#[derive(Deserialize)]
struct Versioned {
    uri: String,
    version: i32,
}

#[derive(Deserialize)]
struct ContentChange {
    range: Option<Range>,
    text: String,
}

/// `didSave` and `didClose`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Named {
    text_document: Identifier,
}

#[derive(Deserialize)]
struct Identifier {
    uri: String,
}

fn parse<T: DeserializeOwned>(params: Value) -> Result<T, String> {
    serde_path_to_error::deserialize(params).map_err(|error| in_words(&error))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_uri_is_kept_as_it_is_spelled() {
        for uri in ["file:///a%20b%20%C3%A9.txt", "file:///a b é.txt", "untitled:a|b"] {
            let params = json!({ "textDocument": { "uri": uri } });
            let closed = TextSync::read("textDocument/didClose", params).unwrap();
            assert_eq!(closed, Ok(TextSync::Closed { uri: uri.to_owned() }));
        }
    }

    #[test]
    fn a_mistake_is_named_with_its_place() {
        let params = json!({ "textDocument": { "uri": "file:///a", "version": "1" } });
        let error = TextSync::read("textDocument/didOpen", params).unwrap().unwrap_err();
        assert!(error.starts_with("textDocument.version: "), "{error}");
    }

    #[test]
    fn other_methods_are_no_text_sync() {
        assert_eq!(TextSync::read("textDocument/hover", json!({})), None);
    }
}
