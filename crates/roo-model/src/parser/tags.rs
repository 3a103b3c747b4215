//! Tool calls in text: XML-like tags, read as they stream.
//!
//! The grammar is the tools' own: a tool's tag, its parameters' tags, nothing nested. Inside a
//! parameter everything is data until its closing tag, and that tag counts only when another
//! parameter or the end of the call follows, so that a file may hold `</content>`; what a file may hold beyond that is
//! settled by [`call_end`]. Unknown tags are text; behind a parameter that holds no text of files, an element that is no
//! parameter is dropped. Text that may still turn out to be markup is buffered and
//! not shown: at most a beginning (fence, wrapper, tool tag), a closing tag, and white space after them.

mod call_end;

use std::sync::Arc;

use serde_json::{Map, Value};

use call_end::{PresumedEnd, Quotes};

use super::growing::Growing;
use super::json_call::{self, JsonCall, ObjectReader};
use super::lexer::{Lexer, Tag, Token};
use super::{Block, Update};
use roo_catalog::{TagSpace, ToolName, is_verbatim, tag_space};
use roo_text::work;

/// Meaning of tool tags in text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Markup {
    /// Calls: tags are the protocol.
    Calls,
    /// Calls if no native call comes and all of them are complete: at line start and outside code
    /// fences. Known at the end of the answer only.
    Withheld,
    /// Withheld text, read again as calls.
    Again,
    Text,
}

/// The reader of an answer's text.
#[derive(Debug)]
pub(super) struct Scanner {
    lexer: Lexer,
    markup: Markup,
    text: Text,
    state: ParserState,
    /// A call whose end is only presumed.
    ended: Option<Box<PresumedEnd>>,
    /// All since the first such call, once another one has begun.
    held_back: Vec<Update>,
}

#[derive(Debug)]
enum ParserState {
    Text,
    Thinking {
        /// The tag's name: `thinking` or `think`.
        name: &'static str,
        text: Growing,
    },
    Call(Box<OpenCall>),
    /// All text since the first call in it.
    Withheld(String),
}

impl Scanner {
    pub(super) fn new(markup: Markup) -> Self {
        Self {
            lexer: Lexer::new(),
            markup,
            text: Text::new(),
            state: ParserState::Text,
            ended: None,
            held_back: Vec::new(),
        }
    }

    /// Reads more text.
    pub(super) fn push(&mut self, piece: &str, out: &mut Vec<Update>) {
        let Self { lexer, markup, text, state, ended, held_back } = self;
        lexer.push(piece, |token| {
            if let Some(call) = ended {
                call.read(token, *markup);
                if call.is_followed()
                    && let Some(call) = ended.take()
                {
                    (*text, *state) = call.end(held_back);
                }
                return;
            }
            let out = if held_back.is_empty() { &mut *out } else { &mut *held_back };
            if let (Some(call), Token::Tag(tag)) = (state.token(token, text, *markup, out), token) {
                match PresumedEnd::new(call, tag, text) {
                    Ok(call) => *ended = Some(Box::new(call)),
                    Err(call) => call.close(None, out),
                }
            }
        });
    }

    /// Another block begins: closes the text or thinking in hand. A call goes on.
    pub(super) fn interrupt(&mut self, out: &mut Vec<Update>) {
        self.settle(true, out);
        if matches!(self.state, ParserState::Text | ParserState::Thinking { .. }) {
            let held = self.lexer.take_held();
            self.state.data(&held, &mut self.text, self.markup, out);
            if let ParserState::Thinking { text, .. } = &mut self.state {
                close_thinking(text, out);
                self.state = ParserState::Text;
            }
            self.text.close(self.markup, out);
        }
    }

    /// Settles where the last call has ended, and gives out what was buffered for that.
    fn settle(&mut self, complete: bool, out: &mut Vec<Update>) {
        let mut before = std::mem::take(&mut self.held_back);
        match self.ended.take() {
            Some(call) => {
                (self.text, self.state) = call.resolve(&mut self.lexer, complete, before, out);
            }
            None => out.append(&mut before),
        }
    }

