use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::Ordering;

use tempfile::TempDir;

use super::*;
use crate::customization::fixture::{leaping, standing};
use crate::customization::script::SCRIPT_LIMIT;
use crate::customization::{Customization, GLOBAL_HOOKS, Grant, Setup, TrustError};
use roo_formats::config::Directories;

/// A workspace and a home of their own.
struct HookFilesFixture {
    directory: TempDir,
    customization: Customization,
}

impl HookFilesFixture {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        for name in ["work/.roo/hooks", "home", "config"] {
            fs::create_dir_all(directory.path().join(name)).unwrap();
        }
        let customization = leaping(open(directory.path()));
        Self { directory, customization }
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.directory.path().join(name);
        // As editors do it: another file takes the name.
        let _ = fs::remove_file(&path);
        fs::write(path, text).unwrap();
    }

    /// Removes the user's file, for good.
    fn remove_users(&self) {
        fs::remove_file(self.directory.path().join(USER)).unwrap();
        // The first look can't know that it is not being saved.
        self.customization.user_hooks();
    }

    /// The commands of the hooks that count.
    fn commands(&self) -> Vec<String> {
        self.customization.user_hooks().hooks().iter().map(|hook| hook.program.shown()).collect()
    }

    fn problems(&self) -> Vec<String> {
        self.customization.problems().into_iter().map(|problem| problem.problem.message).collect()
    }

    fn pending(&self) -> Vec<PendingTrust> {
        self.customization.trust().pending_approvals
    }

    fn approve(&self, digest: Option<Digest>) -> Result<(), TrustError> {
        let grant = Grant::File { path: PROJECT_HOOKS.to_owned(), digest };
        self.customization.grant(&grant).map(drop)
    }
}

fn open(directory: &Path) -> Customization {
    let path = |name: &str| directory.join(name);
    let directories = Directories {
        config: path("config"),
        state: path("state"),
        home: Some(path("home")),
        settings_file: None,
    };
    let state_directory = path("state/workspaces/one");
    Customization::open(Setup { folders: vec![path("work")], directories, state_directory }).unwrap()
}

/// A hooks file with these commands.
fn file(commands: &[&str]) -> String {
    let hooks: Vec<_> =
        commands.iter().map(|line| serde_json::json!({ "type": "command", "command": line })).collect();
    serde_json::json!({ "hooks": { "Stop": [{ "hooks": hooks }] } }).to_string()
}

const PROJECT: &str = "work/.roo/hooks.json";
const USER: &str = "config/hooks.json";

#[test]
fn nothing_of_an_untrusted_workspace_runs_or_is_read() {
    let setting = HookFilesFixture::new();
    setting.write(USER, &file(&["own"]));
    // Broken, and yet nothing is said: it isn't looked at.
    setting.write(PROJECT, "{");
    assert_eq!(setting.commands(), ["own"]);
    assert_eq!(setting.problems(), Vec::<String>::new());
    assert_eq!(setting.customization.trust().brings, [PROJECT_HOOKS]);
    assert!(setting.customization.project_hooks().is_empty() && setting.pending().is_empty());
    assert!(setting.approve(None).is_err());
}

#[test]
fn a_trusted_workspaces_hooks_run_when_they_are_approved_as_they_are() {
    let setting = HookFilesFixture::new();
    setting.write(PROJECT, &file(&["guard.sh"]));
    setting.customization.grant(&Grant::Workspace).unwrap();
    assert_eq!(setting.commands(), Vec::<String>::new());
    let pending = setting.pending();
    assert_eq!((pending.len(), &pending[0].path[..]), (1, PROJECT_HOOKS));
    assert_eq!(pending[0].widens, ["would run on Stop: guard.sh"]);
    assert!(
        setting.problems()[0].contains("no hook of this file runs until you approve its current version")
    );

    // What was shown must be what is approved.
    setting.write(PROJECT, &file(&["other.sh"]));
    assert!(matches!(setting.approve(Some(pending[0].digest)), Err(TrustError::Changed { .. })));
    setting.approve(Some(setting.pending()[0].digest)).unwrap();
    assert_eq!(setting.commands(), ["other.sh"]);
    assert!(setting.pending().is_empty() && setting.problems().is_empty());

    // It outlives the program, and a change ends it.
    let again = open(setting.directory.path());
    assert_eq!(again.user_hooks().hooks().len(), 1);
    setting.write(PROJECT, &file(&["other.sh", "more"]));
    assert_eq!(setting.commands(), Vec::<String>::new());
    setting.write(PROJECT, &file(&["other.sh"]));
    assert_eq!(setting.commands(), ["other.sh"], "as it was approved");

    setting.customization.revoke().unwrap();
    assert_eq!(setting.commands(), Vec::<String>::new());
}

