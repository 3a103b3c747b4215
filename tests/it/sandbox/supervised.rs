//! What the supervisor of a command keeps and tells.

use roo_sandbox::exec::sandbox::{BeforeImage, Capture, Journal, Substitute};

use super::*;

/// Runs a line under a supervisor that keeps what is below `ws`, but not below `ws/target`.
async fn watched(fixture: &Fixture, line: &str) -> (Journal, String) {
    let directory = fixture.at("captures");
    fs::create_dir(&directory).unwrap();
    let capture = Capture {
        directory: directory.clone(),
        roots: vec![fixture.at("ws")],
        except: vec![fixture.at("ws/target")],
        repositories: vec![],
    };
    let confinement = Confinement { capture: Some(capture), ..fixture.confinement() };
    let (status, output) = fixture.run(&fixture.command(line), &confinement).await.unwrap();
    assert_eq!(status, Status::Code(0), "{output}");
    (Journal::read(&directory).unwrap(), output)
}

/// Path below the workspace, content and permissions of what was kept.
fn kept(fixture: &Fixture, journal: &Journal) -> Vec<String> {
    let line = |image: &BeforeImage| {
        let content = journal.content(image).map(|bytes| String::from_utf8(bytes).unwrap());
        let content =
            content.or_else(|| Some(format!("-> {}", String::from_utf8_lossy(image.target.as_ref()?))));
        let path = image.path.strip_prefix(fixture.at("ws")).unwrap_or(&image.path).display();
        format!("{path} {} {:o}", content.as_deref().unwrap_or("-"), image.mode & 0o777)
    };
    let mut lines: Vec<String> = journal.images.iter().map(line).collect();
    lines.sort();
    lines
}

#[tokio::test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
async fn what_a_command_changes_is_kept_as_it_was() {
    let fixture = Fixture::new().await;
    for name in
        ["append", "truncate", "replace", "remove", "move", "mode", "mode-then-write", "update", "read"]
    {
        fs::write(fixture.at("ws/src").join(name), name).unwrap();
    }
    std::os::unix::fs::symlink("read", fixture.at("ws/src/link")).unwrap();
    std::os::unix::fs::symlink("append", fixture.at("ws/src/to-append")).unwrap();
    let (journal, _) = watched(
        &fixture,
        "cd src; echo more >>to-append; echo more >>append; truncate -s 1 truncate; echo x >new; mv new replace; \
         rm remove; mv move moved; chmod 600 mode; chmod 755 mode-then-write; echo y >mode-then-write; \
         python3 -c 'open(\"update\", \"r+\").write(\"U\")'; cat read link >/dev/null; rm link; echo z >>moved",
    )
    .await;
    let expected = [
        "src/append append 644",
        "src/link -> read 777",
        "src/mode - 644",
        "src/mode-then-write - 644",
        "src/mode-then-write mode-then-write 755",
        "src/move move 644",
        "src/remove remove 644",
        "src/replace replace 644",
        "src/truncate truncate 644",
        "src/update update 644",
    ];
    let found: Vec<String> =
        kept(&fixture, &journal).into_iter().filter(|line| !line.starts_with("src/new ")).collect();
    assert_eq!(found, expected);
    assert_eq!(journal.refused, [""; 0].map(PathBuf::from));
}

#[tokio::test]
async fn what_is_in_a_directory_that_moved_is_kept_where_it_was() {
    let fixture = Fixture::new().await;
    fs::create_dir_all(fixture.at("ws/src/d/inner")).unwrap();
    fs::write(fixture.at("ws/src/d/inner/x"), "x").unwrap();
    fs::write(fixture.at("ws/src/d/y"), "y").unwrap();
    let (journal, _) = watched(
        &fixture,
        "cd src; mv d/inner inner; mv d e; mv inner e/again; mv e f; echo more >>f/again/x; echo more >>f/y",
    )
    .await;
    let ws = |name: &str| fixture.at("ws/src").join(name);
    let found: Vec<String> =
        kept(&fixture, &journal).into_iter().filter(|line| !line.contains(" - ")).collect();
    assert_eq!(found, ["src/d/inner/x x 644", "src/d/y y 644"]);
    let moved = journal.moved_directories.into_iter().map(|directory| (directory.from, directory.to));
    assert_eq!(
        moved.collect::<Vec<_>>(),
        [
            (ws("d/inner"), ws("inner")),
            (ws("d"), ws("e")),
            (ws("d/inner"), ws("e/again")),
            (ws("d"), ws("f")),
            (ws("d/inner"), ws("f/again")),
        ]
    );
}

