//! All servers of a process.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::JsonObject;
use roo_formats::config::SandboxSettings;
use roo_formats::mcp::{ResolvedServer, ToolNames};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::call::{CallError, CallOptions, Completion, CompletionRequest};
use crate::connection::{Connection, Target};
use crate::content::{self, Omitted, PromptMessage, ResourceContent, ToolResult};
use crate::fault::ServerFault;
use crate::log::{LogSource, ServerLog};
use crate::login::CredentialKey;
use crate::network::AddressPolicy;
use crate::server::{CallRules, Command, ServerActor, ServerParts};
use crate::services::HubServices;
use crate::status::{ServerStatus, StatusBoard, Statuses};

/// Time limit for the completion of an argument: a user who is writing waits for it.
const COMPLETION: Duration = Duration::from_secs(2);
/// The most values of an argument, as the protocol has it, and the longest of them, in bytes.
const VALUES: usize = 100;
const VALUE: usize = 1 << 10;
/// Time limit for the end of all servers. Each has its own, shorter bounds.
const SHUTDOWN: Duration = Duration::from_secs(15);

/// A server as it is to be.
#[derive(Clone, Debug, PartialEq)]
pub struct DesiredServer {
    pub name: String,
    /// State that it is to have.
    pub state: DesiredState,
}

/// State that a server is to have.
#[derive(Clone, Debug, PartialEq)]
pub enum DesiredState {
    /// Nothing: it is switched off.
    Disabled,
    /// Nothing until the user approves it.
    WaitingForApproval,
    /// Nothing: its configuration can't be used, for this reason.
    Unusable(String),
    /// It is to be connected.
    Running {
        /// The server, with its references filled in.
        server: Box<ResolvedServer>,
        /// Addresses that the owner of its configuration may name.
        policy: AddressPolicy,
        /// What its login is kept by; none if nobody can log in to it.
        credentials: Option<CredentialKey>,
        /// Tools that are not offered and not called.
        disabled_tools: ToolNames,
        /// True if it may ask the model of the task that calls it.
        sampling: bool,
        /// True if it is to be started only when it is needed.
        lazy: bool,
        /// True if it was last connected with `initialize`: [`ServerCatalog::prefers_initialize`](crate::ServerCatalog).
        prefers_initialize: bool,
        /// The settings that bound its program, if it is one: by others it is restarted.
        sandbox: Box<SandboxSettings>,
        /// State of the files that it is made of, in whatever numbers: in another state it is restarted.
        files: u64,
    },
}

/// All servers of a process. Clones are the same hub; servers end with [`Hub::shutdown`], or with the last clone.
#[derive(Clone)]
pub struct Hub {
    inner: Arc<Inner>,
}

struct Inner {
    services: Arc<HubServices>,
    board: Arc<StatusBoard>,
    servers: Mutex<BTreeMap<String, Entry>>,
    /// Tasks of actors that are ending, by the name of a server that is not there any more.
    ending: Mutex<BTreeMap<String, JoinHandle<()>>>,
    actors: AtomicU64,
    cancel: CancellationToken,
}

/// A server and its actor, if it has one.
struct Entry {
    desired: DesiredState,
    actor: Option<ServerActor>,
    /// The task of an actor of this name that is ending.
    ending: Option<JoinHandle<()>>,
    log: ServerLog,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

impl Hub {
    /// A hub without servers.
    pub fn new(services: HubServices) -> Self {
        Self {
            inner: Arc::new(Inner {
                services: Arc::new(services),
                board: Arc::new(StatusBoard::new()),
                servers: Mutex::default(),
                ending: Mutex::default(),
                actors: AtomicU64::new(0),
                cancel: CancellationToken::new(),
            }),
        }
    }

    /// Says which servers there are to be. What is new is started, what is gone is ended, what is reached in another way
    /// than before is restarted, and everything else goes on. Of several of one name the last counts. Returns at once;
    /// must be called within a runtime.
    pub fn configure(&self, desired: Vec<DesiredServer>) {
        let desired: BTreeMap<String, DesiredState> =
            desired.into_iter().map(|server| (server.name, server.state)).collect();
        let mut servers = self.servers();
        if self.inner.cancel.is_cancelled() {
            return;
        }
        let mut ending = self.inner.ending.lock().unwrap_or_else(PoisonError::into_inner);
        ending.retain(|_, task| !task.is_finished());
        servers.retain(|name, entry| {
            let stays = desired.contains_key(name);
            if !stays {
                self.inner.board.remove(name);
                ending.extend(entry.end().map(|task| (name.clone(), task)));
            }
            stays
        });
        for (name, state) in desired {
            let entry = servers.entry(name.clone()).or_insert_with(|| Entry {
                desired: DesiredState::Disabled,
                actor: None,
                ending: ending.remove(&name),
                log: ServerLog::default(),
            });
            self.apply(&name, entry, state);
        }
    }

