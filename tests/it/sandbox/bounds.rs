//! What a confined command can write, read and reach.

use std::io::Read as _;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::{SocketAddr, UnixListener};

use roo_sandbox::exec::sandbox::{Limits, Network};

use super::ends::{Background, mark, marked};
use super::*;

#[tokio::test]
async fn a_grant_can_be_written_and_nothing_else() {
    let fixture = Fixture::new().await;
    fixture
        .check(
            "echo b >src/b.txt && rm src/a.txt && mkdir -p new/x && mv src/b.txt new/x && ls new/x",
            "b.txt",
        )
        .await;
    let out = fixture.at("out").display().to_string();
    let home = fixture.at("home").display().to_string();
    for line in [
        format!("touch {out}/x"),
        format!("echo x >{out}/kept.txt"),
        format!("echo x >>{out}/kept.txt"),
        format!("truncate -s 0 {out}/kept.txt"),
        format!("rm {out}/kept.txt"),
        format!("mv {out}/kept.txt src/"),
        format!("mv src/a.txt {out}/"),
        format!("ln src/a.txt {out}/a"),
        format!("ln -s /etc/passwd {out}/l"),
        format!("mkdir {out}/d"),
        format!("rmdir {out}"),
        format!("chmod 000 {out}/kept.txt"),
        format!("touch -d 2001-01-01 {out}/kept.txt"),
        format!("mkfifo {out}/f"),
        format!("ln -s {out} src/link && touch src/link/x"),
        format!("ln {out}/kept.txt src/hard && echo x >src/hard"),
        format!("cd {out} && touch x"),
        format!("dd if=/dev/zero of={out}/x count=1"),
        format!("echo x >/proc/self/root{out}/x"),
        format!("echo x >/proc/1/root{out}/x"),
        format!("echo x >/proc/1/cwd{out}/x"),
        format!("touch {home}/.bashrc"),
        "touch /etc/x".to_owned(),
        "touch /x".to_owned(),
        "echo x >/dev/x".to_owned(),
        "echo 1 >/proc/sys/kernel/printk".to_owned(),
        "echo x >/sys/kernel/mm/ksm/run".to_owned(),
        "mknod src/sda b 8 0".to_owned(),
    ] {
        let (status, output) = fixture.sh(&format!("( {line} ) 2>&1")).await;
        assert_ne!(status, Status::Code(0), "{line}: {output}");
    }
    assert_eq!(fixture.names("out"), ["kept.txt"]);
    let kept = fixture.at("out/kept.txt");
    assert_eq!(std::fs::read_to_string(&kept).unwrap(), "kept");
    let found = kept.metadata().unwrap();
    assert_ne!(found.permissions().mode() & 0o777, 0);
    assert_eq!(fixture.names("home"), [".netrc", ".ssh", "readable.txt"]);
}

#[tokio::test]
async fn mounts_can_not_be_undone_from_within() {
    let fixture = Fixture::new().await;
    let out = fixture.at("out").display().to_string();
    for line in [
        format!("mount -o remount,rw,bind / && touch {out}/x"),
        format!("umount -l {} && touch .vscode/x", fixture.at("ws/.vscode").display()),
        format!("unshare -Urm sh -c 'mount -o remount,rw,bind / ; touch {out}/x'"),
        format!("unshare -Urm sh -c 'umount -l {0}; touch {0}/x'", fixture.at("ws/.vscode").display()),
        format!("unshare -Urm sh -c 'mount --bind src .vscode && touch .vscode/x'; touch {out}/x"),
        "mv .vscode away".to_owned(),
        "rm -rf .vscode".to_owned(),
        "rm AGENTS.md".to_owned(),
        "mv src/a.txt AGENTS.md".to_owned(),
        "echo x >AGENTS.md".to_owned(),
        "chmod 600 AGENTS.md".to_owned(),
        "ln AGENTS.md src/agents && echo x >src/agents".to_owned(),
        "echo '{}' >.roo/mcp.json".to_owned(),
    ] {
        let (status, output) = fixture.sh(&format!("( {line} ) 2>&1")).await;
        assert_ne!(status, Status::Code(0), "{line}: {output}");
    }
    assert_eq!(fixture.names("out"), ["kept.txt"]);
    assert_eq!(fixture.names("ws/.vscode"), ["settings.json"]);
    assert_eq!(fixture.names("ws/.roo"), [""; 0]);
    assert_eq!(std::fs::read_to_string(fixture.at("ws/AGENTS.md")).unwrap(), "be good");
}