#[tokio::test]
async fn what_a_command_may_not_write_is_told_by_name() {
    let fixture = Fixture::new().await;
    let (journal, output) = watched(
        &fixture,
        "echo x >.vscode/settings.json; echo x >../out/kept.txt; echo x >../out/new.txt; rm AGENTS.md; \
         mv ../out/kept.txt src/; echo x >../home/.netrc; mkdir target; echo x >target/a; echo y >target/a; true",
    )
    .await;
    let refused = ["ws/.vscode/settings.json", "out/kept.txt", "out/new.txt", "ws/AGENTS.md", "home/.netrc"];
    assert_eq!(journal.refused, refused.map(|name| fixture.at(name)), "{output}");
    assert_eq!(journal.images, []);
}

#[tokio::test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
async fn a_file_gets_no_second_name_where_nobody_looks() {
    let fixture = Fixture::new().await;
    let line = "mkdir target new; ln src/a.txt target/x; ln src/a.txt new/x; ln src/a.txt src/b.txt && echo beside; \
                echo y >target/y; ln target/y target/z && echo within; ln target/y target/z; \
                python3 -c 'import os; f=os.open(\"src/a.txt\", 0); os.link(f\"/proc/self/fd/{f}\", \"target/x\")'; \
                ls target new";
    let (_, output) = watched(&fixture, line).await;
    assert!(output.contains("beside") && output.contains("within"), "{output}");
    assert_eq!(output.matches("Invalid cross-device link").count(), 3, "{output}");
    assert!(output.ends_with("new:\n\ntarget:\ny\nz\n"), "{output}");
}

#[tokio::test]
async fn a_private_copy_is_shown_in_place_of_a_file_and_can_be_replaced_by_name() {
    let fixture = Fixture::new().await;
    fs::create_dir(fixture.at("ws/.git")).unwrap();
    for (name, text) in
        [("ws/.git/config", "theirs"), ("config", "ours"), ("ws/rc", "token"), ("rc", "no token")]
    {
        fs::write(fixture.at(name), text).unwrap();
    }
    let substitute = |place: &str, source: &str, is_writable| Substitute {
        place: fixture.at(place),
        source: fixture.at(source),
        is_writable,
    };
    let confinement = Confinement {
        substitutes: vec![substitute("ws/.git/config", "config", true), substitute("ws/rc", "rc", false)],
        ..fixture.confinement()
    };
    let line = "cat .git/config rc; echo next >.git/config.lock; mv .git/config.lock .git/config; ls .git; \
                cat .git/config; echo last >>.git/config; echo x >rc || rm rc || echo both are refused";
    let (_, output) = fixture.run(&fixture.command(line), &confinement).await.unwrap();
    assert!(output.starts_with("oursno tokenconfig\nnext\n"), "{output}");
    assert!(output.ends_with("both are refused\n"), "{output}");
    let read = |name: &str| fs::read_to_string(fixture.at(name)).unwrap();
    assert_eq!((read("ws/.git/config"), read("config")), ("theirs".into(), "next\nlast\n".into()));
    assert_eq!((read("ws/rc"), read("rc")), ("token".into(), "no token".into()));
}

#[tokio::test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
async fn a_program_that_signals_itself_all_the_time_is_not_held_up() {
    let fixture = Fixture::new().await;
    let program = "import signal, os\n\
                   signal.signal(signal.SIGALRM, lambda *_: None)\n\
                   signal.setitimer(signal.ITIMER_REAL, 0.0002, 0.0002)\n\
                   for n in range(2000):\n    open('src/a.txt', 'r+').write('x')\n\
                   signal.setitimer(signal.ITIMER_REAL, 0)\n\
                   print('done')";
    let (journal, output) = watched(&fixture, &format!("python3 -c \"{program}\"")).await;
    assert_eq!((output.as_str(), journal.images.len()), ("done\n", 1));
}

