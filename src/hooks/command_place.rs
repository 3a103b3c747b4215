//! What a command line leads to in this workspace, by the same checks as every other tool.

use std::path::Path;

use super::command::{Directory, Place, Program};
use super::gate::{Grounds, Subject};
use super::hook::{self, Access, Scene};
use super::protected;
use crate::config::SandboxLevel;
use crate::workspace::{ProtectedBy, Protection, Purpose, ReadAccess, Resolved};

/// The directory of a command, and who runs it there.
pub(super) struct CommandPlace<'a> {
    grounds: &'a Grounds,
    subject: Subject<'a>,
    directory: &'a Resolved,
    programs: Directory,
}

impl<'a> CommandPlace<'a> {
    pub(super) fn new(grounds: &'a Grounds, subject: Subject<'a>, directory: &'a Resolved) -> Self {
        let roots = grounds.workspace.roots().paths().map(Path::to_path_buf);
        let search = std::env::var_os("PATH").unwrap_or_default();
        let programs = Directory::new(directory.absolute().to_path_buf(), roots, search);
        Self { grounds, subject, directory, programs }
    }

    fn check(&self, path: &str, purpose: Purpose, access: Access) -> Result<(), String> {
        let absolute = self.directory.absolute().join(path);
        let text = absolute.to_str().ok_or_else(|| format!("`{path}` is no plain text"))?;
        let place = self.grounds.workspace.resolve(text, purpose).map_err(|error| error.to_string())?;
        let scene = Scene { grounds: self.grounds, subject: self.subject, place: &place, access };
        // A sandbox makes what users protect read-only. Without one, the command may write what it names.
        if self.grounds.settings.sandbox.level == SandboxLevel::Off
            && let Protection::Tier1 { by: ProtectedBy::Pattern(pattern) } = protected::of(&scene)
        {
            return Err(format!("`{path}` is protected ({pattern})"));
        }
        match hook::check(&scene) {
            Ok(None) => Ok(()),
            Ok(Some(reason)) => Err(reason.text),
            Err(refusal) => Err(refusal.into_reason()),
        }
    }
}

impl Place for CommandPlace<'_> {
    fn writable(&self, path: &str) -> Result<(), String> {
        if !self.grounds.settings.auto_approve.write {
            return Err(format!("it writes to `{path}`"));
        }
        self.check(path, Purpose::Write, Access::Write)
    }

    fn readable(&self, path: &str) -> Result<(), String> {
        if !self.grounds.settings.auto_approve.read {
            return Err(format!("it reads `{path}`"));
        }
        self.check(path, Purpose::Read, Access::Look)
    }

    fn within(&self, path: &str) -> Result<(), String> {
        self.programs.within(path)
    }

    fn reachable(&self, path: &str) -> Result<(), String> {
        match self.is_there(path) {
            true if self.is_directory(path) => self.check(path, Purpose::Directory, Access::Look),
            true => self.check(path, Purpose::Read, Access::Look),
            false => Ok(()),
        }
    }

    fn recorded(&self, directory: Option<&str>, path: &str) -> Result<(), String> {
        let Some(rules) = self.grounds.workspace.rules(self.directory) else {
            return Err(format!("`{path}` is outside of the workspace"));
        };
        // The repository may begin at any directory above, also above the workspace.
        let names: Vec<&str> = path.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
        let base = [self.directory.relative(), directory.unwrap_or_default()].join("/");
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
