//! One request of a worker: from the claim to its result, or to the point from which another worker goes on.

use std::future::pending;
use std::path::PathBuf;
use std::sync::Arc;

use roo_durable::WorkspaceDirectory;
use roo_engine::engine::{Decider, Engine, EngineError, Follower};
use roo_engine::server_tools::DECLINE;
use roo_protocol::event::{Event, EventParams, OptionKind, QuestionKind};
use roo_protocol::ids::Digest;
use roo_protocol::task::{PendingApproval, QuestionAnswerParams, TaskSnapshot, TaskStartParams};
use roo_protocol::tree::TreeNode;
use roo_text::render::cut;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::checkout::{Checkout, CheckoutError};
use super::control::{self, Reply};
use super::git::GitFailure;
use super::places::{Place, Places};
use super::replica::{Replica, ReplicaError, patch_file};
use super::setup::{WhenAsked, WorkerSetup};
use super::submission::{Source, Submission};
use super::work_result::{PatchFile, WorkOutcome, WorkResult};
use crate::masking::Mask;
use crate::nats::{Appended, Claim, IncomingMessage, LogMessage, NatsError, Storage, Subscription};
use crate::view::{newest_tree, waits_for_user};

/// The largest bundle, in bytes.
pub(crate) const MAX_BUNDLE_BYTES: u64 = 512 << 20;
/// Number of times that the files are copied again because a call has ended meanwhile.
const COPIES: usize = 8;
/// The longest text of a result, in characters.
const TEXT: usize = 64 << 10;

/// How a worker leaves a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JobEnd {
    /// Its result is kept.
    Finished,
    /// Another worker goes on with it, at once.
    GivenBack,
    /// Another worker has claimed it.
    Lost,
}

/// Reasons why a worker can't go on with a request.
#[derive(Debug, thiserror::Error)]
pub(super) enum JobError {
    /// What was submitted can't be worked on, by no worker.
    #[error("{0}")]
    Submission(String),
    /// Git failed here and now: a repository can't be reached, or the disk is full.
    #[error(transparent)]
    Git(GitFailure),
    #[error("the checkout has no place: {0}")]
    Place(std::io::Error),
    /// The settings of this machine can't be used.
    #[error("{0}")]
    Settings(String),
    #[error(transparent)]
    Nats(#[from] NatsError),
    /// What the agents have left can't be passed on, by no worker.
    #[error("its files can't be passed on: {0}")]
    Files(CheckoutError),
    #[error(transparent)]
    Replica(ReplicaError),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error("its events can't be read: {0}")]
    Events(#[from] roo_durable::StoreError),
    #[error("the worker is ending")]
    Ending,
}

impl From<CheckoutError> for JobError {
    fn from(error: CheckoutError) -> Self {
        match error {
            CheckoutError::Files { source, .. } | CheckoutError::Git(GitFailure::Start(source)) => {
                Self::Place(source)
            }
            CheckoutError::Git(failure) => Self::Git(failure),
            CheckoutError::NoCommit(_)
            | CheckoutError::NotCommitted(_)
            | CheckoutError::NoRepository(_)
            | CheckoutError::Bundle(_)
            | CheckoutError::Login(_)
            | CheckoutError::Shallow => Self::Submission(error.to_string()),
        }
    }
}

impl From<ReplicaError> for JobError {
    fn from(error: ReplicaError) -> Self {
        match error {
            ReplicaError::Checkout(error) if error.is_lasting() => Self::Files(error),
            error => Self::Replica(error),
        }
    }
}

/// Reason why a request is no longer followed.
enum Stop {
    Ended,
    /// Nothing goes on without an answer.
    Unanswered(String),
    Drained,
    Lost,
}

/// A request of a worker.
pub(super) struct Job {
    pub(super) setup: Arc<WorkerSetup>,
    pub(super) storage: Storage,
    pub(super) places: Arc<Places>,
    pub(super) submission: Submission,
    /// Cancelled when the worker is told to end.
    pub(super) drain: CancellationToken,
}

impl Job {
    /// Works on the request.
    pub(super) async fn run(&self) -> Result<JobEnd, JobError> {
        let request = &self.submission.request;
        let claimed = self.storage.claim(request, &self.setup.name).await?;
        // The worker before may have ended between the result and the queue.
        if self.storage.has_result(request).await {
            return Ok(JobEnd::Finished);
        }
        // What is said meanwhile is carried out once it goes on.
        let connection = self.storage.connection();
        let mut controls = connection.subscribe(connection.prefix().control(request)).await?;
        let place = self.places.take(request).map_err(JobError::Place)?;
        let end = self.run_in(&place, claimed, &mut controls).await;
        // It may have many files.
        let _ = tokio::task::spawn_blocking(move || drop(place)).await;
        end
    }

