use proptest::prelude::*;
use serde_json::json;

use super::*;

const ID: &str = "0197a0c0-0000-7000-8000-000000000001";

fn read(item: Option<&Value>, conversation: &Value) -> Result<PastTask, TaskError> {
    let (item, conversation) = (item.map(Value::to_string), conversation.to_string());
    PastTask::read(&TaskFiles {
        id: ID,
        item: item.as_deref(),
        conversation: Some(&conversation),
        ..TaskFiles::default()
    })
}

fn contents(task: &PastTask) -> Vec<PastContent> {
    task.messages.iter().map(|message| message.content.clone()).collect()
}

fn words(text: &str) -> InputPart {
    InputPart::Words(text.to_owned())
}

fn text(text: &str) -> InputPart {
    InputPart::Text(text.to_owned())
}

fn call(id: &str, name: &str, params: Value) -> AnswerPart {
    let params = params.as_object().cloned().unwrap_or_default();
    AnswerPart::Call(PastCall { id: id.to_owned(), name: name.to_owned(), params })
}

#[test]
fn native_calls_have_their_results_and_environment_details_are_left_out() {
    let environment = "<environment_details>\n# Current Mode\n<slug>debug</slug>\n\
                       # Current Workspace Directory (/home/user/app) Files\nmain.rs\n</environment_details>";
    let task = read(
        None,
        &json!([
            { "role": "user", "ts": 1_700_000_000_000_u64, "content": [
                { "type": "text", "text": "<user_message>\nFix it.\n</user_message>" },
                { "type": "text", "text": environment },
            ] },
            { "role": "assistant", "ts": 1_700_000_001_000_u64, "content": [
                { "type": "reasoning", "text": "Hm." },
                { "type": "text", "text": "I look." },
                { "type": "tool_use", "id": "c1", "name": "read_file", "input": { "path": "main.rs" } },
            ] },
            { "role": "user", "content": [
                { "type": "tool_result", "tool_use_id": "c1", "content": "1 | fn main() {}" },
                { "type": "text", "text": environment },
            ] },
        ]),
    )
    .unwrap();
    assert_eq!(
        contents(&task),
        [
            PastContent::Input(vec![words("Fix it.")]),
            PastContent::Answer(vec![
                AnswerPart::Thinking("Hm.".to_owned()),
                AnswerPart::Text("I look.".to_owned()),
                call("c1", "read_file", json!({ "path": "main.rs" })),
            ]),
            PastContent::Input(vec![InputPart::Result(PastResult {
                call: "c1".to_owned(),
                text: "1 | fn main() {}".to_owned(),
                images: vec![],
                is_error: false,
            })]),
        ]
    );
    assert_eq!(task.item.task, "Fix it.");
    assert_eq!(task.item.workspace.as_deref(), Some("/home/user/app"));
    assert_eq!(task.item.mode.as_deref(), Some("debug"));
    assert_eq!(task.messages[0].at, Some(1_700_000_000_000));
    assert!(task.has_native_calls());
}

#[test]
fn earlier_wrappings_are_taken_off_the_words() {
    let task = read(
        None,
        &json!([
            { "role": "user", "content": "<task>\nGo on with `<task>`.\n</task>\n\n<file_content path=\"a\">\nA\n</file_content>" },
            { "role": "assistant", "content": "<ask_followup_question>…</ask_followup_question>" },
            { "role": "user", "content": [
                { "type": "text", "text": "[ask_followup_question for 'Which?'] Result:" },
                { "type": "text", "text": "<answer>\nThe first.\n</answer>" },
            ] },
            { "role": "user", "content": "The user has provided feedback on the results.\n<feedback>\nNot yet.\n</feedback>" },
        ]),
    )
    .unwrap();
    assert_eq!(
        contents(&task),
        [
            PastContent::Input(vec![
                words("Go on with `<task>`."),
                text("<file_content path=\"a\">\nA\n</file_content>"),
            ]),
            PastContent::Answer(vec![AnswerPart::Text(
                "<ask_followup_question>…</ask_followup_question>".to_owned()
            )]),
            PastContent::Input(vec![
                text("[ask_followup_question for 'Which?'] Result:"),
                words("The first.")
            ]),
            PastContent::Input(vec![
                text("The user has provided feedback on the results."),
                words("Not yet.")
            ]),
        ]
    );
    assert!(!task.has_native_calls());
}

