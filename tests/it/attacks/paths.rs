//! Paths that lead elsewhere than they say (PATH).

use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use roo_text::position::Encoding;
use roo_workspace::{Documents, Purpose, Setup, Workspace};
use rustix::fs::{CWD, Mode, RenameFlags, mkfifoat, renameat_with};

use super::*;

#[test]
fn no_spelling_of_a_path_writes_outside() {
    let ground = Ground::writing();
    ground.link("ws/docs", "../out");
    ground.link("ws/settings.json", "../home/.bashrc");
    ground.link("ws/src/new.ts", "../../out/created.ts");
    ground.link("ws/chain", "docs");
    let neighbour = ground.at("ws-evil/x").display().to_string();
    for path in [
        neighbour.as_str(),
        "../ws-evil/x",
        "src/../../out/x",
        "src/./../..//out/x",
        "a/b/../../../out/x",
        "docs/a",
        "chain/a",
        "docs/../a",
        "settings.json",
        "src/new.ts",
        "/proc/self/cwd/../out/x",
        "/proc/self/root/tmp/x",
    ] {
        // Whoever allows whatever is asked can't allow this.
        let told = ground.put(path, &["--allow"]);
        assert!(told.verdict.starts_with("deny"), "{path}: {told:?}");
        let inserted = json!({ "path": path, "line": 0, "content": "x" });
        let told = ground.tool_with("insert_content", inserted, &["--allow"]);
        assert!(told.verdict.starts_with("deny"), "{path}: {told:?}");
        ground.assert_clean(path);
    }
    assert!(!ground.at("home/.bashrc").exists());
    assert!(ground.at("ws/docs").symlink_metadata().unwrap().is_symlink());
}

#[test]
fn every_tool_says_the_same_of_what_is_outside() {
    let ground = Ground::writing();
    for (tool, params) in [
        ("read_file", json!({ "path": "/etc/passwd" })),
        ("list_files", json!({ "path": "/etc" })),
        ("search_files", json!({ "path": "/etc", "regex": "root" })),
    ] {
        let told = ground.tool(tool, params);
        assert_eq!(told.verdict, "ask outside", "{tool}: {told:?}");
        assert!(told.text.contains("/etc") && !told.text.contains("root:"), "{tool}: {told:?}");
    }
    for (tool, params) in [
        ("write_to_file", json!({ "path": "/etc/roo-lsp-canary", "content": "x" })),
        ("insert_content", json!({ "path": "/etc/roo-lsp-canary", "line": 0, "content": "x" })),
        ("search_and_replace", json!({ "path": "/etc/passwd", "search": "root", "replace": "x" })),
        ("apply_diff", json!({ "path": "/etc/passwd", "diff": "x" })),
        ("execute_command", json!({ "command": "ls", "cwd": "/etc" })),
    ] {
        let told = ground.tool_with(tool, params, &["--allow"]);
        assert_eq!(told.verdict, "deny outside", "{tool}: {told:?}");
    }
    assert!(!Path::new("/etc/roo-lsp-canary").exists());
}

#[test]
fn a_home_or_a_variable_in_a_path_is_a_literal_name() {
    let ground = Ground::writing();
    for path in ["~/notes", "$HOME/notes", "${HOME}/notes", "%USERPROFILE%/notes"] {
        let told = ground.put(path, &["--allow"]);
        assert_eq!(told.verdict, "allow", "{path}: {told:?}");
        assert_eq!(ground.read(&format!("ws/{path}")), "planted\n", "{path}");
        assert!(!ground.at("home/notes").exists(), "{path}");
    }
    // Names that hold secrets count under any directory.
    assert_eq!(ground.put("~/.ssh/config", &[]).verdict, "ask secret");
}

