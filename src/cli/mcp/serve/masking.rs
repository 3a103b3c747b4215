//! The mask of secrets over all that calling agents get.

use std::path::Path;

use roo_sandbox::exec::redaction::TextMask;
use roo_sandbox::exec::{Environment, known_secrets};

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
    pub(super) fn apply(&self, text: &mut String) {
        if let Some(masked) = self.0.masked(text) {
            *text = masked;
        }
    }

    /// The text with masks in place of secrets.
    pub(super) fn masked(&self, mut text: String) -> String {
        self.apply(&mut text);
        text
    }
}
