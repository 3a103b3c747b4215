//! The commands of a request that run on after their calls have got their results.
//!
//! A [`RunningCommand`] is made by the tool `execute_command`, which waits for it in the foreground for a while. What then
//! still runs is put among the [`BackgroundCommands`] of its request, where the model reads and stops it, and where whoever
//! drives the request waits for its end.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::outcome::Outcome;
use roo_protocol::ids::CommandId;
use roo_sandbox::exec::{Collector, Output};

/// The most commands of a request that run in the background.
const MOST: usize = 16;

/// Reasons why a command is ended before it ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// Its call was cancelled.
    Cancelled,
    /// The task that started it has ended.
    TaskEnded,
    /// The model stopped it.
    Model,
    /// The user stopped it.
    User,
    /// It printed nothing for so long.
    Silent(Duration),
}

/// A command from its start to its end, in the foreground or in the background.
#[derive(Debug)]
pub struct RunningCommand {
    /// Its id.
    pub id: CommandId,
    /// The command line.
    pub line: String,
    output: Mutex<Collected>,
    /// Time when it last printed something.
    printed: watch::Sender<Instant>,
    stop: CancellationToken,
    reason: OnceLock<StopReason>,
    job: Mutex<Option<JoinHandle<Outcome>>>,
    /// Whoever drives the request has been told of its end.
    ended: CancellationToken,
}

#[derive(Debug)]
struct Collected {
    collector: Collector,
    /// Output printed since it was last taken, in bytes.
    bytes: u64,
    /// Number of outputs that were too long to be told whole.
    files: u32,
}

impl RunningCommand {
    /// A command that is about to start, and what collects its output.
    pub(crate) fn new(id: CommandId, line: String, collector: Collector) -> Self {
        Self {
            id,
            line,
            output: Mutex::new(Collected { collector, bytes: 0, files: 0 }),
            printed: watch::Sender::new(Instant::now()),
            stop: CancellationToken::new(),
            reason: OnceLock::new(),
            job: Mutex::default(),
            ended: CancellationToken::new(),
        }
    }

    fn output(&self) -> MutexGuard<'_, Collected> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It printed something.
    pub(crate) fn print(&self, text: &str) {
        let mut output = self.output();
        output.bytes += text.len() as u64;
        output.collector.push(text);
        drop(output);
        self.printed.send_replace(Instant::now());
    }

    /// Takes the output since the last time.
    pub(crate) fn take_output(&self) -> Output {
        let mut output = self.output();
        output.bytes = 0;
        output.collector.take()
    }

    /// Takes the output since the last time, when nothing more comes.
    pub(crate) fn finish_output(&self) -> Output {
        let mut output = self.output();
        output.bytes = 0;
        std::mem::take(&mut output.collector).finish()
    }

    /// Returns the length of the output that nobody has taken, in bytes.
    pub fn unread(&self) -> u64 {
        self.output().bytes
    }

    /// The name of the file for an output that is too long to be told whole.
    pub(crate) fn file_stem(&self, stem: &str) -> String {
        let mut output = self.output();
        output.files += 1;
        match output.files {
            1 => stem.to_owned(),
            number => format!("{stem}-{number}"),
        }
    }

    /// Resolves when it has printed nothing for so long.
    pub(crate) async fn silent(&self, limit: Duration) {
        let mut printed = self.printed.subscribe();
        loop {
            let last = *printed.borrow_and_update();
            tokio::select! {
                biased;
                () = sleep_until(last + limit) => return,
                // This holds the sender, so the wait can't fail.
                _ = printed.changed() => {}
            }
        }
    }

    /// Tells when it prints something.
    #[cfg(test)]
    pub(crate) fn printed(&self) -> watch::Receiver<Instant> {
        self.printed.subscribe()
    }

    /// Ends it. The first reason counts.
    pub fn stop(&self, reason: StopReason) {
        let _ = self.reason.set(reason);
        self.stop.cancel();
    }

    /// Asks for its end; whoever runs it listens.
    pub(crate) fn stopped(&self) -> &CancellationToken {
        &self.stop
    }

    /// Returns the reason why it was to end.
    pub(crate) fn stop_reason(&self) -> StopReason {
        self.reason.get().copied().unwrap_or(StopReason::Cancelled)
    }

    /// Takes the job of the command. To be taken once, by whoever waits for its end.
    pub(crate) fn take_job(&self) -> Option<JoinHandle<Outcome>> {
        self.job.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Resolves when whoever drives the request has been told of its end.
    pub async fn ended(&self) {
        self.ended.cancelled().await;
    }
}

/// The commands of one request that run in the background.
#[derive(Debug)]
pub struct BackgroundCommands {
    running: Mutex<BTreeMap<CommandId, Arc<RunningCommand>>>,
    most: usize,
}

impl Default for BackgroundCommands {
    fn default() -> Self {
        Self { running: Mutex::default(), most: MOST }
    }
}

impl BackgroundCommands {
    /// For calls that nothing follows: no command goes to the background.
    pub fn none() -> Self {
        Self { most: 0, ..Self::default() }
    }

    /// Returns whether any command can go to the background.
    pub(crate) fn is_possible(&self) -> bool {
        self.most > 0
    }

    fn running(&self) -> MutexGuard<'_, BTreeMap<CommandId, Arc<RunningCommand>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether there is room for one more.
    pub(crate) fn has_room(&self) -> bool {
        self.running().len() < self.most
    }

    /// A command goes to the background.
    pub(crate) fn add(&self, command: Arc<RunningCommand>, job: JoinHandle<Outcome>) {
        *command.job.lock().unwrap_or_else(PoisonError::into_inner) = Some(job);
        self.running().insert(command.id.clone(), command);
    }

    /// One that runs.
    pub fn get(&self, id: &CommandId) -> Option<Arc<RunningCommand>> {
        self.running().get(id).map(Arc::clone)
    }

    /// All that run.
    pub fn all(&self) -> Vec<Arc<RunningCommand>> {
        self.running().values().map(Arc::clone).collect()
    }

    /// Ends one, where it runs.
    pub fn stop(&self, id: &CommandId, reason: StopReason) {
        if let Some(command) = self.get(id) {
            command.stop(reason);
        }
    }

    /// Whoever drives the request has been told of the end of one.
    pub fn remove(&self, id: &CommandId) {
        if let Some(command) = self.running().remove(id) {
            command.ended.cancel();
        }
    }
}
