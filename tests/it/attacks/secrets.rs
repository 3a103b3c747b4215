//! Keys and private files, and where they could turn up (SEC).

use std::os::unix::fs::PermissionsExt as _;

use super::*;
use crate::support::client::{Client, Home, Options, eventually};
use crate::support::model_server::{Answer, ModelServer};

const KEY: &str = "sk-test-AAAABBBBCCCCDDDDEEEEFFFF0123456789";

/// The forms in which a key could leak.
fn forms() -> Vec<String> {
    let half = KEY.len() / 2;
    let reversed = |text: &str| text.chars().rev().collect::<String>();
    let base64 = "c2stdGVzdC1BQUFBQkJC";
    vec![
        KEY.to_owned(),
        base64.to_owned(),
        reversed(&KEY[..half]),
        reversed(&KEY[half..]),
        KEY.replace('-', "%2D"),
    ]
}

#[test]
fn a_key_is_nowhere_but_in_the_request() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let echo = format!("wrong key: Authorization: Bearer {KEY}");
    let answers = (0..6).map(|_| Answer::status(401, &[&format!("x-echo: {KEY}")], echo.clone()));
    let mut server = runtime.block_on(ModelServer::start(answers));
    let home = Home::new();
    let settings = json!({ "profiles": { "default": {
        "provider": "openai", "baseUrl": format!("{}/v1", server.url()), "model": "m", "apiKeyEnv": "THE_KEY",
    } } });
    fs::write(home.config_file(), settings.to_string()).unwrap();
    let log = home.path("stderr");
    let output = Command::new(env!("CARGO_BIN_EXE_roo-lsp"))
        .args(["run", "Go"])
        .env("XDG_CONFIG_HOME", home.path("config"))
        .env("XDG_STATE_HOME", home.path("state"))
        .env("ROO_LSP_LOG", "trace")
        .env("THE_KEY", KEY)
        .current_dir(home.path("work"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let request = runtime.block_on(server.request());
    assert!(format!("{request:?}").contains(KEY), "the key goes where it belongs: {request:?}");
    fs::write(&log, [output.stdout, output.stderr].concat()).unwrap();
    assert!(fs::read_to_string(&log).unwrap().contains("401"), "{}", fs::read_to_string(&log).unwrap());
    for form in forms() {
        assert_eq!(holds(&home.path(""), &form), None, "{form}");
    }
}

#[test]
fn the_trace_holds_no_content_of_a_secret_file() {
    let script = "turns:\n  - calls: [{ tool: read_file, params: { path: .env } }]\n  - calls: [{ tool: write_to_file, params: { path: copy.txt, content: \"KEY=hunter2-canary\\n\" } }]\n  - calls: [{ tool: execute_command, params: { command: echo hunter2-canary } }]\n  - calls: [{ tool: attempt_completion, params: { result: Done. } }]\n";
    let home = Home::playing(script);
    fs::write(home.work(".env"), "KEY=hunter2-canary\n").unwrap();
    let mut client = Client::start(&home, Options::typed());
    client.start_task("Copy it");
    for _ in 0..3 {
        let asked = client.event("approval.requested")["event"].clone();
        let answer =
            json!({ "approvalId": asked["approvalId"], "digest": asked["digest"], "optionId": "allow_once" });
        client.request("roo/approval/respond", answer);
    }
    client.state("completed");
    client.shut_down();
    let trace = home.work(".orchestration");
    assert!(holds(&trace, "copy.txt").is_some(), "there is a trace");
    assert_eq!(holds(&trace, "hunter2"), None);
    let workspaces = fs::read_dir(home.path("state/roo-lsp/workspaces")).unwrap();
    for workspace in workspaces.flatten() {
        assert_eq!(holds(&workspace.path().join("trace"), "hunter2"), None);
    }
}

#[test]
fn a_command_sees_no_key_of_the_servers_and_no_process_of_others() {
    let ground = Ground::new();
    let line = "printenv; for d in /proc/[0-9]*; do cat $d/environ $d/cmdline; done 2>&1; cat ~/.netrc; \
                find / -xdev -name config.yaml -path '*roo-lsp*' 2>/dev/null | xargs cat; ls -d /proc/[0-9]* | wc -l";
    ground.write("home/.netrc", "password canary-netrc\n");
    ground.settings("# canary-settings\n");
    let params = json!({ "command": line }).to_string();
    let told = told(
        ground
            .program()
            .args(["tool", "execute_command", "--allow", "--params", &params])
            .envs([
                ("OPENAI_API_KEY", KEY),
                ("AWS_SECRET_ACCESS_KEY", "canary-aws"),
                ("GITHUB_TOKEN", "canary-gh"),
            ])
            .envs([("LD_PRELOAD", "/canary.so"), ("BASH_ENV", "/canary-env"), ("ANTHROPIC_API_KEY", KEY)]),
    );
    assert_eq!(told.verdict, "allow", "{told:?}");
    assert!(told.text.contains("PATH="), "{told:?}");
    for secret in [KEY, "canary"] {
        assert!(!told.text.contains(secret), "{secret}: {told:?}");
    }
}

#[test]
fn nobody_prepares_a_directory_for_the_server() {
    let ground = Ground::new();
    for name in ["tmp", "runtime"] {
        fs::create_dir(ground.at(name)).unwrap();
        fs::set_permissions(ground.at(name), fs::Permissions::from_mode(0o777)).unwrap();
        for planted in ["roo-lsp", "roo-lsp-0", ".roo-lsp"] {
            ground.link(&format!("{name}/{planted}"), "../out");
        }
    }
    let params = json!({ "command": "echo x >$TMPDIR/x; mktemp" }).to_string();
    let told = told(
        ground
            .program()
            .args(["tool", "execute_command", "--allow", "--params", &params])
            .env("TMPDIR", ground.at("tmp"))
            .env("XDG_RUNTIME_DIR", ground.at("runtime")),
    );
    assert_eq!(told.verdict, "allow", "{told:?}");
    ground.assert_clean("prepared directories");
    for name in ["tmp", "runtime"] {
        assert_eq!(fs::read_dir(ground.at(name)).unwrap().count(), 3, "{name}");
    }
}

/// Everything below a directory whose permissions let others in.
fn open_to_others(directory: &Path) -> Vec<String> {
    let mut found = vec![];
    for entry in fs::read_dir(directory).unwrap().flatten() {
        let about = entry.path().symlink_metadata().unwrap();
        let mode = about.permissions().mode();
        if !about.is_symlink() && mode & 0o077 != 0 {
            found.push(format!("{} {:o}", entry.path().display(), mode & 0o7777));
        }
        if about.is_dir() {
            found.extend(open_to_others(&entry.path()));
        }
    }
    found
}

#[test]
fn what_the_server_keeps_is_the_users_alone_whatever_the_umask() {
    // Below /tmp too, which commands see as a directory of their own with the workspace in it.
    for ground in [Ground::new(), Ground::below(Path::new("/tmp"))] {
        keeps_what_others_cannot_read(&ground);
    }
}

fn keeps_what_others_cannot_read(ground: &Ground) {
    let script = "turns:\n  - calls: [{ tool: write_to_file, params: { path: a, content: x } }]\n  - calls: [{ tool: execute_command, params: { command: echo x } }]\n  - calls: [{ tool: attempt_completion, params: { result: Done. } }]\n";
    ground.write("script.yaml", script);
    let profile = format!("{{ provider: scripted, script: {} }}", ground.at("script.yaml").display());
    ground.settings(&format!(
        "profiles: {{ default: {profile} }}\nautoApprove: {{ write: true, execute: {{ allow: [[echo]] }} }}\n"
    ));
    let mut shell = ground.within(Command::new("/bin/sh"));
    let program = env!("CARGO_BIN_EXE_roo-lsp");
    let line = format!("umask 000; '{program}' trust && exec '{program}' run Go");
    let output = shell.args(["-c", &line]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(ground.at("state/roo-lsp/workspaces").is_dir());
    assert_eq!(open_to_others(&ground.at("state")), [""; 0]);
}

/// While a server works with a key, no process shows the key in its arguments, and the server leaves no core.
#[test]
fn a_running_server_shows_no_key_and_leaves_no_core() {
    let script =
        "turns:\n  - calls: [{ tool: execute_command, params: { command: touch started; sleep 1000 } }]\n";
    let home = Home::playing(script);
    let options = Options { environment: vec![("OPENAI_API_KEY", KEY.to_owned())], ..Options::typed() };
    let mut client = Client::start(&home, options);
    client.start_task("Run");
    let asked = client.event("approval.requested")["event"].clone();
    let answer =
        json!({ "approvalId": asked["approvalId"], "digest": asked["digest"], "optionId": "allow_once" });
    client.request("roo/approval/respond", answer);
    eventually("the command", || home.work("started").exists());
    for process in fs::read_dir("/proc").unwrap().flatten() {
        let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&line).contains(KEY), "{process:?}");
    }
    let limits = fs::read_to_string(format!("/proc/{}/limits", client.process())).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert_eq!(core.split_whitespace().skip(4).take(2).collect::<Vec<_>>(), ["0", "0"], "{core}");
    client.shut_down();
}
