//! Reading the parameters of a call, in the shapes in which models write them.

use serde_json::{Map, Value};

use crate::tool_name::ToolName;
use roo_text::lines::LineRange;

/// Reasons why a call can't be understood. The text is for the model: it says what to change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCall {
    /// No tool of that name.
    #[error("There is no tool named '{0}'. Use one of the tools described in your instructions.")]
    UnknownTool(String),
    /// A required parameter is not there.
    #[error(
        "The call of {tool} lacks the parameter '{parameter}'. Call it again with all required parameters."
    )]
    Missing {
        tool: ToolName,
        /// Missing parameter.
        parameter: &'static str,
    },
    /// A parameter has a value that the tool can't use.
    #[error("The parameter '{parameter}' of {tool} can't be used: {problem}")]
    Bad {
        tool: ToolName,
        parameter: String,
        /// Problem with it.
        problem: String,
    },
    /// The stream parser could not read the call.
    #[error("The call of {name} could not be read: {problem}. Make the call again.")]
    Unreadable {
        /// The name as sent.
        name: String,
        /// Problem with it.
        problem: String,
    },
}

/// Reads the parameters of one call.
pub(crate) struct Reader<'a> {
    pub(crate) tool: ToolName,
    pub(crate) params: &'a Map<String, Value>,
}

impl<'a> Reader<'a> {
    pub(crate) fn get(&self, name: &str) -> Option<&'a Value> {
        self.params.get(name).filter(|value| !value.is_null())
    }

    pub(crate) fn missing(&self, parameter: &'static str) -> InvalidCall {
        InvalidCall::Missing { tool: self.tool, parameter }
    }

    pub(crate) fn bad(&self, parameter: &str, problem: impl Into<String>) -> InvalidCall {
        InvalidCall::Bad { tool: self.tool, parameter: parameter.to_owned(), problem: problem.into() }
    }

    /// The text as sent. Empty text counts as given.
    pub(crate) fn verbatim(&self, name: &'static str) -> Result<String, InvalidCall> {
        match self.get(name) {
            None => Err(self.missing(name)),
            Some(Value::String(text)) => Ok(text.clone()),
            Some(other) => Err(self.bad(name, format!("expected text, got {}", type_name(other)))),
        }
    }

    /// Trimmed text that is not empty.
    pub(crate) fn text(&self, name: &'static str) -> Result<String, InvalidCall> {
        self.optional_text(name)?.ok_or(self.missing(name))
    }

    /// The first of these parameters that has text; the others are names that old prompts use.
    pub(crate) fn first_text(&self, names: &[&'static str]) -> Result<String, InvalidCall> {
        for name in names {
            if let Some(text) = self.optional_text(name)? {
                return Ok(text);
            }
        }
        Err(self.missing(names.first().copied().unwrap_or_default()))
    }

    pub(crate) fn optional_text(&self, name: &'static str) -> Result<Option<String>, InvalidCall> {
        match self.get(name) {
            None => Ok(None),
            Some(_) => {
                let text = self.verbatim(name)?;
                let text = text.trim();
                Ok((!text.is_empty()).then(|| text.to_owned()))
            }
        }
    }

    pub(crate) fn path(&self, name: &'static str) -> Result<String, InvalidCall> {
        self.text(name)
    }

    pub(crate) fn integer(&self, name: &str) -> Result<Option<usize>, InvalidCall> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let number = match value {
            Value::Number(_) => whole_number(value),
            Value::String(text) if text.trim().is_empty() => return Ok(None),
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        };
        match number.and_then(|number| usize::try_from(number).ok()) {
            Some(number) => Ok(Some(number)),
            None => Err(self.bad(name, format!("expected a whole number from 0, got {value}"))),
        }
    }

    pub(crate) fn boolean(&self, name: &str) -> Result<Option<bool>, InvalidCall> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(Value::String(text)) => match text.trim().to_ascii_lowercase().as_str() {
                "" => Ok(None),
                "true" => Ok(Some(true)),
                "false" => Ok(Some(false)),
                _ => Err(self.bad(name, format!("expected true or false, got '{text}'"))),
            },
            Some(other) => Err(self.bad(name, format!("expected true or false, got {}", type_name(other)))),
        }
    }

    pub(crate) fn range(
        &self,
        name: &str,
        start: Option<usize>,
        end: Option<usize>,
    ) -> Result<Option<LineRange>, InvalidCall> {
        if start.is_none() && end.is_none() {
            return Ok(None);
        }
        let range = LineRange { start: start.unwrap_or(1), end: end.unwrap_or(usize::MAX) };
        if range.start == 0 {
            return Err(self.bad(name, "lines are counted from 1"));
        }
        if range.end < range.start {
            return Err(
                self.bad(name, format!("the range {}-{} ends before it begins", range.start, range.end))
            );
        }
        Ok(Some(range))
    }
}

/// A number from 0 without a fraction, also one that is written with a point.
pub(crate) fn whole_number(value: &Value) -> Option<u64> {
    /// Up to here each whole number is its own float.
    const MAX: f64 = 9_007_199_254_740_992.0;
    let is_whole = |number: &f64| (0.0..=MAX).contains(number) && number.fract() == 0.0;
    value.as_u64().or_else(|| value.as_f64().filter(is_whole).map(|number| number as u64))
}

pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// The contents of the elements of this name, by tag search: models write paths and ranges that no
/// XML reader takes, such as `a && b` or `Vec<T>`. A CDATA section that is all of one is what it holds.
pub(crate) fn elements<'a>(text: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let mut rest = text;
    std::iter::from_fn(move || {
        let start = rest.find(&open)? + open.len();
        let length = rest[start..].find(&close)?;
        let content = &rest[start..start + length];
        rest = &rest[start + length + close.len()..];
        let section =
            content.trim().strip_prefix("<![CDATA[").and_then(|section| section.strip_suffix("]]>"));
        Some(section.unwrap_or(content))
    })
}

pub(crate) fn unescape(text: &str) -> String {
    quick_xml::escape::unescape(text).map_or_else(|_| text.to_owned(), std::borrow::Cow::into_owned)
}
