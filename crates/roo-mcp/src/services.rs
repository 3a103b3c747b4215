//! Services that all servers of a process share.

use std::path::PathBuf;
use std::sync::Arc;

use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitationCapability, FormElicitationCapability, Implementation,
    ProtocolVersion, RootsCapabilities, SamplingCapability, UrlElicitationCapability,
};
use roo_sandbox::egress::{Resolve, SystemResolver};

use crate::launcher::ServerLauncher;
use crate::login::CredentialStore;

/// Services that a hub works with.
pub struct HubServices {
    /// Starts programs.
    pub launcher: Arc<dyn ServerLauncher>,
    /// Resolves the names of HTTP servers.
    pub resolver: Arc<dyn Resolve>,
    /// Name and version of the client.
    pub identity: ClientIdentity,
    /// The workspace folders. Servers that are programs may ask for them; to others they mean nothing.
    pub folders: Vec<PathBuf>,
    /// What logins gave; none where nobody logs in.
    pub credentials: Option<Arc<dyn CredentialStore>>,
}

impl HubServices {
    /// Services with the resolver of this machine, without workspace folders and logins.
    pub fn new(launcher: Arc<dyn ServerLauncher>, identity: ClientIdentity) -> Self {
        Self { launcher, resolver: Arc::new(SystemResolver), identity, folders: vec![], credentials: None }
    }

    /// The same with workspace folders, as absolute paths.
    #[must_use]
    pub fn with_folders(self, folders: Vec<PathBuf>) -> Self {
        Self { folders, ..self }
    }

    /// The same with what logins gave.
    #[must_use]
    pub fn with_credentials(self, credentials: Arc<dyn CredentialStore>) -> Self {
        Self { credentials: Some(credentials), ..self }
    }
}

/// Name and version that the client tells servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientIdentity {
    pub name: String,
    pub version: String,
}

impl ClientIdentity {
    /// What the client tells a server of itself; `has_roots` says that it answers questions for workspace folders, `samples`
    /// that the server may ask a model.
    pub(crate) fn config(&self, has_roots: bool, samples: bool) -> ClientConfig {
        let implementation = Implementation::new(self.name.clone(), self.version.clone());
        let mut capabilities = ClientCapabilities::default();
        capabilities.roots = has_roots.then(RootsCapabilities::default);
        capabilities.sampling = samples.then(SamplingCapability::default);
        capabilities.elicitation = Some(
            ElicitationCapability::default()
                .with_form(FormElicitationCapability::default().with_schema_validation(true))
                .with_url(UrlElicitationCapability::default()),
        );
        ClientConfig::new(capabilities, implementation)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    pub(crate) fn user_agent(&self) -> String {
        format!("{}/{}", self.name, self.version)
    }
}
