//! Grants of what the sandbox withheld: a host, a variable, a path for certain commands alone; presets of rules by an
//! answer; and what is masked where files are read. Over the real protocol, and on a terminal.

use std::collections::VecDeque;
use std::fs;

use serde_json::{Value, json};

use crate::support::client::{Client, Home, Options, eventually};
use crate::support::project::Project;
use crate::support::terminal::{self, Output};

const CONFINED: &str = "autoApprove: { write: true, execute: { mode: confined } }\n";

/// Makes the same calls as often as there are turns for it.
fn calling(lines: &[&str]) -> String {
    let call = |line: &&str| {
        let params = json!({ "command": line });
        format!("  - calls: [{{ tool: execute_command, params: {params} }}]\n")
    };
    let calls: String = lines.iter().map(call).collect();
    format!("turns:\n{calls}  - calls: [{{ tool: attempt_completion, params: {{ result: Done. }} }}]\n")
}

fn begin(script: &str, settings: &str, options: Options) -> (Home, Client) {
    let home = Home::playing(script);
    home.configure(&format!("mode: code\n{settings}"));
    let mut client = Client::start(&home, options);
    client.request("roo/trust/grant", json!({}));
    (home, client)
}

fn respond(client: &mut Client, asked: &Value, option: &str) {
    let (id, digest) = (&asked["event"]["approvalId"], &asked["event"]["digest"]);
    let answer = json!({ "approvalId": id, "digest": digest, "optionId": option });
    assert_eq!(client.request("roo/approval/respond", answer)["accepted"], true);
}

fn summaries(client: &Client, task: &str) -> Vec<String> {
    let events = client.numbered(task);
    let finished = events.iter().filter(|event| event["event"]["type"] == "tool.finished");
    finished.map(|event| event["event"]["summary"].as_str().unwrap().to_owned()).collect()
}

fn rules(client: &mut Client) -> Vec<String> {
    let rules = client.request("roo/rule/list", json!({}));
    let rules = rules["rules"].as_array().unwrap().iter();
    rules.map(|rule| rule["text"].as_str().unwrap().to_owned()).collect()
}

#[test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
fn a_host_that_the_proxy_refused_is_granted_by_its_name() {
    let line = "curl -sS --max-time 20 http://other.example/";
    let (_home, mut client) = begin(&calling(&[line; 3]), CONFINED, Options::typed());
    let task = client.start_task("Go");
    let asked = client.event("approval.requested");
    let title = asked["event"]["title"].as_str().unwrap();
    assert!(title.starts_with("Let this command reach `other.example:80`? Run curl"), "{title}");
    respond(&mut client, &asked, "allow_always");
    client.state("completed");
    let told = summaries(&client, &task);
    let withheld = "the sandbox withheld other.example:80";
    assert!(told[0].ends_with(withheld), "{told:?}");
    // By now it is reached, as far as there is such a host.
    assert!(!told[1].contains(withheld) && !told[2].contains(withheld), "{told:?}");
    assert_eq!(rules(&mut client), ["Always allow commands to reach `other.example:80`"]);
    client.request("roo/rule/revoke", json!({ "ruleId": "r1" }));
    assert_eq!(rules(&mut client), [""; 0]);
    client.shut_down();
}

#[test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
fn a_host_that_a_program_succeeds_without_is_not_offered() {
    let line = "curl -sS --max-time 20 http://other.example/ > curl.log 2>&1 || true";
    let (_home, mut client) = begin(&calling(&[line; 2]), CONFINED, Options::typed());
    let task = client.start_task("Go");
    client.state("completed");
    assert_eq!(summaries(&client, &task)[..2], ["exit code 0", "exit code 0"]);
    client.shut_down();
}

