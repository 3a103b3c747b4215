//! Texts as tree-sitter's grammar of bash can be given them. Its scanner, which is C, asks the C library whether a character
//! behind `{` is a digit by a function that knows bytes alone: for any other one that reads memory which isn't its own.

use std::borrow::Cow;

/// Returns a text of the same length in which such characters are letters, byte by byte.
pub fn for_bash_grammar(text: &str) -> Cow<'_, str> {
    let mut changed: Option<Vec<u8>> = None;
    for (brace, _) in text.match_indices('{') {
        let mut at = after_digits(text, brace + 1);
        if text[at..].starts_with("..") {
            at = after_digits(text, at + 2);
        }
        let Some(c) = text[at..].chars().next().filter(|c| !c.is_ascii()) else { continue };
        let bytes = changed.get_or_insert_with(|| text.as_bytes().to_vec());
        bytes[at..at + c.len_utf8()].fill(b'x');
    }
    // Whole characters are replaced, so it is text.
    match changed.map(String::from_utf8) {
        Some(Ok(changed)) => Cow::Owned(changed),
        _ => Cow::Borrowed(text),
    }
}

fn after_digits(text: &str, from: usize) -> usize {
    from + text[from..].bytes().take_while(u8::is_ascii_digit).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_scanner_would_look_up_is_a_letter() {
        for (text, expected) in [
            ("echo {a,é} é {", "echo {a,é} é {"),
            ("echo {é,b}", "echo {xx,b}"),
            ("{\u{e0184}", "{xxxx"),
            ("{12\u{e0184}é", "{12xxxxé"),
            ("{1..é..3}", "{1..xx..3}"),
            ("{..1é} {{é", "{..1xx} {{xx"),
        ] {
            assert_eq!(for_bash_grammar(text), expected);
        }
    }

    proptest::proptest! {
        #[test]
        fn nothing_else_changes(text in "([{.é]|[0-9]|\u{e0184}|[a{]){0,20}") {
            let given = for_bash_grammar(&text);
            assert_eq!(given.len(), text.len());
            assert_eq!(for_bash_grammar(&given), given);
            for (one, other) in text.bytes().zip(given.bytes()) {
                assert!(one == other || (!one.is_ascii() && other == b'x'));
            }
        }
    }
}
