//! What a server asks of a model, and what it wants before it goes on with a request.

use std::sync::Arc;
use std::time::Duration;

use roo_mcp::{
    Answer, CallError, CallOptions, DesiredServer, DesiredState, Elicitation, Hub, Sampled, Sampling,
};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::support::{FakeLauncher, Peer, arguments, connected, hub, running, stdio, text, tool};

/// The same server, which may ask a model.
pub fn sampling(server: DesiredServer) -> DesiredServer {
    let state = match server.state {
        DesiredState::Running { server, policy, credentials, disabled_tools, sandbox, files, .. } => {
            DesiredState::Running {
                server,
                policy,
                credentials,
                disabled_tools,
                sampling: true,
                lazy: false,
                prefers_initialize: false,
                sandbox,
                files,
            }
        }
        state => state,
    };
    DesiredServer { state, ..server }
}

fn hub_that_samples(launcher: &Arc<FakeLauncher>) -> Hub {
    let hub = hub(launcher);
    hub.configure(vec![sampling(running(stdio("s", "fake", &[])))]);
    hub
}

fn request() -> Value {
    let message = json!({ "role": "user", "content": { "type": "text", "text": "Who are you?" } });
    let params = json!({ "messages": [message], "systemPrompt": "Be a desk.", "maxTokens": 100 });
    json!({ "jsonrpc": "2.0", "id": 900, "method": "sampling/createMessage", "params": params })
}

/// What the client says to the request with the id 900.
async fn told(peer: &mut Peer) -> Option<Value> {
    loop {
        let message = peer.read().await?;
        if message["id"] == 900 {
            return Some(message);
        }
    }
}

/// A server that asks a model before it answers, and gives back what it was told.
fn asking() -> Arc<FakeLauncher> {
    FakeLauncher::new(|_, mut peer: Peer| async move {
        while let Some((id, _)) = peer.serve_until_call(&json!([tool("book")])).await {
            peer.send(request()).await;
            let Some(told) = told(&mut peer).await else { return };
            let answer = if told["error"].is_null() { &told["result"] } else { &told["error"] };
            peer.reply(&id, text(&answer.to_string())).await;
        }
    })
}

fn options() -> (CallOptions, mpsc::Receiver<Elicitation>, mpsc::Receiver<Sampling>) {
    let ((questions, asked), (samplings, sampled)) = (mpsc::channel(4), mpsc::channel(4));
    let options =
        CallOptions { questions: Some(questions), samplings: Some(samplings), ..CallOptions::default() };
    (options, asked, sampled)
}

/// What the server was told, where its requests are answered in this way.
async fn told_by<F: Future<Output = ()>>(
    hub: &Hub,
    answer: impl FnOnce(mpsc::Receiver<Sampling>) -> F,
) -> Result<String, CallError> {
    connected(hub, "s").await;
    let (options, _asked, sampled) = options();
    let call = hub.call_tool("s", "book", arguments(json!({})), &options);
    let (result, ()) = tokio::join!(call, answer(sampled));
    result.map(|result| format!("{:?}", result.parts).replace('\\', ""))
}

fn hello() -> Sampled {
    Sampled { text: "A desk.".to_owned(), model: "test/model".to_owned(), is_cut: true }
}

