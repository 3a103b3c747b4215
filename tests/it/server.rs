//! The server over its real standard input and output.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use serde_json::{Value, json};

use crate::support::assert_gapless;
use crate::support::client::{Client, Home, Options, eventually, uri};

/// Says something and is done.
const HELLO: &str =
    "turns: [{ text: Hello., calls: [{ tool: attempt_completion, params: { result: Done. } }] }]";
/// Writes a file, which asks, and is done.
pub(super) const WRITES: &str = r#"
turns:
  - text: I write.
    calls: [{ tool: write_to_file, params: { path: new.txt, content: "one\n" } }]
  - { when: { status: ok }, calls: [{ tool: attempt_completion, params: { result: Written. } }] }
  - { when: { status: denied }, calls: [{ tool: attempt_completion, params: { result: Refused. } }] }
"#;
const ASKS: &str = r#"
turns:
  - calls: [{ tool: ask_followup_question, params: { question: Which?, follow_up: [{ text: this }, { text: that }] } }]
  - { when: { contains: that }, calls: [{ tool: attempt_completion, params: { result: That. } }] }
  - { calls: [{ tool: attempt_completion, params: { result: Something else. } }] }
"#;
/// Goes on speaking for long.
const SLOW: &str = r#"
turns:
  - { text: "A long story that takes its time to be told, word by word.", chunk: 1, delayMs: 500 }
"#;

/// Takes the hunks out of the files of a preview, which `review` tests; their ids.
fn taken_hunks(files: &mut Value) -> Vec<String> {
    let files = files.as_array_mut().unwrap().iter_mut();
    let hunks = files.filter_map(|file| file.as_object_mut().unwrap().remove("hunks"));
    hunks
        .flat_map(|hunks| hunks.as_array().unwrap().clone())
        .map(|hunk| hunk["hunkId"].as_str().unwrap().to_owned())
        .collect()
}

mod life {
    use super::*;

    #[test]
    fn the_exit_code_says_whether_the_client_asked_first() {
        let home = Home::new();
        assert_eq!(Client::start(&home, Options::typed()).shut_down(), 0);
        let mut client = Client::start(&home, Options::typed());
        client.notify("exit", Value::Null);
        assert_eq!(client.exit_code(), 1);
        assert_eq!(Client::start(&home, Options::plain()).hang_up(), 1);
    }

    #[test]
    fn the_end_of_the_input_ends_it_though_a_task_runs() {
        // It goes on for minutes, and so for longer than the end is waited for.
        let home = Home::playing(&SLOW.replace("word by word", &"word by word, ".repeat(40)));
        let mut client = Client::start(&home, Options::typed());
        client.start_task("Tell me a story");
        client.event("message.delta");
        assert_eq!(client.hang_up(), 1);
    }

    #[test]
    fn it_ends_with_the_process_that_started_it() {
        let home = Home::new();
        let mut parent = Command::new("sleep").arg("1000").spawn().unwrap();
        let options = Options::typed().with(json!({ "processId": parent.id() }));
        let mut client = Client::start(&home, options);
        client.request("roo/task/list", json!({}));
        parent.kill().unwrap();
        parent.wait().unwrap();
        assert_eq!(client.exit_code(), 1);
    }

    #[test]
    fn a_signal_ends_it() {
        let mut client = Client::start(&Home::new(), Options::typed());
        client.request("roo/task/list", json!({}));
        Command::new("kill").arg(client.process().to_string()).status().unwrap();
        assert_eq!(client.exit_code(), 1);
    }

    #[test]
    fn a_parent_that_can_not_be_seen_is_no_reason_to_end() {
        let options = Options::typed().with(json!({ "processId": i32::MAX }));
        let mut client = Client::start(&Home::new(), options);
        client.request("roo/task/list", json!({}));
        assert_eq!(client.shut_down(), 0);
    }

    #[test]
    fn nothing_is_served_before_initialize() {
        let options = Options { initialized: false, ..Options::typed() };
        let mut client = Client::start(&Home::new(), options);
        assert_eq!(client.refused("roo/task/list", json!({}))["code"], -32002);
        client.request("initialize", json!({ "capabilities": {} }));
        assert_eq!(client.refused("initialize", json!({ "capabilities": {} }))["code"], -32600);
        assert_eq!(client.shut_down(), 0);
    }

    #[test]
    fn nothing_is_served_after_shutdown() {
        let mut client = Client::start(&Home::new(), Options::typed());
        client.request("shutdown", Value::Null);
        assert_eq!(client.refused("roo/task/list", json!({}))["code"], -32600);
        client.notify("exit", Value::Null);
        assert_eq!(client.exit_code(), 0);
    }
}

mod messages {
    use super::*;

    #[test]
    fn what_is_wrong_is_answered_and_survived() {
        let mut client = Client::start(&Home::new(), Options::typed());
        let no_id = |client: &mut Client| {
            client.wait_for("a refusal", |message| message.get("error").is_some())["error"]["code"].clone()
        };
        client.write_raw(b"Content-Length: 7\r\n\r\n{\"id\":1");
        assert_eq!(no_id(&mut client), -32700);
        client.write_raw(b"Content-Length: 4\r\n\r\n\"\xff\xfe\"");
        assert_eq!(no_id(&mut client), -32700);
        assert_eq!(client.refused("no/such", json!({}))["code"], -32601);
        let error = client.refused("roo/task/send", json!({ "taskId": "t", "text": 1 }));
        assert_eq!(error["code"], -32602);
        assert_eq!(error["message"], "text: invalid type: integer `1`, expected a string");
        let error = client.refused("roo/task/get", json!({ "taskId": "../../etc" }));
        assert_eq!((&error["code"], &error["data"]["kind"]), (&json!(-32803), &json!("notFound")));
        assert_eq!(error["data"]["taskId"], "../../etc");
        client.notify("no/such", json!({}));
        client.notify("textDocument/didChange", json!({ "nonsense": true }));
        client.notify("$/setTrace", json!({ "value": "off" }));
        assert_eq!(client.request("roo/task/list", Value::Null), json!({ "items": [] }));
        assert_eq!(client.shut_down(), 0);
    }

    #[test]
    fn a_message_over_the_limit_is_skipped_and_answered() {
        let mut client = Client::start(&Home::new(), Options::typed());
        let limit = client.server["capabilities"]["experimental"]["roo"]["limits"]["messageBytes"].as_u64();
        let length = limit.unwrap() + 1;
        client.write_raw(format!("Content-Length: {length}\r\n\r\n").as_bytes());
        client.write_raw(&vec![b' '; usize::try_from(length).unwrap()]);
        let refused = client.wait_for("a refusal", |message| message.get("error").is_some());
        assert_eq!(refused["error"]["code"], -32600);
        client.request("roo/task/list", json!({}));
        assert_eq!(client.shut_down(), 0);
    }

    #[test]
    fn messages_that_are_split_and_joined_anywhere_are_read() {
        let mut client = Client::start(&Home::new(), Options::typed());
        let body = json!({ "jsonrpc": "2.0", "method": "$/ä🦀", "params": {} }).to_string();
        let message = format!("Content-Length: {}\r\n\r\n{body}", body.len()).repeat(2);
        for byte in message.as_bytes() {
            client.write_raw(&[*byte]);
        }
        client.request("roo/task/list", json!({}));
        assert_eq!(client.shut_down(), 0);
    }
}

mod typed {
    use super::*;

    #[test]
    fn a_task_runs_and_its_events_have_no_gap() {
        let home = Home::playing(HELLO);
        let mut client = Client::start(&home, Options::typed());
        let task = client.start_task("Say hello");
        let end = client.state("completed");
        assert_eq!(end["event"]["result"], "Done.");
        let events = client.numbered(&task);
        assert_gapless(&events, 1);
        assert_eq!(events[0]["event"]["type"], "task.created");
        let answer = client.seen.iter().position(|message| message["result"]["taskId"] == task);
        let first = client.seen.iter().position(|message| message["method"] == "roo/event");
        assert!(answer < first, "the answer comes before the events");
        let list = client.request("roo/task/list", json!({}));
        assert_eq!(list["items"][0]["taskId"], task);
        // Commands attach too.
        client.command("roo.newTask", json!({ "prompt": "Say hello", "mode": "code" }));
        client.state("completed");
        let snapshot = client.request("roo/task/get", json!({ "taskId": task }));
        assert_eq!((&snapshot["state"], &snapshot["result"]), (&json!("completed"), &json!("Done.")));
        assert_eq!(client.shut_down(), 0);
    }

    #[test]
    fn running_text_comes_in_pieces_that_fit_together() {
        let story = "Once upon a time there was a server.";
        let done = "calls: [{ tool: attempt_completion, params: { result: Done. } }]";
        let home = Home::playing(&format!("turns: [{{ text: \"{story}\", chunk: 1, delayMs: 10, {done} }}]"));
        let mut client = Client::start(&home, Options::typed());
        client.start_task("Tell me a story");
        client.state("completed");
        let mut text = String::new();
        let mut pieces = 0;
        for event in client.seen.iter().map(|message| &message["params"]["event"]) {
            if event["type"] == "message.delta" && event["say"] == "text" {
                assert_eq!(event["offset"], text.len());
                text += event["text"].as_str().unwrap();
                pieces += 1;
            }
        }
        assert!(!text.is_empty() && story.starts_with(&text), "{text}");
        assert!(pieces < story.len(), "each of {pieces} letters came alone");
    }

    #[test]
    fn a_replay_equals_what_was_live() {
        let home = Home::playing(HELLO);
        let mut client = Client::start(&home, Options::typed());
        let task = client.start_task("Say hello");
        let last = client.state("completed")["seq"].clone();
        let live = client.numbered(&task);
        client.seen.clear();
        let attached = client.request("roo/task/attach", json!({ "taskId": task }));
        assert_eq!(attached["seq"], last);
        client.state("completed");
        assert_gapless(&client.numbered(&task), 1);
        assert_eq!(client.numbered(&task).last(), live.last());
        // Merging is the only difference there may be.
        let singles = |events: Vec<Value>| -> Vec<Value> {
            events.into_iter().filter(|event| event["event"]["type"] != "message").collect()
        };
        assert_eq!(singles(client.numbered(&task)), singles(live.clone()));
        // A second cursor takes the place of the first.
        client.seen.clear();
        let after = last.as_u64().unwrap() - 1;
        client.request("roo/task/attach", json!({ "taskId": task, "afterSeq": after }));
        client.state("completed");
        assert_eq!(client.numbered(&task), live[live.len() - 1..]);
        assert_eq!(client.shut_down(), 0);
    }

