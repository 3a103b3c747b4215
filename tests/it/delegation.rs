//! Delegation as a front end sees it: branches, their order, their limits, their end; on the scripted model.

use roo_protocol::event::{Event, ToolStatus};
use roo_protocol::ids::TaskId;
use roo_protocol::task::{SendWhen, TaskSendParams, TaskStartParams, TaskState};
use serde_json::{Value, json};

use crate::support::engine::{Fixture, Watched};

/// A turn that delegates.
fn delegates(mode: &str, when: &str, branches: &[(&str, &str)]) -> String {
    let calls: Vec<String> = branches.iter().map(|(to, title)| call(to, title)).collect();
    format!("  - mode: {mode}\n    when: {{ contains: {when:?} }}\n    calls:\n{}", calls.concat())
}

fn call(to: &str, title: &str) -> String {
    let emoji = match to {
        "orchestrator" => "🪃",
        "architect" => "🏗️",
        "debug" => "🪲",
        _ => "💻",
    };
    let message = format!("{emoji} {title}\n\nURID: {{{{urid}}}}\n\nDo it: {title}.\n");
    format!("      - {{ tool: new_task, params: {{ mode: {to}, message: {message:?} }} }}\n")
}

/// A turn that completes.
fn completes(mode: &str, when: &str, result: &str) -> String {
    format!(
        "  - mode: {mode}\n    when: {{ contains: {when:?} }}\n    calls: [{{ tool: attempt_completion, params: {{ result: {result:?} }} }}]\n"
    )
}

fn fixture(turns: &[String], more: Value) -> Fixture {
    Fixture::scripted(&[], &format!("turns:\n{}", turns.concat()), more)
}

async fn start<'a>(fixture: &'a Fixture, mode: &str) -> Watched<'a> {
    let params =
        TaskStartParams { prompt: "Go.".into(), mode: Some(mode.into()), ..TaskStartParams::default() };
    let task = fixture.engine.start(params).unwrap().task_id;
    fixture.watch(task, 0).await
}

/// Waits for the end of the request, not of a branch.
async fn end(watched: &mut Watched<'_>) -> (TaskState, String) {
    loop {
        let params = watched.next().await;
        if let Event::TaskState { state, result, reason, .. } = &params.event
            && state.is_final()
            && params.task_id == params.root_id
        {
            return (*state, result.clone().or_else(|| reason.clone()).unwrap_or_default());
        }
    }
}

