//! `roo-lsp daemon`: the process that serves all editors of a user.

use std::io::Write as _;
use std::time::Duration;

use super::arguments::{Common, DaemonCommand};
use super::signals::Signals;
use super::{CliError, Ending, terminal};
use crate::daemon::{self, DaemonPlace, DaemonStatus, FoundDaemon, LogFile, SessionEnvironment};
use roo_engine::engine::clock::time_of_day;
use roo_formats::config::Directories;
use roo_process::own_program;
use roo_text::render::{exact_line, one_line};

/// The variable that says after how many seconds a daemon ends that nobody needs.
const IDLE_VARIABLE: &str = "ROO_LSP_DAEMON_IDLE";
/// How long a daemon is there for nobody, by default.
const IDLE: Duration = Duration::from_secs(600);
/// The longest title of a request, in characters.
const TITLE: usize = 60;

/// Runs one of the subcommands of `daemon`.
pub(super) async fn daemon(_: Common, command: DaemonCommand) -> Result<Ending, CliError> {
    let directories = directories()?;
    match command {
        DaemonCommand::Run { in_background: true } => run_in_background(),
        DaemonCommand::Run { in_background: false } => run(directories).await,
        DaemonCommand::Status { json } => status(&directories, json).await,
        DaemonCommand::Stop => {
            let stopped = stop_all(&directories).await?;
            writeln!(terminal::stdout(), "{}", in_words(stopped))?;
            Ok(Ending::Done)
        }
        DaemonCommand::Restart => {
            let stopped = stop_all(&directories).await?;
            let environment = SessionEnvironment::new(std::env::vars_os());
            let place = DaemonPlace::new(&directories, &environment);
            daemon::start(&place, &environment).await.map_err(|error| CliError::Other(error.to_string()))?;
            writeln!(terminal::stdout(), "{}; a daemon runs", in_words(stopped))?;
            Ok(Ending::Done)
        }
        DaemonCommand::Logs => {
            let environment = SessionEnvironment::new(std::env::vars_os());
            let path = DaemonPlace::new(&directories, &environment).log();
            let log = LogFile::read(&path).map_err(|error| {
                CliError::Other(format!("the log {} can't be read: {error}", path.display()))
            })?;
            terminal::stdout().write_all(&log)?;
            Ok(Ending::Done)
        }
    }
}

/// The log of the daemon that this process is about to be; none where there is no place for it.
pub(super) fn own_log() -> Option<LogFile> {
    let directories = directories().ok()?;
    let place = DaemonPlace::new(&directories, &SessionEnvironment::new(std::env::vars_os()));
    place.open_log().ok()
}

fn directories() -> Result<Directories, CliError> {
    Directories::from_environment(|name| std::env::var_os(name))
        .map_err(|error| CliError::Other(error.to_string()))
}

/// Starts the daemon and ends, so that the daemon is nobody's child: editors end a server that is slow to exit with all
/// processes below it. It says on the standard output of this process that it is ready.
fn run_in_background() -> Result<Ending, CliError> {
    let started =
        own_program().and_then(|program| std::process::Command::new(program).args(["daemon", "run"]).spawn());
    started.map_err(|error| CliError::Other(format!("the daemon can't be started: {error}")))?;
    Ok(Ending::Done)
}

/// Is the daemon.
async fn run(directories: Directories) -> Result<Ending, CliError> {
    // Whoever started it may end with all of their session. The leader of one, as at a terminal, is in its own already.
    let _ = rustix::process::setsid();
    std::panic::set_hook(Box::new(|panic| tracing::error!("{panic}")));
    let idle = match std::env::var(IDLE_VARIABLE) {
        Err(_) => IDLE,
        Ok(text) => Duration::from_secs(text.parse().map_err(|_| {
            CliError::Usage(format!("{IDLE_VARIABLE} is a number of seconds, not {}", exact_line(&text)))
        })?),
    };
    let mut signals = Signals::listen()?;
    let told_to_end = async {
        signals.next().await;
    };
    let ready = || {
        // Whoever started it by hand may not read this.
        let mut out = terminal::stdout();
        let _ = writeln!(out, "ready").and_then(|()| out.flush());
    };
    daemon::run(directories, idle, told_to_end, ready).await.map_err(|error| {
        tracing::error!("{error}");
        // The client that started it reads this line.
        let _ = writeln!(terminal::stdout(), "{error}");
        CliError::Other(error.to_string())
    })?;
    Ok(Ending::Done)
}

async fn status(directories: &Directories, json: bool) -> Result<Ending, CliError> {
    let found = find(directories).await?;
    let mut out = terminal::stdout();
    if json {
        for status in found.iter().filter_map(|found| found.status.as_ref().ok()) {
            let line = serde_json::to_string(status).map_err(|error| CliError::Other(error.to_string()))?;
            writeln!(out, "{line}")?;
        }
        return Ok(Ending::Done);
    }
    if found.is_empty() {
        writeln!(out, "no daemon runs")?;
    }
    for FoundDaemon { status, .. } in &found {
        match status {
            Ok(status) => out.write_all(shown(status).as_bytes())?,
            Err(error) => writeln!(out, "a daemon can't be asked: {error}")?,
        }
    }
    Ok(Ending::Done)
}

fn shown(status: &DaemonStatus) -> String {
    let clients = |count: usize| if count == 1 { "1 client".to_owned() } else { format!("{count} clients") };
    let mut text = format!(
        "daemon {}, process {}, since {}, {}\n",
        exact_line(&status.build.version),
        status.process,
        time_of_day(status.since),
        clients(status.clients),
    );
    for request in &status.requests {
        let folders: Vec<String> =
            request.folders.iter().map(|folder| exact_line(&folder.to_string_lossy())).collect();
        text.push_str(&format!(
            "  {}  {}  {}  {} ({})\n",
            exact_line(request.urid.as_str()),
            exact_line(&request.state),
            one_line(&request.title, TITLE),
            folders.join(", "),
            clients(request.clients),
        ));
    }
    for request in &status.resuming {
        text.push_str(&format!("  {}  is about to be resumed\n", exact_line(request.as_str())));
    }
    text
}

async fn find(directories: &Directories) -> Result<Vec<FoundDaemon>, CliError> {
    daemon::find_all(directories).await.map_err(|error| CliError::Other(error.to_string()))
}

/// Stops the daemons of all environments, and returns how many there were.
async fn stop_all(directories: &Directories) -> Result<usize, CliError> {
    let mut stopped = 0;
    let mut failed = Ok(());
    for FoundDaemon { place, .. } in find(directories).await? {
        match daemon::stop(&place).await {
            Ok(was_there) => stopped += usize::from(was_there),
            // The others end all the same.
            Err(error) => failed = Err(CliError::Other(error.to_string())),
        }
    }
    failed.map(|()| stopped)
}

fn in_words(stopped: usize) -> String {
    match stopped {
        0 => "no daemon ran".to_owned(),
        1 => "1 daemon was stopped; its requests can be resumed".to_owned(),
        count => format!("{count} daemons were stopped; their requests can be resumed"),
    }
}
