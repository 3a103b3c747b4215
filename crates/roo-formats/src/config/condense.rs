//! When a conversation is summarised: `condense` of a profile.

use std::fmt;

use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The smallest threshold, in percent: below, a conversation would be summarised all the time.
const MIN_THRESHOLD_PERCENT: u8 = 5;

/// Use of summaries in place of earlier turns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condense {
    /// True if a model is asked for summaries.
    pub is_on: bool,
    /// Share of the window above which the conversation is shortened, in percent.
    pub threshold: u8,
    /// The profile of the model that writes them; none for the task's own.
    pub profile: Option<String>,
}

impl Default for Condense {
    fn default() -> Self {
        Self { is_on: true, threshold: 100, profile: None }
    }
}

/// `condense` as it is written.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "its declaration is used, in schemas and completion")]
pub(super) enum CondenseForm {
    /// A word.
    Word(CondenseWord),
    /// Options.
    Options(CondenseOptions),
}

/// Whether earlier turns are summarised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum CondenseWord {
    /// When the conversation would not fit the window otherwise.
    Auto,
    /// Never. Earlier turns become a list of their calls then.
    Off,
}

/// When earlier turns are summarised, and by whom.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct CondenseOptions {
    /// Share of the window above which the conversation is shortened, in percent, from 5 to 100. It is shortened in any
    /// case where the next request would not fit.
    #[schemars(range(min = 5, max = 100))]
    threshold: u8,
    /// The name of the profile whose model writes the summary. When left out, the task's own.
    profile: Option<String>,
}

impl Default for CondenseOptions {
    fn default() -> Self {
        let Condense { threshold, profile, .. } = Condense::default();
        Self { threshold, profile }
    }
}

impl Serialize for Condense {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self { is_on: false, .. } => CondenseWord::Off.serialize(serializer),
            Self { threshold, profile, .. } => {
                CondenseOptions { threshold: *threshold, profile: profile.clone() }.serialize(serializer)
            }
        }
    }
}

impl<'de> Deserialize<'de> for Condense {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Written;

        impl<'de> Visitor<'de> for Written {
            type Value = Condense;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`auto`, `off` or `threshold` and `profile`")
            }

            fn visit_unit<E: Error>(self) -> Result<Condense, E> {
                Ok(Condense::default())
            }

            // Older YAML reads `off` as false.
            fn visit_bool<E: Error>(self, is_on: bool) -> Result<Condense, E> {
                Ok(Condense { is_on, ..Condense::default() })
            }

            fn visit_str<E: Error>(self, word: &str) -> Result<Condense, E> {
                match word {
                    "auto" => self.visit_bool(true),
                    "off" => self.visit_bool(false),
                    other => Err(E::custom(format!("expected `auto` or `off`, got `{other}`"))),
                }
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Condense, A::Error> {
                let CondenseOptions { threshold, profile } =
                    CondenseOptions::deserialize(MapAccessDeserializer::new(map))?;
                if !(MIN_THRESHOLD_PERCENT..=100).contains(&threshold) {
                    let problem = format!(
                        "`threshold` must be a number from {MIN_THRESHOLD_PERCENT} to 100, got {threshold}"
                    );
                    return Err(A::Error::custom(problem));
                }
                Ok(Condense { is_on: true, threshold, profile })
            }
        }

        deserializer.deserialize_any(Written)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_word_or_options_say_when_turns_are_summarised() {
        let read = |value| serde_json::from_value::<Condense>(value).map_err(|error| error.to_string());
        let off = Condense { is_on: false, ..Condense::default() };
        assert_eq!(read(json!("off")), Ok(off.clone()));
        assert_eq!(read(json!(false)), Ok(off.clone()));
        assert_eq!(read(json!("auto")), Ok(Condense::default()));
        let own = Condense { is_on: true, threshold: 80, profile: Some("cheap".to_owned()) };
        assert_eq!(read(json!({ "threshold": 80, "profile": "cheap" })), Ok(own.clone()));
        assert_eq!(
            read(json!({ "threshold": 4 })).unwrap_err(),
            "`threshold` must be a number from 5 to 100, got 4"
        );
        assert!(read(json!("never")).is_err());
        for condense in [off, own, Condense::default()] {
            assert_eq!(read(serde_json::to_value(&condense).unwrap()), Ok(condense));
        }
    }
}
