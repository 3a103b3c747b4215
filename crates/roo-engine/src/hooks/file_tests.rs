use proptest::prelude::*;
use serde_json::json;

use super::*;
use roo_formats::Severity;

fn parse(text: &str) -> HookFile {
    HookFile::parse(text, Form::Hooks, Source::User).unwrap()
}

/// A file with one hook of an event.
fn one(event: &str, matcher: Value, hook: Value) -> String {
    json!({ "hooks": { event: [{ "matcher": matcher, "hooks": [hook] }] } }).to_string()
}

fn command() -> Value {
    json!({ "type": "command", "command": "x" })
}

/// Returns the problems, as `line:column: message`.
fn problems(text: &str) -> Vec<String> {
    let problems = match HookFile::parse(text, Form::Hooks, Source::User) {
        Ok(file) => file.problems,
        Err(problem) => vec![problem],
    };
    let shown = |problem: Problem| match problem.start() {
        Some(at) => format!("{}:{}: {}", at.line, at.column, problem.message),
        None => problem.message,
    };
    problems.into_iter().map(shown).collect()
}

#[test]
fn only_a_hook_of_the_users_that_says_so_leaves_the_sandbox() {
    let leaves = |source, roo: Value| {
        let hook = json!({ "type": "command", "command": "x", "roo": roo });
        let text = json!({ "hooks": { "Stop": [{ "hooks": [hook] }] } }).to_string();
        let file = HookFile::parse(&text, Form::Hooks, source).unwrap();
        (file.hooks[0].is_unconfined, file.problems.len())
    };
    assert_eq!(leaves(Source::User, json!({ "sandbox": false })), (true, 0));
    for roo in [json!({ "sandbox": true }), json!({ "sandbox": null }), json!({}), Value::Null] {
        assert_eq!(leaves(Source::User, roo.clone()), (false, 0), "{roo}");
        assert_eq!(leaves(Source::Workspace, roo.clone()), (false, 0), "{roo}");
    }
    assert_eq!(leaves(Source::Workspace, json!({ "sandbox": false })), (false, 1));
}

#[test]
fn a_file_of_the_contract_is_read() {
    let text = r#"{
  "description": "ours",
  "hooks": {
    "PreToolUse": [
      { "matcher": "Edit|Write", "hooks": [
        { "type": "command", "command": "a.sh", "timeout": 5, "if": "Edit(*.ts)", "statusMessage": "…" },
        { "type": "command", "command": "node", "args": ["b.js", "it's"], "roo": { "failClosed": true } } ] }
    ],
    "Stop": [{ "hooks": [{ "type": "command", "command": "c.sh", "shell": "bash", "once": true }] }]
  }
}"#;
    let file = parse(text);
    assert_eq!(file.problems, []);
    let shown: Vec<String> = file.hooks.iter().map(Hook::shown).collect();
    assert_eq!(
        shown,
        [
            "PreToolUse (Edit|Write) if Edit(*.ts): a.sh",
            "PreToolUse (Edit|Write): node b.js \"it's\"",
            "Stop: c.sh"
        ]
    );
    assert_eq!(file.hooks[0].timeout, Duration::from_secs(5));
    assert_eq!((file.hooks[0].fail_closed, file.hooks[1].fail_closed), (false, true));
    assert_eq!(file.hooks[1].position, HookPosition { group: 0, hook: 1 });
}

#[test]
fn nothing_is_no_problem() {
    for text in [
        "",
        " \n",
        "\u{feff}",
        "null",
        r#"{"hooks": {}}"#,
        r#"{"hooks": null}"#,
        r#"{"hooks": {"Stop": []}}"#,
    ] {
        let file = parse(text);
        assert!(file.hooks.is_empty() && file.problems.is_empty(), "{text}");
    }
}

