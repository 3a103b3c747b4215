//! Decisions of the gate, and the order in which it asks.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Arc;

use serde_json::{Value, json};

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::*;
use crate::approvals::StandingRules;
use crate::customization::Customization;
use crate::customization::Setup as CustomizationSetup;
use crate::hooks::{HookContext, HookSandbox, PermissionMode, UserHooks};
use crate::intent_store::Binding;
use crate::policy::{Bounds, Native, Offers, ProposedEdit, Recorder, Review, UserHookContext};
use crate::server_tools::NoServerTools;
use crate::tool_run::TaskBrowser;
use crate::tools::skill::Load;
use roo_durable::reserve::Reserve;
use roo_formats::config::{
    AutoApprove, CONTEXT_COMMAND, Directories, Execute, RunContext, SandboxLevel, SystemContext, ToolChoice,
};
use roo_formats::modes::Modes;
use roo_protocol::ids::ToolCallId;
use roo_protocol::rule::RuleVerdict;
use roo_sandbox::exec::sandbox::Helper;
use roo_text::position::Encoding;
use roo_workspace::{Change, Documents, Setup, file_uri};

mod lines;
mod pages;
mod patches;
mod reviews;
mod user_hooks;

struct Fixture {
    directory: tempfile::TempDir,
    documents: Arc<Documents>,
    gate: Gate,
    urid: Urid,
    mode: &'static str,
    profile: Option<&'static str>,
    tools: ToolChoice,
    is_branch: bool,
    delegations: u32,
    seen: BTreeMap<String, Digest>,
    intent: Option<Binding>,
    within: Vec<Binding>,
    hooks: UserHooks,
    continuations: u32,
    browser: TaskBrowser,
}

impl Fixture {
    fn new(files: &[(&str, &str)]) -> Self {
        Self::with(files, AutoApprove::default())
    }

    fn with(files: &[(&str, &str)], auto_approve: AutoApprove) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("work");
        fs::create_dir_all(&root).unwrap();
        for (name, text) in files {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let documents = Arc::new(Documents::default());
        let workspace = Workspace::open(Setup {
            folders: vec![root],
            state_directory: directory.path().join("state"),
            documents: Arc::clone(&documents),
            editor: None,
            encoding: Encoding::Utf16,
        })
        .unwrap();
        let workspace = Arc::new(workspace);
        let mut settings = Settings { auto_approve, ..Settings::default() };
        // A test's own program holds no bounds; those are held in `tests/it/sandbox`.
        settings.sandbox.level = SandboxLevel::Off;
        let place = |name: &str| directory.path().join(name);
        let orchestration = Arc::new(Orchestration::new(Arc::clone(&workspace), &place("state")));
        let directories =
            Directories { config: place("config"), state: place("state"), home: None, settings_file: None };
        let customization = Customization::open(CustomizationSetup {
            folders: vec![],
            directories: directories.clone(),
            state_directory: place("state"),
        });
        Self {
            gate: Gate::new(PolicyContext {
                rules: Arc::new(StandingRules::new(&place("state"), None)),
                recorder: Arc::new(Recorder::new(
                    place("state"),
                    None,
                    Arc::clone(&orchestration),
                    Reserve::new(&place("state")),
                )),
                orchestration,
                bounds: Arc::new(Bounds::new(Helper::own(), directories.clone(), place("state"))),
                workspace,
                settings: Arc::new(settings),
                customization: Arc::new(customization.unwrap()),
                server_tools: Arc::new(NoServerTools),
                language_servers: Arc::new(roo_language_servers::LanguageServers::none()),
                code_index: Arc::new(roo_index::CodeIndex::none()),
                models: Arc::new(roo_model::providers::ConfiguredModels),
                is_worktree: false,
            }),
            intent: None,
            within: vec![],
            hooks: UserHooks::default(),
            continuations: 0,
            browser: TaskBrowser::default(),
            directory,
            documents,
            urid: Urid::new("20260102-03-04-abcdef01"),
            mode: "code",
            profile: None,
            tools: ToolChoice::all(),
            is_branch: false,
            delegations: 0,
            seen: BTreeMap::new(),
        }
    }

    /// Changes the settings.
    fn set(&mut self, change: impl FnOnce(&mut Settings)) {
        change(Arc::make_mut(&mut self.gate.policy_context.settings));
    }

    fn saw(mut self, name: &str, text: &str) -> Self {
        self.seen.insert(name.to_owned(), Digest::of(text));
        self
    }

    fn root(&self) -> std::path::PathBuf {
        self.directory.path().canonicalize().unwrap().join("work")
    }

    async fn judge(&self, name: &str, params: Value) -> GateOutcome {
        self.judge_approved(name, params, None).await
    }

    async fn judge_approved(&self, name: &str, params: Value, approved: Option<Digest>) -> GateOutcome {
        self.judge_reviewed(name, params, approved, None).await
    }

    async fn judge_reviewed(
        &self,
        name: &str,
        params: Value,
        approved: Option<Digest>,
        review: Option<&Review>,
    ) -> GateOutcome {
        let Value::Object(params) = params else { panic!("parameters are an object") };
        let call =
            ToolCall { id: ToolCallId::new("c1"), name: name.into(), params, problem: None, note: None };
        let modes = Modes::built_in();
        let mode = modes.find(self.mode).unwrap();
        let (unwaited, cancel) = (TaskTracker::new(), CancellationToken::new());
        let here = UserHookContext {
            hooks: &self.hooks,
            hook_context: HookContext {
                session: "r1",
                agent: None,
                transcript: None,
                permission_mode: PermissionMode::Default,
                environment_file: None,
                sandbox: &HookSandbox::Off,
                folders: &[],
                unwaited: &unwaited,
                cancel: &cancel,
            },
            ends: name == "attempt_completion",
            continuations: self.continuations,
        };
        let call_context = ToolCallContext {
            mode,
            modes: &modes,
            profile: self.profile,
            tools: &self.tools,
            is_branch: self.is_branch,
            opens_parallel_branches: false,
            merge: None,
            delegations: self.delegations,
            urid: &self.urid,
            seen: &self.seen,
            approved,
            review,
            intent: self.intent.as_ref(),
            within: &self.within,
            hooks: (!self.hooks.hooks().is_empty()).then_some(here),
            offers: Offers::default(),
            commands: None,
            browser: Some(&self.browser),
        };
        self.gate.judge(&call, call_context).await
    }

    /// The verdict and its rule, and why.
    async fn verdict(&self, name: &str, params: Value) -> (String, String) {
        match self.judge(name, params).await.decision {
            PolicyDecision::Allow { rule, reason, .. } => (format!("allow {rule}"), reason),
            PolicyDecision::Ask { rule, reason, .. } => (format!("ask {rule}"), reason),
            PolicyDecision::Deny { rule, reason, .. } => (format!("deny {rule}"), reason),
        }
    }

    #[track_caller]
    fn expect(&self, name: &str, params: Value, verdict: &str) -> String {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (got, reason) = runtime.block_on(self.verdict(name, params));
        assert_eq!(got, verdict, "{reason}");
        reason
    }
}

fn writing() -> AutoApprove {
    AutoApprove { write: true, ..AutoApprove::default() }
}

#[test]
fn reading_is_free_by_default_and_writing_asks() {
    let fixture = Fixture::new(&[("a.rs", "a\n")]).saw("a.rs", "a\n");
    fixture.expect("read_file", json!({ "path": "a.rs" }), "allow autoApprove.read");
    fixture.expect("list_files", json!({ "path": "." }), "allow autoApprove.read");
    fixture.expect("search_files", json!({ "path": ".", "regex": "a" }), "allow autoApprove.read");
    fixture.expect("search_files", json!({ "path": "a.rs", "regex": "a" }), "allow autoApprove.read");
    fixture.expect("write_to_file", json!({ "path": "a.rs", "content": "b\n" }), "ask policy");
    fixture.expect("execute_command", json!({ "command": "ls" }), "ask command");
}

