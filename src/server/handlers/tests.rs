use std::collections::BTreeSet;
use std::future::Future;
use std::path::Path;
use std::sync::Arc;

use futures_util::FutureExt as _;
use serde_json::{Value, json};
use tower_lsp::LanguageServer as _;

use super::*;
use crate::config::Directories;
use crate::engine::clock::SystemClock;
use crate::protocol::method::{Direction, METHODS};

fn methods() -> Methods {
    let nowhere = Path::new("/nonexistent/roo-lsp-test");
    let clock = Arc::new(SystemClock);
    let directories = Directories { config: nowhere.into(), state: nowhere.into(), home: None };
    service(Surroundings { config_file: nowhere.into(), directories, clock }).0
}

fn params<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// Whether a handler is done the first time it is polled: then it keeps its place in the order.
fn is_done_at_once(handler: impl Future) -> bool {
    handler.now_or_never().is_some()
}

fn notify(methods: &mut Methods, method: &'static str, params: Value) {
    assert!(is_done_at_once(methods.call(Request::build(method).params(params).finish())), "{method}");
}

#[test]
fn every_request_of_the_protocol_is_served_and_no_other() {
    let requests = METHODS.iter().filter(|method| method.direction == Direction::ClientToServer);
    let wanted: BTreeSet<&str> = requests.map(|method| method.name).collect();
    assert_eq!(NAMES.iter().copied().collect::<BTreeSet<_>>(), wanted);
    assert_eq!(NAMES.len(), wanted.len());
}

#[tokio::test]
async fn what_changes_state_is_done_at_the_first_poll() {
    let mut methods = methods();
    let session = Arc::clone(methods.session());
    let uri = "file:///a b";
    let document = json!({ "uri": uri, "languageId": "x", "version": 1, "text": "a" });
    notify(&mut methods, "textDocument/didOpen", json!({ "textDocument": document }));
    assert!(session.documents.get(uri).is_none(), "nothing counts before initialize");
    let server = methods.others.inner();
    assert!(is_done_at_once(server.initialize(params(json!({ "capabilities": {} })))));
    assert!(is_done_at_once(server.initialized(params(json!({})))));
    notify(&mut methods, "textDocument/didOpen", json!({ "textDocument": document }));
    let end = json!({ "line": 0, "character": 1 });
    let change = json!({
        "textDocument": { "uri": uri, "version": 2 },
        "contentChanges": [{ "range": { "start": end, "end": end }, "text": "b" }],
    });
    notify(&mut methods, "textDocument/didChange", change);
    assert_eq!(&*session.documents.get(uri).unwrap().text, "ab");
    let document = json!({ "textDocument": { "uri": uri } });
    notify(&mut methods, "textDocument/didSave", document.clone());
    notify(&mut methods, "textDocument/didClose", document);
    assert!(session.documents.get(uri).is_none());
}

#[test]
fn folders_may_be_spelled_raw() {
    let folders = json!({ "rootUri": "file:///a b", "workspaceFolders": [{ "uri": "file:///é" }, {}] });
    let request = with_encoded_folders(Request::build("initialize").params(folders).id(1).finish());
    let encoded =
        json!({ "rootUri": "file:///a%20b", "workspaceFolders": [{ "uri": "file:///%C3%A9" }, {}] });
    assert_eq!(request.params(), Some(&encoded));
}
