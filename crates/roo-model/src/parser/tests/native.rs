//! Native calls.

use pretty_assertions::assert_eq;

use super::*;
use roo_text::work;

fn start(index: u32, id: &str, name: &str) -> StreamEvent {
    StreamEvent::CallStart { index, id: id.to_owned(), name: name.to_owned() }
}

fn arguments(index: u32, text: &str) -> StreamEvent {
    StreamEvent::CallArguments { index, text: text.to_owned() }
}

fn end(index: u32) -> StreamEvent {
    StreamEvent::CallEnd { index }
}

fn call(id: &str, name: &str, params: Value) -> Block {
    Block::Call {
        id: Some(id.to_owned()),
        name: name.to_owned(),
        params: object(params),
        fenced: false,
        problem: None,
    }
}

fn read(events: Vec<StreamEvent>) -> Vec<Block> {
    let out = updates(ToolProtocol::Native, events, true);
    assert_shown_is_closed(&out);
    closed(out)
}

/// Returns the problem of a call with these arguments.
fn problem(json: &str) -> Option<String> {
    match read(vec![start(0, "1", "t"), arguments(0, json), end(0)]).remove(0) {
        Block::Call { problem, .. } => problem,
        other => panic!("{other:?}"),
    }
}

#[test]
fn text_values_are_shown_while_they_stream() {
    let events = [
        start(0, "1", "write_to_file"),
        arguments(0, "{\"pa"),
        arguments(0, "th\": \"a\\"),
        arguments(0, "nb\", \"n\": [\"x\", {\"path\": \"}\"}], \"content\":\"\\ud8"),
        arguments(0, "3d\\ude"),
        arguments(0, "00!\\\"\"}"),
        end(0),
    ];
    let delta = |parameter: &str, text: &str| Update::ParameterDelta {
        parameter: parameter.into(),
        text: text.to_owned(),
    };
    let params = json!({ "path": "a\nb", "n": ["x", { "path": "}" }], "content": "😀!\"" });
    assert_eq!(
        updates(ToolProtocol::Native, events.to_vec(), true),
        [
            Update::CallBegun { name: "write_to_file".to_owned() },
            delta("path", "a"),
            delta("path", "\nb"),
            delta("content", "😀!\""),
            Update::Closed(call("1", "write_to_file", params)),
        ]
    );
}