#[test]
fn an_ignored_file_is_ignored_by_any_name_that_leads_to_it() {
    let ground = Ground::new();
    ground.write("ws/.rooignore", ".env\nclosed/\n");
    ground.write("ws/.env", "CANARY-SECRET\n");
    ground.write("ws/closed/a", "CANARY-SECRET\n");
    ground.link("ws/notes.txt", ".env");
    ground.link("ws/src/open", "../closed");
    fs::hard_link(ground.at("ws/.env"), ground.at("ws/hard.txt")).unwrap();
    fs::hard_link(ground.at("ws/closed/a"), ground.at("ws/src/hard.txt")).unwrap();
    for path in [".env", "notes.txt", "src/open/a", "src/../.env", "hard.txt", "src/hard.txt"] {
        let told = ground.tool_with("read_file", json!({ "path": path }), &["--allow"]);
        assert_eq!(told.verdict, "deny rooignore", "{path}: {told:?}");
    }
    let found = ground.tool("search_files", json!({ "path": ".", "regex": "CANARY" }));
    assert!(!found.text.contains("SECRET"), "{found:?}");
    let names = [".env", "notes.txt", "closed/a", "src/open/a", "hard.txt", "src/hard.txt"];
    for name in names {
        let told =
            ground.tool_with("execute_command", json!({ "command": format!("cat {name}") }), &["--allow"]);
        assert_eq!(told.verdict, "deny rooignore", "{name}: {told:?}");
    }
    // Where it can't be seen what a command reads, the sandbox hides it.
    let line = format!("for f in $(printf '%s ' {}); do cat \"$f\"; done; grep -r CANARY .", names.join(" "));
    let ran = ground.run(&line);
    assert!(!ran.text.contains("SECRET"), "{ran:?}");
}

/// A directory is exchanged for a link to the outside, as fast as that goes, while a file in it is written.
#[tokio::test]
async fn nothing_is_written_outside_while_a_directory_turns_into_a_link_and_back() {
    let ground = Ground::new();
    fs::create_dir(ground.at("ws/src/d")).unwrap();
    ground.link("ws/src/l", "../../out");
    let workspace = Workspace::open(Setup {
        folders: vec![ground.at("ws")],
        state_directory: ground.at("state"),
        documents: Arc::new(Documents::default()),
        editor: None,
        encoding: Encoding::Utf8,
    })
    .unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let (from, to, ended) = (ground.at("ws/src/d"), ground.at("ws/src/l"), Arc::clone(&stop));
    let swapper = std::thread::spawn(move || {
        let mut swaps = 0_u32;
        while !ended.load(Ordering::Relaxed) {
            renameat_with(CWD, &from, CWD, &to, RenameFlags::EXCHANGE).unwrap();
            swaps += 1;
        }
        swaps
    });
    let (mut written, mut refused) = (0, 0);
    let end = Instant::now() + Duration::from_secs(2);
    while Instant::now() < end {
        let place = workspace.resolve("src/d/f", Purpose::Write);
        let inside = place.ok().filter(|place| place.absolute().starts_with(ground.at("ws")));
        let Some(place) = inside else {
            refused += 1;
            continue;
        };
        let text = format!("{written}\n");
        let known = workspace.read_for_edit(&place).await.ok().map(|file| file.digest);
        match workspace.write(&place, known, &text, "attack").await {
            Ok(_) => written += 1,
            Err(_) => refused += 1,
        }
    }
    stop.store(true, Ordering::Relaxed);
    let swaps = swapper.join().unwrap();
    ground.assert_clean("the race");
    assert!(written > 0 && refused > 0 && swaps > 100, "{written} written, {refused} refused, {swaps} swaps");
}

