//! Engines that several connections of a process share: one for each workspace and for each set of settings.
//!
//! Connections with one workspace share its engine if the same settings count for them, so nobody's request runs by settings
//! that its user did not choose. A connection brings its documents and its editor along and takes them away again; the
//! engine and its requests stay.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Mutex, watch};
use tokio_util::sync::{CancellationToken, DropGuard};
use tower_lsp::jsonrpc::Error;

use super::failure;
use super::services::{WorkspaceOpening, WorkspaceServices};
use super::subscription::Requests;
use crate::live_settings::Configured;
use crate::view::waits_for_user;
use roo_protocol::error::ErrorKind;
use roo_protocol::ids::{TaskId, Urid};
use roo_protocol::task::TaskState;
use roo_workspace::{AttachedEditor, Attachment};

/// Time limit for the requests of an engine to stop.
const STOP_DEADLINE: Duration = Duration::from_secs(10);

/// The engines of a process.
#[derive(Default)]
pub(crate) struct SharedEngines {
    engines: Mutex<Vec<SharedEngine>>,
    /// Counts what happens in requests.
    activity: watch::Sender<u64>,
}

struct SharedEngine {
    folders: Vec<PathBuf>,
    settings_file: PathBuf,
    services: Arc<WorkspaceServices>,
    /// The number of connections.
    members: Arc<AtomicUsize>,
    /// Ends what follows its requests.
    _following: DropGuard,
}

/// How a connection takes part in a process that serves several.
#[derive(Clone)]
pub(crate) struct Sharing {
    /// The engines that all share.
    pub(crate) engines: Arc<SharedEngines>,
    /// The request that the connection is about: it joins the engine in which that lives, whatever settings count there.
    pub(crate) request: Option<TaskId>,
}

/// Where the engine of a connection is from.
pub(super) enum EngineSource {
    /// The connection is the only one of its process, and opens it.
    Own,
    /// From those that connections of this process share.
    Shared(Sharing),
    /// From another connection, for as long as that lives. The client of this one brings neither documents nor an editor.
    Lent(Arc<WorkspaceServices>),
}

/// A connection's place among those that share an engine. Dropping it takes its editor away.
pub(super) struct Membership {
    members: Arc<AtomicUsize>,
    _attachment: Attachment,
}