    /// A client that attaches again before it has heard of the first time gets the events of one cursor, then those of the other.
    #[test]
    fn two_cursors_of_one_request_never_take_turns() {
        let turns: String = (0..60)
            .map(|number| {
                let list = format!("{{ tool: update_todo_list, params: {{ todos: \"[ ] {number}\" }} }}");
                format!("  - {{ calls: [{list}] }}\n")
            })
            .collect();
        let ends = "  - { calls: [{ tool: attempt_completion, params: { result: Done. } }] }\n";
        let home = Home::playing(&format!("turns:\n{turns}{ends}"));
        let mut client = Client::start(&home, Options::typed());
        let task = client.start_task("Plan");
        let last = client.state("completed")["seq"].clone();
        client.seen.clear();
        client.set_reading(false);
        let all = json!({ "taskId": task, "afterSeq": 0 });
        let asked: Vec<i64> = (0..8).map(|_| client.ask("roo/task/attach", all.clone())).collect();
        client.set_reading(true);
        for id in asked {
            client.answer(id);
        }
        let is_last = |event: Option<&Value>| event.is_some_and(|event| event["seq"] == last);
        client.pump("the last event", |client| is_last(client.numbered(&task).last()).then_some(()));
        let mut expected = 1;
        for event in client.numbered(&task) {
            let from = event.get("from").unwrap_or(&event["seq"]).as_u64().unwrap();
            assert!(from == expected || from == 1, "{from} comes where {expected} does");
            expected = event["seq"].as_u64().unwrap() + 1;
        }
        assert_eq!(client.shut_down(), 0);
    }

    #[test]
    fn who_is_detached_hears_nothing_and_who_is_attached_to_everything_hears_it_once() {
        let home = Home::playing(&HELLO.replace("turns: [{", "turns: [{ repeat: true,"));
        let progress = json!({ "capabilities": { "window": { "workDoneProgress": true } } });
        let mut client = Client::start(&home, Options::typed().with(progress));
        assert_eq!(client.request("roo/task/attach", json!({ "taskId": "*" })), json!({ "seq": 0 }));
        let task = client.start_task("Say hello");
        client.progress("end");
        assert_gapless(&client.numbered(&task), 1);
        client.request("roo/task/detach", json!({ "taskId": "*" }));
        client.seen.clear();
        client.request("roo/task/send", json!({ "taskId": task, "text": "again" }));
        // Progress is shown whether it is attached or not.
        client.progress("end");
        assert_eq!(client.numbered(&task), Vec::<Value>::new());
        assert_eq!(client.shut_down(), 0);
    }

    #[test]
    fn a_client_attaches_again_where_events_can_not_be_read_or_waits_until_the_request_begins_anew() {
        let asks = "{ tool: ask_followup_question, params: { question: Which?, follow_up: [{ text: this }, { text: that }] } }";
        let ends = "{ tool: attempt_completion, params: { result: Done. } }";
        let home =
            Home::playing(&format!("turns: [{{ calls: [{asks}] }}, {{ repeat: true, calls: [{ends}] }}]"));
        let mut client = Client::start(&home, Options::typed());
        let task = client.start_task("Ask");
        let question = client.event("question.asked")["event"]["questionId"].clone();
        client.kill();
        let mut client = Client::start(&home, Options::typed());
        client.request("roo/task/attach", json!({ "taskId": "*" }));
        let all = json!({ "taskId": task, "afterSeq": 0 });
        client.request("roo/task/attach", all.clone());
        client.state("interrupted");
        let newest = client.numbered(&task).last().unwrap()["seq"].as_u64();
        // It lives here by now, so nothing but its older events is read from the file.
        let (log, aside) = (home.log(&task), home.path("aside"));
        std::fs::rename(&log, &aside).unwrap();
        std::fs::create_dir(&log).unwrap();
        client.request("roo/task/attach", all.clone());
        let told = client.event("server.degraded");
        assert_eq!((&told["rootId"], &told["event"]["until"]), (&json!(task), &json!("attached")));
        std::fs::remove_dir(&log).unwrap();
        std::fs::rename(&aside, &log).unwrap();
        // Without attaching again it hears nothing more of it, until the request begins again.
        client.seen.clear();
        client.request("roo/task/resume", json!({ "taskId": task }));
        client.request("roo/question/answer", json!({ "questionId": question, "text": "this" }));
        let get = json!({ "taskId": task });
        eventually("the end", || client.request("roo/task/get", get.clone())["state"] == "completed");
        assert_eq!(client.numbered(&task), Vec::<Value>::new());
        // The end of the request is a moment before that of the actor.
        eventually("an event", || {
            client.request("roo/task/send", json!({ "taskId": task, "text": "Go on" }));
            !client.numbered(&task).is_empty()
        });
        client.request("roo/task/attach", all);
        // What is sent for it comes behind the answer.
        client.seen.clear();
        client.pump("all events", |client| {
            let last = client.numbered(&task).last()?["seq"].as_u64();
            (last > newest).then_some(())
        });
        assert_gapless(&client.numbered(&task), 1);
        assert_eq!(client.shut_down(), 0);
    }

    #[test]
    fn an_approval_is_answered_once() {
        let home = Home::playing(WRITES);
        let mut client = Client::start(&home, Options::typed());
        let task = client.start_task("Write");
        let asked = client.event("approval.requested")["event"].clone();
        let snapshot = client.request("roo/task/get", json!({ "taskId": task }));
        assert_eq!(snapshot["state"], "waiting");
        let answer = |option: &str, digest: &Value| json!({ "approvalId": asked["approvalId"], "digest": digest, "optionId": option });
        let wrong = json!(format!("sha256:{}", "0".repeat(64)));
        let error = client.refused("roo/approval/respond", answer("allow_once", &wrong));
        assert_eq!(error["data"]["kind"], "mismatch");
        let error = client.refused("roo/approval/respond", answer("no_such", &asked["digest"]));
        assert_eq!(error["data"]["kind"], "mismatch");
        let accepted = json!({ "accepted": true, "by": "test-editor" });
        assert_eq!(client.request("roo/approval/respond", answer("allow_once", &asked["digest"])), accepted);
        let resolved = client.event("approval.resolved");
        assert_eq!(resolved["event"]["by"], "test-editor");
        let late = client.request("roo/approval/respond", answer("reject_once", &asked["digest"]));
        assert_eq!(late["accepted"], false);
        assert_eq!(client.state("completed")["event"]["result"], "Written.");
        assert_eq!(std::fs::read_to_string(home.work("new.txt")).unwrap(), "one\n");
        assert_eq!(client.shut_down(), 0);
    }

    #[test]
    fn an_approval_is_previewed_as_whole_texts() {
        let home = Home::playing(
            r#"
turns:
  - calls: [{ tool: write_to_file, params: { path: new.txt, content: "one\n" } }]
  - calls: [{ tool: search_and_replace, params: { path: a.txt, search: two, replace: three } }]
  - calls: [{ tool: execute_command, params: { command: "touch b.txt" } }]
  - calls: [{ tool: attempt_completion, params: { result: Done. } }]
"#,
        );
        std::fs::write(home.work("a.txt"), "one\ntwo\n").unwrap();
        let mut client = Client::start(&home, Options::typed());
        let unsaved = client.open(&home.work("a.txt"), "zero\none\ntwo\n");
        client.start_task("Write");
        let asked = client.event("approval.requested")["event"].clone();
        let subject = asked["subject"].as_str().unwrap();
        assert_eq!(subject, "--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1 @@\n+one\n");
        let named = json!({ "approvalId": asked["approvalId"] });
        let new = json!({ "files": [{ "uri": uri(&home.work("new.txt")), "after": "one\n" }] });
        let mut preview = client.request("roo/approval/preview", named.clone());
        assert_eq!(taken_hunks(&mut preview["files"]), ["h1"]);
        assert_eq!(preview, new);
        client.request("roo/approval/respond", allowed(&asked));
        // What waits no more is not previewed.
        let asked = client.event("approval.requested")["event"].clone();
        assert_eq!(client.refused("roo/approval/preview", named)["data"]["kind"], "notFound");
        let named = json!({ "approvalId": asked["approvalId"] });
        let edited = json!({ "files": [{ "uri": unsaved, "before": "zero\none\ntwo\n", "after": "zero\none\nthree\n" }] });
        let mut preview = client.request("roo/approval/preview", named.clone());
        assert_eq!(taken_hunks(&mut preview["files"]), ["h1"]);
        assert_eq!(preview, edited);
        let all = json!({ "start": { "line": 0, "character": 0 }, "end": { "line": 9, "character": 0 } });
        client.change(&unsaved, all.clone(), "nothing of it");
        assert_eq!(client.refused("roo/approval/preview", named)["data"]["kind"], "mismatch");
        client.change(&unsaved, all, "zero\none\ntwo\n");
        client.request("roo/approval/respond", allowed(&asked));
        let asked = client.event("approval.requested")["event"].clone();
        let named = json!({ "approvalId": asked["approvalId"] });
        assert_eq!(client.request("roo/approval/preview", named), json!({ "files": [] }));
        client.request("roo/approval/respond", allowed(&asked));
        client.state("completed");
        assert_eq!(client.shut_down(), 0);
    }

    fn allowed(asked: &Value) -> Value {
        json!({ "approvalId": asked["approvalId"], "digest": asked["digest"], "optionId": "allow_once" })
    }

    #[test]
    fn a_question_is_answered_with_any_text() {
        let home = Home::playing(ASKS);
        let mut client = Client::start(&home, Options::typed());
        client.start_task("Ask me");
        let asked = client.event("question.asked")["event"].clone();
        assert_eq!(asked["suggestions"][1]["text"], "that");
        client
            .request("roo/question/answer", json!({ "questionId": asked["questionId"], "text": "neither" }));
        assert_eq!(client.state("completed")["event"]["result"], "Something else.");
        assert_eq!(client.shut_down(), 0);
    }

    #[test]
    fn a_task_is_cancelled_and_deleted() {
        let home = Home::playing(SLOW);
        let mut client = Client::start(&home, Options::typed());
        let task = client.start_task("Tell me a story");
        client.event("message.delta");
        let params = json!({ "taskId": task });
        assert_eq!(client.refused("roo/task/delete", params.clone())["data"]["kind"], "wrongState");
        client.request("roo/task/cancel", params.clone());
        client.state("cancelled");
        client.request("roo/task/delete", params.clone());
        assert_eq!(client.request("roo/task/list", json!({})), json!({ "items": [] }));
        assert_eq!(client.refused("roo/task/get", params)["data"]["kind"], "notFound");
        assert_eq!(client.shut_down(), 0);
    }

