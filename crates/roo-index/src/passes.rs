//! Passes over the workspace on a thread of their own, one after another, and waiting for them.
//!
//! Nothing runs and nothing is open between them.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::embedder::EmbedderSource;
use super::pass::{Mask, Pass, PassEnd};
use super::store::{IndexDirectory, StoreError};
use roo_workspace::Workspace;

/// Progress of the passes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    /// Number of passes that have ended.
    pub(crate) ended: u64,
    /// Files that are up to date, and of all; none while nothing runs.
    pub(crate) files: Option<(usize, usize)>,
    /// Reason why the last one did not reach its end.
    pub(crate) fault: Option<Arc<StoreError>>,
    /// True if a damaged index was removed since somebody was told.
    pub(crate) was_damaged: bool,
    /// Reason why the embedder did not serve, in the last pass.
    pub(crate) embedder_fault: Option<String>,
}

/// The passes of one workspace.
pub(crate) struct Passes {
    pub(crate) workspace: Arc<Workspace>,
    pub(crate) directory: IndexDirectory,
    embedders: EmbedderSource,
    state: Mutex<State>,
    progress: watch::Sender<Progress>,
}

#[derive(Default)]
struct State {
    /// Stops the running one; none while nothing runs.
    running: Option<CancellationToken>,
    /// Number of passes that have been asked for.
    wanted: u64,
}

impl Passes {
    pub(crate) fn new(workspace: Arc<Workspace>, directory: PathBuf, embedders: EmbedderSource) -> Self {
        Self {
            workspace,
            directory: IndexDirectory::new(directory),
            embedders,
            state: Mutex::default(),
            progress: watch::Sender::default(),
        }
    }

    pub(crate) fn embedders(&self) -> &EmbedderSource {
        &self.embedders
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a pass begin after now. Returns its number, and the progress until then: it has ended when that many have.
    pub(crate) fn request(self: &Arc<Self>, mask: &Mask) -> (u64, watch::Receiver<Progress>) {
        let mut state = self.state();
        let ended = self.progress.borrow().ended;
        match &state.running {
            // The running one may have passed by what has changed since; one more does for all who wait.
            Some(_) => state.wanted = ended + 2,
            None => {
                state.wanted = ended + 1;
                let stop = CancellationToken::new();
                state.running = Some(stop.clone());
                let (passes, mask, runtime) =
                    (Arc::clone(self), Arc::clone(mask), Handle::try_current().ok());
                self.progress.send_modify(|progress| progress.files = Some((0, 0)));
                let work = move || passes.work(&mask, &stop, runtime.as_ref());
                let started = thread::Builder::new().name("roo-index".to_owned()).spawn(work);
                if let Err(source) = started {
                    state.running = None;
                    let fault = StoreError::Io { path: PathBuf::from("a thread"), source };
                    self.end(Some(fault), None, true);
                }
            }
        }
        (state.wanted, self.progress.subscribe())
    }

    /// Stops what runs, and waits until it has ended.
    pub(crate) async fn stop(&self) {
        let mut progress = self.progress.subscribe();
        {
            let mut state = self.state();
            let Some(running) = &state.running else { return };
            running.cancel();
            state.wanted = 0;
        }
        // The sender lives as long as this.
        let _ = progress.wait_for(|progress| progress.files.is_none()).await;
    }

    pub(crate) fn progress(&self) -> Progress {
        self.progress.borrow().clone()
    }

    /// Returns whether a damaged index was removed since this was asked last.
    pub(crate) fn take_damage(&self) -> bool {
        self.progress.send_if_modified(|progress| std::mem::take(&mut progress.was_damaged))
    }

    /// Removes a damaged index.
    pub(crate) fn discard(&self) -> Result<(), StoreError> {
        self.directory.remove(&self.directory.lock()?)?;
        self.report_damage();
        Ok(())
    }

    fn report_damage(&self) {
        tracing::warn!("the index of the workspace was damaged and is built anew");
        self.progress.send_modify(|progress| progress.was_damaged = true);
    }

    /// Runs passes until no further one is wanted.
    fn work(&self, mask: &Mask, stop: &CancellationToken, runtime: Option<&Handle>) {
        lower_priority();
        loop {
            let (fault, embedder_fault) = match self.pass(mask, stop, runtime) {
                Ok(fault) => (None, fault),
                Err(fault) => {
                    tracing::warn!(error = %fault, "the index of the workspace is not up to date");
                    (Some(fault), None)
                }
            };
            let mut state = self.state();
            let is_last = state.wanted <= self.progress.borrow().ended + 1 || stop.is_cancelled();
            if is_last {
                state.running = None;
            }
            self.end(fault, embedder_fault, is_last);
            if is_last {
                return;
            }
        }
    }

    fn end(&self, fault: Option<StoreError>, embedder_fault: Option<String>, is_last: bool) {
        self.progress.send_modify(|progress| {
            progress.ended += 1;
            if is_last {
                progress.files = None;
            }
            progress.fault = fault.map(Arc::new);
            progress.embedder_fault = embedder_fault;
        });
    }

    /// Runs a pass, from the start where the index turns out to be damaged. Returns why the embedder did not serve.
    fn pass(
        &self,
        mask: &Mask,
        stop: &CancellationToken,
        runtime: Option<&Handle>,
    ) -> Result<Option<String>, StoreError> {
        let lock = self.directory.lock()?;
        let attempt = || {
            let store = self.directory.open(&lock)?;
            let pass = Pass {
                workspace: &self.workspace,
                store: &store,
                mask,
                stop,
                report: &|done, total| {
                    self.progress.send_modify(|progress| progress.files = Some((done, total)));
                },
            };
            if pass.run()? == PassEnd::Stopped {
                return Ok(None);
            }
            match ((self.embedders)(), runtime) {
                (Some(Ok(embedder)), Some(runtime)) => pass.embed(&*embedder, runtime),
                (Some(Err(fault)), _) => Ok(Some(fault)),
                _ => Ok(None),
            }
        };
        match attempt() {
            Err(StoreError::Damaged) => {
                self.directory.remove(&lock)?;
                self.report_damage();
                attempt()
            }
            ended => ended,
        }
    }
}

/// Lets everything else on this machine go first, but not so far that a search, which waits for a pass, gets nowhere beside
/// a build. On Linux alone a priority is a thread's.
fn lower_priority() {
    #[cfg(target_os = "linux")]
    {
        const NICE: i32 = 5;
        // It works at any priority.
        let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICE);
    }
}
