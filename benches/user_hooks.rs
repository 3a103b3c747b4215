//! What hooks cost: asking where there are none, a call that no hook matches, one hook, and twenty at once.

#![allow(clippy::expect_used, reason = "a bench that can't be set up ends")]

use std::fs;

use divan::{Bencher, black_box};
use roo_catalog::{Invocation, ToolCall, parse};
use roo_engine::customization::{Customization, Setup};
use roo_engine::hooks::{HookContext, HookSandbox, HookVerdict, PermissionMode, ToolUse};
use roo_formats::config::Directories;
use roo_protocol::ids::ToolCallId;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

fn main() {
    divan::main();
}

/// A user with these hooks for PreToolUse, in a workspace that brings none.
struct Fixture {
    _directory: TempDir,
    customization: Customization,
    runtime: Runtime,
    call: ToolCall,
    invocation: Invocation,
}

impl Fixture {
    fn new(matcher: &str, commands: &[String]) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let path = |name: &str| directory.path().join(name);
        for name in ["work", "config"] {
            fs::create_dir(path(name)).expect("a directory");
        }
        if !commands.is_empty() {
            let hooks: Vec<Value> =
                commands.iter().map(|line| json!({ "type": "command", "command": line })).collect();
            let file = json!({ "hooks": { "PreToolUse": [{ "matcher": matcher, "hooks": hooks }] } });
            fs::write(path("config/hooks.json"), file.to_string()).expect("a file");
        }
        let directories =
            Directories { config: path("config"), state: path("state"), home: None, settings_file: None };
        let setup = Setup { folders: vec![path("work")], directories, state_directory: path("state/one") };
        let customization = Customization::open(setup).expect("a workspace");
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let params = json!({ "command": "cargo test" }).as_object().cloned().unwrap_or_default();
        let call = ToolCall {
            id: ToolCallId::new("c"),
            name: "execute_command".to_owned(),
            params,
            problem: None,
            note: None,
        };
        let invocation = parse(&call).expect("a call");
        Self { _directory: directory, customization, runtime, call, invocation }
    }

    /// What the gate does for a call.
    fn judge(&self) -> HookVerdict {
        let (unwaited, cancel) = (TaskTracker::new(), CancellationToken::new());
        let scene = HookContext {
            session: "r",
            agent: None,
            transcript: None,
            permission_mode: PermissionMode::Default,
            environment_file: None,
            sandbox: &HookSandbox::Off,
            folders: &[],
            unwaited: &unwaited,
            cancel: &cancel,
        };
        let tool = ToolUse {
            call: &self.call,
            invocation: Some(&self.invocation),
            server_tool: None,
            real_path: &|_| None,
        };
        let hooks = self.customization.user_hooks();
        self.runtime.block_on(hooks.pre_tool(&tool, &scene))
    }
}

#[divan::bench]
fn no_hooks(bencher: Bencher) {
    let fixture = Fixture::new("", &[]);
    bencher.bench_local(|| black_box(fixture.judge()));
}

#[divan::bench]
fn no_hook_that_matches(bencher: Bencher) {
    let commands: Vec<String> = (0..50).map(|n| format!("guard {n}")).collect();
    let fixture = Fixture::new("mcp__.*", &commands);
    bencher.bench_local(|| black_box(fixture.judge()));
}

#[divan::bench(sample_count = 50)]
fn one_hook(bencher: Bencher) {
    let fixture = Fixture::new("Bash", &["exit 0".to_owned()]);
    bencher.bench_local(|| black_box(fixture.judge()));
}

#[divan::bench(sample_count = 20)]
fn twenty_hooks_at_once(bencher: Bencher) {
    let commands: Vec<String> = (0..20).map(|n| format!("exit 0 # {n}")).collect();
    let fixture = Fixture::new("Bash", &commands);
    bencher.bench_local(|| black_box(fixture.judge()));
}
