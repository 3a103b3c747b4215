use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::engine::exports::past_tasks;
use crate::engine::replay::{Replayed, replay};
use crate::engine::task::Input;
use crate::engine::tree::Tree;
use roo_formats::roo_code::tasks::TaskItem;
use roo_protocol::task::{ForkOrigin, SendWhen, TaskState};

fn settings() -> ImportSettings {
    ImportSettings {
        mode: "code".to_owned(),
        emoji: String::new(),
        profile: "default".to_owned(),
        protocol: ToolProtocol::Native,
        limits: Limits::default(),
    }
}

fn past(contents: Vec<PastContent>) -> PastTask {
    let messages = contents.into_iter().enumerate();
    let messages = messages.map(|(index, content)| PastMessage {
        at: i64::try_from(index).ok().map(|index| 2000 + index),
        content,
    });
    PastTask {
        item: TaskItem {
            id: "0197a0c0-0000-7000-8000-000000000001".to_owned(),
            task: "Fix it.".to_owned(),
            usage: Usage { tokens_in: 1000, tokens_out: 10, cost_usd: 0.5, ..Usage::default() },
            parent_task_id: Some("above".to_owned()),
            ..TaskItem::default()
        },
        created_at: 2000,
        messages: messages.collect(),
    }
}

fn words(text: &str) -> InputPart {
    InputPart::Words(text.to_owned())
}

fn call(id: &str, name: &str, params: &Value) -> AnswerPart {
    let params = params.as_object().cloned().unwrap_or_default();
    AnswerPart::Call(PastCall { id: id.to_owned(), name: name.to_owned(), params })
}

fn result(call: &str, text: &str) -> InputPart {
    InputPart::Result(PastResult {
        call: call.to_owned(),
        text: text.to_owned(),
        images: vec![],
        is_error: false,
    })
}

/// The records that a task is imported as.
fn imported(past: &PastTask) -> (TaskId, Vec<Record<Event>>) {
    let (id, urid) = ids("Roo Code", past);
    let records = records(&id, &urid, "Roo Code", past, settings()).unwrap();
    (id, records)
}

/// The types of events, without those that begin every import.
fn types(records: &[Record<Event>]) -> Vec<String> {
    let kind = |record: &Record<Event>| {
        serde_json::to_value(&record.event).unwrap()["type"].as_str().unwrap().to_owned()
    };
    records.iter().skip(2).map(kind).collect()
}

/// Two calls, a question, and a result that its user wanted changed.
fn long_task() -> PastTask {
    past(vec![
        PastContent::Input(vec![words("Fix it.")]),
        PastContent::Answer(vec![
            AnswerPart::Thinking("Hm.".to_owned()),
            AnswerPart::Text("I look.".to_owned()),
            call("c1", "read_file", &json!({ "path": "a.txt" })),
            call("c2", "execute_command", &json!({ "command": "ls" })),
        ]),
        PastContent::Input(vec![result("c1", "1 | a"), result("c2", "The user denied this operation.")]),
        PastContent::Answer(vec![call(
            "c3",
            "ask_followup_question",
            &json!({ "question": "Which?", "follow_up": [] }),
        )]),
        PastContent::Input(vec![result("c3", "<user_message>\nThe first.\n</user_message>")]),
        PastContent::Answer(vec![call("c4", "attempt_completion", &json!({ "result": "Half of it." }))]),
        PastContent::Input(vec![result("c4", "<user_message>\nAll of it.\n</user_message>")]),
        PastContent::Answer(vec![call("c5", "attempt_completion", &json!({ "result": "Done." }))]),
    ])
}

