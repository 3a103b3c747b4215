//! Places of a command line in this workspace, by the same checks as every other tool.

use std::cell::OnceCell;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::block_in_place;

use super::check;
use super::command::{Directory, Entry, Place, Program, Repositories, Repository, meets_processes};
use super::context::{PolicyContext, ToolCallContext};
use super::place_check::{Access, CheckContext};
use super::protected;
use super::withheld_paths::{PlaceFinder, WithheldPaths};
use roo_formats::config::SandboxLevel;
use roo_sandbox::changes::ChangesError;
use roo_workspace::{ProtectedBy, Protection, Purpose, ReadAccess, Resolved};

/// The directory of a command, and who runs it there.
pub(super) struct CommandPlace<'a> {
    policy_context: &'a PolicyContext,
    call_context: ToolCallContext<'a>,
    directory: &'a Resolved,
    programs: Directory,
    /// Knows what may not be seen.
    finder: Arc<PlaceFinder>,
    /// True if the sandbox hides what may not be seen.
    is_concealed: bool,
    /// Paths that may not be seen in the workspace and that the sandbox doesn't hide, looked up when it is first asked for.
    unreadable: OnceCell<Result<Vec<PathBuf>, String>>,
    /// Paths of the workspace that the sandbox hides, looked up as well.
    hidden: OnceCell<Vec<PathBuf>>,
}

impl<'a> CommandPlace<'a> {
    /// A directory of a workspace, where programs are searched for on this path.
    pub(super) fn new(
        policy_context: &'a PolicyContext,
        call_context: ToolCallContext<'a>,
        directory: &'a Resolved,
        search: OsString,
        finder: Arc<PlaceFinder>,
    ) -> Self {
        let roots = policy_context.workspace.roots().paths().map(Path::to_path_buf);
        let programs = Directory::new(directory.absolute().to_path_buf(), roots, search);
        let unreadable = OnceCell::new();
        let (is_concealed, hidden) = (false, OnceCell::new());
        Self { policy_context, call_context, directory, programs, finder, is_concealed, unreadable, hidden }
    }

    /// The same in a sandbox that hides what may not be seen, or without one.
    pub(super) fn concealed(self, is_concealed: bool) -> Self {
        Self { is_concealed, ..self }
    }

    /// The same with what is known of repositories already.
    pub(super) fn with(self, repositories: Arc<Repositories>) -> Self {
        Self { programs: self.programs.with(repositories), ..self }
    }

    fn resolve(&self, path: &str, purpose: Purpose) -> Result<Resolved, String> {
        let absolute = self.directory.absolute().join(path);
        if meets_processes(&absolute) {
            return Err(format!("`{path}` leads to a different place for each process"));
        }
        let text = absolute.to_str().ok_or_else(|| format!("`{path}` is not plain text"))?;
        self.policy_context.workspace.resolve(text, purpose).map_err(|error| error.to_string())
    }

    fn check(&self, path: &str, purpose: Purpose, access: Access) -> Result<(), String> {
        let place = self.resolve(path, purpose)?;
        let context = CheckContext {
            policy_context: self.policy_context,
            call_context: self.call_context,
            place: &place,
            access,
        };
        // A sandbox makes what users protect read-only. Without one, the command may write what it names.
        if self.policy_context.settings.sandbox.level == SandboxLevel::Off
            && let Protection::Tier1 { by: ProtectedBy::Pattern(pattern) } =
                protected::protection_of(&context)
        {
            return Err(format!("`{path}` is protected ({pattern})"));
        }
        match check::check(&context) {
            Ok(None) => Ok(()),
            Ok(Some(reason)) => Err(reason.text),
            Err(refusal) => Err(refusal.into_reason()),
        }
    }

    /// Returns the purpose of looking up a path.
    fn purpose(&self, path: &str) -> Purpose {
        if self.is_directory(path) { Purpose::Directory } else { Purpose::Read }
    }

    fn look(&self) -> Result<WithheldPaths, ChangesError> {
        let look =
            || self.finder.look(&self.policy_context.workspace, &self.policy_context.settings.protected);
        // It may wait for git.
        match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
            Ok(RuntimeFlavor::MultiThread) => block_in_place(look),
            _ => look(),
        }
    }

    /// Returns the paths below the workspace folders that the sandbox hides, whatever the user's answers open; none where it
    /// hides none, or where they can't be had.
    pub(super) fn hidden(&self) -> &[PathBuf] {
        self.hidden.get_or_init(|| {
            let readable = &self.policy_context.settings.sandbox.readable;
            let opened: Vec<PathBuf> = readable.iter().filter_map(|path| path.canonicalize().ok()).collect();
            let mut hidden = match self.is_concealed {
                true => self.look().map(|places| places.hidden).unwrap_or_default(),
                false => vec![],
            };
            hidden.retain(|path| !opened.contains(path));
            hidden
        })
    }

    /// Returns the paths that may not be seen below the workspace folders, but for what the sandbox hides.
    fn unreadable(&self) -> Result<&[PathBuf], String> {
        let look = || {
            let places = self.look().map_err(|error| error.to_string())?;
            let hidden = if self.is_concealed { vec![] } else { places.hidden };
            Ok::<_, String>([hidden, places.committed].concat())
        };
        self.unreadable.get_or_init(look).as_deref().map_err(Clone::clone)
    }
}