#[tokio::test]
async fn a_search_of_everything_is_judged_for_every_folder() {
    let mut fixture =
        Fixture::with(&[("a.rs", "a\n")], AutoApprove { read: false, ..AutoApprove::default() });
    let other = fixture.directory.path().join("other");
    fs::create_dir(&other).unwrap();
    let setup = Setup {
        folders: vec![fixture.root(), other],
        state_directory: fixture.directory.path().join("state"),
        documents: Arc::default(),
        editor: None,
        encoding: Encoding::Utf16,
    };
    fixture.gate.policy_context.workspace = Arc::new(Workspace::open(setup).unwrap());
    let judged = fixture.judge("codebase_search", json!({ "query": "a" })).await;
    let PolicyDecision::Ask { subject, .. } = judged.decision else { panic!("{:?}", judged.decision) };
    assert_eq!(subject.lines().count(), 2, "{subject}");
    assert!(subject.ends_with("other"), "{subject}");
}

#[test]
fn an_image_is_generated_where_the_settings_name_who_makes_it() {
    let mut fixture = Fixture::new(&[("a.rs", "a\n"), ("no.png", "text"), (".rooignore", "hidden/\n")]);
    let call = |path: &str| json!({ "prompt": "a fox", "path": path });
    let reason = fixture.expect("generate_image", call("a.png"), "deny tool");
    assert!(reason.contains("the setting `imageGeneration.profile` names no profile"), "{reason}");
    fixture.set(|settings| settings.image_generation.profile = Some("painter".to_owned()));
    let reason = fixture.expect("generate_image", call("a.png"), "deny tool");
    assert!(reason.contains("there is no profile 'painter'"), "{reason}");
    let profile = |provider: &str| json!({ "provider": provider, "baseUrl": "http://127.0.0.1:1/v1", "model": "dall-e-3" });
    let set = |fixture: &mut Fixture, provider: &str| {
        let profile = serde_json::from_value(profile(provider)).unwrap();
        fixture.set(|settings| drop(settings.profiles.insert("painter".to_owned(), profile)));
    };
    set(&mut fixture, "anthropic");
    let reason = fixture.expect("generate_image", call("a.png"), "deny tool");
    assert!(
        reason.contains("of `imageGeneration.profile` can't be used: The profile's `provider`"),
        "{reason}"
    );
    set(&mut fixture, "openai");
    fixture.expect("generate_image", call("a.png"), "ask policy");
    fixture.expect("generate_image", call("a.svg"), "deny content");
    fixture.expect("generate_image", call(".roo/a.png"), "ask protected");
    let reason = fixture.expect("generate_image", call("no.png"), "deny content");
    assert!(reason.contains("you have not seen it as it is now"), "{reason}");
    let from = |image: &str| json!({ "prompt": "a fox", "path": "a.png", "image": image });
    let reason = fixture.expect("generate_image", from("no.png"), "deny content");
    assert!(reason.contains("no.png is no PNG, JPEG, GIF or WebP image"), "{reason}");
    fs::write(fixture.root().join("b.png"), b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR").unwrap();
    fixture.set(|settings| settings.auto_approve.write = true);
    fixture.expect("generate_image", from("b.png"), "allow autoApprove.write");
    fixture.set(|settings| settings.auto_approve.read = false);
    fixture.expect("generate_image", call("a.png"), "allow autoApprove.write");
    fixture.expect("generate_image", from("b.png"), "ask policy");
    fixture.mode = "architect";
    fixture.expect("generate_image", call("a.png"), "deny mode");
}

#[test]
fn a_call_that_can_not_run_is_refused_before_anyone_is_asked() {
    let fixture = Fixture::new(&[("a.rs", "a\n")]);
    let unknown = fixture.expect("launch_rocket", json!({}), "deny tool");
    assert!(unknown.contains("no tool named 'launch_rocket'. You have read_file,"), "{unknown}");
    fixture.expect("read_file", json!({}), "deny parameters");
    fixture.expect("read_file", json!({ "path": "\0" }), "deny path");
    let reason = fixture.expect("write_to_file", json!({ "path": "a.rs", "content": "b" }), "deny content");
    assert!(reason.contains("Read it in an answer before the one that replaces its text."), "{reason}");
    fixture.expect("apply_diff", json!({ "path": "a.rs", "diff": "nonsense" }), "deny content");
    let missing = json!({ "path": "no.rs", "search": "a", "replace": "b" });
    fixture.expect("search_and_replace", missing, "deny content");
}

#[test]
fn a_mode_may_call_its_own_tools_on_its_own_files() {
    let mut fixture = Fixture::with(&[], writing());
    fixture.mode = "ask";
    fixture.expect("execute_command", json!({ "command": "ls" }), "deny mode");
    fixture.mode = "architect";
    fixture.expect("write_to_file", json!({ "path": "plan.md", "content": "x" }), "allow autoApprove.write");
    let reason = fixture.expect("write_to_file", json!({ "path": "a.rs", "content": "x" }), "deny mode");
    assert!(reason.contains("architect") && reason.contains("a.rs"), "{reason}");
}

#[test]
fn a_request_writes_in_its_own_task_directory_without_asking() {
    let fixture = Fixture::new(&[]);
    let own = json!({ "path": ".roo/tasks/20260102-03-04-abcdef01/notes.md", "content": "x" });
    fixture.expect("write_to_file", own, "allow own task directory");
    let other = json!({ "path": ".roo/tasks/20260102-03-04-00000000/notes.md", "content": "x" });
    fixture.expect("write_to_file", other, "ask protected");
}

#[cfg(unix)]
#[test]
fn a_link_to_or_from_a_task_directory_is_no_task_directory() {
    let fixture = Fixture::new(&[("src/a.rs", "x")]);
    let own = "20260102-03-04-abcdef01";
    fs::create_dir_all(fixture.root().join(".roo/tasks")).unwrap();
    std::os::unix::fs::symlink("../../src", fixture.root().join(".roo/tasks").join(own)).unwrap();
    let write = json!({ "path": format!(".roo/tasks/{own}/b.rs"), "content": "x" });
    fixture.expect("write_to_file", write, "ask policy");

    let fixture = Fixture::new(&[]);
    fs::create_dir_all(fixture.directory.path().join("out")).unwrap();
    std::os::unix::fs::symlink("../out", fixture.root().join(".roo")).unwrap();
    let write = json!({ "path": format!(".roo/tasks/{own}/b.rs"), "content": "x" });
    fixture.expect("write_to_file", write, "deny outside");
}

#[test]
fn what_steers_agents_and_tools_asks_even_when_writing_is_free() {
    let fixture = Fixture::with(&[], writing());
    for path in [".roomodes", ".git/config", "AGENTS.md", ".vscode/tasks.json", "sub/.ROO/x", ".claude/a"] {
        fixture.expect("write_to_file", json!({ "path": path, "content": "x" }), "ask protected");
    }
    fixture.expect(
        "write_to_file",
        json!({ "path": ".orchestration/active_intents.yaml", "content": "x" }),
        "deny protected",
    );
    fixture.expect("write_to_file", json!({ "path": "Makefile", "content": "x" }), "allow autoApprove.write");
}

#[test]
fn code_that_looks_escaped_asks_even_when_writing_is_free() {
    let fixture = Fixture::with(&[("b.rs", "one\n")], writing()).saw("b.rs", "one\n");
    let escaped = "if a &lt; b &amp;&amp; c {\n}\n";
    let reason =
        fixture.expect("write_to_file", json!({ "path": "a.rs", "content": escaped }), "ask escaped");
    assert!(reason.contains("`if a &lt; b &amp;&amp; c {`"), "{reason}");
    let insert = json!({ "path": "b.rs", "line": 0, "content": escaped });
    fixture.expect("insert_content", insert, "ask escaped");
    let diff = format!("<<<<<<< SEARCH\none\n=======\n{escaped}>>>>>>> REPLACE");
    fixture.expect("apply_diff", json!({ "path": "b.rs", "diff": diff }), "ask escaped");
    let page = json!({ "path": "a.html", "content": escaped });
    fixture.expect("write_to_file", page, "allow autoApprove.write");
}

#[test]
fn a_text_that_says_that_it_is_not_whole_is_refused() {
    let fixture = Fixture::with(&[("a.rs", "a\n// rest of the code\n")], writing());
    let fixture = fixture.saw("a.rs", "a\n// rest of the code\n");
    let content = "b\n    // ... existing code ...\n";
    let reason =
        fixture.expect("write_to_file", json!({ "path": "a.rs", "content": content }), "deny content");
    assert!(reason.contains("Line 2") && reason.contains("`// ... existing code ...`"), "{reason}");
    let diff = format!("<<<<<<< SEARCH\na\n=======\n{content}>>>>>>> REPLACE");
    fixture.expect("apply_diff", json!({ "path": "a.rs", "diff": diff }), "deny content");
    let kept = json!({ "path": "a.rs", "content": "b\n// rest of the code\n" });
    fixture.expect("write_to_file", kept, "allow autoApprove.write");
    let insert = json!({ "path": "a.rs", "line": 0, "content": content });
    fixture.expect("insert_content", insert, "allow autoApprove.write");
}

#[tokio::test]
async fn what_was_replaced_in_several_places_is_told() {
    let fixture = Fixture::with(&[("a.py", "x = 1\nmax_x = x\ny = 2\n")], writing());
    let notice = async |params| {
        let outcome = fixture.judge("search_and_replace", params).await;
        let edit: ProposedEdit = outcome.permit.unwrap().into_action().unwrap();
        edit.notice
    };
    let one = json!({ "path": "a.py", "search": "x", "replace": "z" });
    assert_eq!(notice(one).await.unwrap(), "4 occurrences were replaced, at lines 1, 2.");
    let operations = json!([{ "search": "y", "replace": "w" }, { "search": "x", "replace": "z" }]);
    let several = json!({ "path": "a.py", "operations": operations });
    let expected = "Operation 2: 4 occurrences were replaced, at lines 1, 2.";
    assert_eq!(notice(several).await.unwrap(), expected);
    assert_eq!(notice(json!({ "path": "a.py", "search": "y", "replace": "w" })).await, None);
}

#[test]
fn the_beginning_of_a_line_that_was_cut_does_not_replace_the_line() {
    let line: String = (0..2000).map(|number| format!("{number},")).collect();
    let text = format!("first\n{line}\nlast\n");
    let fixture = Fixture::with(&[("a.json", &*text)], writing()).saw("a.json", &text);
    let shown = roo_text::render::cut(&line, 2000).replace("7,8,9", "7,0,9");
    let content = format!("first\n{shown}\nlast\n");
    let reason =
        fixture.expect("write_to_file", json!({ "path": "a.json", "content": content }), "deny content");
    assert!(reason.contains("Line 2 of the new text of a.json ends in …"), "{reason}");
    let replace = json!({ "path": "a.json", "search": "first", "replace": shown });
    fixture.expect("search_and_replace", replace, "deny content");
    let patch = format!("*** Begin Patch\n*** Update File: a.json\n-first\n+{shown}\n*** End Patch");
    fixture.expect("apply_patch", json!({ "patch": patch }), "deny content");
    let part = json!({ "path": "a.json", "search": "7,8,9", "replace": "7,0,9", "use_regex": false });
    fixture.expect("search_and_replace", part, "allow autoApprove.write");
    let whole = json!({ "path": "a.json", "content": format!("first\n{line}\nend…\n") });
    fixture.expect("write_to_file", whole, "allow autoApprove.write");
}

#[test]
fn what_is_outside_is_only_shown_and_what_is_ignored_is_closed() {
    let fixture = Fixture::with(
        &[(".rooignore", "closed/\n"), ("closed/a", "x"), (".env", "KEY=1"), ("open", "x")],
        writing(),
    );
    fs::write(fixture.directory.path().join("outside.txt"), "x").unwrap();
    let outside = fixture.directory.path().canonicalize().unwrap().join("outside.txt");
    fixture.expect("read_file", json!({ "path": outside }), "ask outside");
    fixture.expect("read_file", json!({ "path": "closed/a" }), "deny rooignore");
    fixture.expect("write_to_file", json!({ "path": "closed/b", "content": "x" }), "deny rooignore");
    fixture.expect("read_file", json!({ "path": ".env" }), "ask secret");
    fixture.expect("write_to_file", json!({ "path": outside, "content": "y" }), "deny outside");
    fixture.expect("execute_command", json!({ "command": "ls", "cwd": "/" }), "deny outside");
}

#[cfg(unix)]
#[test]
fn a_link_counts_as_what_it_leads_to() {
    let fixture = Fixture::with(&[("real/a", "x"), (".git/config", "x")], writing());
    fs::write(fixture.directory.path().join("secret"), "x").unwrap();
    std::os::unix::fs::symlink("../secret", fixture.root().join("link")).unwrap();
    std::os::unix::fs::symlink(".git/config", fixture.root().join("harmless")).unwrap();
    fixture.expect("read_file", json!({ "path": "link" }), "ask outside");
    let edit = json!({ "path": "harmless", "search": "x", "replace": "y" });
    fixture.expect("search_and_replace", edit, "ask protected");
}

#[test]
fn one_unreadable_file_does_not_hide_the_others() {
    let fixture = Fixture::new(&[("a", "x"), (".rooignore", "closed\n"), ("closed", "x")]);
    let params = json!({ "files": [{ "path": "a" }, { "path": "closed" }] });
    fixture.expect("read_file", params, "allow autoApprove.read");
}

#[test]
fn an_overwrite_needs_the_text_that_was_last_seen() {
    let write = json!({ "path": "a", "content": "new\n" });
    let fixture = Fixture::with(&[("a", "old\n")], writing()).saw("a", "older\n");
    let reason = fixture.expect("write_to_file", write.clone(), "deny content");
    assert!(reason.contains("has changed since you read it"), "{reason}");
    let fixture = fixture.saw("a", "old\n");
    fixture.expect("write_to_file", write, "allow autoApprove.write");
    // A block needs only its own lines to be there.
    let diff = "<<<<<<< SEARCH\nold\n=======\nnew\n>>>>>>> REPLACE";
    let fixture = Fixture::with(&[("a", "old\nmore\n")], writing());
    fixture.expect("apply_diff", json!({ "path": "a", "diff": diff }), "allow autoApprove.write");
}

#[cfg(unix)]
#[test]
fn an_edit_tells_nothing_of_a_file_that_only_the_user_can_show() {
    let text = "KEY=hunter2\n";
    let edits = |path: &str| {
        let diff = |search: &str| format!("<<<<<<< SEARCH\n{search}\n=======\nx\n>>>>>>> REPLACE");
        [
            ("apply_diff", json!({ "path": path, "diff": diff("KEY=hunter1") })),
            ("apply_diff", json!({ "path": path, "diff": diff("KEY=hunter2") })),
            ("search_and_replace", json!({ "path": path, "search": "KEY", "replace": "x" })),
            ("search_and_replace", json!({ "path": path, "search": "absent", "replace": "x" })),
        ]
    };
    let additions = |path: &str| {
        [
            ("insert_content", json!({ "path": path, "line": 1, "content": "x" })),
            ("insert_content", json!({ "path": path, "line": 99, "content": "x" })),
            ("write_to_file", json!({ "path": path, "content": "x" })),
            ("write_to_file", json!({ "path": path, "content": text })),
        ]
    };
    let refused = |fixture: &Fixture, path: &str, tool: &str, params: Value| {
        let reason = fixture.expect(tool, params, "deny content");
        let rest = "can't be edited before you have read it, and reading it needs the user's permission: call \
                    read_file first.";
        assert!(reason.ends_with(rest), "{tool} {path}: {reason}");
    };
    let fixture = Fixture::new(&[(".env", text)]);
    fs::write(fixture.directory.path().join("outside"), text).unwrap();
    std::os::unix::fs::symlink("../outside", fixture.root().join("link")).unwrap();
    let closed = Fixture::with(&[("a", text)], AutoApprove { read: false, ..AutoApprove::default() });
    let outside = fixture.directory.path().join("outside");
    for (fixture, path) in [(&fixture, ".env"), (&closed, "a")] {
        for (tool, params) in edits(path).into_iter().chain(additions(path)) {
            refused(fixture, path, tool, params);
        }
    }
    for path in ["link", outside.to_str().unwrap(), outside.with_file_name("missing").to_str().unwrap()] {
        for (tool, params) in edits(path).into_iter().chain(additions(path)) {
            fixture.expect(tool, params, "deny outside");
        }
    }
    // What is missing answers as what is there.
    for (fixture, path) in [(&fixture, ".env.local"), (&closed, "b")] {
        edits(path).into_iter().for_each(|(tool, params)| refused(fixture, path, tool, params));
    }
    // A new file holds nothing to tell, and asks.
    fixture.expect("write_to_file", json!({ "path": ".env.local", "content": "x" }), "ask secret");

    let fixture = fixture.saw(".env", text);
    let [(wrong, missed), (right, matching), ..] = edits(".env");
    assert!(fixture.expect(wrong, missed, "deny content").contains("hunter2"));
    fixture.expect(right, matching, "ask secret");
}

#[test]
fn unsaved_text_is_what_an_edit_is_made_of() {
    let fixture = Fixture::with(&[("a", "on disk\n")], writing());
    fixture.documents.open(&file_uri(&fixture.root().join("a")), 1, "in the editor\n");
    let edit = |text: &str| json!({ "path": "a", "search": text, "replace": "x" });
    fixture.expect("search_and_replace", edit("on disk"), "deny content");
    fixture.expect("search_and_replace", edit("in the editor"), "allow autoApprove.write");
}

#[tokio::test]
async fn an_approval_holds_for_exactly_one_action() {
    let fixture = Fixture::new(&[("a", "one\n")]);
    let edit = json!({ "path": "a", "search": "one", "replace": "two" });
    let PolicyDecision::Ask { digest, subject, title, .. } =
        fixture.judge("search_and_replace", edit.clone()).await.decision
    else {
        panic!("it asks")
    };
    assert_eq!(title, "Edit a");
    assert!(subject.contains("-one\n+two\n"), "{subject}");
    let approved = fixture.judge_approved("search_and_replace", edit.clone(), Some(digest)).await;
    assert!(
        matches!(approved.decision, PolicyDecision::Allow { .. }) && approved.permit.is_some(),
        "{approved:?}"
    );
    let other = json!({ "path": "a", "search": "one", "replace": "three" });
    let approved = fixture.judge_approved("search_and_replace", other, Some(digest)).await;
    assert!(
        matches!(approved.decision, PolicyDecision::Ask { .. }) && approved.permit.is_none(),
        "{approved:?}"
    );
    // The file changed while the user thought about it.
    fs::write(fixture.root().join("a"), "one\nmore\n").unwrap();
    let approved = fixture.judge_approved("search_and_replace", edit, Some(digest)).await;
    assert!(
        matches!(approved.decision, PolicyDecision::Ask { .. }) && approved.permit.is_none(),
        "{approved:?}"
    );
}

#[test]
fn commands_run_by_rule_and_denied_ones_never() {
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let execute = Execute { allow: vec![words("cargo test")], deny: vec![words("rm")], ..Execute::default() };
    let fixture = Fixture::with(&[], AutoApprove { execute, ..AutoApprove::default() });
    let run = |command: &str| json!({ "command": command });
    fixture.expect("execute_command", run("cargo test -q"), "allow autoApprove.execute.allow cargo test");
    fixture.expect("execute_command", run("cargo testament"), "ask command");
    fixture.expect("execute_command", run("cargo test; ls"), "ask command");
    fixture.expect("execute_command", run("cargo test && rm -r x"), "deny autoApprove.execute.deny");
}

#[tokio::test]
async fn what_is_shown_can_not_hide_anything() {
    let fixture = Fixture::new(&[]);
    let PolicyDecision::Ask { subject, .. } =
        fixture.judge("execute_command", json!({ "command": "echo a\u{202e}b\u{1b}[2K" })).await.decision
    else {
        panic!("it asks")
    };
    assert!(subject.contains("a<U+202E>b<U+001B>[2K"), "{subject}");
}

#[test]
fn a_command_on_an_ignored_file_is_refused_at_once() {
    let mut fixture = Fixture::new(&[
        (".rooignore", "private*\nnode_modules/\n"),
        ("private.txt", ""),
        ("src/private.txt", ""),
        ("node_modules/x.js", ""),
        ("src/a.rs", ""),
    ]);
    let run = |command: &str| json!({ "command": command });
    for line in [
        "cat private.txt",
        "cat src/a.rs src/private.txt",
        "head -5 ./private.txt | wc -l",
        "cd src && cat private.txt",
        "grep -rn x node_modules",
        "cat < private.txt",
        "less private.txt",
        "timeout 5 cat private.txt",
        "echo \"$(cat private.txt)\"",
        "if ls; then cat private.txt; fi",
        "cd node_modules && ls",
    ] {
        fixture.expect("execute_command", run(line), "deny rooignore");
    }
    for line in [
        "ls node_modules",
        "rm private.txt",
        "npm run node_modules",
        "grep private.txt src/a.rs",
        "echo private.txt",
        "git log private.txt",
        "cat missing/private.txt",
    ] {
        fixture.expect("execute_command", run(line), "ask command");
    }
    // Whoever names it in a rule is asked by nobody.
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let execute = Execute { allow: vec![words("cat private.txt")], ..Execute::default() };
    fixture.set(|settings| settings.auto_approve.execute = execute);
    fixture.expect(
        "execute_command",
        run("cat private.txt"),
        "allow autoApprove.execute.allow cat private.txt",
    );
}

#[test]
fn a_command_that_destroys_everything_never_runs() {
    let fixture = Fixture::new(&[]);
    for line in ["rm -rf /", "sudo rm -rf ~", ":(){ :|:& };:"] {
        fixture.expect("execute_command", json!({ "command": line }), "deny destructive");
    }
    fixture.expect("execute_command", json!({ "command": "rm -rf ./build" }), "ask command");
}

#[test]
fn a_command_asks_for_what_its_words_lead_to() {
    let mut fixture = Fixture::new(&[
        (".rooignore", "private*\n/hidden/\n"),
        ("build/private.txt", ""),
        ("build/public.txt", ""),
        ("src/a.rs", ""),
        ("src/.env", ""),
        ("src/deep/b.rs", ""),
    ]);
    std::os::unix::fs::symlink("/etc", fixture.root().join("lnk")).unwrap();
    let allow = ["cat", "wc", "cp", "grep", "git"].map(|program| vec![program.to_owned()]).to_vec();
    fixture.set(|settings| settings.auto_approve.execute = Execute { allow, ..Execute::default() });
    let judge = |line: &str, cwd: &str, expected: &str| {
        fixture.expect("execute_command", json!({ "command": line, "cwd": cwd }), expected);
    };
    for line in [
        "cat build/p*",
        "wc build/p*",
        "wc lnk/passwd",
        "cp lnk/passwd x",
        "grep -e x src/.env",
        "git show HEAD:private.txt",
        "git show HEAD:./old/private.txt",
        "git show HEAD:hidden/x",
        "git show HEAD:gone/.env",
        "git show HEAD:above/hidden/x",
    ] {
        judge(line, ".", "ask command");
    }
    judge("git show HEAD:hidden/x", "src", "ask command");
    judge("cat build/pub*", ".", "allow autoApprove.execute.allow cat");
    judge("wc -l src/*", ".", "allow autoApprove.execute.allow wc");
    judge("grep -e '\\bx\\b' src/a.rs", ".", "allow autoApprove.execute.allow grep");
    judge("wc -l ./*", ".", "ask command");
    // No sandbox hides `build/private.txt` here.
    judge("grep -rn x ./b*", ".", "ask command");
    judge("grep -rn x .", ".", "ask command");
    judge("grep -rn x src", ".", "ask command");
    judge("grep -rn --include=*.rs x src", ".", "allow autoApprove.execute.allow grep");
    judge("grep -rn x src/deep", ".", "allow autoApprove.execute.allow grep");
    judge("grep -rn x ./l*", ".", "ask command");
    judge("cp src/a.rs build", ".", "allow autoApprove.execute.allow cp");
    judge("git log --oneline -- src", ".", "allow autoApprove.execute.allow git");
    judge("git show HEAD:src/a.rs", ".", "allow autoApprove.execute.allow git");
    judge("git show HEAD:src/gone/b.rs", ".", "allow autoApprove.execute.allow git");
}

#[tokio::test]
async fn whoever_allows_a_command_is_told_what_it_would_not_see() {
    let fixture = Fixture::new(&[("a.txt", "old")]);
    fixture.documents.open(&file_uri(&fixture.root().join("a.txt")), 1, "old");
    let ask = json!({ "command": "cat a.txt" });
    let PolicyDecision::Ask { subject, .. } = fixture.judge("execute_command", ask.clone()).await.decision
    else {
        panic!()
    };
    assert_eq!(subject, "cat a.txt\n(in .)\nSandbox: none");
    let change = Change { range: None, text: "new".into() };
    fixture
        .documents
        .change(&file_uri(&fixture.root().join("a.txt")), 2, &[change], Encoding::Utf16)
        .unwrap();
    let PolicyDecision::Ask { subject, .. } = fixture.judge("execute_command", ask).await.decision else {
        panic!()
    };
    assert!(subject.contains("Unsaved") && subject.ends_with("/a.txt"), "{subject}");
}

#[test]
fn conversation_tools_need_no_permit() {
    let fixture = Fixture::new(&[]);
    fixture.expect("attempt_completion", json!({ "result": "done" }), "allow conversation");
    fixture.expect("update_todo_list", json!({ "todos": "[ ] a" }), "allow conversation");
}

#[test]
fn instructions_that_the_server_brings_are_free() {
    let fixture = Fixture::new(&[]);
    let task = |task: &str| json!({ "task": task });
    fixture.expect("fetch_instructions", task("create_mode"), "allow instructions");
    fixture.expect("fetch_instructions", task("create_mcp_server"), "allow instructions");
    fixture.expect("fetch_instructions", task("release"), "deny parameters");
}

#[test]
fn skills_of_the_mode_are_loaded_without_asking() {
    let fixture = Fixture::new(&[]);
    let params = json!({ "name": "create_mode", "args": "a reviewer" });
    fixture.expect("skill", params.clone(), "allow skill");
    let reason = fixture.expect("skill", json!({ "name": "other" }), "deny skill");
    assert_eq!(reason, "There is no skill 'other'. The skills are create-mode.");

    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let permit = runtime.block_on(fixture.judge("skill", params)).permit.unwrap();
    let Load { skill, arguments } = permit.into_action().unwrap();
    assert_eq!((skill.name.as_str(), arguments.as_deref()), ("create-mode", Some("a reviewer")));

    // By the name of a command that isn't there, too.
    let params = json!({ "command": "/create-mode", "args": "a reviewer" });
    fixture.expect("run_slash_command", params.clone(), "allow skill");
    let permit = runtime.block_on(fixture.judge("run_slash_command", params)).permit.unwrap();
    let Load { skill, arguments } = permit.into_action().unwrap();
    assert_eq!((skill.name.as_str(), arguments.as_deref()), ("create-mode", Some("a reviewer")));
    let reason = fixture.expect("run_slash_command", json!({ "command": "other" }), "deny skill");
    assert_eq!(reason, "There is no command '/other'. The commands are /init.");
}

#[test]
fn steps_of_the_workflow_are_answered_and_not_run() {
    let mut fixture = Fixture::new(&[]);
    let native = |fixture: &Fixture, params: Value| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let decision = runtime.block_on(fixture.judge("execute_command", params));
        decision.permit.unwrap().into_action::<Native>().expect("something runs")
    };
    let run = |command: &str| json!({ "command": command });
    let own = ".roo/tasks/20260102-03-04-abcdef01";
    let recipe = run("echo $(date +%Y%m%d-%H-%M)-$(uuidgen | cut -c1-8)");
    assert_eq!(native(&fixture, run(CONTEXT_COMMAND)), Native::SystemContext);
    assert_eq!(native(&fixture, recipe.clone()), Native::Urid(fixture.urid.clone()));
    assert_eq!(native(&fixture, run(&format!("mkdir -p {own}/"))), Native::TaskDirectory(own.to_owned()));
    fixture.expect("execute_command", run(CONTEXT_COMMAND), "allow native");

    let here = json!({ "command": CONTEXT_COMMAND, "cwd": fixture.root() });
    fixture.expect("execute_command", here, "allow native");

    // Another request's directory, and another place.
    fixture.expect("execute_command", run("mkdir -p .roo/tasks/20260102-03-04-abcdef02"), "ask command");
    fixture.expect("execute_command", json!({ "command": CONTEXT_COMMAND, "cwd": "/" }), "deny outside");
    fixture.mode = "ask";
    fixture.expect("execute_command", recipe, "deny mode");
}

