//! Edits that are answered hunk by hunk: what is written, what the model is told, what the trace says, and that a crash changes
//! none of it.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};

use roo_protocol::changes::ChangesUndoParams;
use roo_protocol::task::TaskState;
use serde_json::{Value, json};

use crate::support::client::{Client, Home, Options};
use crate::support::engine::Fixture;
use crate::support::model_server::{Answer, FORMATS, ModelServer, base_url, body};

const BEFORE: &str = "\
def total(items):
    sum = 0
    for item in items:
        sum += item.price
    return sum

def count(items):
    return len(items)

def first(items):
    return items[0]
";

/// The proposal changes lines 2 to 5, line 8 and line 11.
const PROPOSED: &str = "\
def total(items):
    return sum(item.price for item in items)

def count(items):
    return len(list(items))

def first(items):
    return next(iter(items))
";

/// The first hunk as proposed, the second one with the user's line, the third one not at all.
const REVIEWED: &str = "\
def total(items):
    return sum(item.price for item in items)

def count(items):
    return items.count()

def first(items):
    return items[0]
";

const WORDS: &str = "Keep the index:\n<it> is \"faster\" & clearer.";

/// The user's answer, with the digests of the hunks that were shown.
fn answer(client: &mut Client, approval: &Value) -> Value {
    let approval_id = &approval["approvalId"];
    let preview = client.request("roo/approval/preview", json!({ "approvalId": approval_id }));
    let hunks = preview["files"][0]["hunks"].as_array().unwrap().clone();
    let ids: Vec<&str> = hunks.iter().map(|hunk| hunk["hunkId"].as_str().unwrap()).collect();
    assert_eq!(ids, ["h1", "h2", "h3"]);
    assert_eq!(hunks[1]["oldRange"], json!({ "start": 7, "end": 8 }));
    assert_eq!(hunks[1]["oldText"], "    return len(items)\n");
    assert_eq!(hunks[1]["newText"], "    return len(list(items))\n");
    json!({
        "approvalId": approval_id, "digest": approval["digest"], "optionId": "allow_once",
        "hunks": [
            { "hunkId": "h2", "digest": hunks[1]["digest"], "decision": "edit", "text": "    return items.count()" },
            { "hunkId": "h3", "digest": hunks[2]["digest"], "decision": "refuse", "text": WORDS },
        ],
    })
}

#[test]
fn one_hunk_is_taken_one_edited_and_one_refused_and_the_model_is_told_just_that() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for (provider, protocol) in FORMATS {
        let place = format!("{provider} {protocol}");
        let turns = [
            ("I read.", "read_file", json!({ "path": "cart.py" })),
            ("I edit.", "write_to_file", json!({ "path": "cart.py", "content": PROPOSED })),
            ("", "attempt_completion", json!({ "result": "Done." })),
        ];
        let answers = turns
            .map(|(text, tool, params)| Answer::stream(body(provider, protocol, text, &[(tool, params)])));
        let mut server = runtime.block_on(ModelServer::start(answers));
        let home = Home::new();
        let url = base_url(provider, &server.url());
        let profile = json!({
            "provider": provider, "baseUrl": url, "model": "m", "toolProtocol": protocol,
        });
        fs::write(home.config_file(), json!({ "profiles": { "default": profile } }).to_string()).unwrap();
        fs::write(home.work("cart.py"), BEFORE).unwrap();
        let mut client = Client::start(&home, Options::typed());
        let uri = client.open(&home.work("cart.py"), BEFORE);
        client.start_task("Shorten it");
        let asked = client.event("approval.requested")["event"].clone();
        let answer = answer(&mut client, &asked);
        assert_eq!(client.request("roo/approval/respond", answer)["accepted"], true);
        let resolved = client.event("approval.resolved")["event"].clone();
        let decisions: Vec<&str> = resolved["hunks"]
            .as_array()
            .unwrap()
            .iter()
            .map(|hunk| hunk["decision"].as_str().unwrap())
            .collect();
        assert_eq!(decisions, ["accept", "edit", "refuse"], "{place}");
        let finished = client.event("tool.finished")["event"].clone();
        assert_eq!(
            finished["summary"], "Changed cart.py (3 changes: 1 as proposed, 1 edited, 1 refused)",
            "{place}"
        );
        client.state("completed");
        assert_eq!(client.documents[&uri].text, REVIEWED, "{place}");

        runtime.block_on(server.request());
        runtime.block_on(server.request());
        let told = runtime.block_on(server.request()).body;
        let told = last_texts(&told);
        for part in [
            "<change id=\"h1\" path=\"cart.py\" line=\"2\">applied as proposed</change>",
            "<change id=\"h2\" path=\"cart.py\" line=\"5\">changed by the user\n-    return len(list(items))\n+    return items.count()\n</change>",
            "<change id=\"h3\" path=\"cart.py\" line=\"8\">refused by the user; the lines stay as they were. They said:\n<feedback>\nKeep the index:\n<it> is \"faster\" & clearer.\n</feedback>\n-    return next(iter(items))\n+    return items[0]\n</change>",
        ] {
            assert!(told.contains(part), "{place}: {part}\nis not in\n{told}");
        }
        assert_eq!(client.shut_down(), 0);
    }
}

