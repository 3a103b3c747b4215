//! Terminal control sequences (ECMA-48) in the output of commands: taken out, so that output can
//! steer neither the terminal nor the model that reads it.

use std::borrow::Cow;

/// Takes control sequences and control characters out of text that comes in pieces. Newline,
/// carriage return, tab and backspace stay.
#[derive(Debug, Default)]
pub struct Escapes {
    state: EscapeState,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum EscapeState {
    #[default]
    Ground,
    /// After ESC.
    Escape,
    /// After CSI; with the last digit seen.
    Sequence(Option<char>),
    /// In a string such as a window title.
    Text,
    /// After ESC in a string.
    TextEscape,
}

/// Interpretation of a character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Glyph {
    Char(char),
    /// Everything from the cursor to the end of the line goes.
    EraseToEnd,
    /// The line starts over.
    EraseLine,
}

impl Escapes {
    /// The text without control sequences.
    pub fn plain<'a>(&mut self, text: &'a str) -> Cow<'a, str> {
        if self.passes(text) {
            return Cow::Borrowed(text);
        }
        let kept = text.chars().filter_map(|c| match self.next(c) {
            Some(Glyph::Char(c)) => Some(c),
            _ => None,
        });
        Cow::Owned(kept.collect())
    }

    /// Returns whether the text certainly passes unchanged and moves no cursor but by newlines and tabs.
    pub(super) fn passes(&self, text: &str) -> bool {
        // 0xC2 begins the C1 controls in UTF-8 (and some harmless characters, for which the slow way
        // gives the same result).
        let special =
            |byte: u8| (byte < b' ' && byte != b'\n' && byte != b'\t') || matches!(byte, 0x7f | 0xc2);
        self.state == EscapeState::Ground && !text.bytes().any(special)
    }

    pub(super) fn next(&mut self, c: char) -> Option<Glyph> {
        match self.state {
            EscapeState::Ground => self.ground(c),
            EscapeState::Escape | EscapeState::TextEscape => match c {
                '\\' if self.state == EscapeState::TextEscape => self.to(EscapeState::Ground),
                '[' => self.to(EscapeState::Sequence(None)),
                ']' | 'P' | 'X' | '^' | '_' => self.to(EscapeState::Text),
                ' '..='/' => self.to(EscapeState::Escape),
                '0'..='~' => self.to(EscapeState::Ground),
                c => self.ground(c),
            },
            EscapeState::Sequence(digit) => match c {
                '0'..='9' => self.to(EscapeState::Sequence(Some(c))),
                ' '..='?' => self.to(EscapeState::Sequence(digit)),
                'K' => {
                    self.state = EscapeState::Ground;
                    match digit {
                        None | Some('0') => Some(Glyph::EraseToEnd),
                        Some('2') => Some(Glyph::EraseLine),
                        Some(_) => None,
                    }
                }
                '@'..='~' => self.to(EscapeState::Ground),
                c => self.ground(c),
            },
            EscapeState::Text => match c {
                '\u{7}' | '\u{18}' | '\u{1a}' | '\u{9c}' => self.to(EscapeState::Ground),
                '\u{1b}' => self.to(EscapeState::TextEscape),
                // A string that never ends must not hide the rest of the output.
                '\n' => self.ground(c),
                _ => None,
            },
        }
    }

    fn ground(&mut self, c: char) -> Option<Glyph> {
        self.state = EscapeState::Ground;
        match c {
            '\u{1b}' => self.to(EscapeState::Escape),
            '\u{9b}' => self.to(EscapeState::Sequence(None)),
            '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}' => self.to(EscapeState::Text),
            '\n' | '\r' | '\t' | '\u{8}' => Some(Glyph::Char(c)),
            c if c.is_control() => None,
            c => Some(Glyph::Char(c)),
        }
    }

    fn to(&mut self, state: EscapeState) -> Option<Glyph> {
        self.state = state;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        assert_eq!(Escapes::default().plain(text), expected, "{text:?} at once");
        let mut escapes = Escapes::default();
        let pieces: String = text.chars().map(|c| escapes.plain(&c.to_string()).into_owned()).collect();
        assert_eq!(pieces, expected, "{text:?} character by character");
    }

    #[test]
    fn colours_titles_links_and_clipboard_writes_are_taken_out() {
        check("\x1b[1;31mred\x1b[0m", "red");
        check("\x1b]0;title\x07after", "after");
        check("\x1b]52;c;c2VjcmV0\x1b\\after", "after");
        check("\x1b]8;;http://x\x07link\x1b]8;;\x07", "link");
        check("\x1bP1$r\x1b\\a\x1b(Bb\x1b=c\x1b[?1049hd", "abcd");
        check("\u{9b}31mred\u{9d}0;t\u{9c}!", "red!");
    }

    #[test]
    fn layout_characters_stay_and_other_controls_go() {
        check("a\tb\r\nc\u{8}d\u{7}\0\u{7f}\u{c}é", "a\tb\r\nc\u{8}dé");
    }

    #[test]
    fn an_unfinished_sequence_hides_at_most_its_line() {
        check("\x1b]0;never closed\nvisible", "\nvisible");
        check("\x1b[12\nvisible", "\nvisible");
        check("\x1b\nvisible", "\nvisible");
    }
}
