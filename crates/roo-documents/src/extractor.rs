//! A process that reads a document: how it is started, and what it does.

use std::io::{self, Read as _, Write as _};
use std::path::PathBuf;
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use roo_process::{ProcessEnd, run_with_input};
use tokio::process::Command;
use tokio::time::timeout;

use crate::bounds::bound_process;
use crate::{DocumentKind, ExtractError, TEXT, UNKNOWN_TO_READER, extract};

/// First argument of the process.
const ROLE: &str = "__extract-text";

/// Time limit for its answer, on a machine that has more to do.
const ANSWER: Duration = Duration::from_secs(60);

/// The longest reason of a failure, in bytes.
const REASON: usize = 1000;

/// Exit code of a process that says on standard error why there is no text.
const UNREADABLE: u8 = 3;

/// Exit code of a process that could not be bounded, and says on standard error why.
const UNBOUNDED: u8 = 4;

/// Reads documents in a process of its own, or in this one.
#[derive(Clone, Debug)]
pub struct Extractor {
    /// The program; none for this process.
    program: Option<PathBuf>,
}

impl Extractor {
    /// Reads them by this program, whose `main` has to call [`enter`].
    pub fn own() -> Self {
        // Even when its file has been replaced since it started.
        #[cfg(target_os = "linux")]
        let program = "/proc/self/exe".into();
        #[cfg(not(target_os = "linux"))]
        let program = std::env::current_exe().unwrap_or_default();
        Self { program: Some(program) }
    }

    /// Reads them by the program at a path, which has to call [`enter`].
    pub fn at(program: impl Into<PathBuf>) -> Self {
        Self { program: Some(program.into()) }
    }

    /// Reads them in this process, without limits. For tests.
    pub fn in_process() -> Self {
        Self { program: None }
    }

    /// Returns the text of a document. The process ends when this is dropped.
    ///
    /// # Errors
    /// [`ExtractError`], for the model.
    pub async fn text(&self, kind: DocumentKind, bytes: &[u8]) -> Result<String, ExtractError> {
        let Some(program) = &self.program else { return extract(kind, bytes) };
        let mut command = Command::new(program);
        command.args([ROLE, kind.extension()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.env_clear();
        let limit = u64::try_from(TEXT).unwrap_or(u64::MAX).saturating_add(1 << 10);
        let run = timeout(ANSWER, run_with_input(command, bytes, limit));
        let output = match run.await {
            Err(_) => return Err(ExtractError::TooMuch(kind)),
            Ok(Err(error)) => return Err(ExtractError::NotStarted { kind, reason: error.to_string() }),
            Ok(Ok(output)) => output,
        };
        match output.end {
            ProcessEnd::Code(0) => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            ProcessEnd::Code(code) if code == i32::from(UNREADABLE) => {
                Err(ExtractError::Unreadable { kind, reason: reason_of(&output.stderr) })
            }
            ProcessEnd::Code(code) if code == i32::from(UNBOUNDED) => {
                Err(ExtractError::NotStarted { kind, reason: reason_of(&output.stderr) })
            }
            // A panic of a reader.
            ProcessEnd::Code(_) => {
                Err(ExtractError::Unreadable { kind, reason: UNKNOWN_TO_READER.to_owned() })
            }
            ProcessEnd::Signal(_) => Err(ExtractError::TooMuch(kind)),
        }
    }
}

/// The reason that the process gave, without a full stop.
fn reason_of(stderr: &[u8]) -> String {
    String::from_utf8_lossy(stderr).trim_end_matches(['.', '\n']).to_owned()
}

/// Reads a document from standard input and writes its text to standard output, if that is what this process was started
/// for. To be called before there are threads.
pub fn enter() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != ROLE {
        return None;
    }
    let kind = arguments.next().and_then(|name| DocumentKind::from_extension(&name.to_string_lossy()));
    Some(match kind.map(run) {
        Some(Ok(code)) => code,
        Some(Err(_)) | None => ExitCode::FAILURE,
    })
}

fn run(kind: DocumentKind) -> io::Result<ExitCode> {
    if let Err(error) = bound_process() {
        return fail(UNBOUNDED, &format!("it can't be bounded: {error}"));
    }
    // Standard error is for the reason alone.
    std::panic::set_hook(Box::new(|_| {}));
    let mut bytes = vec![];
    io::stdin().lock().read_to_end(&mut bytes)?;
    match extract(kind, &bytes) {
        Ok(text) => {
            io::stdout().lock().write_all(text.as_bytes())?;
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => {
            let reason = match error {
                ExtractError::Unreadable { reason, .. } => reason,
                error => error.to_string(),
            };
            fail(UNREADABLE, &reason)
        }
    }
}

/// Says on standard error why there is no text.
fn fail(code: u8, reason: &str) -> io::Result<ExitCode> {
    let end = reason.floor_char_boundary(REASON);
    io::stderr().lock().write_all(&reason.as_bytes()[..end])?;
    Ok(ExitCode::from(code))
}