    async fn run_in(
        &self,
        place: &Place,
        claimed: (Claim, Vec<LogMessage>),
        controls: &mut Subscription,
    ) -> Result<JobEnd, JobError> {
        let request = &self.submission.request;
        let bundle = place.private.join("bundle");
        if let Source::Bundle { file } = &self.submission.source {
            let mut copy = tokio::fs::File::create(&bundle).await.map_err(JobError::Place)?;
            self.storage.copy_file(file, MAX_BUNDLE_BYTES, &mut copy).await?;
            copy.flush().await.map_err(JobError::Place)?;
        }
        let Submission { source, commit, .. } = &self.submission;
        let checkout = Checkout::make(&place.folder, &place.private, source, &bundle, commit).await?;
        // All of it is in the repository; where the source is another one, there is none.
        let _ = tokio::fs::remove_file(&bundle).await;
        let directory = WorkspaceDirectory::new(&self.setup.state, &place.folder).request(request);
        let mut replica = Replica::restore(&self.storage, request, claimed, directory, &checkout).await?;
        let engine = self.open(place.folder.clone()).await?;
        let stop = self.follow(&engine, &mut replica, controls).await;
        engine.shutdown().await;
        engine.end_servers().await;
        let text = match stop? {
            Stop::Lost => return Ok(JobEnd::Lost),
            Stop::Drained => {
                // Nothing runs any more, so this is all.
                replica.copy_files().await?;
                let copied = replica.copy_log(u64::MAX).await?;
                return Ok(if copied == Appended::Lost { JobEnd::Lost } else { JobEnd::GivenBack });
            }
            Stop::Ended => None,
            Stop::Unanswered(text) => Some(text),
        };
        let result = self.result(&engine, &replica, &checkout, text).await?;
        let bytes = serde_json::to_vec(&result).unwrap_or_default();
        self.storage.publish_result(request, &bytes).await?;
        replica.forget().await;
        if let Source::Bundle { file } = &self.submission.source {
            self.storage.forget(file).await;
        }
        Ok(JobEnd::Finished)
    }

    async fn open(&self, folder: PathBuf) -> Result<Engine, JobError> {
        let (open, limits) = (Arc::clone(&self.setup.open), self.submission.limits);
        let opened = tokio::task::spawn_blocking(move || open(&folder, limits)).await;
        opened.map_err(|_| JobError::Ending)?.map_err(JobError::Settings)
    }

