//! Values of records: bounded in length and without line breaks.

use std::borrow::Cow;

use roo_protocol::ids::Digest;

/// The longest path, in bytes.
pub(super) const PATH: usize = 4096;
/// The longest name, id or title, in bytes.
pub(super) const NAME: usize = 250;
/// The most entries of a list of names.
pub(super) const LIST: usize = 64;

/// A value as a record holds it: at most `limit` bytes, and without the characters that some programs take
/// for the end of a line although JSON does not escape them. What is cut off leaves a part of its digest, so
/// that two values that begin alike stay apart.
pub(super) fn bounded(text: &str, limit: usize) -> Cow<'_, str> {
    if text.len() <= limit && !text.contains(ends_line) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len().min(limit) + 32);
    for c in text.chars() {
        let length = shown.len();
        if ends_line(c) {
            shown.push_str(&format!("<U+{:04X}>", u32::from(c)));
        } else {
            shown.push(c);
        }
        if shown.len() > limit {
            shown.truncate(length);
            let digest = Digest::of(text).hex();
            let mark = format!("…{}", &digest[..16]);
            shown.truncate(shown.floor_char_boundary(limit.saturating_sub(mark.len())));
            shown.push_str(&mark);
            break;
        }
    }
    Cow::Owned(shown)
}

/// Next line, line separator, paragraph separator: JSON leaves them as they are.
fn ends_line(c: char) -> bool {
    matches!(c, '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// `text` as the last part of a URN: what is not plain becomes a percent-escape (RFC 8141).
pub(super) fn urn(kind: &str, text: &str) -> String {
    let mut urn = format!("urn:roo-lsp:{kind}:");
    for byte in bounded(text, NAME).bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => urn.push(char::from(byte)),
            other => urn.push_str(&format!("%{other:02X}")),
        }
    }
    urn
}

/// The last part of a URN, as it was before [`urn`]; all of a text that is none.
pub(super) fn name_in_urn(urn: &str) -> String {
    let mut bytes = urn.rsplit(':').next().unwrap_or_default().bytes();
    let mut name = Vec::new();
    while let Some(byte) = bytes.next() {
        let escaped = || {
            let digits = [bytes.clone().next()?, bytes.clone().nth(1)?];
            u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()
        };
        match if byte == b'%' { escaped() } else { None } {
            Some(escaped) => {
                name.push(escaped);
                bytes.nth(1);
            }
            None => name.push(byte),
        }
    }
    String::from_utf8_lossy(&name).into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn long_values_are_cut_and_stay_apart() {
        let (a, b) = ("é".repeat(1 << 20), format!("{}x", "é".repeat(1 << 20)));
        let (a, b) = (bounded(&a, NAME), bounded(&b, NAME));
        assert!(a.len() <= NAME && a != b, "{a}\n{b}");
    }

    #[test]
    fn nothing_ends_a_line_but_what_json_escapes() {
        assert_eq!(bounded("a\u{2028}b\u{2029}c\u{85}", NAME), "a<U+2028>b<U+2029>c<U+0085>");
        assert_eq!(bounded("a\nb", NAME), "a\nb");
    }

    #[test]
    fn a_urn_has_plain_characters_only() {
        assert_eq!(urn("intent", "INT-001"), "urn:roo-lsp:intent:INT-001");
        assert_eq!(urn("task", "a b\"\n/é"), "urn:roo-lsp:task:a%20b%22%0A%2F%C3%A9");
        assert_eq!(name_in_urn("urn:roo-lsp:task:a%20b%22%0A%2F%C3%A9"), "a b\"\n/é");
        assert_eq!(name_in_urn("50%"), "50%");
    }

    proptest! {
        #[test]
        fn values_are_bounded(text in "\\PC{0,80}|[\u{2028}a\u{85}]{0,80}", limit in 32..60_usize) {
            let shown = bounded(&text, limit);
            prop_assert!(shown.len() <= limit);
            prop_assert_eq!(bounded(&shown, limit).into_owned(), shown.into_owned());
        }
    }
}