/// All strings of a request, one after another.
fn last_texts(body: &Value) -> String {
    match body {
        Value::String(text) => format!("{text}\n"),
        Value::Array(items) => items.iter().map(last_texts).collect(),
        Value::Object(fields) => fields.values().map(last_texts).collect(),
        _ => String::new(),
    }
}

fn script() -> String {
    format!(
        "turns:\n  - calls: [{{ tool: read_file, params: {{ path: cart.py }} }}]\n  - calls: [{{ tool: write_to_file, params: {{ path: cart.py, content: {} }} }}]\n  - calls: [{{ tool: attempt_completion, params: {{ result: Done. }} }}]\n",
        json!(PROPOSED)
    )
}

fn home() -> Home {
    let home = Home::playing(&script());
    fs::write(home.work("cart.py"), BEFORE).unwrap();
    home
}

fn options(crash_after: Option<usize>) -> Options {
    let environment = crash_after.map(|appends| ("ROO_LSP_CRASH_AFTER_APPENDS", appends.to_string()));
    Options { environment: environment.into_iter().collect(), ..Options::typed() }
}

/// Answers until the task has ended.
fn play(client: &mut Client) {
    loop {
        let event = client.wait_for("an approval or the end", |message| {
            let event = &message["params"]["event"];
            event["type"] == "approval.requested" || event["state"] == "completed"
        });
        let event = event["params"]["event"].clone();
        if event["type"] != "approval.requested" {
            return;
        }
        let answer = answer(client, &event);
        assert_eq!(client.request("roo/approval/respond", answer)["accepted"], true);
    }
}

fn records(home: &Home, task: &str) -> Vec<Value> {
    let log = fs::read_to_string(home.log(task)).unwrap();
    log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["event"].clone()).collect()
}

#[test]
fn a_kill_after_any_append_keeps_the_answer_and_writes_once() {
    let mut crashes = 0;
    for appends in 1.. {
        let home = home();
        let killed = catch_unwind(AssertUnwindSafe(|| {
            let mut client = Client::start(&home, options(Some(appends)));
            client.start_task("Shorten it");
            play(&mut client);
            client.shut_down();
        }));
        if killed.is_ok() {
            break;
        }
        crashes += 1;
        let place = format!("killed after append {appends}");
        let mut client = Client::start(&home, options(None));
        let list = client.request("roo/task/list", json!({}));
        let Some(task) = list["items"][0]["taskId"].as_str().map(str::to_owned) else { continue };
        let before = records(&home, &task);
        let was_answered = before.iter().any(|event| event["type"] == "approvalResolved");
        client.request("roo/task/attach", json!({ "taskId": task, "afterSeq": before.len() }));
        let has = |kind: &str, field: &str| {
            before.iter().any(|event| event["type"] == kind && !event[field].is_null())
        };
        match (has("ended", "state"), has("toolFinished", "ends")) {
            (true, _) => {}
            // It ends by itself.
            (false, true) => drop(client.state("completed")),
            (false, false) => {
                client.request("roo/task/resume", json!({ "taskId": task }));
                play(&mut client);
            }
        }
        let events = records(&home, &task);
        let of = |kind: &str| events.iter().filter(|event| event["type"] == kind).collect::<Vec<_>>();
        let answers: Vec<&Value> =
            of("approvalResolved").into_iter().filter(|event| !event["optionId"].is_null()).collect();
        assert_eq!(answers.len(), 1, "{place}: one answer, given {was_answered}");
        assert_eq!(answers[0]["review"]["hunks"][2]["text"], WORDS, "{place}");
        assert_eq!(fs::read_to_string(home.work("cart.py")).unwrap(), REVIEWED, "{place}");
        let results: Vec<&Value> = of("toolFinished")
            .into_iter()
            .filter(|event| event["result"]["name"] == "write_to_file")
            .collect();
        assert_eq!(results.len(), 1, "{place}");
        let text = results[0]["result"]["text"].as_str().unwrap();
        assert!(text.contains("changed by the user") && text.contains(WORDS), "{place}: {text}");
        assert_eq!(client.shut_down(), 0);
    }
    assert!(crashes > 10, "the script makes only {crashes} appends");
}

