use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::super::fixture::{LedgerFixture, change, draft, entry};
use super::*;

fn schema() -> jsonschema::Validator {
    let text = include_str!("../../../../schemas/agent-trace-record.json");
    jsonschema::validator_for(&serde_json::from_str(text).unwrap()).unwrap()
}

/// The lines that an entry comes to.
fn written(entry: &Entry) -> Vec<Value> {
    let fixture = LedgerFixture::new();
    fixture.ledger().append(&[draft(entry)]).unwrap();
    let lines = fixture.lines();
    let text = lines.concat();
    assert_eq!(text.split_inclusive(['\n', '\u{2028}', '\u{2029}', '\u{85}']).count(), lines.len());
    lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[track_caller]
fn assert_valid(record: &Value) {
    let errors: Vec<String> = schema().iter_errors(record).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:#?}\n{record:#}");
}

#[test]
fn a_change_of_a_file_is_a_record_of_agent_trace() {
    let before = "fn a() {}\n";
    let files = vec![change("src/auth/token.rs", before, "fn a() {}\nfn b() {}\n")];
    let mut record = written(&Entry { files, ..entry() }).remove(0);
    assert_valid(&record);
    for (pointer, shown) in [
        ("/id", "[id]"),
        ("/tool/version", "[version]"),
        ("/metadata/dev.roo-lsp/chain", "[chain]"),
        ("/metadata/dev.roo-lsp/prev", "[prev]"),
        ("/metadata/dev.roo-lsp/hash", "[hash]"),
        ("/metadata/dev.roo-lsp/files/src~1auth~1token.rs/ast", "[ast]"),
    ] {
        *record.pointer_mut(pointer).unwrap() = shown.into();
    }
    insta::assert_json_snapshot!(record);
}

#[test]
fn what_changes_no_file_is_a_record_without_files() {
    for outcome in Outcome::ALL {
        let record = &written(&Entry { outcome, ..entry() })[0];
        assert_valid(record);
        assert_eq!(
            (&record["files"], &record["metadata"]["dev.roo-lsp"]["outcome"]),
            (&json!([]), &json!(outcome))
        );
    }
}

#[test]
fn every_changed_file_has_a_record_of_its_own() {
    let opaque = FileChange {
        before: Side::Absent,
        after: Side::Opaque(Digest::of("bytes")),
        ..change("logo.png", "", "")
    };
    let gone = change("b.rs", "fn b() {}\n", "");
    let moved =
        FileChange { old_path: Some("c.rs".to_owned()), ..change("d.rs", "fn c() {}\n", "fn c() {}\n") };
    let records =
        written(&Entry { files: vec![change("a.rs", "", "fn a() {}\n"), opaque, gone, moved], ..entry() });
    records.iter().for_each(assert_valid);
    let told: Vec<Value> = records
        .iter()
        .map(|record| {
            let own = &record["metadata"]["dev.roo-lsp"];
            let file = &record["files"][0];
            let ranges = file["conversations"][0]["ranges"].as_array().unwrap().len();
            json!([
                file["path"],
                own["mutation_class"],
                own["mutation_basis"],
                own["before"] == "absent",
                own["after"] == "absent",
                ranges
            ])
        })
        .collect();
    assert_eq!(
        told,
        [
            json!(["a.rs", "INTENT_EVOLUTION", "ast", true, false, 1]),
            json!(["logo.png", "INTENT_EVOLUTION", "text", true, false, 0]),
            json!(["b.rs", "INTENT_EVOLUTION", "text", false, true, 1]),
            json!(["d.rs", "AST_REFACTOR", "ast", false, false, 0]),
        ]
    );
    let deleted = &records[2]["metadata"]["dev.roo-lsp"]["files"]["b.rs"];
    assert_eq!(deleted["mutation"], "delete");
    let hash = &records[2]["files"][0]["conversations"][0]["ranges"][0]["content_hash"];
    assert_eq!(*hash, json!(Digest::of("")));
}

#[test]
fn no_value_breaks_a_line_or_is_endless() {
    let hostile = format!("a\nb\r\u{2028}\u{2029}\u{85}\"}}\\ \u{0} {}", "x".repeat(1 << 20));
    let name = || hostile.clone();
    let mut entry = entry();
    entry.tool_call = name();
    entry.tool_call_id = ToolCallId::new(name());
    entry.mode = name();
    entry.model = Some(name());
    entry.task = TaskId::new(name());
    entry.sandbox = Some(name());
    entry.intent =
        Some(IntentRef { id: name(), name: name(), digest: None, requirements: vec![name(); 100] });
    entry.decision =
        Decision { by: name(), rule: Some(name()), ask: Some(ApprovalId::new(name())), digest: None };
    entry.prompt = Some(PromptRef { id: MessageId::new(name()), title: name() });
    entry.claimed =
        Some(Claimed { intent_id: Some("INT-9".to_owned() + &name()), mutation_class: Some(name()) });
    let violation = Violation {
        path: name(),
        before: FileState::Absent,
        after: FileState::Absent,
        action: ViolationAction::Held,
    };
    entry.violations = vec![violation; 300];
    let denied = &written(&entry)[0];
    assert_valid(denied);
    assert_eq!(denied["metadata"]["dev.roo-lsp"]["violations_left_out"], 44);
    entry.violations.clear();
    entry.files = vec![FileChange { old_path: Some(name()), ..change(&name(), "", "a\n") }];
    let changed = &written(&entry)[0];
    assert_valid(changed);
    assert!(changed.to_string().len() < 200_000, "{}", changed.to_string().len());
}

#[test]
fn actions_about_violations_keep_their_names_and_those_of_other_versions_are_read() {
    let read = |name: &str| serde_json::from_value::<ViolationAction>(json!(name)).unwrap();
    for name in ["restored", "held", "withheld"] {
        assert_eq!(json!(read(name)), json!(name));
    }
    assert_eq!(read("discarded"), ViolationAction::Other);
}

#[test]
fn differing_claims_of_a_model_are_recorded() {
    let claimed =
        Claimed { intent_id: Some("INT-002".to_owned()), mutation_class: Some("AST_REFACTOR".to_owned()) };
    let files = vec![change("a.rs", "fn a() { 1 }\n", "fn a() { 2 }\n")];
    let own = &written(&Entry { claimed: Some(claimed), files: files.clone(), ..entry() })[0]["metadata"]["dev.roo-lsp"];
    assert_eq!((&own["intent_id"], &own["mutation_class"]), (&json!("INT-001"), &json!("INTENT_EVOLUTION")));
    assert_eq!(own["claimed"], json!({ "intent_id": "INT-002", "mutation_class": "AST_REFACTOR" }));
    let claimed = Claimed {
        intent_id: Some("INT-001".to_owned()),
        mutation_class: Some("INTENT_EVOLUTION".to_owned()),
    };
    let own = &written(&Entry { claimed: Some(claimed), files, ..entry() })[0]["metadata"]["dev.roo-lsp"];
    assert_eq!(own["claimed"], Value::Null);
}

#[test]
fn neither_content_nor_commands_are_written() {
    let secret = "API_KEY=sk-test-AAAABBBBCCCC";
    let command = CommandRun { digest: Digest::of(format!("curl -H {secret}")), exit_code: Some(0) };
    let files = vec![
        change(".env", "", &format!("{secret}\n")),
        change("a.rs", "", &format!("const K: &str = \"{secret}\";\n")),
    ];
    for record in written(&Entry { files, command: Some(command), ..entry() }) {
        let text = record.to_string();
        assert!(!text.contains("sk-test") && !text.contains("AAAABBBB"), "{text}");
    }
}

#[test]
fn records_of_other_programs_are_read() {
    let flat = r#"{"id":"x","timestamp":"2026-02-16T12:00:00Z","vcs":{"revision_id":"abc"},"intent_id":"INT-7","mutation_class":"AST_REFACTOR",
        "files":[{"relative_path":"a.ts","conversations":[{"url":"session-1","contributor":{"entity_type":"AI","model_identifier":"m"},
        "ranges":[{"start_line":1,"end_line":2,"content_hash":"sha256:00"}],"related":[{"type":"specification","value":"REQ-001"}]}]}]}"#;
    let record = Record::read(flat.as_bytes()).unwrap();
    assert_eq!((record.files[0].path.as_str(), record.vcs.unwrap().revision.as_str()), ("a.ts", "abc"));
    let conversation = &record.files[0].conversations[0];
    assert_eq!(conversation.contributor.as_ref().unwrap().kind, Author::Ai);
    let related: Vec<&str> = conversation.related.iter().map(|related| related.url.as_str()).collect();
    assert_eq!(related, ["REQ-001", "urn:roo-lsp:intent:INT-7", "urn:roo-lsp:mutation:AST_REFACTOR"]);
    let minimal = r#"{"version":"0.1.0","id":"x","timestamp":"2026-02-16T12:00:00+01:00","files":[],"new":1,"metadata":{"com.other":{}}}"#;
    let record = Record::read(minimal.as_bytes()).unwrap();
    assert!(record.own().is_none() && record.at().is_some());
    for bad in ["", "{}", "[]", "null", r#"{"id":1}"#] {
        assert!(Record::read(bad.as_bytes()).is_err(), "{bad}");
    }
}
