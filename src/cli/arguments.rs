//! Arguments of the program.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, ValueEnum};

use crate::model_setup::ProfileName;
use crate::nats::{Prefix, QueueName, ServerAddress};
use crate::web::PublicOrigin;
use roo_catalog::{TOOLS, ToolName, ToolProtocol};
use roo_formats::config::{PROVIDERS, Provider};
use roo_trace::record::Outcome;

/// A language server that runs a team of coding agents and serves every editor at once.
#[derive(Debug, Parser)]
#[command(name = "roo-lsp", version, propagate_version = true)]
#[command(
    after_help = "Exit codes: 0 done, 1 failed, 2 wrong arguments, 3 the task waits for an answer, 130 interrupted (SIGINT), 143 terminated (SIGTERM).\nWithout a subcommand the language server runs on standard input and output."
)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) common: Common,
    /// Have the user's daemon serve, which editors and terminals share; it is started if need be.
    #[arg(long)]
    pub(super) daemon: bool,
    #[command(subcommand)]
    pub(super) command: Option<Subcommand>,
}

/// Taken by every subcommand.
#[derive(Args, Clone, Debug)]
pub(super) struct Common {
    /// The workspace folder; the current directory when left out.
    #[arg(long, global = true, value_name = "DIRECTORY")]
    pub(super) workspace: Option<PathBuf>,
    /// The settings file; config.yaml in the user's configuration directory when left out.
    #[arg(long, global = true, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Accepted because editors add it: the server always speaks on standard input and output.
    #[arg(long, hide = true)]
    pub(super) stdio: bool,
}

/// Subcommand.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Subcommand {
    /// Run the language server on standard input and output
    Serve(Serve),
    /// Look at the daemon that serves all editors of a user, and end it
    ///
    /// An editor uses it if it starts the server with `--daemon`.
    Daemon {
        #[command(subcommand)]
        command: DaemonCommand,
    },
    /// Follow a live request of the daemon in this terminal, answer what it asks, and steer it
    ///
    /// What you type answers the question that waits, or is said to the agent. `/say WORDS` says something while an approval
    /// waits, `/cancel` cancels the request, and `/detach` or Ctrl-C leaves it as it is.
    Attach(Attach),
    /// Run one task without an editor
    Run(Run),
    /// Show a whole task on a sample project: no key, no network
    Demo(Demo),
    /// List, show, resume and export tasks
    Tasks(Tasks),
    /// Derive a request again from what its log recorded, and say the first difference
    ///
    /// Nothing is written or run, and no model is asked, but by the fork that `--from` goes on in. It fails when there is
    /// a difference.
    Replay(Replay),
    /// Keep a request as a file, and check that the modes still behave as it was recorded
    Cassette {
        #[command(subcommand)]
        command: CassetteCommand,
    },
    /// List, show and check modes
    Modes {
        #[command(subcommand)]
        command: Option<ModesCommand>,
    },
    /// List, check, take over and try hooks
    Hooks {
        #[command(subcommand)]
        command: Option<HooksCommand>,
    },
    /// List, try, add, remove and import MCP servers
    Mcp {
        #[command(subcommand)]
        command: McpCommand,
    },
    /// Import settings and tasks from another program
    Import {
        #[command(subcommand)]
        command: ImportCommand,
    },
    /// Be an agent of the Agent Client Protocol (ACP) on standard input and output, for Zed, JetBrains IDEs and others
    ///
    /// The client starts it, and says for each session in which folder it works.
    Acp(Acp),
    /// Serve programs that drive agents by Roo Code's IPC, at a Unix socket
    ///
    /// They start, steer and follow tasks in the workspace; they don't approve anything. It serves until it is interrupted.
    Ipc(Ipc),
    /// Serve the chat, approvals, history and trace of the workspace to browsers on this machine
    ///
    /// It prints the address of the page, which lets in whoever has it, and serves until it is interrupted.
    Web(Web),
    /// Let this workspace be followed and steered over NATS: tasks are started, stopped and answered from elsewhere
    ///
    /// Nothing is sent anywhere without a server that you name. It serves until it is interrupted.
    Bridge(Bridge),
    /// Carry out requests that others submit over NATS, each in a checkout of its own
    ///
    /// It works until it is interrupted; what runs then is given to another worker.
    Worker(Worker),
    /// Have a request carried out by a worker, on the last commit of this repository, and get what it changed as a patch
    ///
    /// What you have not committed is not sent. Interrupted, it leaves the request to its worker.
    Submit(Submit),
    /// Trust the workspace: its modes, rules, prompts and hooks take effect
    Trust(Trust),
    /// Run one tool call through the gate, and print what a model would get
    ///
    /// No hooks are run, and the trace gets no record of it.
    Tool(Tool),
    /// Ask what agents may do here, see where that comes from, and take standing rules back
    Policy {
        #[command(subcommand)]
        command: PolicyCommand,
    },
    /// Look at the index by which agents search code, build it, or remove it
    Index {
        #[command(subcommand)]
        command: IndexCommand,
    },
    /// Print what a model is told in a mode, or write a prompt in its place
    Prompt(Prompt),
    /// Check, search and export the record of what agents did
    Trace {
        #[command(subcommand)]
        command: TraceCommand,
    },
    /// Choose a model, try it, and write it to the settings
    Setup(Setup),
    /// List the models that an endpoint offers
    Models(Models),
    /// Keep a provider's key, once its endpoint has taken it
    ///
    /// The key is asked for without being shown, or read from standard input.
    Login(Login),
    /// Check the configuration, this machine, and whether the models answer
    Doctor(Doctor),
    /// Print what Helix needs to know of the server, for its languages.toml
    HelixConfig(HelixConfig),
    /// Print a JSON Schema
    Schema {
        /// Name of the schema.
        #[arg(value_enum, default_value_t = SchemaName::Protocol)]
        which: SchemaName,
    },
    /// Print a completion script for a shell
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page, for packages and `man`
    Man {
        /// Write a page for each subcommand into this directory instead.
        #[arg(long, value_name = "DIRECTORY")]
        directory: Option<PathBuf>,
    },
}

impl Subcommand {
    /// Returns whether it has agents work, and not only prints what there is.
    pub(super) fn works(&self) -> bool {
        match self {
            Self::Run(_) | Self::Demo(_) | Self::Attach(_) | Self::Submit(_) => true,
            Self::Cassette { command } => {
                matches!(command, CassetteCommand::Record(record) if record.request.is_none())
            }
            Self::Tasks(tasks) => match &tasks.command {
                TasksCommand::Resume { .. } => true,
                TasksCommand::Fork(fork) => fork.prompt.is_some(),
                _ => false,
            },
            _ => false,
        }
    }
}

