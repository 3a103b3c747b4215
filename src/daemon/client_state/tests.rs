use super::*;

/// An editor that has introduced itself.
fn introduced() -> ClientState {
    let mut state = ClientState::default();
    from_editor(&mut state, json!({ "id": 1, "method": "initialize", "params": {} }));
    let capabilities = json!({ "capabilities": { "positionEncoding": "utf-8" } });
    from_daemon(&mut state, json!({ "id": 1, "result": capabilities }));
    from_editor(&mut state, json!({ "method": "initialized", "params": {} }));
    state
}

/// What the daemon gets of a message of the editor.
fn from_editor(state: &mut ClientState, message: Value) -> Option<Value> {
    match state.take_from_editor(bytes(&message))? {
        Routed::ToDaemon(body) => Some(value(&body)),
        Routed::ToEditor(body) => panic!("{}", value(&body)),
    }
}

/// What the editor gets of a message of the daemon.
fn from_daemon(state: &mut ClientState, message: Value) -> Option<Value> {
    match state.take_from_daemon(bytes(&message))? {
        Routed::ToEditor(body) => Some(value(&body)),
        Routed::ToDaemon(body) => panic!("{}", value(&body)),
    }
}

fn value(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap()
}

fn values(bodies: &[Vec<u8>]) -> Vec<Value> {
    bodies.iter().map(|body| value(body)).collect()
}

/// The daemon is lost, and the next one has answered the greeting. Returns what it is told then.
fn next_daemon(state: &mut ClientState) -> Vec<Value> {
    state.lose_daemon();
    assert_eq!(value(&state.greeting().unwrap())["method"], "initialize");
    assert!(state.is_greeting());
    assert_eq!(from_daemon(state, json!({ "id": 1, "result": { "capabilities": {} } })), None);
    assert!(!state.is_greeting());
    values(&state.account())
}

#[test]
fn what_is_unanswered_fails_and_is_not_asked_again() {
    let mut state = introduced();
    from_editor(&mut state, json!({ "id": 2, "method": "roo/task/send", "params": {} }));
    from_editor(&mut state, json!({ "id": "x", "method": "textDocument/hover", "params": {} }));
    from_daemon(&mut state, json!({ "id": "x", "result": null }));
    let told = values(&state.lose_daemon());
    assert_eq!((told.len(), &told[0]["id"]), (1, &json!(2)));
    assert_eq!(told[0]["error"]["code"], REQUEST_FAILED);
    assert_eq!(told[0]["error"]["data"]["kind"], "disconnected");
    assert!(state.lose_daemon().is_empty());
}

#[test]
fn an_editor_that_waits_for_the_first_answer_gets_that_of_the_next_daemon() {
    let mut state = ClientState::default();
    assert_eq!(state.greeting(), None);
    from_editor(&mut state, json!({ "id": 1, "method": "initialize", "params": {} }));
    assert!(state.lose_daemon().is_empty());
    assert!(state.greeting().is_some());
    let answer = json!({ "id": 1, "result": { "capabilities": {} } });
    assert_eq!(from_daemon(&mut state, answer.clone()), Some(answer));
    assert!(state.account().is_empty(), "the editor says `initialized` itself");
}

#[test]
fn an_end_that_was_asked_for_is_an_end() {
    let mut state = introduced();
    from_editor(&mut state, json!({ "id": 2, "method": "shutdown" }));
    assert!(state.is_shut_down());
    assert_eq!(values(&state.lose_daemon()), [json!({ "jsonrpc": "2.0", "id": 2, "result": null })]);
}