    /// Begins the request or lets it go on, and copies what happens until it stops.
    async fn follow(
        &self,
        engine: &Engine,
        replica: &mut Replica<'_>,
        controls: &mut Subscription,
    ) -> Result<Stop, JobError> {
        let request = &self.submission.request;
        let is_new = replica.seq() == 0;
        let told = self.storage.newest_event(request).await.min(replica.seq());
        let mask = mask(engine).await;
        if is_new {
            self.begin(engine).await?;
        } else if engine.get(request).await?.item.state.is_final() {
            let mut follower = engine.follow(request, told).await?;
            while follower.position() < follower.published() {
                let batch = follower.next(|| engine.now()).await?;
                self.tell(&batch, &mask).await?;
            }
            return Ok(Stop::Ended);
        } else {
            let (known, resumed) = engine.resume_and_read(request).await?;
            match resumed {
                // It was not interrupted.
                Ok(()) | Err(EngineError::WrongState { .. }) => {}
                Err(error) => return Err(error.into()),
            }
            for (_, approval) in &known.approvals {
                self.answer_approval(engine, approval).await;
            }
        }
        let mut follower = engine.follow(request, told).await?;
        let mut nodes: Vec<TreeNode> = vec![];
        let mut deadline: Option<Instant> = None;
        loop {
            let mut batch = tokio::select! {
                biased;
                () = self.drain.cancelled() => return Ok(Stop::Drained),
                Some(said) = controls.next() => {
                    self.control(engine, &said).await;
                    continue;
                }
                batch = follower.next(|| engine.now()) => batch?,
                () = until(deadline) => return Ok(Stop::Unanswered(self.unanswered(engine).await)),
            };
            if !self.copy(replica, &mut follower, engine, &mut batch).await? {
                return Ok(Stop::Lost);
            }
            self.tell(&batch, &mask).await?;
            if let Some(newest) = newest_tree(batch.iter().map(AsRef::as_ref)) {
                nodes = newest.to_vec();
            }
            for params in &batch {
                if self.is_end(params) {
                    return Ok(Stop::Ended);
                }
                self.answer(engine, params).await;
            }
            deadline = match waits_for_user(&nodes) && self.waits(engine, follower.position()).await {
                false => None,
                true if self.setup.when_asked == WhenAsked::Ask => {
                    deadline.or_else(|| Some(Instant::now() + self.setup.answer_time))
                }
                true => return Ok(Stop::Unanswered(self.unanswered(engine).await)),
            };
        }
    }

    async fn begin(&self, engine: &Engine) -> Result<(), JobError> {
        let Submission { request, prompt, mode, profile, .. } = self.submission.clone();
        let params = TaskStartParams { prompt, mode, profile, ..TaskStartParams::default() };
        // It reads the disk, and the engine isn't shared.
        let started = tokio::task::block_in_place(|| engine.start_as(request, params));
        match started {
            Ok(_) => Ok(()),
            Err(EngineError::Configuration(problem)) => Err(JobError::Submission(problem)),
            Err(error) => Err(error.into()),
        }
    }

    /// Copies what a batch of events tells of, and more where that has come meanwhile. Returns false where the request is
    /// another worker's.
    async fn copy(
        &self,
        replica: &mut Replica<'_>,
        follower: &mut Follower,
        engine: &Engine,
        batch: &mut Vec<Arc<EventParams>>,
    ) -> Result<bool, JobError> {
        if batch.iter().any(|params| changes_files(&params.event)) {
            for _ in 0..COPIES {
                replica.copy_files().await?;
                if follower.published() <= follower.position() {
                    break;
                }
                let more = follower.next(|| engine.now()).await?;
                let is_exact = !more.iter().any(|params| changes_files(&params.event));
                batch.extend(more);
                if is_exact {
                    break;
                }
            }
        }
        let last = batch.iter().filter_map(|params| params.seq).max();
        match last {
            Some(last) => Ok(replica.copy_log(last).await? == Appended::Kept),
            None => Ok(true),
        }
    }

    /// Tells those who follow the request.
    async fn tell(&self, batch: &[Arc<EventParams>], mask: &Mask) -> Result<(), JobError> {
        for params in batch {
            let Some(seq) = params.seq else { continue };
            let bytes = event_bytes(params, mask, self.storage.connection().largest_message());
            self.storage.publish_event(&self.submission.request, seq, &bytes).await?;
        }
        Ok(())
    }

    fn is_end(&self, params: &EventParams) -> bool {
        let is_final = matches!(&params.event, Event::TaskState { state, .. } if state.is_final());
        is_final && params.task_id == self.submission.request
    }