/// Subcommands of `daemon`.
#[derive(Debug, clap::Subcommand)]
pub(super) enum DaemonCommand {
    /// Be the daemon; clients start it themselves
    ///
    /// It ends when no client was connected and no request was at work for ten minutes, or for as many seconds as the
    /// variable ROO_LSP_DAEMON_IDLE says.
    Run {
        /// Start it as no child of this process, which ends at once.
        #[arg(long, hide = true)]
        in_background: bool,
    },
    /// Say which daemons run, whom they serve, and which requests live in them
    Status {
        /// Print one JSON object for each daemon.
        #[arg(long)]
        json: bool,
    },
    /// End all daemons of the user; their requests can be resumed
    Stop,
    /// End all daemons of the user, and start one
    Restart,
    /// Print what the daemon of this environment has logged
    Logs,
}

impl Default for Subcommand {
    fn default() -> Self {
        Self::Serve(Serve { stdio: true, daemon: false })
    }
}

/// `roo-lsp serve`
#[derive(Args, Debug)]
pub(super) struct Serve {
    /// Accepted because editors add it.
    #[arg(long, hide = true)]
    pub(super) stdio: bool,
    /// Have the user's daemon serve, which editors and terminals share; it is started if need be.
    #[arg(long)]
    pub(super) daemon: bool,
}

/// `roo-lsp attach`
#[derive(Args, Debug)]
pub(super) struct Attach {
    /// The request's id or its beginning; the only live one of the workspace when left out.
    #[arg(value_name = "ID")]
    pub(super) request: Option<String>,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(super) format: Format,
}

/// `roo-lsp run`
#[derive(Args, Debug)]
pub(super) struct Run {
    /// Task description; `-` reads it from standard input.
    pub(super) prompt: String,
    /// Adds standard input to the description.
    #[arg(value_parser = standard_input, value_name = "-")]
    pub(super) input: Option<String>,
    /// The same again: of words after the prompt, that it needs quotes would not be said otherwise.
    #[arg(value_parser = standard_input, hide = true)]
    pub(super) unquoted: Vec<String>,
    /// The mode's slug.
    #[arg(long)]
    pub(super) mode: Option<String>,
    /// The name of the model profile.
    #[arg(long, conflicts_with = "script")]
    pub(super) profile: Option<String>,
    /// Start the task in the user's daemon, print its id, and return; `roo-lsp attach` follows it.
    #[arg(long, conflicts_with_all = ["format", "answer", "on_ask"])]
    pub(super) detach: bool,
    #[command(flatten)]
    pub(super) view: View,
}

impl Run {
    /// Returns whether standard input belongs to the task description.
    pub(super) fn reads_input(&self) -> bool {
        self.prompt == "-" || self.input.is_some() || !self.unquoted.is_empty()
    }
}

/// Display of a task, and its permissions.
#[derive(Args, Clone, Debug)]
pub(super) struct View {
    /// Play a script instead of asking a model.
    #[arg(long, value_name = "FILE")]
    pub(super) script: Option<PathBuf>,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(super) format: Format,
    #[command(flatten)]
    pub(super) allow: Allow,
    /// Answer the next question with this text, or with the suggestion of this number; may be repeated.
    #[arg(long, value_name = "TEXT")]
    pub(super) answer: Vec<String>,
    /// Behaviour when permission is asked and settings don't answer.
    #[arg(long, value_enum, default_value_t = OnAsk::Ask)]
    pub(super) on_ask: OnAsk,
}

/// Actions allowed without asking.
#[derive(Args, Clone, Debug)]
pub(super) struct Allow {
    /// Let files be changed without asking.
    #[arg(long)]
    pub(super) allow_write: bool,
    /// Let commands that begin with these words run without asking; may be repeated.
    #[arg(long, value_name = "WORDS", value_parser = words)]
    pub(super) allow_command: Vec<Words>,
}

fn standard_input(text: &str) -> Result<String, &'static str> {
    match text {
        "-" => Ok(text.to_owned()),
        _ => Err("put the whole prompt in quotes, such as roo-lsp run \"fix the tests\""),
    }
}

fn address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| "expected an address and a port, such as 127.0.0.1:7467")
}

/// The first words of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Words(pub(super) Vec<String>);

fn number_from_1(text: &str) -> Result<NonZeroUsize, &'static str> {
    text.parse().map_err(|_| "expected a number from 1")
}

fn words(text: &str) -> Result<Words, &'static str> {
    match shlex::split(text) {
        Some(words) if words.first().is_some_and(|word| !word.trim().is_empty()) => Ok(Words(words)),
        _ => Err("expected plain words, such as 'cargo test'"),
    }
}

/// Output format of `run`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// The transcript on standard error, the result on standard output.
    Text,
    /// Every event as one line of JSON on standard output.
    Ndjson,
}

/// Behaviour of `run` when permission is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum OnAsk {
    /// Ask on the terminal; without one, leave the task waiting and exit with 3.
    Ask,
    /// Refuse.
    Deny,
    /// Allow.
    Allow,
}

/// `roo-lsp demo`
#[derive(Args, Debug)]
pub(super) struct Demo {
    /// Keep the sample project and its log here instead of removing them.
    #[arg(long, value_name = "DIRECTORY")]
    pub(super) keep: Option<PathBuf>,
}

/// `roo-lsp setup`
#[derive(Args, Debug, Default)]
pub(super) struct Setup {
    /// The provider; asked when left out.
    #[arg(long, value_parser = provider())]
    pub(super) provider: Option<Provider>,
    /// Another endpoint than the provider's own.
    #[arg(long, value_name = "URL", requires = "provider")]
    pub(super) base_url: Option<String>,
    /// The name of the new profile.
    #[arg(long, value_name = "NAME")]
    pub(super) profile: Option<ProfileName>,
    /// Keep the key in the system's keyring (by secret-tool) instead of a file that only you can read.
    #[arg(long)]
    pub(super) keyring: bool,
}

/// `roo-lsp models`
#[derive(Args, Debug)]
pub(super) struct Models {
    /// The profile whose endpoint is asked; the default one when left out.
    #[arg(long, value_name = "NAME")]
    pub(super) profile: Option<String>,
    /// Ask a provider's own endpoint instead.
    #[arg(long, value_parser = provider(), conflicts_with = "profile")]
    pub(super) provider: Option<Provider>,
    /// List what the catalogue knows, without asking anybody.
    #[arg(long)]
    pub(super) offline: bool,
    /// Print JSON.
    #[arg(long)]
    pub(super) json: bool,
}

/// `roo-lsp login`
#[derive(Args, Debug)]
pub(super) struct Login {
    /// The provider.
    #[arg(value_parser = provider())]
    pub(super) provider: Provider,
    /// Another endpoint than the provider's own.
    #[arg(long, value_name = "URL")]
    pub(super) base_url: Option<String>,
    /// Remove the stored key instead.
    #[arg(long, conflicts_with = "offline")]
    pub(super) remove: bool,
    /// Store the key without testing it.
    #[arg(long)]
    pub(super) offline: bool,
    /// Keep the key in the system's keyring (by secret-tool) instead of a file that only you can read.
    #[arg(long)]
    pub(super) keyring: bool,
}