#[test]
fn the_next_daemon_learns_the_text_of_documents_and_what_counts_now() {
    let mut state = introduced();
    let (a, b) = ("file:///none/a.rs", "file:///none/b.rs");
    for uri in [a, b] {
        let item = json!({ "uri": uri, "languageId": "rust", "version": 1, "text": "ä\n" });
        from_editor(
            &mut state,
            json!({ "method": "textDocument/didOpen", "params": { "textDocument": item } }),
        );
    }
    let start = json!({ "line": 0, "character": 2 });
    let change = json!({ "range": { "start": start, "end": start }, "text": "b" });
    let params = json!({ "textDocument": { "uri": a, "version": 2 }, "contentChanges": [change] });
    from_editor(&mut state, json!({ "method": "textDocument/didChange", "params": params }));
    from_editor(
        &mut state,
        json!({ "method": "textDocument/didClose", "params": { "textDocument": { "uri": b } } }),
    );
    for depth in [1, 2] {
        let options = json!({ "options": { "roo": { "limits": { "depth": depth } } } });
        from_editor(&mut state, json!({ "method": "roo/options/didChange", "params": options }));
    }
    for (uri, message) in [(a, "old"), (a, "new"), (b, "other")] {
        let params = json!({ "uri": uri, "diagnostics": [{ "message": message }] });
        from_editor(&mut state, json!({ "method": "roo/editor/diagnostics", "params": params }));
    }
    let told = next_daemon(&mut state);
    let methods: Vec<&str> = told.iter().map(|message| message["method"].as_str().unwrap()).collect();
    assert_eq!(
        methods,
        [
            "initialized",
            "textDocument/didOpen",
            "roo/editor/diagnostics",
            "roo/editor/diagnostics",
            "roo/options/didChange"
        ]
    );
    let item = json!({ "uri": a, "languageId": "", "version": 2, "text": "äb\n" });
    assert_eq!(told[1]["params"]["textDocument"], item);
    assert_eq!(told[2]["params"]["diagnostics"][0]["message"], "new");
    assert_eq!(told[4]["params"]["options"]["roo"]["limits"]["depth"], 2);
}

#[test]
fn each_request_goes_on_behind_its_newest_event() {
    let mut state = introduced();
    let event = |root: &str, seq: u64| json!({ "method": "roo/event", "params": { "rootId": root, "taskId": root, "seq": seq, "at": 0, "event": {} } });
    let ask = |state: &mut ClientState, id: u64, method: &str, params: Value, result: Value| {
        from_editor(state, json!({ "id": id, "method": method, "params": params }));
        from_daemon(state, json!({ "id": id, "result": result }));
    };
    ask(&mut state, 2, "roo/task/start", json!({}), json!({ "taskId": "started", "urid": "u" }));
    ask(&mut state, 3, "roo/task/attach", json!({ "taskId": "seen.1", "afterSeq": 3 }), json!({ "seq": 9 }));
    ask(&mut state, 4, "roo/task/attach", json!({ "taskId": "left" }), json!({ "seq": 9 }));
    from_daemon(&mut state, event("seen", 5));
    // Without a number, it is of this moment alone.
    let live = json!({ "method": "roo/event", "params": { "rootId": "seen", "taskId": "seen", "at": 0, "event": {} } });
    from_daemon(&mut state, live);
    ask(&mut state, 5, "roo/task/detach", json!({ "taskId": "left" }), json!({}));
    let attached = |told: &[Value]| -> Vec<Value> {
        let attached = told.iter().filter(|message| message["method"] == "roo/task/attach");
        attached.map(|message| message["params"].clone()).collect()
    };
    let told = next_daemon(&mut state);
    assert_eq!(
        attached(&told),
        [json!({ "taskId": "seen", "afterSeq": 5 }), json!({ "taskId": "started", "afterSeq": 0 })]
    );
    let answer = json!({ "id": told.last().unwrap()["id"], "result": { "seq": 1 } });
    assert_eq!(from_daemon(&mut state, answer), None, "the editor has not asked for that");
    ask(&mut state, 6, "roo/task/attach", json!({ "taskId": "*" }), json!({ "seq": 0 }));
    from_daemon(&mut state, event("started", 1));
    from_daemon(&mut state, event("another", 7));
    let told = next_daemon(&mut state);
    let expected = [("another", 7), ("seen", 5), ("started", 1), ("*", 0)];
    assert_eq!(attached(&told), expected.map(|(task, seq)| json!({ "taskId": task, "afterSeq": seq })));
    let refusal = json!({ "id": told[1]["id"], "error": { "code": -32803, "message": "held" } });
    let lost = from_daemon(&mut state, refusal).unwrap();
    let event = &lost["params"]["event"];
    assert_eq!(
        (&lost["params"]["rootId"], &event["type"], &event["until"]),
        (&json!("another"), &json!("server.degraded"), &json!("attached"))
    );
    ask(&mut state, 7, "roo/task/detach", json!({ "taskId": "*" }), json!({}));
    assert_eq!(attached(&next_daemon(&mut state)), Vec::<Value>::new());
}

