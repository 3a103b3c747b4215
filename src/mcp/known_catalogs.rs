//! What each server offered when it was last connected. A server that is still starting is offered by it, so that no request
//! waits for it; its calls do, and are judged by what it says then. Kept in the state directory, for the user alone.
//!
//! Nothing here counts as permitted: that is known by the descriptions of `descriptions.rs`, and asked about as ever.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use roo_durable::PrivateFile;
use roo_engine::customization::McpServer;
use roo_formats::mcp::{Level, ToolNames};
use roo_mcp::{ServerCatalog, Statuses};
use roo_protocol::ids::Digest;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::watch;

/// The largest file that is read, in bytes.
const LIMIT: u64 = 4 << 20;
/// The most bytes of all servers that are kept, and of one. What is larger comes late.
const BUDGET: usize = 2 << 20;
const SERVER: usize = 256 << 10;
/// The pause after changes of what servers offer, in which further ones are gathered.
const GATHERING: Duration = Duration::from_secs(1);

/// The catalogs of one workspace's servers.
pub(super) struct KnownCatalogs {
    file: PrivateFile,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The servers that are configured, by name.
    servers: BTreeMap<String, Identity>,
    /// As the file has them; none before it is read.
    known: Option<Known>,
}

/// Who a catalog is of: the workspace's server of a name is another than the user's, and so is one that is started otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Identity {
    key: String,
    configuration: Digest,
    /// Tools that are not offered.
    disabled_tools: ToolNames,
}

/// The content of the file.
type Known = BTreeMap<String, KnownCatalog>;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct KnownCatalog {
    /// Digest of the configuration with which the server was connected.
    configuration: Digest,
    catalog: Value,
}

impl Identity {
    fn new(server: &McpServer) -> Self {
        let (level, server) = (server.configured.level, &server.configured.server);
        let level = match level {
            Level::User => "user",
            Level::Workspace => "workspace",
        };
        let key = format!("{level} {}", server.name);
        let configuration = Digest::of(server.identity().to_string());
        Self { key, configuration, disabled_tools: server.disabled_tools.clone() }
    }
}

impl KnownCatalogs {
    pub(super) fn new(file: PathBuf) -> Self {
        Self { file: PrivateFile::new(file), state: Mutex::default() }
    }

    /// Reads the file, if that has not been done. What can't be read is not known.
    pub(super) fn read(&self) {
        let mut state = self.state();
        if state.known.is_none() {
            state.known = Some(read(&self.file).unwrap_or_else(|error| {
                tracing::warn!(%error, file = %self.file.path().display(), "known tools of MCP servers can't be read");
                Known::new()
            }));
        }
    }

    /// Says which servers there are. A catalog of another configuration of theirs is not theirs.
    pub(super) fn configure(&self, servers: &[McpServer]) {
        let named = |server: &McpServer| (server.configured.server.name.clone(), Identity::new(server));
        self.state().servers = servers.iter().map(named).collect();
    }

    /// Reports whether it is known what a server offers, before it is said that there is this server.
    pub(super) fn knows(&self, server: &McpServer) -> bool {
        let identity = Identity::new(server);
        let state = self.state();
        let known = state.known.as_ref().and_then(|known| known.get(&identity.key));
        known.is_some_and(|known| known.configuration == identity.configuration)
    }

    /// Returns what a server offered when it was last connected as it is configured now.
    pub(super) fn of(&self, server: &str) -> Option<ServerCatalog> {
        let state = self.state();
        let identity = state.servers.get(server)?;
        let known = state.known.as_ref()?.get(&identity.key)?;
        let mut catalog = (known.configuration == identity.configuration)
            .then(|| ServerCatalog::of_kept(&known.catalog))??;
        catalog.tools.retain(|tool| !identity.disabled_tools.contains(&tool.name));
        Some(catalog)
    }

