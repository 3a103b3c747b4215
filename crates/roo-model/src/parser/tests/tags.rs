//! Calls in text.

use std::slice;

use pretty_assertions::assert_eq;

use super::*;
use roo_text::work;

/// Blocks of a whole answer; the same character by character.
fn read_as(protocol: ToolProtocol, answer: &str, complete: bool) -> Vec<Block> {
    let whole = merged(updates(protocol, vec![StreamEvent::Text(answer.to_owned())], complete));
    let characters = answer.chars().map(|character| StreamEvent::Text(character.into())).collect();
    let streamed = updates(protocol, characters, complete);
    assert_eq!(merged(streamed), whole);
    if complete {
        assert_shown_is_closed(&whole);
    }
    closed(whole)
}

fn read(answer: &str) -> Vec<Block> {
    read_as(ToolProtocol::Xml, answer, true)
}

fn read_native(answer: &str) -> Vec<Block> {
    read_as(ToolProtocol::Native, answer, true)
}

fn call(name: &str, params: Value) -> Block {
    Block::Call { id: None, name: name.to_owned(), params: object(params), fenced: false, problem: None }
}

fn broken(name: &str, params: Value, problem: &str) -> Block {
    Block::Call {
        id: None,
        name: name.to_owned(),
        params: object(params),
        fenced: false,
        problem: Some(problem.to_owned()),
    }
}

/// A call in a code fence.
fn fenced(path: &str) -> Block {
    let params = object(json!({ "path": path }));
    Block::Call { id: None, name: "list_files".to_owned(), params, fenced: true, problem: None }
}

/// A call in a code block with something behind it.
fn example(path: &str) -> Block {
    let params = object(json!({ "path": path }));
    let problem = "it is in a code block and more text follows, so it is treated as an example. If you mean it, make \
                   it the end of your answer, outside of code blocks";
    Block::Call {
        id: None,
        name: "list_files".to_owned(),
        params,
        fenced: true,
        problem: Some(problem.to_owned()),
    }
}

fn list(path: &str) -> Block {
    call("list_files", json!({ "path": path }))
}

const LIST: &str = "<list_files><path>src</path></list_files>";

#[test]
fn plain_text_is_one_trimmed_block() {
    assert_eq!(read("\n Hello,\nworld. \n"), [text("Hello,\nworld.")]);
    assert_eq!(read(""), []);
    assert_eq!(read(" \n\t "), []);
}

#[test]
fn a_call_has_its_parameters() {
    assert_eq!(read(LIST), [list("src")]);
    assert_eq!(
        read("<search_files>\n<path> src </path>\n<regex>\nfn \\w+\n</regex>\n</search_files>"),
        [call("search_files", json!({ "path": "src", "regex": "fn \\w+" }))]
    );
    assert_eq!(read("<list_files></list_files>"), [call("list_files", json!({}))]);
    assert_eq!(read("<list_files><path></path></list_files>"), [list("")]);
}

#[test]
fn a_parameter_may_have_many_lines() {
    assert_eq!(
        read("<execute_command><command>\nfor i in 1 2\ndo echo $i\ndone\n</command></execute_command>"),
        [call("execute_command", json!({ "command": "for i in 1 2\ndo echo $i\ndone" }))]
    );
}

#[test]
fn text_and_calls_alternate() {
    assert_eq!(
        read(&format!("First this: {LIST} then\n{LIST}\n\nand done.")),
        [text("First this:"), list("src"), text("then"), list("src"), text("and done.")]
    );
    assert_eq!(read(&format!("{LIST}{LIST}\n{LIST}")), [list("src"), list("src"), list("src")]);
}

#[test]
fn a_call_is_told_as_soon_as_its_name_is_known() {
    let begun = Update::CallBegun { name: "write_to_file".to_owned() };
    let pieces = ["Now: ", "<write_to_", "file>", "<path>a", "b</pa", "th>\n<content>\nx", "\n", "y"];
    let events = pieces.map(|piece| StreamEvent::Text(piece.to_owned())).to_vec();
    let delta = |parameter: &str, text: &str| Update::ParameterDelta {
        parameter: parameter.into(),
        text: text.to_owned(),
    };
    assert_eq!(
        updates(ToolProtocol::Xml, events, false),
        [
            Update::TextDelta("Now:".to_owned()),
            Update::Closed(text("Now:")),
            begun,
            delta("path", "a"),
            delta("path", "b"),
            delta("content", "x"),
            delta("content", "\n"),
            delta("content", "y"),
        ]
    );
}