impl Membership {
    /// Returns whether other connections share the engine now.
    pub(super) fn has_others(&self) -> bool {
        self.members.load(Ordering::SeqCst) > 1
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.members.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A request that lives in this process.
#[derive(Clone, Debug)]
pub(crate) struct LiveRequest {
    pub(crate) id: TaskId,
    pub(crate) urid: Urid,
    pub(crate) title: String,
    pub(crate) state: TaskState,
    /// True if something in it goes on without its user.
    pub(crate) is_at_work: bool,
    /// Of its workspace.
    pub(crate) folders: Vec<PathBuf>,
    /// The number of connections to its workspace.
    pub(crate) connections: usize,
}

impl SharedEngines {
    /// The services of a workspace, by these settings, and the place of a connection there. They are opened if no connection
    /// has needed them before.
    async fn join(
        &self,
        request: Option<&TaskId>,
        opening: WorkspaceOpening,
        editor: AttachedEditor,
    ) -> Result<(Arc<WorkspaceServices>, Membership), Error> {
        let mut engines = self.engines.lock().await;
        let found = match request {
            Some(request) => {
                let found = engines.iter().position(|engine| engine.has(request));
                let gone = || {
                    let message = format!("the request {request} no longer lives here");
                    failure(
                        ErrorKind::NotFound,
                        message,
                        Some(request.clone()),
                        "List the live requests again.",
                    )
                };
                Some(found.ok_or_else(gone)?)
            }
            None => place_for(&engines, &opening).await,
        };
        let place = match found {
            Some(place) => place,
            None => {
                let (folders, clock) = (opening.folders.clone(), Arc::clone(&opening.clock));
                let settings_file = opening.directories.config_file();
                end_unneeded(&mut engines);
                let services = WorkspaceServices::open(opening).await?;
                let mut requests = Requests::new(&services.engine);
                let (activity, followed) = (self.activity.clone(), Arc::clone(&services));
                let following = CancellationToken::new();
                let ended = following.clone();
                let follow = async move {
                    while let Some(mut follower) = requests.next(&followed.engine).await {
                        let (activity, clock) = (activity.clone(), Arc::clone(&clock));
                        let follow = async move {
                            while follower.next(|| clock.now()).await.is_ok() {
                                activity.send_modify(|count| *count = count.wrapping_add(1));
                            }
                        };
                        tokio::spawn(ended.clone().run_until_cancelled_owned(follow));
                    }
                };
                tokio::spawn(following.clone().run_until_cancelled_owned(follow));
                engines.push(SharedEngine {
                    folders,
                    settings_file,
                    services,
                    members: Arc::default(),
                    _following: following.drop_guard(),
                });
                engines.len() - 1
            }
        };
        let Some(engine) = engines.get(place) else { return Err(Error::internal_error()) };
        engine.members.fetch_add(1, Ordering::SeqCst);
        let attachment = engine.services.engine.workspace().documents().attach(editor);
        let membership = Membership { members: Arc::clone(&engine.members), _attachment: attachment };
        Ok((Arc::clone(&engine.services), membership))
    }

    /// Tells that something happened in a request.
    pub(crate) fn activity(&self) -> watch::Receiver<u64> {
        self.activity.subscribe()
    }

    /// The requests that live here. Reads their logs.
    pub(crate) async fn requests(&self) -> Vec<LiveRequest> {
        let engines = self.engines.lock().await;
        let mut all = Vec::new();
        for engine in engines.iter() {
            for journal in engine.services.engine.journals() {
                let Ok(found) = engine.services.engine.tree(journal.root()).await else { continue };
                let Some(root) = found.nodes.first() else { continue };
                let Ok(known) = engine.services.engine.resumable(journal.root()).await else { continue };
                all.push(LiveRequest {
                    id: root.id.clone(),
                    urid: known.urid,
                    title: root.title.clone(),
                    state: root.state,
                    is_at_work: root.state != TaskState::Interrupted && !waits_for_user(&found.nodes),
                    folders: engine.folders.clone(),
                    connections: engine.members.load(Ordering::SeqCst),
                });
            }
        }
        all.sort_by(|one, other| one.id.cmp(&other.id));
        all
    }

    /// Returns whether a request goes on without its user. Reads the logs.
    pub(crate) async fn are_at_work(&self) -> bool {
        self.requests().await.iter().any(|request| request.is_at_work)
    }

    /// Stops all requests, leaving them to be resumed, and ends the servers that were started.
    pub(crate) async fn shut_down(&self) {
        let engines = std::mem::take(&mut *self.engines.lock().await);
        futures_util::future::join_all(engines.iter().map(SharedEngine::end)).await;
    }
}

impl Sharing {
    /// The services that the connection works with, and its place there.
    pub(super) async fn join(
        &self,
        opening: WorkspaceOpening,
        editor: AttachedEditor,
    ) -> Result<(Arc<WorkspaceServices>, Membership), Error> {
        self.engines.join(self.request.as_ref(), opening, editor).await
    }
}

impl SharedEngine {
    /// Returns whether a request lives here.
    fn has(&self, request: &TaskId) -> bool {
        self.services.engine.journals().iter().any(|journal| journal.root() == request)
    }

    /// Stops its requests, leaving them to be resumed, and ends its servers.
    async fn end(&self) {
        if tokio::time::timeout(STOP_DEADLINE, self.services.stop_requests()).await.is_err() {
            tracing::warn!(
                "requests did not stop in time; their last actions may be missing from their logs"
            );
        }
        // Each has its own, short time; what is deaf is killed.
        self.services.engine.end_servers().await;
    }
}

/// Ends the engines that have no connection and no live request.
fn end_unneeded(engines: &mut Vec<SharedEngine>) {
    let is_unneeded = |engine: &mut SharedEngine| {
        engine.members.load(Ordering::SeqCst) == 0 && engine.services.engine.journals().is_empty()
    };
    for engine in engines.extract_if(.., is_unneeded) {
        tokio::spawn(async move { engine.end().await });
    }
}

/// The place of the engine of this workspace by whose settings agents may do the same.
async fn place_for(engines: &[SharedEngine], opening: &WorkspaceOpening) -> Option<usize> {
    // What the client says was just read.
    let wanted = opening.settings.newest();
    let settings_file = opening.directories.config_file();
    for (place, engine) in engines.iter().enumerate() {
        if engine.folders == opening.folders
            && engine.settings_file == settings_file
            && counts_as(engine.services.settings.read().await.as_ref(), &wanted)
        {
            return Some(place);
        }
    }
    None
}

/// Returns whether agents may do the same by both.
fn counts_as(one: &Configured, other: &Configured) -> bool {
    one.settings == other.settings && one.fault == other.fault
}