#[tokio::test]
async fn a_place_within_a_protected_one_can_be_granted() {
    let fixture = Fixture::new().await;
    std::fs::create_dir_all(fixture.at("ws/.roo/tasks/own")).unwrap();
    let mut confinement = fixture.confinement();
    confinement.writable.push(fixture.at("ws/.roo/tasks/own"));
    let line = "touch .roo/tasks/own/x && ! touch .roo/tasks/x 2>/dev/null && echo held";
    let found = fixture.run(&fixture.command(line), &confinement).await.unwrap();
    assert_eq!(found, (Status::Code(0), "held\n".to_owned()));
}

#[tokio::test]
async fn what_is_hidden_can_not_be_read() {
    let fixture = Fixture::new().await;
    let at = |name: &str| fixture.at(name).display().to_string();
    for path in ["ws/.env", "home/.ssh/id_ed25519", "home/.netrc", "state/log.jsonl"].map(at) {
        for line in [format!("cat {path}"), format!("cp {path} src/copy && cat src/copy")] {
            let (status, output) = fixture.sh(&line).await;
            assert_ne!(status, Status::Code(0), "{line}");
            assert!(!output.contains("canary-secret"), "{output}");
        }
    }
    for line in ["mv .env x && cat x", "ln .env x && cat x", "chmod 644 .env; cat .env; rm .env"] {
        let (_, output) = fixture.sh(line).await;
        assert!(!output.contains("canary-secret"), "{line}: {output}");
    }
    assert_eq!(std::fs::read_to_string(fixture.at("ws/.env")).unwrap(), "SECRET=canary-secret");
    fixture.check(&format!("cat {}/readable.txt", at("home")), "readable").await;
}

#[tokio::test]
async fn what_programs_keep_of_their_user_at_home_can_not_be_read() {
    let fixture = Fixture::new().await;
    let places = [
        ".config/sops/age/keys.txt",
        ".config/github-copilot/apps.json",
        ".config/microsoft-edge/Default/Cookies",
        ".config/solana/id.json",
        ".local/share/fish/fish_history",
        ".local/share/opencode/auth.json",
        ".mylogin.cnf",
        ".psql_history-app",
        ".pulumi/credentials.json",
        ".qwen/oauth_creds.json",
        ".thunderbird/x.default/logins.json",
        ".var/app/org.mozilla.firefox/.mozilla/firefox/x/logins.json",
        "snap/firefox/common/.mozilla/firefox/x/cookies.sqlite",
    ];
    // What is beside them is needed by the programs themselves.
    let neighbours = [".pulumi/bin/pulumi", ".local/share/fish/config", ".config/tool/config"];
    for name in places.iter().chain(&neighbours) {
        let path = fixture.at("home").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("canary of {name}")).unwrap();
    }
    for name in places {
        let path = fixture.at("home").join(name).display().to_string();
        let (status, output) = fixture.sh(&format!("cat {path}; ! test -s {path}")).await;
        assert_eq!(status, Status::Code(0), "{name}: {output}");
        assert!(!output.contains("canary of"), "{output}");
    }
    for name in neighbours {
        let path = fixture.at("home").join(name).display().to_string();
        fixture.check(&format!("cat {path}"), &format!("canary of {name}")).await;
    }
}

