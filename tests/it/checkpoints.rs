//! Checkpoints: what a task changed can be taken back to any earlier state, with its conversation or without; what the
//! user changed stays, and a restore can itself be undone.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};
use roo_engine::engine::{Engine, EngineError};
use roo_protocol::checkpoint::{
    CheckpointDiffParams, CheckpointRestoreParams, CheckpointRestoreResult, FileChangeKind, RestoreConflicts,
    RestoreScope, RestoreWhat,
};
use roo_protocol::ids::TaskId;
use roo_protocol::task::{SendWhen, TaskSendParams, TaskState};
use serde_json::{Value, json};

use crate::support::bounded_process::output_of;
use crate::support::client::{Client, Home, Options};
use crate::support::engine::Fixture;
use crate::support::project::Project;

const ARGUMENTS: [&str; 3] = ["--on-ask=allow", "--allow-write", "--format=ndjson"];

/// Writes, edits, moves and deletes, and a command.
const SCRIPT: &str = r#"
turns:
  - calls:
      - tool: write_to_file
        params: { path: new.txt, content: "new\n" }
      - tool: read_file
        params: { files: [{ path: kept.txt }, { path: gone.txt }] }
  - calls:
      - tool: apply_diff
        params:
          path: kept.txt
          diff: "<<<<<<< SEARCH\none\n=======\nONE\n>>>>>>> REPLACE\n"
  - calls: [{ tool: execute_command, params: { command: "echo more >> new.txt; rm gone.txt; echo made > made.txt" } }]
  - calls: [{ tool: attempt_completion, params: { result: Done. } }]
"#;

fn played() -> (Project, String) {
    played_in(&[("kept.txt", "one\ntwo\nthree\nfour\n"), ("gone.txt", "gone\n")], SCRIPT)
}

fn played_in(files: &[(&str, &str)], script: &str) -> (Project, String) {
    let project = Project::outside_temp(files);
    let task = play(&project, script);
    (project, task)
}

/// Plays a script in a project. Returns the id of its request.
fn play(project: &Project, script: &str) -> String {
    project.script(script);
    let mut command = project.program();
    command.args(["run", "Go.", "--script"]).arg(project.beside("script.yaml")).args(ARGUMENTS);
    let output = output_of(&mut command);
    assert!(output.status.success(), "{output:?}");
    let list = project.succeed(&["tasks", "list", "--json"]);
    let item: Value = serde_json::from_str(list.lines().next().unwrap()).unwrap();
    item["taskId"].as_str().unwrap().to_owned()
}

/// The files of a folder with their texts.
fn texts(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            found.insert(name, fs::read_to_string(&path).unwrap());
        }
    }
    found
}

