//! Every process of a confined command ends with it, however it ends.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::sync::mpsc;

use super::*;
use roo_sandbox::exec::sandbox::{LeftRunning, Limits};

/// A command in the background, whose output can be waited for.
pub(super) struct Background {
    pub task: tokio::task::JoinHandle<Result<(Status, LeftRunning), ExecError>>,
    printed: mpsc::UnboundedReceiver<String>,
    pub cancel: CancellationToken,
}

impl Background {
    pub(super) fn start(fixture: &Fixture, command: Command) -> Self {
        let (sender, printed) = mpsc::unbounded_channel();
        let cancel = CancellationToken::new();
        let (sandbox, confinement, token) = (fixture.sandbox.clone(), fixture.confinement(), cancel.clone());
        let environment = fixture.environment();
        let task = tokio::spawn(async move {
            let print = |text: &str| sender.send(text.to_owned()).unwrap_or_default();
            exec::run_confined(&command, &environment, &sandbox, &confinement, print, &token).await
        });
        Self { task, printed, cancel }
    }

    /// Waits until it has printed a text.
    pub(super) async fn until(&mut self, text: &str) {
        let mut output = String::new();
        while !output.contains(text) {
            let more = tokio::time::timeout(PATIENCE, self.printed.recv()).await.expect("it prints");
            output.push_str(&more.unwrap_or_else(|| panic!("it ended after {output:?}")));
        }
    }
}

/// The processes of the whole machine whose command line has a mark, to be watched.
pub(super) fn marked(mark: &str) -> Vec<(Pid, OwnedFd)> {
    let own = std::process::id();
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| *pid != own)
        .filter(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(mark)
        })
        .filter_map(|pid| {
            let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
            Some((pid, pidfd_open(pid, PidfdFlags::empty()).ok()?))
        })
        .collect()
}

/// Waits for the end of all of these, and says which go on, and how.
pub(super) fn survivors(processes: &[(Pid, OwnedFd)]) -> Vec<String> {
    let until = Instant::now() + PATIENCE;
    let lives = |process: &OwnedFd| {
        let left = until.saturating_duration_since(Instant::now());
        let left =
            Timespec { tv_sec: left.as_secs().try_into().unwrap(), tv_nsec: left.subsec_nanos().into() };
        poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&left)).unwrap() == 0
    };
    processes.iter().filter(|(_, process)| lives(process)).map(|(pid, _)| described(*pid)).collect()
}

/// What a process is and waits for, to be understood from a failed test alone.
fn described(pid: Pid) -> String {
    let of = |name: &str| fs::read_to_string(format!("/proc/{}/{name}", pid.as_raw_nonzero()));
    let status = of("status").unwrap_or_default();
    let kept = ["Name:", "State:", "PPid:", "SigPnd:", "ShdPnd:"];
    let lines = status.lines().filter(|line| kept.iter().any(|start| line.starts_with(start)));
    let facts = lines.collect::<Vec<_>>().join(", ").replace('\t', " ");
    format!("{}: {facts}, in {}", pid.as_raw_nonzero(), of("wchan").unwrap_or_default())
}

/// Trees that try to outlive their command. `MARK` is in the command line of each process.
const TREES: [(&str, &str); 5] = [
    ("double fork", "(sh -c 'echo ready; sleep MARK & sleep MARK' &) & sleep MARK"),
    ("own session", "setsid sh -c 'echo ready; exec sleep MARK' & setsid -f sleep MARK; sleep MARK"),
    (
        "deaf",
        "trap '' TERM INT HUP; sh -c \"trap '' TERM INT HUP; echo ready; sleep MARK; sleep MARK\" & sleep MARK; sleep MARK",
    ),
    (
        "terminal",
        "python3 -c 'import pty; pty.spawn([\"sh\", \"-c\", \"echo ready; exec sleep MARK\"])' & sleep MARK",
    ),
    (
        "daemon",
        "python3 -c 'import os, sys\nif os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)\n\
                print(\"ready\", flush=True)\nos.closerange(0, 64)\nos.execvp(\"sleep\", [\"sleep\", \"MARK\"])'; sleep MARK",
    ),
];

/// Landlock alone gives no terminals: it couldn't keep apart whose they are.
fn without_terminals() -> Vec<(&'static str, &'static str)> {
    TREES.into_iter().filter(|(name, _)| *name != "terminal").collect()
}

