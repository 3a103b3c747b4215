use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::folder::simulated::SimulatedFolders;
use crate::resolver::Purpose;
use roo_durable::disk::Disk as _;
use roo_durable::simulated_disk::SimulatedDisk;

struct Fixture {
    directory: tempfile::TempDir,
    roots: Roots,
}

impl Fixture {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("w")).unwrap();
        let roots = Roots::open(&[directory.path().join("w")]).unwrap();
        Self { directory, roots }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join("w").join(name)
    }

    fn put(&self, name: &str, bytes: impl AsRef<[u8]>) -> Digest {
        fs::write(self.path(name), bytes.as_ref()).unwrap();
        Digest::of(bytes)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn target(&self, name: &str) -> Resolved {
        self.roots.resolve(name, Purpose::Write).unwrap()
    }

    async fn lock(&self) -> WorkspaceLock {
        WorkspaceLock::acquire(Arc::default(), self.directory.path().join("state.lock")).await.unwrap()
    }

    async fn commit(
        &self,
        name: &str,
        expected: Option<Digest>,
        after: &str,
    ) -> Result<(Option<Digest>, Digest), WriteError> {
        commit(&mut self.lock().await, &UnsyncedNames::default(), &self.target(name), expected, after)
    }

    /// The names in the workspace, so that none left behind is missed.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path("")).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Stages a replacement, runs something, and commits.
    async fn replace_while(&self, happens: impl FnOnce(&Path)) -> Result<(), WriteError> {
        let before = self.put("a.txt", "old");
        let target = self.target("a.txt");
        let mut lock = self.lock().await;
        let staged =
            Staged::new(&WorkspaceFolders, &mut lock, &target, Some(before), (b"new", Digest::of("new")))
                .unwrap();
        happens(&self.path("a.txt"));
        staged.commit(&mut lock).map(drop)
    }
}

#[tokio::test]
async fn the_expected_file_is_replaced_and_nothing_else_stays() {
    let fixture = Fixture::new();
    let before = fixture.put("a.txt", "old");
    let written = fixture.commit("a.txt", Some(before), "new").await.unwrap();
    assert_eq!(written, (Some(before), Digest::of("new")));
    assert_eq!(fixture.read("a.txt"), "new");
    assert_eq!(fixture.names(), ["a.txt"]);
}

#[tokio::test]
async fn a_new_file_gets_its_directories() {
    let fixture = Fixture::new();
    fixture.commit("src/deep/a.txt", None, "new").await.unwrap();
    assert_eq!(fixture.read("src/deep/a.txt"), "new");
    let error = fixture.commit("src/deep/a.txt", None, "newer").await.unwrap_err();
    assert!(matches!(error, WriteError::Exists { .. }));
    assert_eq!(fixture.read("src/deep/a.txt"), "new");
}

