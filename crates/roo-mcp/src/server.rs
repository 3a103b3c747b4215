//! The actor of one server: starts it, keeps its catalog, starts it again when it fails, and ends it.

use std::sync::Arc;
use std::time::Duration;

use roo_formats::mcp::{ToolNames, Transport};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::backoff::Backoff;
use crate::catalog::ServerCatalog;
use crate::connection::{Connection, Handshake, Session, SessionEvent, Target};
use crate::events::Changed;
use crate::fault::ServerFault;
use crate::log::{LogSource, ServerLog};
use crate::services::HubServices;
use crate::status::{ServerStatus, StatusBoard};

/// The pause after lists changed, in which further changes are gathered.
const GATHERING: Duration = Duration::from_millis(200);

/// The pause before tools are asked for again that could not be listed when they changed.
const LISTED_AGAIN: Duration = Duration::from_secs(60);

/// Options of a server that can change while it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CallRules {
    /// Time limit of a call.
    pub timeout: Duration,
    /// Tools that are not offered and not called.
    pub disabled_tools: ToolNames,
}

/// Message to an actor.
pub(crate) enum Command {
    /// Starts the server, if it waits for that. Answered once it does no longer.
    Start(oneshot::Sender<()>),
    /// Ends the server and starts it again at once. Answered when the old one is gone.
    Restart(oneshot::Sender<()>),
}

/// An actor as the hub holds it.
pub(crate) struct ServerActor {
    pub commands: mpsc::Sender<Command>,
    pub cancel: CancellationToken,
    pub connection: watch::Receiver<Option<Connection>>,
    pub rules: watch::Sender<CallRules>,
    pub task: JoinHandle<()>,
}

/// Parts of an actor.
pub(crate) struct ServerParts {
    pub target: Target,
    pub rules: CallRules,
    pub actor: u64,
    /// True if it is not started before a command says so.
    pub waits: bool,
    /// True if it is known to be connected with `initialize`.
    pub prefers_initialize: bool,
    pub board: Arc<StatusBoard>,
    pub services: Arc<HubServices>,
    pub log: ServerLog,
}

impl ServerActor {
    /// Starts the actor. It waits for the `previous` one of its name to be gone.
    pub(crate) fn start(
        parts: ServerParts,
        cancel: CancellationToken,
        previous: Option<JoinHandle<()>>,
    ) -> Self {
        let (commands, received) = mpsc::channel(8);
        let (connection_out, connection) = watch::channel(None);
        let (rules, rules_in) = watch::channel(parts.rules.clone());
        let token = cancel.clone();
        let handshake = match parts.prefers_initialize {
            true => Handshake::Initialize,
            false => Handshake::Newest,
        };
        let task = tokio::spawn(async move {
            if let Some(previous) = previous {
                // However it ended.
                let _ = previous.await;
            }
            let mut state = State {
                parts,
                commands: received,
                connection: connection_out,
                rules: rules_in,
                token,
                handshake,
            };
            state.run().await;
            // Whoever was sending at the end has its command in here all the same, and would wait for the answer.
            state.commands.close();
            while state.commands.recv().await.is_some() {}
        });
        Self { commands, cancel, connection, rules, task }
    }
}

struct State {
    parts: ServerParts,
    commands: mpsc::Receiver<Command>,
    connection: watch::Sender<Option<Connection>>,
    rules: watch::Receiver<CallRules>,
    token: CancellationToken,
    /// First messages of the next session.
    handshake: Handshake,
}

/// Reasons why a session is over.
enum Over {
    /// It is to end.
    Cancelled,
    /// It is to start over.
    Restart(oneshot::Sender<()>),
    Failed(ServerFault),
}