    /// A native call has come: from here on, and back to what was withheld, tags are text.
    pub(super) fn native_call(&mut self, out: &mut Vec<Update>) {
        if self.markup == Markup::Withheld {
            self.markup = Markup::Text;
            if let ParserState::Withheld(raw) = &self.state {
                self.text.show(raw, out);
                self.state = ParserState::Text;
            }
        }
        self.interrupt(out);
    }

    /// The answer has ended. Of a cut answer the call in hand vanishes.
    pub(super) fn finish(mut self, complete: bool, out: &mut Vec<Update>) {
        if self.ended.is_some() {
            self.settle(complete, out);
        }
        let held = self.lexer.take_held();
        let mut before = self.held_back;
        if !matches!(self.state, ParserState::Call(_)) {
            out.append(&mut before);
        }
        match self.state {
            ParserState::Call(call) => {
                let mut last = Vec::new();
                if complete {
                    // Where tags are a fallback only whole calls count.
                    call.finish(&held, self.markup == Markup::Calls, &mut last);
                }
                // It may be a part of those before.
                if last.iter().any(is_broken) {
                    let unclear = "a call without an end follows it, so it is unclear where it ends";
                    call_end::refuse(&mut before, unclear);
                }
                out.append(&mut before);
                out.append(&mut last);
            }
            ParserState::Withheld(raw) => finish_withheld(raw + &held, complete, self.text, out),
            ParserState::Text if complete && self.text.unended_json_call(&held).is_some() => {
                if let Some(call) = self.text.unended_json_call(&held)
                    && let After::Entered(ParserState::Withheld(raw)) =
                        self.text.json_call(call, self.markup, out)
                {
                    finish_withheld(raw, complete, self.text, out);
                } else {
                    self.text.close(self.markup, out);
                }
            }
            ParserState::Text if self.text.is_unfinished_wrapper(&held) => self.text.close(self.markup, out),
            ParserState::Text | ParserState::Thinking { .. } => {
                self.state.data(&held, &mut self.text, self.markup, out);
                if let ParserState::Thinking { mut text, .. } = self.state {
                    let reads_again = complete && matches!(self.markup, Markup::Calls | Markup::Withheld);
                    let mut calls = if reads_again { calls_at_end(text.text()) } else { vec![] };
                    close_thinking(&mut text, out);
                    out.append(&mut calls);
                }
                self.text.close(self.markup, out);
            }
        }
    }
}

/// The answer has ended with text that was withheld.
fn finish_withheld(raw: String, complete: bool, mut text: Text, out: &mut Vec<Update>) {
    match withheld_calls(&raw).filter(|_| complete) {
        Some(mut updates) => {
            text.close(Markup::Withheld, out);
            out.append(&mut updates);
        }
        None => {
            text.show(&raw, out);
            text.close(Markup::Withheld, out);
        }
    }
}

/// The calls with which thinking ends that was never closed: whole ones at line start, and nothing behind them. What comes
/// before them was thought.
fn calls_at_end(thinking: &str) -> Vec<Update> {
    let mut updates = withheld_calls(thinking).unwrap_or_default();
    let is_call = |update: &Update| {
        matches!(
            update,
            Update::CallBegun { .. } | Update::ParameterDelta { .. } | Update::Closed(Block::Call { .. })
        )
    };
    let before = updates.iter().rposition(|update| !is_call(update)).map_or(0, |last| last + 1);
    updates.split_off(before)
}

/// The updates of withheld text; none when one of its calls is not complete.
fn withheld_calls(raw: &str) -> Option<Vec<Update>> {
    let mut updates = Vec::new();
    let mut scanner = Scanner::new(Markup::Again);
    scanner.push(raw, &mut updates);
    scanner.finish(true, &mut updates);
    (!updates.iter().any(is_broken)).then_some(updates)
}

fn is_broken(update: &Update) -> bool {
    matches!(update, Update::Closed(Block::Call { problem: Some(_), .. }))
}

fn close_thinking(text: &mut Growing, out: &mut Vec<Update>) {
    let (text, rest) = text.finish();
    Update::thinking(&rest, out);
    if !text.is_empty() {
        out.push(Update::Closed(Block::Thinking { text, opaque: None }));
    }
}

