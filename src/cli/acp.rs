//! `roo-lsp acp`: an agent of the Agent Client Protocol.

use std::io::{self, IsTerminal as _, Write as _};

use super::arguments::{Acp, Common, Setup};
use super::session::named_settings;
use super::signals::{Signal, Signals};
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
    let config = common.config.as_deref().map(named_settings).transpose()?;
    super::block_on(async {
        let mut signals = Signals::listen()?;
        let mut signal = None;
        let told_to_end = async { signal = Some(signals.next().await) };
        let served = crate::acp::serve_stdio(config, told_to_end).await;
        served.map_err(|error| CliError::Other(error.to_string()))?;
        Ok(match signal {
            None => Ending::Done,
            Some(Signal::Interrupt) => Ending::Interrupted,
            Some(Signal::Terminate) => Ending::Terminated,
        })
    })?
}
