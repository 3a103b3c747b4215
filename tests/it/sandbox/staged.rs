//! Staged commands: nothing of the workspace changes before a command has ended, and then what it may change
//! is brought there, where nobody else has been since.

use std::os::unix::fs::{PermissionsExt as _, symlink};

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use roo_sandbox::changes::{
    Allowed, CommitOutcome, Keep, Limits, Recording, Scope, Stage, StagingArea, Store,
};
use roo_sandbox::exec::sandbox::Staged;

use super::*;

/// Nothing has to be brought back.
pub(super) struct Rules;

impl Scope for Rules {
    fn allowed(&self, _root: usize, path: &Path) -> Allowed {
        allowed(path)
    }

    fn keep(&self, _root: usize, _path: &Path) -> Keep {
        Keep::Nothing
    }
}

/// The record, the private directories and the bounds of one staged command.
pub(super) struct Staging {
    pub(super) before: Recording,
    pub(super) stage: Stage,
    pub(super) confinement: Confinement,
    store: Store,
}

impl Fixture {
    /// What a command over the workspace needs.
    pub(super) fn stage(&self, scope: &dyn Scope) -> Staging {
        self.stage_over(&["ws"], scope)
    }

    pub(super) fn stage_over(&self, roots: &[&str], scope: &dyn Scope) -> Staging {
        let roots: Vec<PathBuf> = roots.iter().map(|root| self.at(root)).collect();
        let store = Store::open(self.at("state/changes"), Limits::default()).unwrap();
        let before = self.record(&roots, scope, &store);
        let stage = StagingArea::open(self.at("state/staged")).unwrap().begin(&roots).unwrap();
        let confinement = Confinement {
            staged: stage.layers().to_vec(),
            direct: before.scratch().into_iter().map(|(root, path)| roots[root].join(path)).collect(),
            ..self.confinement()
        };
        Staging { before, stage, confinement, store }
    }

    /// Runs a staged line, and brings what it did to the workspace.
    async fn land(&self, line: &str) -> CommitOutcome {
        let staging = self.stage(&Rules);
        let (status, output) = self.run(&self.command(line), &staging.confinement).await.expect("it starts");
        assert_eq!(status, Status::Code(0), "{line}: {output}");
        staging.land(&Rules, true)
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.at(name)).unwrap_or_else(|error| error.kind().to_string())
    }
}

impl Staging {
    pub(super) fn land(self, scope: &dyn Scope, finished: bool) -> CommitOutcome {
        let changes = self.stage.changes(&self.before, scope).unwrap();
        changes.commit(&self.stage, &self.before, &self.store, finished)
    }
}

/// What is in the workspace now.
fn committed(landed: &CommitOutcome) -> Vec<String> {
    landed.committed.iter().map(|change| format!("{:?} {}", change.what, change.path.display())).collect()
}

/// What is not, and why.
fn withheld(landed: &CommitOutcome) -> Vec<String> {
    let line = |held: &roo_sandbox::changes::WithheldChange| {
        format!("{:?} {:?} {}", held.why, held.change.what, held.change.path.display())
    };
    landed.withheld.iter().map(line).collect()
}

/// What is kept of a command for the user.
fn kept(landed: &CommitOutcome, name: &str) -> String {
    fs::read_to_string(landed.kept.as_ref().expect("something is kept").join(name))
        .unwrap_or_else(|error| error.kind().to_string())
}

#[tokio::test]
async fn what_is_in_scope_is_brought_to_the_workspace_when_the_command_has_ended() {
    let fixture = Fixture::new().await;
    fs::create_dir_all(fixture.at("ws/src/old/inner")).unwrap();
    for (name, text) in
        [("b.txt", "b"), ("c.txt", "c"), ("d.txt", "d"), ("old/one", "1"), ("old/inner/two", "2")]
    {
        fs::write(fixture.at("ws/src").join(name), text).unwrap();
    }
    let line = "cd src && echo more >>a.txt && rm b.txt && mv c.txt moved.txt && chmod 755 d.txt && mv old new && \
                mkdir -p deep/er && echo x >deep/er/x && ln -s ../a.txt deep/link && touch -d 2001-01-01 deep/old && \
                cat new/inner/two";
    let landed = fixture.land(line).await;
    assert_eq!(withheld(&landed), [""; 0]);
    assert_eq!(
        committed(&landed),
        [
            "Modified src/a.txt",
            "Deleted src/b.txt",
            "Deleted src/c.txt",
            "Modified src/d.txt",
            "Created src/deep",
            "Created src/deep/er",
            "Created src/deep/er/x",
            "Created src/deep/link",
            "Created src/deep/old",
            "Created src/moved.txt",
            "Created src/new",
            "Created src/new/inner",
            "Created src/new/inner/two",
            "Created src/new/one",
            "Deleted src/old",
            "Deleted src/old/inner",
            "Deleted src/old/inner/two",
            "Deleted src/old/one",
        ]
    );
    let moved = landed.committed.iter().find(|change| change.path.ends_with("moved.txt")).unwrap();
    assert_eq!(moved.renamed_from.as_deref(), Some(Path::new("src/c.txt")));
    assert_eq!(fixture.names("ws/src"), ["a.txt", "d.txt", "deep", "moved.txt", "new"]);
    assert_eq!(fixture.names("ws/src/deep"), ["er", "link", "old"]);
    assert_eq!(fixture.text("ws/src/a.txt"), "amore\n");
    assert_eq!(
        (fixture.text("ws/src/moved.txt"), fixture.text("ws/src/new/inner/two")),
        ("c".into(), "2".into())
    );
    let mode = |name: &str| fixture.at(name).metadata().unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode("ws/src/d.txt"), 0o755);
    assert_eq!(fs::read_link(fixture.at("ws/src/deep/link")).unwrap(), Path::new("../a.txt"));
    assert!(
        fixture.at("ws/src/deep/old").metadata().unwrap().modified().unwrap().elapsed().unwrap().as_secs()
            > 1 << 29
    );
    // Nothing of it is left, neither there nor where it was staged.
    assert_eq!(fixture.names("state/staged"), ["lock"]);
    assert_eq!(landed.kept, None);
}

