//! The relay: it passes on what an editor and the daemon say to each other. When the daemon is killed, it finds or starts
//! another one and tells it what the editor has said, so that the editor needn't be restarted.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncWriteExt as _, BufReader, DuplexStream};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;

use super::client::connect;
use super::client_state::{ClientState, Routed, refusal, show_message};
use super::connection::{Connection, ConnectionError};
use super::pieces::Pieces;
use super::reconnect::{LostDaemons, in_time};
use crate::server::ConnectionKind;
use roo_formats::config::Directories;
use roo_language_servers::message_frames::{Frame, Frames, write_frame};
use roo_text::render::exact_line;

/// Time for which the last answers are waited for once the editor says nothing more.
const LAST_ANSWERS: Duration = Duration::from_secs(5);
/// Number of messages that wait to be passed on, in each direction.
const QUEUE: usize = 64;
/// The exit code of a server whose client did not say `shutdown`.
const CUT_OFF: i32 = 1;
/// Kinds of messages to the user.
const ERROR: u8 = 1;
const WARNING: u8 = 2;

/// What came of relaying.
pub(crate) enum Relayed {
    /// The client was served; the exit code of its server.
    Served(i32),
    /// No daemon serves it. Nothing was read from it yet.
    Unavailable(ConnectionError),
}

/// Relays between standard input and output and the daemon of this environment, which is started if need be.
/// `settings_file` is an absolute path; `told_to_end` resolves when the process is asked to end.
pub(crate) async fn relay(
    directories: &Directories,
    settings_file: Option<PathBuf>,
    told_to_end: impl Future<Output = ()>,
) -> Relayed {
    let connection = match connect_in_time(directories, settings_file.clone()).await {
        Ok(connection) => connection,
        Err(error) => return Relayed::Unavailable(error),
    };
    let (frames, from_editor) = mpsc::channel(QUEUE);
    let (to_editor, messages) = mpsc::channel(QUEUE);
    // Tasks of their own, so that no message is cut off when something else comes first. A read of standard input may be under
    // way to the last: the process is ended, not the task.
    tokio::spawn(read_editor(frames));
    let mut writing = tokio::spawn(write_editor(messages));
    let mut relay = Relay { state: Mutex::default(), from_editor, to_editor };
    let served = tokio::select! {
        code = relay.serve(connection, directories, settings_file) => code,
        () = told_to_end => CUT_OFF,
    };
    drop(relay);
    if tokio::time::timeout(LAST_ANSWERS, &mut writing).await.is_err() {
        writing.abort();
    }
    Relayed::Served(served)
}

/// Relays between a stream of this process and the daemon of this environment, which is started if need be, until either ends.
/// Whoever is at the other end of the stream connects again.
///
/// # Errors
/// [`ConnectionError`] if no daemon serves it, or the connection broke.
pub(crate) async fn relay_stream(
    directories: &Directories,
    settings_file: Option<PathBuf>,
    stream: DuplexStream,
) -> Result<(), ConnectionError> {
    let Connection { input, mut output } = connect_in_time(directories, settings_file).await?;
    let (mut from, mut to) = tokio::io::split(stream);
    let up = async {
        // If one end is gone, the other direction notices.
        let _ = tokio::io::copy(&mut from, &mut output).await;
        let _ = output.shutdown().await;
    };
    let mut pieces = Pieces::new(input);
    let down = tokio::io::copy(&mut pieces, &mut to);
    tokio::pin!(down);
    tokio::select! {
        ended = &mut down => drop(ended?),
        // What was said last is still carried out.
        () = up => drop(tokio::time::timeout(LAST_ANSWERS, down).await),
    }
    Ok(())
}

async fn connect_in_time(
    directories: &Directories,
    settings_file: Option<PathBuf>,
) -> Result<Connection, ConnectionError> {
    in_time(connect(directories, settings_file, ConnectionKind::Editor)).await
}

struct Relay {
    state: Mutex<ClientState>,
    from_editor: mpsc::Receiver<Frame>,
    to_editor: mpsc::Sender<Vec<u8>>,
}

