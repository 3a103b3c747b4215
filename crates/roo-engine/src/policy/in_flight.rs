//! The commands that run at the same time, for what one of them finds changed may be another one's doing.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::command_scope::CommandScope;
use roo_protocol::ids::Digest;
use roo_sandbox::changes::{Allowed, Scope as _};

/// The commands of a workspace that run now.
#[derive(Default)]
pub struct InFlightCommands {
    state: Mutex<InFlightState>,
}

#[derive(Default)]
struct InFlightState {
    next: u64,
    running: HashMap<u64, RunningScope>,
}

struct RunningScope {
    scope: Arc<CommandScope>,
    /// Those that ran at some time while this one did.
    beside: Vec<Arc<CommandScope>>,
    /// States in which those that have ended left the files that they were allowed to change.
    left: HashSet<(PathBuf, Option<Digest>)>,
}

/// A command that runs, until this is dropped.
pub struct CommandTurn {
    number: u64,
    all: Arc<InFlightCommands>,
}

impl InFlightCommands {
    /// A command that may change this is about to run.
    pub fn begin(self: &Arc<Self>, scope: &Arc<CommandScope>) -> CommandTurn {
        let mut state = self.state();
        let number = state.next;
        state.next += 1;
        let beside = state.running.values().map(|running| Arc::clone(&running.scope)).collect();
        state.running.values_mut().for_each(|running| running.beside.push(Arc::clone(scope)));
        state.running.insert(number, RunningScope { scope: Arc::clone(scope), beside, left: HashSet::new() });
        CommandTurn { number, all: Arc::clone(self) }
    }

    fn state(&self) -> MutexGuard<'_, InFlightState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CommandTurn {
    /// Returns whether no other command has run since this one began.
    pub(crate) fn is_alone(&self) -> bool {
        self.all.state().running.get(&self.number).is_some_and(|own| own.beside.is_empty())
    }

    /// Returns whether another command that ran meanwhile may change a path.
    pub(crate) fn may_be_anothers(&self, root: usize, path: &Path) -> bool {
        let state = self.all.state();
        let Some(own) = state.running.get(&self.number) else { return false };
        let Some(folder) = own.scope.roots.get(root) else { return false };
        own.beside.iter().any(|scope| {
            // One in the work tree of a branch has other folders.
            let there = scope.roots.iter().position(|other| other == folder);
            there.is_some_and(|root| scope.allowed(root, path) == Allowed::InScope)
        })
    }
}

impl CommandTurn {
    /// Tells the commands that still run how this one left the files that it was allowed to change: by its path, and the
    /// digest of what a file holds.
    pub fn leaves(&self, files: &[(PathBuf, Option<Digest>)]) {
        let mut state = self.all.state();
        let others = state.running.iter_mut().filter(|(number, _)| **number != self.number);
        others.for_each(|(_, running)| running.left.extend(files.iter().cloned()));
    }

    /// Returns whether a file is as another command left it, which has ended meanwhile.
    pub(crate) fn is_as_left(&self, path: &Path, digest: Option<Digest>) -> bool {
        let state = self.all.state();
        let own = state.running.get(&self.number);
        own.is_some_and(|own| own.left.contains(&(path.to_owned(), digest)))
    }
}

impl Drop for CommandTurn {
    fn drop(&mut self) {
        self.all.state().running.remove(&self.number);
    }
}
