use std::path::PathBuf;

use super::*;
use roo_catalog::parse;
use roo_protocol::ids::ToolCallId;

fn call(name: &str, params: Value) -> ToolCall {
    ToolCall {
        id: ToolCallId::new("c"),
        name: name.to_owned(),
        params: object(params),
        problem: None,
        note: None,
    }
}

fn object(value: Value) -> Object {
    value.as_object().cloned().unwrap_or_default()
}

const NOWHERE: RealPath<'static> = &|_| None;

/// Returns the inputs of hooks, without `roo`.
fn told(name: &str, params: Value) -> Vec<Value> {
    let call = call(name, params);
    let invocation = parse(&call).unwrap();
    let tool = ToolUse { call: &call, invocation: Some(&invocation), server_tool: None, real_path: NOWHERE };
    let inputs = tool.inputs(Path::new("/w"));
    let plain = |mut input: Input| {
        let roo = input.fields.remove("roo").unwrap();
        assert_eq!(roo, json!({ "tool": invocation.tool().as_str(), "parameters": call.params }));
        Value::Object(input.fields)
    };
    inputs.into_iter().map(plain).collect()
}

/// Our parameters after a hook changed its input.
fn rewritten(name: &str, params: Value, change: impl Fn(&mut Value)) -> Result<Option<Value>, RewriteError> {
    let call = call(name, params);
    let invocation = parse(&call).unwrap();
    let tool = ToolUse { call: &call, invocation: Some(&invocation), server_tool: None, real_path: NOWHERE };
    let inputs = tool.inputs(Path::new("/w"));
    let after: Vec<Option<Object>> = inputs
        .iter()
        .map(|input| {
            let mut fields = Value::Object(input.fields.clone());
            change(&mut fields);
            Some(object(fields))
        })
        .collect();
    let params = tool.rewritten(Path::new("/w"), &inputs, &after)?;
    // What comes of it can be read again.
    if let Some(params) = &params {
        let call = ToolCall { params: params.clone(), ..call };
        assert!(parse(&call).is_ok(), "{params:?}");
    }
    Ok(params.map(Value::Object))
}

const DIFF: &str = "<<<<<<< SEARCH\n:start_line:3\n-------\nold\n=======\nnew\nlines\n>>>>>>> REPLACE";

