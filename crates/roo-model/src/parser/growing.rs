//! A text that grows while it streams and whose ends are cut: what of it can be shown already, and
//! what is it in the end? What was shown is always a beginning of the end result.

use roo_text::work;

/// Trimmed characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    /// All white space.
    Blank,
    /// One newline, LF or CRLF, at each end: those that stand next to the tags.
    Newline,
}

/// The text so far.
#[derive(Debug)]
pub(super) struct Growing {
    ends: Ends,
    text: String,
    /// Offset of the value in `text`; none while that is open.
    start: Option<usize>,
    /// Up to where `text` was shown or cut.
    shown: usize,
}

impl Growing {
    pub(super) fn new(ends: Ends) -> Self {
        Self { ends, text: String::new(), start: None, shown: 0 }
    }

    /// Adds a piece and returns what can be shown now.
    pub(super) fn push(&mut self, piece: &str) -> &str {
        work::add(piece.len());
        let piece = match self.ends {
            Ends::Blank if self.text.is_empty() => piece.trim_start(),
            _ => piece,
        };
        let before = self.text.len();
        self.text.push_str(piece);
        let shown = match self.ends {
            Ends::Blank => {
                self.start = Some(0);
                let kept = piece.trim_end().len();
                if kept == 0 { self.shown } else { before + kept }
            }
            Ends::Newline => match self.start() {
                None => 0,
                Some(start) => {
                    self.shown = self.shown.max(start);
                    // A last CR may be half a newline.
                    let body = self.text.get(start..).unwrap_or_default();
                    let body = body.strip_suffix('\n').unwrap_or(body);
                    start + body.strip_suffix('\r').unwrap_or(body).len()
                }
            },
        };
        let from = std::mem::replace(&mut self.shown, shown);
        self.text.get(from..shown).unwrap_or_default()
    }

    fn start(&mut self) -> Option<usize> {
        if self.start.is_none() && !matches!(self.text.as_str(), "" | "\r") {
            self.start = Some(match self.text.as_bytes() {
                [b'\r', b'\n', ..] => 2,
                [b'\n', ..] => 1,
                _ => 0,
            });
        }
        self.start
    }

    /// Returns whether the text so far ends with one of these characters; nothing of its end is cut yet.
    pub(super) fn ends_with(&self, characters: &[char]) -> bool {
        self.text.ends_with(characters)
    }

    /// The value, and what of it was not shown yet. Leaves an empty text.
    pub(super) fn finish(&mut self) -> (String, String) {
        let Self { text: mut value, start, shown, .. } = std::mem::replace(self, Self::new(self.ends));
        let start = start.unwrap_or(0);
        let body = value.get(start..).unwrap_or_default();
        let body = match self.ends {
            Ends::Blank => body.trim_end(),
            Ends::Newline => body.strip_suffix("\r\n").or(body.strip_suffix('\n')).unwrap_or(body),
        };
        value.truncate(start + body.len());
        let rest = value.get(shown..).unwrap_or_default().to_owned();
        value.drain(..start);
        (value, rest)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn grow(ends: Ends, pieces: &[&str]) -> (String, String) {
        let mut growing = Growing::new(ends);
        let mut shown = String::new();
        for piece in pieces {
            shown.push_str(growing.push(piece));
        }
        let (value, rest) = growing.finish();
        (value, shown + &rest)
    }

    #[test]
    fn exactly_one_newline_is_cut_from_each_end() {
        for (text, expected) in [
            ("\na\n", "a"),
            ("\r\na\r\n", "a"),
            ("\n\na\n\n", "\na\n"),
            ("  a  ", "  a  "),
            ("\r", "\r"),
            ("a\r", "a\r"),
            ("\n", ""),
            ("\r\n", ""),
            ("\n\n", ""),
            ("\n\n\n", "\n"),
            ("\n\r\n", ""),
            ("", ""),
        ] {
            assert_eq!(grow(Ends::Newline, &[text]).0, expected, "{text:?}");
        }
    }

    #[test]
    fn all_white_space_is_cut_from_the_ends_of_text() {
        assert_eq!(grow(Ends::Blank, &[" \n", " a", "  ", "b ", "\n"]).0, "a  b");
        assert_eq!(grow(Ends::Blank, &[" ", "\n"]).0, "");
    }

    proptest! {
        #[test]
        fn what_is_shown_is_the_value_for_any_chunking(pieces in prop::collection::vec("[ab \r\n]{0,3}", 0..8)) {
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            let whole = pieces.concat();
            for ends in [Ends::Blank, Ends::Newline] {
                let (value, shown) = grow(ends, &pieces);
                prop_assert_eq!(&value, &shown);
                prop_assert_eq!(&value, &grow(ends, &[&whole]).0);
            }
        }
    }
}
