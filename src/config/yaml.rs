//! YAML as people write it by hand: duplicate keys are errors, and every key has a place.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// A place in a text file; both count from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column, in characters.
    pub column: usize,
}

/// One step from a value into a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Key(String),
    Index(usize),
}

/// What is wrong with a text, and where.
pub(crate) type Fault = (Option<Position>, String);

/// Reads one document. The YAML library itself would let the last of several equal keys win.
pub(crate) fn parse(text: &str) -> Result<Value, Fault> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    // The library takes a text without any node as an early end.
    if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        return Ok(Value::Null);
    }
    Node.deserialize(serde_yaml::Deserializer::from_str(text)).map_err(|error| {
        let message = error.to_string();
        let message = message.split(" at line ").next().unwrap_or_default().to_owned();
        (position(&error), message)
    })
}

/// Where the part at the end of `path` begins; none when there is no such part.
pub(crate) fn locate(text: &str, path: &[Step]) -> Option<Position> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    // The library tells positions with its errors only, so the search ends in one.
    let error = Seek(path).deserialize(serde_yaml::Deserializer::from_str(text)).err()?;
    position(&error)
}

fn position(error: &serde_yaml::Error) -> Option<Position> {
    error.location().map(|at| Position { line: at.line(), column: at.column() })
}

/// Any node, as JSON.
struct Node;

impl<'de> DeserializeSeed<'de> for Node {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node {
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

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("expected a finite number"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element_seed(Node)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = entries.next_key_seed(NewKey(&object))? {
            let value = entries.next_value_seed(Node)?;
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
            return Err(E::custom(format!("the key '{key}' is there twice; keep one")));
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
        let Some((Step::Key(wanted), rest)) = self.0.split_first() else {
            return Err(A::Error::custom("here"));
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

#[cfg(test)]
mod tests {
    use super::*;

    fn at(line: usize, column: usize) -> Option<Position> {
        Some(Position { line, column })
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
        let (position, message) = parse("limits:\n  requests: 1\n  depth: 2\n  requests: 3\n").unwrap_err();
        assert_eq!(position, at(4, 3));
        assert!(message.ends_with("the key 'requests' is there twice; keep one"), "{message}");
    }

    #[test]
    fn broken_syntax_has_a_position() {
        let (position, message) = parse("mode: code\nlimits: [1, 2\n").unwrap_err();
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
    fn parts_are_located() {
        let text = "a: 1\nb:\n  - x\n  - c: true\n";
        let key = |key: &str| Step::Key(key.to_owned());
        assert_eq!(locate(text, &[key("a")]), at(1, 4));
        assert_eq!(locate(text, &[key("b"), Step::Index(1), key("c")]), at(4, 8));
        assert_eq!(locate(text, &[key("b"), Step::Index(5)]), None);
        assert_eq!(locate(text, &[key("z")]), None);
    }
}