/// A call of every tool, what hooks are told, and a change with what comes of it.
fn every_tool() -> Vec<(&'static str, Value, Value, Value, Value)> {
    let two = format!("{DIFF}\n\n{}", DIFF.replace("old", "more"));
    vec![
        (
            "execute_command",
            json!({ "command": "ls", "cwd": "src", "timeout": 2 }),
            json!({ "command": "ls", "timeout": 2000 }),
            json!({ "command": "ls -l", "timeout": 1500 }),
            json!({ "command": "ls -l", "cwd": "src", "timeout": 2 }),
        ),
        (
            "write_to_file",
            json!({ "path": "a/../b.txt", "content": "x" }),
            json!({ "file_path": "/w/b.txt", "content": "x" }),
            json!({ "content": "y" }),
            json!({ "path": "a/../b.txt", "content": "y" }),
        ),
        (
            "apply_diff",
            json!({ "path": "a.rs", "diff": DIFF }),
            json!({
                "file_path": "/w/a.rs", "old_string": "old", "new_string": "new\nlines", "replace_all": false,
                "edits": [{ "old_string": "old", "new_string": "new\nlines" }],
            }),
            json!({ "new_string": "newer", "file_path": "/w/b/c.rs" }),
            json!({ "path": "b/c.rs", "diff": DIFF.replace("new\nlines", "newer") }),
        ),
        (
            "apply_diff",
            json!({ "path": "a.rs", "diff": two }),
            json!({
                "file_path": "/w/a.rs", "old_string": "old\nmore", "new_string": "new\nlines\nnew\nlines",
                "replace_all": false,
                "edits": [
                    { "old_string": "old", "new_string": "new\nlines" },
                    { "old_string": "more", "new_string": "new\nlines" },
                ],
            }),
            json!({ "edits": [{ "old_string": "old", "new_string": "=======" }] }),
            json!({ "path": "a.rs", "diff": DIFF.replace("new\nlines", "\\=======") }),
        ),
        (
            "search_and_replace",
            json!({ "path": "a", "search": "x", "replace": "y", "use_regex": true }),
            json!({ "file_path": "/w/a", "old_string": "x", "new_string": "y", "replace_all": true }),
            json!({ "new_string": "z" }),
            json!({ "path": "a", "search": "x", "replace": "z", "use_regex": true }),
        ),
        (
            "edit",
            json!({ "file_path": "a", "old_string": "x", "new_string": "y" }),
            json!({ "file_path": "/w/a", "old_string": "x", "new_string": "y", "replace_all": false }),
            json!({ "file_path": "/elsewhere" }),
            json!({ "file_path": "/elsewhere", "old_string": "x", "new_string": "y" }),
        ),
        (
            "search_and_replace",
            json!({ "path": "a", "operations": [{ "search": "x", "replace": "y", "start_line": 2 }] }),
            json!({ "file_path": "/w/a", "old_string": "x", "new_string": "y", "replace_all": true }),
            json!({ "new_string": "z" }),
            json!({ "path": "a", "operations": [
                { "search": "x", "replace": "z", "use_regex": false, "ignore_case": false, "start_line": 2 },
            ] }),
        ),
        (
            "edit_file",
            json!({ "file_path": "a", "old_string": "x", "new_string": "y", "expected_replacements": 2 }),
            json!({ "file_path": "/w/a", "old_string": "x", "new_string": "y", "replace_all": true }),
            json!({ "new_string": "z" }),
            json!({ "file_path": "a", "old_string": "x", "new_string": "z", "expected_replacements": 2 }),
        ),
        (
            "workspace_symbols",
            json!({ "path": "src/b.rs", "query": "b" }),
            json!({ "file_path": "/w/src/b.rs" }),
            json!({ "file_path": "/w/a.rs" }),
            json!({ "path": "a.rs", "query": "b" }),
        ),
        (
            "diagnostics",
            json!({ "path": "src/b.rs" }),
            json!({ "file_path": "/w/src/b.rs" }),
            json!({ "file_path": "/w/a.rs" }),
            json!({ "path": "a.rs" }),
        ),
        (
            "code_actions",
            json!({ "path": "src/b.rs", "line": 3 }),
            json!({ "file_path": "/w/src/b.rs" }),
            json!({ "file_path": "/w/a.rs" }),
            json!({ "path": "a.rs", "line": 3 }),
        ),
        (
            "apply_code_action",
            json!({ "path": "src/b.rs", "line": 3, "title": "Import it" }),
            json!({ "path": "src/b.rs", "line": 3, "title": "Import it" }),
            json!({ "line": 4 }),
            json!({ "path": "src/b.rs", "line": 4, "title": "Import it" }),
        ),
        (
            "rename_symbol",
            json!({ "path": "src/b.rs", "line": 3, "symbol": "b", "new_name": "c" }),
            json!({ "path": "src/b.rs", "line": 3, "symbol": "b", "new_name": "c" }),
            json!({ "new_name": "d" }),
            json!({ "path": "src/b.rs", "line": 3, "symbol": "b", "new_name": "d" }),
        ),
        (
            "view_diff",
            json!({ "path": "a.rs" }),
            json!({ "path": "a.rs" }),
            json!({ "path": "b.rs" }),
            json!({ "path": "b.rs" }),
        ),
        (
            "run_slash_command",
            json!({ "command": "/deploy", "args": "now" }),
            json!({ "command": "/deploy now" }),
            json!({ "command": "/deploy" }),
            json!({ "command": "deploy" }),
        ),
        (
            "insert_content",
            json!({ "path": "a", "line": 3, "content": "x" }),
            json!({ "file_path": "/w/a", "old_string": "", "new_string": "x" }),
            json!({ "new_string": "y" }),
            json!({ "path": "a", "line": 3, "content": "y" }),
        ),
        (
            "generate_image",
            json!({ "prompt": "a fox", "path": "a.png" }),
            json!({ "file_path": "/w/a.png", "prompt": "a fox" }),
            json!({ "file_path": "/w/b.png", "prompt": "a cat" }),
            json!({ "prompt": "a cat", "path": "b.png" }),
        ),
        (
            "list_files",
            json!({ "path": "src" }),
            json!({ "path": "/w/src", "pattern": "*" }),
            json!({ "pattern": "**/*" }),
            json!({ "path": "src", "recursive": true }),
        ),
        (
            "search_files",
            json!({ "path": ".", "regex": "x", "file_pattern": "*.rs" }),
            json!({ "pattern": "x", "path": "/w", "output_mode": "content", "glob": "*.rs" }),
            json!({ "pattern": "y", "path": "/w/src" }),
            json!({ "path": "src", "regex": "y", "file_pattern": "*.rs" }),
        ),
        (
            "codebase_search",
            json!({ "query": "x", "path": "src" }),
            json!({ "pattern": "x", "path": "/w/src", "output_mode": "content" }),
            json!({ "pattern": "y", "path": "/w/lib" }),
            json!({ "query": "y", "path": "lib" }),
        ),
        (
            "list_code_definition_names",
            json!({ "path": "src" }),
            json!({ "file_path": "/w/src" }),
            json!({ "file_path": "/w/a.rs" }),
            json!({ "path": "a.rs" }),
        ),
        (
            "find_references",
            json!({ "path": "src/b.rs", "line": 3, "symbol": "b" }),
            json!({ "file_path": "/w/src/b.rs" }),
            json!({ "file_path": "/w/a.rs" }),
            json!({ "path": "a.rs", "line": 3, "symbol": "b" }),
        ),
        (
            "go_to_definition",
            json!({ "path": "src/b.rs", "line": 3, "symbol": "b" }),
            json!({ "file_path": "/w/src/b.rs" }),
            json!({ "file_path": "/w/a.rs" }),
            json!({ "path": "a.rs", "line": 3, "symbol": "b" }),
        ),
        (
            "hover",
            json!({ "path": "src/b.rs", "line": 3, "symbol": "b" }),
            json!({ "file_path": "/w/src/b.rs" }),
            json!({ "file_path": "/w/a.rs" }),
            json!({ "path": "a.rs", "line": 3, "symbol": "b" }),
        ),
        (
            "ask_followup_question",
            json!({ "question": "Which?", "follow_up": [{ "text": "A" }] }),
            json!({ "questions": [{
                "question": "Which?", "header": "Question", "options": [{ "label": "A" }], "multiSelect": false,
            }] }),
            json!({ "questions": [{ "question": "Which one?", "options": [{ "label": "B" }] }] }),
            json!({ "question": "Which one?", "follow_up": [{ "text": "B" }] }),
        ),
        (
            "update_todo_list",
            json!({ "todos": "[x] a\n[-] b" }),
            json!({ "todos": [
                { "content": "a", "status": "completed", "activeForm": "a" },
                { "content": "b", "status": "in_progress", "activeForm": "b" },
            ] }),
            json!({ "todos": [{ "content": "c", "status": "pending" }] }),
            json!({ "todos": "[ ] c\n" }),
        ),
        (
            "switch_mode",
            json!({ "mode_slug": "code" }),
            json!({ "mode_slug": "code" }),
            json!({ "mode_slug": "ask" }),
            json!({ "mode_slug": "ask" }),
        ),
        (
            "read_command_output",
            json!({ "command_id": "cmd-3", "timeout": 5 }),
            json!({ "bash_id": "cmd-3" }),
            json!({ "bash_id": "cmd-4" }),
            json!({ "command_id": "cmd-4", "timeout": 5 }),
        ),
        (
            "send_command_input",
            json!({ "command_id": "cmd-3", "input": "1 + 1" }),
            json!({ "command_id": "cmd-3", "input": "1 + 1" }),
            json!({ "command_id": "cmd-3", "input": "2", "key": "none" }),
            json!({ "command_id": "cmd-3", "input": "2", "key": "none" }),
        ),
        (
            "stop_command",
            json!({ "command_id": "cmd-3" }),
            json!({ "shell_id": "cmd-3" }),
            json!({ "shell_id": "cmd-4" }),
            json!({ "command_id": "cmd-4" }),
        ),
        (
            "browser_action",
            json!({ "action": "click", "ref": "e1" }),
            json!({ "action": "click", "ref": "e1" }),
            json!({ "action": "click", "ref": "e2" }),
            json!({ "action": "click", "ref": "e2" }),
        ),
        (
            "skill",
            json!({ "skill": "release", "args": "now" }),
            json!({ "skill": "release", "args": "now" }),
            json!({ "args": "later" }),
            json!({ "name": "release", "args": "later" }),
        ),
        (
            "new_task",
            json!({ "mode": "code", "message": "\nDo it.\nWell.", "todos": "[ ] a" }),
            json!({ "prompt": "\nDo it.\nWell.", "description": "Do it.", "subagent_type": "code" }),
            json!({ "subagent_type": "debug" }),
            json!({ "mode": "debug", "message": "\nDo it.\nWell.", "todos": "[ ] a" }),
        ),
        (
            "attempt_completion",
            json!({ "result": "Done." }),
            json!({ "result": "Done." }),
            json!({ "result": "Almost." }),
            json!({ "result": "Almost." }),
        ),
        (
            "fetch_instructions",
            json!({ "task": "create_mode" }),
            json!({ "task": "create_mode" }),
            json!({ "task": "create_mcp_server" }),
            json!({ "task": "create_mcp_server" }),
        ),
        (
            "access_mcp_resource",
            json!({ "server_name": "notes", "uri": "notes://a" }),
            json!({ "server_name": "notes", "uri": "notes://a" }),
            json!({ "server_name": "notes", "uri": "notes://b" }),
            json!({ "server_name": "notes", "uri": "notes://b" }),
        ),
        (
            "search_mcp_tools",
            json!({ "query": "issue", "server_name": "git" }),
            json!({ "query": "issue", "server_name": "git" }),
            json!({ "query": "branch", "server_name": "git" }),
            json!({ "query": "branch", "server_name": "git" }),
        ),
        (
            "use_mcp_tool",
            json!({ "server_name": "notes", "tool_name": "add", "arguments": "{\"text\": \"a\"}" }),
            json!({ "text": "a" }),
            json!({ "text": "b" }),
            json!({ "server_name": "notes", "tool_name": "add", "arguments": { "text": "b" } }),
        ),
        (
            "complete_with_failure",
            json!({ "reason": "No." }),
            json!({ "reason": "No." }),
            json!({ "reason": "Not yet." }),
            json!({ "reason": "Not yet." }),
        ),
        (
            "read_file",
            json!({ "path": "a", "offset": 3, "limit": 2 }),
            json!({ "file_path": "/w/a", "offset": 3, "limit": 2 }),
            json!({ "file_path": "/w/b" }),
            json!({ "files": [{ "path": "b", "line_ranges": [[3, 4]] }] }),
        ),
    ]
}

