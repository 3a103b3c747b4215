//! Text made safe to show: nothing in it can hide, reorder or pass for something else.

use std::borrow::Cow;
use std::fmt::Display;

/// Shows control characters (except LF and tab), bidi controls, zero-width and other invisible
/// characters and tag characters as `<U+XXXX>`; what holds an emoji together is part of it. Text without
/// them stays as it is, so that showing text twice changes nothing.
pub fn visible(text: &str) -> Cow<'_, str> {
    let plain = text.bytes().all(|byte| matches!(byte, b'\n' | b'\t' | b' '..=b'~'));
    if plain || !text.chars().any(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    let mut rest = text.chars().peekable();
    let mut before = None;
    while let Some(c) = rest.next() {
        if is_hidden(c) && !is_of_emoji(before, c, rest.peek().copied()) {
            shown.push_str(&code_point(c));
        } else {
            shown.push(c);
        }
        before = Some(c);
    }
    Cow::Owned(shown)
}

/// Puts a name, a path or a command on one line as it is: what would break the line or can't be seen
/// becomes `<U+XXXX>`, and nothing is cut.
pub fn exact_line(text: &str) -> String {
    visible(text).replace('\n', "<U+000A>").replace('\t', "<U+0009>")
}

/// A text without characters that can't be seen, in which orders to a model could hide, and the byte offset
/// of the first that is suspicious. Those that shape emoji are not.
pub fn without_hidden(text: &str) -> (Cow<'_, str>, Option<usize>) {
    let hides = |c: char| is_hidden(c) && c != '\r';
    if !text.chars().any(hides) {
        return (Cow::Borrowed(text), None);
    }
    let suspicious = |c: char| hides(c) && !matches!(c, '\u{fe0e}' | '\u{fe0f}' | '\u{200d}');
    (Cow::Owned(text.chars().filter(|c| !hides(*c)).collect()), text.find(suspicious))
}

/// The first line of a text, without its end.
pub fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// A number of things, whose name forms its plural with an s: `1 record`, `2 records`.
pub fn counted(count: impl Display + PartialEq + From<u8>, name: &str) -> String {
    format!("{count} {name}{}", if count == 1.into() { "" } else { "s" })
}

/// At most `max_chars` characters of a text; what is cut off leaves `…`.
pub fn cut(text: &str, max_chars: usize) -> Cow<'_, str> {
    if text.chars().nth(max_chars).is_none() {
        return Cow::Borrowed(text);
    }
    let kept = text.chars().take(max_chars.saturating_sub(1));
    Cow::Owned(kept.chain((max_chars > 0).then_some('…')).collect())
}

/// Puts prose on one line of at most `max_chars` characters: line breaks become `⏎`, so that they stay
/// visible, runs of blanks one space, and what is cut off leaves `…`.
pub fn one_line(text: &str, max_chars: usize) -> String {
    let (mut line, mut length, mut cut) = (String::new(), 0, 0);
    for piece in pieces(text.trim()) {
        length += piece.chars().count();
        if length > max_chars {
            line.truncate(cut);
            if max_chars > 0 {
                line.push('…');
            }
            break;
        }
        line.push_str(&piece);
        // Up to here there is room for the mark.
        if length < max_chars {
            cut = line.len();
        }
    }
    line
}

/// The pieces of a line that are never cut: single characters, code points as `<U+XXXX>`, and blanks.
fn pieces(text: &str) -> impl Iterator<Item = Cow<'static, str>> {
    let mut rest = text.chars().peekable();
    let mut before = None;
    std::iter::from_fn(move || {
        let c = rest.next()?;
        let previous = before.replace(c);
        if !is_blank(c) {
            let hides = is_hidden(c) && !is_of_emoji(previous, c, rest.peek().copied());
            return Some(Cow::Owned(if hides { code_point(c) } else { c.to_string() }));
        }
        let mut breaks = c == '\n';
        while let Some(blank) = rest.next_if(|c| is_blank(*c)) {
            breaks |= blank == '\n';
        }
        Some(Cow::Borrowed(if breaks { " ⏎ " } else { " " }))
    })
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n')
}

fn code_point(c: char) -> String {
    format!("<U+{:04X}>", u32::from(c))
}

fn is_hidden(c: char) -> bool {
    !matches!(c, '\n' | '\t') && (c.is_control() || is_invisible(c))
}

/// Returns whether an invisible character only holds an emoji together: a presentation selector behind one, or a joiner
/// between two.
pub fn is_of_emoji(before: Option<char>, c: char, after: Option<char>) -> bool {
    let is_emoji = |c: char| matches!(c, '\u{203c}'..='\u{3299}' | '\u{1f000}'..='\u{1faff}');
    match c {
        '\u{fe0f}' => before.is_some_and(|c| {
            is_emoji(c) || (matches!(c, '0'..='9' | '#' | '*') && after == Some('\u{20e3}'))
        }),
        '\u{200d}' => before.is_some_and(|c| is_emoji(c) || c == '\u{fe0f}') && after.is_some_and(is_emoji),
        _ => false,
    }
}

