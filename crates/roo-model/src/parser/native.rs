//! Native tool calls: JSON arguments that come in pieces.
//!
//! Text values are decoded while they stream, to be shown; the arguments themselves are parsed once,
//! strictly, when the call is complete. Calls are told one after the other in the order in which they
//! began, even where a provider interleaves them.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use memchr::memchr2;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::{Block, Update};
use roo_text::work;

/// Problem of a call with two values of one name, worded for the model.
pub(super) const REPEATED: &str = "a parameter comes twice; give each of them once";

/// The calls of one answer that are not closed yet.
#[derive(Debug, Default)]
pub(super) struct NativeCalls {
    /// In the order in which they began. The first is the one that is shown.
    open: VecDeque<OpenCall>,
    /// Number of calls gone from the front of `open`.
    gone: usize,
    /// By a provider's index, the number of the call that takes arguments.
    numbers: BTreeMap<u32, usize>,
}

#[derive(Debug)]
struct OpenCall {
    index: u32,
    id: String,
    name: String,
    arguments: String,
    reader: ArgumentReader,
    /// Updates that wait until the calls before them are closed.
    waiting: Vec<Update>,
    ended: bool,
}

impl NativeCalls {
    /// A call begins. A second beginning of an open call is ignored.
    pub(super) fn start(&mut self, index: u32, id: String, name: String, out: &mut Vec<Update>) {
        if let Some(open) = self.call(index) {
            // Some endpoints give every call the index 0 and never end one.
            if open.id == id || !open.reader.is_complete() {
                return;
            }
            open.ended = true;
        }
        self.numbers.insert(index, self.gone + self.open.len());
        let begun = Update::CallBegun { name: name.clone() };
        let mut call = OpenCall {
            index,
            id,
            name,
            arguments: String::new(),
            reader: ArgumentReader::default(),
            waiting: Vec::new(),
            ended: false,
        };
        if self.open.is_empty() {
            out.push(begun);
        } else {
            call.waiting.push(begun);
        }
        self.open.push_back(call);
        self.close_ended(out);
    }

    /// More arguments. Those of a call that is not open are ignored.
    pub(super) fn arguments(&mut self, index: u32, text: &str, out: &mut Vec<Update>) {
        let shown = self.numbers.get(&index) == Some(&self.gone);
        let Some(call) = self.call(index) else { return };
        work::add(text.len());
        call.arguments.push_str(text);
        let out = if shown { out } else { &mut call.waiting };
        call.reader.push(text, |parameter, text| Update::parameter(parameter, text, out));
    }

    /// A call is complete.
    pub(super) fn end(&mut self, index: u32, out: &mut Vec<Update>) {
        if let Some(call) = self.call(index) {
            call.ended = true;
            self.numbers.remove(&index);
            self.close_ended(out);
        }
    }

    /// The answer has ended. A call that is open counts as ended when the answer is complete, and
    /// vanishes otherwise.
    pub(super) fn finish(mut self, complete: bool, out: &mut Vec<Update>) {
        for call in self.open.drain(..).filter(|call| complete || call.ended) {
            call.close(out);
        }
    }

    fn call(&mut self, index: u32) -> Option<&mut OpenCall> {
        let number = *self.numbers.get(&index)?;
        self.open.get_mut(number.checked_sub(self.gone)?)
    }

    /// Closes calls from the front. One with complete arguments has ended when another one has begun.
    fn close_ended(&mut self, out: &mut Vec<Update>) {
        while self
            .open
            .front()
            .is_some_and(|call| call.ended || self.open.len() > 1 && call.reader.is_complete())
        {
            let Some(call) = self.open.pop_front() else { return };
            if self.numbers.get(&call.index) == Some(&self.gone) {
                self.numbers.remove(&call.index);
            }
            self.gone += 1;
            call.close(out);
            if let Some(next) = self.open.front_mut() {
                out.append(&mut next.waiting);
            }
        }
    }
}

impl OpenCall {
    fn close(mut self, out: &mut Vec<Update>) {
        out.append(&mut self.waiting);
        let (params, problem) = match self.parse() {
            Ok(params) => (params, None),
            Err(problem) => (Map::new(), Some(problem)),
        };
        out.push(Update::Closed(Block::Call {
            id: Some(self.id),
            name: self.name,
            params,
            fenced: false,
            problem,
        }));
    }

