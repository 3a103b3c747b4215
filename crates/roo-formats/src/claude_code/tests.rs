use proptest::prelude::*;

use super::*;

const ID: &str = "6f1a3c52-0b1e-4c5e-9d0a-2f6b7c8d9e01";

/// A line as Claude Code writes it: what a message has around it, and the message.
fn line(kind: &str, uuid: &str, parent: Option<&str>, second: u32, message: &Value) -> Value {
    json!({
        "parentUuid": parent, "isSidechain": false, "userType": "external", "cwd": "/home/ada/shop", "sessionId": ID,
        "version": "2.1.86", "gitBranch": "main", "type": kind, "message": message, "uuid": uuid,
        "timestamp": format!("2026-04-03T10:30:{second:02}.000Z"),
    })
}

fn user(uuid: &str, parent: Option<&str>, second: u32, content: Value) -> Value {
    line("user", uuid, parent, second, &json!({ "role": "user", "content": content }))
}

fn assistant(uuid: &str, parent: &str, second: u32, answer: &str, block: Value) -> Value {
    let usage = json!({
        "input_tokens": 10, "output_tokens": second, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 5,
    });
    let message = json!({
        "model": "claude-sonnet-4-6", "id": answer, "type": "message", "role": "assistant", "content": [block], "usage": usage,
    });
    line("assistant", uuid, Some(parent), second, &message)
}

fn call(id: &str, name: &str, input: Value) -> Value {
    json!({ "type": "tool_use", "id": id, "name": name, "input": input })
}

