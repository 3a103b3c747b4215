//! One connection: what was settled with its client, its documents, and the engine behind it.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::{OnceCell, watch};
use tokio_util::sync::CancellationToken;
use tower_lsp::Client;
use tower_lsp::jsonrpc::{Error, ErrorCode};
use tower_lsp::ls_types::MessageType;

use super::config_files::ConfigFiles;
use super::configuration::{Unanswered, asked_of};
use super::editor::ClientEditor;
use super::negotiated::Negotiated;
use super::review_drafts::ReviewDrafts;
use super::services::WorkspaceOpening;
pub(super) use super::services::{ProcessServices, WorkspaceServices};
use super::shared_engines::{ConnectionKind, EngineSource, Membership, Sharing};
use super::shown_approvals::ShownApprovals;
use super::subscription::{Recipient, Subscriptions};
use super::task_document::TaskDocuments;
use crate::live_settings::LiveSettings;
use crate::markdown::inert;
use crate::web::PageAddress;
use roo_engine::engine::Decider;
use roo_formats::config::Layer;
use roo_protocol::PROTOCOL_VERSION;
use roo_text::render::one_line;
use roo_workspace::{AttachedEditor, Documents, Editor};

/// The longest title or result within a message, in characters: editors show one line.
pub(super) const MESSAGE: usize = 200;
/// Time limit for tasks to stop when the client asks for an orderly shutdown.
const SHUTDOWN_DEADLINE: Duration = Duration::from_secs(2);

/// Starts the features of a connection, now that its engine is there, and is told which folders can't be used.
pub(super) type Start = fn(&Arc<Session>, &Arc<WorkspaceServices>, Vec<String>);

/// What a client has said of settings.
#[derive(Default)]
struct ToldSettings {
    /// Its options, which count as its user's own.
    options: Value,
    /// What its workspace says, which only takes away.
    workspace: Value,
}

/// One connection.
pub(super) struct Session {
    pub(super) client: Client,
    pub(super) documents: Arc<Documents>,
    pub(super) subscriptions: Arc<Subscriptions>,
    pub(super) config_files: ConfigFiles,
    pub(super) task_documents: TaskDocuments,
    pub(super) process: ProcessServices,
    negotiated: OnceLock<Negotiated>,
    services: OnceCell<Arc<WorkspaceServices>>,
    /// Where its engine is from.
    engine_source: EngineSource,
    /// The place of this connection among those that share its engine.
    membership: Mutex<Option<Membership>>,
    told_settings: Mutex<ToldSettings>,
    /// When the client was last found to give no answer about its settings.
    unanswered: Mutex<Option<Instant>>,
    /// Held while the client is asked for its settings again.
    asking: tokio::sync::Mutex<()>,
    /// The number of times that they changed.
    changes: AtomicU64,
    start: Start,
    /// The connection is over: nothing is told to its client any more.
    pub(super) ended: CancellationToken,
    /// The process that started this one has ended.
    pub(super) abandoned: CancellationToken,
    shutdown: AtomicBool,
    /// Held by the one popup that the client has.
    pub(super) popup_turn: tokio::sync::Mutex<()>,
    /// Tells that trust was granted or revoked.
    pub(super) trust_changes: watch::Sender<()>,
    /// The approvals that the client's user was shown.
    pub(super) shown_approvals: ShownApprovals,
    /// The decisions on single hunks that its user has made.
    pub(super) review_drafts: ReviewDrafts,
    /// The client is told of changes of the MCP servers.
    pub(super) follows_servers: AtomicBool,
    /// The page for a browser, once its user has asked for it.
    pub(super) page: OnceCell<PageAddress>,
}

