//! `roo-lsp acp`: an agent of the Agent Client Protocol.

use std::io::{self, IsTerminal as _, Write as _};

use super::arguments::{Acp, Common, Setup};
use super::{CliError, Ending, setup, terminal};

/// Serves until the client goes, or until a signal.
pub(super) fn acp(common: &Common, acp: &Acp) -> Result<Ending, CliError> {
    if acp.setup {
        return setup::setup(common, &Setup::default());
    }
    if io::stdin().is_terminal() {
        // Whoever typed it to see what it is would wait in vain.
        writeln!(
            terminal::stderr(),
            "roo-lsp: this is an ACP agent, which a client starts; roo-lsp acp --help says more"
        )?;
    }
    let served = super::block_on(crate::acp::serve_stdio(common.config.clone()))?;
    served.map(|()| Ending::Done).map_err(|error| CliError::Other(error.to_string()))
}
