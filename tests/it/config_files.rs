//! The server as a language server for the files that steer it, seen by an editor.

use std::path::Path;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::client::{Client, Home, Options, uri};

const MODES: &str = "customModes:\n  - slug: poet\n    name: 🪶 Poet\n    roleDefinition: You rhyme.\n    groups: \
                     [read, [edit, { fileRegex: '\\.md$' }]]\n";

fn diagnostics(client: &mut Client, path: &Path) -> Value {
    let uri = uri(path);
    client.wait_for("diagnostics", |message| {
        message["method"] == "textDocument/publishDiagnostics" && message["params"]["uri"] == uri
    })["params"]
        .clone()
}

/// The position of the `|` in a text, and the text without it.
fn marked(text: &str) -> (Value, String) {
    let (before, _) = text.split_once('|').unwrap();
    let line = before.matches('\n').count();
    let character = before.rsplit('\n').next().unwrap().encode_utf16().count();
    (json!({ "line": line, "character": character }), text.replacen('|', "", 1))
}

fn ask(client: &mut Client, method: &str, uri: &str, position: &Value) -> Value {
    client.request(method, json!({ "textDocument": { "uri": uri }, "position": position }))
}

fn replace(client: &mut Client, uri: &str, text: &str) {
    let everything =
        json!({ "start": { "line": 0, "character": 0 }, "end": { "line": 999, "character": 0 } });
    client.change(uri, everything, text);
}

