//! Calls: progress, cancellation, time, refusals.

use std::cell::Cell;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use roo_mcp::{
    Answer, CallError, CallOptions, CompletionOf, CompletionRequest, Content, Elicitation, Operation, Wanted,
};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn progress_prolongs_the_time_that_a_call_has() {
    let launcher = FakeLauncher::new(|_, mut peer: Peer| async move {
        while let Some((id, params)) = peer.serve_until_call(&json!([tool("build")])).await {
            let token = &params["_meta"]["progressToken"];
            for step in 1..=3 {
                tokio::time::sleep(Duration::from_secs(50)).await;
                let progress =
                    json!({ "progressToken": token, "progress": step, "total": 3, "message": "working" });
                peer.notify("notifications/progress", progress).await;
            }
            tokio::time::sleep(Duration::from_secs(50)).await;
            peer.reply(&id, text("done")).await;
        }
    });
    let hub = hub_with(&launcher);
    connected(&hub, "s").await;
    let called = hub.call_tool("s", "build", arguments(json!({})), &CallOptions::default()).await;
    assert_eq!(called.unwrap().parts, [Content::Text("done".to_owned())]);
}

/// A server that answers no call, and what it was told after one.
fn deaf() -> (Arc<FakeLauncher>, Arc<Mutex<Vec<serde_json::Value>>>) {
    let heard: Arc<Mutex<Vec<serde_json::Value>>> = Arc::default();
    let hearing = Arc::clone(&heard);
    let launcher = FakeLauncher::new(move |_, mut peer: Peer| {
        let hearing = Arc::clone(&hearing);
        async move {
            let called = peer.serve_until_call(&json!([tool("wait")])).await;
            hearing.lock().unwrap().extend(called.map(|(id, _)| id));
            while let Some(message) = peer.read().await {
                hearing.lock().unwrap().push(message);
            }
        }
    });
    (launcher, heard)
}

#[tokio::test(start_paused = true)]
async fn a_call_without_an_answer_ends_in_time_and_the_server_is_told() {
    let (launcher, heard) = deaf();
    let hub = hub_with(&launcher);
    connected(&hub, "s").await;
    let began = tokio::time::Instant::now();
    let error = hub.call_tool("s", "wait", arguments(json!({})), &CallOptions::default()).await.unwrap_err();
    assert_eq!(began.elapsed().as_secs(), 60);
    assert_eq!(
        error.to_string(),
        "MCP server `s` has not answered the tool `wait` within its `timeout` of 60 s; its effects are unknown. Set a \
         longer `timeout` in mcp.json if it needs more time"
    );
    tokio::time::sleep(Duration::from_secs(1)).await;
    let heard = heard.lock().unwrap().clone();
    let [call, told] = heard.as_slice() else { panic!("{heard:?}") };
    assert_eq!((&told["method"], &told["params"]["requestId"]), (&json!("notifications/cancelled"), call));
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_call_ends_at_once_and_the_server_is_told() {
    let (launcher, heard) = deaf();
    let hub = hub_with(&launcher);
    connected(&hub, "s").await;
    let cancel = CancellationToken::new();
    let options = CallOptions { cancel: cancel.clone(), ..CallOptions::default() };
    let call = hub.call_tool("s", "wait", arguments(json!({})), &options);
    let (outcome, ()) = tokio::join!(call, async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        cancel.cancel();
    });
    let expected =
        CallError::Cancelled { server: "s".to_owned(), operation: Operation::Tool("wait".to_owned()) };
    assert_eq!(outcome, Err(expected));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(heard.lock().unwrap()[1]["method"], "notifications/cancelled");
    // The connection serves others still.
    assert!(hub.statuses().borrow()["s"].catalog().is_some());
}