    fn apply(&self, name: &str, entry: &mut Entry, state: DesiredState) {
        if let (
            Some(actor),
            DesiredState::Running {
                server,
                policy,
                credentials,
                disabled_tools,
                sampling,
                sandbox,
                files,
                lazy,
                ..
            },
        ) = (&entry.actor, &state)
            && let DesiredState::Running {
                server: current,
                policy: current_policy,
                credentials: current_credentials,
                sampling: may_sample,
                sandbox: held,
                files: known,
                ..
            } = &entry.desired
            && current.transport == server.transport
            && current_policy == policy
            && current_credentials == credentials
            && may_sample == sampling
            && held == sandbox
            && known == files
        {
            let rules = CallRules { timeout: server.timeout, disabled_tools: disabled_tools.clone() };
            actor.rules.send_if_modified(|current| {
                let changed = *current != rules;
                *current = rules;
                changed
            });
            // One that failed would be started before its pause is over.
            if !lazy && matches!(self.inner.board.get(name), Some(ServerStatus::NotStarted)) {
                // A full queue has one already.
                let _ = actor.commands.try_send(Command::Start(oneshot::channel().0));
            }
            entry.desired = state;
            return;
        }
        let number = self.inner.actors.fetch_add(1, Ordering::Relaxed);
        let previous = entry.end();
        let status = match &state {
            DesiredState::Disabled => ServerStatus::Disabled,
            DesiredState::WaitingForApproval => ServerStatus::WaitingForApproval,
            DesiredState::Unusable(reason) => {
                ServerStatus::Failed { fault: ServerFault::Configuration(reason.clone()), retry_after: None }
            }
            DesiredState::Running { lazy: true, .. } => ServerStatus::NotStarted,
            DesiredState::Running { lazy: false, .. } => ServerStatus::Starting,
        };
        self.inner.board.assign(name, number, status);
        match &state {
            DesiredState::Running {
                server,
                policy,
                credentials,
                disabled_tools,
                sampling,
                lazy,
                prefers_initialize,
                ..
            } => {
                let parts = ServerParts {
                    target: Target {
                        server: (**server).clone(),
                        policy: *policy,
                        credentials: credentials.clone(),
                        sampling: *sampling,
                    },
                    rules: CallRules { timeout: server.timeout, disabled_tools: disabled_tools.clone() },
                    actor: number,
                    waits: *lazy,
                    prefers_initialize: *prefers_initialize,
                    board: Arc::clone(&self.inner.board),
                    services: Arc::clone(&self.inner.services),
                    log: entry.log.clone(),
                };
                entry.actor = Some(ServerActor::start(parts, self.inner.cancel.child_token(), previous));
            }
            _ => entry.ending = previous,
        }
        entry.desired = state;
    }

    fn servers(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Entry>> {
        self.inner.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The statuses, now and as they change.
    pub fn statuses(&self) -> watch::Receiver<Statuses> {
        self.inner.board.subscribe()
    }

    /// Waits until no server is being started, or until the time is over. Tells whether the former.
    pub async fn settled(&self, limit: Duration) -> bool {
        let mut statuses = self.statuses();
        let settled = statuses
            .wait_for(|statuses| !statuses.values().any(|status| matches!(status, ServerStatus::Starting)));
        timeout(limit, settled).await.is_ok_and(|statuses| statuses.is_ok())
    }

    /// The log of a server.
    pub fn log(&self, server: &str) -> Option<ServerLog> {
        self.servers().get(server).map(|entry| entry.log.clone())
    }

    /// Starts a server that waits for being called, or for the end of a pause after it failed. Returns when it is being
    /// started; does nothing for any other.
    pub async fn start(&self, server: &str) {
        let waits = self.inner.board.get(server).is_some_and(|status| status.starts_when_called());
        let commands =
            self.servers().get(server).and_then(|entry| Some(entry.actor.as_ref()?.commands.clone()));
        if let Some(commands) = commands.filter(|_| waits) {
            let (done, begun) = oneshot::channel();
            // Its configuration may have changed meanwhile.
            if commands.send(Command::Start(done)).await.is_ok() {
                let _ = begun.await;
            }
        }
    }

    /// Ends a server and starts it again at once, whatever it is doing. Returns when the old one is gone; false if there
    /// is nothing to restart.
    pub async fn restart(&self, server: &str) -> bool {
        let commands =
            self.servers().get(server).and_then(|entry| Some(entry.actor.as_ref()?.commands.clone()));
        let Some(commands) = commands else { return false };
        let (done, gone) = oneshot::channel();
        commands.send(Command::Restart(done)).await.is_ok() && gone.await.is_ok()
    }

    /// Calls a tool, once. Whether that is allowed was decided before.
    ///
    /// # Errors
    /// See [`CallError`]. Only where the error says so is it certain that nothing was done.
    pub async fn call_tool(
        &self,
        server: &str,
        tool: &str,
        arguments: JsonObject,
        options: &CallOptions,
    ) -> Result<ToolResult, CallError> {
        let (connection, rules) = self.connection(server)?;
        if rules.disabled_tools.contains(tool) {
            return Err(CallError::DisabledTool { server: server.to_owned(), tool: tool.to_owned() });
        }
        let status = self.inner.board.get(server);
        let offered = status.as_ref().and_then(ServerStatus::catalog);
        if let Some(catalog) = offered.filter(|catalog| catalog.tool(tool).is_none()) {
            let tools = catalog.tools.iter().map(|tool| tool.name.clone()).collect();
            return Err(CallError::UnknownTool { server: server.to_owned(), tool: tool.to_owned(), tools });
        }
        connection.call_tool(tool, arguments, rules.timeout, options).await.map(ToolResult::new)
    }

    /// Reads a resource. Gives what it holds and what of that was left out.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn read_resource(
        &self,
        server: &str,
        uri: &str,
        options: &CallOptions,
    ) -> Result<(Vec<ResourceContent>, Omitted), CallError> {
        let (connection, rules) = self.connection(server)?;
        connection.read_resource(uri, rules.timeout, options).await.map(content::resource_contents)
    }

    /// Gets a prompt. Gives its messages and what of them was left out.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn get_prompt(
        &self,
        server: &str,
        name: &str,
        arguments: JsonObject,
        options: &CallOptions,
    ) -> Result<(Vec<PromptMessage>, Omitted), CallError> {
        let (connection, rules) = self.connection(server)?;
        connection.get_prompt(name, arguments, rules.timeout, options).await.map(content::prompt_messages)
    }

