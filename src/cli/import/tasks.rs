//! Tasks of another program on their way into the workspaces that they belong to: each becomes a finished request there.
//!
//! Nothing is written into the workspaces themselves. What can't be taken over is told and left out.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::cli::arguments::Common;
use crate::cli::session::SessionContext;
use crate::cli::{CliError, Ending, terminal};
use roo_durable::read_regular;
use roo_engine::engine::{ImportSettings, ImportedRequests};
use roo_formats::config::{Profile, Settings};
use roo_formats::modes::Modes;
use roo_formats::roo_code::tasks::PastTask;
use roo_text::render::{counted, exact_line, one_line};

/// The longest title in a list, in characters.
const TITLE: usize = 60;

pub(super) struct TaskImport<'context> {
    context: &'context SessionContext,
    settings: Settings,
    /// The folder whose tasks are wanted alone.
    only: Option<&'context Path>,
    dry_run: bool,
    targets: BTreeMap<PathBuf, Result<Target, String>>,
    count: Count,
}

/// A workspace that tasks go to.
struct Target {
    requests: ImportedRequests,
    modes: Arc<Modes>,
}

/// What came of the tasks.
#[derive(Default)]
struct Count {
    imported: usize,
    known: usize,
    left_out: usize,
    /// Tasks of folders that are not on this machine.
    without_folder: usize,
    elsewhere: usize,
    empty: usize,
}

/// Reasons why a task is not taken.
enum LeftOut {
    /// Its folder is not on this machine: nothing here could go on with it.
    NoFolder(String),
    /// Something that the user can fix.
    Other(String),
}

impl From<String> for LeftOut {
    fn from(reason: String) -> Self {
        Self::Other(reason)
    }
}

impl<'context> TaskImport<'context> {
    /// No task yet. With `--workspace`, only those of that folder are taken.
    pub(super) fn new(common: &Common, context: &'context SessionContext, dry_run: bool) -> Self {
        let only = common.workspace.as_ref().map(|_| context.folder.as_path());
        let settings = context.settings_to_look();
        Self { context, settings, only, dry_run, targets: BTreeMap::new(), count: Count::default() }
    }

    /// Takes a task, or says why not.
    pub(super) fn take(&mut self, program: &str, id: &str, past: Result<PastTask, String>) -> io::Result<()> {
        let taken = past.map_err(LeftOut::Other).and_then(|past| self.import(program, &past));
        let (count, reason) = match taken {
            Ok(()) => return Ok(()),
            Err(LeftOut::NoFolder(reason)) => (&mut self.count.without_folder, reason),
            Err(LeftOut::Other(reason)) => (&mut self.count.left_out, reason),
        };
        *count += 1;
        let (id, reason) = (exact_line(id), exact_line(&reason));
        writeln!(terminal::stderr(), "roo-lsp: not imported: task {id}: {reason}")
    }

    /// There is one in which its user has said nothing.
    pub(super) fn pass_over_empty(&mut self) {
        self.count.empty += 1;
    }

    fn import(&mut self, program: &str, past: &PastTask) -> Result<(), LeftOut> {
        let folder = match folder(past.item.workspace.as_deref()) {
            Ok(folder) => folder,
            // Of whatever folder it is, it isn't of this one.
            Err(_) if self.only.is_some() => {
                self.count.elsewhere += 1;
                return Ok(());
            }
            Err(reason) => return Err(reason),
        };
        if self.only.is_some_and(|only| only != folder) {
            self.count.elsewhere += 1;
            return Ok(());
        }
        let (context, settings) = (self.context, &self.settings);
        let target =
            self.targets.entry(folder.clone()).or_insert_with(|| Target::open(context, settings, &folder));
        let Target { requests, modes } = target.as_mut().map_err(|reason| reason.clone())?;
        if requests.has(program, past) {
            self.count.known += 1;
            return Ok(());
        }
        let title = one_line(past.item.task.trim(), TITLE);
        let place = exact_line(&folder.display().to_string());
        let failed = |error: io::Error| error.to_string();
        if self.dry_run {
            self.count.imported += 1;
            writeln!(terminal::stdout(), "{}  {title} ({place})", past.item.id).map_err(failed)?;
            return Ok(());
        }
        let settings = how_it_goes_on(past, settings, modes);
        let imported = requests.import(program, past, settings).map_err(|error| error.to_string())?;
        match imported.was_known {
            true => self.count.known += 1,
            false => self.count.imported += 1,
        }
        writeln!(terminal::stdout(), "{}  {title} ({place})", imported.urid).map_err(failed)?;
        Ok(())
    }