#[test]
fn the_users_lines_are_the_users_in_the_trace() {
    let home = home();
    let mut client = Client::start(&home, options(None));
    client.start_task("Shorten it");
    play(&mut client);
    let found = client.request("roo/trace/query", json!({ "path": "cart.py" }));
    let records = found["records"].as_array().unwrap();
    let written: Vec<(&Value, &Value, &Value)> = records
        .iter()
        .map(|record| {
            let conversation = &record["files"][0]["conversations"][0];
            let (contributor, range) = (&conversation["contributor"], &conversation["ranges"][0]);
            (&contributor["type"], &range["start_line"], &range["end_line"])
        })
        .collect();
    assert_eq!(
        written,
        [(&json!("ai"), &json!(2), &json!(2)), (&json!("human"), &json!(5), &json!(5))],
        "{found}"
    );
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn refusing_every_hunk_refuses_the_call_with_the_users_words() {
    let home = home();
    let mut client = Client::start(&home, options(None));
    client.start_task("Shorten it");
    let asked = client.event("approval.requested")["event"].clone();
    let answer = json!({
        "approvalId": asked["approvalId"], "digest": asked["digest"], "optionId": "reject_once",
        "hunks": [{ "hunkId": "h1", "decision": "refuse", "text": "Leave the loop." }],
    });
    assert_eq!(client.request("roo/approval/respond", answer)["accepted"], true);
    assert_eq!(client.event("approval.resolved")["event"]["optionId"], "reject_once");
    assert_eq!(client.event("tool.finished")["event"]["status"], "denied");
    assert_eq!(fs::read_to_string(home.work("cart.py")).unwrap(), BEFORE);
    let task = client.numbered_root();
    let results = records(&home, &task);
    let told = results.iter().find(|event| event["result"]["name"] == "write_to_file").unwrap();
    let told = told["result"]["text"].as_str().unwrap();
    assert!(
        told.contains("<feedback>\nLeave the loop.\n</feedback>") && told.contains("none was made"),
        "{told}"
    );
    client.kill();
}

#[test]
fn an_answer_that_does_not_fit_the_hunks_counts_for_nothing() {
    let home = home();
    let mut client = Client::start(&home, options(None));
    client.start_task("Shorten it");
    let asked = client.event("approval.requested")["event"].clone();
    let mut refused = |option: &str, hunks: Value, reason: &str| {
        let params = json!({
            "approvalId": asked["approvalId"], "digest": asked["digest"], "optionId": option, "hunks": hunks,
        });
        let error = client.refused("roo/approval/respond", params);
        assert!(error["message"].as_str().unwrap().contains(reason), "{error}");
        assert_eq!(error["data"]["kind"], "mismatch", "{error}");
    };
    let accept = |id: &str| json!({ "hunkId": id, "decision": "accept" });
    refused("allow_once", json!([accept("h4")]), "has no change 'h4'");
    refused("allow_once", json!([accept("h1"), accept("h1")]), "answered twice");
    refused("allow_always", json!([accept("h1")]), "allow_once and reject_once");
    let edit = json!({ "hunkId": "h1", "decision": "edit", "text": "key = \"[masked: 4 characters]\"" });
    refused("allow_once", json!([edit]), "mask");
    assert_eq!(fs::read_to_string(home.work("cart.py")).unwrap(), BEFORE);
    client.kill();
}

#[test]
fn an_answer_to_hunks_of_a_text_that_is_gone_is_refused() {
    let home = home();
    let mut client = Client::start(&home, options(None));
    client.start_task("Shorten it");
    let asked = client.event("approval.requested")["event"].clone();
    let answer = answer(&mut client, &asked);
    fs::write(home.work("cart.py"), format!("# mine\n{BEFORE}")).unwrap();
    // The hunks are of the text as it was when they were shown.
    let error = client.refused("roo/approval/respond", answer);
    assert_eq!(error["data"]["kind"], "mismatch", "{error}");
    client.kill();
}

/// The plain client whose user was shown the edit.
fn plain(home: &Home) -> (Client, Value, String) {
    let mut client = Client::start(home, Options::helix());
    let uri = client.open(&home.work("cart.py"), BEFORE);
    client.command("roo.newTask", json!({ "prompt": "Shorten it", "mode": "code" }));
    client.message("Edit cart.py");
    let shown = client.command("roo.showDiff", Value::Null);
    let path = std::path::PathBuf::from(shown["path"].as_str().unwrap());
    let text = fs::read_to_string(&path).unwrap();
    let diff = client.open(&path, &text);
    (client, json!(uri), diff)
}

fn line_of(client: &Client, uri: &str, text: &str) -> u64 {
    let lines = client.documents[uri].text.lines().position(|line| line.contains(text));
    u64::try_from(lines.unwrap_or_else(|| panic!("no '{text}' in {uri}"))).unwrap()
}

#[test]
fn a_plain_editor_answers_changes_in_the_file_and_in_the_diff() {
    let home = home();
    let (mut client, uri, diff) = plain(&home);
    let uri = uri.as_str().unwrap();
    // In the file: the change at the cursor.
    let answer = client.choose(uri, 1..2, "accept this change (1 of 3): Edit cart.py");
    assert_eq!(answer["open"], json!(["h2", "h3"]));
    assert!(
        client.actions(uri, 8..9).iter().all(|(title, _)| !title.contains("this change")),
        "a blank line"
    );
    // In the diff: its added lines may be changed first.
    let line = line_of(&client, &diff, "+    return len(list(items))");
    let at = |line: u64, character: u64| json!({ "line": line, "character": character });
    let range = json!({ "start": at(line, 0), "end": at(line + 1, 0) });
    client.change(&diff, range, "+    return items.count()\n");
    let answer = client.choose(&diff, line..line, "accept this change as edited here (2 of 3)");
    assert_eq!((&answer["decided"], &answer["of"]), (&json!(2), &json!(3)));
    let line = line_of(&client, &diff, "return next");
    client.choose(&diff, line..line, "refuse this change (3 of 3): Edit cart.py");
    client.message("completed");
    assert_eq!(client.documents[uri].text, REVIEWED);
    assert_eq!(client.actions(&diff, line..line), [], "it has its answer");
    client.kill();
}

#[test]
fn a_file_of_the_workspace_is_no_diff_document_of_an_approval() {
    let home = home();
    let (mut client, _, diff) = plain(&home);
    let (directory, name) = diff.rsplit_once("/requests/").unwrap();
    assert!(directory.starts_with("file://"));
    let forged = home.work(&format!("requests/{name}"));
    fs::create_dir_all(forged.parent().unwrap()).unwrap();
    let text = client.documents[&diff].text.clone();
    fs::write(&forged, &text).unwrap();
    let line = line_of(&client, &diff, "+    return len(list(items))");
    let forged = client.open(&forged, &text);
    let is_answer = |(title, _): &(String, Value)| title.contains("this change");
    assert!(client.actions(&diff, line..line).iter().any(is_answer));
    assert!(!client.actions(&forged, line..line).iter().any(is_answer));
    client.kill();
}

#[test]
fn lines_that_can_not_be_read_from_the_diff_are_said_to_be_left_out() {
    let home = home();
    let (mut client, _, diff) = plain(&home);
    let line = line_of(&client, &diff, "+    return len(list(items))");
    let at = |line: u64| json!({ "line": line, "character": 0 });
    client.change(&diff, json!({ "start": at(line), "end": at(line) }), "    return 0\n");
    let titles: Vec<String> = client.actions(&diff, line..line).into_iter().map(|(title, _)| title).collect();
    let accepts: Vec<&String> = titles.iter().filter(|title| title.contains("Roo: accept")).collect();
    assert_eq!(
        accepts,
        [
            "Roo: accept this change as proposed, since your lines can't be read (2 of 3): Edit cart.py",
            "Roo: accept all 3 changes as proposed: Edit cart.py",
        ]
    );
    client.kill();
}

/// No secret of the file is in the log or in the diff document, and its lines can be reviewed all the same.
#[test]
fn what_is_kept_of_an_approval_holds_no_secret() {
    let secret = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9".repeat(2));
    let home = home();
    let before = BEFORE.replace("    sum = 0\n", &format!("    sum = 0  # {secret}\n"));
    fs::write(home.work("cart.py"), &before).unwrap();
    let mut client = Client::start(&home, Options::helix());
    client.open(&home.work("cart.py"), &before);
    client.command("roo.newTask", json!({ "prompt": "Shorten it", "mode": "code" }));
    client.message("Edit cart.py");
    let shown = client.command("roo.showDiff", Value::Null);
    let path = std::path::PathBuf::from(shown["path"].as_str().unwrap());
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains("-    sum = 0  # [masked"), "{text}");
    let request = path.parent().unwrap();
    for file in fs::read_dir(request).unwrap() {
        let file = file.unwrap().path();
        let bytes = if file.is_file() { fs::read(&file).unwrap() } else { vec![] };
        let held = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
        assert!(!held, "{} holds the secret", file.display());
    }
    let diff = client.open(&path, &text);
    let line = line_of(&client, &diff, "+    return sum(");
    client.choose(&diff, line..line, "Roo: accept this change (1 of 3)");
    client.kill();
}

