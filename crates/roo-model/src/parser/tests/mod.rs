//! The parser as a whole: what a stream means, however it is cut.

mod chunking;
mod native;
mod tags;

use serde_json::{Map, Value, json};

use super::{Block, StreamEvent, StreamParser, Update, json_calls};
use roo_catalog::ToolProtocol;

/// Everything that these events lead to.
fn updates(protocol: ToolProtocol, events: Vec<StreamEvent>, complete: bool) -> Vec<Update> {
    let mut parser = StreamParser::new(protocol);
    let mut out = Vec::new();
    for event in events {
        // Apart, so that deltas of different pieces stay apart.
        let mut step = Vec::new();
        parser.push(event, &mut step);
        out.append(&mut step);
    }
    let mut last = Vec::new();
    parser.finish(complete, &mut last);
    out.append(&mut last);
    out
}

/// The same with neighbouring deltas put together: what any chunking has in common.
fn merged(updates: Vec<Update>) -> Vec<Update> {
    let mut out = Vec::new();
    for update in updates {
        match update {
            Update::TextDelta(text) => Update::text(&text, &mut out),
            Update::ThinkingDelta(text) => Update::thinking(&text, &mut out),
            Update::ParameterDelta { parameter, text } => Update::parameter(&parameter, &text, &mut out),
            other => out.push(other),
        }
    }
    out
}

fn closed(updates: Vec<Update>) -> Vec<Block> {
    let block = |update| match update {
        Update::Closed(block) => Some(block),
        _ => None,
    };
    updates.into_iter().filter_map(block).collect()
}

/// Holds that what was shown of every block is that block.
fn assert_shown_is_closed(updates: &[Update]) {
    let (mut text, mut thinking, mut params) = (String::new(), String::new(), Map::new());
    for update in updates {
        match update {
            Update::TextDelta(more) => text.push_str(more),
            Update::ThinkingDelta(more) => thinking.push_str(more),
            Update::ParameterDelta { parameter, text } => {
                let shown = params.entry(&**parameter).or_insert_with(|| json!(""));
                *shown = json!(format!("{}{text}", shown.as_str().unwrap()));
            }
            Update::CallBegun { .. } => params.clear(),
            Update::Closed(Block::Text(closed)) => assert_eq!(&std::mem::take(&mut text), closed),
            Update::Closed(Block::Thinking { text, .. }) => assert_eq!(&std::mem::take(&mut thinking), text),
            Update::Closed(Block::Call { params: closed, problem, .. }) => {
                for (name, value) in closed.iter().filter(|(_, value)| value.is_string()) {
                    assert_eq!(params.get(name).unwrap_or(&json!("")), value);
                }
                assert!(problem.is_some() || params.keys().all(|name| closed.contains_key(name)));
            }
        }
    }
    assert!(text.is_empty() && thinking.is_empty(), "shown, but not closed: {text:?} {thinking:?}");
}

fn text(text: &str) -> Block {
    Block::Text(text.to_owned())
}

fn thinking(text: &str) -> Block {
    Block::Thinking { text: text.to_owned(), opaque: None }
}

fn object(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}
