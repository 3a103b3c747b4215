use serde_json::{Value, json};

use super::*;
use roo_protocol::event::Event;

fn params(task: &str, event: Value) -> EventParams {
    let task_id = TaskId::new(task);
    let event = serde_json::from_value(event).unwrap();
    EventParams { root_id: task_id.root(), task_id, seq: None, from: None, at: 0, event }
}

fn created(mode: &str, title: &str, emoji: &str) -> Value {
    json!({ "type": "task.created", "urid": "20260102-03-04-0a0b0c0d", "mode": mode, "title": title, "emoji": emoji })
}

fn message(id: &str, say: &str, text: &str) -> Value {
    json!({ "type": "message", "message": { "id": id, "say": say, "text": text } })
}

fn delta(id: &str, say: &str, offset: u64, text: &str) -> Value {
    json!({ "type": "message.delta", "id": id, "say": say, "offset": offset, "text": text })
}

fn started(call: &str, name: &str, subject: &str) -> Value {
    json!({ "type": "tool.started", "toolCallId": call, "name": name, "subject": subject })
}

fn finished(call: &str, status: &str, summary: &str) -> Value {
    json!({ "type": "tool.finished", "toolCallId": call, "status": status, "summary": summary })
}

fn approval(id: &str) -> Value {
    json!({
        "type": "approval.requested", "approvalId": id, "toolCallId": "c2", "digest": format!("sha256:{}", "0".repeat(64)),
        "title": "Create docs/a.md", "reason": "the settings don't allow it without asking",
        "subject": "--- /dev/null\n+++ b/docs/a.md\n@@ -0,0 +1 @@\n+```\n",
        "options": [
            { "id": "no", "name": "Deny", "kind": "reject_once" }, { "id": "yes", "name": "Allow", "kind": "allow_once" },
        ],
    })
}

fn question(id: &str) -> Value {
    json!({
        "type": "question.asked", "questionId": id, "kind": "followup", "text": "How polite?\nThere are two ways.",
        "suggestions": [{ "text": "Formal" }, { "text": "Friendly", "mode": "ask" }],
    })
}

fn state(state: &str) -> Value {
    json!({ "type": "task.state", "state": state })
}

fn told(events: &[(&str, Value)]) -> MarkdownTranscript {
    let mut transcript = MarkdownTranscript::new(vec![PathBuf::from("/work")]);
    for (task, event) in events {
        transcript.apply(&params(task, event.clone()), None);
    }
    transcript
}

fn begun() -> Vec<(&'static str, Value)> {
    vec![
        ("t", created("new-task", "Greet politely", "💬")),
        ("t", message("m1", "text", "Greet politely")),
        ("t", message("r1.b0", "text", "# I ask\nfirst.")),
        ("t", started("c1", "read_file", "greeting.sh")),
        ("t", finished("c1", "ok", "5 lines")),
    ]
}

#[test]
fn a_long_question_is_whole() {
    let text = "There is a way that can't be undone. ".repeat(9) + "Shall I take it?\nOr not?";
    let long = json!({
        "type": "question.asked", "questionId": "t.q1", "kind": "followup", "text": text, "suggestions": [],
    });
    let events = [begun(), vec![("t", long)]].concat();
    let shown = told(&events).render().text;
    assert!(shown.contains(&text), "{shown}");
    assert_eq!(shown.matches("Or not?").count(), 1, "{shown}");
}

#[test]
fn what_happened_reads_from_top_to_bottom() {
    let mut transcript = told(&begun());
    transcript.apply(&params("t", question("t.q5")), None);
    insta::assert_snapshot!("a_question_waits", transcript.render().text);
    transcript.apply(&params("t", message("m7", "user_feedback", "Formal")), None);
    let answered =
        json!({ "type": "question.answered", "questionId": "t.q5", "by": "helix", "text": "Formal" });
    transcript.apply(&params("t", answered), None);
    transcript.apply(&params("t", started("c2", "new_task", "🏗️ Describe the greeting")), None);
    transcript.apply(&params("t.9", created("architect", "Describe the greeting", "🏗️")), None);
    transcript.apply(&params("t.9", message("brief", "text", "Describe it.\n\n## Prompt\n")), None);
    transcript.apply(&params("t.9", approval("t.9.a3")), None);
    insta::assert_snapshot!("an_approval_waits", transcript.render().text);
    let resolved =
        json!({ "type": "approval.resolved", "approvalId": "t.9.a3", "by": "helix", "optionId": "yes" });
    transcript.apply(&params("t.9", resolved), None);
    transcript.apply(&params("t.9", started("c2", "write_to_file", "docs/a.md")), None);
    let edited = json!({ "type": "edit.applied", "uri": "file:///work/docs/a.md", "before": null, "after": format!("sha256:{}", "1".repeat(64)) });
    transcript.apply(&params("t.9", edited), None);
    transcript.apply(&params("t.9", finished("c2", "ok", "created")), None);
    let completed =
        json!({ "type": "task.state", "state": "completed", "result": "docs/a.md describes it." });
    transcript.apply(&params("t.9", completed), None);
    transcript.apply(&params("t", finished("c2", "ok", "was completed")), None);
    transcript.apply(&params("t", started("c3", "execute_command", "sh greeting.sh")), None);
    transcript.apply(&params("t", finished("c3", "ok", "exit code 0")), Some("Good day, world.\n"));
    transcript.apply(&params("t", state("cancelled")), None);
    insta::assert_snapshot!("the_request_is_cancelled", transcript.render().text);
}

