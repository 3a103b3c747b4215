//! Servers that are programs.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use roo_mcp::{CallOptions, Content, Hub, HubServices, PlainLauncher};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde_json::json;
use tokio::net::unix::pipe;

use crate::support::*;

const SERVER: &str = env!("CARGO_BIN_EXE_fake-mcp-server");

fn hub(fault: &str) -> Hub {
    let environment = BTreeMap::from([("PATH", "PATH"), ("VISIBLE", "1")].map(|(name, value)| {
        let value = if name == "PATH" { std::env::var_os("PATH").unwrap() } else { value.into() };
        (OsString::from(name), value)
    }));
    let launcher = Arc::new(PlainLauncher::new(environment, std::env::temp_dir()));
    let hub = Hub::new(HubServices::new(launcher, identity()));
    hub.configure(vec![running(stdio("s", SERVER, &[fault]))]);
    hub
}

async fn call(hub: &Hub, tool: &str) -> Result<String, String> {
    let result = hub.call_tool("s", tool, arguments(json!({ "text": "hi" })), &CallOptions::default()).await;
    match result.map_err(|error| error.to_string())?.parts.as_slice() {
        [Content::Text(text)] => Ok(text.clone()),
        other => Err(format!("{other:?}")),
    }
}

#[tokio::test]
async fn a_program_is_started_called_and_ended() {
    let hub = hub("");
    connected(&hub, "s").await;
    assert_eq!(call(&hub, "echo").await, Ok("hi".to_owned()));
    // Its variables are those that it was given, and no others.
    let variables = call(&hub, "variables").await.unwrap();
    let names: Vec<&str> = variables.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    assert_eq!(names, ["PATH", "VISIBLE"]);
    hub.shutdown().await;
    assert!(call(&hub, "echo").await.is_err());
}

/// Waits until a process is gone.
async fn gone(pid: &str) {
    let pid = Pid::from_raw(pid.parse().unwrap()).unwrap();
    let process = match pidfd_open(pid, PidfdFlags::empty()) {
        Err(Errno::SRCH) => return,
        // The pipe type waits until any descriptor is readable.
        opened => pipe::Receiver::from_owned_fd_unchecked(opened.unwrap()).unwrap(),
    };
    // A process that nobody waits for is a zombie, which does nothing any more.
    let ended = tokio::time::timeout(Duration::from_secs(30), process.readable()).await;
    ended.unwrap_or_else(|_| panic!("process {pid:?} is still there")).unwrap();
}

#[tokio::test]
async fn nothing_that_a_program_started_outlives_it() {
    for fault in ["", "stubborn"] {
        let hub = hub(fault);
        connected(&hub, "s").await;
        let child = call(&hub, "child").await.unwrap();
        hub.shutdown().await;
        gone(&child).await;
    }
    // Also when the program ends by itself, and when the hub is dropped.
    let dying = hub("");
    connected(&dying, "s").await;
    let child = call(&dying, "child").await.unwrap();
    let error = call(&dying, "die").await.unwrap_err();
    assert!(
        error.contains("its effects are unknown") || error.contains("Its effects are unknown"),
        "{error}"
    );
    gone(&child).await;
    let (fault, _) = failed(&dying, "s").await;
    assert_eq!(fault, "its program ended (exit code 7)");

    let dropped = hub("");
    connected(&dropped, "s").await;
    let child = call(&dropped, "child").await.unwrap();
    drop(dropped);
    gone(&child).await;
}

#[tokio::test]
async fn programs_that_misbehave_are_named_with_the_reason() {
    for (fault, expected) in [
        ("crash", "its program ended (exit code 3): `no database`"),
        (
            "garbage",
            "its standard output has something other than MCP messages, such as `Listening on port 3000",
        ),
    ] {
        let hub = hub(fault);
        let (shown, _) = failed(&hub, "s").await;
        assert!(shown.starts_with(expected), "{fault}: {shown}");
        hub.shutdown().await;
    }
    let silent = hub("silent");
    assert!(!silent.settled(Duration::from_millis(300)).await);
    silent.shutdown().await;
    for fault in ["banner", "stderr"] {
        let hub = hub(fault);
        connected(&hub, "s").await;
        assert_eq!(call(&hub, "echo").await, Ok("hi".to_owned()), "{fault}");
        assert!(hub.log("s").unwrap().lines().len() <= 500);
    }
}

#[tokio::test]
async fn an_answer_of_100_mb_costs_a_bounded_amount_of_memory() {
    let hub = hub("");
    connected(&hub, "s").await;
    let error = call(&hub, "large").await.unwrap_err();
    assert!(error.contains("more than 16 MiB"), "{error}");
    assert_eq!(call(&hub, "echo").await, Ok("hi".to_owned()));
    if let Ok(status) = std::fs::read_to_string("/proc/self/status") {
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
        assert!(peak < 200 << 10, "{peak} KiB");
    }
}
