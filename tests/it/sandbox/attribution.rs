//! Whose work a change is, where others write to the workspace while a command runs.

use std::os::unix::fs::PermissionsExt as _;

use roo_sandbox::changes::{Changes, Keep, Limits};
use roo_sandbox::exec::sandbox::Journal;
use roo_sandbox::exec::{CommandHandle, Terminal};

use super::*;

/// `src/` is in scope, `target/` is build output.
struct Rules;

impl Scope for Rules {
    fn allowed(&self, _root: usize, path: &Path) -> Allowed {
        if path.starts_with("target") { Allowed::Scratch } else { allowed(path) }
    }

    fn keep(&self, _root: usize, _path: &Path) -> Keep {
        Keep::Content
    }
}

/// What a command came to, and what was found changed at its end.
struct Found {
    recording: Recording,
    store: Store,
    changes: Changes,
    journal: Journal,
    output: String,
}

impl Fixture {
    /// Runs a line. When it prints `ready`, somebody else does something, and then the pipe `go` is written to.
    async fn meanwhile(&self, line: &str, act: impl FnMut()) -> Found {
        self.meanwhile_in(None, line, act).await
    }

    /// As that, in a terminal.
    async fn meanwhile_in(&self, terminal: Option<Terminal>, line: &str, mut act: impl FnMut()) -> Found {
        let store = Store::open(self.at("kept"), Limits::default()).unwrap();
        fs::create_dir_all(self.at("ws/target")).unwrap();
        let made = std::process::Command::new("mkfifo").arg(self.at("ws/src/go")).status();
        assert!(made.unwrap().success());
        let capture = Capture { except: vec![self.at("ws/target")], ..self.capture() };
        let directory = capture.directory.clone();
        let confinement = Confinement { capture: Some(capture), ..self.confinement() };
        let recording = self.record(&[self.at("ws")], &Rules, &store);
        let mut output = String::new();
        let go = self.at("ws/src/go");
        let mut has_acted = false;
        let on_output = |text: &str| {
            output.push_str(text);
            if output.contains("ready") && !has_acted {
                has_acted = true;
                act();
                // It waits for its reader.
                fs::write(&go, "go\n").unwrap();
            }
        };
        let handle = terminal.map(|terminal| Arc::new(CommandHandle::new(Some(terminal))));
        let (command, environment) = (Command { handle, ..self.command(line) }, self.environment());
        let cancel = CancellationToken::new();
        exec::run_confined(&command, &environment, &self.sandbox, &confinement, on_output, &cancel)
            .await
            .unwrap();
        let journal = Journal::read(&directory).unwrap();
        let changes = recording.changes(&Rules, &journal);
        Found { recording, store, changes, journal, output }
    }
}

impl Found {
    fn paths(&self) -> Vec<String> {
        let paths = self.changes.changes.iter().map(|change| change.path.display().to_string());
        paths.filter(|path| path != "src/go").collect()
    }

    fn restore(&self) {
        self.recording.restore(&self.changes, &self.store, &self.journal);
    }
}

/// As a user would, in a shell of their own.
fn write_as_user(fixture: &Fixture) {
    fs::write(fixture.at("ws/CLAUDE.md"), "mine").unwrap();
    fs::create_dir(fixture.at("ws/.claude")).unwrap();
    fs::write(fixture.at("ws/.claude/settings.json"), "{}").unwrap();
    fs::write(fixture.at("ws/src/user.txt"), "mine").unwrap();
    fs::write(fixture.at("ws/src/a.txt"), "edited").unwrap();
    fs::write(fixture.at("ws/AGENTS.md"), "be better").unwrap();
}

#[tokio::test]
async fn what_others_change_while_a_command_runs_is_not_its_work() {
    let fixture = Fixture::new().await;
    let line = "echo x >src/own.txt; mkdir src/d; echo ready; read x <src/go; echo y >>src/own.txt";
    let found = fixture.meanwhile(line, || write_as_user(&fixture)).await;
    assert_eq!(found.paths(), ["src/d", "src/own.txt"]);
    found.restore();
    let read = |name: &str| fs::read_to_string(fixture.at("ws").join(name)).unwrap();
    for (name, text) in [
        ("CLAUDE.md", "mine"),
        (".claude/settings.json", "{}"),
        ("src/user.txt", "mine"),
        ("AGENTS.md", "be better"),
    ] {
        assert_eq!(read(name), text, "{name}");
    }
}