/// Reasons why a daemon serves no more.
enum ServiceEnd {
    /// It has ended in good order, with this exit code.
    Ended(i32),
    /// It is gone.
    Lost,
    /// The editor says nothing more.
    EditorClosed,
}

/// The daemon is gone.
struct Lost;

/// The two directions of a connection to a daemon.
struct Lines {
    input: Frames<Pieces<BufReader<OwnedReadHalf>>>,
    output: OwnedWriteHalf,
}

impl Relay {
    /// Serves until the editor or the daemon ends in good order. Returns the exit code.
    async fn serve(
        &mut self,
        connection: Connection,
        directories: &Directories,
        settings_file: Option<PathBuf>,
    ) -> i32 {
        let mut lines = Lines::new(connection);
        let mut lost = LostDaemons::default();
        loop {
            match self.pass_on(&mut lines).await {
                ServiceEnd::Ended(code) => return code,
                ServiceEnd::EditorClosed => return CUT_OFF,
                ServiceEnd::Lost => {}
            }
            let (told, is_shut_down, has_exited) = {
                let mut state = self.state();
                (state.lose_daemon(), state.is_shut_down(), state.has_exited())
            };
            for message in told {
                self.tell(message).await;
            }
            if has_exited {
                return if is_shut_down { 0 } else { CUT_OFF };
            }
            if is_shut_down {
                // It waits for nothing but its own `exit`.
                while self.from_editor.recv().await.is_some_and(|frame| !is_exit(frame)) {}
                return 0;
            }
            tracing::warn!("the daemon is gone; another one is looked for");
            let next = lost.replace(|| connect_in_time(directories, settings_file.clone())).await;
            lines = match next {
                Ok(connection) => self.go_on_with(connection).await,
                Err(error) => {
                    tracing::error!(%error, "there is no daemon any more; its requests can be resumed");
                    let text = format!(
                        "the daemon has ended, and there is no other one: {}. Restart the server; requests can be resumed",
                        exact_line(&error.to_string())
                    );
                    self.tell(show_message(ERROR, &text)).await;
                    return CUT_OFF;
                }
            };
        }
    }

    /// Tells another daemon what the editor has said. One that is lost meanwhile counts as found.
    async fn go_on_with(&self, connection: Connection) -> Lines {
        let mut lines = Lines::new(connection);
        if self.introduce(&mut lines).await.is_ok() {
            let text = "the daemon ended unexpectedly, and another one has taken over";
            self.tell(show_message(WARNING, text)).await;
        }
        lines
    }

    /// Tells a daemon what its editor has said to the one before.
    async fn introduce(&self, lines: &mut Lines) -> Result<(), Lost> {
        let greeting = self.state().greeting();
        let Some(greeting) = greeting else { return Ok(()) };
        lines.send(&greeting).await?;
        while self.state().is_greeting() {
            let Ok(Some(frame)) = lines.input.next().await else { return Err(Lost) };
            let Ok(body) = frame.into_body() else { continue };
            let routed = self.state().take_from_daemon(body);
            match routed {
                Some(Routed::ToEditor(message)) => self.tell(message).await,
                Some(Routed::ToDaemon(message)) => lines.send(&message).await?,
                None => {}
            }
        }
        let account = self.state().account();
        for message in account {
            lines.send(&message).await?;
        }
        Ok(())
    }

    /// Passes messages on until one side has nothing more to say.
    async fn pass_on(&mut self, lines: &mut Lines) -> ServiceEnd {
        let Self { state, from_editor, to_editor } = self;
        let Lines { input, output } = lines;
        // Answers of our own to the daemon; there are few.
        let (answers, own_answers) = mpsc::unbounded_channel();
        let up = send_up(state, from_editor, own_answers, to_editor, output);
        let down = send_down(state, input, answers, to_editor);
        tokio::pin!(up, down);
        tokio::select! {
            end = &mut down => end,
            closed = &mut up => match closed {
                // What the daemon has said before is still read.
                Err(Lost) => down.await,
                Ok(()) => match tokio::time::timeout(LAST_ANSWERS, down).await {
                    Ok(ServiceEnd::Ended(code)) => ServiceEnd::Ended(code),
                    _ => ServiceEnd::EditorClosed,
                },
            },
        }
    }