#[test]
fn a_task_becomes_events_that_fold_to_its_end() {
    let (id, records) = imported(&long_task());
    assert!(matches!(records[0].event, Event::Created { .. }));
    let Event::Imported { origin, events } = &records[1].event else { panic!("{:?}", records[1]) };
    assert_eq!(
        (origin.task_id.as_str(), origin.parent_task_id.as_deref()),
        ("0197a0c0-0000-7000-8000-000000000001", Some("above"))
    );
    assert_eq!(*events, records.len() as u64 - 2);
    assert_eq!(
        types(&records),
        [
            "userSaid",
            "turnStarted",
            "thought",
            "spoke",
            "called",
            "called",
            "turnEnded",
            "toolStarted",
            "toolFinished",
            "toolStarted",
            "toolFinished",
            "turnStarted",
            "called",
            "turnEnded",
            "questionAsked",
            "questionAnswered",
            "toolFinished",
            "turnStarted",
            "called",
            "turnEnded",
            "shown",
            "toolFinished",
            "ended",
            "resumed",
            "userSaid",
            "turnStarted",
            "called",
            "turnEnded",
            "shown",
            "toolFinished",
            "ended",
        ]
    );
    let tree = Tree::fold(&id, &records).unwrap();
    let task = tree.root();
    assert_eq!((task.state(), task.result()), (TaskState::Completed, Some("Done.")));
    assert_eq!((tree.usage().tokens_in, tree.usage().cost_usd), (1000, 0.5));
    let statuses = task.conversation.items().iter().find_map(|item| match item {
        Item::Results { results } => Some(results.iter().map(|result| result.status).collect::<Vec<_>>()),
        _ => None,
    });
    assert_eq!(statuses, Some(vec![ToolStatus::Ok, ToolStatus::Denied]));
    // What was spent elsewhere is no part of the budget.
    assert_eq!(tree.budget_left(task).cost_usd, Some(Limits::default().cost_usd));
    assert_eq!(tree.history_item().imported_from.unwrap().program, "Roo Code");
}

#[test]
fn what_had_not_ended_is_cancelled_with_its_open_call_answered() {
    let (id, records) = imported(&past(vec![
        PastContent::Input(vec![words("Fix it.")]),
        PastContent::Answer(vec![call("c1", "read_file", &json!({ "path": "a.txt" }))]),
    ]));
    let tree = Tree::fold(&id, &records).unwrap();
    assert_eq!(tree.state(), TaskState::Cancelled);
    assert_eq!(tree.root().reason(), Some("it had not ended in Roo Code"));
    let Some(Item::Results { results }) = tree.root().conversation.items().last() else {
        panic!("no results")
    };
    assert_eq!((results[0].status, results[0].text.as_str()), (ToolStatus::Interrupted, NO_RESULT));
}

#[test]
fn calls_by_tags_have_the_next_message_as_their_result() {
    let text = |text: &str| InputPart::Text(text.to_owned());
    let (id, records) = imported(&past(vec![
        PastContent::Input(vec![words("Fix it.")]),
        PastContent::Answer(vec![AnswerPart::Text(
            "I look.\n\n<read_file>\n<path>a.txt</path>\n</read_file>".to_owned(),
        )]),
        PastContent::Input(vec![text("[read_file for 'a.txt'] Result:"), text("1 | a")]),
        PastContent::Answer(vec![AnswerPart::Text("I think so.".to_owned())]),
        PastContent::Input(vec![text("[ERROR] You did not use a tool.")]),
        PastContent::Answer(vec![AnswerPart::Text(
            "<attempt_completion>\n<result>\nDone.\n</result>\n</attempt_completion>".to_owned(),
        )]),
    ]));
    let tree = Tree::fold(&id, &records).unwrap();
    let task = tree.root();
    assert_eq!((task.state(), task.result()), (TaskState::Completed, Some("Done.")));
    let results = task.conversation.items().iter().find_map(|item| match item {
        Item::Results { results } => Some(results.clone()),
        _ => None,
    });
    let results = results.unwrap();
    assert_eq!((results[0].name.as_str(), results[0].text.as_str()), ("read_file", "1 | a"));
    let told = task
        .conversation
        .items()
        .iter()
        .any(|item| matches!(item, Item::User { text, .. } if text == "[ERROR] You did not use a tool."));
    assert!(told);
}

#[test]
fn a_summary_stands_for_what_was_before_it() {
    let (id, records) = imported(&past(vec![
        PastContent::Input(vec![words("Fix it.")]),
        PastContent::Answer(vec![call("c1", "read_file", &json!({ "path": "a.txt" }))]),
        PastContent::Input(vec![result("c1", "1 | a")]),
        PastContent::Summary("It read a.txt.".to_owned()),
        PastContent::Answer(vec![AnswerPart::Text("I go on.".to_owned())]),
    ]));
    let tree = Tree::fold(&id, &records).unwrap();
    let items = tree.root().conversation.items().clone();
    let items: Vec<&Item> = items.iter().collect();
    // The user's words stay.
    assert!(
        matches!(
            items.as_slice(),
            [Item::User { .. }, Item::Summary { text, answers: 1, .. }, Item::Assistant { .. }]
                if text == "It read a.txt."
        ),
        "{items:?}"
    );
}