#[test]
fn the_version_with_parts_of_the_ai_sdk_is_read_too() {
    let task = read(
        None,
        &json!({ "version": 2, "messages": [
            { "role": "user", "content": [
                { "type": "text", "text": "Look." },
                { "type": "image", "image": "AAAA", "mediaType": "image/png" },
            ] },
            { "type": "reasoning", "encrypted_content": "…" },
            { "role": "assistant", "content": [
                { "type": "tool-call", "toolCallId": "c1", "toolName": "read_file", "input": { "path": "a" } },
            ] },
            { "role": "tool", "content": [
                { "type": "tool-result", "toolCallId": "c1", "toolName": "read_file",
                  "output": { "type": "text", "value": "[ERROR] no such file" } },
            ] },
        ] }),
    )
    .unwrap();
    assert_eq!(
        contents(&task),
        [
            PastContent::Input(vec![
                words("Look."),
                InputPart::Image("data:image/png;base64,AAAA".to_owned())
            ]),
            PastContent::Answer(vec![call("c1", "read_file", json!({ "path": "a" }))]),
            PastContent::Input(vec![InputPart::Result(PastResult {
                call: "c1".to_owned(),
                text: "[ERROR] no such file".to_owned(),
                images: vec![],
                is_error: true,
            })]),
        ]
    );
}

#[test]
fn summaries_are_kept_and_markers_of_truncations_are_not() {
    let task = read(
        None,
        &json!([
            { "role": "user", "content": "Go.", "condenseParent": "s" },
            { "role": "user", "content": "hidden from here", "isTruncationMarker": true, "truncationId": "t" },
            { "role": "assistant", "content": "Done with the first part.", "truncationParent": "t" },
            { "role": "user", "content": [{ "type": "text", "text": "## Conversation Summary\nSo far." }],
              "isSummary": true, "condenseId": "s" },
        ]),
    )
    .unwrap();
    assert_eq!(
        contents(&task),
        [
            PastContent::Input(vec![words("Go.")]),
            PastContent::Answer(vec![AnswerPart::Text("Done with the first part.".to_owned())]),
            PastContent::Summary("## Conversation Summary\nSo far.".to_owned()),
        ]
    );
}

#[test]
fn the_entry_says_what_was_used_and_who_delegated() {
    let item = json!({
        "id": ID, "number": 3, "ts": 1_700_000_009_000_u64, "task": "Fix it.", "tokensIn": 1200, "tokensOut": 30.0,
        "cacheReads": 5, "totalCost": 0.25, "workspace": "/home/user/app", "mode": "code", "apiConfigName": "work",
        "status": "completed", "rootTaskId": "r", "parentTaskId": "p", "childIds": ["c"],
    });
    let task = read(Some(&item), &json!([{ "role": "user", "content": "Fix it." }])).unwrap();
    let TaskItem { usage, is_completed, parent_task_id, root_task_id, child_ids, profile, .. } = task.item;
    assert_eq!((usage.tokens_in, usage.tokens_out, usage.cache_reads), (1200, 30, 5));
    assert_eq!((usage.cost_usd, is_completed, profile.as_deref()), (0.25, true, Some("work")));
    assert_eq!((parent_task_id.as_deref(), root_task_id.as_deref()), (Some("p"), Some("r")));
    assert_eq!(child_ids, ["c"]);
}