    fn parse(&self) -> Result<Map<String, Value>, String> {
        work::add(self.arguments.len());
        if self.arguments.trim().is_empty() {
            return Ok(Map::new());
        }
        let is_object = self.arguments.trim_start().starts_with('{');
        let read = match is_object {
            true => serde_json::from_str(&self.arguments).map(Some),
            false => serde_json::from_str(&self.arguments).map(|IgnoredAny| None),
        };
        match read {
            Ok(Some(Parameters { is_one_repeated: true, .. })) => Err(REPEATED.to_owned()),
            Ok(Some(Parameters { by_name, .. })) => Ok(by_name),
            Ok(None) => Err("the arguments are not a JSON object".to_owned()),
            Err(error) if error.is_eof() => Err(match self.reader.parameter() {
                Some(parameter) => format!("the answer ended inside the parameter '{parameter}'"),
                None => "the answer ended inside the arguments".to_owned(),
            }),
            Err(error) => Err(format!("the arguments are not valid JSON: {error}")),
        }
    }
}

/// The parameters of a call. Of two values of one name, another reader might take the other one.
#[derive(Default)]
pub(super) struct Parameters {
    pub(super) by_name: Map<String, Value>,
    pub(super) is_one_repeated: bool,
}

impl<'de> Deserialize<'de> for Parameters {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Self::default())
    }
}

impl<'de> Visitor<'de> for Parameters {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Self, A::Error> {
        while let Some((name, value)) = map.next_entry()? {
            self.is_one_repeated |= self.by_name.insert(name, value).is_some();
        }
        Ok(self)
    }
}

/// Position of a reader in the arguments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ArgumentPosition {
    #[default]
    Before,
    /// Before a key, or at the end.
    Key,
    InKey,
    Colon,
    Value,
    /// In a text that is a parameter's value.
    InText,
    /// In a list or an object.
    Nested {
        depth: usize,
        in_text: bool,
        escaped: bool,
    },
    /// In a number or a word.
    Scalar,
    /// After a value.
    Comma,
    After,
    /// Not JSON. The strict parser will say why.
    Lost,
}

/// Progress within an escape.
#[derive(Clone, Copy, Debug, Default)]
enum Escape {
    #[default]
    None,
    Backslash,
    Hex {
        unit: u32,
        digits: u8,
    },
}

/// Decodes the text values at the top of a JSON object while they stream. For showing only.
#[derive(Debug, Default)]
struct ArgumentReader {
    place: ArgumentPosition,
    /// Name of the parameter in hand, in pieces until it is closed.
    spelled: String,
    key: Arc<str>,
    escape: Escape,
    /// The first half of a surrogate pair.
    high: Option<u32>,
}

impl ArgumentReader {
    fn is_complete(&self) -> bool {
        self.place == ArgumentPosition::After
    }

    /// The parameter whose value is in hand.
    fn parameter(&self) -> Option<&str> {
        matches!(
            self.place,
            ArgumentPosition::Value
                | ArgumentPosition::InText
                | ArgumentPosition::Nested { .. }
                | ArgumentPosition::Scalar
        )
        .then_some(&*self.key)
    }

    fn push(&mut self, text: &str, mut sink: impl FnMut(&Arc<str>, &str)) {
        let mut rest = text;
        while let Some(character) = rest.chars().next() {
            let taken = match self.place {
                ArgumentPosition::Lost => return,
                ArgumentPosition::InKey | ArgumentPosition::InText => self.text(rest, character, &mut sink),
                _ => {
                    self.place = self.next(character);
                    character.len_utf8()
                }
            };
            work::add(taken);
            rest = rest.get(taken..).unwrap_or_default();
        }
    }

    fn next(&mut self, character: char) -> ArgumentPosition {
        match (self.place, character) {
            (ArgumentPosition::Nested { depth, in_text, escaped }, _) => {
                nested(depth, in_text, escaped, character)
            }
            (place, ' ' | '\t' | '\r' | '\n') => place,
            (ArgumentPosition::Before, '{') => ArgumentPosition::Key,
            (ArgumentPosition::Key, '"') => {
                self.spelled.clear();
                ArgumentPosition::InKey
            }
            (ArgumentPosition::Colon, ':') => ArgumentPosition::Value,
            (ArgumentPosition::Value, '"') => ArgumentPosition::InText,
            (ArgumentPosition::Value, '{' | '[') => {
                ArgumentPosition::Nested { depth: 1, in_text: false, escaped: false }
            }
            (ArgumentPosition::Comma | ArgumentPosition::Scalar, ',') => ArgumentPosition::Key,
            (ArgumentPosition::Key | ArgumentPosition::Comma | ArgumentPosition::Scalar, '}') => {
                ArgumentPosition::After
            }
            (
                ArgumentPosition::Value | ArgumentPosition::Scalar,
                '-' | '+' | '.' | '0'..='9' | 'a'..='z' | 'E',
            ) => ArgumentPosition::Scalar,
            _ => ArgumentPosition::Lost,
        }
    }