#[test]
fn every_tool_is_told_in_the_contracts_form_and_taken_back() {
    use roo_catalog::ToolName::{ApplyPatch, RequestScopeExpansion, SelectActiveIntent};
    // What these ask for is the user's alone to change, and a patch is one text.
    let fixed = [SelectActiveIntent, RequestScopeExpansion, ApplyPatch];
    for tool in roo_catalog::TOOLS.iter().filter(|tool| !fixed.contains(&tool.name)) {
        let is_there =
            every_tool().iter().any(|(name, ..)| roo_catalog::ToolName::parse(name) == Some(tool.name));
        assert!(is_there, "{}", tool.name);
    }
    for (name, params, expected, change, result) in every_tool() {
        assert_eq!(told(name, params.clone()), [expected], "{name}");
        let changed = rewritten(name, params.clone(), |fields| {
            for (field, value) in change.as_object().unwrap() {
                fields[field] = value.clone();
            }
        });
        assert_eq!(changed, Ok(Some(result)), "{name}");
        assert_eq!(rewritten(name, params, |_| {}), Ok(None), "{name} stays");
    }
}

#[test]
fn every_file_of_a_call_is_asked_about() {
    let params = json!({ "files": [{ "path": "a" }, { "path": "/x/.env", "line_ranges": [[2, 5]] }] });
    assert_eq!(
        told("read_file", params.clone()),
        [json!({ "file_path": "/w/a" }), json!({ "file_path": "/x/.env", "offset": 2, "limit": 4 })]
    );
    let changed = rewritten("read_file", params, |fields| {
        if fields["file_path"] == "/w/a" {
            fields["limit"] = 10.into();
        }
    });
    let expected = json!({ "files": [
        { "path": "a", "line_ranges": [[1, 10]] },
        { "path": "/x/.env", "line_ranges": [[2, 5]] },
    ] });
    assert_eq!(changed, Ok(Some(expected)));
}

