//! The command sandbox, with the real helper program on this machine. Where no sandbox can be had these
//! tests fail: a promise that is not tried is none.

mod attacks;
mod attribution;
mod bounds;
mod effects;
mod ends;
mod exact;
mod ordinary_work;
mod programs;
mod ready;
mod replaced;
mod sockets;
mod staged;
mod supervised;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use roo_sandbox::changes::{Allowed, FileIndex, IndexedRoot, Kind, Mark, Marker, Recording, Scope, Store};
use roo_sandbox::exec::sandbox::{
    Capture, Confinement, Helper, Mechanism, Network, Required, Sandbox, credentials,
};
use roo_sandbox::exec::{self, Command, Environment, ExecError, Status};
use roo_workspace::{Protection, protection};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// Nothing here takes longer, however busy the machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn helper() -> Helper {
    Helper::at(env!("CARGO_BIN_EXE_roo-lsp"))
}

/// What commands of these tests may change: `src/` is in scope, what is protected is so by name.
fn allowed(path: &Path) -> Allowed {
    match protection(path.to_str().unwrap_or(".git"), None) {
        Protection::Tier1 { .. } | Protection::Denied => Allowed::Protected,
        _ if path.starts_with("src") => Allowed::InScope,
        _ => Allowed::OutOfScope,
    }
}

/// No name means anything.
struct Unmarked;

impl Marker for Unmarked {
    fn mark(&self, _: &Path, _: Kind) -> Mark {
        Mark::None
    }
}

/// The variable by which a test that runs itself once more, as a server to be killed, is told of its fixture.
const TEST_ROOT: &str = "ROO_TEST_ROOT";

/// The fixture of which this process is the server; none in a test as such.
fn served_fixture() -> Option<PathBuf> {
    std::env::var_os(TEST_ROOT).map(PathBuf::from)
}

/// A workspace and what lies beside it, by default outside of `/tmp`: what is there isn't seen in a sandbox unless the
/// confinement names it.
struct Fixture {
    root: PathBuf,
    sandbox: Sandbox,
    /// Goes with the fixture, unless another process owns it.
    #[expect(dead_code, reason = "it is kept to be dropped")]
    directory: Option<TempDir>,
}

impl Fixture {
    async fn new() -> Self {
        let fixture = Self::with(Sandbox::find(helper()).await);
        fixture.sandbox.probe().check(Required::Namespaces).expect("these tests need a sandbox");
        fixture
    }

    /// With the weaker mechanism.
    async fn with_landlock() -> Self {
        let fixture = Self::with(Sandbox::with(helper(), Mechanism::Landlock).await);
        fixture.sandbox.probe().check(Required::L2).expect("these tests need a sandbox");
        fixture
    }

    fn with(sandbox: Sandbox) -> Self {
        Self::below(&crate::support::scratch(), sandbox)
    }

    fn below(scratch: &Path, sandbox: Sandbox) -> Self {
        let directory = tempfile::tempdir_in(scratch).unwrap();
        let fixture = Self { root: directory.path().to_owned(), sandbox, directory: Some(directory) };
        for directory in ["ws/src", "ws/.vscode", "ws/.roo", "out", "home/.ssh", "state", "temp", "cache"] {
            fs::create_dir_all(fixture.at(directory)).unwrap();
        }
        for (name, text) in [
            ("ws/src/a.txt", "a"),
            ("ws/.env", "SECRET=canary-secret"),
            ("ws/.vscode/settings.json", "{}"),
            ("ws/AGENTS.md", "be good"),
            ("out/kept.txt", "kept"),
            ("home/.ssh/id_ed25519", "canary-secret"),
            ("home/.netrc", "canary-secret"),
            ("home/readable.txt", "readable"),
            ("state/log.jsonl", "canary-secret"),
        ] {
            fs::write(fixture.at(name), text).unwrap();
        }
        fixture
    }

    /// A test of this full name once more, as a server that prints what its command prints.
    fn server(&self, test: &str) -> std::process::Command {
        let mut server = std::process::Command::new(std::env::current_exe().unwrap());
        server.args(["--exact", test, "--nocapture", "--include-ignored"]).env(TEST_ROOT, &self.root);
        server.stdout(std::process::Stdio::piped());
        server
    }

    /// What such a server does.
    async fn serve(&self, line: &str, confinement: &Confinement) {
        let print = |text: &str| std::io::Write::write_all(&mut std::io::stdout(), text.as_bytes()).unwrap();
        let (command, environment) = (self.command(line), self.environment());
        let cancel = CancellationToken::new();
        exec::run_confined(&command, &environment, &self.sandbox, confinement, print, &cancel).await.unwrap();
    }

    fn at(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    fn confinement(&self) -> Confinement {
        let mut hidden = vec![self.at("state"), self.at("ws/.env")];
        hidden.extend(credentials(Some(&self.at("home"))));
        Confinement {
            writable: vec![self.at("ws")],
            read_only: vec![self.at("ws/.vscode"), self.at("ws/.roo"), self.at("ws/AGENTS.md")],
            hidden,
            temp: Some(self.at("temp")),
            cache: Some(self.at("cache")),
            variables: vec![("XDG_CACHE_HOME", self.at("cache").into_os_string())],
            ..Confinement::default()
        }
    }

    /// Begins to record what changes below some roots.
    fn record(&self, roots: &[PathBuf], scope: &dyn Scope, store: &Store) -> Recording {
        let supervised = self.sandbox.probe().active.is_some_and(|active| active.supervised);
        let index = Arc::new(if supervised { FileIndex::default() } else { FileIndex::walking() });
        let root = |path: &PathBuf| IndexedRoot { path: path.clone(), marker: Arc::new(Unmarked) };
        index.begin(&roots.iter().map(root).collect::<Vec<_>>(), scope, store).unwrap()
    }

    /// A new directory in which files below the workspace are kept before they change.
    fn capture(&self) -> Capture {
        let directory = self.at("captures");
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir(&directory).unwrap();
        Capture { directory, roots: vec![self.at("ws")], except: vec![], repositories: vec![] }
    }

    fn environment(&self) -> Environment {
        let own = std::env::vars_os().filter(|(name, _)| name != "HOME");
        Environment::chosen(own.chain([("HOME".into(), OsString::from(self.at("home")))]))
    }

    async fn run(&self, command: &Command, confinement: &Confinement) -> Result<(Status, String), ExecError> {
        let mut output = String::new();
        let (status, _) = exec::run_confined(
            command,
            &self.environment(),
            &self.sandbox,
            confinement,
            |text| output.push_str(text),
            &CancellationToken::new(),
        )
        .await?;
        Ok((status, output))
    }

    fn command(&self, line: &str) -> Command {
        Command { line: line.to_owned(), directory: self.at("ws"), timeout: Some(PATIENCE), handle: None }
    }

    /// Runs a line in the workspace.
    async fn sh(&self, line: &str) -> (Status, String) {
        self.run(&self.command(line), &self.confinement()).await.expect("it starts")
    }

    async fn sh_with_network(&self, line: &str) -> (Status, String) {
        let confinement = Confinement { network: Network::On, ..self.confinement() };
        self.run(&self.command(line), &confinement).await.expect("it starts")
    }

    async fn check(&self, line: &str, output: &str) {
        let (status, found) = self.sh(line).await;
        assert_eq!((status, found.trim_end()), (Status::Code(0), output), "{line}");
    }

    /// The names in a directory.
    fn names(&self, directory: &str) -> Vec<String> {
        names(&self.at(directory))
    }
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
