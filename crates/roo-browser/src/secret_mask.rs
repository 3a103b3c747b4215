//! Masking of secrets in texts of a page before they are cut: part of a secret isn't recognized.
//!
//! What is a secret is the caller's to know ([`SecretMask`]). Until it asks, texts are kept as the page wrote them
//! ([`KeptText`]), longer than they are shown.

use std::borrow::Cow;

use roo_text::render::cut;

/// The most characters of a text that are kept.
const KEPT: usize = 4000;

/// Masks the secrets in texts of a page.
pub trait SecretMask: Send + Sync {
    /// Masks a whole text.
    fn whole<'a>(&self, text: &'a str) -> Cow<'a, str>;

    /// Masks the beginning of a longer text, and leaves out an end in which a secret may begin.
    fn beginning<'a>(&self, text: &'a str) -> Cow<'a, str>;
}

/// Text of a page until somebody looks: all of it, or its beginning where it is too long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeptText {
    text: String,
    goes_on: bool,
}

impl KeptText {
    pub(crate) fn new(text: &str) -> Self {
        match text.char_indices().nth(KEPT) {
            Some((end, _)) => Self { text: text[..end].to_owned(), goes_on: true },
            None => Self { text: text.to_owned(), goes_on: false },
        }
    }

    /// Returns at most so many characters of it, secrets masked.
    pub(crate) fn shown(&self, mask: &dyn SecretMask, max_chars: usize) -> String {
        let masked = match self.goes_on {
            true => Cow::Owned(format!("{}…", mask.beginning(&self.text))),
            false => mask.whole(&self.text),
        };
        cut(&masked, max_chars).into_owned()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) const SECRET: &str = "hunter2secret";

    /// Knows one secret.
    pub(crate) struct OneSecret;

    impl SecretMask for OneSecret {
        fn whole<'a>(&self, text: &'a str) -> Cow<'a, str> {
            text.replace(SECRET, "[masked]").into()
        }

        fn beginning<'a>(&self, text: &'a str) -> Cow<'a, str> {
            let begins = (1..SECRET.len()).rev().find(|&length| text.ends_with(&SECRET[..length]));
            self.whole(&text[..text.len() - begins.unwrap_or(0)]).into_owned().into()
        }
    }

    #[test]
    fn a_secret_is_masked_wherever_the_text_is_cut() {
        for before in 0..40 {
            let text = format!("{}{SECRET}{}", "x".repeat(before), "y".repeat(40));
            let shown = KeptText::new(&text).shown(&OneSecret, 20);
            assert!(!shown.contains("hunter") && shown.chars().count() <= 20, "{shown}");
        }
        for before in KEPT - SECRET.len() - 2..=KEPT {
            let text = format!("{}{SECRET}{}", "x".repeat(before), "y".repeat(40));
            let shown = KeptText::new(&text).shown(&OneSecret, usize::MAX);
            assert!(!shown.contains("xh") && shown.ends_with('…'), "{shown}");
        }
    }

    #[test]
    fn a_short_text_is_shown_as_it_is() {
        assert_eq!(KeptText::new("one\ntwo").shown(&OneSecret, 7), "one\ntwo");
        assert_eq!(KeptText::new("one\ntwo").shown(&OneSecret, 4), "one…");
    }
}
