//! Hooks that no task waits for, such as those of a request's end. A server that ends lets them finish.

use std::time::Duration;

use tokio::time::timeout;
use tokio_util::task::TaskTracker;

/// The longest time for which an ending server waits for hooks of requests that have ended.
const ENDS_TIME: Duration = Duration::from_secs(60);
/// The longest time for which it waits for other hooks that no task waits for.
const OTHERS_TIME: Duration = Duration::from_secs(5);

/// Hooks that no task waits for.
#[derive(Clone, Default)]
pub(super) struct UnwaitedHooks {
    /// Those of requests that have ended.
    pub(super) of_ends: TaskTracker,
    /// All others.
    pub(super) others: TaskTracker,
}

impl UnwaitedHooks {
    /// Waits for them, for those of ends as long as they may run.
    pub(super) async fn finish(&self) {
        let Self { of_ends, others } = self;
        of_ends.close();
        others.close();
        let (ends, rest) =
            tokio::join!(timeout(ENDS_TIME, of_ends.wait()), timeout(OTHERS_TIME, others.wait()));
        if ends.and(rest).is_err() {
            tracing::warn!("a hook that nobody waited for did not finish");
        }
    }
}