    /// Reads on in a text that begins with `first`; returns how many bytes.
    fn text(&mut self, text: &str, first: char, sink: &mut impl FnMut(&Arc<str>, &str)) -> usize {
        match (self.escape, first) {
            (Escape::None, '"') => {
                self.lose_high(sink);
                self.place = if self.place == ArgumentPosition::InKey {
                    self.key = self.spelled.as_str().into();
                    ArgumentPosition::Colon
                } else {
                    ArgumentPosition::Comma
                };
            }
            (Escape::None, '\\') => self.escape = Escape::Backslash,
            (Escape::None, _) => {
                self.lose_high(sink);
                let length = memchr2(b'"', b'\\', text.as_bytes()).unwrap_or(text.len());
                self.show(text.get(..length).unwrap_or_default(), sink);
                return length;
            }
            (Escape::Backslash, 'u') => self.escape = Escape::Hex { unit: 0, digits: 0 },
            (Escape::Backslash, _) => {
                self.lose_high(sink);
                self.escape = Escape::None;
                match first {
                    '"' => self.show("\"", sink),
                    '\\' => self.show("\\", sink),
                    '/' => self.show("/", sink),
                    'b' => self.show("\u{8}", sink),
                    'f' => self.show("\u{c}", sink),
                    'n' => self.show("\n", sink),
                    'r' => self.show("\r", sink),
                    't' => self.show("\t", sink),
                    _ => self.place = ArgumentPosition::Lost,
                }
            }
            (Escape::Hex { unit, digits }, _) => match first.to_digit(16) {
                None => self.place = ArgumentPosition::Lost,
                Some(digit) if digits < 3 => {
                    self.escape = Escape::Hex { unit: unit * 16 + digit, digits: digits + 1 };
                }
                Some(digit) => {
                    self.escape = Escape::None;
                    self.unit(unit * 16 + digit, sink);
                }
            },
        }
        first.len_utf8()
    }

    /// A UTF-16 unit.
    fn unit(&mut self, unit: u32, sink: &mut impl FnMut(&Arc<str>, &str)) {
        let code = match (self.high.take(), unit) {
            (Some(high), 0xdc00..=0xdfff) => 0x1_0000 + ((high - 0xd800) << 10) + (unit - 0xdc00),
            (high, _) => {
                self.high = high;
                self.lose_high(sink);
                if (0xd800..=0xdbff).contains(&unit) {
                    self.high = Some(unit);
                    return;
                }
                unit
            }
        };
        let character = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
        self.show(character.encode_utf8(&mut [0; 4]), sink);
    }

    /// The second half of a surrogate pair did not come.
    fn lose_high(&mut self, sink: &mut impl FnMut(&Arc<str>, &str)) {
        if self.high.take().is_some() {
            self.show("\u{fffd}", sink);
        }
    }

    fn show(&mut self, decoded: &str, sink: &mut impl FnMut(&Arc<str>, &str)) {
        if self.place == ArgumentPosition::InKey {
            self.spelled.push_str(decoded);
        } else {
            sink(&self.key, decoded);
        }
    }
}

fn nested(depth: usize, in_text: bool, escaped: bool, character: char) -> ArgumentPosition {
    match (in_text, character) {
        (true, _) if escaped => ArgumentPosition::Nested { depth, in_text, escaped: false },
        (true, '\\') => ArgumentPosition::Nested { depth, in_text, escaped: true },
        (_, '"') => ArgumentPosition::Nested { depth, in_text: !in_text, escaped: false },
        (false, '{' | '[') => ArgumentPosition::Nested { depth: depth + 1, in_text, escaped },
        (false, '}' | ']') if depth == 1 => ArgumentPosition::Comma,
        (false, '}' | ']') => ArgumentPosition::Nested { depth: depth - 1, in_text, escaped },
        _ => ArgumentPosition::Nested { depth, in_text, escaped },
    }
}
