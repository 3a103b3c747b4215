//! End of a call whose value holds closing tags.
//!
//! `</content></write_to_file>` ends a call, and may stand in the file that the call writes. So the end of a call that
//! changes something is only presumed: what follows is buffered until the answer ends, and its tags decide. Where
//! they can't, the call has a problem. No value is cut short.

use super::{CallSyntax, ClosingTag, Fence, Head, Markup, OpenCall, ParserState, Text};
use crate::parser::lexer::{Lexer, Tag, Token};
use crate::parser::{Block, Update};
use roo_catalog::Effect;
use roo_text::work;

/// Finds calls that are quoted: opening tags of tools that a parameter follows.
#[derive(Debug, Default)]
pub(super) struct Quotes {
    head: Option<Head>,
}

impl Quotes {
    pub(super) fn data(&mut self, data: &str) {
        if !data.trim_start().is_empty() {
            self.head = None;
        }
    }

    /// Returns whether a call has been opened whose closing tag would be that of `like`.
    pub(super) fn tag(&mut self, tag: Tag<'_>, like: &Head) -> bool {
        let opened = self.head.take().is_some_and(|head| head.parameter(tag).is_some());
        let same =
            |head: &Head| head.form == like.form && (like.form != CallSyntax::Tool || head.tool == like.tool);
        self.head = Head::from_tag(tag).filter(same);
        opened
    }
}

/// A call that has presumably ended.
#[derive(Debug)]
pub(super) struct PresumedEnd {
    /// Its last parameter is still open.
    call: Box<OpenCall>,
    /// All that was sent since the closing tag of that parameter.
    raw: String,
    end: CallEnd,
    nesting: Nesting,
    quotes: Quotes,
    /// The closing tag of a parameter, if nothing but white space has followed.
    closing: Option<Closing>,
    fence: Option<Fence>,
    wrapped: bool,
    /// Text after the end, read as the rest of the answer.
    text: Text,
    state: ParserState,
    updates: Vec<Update>,
}

/// End of a call in [`PresumedEnd::raw`].
#[derive(Clone, Copy, Debug)]
struct CallEnd {
    /// Up to here its last parameter goes on.
    value: usize,
    /// From here on it is the rest of the answer.
    rest: usize,
}

#[derive(Clone, Copy, Debug)]
struct Closing {
    at: usize,
    /// True if it is that of the call's last parameter.
    last: bool,
}

/// Match of the ends that came with the calls that were opened.
#[derive(Clone, Copy, Debug)]
enum Nesting {
    /// The value has opened so many calls more than have ended.
    Within(usize),
    /// The call has ended, and so many calls after it have not. `opened`: there were calls after it.
    Behind {
        open: usize,
        opened: bool,
    },
    /// There are more ends than calls, and no call was opened after the first one: the value may go on to the last.
    Surplus(CallEnd),
    Unclear,
}

/// Judgement of a presumed end at the end of the answer.
enum EndVerdict {
    /// The call has ended, and what follows was read.
    Ended,
    /// The call has ended, and nothing follows.
    EndedLast,
    Unclear,
}

impl PresumedEnd {
    /// Presumes that this tag ends the call. Gives back a call whose end can't be doubted.
    pub(super) fn new(call: Box<OpenCall>, tag: Tag<'_>, around: &Text) -> Result<Self, Box<OpenCall>> {
        if call.parameter.is_none() || !changes_something(&call) {
            return Err(call);
        }
        work::add(tag.raw.len());
        let nesting = match call.quoted {
            0 => Nesting::Behind { open: 0, opened: false },
            quoted => Nesting::Within(quoted),
        };
        let (fence, wrapped) = (around.fence, around.wrapped);
        Ok(Self {
            call,
            raw: tag.raw.to_owned(),
            end: CallEnd { value: 0, rest: tag.raw.len() },
            nesting,
            quotes: Quotes::default(),
            closing: None,
            fence,
            wrapped,
            text: Text { fence, wrapped, ..Text::new() },
            state: ParserState::Text,
            updates: Vec::new(),
        })
    }

    /// Reads what follows the presumed end.
    pub(super) fn read(&mut self, token: Token<'_>, markup: Markup) {
        let start = self.raw.len();
        let (Token::Data(raw) | Token::Tag(Tag { raw, .. })) = token;
        work::add(raw.len());
        self.raw.push_str(raw);
        match token {
            Token::Data(data) => {
                self.quotes.data(data);
                self.closing = self.closing.filter(|_| data.trim_start().is_empty());
            }
            Token::Tag(tag) => {
                if self.quotes.tag(tag, &self.call.head) {
                    self.nesting = self.nesting.opened();
                }
                let closing = self.closing.take();
                if let Some(closing) = closing.filter(|_| self.call.head.closes(tag)) {
                    self.another_end(closing);
                    if self.end.rest == self.raw.len() {
                        return;
                    }
                }
                self.closing = self.call.closes_parameter(tag).map(|last| Closing { at: start, last });
            }
        }
        if matches!(self.nesting, Nesting::Behind { .. })
            && let Some(call) = self.state.token(token, &mut self.text, markup, &mut self.updates)
        {
            call.close(None, &mut self.updates);
        }
    }

    fn another_end(&mut self, closing: Closing) {
        let end = CallEnd { value: closing.at, rest: self.raw.len() };
        self.nesting = match self.nesting {
            Nesting::Within(1) if closing.last => {
                self.end = end;
                Nesting::Behind { open: 0, opened: false }
            }
            Nesting::Within(open) if open > 1 => Nesting::Within(open - 1),
            Nesting::Behind { open, opened } if open > 0 => Nesting::Behind { open: open - 1, opened },
            Nesting::Behind { opened: false, .. } | Nesting::Surplus(_) if closing.last => {
                Nesting::Surplus(end)
            }
            _ => Nesting::Unclear,
        };
    }