#[test]
fn half_a_surrogate_pair_is_shown_as_a_replacement() {
    for (json, expected) in [
        (r#"{"a":"\ud83dx"#, "\u{fffd}x"),
        (r#"{"a":"\ud83d\n"#, "\u{fffd}\n"),
        (r#"{"a":"\ud83d\ud83d\ude00"#, "\u{fffd}😀"),
        (r#"{"a":"\ude00\u00e9"#, "\u{fffd}é"),
        (r#"{"a":"\ud83d""#, "\u{fffd}"),
    ] {
        let out = updates(ToolProtocol::Native, vec![start(0, "1", "t"), arguments(0, json)], false);
        let delta = Update::ParameterDelta { parameter: "a".into(), text: expected.to_owned() };
        assert_eq!(out, [Update::CallBegun { name: "t".to_owned() }, delta], "{json}");
    }
}

#[test]
fn values_keep_their_types() {
    let json = r#"{"a": 1.5e3, "b": true, "c": null, "d": [1, [2]], "e": {"f": "g"}, "h": ""}"#;
    assert_eq!(
        read(vec![start(0, "1", "t"), arguments(0, json), end(0)]),
        [call("1", "t", serde_json::from_str(json).unwrap())]
    );
}

#[test]
fn no_arguments_are_an_empty_object() {
    assert_eq!(read(vec![start(0, "1", "t"), end(0)]), [call("1", "t", json!({}))]);
    assert_eq!(read(vec![start(0, "1", "t"), arguments(0, " \n"), end(0)]), [call("1", "t", json!({}))]);
}

#[test]
fn what_can_not_be_read_is_a_problem_that_says_where() {
    for (json, expected) in [
        ("[1]", "the arguments are not a JSON object"),
        ("null", "the arguments are not a JSON object"),
        ("{\"path\": \"a", "the answer ended inside the parameter 'path'"),
        ("{\"path\": [1", "the answer ended inside the parameter 'path'"),
        ("{\"path\": \"a\"", "the answer ended inside the arguments"),
    ] {
        assert_eq!(problem(json).as_deref(), Some(expected));
    }
    for (json, place) in [
        ("{\"a\": 1,}", "line 1 column 9"),
        ("{\"a\":\n x}", "line 2 column 2"),
        ("{} {}", "line 1 column 4"),
        ("{\"a\": \"\\ud83d\"}", "line 1 column"),
        ("{\"a\": \"\\x\"}", "line 1 column"),
        ("<path>", "line 1 column 1"),
    ] {
        let problem = problem(json).unwrap();
        assert!(
            problem.starts_with("the arguments are not valid JSON: ") && problem.contains(place),
            "{problem}"
        );
    }
    assert!(problem(&"[".repeat(100_000)).is_some());
    assert!(problem(&"{\"a\":".repeat(100_000)).is_some());
}

#[test]
fn a_parameter_that_comes_twice_is_a_problem() {
    for json in [
        r#"{"path":"a","path":"b"}"#,
        r#"{"path":"a","p\u0061th":"a"}"#,
        r#"{"path":null,"x":[{"path":1}],"path":{}}"#,
    ] {
        assert_eq!(
            problem(json).as_deref(),
            Some("a parameter comes twice; give each of them once"),
            "{json}"
        );
    }
    assert_eq!(problem(r#"{"path":"a","x":{"path":"b"}}"#), None);
}

#[test]
fn interleaved_calls_are_told_one_after_the_other() {
    let out = updates(
        ToolProtocol::Native,
        vec![
            start(0, "1", "a"),
            start(1, "2", "b"),
            arguments(1, "{\"x\":\"b"),
            arguments(0, "{\"x\":\"a"),
            arguments(1, "b\"}"),
            end(1),
            arguments(0, "a\"}"),
            end(0),
        ],
        true,
    );
    let delta = |text: &str| Update::ParameterDelta { parameter: "x".into(), text: text.to_owned() };
    assert_eq!(
        merged(out),
        [
            Update::CallBegun { name: "a".to_owned() },
            delta("aa"),
            Update::Closed(call("1", "a", json!({ "x": "aa" }))),
            Update::CallBegun { name: "b".to_owned() },
            delta("bb"),
            Update::Closed(call("2", "b", json!({ "x": "bb" }))),
        ]
    );
}

#[test]
fn a_call_with_complete_arguments_ends_when_the_next_begins() {
    let events = [start(0, "1", "a"), arguments(0, "{}"), start(1, "2", "b")];
    let out = updates(ToolProtocol::Native, events.to_vec(), false);
    assert_eq!(closed(out), [call("1", "a", json!({}))]);
    // Endpoints that give every call the same index.
    assert_eq!(
        read(vec![start(0, "1", "a"), arguments(0, "{}"), start(0, "2", "b"), arguments(0, "{\"x\":1}")]),
        [call("1", "a", json!({})), call("2", "b", json!({ "x": 1 }))]
    );
}

#[test]
fn what_belongs_to_no_open_call_is_ignored() {
    assert_eq!(
        read(vec![
            arguments(0, "{\"lost\":1}"),
            end(0),
            start(0, "1", "a"),
            start(0, "1", "a"),
            arguments(0, "{\"x\":"),
            start(0, "2", "b"),
            arguments(0, "1}"),
            start(0, "1", "a"),
            end(0),
            arguments(0, "more"),
            end(0),
        ]),
        [call("1", "a", json!({ "x": 1 }))]
    );
}

#[test]
fn an_index_can_be_used_again() {
    assert_eq!(
        read(vec![start(0, "1", "a"), end(0), start(0, "2", "b"), arguments(0, "{\"x\":1}"), end(0)]),
        [call("1", "a", json!({})), call("2", "b", json!({ "x": 1 }))]
    );
}

#[test]
fn a_call_open_at_the_end_counts_as_ended() {
    assert_eq!(
        read(vec![start(0, "1", "a"), arguments(0, "{\"x\":1}")]),
        [call("1", "a", json!({ "x": 1 }))]
    );
    assert!(matches!(
        read(vec![start(0, "1", "a"), arguments(0, "{\"x\":")]).as_slice(),
        [Block::Call { problem: Some(_), .. }]
    ));
}

#[test]
fn of_a_cut_answer_only_ended_calls_stay() {
    let events = vec![
        StreamEvent::Text("a".to_owned()),
        start(0, "1", "a"),
        arguments(0, "{\"x\":1}"),
        start(1, "2", "b"),
        arguments(1, "{\"x\":1}"),
        start(2, "3", "c"),
        arguments(2, "{\"x\""),
        start(3, "4", "d"),
        end(3),
    ];
    assert_eq!(
        closed(updates(ToolProtocol::Native, events, false)),
        [
            text("a"),
            call("1", "a", json!({ "x": 1 })),
            call("2", "b", json!({ "x": 1 })),
            call("4", "d", json!({})),
        ]
    );
}

#[test]
fn thinking_and_text_are_blocks_of_their_own() {
    let signed = |text: &str, opaque: Value| Block::Thinking { text: text.to_owned(), opaque: Some(opaque) };
    let says = |text: &str| StreamEvent::Text(text.to_owned());
    let thinks = |text: &str| StreamEvent::Thinking(text.to_owned());
    assert_eq!(
        read(vec![
            thinks(" hm"),
            thinks("m\n"),
            StreamEvent::ThinkingEnd(Some(json!("s1"))),
            says("One."),
            StreamEvent::ThinkingEnd(Some(json!("redacted"))),
            says("Two."),
            thinks("no end"),
            says(" Three.\n"),
            StreamEvent::ThinkingEnd(None),
            thinks("last"),
            start(0, "1", "t"),
        ]),
        [
            signed(" hmm\n", json!("s1")),
            text("One."),
            signed("", json!("redacted")),
            text("Two."),
            thinking("no end"),
            text("Three."),
            thinking("last"),
            call("1", "t", json!({})),
        ]
    );
}

#[test]
fn what_is_empty_ends_nothing() {
    let says = |text: &str| StreamEvent::Text(text.to_owned());
    let empty = || [StreamEvent::Thinking(String::new()), StreamEvent::ThinkingEnd(None)];
    let mut events = vec![says("<read_")];
    events.extend(empty());
    events.push(says("file></read_file>"));
    assert!(matches!(
        closed(updates(ToolProtocol::Xml, events, true)).as_slice(),
        [Block::Call { problem: None, .. }]
    ));
    let thinks = |text: &str| StreamEvent::Thinking(text.to_owned());
    assert_eq!(read(vec![thinks("a"), says(""), thinks("b")]), [thinking("ab")]);
}

#[test]
fn the_work_is_linear() {
    for (json, unit) in [("{\"content\":\"", "plain \\n\\u00e9"), ("{\"content\":[", "\"a\",[],"), ("", "[")]
    {
        for chunk in [1, 12, 1_000_000] {
            let [small, large] = [10_000, 80_000].map(|bytes| {
                let json = format!("{json}{}", unit.repeat(bytes / unit.len()));
                let mut parser = StreamParser::new(ToolProtocol::Native);
                let mut out = Vec::new();
                parser.push(start(0, "1", "t"), &mut out);
                let work = work::of(|| {
                    for piece in json.as_bytes().chunks(chunk) {
                        parser.push(arguments(0, std::str::from_utf8(piece).unwrap()), &mut out);
                    }
                    parser.finish(true, &mut out);
                });
                work * 100 / json.len()
            });
            assert!(large <= 400 && large <= small + 50, "{unit} by {chunk}: {small}, {large}");
        }
    }
}

#[test]
fn many_interleaved_calls_are_told_in_the_order_of_their_beginnings() {
    let calls = 0..20_000;
    let begin = calls.clone().map(|index| start(index, &index.to_string(), "t"));
    let go_on = calls.clone().rev().flat_map(|index| [arguments(index, "{}"), end(index)]);
    let expected: Vec<Block> = calls.clone().map(|index| call(&index.to_string(), "t", json!({}))).collect();
    assert_eq!(read(begin.chain(go_on).collect()), expected);
}