    async fn control(&self, engine: &Engine, said: &IncomingMessage) {
        let done =
            control::carry_out(engine, &self.submission.request, self.setup.when_asked, &said.payload).await;
        if let Err(error) = &done {
            tracing::warn!("a message to the request {} was refused: {error}", self.submission.request);
        }
        if let Err(error) = self.storage.connection().answer(said, Reply::to_bytes(done)).await {
            tracing::warn!("a message to a request was not answered: {error}");
        }
    }

    /// Answers what is left to nobody.
    async fn answer(&self, engine: &Engine, params: &EventParams) {
        match &params.event {
            Event::ApprovalRequested { approval } => self.answer_approval(engine, approval).await,
            // It is for a user alone. The call goes on, and the server is told.
            Event::QuestionAsked { question } if question.kind == QuestionKind::McpElicitation => {
                let question_id = question.question_id.clone();
                let answer = QuestionAnswerParams { question_id, text: DECLINE.to_owned(), images: vec![] };
                if let Err(error) = engine.answer(answer, Decider::Unattended).await {
                    tracing::warn!("a question of an MCP server was not declined: {error}");
                }
            }
            _ => {}
        }
    }

    async fn answer_approval(&self, engine: &Engine, approval: &PendingApproval) {
        let (kind, by) = match self.setup.when_asked {
            WhenAsked::Ask => return,
            WhenAsked::Deny => (OptionKind::RejectOnce, Decider::Unattended),
            WhenAsked::Allow => (OptionKind::AllowOnce, "--on-ask allow".into()),
        };
        let Some(answer) = approval.answer_by(kind) else { return };
        match engine.respond(answer, by).await {
            // It may be void by now.
            Ok(_) | Err(EngineError::NotFound { .. }) => {}
            Err(error) => tracing::warn!("an approval was not answered: {error}"),
        }
    }

    /// Returns whether nothing goes on without an answer. Where events have come after `position`, what they ask may be about to
    /// be answered.
    async fn waits(&self, engine: &Engine, position: u64) -> bool {
        let now = engine.resumable(&self.submission.request).await;
        now.is_ok_and(|now| now.seq <= position && waits_for_user(&now.nodes))
    }

    /// What nobody has answered.
    async fn unanswered(&self, engine: &Engine) -> String {
        let Ok(open) = engine.resumable(&self.submission.request).await else { return String::new() };
        let approvals =
            open.approvals.iter().map(|(_, approval)| format!("permission to {}", approval.title));
        let questions = open.questions.iter().map(|(_, question)| question.text.clone());
        format!("Nobody answered: {}", approvals.chain(questions).collect::<Vec<_>>().join("; "))
    }

