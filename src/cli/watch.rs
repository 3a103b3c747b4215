//! `roo-lsp tasks watch`: the requests that live in the user's daemons, as they change.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::PathBuf;

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::notification::Notifier;
use super::resume_command;
use super::session::SessionContext;
use super::signals::{Signal, Signals};
use super::terminal;
use super::{CliError, Ending};
use crate::daemon::{self, DaemonPlace, DaemonStatus, LostDaemons, RequestStatus, Watched, Watcher};
use roo_formats::config::Directories;
use roo_protocol::ids::TaskId;
use roo_protocol::task::TaskState;
use roo_text::render::{counted, exact_line, one_line};

/// The longest title, in characters.
const TITLE: usize = 60;
/// The most lines that are drawn over: what has scrolled off can't be.
const LINES: usize = 20;

/// Shows the requests of the workspace, or of all, until the daemons have ended or the user has seen enough.
pub(super) async fn watch(context: &SessionContext, of_all: bool) -> Result<Ending, CliError> {
    let failed = |error: &dyn std::fmt::Display| CliError::Other(error.to_string());
    let found = daemon::find_resumed(&context.directories).await.map_err(|error| failed(&error))?;
    let mut signals = Signals::listen()?;
    let folder = (!of_all).then(|| context.folder.clone());
    let mut watchers = JoinSet::new();
    let (told, mut changes) = mpsc::channel(1);
    for (number, found) in found.iter().enumerate() {
        match Watcher::connect(&found.place, vec![]).await {
            Ok(Some(watcher)) => {
                let (directories, place) = (context.directories.clone(), found.place.clone());
                let (folder, told) = (folder.clone(), told.clone());
                let watched = WatchedDaemon { number, directories, place, folder, told };
                watchers.spawn(watched.follow(watcher));
            }
            Ok(None) => {}
            Err(error) => writeln!(terminal::stderr(), "roo-lsp: a daemon can't be watched: {error}")?,
        }
    }
    drop(told);
    if watchers.is_empty() {
        return Err(CliError::Other(
            "no daemon runs; editors that start the server with --daemon and roo-lsp run --detach start it"
                .to_owned(),
        ));
    }
    let mut board = Board::new(folder);
    let mut notifier = Notifier::new(context.settings_to_look().daemon.notifications);
    let mut screen = terminal::stdout_moves_cursor().then(Screen::default);
    if let Some(screen) = &mut screen {
        screen.draw(&board.table())?;
    }
    let ending = loop {
        tokio::select! {
            change = changes.recv() => {
                let (number, requests) = match change {
                    None => break Ending::Done,
                    Some(Told::Requests(number, requests)) => (number, requests),
                    Some(Told::Line(line)) => {
                        if let Some(screen) = &mut screen {
                            screen.erase()?;
                        }
                        writeln!(terminal::stderr(), "roo-lsp: {line}")?;
                        if let Some(screen) = &mut screen {
                            screen.draw(&board.table())?;
                        }
                        continue;
                    }
                };
                let changed = board.take(number, requests);
                for change in &changed {
                    if let Some(text) = change.calls_for() {
                        notifier.notify(text, &change.request.title);
                    }
                }
                match &mut screen {
                    Some(screen) => screen.draw(&board.table())?,
                    None => {
                        let mut out = terminal::stdout();
                        for change in &changed {
                            writeln!(out, "{}", line_of(&change.request))?;
                        }
                        out.flush()?;
                    }
                }
            }
            signal = signals.next() => break match signal {
                Signal::Interrupt => Ending::Done,
                Signal::Terminate => Ending::Terminated,
            },
        }
    };
    notifier.finish().await;
    Ok(ending)
}

/// What is told of daemons.
enum Told {
    /// The requests of the daemon of this number.
    Requests(usize, Vec<RequestStatus>),
    /// A line for the user.
    Line(String),
}

/// A daemon that is watched, and those that take its place.
struct WatchedDaemon {
    number: usize,
    directories: Directories,
    place: DaemonPlace,
    /// The workspace whose requests are shown; none for all.
    folder: Option<PathBuf>,
    told: mpsc::Sender<Told>,
}