/// A number of seconds that no other process sleeps, of no other test either.
pub(super) fn mark() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{}{:03}", 100_000 + std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Waits until no process has the mark any more, and says which go on. What is being started while
/// others are looked at is found the next time.
fn survivors_of(mark: &str) -> Vec<String> {
    let until = Instant::now() + PATIENCE;
    loop {
        let processes = marked(mark);
        if processes.is_empty() || Instant::now() > until {
            return processes.into_iter().map(|(pid, _)| described(pid)).collect();
        }
        survivors(&processes);
    }
}

/// FT-14, DOS-11.
async fn no_process_survives(fixture: Fixture, way: &str, trees: &[(&str, &str)]) {
    futures_util::future::join_all(trees.iter().enumerate().map(|(case, (name, tree))| {
        let fixture = &fixture;
        async move {
            let mark = mark();
            let mut line = tree.replace("MARK", &mark);
            if way == "exit" {
                // Everything goes to the background, and the shell ends when it is told to.
                line = format!("mkfifo go{case}; ({line}) & read x <go{case}; exit 7");
            }
            let timeout = if way == "timeout" { Duration::from_secs(4) } else { PATIENCE };
            let command = Command { timeout: Some(timeout), ..fixture.command(&line) };
            let mut background = Background::start(fixture, command);
            background.until("ready").await;
            let processes = marked(&mark);
            assert!(!processes.is_empty(), "{name}");
            match way {
                "cancel" => background.cancel.cancel(),
                "exit" => fs::write(fixture.at(&format!("ws/go{case}")), "\n").unwrap(),
                _ => {}
            }
            let (status, left) = background.task.await.unwrap().unwrap();
            // Nothing is left when the end is told, not only some time later.
            assert!(marked(&mark).is_empty(), "{name}: {:?}", marked(&mark));
            assert_eq!(survivors(&processes), Vec::<String>::new(), "{name}");
            let expected = match way {
                "cancel" => Status::Cancelled,
                "timeout" => Status::TimedOut,
                _ => Status::Code(7),
            };
            assert_eq!(status, expected, "{name}");
            // What the shell left is told by name; what was ended with it needs no word.
            let is_told = left.names.iter().any(|name| *name == format!("sleep {mark}"));
            assert_eq!((left.count > 0, is_told), (way == "exit", way == "exit"), "{name}: {left:?}");
        }
    }))
    .await;
    assert_no_zombies();
}

/// No child of this process waits to be reaped.
fn assert_no_zombies() {
    for thread in fs::read_dir("/proc/self/task").unwrap().flatten() {
        let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        for child in children.split_whitespace() {
            let stat = fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
            assert!(!stat.contains(") Z "), "{stat}");
        }
    }
}

#[tokio::test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
async fn no_process_survives_its_cancelled_command() {
    no_process_survives(Fixture::new().await, "cancel", &TREES).await;
}

#[tokio::test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
async fn no_process_survives_its_time_limit() {
    no_process_survives(Fixture::new().await, "timeout", &TREES).await;
}

#[tokio::test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
async fn no_process_survives_its_shell() {
    no_process_survives(Fixture::new().await, "exit", &TREES).await;
}

#[tokio::test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
async fn no_process_survives_by_landlock_alone() {
    no_process_survives(Fixture::with_landlock().await, "cancel", &without_terminals()).await;
    no_process_survives(Fixture::with_landlock().await, "exit", &without_terminals()).await;
}

/// What a server to be killed is to run.
const LINE: &str = "ROO_TEST_LINE";

/// Runs the test of this name once more for each tree, as the server of a command, and kills that.
async fn no_process_survives_a_killed_server(name: &str, mechanism: Mechanism, trees: &[(&str, &str)]) {
    use std::io::{BufRead as _, BufReader};
    if let Some(root) = served_fixture() {
        let fixture = Fixture { root, sandbox: Sandbox::with(helper(), mechanism).await, directory: None };
        return fixture.serve(&std::env::var(LINE).unwrap(), &fixture.confinement()).await;
    }
    let fixture = Fixture::with(Sandbox::none("the server finds its own"));
    for (tree, line) in trees {
        let mark = mark();
        let mut server = fixture.server(&format!("sandbox::ends::{name}"));
        let mut server = server.env(LINE, line.replace("MARK", &mark)).spawn().unwrap();
        let mut output = BufReader::new(server.stdout.take().unwrap()).lines();
        assert!(output.any(|line| line.unwrap().contains("ready")), "{tree}");
        let processes = marked(&mark);
        assert!(!processes.is_empty(), "{tree}");
        server.kill().unwrap();
        server.wait().unwrap();
        assert_eq!((survivors(&processes), survivors_of(&mark)), (vec![], vec![]), "{tree}");
    }
}

