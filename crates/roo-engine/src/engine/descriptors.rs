//! Division of the descriptors that this process may have among what needs many: where they are scarce, work waits for its
//! turn instead of failing.
//!
//! A request that waits for its user holds none. What holds one for a moment, such as reading a file, isn't counted: the
//! number of threads bounds it.

use std::sync::Arc;

use tokio::sync::futures::Notified;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// Descriptors that the process holds whatever it does: standard streams, the runtime's, watches.
const BASE: usize = 32;
/// The most descriptors that a blocking thread holds at a time.
const DESCRIPTORS_PER_THREAD: usize = 2;
/// The most blocking threads.
const MAX_THREADS: usize = 64;
/// About as many descriptors a running tool holds: a command has pipes, a helper, a proxy.
const DESCRIPTORS_PER_TOOL: usize = 8;
/// Of each kind there may be this many in any case.
const MIN_PER_KIND: usize = 4;
/// More is as good as no limit.
const MAX_PER_KIND: usize = 1 << 20;

/// The right to hold a descriptor, given back when it is dropped.
pub(super) type DescriptorPermit = OwnedSemaphorePermit;

/// Turns at descriptors. Nothing waits for a turn of one kind while it holds one that this kind waits for: a request that
/// has its log open waits for neither, and a model request or a tool for no log.
pub(super) struct DescriptorBudget {
    logs: Arc<Semaphore>,
    models: Arc<Semaphore>,
    tools: Arc<Semaphore>,
    /// A request waits to open its log.
    log_wanted: Notify,
}

/// Returns how many blocking threads a process should have that may have so many open files.
pub fn blocking_threads(limit: usize) -> usize {
    (limit / 8).clamp(MIN_PER_KIND, MAX_THREADS)
}

impl DescriptorBudget {
    /// The budget of a process that may have so many open files.
    pub(super) fn new(limit: usize) -> Self {
        let others = BASE + DESCRIPTORS_PER_THREAD * blocking_threads(limit);
        let share = limit.saturating_sub(others) / 3;
        let turns = |each: usize| Arc::new(Semaphore::new((share / each).clamp(MIN_PER_KIND, MAX_PER_KIND)));
        Self {
            logs: turns(1),
            models: turns(1),
            tools: turns(DESCRIPTORS_PER_TOOL),
            log_wanted: Notify::new(),
        }
    }

    /// Waits for the right to open a log. Those who hold one that they don't need at the moment are told.
    pub(super) async fn log(&self) -> Option<DescriptorPermit> {
        if let Ok(permit) = Arc::clone(&self.logs).try_acquire_owned() {
            return Some(permit);
        }
        self.log_wanted.notify_waiters();
        // It is never closed.
        Arc::clone(&self.logs).acquire_owned().await.ok()
    }

    /// Returns whether a log that is opened now would have to wait.
    pub(super) fn are_logs_scarce(&self) -> bool {
        self.logs.available_permits() == 0
    }

    /// Tells when somebody begins to wait for a log, from now on.
    pub(super) fn log_wanted(&self) -> Notified<'_> {
        self.log_wanted.notified()
    }

    /// Waits for the right to a connection to a model.
    pub(super) async fn model(&self) -> Option<DescriptorPermit> {
        Arc::clone(&self.models).acquire_owned().await.ok()
    }

    /// Waits for the right to run a tool, or a check of one, which may start programs too.
    pub(super) async fn tool(&self) -> Option<DescriptorPermit> {
        Arc::clone(&self.tools).acquire_owned().await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The most descriptors that work holds at a time.
    fn most(limit: usize) -> usize {
        let budget = DescriptorBudget::new(limit);
        let turns = |turns: &Semaphore| turns.available_permits();
        BASE + DESCRIPTORS_PER_THREAD * blocking_threads(limit)
            + turns(&budget.logs)
            + turns(&budget.models)
            + DESCRIPTORS_PER_TOOL * turns(&budget.tools)
    }

    #[test]
    fn work_stays_below_the_limit() {
        for limit in [192, 256, 1024, 4096, 65_536, 1 << 20] {
            assert!(most(limit) <= limit, "{limit}: {}", most(limit));
        }
    }

    #[test]
    fn there_is_a_turn_for_each_kind_under_any_limit() {
        for limit in [0, 16, 64, usize::MAX] {
            let budget = DescriptorBudget::new(limit);
            for turns in [&budget.logs, &budget.models, &budget.tools] {
                assert!(turns.available_permits() >= MIN_PER_KIND);
            }
            assert!((MIN_PER_KIND..=MAX_THREADS).contains(&blocking_threads(limit)));
        }
    }

    #[tokio::test]
    async fn who_waits_for_a_log_tells_those_who_hold_one() {
        let budget = Arc::new(DescriptorBudget::new(0));
        let mut held = Vec::new();
        while !budget.are_logs_scarce() {
            held.extend(budget.log().await);
        }
        let told = Arc::clone(&budget);
        let told = tokio::spawn(async move { told.log_wanted().await });
        tokio::task::yield_now().await;
        let waiting = Arc::clone(&budget);
        let waiting = tokio::spawn(async move { waiting.log().await });
        told.await.unwrap();
        held.pop();
        assert!(waiting.await.unwrap().is_some());
    }
}
