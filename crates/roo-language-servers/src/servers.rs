//! The servers of a workspace: started when they are asked first, shared, and stopped when nobody asks.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use roo_text::render::one_line;
use tokio::sync::{Mutex, Notify};
use tokio::time::{Instant, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::changed_file::{ChangedFile, Untold};
use crate::connection::RequestError;
use crate::launcher::Launcher;
use crate::preset::InstalledServer;
use crate::problem::Problem;
use crate::restarts::{Restarts, Start};
use crate::session::{Answer, Document, Place, Question, Reply, Session};

/// Time limit for an answer, with the server's start.
const ANSWER: Duration = Duration::from_secs(45);

/// Time without a question after which a server is stopped.
const IDLE: Duration = Duration::from_secs(600);

/// Time limit for the problems of a document where the last ones came too late.
const LATE: Duration = Duration::from_millis(500);

/// The longest text of a server in an error, in characters.
const REASON: usize = 200;

/// Reasons why a question has no answer. The text is for the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LanguageServerError {
    /// No server that runs here knows the language of the file.
    #[error(
        "There is no language server for this file here. Use search_files or list_code_definition_names."
    )]
    NoServer,
    /// The server could not be started.
    #[error("The language server {server} can't be started: {reason}. Use search_files instead.")]
    NotStarted {
        server: &'static str,
        /// Reason, without a full stop.
        reason: String,
    },
    /// The server failed before and is not started again yet.
    #[error(
        "The language server {0} has just failed and is started again in a moment. Use search_files instead."
    )]
    Pausing(&'static str),
    /// The server died.
    #[error("The language server {server} ended before it answered{}. Use search_files instead.", last_words(.reason))]
    Died {
        server: &'static str,
        /// The last line on standard error.
        reason: Option<String>,
    },
    /// The server did not answer in time.
    #[error(
        "The language server {0} did not answer within 45 seconds and was stopped. Use search_files instead."
    )]
    Hangs(&'static str),
    /// The server is still working on the project.
    #[error("The language server {0} is still loading the project. Ask again later, or use search_files.")]
    Loading(&'static str),
    /// The server answered with an error.
    #[error("The language server {server} answered with an error: {reason}")]
    Refused { server: &'static str, reason: String },
    /// The server's answer is of no use.
    #[error("The language server {server} gives no answer that can be used: {reason}.")]
    Unusable {
        server: &'static str,
        /// Reason, without a full stop.
        reason: String,
    },
    /// The call was cancelled, or the program is ending.
    #[error("The question was cancelled.")]
    Cancelled,
}

fn last_words(reason: &Option<String>) -> String {
    reason.as_ref().map_or_else(String::new, |reason| format!(" (it said: {reason})"))
}

/// The language servers of one workspace.
pub struct LanguageServers {
    servers: Vec<Arc<Slot>>,
    closing: CancellationToken,
}

/// A server, running or not.
struct Slot {
    installed: InstalledServer,
    folders: Vec<PathBuf>,
    launcher: Arc<dyn Launcher>,
    running: Mutex<Running>,
    /// True once it failed so often that it is not started again.
    is_given_up: AtomicBool,
    /// True if it did not tell the problems of a document in time the last time.
    is_late: AtomicBool,
    /// Tells of each question.
    asked: Arc<Notify>,
    /// Changes on disk that it is to be told of.
    untold: Untold,
}

#[derive(Default)]
struct Running {
    session: Option<Session>,
    restarts: Restarts,
    /// Stops the wait for its idle end.
    idle: Option<DropGuard>,
}

impl fmt::Debug for LanguageServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.servers.iter().map(|slot| slot.installed.name).collect();
        f.debug_tuple("LanguageServers").field(&names).finish()
    }
}

impl LanguageServers {
    /// The servers of workspace folders. None is started yet.
    pub fn new(folders: &[PathBuf], installed: Vec<InstalledServer>, launcher: Arc<dyn Launcher>) -> Self {
        let slot = |installed| {
            Arc::new(Slot {
                installed,
                folders: folders.to_vec(),
                launcher: Arc::clone(&launcher),
                running: Mutex::default(),
                is_given_up: AtomicBool::new(false),
                is_late: AtomicBool::new(false),
                asked: Arc::default(),
                untold: Untold::default(),
            })
        };
        Self { servers: installed.into_iter().map(slot).collect(), closing: CancellationToken::new() }
    }

