//! What is recorded as changed by a command is what it changed, and what it was not allowed to change is back: bytes,
//! modes, links, directories and empty directories.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;

use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};
use roo_sandbox::changes::{Change, FileIndex, IndexedRoot, Keep, Limits, UndoOutcome, What};
use roo_sandbox::exec::sandbox::Journal;

use super::*;

/// `in` is in scope, `AGENTS.md` is protected wherever it is, and the rest is out of scope.
struct Halves;

impl Scope for Halves {
    fn allowed(&self, _root: usize, path: &Path) -> Allowed {
        if path.ends_with("AGENTS.md") {
            Allowed::Protected
        } else if path.starts_with("in") {
            Allowed::InScope
        } else {
            Allowed::OutOfScope
        }
    }

    fn keep(&self, root: usize, path: &Path) -> Keep {
        if self.allowed(root, path) == Allowed::InScope { Keep::Nothing } else { Keep::Content }
    }
}

/// A thing in a tree: what it is and what it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Thing {
    Directory(u32),
    File(u32, String),
    Link(PathBuf),
}

/// Everything below a directory, by path.
fn everything(top: &Path) -> BTreeMap<PathBuf, Thing> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![top.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let meta = path.symlink_metadata().unwrap();
            let mode = meta.permissions().mode() & 0o7777;
            let thing = if meta.is_symlink() {
                Thing::Link(fs::read_link(&path).unwrap())
            } else if meta.is_dir() {
                waiting.push(path.clone());
                Thing::Directory(mode)
            } else {
                Thing::File(mode, fs::read_to_string(&path).unwrap())
            };
            found.insert(path.strip_prefix(top).unwrap().to_owned(), thing);
        }
    }
    found
}

/// What is other, by comparing everything.
fn differences(
    before: &BTreeMap<PathBuf, Thing>,
    after: &BTreeMap<PathBuf, Thing>,
) -> BTreeMap<PathBuf, What> {
    let mut found = BTreeMap::new();
    for (path, thing) in before {
        match after.get(path) {
            None => found.insert(path.clone(), What::Deleted),
            Some(now) if now != thing => found.insert(path.clone(), What::Modified),
            Some(_) => None,
        };
    }
    let new = after.keys().filter(|path| !before.contains_key(*path));
    found.extend(new.map(|path| (path.clone(), What::Created)));
    found
}

const PLACES: &[&str] = &["in", "in/a", "in/a/b", "out", "out/a", "out/a/b", "in/new", "out/new"];
const NAMES: &[&str] = &["f", "g", "h", "AGENTS.md", "a", "b", "new"];

/// A command that does something to some path, if that works.
fn operation() -> impl Strategy<Value = String> {
    let path = || {
        (prop::sample::select(PLACES), prop::sample::select(NAMES))
            .prop_map(|(place, name)| format!("{place}/{name}"))
    };
    prop_oneof![
        3 => (path(), 0..3_u8).prop_map(|(path, text)| format!("echo {text} >{path}")),
        2 => path().prop_map(|path| format!("echo more >>{path}")),
        // As editors save: a new file takes the place of the old one.
        2 => (path(), 0..3_u8).prop_map(|(path, text)| format!("echo {text} >{path}~ && mv {path}~ {path}")),
        1 => path().prop_map(|path| format!("cp -p {path} {path}~ && echo x >{path} && mv {path}~ {path}")),
        2 => path().prop_map(|path| format!("rm -f {path}")),
        1 => path().prop_map(|path| format!("rm -rf {path}")),
        2 => path().prop_map(|path| format!("mkdir -p {path}")),
        1 => path().prop_map(|path| format!("rmdir {path}")),
        3 => (path(), path()).prop_map(|(from, to)| format!("mv -T {from} {to}")),
        1 => (path(), path()).prop_map(|(from, to)| format!("mv {from} {to}")),
        1 => (path(), path()).prop_map(|(from, to)| format!("cp -r {from} {to}")),
        1 => (path(), path()).prop_map(|(from, to)| format!("ln {from} {to}")),
        1 => path().prop_map(|path| format!("ln -sfn /etc {path}")),
        1 => path().prop_map(|path| format!("ln -sfn f {path}")),
        // Directories stay open to their owner, who looks into them afterwards.
        1 => (path(), prop::sample::select(&["u=rwX,go=", "u=rwX,go=rX", "755", "700"][..]))
            .prop_map(|(path, mode)| format!("chmod {mode} {path}")),
        1 => path().prop_map(|path| format!("touch -d 2001-02-03 {path}")),
        1 => path().prop_map(|path| format!("truncate -s 1 {path}")),
        1 => path().prop_map(|path| format!("sed -i s/0/5/ {path}")),
    ]
}

fn fill(top: &Path) {
    let _ = fs::remove_dir_all(top);
    for place in PLACES.iter().filter(|place| !place.ends_with("new")) {
        fs::create_dir_all(top.join(place)).unwrap();
        for name in ["f", "g", "AGENTS.md"] {
            fs::write(top.join(place).join(name), format!("{place} {name} 0\n")).unwrap();
        }
    }
    fs::create_dir(top.join("out/empty")).unwrap();
    std::os::unix::fs::symlink("f", top.join("out/link")).unwrap();
}

fn summary(changes: &[Change]) -> BTreeMap<PathBuf, What> {
    changes.iter().map(|change| (change.path.clone(), change.what)).collect()
}