    /// Says how many were taken, and how many were not.
    pub(super) fn finish(self) -> Result<Ending, CliError> {
        let count = self.count;
        let done = if self.dry_run { "would be imported" } else { "imported" };
        let mut text = format!("{} {done}", counted(count.imported, "task"));
        for (number, what) in [
            (count.known, "imported before"),
            (count.left_out, "left out"),
            (count.without_folder, "of folders that are not here"),
            (count.elsewhere, "of other workspaces"),
            (count.empty, "without a message"),
        ] {
            if number > 0 {
                text.push_str(&format!(", {number} {what}"));
            }
        }
        writeln!(terminal::stdout(), "{text}")?;
        Ok(if count.left_out == 0 { Ending::Done } else { Ending::Failed })
    }
}

impl Target {
    fn open(context: &SessionContext, settings: &Settings, folder: &Path) -> Result<Self, String> {
        let context = SessionContext { directories: context.directories.clone(), folder: folder.to_owned() };
        let customization = context.customization().map_err(|error| error.to_string())?;
        let requests = ImportedRequests::open(context.state()).map_err(|error| error.to_string())?;
        Ok(Self { requests, modes: customization.modes_by(settings) })
    }
}

/// The mode, model and limits by which a task goes on: its own, where there are such.
fn how_it_goes_on(past: &PastTask, settings: &Settings, modes: &Modes) -> ImportSettings {
    let own = past.item.mode.as_deref().and_then(|slug| modes.get(slug));
    let mode = own.or_else(|| modes.get(&settings.mode));
    let slug = mode.map_or_else(|| settings.mode.clone(), |mode| mode.slug.clone());
    let own = past.item.profile.as_ref().filter(|name| settings.profiles.contains_key(*name));
    let profile = own.cloned().unwrap_or_else(|| settings.profile_of(&slug).0.to_owned());
    ImportSettings {
        emoji: mode.map(|mode| mode.emoji.clone()).unwrap_or_default(),
        protocol: settings.profiles.get(&profile).map(Profile::tool_protocol).unwrap_or_default(),
        mode: slug,
        profile,
        limits: settings.limits,
    }
}

/// The folder of a workspace, by its real path. What the file says may be anything.
fn folder(workspace: Option<&str>) -> Result<PathBuf, LeftOut> {
    let named = workspace.ok_or_else(|| "nothing says which folder it belongs to".to_owned())?;
    let shown = one_line(named, 200);
    let path = Path::new(named);
    let is_plain = path.is_absolute()
        && !named.contains('\0')
        && !path.components().any(|part| part == std::path::Component::ParentDir);
    if !is_plain {
        return Err(format!("its folder `{shown}` is no absolute path of this machine").into());
    }
    match path.canonicalize() {
        Ok(folder) if folder.is_dir() => Ok(folder),
        Ok(_) => Err(format!("`{shown}`, which it belongs to, is not a folder").into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(LeftOut::NoFolder(format!("its folder `{shown}` is not on this machine")))
        }
        Err(error) => Err(format!("its folder `{shown}` can't be used: {error}").into()),
    }
}

/// The text of a file; none when it isn't there. No pipe is waited for.
pub(super) fn read(path: &Path, limit: u64) -> io::Result<Option<String>> {
    match read_regular(path, limit) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