    /// No servers.
    pub fn none() -> Self {
        Self { servers: vec![], closing: CancellationToken::new() }
    }

    /// Reports whether there is a server that may be started. Reads the disk.
    pub fn are_offered(&self) -> bool {
        let may_serve =
            |slot: &Arc<Slot>| !slot.is_given_up.load(Ordering::Relaxed) && slot.launcher.may_launch();
        self.servers.iter().any(may_serve)
    }

    /// Reports whether there is a server for the language of a file. It may be one that can't be started.
    pub fn serve(&self, path: &Path) -> bool {
        self.slot(path).is_some()
    }

    /// Asks the server for the language of a file about a place in it, with the other documents of its language as they are
    /// in the editor. Starts the server if it doesn't run. Returns within 50 seconds.
    ///
    /// # Errors
    /// [`LanguageServerError`], for the model.
    pub async fn ask(
        &self,
        question: Question,
        place: &Place,
        others: &[Document],
        cancel: &CancellationToken,
    ) -> Result<Reply, LanguageServerError> {
        let slot = self.slot(&place.document.path).ok_or(LanguageServerError::NoServer)?;
        tokio::select! {
            biased;
            () = cancel.cancelled() => Err(LanguageServerError::Cancelled),
            () = self.closing.cancelled() => Err(LanguageServerError::Cancelled),
            answer = slot.ask_in_time(question, place, others) => answer,
        }
    }

    /// Has the servers that run be told, before they are asked again, of files that changed on disk: not all of them watch it.
    /// They get to know the paths of all files, as a project is more than the files of one language.
    pub fn changed(&self, changed: &[ChangedFile]) {
        self.servers.iter().for_each(|slot| slot.untold.add(changed));
    }

    /// Returns the name of the server for a file's language, and the problems that it finds in the document; none where it doesn't
    /// tell in time. A server that is starting or slow goes on, so that it can tell next time.
    pub async fn problems_within(
        &self,
        document: Document,
        others: Vec<Document>,
        limit: Duration,
    ) -> Option<(&'static str, Vec<Problem>)> {
        let slot = Arc::clone(self.slot(&document.path)?);
        let is_late = slot.is_late.load(Ordering::Relaxed);
        // Nobody waits behind a question that is late already.
        if is_late && slot.running.try_lock().is_err() {
            return None;
        }
        let limit = if is_late { limit.min(LATE) } else { limit };
        let (asked, closing) = (Arc::clone(&slot), self.closing.clone());
        let place = Place { document, offset: 0 };
        let question = tokio::spawn(async move {
            tokio::select! {
                biased;
                () = closing.cancelled() => None,
                answer = asked.ask_in_time(Question::Problems, &place, &others) => answer.ok(),
            }
        });
        let answer = timeout(limit, question).await;
        slot.is_late.store(answer.is_err(), Ordering::Relaxed);
        match answer {
            Ok(Ok(Some(Reply { answer: Answer::Problems { found, .. }, .. }))) => {
                Some((slot.installed.name, found))
            }
            _ => None,
        }
    }

    fn slot(&self, path: &Path) -> Option<&Arc<Slot>> {
        self.servers.iter().find(|slot| slot.installed.language_of(path).is_some())
    }

    /// Ends all servers. When this returns, no program of theirs is left, and none is started any more.
    pub async fn shut_down(&self) {
        self.closing.cancel();
        let end = self.servers.iter().map(|slot| async {
            let session = slot.running.lock().await.session.take();
            if let Some(session) = session {
                session.end().await;
            }
        });
        futures_util::future::join_all(end).await;
    }
}

impl Slot {
    async fn ask_in_time(
        self: &Arc<Self>,
        question: Question,
        place: &Place,
        others: &[Document],
    ) -> Result<Reply, LanguageServerError> {
        let name = self.installed.name;
        let answer = timeout(ANSWER, self.ask(question, place, others)).await;
        self.asked.notify_one();
        let Ok(answer) = answer else {
            // Another question may hold it, and then finds out itself.
            if let Ok(mut running) = self.running.try_lock() {
                if running.session.as_ref().is_some_and(|session| session.connection().is_working()) {
                    return Err(LanguageServerError::Loading(name));
                }
                self.fail(&mut running);
            }
            return Err(LanguageServerError::Hangs(name));
        };
        answer
    }

