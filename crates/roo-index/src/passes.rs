//! Passes over the workspace on a thread of their own, one after another, the making of vectors between them, and waiting
//! for both.
//!
//! Nothing runs and nothing is open while nobody wants a pass and all vectors are there.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::embedder::EmbedderSource;
use super::embedding::{Embedding, EmbeddingContext, EmbeddingEnd};
use super::pass::{IndexedFile, Mask, Pass, PassEnd};
use super::store::{IndexDirectory, StoreError};
use roo_workspace::Workspace;

/// Time limit for the end of what runs, once it is to stop: it may be reading from a file system that does not answer.
const STOP: Duration = Duration::from_secs(5);

/// Requests to an embedder after which nobody waits for the rest.
const AWAITED_REQUESTS: usize = 4;

/// Progress of the passes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    /// Number of passes that have ended.
    pub(crate) ended: u64,
    /// Files that are up to date, and of all; none while nothing runs.
    pub(crate) files: Option<(usize, usize)>,
    /// Reason why the last pass did not reach its end.
    pub(crate) fault: Option<Arc<StoreError>>,
    /// True if a damaged index was removed since somebody was told.
    pub(crate) was_damaged: bool,
    /// Number of requests that the embedder has answered since the last pass; none when there is nothing to ask it.
    pub(crate) embedding: Option<usize>,
    /// Reason why the embedder did not serve when it was asked last.
    pub(crate) embedder_fault: Option<String>,
}

/// The passes of one workspace.
pub(crate) struct Passes {
    pub(crate) workspace: Arc<Workspace>,
    pub(crate) directory: IndexDirectory,
    embedders: EmbedderSource,
    state: Mutex<State>,
    /// Number of passes that have been asked for. Changed under the lock of the state.
    wanted: watch::Sender<u64>,
    /// Changed under the lock of the state where it counts the passes.
    progress: watch::Sender<Progress>,
}

/// What the thread of the passes is doing, with what stops it.
#[derive(Default)]
enum Stage {
    /// There is no thread.
    #[default]
    Idle,
    /// A pass is about to begin, or has ended: vectors may be being made.
    BetweenPasses(CancellationToken),
    /// A pass has begun.
    InPass(CancellationToken),
}

#[derive(Default)]
struct State {
    stage: Stage,
    /// What masks secrets from the next pass on; none where that is as before.
    mask: Option<Mask>,
    /// Files that the next pass takes in whether they have changed or not.
    retaken: HashSet<IndexedFile>,
}

