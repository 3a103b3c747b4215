//! One answer's parser: text, thinking and native calls put together.

use serde_json::Value;

use super::native::NativeCalls;
use super::tags::{Markup, Scanner};
use super::{Block, StreamEvent, ToolProtocol, Update};

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
}

impl StreamParser {
    /// A parser for an answer to a request with this protocol. Native calls are read in both; tags in
    /// text are calls in [`ToolProtocol::Xml`], and in [`ToolProtocol::Native`] only when no native
    /// call comes, they stand at line start outside code fences, and all of them are complete.
    pub fn new(protocol: ToolProtocol) -> Self {
        let markup = match protocol {
            ToolProtocol::Native => Markup::Withheld,
            ToolProtocol::Xml => Markup::Calls,
        };
        Self { scanner: Scanner::new(markup), native: NativeCalls::default(), thinking: None }
    }

    /// Reads the next piece of the stream; what it led to is added to `out`.
    pub fn push(&mut self, event: StreamEvent, out: &mut Vec<Update>) {
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
        self.end_thinking(None, out);
        self.native.finish(complete, out);
        self.scanner.finish(complete, out);
    }

    fn end_thinking(&mut self, opaque: Option<Value>, out: &mut Vec<Update>) {
        let text = self.thinking.take().unwrap_or_default();
        if !text.is_empty() || opaque.is_some() {
            out.push(Update::Closed(Block::Thinking { text, opaque }));
        }
    }
}
