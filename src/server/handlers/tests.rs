use std::collections::BTreeSet;
use std::future::Future;
use std::path::Path;
use std::sync::Arc;

use futures_util::FutureExt as _;
use serde_json::{Value, json};
use tower_lsp::LanguageServer as _;

use super::*;
use crate::server::services::ServeGuest;
use roo_engine::engine::clock::SystemClock;
use roo_formats::config::Directories;
use roo_protocol::method::{Direction, METHODS};
use roo_text::position::Encoding;
use roo_workspace::{Setup, Workspace};

fn methods() -> Methods {
    let nowhere = Path::new("/nonexistent/roo-lsp-test");
    let clock = Arc::new(SystemClock);
    let directories =
        Directories { config: nowhere.into(), state: nowhere.into(), home: None, settings_file: None };
    let serve_guest: ServeGuest = |_, _, _, _| Box::pin(async {});
    service(ProcessServices { directories, clock, notice: None, serve_guest }, EngineSource::Own).0
}

fn params<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// Returns whether a handler is done the first time it is polled: then it keeps its place in the order.
fn is_done_at_once(handler: impl Future) -> bool {
    handler.now_or_never().is_some()
}

fn notify(methods: &mut Methods, method: &'static str, params: Value) {
    assert!(is_done_at_once(methods.call(Request::build(method).params(params).finish())), "{method}");
}

#[test]
fn every_method_for_the_server_is_served_and_no_other() {
    let for_server = [Direction::ClientToServer, Direction::ClientNotification];
    let methods = METHODS.iter().filter(|method| for_server.contains(&method.direction));
    let wanted: BTreeSet<&str> = methods.map(|method| method.name).collect();
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

#[tokio::test]
async fn what_an_editor_says_is_applied_at_the_first_poll_if_its_client_opted_in() {
    for (version, expected) in [(1, 1), (2, 0)] {
        let mut methods = methods();
        let session = Arc::clone(methods.session());
        let directory = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(Setup {
            folders: vec![directory.path().into()],
            state_directory: directory.path().join("state"),
            documents: Arc::clone(&session.documents),
            editor: None,
            encoding: Encoding::Utf16,
        });
        let workspace = workspace.unwrap();
        let uri = file_uri(&directory.path().join("a.rs"));
        let options = json!({ "capabilities": {}, "initializationOptions": { "protocolVersion": version } });
        let initialize = Request::build("initialize").params(options).id(1).finish();
        assert!(is_done_at_once(methods.call(initialize)));
        let start = json!({ "line": 2, "character": 0 });
        notify(&mut methods, "roo/editor/didChange", json!({ "active": { "uri": uri, "cursor": start } }));
        let diagnostic = json!({ "range": { "start": start, "end": start }, "message": "wrong" });
        let diagnostics = json!({ "uri": uri, "diagnostics": [diagnostic] });
        notify(&mut methods, "roo/editor/diagnostics", diagnostics);
        notify(&mut methods, "roo/editor/diagnostics", json!({ "uri": uri, "diagnostics": [{}] }));
        let cursor = workspace.active_file().and_then(|active| active.cursor);
        assert_eq!(cursor, (expected == 1).then_some(3));
        assert_eq!(workspace.problems().len(), expected, "what can't be read changes nothing");
    }
}

#[test]
fn folders_may_be_spelled_raw() {
    let folders = json!({ "rootUri": "file:///a b", "workspaceFolders": [{ "uri": "file:///é" }, {}] });
    let request = with_encoded_folders(Request::build("initialize").params(folders).id(1).finish());
    let encoded =
        json!({ "rootUri": "file:///a%20b", "workspaceFolders": [{ "uri": "file:///%C3%A9" }, {}] });
    assert_eq!(request.params(), Some(&encoded));
}
