//! Real processes. Tests wait for what a command prints or for the end of a process, never for time.

use std::future::Future;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::*;
use crate::exec::{Collector, Terminal};

/// Nothing here takes longer, however busy the machine.
const PATIENCE: Duration = Duration::from_secs(20);

fn command(line: &str) -> Command {
    Command { line: line.to_owned(), directory: std::env::temp_dir(), timeout: None, handle: None }
}

async fn run_in_time(
    command: &Command,
    on_output: impl FnMut(&str),
    cancel: &CancellationToken,
) -> Result<Status, ExecError> {
    let environment = Environment::inherited();
    timeout(PATIENCE, run(command, &environment, on_output, cancel)).await.expect("it ends")
}

/// Runs a command to its end.
async fn sh(line: &str) -> (Status, String) {
    let mut output = String::new();
    let exit = run_in_time(&command(line), |text| output.push_str(text), &CancellationToken::new()).await;
    (exit.expect("it starts"), output)
}

async fn check(line: &str, status: Status, output: &str) {
    assert_eq!(sh(line).await, (status, output.to_owned()), "{line}");
}

/// A command in the background, whose output can be waited for.
struct BackgroundCommand {
    task: tokio::task::JoinHandle<Status>,
    printed: mpsc::UnboundedReceiver<String>,
    output: String,
    cancel: CancellationToken,
}

impl BackgroundCommand {
    fn start(line: &str) -> Self {
        let (sender, printed) = mpsc::unbounded_channel();
        let cancel = CancellationToken::new();
        let (command, token) = (command(line), cancel.clone());
        let task = tokio::spawn(async move {
            let report = |text: &str| sender.send(text.to_owned()).unwrap_or_default();
            run_in_time(&command, report, &token).await.expect("it starts")
        });
        Self { task, printed, output: String::new(), cancel }
    }

    /// Waits for a whole line and gives it.
    async fn line(&mut self) -> String {
        loop {
            if let Some((line, rest)) = self.output.split_once('\n') {
                let line = line.to_owned();
                self.output = rest.to_owned();
                return line;
            }
            let more = timeout(PATIENCE, self.printed.recv()).await.expect("it prints");
            self.output.push_str(&more.expect("it goes on"));
        }
    }

    /// Waits for a line with a process id, and watches that process.
    async fn process(&mut self) -> Process {
        Process::open(&self.line().await)
    }

    async fn cancel(self) -> (Status, Duration) {
        let asked = Instant::now();
        self.cancel.cancel();
        (self.task.await.expect("it ends"), asked.elapsed())
    }
}

/// Keeps a paused clock from going on by itself, until this is dropped: the runtime is never idle. What ends meanwhile has waited
/// for no timer.
fn no_time_passes() -> std::sync::mpsc::Sender<()> {
    let (held, dropped) = std::sync::mpsc::channel();
    tokio::task::spawn_blocking(move || dropped.recv());
    held
}

/// A process that may or may not be ours: its pidfd, which becomes readable when it ends. That is all
/// that the pipe type is used for.
struct Process(pipe::Receiver);

