//! The stream of a model: however its text is cut, the same blocks come of it, and what was shown while it
//! came is what they hold.

use roo_catalog::ToolProtocol;
use roo_model::parser::{Block, StreamEvent, StreamParser, Update};

use crate::{Input, cuts};

/// Pieces that meet in hostile ways.
const PIECES: [&str; 38] = [
    "<write_to_file>",
    "</write_to_file>",
    "<path>",
    "</path>",
    "<content>",
    "</content>",
    "<read_file>",
    "</read_file>",
    "<args>",
    "</args>",
    "<tool_call>",
    "</tool_call>",
    "<function_calls>",
    "<invoke name=\"write_to_file\">",
    "</invoke>",
    "<parameter name=\"content\">",
    "</parameter>",
    "<thinking>",
    "</thinking>",
    "<think>",
    "```",
    "```xml\n",
    "\n",
    "\r\n",
    " ",
    "<",
    "</",
    "&lt;",
    "é",
    "{\"path\":\"a\"}",
    "<function=write_to_file>",
    "<parameter=content>",
    "</function>",
    "<tool_call>{\"name\":\"write_to_file\",\"arguments\":",
    "<reason>",
    "</reason>",
    "<![CDATA[",
    "]]>",
];

/// The property.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let seed = input.byte();
    let flags = input.byte();
    let protocol = if flags & 1 == 0 { ToolProtocol::Xml } else { ToolProtocol::Native };
    let is_complete = flags & 2 == 0;
    let events = events(&mut input);
    let whole = updates(protocol, events.iter().cloned(), is_complete);
    let parted = updates(protocol, events.iter().flat_map(|event| parts(event, seed)), is_complete);
    let blocks = |updates: &[Update]| -> Vec<Block> {
        let closed = updates.iter().filter_map(|update| match update {
            Update::Closed(block) => Some(block.clone()),
            _ => None,
        });
        closed.collect()
    };
    assert_eq!(blocks(&parted), blocks(&whole));
    assert_eq!(shown(&parted), shown(&whole));
}

fn events(input: &mut Input<'_>) -> Vec<StreamEvent> {
    let mut events = Vec::new();
    while !input.is_empty() {
        let index = u32::from(input.byte() % 3);
        events.push(match input.byte() % 16 {
            0 => StreamEvent::Thinking(text(input)),
            1 => StreamEvent::ThinkingEnd(None),
            2 => StreamEvent::CallStart { index, id: format!("c{index}"), name: "read_file".into() },
            3 => StreamEvent::CallArguments { index, text: text(input) },
            4 => StreamEvent::CallEnd { index },
            _ => StreamEvent::Text(text(input)),
        });
    }
    events
}

fn text(input: &mut Input<'_>) -> String {
    match usize::from(input.byte()) {
        choice if choice < 200 => PIECES[choice % PIECES.len()].to_owned(),
        choice => String::from_utf8_lossy(input.bytes(choice - 199)).into_owned(),
    }
}

/// The same event in pieces.
fn parts(event: &StreamEvent, seed: u8) -> Vec<StreamEvent> {
    let split = |text: &str| -> Vec<String> {
        let at = cuts(text.len(), seed).into_iter().filter(|at| text.is_char_boundary(*at));
        let at: Vec<usize> = std::iter::once(0).chain(at).chain([text.len()]).collect();
        at.windows(2).map(|pair| text[pair[0]..pair[1]].to_owned()).collect()
    };
    match event {
        StreamEvent::Text(text) => split(text).into_iter().map(StreamEvent::Text).collect(),
        StreamEvent::Thinking(text) => split(text).into_iter().map(StreamEvent::Thinking).collect(),
        StreamEvent::CallArguments { index, text } => {
            split(text).into_iter().map(|text| StreamEvent::CallArguments { index: *index, text }).collect()
        }
        other => vec![other.clone()],
    }
}

fn updates(
    protocol: ToolProtocol,
    events: impl Iterator<Item = StreamEvent>,
    is_complete: bool,
) -> Vec<Update> {
    let mut parser = StreamParser::new(protocol);
    let mut out = Vec::new();
    events.for_each(|event| parser.push(event, &mut out));
    parser.finish(is_complete, &mut out);
    out
}

/// All that was shown, neighbours put together.
fn shown(updates: &[Update]) -> Vec<(String, String)> {
    let mut shown: Vec<(String, String)> = Vec::new();
    for update in updates {
        let (kind, text) = match update {
            Update::TextDelta(text) => ("text".to_owned(), text.clone()),
            Update::ThinkingDelta(text) => ("thinking".to_owned(), text.clone()),
            Update::CallBegun { name } => (format!("call {name}"), String::new()),
            Update::ParameterDelta { parameter, text } => (format!("parameter {parameter}"), text.clone()),
            Update::Closed(_) => ("closed".to_owned(), String::new()),
        };
        match shown.last_mut() {
            Some((last, all)) if *last == kind && !text.is_empty() => all.push_str(&text),
            _ => shown.push((kind, text)),
        }
    }
    shown
}
