//! FT-12 and FT-16: many tasks and everybody else write the same files. No update is lost, and nobody's bytes.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use roo_durable::simulated_disk::Random;
use roo_protocol::ids::Digest;
use roo_text::position::Encoding;
use roo_workspace::{Documents, Purpose, Setup, Workspace, WriteError};
use tempfile::TempDir;

/// A workspace in memory where the system has such a place: what is tested is order, not durability.
fn place() -> (TempDir, PathBuf) {
    let memory = Path::new("/dev/shm");
    let directory = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap();
    let work = directory.path().canonicalize().unwrap().join("work");
    fs::create_dir(&work).unwrap();
    (directory, work)
}

/// As one server has it.
fn workspace(work: &Path) -> Arc<Workspace> {
    let setup = Setup {
        folders: vec![work.to_owned()],
        state_directory: work.with_file_name("state"),
        documents: Arc::new(Documents::default()),
        editor: None,
        encoding: Encoding::Utf8,
    };
    Arc::new(Workspace::open(setup).unwrap())
}

type Commits = Arc<Mutex<HashMap<String, Vec<(Option<Digest>, Digest)>>>>;

/// Adds a line to a file, as a task does: it reads, writes what it expects to replace, and reads again when
/// that is stale.
async fn add_line(workspace: &Workspace, name: &str, line: &str, commits: &Commits) {
    loop {
        let place = workspace.resolve(name, Purpose::Write).unwrap();
        let (expected, text) = match workspace.read_for_edit(&place).await {
            Ok(found) => (Some(found.digest), found.text),
            Err(_) => (None, String::new()),
        };
        match workspace.write(&place, expected, &format!("{text}{line}\n"), "test").await {
            Ok(written) => {
                let mut commits = commits.lock().unwrap();
                commits.entry(name.to_owned()).or_default().push((written.before, written.after));
                return;
            }
            Err(WriteError::Stale { .. } | WriteError::Exists { .. }) => {}
            Err(error) => panic!("{name}: {error}"),
        }
    }
}

/// The commits of a file, put in order, are one chain from nothing.
fn assert_chain(commits: &[(Option<Digest>, Digest)], end: Digest, name: &str) {
    let next: HashMap<Option<Digest>, Digest> = commits.iter().copied().collect();
    assert_eq!(next.len(), commits.len(), "{name}: two commits replaced the same text");
    let mut last = None;
    for _ in 0..commits.len() {
        last = Some(*next.get(&last).unwrap_or_else(|| panic!("{name}: the chain is broken")));
    }
    assert_eq!(last, Some(end), "{name}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_tasks_of_two_servers_lose_no_update_to_each_other() {
    const TASKS: usize = 20;
    const CALLS: usize = 50;
    let (_directory, work) = place();
    let servers = [workspace(&work), workspace(&work)];
    let commits = Commits::default();
    let tasks = (0..TASKS).map(|task| {
        let (server, commits) = (Arc::clone(&servers[task % 2]), Arc::clone(&commits));
        tokio::spawn(async move {
            let mut random = Random::new(task as u64);
            for call in 0..CALLS {
                let name = match random.below(10) < 3 {
                    true => format!("shared/{}.txt", random.below(4)),
                    false => format!("own/{task}.txt"),
                };
                add_line(&server, &name, &format!("{task} {call}"), &commits).await;
                if random.one_in(3) {
                    tokio::task::yield_now().await;
                }
            }
        })
    });
    let all = futures_util::future::join_all(tasks.collect::<Vec<_>>());
    let ends = tokio::time::timeout(Duration::from_secs(80), all).await.expect("they wait for each other");
    ends.into_iter().for_each(|end| end.unwrap());

    let commits = commits.lock().unwrap();
    assert_eq!(commits.values().map(Vec::len).sum::<usize>(), TASKS * CALLS);
    let mut lines = Vec::new();
    for (name, commits) in commits.iter() {
        let text = fs::read_to_string(work.join(name)).unwrap();
        assert_chain(commits, Digest::of(&text), name);
        lines.extend(text.lines().map(str::to_owned));
    }
    lines.sort();
    lines.dedup();
    assert_eq!(lines.len(), TASKS * CALLS, "each line once");
    assert!(!left_behind(&work.join("shared")) && !left_behind(&work.join("own")));
}

/// Whether a temporary file of a commit is still there.
fn left_behind(directory: &Path) -> bool {
    fs::read_dir(directory)
        .unwrap()
        .any(|entry| entry.unwrap().file_name().to_string_lossy().starts_with(".roo"))
}

/// What others do to a file.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Edit {
    /// A formatter writes into it.
    InPlace,
    /// `git checkout` removes it and makes it again.
    Checkout,
    /// An editor saves a new file over it.
    Save,
    Delete,
    Rename,
    RenameCase,
}