#[test]
fn the_command_for_the_system_context_runs_where_the_user_wants_that() {
    let run = |command: &str| json!({ "command": command });
    let with = |run| SystemContext { command: "make facts".to_owned(), run };
    let mut fixture = Fixture::new(&[]);
    fixture.set(|settings| settings.system_context = with(RunContext::Native));
    fixture.expect("execute_command", run("make  facts"), "allow native");
    fixture.set(|settings| settings.system_context = with(RunContext::Shell));
    fixture.expect("execute_command", run("make facts"), "ask command");
    fixture.expect("execute_command", run(CONTEXT_COMMAND), "ask command");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let asked = runtime.block_on(fixture.judge("execute_command", run(CONTEXT_COMMAND))).decision;
    let PolicyDecision::Ask { subject, .. } = asked else { panic!("{asked:?}") };
    assert!(subject.contains("Each part runs by itself"), "{subject}");
}

mod delegation {
    use super::*;
    use crate::policy::PlannedBranch;
    use roo_formats::config::Profile;

    const OWN: &str = ".roo/tasks/20260102-03-04-abcdef01";

    /// A fixture in a mode that has delegated to nobody yet, with a model for every mode.
    fn in_mode(mode: &'static str, files: &[(&str, &str)]) -> Fixture {
        let mut fixture = Fixture { mode, ..Fixture::new(files) };
        let profile: Profile = serde_json::from_value(json!({ "provider": "scripted" })).unwrap();
        assert!(profile.plays_script());
        fixture.set(|settings| {
            settings.profiles = ["default", "other"].map(|name| (name.to_owned(), profile.clone())).into();
        });
        fixture
    }