#[test]
fn a_text_that_is_no_hooks_file_says_where() {
    for (text, expected) in [
        ("{\n  \"hooks\": {,}\n}", "2:13: invalid JSON: key must be a string"),
        ("hooks: {}\n", "1:1: invalid JSON: expected value"),
        ("{\n}", "1:1: `hooks` is missing"),
        ("[]", "1:1: expected an object with `hooks`"),
        ("{\"hooks\": []}", "1:11: `hooks` must be an object"),
        ("{\n \"hooks\": {},\n \"hooks\": {}\n}", "3:2: duplicate key 'hooks'"),
        ("{\"hooks\": {\"Stop\": [],\n\"Stop\": []}}", "2:1: duplicate key 'Stop'"),
    ] {
        let found = problems(text);
        assert!(
            found.len() == 1 && found[0].contains(expected.split_once(": ").unwrap().1),
            "{text}: {found:?}"
        );
        assert!(found[0].starts_with(expected.split_once(": ").unwrap().0), "{text}: {found:?}");
    }
}

#[test]
fn limits_hold() {
    assert!(problems(&" ".repeat(FILE_LIMIT + 1))[0].contains("more than 262144 bytes"));
    let deep = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
    assert!(problems(&deep)[0].contains("recursion limit") || problems(&deep)[0].contains("deeper"));
    let many = json!({ "hooks": { "Stop": [{ "hooks": vec![command(); 501] }] } }).to_string();
    let file = parse(&many);
    assert_eq!((file.hooks.len(), file.problems.len()), (500, 1));
    let long = one("Stop", Value::Null, json!({ "type": "command", "command": "x".repeat(20_000) }));
    assert!(problems(&long)[0].contains("put it in a script"));
    let wrong = json!({ "hooks": { "Stop": [{ "hooks": vec![json!(1); 100] }] } }).to_string();
    assert_eq!(problems(&wrong).len(), 21);
}

#[test]
fn what_is_wrong_with_a_hook_leaves_it_out() {
    for (hook, expected) in [
        (json!(1), "expected a hook"),
        (json!({}), "`type` is missing"),
        (json!({ "type": 1 }), "`type` must be `command`"),
        (json!({ "type": "shell", "command": "x" }), "`type` must be `command`"),
        (json!({ "type": "http", "url": "http://x" }), "hooks of the type 'http' are not supported"),
        (json!({ "type": "prompt", "prompt": "x" }), "hooks of the type 'prompt' are not supported"),
        (json!({ "type": "command" }), "`command` is missing"),
        (json!({ "type": "command", "command": " " }), "`command` must not be empty"),
        (json!({ "type": "command", "command": ["x"] }), "`command` must be a string"),
        (json!({ "type": "command", "command": "a\u{0}b" }), "the command contains a NUL"),
        (json!({ "type": "command", "command": "a\u{202e}b" }), "invisible characters"),
        (json!({ "type": "command", "command": "x", "args": "y" }), "`args` must be a list"),
        (json!({ "type": "command", "command": "x", "timeout": "5" }), "`timeout` must be a number"),
        (json!({ "type": "command", "command": "x", "timeout": 0 }), "`timeout` must be a number"),
        (json!({ "type": "command", "command": "x", "timeout": 1e9 }), "`timeout` must be a number"),
        (json!({ "type": "command", "command": "x", "if": "Bash(x)" }), "`if` applies to tools"),
        (
            json!({ "type": "command", "command": "x", "shell": "powershell" }),
            "the only supported shell is `bash`",
        ),
        (json!({ "type": "command", "command": "x", "async": 1 }), "`async` must be true or false"),
        (json!({ "type": "command", "command": "x", "roo": true }), "`roo` must be an object"),
        (
            json!({ "type": "command", "command": "x", "roo": { "failClosed": 1 } }),
            "`roo.failClosed` must be",
        ),
        (json!({ "type": "command", "command": "x", "roo": { "sandbox": 0 } }), "`roo.sandbox` must be"),
    ] {
        let file = parse(&one("Stop", Value::Null, hook.clone()));
        assert!(file.hooks.is_empty(), "{hook}");
        let problem = &file.problems[0];
        assert_eq!(problem.severity, Severity::Error, "{hook}");
        assert!(problem.message.contains(expected) && problem.start().is_some(), "{hook}: {problem:?}");
    }
}

