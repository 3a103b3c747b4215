//! What the bounds let through is found and undone afterwards: protected names that did not exist, and
//! all of them where Landlock alone can't keep them.

use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;

use roo_sandbox::changes::{
    Allowed, Changes, Keep, Kind, Limits, Scope, Store, UndoOutcome, UndoResult, What,
};
use roo_sandbox::exec::sandbox::Journal;

use super::*;

/// All can be brought back.
struct Rules;

impl Scope for Rules {
    fn allowed(&self, _root: usize, path: &Path) -> Allowed {
        allowed(path)
    }

    fn keep(&self, _root: usize, _path: &Path) -> Keep {
        Keep::Content
    }
}

impl Fixture {
    /// Runs a line between a record and a comparison, and undoes what was not allowed.
    async fn undo(&self, line: &str, confinement: &Confinement) -> (Changes, Vec<UndoResult>) {
        let store = Store::open(self.at("kept"), Limits::default()).unwrap();
        let before = self.record(&[self.at("ws")], &Rules, &store);
        let confinement = Confinement { capture: Some(self.capture()), ..confinement.clone() };
        self.run(&self.command(line), &confinement).await.unwrap();
        let journal = Journal::read(&self.at("captures")).unwrap();
        let changes = before.changes(&Rules, &journal);
        let settled = before.restore(&changes, &store, &journal);
        assert!(before.changes(&Rules, &journal).is_clean());
        (changes, settled)
    }
}

/// CFG-08.
#[tokio::test]
async fn a_protected_name_that_did_not_exist_is_gone_after_the_command() {
    let fixture = Fixture::new().await;
    fs::remove_dir_all(fixture.at("ws/.roo")).unwrap();
    let confinement = Confinement {
        read_only: vec![fixture.at("ws/.vscode"), fixture.at("ws/AGENTS.md")],
        ..fixture.confinement()
    };
    let line = "mkdir .roo && echo '{}' >.roo/mcp.json; echo x >src/CLAUDE.md; mkdir -p .git/hooks; \
                echo '#!/bin/sh' >.git/hooks/pre-commit; ln -s /etc/passwd .cursorrules; echo ok >src/fine.txt; \
                mv src/a.txt away.txt";
    let (changes, settled) = fixture.undo(line, &confinement).await;
    assert!(changes.violations().count() >= 8, "{changes:?}");
    assert!(settled.iter().all(|one| matches!(one.outcome, UndoOutcome::Restored { .. })), "{settled:#?}");
    assert_eq!(fixture.names("ws"), [".env", ".vscode", "AGENTS.md", "src"]);
    // What was moved out of the scope is back, and would be nowhere otherwise.
    assert_eq!(fixture.names("ws/src"), ["a.txt", "fine.txt"]);
}

/// In scope no file may come up or go.
struct NoNewFilesNoDelete;

impl Scope for NoNewFilesNoDelete {
    fn allowed(&self, _root: usize, path: &Path) -> Allowed {
        allowed(path)
    }

    fn allowed_change(&self, what: What, kind: Kind) -> Allowed {
        if kind == Kind::Directory || what == What::Modified { Allowed::InScope } else { Allowed::OutOfScope }
    }

    fn keep(&self, _root: usize, _path: &Path) -> Keep {
        Keep::Nothing
    }
}

#[tokio::test]
async fn constraints_of_an_intent_hold_for_commands() {
    let fixture = Fixture::new().await;
    fs::write(fixture.at("ws/src/b.txt"), "b").unwrap();
    let store = Store::open(fixture.at("kept"), Limits::default()).unwrap();
    let before = fixture.record(&[fixture.at("ws")], &NoNewFilesNoDelete, &store);
    let confinement = Confinement { capture: Some(fixture.capture()), ..fixture.confinement() };
    let line = "cd src; rm b.txt; echo new >c.txt; mkdir d; mv a.txt d/a.txt; echo changed >d/a.txt";
    fixture.run(&fixture.command(line), &confinement).await.unwrap();
    let journal = Journal::read(&fixture.at("captures")).unwrap();
    let changes = before.changes(&NoNewFilesNoDelete, &journal);
    before.restore(&changes, &store, &journal);
    assert_eq!(fixture.names("ws/src"), ["a.txt", "b.txt", "d"]);
    assert_eq!(fixture.names("ws/src/d"), [""; 0]);
    assert_eq!(fs::read_to_string(fixture.at("ws/src/b.txt")).unwrap(), "b");
}