#[tokio::test]
async fn what_is_not_allowed_is_kept_and_never_seen() {
    let fixture = Fixture::new().await;
    fs::create_dir(fixture.at("ws/docs")).unwrap();
    fs::write(fixture.at("ws/docs/b.txt"), "b").unwrap();
    let line = "echo x >top.txt; echo c >>docs/b.txt; mkdir -p new/er && echo y >new/er/y; echo '{}' >.mcp.json; \
                mkdir -p src/.claude && echo evil >src/.claude/settings.json; mv src/a.txt docs/; chmod 700 docs; \
                ! echo evil >AGENTS.md; ! rm -r .vscode; ! cat .env; echo fine >src/fine.txt";
    let landed = fixture.land(&format!("exec 2>/dev/null; {line}")).await;
    assert_eq!(committed(&landed), ["Created src/fine.txt"]);
    assert_eq!(
        withheld(&landed),
        [
            "NotAllowed Created .mcp.json",
            "NotAllowed Modified docs",
            "NotAllowed Created docs/a.txt",
            "NotAllowed Modified docs/b.txt",
            "NotAllowed Created new",
            "NotAllowed Created new/er",
            "NotAllowed Created new/er/y",
            "NotAllowed Created src/.claude",
            "NotAllowed Created src/.claude/settings.json",
            "Moved Deleted src/a.txt",
            "NotAllowed Created top.txt",
        ]
    );
    assert_eq!(fixture.names("ws"), [".env", ".roo", ".vscode", "AGENTS.md", "docs", "src"]);
    assert_eq!(
        (fixture.names("ws/docs"), fixture.text("ws/docs/b.txt")),
        (vec!["b.txt".to_owned()], "b".to_owned())
    );
    // A file that was moved out of the scope is not gone.
    assert_eq!(fixture.names("ws/src"), ["a.txt", "fine.txt"]);
    for (name, text) in [
        ("top.txt", "x\n"),
        ("docs/b.txt", "bc\n"),
        ("docs/a.txt", "a"),
        ("new/er/y", "y\n"),
        (".mcp.json", "{}\n"),
        ("src/.claude/settings.json", "evil\n"),
    ] {
        assert_eq!(kept(&landed, name), text, "{name}");
    }
}

#[tokio::test]
async fn a_file_that_was_moved_over_one_that_is_withheld_is_not_gone() {
    let fixture = Fixture::new().await;
    fs::create_dir(fixture.at("ws/docs")).unwrap();
    fs::write(fixture.at("ws/docs/b.txt"), "b").unwrap();
    fs::write(fixture.at("ws/src/c.txt"), "c").unwrap();
    let landed = fixture.land("mv src/a.txt docs/b.txt; mv src/c.txt src/d.txt").await;
    assert_eq!(withheld(&landed), ["NotAllowed Modified docs/b.txt", "Moved Deleted src/a.txt"]);
    assert_eq!(
        (fixture.text("ws/src/a.txt"), fixture.text("ws/docs/b.txt")),
        ("a".to_owned(), "b".to_owned())
    );
    assert_eq!(fixture.names("ws/src"), ["a.txt", "d.txt"]);
}

