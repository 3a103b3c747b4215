//! Keys as texts: a type that can't be printed, and what can be a key.

use std::fmt;
use std::sync::Arc;

/// Text that must not be shown or logged.
#[derive(Clone)]
pub(super) struct Secret(Arc<str>);

impl Secret {
    pub(super) fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// The text, for a request header and for finding it in what a provider says.
    pub(super) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Returns whether this can stand in a request header: visible ASCII, one line.
pub fn is_usable(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_graphic())
}
