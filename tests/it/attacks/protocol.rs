//! Damaged and forged messages (NET), and ids that pose as paths (PATH-15).

use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

use rustix::io::ioctl_fionread;

use super::*;
use crate::support::client::{Client, Home, Options, eventually};

#[test]
fn no_port_is_opened() {
    let home =
        Home::playing("turns:\n  - calls: [{ tool: attempt_completion, params: { result: Done. } }]\n");
    // A network of its own, in which there are no sockets but the server's.
    let options = Options { launcher: &["unshare", "--map-root-user", "--net"], ..Options::typed() };
    let mut client = Client::start(&home, options);
    client.start_task("Go");
    client.state("completed");
    for table in ["tcp", "tcp6", "udp", "udp6"] {
        let text = fs::read_to_string(format!("/proc/{}/net/{table}", client.process())).unwrap();
        assert_eq!(text.lines().skip(1).collect::<Vec<_>>(), [""; 0], "{table}");
    }
    client.shut_down();
}

/// Returns whether no thread of a process has anything to do.
fn is_idle(process: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let mut states = threads.filter_map(|thread| {
        let stat = fs::read_to_string(thread.path().join("stat")).ok()?;
        stat.rsplit_once(") ")?.1.chars().next()
    });
    states.all(|state| state == 'S')
}

