//! Any cutting of the same bytes means the same.

use pretty_assertions::assert_eq;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::super::SseReader;
use super::*;

/// Pieces of text that meet in hostile ways.
#[rustfmt::skip]
const FRAGMENTS: &[&str] = &[
    "<write_to_file>", "</write_to_file>", "<path>", "</path>", "<content>", "</content>", "</content >",
    "<line_count>", "<read_file>", "</read_file>", "<args>", "</args>", "<tool_call>", "</tool_call>",
    "<function_calls>", "</function_calls>", "<invoke name=\"write_to_file\">", "</invoke>",
    "<parameter name=\"content\">", "</parameter>", "<thinking>", "</thinking>", "<think>", "</think>", "<",
    "</", ">", "<content", "</conten", "</write_to_f", "`", "``", "```", "```xml\n", "~~~\n", "\"", "\n",
    "\n", "\r\n", "\r", " ", "  ", "\t", "\u{a0}", "text", "é", "😀", "&lt;", "a < b", "<b>",
    "<function=write_to_file>", "<parameter=path>", "</function>", "<tool_call>{\"name\":\"write_to_file\",\"arguments\":{",
    "{", "}}", "\"path\":\"p\"", "\\",
    "<execute_command>", "</execute_command>", "<command>", "</command>", "<reason>", "</reason>", "<![CDATA[", "]]>",
    "<write_to_file><path>p</path><content>\n", "\n</content>\n</write_to_file>\n",
];

fn hostile(count: usize) -> impl Strategy<Value = String> {
    vec(select(FRAGMENTS), 0..count).prop_map(|fragments| fragments.concat())
}

fn cut<'a>(text: &'a str, cuts: &[Index]) -> Vec<&'a str> {
    let mut at: Vec<usize> =
        cuts.iter().map(|cut| cut.index(text.len() + 1)).filter(|at| text.is_char_boundary(*at)).collect();
    at.extend([0, text.len()]);
    at.sort_unstable();
    at.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect()
}

fn texts(pieces: &[&str]) -> Vec<StreamEvent> {
    pieces.iter().map(|piece| StreamEvent::Text((*piece).to_owned())).collect()
}

fn characters(text: &str) -> Vec<StreamEvent> {
    text.chars().map(|character| StreamEvent::Text(character.into())).collect()
}

/// Returns whether the grammar can carry this content: no closing tag in it ends it, and it is no CDATA section.
fn is_carried(content: &str) -> bool {
    let ends = content.match_indices("</content").any(|(at, tag)| {
        let rest = content[at + tag.len()..].trim_start();
        rest.strip_prefix('>').is_some_and(|rest| {
            let rest = rest.trim_start();
            rest.starts_with("</write_to_file") || rest.starts_with("<line_count")
        })
    });
    !ends && !content.starts_with("<![CDATA[")
}