/// `roo-lsp doctor`
#[derive(Args, Debug)]
pub(super) struct Doctor {
    /// Connect to nobody: whether the models answer stays open.
    #[arg(long)]
    pub(super) offline: bool,
}

/// Reads the name of a provider, and knows all of them for help and completion.
fn provider() -> impl TypedValueParser<Value = Provider> {
    PossibleValuesParser::new(
        PROVIDERS.iter().map(|spec| PossibleValue::new(spec.name).help(spec.description)),
    )
    .try_map(|name| Provider::find(&name).ok_or("unknown provider"))
}

/// `roo-lsp helix-config`
#[derive(Args, Debug)]
pub(super) struct HelixConfig {
    /// Languages by Helix's names for them; the usual ones when left out.
    pub(super) languages: Vec<String>,
    /// Print keys for Helix's config.toml instead.
    #[arg(long, conflicts_with = "languages")]
    pub(super) keys: bool,
}

/// Subcommands of `index`.
#[derive(Debug, clap::Subcommand)]
pub(super) enum IndexCommand {
    /// Print how much of the workspace is in the index, and how large it is
    Status {
        /// Print JSON; `null` where there is no index.
        #[arg(long)]
        json: bool,
    },
    /// Build the index now, or bring it up to date
    ///
    /// Without this, it is built when an agent searches for the first time. What was done before an interruption is kept.
    Build,
    /// Remove the index; it is rebuilt when an agent searches
    Clear,
}

/// `roo-lsp replay`
#[derive(Args, Debug)]
#[command(mut_args(|argument| match argument.get_id().as_str() {
    "allow_write" | "allow_command" => argument.requires("from"),
    _ => argument,
}))]
pub(super) struct Replay {
    /// The request's URID or its id, or the beginning of either.
    pub(super) request: String,
    /// Output format.
    #[arg(long, value_enum, default_value_t = ReplayFormat::Text)]
    pub(super) format: ReplayFormat,
    /// Replay as far as this event, and if all is identical go on live from there, in a fork of the request.
    #[arg(long, value_name = "EVENT", conflicts_with = "format")]
    pub(super) from: Option<u64>,
    /// Play a script in the fork instead of asking a model.
    #[arg(long, value_name = "FILE", requires = "from")]
    pub(super) script: Option<PathBuf>,
    #[command(flatten)]
    pub(super) allow: Allow,
    /// Behaviour of the fork when permission is asked and settings don't answer.
    #[arg(long, value_enum, default_value_t = OnAsk::Ask, requires = "from")]
    pub(super) on_ask: OnAsk,
}

impl Replay {
    /// How the fork is shown, and what it may do.
    pub(super) fn view(&self) -> View {
        View {
            script: self.script.clone(),
            format: Format::Text,
            allow: self.allow.clone(),
            answer: vec![],
            on_ask: self.on_ask,
        }
    }
}

/// Output format of `replay`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ReplayFormat {
    /// A sentence, and the difference as a diff.
    Text,
    /// An object with both events of the difference.
    Json,
}

/// Subcommands of `cassette`.
#[derive(Debug, clap::Subcommand)]
pub(super) enum CassetteCommand {
    /// Run a request, or take one that has ended, and keep it as a file
    ///
    /// The file has the prompt, the model's answers, the results of the calls, and what the model is told. Secrets are
    /// masked.
    Record(Box<RecordCassette>),
    /// Play files with the modes and rules of the workspace as they are now, and show what differs
    ///
    /// No model is asked, no tool is run, and nothing of the user's own counts. It fails when there is a difference.
    Check(CheckCassettes),
}

/// `roo-lsp cassette record`
#[derive(Args, Debug)]
pub(super) struct RecordCassette {
    /// The file to write.
    pub(super) file: PathBuf,
    /// Take this request instead of running one: its URID or its id, or the beginning of either.
    #[arg(long, value_name = "REQUEST", conflicts_with_all = ["prompt", "mode", "profile", "script", "answer", "on_ask", "format", "allow_write", "allow_command"])]
    pub(super) request: Option<String>,
    /// Replace the file if it is there.
    #[arg(long)]
    pub(super) force: bool,
    /// The mode's slug.
    #[arg(long)]
    pub(super) mode: Option<String>,
    /// The name of the model profile.
    #[arg(long, conflicts_with = "script")]
    pub(super) profile: Option<String>,
    #[command(flatten)]
    pub(super) view: View,
    /// Task description; `-` reads it from standard input.
    #[arg(last = true, required_unless_present = "request")]
    pub(super) prompt: Option<String>,
}

/// `roo-lsp cassette check`
#[derive(Args, Debug)]
pub(super) struct CheckCassettes {
    /// The files.
    #[arg(required = true, value_name = "FILE")]
    pub(super) files: Vec<PathBuf>,
    /// Write the differences into the files.
    #[arg(long)]
    pub(super) update: bool,
}

/// `roo-lsp tasks`
#[derive(Args, Debug)]
pub(super) struct Tasks {
    #[command(subcommand)]
    pub(super) command: TasksCommand,
}

