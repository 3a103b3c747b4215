//! Decisions of the gate on patches: one for all of their files.

use super::*;
use crate::policy::PlannedPatch;
use roo_workspace::Location;

fn patch(body: &str) -> Value {
    json!({ "patch": format!("*** Begin Patch\n{body}*** End Patch\n") })
}

/// A good part of a patch, for others to stand beside.
const GOOD: &str = "*** Update File: a.rs\n-a\n+b\n";

fn beside_good(body: &str) -> Value {
    patch(&format!("{GOOD}{body}"))
}

fn fixture() -> Fixture {
    let files = [("a.rs", "a\n"), ("b.rs", "b\n"), ("docs/a.md", "a\n"), (".env", "KEY=hunter2\n")];
    Fixture::with(&files, writing()).saw("a.rs", "a\n").saw("b.rs", "b\n").saw("docs/a.md", "a\n")
}

async fn plan(fixture: &Fixture, params: Value) -> PlannedPatch {
    match fixture.judge("apply_patch", params).await.decision {
        PolicyDecision::Allow { plan: Plan::WriteAll(plan), .. } => plan,
        other => panic!("{other:?}"),
    }
}

#[test]
fn only_a_model_that_gets_the_tool_may_call_it() {
    let mut fixture = fixture();
    fixture.expect("apply_patch", patch(GOOD), "allow autoApprove.write");
    fixture.tools = ToolChoice::default();
    let reason = fixture.expect("apply_patch", patch(GOOD), "deny mode");
    assert!(reason.contains("apply_diff") && reason.matches("apply_patch").count() == 1, "{reason}");
    fixture.tools = ToolChoice::all();
    fixture.mode = "ask";
    fixture.expect("apply_patch", patch(GOOD), "deny mode");
}

#[tokio::test]
async fn a_patch_is_planned_with_every_place_that_it_changes() {
    let fixture = fixture();
    let body = "*** Add File: new/c.rs\n+c\n*** Delete File: b.rs\n*** Update File: a.rs\n*** Move to: d.rs\n-a\n+d\n";
    let plan = plan(&fixture, patch(body)).await;
    let digest = |text: &str| Some(Digest::of(text));
    let places: Vec<_> =
        plan.files.iter().map(|file| (file.path.as_str(), file.before, file.after)).collect();
    assert_eq!(
        places,
        [
            ("new/c.rs", None, digest("c\n")),
            ("b.rs", digest("b\n"), None),
            ("d.rs", None, digest("d\n")),
            ("a.rs", digest("a\n"), None),
        ]
    );
    assert_eq!(plan.files[2].moved_from.as_deref(), Some("a.rs"));
}

#[tokio::test]
async fn one_question_shows_all_files_and_binds_the_answer_to_just_these_texts() {
    let fixture = Fixture::new(&[("a.rs", "a\n"), ("b.rs", "b\n"), ("c.rs", "c\n")])
        .saw("b.rs", "b\n")
        .saw("c.rs", "c\n");
    let call = beside_good(
        "*** Delete File: b.rs\n*** Add File: new.md\n+# New\n*** Update File: c.rs\n*** Move to: d.rs\n",
    );
    let asked = |decision| match decision {
        PolicyDecision::Ask { digest, title, subject, rule_subject, .. } => {
            (digest, title, subject, rule_subject)
        }
        other => panic!("{other:?}"),
    };
    let (digest, title, subject, rule) = asked(fixture.judge("apply_patch", call.clone()).await.decision);
    assert_eq!(title, "Change 4 files: a.rs, b.rs, new.md, c.rs to d.rs");
    assert_eq!(
        subject,
        "--- a/a.rs\n+++ b/a.rs\n@@ -1 +1 @@\n-a\n+b\n\
         --- a/b.rs\n+++ /dev/null\n@@ -1 +0,0 @@\n-b\n\
         --- /dev/null\n+++ b/new.md\n@@ -0,0 +1 @@\n+# New\n\
         --- a/c.rs\n+++ b/d.rs\n"
    );
    assert_eq!(rule, Some(RuleSubject::Edits));
    let allowed = fixture.judge_approved("apply_patch", call.clone(), Some(digest)).await;
    assert!(matches!(allowed.decision, PolicyDecision::Allow { .. }) && allowed.permit.is_some());
    // Any other text of any file is another action.
    fs::write(fixture.root().join("a.rs"), "x\na\n").unwrap();
    let (again, ..) = asked(fixture.judge_approved("apply_patch", call, Some(digest)).await.decision);
    assert_ne!(again, digest);
}