    /// Returns whether another call has begun that changes something, and this one ended before.
    pub(super) fn is_followed(&self) -> bool {
        let ParserState::Call(call) = &self.state else { return false };
        let is_certain = call.parameter.is_some() && !call.loose;
        is_certain && changes_something(call) && matches!(self.nesting, Nesting::Behind { .. })
    }

    /// Ends the call where it presumably does. Returns what is open after it.
    pub(super) fn end(mut self, out: &mut Vec<Update>) -> (Text, ParserState) {
        if let Some(parameter) = self.call.parameter.as_mut().filter(|_| self.end.value > 0) {
            parameter.keep_closing(out);
            parameter.show(self.raw.get(..self.end.value).unwrap_or_default(), out);
            parameter.closing = Some(ClosingTag { raw: String::new(), open: None });
        }
        self.call.close(None, out);
        out.append(&mut self.updates);
        (self.text, self.state)
    }

    /// The answer has ended, with the beginning of a tag in hand, which is taken when it is used up. Returns what is
    /// open after the call. `before` are the updates of calls before this one that were buffered.
    pub(super) fn resolve(
        mut self,
        lexer: &mut Lexer,
        complete: bool,
        mut before: Vec<Update>,
        out: &mut Vec<Update>,
    ) -> (Text, ParserState) {
        let verdict = self.verdict(lexer.held(), complete, before.is_empty());
        if let EndVerdict::Unclear = verdict {
            let unclear = self.problem();
            // What follows may be a part of the calls before, too.
            refuse(&mut before, &unclear);
            out.append(&mut before);
            self.call.parameter = None;
            self.call.close(Some(unclear), out);
            let mut text = Text::new();
            text.show(&self.raw, out);
            text.show(&lexer.take_held(), out);
            return (text, ParserState::Text);
        }
        out.append(&mut before);
        if let EndVerdict::EndedLast = verdict {
            lexer.take_held();
            self.updates.clear();
            (self.text, self.state) = (Text::new(), ParserState::Text);
        }
        self.end(out)
    }

    fn verdict(&mut self, held: &str, complete: bool, first: bool) -> EndVerdict {
        match self.nesting {
            Nesting::Behind { .. } if complete => EndVerdict::Ended,
            // Of a cut answer, more of the value may be missing.
            Nesting::Behind { .. } | Nesting::Within(_) if self.is_last(self.end, held) => {
                EndVerdict::EndedLast
            }
            Nesting::Surplus(last)
                if complete && first && self.is_last(last, held) && self.is_one_value(last) =>
            {
                self.end = last;
                EndVerdict::EndedLast
            }
            _ => EndVerdict::Unclear,
        }
    }

    /// Returns whether nothing follows this end but what closes the fence and the wrapper around the call.
    fn is_last(&self, end: CallEnd, held: &str) -> bool {
        let rest = self.raw.get(end.rest..).unwrap_or_default();
        work::add(rest.len());
        let rest = format!("{rest}{held}");
        let mut rest = rest.trim();
        if self.wrapped {
            for wrapper in ["</tool_call>", "</function_calls>"] {
                rest = rest.strip_prefix(wrapper).unwrap_or(rest).trim_start();
                let unfinished = rest.starts_with("</") && wrapper.starts_with(rest);
                rest = if unfinished { "" } else { rest };
            }
        }
        match self.fence {
            Some(fence) => rest.chars().all(|character| character == fence.marker),
            None => rest.is_empty(),
        }
    }

    /// Returns whether all up to this end can be one value: no other parameter ends in it that doesn't begin in it.
    fn is_one_value(&self, end: CallEnd) -> bool {
        let value = self.raw.get(..end.value).unwrap_or_default();
        let mut open: Vec<(&str, usize)> = match self.call.head.form {
            CallSyntax::Tool => self.call.params.keys().map(|name| (name.as_str(), 0)).collect(),
            CallSyntax::Invoke | CallSyntax::Function => vec![("parameter", 0)],
        };
        let mut balanced = true;
        Lexer::new().push(value, |token| {
            let Token::Tag(tag) = token else { return };
            let Some((_, open)) = open.iter_mut().find(|(name, _)| *name == tag.name) else { return };
            match (tag.closing, *open) {
                (false, _) => *open += 1,
                (true, 0) => balanced = false,
                (true, _) => *open -= 1,
            }
        });
        balanced
    }

    fn problem(&self) -> String {
        let parameter = self.call.parameter.as_ref().map_or("", |parameter| parameter.tag_name.as_str());
        let call = self.call.head.tag_name();
        format!(
            "its value holds the tags that end it, </{parameter}></{call}>, or text like that follows it, so it is \
             unclear where it ends. Nothing from there on was run. Make no other call in the answer that changes \
             something, and write nothing after it"
        )
    }
}

/// Returns whether this is a call that the answer should end with.
fn changes_something(call: &OpenCall) -> bool {
    call.head.tool.spec().effect != Effect::Read
}

/// Refuses the calls among these updates.
pub(super) fn refuse(updates: &mut [Update], because: &str) {
    for update in updates {
        if let Update::Closed(Block::Call { problem, .. }) = update {
            problem.get_or_insert_with(|| because.to_owned());
        }
    }
}

impl Nesting {
    /// Another call is opened.
    fn opened(self) -> Self {
        match self {
            Self::Within(open) => Self::Within(open + 1),
            Self::Behind { open, .. } => Self::Behind { open: open + 1, opened: true },
            Self::Surplus(_) | Self::Unclear => Self::Unclear,
        }
    }
}