#[test]
fn commands_take_the_ids_of_changes() {
    let home = home();
    let (mut client, uri, _) = plain(&home);
    client.command("roo.deny", json!({ "hunkIds": ["h3"], "text": WORDS }));
    let edit =
        client.command("roo.approve", json!({ "hunkIds": ["h2"], "text": "    return items.count()" }));
    assert_eq!(edit["open"], json!(["h1"]));
    // The rest.
    assert_eq!(client.command("roo.approve", Value::Null)["accepted"], true);
    client.message("completed");
    assert_eq!(client.documents[uri.as_str().unwrap()].text, REVIEWED);
    client.kill();
}

#[test]
fn who_denies_the_whole_edit_denies_what_was_accepted_of_it() {
    let home = home();
    let (mut client, uri, _) = plain(&home);
    client.command("roo.approve", json!({ "hunkIds": ["h1"] }));
    assert_eq!(client.command("roo.deny", json!("Not like this."))["accepted"], true);
    client.kill();
    assert_eq!(fs::read_to_string(home.work("cart.py")).unwrap(), BEFORE, "{uri}");
}

#[test]
fn words_below_the_prompt_refuse_what_the_action_names() {
    let home = home();
    let mut client = Client::start(&home, Options::helix());
    client.command("roo.newTask", json!({ "prompt": "Shorten it", "mode": "code" }));
    client.message("Edit cart.py");
    let opened = client.command("roo.openTask", Value::Null);
    let path = std::path::PathBuf::from(opened["path"].as_str().unwrap());
    let uri = client.open(&path, &fs::read_to_string(&path).unwrap());
    client.until_document("task.md", "Waits for you: Edit cart.py");
    client.append(&uri, "Leave the loop.\n");
    let last = client.documents[&uri].text.lines().count() as u64;
    client.choose(&uri, last..last, "refuse with these words: Edit cart.py");
    client.until_document("task.md", "The user refused this call");
    let task = path.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
    let told =
        records(&home, &task).into_iter().find(|event| event["result"]["name"] == "write_to_file").unwrap();
    assert!(
        told["result"]["text"].as_str().unwrap().contains("<feedback>\nLeave the loop.\n</feedback>"),
        "{told}"
    );
    client.pump("the words are taken out", |client| {
        (!client.documents[&uri].text.trim_end().ends_with("Leave the loop.")).then_some(())
    });
    client.kill();
}