#[tokio::test]
async fn while_a_command_runs_the_workspace_is_as_it_was() {
    let fixture = Fixture::new().await;
    fs::create_dir(fixture.at("ws/docs")).unwrap();
    let staging = fixture.stage(&Rules);
    // The command writes, says so through the cache, which is direct, and waits until the test has looked.
    let line = "echo b >src/b.txt; rm src/a.txt; echo x >docs/x; echo '{}' >.mcp.json; \
                mkfifo $XDG_CACHE_HOME/looked; echo ready; cat $XDG_CACHE_HOME/looked; ls src docs";
    let looked = fixture.at("cache/looked");
    let (mut output, mut seen) = (String::new(), Vec::new());
    let (status, _) = exec::run_confined(
        &fixture.command(line),
        &fixture.environment(),
        &fixture.sandbox,
        &staging.confinement,
        |text| {
            output.push_str(text);
            if output == "ready\n" {
                seen = vec![fixture.names("ws"), fixture.names("ws/src"), fixture.names("ws/docs")];
                fs::write(&looked, "go on\n").unwrap();
            }
        },
        &CancellationToken::new(),
    )
    .await
    .unwrap();
    assert_eq!((status, output.as_str()), (Status::Code(0), "ready\ngo on\ndocs:\nx\n\nsrc:\nb.txt\n"));
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let before = [names(&[".env", ".roo", ".vscode", "AGENTS.md", "docs", "src"]), names(&["a.txt"]), vec![]];
    assert_eq!(seen, before);
    let landed = staging.land(&Rules, true);
    assert_eq!(committed(&landed), ["Deleted src/a.txt", "Created src/b.txt"]);
    assert!(fixture.names("ws/docs").is_empty() && !fixture.at("ws/.mcp.json").exists());
}

/// IfMatch.
#[tokio::test]
async fn what_somebody_else_changed_meanwhile_stays_and_the_commands_version_is_kept() {
    let fixture = Fixture::new().await;
    for name in ["edited", "deleted", "same", "removed", "touched", "replaced", "kind"] {
        fs::write(fixture.at("ws/src").join(name), "old").unwrap();
    }
    let staging = fixture.stage(&Rules);
    let line = "cd src && for name in edited deleted same touched replaced kind; do echo command >$name; done; \
                rm removed; echo command >created; mkdir -p made && echo command >made/a";
    fixture.run(&fixture.command(line), &staging.confinement).await.unwrap();
    let src = fixture.at("ws/src");
    fs::write(src.join("edited"), "user").unwrap();
    fs::remove_file(src.join("deleted")).unwrap();
    fs::write(src.join("removed"), "user").unwrap();
    fs::write(src.join("created"), "user").unwrap();
    // Only its times are others.
    let long_ago = std::time::SystemTime::UNIX_EPOCH;
    let times = fs::FileTimes::new().set_accessed(long_ago).set_modified(long_ago);
    fs::File::open(src.join("touched")).unwrap().set_times(times).unwrap();
    fs::write(src.join("new"), "user").unwrap();
    fs::rename(src.join("new"), src.join("replaced")).unwrap();
    fs::remove_file(src.join("kind")).unwrap();
    symlink("a.txt", src.join("kind")).unwrap();
    fs::create_dir(src.join("made")).unwrap();
    let landed = staging.land(&Rules, true);
    assert_eq!(
        withheld(&landed),
        [
            "ChangedMeanwhile Created src/created",
            "ChangedMeanwhile Modified src/deleted",
            "ChangedMeanwhile Modified src/edited",
            "ChangedMeanwhile Modified src/kind",
            "ChangedMeanwhile Deleted src/removed",
            "ChangedMeanwhile Modified src/replaced",
        ]
    );
    assert_eq!(committed(&landed), ["Created src/made/a", "Modified src/same", "Modified src/touched"]);
    for (name, text) in [
        ("edited", "user"),
        ("removed", "user"),
        ("created", "user"),
        ("replaced", "user"),
        ("kind", "a"),
        ("same", "command\n"),
        ("touched", "command\n"),
        ("made/a", "command\n"),
    ] {
        assert_eq!(fixture.text(&format!("ws/src/{name}")), text, "{name}");
    }
    assert!(!src.join("deleted").exists());
    for name in ["edited", "deleted", "created", "replaced", "kind"] {
        assert_eq!(kept(&landed, &format!("src/{name}")), "command\n", "{name}");
    }
}

#[tokio::test]
async fn of_a_command_that_was_cut_off_nothing_arrives() {
    let fixture = Fixture::new().await;
    let staging = fixture.stage(&Rules);
    let cancel = CancellationToken::new();
    let line = "echo half >>src/a.txt; echo x >src/new; rm -f src/none; echo begun; sleep 60";
    let ended = exec::run_confined(
        &fixture.command(line),
        &fixture.environment(),
        &fixture.sandbox,
        &staging.confinement,
        |_| cancel.cancel(),
        &cancel,
    )
    .await;
    assert_eq!(ended.unwrap().0, Status::Cancelled);
    let landed = staging.land(&Rules, false);
    assert_eq!(committed(&landed), [""; 0]);
    assert_eq!(withheld(&landed), ["Unfinished Modified src/a.txt", "Unfinished Created src/new"]);
    assert_eq!(
        (fixture.names("ws/src"), fixture.text("ws/src/a.txt")),
        (vec!["a.txt".to_owned()], "a".to_owned())
    );
    assert_eq!((kept(&landed, "src/a.txt"), kept(&landed, "src/new")), ("ahalf\n".into(), "x\n".into()));
}

