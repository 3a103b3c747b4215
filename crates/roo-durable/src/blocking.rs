//! Work that blocks, mostly on the disk, apart from the threads that run tasks.

use tokio::task::JoinHandle;

/// Runs work that blocks on a thread for such work, as [`tokio::task::spawn_blocking`] does. In a simulation it is a task
/// of the runtime, so that all that happens is in one order.
///
/// # Panics
/// Outside of a runtime.
pub fn spawn_blocking<F, T>(work: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    #[cfg(feature = "simulation")]
    if simulation::is_on_this_thread() {
        return tokio::spawn(async move { work() });
    }
    tokio::task::spawn_blocking(work)
}

/// One thread for everything.
#[cfg(feature = "simulation")]
pub(crate) mod simulation {
    use std::cell::Cell;
    use std::marker::PhantomData;

    thread_local! {
        static SIMULATED: Cell<bool> = const { Cell::new(false) };
    }

    /// As long as it lives, [`spawn_blocking`](super::spawn_blocking) starts no threads for this one. The work must not
    /// wait for other tasks, nor for a lock that they hold.
    #[derive(Debug)]
    pub struct OneThread(PhantomData<*const ()>);

    impl OneThread {
        /// From now on.
        #[expect(clippy::new_without_default, reason = "it is an act and not a value")]
        pub fn new() -> Self {
            SIMULATED.set(true);
            Self(PhantomData)
        }
    }

    impl Drop for OneThread {
        fn drop(&mut self) {
            SIMULATED.set(false);
        }
    }

    pub(super) fn is_on_this_thread() -> bool {
        SIMULATED.get()
    }
}
