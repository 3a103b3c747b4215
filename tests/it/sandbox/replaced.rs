//! Files that a command must not read or write, replaced by others while it runs: editors and git save by name, and what is
//! mounted on a file is gone with it.

use std::sync::atomic::{AtomicBool, Ordering};

use roo_sandbox::exec::sandbox::Substitute;

use super::*;
use crate::support::client::{again_and_again, eventually};

/// Ways in which others save a file.
type Save = fn(&Path, &str);

const SAVES: &[(&str, Save)] = &[
    ("by name", |path, text| {
        let new = path.with_extension("new");
        fs::write(&new, text).unwrap();
        fs::rename(new, path).unwrap();
    }),
    ("with a copy of the old one", |path, text| {
        fs::rename(path, path.with_extension("old")).unwrap();
        fs::write(path, text).unwrap();
    }),
    ("after removing it", |path, text| {
        fs::remove_file(path).unwrap();
        fs::write(path, text).unwrap();
    }),
];

/// Runs a line while others act again and again. Gives its output.
async fn while_others(
    fixture: &Fixture,
    line: &str,
    confinement: &Confinement,
    act: impl Fn() + Sync,
) -> String {
    let (runs, is_over) = (fixture.at("ws/src/runs"), AtomicBool::new(false));
    let _ = fs::remove_file(&runs);
    let command = fixture.command(&format!("touch src/runs; {line}"));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            again_and_again(&is_over, || {
                if runs.exists() {
                    act();
                }
            });
        });
        let run = fixture.run(&command, confinement);
        let ran = tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(run));
        is_over.store(true, Ordering::SeqCst);
        ran
    })
    .unwrap()
    .1
}

/// Ways to write a file `$f`.
const WRITES: &[&str] = &[
    "echo evil >>$f",
    "echo evil >>/proc/self/cwd/$f",
    "echo evil >>/proc/$$/cwd/$f",
    "ln -sfn /proc/self/cwd src/here; echo evil >>src/here/$f",
    "ln $f src/second; echo evil >>src/second; rm -f src/second",
    "echo evil >src/evil; mv -f src/evil $f",
    "rm -f $f; echo evil >$f",
    "truncate -s 1 $f",
];