    /// The result of a request that has stopped here for good. Its patch is kept.
    async fn result(
        &self,
        engine: &Engine,
        replica: &Replica<'_>,
        checkout: &Checkout,
        text: Option<String>,
    ) -> Result<WorkResult, JobError> {
        let request = self.submission.request.clone();
        let TaskSnapshot { item, result, reason, .. } = engine.get(&request).await?;
        let outcome = if text.is_some() { WorkOutcome::Unanswered } else { item.state.into() };
        let text = text.or(result).or(reason).unwrap_or_default();
        let text = mask(engine).await.masked(text);
        let patch = match replica.patch().await? {
            Some(patch) => {
                let file = patch_file(&request);
                self.storage.keep(&file, &patch).await;
                Some(PatchFile { file, size: patch.len() as u64, digest: Digest::of(&patch) })
            }
            None => None,
        };
        Ok(WorkResult {
            request,
            outcome,
            text: cut(&text, TEXT).into_owned(),
            commit: Some(checkout.commit().clone()),
            patch,
            usage: item.usage,
            worker: self.setup.name.clone(),
        })
    }
}

/// The mask of secrets of a workspace, as its settings want it. Reads the disk.
async fn mask(engine: &Engine) -> Mask {
    let folders: Vec<PathBuf> = engine.workspace().roots().paths().map(|path| path.to_path_buf()).collect();
    let enabled = engine.settings().await.redact_secrets;
    let read = move || Mask::new(enabled, folders.iter().map(PathBuf::as_path));
    // While the process ends nothing more is told.
    tokio::task::spawn_blocking(read).await.unwrap_or_default()
}

/// An event as JSON, with secrets masked; one that is too large for the server keeps its place and says so.
fn event_bytes(params: &EventParams, mask: &Mask, largest: usize) -> Vec<u8> {
    let mut value = serde_json::to_value(params).unwrap_or(Value::Null);
    mask.apply_to_texts(&mut value["event"]);
    let bytes = value.to_string().into_bytes();
    // Headers count, too.
    if bytes.len() + 1024 <= largest {
        return bytes;
    }
    value["event"] = json!({ "type": "omitted", "bytes": bytes.len() });
    value.to_string().into_bytes()
}

/// Returns whether a call has changed files by the time of an event.
fn changes_files(event: &Event) -> bool {
    matches!(
        event,
        Event::ToolFinished { .. }
            | Event::EditApplied { .. }
            | Event::CommandBackgrounded { .. }
            | Event::CommandEnded { .. }
            | Event::RestoreFinished { .. }
    )
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use roo_protocol::ids::TaskId;

    use super::*;
    use crate::worker::checkout;
    use crate::worker::git::git;
    use crate::worker::submission::CommitId;

    #[tokio::test]
    async fn only_what_no_worker_could_work_on_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let repository = path("repository");
        fs::create_dir(&repository).unwrap();
        let commit =
            ["-c", "user.name=A", "-c", "user.email=a@b.c", "commit", "-q", "--allow-empty", "-m", "One"];
        for arguments in [&["init", "-q"][..], &commit] {
            git(&repository, arguments, &[], &[], 1024).await.unwrap();
        }
        let there = checkout::commit(&repository, "HEAD").await.unwrap();
        let missing = CommitId::parse(&"1".repeat(40)).unwrap();
        fs::write(path("bundle"), "no bundle").unwrap();
        let bundle = Source::Bundle { file: String::new() };
        let at = |path: PathBuf| Source::Repository { url: format!("file://{}", path.display()) };
        let mut number = 0;
        let mut reason = async |source: &Source, commit: &CommitId, folder: &str| {
            number += 1;
            let private = path(&format!("private-{number}"));
            fs::create_dir(&private).unwrap();
            let made = Checkout::make(&path(folder), &private, source, &path("bundle"), commit).await;
            JobError::from(made.err().unwrap())
        };
        for (source, commit) in [(at(repository.clone()), &missing), (bundle, &there)] {
            let reason = reason(&source, commit, "work").await;
            assert!(matches!(reason, JobError::Submission(_)), "{reason}");
        }
        // As while its host can't be reached, and where there is no place on the disk.
        for (source, folder) in [(at(path("gone")), "work"), (at(repository), "bundle/work")] {
            let reason = reason(&source, &there, folder).await;
            assert!(matches!(reason, JobError::Git(_)), "{reason}");
        }
    }

    #[test]
    fn an_event_that_is_too_large_keeps_its_place() {
        let task = TaskId::new("t");
        let event = Event::ServerDegraded { reason: "x".repeat(2000), until: None };
        let params =
            EventParams { root_id: task.clone(), task_id: task, seq: Some(3), from: None, at: 5, event };
        let whole: EventParams =
            serde_json::from_slice(&event_bytes(&params, &Mask::default(), 1 << 20)).unwrap();
        assert_eq!(whole, params);
        let omitted: EventParams =
            serde_json::from_slice(&event_bytes(&params, &Mask::default(), 2048)).unwrap();
        assert_eq!((omitted.seq, omitted.event), (Some(3), Event::Unknown));
    }
}