impl State {
    async fn run(&mut self) {
        let began = Instant::now();
        let mut backoff = Backoff::default();
        // Trouble of the network says nothing about the server, however long it lasts.
        let mut trouble = Backoff::default();
        let is_remote = !matches!(self.parts.target.server.transport, Transport::Stdio(_));
        if self.parts.waits {
            tokio::select! {
                biased;
                () = self.token.cancelled() => return,
                command = self.commands.recv() => match command {
                    Some(Command::Start(done)) => self.begin(done),
                    Some(Command::Restart(done)) => {
                        // Nobody may be waiting any more.
                        let _ = done.send(());
                    }
                    None => return,
                },
            }
        }
        loop {
            if self.token.is_cancelled() {
                return;
            }
            self.publish(ServerStatus::Starting);
            let fault = match self.session().await {
                Over::Cancelled => return,
                Over::Restart(done) => {
                    // Nobody may be waiting any more.
                    let _ = done.send(());
                    backoff.reset();
                    trouble.reset();
                    continue;
                }
                Over::Failed(fault) => fault,
            };
            self.parts.log.add(LogSource::Hub, &fault.to_string());
            let now = began.elapsed();
            let pause = if fault.is_permanent() {
                None
            } else if is_remote && fault.may_pass() {
                Some(trouble.next_pause_of_many(now))
            } else {
                backoff.next_pause(now)
            };
            let fault = match pause {
                None if !fault.is_permanent() => ServerFault::Repeated(Box::new(fault)),
                _ => fault,
            };
            self.publish(match fault {
                fault @ ServerFault::NeedsLogin { .. } => ServerStatus::NeedsLogin(fault),
                fault => ServerStatus::Failed { fault, retry_after: pause },
            });
            let pause = async {
                match pause {
                    Some(pause) => sleep(pause).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = self.token.cancelled() => return,
                command = self.commands.recv() => match command {
                    Some(Command::Restart(done)) => {
                        let _ = done.send(());
                        backoff.reset();
                        trouble.reset();
                    }
                    Some(Command::Start(done)) => self.begin(done),
                    None => return,
                },
                () = pause => {}
            }
        }
    }

    /// Tells whoever asked for a start that it begins.
    fn begin(&self, done: oneshot::Sender<()>) {
        // Before: the status that they look at then is another one.
        self.publish(ServerStatus::Starting);
        let _ = done.send(());
    }

    fn publish(&self, status: ServerStatus) {
        self.parts.board.publish(&self.parts.target.server.name, self.parts.actor, status);
    }

    /// One life of the server, from its start to its end. When this returns nothing of it is left.
    async fn session(&mut self) -> Over {
        let (token, parts) = (self.token.clone(), &self.parts);
        let opening = Session::open(&parts.target, &parts.services, &parts.log, &mut self.handshake);
        let mut session = tokio::select! {
            biased;
            // What was started is killed with the future.
            () = token.cancelled() => return Over::Cancelled,
            restart = restart(&mut self.commands) => return restart,
            session = opening => match session {
                Ok(session) => session,
                Err(fault) => return Over::Failed(fault),
            },
        };
        let over = self.serve(&mut session).await;
        self.connection.send_replace(None);
        if matches!(over, Over::Failed(_)) {
            // The end takes its time, in which a call waits for what comes next.
            self.publish(ServerStatus::Starting);
        }
        let by_itself = session.close().await;
        match over {
            Over::Failed(ServerFault::Closed) => Over::Failed(by_itself.unwrap_or(ServerFault::Closed)),
            over => over,
        }
    }

    /// Uses a session until it is over.
    async fn serve(&mut self, session: &mut Session) -> Over {
        let token = self.token.clone();
        let mut catalog = tokio::select! {
            biased;
            () = token.cancelled() => return Over::Cancelled,
            restart = restart(&mut self.commands) => return restart,
            catalog = session.catalog() => match catalog {
                Ok(catalog) => catalog,
                Err(fault) => return Over::Failed(fault),
            },
        };
        catalog.prefers_initialize = self.handshake == Handshake::Initialize;
        self.connection.send_replace(Some(session.connection.clone()));
        self.publish_catalog(&catalog);
        let mut list_again_at: Option<Instant> = None;
        loop {
            let list_again = async {
                match list_again_at {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            let changed = tokio::select! {
                biased;
                () = token.cancelled() => return Over::Cancelled,
                restart = restart(&mut self.commands) => return restart,
                Ok(()) = self.rules.changed() => {
                    self.publish_catalog(&catalog);
                    continue;
                }
                event = session.next() => match event {
                    SessionEvent::Ended => return Over::Failed(ServerFault::Closed),
                    SessionEvent::Changed(changed) => {
                        // A server that says so without end is asked a few times a second at most.
                        tokio::select! {
                            biased;
                            () = token.cancelled() => return Over::Cancelled,
                            () = sleep(GATHERING) => {}
                        }
                        changed
                    }
                },
                () = list_again => Changed { tools: true, ..Changed::default() },
            };
            let refreshed = tokio::select! {
                biased;
                () = token.cancelled() => return Over::Cancelled,
                restart = restart(&mut self.commands) => return restart,
                refreshed = session.refresh(&mut catalog, changed) => refreshed,
            };
            match refreshed {
                Ok(()) if changed.tools => list_again_at = None,
                Ok(()) => {}
                Err(ServerFault::Closed) => return Over::Failed(ServerFault::Closed),
                // Calls may be running, which the end of the session would interrupt.
                Err(fault) => {
                    self.parts.log.add(LogSource::Hub, &fault.to_string());
                    list_again_at = Some(Instant::now() + LISTED_AGAIN);
                }
            }
            self.publish_catalog(&catalog);
        }
    }

    /// Publishes what is offered, without tools that are switched off.
    fn publish_catalog(&mut self, catalog: &ServerCatalog) {
        let mut offered = catalog.clone();
        let rules = self.rules.borrow_and_update().clone();
        offered.tools.retain(|tool| !rules.disabled_tools.contains(&tool.name));
        self.publish(ServerStatus::Connected(Arc::new(offered)));
    }
}

/// Waits for somebody to ask for a restart.
async fn restart(commands: &mut mpsc::Receiver<Command>) -> Over {
    loop {
        match commands.recv().await {
            Some(Command::Restart(done)) => return Over::Restart(done),
            Some(Command::Start(done)) => {
                // It has begun already.
                let _ = done.send(());
            }
            None => return Over::Cancelled,
        }
    }
}
