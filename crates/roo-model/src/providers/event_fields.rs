//! Fields of a stream's events, read in place: an event comes for every few letters of an answer, and most of its texts
//! are looked at once.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{self, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A text that may be absent: within an `Option`, serde borrows no plain [`Cow`]. Some endpoints send a number in its place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Text<'a>(pub(super) Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match TextOrValue::deserialize(deserializer)? {
            TextOrValue::Text(text) => Ok(Self(text)),
            TextOrValue::Value(Value::Number(number)) => Ok(Self(number.to_string().into())),
            TextOrValue::Value(_) => Err(de::Error::custom("a text was expected")),
        }
    }
}

/// A text, or what some endpoints send in its place.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum TextOrValue<'a> {
    Text(Cow<'a, str>),
    Value(Value),
}

impl<'de: 'a, 'a> Deserialize<'de> for TextOrValue<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = TextOrValue<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any value")
            }

            fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(TextOrValue::Text(Cow::Borrowed(text)))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(TextOrValue::Text(Cow::Owned(text.to_owned())))
            }

            fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
                Ok(TextOrValue::Value(Value::Null))
            }

            fn visit_bool<E: de::Error>(self, value: bool) -> Result<Self::Value, E> {
                Ok(TextOrValue::Value(value.into()))
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Self::Value, E> {
                Ok(TextOrValue::Value(value.into()))
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Self::Value, E> {
                Ok(TextOrValue::Value(value.into()))
            }

            fn visit_f64<E: de::Error>(self, value: f64) -> Result<Self::Value, E> {
                Ok(TextOrValue::Value(value.into()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
                Value::deserialize(SeqAccessDeserializer::new(list)).map(TextOrValue::Value)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                Value::deserialize(MapAccessDeserializer::new(map)).map(TextOrValue::Value)
            }
        }

        deserializer.deserialize_any(Either)
    }
}

/// A figure that is not negative, however an endpoint writes it: as a number or as text.
pub(super) fn figure(value: &Value) -> Option<f64> {
    let figure = value.as_f64().or_else(|| value.as_str()?.trim().parse().ok())?;
    (figure.is_finite() && figure >= 0.0).then_some(figure)
}

/// A count, likewise.
pub(super) fn count(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| figure(value).map(|figure| figure as u64))
}

/// The first entry of a list; the others are passed over.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct First<T>(pub(super) Option<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for First<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for List<T> {
            type Value = First<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let first = list.next_element()?;
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(First(first))
            }
        }

        deserializer.deserialize_seq(List(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_text_without_escapes_is_not_copied() {
        let borrowed = |text: &Cow<'_, str>| matches!(text, Cow::Borrowed(_));
        let text: Option<Text<'_>> = serde_json::from_str(r#""plain""#).unwrap();
        assert!(text.is_some_and(|Text(text)| borrowed(&text)));
        assert_eq!(serde_json::from_str::<Text<'_>>("17").unwrap(), Text("17".into()));
        assert!(serde_json::from_str::<Text<'_>>("{}").is_err());
        let TextOrValue::Text(text) = serde_json::from_str(r#""plain""#).unwrap() else { panic!("no text") };
        assert!(borrowed(&text));
    }

    #[test]
    fn a_figure_is_read_however_it_is_written() {
        for (value, as_count) in [
            (json!(12), Some(12)),
            (json!(10.0), Some(10)),
            (json!("12"), Some(12)),
            (json!(" 1.5 "), Some(1)),
            (json!(-1), None),
            (json!("NaN"), None),
            (json!("inf"), None),
            (json!("some"), None),
            (json!(null), None),
            (json!([1]), None),
        ] {
            assert_eq!(count(&value), as_count, "{value}");
        }
        assert_eq!(figure(&json!("0.0042")), Some(0.0042));
    }

    #[test]
    fn only_the_first_entry_counts() {
        assert_eq!(
            serde_json::from_str::<First<u32>>(r#"[1, "two", {"three": []}]"#).unwrap(),
            First(Some(1))
        );
        assert_eq!(serde_json::from_str::<First<u32>>("[]").unwrap(), First(None));
        assert!(serde_json::from_str::<First<u32>>("[1").is_err());
    }

    fn json_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            (0.0..1e9).prop_map(Value::from),
            ".{0,9}".prop_map(Value::from),
        ];
        leaf.prop_recursive(2, 8, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                inner.prop_map(|value| json!({ "a": value })),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_value_is_read_as_what_it_is(value in json_value()) {
            let text = value.to_string();
            let read = match serde_json::from_str(&text).unwrap() {
                TextOrValue::Text(text) => Value::from(text.into_owned()),
                TextOrValue::Value(value) => {
                    prop_assert!(!value.is_string());
                    value
                }
            };
            prop_assert_eq!(read, value);
        }
    }
}
