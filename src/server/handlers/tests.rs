use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;

use futures_util::FutureExt as _;
use serde_json::{Value, json};
use tower_lsp::LanguageServer as _;

use super::*;
use crate::engine::clock::SystemClock;
use crate::protocol::method::{Direction, METHODS};

fn server() -> LspService<Server> {
    let nowhere = Path::new("/nonexistent/roo-lsp-test");
    let clock = Arc::new(SystemClock);
    service(Surroundings { config_file: nowhere.into(), state: nowhere.into(), clock }).0
}

fn params<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// Whether a handler is done the first time it is polled: then it keeps its place in the order.
fn is_done_at_once(handler: impl Future) -> bool {
    handler.now_or_never().is_some()
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
    let service = server();
    let server = service.inner();
    let document = json!({ "uri": "file:///a", "languageId": "x", "version": 1, "text": "a" });
    assert!(is_done_at_once(server.initialize(params(json!({ "capabilities": {} })))));
    assert!(is_done_at_once(server.initialized(params(json!({})))));
    assert!(is_done_at_once(server.did_open(params(json!({ "textDocument": document })))));
    let change = json!({
        "textDocument": { "uri": "file:///a", "version": 2 },
        "contentChanges": [{ "range": {
            "start": { "line": 0, "character": 1 }, "end": { "line": 0, "character": 1 },
        }, "text": "b" }],
    });
    assert!(is_done_at_once(server.did_change(params(change))));
    assert_eq!(&*server.session.documents.get("file:///a").unwrap().text, "ab");
    let document = json!({ "textDocument": { "uri": "file:///a" } });
    assert!(is_done_at_once(server.did_save(params(document.clone()))));
    assert!(is_done_at_once(server.did_close(params(document))));
    assert!(server.session.documents.get("file:///a").is_none());
}