/// Returns whether a character takes no space of its own or turns the direction of text, so that what it is in doesn't
/// look like what it is.
pub fn is_invisible(c: char) -> bool {
    match c {
        // Soft hyphen, combining grapheme joiner, Arabic letter mark, blank Hangul and Khmer letters.
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' => true,
        '\u{180b}'..='\u{180f}' => true,
        // Zero-width characters and directional marks; line and paragraph separators; bidi
        // embeddings and overrides; invisible operators; bidi isolates and retired format controls.
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' => true,
        // Blank Hangul letters, variation selectors, byte order mark, annotation marks.
        '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' => true,
        // Shorthand and musical format controls; tags and more variation selectors.
        '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}' => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn hidden_characters_become_visible() {
        for (text, shown) in [
            ("a\u{202e}b", "a<U+202E>b"),
            ("rm\u{200b} x", "rm<U+200B> x"),
            ("\u{1b}[2J", "<U+001B>[2J"),
            ("a\rb", "a<U+000D>b"),
            ("\u{85}\u{7f}\0", "<U+0085><U+007F><U+0000>"),
            ("hi\u{e0041}", "hi<U+E0041>"),
            ("\u{2066}x\u{2069}", "<U+2066>x<U+2069>"),
        ] {
            assert_eq!(visible(text), shown);
        }
    }

    #[test]
    fn plain_text_is_not_touched() {
        for text in ["", "a\n\tb", "Žluťoučký kůň", "日本語", "<U+202E>", "🦀"] {
            assert!(matches!(visible(text), Cow::Borrowed(same) if same == text));
        }
    }

    #[test]
    fn a_line_is_shortened_with_a_mark() {
        assert_eq!(one_line("short", 5), "short");
        assert_eq!(one_line("longer", 5), "long…");
        assert_eq!(one_line("  a \t b  ", 9), "a b");
        assert_eq!(one_line("ls\n  rm -r x\n", 20), "ls ⏎ rm -r x");
        assert_eq!(one_line("a\u{202e}b", 5), "a…");
        assert_eq!(one_line("x", 0), "");
    }

    #[test]
    fn an_exact_line_keeps_its_blanks() {
        assert_eq!(exact_line("src/\u{202e}gnp.ts"), "src/<U+202E>gnp.ts");
        assert_eq!(exact_line("a\nb\u{1b}[2K\t"), "a<U+000A>b<U+001B>[2K<U+0009>");
        assert_eq!(exact_line(" häuser/a  b/日本.md"), " häuser/a  b/日本.md");
    }

    #[test]
    fn one_thing_is_no_plural() {
        assert_eq!([0, 1, 2].map(|count| counted(count, "file")), ["0 files", "1 file", "2 files"]);
    }

    #[test]
    fn a_text_is_cut_with_a_mark() {
        for (limit, text) in [(4, "äöüß"), (3, "äö…"), (1, "…"), (0, "")] {
            assert_eq!(cut("äöüß", limit), text);
        }
    }

    proptest! {
        #[test]
        fn showing_twice_changes_nothing(text in any::<String>()) {
            let once = visible(&text).into_owned();
            prop_assert_eq!(visible(&once), once.as_str());
        }

        #[test]
        fn a_line_keeps_its_limit(text in "[a \n\t\u{200b}🦀]{0,30}", limit in 0usize..20) {
            let line = one_line(&text, limit);
            prop_assert!(line.chars().count() <= limit);
            prop_assert!(!line.contains('\n') && visible(&line) == line.as_str());
        }
    }

    #[test]
    fn what_holds_an_emoji_together_is_part_of_it() {
        for whole in ["🏗️ Architect", "🧑\u{200d}💻 Dev", "⚛️", "1️⃣ First", "🏳️\u{200d}🌈"]
        {
            assert_eq!(visible(whole), whole);
            assert_eq!(exact_line(whole), whole);
            assert_eq!(one_line(whole, 40), whole);
        }
        for (hidden, shown) in [
            ("a\u{fe0f}", "a<U+FE0F>"),
            ("\u{200d}🏗", "<U+200D>🏗"),
            ("🏗\u{200d}b", "🏗<U+200D>b"),
            ("1\u{fe0f}2", "1<U+FE0F>2"),
            ("🏗\u{fe0f}\u{fe0f}", "🏗\u{fe0f}<U+FE0F>"),
            ("🏗\u{202e}", "🏗<U+202E>"),
        ] {
            assert_eq!(visible(hidden), shown);
            assert_eq!(one_line(hidden, 40), shown);
        }
    }
}
