//! The daemon's side: it listens, serves each client by the engines that all share, and ends when nobody needs it any more.

use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use super::environment::SessionEnvironment;
use super::handshake::{Answer, Build, DaemonStatus, Hello, RequestStatus, Wish, read_line, write_line};
use super::place::{DaemonPlace, PlaceError, is_lock_at, lock_within};
use crate::server::{Connection, InterruptedRequests, LiveRequest, SharedEngines, Sharing, serve_connection};
use roo_engine::engine::clock::{Clock, SystemClock};
use roo_formats::config::Directories;
use roo_protocol::ids::{Digest, TaskId};

/// Time limit for the lock of a daemon that is ending.
const LOCK_DEADLINE: Duration = Duration::from_secs(20);
/// Time limit for the first line of a client.
const HELLO_DEADLINE: Duration = Duration::from_secs(5);
/// Time limit for connections to end with the daemon.
const CONNECTIONS_DEADLINE: Duration = Duration::from_secs(2);
/// Pause when no connection can be accepted, as when there are too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(500);
/// Time between two looks whether clients can find the daemon. A login session that ends takes the runtime directory away, and
/// a watch of it ends with it.
const LOOK: Duration = Duration::from_secs(5);
/// Time limit for the lock at a place that was recreated.
const RELOCK_DEADLINE: Duration = Duration::from_secs(1);
/// Shortest time between two reports to a client that watches.
const WATCH_PAUSE: Duration = Duration::from_millis(100);
/// The most bytes of a piece of what a client gets.
const PIECE: usize = 64 * 1024;
/// The bytes of its length before it.
const HEAD: usize = 4;

/// Reasons why a daemon can't run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DaemonError {
    /// Its files can't be used.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// The system returned an error.
    #[error("the daemon can't run: {0}")]
    Io(#[from] io::Error),
    /// There is one.
    #[error("a daemon of this environment runs already")]
    Running,
}

/// Serves clients until nobody needs it for `idle`, it is asked to end, or `told_to_end` resolves. `ready` is called once
/// clients can connect. The environment is the process's.
///
/// # Errors
/// [`DaemonError`], before anybody is served.
pub(crate) async fn run(
    directories: Directories,
    idle: Duration,
    told_to_end: impl Future<Output = ()>,
    ready: impl FnOnce(),
) -> Result<(), DaemonError> {
    let environment = SessionEnvironment::new(std::env::vars_os());
    let place = DaemonPlace::new(&directories, &environment);
    place.prepare()?;
    let lock = lock_within(place.lock(), LOCK_DEADLINE).await?.ok_or(DaemonError::Running)?;
    let key = format!("{}{}", SystemClock.random().simple(), SystemClock.random().simple());
    place.write_key(&key)?;
    // Nobody else listens there: whoever does has the lock.
    let listener = UnixListener::from_std(place.listen()?)?;
    let mut address = Address { place, key, lock, listener, problem: None };
    let daemon = Arc::new(Daemon {
        build: Build::own()?,
        key: Digest::of(&address.key),
        environment: environment.digest(),
        directories,
        shared: Arc::new(SharedEngines::new(InterruptedRequests::new(address.place.marks()))),
        since: SystemClock.now(),
        clients: watch::Sender::new(0),
        end: CancellationToken::new(),
        waiting_for_end: Mutex::default(),
    });
    // Before a client asks what lives here.
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    daemon.shared.resume_left(&daemon.directories, &clock);
    ready();
    daemon.listen(&mut address, idle, told_to_end).await;
    let lock = address.close();
    daemon.shared.shut_down().await;
    // The next one may begin once those who wait for the end of this one are told.
    drop(lock);
    drop(daemon);
    Ok(())
}

/// Where clients find the daemon.
struct Address {
    place: DaemonPlace,
    key: String,
    lock: File,
    listener: UnixListener,
    /// Why they can't now, as it was told last.
    problem: Option<String>,
}

impl Address {
    /// Puts back what clients need, where somebody has removed it.
    async fn look(&mut self) {
        let problem = self.put_back().await.err().map(|error| error.to_string());
        if let Some(error) = problem.as_ref().filter(|_| self.problem != problem) {
            tracing::warn!(error, "clients can't find the daemon");
        }
        self.problem = problem;
    }

    async fn put_back(&mut self) -> Result<(), DaemonError> {
        if self.place.has_key() && self.place.has_socket()? {
            return Ok(());
        }
        self.place.prepare()?;
        if !is_lock_at(&self.lock, &self.place.lock()) {
            let lock = lock_within(self.place.lock(), RELOCK_DEADLINE).await?;
            self.lock = lock.ok_or(DaemonError::Running)?;
        }
        self.place.write_key(&self.key)?;
        if !self.place.has_socket()? {
            self.listener = UnixListener::from_std(self.place.listen()?)?;
        }
        tracing::info!("clients can find the daemon again");
        Ok(())
    }

    /// Lets no further client come. The lock is still held.
    fn close(self) -> File {
        drop(self.listener);
        if let Err(error) = self.place.remove_socket() {
            tracing::warn!(%error, "the socket of the daemon is left");
        }
        self.lock
    }
}