impl ParserState {
    fn data(&mut self, data: &str, text: &mut Text, markup: Markup, out: &mut Vec<Update>) {
        match self {
            Self::Text => text.data(data, markup, out),
            Self::Thinking { text, .. } => Update::thinking(text.push(data), out),
            Self::Call(call) => call.data(data, out),
            Self::Withheld(raw) => {
                work::add(data.len());
                raw.push_str(data);
            }
        }
    }

    /// Returns the call that the token ends, to be closed.
    fn token(
        &mut self,
        token: Token<'_>,
        text: &mut Text,
        markup: Markup,
        out: &mut Vec<Update>,
    ) -> Option<Box<OpenCall>> {
        match token {
            Token::Data(data) => {
                self.data(data, text, markup, out);
                None
            }
            Token::Tag(tag) => self.tag(tag, text, markup, out),
        }
    }

    fn tag(
        &mut self,
        tag: Tag<'_>,
        text: &mut Text,
        markup: Markup,
        out: &mut Vec<Update>,
    ) -> Option<Box<OpenCall>> {
        match self {
            Self::Text => match text.tag(tag, markup, out) {
                After::Text => {}
                After::Entered(state) => *self = state,
                After::Confirmed(state) => {
                    *self = state;
                    return self.tag(tag, text, markup, out);
                }
            },
            Self::Thinking { name, text } if tag.closing && tag.name == *name => {
                close_thinking(text, out);
                *self = Self::Text;
            }
            Self::Call(call) => {
                if call.tag(tag, out)
                    && let Self::Call(call) = std::mem::replace(self, Self::Text)
                {
                    return Some(call);
                }
            }
            Self::Thinking { .. } | Self::Withheld(_) => self.data(tag.raw, text, markup, out),
        }
        None
    }
}

/// Continuation after a tag in text.
enum After {
    Text,
    /// The tag is consumed.
    Entered(ParserState),
    /// An earlier tool tag counts because of this tag, which is the first of the call.
    Confirmed(ParserState),
}

/// The text between calls.
#[derive(Debug)]
struct Text {
    block: Growing,
    line: LineStart,
    /// Columns of white space at the beginning of the line in hand.
    indent: usize,
    fence: Option<Fence>,
    /// Text that is dropped when it leads to a call, and shown otherwise.
    beginning: Option<Beginning>,
    /// The last call stood in a wrapper that is still open.
    wrapped: bool,
}

/// Beginning of the current line.
#[derive(Debug)]
enum LineStart {
    /// With nothing but white space so far.
    Blank,
    /// With what may be a fence; buffered until that is known.
    Fence { raw: String, marker: char, count: usize, in_info: bool },
    /// With text.
    Text,
}

/// An open code fence.
#[derive(Clone, Copy, Debug)]
struct Fence {
    marker: char,
    count: usize,
    /// It stands around calls and is not shown.
    dropped: bool,
}

/// Possible beginning of a call: a fence, a wrapper, the tool's tag.
#[derive(Debug, Default)]
struct Beginning {
    raw: String,
    at_line_start: bool,
    fence: Option<Fence>,
    wrapper: bool,
    /// The tool's tag came, but only what follows will tell whether it is a call.
    head: Option<Head>,
    /// The object in a wrapper, and where in `raw` it begins.
    json: Option<(usize, ObjectReader)>,
}

impl Beginning {
    /// Takes text that belongs to a JSON object in a wrapper; false where it is none.
    fn take_json(&mut self, text: &str, markup: Markup) -> bool {
        let may_begin = self.at_line_start
            && markup != Markup::Text
            && self.raw.trim_end().ends_with(&format!("<{}>", json_call::TAG));
        if self.json.is_none() && may_begin && text.starts_with('{') {
            self.json = Some((self.raw.len(), ObjectReader::default()));
        }
        let Some((_, reader)) = &mut self.json else { return false };
        if !reader.read(text) {
            return false;
        }
        self.raw.push_str(text);
        true
    }

    /// The JSON object in it, if that is whole.
    fn json(&self) -> Option<&str> {
        let (start, reader) = self.json.as_ref()?;
        self.raw.get(*start..).filter(|_| reader.is_whole())
    }
}