/// Two requests that wait for the user, in order.
fn two_waiting(client: &mut Client) -> [Value; 2] {
    [(); 2].map(|()| {
        client.start_task("Shorten it");
        client.event("approval.requested")["event"].clone()
    })
}

fn whole(asked: &Value, option: &str) -> Value {
    json!({ "approvalId": asked["approvalId"], "digest": asked["digest"], "optionId": option })
}

#[test]
fn a_new_rule_decides_what_waits_and_a_late_answer_is_told_so() {
    for (option, status, text) in [("allow_always", "ok", PROPOSED), ("reject_always", "denied", BEFORE)] {
        let home = home();
        let mut client = Client::start(&home, options(None));
        let [first, second] = two_waiting(&mut client);
        let named = first["options"].as_array().unwrap().iter().find(|named| named["id"] == option).unwrap();
        let scope = named["scope"].as_str().unwrap();
        assert!(scope.contains("edits of this workspace's files in this project without asking"), "{scope}");
        assert_eq!(first["options"][1].get("scope"), None, "once is once");
        assert_eq!(client.request("roo/approval/respond", whole(&second, option))["accepted"], true);
        let resolved = client.wait_for("the first one is decided", |message| {
            let event = &message["params"]["event"];
            event["type"] == "approval.resolved" && event["approvalId"] == first["approvalId"]
        });
        assert_eq!(resolved["params"]["event"]["by"], "rule r1");
        let late = client.request("roo/approval/respond", whole(&first, "allow_once"));
        let expected = json!({
            "accepted": false, "by": "rule r1", "settled": { "kind": "rule", "ruleId": "r1" },
        });
        assert_eq!(late, expected);
        let late = client.request("roo/approval/respond", whole(&second, "reject_once"));
        assert_eq!(late["settled"], json!({ "kind": "answered", "answer": option }));
        if option == "allow_always" {
            // Of the two, one finds the file changed by the other.
            client.state("completed");
            client.state("completed");
        } else {
            client.event("tool.finished");
        }
        assert_eq!(fs::read_to_string(home.work("cart.py")).unwrap(), text, "{status}");
        client.kill();
    }
}

