//! Masks in whole texts: making them without moving a line, and recognizing them where a model writes them back.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{ExactValues, Redactor};

/// Beginning of every mask; its name and `]` follow.
const BEGIN: &str = "[masked: ";
/// The longest name of a mask, in bytes.
const NAME: usize = 80;

/// Mask for secrets in texts of files.
#[derive(Clone, Debug, Default)]
pub struct TextMask {
    /// None if nothing is to be masked.
    exact: Option<Arc<ExactValues>>,
}

impl TextMask {
    /// Creates a mask for what looks like a secret and for these values. If not `enabled`, it masks nothing.
    pub fn new(enabled: bool, exact: impl FnOnce() -> ExactValues) -> Self {
        Self { exact: enabled.then(|| Arc::new(exact())) }
    }

    /// Returns the text with masks in place of secrets, each line where it was; none where there is no secret.
    pub fn masked(&self, text: &str) -> Option<String> {
        let mut redactor = Redactor::new(true, self.exact.as_ref()?).keeping_lines();
        let mut masked = redactor.push(text).into_owned();
        masked.push_str(&redactor.finish());
        (masked != text).then_some(masked)
    }

    /// Returns whether what is no text holds a secret that can be read in it: in characters of one byte, or of two.
    pub fn finds_in(&self, bytes: &[u8]) -> bool {
        let is_found = |bytes: &[u8]| self.masked(&String::from_utf8_lossy(bytes)).is_some();
        is_found(bytes) || is_found(&bytes.iter().copied().filter(|byte| *byte != 0).collect::<Vec<_>>())
    }

    /// Returns a filter for one text that comes in pieces.
    pub fn redactor(&self) -> Redactor {
        match &self.exact {
            Some(exact) => Redactor::new(true, exact),
            None => Redactor::new(false, &Arc::default()),
        }
    }
}

/// The masks in a text, each with how often it is there.
fn masks(text: &str) -> BTreeMap<&str, usize> {
    let mut masks = BTreeMap::new();
    for (at, _) in text.match_indices(BEGIN) {
        let rest = text.get(at..).unwrap_or_default();
        if let Some(end) = rest.find([']', '\n']).filter(|end| *end <= BEGIN.len() + NAME)
            && let Some(mask) = rest.get(..=end).filter(|mask| mask.ends_with(']'))
        {
            *masks.entry(mask).or_default() += 1;
        }
    }
    masks
}

/// Reports whether a text holds a mask.
pub fn holds_mask(text: &str) -> bool {
    !masks(text).is_empty()
}

/// Returns a mask that is more often in a new text than in the one that it replaces.
pub fn new_mask<'a>(before: Option<&str>, after: &'a str) -> Option<&'a str> {
    let known = before.map(masks).unwrap_or_default();
    let is_new = |(mask, count): &(&str, usize)| *count > known.get(mask).copied().unwrap_or_default();
    masks(after).into_iter().find(is_new).map(|(mask, _)| mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_stays_where_it_was() {
        let token = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9".repeat(2));
        let key = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n-----END PRIVATE KEY-----";
        let text = format!("one\ntoken: {token}\n{key}\nlast\n");
        let mask = TextMask::new(true, ExactValues::default);
        let masked = mask.masked(&text).unwrap();
        assert!(masked.contains("token: [masked: ") && !masked.contains("MIIE"), "{masked}");
        assert_eq!(masked.lines().count(), text.lines().count(), "{masked}");
        assert_eq!(masked.lines().position(|line| line == "last"), Some(6));
        assert_eq!(mask.masked("one\ntwo\n"), None);
        assert_eq!(TextMask::default().masked(&text), None);
    }

    #[test]
    fn a_mask_is_new_where_there_are_more_of_it() {
        let (one, two) = ("a [masked: x]", "a [masked: x] [masked: x]");
        assert_eq!(new_mask(None, one), Some("[masked: x]"));
        assert_eq!(new_mask(Some(one), one), None);
        assert_eq!(new_mask(Some(one), two), Some("[masked: x]"));
        assert_eq!(new_mask(Some(one), "a [masked: y]"), Some("[masked: y]"));
        assert_eq!(new_mask(None, "[masked: x\n]"), None);
        assert!(!holds_mask("[masked: ") && !holds_mask("[masked:]"));
    }
}
