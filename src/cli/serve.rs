//! `roo-lsp serve`: the language server.

use std::io::{self, IsTerminal as _, Write as _};

use super::CliError;
use super::arguments::{Common, Serve};
use super::signals::Signals;
use crate::daemon::{Relayed, relay};
use roo_formats::config::Directories;

/// Serves one client, by the user's daemon if that is wanted, and returns the process's exit code.
pub(super) async fn serve(common: Common, serve: Serve) -> Result<i32, CliError> {
    if io::stdin().is_terminal() {
        // Whoever typed the name to see what it is would wait in vain.
        let _ = writeln!(
            io::stderr(),
            "roo-lsp: this is a language server for editors; roo-lsp --help says more."
        );
    }
    let mut signals = Signals::listen()?;
    let mut notice = None;
    if serve.daemon {
        let directories = Directories::from_environment(|name| std::env::var_os(name))
            .map_err(|error| CliError::Other(error.to_string()))?;
        let config =
            common.config.as_ref().map(|file| std::path::absolute(file).unwrap_or_else(|_| file.clone()));
        let told_to_end = async {
            signals.next().await;
        };
        match relay(&directories, config, told_to_end).await {
            Relayed::Served(code) => return Ok(code),
            Relayed::Unavailable(error) => {
                tracing::warn!(%error, "the daemon can't be used; this process serves its client itself");
                notice = Some(format!("this editor has a server of its own, without the daemon: {error}"));
            }
        }
    }
    let told_to_end = async {
        signals.next().await;
    };
    crate::server::serve_stdio(common.config, notice, told_to_end)
        .await
        .map_err(|error| CliError::Other(error.to_string()))
}