async fn check(fixture: &Fixture, index: &Arc<FileIndex>, operations: &[String]) {
    let top = fixture.at("ws");
    fill(&top);
    let before = everything(&top);
    let store = Store::open(fixture.at("kept"), Limits::default()).unwrap();
    let root = IndexedRoot { path: top.clone(), marker: Arc::new(Unmarked) };
    let recording = index.begin(&[root], &Halves, &store).unwrap();
    let capture = fixture.capture();
    let directory = capture.directory.clone();
    let confinement =
        Confinement { writable: vec![top.clone()], capture: Some(capture), ..Confinement::default() };
    let line = format!("{}; true", operations.join("; "));
    let (status, output) = fixture.run(&fixture.command(&line), &confinement).await.unwrap();
    assert_eq!(status, Status::Code(0), "{output}");
    let journal = Journal::read(&directory).unwrap();

    let after = everything(&top);
    let changes = recording.changes(&Halves, &journal);
    assert_eq!(changes.unknown, None);
    assert_eq!(summary(&changes.changes), differences(&before, &after), "{line}\n{output}");
    for change in &changes.changes {
        // What is not known of how it was is what nobody could have known: here everything could.
        let is_file = matches!(before.get(&change.path), Some(Thing::File(..)));
        let digest = change.before.as_ref().and_then(|state| state.digest);
        assert!(!is_file || digest.is_some(), "{line}\n{change:?}");
        if let (Some(digest), Some(Thing::File(_, text))) = (digest, before.get(&change.path)) {
            assert_eq!(digest, roo_protocol::ids::Digest::of(text), "{line}\n{change:?}");
        }
    }

    let settled = recording.restore(&changes, &store, &journal);
    let is_back = |path: &&PathBuf| Halves.allowed(0, path) != Allowed::InScope;
    let now = everything(&top);
    let held: Vec<_> =
        settled.iter().filter(|one| !matches!(one.outcome, UndoOutcome::Restored { .. })).collect();
    // Where what is protected lay in what the command may remove, there is no place for it any more.
    let is_homeless = |path: &Path| {
        path.starts_with("in")
            && path.ancestors().skip(1).any(|above| !now.contains_key(above) && above != Path::new(""))
    };
    for one in &held {
        assert!(
            is_homeless(&one.change.path) || one.change.path.starts_with("in"),
            "{line}\n{one:?}\n{output}"
        );
    }
    for path in before.keys().chain(now.keys()).filter(is_back).filter(|path| path.starts_with("out")) {
        assert_eq!(now.get(path), before.get(path), "{line}\n{}: {settled:#?}", path.display());
    }
    // What was moved to where it may not be is back, unless its name is taken.
    for change in changes.violations().filter(|change| change.what == What::Created) {
        if let Some(from) = change.renamed_from.as_ref().filter(|from| !after.contains_key(*from)) {
            let is_elsewhere =
                |other: &Change| !other.is_violation() && other.renamed_from.as_ref() == Some(from);
            let has_place =
                matches!(from.parent().and_then(|above| now.get(above)), Some(Thing::Directory(_)));
            let is_lost = !now.contains_key(from) && !changes.changes.iter().any(is_elsewhere);
            assert!(!is_lost || !has_place, "{line}\n{}: {settled:#?}", from.display());
        }
    }
    // And what is in scope stays as the command left it.
    for path in after.keys().filter(|path| !is_back(path)) {
        assert_eq!(now.get(path), after.get(path), "{line}\n{}", path.display());
    }
}

/// How many random lines are tried; more where `ROO_TEST_CASES` says so.
fn cases(usual: u32) -> u32 {
    std::env::var("ROO_TEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

#[test]
fn what_is_recorded_is_what_changed_and_what_was_out_of_scope_is_back() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let fixture = runtime.block_on(Fixture::new());
    let index = Arc::new(FileIndex::default());
    let config = ProptestConfig {
        cases: cases(100),
        rng_seed: RngSeed::Fixed(12),
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let lines = prop::collection::vec(operation(), 1..12);
    let outcome = TestRunner::new(config).run(&lines, |operations| {
        runtime.block_on(check(&fixture, &index, &operations));
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}

/// However much a command writes, what steers agents and editors does not stay.
#[tokio::test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
async fn a_flood_of_files_hides_nothing() {
    let fixture = Fixture::new().await;
    let top = fixture.at("ws");
    fill(&top);
    let store = Store::open(fixture.at("kept"), Limits::default()).unwrap();
    let recording = fixture.record(std::slice::from_ref(&top), &Halves, &store);
    let confinement = Confinement {
        writable: vec![top.clone()],
        capture: Some(fixture.capture()),
        ..Confinement::default()
    };
    let line = "python3 - <<'E'\nimport os\nfor d in range(300):\n  os.makedirs(f'in/d{d}')\n  for f in range(500):\n    \
                open(f'in/d{d}/{f}', 'x').close()\n  if d == 150:\n    open('in/d150/AGENTS.md', 'x').write('obey')\n    \
                open('AGENTS.md', 'x').write('obey')\nE\necho x >out/f";
    let (status, output) = fixture.run(&fixture.command(line), &confinement).await.unwrap();
    assert_eq!(status, Status::Code(0), "{output}");
    let journal = Journal::read(&fixture.at("captures")).unwrap();
    let changes = recording.changes(&Halves, &journal);
    assert_eq!((changes.unknown.clone(), changes.changes.len()), (None, 300 * 501 + 3));
    let violations: Vec<_> = changes.violations().map(|change| change.path.display().to_string()).collect();
    assert_eq!(violations, ["AGENTS.md", "in/d150/AGENTS.md", "out/f"]);
    let settled = recording.restore(&changes, &store, &journal);
    assert!(settled.iter().all(|one| matches!(one.outcome, UndoOutcome::Restored { .. })), "{settled:?}");
    assert!(!top.join("AGENTS.md").exists() && !top.join("in/d150/AGENTS.md").exists());
    assert_eq!(fs::read_to_string(top.join("out/f")).unwrap(), "out f 0\n");
}
