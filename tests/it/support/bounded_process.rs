//! Runs of programs that must end: one that hangs is ended and shown, with what each of its threads waits for.

use std::fmt::Write as _;
use std::fs;
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// Less than what the runner of tests waits, and more than any run takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(75);

/// Runs a program to its end.
#[track_caller]
pub fn output_of(command: &mut Command) -> Output {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let process = child.id();
    // Whoever has it keeps the output open, also where the program itself is gone.
    let pipe = child.stdout.as_mut().unwrap().as_fd().try_clone_to_owned().unwrap();
    let pipe = format!("pipe:[{}]", fs::File::from(pipe).metadata().unwrap().ino());
    let (ended, end) = mpsc::channel::<()>();
    let watch = thread::spawn(move || match end.recv_timeout(LIMIT) {
        Err(RecvTimeoutError::Timeout) => Some(end_all(process, &pipe)),
        Ok(()) | Err(RecvTimeoutError::Disconnected) => None,
    });
    let output = child.wait_with_output().unwrap();
    drop(ended);
    if let Some(states) = watch.join().unwrap() {
        panic!("{command:?} didn't end in {LIMIT:?}:\n{states}\n{output:?}");
    }
    output
}

/// Ends a process, and those that hold the pipe, and says what they were waiting for.
fn end_all(process: u32, pipe: &str) -> String {
    let mut states = String::new();
    let own = std::process::id().to_string();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(pid) = name.parse().ok().and_then(Pid::from_raw) else { continue };
        let holds = || {
            let descriptors = fs::read_dir(entry.path().join("fd")).into_iter().flatten().flatten();
            descriptors
                .filter_map(|descriptor| fs::read_link(descriptor.path()).ok())
                .any(|to| to == Path::new(pipe))
        };
        if name == own || (name != process.to_string() && !holds()) {
            continue;
        }
        let of = |path: &Path| fs::read_to_string(path).unwrap_or_default().replace('\0', " ");
        let _ = writeln!(states, "{name}: {}", of(&entry.path().join("cmdline")));
        for thread in fs::read_dir(entry.path().join("task")).into_iter().flatten().flatten() {
            let [comm, wchan, syscall] =
                ["comm", "wchan", "syscall"].map(|file| of(&thread.path().join(file)));
            let _ = writeln!(states, "  {} {} in {}", comm.trim(), wchan.trim(), syscall.trim());
        }
        let _ = kill_process(pid, Signal::KILL);
    }
    states
}

#[test]
fn a_program_that_hangs_is_named_with_what_it_waits_for() {
    let mut child = Command::new("sleep").arg("1000").stdout(Stdio::piped()).spawn().unwrap();
    let pipe = fs::File::from(child.stdout.as_mut().unwrap().as_fd().try_clone_to_owned().unwrap());
    let states = end_all(u32::MAX, &format!("pipe:[{}]", pipe.metadata().unwrap().ino()));
    assert!(states.contains("sleep 1000") && states.contains("  sleep "), "{states}");
    assert!(!child.wait().unwrap().success());
}
