//! What a worker is told when it is started.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use roo_engine::engine::Engine;

use super::repository_address::RepositoryAddress;
use super::submission::SubmittedLimits;
use crate::nats::QueueName;

/// What is done when permission is asked and settings don't answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WhenAsked {
    /// Whoever may write to the request's control subject answers.
    Ask,
    Deny,
    Allow,
}

/// Opens the engine of a folder, with the limits of a submission where they are tighter than the settings. Reads the disk.
pub(crate) type OpenWorkspace = Arc<dyn Fn(&Path, SubmittedLimits) -> Result<Engine, String> + Send + Sync>;

pub(crate) struct WorkerSetup {
    /// Its name, for people.
    pub(crate) name: String,
    pub(crate) queue: QueueName,
    /// Directory for checkouts.
    pub(crate) directory: PathBuf,
    /// The user's state directory. Commands don't see into it.
    pub(crate) state: PathBuf,
    /// Number of requests at once.
    pub(crate) jobs: usize,
    pub(crate) when_asked: WhenAsked,
    /// Time to wait for an answer, once nothing in a request goes on without one.
    pub(crate) answer_time: Duration,
    /// Time after which work of which nothing is heard is given to another worker.
    pub(crate) patience: Duration,
    /// Number of workers that may try the same work.
    pub(crate) deliveries: u64,
    /// Addresses of repositories that may be cloned, with all that is below them.
    pub(crate) repositories: Vec<RepositoryAddress>,
    pub(crate) open: OpenWorkspace,
}