#[tokio::test]
async fn below_the_temporary_directory_only_what_is_named_is_seen_as_it_is() {
    let fixture = Fixture::below(Path::new("/tmp"), Sandbox::find(helper()).await);
    let home = fixture.at("home");
    let confinement = Confinement { visible: vec![fixture.at("ws"), home], ..fixture.confinement() };
    for (line, expected) in [
        ("cat src/a.txt ../home/readable.txt", "areadable"),
        ("touch ../home/new 2>/dev/null || echo no", "no"),
        ("cat ../home/.netrc ../home/.ssh/id_ed25519 .env 2>/dev/null || echo no", "no"),
        ("ls ../out 2>/dev/null || echo no", "no"),
        ("echo y >src/b.txt && echo x >/tmp/mine && cat src/b.txt /var/tmp/mine", "y\nx"),
    ] {
        let (_, output) = fixture.run(&fixture.command(line), &confinement).await.unwrap();
        assert_eq!(output.trim_end(), expected, "{line}");
    }
    let temp = fixture.at("temp");
    let found = std::fs::read_dir(&temp).unwrap().flatten().map(|entry| entry.path());
    let found: Vec<PathBuf> = found.filter(|path| !path.ends_with("mine")).collect();
    assert_eq!(found.len(), 1, "the way to the workspace: {found:?}");
    assert_eq!(found[0].metadata().unwrap().permissions().mode() & 0o777, 0o700);
}

#[tokio::test]
async fn a_private_directory_can_lie_within_a_hidden_one() {
    let fixture = Fixture::new().await;
    std::fs::create_dir_all(fixture.at("state/deep/cache")).unwrap();
    let cache = fixture.at("state/deep/cache");
    let variables = vec![("XDG_CACHE_HOME", cache.clone().into_os_string())];
    let confinement = Confinement { cache: Some(cache), variables, ..fixture.confinement() };
    let state = fixture.at("state").display().to_string();
    let line = format!("touch $XDG_CACHE_HOME/x && ls -A {state} && ! touch {state}/x 2>/dev/null");
    let found = fixture.run(&fixture.command(&line), &confinement).await.unwrap();
    assert_eq!(found, (Status::Code(0), "deep\n".to_owned()));
    assert_eq!(fixture.names("state/deep/cache"), ["x"]);
}

#[tokio::test]
async fn beside_a_place_within_a_hidden_directory_of_the_workspace_nothing_seems_to_be_deleted() {
    let fixture = Fixture::new().await;
    std::fs::create_dir_all(fixture.at("ws/private/deep/cache")).unwrap();
    std::fs::create_dir_all(fixture.at("ws/private/more")).unwrap();
    for name in ["a.txt", "deep/b.txt", "deep/cache/c.txt", "more/d.txt"] {
        std::fs::write(fixture.at("ws/private").join(name), "canary-secret").unwrap();
    }
    let mut confinement = fixture.confinement();
    confinement.hidden.push(fixture.at("ws/private"));
    confinement.writable.push(fixture.at("ws/private/deep/cache"));
    let line = "cd private && ls -A . deep deep/cache && touch deep/cache/x; cat a.txt deep/b.txt more/d.txt; ls more; \
                chmod 644 a.txt; touch new deep/new; rm -f a.txt; ls -A . deep 2>/dev/null";
    let (_, output) = fixture.run(&fixture.command(line), &confinement).await.unwrap();
    let names = ".:\na.txt\ndeep\nmore\n\ndeep:\nb.txt\ncache\n";
    assert!(output.starts_with(&format!("{names}\ndeep/cache:\nc.txt\n")), "{output}");
    assert!(output.ends_with(names) && !output.contains("canary-secret"), "{output}");
    assert_eq!(fixture.names("ws/private/deep/cache"), ["c.txt", "x"]);
    assert_eq!(fixture.names("ws/private"), ["a.txt", "deep", "more"]);
}

