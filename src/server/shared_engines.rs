//! Engines that several connections of a process share: one for each workspace and for each set of settings.
//!
//! Connections with one workspace share its engine if the same settings count for them, so nobody's request runs by settings
//! that its user did not choose. A connection brings its documents and its editor along and takes them away again; the
//! engine and its requests stay. No lock is held while something is read or opened, so that a slow workspace keeps only its own
//! clients waiting.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use tower_lsp::jsonrpc::Error;

use super::failure;
use super::interrupted_requests::{EngineKey, InterruptedGroup, InterruptedRequests, RunningMark};
use super::services::{WorkspaceOpening, WorkspaceServices, open_customization};
use super::subscription::Requests;
use crate::live_settings::{Configured, LiveSettings};
use crate::view::waits_for_user;
use roo_engine::engine::clock::Clock;
use roo_engine::engine::{Engine, EngineError};
use roo_formats::config::{Directories, Layer};
use roo_protocol::error::ErrorKind;
use roo_protocol::event::{Event, EventParams};
use roo_protocol::ids::{Digest, TaskId, Urid};
use roo_protocol::task::TaskState;
use roo_protocol::tree::TreeNode;
use roo_text::position::Encoding;
use roo_workspace::{AttachedEditor, Attachment};

/// Time limit for the requests of an engine to stop.
const STOP_DEADLINE: Duration = Duration::from_secs(10);
/// Time for the editors of a process that was killed to come back with their unsaved text, before requests go on without them.
const EDITORS_RETURN: Duration = Duration::from_secs(5);

/// The engines of a process.
pub(crate) struct SharedEngines {
    engines: Mutex<Engines>,
    /// Taken while an engine is looked for and opened, so that no workspace gets two for the same settings.
    openings: Mutex<HashMap<EnginePlace, Arc<tokio::sync::Mutex<()>>>>,
    /// Work that no connection waits for: engines end that nobody needs, requests are resumed.
    background: TaskTracker,
    left: Arc<InterruptedRequests>,
    /// Counts what happens in requests.
    activity: watch::Sender<u64>,
    /// No request goes on by itself any more.
    ending: CancellationToken,
}

/// The engines, in the order in which they were opened.
#[derive(Default)]
struct Engines {
    open: Vec<Arc<SharedEngine>>,
    /// No engine is opened any more.
    is_ended: bool,
}

/// What decides by itself which engine serves a connection; its settings do besides.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct EnginePlace {
    folders: Vec<PathBuf>,
    settings_file: PathBuf,
}

impl EnginePlace {
    fn new(opening: &WorkspaceOpening) -> Self {
        Self { folders: opening.folders.clone(), settings_file: opening.directories.config_file() }
    }

    /// The mark of an engine here, with the settings and the trust that count now. Reads the disk.
    async fn mark(&self, services: &WorkspaceServices) -> EngineKey {
        let customization = Arc::clone(&services.customization);
        let is_trusted = tokio::task::spawn_blocking(move || customization.is_trusted()).await;
        EngineKey {
            folders: self.folders.clone(),
            settings_file: self.settings_file.clone(),
            settings: digest_of(&services.settings.newest()),
            // Only while the process ends is this not known.
            is_trusted: is_trusted.unwrap_or_default(),
        }
    }
}

/// A digest of the settings that count.
fn digest_of(configured: &Configured) -> Digest {
    // Plain values always become JSON.
    Digest::of(serde_json::to_vec(&*configured.settings).unwrap_or_default())
}

struct SharedEngine {
    place: EnginePlace,
    services: Arc<WorkspaceServices>,
    members: Arc<Members>,
    /// Ends what follows its requests.
    _following: DropGuard,
}

/// The number of connections of each kind, and of those who keep an engine without one.
#[derive(Default)]
struct Members {
    editors: AtomicUsize,
    terminals: AtomicUsize,
    keepers: AtomicUsize,
}

impl Members {
    fn of(&self, kind: ConnectionKind) -> &AtomicUsize {
        match kind {
            ConnectionKind::Editor => &self.editors,
            ConnectionKind::Terminal => &self.terminals,
        }
    }

    fn count(&self) -> usize {
        self.editors.load(Ordering::SeqCst) + self.terminals.load(Ordering::SeqCst)
    }

    fn has_editor(&self) -> bool {
        self.editors.load(Ordering::SeqCst) > 0
    }
}

/// Keeps an engine that has no connection until it is dropped.
struct Keeper(Arc<Members>);