#[test]
fn events_and_matchers_are_checked() {
    let check = |event: &str, matcher: Value, hooks: usize, expected: &str| {
        let file = parse(&one(event, matcher.clone(), command()));
        assert_eq!(file.hooks.len(), hooks, "{event} {matcher}");
        let found = file.problems.first().map(|problem| problem.message.as_str()).unwrap_or_default();
        assert!(found.contains(expected), "{event} {matcher}: {found}");
        assert_eq!(found.is_empty(), expected.is_empty(), "{event} {matcher}: {found}");
    };
    check("pretooluse", Value::Null, 0, "did you mean `PreToolUse`?");
    check("Before", Value::Null, 0, "there is no event 'Before'");
    check("WorktreeCreate", Value::Null, 0, "is not supported");
    check("PreToolUse", json!(1), 0, "`matcher` must be a string");
    check("PreToolUse", json!("("), 0, "is invalid, so its hooks never run");
    check("PreToolUse", json!("Ba\u{200b}sh"), 0, "invisible characters");
    check("PreToolUse", json!("Bash|write_to_file|mcp__a__b|mcp__.*"), 1, "");
    check("PreToolUse", json!("Bsh"), 1, "there is no tool 'Bsh'");
    check("PreToolUse", json!("WebFetch"), 1, "is not supported");
    check("PreToolUse", json!("mcp__memory"), 1, "`mcp__memory__.*` matches all tools of that server");
    check("PreToolUse", json!("Bash(git *)"), 1, "a rule such as `Bash(git *)` goes into the hook's `if`");
    check("PreToolUse", json!("^create_"), 1, "matches no built-in tool");
    check("PreToolUse", json!("^(?!Bash$)"), 1, "");
    check("PreToolUse", json!("(Multi)?Edit"), 1, "");
    check("SessionStart", json!("startup|resume"), 1, "");
    check("SessionStart", json!("start"), 1, "'start' never occurs for this event");
    check("SubagentStop", json!("code"), 1, "");
    check("Stop", json!("Bash"), 1, "Stop has no matcher");
    check("Stop", json!("^x"), 1, "Stop has no matcher");
    check("Stop", json!("*"), 1, "");
}

#[test]
fn a_condition_that_fits_no_tool_is_told() {
    let told = |condition: &str| {
        let hook = json!({ "type": "command", "command": "x", "if": condition });
        let file = parse(&one("PreToolUse", Value::Null, hook));
        assert_eq!(file.hooks.len(), 1);
        file.problems.iter().map(|problem| problem.message.clone()).collect::<Vec<_>>().join("; ")
    };
    for fits in
        ["Bash", "Bash(git *)", "Edit(src/**)", "write_to_file", "mcp__github", "mcp__github__*", "Bash(x"]
    {
        assert_eq!(told(fits), "", "{fits}");
    }
    let never = "so the hook never runs";
    assert_eq!(told("bash(git *)"), format!("there is no tool 'bash', {never}; did you mean `Bash`?"));
    assert_eq!(told("Deploy"), format!("there is no tool 'Deploy', {never}"));
    assert_eq!(told("WebFetch(x)"), format!("the tool 'WebFetch' is not supported, {never}"));
}

