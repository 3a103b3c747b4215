//! Helpers of the sandbox that are started before there is a command for them: what doesn't depend on the command is done
//! when it comes, which is most of the time that its start takes.
//!
//! One waits in namespaces of its own and holds nothing but its socket. It sees the mounts of the moment at which it gets
//! its order.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::{Handle, Id};
use tokio_util::task::AbortOnDropHandle;

use super::helper_process::HelperProcess;
use super::sandbox::{Helper, HelperRole, WaitingRole};

/// The most that wait at a time: for commands of several tasks, each of which has its own network.
const MAX_WAITING: usize = 4;
/// Time for which one waits.
const KEPT: Duration = Duration::from_secs(60);

/// The helpers of one sandbox that wait for an order, oldest first. They end with the last clone of this.
#[derive(Clone, Debug, Default)]
pub(super) struct ReadyHelpers(Arc<Mutex<Vec<ReadyHelper>>>);

#[derive(Debug)]
struct ReadyHelper {
    role: WaitingRole,
    process: HelperProcess,
    /// The runtime that hears of the process.
    runtime: Id,
    /// Ends it when its time is over.
    _expiry: AbortOnDropHandle<()>,
}

impl ReadyHelpers {
    /// Takes one that is in this role.
    pub(super) fn take(&self, role: &HelperRole) -> Option<HelperProcess> {
        let runtime = Handle::try_current().ok()?.id();
        let (mut waiting, role) = (self.waiting(), role.waiting());
        let fits = |it: &ReadyHelper| it.role == role && it.runtime == runtime;
        let found = waiting.iter().position(fits)?;
        Some(waiting.remove(found).process)
    }

    /// Starts one in this role unless one waits or no other command may come for it, beside what goes on. Where it can't be
    /// started, the next command says why.
    pub(super) fn prepare(&self, helper: &Helper, role: HelperRole) {
        let Ok(runtime) = Handle::try_current() else { return };
        let waits = |role: WaitingRole| self.waiting().iter().any(|it| it.role == role);
        if !role.takes_streams() || !role.may_come_again() || waits(role.waiting()) {
            return;
        }
        let (ready, helper) = (self.clone(), helper.clone());
        // To start a program blocks the thread until the program runs.
        runtime.spawn_blocking(move || match HelperProcess::start(&helper, &role, None) {
            Ok(process) => ready.keep(role.waiting(), process),
            Err(error) => tracing::debug!(%error, "no helper could be started ahead of the next command"),
        });
    }

    fn keep(&self, role: WaitingRole, process: HelperProcess) {
        let runtime = Handle::current();
        let all = Arc::downgrade(&self.0);
        let (expired, id) = (role.clone(), runtime.id());
        let expiry = runtime.spawn(async move {
            tokio::time::sleep(KEPT).await;
            if let Some(all) = all.upgrade() {
                Self(all).waiting().retain(|it| it.role != expired);
            }
        });
        let mut waiting = self.waiting();
        // Another one may have come before it.
        waiting.retain(|it| it.role != role && !it.role.is_over());
        if waiting.len() == MAX_WAITING {
            waiting.remove(0);
        }
        waiting.push(ReadyHelper { role, process, runtime: id, _expiry: AbortOnDropHandle::new(expiry) });
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<ReadyHelper>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