    /// Asks the server, one question after the other. May be dropped at any time.
    async fn ask(
        self: &Arc<Self>,
        question: Question,
        place: &Place,
        others: &[Document],
    ) -> Result<Reply, LanguageServerError> {
        let server = self.installed.name;
        let mut running = self.running.lock().await;
        if running.session.as_ref().is_some_and(|session| session.connection().is_gone()) {
            // It ended between two questions, which is no reason to wait.
            running.session = None;
        }
        if running.session.is_none() {
            self.start(&mut running).await?;
        }
        let Some(session) = &mut running.session else { return Err(LanguageServerError::NoServer) };
        let reply = async {
            if let Some((count, params)) = self.untold.notification() {
                session.connection().notify("workspace/didChangeWatchedFiles", params).await?;
                // Only now: this may be dropped while it waits.
                self.untold.told(count);
            }
            session.ask(&self.installed, question, place, others).await
        };
        match reply.await {
            Ok(reply) => {
                running.restarts.answered();
                Ok(reply)
            }
            Err(RequestError::Loading) => {
                running.restarts.answered();
                Err(LanguageServerError::Loading(server))
            }
            Err(RequestError::Refused(reason)) => {
                running.restarts.answered();
                Err(LanguageServerError::Refused { server, reason: one_line(&reason, REASON) })
            }
            Err(RequestError::Unusable(reason)) => {
                running.restarts.answered();
                Err(LanguageServerError::Unusable { server, reason })
            }
            Err(RequestError::Gone) => {
                let reason = session.connection().last_words().map(|words| one_line(&words, REASON));
                self.fail(&mut running);
                Err(LanguageServerError::Died { server, reason })
            }
        }
    }

    async fn start(self: &Arc<Self>, running: &mut Running) -> Result<(), LanguageServerError> {
        let server = self.installed.name;
        match running.restarts.start(Instant::now()) {
            Start::Now => {}
            Start::In(_) => return Err(LanguageServerError::Pausing(server)),
            Start::Never => return Err(LanguageServerError::NoServer),
        }
        self.untold.begin();
        let launched = match self.launcher.launch(&self.installed).await {
            Ok(launched) => launched,
            Err(reason) => {
                self.fail(running);
                return Err(LanguageServerError::NotStarted { server, reason });
            }
        };
        match Session::start(launched, &self.installed, &self.folders).await {
            Ok(session) => {
                running.session = Some(session);
                let stop = CancellationToken::new();
                let end = end_when_idle(Arc::downgrade(self), Arc::clone(&self.asked));
                tokio::spawn(stop.clone().run_until_cancelled_owned(end));
                running.idle = Some(stop.drop_guard());
                Ok(())
            }
            Err((error, words)) => {
                self.fail(running);
                let reason = match (error, words) {
                    (RequestError::Refused(reason) | RequestError::Unusable(reason), _)
                    | (RequestError::Gone | RequestError::Loading, Some(reason)) => reason,
                    (RequestError::Gone | RequestError::Loading, None) => "it ended at once".to_owned(),
                };
                Err(LanguageServerError::NotStarted { server, reason: one_line(&reason, REASON) })
            }
        }
    }

    /// Ends a server that failed. What is dropped here is killed.
    fn fail(&self, running: &mut Running) {
        running.session = None;
        self.untold.end();
        running.idle = None;
        running.restarts.failed(Instant::now());
        if running.restarts.start(Instant::now()) == Start::Never {
            self.is_given_up.store(true, Ordering::Relaxed);
        }
    }
}

/// Ends a server once it was not asked for a while.
async fn end_when_idle(slot: Weak<Slot>, asked: Arc<Notify>) {
    while timeout(IDLE, asked.notified()).await.is_ok() {}
    if let Some(slot) = slot.upgrade() {
        let session = {
            let mut running = slot.running.lock().await;
            slot.untold.end();
            running.session.take()
        };
        if let Some(session) = session {
            session.end().await;
        }
    }
}

#[cfg(test)]
#[path = "servers_tests.rs"]
mod tests;
