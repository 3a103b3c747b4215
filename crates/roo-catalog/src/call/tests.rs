//! The shapes in which models write calls, current and legacy.

use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;
use crate::tools::*;
use roo_protocol::task::TodoStatus;
use roo_text::edit::{Occurrences, Replacement};
use roo_text::lines::LineRange;

fn read(tool: &str, params: &Value) -> Result<Invocation, InvalidCall> {
    parse(&ToolCall {
        id: ToolCallId::new("call"),
        name: tool.to_owned(),
        params: params.as_object().unwrap().clone(),
        problem: None,
        note: None,
    })
}

/// Returns the message about a call that can't be used.
fn refusal(tool: &str, params: &Value) -> String {
    match read(tool, params) {
        Ok(invocation) => panic!("{params} was read as {invocation:?}"),
        Err(error) => error.to_string(),
    }
}

/// The files of a `read_file` call, as `path start-end start-end`.
fn files(params: &Value) -> Vec<String> {
    let Ok(Invocation::ReadFile(ReadFile { files })) = read("read_file", params) else {
        panic!("{params} was not read")
    };
    let range = |range: LineRange| match range.end {
        usize::MAX => format!(" {}-", range.start),
        end => format!(" {}-{end}", range.start),
    };
    files
        .into_iter()
        .map(|file| file.path + &file.ranges.into_iter().map(range).collect::<String>())
        .collect()
}

