//! One answer's parser: text, thinking and native calls put together.

use serde_json::Value;

use super::native::NativeCalls;
use super::tags::{Markup, Scanner};
use super::{Block, StreamEvent, Update};
use roo_catalog::ToolProtocol;

/// Parses one answer.
///
/// Deltas of a block, put together, are the block that is closed later; what may still turn out to be
/// markup is not shown. Calls are told one after the other.
#[derive(Debug)]
pub struct StreamParser {
    scanner: Scanner,
    native: NativeCalls,
    /// The provider's thinking in hand.
    thinking: Option<String>,
    /// A call in a code block and what came since: it is an example if anything but such calls follows.
    in_code: Vec<Update>,
}

/// Reason why a call isn't run that an answer shows before it goes on, worded for the model.
const EXAMPLE: &str = "it is in a code block and more text follows, so it is treated as an example. If you mean it, \
                       make it \
                       the end of your answer, outside of code blocks";

impl StreamParser {
    /// A parser for an answer to a request with this protocol. Native calls are read in both; tags in
    /// text are calls in [`ToolProtocol::Xml`], and in [`ToolProtocol::Native`] only when no native
    /// call comes, they stand at line start outside code fences, and all of them are complete.
    pub fn new(protocol: ToolProtocol) -> Self {
        let markup = match protocol {
            ToolProtocol::Native => Markup::Withheld,
            ToolProtocol::Xml => Markup::Calls,
        };
        Self {
            scanner: Scanner::new(markup),
            native: NativeCalls::default(),
            thinking: None,
            in_code: vec![],
        }
    }

    /// Reads the next piece of the stream; what it led to is added to `out`.
    pub fn push(&mut self, event: StreamEvent, out: &mut Vec<Update>) {
        let before = out.len();
        self.read(event, out);
        let is_held = |update: &Update| matches!(update, Update::Closed(Block::Call { fenced: true, .. }));
        if !self.in_code.is_empty() || out.iter().skip(before).any(is_held) {
            let read = out.split_off(before);
            hold(&mut self.in_code, read, out);
        }
    }

    fn read(&mut self, event: StreamEvent, out: &mut Vec<Update>) {
        match event {
            // Some endpoints send both in every piece, one of them empty: that ends nothing.
            StreamEvent::Text(text) | StreamEvent::Thinking(text) if text.is_empty() => {}
            StreamEvent::Text(text) => {
                self.end_thinking(None, out);
                self.scanner.push(&text, out);
            }
            StreamEvent::Thinking(text) => {
                self.scanner.interrupt(out);
                Update::thinking(&text, out);
                self.thinking.get_or_insert_default().push_str(&text);
            }
            StreamEvent::ThinkingEnd(None) if self.thinking.is_none() => {}
            StreamEvent::ThinkingEnd(opaque) => {
                self.scanner.interrupt(out);
                self.end_thinking(opaque, out);
            }
            StreamEvent::CallStart { index, id, name } => {
                self.end_thinking(None, out);
                self.scanner.native_call(out);
                self.native.start(index, id, name, out);
            }
            StreamEvent::CallArguments { index, text } => self.native.arguments(index, &text, out),
            StreamEvent::CallEnd { index } => self.native.end(index, out),
        }
    }

    /// The stream has ended. `complete` says that the answer came to its end; of an answer that was
    /// cut, calls that are open vanish, and text and thinking are closed as far as they came.
    pub fn finish(mut self, complete: bool, out: &mut Vec<Update>) {
        let mut read = Vec::new();
        self.end_thinking(None, &mut read);
        let Self { scanner, native, mut in_code, .. } = self;
        native.finish(complete, &mut read);
        scanner.finish(complete, &mut read);
        hold(&mut in_code, read, out);
        out.append(&mut in_code);
    }

    fn end_thinking(&mut self, opaque: Option<Value>, out: &mut Vec<Update>) {
        let text = self.thinking.take().unwrap_or_default();
        if !text.is_empty() || opaque.is_some() {
            out.push(Update::Closed(Block::Thinking { text, opaque }));
        }
    }
}

/// Passes updates on, but for calls in code blocks and what follows them: whether they count is known when it is
/// known what follows.
fn hold(in_code: &mut Vec<Update>, updates: Vec<Update>, out: &mut Vec<Update>) {
    for update in updates {
        match update {
            Update::Closed(Block::Call { fenced: true, .. }) => in_code.push(update),
            _ if in_code.is_empty() => out.push(update),
            Update::TextDelta(_) | Update::Closed(Block::Text(_) | Block::Call { .. }) => {
                out.extend(in_code.drain(..).map(as_example));
                out.push(update);
            }
            update => in_code.push(update),
        }
    }
}

fn as_example(update: Update) -> Update {
    match update {
        Update::Closed(Block::Call { id, name, params, fenced: true, problem }) => {
            let problem = problem.or_else(|| Some(EXAMPLE.to_owned()));
            Update::Closed(Block::Call { id, name, params, fenced: true, problem })
        }
        update => update,
    }
}