#[tokio::test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
async fn no_process_survives_its_killed_server() {
    let name = "no_process_survives_its_killed_server";
    no_process_survives_a_killed_server(name, Mechanism::Namespaces, &TREES).await;
}

#[tokio::test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
async fn no_process_survives_its_killed_server_by_landlock_alone() {
    let name = "no_process_survives_its_killed_server_by_landlock_alone";
    no_process_survives_a_killed_server(name, Mechanism::Landlock, &without_terminals()).await;
}

#[tokio::test]
async fn dropping_the_future_ends_the_whole_tree() {
    let fixture = Fixture::new().await;
    let mark = mark();
    let line = format!("trap '' TERM; setsid sh -c 'echo ready; sleep {mark}' & sleep {mark}; sleep {mark}");
    let mut background = Background::start(&fixture, fixture.command(&line));
    background.until("ready").await;
    let processes = marked(&mark);
    background.task.abort();
    assert!(background.task.await.is_err());
    assert_eq!(survivors(&processes), Vec::<String>::new());
}

#[tokio::test]
async fn a_command_may_clean_up_when_it_is_cancelled() {
    let fixture = Fixture::new().await;
    let line = "exec 2>/dev/null; trap 'echo cleaned; touch cleaned; exit' TERM; echo ready; while :; do sleep 0.01; done";
    let mut background = Background::start(&fixture, fixture.command(line));
    background.until("ready").await;
    background.cancel.cancel();
    background.until("cleaned").await;
    assert_eq!(background.task.await.unwrap().unwrap().0, Status::Cancelled);
    assert!(fixture.at("ws/cleaned").exists());
}