#[test]
fn a_trust_that_is_taken_back_is_not_brought_back_by_an_approval_of_another_process() {
    let setting = HookFilesFixture::new();
    setting.write(PROJECT, &file(&["guard.sh"]));
    for round in 0..24 {
        setting.customization.grant(&Grant::Workspace).unwrap();
        // As other processes have it: with nothing in common but the files.
        let (one, other) = (open(setting.directory.path()), open(setting.directory.path()));
        let start = std::sync::Barrier::new(2);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                start.wait();
                // Where it comes too late, nothing waits any more.
                let _ = one.grant(&Grant::File { path: PROJECT_HOOKS.to_owned(), digest: None });
            });
            start.wait();
            other.revoke().unwrap();
        });
        assert!(!setting.customization.trust().trusted, "round {round}");
    }
}

#[test]
fn a_script_that_changes_ends_the_approval() {
    let setting = HookFilesFixture::new();
    setting.write("work/.roo/hooks/x.sh", "true\n");
    setting.write(PROJECT, &file(&["bash \"$CLAUDE_PROJECT_DIR\"/.roo/hooks/x.sh", "lint late.py"]));
    setting.customization.grant(&Grant::Workspace).unwrap();
    let shown = setting.pending().remove(0);
    let digest = Digest::of("true\n");
    assert_eq!(shown.widens[2], format!("with .roo/hooks/x.sh as it is now, {digest}"));
    setting.approve(None).unwrap();
    assert_eq!(setting.commands().len(), 2);
    for (name, before, after) in
        [("work/.roo/hooks/x.sh", Some("true\n"), "rm -r /\n"), ("work/late.py", None, "evil\n")]
    {
        setting.write(name, after);
        assert_eq!(setting.commands(), Vec::<String>::new(), "{name}");
        match before {
            Some(text) => setting.write(name, text),
            None => fs::remove_file(setting.directory.path().join(name)).unwrap(),
        }
        assert_eq!(setting.commands().len(), 2, "{name}");
    }
    // A link to something else is another content, and what can't be read can't be approved.
    let script = setting.directory.path().join("work/.roo/hooks/x.sh");
    setting.write("home/y.sh", "else\n");
    fs::remove_file(&script).unwrap();
    symlink(setting.directory.path().join("home/y.sh"), &script).unwrap();
    assert_eq!(setting.commands(), Vec::<String>::new());
    fs::remove_file(&script).unwrap();
    fs::File::create(&script).unwrap().set_len(SCRIPT_LIMIT + 1).unwrap();
    assert_eq!(setting.commands(), Vec::<String>::new());
    assert!(setting.problems().iter().any(|problem| problem.contains("'.roo/hooks/x.sh' can't be read")));
    assert!(setting.pending().is_empty());
    // A pipe is no script, and nobody waits for it.
    fs::remove_file(&script).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&script).status().unwrap().success());
    assert_eq!(setting.commands(), Vec::<String>::new());
}

#[test]
fn the_users_hooks_stay_while_a_newer_text_is_broken() {
    let setting = HookFilesFixture::new();
    setting.write(USER, &file(&["own"]));
    assert_eq!(setting.commands(), ["own"]);
    setting.write(USER, "{ \"hooks\": ");
    assert_eq!(setting.commands(), ["own"]);
    assert!(setting.problems()[0].ends_with("the hooks of its last valid version stay in force"));
    setting.write(USER, &file(&["other"]));
    assert_eq!(setting.commands(), ["other"]);
    setting.remove_users();
    assert_eq!(setting.commands(), Vec::<String>::new());
}

#[test]
fn a_broken_file_of_a_workspace_runs_nothing() {
    let setting = HookFilesFixture::new();
    setting.write(PROJECT, &file(&["guard"]));
    setting.customization.grant(&Grant::Workspace).unwrap();
    setting.approve(None).unwrap();
    assert_eq!(setting.commands(), ["guard"]);
    setting.write(PROJECT, "{");
    assert_eq!(setting.commands(), Vec::<String>::new());
    assert!(setting.problems()[0].starts_with("invalid JSON"));
}

#[test]
fn the_users_hooks_come_first() {
    let setting = HookFilesFixture::new();
    setting.write(PROJECT, &file(&["theirs"]));
    setting.write(USER, &file(&["own"]));
    setting.customization.grant(&Grant::Workspace).unwrap();
    setting.approve(None).unwrap();
    assert_eq!(setting.commands(), ["own", "theirs"]);
    let sources: Vec<Source> = setting.customization.user_hooks().hooks().iter().map(|h| h.source).collect();
    assert_eq!(sources, [Source::User, Source::Workspace]);
    assert_eq!(Path::new(GLOBAL_HOOKS), Path::new(USER).file_name().unwrap());
}

#[test]
fn what_stays_the_same_is_not_read_again() {
    let setting = HookFilesFixture::new();
    setting.write(USER, &file(&["own"]));
    // So that its times tell of every further change.
    let path = setting.directory.path().join(USER);
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(60);
    fs::File::options().write(true).open(&path).unwrap().set_modified(old).unwrap();
    setting.commands();
    let (one, other) = (setting.customization.user_hooks(), setting.customization.user_hooks());
    assert!(Arc::ptr_eq(&one, &other));
}