#[test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
fn a_host_that_was_refused_before_is_told_and_offered_to_the_next_command() {
    let quiet = "curl -sS --max-time 20 http://other.example/ > curl.log 2>&1 || true";
    let line = "curl -sS --max-time 20 http://other.example/";
    let (_home, mut client) = begin(&calling(&[quiet, line, line]), CONFINED, Options::typed());
    let task = client.start_task("Go");
    let asked = client.event("approval.requested");
    let title = asked["event"]["title"].as_str().unwrap();
    assert!(title.starts_with("Let this command reach `other.example:80`? Run curl"), "{title}");
    respond(&mut client, &asked, "reject_once");
    client.state("completed");
    let told = summaries(&client, &task);
    assert_eq!(told[0], "exit code 0");
    assert!(told[1].ends_with("the sandbox withheld other.example:80"), "{told:?}");
    client.shut_down();
}

#[test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
fn a_host_that_is_granted_leaves_a_server_of_the_request_within_reach() {
    const SERVE: &str = "python3 -u -m http.server 8123 --bind 127.0.0.1";
    let fetch = "curl -sS --max-time 20 http://127.0.0.1:8123/hello.txt";
    let other = "curl -sS --max-time 20 http://other.example/";
    let serve = json!({ "command": SERVE, "timeout": 1 });
    let script = calling(&[other, other, fetch]).replacen(
        "turns:\n",
        &format!("turns:\n  - calls: [{{ tool: execute_command, params: {serve} }}]\n"),
        1,
    );
    let (home, mut client) = begin(&script, CONFINED, Options::typed());
    fs::write(home.work("hello.txt"), "hello from the server\n").unwrap();
    let task = client.start_task("Go");
    let asked = client.event("approval.requested");
    respond(&mut client, &asked, "allow_always");
    client.state("completed");
    let log = fs::read_to_string(home.log(&task)).unwrap();
    assert!(log.contains("hello from the server"), "{log}");
    client.shut_down();
}

#[test]
fn a_port_of_this_machine_is_granted_by_its_number() {
    use std::io::Write as _;

    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        listener.incoming().for_each(|stream| drop(stream.unwrap().write_all(b"hello\n")))
    });
    let (home, mut client) = begin(&calling(&["bash use.sh"; 3]), CONFINED, Options::typed());
    let script = "at=/dev/tcp/127.0.0.1/PORT\n(exec 3<>$at) 2>/dev/null || { echo ECONNREFUSED 127.0.0.1:PORT; exit 1; }\n\
                  exec 3<>$at && read -r line <&3 && echo \"the server says $line\"\n";
    fs::write(home.work("use.sh"), script.replace("PORT", &port.to_string())).unwrap();
    let task = client.start_task("Go");
    let asked = client.event("approval.requested");
    let title = asked["event"]["title"].as_str().unwrap();
    assert!(title.starts_with(&format!("Let this command reach `127.0.0.1:{port}`?")), "{title}");
    respond(&mut client, &asked, "allow_always");
    client.state("completed");
    let told = summaries(&client, &task);
    assert!(told[0].ends_with(&format!("the sandbox withheld 127.0.0.1:{port}")), "{told:?}");
    assert_eq!(told[1..3], ["exit code 0", "exit code 0"]);
    assert!(fs::read_to_string(home.log(&task)).unwrap().contains("the server says hello"));
    assert_eq!(rules(&mut client), [format!("Always allow commands to reach `127.0.0.1:{port}`")]);
    client.shut_down();
}