/// Subcommands of `tasks`.
#[derive(Debug, clap::Subcommand)]
pub(super) enum TasksCommand {
    /// List the tasks of the workspace, newest first
    List {
        /// The most tasks that are listed.
        #[arg(long, short = 'n', value_name = "NUMBER", default_value = "100", value_parser = number_from_1)]
        limit: NonZeroUsize,
        /// List all tasks, however many.
        #[arg(long, conflicts_with = "limit")]
        all: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show a task, or one branch of it
    Show {
        /// Its URID or its id, or the beginning of either; with `.<number>` after it, a branch.
        task: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Draw the tree of a task's branches, with their states and numbers
    Tree {
        /// Its URID or its id, or the beginning of either; with `.<number>` after it, a branch to mark.
        task: String,
        /// Print JSON, a line for each branch.
        #[arg(long)]
        json: bool,
    },
    /// Print what a task and its branches changed, as far as the files still hold it
    Diff {
        /// Its URID or its id, or the beginning of either; with `.<number>` after it, a branch.
        task: String,
        /// Print JSON, a line for each file.
        #[arg(long)]
        json: bool,
    },
    /// List the states of files that a task can be restored to
    Checkpoints {
        /// Its URID or its id, or the beginning of either; with `.<number>` after it, a branch.
        task: String,
        /// Print JSON, a line for each checkpoint.
        #[arg(long)]
        json: bool,
    },
    /// Take files, the conversation, or both back to how they were before a checkpoint
    ///
    /// What would change is shown first. What you have changed yourself stays. An interrupted task is cancelled before its
    /// conversation is restored.
    Restore(Restore),
    /// Begin a new task that has everything of this one up to an event
    ///
    /// The task that is forked stays as it is, and goes on if it runs. Both have the same files, unless the fork gets a worktree.
    Fork(Fork),
    /// Compare two tasks of which one is a fork of the other, or both of a third
    ///
    /// Shows what became of each, what it has cost, and how the files differ that either has changed since they parted.
    Compare {
        /// The URID or id of the first, or the beginning of either.
        one: String,
        /// The URID or id of the second, or the beginning of either.
        other: String,
    },
    /// End a task that is interrupted or waits, with its branches
    ///
    /// One that runs is cancelled where it runs: in its editor, or with Ctrl-C in its terminal.
    Cancel {
        /// Its URID or its id, or the beginning of either; with `.<number>` after it, a branch.
        task: String,
    },
    /// Go on with the tasks of a workspace that was moved or renamed
    ///
    /// What is kept of it is taken over from its earlier path, beside what it has by now: requests, the trace, standing rules,
    /// accepted intents, and what was withheld. A terminal asks first. What was trusted is not taken over: trust the workspace
    /// again.
    Adopt {
        /// The directory that the workspace was in. When left out, those are listed that had tasks and are gone.
        directory: Option<PathBuf>,
        /// Don't ask.
        #[arg(long, short)]
        yes: bool,
    },
    /// Remove tasks and all that is kept of them
    ///
    /// Their messages, results and checkpoints are gone for good; files of the workspace and the trace stay. An interrupted task
    /// is cancelled first. One with forks is removed after them.
    Delete {
        /// Their URIDs or ids, or the beginning of either.
        #[arg(required = true, value_name = "TASK")]
        tasks: Vec<String>,
        /// Don't ask.
        #[arg(long, short)]
        yes: bool,
    },
    /// Show the requests that live in the daemon, as they change
    ///
    /// A line of a request is printed again whenever it has changed; a terminal shows them as a list. It ends with the daemon, or
    /// by Ctrl-C. The setting `daemon.notifications` has the user told when a request asks something or ends.
    Watch {
        /// Those of all workspaces, not only of this one.
        #[arg(long)]
        all: bool,
    },
    /// Let an interrupted, cancelled or failed task go on, or say more to any that has ended
    Resume {
        /// Its URID or its id, or the beginning of either.
        task: String,
        /// What to say to it. One that is completed goes on only with this.
        prompt: Option<String>,
        #[command(flatten)]
        view: View,
    },
    /// Write a task's messages as Markdown, or a request as tasks of Roo Code
    Export {
        /// Its URID or its id, or the beginning of either; with `.<number>` after it, a branch. Roo Code's format always has
        /// the whole request.
        task: String,
        /// Format.
        #[arg(long, value_enum, default_value_t = TaskFormat::Markdown)]
        format: TaskFormat,
        /// The file; standard output when left out. For Roo Code's format, the directory that gets the directory `tasks`;
        /// roo-code-tasks when left out.
        #[arg(long, short, value_name = "PATH")]
        output: Option<PathBuf>,
    },
}

/// Format of an exported task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum TaskFormat {
    /// A page to read.
    Markdown,
    /// Files that Roo Code reads, a directory for each task.
    Roo,
}

/// `roo-lsp tasks fork`
#[derive(Args, Debug)]
pub(super) struct Fork {
    /// The task's URID or its id, or the beginning of either.
    pub(super) task: String,
    /// What the fork goes on with; it waits when left out.
    pub(super) prompt: Option<String>,
    /// The number of the last event that the fork has, from 2; the newest when left out. `roo-lsp tasks checkpoints` lists those of
    /// changes.
    #[arg(long, value_name = "SEQ")]
    pub(super) at: Option<u64>,
    /// Give the fork a git worktree beside the repository, with the files as they were at that event.
    #[arg(long)]
    pub(super) worktree: bool,
    #[command(flatten)]
    pub(super) view: View,
}

/// `roo-lsp tasks restore`
#[derive(Args, Debug)]
pub(super) struct Restore {
    /// The task's URID or its id, or the beginning of either; with `.<number>` after it, a branch.
    pub(super) task: String,
    /// The number of a checkpoint: what it and later ones changed is undone.
    pub(super) seq: u64,
    /// What is restored.
    #[arg(long, value_enum, default_value_t = RestoreWhatArgument::Files)]
    pub(super) what: RestoreWhatArgument,
    /// Only undo what the task itself changed, and not its branches.
    #[arg(long)]
    pub(super) task_alone: bool,
    /// Only show what would change.
    #[arg(long)]
    pub(super) preview: bool,
    /// Write both versions, between conflict markers, where you have changed the same lines.
    #[arg(long)]
    pub(super) mark_conflicts: bool,
    /// Restore without asking.
    #[arg(long, short)]
    pub(super) yes: bool,
}

/// What `roo-lsp tasks restore` restores.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum RestoreWhatArgument {
    /// The files; the conversation goes on as it is.
    Files,
    /// The conversation; the files stay as they are.
    Conversation,
    /// Both.
    Both,
}

/// Subcommands of `modes`.
#[derive(Debug, clap::Subcommand)]
pub(super) enum ModesCommand {
    /// List the modes that count in this workspace
    List,
    /// Show all of a mode
    Show {
        /// The mode's slug.
        slug: String,
    },
    /// Say what is wrong with the files that bring modes; fails when a mode is left out
    Check {
        /// One file; all that count in this workspace when left out.
        file: Option<PathBuf>,
    },
    /// Say whether your own modes may delegate to each other, as in Roo Code, if none of them has canDelegateTo
    ///
    /// The answer counts in every workspace, until you add or remove a mode. For the modes of a workspace, see roo-lsp trust.
    Delegation {
        /// The answer; only shown when left out.
        answer: Option<OwnDelegationAnswer>,
    },
}

/// Answers to the question about delegation among the user's own modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum OwnDelegationAnswer {
    /// Each may delegate to the others.
    Allow,
    /// Each delegates as it does without this question.
    Refuse,
    /// Take the answer back, and be asked again.
    Ask,
}

/// `roo-lsp acp`
#[derive(Args, Debug)]
pub(super) struct Acp {
    /// Set up a model by questions in the terminal instead: what clients start for their user to log in.
    #[arg(long)]
    pub(super) setup: bool,
}

/// `roo-lsp ipc`
#[derive(Args, Debug)]
pub(super) struct Ipc {
    /// The socket, in a folder that only you can enter; ROO_CODE_IPC_SOCKET_PATH, or the setting ipcSocket, when left out.
    #[arg(long, value_name = "PATH")]
    pub(super) socket: Option<PathBuf>,
    #[command(flatten)]
    pub(super) allow: Allow,
    /// Behaviour when permission is asked and settings don't answer.
    #[arg(long, value_enum, default_value_t = Unattended::Wait)]
    pub(super) on_ask: Unattended,
}