#[tokio::test(start_paused = true)]
async fn a_model_answers_while_the_call_waits_however_long_that_takes() {
    let hub = hub_that_samples(&asking());
    let answered = told_by(&hub, |mut sampled| async move {
        let sampling = sampled.recv().await.unwrap();
        assert_eq!(sampling.system.as_deref(), Some("Be a desk."));
        assert_eq!((sampling.messages[0].text.as_str(), sampling.max_tokens), ("Who are you?", 100));
        tokio::time::sleep(Duration::from_secs(600)).await;
        sampling.answer.send(Ok(hello())).unwrap();
    });
    let answered = answered.await.unwrap();
    for part in [r#""text":"A desk.""#, r#""role":"assistant""#, r#""stopReason":"maxTokens""#, "test/model"]
    {
        assert!(answered.contains(part), "{answered}");
    }
    let refused = told_by(&hub, |mut sampled| async move {
        sampled.recv().await.unwrap().answer.send(Err("the user declined".to_owned())).unwrap();
    });
    let expected = r#"{"code":-1,"message":"sampling was refused: the user declined"}"#;
    assert!(refused.await.unwrap().contains(expected));
    let dropped = told_by(&hub, |mut sampled| async move { drop(sampled.recv().await) });
    assert!(dropped.await.unwrap().contains("sampling was refused"));
    let nobody = told_by(&hub, |sampled| async move { drop(sampled) });
    assert!(nobody.await.unwrap().contains("nobody answers"));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_not_let_is_not_offered_it_and_refused() {
    let launcher = FakeLauncher::new(|_, mut peer: Peer| async move {
        let mut offered = Value::Null;
        while let Some(message) = peer.read().await {
            match message["method"].as_str() {
                Some("initialize") => {
                    offered = message["params"]["capabilities"]["sampling"].clone();
                    peer.answer(&message, &json!([])).await;
                }
                Some("tools/call") => {
                    peer.send(request()).await;
                    let Some(told) = told(&mut peer).await else { return };
                    let answer = json!([offered, told["error"]["code"]]).to_string();
                    peer.reply(&message["id"], text(&answer)).await;
                }
                _ => peer.answer(&message, &json!([tool("book")])).await,
            }
        }
    });
    let off = hub(&launcher);
    off.configure(vec![running(stdio("s", "fake", &[]))]);
    connected(&off, "s").await;
    let (options, _asked, mut sampled) = options();
    let told = off.call_tool("s", "book", arguments(json!({})), &options).await.unwrap();
    assert_eq!(told.parts, [roo_mcp::Content::Text("[null,-32601]".to_owned())]);
    assert!(sampled.try_recv().is_err(), "nobody hears of it");

    let on = hub_that_samples(&launcher);
    let told = told_by(&on, |mut sampled| async move {
        sampled.recv().await.unwrap().answer.send(Err("no".to_owned())).unwrap();
    });
    assert!(told.await.unwrap().contains("[{},-1]"), "it is offered, without tools and contexts");
}

#[tokio::test(start_paused = true)]
async fn a_request_outside_of_a_call_or_during_several_is_refused() {
    let launcher = FakeLauncher::new(|_, mut peer: Peer| async move {
        let tools = json!([tool("book")]);
        let Some((first, _)) = peer.serve_until_call(&tools).await else { return };
        let Some((second, _)) = peer.serve_until_call(&tools).await else { return };
        peer.send(request()).await;
        let Some(during) = told(&mut peer).await else { return };
        peer.reply(&first, text(&during["error"]["message"].to_string())).await;
        peer.reply(&second, text("done")).await;
        // By then nobody waits.
        tokio::time::sleep(Duration::from_secs(1)).await;
        peer.send(request()).await;
        let Some(outside) = told(&mut peer).await else { return };
        let Some((id, _)) = peer.serve_until_call(&tools).await else { return };
        peer.reply(&id, text(&outside["error"]["message"].to_string())).await;
    });
    let hub = hub_that_samples(&launcher);
    connected(&hub, "s").await;
    let call = async || {
        let (options, _asked, mut sampled) = options();
        let result = hub.call_tool("s", "book", arguments(json!({})), &options).await.unwrap();
        assert!(sampled.try_recv().is_err(), "no task may pay for another one");
        format!("{:?}", result.parts)
    };
    let (first, _) = tokio::join!(call(), call());
    assert!(first.contains("sampling was refused: several calls wait"), "{first}");
    tokio::time::sleep(Duration::from_secs(2)).await;
    let outside = call().await;
    assert!(outside.contains("sampling was refused: no call waits"), "{outside}");
}

#[tokio::test(start_paused = true)]
async fn a_request_ends_with_its_call() {
    let hub = hub_that_samples(&asking());
    connected(&hub, "s").await;
    let (mut options, _asked, mut sampled) = options();
    options.cancel = CancellationToken::new();
    let call = hub.call_tool("s", "book", arguments(json!({})), &options);
    let (ended, ()) = tokio::join!(call, async {
        let mut sampling = sampled.recv().await.unwrap();
        options.cancel.cancel();
        // The server hears that the call is over, and takes its request back or ends.
        hub.shutdown().await;
        sampling.answer.closed().await;
    });
    assert!(matches!(ended, Err(CallError::Cancelled { .. })), "{ended:?}");
}

/// A server of the version without a handshake, whose calls are answered with `result` of the parameters, if that is one.
fn modern(result: impl Fn(&Value) -> Option<Value> + Clone + Send + Sync + 'static) -> Arc<FakeLauncher> {
    FakeLauncher::new(move |_, mut peer: Peer| {
        let result = result.clone();
        async move {
            while let Some(message) = peer.read().await {
                let id = &message["id"];
                match message["method"].as_str().unwrap_or_default() {
                    "server/discover" => {
                        let found = json!({
                            "resultType": "complete", "supportedVersions": ["2026-07-28"],
                            "capabilities": { "tools": {} }, "ttlMs": 0, "cacheScope": "private",
                            "serverInfo": { "name": "fake", "version": "0.1" },
                        });
                        peer.reply(id, found).await;
                    }
                    "tools/list" => {
                        let tools = json!([tool("book")]);
                        let list = json!({ "resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private" });
                        peer.reply(id, list).await;
                    }
                    "tools/call" => {
                        if let Some(result) = result(&message["params"]) {
                            peer.reply(id, result).await;
                        }
                    }
                    _ => {}
                }
            }
        }
    })
}

fn input_required(requests: Value, state: &str) -> Value {
    json!({ "resultType": "input_required", "inputRequests": requests, "requestState": state })
}

fn form() -> Value {
    let schema = json!({ "type": "object", "properties": { "name": { "type": "string" } } });
    let params = json!({ "mode": "form", "message": "Who?", "requestedSchema": schema });
    json!({ "method": "elicitation/create", "params": params })
}

#[tokio::test(start_paused = true)]
async fn a_result_that_asks_for_input_is_continued_with_the_answers() {
    let launcher = modern(|params| {
        let given = &params["inputResponses"];
        if params["arguments"] == json!({ "day": 2 }) {
            return None;
        }
        if params["requestState"].is_null() {
            assert_eq!(params["arguments"], json!({ "day": 1 }));
            let mut model = request();
            for unwanted in ["jsonrpc", "id"] {
                model.as_object_mut().unwrap().remove(unwanted);
            }
            return Some(input_required(json!({ "who": form(), "words": model }), "opaque"));
        }
        assert_eq!((&params["requestState"], &params["arguments"]), (&json!("opaque"), &json!({ "day": 1 })));
        let mut done = text(&given.to_string());
        done["resultType"] = json!("complete");
        Some(done)
    });
    let hub = hub_that_samples(&launcher);
    connected(&hub, "s").await;
    let (options, mut asked, mut sampled) = options();
    // It waits all the time, which is no reason to refuse: a result names its call.
    let without = CallOptions::default();
    let other = hub.call_tool("s", "book", arguments(json!({ "day": 2 })), &without);
    let call = hub.call_tool("s", "book", arguments(json!({ "day": 1 })), &options);
    let answer = async {
        let elicitation = asked.recv().await.unwrap();
        assert_eq!(elicitation.message, "Who?");
        tokio::time::sleep(Duration::from_secs(600)).await;
        elicitation.answer.send(Answer::Accepted(arguments(json!({ "name": "Ada" })))).unwrap();
        sampled.recv().await.unwrap().answer.send(Ok(hello())).unwrap();
    };
    let (result, ()) = tokio::select! {
        biased;
        never = async { drop(other.await); std::future::pending().await } => never,
        both = async { tokio::join!(call, answer) } => both,
    };
    let told = format!("{:?}", result.unwrap().parts).replace('\\', "");
    assert!(told.contains(r#""who":{"action":"accept","content":{"name":"Ada"}}"#), "{told}");
    assert!(told.contains("A desk."), "{told}");
}

#[tokio::test(start_paused = true)]
async fn a_result_that_asks_without_end_or_for_too_much_ends_the_call() {
    let many: Value = (0..21).map(|n| (n.to_string(), form())).collect::<serde_json::Map<_, _>>().into();
    let roots = json!({ "folders": { "method": "roots/list" } });
    for (result, reason) in [
        (input_required(json!({ "who": form() }), "again"), "it has asked 10 times"),
        (input_required(json!({}), "again"), "it has asked 10 times"),
        (input_required(many, ""), "it asks more than 20 things at once"),
        (input_required(roots, ""), "it asks for what it was not offered"),
        (
            input_required(json!({}), &"x".repeat((64 << 10) + 1)),
            "the state that it wants back has more than 64 KiB",
        ),
    ] {
        let launcher = modern(move |_| Some(result.clone()));
        let hub = hub_that_samples(&launcher);
        connected(&hub, "s").await;
        let (options, mut asked, _sampled) = options();
        let call = hub.call_tool("s", "book", arguments(json!({})), &options);
        let answers = async {
            while let Some(elicitation) = asked.recv().await {
                elicitation.answer.send(Answer::Declined).unwrap();
            }
            std::future::pending().await
        };
        let ended = tokio::select! {
            ended = call => ended,
            never = answers => never,
        };
        match ended {
            Err(CallError::Unfulfilled { reason: found, .. }) => assert_eq!(found, reason),
            other => panic!("{other:?}"),
        }
    }
}