/// Indentation that makes code without a fence, in columns.
const CODE_INDENT: usize = 4;

/// A longer line is no fence. Bounds what is buffered.
const MAX_FENCE_BYTES: usize = 256;

impl Text {
    fn new() -> Self {
        Self {
            block: Growing::new(TagSpace::Blank),
            line: LineStart::Blank,
            indent: 0,
            fence: None,
            beginning: None,
            wrapped: false,
        }
    }

    fn show(&mut self, text: &str, out: &mut Vec<Update>) {
        Update::text(self.block.push(text), out);
    }

    fn data(&mut self, data: &str, markup: Markup, out: &mut Vec<Update>) {
        let mut rest = data;
        while let Some(first) = rest.chars().next() {
            if let Some(beginning) = &mut self.beginning {
                if beginning.json.is_none() {
                    let text = rest.trim_start();
                    let (blank, _) = rest.split_at(rest.len() - text.len());
                    work::add(blank.len());
                    beginning.raw.push_str(blank);
                    rest = text;
                }
                if rest.is_empty() || beginning.take_json(rest, markup) {
                    return;
                }
                self.release(out);
                continue;
            }
            let taken = match self.line {
                LineStart::Blank if first.is_whitespace() => {
                    self.indent = match first {
                        '\n' => 0,
                        '\t' => self.indent + CODE_INDENT,
                        _ => self.indent + 1,
                    };
                    first.len_utf8()
                }
                LineStart::Blank if matches!(first, '`' | '~') => {
                    self.line =
                        LineStart::Fence { raw: String::new(), marker: first, count: 0, in_info: false };
                    continue;
                }
                LineStart::Blank => {
                    self.line = LineStart::Text;
                    continue;
                }
                LineStart::Fence { .. } => {
                    if self.hold_fence(first, markup, out) {
                        rest = rest.get(first.len_utf8()..).unwrap_or_default();
                    }
                    continue;
                }
                LineStart::Text => match rest.find('\n') {
                    Some(end) => {
                        (self.line, self.indent) = (LineStart::Blank, 0);
                        end + 1
                    }
                    None => rest.len(),
                },
            };
            let (shown, after) = rest.split_at(taken);
            self.show(shown, out);
            rest = after;
        }
    }

    /// Buffers one more character of what may be a fence; false when the line is none.
    fn hold_fence(&mut self, character: char, markup: Markup, out: &mut Vec<Update>) -> bool {
        let LineStart::Fence { raw, marker, count, in_info } = &mut self.line else { return false };
        work::add(1);
        *in_info |= character != *marker;
        // More backticks after a run of them: inline code.
        let inline = *in_info && (*count < 3 || character == '`' && *marker == '`');
        if inline || raw.len() >= MAX_FENCE_BYTES {
            self.release_fence(out);
            return false;
        }
        *count += usize::from(!*in_info);
        raw.push(character);
        if character == '\n' {
            self.end_fence_line(markup, out);
        }
        true
    }

    /// The line in hand is no fence.
    fn release_fence(&mut self, out: &mut Vec<Update>) {
        if let LineStart::Fence { raw, .. } = std::mem::replace(&mut self.line, LineStart::Text) {
            self.show(&raw, out);
        }
    }

    /// The line in hand is a fence, or text in one.
    fn end_fence_line(&mut self, markup: Markup, out: &mut Vec<Update>) {
        let LineStart::Fence { raw, marker, count, .. } = std::mem::replace(&mut self.line, LineStart::Blank)
        else {
            return;
        };
        match self.fence {
            Some(open) if open.marker == marker && count >= open.count && raw.trim_end().len() == count => {
                self.fence = None;
                if open.dropped {
                    return;
                }
            }
            Some(open) if !open.dropped => {}
            _ => {
                let fence = Some(Fence { marker, count, dropped: false });
                if markup == Markup::Calls {
                    self.fence = None;
                    self.beginning =
                        Some(Beginning { raw, at_line_start: true, fence, ..Beginning::default() });
                    return;
                }
                self.fence = fence;
            }
        }
        self.show(&raw, out);
    }

