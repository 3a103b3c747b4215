//! One server that is initialized: its documents, and questions to it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use roo_text::position::{Encoding, Position, Positions};
use roo_workspace::{file_uri, path_of};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::connection::{Connection, RequestError};
use crate::launcher::{LaunchedServer, ServerProcess};
use crate::preset::InstalledServer;

/// Time limit for a server's work on the project, before it is asked all the same.
const WORK: Duration = Duration::from_secs(10);

/// Time limit for the server's answer to `shutdown`.
const SHUTDOWN: Duration = Duration::from_secs(1);

/// The most locations that are kept of an answer.
const LOCATIONS: usize = 5000;

/// The most bytes that are kept of a text.
const TEXT: usize = 16 << 10;

/// A file as the workspace has it, saved or not.
#[derive(Clone, Debug)]
pub struct Document {
    /// Absolute path.
    pub path: PathBuf,
    /// Text.
    pub text: Arc<str>,
}

/// A place in a document.
#[derive(Clone, Debug)]
pub struct Place {
    /// The document.
    pub document: Document,
    /// Byte offset in its text.
    pub offset: usize,
}

/// Questions about what is at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Where it is used and declared.
    References,
    /// Where it is defined.
    Definition,
    /// What is known of it.
    Hover,
}

/// A line that a server names. Whether there is such a line is not checked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location {
    /// Absolute path.
    pub path: PathBuf,
    /// Line, from 0.
    pub line: u32,
}

/// Answer of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Lines, ordered by path; each once.
    Locations(Vec<Location>),
    /// Text; empty where nothing is known.
    Text(String),
}

/// A server that is initialized.
pub(crate) struct Session {
    connection: Connection,
    process: Box<dyn ServerProcess>,
    encoding: Encoding,
    /// The open documents: version and text, by URI.
    open: HashMap<String, (i32, Arc<str>)>,
}

