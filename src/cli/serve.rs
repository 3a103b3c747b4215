//! `roo-lsp serve`: the language server.

use super::CliError;
use super::arguments::{Common, Serve};

/// Serves one client and returns the process's exit code.
pub(super) async fn serve(common: Common, _: Serve) -> Result<i32, CliError> {
    crate::server::serve_stdio(common.config).await.map_err(|error| CliError::Other(error.to_string()))
}
