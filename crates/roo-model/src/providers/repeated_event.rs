//! Events that differ from one before in a single text. Most of a stream are such, and to compare one with what stood around
//! that text costs a tenth of reading its JSON.

use std::borrow::Cow;

use memchr::memchr2;

/// What stands around the one text of an event.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RepeatedEvent {
    head: String,
    tail: String,
}

impl RepeatedEvent {
    /// The event around `text`, if that was read from it in place: one with escapes was not.
    pub(super) fn around(event: &str, text: &str) -> Option<Self> {
        let start = (text.as_ptr() as usize).checked_sub(event.as_ptr() as usize)?;
        let (head, rest) = event.split_at_checked(start)?;
        let tail = rest.strip_prefix(text)?;
        (head.ends_with('"') && tail.starts_with('"'))
            .then(|| Self { head: head.to_owned(), tail: tail.to_owned() })
    }

    /// The text in another event that is the same around it. None as well where the text has rarer escapes or is no text:
    /// then the event is to be read as any other.
    pub(super) fn text_of<'a>(&self, event: &'a str) -> Option<Cow<'a, str>> {
        unescaped(event.strip_prefix(self.head.as_str())?.strip_suffix(self.tail.as_str())?)
    }
}

/// What stands between the quotes of a JSON text.
fn unescaped(raw: &str) -> Option<Cow<'_, str>> {
    if raw.bytes().any(|byte| byte < b' ') {
        return None;
    }
    let mut text = String::new();
    let mut rest = raw;
    while let Some(at) = memchr2(b'"', b'\\', rest.as_bytes()) {
        let (plain, escape) = rest.split_at(at);
        let mut escape = escape.chars();
        let (Some('\\'), Some(character)) = (escape.next(), escape.next()) else { return None };
        if text.is_empty() {
            text.reserve_exact(raw.len());
        }
        text.push_str(plain);
        text.push(match character {
            '"' | '\\' | '/' => character,
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'b' => '\u{8}',
            'f' => '\u{c}',
            _ => return None,
        });
        rest = escape.as_str();
    }
    if text.is_empty() {
        return Some(Cow::Borrowed(raw));
    }
    text.push_str(rest);
    Some(Cow::Owned(text))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    const EVENT: &str = r#"{"index":0,"text":"once","end":{"n":null}}"#;

    fn around(event: &str) -> Option<RepeatedEvent> {
        let at = event.find("once").unwrap();
        RepeatedEvent::around(event, &event[at..at + 4])
    }

    #[test]
    fn the_text_of_a_like_event_is_found() {
        let repeated = around(EVENT).unwrap();
        assert_eq!(repeated.text_of(EVENT).unwrap(), "once");
        let escaped = EVENT.replace("once", r#"a\"b\\n\n€"#);
        assert_eq!(repeated.text_of(&escaped).unwrap(), "a\"b\\n\n€");
        assert_eq!(repeated.text_of(&EVENT.replace("once", "")).unwrap(), "");
    }

    #[test]
    fn what_differs_elsewhere_or_has_rare_escapes_is_not_read() {
        let repeated = around(EVENT).unwrap();
        for (from, to) in [
            ("0", "1"),
            ("once\"", "once\",\"text\":\"twice\""),
            ("once", r"\u00e9"),
            ("once", "\\"),
            ("once", "a\tb"),
            ("null", "1"),
            ("}}", "} }"),
        ] {
            assert_eq!(repeated.text_of(&EVENT.replace(from, to)), None, "{to}");
        }
    }

    #[test]
    fn a_text_that_is_elsewhere_has_no_place_in_the_event() {
        let elsewhere = String::from("once");
        assert_eq!(RepeatedEvent::around(EVENT, &elsewhere), None);
        assert_eq!(RepeatedEvent::around(EVENT, ""), None);
        assert_eq!(RepeatedEvent::around(EVENT, &EVENT[..4]), None);
    }

    proptest! {
        #[test]
        fn a_text_is_read_as_its_json(text in "[a\"\\\\\n\t\u{1}é/]{0,12}", raw in r#"["\\nu0a}, \t]{0,12}"#) {
            let repeated = around(EVENT).unwrap();
            let event = json!({ "index": 0, "text": text, "end": { "n": null } }).to_string();
            for event in [event, EVENT.replace("once", &raw)] {
                let Some(read) = repeated.text_of(&event) else { continue };
                let json: Value = serde_json::from_str(&event).unwrap();
                prop_assert_eq!(json["text"].as_str(), Some(&*read));
            }
        }
    }
}
