//! What the log and the gate cost: an append, an append that is durable, opening and folding a log of
//! ten thousand events, and one decision of a call.

use std::collections::BTreeMap;
use std::sync::Arc;

use divan::{Bencher, black_box};
use roo_catalog::{ToolCall, ToolProtocol};
use roo_durable::reserve::Reserve;
use roo_durable::{Record, RequestDirectory, RequestLog, WorkspaceDirectory};
use roo_engine::approvals::StandingRules;
use roo_engine::customization::{Customization, Setup as CustomizationSetup};
use roo_engine::engine::event::Event;
use roo_engine::engine::task::Task;
use roo_engine::intent_store::Orchestration;
use roo_engine::policy::{
    AllowRule, Bounds, Gate, NamedAllowRule, Offers, PolicyContext, Recorder, ToolCallContext,
};
use roo_formats::config::{AutoApprove, Directories, Limits, SandboxLevel, Settings};
use roo_formats::modes::Modes;
use roo_model::providers::{Finish, ToolResult};
use roo_protocol::event::ToolStatus;
use roo_protocol::ids::{MessageId, TaskId, ToolCallId, Urid};
use roo_protocol::message::{Message, MessageKind, Say};
use roo_protocol::task::Usage;
use roo_sandbox::exec::sandbox::Helper;
use roo_text::position::Encoding;
use roo_workspace::{Documents, Setup, Workspace};
use serde_json::json;
use tempfile::TempDir;

const EVENTS: u64 = 10_000;
const URID: &str = "20260102-03-04-0a1b2c3d";

fn main() {
    divan::main();
}

fn task() -> TaskId {
    TaskId::new("0198c0de-0000-7000-8000-000000000000")
}

fn record(seq: u64, event: Event) -> Record<Event> {
    Record { seq, at: 1_700_000_000_000, task_id: task(), event }
}

fn call(n: u64) -> ToolCall {
    let params = json!({ "path": format!("src/file_{n}.rs") });
    let params = params.as_object().cloned().unwrap_or_default();
    ToolCall {
        id: ToolCallId::new(format!("c{n}")),
        name: "read_file".into(),
        params,
        problem: None,
        note: None,
    }
}

fn message(id: u64, text: String) -> Message {
    Message { id: MessageId::new(format!("m{id}")), kind: MessageKind::Say(Say::Text), text, images: vec![] }
}

/// The events of a task that reads one file a turn, with what a turn of that kind writes.
fn events() -> Vec<Record<Event>> {
    let created = Event::Created {
        parent: None,
        urid: Urid::new(URID),
        mode: "code".into(),
        profile: "default".into(),
        protocol: ToolProtocol::Native,
        title: "A task".into(),
        limits: Limits::default(),
        emoji: "💻".into(),
        gather: false,
        unread: vec![],
        pinned: false,
        intent: None,
        within: vec![],
        worktree: false,
    };
    let said = Event::UserSaid {
        message: message(1, "Go.".into()),
        text: "Go.".into(),
        mentions: false,
        hooks: false,
    };
    let mut records = vec![record(1, created), record(2, said)];
    for turn in 1..=EVENTS / 6 {
        let call = call(turn);
        let call_id = call.id.clone();
        let result = ToolResult {
            call_id: call_id.clone(),
            name: call.name.clone(),
            subject: "src/lib.rs".into(),
            status: ToolStatus::Ok,
            text: "    let value = list[n] < limit;\n".repeat(8),
            images: vec![],
        };
        let shown = message(turn + 1, "{\"tool\":\"readFile\",\"path\":\"src/lib.rs\"}".into());
        let events = [
            Event::TurnStarted { request: u32::try_from(turn).unwrap_or(u32::MAX) },
            Event::Called { message: shown, call },
            Event::TurnEnded {
                finish: Finish::Done,
                total: Usage::default(),
                context: None,
                tail: None,
                beginning: None,
            },
            Event::GateDecided {
                call_id: call_id.clone(),
                verdict: AllowRule::from(NamedAllowRule::Read).into(),
                reason: "the user's settings allow it without asking".into(),
                detail: None,
            },
            Event::ToolStarted {
                call_id,
                name: "read_file".into(),
                subject: "src/lib.rs".into(),
                write: None,
            },
            Event::ToolFinished {
                summary: "Read src/lib.rs".into(),
                result,
                seen: vec![],
                mistake: false,
                ends: None,
                saves: None,
                withheld: None,
                recorded: vec![],
                exit_code: None,
                circle: None,
            },
        ];
        let first = records.len() as u64 + 1;
        records.extend((first..).zip(events).map(|(seq, event)| record(seq, event)));
    }
    records
}

/// A log in a directory of its own.
fn log() -> Option<(TempDir, RequestDirectory, RequestLog)> {
    let root = tempfile::tempdir().ok()?;
    let directory = WorkspaceDirectory::new(root.path(), root.path()).request(&task());
    let log = RequestLog::create(directory.clone()).ok()?;
    Some((root, directory, log))
}

/// A record of some 400 bytes.
fn small(seq: u64) -> Record<Event> {
    record(seq, Event::Spoke { message: message(seq, "some words ".repeat(25)) })
}