struct Daemon {
    build: Build,
    /// The digest of the key that clients have to show.
    key: Digest,
    /// The digest of its environment.
    environment: String,
    directories: Directories,
    shared: Arc<SharedEngines>,
    /// When it began, in milliseconds since the Unix epoch.
    since: i64,
    /// The number of clients that are served.
    clients: watch::Sender<usize>,
    /// Nobody is served any more.
    end: CancellationToken,
    /// Connections that are closed once the daemon has ended.
    waiting_for_end: Mutex<Vec<(BufReader<OwnedReadHalf>, OwnedWriteHalf)>>,
}

/// A client that is served.
struct Served<'a>(&'a watch::Sender<usize>);

impl Drop for Served<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|clients| *clients -= 1);
    }
}

impl Daemon {
    /// Accepts clients until there is an end.
    async fn listen(
        self: &Arc<Self>,
        address: &mut Address,
        idle: Duration,
        told_to_end: impl Future<Output = ()>,
    ) {
        let mut connections = JoinSet::new();
        let unneeded = self.unneeded(idle);
        tokio::pin!(told_to_end, unneeded);
        let mut pause: Option<Instant> = None;
        let mut looks = tokio::time::interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let listener = &address.listener;
            let accept = async {
                if let Some(end) = pause {
                    tokio::time::sleep_until(end).await;
                }
                listener.accept().await
            };
            tokio::select! {
                accepted = accept => match accepted {
                    Ok((stream, _)) => {
                        pause = None;
                        let this = Arc::clone(self);
                        connections.spawn(async move {
                            if let Err(error) = this.answer(stream).await {
                                tracing::info!(%error, "a client has gone");
                            }
                        });
                    }
                    Err(error) => {
                        tracing::warn!(%error, "a client can't be accepted");
                        pause = Some(Instant::now() + ACCEPT_PAUSE);
                    }
                },
                Some(_) = connections.join_next() => {}
                _ = looks.tick() => address.look().await,
                () = &mut unneeded => {
                    tracing::info!("nobody needs the daemon any more");
                    break;
                }
                () = &mut told_to_end => break,
                () = self.end.cancelled() => break,
            }
        }
        self.end.cancel();
        let all = async { while connections.join_next().await.is_some() {} };
        if tokio::time::timeout(CONNECTIONS_DEADLINE, all).await.is_err() {
            tracing::warn!("clients did not take their last messages in time");
        }
    }

    /// Resolves when no client was connected for this time, and no request is at work.
    async fn unneeded(&self, idle: Duration) {
        let (mut clients, mut activity) = (self.clients.subscribe(), self.shared.activity());
        loop {
            if clients.wait_for(|clients| *clients == 0).await.is_err() {
                return;
            }
            tokio::select! {
                _ = clients.changed() => continue,
                _ = activity.changed() => continue,
                () = tokio::time::sleep(idle) => {}
            }
            if self.shared.are_at_work().await {
                // What it does next, and be it its end, is told.
                tokio::select! {
                    _ = clients.changed() => {}
                    _ = activity.changed() => {}
                }
            } else if self.end_if_alone() {
                return;
            }
        }
    }

    /// Ends if no client is served. Returns whether it does.
    fn end_if_alone(&self) -> bool {
        // Within, so that no client comes in between.
        self.clients.send_if_modified(|clients| {
            if *clients == 0 {
                self.end.cancel();
            }
            false
        });
        self.end.is_cancelled()
    }

    /// Counts a client, unless there is an end.
    fn admit(&self) -> Option<Served<'_>> {
        let is_admitted = self.clients.send_if_modified(|clients| {
            let is_admitted = !self.end.is_cancelled();
            *clients += usize::from(is_admitted);
            is_admitted
        });
        is_admitted.then(|| Served(&self.clients))
    }

    /// Does what a client wants.
    async fn answer(&self, stream: UnixStream) -> io::Result<()> {
        let peer = stream.peer_cred()?;
        if peer.uid() != rustix::process::geteuid().as_raw() {
            tracing::warn!(user = peer.uid(), "a client of another user was refused");
            return Ok(());
        }
        let (input, mut output) = stream.into_split();
        let mut input = BufReader::new(input);
        let hello = tokio::time::timeout(HELLO_DEADLINE, read_line::<Hello>(&mut input)).await;
        let hello = hello.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        if Digest::of(&hello.key) != self.key {
            tracing::warn!(process = ?peer.pid(), "a client without the key was refused");
            let reason = "the client does not know its key".to_owned();
            return write_line(&mut output, &Answer::Refused { reason }).await;
        }
        match hello.wish {
            Wish::Status => write_line(&mut output, &Answer::Status(self.status().await)).await,
            Wish::Stop { only_if_idle } => {
                let goes_on = only_if_idle && (self.shared.are_at_work().await || !self.end_if_alone());
                if goes_on {
                    return write_line(&mut output, &Answer::Busy).await;
                }
                write_line(&mut output, &Answer::Stopping).await?;
                let mut waiting = self.waiting_for_end.lock().unwrap_or_else(PoisonError::into_inner);
                waiting.push((input, output));
                drop(waiting);
                self.end.cancel();
                Ok(())
            }
            Wish::Serve { .. } if hello.build != self.build => {
                write_line(&mut output, &Answer::OtherBuild(self.build.clone())).await
            }
            // A request has its environment already.
            Wish::Serve { request: None, .. } if hello.environment.as_ref() != Some(&self.environment) => {
                let reason = "it has another environment than its client".to_owned();
                write_line(&mut output, &Answer::Refused { reason }).await
            }
            Wish::Watch { known } => {
                write_line(&mut output, &Answer::Welcome).await?;
                tokio::select! {
                    told = self.tell_changes(&mut output, known) => told,
                    // It says nothing more: whatever comes is its end.
                    _ = input.read_u8() => Ok(()),
                }
            }
            Wish::Serve { settings_file, client, request } => {
                let Some(_served) = self.admit() else {
                    write_line(&mut output, &Answer::Ending).await?;
                    let mut waiting = self.waiting_for_end.lock().unwrap_or_else(PoisonError::into_inner);
                    waiting.push((input, output));
                    return Ok(());
                };
                write_line(&mut output, &Answer::Welcome).await?;
                let directories = Directories { settings_file, ..self.directories.clone() };
                let engines = Arc::clone(&self.shared);
                self.serve(input, output, directories, Sharing { engines, kind: client, request }).await
            }
        }
    }

    /// Serves a client as its language server.
    async fn serve(
        &self,
        input: BufReader<OwnedReadHalf>,
        output: OwnedWriteHalf,
        directories: Directories,
        shared: Sharing,
    ) -> io::Result<()> {
        let (server_output, pieces) = tokio::io::duplex(PIECE);
        let sending = tokio::spawn(send_pieces(pieces, output));
        let connection = Connection { input, output: server_output, directories, shared };
        let code = serve_connection(connection, self.end.cancelled()).await;
        let mut output = sending.await.map_err(io::Error::other)??;
        output.write_u32(0).await?;
        output.write_u8(u8::try_from(code).unwrap_or(u8::MAX)).await
    }

    async fn status(&self) -> DaemonStatus {
        let resuming = self.shared.resuming();
        self.status_with(self.shared.requests().await, resuming)
    }

    /// Says how the daemon is, now and whenever something has happened in its requests, and in the end that it ends. A request
    /// that has ended is told of once more, as are these, which the client knows from an earlier daemon.
    async fn tell_changes(&self, output: &mut OwnedWriteHalf, known: Vec<TaskId>) -> io::Result<()> {
        let mut activity = self.shared.activity();
        let mut told: Option<DaemonStatus> = None;
        let mut open = known;
        loop {
            activity.mark_unchanged();
            let resuming = self.shared.resuming();
            let requests = self.shared.requests_and(&open).await;
            let unended = requests.iter().filter(|request| !request.state.is_final());
            open = unended.map(|request| request.id.clone()).collect();
            let status = self.status_with(requests, resuming);
            if told.as_ref() != Some(&status) {
                write_line(output, &status).await?;
                told = Some(status);
            }
            let changed = async {
                let changed = activity.changed().await;
                // Many events are one change.
                tokio::time::sleep(WATCH_PAUSE).await;
                changed
            };
            // No line is cut off.
            match self.end.run_until_cancelled(changed).await {
                Some(Ok(())) => {}
                Some(Err(_)) | None => return write_line(output, &None::<DaemonStatus>).await,
            }
        }
    }

    /// `resuming` is from before the requests were read: those that went on meanwhile are in both, and none is in neither.
    fn status_with(&self, requests: Vec<LiveRequest>, resuming: Vec<TaskId>) -> DaemonStatus {
        DaemonStatus {
            resuming,
            build: self.build.clone(),
            process: std::process::id(),
            since: self.since,
            clients: *self.clients.borrow(),
            requests: requests.into_iter().map(status_of).collect(),
        }
    }
}

fn status_of(request: LiveRequest) -> RequestStatus {
    let LiveRequest { id, urid, title, state, is_at_work, waiting, folders, connections } = request;
    RequestStatus {
        id,
        urid,
        title,
        state: state.as_str().to_owned(),
        is_at_work,
        waiting,
        has_ended: state.is_final(),
        folders,
        clients: connections,
    }
}

/// Sends what the server writes, until it has nothing more to say. Returns what it was sent by.
async fn send_pieces(mut pieces: DuplexStream, mut output: OwnedWriteHalf) -> io::Result<OwnedWriteHalf> {
    let mut piece = vec![0; HEAD + PIECE];
    loop {
        let (head, body) = piece.split_at_mut(HEAD);
        let length = pieces.read(body).await?;
        if length == 0 {
            return Ok(output);
        }
        head.copy_from_slice(&u32::try_from(length).map_err(io::Error::other)?.to_be_bytes());
        output.write_all(piece.get(..HEAD + length).unwrap_or_default()).await?;
    }
}