impl Drop for Keeper {
    fn drop(&mut self) {
        self.0.keepers.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Kind of client behind a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum ConnectionKind {
    /// It has documents and settings of its own.
    #[default]
    Editor,
    /// It follows or starts requests, and has no say in their settings.
    Terminal,
}

/// How a connection takes part in a process that serves several.
#[derive(Clone)]
pub(crate) struct Sharing {
    /// The engines that all share.
    pub(crate) engines: Arc<SharedEngines>,
    /// The kind of its client.
    pub(crate) kind: ConnectionKind,
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
    members: Arc<Members>,
    kind: ConnectionKind,
    _attachment: Attachment,
}

impl Membership {
    /// Returns whether other editors share the engine now.
    pub(super) fn has_other_editors(&self) -> bool {
        let own = usize::from(self.kind == ConnectionKind::Editor);
        self.members.editors.load(Ordering::SeqCst) > own
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.members.of(self.kind).fetch_sub(1, Ordering::SeqCst);
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
    /// The number of its tasks that wait for their user.
    pub(crate) waiting: usize,
    /// Of its workspace.
    pub(crate) folders: Vec<PathBuf>,
    /// The number of connections to its workspace.
    pub(crate) connections: usize,
}

impl SharedEngines {
    /// No engines yet. `left` tells which requests a process was killed with.
    pub(crate) fn new(left: InterruptedRequests) -> Self {
        Self {
            engines: Mutex::default(),
            openings: Mutex::default(),
            background: TaskTracker::new(),
            left: Arc::new(left),
            activity: watch::Sender::default(),
            ending: CancellationToken::new(),
        }
    }

    /// Goes on with the requests that a process was killed with, where their settings say so and nothing that counts has
    /// changed since. Returns at once.
    pub(crate) fn resume_left(self: &Arc<Self>, directories: &Directories, clock: &Arc<dyn Clock>) {
        for left in self.left.begin_resuming() {
            let (this, directories, clock) = (Arc::clone(self), directories.clone(), Arc::clone(clock));
            self.background.spawn(async move {
                this.resume_together(&left, directories, clock).await;
                this.left.give_up(&left.requests);
                this.tell_activity();
            });
        }
    }

    /// Goes on with the requests that were left in one engine. The same settings are put together from what was said then.
    async fn resume_together(
        &self,
        left: &InterruptedGroup,
        directories: Directories,
        clock: Arc<dyn Clock>,
    ) {
        let InterruptedGroup { mark: RunningMark { engine, said, has_editor }, requests } = left;
        let directories = Directories { settings_file: Some(engine.settings_file.clone()), ..directories };
        let (wanted, options, workspace) = (engine.clone(), said.options.clone(), said.workspace.clone());
        let read = tokio::task::spawn_blocking(move || {
            let options = Layer::from_initialization_options(&options);
            let settings =
                LiveSettings::load(wanted.settings_file.clone(), options, &workspace, Arc::clone(&clock));
            let found = engine_as_it_is(&wanted, &settings.newest(), &directories);
            let opening = WorkspaceOpening {
                folders: wanted.folders,
                directories,
                clock,
                settings: Arc::new(settings),
                documents: Arc::default(),
                editor: None,
                encoding: Encoding::default(),
            };
            (opening, found)
        });
        // While the process ends nothing goes on.
        let Ok((opening, found)) = read.await else { return };
        if found.as_ref() != Some(engine) {
            tracing::warn!(
                ?requests,
                "requests that were under way wait: their settings, trust or folders have changed"
            );
            return;
        }
        if !opening.settings.newest().settings.daemon.resume_after_crash {
            for request in self.left.take_in(engine) {
                self.left.unmark(&request).await;
                self.left.settle(&request);
            }
            return;
        }
        if *has_editor {
            let return_of_editors = tokio::time::sleep(EDITORS_RETURN);
            if self.ending.run_until_cancelled(return_of_editors).await.is_none() {
                return;
            }
        }
        let place = EnginePlace::new(&opening);
        let turn = self.turn(&place);
        let turn = turn.lock().await;
        let keep = |engine: &SharedEngine| (Arc::clone(&engine.services), engine.keep());
        let kept = match self.find_and(&place, &opening, keep).await {
            Some(kept) => Ok(kept),
            None => self.open(place.clone(), opening, keep).await,
        };
        drop(turn);
        match kept {
            Ok((services, _keeper)) => self.resume_in(&place.mark(&services).await, &services).await,
            Err(error) => tracing::warn!(%error, ?requests, "requests that were under way can't be resumed"),
        }
    }

    /// Goes on with the requests that were left in this engine, if its user wants that, and that have not ended since. Whoever looks
    /// at one of the others finds it interrupted.
    async fn resume_in(&self, engine: &EngineKey, services: &WorkspaceServices) {
        let resumes = services.settings.newest().settings.daemon.resume_after_crash;
        for request in self.left.take_in(engine) {
            let resumed = match resumes && !self.ending.is_cancelled() {
                true => resume_unasked(&services.engine, &request).await,
                false => Ok(false),
            };
            let is_under_way = resumed.unwrap_or_else(|error| {
                tracing::warn!(%error, %request, "a request that was under way can't be resumed");
                false
            });
            if !is_under_way {
                self.left.unmark(&request).await;
            }
            self.left.settle(&request);
            self.tell_activity();
        }
    }

    fn tell_activity(&self) {
        self.activity.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// The services of the workspace in which a request lives, and the place of a connection there.
    fn join_request(
        &self,
        request: &TaskId,
        editor: AttachedEditor,
        kind: ConnectionKind,
    ) -> Result<(Arc<WorkspaceServices>, Membership), Error> {
        let engines = self.lock();
        // One that has ended since its client lost the daemon before can still be read.
        let engine = engines.open.iter().find(|engine| engine.has(request));
        let Some(engine) = engine.or_else(|| engines.open.iter().find(|engine| engine.knows(request))) else {
            let message = format!("the request {request} no longer lives here");
            let hint = "List the live requests again.";
            return Err(failure(ErrorKind::NotFound, message, Some(request.clone()), hint));
        };
        Ok(engine.admit(editor, kind))
    }

    /// The services of a workspace, by these settings, and the place of a connection there. They are opened if no connection
    /// has needed them before.
    async fn join(
        self: &Arc<Self>,
        opening: WorkspaceOpening,
        editor: AttachedEditor,
        kind: ConnectionKind,
    ) -> Result<(Arc<WorkspaceServices>, Membership), Error> {
        let place = EnginePlace::new(&opening);
        let turn = self.turn(&place);
        let _turn = turn.lock().await;
        if let Some(joined) = self.find_and(&place, &opening, |found| found.admit(editor.clone(), kind)).await
        {
            return Ok(joined);
        }
        self.end_unneeded();
        let joined = self.open(place.clone(), opening, |engine| engine.admit(editor, kind)).await?;
        let (this, services) = (Arc::clone(self), Arc::clone(&joined.0));
        self.background.spawn(async move { this.resume_in(&place.mark(&services).await, &services).await });
        Ok(joined)
    }

    /// Opens an engine, unless the process ends. `admit` keeps it. Only in the turn of its place.
    async fn open<T>(
        &self,
        place: EnginePlace,
        opening: WorkspaceOpening,
        admit: impl FnOnce(&SharedEngine) -> T,
    ) -> Result<T, Error> {
        let clock = Arc::clone(&opening.clock);
        let services = WorkspaceServices::open(opening).await?;
        let members = Arc::default();
        let following = self.follow(&services, &place, &members, clock);
        let engine = Arc::new(SharedEngine { place, services, members, _following: following });
        let admitted = {
            let mut engines = self.lock();
            (!engines.is_ended).then(|| {
                engines.open.push(Arc::clone(&engine));
                admit(&engine)
            })
        };
        match admitted {
            Some(admitted) => Ok(admitted),
            None => {
                engine.end().await;
                Err(Error::internal_error())
            }
        }
    }

    /// The turn of those that look for an engine at a place.
    fn turn(&self, place: &EnginePlace) -> Arc<tokio::sync::Mutex<()>> {
        let mut openings = self.openings.lock().unwrap_or_else(PoisonError::into_inner);
        openings.retain(|_, turn| Arc::strong_count(turn) > 1);
        Arc::clone(openings.entry(place.clone()).or_default())
    }

    /// The engine at a place by whose settings agents may do the same, if there is one. `admit` keeps it.
    async fn find_and<T>(
        &self,
        place: &EnginePlace,
        opening: &WorkspaceOpening,
        admit: impl FnOnce(&SharedEngine) -> T,
    ) -> Option<T> {
        // What the client says was just read.
        let wanted = opening.settings.newest();
        for engine in self.all_open().into_iter().filter(|engine| engine.place == *place) {
            if counts_as(engine.services.settings.read().await.as_ref(), &wanted) {
                let engines = self.lock();
                // It may have been ended meanwhile.
                return engines.open.iter().any(|open| Arc::ptr_eq(open, &engine)).then(|| admit(&engine));
            }
        }
        None
    }

    /// Counts what happens in the requests of an engine, and marks which of them are under way, until the result is dropped.
    fn follow(
        &self,
        services: &Arc<WorkspaceServices>,
        place: &EnginePlace,
        members: &Arc<Members>,
        clock: Arc<dyn Clock>,
    ) -> DropGuard {
        let mut requests = Requests::new(&services.engine);
        let known = requests.known();
        let (activity, left) = (self.activity.clone(), Arc::clone(&self.left));
        let (followed, place, members) = (Arc::clone(services), place.clone(), Arc::clone(members));
        let following = CancellationToken::new();
        let ended = following.clone();
        let follow = async move {
            while let Some(mut follower) = requests.next(&followed.engine).await {
                let (activity, clock) = (activity.clone(), Arc::clone(&clock));
                let (left, services) = (Arc::clone(&left), Arc::clone(&followed));
                let (place, members, known) = (place.clone(), Arc::clone(&members), known.clone());
                let follow = async move {
                    let mut marked = None;
                    while let Ok(events) = follower.next(|| clock.now()).await {
                        match newest_state(follower.root(), &events) {
                            // As it is found when it is opened: what was under way still is to go on.
                            None | Some(TaskState::Interrupted) => {}
                            Some(state) if state.is_final() => {
                                left.unmark(follower.root()).await;
                                marked = None;
                            }
                            Some(_) => {
                                let engine = place.mark(&services).await;
                                let said = services.settings.newest().said();
                                let mark = RunningMark { engine, said, has_editor: members.has_editor() };
                                if marked.as_ref() != Some(&mark) {
                                    left.mark(follower.root(), &mark).await;
                                    marked = Some(mark);
                                }
                            }
                        }
                        activity.send_modify(|count| *count = count.wrapping_add(1));
                    }
                    known.forget(follower.root());
                };
                tokio::spawn(ended.clone().run_until_cancelled_owned(follow));
            }
        };
        tokio::spawn(following.clone().run_until_cancelled_owned(follow));
        following.drop_guard()
    }

    /// Ends the engines that have no connection and no live request.
    fn end_unneeded(&self) {
        let unneeded: Vec<_> = {
            let mut engines = self.lock();
            engines.open.extract_if(.., |engine| engine.is_unneeded()).collect()
        };
        for engine in unneeded {
            self.background.spawn(async move { engine.end().await });
        }
    }

    /// Tells that something happened in a request.
    pub(crate) fn activity(&self) -> watch::Receiver<u64> {
        self.activity.subscribe()
    }

    /// The requests that live here, by their ids.
    pub(crate) async fn requests(&self) -> Vec<LiveRequest> {
        self.requests_and(&[]).await
    }

    /// The requests that live here, and these, which have lived here before. Reads the logs of those that no longer do.
    pub(crate) async fn requests_and(&self, others: &[TaskId]) -> Vec<LiveRequest> {
        let engines = self.all_open();
        let found = engines.iter().map(|engine| engine.requests_and(others));
        let mut all: Vec<_> = futures_util::future::join_all(found).await.into_iter().flatten().collect();
        // Of two engines of one workspace, the one in which it lives comes first.
        all.sort_by(|(one, one_lives), (other, other_lives)| {
            one.id.cmp(&other.id).then(other_lives.cmp(one_lives))
        });
        all.dedup_by(|(later, _), (first, _)| later.id == first.id);
        all.into_iter().map(|(request, _)| request).collect()
    }

    /// Returns whether a request goes on without its user, or is about to.
    pub(crate) async fn are_at_work(&self) -> bool {
        !self.resuming().is_empty() || self.requests().await.iter().any(|request| request.is_at_work)
    }

    /// Returns the requests that a process was killed with and that are about to go on.
    pub(crate) fn resuming(&self) -> Vec<TaskId> {
        self.left.resuming()
    }

    /// Stops all requests, leaving them to be resumed, and ends the servers that were started. No engine is opened any more.
    pub(crate) async fn shut_down(&self) {
        let engines = {
            let mut engines = self.lock();
            engines.is_ended = true;
            std::mem::take(&mut engines.open)
        };
        self.ending.cancel();
        self.background.close();
        let all = futures_util::future::join_all(engines.iter().map(|engine| engine.end()));
        futures_util::future::join(all, self.background.wait()).await;
        // What follows their requests ends with them.
        drop(engines);
        self.left.clear().await;
    }

    fn all_open(&self) -> Vec<Arc<SharedEngine>> {
        self.lock().open.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Engines> {
        // Every change under the lock is complete or not begun.
        self.engines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sharing {
    /// The services that the connection works with, and its place there.
    pub(super) async fn join(
        &self,
        opening: WorkspaceOpening,
        editor: AttachedEditor,
    ) -> Result<(Arc<WorkspaceServices>, Membership), Error> {
        match &self.request {
            Some(request) => self.engines.join_request(request, editor, self.kind),
            None => self.engines.join(opening, editor, self.kind).await,
        }
    }
}

impl SharedEngine {
    /// Counts a connection. Only under the lock of the engines, so that none of them is ended in between.
    fn admit(&self, editor: AttachedEditor, kind: ConnectionKind) -> (Arc<WorkspaceServices>, Membership) {
        self.members.of(kind).fetch_add(1, Ordering::SeqCst);
        let attachment = self.services.engine.workspace().documents().attach(editor);
        let membership = Membership { members: Arc::clone(&self.members), kind, _attachment: attachment };
        (Arc::clone(&self.services), membership)
    }

    /// Keeps it without a connection. Only under the lock of the engines.
    fn keep(&self) -> Keeper {
        self.members.keepers.fetch_add(1, Ordering::SeqCst);
        Keeper(Arc::clone(&self.members))
    }

    /// Returns whether a request lives here.
    fn has(&self, request: &TaskId) -> bool {
        self.services.engine.is_live(request)
    }

    /// Returns whether its workspace has the log of a request.
    fn knows(&self, request: &TaskId) -> bool {
        uuid::Uuid::try_parse(request.as_str()).is_ok() && self.services.directory.request(request).exists()
    }

    /// Returns whether it has no connection and no live request, and nobody keeps it.
    fn is_unneeded(&self) -> bool {
        self.members.count() == 0
            && self.members.keepers.load(Ordering::SeqCst) == 0
            && self.services.engine.journals().is_empty()
    }

    /// The requests that live here, and those of the others that its workspace has; each with whether it lives here.
    async fn requests_and(&self, others: &[TaskId]) -> Vec<(LiveRequest, bool)> {
        let engine = &self.services.engine;
        let mut ids: Vec<TaskId> = engine.journals().iter().map(|journal| journal.root().clone()).collect();
        let others: Vec<&TaskId> = others.iter().filter(|other| !ids.contains(other)).collect();
        ids.extend(others.into_iter().cloned());
        let mut all = Vec::new();
        for id in ids {
            // A client waits for this only a while, and logs may be long.
            let (lives, known) = match engine.live_tree(&id).await {
                Some(known) => (true, Some(known)),
                None => (false, engine.resumable(&id).await.ok().map(|known| (known.urid, known.nodes))),
            };
            let request = known.and_then(|(urid, nodes)| self.request(urid, &nodes, lives));
            all.extend(request.map(|request| (request, lives)));
        }
        all
    }

    /// A request by its tree.
    fn request(&self, urid: Urid, nodes: &[TreeNode], lives: bool) -> Option<LiveRequest> {
        let root = nodes.first()?;
        Some(LiveRequest {
            id: root.id.clone(),
            urid,
            title: root.title.clone(),
            state: root.state,
            is_at_work: lives && root.state != TaskState::Interrupted && !waits_for_user(nodes),
            waiting: nodes.iter().filter(|node| node.state == TaskState::Waiting).count(),
            folders: self.place.folders.clone(),
            connections: self.members.count(),
        })
    }

    /// Stops its requests, leaving them to be resumed, and ends its servers.
    async fn end(&self) {
        if tokio::time::timeout(STOP_DEADLINE, self.services.stop_requests()).await.is_err() {
            tracing::warn!(
                "requests did not stop in time; their last actions may be missing from their logs"
            );
        }
        // Each has its own, short time; what does not react is killed.
        self.services.engine.end_servers().await;
    }
}

/// Goes on with a request that a process was killed with. Returns whether it is under way: its user may have cancelled it since, by
/// a process that knows of no marks.
async fn resume_unasked(engine: &Engine, request: &TaskId) -> Result<bool, EngineError> {
    let known = engine.resumable(request).await?;
    if known.nodes.first().is_none_or(|root| root.state.is_final()) {
        return Ok(false);
    }
    match engine.resume_interrupted(request).await {
        // Its user was faster, and its events tell how it is.
        Ok(()) | Err(EngineError::WrongState { .. }) => Ok(true),
        Err(error) => Err(error),
    }
}

/// The mark of an engine as it would be opened now; none where its folders or settings can't be used. Reads the disk.
fn engine_as_it_is(
    wanted: &EngineKey,
    configured: &Configured,
    directories: &Directories,
) -> Option<EngineKey> {
    let are_there =
        |folder: &PathBuf| folder.canonicalize().is_ok_and(|real| real == *folder && real.is_dir());
    if configured.fault.is_some() || !wanted.folders.iter().all(are_there) {
        return None;
    }
    let (customization, _) = open_customization(wanted.folders.clone(), directories.clone()).ok()?;
    let is_trusted = customization.is_trusted();
    Some(EngineKey { settings: digest_of(configured), is_trusted, ..wanted.clone() })
}

/// The newest state of a request's own task that these events tell.
fn newest_state(request: &TaskId, events: &[Arc<EventParams>]) -> Option<TaskState> {
    events.iter().rev().find_map(|params| match &params.event {
        Event::TaskState { state, .. } if params.task_id == *request => Some(*state),
        // It runs from then on.
        Event::TaskCreated { .. } if params.task_id == *request => Some(TaskState::Running),
        _ => None,
    })
}

/// Returns whether agents may do the same by both.
fn counts_as(one: &Configured, other: &Configured) -> bool {
    one.settings == other.settings && one.fault == other.fault
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use futures_util::FutureExt as _;
    use serde_json::Value;

    use super::*;
    use roo_engine::engine::clock::SystemClock;

    /// A connection to a workspace below a directory, with settings there.
    fn opening(directory: &Path, workspace: &str) -> WorkspaceOpening {
        let folder = directory.join(workspace);
        std::fs::create_dir_all(&folder).unwrap();
        let directories = Directories {
            config: directory.join("config"),
            state: directory.join("state"),
            home: None,
            settings_file: None,
        };
        let file = directories.config_file();
        let settings = LiveSettings::load(file, Ok(None), &Value::Null, Arc::new(SystemClock));
        WorkspaceOpening {
            folders: vec![folder],
            directories,
            clock: Arc::new(SystemClock),
            settings: Arc::new(settings),
            documents: Arc::default(),
            editor: None,
            encoding: Encoding::Utf8,
        }
    }

    fn editor() -> AttachedEditor {
        AttachedEditor { documents: Arc::default(), editor: None, encoding: Encoding::Utf8 }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_workspace_that_is_slow_to_open_keeps_only_its_own_clients_waiting() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let shared = Arc::new(SharedEngines::new(InterruptedRequests::new(root.join("marks"))));
        let join = |workspace| shared.join(opening(&root, workspace), editor(), ConnectionKind::Editor);
        let slow = opening(&root, "slow");
        let turn = shared
            .turn(&EnginePlace { folders: slow.folders, settings_file: slow.directories.config_file() });
        let held = turn.lock().await;
        let mut waiting = Box::pin(join("slow"));
        assert!(waiting.as_mut().now_or_never().is_none());
        let other = join("quick").await;
        assert!(other.is_ok(), "it does not wait");
        assert_eq!(shared.requests().await.len(), 0);
        drop(held);
        assert!(waiting.await.is_ok());
        assert_eq!(shared.all_open().len(), 2);
        shared.shut_down().await;
        assert!(join("quick").await.is_err(), "nothing is opened any more");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_terminal_is_no_editor_among_those_that_share_an_engine() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let shared = Arc::new(SharedEngines::new(InterruptedRequests::new(root.join("marks"))));
        let join = async |kind| shared.join(opening(&root, "w"), editor(), kind).await.unwrap();
        let (_, first) = join(ConnectionKind::Editor).await;
        let (_, terminal) = join(ConnectionKind::Terminal).await;
        assert_eq!(shared.all_open().len(), 1);
        assert!(!first.has_other_editors() && terminal.has_other_editors());
        let (_, second) = join(ConnectionKind::Editor).await;
        assert!(first.has_other_editors());
        drop((second, terminal));
        assert!(!first.has_other_editors());
        drop(first);
        shared.end_unneeded();
        assert_eq!(shared.all_open().len(), 0);
        shared.shut_down().await;
    }
}