#[tokio::test(flavor = "multi_thread")]
async fn a_protected_file_that_others_save_is_written_by_no_command() {
    let fixture = Fixture::new().await;
    let (protected, mine) = (fixture.at("ws/AGENTS.md"), "be good\n");
    for (way, save) in SAVES {
        for write in WRITES {
            fs::write(&protected, mine).unwrap();
            let line = format!("f=AGENTS.md; for i in $(seq 40); do {write}; done 2>/dev/null");
            let act = || {
                // What the command had written would be overwritten by the next save.
                if let Ok(text) = fs::read_to_string(&protected) {
                    assert_eq!(text, mine, "{write}, saved {way}");
                }
                save(&protected, mine);
            };
            while_others(&fixture, &line, &fixture.confinement(), act).await;
            assert_eq!(fs::read_to_string(&protected).unwrap(), mine, "{write}, saved {way}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
async fn a_process_that_can_not_be_looked_at_writes_no_protected_file_that_others_save() {
    let fixture = Fixture::new().await;
    let (protected, mine) = (fixture.at("ws/AGENTS.md"), "be good\n");
    fs::write(&protected, mine).unwrap();
    let line = "python3 -c '
import ctypes, os
ctypes.CDLL(None).prctl(4, 0)
d = os.open(\".\", 0)
for _ in range(500):
    for path, at in ((\"AGENTS.md\", None), (\"AGENTS.md\", d), (\"/proc/self/cwd/AGENTS.md\", None)):
        try: os.write(os.open(path, os.O_WRONLY | os.O_APPEND, dir_fd=at), b\"evil\")
        except OSError: pass
print(\"tried\")'";
    let act = || {
        assert_eq!(fs::read_to_string(&protected).unwrap(), mine);
        SAVES[0].1(&protected, mine);
    };
    let output = while_others(&fixture, line, &fixture.confinement(), act).await;
    assert_eq!(output, "tried\n");
    assert_eq!(fs::read_to_string(&protected).unwrap(), mine);
}

/// A line that ends once a check succeeds, or says that it never did.
fn until(check: &str) -> String {
    format!(
        "touch src/ready; while ! [ -e src/go ]; do sleep 0.01; done; for i in $(seq 500); do {check} && exit; sleep 0.01; done; echo never"
    )
}

/// Runs a line that makes `src/ready` and waits for `src/go`; others act in between.
async fn meanwhile(
    fixture: &Fixture,
    line: &str,
    confinement: &Confinement,
    act: impl FnOnce() + Send,
) -> String {
    for name in ["ws/src/ready", "ws/src/go"] {
        let _ = fs::remove_file(fixture.at(name));
    }
    let command = fixture.command(line);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            eventually("the command", || fixture.at("ws/src/ready").exists());
            act();
            fs::write(fixture.at("ws/src/go"), "").unwrap();
        });
        let run = fixture.run(&command, confinement);
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(run))
    })
    .unwrap()
    .1
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hidden_file_that_others_save_is_hidden_again() {
    let fixture = Fixture::new().await;
    for (way, save) in SAVES {
        for (name, path) in [(".env", "ws/.env"), ("../home/.netrc", "home/.netrc")] {
            let line = until(&format!("! cat {name} 2>/dev/null >&2"));
            let act = || save(&fixture.at(path), "canary-secret, changed");
            let output = meanwhile(&fixture, &line, &fixture.confinement(), act).await;
            assert_eq!(output, "", "{name}, saved {way}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_protected_directory_that_others_replace_stays_as_they_made_it() {
    let fixture = Fixture::new().await;
    let line = "touch src/ready; while ! [ -e src/go ]; do sleep 0.01; done; cat .vscode/settings.json; \
                echo evil >.vscode/settings.json || echo evil >.vscode/tasks.json || rm -r .vscode || echo refused";
    let act = || {
        fs::rename(fixture.at("ws/.vscode"), fixture.at("out/.vscode")).unwrap();
        fs::create_dir(fixture.at("ws/.vscode")).unwrap();
        fs::write(fixture.at("ws/.vscode/settings.json"), "theirs\n").unwrap();
    };
    let output = meanwhile(&fixture, line, &fixture.confinement(), act).await;
    assert!(output.starts_with("theirs\n") && output.ends_with("refused\n"), "{output}");
    assert_eq!(fixture.names("ws/.vscode"), ["settings.json"]);
    assert_eq!(fs::read_to_string(fixture.at("ws/.vscode/settings.json")).unwrap(), "theirs\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_writes_its_private_copy_whoever_saves_the_file_meanwhile() {
    let fixture = Fixture::new().await;
    fs::create_dir(fixture.at("ws/.git")).unwrap();
    let (real, copy) = (fixture.at("ws/.git/config"), fixture.at("copy"));
    for (way, save) in &SAVES[..1] {
        fs::write(&real, "mine\n").unwrap();
        fs::write(&copy, "").unwrap();
        let substitute = Substitute { place: real.clone(), source: copy.clone(), is_writable: true };
        let confinement = Confinement { substitutes: vec![substitute], ..fixture.confinement() };
        let line = "for i in $(seq 50); do echo evil >>.git/config || echo failed; \
                    echo evil >.git/config.lock && mv -f .git/config.lock .git/config || echo failed; done";
        let act = || {
            assert_eq!(fs::read_to_string(&real).unwrap(), "mine\n", "saved {way}");
            save(&real, "mine\n");
        };
        let output = while_others(&fixture, line, &confinement, act).await;
        assert_eq!(output, "", "saved {way}");
        assert_eq!(fs::read_to_string(&real).unwrap(), "mine\n", "saved {way}");
        assert_eq!(fs::read_to_string(&copy).unwrap(), "evil\n", "saved {way}");
    }
}

/// A workspace may have more repositories than handles go into one message.
#[tokio::test(flavor = "multi_thread")]
async fn each_of_many_private_copies_is_shown_again() {
    let fixture = Fixture::new().await;
    let names: Vec<String> = (0..80).map(|number| format!("ws/src/r{number}")).collect();
    for name in &names {
        fs::create_dir_all(fixture.at(name).join(".git")).unwrap();
        fs::write(fixture.at(name).join(".git/config"), "mine\n").unwrap();
        fs::write(fixture.at(name).join("copy"), "").unwrap();
    }
    let substitute = |name: &String| {
        let (place, source) = (fixture.at(name).join(".git/config"), fixture.at(name).join("copy"));
        Substitute { place, source, is_writable: true }
    };
    let substitutes = names.iter().map(substitute).collect();
    let confinement = Confinement { substitutes, ..fixture.confinement() };
    let line = "touch src/ready; while ! [ -e src/go ]; do sleep 0.01; done; \
                for r in src/r[0-9]*; do echo own >>$r/.git/config || echo failed; done";
    let act = || names.iter().for_each(|name| SAVES[0].1(&fixture.at(name).join(".git/config"), "mine\n"));
    assert_eq!(meanwhile(&fixture, line, &confinement, act).await, "");
    for name in &names {
        let read = |file: &str| fs::read_to_string(fixture.at(name).join(file)).unwrap();
        assert_eq!((read(".git/config"), read("copy")), ("mine\n".to_owned(), "own\n".to_owned()), "{name}");
    }
}

/// An editor's save of a file that the command may read shows there as before, and can't be written.
#[tokio::test(flavor = "multi_thread")]
async fn a_protected_file_that_others_save_can_be_read() {
    let fixture = Fixture::new().await;
    let line = until("[ \"$(cat AGENTS.md)\" = better ]");
    let act = || SAVES[0].1(&fixture.at("ws/AGENTS.md"), "better");
    assert_eq!(meanwhile(&fixture, &line, &fixture.confinement(), act).await, "");
}
