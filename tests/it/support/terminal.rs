//! The program on a terminal of its own.

use std::fs;
use std::io::{Read as _, Write as _};
use std::process::Command;

use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// Which streams are the terminal, besides standard input and standard error.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// What the caller has set up.
    Own,
    /// The terminal as well.
    Terminal,
}

/// Runs a program to its end; what is typed once the words are shown. Its exit code and all that the terminal was
/// sent. What it writes to a standard output of its own is left for the caller, who gets the child.
pub fn on_a_terminal(
    command: Command,
    output: Output,
    words: &str,
    typed: &str,
) -> (std::process::Child, String) {
    let mut typed = Some(typed.to_owned());
    answering(command, output, |shown| if shown.contains(words) { typed.take() } else { None })
}

/// The same, with what a function types, which is called with all that is shown whenever there is more.
pub fn answering(
    mut command: Command,
    output: Output,
    mut answer: impl FnMut(&str) -> Option<String>,
) -> (std::process::Child, String) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let slave =
        open(ptsname(&master, vec![]).unwrap(), OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
    if output == Output::Terminal {
        command.stdout(slave.try_clone().unwrap());
    }
    command.stdin(slave.try_clone().unwrap()).stderr(slave);
    let program = command.spawn().unwrap();
    // This process's copies of the terminal's other side.
    drop(command);
    let mut master = fs::File::from(master);
    let (mut shown, mut buffer) = (Vec::new(), [0; 4096]);
    // A terminal that nobody else holds any more ends with an error.
    while let Ok(read) = master
        .read(&mut buffer)
        .and_then(|read| if read > 0 { Ok(read) } else { Err(std::io::ErrorKind::UnexpectedEof.into()) })
    {
        shown.extend_from_slice(&buffer[..read]);
        if let Some(typed) = answer(&String::from_utf8_lossy(&shown)) {
            master.write_all(typed.as_bytes()).unwrap();
        }
    }
    (program, String::from_utf8(shown).unwrap().replace("\r\n", "\n"))
}