/// `roo-lsp web`
#[derive(Args, Debug)]
pub(super) struct Web {
    /// The loopback address to listen at; a free port when left out.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0", value_parser = address)]
    pub(super) listen: SocketAddr,
    /// Where a proxy of yours makes the page reachable, such as https://desk.example.com: pages from there are served too.
    #[arg(long, value_name = "ORIGIN")]
    pub(super) origin: Option<PublicOrigin>,
    /// Have the user's daemon serve the requests, which editors and terminals share; it is started if need be.
    #[arg(long)]
    pub(super) daemon: bool,
}

/// A NATS server, and how it is reached.
#[derive(Args, Clone, Debug)]
pub(super) struct Nats {
    /// The server, as in tls://nats.example.com:4222; NATS_URL when left out.
    #[arg(long, value_name = "URL")]
    pub(super) server: Option<ServerAddress>,
    /// File of a user's credentials (.creds); NATS_CREDS when left out.
    #[arg(long, value_name = "FILE")]
    pub(super) credentials: Option<PathBuf>,
    /// Certificates of authorities in place of the system's; NATS_CA when left out.
    #[arg(long, value_name = "FILE")]
    pub(super) ca: Option<PathBuf>,
    /// Certificate of this client; NATS_CERT when left out.
    #[arg(long, value_name = "FILE")]
    pub(super) certificate: Option<PathBuf>,
    /// Key of that certificate; NATS_KEY when left out.
    #[arg(long, value_name = "FILE")]
    pub(super) key: Option<PathBuf>,
    /// What subjects and streams begin with.
    #[arg(long, value_name = "WORDS", default_value = "roo")]
    pub(super) prefix: Prefix,
    /// Reach a server of another machine without TLS: everybody on the way reads prompts and code.
    #[arg(long)]
    pub(super) plaintext: bool,
}

/// `roo-lsp bridge`
#[derive(Args, Debug)]
pub(super) struct Bridge {
    #[command(flatten)]
    pub(super) nats: Nats,
    /// Name of this instance in subjects; a new one when left out.
    #[arg(long, value_name = "WORD")]
    pub(super) instance: Option<QueueName>,
    #[command(flatten)]
    pub(super) allow: Allow,
    /// Let whoever may write to the subjects of this instance allow actions, each once.
    #[arg(long)]
    pub(super) remote_approvals: bool,
    /// Seconds between two signs of life.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(super) heartbeat: u64,
}

/// `roo-lsp worker`
#[derive(Args, Debug)]
pub(super) struct Worker {
    #[command(flatten)]
    pub(super) nats: Nats,
    /// Name of the queue that it takes work from.
    #[arg(long, value_name = "WORD", default_value = "default")]
    pub(super) queue: QueueName,
    /// Directory for checkouts, which are removed with their requests.
    #[arg(long, value_name = "DIRECTORY")]
    pub(super) directory: PathBuf,
    /// Number of requests at once.
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(super) jobs: u16,
    #[command(flatten)]
    pub(super) allow: Allow,
    /// Behaviour when permission is asked and settings don't answer.
    #[arg(long, value_enum, default_value_t = Remote::Deny)]
    pub(super) on_ask: Remote,
    /// Seconds to wait for an answer over NATS before the request ends without one.
    #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
    pub(super) answer_time: u64,
    /// Clone the repository of this address, and those below it, as in https://example.com/team/; may be repeated.
    #[arg(long, value_name = "URL")]
    pub(super) allow_repository: Vec<String>,
    /// Seconds after which work of which nothing is heard is given to another worker. All workers of a queue use the same.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(super) patience: u64,
    /// Number of times that a request is given to a worker before it fails.
    #[arg(long, value_name = "NUMBER", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) deliveries: u64,
}

/// Behaviour of `worker` when permission is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Remote {
    /// Ask over NATS: whoever may write to the request's control subject answers.
    Ask,
    /// Refuse.
    Deny,
    /// Allow.
    Allow,
}

/// `roo-lsp submit`
#[derive(Args, Debug)]
pub(super) struct Submit {
    #[command(flatten)]
    pub(super) nats: Nats,
    /// Task description; `-` reads it from standard input.
    #[arg(required_unless_present = "request", conflicts_with = "request")]
    pub(super) prompt: Option<String>,
    /// Don't submit anything; follow this request, which was submitted before.
    #[arg(long, value_name = "ID")]
    pub(super) request: Option<String>,
    /// The mode's slug.
    #[arg(long)]
    pub(super) mode: Option<String>,
    /// The name of a model profile of the worker.
    #[arg(long)]
    pub(super) profile: Option<String>,
    /// Name of the queue.
    #[arg(long, value_name = "WORD", default_value = "default")]
    pub(super) queue: QueueName,
    /// The commit to work on: a name in this repository.
    #[arg(long, value_name = "NAME", default_value = "HEAD")]
    pub(super) commit: String,
    /// Have the worker clone this repository, which has the commit, instead of sending it a bundle.
    #[arg(long, value_name = "URL")]
    pub(super) repository: Option<String>,
    /// Model requests after which it stops, where the worker's settings don't say fewer.
    #[arg(long, value_name = "NUMBER")]
    pub(super) max_requests: Option<u32>,
    /// US dollars after which it stops, where the worker's settings don't say fewer.
    #[arg(long, value_name = "USD")]
    pub(super) max_cost: Option<f64>,
    /// Don't wait for the result.
    #[arg(long)]
    pub(super) detach: bool,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(super) format: Format,
    /// Behaviour when permission is asked, and the worker takes answers.
    #[arg(long, value_enum, default_value_t = OnAsk::Ask)]
    pub(super) on_ask: OnAsk,
    /// The file for the patch; a file of the request's id in the current directory when left out.
    #[arg(long, short, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
    /// Apply the patch to the files of this repository: all of it, or nothing where it doesn't fit them.
    #[arg(long)]
    pub(super) apply: bool,
}