#[test]
fn a_variable_that_a_program_misses_is_granted_by_its_name_and_masked() {
    const VALUE: &str = "f3kQ9zLw2Xr7";
    let script = calling(&["sh use.sh"; 3]);
    let options = Options { environment: vec![("SERVICE_TOKEN", VALUE.into())], ..Options::typed() };
    let (home, mut client) = begin(&script, CONFINED, options);
    fs::write(home.work("use.sh"), "echo \"with ${SERVICE_TOKEN:?is not set}\"\n").unwrap();
    let task = client.start_task("Go");
    let asked = client.event("approval.requested");
    assert_eq!(asked["event"]["title"], "Let this command see the variable `SERVICE_TOKEN`? Run sh use.sh");
    respond(&mut client, &asked, "allow_always");
    client.state("completed");
    let told = summaries(&client, &task);
    assert!(told[0].ends_with("the sandbox withheld the variable SERVICE_TOKEN"), "{told:?}");
    assert_eq!(told[1..3], ["exit code 0", "exit code 0"]);
    let log = fs::read_to_string(home.log(&task)).unwrap();
    assert!(log.contains("with [masked: SERVICE_TOKEN]") && !log.contains(VALUE));
    assert_eq!(rules(&mut client), ["Always allow commands to see the variable `SERVICE_TOKEN`"]);
    client.shut_down();
}

#[test]
fn a_path_is_granted_to_certain_commands_alone() {
    let script = calling(&["sh read.sh", "sh read.sh", "sh read.sh again", "sh other.sh"]);
    let (home, mut client) = begin(&script, CONFINED, Options::typed());
    fs::write(home.work(".env"), "COLOUR=blue\n").unwrap();
    for name in ["read.sh", "other.sh"] {
        fs::write(home.work(name), "cat .env > /dev/null\n").unwrap();
    }
    let task = client.start_task("Go");
    let asked = client.event("approval.requested");
    let env = home.work(".env").display().to_string();
    let option = asked["event"]["options"].as_array().unwrap().last().unwrap();
    assert_eq!(option["id"], "allow_commands");
    assert_eq!(option["name"], format!("Always allow `sh read.sh` to read `{env}`"));
    respond(&mut client, &asked, "allow_commands");
    client.state("completed");
    let withheld = "exit code 1; the sandbox withheld .env";
    assert_eq!(summaries(&client, &task)[..4], [withheld, "exit code 0", "exit code 0", withheld]);
    assert_eq!(rules(&mut client), [format!("Always allow `sh read.sh` to read `{env}`")]);
    client.shut_down();
}

/// Two lines that the preset of a Cargo project allows.
const LISTS: [&str; 2] = ["ls && ls src", "ls src && ls"];
const RULES: &str = "autoApprove: { execute: { mode: rules } }\n";

#[test]
fn a_preset_is_allowed_by_an_answer_and_counts_for_the_next_command() {
    let (home, mut client) = begin(&calling(&LISTS), RULES, Options::typed());
    fs::create_dir(home.work("src")).unwrap();
    fs::write(home.work("Cargo.toml"), "[package]\nname = \"x\"\n").unwrap();
    client.start_task("Go");
    let asked = client.event("approval.requested");
    let option = asked["event"]["options"].as_array().unwrap().last().unwrap();
    assert_eq!((&option["id"], &option["kind"]), (&json!("allow_preset"), &json!("allow_always")));
    assert_eq!(asked["event"]["alternative"]["preset"], "cargo", "{asked}");
    respond(&mut client, &asked, "allow_preset");
    client.state("completed");
    let rules = rules(&mut client);
    assert!(rules.len() == 1 && rules[0].ends_with("(the preset `cargo`)"), "{rules:?}");
    client.shut_down();
}

#[test]
fn on_a_terminal_each_answer_for_good_has_its_key() {
    for (key, expected) in [("p", "(the preset `cargo`)"), ("a", "Always allow `ls`"), ("d", "deny")] {
        let project = Project::new(&[("src/main.rs", ""), ("Cargo.toml", "[package]\nname = \"x\"\n")]);
        project.configure(&format!("mode: code\n{RULES}"));
        let script = project.script(&calling(&LISTS[..1]));
        let mut program = project.program();
        program.args(["run", "Go", "--script"]).arg(script).env("TERM", "dumb");
        program.stdout(std::process::Stdio::null());
        let (mut run, shown) = terminal::on_a_terminal(program, Output::Own, "Allow? [", &format!("{key}\n"));
        run.wait().unwrap();
        assert!(shown.contains("  p: Always allow "), "{shown}");
        let rules = project.succeed(&["policy", "rules"]);
        assert!(rules.contains(expected) && rules.lines().count() == 1, "{key}: {rules}\n{shown}");
    }
}

