//! Commands that run unasked because the sandbox holds them (`autoApprove.execute.mode`): which do, which ask all the
//! same, who is asked once for a project, and what the answers come to.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use roo_protocol::event::Event;
use roo_protocol::rule::{RuleSubject, RuleVerdict};
use serde_json::{Value, json};

use crate::support::client::{Client, Home, Options};
use crate::support::project::Project;
use crate::support::repository::git;

/// A workspace whose user has trusted it.
fn trusted(settings: &str) -> Project {
    let project = untrusted(settings);
    project.succeed(&["trust"]);
    project
}

fn untrusted(settings: &str) -> Project {
    let files = [("src/main.rs", "fn main() {}\n"), (".env", "KEY=1\n"), ("README.md", "# One\n")];
    let project = Project::new(&files);
    project.configure(&format!("mode: code\n{settings}\n"));
    project
}

const CONFINED: &str = "autoApprove: { execute: { mode: confined } }";

/// What a command of an agent prints and how it ends, in a folder of a repository with these files.
fn in_repository(files: &[(&str, &str)], folder: &str, line: &str) -> String {
    // Below `/tmp`, in whose place commands have a directory of their own.
    let project = Project::new(files);
    for arguments in [&["init", "-q"][..], &["add", "-A"], &["commit", "-qm", "One"]] {
        git(&project.folder(), arguments);
    }
    let mut command = project.program();
    command.current_dir(project.folder().join(folder));
    command.args(["tool", "execute_command", "--allow", "--params", &json!({ "command": line }).to_string()]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_folder_of_a_repository_sees_all_of_its_work_tree() {
    let files = [("root.txt", "one\n"), ("app/a.txt", "one\n")];
    let told = in_repository(&files, "app", "git status --short && git add -A && git diff --cached --stat");
    // A file that git doesn't see is one that the next commit deletes.
    assert!(told.contains("Exit code: 0") && !told.contains("root.txt"), "{told}");
}

#[test]
fn git_adds_changes_beside_a_committed_rooignore() {
    let files = [(".rooignore", "private/\n"), ("a.txt", "one\n")];
    let told = in_repository(&files, "", "echo two > a.txt && git add -A && git diff --cached --name-only");
    assert!(told.contains("Exit code: 0\nOutput:\na.txt\n") && !told.contains(".rooignore"), "{told}");
}

/// The verdicts on these command lines.
fn verdicts(project: &Project, lines: &[&str]) -> Vec<Value> {
    let mut check = project.program();
    // A home outside of `/tmp`, which is private to commands.
    check.args(["policy", "check"]).env("HOME", "/etc");
    answers(check, lines)
}

fn answers(mut check: Command, lines: &[&str]) -> Vec<Value> {
    check.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = check.spawn().unwrap();
    let input: String = lines.iter().map(|line| json!({ "command": line }).to_string() + "\n").collect();
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let Output { stdout, stderr, .. } = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    let text = String::from_utf8(stdout).unwrap();
    let answers: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers.len(), lines.len(), "{}", String::from_utf8_lossy(&stderr));
    answers
}

fn word(answer: &Value) -> String {
    format!("{} {}", answer["verdict"].as_str().unwrap(), answer["rule"].as_str().unwrap())
}

#[test]
fn of_three_hundred_ordinary_lines_less_than_one_in_fifty_asks() {
    let corpus = include_str!("../corpus/ordinary_commands.txt");
    let lines: Vec<String> = corpus
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#') && !line.starts_with("allow:"))
        .map(|line| line.replace('⏎', "\n"))
        .collect();
    assert!(lines.len() >= 300);
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let answers = verdicts(&trusted(CONFINED), &lines);
    let asks: Vec<_> =
        lines.iter().zip(&answers).filter(|(_, answer)| answer["verdict"] != "allow").collect();
    assert!(asks.len() * 50 < lines.len(), "{asks:#?}");
}

#[test]
fn dependencies_and_what_the_settings_open_are_looked_at_unasked() {
    // A home outside of `/tmp`, which is private to commands.
    let project = Project::outside_temp(&[("src/main.rs", "fn main() {}\n")]);
    let home = project.beside("home");
    for name in [
        ".cargo/registry/src/i/a-1.0/lib.rs",
        ".cargo/registry/src/i/a-1.0/.env",
        ".cargo/config.toml",
        ".cargo/credentials.toml",
        ".rustup/toolchains/stable/lib/core.rs",
        ".pyenv/versions/3.13/lib/site-packages/p.py",
        ".m2/repository/a/a.pom",
        ".cache/pip/http/a",
        ".cache/own/a",
        "go/pkg/mod/m/m.go",
        "opened/a.txt",
        "opened/.env",
        "other/a.txt",
    ] {
        std::fs::create_dir_all(home.join(name).parent().unwrap()).unwrap();
        std::fs::write(home.join(name), "fn a() {}\n").unwrap();
    }
    let opened = home.join("opened").display().to_string();
    project.configure(&format!("mode: code\n{CONFINED}\nsandbox: {{ readable: ['{opened}'] }}\n"));
    project.succeed(&["trust"]);
    let expected = [
        ("grep -rn 'fn a' ~/.cargo/registry/src/", "allow"),
        ("cat $HOME/.rustup/toolchains/stable/lib/core.rs", "allow"),
        ("head -3 ~/.pyenv/versions/3.13/lib/site-packages/p.py", "allow"),
        ("ls ~/.m2/repository ~/.cache/pip/http", "allow"),
        ("sed -n 1,5p ~/go/pkg/mod/m/m.go", "allow"),
        ("cat ~/opened/a.txt", "allow"),
        ("cat ~/opened/.env", "ask"),
        ("cat ~/other/a.txt", "ask"),
        ("cat ~/.cache/own/a", "ask"),
        ("cat ~/.cargo/credentials.toml", "ask"),
        ("cat ~/.cargo/config.toml", "ask"),
        ("cat ~/.cargo/registry/src/i/a-1.0/.env", "ask"),
        ("echo x > ~/.cargo/registry/src/i/a-1.0/new", "ask"),
        ("cat < ~/go/pkg/mod/m/m.go", "allow"),
    ];
    let mut check = project.program();
    check.args(["policy", "check"]);
    let lines = expected.map(|(line, _)| line);
    for (answer, (line, expected)) in answers(check, &lines).iter().zip(expected) {
        assert_eq!(answer["verdict"], expected, "{line}: {answer}");
    }
    let judged = |tool: &str, path: &str| {
        let params = json!({ "path": home.join(path), "regex": "fn" }).to_string();
        let output = project.run(&["policy", "check", "--tool", tool, "--params", &params]);
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        answer["verdict"].as_str().unwrap().to_owned()
    };
    for (path, expected) in [
        (".cargo/registry/src/i/a-1.0/lib.rs", "allow"),
        ("go/pkg/mod/m/m.go", "allow"),
        ("opened/a.txt", "allow"),
        ("opened/.env", "ask"),
        (".cargo/registry/src/i/a-1.0/.env", "ask"),
        (".cargo/config.toml", "ask"),
        (".cargo/credentials.toml", "ask"),
        ("other/a.txt", "ask"),
    ] {
        assert_eq!(judged("read_file", path), expected, "{path}");
    }
    assert_eq!(judged("search_files", ".cargo/registry/src"), "allow");
    // It would find the credentials.
    assert_eq!(judged("search_files", ".cargo"), "ask");
}

#[test]
fn what_leaves_the_sandbox_or_is_denied_is_judged_as_ever() {
    let project =
        trusted("autoApprove: { execute: { mode: confined, allow: [[ls]], deny: [[rm], [git, push]] } }");
    for (line, expected) in [
        ("make all", "allow autoApprove.execute.mode"),
        ("for f in src/*; do wc -l \"$f\"; done > counts.txt", "allow autoApprove.execute.mode"),
        ("X=$(mktemp /tmp/x.XXXX) && sort README.md > \"$X\"", "allow autoApprove.execute.mode"),
        ("sed -n '/fn/p' src/main.rs | /usr/bin/head -3 2>/dev/null", "allow autoApprove.execute.mode"),
        ("cd src && cat ../README.md", "allow autoApprove.execute.mode"),
        ("ls src", "allow autoApprove.execute.allow ls"),
        // Denied in every form.
        ("rm -r src", "deny autoApprove.execute.deny"),
        ("make; sh -c 'rm -r src'", "deny autoApprove.execute.deny"),
        ("git -C . push", "deny autoApprove.execute.deny"),
        // A secret, a protected name as a target, a place outside, and what can't be read by who is to allow it.
        ("cat .env", "ask sandbox"),
        ("python3 load.py --config=.env", "ask sandbox"),
        ("echo NEW=1 >> .env", "ask sandbox"),
        ("cat .env; ls /var/lib", "ask command"),
        // The name alone of what the sandbox hides says nothing.
        ("ls -la .env; test -f .env && [ -s .env ] && stat .env", "allow autoApprove.execute.mode"),
        ("[ -f .env ] || cp README.md .env; echo .env >> notes.txt", "allow autoApprove.execute.mode"),
        ("git check-ignore -v .env; git ls-files .env; git status -s .env", "allow autoApprove.execute.mode"),
        ("git log --oneline -3 -- .env", "allow autoApprove.execute.mode"),
        ("git log --oneline -p -- .env", "ask sandbox"),
        ("git grep KEY -- .env", "ask sandbox"),
        ("grep -rn KEY --exclude=.env .", "allow autoApprove.execute.mode"),
        ("grep -rn KEY --include=.env .", "ask sandbox"),
        ("cp .env copy.txt", "ask sandbox"),
        ("echo x > .git/config", "ask command"),
        // What the sandbox keeps from being written whatever the answer, is not asked for.
        ("echo x >> .vscode/settings.json", "deny sandbox"),
        ("make && echo x > CLAUDE.md", "deny sandbox"),
        ("cd src && echo x > ../.git/hooks/pre-commit", "deny sandbox"),
        ("git init n; echo x > n/.git/info/attributes", "deny sandbox"),
        // What may be written all the same is asked for: most of what git keeps, build output if git ignores it, and what only
        // the shell knows.
        ("echo x > .git/COMMIT_EDITMSG && git commit -F .git/COMMIT_EDITMSG", "ask command"),
        ("git log > .git/notes.txt", "ask command"),
        ("git init n && echo x > n/.git/description", "ask command"),
        ("git init n && echo x > n/.git/info/exclude", "ask command"),
        ("mkdir -p target; echo x > target/CLAUDE.md", "ask command"),
        ("D=$(mktemp -d); echo x > \"$D/AGENTS.md\"", "ask command"),
        ("D=$(mktemp -d); git clone . $D/c; cd $D/c; echo x > .git/info/exclude", "ask command"),
        ("pushd \"$D\"; echo x > AGENTS.md", "ask command"),
        ("echo x > /etc/$NAME", "ask command"),
        ("mv src lib && echo x > src", "allow autoApprove.execute.mode"),
        // A `$` that begins nothing is text.
        (
            "sed -i s/l2$/X/ README.md; awk /foo$/ README.md; grep -c x$ README.md",
            "allow autoApprove.execute.mode",
        ),
        ("cat /etc/shadow", "ask command"),
        // By these a machine describes itself to every program.
        ("cat /etc/passwd; tool --config=/etc/hosts", "allow autoApprove.execute.mode"),
        ("cat /proc/cpuinfo; grep Mem /proc/meminfo", "allow autoApprove.execute.mode"),
        ("cat /proc/1/environ", "ask command"),
        ("grep -r x /etc", "ask command"),
        ("ls / && ls -la /etc", "allow autoApprove.execute.mode"),
        ("ls -R /etc", "ask command"),
        ("echo ~; printf '%s' ~", "allow autoApprove.execute.mode"),
        ("ls ~", "ask command"),
        ("ls src /var", "ask command"),
        ("cd / && ls *", "ask command"),
        ("cd /var; tar cf - lib | wc -c", "ask command"),
        ("TARGET=/etc make install", "ask command"),
        ("tool --config=/etc/shadow", "ask command"),
        ("cat ~/shadow; cat $HOME", "ask command"),
        ("git -C / status", "ask command"),
        ("make -C/etc", "ask command"),
        ("cat ~root/.profile", "ask command"),
        ("timeout 5 bash -c 'cd src && cat /etc/shadow'", "ask command"),
        ("timeout 5 bash -c 'cd src && cat main.rs'", "allow autoApprove.execute.mode"),
        ("echo x > /etc/beside", "deny sandbox"),
        // A word of slashes is the root directory for those programs alone that take it for a place.
        ("grep -rn '//' src && rg // src; echo / // | tr / _", "allow autoApprove.execute.mode"),
        ("cut -d / -f1 README.md; awk -F / '{print $2}' README.md", "allow autoApprove.execute.mode"),
        ("grep -rn fn /", "ask command"),
        ("grep -e fn -r //", "ask command"),
        ("grep -rehello //", "ask command"),
        ("rg --files //", "ask command"),
        ("ls //", "ask command"),
        // Temporary files are the command's own, and system directories hold programs.
        ("echo x > /tmp/x && cat /tmp/x /usr/share/common-licenses/GPL-3", "allow autoApprove.execute.mode"),
        ("echo \u{202e}x", "ask command"),
        ("echo x\u{fe0f}", "ask command"),
        ("echo '\u{26a0}\u{fe0f} \u{1f469}\u{200d}\u{1f4bb}'", "allow autoApprove.execute.mode"),
        ("echo 'unclosed", "ask command"),
    ] {
        let answer = &verdicts(&project, &[line])[0];
        assert_eq!(word(answer), expected, "{line}: {answer}");
    }
    let network = project.run(&["policy", "check", "--command", "make", "--network"]);
    let answer: Value = serde_json::from_slice(&network.stdout).unwrap();
    assert_eq!(word(&answer), "ask network");
    assert_eq!(answer["always"], "Always allow commands that ask for it to reach the network");
}

#[test]
fn each_mode_asks_as_it_says_and_an_intent_makes_every_command_ask() {
    for (settings, listed, other) in [
        ("autoApprove: { execute: { mode: ask, allow: [[ls]] } }", "ask autoApprove.execute.mode", None),
        (
            "autoApprove: { execute: { mode: rules, allow: [[ls]] } }",
            "allow autoApprove.execute.allow ls",
            None,
        ),
        (
            "autoApprove: { execute: { allow: [[ls]] } }",
            "allow autoApprove.execute.allow ls",
            Some("Always allow commands that stay in the sandbox"),
        ),
    ] {
        let project = trusted(settings);
        let found = verdicts(&project, &["ls src", "make all"]);
        assert_eq!(word(&found[0]), listed, "{settings}");
        assert_eq!(found[1]["verdict"], "ask", "{settings}");
        let reason = found[1]["reason"].as_str().unwrap();
        assert_eq!(reason.starts_with("no rule allows `make`"), !settings.contains("mode: ask"), "{reason}");
        let always = found[1]["always"].as_str().filter(|always| !always.contains("make"));
        assert_eq!(always, other, "{settings}");
    }
    let project = trusted(CONFINED);
    project.write(
        ".orchestration/active_intents.yaml",
        "active_intents:\n  - { id: INT-001, name: One, status: PENDING, owned_scope: [src/**], enforce: [ask_commands] }\n",
    );
    let check = project.run(&["policy", "check", "--command", "make all", "--intent", "INT-001"]);
    let answer: Value = serde_json::from_slice(&check.stdout).unwrap();
    assert_eq!(word(&answer), "ask intent", "{answer}");
}

#[test]
fn what_a_request_wrote_to_its_temporary_directory_is_deleted_with_it() {
    let project = trusted(CONFINED);
    let script = project.script(
        r#"
turns:
  - calls: [{ tool: execute_command, params: { command: "mkdir /tmp/of-a-request && echo x > /tmp/of-a-request/x && chmod 500 /tmp/of-a-request" } }]
  - calls: [{ tool: attempt_completion, params: { result: Done. } }]
"#,
    );
    project.succeed(&["run", "--script", script.to_str().unwrap(), "Go"]);
    let list = project.succeed(&["tasks", "list", "--json"]);
    let item: Value = serde_json::from_str(list.lines().next().unwrap()).unwrap();
    let urid = item["urid"].as_str().unwrap();
    let temporary = project.logs()[0].ancestors().nth(3).unwrap().join("tmp").join(urid);
    assert!(temporary.join("of-a-request/x").is_file(), "{}", temporary.display());
    project.succeed(&["tasks", "delete", "--yes", urid]);
    assert!(!temporary.exists());
}

#[test]
fn without_trust_or_a_sandbox_that_holds_what_is_protected_nothing_runs_unasked() {
    let answer = &verdicts(&untrusted(CONFINED), &["make all"])[0];
    let always = json!("Always allow commands that stay in the sandbox, and trust this folder");
    assert_eq!((word(answer).as_str(), &answer["always"]), ("ask command", &always));
    assert_eq!(
        answer["reason"],
        "no rule allows `make`; the user's settings let commands run in the sandbox without asking, but only in a \
         trusted folder, and this one isn't"
    );
    let off = trusted("autoApprove: { execute: { mode: confined } }\nsandbox: { level: 'off' }");
    assert_eq!(word(&verdicts(&off, &["make all"])[0]), "ask command");
    // As where user namespaces are forbidden: Landlock alone can't hide a file within what may be written.
    let weaker = trusted(CONFINED);
    let line = format!(
        "set -e; echo 0 >/proc/sys/user/max_user_namespaces; exec {} policy check",
        env!("CARGO_BIN_EXE_roo-lsp")
    );
    let mut check = Command::new("unshare");
    check.args(["-Urm", "sh", "-c", &line]).current_dir(weaker.folder());
    for (name, value) in weaker.program().get_envs() {
        value.map(|value| check.env(name, value));
    }
    let answer = &answers(check, &["make all"])[0];
    assert_eq!((word(answer).as_str(), &answer["sandbox"]), ("ask command", &json!("L2")), "{answer}");
}

#[test]
fn the_answer_for_a_project_is_a_standing_rule_that_can_be_taken_back() {
    let project = trusted("");
    let rules = super::policy::rules(&project);
    let verdict = || word(&verdicts(&project, &["make all"])[0]);
    assert_eq!(verdict(), "ask command");
    rules.add(RuleVerdict::Allow, RuleSubject::ConfinedCommands, "nvim", 1_795_176_000_000).unwrap();
    assert_eq!(verdict(), "allow rule r1");
    assert_eq!(
        project.succeed(&["policy", "rules"]),
        "r1   Always allow commands that stay in the sandbox (2026-11-20, by nvim)\n"
    );
    // Who wants to be asked has the last word, also against the user's own settings.
    rules.add(RuleVerdict::Deny, RuleSubject::ConfinedCommands, "nvim", 1).unwrap();
    assert_eq!(verdict(), "ask command");
    let told = project.succeed(&["policy", "rules"]);
    assert!(told.contains("r2   No offer to run commands in the sandbox without asking ("), "{told}");
    project.configure(CONFINED);
    assert_eq!(verdict(), "ask command");
    project.succeed(&["policy", "revoke", "r2"]);
    assert_eq!(verdict(), "allow autoApprove.execute.mode");
    project.configure("autoApprove: { execute: { mode: rules } }");
    assert_eq!(verdict(), "ask command");
}

/// Runs two commands, the second of which only runs when nobody has to be asked about it any more.
const SCRIPT: &str = r#"
turns:
  - calls: [{ tool: execute_command, params: { command: "echo one > src/one.txt" } }]
  - calls: [{ tool: execute_command, params: { command: "echo two > src/two.txt" } }]
  - calls: [{ tool: attempt_completion, params: { result: Done. } }]
"#;

fn trusted_home() -> Home {
    let home = Home::playing(SCRIPT);
    home.configure("mode: code\n");
    std::fs::create_dir(home.work("src")).unwrap();
    home
}

fn options(asked: &Value) -> Vec<String> {
    let options = asked["event"]["options"].as_array().unwrap();
    options.iter().map(|option| option["name"].as_str().unwrap().to_owned()).collect()
}

fn respond(client: &mut Client, asked: &Value, option: &str) {
    let (id, digest) = (&asked["event"]["approvalId"], &asked["event"]["digest"]);
    let answer = json!({ "approvalId": id, "digest": digest, "optionId": option });
    assert_eq!(client.request("roo/approval/respond", answer)["accepted"], true);
}

#[test]
fn the_first_command_of_a_trusted_workspace_asks_once_for_the_project() {
    let home = trusted_home();
    let mut client = Client::start(&home, Options::typed());
    client.request("roo/trust/grant", json!({}));
    client.start_task("Go");
    let asked = client.event("approval.requested");
    assert_eq!(
        asked["event"]["title"],
        "Run commands in the sandbox without asking? Run echo one > src/one.txt"
    );
    let expected = ["Deny this command", "Only this command", "Yes, for this project", "No, ask each time"];
    assert_eq!(options(&asked), expected);
    respond(&mut client, &asked, "allow_always");
    client.state("completed");
    assert_eq!(std::fs::read_to_string(home.work("src/two.txt")).unwrap(), "two\n");
    let rules = client.request("roo/rule/list", json!({}));
    assert_eq!(rules["rules"][0]["subject"]["kind"], "confinedCommands", "{rules}");
    // What is kept is kept beside the workspace, not in it.
    assert_eq!(rules["rules"][0]["scope"], "workspace");
    client.shut_down();
}

#[test]
fn the_first_command_of_an_untrusted_folder_asks_for_trust_as_well() {
    let home = trusted_home();
    std::fs::write(home.work("AGENTS.md"), "Speak plainly.\n").unwrap();
    let mut client = Client::start(&home, Options::typed());
    client.start_task("Go");
    let asked = client.event("approval.requested");
    assert_eq!(
        asked["event"]["title"],
        "Trust this folder (AGENTS.md will steer agents) and run its commands in the sandbox without asking? \
         Run echo one > src/one.txt"
    );
    let expected = ["Deny this command", "Only this command", "Yes, trust this folder", "No, ask each time"];
    assert_eq!(options(&asked), expected);
    respond(&mut client, &asked, "allow_always");
    client.state("completed");
    assert_eq!(std::fs::read_to_string(home.work("src/two.txt")).unwrap(), "two\n");
    assert_eq!(client.request("roo/trust/get", json!({}))["trusted"], true);
    let rules = client.request("roo/rule/list", json!({}));
    assert_eq!(rules["rules"][0]["subject"]["kind"], "confinedCommands", "{rules}");
    // Either half is revoked by itself, and then commands ask again.
    client.request("roo/trust/revoke", json!({}));
    client.start_task("Again");
    let asked = client.event("approval.requested");
    assert_eq!(asked["event"]["rule"]["kind"], "trustAndConfinedCommands");
    client.shut_down();
}

#[test]
fn what_a_folder_brings_after_the_question_is_not_trusted_by_the_answer() {
    let home = trusted_home();
    let mut client = Client::start(&home, Options::typed());
    client.start_task("Go");
    let asked = client.event("approval.requested");
    assert_eq!(asked["event"]["rule"]["brings"], json!([]));
    std::fs::write(home.work("AGENTS.md"), "Obey.\n").unwrap();
    respond(&mut client, &asked, "allow_always");
    // The command itself was allowed; the next one asks for what was not shown.
    let asked = client.event("approval.requested");
    assert_eq!(asked["event"]["rule"]["brings"], json!(["AGENTS.md"]));
    assert_eq!(client.request("roo/trust/get", json!({}))["trusted"], false);
    respond(&mut client, &asked, "reject_always");
    let asked = client.event("approval.requested");
    assert_eq!(asked["event"]["title"], "Run echo two > src/two.txt");
    respond(&mut client, &asked, "reject_once");
    client.state("completed");
    assert_eq!(client.request("roo/trust/get", json!({}))["trusted"], false);
    client.shut_down();
}

#[test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
fn what_a_question_cannot_name_is_not_offered_with_it() {
    let project = untrusted("");
    for mode in ["one", "two", "three", "four", "five", "six", "seven", "eight"] {
        project.write(&format!(".roo/rules-{mode}-{mode}/a.md"), "A rule.\n");
    }
    let answer = &verdicts(&project, &["make all"])[0];
    assert_eq!(answer["always"], "Always allow `make all`", "{answer}");
}

#[test]
fn who_wants_to_be_asked_each_time_is_asked_about_the_same_command_at_once() {
    let home = trusted_home();
    let mut client = Client::start(&home, Options::typed());
    client.request("roo/trust/grant", json!({}));
    client.start_task("Go");
    let asked = client.event("approval.requested");
    respond(&mut client, &asked, "reject_always");
    let asked = client.event("approval.requested");
    assert_eq!(asked["event"]["title"], "Run echo one > src/one.txt");
    assert!(!home.work("src/one.txt").exists(), "nothing has been allowed yet");
    respond(&mut client, &asked, "allow_once");
    let asked = client.event("approval.requested");
    assert_eq!(asked["event"]["title"], "Run echo two > src/two.txt");
    respond(&mut client, &asked, "reject_once");
    client.state("completed");
    assert!(home.work("src/one.txt").exists() && !home.work("src/two.txt").exists());
    client.shut_down();
}

#[test]
fn plain_clients_are_offered_every_answer_by_a_popup() {
    let home = trusted_home();
    let mut typed = Client::start(&home, Options::typed());
    typed.request("roo/trust/grant", json!({}));
    typed.shut_down();
    let mut client = Client::start(&home, Options::plain());
    client.command("roo.newTask", json!("Go"));
    let popup = client.popup();
    let actions = popup["params"]["actions"].as_array().unwrap();
    let titles: Vec<&str> = actions.iter().map(|action| action["title"].as_str().unwrap()).collect();
    let answers = ["Deny this command", "Only this command", "Yes, for this project", "No, ask each time"];
    assert_eq!(&titles[1..], answers, "{popup}");
    client.reply(&popup, json!({ "title": "Yes, for this project" }));
    // What counts for more than this command is said in full first.
    let scope = client.popup();
    let text = scope["params"]["message"].as_str().unwrap();
    assert!(
        text.starts_with("Allows commands that stay in the sandbox in this project without asking"),
        "{text}"
    );
    assert_eq!(scope["params"]["actions"][0]["title"], "Back");
    client.reply(&scope, json!({ "title": "Yes, for this project" }));
    client.progress("end");
    assert!(home.work("src/two.txt").exists());
    client.shut_down();
}

#[test]
fn without_a_terminal_the_flag_answers_once_for_each_command_and_makes_no_rule() {
    for (flag, ran) in [("--on-ask=allow", true), ("--on-ask=deny", false)] {
        for (project, report) in [(trusted(""), "trusted;"), (untrusted(""), "not trusted;")] {
            let script = project.script(SCRIPT);
            project.run(&["run", "--script", script.to_str().unwrap(), flag, "Go"]);
            assert_eq!(project.folder().join("src/two.txt").exists(), ran, "{flag}");
            assert_eq!(project.succeed(&["policy", "rules"]), "no standing rules\n");
            assert!(project.succeed(&["trust", "--show"]).starts_with(report));
        }
    }
    // Nobody answers: the request waits. Where the settings allow it, nobody has to.
    let waiting = trusted("");
    let script = waiting.script(SCRIPT);
    let output = waiting.run(&["run", "--script", script.to_str().unwrap(), "Go"]);
    assert!(!waiting.folder().join("src/one.txt").exists(), "{output:?}");
    let confined = trusted(CONFINED);
    let script = confined.script(SCRIPT);
    confined.succeed(&["run", "--script", script.to_str().unwrap(), "Go"]);
    assert_eq!(confined.read("src/two.txt"), "two\n");
}

#[test]
fn a_command_that_runs_unasked_is_shown() {
    let project = trusted(CONFINED);
    let script = project.script(SCRIPT);
    let shown = project.succeed(&["run", "--format", "ndjson", "--script", script.to_str().unwrap(), "Go"]);
    let started = shown.lines().filter_map(|line| {
        let event = serde_json::from_str::<Value>(line).unwrap()["event"].clone();
        match serde_json::from_value(event) {
            Ok(Event::ToolStarted { subject, .. }) => Some(subject),
            _ => None,
        }
    });
    let started: Vec<String> = started.collect();
    assert!(started.contains(&"echo one > src/one.txt".to_owned()), "{started:?}");
}

/// Runs a script three times that reads a hidden file, as a model does that is told to make the call once more.
const READS: &str = r#"
turns:
  - calls: [{ tool: execute_command, params: { command: "sh read.sh" } }]
  - when: { contains: "- .env can't be read (setting sandbox.readable)" }
    calls: [{ tool: execute_command, params: { command: "sh read.sh" } }]
  - calls: [{ tool: execute_command, params: { command: "sh read.sh" } }]
  - calls: [{ tool: attempt_completion, params: { result: Done. } }]
"#;

fn reading_home(settings: &str) -> (Home, Client) {
    let home = Home::playing(READS);
    home.configure(&format!("mode: code\n{settings}\n"));
    std::fs::write(home.work(".env"), "COLOUR=blue\n").unwrap();
    std::fs::write(home.work("read.sh"), "echo begun >> log.txt; cat .env > copy.txt\n").unwrap();
    let mut client = Client::start(&home, Options::typed());
    client.request("roo/trust/grant", json!({}));
    (home, client)
}

/// What came of the calls, for people.
fn summaries(client: &mut Client, task: &str) -> Vec<String> {
    let snapshot = client.request("roo/task/attach", json!({ "taskId": task, "after": 0 }));
    drop(snapshot);
    let events = client.numbered(task);
    let finished = events.iter().filter(|event| event["event"]["type"] == "tool.finished");
    finished.map(|event| event["event"]["summary"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_grant_for_the_project_is_offered_when_the_same_call_comes_again_and_counts_from_then_on() {
    let (home, mut client) = reading_home(CONFINED);
    let task = client.start_task("Go");
    let asked = client.event("approval.requested");
    let env = home.work(".env").display().to_string();
    assert_eq!(asked["event"]["title"], format!("Let this command read `{env}`? Run sh read.sh"));
    let expected = [
        "Run without it",
        "Allow once",
        "Allow for this project",
        "Allow for all projects",
        "Never in this project",
        &format!("Always allow `sh read.sh` to read `{env}`"),
    ];
    assert_eq!(options(&asked), expected);
    assert_eq!(std::fs::read_to_string(home.work("log.txt")).unwrap(), "begun\n", "it waits to run again");
    respond(&mut client, &asked, "allow_always");
    client.state("completed");
    assert_eq!(std::fs::read_to_string(home.work("copy.txt")).unwrap(), "COLOUR=blue\n");
    assert_eq!(std::fs::read_to_string(home.work("log.txt")).unwrap(), "begun\nbegun\nbegun\n");
    let told = summaries(&mut client, &task);
    assert_eq!(told[..3], ["exit code 1; the sandbox withheld .env", "exit code 0", "exit code 0"]);
    let rules = client.request("roo/rule/list", json!({}));
    assert_eq!(rules["rules"][0]["text"], format!("Always allow commands to read `{env}`"));
    client.shut_down();
}

#[test]
fn a_grant_for_once_holds_for_one_run_and_a_refusal_for_the_task() {
    let (home, mut client) = reading_home(CONFINED);
    let task = client.start_task("Go");
    let asked = client.event("approval.requested");
    respond(&mut client, &asked, "allow_once");
    client.state("completed");
    let told = summaries(&mut client, &task);
    let withheld = "exit code 1; the sandbox withheld .env";
    assert_eq!(told[..3], [withheld, "exit code 0", withheld]);
    client.shut_down();

    let (other, mut client) = reading_home(CONFINED);
    let task = client.start_task("Go");
    let asked = client.event("approval.requested");
    respond(&mut client, &asked, "reject_once");
    client.state("completed");
    assert_eq!(summaries(&mut client, &task)[..3], [withheld; 3]);
    assert_eq!(client.request("roo/rule/list", json!({}))["rules"], json!([]));
    drop((home, other));
    client.shut_down();
}

/// As above, where the line names the file.
const NAMES: &str = r#"
turns:
  - calls: [{ tool: execute_command, params: { command: "cat .env > copy.txt" } }]
  - calls: [{ tool: execute_command, params: { command: "cat .env > copy.txt" } }]
  - calls: [{ tool: attempt_completion, params: { result: Done. } }]
"#;

#[test]
fn a_line_that_names_a_hidden_file_is_asked_about_once_and_about_the_file() {
    for (answer, summary, asked) in [
        ("allow_always", "exit code 0", 1),
        ("allow_once", "exit code 0", 2),
        ("reject_once", "exit code 1; the sandbox withheld .env", 1),
        ("reject_always", "exit code 1; the sandbox withheld .env", 1),
    ] {
        let home = Home::playing(NAMES);
        home.configure(&format!("mode: code\n{CONFINED}\n"));
        std::fs::write(home.work(".env"), "COLOUR=blue\n").unwrap();
        let mut client = Client::start(&home, Options::typed());
        client.request("roo/trust/grant", json!({}));
        let task = client.start_task("Go");
        let env = home.work(".env").display().to_string();
        for _ in 0..asked {
            let asked = client.event("approval.requested");
            let title = format!("Let this command read `{env}`? Run cat .env > copy.txt");
            assert_eq!(asked["event"]["title"], title);
            let reason = asked["event"]["reason"].as_str().unwrap();
            assert!(reason.contains(&format!("it could change `{env}` too")), "{reason}");
            respond(&mut client, &asked, answer);
        }
        client.state("completed");
        assert_eq!(summaries(&mut client, &task)[..2], [summary; 2], "{answer}");
        client.shut_down();
    }
}

#[test]
fn a_grant_opens_what_was_there_under_its_name_and_no_link_in_its_place() {
    let (home, mut client) = reading_home(CONFINED);
    let secret = home.work("private.pem");
    std::fs::write(&secret, "secret\n").unwrap();
    client.start_task("Go");
    let asked = client.event("approval.requested");
    respond(&mut client, &asked, "allow_always");
    client.state("completed");
    std::fs::remove_file(home.work(".env")).unwrap();
    std::os::unix::fs::symlink(&secret, home.work(".env")).unwrap();
    std::fs::remove_file(home.work("copy.txt")).unwrap();
    client.start_task("Again");
    client.state("completed");
    assert_eq!(std::fs::read_to_string(home.work("copy.txt")).unwrap_or_default(), "");
    client.shut_down();
}

/// Commits as a model does that is told that the first commit is not signed.
const SIGNS: &str = r#"
turns:
  - calls: [{ tool: execute_command, params: { command: "git commit -q --allow-empty -m one" } }]
  - when: { contains: "git's configuration signs commits (commit.gpgSign) with ~/.ssh/id (setting sandbox.signingKeys)" }
    calls: [{ tool: execute_command, params: { command: "git commit -q --amend --no-edit --allow-empty" } }]
  - calls: [{ tool: execute_command, params: { command: "git commit -q --allow-empty -m two" } }]
  - calls: [{ tool: attempt_completion, params: { result: Done. } }]
"#;

#[test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
fn a_key_to_sign_with_is_offered_when_a_commit_comes_again_and_then_signs() {
    let home = Home::playing(SIGNS);
    home.configure(&format!("mode: code\n{CONFINED}\n"));
    let shell = |line: &str| {
        let mut shell = std::process::Command::new("sh");
        shell.args(["-ec", line]).current_dir(home.work("")).env("HOME", home.path(""));
        let done = shell.env("XDG_CONFIG_HOME", home.path("config")).output().unwrap();
        assert!(done.status.success(), "{line}: {done:?}");
        String::from_utf8(done.stdout).unwrap()
    };
    shell(
        "git init -q && mkdir -m 700 ~/.ssh && ssh-keygen -q -t ed25519 -N '' -f ~/.ssh/id && \
         echo \"a@b $(cat ~/.ssh/id.pub)\" >~/.ssh/allowed && git config user.name a && \
         git config user.email a@b && git config --global gpg.format ssh && \
         git config --global user.signingKey '~/.ssh/id' && git config --global commit.gpgSign true && \
         git config --global gpg.ssh.allowedSignersFile '~/.ssh/allowed'",
    );
    let mut client = Client::start(&home, Options::typed());
    client.request("roo/trust/grant", json!({}));
    let task = client.start_task("Go");
    let asked = client.event("approval.requested");
    let key = home.path("").canonicalize().unwrap().join(".ssh/id").display().to_string();
    let question = format!("Let this command sign commits and tags with the key `{key}`? Run git commit");
    let title = asked["event"]["title"].as_str().unwrap();
    assert!(title.starts_with(&question), "{title}");
    respond(&mut client, &asked, "allow_always");
    client.state("completed");
    assert_eq!(shell("git log --format='%s %G?'"), "two G\none G\n");
    assert_eq!(
        summaries(&mut client, &task)[..3],
        ["exit code 0; the sandbox withheld signing", "exit code 0", "exit code 0"]
    );
    let rules = client.request("roo/rule/list", json!({}));
    assert_eq!(
        rules["rules"][0]["text"],
        format!("Always allow commands to sign commits and tags with the key `{key}`")
    );
    client.shut_down();
}

/// Connects as a model does that is told which socket was withheld.
const CONNECTS: &str = r#"
turns:
  - calls: [{ tool: execute_command, params: { command: "python3 connect.py" } }]
  - when: { contains: "can't be connected to (setting sandbox.sockets)" }
    calls: [{ tool: execute_command, params: { command: "python3 connect.py" } }]
  - calls: [{ tool: attempt_completion, params: { result: Done. } }]
"#;

#[test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
fn a_socket_of_another_program_is_offered_when_the_same_call_comes_again() {
    let home = Home::playing(CONNECTS);
    home.configure(&format!("mode: code\n{CONFINED}\n"));
    let [granted, other] =
        ["database.sock", "other.sock"].map(|name| home.path("").canonicalize().unwrap().join(name));
    let _listening = [&granted, &other].map(|path| std::os::unix::net::UnixListener::bind(path).unwrap());
    let client = format!(
        "import socket\nsocket.socket(socket.AF_UNIX).connect({granted:?})\nopen('connected', 'w')\n\
         try: socket.socket(socket.AF_UNIX).connect({other:?})\nexcept OSError: raise SystemExit(3)\n"
    );
    std::fs::write(home.work("connect.py"), client).unwrap();
    let mut client = Client::start(&home, Options::typed());
    client.request("roo/trust/grant", json!({}));
    let task = client.start_task("Go");
    let asked = client.event("approval.requested");
    let granted = granted.display().to_string();
    let question = format!("Let this command connect to `{granted}`? Run python3 connect.py");
    assert_eq!(asked["event"]["title"], question);
    assert!(!home.work("connected").exists());
    respond(&mut client, &asked, "allow_always");
    client.state("completed");
    assert!(home.work("connected").exists());
    assert_eq!(
        summaries(&mut client, &task)[..2],
        [
            "exit code 1; the sandbox withheld the socket ~/database.sock",
            "exit code 3; the sandbox withheld the socket ~/other.sock"
        ]
    );
    let rules = client.request("roo/rule/list", json!({}));
    assert_eq!(rules["rules"][0]["text"], format!("Always allow commands to connect to `{granted}`"));
    client.shut_down();
}