#[test]
fn one_place_that_is_refused_refuses_the_whole() {
    let mut fixture = fixture();
    fs::write(fixture.root().join(".rooignore"), "secret/\n").unwrap();
    let deny = |body: &str, verdict: &str| fixture.expect("apply_patch", beside_good(body), verdict);
    for (place, verdict) in [
        ("../out/x", "deny path"),
        ("/etc/roo-lsp-test", "deny outside"),
        ("secret/x", "deny rooignore"),
        ("a\u{0}b", "deny path"),
    ] {
        deny(&format!("*** Add File: {place}\n+x\n"), verdict);
        // Where a file is moved to is a place like any other.
        deny(&format!("*** Update File: b.rs\n*** Move to: {place}\n"), verdict);
    }
    fixture.mode = "architect";
    let deny = |body: &str| fixture.expect("apply_patch", patch(body), "deny mode");
    let good = "*** Update File: docs/a.md\n-a\n+b\n";
    fixture.expect("apply_patch", patch(good), "allow autoApprove.write");
    for bad in [
        "*** Add File: x.rs\n+x\n",
        "*** Delete File: b.rs\n",
        "*** Update File: b.rs\n-b\n+c\n",
        "*** Update File: b.rs\n*** Move to: b.md\n",
    ] {
        let reason = deny(&format!("{good}{bad}"));
        assert!(reason.contains(".rs"), "{reason}");
    }
    let reason = deny("*** Update File: docs/a.md\n*** Move to: docs/a.sh\n");
    assert!(reason.contains("docs/a.sh"), "a mode's files are those that a patch leaves: {reason}");
}

#[test]
fn one_place_that_must_be_asked_about_asks_about_the_whole() {
    let fixture = fixture();
    for body in
        ["*** Add File: AGENTS.md\n+x\n", "*** Update File: b.rs\n*** Move to: .vscode/settings.json\n"]
    {
        fixture.expect("apply_patch", beside_good(body), "ask protected");
    }
    let fetches = "*** Add File: x.json\n+{ \"$schema\": \"https://evil.example/s\" }\n";
    fixture.expect("apply_patch", beside_good(fetches), "ask remote");
    fixture.expect("apply_patch", beside_good("*** Add File: .env.new\n+x\n"), "ask secret");
}

#[test]
fn what_does_not_fit_is_refused_with_its_file_its_hunk_and_its_line() {
    let fixture = fixture();
    for (body, parts) in [
        ("*** Update File: b.rs\n@@\n-nothing\n", vec!["b.rs (line 5 of the patch): Hunk 1 (line 6"]),
        ("*** Add File: b.rs\n+x\n", vec!["b.rs (line 5", "exists already"]),
        ("*** Update File: no.rs\n-x\n", vec!["no.rs (line 5", "does not exist"]),
        ("*** Delete File: no.rs\n", vec!["no.rs", "does not exist"]),
        ("*** Update File: b.rs\n*** Move to: docs/a.md\n", vec!["docs/a.md exists already"]),
        ("*** Update File: b.rs\n-b\n+b\n", vec!["already holds this text"]),
        ("*** Update File: ./a.rs\n-a\n+c\n", vec!["names it twice"]),
        ("*** Update File: b.rs\n*** Move to: a.rs\n", vec!["names it twice"]),
        ("*** Update File: b.rs\n*** Move to: b.rs\n", vec!["names it twice"]),
        ("*** Delete File: b.rs\n*** Add File: b.rs\n+x\n", vec!["names it twice"]),
        ("*** Add File: n\n+x\n*** Add File: n/m\n+x\n", vec!["can't both be files"]),
    ] {
        let reason = fixture.expect("apply_patch", beside_good(body), "deny content");
        for part in parts.iter().chain(&["no file has changed"]) {
            assert!(reason.contains(part), "{body}: {reason}");
        }
    }
    let reason =
        fixture.expect("apply_patch", json!({ "patch": "--- a/a.rs\n+++ b/a.rs\n" }), "deny content");
    assert!(reason.contains("begins with `*** Begin Patch`"), "{reason}");
    fixture.expect("apply_patch", json!({}), "deny parameters");
}

#[test]
fn a_file_goes_only_when_its_whole_text_is_known() {
    let fixture = Fixture::with(&[("a.rs", "a\n")], writing());
    let delete = patch("*** Delete File: a.rs\n");
    let reason = fixture.expect("apply_patch", delete.clone(), "deny content");
    assert!(reason.contains("Read it before"), "{reason}");
    let fixture = fixture.saw("a.rs", "older\n");
    let reason = fixture.expect("apply_patch", delete.clone(), "deny content");
    assert!(reason.contains("has changed since you read it"), "{reason}");
    fixture.saw("a.rs", "a\n").expect("apply_patch", delete, "allow autoApprove.write");
}

#[test]
fn a_patch_tells_nothing_of_a_file_that_only_the_user_can_show() {
    let fixture = fixture();
    let mut told: Vec<String> = [
        "*** Update File: .env\n-KEY=hunter1\n+x\n",
        "*** Update File: .env\n-KEY=hunter2\n+x\n",
        "*** Update File: .env\n*** Move to: env.txt\n",
        "*** Delete File: .env\n",
        "*** Add File: .env\n+x\n",
    ]
    .iter()
    .map(|body| fixture.expect("apply_patch", beside_good(body), "deny content"))
    .collect();
    told.dedup();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("can't be edited before you have read it"));
}