impl Session {
    /// Initializes a server that was started. The caller limits the time.
    pub(crate) async fn start(
        launched: LaunchedServer,
        folders: &[PathBuf],
    ) -> Result<Self, (RequestError, Option<String>)> {
        let LaunchedServer { stdin, stdout, stderr, process } = launched;
        let connection = Connection::new(stdin, stdout, stderr);
        match initialize(&connection, folders).await {
            Ok(encoding) => Ok(Self { connection, process, encoding, open: HashMap::new() }),
            Err(error) => Err((error, connection.last_words())),
        }
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Asks about a place, with exactly this document and the others open. May be dropped at any time.
    pub(crate) async fn ask(
        &mut self,
        server: &InstalledServer,
        question: Question,
        place: &Place,
        others: &[Document],
    ) -> Result<Answer, RequestError> {
        self.show(server, &place.document, others).await?;
        // A server that works for longer is asked all the same: it may have the answer.
        let _ = timeout(WORK, self.connection.idle()).await;
        let text = &place.document.text;
        let Position { line, character } = Positions::new(text, self.encoding).position(place.offset);
        let mut params = json!({
            "textDocument": { "uri": file_uri(&place.document.path) },
            "position": { "line": line, "character": character },
        });
        let method = match question {
            Question::References => {
                params["context"] = json!({ "includeDeclaration": true });
                "textDocument/references"
            }
            Question::Definition => "textDocument/definition",
            Question::Hover => "textDocument/hover",
        };
        let answer = self.connection.request(method, params).await?;
        Ok(match question {
            Question::References | Question::Definition => Answer::Locations(locations(&answer)),
            Question::Hover => Answer::Text(hover_text(&answer)),
        })
    }

    /// Makes these documents the open ones.
    async fn show(
        &mut self,
        server: &InstalledServer,
        document: &Document,
        others: &[Document],
    ) -> Result<(), RequestError> {
        let mut wanted: HashMap<String, (&'static str, &Arc<str>)> = HashMap::new();
        for Document { path, text } in others.iter().chain([document]) {
            if let Some(language) = server.language_of(path) {
                wanted.insert(file_uri(path), (language, text));
            }
        }
        let closed: Vec<String> =
            self.open.keys().filter(|uri| !wanted.contains_key(*uri)).cloned().collect();
        for uri in closed {
            let params = json!({ "textDocument": { "uri": uri } });
            self.connection.notify("textDocument/didClose", params).await?;
            self.open.remove(&uri);
        }
        for (uri, (language, text)) in wanted {
            let (method, version, params) = match self.open.get(&uri) {
                Some((_, open)) if open == text => continue,
                Some((version, _)) => {
                    let version = version + 1;
                    let document = json!({ "uri": uri, "version": version });
                    let params = json!({ "textDocument": document, "contentChanges": [{ "text": &**text }] });
                    ("textDocument/didChange", version, params)
                }
                None => {
                    let document =
                        json!({ "uri": uri, "languageId": language, "version": 1, "text": &**text });
                    ("textDocument/didOpen", 1, json!({ "textDocument": document }))
                }
            };
            self.connection.notify(method, params).await?;
            self.open.insert(uri, (version, Arc::clone(text)));
        }
        Ok(())
    }

    /// Ends the server.
    pub(crate) async fn end(self) {
        let Self { connection, process, .. } = self;
        let asked = timeout(SHUTDOWN, connection.request("shutdown", Value::Null)).await;
        if asked.is_ok_and(|answer| answer.is_ok()) {
            // The queue may be full.
            let _ = timeout(SHUTDOWN, connection.notify("exit", Value::Null)).await;
        }
        process.end().await;
    }
}

async fn initialize(connection: &Connection, folders: &[PathBuf]) -> Result<Encoding, RequestError> {
    let name =
        |path: &Path| path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let named: Vec<Value> =
        folders.iter().map(|path| json!({ "uri": file_uri(path), "name": name(path) })).collect();
    let params = json!({
        // In the sandbox it sees no process of this id, and would end at once.
        "processId": null,
        "clientInfo": { "name": "roo-lsp", "version": env!("CARGO_PKG_VERSION") },
        "rootUri": folders.first().map(|path| file_uri(path)),
        "workspaceFolders": named,
        "capabilities": {
            "general": { "positionEncodings": ["utf-8", "utf-16", "utf-32"] },
            "textDocument": {
                "synchronization": {},
                "references": {},
                "definition": { "linkSupport": true },
                "hover": { "contentFormat": ["plaintext", "markdown"] },
            },
            "workspace": { "workspaceFolders": true, "configuration": true },
            "window": { "workDoneProgress": true },
        },
    });
    let answer = connection.request("initialize", params).await?;
    let encoding = match answer["capabilities"]["positionEncoding"].as_str() {
        None | Some("utf-16") => Encoding::Utf16,
        Some("utf-8") => Encoding::Utf8,
        Some("utf-32") => Encoding::Utf32,
        Some(_) => return Err(RequestError::Refused("it counts positions in an unknown unit".to_owned())),
    };
    connection.notify("initialized", json!({})).await?;
    Ok(encoding)
}

/// The locations of an answer: one, several, or links. What is none of them is left out.
fn locations(answer: &Value) -> Vec<Location> {
    let all = match answer {
        Value::Array(all) => all.as_slice(),
        one => std::slice::from_ref(one),
    };
    let location = |value: &Value| {
        let (uri, range) = match value.get("targetUri") {
            Some(uri) => (uri, value.get("targetSelectionRange")?),
            None => (value.get("uri")?, value.get("range")?),
        };
        let line = u32::try_from(range["start"]["line"].as_u64()?).ok()?;
        Some(Location { path: path_of(uri.as_str()?)?, line })
    };
    let mut found: Vec<Location> = all.iter().filter_map(location).take(LOCATIONS).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// The text of a hover, in any of its forms.
fn hover_text(answer: &Value) -> String {
    fn of(contents: &Value) -> String {
        match contents {
            Value::String(text) => text.clone(),
            Value::Array(parts) => parts.iter().map(of).collect::<Vec<_>>().join("\n\n"),
            Value::Object(marked) => {
                marked.get("value").and_then(Value::as_str).unwrap_or_default().to_owned()
            }
            _ => String::new(),
        }
    }
    let mut text = of(&answer["contents"]);
    let end = (0..=TEXT.min(text.len())).rev().find(|&end| text.is_char_boundary(end));
    text.truncate(end.unwrap_or_default());
    text.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_come_in_three_forms_and_what_is_none_is_left_out() {
        let at = |path: &str, line| Location { path: path.into(), line };
        let range = |line: u64| json!({ "start": { "line": line, "character": 0 }, "end": {} });
        let one = json!({ "uri": "file:///w/a.rs", "range": range(3) });
        assert_eq!(locations(&one), [at("/w/a.rs", 3)]);
        let link = json!({ "targetUri": "file:///w/b%20c.rs", "targetSelectionRange": range(1) });
        let bad = [
            json!(null),
            json!({ "uri": "untitled:x", "range": range(0) }),
            json!({ "uri": "file:///w/a.rs", "range": {} }),
            json!({ "uri": "file:///w/a.rs", "range": range(u64::MAX) }),
            json!({ "uri": "file:///w/a.rs", "range": { "start": { "line": -1 } } }),
        ];
        let mut several = vec![link, one.clone(), one];
        several.extend(bad);
        assert_eq!(locations(&several.into()), [at("/w/a.rs", 3), at("/w/b c.rs", 1)]);
        assert!(locations(&Value::Null).is_empty());
    }

    #[test]
    fn a_hover_is_text_whatever_its_form() {
        let text = |contents: Value| hover_text(&json!({ "contents": contents }));
        assert_eq!(text(json!("a")), "a");
        assert_eq!(text(json!({ "kind": "plaintext", "value": " a\n" })), "a");
        assert_eq!(text(json!(["a", { "language": "rust", "value": "b" }])), "a\n\nb");
        assert_eq!(hover_text(&Value::Null), "");
        assert_eq!(text(json!("ä".repeat(TEXT))).len(), TEXT);
    }
}