/// Subcommands of `mcp`.
#[derive(Debug, clap::Subcommand)]
pub(super) enum McpCommand {
    /// Start the servers that count in this workspace, and list them with their tools, or why one does not run
    List,
    /// Start one server, list its tools and what it wrote to standard error; fails when it does not run
    Test {
        /// The server's name.
        name: String,
    },
    /// Log in to a server that is reached by HTTP, in the browser (OAuth)
    ///
    /// Shown are the authorization server and all hosts that the login involves, before anything is opened. The tokens are
    /// kept in the system's keyring (by secret-tool), and are for this server at this address alone.
    Login(McpLogin),
    /// Forget the login to a server
    Logout {
        /// The server's name.
        name: String,
    },
    /// Write a server into mcp.json; everything else in the file stays as it is
    #[command(after_help = "Examples:\n\
        roo-lsp mcp add files -- npx -y @modelcontextprotocol/server-filesystem .\n\
        roo-lsp mcp add issues --url https://mcp.example.com/mcp --header 'Authorization=Bearer ${env:ISSUES_TOKEN}'\n\
        Write references such as ${env:NAME} in single quotes, or a shell replaces them.")]
    Add(McpAdd),
    /// Remove a server from mcp.json; everything else in the file stays as it is
    Remove {
        /// The server's name.
        name: String,
        /// Change .roo/mcp.json of the workspace instead of your own mcp.json.
        #[arg(long)]
        project: bool,
    },
    /// Take servers over from other programs: from files of the workspace into .roo/mcp.json, from your own into your mcp.json
    ///
    /// Read are .mcp.json, .vscode/mcp.json and .cursor/mcp.json of the workspace, ~/.claude.json, ~/.cursor/mcp.json, and
    /// mcp_settings.json of Roo Code.
    Import {
        /// Only from this program; may be repeated.
        #[arg(long, value_enum, value_name = "PROGRAM")]
        from: Vec<McpProgram>,
        /// Only say what would be written.
        #[arg(long)]
        dry_run: bool,
        /// Put servers in the place of others that have their names.
        #[arg(long)]
        replace: bool,
        /// Also import which calls run unasked (alwaysAllow).
        #[arg(long)]
        approvals: bool,
    },
    /// Be an MCP server: agents of other programs start tasks in this workspace, follow and read them
    ///
    /// The client starts it and speaks to it over standard input and output. What a task must ask for is answered by the
    /// user of roo-lsp alone, never by the client.
    Serve(McpServe),
}

/// `roo-lsp mcp serve`
#[derive(Args, Debug)]
pub(super) struct McpServe {
    /// Serve over HTTP at this loopback address instead, such as 127.0.0.1:7466, behind a bearer token: that of
    /// ROO_LSP_MCP_TOKEN, or one that is printed.
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub(super) http: Option<SocketAddr>,
    #[command(flatten)]
    pub(super) allow: Allow,
    /// Behaviour when permission is asked and settings don't answer.
    #[arg(long, value_enum, default_value_t = Unattended::Wait)]
    pub(super) on_ask: Unattended,
    /// Show the questions of tasks, never those about permissions, to the user of a client that can (elicitation), while it
    /// waits for the task. What is answered there counts as the calling agent's own answer.
    #[arg(long)]
    pub(super) elicit_questions: bool,
}

/// Behaviour of `mcp serve` and `ipc` when permission is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Unattended {
    /// Leave the task waiting until its user answers in an editor, or in a terminal by `roo-lsp tasks resume`.
    Wait,
    /// Refuse.
    Deny,
    /// Allow.
    Allow,
}

/// `roo-lsp mcp login`
#[derive(Args, Debug)]
pub(super) struct McpLogin {
    /// The server's name.
    pub(super) name: String,
    /// Only print the address for the browser.
    #[arg(long)]
    pub(super) no_browser: bool,
    /// Keep the tokens in a file that only you can read (mode 0600) instead of the keyring.
    #[arg(long)]
    pub(super) file: bool,
    /// Ask for these scopes besides those that the server wants; may be repeated.
    #[arg(long, value_name = "SCOPES")]
    pub(super) scope: Vec<String>,
    /// Id of a client that is registered already, where the authorization server lets none register itself.
    #[arg(long, value_name = "ID")]
    pub(super) client_id: Option<String>,
    /// Ask for the secret of that client, without showing it, or read it from standard input.
    #[arg(long, requires = "client_id")]
    pub(super) client_secret: bool,
    /// Port of this machine for the browser's answer, where that client is registered with one.
    #[arg(long)]
    pub(super) port: Option<u16>,
}

/// `roo-lsp mcp add`
#[derive(Args, Debug)]
pub(super) struct McpAdd {
    /// The server's name.
    pub(super) name: String,
    /// Write .roo/mcp.json of the workspace instead of your own mcp.json.
    #[arg(long)]
    pub(super) project: bool,
    /// A variable of the program's environment; NAME alone passes yours on. May be repeated.
    #[arg(long, value_name = "NAME[=VALUE]", value_parser = variable)]
    pub(super) env: Vec<(String, String)>,
    /// A header of every request; may be repeated.
    #[arg(long, value_name = "NAME=VALUE", value_parser = header)]
    pub(super) header: Vec<(String, String)>,
    /// The address of a server that is reached by HTTP.
    #[arg(long, conflicts_with = "command")]
    pub(super) url: Option<String>,
    /// Put the server in the place of another one that has its name.
    #[arg(long)]
    pub(super) replace: bool,
    /// The program to start, with its arguments.
    #[arg(last = true, required_unless_present = "url")]
    pub(super) command: Vec<String>,
}

fn variable(text: &str) -> Result<(String, String), &'static str> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, value.to_owned()),
        None => (text, format!("${{env:{text}}}")),
    };
    match name.is_empty() {
        true => Err("expected NAME=VALUE, or NAME to pass a variable on"),
        false => Ok((name.to_owned(), value)),
    }
}

fn header(text: &str) -> Result<(String, String), &'static str> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE, such as 'Authorization=Bearer ${env:TOKEN}'"),
    }
}

/// Subcommands of `import`.
#[derive(Debug, clap::Subcommand)]
pub(super) enum ImportCommand {
    /// Import settings that Roo Code exported (Settings, About Roo Code, Export), or its task history, modes and MCP servers
    ///
    /// Of an exported file, profiles, the profiles of modes, limits and denied commands go into the settings file, your modes into
    /// custom_modes.yaml, and your instructions for all modes into ~/.roo/rules. API keys are not imported. Existing settings are
    /// kept unless you give --replace.
    ///
    /// Of a directory of Roo Code or Cline, each task becomes a finished request of the workspace that it belongs to. A message
    /// to it goes on with its conversation. With --workspace, only the tasks of that folder are imported. Tasks that were
    /// imported before are not imported again. Your modes and MCP servers are taken over unless you have others of their names.
    Roo(ImportRoo),
    /// Import the sessions of Claude Code
    ///
    /// Each session becomes a finished request of the workspace that it belongs to. A message to it goes on with its conversation.
    /// With --workspace, only the sessions of that folder are imported. Sessions that were imported before are not imported again.
    ClaudeCode(ImportClaudeCode),
}

