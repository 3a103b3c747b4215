//! What the sandbox and the record of changes cost a command.
//!
//! `cargo bench --bench sandbox [-- words of the measurements]`. What each figure means is told in
//! `docs/src/performance.md`.

#[path = "support/table.rs"]
mod table;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use roo_sandbox::changes::{
    Allowed, FileIndex, IndexedRoot, Keep, Kind, Limits, Mark, Marker, Recording, Scope, StagingArea, Store,
};
use roo_sandbox::exec::sandbox::{Capture, Confinement, Helper, Journal, Mechanism, Sandbox};
use roo_sandbox::exec::{self, Command, Environment};
use table::{Row, milliseconds, row};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// A name to choose it by, and what it does.
type Measurement = (&'static str, fn() -> Outcome);

const MEASUREMENTS: &[Measurement] = &[
    ("command", commands),
    ("probe", probes),
    ("recording", recordings),
    ("size", sizes),
    ("supervisor", supervised),
    ("staged", staged),
];

fn main() -> Outcome {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    // `cargo test --all-targets` starts benches too, without this flag.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return Ok(());
    }
    arguments.retain(|argument| !argument.starts_with('-'));
    table::head()?;
    for (name, measure) in MEASUREMENTS {
        if arguments.is_empty() || arguments.iter().any(|argument| name.contains(argument.as_str())) {
            measure()?;
        }
    }
    Ok(())
}

fn helper() -> Helper {
    Helper::at(env!("CARGO_BIN_EXE_roo-lsp"))
}

fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()
}

/// `true` by the shell alone, by the server, and in each sandbox; all in turn, so that a busy machine is
/// busy for all of them.
fn commands() -> Outcome {
    const RUNS: usize = 300;
    let runtime = runtime()?;
    let root = workspace(200)?;
    let folder = root.path().canonicalize()?;
    let confinement = Confinement {
        writable: vec![folder.clone()],
        read_only: vec![folder.join("d0"), folder.join("d1/f0")],
        hidden: vec![folder.join("d1/f1"), folder.join("d1/f2")],
        ..Confinement::default()
    };
    let sandboxes = [Mechanism::Namespaces, Mechanism::Landlock]
        .map(|mechanism| runtime.block_on(Sandbox::with(helper(), mechanism)));
    let environment = Environment::inherited();
    let command = Command { line: "true".to_owned(), directory: folder.clone(), timeout: None, handle: None };
    let cancel = CancellationToken::new();
    let mut samples: [Vec<f64>; 4] = Default::default();
    for _ in 0..RUNS {
        let begun = Instant::now();
        std::process::Command::new(exec::shell().program()).args(exec::shell().arguments("true")).status()?;
        samples[0].push(milliseconds(begun.elapsed()));
        let begun = Instant::now();
        runtime.block_on(exec::run(&command, &environment, |_| {}, &cancel))?;
        samples[1].push(milliseconds(begun.elapsed()));
        for (sandbox, samples) in sandboxes.iter().zip(&mut samples[2..]) {
            let begun = Instant::now();
            let run = exec::run_confined(&command, &environment, sandbox, &confinement, |_| {}, &cancel);
            runtime.block_on(run)?;
            samples.push(milliseconds(begun.elapsed()));
        }
    }
    let names = ["plain bash -c true", "the same by the server", "in namespaces", "by Landlock alone"];
    for (what, samples) in names.into_iter().zip(samples) {
        row(Row { what, unit: "ms", target: "" }, samples)?;
    }
    Ok(())
}

fn probes() -> Outcome {
    let runtime = runtime()?;
    let samples = (0..30).map(|_| {
        let begun = Instant::now();
        runtime.block_on(Sandbox::find(helper()));
        milliseconds(begun.elapsed())
    });
    Ok(row(Row { what: "finding the sandbox, once a server", unit: "ms", target: "" }, samples.collect())?)
}

/// A workspace of so many directories with 100 files each.
fn workspace(directories: usize) -> io::Result<TempDir> {
    let root = tempfile::tempdir()?;
    fill(root.path(), directories)?;
    Ok(root)
}

fn fill(root: &Path, directories: usize) -> io::Result<()> {
    for directory in 0..directories {
        let path = root.join(format!("d{directory}"));
        fs::create_dir_all(&path)?;
        for file in 0..100 {
            fs::write(path.join(format!("f{file}")), format!("{directory} {file}\n").repeat(40))?;
        }
    }
    // From now on it is later than any file's last change, so that times tell; nobody can set that one.
    std::thread::sleep(Duration::from_millis(50));
    Ok(())
}

/// Scope is what begins with `d1`; `kept` says what is kept of the rest.
struct Rules(Keep);

impl Scope for Rules {
    fn allowed(&self, _root: usize, path: &Path) -> Allowed {
        let first = path.iter().next().and_then(|name| name.to_str()).unwrap_or_default();
        if first.starts_with("d1") { Allowed::InScope } else { Allowed::OutOfScope }
    }

