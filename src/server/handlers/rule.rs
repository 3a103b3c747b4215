//! `roo/rule/*`.

use tower_lsp::jsonrpc::Result;

use super::{Params, Server};
use crate::server::failure;
use roo_engine::approvals::RuleError;
use roo_protocol::error::ErrorKind;
use roo_protocol::rule::{RuleListParams, RuleListResult, RuleRevokeParams};
use roo_protocol::task::Done;

pub(super) async fn list(
    server: &Server,
    Params(RuleListParams {}): Params<RuleListParams>,
) -> Result<RuleListResult> {
    let services = server.session.typed().await?;
    services.engine.rules().list().map(|rules| RuleListResult { rules }).map_err(|error| refused(&error))
}

pub(super) async fn revoke(server: &Server, Params(params): Params<RuleRevokeParams>) -> Result<Done> {
    let services = server.session.typed().await?;
    services.engine.rules().revoke(&params.rule_id).map_err(|error| refused(&error))?;
    Ok(Done {})
}

fn refused(error: &RuleError) -> tower_lsp::jsonrpc::Error {
    let (kind, hint) = match error {
        RuleError::Unknown(_) => (ErrorKind::NotFound, "roo/rule/list lists them."),
        RuleError::Io { .. } => (ErrorKind::Storage, "Correct or remove that file."),
    };
    failure(kind, error.to_string(), None, hint)
}