    #[test]
    fn a_task_outlives_the_death_of_its_server() {
        let home = Home::playing(WRITES);
        let mut client = Client::start(&home, Options::typed());
        let task = client.start_task("Write");
        client.event("approval.requested");
        let before = client.numbered(&task);
        client.kill();

        let mut client = Client::start(&home, Options::typed());
        let list = client.request("roo/task/list", json!({}));
        assert_eq!(
            (&list["items"][0]["taskId"], &list["items"][0]["state"]),
            (&json!(task), &json!("interrupted"))
        );
        let snapshot = client.request("roo/task/get", json!({ "taskId": task }));
        assert_eq!(snapshot["state"], "interrupted");
        client.request("roo/task/attach", json!({ "taskId": task, "afterSeq": 0 }));
        client.state("interrupted");
        let replayed = client.numbered(&task);
        assert_gapless(&replayed, 1);
        let facts = |events: &[Value]| -> Vec<Value> {
            events.iter().filter(|event| event["event"]["type"] != "message").cloned().collect()
        };
        let (old, new) = (facts(&before), facts(&replayed));
        assert_eq!(old[..], new[..old.len()], "the same events, then more");
        client.request("roo/task/resume", json!({ "taskId": task }));
        approve(&mut client, replayed.len() as u64);
        assert_eq!(client.state("completed")["event"]["result"], "Written.");
        assert_gapless(&client.numbered(&task), 1);
        assert_eq!(client.shut_down(), 0);
    }

    /// Allows what the task asks after this event.
    fn approve(client: &mut Client, after: u64) {
        let asked = client.wait_for("an approval", |message| {
            message["params"]["event"]["type"] == "approval.requested"
                && message["params"]["seq"].as_u64() > Some(after)
        })["params"]["event"]
            .clone();
        let answer = json!({
            "approvalId": asked["approvalId"], "digest": asked["digest"], "optionId": "allow_once",
        });
        client.request("roo/approval/respond", answer);
    }

    #[test]
    fn a_client_that_does_not_read_keeps_no_task_from_its_end() {
        let story = "word ".repeat(100_000);
        let home = Home::playing(&format!(
            "turns: [{{ text: \"{story}\", chunk: 5, calls: [{{ tool: attempt_completion, params: {{ result: Done. }} }}] }}]"
        ));
        let mut client = Client::start(&home, Options::typed());
        let task = client.start_task("Tell me a long story");
        client.set_reading(false);
        eventually("the end of the task, though nobody reads", || {
            std::fs::read_to_string(home.log(&task)).unwrap_or_default().contains("\"Done.\"")
        });
        client.set_reading(true);
        client.state("completed");
        assert_gapless(&client.numbered(&task), 1);
        let deltas = client.seen.iter().filter(|m| m["params"]["event"]["type"] == "message.delta").count();
        assert!(deltas < 2000, "100 000 pieces became {deltas} deltas");
        assert_eq!(client.shut_down(), 0);
    }

    #[test]
    fn two_servers_on_one_workspace_do_not_drive_one_task() {
        let home = Home::playing(SLOW);
        let mut one = Client::start(&home, Options::typed());
        let task = one.start_task("Tell me a story");
        one.event("message.delta");
        let mut two = Client::start(&home, Options::typed());
        assert_eq!(two.request("roo/task/list", json!({}))["items"][0]["state"], "running");
        let error = two.refused("roo/task/send", json!({ "taskId": task, "text": "hello" }));
        assert_eq!(error["data"]["kind"], "heldElsewhere");
        assert_eq!(two.shut_down(), 0);
        assert_eq!(one.shut_down(), 0);
    }
}

mod documents {
    use super::*;

    const EDITS: &str = r#"
turns:
  - calls: [{ tool: search_and_replace, params: { path: a.txt, search: "🦀 new", replace: "🦀 newest" } }]
  - { when: { status: ok }, calls: [{ tool: attempt_completion, params: { result: Edited. } }] }
  - { when: { status: failed }, calls: [{ tool: attempt_completion, params: { result: Refused. } }] }
"#;

    /// Writes without asking; that needs an editor's say only.
    fn home() -> Home {
        let home = Home::playing(EDITS);
        home.configure("autoApprove: { write: true }\n");
        std::fs::write(home.work("a.txt"), "on disk\n").unwrap();
        home
    }

    #[test]
    fn edits_reach_the_buffer_in_every_encoding() {
        for (encodings, start, end) in [
            (json!(["utf-8", "utf-16"]), 8, 11),
            (json!(["utf-16"]), 5, 8),
            (json!(["utf-32"]), 4, 7),
            (json!(null), 5, 8),
        ] {
            let home = home();
            let general = json!({ "general": { "positionEncodings": encodings } });
            let mut client = Client::start(&home, Options::typed().with(json!({ "capabilities": general })));
            let uri = client.open(&home.work("a.txt"), "first\né 🦀 old\nlast\n");
            // `old` becomes `new`; where it stands depends on the encoding.
            let range = json!({
                "start": { "line": 1, "character": start }, "end": { "line": 1, "character": end },
            });
            client.change(&uri, range, "new");
            assert_eq!(client.documents[&uri].text, "first\né 🦀 new\nlast\n", "{encodings}");
            client.start_task("Edit");
            assert_eq!(client.state("completed")["event"]["result"], "Edited.", "{encodings}");
            assert_eq!(client.documents[&uri].text, "first\né 🦀 newest\nlast\n");
            assert_eq!(std::fs::read_to_string(home.work("a.txt")).unwrap(), "on disk\n");
            assert_eq!(client.shut_down(), 0);
        }
    }

    /// Editors spell a file's name in different ways, and know it again only by their own.
    #[test]
    fn a_uri_may_be_encoded_or_raw() {
        for name in ["a b é.txt", "a%20b%20%C3%A9.txt"] {
            let home = Home::playing(&EDITS.replace("a.txt", "a b é.txt"));
            home.configure("autoApprove: { write: true }\n");
            std::fs::write(home.work("a b é.txt"), "🦀 new\n").unwrap();
            let mut client = Client::start(&home, Options::typed());
            let uri = client.open(&home.work(name), "in the buffer: 🦀 old\n");
            // UTF-8 is settled.
            let range = json!({
                "start": { "line": 0, "character": 20 }, "end": { "line": 0, "character": 23 },
            });
            client.change(&uri, range, "new");
            client.start_task("Edit");
            assert_eq!(client.state("completed")["event"]["result"], "Edited.", "{name}");
            assert_eq!(client.documents[&uri].text, "in the buffer: 🦀 newest\n", "{name}");
            assert_eq!(client.shut_down(), 0);
        }
    }

    #[test]
    fn an_edit_that_the_editor_refuses_is_told_to_the_model() {
        let home = home();
        let mut client = Client::start(&home, Options::typed());
        let uri = client.open(&home.work("a.txt"), "🦀 new\n");
        client.refuse_edits = Some("read-only buffer".into());
        client.start_task("Edit");
        assert_eq!(client.state("completed")["event"]["result"], "Refused.");
        assert_eq!(client.documents[&uri].text, "🦀 new\n");
        let log = std::fs::read_to_string(home.log(&client.numbered_root())).unwrap();
        assert!(log.contains("read-only buffer"));
        assert_eq!(client.shut_down(), 0);
    }

    #[test]
    fn a_closed_file_is_written_on_disk() {
        let home = home();
        std::fs::write(home.work("a.txt"), "🦀 new\n").unwrap();
        let mut client = Client::start(&home, Options::typed());
        let uri = client.open(&home.work("a.txt"), "in the buffer\n");
        client.notify("textDocument/didClose", json!({ "textDocument": { "uri": uri } }));
        client.start_task("Edit");
        assert_eq!(client.state("completed")["event"]["result"], "Edited.");
        assert_eq!(std::fs::read_to_string(home.work("a.txt")).unwrap(), "🦀 newest\n");
        assert_eq!(client.shut_down(), 0);
    }

    const PATCH: &str = r#"
turns:
  - calls: [{ tool: read_file, params: { files: [{ path: a.txt }, { path: b.txt }, { path: closed.txt }] } }]
  - calls:
      - tool: apply_patch
        params:
          patch: |
            *** Begin Patch
            *** Update File: a.txt
            -old
            +new
            *** Update File: closed.txt
            -old
            +new
            *** Update File: b.txt
            -old
            +new
            *** Add File: docs/new.md
            +# New
            *** End Patch
  - { when: { status: ok }, calls: [{ tool: attempt_completion, params: { result: Patched. } }] }
  - { when: { status: failed }, calls: [{ tool: attempt_completion, params: { result: Refused. } }] }
"#;

    /// Two documents with unsaved text, and a file that nobody has open.
    fn two_dirty(script: &str, settings: &str) -> (Home, Client, [String; 2]) {
        let home = Home::playing(script);
        home.configure(settings);
        for name in ["a.txt", "b.txt", "closed.txt"] {
            std::fs::write(home.work(name), "on disk\nold\n").unwrap();
        }
        let operations = json!({ "resourceOperations": ["create", "rename", "delete"] });
        let edits = json!({ "capabilities": { "workspace": { "workspaceEdit": operations } } });
        let mut client = Client::start(&home, Options::typed().with(edits));
        let uris = ["a.txt", "b.txt"].map(|name| {
            let uri = client.open(&home.work(name), "on disk\nold\n");
            let line = json!({ "line": 0, "character": 0 });
            client.change(&uri, json!({ "start": line, "end": line }), "unsaved, ");
            uri
        });
        (home, client, uris)
    }

    fn edits_of(client: &Client) -> Vec<&Value> {
        client.seen.iter().filter(|message| message["method"] == "workspace/applyEdit").collect()
    }

    #[test]
    fn a_patch_changes_open_and_closed_files_together() {
        let (home, mut client, uris) = two_dirty(PATCH, "autoApprove: { write: true }\n");
        client.start_task("Patch");
        assert_eq!(client.state("completed")["event"]["result"], "Patched.");
        for uri in &uris {
            assert_eq!(client.documents[uri].text, "unsaved, on disk\nnew\n");
        }
        let disk = |name: &str| std::fs::read_to_string(home.work(name)).unwrap_or_default();
        assert_eq!(disk("a.txt"), "on disk\nold\n", "what is open is not saved");
        assert_eq!(disk("closed.txt"), "on disk\nnew\n");
        assert_eq!(disk("docs/new.md"), "# New\n");
        let edits = edits_of(&client);
        assert_eq!(edits.len(), 1, "one request for all that is open");
        let changes = edits[0]["params"]["edit"]["documentChanges"].as_array().unwrap();
        assert_eq!(
            changes.iter().map(|one| &one["textDocument"]["uri"]).collect::<Vec<_>>(),
            uris.each_ref()
        );
        assert_eq!(client.shut_down(), 0);
    }

