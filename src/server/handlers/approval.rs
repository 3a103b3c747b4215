//! `roo/approval/*`.

use tower_lsp::jsonrpc::Result;

use super::{Params, Server};
use crate::server::{customization, engine_failure};
use roo_protocol::task::{
    AnswerResult, ApprovalListParams, ApprovalListResult, ApprovalPreviewParams, ApprovalPreviewResult,
    ApprovalRespondParams,
};

pub(super) async fn respond(
    server: &Server,
    Params(params): Params<ApprovalRespondParams>,
) -> Result<AnswerResult> {
    let services = server.session.typed().await?;
    customization::respond(&server.session, services, params)
        .await
        .map_err(|error| engine_failure(&error, None))
}

pub(super) async fn list(
    server: &Server,
    Params(ApprovalListParams {}): Params<ApprovalListParams>,
) -> Result<ApprovalListResult> {
    let services = server.session.typed().await?;
    let approvals = services.engine.waiting_approvals().await;
    approvals.map(|approvals| ApprovalListResult { approvals }).map_err(|error| engine_failure(&error, None))
}

pub(super) async fn preview(
    server: &Server,
    Params(params): Params<ApprovalPreviewParams>,
) -> Result<ApprovalPreviewResult> {
    let services = server.session.typed().await?;
    let files = services.engine.preview(&params.approval_id).await;
    files.map(|files| ApprovalPreviewResult { files }).map_err(|error| engine_failure(&error, None))
}