    async fn tell(&self, message: Vec<u8>) {
        // An editor that doesn't read any more says nothing more either.
        let _ = self.to_editor.send(message).await;
    }

    fn state(&self) -> MutexGuard<'_, ClientState> {
        lock(&self.state)
    }
}

impl Lines {
    fn new(Connection { input, output }: Connection) -> Self {
        Self { input: Frames::new(Pieces::new(input)), output }
    }

    async fn send(&mut self, message: &[u8]) -> Result<(), Lost> {
        send(&mut self.output, message).await
    }
}

/// Passes on what the editor says, until it says nothing more.
async fn send_up(
    state: &Mutex<ClientState>,
    from_editor: &mut mpsc::Receiver<Frame>,
    mut own_answers: mpsc::UnboundedReceiver<Vec<u8>>,
    to_editor: &mpsc::Sender<Vec<u8>>,
    output: &mut OwnedWriteHalf,
) -> Result<(), Lost> {
    loop {
        let frame = tokio::select! {
            frame = from_editor.recv() => frame,
            Some(answer) = own_answers.recv() => {
                send(output, &answer).await?;
                continue;
            }
        };
        let Some(frame) = frame else {
            let _ = output.shutdown().await;
            return Ok(());
        };
        match frame.into_body() {
            Ok(body) => {
                let routed = lock(state).take_from_editor(body);
                if let Some(Routed::ToDaemon(message)) = routed {
                    send(output, &message).await?;
                }
            }
            Err(skipped) => {
                let _ = to_editor.send(refusal(skipped.code(), &skipped.to_string())).await;
            }
        }
    }
}

/// Passes on what the daemon says, to its end.
async fn send_down(
    state: &Mutex<ClientState>,
    input: &mut Frames<Pieces<BufReader<OwnedReadHalf>>>,
    answers: mpsc::UnboundedSender<Vec<u8>>,
    to_editor: &mpsc::Sender<Vec<u8>>,
) -> ServiceEnd {
    while let Ok(Some(frame)) = input.next().await {
        let Ok(body) = frame.into_body() else { continue };
        let routed = lock(state).take_from_daemon(body);
        let sent = match routed {
            Some(Routed::ToEditor(message)) => to_editor.send(message).await.is_ok(),
            Some(Routed::ToDaemon(message)) => {
                // Where nothing is sent up any more, the daemon is about to end.
                let _ = answers.send(message);
                true
            }
            None => true,
        };
        if !sent {
            return ServiceEnd::EditorClosed;
        }
    }
    input.input().exit_code().map_or(ServiceEnd::Lost, |code| ServiceEnd::Ended(code.into()))
}

async fn send(output: &mut OwnedWriteHalf, message: &[u8]) -> Result<(), Lost> {
    let mut frame = Vec::with_capacity(message.len() + 32);
    write_frame(message, &mut frame);
    output.write_all(&frame).await.map_err(|_| Lost)
}

/// Reads standard input to its end.
async fn read_editor(frames: mpsc::Sender<Frame>) {
    let mut input = Frames::new(tokio::io::stdin());
    while let Ok(Some(frame)) = input.next().await {
        if frames.send(frame).await.is_err() {
            return;
        }
    }
}

/// Writes messages to standard output.
async fn write_editor(mut messages: mpsc::Receiver<Vec<u8>>) -> std::io::Result<()> {
    let mut stdout = tokio::io::stdout();
    let mut batch = Vec::new();
    while let Some(message) = messages.recv().await {
        write_frame(&message, &mut batch);
        while let Ok(message) = messages.try_recv() {
            write_frame(&message, &mut batch);
        }
        stdout.write_all(&batch).await?;
        stdout.flush().await?;
        batch.clear();
    }
    Ok(())
}

fn is_exit(frame: Frame) -> bool {
    let body = frame.into_body().unwrap_or_default();
    serde_json::from_slice::<serde_json::Value>(&body).is_ok_and(|message| message["method"] == "exit")
}

fn lock(state: &Mutex<ClientState>) -> MutexGuard<'_, ClientState> {
    // Every change under the lock is complete or not begun.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