#[tokio::test]
async fn what_others_made_and_the_command_then_changed_is_given_back_as_they_made_it() {
    let fixture = Fixture::new().await;
    let line = "echo ready; read x <src/go; echo more >>CLAUDE.md; rm other/gone.md; echo z >>src/user.txt";
    let act = || {
        write_as_user(&fixture);
        fs::create_dir(fixture.at("ws/other")).unwrap();
        fs::write(fixture.at("ws/other/gone.md"), "here").unwrap();
    };
    let found = fixture.meanwhile(line, act).await;
    assert_eq!(found.paths(), ["CLAUDE.md", "other/gone.md", "src/user.txt"]);
    found.restore();
    let read = |name: &str| fs::read_to_string(fixture.at("ws").join(name)).unwrap();
    assert_eq!((read("CLAUDE.md"), read("other/gone.md")), ("mine".to_owned(), "here".to_owned()));
    assert_eq!(read("src/user.txt"), "minez\n");
}

/// Copies and changes of files with their mode, and openings of the command's terminal, after which it is still known what is
/// the command's.
const ORDINARY: &[&str] = &[
    "sed -i s/a/b/ src/a.txt",
    "cp -p src/a.txt src/b.txt",
    "cp -a src src2",
    "install -m 644 src/a.txt src/b.txt",
    "chmod +x src/a.txt",
    "exec 3<>/dev/tty && echo typed >&3",
    // As with labels of SELinux for new files.
    "! echo x 2>/dev/null >/proc/self/attr/fscreate",
    "! echo x 2>/dev/null >/proc/self/comm",
];

#[tokio::test]
async fn what_is_copied_with_its_mode_and_what_opens_the_terminal_takes_nothing_of_others() {
    for line in ORDINARY {
        let fixture = Fixture::new().await;
        let line = format!("{line} && echo ready; read x <src/go; {line}");
        let terminal = line.contains("tty").then(|| Terminal::open().unwrap());
        let found = fixture.meanwhile_in(terminal, &line, || write_as_user(&fixture)).await;
        assert!(found.output.contains("ready"), "{line}: {}", found.output);
        assert!(found.journal.is_complete(), "{line}: {}", found.output);
        assert!(
            !found.paths().iter().any(|path| path.ends_with(".md") || path.contains("claude")),
            "{line}: {:?}",
            found.paths()
        );
        found.restore();
        assert_eq!(fs::read_to_string(fixture.at("ws/CLAUDE.md")).unwrap(), "mine", "{line}");
    }
}

