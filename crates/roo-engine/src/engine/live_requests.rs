//! How requests come to live in this process, each with an actor over its log, who hears of that, and how they leave.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{broadcast, mpsc, oneshot, watch};

use super::actor::Actor;
use super::actor_message::ActorMessage;
use super::audit::{self, LastEdits};
use super::event::Event;
use super::journal::Journal;
use super::log_fold::{fold_once, state};
use super::registry::{Live, Passing};
use super::shared_records::as_own;
use super::tree::{Fact, Fold, Tree};
use super::{Engine, EngineError, Resumable, checkpoints};
use roo_durable::{Record, RequestLog};
use roo_protocol::event::Event as WireEvent;
use roo_protocol::ids::{TaskId, Urid};
use roo_protocol::tree::TreeNode;

/// Capacity of an actor's mailbox; beyond it a client is told to try again. Every branch of a request may have a report
/// on its way, and those must not crowd out what clients want.
const MAILBOX_CAPACITY: usize = 256;
/// Time to wait for the first events of a request that is started or resumed.
const BEGIN_GRACE: Duration = Duration::from_secs(1);

impl Engine {
    /// The journals of requests as they come to live in this process.
    pub fn opened(&self) -> broadcast::Receiver<Arc<Journal>> {
        self.opened.subscribe()
    }

    /// The journals of all requests that live in this process.
    pub fn journals(&self) -> Vec<Arc<Journal>> {
        self.registry.live().values().map(|live| Arc::clone(&live.journal)).collect()
    }

    /// Returns whether a request lives in this process.
    pub fn is_live(&self, request: &TaskId) -> bool {
        self.registry.live().contains_key(request)
    }

    /// The invocation tree of a request that lives in this process, and the request's id for people; none for any other. Its log
    /// is not read.
    pub async fn live_tree(&self, request: &TaskId) -> Option<(Urid, Vec<TreeNode>)> {
        self.begun(request).await;
        let live = self.registry.live();
        let live = live.get(request)?;
        let nodes = live.nodes.borrow().clone();
        Some((live.urid.clone(), nodes))
    }

    /// Tells when a request that is at its end leaves this process: whoever goes on with it opens it again.
    pub fn left(&self) -> watch::Receiver<()> {
        self.registry.left.subscribe()
    }

    /// Waits for the first events of a request that lives here, so that whoever has started or opened it and looks at it
    /// at once finds them. A disk that refuses them keeps nobody waiting for longer than [`BEGIN_GRACE`].
    pub(super) async fn begun(&self, root: &TaskId) {
        let begun = self.registry.live().get(root).map(|live| live.begun.clone());
        if let Some(mut begun) = begun {
            // An actor that has ended has said what it could.
            let _ = tokio::time::timeout(BEGIN_GRACE, begun.wait_for(|begun| *begun)).await;
        }
    }

    /// Begins to drive a request. What is returned is told when its first events are in the log.
    pub(super) fn spawn(&self, log: RequestLog, tree: Tree, journal: Arc<Journal>, first: Vec<Fact>) {
        let (begin, begun) = watch::channel(false);
        let (tell_nodes, nodes) = watch::channel(tree.nodes());
        let reserve = self.services.reserve.clone();
        roo_durable::spawn_blocking(move || {
            if let Err(error) = reserve.fill() {
                tracing::info!(%error, "no disk space is reserved for a full disk");
            }
        });
        let (sender, mailbox) = mpsc::channel(MAILBOX_CAPACITY);
        let (id, urid) = (tree.root().id.clone(), tree.root().urid.clone());
        let actor = Actor::new(
            Arc::clone(&self.current),
            log,
            (tree, tell_nodes),
            Arc::clone(&journal),
            (&sender, mailbox),
            Arc::clone(&self.registry),
            self.cancel.child_token(),
        );
        self.registry.live().insert(id, Live { sender, journal: Arc::clone(&journal), begun, urid, nodes });
        tokio::spawn(actor.run(first, begin));
        // Nobody may be listening.
        let _ = self.opened.send(journal);
    }

    /// Brings a request to life, if it doesn't live here yet. It can't leave before what is returned is
    /// dropped.
    pub(super) async fn open(&self, task: &TaskId) -> Result<Passing, EngineError> {
        Ok(self.open_and_tell(task).await?.0)
    }