#[test]
fn other_keys_mean_nothing_and_loosen_nothing() {
    let text = r#"{ "autoApprove": { "execute": true }, "hooks": { "Stop": [
        { "hoks": 1, "hooks": [{ "type": "command", "command": "x", "tiemout": 1, "roo": { "allow": true } }] } ] } }"#;
    let file = parse(text);
    assert_eq!(file.hooks.len(), 1);
    let found: Vec<&str> = file.problems.iter().map(|problem| problem.message.as_str()).collect();
    let expected = [
        "unknown key `autoApprove`, ignored",
        "unknown key `hoks`, ignored; did you mean `hooks`?",
        "unknown key `tiemout`, ignored; did you mean `timeout`?",
        "unknown key `allow`, ignored",
    ];
    assert_eq!(found, expected);
    let settings = HookFile::parse(r#"{ "model": "x" }"#, Form::Settings, Source::User).unwrap();
    assert!(settings.hooks.is_empty() && settings.problems.is_empty());
}

#[test]
fn what_else_is_in_the_settings_of_another_program_is_its_own_affair() {
    let settings = |text: &str| HookFile::parse(text, Form::Settings, Source::User);
    let text = r#"{ "description": 3, "disableAllHooks": "no", "$schema": [], "hooks": { "Stop": [
        { "hooks": [{ "type": "command", "command": "x" }] } ] } }"#;
    let file = settings(text).unwrap();
    assert_eq!((file.hooks.len(), file.problems), (1, vec![]));
    assert_eq!(parse(text).problems.len(), 3);
    assert!(settings(r#"{ "hooks": null }"#).unwrap().hooks.is_empty());
    let problem = settings(r#"{ "hooks": [] }"#).unwrap_err();
    assert!(problem.message.starts_with("`hooks` must be an object"), "{problem}");
}

#[test]
fn all_hooks_of_a_file_can_be_turned_off() {
    let text = r#"{ "disableAllHooks": true, "hooks": { "Stop": [{ "hooks": [{ "type": "command", "command": "x" }] }] } }"#;
    let file = parse(text);
    assert!(file.hooks.is_empty());
    assert_eq!(file.problems[0].severity, Severity::Warning);
    assert!(problems(&text.replace("true", "1"))[0].contains("must be true or false"));
}

#[test]
fn a_hook_has_the_time_of_its_event() {
    for (event, given, expected) in [
        ("PreToolUse", Value::Null, 600.0),
        ("UserPromptSubmit", Value::Null, 30.0),
        ("SessionEnd", Value::Null, 1.5),
        ("SessionEnd", json!(300), 60.0),
        ("Stop", json!(0.5), 0.5),
    ] {
        let hook = json!({ "type": "command", "command": "x", "timeout": given });
        let file = parse(&one(event, Value::Null, hook));
        assert_eq!(file.hooks[0].timeout.as_secs_f64(), expected, "{event}");
    }
}

proptest! {
    #[test]
    fn no_text_is_too_strange(text in r#"(\{"hooks":)?[{}\[\]":,a-cPreToolUse01é\\ \n\t]{0,80}"#) {
        let _ = HookFile::parse(&text, Form::Hooks, Source::User);
        let _ = HookFile::parse(&text, Form::Settings, Source::Workspace);
    }

    #[test]
    fn every_json_is_understood_as_it_is(command in "\\PC{1,30}", matcher in "[A-Za-z|]{0,12}", tabs: bool) {
        let value = json!({ "hooks": { "PreToolUse": [
            { "matcher": matcher, "hooks": [{ "type": "command", "command": command }] } ] } });
        let mut text = serde_json::to_string_pretty(&value).unwrap();
        if tabs {
            text = text.replace("  ", "\t");
        }
        // What is cut by replacing blanks inside of the command is another text.
        let given: Value = serde_json::from_str(&text).unwrap_or(value);
        let given = given["hooks"]["PreToolUse"][0]["hooks"][0]["command"].as_str().unwrap_or_default().to_owned();
        if let Ok(file) = HookFile::parse(&text, Form::Hooks, Source::User)
            && let Some(hook) = file.hooks.first()
        {
            prop_assert_eq!(&hook.program, &Program::Line(given));
        }
    }
}