#[tokio::test]
async fn build_output_is_written_at_once_or_brought_as_it_is() {
    let fixture = Fixture::new().await;
    fs::write(fixture.at("ws/.gitignore"), "target/\nnode_modules/\n").unwrap();
    fs::create_dir(fixture.at("ws/target")).unwrap();
    let line = "echo fast >target/a; mkdir -p node_modules/pkg && echo new >node_modules/pkg/index.js && \
                ln -s pkg node_modules/link; echo cache >$XDG_CACHE_HOME/x; mkdir -p docs/target && echo y >docs/target/y";
    let landed = fixture.land(line).await;
    assert_eq!(committed(&landed), [""; 0]);
    // New, and beside what the task may change: it goes as a whole.
    assert_eq!(withheld(&landed), ["NotAllowed Created docs", "NotAllowed Created docs/target"]);
    assert_eq!((fixture.text("ws/target/a"), fixture.text("cache/x")), ("fast\n".into(), "cache\n".into()));
    assert_eq!(fixture.text("ws/node_modules/link/index.js"), "new\n");
    assert_eq!(kept(&landed, "docs/target/y"), "y\n");
    // The second time it is direct.
    let staging = fixture.stage(&Rules);
    assert_eq!(staging.confinement.direct, [fixture.at("ws/node_modules"), fixture.at("ws/target")]);
}

#[tokio::test]
async fn a_build_works_the_first_time_and_finds_its_output_the_second() {
    let fixture = Fixture::new().await;
    fs::remove_file(fixture.at("ws/.env")).unwrap();
    for (name, text) in [
        ("Cargo.toml", "[package]\nname = \"small\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n"),
        ("src/lib.rs", "#[test]\nfn one() {}\n"),
        (".gitignore", "/target\n"),
    ] {
        fs::write(fixture.at("ws").join(name), text).unwrap();
    }
    for compiles in [true, false] {
        let staging = fixture.stage(&All);
        let (mut output, cancel) = (String::new(), CancellationToken::new());
        let command = fixture.command("cargo test --offline --lib 2>&1");
        let ended = exec::run_confined(
            &command,
            &Environment::inherited(),
            &fixture.sandbox,
            &staging.confinement,
            |text| output.push_str(text),
            &cancel,
        )
        .await;
        assert_eq!(ended.unwrap().0, Status::Code(0), "{output}");
        assert!(output.contains("1 passed") && output.contains("Compiling small") == compiles, "{output}");
        // Its build output is there, and nobody hears of it.
        let written: &[&str] = if compiles { &["Created Cargo.lock"] } else { &[] };
        let landed = staging.land(&All, true);
        assert_eq!(
            (committed(&landed), withheld(&landed)),
            (written.iter().map(|line| (*line).to_owned()).collect(), vec![])
        );
    }
}

#[tokio::test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
async fn what_could_do_harm_does_not_arrive() {
    let fixture = Fixture::new().await;
    let outside = fixture.at("out/kept.txt").display().to_string();
    let root = fixture.at("ws").display().to_string();
    let line = format!(
        "cd src; mkfifo pipe; python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('sock')\"; \
         cp /bin/true root; chmod 4755 root; ln -s {outside} out; ln -s /etc/passwd passwd; ln -s ../../out up; \
         ln -s ../.roo agents; ln -s {root}/.roo/x absolute; ln -s a.txt/../../../out through; ln -s . here; \
         ln -s {root}/src/a.txt fine; ln a.txt hard; ! mknod null c 1 3 2>/dev/null; ! mknod gone c 0 0 2>/dev/null; \
         echo odd >$'odd\\n\\xff\\x1b[2J'; mkdir $'d\\xfe' && echo in >$'d\\xfe/x'; \
         mkdir opaque && echo 1 >opaque/1; \
         python3 -c \"import os; os.setxattr('opaque', 'user.overlay.opaque', b'y')\" 2>/dev/null; true"
    );
    let landed = fixture.land(&line).await;
    assert_eq!(
        withheld(&landed),
        [
            "LeadsOut Created src/absolute",
            "LeadsOut Created src/agents",
            "NotAllowed Created src/d\u{fffd}",
            "NotAllowed Created src/d\u{fffd}/x",
            "NotAllowed Created src/odd\n\u{fffd}\u{1b}[2J",
            "LeadsOut Created src/out",
            "LeadsOut Created src/passwd",
            "Special Created src/pipe",
            "Special Created src/root",
            "Special Created src/sock",
            "LeadsOut Created src/through",
            "LeadsOut Created src/up",
        ]
    );
    // A hard link becomes a file of its own.
    fs::write(fixture.at("ws/src/hard"), "other").unwrap();
    assert_eq!(fixture.text("ws/src/a.txt"), "a");
    assert_eq!((fixture.text("ws/src/fine"), fixture.text("ws/src/here/a.txt")), ("a".into(), "a".into()));
    assert_eq!(fixture.text("ws/src/opaque/1"), "1\n");
    use std::os::unix::ffi::OsStrExt as _;
    // Whose name can't be judged is not allowed, and kept under that name.
    let odd = landed.kept.as_ref().unwrap().join("src");
    let odd = odd.join(std::ffi::OsStr::from_bytes(b"odd\n\xff\x1b[2J"));
    assert_eq!(fs::read_to_string(odd).unwrap(), "odd\n");
    let odd = landed.kept.as_ref().unwrap().join("src").join(std::ffi::OsStr::from_bytes(b"d\xfe/x"));
    assert_eq!(fs::read_to_string(odd).unwrap(), "in\n");
    assert_eq!(fixture.text("out/kept.txt"), "kept");
    // What is kept runs as nobody else.
    let mode = landed.kept.as_ref().unwrap().join("src/root").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o7000, 0);
}

