use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::*;
use crate::folder::simulated::SimulatedFolders;
use crate::resolver::Purpose;
use roo_durable::simulated_disk::{Fault, Random, SimulatedDisk};

/// Content of a workspace, by name.
type Files = BTreeMap<String, String>;

const BEFORE: [(&str, &str); 4] = [("a", "a\n"), ("c", "c\n"), ("d", "d\n"), ("other", "other\n")];
const AFTER: [(&str, &str); 4] = [("a", "A\n"), ("deep/b", "b\n"), ("e", "D\n"), ("other", "other\n")];

fn files(list: &[(&str, &str)]) -> Files {
    list.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

fn step(roots: &Roots, name: &str, before: Option<&str>, after: Option<&str>) -> FileStep {
    FileStep {
        target: roots.resolve(name, Purpose::Write).unwrap(),
        before: before.map(Digest::of),
        after: after.map(|text| text.as_bytes().to_vec()),
        like: None,
    }
}

/// Changes, creates, deletes and moves.
fn steps(roots: &Roots) -> Vec<FileStep> {
    let like = Some(roots.resolve("d", Purpose::Write).unwrap());
    vec![
        step(roots, "a", Some("a\n"), Some("A\n")),
        step(roots, "deep/b", None, Some("b\n")),
        step(roots, "c", Some("c\n"), None),
        FileStep { like, ..step(roots, "e", None, Some("D\n")) },
        step(roots, "d", Some("d\n"), None),
    ]
}

/// A workspace and the journal of its root.
struct Fixture {
    directory: tempfile::TempDir,
    roots: Roots,
    journal: Journal,
}

impl Fixture {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("w")).unwrap();
        let roots = Roots::open(&[directory.path().join("w")]).unwrap();
        let journal = Journal::beside(&directory.path().join("state/root.lock"));
        let fixture = Self { directory, roots, journal };
        for (name, text) in BEFORE {
            fixture.put(name, text);
        }
        fixture
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join("w").join(name)
    }

    fn put(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn step(&self, name: &str, before: Option<&str>, after: Option<&str>) -> FileStep {
        step(&self.roots, name, before, after)
    }

    fn steps(&self) -> Vec<FileStep> {
        steps(&self.roots)
    }

    fn prepare(&self, crash: CrashPoint) -> Result<Prepared, WriteError> {
        Prepared::new_with(self.journal.clone(), self.steps(), vec![], crash)
    }

    /// Prepares and commits the change.
    fn change(&self, crash: CrashPoint) -> Result<(), WriteError> {
        self.prepare(crash)?.commit()
    }

    fn recover(&self) -> Option<UnresolvedChange> {
        self.journal.recover_with(&self.roots, None, &mut CrashPoint::default()).unwrap()
    }

    /// All files, so that none left behind is missed.
    fn holds(&self) -> Files {
        let mut found = Files::new();
        let mut open = vec![self.path("")];
        while let Some(directory) = open.pop() {
            for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
                if entry.path().is_dir() {
                    open.push(entry.path());
                    continue;
                }
                let name = entry.path().strip_prefix(self.path("")).unwrap().to_str().unwrap().to_owned();
                found.insert(name, fs::read_to_string(entry.path()).unwrap());
            }
        }
        found
    }

    fn phase(&self) -> Option<Phase> {
        self.journal.read().unwrap().map(|record| record.phase)
    }
}

fn crash_after(steps: u64) -> CrashPoint {
    CrashPoint { left: Some(steps), returns_error: true }
}

/// Number of steps a whole change takes.
fn steps_of_a_change() -> u64 {
    (1..).find(|&steps| Fixture::new().change(crash_after(steps)).is_ok()).unwrap()
}

#[test]
fn all_files_change_and_nothing_is_left_beside_them() {
    let fixture = Fixture::new();
    fs::set_permissions(fixture.path("d"), fs::Permissions::from_mode(0o750)).unwrap();
    fixture.change(CrashPoint::default()).unwrap();
    assert_eq!(fixture.holds(), files(&AFTER));
    assert_eq!(fixture.phase(), None);
    let mode = fs::metadata(fixture.path("e")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o750, "a moved file keeps its mode");
}

