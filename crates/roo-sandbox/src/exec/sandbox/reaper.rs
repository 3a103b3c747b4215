//! Ends: of the shell, of what it leaves, and of everything when the server is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::signal::{SigSet, Signal as BlockedSignal};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, wait};

use super::helper_protocol::{End, LeftRunning, Message};

/// The most processes that are named.
const NAMED: usize = 8;
/// The longest name of a process, in characters.
const NAME: usize = 80;

/// Keeps the requests to end away from this process, also those by keys of its terminal: they are meant for the command,
/// whose helper has to see it end.
pub(super) fn outlive_requests_to_end() -> nix::Result<()> {
    requests_to_end().thread_block()
}

/// Undoes that, in what such a process started: the mask is inherited.
pub(super) fn take_requests_to_end() -> nix::Result<()> {
    requests_to_end().thread_unblock()
}

fn requests_to_end() -> SigSet {
    SigSet::from_iter([
        BlockedSignal::SIGTERM,
        BlockedSignal::SIGINT,
        BlockedSignal::SIGHUP,
        BlockedSignal::SIGQUIT,
    ])
}

/// Waits until the server closes its end of the socket for writing, or is gone. Tells it what still runs; `sees_processes`
/// says whether `/proc` shows this process's own descendants.
fn wait_for_end(control: &UnixStream, sees_processes: bool) {
    // The order is for another process to read, so nothing that may be read wakes this one.
    let mut watched = [PollFd::new(control, PollFlags::RDHUP)];
    while rustix::io::retry_on_intr(|| poll(&mut watched, None)).is_ok_and(|count| count == 0) {}
    if sees_processes {
        // Without a server there is nobody to hear it.
        let _ = Message::Left(left_running()).send(control);
    }
}

/// Ends this process, and with it its process namespace, when the server asks for it or is gone.
pub(super) fn end_with(control: &UnixStream, sees_processes: bool) -> io::Result<()> {
    let control = UnixStream::from(control.as_fd().try_clone_to_owned()?);
    std::thread::Builder::new().stack_size(256 << 10).spawn(move || {
        wait_for_end(&control, sees_processes);
        std::process::exit(1);
    })?;
    Ok(())
}

/// Reaps everything until there is nothing more, and tells when the shell ended.
pub(super) fn reap(shell: &Child, on_end: impl FnOnce(End)) {
    reap_each(shell, on_end, || {});
}

/// Kills everything below this process when the server asks for it or is gone. Gives the mark that this has begun.
pub(super) fn kill_with(control: &UnixStream) -> io::Result<Arc<AtomicBool>> {
    let control = UnixStream::from(control.as_fd().try_clone_to_owned()?);
    let ending = Arc::new(AtomicBool::new(false));
    let mark = Arc::clone(&ending);
    std::thread::Builder::new().stack_size(256 << 10).spawn(move || {
        wait_for_end(&control, true);
        mark.store(true, Ordering::SeqCst);
        kill_descendants();
    })?;
    Ok(ending)
}

/// As [`reap`]. Once the end has begun, whoever comes to this process as an orphan is killed as well.
pub(super) fn reap_watched(shell: &Child, ending: &AtomicBool, on_end: impl FnOnce(End)) {
    let end_what_is_left = || {
        if ending.load(Ordering::SeqCst) {
            kill_descendants();
        }
    };
    // The end may have begun before the shell was started.
    end_what_is_left();
    reap_each(shell, on_end, end_what_is_left);
}

fn reap_each(shell: &Child, on_end: impl FnOnce(End), then: impl Fn()) {
    let shell = i32::try_from(shell.id()).ok().and_then(Pid::from_raw);
    let mut on_end = Some(on_end);
    loop {
        match rustix::io::retry_on_intr(|| wait(WaitOptions::empty())) {
            Ok(Some((pid, status))) => {
                if Some(pid) == shell
                    && let Some(on_end) = on_end.take()
                {
                    on_end(end_of(status));
                }
                then();
            }
            // No children are left.
            Ok(None) | Err(_) => return,
        }
    }
}

fn end_of(status: WaitStatus) -> End {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => End::Code(code),
        (None, Some(signal)) => End::Signal(signal),
        (None, None) => End::Code(1),
    }
}

/// Kills every process below this one, until there is none that it did not know: while it looks, those
/// that are not killed yet start others.
fn kill_descendants() {
    let mut killed = BTreeSet::new();
    loop {
        let known = killed.len();
        for pid in descendants() {
            if killed.insert(pid)
                && let Some(pid) = Pid::from_raw(pid)
            {
                // Gone already is what we want.
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        if killed.len() == known {
            return;
        }
    }
}

/// The processes below this one, those that wait to be reaped among them.
fn descendants() -> Vec<i32> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    for pid in entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok()) {
        if let Some(parent) = parent_of(pid) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    let mut parents = vec![getpid().as_raw_nonzero().get()];
    while let Some(parent) = parents.pop() {
        let below = children.remove(&parent).unwrap_or_default();
        found.extend(&below);
        parents.extend(below);
    }
    found
}

/// The processes below this one that have not ended.
fn left_running() -> LeftRunning {
    let lines: Vec<Vec<u8>> = descendants()
        .into_iter()
        .filter_map(|pid| std::fs::read(format!("/proc/{pid}/cmdline")).ok())
        // One that waits to be reaped has none.
        .filter(|line| !line.is_empty())
        .collect();
    LeftRunning { count: lines.len(), names: lines.iter().take(NAMED).map(|line| name_of(line)).collect() }
}

/// A program with its first argument, without its directory and without the value of an option: more could be a secret.
fn name_of(line: &[u8]) -> String {
    let mut words = line.split(|&byte| byte == 0).map(String::from_utf8_lossy);
    let program = words.next().unwrap_or_default();
    let program = program.rsplit('/').next().unwrap_or_default();
    let argument = words.next().unwrap_or_default();
    let argument = match argument.split_once('=') {
        Some((option, _)) => option,
        None => &argument,
    };
    format!("{program} {argument}").trim_end().chars().take(NAME).collect()
}

/// The parent, by proc_pid_stat(5): the second field after the name, which is in parentheses.
fn parent_of(pid: i32) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_named_by_its_program_and_first_argument() {
        assert_eq!(name_of(b"/usr/bin/node\0server.js\0--port\080\0"), "node server.js");
        assert_eq!(name_of(b"sleep\0"), "sleep");
        assert_eq!(name_of(b"psql\0--password=hunter2\0"), "psql --password");
        assert_eq!(name_of(&[b'x'; 4096]).len(), NAME);
    }
}