/// An access list can change who may read a file.
#[tokio::test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
async fn an_access_list_and_an_attribute_are_set_and_put_down() {
    let fixture = Fixture::new().await;
    let line = "python3 -c '
import os, struct
# Version 2; the user, the group and the others: tag, permissions and no id.
entries = [(1, 6), (4, 4), (32, 0)]
acl = struct.pack(\"<I\", 2) + b\"\".join(struct.pack(\"<HHI\", tag, bits, 0xffffffff) for tag, bits in entries)
os.setxattr(\"src/a.txt\", \"system.posix_acl_access\", acl)
os.setxattr(os.open(\"src/a.txt\", os.O_RDONLY), \"user.a\", b\"value\")
print(os.getxattr(\"src/a.txt\", \"user.a\"), oct(os.stat(\"src/a.txt\").st_mode))
try: os.setxattr(\"src/a.txt\", \"security.selinux\", b\"none\")
except OSError: pass
for call in [lambda: os.setxattr(\"src/a.txt\", \"user.a\", b\"\", os.XATTR_CREATE), lambda: os.setxattr(\"none\", \"user.a\", b\"\"),
             lambda: os.setxattr(\"AGENTS.md\", \"user.a\", b\"\")]:
    try: call()
    except OSError as error: print(error.strerror)
'";
    let found = fixture.meanwhile(line, || ()).await;
    let expected = "b'value' 0o100640\nFile exists\nNo such file or directory\nRead-only file system\n";
    assert_eq!(found.output, expected);
    assert!(
        found.journal.is_complete() && found.paths().contains(&"src/a.txt".to_owned()),
        "{:?}",
        found.paths()
    );
}

/// Ways to plant `CLAUDE.md`, or `.claude` with what is in it.
const PLANTS: &[(&str, &str)] = &[
    ("opened", "echo x >CLAUDE.md"),
    ("opened exclusively", "set -C; echo x >CLAUDE.md"),
    ("opened for reading", "python3 -c 'import os; os.open(\"CLAUDE.md\", os.O_CREAT)'"),
    ("moved from build output", "echo x >target/c; mv target/c CLAUDE.md"),
    ("moved from the temporary directory", "echo x >/tmp/c; mv /tmp/c CLAUDE.md"),
    ("a directory that was moved", "mkdir target/c; echo x >target/c/settings.json; mv target/c .claude"),
    ("a directory", "mkdir .claude"),
    ("a link", "ln -s src/a.txt CLAUDE.md"),
    ("a hard link", "echo x >c; ln c CLAUDE.md"),
    ("a node", "python3 -c 'import os; os.mknod(\"CLAUDE.md\")'"),
    ("a pipe", "mkfifo CLAUDE.md"),
    ("a socket", "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"CLAUDE.md\")'"),
    (
        "from a directory's handle",
        "python3 -c 'import os; d = os.open(\".\", 0); os.open(\"CLAUDE.md\", 65, dir_fd=d)'",
    ),
    ("through a link that leads to nothing", "ln -s ../CLAUDE.md src/l; echo x >src/l"),
    ("through a link in /proc", "ln -s /proc/self/cwd src/l; echo x >src/l/CLAUDE.md"),
    ("through /proc", "echo x >/proc/self/cwd/CLAUDE.md"),
    (
        "a file without a name that gets one",
        "python3 -c 'import os; f = os.open(\".\", os.O_TMPFILE | os.O_RDWR); \
         os.link(f\"/proc/self/fd/{f}\", \"CLAUDE.md\", follow_symlinks=True)' || echo x >CLAUDE.md",
    ),
    (
        "by a process that can't be looked at",
        "python3 -c 'import ctypes; ctypes.CDLL(None).prctl(4, 0); open(\"CLAUDE.md\", \"w\").write(\"x\")'",
    ),
    (
        "by a thread that changes the path of another one",
        "python3 -c '
import ctypes, os, threading
c = ctypes.CDLL(None)
one, two = b\"src/a.md\\0\", b\"CLAUDE.md\\0\"
path = ctypes.create_string_buffer(64)
def swap():
    while not os.path.exists(\"CLAUDE.md\"):
        path.raw = one.ljust(64, b\"\\0\"); path.raw = two.ljust(64, b\"\\0\")
thread = threading.Thread(target=swap); thread.start()
for _ in range(3000):
    c.close(c.open(path, 65, 0o644))
    if os.path.exists(\"src/a.md\"): os.unlink(\"src/a.md\")
open(\"CLAUDE.md\", \"a\"); thread.join()'",
    ),
    (
        "through a link that changes meanwhile",
        "(for i in $(seq 300); do ln -sfn src t; ln -sfn . t; done) & for i in $(seq 300); do echo x >t/CLAUDE.md; done; \
         wait; echo x >>CLAUDE.md",
    ),
];

#[tokio::test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
async fn whatever_way_a_command_plants_a_file_it_is_known_as_its_work() {
    let fixture = Fixture::new().await;
    for (way, line) in PLANTS {
        let _ = fs::remove_file(fixture.at("ws/src/go"));
        let found = fixture.meanwhile(&format!("mkdir -p target; {line}"), || ()).await;
        let names = fixture.names("ws");
        let planted = if names.contains(&".claude".to_owned()) { ".claude" } else { "CLAUDE.md" };
        assert!(names.contains(&planted.to_owned()), "{way} does nothing: {}", found.output);
        assert!(found.paths().contains(&planted.to_owned()), "{way}: {:?} {}", found.paths(), found.output);
        found.restore();
        assert!(!fixture.names("ws").contains(&planted.to_owned()), "{way} stays");
        for left in ["ws/target", "ws/src/l", "ws/src/a.md", "ws/src/CLAUDE.md", "ws/c", "ws/t"] {
            let _ = fs::remove_file(fixture.at(left)).or_else(|_| fs::remove_dir_all(fixture.at(left)));
        }
    }
}

/// What the user has made is the command's as soon as the command writes it, by whatever name.
#[tokio::test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
async fn what_others_made_is_not_changed_unseen() {
    for line in [
        "exec 3<CLAUDE.md; echo x >/proc/self/fd/3",
        "python3 -c 'import os; f = os.open(\"CLAUDE.md\", 0); os.fchmod(f, 0o777)'",
        "truncate -s 0 CLAUDE.md",
        "ln -s ../CLAUDE.md src/l; echo x >src/l",
        "echo x >second.md",
        "exec 3<CLAUDE.md; ln CLAUDE.md third.md; exec 4<third.md; rm third.md; echo x >/proc/self/fd/4",
        "python3 -c 'import mmap; f = open(\"CLAUDE.md\", \"r+b\"); mmap.mmap(f.fileno(), 4)[:1] = b\"X\"'",
    ] {
        let fixture = Fixture::new().await;
        let act = || {
            write_as_user(&fixture);
            fs::hard_link(fixture.at("ws/CLAUDE.md"), fixture.at("ws/second.md")).unwrap();
        };
        let found = fixture.meanwhile(&format!("echo ready; read x <src/go; {line}"), act).await;
        assert!(found.paths().iter().any(|path| path.ends_with("d.md") || path == "CLAUDE.md"), "{line}");
        found.restore();
        assert_eq!(fs::read_to_string(fixture.at("ws/CLAUDE.md")).ok().as_deref(), Some("mine"), "{line}");
        let mode = fixture.at("ws/CLAUDE.md").metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o644, "{line}");
    }
}

/// A link may lead to what belongs to the supervisor, which resolves the command's paths.
#[tokio::test]
async fn no_path_leads_to_what_the_supervisor_has_open() {
    let fixture = Fixture::new().await;
    let line = "for n in $(seq 3 40); do ln -sfn /proc/self/fd/$n src/l; echo broken 2>/dev/null >src/l; \
                echo broken 2>/dev/null >/proc/1/fd/$n; done; \
                ln -sfn /proc/self/mem src/l; echo broken >src/l; rm src/l; echo x >CLAUDE.md";
    let found = fixture.meanwhile(line, || ()).await;
    assert!(found.output.contains("Read-only file system"), "{}", found.output);
    assert!(found.paths().contains(&"CLAUDE.md".to_owned()), "{:?}", found.paths());
    let bytes = fs::read(fixture.at("captures/journal")).unwrap();
    assert!(!bytes.windows(6).any(|text| text == b"broken"));
}

/// Calls with their outcomes, each in an empty directory.
const CALLS: &str = r#"
import errno, os, socket, stat, subprocess, sys
def tell(name, call):
    try: found = call()
    except OSError as error: found = errno.errorcode[error.errno]
    print(name, found if isinstance(found, (str, bool, int)) else '')
def opened(path, flags, mode=0o666):
    f = os.open(path, flags, mode)
    import fcntl
    kept = os.O_APPEND | os.O_NONBLOCK | os.O_ACCMODE
    told = f'{fcntl.fcntl(f, fcntl.F_GETFL) & kept} {stat.filemode(os.fstat(f).st_mode)} {os.get_inheritable(f)}'
    os.close(f)
    return told
W, C, X = os.O_WRONLY, os.O_CREAT, os.O_EXCL
os.mkdir('d'); os.symlink('new', 'dangling'); os.symlink('d', 'to-d'); os.symlink('loop', 'loop')
for mask in (0o022, 0o077, 0):
    os.umask(mask)
    tell('create', lambda: opened(f'f{mask}', W | C))
    tell('mkdir', lambda: os.mkdir(f'd{mask}') or stat.filemode(os.stat(f'd{mask}').st_mode))
    tell('mkfifo', lambda: os.mkfifo(f'p{mask}') or stat.filemode(os.stat(f'p{mask}').st_mode))
os.umask(0o022)
for path in ('f18', 'd', 'no', 'no/no', 'f18/x', 'd/', 'new/', 'dangling', 'loop', 'loop/x', '.', '..', '', 'x' * 300, 'd/../f18'):
    for flags in (W, W | C, W | C | X, W | os.O_NOFOLLOW, os.O_RDWR | os.O_APPEND, C, W | os.O_DIRECTORY, os.O_TRUNC):
        tell(f'open {path[:20]} {flags}', lambda: opened(path, flags))
        if os.path.exists('new'): os.unlink('new')
    tell(f'mkdir {path[:20]}', lambda: os.mkdir(path))
    tell(f'rmdir {path[:20]}', lambda: os.rmdir(path))
    tell(f'symlink {path[:20]}', lambda: os.symlink('x', path))
    tell(f'truncate {path[:20]}', lambda: os.truncate(path, 3))
    tell(f'chmod {path[:20]}', lambda: os.chmod(path, 0o755) if path != '..' else None)
    if path not in ('f18', 'd/../f18'): tell(f'unlink {path[:20]}', lambda: os.unlink(path))
    tell(f'rename to {path[:20]}', lambda: os.rename('f63', path))
    tell(f'rename from {path[:20]}', lambda: os.rename(path, 'f63'))
    for name in ('f18', 'f63'): open(name, 'a').close()
    os.makedirs('d', exist_ok=True)
for flags in (W, os.O_RDWR, W | os.O_NONBLOCK): tell(f'pipe {flags}', lambda: opened('p18', flags) if flags != W else '')
r = os.open('p18', os.O_RDONLY | os.O_NONBLOCK)
for flags in (W, W | C, W | os.O_NONBLOCK): tell(f'read pipe {flags}', lambda: opened('p18', flags))
child = subprocess.Popen(['sh', '-c', 'echo hello >p0']); print(open('p0').read().strip(), child.wait())
for path in ('/dev/null', '/dev/stdout', '/dev/stderr', '/dev/fd/1', '/proc/self/fd/2', '/dev/tty', '/dev/full'):
    tell(path, lambda: opened(path, W | C).split()[0])
f = os.open('d', os.O_RDONLY); os.open('inner', W | C, dir_fd=f); print(os.listdir('d'))
tell('bad descriptor', lambda: os.open('x', W | C, dir_fd=999))
tell('fchmod', lambda: os.fchmod(f, 0o700) or stat.filemode(os.stat('d').st_mode))
os.set_inheritable(f, True); open('prog', 'w').write('#!/bin/sh\necho ran\n'); os.chmod('prog', 0o755)
print(subprocess.run(['./prog'], capture_output=True, text=True).stdout.strip())
with open('bin', 'wb') as out: out.write(open('/bin/true', 'rb').read())
os.chmod('bin', 0o755); print(subprocess.run(['./bin']).returncode)
s = socket.socket(socket.AF_UNIX); s.bind('d/s'); s.listen(1); print(s.getsockname(), stat.filemode(os.stat('d/s').st_mode))
tell('bind again', lambda: socket.socket(socket.AF_UNIX).bind('d/s'))
c = socket.socket(socket.AF_UNIX); c.connect('d/s'); print(c.getpeername())
tell('no socket', lambda: socket.socket(socket.AF_UNIX).connect('prog'))
tell('nothing', lambda: socket.socket(socket.AF_UNIX).connect('nothing'))
t = socket.socket(); t.bind(('127.0.0.1', 0)); t.listen(1)
tell('connect', lambda: socket.create_connection(t.getsockname()) and True)
n = socket.socket(); n.setblocking(False); tell('not blocking', lambda: n.connect(t.getsockname()))
tell('refused', lambda: socket.socket().connect(('127.0.0.1', 1)))
tell('no socket', lambda: socket.socket(fileno=os.open('prog', 0)).connect(('127.0.0.1', 1)))
"#;

/// To be carried out by a supervisor makes no difference to a program.
#[tokio::test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
async fn a_program_notices_nothing_of_its_supervisor() {
    let fixture = Fixture::new().await;
    fs::write(fixture.at("home/calls.py"), CALLS).unwrap();
    let line = |directory: &str| {
        format!(
            "mkdir {directory} && cd {directory} && python3 {} 2>&1",
            fixture.at("home/calls.py").display()
        )
    };
    let bare = std::process::Command::new("setsid")
        .args(["sh", "-c", &line("src/bare")])
        .current_dir(fixture.at("ws"))
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    let bare = String::from_utf8(bare.stdout).unwrap();
    let capture = fixture.capture();
    let directory = capture.directory.clone();
    let confinement = Confinement { capture: Some(capture), ..fixture.confinement() };
    let (_, supervised) = fixture.run(&fixture.command(&line("src/own")), &confinement).await.unwrap();
    pretty_assertions::assert_eq!(supervised, bare);
    assert!(Journal::read(&directory).unwrap().has_touched_below(&fixture.at("ws/src/own")));
}
