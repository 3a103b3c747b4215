//! Characters written as entities (`&lt;` for `<`), as some models send them.
//!
//! Whether a text is meant so can't be seen from the text alone: callers decode only what makes no sense
//! otherwise, and say so.

/// The longest entity that is read, without `&` and `;`.
const MAX_ENTITY_BYTES: usize = 8;

/// The entities that stand for characters of code.
const NAMED: [(&str, char); 7] =
    [("lt", '<'), ("gt", '>'), ("amp", '&'), ("quot", '"'), ("apos", '\''), ("lsqb", '['), ("rsqb", ']')];

/// A text with its entities decoded, once; none where there are none.
pub fn decode(text: &str) -> Option<String> {
    let mut decoded = String::with_capacity(text.len());
    let mut rest = text;
    let mut found = false;
    while let Some(at) = rest.find('&') {
        let (plain, entity) = rest.split_at(at);
        decoded.push_str(plain);
        match read(entity) {
            Some((character, length)) => {
                decoded.push(character);
                rest = &entity[length..];
                found = true;
            }
            None => {
                decoded.push('&');
                rest = &entity[1..];
            }
        }
    }
    decoded.push_str(rest);
    found.then_some(decoded)
}

/// Returns whether a text looks as if all of it was escaped: it has entities, and no character that escaping takes
/// away.
pub fn looks_escaped(text: &str) -> bool {
    let mut found = false;
    for (at, character) in text.char_indices() {
        match character {
            '<' => return false,
            '&' => match read(&text[at..]) {
                Some(_) => found = true,
                None => return false,
            },
            _ => {}
        }
    }
    found
}

/// The character of the entity at the start of a text, and how long the entity is.
fn read(text: &str) -> Option<(char, usize)> {
    let body = text.strip_prefix('&')?;
    let end = body.bytes().take(MAX_ENTITY_BYTES + 1).position(|byte| byte == b';')?;
    let name = body.get(..end)?;
    let character = match name.strip_prefix('#') {
        None => NAMED.iter().find(|(known, _)| *known == name)?.1,
        Some(number) => {
            let code = match number.strip_prefix(['x', 'X']) {
                Some(digits) => u32::from_str_radix(digits, 16),
                None => number.parse(),
            };
            char::from_u32(code.ok()?).filter(|c| c.is_ascii_graphic() || *c == ' ')?
        }
    };
    Some((character, end + 2))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn entities_are_decoded_once() {
        for (text, expected) in [
            ("a &lt; b &amp;&amp; c", Some("a < b && c")),
            ("&quot;x&#39;&#x27;&apos;&#91;&rsqb;", Some("\"x'''[]")),
            ("&amp;lt;", Some("&lt;")),
            ("a & b && c; &copy; &lt &; &#0; &#9999999999;", None),
            ("&é;", None),
            ("", None),
        ] {
            assert_eq!(decode(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn escaped_text_has_nothing_left_to_escape() {
        for text in ["if (a &lt; b &amp;&amp; c)", "&quot;x&quot; => y"] {
            assert!(looks_escaped(text), "{text}");
        }
        for text in ["a < b; \"&lt;\"", "s.replace(\"&\", \"&amp;\")", "plain", "", "a && b", "&copy; &lt;"] {
            assert!(!looks_escaped(text), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_escaped_is_decoded_again(text in "[a-z<>&\"'; #é]{0,30}") {
            let escaped = quick_xml::escape::escape(text.as_str());
            prop_assert_eq!(decode(&escaped).unwrap_or_else(|| escaped.to_string()), text.clone());
            prop_assert!(escaped == text || looks_escaped(&escaped));
        }
    }
}