proptest! {
    #[test]
    fn of_text(answer in hostile(40), cuts in vec(any::<Index>(), 0..12), xml: bool, complete: bool) {
        let protocol = if xml { ToolProtocol::Xml } else { ToolProtocol::Native };
        let whole = merged(updates(protocol, texts(&[&answer]), complete));
        if complete {
            assert_shown_is_closed(&whole);
        }
        assert_eq!(&merged(updates(protocol, texts(&cut(&answer, &cuts)), complete)), &whole);
        assert_eq!(&merged(updates(protocol, characters(&answer), complete)), &whole);
    }

    #[test]
    fn of_text_that_comes_as_bytes(answer in hostile(20), size in 1usize..9) {
        let json = serde_json::to_string(&answer).unwrap();
        let stream = format!(": hello\r\nevent: delta\r\ndata: {json}\r\n\r\nevent: delta\ndata: {json}\n\n");
        let mut reader = SseReader::new();
        let mut events = Vec::new();
        for chunk in stream.as_bytes().chunks(size) {
            reader.push(chunk, |event| events.push(serde_json::from_str(event.data).unwrap())).unwrap();
        }
        let events = events.into_iter().map(StreamEvent::Text).collect();
        let twice = [answer.as_str(), answer.as_str()].concat();
        assert_eq!(
            merged(updates(ToolProtocol::Xml, events, true)),
            merged(updates(ToolProtocol::Xml, texts(&[&twice]), true))
        );
    }

    #[test]
    fn of_a_file_that_is_written(content in hostile(30).prop_filter("carried", |content| is_carried(content)), cuts in vec(any::<Index>(), 0..12)) {
        let answer =
            format!("<write_to_file>\n<path>p</path>\n<content>\n{content}\n</content>\n</write_to_file>");
        let blocks = closed(updates(ToolProtocol::Xml, texts(&cut(&answer, &cuts)), true));
        let params = object(json!({ "path": "p", "content": format!("{content}\n") }));
        let name = "write_to_file".to_owned();
        assert_eq!(blocks, [Block::Call { id: None, name, params, fenced: false, problem: None }]);
    }

    /// The last word has the end of the answer: a value is whole, or its call has a problem.
    #[test]
    fn no_file_is_cut_short(content in hostile(30), other in hostile(4)) {
        let call = |content: &str| {
            format!("<write_to_file>\n<path>p</path>\n<content>\n{content}\n</content>\n</write_to_file>")
        };
        // A quoted call is told by what follows its tag; without its own end it can't be told from the next call.
        let mut content = content;
        for tag in ["<write_to_file>", "<invoke name=\"write_to_file\">"] {
            content = content.replace(tag, &format!("{tag}."));
        }
        prop_assume!(!content.starts_with("<![CDATA["));
        let content = content.as_str();
        for answer in [call(content), format!("{}\n{other}", call(content))] {
            let blocks = closed(updates(ToolProtocol::Xml, texts(&[&answer]), true));
            let Some(Block::Call { params, problem, .. }) = blocks.first() else { panic!("{blocks:?}") };
            let whole = params.get("content").is_some_and(|sent| sent.as_str().unwrap().starts_with(content));
            prop_assert!(problem.is_some() || whole, "{answer}\n{blocks:?}");
        }
    }

    #[test]
    fn of_any_text_in_a_file(content in "\\PC*") {
        prop_assume!(is_carried(&content));
        let answer = format!("<write_to_file><path>p</path><content>{content}</content></write_to_file>");
        match closed(updates(ToolProtocol::Xml, characters(&answer), true)).as_slice() {
            [Block::Call { params, problem: None, .. }] => assert_eq!(params["content"], json!(content)),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn of_native_arguments(
        values in vec(hostile(10), 0..4),
        escaped: bool,
        noise in vec((any::<Index>(), select(&["\"", "\\", "{", "}", ",", "\\ud83d", "\\u00e9", "x"][..])), 0..2),
        cuts in vec(any::<Index>(), 0..12),
        complete: bool,
    ) {
        let params: Map<String, Value> =
            values.iter().enumerate().map(|(index, value)| (format!("p{index}\n"), json!(value))).collect();
        let mut json = serde_json::to_string(&params).unwrap();
        if escaped {
            let escape = |unit: u16| if unit < 0x80 { char::from(unit as u8).to_string() } else { format!("\\u{unit:04x}") };
            json = json.encode_utf16().map(escape).collect();
        }
        let valid = noise.is_empty();
        for (at, noise) in noise {
            let at = (0..=at.index(json.len() + 1)).rev().find(|at| json.is_char_boundary(*at)).unwrap();
            json.insert_str(at, noise);
        }
        let stream = |pieces: Vec<String>| {
            let name = "t".to_owned();
            let mut events = vec![StreamEvent::CallStart { index: 3, id: "1".to_owned(), name }];
            events.extend(pieces.into_iter().map(|text| StreamEvent::CallArguments { index: 3, text }));
            events.push(StreamEvent::CallStart { index: 4, id: "2".to_owned(), name: "u".to_owned() });
            updates(ToolProtocol::Native, events, complete)
        };
        let whole = merged(stream(vec![json.clone()]));
        assert_eq!(&merged(stream(cut(&json, &cuts).into_iter().map(str::to_owned).collect())), &whole);
        assert_eq!(&merged(stream(json.chars().map(String::from).collect())), &whole);
        if valid {
            assert_shown_is_closed(&whole);
            let (id, name) = (Some("1".to_owned()), "t".to_owned());
            assert_eq!(&closed(whole)[0], &Block::Call { id, name, params, fenced: false, problem: None });
        }
    }
}
