//! Services that all servers of a process share.

use std::sync::Arc;

use rmcp::model::{ClientCapabilities, ClientConfig, Implementation, ProtocolVersion};
use roo_sandbox::egress::{Resolve, SystemResolver};

use crate::launcher::ServerLauncher;

/// Services that a hub works with.
pub struct HubServices {
    /// Starts programs.
    pub launcher: Arc<dyn ServerLauncher>,
    /// Resolves the names of HTTP servers.
    pub resolver: Arc<dyn Resolve>,
    /// Name and version of the client.
    pub identity: ClientIdentity,
}

impl HubServices {
    /// Services with the resolver of this machine.
    pub fn new(launcher: Arc<dyn ServerLauncher>, identity: ClientIdentity) -> Self {
        Self { launcher, resolver: Arc::new(SystemResolver), identity }
    }
}

/// Name and version that the client tells servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientIdentity {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
}

impl ClientIdentity {
    pub(crate) fn config(&self) -> ClientConfig {
        let implementation = Implementation::new(self.name.clone(), self.version.clone());
        ClientConfig::new(ClientCapabilities::default(), implementation)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    pub(crate) fn user_agent(&self) -> String {
        format!("{}/{}", self.name, self.version)
    }
}