#[test]
fn after_a_kill_at_any_step_all_files_are_as_before_or_as_after() {
    let mut both = [0, 0];
    for steps in 1..steps_of_a_change() {
        let fixture = Fixture::new();
        fixture.change(crash_after(steps)).unwrap_err();
        assert_eq!(fixture.recover(), None, "killed after step {steps}");
        let found = fixture.holds();
        let side = usize::from(found == files(&AFTER));
        both[side] += 1;
        assert!(side == 1 || found == files(&BEFORE), "killed after step {steps}: {found:?}");
        assert_eq!(fixture.phase(), None);
        // The next change is not affected.
        if side == 0 {
            fixture.change(CrashPoint::default()).unwrap();
            assert_eq!(fixture.holds(), files(&AFTER));
        }
    }
    assert!(both.iter().all(|&count| count >= 7), "killed too late or too early: {both:?}");
}

#[test]
fn a_second_kill_at_any_step_of_the_recovery_is_survived_too() {
    let mut kills = 0;
    for steps in (1..steps_of_a_change()).step_by(3) {
        for again in 1.. {
            let fixture = Fixture::new();
            fixture.change(crash_after(steps)).unwrap_err();
            let recovered = fixture.journal.recover_with(&fixture.roots, None, &mut crash_after(again));
            let place = format!("killed after step {steps} and step {again} of the recovery");
            if let Ok(stopped) = recovered {
                assert_eq!(stopped, None, "{place}");
                break;
            }
            kills += 1;
            assert_eq!(fixture.recover(), None, "{place}");
            let found = fixture.holds();
            assert!(found == files(&AFTER) || found == files(&BEFORE), "{place}: {found:?}");
        }
    }
    assert!(kills > 40, "{kills}");
}

#[test]
fn a_file_with_other_content_stops_the_recovery_and_no_content_is_lost() {
    let (mut stopped_at, mut abandoned) = (0, 0);
    for steps in 1..steps_of_a_change() {
        for name in ["a", "deep/b", "c", "e"] {
            let fixture = Fixture::new();
            fixture.change(crash_after(steps)).unwrap_err();
            fs::create_dir_all(fixture.path("deep")).unwrap();
            fixture.put(name, "somebody's\n");
            let phase = fixture.phase().unwrap();
            let place = format!("{name} written after a kill after step {steps}, {phase:?}");
            match fixture.recover() {
                None => {
                    // Nothing had begun, or all had ended: what was written stays, on either side.
                    assert_ne!(phase, Phase::Commit, "{place}");
                    let mut found = fixture.holds();
                    assert_eq!(found.remove(name).as_deref(), Some("somebody's\n"), "{place}");
                    let side = if phase == Phase::Done { &AFTER } else { &BEFORE };
                    let mut expected = files(side);
                    expected.remove(name);
                    assert_eq!(found, expected, "{place}");
                    abandoned += 1;
                }
                Some(stopped) => {
                    assert_eq!(phase, Phase::Commit, "{place}");
                    assert_eq!(stopped.files, [fixture.path(name).canonicalize().unwrap()], "{place}");
                    assert!(stopped.journal.exists());
                    let found = fixture.holds();
                    assert_eq!(found[name], "somebody's\n", "{place}");
                    // Every text is still somewhere.
                    for text in ["A\n", "b\n", "D\n"] {
                        let is_overwritten = AFTER.contains(&(name, text));
                        assert!(is_overwritten || found.values().any(|found| found == text), "{place}");
                    }
                    // It blocks no later change.
                    assert_eq!(fixture.recover(), None);
                    stopped_at += 1;
                }
            }
        }
    }
    assert!(stopped_at > 20 && abandoned > 20, "{stopped_at} {abandoned}");
}

#[test]
fn a_change_that_cannot_be_completed_is_undone() {
    for steps in 1..steps_of_a_change() {
        let fixture = Fixture::new();
        fixture.change(crash_after(steps)).unwrap_err();
        let record = fixture.journal.read().unwrap().unwrap();
        // The last new content is lost before its file has changed.
        let last = record.files.iter().find(|file| file.target.ends_with("e")).unwrap();
        let beside = fixture.path(&last.temporary);
        if record.phase != Phase::Commit || !beside.exists() {
            continue;
        }
        fs::remove_file(beside).unwrap();
        assert_eq!(fixture.recover(), None);
        assert_eq!(fixture.holds(), files(&BEFORE), "killed after step {steps}");
        return;
    }
    panic!("no kill came at the right time");
}