#[test]
fn an_import_is_not_replayed_and_what_follows_is() {
    let (id, mut records) = imported(&long_task());
    let count = records.len() as u64;
    assert_eq!(replay(&id, &records), Ok(Replayed { events: count, given: count, imported: count }));
    let tree = Tree::fold(&id, &records).unwrap();
    let send = Input::Send { text: "More.".to_owned(), images: vec![], when: SendWhen::Now };
    for (seq, (task_id, event)) in (count + 1..).zip(tree.decide(&id, send, 9000)) {
        records.push(Record { seq, at: 9000, task_id, event });
    }
    assert!(records.len() as u64 > count);
    let replayed = replay(&id, &records).unwrap();
    assert_eq!((replayed.events, replayed.imported), (records.len() as u64, count));
    // A forged continuation isn't what the machine derives.
    let last = records.len() - 1;
    records[last].event = Event::BudgetReset;
    assert!(replay(&id, &records).is_err());
}

#[test]
fn a_fork_from_within_an_import_replays_from_there() {
    let (id, mut records) = imported(&long_task());
    // In the middle of an answer.
    records.truncate(8);
    let tree = Tree::fold(&id, &records).unwrap();
    let urid = tree.root().urid.clone();
    let from = ForkOrigin { task_id: id.clone(), urid, seq: 8, usage: Usage::default() };
    let urid = Urid::new("20250101-11-00-00000001");
    let forked = Event::Forked { urid, title: "Again".to_owned(), from, directory: None };
    for (seq, (task_id, event)) in (9..).zip(tree.fork(forked, 9000)) {
        records.push(Record { seq, at: 9000, task_id, event });
    }
    let replayed = replay(&id, &records).unwrap();
    assert_eq!((replayed.events, replayed.imported), (records.len() as u64, 8));
    let fork = Tree::fold(&id, &records).unwrap();
    assert_eq!(fork.history_item().imported_from, None);
}

#[test]
fn a_task_is_imported_once() {
    let state = tempfile::tempdir().unwrap();
    let directory = WorkspaceDirectory::new(state.path(), Path::new("/work"));
    let mut requests = ImportedRequests::open(directory.clone()).unwrap();
    let task = long_task();
    assert!(!requests.has("Roo Code", &task));
    let first = requests.import("Roo Code", &task, settings()).unwrap();
    assert!(!first.was_known && requests.has("Roo Code", &task));
    let again = requests.import("Roo Code", &task, settings()).unwrap();
    assert_eq!(again, ImportedRequest { was_known: true, ..first.clone() });
    assert_eq!(directory.requests().unwrap(), [first.task_id]);
    // The same id in another program is another task.
    assert!(!requests.import("Cline", &task, settings()).unwrap().was_known);
}

#[test]
fn a_task_is_known_again_by_its_id_whatever_else_of_it_has_changed() {
    let state = tempfile::tempdir().unwrap();
    let directory = WorkspaceDirectory::new(state.path(), Path::new("/work"));
    let mut task = long_task();
    task.item.id = "a-session".to_owned();
    let first =
        ImportedRequests::open(directory.clone()).unwrap().import("Roo Code", &task, settings()).unwrap();
    // It has gone on, and its first messages are gone with their times.
    task.created_at += 86_400_000;
    let mut later = ImportedRequests::open(directory.clone()).unwrap();
    assert!(later.has("Roo Code", &task));
    let again = later.import("Roo Code", &task, settings()).unwrap();
    assert_eq!((again.task_id, again.was_known), (first.task_id.clone(), true));
    task.item.id = "another-session".to_owned();
    assert!(!later.has("Roo Code", &task));
    // One that was deleted may come again.
    std::fs::remove_dir_all(directory.request(&first.task_id).path()).unwrap();
    task.item.id = "a-session".to_owned();
    assert!(!later.import("Roo Code", &task, settings()).unwrap().was_known);
}

/// Contents of messages, with the ids of calls counted.
fn normal(messages: &[PastMessage]) -> Vec<PastContent> {
    let mut known: HashMap<String, String> = HashMap::new();
    let mut number = |id: &str| {
        let next = format!("c{}", known.len());
        known.entry(id.to_owned()).or_insert(next).clone()
    };
    let mut normal = vec![];
    for message in messages {
        let mut content = message.content.clone();
        match &mut content {
            PastContent::Input(parts) => {
                for part in parts {
                    if let InputPart::Result(result) = part {
                        result.call = number(&result.call);
                    }
                }
            }
            PastContent::Answer(parts) => {
                for part in parts {
                    if let AnswerPart::Call(call) = part {
                        call.id = number(&call.id);
                    }
                }
            }
            PastContent::Summary(_) => {}
        }
        normal.push(content);
    }
    normal
}