    /// The same, and how the request was before, if it was brought to life.
    pub(super) async fn open_and_tell(
        &self,
        task: &TaskId,
    ) -> Result<(Passing, Option<Resumable>), EngineError> {
        let passing = self.registry.passing().await;
        if self.registry.live().contains_key(task) {
            return Ok((passing, None));
        }
        let directory = self.request(task)?;
        let root = task.clone();
        let services = self.current.newest();
        let opened = roo_durable::spawn_blocking(move || {
            let mut fold = Fold::new(root.clone());
            let mut last_edits = LastEdits::default();
            let (log, damage) = RequestLog::replay(directory, |mut record| {
                as_own(&root, &mut record);
                last_edits.see(fold.tree(), &record, &services);
                fold.add(&record);
            })?;
            let missing = fold.missing_marks();
            if !missing.is_empty() {
                let see = |edits: &mut LastEdits, tree: Option<&Tree>, record: &Record<Event>| {
                    edits.see(tree, record, &services);
                };
                (fold, last_edits) = fold_once(log.directory(), &root, None, missing, see)?;
            }
            let mut tree = state(&root, fold);
            if let Ok(tree) = &mut tree
                && let Some((_, restore)) = &tree.root().restore
                && let Some(cut) = &restore.cut
            {
                let before = cut.before;
                tree.mark(before, checkpoints::state_before(log.directory(), &root, before)?);
            }
            Ok::<_, EngineError>((log, damage, tree, last_edits))
        });
        let (mut log, damage, tree, last_edits) = opened.await.map_err(|_| EngineError::Ending)??;
        for damage in &damage {
            tracing::warn!(%task, "the log is damaged: {damage}");
        }
        let tree = tree?;
        let services = self.current.newest();
        audit::recover(last_edits, &services);
        audit::recover_interrupted(&tree, &services);
        // Clients are about to see what is there, and whoever wrote it may have ended before it was durable.
        let sync = audit::traced(log.sync_handle(), task.clone(), &services);
        let synced = roo_durable::spawn_blocking(sync).await.map_err(|_| EngineError::Ending)??;
        log.synced(&synced);
        log.close();
        let first = self.settle_restores(&tree, tree.interrupt()).await;
        let journal = self.registry.journal(task, log.directory(), log.last_seq());
        journal.reopen(log.last_seq());
        if let Some(damage) = damage.first() {
            let reason = format!("the log of the task is damaged: {damage}; the rest of it was read");
            journal.warn(self.now(), WireEvent::ServerDegraded { reason, until: None });
        }
        let known = Resumable::new(&tree);
        self.spawn(log, tree, journal, first);
        self.begun(task).await;
        Ok((passing, Some(known)))
    }

    /// Ends what runs of one request and gives up the right to drive it, leaving it as it is: any process may resume it. Does
    /// nothing for a request that doesn't live here.
    pub async fn release(&self, task: &TaskId) {
        let root = task.root();
        let live = self.registry.live().remove(&root);
        let Some(live) = live else { return };
        self.registry.left.send_replace(());
        let (sender, done) = oneshot::channel();
        if live.sender.send(ActorMessage::Shutdown(sender)).await.is_ok() {
            // Either way the actor has ended.
            let _ = done.await;
        }
        // Its directory has the summary.
        self.registry.summaries().remove(&root);
    }

    /// Ends what runs, leaving every task as it is, to be resumed later. Returns when no effect runs
    /// any more, no log is locked, hooks of ended requests are done, and the trace is written.
    pub async fn shutdown(&self) {
        let all: Vec<Live> = self.registry.live().drain().map(|(_, live)| live).collect();
        self.registry.left.send_replace(());
        let ends = all.into_iter().map(|live| async move {
            let (sender, done) = oneshot::channel();
            if live.sender.send(ActorMessage::Shutdown(sender)).await.is_ok() {
                // Either way the actor has ended.
                let _ = done.await;
            }
        });
        futures_util::future::join_all(ends).await;
        // A request that has just ended is no longer among them, but may still hold the locks of its log.
        drop(self.registry.passing().await);
        self.services.unwaited_hooks.finish().await;
        audit::settle(&self.current.newest()).await;
        self.cancel.cancel();
    }

    /// Ends the servers whose tools tasks called, and the language servers. To be called behind [`Engine::shutdown`].
    pub async fn end_servers(&self) {
        let services = self.current.newest();
        let gate = &services.gate;
        let (servers, language_servers) = (gate.server_tools(), gate.language_servers());
        tokio::join!(servers.shut_down(), language_servers.shut_down(), gate.code_index().shut_down());
    }
}
