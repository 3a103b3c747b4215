//! The trace can't be kept: nothing more is changed, everybody is told, and it goes on when the disk is mended.

use std::fs;

use roo_durable::WorkspaceDirectory;
use roo_protocol::event::Event;
use roo_protocol::task::TaskState;
use serde_json::json;

use crate::support::engine::Fixture;

const SCRIPT: &str = r#"
turns:
  - calls: [{ tool: write_to_file, params: { path: a.txt, content: "a\n" } }]
  - calls: [{ tool: write_to_file, params: { path: b.txt, content: "b\n" } }]
  - when: { contains: "Nothing can be changed now" }
    calls: [{ tool: ask_followup_question, params: { question: Mended?, follow_up: [{ text: yes }, { text: no }] } }]
  - calls: [{ tool: write_to_file, params: { path: b.txt, content: "b\n" } }]
  - calls: [{ tool: attempt_completion, params: { result: Done. } }]
"#;

#[tokio::test]
async fn nothing_more_is_changed_while_the_trace_can_not_be_kept_and_everybody_is_told() {
    let fixture = Fixture::scripted(&[], SCRIPT, json!({ "autoApprove": { "write": true } }));
    let project = &fixture.project;
    let trace = WorkspaceDirectory::new(&project.beside("state"), &project.folder()).path().join("trace");
    fs::create_dir_all(trace.parent().unwrap()).unwrap();
    fs::write(&trace, "in the way").unwrap();
    let mut task = fixture.start("Write.").await;
    let reason = task
        .until(|event| match event {
            Event::ServerDegraded { reason, .. } => Some(reason.clone()),
            _ => None,
        })
        .await;
    assert!(reason.contains("what agents do is not recorded"), "{reason}");
    assert!(reason.ends_with("Nothing is changed or run until this is fixed."), "{reason}");
    let mut again = 0;
    let question = task
        .until(|event| {
            again += usize::from(matches!(event, Event::ServerDegraded { .. }));
            match event {
                Event::QuestionAsked { question } => Some(question.question_id.clone()),
                _ => None,
            }
        })
        .await;
    assert!(!project.folder().join("b.txt").exists());
    assert_eq!(again, 0, "it is told once");
    fs::remove_file(&trace).unwrap();
    let answer = roo_protocol::task::QuestionAnswerParams {
        question_id: question,
        text: "yes".into(),
        images: vec![],
    };
    fixture.engine.answer(answer, "test").await.unwrap();
    assert_eq!(task.end().await, (TaskState::Completed, "Done.".to_owned()));
    assert_eq!(project.read("b.txt"), "b\n");
    let records: usize = fs::read_dir(&trace)
        .unwrap()
        .filter_map(|entry| fs::read_to_string(entry.unwrap().path()).ok())
        .map(|text| text.matches("\"write_to_file\"").count())
        .sum();
    assert!(records >= 3, "both writes and the refusal are there: {records}");
}