/// `roo-lsp import roo`
#[derive(Args, Debug)]
pub(super) struct ImportRoo {
    /// The exported file, such as roo-code-settings.json, or the directory rooveterinaryinc.roo-cline of an editor's
    /// globalStorage. When left out, these directories of VS Code, VSCodium, Cursor, Windsurf and code-server.
    pub(super) path: Option<PathBuf>,
    /// Also import what Roo Code was allowed to do without asking, and calls of MCP servers that run unasked (alwaysAllow).
    #[arg(long)]
    pub(super) approvals: bool,
    /// Show what would be written, without writing it.
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Overwrite existing settings, or MCP servers of the same names.
    #[arg(long)]
    pub(super) replace: bool,
    /// Import what was found in the usual places without asking.
    #[arg(long, short)]
    pub(super) yes: bool,
}

/// `roo-lsp import claude-code`
#[derive(Args, Debug)]
pub(super) struct ImportClaudeCode {
    /// The directory of its sessions, or of those of one folder; ~/.claude/projects when left out.
    pub(super) path: Option<PathBuf>,
    /// Show what would be imported, without importing it.
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Import what was found in the usual place without asking.
    #[arg(long, short)]
    pub(super) yes: bool,
}

/// A program whose MCP servers can be imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum McpProgram {
    /// Claude Code.
    ClaudeCode,
    /// VS Code.
    #[value(name = "vscode")]
    VsCode,
    /// Cursor.
    Cursor,
    /// Roo Code.
    Roo,
}

/// Subcommands of `hooks`.
#[derive(Debug, clap::Subcommand)]
pub(super) enum HooksCommand {
    /// List the hooks that count in this workspace, and those that wait for an approval
    List,
    /// Say what is wrong with the files that bring hooks; fails when a hook is left out
    Check {
        /// One file; all that count in this workspace when left out.
        file: Option<PathBuf>,
    },
    /// Take hooks over from .claude/settings.json, and print the file that they make
    Import {
        /// The files; .claude/settings.json and .claude/settings.local.json when left out.
        files: Vec<PathBuf>,
        /// Take them over for the user, from the home directory, instead of for the workspace.
        #[arg(long)]
        user: bool,
        /// Write the file. What is in it stays.
        #[arg(long)]
        write: bool,
    },
    /// Run the hooks of an event, and print what comes of it as JSON
    #[command(after_help = "Standard input must hold the event as a hook receives it, such as\n\
        {\"tool_name\": \"Bash\", \"tool_input\": {\"command\": \"ls\"}}")]
    Run {
        /// The event, such as PreToolUse.
        event: String,
    },
}

/// `roo-lsp trust`
#[derive(Args, Debug)]
#[command(after_help = "Without an option the workspace is trusted from now on.")]
pub(super) struct Trust {
    /// Only show whether the workspace is trusted, and what it brings.
    #[arg(long, conflicts_with_all = ["revoke", "approve", "delegation"])]
    pub(super) show: bool,
    /// Take back the trust and all approvals.
    #[arg(long, conflicts_with_all = ["approve", "delegation"])]
    pub(super) revoke: bool,
    /// Approve that a file gives a mode more than it has, or that its hooks or MCP servers run; as it is now.
    #[arg(long, value_name = "FILE")]
    pub(super) approve: Option<String>,
    /// Whether the modes of a .roomodes without canDelegateTo may delegate to each other, as in Roo Code.
    #[arg(long, value_name = "ANSWER", conflicts_with = "approve")]
    pub(super) delegation: Option<DelegationAnswer>,
    /// Only show, as JSON.
    #[arg(long, conflicts_with_all = ["revoke", "approve", "delegation"])]
    pub(super) json: bool,
}

/// Answers to the question about delegation among the modes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum DelegationAnswer {
    /// Each may delegate to the others.
    Allow,
    /// Each delegates as it does without this question.
    Refuse,
}

/// `roo-lsp tool`
#[derive(Args, Debug)]
#[command(after_help = tools())]
pub(super) struct Tool {
    /// The tool's name.
    #[arg(value_parser = tool_name)]
    pub(super) name: ToolName,
    /// Its parameters as a JSON object; `-` reads them from standard input.
    #[arg(long, value_name = "JSON", default_value = "{}")]
    pub(super) params: String,
    /// The mode that calls it.
    #[arg(long, default_value = "code")]
    pub(super) mode: String,
    /// Run it even where the user would be asked.
    #[arg(long)]
    pub(super) allow: bool,
    /// The intent that the caller has bound.
    #[arg(long, value_name = "ID")]
    pub(super) intent: Option<String>,
}

/// Subcommands of `policy`.
#[derive(Debug, clap::Subcommand)]
pub(super) enum PolicyCommand {
    /// Judge calls as the gate would, without doing anything
    Check(PolicyCheck),
    /// Show what counts here, and where each part comes from
    Explain {
        #[command(flatten)]
        allow: Allow,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// List the standing rules
    Rules {
        /// Print JSON, a line for each rule.
        #[arg(long)]
        json: bool,
    },
    /// List the presets of rules for commands, those of this project marked, or the rules of one
    Presets {
        /// The preset's name.
        name: Option<String>,
    },
    /// Take a standing rule back
    Revoke {
        /// The rule's id.
        id: String,
    },
}

/// `roo-lsp policy check`
#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("question"))]
#[command(after_help = "Without a question, standard input must hold one on each line, such as\n\
    {\"tool\": \"write_to_file\", \"params\": {\"path\": \"a.txt\", \"content\": \"\"}}\n\
    {\"command\": \"cargo test\", \"cwd\": \"crates/a\", \"network\": true}\n\
    {\"read\": \"src/lib.rs\"}\n\
    {\"write\": \"src/lib.rs\"}\n\n\
    Hooks are not run (the answer names those that would run), and nothing is recorded in the trace.\n\n\
    Exit codes: 0 all are allowed, 1 one is denied, 2 one can't be parsed, 3 one asks and none is denied.")]
pub(super) struct PolicyCheck {
    /// Reads questions from standard input, of which there may be none.
    #[arg(value_parser = ["-"], group = "question", value_name = "-")]
    pub(super) input: Option<String>,
    /// May this command line run?
    #[arg(long, value_name = "LINE", group = "question")]
    pub(super) command: Option<String>,
    /// The directory that the command runs in.
    #[arg(long, value_name = "DIRECTORY", requires = "command")]
    pub(super) cwd: Option<String>,
    /// The command wants to reach the network.
    #[arg(long, requires = "command")]
    pub(super) network: bool,
    /// May this file be read?
    #[arg(long, value_name = "PATH", group = "question")]
    pub(super) read: Option<String>,
    /// May this file be created, or its text replaced?
    #[arg(long, value_name = "PATH", group = "question")]
    pub(super) write: Option<String>,
    /// May this tool be called?
    #[arg(long, value_name = "NAME", group = "question", value_parser = tool_name)]
    pub(super) tool: Option<ToolName>,
    /// The tool's parameters as a JSON object.
    #[arg(long, value_name = "JSON", requires = "tool")]
    pub(super) params: Option<String>,
    /// The mode that calls.
    #[arg(long, default_value = "code")]
    pub(super) mode: String,
    /// The intent that the caller has bound.
    #[arg(long, value_name = "ID")]
    pub(super) intent: Option<String>,
    #[command(flatten)]
    pub(super) allow: Allow,
    /// Output format.
    #[arg(long, value_enum, default_value_t = PolicyFormat::Json)]
    pub(super) format: PolicyFormat,
}

