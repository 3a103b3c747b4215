//! YAML as people write it by hand: duplicate keys are errors, and every key has a place. JSON that YAML does
//! not take (escaped surrogates) is read as JSON.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};

use super::flow_depth;
use crate::problem::Problem;
use crate::text_range::Position;

/// The most that a document may hold after its aliases are followed: bytes of text, and
/// [`NODE_COST`] for each value. An alias may stand for much that is not in the file.
const BUDGET: usize = 4 << 20;
/// Cost of a value besides its text.
const NODE_COST: usize = 16;

/// One step from a value into a part of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Step {
    /// The value of a key.
    Key(String),
    /// The element at an index, from 0.
    Index(usize),
    /// The key itself, in place of its value; the last step of a path.
    Name(String),
}

impl From<&str> for Step {
    fn from(key: &str) -> Self {
        Self::Key(key.to_owned())
    }
}

/// Reads one document. The YAML library itself would let the last of several equal keys win.
pub fn parse(text: &str) -> Result<Value, Problem> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    // The library reports a text without any node as ending too early.
    if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        return Ok(Value::Null);
    }
    let value = read(text, Node(&Cell::new(BUDGET)));
    value.map_err(|(position, message)| Problem::error_at(text, position, message))
}

/// Reads one document of JSON.
///
/// # Errors
/// What is wrong, and the position, whose column counts bytes.
pub(crate) fn parse_json(text: &str) -> Result<Value, (Position, String)> {
    read_json(text, Node(&Cell::new(BUDGET)))
}

/// Returns the position of the part at the end of `path`, if there is one. Costs a walk over the text.
pub fn locate(text: &str, path: &[Step]) -> Option<Position> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    // The library tells positions with its errors only, so the search ends in one.
    read(text, Seek(path)).err()?.0
}

/// Message about what is wrong with a text, and its position.
type Fault = (Option<Position>, String);

fn read<'de, S: DeserializeSeed<'de>>(text: &'de str, seed: S) -> Result<S::Value, Fault> {
    if is_json_only(text) {
        return read_json(text, seed).map_err(|(position, message)| (Some(position), message));
    }
    if let Some(position) = flow_depth::too_deep(text) {
        let message = format!("brackets are nested deeper than {} levels", flow_depth::LIMIT);
        return Err((Some(position), message));
    }
    seed.deserialize(serde_yaml::Deserializer::from_str(text)).map_err(|error| {
        let position = error.location().map(|at| Position { line: at.line(), column: at.column() });
        match position.filter(|at| is_indented_by_tab(text, *at)) {
            Some(at) => (Some(at), format!("line {} begins with a tab; YAML takes spaces only", at.line)),
            None => (position, without_place(&error)),
        }
    })
}

/// Returns whether the line of a position has a tab in its indentation.
fn is_indented_by_tab(text: &str, at: Position) -> bool {
    let line = at.line.checked_sub(1).and_then(|index| text.lines().nth(index)).unwrap_or_default();
    line.chars().take_while(|c| c.is_whitespace()).any(|c| c == '\t')
}

fn read_json<'de, S: DeserializeSeed<'de>>(text: &'de str, seed: S) -> Result<S::Value, (Position, String)> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = seed.deserialize(&mut deserializer);
    value
        .and_then(|value| deserializer.end().map(|()| value))
        .map_err(|error| (Position { line: error.line(), column: error.column() }, without_place(&error)))
}

/// A text as YAML takes it on one line, whatever is in it.
pub(crate) fn quoted(text: &str) -> String {
    // JSON's strings are YAML's.
    Value::from(text).to_string()
}

/// Returns whether a text is JSON with escapes that YAML refuses: characters beyond 16 bits as two halves.
fn is_json_only(text: &str) -> bool {
    text.trim_start().starts_with('{')
        && text.contains("\\u")
        && serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// Formats a problem on one line, without its position.
fn without_place(error: &impl fmt::Display) -> String {
    error.to_string().split(" at line ").next().unwrap_or_default().to_owned()
}

/// Any node, as JSON, as long as there is budget left.
struct Node<'a>(&'a Cell<usize>);

