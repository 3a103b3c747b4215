//! A text that grows while it streams and whose ends are cut: what of it can be shown already, and
//! what is it in the end? What was shown is always a beginning of the end result.

use roo_catalog::TagSpace;
use roo_text::work;

const CDATA: &str = "<![CDATA[";
const CDATA_END: &str = "]]>";

/// The text so far.
#[derive(Debug)]
pub(super) struct Growing {
    cut: TagSpace,
    /// True if a CDATA section that is all of the text stands for what it holds.
    unwraps_cdata: bool,
    text: String,
    /// Offset of the value in `text`; none while that is open.
    start: Option<usize>,
    /// Up to where `text` was shown or cut.
    shown: usize,
}

impl Growing {
    /// An empty text, and what is cut from its ends. A newline is LF or CRLF.
    pub(super) fn new(cut: TagSpace) -> Self {
        Self { cut, unwraps_cdata: false, text: String::new(), start: None, shown: 0 }
    }

    /// The value of a parameter: where it is one CDATA section, as XML would have it, what that holds.
    pub(super) fn value(cut: TagSpace) -> Self {
        Self { unwraps_cdata: true, ..Self::new(cut) }
    }

    /// Adds a piece and returns what can be shown now.
    pub(super) fn push(&mut self, piece: &str) -> &str {
        work::add(piece.len());
        let piece = match self.cut {
            TagSpace::Blank if self.text.is_empty() => piece.trim_start(),
            _ => piece,
        };
        let before = self.text.len();
        self.text.push_str(piece);
        if self.unwraps_cdata && self.may_be_cdata() {
            return "";
        }
        let shown = match self.cut {
            TagSpace::Blank => {
                self.start = Some(0);
                let kept = piece.trim_end().len();
                if kept == 0 { self.shown } else { before + kept }
            }
            TagSpace::Newlines | TagSpace::FirstNewline => match self.start() {
                None => 0,
                Some(start) => {
                    self.shown = self.shown.max(start);
                    let body = self.text.get(start..).unwrap_or_default();
                    start
                        + match self.cut {
                            TagSpace::FirstNewline => body.len(),
                            _ => {
                                // A last CR may be half a newline.
                                let body = body.strip_suffix('\n').unwrap_or(body);
                                body.strip_suffix('\r').unwrap_or(body).len()
                            }
                        }
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

    /// Returns whether the text so far is or may become a CDATA section. What it holds is shown when it is whole.
    fn may_be_cdata(&mut self) -> bool {
        let start = if self.cut == TagSpace::Blank { Some(0) } else { self.start() };
        self.shown = self.shown.max(start.unwrap_or(0));
        let body = start.and_then(|start| self.text.get(start..)).unwrap_or_default();
        body.starts_with(CDATA) || CDATA.starts_with(body)
    }

    /// The text so far, also what is not shown yet.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Returns whether the text so far ends with one of these characters; nothing of its end is cut yet.
    pub(super) fn ends_with(&self, characters: &[char]) -> bool {
        self.text.ends_with(characters)
    }

    /// The value, and what of it was not shown yet. Leaves an empty text.
    pub(super) fn finish(&mut self) -> (String, String) {
        let empty = Self { unwraps_cdata: self.unwraps_cdata, ..Self::new(self.cut) };
        let Self { text: mut value, start, shown, cut, unwraps_cdata } = std::mem::replace(self, empty);
        let start = start.unwrap_or(0);
        let body = value.get(start..).unwrap_or_default();
        let section = body.trim_end().strip_prefix(CDATA).and_then(|body| body.strip_suffix(CDATA_END));
        if let Some(section) = section.filter(|section| unwraps_cdata && !section.contains(CDATA_END)) {
            let mut held = Self::new(cut);
            held.push(section);
            let (value, _) = held.finish();
            return (value.clone(), value);
        }
        let body = match cut {
            TagSpace::Blank => body.trim_end(),
            TagSpace::FirstNewline => body,
            TagSpace::Newlines => body.strip_suffix("\r\n").or(body.strip_suffix('\n')).unwrap_or(body),
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

    fn grow(cut: TagSpace, pieces: &[&str]) -> (String, String) {
        let mut growing = Growing::new(cut);
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
            assert_eq!(grow(TagSpace::Newlines, &[text]).0, expected, "{text:?}");
        }
    }

    #[test]
    fn the_last_newline_of_a_file_is_its_own() {
        for (text, expected) in [
            ("\na\n", "a\n"),
            ("\r\na\r\n", "a\r\n"),
            ("a", "a"),
            ("\n\na\n\n", "\na\n\n"),
            ("\r", "\r"),
            ("\n", ""),
            ("", ""),
        ] {
            assert_eq!(grow(TagSpace::FirstNewline, &[text]).0, expected, "{text:?}");
        }
    }

    #[test]
    fn a_value_that_is_one_cdata_section_is_what_it_holds() {
        let value = |cut, pieces: &[&str]| {
            let mut growing = Growing::value(cut);
            let shown: String = pieces.iter().map(|piece| growing.push(piece).to_owned()).collect();
            let (value, rest) = growing.finish();
            assert_eq!(shown + &rest, value);
            value
        };
        for (pieces, blank, newlines, first) in [
            (&["\n<![CDATA[\n<a>1 < 2</a>\n]]>\n"][..], "<a>1 < 2</a>", "<a>1 < 2</a>", "<a>1 < 2</a>\n"),
            (&["<![CDA", "TA[ a ", "]]", ">"], "a", " a ", " a "),
            (&["<![CDATA[]]>"], "", "", ""),
            (&["<![CDATA[a]]>b"], "<![CDATA[a]]>b", "<![CDATA[a]]>b", "<![CDATA[a]]>b"),
            (&["<![CDATA[a]]>]]>"], "<![CDATA[a]]>]]>", "<![CDATA[a]]>]]>", "<![CDATA[a]]>]]>"),
            (&["<!", "-- a -->"], "<!-- a -->", "<!-- a -->", "<!-- a -->"),
            (&["<![CDATA", "\n"], "<![CDATA", "<![CDATA", "<![CDATA\n"),
        ] {
            assert_eq!(value(TagSpace::Blank, pieces), blank);
            assert_eq!(value(TagSpace::Newlines, pieces), newlines);
            assert_eq!(value(TagSpace::FirstNewline, pieces), first);
        }
        assert_eq!(grow(TagSpace::Blank, &["<![CDATA[a]]>"]).0, "<![CDATA[a]]>", "of text it is a part");
    }

    #[test]
    fn all_white_space_is_cut_from_the_ends_of_text() {
        assert_eq!(grow(TagSpace::Blank, &[" \n", " a", "  ", "b ", "\n"]).0, "a  b");
        assert_eq!(grow(TagSpace::Blank, &[" ", "\n"]).0, "");
    }

    proptest! {
        #[test]
        fn what_is_shown_is_the_value_for_any_chunking(pieces in prop::collection::vec("[ab \r\n]{0,3}", 0..8)) {
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            let whole = pieces.concat();
            for cut in [TagSpace::Blank, TagSpace::Newlines, TagSpace::FirstNewline] {
                let (value, shown) = grow(cut, &pieces);
                prop_assert_eq!(&value, &shown);
                prop_assert_eq!(&value, &grow(cut, &[&whole]).0);
            }
        }
    }
}
