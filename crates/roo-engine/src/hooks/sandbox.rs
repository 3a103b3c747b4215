//! The sandbox in which hooks run: what it lets each of them read and write, and how a hook talks through it.
//!
//! What bounds a hook is built where commands are bounded (see [`crate::policy`]); here it is fitted to one hook.
//! A hook's input and its errors are files of a private directory: the sandbox hands on no open files, and one
//! stream for both of a command's outputs.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::file::{Hook, Program, Source};
use super::process::{self, FinishedHook, HookEnd, Job, OUTPUT_LIMIT, Printed};
use super::scripts;
use roo_sandbox::changes::remove_tree;
use roo_sandbox::exec::sandbox::{Confinement, Sandbox, Staged, Substitute};
use roo_sandbox::exec::{self, Command, Environment, Status, shell};

/// The sandbox in which hooks of a request run.
#[derive(Clone, Debug)]
pub enum HookSandbox {
    /// None: the settings turn it off, or the machine has none and the settings allow that.
    Off,
    /// One that works.
    On(Box<HookBounds>),
    /// None, although the settings want one. Hooks that need it fail for this reason.
    Missing(String),
}

#[derive(Clone, Debug)]
pub struct HookBounds {
    /// Sandbox of the hooks.
    pub sandbox: Sandbox,
    /// Access common to all hooks.
    pub confinement: Confinement,
    /// A directory for private files of hooks that run; only the user can enter it.
    pub exchange: PathBuf,
    /// Makes what each run sees in place of the user's files.
    pub overlays: Arc<dyn HookOverlays>,
}

/// Makes what a hook sees in place of files of the user's, as commands do: layers over the directories of build tools, and
/// configuration without the secrets in it.
pub trait HookOverlays: fmt::Debug + Send + Sync {
    /// Makes them for one run, with private files in an empty directory. Writes the disk.
    ///
    /// # Errors
    /// When they can't be made: then the hook must not run.
    fn make(&self, directory: &Path) -> io::Result<Overlaid>;
}

/// Replacements of the user's files for one run.
pub struct Overlaid {
    /// Directories that it sees through layers.
    pub layers: Vec<Staged>,
    /// Files that it sees in place of others.
    pub substitutes: Vec<Substitute>,
    /// Directory for what build tools keep besides.
    pub cache: PathBuf,
    /// Variables that lead them there.
    pub variables: Vec<(&'static str, OsString)>,
    /// Keeps the layers from others until it is dropped.
    pub lease: Box<dyn Any + Send>,
}

/// Directories in whose place a sandboxed program has its own.
const PRIVATE: [&str; 2] = ["/tmp", "/var/tmp"];

/// Files that one hook reads and writes besides the common access.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Needs<'a> {
    /// The request's log.
    pub(super) transcript: Option<&'a Path>,
    /// File in which it may leave variables.
    pub(super) environment_file: Option<&'a Path>,
}

impl HookBounds {
    /// The bounds of one hook: the scripts that a user's hook names can be read, wherever they are.
    /// They are named as a shell with this environment would read them.
    pub(super) fn for_hook(&self, hook: &Hook, needs: Needs<'_>, environment: &Environment) -> Self {
        let mut bounds = self.clone();
        let can_open_hidden = self.sandbox.probe().holds_within_grants();
        let Confinement { hidden, read_only, writable, .. } = &mut bounds.confinement;
        let home = environment.get("HOME").map(Path::new);
        let named = match hook.source {
            Source::User => scripts::outside_workspace(&hook.program, home),
            // A workspace opens nothing.
            Source::Workspace => BTreeSet::new(),
        };
        for script in named.iter().filter_map(|script| script.canonicalize().ok()) {
            let is_within = |place: &PathBuf| script.starts_with(place) && script != *place;
            if !can_open_hidden {
                hidden.retain(|hidden| !is_within(hidden));
            } else if hidden.iter().any(is_within) {
                // What lies beside a script belongs to it, unless that is all that is to be hidden.
                let beside = script.parent().filter(|parent| !hidden.iter().any(|hidden| hidden == parent));
                read_only.push(beside.map_or(script.clone(), Path::to_path_buf));
            } else if !writable.iter().any(is_within)
                && PRIVATE.iter().any(|private| script.starts_with(private))
            {
                read_only.push(script);
            }
        }
        if can_open_hidden {
            read_only.extend(needs.transcript.and_then(|path| path.canonicalize().ok()));
        }
        if let Some(file) = needs.environment_file {
            // What doesn't exist can't be opened to it. Where it can't be made, hooks leave nothing.
            let _ = OpenOptions::new().append(true).create(true).mode(0o600).open(file);
            writable.extend(file.canonicalize());
        }
        bounds
    }
}

/// The private files by which one hook is told its event and says what went wrong. Removed when dropped.
struct Exchange {
    /// All of it.
    directory: PathBuf,
    /// Writable directory of the hook.
    files: PathBuf,
    /// Directory that the hook can't write.
    private: PathBuf,
    input: PathBuf,
    errors: PathBuf,
    /// As it was opened before the hook ran: what is read is what was written there, whatever the hook has put
    /// in its place.
    written: File,
}