    /// Asks a server how an argument may go on that a user is writing; nothing where it doesn't complete any. Errors are in
    /// its log too.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn complete(
        &self,
        server: &str,
        wanted: &CompletionRequest,
        options: &CallOptions,
    ) -> Result<Completion, CallError> {
        let (connection, _) = self.connection(server)?;
        let status = self.inner.board.get(server);
        if !status.as_ref().and_then(ServerStatus::catalog).is_some_and(|catalog| catalog.completes_arguments)
        {
            return Ok(Completion::default());
        }
        match connection.complete(wanted, COMPLETION, options).await {
            Ok(found) => {
                let is_line = |value: &String| value.len() <= VALUE && !value.chars().any(char::is_control);
                let has_more = found.has_more.unwrap_or(false) || found.values.len() > VALUES;
                let values = found.values.into_iter().take(VALUES).filter(is_line).collect();
                Ok(Completion { values, has_more })
            }
            Err(error) => {
                if let Some(log) = self.log(server).filter(|_| !matches!(error, CallError::Cancelled { .. }))
                {
                    log.add(LogSource::Hub, &error.to_string());
                }
                Err(error)
            }
        }
    }

    /// A server's connection, and the rules for calls over it.
    fn connection(&self, server: &str) -> Result<(Connection, CallRules), CallError> {
        let servers = self.servers();
        let Some(entry) = servers.get(server) else {
            let servers = servers.keys().cloned().collect();
            return Err(CallError::UnknownServer { server: server.to_owned(), servers });
        };
        let live = entry
            .actor
            .as_ref()
            .and_then(|actor| Some((actor.connection.borrow().clone()?, actor.rules.borrow().clone())));
        live.ok_or_else(|| {
            let status = self.inner.board.get(server);
            let status = status.map_or_else(|| "removed".to_owned(), |status| status.summary());
            CallError::NotConnected { server: server.to_owned(), status }
        })
    }

    /// Ends all servers. When this returns, no program that was started is left. The hub takes no servers afterwards.
    pub async fn shutdown(&self) {
        self.inner.cancel.cancel();
        let entries = std::mem::take(&mut *self.servers());
        let removed = std::mem::take(&mut *self.inner.ending.lock().unwrap_or_else(PoisonError::into_inner));
        let current = entries.into_values().filter_map(|mut entry| entry.end());
        let tasks: Vec<JoinHandle<()>> = current.chain(removed.into_values()).collect();
        // A task that is given up here kills what it started all the same, when the runtime ends.
        let _ = timeout(SHUTDOWN, futures_util::future::join_all(tasks)).await;
    }
}

impl std::fmt::Debug for Hub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hub").field("servers", &self.servers().keys()).finish_non_exhaustive()
    }
}

impl Entry {
    /// Lets the actor end. Gives the task that ends.
    fn end(&mut self) -> Option<JoinHandle<()>> {
        match self.actor.take() {
            Some(actor) => {
                actor.cancel.cancel();
                Some(actor.task)
            }
            None => self.ending.take(),
        }
    }
}