#[test]
fn a_write_between_preparing_and_committing_leaves_all_files_unchanged() {
    for (name, text) in [("a", "typed\n"), ("deep/b", "typed\n"), ("c", "typed\n"), ("d", "typed\n")] {
        let fixture = Fixture::new();
        let prepared = fixture.prepare(CrashPoint::default()).unwrap();
        fixture.put(name, text);
        let error = prepared.commit().unwrap_err();
        assert!(matches!(error, WriteError::Stale { .. } | WriteError::Exists { .. }), "{name}: {error}");
        let mut expected = files(&BEFORE);
        expected.insert(name.to_owned(), text.to_owned());
        assert_eq!(fixture.holds(), expected, "{name}");
        assert_eq!(fixture.phase(), None);
    }
}

#[test]
fn a_file_that_cannot_be_staged_leaves_nothing_behind() {
    let fixture = Fixture::new();
    let mut steps = fixture.steps();
    // A directory can't be made where a file is.
    steps.push(FileStep { target: steps[0].target.below("x"), ..fixture.step("y", None, Some("x")) });
    let error =
        Prepared::new_with(fixture.journal.clone(), steps, vec![], CrashPoint::default()).unwrap_err();
    assert!(matches!(error, WriteError::Io { .. }), "{error}");
    assert_eq!(fixture.holds(), files(&BEFORE));
    assert_eq!(fixture.phase(), None);
}

#[test]
fn a_change_that_waits_for_an_editor_follows_what_the_editor_has() {
    let waiting = || {
        let fixture = Fixture::new();
        let buffers = vec![("/w/open".into(), Some(Digest::of("new"))), ("/w/gone".into(), None)];
        let mut prepared =
            Prepared::new_with(fixture.journal.clone(), fixture.steps(), buffers, CrashPoint::default())
                .unwrap();
        prepared.edits().unwrap();
        // The process ends.
        drop(prepared);
        fixture
    };
    let has = |text: &str| {
        let digest = Digest::of(text);
        move |path: &Path| (path == Path::new("/w/open")).then_some(digest)
    };
    let fixture = waiting();
    assert_eq!(fixture.recover(), None);
    assert_eq!(
        fixture.phase(),
        Some(Phase::Edit),
        "before the editor has shown what it has, nothing is done"
    );
    assert_eq!(fixture.journal.recover(&fixture.roots, Some(&has("new"))).unwrap(), None);
    assert_eq!(fixture.holds(), files(&AFTER));

    let fixture = waiting();
    assert_eq!(fixture.journal.recover(&fixture.roots, Some(&has("old"))).unwrap(), None);
    assert_eq!(fixture.holds(), files(&BEFORE));
}

#[test]
fn a_journal_of_another_version_is_put_aside() {
    let fixture = Fixture::new();
    fs::create_dir_all(fixture.journal.file.path().parent().unwrap()).unwrap();
    for content in ["", "[", r#"{ "phase": "dance" }"#, "\0\0\0"] {
        fs::write(fixture.journal.file.path(), content).unwrap();
        let stopped = fixture.recover().unwrap();
        assert!(stopped.files.is_empty() && stopped.journal.exists(), "{content:?}");
    }
    fixture.change(CrashPoint::default()).unwrap();
}

#[test]
fn a_journal_that_cannot_be_read_at_the_moment_stays_for_the_next_attempt() {
    let workspace = OnDisk::new();
    let disk = workspace.disk();
    let mut prepared = workspace.prepare(&disk).unwrap();
    prepared.reach(Phase::Commit).unwrap();
    // The process of the change ends here.
    drop(prepared);
    disk.plan(|_, call| (call == "read").then_some(Fault::Errno(5)));
    let recovered = OnDisk::journal(&disk).recover_with(&workspace.roots, None, &mut CrashPoint::default());
    assert_eq!(recovered.unwrap_err().raw_os_error(), Some(5));
    disk.heal();
    assert_eq!(workspace.side(&disk, "after the error"), 1);
}