impl Exchange {
    fn new(within: &Path, input: &[u8]) -> io::Result<Self> {
        let directory = within.join(format!("hook-{}", uuid::Uuid::new_v4()));
        let (files, private) = (directory.join("files"), directory.join("private"));
        for place in [&files, &private] {
            DirBuilder::new().recursive(true).mode(0o700).create(place)?;
        }
        let new = |name: &str| {
            let path = files.join(name);
            let mut options = OpenOptions::new();
            let file = options.read(true).write(true).create_new(true).mode(0o600).open(&path)?;
            io::Result::Ok((path, file))
        };
        let made = new("input").and_then(|(path, mut file)| {
            file.write_all(input)?;
            let (errors, written) = new("errors")?;
            Ok((path, errors, written))
        });
        match made {
            Ok((input, errors, written)) => Ok(Self { directory, files, private, input, errors, written }),
            Err(error) => {
                let _ = std::fs::remove_dir_all(&directory);
                Err(error)
            }
        }
    }

    fn errors(&mut self) -> Printed {
        let mut printed = Printed::default();
        let limit = OUTPUT_LIMIT as u64 + 1;
        // Output that can't be read counts as none.
        let _ = self
            .written
            .seek(SeekFrom::Start(0))
            .and_then(|_| (&self.written).take(limit).read_to_end(&mut printed.bytes));
        printed.cut = printed.bytes.len() > OUTPUT_LIMIT;
        printed.bytes.truncate(OUTPUT_LIMIT);
        printed
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        // A hook may have closed directories in its layers to everybody.
        let _ = remove_tree(&self.directory);
    }
}

/// Runs a hook to its end within its bounds. It and all that it started ends as a command does.
pub(super) async fn run(
    job: Job,
    environment: &Environment,
    bounds: &HookBounds,
    cancel: &CancellationToken,
) -> FinishedHook {
    let mut stdout = Printed::default();
    let (ending, stderr) = match confined(&job, environment, bounds, &mut stdout, cancel).await {
        Ok(ended) => ended,
        Err(reason) => (HookEnd::Failed(reason), Printed::default()),
    };
    FinishedHook { ending, stdout, stderr, is_confined: true }
}

async fn confined(
    job: &Job,
    environment: &Environment,
    bounds: &HookBounds,
    stdout: &mut Printed,
    cancel: &CancellationToken,
) -> Result<(HookEnd, Printed), String> {
    let (within, input) = (bounds.exchange.clone(), job.input.clone());
    let made = roo_durable::spawn_blocking(move || Exchange::new(&within, &input)).await;
    let made = made.map_err(io::Error::other).flatten();
    let mut exchange = made.map_err(|error| format!("its input can't be written: {error}"))?;
    let line = line(job, environment, &exchange).map_err(|error| error.to_string())?;
    let command =
        Command { line, directory: job.directory.clone(), timeout: Some(job.timeout), handle: None };
    let variables: BTreeMap<String, String> = job
        .variables
        .iter()
        .filter_map(|(name, value)| Some(((*name).to_owned(), value.to_str()?.to_owned())))
        .collect();
    let environment = environment.clone().with(&variables);
    let (overlays, private) = (Arc::clone(&bounds.overlays), exchange.private.clone());
    let made = roo_durable::spawn_blocking(move || overlays.make(&private)).await;
    let made = made.map_err(io::Error::other).flatten();
    let Overlaid { layers, substitutes, cache, variables, lease } =
        made.map_err(|error| format!("its view of build tools' files can't be set up: {error}"))?;
    let mut confinement = bounds.confinement.clone();
    confinement.writable.push(exchange.files.clone());
    confinement.staged.extend(layers);
    confinement.substitutes.extend(substitutes);
    confinement.cache = Some(cache);
    confinement.variables = variables;
    let keep = |text: &str| stdout.add(text.as_bytes());
    let ran = exec::run_confined(&command, &environment, &bounds.sandbox, &confinement, keep, cancel).await;
    drop(lease);
    let (status, _) = ran.map_err(|error| error.to_string())?;
    let ending = match status {
        Status::Code(code) => HookEnd::Code(code),
        Status::Signal(signal) => HookEnd::Signal(signal),
        Status::TimedOut => HookEnd::TimedOut,
        Status::Cancelled => HookEnd::Cancelled,
        Status::DiskFilled => HookEnd::Failed("it filled a disk and was killed".to_owned()),
    };
    let errors = roo_durable::spawn_blocking(move || exchange.errors()).await;
    Ok((ending, errors.unwrap_or_default()))
}

/// The line that becomes the hook's program, with its input and errors in their files.
fn line(job: &Job, environment: &Environment, exchange: &Exchange) -> io::Result<String> {
    let mut words = vec!["exec".to_owned()];
    match &job.program {
        Program::Line(line) => {
            let shell = text(shell().program())?;
            words.extend([quoted(shell)?, "-c".to_owned(), quoted(line)?]);
        }
        Program::Direct { program, arguments } => {
            words.push(quoted(text(&process::resolved(program, job, environment)?)?)?);
            for argument in arguments {
                words.push(quoted(text(Path::new(&process::substituted(argument, job)))?)?);
            }
        }
    }
    let (input, errors) = (quoted(text(&exchange.input)?)?, quoted(text(&exchange.errors)?)?);
    Ok(format!("{} <{input} 2>{errors}", words.join(" ")))
}

fn text(path: &Path) -> io::Result<&str> {
    path.to_str().ok_or_else(|| io::Error::other(format!("{} is no text", path.display())))
}

fn quoted(word: &str) -> io::Result<String> {
    shlex::try_quote(word).map(std::borrow::Cow::into_owned).map_err(io::Error::other)
}