#[test]
fn links_are_followed_where_that_can_be_said() {
    let call = call("write_to_file", json!({ "path": "link/a", "content": "" }));
    let invocation = parse(&call).unwrap();
    let real_path: RealPath<'_> = &|named| (named == "link/a").then(|| PathBuf::from("/w/secrets/a"));
    let tool = ToolUse { call: &call, invocation: Some(&invocation), server_tool: None, real_path };
    assert_eq!(tool.inputs(Path::new("/w"))[0].fields["file_path"], "/w/secrets/a");
}

#[test]
fn our_own_parameters_can_be_given_as_they_are() {
    let params = json!({ "command": "ls", "cwd": "src" });
    let changed = rewritten("execute_command", params, |fields| {
        fields["roo"]["parameters"] = json!({ "command": "ls", "cwd": "tests" });
        // Whatever else there is.
        fields["command"] = "no".into();
    });
    assert_eq!(changed, Ok(Some(json!({ "command": "ls", "cwd": "tests" }))));
}

#[test]
fn tools_of_servers_stay_as_they_are() {
    let call = call("mcp__files__read", json!({ "path": "a" }));
    let tool = ToolUse { call: &call, invocation: None, server_tool: None, real_path: NOWHERE };
    let inputs = tool.inputs(Path::new("/w"));
    assert_eq!(inputs, [Input { names: vec!["mcp__files__read".to_owned()], fields: call.params.clone() }]);
    let after = [Some(object(json!({ "path": "b" })))];
    assert_eq!(tool.rewritten(Path::new("/w"), &inputs, &after), Ok(after[0].clone()));
    assert_eq!(tool.rewritten(Path::new("/w"), &inputs, &[Some(call.params.clone())]), Ok(None));
}