/// PATH-12.
#[tokio::test]
async fn the_directory_is_where_it_starts_and_no_grant() {
    let fixture = Fixture::new().await;
    symlink(fixture.at("out"), fixture.at("ws/src/link-to-out")).unwrap();
    for directory in ["out", "ws/src/link-to-out", "ws/../out"] {
        let command = Command { directory: fixture.at(directory), ..fixture.command("touch x") };
        let (status, _) = fixture.run(&command, &fixture.confinement()).await.unwrap();
        assert_ne!(status, Status::Code(0), "{directory}");
    }
    assert_eq!(fixture.names("out"), ["kept.txt"]);
}

#[tokio::test]
async fn a_grant_that_is_a_link_or_missing_grants_nothing() {
    let fixture = Fixture::new().await;
    symlink(fixture.at("out"), fixture.at("ws/src/link")).unwrap();
    let out = fixture.at("out").display().to_string();
    for grant in ["ws/src/link", "missing"] {
        let confinement = Confinement { writable: vec![fixture.at(grant)], ..fixture.confinement() };
        let (status, _) =
            fixture.run(&fixture.command(&format!("touch {out}/x")), &confinement).await.unwrap();
        assert_ne!(status, Status::Code(0), "{grant}");
    }
    let confinement =
        Confinement { writable: vec![fixture.at("ws/src/link/below")], ..fixture.confinement() };
    let error =
        fixture.run(&fixture.command("true"), &confinement).await.expect_err("it goes through a symlink");
    assert!(matches!(error, ExecError::Sandbox(_)), "{error}");
    assert_eq!(fixture.names("out"), ["kept.txt"]);
}

#[tokio::test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
async fn without_a_network_there_is_only_its_own_loopback() {
    let fixture = Fixture::new().await;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    for line in [
        format!("echo canary >/dev/tcp/127.0.0.1/{port}"),
        format!("HTTP_PROXY=http://127.0.0.1:{port} NO_PROXY='*' curl -m 5 -s http://example.invalid/"),
        format!("curl -m 5 -s http://127.0.0.1:{port}/"),
        "getent hosts example.com".to_owned(),
        "echo x >/dev/udp/8.8.8.8/53".to_owned(),
    ] {
        let (status, output) = fixture.sh(&format!("( {line} ) 2>&1")).await;
        assert_ne!(status, Status::Code(0), "{line}: {output}");
    }
    assert!(listener.accept().is_err(), "somebody came");
    let serve = "python3 -c \"import socket; s = socket.create_server(('127.0.0.1', 0)); \
                 c = socket.create_connection(s.getsockname()); print('met')\"";
    fixture.check(serve, "met").await;
}

#[tokio::test]
async fn a_network_can_be_granted() {
    let fixture = Fixture::new().await;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (status, output) = fixture.sh_with_network(&format!("echo hello >/dev/tcp/127.0.0.1/{port}")).await;
    assert_eq!(status, Status::Code(0), "{output}");
    let mut heard = String::new();
    listener.accept().unwrap().0.read_to_string(&mut heard).unwrap();
    assert_eq!(heard, "hello\n");
}

/// Connects to a Unix socket by name; an abstract one begins with `@`.
fn connect(name: &str) -> String {
    format!(
        "python3 -c \"import socket; n = '{name}'; s = socket.socket(socket.AF_UNIX); \
         s.connect('\\0' + n[1:] if n[0] == '@' else n); print('connected')\" 2>/dev/null"
    )
}

#[tokio::test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
async fn no_socket_of_another_program_can_be_reached_with_or_without_a_network() {
    let fixture = Fixture::new().await;
    let name = format!("roo-lsp-test-{}", std::process::id());
    let _abstract = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    let paths = [fixture.at("out/agent.sock"), fixture.at("ws/agent.sock"), fixture.at("home/docker.sock")];
    let _listeners: Vec<_> = paths.iter().map(|path| UnixListener::bind(path).unwrap()).collect();
    let in_tmp = tempfile::tempdir_in("/tmp").unwrap();
    let in_tmp = in_tmp.path().join("agent.sock");
    let _in_tmp = UnixListener::bind(&in_tmp).unwrap();
    let names = paths.iter().chain([&in_tmp]).map(|path| path.display().to_string());
    for name in names.chain([format!("@{name}")]) {
        for found in [fixture.sh(&connect(&name)).await, fixture.sh_with_network(&connect(&name)).await] {
            assert_ne!(found.0, Status::Code(0), "{name}: {}", found.1);
        }
    }
    let own = "python3 -c \"import socket; s = socket.socket(socket.AF_UNIX); s.bind('own.sock'); s.listen(); \
               c = socket.socket(socket.AF_UNIX); c.connect('own.sock'); print('met')\"";
    fixture.check(own, "met").await;
}

