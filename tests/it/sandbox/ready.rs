//! Helpers that are started ahead of the command that they are for.

use std::io::{BufRead as _, BufReader};

use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use tokio::sync::oneshot;

use super::ends::survivors;
use super::*;
use crate::support::client::eventually;

/// The helpers that this process has started and that have not ended, in the order of their numbers.
fn helpers() -> Vec<i32> {
    let mut found = Vec::new();
    for thread in fs::read_dir("/proc/self/task").unwrap().flatten() {
        let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        found.extend(children.split_whitespace().map(|pid| pid.parse::<i32>().unwrap()).filter(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains("sandbox-helper")
        }));
    }
    found.sort_unstable();
    found
}

/// Whether this process runs one test alone, so that all helpers are the test's. Otherwise it is run here in one that does.
fn is_alone(test: &str) -> bool {
    const ALONE: &str = "ROO_TEST_ALONE";
    // cargo-nextest gives every test a process.
    if ["NEXTEST", ALONE, TEST_ROOT].iter().any(|name| std::env::var_os(name).is_some()) {
        return true;
    }
    let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
    let name = format!("sandbox::ready::{test}");
    let output = alone.args(["--exact", &name, "--nocapture"]).env(ALONE, "1").output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    assert!(printed.contains("1 passed"), "{name} is not there: {printed}");
    false
}

/// Waits for the one helper that waits for a command, when none runs.
fn waiting() -> i32 {
    let mut found = Vec::new();
    eventually("a helper to wait", || {
        found = helpers();
        found.len() == 1
    });
    found[0]
}