fn appends(bencher: Bencher, synced: bool) {
    let Some((_root, _, mut log)) = log() else { return };
    bencher.bench_local(|| {
        let appended = log.append(&[small(log.last_seq() + 1)]);
        let durable = !synced || log.sync_handle()().map(|synced| log.synced(&synced)).is_ok();
        appended.is_ok() && durable
    });
}

#[divan::bench]
fn append(bencher: Bencher) {
    appends(bencher, false);
}

#[divan::bench(sample_count = 200, sample_size = 1)]
fn append_and_sync(bencher: Bencher) {
    appends(bencher, true);
}

#[divan::bench(sample_count = 20, sample_size = 1)]
fn open_ten_thousand_events(bencher: Bencher) {
    let Some((_root, directory, mut log)) = log() else { return };
    if log.append(&events()).is_err() {
        return;
    }
    drop(log);
    bencher
        .bench_local(|| RequestLog::open::<Event>(directory.clone()).map(|(_, loaded)| loaded.records.len()));
}

#[divan::bench(sample_count = 20, sample_size = 1)]
fn fold_ten_thousand_events(bencher: Bencher) {
    let records = events();
    bencher.bench_local(|| {
        let mut state = Task::created(task(), &records[0].event, 1, 0);
        for record in &records[1..] {
            if let Some(state) = &mut state {
                state.apply(&record.event, record.seq, record.at);
            }
        }
        state
    });
}

/// A read, a new file and a command, each allowed by the settings.
#[divan::bench(args = ["read_file", "write_to_file", "execute_command"])]
fn judge(bencher: Bencher, tool: &str) {
    let Some((gate, _root)) = gate() else { return };
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
    let params = match tool {
        "read_file" => json!({ "path": "src/lib.rs" }),
        "write_to_file" => json!({ "path": "src/new.rs", "content": "let a = 1;\n".repeat(100) }),
        _ => json!({ "command": "cargo test --lib" }),
    };
    let params = params.as_object().cloned().unwrap_or_default();
    let call = ToolCall { id: ToolCallId::new("c"), name: tool.into(), params, problem: None, note: None };
    let (urid, seen) = (Urid::new(URID), BTreeMap::new());
    let modes = Modes::built_in();
    let Ok(mode) = modes.find("code") else { return };
    let tools = roo_formats::config::ToolChoice::all();
    let subject = ToolCallContext {
        mode,
        modes: &modes,
        profile: None,
        tools: &tools,
        is_branch: false,
        opens_parallel_branches: false,
        merge: None,
        delegations: 0,
        urid: &urid,
        seen: &seen,
        approved: None,
        review: None,
        intent: None,
        within: &[],
        hooks: None,
        offers: Offers::default(),
        commands: None,
        browser: None,
    };
    bencher.bench_local(|| runtime.block_on(gate.judge(black_box(&call), subject)));
}

fn gate() -> Option<(Gate, TempDir)> {
    let root = tempfile::tempdir().ok()?;
    let folder = root.path().canonicalize().ok()?;
    std::fs::create_dir_all(folder.join("work/src")).ok()?;
    std::fs::create_dir_all(folder.join("state")).ok()?;
    std::fs::write(folder.join("work/.rooignore"), "secret/\n*.key\n").ok()?;
    std::fs::write(folder.join("work/src/lib.rs"), "let a = 1;\n".repeat(100)).ok()?;
    let workspace = Workspace::open(Setup {
        folders: vec![folder.join("work")],
        state_directory: folder.join("state"),
        documents: Arc::new(Documents::default()),
        editor: None,
        encoding: Encoding::Utf8,
    });
    let settings = json!({ "write": true, "execute": { "allow": [["cargo", "test"]] } });
    let auto_approve: AutoApprove = serde_json::from_value(settings).ok()?;
    let mut settings = Settings { auto_approve, ..Settings::default() };
    settings.sandbox.level = SandboxLevel::Off;
    let settings = Arc::new(settings);
    let customization = Customization::open(CustomizationSetup {
        folders: vec![folder.join("work")],
        directories: Directories {
            config: folder.join("config"),
            state: folder.join("state"),
            home: None,
            settings_file: None,
        },
        state_directory: folder.join("state"),
    });
    let workspace = Arc::new(workspace.ok()?);
    let orchestration = Arc::new(Orchestration::new(Arc::clone(&workspace), &folder.join("state")));
    let customization = Arc::new(customization.ok()?);
    let rules = Arc::new(StandingRules::new(&folder.join("state"), None));
    let directories = Directories {
        config: folder.join("config"),
        state: folder.join("state"),
        home: None,
        settings_file: None,
    };
    let bounds = Arc::new(Bounds::new(Helper::own(), directories, folder.join("state")));
    let recorder = Arc::new(Recorder::new(
        folder.join("state"),
        None,
        Arc::clone(&orchestration),
        Reserve::new(&folder.join("state")),
    ));
    let server_tools = Arc::new(roo_engine::server_tools::NoServerTools);
    let grounds = PolicyContext {
        workspace,
        settings,
        customization,
        orchestration,
        rules,
        bounds,
        recorder,
        server_tools,
        language_servers: Arc::new(roo_language_servers::LanguageServers::none()),
        code_index: Arc::new(roo_index::CodeIndex::none()),
        models: Arc::new(roo_model::providers::ConfiguredModels),
        is_worktree: false,
    };
    Some((Gate::new(grounds), root))
}