#[test]
fn names_that_deceive_are_refused_or_shown_as_they_are() {
    let ground = Ground::writing();
    for path in ["src/a\nb.ts", "src/\u{1b}[2Ka.ts", "src/a\u{0}b", "src/a\u{9b}b", ""] {
        let told = ground.put(path, &["--allow"]);
        assert!(told.verdict.starts_with("deny"), "{path:?}: {told:?}");
        assert!(!told.text.contains('\u{1b}'), "{told:?}");
    }
    for (path, shown) in [
        ("src/\u{202e}gnp.ts", "src/<U+202E>gnp.ts"),
        ("src/a\u{200b}b.ts", "src/a<U+200B>b.ts"),
        (".roo\\mcp.json", ".roo\\mcp.json"),
        ("..\\out\\x", "..\\out\\x"),
    ] {
        let told = ground.put(path, &[]);
        assert!(told.verdict.starts_with("ask"), "{path:?}: {told:?}");
        assert!(told.text.contains(shown), "{path:?}: {told:?}");
    }
    // A leading dash is a name like any other: no program takes it for an option.
    assert_eq!(ground.put("src/-rf", &[]).verdict, "allow");
    assert_eq!(ground.read("ws/src/-rf"), "planted\n");
    let found =
        ground.tool("search_files", json!({ "path": "src", "regex": "planted", "file_pattern": "-rf" }));
    assert!(found.text.contains("-rf"), "{found:?}");
    ground.assert_clean("odd names");
}

#[test]
fn a_directory_to_start_in_never_widens_what_a_command_may_write() {
    let ground = Ground::new();
    ground.link("ws/src/link", "../../out");
    let out = ground.at("out").display().to_string();
    for cwd in [out.as_str(), "src/link", "../..", "../out", "/"] {
        let run = json!({ "command": "touch x", "cwd": cwd });
        let told = ground.tool_with("execute_command", run, &["--allow"]);
        assert!(told.verdict.starts_with("deny"), "{cwd}: {told:?}");
        ground.assert_clean(cwd);
    }
    let told = ground.run("cd ../out && touch x; cd src/link && touch x; touch ../out/x src/link/x");
    ground.assert_clean(&told.text);
}

#[test]
fn a_patch_changes_the_one_file_that_it_is_for_or_nothing() {
    let ground = Ground::writing();
    ground.write("ws/a.txt", "one\n");
    let block = "<<<<<<< SEARCH\none\n=======\ntwo\n>>>>>>> REPLACE\n";
    let home = ground.at("home/.zshrc").display().to_string();
    for diff in [
        format!("--- a/../../x\n+++ {home}\n@@ -1 +1 @@\n-one\n+two\n"),
        "*** Begin Patch\n*** Update File: ../out/x\n+two\n*** End Patch\n".to_owned(),
        format!("{block}<<<<<<< SEARCH\nmissing\n=======\nx\n"),
    ] {
        let told = ground.tool_with("apply_diff", json!({ "path": "a.txt", "diff": diff }), &["--allow"]);
        assert!(told.verdict.starts_with("deny"), "{diff}: {told:?}");
        assert_eq!(ground.read("ws/a.txt"), "one\n", "{diff}");
    }
    // Several files in one call: not our format, so nothing of it happens.
    let several = json!({ "args": { "file": [
        { "path": "a.txt", "diff": { "content": block } }, { "path": "../out/x", "diff": { "content": block } },
    ] } });
    let told = ground.tool_with("apply_diff", several, &["--allow"]);
    assert!(told.verdict.starts_with("deny"), "{told:?}");
    assert_eq!(ground.read("ws/a.txt"), "one\n");
    // Headers around a good block are no targets.
    let headed = format!("--- a/a.txt\n+++ {home}\n{block}");
    ground.tool_with("apply_diff", json!({ "path": "a.txt", "diff": headed }), &["--allow"]);
    assert!(!ground.at("home/.zshrc").exists());
    ground.assert_clean("patches");
}