    fn to(mode: &str, header: &str, rest: &str) -> Value {
        let message = format!("{header}\n\nURID: 20260102-03-04-abcdef01\n\nDo it.\n{rest}");
        json!({ "mode": mode, "message": message })
    }

    fn branch(fixture: &Fixture, params: Value) -> PlannedBranch {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let decision = runtime.block_on(fixture.judge("new_task", params));
        assert!(decision.permit.is_none(), "a branch is a step of the machine");
        let PolicyDecision::Allow { plan: Plan::Branch(branch), .. } = decision.decision else {
            panic!("{:?}", decision.decision)
        };
        *branch
    }

    #[test]
    fn a_mode_delegates_to_those_that_it_may_and_is_told_who_they_are() {
        let fixture = in_mode("code", &[]);
        let planned = branch(&fixture, to("debug", "🪲 Find the cause", ""));
        assert_eq!((planned.mode.as_str(), planned.delegation.title.as_str()), ("debug", "Find the cause"));
        for target in ["architect", "poet"] {
            let reason = fixture.expect("new_task", to(target, "🏗️ Plan", ""), "deny delegation");
            assert!(reason.contains(target) && reason.ends_with("It may delegate to debug."), "{reason}");
        }
        let fixture = in_mode("architect", &[]);
        fixture.expect("new_task", to("code", "💻 Do it", ""), "deny mode");
    }