#[tokio::test]
async fn a_changed_or_deleted_file_is_stale() {
    let fixture = Fixture::new();
    let read = fixture.put("a.txt", "as read");
    let actual = fixture.put("a.txt", "changed");
    match fixture.commit("a.txt", Some(read), "new").await {
        Err(WriteError::Stale { expected, actual: found, .. }) => {
            assert_eq!((expected, found), (read, Some(actual)));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(fixture.read("a.txt"), "changed");
    fs::remove_file(fixture.path("a.txt")).unwrap();
    let error = fixture.commit("a.txt", Some(read), "new").await.unwrap_err();
    assert!(matches!(error, WriteError::Stale { actual: None, .. }));
    assert!(fixture.names().is_empty());
}

#[tokio::test]
async fn an_edit_between_check_and_exchange_wins_whether_in_place_or_by_rename() {
    let fixture = Fixture::new();
    let in_place = fixture.replace_while(|path| fs::write(path, "typed").unwrap()).await;
    assert!(matches!(in_place, Err(WriteError::Stale { actual: Some(_), .. })), "{in_place:?}");
    assert_eq!(fixture.read("a.txt"), "typed");

    let by_rename = fixture
        .replace_while(|path| {
            fs::write(path.with_extension("swp"), "saved").unwrap();
            fs::rename(path.with_extension("swp"), path).unwrap();
        })
        .await;
    assert!(matches!(by_rename, Err(WriteError::Stale { .. })));
    assert_eq!(fixture.read("a.txt"), "saved");
    assert_eq!(fixture.names(), ["a.txt"]);
}

#[tokio::test]
async fn what_a_file_is_swapped_for_stays() {
    let fixture = Fixture::new();
    let deleted = fixture.replace_while(|path| fs::remove_file(path).unwrap()).await;
    assert!(matches!(deleted, Err(WriteError::Stale { actual: None, .. })));
    assert!(fixture.names().is_empty());

    let outside = fixture.directory.path().join("outside");
    fs::write(&outside, "untouched").unwrap();
    let linked = fixture
        .replace_while(|path| {
            fs::remove_file(path).unwrap();
            symlink(&outside, path).unwrap();
        })
        .await;
    assert!(matches!(linked, Err(WriteError::Stale { .. })));
    assert!(fixture.path("a.txt").is_symlink());
    assert_eq!(fs::read_to_string(&outside).unwrap(), "untouched");
    assert_eq!(fixture.names(), ["a.txt"]);
}

#[tokio::test]
async fn a_file_that_appears_under_a_new_name_stays() {
    let fixture = Fixture::new();
    let target = fixture.target("a.txt");
    let mut lock = fixture.lock().await;
    let staged =
        Staged::new(&WorkspaceFolders, &mut lock, &target, None, (b"new", Digest::of("new"))).unwrap();
    fixture.put("a.txt", "theirs");
    assert!(matches!(staged.commit(&mut lock), Err(WriteError::Exists { .. })));
    assert_eq!(fixture.read("a.txt"), "theirs");
    assert_eq!(fixture.names(), ["a.txt"]);
}

#[tokio::test]
async fn of_two_foreign_versions_the_newer_stays() {
    let fixture = Fixture::new();
    let target = fixture.target("a.txt");
    // The state right after an exchange that displaced "first".
    fixture.put("t.tmp", "first");
    fixture.put("a.txt", "ours");
    let (directory, name) = target.parent().unwrap();
    assert!(put_back(&directory, "t.tmp", name, Digest::of("ours")));
    assert_eq!((fixture.read("a.txt"), fixture.read("t.tmp")), ("first".to_owned(), "ours".to_owned()));

    // The same, when "second" was then saved over ours.
    fixture.put("a.txt", "second");
    fixture.put("t.tmp", "first");
    assert!(put_back(&directory, "t.tmp", name, Digest::of("ours")));
    assert_eq!((fixture.read("a.txt"), fixture.read("t.tmp")), ("second".to_owned(), "first".to_owned()));

    // The same, when ours was deleted.
    fs::remove_file(fixture.path("a.txt")).unwrap();
    assert!(put_back(&directory, "t.tmp", name, Digest::of("ours")));
    assert_eq!(fixture.names(), ["a.txt"]);
}

#[tokio::test]
async fn the_users_attributes_are_kept() {
    use rustix::fs::{XattrFlags, getxattr, setxattr};
    let fixture = Fixture::new();
    let before = fixture.put("a.txt", "a");
    setxattr(fixture.path("a.txt"), "user.note", b"mine", XattrFlags::empty()).unwrap();
    fixture.commit("a.txt", Some(before), "b").await.unwrap();
    let mut value = [0; 8];
    let length = getxattr(fixture.path("a.txt"), "user.note", &mut value).unwrap();
    assert_eq!((&value[..length], fixture.read("a.txt").as_str()), (&b"mine"[..], "b"));
}

#[tokio::test]
async fn mode_byte_order_mark_and_line_ends_are_kept() {
    let fixture = Fixture::new();
    let exact = fixture.put("run.sh", "\u{feff}a\r\nb\r\n");
    fs::set_permissions(fixture.path("run.sh"), fs::Permissions::from_mode(0o750)).unwrap();
    // The digest of the text without its mark is as good as that of the bytes.
    let written = fixture.commit("run.sh", Some(Digest::of("a\r\nb\r\n")), "a\r\nc\r\n").await.unwrap();
    assert_eq!(written, (Some(exact), Digest::of("\u{feff}a\r\nc\r\n")));
    assert_eq!(fixture.read("run.sh"), "\u{feff}a\r\nc\r\n");
    assert_eq!(fixture.path("run.sh").metadata().unwrap().mode() & 0o777, 0o750);
    fixture.commit("run.sh", Some(written.1), "\u{feff}d").await.unwrap();
    assert_eq!(fixture.read("run.sh"), "\u{feff}d");
}

#[tokio::test]
async fn the_encoding_is_kept_and_what_it_lacks_is_refused() {
    let fixture = Fixture::new();
    let text = "Die Gr\u{f6}\u{df}e der Stra\u{df}e\n";
    let latin = |text: &str| -> Vec<u8> { text.chars().map(|c| c as u8).collect() };
    let before = fixture.put("a.txt", latin(text));
    let (exact, after) =
        fixture.commit("a.txt", Some(Digest::of(text)), "Die K\u{fc}rze der Stra\u{df}e\n").await.unwrap();
    assert_eq!(exact, Some(before));
    let written = latin("Die K\u{fc}rze der Stra\u{df}e\n");
    assert_eq!((fs::read(fixture.path("a.txt")).unwrap(), after), (written.clone(), Digest::of(&written)));
    let error = fixture.commit("a.txt", Some(after), "→").await.unwrap_err();
    assert!(
        matches!(error, WriteError::Unencodable { encoding: "windows-1252", character: '→', .. }),
        "{error}"
    );
    assert_eq!(fs::read(fixture.path("a.txt")).unwrap(), written);
}

#[tokio::test]
async fn a_file_with_two_names_is_replaced_under_one() {
    let fixture = Fixture::new();
    let before = fixture.put("a.txt", "shared");
    fs::hard_link(fixture.path("a.txt"), fixture.path("b.txt")).unwrap();
    fixture.commit("a.txt", Some(before), "mine").await.unwrap();
    assert_eq!((fixture.read("a.txt"), fixture.read("b.txt")), ("mine".to_owned(), "shared".to_owned()));
}

#[tokio::test]
async fn a_link_is_written_through_and_stays_a_link() {
    let fixture = Fixture::new();
    let before = fixture.put("real.txt", "old");
    symlink("real.txt", fixture.path("link.txt")).unwrap();
    fixture.commit("link.txt", Some(before), "new").await.unwrap();
    assert!(fixture.path("link.txt").is_symlink());
    assert_eq!(fixture.read("real.txt"), "new");
}

#[tokio::test]
async fn what_is_no_text_is_not_replaced() {
    let fixture = Fixture::new();
    for bytes in [&b"caf\xe9\x01"[..], b"a\0b"] {
        let before = fixture.put("a", bytes);
        let error = fixture.commit("a", Some(before), "new").await.unwrap_err();
        assert!(matches!(error, WriteError::Unreadable(ReadError::NotText { .. })));
        assert_eq!(fs::read(fixture.path("a")).unwrap(), bytes);
    }
}

#[tokio::test]
async fn writing_what_is_there_touches_nothing() {
    let fixture = Fixture::new();
    let before = fixture.put("a.txt", "same");
    let inode = fixture.path("a.txt").metadata().unwrap().ino();
    assert_eq!(fixture.commit("a.txt", Some(before), "same").await.unwrap(), (Some(before), before));
    assert_eq!(fixture.path("a.txt").metadata().unwrap().ino(), inode);
}

/// Runs a commit up to some point, as if the process ended there, and has the next holder of the lock resolve it.
async fn die(fixture: &Fixture, at: impl FnOnce(&mut Staged<'_>, &mut WorkspaceLock)) {
    let before = fixture.put("a.txt", "old");
    let target = fixture.target("a.txt");
    let mut lock = fixture.lock().await;
    let mut staged =
        Staged::new(&WorkspaceFolders, &mut lock, &target, Some(before), (b"new", Digest::of("new")))
            .unwrap();
    at(&mut staged, &mut lock);
    std::mem::forget(staged);
    drop(lock);
    let mut lock = fixture.lock().await;
    settle(&fixture.roots, &mut lock).unwrap();
    assert_eq!(lock.pending().unwrap(), None);
    assert_eq!(fixture.names(), ["a.txt"]);
}

fn exchanged(staged: &mut Staged<'_>, lock: &mut WorkspaceLock) {
    staged.pending.exchanging = staged.before;
    lock.record(Some(&staged.pending)).unwrap();
    staged.directory.exchange(&staged.pending.temporary, staged.name).unwrap();
}

#[tokio::test]
async fn a_writer_that_died_leaves_no_trace_before_the_exchange() {
    let fixture = Fixture::new();
    // Cut in the middle of writing, too.
    die(&fixture, |staged, _| fs::write(fixture.path(&staged.pending.temporary), "n").unwrap()).await;
    assert_eq!(fixture.read("a.txt"), "old");
}

#[tokio::test]
async fn a_writer_that_died_after_the_exchange_has_written() {
    let fixture = Fixture::new();
    die(&fixture, exchanged).await;
    assert_eq!(fixture.read("a.txt"), "new");
}

#[tokio::test]
async fn a_foreign_edit_survives_a_writer_that_died_before_it_looked() {
    let fixture = Fixture::new();
    die(&fixture, |staged, lock| {
        fixture.put("a.txt", "typed");
        exchanged(staged, lock);
    })
    .await;
    assert_eq!(fixture.read("a.txt"), "typed");
}

/// FT-16 in small: a foreign writer saves numbered versions, a few at a time, while commits run. Its last
/// version is either still there or was what the last commit replaced knowingly.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_concurrent_writer_loses_nothing() {
    let fixture = Fixture::new();
    fixture.put("a.txt", "0");
    let path = fixture.path("a.txt");
    let (commit, commits) = std::sync::mpsc::sync_channel(0);
    let theirs = std::thread::spawn(move || {
        for version in 1..=200 {
            let temporary = path.with_extension("swp");
            fs::write(&temporary, format!("theirs {version}")).unwrap();
            fs::rename(&temporary, &path).unwrap();
            // One that never pauses would win every round, and leave its last but one version beside.
            if version % 4 == 0 && commits.recv().is_err() {
                break;
            }
        }
    });
    let mut replaced = Vec::new();
    let mut last = Digest::of("0");
    while !theirs.is_finished() {
        // Whether it waits for that or not.
        let _ = commit.try_send(());
        let read = Digest::of(fs::read(fixture.path("a.txt")).unwrap());
        if let Ok((before, after)) =
            fixture.commit("a.txt", Some(read), &format!("ours {}", replaced.len())).await
        {
            assert_eq!(before, Some(read));
            replaced.push(read);
            last = after;
        }
    }
    theirs.join().unwrap();
    let end = Digest::of(fs::read(fixture.path("a.txt")).unwrap());
    let final_version = Digest::of("theirs 200");
    assert!(end == final_version || (end == last && replaced.contains(&final_version)));
    assert_eq!(fixture.names(), ["a.txt"]);
}

/// PATH-08 in small: a directory is swapped for a link to elsewhere and back all the time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_written_through_a_directory_that_becomes_a_link() {
    let fixture = Fixture::new();
    let out = tempfile::tempdir().unwrap();
    fs::create_dir(fixture.path("d")).unwrap();
    symlink(out.path(), fixture.path("link")).unwrap();
    let directory =
        cap_std::fs::Dir::open_ambient_dir(fixture.path(""), cap_std::ambient_authority()).unwrap();
    let is_done = Arc::new(AtomicBool::new(false));
    let until = Arc::clone(&is_done);
    let swaps = std::thread::spawn(move || {
        // At least as often as it takes for some writes to meet a swap.
        (0..).take_while(|swap| *swap < 4000 || !until.load(Ordering::Relaxed)).for_each(|_| {
            directory.exchange("d", "link").unwrap();
        });
    });
    let mut inside = 0;
    while inside < 100 || !swaps.is_finished() {
        let Ok(target) = fixture.roots.resolve("d/f", Purpose::Write) else { continue };
        if target.location() == crate::Location::Outside {
            continue;
        }
        inside += 1;
        is_done.store(inside >= 100, Ordering::Relaxed);
        let read = fs::read(fixture.path("d/f")).ok().map(Digest::of);
        // Most fail, one way or another.
        let _ =
            commit(&mut fixture.lock().await, &UnsyncedNames::default(), &target, read, &inside.to_string());
    }
    swaps.join().unwrap();
    assert_eq!(fs::read_dir(out.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn after_a_loss_of_power_at_any_moment_the_file_has_its_old_text_or_the_new_one() {
    for old in [Some("old and long"), None] {
        let fixture = Fixture::new();
        let (disk, target) = (SimulatedDisk::new(), fixture.target("a"));
        let (path, before) = (target.absolute(), old.map(Digest::of));
        disk.create_directories_durably(path.parent().unwrap()).unwrap();
        if let Some(old) = old {
            roo_durable::replace(&disk, path, old.as_bytes(), roo_durable::disk::Access::Private).unwrap();
        }
        let on_disk = Arc::new(disk.clone());
        let mut lock =
            WorkspaceLock::acquire_on(on_disk, Arc::default(), "/state/w.lock".into()).await.unwrap();
        let begun = disk.operations();
        let folders = SimulatedFolders(disk.clone());
        let staged = Staged::new(&folders, &mut lock, &target, before, (b"new", Digest::of("new"))).unwrap();
        let unsynced = UnsyncedNames::default();
        unsynced.add(staged.commit(&mut lock).unwrap());
        lock.record(None).unwrap();
        let syncs = disk.syncs();
        unsynced.sync();
        assert_eq!(disk.syncs(), syncs + 1);
        let mut both = [0, 0];
        for (operations, left) in disk.every_power_loss(begun) {
            let found = left.bytes(path).map(|bytes| String::from_utf8(bytes).unwrap());
            let is_new = found.as_deref() == Some("new");
            assert!(is_new || found.as_deref() == old, "after {operations} operations: {found:?}");
            assert!(
                is_new || operations < disk.operations(),
                "the old text is left after the names were synced"
            );
            both[usize::from(is_new)] += 1;
        }
        assert!(both.iter().all(|count| *count > 10), "{both:?}");
    }
}
