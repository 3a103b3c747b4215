//! `roo/trust/*`.

use tower_lsp::jsonrpc::{Error, Result};

use super::{Params, Server};
use crate::server::customization;
use roo_engine::customization::{Grant, PROJECT_HOOKS, PROJECT_MCP};
use roo_protocol::customization::{TrustGrantParams, TrustParams, TrustReport};

pub(super) async fn get(server: &Server, Params(TrustParams {}): Params<TrustParams>) -> Result<TrustReport> {
    let services = server.session.typed().await?;
    customization::ask(services, |customization| customization.trust()).await
}

pub(super) async fn grant(server: &Server, Params(params): Params<TrustGrantParams>) -> Result<TrustReport> {
    let services = server.session.typed().await?;
    let grant = match (params.path, params.digest) {
        (None, None) if !params.refuse => Grant::Workspace,
        (Some(path), Some(digest)) if !params.refuse => Grant::File { path, digest: Some(digest) },
        (Some(path), Some(digest)) if ![PROJECT_HOOKS, PROJECT_MCP].contains(&&*path) => {
            Grant::RefusedDelegation { digest }
        }
        (Some(_), Some(_)) => return Err(Error::invalid_params("only delegation can be refused")),
        _ => return Err(Error::invalid_params("path and digest come together")),
    };
    customization::grant(&server.session, services, grant).await
}

pub(super) async fn revoke(
    server: &Server,
    Params(TrustParams {}): Params<TrustParams>,
) -> Result<TrustReport> {
    let services = server.session.typed().await?;
    customization::revoke(&server.session, services).await
}
