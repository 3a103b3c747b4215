//! Requests with branches as editors see them: the server over its real standard input and output.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::support::assert_gapless;
use crate::support::client::{Client, Home, Options, is_end_of_request};

/// The orchestrator has the code mode do something, and says what came of it.
fn delegating(branch: &str) -> String {
    format!(
        r#"
turns:
  - mode: orchestrator
    when: {{ contains: "Go." }}
    calls: [{{ tool: new_task, params: {{ mode: code, message: "💻 Mend the lib\n\nURID: {{{{urid}}}}\n\nMend it.\n" }} }}]
    usage: {{ tokensIn: 100, tokensOut: 10 }}
{branch}
  - mode: orchestrator
    when: {{ contains: Mended }}
    calls: [{{ tool: attempt_completion, params: {{ result: All is well. }} }}]
"#
    )
}

/// The branch asks something.
fn asking() -> String {
    delegating(
        r#"
  - mode: code
    calls: [{ tool: ask_followup_question, params: { question: Which?, follow_up: [{ text: this }, { text: that }] } }]
    usage: { tokensIn: 30, tokensOut: 3 }
  - { mode: code, when: { contains: that }, calls: [{ tool: attempt_completion, params: { result: "Mended that." } }] }
  - { mode: code, calls: [{ tool: attempt_completion, params: { result: "Mended otherwise." } }] }
"#,
    )
}

/// The branch writes a file, which asks.
fn writing() -> String {
    delegating(
        r#"
  - mode: code
    calls: [{ tool: write_to_file, params: { path: new.txt, content: "one\n" } }]
  - { mode: code, calls: [{ tool: attempt_completion, params: { result: Mended. } }] }
"#,
    )
}

/// A turn that opens two branches at once.
fn delegates_to_two() -> String {
    let call = |title: &str| {
        let message = format!("💻 {title}\n\nURID: {{{{urid}}}}\n\nDo it: {title}.\n");
        format!("{{ tool: new_task, params: {{ mode: code, message: {message:?} }} }}")
    };
    let calls = [call("The first"), call("The second")].join(", ");
    format!("  - mode: orchestrator\n    when: {{ contains: \"Go.\" }}\n    calls: [{calls}]\n")
}

/// A turn of the branch of this title that writes a file.
fn writes(title: &str, path: &str) -> String {
    format!(
        "  - mode: code\n    when: {{ contains: \"Do it: {title}\" }}\n    calls: [{{ tool: write_to_file, params: {{ path: {path}, content: x }} }}]\n"
    )
}

/// A plain client with a request; the id of that.
fn plain(home: &Home) -> (Client, String) {
    let mut client = Client::start(home, Options::plain());
    let started = client.command("roo.newTask", json!({ "prompt": "Go.", "mode": "orchestrator" }));
    (client, started["taskId"].as_str().unwrap().to_owned())
}

/// A typed client with a request; the id of that.
fn typed(home: &Home) -> (Client, String) {
    let mut client = Client::start(home, Options::typed());
    let started = client.request("roo/task/start", json!({ "prompt": "Go.", "mode": "orchestrator" }));
    (client, started["taskId"].as_str().unwrap().to_owned())
}

/// Waits for the end of a request, not of a branch; its result.
fn end(client: &mut Client) -> Value {
    client.wait_for("the end of the request", |message| is_end_of_request(&message["params"]))["params"]["event"]["result"]
        .clone()
}

fn progress_of<'a>(client: &'a Client, kind: &str) -> Vec<&'a Value> {
    let progress = client.seen.iter().filter(|message| message["method"] == "$/progress");
    progress.map(|message| &message["params"]["value"]).filter(|value| value["kind"] == kind).collect()
}