    /// Releases the possible beginning of a call as text.
    fn release(&mut self, out: &mut Vec<Update>) {
        let Some(Beginning { raw, fence, .. }) = self.beginning.take() else { return };
        self.fence = self.fence.or(fence);
        let last_line = raw.rsplit('\n').next().unwrap_or_default();
        self.line = if last_line.trim().is_empty() { LineStart::Blank } else { LineStart::Text };
        self.show(&raw, out);
    }

    fn tag(&mut self, tag: Tag<'_>, markup: Markup, out: &mut Vec<Update>) -> After {
        if let Some(beginning) = self.beginning.as_mut().filter(|beginning| beginning.json.is_some()) {
            let is_end = tag.closing && tag.name == json_call::TAG;
            if let Some(call) = beginning.json().filter(|_| is_end).and_then(JsonCall::read) {
                beginning.raw.push_str(tag.raw);
                return self.json_call(call, markup, out);
            }
            if beginning.take_json(tag.raw, markup) {
                return After::Text;
            }
            self.release(out);
        }
        if let Some(Beginning { head: Some(head), .. }) = &self.beginning {
            if head.closes(tag) || head.parameter(tag).is_some() {
                return After::Confirmed(self.enter(markup, out));
            }
            self.release(out);
        }
        let fenced = self.fence.is_some_and(|fence| !fence.dropped);
        let at_line_start = match &self.beginning {
            Some(beginning) => beginning.at_line_start,
            None => matches!(self.line, LineStart::Blank),
        };
        // Whatever begins like a fence is followed by its language, not by markup.
        if fenced || matches!(self.line, LineStart::Fence { .. }) {
            return self.not_markup(tag, markup, out);
        }
        if at_line_start
            && !tag.closing
            && self.beginning.is_none()
            && let Some(name) = ["thinking", "think"].into_iter().find(|name| *name == tag.name)
        {
            self.close(markup, out);
            return After::Entered(ParserState::Thinking { name, text: Growing::new(TagSpace::Blank) });
        }
        let counts = match markup {
            Markup::Calls => at_line_start || !self.block.ends_with(&['`', '"', '\'']),
            Markup::Withheld | Markup::Again => at_line_start,
            Markup::Text => false,
        };
        if !counts {
            return self.not_markup(tag, markup, out);
        }
        let wrapper = matches!(tag.name, "tool_call" | "function_calls");
        if wrapper && tag.closing && self.wrapped && self.beginning.is_none() {
            self.wrapped = false;
            return After::Text;
        }
        let head = Head::from_tag(tag);
        if head.is_none() && (!wrapper || tag.closing) {
            return self.not_markup(tag, markup, out);
        }
        if wrapper && self.beginning.as_ref().is_some_and(|beginning| beginning.wrapper) {
            self.release(out);
        }
        let beginning =
            self.beginning.get_or_insert_with(|| Beginning { at_line_start, ..Beginning::default() });
        work::add(tag.raw.len());
        beginning.raw.push_str(tag.raw);
        beginning.wrapper |= wrapper;
        beginning.head = head;
        if beginning.head.is_some() && beginning.at_line_start && markup == Markup::Calls {
            return After::Entered(self.enter(markup, out));
        }
        After::Text
    }

    fn not_markup(&mut self, tag: Tag<'_>, markup: Markup, out: &mut Vec<Update>) -> After {
        self.data(tag.raw, markup, out);
        After::Text
    }

    /// Enters a call with the withheld beginning.
    fn enter(&mut self, markup: Markup, out: &mut Vec<Update>) -> ParserState {
        let Some(Beginning { raw, fence, wrapper, head: Some(head), .. }) = self.beginning.take() else {
            return ParserState::Text;
        };
        if markup == Markup::Withheld {
            return ParserState::Withheld(raw);
        }
        let indented = self.indent >= CODE_INDENT && !self.wrapped;
        self.close(markup, out);
        self.fence = self.fence.or(fence.map(|fence| Fence { dropped: true, ..fence }));
        self.wrapped |= wrapper;
        out.push(Update::CallBegun { name: head.name.clone() });
        ParserState::Call(Box::new(OpenCall {
            head,
            params: Map::new(),
            parameter: None,
            fenced: self.fence.is_some() || indented,
            quotes: Quotes::default(),
            quoted: 0,
            loose: false,
            verbatim_before: false,
        }))
    }