/// Output format of `policy check`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum PolicyFormat {
    /// An object on a line.
    Json,
    /// For people.
    Text,
}

/// Subcommands of `trace`.
#[derive(Debug, clap::Subcommand)]
pub(super) enum TraceCommand {
    /// Say whether someone changed the trace; fails when it is not intact
    Verify {
        /// A copy to compare with the original; the one in the workspace when left out.
        file: Option<PathBuf>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// List records, oldest first
    Query(TraceQuery),
    /// Say which agent wrote each line of a file
    Blame {
        /// The file.
        file: PathBuf,
        /// Print JSON, a line for each line of the file.
        #[arg(long)]
        json: bool,
    },
    /// Write the records in a shape that other programs read
    Export {
        /// Shape of the records.
        #[arg(long, value_enum, default_value_t = TraceShape::Canonical)]
        shape: TraceShape,
        /// The file; standard output when left out.
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}

/// `roo-lsp trace query`
#[derive(Args, Debug)]
pub(super) struct TraceQuery {
    /// Of this intent.
    #[arg(long)]
    pub(super) intent: Option<String>,
    /// Of this task and its branches; the beginning of its id is enough.
    #[arg(long)]
    pub(super) task: Option<String>,
    /// Of this request; the beginning of its URID is enough.
    #[arg(long)]
    pub(super) urid: Option<String>,
    /// In this mode.
    #[arg(long)]
    pub(super) mode: Option<String>,
    /// By this model, with or without its provider.
    #[arg(long)]
    pub(super) model: Option<String>,
    /// About this file, or files below this directory, as seen from the workspace folder, or by a full path.
    #[arg(long)]
    pub(super) path: Option<String>,
    /// That ended so: ok, denied, failed, scope_violation or interrupted.
    #[arg(long, value_parser = outcome)]
    pub(super) outcome: Option<Outcome>,
    /// Not before this day or moment (UTC), such as 2026-11-20 or 2026-11-20T12:00:00Z.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub(super) since: Option<i64>,
    /// Before this day or moment.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub(super) until: Option<i64>,
    /// Only the newest ones.
    #[arg(long, value_name = "NUMBER")]
    pub(super) limit: Option<usize>,
    /// Print the records as JSON, a line each.
    #[arg(long)]
    pub(super) json: bool,
}

/// Format of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum TraceShape {
    /// Agent Trace records, as they are kept.
    Canonical,
    /// Flat records with `relative_path`, `entity_type` and `intent_id`.
    Challenge,
    /// An authorship note of git-ai on the workspace's files as they are.
    GitAi,
}

pub(super) fn outcome(text: &str) -> Result<Outcome, String> {
    Outcome::ALL.into_iter().find(|outcome| outcome.as_str() == text).ok_or_else(|| {
        let known = Outcome::ALL.map(Outcome::as_str).join(", ");
        format!("expected one of {known}")
    })
}

/// Milliseconds since the Unix epoch.
pub(super) fn moment(text: &str) -> Result<i64, &'static str> {
    let day = || text.parse::<jiff::civil::Date>().ok()?.to_zoned(jiff::tz::TimeZone::UTC).ok();
    let moment = text.parse::<jiff::Timestamp>().ok().or_else(|| Some(day()?.timestamp()));
    moment.map(jiff::Timestamp::as_millisecond).ok_or("expected 2026-11-20 or 2026-11-20T12:00:00Z")
}

/// `roo-lsp prompt`
#[derive(Args, Debug)]
pub(super) struct Prompt {
    /// The mode's slug.
    pub(super) mode: String,
    /// Tool protocol; the one of the mode's profile when left out.
    #[arg(long, value_enum)]
    pub(super) protocol: Option<Protocol>,
    /// Print the environment details too, as they follow a first message.
    #[arg(long, conflicts_with = "write")]
    pub(super) environment: bool,
    /// Let the mode's model write .roo/system-prompt-<MODE> from README.md, SYSTEM-PROMPTS.md and
    /// <MODE>-MODE.md in the workspace folder.
    #[arg(long)]
    pub(super) write: bool,
    /// Replace the file if it exists.
    #[arg(long, requires = "write")]
    pub(super) force: bool,
}

/// Tool protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Protocol {
    /// By XML-like tags in the model's text.
    Xml,
    /// By the provider's own function calling.
    Native,
}

impl From<Protocol> for ToolProtocol {
    fn from(protocol: Protocol) -> Self {
        match protocol {
            Protocol::Xml => Self::Xml,
            Protocol::Native => Self::Native,
        }
    }
}

/// The tools with their parameters.
fn tools() -> String {
    let mut text = "Tools:".to_owned();
    for tool in TOOLS {
        let names = tool.parameters.iter().map(|parameter| match parameter.required {
            true => parameter.name.to_owned(),
            false => format!("[{}]", parameter.name),
        });
        let names = names.collect::<Vec<_>>().join(", ");
        // Writing to a string can't fail.
        let _ = write!(text, "\n  {:<26} {names}", tool.name.as_str());
    }
    text
}

fn tool_name(name: &str) -> Result<ToolName, String> {
    ToolName::parse(name).ok_or_else(|| {
        let known: Vec<&str> = TOOLS.iter().map(|tool| tool.name.as_str()).collect();
        format!("there is no such tool; the tools are {}", known.join(", "))
    })
}

/// Name of a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum SchemaName {
    /// The `roo/*` protocol.
    Protocol,
    /// The settings.
    Settings,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn editors_may_add_stdio() {
        for line in [vec!["roo-lsp"], vec!["roo-lsp", "--stdio"], vec!["roo-lsp", "serve", "--stdio"]] {
            let arguments = Arguments::try_parse_from(&line).unwrap();
            assert!(matches!(arguments.command.unwrap_or_default(), Subcommand::Serve(_)), "{line:?}");
        }
    }

    #[test]
    fn the_number_of_listed_tasks_begins_at_1() {
        for (number, is_taken) in [("0", false), ("-1", false), ("many", false), ("1", true)] {
            let line = ["roo-lsp", "tasks", "list", &format!("-n{number}")];
            match Arguments::try_parse_from(line) {
                Ok(_) => assert!(is_taken, "{number}"),
                Err(error) => assert!(error.to_string().contains("expected a number from 1"), "{error}"),
            }
        }
    }
}