#[test]
fn a_text_that_the_encoding_of_a_file_lacks_is_refused_before_anybody_is_asked() {
    let fixture = fixture();
    std::fs::write(fixture.root().join("latin.txt"), b"Stra\xdfe und B\xfccher\n").unwrap();
    let body = "*** Update File: latin.txt\n-Straße und Bücher\n+Straße → Bücher\n";
    let reason = fixture.expect("apply_patch", beside_good(body), "deny content");
    assert!(reason.contains("latin.txt is encoded in windows-1252, which has no '→'"), "{reason}");
}

#[cfg(unix)]
#[test]
fn a_link_is_changed_where_it_leads_and_is_never_taken_away() {
    let fixture = fixture();
    std::os::unix::fs::symlink("b.rs", fixture.root().join("link.rs")).unwrap();
    std::os::unix::fs::symlink("/etc", fixture.root().join("etc")).unwrap();
    for body in ["*** Delete File: link.rs\n", "*** Update File: link.rs\n*** Move to: c.rs\n"] {
        let reason = fixture.expect("apply_patch", beside_good(body), "deny content");
        assert!(reason.contains("symbolic link"), "{reason}");
    }
    let both = "*** Update File: link.rs\n-b\n+c\n*** Update File: b.rs\n-b\n+d\n";
    let reason = fixture.expect("apply_patch", patch(both), "deny content");
    assert!(reason.contains("names it twice"), "{reason}");
    fixture.expect("apply_patch", beside_good("*** Add File: etc/x\n+x\n"), "deny outside");
}

#[test]
fn an_intent_owns_every_file_of_a_patch_or_none_is_changed() {
    let mut fixture = governed();
    let good = "*** Update File: src/auth/a.rs\n-a\n+b\n";
    fixture.expect("apply_patch", patch(good), "deny intent");
    fixture.bind("INT-001");
    fixture.expect("apply_patch", patch(good), "allow autoApprove.write");
    for bad in [
        "*** Update File: docs/a.md\n-a\n+b\n",
        "*** Delete File: docs/a.md\n",
        "*** Add File: src/other.rs\n+x\n",
        "*** Add File: src/auth/x.snap\n+x\n",
    ] {
        let reason = fixture.expect("apply_patch", patch(&format!("{good}{bad}")), "deny scope");
        assert!(reason.starts_with("Scope Violation: INT-001"), "{reason}");
    }
    // Both ends of a move count.
    for moved in [
        "*** Update File: src/auth/a.rs\n*** Move to: docs/b.md\n",
        "*** Update File: docs/a.md\n*** Move to: src/auth/b.md\n",
    ] {
        fixture.expect("apply_patch", patch(moved), "deny scope");
    }
    fixture.bind("INT-002");
    let reason = fixture.expect(
        "apply_patch",
        patch("*** Update File: docs/a.md\n*** Move to: docs/b.md\n"),
        "deny scope",
    );
    assert!(reason.contains("allows no new files"), "{reason}");
    fixture.rewrite("enforce: [no_new_files]", "enforce: [no_delete]");
    fixture.bind("INT-002");
    for removes in ["*** Delete File: docs/a.md\n", "*** Update File: docs/a.md\n*** Move to: docs/b.md\n"] {
        let reason = fixture.expect("apply_patch", patch(removes), "deny scope");
        assert!(reason.contains("allows no file to be deleted"), "{reason}");
    }
    fixture.expect("apply_patch", patch("*** Update File: docs/a.md\n-a\n+b\n"), "allow autoApprove.write");
}

#[test]
fn a_hook_is_asked_about_each_file_and_one_refusal_is_enough() {
    let refuse = |name: &str| {
        let own = json!({ "type": "command", "command": format!("grep -q {name} && {{ echo no >&2; exit 2; }}; exit 0") });
        let text = json!({ "hooks": { "PreToolUse": [{ "matcher": "Edit", "hooks": [own] }] } }).to_string();
        let file =
            crate::hooks::HookFile::parse(&text, crate::hooks::Form::Hooks, crate::hooks::Source::User)
                .unwrap();
        let mut fixture = fixture();
        fixture.hooks = UserHooks::new(Some(fixture.root()), file.hooks);
        fixture
    };
    let call = beside_good("*** Update File: b.rs\n*** Move to: c.rs\n");
    for name in ["/a.rs", "/b.rs", "/c.rs"] {
        refuse(name).expect("apply_patch", call.clone(), "deny hook");
    }
    refuse("/d.rs").expect("apply_patch", call, "allow autoApprove.write");
}

#[tokio::test]
async fn a_preview_shows_every_file() {
    let fixture = fixture();
    let Value::Object(params) = beside_good("*** Update File: b.rs\n*** Move to: c.rs\n") else { panic!() };
    let call =
        ToolCall { id: ToolCallId::new("c1"), name: "apply_patch".into(), params, problem: None, note: None };
    let files = fixture.gate.preview(&call, &fixture.seen).await.unwrap();
    assert_eq!(files.len(), 2);
    assert_eq!((files[0].before.as_deref(), files[0].after.as_deref()), (Some("a\n"), Some("b\n")));
    assert!(files[1].moved_to.as_ref().is_some_and(|to| to.display() == "c.rs"));
    assert!(matches!(files[1].file.location(), Location::Inside { root: 0 }));
}
