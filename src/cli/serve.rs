//! `roo-lsp serve`: the language server.

use std::io::{self, IsTerminal as _, Write as _};

use super::CliError;
use super::arguments::{Common, Serve};
use super::signals::Signals;

/// Serves one client and returns the process's exit code.
pub(super) async fn serve(common: Common, _: Serve) -> Result<i32, CliError> {
    if io::stdin().is_terminal() {
        // Whoever typed the name to see what it is would wait in vain.
        let _ = writeln!(
            io::stderr(),
            "roo-lsp: this is a language server for editors; roo-lsp --help says more."
        );
    }
    let mut signals = Signals::listen()?;
    let told_to_end = async {
        signals.next().await;
    };
    crate::server::serve_stdio(common.config, told_to_end)
        .await
        .map_err(|error| CliError::Other(error.to_string()))
}