#[tokio::test]
async fn meeting_places_are_empty_and_temporary_files_are_private() {
    let fixture = Fixture::new().await;
    fixture
        .check("echo x >/tmp/mine && echo y >/var/tmp/yours && ls /tmp && echo $TMPDIR", "mine\nyours\n/tmp")
        .await;
    assert_eq!(fixture.names("temp"), ["mine", "yours"]);
    fixture.check("cat /tmp/mine; ls -A /run /dev/shm", "x\n/dev/shm:\n\n/run:").await;
    fixture
        .check(
            "ls /dev | tr '\\n' ' '",
            "fd full null ptmx pts random shm stderr stdin stdout tty urandom zero",
        )
        .await;
    let lost = Confinement { temp: None, ..fixture.confinement() };
    let unique = format!("/tmp/roo-lsp-{}", std::process::id());
    let found = fixture.run(&fixture.command(&format!("ls -A /tmp; echo x >{unique}")), &lost).await.unwrap();
    assert_eq!(found, (Status::Code(0), String::new()));
    assert!(!Path::new(&unique).exists());
}

/// SEC-03.
#[tokio::test]
async fn the_environment_of_the_server_and_other_processes_can_not_be_seen() {
    let fixture = Fixture::new().await;
    let own = std::process::id();
    let (_, output) =
        fixture.sh(&format!("cat /proc/{own}/environ /proc/{own}/mem; kill -0 {own} && echo alive")).await;
    assert!(output.contains("No such file") && !output.contains("alive"), "{output}");
    let (_, processes) =
        fixture.sh("cat /proc/[0-9]*/environ | tr '\\0' '\\n'; ls -d /proc/[0-9]* | wc -l").await;
    assert!(!processes.contains("CARGO_MANIFEST_DIR="), "{processes}");
    // The first process is the helper.
    let (_, output) = fixture.sh("cat /proc/1/environ; ls -l /proc/1/fd; cat /proc/1/maps").await;
    assert!(!output.contains("PATH=") && !output.contains("socket:"), "{output}");
    fixture.check("ls -l /proc/self/fd | grep -c socket; ulimit -c", "0\n0").await;
}

/// To start the program a second time would cost as much as a small command.
#[tokio::test]
async fn the_program_is_started_once_for_a_command() {
    let fixture = Fixture::new().await;
    fixture.check("tr '\\0' ' ' </proc/1/cmdline | cut -d ' ' -f 2,3", "sandbox-helper outer").await;
}

/// The session is led by the helper, outside of the command's process namespace, so it is looked at from outside.
#[tokio::test]
async fn a_command_has_a_session_without_a_terminal() {
    // 0 for one that is led by a process outside of this one's namespace, as in a container.
    let session_of = |pid: u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let mut fields = stat.rsplit_once(") ").unwrap().1.split(' ').skip(3);
        (fields.next().unwrap().to_owned(), fields.next().unwrap().to_owned())
    };
    let (own, _) = session_of(std::process::id());
    for fixture in [Fixture::new().await, Fixture::with_landlock().await] {
        let mark = mark();
        let line = format!("(: </dev/tty) 2>&1; echo ready; sleep {mark}; :");
        let mut background = Background::start(&fixture, fixture.command(&line));
        background.until("ready").await;
        let processes = marked(&mark);
        assert!(!processes.is_empty());
        for (pid, _) in processes {
            let (session, terminal) = session_of(pid.as_raw_pid().cast_unsigned());
            assert!(session != own && terminal == "0", "{session} {terminal} beside {own}");
        }
        background.cancel.cancel();
        assert_eq!(background.task.await.unwrap().unwrap().0, Status::Cancelled);
    }
}