#[test]
fn what_is_over_only_grows() {
    let mut events = begun();
    events.extend([
        ("t", delta("r2.b0", "text", 0, "Well")),
        ("t", delta("r2.b0", "text", 4, ", then")),
        ("t", message("r2.b0", "text", "Well, then.")),
        ("t", started("c2", "execute_command", "make")),
        ("t", json!({ "type": "tool.output", "toolCallId": "c2", "offset": 0, "text": "one\ntwo\n" })),
        ("t.1", created("code", "Beside", "💻")),
        ("t.1", delta("r1.b0", "text", 0, "Meanwhile")),
        ("t", finished("c2", "ok", "done")),
        ("t.1", question("t.1.q1")),
        ("t", state("interrupted")),
        ("t.1", state("interrupted")),
    ]);
    let mut before = String::new();
    for end in 1..=events.len() {
        let transcript = told(&events[..end]);
        let Page { text, .. } = &transcript.page;
        assert!(text.starts_with(&before), "{text}");
        before.clone_from(text);
        let rendering = transcript.render();
        assert!(rendering.text.starts_with(text) && rendering.text.ends_with(HEADING));
        for TextMark { kind, range } in &rendering.marks {
            let marked = &rendering.text[range.clone()];
            match kind {
                MarkKind::Section(_) => assert!(marked.starts_with("## "), "{marked}"),
                MarkKind::Asked(_) => assert!(marked.starts_with("### "), "{marked}"),
                MarkKind::Call(..) => assert!(marked.starts_with("- "), "{marked}"),
                MarkKind::Said(_) => assert!(marked.starts_with("> "), "{marked}"),
                MarkKind::Link(uri) => assert!(uri.ends_with(marked), "{marked}"),
            }
        }
    }
    assert_eq!(told(&events).view().prompts().count(), 1, "it waits though the server has ended");
}

#[test]
fn running_text_stands_at_the_end_until_it_is_whole() {
    let mut events = begun();
    events.push(("t", delta("r2.b0", "text", 0, "```\nhalf")));
    let text = told(&events).render().text;
    assert!(text.ends_with("\n```\nhalf\n```\n\n## Prompt\n"), "{text}");
    // An answer that was cut off is void.
    let void = json!({ "request": 2, "cancelReason": "streaming_failed", "streamingFailedMessage": "gone" });
    events.push(("t", message("r2", "api_req_started", &void.to_string())));
    let text = told(&events).render().text;
    assert!(!text.contains("half") && text.contains("*cut off: gone*"), "{text}");
}

#[test]
fn a_warning_stands_at_the_end_until_it_is_over_and_one_about_the_log_stays() {
    let degraded = |reason: &str, until: Option<&str>| {
        let event = json!({ "type": "server.degraded", "reason": reason, "until": until });
        ("t", event)
    };
    let mut events = begun();
    let before = told(&events).render().text;
    events.push(degraded("the log is damaged", None));
    events.push(degraded("the disk is full", Some("recovered")));
    events.push(degraded("the disk can't be synced", Some("recovered")));
    let text = told(&events).render().text;
    let warnings: Vec<&str> = text.lines().filter(|line| line.starts_with("**Warning:**")).collect();
    assert_eq!(warnings, ["**Warning:** the log is damaged", "**Warning:** the disk can't be synced"]);
    events.push(("t", json!({ "type": "server.recovered" })));
    let text = told(&events).render().text;
    assert_eq!(text.replace("**Warning:** the log is damaged\n\n", ""), before);
}

#[test]
fn what_a_request_tells_is_the_same_with_and_without_running_text() {
    let whole: Vec<(&str, Value)> = begun();
    let mut live = whole.clone();
    live.insert(2, ("t", delta("r1.b0", "text", 0, "# I")));
    live.insert(5, ("t", json!({ "type": "tool.output", "toolCallId": "c1", "offset": 0, "text": "x" })));
    assert_eq!(told(&live).render(), told(&whole).render());
}

#[test]
fn recorded_requests_read_as_before() {
    for name in &crate::view::recorded_tests::names() {
        let mut transcript = MarkdownTranscript::new(vec![PathBuf::from("/home/user/work")]);
        let mut before = String::new();
        for params in crate::view::recorded_tests::events(name) {
            transcript.apply(&params, None);
            assert!(transcript.page.text.starts_with(&before), "{name}: what is over changed");
            before.clone_from(&transcript.page.text);
            if let Event::RetryScheduled { at, .. } = params.event {
                // It is told in the time of who reads it.
                transcript.page.text = transcript.page.text.replace(&time_of_day(at), "HH:MM:SS");
                before.clone_from(&transcript.page.text);
            }
        }
        insta::assert_snapshot!(format!("recorded_{name}"), transcript.render().text);
    }
}