    #[test]
    fn a_mode_that_delegates_once_does_so_once_for_each_message() {
        let mut fixture = in_mode("new-task", &[]);
        branch(&fixture, to("orchestrator", "🪃 Lead it", ""));
        fixture.delegations = 1;
        fixture.expect("new_task", to("orchestrator", "🪃 Lead it", ""), "deny delegation");
        let mut fixture = in_mode("orchestrator", &[]);
        fixture.delegations = 5;
        branch(&fixture, to("code", "💻 Do it", ""));
    }

    #[test]
    fn a_message_that_can_not_be_read_is_sent_back_with_one_that_can() {
        let fixture = in_mode("orchestrator", &[]);
        let reason = fixture.expect("new_task", to("code", "🪲 Do it", ""), "deny message");
        assert!(reason.contains("line 1") && reason.contains("💻 "), "{reason}");
    }

    #[test]
    fn context_files_are_plain_files_of_this_request() {
        let note = format!("{OWN}/note.md");
        let fixture =
            in_mode("orchestrator", &[(&note, "Note."), ("secret", "x"), (&format!("{OWN}/d/x"), "x")]);
        let with = |file: &str| {
            to("code", "💻 Do it", &format!("\nRelevant context files:\n{OWN}/{file}\n\nGo.\n@{OWN}/\n"))
        };
        assert_eq!(branch(&fixture, with("note.md")).delegation.context_files, [note]);
        std::os::unix::fs::symlink(fixture.root().join("secret"), fixture.root().join(OWN).join("link"))
            .unwrap();
        for missing in ["absent.md", "link", "d"] {
            let reason = fixture.expect("new_task", with(missing), "deny context");
            assert!(reason.contains(missing), "{reason}");
        }
    }

