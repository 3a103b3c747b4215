//! Command lines that did harm elsewhere, run as if every check had let them through. None may leave a
//! trace outside of its grants or reach the machine's network.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;

use super::*;

/// What a line of the corpus needs to lead out of the grants of a command instead of into them, or to end.
const ADAPTED: &[(&str, &str)] = &[
    ("CMD-20", "PATH=.:$PATH evil-ls </dev/null"),
    ("CMD-28", "find OUTSIDE -maxdepth 1 -name victim -delete"),
    // Paths have slashes.
    ("CMD-31", "sed 's|seed|touch CANARY|e' seed.txt"),
    ("CMD-40", "hash -p ./evil.sh ls; ls </dev/null"),
    ("CMD-51", "cd glob && tar -cf /dev/null *"),
    ("CMD-56", "source ./evil.sh </dev/null"),
];

/// Lines that do nothing in bash, whoever runs them: a name that isn't there (42), no text for a shell (47),
/// a branch's name and a name server (52, 53). Those for other shells come on top.
const DEAD: &[&str] = &["CMD-42", "CMD-47", "CMD-52", "CMD-53"];

#[derive(serde::Deserialize)]
struct Case {
    id: String,
    cmd: String,
    shell: Option<String>,
    #[serde(default)]
    control: bool,
}

/// The lines of the shared corpus that do something in bash. `CANARY` becomes a file outside of the grants,
/// and `touch CANARY` a program that tries more than that.
fn corpus() -> Vec<(String, String)> {
    let cases = include_str!("../../corpus/commands.jsonl").lines();
    let cases = cases.map(|line| serde_json::from_str::<Case>(line).unwrap());
    let live = cases
        .filter(|case| !case.control && case.shell.is_none() && !DEAD.contains(&case.id.as_str()))
        .map(|Case { id, cmd, .. }| {
            let adapted =
                ADAPTED.iter().find(|(adapted, _)| *adapted == id).map(|(_, line)| (*line).to_owned());
            (id, adapted.unwrap_or(cmd))
        });
    live.collect()
}

/// Lines that do nothing even without a sandbox: git's injected configuration already keeps them from
/// it (26), or a program is missing here (35).
const HARMLESS: &[&str] = &["CMD-26", "CMD-35"];