/// A run in which an agent calls two commands that write a file each.
fn writing_two_files(project: &Project) -> std::process::Command {
    project.configure("mode: code\n");
    let script = project.script(&calling(&["echo one > src/one.txt", "echo two > src/two.txt"]));
    let mut program = project.program();
    program.args(["run", "Go", "--script"]).arg(script).env("TERM", "dumb");
    program.stdout(std::process::Stdio::null());
    program
}

#[test]
fn what_a_folder_needs_is_granted_by_one_key_on_a_terminal() {
    let project = Project::new(&[("src/main.rs", "")]);
    let program = writing_two_files(&project);
    let (mut run, shown) = terminal::on_a_terminal(program, Output::Own, "Allow? [", "a\n");
    run.wait().unwrap();
    assert!(shown.contains("in the sandbox without asking?\n  Allow? [y: Only this command\n"), "{shown}");
    assert!(shown.contains("  a: Yes, trust this folder\n          d: No, ask each time\n"), "{shown}");
    assert_eq!(project.read("src/two.txt"), "two\n");
    assert!(project.succeed(&["trust", "--show"]).starts_with("trusted;"));
}

#[test]
fn an_answer_that_is_none_of_the_keys_is_asked_for_again() {
    let project = Project::new(&[("src/main.rs", "")]);
    project.configure("mode: code\n");
    let script = project.script(&calling(&["echo one > src/one.txt"]));
    let mut program = project.program();
    program.args(["run", "Go", "--script"]).arg(script).env("TERM", "dumb");
    program.stdout(std::process::Stdio::null());
    let (mut run, shown) = terminal::on_a_terminal(program, Output::Own, "Allow? [", "?\n1\nyess\nY\n");
    run.wait().unwrap();
    assert!(shown.contains("[y: Only this command") && shown.contains("Enter: n; "), "{shown}");
    assert_eq!(shown.matches("Answer with one of y, a, d, n.").count(), 3, "{shown}");
    assert_eq!(project.read("src/one.txt"), "one\n");
}

#[test]
fn what_an_answer_for_good_decides_is_asked_of_no_other_branch() {
    let project = Project::new(&[("src/main.rs", "")]);
    project.configure("autoApprove: { execute: { mode: rules } }\n");
    let call = |title: &str| {
        let message = format!("💻 {title}\n\nURID: {{{{urid}}}}\n\nDo it: {title}.\n");
        format!("{{ tool: new_task, params: {{ mode: code, message: {message:?} }} }}")
    };
    let lists = "{ tool: execute_command, params: { command: ls } }";
    let ends = "{ tool: attempt_completion, params: { result: Done. } }";
    let script = project.script(&format!(
        "turns:\n  - {{ mode: orchestrator, calls: [{}, {}] }}\n  - {{ mode: code, when: {{ contains: Do it }}, calls: [{lists}] }}\n  \
         - {{ mode: code, when: {{ contains: Do it }}, calls: [{lists}] }}\n  - {{ mode: code, calls: [{ends}] }}\n  \
         - {{ mode: code, calls: [{ends}] }}\n  - {{ mode: orchestrator, calls: [{ends}] }}\n",
        call("The first"),
        call("The second"),
    ));
    let mut program = project.program();
    program.args(["run", "Go", "--mode=orchestrator", "--script"]).arg(script).env("TERM", "dumb");
    program.stdout(std::process::Stdio::null());
    let mut answers = VecDeque::from(["a\n", "n\n"]);
    let (mut run, shown) = terminal::answering(program, Output::Own, |shown| {
        let is_asked = shown.matches("Allow? [").count() > 2 - answers.len();
        if is_asked && answers.len() == 2 {
            let asked =
                || fs::read_to_string(&project.logs()[0]).unwrap().matches("approvalRequested").count();
            eventually("the approvals of both branches", || asked() == 2);
        }
        if is_asked { answers.pop_front().map(str::to_owned) } else { None }
    });
    assert!(run.wait().unwrap().success(), "{shown}");
    assert_eq!(shown.matches("Allow? [").count(), 1, "{shown}");
    assert!(!shown.contains("denied"), "{shown}");
}