    #[test]
    fn a_patch_that_the_editor_refuses_changes_nothing_anywhere() {
        let (home, mut client, uris) = two_dirty(PATCH, "autoApprove: { write: true }\n");
        client.refuse_edits = Some("read-only buffer".into());
        client.start_task("Patch");
        assert_eq!(client.state("completed")["event"]["result"], "Refused.");
        for uri in &uris {
            assert_eq!(client.documents[uri].text, "unsaved, on disk\nold\n");
        }
        let mut names: Vec<String> = std::fs::read_dir(home.work("."))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| !name.starts_with('.') || name.ends_with(".tmp"))
            .collect();
        names.sort();
        names.retain(|name| name != "docs" || std::fs::read_dir(home.work("docs")).unwrap().count() > 0);
        assert_eq!(names, ["a.txt", "b.txt", "closed.txt"]);
        assert_eq!(std::fs::read_to_string(home.work("closed.txt")).unwrap(), "on disk\nold\n");
        let log = std::fs::read_to_string(home.log(&client.numbered_root())).unwrap();
        assert!(log.contains("read-only buffer"));
        assert_eq!(client.shut_down(), 0);
    }

    #[test]
    fn an_editor_deletes_and_renames_what_it_has_open() {
        let script = PATCH
            .replace(
                "*** Update File: a.txt\n            -old\n            +new\n",
                "*** Delete File: a.txt\n",
            )
            .replace("*** Update File: b.txt\n", "*** Update File: b.txt\n            *** Move to: c.txt\n");
        let (home, mut client, uris) = two_dirty(&script, "autoApprove: { write: true }\n");
        client.start_task("Patch");
        assert_eq!(client.state("completed")["event"]["result"], "Patched.");
        assert!(uris.iter().all(|uri| !client.documents.contains_key(uri)));
        assert!(!home.work("a.txt").exists() && !home.work("b.txt").exists());
        assert_eq!(client.documents[&uri(&home.work("c.txt"))].text, "unsaved, on disk\nnew\n");
        let edits = edits_of(&client);
        let changes = edits[0]["params"]["edit"]["documentChanges"].as_array().unwrap();
        let kinds: Vec<&str> = changes.iter().map(|one| one["kind"].as_str().unwrap_or("edit")).collect();
        assert_eq!(kinds, ["delete", "rename", "edit"]);
        assert_eq!(client.shut_down(), 0);
    }

    #[test]
    fn one_approval_shows_every_file_of_a_patch() {
        let (home, mut client, uris) = two_dirty(PATCH, "");
        client.start_task("Patch");
        let approval = client.event("approval.requested")["event"].clone();
        let title = approval["title"].as_str().unwrap();
        assert!(title.starts_with("Change 4 files: a.txt, closed.txt, b.txt, docs/new.md"), "{title}");
        for part in ["+++ b/a.txt", "+++ b/closed.txt", "+++ b/b.txt", "+++ b/docs/new.md", "+# New"] {
            assert!(approval["subject"].as_str().unwrap().contains(part), "{approval}");
        }
        let named = json!({ "approvalId": approval["approvalId"] });
        let mut files = client.request("roo/approval/preview", named)["files"].clone();
        assert_eq!(taken_hunks(&mut files), ["h1", "h2", "h3", "h4"]);
        let (old, new) = ("unsaved, on disk\nold\n", "unsaved, on disk\nnew\n");
        assert_eq!(
            files,
            json!([
                { "uri": uris[0], "before": old, "after": new },
                { "uri": uri(&home.work("closed.txt")), "before": "on disk\nold\n", "after": "on disk\nnew\n" },
                { "uri": uris[1], "before": old, "after": new },
                { "uri": uri(&home.work("docs/new.md")), "after": "# New\n" },
            ])
        );
        let answer = json!({
            "approvalId": approval["approvalId"], "digest": approval["digest"], "optionId": "allow_once",
        });
        client.request("roo/approval/respond", answer);
        assert_eq!(client.state("completed")["event"]["result"], "Patched.");
        assert_eq!(client.shut_down(), 0);
    }

    /// A workspace whose server was killed after the first of a patch's files had changed.
    fn half_patched() -> Home {
        let home = Home::playing(PATCH);
        home.configure("autoApprove: { write: true }\n");
        for name in ["a.txt", "b.txt", "closed.txt"] {
            std::fs::write(home.work(name), "old\n").unwrap();
        }
        let mut options = Options::typed();
        options.environment.push(("ROO_LSP_CRASH_AFTER_STEPS", "12".to_owned()));
        let mut client = Client::start(&home, options);
        client.start_task("Patch");
        assert_eq!(client.exit_code(), -1);
        let holds = |name: &str| std::fs::read_to_string(home.work(name)).unwrap();
        assert_eq!((holds("a.txt").as_str(), holds("b.txt").as_str()), ("new\n", "old\n"));
        home
    }

    #[test]
    fn the_next_server_completes_what_a_killed_one_had_begun() {
        let home = half_patched();
        let client = Client::start(&home, Options::typed());
        eventually("all files of the patch", || {
            let holds = |name: &str| std::fs::read_to_string(home.work(name)).unwrap_or_default();
            ["a.txt", "closed.txt", "b.txt"].iter().all(|name| holds(name) == "new\n")
                && holds("docs/new.md") == "# New\n"
        });
        assert_eq!(client.shut_down(), 0);
    }

    #[test]
    fn the_next_server_tells_of_what_it_can_not_complete() {
        let home = half_patched();
        std::fs::write(home.work("b.txt"), "somebody's\n").unwrap();
        let mut client = Client::start(&home, Options::typed());
        let told = client.wait_for("the message", |m| m["method"] == "window/showMessage");
        let message = told["params"]["message"].as_str().unwrap();
        assert!(message.contains("can't be completed") && message.contains("b.txt"), "{message}");
        assert_eq!(std::fs::read_to_string(home.work("b.txt")).unwrap(), "somebody's\n");
        assert_eq!(client.shut_down(), 0);
    }

    /// An approval of a patch that waits in an editor with a preview.
    fn reviewing() -> (Home, Client, [String; 2], Value) {
        let home = Home::playing(PATCH);
        for name in ["a.txt", "b.txt", "closed.txt"] {
            std::fs::write(home.work(name), "old\n").unwrap();
        }
        let edits = json!({
            "resourceOperations": ["create", "rename", "delete"],
            "changeAnnotationSupport": { "groupsOnLabel": true },
        });
        let edits = json!({ "capabilities": { "workspace": { "workspaceEdit": edits } } });
        let mut client = Client::start(&home, Options::typed().with(edits));
        let uris = ["a.txt", "b.txt"].map(|name| client.open(&home.work(name), "old\n"));
        client.start_task("Patch");
        let approval = client.event("approval.requested")["event"].clone();
        assert_eq!(approval["reviewable"], true);
        (home, client, uris, approval)
    }

    fn review(client: &mut Client, approval: &Value) {
        let argument = json!({ "approvalId": approval["approvalId"] });
        let command = json!({ "command": "roo.reviewInRefactorPreview", "arguments": [argument] });
        assert_eq!(client.request("workspace/executeCommand", command)["accepted"], true);
    }

    /// What the model is told of the patch.
    fn told_of_patch(home: &Home, client: &Client) -> (String, String) {
        let log = std::fs::read_to_string(home.log(&client.numbered_root())).unwrap();
        let records = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let mut results = records.filter(|record| record["event"]["result"]["name"] == "apply_patch");
        let result = results.next_back().unwrap()["event"]["result"].clone();
        (result["status"].as_str().unwrap().to_owned(), result["text"].as_str().unwrap().to_owned())
    }

    #[test]
    fn what_the_user_takes_of_a_patch_happens_and_the_model_is_told_of_the_rest() {
        let (home, mut client, uris, approval) = reviewing();
        client.unticked = vec!["b.txt".to_owned()];
        review(&mut client, &approval);
        assert_eq!(client.state("completed")["event"]["result"], "Patched.");
        let edits = edits_of(&client);
        assert_eq!(edits.len(), 1);
        let edit = &edits[0]["params"]["edit"];
        assert_eq!(edit["changeAnnotations"]["roo"]["needsConfirmation"], true);
        assert_eq!(client.documents[&uris[0]].text, "new\n");
        assert_eq!(client.documents[&uris[1]].text, "old\n");
        assert_eq!(client.documents[&uri(&home.work("closed.txt"))].text, "new\n");
        assert_eq!(client.documents[&uri(&home.work("docs/new.md"))].text, "# New\n");
        let (status, text) = told_of_patch(&home, &client);
        assert_eq!(status, "ok");
        for part in [
            "<path>a.txt</path><operation>modified</operation>",
            "<path>b.txt</path><operation>left out by the user; it is as it was</operation>",
            "<path>closed.txt</path><operation>modified</operation>",
            "<path>docs/new.md</path><operation>created</operation>",
        ] {
            assert!(text.contains(part), "{text}");
        }
        // The trace has what happened, and nothing else.
        let trace = client.request("roo/trace/query", json!({}))["records"].to_string();
        assert!(
            trace.contains("a.txt") && trace.contains("docs/new.md") && !trace.contains("b.txt"),
            "{trace}"
        );
        assert_eq!(client.shut_down(), 0);
    }

    #[test]
    fn a_patch_of_which_the_user_takes_nothing_is_denied() {
        let (home, mut client, uris, approval) = reviewing();
        client.refuse_edits = Some("discarded".into());
        review(&mut client, &approval);
        client.event("tool.finished");
        let (status, text) = told_of_patch(&home, &client);
        assert_eq!(status, "denied");
        assert!(text.contains("accepted none of them"), "{text}");
        assert_eq!(client.documents[&uris[0]].text, "old\n");
        assert!(!home.work("docs/new.md").exists());
        assert_eq!(client.shut_down(), 0);
    }

    #[test]
    fn only_an_editor_with_a_preview_and_only_several_files_are_reviewed() {
        let (_home, mut client, _) = two_dirty(PATCH, "");
        client.start_task("Patch");
        let approval = client.event("approval.requested")["event"].clone();
        let answer = json!({
            "approvalId": approval["approvalId"], "digest": approval["digest"], "optionId": "review_once",
        });
        assert_eq!(client.refused("roo/approval/respond", answer.clone())["data"]["kind"], "mismatch");
        assert_eq!(client.shut_down(), 0);
        let one = PATCH.split("            *** Update File: closed.txt").next().unwrap();
        let (_home, mut client, _) = two_dirty(&format!("{one}            *** End Patch\n"), "");
        client.start_task("Patch");
        let approval = client.event("approval.requested")["event"].clone();
        assert_eq!(approval.get("reviewable"), None);
        assert_eq!(client.shut_down(), 0);
    }

    #[test]
    fn a_command_sees_the_text_of_the_buffers() {
        let home = Home::playing(
            r#"
turns:
  - calls: [{ tool: execute_command, params: { command: "cat a.txt" } }]
  - { when: { contains: unsaved words }, calls: [{ tool: attempt_completion, params: { result: Seen. } }] }
"#,
        );
        home.configure("autoApprove: { execute: { allow: [[cat]] } }\n");
        std::fs::write(home.work("a.txt"), "on disk\n").unwrap();
        let mut client = Client::start(&home, Options::typed());
        let uri = client.open(&home.work("a.txt"), "on disk\n");
        let end = json!({ "line": 0, "character": 7 });
        client.change(&uri, json!({ "start": end, "end": end }), " and unsaved words");
        client.start_task("Look");
        assert_eq!(client.state("completed")["event"]["result"], "Seen.");
        assert_eq!(client.shut_down(), 0);
    }
}