#[test]
fn a_link_out_of_the_workspace_brings_no_hooks() {
    let setting = HookFilesFixture::new();
    setting.write("home/hooks.json", &file(&["theirs"]));
    symlink(setting.directory.path().join("home/hooks.json"), setting.directory.path().join(PROJECT))
        .unwrap();
    setting.customization.grant(&Grant::Workspace).unwrap();
    assert!(setting.pending().is_empty() && setting.commands().is_empty());
    assert!(setting.problems()[0].contains("points outside the workspace"));
}

#[test]
fn what_is_no_file_says_so() {
    let setting = HookFilesFixture::new();
    fs::create_dir(setting.directory.path().join(USER)).unwrap();
    assert_eq!((setting.commands().len(), setting.problems().len()), (0, 1));
}

/// A hooks file whose event is misspelt.
fn misspelt() -> String {
    file(&["guard.sh"]).replace("Stop", "PreToolUze")
}

#[test]
fn hooks_that_are_meant_to_run_and_can_not_are_a_fault() {
    let setting = HookFilesFixture::new();
    let fault = || setting.customization.user_hooks().fault().map(str::to_owned).unwrap_or_default();
    assert_eq!(fault(), "");
    for (text, place, what) in [
        ("{".to_owned(), "config/hooks.json:1:1: ", "invalid JSON"),
        (misspelt(), "config/hooks.json:1:", "there is no event 'PreToolUze'"),
        (r#"{"hooks":{"Stop":[{"hooks":[{"type":"http"}]}]}}"#.to_owned(), "config/hooks.json:1:", "'http'"),
    ] {
        setting.write(USER, &text);
        let found = fault();
        assert!(found.contains(place) && found.contains(what) && found.contains("hooks check"), "{found}");
    }
    // What has no effect by design leaves no gap.
    setting.write(USER, r#"{"disableAllHooks": true, "hooks": {}, "more": 1}"#);
    assert_eq!(fault(), "");

    // The last valid version guards on; one that left something out does not.
    setting.write(USER, &file(&["guard.sh"]));
    assert_eq!((fault(), setting.commands().len()), (String::new(), 1));
    setting.write(USER, "{");
    assert_eq!((fault(), setting.commands().len()), (String::new(), 1));
    setting.remove_users();
    assert_eq!((fault(), setting.commands().len()), (String::new(), 0));
}

#[test]
fn a_workspaces_broken_hooks_are_a_fault_once_it_is_trusted() {
    let setting = HookFilesFixture::new();
    let fault = || setting.customization.user_hooks().fault().map(str::to_owned).unwrap_or_default();
    setting.write(PROJECT, &misspelt());
    assert_eq!(fault(), "");
    setting.customization.grant(&Grant::Workspace).unwrap();
    assert!(fault().contains("work/.roo/hooks.json:1:"), "{}", fault());
    setting.write(PROJECT, "{");
    assert!(fault().contains("invalid JSON"), "{}", fault());
    // Whoever did not approve hooks does not expect them to run.
    setting.write(PROJECT, &file(&["guard.sh"]));
    assert_eq!((fault(), setting.pending().len()), (String::new(), 1));
    setting.customization.revoke().unwrap();
    assert_eq!(fault(), "");
}

/// By a clock that is stopped.
fn standing_fixture() -> (HookFilesFixture, std::sync::Arc<std::sync::atomic::AtomicI64>) {
    let HookFilesFixture { directory, .. } = HookFilesFixture::new();
    let (customization, clock) = standing(open(directory.path()));
    (HookFilesFixture { directory, customization }, clock)
}

#[test]
fn hooks_stay_in_force_while_their_file_is_being_saved() {
    for (name, is_project) in [(USER, false), (PROJECT, true)] {
        let (setting, clock) = standing_fixture();
        let path = setting.directory.path().join(name);
        setting.write(name, &file(&["deny.sh", "log.sh"]));
        if is_project {
            setting.customization.grant(&Grant::Workspace).unwrap();
            setting.approve(None).unwrap();
        }
        assert_eq!(setting.commands(), ["deny.sh", "log.sh"], "{name}");
        // As editors do it that empty the file and rewrite it.
        for cut in ["", "{ \"hooks\": "] {
            fs::write(&path, cut).unwrap();
            assert_eq!(setting.commands(), ["deny.sh", "log.sh"], "{name} {cut:?}");
            assert!(
                setting.customization.is_being_saved() && setting.problems().is_empty(),
                "{name} {cut:?}"
            );
        }
        fs::remove_file(&path).unwrap();
        assert_eq!(setting.commands(), ["deny.sh", "log.sh"], "{name}, missing");
        clock.fetch_add(1000, Ordering::SeqCst);
        assert_eq!(setting.commands(), Vec::<String>::new(), "{name}, removed");
        assert!(!setting.customization.is_being_saved(), "{name}");
    }
}