#[test]
fn whatever_call_to_the_disk_fails_in_a_recovery_its_journal_stays_for_the_next_attempt() {
    let workspace = OnDisk::new();
    let calls = {
        let disk = workspace.disk();
        workspace.change(&disk).unwrap();
        disk.operations()
    };
    let mut reported = 0;
    for operations in workspace.disk().operations()..=calls {
        for first in 0.. {
            let disk = workspace.disk();
            workspace.change(&disk).unwrap();
            let disk = disk.after_power_loss(operations, &mut Random::new(operations as u64));
            disk.plan(move |ordinal, _| (ordinal == first).then_some(Fault::Errno(5)));
            let journal = OnDisk::journal(&disk);
            let recovered = journal.recover_with(&workspace.roots, None, &mut CrashPoint::default());
            let made = disk.heal();
            let place =
                format!("power lost after {operations} operations, call {first} of the recovery failed");
            match recovered {
                Ok(stopped) => assert_eq!(stopped, None, "{place}"),
                Err(error) => {
                    assert_eq!(error.raw_os_error(), Some(5), "{place}: {error}");
                    reported += 1;
                }
            }
            workspace.side(&disk, &place);
            if made <= first {
                break;
            }
        }
    }
    assert!(reported > 100, "{reported}");
}

#[test]
fn a_file_that_cannot_be_looked_up_is_reported_with_its_path_and_the_journal_stays() {
    let fixture = Fixture::new();
    fixture.change(crash_after(steps_of_a_change() / 2)).unwrap_err();
    let mut record = fixture.journal.read().unwrap().unwrap();
    // The system refuses to look up such a name, whoever asks.
    let name = "n".repeat(300);
    record.files[0].target = fixture.path(&name);
    fixture.journal.write(&record).unwrap();
    let error = fixture.journal.recover(&fixture.roots, None).unwrap_err();
    assert!(error.to_string().contains(&name), "{error}");
    assert_eq!(fixture.journal.read().unwrap(), Some(record));
}

/// A workspace on a simulated disk. Paths are resolved in an empty real directory.
struct OnDisk {
    directory: tempfile::TempDir,
    roots: Roots,
}

impl OnDisk {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let roots = Roots::open(&[directory.path().to_path_buf()]).unwrap();
        Self { directory, roots }
    }

    fn root(&self) -> PathBuf {
        self.directory.path().canonicalize().unwrap()
    }

    /// A disk with the files from before, which are durable.
    fn disk(&self) -> SimulatedDisk {
        let (disk, root) = (SimulatedDisk::new(), self.root());
        disk.create_directories_durably(&root).unwrap();
        for (name, text) in BEFORE {
            let file = disk.open(&root.join(name), true).unwrap();
            file.append_all(text.as_bytes()).unwrap();
            file.sync().unwrap();
        }
        disk.sync(&root).unwrap();
        disk
    }

    fn journal(disk: &SimulatedDisk) -> Journal {
        let folders = Arc::new(SimulatedFolders(disk.clone()));
        Journal::on(Arc::new(disk.clone()), folders, Path::new("/state/root.lock"))
    }

    fn prepare(&self, disk: &SimulatedDisk) -> Result<Prepared, WriteError> {
        let (journal, steps) = (Self::journal(disk), steps(&self.roots));
        Prepared::new_with(journal, steps, vec![], CrashPoint::default())
    }

    fn change(&self, disk: &SimulatedDisk) -> Result<(), WriteError> {
        self.prepare(disk)?.commit()
    }

    fn recover(&self, disk: &SimulatedDisk) -> Option<UnresolvedChange> {
        Self::journal(disk).recover_with(&self.roots, None, &mut CrashPoint::default()).unwrap()
    }

    /// The files of the workspace, without what was left beside them.
    fn holds(&self, disk: &SimulatedDisk) -> Files {
        let mut found = Files::new();
        for path in disk.files() {
            let Ok(name) = path.strip_prefix(self.root()) else { continue };
            if !name.to_string_lossy().contains(".roo-lsp-") {
                let text = String::from_utf8(disk.bytes(&path).unwrap()).unwrap();
                found.insert(name.to_str().unwrap().to_owned(), text);
            }
        }
        found
    }

    /// Which side the files are on after a recovery: 0 before the change, 1 after it.
    #[track_caller]
    fn side(&self, disk: &SimulatedDisk, place: &str) -> usize {
        assert_eq!(self.recover(disk), None, "{place}");
        let found = self.holds(disk);
        let side = usize::from(found == files(&AFTER));
        assert!(side == 1 || found == files(&BEFORE), "{place}: {found:?}");
        side
    }
}