fn checkpoints(project: &Project, task: &str) -> Vec<Value> {
    let list = project.succeed(&["tasks", "checkpoints", task, "--json"]);
    list.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn number(checkpoint: &Value) -> String {
    checkpoint["seq"].as_u64().unwrap().to_string()
}

#[test]
fn what_tools_and_commands_changed_is_listed_shown_restored_and_restored_again() {
    let (project, task) = played();
    let after = texts(&project.folder());
    let all = checkpoints(&project, &task);
    let summaries: Vec<&str> = all.iter().map(|one| one["summary"].as_str().unwrap()).collect();
    assert_eq!(summaries.len(), 3, "{summaries:?}");
    assert_eq!((summaries[0], summaries[1]), ("write_to_file new.txt", "apply_diff kept.txt"));
    let files = |checkpoint: &Value| -> Vec<(String, String)> {
        let files = checkpoint["files"].as_array().unwrap().iter();
        files.map(|file| (file["path"].as_str().unwrap().to_owned(), file["change"].to_string())).collect()
    };
    let mut by_command = files(&all[2]);
    by_command.sort();
    let expected = [("gone.txt", "deleted"), ("made.txt", "created"), ("new.txt", "changed")];
    assert_eq!(
        by_command,
        expected.map(|(path, change)| (path.to_owned(), format!("{change:?}"))),
        "{all:?}"
    );

    let shown = project.succeed(&["tasks", "restore", &task, &number(&all[1]), "--preview"]);
    assert!(shown.contains("-ONE\n+one\n") && shown.contains("+gone\n"), "{shown}");
    assert_eq!(texts(&project.folder()), after, "a preview changes nothing");

    let restored = project.succeed(&["tasks", "restore", &task, &number(&all[1]), "--yes"]);
    assert!(restored.starts_with("4 files restored.\n"), "{restored}");
    let expected = [("gone.txt", "gone\n"), ("kept.txt", "one\ntwo\nthree\nfour\n"), ("new.txt", "new\n")];
    let expected: BTreeMap<String, String> =
        expected.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
    assert_eq!(texts(&project.folder()), expected);

    // The restore is a checkpoint as well.
    let last = checkpoints(&project, &task).pop().unwrap();
    let undo = format!("To undo this: roo-lsp tasks restore {task} {} --what files\n", number(&last));
    assert!(restored.ends_with(&undo), "{restored} {last}");
    project.succeed(&["tasks", "restore", &task, &number(&last), "--yes"]);
    assert_eq!(texts(&project.folder()), after);
    let trace = project.succeed(&["trace", "query", "--json"]);
    assert!(trace.lines().any(|line| line.contains("restore (cli)")), "{trace}");
}

/// Moves files whose text stays the same.
const MOVES: &str = r#"
turns:
  - calls: [{ tool: read_file, params: { files: [{ path: a.txt }] } }]
  - calls:
      - tool: apply_patch
        params: { patch: "*** Begin Patch\n*** Update File: a.txt\n*** Move to: b.txt\n*** End Patch\n" }
  - calls: [{ tool: execute_command, params: { command: "mv c.txt d.txt" } }]
  - calls: [{ tool: attempt_completion, params: { result: Done. } }]
"#;

#[test]
fn moved_files_are_put_back_and_moved_again() {
    let (project, task) = played_in(&[("a.txt", "one\n"), ("c.txt", "two\n")], MOVES);
    let moved = texts(&project.folder());
    assert_eq!(moved.keys().collect::<Vec<_>>(), ["b.txt", "d.txt"]);
    let all = checkpoints(&project, &task);
    assert_eq!(all.len(), 2, "{all:?}");
    project.succeed(&["tasks", "restore", &task, &number(&all[0]), "--yes"]);
    assert_eq!(
        texts(&project.folder()).into_iter().collect::<Vec<_>>(),
        [("a.txt".to_owned(), "one\n".to_owned()), ("c.txt".to_owned(), "two\n".to_owned())]
    );
    let last = checkpoints(&project, &task).pop().unwrap();
    project.succeed(&["tasks", "restore", &task, &number(&last), "--yes"]);
    assert_eq!(texts(&project.folder()), moved);
}

/// Edits a line, and writes a file.
const EDITS: &str = r#"
turns:
  - calls: [{ tool: read_file, params: { files: [{ path: a.txt }] } }]
  - calls:
      - tool: search_and_replace
        params: { path: a.txt, search: "three", replace: "of  the model" }
      - tool: write_to_file
        params: { path: b.txt, content: "new  file\n" }
  - calls: [{ tool: attempt_completion, params: { result: Done. } }]
"#;

#[test]
fn what_a_formatter_makes_of_an_edit_is_part_of_it() {
    let text = "one\ntwo\nthree\nfour\nby  hand\n";
    let project = Project::outside_temp(&[("a.txt", text)]);
    let hook = json!({ "type": "command", "command": "sed -i 's/  */ /g' *.txt" });
    let hooks = json!({ "hooks": { "PostToolUse": [{ "matcher": "Edit|Write", "hooks": [hook] }] } });
    fs::write(project.beside("config/roo-lsp/hooks.json"), hooks.to_string()).unwrap();
    let task = play(&project, EDITS);
    let after = texts(&project.folder());
    assert_eq!(after["a.txt"], "one\ntwo\nof the model\nfour\nby hand\n");

    let blame = project.succeed(&["trace", "blame", "a.txt"]);
    let by_model =
        |line: &str| blame.lines().any(|found| found.contains("scripted") && found.ends_with(line));
    assert!(by_model("| of the model") && !by_model("| by hand") && !by_model("| four"), "{blame}");
    let blame = project.succeed(&["trace", "blame", "b.txt"]);
    assert!(blame.contains("scripted"), "{blame}");
    let trace = project.succeed(&["trace", "query", "--json"]);
    assert!(trace.contains(r#""tool_call":"hook""#), "{trace}");
    project.succeed(&["trace", "verify"]);

    let shown = project.succeed(&["tasks", "diff", &task]);
    assert!(shown.contains("+of the model") && !shown.contains("not in the file"), "{shown}");
    let first = number(&checkpoints(&project, &task)[0]);
    project.succeed(&["tasks", "restore", &task, &first, "--yes"]);
    assert_eq!(
        texts(&project.folder()).into_iter().collect::<Vec<_>>(),
        [("a.txt".to_owned(), text.to_owned())]
    );
}

/// Moves what an intent owns to names that it may not have, and to one that it may.
const FORBIDDEN_MOVES: &str = r#"
turns:
  - calls: [{ tool: select_active_intent, params: { intent_id: A } }]
  - calls:
      - tool: execute_command
        params: { command: "mv src/a.txt src/a.snap; mv src/b.txt src/c.txt; mv src/sub src/sub2; echo x > src/new.txt" }
  - calls: [{ tool: attempt_completion, params: { result: Done. } }]
"#;

#[test]
fn a_file_whose_new_name_is_not_allowed_is_back_under_its_old_one() {
    let intents = "active_intents:\n  - { id: A, name: a, status: IN_PROGRESS, owned_scope: ['src/**', '!**/*.snap'] }\n";
    let files = [
        (".orchestration/active_intents.yaml", intents),
        ("src/a.txt", "a\n"),
        ("src/b.txt", "b\n"),
        ("src/sub/x.txt", "x\n"),
        ("src/sub/deep/y.txt", "y\n"),
    ];
    let no_new_files = intents.replace("owned_scope", "enforce: [no_new_files], owned_scope");
    for (intents, is_new_allowed) in [(intents, true), (no_new_files.as_str(), false)] {
        let project = Project::outside_temp(&files);
        project.write(files[0].0, intents);
        project.configure("mode: code\nsandbox: { level: namespaces }\n");
        play(&project, FORBIDDEN_MOVES);
        let read = |name: &str| project.read(name);
        let names = ["src/a.txt", "src/a.snap", "src/b.txt", "src/c.txt", "src/new.txt"];
        let moved = if is_new_allowed { ["a\n", "", "", "b\n", "x\n"] } else { ["a\n", "", "b\n", "", ""] };
        assert_eq!(names.map(read), moved);
        let (sub, other) = if is_new_allowed { ("src/sub2", "src/sub") } else { ("src/sub", "src/sub2") };
        assert_eq!(
            (read(&format!("{sub}/x.txt")), read(&format!("{sub}/deep/y.txt"))),
            ("x\n".into(), "y\n".into())
        );
        assert!(!project.folder().join(other).exists());
        let log = fs::read_to_string(&project.logs()[0]).unwrap();
        assert!(log.contains("src/a.txt: it could not be moved to its new place"), "{log}");
        // And no checkpoint or record has it for deleted.
        let trace = project.succeed(&["trace", "query", "--path", "src/a.txt", "--json"]);
        assert_eq!(trace, "");
    }
}

/// Renames a directory, and then writes in it.
const MOVED_DIRECTORY: &str = r#"
turns:
  - calls: [{ tool: execute_command, params: { command: "mv src lib; mv lib/deep lib/inner; echo more >> lib/changed.txt" } }]
  - calls: [{ tool: attempt_completion, params: { result: Done. } }]
"#;

/// Removes and makes scripts.
const SCRIPTS: &str = r##"
turns:
  - calls: [{ tool: execute_command, params: { command: "rm run.sh plain.sh && echo '#!/bin/sh' > made.sh && chmod +x made.sh" } }]
  - calls: [{ tool: read_file, params: { files: [{ path: patched.sh }] } }]
  - calls:
      - tool: apply_patch
        params: { patch: "*** Begin Patch\n*** Delete File: patched.sh\n*** End Patch\n" }
  - calls: [{ tool: attempt_completion, params: { result: Done. } }]
"##;

#[test]
fn scripts_come_back_with_their_permission_to_be_executed() {
    use std::os::unix::fs::PermissionsExt as _;

    let text = "#!/bin/sh\n";
    let project = Project::outside_temp(&[("run.sh", text), ("patched.sh", text), ("plain.sh", text)]);
    for name in ["run.sh", "patched.sh"] {
        fs::set_permissions(project.folder().join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let task = play(&project, SCRIPTS);
    let modes = || -> BTreeMap<String, u32> {
        let names = texts(&project.folder()).into_keys();
        let mode =
            |name: &String| project.folder().join(name).metadata().unwrap().permissions().mode() & 0o777;
        names.map(|name| (name.clone(), mode(&name))).collect()
    };
    let expected = |modes: &[(&str, u32)]| -> BTreeMap<String, u32> {
        modes.iter().map(|(name, mode)| ((*name).to_owned(), *mode)).collect()
    };
    let known = checkpoints(&project, &task);
    project.succeed(&["tasks", "restore", &task, &number(&known[0]), "--yes"]);
    assert_eq!(modes(), expected(&[("patched.sh", 0o755), ("plain.sh", 0o644), ("run.sh", 0o755)]));
    let last = checkpoints(&project, &task).pop().unwrap();
    project.succeed(&["tasks", "restore", &task, &number(&last), "--yes"]);
    assert_eq!(modes(), expected(&[("made.sh", 0o755)]));
    let last = checkpoints(&project, &task).pop().unwrap();
    project.succeed(&["tasks", "restore", &task, &number(&last), "--yes"]);
    assert_eq!(modes(), expected(&[("patched.sh", 0o755), ("plain.sh", 0o644), ("run.sh", 0o755)]));
}

/// Makes files in new directories, and one in a directory that is there.
const NEW_DIRECTORIES: &str = r#"
turns:
  - calls: [{ tool: write_to_file, params: { path: new/deep/a.txt, content: "a\n" } }]
  - calls: [{ tool: execute_command, params: { command: "mkdir -p made/in && echo b > made/in/b.txt && echo c > there/c.txt" } }]
  - calls: [{ tool: write_to_file, params: { path: made/d.txt, content: "d\n" } }]
  - calls: [{ tool: attempt_completion, params: { result: Done. } }]
"#;

#[test]
fn the_directories_of_new_files_go_with_them_and_others_stay() {
    let project = Project::outside_temp(&[]);
    fs::create_dir(project.folder().join("there")).unwrap();
    let task = play(&project, NEW_DIRECTORIES);
    let directories = || {
        let at = |name: &str| project.folder().join(name).is_dir();
        ["new/deep", "new", "made/in", "made", "there"].map(at)
    };
    let known = checkpoints(&project, &task);
    // The directory of what is made later holds what was made before.
    project.succeed(&["tasks", "restore", &task, &number(&known[2]), "--yes"]);
    assert_eq!((directories(), project.read("made/in/b.txt").as_str()), ([true; 5], "b\n"));
    project.succeed(&["tasks", "restore", &task, &number(&known[0]), "--yes"]);
    assert_eq!(directories(), [false, false, false, false, true]);
    let last = checkpoints(&project, &task).pop().unwrap();
    project.succeed(&["tasks", "restore", &task, &number(&last), "--yes"]);
    assert_eq!((directories(), project.read("new/deep/a.txt").as_str()), ([true; 5], "a\n"));
    // What the user has put there stays, with its directory.
    project.write("made/in/mine.txt", "mine\n");
    let last = checkpoints(&project, &task).pop().unwrap();
    project.succeed(&["tasks", "restore", &task, &number(&last), "--yes"]);
    assert_eq!(directories(), [false, false, true, true, true]);
}

#[test]
fn a_directory_that_a_command_renamed_is_put_back_byte_for_byte() {
    for sandbox in ["sandbox: { level: namespaces }", "sandbox: { level: staged }", "sandbox: { level: off }"]
    {
        let files = [("src/mine.txt", "mine\n"), ("src/changed.txt", "one\n"), ("src/deep/x.txt", "x\n")];
        let project = Project::outside_temp(&files);
        project.configure(&format!("{sandbox}\n"));
        fs::write(project.folder().join("src/deep/data.bin"), b"\xff\x00\xfe").unwrap();
        let files = || files_and_links(&project.folder(), "");
        let before = files();
        let task = play(&project, MOVED_DIRECTORY);
        let after = files();
        assert_eq!(after["lib/changed.txt"], b"one\nmore\n", "{sandbox}");
        let blame = project.succeed(&["trace", "blame", "lib/mine.txt"]);
        assert!(sandbox.contains("off") || blame == " | mine\n", "{sandbox}: {blame}");
        let checkpoint = number(&checkpoints(&project, &task)[0]);
        let output = project.succeed(&["tasks", "restore", &task, &checkpoint, "--what", "files", "--yes"]);
        assert_eq!(files(), before, "{sandbox}: {output}");
        let last = number(&checkpoints(&project, &task).pop().unwrap());
        project.succeed(&["tasks", "restore", &task, &last, "--what", "files", "--yes"]);
        assert_eq!(files(), after, "{sandbox}");
    }
}

/// Has files, directories and links take each other's place.
const KINDS: &str = r#"
turns:
  - calls:
      - tool: execute_command
        params:
          command: "rm file; mkdir file; echo in > file/inner.txt; rm -r dir; echo f > dir; rm text; ln -s kept.txt text; rm link; rm link-2; echo plain > link-2; ln -s kept.txt new-link; rm link-3; ln -s dir link-3"
  - calls: [{ tool: attempt_completion, params: { result: Done. } }]
"#;

/// A project in which that was done, with what there was before and after.
fn kinds_changed(sandbox: &str) -> (Project, String, [BTreeMap<String, Vec<u8>>; 2]) {
    let files = [
        ("file", "file\n"),
        ("dir/a.txt", "a\n"),
        ("dir/deep/b.txt", "b\n"),
        ("text", "text\n"),
        ("kept.txt", "kept\n"),
    ];
    let project = Project::outside_temp(&files);
    project.configure(&format!("{sandbox}\n"));
    for name in ["link", "link-2", "link-3"] {
        std::os::unix::fs::symlink("kept.txt", project.folder().join(name)).unwrap();
    }
    let before = files_and_links(&project.folder(), "");
    let task = play(&project, KINDS);
    let after = files_and_links(&project.folder(), "");
    assert_eq!(after["text"], b"-> kept.txt");
    assert_eq!(after["file/inner.txt"], b"in\n");
    (project, task, [before, after])
}

/// The files and links of a folder, but for the server's own.
fn files_and_links(folder: &Path, below: &str) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder.join(below)).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{below}{}", entry.file_name().to_str().unwrap());
        let kind = entry.file_type().unwrap();
        match kind.is_dir() {
            true if [".roo", ".orchestration"].contains(&&*name) => {}
            true => found.extend(files_and_links(folder, &format!("{name}/"))),
            false if kind.is_symlink() => {
                let target = fs::read_link(entry.path()).unwrap();
                found.insert(name, format!("-> {}", target.display()).into_bytes());
            }
            false => drop(found.insert(name, fs::read(entry.path()).unwrap())),
        }
    }
    found
}

#[test]
fn files_directories_and_links_that_took_each_others_place_are_put_back() {
    for sandbox in ["sandbox: { level: namespaces }", "sandbox: { level: staged }"] {
        let (project, task, [before, after]) = kinds_changed(sandbox);
        // Each restore undoes the one before it.
        for expected in [&before, &after, &before] {
            let last = number(&checkpoints(&project, &task).pop().unwrap());
            let output = project.succeed(&["tasks", "restore", &task, &last, "--what", "files", "--yes"]);
            assert_eq!(files_and_links(&project.folder(), ""), *expected, "{sandbox}: {output}");
        }
    }
}

#[test]
fn a_file_of_the_users_in_a_directory_that_replaced_a_file_stays() {
    let (project, task, [before, _]) = kinds_changed("");
    project.write("file/mine.txt", "mine\n");
    let last = number(&checkpoints(&project, &task).pop().unwrap());
    let output = project.succeed(&["tasks", "restore", &task, &last, "--what", "files", "--yes"]);
    assert!(output.contains("it is a directory now"), "{output}");
    let now = files_and_links(&project.folder(), "");
    assert_eq!(now["file/mine.txt"], b"mine\n");
    assert_eq!(now["dir/a.txt"], before["dir/a.txt"]);
    assert_eq!(now["text"], before["text"]);
}

#[test]
fn a_kill_while_places_change_their_kind_loses_nothing() {
    let (project, task, [before, after]) = kinds_changed("");
    let checkpoint = number(&checkpoints(&project, &task).pop().unwrap());
    let mut kills = 0;
    for steps in (1..200).step_by(2) {
        let mut command = project.program();
        command.args(["tasks", "restore", &task, &checkpoint, "--what", "files", "--yes"]);
        let killed = !output_of(command.env("ROO_LSP_CRASH_AFTER_STEPS", steps.to_string())).status.success();
        kills += usize::from(killed);
        project.succeed(&["tasks", "restore", &task, &checkpoint, "--what", "files", "--yes"]);
        assert_eq!(files_and_links(&project.folder(), ""), before, "after {steps} steps");
        if !killed {
            break;
        }
        let last = number(&checkpoints(&project, &task).pop().unwrap());
        project.succeed(&["tasks", "restore", &task, &last, "--what", "files", "--yes"]);
        // What the killed one had done of it is not undone by that.
        let now = files_and_links(&project.folder(), "");
        for (path, content) in &now {
            assert!(
                after.get(path) == Some(content) || before.get(path) == Some(content),
                "{path} after {steps}"
            );
        }
    }
    assert!(kills > 3, "a restore takes only {kills} steps");
}

/// Deletes a file and moves another, neither in UTF-8.
const REMOVALS: &str = r#"
turns:
  - calls: [{ tool: read_file, params: { files: [{ path: latin.txt }, { path: wide.txt }] } }]
  - calls:
      - tool: apply_patch
        params: { patch: "*** Begin Patch\n*** Delete File: latin.txt\n*** Update File: wide.txt\n*** Move to: moved.txt\n*** End Patch\n" }
  - calls: [{ tool: attempt_completion, params: { result: Done. } }]
"#;

#[test]
fn files_that_are_not_utf_8_come_back_with_every_byte() {
    let project = Project::outside_temp(&[]);
    let latin = b"Stra\xdfe und B\xfccher\n".to_vec();
    let wide: Vec<u8> = "\u{feff}Straße\r\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    fs::write(project.folder().join("latin.txt"), &latin).unwrap();
    fs::write(project.folder().join("wide.txt"), &wide).unwrap();
    let task = play(&project, REMOVALS);
    let found = || {
        let names = ["latin.txt", "wide.txt", "moved.txt"];
        names.map(|name| fs::read(project.folder().join(name)).ok())
    };
    let (before, after) = ([Some(latin), Some(wide.clone()), None], [None, None, Some(wide)]);
    assert_eq!(found(), after);
    // Each restore undoes the one before it.
    for expected in [&before, &after, &before] {
        let last = checkpoints(&project, &task).pop().unwrap();
        project.succeed(&["tasks", "restore", &task, &number(&last), "--what", "files", "--yes"]);
        assert_eq!(found(), *expected);
    }
}

/// Replaces, removes, makes and converts files that are no text in UTF-8.
const BINARIES: &str = r#"
turns:
  - calls:
      - tool: execute_command
        params: { command: "printf '\\377\\000new' > data.bin; rm gone.bin; printf '\\376\\000' > made.bin; printf 'gr\\374n\\n' > latin.txt; printf secret >> token.bin" }
  - calls: [{ tool: attempt_completion, params: { result: Done. } }]
"#;

#[test]
fn what_commands_do_to_files_that_are_no_text_is_restored_by_bytes() {
    // With every kind of sandbox that there is: what is kept before a command comes from the supervisor, a stage or a shadow
    // repository.
    for sandbox in ["sandbox: { level: namespaces }", "sandbox: { level: staged }", "sandbox: { level: off }"]
    {
        let project = Project::outside_temp(&[]);
        project.configure(&format!("{sandbox}\n"));
        let token = format!("\u{0}ghp_{}", "a1B2c3D4e5F6g7H8i9".repeat(2));
        let before: [(&str, &[u8]); 4] = [
            ("data.bin", b"\xff\x00old"),
            ("gone.bin", b"\xfe\xff\xff"),
            ("latin.txt", b"gr\xfcn und blau\n"),
            ("token.bin", &[b"\xff", token.as_bytes()].concat()),
        ];
        for (name, bytes) in before {
            fs::write(project.folder().join(name), bytes).unwrap();
        }
        let task = play(&project, BINARIES);
        let read = |name: &str| fs::read(project.folder().join(name)).ok();
        assert_eq!(read("data.bin").unwrap(), b"\xff\x00new", "{sandbox}");
        let checkpoint = number(&checkpoints(&project, &task)[0]);
        let output = project.succeed(&["tasks", "restore", &task, &checkpoint, "--what", "files", "--yes"]);
        for (name, bytes) in &before[..3] {
            assert_eq!(read(name).as_deref(), Some(*bytes), "{sandbox} {name}: {output}");
        }
        assert_eq!(read("made.bin"), None, "{sandbox}: {output}");
        let [.., (_, secret)] = before;
        assert_eq!(
            read("token.bin").unwrap(),
            [secret, b"secret"].concat(),
            "what holds a secret is not kept"
        );
        assert!(output.contains("token.bin") || sandbox.contains("off"), "{sandbox}: {output}");
    }
}

#[test]
fn a_restore_without_an_answer_changes_nothing() {
    let (project, task) = played();
    let after = texts(&project.folder());
    let first = number(&checkpoints(&project, &task)[0]);
    let output = project.run(&["tasks", "restore", &task, &first]);
    assert!(!output.status.success());
    assert_eq!(texts(&project.folder()), after);
    let error = project.run(&["tasks", "restore", &task, "9999", "--yes"]);
    assert!(String::from_utf8_lossy(&error.stderr).contains("there is no event '9999'"), "{error:?}");
}

#[test]
fn the_users_lines_stay_and_conflicts_are_left_or_marked() {
    let (project, task) = played();
    let all = checkpoints(&project, &task);
    // One change elsewhere in the file, and one in the very line.
    project.write("kept.txt", "ONE\ntwo\nthree\nfour\nmine\n");
    project.write("new.txt", "mine\n");
    let shown = project.succeed(&["tasks", "restore", &task, &number(&all[1]), "--yes"]);
    assert!(shown.contains("restored"), "{shown}");
    assert_eq!(project.read("kept.txt"), "one\ntwo\nthree\nfour\nmine\n");
    assert_eq!(project.read("new.txt"), "mine\n", "a conflict changes nothing unasked");
    let marked = project.succeed(&["tasks", "restore", &task, &number(&all[2]), "--yes", "--mark-conflicts"]);
    // The first restore came later than this checkpoint, so it is undone too.
    assert!(marked.contains("2 files restored"), "{marked}");
    assert_eq!(project.read("kept.txt"), "ONE\ntwo\nthree\nfour\nmine\n");
    let text = project.read("new.txt");
    assert_eq!(text, "<<<<<<< current\nmine\n=======\nnew\n>>>>>>> restored\n");
}

/// Kills the program after every append to the log, and after every step of the journaled edit.
#[test]
fn a_kill_at_any_step_of_a_restore_leaves_the_files_before_or_after_it() {
    for (variable, least) in [("ROO_LSP_CRASH_AFTER_APPENDS", 1), ("ROO_LSP_CRASH_AFTER_STEPS", 5)] {
        let mut crashes = 0;
        for steps in 1.. {
            let (project, task) = played();
            let before = texts(&project.folder());
            let second = number(&checkpoints(&project, &task)[1]);
            let mut command = project.program();
            command.args(["tasks", "restore", &task, &second, "--yes"]).env(variable, steps.to_string());
            let killed = output_of(&mut command);
            let place = format!("{variable}={steps}");
            if killed.status.success() {
                break;
            }
            crashes += 1;
            // Whoever looks next settles it.
            let known = checkpoints(&project, &task);
            let now = texts(&project.folder());
            let is_restored = now != before;
            if is_restored {
                assert_eq!(project.read("kept.txt"), "one\ntwo\nthree\nfour\n", "{place}");
                assert_eq!(project.read("gone.txt"), "gone\n", "{place}");
                assert_eq!(now.len(), 3, "{place}: {now:?}");
                assert_eq!(known.len(), 4, "{place}");
                let trace = project.succeed(&["trace", "query", "--json"]);
                // A record for each file.
                assert_eq!(trace.matches("restore (cli)").count(), 4, "{place}: {trace}");
                project.succeed(&["tasks", "restore", &task, &number(&known[3]), "--yes"]);
                assert_eq!(texts(&project.folder()), before, "{place}");
            } else {
                assert_eq!(known.len(), 3, "{place}: {known:?}");
                project.succeed(&["tasks", "restore", &task, &second, "--yes"]);
                assert_eq!(project.read("kept.txt"), "one\ntwo\nthree\nfour\n", "{place}");
            }
        }
        assert!(crashes >= least, "{variable}: {crashes}");
    }
}

/// Reads a file, then changes two and makes one, all or none.
const PATCH: &str = r#"
turns:
  - calls: [{ tool: read_file, params: { files: [{ path: kept.txt }, { path: gone.txt }] } }]
  - calls:
      - tool: apply_patch
        params:
          patch: |
            *** Begin Patch
            *** Add File: new.txt
            +new
            *** Update File: kept.txt
            @@
            -one
            +ONE
            *** Delete File: gone.txt
            *** End Patch
  - calls: [{ tool: attempt_completion, params: { result: Done. } }]
"#;

#[test]
fn a_write_that_a_kill_interrupted_has_its_checkpoint() {
    let mut kills = 0;
    for steps in 1.. {
        let project = Project::outside_temp(&[("kept.txt", "one\ntwo\nthree\nfour\n")]);
        // Not UTF-8, which only the log still knows when it is gone.
        fs::write(project.folder().join("gone.txt"), b"Stra\xdfe und B\xfccher\n").unwrap();
        project.script(PATCH);
        let found =
            || ["kept.txt", "gone.txt", "new.txt"].map(|name| fs::read(project.folder().join(name)).ok());
        let before = found();
        let mut command = project.program();
        command.args(["run", "Go.", "--script"]).arg(project.beside("script.yaml")).args(ARGUMENTS);
        let killed = output_of(command.env("ROO_LSP_CRASH_AFTER_STEPS", steps.to_string()));
        if killed.status.success() {
            break;
        }
        kills += 1;
        let list = project.succeed(&["tasks", "list", "--json"]);
        let item: Value = serde_json::from_str(list.lines().next().unwrap()).unwrap();
        let task = item["taskId"].as_str().unwrap();
        let mut command = project.program();
        command
            .args(["tasks", "resume", task, "--script"])
            .arg(project.beside("script.yaml"))
            .args(ARGUMENTS);
        let resumed = output_of(&mut command);
        assert!(resumed.status.success(), "{steps}: {resumed:?}");
        let known = checkpoints(&project, task);
        assert_eq!(known.len(), 1, "killed after step {steps}: {known:?}");
        let restored = project.succeed(&["tasks", "restore", task, &number(&known[0]), "--yes"]);
        assert!(restored.starts_with("3 files restored.\n"), "killed after step {steps}: {restored}");
        assert_eq!(found(), before, "killed after step {steps}");
    }
    assert!(kills > 5, "a patch takes only {kills} steps");
}

#[test]
fn a_command_that_changes_hundreds_of_files_and_a_large_one_is_taken_back_whole() {
    let large = "some line of a large file\n".repeat(100_000);
    let mut files: Vec<(String, String)> =
        (0..150).map(|number| (format!("old-{number}.txt"), format!("old {number}\n"))).collect();
    files.push(("large.txt".to_owned(), large));
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let project = Project::outside_temp(&files);
    project.script(
        r#"
turns:
  - calls:
      - tool: execute_command
        params:
          command: "sed -i s/old/new/ old-*.txt; sed -i 1s/some/first/ large.txt; for i in $(seq 150); do echo $i > made-$i.txt; done"
  - calls: [{ tool: attempt_completion, params: { result: Done. } }]
"#,
    );
    let before = texts(&project.folder());
    let mut command = project.program();
    command.args(["run", "Go.", "--script"]).arg(project.beside("script.yaml")).args(ARGUMENTS);
    let output = output_of(&mut command);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(project.read("old-7.txt"), "new 7\n", "{output:?}");
    let list = project.succeed(&["tasks", "list", "--json"]);
    let item: Value = serde_json::from_str(list.lines().next().unwrap()).unwrap();
    let task = item["taskId"].as_str().unwrap();
    let known = checkpoints(&project, task);
    assert_eq!(known[0]["files"].as_array().unwrap().len(), 301);
    let restored = project.succeed(&["tasks", "restore", task, &number(&known[0]), "--yes"]);
    assert!(restored.starts_with("301 files restored.\n"), "{restored}");
    assert!(texts(&project.folder()) == before);
}

/// A server is killed when it has restored the files of both folders and before it has said so. The user changes one of them
/// before anybody looks.
#[tokio::test]
async fn a_finished_restore_counts_though_its_user_changed_a_file_after_the_kill() {
    let project = Arc::new(Project::new(&[("a.txt", "one\n")]));
    let second = project.beside("second");
    fs::create_dir(&second).unwrap();
    let other = second.canonicalize().unwrap().join("b.txt");
    fs::write(&other, "one\ntwo\nthree\n").unwrap();
    let script = json!({ "turns": [
        { "calls": [
            { "tool": "read_file", "params": { "files": [{ "path": "a.txt" }, { "path": other }] } },
        ] },
        { "calls": [
            { "tool": "write_to_file", "params": { "path": "a.txt", "content": "ONE\n" } },
            { "tool": "write_to_file", "params": { "path": other, "content": "ONE\ntwo\nthree\n" } },
        ] },
        { "calls": [{ "tool": "attempt_completion", "params": { "result": "Done." } }] },
    ] });
    let script = project.script(&script.to_string());
    let settings = json!({
        "profiles": { "default": { "provider": "scripted", "script": script } },
        "autoApprove": { "write": true, "read": true },
    });
    let fixture = Fixture::over_two(Arc::clone(&project), second.canonicalize().unwrap(), settings.clone());
    let mut watched = fixture.start("Go.").await;
    assert_eq!(watched.end().await, (TaskState::Completed, "Done.".to_owned()));
    let task = watched.task.clone();
    drop(watched);
    let first = fixture.engine.checkpoints(&task).await.unwrap().checkpoints[0].seq;
    let restore_seq = restored(&fixture.engine, &task, first).await.restored_as.unwrap();
    fixture.engine.shutdown().await;

    let log = project.logs().pop().unwrap();
    let text = fs::read_to_string(&log).unwrap();
    let end =
        text.lines().take_while(|line| !line.contains("restoreFinished")).map(|line| line.len() + 1).sum();
    fs::write(&log, &text.as_bytes()[..end]).unwrap();
    fs::write(&other, "one\ntwo\nthree\nmine\n").unwrap();

    let later = Fixture::over_two(Arc::clone(&project), second.canonicalize().unwrap(), settings);
    let known = later.engine.checkpoints(&task).await.unwrap().checkpoints;
    assert_eq!(known.last().unwrap().seq, restore_seq, "{known:#?}");
    assert_eq!(restored(&later.engine, &task, restore_seq).await.conflicts, []);
    assert_eq!(project.read("a.txt"), "ONE\n");
    assert_eq!(fs::read_to_string(&other).unwrap(), "ONE\ntwo\nthree\nmine\n");
    later.engine.shutdown().await;
}

/// A user's repository whose attributes name a filter, with an ignored file, a nested repository and a file with a secret.
fn hostile_project() -> Project {
    let files = [
        ("a.txt", "one\r\n"),
        ("b.txt", "b\n"),
        ("token.txt", "token = ghp_0123456789abcdefghijABCDEFGHIJ012345\n"),
        (".gitignore", "*.log\n"),
        (".gitattributes", "* filter=evil text eol=lf\n"),
        ("ignored.log", "log\n"),
        ("nested/file.txt", "nested\n"),
    ];
    let project = Project::outside_temp(&files);
    project.configure("sandbox: { level: off }\n");
    let line = "git init -q && git config filter.evil.clean 'touch pwned; cat' && git config core.fsmonitor 'touch pwned' \
                && cd nested && git init -q";
    let done = std::process::Command::new("bash").args(["-c", line]).current_dir(project.folder()).output();
    assert!(done.unwrap().status.success());
    project
}

const UNCONFINED: &str = r#"
turns:
  - calls:
      - tool: execute_command
        params:
          command: "echo two >> a.txt; rm b.txt; echo new > new.txt; echo x >> ignored.log; echo x >> nested/file.txt; echo x >> token.txt"
  - calls: [{ tool: attempt_completion, params: { result: Done. } }]
"#;

/// The bytes of all files below a directory, but for the file in which the program itself names its own directories.
fn bytes_below(directory: &Path) -> BTreeMap<std::path::PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(bytes_below(&path)),
            false if path.ends_with("info/exclude") => {}
            false => drop(found.insert(path.clone(), fs::read(&path).unwrap())),
        }
    }
    found
}

