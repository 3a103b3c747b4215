//! Real processes. Tests wait for the end of a process, never for time.

use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::net::unix::pipe;
use tokio::time::Instant;

use super::*;

/// Nothing here takes longer, however busy the machine.
const PATIENCE: Duration = Duration::from_secs(20);

fn job(line: &str) -> Job {
    Job {
        program: Program::Line(line.to_owned()),
        directory: std::env::temp_dir(),
        variables: vec![],
        input: b"{}\n".to_vec(),
        timeout: PATIENCE,
    }
}

async fn run_in_time(job: Job) -> FinishedHook {
    let (environment, cancel) = (Environment::inherited(), CancellationToken::new());
    timeout(PATIENCE, run(job, &environment, &cancel)).await.expect("it ends")
}

async fn sh(line: &str) -> (HookEnd, String, String) {
    let ended = run_in_time(job(line)).await;
    (ended.ending, ended.stdout.text(), ended.stderr.text())
}

/// A process that may or may not be ours: its pidfd, which becomes readable when it ends.
struct Process(pipe::Receiver);

impl Process {
    fn open(pid: &str) -> Option<Self> {
        let pid = Pid::from_raw(pid.trim().parse().ok()?)?;
        let descriptor: OwnedFd = pidfd_open(pid, PidfdFlags::empty()).ok()?;
        Some(Self(pipe::Receiver::from_owned_fd_unchecked(descriptor).expect("a descriptor")))
    }

    async fn has_ended(&self) {
        timeout(PATIENCE, self.0.readable()).await.expect("it ends").expect("a descriptor");
    }
}

/// A process that outlives its test would be a leak.
impl Drop for Process {
    fn drop(&mut self) {
        let _ = pidfd_send_signal(&self.0, Signal::KILL);
    }
}

#[tokio::test]
async fn both_streams_and_the_end_are_told_apart() {
    let (ending, stdout, stderr) = sh("cat; echo out; echo err >&2; exit 3").await;
    assert_eq!((ending, stdout.as_str(), stderr.as_str()), (HookEnd::Code(3), "{}\nout\n", "err\n"));
    assert_eq!(sh("kill -9 $$").await.0, HookEnd::Signal(9));
    assert_eq!(sh("no-such-program-anywhere").await.0, HookEnd::Code(127));
    // What scripts of users are written in.
    assert_eq!(sh("[[ a == a* ]] && echo ${BASH_VERSION:+bash}").await.1, "bash\n");
}

#[tokio::test]
async fn a_program_runs_without_a_shell() {
    let direct = |program: &str, arguments: &[&str]| Job {
        program: Program::Direct {
            program: program.to_owned(),
            arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
        },
        directory: "/".into(),
        ..job("")
    };
    let ended =
        run_in_time(direct("printf", &["%s|", "a b", "$HOME", "${CLAUDE_PROJECT_DIR}x", "`id`"])).await;
    assert_eq!(ended.stdout.text(), "a b|$HOME|/x|`id`|");
    let ended = run_in_time(direct("no-such-program-anywhere", &[])).await;
    assert!(matches!(ended.ending, HookEnd::Failed(why) if why.contains("there is no program")));
    // Nothing of the directory takes the place of a program.
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("cat"), "#!/bin/sh\necho trap\n").unwrap();
    let job = Job { directory: directory.path().to_owned(), ..direct("cat", &[]) };
    assert_eq!(run_in_time(job).await.stdout.text(), "{}\n");
}

#[tokio::test]
async fn the_environment_is_named_variables_and_the_project() {
    let variables = vec![("CLAUDE_PROJECT_DIR", OsString::from("/p"))];
    let from = [("PATH", ".:/usr/bin:/bin"), ("HOME", "/h"), ("API_KEY", "secret"), ("BASH_ENV", "/trap")];
    let environment = Environment::chosen(from.map(|(name, value)| (name.into(), value.into())));
    let job = Job { variables, ..job("env") };
    let ended = run(job, &environment, &CancellationToken::new()).await;
    let text = ended.stdout.text();
    assert!(text.contains("CLAUDE_PROJECT_DIR=/p\n") && text.contains("PATH=/usr/bin:/bin\n"), "{text}");
    assert!(!text.contains("secret") && !text.contains("BASH_ENV"), "{text}");
}

#[tokio::test]
async fn a_large_event_does_not_hold_a_hook_that_does_not_read_it() {
    let input = vec![b'x'; 1 << 20];
    for line in [
        "exec 0<&-; echo done",
        "echo done",
        "head -c 10 >/dev/null; echo done",
        "wc -c >/dev/null; echo done",
    ] {
        let ended = run_in_time(Job { input: input.clone(), ..job(line) }).await;
        assert_eq!((ended.ending, ended.stdout.text().as_str()), (HookEnd::Code(0), "done\n"), "{line}");
    }
    // It answers while it reads, so that both pipes are full.
    let ended = run_in_time(Job { input, ..job("tee /dev/stderr") }).await;
    assert_eq!((ended.stdout.bytes.len(), ended.stderr.bytes.len()), (1 << 20, 1 << 20));
    assert!(!ended.stdout.cut);
}