#[test]
fn approvals_that_wait_have_one_order_and_numbers() {
    let home = home();
    let mut client = Client::start(&home, options(None));
    let asked = two_waiting(&mut client);
    let listed = client.request("roo/approval/list", json!({}));
    let listed: Vec<(&Value, &Value)> = listed["approvals"]
        .as_array()
        .unwrap()
        .iter()
        .map(|waiting| (&waiting["number"], &waiting["approval"]["approvalId"]))
        .collect();
    assert_eq!(listed, [(&json!(1), &asked[0]["approvalId"]), (&json!(2), &asked[1]["approvalId"])]);
    client.request("roo/approval/respond", whole(&asked[0], "reject_once"));
    client.event("tool.finished");
    let listed = client.request("roo/approval/list", json!({}));
    assert_eq!(listed["approvals"].as_array().unwrap().len(), 1, "{listed}");
    client.kill();
}

#[test]
fn a_plain_editor_is_told_the_scope_of_a_rule_before_it_is_made() {
    let home = home();
    let (mut client, uri, _) = plain(&home);
    let argument = json!({ "optionId": "allow_always" });
    let run = json!({ "command": "roo.approve", "arguments": [argument] });
    let error = client.refused("workspace/executeCommand", run.clone());
    assert!(
        error["message"].as_str().unwrap().contains("without asking, in every task, until you revoke it"),
        "{error}"
    );
    assert_eq!(client.documents[uri.as_str().unwrap()].text, BEFORE);
    assert_eq!(client.request("workspace/executeCommand", run)["accepted"], true);
    client.message("completed");
    assert_eq!(client.documents[uri.as_str().unwrap()].text, PROPOSED);
    client.kill();
}