#[tokio::test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
async fn there_are_no_privileges_to_gain() {
    let fixture = Fixture::new().await;
    fixture.check("grep -E '^(CapInh|CapPrm|CapEff|CapBnd|CapAmb|NoNewPrivs)' /proc/self/status | cut -f2 | sort -u", "0000000000000000\n1").await;
    let (user, group) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    fixture.check("id -u; id -g", &format!("{user}\n{group}")).await;
    // In a user namespace of its own a command would be root.
    for line in
        ["unshare -U true", "unshare --map-root-user id", "python3 -c 'import os; os.unshare(0x10000000)'"]
    {
        let (status, output) = fixture.sh(&format!("( {line} ) 2>&1")).await;
        assert_ne!(status, Status::Code(0), "{line}: {output}");
    }
    let threads = "python3 -c \"import threading, subprocess; t = threading.Thread(target=print, args=('ran',)); t.start(); \
                   t.join(); subprocess.run(['true'], check=True)\"";
    fixture.check(threads, "ran").await;
    for line in ["unshare -n true", "chroot / true", "hostname x", "ip link add x type dummy", "keyctl show"]
    {
        let (status, output) = fixture.sh(&format!("( {line} ) 2>&1")).await;
        assert_ne!(status, Status::Code(0), "{line}: {output}");
    }
}

#[tokio::test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
async fn limits_are_held() {
    let fixture = Fixture::new().await;
    let limits = Limits { processes: 64, memory: Some(256 << 20), file_size: Some(1 << 20) };
    let confinement = Confinement { limits, ..fixture.confinement() };
    let run = async |line: &str| fixture.run(&fixture.command(line), &confinement).await.unwrap();
    let forks = "import os\nn = 0\nwhile n < 2000:\n  try: pid = os.fork()\n  except OSError: break\n  \
                 if pid == 0: os.read(os.pipe()[0], 1)\n  n += 1\nprint(n)";
    let (_, output) = run(&format!("python3 -c '{forks}'")).await;
    let count: u32 = output.trim().parse().expect("a number");
    assert!((32..=364).contains(&count), "{count} processes");
    let (status, output) = run("python3 -c 'bytearray(1 << 30)' 2>&1").await;
    assert_ne!(status, Status::Code(0));
    assert!(output.contains("MemoryError"), "{output}");
    let (status, _) = run("head -c 4M /dev/zero >big").await;
    assert_ne!(status, Status::Code(0));
    assert_eq!(fixture.at("ws/big").metadata().unwrap().len(), 1 << 20);
}

/// As when the work tree of another branch is removed.
#[tokio::test]
async fn commands_run_while_protected_and_hidden_directories_come_and_go() {
    let fixture = Fixture::new().await;
    let mut confinement = fixture.confinement();
    confinement.read_only.push(fixture.at("ws/.git/worktrees"));
    let places: Vec<PathBuf> =
        (0..20).map(|number| fixture.at(&format!("ws/.git/worktrees/{number}"))).collect();
    for (number, place) in places.iter().enumerate() {
        let list = if number % 2 == 0 { &mut confinement.read_only } else { &mut confinement.hidden };
        list.push(place.clone());
    }
    let is_over = CancellationToken::new();
    let changes = std::thread::spawn({
        let is_over = is_over.clone();
        move || {
            while !is_over.is_cancelled() {
                places.iter().for_each(|place| fs::create_dir_all(place).unwrap());
                places.iter().for_each(|place| fs::remove_dir(place).unwrap());
            }
        }
    });
    for _ in 0..100 {
        let (status, output) = fixture.run(&fixture.command("echo it runs"), &confinement).await.unwrap();
        assert_eq!((status, output.as_str()), (Status::Code(0), "it runs\n"));
    }
    is_over.cancel();
    changes.join().unwrap();
}