    /// Keeps what servers offer as they are connected, until there are none.
    pub(super) async fn follow(self: Arc<Self>, mut statuses: watch::Receiver<Statuses>) {
        while statuses.changed().await.is_ok() {
            let (known, now) = (Arc::clone(&self), statuses.borrow_and_update().clone());
            let kept = tokio::task::spawn_blocking(move || known.keep(&now));
            match kept.await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::warn!(%error, "the tools of MCP servers are not kept"),
                // The program ends.
                Err(_) => return,
            }
            tokio::time::sleep(GATHERING).await;
        }
    }

    /// Keeps what the connected servers offer. Writes only if that has changed.
    fn keep(&self, statuses: &Statuses) -> io::Result<()> {
        let found = {
            let state = self.state();
            let connected = statuses.iter().filter_map(|(server, status)| {
                let Identity { key, configuration, .. } = state.servers.get(server)?.clone();
                Some((key, KnownCatalog { configuration, catalog: status.catalog()?.to_kept() }))
            });
            let mut found: Known = connected.collect();
            found.retain(|_, known| known.size() <= SERVER);
            let is_known = |(key, found): (&String, &KnownCatalog)| {
                state.known.as_ref().is_some_and(|known| known.get(key) == Some(found))
            };
            if found.iter().all(is_known) {
                return Ok(());
            }
            found
        };
        let lock = self.file.lock()?;
        // A damaged file begins anew.
        let mut known = read(&self.file).unwrap_or_default();
        let mut state = self.state();
        known.extend(found);
        known.retain(|key, _| state.servers.values().any(|server| server.key == *key));
        let mut left = BUDGET;
        known.retain(|_, known| left.checked_sub(known.size()).inspect(|rest| left = *rest).is_some());
        self.file.replace(&serde_json::to_vec(&known)?)?;
        state.known = Some(known);
        drop(lock);
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KnownCatalog {
    fn size(&self) -> usize {
        self.catalog.to_string().len()
    }
}

fn read(file: &PrivateFile) -> io::Result<Known> {
    match file.read(LIMIT)? {
        Some(bytes) => Ok(serde_json::from_slice(&bytes)?),
        None => Ok(Known::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use roo_formats::mcp::{ParsedServers, merge};
    use roo_mcp::ServerStatus;
    use serde_json::json;

    fn configured(user: &str, workspace: &str) -> Vec<McpServer> {
        let parsed = |text: &str| ParsedServers::parse(text).unwrap();
        let servers = merge(parsed(user), parsed(workspace)).into_iter();
        servers.map(|configured| McpServer { configured, is_approved: true }).collect()
    }

    fn entry(name: &str, command: &str) -> String {
        json!({ "mcpServers": { name: { "command": command } } }).to_string()
    }

    fn catalog(tool: &str) -> ServerCatalog {
        let tool = json!({ "name": tool, "inputSchema": { "type": "object" } });
        let kept = json!({ "tools": [tool], "resources": [], "resourceTemplates": [] });
        ServerCatalog::of_kept(&kept).unwrap()
    }

    fn connected(server: &str, catalog: ServerCatalog) -> Statuses {
        Statuses::from([(server.to_owned(), ServerStatus::Connected(Arc::new(catalog)))])
    }

    fn known(directory: &tempfile::TempDir, servers: &[McpServer]) -> KnownCatalogs {
        let known = KnownCatalogs::new(directory.path().join("state/mcp-catalogs.json"));
        known.read();
        known.configure(servers);
        known
    }

    #[test]
    fn a_server_is_known_by_what_it_offered_as_long_as_it_is_started_in_the_same_way() {
        let directory = tempfile::tempdir().unwrap();
        let servers = configured(&entry("notes", "notes-server"), "");
        let first = known(&directory, &servers);
        assert_eq!(first.of("notes"), None);
        first.keep(&connected("notes", catalog("add"))).unwrap();
        assert_eq!(first.of("notes"), Some(catalog("add")));
        // Another process, later.
        assert_eq!(known(&directory, &servers).of("notes"), Some(catalog("add")));
        for other in [
            configured(&entry("notes", "other-server"), ""),
            configured("", &entry("notes", "notes-server")),
            configured(&entry("notes", "notes-server"), &entry("notes", "notes-server")),
        ] {
            assert_eq!(known(&directory, &other).of("notes"), None, "{other:?}");
        }
        first.keep(&connected("notes", catalog("remove"))).unwrap();
        assert_eq!(known(&directory, &servers).of("notes"), Some(catalog("remove")));
    }

    #[test]
    fn what_is_kept_is_bounded_and_goes_with_its_server() {
        let directory = tempfile::tempdir().unwrap();
        let servers = configured(&entry("notes", "notes-server"), &entry("mail", "mail-server"));
        let first = known(&directory, &servers);
        first.keep(&connected("notes", catalog("add"))).unwrap();
        let large =
            json!({ "name": "send", "inputSchema": { "type": "object", "x": "x".repeat(100 << 10) } });
        let large = json!({ "tools": [large], "resources": [], "resourceTemplates": [] });
        let mut large = ServerCatalog::of_kept(&large).unwrap();
        large.tools = (0..4).flat_map(|_| large.tools.clone()).collect();
        first.keep(&connected("mail", large)).unwrap();
        assert_eq!((first.of("mail"), first.of("notes")), (None, Some(catalog("add"))));
        first.configure(&configured("", &entry("mail", "mail-server")));
        first.keep(&connected("mail", catalog("send"))).unwrap();
        assert_eq!(known(&directory, &servers).of("notes"), None);
        std::fs::write(first.file.path(), "{").unwrap();
        assert_eq!(known(&directory, &servers).of("mail"), None, "what can't be read is not known");
    }
}