    /// A call in the form of JSON has ended.
    fn json_call(&mut self, call: JsonCall, markup: Markup, out: &mut Vec<Update>) -> After {
        let Some(Beginning { raw, fence, .. }) = self.beginning.take() else { return After::Text };
        if markup == Markup::Withheld {
            return After::Entered(ParserState::Withheld(raw));
        }
        let indented = self.indent >= CODE_INDENT;
        self.close(markup, out);
        self.fence = self.fence.or(fence.map(|fence| Fence { dropped: true, ..fence }));
        let JsonCall { name, params, problem } = call;
        out.push(Update::CallBegun { name: name.clone() });
        for (name, value) in &params {
            Update::parameter(&name.as_str().into(), value.as_str().unwrap_or_default(), out);
        }
        let fenced = self.fence.is_some() || indented;
        out.push(Update::Closed(Block::Call { id: None, name, params, fenced, problem }));
        After::Text
    }

    /// The call in the form of JSON that is whole but for the end of the tag around it.
    fn unended_json_call(&self, held: &str) -> Option<JsonCall> {
        let is_end = format!("</{}>", json_call::TAG).starts_with(held);
        self.beginning.as_ref().filter(|_| is_end)?.json().and_then(JsonCall::read)
    }

    /// Returns whether this is the unfinished end of a wrapper whose call is closed.
    fn is_unfinished_wrapper(&self, held: &str) -> bool {
        let starts = |name: &str| held.strip_prefix("</").is_some_and(|start| name.starts_with(start));
        self.wrapped && self.beginning.is_none() && (starts("tool_call") || starts("function_calls"))
    }

    /// The text is complete.
    fn close(&mut self, markup: Markup, out: &mut Vec<Update>) {
        match self.line {
            LineStart::Fence { count, .. } if count >= 3 => self.end_fence_line(markup, out),
            _ => self.release_fence(out),
        }
        self.release(out);
        (self.line, self.indent) = (LineStart::Blank, 0);
        let (text, rest) = self.block.finish();
        Update::text(&rest, out);
        if !text.is_empty() {
            out.push(Update::Closed(Block::Text(text)));
        }
    }
}

/// A tool's opening tag.
#[derive(Debug)]
struct Head {
    tool: ToolName,
    /// As sent.
    name: String,
    form: CallSyntax,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallSyntax {
    /// `<read_file>` with `<path>`.
    Tool,
    /// `<invoke name="read_file">` with `<parameter name="path">`, or with `<path>`.
    Invoke,
    /// `<function=read_file>` with `<parameter=path>`, the form of Qwen3-Coder.
    Function,
}

impl Head {
    fn from_tag(tag: Tag<'_>) -> Option<Self> {
        let (name, form) = match tag.name {
            _ if tag.closing => return None,
            "invoke" => (tag.attribute?, CallSyntax::Invoke),
            "function" => (tag.attribute?, CallSyntax::Function),
            name => (name, CallSyntax::Tool),
        };
        Some(Self { tool: ToolName::parse(name)?, name: name.to_owned(), form })
    }

    fn tag_name(&self) -> &str {
        match self.form {
            CallSyntax::Tool => &self.name,
            CallSyntax::Invoke => "invoke",
            CallSyntax::Function => "function",
        }
    }

    fn closes(&self, tag: Tag<'_>) -> bool {
        tag.closing
            && match self.form {
                CallSyntax::Tool => ToolName::parse(tag.name) == Some(self.tool),
                CallSyntax::Invoke | CallSyntax::Function => tag.name == self.tag_name(),
            }
    }

    /// The parameter that this tag opens.
    fn parameter<'a>(&self, tag: Tag<'a>) -> Option<&'a str> {
        let spec = self.tool.spec();
        match tag.name {
            _ if tag.closing => None,
            "parameter" if self.form != CallSyntax::Tool => tag.attribute,
            name => (spec.parameters.iter().any(|parameter| parameter.name == name)
                || spec.legacy_parameters.contains(&name))
            .then_some(name),
        }
    }
}