#[test]
fn a_patch_is_told_as_one_edit_for_each_file_and_rewritten_whole() {
    let patch = "*** Begin Patch\n*** Add File: n\n+x\n*** Delete File: o\n*** Update File: a\n*** Move to: b\n\
                 -y\n+z\n*** End Patch";
    let params = json!({ "patch": patch });
    let edited = json!({
        "file_path": "/w/a", "old_string": "y", "new_string": "z", "replace_all": false,
        "edits": [{ "old_string": "y", "new_string": "z" }],
    });
    assert_eq!(
        told("apply_patch", params.clone()),
        [
            json!({ "file_path": "/w/n", "content": "x\n" }),
            json!({ "file_path": "/w/o", "old_string": "", "new_string": "" }),
            edited,
            json!({ "file_path": "/w/b", "content": "" }),
        ]
    );
    assert_eq!(told("apply_patch", json!({ "patch": "no" })), [json!({ "patch": "no" })]);
    let part = rewritten("apply_patch", params.clone(), |fields| fields["content"] = json!("y"));
    assert!(part.unwrap_err().to_string().contains("only be rewritten whole"));
    let whole = rewritten("apply_patch", params.clone(), |fields| {
        fields["roo"]["parameters"]["patch"] = json!("other");
    });
    assert_eq!(whole, Ok(Some(json!({ "patch": "other" }))));
    assert_eq!(rewritten("apply_patch", params, |_| {}), Ok(None));
}

#[test]
fn what_can_not_be_followed_is_an_error() {
    let set = |field: &'static str, value: Value| move |fields: &mut Value| fields[field] = value.clone();
    let two = format!("{DIFF}\n{DIFF}");
    for (name, params, field, value) in [
        ("execute_command", json!({ "command": "ls" }), "command", json!(1)),
        ("execute_command", json!({ "command": "ls" }), "timeout", json!("x")),
        ("write_to_file", json!({ "path": "a", "content": "x" }), "content", Value::Null),
        ("apply_diff", json!({ "path": "a", "diff": two }), "new_string", json!("x")),
        ("apply_diff", json!({ "path": "a", "diff": DIFF }), "edits", json!([1])),
        (
            "search_and_replace",
            json!({ "path": "a", "search": "x", "replace": "y" }),
            "replace_all",
            json!(false),
        ),
        ("list_files", json!({ "path": "a" }), "pattern", json!("*.rs")),
        ("read_file", json!({ "path": "a" }), "offset", json!(-1)),
        (
            "ask_followup_question",
            json!({ "question": "q", "follow_up": [] }),
            "answers",
            json!({ "q": "a" }),
        ),
        (
            "update_todo_list",
            json!({ "todos": "[ ] a" }),
            "todos",
            json!([{ "content": "a", "status": "?" }]),
        ),
    ] {
        assert!(rewritten(name, params, set(field, value)).is_err(), "{name} {field}");
    }
    // A rewrite has all fields.
    let only = |fields: &mut Value| *fields = json!({ "content": "y" });
    assert!(rewritten("write_to_file", json!({ "path": "a", "content": "x" }), only).is_err());
}

#[test]
fn results_are_told_and_taken_back() {
    let call = call("execute_command", json!({ "command": "ls" }));
    let invocation = parse(&call).unwrap();
    let tool = ToolUse { call: &call, invocation: Some(&invocation), server_tool: None, real_path: NOWHERE };
    let before = response(&tool, Path::new("/w"), "out", true);
    assert_eq!(before["stdout"], "out");
    let text = |value: Value| response_text(&value, &before);
    assert_eq!(text(json!("x")), Some("x".to_owned()));
    assert_eq!(text(json!({ "stdout": "x", "stderr": "" })), Some("x".to_owned()));
    assert_eq!(text(json!({ "stdout": "x", "stderr": "y" })), Some("x\ny".to_owned()));
    assert_eq!(text(json!({ "stdout": "out", "roo": { "text": "z" } })), Some("z".to_owned()));
    assert_eq!(text(json!({ "file": { "content": "x" } })), Some("x".to_owned()));
    assert_eq!(text(json!({ "success": true })), None);
}