#[test]
fn a_patch_of_several_files_changes_all_of_them_or_none() {
    let ground = Ground::new();
    let gets = "profile: p\nprofiles: { p: { provider: openai, model: m, includedTools: [apply_patch] } }\n";
    ground.settings(&format!("autoApprove: {{ write: true }}\n{gets}"));
    ground.write("ws/a.txt", "one\n");
    ground.write("ws/b.txt", "one\n");
    ground.link("ws/away", ground.at("out"));
    let home = ground.at("home/.zshrc").display().to_string();
    let good = "*** Update File: a.txt\n-one\n+two\n";
    let patch = |body: &str| {
        let patch = format!("*** Begin Patch\n{body}*** End Patch\n");
        ground.tool_with("apply_patch", json!({ "patch": patch }), &["--allow"])
    };
    for bad in [
        "*** Add File: ../../x\n+x\n".to_owned(),
        format!("*** Add File: {home}\n+x\n"),
        "*** Add File: away/x\n+x\n".to_owned(),
        "*** Update File: ../ws-evil/x\n-x\n+y\n".to_owned(),
        "*** Update File: b.txt\n*** Move to: ../out/b.txt\n".to_owned(),
        format!("*** Update File: b.txt\n*** Move to: {home}\n"),
        "*** Delete File: ../ws-evil/x\n".to_owned(),
        "*** Update File: b.txt\n-missing\n+x\n".to_owned(),
        format!("--- a/../../x\n+++ {home}\n@@ -1 +1 @@\n-one\n+two\n"),
    ] {
        // Wherever the bad part stands, nothing of the good one happens.
        for body in [format!("{good}{bad}"), format!("{bad}{good}")] {
            let told = patch(&body);
            assert!(told.verdict.starts_with("deny"), "{body}: {told:?}");
            assert_eq!((ground.read("ws/a.txt"), ground.read("ws/b.txt")), ("one\n".into(), "one\n".into()));
        }
    }
    assert!(!ground.at("home/.zshrc").exists() && !ground.at("x").exists());
    ground.assert_clean("patches of several files");
    let told = patch(good);
    assert_eq!(told.verdict, "allow", "{told:?}");
    assert_eq!(ground.read("ws/a.txt"), "two\n");
}

#[test]
fn what_is_no_plain_file_is_refused_at_once() {
    let ground = Ground::new();
    mkfifoat(CWD, ground.at("ws/fifo"), Mode::RUSR | Mode::WUSR).unwrap();
    let _socket = UnixListener::bind(ground.at("ws/sock")).unwrap();
    ground.link("ws/zero", "/dev/zero");
    ground.link("ws/loop", "loop");
    ground.write("ws/a.txt", "needle\n");
    let begin = Instant::now();
    for path in ["fifo", "sock", "zero", "loop", "src", "/dev/zero"] {
        let told = ground.tool_with("read_file", json!({ "path": path }), &["--allow"]);
        assert_ne!(told.code, Some(0), "{path}: {told:?}");
        let told = ground.put(path, &["--allow"]);
        assert!(told.verdict.starts_with("deny"), "{path}: {told:?}");
    }
    let found = ground.tool("search_files", json!({ "path": ".", "regex": "needle" }));
    assert!(found.text.contains("a.txt"), "{found:?}");
    ground.tool("list_files", json!({ "path": ".", "recursive": true }));
    assert!(begin.elapsed() < Duration::from_secs(14), "{:?} for 14 calls", begin.elapsed());
}

#[test]
fn a_scope_covers_what_it_names_and_nothing_that_resembles_it() {
    let ground = Ground::writing();
    ground.intents(&["src/**"]);
    let intent = ["--allow", "--intent", "INT-1"];
    ground.write("ws/README.md", "read me\n");
    ground.link("ws/src/link.md", "../README.md");
    for path in [
        "src",
        "src-evil/x",
        "SRC/x",
        "src/.hidden/x",
        "src/../README.md",
        "src/../x",
        "src/link.md",
        "other/x",
    ] {
        let told = ground.put(path, &intent);
        assert!(told.verdict.starts_with("deny"), "{path}: {told:?}");
    }
    assert_eq!(ground.read("ws/README.md"), "read me\n");
    for name in ["src-evil", "SRC", "src/.hidden", "x", "other"] {
        assert!(!ground.at("ws").join(name).exists(), "{name}");
    }
    assert_eq!(ground.put("src/deep/x", &intent).verdict, "allow");
    let run =
        json!({ "command": "echo x >README.md; mkdir src-evil; rm -rf src-evil README.md; touch src/ok x" });
    let told = ground.tool_with("execute_command", run, &intent);
    assert_eq!(ground.read("ws/README.md"), "read me\n", "{told:?}");
    assert!(ground.at("ws/src/ok").exists() && !ground.at("ws/x").exists(), "{told:?}");
}