#[tokio::test]
async fn a_flood_is_kept_within_bounds() {
    let ended = run_in_time(job("head -c 20000000 /dev/zero; head -c 20000000 /dev/zero >&2; exit 5")).await;
    assert_eq!(ended.ending, HookEnd::Code(5));
    for printed in [&ended.stdout, &ended.stderr] {
        assert_eq!((printed.bytes.len(), printed.cut), (OUTPUT_LIMIT, true));
    }
    let ended = run_in_time(Job { timeout: Duration::from_millis(100), ..job("yes") }).await;
    assert_eq!(ended.ending, HookEnd::TimedOut);
}

#[tokio::test]
async fn a_hook_that_ignores_the_request_to_end_is_killed_with_its_tree() {
    let directory = tempfile::tempdir().unwrap();
    let fifo = directory.path().join("f");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    // Itself, a child, and one that was left to itself by the one that started it.
    let line = format!(
        "trap '' TERM; sleep 1000 & a=$!; b=$(sleep 1000 >/dev/null & echo $!); printf '%s\\n' $$ $a $b >{}; \
         sleep 1000",
        fifo.display()
    );
    let (cancel, environment) = (CancellationToken::new(), Environment::inherited());
    let token = cancel.clone();
    let running = tokio::spawn(async move { run(job(&line), &environment, &token).await });
    let pids = tokio::task::spawn_blocking(move || std::fs::read_to_string(fifo).unwrap()).await.unwrap();
    let processes: Vec<Process> = pids.lines().filter_map(Process::open).collect();
    assert_eq!(processes.len(), 3, "{pids}");
    let asked = Instant::now();
    cancel.cancel();
    let ended = timeout(PATIENCE, running).await.expect("it ends").unwrap();
    assert_eq!(ended.ending, HookEnd::Cancelled);
    assert!(asked.elapsed() >= GRACE, "it was asked first");
    for process in &processes {
        process.has_ended().await;
    }
}

#[tokio::test]
async fn a_hook_whose_time_is_over_may_clean_up_and_says_nothing_more() {
    let line = "trap 'echo late; exit 0' TERM; while :; do sleep 0.01; done";
    let ended = run_in_time(Job { timeout: Duration::from_millis(200), ..job(line) }).await;
    assert_eq!(ended.ending, HookEnd::TimedOut);
}

#[tokio::test]
async fn what_a_hook_leaves_behind_holds_nothing_up() {
    // In its own group, so killed.
    let (ending, stdout, _) = sh("sleep 1000 & echo $!; exit 2").await;
    assert_eq!(ending, HookEnd::Code(2));
    if let Some(process) = Process::open(&stdout) {
        process.has_ended().await;
    }
    // One that makes a session of its own outlives it, and still nobody waits for its end of the pipes.
    let directory = tempfile::tempdir().unwrap();
    let fifo = directory.path().join("f");
    let line = format!(
        "mkfifo {0}; setsid sh -c 'echo $$ >{0}; exec sleep 1000' & read pid <{0}; echo $pid; exit 2",
        fifo.display()
    );
    let (ending, stdout, _) = sh(&line).await;
    let _escaped = Process::open(&stdout).expect("it outlives the hook");
    assert_eq!(ending, HookEnd::Code(2));
}

#[tokio::test]
async fn cancelling_ends_a_hook_and_dropping_it_too() {
    let cancel = CancellationToken::new();
    let environment = Environment::inherited();
    let running = run(job("sleep 1000"), &environment, &cancel);
    cancel.cancel();
    assert_eq!(timeout(PATIENCE, running).await.expect("it ends").ending, HookEnd::Cancelled);

    let directory = tempfile::tempdir().unwrap();
    let fifo = directory.path().join("f");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let line = format!("trap '' TERM; echo $$ >{}; sleep 1000", fifo.display());
    let task = tokio::spawn(async move { run_in_time(job(&line)).await });
    let pid = tokio::task::spawn_blocking(move || std::fs::read_to_string(fifo).unwrap()).await.unwrap();
    let process = Process::open(&pid).expect("it runs");
    task.abort();
    process.has_ended().await;
}

#[tokio::test]
async fn what_can_not_start_says_why() {
    let job = Job { directory: "/no/such/place".into(), ..job("true") };
    assert!(matches!(run_in_time(job).await.ending, HookEnd::Failed(_)));
}

#[test]
fn a_run_can_move_between_threads() {
    fn is_send(_: impl Send) {}
    let (environment, cancel) = (Environment::inherited(), CancellationToken::new());
    is_send(run(job("true"), &environment, &cancel));
}
