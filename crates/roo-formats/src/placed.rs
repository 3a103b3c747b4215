//! Values of a configuration file that know their place in it.
//!
//! A reader gets the type by which its format is declared, and reports what is wrong with a value at the place that came
//! with it. So the names of the keys stand in the declaration alone.

use std::borrow::Cow;
use std::collections::HashSet;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, IntoDeserializer, SeqAccess, Visitor};
use serde::{Deserialize, forward_to_deserialize_any};
use serde_json::{Error, Value};

use crate::config::yaml::Step;

/// The name by which [`Node`] knows a [`Placed`].
const NAME: &str = "$Placed";

/// A value and its place. Only what reads declared formats can read one, such as [`crate::ProblemList::read`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename = "$Placed")]
pub struct Placed<T> {
    /// Path from the beginning of the file; empty where the key isn't there.
    pub path: Vec<Step>,
    /// The value.
    pub value: T,
}

impl<T> Placed<T> {
    /// Returns whether the key is there, with whatever value.
    pub fn is_written(&self) -> bool {
        !self.path.is_empty()
    }

    /// Path to a part of the value.
    pub fn below(&self, step: Step) -> Vec<Step> {
        [&self.path[..], &[step]].concat()
    }
}

/// The schema of the value.
impl<T: JsonSchema> JsonSchema for Placed<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

/// Reads a type from a value at a path of its file. Of the parts at `refused`, paths within the value, keys have no value
/// and items of lists are left out; the places of the others stay.
pub(crate) fn read<T: DeserializeOwned>(
    value: &Value,
    path: &[Step],
    refused: &HashSet<&[Step]>,
) -> Result<T, Error> {
    T::deserialize(Node { value, place: Place::Start, file: &File { path, refused } })
}

/// What is the same for all parts of a value.
struct File<'a> {
    path: &'a [Step],
    refused: &'a HashSet<&'a [Step]>,
}

/// Path within the value, from its end.
#[derive(Clone, Copy)]
enum Place<'a> {
    Start,
    Key(&'a Place<'a>, &'a str),
    Item(&'a Place<'a>, usize),
}

impl Place<'_> {
    fn path(self) -> Vec<Step> {
        let (above, step) = match self {
            Self::Start => return vec![],
            Self::Key(above, key) => (above, Step::Key(key.to_owned())),
            Self::Item(above, index) => (above, Step::Index(index)),
        };
        let mut path = above.path();
        path.push(step);
        path
    }
}

/// A part of the value.
#[derive(Clone, Copy)]
struct Node<'de, 'a> {
    value: &'de Value,
    place: Place<'a>,
    file: &'a File<'a>,
}

impl<'de, 'a> Node<'de, 'a> {
    fn within(self, place: Place<'a>, value: &'de Value) -> Self {
        Self { value, place, ..self }
    }

    fn is_refused(&self) -> bool {
        !self.file.refused.is_empty() && self.file.refused.contains(self.place.path().as_slice())
    }
}

impl<'de> IntoDeserializer<'de, Error> for Node<'de, '_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Node<'de, '_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            _ if self.is_refused() => visitor.visit_unit(),
            Value::Array(items) => {
                let items = items.iter().enumerate();
                let items = items.map(|(index, item)| self.within(Place::Item(&self.place, index), item));
                visitor.visit_seq(SeqDeserializer::new(items.filter(|item| !item.is_refused())))
            }
            Value::Object(entries) => {
                let entries = entries
                    .iter()
                    .map(|(key, value)| (key.as_str(), self.within(Place::Key(&self.place, key), value)));
                visitor.visit_map(MapDeserializer::new(entries))
            }
            value => value.deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.value.is_null() || self.is_refused() {
            visitor.visit_none()
        } else {
            visitor.visit_some(self)
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        if name == NAME {
            visitor.visit_seq(PathAndValue { path: Some(self.place.path()), node: Some(self) })
        } else {
            self.deserialize_any(visitor)
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.value.deserialize_enum(name, variants, visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq
        tuple tuple_struct map identifier
    }
}

/// The fields of a [`Placed`], in their order.
struct PathAndValue<'de, 'a> {
    path: Option<Vec<Step>>,
    node: Option<Node<'de, 'a>>,
}

impl<'de> SeqAccess<'de> for PathAndValue<'de, '_> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        if let (Some(within), Some(node)) = (self.path.take(), &self.node) {
            let path = [node.file.path, &within].concat();
            return seed.deserialize(serde_json::to_value(path)?).map(Some);
        }
        self.node.take().map(|node| seed.deserialize(node)).transpose()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Entry {
        file_name: Option<Placed<String>>,
        #[serde(default)]
        words: Placed<Option<Vec<Placed<String>>>>,
        inner: Option<Box<Entry>>,
    }

    fn key(name: &str) -> Step {
        name.into()
    }

    fn text(value: &str, path: &[Step]) -> Placed<String> {
        Placed { path: path.to_vec(), value: value.to_owned() }
    }

    #[test]
    fn every_value_knows_its_place() {
        let value = json!({ "fileName": "a", "inner": { "words": ["x", "y"] }, "other": [1, { "b": null }] });
        let entry: Entry = read(&value, &[key("list"), Step::Index(2)], &HashSet::new()).unwrap();
        assert_eq!(entry.file_name, Some(text("a", &[key("list"), Step::Index(2), key("fileName")])));
        assert!(!entry.words.is_written());
        let words = entry.inner.unwrap().words;
        let path = [key("list"), Step::Index(2), key("inner"), key("words")];
        assert_eq!(words.path, path);
        assert_eq!(words.value.as_ref().unwrap()[1], text("y", &words.below(Step::Index(1))));
    }

    #[test]
    fn what_is_refused_has_no_value_and_moves_nothing() {
        let value = json!({ "fileName": 1, "words": [[], "y"], "inner": { "words": {} } });
        let paths =
            [vec![key("fileName")], vec![key("words"), Step::Index(0)], vec![key("inner"), key("words")]];
        assert!(read::<Entry>(&value, &[], &HashSet::new()).is_err());
        let entry: Entry = read(&value, &[], &paths.iter().map(Vec::as_slice).collect()).unwrap();
        assert_eq!(entry.file_name, None);
        assert_eq!(entry.words.value, Some(vec![text("y", &[key("words"), Step::Index(1)])]));
        let inner = entry.inner.unwrap().words;
        assert_eq!((inner.is_written(), inner.value), (true, None));
    }
}