/// No kernel mark stays behind, or a later overlay would take it for its own.
#[tokio::test]
async fn the_kernels_notes_are_not_taken_along() {
    let fixture = Fixture::new().await;
    fs::create_dir(fixture.at("ws/src/dir")).unwrap();
    fs::write(fixture.at("ws/src/dir/inner"), "x").unwrap();
    fixture.land("echo b >>src/a.txt; rm -r src/dir; mkdir src/dir; echo y >src/dir/other").await;
    assert_eq!(fixture.names("ws/src/dir"), ["other"]);
    for name in ["ws/src/a.txt", "ws/src/dir", "ws/src/dir/other"] {
        let mut list = [0_u8; 4096];
        let length = rustix::fs::listxattr(fixture.at(name), &mut list[..]).unwrap();
        assert!(!String::from_utf8_lossy(&list[..length]).contains("overlay"), "{name}");
    }
}

#[tokio::test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
async fn a_tree_too_deep_to_be_judged_is_refused_as_a_whole() {
    let fixture = Fixture::new().await;
    let staging = fixture.stage(&Rules);
    let line = "python3 -c \"import os\nos.chdir('src')\nfor n in range(3000):\n  os.mkdir('deep')\n  os.chdir('deep')\"; \
                echo b >src/b";
    let (status, output) = fixture.run(&fixture.command(line), &staging.confinement).await.unwrap();
    assert_eq!(status, Status::Code(0), "{output}");
    let error = staging.stage.changes(&staging.before, &Rules).err().expect("it is refused").to_string();
    assert!(error.contains("deeper"), "{error}");
    let kept = staging.stage.keep(&staging.store).unwrap();
    assert_eq!(fs::read_to_string(kept.join("0/src/b")).unwrap(), "b\n");
    drop(staging);
    assert_eq!(fixture.names("ws/src"), ["a.txt"]);
    assert_eq!(fixture.names("state/staged"), ["lock"]);
}

#[tokio::test]
async fn permissions_that_close_a_directory_come_last() {
    let fixture = Fixture::new().await;
    fs::create_dir(fixture.at("ws/src/known")).unwrap();
    fs::write(fixture.at("ws/src/known/x"), "x").unwrap();
    let line = "cd src && mkdir closed && echo a >closed/a && chmod 100 closed && echo y >>known/x && chmod 500 known && \
                echo s >secret && chmod 000 secret && mkdir -m 2755 group && touch group/x";
    let landed = fixture.land(line).await;
    assert_eq!(withheld(&landed), [""; 0]);
    let mode = |name: &str| fixture.at("ws/src").join(name).metadata().unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode("closed"), mode("known"), mode("secret"), mode("group")), (0o100, 0o500, 0, 0o2755));
    for open in ["closed", "known"] {
        fs::set_permissions(fixture.at("ws/src").join(open), fs::Permissions::from_mode(0o700)).unwrap();
    }
    assert_eq!(
        (fixture.text("ws/src/closed/a"), fixture.text("ws/src/known/x")),
        ("a\n".into(), "xy\n".into())
    );
}

