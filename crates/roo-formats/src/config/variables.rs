//! Names of environment variables as the user writes them: `DATABASE_URL`, `AWS_*`, `!AWS_SECRET*`.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A name of an environment variable, with `*` for any characters; after `!`, one to leave out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct VariablePattern {
    name: String,
    excludes: bool,
}

/// An error in the name of a variable.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InvalidVariable {
    /// A value as well. It may be a secret and is not repeated.
    #[error("expected the name of a variable without a value: it is passed on as it is")]
    Value,
    /// Characters that no name has, or none at all.
    #[error(
        "expected the name of a variable such as `DATABASE_URL`, a pattern such as `AWS_*`, or either after `!`"
    )]
    Name,
}

impl VariablePattern {
    /// Reports whether the pattern leaves variables out.
    pub fn excludes(&self) -> bool {
        self.excludes
    }

    /// Reports whether the pattern is one name, written out in full.
    pub fn is_exact(&self) -> bool {
        !self.name.contains('*')
    }

    /// Reports whether the pattern matches a name.
    pub fn matches(&self, name: &str) -> bool {
        let mut parts = self.name.split('*');
        let Some(mut rest) = parts.next().and_then(|begin| name.strip_prefix(begin)) else { return false };
        let Some(end) = parts.next_back() else { return rest.is_empty() };
        for part in parts {
            match rest.find(part) {
                Some(place) => rest = rest.get(place + part.len()..).unwrap_or_default(),
                None => return false,
            }
        }
        rest.ends_with(end)
    }
}

impl FromStr for VariablePattern {
    type Err = InvalidVariable;

    fn from_str(text: &str) -> Result<Self, InvalidVariable> {
        if text.contains('=') {
            return Err(InvalidVariable::Value);
        }
        let (name, excludes) = match text.strip_prefix('!') {
            Some(name) => (name, true),
            None => (text, false),
        };
        let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'*'));
        if !is_name || name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(InvalidVariable::Name);
        }
        Ok(Self { name: name.to_owned(), excludes })
    }
}

impl TryFrom<String> for VariablePattern {
    type Error = InvalidVariable;

    fn try_from(text: String) -> Result<Self, InvalidVariable> {
        text.parse()
    }
}

impl From<VariablePattern> for String {
    fn from(pattern: VariablePattern) -> Self {
        pattern.to_string()
    }
}

impl fmt::Display for VariablePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = if self.excludes { "!" } else { "" };
        write!(f, "{mark}{}", self.name)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn matches(pattern: &str, name: &str) -> bool {
        pattern.parse::<VariablePattern>().unwrap().matches(name)
    }

    #[test]
    fn a_star_stands_for_any_characters() {
        for (pattern, yes, no) in [
            ("CI", "CI", "CIX"),
            ("AWS_*", "AWS_REGION", "XAWS_REGION"),
            ("*_URL", "BASE_URL", "BASE_URLS"),
            ("A*B*C", "AxByBzC", "AxCyB"),
            ("*", "ANYTHING", ""),
            ("A**B", "AB", "A"),
            ("AB*BC", "ABBC", "ABC"),
            ("!AWS_SECRET*", "AWS_SECRET_KEY", "AWS_REGION"),
        ] {
            assert!(matches(pattern, yes), "{pattern} {yes}");
            assert!(no.is_empty() || !matches(pattern, no), "{pattern} {no}");
        }
    }

    #[test]
    fn what_is_no_name_is_refused_and_a_value_is_not_repeated() {
        for text in ["", "!", "1A", "A B", "A-B", "$A", "!!A", "É"] {
            assert_eq!(text.parse::<VariablePattern>(), Err(InvalidVariable::Name), "{text}");
        }
        let error = "TOKEN=sk-1".parse::<VariablePattern>().unwrap_err();
        assert!(!error.to_string().contains("sk-1"));
    }

    proptest! {
        #[test]
        fn patterns_match_as_regular_expressions_do(pattern in "[A*]{1,6}|[AB_*]{1,8}", name in "[AB_]{1,10}") {
            let expression = format!("^{}$", pattern.replace('*', ".*"));
            let expected = regex::Regex::new(&expression).unwrap().is_match(&name);
            prop_assert_eq!(matches(&pattern, &name), expected);
        }
    }
}