#[test]
fn a_beginning_of_a_tag_is_not_shown_and_other_text_is_at_once() {
    let shown = |answer: &str| {
        let mut parser = StreamParser::new(ToolProtocol::Xml);
        let mut out = Vec::new();
        parser.push(StreamEvent::Text(answer.to_owned()), &mut out);
        match out.as_slice() {
            [] => String::new(),
            [Update::TextDelta(text)] => text.clone(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(shown("a <read_fi"), "a");
    assert_eq!(shown("a <read_file>\n "), "a");
    assert_eq!(shown("a\n```xml\n"), "a");
    assert_eq!(shown("a <tool_call>"), "a");
    assert_eq!(shown("a < b"), "a < b");
    assert_eq!(shown("a <div>b"), "a <div>b");
    assert_eq!(shown("```rust\nf"), "```rust\nf");
}

#[test]
fn verbatim_values_lose_one_newline_at_each_end() {
    for (sent, expected) in [
        ("\na\n", "a"),
        ("a", "a"),
        ("\n\n  a\n\n", "\n  a\n"),
        ("\r\na\r\nb\r\n", "a\r\nb"),
        ("\n", ""),
        ("", ""),
    ] {
        assert_eq!(
            read(&format!(
                "<insert_content><path>a</path><line>1</line><content>{sent}</content></insert_content>"
            )),
            [call("insert_content", json!({ "path": "a", "line": "1", "content": expected }))],
        );
    }
}

/// A call that writes these lines, the last one without its end.
fn write(lines: &str) -> Block {
    call("write_to_file", json!({ "path": "a", "content": format!("{lines}\n") }))
}

fn writing(lines: &str) -> String {
    format!("<write_to_file>\n<path>a</path>\n<content>\n{lines}\n</content>\n</write_to_file>")
}

#[test]
fn the_newline_before_its_closing_tag_ends_the_last_line_of_a_file() {
    for (sent, expected) in [
        ("\na\n", "a\n"),
        ("a", "a"),
        ("\n\n  a\n\n", "\n  a\n\n"),
        ("\r\na\r\n", "a\r\n"),
        ("\n", ""),
        ("", ""),
    ] {
        assert_eq!(
            read(&format!("<write_to_file><path>a</path><content>{sent}</content></write_to_file>")),
            [call("write_to_file", json!({ "path": "a", "content": expected }))],
        );
    }
}

#[test]
fn a_file_may_hold_closing_tags() {
    for content in [
        "<content>x</content>",
        "a</content>",
        "</content></content>\n</content>",
        "</content>\n<path>b</path>",
        "</content>\n<content>",
        "</write_to_file>",
        "</write_to_file>\n</content>\n",
        "</content> x </write_to_file>",
        "</content>\n</write_to_fil>",
        "</content>\n</read_file>",
        "<read_file><path>b</path></read_file>",
        "```\n<thinking>\n```",
        "</conten",
        "<",
        "a < b && c > d, Vec<T>, <![CDATA[ ]]>, &amp;",
    ] {
        assert_eq!(read(&writing(content)), [write(content)], "{content}");
    }
}

/// Content that ends the call by its tags: by themselves, in a whole call, or in the beginning of one.
const CLOSING: &[&str] = &[
    "a\n</content>\n</write_to_file>\nb",
    "let end = \"</content></write_to_file>\";",
    "</content>\n</write_to_file>",
    "a</content></write_to_file>b</content></write_to_file>c",
    "# Tools\n```\n<write_to_file>\n<path>x</path>\n<content>\ny\n</content>\n</write_to_file>\n```\nThe end.",
    "<write_to_file><path>x</path><content>y</content></write_to_file>\n</content>\n</write_to_file>\nz",
    "<write_to_file><content>y</content><path>x</path></write_to_file> and </write_to_file>",
    "<list_files><path>x</path></list_files></content></write_to_file>\n<list_files><path>x</path></list_files>",
    "<thinking>\n</content></write_to_file>\n```\n",
];

#[test]
fn a_file_may_hold_the_end_of_a_call() {
    for content in CLOSING {
        assert_eq!(read(&writing(content)), [write(content)], "{content}");
        let wrapped = format!("So:\n<tool_call>\n{}\n</tool_call>\n", writing(content));
        assert_eq!(read(&wrapped), [text("So:"), write(content)], "{content}");
        let Block::Call { id, name, params, problem, .. } = write(content) else { unreachable!() };
        let block = Block::Call { id, name, params, fenced: true, problem };
        assert_eq!(read(&format!("~~~xml\n{}\n~~~\n", writing(content))), [block], "{content}");
    }
    let content =
        "</parameter>\n</invoke>\nb <invoke name=\"x\"><parameter name=\"y\">z</parameter></invoke>";
    assert_eq!(
        read(&format!(
            "<function_calls><invoke name=\"write_to_file\"><parameter name=\"path\">a</parameter>\
             <parameter name=\"content\">\n{content}\n</parameter></invoke></function_calls>"
        )),
        [write(content)]
    );
}

#[test]
fn whole_calls_in_a_file_tell_its_end_from_what_follows() {
    let content = format!("Write:\n{}\nDone.", writing("x"));
    assert_eq!(read(&format!("{}\nWritten.", writing(&content))), [write(&content), text("Written.")]);
    assert_eq!(
        read(&format!("{}\n{LIST}\n{}", writing(&content), writing(&content))),
        [write(&content), list("src"), write(&content)]
    );
    // The beginning of one is no reason to doubt the last end.
    let begun = "Begin with <write_to_file><path>x</path>.";
    assert_eq!(read(&writing(begun)), [write(begun)]);
}

#[test]
fn what_follows_a_call_is_read_as_ever() {
    assert_eq!(
        read(&format!("{}\nNext:\n{}\nand\n{LIST}\nend", writing("x"), writing("y"))),
        [write("x"), text("Next:"), write("y"), text("and"), list("src"), text("end")]
    );
    assert_eq!(
        read(&format!("{}\nIt ends with `</content>`, then </write_to_file>.", writing("x"))),
        [write("x"), text("It ends with `</content>`, then </write_to_file>.")]
    );
}

/// The names of the calls, and of those that have a problem.
fn calls(blocks: &[Block]) -> Vec<(&str, bool)> {
    let mut calls = Vec::new();
    for block in blocks {
        if let Block::Call { name, problem, .. } = block {
            calls.push((name.as_str(), problem.is_some()));
        }
    }
    calls
}

#[test]
fn a_call_whose_end_is_unclear_is_refused_with_those_beside_it() {
    let (file, bare) = ("write_to_file", "a\n</content>\n</write_to_file>\nb");
    let begun = "<write_to_file><path>x</path> is how it begins";
    for (answer, expected) in [
        // More of the file, or prose about it?
        (format!("{}\nWritten.", writing(bare)), vec![(file, true)]),
        (format!("{}\nWritten.", writing(begun)), vec![(file, true)]),
        (format!("{}\n{LIST}", writing(bare)), vec![(file, true)]),
        // One file with a call in it, or two?
        (format!("{}\n{}", writing("x"), writing(bare)), vec![(file, true), (file, true)]),
        (format!("{}\n{}", writing(bare), writing("x")), vec![(file, true)]),
        // Another call, or the beginning of one in the file?
        (
            format!("{}\n<write_to_file><path>x</path>\n</content>\n</write_to_file>", writing("x")),
            vec![(file, true), (file, true)],
        ),
        // The next parameter closes more than it opens.
        (
            "<search_and_replace><path>a</path><search>x</search><replace>y</replace></search_and_replace>z\
             </search><replace>y</replace></search_and_replace>"
                .to_owned(),
            vec![("search_and_replace", true)],
        ),
        (
            "<write_to_file><content>x</content>\n<path>y</path>\nz</content><path>a</path></write_to_file>"
                .to_owned(),
            vec![(file, true)],
        ),
        (writing(&format!("{bare}</content><path>b</path></write_to_file>c")), vec![(file, true)]),
    ] {
        assert_eq!(calls(&read(&answer)), expected, "{answer}");
    }
    let blocks = read(&format!("{}\nWritten.", writing(bare)));
    let [Block::Call { params, problem: Some(problem), .. }, Block::Text(rest)] = blocks.as_slice() else {
        panic!("{blocks:?}")
    };
    assert_eq!(*params, object(json!({ "path": "a" })));
    assert!(problem.contains("it is unclear where it ends"), "{problem}");
    assert_eq!(rest, "</write_to_file>\nb\n</content>\n</write_to_file>\nWritten.");
    // The rest of the value may be missing.
    let cut = read_as(ToolProtocol::Xml, &format!("{}\nand", writing("x")), false);
    assert_eq!(calls(&cut), [(file, true)]);
    assert_eq!(read_as(ToolProtocol::Xml, &writing("x"), false), [write("x")]);
    assert_eq!(
        read_native(&format!("{}\nWritten.", writing(bare))),
        [text(&format!("{}\nWritten.", writing(bare)))]
    );
    assert_eq!(read_native(&writing(bare)), [write(bare)]);
}

#[test]
fn a_tool_in_another_tools_parameter_is_data() {
    assert_eq!(
        read(&format!("<attempt_completion><result>Use {LIST}.</result></attempt_completion>")),
        [call("attempt_completion", json!({ "result": format!("Use {LIST}.") }))]
    );
    let nested = "<file>\n<path>a</path>\n<line_range>1-2</line_range>\n</file>";
    assert_eq!(
        read(&format!("<read_file><args>\n{nested}\n</args></read_file>")),
        [call("read_file", json!({ "args": nested }))]
    );
}

#[test]
fn there_is_no_size_limit() {
    let content = "0123456789</content>\n".repeat(60_000);
    let answer = writing(&content);
    let out = updates(ToolProtocol::Xml, vec![StreamEvent::Text(answer)], true);
    assert_eq!(closed(out), [write(&content)]);
}

#[test]
fn unknown_and_malformed_tags_stay_text() {
    for answer in [
        "<b>bold</b> <unknown_tool><path>a</path></unknown_tool>",
        "<read_file<path>a</path>",
        "< read_file>",
        "<read_file path=\"a\">",
        "</read_file>",
        "<invoke name=\"unknown\"><parameter name=\"path\">a</parameter></invoke>",
        "<invoke>",
        "</tool_call>",
        "<tool_call>{\"name\": \"x\"}</tool_call>",
        "<read_fil",
        "a <tool_call><tool_call> b",
        "<",
    ] {
        assert_eq!(read(answer), [text(answer)]);
    }
}

#[test]
fn a_tool_that_is_only_talked_about_is_no_call() {
    for answer in [
        "I use <read_file> to look, then <list_files>.",
        "Ends with <read_file>",
        &format!("Write `{LIST}` or \"{LIST}\"."),
        &format!("```\nfor example:\n{LIST}\n```\ndone"),
        &format!("~~~~\nx\n```\n{LIST}\n~~~\n{LIST}\n~~~~"),
    ] {
        assert_eq!(read(answer), [text(answer)]);
    }
    assert_eq!(
        read(&format!("I use <write_to_file> later.\n{LIST}")),
        [text("I use <write_to_file> later."), list("src")]
    );
    assert_eq!(
        read(&format!("```\ncode\n```\n{LIST}\n```x``` inline\n{LIST}")),
        [text("```\ncode\n```"), list("src"), text("```x``` inline"), list("src")]
    );
}

#[test]
fn white_space_in_tags_is_tolerated() {
    assert_eq!(read("<list_files >\n<path >src</path\n>\n</list_files >"), [list("src")]);
}

#[test]
fn an_old_name_of_a_tool_is_kept_as_sent() {
    for close in ["write_file", "write_to_file"] {
        assert_eq!(
            read(&format!("<write_file><path>a</path><content>x</content></{close}>")),
            [call("write_file", json!({ "path": "a", "content": "x" }))]
        );
    }
}

#[test]
fn a_wrapper_around_a_call_is_dropped() {
    let invoke = "<invoke name=\"list_files\">\n<parameter name=\"path\">src</parameter>\n</invoke>";
    for answer in [
        format!("<tool_call>\n{LIST}\n</tool_call>"),
        format!("<function_calls>\n{invoke}\n</function_calls>"),
        format!("<tool_call>{invoke}</tool_call>"),
        format!("<function_calls>{invoke}</function_ca"),
        invoke.to_owned(),
        "<invoke name=\"list_files\"><path>src</path></invoke>".to_owned(),
    ] {
        assert_eq!(read(&answer), [list("src")], "{answer}");
        assert_eq!(read(&format!("Look:\n{answer}")), [text("Look:"), list("src")], "{answer}");
    }
    for answer in [
        format!("```xml\n{LIST}\n```"),
        format!("```\n\n<tool_call>\n{LIST}\n</tool_call>\n```\n"),
        format!("~~~\n{LIST}\n~~~~"),
    ] {
        assert_eq!(read(&answer), [fenced("src")], "{answer}");
        assert_eq!(read(&format!("Look:\n{answer}")), [text("Look:"), fenced("src")], "{answer}");
    }
    assert_eq!(read(&format!("```\n{LIST}\n```\n{LIST}")), [example("src"), list("src")]);
    assert_eq!(
        read(&format!("<function_calls>{invoke}\n{invoke}</function_calls> ok")),
        [list("src"), list("src"), text("ok")]
    );
}

/// A call in the form of Qwen3-Coder.
const FUNCTION: &str =
    "<tool_call>\n<function=list_files>\n<parameter=path>\nsrc\n</parameter>\n</function>\n</tool_call>";

#[test]
fn a_function_with_a_name_is_a_call() {
    for answer in [
        FUNCTION,
        "<function=list_files><parameter=path>src</parameter></function>",
        "<function=list_files>\n<parameter=path>src</parameter>\n</func",
        "<function=list_files><path>src</path></function>",
    ] {
        assert_eq!(read(&format!("Look:\n{answer}")), [text("Look:"), list("src")], "{answer}");
    }
    assert_eq!(read(&format!("{FUNCTION}\n{FUNCTION}\nok")), [list("src"), list("src"), text("ok")]);
    assert_eq!(
        read_native(&format!("Look:\n{FUNCTION}\n{FUNCTION}")),
        [text("Look:"), list("src"), list("src")]
    );
    let content = "</parameter>\n<parameter=path>\n</function>\nx = a<function=b>c";
    assert_eq!(
        read(&format!(
            "<function=write_to_file>\n<parameter=path>\na\n</parameter>\n<parameter=content>\n{content}\n\
             </parameter>\n</function>"
        )),
        [write(content)]
    );
    for answer in [
        "<function=unknown><parameter=path>a</parameter></function>",
        "It writes <function=list_files> first",
    ] {
        assert_eq!(read(answer), [text(answer)]);
    }
}

/// A call in the form of Hermes.
fn json_call(name: &str, arguments: &Value) -> String {
    format!("<tool_call>\n{{\"name\": \"{name}\", \"arguments\": {arguments}}}\n</tool_call>")
}

#[test]
fn a_json_object_in_a_wrapper_is_a_call() {
    let call_of = |answer: &str| {
        assert_eq!(read_native(answer), read(answer), "{answer}");
        read(answer)
    };
    let params = json!({ "path": "src", "recursive": true });
    let sent = json_call("list_files", &params);
    let expected = call("list_files", params.clone());
    assert_eq!(call_of(&sent), slice::from_ref(&expected));
    assert_eq!(
        call_of(&format!("Look:\n{sent}\n{sent}\nok")),
        [text("Look:"), expected.clone(), expected.clone(), text("ok")]
    );
    for end in ["", "\n", "\n</tool", "<"] {
        assert_eq!(call_of(&sent.replace("\n</tool_call>", end)), slice::from_ref(&expected), "{end}");
    }
    let as_text = json_call("list_files", &json!(params.to_string())).replace("arguments", "parameters");
    assert_eq!(call_of(&as_text), slice::from_ref(&expected));
    let content = "</tool_call>\n{\"}]\\\" <write_to_file><path>b</path>\n```\n";
    let params = json!({ "path": "a", "content": content });
    assert_eq!(call_of(&json_call("write_to_file", &params)), [call("write_to_file", params)]);
    assert_eq!(read(&format!("{}\n{sent}", writing("x"))), [write("x"), expected]);
    let fenced = read(&format!("```json\n{sent}\n```"));
    assert!(matches!(fenced.as_slice(), [Block::Call { fenced: true, problem: None, .. }]), "{fenced:?}");
    let twice = read(
        "<tool_call>{\"name\": \"list_files\", \"arguments\": {\"path\": \"a\", \"path\": \"b\"}}</tool_call>",
    );
    assert_eq!(twice, [broken("list_files", json!({}), "a parameter comes twice; give each of them once")]);
}

#[test]
fn a_json_object_that_is_no_call_stays_text() {
    for answer in [
        "<tool_call>{\"name\": \"list_files\"}</tool_call>",
        "<tool_call>{\"name\": \"fly\", \"arguments\": {}}</tool_call>",
        "<tool_call>{\"name\": \"list_files\", \"arguments\": [1]}</tool_call>",
        "<tool_call>{\"name\": \"list_files\", \"arguments\": {}}, then</tool_call>",
        "<tool_call>{\"name\": \"list_files\", \"arguments\": {",
        "<tool_call>{what}!</tool_call>",
        "It writes <tool_call>{\"name\": \"list_files\", \"arguments\": {}}</tool_call>",
        "```\nx\n<tool_call>{\"name\": \"list_files\", \"arguments\": {}}</tool_call>\n```",
    ] {
        assert_eq!(read(answer), [text(answer)], "{answer}");
        assert_eq!(read_native(answer), [text(answer)], "{answer}");
    }
    let sent = json_call("list_files", &json!({ "path": "src" }));
    assert_eq!(read_as(ToolProtocol::Xml, &sent.replace("\n</tool_call>", ""), false).len(), 1);
    assert_eq!(read(&format!("<tool_call>{{ {LIST}")), [text("<tool_call>{"), list("src")]);
    let found: Vec<_> = json_calls(&format!("a {sent} <tool_call>{{\n{sent}")).collect();
    assert_eq!(found, vec![("list_files".to_owned(), object(json!({ "path": "src" }))); 2]);
}

#[test]
fn a_call_at_the_end_of_thinking_that_is_not_closed_counts() {
    for reading in [read, read_native] {
        let thought = format!("I look.\n{LIST}\n{FUNCTION}");
        assert_eq!(
            reading(&format!("<thinking>\n{thought}\n")),
            [thinking(&thought), list("src"), list("src")]
        );
        for thought in [
            format!("I look.\n{LIST}\nand then?"),
            format!("I look: {LIST}"),
            format!("So:\n```\n{LIST}\n```"),
            "I look.\n<list_files><path>src".to_owned(),
            format!("a\n<think>\n{LIST}"),
        ] {
            assert_eq!(reading(&format!("<thinking>{thought}")), [thinking(&thought)], "{thought}");
        }
    }
    let cut = format!("<thinking>I look.\n{LIST}");
    assert_eq!(read_as(ToolProtocol::Xml, &cut, false).len(), 1);
}

#[test]
fn a_value_in_an_invoke_may_hold_closing_tags() {
    let content = "</parameter>\n<parameter name=\"path\">\n</invoke>";
    assert_eq!(
        read(&format!(
            "<invoke name=\"write_to_file\"><parameter name=\"path\">a</parameter>\
             <parameter name=\"content\">\n{content}\n</parameter></invoke>"
        )),
        [write(content)]
    );
}

#[test]
fn a_fence_around_several_calls_is_dropped_and_others_stay() {
    assert_eq!(
        read(&format!("```xml\n{LIST}\n\n{LIST}\n```\nSee:\n```sh\nls\n```")),
        [example("src"), example("src"), text("See:\n```sh\nls\n```")]
    );
    assert_eq!(read(&format!("```xml\n{LIST}\nnow\n```\n.")), [example("src"), text("now\n.")]);
    assert_eq!(
        read(&format!("```xml\n{LIST}\nnow\n```sh\nls\n```")),
        [example("src"), text("now\n```sh\nls\n```")]
    );
}

#[test]
fn a_call_in_a_code_block_counts_at_the_end_of_an_answer_alone() {
    for (answer, counts) in [
        (format!("```xml\n{LIST}\n```\n \n"), true),
        (format!("```xml\n{LIST}\n\n{LIST}\n```\n"), true),
        (format!("Look:\n\n    {LIST}\n"), true),
        (format!("\t{LIST}"), true),
        (format!("```xml\n{LIST}\n```\nDo you agree?"), false),
        (format!("    {LIST}\n\nDo you agree?"), false),
        (format!("\t{LIST}\n```\nx\n```"), false),
        (format!("```\n{LIST}\n```\n```\n{LIST}\n```\n."), false),
        (format!("    {LIST}\n{LIST}"), false),
    ] {
        let blocks = read(&answer);
        let calls: Vec<&Block> =
            blocks.iter().filter(|block| matches!(block, Block::Call { fenced: true, .. })).collect();
        assert!(!calls.is_empty(), "{answer}");
        let expected = if counts { fenced("src") } else { example("src") };
        assert!(calls.iter().all(|call| **call == expected), "{answer}: {blocks:?}");
    }
    // Less is how some models write, and what stands in a wrapper is none of it.
    assert_eq!(read(&format!("  {LIST}\nok")), [list("src"), text("ok")]);
    assert_eq!(
        read(&format!("<function_calls>\n    {LIST}\n    {LIST}\n</function_calls>\nok")),
        [list("src"), list("src"), text("ok")]
    );
}

#[test]
fn thinking_tags_at_line_start_are_thinking() {
    assert_eq!(read("<thinking>\nhm <b>\n</thinking>\nYes."), [thinking("hm <b>"), text("Yes.")]);
    assert_eq!(
        read(&format!("So.\n<think>hm {LIST}</think>{LIST}")),
        [text("So."), thinking(&format!("hm {LIST}")), list("src")]
    );
    assert_eq!(read("I was <thinking>hm</thinking>"), [text("I was <thinking>hm</thinking>")]);
    assert_eq!(read("```\n<thinking>\n```"), [text("```\n<thinking>\n```")]);
    assert_eq!(read("<thinking>without an end"), [thinking("without an end")]);
    assert_eq!(read("<thinking> </thinking>a"), [text("a")]);
}

#[test]
fn a_call_that_the_answer_breaks_off_has_a_problem() {
    assert_eq!(read("<read_file>"), [broken("read_file", json!({}), "the answer ended before </read_file>")]);
    assert_eq!(
        read("a\n<write_to_file><path>a</path>\n<content>\nx"),
        [
            text("a"),
            broken(
                "write_to_file",
                json!({ "path": "a" }),
                "the answer ended inside the parameter 'content'"
            ),
        ]
    );
    assert_eq!(
        read("<list_files><path>a</path>"),
        [broken("list_files", json!({ "path": "a" }), "the answer ended before </list_files>")]
    );
}

#[test]
fn a_closing_tag_that_did_not_count_is_explained() {
    assert_eq!(
        read("<execute_command><command>ls</command>\nNow.</execute_command>"),
        [broken(
            "execute_command",
            json!({}),
            "the answer ended inside the parameter 'command', as </command> ends it only where another \
             parameter of the tool or </execute_command> follows directly"
        )]
    );
    // A file may hold anything, so that only a parameter tells where it ends.
    assert_eq!(
        read("<write_to_file><path>a</path><content>b</content>\n<reason>y</reason></write_to_file>"),
        [broken(
            "write_to_file",
            json!({ "path": "a" }),
            "the answer ended inside the parameter 'content', as </content> ends it only where another \
             parameter of the tool or </write_to_file> follows directly, and <reason> is no parameter of it"
        )]
    );
}

#[test]
fn an_element_behind_a_parameter_that_is_none_is_dropped() {
    for extra in [
        "<requires_approval>false</requires_approval>",
        "\n<requires_approval>false</requires_approval>\n",
        "<reason>to <b>see</b> what </regex> is</reason><max_depth></max_depth>",
        "<x><y>1</y></x>\n",
    ] {
        assert_eq!(
            read(&format!("<execute_command><command>echo hi</command>{extra}</execute_command>\n{LIST}")),
            [call("execute_command", json!({ "command": "echo hi" })), list("src")],
            "{extra}"
        );
        assert_eq!(
            read(&format!(
                "<list_files><path>src</path>{extra}<recursive>true</recursive></list_files>{LIST}"
            )),
            [call("list_files", json!({ "path": "src", "recursive": "true" })), list("src")],
            "{extra}"
        );
    }
    let nested = "<file><path>a</path></file>";
    assert_eq!(
        read(&format!(
            "<read_file><args>{nested}</args><reason>r</reason></read_file><list_files><path>src</path></list_files>"
        )),
        [call("read_file", json!({ "args": nested })), list("src")]
    );
}

#[test]
fn a_value_in_a_cdata_section_is_what_that_holds() {
    assert_eq!(read(&writing("<![CDATA[\n<a>1 < 2</a>\n]]>")), [write("<a>1 < 2</a>")]);
    assert_eq!(
        read("<execute_command>\n<command><![CDATA[echo a && echo b]]></command>\n</execute_command>"),
        [call("execute_command", json!({ "command": "echo a && echo b" }))]
    );
    assert_eq!(read("<list_files><path> <![CDATA[src]]> </path></list_files>"), [list("src")]);
    // These are a part of the value.
    for lines in ["<![CDATA[a]]>\nb", "a <![CDATA[b]]>", "<![CDATA[a]]><![CDATA[b]]>"] {
        assert_eq!(read(&writing(lines)), [write(lines)]);
    }
}

#[test]
fn a_value_with_its_closing_tag_and_an_element_is_not_cut_short() {
    for command in [
        "sed 's|</command><b>x</b>|y|' a",
        "sed 's|</command><b>|y|' a",
        "echo '</command><b>' </command>",
        "echo </command><list_files></list_files>",
        "echo '</command>\n<b>x</b></command>'",
    ] {
        assert_eq!(
            read(&format!("<execute_command><command>{command}</command></execute_command>")),
            [call("execute_command", json!({ "command": command }))],
            "{command}"
        );
    }
    for open in ["<b>", "<b>x", "<b>x</c>"] {
        let blocks = read(&format!("<execute_command><command>ls</command>{open}</execute_command>"));
        assert_eq!(calls(&blocks), [("execute_command", true)], "{open}");
    }
}

#[test]
fn the_last_closing_tag_may_be_unfinished() {
    for end in ["</", "</list", "</list_files", "</list_files "] {
        assert_eq!(read(&format!("<list_files><path>src</path>\n{end}")), [list("src")], "{end}");
    }
    for end in ["<", "</lost", "</list_filesx"] {
        let blocks = read(&format!("<list_files><path>src</path>\n{end}"));
        assert!(matches!(blocks.as_slice(), [Block::Call { problem: Some(_), .. }]), "{end}");
    }
}

#[test]
fn of_a_cut_answer_open_calls_vanish() {
    let cut = |answer: &str| read_as(ToolProtocol::Xml, answer, false);
    assert_eq!(
        cut(&format!("a {LIST} b <list_files><path>src</path></list_files")),
        [text("a"), list("src"), text("b")]
    );
    assert_eq!(cut("a\n<write_to_file><path>a</path><content>x"), [text("a")]);
    assert_eq!(read_as(ToolProtocol::Native, LIST, false), [text(LIST)]);
}

#[test]
fn beside_native_tools_only_whole_calls_at_line_start_outside_fences_count() {
    assert_eq!(
        read_native(&format!("Look:\n{LIST}\nand\n  <tool_call>{LIST}</tool_call>\n.")),
        [text("Look:"), list("src"), text("and"), list("src"), text(".")]
    );
    for answer in [
        format!("Look: {LIST}"),
        format!("```xml\n{LIST}\n```"),
        format!("```\nx\n{LIST}\n```"),
        "<list_files> lists".to_owned(),
        "a\n<list_files><path>src</path>".to_owned(),
        "a\n<list_files><path>src</path></list_files".to_owned(),
        format!("{LIST}\n<list_files><path>src"),
    ] {
        assert_eq!(read_native(&answer), [text(&answer)]);
    }
}

#[test]
fn beside_a_native_call_markup_is_text() {
    let start = || StreamEvent::CallStart { index: 0, id: "1".into(), name: "list_files".into() };
    let native = Block::Call {
        id: Some("1".into()),
        name: "list_files".into(),
        params: Map::new(),
        fenced: false,
        problem: None,
    };
    let markup = || StreamEvent::Text(format!("a\n{LIST}\nb"));
    let as_text = text(&format!("a\n{LIST}\nb"));
    let out = updates(ToolProtocol::Native, vec![markup(), start()], true);
    assert_shown_is_closed(&out);
    assert_eq!(closed(out), [as_text.clone(), native.clone()]);
    let end = StreamEvent::CallEnd { index: 0 };
    let out = updates(ToolProtocol::Native, vec![start(), end, markup()], true);
    assert_eq!(closed(out), [native, as_text]);
}

/// The work for `unit` repeated, in pieces of `chunk` bytes, per byte.
fn work_per_byte(protocol: ToolProtocol, before: &str, unit: &str, after: &str, chunk: usize) -> [usize; 2] {
    [10_000, 80_000].map(|bytes| {
        let answer = format!("{before}{}{after}", unit.repeat(bytes / unit.len() + 1));
        let pieces: Vec<String> =
            answer.as_bytes().chunks(chunk).map(|piece| String::from_utf8(piece.to_vec()).unwrap()).collect();
        let mut parser = StreamParser::new(protocol);
        let mut out = Vec::new();
        let work = work::of(|| {
            for piece in pieces {
                parser.push(StreamEvent::Text(piece), &mut out);
            }
            parser.finish(true, &mut out);
        });
        work * 100 / answer.len()
    })
}

#[test]
fn the_work_is_linear_on_hostile_text() {
    let open = "<write_to_file><path>a</path><content>";
    let spaces = " ".repeat(9_000);
    for (before, unit, after) in [
        ("", "plain text ", ""),
        ("", "<", ""),
        ("", " ", "x"),
        ("", "`", ""),
        ("", "```\n", ""),
        ("", "<tool_call>", ""),
        ("", "a <read_file> ", ""),
        ("", "\n<thinking></thinking>", ""),
        ("", LIST, ""),
        ("", "<list_files", ""),
        ("", "<thinking>\n", ""),
        ("<thinking>\n", LIST, ""),
        ("<thinking>\n", "<list_files><path>a</path></list_files>\n", ""),
        ("", "<tool_call>{\"a", ""),
        ("<tool_call>{\"", "</tool_call>", ""),
        ("<tool_call>{\"", "\\\"</tool_call>{", "\"}</tool_call>"),
        ("", "\n<tool_call>{\"name\":\"list_files\",\"arguments\":{\"path\":\"a\"}}</tool_call>", ""),
        ("", "<function=list_files", ""),
        (open, "</content>", ""),
        (open, "</content>\n", "</content></write_to_file>"),
        (open, "</content>\n</write_to_fil", ""),
        (open, &format!("</content>{spaces}"), ""),
        (open, "\n", ""),
        (open, "<", ""),
        (open, "</content></write_to_file>", ""),
        (open, "</content></write_to_file>\n", "</content></write_to_file>"),
        (open, "<write_to_file><path>", "</path></content></write_to_file>"),
        (open, "<write_to_file><path></path></write_to_file>", "</content></write_to_file>"),
        ("", "\n<write_to_file><content>a</content></write_to_file>", ""),
        ("", "\n<new_task><message>a</message></new_task>\n", "</message></new_task>"),
        ("\n<list_files><path>", "</path>", "</path></list_files>"),
    ] {
        for protocol in [ToolProtocol::Xml, ToolProtocol::Native] {
            for chunk in [1, 7, 100_000] {
                let [small, large] = work_per_byte(protocol, before, unit, after, chunk);
                let case = format!("{unit:.20} in pieces of {chunk}: {small} then {large} per 100 bytes");
                assert!(large <= 700 && large <= small * 2 + 50, "{case}");
            }
        }
    }
}