#[tokio::test]
async fn one_kind_may_take_the_place_of_another() {
    let fixture = Fixture::new().await;
    for name in ["dir/inner", "file", "link.d"] {
        let place = fixture.at("ws/src").join(name);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(place, "old").unwrap();
    }
    symlink("a.txt", fixture.at("ws/src/link")).unwrap();
    let line = "cd src && rm -r dir && echo file >dir && rm file && mkdir file && echo in >file/in && rm link && \
                echo plain >link && ln -sf a.txt link.d";
    let landed = fixture.land(line).await;
    assert_eq!(withheld(&landed), [""; 0]);
    let found = ["dir", "file/in", "link", "link.d"].map(|name| fixture.text(&format!("ws/src/{name}")));
    assert_eq!(found, ["file\n", "in\n", "plain\n", "a"]);
    assert!(fixture.at("ws/src/link.d").is_symlink() && !fixture.at("ws/src/link").is_symlink());
}

#[tokio::test]
async fn what_only_looks_changed_is_no_change() {
    let fixture = Fixture::new().await;
    fs::write(fixture.at("ws/big"), vec![7; 3 << 20]).unwrap();
    let landed = fixture
        .land("touch src/a.txt big; printf a >src/a.txt; cp big b && cp b big && rm b; : >src/n && rm src/n; chmod -R u+r .  2>/dev/null; true")
        .await;
    assert_eq!(landed, CommitOutcome::default());
}

#[tokio::test]
async fn each_root_has_its_own_stage() {
    let fixture = Fixture::new().await;
    // Whatever the characters of its path.
    fs::create_dir_all(fixture.at("second:a,b \\c/src")).unwrap();
    symlink("second:a,b \\c", fixture.at("second")).unwrap();
    let trial = fixture.stage_over(&["ws", "second:a,b \\c"], &Rules);
    assert_eq!(fixture.sandbox.try_staging(&trial.confinement.staged).await, Ok(()));
    drop(trial);
    let staging = fixture.stage_over(&["ws", "second:a,b \\c"], &Rules);
    let line =
        "echo 1 >src/one; echo 2 >../second/src/two; echo x >../second/other; mv src/a.txt ../second/src/";
    let (status, output) = fixture.run(&fixture.command(line), &staging.confinement).await.unwrap();
    assert_eq!(status, Status::Code(0), "{output}");
    assert_eq!((fixture.names("ws/src"), fixture.names("second/src")), (vec!["a.txt".to_owned()], vec![]));
    let landed = staging.land(&Rules, true);
    assert_eq!(withheld(&landed), ["NotAllowed Created other"]);
    assert_eq!(kept(&landed, "1/other"), "x\n");
    assert_eq!(
        (fixture.names("ws/src"), fixture.names("second/src")),
        (vec!["one".to_owned()], vec!["a.txt".to_owned(), "two".to_owned()])
    );
}

#[tokio::test]
async fn an_overlay_holds_what_l2_holds() {
    let fixture = Fixture::new().await;
    let staging = fixture.stage(&Rules);
    let root = fixture.at("ws").display().to_string();
    let upper = staging.stage.layers()[0].upper.display().to_string();
    let lines = [
        "echo x >.vscode/settings.json".to_owned(),
        "echo x >AGENTS.md".to_owned(),
        "mv .vscode away".to_owned(),
        "mv AGENTS.md away".to_owned(),
        "ln AGENTS.md src/agents && echo x >src/agents".to_owned(),
        "cat .env".to_owned(),
        "rm -f .env && cat .env".to_owned(),
        format!("umount -l {root}"),
        format!(
            "unshare -Urm sh -c 'umount -l {root}; echo x >{root}/src/direct'; test -e src/direct && echo x >../out/x"
        ),
        format!("ls {upper}"),
        format!("echo x >{upper}/x"),
        "touch ../out/x".to_owned(),
        "cat ../state/log.jsonl".to_owned(),
    ];
    let tried: String = lines
        .iter()
        .map(|line| format!("if ( {line} ) 2>&1; then echo WORKED: '{}'; fi\n", line.replace('\'', "\"")))
        .collect();
    let (status, output) =
        fixture.run(&fixture.command(&format!("{tried}echo all")), &staging.confinement).await.unwrap();
    assert_eq!((status, output.lines().last()), (Status::Code(0), Some("all")), "{output}");
    assert!(!output.contains("WORKED") && !output.contains("canary-secret"), "{output}");
    assert_eq!(fixture.names("ws"), [".env", ".roo", ".vscode", "AGENTS.md", "src"]);
    assert_eq!(
        (fixture.names("ws/src"), fixture.names("out")),
        (vec!["a.txt".to_owned()], vec!["kept.txt".to_owned()])
    );
}

#[tokio::test]
async fn a_place_within_a_protected_one_is_staged_too() {
    let fixture = Fixture::new().await;
    fs::create_dir_all(fixture.at("ws/.roo/tasks/own")).unwrap();
    let mut staging = fixture.stage(&All);
    staging.confinement.writable.push(fixture.at("ws/.roo/tasks/own"));
    let line = "echo note >.roo/tasks/own/x && ! touch .roo/tasks/x 2>/dev/null && cat .roo/tasks/own/x";
    let found = fixture.run(&fixture.command(line), &staging.confinement).await.unwrap();
    assert_eq!(found, (Status::Code(0), "note\n".to_owned()));
    assert!(fixture.names("ws/.roo/tasks/own").is_empty());
    staging.land(&All, true);
    assert_eq!(fixture.text("ws/.roo/tasks/own/x"), "note\n");
}