/// The kernel would end the first process of a namespace by a signal that its first thread blocks for a moment, as it does
/// while it starts the shell, and another thread takes.
#[tokio::test]
async fn only_the_first_thread_above_a_command_takes_a_request_to_end() {
    const SIGTERM: u64 = 1 << (15 - 1);
    let fixture = Fixture::new().await;
    let mark = mark();
    let mut background =
        Background::start(&fixture, fixture.command(&format!("echo ready; sleep {mark}; :")));
    background.until("ready").await;
    let status_of = |path: &Path, field: &str| {
        let status = fs::read_to_string(path.join("status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
        line.trim().to_owned()
    };
    let parents: Vec<String> = marked(&mark)
        .iter()
        .map(|(pid, _)| status_of(Path::new(&format!("/proc/{}", pid.as_raw_pid())), "PPid:"))
        .collect();
    let processes: Vec<String> = marked(&mark).iter().map(|(pid, _)| pid.as_raw_pid().to_string()).collect();
    let helper = parents.iter().find(|parent| !processes.contains(parent)).unwrap();
    let threads = fs::read_dir(format!("/proc/{helper}/task")).unwrap().map(|thread| thread.unwrap().path());
    let others: Vec<_> = threads.filter(|thread| !thread.ends_with(helper)).collect();
    assert!(!others.is_empty());
    for thread in others {
        let blocked = u64::from_str_radix(&status_of(&thread, "SigBlk:"), 16).unwrap();
        assert_ne!(blocked & SIGTERM, 0, "{blocked:x}");
    }
    background.cancel.cancel();
    assert_eq!(background.task.await.unwrap().unwrap().0, Status::Cancelled);
}

#[tokio::test]
async fn cancelled_before_it_starts_is_cancelled() {
    let fixture = Fixture::new().await;
    let cancel = CancellationToken::new();
    cancel.cancel();
    let command = fixture.command("touch ran; sleep 1000");
    let ended = exec::run_confined(
        &command,
        &fixture.environment(),
        &fixture.sandbox,
        &fixture.confinement(),
        |_| {},
        &cancel,
    )
    .await;
    assert_eq!(ended.unwrap().0, Status::Cancelled);
}

/// FT-15.
#[tokio::test]
async fn commands_that_hang_are_ended_with_what_they_printed() {
    let fixture = Fixture::new().await;
    for (line, output) in [
        ("sleep 1000", ""),
        ("printf 'no newline'; sleep 1000", "no newline"),
        ("printf 'Continue? [y/N] '; exec 1>&- 2>&-; sleep 1000", "Continue? [y/N] "),
        ("exec 1>&- 2>&-; sleep 1000", ""),
    ] {
        let command = Command { timeout: Some(Duration::from_millis(700)), ..fixture.command(line) };
        let confinement = fixture.confinement();
        let found = tokio::time::timeout(PATIENCE, fixture.run(&command, &confinement)).await;
        assert_eq!(found.expect("it ends").unwrap(), (Status::TimedOut, output.to_owned()), "{line}");
    }
    // What waits for input is at its end at once.
    for line in ["cat", "read answer", "python3 -c 'import sys; sys.stdin.read()'", "exec 1>&- 2>&-; exit 3"]
    {
        let (status, _) = fixture.sh(line).await;
        assert!(matches!(status, Status::Code(_)), "{line}: {status:?}");
    }
}

#[tokio::test]
async fn an_end_is_noticed_while_others_hold_the_output_and_leaves_no_one_behind() {
    let fixture = Fixture::new().await;
    // The background process holds the output open.
    let run = fixture.sh("sleep 1000 & seq 1 200; exit 3");
    let (status, output) = tokio::time::timeout(PATIENCE, run).await.expect("it ends");
    assert_eq!((status, output.lines().count()), (Status::Code(3), 200));
}

/// DOS-08.
#[tokio::test]
async fn a_fork_bomb_is_contained_and_ended() {
    let fixture = Fixture::new().await;
    let limits = Limits { processes: 200, ..Limits::default() };
    let confinement = Confinement { limits, ..fixture.confinement() };
    for (line, mark) in
        [(":(){ :|:& };: ", ":(){ :|:& };:"), ("f(){ while true; do f & done; }; f", "f(){ while")]
    {
        let command = Command { timeout: Some(Duration::from_secs(2)), ..fixture.command(line) };
        let running = tokio::spawn({
            let (sandbox, environment, confinement) =
                (fixture.sandbox.clone(), fixture.environment(), confinement.clone());
            async move {
                exec::run_confined(
                    &command,
                    &environment,
                    &sandbox,
                    &confinement,
                    |_| {},
                    &CancellationToken::new(),
                )
                .await
            }
        });
        let (status, _) = running.await.unwrap().unwrap();
        assert!(matches!(status, Status::TimedOut | Status::Code(_)), "{status:?}");
        assert!(survivors(&marked(mark)).is_empty(), "{line}");
        assert!(marked(mark).is_empty(), "{line}");
    }
}

/// DOS-07.
#[tokio::test]
async fn a_flood_of_output_can_be_cancelled() {
    let fixture = Fixture::new().await;
    for line in ["yes flood", "cat /dev/urandom", "while :; do printf 'flood\\r'; done"] {
        let mut background = Background::start(&fixture, fixture.command(line));
        background.printed.recv().await.expect("it prints");
        background.cancel.cancel();
        let ended = tokio::time::timeout(PATIENCE, background.task).await.expect("it ends");
        assert_eq!(ended.unwrap().unwrap().0, Status::Cancelled, "{line}");
    }
}

#[tokio::test]
async fn many_commands_at_once_each_get_their_own_end() {
    let fixture = Fixture::new().await;
    let commands = (0..20).map(|n| {
        let fixture = &fixture;
        async move {
            let found = fixture.sh(&format!("echo {n}; exit {n}")).await;
            assert_eq!(found, (Status::Code(n), format!("{n}\n")));
        }
    });
    futures_util::future::join_all(commands).await;
}

/// What such commands are granted is mounted within a directory that they share.
#[tokio::test]
async fn commands_of_a_workspace_in_a_temporary_directory_begin_at_the_same_time() {
    let fixture = Fixture::new().await;
    let workspace = tempfile::tempdir_in("/tmp").unwrap();
    let root = workspace.path().canonicalize().unwrap();
    for round in 0..10 {
        let folders = ["src", "docs", "tests", "assets"].map(|name| root.join(format!("{round}/{name}")));
        for folder in &folders {
            fs::create_dir_all(folder).unwrap();
        }
        let note = root.join(format!("{round}/note.txt"));
        fs::write(&note, "note").unwrap();
        let confinement = Confinement {
            writable: folders.iter().cloned().chain([note.clone()]).collect(),
            ..fixture.confinement()
        };
        let command = fixture.command(&format!("cat {}", note.display()));
        let commands = (0..8).map(|_| fixture.run(&command, &confinement));
        for found in futures_util::future::join_all(commands).await {
            assert_eq!(found.unwrap(), (Status::Code(0), "note".to_owned()));
        }
    }
}