#[test]
fn a_bad_pattern_grants_nothing() {
    let patterns =
        ["../**", "/**", "", "**/../x", "src/{a", "[", "!only-negative", "~/**", "src/\u{0}", "a\\..\\b"];
    let ground = Ground::writing();
    ground.intents(&patterns);
    for (number, pattern) in (1..).zip(patterns) {
        for path in ["x", "src/x", "only-negative"] {
            let told = ground.put(path, &["--allow", "--intent", &format!("INT-{number}")]);
            assert_ne!(told.verdict, "allow", "{pattern:?} {path}: {told:?}");
            assert_ne!(told.code, Some(0), "{pattern:?} {path}: {told:?}");
            assert!(!ground.at("ws").join(path).exists(), "{pattern:?} {path}");
        }
    }
    assert_eq!(ground.put("x", &["--allow"]).verdict, "deny intent");
}

#[test]
fn a_protected_name_is_protected_in_any_spelling() {
    let ground = Ground::writing();
    for path in
        [".ROO/mcp.json", ".Git/hooks/pre-commit", ".VSCode/Settings.JSON", "sub/.gIt/config", "Agents.MD"]
    {
        let told = ground.put(path, &[]);
        assert_eq!(told.verdict, "ask protected", "{path}: {told:?}");
    }
    for path in [
        ".roo./mcp.json",
        ".roo::$INDEX_ALLOCATION/mcp.json",
        ".g\u{200c}it/config",
        // Full-width letters, dots and slashes, ligatures and mathematical letters.
        "\u{ff0e}\u{ff52}\u{ff4f}\u{ff4f}/mcp.json",
        ".roo\u{ff0f}mcp.json",
        "\u{2024}git/hooks/pre-commit",
        "\u{ff21}GENTS.md",
        ".\u{1d420}it/config",
    ] {
        let told = ground.put(path, &[]);
        assert_ne!(told.verdict, "allow", "{path}: {told:?}");
    }
}

#[test]
fn a_link_that_each_process_has_for_itself_leads_nowhere() {
    let ground = Ground::new();
    ground.write("ws/a.txt", "inside");
    symlink("/proc/self/cwd", ground.at("ws/here")).unwrap();
    ground.settings("autoApprove: { write: true, execute: { allow: [[cat], ['true']] } }\n");
    assert_eq!(ground.tool("execute_command", json!({ "command": "cat <a.txt" })).verdict, "allow");
    for path in ["/proc/self/cwd/a.txt", "/proc/thread-self/root/etc/passwd", "here/a.txt", "/dev/stdin"] {
        let told = ground.tool_with("read_file", json!({ "path": path }), &["--allow"]);
        assert!(!told.verdict.starts_with("allow") && !told.text.contains("inside"), "{path}: {told:?}");
        assert!(told.text.contains("another target in each process"), "{path}: {told:?}");
        for command in [format!("cat <{path}"), format!("cat {path}"), format!("true >>{path}")] {
            let told = ground.tool("execute_command", json!({ "command": command }));
            assert!(told.verdict.starts_with("ask"), "{command}: {told:?}");
        }
    }
    for command in ["cat </dev/tcp/127.0.0.1/80", "cat </dev/udp/127.0.0.1/80", "cat /dev/tcp/127.0.0.1/80"] {
        let told = ground.tool("execute_command", json!({ "command": command }));
        assert!(told.verdict.starts_with("ask"), "{command}: {told:?}");
    }
}