#[tokio::test]
async fn a_stage_may_lie_on_another_file_system() {
    use std::os::unix::fs::MetadataExt as _;
    let fixture = Fixture::new().await;
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let device = |path: &Path| path.metadata().unwrap().dev();
    assert_ne!(device(memory.path()), device(&fixture.root), "these tests need a second file system");
    let mut staging = fixture.stage(&Rules);
    staging.stage = StagingArea::open(memory.path()).unwrap().begin(&[fixture.at("ws")]).unwrap();
    let layer = &staging.stage.layers()[0];
    staging.confinement.staged[0] =
        Staged { root: layer.root.clone(), upper: layer.upper.clone(), work: layer.work.clone() };
    let line = "echo more >>src/a.txt; echo n >src/n; chmod 750 src/n; touch -d 2001-01-01 src/n; echo x >x";
    fixture.run(&fixture.command(line), &staging.confinement).await.unwrap();
    let landed = staging.land(&Rules, true);
    assert_eq!(committed(&landed), ["Modified src/a.txt", "Created src/n"]);
    assert_eq!((fixture.text("ws/src/a.txt"), fixture.text("ws/src/n")), ("amore\n".into(), "n\n".into()));
    let found = fixture.at("ws/src/n").metadata().unwrap();
    assert_eq!((found.permissions().mode() & 0o7777, found.mtime() < 1 << 30), (0o750, true));
    assert_eq!(kept(&landed, "x"), "x\n");
}

#[tokio::test]
async fn permissions_are_not_changed_through_another_name() {
    let fixture = Fixture::new().await;
    fs::set_permissions(fixture.at("out/kept.txt"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::hard_link(fixture.at("out/kept.txt"), fixture.at("ws/src/linked")).unwrap();
    let landed = fixture.land("chmod 777 src/linked").await;
    assert_eq!(committed(&landed), ["Modified src/linked"]);
    let mode = |name: &str| fixture.at(name).metadata().unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode("ws/src/linked"), mode("out/kept.txt")), (0o777, 0o600));
}

/// Everything is in scope.
pub(super) struct All;

impl Scope for All {
    fn allowed(&self, _root: usize, _path: &Path) -> Allowed {
        Allowed::InScope
    }

    fn keep(&self, _root: usize, _path: &Path) -> Keep {
        Keep::Nothing
    }
}

#[tokio::test]
async fn where_there_can_be_no_overlay_nothing_runs() {
    let fixture = Fixture::new().await;
    // As a file system that can't hold what is written.
    let staging = fixture.stage(&Rules);
    let mut broken = staging.confinement.clone();
    broken.staged[0].upper = PathBuf::from("/proc");
    let error =
        fixture.run(&fixture.command("touch src/ran"), &broken).await.expect_err("no overlay").to_string();
    assert!(error.contains("the overlay over"), "{error}");
    assert!(fixture.sandbox.try_staging(&broken.staged).await.is_err());
    assert_eq!(fixture.sandbox.try_staging(&staging.confinement.staged).await, Ok(()));
    // As a machine without namespaces.
    let weaker = Fixture::with_landlock().await;
    let staging = weaker.stage(&Rules);
    let error =
        weaker.run(&weaker.command("touch src/ran"), &staging.confinement).await.expect_err("no overlay");
    assert!(matches!(&error, ExecError::NoSandbox(why) if why.contains("namespaces")), "{error}");
    assert!(weaker.sandbox.try_staging(&staging.confinement.staged).await.is_err());
    for fixture in [fixture, weaker] {
        assert_eq!(fixture.names("ws/src"), ["a.txt"]);
    }
}

#[tokio::test]
async fn a_killed_server_leaves_the_workspace_as_it_was() {
    use std::io::BufRead as _;
    if let Some(root) = served_fixture() {
        let fixture = Fixture { root, sandbox: Sandbox::find(helper()).await, directory: None };
        let staging = fixture.stage(&Rules);
        let line = "echo x >>src/a.txt; echo x >src/new; rm AGENTS.md; echo begun; sleep 600";
        fixture.serve(line, &staging.confinement).await;
        return;
    }
    let fixture = Fixture::new().await;
    let mut server = fixture.server("sandbox::staged::a_killed_server_leaves_the_workspace_as_it_was");
    let mut server = server.spawn().unwrap();
    let mut lines = std::io::BufReader::new(server.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("begun")), "it never began");
    assert_eq!(fixture.names("state/staged").len(), 2);
    // Another server leaves alone what is in use.
    StagingArea::open(fixture.at("state/staged")).unwrap();
    assert_eq!(fixture.names("state/staged").len(), 2);
    server.kill().unwrap();
    server.wait().unwrap();
    assert_eq!(
        (fixture.names("ws/src"), fixture.text("ws/src/a.txt")),
        (vec!["a.txt".to_owned()], "a".to_owned())
    );
    StagingArea::open(fixture.at("state/staged")).unwrap();
    assert_eq!(fixture.names("state/staged"), ["lock"]);
}