    #[test]
    fn a_branch_works_with_the_model_of_its_mode_or_the_one_that_the_user_chose() {
        let mut fixture = in_mode("orchestrator", &[]);
        let of = |fixture: &Fixture| branch(fixture, to("code", "💻 Do it", "")).profile;
        assert_eq!(of(&fixture), "default");
        fixture.set(|settings| {
            settings.modes.entry("code".into()).or_default().profile = Some("other".into());
        });
        assert_eq!(of(&fixture), "other");
        fixture.profile = Some("default");
        assert_eq!(of(&fixture), "default");
        fixture.profile = Some("gone");
        fixture.expect("new_task", to("code", "💻 Do it", ""), "deny profile");
    }

    #[test]
    fn delegation_is_asked_for_where_the_settings_want_that() {
        let mut fixture = in_mode("orchestrator", &[]);
        fixture.expect("new_task", to("code", "💻 Do it", ""), "allow autoApprove.delegate");
        fixture.set(|settings| settings.auto_approve.delegate = false);
        fixture.expect("new_task", to("code", "💻 Do it", ""), "ask policy");
    }

    #[test]
    fn a_switch_of_modes_is_asked_for_in_a_branch_even_where_delegation_is_free() {
        let mut fixture = in_mode("architect", &[]);
        let to = |mode: &str| json!({ "mode_slug": mode });
        fixture.expect("switch_mode", to("code"), "allow autoApprove.delegate");
        fixture.expect("switch_mode", to("architect"), "deny mode");
        fixture.expect("switch_mode", to("poet"), "deny mode");
        fixture.is_branch = true;
        fixture.expect("switch_mode", to("code"), "ask mode");
    }

    #[test]
    fn whether_context_was_to_be_saved_is_told_with_a_refusal() {
        let fixture = in_mode("ask", &[]);
        let saves = |path: &str| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let params = json!({ "path": path, "content": "x" });
            match runtime.block_on(fixture.judge("write_to_file", params)).decision {
                PolicyDecision::Deny { saves, .. } => Some(saves),
                PolicyDecision::Allow { plan: Plan::Write(write), .. } => {
                    assert!(write.shared, "{path}");
                    None
                }
                other => panic!("{path}: {other:?}"),
            }
        };
        assert_eq!(saves(&format!("{OWN}/a.md")), None);
        assert_eq!(saves("./.roo/./tasks/20260102-03-04-abcdef01/a.md"), None);
        std::fs::create_dir_all(fixture.root().join(OWN)).unwrap();
        std::os::unix::fs::symlink("/", fixture.root().join(OWN).join("out")).unwrap();
        assert_eq!(saves(&format!("{OWN}/out/a.md")), Some(true));
        assert_eq!(saves("src/.roo/tasks/20260102-03-04-abcdef01/a.md"), Some(false));
        assert_eq!(saves(&format!("{OWN}/../../../a.md")), Some(false));
    }
}

