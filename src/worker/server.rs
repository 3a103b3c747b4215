//! A worker: it takes work from its queue, as much as it has room for, until it is told to end.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::job::{Job, JobEnd, JobError};
use super::places::Places;
use super::setup::WorkerSetup;
use super::submission::Submission;
use super::work_result::{WorkOutcome, WorkResult};
use crate::nats::{NatsError, Storage, WorkItem};
use roo_protocol::ids::TaskId;
use roo_text::render::counted;

/// Time after which work is tried again that failed for a reason of this machine.
const LATER: Duration = Duration::from_secs(10);
/// Time for what is under way when the worker is told to end. A server that is away would keep it longer.
const GRACE: Duration = Duration::from_secs(20);

/// Works until it is told to end. Requests that run then are given back: another worker goes on with them.
///
/// # Errors
/// [`NatsError`] when the queue or the directory for checkouts can't be opened.
pub(crate) async fn serve(
    storage: Storage,
    setup: WorkerSetup,
    drain: CancellationToken,
) -> Result<(), NatsError> {
    let places = Places::open(&setup.directory, &setup.state).map_err(|source| NatsError::File {
        what: "directory for checkouts",
        path: setup.directory.clone(),
        source,
    })?;
    let (setup, places) = (Arc::new(setup), Arc::new(places));
    let queue = storage.work_queue(&setup.queue, setup.patience).await?;
    let (slots, jobs) = (Arc::new(Semaphore::new(setup.jobs)), TaskTracker::new());
    loop {
        let next = async {
            // It is never closed.
            let slot = Arc::clone(&slots).acquire_owned().await.ok()?;
            Some((slot, queue.next().await))
        };
        let Some(Some((slot, item))) = drain.run_until_cancelled(next).await else { break };
        let worker = Worker {
            storage: storage.clone(),
            setup: Arc::clone(&setup),
            places: Arc::clone(&places),
            drain: drain.clone(),
        };
        jobs.spawn(async move {
            worker.work(item).await;
            drop(slot);
        });
    }
    jobs.close();
    jobs.wait().await;
    storage.connection().flush().await;
    Ok(())
}

/// What is needed for one request.
struct Worker {
    storage: Storage,
    setup: Arc<WorkerSetup>,
    places: Arc<Places>,
    drain: CancellationToken,
}

impl Worker {
    async fn work(self, item: WorkItem) {
        let item = Arc::new(item);
        let done = CancellationToken::new();
        let kept = tokio::spawn(keep(Arc::clone(&item), self.setup.patience / 3, done.clone()));
        self.carry_out(&item).await;
        done.cancel();
        // It ends by itself.
        let _ = kept.await;
    }

    async fn carry_out(&self, item: &WorkItem) {
        let submission = match Submission::parse(item.submission(), &self.setup.repositories) {
            Ok(submission) => submission,
            Err(error) => {
                tracing::warn!("work was refused: {error}");
                self.conclude(item, item.request(), WorkOutcome::Refused, error.to_string()).await;
                return;
            }
        };
        let request = submission.request.clone();
        if item.deliveries() > self.setup.deliveries {
            let times = counted(item.deliveries() - 1, "time");
            let text = format!("It was begun {times}, and never came to its end.");
            self.conclude(item, Some(request), WorkOutcome::Failed, text).await;
            return;
        }
        let job = Job {
            setup: Arc::clone(&self.setup),
            storage: self.storage.clone(),
            places: Arc::clone(&self.places),
            submission,
            drain: self.drain.clone(),
        };
        let too_late = async {
            self.drain.cancelled().await;
            tokio::time::sleep(GRACE).await;
        };
        let end = tokio::select! {
            end = job.run() => end,
            () = too_late => Err(JobError::Ending),
        };
        match end {
            Ok(JobEnd::Finished) => item.finish().await,
            Ok(JobEnd::GivenBack) | Err(JobError::Ending) => item.give_back(None).await,
            Ok(JobEnd::Lost) => tracing::warn!("another worker has taken over the request {request}"),
            Err(JobError::Submission(problem)) => {
                tracing::warn!("the request {request} was refused: {problem}");
                self.conclude(item, Some(request), WorkOutcome::Refused, problem).await;
            }
            Err(error @ JobError::Files(_)) => {
                tracing::warn!("the request {request} has failed: {error}");
                self.conclude(item, Some(request), WorkOutcome::Failed, error.to_string()).await;
            }
            // Whoever waits for it learns why.
            Err(error) if item.deliveries() == self.setup.deliveries => {
                tracing::warn!("the request {request} is not tried again: {error}");
                let times = counted(item.deliveries(), "time");
                let text =
                    format!("It was begun {times}, and never came to its end. The last reason: {error}");
                self.conclude(item, Some(request), WorkOutcome::Failed, text).await;
            }
            Err(error) => {
                tracing::warn!("the request {request} is tried again later: {error}");
                item.give_back(Some(LATER)).await;
            }
        }
    }

    /// Ends work without an agent.
    async fn conclude(&self, item: &WorkItem, request: Option<TaskId>, outcome: WorkOutcome, text: String) {
        // Without an id nobody waits for it.
        if let Some(request) = request {
            let result = WorkResult::not_begun(request.clone(), outcome, text, &self.setup.name);
            let bytes = serde_json::to_vec(&result).unwrap_or_default();
            if let Err(error) = self.storage.publish_result(&request, &bytes).await {
                tracing::warn!("the result of the request {request} was not kept: {error}");
            }
        }
        item.finish().await;
    }
}

/// Says now and then that this worker is still at it.
async fn keep(item: Arc<WorkItem>, every: Duration, done: CancellationToken) {
    let mut ticks = tokio::time::interval(every);
    // The first one is at once.
    ticks.tick().await;
    while done.run_until_cancelled(ticks.tick()).await.is_some() {
        item.keep().await;
    }
}