impl WatchedDaemon {
    /// Tells what daemons say of their requests, until one ends in good order or there is no other one. Nothing lives then.
    async fn follow(self, mut watcher: Watcher) {
        let mut lost = LostDaemons::default();
        // As they were told last.
        let mut requests: Vec<RequestStatus> = vec![];
        // A daemon was lost, and the next one has not said yet what it goes on with.
        let mut is_taking_over = false;
        loop {
            match watcher.next().await {
                Watched::Status(DaemonStatus { requests: told, resuming, .. }) => {
                    let told = with_those_resumed(told, &requests, &resuming);
                    if is_taking_over {
                        self.say_what_is_interrupted(&requests, &told).await;
                        is_taking_over = !resuming.is_empty();
                    }
                    requests = told;
                    self.tell(Told::Requests(self.number, requests.clone())).await;
                    continue;
                }
                Watched::Ended => break,
                Watched::Lost => {}
            }
            self.say("a daemon ended unexpectedly; another one is looked for").await;
            let unended = requests.iter().filter(|request| !request.has_ended);
            let known: Vec<TaskId> = unended.map(|request| request.id.clone()).collect();
            let connect = || Watcher::reconnect(&self.directories, &self.place, known.clone());
            let next = lost.replace(connect).await;
            match next {
                Ok(next) => {
                    watcher = next;
                    is_taking_over = true;
                    self.say("another daemon has taken over").await;
                }
                Err(error) => {
                    self.say(&format!("there is no other daemon: {error}; its requests can be resumed"))
                        .await;
                    break;
                }
            }
        }
        self.tell(Told::Requests(self.number, vec![])).await;
    }

    /// Says which requests are gone that have not ended: their daemon was killed, and the next one doesn't go on with them.
    async fn say_what_is_interrupted(&self, before: &[RequestStatus], now: &[RequestStatus]) {
        let is_shown = |request: &RequestStatus| {
            !request.has_ended && self.folder.as_ref().is_none_or(|folder| request.folders.contains(folder))
        };
        for request in before.iter().filter(|request| is_shown(request)) {
            if now.iter().all(|told| told.id != request.id) {
                let urid = &request.urid;
                let resume = resume_command::of_request(request);
                self.say(&format!("{urid} is interrupted; continue with: {resume}")).await;
            }
        }
    }

    async fn say(&self, line: &str) {
        self.tell(Told::Line(exact_line(line))).await;
    }

    async fn tell(&self, told: Told) {
        // Whoever looked has seen enough.
        let _ = self.told.send(told).await;
    }
}

/// What a daemon has told, with the requests that it is about to go on with as they were before.
fn with_those_resumed(
    mut told: Vec<RequestStatus>,
    before: &[RequestStatus],
    resuming: &[TaskId],
) -> Vec<RequestStatus> {
    for request in before.iter().filter(|request| resuming.contains(&request.id)) {
        match told.iter_mut().find(|known| known.id == request.id) {
            // Only as long as it is found as it was left.
            Some(known) if known.state == TaskState::Interrupted.as_str() => *known = request.clone(),
            Some(_) => {}
            None => told.push(request.clone()),
        }
    }
    told
}

/// The requests, as they were told last.
struct Board {
    /// The workspace whose requests are shown; none for all.
    folder: Option<PathBuf>,
    /// By their daemon and id.
    requests: BTreeMap<(usize, TaskId), RequestStatus>,
}

/// A request that has changed.
struct Change {
    before: Option<RequestStatus>,
    request: RequestStatus,
}

impl Board {
    fn new(folder: Option<PathBuf>) -> Self {
        Self { folder, requests: BTreeMap::new() }
    }

    /// Takes what a daemon has told, and returns what has changed since.
    fn take(&mut self, daemon: usize, told: Vec<RequestStatus>) -> Vec<Change> {
        let folder = self.folder.clone();
        let is_shown =
            |request: &RequestStatus| folder.as_ref().is_none_or(|folder| request.folders.contains(folder));
        let (before, others): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::take(&mut self.requests).into_iter().partition(|((of, _), _)| *of == daemon);
        self.requests = others;
        let mut before: BTreeMap<TaskId, RequestStatus> =
            before.into_iter().map(|((_, id), request)| (id, request)).collect();
        let mut changes = Vec::new();
        for request in told.into_iter().filter(is_shown) {
            let known = before.remove(&request.id);
            let shows = |one: &RequestStatus| (one.state.clone(), one.waiting, one.title.clone());
            if known.as_ref().map(shows) != Some(shows(&request)) {
                changes.push(Change { before: known, request: request.clone() });
            }
            self.requests.insert((daemon, request.id.clone()), request);
        }
        changes
    }

    /// A line for each request.
    fn table(&self) -> String {
        let mut text = String::new();
        for request in self.requests.values().take(LINES) {
            let _ = writeln!(text, "{}", line_of(request));
        }
        match self.requests.len() {
            0 => text.push_str("no request is live; Ctrl-C ends this list\n"),
            count if count > LINES => {
                let _ = writeln!(text, "and {}", counted(count - LINES, "more request"));
            }
            _ => {}
        }
        text
    }
}

impl Change {
    /// The reason why its user should look, if there is one that wasn't there before. What was so at the first look is no news.
    fn calls_for(&self) -> Option<&'static str> {
        let before = self.before.as_ref()?;
        let request = &self.request;
        if request.waiting > before.waiting {
            return Some("roo: a request asks something");
        }
        (request.has_ended && !before.has_ended).then_some("roo: a request has ended")
    }
}