#[tokio::test]
async fn a_result_goes_up_from_branch_to_branch() {
    let fixture = fixture(
        &[
            delegates("orchestrator", "Go.", &[("code", "Mend the lib")]),
            delegates("code", "Mend the lib", &[("debug", "Find the cause")]),
            completes("debug", "Find the cause", "It was the bound."),
            completes("code", "It was the bound.", "Mended: the bound."),
            completes("orchestrator", "Mended: the bound.", "All is well."),
        ],
        json!({}),
    );
    let mut watched = start(&fixture, "orchestrator").await;
    assert_eq!(end(&mut watched).await, (TaskState::Completed, "All is well.".to_owned()));
    watched.assert_gapless();
    let tree = fixture.engine.tree(&watched.task).await.unwrap();
    insta::assert_snapshot!(tree.text, @r"
    🪃 Go.
    ^ we are here
    └── 💻 Mend the lib
        └── 🪲 Find the cause
    ");
    assert!(tree.nodes.iter().all(|node| node.state == TaskState::Completed && node.ended_at.is_some()));
}

#[tokio::test]
async fn the_users_images_go_along_with_each_brief() {
    const IMAGE: &str = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let fixture = fixture(
        &[
            delegates("orchestrator", "Go.", &[("code", "Mend the screen")]),
            delegates("code", "The user sent the images", &[("debug", "Look at it")]),
            completes("debug", "The user sent the images", "It is red."),
            completes("code", "It is red.", "Mended."),
            completes("orchestrator", "Mended.", "All is well."),
        ],
        json!({}),
    );
    let params = TaskStartParams {
        prompt: "Go.".into(),
        mode: Some("orchestrator".into()),
        images: vec![IMAGE.into()],
        ..TaskStartParams::default()
    };
    let task = fixture.engine.start(params).unwrap().task_id;
    let mut watched = fixture.watch(task, 0).await;
    let mut with_image = 0;
    let state = loop {
        let params = watched.next().await;
        match &params.event {
            Event::Message { message, .. } if message.images == [IMAGE] => with_image += 1,
            Event::TaskState { state, .. } if state.is_final() && params.task_id == params.root_id => {
                break *state;
            }
            _ => {}
        }
    };
    assert_eq!((state, with_image), (TaskState::Completed, 3), "the user's message and two briefs");
}

#[tokio::test]
async fn branches_of_one_answer_run_at_once_and_answer_in_order() {
    let fixture = fixture(
        &[
            delegates("orchestrator", "Go.", &[("code", "The first"), ("code", "The second")]),
            // The first one waits for its user, who answers only when the second one has ended.
            "  - mode: code\n    when: { contains: \"Do it: The first\" }\n    calls: [{ tool: ask_followup_question, params: { question: Which?, follow_up: [{ text: This. }, { text: That. }] } }]\n".to_owned(),
            completes("code", "Do it: The second", "Second."),
            completes("code", "This.", "First."),
            // The results come together, the first call's first.
            "  - mode: orchestrator\n    when: { contains: [\"\\\"The first\\\" was completed\", \"\\nFirst.\\n\", \"\\nSecond.\\n\"] }\n    calls: [{ tool: attempt_completion, params: { result: Both. } }]\n".to_owned(),
        ],
        json!({}),
    );
    let mut watched = start(&fixture, "orchestrator").await;
    let mut question = None;
    let mut ended = None;
    while question.is_none() || ended.is_none() {
        let params = watched.next().await;
        match &params.event {
            Event::QuestionAsked { question: asked } => question = Some(asked.question_id.clone()),
            Event::TaskState { state: TaskState::Completed, .. } => ended = Some(params.task_id.clone()),
            _ => {}
        }
    }
    assert_eq!(
        watched.snapshot().await.item.state,
        TaskState::Waiting,
        "it waits for its user with its branch"
    );
    let answer = roo_protocol::task::QuestionAnswerParams {
        question_id: question.unwrap(),
        text: "This.".into(),
        images: vec![],
    };
    assert!(fixture.engine.answer(answer, "test").await.unwrap().accepted);
    assert_eq!(end(&mut watched).await.1, "Both.");
    let results: Vec<String> = watched
        .seen
        .iter()
        .filter(|params| params.task_id == params.root_id)
        .filter_map(|params| match &params.event {
            Event::ToolFinished { status: ToolStatus::Ok, summary, .. } => Some(summary.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(results.len(), 3, "{results:?}");
    watched.assert_gapless();
}

/// A turn in which a branch asks its user something.
const ASKS: &str = "  - mode: code\n    calls: [{ tool: ask_followup_question, params: { question: Which?, follow_up: [{ text: This. }, { text: That. }] } }]\n";

/// Waits until the next branch asks its user something.
async fn next_that_asks(watched: &mut Watched<'_>) -> TaskId {
    loop {
        let params = watched.next().await;
        if let Event::QuestionAsked { .. } = &params.event {
            return params.task_id.clone();
        }
    }
}

#[tokio::test]
async fn a_cancelled_branch_is_a_failed_result_and_a_cancelled_request_goes_on_with_the_others() {
    let script =
        [delegates("orchestrator", "Go.", &[("code", "The first"), ("code", "The second")]), ASKS.repeat(2)];
    let fixture = fixture(&script, json!({}));
    let mut watched = start(&fixture, "orchestrator").await;
    let asking = [next_that_asks(&mut watched).await, next_that_asks(&mut watched).await];
    fixture.engine.cancel(&asking[0]).await.unwrap();
    let (status, _) = watched
        .until(|event| match event {
            Event::ToolFinished { status, summary, .. } if *status != ToolStatus::Ok => {
                Some((*status, summary.clone()))
            }
            _ => None,
        })
        .await;
    assert_eq!(status, ToolStatus::Skipped, "the question of the branch");
    let of_parent = loop {
        let params = watched.next().await;
        if params.task_id == params.root_id
            && let Event::ToolFinished { status, summary, .. } = &params.event
        {
            break (*status, summary.clone());
        }
    };
    assert_eq!(of_parent.0, ToolStatus::Interrupted);
    assert!(of_parent.1.contains("was cancelled"), "{}", of_parent.1);
    fixture.engine.cancel(&watched.task).await.unwrap();
    assert_eq!(end(&mut watched).await.0, TaskState::Cancelled);
    let tree = fixture.engine.tree(&watched.task).await.unwrap();
    assert!(tree.nodes.iter().all(|node| node.state == TaskState::Cancelled), "{}", tree.text);
    assert!(fixture.engine.resume(&asking[0]).await.is_err(), "a branch that has ended never goes on");

    let params = TaskSendParams {
        task_id: watched.task.clone(),
        text: "Go on where you were.".into(),
        images: vec![],
        when: SendWhen::Now,
    };
    fixture.engine.send(params).await.unwrap();
    let again = next_that_asks(&mut watched).await;
    assert_eq!(again, asking[1], "the branch that had not ended asks again");
    let messages = fixture.engine.get(&again).await.unwrap().messages;
    assert!(messages.iter().any(|message| message.text == "Go on where you were."), "{messages:?}");
    watched.assert_gapless();
}

#[tokio::test]
async fn a_message_that_is_edited_ends_the_branches_of_a_cancelled_request() {
    let script = [delegates("orchestrator", "Go.", &[("code", "The first")]), ASKS.to_owned()];
    let fixture = fixture(&script, json!({}));
    let mut watched = start(&fixture, "orchestrator").await;
    let before = next_that_asks(&mut watched).await;
    fixture.engine.cancel(&watched.task).await.unwrap();
    assert_eq!(end(&mut watched).await.0, TaskState::Cancelled);
    let snapshot = watched.snapshot().await;
    let first = snapshot.messages.iter().find(|message| message.text == "Go.").unwrap().id.clone();
    let params = json!({ "taskId": watched.task, "messageId": first, "text": "Go.", "files": false });
    fixture.engine.edit_message(serde_json::from_value(params).unwrap(), "test").await.unwrap();
    assert_ne!(next_that_asks(&mut watched).await, before, "another branch works");
    assert!(fixture.engine.resume(&before).await.is_err(), "the one before has ended");
    watched.assert_gapless();
}

/// Waits until a file holds a word.
const WAIT: (&str, &str) = ("wait.sh", "until grep -q \"$2\" \"$1\" 2>/dev/null; do sleep 0.01; done\n");

/// A turn of a mode that makes these calls.
fn turn(mode: &str, when: &str, calls: &Value) -> String {
    format!("  - mode: {mode}\n    when: {{ contains: {when:?} }}\n    calls: {calls}\n")
}

fn write(path: &str, content: &str) -> Value {
    json!({ "tool": "write_to_file", "params": { "path": path, "content": content } })
}

fn read(path: &str) -> Value {
    json!({ "tool": "read_file", "params": { "files": [{ "path": path }] } })
}

/// Ends only when somebody else has written the word.
fn wait(path: &str, word: &str) -> Value {
    json!({ "tool": "execute_command", "params": { "command": format!("sh wait.sh {path} {word}") } })
}

fn writing() -> Value {
    json!({ "autoApprove": { "write": true, "execute": { "allow": [["sh", "wait.sh"]] } } })
}

#[tokio::test]
async fn branches_that_write_different_files_do_so_at_the_same_time() {
    // Each waits for what the other one writes: one after the other would take for ever.
    let turns = [
        delegates("orchestrator", "Go.", &[("code", "Write a"), ("debug", "Write b")]),
        turn("code", "Do it: Write a", &json!([write("a.txt", "A\n")])),
        turn("debug", "Do it: Write b", &json!([write("b.txt", "B\n")])),
        turn("code", "a.txt", &json!([wait("b.txt", "B")])),
        turn("debug", "b.txt", &json!([wait("a.txt", "A")])),
        completes("code", "Exit code: 0", "A."),
        completes("debug", "Exit code: 0", "B."),
        completes("orchestrator", "A.", "Both."),
    ];
    let fixture = Fixture::scripted(&[WAIT], &format!("turns:\n{}", turns.concat()), writing());
    let mut watched = start(&fixture, "orchestrator").await;
    assert_eq!(end(&mut watched).await.1, "Both.");
    assert_eq!((fixture.project.read("a.txt"), fixture.project.read("b.txt")), ("A\n".into(), "B\n".into()));
}

#[tokio::test]
async fn a_branch_that_would_write_over_anothers_words_is_told_what_changed_and_recovers() {
    let turns = [
        delegates("orchestrator", "Go.", &[("code", "Write a"), ("debug", "Write b")]),
        turn("code", "Do it: Write a", &json!([read("shared.txt"), wait("ready.txt", "B")])),
        turn("code", "Exit code: 0", &json!([write("shared.txt", "one\nA\n")])),
        turn("debug", "Do it: Write b", &json!([read("shared.txt"), write("ready.txt", "B\n")])),
        turn("debug", "ready.txt", &json!([wait("shared.txt", "A")])),
        turn("debug", "Exit code: 0", &json!([write("shared.txt", "one\nB\n")])),
        // It is told which line came.
        turn("debug", "+A", &json!([read("shared.txt")])),
        turn("debug", "2 | A", &json!([write("shared.txt", "one\nA\nB\n")])),
        completes("code", "shared.txt", "A."),
        completes("debug", "shared.txt", "B."),
        completes("orchestrator", "A.", "Both."),
    ];
    let files = [WAIT, ("shared.txt", "one\n")];
    let fixture = Fixture::scripted(&files, &format!("turns:\n{}", turns.concat()), writing());
    let mut watched = start(&fixture, "orchestrator").await;
    assert_eq!(end(&mut watched).await, (TaskState::Completed, "Both.".to_owned()));
    assert_eq!(fixture.project.read("shared.txt"), "one\nA\nB\n");
}

const INTENTS: (&str, &str) = (
    ".orchestration/active_intents.yaml",
    "active_intents:\n  - { id: INT-001, name: Code, status: IN_PROGRESS, owned_scope: [\"src/**/*.rs\"] }\n  - { id: INT-002, name: Words, status: IN_PROGRESS, owned_scope: [\"src/**/*.md\"] }\n",
);

fn select(intent: &str) -> Value {
    json!({ "tool": "select_active_intent", "params": { "intent_id": intent } })
}

/// Two requests side by side: the one in code waits in a command for what the other one, in debug, makes.
async fn side_by_side(turns: &[String]) -> (Fixture, Vec<Event>) {
    let files = [WAIT, INTENTS, ("src/lib.rs", ""), ("poke.sh", "echo A > src/legal.md\n")];
    let allow = json!([["sh", "wait.sh"], ["sh", "poke.sh"], ["echo"]]);
    let more = json!({ "autoApprove": { "write": true, "execute": { "allow": allow } } });
    let fixture = Fixture::scripted(&files, &format!("turns:\n{}", turns.concat()), more);
    let mut code = start(&fixture, "code").await;
    let mut debug = start(&fixture, "debug").await;
    assert_eq!(end(&mut code).await.1, "A.");
    assert_eq!(end(&mut debug).await.1, "B.");
    let events = code.seen.iter().map(|seen| seen.event.clone()).collect();
    drop((code, debug));
    (fixture, events)
}

#[tokio::test]
async fn what_another_task_edits_while_a_command_runs_is_not_taken_back() {
    let (fixture, events) = side_by_side(&[
        turn("code", "Go.", &json!([select("INT-001"), wait("src/legal.md", "L")])),
        turn(
            "debug",
            "Go.",
            &json!([select("INT-002"), write("src/legal.md", "L\n"), write("src/new/b.md", "B\n")]),
        ),
        completes("code", "Exit code: 0", "A."),
        completes("debug", "src/new/b.md", "B."),
    ])
    .await;
    assert_eq!(fixture.project.read("src/legal.md"), "L\n");
    let finished = events.iter().filter_map(|event| match event {
        Event::ToolFinished { status, .. } => Some(*status),
        _ => None,
    });
    assert!(finished.clone().all(|status| status == ToolStatus::Ok), "{:?}", finished.collect::<Vec<_>>());
}

#[tokio::test]
async fn what_another_command_changes_is_not_blamed_on_this_one() {
    let (fixture, events) = side_by_side(&[
        turn("code", "Go.", &json!([select("INT-001"), wait("src/legal.md", "L")])),
        turn(
            "debug",
            "Go.",
            &json!([select("INT-002"), { "tool": "execute_command", "params": { "command": "echo L > src/legal.md; sh wait.sh src/a.rs A" } }]),
        ),
        turn("code", "Exit code: 0", &json!([write("src/a.rs", "// A\n")])),
        completes("code", "src/a.rs", "A."),
        completes("debug", "Exit code: 0", "B."),
    ])
    .await;
    assert_eq!(fixture.project.read("src/legal.md"), "L\n");
    let failed = |event: &&Event| matches!(event, Event::ToolFinished { status: ToolStatus::Failed, .. });
    assert_eq!(events.iter().filter(failed).count(), 0);
}

#[tokio::test]
async fn what_another_command_may_have_changed_too_is_left_for_the_user() {
    let written_and_waits = "sh wait.sh src/legal.md A; echo L > src/legal.md; sh wait.sh src/a.rs A";
    let pokes_and_waits = "sh poke.sh; sh wait.sh src/legal.md L";
    let (fixture, _) = side_by_side(&[
        turn(
            "code",
            "Go.",
            &json!([select("INT-001"), { "tool": "execute_command", "params": { "command": pokes_and_waits } }]),
        ),
        turn(
            "debug",
            "Go.",
            &json!([select("INT-002"), { "tool": "execute_command", "params": { "command": written_and_waits } }]),
        ),
        turn("code", "somebody else may have changed it meanwhile", &json!([write("src/a.rs", "// A\n")])),
        completes("code", "src/a.rs", "A."),
        completes("debug", "Exit code: 0", "B."),
    ])
    .await;
    assert_eq!(fixture.project.read("src/legal.md"), "L\n");
}
