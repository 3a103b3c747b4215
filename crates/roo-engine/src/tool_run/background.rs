//! The commands of a request that run on after their calls have got their results.
//!
//! A [`RunningCommand`] is made by the tool `execute_command`, which waits for it in the foreground for a while. What then
//! still runs is put among the [`BackgroundCommands`] of its request, where the model reads and stops it, and where whoever
//! drives the request waits for its end.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use regex::Regex;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::outcome::Outcome;
use roo_protocol::ids::{CommandId, Digest};
use roo_sandbox::exec::{Collector, CommandHandle, Output};

/// The most commands of a request that run in the background.
const MAX_COMMANDS: usize = 16;
/// The most output in which a pattern is looked for, in bytes.
const SEARCHED: usize = 64 * 1024;
/// Time between two looks for a port. No kernel tells when a program begins to listen.
const LOOK: Duration = Duration::from_millis(100);

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
    /// It made a git repository that may not stay.
    Repository,
    /// It printed nothing for so long.
    Silent(Duration),
}

/// A command from its start to its end, in the foreground or in the background.
#[derive(Debug)]
pub struct RunningCommand {
    pub id: CommandId,
    /// The command line.
    pub line: String,
    /// Its terminal and its network.
    pub handle: Arc<CommandHandle>,
    /// Bounds in which what is typed to it can do no more than a command that the sandbox holds; none where it can.
    pub held: Option<Digest>,
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
    /// The end of the output that people see, since the model read on purpose.
    recent: String,
    /// Patterns that are waited for.
    awaited: Vec<(Regex, oneshot::Sender<()>)>,
}

impl RunningCommand {
    /// A command that is about to start, and what collects its output.
    pub(crate) fn new(
        id: CommandId,
        line: String,
        collector: Collector,
        handle: Arc<CommandHandle>,
        held: Option<Digest>,
    ) -> Self {
        let output = Collected { collector, bytes: 0, files: 0, recent: String::new(), awaited: Vec::new() };
        Self {
            id,
            line,
            handle,
            held,
            output: Mutex::new(output),
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

    /// It printed something that people see as this, with secrets masked: in it, patterns are looked for.
    pub(crate) fn look_at(&self, shown: &str) {
        let mut output = self.output();
        let Collected { recent, awaited, .. } = &mut *output;
        recent.push_str(shown);
        for index in (0..awaited.len()).rev() {
            if awaited[index].0.is_match(recent) {
                // Whoever waited may have given up.
                let _ = awaited.swap_remove(index).1.send(());
            }
        }
        let surplus = recent.ceil_char_boundary(recent.len().saturating_sub(SEARCHED));
        recent.drain(..surplus);
    }

    /// Forgets the output in which patterns are looked for.
    pub(crate) fn forget_recent(&self) {
        self.output().recent.clear();
    }

    /// Resolves when the output since it was forgotten matches, or the last 64 KiB of it.
    pub(crate) async fn matches(&self, pattern: &Regex) {
        let matched = {
            let mut output = self.output();
            if pattern.is_match(&output.recent) {
                return;
            }
            let (sender, matched) = oneshot::channel();
            output.awaited.retain(|(_, sender)| !sender.is_closed());
            output.awaited.push((pattern.clone(), sender));
            matched
        };
        if matched.await.is_err() {
            std::future::pending().await
        }
    }

    /// Resolves when a program in its network listens at this TCP port.
    pub(crate) async fn listens_at(&self, port: u16) {
        while !self.handle.listens_at(port) {
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Resolves when there is output that nobody has taken, and no more has come for so long.
    pub(crate) async fn settled(&self, quiet: Duration) {
        let mut printed = self.printed.subscribe();
        if self.unread() == 0 {
            // This holds the sender, so the wait can't fail.
            let _ = printed.changed().await;
        }
        self.silent(quiet).await;
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
        Self { running: Mutex::default(), most: MAX_COMMANDS }
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

    /// Returns one that listens at a port of a network of its own. What the server itself listens at there, such as a
    /// proxy, is none of its commands.
    pub(crate) async fn serving(&self, port: u16) -> Option<Arc<RunningCommand>> {
        let mut commands = self.all();
        commands.retain(|command| command.handle.network().is_some_and(|network| !network.serves(port)));
        if commands.is_empty() {
            return None;
        }
        // The kernel may take milliseconds to list what listens.
        let find = move || commands.into_iter().find(|command| command.handle.listens_at(port));
        roo_durable::spawn_blocking(find).await.ok().flatten()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn command() -> RunningCommand {
        RunningCommand::new(
            CommandId::new("cmd-1"),
            "serve".to_owned(),
            Collector::default(),
            Arc::default(),
            None,
        )
    }

    #[tokio::test]
    async fn a_pattern_is_found_in_what_came_before_and_across_pieces() {
        let command = command();
        command.look_at("listening on ");
        let pattern = Regex::new("listening on [0-9]+").unwrap();
        let waits = command.matches(&pattern);
        let prints = async {
            command.look_at("80");
            command.look_at("80\n");
        };
        tokio::join!(waits, prints);
        command.matches(&pattern).await;
        command.forget_recent();
        assert!(futures_util::FutureExt::now_or_never(command.matches(&pattern)).is_none());
    }

    #[tokio::test]
    async fn two_calls_wait_for_patterns_of_their_own() {
        let command = command();
        let (one, two) = (Regex::new("one").unwrap(), Regex::new("two").unwrap());
        let prints = async {
            command.look_at("two\n");
            command.look_at("one\n");
        };
        tokio::join!(command.matches(&one), command.matches(&two), prints);
    }

    #[tokio::test]
    async fn a_match_is_not_missed_however_much_follows_it_and_what_is_searched_is_bounded() {
        let command = command();
        let pattern = Regex::new("ready").unwrap();
        let prints = async {
            command.look_at("ready\n");
            for _ in 0..100 {
                command.look_at(&"é".repeat(SEARCHED / 10 + 1));
                assert!(command.output().recent.len() <= SEARCHED);
            }
        };
        tokio::join!(command.matches(&pattern), prints);
        assert!(futures_util::FutureExt::now_or_never(command.matches(&pattern)).is_none());
    }
}
