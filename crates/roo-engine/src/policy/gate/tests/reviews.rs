//! Edits that their user answered hunk by hunk.

use super::*;
use crate::policy::{PlannedEdit, ProposedEdit, ProposedPatch};
use roo_protocol::ids::HunkId;
use roo_protocol::review::{HunkAnswer, HunkDecision};

fn refuse(id: &str) -> HunkAnswer {
    HunkAnswer {
        hunk_id: HunkId::new(id),
        digest: None,
        decision: HunkDecision::Refuse { text: Some("No.".into()) },
    }
}

async fn asked(fixture: &Fixture, tool: &str, params: &Value) -> Digest {
    match fixture.judge(tool, params.clone()).await.decision {
        PolicyDecision::Ask { digest, .. } => digest,
        other => panic!("{other:?}"),
    }
}

async fn review(fixture: &Fixture, tool: &str, params: &Value, answers: Vec<HunkAnswer>) -> Review {
    let Value::Object(params) = params.clone() else { panic!("parameters are an object") };
    let call = ToolCall { id: ToolCallId::new("c1"), name: tool.into(), params, problem: None, note: None };
    let files = fixture.gate.preview(&call, &fixture.seen).await.unwrap();
    fixture.gate.review(&files, true, answers).unwrap()
}

#[tokio::test]
async fn what_is_left_of_an_edit_is_what_the_permit_writes() {
    let fixture = Fixture::new(&[("a", "one\nkeep\ntwo\n")]).saw("a", "one\nkeep\ntwo\n");
    let params = json!({ "path": "a", "content": "1\nkeep\n2\n" });
    let digest = asked(&fixture, "write_to_file", &params).await;
    let review = review(&fixture, "write_to_file", &params, vec![refuse("h2")]).await;
    let outcome = fixture.judge_reviewed("write_to_file", params, Some(digest), Some(&review)).await;
    let PolicyDecision::Allow { plan: Plan::Write(write), .. } = &outcome.decision else {
        panic!("{outcome:?}")
    };
    assert_eq!(write.after, Digest::of("1\nkeep\ntwo\n"));
    let edit: ProposedEdit = outcome.permit.unwrap().into_action().unwrap();
    assert_eq!(edit.after, "1\nkeep\ntwo\n");
}

#[tokio::test]
async fn files_of_a_patch_are_left_out_and_the_rest_still_goes_together() {
    let fixture = Fixture::new(&[("a", "a\n"), ("b", "b\n")]).saw("a", "a\n").saw("b", "b\n");
    let patch =
        "*** Begin Patch\n*** Update File: a\n-a\n+A\n*** Delete File: b\n*** Add File: c\n+c\n*** End Patch";
    let params = json!({ "patch": patch });
    let digest = asked(&fixture, "apply_patch", &params).await;
    let review = review(&fixture, "apply_patch", &params, vec![refuse("h2")]).await;
    let outcome = fixture.judge_reviewed("apply_patch", params, Some(digest), Some(&review)).await;
    let PolicyDecision::Allow { plan: Plan::WriteAll(plan), .. } = &outcome.decision else {
        panic!("{outcome:?}")
    };
    let planned = PlannedEdit::Patch(plan.clone());
    let places: Vec<&str> = planned.places().into_iter().map(|(path, ..)| path).collect();
    assert_eq!(places, ["a", "c"]);
    let patch: ProposedPatch = outcome.permit.unwrap().into_action().unwrap();
    assert_eq!(patch.edits.len(), 2);
}

#[tokio::test]
async fn a_review_of_another_text_asks_again_even_where_edits_are_free() {
    let fixture = Fixture::new(&[("a", "one\nkeep\ntwo\n")]).saw("a", "one\nkeep\ntwo\n");
    let params = json!({ "path": "a", "content": "1\nkeep\n2\n" });
    let digest = asked(&fixture, "write_to_file", &params).await;
    let review = review(&fixture, "write_to_file", &params, vec![refuse("h2")]).await;
    let fixture = Fixture::with(&[("a", "one\nkeep\nthree\n")], writing()).saw("a", "one\nkeep\nthree\n");
    let outcome = fixture.judge_reviewed("write_to_file", params, Some(digest), Some(&review)).await;
    let PolicyDecision::Ask { reason, .. } = &outcome.decision else { panic!("{outcome:?}") };
    assert_eq!(reason, "the files have changed since you answered");
}

#[tokio::test]
async fn the_users_lines_can_not_hold_a_mask() {
    let fixture = Fixture::new(&[("a", "one\n")]).saw("a", "one\n");
    let params = json!({ "path": "a", "content": "two\n" });
    let Value::Object(fields) = params.clone() else { panic!() };
    let call = ToolCall {
        id: ToolCallId::new("c1"),
        name: "write_to_file".into(),
        params: fields,
        problem: None,
        note: None,
    };
    let files = fixture.gate.preview(&call, &fixture.seen).await.unwrap();
    let edit = HunkDecision::Edit { text: "key = [masked: 4 characters]".into() };
    let answer = HunkAnswer { hunk_id: HunkId::new("h1"), digest: None, decision: edit };
    let error = fixture.gate.review(&files, true, vec![answer]).unwrap_err();
    assert!(error.to_string().contains("mask"), "{error}");
}