/// A workspace as the corpus wants it. `payload` is what a canary does.
fn set_up(fixture: &Fixture, port: u16) {
    let ws = fixture.at("ws");
    let outside = fixture.at("out").display().to_string();
    let program = |name: &str, text: &str| {
        fs::write(ws.join(name), text).unwrap();
        fs::set_permissions(ws.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    };
    let payload = format!(
        "#!/bin/bash\ntouch {ws}/ran\ntouch {outside}/CANARY\necho x >>{outside}/victim\n\
         touch {ws}/.roo/mcp.json {ws}/.vscode/tasks.json\necho x >{ws}/AGENTS.md\n\
         cat {ws}/.env {home}/.ssh/id_ed25519 >{ws}/stolen\n(echo canary >/dev/tcp/127.0.0.1/{port})\n",
        ws = ws.display(),
        home = fixture.at("home").display(),
    );
    program("payload", &payload);
    program("evil.sh", &format!("#!/bin/bash\n{}/payload; cat", ws.display()));
    fs::copy(ws.join("evil.sh"), ws.join("evil-ls")).unwrap();
    fs::write(fixture.at("out/victim"), "victim").unwrap();
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
fn harm(fixture: &Fixture, listener: &TcpListener) -> Vec<&'static str> {
    let read = |name: &str| fs::read_to_string(fixture.at(name)).unwrap_or_default();
    let harm = [
        (fixture.names("out") != ["kept.txt", "victim"], "a file appeared or went outside"),
        (read("out/victim") != "victim", "a file outside was changed"),
        (!fixture.names("ws/.roo").is_empty(), "a protected file appeared"),
        (fixture.names("ws/.vscode") != ["settings.json"], "a protected file appeared"),
        (read("ws/AGENTS.md") != "be good", "a protected file was changed"),
        (read("ws/stolen").contains("canary-secret"), "a secret was read"),
        (listener.accept().is_ok(), "the network was reached"),
    ];
    harm.into_iter().filter(|(done, _)| *done).map(|(_, what)| what).collect()
}

fn lines(fixture: &Fixture) -> impl Iterator<Item = (String, String)> {
    let (outside, payload) =
        (fixture.at("out").display().to_string(), fixture.at("ws/payload").display().to_string());
    corpus().into_iter().flat_map(move |(id, line)| {
        let line = line.replace("OUTSIDE", &outside);
        let file = line.replace("CANARY", &format!("{outside}/CANARY"));
        let program = line.replace("touch CANARY", &payload).replace("CANARY", &format!("{outside}/CANARY"));
        let mut both = vec![file, program];
        both.dedup();
        both.into_iter().map(move |line| (id.clone(), line))
    })
}

#[tokio::test]
async fn no_line_of_the_corpus_leaves_a_trace() {
    let fixture = Fixture::new().await;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    set_up(&fixture, listener.local_addr().unwrap().port());
    let mut ran = 0;
    for (id, line) in lines(&fixture) {
        let (_, output) = fixture.sh(&line).await;
        assert_eq!(harm(&fixture, &listener), [""; 0], "{id}: {line}\n{output}");
        ran += usize::from(fs::remove_file(fixture.at("ws/ran")).is_ok());
        for name in ["stolen", ".git/index.lock"] {
            let _ = fs::remove_file(fixture.at("ws").join(name));
        }
    }
    assert!(ran >= 35, "only {ran} payloads ran at all: this test tries nothing");
}

/// And of what is written in the workspace nothing arrives there but what is in scope.
#[tokio::test]
async fn staged_no_line_of_the_corpus_leaves_a_trace() {
    let fixture = Fixture::new().await;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    set_up(&fixture, listener.local_addr().unwrap().port());
    let everything = || fixture.names("ws");
    let before = everything();
    let mut ran = 0;
    for (id, line) in lines(&fixture) {
        let staging = fixture.stage(&super::staged::Rules);
        let (_, output) =
            fixture.run(&fixture.command(&line), &staging.confinement).await.expect("it starts");
        assert_eq!(
            (harm(&fixture, &listener), everything()),
            (vec![], before.clone()),
            "{id}: {line}\n{output}"
        );
        let landed = staging.land(&super::staged::Rules, true);
        assert_eq!(
            (harm(&fixture, &listener), everything()),
            (vec![], before.clone()),
            "{id}: {line}\n{output}"
        );
        ran += usize::from(landed.withheld.iter().any(|withheld| withheld.change.path == Path::new("ran")));
        let stolen = landed.kept.map(|kept| fs::read_to_string(kept.join("stolen")).unwrap_or_default());
        assert!(!stolen.unwrap_or_default().contains("canary-secret"), "{id}: {line}");
    }
    assert!(ran >= 35, "only {ran} payloads ran at all: this test tries nothing");
}

/// The corpus is alive: without a sandbox almost every line does its harm.
#[tokio::test]
async fn without_a_sandbox_they_do() {
    assert_eq!(corpus().len(), 53, "a line of the corpus is lost");
    for (id, _) in corpus().iter().filter(|(id, _)| !HARMLESS.contains(&id.as_str())) {
        let fixture = Fixture::with(Sandbox::none("this shows what it is for"));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        set_up(&fixture, listener.local_addr().unwrap().port());
        let (_, line) = lines(&fixture).find(|(found, _)| found == id).unwrap();
        exec::run(&fixture.command(&line), &fixture.environment(), |_| {}, &CancellationToken::new())
            .await
            .unwrap();
        assert_ne!(harm(&fixture, &listener), [""; 0], "{id}: {line}");
    }
}

#[tokio::test]
async fn by_landlock_alone_no_line_leaves_a_trace_outside() {
    let fixture = Fixture::with_landlock().await;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    set_up(&fixture, listener.local_addr().unwrap().port());
    for (id, line) in lines(&fixture) {
        let (_, output) = fixture.sh(&line).await;
        let harm = harm(&fixture, &listener);
        // What lies within a grant is restored afterwards, by the room of changes.
        let outside = harm.iter().any(|what| what.contains("outside") || what.contains("network"));
        assert!(!outside, "{id}: {line}: {harm:?}\n{output}");
    }
}

/// A descriptor is a way that no path leads: what a shell or an editor left open ends at the helper.
#[test]
fn what_the_server_was_started_with_does_not_reach_a_command() {
    let project = crate::support::project::Project::new(&[]);
    let outside = project.beside("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("key"), "canary-secret").unwrap();
    let program = project.program();
    let mut command = std::process::Command::new("bash");
    command.args(["-c", r#"exec 7<"$0" 8>>"$0/log"; exec "$@""#]).arg(&outside).arg(program.get_program());
    let line = "cat /proc/self/fd/7/key <&7; echo escaped >&8; echo x > /proc/self/fd/7/made; true";
    let params = serde_json::json!({ "command": line }).to_string();
    command.args(["tool", "execute_command", "--allow", "--params", &params, "--workspace"]);
    command.arg(project.folder()).env_clear();
    command.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = command.current_dir(project.folder()).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(told.contains("Bad file descriptor") && !told.contains("canary-secret"), "{told}");
    assert_eq!(names(&outside), ["key", "log"]);
    assert_eq!(fs::read_to_string(outside.join("log")).unwrap(), "");
}