mod settings {
    use super::*;

    #[test]
    fn a_mistake_in_the_file_is_shown_at_its_place_and_no_task_begins_before_it_is_corrected() {
        let home = Home::playing(HELLO);
        let script = home.path("script.yaml");
        home.configure("limits:\n  requests: many\n");
        let profile = json!({ "provider": "scripted", "script": script });
        let options = json!({ "roo": { "profiles": { "default": profile } } });
        let mut client =
            Client::start(&home, Options::typed().with(json!({ "initializationOptions": options })));
        let shown = client.wait_for("diagnostics", |m| m["method"] == "textDocument/publishDiagnostics");
        assert_eq!(shown["params"]["uri"], uri(&home.config_file()));
        let diagnostic = &shown["params"]["diagnostics"][0];
        assert_eq!(diagnostic["range"]["start"], json!({ "line": 3, "character": 12 }));
        assert!(diagnostic["message"].as_str().unwrap().starts_with("limits.requests: "), "{diagnostic}");
        // What the file was to refuse is not known.
        let refused = client.refused("roo/task/start", json!({ "prompt": "Say hello" }));
        assert_eq!(refused["data"]["kind"], "configuration");
        assert!(
            refused["message"].as_str().unwrap().contains("config.yaml:4:13: limits.requests: "),
            "{refused}"
        );
        home.configure("limits: { requests: 7 }\nlimts: {}\n");
        client.open(&home.config_file(), &std::fs::read_to_string(home.config_file()).unwrap());
        let shown = client.wait_for("diagnostics", |m| m["method"] == "textDocument/publishDiagnostics");
        let left = shown["params"]["diagnostics"].as_array().unwrap();
        assert_eq!(left.len(), 1, "{shown}");
        assert_eq!(left[0]["severity"], 2);
        client.start_task("Say hello");
        client.state("completed");
        assert_eq!(client.shut_down(), 0);
    }

    #[test]
    fn a_workspace_takes_away_and_gives_nothing() {
        let home = Home::playing(WRITES);
        home.configure("autoApprove: { write: true }\n");
        let options =
            Options::typed().with(json!({ "capabilities": { "workspace": { "configuration": true } } }));
        let options = Options { configuration: json!({ "autoApprove": { "write": false } }), ..options };
        let mut client = Client::start(&home, options);
        client.start_task("Write");
        client.event("approval.requested");
        client.shut_down();

        home.configure("");
        let options =
            Options::typed().with(json!({ "capabilities": { "workspace": { "configuration": true } } }));
        let options = Options { configuration: json!({ "autoApprove": { "write": true } }), ..options };
        let mut client = Client::start(&home, options);
        client.start_task("Write");
        client.event("approval.requested");
        client.shut_down();
    }

    #[test]
    fn no_task_starts_before_the_client_says_what_the_workspace_refuses() {
        let home = Home::playing(WRITES);
        home.configure("autoApprove: { write: true }\n");
        let options =
            Options::typed().with(json!({ "capabilities": { "workspace": { "configuration": true } } }));
        let mut client = Client::start(&home, Options { holds_configuration: true, ..options });
        let asked = client.wait_for("the question", |message| message["method"] == "workspace/configuration");
        let start = client.ask("roo/task/start", json!({ "prompt": "Write", "mode": "code" }));
        client.message("has not sent its settings yet");
        assert!(!home.work("new.txt").exists());
        client.reply(&asked, json!([{ "autoApprove": { "write": false } }]));
        assert!(client.answer(start)["result"]["taskId"].is_string());
        client.event("approval.requested");
        assert!(!home.work("new.txt").exists());
        client.shut_down();
    }

    #[test]
    fn a_late_answer_about_changed_settings_counts() {
        let home = Home::playing(WRITES);
        home.configure("autoApprove: { write: true }\n");
        let options =
            Options::typed().with(json!({ "capabilities": { "workspace": { "configuration": true } } }));
        let mut client = Client::start(&home, Options { holds_configuration: true, ..options });
        let question = |message: &Value| message["method"] == "workspace/configuration";
        let asked = client.wait_for("the question", question);
        client.reply(&asked, json!([{}]));
        client.request("roo/autoApprove/get", json!({}));
        client.notify("workspace/didChangeConfiguration", json!({ "settings": {} }));
        let asked = client.wait_for("the second question", question);
        // Others are answered meanwhile.
        client.request("roo/autoApprove/get", json!({}));
        client.reply(&asked, json!([{ "autoApprove": { "write": false } }]));
        client.wait_for("the changed settings", |message| message["method"] == "roo/settings/changed");
        client.start_task("Write");
        client.event("approval.requested");
        client.shut_down();
    }

    #[test]
    fn whoever_changes_the_folders_is_told_to_restart_the_server() {
        let home = Home::playing(HELLO);
        let mut client = Client::start(&home, Options::typed());
        let folders = &client.server["capabilities"]["workspace"]["workspaceFolders"];
        assert_eq!(folders, &json!({ "supported": true, "changeNotifications": true }));
        let work = home.path("work");
        let changed = |added: &[PathBuf], removed: &[PathBuf]| {
            let named = |folders: &[PathBuf]| -> Vec<Value> {
                folders.iter().map(|folder| json!({ "uri": uri(folder), "name": "folder" })).collect()
            };
            json!({ "event": { "added": named(added), "removed": named(removed) } })
        };
        let method = "workspace/didChangeWorkspaceFolders";
        // Agents work there already.
        client.notify(method, changed(&[work.join("inner")], &[]));
        client.notify(method, changed(&[home.path("other")], &[]));
        client.message("restart it for the changed ones");
        client.notify(method, changed(&[], &[work]));
        client.message("restart it for the changed ones");
        let told =
            client.seen.iter().filter(|message| message.to_string().contains("restart it for")).count();
        assert_eq!(told, 2);
        assert_eq!(client.shut_down(), 0);
    }

    #[test]
    fn another_version_of_the_protocol_turns_it_off_and_says_so() {
        let version = json!({ "experimental": { "roo": { "protocolVersion": 2 } } });
        let home = Home::playing(HELLO);
        let mut client = Client::start(&home, Options::plain().with(json!({ "capabilities": version })));
        assert!(client.server["capabilities"].get("experimental").is_none());
        client.message("version 1");
        assert_eq!(client.refused("roo/task/list", json!({}))["code"], -32601);
        client.command("roo.newTask", json!({ "prompt": "Say hello", "mode": "code" }));
        client.message("completed: Done.");
        assert!(client.seen.iter().all(|message| message["method"] != "roo/event"));
        assert_eq!(client.shut_down(), 0);
    }

    #[test]
    fn without_a_folder_a_task_still_runs() {
        let home = Home::playing(HELLO);
        let options = Options::typed().with(json!({ "rootUri": null, "workspaceFolders": null }));
        let mut client = Client::start(&home, options);
        client.start_task("Say hello");
        client.state("completed");
        assert_eq!(client.shut_down(), 0);
    }

    #[test]
    fn a_folder_that_is_not_there_is_left_out() {
        let home = Home::playing(HELLO);
        let gone = home.path("gone");
        let folders = json!([{ "uri": uri(&gone), "name": "gone" }, { "uri": uri(&home.path("work")), "name": "work" }]);
        let mut client = Client::start(&home, Options::typed().with(json!({ "workspaceFolders": folders })));
        client.message("gone");
        client.start_task("Say hello");
        client.state("completed");
        assert_eq!(client.shut_down(), 0);
    }
}

mod plain {
    use super::*;

    fn is_roo(message: &Value) -> bool {
        message["method"].as_str().is_some_and(|method| method.starts_with("roo/"))
    }