impl Process {
    fn open(pid: &str) -> Self {
        let pid = Pid::from_raw(pid.trim().parse().expect("a process id")).expect("a process id");
        let descriptor = pidfd_open(pid, PidfdFlags::empty()).expect("it is not reaped");
        Self(pipe::Receiver::from_owned_fd_unchecked(descriptor).expect("a descriptor"))
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

fn is_send(future: impl Future + Send) -> impl Future + Send {
    future
}

#[tokio::test]
async fn exit_codes_and_signals_are_told() {
    check("true", Status::Code(0), "").await;
    check("exit 42", Status::Code(42), "").await;
    check("kill -9 $$", Status::Signal(9), "").await;
    check("no-such-program-anywhere 2>/dev/null", Status::Code(127), "").await;
}

#[tokio::test]
async fn both_streams_arrive_in_the_order_of_printing() {
    let line = "echo one; echo two >&2; echo three; echo four >&2; printf five";
    check(line, Status::Code(0), "one\ntwo\nthree\nfour\nfive").await;
}

#[tokio::test]
async fn output_arrives_while_the_command_runs() {
    let mut running = BackgroundCommand::start("echo ready; exec sleep 1000");
    assert_eq!(running.line().await, "ready");
    assert!(!running.task.is_finished());
    assert_eq!(running.cancel().await.0, Status::Cancelled);
}

#[tokio::test]
async fn output_that_is_not_text_is_made_text() {
    check(r"printf 'a\377\342\202\254\342'", Status::Code(0), "a\u{fffd}€\u{fffd}").await;
}

#[tokio::test]
async fn standard_input_is_at_its_end() {
    check("cat; read line || echo end", Status::Code(0), "end\n").await;
}

#[tokio::test]
async fn there_is_no_terminal() {
    check("if (: </dev/tty) 2>/dev/null; then echo terminal; else echo none; fi", Status::Code(0), "none\n")
        .await;
}

#[tokio::test]
async fn a_command_that_closes_its_output_is_waited_for() {
    check("exec >&- 2>&-; sleep 0.1; exit 3", Status::Code(3), "").await;
}

#[tokio::test]
async fn it_runs_in_its_directory_with_its_environment_only() {
    let directory = tempfile::tempdir().expect("a directory");
    let directory = directory.path().canonicalize().expect("a path");
    let from = [("HOME", "/home/ada"), ("API_KEY", "secret"), ("PATH", "/usr/bin:/bin")];
    let environment = Environment::chosen(from.map(|(name, value)| (name.into(), value.into())));
    let mut output = String::new();
    let command = Command {
        line: "pwd; echo \"$HOME $TERM [$API_KEY]\"".to_owned(),
        directory: directory.clone(),
        timeout: None,
        handle: None,
    };
    run(&command, &environment, |text| output.push_str(text), &CancellationToken::new())
        .await
        .expect("it starts");
    assert_eq!(output, format!("{}\n/home/ada dumb []\n", directory.display()));
}

#[tokio::test]
async fn what_can_not_start_says_why() {
    let missing = Command { directory: "/no/such/directory".into(), ..command("true") };
    let error = run_in_time(&missing, |_| {}, &CancellationToken::new()).await.expect_err("no directory");
    assert!(matches!(&error, ExecError::Directory(_)) && error.to_string().contains("/no/such/directory"));
    let error = run_in_time(&command("ls\0; true"), |_| {}, &CancellationToken::new()).await;
    assert!(matches!(error, Err(ExecError::Nul)));
    let long = "x".repeat(4 << 20);
    let error = run_in_time(&command(&long), |_| {}, &CancellationToken::new()).await;
    assert!(matches!(error, Err(ExecError::Start { .. })));
}

#[tokio::test]
async fn a_time_limit_ends_the_whole_tree_and_keeps_the_output() {
    let mut output = String::new();
    let limited = Command {
        timeout: Some(Duration::from_millis(300)),
        ..command("sleep 1000 & echo $!; sh -c 'echo $$; sleep 1000' & wait")
    };
    let mut processes = Vec::new();
    let begun = Instant::now();
    let exit = run_in_time(
        &limited,
        |text| {
            output.push_str(text);
            processes.extend(text.lines().map(Process::open));
        },
        &CancellationToken::new(),
    )
    .await
    .expect("it starts");
    assert_eq!(exit, Status::TimedOut);
    assert!(begun.elapsed() >= Duration::from_millis(300));
    assert_eq!(processes.len(), 2, "{output}");
    for process in &processes {
        process.has_ended().await;
    }
}

#[tokio::test]
async fn a_time_limit_beyond_all_time_is_none() {
    let command = Command { timeout: Some(Duration::MAX), ..command("echo done") };
    let exit = run_in_time(&command, |_| {}, &CancellationToken::new()).await.expect("it starts");
    assert_eq!(exit, Status::Code(0));
}

#[tokio::test(start_paused = true)]
async fn cancelling_ends_the_whole_tree_without_the_grace_period() {
    let _no_time = no_time_passes();
    let mut running = BackgroundCommand::start("sleep 1000 & echo $!; sleep 1000");
    let process = running.process().await;
    assert_eq!(running.cancel().await.0, Status::Cancelled);
    process.has_ended().await;
}

#[tokio::test(start_paused = true)]
async fn a_command_may_clean_up_when_it_is_cancelled() {
    let _no_time = no_time_passes();
    let mut running = BackgroundCommand::start(
        "exec 2>/dev/null; trap 'echo cleaned; exit' TERM; echo ready; while :; do sleep 0.01; done",
    );
    assert_eq!(running.line().await, "ready");
    running.cancel.cancel();
    assert_eq!(running.line().await, "cleaned");
    assert_eq!(running.cancel().await.0, Status::Cancelled);
}

#[tokio::test]
async fn a_command_that_ignores_the_request_to_end_is_killed() {
    let mut running = BackgroundCommand::start("trap '' TERM; echo $$; sleep 1000; sleep 1000");
    let process = running.process().await;
    let (exit, took) = running.cancel().await;
    assert_eq!(exit, Status::Cancelled);
    assert!(took >= GRACE, "it took {took:?}");
    process.has_ended().await;
}

#[tokio::test]
async fn cancelling_a_flood_works() {
    let mut running = BackgroundCommand::start("yes flood");
    assert_eq!(running.line().await, "flood");
    assert_eq!(running.cancel().await.0, Status::Cancelled);
}

#[tokio::test]
async fn cancelled_before_it_starts_is_cancelled_and_does_not_start() {
    let cancel = CancellationToken::new();
    cancel.cancel();
    let mut command = command("sleep 1000");
    // To start it there would fail.
    command.directory = "/nowhere".into();
    let exit = run_in_time(&command, |_| {}, &cancel).await;
    assert!(matches!(exit, Ok(Status::Cancelled)), "{exit:?}");
}

#[tokio::test]
async fn what_the_shell_leaves_behind_is_killed() {
    let mut running = BackgroundCommand::start("sleep 1000 & echo $!; exit 7");
    let process = running.process().await;
    let exit = running.task.await.expect("it ends");
    assert_eq!(exit, Status::Code(7));
    process.has_ended().await;
}

#[tokio::test]
async fn a_process_that_left_the_group_does_not_hold_the_result() {
    let fifo = "d=$(mktemp -d) && mkfifo $d/f";
    let escape =
        "setsid sh -c 'echo $$; echo > '$d'/f; exec sleep 1000' & read started < $d/f; rm -r $d; exit 7";
    let mut running = BackgroundCommand::start(&format!("{fifo}; {escape}"));
    let _escaped = running.process().await;
    let exit = running.task.await.expect("it ends");
    assert_eq!(exit, Status::Code(7));
}

#[tokio::test]
async fn dropping_the_future_kills_the_whole_tree() {
    let mut running = BackgroundCommand::start("trap '' TERM; echo $$; sleep 1000 & echo $!; wait");
    let (shell, child) = (running.process().await, running.process().await);
    running.task.abort();
    shell.has_ended().await;
    child.has_ended().await;
}

#[tokio::test]
async fn a_burst_before_the_end_arrives_whole() {
    let expected: String = (1..=20_000).map(|n| format!("{n}\n")).collect();
    check("seq 1 20000", Status::Code(0), &expected).await;
}

#[tokio::test]
async fn fifty_megabytes_keep_their_ends_in_bounded_memory() {
    let mut collector = Collector::default();
    let exit =
        run_in_time(&command("seq 1 6500000"), |text| collector.push(text), &CancellationToken::new()).await;
    assert_eq!(exit.expect("it starts"), Status::Code(0));
    let output = collector.finish();
    let overflow = output.overflow.expect("it is long");
    assert_eq!(overflow.bytes, 50_888_896);
    assert!(overflow.text.len() <= 16 * 1024 * 1024 + 100);
    assert!(output.preview.len() <= 10 * 1024 + 100);
    for text in [&output.preview, &overflow.text] {
        assert!(text.starts_with("1\n2\n3\n") && text.ends_with("\n6499999\n6500000\n"));
    }
}

#[tokio::test]
async fn many_commands_at_once_each_get_their_own_end() {
    let commands = (0..20).map(|n| async move {
        check(&format!("echo {n}; exit {n}"), Status::Code(n), &format!("{n}\n")).await
    });
    futures_util::future::join_all(commands).await;
}

#[tokio::test]
async fn a_hostile_repository_starts_nothing_when_git_looks_at_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let command = |line: &str| Command {
        line: line.to_owned(),
        directory: directory.path().to_owned(),
        timeout: None,
        handle: None,
    };
    let prepare = "git init -q . && git config core.fsmonitor 'touch CANARY; false'";
    let line = "git status && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x && git checkout -q -b y";
    for line in [prepare, line] {
        let exit = run_in_time(&command(line), |_| {}, &CancellationToken::new()).await.expect("it starts");
        assert_eq!(exit, Status::Code(0), "{line}");
    }
    assert!(!directory.path().join("CANARY").exists());
}

#[test]
fn a_run_can_move_between_threads() {
    let (command, environment, cancel) =
        (command("true"), Environment::inherited(), CancellationToken::new());
    drop(is_send(run(&command, &environment, |_| {}, &cancel)));
}

/// A command in a terminal, and what is typed there.
fn in_terminal(line: &str) -> (Command, Arc<CommandHandle>) {
    let handle = Arc::new(CommandHandle::new(Some(Terminal::open().expect("a terminal"))));
    (Command { handle: Some(Arc::clone(&handle)), ..command(line) }, handle)
}

/// Types each text when the command has printed the one before it.
async fn converse(line: &str, talk: &[(&str, &[u8])]) -> (Status, String) {
    let (command, handle) = in_terminal(line);
    let (sender, mut printed) = mpsc::unbounded_channel();
    let task = tokio::spawn(async move {
        let report = |text: &str| sender.send(text.to_owned()).unwrap_or_default();
        run_in_time(&command, report, &CancellationToken::new()).await.expect("it starts")
    });
    let mut output = String::new();
    for (awaited, typed) in talk {
        while !output.contains(awaited) {
            let more = timeout(PATIENCE, printed.recv()).await.expect("it prints");
            output.push_str(
                &more.unwrap_or_else(|| panic!("it ended before it printed {awaited:?}: {output}")),
            );
        }
        let terminal = handle.terminal.as_ref().expect("it has one");
        terminal.send(typed).await.expect("it reads");
    }
    let status = task.await.expect("it ends");
    while let Ok(more) = printed.try_recv() {
        output.push_str(&more);
    }
    (status, output)
}

#[tokio::test]
async fn a_command_in_a_terminal_reads_what_is_typed_there() {
    let line =
        "test -t 0 && test -t 1 && test -t 2 && exec 3</dev/tty && echo name? && read x && echo \"<$x>\"";
    let (status, output) = converse(line, &[("name?", b"ada\n")]).await;
    assert_eq!((status, output.as_str()), (Status::Code(0), "name?\nada\n<ada>\n"));
}

#[tokio::test]
async fn keys_of_a_terminal_interrupt_and_end_the_input() {
    let (status, _) = converse("echo ready; sleep 1000", &[("ready", b"\x03")]).await;
    assert_eq!(status, Status::Signal(2));
    let (status, output) = converse("echo ready; cat; echo over", &[("ready", b"\x04")]).await;
    assert_eq!((status, output.as_str()), (Status::Code(0), "ready\nover\n"));
}

#[tokio::test]
async fn the_last_output_of_a_terminal_is_not_lost() {
    let (_, output) = converse("seq 1 5000", &[]).await;
    assert!(output.ends_with("\n4999\n5000\n") && output.lines().count() == 5000, "{}", output.len());
}

#[tokio::test]
async fn what_nobody_reads_is_typed_in_vain() {
    let (command, handle) = in_terminal("stty raw; echo ready; sleep 1000");
    let cancel = CancellationToken::new();
    let token = cancel.clone();
    let (sender, mut printed) = mpsc::unbounded_channel();
    let task = tokio::spawn(async move {
        run_in_time(&command, |text: &str| sender.send(text.to_owned()).unwrap_or_default(), &token).await
    });
    timeout(PATIENCE, printed.recv()).await.expect("it prints");
    let terminal = handle.terminal.as_ref().expect("it has one");
    let error = terminal.send(&[b'x'; 1 << 20]).await.expect_err("nobody reads it");
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    cancel.cancel();
    assert_eq!(task.await.expect("it ends").expect("it started"), Status::Cancelled);
}