/// Sends bytes to a fresh server and hangs up; what it answered, and how much memory it took at most, in KiB.
fn send(home: &Home, bytes: &[u8]) -> (String, u64) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_roo-lsp"))
        .arg("serve")
        .env("XDG_CONFIG_HOME", home.path("config"))
        .env("XDG_STATE_HOME", home.path("state"))
        .current_dir(home.path("work"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    // It may have ended before it has read all.
    let _ = input.write_all(bytes);
    let _ = input.flush();
    let mut output = child.stdout.take().unwrap();
    eventually("it has worked on all of it", || {
        let has_read_all = ioctl_fionread(&input).is_ok_and(|unread| unread == 0);
        // Looked at again, as one thread may have woken another meanwhile.
        let is_idle = has_read_all && is_idle(child.id()) && is_idle(child.id());
        is_idle || child.try_wait().unwrap().is_some()
    });
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
    let most = peak.map_or(0, |peak| peak.trim().parse().unwrap());
    drop(input);
    let begin = Instant::now();
    let mut text = Vec::new();
    output.read_to_end(&mut text).unwrap();
    child.wait().unwrap();
    assert!(begin.elapsed() < Duration::from_secs(10), "it lingers: {:?}", begin.elapsed());
    (String::from_utf8_lossy(&text).into_owned(), most)
}

#[test]
fn damaged_frames_are_refused_and_nothing_of_them_is_dispatched() {
    let home = Home::new();
    let initialize =
        json!({ "jsonrpc": "2.0", "id": 7, "method": "initialize", "params": { "capabilities": {} } });
    let body = initialize.to_string();
    let plain = format!("Content-Length: {}\r\n\r\n{body}", body.len());
    let (answered, least) = send(&home, plain.as_bytes());
    assert!(answered.contains("\"id\":7") && answered.contains("\"result\""), "{answered}");
    for frame in [
        format!("Content-Length: -1\r\n\r\n{body}"),
        format!("Content-Length: 99999999999\r\n\r\n{body}"),
        format!("Content-Length: 99999999999999999999999999\r\n\r\n{body}"),
        format!("Content-Length: {}\r\n\r\n{body}", body.len() + 10),
        format!("Content-Length: 2\r\nContent-Length: {}\r\n\r\n{body}", body.len()),
        format!("Content-Length: {}\r\nContent-Length: 2\r\n\r\n{body}", body.len()),
        format!("X-Long: {}\r\n\r\n{body}", "x".repeat(64 << 10)),
        "x".repeat(1 << 20),
    ] {
        let (answered, most) = send(&home, frame.as_bytes());
        let name = &frame[..frame.len().min(60)];
        assert!(!answered.contains("\"capabilities\""), "{name}: dispatched: {answered}");
        assert!(most < least + (64 << 10), "{name}: {most} KiB after {least} KiB");
    }
    // Line feeds alone are read or refused, whole or not at all.
    let (answered, _) = send(&home, format!("Content-Length: {}\n\n{body}", body.len()).as_bytes());
    assert!(answered.is_empty() || answered.contains("\"jsonrpc\""), "{answered}");
}

#[test]
fn forged_messages_are_answered_by_the_specification() {
    let script = "turns:\n  - calls: [{ tool: execute_command, params: { command: touch ran } }]\n";
    let home = Home::playing(script);
    let mut client = Client::start(&home, Options::typed());
    let task = client.start_task("Run");
    client.event("approval.requested");
    let frame = |value: Value| {
        let body = value.to_string();
        format!("Content-Length: {}\r\n\r\n{body}", body.len())
    };
    for message in [
        json!([{ "jsonrpc": "2.0", "id": "forged", "method": "shutdown" }]),
        json!({ "jsonrpc": "2.0", "id": { "a": 1 }, "method": "shutdown" }),
        json!({ "jsonrpc": "2.0", "id": 1.5, "method": "shutdown" }),
        json!({ "jsonrpc": "2.0", "method": "shutdown" }),
        json!({ "jsonrpc": "2.0", "method": "initialize", "params": { "capabilities": {} } }),
        json!({ "jsonrpc": "1.0", "id": "forged", "method": 7 }),
        json!({ "jsonrpc": "2.0", "method": "roo/task/cancel", "params": { "taskId": task } }),
        json!({ "jsonrpc": "2.0", "id": "forged", "result": { "title": "Allow" } }),
        json!({ "jsonrpc": "2.0", "method": "$/cancelRequest", "params": { "id": "of-another-client" } }),
        json!({ "jsonrpc": "2.0", "method": "$/cancelRequest", "params": { "id": [1] } }),
    ] {
        client.write_raw(frame(message.clone()).as_bytes());
        let again = client.request("roo/task/get", json!({ "taskId": task }));
        assert_eq!(again["state"], "waiting", "{message}: {again}");
    }
    assert!(!home.work("ran").exists());
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn ids_are_never_paths() {
    let home =
        Home::playing("turns:\n  - calls: [{ tool: attempt_completion, params: { result: Done. } }]\n");
    let victim = home.path("state/victim");
    fs::create_dir_all(&victim).unwrap();
    fs::write(victim.join("log.jsonl"), "kept\n").unwrap();
    let mut client = Client::start(&home, Options::typed());
    for id in [
        "../../victim",
        "../../../../victim",
        "/etc",
        "",
        ".",
        "..",
        "a\u{0}b",
        "--upload-pack=touch CANARY",
        "x/../y",
    ] {
        for (method, params) in [
            ("roo/task/get", json!({ "taskId": id })),
            ("roo/task/attach", json!({ "taskId": id, "afterSeq": 0 })),
            ("roo/task/resume", json!({ "taskId": id })),
            ("roo/task/cancel", json!({ "taskId": id })),
            ("roo/task/delete", json!({ "taskId": id })),
            ("roo/task/start", json!({ "prompt": "Go", "mode": id })),
        ] {
            if method.ends_with("start") && id.is_empty() {
                continue;
            }
            let ask = client.ask(method, params);
            let answer = client.answer(ask);
            assert!(answer.get("error").is_some(), "{method} {id:?}: {answer}");
        }
    }
    client.shut_down();
    assert_eq!(fs::read_to_string(victim.join("log.jsonl")).unwrap(), "kept\n");
    for arguments in
        [["tasks", "export", "../../victim"], ["tasks", "resume", "../../victim"], ["modes", "show", "../x"]]
    {
        let ended = Command::new(env!("CARGO_BIN_EXE_roo-lsp"))
            .args(arguments)
            .env("XDG_CONFIG_HOME", home.path("config"))
            .env("XDG_STATE_HOME", home.path("state"))
            .current_dir(home.path("work"))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(!ended.status.success(), "{arguments:?}: {ended:?}");
        assert!(!String::from_utf8_lossy(&ended.stdout).contains("kept"), "{ended:?}");
    }
}