fn exported(id: &TaskId, records: &[Record<Event>]) -> PastTask {
    let mut tasks = past_tasks(id, records, Some("/work"));
    assert_eq!(tasks.len(), 1);
    tasks.remove(0)
}

#[test]
fn an_imported_task_is_exported_with_its_relations() {
    let (id, records) = imported(&long_task());
    let task = exported(&id, &records);
    assert_eq!(task.item.parent_task_id.as_deref(), Some("above"));
    assert_eq!((task.item.task.as_str(), task.item.is_completed), ("Fix it.", true));
    assert_eq!((task.item.usage.tokens_in, task.item.workspace.as_deref()), (1000, Some("/work")));
    let again = imported(&task).1;
    assert_eq!(types(&again), types(&records));
}

#[test]
fn a_summary_that_was_taken_back_is_not_exported() {
    let (id, mut records) = imported(&past(vec![
        PastContent::Input(vec![words("Fix it.")]),
        PastContent::Answer(vec![call("c1", "read_file", &json!({ "path": "a.txt" }))]),
        PastContent::Input(vec![result("c1", "1 | a")]),
        PastContent::Summary("It read a.txt.".to_owned()),
        PastContent::Answer(vec![AnswerPart::Text("I go on.".to_owned())]),
    ]));
    let summaries = |records: &[Record<Event>]| {
        let is_summary = |message: &&PastMessage| matches!(message.content, PastContent::Summary(_));
        exported(&id, records).messages.iter().filter(is_summary).count()
    };
    assert_eq!(summaries(&records), 1);
    let is_condensed = |record: &&Record<Event>| matches!(record.event, Event::ContextCondensed { .. });
    let seq = records.iter().find(is_condensed).unwrap().seq;
    let last = records.last().unwrap().clone();
    let event = Event::ContextRestored { seq, left_out: Box::default(), tokens_before: 1, tokens_after: 2 };
    records.push(Record { seq: last.seq + 1, event, ..last });
    assert_eq!(summaries(&records), 0);
}

fn plain() -> impl Strategy<Value = String> {
    "[a-zA-Z0-9 .,]{0,30}".prop_map(|text| format!("x{}x", text.trim()))
}

/// The calls of an answer with the texts of their results, its text, and what comes after the results.
type Turn = (Vec<(String, String, bool)>, Option<String>, Option<String>, Option<String>);

fn turn() -> impl Strategy<Value = Turn> {
    (
        prop::collection::vec((plain(), plain(), any::<bool>()), 0..3),
        prop::option::of(plain()),
        prop::option::of(plain()),
        prop::option::of(plain()),
    )
}

proptest! {
    #[test]
    fn messages_are_kept_over_import_and_export(turns in prop::collection::vec(turn(), 1..6)) {
        let mut contents = vec![PastContent::Input(vec![words("Fix it.")])];
        for (number, (calls, text, said, told)) in turns.into_iter().enumerate() {
            let mut answer: Vec<AnswerPart> = text.into_iter().map(AnswerPart::Text).collect();
            let mut input = vec![];
            for (index, (path, text, is_error)) in calls.into_iter().enumerate() {
                let id = format!("{number}.{index}");
                answer.push(call(&id, "read_file", &json!({ "path": path })));
                input.push(InputPart::Result(PastResult { call: id, text, images: vec![], is_error }));
            }
            if answer.is_empty() {
                answer.push(AnswerPart::Text("x".to_owned()));
            }
            input.extend(said.map(InputPart::Words));
            input.extend(told.map(InputPart::Text));
            if input.is_empty() {
                input.push(words("Go on."));
            }
            contents.push(PastContent::Answer(answer));
            contents.push(PastContent::Input(input));
        }
        let task = past(contents);
        let (id, records) = imported(&task);
        prop_assert_eq!(replay(&id, &records).map(|replayed| replayed.imported), Ok(records.len() as u64));
        let exported = exported(&id, &records);
        prop_assert_eq!(normal(&exported.messages), normal(&task.messages));
    }
}
