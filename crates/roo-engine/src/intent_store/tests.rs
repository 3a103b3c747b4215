//! Changes of the server itself to the intents file.

use std::fs;

use serde_json::json;

use super::*;
use roo_text::position::Encoding;
use roo_workspace::{Documents, Setup};

struct Fixture {
    directory: tempfile::TempDir,
    orchestration: Orchestration,
}

const TEXT: &str =
    "# ours\nactive_intents:\n  - id: a\n    name: A # why\n    status: TODO\n    owned_scope: [src/**]\n";

impl Fixture {
    fn new(text: Option<&str>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("w");
        fs::create_dir_all(root.join(".orchestration")).unwrap();
        if let Some(text) = text {
            fs::write(root.join(INTENTS_FILE), text).unwrap();
        }
        let state_directory = directory.path().join("state");
        let workspace = Workspace::open(Setup {
            folders: vec![root],
            state_directory: state_directory.clone(),
            documents: Arc::new(Documents::default()),
            editor: None,
            encoding: Encoding::Utf16,
        });
        let orchestration = Orchestration::new(Arc::new(workspace.unwrap()), &state_directory);
        Self { directory, orchestration }
    }

    fn text(&self) -> String {
        fs::read_to_string(self.directory.path().join("w").join(INTENTS_FILE)).unwrap()
    }
}

fn add(text: &str) -> Vec<Change> {
    vec![Change::Add { list: "owned_scope", text: text.to_owned() }]
}

#[tokio::test]
async fn an_intent_begins_once_and_keeps_its_comments() {
    let fixture = Fixture::new(Some(TEXT));
    fixture.orchestration.begin("a").await.unwrap();
    assert_eq!(fixture.text(), TEXT.replace("TODO", "IN_PROGRESS"));
    let before = fixture.text();
    fixture.orchestration.begin("a").await.unwrap();
    assert_eq!(fixture.text(), before);
}

#[tokio::test]
async fn a_change_that_allows_more_needs_the_digest_of_what_was_seen() {
    let fixture = Fixture::new(Some(TEXT));
    let update = |changes: Vec<Change>, digest| {
        let orchestration = &fixture.orchestration;
        async move { orchestration.update("a", &changes, digest).await }
    };
    let refused = update(add("docs/**"), None).await;
    assert!(
        matches!(refused, Err(ChangeError::Loosens(ref what)) if what == &["scope: docs/**"]),
        "{refused:?}"
    );
    assert_eq!(fixture.text(), TEXT);
    let (_, after) = fixture.orchestration.preview("a", &add("docs/**")).await.unwrap();
    update(add("docs/**"), Some(after.digest())).await.unwrap();
    assert!(fixture.text().contains("[src/**, \"docs/**\"]"));
    assert_eq!(fixture.orchestration.loosened(&after), Vec::<String>::new(), "it is accepted with it");
    // What only narrows needs nothing.
    update(add("!src/x"), None).await.unwrap();
    // And what was given is measured by what is accepted last.
    assert!(update(add("src/**"), None).await.is_ok());
    let remove = vec![Change::Remove { list: "owned_scope", text: "!src/x".to_owned() }];
    assert!(matches!(update(remove, None).await, Err(ChangeError::Loosens(_))));
}

#[tokio::test]
async fn the_first_intent_makes_the_file() {
    let fixture = Fixture::new(None);
    assert!(matches!(fixture.orchestration.intents(), Intents::Absent));
    let new = NewIntent {
        id: "INT-001".to_owned(),
        name: "First".to_owned(),
        owned_scope: vec!["src/**".to_owned()],
        constraints: vec![],
        acceptance_criteria: vec![],
    };
    fixture.orchestration.create(&new).await.unwrap();
    assert!(fixture.orchestration.selectable("INT-001").is_ok());
    assert!(matches!(fixture.orchestration.create(&new).await, Err(ChangeError::Edit(_))));
}

#[test]
fn a_file_that_leads_elsewhere_is_broken() {
    let fixture = Fixture::new(None);
    let outside = fixture.directory.path().join("out.yaml");
    fs::write(&outside, TEXT).unwrap();
    std::os::unix::fs::symlink(&outside, fixture.directory.path().join("w").join(INTENTS_FILE)).unwrap();
    assert!(matches!(fixture.orchestration.intents(), Intents::Broken(_)));
    assert!(matches!(fixture.orchestration.selectable("a"), Err(IntentRefusal::Broken(_))));
}

/// An intent of this name, constraint and scope, as a file has it.
fn intent(name: &str, constraint: &str, scope: &str) -> Intent {
    let entry = json!({
        "id": "a", "name": name, "status": "IN_PROGRESS", "owned_scope": [scope], "constraints": [constraint]
    });
    let text = json!({ "active_intents": [entry] }).to_string();
    let file = IntentFile::parse(&text);
    file.unwrap().intents.pop().unwrap_or_else(|| panic!("{text}"))
}

#[test]
fn what_was_accepted_and_can_not_be_read_is_asked_about() {
    let fixture = Fixture::new(Some(TEXT));
    let known = intent("Logins", "none", "src/a/**");
    assert_eq!(fixture.orchestration.loosened(&known), [""; 0]);
    fixture.orchestration.accept(&known).unwrap();
    assert_eq!(fixture.orchestration.loosened(&known), [""; 0]);
    let kept = fixture.directory.path().join("state/intents.json");
    for damaged in ["{\"a\": {\"id\": \"a\"}}", "{\"a\": 1}", "{\"a\": ", "{\"a\": {\"id\": \"b\"}}"] {
        fs::write(&kept, damaged).unwrap();
        let all = ["scope: src/a/**", "mcp: every server"];
        assert_eq!(fixture.orchestration.loosened(&known), all, "{damaged}");
    }
}

proptest::proptest! {
    #[test]
    fn a_wider_intent_is_asked_about_whatever_its_name_and_constraints(
        name in r#"[a-z ,:\[\]{}*&!"'#\\<>|\n-]{1,20}"#,
        constraint in r#"[a-z ,:\[\]{}*&!"'#\\<>|-]{1,20}"#,
    ) {
        let fixture = Fixture::new(Some(TEXT));
        let (name, constraint) = (format!("x{name}"), format!("x{constraint}"));
        let known = intent(&name, &constraint, "src/a/**");
        fixture.orchestration.accept(&known).unwrap();
        proptest::prop_assert_eq!(fixture.orchestration.loosened(&known), [""; 0]);
        let wider = intent(&name, &constraint, "src/**");
        proptest::prop_assert_eq!(fixture.orchestration.loosened(&wider), ["scope: src/**"]);
    }
}
