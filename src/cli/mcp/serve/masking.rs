//! The mask of secrets over all that calling agents get.

use std::path::Path;

use roo_sandbox::exec::redaction::TextMask;
use roo_sandbox::exec::{Environment, known_secrets};
use serde_json::Value;

/// A mask of secrets in texts.
#[derive(Clone, Debug)]
pub(super) struct Mask(TextMask);

impl Mask {
    /// The mask of a workspace, by the values of its environment and of its files of variables, which are read.
    pub(super) fn new(enabled: bool, folder: &Path) -> Self {
        let exact = || known_secrets(&Environment::inherited(), std::iter::once(folder), &[]);
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
    pub(super) fn masked(&self, mut text: String) -> String {
        self.apply(&mut text);
        text
    }

    /// Puts masks in place of secrets in all texts of a value.
    pub(super) fn apply_to_texts(&self, value: &mut Value) {
        match value {
            Value::String(text) => self.apply(text),
            Value::Array(values) => values.iter_mut().for_each(|value| self.apply_to_texts(value)),
            Value::Object(fields) => fields.values_mut().for_each(|value| self.apply_to_texts(value)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}