impl Edit {
    const ALL: [Self; 6] =
        [Self::InPlace, Self::Checkout, Self::Save, Self::Delete, Self::Rename, Self::RenameCase];

    fn make(self, work: &Path, text: &str) {
        let file = work.join("a.txt");
        match self {
            Self::InPlace => fs::write(&file, text).unwrap(),
            Self::Checkout => {
                let _ = fs::remove_file(&file);
                // Ours may have taken the name.
                let _ = fs::File::create_new(&file).map(|_| fs::write(&file, text).unwrap());
            }
            Self::Save => {
                fs::write(work.join("a.txt.swp"), text).unwrap();
                fs::rename(work.join("a.txt.swp"), &file).unwrap();
            }
            Self::Delete => drop(fs::remove_file(&file)),
            Self::Rename => drop(fs::rename(&file, work.join("b.txt"))),
            Self::RenameCase => drop(fs::rename(&file, work.join("A.txt"))),
        }
    }

    /// Whether it leaves a text of its own.
    fn writes(self) -> bool {
        matches!(self, Self::InPlace | Self::Checkout | Self::Save)
    }
}

/// Every text in the workspace.
fn texts(work: &Path) -> Vec<String> {
    let entries = fs::read_dir(work).unwrap();
    entries.map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap()).collect()
}

/// While a user thinks about a question, and between the read and the write.
#[tokio::test]
async fn an_edit_of_others_before_the_write_makes_it_stale() {
    for round in 0..100 {
        let edit = Edit::ALL[round % Edit::ALL.len()];
        let (_directory, work) = place();
        let workspace = workspace(&work);
        fs::write(work.join("a.txt"), "as read").unwrap();
        let place = workspace.resolve("a.txt", Purpose::Write).unwrap();
        let read = workspace.read_for_edit(&place).await.unwrap();
        edit.make(&work, "theirs");
        let before = texts(&work);
        let refused = workspace.write(&place, Some(read.digest), "ours", "test").await;
        assert!(matches!(refused, Err(WriteError::Stale { .. })), "{edit:?}: {refused:?}");
        assert_eq!(texts(&work), before, "{edit:?}");
    }
}

/// At the very moment of the write. Who opened a file before it was exchanged, and writes into it after what was
/// displaced was looked at, is not seen: no system has a way to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edit_of_others_during_the_write_loses_nobodys_bytes() {
    let mut won = 0;
    for round in 0..100 {
        let kinds = [Edit::Checkout, Edit::Save, Edit::Delete, Edit::Rename, Edit::RenameCase];
        let edit = kinds[round % kinds.len()];
        let (_directory, work) = place();
        let workspace = workspace(&work);
        fs::write(work.join("a.txt"), "as read").unwrap();
        let place = workspace.resolve("a.txt", Purpose::Write).unwrap();
        let read = workspace.read_for_edit(&place).await.unwrap();
        let both = Arc::new(Barrier::new(2));
        let (others, there) = (Arc::clone(&both), work.clone());
        let theirs = std::thread::spawn(move || {
            others.wait();
            edit.make(&there, "theirs");
        });
        both.wait();
        let outcome = workspace.write(&place, Some(read.digest), "ours", "test").await;
        theirs.join().unwrap();
        let left = texts(&work);
        let place = format!("round {round}, {edit:?}: {outcome:?} leaves {left:?}");
        match &outcome {
            Ok(_) => won += 1,
            Err(WriteError::Stale { .. }) => {}
            Err(error) => panic!("{place}: {error}"),
        }
        // Theirs is there unless it found the name taken; what was read is, unless it was replaced or deleted.
        if edit == Edit::Save {
            assert!(left.iter().any(|text| text == "theirs"), "{place}");
        }
        if !edit.writes() && edit != Edit::Delete && outcome.is_err() {
            assert!(left.iter().any(|text| text == "as read"), "{place}");
        }
        assert!(!left_behind(&work), "{place}");
    }
    assert!(won < 100, "they never met");
}
