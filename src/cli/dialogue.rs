//! Questions to a person, or to a program that writes answers to standard input.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use super::CliError;
use super::terminal;

/// Asks on standard error and reads lines of standard input.
pub(super) struct Dialogue {
    is_terminal: bool,
}

impl Dialogue {
    pub(super) fn new() -> Self {
        Self { is_terminal: io::stdin().is_terminal() }
    }

    /// Returns whether a person answers, and no program.
    pub(super) fn is_with_person(&self) -> bool {
        self.is_terminal
    }

    /// Tells something.
    pub(super) fn tell(&self, text: impl std::fmt::Display) -> Result<(), CliError> {
        Ok(writeln!(terminal::stderr(), "{text}")?)
    }

    /// The answer to a question, without the space around it.
    ///
    /// # Errors
    /// The end of input.
    pub(super) fn ask(&self, question: &str) -> Result<String, CliError> {
        let mut out = terminal::stderr();
        write!(out, "{question} ")?;
        out.flush()?;
        self.line()
    }

    /// The answer to a question that nobody is to see.
    ///
    /// # Errors
    /// The end of input.
    pub(super) fn ask_secret(&self, question: &str) -> Result<String, CliError> {
        if !self.is_terminal {
            return self.line();
        }
        let answer = rpassword::prompt_password(format!("{question} ")).map_err(CliError::Input)?;
        Ok(answer.trim().to_owned())
    }

    fn line(&self) -> Result<String, CliError> {
        let mut line = String::new();
        match io::stdin().lock().read_line(&mut line).map_err(CliError::Input)? {
            0 => {
                Err(CliError::Other("the input ended before the last answer; nothing was changed".to_owned()))
            }
            _ => Ok(line.trim().to_owned()),
        }
    }
}