#[test]
fn without_an_entry_the_shown_messages_say_what_was_used() {
    let conversation = json!([{ "role": "user", "content": "Go." }]).to_string();
    let shown = json!([
        { "ts": 1_600_000_000_000_u64, "type": "say", "say": "text", "text": "Go." },
        { "ts": 1_600_000_001_000_u64, "type": "say", "say": "api_req_started",
          "text": "{\"tokensIn\":10,\"tokensOut\":2,\"cost\":0.5}" },
        { "ts": 1_600_000_002_000_u64, "type": "say", "say": "api_req_started", "text": "{\"tokensIn\":5" },
    ])
    .to_string();
    let task = PastTask::read(&TaskFiles {
        id: "old",
        conversation: Some(&conversation),
        messages: Some(&shown),
        ..TaskFiles::default()
    })
    .unwrap();
    assert_eq!((task.item.usage.tokens_in, task.item.usage.cost_usd), (10, 0.5));
    assert_eq!((task.created_at, task.item.ts), (1_600_000_000_000, 1_600_000_002_000));
}

#[test]
fn the_time_of_the_beginning_is_in_the_id() {
    assert_eq!(time_in("1700000000000"), Some(1_700_000_000_000));
    assert_eq!(time_in(ID), Some(0x0197_a0c0_0000));
    assert_eq!(time_in("5a0e4c2e-7f55-4a4c-9f39-0242ac120002"), None);
    assert_eq!(time_in("task-1"), None);
}

#[test]
fn what_is_broken_is_said() {
    let go = json!([{ "role": "user", "content": "Go." }]);
    let with = |id, item, conversation| {
        PastTask::read(&TaskFiles { id, item, conversation, ..TaskFiles::default() })
    };
    let text = go.to_string();
    for (result, message) in [
        (with("..", None, Some(text.as_str())), "its directory has a name that no task has"),
        (with(ID, None, None), "it has no api_conversation_history.json"),
        (
            with(ID, None, Some("[{\"role\":")),
            "api_conversation_history.json is not valid JSON (line 1, column 9)",
        ),
        (with(ID, None, Some("7")), "api_conversation_history.json is not what Roo Code writes"),
        (with(ID, None, Some("[]")), "there is no message of the user in it"),
        (with(ID, Some("{}"), Some(text.as_str())), "history_item.json is not what Roo Code writes"),
        (
            with(ID, Some("{\"id\":\"../x\\u001b\"}"), Some(text.as_str())),
            "history_item.json is that of another task, ../x\\u{1b}",
        ),
    ] {
        assert_eq!(result.unwrap_err().to_string(), message);
    }
}

#[test]
fn lists_of_tasks_are_arrays_or_have_entries() {
    let entry = json!({ "id": "a", "ts": 7, "task": "Go.", "cwdOnTaskInitialization": "/work" });
    for list in [json!([entry, 3]), json!({ "version": 1, "updatedAt": 1, "entries": [entry] })] {
        let items = read_list("_index.json", &list.to_string()).unwrap();
        assert_eq!(items.len(), 1);
        assert_eq!(items[0].workspace.as_deref(), Some("/work"));
    }
    assert!(read_list("_index.json", "3").is_err());
}