#[tokio::test(flavor = "multi_thread")]
async fn one_helper_waits_and_the_next_command_gets_it() {
    if !is_alone("one_helper_waits_and_the_next_command_gets_it") {
        return;
    }
    let fixture = Fixture::new().await;
    assert!(helpers().is_empty(), "before there was a command nothing waits");
    fixture.check("echo first", "first").await;
    let first = waiting();
    // One that has only begun is left for the command behind the next.
    let mut commands = 0;
    while waiting() == first {
        fixture.check("echo second; echo error >&2", "second\nerror").await;
        commands += 1;
        assert!(commands < 20, "it ends with its command");
    }
    fixture.check("echo \"$HOME\"", fixture.at("home").to_str().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_has_its_own_bounds_in_a_helper_that_waited() {
    if !is_alone("a_command_has_its_own_bounds_in_a_helper_that_waited") {
        return;
    }
    let fixture = Fixture::new().await;
    fixture.check("true", "").await;
    waiting();
    // Neither was there when the helper was started.
    fs::create_dir(fixture.at("later")).unwrap();
    let confinement = Confinement { writable: vec![fixture.at("later")], ..fixture.confinement() };
    let command =
        Command { directory: fixture.at("later"), ..fixture.command("echo x >x; echo x >../ws/x; pwd") };
    let (status, output) = fixture.run(&command, &confinement).await.unwrap();
    assert!(output.ends_with("later\n") && output.contains("ws/x"), "{status:?}: {output}");
    assert!(fixture.at("later/x").exists() && !fixture.at("ws/x").exists());
    let environment = Environment::chosen([("HOME".into(), "/else".into())]);
    let mut output = String::new();
    let print = |text: &str| output.push_str(text);
    waiting();
    let (command, cancel) = (fixture.command("echo \"$HOME\""), CancellationToken::new());
    exec::run_confined(&command, &environment, &fixture.sandbox, &confinement, print, &cancel).await.unwrap();
    assert_eq!(output, "/else\n");
    // The network is of another kind.
    waiting();
    let (_, output) = fixture.sh_with_network("grep -c : /proc/net/dev").await;
    assert_ne!(output, "1\n");
    fixture.check("grep -c : /proc/net/dev", "1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_sees_what_was_mounted_while_its_helper_waited() {
    const MOUNTS: &str = "ROO_TEST_MOUNTS";
    let test = "sandbox::ready::a_command_sees_what_was_mounted_while_its_helper_waited";
    if std::env::var_os(MOUNTS).is_none() {
        // In mounts of its own, in which it may mount.
        let mut own = std::process::Command::new("unshare");
        own.args(["--map-root-user", "--mount"]).arg(std::env::current_exe().unwrap());
        own.args(["--exact", test, "--nocapture", "--include-ignored"]).env(MOUNTS, "own");
        let output = own.output().expect("unshare of util-linux");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    let fixture = Fixture::new().await;
    fs::create_dir(fixture.at("ws/disk")).unwrap();
    fixture.check("ls disk", "").await;
    waiting();
    rustix::mount::mount("tmpfs", fixture.at("ws/disk"), "tmpfs", rustix::mount::MountFlags::empty(), c"")
        .unwrap();
    fs::write(fixture.at("ws/disk/file"), "").unwrap();
    fixture.check("ls disk", "file").await;
    waiting();
    rustix::mount::unmount(fixture.at("ws/disk"), rustix::mount::UnmountFlags::empty())
        .expect("nobody holds it");
    fixture.check("ls disk", "").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_helper_that_was_killed_while_it_waited_is_replaced() {
    if !is_alone("a_helper_that_was_killed_while_it_waited_is_replaced") {
        return;
    }
    let fixture = Fixture::new().await;
    fixture.check("true", "").await;
    let outer = waiting();
    let mut inner = String::new();
    eventually("its second process", || {
        inner = fs::read_to_string(format!("/proc/{outer}/task/{outer}/children")).unwrap();
        !inner.is_empty()
    });
    kill_process(Pid::from_raw(inner.trim().parse().unwrap()).unwrap(), Signal::KILL).unwrap();
    // Its socket is closed once it is a zombie.
    eventually("both to end", || {
        let status = fs::read_to_string(format!("/proc/{outer}/stat")).unwrap_or_default();
        status.rsplit(") ").next().is_none_or(|rest| rest.is_empty() || rest.starts_with('Z'))
    });
    fixture.check("echo runs", "runs").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn helpers_that_wait_end_with_their_sandbox() {
    if !is_alone("helpers_that_wait_end_with_their_sandbox") {
        return;
    }
    let fixture = Fixture::new().await;
    fixture.check("true", "").await;
    waiting();
    drop(fixture);
    eventually("it to end", || helpers().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::print_stdout, reason = "the test is another process of its own, and reads it")]
async fn a_helper_that_waits_ends_with_a_killed_server() {
    let name = "sandbox::ready::a_helper_that_waits_ends_with_a_killed_server";
    if let Some(root) = served_fixture() {
        let fixture = Fixture { root, sandbox: Sandbox::find(helper()).await, directory: None };
        fixture.serve("true", &fixture.confinement()).await;
        println!("\nwaits {}", waiting());
        let (_kept, never) = oneshot::channel::<()>();
        let _ = never.await;
        return;
    }
    let fixture = Fixture::with(Sandbox::none("the server finds its own"));
    let mut server = fixture.server(name).spawn().unwrap();
    let mut output = BufReader::new(server.stdout.take().unwrap()).lines().map(Result::unwrap);
    let waits = output.find_map(|line| line.strip_prefix("waits ")?.parse::<i32>().ok()).unwrap();
    let pid = Pid::from_raw(waits).unwrap();
    let process = pidfd_open(pid, PidfdFlags::empty()).unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    assert_eq!(survivors(&[(pid, process)]), Vec::<String>::new());
}

/// The network of a process, by its number.
fn network_of(process: &str) -> String {
    fs::read_link(format!("/proc/{process}/ns/net")).unwrap().to_string_lossy().into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_helper_waits_in_a_network_only_while_further_commands_may_join_it() {
    if !is_alone("a_helper_waits_in_a_network_only_while_further_commands_may_join_it") {
        return;
    }
    let fixture = Fixture::new().await;
    let network = || fixture.sandbox.private_network(&[]).unwrap();
    let network = tokio::task::block_in_place(network);
    let joining = |network| Confinement { loopback: Some(network), ..fixture.confinement() };
    let command = fixture.command("readlink /proc/self/ns/net");
    let (_, own) = fixture.run(&command, &joining(network.clone())).await.unwrap();
    fixture.check("true", "").await;
    let waits = waiting();
    assert_ne!(network_of(&waits.to_string()), own.trim(), "no other command joins that network");

    let shared = network.shared();
    fixture.run(&command, &joining(shared.clone())).await.unwrap();
    eventually("a helper to wait there too", || {
        helpers().iter().any(|pid| network_of(&pid.to_string()) == own.trim())
    });
    drop(shared);
    // The next helper that waits takes its place.
    fixture.check("true", "").await;
    eventually("it to end", || helpers().iter().all(|pid| network_of(&pid.to_string()) != own.trim()));
}