const INTENTS: &str = "active_intents:
  - id: INT-001
    name: JWT
    status: IN_PROGRESS
    owned_scope: [\"src/auth/**\", \"!**/*.snap\"]
    constraints: [\"no new files, please\"]
  - id: INT-002
    name: Docs
    status: PENDING
    owned_scope: [\"docs\", \"src/auth/doc.md\"]
    enforce: [no_new_files]
  - id: INT-003
    name: Done
    status: DONE
    owned_scope: [\"**\"]
  - id: INT-004
    name: Broken
    status: PENDING
    owned_scope: [\"../**\"]
";

/// A workspace with intents, where writing is free but for them.
fn governed() -> Fixture {
    let files = [(".orchestration/active_intents.yaml", INTENTS), ("src/auth/a.rs", "a"), ("docs/a.md", "a")];
    let mut fixture = Fixture::with(&files, writing()).saw("src/auth/a.rs", "a").saw("docs/a.md", "a");
    fixture.set(|settings| settings.auto_approve.execute.allow = vec![vec!["ls".to_owned()]]);
    fixture
}

impl Fixture {
    fn bind(&mut self, id: &str) {
        self.intent = Some(self.binding(id));
    }

    fn binding(&self, id: &str) -> Binding {
        let file = self.gate.orchestration().selectable(id).unwrap();
        let intent = file.get(id).unwrap();
        Binding { id: id.to_owned(), digest: intent.digest() }
    }

    fn rewrite(&self, from: &str, to: &str) {
        let path = self.root().join(".orchestration/active_intents.yaml");
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from));
        fs::write(path, text.replace(from, to)).unwrap();
    }
}

fn write(path: &str) -> Value {
    json!({ "path": path, "content": "new" })
}

#[test]
fn without_a_bound_intent_nothing_is_changed_and_everything_is_read() {
    let fixture = governed();
    let reason = fixture.expect("write_to_file", write("src/auth/a.rs"), "deny intent");
    assert!(reason.starts_with("You must cite a valid active Intent ID."), "{reason}");
    fixture.expect("execute_command", json!({ "command": "ls" }), "deny intent");
    fixture.expect("read_file", json!({ "path": "src/auth/a.rs" }), "allow autoApprove.read");
    fixture.expect(
        "write_to_file",
        write(".roo/tasks/20260102-03-04-abcdef01/notes.md"),
        "allow own task directory",
    );
}

#[test]
fn reads_need_an_intent_too_where_the_user_wants_it() {
    let mut fixture = governed();
    fixture.set(|settings| settings.intents.require = roo_formats::config::RequireIntent::All);
    fixture.expect("read_file", json!({ "path": "src/auth/a.rs" }), "deny intent");
    fixture.bind("INT-001");
    fixture.expect("read_file", json!({ "path": "docs/a.md" }), "allow autoApprove.read");
}

#[test]
fn where_the_user_wants_it_no_tool_works_before_an_intent_is_bound() {
    let calls = [
        ("read_file", json!({ "path": ".roo/tasks/20260102-03-04-abcdef01/notes.md" })),
        ("list_files", json!({ "path": "." })),
        ("search_files", json!({ "path": ".", "regex": "x" })),
        ("codebase_search", json!({ "query": "x" })),
        ("list_code_definition_names", json!({ "path": "." })),
        ("find_references", json!({ "path": "docs/a.md", "line": 1, "symbol": "x" })),
        ("go_to_definition", json!({ "path": "docs/a.md", "line": 1, "symbol": "x" })),
        ("hover", json!({ "path": "docs/a.md", "line": 1, "symbol": "x" })),
        ("workspace_symbols", json!({ "path": "docs/a.md", "query": "x" })),
        ("diagnostics", json!({ "path": "docs/a.md" })),
        ("code_actions", json!({ "path": "docs/a.md", "line": 1 })),
        ("write_to_file", write(".roo/tasks/20260102-03-04-abcdef01/notes.md")),
        ("update_todo_list", json!({ "todos": "[ ] a" })),
        ("switch_mode", json!({ "mode_slug": "ask", "reason": "x" })),
        ("new_task", json!({ "mode": "debug", "message": "x" })),
        ("skill", json!({ "skill": "create-mode" })),
        ("fetch_instructions", json!({ "task": "create_mode" })),
        ("execute_command", json!({ "command": "ls" })),
        ("request_scope_expansion", json!({ "patterns": ["x"], "reason": "y" })),
        ("read_command_output", json!({ "command_id": "cmd-12" })),
        ("send_command_input", json!({ "command_id": "cmd-12", "input": "1" })),
        ("stop_command", json!({ "command_id": "cmd-12" })),
        ("browser_action", json!({ "action": "launch", "url": "http://localhost:3000" })),
        ("generate_image", json!({ "prompt": "x", "path": "docs/a.png" })),
        // What the server answers itself.
        ("execute_command", json!({ "command": roo_formats::config::CONTEXT_COMMAND })),
        ("execute_command", json!({ "command": "mkdir -p .roo/tasks/20260102-03-04-abcdef01" })),
    ];
    let mut fixture = governed();
    fixture.set(|settings| settings.intents.require = roo_formats::config::RequireIntent::All);
    let covered: BTreeSet<&str> = calls.iter().map(|(tool, _)| *tool).collect();
    let mode = Modes::built_in();
    for tool in mode.find("code").unwrap().tools().into_iter().filter(|tool| !tool.spec().precedes_intent) {
        let is_edit = tool.spec().effect == roo_catalog::Effect::Write;
        assert!(is_edit || covered.contains(tool.as_str()), "{tool} is not tried");
    }
    for (tool, params) in calls.clone() {
        let reason = fixture.expect(tool, params, "deny intent");
        assert!(reason.starts_with("You must cite a valid active Intent ID."), "{tool}: {reason}");
    }
    fixture.expect(
        "ask_followup_question",
        json!({ "question": "Which?", "follow_up": [] }),
        "allow conversation",
    );
    fixture.expect("attempt_completion", json!({ "result": "No." }), "allow conversation");
    fixture.expect("complete_with_failure", json!({ "reason": "No." }), "allow conversation");
    fixture.expect("select_active_intent", json!({ "intent_id": "INT-001" }), "allow intents");
    fixture.bind("INT-001");
    fixture.expect("list_files", json!({ "path": "." }), "allow autoApprove.read");
    fixture.expect("update_todo_list", json!({ "todos": "[ ] a" }), "allow conversation");
}

#[test]
fn an_intent_is_selected_by_an_id_that_is_active() {
    let fixture = governed();
    let select =
        |id: &str, verdict| fixture.expect("select_active_intent", json!({ "intent_id": id }), verdict);
    select("INT-001", "allow intents");
    for id in ["INT-003", "INT-004", "INT-999", "../x"] {
        let reason = select(id, "deny intent");
        assert!(reason.starts_with("You must cite a valid active Intent ID."), "{reason}");
    }
    assert!(select("INT-004", "deny intent").contains("it must not contain `..`"), "why it is not valid");
    fs::write(fixture.root().join(".intentignore"), "# not yet\nINT-001\n").unwrap();
    assert!(select("INT-001", "deny intent").contains(".intentignore"));
}

#[test]
fn a_bound_intent_grants_its_scope_and_no_more() {
    let mut fixture = governed();
    fixture.bind("INT-001");
    fixture.expect("write_to_file", write("src/auth/a.rs"), "allow autoApprove.write");
    fixture.expect("write_to_file", write("src/auth/new.rs"), "allow autoApprove.write");
    fixture.expect("execute_command", json!({ "command": "ls" }), "allow autoApprove.execute.allow ls");
    for path in ["docs/a.md", "src/auth/x.snap", "src/auth-evil/x", "src/auth/.hidden/x", "src/auth/../b.rs"]
    {
        let reason = fixture.expect("write_to_file", write(path), "deny scope");
        assert!(reason.starts_with("Scope Violation: INT-001 is not authorized to edit "), "{reason}");
        assert!(reason.ends_with("Request scope expansion."), "{reason}");
    }
    // Whatever the scope.
    fixture.expect("write_to_file", write(".roo/mcp.json"), "ask protected");
    fixture.expect("write_to_file", write(".orchestration/active_intents.yaml"), "deny protected");
    fixture.expect("write_to_file", write("/etc/passwd"), "deny scope");
}

#[test]
fn a_refusal_has_fields_for_programs() {
    let mut fixture = governed();
    fixture.bind("INT-001");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let decision = runtime.block_on(fixture.judge("write_to_file", write("src/auth/x.snap")));
    let PolicyDecision::Deny { detail: Some(detail), .. } = decision.decision else {
        panic!("refused with fields")
    };
    assert_eq!(
        detail,
        json!({
            "code": "SCOPE_VIOLATION",
            "intentId": "INT-001",
            "path": "src/auth/x.snap",
            "canonical": fixture.root().join("src/auth/x.snap"),
            "matchedRule": "!**/*.snap",
        })
    );
}

#[test]
fn links_are_judged_by_where_they_lead() {
    let mut fixture = governed();
    fixture.bind("INT-001");
    std::os::unix::fs::symlink("../../docs/a.md", fixture.root().join("src/auth/link.md")).unwrap();
    fixture.expect("write_to_file", write("src/auth/link.md"), "deny scope");
}

#[test]
fn what_changes_an_intent_makes_its_binding_stale() {
    let mut fixture = governed();
    fixture.bind("INT-001");
    fixture.rewrite("IN_PROGRESS", "ACTIVE");
    fixture.expect("write_to_file", write("src/auth/a.rs"), "allow autoApprove.write");
    fixture.rewrite("no new files, please", "no new files");
    let reason = fixture.expect("write_to_file", write("src/auth/a.rs"), "deny intent");
    assert!(reason.contains("has changed since you selected it"), "{reason}");
    fixture.bind("INT-001");
    fixture.expect("write_to_file", write("src/auth/a.rs"), "allow autoApprove.write");
    fixture.rewrite("ACTIVE", "BLOCKED");
    fixture.expect("write_to_file", write("src/auth/a.rs"), "deny intent");
}

#[test]
fn a_broken_file_denies_and_an_empty_one_too() {
    let mut fixture = governed();
    fixture.bind("INT-001");
    fixture.rewrite("active_intents:", "active_intents: [");
    let reason = fixture.expect("write_to_file", write("src/auth/a.rs"), "deny intent");
    assert!(reason.contains("can't be read"), "{reason}");
    fixture.expect("execute_command", json!({ "command": "ls" }), "deny intent");
    fs::write(fixture.root().join(".orchestration/active_intents.yaml"), "active_intents: []\n").unwrap();
    fixture.expect("write_to_file", write("src/auth/a.rs"), "deny intent");
}

#[test]
fn what_a_user_accepted_is_not_widened_by_a_change_of_the_file() {
    let mut fixture = governed();
    let accepted = fixture.gate.orchestration().selectable("INT-001").unwrap();
    fixture.gate.orchestration().accept(accepted.get("INT-001").unwrap()).unwrap();
    fixture.rewrite("src/auth/**", "src/**");
    fixture.bind("INT-001");
    fixture.expect("write_to_file", write("src/auth/a.rs"), "deny intent");
    let reason = fixture.expect("select_active_intent", json!({ "intent_id": "INT-001" }), "ask intent");
    assert!(reason.contains("scope: src/**"), "{reason}");
    fixture.rewrite("src/**", "src/auth/a.rs");
    fixture.expect("select_active_intent", json!({ "intent_id": "INT-001" }), "allow intents");
}

#[test]
fn a_branch_never_covers_more_than_its_parent() {
    let mut fixture = governed();
    fixture.bind("INT-002");
    fixture.within = vec![fixture.binding("INT-001")];
    let reason = fixture.expect("write_to_file", write("docs/a.md"), "deny scope");
    assert!(reason.contains("INT-001 is not authorized"), "{reason}");
    let reason = fixture.expect("write_to_file", write("src/auth/a.rs"), "deny scope");
    assert!(reason.contains("INT-002 is not authorized"), "{reason}");
    fs::write(fixture.root().join("src/auth/doc.md"), "a").unwrap();
    let fixture = fixture.saw("src/auth/doc.md", "a");
    fixture.expect("write_to_file", write("src/auth/doc.md"), "allow autoApprove.write");
}

#[test]
fn a_constraint_that_can_be_checked_is() {
    let mut fixture = governed();
    fixture.bind("INT-002");
    fixture.expect("write_to_file", write("docs/a.md"), "allow autoApprove.write");
    let reason = fixture.expect("write_to_file", write("docs/new.md"), "deny scope");
    assert!(reason.contains("allows no new files"), "{reason}");
}

#[test]
fn more_scope_is_asked_for_and_shown() {
    let mut fixture = governed();
    let wanted = json!({ "patterns": "docs/**\n", "reason": "It is told there." });
    fixture.expect("request_scope_expansion", wanted.clone(), "deny intent");
    fixture.bind("INT-001");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let decision = runtime.block_on(fixture.judge("request_scope_expansion", wanted));
    let PolicyDecision::Ask { title, subject, .. } = decision.decision else { panic!("asked") };
    assert_eq!(title, "Let INT-001 cover docs/**");
    assert!(subject.contains("+docs/**") && subject.contains("It is told there."), "{subject}");
    fixture.expect(
        "request_scope_expansion",
        json!({ "patterns": "../**", "reason": "x" }),
        "deny parameters",
    );
}

#[test]
fn what_the_user_allowed_for_good_is_not_asked_again() {
    let fixture = Fixture::new(&[("a.rs", "a")]).saw("a.rs", "a");
    let rules = Arc::clone(&fixture.gate.policy_context.rules);
    fixture.expect("write_to_file", write("a.rs"), "ask policy");
    rules.add(RuleVerdict::Allow, RuleSubject::Edits, "x", 1).unwrap();
    fixture.expect("write_to_file", write("a.rs"), "allow rule r1");
    // What is asked whatever the settings say, is asked whatever a rule says.
    fixture.expect("write_to_file", write(".roo/mcp.json"), "ask protected");
    let command = RuleSubject::Commands { commands: vec![vec!["ls".to_owned(), "-l".to_owned()]] };
    rules.add(RuleVerdict::Allow, command, "x", 1).unwrap();
    fixture.expect("execute_command", json!({ "command": "ls" }), "ask command");
    fixture.expect(
        "execute_command",
        json!({ "command": "ls -l src" }),
        "allow autoApprove.execute.allow ls -l",
    );
}

#[test]
fn a_preset_is_offered_where_it_would_allow_a_command_and_holds_once_it_is_accepted() {
    let fixture = Fixture::new(&[("Cargo.toml", ""), ("src/a.rs", "a")]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let offered = |line: &str| match runtime
        .block_on(fixture.judge("execute_command", json!({ "command": line })))
        .decision
    {
        PolicyDecision::Ask { alternative, .. } => alternative,
        _ => panic!("{line} doesn't ask"),
    };
    let preset = offered("ls && ls src").unwrap();
    let RuleSubject::Preset { preset: name, .. } = &preset else { panic!("{preset:?}") };
    assert_eq!(name, "cargo", "the toolchain's preset, which includes the others");
    assert_eq!(offered("ls -la; touch x"), None);
    assert_eq!(offered("cp src/a.rs b.rs"), None);
    fixture.gate.policy_context.rules.add(RuleVerdict::Allow, preset, "x", 1).unwrap();
    let allowed = "allow autoApprove.execute.presets cargo";
    fixture.expect("execute_command", json!({ "command": "ls && ls src" }), allowed);
    fixture.expect("execute_command", json!({ "command": "touch x" }), "ask command");
}

#[test]
fn what_the_user_refused_for_good_is_refused_whatever_the_settings_say() {
    let fixture = Fixture::with(&[("a.rs", "a")], writing()).saw("a.rs", "a");
    let rules = Arc::clone(&fixture.gate.policy_context.rules);
    rules.add(RuleVerdict::Deny, RuleSubject::Edits, "x", 1).unwrap();
    fixture.expect("write_to_file", write("a.rs"), "deny rules");
    fixture.expect(
        "write_to_file",
        write(".roo/tasks/20260102-03-04-abcdef01/a"),
        "allow own task directory",
    );
    let command = RuleSubject::Commands { commands: vec![vec!["rm".to_owned()]] };
    rules.add(RuleVerdict::Deny, command, "x", 1).unwrap();
    fixture.expect("execute_command", json!({ "command": "sh -c 'rm a'" }), "deny autoApprove.execute.deny");
    fs::write(fixture.directory.path().join("state/rules.json"), "{").unwrap();
    fixture.expect("write_to_file", write("a.rs"), "deny rules");
}

/// Everything may be changed.
struct Everything;

impl roo_sandbox::changes::Scope for Everything {
    fn allowed(&self, _root: usize, _path: &std::path::Path) -> roo_sandbox::changes::Allowed {
        roo_sandbox::changes::Allowed::InScope
    }

    fn keep(&self, _root: usize, _path: &std::path::Path) -> roo_sandbox::changes::Keep {
        roo_sandbox::changes::Keep::Nothing
    }
}

#[tokio::test]
async fn commands_in_different_work_trees_are_recorded_side_by_side() {
    let fixture = Fixture::new(&[("a.txt", "a")]);
    let store = roo_sandbox::changes::Store::open(
        fixture.directory.path().join("kept"),
        roo_sandbox::changes::Limits::default(),
    )
    .unwrap();
    let tree = fixture.directory.path().canonicalize().unwrap().join("tree");
    fs::create_dir(&tree).unwrap();
    let worktree = fixture.gate.in_worktree(Arc::new(fixture.gate.workspace().beside(&tree)));
    let mut recordings = Vec::new();
    for gate in [&fixture.gate, &worktree] {
        let finder = gate.policy_context.bounds.finder(gate.workspace()).await;
        // As when a command there is judged.
        finder.look(gate.workspace(), &[]).unwrap();
        let roots = finder.roots(gate.workspace(), &[]).unwrap();
        recordings.push(finder.index().begin(&roots, &Everything, &store).unwrap());
    }
    fs::write(fixture.root().join("b.txt"), "b").unwrap();
    fs::write(tree.join("c.txt"), "c").unwrap();
    let changed = recordings.iter().map(|recording| {
        let changes = recording.changes(&Everything, &roo_sandbox::exec::sandbox::Journal::default());
        assert_eq!(changes.unknown, None);
        changes.changes.iter().map(|change| change.path.display().to_string()).collect::<Vec<_>>()
    });
    assert_eq!(changed.collect::<Vec<_>>(), [["b.txt"], ["c.txt"]]);
}
