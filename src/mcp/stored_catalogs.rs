//! What each server offered when it was last connected. A server that is still starting is offered by it, so that no request
//! waits for it; its calls do, and are judged by what it says then. Stored in the state directory, for the user alone.
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
pub(super) struct StoredCatalogs {
    file: PrivateFile,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The servers that are configured, by name.
    servers: BTreeMap<String, Identity>,
    /// As the file has them; none before it is read.
    stored: Option<Stored>,
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
type Stored = BTreeMap<String, StoredCatalog>;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct StoredCatalog {
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

impl StoredCatalogs {
    pub(super) fn new(file: PathBuf) -> Self {
        Self { file: PrivateFile::new(file), state: Mutex::default() }
    }

    /// Reads the file, if that has not been done. What can't be read is not known.
    pub(super) fn read(&self) {
        let mut state = self.state();
        if state.stored.is_none() {
            state.stored = Some(read(&self.file).unwrap_or_else(|error| {
                tracing::warn!(%error, file = %self.file.path().display(), "stored tools of MCP servers can't be read");
                Stored::new()
            }));
        }
    }

    /// Says which servers there are, and has `configure` say it to what connects them. No catalog is stored in between: what
    /// is connected as it was configured before is not that of what it is now.
    pub(super) fn configure(&self, servers: &[McpServer], configure: impl FnOnce()) {
        let named = |server: &McpServer| (server.configured.server.name.clone(), Identity::new(server));
        let mut state = self.state();
        configure();
        state.servers = servers.iter().map(named).collect();
    }

    /// Reports whether it is known what a server offers, before it is said that there is this server.
    pub(super) fn has(&self, server: &McpServer) -> bool {
        self.stored(server).is_some()
    }

    /// Reports whether a server was last connected with `initialize`, before it is said that there is this server.
    pub(super) fn prefers_initialize(&self, server: &McpServer) -> bool {
        let catalog = self.stored(server).and_then(|stored| ServerCatalog::from_stored(&stored));
        catalog.is_some_and(|catalog| catalog.prefers_initialize)
    }

    /// What is stored of a server as it is configured now.
    fn stored(&self, server: &McpServer) -> Option<Value> {
        let identity = Identity::new(server);
        let state = self.state();
        let stored = state.stored.as_ref()?.get(&identity.key)?;
        (stored.configuration == identity.configuration).then(|| stored.catalog.clone())
    }

    /// Returns what a server offered when it was last connected as it is configured now.
    pub(super) fn catalog(&self, server: &str) -> Option<ServerCatalog> {
        let state = self.state();
        let identity = state.servers.get(server)?;
        let stored = state.stored.as_ref()?.get(&identity.key)?;
        let mut catalog = (stored.configuration == identity.configuration)
            .then(|| ServerCatalog::from_stored(&stored.catalog))??;
        catalog.tools.retain(|tool| !identity.disabled_tools.contains(&tool.name));
        Some(catalog)
    }

    /// Stores what servers offer as they are connected, until there are none.
    pub(super) async fn follow(self: Arc<Self>, mut statuses: watch::Receiver<Statuses>) {
        while statuses.changed().await.is_ok() {
            statuses.mark_unchanged();
            self.store(&statuses).await;
            tokio::time::sleep(GATHERING).await;
        }
    }

    /// Stores what the connected servers offer now.
    pub(super) async fn store(self: &Arc<Self>, statuses: &watch::Receiver<Statuses>) {
        let (catalogs, statuses) = (Arc::clone(self), statuses.clone());
        let stored = tokio::task::spawn_blocking(move || catalogs.write(&statuses)).await;
        // Where the program ends it is not written either.
        if let Ok(Err(error)) = stored {
            tracing::warn!(%error, "the tools of MCP servers are not stored");
        }
    }

    /// Writes what the connected servers offer, if that has changed.
    fn write(&self, statuses: &watch::Receiver<Statuses>) -> io::Result<()> {
        // The statuses are those of the servers as they are configured here: both change under this lock.
        let (servers, statuses) = {
            let state = self.state();
            (state.servers.clone(), statuses.borrow().clone())
        };
        let connected = statuses.iter().filter_map(|(server, status)| {
            let Identity { key, configuration, .. } = servers.get(server)?.clone();
            Some((key, StoredCatalog { configuration, catalog: status.catalog()?.to_stored() }))
        });
        let mut found: Stored = connected.collect();
        found.retain(|_, catalog| catalog.size() <= SERVER);
        {
            let state = self.state();
            let is_stored = |(key, found): (&String, &StoredCatalog)| {
                state.stored.as_ref().is_some_and(|stored| stored.get(key) == Some(found))
            };
            if found.iter().all(is_stored) {
                return Ok(());
            }
        }
        let lock = self.file.lock()?;
        // A damaged file starts over.
        let mut stored = read(&self.file).unwrap_or_default();
        stored.extend(found);
        {
            let state = self.state();
            stored.retain(|key, _| state.servers.values().any(|server| server.key == *key));
        }
        let mut left = BUDGET;
        stored.retain(|_, catalog| left.checked_sub(catalog.size()).inspect(|rest| left = *rest).is_some());
        self.file.replace(&serde_json::to_vec(&stored)?)?;
        self.state().stored = Some(stored);
        drop(lock);
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StoredCatalog {
    fn size(&self) -> usize {
        self.catalog.to_string().len()
    }
}

fn read(file: &PrivateFile) -> io::Result<Stored> {
    match file.read(LIMIT)? {
        Some(bytes) => Ok(serde_json::from_slice(&bytes)?),
        None => Ok(Stored::new()),
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
        let stored = json!({ "tools": [tool], "resources": [], "resourceTemplates": [] });
        ServerCatalog::from_stored(&stored).unwrap()
    }

    fn connected(server: &str, catalog: ServerCatalog) -> watch::Receiver<Statuses> {
        let statuses = [(server.to_owned(), ServerStatus::Connected(Arc::new(catalog)))];
        watch::Sender::new(Statuses::from(statuses)).subscribe()
    }

    fn stored(directory: &tempfile::TempDir, servers: &[McpServer]) -> StoredCatalogs {
        let catalogs = StoredCatalogs::new(directory.path().join("state/mcp-catalogs.json"));
        catalogs.read();
        catalogs.configure(servers, || ());
        catalogs
    }

    #[test]
    fn a_server_is_known_by_what_it_offered_as_long_as_it_is_started_in_the_same_way() {
        let directory = tempfile::tempdir().unwrap();
        let servers = configured(&entry("notes", "notes-server"), "");
        let first = stored(&directory, &servers);
        assert_eq!(first.catalog("notes"), None);
        first.write(&connected("notes", catalog("add"))).unwrap();
        assert_eq!(first.catalog("notes"), Some(catalog("add")));
        // Another process, later.
        assert_eq!(stored(&directory, &servers).catalog("notes"), Some(catalog("add")));
        for other in [
            configured(&entry("notes", "other-server"), ""),
            configured("", &entry("notes", "notes-server")),
            configured(&entry("notes", "notes-server"), &entry("notes", "notes-server")),
        ] {
            assert_eq!(stored(&directory, &other).catalog("notes"), None, "{other:?}");
        }
        assert!(!first.prefers_initialize(&servers[0]));
        let removing = ServerCatalog { prefers_initialize: true, ..catalog("remove") };
        first.write(&connected("notes", removing.clone())).unwrap();
        let later = stored(&directory, &servers);
        assert!(later.prefers_initialize(&servers[0]));
        assert!(!later.prefers_initialize(&configured(&entry("notes", "other-server"), "")[0]));
        assert_eq!(stored(&directory, &servers).catalog("notes"), Some(removing));
    }

    #[test]
    fn what_is_stored_is_bounded_and_goes_with_its_server() {
        let directory = tempfile::tempdir().unwrap();
        let servers = configured(&entry("notes", "notes-server"), &entry("mail", "mail-server"));
        let first = stored(&directory, &servers);
        first.write(&connected("notes", catalog("add"))).unwrap();
        let large =
            json!({ "name": "send", "inputSchema": { "type": "object", "x": "x".repeat(100 << 10) } });
        let large = json!({ "tools": [large], "resources": [], "resourceTemplates": [] });
        let mut large = ServerCatalog::from_stored(&large).unwrap();
        large.tools = (0..4).flat_map(|_| large.tools.clone()).collect();
        first.write(&connected("mail", large)).unwrap();
        assert_eq!((first.catalog("mail"), first.catalog("notes")), (None, Some(catalog("add"))));
        first.configure(&configured("", &entry("mail", "mail-server")), || ());
        first.write(&connected("mail", catalog("send"))).unwrap();
        assert_eq!(stored(&directory, &servers).catalog("notes"), None);
        std::fs::write(first.file.path(), "{").unwrap();
        assert_eq!(stored(&directory, &servers).catalog("mail"), None, "what can't be read is not known");
    }
}