    #[test]
    fn an_approval_is_answered_in_a_popup() {
        let home = Home::playing(WRITES);
        let mut client = Client::start(&home, Options::plain());
        client.command("roo.newTask", json!({ "prompt": "Write", "mode": "code" }));
        let popup = client.popup();
        let titles: Vec<&str> = popup["params"]["actions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|action| action["title"].as_str().unwrap())
            .collect();
        let always = "Always allow edits of this workspace's files";
        assert_eq!(titles, ["Show details", "Deny", "Allow", always]);
        // Details are shown, and it is asked again.
        client.reply(&popup, json!({ "title": "Show details" }));
        let popup = client.popup();
        let uris = client.seen.iter().filter(|m| m["method"] == "window/showDocument");
        let mut uris = uris.filter_map(|m| m["params"]["uri"].as_str());
        let file = uris.find_map(|uri| uri.strip_prefix("file://").filter(|uri| uri.ends_with(".diff")));
        let file = file.unwrap();
        assert!(std::fs::read_to_string(file).unwrap().contains("+one"));
        client.reply(&popup, json!({ "title": "Allow" }));
        client.message("completed: Written.");
        assert!(!client.seen.iter().any(is_roo));
        assert_eq!(client.shut_down(), 0);
    }

    #[test]
    fn a_popup_that_is_closed_answers_nothing() {
        let home = Home::playing(WRITES);
        let mut client = Client::start(&home, Options::plain());
        client.command("roo.newTask", json!({ "prompt": "Write", "mode": "code" }));
        let popup = client.popup();
        client.reply(&popup, Value::Null);
        client.message("roo.approve");
        let status = client.command("roo.status", Value::Null);
        assert!(status["text"].as_str().unwrap().contains("1 waiting"), "{status}");
        assert!(client.popups.is_empty(), "it is not asked again by itself");
        client.command("roo.deny", json!("not now"));
        client.message("completed: Refused.");
        assert_eq!(client.shut_down(), 0);
    }

    #[test]
    fn the_first_answer_counts_and_a_late_one_is_thanked_for() {
        let home = Home::playing(WRITES);
        let mut client = Client::start(&home, Options::plain());
        client.command("roo.newTask", json!({ "prompt": "Write", "mode": "code" }));
        let popup = client.popup();
        assert_eq!(client.command("roo.approve", Value::Null)["accepted"], true);
        client.message("completed: Written.");
        client.reply(&popup, json!({ "title": "Deny" }));
        client.message(" answered first: ");
        assert_eq!(std::fs::read_to_string(home.work("new.txt")).unwrap(), "one\n");
        assert_eq!(client.shut_down(), 0);
    }

    #[test]
    fn one_popup_at_a_time() {
        let home = Home::playing(WRITES);
        let mut client = Client::start(&home, Options::plain());
        for _ in 0..2 {
            client.command("roo.newTask", json!({ "prompt": "Write", "mode": "code" }));
        }
        let first = client.popup();
        let mut waiting = BTreeSet::new();
        while waiting.len() < 2 {
            let shown = client.progress_message("code: waits for approval: Create new.txt");
            waiting.insert(shown["token"].as_str().unwrap().to_owned());
        }
        assert!(client.popups.is_empty());
        client.reply(&first, json!({ "title": "Deny" }));
        let second = client.popup();
        client.reply(&second, json!({ "title": "Deny" }));
        client.message("completed: Refused.");
        client.message("completed: Refused.");
        assert_eq!(client.shut_down(), 0);
    }

    #[test]
    fn a_popup_that_is_settled_elsewhere_is_taken_away_and_the_next_one_waits_for_that() {
        let home = Home::playing(WRITES);
        let mut client = Client::start(&home, Options::plain());
        client.command("roo.newTask", json!({ "prompt": "Write", "mode": "code" }));
        let first = client.popup();
        client.command("roo.deny", json!("not now"));
        let cancelled = client.wait_for("a cancellation", |message| message["method"] == "$/cancelRequest");
        assert_eq!(cancelled["params"]["id"], first["id"]);
        client.message("completed: Refused.");
        for _ in 0..2 {
            client.command("roo.newTask", json!({ "prompt": "Write", "mode": "code" }));
            client.progress_message("code: waits for approval: Create new.txt");
        }
        assert!(client.popups.is_empty(), "the client has not let go of the first one");
        client.refuse(&first, -32800, "cancelled");
        for asked in ["roo asks (1 of 2): Create new.txt", "roo asks: Create new.txt"] {
            let popup = client.popup();
            assert!(popup["params"]["message"].as_str().unwrap().starts_with(asked), "{popup}");
            client.reply(&popup, json!({ "title": "Deny" }));
            client.message("completed: Refused.");
        }
        assert_eq!(client.shut_down(), 0);
    }

    #[test]
    fn a_popup_that_the_client_never_closes_silences_nothing() {
        let home = Home::playing(WRITES);
        let mut client = Client::start(&home, Options::plain());
        client.command("roo.newTask", json!({ "prompt": "Write", "mode": "code" }));
        let kept = client.popup();
        client.command("roo.deny", json!("not now"));
        client.message("completed: Refused.");
        client.command("roo.newTask", json!({ "prompt": "Write", "mode": "code" }));
        let told = client.message("Run roo.approve, roo.deny or roo.showDiff.");
        assert!(told["message"].as_str().unwrap().starts_with("roo asks: Create new.txt"), "{told}");
        client.command("roo.setUpModel", json!({}));
        client.message("another question is still open in your editor");
        assert!(client.popups.is_empty(), "one popup at a time");
        assert_eq!(client.command("roo.approve", Value::Null)["accepted"], true);
        client.message("completed: Written.");
        // What is still a question comes when the client lets go of the first one.
        client.reply(&kept, Value::Null);
        let setup = client.popup();
        assert_eq!(setup["params"]["message"], "roo: Who serves the model?");
        client.reply(&setup, Value::Null);
        assert_eq!(client.shut_down(), 0);
    }

    #[test]
    fn a_question_is_answered_by_a_popup_or_by_the_number_of_a_suggestion() {
        let home = Home::playing(ASKS);
        let mut client = Client::start(&home, Options::plain());
        client.command("roo.newTask", json!({ "prompt": "Ask me", "mode": "code" }));
        let popup = client.popup();
        assert_eq!(popup["params"]["actions"][0]["title"], "Later");
        client.reply(&popup, json!({ "title": "that" }));
        client.message("completed: That.");
        client.command("roo.newTask", json!({ "prompt": "Ask me again", "mode": "code" }));
        let popup = client.popup();
        client.command("roo.answer", json!(2));
        client.message("completed: That.");
        client.reply(&popup, Value::Null);
        client.command("roo.newTask", json!({ "prompt": "Ask me", "mode": "code" }));
        let popup = client.popup();
        client.command("roo.answer", json!(8080));
        client.message("answered: Which?");
        client.message("completed: Something else.");
        client.reply(&popup, Value::Null);
        assert_eq!(client.shut_down(), 0);
    }

    #[test]
    fn a_long_question_comes_whole_and_offers_its_task() {
        let ways = "There are three ways to do this, and each has its price. ".repeat(6);
        let home = Home::playing(&ASKS.replace("Which?", &format!("\"{ways}Which?\"")));
        let mut client = Client::start(&home, Options::plain());
        client.command("roo.newTask", json!({ "prompt": "Ask me", "mode": "code" }));
        let popup = client.popup();
        assert_eq!(popup["params"]["message"], format!("roo asks: {ways}Which?"));
        assert_eq!(popup["params"]["actions"][0]["title"], "Show the task");
        client.reply(&popup, json!({ "title": "Show the task" }));
        // It is shown, and asked again.
        let popup = client.popup();
        client.until_document("/task.md", "Which?");
        client.reply(&popup, Value::Null);
        client.message(&format!("{ways}Which? Run roo.answer with your answer."));
        let status = client.command("roo.status", Value::Null);
        assert!(status["text"].as_str().unwrap().contains("Which? (roo.answer)"), "{status}");
        client.command("roo.answer", json!(2));
        client.message("completed: That.");
        assert_eq!(client.shut_down(), 0);
    }

    #[test]
    fn what_an_answer_allows_from_now_on_is_told_whole_before_it_counts() {
        let command = "cargo build --release --features one,two,three && ./target/release/thing --with-some-option=value \
                       --another-option=another-value --third /a/b/c/d/e";
        let home = Home::playing(&format!(
            "turns: [{{ calls: [{{ tool: execute_command, params: {{ command: \"{command}\" }} }}] }}]"
        ));
        home.configure("autoApprove: { execute: { mode: rules } }\n");
        let mut client = Client::start(&home, Options::helix());
        client.command("roo.newTask", json!({ "prompt": "Build", "mode": "code" }));
        client.message("roo.approve");
        let always = json!({ "command": "roo.approve", "arguments": [{ "optionId": "allow_always" }] });
        client.refused("workspace/executeCommand", always);
        let told = client.message("nothing was answered yet");
        let told = told["message"].as_str().unwrap();
        assert!(told.chars().count() > 200 && !told.contains('…'), "{told}");
        assert!(told.contains("until you revoke it"), "{told}");
        assert!(told.ends_with("Run the command again if that is what you want"), "{told}");
        client.command("roo.cancel", Value::Null);
        client.message("cancelled");
        assert_eq!(client.shut_down(), 0);
    }

    #[test]
    fn progress_begins_tells_and_ends() {
        let home = Home::playing(WRITES);
        let mut client = Client::start(&home, Options::plain());
        client.command("roo.newTask", json!({ "prompt": "Write it", "mode": "code" }));
        let popup = client.popup();
        client.progress_message("code: waits for approval: Create new.txt");
        client.reply(&popup, json!({ "title": "Allow" }));
        client.progress("end");
        let values: Vec<&Value> = client
            .seen
            .iter()
            .filter(|message| message["method"] == "$/progress")
            .map(|message| &message["params"]["value"])
            .collect();
        assert_eq!((&values[0]["kind"], &values[0]["title"]), (&json!("begin"), &json!("roo: Write it")));
        assert_eq!(client.shut_down(), 0);
    }

    #[test]
    fn progress_is_at_most_four_a_second() {
        let mut script = "turns:\n".to_owned();
        for number in 0..30 {
            script += &format!(
                "  - calls: [{{ tool: read_file, params: {{ files: [{{ path: {number}.txt }}] }} }}]\n    delayMs: 20\n"
            );
        }
        script += "  - calls: [{ tool: attempt_completion, params: { result: Done. } }]\n";
        let home = Home::playing(&script);
        for number in 0..30 {
            std::fs::write(home.work(&format!("{number}.txt")), "text\n").unwrap();
        }
        let mut client = Client::start(&home, Options::plain());
        let before = Instant::now();
        client.command("roo.newTask", json!({ "prompt": "List", "mode": "code" }));
        client.progress("end");
        let reports = client.seen.iter().filter(|m| m["params"]["value"]["kind"] == "report").count();
        let most = before.elapsed().as_millis() / 250 + 1;
        assert!(reports as u128 <= most, "{reports} reports in {:?}", before.elapsed());
        assert_eq!(client.shut_down(), 0);
    }

    #[test]
    fn a_progress_can_be_cancelled() {
        let home = Home::playing(SLOW);
        let mut client = Client::start(&home, Options::plain());
        client.command("roo.newTask", json!({ "prompt": "Tell me a story", "mode": "code" }));
        let begin = client.progress("begin");
        client.notify("window/workDoneProgress/cancel", json!({ "token": begin["token"] }));
        client.message("cancelled");
        assert_eq!(client.shut_down(), 0);
    }

    #[test]
    fn helix_is_served_by_commands_and_messages_alone() {
        let home = Home::playing(WRITES);
        let mut client = Client::start(&home, Options::helix());
        assert_eq!(client.server["capabilities"]["positionEncoding"], "utf-8");
        let names = client.server["capabilities"]["executeCommandProvider"]["commands"].as_array().unwrap();
        assert!(names.iter().all(|name| name.as_str().unwrap().starts_with("roo.")));
        client.command("roo.newTask", json!({ "prompt": "Write", "mode": "code" }));
        client.message("roo.approve");
        client.command("roo.showDiff", Value::Null);
        assert!(client.seen.iter().any(|message| message["method"] == "window/showDocument"));
        client.command("roo.approve", Value::Null);
        client.message("completed: Written.");
        let methods = client.seen.iter().filter_map(|message| message["method"].as_str());
        for method in methods {
            let known = [
                "window/showMessage",
                "window/logMessage",
                "window/showDocument",
                "workspace/applyEdit",
                "window/workDoneProgress/create",
                "$/progress",
                "textDocument/publishDiagnostics",
                "workspace/configuration",
            ];
            assert!(known.contains(&method), "Helix does not know {method}");
        }
        assert_eq!(client.shut_down(), 0);
    }

    #[test]
    fn a_client_without_popups_is_asked_once_and_told_then() {
        let home = Home::playing(WRITES);
        // It doesn't say so, and refuses.
        let options = Options::helix().with(json!({ "clientInfo": { "name": "minimal" } }));
        let mut client = Client::start(&home, options);
        client.command("roo.newTask", json!({ "prompt": "Write", "mode": "code" }));
        client.message("roo.approve");
        let popups = client.seen.iter().filter(|m| m["method"] == "window/showMessageRequest").count();
        assert_eq!(popups, 1);
        client.command("roo.cancel", Value::Null);
        client.message("cancelled");
        assert_eq!(client.shut_down(), 0);
    }

    #[test]
    fn failures_of_commands_are_shown() {
        let mut client = Client::start(&Home::new(), Options::helix());
        let mut run = |command: &str, argument: Value, code: i64, shown: &str| {
            let params = json!({ "command": command, "arguments": [argument] });
            let error = client.refused("workspace/executeCommand", params);
            assert_eq!(error["code"], code, "{error}");
            client.message(shown);
        };
        run("roo.newTask", json!({ "prompt": " " }), -32803, "the prompt is empty");
        run("roo.sendPrompt", json!("file:///a.md"), -32803, "not a task document");
        run("roo.openTask", Value::Null, -32803, "no task");
        run("roo.newTask", json!("Do it"), -32803, "no model profile");
        run("roo.approve", Value::Null, -32803, "no approval waits");
        run("roo.answer", json!("x"), -32803, "no question waits");
        run("roo.cancel", json!("nonsense"), -32803, "no task");
        run("roo.resume", Value::Null, -32803, "no task");
        run("roo.send", json!(3), -32602, "string");
        // A misspelt field must not leave what is meant to the newest, nor to everything.
        run(
            "roo.approve",
            json!({ "approvalID": "zzz" }),
            -32602,
            "roo.approve has no parameter `approvalID`",
        );
        run("roo.deny", json!({ "id": "zzz" }), -32602, "roo.deny has no parameter `id`");
        run("roo.cancel", json!({ "approvalId": "zzz" }), -32602, "roo.cancel has no parameter `approvalId`");
        run("roo.trustWorkspace", json!({ "pth": ".roo/hooks.json" }), -32602, "has no parameter `pth`");
        run("roo.noSuch", Value::Null, -32602, "no command");
        assert_eq!(client.shut_down(), 0);
    }

    /// The types of the events in a request's log.
    fn logged(home: &Home, task: &str) -> Vec<String> {
        let log = std::fs::read_to_string(home.log(task)).unwrap();
        let event = |line: &str| serde_json::from_str::<Value>(line).unwrap()["event"]["type"].take();
        log.lines().map(|line| event(line).as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn stop_answered_to_an_interrupted_task_lets_nothing_go_on() {
        for is_typed in [false, true] {
            let options = || if is_typed { Options::typed() } else { Options::plain() };
            let home = Home::playing("turns: [{ text: Hm., repeat: true }]");
            home.configure("limits: { mistakes: 1 }\n");
            let mut client = Client::start(&home, options());
            let started = client.command("roo.newTask", json!({ "prompt": "Do it", "mode": "code" }));
            let task = started["taskId"].as_str().unwrap().to_owned();
            let waits = |client: &mut Client| {
                client.command("roo.status", Value::Null)["text"].as_str().unwrap().contains("1 waiting")
            };
            eventually("the question", || waits(&mut client));
            client.kill();
            let before = logged(&home, &task).len();
            let mut client = Client::start(&home, options());
            client.command("roo.status", Value::Null);
            let answered = client.command("roo.answer", json!("Stop"));
            assert_eq!(answered["accepted"], true);
            if answered["interrupted"] == true {
                client.command("roo.resume", json!({ "taskId": task }));
            }
            client.command("roo.status", Value::Null);
            assert_eq!(client.shut_down(), 0);
            assert_eq!(logged(&home, &task)[before..], ["interrupted", "questionAnswered", "ended"]);
        }
    }

    /// A task that waited for an approval when its server was killed, and a client of the next server.
    fn interrupted_write() -> (Home, Client) {
        let home = Home::playing(WRITES);
        let mut client = Client::start(&home, Options::plain());
        client.command("roo.newTask", json!({ "prompt": "Write", "mode": "code" }));
        client.popup();
        client.kill();
        let client = Client::start(&home, Options::plain());
        (home, client)
    }

    #[test]
    fn an_interrupted_task_is_resumed_by_a_command() {
        let (_home, mut client) = interrupted_write();
        client.command("roo.status", Value::Null);
        // Whoever answers wants it to go on.
        let answered = client.command("roo.approve", Value::Null);
        assert_eq!((&answered["accepted"], &answered["interrupted"]), (&json!(true), &json!(true)));
        client.message("completed: Written.");
        assert_eq!(client.shut_down(), 0);

        let (_home, mut client) = interrupted_write();
        client.command("roo.deny", Value::Null);
        client.message("completed: Refused.");
        assert_eq!(client.shut_down(), 0);

        let (_home, mut client) = interrupted_write();
        client.command("roo.resume", Value::Null);
        let popup = client.popup();
        client.reply(&popup, json!({ "title": "Allow" }));
        client.message("completed: Written.");
        assert_eq!(client.shut_down(), 0);
    }
}

mod customization {
    use super::*;

    const POET: &str = "customModes:\n  - slug: poet\n    name: 🪶 Poet\n    roleDefinition: You rhyme.\n    groups: [read]\n";

    fn slugs(list: &Value) -> Vec<&str> {
        list["modes"].as_array().unwrap().iter().map(|mode| mode["slug"].as_str().unwrap()).collect()
    }

    fn diagnostics_of(client: &mut Client, path: &std::path::Path) -> Value {
        let uri = uri(path);
        let shown = client.wait_for("diagnostics", |message| {
            message["method"] == "textDocument/publishDiagnostics" && message["params"]["uri"] == uri
        });
        shown["params"]["diagnostics"].clone()
    }

    #[test]
    fn modes_are_listed_as_they_are_and_change_with_trust() {
        let home = Home::playing(HELLO);
        std::fs::write(home.work(".roomodes"), POET).unwrap();
        let mut client = Client::start(&home, Options::typed());
        let list = client.request("roo/mode/list", json!({}));
        assert_eq!(slugs(&list), ["new-task", "orchestrator", "architect", "code", "debug", "ask"]);
        assert_eq!(client.request("roo/trust/get", json!({}))["brings"], json!([".roomodes"]));
        assert_eq!(client.request("roo/trust/grant", json!({}))["trusted"], true);
        let list = client.request("roo/mode/list", json!({}));
        let poet = list["modes"].as_array().unwrap().last().unwrap();
        assert_eq!(
            (&poet["slug"], &poet["emoji"], &poet["source"]),
            (&json!("poet"), &json!("🪶"), &json!("project"))
        );
        assert_eq!(client.request("roo/trust/revoke", json!({}))["trusted"], false);
        assert_eq!(slugs(&client.request("roo/mode/list", json!({}))).len(), 6);
        assert_eq!(client.shut_down(), 0);
    }

    #[test]
    fn the_list_of_modes_tells_which_one_the_settings_choose() {
        let home = Home::playing(HELLO);
        home.configure("mode: debug\n");
        let mut client = Client::start(&home, Options::typed());
        assert_eq!(client.request("roo/mode/list", json!({}))["defaultMode"], "debug");
        assert_eq!(client.shut_down(), 0);
    }

    #[test]
    fn a_file_that_gives_more_is_approved_by_its_digest() {
        let home = Home::playing(HELLO);
        std::fs::write(home.work(".roomodes"), POET.replace("poet", "ask").replace("read", "command"))
            .unwrap();
        let mut client = Client::start(&home, Options::typed());
        let report = client.request("roo/trust/grant", json!({}));
        let pending = &report["pendingApprovals"][0];
        let tools = "execute_command, read_command_output, send_command_input, stop_command";
        assert_eq!(
            pending["widens"],
            json!([format!("the mode 'ask' would get more than it has: {tools}")]),
            "{report}"
        );
        let grant = |digest: &Value| json!({ "path": ".roomodes", "digest": digest });
        let other = json!(format!("sha256:{}", "0".repeat(64)));
        assert_eq!(client.refused("roo/trust/grant", grant(&other))["data"]["kind"], "mismatch");
        assert_eq!(client.refused("roo/trust/grant", json!({ "path": ".roomodes" }))["code"], -32602);
        let digest = pending["digest"].clone();
        assert_eq!(client.request("roo/trust/grant", grant(&digest))["pendingApprovals"], json!([]));
        assert_eq!(client.refused("roo/trust/grant", grant(&digest))["data"]["kind"], "notFound");
        assert_eq!(client.shut_down(), 0);
    }

    #[test]
    fn mistakes_are_shown_in_the_file_and_go_when_they_are_mended() {
        let home = Home::playing(HELLO);
        let file = home.path("config/roo-lsp/custom-modes.yaml");
        std::fs::write(&file, POET.replace("[read]", "[reed]")).unwrap();
        let mut client = Client::start(&home, Options::typed());
        let shown = diagnostics_of(&mut client, &file);
        assert_eq!(shown[0]["range"]["start"], json!({ "line": 4, "character": 13 }));
        assert!(shown[0]["message"].as_str().unwrap().starts_with("there is no group 'reed'"), "{shown}");
        std::fs::write(&file, POET).unwrap();
        let uri = client.open(&file, POET);
        client.notify("textDocument/didSave", json!({ "textDocument": { "uri": uri } }));
        assert_eq!(diagnostics_of(&mut client, &file), json!([]));
        assert_eq!(client.shut_down(), 0);
    }

    #[test]
    fn a_plain_client_is_asked_once_whether_it_trusts() {
        let home = Home::playing(WRITES);
        std::fs::write(home.work("AGENTS.md"), "Be kind.").unwrap();
        let mut client = Client::start(&home, Options::plain());
        let popup = client.popup();
        assert!(
            popup["params"]["message"].as_str().unwrap().ends_with("would steer agents: AGENTS.md"),
            "{popup}"
        );
        let titles = json!([{ "title": "Later" }, { "title": "Trust this workspace" }]);
        assert_eq!(popup["params"]["actions"], titles);
        // What a task asks comes after it and never over it.
        client.command("roo.newTask", json!({ "prompt": "Write", "mode": "code" }));
        client.progress_message("code: waits for approval: Create new.txt");
        assert!(client.popups.is_empty());
        assert_eq!(client.command("roo.trust", Value::Null)["trusted"], false);
        client.reply(&popup, json!({ "title": "Trust this workspace" }));
        let approval = client.popup();
        client.reply(&approval, json!({ "title": "Deny" }));
        client.message("completed: Refused.");
        eventually("trust", || client.command("roo.trust", Value::Null)["trusted"] == true);
        assert_eq!(client.shut_down(), 0);

        let mut client = Client::start(&home, Options::plain());
        assert_eq!(client.command("roo.trust", Value::Null)["trusted"], true);
        assert!(client.popups.is_empty());
        assert_eq!(client.shut_down(), 0);
    }

    #[test]
    fn the_question_about_trust_is_taken_away_when_it_is_answered_elsewhere() {
        for elsewhere in ["here", "by another program"] {
            let home = Home::playing(WRITES);
            std::fs::write(home.work("AGENTS.md"), "Be kind.").unwrap();
            let mut client = Client::start(&home, Options::plain());
            let popup = client.popup();
            match elsewhere {
                "here" => assert_eq!(client.command("roo.trustWorkspace", Value::Null)["trusted"], true),
                _ => {
                    let mut other = std::process::Command::new(env!("CARGO_BIN_EXE_roo-lsp"));
                    other.arg("trust").current_dir(home.path("work")).env("HOME", home.path(""));
                    other.env("XDG_CONFIG_HOME", home.path("config"));
                    other.env("XDG_STATE_HOME", home.path("state"));
                    assert!(other.output().unwrap().status.success());
                }
            }
            client.command("roo.newTask", json!({ "prompt": "Write", "mode": "code" }));
            let cancelled =
                client.wait_for("a cancellation", |message| message["method"] == "$/cancelRequest");
            assert_eq!(cancelled["params"]["id"], popup["id"], "{elsewhere}");
            client.refuse(&popup, -32800, "cancelled");
            // What waited behind it comes.
            let approval = client.popup();
            client.reply(&approval, json!({ "title": "Deny" }));
            client.message("completed: Refused.");
            assert_eq!(client.shut_down(), 0);
        }
    }

    #[test]
    fn a_plain_client_is_asked_whether_a_team_of_roo_code_may_delegate_when_it_trusts() {
        let home = Home::playing(HELLO);
        let team = format!("{POET}{}", POET.replace("customModes:\n", "").replace("oet", "ainter"));
        std::fs::write(home.work(".roomodes"), &team).unwrap();
        let mut client = Client::start(&home, Options::plain());
        let popup = client.popup();
        client.reply(&popup, json!({ "title": "Trust this workspace" }));
        let popup = client.popup();
        let text = "Roo: may the modes of .roomodes delegate to each other, as in Roo Code? None has `canDelegateTo`: poet, painter";
        assert_eq!(popup["params"]["message"], text);
        let titles = json!([{ "title": "Later" }, { "title": "Yes, let them delegate" }, { "title": "No" }]);
        assert_eq!(popup["params"]["actions"], titles);
        client.reply(&popup, json!({ "title": "Later" }));
        assert_eq!(
            client.command("roo.trust", Value::Null)["delegation"]["modes"],
            json!(["poet", "painter"])
        );
        assert_eq!(client.shut_down(), 0);

        // What was put off is asked the next time, and an answer is kept.
        let mut client = Client::start(&home, Options::plain());
        let popup = client.popup();
        client.reply(&popup, json!({ "title": "Yes, let them delegate" }));
        eventually("the answer", || {
            client.command("roo.trust", Value::Null)["delegation"]["allowed"] == true
        });
        assert_eq!(client.shut_down(), 0);
        let mut client = Client::start(&home, Options::plain());
        assert_eq!(client.command("roo.trust", Value::Null)["pendingApprovals"], json!([]));
        assert!(client.popups.is_empty());
        assert_eq!(client.shut_down(), 0);
    }

    /// Gives two built-in modes more than they have.
    fn widening_modes() -> String {
        let mode = |slug: &str| POET.replace("poet", slug).replace("[read]", "[read, edit, command, mcp]");
        mode("ask") + &mode("architect").replace("customModes:\n", "")
    }

    #[test]
    fn a_plain_client_is_asked_whether_it_approves_a_file_that_gives_more() {
        let home = Home::playing(HELLO);
        std::fs::write(home.work(".roomodes"), widening_modes()).unwrap();
        let mut client = Client::start(&home, Options::plain());
        let popup = client.popup();
        client.reply(&popup, json!({ "title": "Trust this workspace" }));
        let popup = client.popup();
        let text = popup["params"]["message"].as_str().unwrap();
        let begin = "Roo: approve .roomodes as it is now? the mode 'ask' would get more than it has: ";
        assert!(text.starts_with(begin) && text.contains("; the mode 'architect' would"), "{text}");
        assert!(!text.contains('…'), "{text}");
        let titles = json!([{ "title": "Later" }, { "title": "Approve this version" }]);
        assert_eq!(popup["params"]["actions"], titles);
        client.reply(&popup, json!({ "title": "Later" }));
        // The other question about the file follows.
        let popup = client.popup();
        assert!(popup["params"]["message"].as_str().unwrap().contains("delegate to each other"), "{popup}");
        client.reply(&popup, json!({ "title": "No" }));
        let waits = |client: &mut Client| {
            let report = client.command("roo.trust", Value::Null);
            let kinds = report["pendingApprovals"].as_array().unwrap().iter().map(|it| it["kind"].clone());
            kinds.collect::<Vec<_>>()
        };
        eventually("the answer", || waits(&mut client) == ["file"]);
        assert!(client.popups.is_empty(), "what was put off is not asked again by itself");
        assert_eq!(client.shut_down(), 0);

        let mut client = Client::start(&home, Options::plain());
        let popup = client.popup();
        client.reply(&popup, json!({ "title": "Approve this version" }));
        eventually("the approval", || waits(&mut client).is_empty());
        assert!(client.popups.is_empty(), "the refusal is kept");
        assert_eq!(client.shut_down(), 0);
    }

    #[test]
    fn a_file_is_approved_by_commands_alone() {
        let home = Home::playing(HELLO);
        std::fs::write(home.work(".roomodes"), widening_modes()).unwrap();
        let mut client = Client::start(&home, Options::helix());
        client.message("Run roo.trustWorkspace if you trust it.");
        client.command("roo.trustWorkspace", Value::Null);
        client.message("this workspace is trusted; .roomodes waits for approval: the mode 'ask' would");
        let report = client.command("roo.trustWorkspace", json!(".roomodes"));
        let digest = report["pendingApprovals"][0]["digest"].as_str().unwrap();
        let told = client.message("To approve its current version");
        let told = told["message"].as_str().unwrap();
        assert!(told.contains(&format!("and the digest {digest}")), "{told}");
        client.command("roo.trustWorkspace", json!({ "path": ".roomodes", "digest": digest }));
        client.message(".roomodes is approved in its current version");
        assert_eq!(client.shut_down(), 0);
    }

    #[test]
    fn a_client_with_forms_answers_for_a_team_by_the_digest_of_its_file() {
        let home = Home::playing(HELLO);
        let team = format!("{POET}{}", POET.replace("customModes:\n", "").replace("oet", "ainter"));
        std::fs::write(home.work(".roomodes"), &team).unwrap();
        let mut client = Client::start(&home, Options::typed());
        let report = client.request("roo/trust/grant", json!({}));
        let pending = &report["pendingApprovals"][0];
        assert_eq!((&pending["kind"], &pending["path"]), (&json!("delegation"), &json!(".roomodes")));
        let grant =
            |refuse: bool| json!({ "path": ".roomodes", "digest": pending["digest"], "refuse": refuse });
        let refused = client.request("roo/trust/grant", grant(true));
        assert_eq!(
            (&refused["delegation"]["allowed"], &refused["pendingApprovals"]),
            (&json!(false), &json!([]))
        );
        let hooks = json!({ "path": ".roo/hooks.json", "digest": pending["digest"], "refuse": true });
        assert_eq!(client.refused("roo/trust/grant", hooks)["code"], -32602);
        assert_eq!(client.shut_down(), 0);
    }

    #[test]
    fn a_client_without_popups_is_told_how_to_trust() {
        let home = Home::playing(HELLO);
        std::fs::write(home.work(".roomodes"), POET).unwrap();
        let mut client = Client::start(&home, Options::helix());
        client.message("roo.trustWorkspace");
        assert_eq!(client.command("roo.trustWorkspace", Value::Null)["trusted"], true);
        client.message("this workspace is trusted");
        assert_eq!(client.shut_down(), 0);
    }

    #[test]
    fn no_task_begins_without_the_guard_that_a_broken_hooks_file_was_meant_to_bring() {
        let home = Home::playing(WRITES);
        let hooks = home.path("config/roo-lsp/hooks.json");
        let misspelt = r#"{ "hooks": { "PreToolUze": [] } }"#;
        std::fs::write(&hooks, misspelt).unwrap();
        let mut client = Client::start(&home, Options::typed());
        let refused = client.refused("roo/task/start", json!({ "prompt": "Write", "mode": "code" }));
        assert_eq!(refused["data"]["kind"], "configuration");
        let message = refused["message"].as_str().unwrap();
        assert!(message.contains("hooks.json:1:") && message.contains("hooks check"), "{message}");

        // A request that waits for permission goes no further by it.
        // Each text is longer than the one before: a shorter one may be a file that is being saved.
        std::fs::write(&hooks, r#"{ "hooks": { "PreToolUse": [] } }    "#).unwrap();
        client.start_task("Write");
        let approval = client.event("approval.requested")["event"].clone();
        std::fs::write(&hooks, format!("{misspelt}{}", " ".repeat(8))).unwrap();
        let option = json!({ "approvalId": approval["approvalId"], "digest": approval["digest"], "optionId": "allow_once" });
        client.request("roo/approval/respond", option);
        let question = client.event("question.asked")["event"].clone();
        assert!(question["text"].as_str().unwrap().contains("PreToolUze"), "{question}");
        assert!(!home.work("new.txt").exists());
        assert_eq!(client.shut_down(), 0);
    }
}