#[test]
fn after_a_loss_of_power_at_any_moment_all_files_are_as_before_or_as_after() {
    let workspace = OnDisk::new();
    let disk = workspace.disk();
    let begun = disk.operations();
    workspace.change(&disk).unwrap();
    let mut random = Random::new(3);
    let mut both = [0, 0];
    for operations in begun..=disk.operations() {
        for _ in 0..40 {
            let left = disk.after_power_loss(operations, &mut random);
            let place = format!("after {operations} operations");
            let found = left.operations();
            let side = workspace.side(&left, &place);
            assert!(
                side == 1 || operations < disk.operations(),
                "the old contents are left after the call returned"
            );
            both[side] += 1;
            // Power is lost in the recovery, and after it.
            let during = found + random.below(left.operations() - found + 1);
            workspace.side(&left.after_power_loss(during, &mut random), &format!("{place}, during recovery"));
            let again = left.after_power_loss(left.operations(), &mut random);
            assert_eq!(workspace.side(&again, &format!("{place}, after recovery")), side, "{place}");
        }
    }
    assert!(both.iter().all(|count| *count > 100), "{both:?}");
}

#[test]
fn whatever_call_to_the_disk_fails_all_files_are_as_before_or_as_after() {
    const DEATH: usize = 1;
    let workspace = OnDisk::new();
    let calls = {
        let disk = workspace.disk();
        disk.plan(|_, _| None);
        workspace.change(&disk).unwrap();
        disk.heal()
    };
    assert!(calls > 50, "{calls}");
    let mut both = [0, 0];
    for first in 0..calls {
        let fails: [fn(&SimulatedDisk, usize); 4] = [
            SimulatedDisk::fill_from,
            SimulatedDisk::stop_at,
            |disk, first| disk.plan(move |ordinal, _| (ordinal == first).then_some(Fault::Errno(5))),
            |disk, first| disk.plan(move |ordinal, _| (ordinal == first).then_some(Fault::SyncLost)),
        ];
        for (kind, fail) in fails.into_iter().enumerate() {
            let disk = workspace.disk();
            fail(&disk, first);
            let changed = workspace.change(&disk);
            disk.heal();
            let place = format!("fault {kind} at call {first}: {changed:?}");
            let left = disk.after_power_loss(disk.operations(), &mut Random::new(first as u64));
            let side = workspace.side(&disk, &place);
            both[side] += 1;
            match changed {
                Ok(()) => assert_eq!(side, 1, "{place}"),
                Err(WriteError::Unsettled { .. }) => {}
                // The result of a process that ended is never seen.
                Err(_) if kind == DEATH => {}
                Err(_) => assert_eq!(side, 0, "{place}"),
            }
            workspace.side(&left, &format!("{place}, and power was lost"));
        }
    }
    assert!(both.iter().all(|count| *count > 20), "{both:?}");
}

#[test]
fn a_change_syncs_each_file_once_and_each_directory_twice() {
    let workspace = OnDisk::new();
    let disk = workspace.disk();
    disk.create_directories_durably(Path::new("/state")).unwrap();
    let before = disk.syncs();
    let steps = [("a", "a\n"), ("c", "c\n")]
        .map(|(name, old)| step(&workspace.roots, name, Some(old), Some("new\n")));
    Prepared::new(OnDisk::journal(&disk), steps.into(), vec![]).unwrap().commit().unwrap();
    // Two for each phase: prepared, to be committed, done.
    assert_eq!(disk.syncs() - before, 3 * 2 + 2 + 2);
}