impl Session {
    /// A connection to this client, before `initialize`. `start` is called once.
    pub(super) fn new(
        client: Client,
        process: ProcessServices,
        engine_source: EngineSource,
        start: Start,
    ) -> Self {
        Self {
            client,
            documents: Arc::default(),
            subscriptions: Arc::default(),
            config_files: ConfigFiles::default(),
            task_documents: TaskDocuments::default(),
            process,
            negotiated: OnceLock::new(),
            services: OnceCell::new(),
            engine_source,
            membership: Mutex::default(),
            told_settings: Mutex::default(),
            unanswered: Mutex::default(),
            asking: tokio::sync::Mutex::default(),
            changes: AtomicU64::default(),
            start,
            ended: CancellationToken::new(),
            abandoned: CancellationToken::new(),
            shutdown: AtomicBool::new(false),
            popup_turn: tokio::sync::Mutex::default(),
            trust_changes: watch::Sender::new(()),
            shown_approvals: ShownApprovals::default(),
            review_drafts: ReviewDrafts::default(),
            follows_servers: AtomicBool::new(false),
            page: OnceCell::new(),
        }
    }

    /// Takes what `initialize` settled; the first time counts.
    pub(super) fn settle(&self, negotiated: Negotiated) -> &Negotiated {
        self.config_files.settle(&negotiated.folders, &self.process.directories);
        self.negotiated.get_or_init(|| negotiated)
    }

    /// Returns the negotiated capabilities; none before `initialize`.
    pub(super) fn negotiated(&self) -> Option<&Negotiated> {
        self.negotiated.get()
    }

    /// The name for `by`.
    pub(super) fn client_name(&self) -> &str {
        self.negotiated().map_or("client", |negotiated| &negotiated.client)
    }

    /// The client as the author of answers.
    pub(super) fn decider(&self) -> Decider {
        match &self.engine_source {
            EngineSource::Shared(Sharing { kind: ConnectionKind::Terminal, .. }) => Decider::Terminal,
            EngineSource::Shared(_) | EngineSource::Own | EngineSource::Lent(_) => self.client_name().into(),
        }
    }

    /// The client, as events of its subscriptions reach it.
    pub(super) fn recipient(&self) -> Recipient {
        let (client, clock) = (self.client.clone(), Arc::clone(&self.process.clock));
        Recipient { client, clock, ended: self.ended.clone() }
    }

    /// Returns whether the client speaks `roo/*`.
    pub(super) fn is_typed(&self) -> bool {
        self.negotiated().is_some_and(|negotiated| negotiated.typed)
    }

    /// The engine. Made at `initialized`, or when it is needed first.
    pub(super) async fn services(self: &Arc<Self>) -> Result<&Arc<WorkspaceServices>, Error> {
        let wanted = Instant::now();
        self.services.get_or_try_init(|| self.build(wanted)).await
    }

    /// The engine, for a `roo/*` request of a client that opted in.
    pub(super) async fn typed(self: &Arc<Self>) -> Result<&Arc<WorkspaceServices>, Error> {
        if self.is_typed() {
            return self.services().await;
        }
        let message = format!(
            "roo/* is off: send protocolVersion {PROTOCOL_VERSION} in capabilities.experimental.roo or in \
             initializationOptions.roo"
        );
        Err(Error { code: ErrorCode::MethodNotFound, message: message.into(), data: None })
    }