#[test]
fn the_user_of_roo_code_is_shown_the_whole_task() {
    let task = PastTask {
        item: TaskItem {
            id: ID.to_owned(),
            task: "Fix it.".to_owned(),
            is_completed: true,
            ..TaskItem::default()
        },
        created_at: 1000,
        messages: vec![
            PastMessage { at: Some(1000), content: PastContent::Input(vec![words("Fix it.")]) },
            PastMessage {
                at: Some(1000),
                content: PastContent::Answer(vec![
                    AnswerPart::Text("I look.".to_owned()),
                    call("c1", "execute_command", json!({ "command": "ls" })),
                ]),
            },
            PastMessage { at: None, content: PastContent::Input(vec![words("Go on.")]) },
            PastMessage {
                at: Some(5000),
                content: PastContent::Answer(vec![call(
                    "c2",
                    "attempt_completion",
                    json!({ "result": "Done." }),
                )]),
            },
        ],
    };
    let shown: Value = serde_json::from_str(&task.write().messages).unwrap();
    let lines: Vec<String> = shown
        .as_array()
        .unwrap()
        .iter()
        .map(|message| {
            let kind = message["say"].as_str().or(message["ask"].as_str()).unwrap();
            let text = if kind == "api_req_started" { "…" } else { message["text"].as_str().unwrap() };
            format!("{} {kind} {text}", message["ts"])
        })
        .collect();
    assert_eq!(
        lines,
        [
            "1000 text Fix it.",
            "1001 api_req_started …",
            "1002 text I look.",
            "1003 command ls",
            "1004 user_feedback Go on.",
            "5000 api_req_started …",
            "5001 completion_result Done.",
            "5002 completion_result ",
        ]
    );
}

fn plain() -> impl Strategy<Value = String> {
    "[a-zA-Z0-9äß{}\"\\\\\n .,]{1,40}".prop_map(|text| format!("x{}x", text.trim()))
}

fn input_part() -> impl Strategy<Value = InputPart> {
    let image = Just("data:image/png;base64,AAAA".to_owned());
    prop_oneof![
        plain().prop_map(InputPart::Words),
        plain().prop_map(InputPart::Text),
        image.clone().prop_map(InputPart::Image),
        ("[a-z0-9]{1,8}", plain(), prop::collection::vec(image, 0..2), any::<bool>()).prop_map(
            |(call, text, images, is_error)| InputPart::Result(PastResult { call, text, images, is_error })
        ),
    ]
}

fn answer_part() -> impl Strategy<Value = AnswerPart> {
    prop_oneof![
        plain().prop_map(AnswerPart::Text),
        plain().prop_map(AnswerPart::Thinking),
        ("[a-z0-9]{1,8}", "[a-z_]{1,12}", prop::collection::btree_map("[a-z]{1,6}", plain(), 0..3)).prop_map(
            |(id, name, params)| {
                let params = params.into_iter().map(|(key, value)| (key, Value::from(value))).collect();
                AnswerPart::Call(PastCall { id, name, params })
            }
        ),
    ]
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(
        turns in prop::collection::vec(
            (prop::collection::vec(input_part(), 1..4), prop::collection::vec(answer_part(), 1..4), any::<bool>()),
            1..6,
        ),
        prompt in plain(),
    ) {
        let mut contents = vec![PastContent::Input(vec![InputPart::Words(prompt.clone())])];
        for (input, answer, is_summarised) in turns {
            contents.push(PastContent::Answer(answer));
            if is_summarised {
                contents.push(PastContent::Summary("What was done.".to_owned()));
            }
            contents.push(PastContent::Input(input));
        }
        let at = |index: usize| Some(0x0197_a0c0_0000 + i64::try_from(index).unwrap());
        let messages = contents.into_iter().enumerate();
        let messages = messages.map(|(index, content)| PastMessage { at: at(index), content }).collect();
        let item = TaskItem {
            id: ID.to_owned(),
            task: prompt,
            number: 1,
            ts: 0x0197_a0c0_0000,
            workspace: Some("/work".to_owned()),
            mode: Some("code".to_owned()),
            child_ids: vec!["a".to_owned()],
            ..TaskItem::default()
        };
        let task = PastTask { item, created_at: 0x0197_a0c0_0000, messages };
        let TaskFileTexts { item, conversation, messages } = task.write();
        let again = PastTask::read(&TaskFiles {
            id: ID,
            item: Some(&item),
            conversation: Some(&conversation),
            messages: Some(&messages),
            ..TaskFiles::default()
        });
        prop_assert_eq!(again.unwrap(), task);
    }
}