impl Passes {
    pub(crate) fn new(workspace: Arc<Workspace>, directory: PathBuf, embedders: EmbedderSource) -> Self {
        Self {
            workspace,
            directory: IndexDirectory::new(directory),
            embedders,
            state: Mutex::default(),
            wanted: watch::Sender::default(),
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
        // The running one may have passed by what has changed since; one more does for all who wait.
        let is_in_pass = matches!(state.stage, Stage::InPass(_));
        let wanted = self.progress.borrow().ended + 1 + u64::from(is_in_pass);
        self.wanted.send_replace(wanted);
        match state.stage {
            Stage::Idle => self.start(&mut state, mask),
            Stage::BetweenPasses(_) | Stage::InPass(_) => state.mask = Some(Arc::clone(mask)),
        }
        (wanted, self.progress.subscribe())
    }

    /// Starts the thread of the passes.
    fn start(self: &Arc<Self>, state: &mut State, mask: &Mask) {
        let stop = CancellationToken::new();
        state.stage = Stage::BetweenPasses(stop.clone());
        self.progress.send_modify(|progress| progress.files = Some((0, 0)));
        let (passes, mask, runtime) = (Arc::clone(self), Arc::clone(mask), Handle::try_current().ok());
        let work = move || passes.work(mask, &stop, runtime.as_ref());
        if let Err(source) = thread::Builder::new().name("roo-index".to_owned()).spawn(work) {
            self.finish(state, Some(StoreError::Io { path: PathBuf::from("a thread"), source }));
        }
    }

    /// Has the next pass take in these files whether they have changed or not.
    pub(crate) fn retake(&self, files: HashSet<IndexedFile>) {
        self.state().retaken.extend(files);
    }

    /// Waits until no vectors are being made, or so many that it would take long. Returns whether none are.
    pub(crate) async fn wait_for_embedding(&self) -> bool {
        let mut progress = self.progress.subscribe();
        let is_over =
            |progress: &Progress| progress.embedding.is_none_or(|answered| answered >= AWAITED_REQUESTS);
        // The sender lives as long as this.
        progress.wait_for(is_over).await.is_ok_and(|progress| progress.embedding.is_none())
    }

    /// Waits until nothing runs.
    pub(crate) async fn idle(&self) {
        // As above.
        let _ = self.progress.subscribe().wait_for(|progress| progress.files.is_none()).await;
    }

    /// Stops what runs, and waits until it has ended, for a few seconds at most.
    pub(crate) async fn stop(&self) {
        match &self.state().stage {
            Stage::Idle => {}
            Stage::BetweenPasses(stop) | Stage::InPass(stop) => stop.cancel(),
        }
        if timeout(STOP, self.idle()).await.is_err() {
            tracing::warn!("the index of the workspace is still being built, though it was stopped");
        }
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
        tracing::warn!("the index of the workspace was damaged; it is being rebuilt");
        self.progress.send_modify(|progress| progress.was_damaged = true);
    }

    /// Runs passes until no further one is wanted, and has vectors made between them.
    fn work(&self, mut mask: Mask, stop: &CancellationToken, runtime: Option<&Handle>) {
        lower_priority();
        let _unwinding = Unwinding(self);
        let mut embedding = Embedding::default();
        loop {
            let retaken = self.begin_pass(&mut mask, stop);
            let passed = self.pass(&mask, &retaken, stop);
            self.end_pass(passed, stop);
            if self.progress().embedding.is_some() {
                self.embed(&mut embedding, &mask, stop, runtime);
            }
            let mut state = self.state();
            if stop.is_cancelled() || *self.wanted.borrow() <= self.progress.borrow().ended {
                return self.finish(&mut state, None);
            }
        }
    }

    /// Returns the files that the pass has to take in, and replaces the mask if there is a newer one.
    fn begin_pass(&self, mask: &mut Mask, stop: &CancellationToken) -> HashSet<IndexedFile> {
        let mut state = self.state();
        state.stage = Stage::InPass(stop.clone());
        // What the pass before counted is not what this one has done.
        self.progress.send_modify(|progress| progress.files = Some((0, 0)));
        if let Some(newer) = state.mask.take() {
            *mask = newer;
        }
        std::mem::take(&mut state.retaken)
    }

    fn end_pass(&self, passed: Result<PassEnd, StoreError>, stop: &CancellationToken) {
        if let Err(fault) = &passed {
            tracing::warn!(error = %fault, "the index of the workspace is not up to date");
        }
        let mut state = self.state();
        state.stage = Stage::BetweenPasses(stop.clone());
        self.progress.send_modify(|progress| {
            progress.ended += 1;
            // Said at once with the end of the pass, so that nobody sees a time in between.
            progress.embedding = (passed.is_ok() && !stop.is_cancelled()).then_some(0);
            progress.fault = passed.err().map(Arc::new);
        });
    }

    /// Ends what runs. Whoever still waits for a pass gets the reason.
    fn finish(&self, state: &mut State, fault: Option<StoreError>) {
        (state.stage, state.mask) = (Stage::Idle, None);
        let wanted = *self.wanted.borrow();
        self.progress.send_modify(|progress| {
            progress.ended = progress.ended.max(wanted);
            progress.files = None;
            progress.embedding = None;
            if let Some(fault) = fault {
                progress.fault = Some(Arc::new(fault));
            }
        });
    }

    /// Runs a pass, from the start where the index turns out to be damaged.
    fn pass(
        &self,
        mask: &Mask,
        retaken: &HashSet<IndexedFile>,
        stop: &CancellationToken,
    ) -> Result<PassEnd, StoreError> {
        let lock = self.directory.lock()?;
        let attempt = || {
            let store = self.directory.open(&lock)?;
            let pass = Pass {
                workspace: &self.workspace,
                store: &store,
                mask,
                retaken,
                stop,
                report: &|done, total| {
                    self.progress.send_modify(|progress| progress.files = Some((done, total)));
                },
            };
            pass.run()
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

    /// Has the embedder make vectors until all texts have one, or until another pass is wanted.
    fn embed(
        &self,
        embedding: &mut Embedding,
        mask: &Mask,
        stop: &CancellationToken,
        runtime: Option<&Handle>,
    ) {
        let ended = self.progress.borrow().ended;
        let interrupted = || {
            let mut wanted = self.wanted.subscribe();
            async move {
                tokio::select! {
                    () = stop.cancelled() => {}
                    // The sender lives as long as this.
                    _ = wanted.wait_for(|wanted| *wanted > ended) => {}
                }
            }
        };
        let fault = match ((self.embedders)(), runtime) {
            (Some(Ok(embedder)), Some(runtime)) => {
                let context = EmbeddingContext {
                    workspace: &self.workspace,
                    directory: &self.directory,
                    mask,
                    embedder: &embedder,
                    runtime,
                    report: &|answered| {
                        self.progress.send_modify(|progress| progress.embedding = Some(answered));
                    },
                };
                match embedding.run(&context, interrupted) {
                    Ok(EmbeddingEnd::Complete) => None,
                    Ok(EmbeddingEnd::Fault(fault)) => Some(fault),
                    // The next pass tells how it goes on.
                    Ok(EmbeddingEnd::Interrupted) => return,
                    Err(fault) => Some(fault.to_string()),
                }
            }
            (Some(Err(fault)), _) => Some(fault),
            _ => None,
        };
        self.progress.send_modify(|progress| {
            progress.embedding = None;
            progress.embedder_fault = fault;
        });
    }
}

/// Tells those who wait where the thread of the passes panics.
struct Unwinding<'a>(&'a Passes);

impl Drop for Unwinding<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.finish(&mut self.0.state(), Some(StoreError::Panicked));
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