#[test]
fn a_mode_file_is_checked_completed_and_explained_while_it_is_typed() {
    let home = Home::new();
    std::fs::write(home.work("notes.md"), "").unwrap();
    std::fs::write(home.work("main.rs"), "").unwrap();
    let hover = json!({ "textDocument": { "hover": { "contentFormat": ["markdown", "plaintext"] } } });
    let options = Options::plain().with(json!({ "capabilities": hover }));
    let mut client = Client::start(&home, options);
    let file = home.work(".roomodes");

    // Nothing is saved, and nobody trusts the workspace.
    let broken = MODES.replace("name: 🪶 Poet", "name: 🪶 Poet\n    nmae: x").replace("[read,", "[reed,");
    let uri = client.open(&file, &broken);
    let shown = diagnostics(&mut client, &file);
    assert_eq!(shown["version"], 1);
    let ranges: Vec<&Value> =
        shown["diagnostics"].as_array().unwrap().iter().map(|diagnostic| &diagnostic["range"]).collect();
    let range = |line: u32, from: u32, to: u32| json!({ "start": { "line": line, "character": from }, "end": { "line": line, "character": to } });
    assert_eq!(ranges, [&range(3, 4, 8), &range(5, 13, 17)]);
    replace(&mut client, &uri, MODES);
    let shown = diagnostics(&mut client, &file);
    assert_eq!((&shown["version"], &shown["diagnostics"]), (&json!(2), &json!([])));

    let (position, text) = marked(&MODES.replace("[read, ", "[read, m|, "));
    replace(&mut client, &uri, &text);
    let items = ask(&mut client, "textDocument/completion", &uri, &position);
    let labels: Vec<&str> =
        items.as_array().unwrap().iter().map(|item| item["label"].as_str().unwrap()).collect();
    assert!(labels.contains(&"mcp") && !labels.contains(&"read"), "{items}");
    assert!(
        items.as_array().unwrap().iter().all(|item| item["insertTextFormat"] == 1),
        "no snippets: {items}"
    );

    // The new mode is there although the text is broken where it is being typed.
    let (position, text) = marked(&format!("{MODES}    canDelegateTo: [|\n"));
    replace(&mut client, &uri, &text);
    let items = ask(&mut client, "textDocument/completion", &uri, &position);
    assert!(items.as_array().unwrap().iter().any(|item| item["label"] == "poet"), "{items}");

    let (position, text) = marked(&MODES.replace("'\\.md", "'\\.|md"));
    replace(&mut client, &uri, &text);
    let explained = ask(&mut client, "textDocument/hover", &uri, &position);
    let expected = "Matches 1 of 2 files of this workspace:\n\n- `notes.md`";
    assert_eq!(explained["contents"], json!({ "kind": "markdown", "value": expected }));
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn a_closed_file_is_what_the_disk_has_and_a_deleted_one_has_no_mistakes() {
    let home = Home::new();
    let file = home.path("config/roo-lsp/custom-modes.yaml");
    std::fs::write(&file, MODES.replace("[read,", "[reed,")).unwrap();
    let mut client = Client::start(&home, Options::plain());
    assert_eq!(diagnostics(&mut client, &file)["diagnostics"].as_array().unwrap().len(), 1);
    let uri = client.open(&file, MODES);
    assert_eq!(diagnostics(&mut client, &file)["diagnostics"], json!([]));
    let named = json!({ "textDocument": { "uri": uri } });
    client.notify("textDocument/didClose", named.clone());
    let shown = diagnostics(&mut client, &file);
    assert_eq!(shown["diagnostics"][0]["range"]["end"], json!({ "line": 4, "character": 17 }));
    assert_eq!(shown.get("version"), None);

    client.open(&file, &MODES.replace("[read,", "[reed,"));
    diagnostics(&mut client, &file);
    std::fs::remove_file(&file).unwrap();
    client.notify("textDocument/didClose", named);
    // It may be being saved: for a second its modes are in force, and so are their mistakes.
    assert_eq!(diagnostics(&mut client, &file)["diagnostics"].as_array().unwrap().len(), 1);
    assert_eq!(diagnostics(&mut client, &file)["diagnostics"], json!([]));
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn a_file_that_is_deleted_while_it_is_closed_has_no_mistakes() {
    let home = Home::new();
    let file = home.work(".rooignore");
    let tells = json!({ "workspace": { "didChangeWatchedFiles": { "dynamicRegistration": true } } });
    let mut client = Client::start(&home, Options::plain().with(json!({ "capabilities": tells })));
    let asked = client.pump("the request to tell", |client| {
        client.seen.iter().find(|message| message["method"] == "client/registerCapability").cloned()
    });
    assert_eq!(asked["params"]["registrations"][0]["method"], "workspace/didChangeWatchedFiles");
    std::fs::write(&file, "a{b\n").unwrap();
    let told =
        json!({ "changes": [{ "uri": uri(&file), "type": 1 }, { "uri": "file:///a b|c", "type": 2 }] });
    client.notify("workspace/didChangeWatchedFiles", told.clone());
    assert_eq!(diagnostics(&mut client, &file)["diagnostics"].as_array().unwrap().len(), 1);
    // Nor are they forgotten when something else is looked at.
    client.open(&home.work(".roomodes"), MODES);
    diagnostics(&mut client, &home.work(".roomodes"));
    client
        .notify("textDocument/didClose", json!({ "textDocument": { "uri": uri(&home.work(".roomodes")) } }));
    diagnostics(&mut client, &home.work(".roomodes"));
    let shown = client.seen.iter().filter(|message| message["params"]["uri"] == uri(&file)).count();
    assert_eq!(shown, 1);
    std::fs::remove_file(&file).unwrap();
    client.notify("workspace/didChangeWatchedFiles", told);
    assert_eq!(diagnostics(&mut client, &file)["diagnostics"], json!([]));
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn every_kind_of_file_is_checked() {
    let home = Home::new();
    let mut client = Client::start(&home, Options::plain());
    for (path, text, message) in [
        (home.work(".roo/commands/a.md"), "---\nmode: [code]\n---\n", "`mode` must be a string"),
        (home.work(".roo/skills/a/SKILL.md"), "---\nname: b\n---\n", "'name' is 'b'"),
        (home.work(".roo/rules/a.md"), "---\nglobs: x\n---\n", "rules have no front matter"),
        (home.work(".rooignore"), "a{b\n", "this pattern is invalid"),
        (home.work(".rooprotected"), "a{b\n", "this pattern is invalid, so every change"),
        (
            home.config_file(),
            "limits: { depth: x }\n",
            "limits.depth: must be a whole number, not the string \"x\"",
        ),
        (
            home.config_file(),
            "profiles: { a: { provider: ollama, fallback: b } }\n",
            "profiles.a.fallback: there is no profile `b`, so none takes over",
        ),
        (home.config_file(), "protected: [infra/, 'a{']\n", "protected: entry 2 is not a valid pattern: "),
        (home.config_file(), "profils: {}\n", "profils: unknown key, ignored; did you mean `profiles`?"),
        (home.work(".roo/hooks.json"), "{\"hooks\": {\"PreTool\": []}}", "there is no event 'PreTool'"),
        (home.path("config/roo-lsp/hooks.json"), "{", "invalid JSON"),
    ] {
        client.open(&path, text);
        let shown = diagnostics(&mut client, &path);
        assert!(shown["diagnostics"][0]["message"].as_str().unwrap().starts_with(message), "{shown}");
    }
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn a_hooks_file_is_checked_completed_and_explained_while_it_is_typed() {
    let home = Home::new();
    let mut client = Client::start(&home, Options::plain());
    let file = home.work(".roo/hooks.json");
    let hooks = "{\n\t\"hooks\": {\n\t\t\"PreToolUse\": [\n\t\t\t{ \"matcher\": \"Bash\", \"hooks\": [{ \"type\": \
                 \"command\", \"command\": \"x\", \"timeout\": \"5\" }] }\n\t\t]\n\t}\n}\n";
    let uri = client.open(&file, hooks);
    let shown = diagnostics(&mut client, &file);
    let diagnostic = &shown["diagnostics"][0];
    assert!(diagnostic["message"].as_str().unwrap().starts_with("`timeout` must be a number"), "{shown}");
    let line = hooks.lines().nth(3).unwrap();
    let at = line.find("\"5\"").unwrap();
    let range = json!({ "start": { "line": 3, "character": at }, "end": { "line": 3, "character": at + 3 } });
    assert_eq!(diagnostic["range"], range);

    let mut labels = |text: &str| -> Vec<String> {
        let (position, text) = marked(text);
        replace(&mut client, &uri, &text);
        let items = ask(&mut client, "textDocument/completion", &uri, &position);
        let items = items.as_array().cloned().unwrap_or_default();
        items.iter().map(|item| item["label"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(labels("{ \"hooks\": { \"Stop\": [], | } }").len(), 15);
    let tools = labels("{ \"hooks\": { \"PreToolUse\": [{ \"matcher\": \"|\" }] } }");
    assert!(tools.contains(&"Bash".to_owned()) && tools.contains(&"write_to_file".to_owned()), "{tools:?}");
    assert_eq!(labels("{ \"hooks\": { \"PreCompact\": [{ \"matcher\": | }] } }"), ["manual", "auto"]);
    let keys = labels("{ \"hooks\": { \"Stop\": [{ \"hooks\": [{ \"type\": \"command\", | }] }] } }");
    assert_eq!(keys[0], "command");
    assert_eq!(
        labels("{ \"hooks\": { \"Stop\": [{ \"hooks\": [{ \"roo\": { \"|\" } }] }] } }"),
        ["failClosed", "sandbox"]
    );

    let (position, text) = marked("{ \"hooks\": { \"PreToolUse\": [{ \"matcher\": \"^Bas|h|Write\" }] } }");
    replace(&mut client, &uri, &text);
    let explained = ask(&mut client, "textDocument/hover", &uri, &position);
    let expected = "Matches:\n\n- `Write` (write_to_file, generate_image)\n- `Bash` (execute_command)\n- \
                    `BashOutput` (read_command_output)\n- `TodoWrite` (update_todo_list)";
    assert_eq!(explained["contents"]["value"], expected);
    let (position, text) = marked("{ \"hooks\": { \"Pre|ToolUse\": [] } }");
    replace(&mut client, &uri, &text);
    let explained = ask(&mut client, "textDocument/hover", &uri, &position);
    assert!(
        explained["contents"]["value"].as_str().unwrap().starts_with("**PreToolUse**: Before a tool call.")
    );
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn a_file_of_mcp_servers_is_checked_completed_and_explained_while_it_is_typed() {
    let home = Home::new();
    let mut client = Client::start(&home, Options::plain());
    for file in [home.work(".roo/mcp.json"), home.path("config/roo-lsp/mcp.json")] {
        let servers = "// ours\n{ \"mcpServers\": {\n\t\"files\": { \"comand\": \"x\" }, // later\n} }\n";
        let uri = client.open(&file, servers);
        let shown = diagnostics(&mut client, &file);
        let diagnostic = &shown["diagnostics"][1];
        let message = "server `files`: unknown key `comand`, ignored; did you mean `command`?";
        assert_eq!(diagnostic["message"], message, "{shown}");
        let range = json!({ "start": { "line": 2, "character": 12 }, "end": { "line": 2, "character": 20 } });
        assert_eq!(diagnostic["range"], range);

        let (position, text) =
            marked("// ours\n{ \"mcpServers\": { \"files\": { \"command\": \"x\", | } } }");
        replace(&mut client, &uri, &text);
        let items = ask(&mut client, "textDocument/completion", &uri, &position);
        let labels: Vec<&str> =
            items.as_array().unwrap().iter().map(|item| item["label"].as_str().unwrap()).collect();
        assert_eq!(
            (labels.len(), labels.contains(&"alwaysAllow"), labels.contains(&"command")),
            (14, true, false)
        );

        let (position, text) = marked("// ours\n{ \"mcpServers\": { \"files\": { \"type\": \"st|dio\" } } }");
        replace(&mut client, &uri, &text);
        let explained = ask(&mut client, "textDocument/hover", &uri, &position);
        assert_eq!(
            explained["contents"]["value"],
            "**stdio**: A program that speaks over its standard input and output."
        );
    }
    assert_eq!(client.shut_down(), 0);
}

/// The text with the edits of a code action, which are of one line each.
fn edited(text: &str, edits: &Value) -> String {
    let mut lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
    for edit in edits.as_array().unwrap() {
        let at = |end: &str, name: &str| edit["range"][end][name].as_u64().unwrap() as usize;
        assert_eq!(at("start", "line"), at("end", "line"));
        let line = &mut lines[at("start", "line")];
        line.replace_range(
            at("start", "character")..at("end", "character"),
            edit["newText"].as_str().unwrap(),
        );
    }
    lines.join("\n")
}

#[test]
fn a_misspelt_key_or_value_is_underlined_and_can_be_changed() {
    let home = Home::new();
    let literals = json!({ "codeActionLiteralSupport": { "codeActionKind": { "valueSet": [] } } });
    let capabilities = json!({ "textDocument": { "codeAction": literals } });
    let mut client = Client::start(&home, Options::plain().with(json!({ "capabilities": capabilities })));
    let mode = |groups: &str, more: &str| {
        format!(
            "customModes:\n  - slug: poet\n    name: Poet\n    roleDefinition: You rhyme.\n    {groups}\n{more}"
        )
    };
    let hook = "{ \"type\": \"command\", \"command\": \"x\" }";
    let hooks =
        |event: &str, hook: &str| format!("{{\"hooks\": {{\"{event}\": [{{\"hooks\": [{hook}]}}]}}}}");
    let server = |server: &str| format!("// ours\n{{ \"mcpServers\": {{ \"a\": {{ {server} }} }} }}\n");
    let modes = home.work(".roomodes");
    let hooks_file = home.work(".roo/hooks.json");
    let servers = home.work(".roo/mcp.json");
    let profile = "profiles:\n  main:\n    provider: openai\n    model: x\n";
    for (file, text, written, meant) in [
        (&modes, mode("grops: [read]", ""), "grops", "groups"),
        (&modes, mode("groups: [reed]", ""), "reed", "read"),
        (&modes, mode("groups: [[edti, { fileRegex: x }]]", ""), "edti", "edit"),
        (&modes, mode("groups: []", "    canDelegateTo: [ask, 'cdoe']\n"), "'cdoe'", "'code'"),
        (&modes, "customMode: []\n".to_owned(), "customMode", "customModes"),
        (&home.config_file(), "profils: {}\n".to_owned(), "profils", "profiles"),
        (&home.config_file(), profile.replace("openai", "opnai"), "opnai", "openai"),
        (&home.config_file(), profile.replace("provider", "provder"), "provder", "provider"),
        (&home.config_file(), "sandbox: { level: stagd }\n".to_owned(), "stagd", "staged"),
        (&hooks_file, hooks("PreToolUes", hook), "\"PreToolUes\"", "\"PreToolUse\""),
        (
            &hooks_file,
            hooks("Stop", &hook.replace("\"command\":", "\"comand\":")),
            "\"comand\"",
            "\"command\"",
        ),
        (
            &hooks_file,
            hooks("Stop", &hook.replace("\"command\",", "\"comand\",")),
            "\"comand\"",
            "\"command\"",
        ),
        (&hooks_file, "{\"hook\": {}}".to_owned(), "\"hook\"", "\"hooks\""),
        (&servers, server("\"comand\": \"x\""), "\"comand\"", "\"command\""),
        (&servers, server("\"type\": \"stido\", \"command\": \"x\""), "\"stido\"", "\"stdio\""),
        (&servers, "{ \"mcpServer\": {} }".to_owned(), "\"mcpServer\"", "\"mcpServers\""),
        (&home.work(".roo/commands/a.md"), "---\nmoed: code\n---\nx\n".to_owned(), "moed", "mode"),
        (
            &home.work(".orchestration/active_intents.yaml"),
            "active_intents:\n  - { id: A, name: a, status: PENDNIG, owned_scope: [src] }\n".to_owned(),
            "PENDNIG",
            "PENDING",
        ),
    ] {
        let uri = client.open(file, &text);
        diagnostics(&mut client, file);
        let before: u64 = text.split_once(written).unwrap().0.matches('\n').count() as u64;
        let actions = client.actions(&uri, before..before + 1);
        let plain = meant.trim_matches(['"', '\'']);
        let title = format!("Change to `{plain}`");
        let Some((_, action)) = actions.iter().find(|(found, _)| *found == title) else {
            panic!("there is no action '{title}' for {text}: {actions:?}");
        };
        assert_eq!((&action["kind"], &action["isPreferred"]), (&json!("quickfix"), &json!(true)));
        let [diagnostic] = &action["diagnostics"].as_array().unwrap()[..] else { panic!("{action}") };
        let change = &action["edit"]["documentChanges"][0];
        assert_eq!(change["textDocument"]["uri"], uri);
        let edits = &change["edits"];
        assert_eq!(diagnostic["range"], edits[0]["range"], "all of it is underlined");
        let fixed = edited(&text, edits);
        assert_eq!(fixed, text.replacen(written, meant, 1));
        replace(&mut client, &uri, &fixed);
        let left = diagnostics(&mut client, file)["diagnostics"].clone();
        assert!(!left.as_array().unwrap().contains(diagnostic), "{left}");
        assert!(!left.to_string().contains("did you mean"), "{left}");
        client.close(&uri);
        diagnostics(&mut client, file);
    }
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn other_documents_get_nothing() {
    let home = Home::new();
    let mut client = Client::start(&home, Options::plain());
    let (position, text) = marked("customModes:\n  - gr|oups: [nonsense]\n");
    for path in [home.work("main.rs"), home.work("sub/.roomodes")] {
        let uri = client.open(&path, &text);
        for method in ["textDocument/completion", "textDocument/hover"] {
            assert_eq!(ask(&mut client, method, &uri, &position), Value::Null);
        }
    }
    // Whatever a URI looks like.
    assert_eq!(ask(&mut client, "textDocument/hover", "untitled:a b|c", &position), Value::Null);
    let last = client.open(&home.work(".rooignore"), "{");
    client.wait_for("diagnostics", |message| message["params"]["uri"] == last);
    let shown = client.seen.iter().filter(|message| message["method"] == "textDocument/publishDiagnostics");
    assert!(shown.into_iter().all(|message| message["params"]["uri"] == last));
    assert_eq!(client.refused("textDocument/hover", json!({ "textDocument": {} }))["code"], -32602);
    assert_eq!(client.shut_down(), 0);
}
