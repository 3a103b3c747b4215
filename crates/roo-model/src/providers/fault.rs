//! Failures of an endpoint, before they carry its name.

use super::ModelErrorKind;

/// A failure whose endpoint is still to be named.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) kind: ModelErrorKind,
    pub(super) text: String,
}

impl Fault {
    pub(super) fn new(kind: ModelErrorKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into() }
    }

    /// An event that is not what its wire format says.
    pub(super) fn malformed(error: &serde_json::Error) -> Self {
        Self::new(ModelErrorKind::Malformed, format!("an event of the stream can't be read: {error}"))
    }
}
