//! Servers that misbehave: each is named with what to do, nothing hangs, and memory stays bounded.

use std::time::Duration;

use roo_mcp::CallOptions;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn a_server_that_never_answers_fails_in_time() {
    let launcher = FakeLauncher::new(|_, mut peer: Peer| async move {
        peer.stderr.write_all(b"downloading\nwaiting for the database\n").await.unwrap();
        while peer.read().await.is_some() {}
    });
    let hub = hub_with(&launcher);
    let began = tokio::time::Instant::now();
    let (fault, retry) = failed(&hub, "s").await;
    assert_eq!(
        fault,
        "it has not answered `initialize` within 60 s, the limit for starting a server: `waiting for the database`; check that it is an MCP server of \
         this transport"
    );
    assert_eq!((began.elapsed().as_secs(), retry), (60, Some(1)));
    assert_eq!(launcher.running(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ends_at_once_is_described_by_its_last_words() {
    let launcher = FakeLauncher::new(|_, mut peer: Peer| async move {
        peer.stderr.write_all(b"Error: Cannot find module 'x'\n").await.unwrap();
        let _ = peer.read().await;
    });
    let (fault, _) = failed(&hub_with(&launcher), "s").await;
    assert_eq!(fault, "its program ended (exit code 9): `Error: Cannot find module 'x'`");
}

#[tokio::test(start_paused = true)]
async fn a_program_that_is_missing_is_not_tried_again() {
    let hub = hub(&FakeLauncher::new(|_, _| async {}));
    hub.configure(vec![running(stdio("s", "missing", &[]))]);
    let (fault, retry) = failed(&hub, "s").await;
    assert_eq!(
        (fault.as_str(), retry),
        (
            "its program can't be started: `missing` is not found; install it, or write its full path into `command`",
            None
        )
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_of_no_known_version_is_not_tried_again() {
    let launcher = FakeLauncher::new(|_, mut peer: Peer| async move {
        while let Some(message) = peer.read().await {
            let error = json!({ "code": -32022, "message": "Unsupported protocol version",
                                "data": { "supported": ["1999-01-01"], "requested": "2026-07-28" } });
            peer.send(json!({ "jsonrpc": "2.0", "id": message["id"], "error": error })).await;
        }
    });
    let (fault, retry) = failed(&hub_with(&launcher), "s").await;
    assert!(fault.starts_with("it speaks no version of MCP that roo-lsp knows"), "{fault}");
    assert_eq!(retry, None);
}

#[tokio::test(start_paused = true)]
async fn a_handshake_with_an_unknown_version_or_another_id_fails() {
    for (version, id) in [("1999-01-01", None), ("2025-06-18", Some(json!(77)))] {
        let launcher = FakeLauncher::new(move |_, mut peer: Peer| {
            let id = id.clone();
            async move {
                while let Some(message) = peer.read().await {
                    if message["method"] == "initialize" {
                        let mut result = initialized(json!({}));
                        result["protocolVersion"] = json!(version);
                        let id = id.clone().unwrap_or_else(|| message["id"].clone());
                        peer.reply(&id, result).await;
                    } else {
                        peer.answer(&message, &json!([])).await;
                    }
                }
            }
        });
        let (fault, _) = failed(&hub_with(&launcher), "s").await;
        let expected =
            if version == "1999-01-01" { "1999-01-01" } else { "it has not answered `initialize`" };
        assert!(fault.contains(expected), "{version}: {fault}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_the_handshake_says_why() {
    let launcher = FakeLauncher::new(|_, mut peer: Peer| async move {
        while let Some(message) = peer.read().await {
            let error = json!({ "code": -32000, "message": "licence expired" });
            peer.send(json!({ "jsonrpc": "2.0", "id": message["id"], "error": error })).await;
        }
    });
    let (fault, retry) = failed(&hub_with(&launcher), "s").await;
    assert_eq!((fault.as_str(), retry), ("it refused the connection: licence expired", None));
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_garbage_ends_the_connection_and_shows_a_sample() {
    let launcher = FakeLauncher::new(|_, mut peer: Peer| async move {
        for _ in 0..100_000 {
            peer.write(b"GET / HTTP/1.1\x1b[31m\xff\n").await;
        }
    });
    let (fault, retry) = failed(&hub_with(&launcher), "s").await;
    assert!(fault.starts_with("its standard output has something other than MCP messages"), "{fault}");
    assert!(fault.contains("GET / HTTP/1.1") && !fault.contains('\u{1b}'), "{fault}");
    assert_eq!(retry, None);
}

#[tokio::test(start_paused = true)]
async fn a_few_lines_that_are_no_messages_do_no_harm() {
    let launcher = FakeLauncher::new(|_, mut peer: Peer| async move {
        peer.write(b"Server started\n\n{\"level\":\"info\"}\nnull\n[]\n").await;
        while peer.serve_until_call(&json!([tool("echo")])).await.is_some() {}
    });
    let hub = hub_with(&launcher);
    connected(&hub, "s").await;
    let log = hub.log("s").unwrap().lines();
    assert!(
        log.iter().any(|line| line.text == "no MCP message on standard output: Server started"),
        "{log:?}"
    );
}

/// Lines of more than 1 MiB, which are no messages.
fn chatter() -> String {
    "called echo\n".repeat(100_000)
}

#[tokio::test(start_paused = true)]
async fn lines_that_are_no_messages_are_skipped_before_the_first_message_and_after_it() {
    let launcher = FakeLauncher::new(|_, mut peer: Peer| async move {
        peer.write("Welcome!\n".repeat(5000).as_bytes()).await;
        while let Some((id, _)) = peer.serve_until_call(&json!([tool("echo")])).await {
            peer.write(chatter().as_bytes()).await;
            peer.reply(&id, text("hello")).await;
        }
    });
    let hub = hub_with(&launcher);
    connected(&hub, "s").await;
    for _ in 0..3 {
        hub.call_tool("s", "echo", arguments(json!({})), &CallOptions::default()).await.unwrap();
    }
    assert_eq!(launcher.launched(), 1);
    // A few of them are logged each time.
    let log = hub.log("s").unwrap().lines();
    let logged = |line: &str| log.iter().filter(|logged| logged.text.ends_with(line)).count();
    assert_eq!((logged("called echo"), logged("until the next message")), (60, 4), "{log:?}");
}

#[tokio::test(start_paused = true)]
async fn lines_without_end_after_the_first_message_end_a_connection_that_is_made_again() {
    let launcher = FakeLauncher::new(|_, mut peer: Peer| async move {
        let _ = peer.serve_until_call(&json!([tool("echo")])).await;
        // Few, as each is looked at.
        let line = format!("{}\n", "called echo ".repeat(10_000));
        for _ in 0..3000 {
            peer.write(line.as_bytes()).await;
        }
        while peer.read().await.is_some() {}
    });
    let hub = hub_with(&launcher);
    connected(&hub, "s").await;
    let call = hub.call_tool("s", "echo", arguments(json!({})), &CallOptions::default()).await;
    assert!(call.is_err());
    let (fault, retry) = failed(&hub, "s").await;
    let expected = "its standard output has more than 256 MiB without a message, such as `called echo ";
    assert!(fault.contains(expected), "{fault}");
    assert_eq!(retry, Some(1));
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_100_mb_fails_its_call_and_the_server_lives_on() {
    let launcher = FakeLauncher::new(|_, mut peer: Peer| async move {
        while let Some((id, params)) = peer.serve_until_call(&json!([tool("read")])).await {
            if params["arguments"]["all"] == true {
                let piece = vec![b'x'; 1 << 20];
                for _ in 0..100 {
                    peer.write(&piece).await;
                }
                peer.write(b"\n").await;
            } else {
                peer.reply(&id, text("small")).await;
            }
        }
    });
    let hub = hub_with(&launcher);
    connected(&hub, "s").await;
    let call = async |all: bool| {
        hub.call_tool("s", "read", arguments(json!({ "all": all })), &CallOptions::default()).await
    };
    assert_eq!(
        call(true).await.unwrap_err().to_string(),
        "MCP server `s` answered the tool `read` with a message of more than 16 MiB, which is not read; ask for less at \
         once"
    );
    assert!(call(false).await.is_ok());
    assert_eq!(launcher.launched(), 1);
}

#[tokio::test(start_paused = true)]
async fn answers_that_can_not_be_read_are_no_answers_and_the_server_lives_on() {
    let nested = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let hostile = [nested, "1e999".to_owned(), r#""\ud800""#.to_owned(), "\"\u{1}\"".to_owned()];
    let launcher = FakeLauncher::new(move |_, mut peer: Peer| {
        let hostile = hostile.clone();
        async move {
            while let Some((id, params)) = peer.serve_until_call(&json!([tool("read")])).await {
                match params["arguments"]["which"].as_u64() {
                    None => peer.reply(&id, text("fine")).await,
                    Some(which) => {
                        let content = &hostile[usize::try_from(which).unwrap()];
                        let result = format!(r#"{{"content":[],"structuredContent":{{"x":{content}}}}}"#);
                        let answer = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}\n");
                        peer.write(answer.as_bytes()).await;
                    }
                }
            }
        }
    });
    let hub = hub_with(&launcher);
    connected(&hub, "s").await;
    let call = async |with: serde_json::Value| {
        hub.call_tool("s", "read", arguments(with), &CallOptions::default()).await
    };
    for which in 0..4 {
        let error = call(json!({ "which": which })).await.unwrap_err().to_string();
        assert!(error.contains("effects are unknown"), "{which}: {error}");
        assert!(call(json!({})).await.is_ok(), "{which}");
    }
    assert_eq!(launcher.launched(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_message_without_end_ends_the_connection() {
    let launcher = FakeLauncher::new(|_, mut peer: Peer| async move {
        let _ = peer.serve_until_call(&json!([tool("read")])).await;
        let piece = vec![b'x'; 1 << 20];
        for _ in 0..400 {
            peer.write(&piece).await;
        }
        std::future::pending::<()>().await;
    });
    let hub = hub_with(&launcher);
    connected(&hub, "s").await;
    let call = hub.call_tool("s", "read", arguments(json!({})), &CallOptions::default()).await;
    assert!(call.unwrap_err().to_string().contains("more than 16 MiB"));
    let (fault, retry) = failed(&hub, "s").await;
    assert!(fault.starts_with("it sent a message of more than 16 MiB"), "{fault}");
    assert_eq!((retry, launcher.running()), (Some(1), 0));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_dies_between_call_and_result_leaves_the_effects_unknown() {
    let launcher = FakeLauncher::new(|number, mut peer: Peer| async move {
        let call = peer.serve_until_call(&json!([tool("pay")])).await;
        assert!(number == 0 || call.is_none(), "it was called again");
    });
    let hub = hub_with(&launcher);
    connected(&hub, "s").await;
    let error = hub.call_tool("s", "pay", arguments(json!({})), &CallOptions::default()).await.unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("the tool `pay` of MCP server `s` was interrupted"), "{text}");
    assert!(text.ends_with("Its effects are unknown, and it was not repeated"), "{text}");
    // Meanwhile calls say what is going on; then the server is back.
    failed(&hub, "s").await;
    let between = hub.call_tool("s", "pay", arguments(json!({})), &CallOptions::default()).await.unwrap_err();
    assert!(between.to_string().ends_with("nothing was sent"), "{between}");
    status(&hub, "s", |status| status.catalog().is_some()).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
}

#[tokio::test(start_paused = true)]
async fn pages_without_end_and_floods_of_notifications_are_bounded() {
    let endless = FakeLauncher::new(|_, mut peer: Peer| async move {
        let mut page = 0;
        while let Some(message) = peer.read().await {
            if message["method"] == "tools/list" {
                page += 1;
                peer.reply(&message["id"], json!({ "tools": [], "nextCursor": page.to_string() })).await;
            } else {
                peer.answer(&message, &json!([])).await;
            }
        }
    });
    let (fault, _) = failed(&hub_with(&endless), "s").await;
    assert!(fault.contains("its list of pages has no end"), "{fault}");

    let circular = FakeLauncher::new(|_, mut peer: Peer| async move {
        while let Some(message) = peer.read().await {
            if message["method"] == "tools/list" {
                let page = message["params"]["cursor"].as_str().unwrap_or("first").to_owned();
                peer.reply(&message["id"], json!({ "tools": [tool(&page)], "nextCursor": "next" })).await;
            } else {
                peer.answer(&message, &json!([])).await;
            }
        }
    });
    let hub = hub_with(&circular);
    let catalog = connected(&hub, "s").await;
    assert_eq!(catalog.tools.iter().map(|tool| &*tool.name).collect::<Vec<_>>(), ["first", "next"]);
    let log = hub.log("s").unwrap().lines();
    let expected = "its list of pages has no end; the 2 entries of its pages so far count";
    assert!(log.iter().any(|line| line.text == expected), "{log:?}");

    let noisy = FakeLauncher::new(|_, mut peer: Peer| async move {
        while let Some((id, _)) = peer.serve_until_call(&json!([tool("echo")])).await {
            for n in 0..20_000 {
                peer.notify("notifications/message", json!({ "level": "info", "data": format!("{n}") }))
                    .await;
                peer.notify("notifications/progress", json!({ "progressToken": 1, "progress": n })).await;
                peer.notify("notifications/unheard", json!({ "n": n })).await;
            }
            peer.reply(&id, text("done")).await;
        }
    });
    let hub = hub_with(&noisy);
    connected(&hub, "s").await;
    hub.call_tool("s", "echo", arguments(json!({})), &CallOptions::default()).await.unwrap();
    assert_eq!(hub.log("s").unwrap().lines().len(), 500);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_does_not_follow_the_protocol_is_rejected_and_the_others_are_offered() {
    let launcher = FakeLauncher::new(|_, mut peer: Peer| async move {
        let hint = json!({ "name": "hint", "inputSchema": {}, "annotations": { "readOnlyHint": "true" } });
        let tools = json!([{ "name": "bare" }, tool("echo"), hint, 7]);
        while let Some((id, _)) = peer.serve_until_call(&tools).await {
            peer.reply(&id, text("hello")).await;
        }
    });
    let hub = hub_with(&launcher);
    let catalog = connected(&hub, "s").await;
    assert_eq!(catalog.tools.iter().map(|tool| &*tool.name).collect::<Vec<_>>(), ["echo"]);
    let rejected: Vec<_> = catalog.rejected_tools.iter().map(|tool| (&*tool.name, &*tool.reason)).collect();
    let [bare, hint, number] = rejected.as_slice() else { panic!("{rejected:?}") };
    assert_eq!((bare.0, hint.0, number.0), ("bare", "hint", "(without a name)"));
    let expected = "its description does not follow the protocol: missing field `inputSchema`";
    assert_eq!(bare.1, expected);
    assert!(hint.1.contains("expected a boolean"), "{}", hint.1);
    hub.call_tool("s", "echo", arguments(json!({})), &CallOptions::default()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_server_that_reads_nothing_holds_nobody_up() {
    let launcher = FakeLauncher::new(|_, mut peer: Peer| async move {
        for _ in 0..3 {
            // `server/discover`, `initialize` and what follows.
            let Some(message) = peer.read().await else { return };
            peer.answer(&message, &json!([])).await;
        }
        let Some(message) = peer.read().await else { return };
        peer.answer(&message, &json!([tool("write")])).await;
        std::future::pending::<()>().await;
    });
    let hub = hub_with(&launcher);
    connected(&hub, "s").await;
    let large = "x".repeat(1 << 20);
    let error =
        hub.call_tool("s", "write", arguments(json!({ "text": large })), &CallOptions::default()).await;
    assert!(error.unwrap_err().to_string().contains("has not answered"));
    hub.shutdown().await;
    assert_eq!(launcher.running(), 0);
}
