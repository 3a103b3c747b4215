//! Questions to the customization of a workspace.

use std::sync::Arc;

use tower_lsp::jsonrpc::{Error, Result};

use crate::server::services::WorkspaceServices;
use roo_engine::customization::Customization;

/// Asks something that reads the disk.
pub(in crate::server) async fn ask<T: Send + 'static>(
    services: &WorkspaceServices,
    question: impl FnOnce(&Customization) -> T + Send + 'static,
) -> Result<T> {
    let customization = Arc::clone(&services.customization);
    let answer = tokio::task::spawn_blocking(move || question(&customization)).await;
    answer.map_err(|_| Error::internal_error())
}