    fn keep(&self, root: usize, path: &Path) -> Keep {
        if self.allowed(root, path) == Allowed::InScope { Keep::Nothing } else { self.0 }
    }

    fn kept_below(&self, _root: usize) -> Vec<PathBuf> {
        if self.0 == Keep::Nothing { vec![] } else { vec![PathBuf::new()] }
    }
}

impl Marker for Rules {
    fn mark(&self, _: &Path, _: Kind) -> Mark {
        Mark::None
    }
}

/// A recording of a root, by an index of its own where none is given.
fn record(index: &Arc<FileIndex>, root: &Path, rules: &Arc<Rules>, store: &Store) -> Outcome<Recording> {
    let marker: Arc<dyn Marker> = Arc::clone(rules) as _;
    let root = IndexedRoot { path: root.to_owned(), marker };
    Ok(index.begin(&[root], &**rules, store)?)
}

/// What it takes to know what a command changed that changed nothing.
fn recordings() -> Outcome {
    let root = workspace(200)?;
    let folder = root.path().canonicalize()?;
    let directory = tempfile::tempdir()?;
    let store = Store::open(directory.path().join("kept"), Limits::default())?;
    for (keep, walks, first, again) in [
        (Keep::Nothing, false, "20,000 files indexed, first time", "recording begun"),
        (Keep::Content, false, "the same, 8,900 of them kept, first time", "recording begun, warm"),
        (Keep::Nothing, true, "20,000 files walked through, first time", "recording begun"),
    ] {
        let rules = Arc::new(Rules(keep));
        let index = Arc::new(if walks { FileIndex::walking() } else { FileIndex::default() });
        let begun = Instant::now();
        record(&index, &folder, &rules, &store)?;
        row(Row { what: first, unit: "ms", target: "" }, vec![milliseconds(begun.elapsed())])?;
        let (mut taken, mut compared) = (Vec::new(), Vec::new());
        for _ in 0..30 {
            let begun = Instant::now();
            let recording = record(&index, &folder, &rules, &store)?;
            taken.push(milliseconds(begun.elapsed()));
            let begun = Instant::now();
            let changes = recording.changes(&*rules, &Journal::default());
            compared.push(milliseconds(begun.elapsed()));
            if !changes.is_clean() {
                return Err(format!("{changes:?}").into());
            }
        }
        row(Row { what: again, unit: "ms", target: "" }, taken)?;
        row(Row { what: "and compared", unit: "ms", target: "" }, compared)?;
    }
    Ok(())
}

/// `true` in namespaces with all that is known of its changes, by the size of the workspace: the first command in it,
/// and those after it.
fn sizes() -> Outcome {
    const RUNS: usize = 60;
    let runtime = runtime()?;
    let sandbox = runtime.block_on(Sandbox::with(helper(), Mechanism::Namespaces));
    let environment = Environment::inherited();
    let cancel = CancellationToken::new();
    for directories in [10, 100, 1000] {
        let root = workspace(directories)?;
        let folder = root.path().canonicalize()?;
        let private = tempfile::tempdir()?;
        let store = Store::open(private.path().join("kept"), Limits::default())?;
        let (rules, index) = (Arc::new(Rules(Keep::Nothing)), Arc::new(FileIndex::default()));
        let command =
            Command { line: "true".to_owned(), directory: folder.clone(), timeout: None, handle: None };
        let run = || -> Outcome<f64> {
            let begun = Instant::now();
            let recording = record(&index, &folder, &rules, &store)?;
            let captures = tempfile::tempdir_in(private.path())?;
            let directory = captures.path().canonicalize()?;
            let capture = Capture {
                directory: directory.clone(),
                roots: vec![folder.clone()],
                except: vec![],
                repositories: vec![],
            };
            let confinement = Confinement {
                writable: vec![folder.clone()],
                capture: Some(capture),
                ..Confinement::default()
            };
            let run = exec::run_confined(&command, &environment, &sandbox, &confinement, |_| {}, &cancel);
            runtime.block_on(run)?;
            let changes = recording.changes(&*rules, &Journal::read(&directory)?);
            if !changes.changes.is_empty() {
                return Err(format!("{changes:?}").into());
            }
            Ok(milliseconds(begun.elapsed()))
        };
        let what = format!("`true` among {} files, first command", directories * 100);
        row(Row { what: &what, unit: "ms", target: "" }, vec![run()?])?;
        let samples = (0..RUNS).map(|_| run()).collect::<Outcome<Vec<_>>>()?;
        row(Row { what: "and each further one", unit: "ms", target: "" }, samples)?;
    }
    Ok(())
}