#[test]
fn files_to_read_come_in_many_shapes() {
    let cases: &[(Value, &[&str])] = &[
        (json!({"args": "<file><path>a</path></file>"}), &["a"]),
        (
            json!({"args": "<file>\n<path> a&amp;b </path>\n<line_range>1-80</line_range>\n<line_range> 90 - 99 </line_range>\n</file>\n\
                            <file><path>c && d</path></file>"}),
            &["a&b 1-80 90-99", "c && d"],
        ),
        (json!({"args": "<file><path><![CDATA[a && b]]></path></file>"}), &["a && b"]),
        (json!({"args": [{"path": "a"}, "b"]}), &["a", "b"]),
        (json!({"args": {"file": [{"path": "a"}, {"path": "b"}]}}), &["a", "b"]),
        (json!({"args": {"file": {"path": "a"}}}), &["a"]),
        (json!({"args": {"path": "a"}}), &["a"]),
        (json!({"files": [{"path": " a "}]}), &["a"]),
        (json!({"files": r#"[{"path": "a", "line_ranges": ["1-2"]}, "b"]"#}), &["a 1-2", "b"]),
        (json!({"args": null, "files": ["a"]}), &["a"]),
        (json!({"args": "<path>a</path>"}), &["a"]),
        (json!({"args": "<path>a</path><line_range>3-4</line_range>\n<path>b</path>"}), &["a 3-4", "b"]),
        (json!({"args": "<file><path>a</path><path>b</path></file>"}), &["a", "b"]),
        (json!({"args": r#"[{"path": "a"}]"#}), &["a"]),
        (json!({"files": "<file><path>a</path></file>"}), &["a"]),
        (json!({"files": [{"file_path": "a"}]}), &["a"]),
        (json!({"file_path": " a "}), &["a"]),
        (json!({"path": " a "}), &["a"]),
    ];
    for (params, expected) in cases {
        assert_eq!(files(params), *expected, "{params}");
    }
}

#[test]
fn ranges_come_in_many_shapes() {
    let ranges = |ranges: Value| json!({"files": [{"path": "a", "line_ranges": ranges}]});
    for (params, expected) in [
        (ranges(json!(["1-2", " 4 - 5 "])), "a 1-2 4-5"),
        (ranges(json!([[1, 2], [4, 5]])), "a 1-2 4-5"),
        (ranges(json!([{"start": 1, "end": 2}])), "a 1-2"),
        (ranges(json!([1, 2])), "a 1-2"),
        (ranges(json!("1-2")), "a 1-2"),
        (ranges(json!(null)), "a"),
        (ranges(json!(["4999", "5000"])), "a 4999-5000"),
        (ranges(json!([4999, -1])), "a 4999-"),
        (ranges(json!([[1, 2], ["7", "-1"], "9-", 12, "20"])), "a 1-2 7- 9- 12-12 20-20"),
        (ranges(json!("4999")), "a 4999-4999"),
        (ranges(json!(4999)), "a 4999-4999"),
        (ranges(json!("4999-")), "a 4999-"),
        (ranges(json!("1-2, 4-5")), "a 1-2 4-5"),
        (ranges(json!("[[1, 2], [4, 5]]")), "a 1-2 4-5"),
        (ranges(json!([[1.0, 2.0]])), "a 1-2"),
        (json!({"files": [{"path": "a", "line_range": "3-3"}]}), "a 3-3"),
        (json!({"files": [{"path": "a", "offset": 4999, "limit": 2}]}), "a 4999-5000"),
        (json!({"files": [{"path": "a", "start_line": 3, "end_line": "9"}]}), "a 3-9"),
        (json!({"files": [{"path": "a", "line_ranges": [], "start_line": 3, "end_line": -1}]}), "a 3-"),
        (
            json!({"args": "<file><path>a</path><start_line>3</start_line><end_line>9</end_line></file>"}),
            "a 3-9",
        ),
        (json!({"args": "<file><path>a</path><offset>3</offset><limit>2</limit></file>"}), "a 3-4"),
        (json!({"args": "<file><path>a</path><line_range>7</line_range></file>"}), "a 7-7"),
        (json!({"path": "a", "line_range": "3-9"}), "a 3-9"),
        (json!({"path": "a", "start_line": "3", "end_line": 9}), "a 3-9"),
        (json!({"path": "a", "start_line": 3}), "a 3-"),
        (json!({"path": "a", "end_line": 9}), "a 1-9"),
        (json!({"path": "a", "start_line": " ", "end_line": ""}), "a"),
        (json!({"path": "a", "offset": "11", "limit": "5"}), "a 11-15"),
        (json!({"path": "a", "offset": 11}), "a 11-"),
        (json!({"path": "a", "limit": 5}), "a 1-5"),
        (json!({"path": "a", "offset": 11, "limit": 0}), "a 11-11"),
        (json!({"path": "a", "offset": 2, "limit": usize::MAX}), &format!("a 2-{}", usize::MAX - 1)),
    ] {
        assert_eq!(files(&params), [expected], "{params}");
    }
}

#[test]
fn files_that_can_not_be_read_as_such_are_named() {
    let lacks = "no file is named. A function call names them in `files`, a call in tags in <args>";
    for (params, problem) in [
        (json!({}), lacks),
        (json!({"args": ""}), lacks),
        (json!({"files": []}), lacks),
        (json!({"path": "  "}), lacks),
        (json!({"args": "<file><line_range>1-2</line_range></file>"}), "a <file> without a <path>"),
        (json!({"files": [{"line_ranges": []}]}), "a file without a path"),
        (json!({"files": 7}), "expected a list of files"),
        (json!({"files": "a.rs"}), "neither tags nor a JSON list"),
        (json!({"args": "<file><path>a</path><line_range>x</line_range></file>"}), "got 'x'"),
        (json!({"args": "<file><path>a</path><line_range>-5</line_range></file>"}), "got '-5'"),
        (json!({"files": [{"path": "a", "start_line": 9, "end_line": 3}]}), "ends before it begins"),
        (json!({"files": [{"path": "a", "line_ranges": [[1, 2, 3]]}]}), "expected [start, end], got [1,2,3]"),
        (json!({"files": [{"path": "a", "line_ranges": [{"start": 1}]}]}), "expected [start, end]"),
        (json!({"files": [{"path": "a", "line_ranges": [[5, 2]]}]}), "the range 5-2 ends before it begins"),
        (json!({"path": "a", "start_line": 0}), "lines are counted from 1"),
        (json!({"path": "a", "start_line": "-3"}), "expected a whole number from 0"),
        (json!({"path": "a", "start_line": [3]}), "expected a whole number from 0"),
    ] {
        let refusal = refusal("read_file", &params);
        assert!(refusal.contains(problem), "{params}: {refusal}");
    }
}

#[test]
fn a_fence_around_a_whole_file_is_dropped() {
    for (sent, content) in [
        ("```rust\nfn main() {}\n```", "fn main() {}\n"),
        ("```\na\n```\n", "a\n"),
        ("```\n```", ""),
        ("  a\n", "  a\n"),
        // These are Markdown.
        ("```\na\n```\nb\n```\nc\n```", "```\na\n```\nb\n```\nc\n```"),
        ("```\na\n```\nb\n", "```\na\n```\nb\n"),
        ("```", "```"),
    ] {
        let Ok(Invocation::WriteToFile(write)) =
            read("write_to_file", &json!({"path": "a", "content": sent}))
        else {
            panic!("{sent:?} was not read")
        };
        assert_eq!(write.content, content, "{sent:?}");
    }
}

#[test]
fn a_diff_may_be_nested() {
    let diff = |params: &Value| match read("apply_diff", params) {
        Ok(Invocation::ApplyDiff(ApplyDiff { path, diff })) => (path, diff),
        other => panic!("{params} was read as {other:?}"),
    };
    let block = "<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE";
    let numbered = "<<<<<<< SEARCH\n:start_line:7\n-------\na\n=======\nb\n>>>>>>> REPLACE\n";
    let nested = |diff: &str| json!({"args": format!("<file>\n<path>x&lt;y</path>\n{diff}\n</file>")});
    let path = "x<y".to_owned();

    assert_eq!(diff(&json!({"path": " x ", "diff": block})), ("x".to_owned(), block.to_owned()));
    for (sent, expected) in [
        (format!("<diff>\n<content>\n{block}\n</content>\n</diff>"), format!("{block}\n")),
        (format!("<diff><content><![CDATA[{block}]]></content></diff>"), format!("{block}\n")),
        (format!("<diff>\n<![CDATA[\n{block}\n]]>\n</diff>"), format!("{block}\n")),
        (format!("<diff>{block}</diff>"), format!("{block}\n")),
        (
            format!("<diff><content>{block}</content>\n<start_line> 7 </start_line></diff>"),
            numbered.to_owned(),
        ),
        // The block's own line wins.
        (
            format!("<diff><content>{numbered}</content><start_line>9</start_line></diff>"),
            numbered.to_owned(),
        ),
        (
            format!("<diff><content>{block}</content></diff><diff>{block}</diff>"),
            format!("{block}\n{block}\n"),
        ),
    ] {
        assert_eq!(diff(&nested(&sent)), (path.clone(), expected), "{sent}");
    }
    for (params, problem) in [
        (nested(""), "lacks the parameter 'diff'"),
        (json!({"args": "<file><diff>x</diff></file>"}), "lacks the parameter 'path'"),
        (json!({"args": "<file></file><file></file>"}), "exactly one <file>"),
        (json!({"args": [1]}), "expected text"),
        (json!({"diff": "x"}), "lacks the parameter 'path'"),
    ] {
        let refusal = refusal("apply_diff", &params);
        assert!(refusal.contains(problem), "{params}: {refusal}");
    }
}

#[test]
fn replacing_goes_by_several_names() {
    let plain = Replacement {
        search: " x".to_owned(),
        replace: String::new(),
        range: None,
        use_regex: false,
        ignore_case: false,
        occurrences: Occurrences::All,
    };
    let once = Replacement { occurrences: Occurrences::One, ..plain.clone() };
    for (tool, params, expected) in [
        ("search_and_replace", json!({"path": "a", "search": " x", "replace": ""}), plain.clone()),
        (
            "search_and_replace",
            json!({"path": "a", "search": " x", "replace": "", "use_regex": "TRUE", "ignore_case": true,
                   "start_line": "2", "end_line": ""}),
            Replacement {
                use_regex: true,
                ignore_case: true,
                range: Some(LineRange { start: 2, end: usize::MAX }),
                ..plain.clone()
            },
        ),
        ("edit", json!({"file_path": "a", "old_string": " x", "new_string": ""}), once.clone()),
        ("search_replace", json!({"path": "a", "old_string": " x", "new_string": ""}), once),
        (
            "edit",
            json!({"file_path": "a", "old_string": " x", "new_string": "", "replace_all": "true"}),
            plain,
        ),
    ] {
        let expected = SearchAndReplace { path: "a".to_owned(), replacements: vec![expected] };
        assert_eq!(read(tool, &params), Ok(Invocation::SearchAndReplace(expected)), "{params}");
    }
    let empty = refusal("search_and_replace", &json!({"path": "a", "search": "", "replace": "b"}));
    assert!(empty.contains("it is empty"), "{empty}");
}

#[test]
fn suggestions_come_as_elements_or_as_json() {
    let suggestions = |follow_up: Value| {
        let params = json!({"question": "Which?", "follow_up": follow_up});
        match read("ask_followup_question", &params) {
            Ok(Invocation::AskFollowupQuestion(ask)) => {
                ask.suggestions.into_iter().map(|s| (s.text, s.mode.unwrap_or_default())).collect::<Vec<_>>()
            }
            other => panic!("{params} was read as {other:?}"),
        }
    };
    let pair = |text: &str, mode: &str| (text.to_owned(), mode.to_owned());
    for (sent, expected) in [
        (
            json!("<suggest>a &lt; b</suggest>\n<suggest mode=\"code\"> c </suggest>\n<suggest></suggest>"),
            vec![pair("a < b", ""), pair("c", "code")],
        ),
        (json!("<suggest mode=''>a</suggest>"), vec![pair("a", "")]),
        (
            json!(["a", {"text": "b", "mode": "ask"}, {"answer": "c", "mode": ""}]),
            vec![pair("a", ""), pair("b", "ask"), pair("c", "")],
        ),
        (json!(r#"[{"text": "a", "mode": null}]"#), vec![pair("a", "")]),
        (json!(""), vec![]),
        (json!([]), vec![]),
    ] {
        assert_eq!(suggestions(sent.clone()), expected, "{sent}");
    }
    for (sent, problem) in [
        (json!(null), "lacks the parameter 'follow_up'"),
        (json!("yes or no"), "expected <suggest>"),
        (json!("<suggest>a"), "without </suggest>"),
        (json!([{"mode": "code"}]), "a suggestion without text"),
        (json!({"text": "a"}), "expected a list of suggestions"),
    ] {
        let refusal = refusal("ask_followup_question", &json!({"question": "Which?", "follow_up": sent}));
        assert!(refusal.contains(problem), "{sent}: {refusal}");
    }
}

#[test]
fn a_checklist_is_read_line_by_line() {
    let text = "Plan:\n- [x] one\n  [ ] two\n-[-] three\n[~] four\n[X] five\n[] six\n* [ ] seven\n+ [✓] eight\n\
         1. [ ] nine\n  10) [x] ten\n\n[?] no mark\n- no entry\n[ ]";
    let Ok(Invocation::UpdateTodoList(list)) = read("update_todo_list", &json!({"todos": text})) else {
        panic!("not read")
    };
    let entries: Vec<_> = list.items.iter().map(|(content, status)| (content.as_str(), *status)).collect();
    assert_eq!(
        entries,
        [
            ("one", TodoStatus::Completed),
            ("two", TodoStatus::Pending),
            ("three", TodoStatus::InProgress),
            ("four", TodoStatus::InProgress),
            ("five", TodoStatus::Completed),
            ("six", TodoStatus::Pending),
            ("seven", TodoStatus::Pending),
            ("eight", TodoStatus::Completed),
            ("nine", TodoStatus::Pending),
            ("ten", TodoStatus::Completed),
        ]
    );
    assert_eq!(list.left_out, ["Plan:", "[?] no mark", "- no entry", "[ ]"]);
}

#[test]
fn a_checklist_may_be_a_list_of_objects() {
    let objects = json!([
        { "content": " one ", "status": "completed", "activeForm": "x" },
        { "content": "two", "status": "in_progress" },
        { "content": "three" },
        "[x] four",
        "five",
    ]);
    for todos in [objects.clone(), json!(objects.to_string())] {
        let Ok(Invocation::UpdateTodoList(list)) = read("update_todo_list", &json!({ "todos": todos }))
        else {
            panic!("not read: {todos}")
        };
        let expected = [
            ("one", TodoStatus::Completed),
            ("two", TodoStatus::InProgress),
            ("three", TodoStatus::Pending),
            ("four", TodoStatus::Completed),
            ("five", TodoStatus::Pending),
        ];
        assert_eq!(list.items, expected.map(|(content, status)| (content.to_owned(), status)));
    }
}

#[test]
fn a_checklist_without_an_entry_replaces_nothing() {
    for (todos, problem) in [
        (json!("nothing here"), "it has no entry"),
        (json!([]), "it has no entry"),
        (json!("[]"), "it has no entry"),
        (json!(" "), "lacks the parameter 'todos'"),
        (json!(7), "expected a list, got a number"),
        (json!([{ "content": "a", "status": "later" }]), "pending, in_progress or completed"),
        (json!([{ "status": "pending" }]), "expected entries with `content`"),
    ] {
        let refusal = refusal("update_todo_list", &json!({ "todos": todos }));
        assert!(refusal.contains(problem), "{todos}: {refusal}");
    }
    let subtask = json!({ "mode": "code", "message": "m", "todos": "nothing here" });
    assert!(refusal("new_task", &subtask).contains("it has no entry"));
}

#[test]
fn a_failure_may_give_its_reason_as_a_result() {
    for params in [json!({"reason": " no key "}), json!({"result": "no key"})] {
        let reason = "no key".to_owned();
        assert_eq!(
            read("complete_with_failure", &params),
            Ok(Invocation::CompleteWithFailure(CompleteWithFailure { reason })),
            "{params}"
        );
    }
    assert!(refusal("complete_with_failure", &json!({})).contains("lacks the parameter 'reason'"));
}

#[test]
fn values_are_read_by_their_kind() {
    let listing = |recursive: Value| read("list_files", &json!({"path": "a", "recursive": recursive}));
    for (sent, recursive) in [
        (json!(true), true),
        (json!(" True "), true),
        (json!("false"), false),
        (json!(""), false),
        (json!(null), false),
    ] {
        let path = "a".to_owned();
        assert_eq!(
            listing(sent.clone()),
            Ok(Invocation::ListFiles(ListFiles { path, recursive, offset: 0 })),
            "{sent}"
        );
    }
    for sent in [json!("yes"), json!(1)] {
        assert!(listing(sent.clone()).is_err(), "{sent}");
    }

    let timeout = |sent: Value| match read("execute_command", &json!({"command": "ls", "timeout": sent})) {
        Ok(Invocation::ExecuteCommand(execute)) => Some(execute.timeout),
        _ => None,
    };
    for (sent, expected) in [
        (json!("90"), Some(Some(90))),
        (json!(90), Some(Some(90))),
        (json!(0), Some(None)),
        (json!(null), Some(None)),
        (json!(90.0), Some(Some(90))),
        (json!(1.5), None),
        (json!(-1.0), None),
        (json!(1e300), None),
        (json!(-1), None),
        (json!("soon"), None),
    ] {
        assert_eq!(timeout(sent.clone()), expected, "{sent}");
    }

    assert!(refusal("list_files", &json!({"path": 7})).contains("expected text, got a number"));
    assert!(refusal("insert_content", &json!({"path": "a", "content": "b"})).contains("'line'"));
}

#[test]
fn what_is_no_call_of_a_tool_says_why() {
    assert_eq!(
        refusal("fly", &json!({})),
        "There is no tool named 'fly'. Use one of the tools described in your instructions."
    );
    let broken = ToolCall {
        id: ToolCallId::new("call"),
        name: "write_file".to_owned(),
        params: Map::new(),
        problem: Some("it ends in the middle".to_owned()),
        note: None,
    };
    assert_eq!(
        parse(&broken).unwrap_err().to_string(),
        "The call of write_file could not be read: it ends in the middle. Make the call again."
    );
}