    /// The engine that was `wanted` at some time.
    async fn build(self: &Arc<Self>, wanted: Instant) -> Result<Arc<WorkspaceServices>, Error> {
        let Some(negotiated) = self.negotiated() else {
            return Err(Error::internal_error());
        };
        let (file, clock) = (self.process.directories.config_file(), Arc::clone(&self.process.clock));
        let options = Layer::from_initialization_options(&negotiated.options);
        let said = if negotiated.configuration { self.said_at_start(wanted).await } else { Ok(None) };
        let said = said.map_err(|error| Error {
            code: ErrorCode::InternalError,
            message: error.to_string().into(),
            data: None,
        })?;
        let said = said.unwrap_or_default();
        *self.told_settings() = ToldSettings { options: negotiated.options.clone(), workspace: said.clone() };
        let load = tokio::task::spawn_blocking(move || LiveSettings::load(file, options, &said, clock));
        let settings = Arc::new(load.await.map_err(|_| Error::internal_error())?);
        let folders = negotiated.folders.clone();
        let usable = tokio::task::spawn_blocking(move || usable(folders));
        let (folders, lost) = usable.await.map_err(|_| Error::internal_error())?;
        let editor = self.editor(negotiated);
        let opening = |documents, editor| WorkspaceOpening {
            folders,
            directories: self.process.directories.clone(),
            clock: Arc::clone(&self.process.clock),
            settings,
            documents,
            editor,
            encoding: negotiated.encoding,
        };
        let services = match &self.engine_source {
            EngineSource::Lent(services) => Arc::clone(services),
            EngineSource::Own => {
                WorkspaceServices::open(opening(Arc::clone(&self.documents), editor)).await?
            }
            EngineSource::Shared(shared) => {
                let attached = AttachedEditor {
                    documents: Arc::clone(&self.documents),
                    editor,
                    encoding: negotiated.encoding,
                };
                let (services, membership) = shared.join(opening(Arc::default(), None), attached).await?;
                let mut place = self.membership.lock().unwrap_or_else(PoisonError::into_inner);
                // Whoever has gone meanwhile leaves at once.
                *place = (!self.ended.is_cancelled()).then_some(membership);
                drop(place);
                services
            }
        };
        (self.start)(self, &services, lost);
        Ok(services)
    }

    /// What the client says of its settings. It is waited for: nothing may be allowed that the answer takes away.
    async fn said_at_start(&self, wanted: Instant) -> Result<Option<Value>, Unanswered> {
        let unanswered = || self.unanswered.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that waited for the same question are told together.
        if unanswered().is_some_and(|last| last > wanted) {
            return Err(Unanswered);
        }
        let slow =
            "roo: the editor has not sent its settings yet (workspace/configuration); no task starts before";
        let said = asked_of(&self.client, Some(slow)).await;
        if said.is_err() {
            *unanswered() = Some(Instant::now());
        }
        said
    }

    /// The editor behind the client, if it takes edits.
    fn editor(&self, negotiated: &Negotiated) -> Option<Arc<dyn Editor>> {
        negotiated.edits.map(|edits| -> Arc<dyn Editor> {
            Arc::new(ClientEditor {
                client: self.client.clone(),
                edits,
                files: negotiated.file_operations,
                reviews: negotiated.reviews,
                saves: negotiated.saves_documents,
                answers_code: negotiated.answers_code,
                ended: self.ended.clone(),
            })
        })
    }

    /// What a hover shows, in the format that the client takes.
    pub(super) fn hover_contents(&self, text: &str) -> Value {
        let markdown = self.negotiated().is_some_and(|negotiated| negotiated.hover_markdown);
        match markdown {
            true => json!({ "kind": "markdown", "value": inert(text) }),
            false => json!({ "kind": "plaintext", "value": text }),
        }
    }

    /// Shows the user a message, whole: what it says last, such as what to run next, may be what they need. Whoever puts a long
    /// text into it cuts that to [`MESSAGE`].
    pub(super) async fn tell(&self, kind: MessageType, message: &str) {
        self.client.show_message(kind, one_line(&format!("roo: {message}"), usize::MAX)).await;
    }

    /// The client's settings have changed. A client that can be asked is asked, as at the start; what another one says
    /// unasked counts for the same.
    pub(super) async fn configuration_changed(self: &Arc<Self>, said: Value) {
        if !self.negotiated().is_some_and(|negotiated| negotiated.configuration) {
            return self.workspace_said(said).await;
        }
        let this = Arc::clone(self);
        let change = self.changes.fetch_add(1, Ordering::Relaxed) + 1;
        // Apart from the handler: the client may take its time, and has other requests.
        self.spawn(async move {
            // An earlier answer that comes late must not replace a later one.
            let _turn = this.asking.lock().await;
            let is_newest = this.changes.load(Ordering::Relaxed) == change;
            if !is_newest || this.services().await.is_err() {
                return;
            }
            match asked_of(&this.client, None).await {
                Ok(Some(said)) => this.workspace_said(said).await,
                Ok(None) => {}
                Err(error) => {
                    this.tell(MessageType::WARNING, &format!("{error}: its last answer counts")).await
                }
            }
        });
    }