/// Directories may go, the files in them may not.
#[tokio::test]
async fn a_directory_is_made_again_for_what_may_not_be_deleted_from_it() {
    let fixture = Fixture::new().await;
    let strange = std::ffi::OsStr::from_bytes(b"b\xe4d.txt");
    fs::create_dir_all(fixture.at("ws/src/old/below")).unwrap();
    fs::write(fixture.at("ws/src/old/below/a"), "a").unwrap();
    fs::write(fixture.at("ws/src/old").join(strange), "b").unwrap();
    fs::set_permissions(fixture.at("ws/src/old"), fs::Permissions::from_mode(0o750)).unwrap();
    let store = Store::open(fixture.at("kept"), Limits::default()).unwrap();
    let before = fixture.record(&[fixture.at("ws")], &NoNewFilesNoDelete, &store);
    let confinement = Confinement { capture: Some(fixture.capture()), ..fixture.confinement() };
    fixture.run(&fixture.command("rm -r src/old"), &confinement).await.unwrap();
    let journal = Journal::read(&fixture.at("captures")).unwrap();
    let settled = before.restore(&before.changes(&NoNewFilesNoDelete, &journal), &store, &journal);
    assert!(settled.iter().all(|one| matches!(one.outcome, UndoOutcome::Restored { .. })), "{settled:#?}");
    assert_eq!(settled.len(), 2, "directories are no violations: {settled:#?}");
    assert_eq!(fs::read_to_string(fixture.at("ws/src/old/below/a")).unwrap(), "a");
    assert_eq!(fs::read_to_string(fixture.at("ws/src/old").join(strange)).unwrap(), "b");
    assert_eq!(fs::metadata(fixture.at("ws/src/old")).unwrap().permissions().mode() & 0o777, 0o750);
}

#[tokio::test]
async fn what_can_not_be_brought_back_is_kept() {
    let fixture = Fixture::new().await;
    fs::create_dir(fixture.at("ws/src/old")).unwrap();
    fs::write(fixture.at("ws/src/old/a"), "the only one").unwrap();
    let store = Store::open(fixture.at("kept"), Limits::default()).unwrap();
    let before = fixture.record(&[fixture.at("ws")], &NoNewFilesNoDelete, &store);
    let confinement = Confinement { capture: Some(fixture.capture()), ..fixture.confinement() };
    fixture.run(&fixture.command("rm -r src/old"), &confinement).await.unwrap();
    let journal = Journal::read(&fixture.at("captures")).unwrap();
    let changes = before.changes(&NoNewFilesNoDelete, &journal);
    // Somebody makes a file where the directory was.
    fs::write(fixture.at("ws/src/old"), "mine").unwrap();
    let settled = before.restore(&changes, &store, &journal);
    let [UndoResult { outcome: UndoOutcome::NotUndone { kept: Some(kept), .. }, .. }] = &settled[..] else {
        panic!("{settled:#?}");
    };
    assert_eq!(fs::read_to_string(kept).unwrap(), "the only one");
    assert_eq!(fs::read_to_string(fixture.at("ws/src/old")).unwrap(), "mine");
}

#[tokio::test]
async fn what_landlock_alone_can_not_keep_is_restored() {
    let fixture = Fixture::with_landlock().await;
    let line = "echo evil >AGENTS.md; rm -r .vscode; echo '{}' >.roo/mcp.json; mv .env gone; chmod 777 src";
    let (changes, settled) = fixture.undo(line, &fixture.confinement()).await;
    assert!(changes.violations().count() >= 5, "{changes:?}");
    assert!(settled.iter().all(|one| matches!(one.outcome, UndoOutcome::Restored { .. })), "{settled:#?}");
    assert_eq!(fixture.names("ws"), [".env", ".roo", ".vscode", "AGENTS.md", "src"]);
    assert_eq!(fixture.names("ws/.roo"), [""; 0]);
    assert_eq!(fs::read_to_string(fixture.at("ws/AGENTS.md")).unwrap(), "be good");
    assert_eq!(fs::read_to_string(fixture.at("ws/.vscode/settings.json")).unwrap(), "{}");
    assert_eq!(fs::read_to_string(fixture.at("ws/.env")).unwrap(), "SECRET=canary-secret");
}

/// What the sandbox keeps is not told as a change.
#[tokio::test]
async fn what_was_kept_from_being_written_is_no_change() {
    let fixture = Fixture::new().await;
    let line =
        "echo evil >AGENTS.md; rm -r .vscode; echo '{}' >.roo/mcp.json; echo x >.env; echo b >src/b.txt";
    let (changes, settled) = fixture.undo(line, &fixture.confinement()).await;
    assert!(changes.is_clean() && settled.is_empty(), "{changes:?}");
    assert_eq!(changes.changes.len(), 1, "{changes:?}");
}