fn said(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn result(call: &str, text: &str) -> Value {
    json!([{ "tool_use_id": call, "type": "tool_result", "content": text }])
}

fn read(lines: &[Value]) -> Result<PastTask, TaskError> {
    let text: Vec<String> = lines.iter().map(Value::to_string).collect();
    read_session(ID, &text.join("\n"))
}

/// The messages in short, one a line.
fn outline(task: &PastTask) -> String {
    let input = |part: &InputPart| match part {
        InputPart::Words(words) => format!("words {words:?}"),
        InputPart::Text(text) => format!("text {text:?}"),
        InputPart::Image(url) => format!("image {url}"),
        InputPart::Result(result) => {
            format!("result {} {:?}{}", result.call, result.text, if result.is_error { " error" } else { "" })
        }
    };
    let answer = |part: &AnswerPart| match part {
        AnswerPart::Text(text) => format!("text {text:?}"),
        AnswerPart::Thinking(text) => format!("thinking {text:?}"),
        AnswerPart::Call(call) => format!("{} {} {}", call.id, call.name, Value::Object(call.params.clone())),
    };
    let lines = task.messages.iter().map(|message| match &message.content {
        PastContent::Input(parts) => {
            format!("> {}\n", parts.iter().map(input).collect::<Vec<_>>().join(" | "))
        }
        PastContent::Answer(parts) => {
            format!("< {}\n", parts.iter().map(answer).collect::<Vec<_>>().join(" | "))
        }
        PastContent::Summary(text) => format!("= {text}\n"),
    });
    lines.collect()
}

fn session() -> Vec<Value> {
    vec![
        json!({ "type": "queue-operation", "operation": "dequeue", "timestamp": "2026-04-03T10:30:00.000Z", "sessionId": ID }),
        user("u1", None, 1, json!([said("Fix the cart.")])),
        assistant(
            "a1",
            "u1",
            2,
            "msg_1",
            json!({ "type": "thinking", "thinking": "Where is it?", "signature": "c2ln" }),
        ),
        assistant("a2", "a1", 3, "msg_1", said("I look.")),
        assistant(
            "a3",
            "a2",
            4,
            "msg_1",
            call("toolu_1", "Read", json!({ "file_path": "/home/ada/shop/src/cart.ts" })),
        ),
        assistant(
            "a4",
            "a3",
            5,
            "msg_1",
            call("toolu_2", "Bash", json!({ "command": "npm test", "description": "Run tests" })),
        ),
        user("u2", Some("a3"), 6, result("toolu_1", "1\tlet total = 0")),
        user(
            "u3",
            Some("a4"),
            7,
            json!([{
                "type": "tool_result", "tool_use_id": "toolu_2", "is_error": true, "content": [said("Exit code 1")],
            }]),
        ),
        json!({ "type": "ai-title", "sessionId": ID, "aiTitle": "Fix the total of the cart" }),
        assistant("a5", "u3", 8, "msg_2", said("Fixed.")),
    ]
}

#[test]
fn a_session_is_a_conversation_with_calls_as_they_are_here() {
    let task = read(&session()).unwrap();
    insta::assert_snapshot!(outline(&task), @r#"
    > words "Fix the cart."
    < thinking "Where is it?" | text "I look." | toolu_1 read_file {"path":"src/cart.ts"} | toolu_2 execute_command {"command":"npm test"}
    > result toolu_1 "1\tlet total = 0" | result toolu_2 "Exit code 1" error
    < end_1 attempt_completion {"result":"Fixed."}
    "#);
    let item = &task.item;
    assert_eq!((item.id.as_str(), item.task.as_str()), (ID, "Fix the total of the cart"));
    assert_eq!((item.workspace.as_deref(), item.mode.as_deref()), (Some("/home/ada/shop"), Some("code")));
    assert!(item.is_completed && task.has_native_calls());
    // What an answer used is in each of its lines, and the last one has all of it.
    let usage = Usage { tokens_in: 20, tokens_out: 13, cache_reads: 200, cache_writes: 10, cost_usd: 0.0 };
    assert_eq!(item.usage, usage);
    let first: jiff::Timestamp = "2026-04-03T10:30:01Z".parse().unwrap();
    assert_eq!((task.created_at, item.ts), (first.as_millisecond(), first.as_millisecond() + 7000));
}

#[test]
fn what_its_user_went_back_on_is_left_out_and_so_is_what_subagents_did() {
    let mut lines = session();
    let mut aside = assistant("s1", "a1", 9, "msg_9", said("As a subagent."));
    aside["isSidechain"] = true.into();
    lines.push(aside);
    // Another answer to the first message, by a message in place of it.
    lines.push(user("v1", None, 20, json!("Fix the cart, and test it.")));
    lines.push(assistant("b1", "v1", 21, "msg_3", said("Both done.")));
    let task = read(&lines).unwrap();
    insta::assert_snapshot!(outline(&task), @r#"
    > words "Fix the cart, and test it."
    < end_1 attempt_completion {"result":"Both done."}
    "#);
}

#[test]
fn what_the_program_says_is_no_word_of_the_user_and_a_summary_stands_for_what_was_before() {
    let mut lines = session();
    let mut caveat = user("c1", Some("a5"), 10, json!("The messages below are not for you."));
    caveat["isMeta"] = true.into();
    lines.push(caveat);
    lines.push(user("c2", Some("c1"), 11, json!("<command-name>/compact</command-name>")));
    lines.push(json!({
        "type": "system", "subtype": "compact_boundary", "uuid": "c3", "parentUuid": null, "logicalParentUuid": "c2",
        "timestamp": "2026-04-03T10:30:12.000Z", "content": "Conversation compacted",
    }));
    let mut summary =
        user("c4", Some("c3"), 13, json!("This session goes on from another: the cart was fixed."));
    summary["isCompactSummary"] = true.into();
    lines.push(summary);
    lines.push(user(
        "c5",
        Some("c4"),
        14,
        json!([
            said("Now the search."),
            { "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": "AA==" } },
        ]),
    ));
    let mut failed = assistant("c6", "c5", 15, "msg_4", said("API Error: 529"));
    failed["isApiErrorMessage"] = true.into();
    lines.push(failed);
    lines.push(user("c7", Some("c6"), 16, json!([said("[Request interrupted by user]")])));
    let task = read(&lines).unwrap();
    let outline = outline(&task);
    let (_, later) = outline.split_once("\"Fixed.\"}\n").unwrap();
    insta::assert_snapshot!(later, @r#"
    > text "The messages below are not for you." | text "<command-name>/compact</command-name>"
    = This session goes on from another: the cart was fixed.
    > words "Now the search." | image data:image/png;base64,AA== | text "[Request interrupted by user]"
    "#);
    assert!(!task.item.is_completed);
}

#[test]
fn calls_that_there_are_here_have_our_names_and_others_keep_theirs() {
    let calls = [
        ("Write", json!({ "file_path": "/home/ada/shop/a.txt", "content": "x" })),
        ("Edit", json!({ "file_path": "/etc/hosts", "old_string": "a", "new_string": "b" })),
        ("Grep", json!({ "pattern": "fn \\w+", "output_mode": "content" })),
        (
            "TodoWrite",
            json!({ "todos": [
            { "content": "Find it", "status": "completed", "activeForm": "Finding it" },
            { "content": "Fix it", "status": "in_progress" }, { "content": "Test it", "status": "pending" },
        ] }),
        ),
        ("WebFetch", json!({ "url": "https://example.com", "prompt": "Read it" })),
        ("Edit", json!({ "file_path": 7 })),
    ];
    let mut lines = vec![user("u1", None, 1, json!("Do it."))];
    for (number, (name, input)) in calls.into_iter().enumerate() {
        lines.push(assistant(
            &format!("a{number}"),
            "u1",
            2,
            "msg_1",
            call(&format!("t{number}"), name, input),
        ));
    }
    let outline = outline(&read(&lines).unwrap());
    insta::assert_snapshot!(outline.replace(" | ", "\n"), @r#"
    > words "Do it."
    < t0 write_to_file {"path":"a.txt","content":"x"}
    t1 search_and_replace {"path":"/etc/hosts","search":"a","replace":"b"}
    t2 search_files {"path":".","regex":"fn \\w+"}
    t3 update_todo_list {"todos":"[x] Find it\n[-] Fix it\n[ ] Test it"}
    t4 WebFetch {"url":"https://example.com","prompt":"Read it"}
    t5 Edit {"file_path":7}
    "#);
}

#[test]
fn a_session_in_which_nobody_said_anything_is_none() {
    let summary = json!({ "type": "summary", "summary": "Of another session", "leafUuid": "x" });
    assert_eq!(read(&[summary]), Err(TaskError::Empty));
    assert_eq!(
        read(&[user("u1", None, 1, json!("<command-name>/clear</command-name>"))]),
        Err(TaskError::Empty)
    );
    assert_eq!(read_session(ID, "half a li"), Err(TaskError::Empty));
    assert_eq!(read_session("../x", ""), Err(TaskError::Id));
    // Lines that follow each other in a circle.
    let circle = [user("u1", Some("u2"), 1, json!("One.")), user("u2", Some("u1"), 2, json!("Two."))];
    assert_eq!(outline(&read(&circle).unwrap()), "> words \"One.\" | words \"Two.\"\n");
}

#[test]
fn files_of_sessions_are_told_from_others_by_their_names() {
    assert_eq!(session_of(&format!("{ID}.jsonl")), Some(ID));
    for other in ["agent-a1b2c3.jsonl", ID, "sessions-index.json", "..jsonl"] {
        assert_eq!(session_of(other), None, "{other}");
    }
}

proptest! {
    #[test]
    fn whatever_a_file_holds_is_read_or_refused(text in r#"(?s)(\{"type":"(user|assistant)","uuid":"[ab]","parentUuid":"[ab]","message":\{"id":"m","content":.{0,12}\}\}\n?|.{0,40}){0,6}"#) {
        let _ = read_session(ID, &text);
    }
}