#[test]
fn events_that_come_by_two_subscriptions_are_passed_on_once_and_in_order() {
    let mut state = introduced();
    let event = |seq: u64| json!({ "method": "roo/event", "params": { "rootId": "t", "taskId": "t", "seq": seq, "at": 0, "event": {} } });
    from_editor(&mut state, json!({ "id": 2, "method": "roo/task/attach", "params": { "taskId": "*" } }));
    from_daemon(&mut state, json!({ "id": 2, "result": { "seq": 0 } }));
    assert!(from_daemon(&mut state, event(8)).is_some());
    let told = next_daemon(&mut state);
    let own =
        told.iter().find(|message| message["params"] == json!({ "taskId": "t", "afterSeq": 8 })).unwrap();
    // By the subscription to everything, before the one to this request has begun.
    assert!(from_daemon(&mut state, event(9)).is_some());
    assert_eq!(from_daemon(&mut state, json!({ "id": own["id"], "result": { "seq": 9 } })), None);
    assert_eq!(from_daemon(&mut state, event(9)), None);
    assert!(from_daemon(&mut state, event(10)).is_some());
    // By the same way, when those before it are still to come.
    let Some(Routed::ToDaemon(asked)) = state.take_from_daemon(bytes(&event(13))) else {
        panic!("it is passed on")
    };
    let asked = value(&asked);
    assert_eq!(asked["params"], json!({ "taskId": "t", "afterSeq": 10 }));
    assert_eq!(from_daemon(&mut state, event(14)), None, "it comes again");
    assert_eq!(from_daemon(&mut state, json!({ "id": asked["id"], "result": { "seq": 14 } })), None);
    let merged = json!({ "method": "roo/event", "params": { "rootId": "t", "taskId": "t", "from": 11, "seq": 14, "at": 0, "event": {} } });
    assert!(from_daemon(&mut state, merged).is_some());
    // The editor may want to see them again.
    from_editor(
        &mut state,
        json!({ "id": 3, "method": "roo/task/attach", "params": { "taskId": "t", "afterSeq": 8 } }),
    );
    from_daemon(&mut state, json!({ "id": 3, "result": { "seq": 14 } }));
    assert!(from_daemon(&mut state, event(9)).is_some());
}

#[test]
fn what_a_lost_daemon_has_asked_is_withdrawn_and_its_late_answers_are_dropped() {
    let mut state = introduced();
    let asks = |id: i64| json!({ "id": id, "method": "window/showMessageRequest", "params": {} });
    assert_eq!(from_daemon(&mut state, asks(0)), Some(asks(0)));
    assert_eq!(from_daemon(&mut state, asks(1)), Some(asks(1)));
    let answer = json!({ "id": 0, "result": null });
    assert_eq!(from_editor(&mut state, answer.clone()), Some(answer));
    let told = values(&state.lose_daemon());
    assert_eq!(told, [notification("$/cancelRequest", json!({ "id": 1 }))]);
    // The next one counts from the beginning.
    assert_eq!(from_daemon(&mut state, asks(1)), Some(asks(2)));
    assert_eq!(from_editor(&mut state, json!({ "id": 1, "result": "late" })), None);
    let cancel = json!({ "method": "$/cancelRequest", "params": { "id": 1 } });
    assert_eq!(from_daemon(&mut state, cancel).unwrap()["params"]["id"], 2);
    let answer = json!({ "id": 2, "result": "in time" });
    assert_eq!(from_editor(&mut state, answer), Some(json!({ "id": 1, "result": "in time" })));
}

#[test]
fn what_is_registered_is_registered_once() {
    let mut state = introduced();
    let registers = |id: i64| json!({ "id": id, "method": "client/registerCapability", "params": { "registrations": [{ "id": "w" }] } });
    assert_eq!(from_daemon(&mut state, registers(0)), Some(registers(0)));
    state.lose_daemon();
    let answered = state.take_from_daemon(bytes(&registers(0))).unwrap();
    assert_eq!(answered, Routed::ToDaemon(bytes(&json!({ "jsonrpc": "2.0", "id": 0, "result": null }))));
}

#[test]
fn progress_ends_with_its_daemon() {
    let mut state = introduced();
    let progress = |token: &str, kind: &str| json!({ "method": "$/progress", "params": { "token": token, "value": { "kind": kind } } });
    for (token, kind) in [("a", "begin"), ("b", "begin"), ("a", "report"), ("b", "end")] {
        from_daemon(&mut state, progress(token, kind));
    }
    let told = values(&state.lose_daemon());
    assert_eq!(told.len(), 1);
    assert_eq!(told[0]["params"], progress("a", "end")["params"]);
}

#[test]
fn what_can_not_be_read_is_passed_on_as_it_is() {
    let mut state = introduced();
    for text in ["{", "[]", "7", "{\"id\":{}}", ""] {
        let body = text.as_bytes().to_vec();
        assert_eq!(state.take_from_editor(body.clone()), Some(Routed::ToDaemon(body)), "{text}");
    }
}
