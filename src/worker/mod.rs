//! Work for other machines: submitting a request to a queue in NATS, and the worker that carries it out.
//!
//! A worker runs the same engine as every front end, over a checkout of its own. It copies the request's log into a stream as
//! it grows, and with it what the request has changed, so another worker goes on where one has died ([`replica`]). What a
//! submission asks for is judged by the settings of the worker's machine: whoever may submit may have agents work there, and
//! approves nothing by that.

mod checkout;
mod control;
mod git;
mod job;
mod patch;
mod places;
mod replica;
mod repository_address;
mod server;
mod setup;
mod submission;
mod work_result;

pub(crate) use self::checkout::{bundle, commit};
pub(crate) use self::control::{Control, Reply, counts_once};
pub(crate) use self::job::MAX_BUNDLE_BYTES;
pub(crate) use self::patch::{ApplyError, apply, repository_top};
pub(crate) use self::repository_address::RepositoryAddress;
pub(crate) use self::server::serve;
pub(crate) use self::setup::{WhenAsked, WorkerSetup};
pub(crate) use self::submission::{CommitId, Source, Submission, SubmittedLimits};
pub(crate) use self::work_result::{MAX_PATCH_BYTES, WorkOutcome, WorkResult};
