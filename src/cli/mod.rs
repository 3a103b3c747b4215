//! The command line: each subcommand in its own file, all over the same engine as the server.
//!
//! The one module besides `main` that prints. What a program would read goes to standard output, what
//! a person watches to standard error.
//!
//! Exit codes: 0 done; 1 it failed, with one sentence on standard error, or the reader of its output went away
//! while agents worked; 2 wrong arguments; 3 the task
//! waits for an answer and can be resumed; 130 interrupted by the user; 143 told to end, the task is kept.

mod acp;
mod activity;
mod adopt;
mod arguments;
mod attach;
mod bridge;
mod cassette;
mod check_tool;
mod checkpoints;
mod compare;
mod completions;
mod daemon;
mod demo;
mod detach;
mod dialogue;
mod doctor;
mod export_tasks;
mod helix_config;
mod hooks;
mod import;
mod index;
mod ipc;
mod login;
mod mcp;
mod models;
mod modes;
mod nats;
mod notices;
mod notification;
mod policy;
mod prompt;
mod replay;
mod resume_command;
mod run;
mod serve;
mod session;
mod setup;
mod signals;
mod submit;
mod task_page;
mod tasks;
mod terminal;
mod trace;
mod transcript;
mod tree_footer;
mod trust;
mod watch;
mod web;
mod worker;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};

use self::arguments::{Arguments, DaemonCommand, Subcommand};
use self::notices::Notices;
pub use self::session::SessionError;

/// Successful end of a subcommand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Done,
    Failed,
    Waiting,
    Interrupted,
    Terminated,
}

impl From<Ending> for ExitCode {
    fn from(ending: Ending) -> Self {
        ExitCode::from(match ending {
            Ending::Done => 0,
            Ending::Failed => 1,
            Ending::Waiting => 3,
            Ending::Interrupted => 130,
            Ending::Terminated => 143,
        })
    }
}

