//! Parameters of methods and commands: an error names the field.

use serde::de::{Deserialize, Deserializer, Error as _};

/// Parameters of a `roo/*` method.
pub(super) struct Params<T>(pub(super) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Params<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        serde_path_to_error::deserialize(deserializer)
            .map(Self)
            .map_err(|error| D::Error::custom(in_words(&error)))
    }
}

/// Describes a problem with parameters, and its position.
pub(super) fn in_words(error: &serde_path_to_error::Error<impl std::fmt::Display>) -> String {
    match error.path().to_string().as_str() {
        "." => error.inner().to_string(),
        path => format!("{path}: {}", error.inner()),
    }
}