#[tokio::test]
async fn without_a_sandbox_no_confined_command_runs() {
    let fixture = Fixture::with(Sandbox::none("it was switched off"));
    let error =
        fixture.run(&fixture.command("touch ran"), &fixture.confinement()).await.expect_err("no sandbox");
    assert!(matches!(&error, ExecError::NoSandbox(why) if why.contains("switched off")), "{error}");
    let broken = Sandbox::find(Helper::at("/bin/true")).await;
    assert!(broken.probe().check(Required::L2).is_err(), "{}", broken.probe());
    let missing = Sandbox::find(Helper::at("/no/such/program")).await;
    assert!(missing.probe().to_string().contains("can't be started"), "{}", missing.probe());
    assert!(!fixture.at("ws/ran").exists());
}

/// What worked once is promised: a command whose helper fails later does not run.
#[tokio::test]
async fn a_sandbox_that_breaks_later_runs_nothing() {
    let root = tempfile::tempdir().unwrap();
    let program = root.path().join("helper");
    symlink(env!("CARGO_BIN_EXE_roo-lsp"), &program).unwrap();
    Fixture::with(Sandbox::find(Helper::at(&program)).await).check("echo ran", "ran").await;
    // Of this one no helper waits that was started before.
    let fixture = Fixture::with(Sandbox::find(Helper::at(&program)).await);
    for broken in ["/bin/true", "/bin/cat", "/no/such/program"] {
        std::fs::remove_file(&program).unwrap();
        symlink(broken, &program).unwrap();
        let error =
            fixture.run(&fixture.command("touch ran"), &fixture.confinement()).await.expect_err(broken);
        assert!(matches!(error, ExecError::Sandbox(_)), "{broken}: {error}");
    }
    assert!(!fixture.at("ws/ran").exists());
}

/// What `doctor` says of the sandbox, after some lines of shell as root of a user namespace.
fn doctor_after(setup: &str) -> String {
    let line = format!("set -e; {setup}; exec {} doctor", env!("CARGO_BIN_EXE_roo-lsp"));
    let home = tempfile::tempdir().unwrap();
    let found = std::process::Command::new("unshare")
        .args(["-Urm", "sh", "-c", &line])
        .current_dir(home.path())
        .env("HOME", home.path())
        .env_remove("XDG_STATE_HOME")
        .env_remove("XDG_CONFIG_HOME")
        .output()
        .unwrap();
    let text = String::from_utf8(found.stdout).unwrap();
    let line = text.lines().find(|line| line.contains("sandbox: "));
    line.unwrap_or_else(|| panic!("{text}{}", String::from_utf8_lossy(&found.stderr))).to_owned()
}

#[test]
fn other_machines_hold_less_and_it_is_told() {
    let found = doctor_after("true");
    assert!(found.starts_with("ok   sandbox: L2 (namespaces, Landlock "), "{found}");
    // As in a container that covers parts of its /proc.
    let found = doctor_after("mount --bind /dev/null /proc/uptime");
    assert!(found.contains("sandbox: L2 (namespaces, Landlock "), "{found}");
    // As where user namespaces are forbidden.
    let found = doctor_after("echo 0 >/proc/sys/user/max_user_namespaces");
    assert!(found.starts_with("note sandbox: L2 (Landlock "), "{found}");
    assert!(found.contains("not available: namespaces (new namespaces: "), "{found}");
}