#[test]
fn a_command_without_a_sandbox_has_a_checkpoint_and_the_users_repository_takes_no_part() {
    let project = hostile_project();
    project.script(UNCONFINED);
    let (texts_before, git_before) = (texts(&project.folder()), bytes_below(&project.folder().join(".git")));
    let mut command = project.program();
    command.args(["run", "Go.", "--script"]).arg(project.beside("script.yaml")).args(ARGUMENTS);
    let output = output_of(&mut command);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(bytes_below(&project.folder().join(".git")), git_before);
    assert!(!project.folder().join("pwned").exists());
    let list = project.succeed(&["tasks", "list", "--json"]);
    let item: Value = serde_json::from_str(list.lines().next().unwrap()).unwrap();
    let task = item["taskId"].as_str().unwrap();
    let known = checkpoints(&project, task);
    let files: Vec<(&str, &str)> = (known[0]["files"].as_array().unwrap().iter())
        .map(|file| (file["path"].as_str().unwrap(), file["change"].as_str().unwrap()))
        .collect();
    assert_eq!(files, [("a.txt", "changed"), ("b.txt", "deleted"), ("new.txt", "created")]);
    let restored = project.succeed(&["tasks", "restore", task, &number(&known[0]), "--yes"]);
    assert!(restored.starts_with("3 files restored.\n"), "{restored}");
    let mut expected = texts_before;
    // What was not kept stays as the command left it.
    expected.insert("ignored.log".into(), "log\nx\n".into());
    expected.get_mut("token.txt").unwrap().push_str("x\n");
    assert_eq!(texts(&project.folder()), expected);
    assert_eq!(project.read("nested/file.txt"), "nested\nx\n");
}