    async fn workspace_said(self: &Arc<Self>, said: Value) {
        let Ok(services) = self.services().await else { return };
        let is_other = std::mem::replace(&mut self.told_settings().workspace, said.clone()) != said;
        if self.may_change_settings(is_other).await {
            services.settings.set_workspace(&said);
        }
    }

    /// The client's options have changed.
    pub(super) async fn options_changed(self: &Arc<Self>, options: Value) {
        let Ok(services) = self.services().await else { return };
        let is_other = std::mem::replace(&mut self.told_settings().options, options.clone()) != options;
        if self.may_change_settings(is_other).await {
            services.settings.set_options(&options);
        }
    }

    /// Returns whether what this client says of settings counts now. Where other editors share the engine, it doesn't: they
    /// have settings of their own, which might be stricter. `is_other` tells whether it said something else before.
    async fn may_change_settings(&self, is_other: bool) -> bool {
        let is_shared = {
            let membership = self.membership.lock().unwrap_or_else(PoisonError::into_inner);
            // What a page says counts for no editor whose engine it is lent.
            matches!(self.engine_source, EngineSource::Lent(_))
                || membership.as_ref().is_some_and(Membership::has_other_editors)
        };
        if is_shared && is_other {
            let message = "the settings of this editor have changed, but other editors work on the same requests: reload \
                           this one, and its settings count for what it starts";
            self.tell(MessageType::WARNING, message).await;
        }
        !is_shared
    }

    fn told_settings(&self) -> MutexGuard<'_, ToldSettings> {
        self.told_settings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs something for as long as the connection lives.
    pub(super) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        tokio::spawn(self.ended.clone().run_until_cancelled_owned(future));
    }

    /// The client wants an end: tasks stop where they are, unless they go on without it.
    pub(super) async fn shut_down(&self) {
        self.shutdown.store(true, Ordering::SeqCst);
        if !matches!(self.engine_source, EngineSource::Own) {
            return;
        }
        if tokio::time::timeout(SHUTDOWN_DEADLINE, self.stop_tasks()).await.is_err() {
            tracing::warn!("tasks did not stop in time; their last actions may be missing from their logs");
        }
    }

    /// Returns whether it is between `initialize` and `shutdown`.
    pub(super) fn is_open(&self) -> bool {
        self.negotiated().is_some() && !self.was_shut_down()
    }

    /// Returns whether the client asked for an orderly end.
    pub(super) fn was_shut_down(&self) -> bool {
        self.shutdown.load(Ordering::SeqCst)
    }

    /// The connection is over. Its documents no longer count, and what it started goes on.
    pub(super) fn leave(&self) {
        drop(self.membership.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// Stops all tasks, leaving them to be resumed.
    pub(super) async fn stop_tasks(&self) {
        if let Some(services) = self.services.get() {
            services.stop_requests().await;
        }
    }

    /// Ends the MCP servers that were started.
    pub(super) async fn end_servers(&self) {
        if let Some(services) = self.services.get() {
            services.engine.end_servers().await;
        }
    }
}

/// The real places of the folders that can be used, and what is wrong with the others. Reads the disk.
fn usable(folders: Vec<PathBuf>) -> (Vec<PathBuf>, Vec<String>) {
    let (mut usable, mut lost) = (Vec::new(), Vec::new());
    for folder in folders {
        match folder.canonicalize() {
            Ok(real) if real.is_dir() => usable.push(real),
            Ok(_) => lost.push(format!("{} is no directory", folder.display())),
            Err(error) => lost.push(format!("{} can't be used ({error})", folder.display())),
        }
    }
    (usable, lost)
}