/// A few names, so that operations meet.
fn place() -> impl Strategy<Value = String> {
    proptest::sample::select(vec![
        "a", "b", "c d", "x", "x/a", "x/b", "x/y", "x/y/a", "x/y/z", "b/a", "b/a/c",
    ])
    .prop_map(|place| format!("'{place}'"))
}

fn operation() -> impl Strategy<Value = String> {
    // None that closes a directory: a staged one is copied to be moved.
    let mode = proptest::sample::select(vec!["go=", "a+x", "go+w", "u=rwx,g=rx"]);
    prop_oneof![
        4 => (place(), 0..100_u8).prop_map(|(place, text)| format!("echo {text} >{place}")),
        2 => (place(), 0..100_u8).prop_map(|(place, text)| format!("echo {text} >>{place}")),
        3 => place().prop_map(|place| format!("mkdir -p {place}")),
        3 => place().prop_map(|place| format!("rm -rf {place}")),
        1 => place().prop_map(|place| format!("rmdir {place}")),
        4 => (place(), place()).prop_map(|(from, to)| format!("mv {from} {to}")),
        1 => (place(), place()).prop_map(|(from, to)| format!("mv -T --exchange {from} {to} || mv -T {from} {to}")),
        // What a copy of a directory into itself holds depends on the order of names.
        2 => (place(), place())
            .prop_filter("into itself", |(from, to)| !to.starts_with(from.trim_end_matches('\'')))
            .prop_map(|(from, to)| format!("cp -a {from} {to}")),
        1 => (place(), place()).prop_map(|(from, to)| format!("ln {from} {to}")),
        2 => place().prop_map(|to| format!("ln -sfn a {to}")),
        2 => (mode, place()).prop_map(|(mode, place)| format!("chmod {mode} {place}")),
        1 => place().prop_map(|place| format!("touch {place}")),
        1 => place().prop_map(|place| format!("truncate -s 0 {place}")),
    ]
}

/// All below a directory: names, kinds, permissions, contents and targets.
fn everything(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let meta = path.symlink_metadata().unwrap();
            let content = if meta.is_symlink() {
                format!("-> {}", fs::read_link(&path).unwrap().display())
            } else if meta.is_file() {
                fs::read_to_string(&path).unwrap()
            } else {
                String::new()
            };
            let name = path.strip_prefix(root).unwrap().display().to_string();
            found.push(format!("{name} {:o} {content:?}", meta.permissions().mode()));
            if meta.is_dir() {
                waiting.push(path);
            }
        }
    }
    found.sort();
    found
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(7), failure_persistence: None, ..ProptestConfig::with_cases(48) })]

    /// Where all is in scope, staging changes when things change and nothing else.
    #[test]
    fn a_workspace_is_afterwards_as_if_nothing_had_been_staged(
        // An overlay takes apart files that had several names before.
        tree in proptest::collection::vec(operation().prop_filter("hard", |line| !line.starts_with("ln '")), 0..16),
        operations in proptest::collection::vec(operation(), 1..16),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (direct, staged) = runtime.block_on(async {
            let fixture = Fixture::new().await;
            let script = |operations: &[String]| format!("exec 2>/dev/null; umask 022\n{}\ntrue", operations.join("\n"));
            for root in ["direct", "staged"] {
                fs::create_dir(fixture.at(root)).unwrap();
                let made = std::process::Command::new("bash")
                    .args(["-c", &script(&tree)]).current_dir(fixture.at(root)).status().unwrap();
                assert!(made.success());
            }
            assert_eq!(everything(&fixture.at("direct")), everything(&fixture.at("staged")));
            let command = |root: &str| Command { directory: fixture.at(root), ..fixture.command(&script(&operations)) };
            let confinement = Confinement { writable: vec![fixture.at("direct")], ..Confinement::default() };
            fixture.run(&command("direct"), &confinement).await.unwrap();
            let staging = fixture.stage_over(&["staged"], &All);
            fixture.run(&command("staged"), &staging.confinement).await.unwrap();
            let landed = staging.land(&All, true);
            assert_eq!(withheld(&landed), [""; 0], "{operations:?}");
            (everything(&fixture.at("direct")), everything(&fixture.at("staged")))
        });
        prop_assert_eq!(direct, staged);
    }
}