impl Place for CommandPlace<'_> {
    fn directory(&self) -> &str {
        self.programs.directory()
    }

    fn inside(&self, path: &str) -> Result<(), String> {
        self.programs.inside(path)
    }

    fn enterable(&self, path: &str) -> Result<(), String> {
        self.programs.enterable(path)?;
        match self.is_there(path) {
            true => self.check(path, Purpose::Directory, Access::Look),
            false => Ok(()),
        }
    }

    fn is_same(&self, one: &str, other: &str) -> bool {
        self.programs.is_same(one, other)
    }

    fn unreadable_below(&self, directory: &str) -> Result<Vec<String>, String> {
        let directory = match self.resolve(directory, Purpose::Directory) {
            Ok(directory) => directory,
            // What is committed and shown is in the workspace.
            Err(_) if self.is_concealed => return Ok(vec![]),
            Err(reason) => return Err(reason),
        };
        let below = |path: &PathBuf| {
            let path = path.strip_prefix(directory.absolute()).ok()?;
            Some(path.to_string_lossy().into_owned())
        };
        Ok(self.unreadable()?.iter().filter_map(below).collect())
    }

    fn below(&self, directory: &str) -> Result<Vec<Entry>, String> {
        self.programs.below(directory)
    }

    fn repository(&self, directory: &str) -> Repository {
        self.programs.repository(directory)
    }

    fn ignored(&self, path: &str) -> Option<String> {
        let place = self.resolve(path, self.purpose(path)).ok()?;
        (self.policy_context.workspace.read_access(&place) == ReadAccess::Ignored).then(|| {
            format!("{} is ignored. {}", place.display(), self.policy_context.workspace.ignore_reason(&place))
        })
    }

    fn writable(&self, path: &str) -> Result<(), String> {
        if !self.policy_context.settings.auto_approve.write {
            return Err(format!("it writes to `{path}`"));
        }
        self.check(path, Purpose::Write, Access::Write)
    }

    fn readable(&self, path: &str) -> Result<(), String> {
        if !self.policy_context.settings.auto_approve.read {
            return Err(format!("it reads `{path}`"));
        }
        self.check(path, self.purpose(path), Access::Look)
    }

    fn within(&self, path: &str) -> Result<(), String> {
        self.programs.within(path)
    }

    fn reachable(&self, path: &str) -> Result<(), String> {
        match self.is_there(path) {
            true => self.check(path, self.purpose(path), Access::Look),
            false => Ok(()),
        }
    }

    fn recorded(&self, directory: &str, path: &str) -> Result<(), String> {
        let Some(rules) = self.policy_context.workspace.rules(self.directory) else {
            return Err(format!("`{path}` is outside of the workspace"));
        };
        // The repository may begin at any directory above, also above the workspace.
        let names: Vec<&str> = path.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
        let base = match self.resolve(directory, Purpose::Directory) {
            Ok(found) => found.relative().to_owned(),
            // It is to be made.
            Err(_) => [self.directory.relative(), directory].join("/"),
        };
        let base: Vec<&str> = base.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
        for above in 0..=base.len() {
            for from in 0..names.len() {
                let name = [&base[..above], &names[from..]].concat().join("/");
                match rules.access(&name, false) {
                    ReadAccess::Free => {}
                    ReadAccess::Secret => {
                        return Err(format!("`{path}` may hold secrets, as it was committed"));
                    }
                    _ => return Err(format!("`{path}` is ignored, as it was committed")),
                }
            }
        }
        Ok(())
    }

    fn is_there(&self, path: &str) -> bool {
        self.programs.is_there(path)
    }

    fn is_directory(&self, path: &str) -> bool {
        self.programs.is_directory(path)
    }

    fn matching(&self, pattern: &str, literal: usize) -> Result<Vec<String>, String> {
        self.programs.matching(pattern, literal)
    }

    fn program(&self, name: &str) -> Program {
        self.programs.program(name)
    }

    fn script(&self, path: &str) -> Option<String> {
        self.programs.script(path)
    }
}