/// What keeping files before they are written costs those who write many.
fn supervised() -> Outcome {
    const RUNS: usize = 20;
    let runtime = runtime()?;
    let root = workspace(20)?;
    let folder = root.path().canonicalize()?;
    let sandbox = runtime.block_on(Sandbox::with(helper(), Mechanism::Namespaces));
    let (environment, cancel) = (Environment::inherited(), CancellationToken::new());
    let line = "for f in d*/f*; do echo more >>$f; done";
    let command = Command { line: line.to_owned(), directory: folder.clone(), timeout: None, handle: None };
    let mut samples: [Vec<f64>; 2] = Default::default();
    for _ in 0..RUNS {
        for (samples, except) in samples.iter_mut().zip([vec![], vec![folder.clone()]]) {
            let captures = tempfile::tempdir()?;
            let directory = captures.path().canonicalize()?;
            let capture = Capture { directory, roots: vec![folder.clone()], except, repositories: vec![] };
            let confinement = Confinement {
                writable: vec![folder.clone()],
                capture: Some(capture),
                ..Confinement::default()
            };
            let begun = Instant::now();
            let run = exec::run_confined(&command, &environment, &sandbox, &confinement, |_| {}, &cancel);
            runtime.block_on(run)?;
            samples.push(milliseconds(begun.elapsed()));
        }
    }
    let names = ["2,000 files appended to, each kept before", "and none kept, as in build output"];
    for (what, samples) in names.into_iter().zip(samples) {
        row(Row { what, unit: "ms", target: "" }, samples)?;
    }
    Ok(())
}

/// A command in namespaces, staged, over 20,000 files: what it takes besides the record, and what to judge and
/// to commit what it wrote.
fn staged() -> Outcome {
    const RUNS: usize = 60;
    let runtime = runtime()?;
    // On one file system, as a workspace and the state directory of its user are.
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    let folder = place.path().canonicalize()?.join("workspace");
    fill(&folder, 200)?;
    let store = Store::open(place.path().join("kept"), Limits::default())?;
    let area = StagingArea::open(place.path().join("staged"))?;
    let sandbox = runtime.block_on(Sandbox::with(helper(), Mechanism::Namespaces));
    let environment = Environment::inherited();
    let cancel = CancellationToken::new();
    let roots = [folder.clone()];
    let (rules, index) = (Arc::new(Rules(Keep::Nothing)), Arc::new(FileIndex::default()));
    let many = "for n in $(seq 1000); do echo $n >d1/new$n; done";
    for (line, begun_as, judged_as, committed_as) in [
        ("true", "`true`, staged", "and judged: nothing", ""),
        ("echo x >>d1/f0", "one file changed, staged", "and judged", "and committed, synced"),
        (many, "1,000 new files, staged", "and judged", "and committed"),
    ] {
        let mut samples: [Vec<f64>; 3] = Default::default();
        let mut at_once = Vec::new();
        for _ in 0..RUNS {
            let command =
                Command { line: line.to_owned(), directory: folder.clone(), timeout: None, handle: None };
            let direct = Confinement { writable: vec![folder.clone()], ..Confinement::default() };
            let begun = Instant::now();
            let run = exec::run_confined(&command, &environment, &sandbox, &direct, |_| {}, &cancel);
            runtime.block_on(run)?;
            at_once.push(milliseconds(begun.elapsed()));
            for new in (1..=1000).map(|n| folder.join(format!("d1/new{n}"))).filter(|_| line == many) {
                fs::remove_file(new)?;
            }
            // No round is to wait for what another one removed.
            rustix::fs::sync();
            let before = record(&index, &folder, &rules, &store)?;
            let begun = Instant::now();
            let stage = area.begin(&roots)?;
            let confinement = Confinement { staged: stage.layers().to_vec(), ..Confinement::default() };
            let run = exec::run_confined(&command, &environment, &sandbox, &confinement, |_| {}, &cancel);
            runtime.block_on(run)?;
            samples[0].push(milliseconds(begun.elapsed()));
            let begun = Instant::now();
            let changes = stage.changes(&before, &*rules)?;
            samples[1].push(milliseconds(begun.elapsed()));
            let begun = Instant::now();
            let landed = changes.commit(&stage, &before, &store, true);
            samples[2].push(milliseconds(begun.elapsed()));
            if !landed.withheld.is_empty() {
                return Err(format!("{landed:?}").into());
            }
            for change in landed.committed.iter().filter(|change| change.before.is_none()) {
                fs::remove_file(folder.join(&change.path))?;
            }
            rustix::fs::sync();
        }
        row(Row { what: &begun_as.replace("staged", "in namespaces"), unit: "ms", target: "" }, at_once)?;
        for (what, samples) in [begun_as, judged_as, committed_as].into_iter().zip(samples) {
            if !what.is_empty() {
                row(Row { what, unit: "ms", target: "" }, samples)?;
            }
        }
    }
    Ok(())
}