#[test]
fn keys_that_were_typed_ahead_answer_nothing_that_was_not_shown() {
    let project = Project::new(&[("src/main.rs", "")]);
    let program = writing_two_files(&project);
    let mut answers = VecDeque::from(["y\ny\n", "n\n"]);
    let (mut run, shown) = terminal::answering(program, Output::Own, |shown| {
        let is_asked = shown.matches("Allow? [").count() > 2 - answers.len();
        if is_asked { answers.pop_front().map(str::to_owned) } else { None }
    });
    run.wait().unwrap();
    assert_eq!(project.read("src/one.txt"), "one\n", "{shown}");
    assert!(!project.folder().join("src/two.txt").exists(), "{shown}");
}

#[test]
fn words_behind_a_refusal_on_a_terminal_reach_the_agent() {
    let project = Project::new(&[("src/main.rs", "")]);
    project.configure("mode: code\n");
    let script = r#"
turns:
  - calls: [{ tool: execute_command, params: { command: "echo one > src/one.txt" } }]
  - when: { contains: "use two.txt, please", status: denied }
    calls: [{ tool: attempt_completion, params: { result: Done. } }]
"#;
    let script = project.script(script);
    let mut program = project.program();
    program.args(["run", "Go", "--script"]).arg(script).env("TERM", "dumb");
    program.stdout(std::process::Stdio::null());
    let answers = "y but be careful\nn use two.txt, please\n";
    let (mut run, shown) = terminal::on_a_terminal(program, Output::Own, "Allow? [", answers);
    assert!(run.wait().unwrap().success(), "{shown}");
    assert!(shown.contains("n WORDS tells the agent why]") && shown.contains("denied by you"), "{shown}");
    assert_eq!(shown.matches("Answer with one of").count(), 1, "words with a permission go nowhere: {shown}");
}

#[test]
fn a_mask_is_not_written_back_into_a_file() {
    let token = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9".repeat(2));
    let script = r#"
turns:
  - calls: [{ tool: read_file, params: { path: a.ini } }]
  - when: { contains: ["2 | t=[masked: GitHub token]", "Don't write a mask"] }
    calls: [{ tool: write_to_file, params: { path: a.ini, content: "a=2\nt=[masked: GitHub token]\n" } }]
  - when: { contains: "That is a mask" }
    calls:
      - tool: apply_diff
        params: { path: a.ini, diff: "<<<<<<< SEARCH\nt=[masked: GitHub token]\n=======\nt=none\n>>>>>>> REPLACE" }
  - when: { contains: "the file itself holds the secret" }
    calls: [{ tool: search_and_replace, params: { path: a.ini, search: "a=1", replace: "a=2" } }]
  - calls: [{ tool: search_files, params: { path: ".", regex: "t=" } }]
  - when: { contains: "What looks like a secret is not searched" }
    calls: [{ tool: attempt_completion, params: { result: Done. } }]
"#;
    let (home, mut client) = begin(script, CONFINED, Options::typed());
    fs::write(home.work("a.ini"), format!("a=1\nt={token}\n")).unwrap();
    let task = client.start_task("Go");
    client.state("completed");
    assert_eq!(fs::read_to_string(home.work("a.ini")).unwrap(), format!("a=2\nt={token}\n"));
    assert!(!fs::read_to_string(home.log(&task)).unwrap().contains(&token));
    assert!(!client.seen.iter().any(|message| message.to_string().contains(&token)));
    client.shut_down();
}