/// The call in hand.
#[derive(Debug)]
struct OpenCall {
    head: Head,
    params: Map<String, Value>,
    parameter: Option<Parameter>,
    /// True if it stands in a code block.
    fenced: bool,
    quotes: Quotes,
    /// Number of calls like this one that its values open.
    quoted: usize,
    /// True if text stands between its tag and its first parameter.
    loose: bool,
    /// True if a parameter follows one that may hold any text.
    verbatim_before: bool,
}

/// The parameter in hand.
#[derive(Debug)]
struct Parameter {
    name: Arc<str>,
    /// `path`, or `parameter` in the forms in which that has a name.
    tag_name: String,
    value: Growing,
    /// True if it may hold any text.
    verbatim: bool,
    closing: Option<ClosingTag>,
    /// A closing tag came that was data.
    doubtful: bool,
    /// The first tag after a closing tag that is no parameter's.
    unknown: Option<String>,
}

/// The closing tag of a parameter, and what was sent since: the end, or data, depending on what follows.
#[derive(Debug)]
struct ClosingTag {
    raw: String,
    /// The element in it that is no parameter and is still open.
    open: Option<String>,
}

impl OpenCall {
    fn data(&mut self, data: &str, out: &mut Vec<Update>) {
        self.quotes.data(data);
        match &mut self.parameter {
            Some(parameter) => parameter.data(data, out),
            // Text between the tags of a call means nothing.
            None => self.loose |= !data.trim_start().is_empty(),
        }
    }

    /// Returns whether the tag closes the call; its last parameter is still to be closed.
    fn tag(&mut self, tag: Tag<'_>, out: &mut Vec<Update>) -> bool {
        self.quoted += usize::from(self.quotes.tag(tag, &self.head));
        let opens = self.head.parameter(tag);
        if let Some(parameter) = &mut self.parameter {
            // A second `<path>` is data: a file may show calls.
            let opens_new =
                opens.is_some_and(|name| *name != *parameter.name && !self.params.contains_key(name));
            if !parameter.is_closed() || !(opens_new || self.head.closes(tag)) {
                let is_unknown = !tag.closing && opens.is_none() && Head::from_tag(tag).is_none();
                parameter.tag(tag, is_unknown, self.head.closes(tag), out);
                return false;
            }
            if !opens_new {
                return true;
            }
            self.verbatim_before |= parameter.verbatim;
            self.close_parameter(out);
        }
        if let Some(name) = opens {
            self.parameter = Some(Parameter {
                name: name.into(),
                tag_name: tag.name.to_owned(),
                value: Growing::value(tag_space(self.head.tool, name)),
                verbatim: is_verbatim(self.head.tool, name),
                closing: None,
                doubtful: false,
                unknown: None,
            });
        }
        self.head.closes(tag)
    }

    fn close_parameter(&mut self, out: &mut Vec<Update>) {
        if let Some(Parameter { name, mut value, .. }) = self.parameter.take() {
            let (value, rest) = value.finish();
            Update::parameter(&name, &rest, out);
            self.params.insert(name.as_ref().to_owned(), Value::String(value));
        }
    }

    /// The answer has ended inside the call, with the beginning of a tag in hand.
    fn finish(mut self, held: &str, tolerant: bool, out: &mut Vec<Update>) {
        let is_closing =
            held.strip_prefix("</").is_some_and(|name| self.head.tag_name().starts_with(name.trim_end()));
        if let Some(parameter) = &mut self.parameter {
            if parameter.is_closed() && (is_closing || matches!(held, "" | "<")) {
                self.close_parameter(out);
            } else {
                parameter.data(held, out);
            }
        }
        let problem = match &self.parameter {
            None if is_closing && tolerant => None,
            None => Some(format!("the answer ended before </{}>", self.head.tag_name())),
            Some(Parameter { name, doubtful: false, .. }) => {
                Some(format!("the answer ended inside the parameter '{name}'"))
            }
            Some(Parameter { name, tag_name, unknown, .. }) => {
                let unknown = unknown.as_ref().map(|tag| format!(", and <{tag}> is no parameter of it"));
                Some(format!(
                    "the answer ended inside the parameter '{name}', as </{tag_name}> ends it only where another \
                     parameter of the tool or </{}> follows directly{}",
                    self.head.tag_name(),
                    unknown.unwrap_or_default(),
                ))
            }
        };
        self.close(problem, out);
    }

