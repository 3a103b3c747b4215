//! `roo/trace/*`.

use tower_lsp::jsonrpc::{Error, Result};

use super::{Params, Server};
use crate::server::failure;
use roo_protocol::error::ErrorKind;
use roo_protocol::trace::{TraceOutcome, TraceQueryParams, TraceQueryResult};
use roo_trace::query::{self, Filter};
use roo_trace::record::Outcome;

/// The most records of an answer: where nothing is said, and at all.
const LIMITS: (usize, usize) = (100, 1000);

pub(super) async fn query(
    server: &Server,
    Params(params): Params<TraceQueryParams>,
) -> Result<TraceQueryResult> {
    let services = server.session.typed().await?;
    let directory = services.directory.path().to_owned();
    let filter = filter(params);
    let found = tokio::task::spawn_blocking(move || query::query(&directory, &filter)).await;
    let records = found.map_err(|_| Error::internal_error())?.map_err(|error| {
        let message = format!("the trace can't be read: {error}");
        failure(ErrorKind::Storage, message, None, "Run `roo-lsp trace verify`.")
    })?;
    let records = records.into_iter().map(serde_json::to_value).collect::<std::result::Result<_, _>>();
    Ok(TraceQueryResult { records: records.map_err(|_| Error::internal_error())? })
}

fn filter(params: TraceQueryParams) -> Filter {
    let TraceQueryParams { intent_id, task_id, urid, mode, model, path, outcome, since, until, limit } =
        params;
    Filter {
        intent: intent_id,
        task: task_id,
        urid,
        mode,
        model,
        path,
        outcome: outcome.map(|outcome| match outcome {
            TraceOutcome::Ok => Outcome::Ok,
            TraceOutcome::Denied => Outcome::Denied,
            TraceOutcome::Failed => Outcome::Failed,
            TraceOutcome::ScopeViolation => Outcome::ScopeViolation,
            TraceOutcome::Interrupted => Outcome::Interrupted,
        }),
        since,
        until,
        limit: Some(limit.unwrap_or(LIMITS.0).min(LIMITS.1)),
    }
}