#[test]
fn what_a_request_changed_is_listed_printed_and_taken_back() {
    let home = home();
    let mut client = Client::start(&home, options(None));
    let task = client.start_task("Shorten it");
    play(&mut client);
    let listed = client.request("roo/changes/list", json!({ "taskId": task }));
    let file = &listed["files"][0];
    assert_eq!(file["path"], "cart.py");
    let changes = file["changes"].as_array().unwrap();
    let shown: Vec<(&Value, bool)> =
        changes.iter().map(|change| (&change["line"], change["byUser"] == true)).collect();
    // The second change is the user's: what they were shown there was never in the file.
    assert_eq!(shown, [(&json!(2), false), (&json!(5), true)], "{listed}");
    assert!(changes.iter().all(|change| change["tool"] == "write_to_file" && change["taskId"] == task));

    let printed = std::process::Command::new(env!("CARGO_BIN_EXE_roo-lsp"))
        .args(["tasks", "diff", &task])
        .env("XDG_STATE_HOME", home.path("state"))
        .env("XDG_CONFIG_HOME", home.path("config"))
        .env("HOME", home.path(""))
        .current_dir(home.work(""))
        .output()
        .unwrap();
    let printed = String::from_utf8(printed.stdout).unwrap();
    assert!(printed.starts_with("--- a/cart.py\n+++ b/cart.py\n@@ -2,4 +2,1 @@ "), "{printed}");
    assert!(
        printed.contains("write_to_file, by the user\n") && printed.contains("+    return items.count()\n"),
        "{printed}"
    );

    // The user has changed the file since, and one of the lines.
    let since = REVIEWED.replace("items.count()", "len(items) # mine");
    fs::write(home.work("cart.py"), format!("# mine\n{since}")).unwrap();
    let undone = client.request("roo/changes/undo", json!({ "taskId": task, "path": "cart.py" }));
    assert_eq!(undone["undone"], json!([changes[0]["changeId"]]), "{undone}");
    assert_eq!(undone["conflicts"].as_array().unwrap().len(), 1, "{undone}");
    let restored = fs::read_to_string(home.work("cart.py")).unwrap();
    assert!(restored.starts_with("# mine\ndef total(items):\n    sum = 0\n"), "{restored}");
    assert!(restored.contains("len(items) # mine"), "{restored}");
    let found = client.request("roo/trace/query", json!({ "path": "cart.py" }));
    let last = found["records"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(last["files"][0]["conversations"][0]["contributor"]["type"], "human", "{last}");
    let error = client.refused("roo/changes/undo", json!({ "taskId": task, "changeIds": ["c1.9"] }));
    assert_eq!(error["data"]["kind"], "notFound", "{error}");
    assert_eq!(client.shut_down(), 0);
}

#[tokio::test]
async fn changes_that_cancel_each_other_out_are_undone_together() {
    let write =
        |text: &str| json!({ "tool": "write_to_file", "params": { "path": "a.txt", "content": text } });
    let turns = json!({ "turns": [
        { "calls": [{ "tool": "read_file", "params": { "files": [{ "path": "a.txt" }] } }] },
        { "calls": [write("changed\n")] },
        { "calls": [write("first\n")] },
        { "calls": [{ "tool": "attempt_completion", "params": { "result": "Done." } }] },
    ] });
    let settings = json!({ "autoApprove": { "write": true, "read": true } });
    let fixture = Fixture::scripted(&[("a.txt", "first\n")], &turns.to_string(), settings);
    let mut watched = fixture.start("Go.").await;
    assert_eq!(watched.end().await.0, TaskState::Completed);
    let params =
        ChangesUndoParams { task_id: watched.task.clone(), change_ids: vec![], path: Some("a.txt".into()) };
    let undone = fixture.engine.undo_changes(params, "test").await.unwrap();
    assert_eq!((undone.undone.len(), undone.conflicts.len()), (2, 0), "{undone:?}");
    assert_eq!(fixture.project.read("a.txt"), "first\n");
    fixture.engine.shutdown().await;
}

#[tokio::test]
async fn a_deleted_file_that_was_not_utf_8_is_taken_back_with_every_byte() {
    let patch = "*** Begin Patch\n*** Delete File: latin.txt\n*** Delete File: wide.txt\n*** End Patch\n";
    let files = json!([{ "path": "latin.txt" }, { "path": "wide.txt" }]);
    let turns = json!({ "turns": [
        { "calls": [{ "tool": "read_file", "params": { "files": files } }] },
        { "calls": [{ "tool": "apply_patch", "params": { "patch": patch } }] },
        { "calls": [{ "tool": "attempt_completion", "params": { "result": "Done." } }] },
    ] });
    let settings = json!({ "autoApprove": { "write": true, "read": true } });
    let fixture = Fixture::scripted(&[], &turns.to_string(), settings);
    let wide = "\u{feff}Straße\r\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let all: [(&str, Vec<u8>); 2] =
        [("latin.txt", b"Stra\xdfe und B\xfccher\n".to_vec()), ("wide.txt", wide)];
    let path = |name: &str| fixture.project.folder().join(name);
    for (name, bytes) in &all {
        fs::write(path(name), bytes).unwrap();
    }
    let mut watched = fixture.start("Go.").await;
    assert_eq!(watched.end().await.0, TaskState::Completed);
    for (name, bytes) in &all {
        assert!(!path(name).exists());
        let params = ChangesUndoParams {
            task_id: watched.task.clone(),
            change_ids: vec![],
            path: Some((*name).to_owned()),
        };
        let undone = fixture.engine.undo_changes(params, "test").await.unwrap();
        assert_eq!((undone.undone.len(), undone.conflicts.len()), (1, 0), "{undone:?}");
        assert_eq!(fs::read(path(name)).unwrap(), *bytes, "{name}");
    }
    fixture.engine.shutdown().await;
}
