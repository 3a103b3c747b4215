//! Commands in settings: a program and its arguments.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// A command, not empty.
pub(super) fn optional_argv<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Vec<String>>, D::Error> {
    match Option::<Vec<String>>::deserialize(deserializer)? {
        Some(argv) if is_empty(&argv) => Err(D::Error::custom("must name a program, then its arguments")),
        argv => Ok(argv),
    }
}

pub(super) fn is_empty(argv: &[String]) -> bool {
    argv.first().is_none_or(|program| program.trim().is_empty())
}