    fn close(mut self, problem: Option<String>, out: &mut Vec<Update>) {
        let problem = problem.or_else(|| self.misplaced());
        if self.parameter.as_ref().is_some_and(|parameter| parameter.closing.is_some()) {
            self.close_parameter(out);
        }
        out.push(Update::Closed(Block::Call {
            id: None,
            name: self.head.name,
            params: self.params,
            fenced: self.fenced,
            problem,
        }));
    }
}

impl OpenCall {
    /// Returns whether the tag closes a parameter of the tool, and if so, whether it is the last one of the call.
    fn closes_parameter(&self, tag: Tag<'_>) -> Option<bool> {
        let last = self.parameter.as_ref().is_some_and(|parameter| parameter.tag_name == tag.name);
        let known = last
            || tag.name == "parameter" && self.head.form != CallSyntax::Tool
            || self.head.parameter(Tag { closing: false, ..tag }).is_some();
        (tag.closing && known).then_some(last)
    }

    /// The problem of a value that was cut by a parameter's tag in it: that parameter goes on with the rest.
    fn misplaced(&self) -> Option<String> {
        let Parameter { name, doubtful, closing, verbatim, .. } = self.parameter.as_ref()?;
        let goes_on = *doubtful && closing.is_some() && self.verbatim_before;
        (goes_on && !verbatim).then(|| {
            format!(
                "text follows </{name}>, so the parameter before it may not end there. Write '{name}' first"
            )
        })
    }
}

impl Parameter {
    /// Returns whether its closing tag has come, and nothing since that would make it data.
    fn is_closed(&self) -> bool {
        self.closing.as_ref().is_some_and(|closing| closing.open.is_none())
    }

    fn data(&mut self, data: &str, out: &mut Vec<Update>) {
        let mut rest = data;
        if let Some(closing) = &mut self.closing {
            let text = if closing.open.is_some() { "" } else { data.trim_start() };
            let (blank, _) = data.split_at(data.len() - text.len());
            work::add(blank.len());
            closing.raw.push_str(blank);
            if text.is_empty() {
                return;
            }
            rest = text;
            self.keep_closing(out);
        }
        self.show(rest, out);
    }

    /// A tag that does not end the parameter: one that is known nowhere, one that ends the call, or another.
    fn tag(&mut self, tag: Tag<'_>, is_unknown: bool, ends_call: bool, out: &mut Vec<Update>) {
        let is_own_end = tag.closing && tag.name == self.tag_name;
        if let Some(closing) = &mut self.closing {
            if is_unknown && closing.open.is_none() {
                self.unknown.get_or_insert_with(|| tag.name.to_owned());
            }
            let is_in_element = match &closing.open {
                Some(_) => !ends_call && !is_own_end,
                None => is_unknown && !self.verbatim,
            };
            if is_in_element {
                work::add(tag.raw.len());
                closing.raw.push_str(tag.raw);
                match &closing.open {
                    Some(open) if tag.closing && open == tag.name => closing.open = None,
                    Some(_) => {}
                    None => closing.open = Some(tag.name.to_owned()),
                }
                return;
            }
        }
        self.keep_closing(out);
        if is_own_end {
            self.closing = Some(ClosingTag { raw: tag.raw.to_owned(), open: None });
        } else {
            self.show(tag.raw, out);
        }
    }

    /// The closing tag in hand was data.
    fn keep_closing(&mut self, out: &mut Vec<Update>) {
        if let Some(closing) = self.closing.take() {
            self.doubtful = true;
            self.show(&closing.raw, out);
        }
    }

    fn show(&mut self, text: &str, out: &mut Vec<Update>) {
        Update::parameter(&self.name, self.value.push(text), out);
    }
}