#[tokio::test(start_paused = true)]
async fn an_answer_to_another_request_is_no_answer() {
    let launcher = FakeLauncher::new(|_, mut peer: Peer| async move {
        while let Some((id, _)) = peer.serve_until_call(&json!([tool("echo")])).await {
            peer.reply(&json!(4711), text("for somebody else")).await;
            peer.reply(&json!("x"), text("for somebody else")).await;
            if id == json!(0) {
                return;
            }
        }
    });
    let hub = hub_with(&launcher);
    connected(&hub, "s").await;
    let error = hub.call_tool("s", "echo", arguments(json!({})), &CallOptions::default()).await.unwrap_err();
    assert!(error.to_string().contains("it answered something that was not asked"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn refusals_and_unknown_names_say_what_there_is() {
    let launcher = FakeLauncher::new(|_, mut peer: Peer| async move {
        while let Some((id, _)) = peer.serve_until_call(&json!([tool("echo")])).await {
            let error = json!({ "code": -32602, "message": "`text` is missing" });
            peer.send(json!({ "jsonrpc": "2.0", "id": id, "error": error })).await;
        }
    });
    let hub = hub_with(&launcher);
    connected(&hub, "s").await;
    let call = async |tool: &str| {
        let outcome = hub.call_tool("s", tool, arguments(json!({})), &CallOptions::default()).await;
        outcome.unwrap_err().to_string()
    };
    assert_eq!(call("echo").await, "MCP server `s` refused the tool `echo`: `text` is missing (code -32602)");
    assert_eq!(call("ehco").await, "MCP server `s` has no tool `ehco`; there are `echo`");
}

#[tokio::test(start_paused = true)]
async fn many_calls_run_at_once_and_get_their_own_answers() {
    let launcher = FakeLauncher::new(|_, mut peer: Peer| async move {
        let mut waiting = Vec::new();
        while let Some(call) = peer.serve_until_call(&json!([tool("echo")])).await {
            waiting.push(call);
            if waiting.len() == 50 {
                for (id, params) in waiting.drain(..).rev() {
                    peer.reply(&id, text(&params["arguments"]["n"].to_string())).await;
                }
            }
        }
    });
    let hub = hub_with(&launcher);
    connected(&hub, "s").await;
    let calls = (0..50).map(|n| {
        let hub = hub.clone();
        async move { hub.call_tool("s", "echo", arguments(json!({ "n": n })), &CallOptions::default()).await }
    });
    for (n, result) in futures_util::future::join_all(calls).await.into_iter().enumerate() {
        assert_eq!(result.unwrap().parts, [roo_mcp::Content::Text(n.to_string())]);
    }
}

/// A server that asks a form before it answers, and gives back what it was told.
fn asking(params: serde_json::Value) -> Arc<FakeLauncher> {
    FakeLauncher::new(move |_, mut peer: Peer| {
        let params = params.clone();
        async move {
            while let Some((id, _)) = peer.serve_until_call(&json!([tool("book")])).await {
                let method = "elicitation/create";
                peer.send(json!({ "jsonrpc": "2.0", "id": 900, "method": method, "params": params })).await;
                let told = loop {
                    let Some(message) = peer.read().await else { return };
                    if message["id"] == 900 {
                        break message;
                    }
                };
                peer.reply(&id, text(&told["result"].to_string())).await;
            }
        }
    })
}

fn form() -> serde_json::Value {
    let schema = json!({ "type": "object", "properties": { "name": { "type": "string" } } });
    json!({ "message": "Who?", "requestedSchema": schema })
}

/// What the server was told, where its questions are answered in this way.
async fn told<F: Future<Output = ()>>(
    launcher: Arc<FakeLauncher>,
    answer: impl FnOnce(mpsc::Receiver<Elicitation>) -> F,
) -> Result<String, CallError> {
    let hub = hub_with(&launcher);
    connected(&hub, "s").await;
    let (questions, asked) = mpsc::channel(1);
    let options = CallOptions { questions: Some(questions), ..CallOptions::default() };
    let call = hub.call_tool("s", "book", arguments(json!({})), &options);
    let (result, ()) = tokio::join!(call, answer(asked));
    result.map(|result| format!("{:?}", result.parts))
}

#[tokio::test(start_paused = true)]
async fn a_server_asks_while_it_answers_a_call_and_the_user_takes_their_time() {
    let answered = told(asking(form()), |mut asked| async move {
        let elicitation = asked.recv().await.unwrap();
        assert_eq!(elicitation.message, "Who?");
        assert!(matches!(&elicitation.wanted, Wanted::Form(fields) if fields[0].name == "name"));
        // Longer than a call may take.
        tokio::time::sleep(Duration::from_secs(600)).await;
        let values = arguments(json!({ "name": "Ada" }));
        elicitation.answer.send(Answer::Accepted(values)).unwrap();
    });
    assert!(answered.await.unwrap().contains(r#"\"action\":\"accept\",\"content\":{\"name\":\"Ada\"}"#));

    let dropped = told(asking(form()), |mut asked| async move { drop(asked.recv().await) });
    assert!(dropped.await.unwrap().contains(r#"{\"action\":\"cancel\"}"#));
    let nobody = told(asking(form()), |asked| async move { drop(asked) });
    assert!(nobody.await.unwrap().contains(r#"{\"action\":\"decline\"}"#));
    let visit =
        json!({ "mode": "url", "message": "Go", "url": "http://desk.example/", "elicitationId": "1" });
    let refused = told(asking(visit), |mut asked| async move {
        assert!(asked.try_recv().is_err(), "an address without encryption is not shown");
    });
    assert!(refused.await.unwrap().contains(r#"{\"action\":\"decline\"}"#));
}

#[tokio::test(start_paused = true)]
async fn a_call_asks_twenty_times_and_has_no_more_time_for_asking_on() {
    let launcher = FakeLauncher::new(|_, mut peer: Peer| async move {
        peer.serve_until_call(&json!([tool("book")])).await;
        for id in 0.. {
            let method = "elicitation/create";
            peer.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": form() })).await;
            loop {
                let Some(message) = peer.read().await else { return };
                if message["id"] == id && message["method"].is_null() {
                    break;
                }
            }
            tokio::time::sleep(Duration::from_secs(10)).await;
        }
    });
    let count = Cell::new(0);
    let counted = &count;
    let ended = told(launcher, |mut asked| async move {
        // The pause is longer than the call lasts after the last question.
        let pause = Duration::from_secs(90);
        while let Ok(Some(elicitation)) = tokio::time::timeout(pause, asked.recv()).await {
            counted.set(counted.get() + 1);
            elicitation.answer.send(Answer::Accepted(arguments(json!({})))).unwrap();
        }
    });
    let ended = ended.await;
    assert!(matches!(ended, Err(CallError::Timeout { .. })), "{ended:?}");
    assert_eq!(count.get(), 20);
}

#[tokio::test(start_paused = true)]
async fn nobody_is_asked_while_several_calls_wait_as_a_question_does_not_name_its_call() {
    let launcher = FakeLauncher::new(|_, mut peer: Peer| async move {
        let tools = json!([tool("book")]);
        let Some((first, _)) = peer.serve_until_call(&tools).await else { return };
        let Some((second, _)) = peer.serve_until_call(&tools).await else { return };
        let method = "elicitation/create";
        peer.send(json!({ "jsonrpc": "2.0", "id": 900, "method": method, "params": form() })).await;
        let told = loop {
            let Some(message) = peer.read().await else { return };
            if message["id"] == 900 {
                break message["result"].to_string();
            }
        };
        peer.reply(&first, text(&told)).await;
        peer.reply(&second, text(&told)).await;
    });
    let hub = hub_with(&launcher);
    connected(&hub, "s").await;
    let call = async || {
        let (questions, mut asked) = mpsc::channel(1);
        let options = CallOptions { questions: Some(questions), ..CallOptions::default() };
        let result = hub.call_tool("s", "book", arguments(json!({})), &options).await.unwrap();
        assert!(asked.try_recv().is_err(), "no task may hear what another call is about");
        result.parts
    };
    let declined = [roo_mcp::Content::Text(json!({ "action": "decline" }).to_string())];
    let (first, second) = tokio::join!(call(), call());
    assert_eq!((first.as_slice(), second.as_slice()), (&declined[..], &declined[..]));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_asks_outside_of_a_call_or_takes_its_question_back_keeps_nobody() {
    let heard: Arc<Mutex<Vec<serde_json::Value>>> = Arc::default();
    let hearing = Arc::clone(&heard);
    let launcher = FakeLauncher::new(move |_, mut peer: Peer| {
        let hearing = Arc::clone(&hearing);
        async move {
            let method = "elicitation/create";
            let ask = json!({ "jsonrpc": "2.0", "id": 900, "method": method, "params": form() });
            let mut called = None;
            while let Some(message) = peer.read().await {
                match message["method"].as_str() {
                    Some("notifications/initialized") => peer.send(ask.clone()).await,
                    Some("tools/call") => {
                        called = Some(message["id"].clone());
                        peer.send(ask.clone()).await;
                        peer.notify("notifications/cancelled", json!({ "requestId": 900 })).await;
                        peer.notify("notifications/progress", json!({ "progressToken": "x", "progress": 1 }))
                            .await;
                        peer.reply(called.as_ref().unwrap(), text("never mind")).await;
                    }
                    Some(_) => peer.answer(&message, &json!([tool("book")])).await,
                    None => hearing.lock().unwrap().push(message),
                }
            }
            drop(called);
        }
    });
    let result = told(launcher, |mut asked| async move {
        if let Some(mut elicitation) = asked.recv().await {
            elicitation.answer.closed().await;
        }
    });
    assert!(result.await.unwrap().contains("never mind"));
    let heard = heard.lock().unwrap();
    assert_eq!(heard[0]["result"], json!({ "action": "decline" }), "nobody could be asked: {heard:?}");
}

/// A server that says what it can do, and what it is asked to complete.
fn completing(capabilities: Value, answers: bool) -> (Arc<FakeLauncher>, Arc<Mutex<Vec<Value>>>) {
    let heard: Arc<Mutex<Vec<Value>>> = Arc::default();
    let hearing = Arc::clone(&heard);
    let launcher = FakeLauncher::new(move |_, mut peer: Peer| {
        let (hearing, capabilities) = (Arc::clone(&hearing), capabilities.clone());
        async move {
            while let Some(message) = peer.read().await {
                match message["method"].as_str().unwrap_or_default() {
                    "initialize" => peer.reply(&message["id"], initialized(capabilities.clone())).await,
                    "completion/complete" | "notifications/cancelled" => {
                        hearing.lock().unwrap().push(message.clone());
                        if answers {
                            let values = json!(["Berlin", "Ber\u{1b}n", "b".repeat(2000), "Bern"]);
                            let found = json!({ "completion": { "values": values, "hasMore": true } });
                            peer.reply(&message["id"], found).await;
                        }
                    }
                    _ => peer.answer(&message, &json!([])).await,
                }
            }
        }
    });
    (launcher, heard)
}

fn city() -> CompletionRequest {
    CompletionRequest {
        of: CompletionOf::Prompt("weather".to_owned()),
        argument: "city".to_owned(),
        value: "Ber".to_owned(),
        known: [("country".to_owned(), "de".to_owned())].into(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_completes_arguments_with_values_that_a_line_can_hold() {
    let (launcher, heard) = completing(json!({ "completions": {} }), true);
    let hub = hub_with(&launcher);
    connected(&hub, "s").await;
    let found = hub.complete("s", &city(), &CallOptions::default()).await.unwrap();
    assert_eq!((found.values, found.has_more), (vec!["Berlin".to_owned(), "Bern".to_owned()], true));
    let of = CompletionOf::Template("weather://{city}".to_owned());
    hub.complete("s", &CompletionRequest { of, ..city() }, &CallOptions::default()).await.unwrap();
    let heard = heard.lock().unwrap().clone();
    let params: Vec<Value> = heard.into_iter().map(|mut message| message["params"].take()).collect();
    for (params, expected) in params.iter().zip([
        json!({ "type": "ref/prompt", "name": "weather" }),
        json!({ "type": "ref/resource", "uri": "weather://{city}" }),
    ]) {
        assert_eq!(params["ref"], expected);
        assert_eq!(params["argument"], json!({ "name": "city", "value": "Ber" }));
        assert_eq!(params["context"], json!({ "arguments": { "country": "de" } }));
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_completes_nothing_is_not_asked_to() {
    let (launcher, heard) = completing(json!({ "prompts": {} }), true);
    let hub = hub_with(&launcher);
    connected(&hub, "s").await;
    assert_eq!(hub.complete("s", &city(), &CallOptions::default()).await, Ok(Default::default()));
    assert_eq!(heard.lock().unwrap().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_completion_ends_soon_or_when_it_is_cancelled_and_the_server_is_told() {
    let (launcher, heard) = completing(json!({ "completions": {} }), false);
    let hub = hub_with(&launcher);
    connected(&hub, "s").await;
    let began = tokio::time::Instant::now();
    let late = hub.complete("s", &city(), &CallOptions::default()).await.unwrap_err();
    assert_eq!(began.elapsed().as_secs(), 2);
    let log = hub.log("s").unwrap();
    assert!(log.lines().iter().any(|line| line.text == late.to_string()), "{:?}", log.lines());

    let cancel = CancellationToken::new();
    let options = CallOptions { cancel: cancel.clone(), ..CallOptions::default() };
    let wanted = city();
    let (cancelled, ()) = tokio::join!(hub.complete("s", &wanted, &options), async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        cancel.cancel();
    });
    assert!(matches!(cancelled, Err(CallError::Cancelled { .. })), "{cancelled:?}");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let told = heard.lock().unwrap().iter().filter(|one| one["method"] == "notifications/cancelled").count();
    assert_eq!(told, 2);
    assert!(!log.lines().iter().any(|line| line.text.contains("was cancelled")), "it was no failure");
}
