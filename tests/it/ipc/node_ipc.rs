//! The library by which Roo Code's own client connects: node-ipc, as that client uses it.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::{DONE, Server, playing};

/// Connects, starts a task when it is welcomed, and prints each event's name until the task is complete.
const PROGRAM: &str = r#"
const ipc = require(process.argv[2]).default;
ipc.config.silent = true;
ipc.connectTo("roo", process.argv[3], () => {
    ipc.of.roo.on("message", (message) => {
        if (message.type === "Ack") {
            const data = { commandName: "StartNewTask", data: { configuration: {}, text: "Do\nit.\f" } };
            const command = { type: "TaskCommand", origin: "client", clientId: message.data.clientId, data };
            ipc.of.roo.emit("message", command);
        } else {
            console.log(JSON.stringify(message.data));
            if (message.data.eventName === "taskIdle") process.exit(0);
        }
    });
});
"#;

/// A program below the directory into which `scripts/test` installs the library.
fn installed(program: &str) -> PathBuf {
    let path = crate::support::package().join("target/ipc-clients/node_modules").join(program);
    assert!(path.exists(), "{} is missing: ./scripts/test installs it", path.display());
    path
}

#[test]
#[ignore = "needs Node.js and node-ipc; ./scripts/test runs it"]
fn node_ipc_drives_a_task_to_its_end() {
    let project = playing(DONE);
    let program = project.beside("client.cjs");
    std::fs::write(&program, PROGRAM).unwrap();
    let server = Server::start(&project, &[]);
    let output = Command::new("node")
        .arg(&program)
        .arg(installed("node-ipc"))
        .arg(&server.socket)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let told = String::from_utf8(output.stdout).unwrap();
    let events: Vec<Value> = told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let prompt =
        &events.iter().find(|event| event["eventName"] == "message").unwrap()["payload"][0]["message"];
    assert_eq!((&prompt["say"], &prompt["text"]), (&json!("text"), &json!("Do\nit.\u{c}")));
    for name in ["taskCreated", "taskStarted", "taskFocused", "taskTokenUsageUpdated", "taskCompleted"] {
        assert!(events.iter().any(|event| event["eventName"] == name), "{name}: {told}");
    }
}