#[tokio::test]
async fn exit_codes_output_and_signals_come_through() {
    let fixture = Fixture::new().await;
    for (line, status, output) in [
        ("exit 42", Status::Code(42), ""),
        ("exit 1", Status::Code(1), ""),
        ("kill -9 $$", Status::Signal(9), ""),
        ("echo one; echo two >&2; echo three", Status::Code(0), "one\ntwo\nthree\n"),
        ("cat; read line || echo end", Status::Code(0), "end\n"),
        ("if (: </dev/tty) 2>/dev/null; then echo terminal; else echo none; fi", Status::Code(0), "none\n"),
        ("cat <(echo a) <(echo b) > >(tr ab xy); wait", Status::Code(0), "x\ny\n"),
    ] {
        assert_eq!(fixture.sh(line).await, (status, output.to_owned()), "{line}");
    }
    let burst: String = (1..=20_000).map(|n| format!("{n}\n")).collect();
    assert_eq!(fixture.sh("seq 1 20000").await, (Status::Code(0), burst));
    let long = fixture.run(&fixture.command(&"x".repeat(4 << 20)), &fixture.confinement()).await;
    assert!(matches!(long, Err(ExecError::Sandbox(_))));
}

mod by_landlock_alone {
    use super::*;

    #[tokio::test]
    async fn a_grant_can_be_written_and_nothing_else() {
        let fixture = Fixture::with_landlock().await;
        fixture
            .check(
                "echo b >src/b.txt && mkdir -p new && mv src/b.txt new && ls new && echo x >/dev/null",
                "b.txt",
            )
            .await;
        fixture.check("touch $TMPDIR/x && touch $XDG_CACHE_HOME/y", "").await;
        let out = fixture.at("out").display().to_string();
        for line in [
            format!("touch {out}/x"),
            format!("echo x >{out}/kept.txt"),
            format!("truncate -s 0 {out}/kept.txt"),
            format!("rm {out}/kept.txt"),
            format!("mv src/a.txt {out}/"),
            format!("ln -s {out} src/link && touch src/link/x"),
            "touch /tmp/roo-lsp-canary".to_owned(),
        ] {
            let (status, output) = fixture.sh(&format!("( {line} ) 2>&1")).await;
            assert_ne!(status, Status::Code(0), "{line}: {output}");
        }
        assert_eq!(fixture.names("out"), ["kept.txt"]);
    }

    #[tokio::test]
    async fn what_is_hidden_outside_of_grants_can_not_be_read() {
        let fixture = Fixture::with_landlock().await;
        let at = |name: &str| fixture.at(name).display().to_string();
        // A neighbour that leads above what is hidden grants nothing.
        symlink(fixture.at("home"), fixture.at("alias")).unwrap();
        symlink("/", fixture.at("ws/root")).unwrap();
        for path in ["home/.ssh/id_ed25519", "home/.netrc", "state/log.jsonl", "alias/.netrc"].map(at) {
            let (status, output) = fixture.sh(&format!("cat {path}")).await;
            assert_ne!(status, Status::Code(0), "{path}");
            assert!(!output.contains("canary-secret"), "{output}");
        }
        fixture.check(&format!("cat {}/readable.txt src/a.txt", at("home")), "readablea").await;
        let own = std::process::id();
        let (status, _) = fixture.sh(&format!("cat /proc/{own}/environ")).await;
        assert_ne!(status, Status::Code(0));
    }

    #[tokio::test]
    async fn there_is_no_network_and_no_socket() {
        let fixture = Fixture::with_landlock().await;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let path = fixture.at("out/agent.sock");
        let _socket = UnixListener::bind(&path).unwrap();
        let connect = connect(&path.display().to_string());
        for line in [&format!("(echo canary >/dev/tcp/127.0.0.1/{port}) 2>&1"), &connect] {
            let (status, output) = fixture.sh(line).await;
            assert_ne!(status, Status::Code(0), "{line}: {output}");
        }
        assert!(listener.accept().is_err(), "somebody came");
        let (status, _) = fixture.sh_with_network(&connect).await;
        assert_ne!(status, Status::Code(0));
        let confinement = Confinement { network: Network::On, ..fixture.confinement() };
        let line = fixture.command(&format!("echo hello >/dev/tcp/127.0.0.1/{port}"));
        assert_eq!(fixture.run(&line, &confinement).await.unwrap(), (Status::Code(0), String::new()));
    }
}