fn line_of(request: &RequestStatus) -> String {
    let asks = match request.waiting {
        0 => String::new(),
        waiting => format!(" ({} open)", counted(waiting, "question")),
    };
    format!(
        "{}  {}{asks}  {}",
        exact_line(request.urid.as_str()),
        exact_line(&request.state),
        one_line(&request.title, TITLE)
    )
}

/// Lines of a terminal that are drawn over.
#[derive(Default)]
struct Screen {
    lines: usize,
}

impl Screen {
    fn erase(&mut self) -> io::Result<()> {
        let mut out = io::stdout().lock();
        if self.lines > 0 {
            // What is typed is echoed at the cursor, and moves it.
            write!(out, "\r\u{1b}[{}A\u{1b}[J", self.lines)?;
        }
        self.lines = 0;
        out.flush()
    }

    fn draw(&mut self, table: &str) -> io::Result<()> {
        self.erase()?;
        let mut out = io::stdout().lock();
        self.lines = table.lines().count();
        // A line that wrapped would count as several: the terminal is to cut it.
        write!(out, "\u{1b}[?7l{}\u{1b}[?7h", roo_text::render::visible(table))?;
        out.flush()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request(id: &str, state: &str, waiting: usize, folder: &str) -> RequestStatus {
        serde_json::from_value(json!({
            "id": id, "urid": format!("u-{id}"), "title": format!("Do {id}"), "state": state, "isAtWork": true,
            "waiting": waiting, "hasEnded": state == "completed", "folders": [folder], "clients": 1,
        }))
        .unwrap()
    }

    fn lines(changes: &[Change]) -> Vec<String> {
        changes.iter().map(|change| line_of(&change.request)).collect()
    }

    #[test]
    fn what_has_changed_is_told_once() {
        let mut board = Board::new(Some("/w".into()));
        let first =
            board.take(0, vec![request("a", "running", 0, "/w"), request("b", "running", 0, "/other")]);
        assert_eq!(lines(&first), ["u-a  running  Do a"]);
        assert_eq!(first[0].calls_for(), None, "that is no news");
        assert!(board.take(0, vec![request("a", "running", 0, "/w")]).is_empty());
        let asks = board.take(0, vec![request("a", "waiting", 1, "/w")]);
        assert_eq!(lines(&asks), ["u-a  waiting (1 question open)  Do a"]);
        assert_eq!(asks[0].calls_for(), Some("roo: a request asks something"));
        let ends = board.take(0, vec![request("a", "completed", 0, "/w")]);
        assert_eq!(ends[0].calls_for(), Some("roo: a request has ended"));
    }

    #[test]
    fn daemons_are_kept_apart_and_what_lived_in_one_goes_with_it() {
        let mut board = Board::new(None);
        board.take(0, vec![request("a", "running", 0, "/w")]);
        board.take(1, vec![request("b", "running", 0, "/v")]);
        assert_eq!(board.table(), "u-a  running  Do a\nu-b  running  Do b\n");
        board.take(0, vec![]);
        assert_eq!(board.table(), "u-b  running  Do b\n");
        board.take(1, vec![]);
        assert_eq!(board.table(), "no request is live; Ctrl-C ends this list\n");
    }

    #[test]
    fn a_request_that_is_about_to_go_on_is_shown_as_it_was() {
        let before = [request("a", "running", 0, "/w"), request("b", "waiting", 1, "/w")];
        let id = |name: &str| TaskId::new(name);
        let shown = |told, resuming: &[TaskId]| -> Vec<String> {
            let shown = with_those_resumed(told, &before, resuming);
            shown.iter().map(|request| format!("{} {}", request.id, request.state)).collect()
        };
        assert_eq!(shown(vec![], &[id("a"), id("b"), id("c")]), ["a running", "b waiting"]);
        let found = vec![request("a", "interrupted", 0, "/w"), request("b", "completed", 0, "/w")];
        assert_eq!(shown(found.clone(), &[id("a"), id("b")]), ["a running", "b completed"]);
        assert_eq!(shown(found, &[]), ["a interrupted", "b completed"]);
        assert_eq!(shown(vec![], &[id("b")]), ["b waiting"]);
    }

    #[test]
    fn more_requests_than_a_screen_holds_are_counted() {
        let mut board = Board::new(None);
        let many = (0..LINES + 2).map(|number| request(&format!("{number:02}"), "running", 0, "/w"));
        board.take(0, many.collect());
        assert_eq!(board.table().lines().count(), LINES + 1);
        assert!(board.table().ends_with("and 2 more requests\n"));
    }
}
