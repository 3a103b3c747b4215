//! Modes and trust for clients: questions to [`roo_engine::customization`] where they may block.

use std::sync::Arc;

use tower_lsp::jsonrpc::{Error, Result};

use super::session::{Connection, Session};
use super::{config_files, failure};
use roo_engine::customization::{Customization, Grant, TrustError};
use roo_engine::engine::EngineError;
use roo_protocol::customization::TrustReport;
use roo_protocol::error::ErrorKind;
use roo_protocol::task::{AnswerResult, ApprovalRespondParams};

/// Asks something that reads the disk.
pub(super) async fn ask<T: Send + 'static>(
    house: &Connection,
    question: impl FnOnce(&Customization) -> T + Send + 'static,
) -> Result<T> {
    let customization = Arc::clone(&house.customization);
    let answer = tokio::task::spawn_blocking(move || question(&customization)).await;
    answer.map_err(|_| Error::internal_error())
}

/// Grants trust, and shows what is then wrong with the files that count.
pub(super) async fn grant(
    session: &Arc<Session>,
    house: &Arc<Connection>,
    grant: Grant,
) -> Result<TrustReport> {
    changed(session, house, move |customization| customization.grant(&grant)).await
}

/// Answers an approval. Where the answer trusts the workspace, what is wrong with the files that count now is shown.
pub(super) async fn respond(
    session: &Arc<Session>,
    house: &Arc<Connection>,
    params: ApprovalRespondParams,
) -> std::result::Result<AnswerResult, EngineError> {
    let was_trusted = house.customization.is_trusted();
    let answer = house.engine.respond(params, session.client_name()).await?;
    if !was_trusted && house.customization.is_trusted() {
        refresh(session, house);
    }
    Ok(answer)
}

/// Takes back the trust.
pub(super) async fn revoke(session: &Arc<Session>, house: &Arc<Connection>) -> Result<TrustReport> {
    changed(session, house, Customization::revoke).await
}

async fn changed(
    session: &Arc<Session>,
    house: &Arc<Connection>,
    change: impl FnOnce(&Customization) -> std::result::Result<TrustReport, TrustError> + Send + 'static,
) -> Result<TrustReport> {
    let report = ask(house, change).await?.map_err(|error| {
        let (kind, hint) = match &error {
            TrustError::NoFolder => (ErrorKind::WrongState, "Open a folder."),
            TrustError::NothingPending { .. } | TrustError::Broken { .. } => {
                (ErrorKind::NotFound, "roo/trust/get shows what waits.")
            }
            TrustError::NotTrusted { .. } => (ErrorKind::NotFound, "Trust the workspace first."),
            TrustError::Changed { .. } | TrustError::BringsOther => {
                (ErrorKind::Mismatch, "Show the file again and ask again.")
            }
            TrustError::Damaged { .. } | TrustError::Replaced | TrustError::Write { .. } => {
                (ErrorKind::Storage, "Look at the disk and the rights of the state directory.")
            }
        };
        failure(kind, error.to_string(), None, hint)
    })?;
    refresh(session, house);
    Ok(report)
}

fn refresh(session: &Arc<Session>, house: &Arc<Connection>) {
    let (this, house) = (Arc::clone(session), Arc::clone(house));
    session.spawn(async move { config_files::refresh(&this, &house).await });
}
