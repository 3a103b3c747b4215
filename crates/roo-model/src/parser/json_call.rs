//! Calls in text whose name and arguments are a JSON object: `<tool_call>{"name": …, "arguments": {…}}</tool_call>`, the form
//! of Hermes and Qwen.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::native::{Parameters, REPEATED};
use roo_catalog::ToolName;
use roo_text::work;

/// The tag around such a call.
pub(super) const TAG: &str = "tool_call";

/// Progress within an object.
#[derive(Debug, Default)]
pub(super) struct ObjectReader {
    depth: usize,
    in_text: bool,
    escaped: bool,
    /// True if it has ended.
    is_whole: bool,
}

impl ObjectReader {
    /// Reads more of it. Returns false where this is no JSON object: text of any other kind is found at its first character
    /// outside of quotes.
    pub(super) fn read(&mut self, text: &str) -> bool {
        work::add(text.len());
        text.chars().all(|character| self.step(character))
    }

    pub(super) fn is_whole(&self) -> bool {
        self.is_whole
    }

    fn step(&mut self, character: char) -> bool {
        match character {
            _ if self.in_text => {
                self.in_text = self.escaped || character != '"';
                self.escaped = !self.escaped && character == '\\';
            }
            ' ' | '\t' | '\r' | '\n' => {}
            _ if self.is_whole => return false,
            '{' => self.depth += 1,
            _ if self.depth == 0 => return false,
            '[' => self.depth += 1,
            '}' | ']' => {
                self.depth -= 1;
                self.is_whole = self.depth == 0;
            }
            '"' => self.in_text = true,
            _ => {
                return character.is_ascii_alphanumeric() || matches!(character, ',' | ':' | '-' | '+' | '.');
            }
        }
        true
    }
}

/// A call as it was sent.
#[derive(Debug, PartialEq)]
pub(super) struct JsonCall {
    pub(super) name: String,
    pub(super) params: Map<String, Value>,
    pub(super) problem: Option<String>,
}

#[derive(Deserialize)]
struct Sent<T> {
    name: String,
    #[serde(alias = "parameters")]
    arguments: T,
}

impl JsonCall {
    /// Reads a whole object; none where it is no call of a tool.
    pub(super) fn read(json: &str) -> Option<Self> {
        work::add(json.len());
        let (name, arguments) = match serde_json::from_str::<Sent<Parameters>>(json) {
            Ok(Sent { name, arguments }) => (name, arguments),
            // Some write the arguments as text.
            Err(_) => {
                let Sent { name, arguments } = serde_json::from_str::<Sent<String>>(json).ok()?;
                (name, serde_json::from_str(&arguments).ok()?)
            }
        };
        ToolName::parse(&name)?;
        Some(match arguments.is_one_repeated {
            true => Self { name, params: Map::new(), problem: Some(REPEATED.to_owned()) },
            false => Self { name, params: arguments.by_name, problem: None },
        })
    }
}

/// The calls of this form in a text, wherever they stand: their names and parameters.
pub fn json_calls(text: &str) -> impl Iterator<Item = (String, Map<String, Value>)> {
    text.match_indices("<tool_call>").filter_map(|(at, tag)| {
        let json = text.get(at + tag.len()..)?;
        let mut reader = ObjectReader::default();
        let end = json.char_indices().find(|(_, character)| !reader.step(*character) || reader.is_whole);
        let (end, _) = end.filter(|_| reader.is_whole)?;
        let JsonCall { name, params, .. } = JsonCall::read(json.get(..=end)?)?;
        Some((name, params))
    })
}
