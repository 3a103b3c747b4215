//! Modes, commands and trust for clients: questions to [`roo_engine::customization`] where they may block.

mod question;
mod server_prompts;

use std::sync::Arc;

use tower_lsp::jsonrpc::Result;

pub(super) use self::question::ask;
pub(super) use self::server_prompts::server_prompts;
use super::session::{Session, WorkspaceServices};
use super::{config_files, failure};
use roo_engine::customization::{Customization, Grant, TrustError};
use roo_engine::engine::EngineError;
use roo_protocol::customization::TrustReport;
use roo_protocol::error::ErrorKind;
use roo_protocol::task::{AnswerResult, ApprovalRespondParams};

/// Grants trust, and shows what is then wrong with the files that count.
pub(super) async fn grant(
    session: &Arc<Session>,
    services: &Arc<WorkspaceServices>,
    grant: Grant,
) -> Result<TrustReport> {
    changed(session, services, move |customization| customization.grant(&grant)).await
}

/// Answers an approval. Where the answer trusts the workspace, what is wrong with the files that count now is shown.
pub(super) async fn respond(
    session: &Arc<Session>,
    services: &Arc<WorkspaceServices>,
    params: ApprovalRespondParams,
) -> std::result::Result<AnswerResult, EngineError> {
    let was_trusted = services.customization.is_trusted();
    let answer = services.engine.respond(params, session.decider()).await?;
    if !was_trusted && services.customization.is_trusted() {
        trust_changed(session, services);
    }
    Ok(answer)
}

/// Takes back the trust.
pub(super) async fn revoke(session: &Arc<Session>, services: &Arc<WorkspaceServices>) -> Result<TrustReport> {
    changed(session, services, Customization::revoke).await
}

async fn changed(
    session: &Arc<Session>,
    services: &Arc<WorkspaceServices>,
    change: impl FnOnce(&Customization) -> std::result::Result<TrustReport, TrustError> + Send + 'static,
) -> Result<TrustReport> {
    let report = ask(services, change).await?.map_err(|error| {
        let (kind, hint) = match &error {
            TrustError::NoFolder => (ErrorKind::WrongState, "Open a folder."),
            TrustError::NothingPending { .. } | TrustError::Broken { .. } => {
                (ErrorKind::NotFound, "roo/trust/get shows what waits for approval.")
            }
            TrustError::NotTrusted { .. } => (ErrorKind::NotFound, "Trust the workspace first."),
            TrustError::Changed { .. } | TrustError::BringsOther => {
                (ErrorKind::Mismatch, "Show the file again and repeat the request.")
            }
            TrustError::Damaged { .. } | TrustError::Replaced | TrustError::Write { .. } => {
                (ErrorKind::Storage, "Check the disk and the permissions of the state directory.")
            }
        };
        failure(kind, error.to_string(), None, hint)
    })?;
    trust_changed(session, services);
    Ok(report)
}

/// Takes away the question about trust, and shows what is wrong with the files that count now.
fn trust_changed(session: &Arc<Session>, services: &Arc<WorkspaceServices>) {
    session.trust_changes.send_replace(());
    let (this, services) = (Arc::clone(session), Arc::clone(services));
    session.spawn(async move { config_files::refresh(&this, &services).await });
}
