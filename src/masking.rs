//! The mask of secrets over all that programs of others get: agents that call tasks, and editors that speak a protocol of
//! others.

use std::path::Path;

use roo_sandbox::exec::redaction::{Redactor, TextMask};
use roo_sandbox::exec::{Environment, known_secrets};
use serde_json::Value;

/// A mask of secrets in texts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mask(TextMask);

impl Mask {
    /// The mask of a workspace, by the values of the environment and of the folders' files of variables, which are read.
    pub(crate) fn new<'f>(enabled: bool, folders: impl Iterator<Item = &'f Path>) -> Self {
        let exact = || known_secrets(&Environment::inherited(), folders, &[]);
        Self(TextMask::new(enabled, exact))
    }

    /// Puts masks in place of secrets.
    fn apply(&self, text: &mut String) {
        if let Some(masked) = self.0.masked(text) {
            *text = masked;
        }
    }

    /// The text with masks in place of secrets. To be called before the text is cut or quoted, as a part of a secret, or one
    /// with escapes in it, isn't found.
    pub(crate) fn masked(&self, mut text: String) -> String {
        self.apply(&mut text);
        text
    }

    /// A filter for a text that comes in pieces.
    pub(crate) fn stream(&self) -> Redactor {
        self.0.redactor()
    }

    /// Puts masks in place of secrets in all texts of a value.
    pub(crate) fn apply_to_texts(&self, value: &mut Value) {
        match value {
            Value::String(text) => self.apply(text),
            Value::Array(values) => values.iter_mut().for_each(|value| self.apply_to_texts(value)),
            Value::Object(fields) => fields.values_mut().for_each(|value| self.apply_to_texts(value)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}