/// A file that was there all the time and is ignored no more is no new file, which a restore would delete.
#[test]
fn a_file_that_is_ignored_no_more_is_not_taken_for_a_new_one() {
    let project = hostile_project();
    project.script(&UNCONFINED.replace("echo two >> a.txt; rm b.txt;", "rm .gitignore;"));
    let mut command = project.program();
    command.args(["run", "Go.", "--script"]).arg(project.beside("script.yaml")).args(ARGUMENTS);
    assert!(output_of(&mut command).status.success());
    let list = project.succeed(&["tasks", "list", "--json"]);
    let item: Value = serde_json::from_str(list.lines().next().unwrap()).unwrap();
    let task = item["taskId"].as_str().unwrap();
    let known = checkpoints(&project, task);
    project.succeed(&["tasks", "restore", task, &number(&known[0]), "--yes"]);
    assert_eq!(project.read("ignored.log"), "log\nx\n");
    assert_eq!(project.read(".gitignore"), "*.log\n");
}

#[test]
fn without_git_the_list_says_why_commands_have_no_checkpoints() {
    let project = Project::outside_temp(&[("a.txt", "one\n")]);
    project.configure("sandbox: { level: off }\n");
    project.script(UNCONFINED);
    let programs = project.beside("programs");
    fs::create_dir(&programs).unwrap();
    for name in ["bash", "sh"] {
        let found = ["/bin", "/usr/bin"].map(|directory| Path::new(directory).join(name));
        let found = found.iter().find(|path| path.exists()).unwrap();
        std::os::unix::fs::symlink(found, programs.join(name)).unwrap();
    }
    let program = |arguments: &[&str]| {
        let output = project.program().args(arguments).env("PATH", &programs).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let script = project.beside("script.yaml");
    program(&[&["run", "Go.", "--script", script.to_str().unwrap()][..], &ARGUMENTS].concat());
    assert_eq!(project.read("a.txt"), "one\ntwo\n");
    let list = project.succeed(&["tasks", "list", "--json"]);
    let item: Value = serde_json::from_str(list.lines().next().unwrap()).unwrap();
    assert_eq!(
        program(&["tasks", "checkpoints", item["taskId"].as_str().unwrap()]),
        "No checkpoints: no change of files is recorded for this task.\n\
         Commands that run without a sandbox have no checkpoints: git is not installed.\n"
    );
}

/// The user and the agent in turn: what each writes to which file; none deletes it.
#[derive(Clone, Debug)]
struct Act {
    by_agent: bool,
    file: usize,
    text: Option<String>,
}

const FILES: [&str; 3] = ["a.txt", "b.txt", "c.txt"];

fn acts() -> impl Strategy<Value = (Vec<Act>, usize)> {
    let act = (any::<bool>(), 0..FILES.len(), prop::option::weighted(0.85, "([abc]\n){0,5}"))
        .prop_map(|(by_agent, file, text)| Act { by_agent, file, text });
    (prop::collection::vec(act, 1..7), 0..7_usize)
}

/// A patch that makes a file hold this text; none for a file that is deleted.
fn patch(path: &str, now: Option<&str>, text: Option<&str>) -> Option<Value> {
    match (now, text) {
        (None, None) => None,
        (now, text) if now == text => None,
        (_, Some(text)) => {
            Some(json!({ "tool": "write_to_file", "params": { "path": path, "content": text } }))
        }
        (Some(_), None) => {
            let patch = format!("*** Begin Patch\n*** Delete File: {path}\n*** End Patch\n");
            Some(json!({ "tool": "apply_patch", "params": { "patch": patch } }))
        }
    }
}

fn restore(task: &TaskId, seq: u64, what: RestoreWhat) -> CheckpointRestoreParams {
    CheckpointRestoreParams {
        task_id: task.clone(),
        seq,
        what,
        scope: RestoreScope::Request,
        preview: false,
        conflicts: RestoreConflicts::Keep,
        digest: None,
    }
}

async fn restored(engine: &Engine, task: &TaskId, seq: u64) -> CheckpointRestoreResult {
    engine.restore(restore(task, seq, RestoreWhat::Files), "test").await.unwrap()
}

#[test]
fn after_any_restore_and_its_undoing_every_file_is_as_it_was() {
    let config =
        Config { cases: 24, rng_seed: RngSeed::Fixed(16), failure_persistence: None, ..Config::default() };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    TestRunner::new(config)
        .run(&acts(), |(acts, chosen)| {
            runtime.block_on(lived(&acts, chosen));
            Ok(())
        })
        .unwrap();
}

/// Lets user and agent act, then restores one of the checkpoints and undoes that.
async fn lived(acts: &[Act], chosen: usize) {
    let files = [("a.txt", "a\nb\nc\n"), ("b.txt", "b\n")];
    // What each act of the agent is to be is known once the user has acted; the script only has to name it.
    let mut state: BTreeMap<&str, Option<String>> = BTreeMap::new();
    for name in FILES {
        let text = files.iter().find(|(known, _)| *known == name).map(|(_, text)| (*text).to_owned());
        state.insert(name, text);
    }
    let mut turns = Vec::new();
    let mut steps: Vec<(bool, &str, Option<String>)> = Vec::new();
    for act in acts {
        let name = FILES[act.file];
        if act.by_agent {
            let Some(call) = patch(name, state[name].as_deref(), act.text.as_deref()) else { continue };
            let read = json!([{ "tool": "read_file", "params": { "files": [{ "path": name }] } }]);
            turns.push(json!({ "calls": read, "when": { "contains": format!("step {}.", steps.len()) } }));
            turns.push(json!({ "calls": [call] }));
            turns.push(
                json!({ "calls": [{ "tool": "attempt_completion", "params": { "result": "Done." } }] }),
            );
        }
        state.insert(name, act.text.clone());
        steps.push((act.by_agent, name, act.text.clone()));
    }
    let script = serde_json::to_string(&json!({ "turns": turns })).unwrap();
    let settings = json!({
        "autoApprove": { "write": true, "read": true },
        "modes": {},
    });
    let fixture = Fixture::scripted(&files, &script, settings);
    let folder = fixture.project.folder();
    let mut task = None;
    let mut snapshots: Vec<BTreeMap<String, String>> = Vec::new();
    for (index, (by_agent, name, text)) in steps.iter().enumerate() {
        if !by_agent {
            match text {
                Some(text) => fixture.project.write(name, text),
                // It may not be there.
                None => drop(fs::remove_file(folder.join(name))),
            }
            continue;
        }
        snapshots.push(texts(&folder));
        let prompt = format!("step {index}.");
        let mut watched = match &task {
            None => fixture.start(&prompt).await,
            Some(task) => {
                let seq = fixture.engine.get(task).await.unwrap().item.seq;
                let params = TaskSendParams {
                    task_id: TaskId::clone(task),
                    text: prompt,
                    images: vec![],
                    when: SendWhen::Now,
                };
                fixture.engine.send(params).await.unwrap();
                fixture.watch(task.clone(), seq).await
            }
        };
        let (state, reason) = watched.end().await;
        assert_eq!(state, TaskState::Completed, "{reason}");
        task = Some(watched.task.clone());
    }
    let Some(task) = task else { return };
    let all = fixture.engine.checkpoints(&task).await.unwrap().checkpoints;
    assert_eq!(all.len(), snapshots.len(), "{all:#?}");
    let chosen = chosen % all.len();
    let before = texts(&folder);
    let result = restored(&fixture.engine, &task, all[chosen].seq).await;
    assert_eq!(result.left_out, []);
    let after = texts(&folder);
    // Files that only the agent has changed since are as they were.
    let first_step = steps.iter().enumerate().filter(|(_, step)| step.0).nth(chosen).unwrap().0;
    for name in FILES {
        let by_user = steps[first_step..].iter().any(|(by_agent, changed, _)| !by_agent && *changed == name);
        if !by_user {
            assert_eq!(after.get(name), snapshots[chosen].get(name), "{name} {steps:?}");
        }
    }
    if let Some(seq) = result.restored_as {
        let undone = restored(&fixture.engine, &task, seq).await;
        assert_eq!(undone.conflicts, []);
    }
    assert_eq!(texts(&folder), before, "{steps:?}");
    fixture.engine.shutdown().await;
}

const TALK: &str = r#"
turns:
  - calls: [{ tool: write_to_file, params: { path: a.txt, content: "first\n" } }]
    when: { contains: "Make a." }
  - calls: [{ tool: attempt_completion, params: { result: Made a. } }]
    when: { contains: "a.txt" }
  - calls: [{ tool: write_to_file, params: { path: b.txt, content: "second\n" } }]
    when: { contains: "Make b." }
  - calls: [{ tool: attempt_completion, params: { result: Made b. } }]
    when: { contains: "b.txt" }
  - calls: [{ tool: write_to_file, params: { path: c.txt, content: "third\n" } }]
    when: { contains: "Make c.", notContains: "has restored files" }
  - calls: [{ tool: attempt_completion, params: { result: Made c. } }]
    when: { contains: "c.txt" }
"#;

async fn talk() -> (Fixture, TaskId) {
    let fixture = Fixture::scripted(&[], TALK, json!({ "autoApprove": { "write": true, "read": true } }));
    let mut watched = fixture.start("Make a.").await;
    assert_eq!(watched.end().await, (TaskState::Completed, "Made a.".to_owned()));
    let task = watched.task.clone();
    drop(watched);
    fixture.say(&task, "Make b.", "Made b.").await;
    (fixture, task)
}

#[tokio::test]
async fn the_conversation_goes_on_from_where_it_was_restored_to_also_after_a_restart() {
    let (fixture, task) = talk().await;
    let all = fixture.engine.checkpoints(&task).await.unwrap().checkpoints;
    let params = restore(&task, all[1].seq, RestoreWhat::Both);
    let result = fixture.engine.restore(params, "test").await.unwrap();
    // The second answer, its result, and the completion with its result; the user's message stays.
    assert_eq!(result.conversation.unwrap().dropped, 4);
    assert_eq!(texts(&fixture.project.folder()).keys().collect::<Vec<_>>(), ["a.txt"]);
    // The script is walked along the conversation, so `Make b.` is played again only where the model has forgotten it.
    fixture.engine.resume(&task).await.unwrap_err();
    fixture.say(&task, "Make b. once more", "Made b.").await;
    assert_eq!(fixture.project.read("b.txt"), "second\n");
    fixture.engine.shutdown().await;

    let settings = json!({
        "profiles": { "default": { "provider": "scripted", "script": fixture.project.beside("script.yaml") } },
        "autoApprove": { "write": true, "read": true },
    });
    let other = Fixture::beside(&fixture, settings);
    other.say(&task, "Make c.", "Made c.").await;
    let seq = result.restored_as.unwrap();
    let back = other.engine.restore(restore(&task, seq, RestoreWhat::Conversation), "test").await.unwrap();
    assert!(back.conversation.is_some() && back.files.is_empty());
    assert_eq!(other.engine.get(&task).await.unwrap().item.state, TaskState::Completed);
    other.engine.shutdown().await;
}

#[tokio::test]
async fn a_message_is_replaced_with_the_files_or_without_them() {
    let (fixture, task) = talk().await;
    let messages = fixture.engine.get(&task).await.unwrap().messages;
    let first = messages.iter().find(|message| message.text == "Make a.").unwrap().id.clone();
    let second = messages.iter().find(|message| message.text == "Make b.").unwrap().id.clone();
    let params = |message_id, text: &str, files| {
        serde_json::from_value(
            json!({ "taskId": task, "messageId": message_id, "text": text, "files": files }),
        )
        .unwrap()
    };
    let seq = fixture.engine.get(&task).await.unwrap().item.seq;
    fixture.engine.edit_message(params(second, "Make c.", false), "test").await.unwrap();
    let mut watched = fixture.watch(task.clone(), seq).await;
    assert_eq!(watched.end().await, (TaskState::Completed, "Made c.".to_owned()));
    drop(watched);
    assert_eq!(texts(&fixture.project.folder()).len(), 3, "the files stay");
    let seq = fixture.engine.get(&task).await.unwrap().item.seq;
    fixture.engine.edit_message(params(first, "Make b.", true), "test").await.unwrap();
    let mut watched = fixture.watch(task.clone(), seq).await;
    assert_eq!(watched.end().await, (TaskState::Completed, "Made b.".to_owned()));
    drop(watched);
    assert_eq!(texts(&fixture.project.folder()).keys().collect::<Vec<_>>(), ["b.txt"]);
    let title = fixture.engine.get(&task).await.unwrap().item.title;
    assert_eq!(title, "Make b.");
    fixture.engine.shutdown().await;
}

#[tokio::test]
async fn a_message_that_is_edited_is_answered_by_the_model_and_the_mode_chosen_since() {
    let project = Project::new(&[]);
    project.script(TALK);
    let better = "turns:\n  - mode: architect\n    calls: [{ tool: attempt_completion, params: { result: By the better model. } }]\n";
    fs::write(project.beside("better.yaml"), better).unwrap();
    let profile = |script| json!({ "provider": "scripted", "script": project.beside(script) });
    let settings = json!({
        "profile": "default",
        "profiles": { "default": profile("script.yaml"), "better": profile("better.yaml") },
        "autoApprove": { "write": true, "read": true },
    });
    let fixture = Fixture::new(project, settings);
    let mut watched = fixture.start("Make a.").await;
    assert_eq!(watched.end().await, (TaskState::Completed, "Made a.".to_owned()));
    let task = watched.task.clone();
    drop(watched);
    fixture.engine.select_profile(&task, "better").await.unwrap();
    fixture.engine.switch_mode(&task, "architect").await.unwrap();
    let snapshot = fixture.engine.get(&task).await.unwrap();
    let first = snapshot.messages.iter().find(|message| message.text == "Make a.").unwrap().id.clone();
    let params = json!({ "taskId": task, "messageId": first, "text": "Make b.", "files": false });
    fixture.engine.edit_message(serde_json::from_value(params).unwrap(), "test").await.unwrap();
    let mut watched = fixture.watch(task.clone(), snapshot.item.seq).await;
    assert_eq!(watched.end().await, (TaskState::Completed, "By the better model.".to_owned()));
    drop(watched);

    let all = fixture.engine.checkpoints(&task).await.unwrap().checkpoints;
    let params = restore(&task, all[0].seq, RestoreWhat::Conversation);
    fixture.engine.restore(params, "test").await.unwrap();
    assert_eq!(
        fixture.engine.get(&task).await.unwrap().item.mode,
        "code",
        "a mode belongs to its conversation"
    );
    fixture.engine.shutdown().await;
}

/// A server is killed when it has gone back to an earlier message, and before it has said so.
#[tokio::test]
async fn a_message_that_is_replaced_is_not_lost_with_its_server() {
    for files in [false, true] {
        let (fixture, task) = talk().await;
        let snapshot = fixture.engine.get(&task).await.unwrap();
        let second = snapshot.messages.iter().find(|message| message.text == "Make b.").unwrap().id.clone();
        let params = json!({ "taskId": task, "messageId": second, "text": "Make c.", "files": files });
        fixture.engine.edit_message(serde_json::from_value(params).unwrap(), "test").await.unwrap();
        let mut watched = fixture.watch(task.clone(), snapshot.item.seq).await;
        assert_eq!(watched.end().await, (TaskState::Completed, "Made c.".to_owned()));
        drop(watched);
        fixture.engine.shutdown().await;

        let log = fixture.project.logs().pop().unwrap();
        let text = fs::read_to_string(&log).unwrap();
        let before = text.lines().take_while(|line| !line.contains("restoreFinished"));
        let end = before.map(|line| line.len() + 1).sum();
        fs::write(&log, &text.as_bytes()[..end]).unwrap();
        fs::remove_file(fixture.project.folder().join("c.txt")).unwrap();

        let settings = json!({
            "profiles": { "default": { "provider": "scripted", "script": fixture.project.beside("script.yaml") } },
            "autoApprove": { "write": true, "read": true },
        });
        let later = Fixture::beside(&fixture, settings);
        later.engine.resume(&task).await.unwrap();
        let mut watched = later.watch(task.clone(), snapshot.item.seq).await;
        assert_eq!(watched.end().await, (TaskState::Completed, "Made c.".to_owned()));
        drop(watched);
        assert_eq!(fixture.project.read("c.txt"), "third\n");
        later.engine.shutdown().await;
    }
}

/// What the messages of the user in a log hold but their prompts.
fn openings(project: &Project) -> Vec<String> {
    let log = fs::read_to_string(project.logs().pop().unwrap()).unwrap();
    let records = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let said = records.filter(|record| record["event"]["type"] == "userSaid");
    let text = |record: Value| {
        let text = record["event"]["text"].as_str().unwrap().to_owned();
        let prompt = record["event"]["message"]["text"].as_str().unwrap().to_owned();
        text.split_once(&prompt).unwrap().1.to_owned()
    };
    said.map(text).collect()
}

#[tokio::test]
async fn a_first_message_that_is_replaced_twice_keeps_what_its_request_begins_with() {
    let (mut fixture, task) = talk().await;
    let settings = json!({
        "profiles": { "default": { "provider": "scripted", "script": fixture.project.beside("script.yaml") } },
        "autoApprove": { "write": true, "read": true },
    });
    // The first conversation has two requests of five items each, every later one has one.
    for (from, to, result, dropped) in [
        ("Make a.", "Make b.", "Made b.", 10),
        ("Make b.", "Make a.", "Made a.", 5),
        ("Make a.", "Make b.", "Made b.", 5),
    ] {
        let snapshot = fixture.engine.get(&task).await.unwrap();
        let message = snapshot.messages.iter().rfind(|message| message.text == from).unwrap().id.clone();
        let params = json!({ "taskId": task, "messageId": message, "text": to, "files": true });
        let params = serde_json::from_value(params).unwrap();
        let edited = fixture.engine.edit_message(params, "test").await.unwrap();
        assert_eq!(edited.conversation.unwrap().dropped, dropped, "{from} {to}");
        let mut watched = fixture.watch(task.clone(), snapshot.item.seq).await;
        assert_eq!(watched.end().await, (TaskState::Completed, result.to_owned()));
        drop(watched);
        fixture.engine.shutdown().await;
        fixture = Fixture::beside(&fixture, settings.clone());
    }
    let openings = openings(&fixture.project);
    assert!(openings[0].contains("URID") || openings[0].contains("task"), "{openings:?}");
    // The second message of the first conversation begins nothing.
    let [first, _, others @ ..] = openings.as_slice() else { panic!("{openings:?}") };
    assert_eq!(others, [first.clone(), first.clone(), first.clone()]);
    fixture.engine.shutdown().await;
}

#[test]
fn a_request_that_waits_is_cancelled_or_restored_from_a_terminal() {
    let project = Project::outside_temp(&[]);
    project.script(
        r#"
turns:
  - calls: [{ tool: write_to_file, params: { path: a.txt, content: "first\n" } }]
  - calls: [{ tool: ask_followup_question, params: { question: Go on?, follow_up: [{ text: Yes }] } }]
"#,
    );
    let run = || {
        let mut command = project.program();
        command.args(["run", "Go.", "--allow-write", "--script"]).arg(project.beside("script.yaml"));
        assert_eq!(output_of(&mut command).status.code(), Some(3));
        let list = project.succeed(&["tasks", "list", "--json"]);
        let item: Value = serde_json::from_str(list.lines().next().unwrap()).unwrap();
        assert_eq!(item["state"], "interrupted");
        item["urid"].as_str().unwrap().to_owned()
    };
    let state = |task: &str| {
        let shown = project.succeed(&["tasks", "show", task, "--json"]);
        serde_json::from_str::<Value>(&shown).unwrap()["state"].as_str().unwrap().to_owned()
    };
    let task = run();
    let known = checkpoints(&project, &task);
    let restored =
        project.succeed(&["tasks", "restore", &task, &number(&known[0]), "--what", "both", "--yes"]);
    assert!(restored.starts_with("1 file and the conversation restored.\n"), "{restored}");
    assert_eq!(texts(&project.folder()), BTreeMap::new());
    assert_eq!(state(&task), "cancelled");

    let task = run();
    assert_eq!(project.succeed(&["tasks", "cancel", &task]), format!("{task} is cancelled.\n"));
    assert_eq!(state(&task), "cancelled");
    let again = project.succeed(&["tasks", "cancel", &task]);
    assert_eq!(again, format!("{task} has ended already: cancelled.\n"));

    let interrupted = run();
    let asked = project.program().args(["tasks", "delete", &task]).output().unwrap();
    assert!(String::from_utf8_lossy(&asked.stderr).contains("nothing was changed"), "{asked:?}");
    let deleted = project.succeed(&["tasks", "delete", "--yes", &task, &interrupted, &task]);
    assert_eq!(deleted, format!("{task} is deleted.\n{interrupted} is deleted.\n"));
    let left = project.succeed(&["tasks", "list", "--json"]);
    assert!(!left.contains(&task) && !left.contains(&interrupted) && left.lines().count() == 1, "{left}");
    let gone = project.program().args(["tasks", "delete", "--yes", &task]).output().unwrap();
    assert_eq!(gone.status.code(), Some(1));
}

#[tokio::test]
async fn what_runs_is_not_restored_under_its_feet() {
    let fixture = Fixture::scripted(&[], TALK, json!({ "autoApprove": { "read": true } }));
    let mut watched = fixture.start("Make a.").await;
    watched
        .until(|event| match event {
            roo_protocol::event::Event::ApprovalRequested { .. } => Some(()),
            _ => None,
        })
        .await;
    let task = watched.task.clone();
    let error = fixture.engine.restore(restore(&task, 2, RestoreWhat::Files), "test").await.unwrap_err();
    assert!(matches!(error, EngineError::WrongState { .. }), "{error}");
    assert!(error.to_string().contains("cancel it"), "{error}");
    fixture.engine.shutdown().await;
}

#[tokio::test]
async fn two_checkpoints_are_compared() {
    let (fixture, task) = talk().await;
    let all = fixture.engine.checkpoints(&task).await.unwrap().checkpoints;
    assert_eq!(all[0].files[0].change, FileChangeKind::Created);
    let params = CheckpointDiffParams { task_id: task.clone(), from: all[0].seq, to: Some(all[1].seq) };
    let diff = fixture.engine.checkpoint_diff(&params).await.unwrap();
    assert_eq!((diff.files.len(), diff.files[0].path.as_str()), (1, "a.txt"));
    assert_eq!(diff.files[0].diff, "--- /dev/null\n+++ b/a.txt\n@@ -0,0 +1 @@\n+first\n");
    fixture.project.write("a.txt", "mine\n");
    let params = CheckpointDiffParams { task_id: task.clone(), from: all[0].seq, to: None };
    let diff = fixture.engine.checkpoint_diff(&params).await.unwrap();
    let after: Vec<_> = diff.files.iter().map(|file| file.after.as_deref().unwrap()).collect();
    assert_eq!(after, ["mine\n", "second\n"]);
    fixture.engine.shutdown().await;
}

#[test]
fn an_editor_restores_open_documents_with_what_is_not_saved() {
    let home = Home::playing(SCRIPT);
    home.configure("autoApprove: { write: true, read: true, execute: { mode: rules, allow: [[echo], [rm]] } }\nmode: code\n");
    fs::write(home.work("kept.txt"), "one\ntwo\nthree\nfour\n").unwrap();
    fs::write(home.work("gone.txt"), "gone\n").unwrap();
    let mut client = Client::start(&home, Options::typed());
    let uri = client.open(&home.work("kept.txt"), "one\ntwo\nthree\nfour\n");
    let task = client.start_task("Go.");
    client.wait_for("the end or a question", |message| {
        let event = &message["params"]["event"];
        event["type"] == "approval.requested" || event["state"] == "completed"
    });
    while client.seen.last().unwrap()["params"]["event"]["type"] == "approval.requested" {
        let asked = client.seen.last().unwrap()["params"]["event"].clone();
        let answer = json!({
            "approvalId": asked["approvalId"], "digest": asked["digest"], "optionId": "allow_once", "opened": true,
        });
        client.request("roo/approval/respond", answer);
        client.wait_for("the end or a question", |message| {
            let event = &message["params"]["event"];
            event["type"] == "approval.requested" || event["state"] == "completed"
        });
    }
    assert_eq!(client.documents[&uri].text, "ONE\ntwo\nthree\nfour\n");
    let saved =
        client.seen.iter().any(|message| message["params"]["event"]["message"]["say"] == "checkpoint_saved");
    assert!(saved);
    client.append(&uri, "mine, unsaved\n");

    let listed = client.request("roo/checkpoint/list", json!({ "taskId": task }));
    let first = listed["checkpoints"][0]["seq"].clone();
    let params =
        json!({ "taskId": task, "seq": first, "what": "files", "scope": "request", "preview": true });
    let preview = client.request("roo/checkpoint/restore", params);
    assert_eq!(preview["conflicts"], json!([]), "{preview}");
    let stale = json!({
        "taskId": task, "seq": first, "what": "files", "digest": format!("sha256:{}", "0".repeat(64)),
    });
    let error = client.refused("roo/checkpoint/restore", stale);
    assert_eq!(error["data"]["kind"], "mismatch", "{error}");
    let params = json!({ "taskId": task, "seq": first, "what": "files", "scope": "request", "digest": preview["digest"] });
    let restored = client.request("roo/checkpoint/restore", params);
    assert!(restored["restoredAs"].is_u64(), "{restored}");
    assert_eq!(client.documents[&uri].text, "one\ntwo\nthree\nfour\nmine, unsaved\n");
    assert!(!home.work("new.txt").exists());
    let finished = client.event("restore.finished");
    assert_eq!(finished["event"]["done"], true, "{finished}");

    let params = json!({ "taskId": task, "seq": restored["restoredAs"], "what": "files" });
    client.request("roo/checkpoint/restore", params);
    assert_eq!(client.documents[&uri].text, "ONE\ntwo\nthree\nfour\nmine, unsaved\n");
    assert!(home.work("new.txt").exists());
    assert_eq!(client.shut_down(), 0);
}
