//! Steps towards the bounds of a command that failed.

use std::io;

/// A step towards the bounds that failed.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {source}")]
pub(super) struct SetupFailure {
    what: String,
    source: io::Error,
}

/// Names the step that failed.
pub(super) trait StepContext<T> {
    fn step(self, what: &str) -> Result<T, SetupFailure>;
}

impl<T, E: Into<io::Error>> StepContext<T> for Result<T, E> {
    fn step(self, what: &str) -> Result<T, SetupFailure> {
        self.map_err(|error| SetupFailure { what: what.to_owned(), source: error.into() })
    }
}