#[test]
fn a_question_of_a_branch_is_asked_in_its_name_and_answered_by_a_popup() {
    let home = Home::playing(&asking());
    let (mut client, _) = plain(&home);
    let popup = client.popup();
    assert_eq!(popup["params"]["message"], "roo 💻 Mend the lib asks: Which?");
    assert_eq!(
        popup["params"]["actions"],
        json!([{ "title": "Later" }, { "title": "this" }, { "title": "that" }])
    );
    client.progress_message("💻 Mend the lib: waits for an answer: Which?");
    let status = client.command("roo.status", Value::Null);
    insta::assert_snapshot!(status["text"].as_str().unwrap(), @r"
    1 waiting: 💻 Mend the lib: Which? (roo.answer)
    🪃 Go.: paused
      💻 Mend the lib: waiting
    ");
    client.reply(&popup, json!({ "title": "that" }));
    client.message("completed: All is well.");
    // It may come before the message.
    client.pump("the end of the progress", |client| (!progress_of(client, "end").is_empty()).then_some(()));
    assert_eq!((progress_of(&client, "begin").len(), progress_of(&client, "end").len()), (1, 1));
    assert_eq!(client.command("roo.status", Value::Null)["text"], "nothing is running");
    let told = client.seen.iter().filter_map(|message| message["params"]["message"].as_str());
    let ends: Vec<&str> = told.filter(|text| text.contains("completed")).collect();
    assert_eq!(ends, ["roo: completed: All is well."], "the end of a branch is no end");
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn what_is_said_to_a_request_answers_the_branch_that_asks() {
    let ways =
        [("roo.answer", json!(2)), ("roo.send", json!("that")), ("roo.answer", json!({ "text": "that" }))];
    for (command, mut argument) in ways {
        let home = Home::playing(&asking());
        let (mut client, root) = plain(&home);
        let popup = client.popup();
        if argument.is_object() {
            argument["taskId"] = json!(root);
        }
        client.command(command, argument);
        client.message("completed: All is well.");
        let log = std::fs::read_to_string(home.log(&root)).unwrap();
        assert!(log.contains("Mended that."), "{command}");
        client.reply(&popup, Value::Null);
        assert_eq!(client.shut_down(), 0);
    }
}

#[test]
fn two_branches_are_asked_about_one_after_the_other_and_each_gets_its_own_answer() {
    let script = format!(
        "turns:\n{}{}{}{}{}",
        delegates_to_two(),
        writes("The first", "first.txt"),
        writes("The second", "second.txt"),
        "  - { mode: code, calls: [{ tool: attempt_completion, params: { result: Tried. } }] }\n",
        "  - { mode: orchestrator, calls: [{ tool: attempt_completion, params: { result: Both. } }] }\n",
    );
    let home = Home::playing(&script);
    let (mut client, _) = plain(&home);
    for _ in 0..2 {
        let popup = client.popup();
        assert!(client.popups.is_empty(), "one at a time");
        // It is numbered where the other one has come before this one was shown.
        let text = popup["params"]["message"].as_str().unwrap().replacen(" asks (1 of 2): ", " asks: ", 1);
        let (answer, expected) = match text.contains("The first") {
            true => ("Deny", "roo 💻 The first asks: Create first.txt"),
            false => ("Allow", "roo 💻 The second asks: Create second.txt"),
        };
        assert!(text.starts_with(expected), "{text}");
        client.reply(&popup, json!({ "title": answer }));
    }
    client.message("completed: Both.");
    assert_eq!((home.work("first.txt").exists(), home.work("second.txt").exists()), (false, true));
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn an_approval_of_a_branch_is_answered_by_commands_alone() {
    let home = Home::playing(&writing());
    let mut client = Client::start(&home, Options::helix());
    client.command("roo.newTask", json!({ "prompt": "Go.", "mode": "orchestrator" }));
    let asked = client.message("roo.approve");
    let text = asked["message"].as_str().unwrap();
    assert!(text.starts_with("roo 💻 Mend the lib asks: Create new.txt ("), "{text}");
    let path = client.command("roo.showDiff", Value::Null)["path"].as_str().unwrap().to_owned();
    assert!(std::fs::read_to_string(&path).unwrap().contains("+one"));
    // The file is named by the approval's id, which names the branch.
    let name = path.rsplit_once("approval-").unwrap().1.strip_suffix(".diff").unwrap();
    assert_eq!(client.command("roo.approve", json!(name))["accepted"], true);
    client.message("completed: All is well.");
    assert_eq!(std::fs::read_to_string(home.work("new.txt")).unwrap(), "one\n");
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn a_branch_that_waits_is_found_after_the_death_of_the_server() {
    let home = Home::playing(&writing());
    let (mut client, _) = plain(&home);
    client.popup();
    client.kill();

    let mut client = Client::start(&home, Options::plain());
    let status = client.command("roo.status", Value::Null);
    let text = status["text"].as_str().unwrap();
    assert!(
        text.ends_with("1 waiting: 💻 Mend the lib: Create new.txt (roo.approve, roo.deny, roo.showDiff)"),
        "{text}"
    );
    client.command("roo.resume", Value::Null);
    let popup = client.popup();
    let text = popup["params"]["message"].as_str().unwrap();
    assert!(text.starts_with("roo 💻 Mend the lib asks: Create new.txt"), "{text}");
    client.reply(&popup, json!({ "title": "Allow" }));
    client.message("completed: All is well.");
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn the_tree_is_shown_as_a_document() {
    let home = Home::playing(&asking());
    let (mut client, _) = plain(&home);
    client.popup();
    let shown = client.command("roo.showTree", Value::Null);
    assert_eq!(shown["shown"], true);
    let text = std::fs::read_to_string(shown["path"].as_str().unwrap()).unwrap();
    assert_eq!(text.strip_suffix('\n'), shown["text"].as_str());
    let branch = shown["nodes"][1]["id"].clone();
    let shown = client.command("roo.showTree", json!({ "taskId": branch }));
    insta::assert_snapshot!(shown["text"].as_str().unwrap(), @r"
    🪃 Go.
    └── 💻 Mend the lib
        ^ we are here
    ");
    client.command("roo.cancel", Value::Null);
    client.message("roo: cancelled");
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn a_typed_client_answers_a_branch_by_the_ids_that_it_is_told() {
    let home = Home::playing(&writing());
    let (mut client, root) = typed(&home);
    let asked = client.event("approval.requested");
    let branch = asked["taskId"].as_str().unwrap();
    assert_eq!(asked["rootId"], root);
    assert!(branch.starts_with(&format!("{root}.")), "{branch}");
    assert!(asked["event"]["approvalId"].as_str().unwrap().starts_with(&format!("{branch}.a")), "{asked}");
    let snapshot = client.request("roo/task/get", json!({ "taskId": branch }));
    assert_eq!((&snapshot["state"], &snapshot["mode"]), (&json!("waiting"), &json!("code")));
    assert_eq!(snapshot["approval"]["approvalId"], asked["event"]["approvalId"]);
    let whole = client.request("roo/task/get", json!({ "taskId": root }));
    assert_eq!((&whole["state"], whole.get("approval")), (&json!("waiting"), None));
    let answer = json!({
        "approvalId": asked["event"]["approvalId"], "digest": asked["event"]["digest"], "optionId": "allow_once",
    });
    assert_eq!(client.request("roo/approval/respond", answer)["accepted"], true);
    assert_eq!(end(&mut client), "All is well.");
    assert_gapless(&client.numbered(&root), 1);
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn the_id_of_a_branch_stands_for_its_request_where_that_is_meant() {
    let home = Home::playing(&asking());
    let (mut client, root) = typed(&home);
    let branch = client.event("question.asked")["taskId"].clone();
    // A second cursor takes the place of the first, though it names the branch.
    client.seen.clear();
    client.request("roo/task/attach", json!({ "taskId": branch, "afterSeq": 0 }));
    client.event("question.asked");
    assert_gapless(&client.numbered(&root), 1);
    client.request("roo/task/detach", json!({ "taskId": branch }));
    client.seen.clear();
    let refused = client.refused("roo/task/delete", json!({ "taskId": branch }));
    assert_eq!(refused["data"]["kind"], "wrongState");
    client.request("roo/task/cancel", json!({ "taskId": root }));
    client.request("roo/task/attach", json!({ "taskId": root, "afterSeq": 0 }));
    end(&mut client);
    assert_gapless(&client.numbered(&root), 1);
    client.request("roo/task/delete", json!({ "taskId": root }));
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn the_tree_is_told_to_the_byte() {
    let home = Home::playing(&asking());
    let (mut client, root) = typed(&home);
    let branch = client.event("question.asked")["taskId"].clone();
    let mut tree = client.request("roo/tree/get", json!({ "taskId": branch }));
    for node in tree["nodes"].as_array_mut().unwrap() {
        assert!(node["startedAt"].as_i64().unwrap() > 1_700_000_000_000, "{node}");
        node["startedAt"] = json!(0);
    }
    let expected = json!({
        "nodes": [
            {
                "id": root, "mode": "orchestrator", "emoji": "🪃", "title": "Go.", "state": "paused",
                "startedAt": 0, "tokens": 110, "costUsd": 0.0,
            },
            {
                "id": branch, "parentId": root, "mode": "code", "emoji": "💻", "title": "Mend the lib",
                "state": "waiting", "startedAt": 0, "tokens": 33, "costUsd": 0.0,
            },
        ],
        "text": "🪃 Go.\n└── 💻 Mend the lib\n    ^ we are here",
    });
    assert_eq!(tree, expected);
    let unknown = json!({ "taskId": format!("{root}.9999") });
    assert_eq!(client.refused("roo/tree/get", unknown)["data"]["kind"], "notFound");
    let shown = client.seen.iter().rev().map(|message| &message["params"]["event"]);
    let mut newest = shown.clone().find(|event| event["type"] == "tree.changed").unwrap()["nodes"].clone();
    newest.as_array_mut().unwrap().iter_mut().for_each(|node| node["startedAt"] = json!(0));
    assert_eq!(newest, expected["nodes"]);
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn a_task_is_put_into_another_mode_and_given_another_model() {
    let home = Home::playing(&asking());
    home.configure("  local: { provider: openai, baseUrl: 'http://u:hunter2@localhost/v1', model: qwen, headers: { x: hunter2 } }\n");
    let (mut client, _) = typed(&home);
    let branch = client.event("question.asked")["taskId"].clone();
    client.request("roo/mode/switch", json!({ "taskId": branch, "mode": "debug" }));
    let switched = client.event("mode.switched");
    assert_eq!((&switched["taskId"], &switched["event"]["mode"]), (&branch, &json!("debug")));
    let refused = client.refused("roo/mode/switch", json!({ "taskId": branch, "mode": "poet" }));
    assert_eq!(refused["data"]["kind"], "configuration");

    let profiles = client.request("roo/profile/list", json!({}));
    let expected = json!({ "profiles": [
        { "name": "default", "isDefault": true, "provider": "scripted" },
        { "name": "local", "isDefault": false, "provider": "openai", "model": "qwen" },
    ] });
    assert_eq!(profiles, expected, "no address, no header");
    client.request("roo/profile/select", json!({ "taskId": branch, "profile": "local" }));
    let switched = client.event("mode.switched");
    assert_eq!((&switched["taskId"], &switched["event"]["profile"]), (&branch, &json!("local")));
    let refused = client.refused("roo/profile/select", json!({ "taskId": branch, "profile": "none" }));
    assert_eq!(refused["data"]["kind"], "configuration");
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn a_plain_client_changes_mode_and_model_by_commands() {
    let home = Home::playing(&asking());
    let (mut client, _) = plain(&home);
    client.popup();
    client.command("roo.switchMode", json!("ask"));
    client.message("the next turn of the task is in the mode ask");
    client.command("roo.selectProfile", json!("default"));
    client.message("the task continues with the profile default");
    let tree = client.command("roo.showTree", Value::Null);
    assert_eq!((&tree["nodes"][0]["mode"], &tree["nodes"][1]["mode"]), (&json!("ask"), &json!("code")));
    for (command, told) in
        [("roo.switchMode", "mode: new-task, orchestrator"), ("roo.selectProfile", "profile: default")]
    {
        let refused = client.refused("workspace/executeCommand", json!({ "command": command }));
        assert!(refused["message"].as_str().unwrap().contains(told), "{refused}");
    }
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn slash_commands_are_listed() {
    let home = Home::new();
    std::fs::create_dir_all(home.path(".roo/commands")).unwrap();
    let command = "---\ndescription: Reads it\nargument-hint: <path>\nmode: ask\n---\nReview $1.";
    std::fs::write(home.path(".roo/commands/review.md"), command).unwrap();
    for (name, more) in [("release", ""), ("review", ""), ("chat", "modeSlugs: [ask]\n")] {
        let directory = home.path(&format!(".roo/skills/{name}"));
        std::fs::create_dir_all(&directory).unwrap();
        let skill = format!("---\nname: {name}\ndescription: How to {name}\n{more}---\nDo it.\n");
        std::fs::write(directory.join("SKILL.md"), skill).unwrap();
    }
    let mut client = Client::start(&home, Options::typed());
    let list = client.request("roo/command/list", json!({}));
    let names: Vec<&Value> = list["commands"].as_array().unwrap().iter().map(|item| &item["name"]).collect();
    assert_eq!(
        names,
        ["condense", "create-mode", "init", "release", "review"],
        "skills of all modes among them"
    );
    let review = json!({
        "name": "review", "description": "Reads it", "argumentHint": "<path>", "mode": "ask", "source": "global",
    });
    assert_eq!(list["commands"][4], review);
    assert_eq!(list["commands"][3]["description"], "How to release");
    let completed = client.request("roo/prompt/complete", json!({ "prompt": "/re" }));
    let offered: Vec<&Value> =
        completed["items"].as_array().unwrap().iter().map(|item| &item["text"]).collect();
    assert!(offered.contains(&&json!("/release")), "{completed}");
    assert_eq!(offered.iter().filter(|text| **text == "/review").count(), 1, "{completed}");
    assert_eq!(client.shut_down(), 0);
}

/// Two branches say something at once, letter by letter; their messages have equal ids.
#[test]
fn two_branches_that_speak_at_once_are_told_apart() {
    let story = |who: &str| {
        format!("{who} tells its own story, and takes its time with every word of it. ").repeat(3)
    };
    let stories = [story("The first"), story("The second")];
    let speaks = |title: &str, story: &str| {
        format!(
            "  - mode: code\n    when: {{ contains: \"Do it: {title}\" }}\n    text: \"{story}\"\n    chunk: 1\n    delayMs: 4\n    calls: [{{ tool: attempt_completion, params: {{ result: Told. }} }}]\n"
        )
    };
    let script = format!(
        "turns:\n{}{}{}{}",
        delegates_to_two(),
        speaks("The first", &stories[0]),
        speaks("The second", &stories[1]),
        "  - { mode: orchestrator, calls: [{ tool: attempt_completion, params: { result: Both. } }] }\n",
    );
    let home = Home::playing(&script);
    let (mut client, root) = typed(&home);
    assert_eq!(end(&mut client), "Both.");
    assert_gapless(&client.numbered(&root), 1);

    let mut streamed: BTreeMap<String, String> = BTreeMap::new();
    let mut closed: BTreeMap<String, String> = BTreeMap::new();
    let mut speakers = vec![];
    for params in client.seen.iter().map(|message| &message["params"]) {
        let (event, task) = (&params["event"], params["taskId"].as_str().unwrap_or_default().to_owned());
        if event["type"] == "message.delta" && event["say"] == "text" {
            let text = streamed.entry(task.clone()).or_default();
            assert_eq!(event["offset"], text.len(), "a piece of {task} is missing");
            text.push_str(event["text"].as_str().unwrap());
            speakers.push(task);
        } else if event["message"]["say"] == "text" && task != root {
            closed.insert(task, event["message"]["text"].as_str().unwrap().to_owned());
        }
    }
    let mut told: Vec<&str> = closed.values().map(|text| text.trim_end()).collect();
    told.sort_unstable();
    assert_eq!(told, stories.each_ref().map(|story| story.trim_end()));
    assert_eq!(streamed.len(), 2);
    for (task, text) in &streamed {
        assert!(closed[task].starts_with(text.trim_end()), "{text}");
    }
    speakers.dedup();
    assert!(speakers.len() > 2, "they spoke one after the other");
}