impl Node<'_> {
    fn spend<E: serde::de::Error>(&self, text: &str) -> Result<(), E> {
        let left = self.0.get().checked_sub(text.len().saturating_add(NODE_COST));
        self.0.set(left.ok_or_else(|| E::custom("the document is too large once its aliases are expanded"))?);
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.spend("")?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a plain value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i128<E: serde::de::Error>(self, _: i128) -> Result<Value, E> {
        Err(E::custom("this number is too large"))
    }

    fn visit_u128<E: serde::de::Error>(self, _: u128) -> Result<Value, E> {
        Err(E::custom("this number is too large"))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("expected a finite number"))
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Value, E> {
        self.spend(value)?;
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element_seed(Node(self.0))? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = entries.next_key_seed(NewKey(&object))? {
            self.spend(&key)?;
            let value = entries.next_value_seed(Node(self.0))?;
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

/// A key that its mapping doesn't have yet. Refused while the key is read, so that the error points at it.
struct NewKey<'a>(&'a Map<String, Value>);

impl<'de> DeserializeSeed<'de> for NewKey<'_> {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for NewKey<'_> {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: serde::de::Error>(self, key: &str) -> Result<String, E> {
        if self.0.contains_key(key) {
            return Err(E::custom(format!("duplicate key '{key}'; keep one")));
        }
        Ok(key.to_owned())
    }
}

/// Goes down a path and fails at its end.
struct Seek<'a>(&'a [Step]);

impl<'de> DeserializeSeed<'de> for Seek<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seek<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nothing")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let Some((Step::Index(wanted), rest)) = self.0.split_first() else {
            return Err(A::Error::custom("here"));
        };
        for _ in 0..*wanted {
            if list.next_element::<IgnoredAny>()?.is_none() {
                return Ok(());
            }
        }
        list.next_element_seed(Seek(rest))?;
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let (wanted, rest) = match self.0.split_first() {
            Some((Step::Key(wanted), rest)) => (wanted, rest),
            Some((Step::Name(wanted), _)) => {
                while entries.next_key_seed(OtherKey(wanted))?.is_some() {
                    entries.next_value::<IgnoredAny>()?;
                }
                return Ok(());
            }
            _ => return Err(A::Error::custom("here")),
        };
        while let Some(key) = entries.next_key::<String>()? {
            if key == *wanted {
                entries.next_value_seed(Seek(rest))?;
            } else {
                entries.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

/// A key that is not the one that is looked for.
struct OtherKey<'a>(&'a str);

impl<'de> DeserializeSeed<'de> for OtherKey<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for OtherKey<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: serde::de::Error>(self, key: &str) -> Result<(), E> {
        if key == self.0 { Err(E::custom("here")) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(line: usize, column: usize) -> Option<Position> {
        Some(Position { line, column })
    }

    fn fault(text: &str) -> (Option<Position>, String) {
        let problem = parse(text).unwrap_err();
        (problem.start(), problem.message)
    }

    #[test]
    fn plain_documents_become_json() {
        let text = "\u{feff}a: 1\nb: [x, yes, 0.5, -2, null]\nc: {1: {}}\n";
        let expected = serde_json::json!({ "a": 1, "b": ["x", "yes", 0.5, -2, null], "c": { "1": {} } });
        assert_eq!(parse(text), Ok(expected));
        assert_eq!(parse(""), Ok(Value::Null));
        assert_eq!(parse("# nothing set\n\n"), Ok(Value::Null));
    }

    #[test]
    fn a_key_that_is_there_twice_is_an_error_at_the_second() {
        let (position, message) = fault("limits:\n  requests: 1\n  depth: 2\n  requests: 3\n");
        assert_eq!(position, at(4, 3));
        assert!(message.ends_with("duplicate key 'requests'; keep one"), "{message}");
    }

    #[test]
    fn broken_syntax_has_a_position() {
        let (position, message) = fault("mode: code\nlimits: [1, 2\n");
        assert!(position.is_some(), "{message}");
        assert!(!message.contains(" at line "), "{message}");
        assert!(parse("a: .inf").is_err());
        assert!(parse("a: !tag 1").is_err());
    }

    proptest::proptest! {
        #[test]
        fn no_text_is_too_strange(text in r"[a-c:\-\[\]{}&*!|>\n 'ä\t]{0,40}") {
            let _ = parse(&text);
            let _ = locate(&text, &[Step::Key("a".to_owned()), Step::Index(1)]);
        }
    }

    #[test]
    fn json_with_escaped_surrogates_is_json() {
        let text = "{\n\t\"a\": \"\\ud83d\\ude80\",\n\t\"b\": 1\n}\n";
        assert_eq!(parse(text), Ok(serde_json::json!({ "a": "\u{1f680}", "b": 1 })));
        assert_eq!(locate(text, &[Step::Key("b".to_owned())]).map(|at| at.line), Some(3));
        let (position, message) = fault("{\"a\": \"\\ud83d\\ude80\",\n\"a\": 1}");
        assert_eq!((position.map(|at| at.line), message.contains("duplicate key")), (Some(2), true));
    }

    #[test]
    fn what_grows_beyond_its_text_is_refused() {
        let long = "x".repeat(100_000);
        let text = format!("a: &a {long}\nb: [{}]\n", "*a, ".repeat(100));
        assert!(parse(&text).unwrap_err().message.contains("too large"));
    }

    #[test]
    fn deep_brackets_are_refused_before_they_cost_anything() {
        let before = std::time::Instant::now();
        for (open, count) in [("[", 1_000_000), ("{a: ", 250_000), ("[ \"]\", ", 100_000)] {
            let text = format!("customModes: {}", open.repeat(count));
            let (position, message) = fault(&text);
            assert_eq!((position.map(|at| at.line), message.contains("nested deeper")), (Some(1), true));
            assert_eq!(locate(&text, &[Step::Key("b".to_owned())]), position);
        }
        assert!(before.elapsed().as_secs() < 20, "{:?}", before.elapsed());
    }

    #[test]
    fn parts_are_located() {
        let text = "a: 1\nb:\n  - x\n  - c: true\n";
        let key = |key: &str| Step::Key(key.to_owned());
        assert_eq!(locate(text, &[key("a")]), at(1, 4));
        assert_eq!(locate(text, &[key("b"), Step::Index(1), key("c")]), at(4, 8));
        assert_eq!(locate(text, &[key("b"), Step::Index(5)]), None);
        assert_eq!(locate(text, &[key("z")]), None);
        let name = |name: &str| Step::Name(name.to_owned());
        assert_eq!(locate(text, &[key("b"), Step::Index(1), name("c")]), at(4, 5));
        assert_eq!(locate(text, &[name("z")]), None);
    }
}