#[tokio::test]
async fn threads_and_many_processes_at_once_are_all_seen() {
    let fixture = Fixture::new().await;
    for n in 0..200 {
        fs::write(fixture.at(&format!("ws/src/{n}")), n.to_string()).unwrap();
    }
    let line = "seq 0 199 | xargs -P 8 -I{} sh -c 'echo more >>src/{}'";
    let (journal, _) = watched(&fixture, line).await;
    assert_eq!(journal.images.len(), 200);
    for image in &journal.images {
        let name = image.path.file_name().unwrap().to_string_lossy().into_owned();
        assert_eq!(String::from_utf8(journal.content(image).unwrap()).unwrap(), name);
    }
}

#[tokio::test]
async fn of_what_git_keeps_only_what_steers_it_is_kept_as_it_was() {
    let fixture = Fixture::new().await;
    let object = "0123456789abcdef0123456789abcdef012345";
    for name in [
        "modules/m/HEAD",
        "modules/m/config",
        "modules/m/hooks/pre-commit",
        "modules/m/index",
        "annex/objects/a/b",
        &format!("modules/m/objects/ab/{object}"),
        &format!("lfs/objects/ab/cd/{object}{object}"),
    ] {
        let path = fixture.at("ws/.git").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "text").unwrap();
    }
    let git = vec![fixture.at("ws/.git")];
    let capture = Capture { except: git.clone(), repositories: git, ..fixture.capture() };
    let directory = capture.directory.clone();
    let confinement = Confinement { capture: Some(capture), ..fixture.confinement() };
    let removed = fixture.run(&fixture.command("find .git -type f -delete"), &confinement).await.unwrap();
    assert_eq!(removed, (Status::Code(0), String::new()));
    let expected = [
        ".git/annex/objects/a/b - 644",
        ".git/modules/m/HEAD text 644",
        ".git/modules/m/config text 644",
        ".git/modules/m/hooks/pre-commit text 644",
        ".git/modules/m/index - 644",
    ];
    assert_eq!(kept(&fixture, &Journal::read(&directory).unwrap()), expected);
}

/// Where git may write protected files, no call is left to the kernel.
fn open_for_git(fixture: &Fixture) -> Confinement {
    let for_git = vec![fixture.at("ws/AGENTS.md")];
    let confinement = fixture.confinement();
    let read_only = confinement.read_only.iter().filter(|path| !for_git.contains(path)).cloned().collect();
    Confinement { read_only, for_git, capture: Some(fixture.capture()), ..confinement }
}

#[tokio::test]
async fn a_named_pipe_is_opened_when_it_has_a_reader() {
    let fixture = Fixture::new().await;
    let line = "mkfifo src/q; (sleep 0.2; cat src/q) & echo hello >src/q; wait; echo evil >AGENTS.md";
    let plain = Confinement { capture: Some(fixture.capture()), ..fixture.confinement() };
    for confinement in [plain, open_for_git(&fixture)] {
        let _ = fs::remove_file(fixture.at("ws/src/q"));
        let directory = fixture.capture().directory;
        let (_, output) = fixture.run(&fixture.command(line), &confinement).await.unwrap();
        assert!(output.starts_with("hello\n") && output.contains("Read-only file system"), "{output}");
        assert!(Journal::read(&directory).unwrap().is_complete());
    }
}

#[tokio::test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
async fn terminals_and_pipes_work_while_git_may_write_protected_files() {
    let fixture = Fixture::new().await;
    let line = "python3 -c '
import os, pty, signal
main, other = os.openpty()
if os.fork() == 0:
    os.setsid()
    os.write(os.open(os.ttyname(other), os.O_RDWR), b\"by name\")
    os._exit(0)
print(os.read(main, 7).decode())
pty.spawn([\"sh\", \"-c\", \"echo own >/dev/tty\"])
os.mkfifo(\"src/q\")
def stop(*_): raise TimeoutError
signal.signal(signal.SIGALRM, stop)
signal.setitimer(signal.ITIMER_REAL, 0.2)
try: open(\"src/q\", \"w\")
except TimeoutError: print(\"interrupted\")
'";
    let (_, output) = fixture.run(&fixture.command(line), &open_for_git(&fixture)).await.unwrap();
    let mut lines: Vec<&str> = output.lines().map(str::trim_end).collect();
    lines.sort_unstable();
    assert_eq!(lines, ["by name", "interrupted", "own"]);
}