/// Reasons why a subcommand failed.
#[derive(Debug, thiserror::Error)]
enum CliError {
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error(transparent)]
    Engine(#[from] roo_engine::engine::EngineError),
    #[error(transparent)]
    Store(#[from] roo_durable::StoreError),
    #[error(transparent)]
    Prompt(#[from] prompt::WriteFailure),
    #[error(transparent)]
    Nats(#[from] crate::nats::NatsError),
    #[error("can't write to standard output: {0}")]
    Output(#[from] io::Error),
    #[error("can't read standard input: {0}")]
    Input(io::Error),
    /// The arguments are wrong in a way that only the settings show.
    #[error("{0}")]
    Usage(String),
    #[error("{0}")]
    Other(String),
}

impl CliError {
    /// Returns whether the arguments are wrong.
    fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::Usage(_) | Self::Session(SessionError::Folder { .. } | SessionError::Config { .. })
        )
    }
}

/// Runs the program on the process's arguments.
pub fn main() -> ExitCode {
    // Before any key is read.
    roo_sandbox::exec::sandbox::harden_process();
    roo_process::open_files::raise_limit();
    let arguments = Arguments::parse();
    let notices = match arguments.command {
        Some(Subcommand::Daemon { command: DaemonCommand::Run { in_background: false } }) => {
            Notices::listen_into(daemon::own_log())
        }
        None | Some(Subcommand::Serve(_)) => Notices::listen(true),
        Some(_) => Notices::listen(false),
    };
    let works = arguments.command.as_ref().is_some_and(Subcommand::works);
    match execute(arguments, &notices) {
        Ok(ending) => ending.into(),
        // Whoever read our output has read enough. What ends work halfway is no success.
        Err(CliError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe && !works => {
            ExitCode::SUCCESS
        }
        Err(error) => {
            // Nothing is left to do if even that can't be written.
            let _ = writeln!(terminal::stderr(), "roo-lsp: {error}");
            if error.is_usage() { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
    }
}

fn execute(arguments: Arguments, notices: &Notices) -> Result<Ending, CliError> {
    let Arguments { common, daemon, command } = arguments;
    match command.unwrap_or_default() {
        Subcommand::Serve(mut serve) => {
            serve.daemon |= daemon;
            let code = block_on(serve::serve(common, serve))??;
            std::process::exit(code)
        }
        Subcommand::Web(mut web) => {
            web.daemon |= daemon;
            block_on(web::web(common, web))?
        }
        _ if daemon => Err(CliError::Usage(
            "--daemon is for the language server, and no option of this command".to_owned(),
        )),
        Subcommand::Attach(attach) => block_on(attach::attach(common, attach, notices))?,
        Subcommand::Daemon { command } => block_on(daemon::daemon(common, command))?,
        Subcommand::Run(run) if run.detach => block_on(detach::run_detached(common, run))?,
        Subcommand::Run(run) => block_on(run::run(common, run, notices))?,
        Subcommand::Demo(demo) => block_on(demo::demo(demo, notices))?,
        Subcommand::Tasks(tasks) => block_on(tasks::tasks(common, tasks, notices))?,
        Subcommand::Replay(replay) => block_on(replay::replay(common, replay, notices))?,
        Subcommand::Cassette { command } => block_on(cassette::cassette(common, command, notices))?,
        Subcommand::Modes { command } => modes::modes(&common, command),
        Subcommand::Hooks { command } => hooks::hooks(&common, command),
        Subcommand::Mcp { command } => mcp::mcp(&common, command),
        Subcommand::Import { command } => import::import(&common, command),
        Subcommand::Acp(acp) => acp::acp(&common, &acp),
        Subcommand::Ipc(ipc) => block_on(ipc::ipc(common, ipc))?,
        Subcommand::Bridge(bridge) => block_on(bridge::bridge(common, bridge))?,
        Subcommand::Worker(worker) => block_on(worker::worker(common, worker))?,
        Subcommand::Submit(submit) => block_on(submit::submit(common, submit, notices))?,
        Subcommand::Trust(trust) => trust::trust(&common, trust),
        Subcommand::Tool(tool) => block_on(check_tool::tool(common, tool))?,
        Subcommand::Policy { command } => block_on(policy::policy(common, command))?,
        Subcommand::Index { command } => block_on(index::index(common, command))?,
        Subcommand::Prompt(prompt) => block_on(prompt::prompt(common, prompt))?,
        Subcommand::Trace { command } => trace::trace(&common, command),
        Subcommand::Setup(arguments) => setup::setup(&common, &arguments),
        Subcommand::Models(arguments) => models::models(&common, &arguments),
        Subcommand::Login(arguments) => login::login(&arguments),
        Subcommand::Doctor(arguments) => doctor::doctor(&common, &arguments),
        Subcommand::HelixConfig(arguments) => helix_config::helix_config(&arguments),
        Subcommand::Schema { which } => {
            let schema = match which {
                arguments::SchemaName::Protocol => roo_protocol::method::protocol_schema(),
                arguments::SchemaName::Settings => roo_formats::config::settings_schema(),
            };
            writeln!(terminal::stdout(), "{schema:#}")?;
            Ok(Ending::Done)
        }
        Subcommand::Completions { shell } => {
            terminal::stdout().write_all(completions::script(shell).as_bytes())?;
            Ok(Ending::Done)
        }
        Subcommand::Man { directory } => {
            match directory {
                Some(directory) => {
                    clap_mangen::generate_to(self::command(), &directory).map_err(|error| {
                        CliError::Other(format!(
                            "can't write manual pages to {}: {error}",
                            directory.display()
                        ))
                    })?
                }
                None => clap_mangen::Man::new(self::command()).render(&mut terminal::stdout())?,
            }
            Ok(Ending::Done)
        }
    }
}

/// The definition of the command line, from which references and manual pages are generated.
pub fn command() -> clap::Command {
    Arguments::command()
}

/// All of standard input.
fn read_input() -> Result<String, CliError> {
    io::read_to_string(io::stdin()).map_err(CliError::Input)
}

/// Runs a subcommand's future on this thread, and what it spawns on one worker. With more of them a
/// model's answer, which two tasks hand on piece by piece, would move from one to the other with every
/// piece, and that costs more than the work.
fn block_on<T>(future: impl Future<Output = T>) -> Result<T, CliError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(roo_engine::engine::blocking_threads(roo_process::open_files::limit()))
        .enable_all()
        .build()
        .map_err(|error| CliError::Other(format!("the asynchronous runtime can't start: {error}")))?;
    let value = runtime.block_on(future);
    // A blocking read of a terminal or of standard input can't be ended; the process can.
    runtime.shutdown_background();
    Ok(value)
}
