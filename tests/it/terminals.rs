//! Commands that the model starts to run on: waited for by what they print and by their port, typed at in a terminal, and
//! ended with their request and their server.

use serde_json::json;

use crate::support::client::{Client, Home, Options, eventually};
use crate::support::processes;

/// The id of the command that the first call of a script runs: its event's number follows from what came before.
const FIRST: &str = "cmd-4";

const SETTINGS: &str = r#"
autoApprove:
  execute: { allow: [[echo], [sleep], [curl, -sS, "http://127.0.0.1:8000/"]] }
"#;

fn playing(script: &str, settings: &str) -> Home {
    let home = Home::playing(&script.replace("FIRST", FIRST));
    home.configure(&format!("mode: code\n{settings}"));
    home
}

/// What came of the calls and the commands, for people.
fn summaries(client: &Client, task: &str) -> Vec<String> {
    let events = client.numbered(task);
    let ended = ["tool.finished", "command.ended"];
    let ended = events.iter().filter(|event| ended.contains(&event["event"]["type"].as_str().unwrap()));
    ended.map(|event| event["event"]["summary"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
fn a_server_is_waited_for_by_its_output_and_by_its_port_and_reached_by_another_command() {
    let script = r#"
turns:
  - calls: [{ tool: execute_command, params: { command: "sleep 1; python3 -u -m http.server 8000", background: true, timeout: 1 } }]
  - when: { contains: [in the background now, FIRST] }
    calls: [{ tool: read_command_output, params: { command_id: FIRST, until: "^Serving HTTP .* port 80+" } }]
  - when: { contains: ["As awaited, its output matches", "Serving HTTP on"] }
    calls: [{ tool: read_command_output, params: { command_id: FIRST, port: 8000 } }]
  - when: { contains: "As awaited, a program listens at port 8000" }
    calls: [{ tool: execute_command, params: { command: "curl -sS http://127.0.0.1:8000/" } }]
  - when: { contains: Directory listing }
    calls: [{ tool: read_command_output, params: { command_id: FIRST, port: 8001, timeout: 1 } }]
  - when: { contains: "After 1 s, nothing has come to listen at port 8001" }
    calls: [{ tool: stop_command, params: { command_id: FIRST } }]
  - when: { contains: [FIRST has ended, The command was stopped] }
    calls: [{ tool: attempt_completion, params: { result: Done. } }]
"#;
    let home = playing(script, SETTINGS);
    let mut client = Client::start(&home, Options::typed());
    let task = client.start_task("Serve.");
    client.titles_until_completed(|_| "allow_once");
    let told = summaries(&client, &task);
    assert!(told.contains(&"stopped".to_owned()), "{told:?}");
    assert_eq!(client.shut_down(), 0);
}

#[test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
fn an_interpreter_in_a_terminal_is_typed_at_and_each_text_asks() {
    let script = r#"
turns:
  - calls: [{ tool: execute_command, params: { command: "python3 -i -q", background: true, pty: true } }]
  - when: { contains: send_command_input types at its terminal }
    calls: [{ tool: send_command_input, params: { command_id: FIRST, input: "print(6 * 7)" } }]
  - when: { contains: "42" }
    calls: [{ tool: send_command_input, params: { command_id: FIRST, input: "import time; time.sleep(1000)" } }]
  - calls: [{ tool: send_command_input, params: { command_id: FIRST, key: ctrl-c } }]
  - when: { contains: KeyboardInterrupt }
    calls: [{ tool: send_command_input, params: { command_id: FIRST, key: ctrl-d } }]
  - when: { contains: FIRST has ended }
    calls: [{ tool: attempt_completion, params: { result: Done. } }]
"#;
    let home = playing(script, SETTINGS);
    let mut client = Client::start(&home, Options::typed());
    client.start_task("Compute.");
    // Keys that only interrupt or end ask nobody.
    let asked = client.titles_until_completed(|_| "allow_once");
    let typed = ["Type at cmd-4: print(6 * 7)", "Type at cmd-4: import time; time.sleep(1000)"];
    assert_eq!(asked[1..], typed, "{asked:?}");
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn what_is_typed_to_a_shell_is_judged_as_a_command_and_no_rule_allows_it() {
    let script = r#"
turns:
  - calls: [{ tool: execute_command, params: { command: "cat", background: true, pty: true, timeout: 1 } }]
  - calls: [{ tool: send_command_input, params: { command_id: FIRST, input: "rm -rf ~" } }]
  - when: { contains: No rule or answer can allow that }
    calls: [{ tool: send_command_input, params: { command_id: FIRST, input: "git push" } }]
  - when: { contains: "forbid commands with `git push`" }
    calls: [{ tool: send_command_input, params: { command_id: FIRST, input: "echo one" } }]
  - when: { contains: "echo one\necho one" }
    calls: [{ tool: send_command_input, params: { command_id: cmd-99, input: x } }]
  - when: { contains: No command cmd-99 runs in the background }
    calls: [{ tool: read_command_output, params: {} }]
  - when: { contains: "FIRST: cat (in a terminal, 0 bytes of new output)" }
    calls: [{ tool: attempt_completion, params: { result: Done. } }]
"#;
    let settings = "autoApprove: { execute: { allow: [[cat], [echo]], deny: [[git, push]] } }\n";
    let home = playing(script, settings);
    let mut client = Client::start(&home, Options::typed());
    let task = client.start_task("Type.");
    // `echo` may run unasked as a command, but what reads this here is another program.
    assert_eq!(client.titles_until_completed(|_| "allow_once"), ["Type at cmd-4: echo one"]);
    let told = summaries(&client, &task);
    assert!(told.contains(&"ended with its task".to_owned()), "{told:?}");
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn where_commands_run_unasked_in_the_sandbox_so_does_input_that_stays_there() {
    let script = r#"
turns:
  - calls: [{ tool: execute_command, params: { command: "cat", background: true, pty: true, timeout: 1 } }]
  - calls: [{ tool: send_command_input, params: { command_id: FIRST, input: "print(1)" } }]
  - when: { contains: "print(1)\nprint(1)" }
    calls: [{ tool: send_command_input, params: { command_id: FIRST, input: "open('/etc/fstab')" } }]
  - when: { contains: "fstab')\nopen(" }
    calls: [{ tool: attempt_completion, params: { result: Done. } }]
"#;
    let home = playing(script, "autoApprove: { execute: { mode: confined } }\n");
    let mut client = Client::start(&home, Options::typed());
    client.request("roo/trust/grant", json!({}));
    client.start_task("Type.");
    assert_eq!(client.titles_until_completed(|_| "allow_once"), ["Type at cmd-4: open('/etc/fstab')"]);
    assert_eq!(client.shut_down(), 0);
}

/// What runs keeps the rights with which it was started, and who types there may have fewer.
#[test]
fn a_task_with_other_intents_than_the_command_asks_before_it_types() {
    let script = r#"
turns:
  - calls: [{ tool: select_active_intent, params: { intent_id: INT-001 } }]
  - calls: [{ tool: execute_command, params: { command: "cat", background: true, pty: true, timeout: 1 } }]
  - when: { contains: as cmd-11 }
    calls: [{ tool: send_command_input, params: { command_id: cmd-11, input: one } }]
  - when: { contains: "one\none" }
    calls: [{ tool: select_active_intent, params: { intent_id: INT-002 } }]
  - calls: [{ tool: send_command_input, params: { command_id: cmd-11, input: two } }]
  - when: { contains: "two\ntwo" }
    calls: [{ tool: attempt_completion, params: { result: Done. } }]
"#;
    let intents = "active_intents:\n  - { id: INT-001, name: All, status: TODO, owned_scope: [\"src/**\"] }\n  \
                   - { id: INT-002, name: Few, status: TODO, owned_scope: [\"docs/**\"] }\n";
    let home = playing(script, "autoApprove: { execute: { mode: confined } }\n");
    std::fs::create_dir_all(home.work(".orchestration")).unwrap();
    std::fs::write(home.work(".orchestration/active_intents.yaml"), intents).unwrap();
    let mut client = Client::start(&home, Options::typed());
    client.request("roo/trust/grant", json!({}));
    client.start_task("Type.");
    assert_eq!(client.titles_until_completed(|_| "allow_once"), ["Type at cmd-11: two"]);
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn a_command_without_a_terminal_reads_no_input_and_says_so() {
    let mark = processes::mark(800);
    let script = format!(
        r#"
turns:
  - calls: [{{ tool: execute_command, params: {{ command: "echo begun; sleep {mark}", background: true }} }}]
  - when: {{ contains: [The command is still running. It is in the background now, begun] }}
    calls: [{{ tool: send_command_input, params: {{ command_id: FIRST, input: x }} }}]
  - when: {{ contains: "FIRST has no terminal, so it reads no input" }}
    calls: [{{ tool: read_command_output, params: {{ command_id: FIRST, until: "(" }} }}]
  - when: {{ contains: "`until` is no pattern" }}
    calls: [{{ tool: read_command_output, params: {{ command_id: FIRST, until: never, timeout: 1 }} }}]
  - when: {{ contains: "After 1 s, its output has not come to match `never`" }}
    calls: [{{ tool: attempt_completion, params: {{ result: Done. }} }}]
"#
    );
    let home = playing(&script, SETTINGS);
    let mut client = Client::start(&home, Options::typed());
    client.start_task("Wait.");
    assert_eq!(client.titles_until_completed(|_| "allow_once"), [""; 0]);
    assert_eq!(processes::with(&mark), [""; 0]);
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn a_command_that_ends_at_once_is_told_as_if_it_had_been_waited_for() {
    let script = r#"
turns:
  - calls: [{ tool: execute_command, params: { command: "echo over", background: true, pty: true } }]
  - when: { contains: ["Exit code: 0", over] }
    calls: [{ tool: attempt_completion, params: { result: Done. } }]
"#;
    let home = playing(script, SETTINGS);
    let mut client = Client::start(&home, Options::typed());
    let task = client.start_task("Go.");
    client.titles_until_completed(|_| "allow_once");
    assert!(!client.numbered(&task).iter().any(|event| event["event"]["type"] == "command.backgrounded"));
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn a_staged_command_is_not_started_in_the_background() {
    let script = r#"
turns:
  - calls: [{ tool: execute_command, params: { command: "sleep 1000", background: true } }]
  - when: { contains: "The command did not run: it can't go to the background, because what it writes is staged" }
    calls: [{ tool: attempt_completion, params: { result: Done. } }]
"#;
    let home = playing(script, &format!("{SETTINGS}sandbox: {{ level: staged }}\n"));
    let mut client = Client::start(&home, Options::typed());
    client.start_task("Go.");
    client.titles_until_completed(|_| "allow_once");
    assert_eq!(client.shut_down(), 0);
}

/// However a request ends, nothing of a terminal goes on; also not what ignores that its terminal is gone.
#[test]
fn what_runs_in_a_terminal_ends_with_its_request_and_with_its_server() {
    for (number, how) in ["cancelled", "shut down", "killed"].into_iter().enumerate() {
        let mark = processes::mark(810 + number);
        let script = format!(
            r#"
turns:
  - calls:
      - tool: execute_command
        params: {{ command: "trap '' HUP INT TERM; sleep {mark} & sleep {mark}", background: true, pty: true, timeout: 1 }}
  - calls: [{{ tool: ask_followup_question, params: {{ question: Go on?, follow_up: [{{ text: Yes }}] }} }}]
"#
        );
        let home = playing(&script, "");
        let mut client = Client::start(&home, Options::typed());
        let task = client.start_task("Wait.");
        let approval = client.event("approval.requested");
        let (id, digest) = (&approval["event"]["approvalId"], &approval["event"]["digest"]);
        let answer = json!({ "approvalId": id, "digest": digest, "optionId": "allow_once" });
        client.request("roo/approval/respond", answer);
        client.event("question.asked");
        assert_eq!(processes::with(&mark).len(), 2, "{how}");
        match how {
            "cancelled" => {
                client.request("roo/task/cancel", json!({ "taskId": task }));
                client.state("cancelled");
                assert_eq!(processes::with(&mark), [""; 0], "{how}");
                assert_eq!(client.shut_down(), 0);
            }
            "shut down" => assert_eq!(client.shut_down(), 0),
            _ => client.kill(),
        }
        eventually("the end of the command", || processes::with(&mark).is_empty());
    }
}
