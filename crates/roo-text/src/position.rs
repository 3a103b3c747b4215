//! Positions as the Language Server Protocol 3.17 counts them, and edits between two texts.
//!
//! A line ends at LF, CRLF or a lone CR; a character is a code unit of the negotiated encoding.

use similar::DiffTag;

use super::diff;
pub use roo_protocol::task::{Position, Range};

/// Unit of a client's characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// Bytes.
    Utf8,
    /// 16-bit units: what every client knows.
    #[default]
    Utf16,
    /// Code points.
    Utf32,
}

impl Encoding {
    /// Number of units a character takes.
    fn width(self, c: char) -> usize {
        match self {
            Self::Utf8 => c.len_utf8(),
            Self::Utf16 => c.len_utf16(),
            Self::Utf32 => 1,
        }
    }
}

/// The line starts of one text, to convert many positions of it.
pub struct Positions<'a> {
    text: &'a str,
    encoding: Encoding,
    starts: Vec<usize>,
}

impl<'a> Positions<'a> {
    /// Reads the text once.
    pub fn new(text: &'a str, encoding: Encoding) -> Self {
        let bytes = text.as_bytes();
        let ends = bytes.iter().enumerate().filter(|(index, byte)| match byte {
            b'\n' => true,
            b'\r' => bytes.get(index + 1) != Some(&b'\n'),
            _ => false,
        });
        let starts = std::iter::once(0).chain(ends.map(|(index, _)| index + 1)).collect();
        Self { text, encoding, starts }
    }

    /// The byte offset of a position. A character past the end of its line is the end of the line,
    /// before what ends it; a line past the last is the end of the text; a position inside a code
    /// point is the start of that code point.
    pub fn offset(&self, position: Position) -> usize {
        let Some(start) = to_usize(position.line).and_then(|line| self.starts.get(line)) else {
            return self.text.len();
        };
        let line = self.text.get(*start..).unwrap_or_default();
        let mut left = to_usize(position.character).unwrap_or(usize::MAX);
        for (index, c) in line.char_indices() {
            let width = self.encoding.width(c);
            if matches!(c, '\n' | '\r') || width > left {
                return start + index;
            }
            left -= width;
        }
        self.text.len()
    }

    /// The position of a byte offset. An offset past the end is the end of the text; one inside a code
    /// point or between CR and LF is the place before.
    pub fn position(&self, offset: usize) -> Position {
        let line = self.starts.partition_point(|start| *start <= offset).saturating_sub(1);
        let start = self.starts.get(line).copied().unwrap_or_default();
        let rest = self.text.get(start..).unwrap_or_default();
        let character = rest
            .char_indices()
            .take_while(|(index, c)| !matches!(c, '\n' | '\r') && start + index + c.len_utf8() <= offset)
            .map(|(_, c)| self.encoding.width(c))
            .sum();
        Position { line: to_u32(line), character: to_u32(character) }
    }

    /// The byte offsets of a range; one that ends before it starts is empty.
    pub fn offsets(&self, range: Range) -> std::ops::Range<usize> {
        let start = self.offset(range.start);
        start..self.offset(range.end).max(start)
    }
}

/// Applies one change of `textDocument/didChange`: new text for a range, or for everything.
pub fn apply_change(text: &mut String, range: Option<Range>, new: &str, encoding: Encoding) {
    let offsets = match range {
        Some(range) => Positions::new(text, encoding).offsets(range),
        None => 0..text.len(),
    };
    text.replace_range(offsets, new);
}

/// Whole-line edits that turn one text into the other, for `workspace/applyEdit`: ascending, apart from
/// each other, all against positions of the old text.
pub fn minimal_edits(before: &str, after: &str, encoding: Encoding) -> Vec<(Range, String)> {
    let (old, new) = (diff::split(before), diff::split(after));
    let positions = Positions::new(before, encoding);
    let mut offsets = Vec::with_capacity(old.len() + 1);
    offsets.push(0);
    offsets.extend(old.iter().scan(0, |offset, line| {
        *offset += line.len();
        Some(*offset)
    }));
    let at = |line: usize| positions.position(offsets.get(line).copied().unwrap_or(before.len()));
    diff::operations(&old, &new)
        .iter()
        .filter(|operation| operation.tag() != DiffTag::Equal)
        .map(|operation| {
            let lines = operation.old_range();
            (Range { start: at(lines.start), end: at(lines.end) }, new[operation.new_range()].concat())
        })
        .collect()
}

fn to_usize(number: u32) -> Option<usize> {
    usize::try_from(number).ok()
}

fn to_u32(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ENCODINGS: [Encoding; 3] = [Encoding::Utf8, Encoding::Utf16, Encoding::Utf32];

    fn at(line: u32, character: u32) -> Position {
        Position { line, character }
    }

    #[test]
    fn characters_are_units_of_the_encoding() {
        let text = "aé🦀z";
        for (encoding, character) in [(Encoding::Utf8, 7), (Encoding::Utf16, 4), (Encoding::Utf32, 3)] {
            let positions = Positions::new(text, encoding);
            assert_eq!(positions.offset(at(0, character)), 7);
            assert_eq!(positions.position(7), at(0, character));
        }
    }

    #[test]
    fn a_place_inside_a_code_point_is_the_place_before_it() {
        let positions = Positions::new("🦀z", Encoding::Utf16);
        assert_eq!(positions.offset(at(0, 1)), 0);
        assert_eq!(positions.position(2), at(0, 0));
        assert_eq!(Positions::new("é", Encoding::Utf8).offset(at(0, 1)), 0);
    }

    #[test]
    fn places_past_the_end_are_clamped() {
        let positions = Positions::new("ab\r\nc\n", Encoding::Utf16);
        assert_eq!(positions.offset(at(0, 99)), 2, "before the line end");
        assert_eq!(positions.offset(at(2, 0)), 6, "after the last line end");
        assert_eq!(positions.offset(at(9, 3)), 6);
        assert_eq!(positions.position(99), at(2, 0));
    }

    #[test]
    fn lines_end_at_lf_crlf_and_cr() {
        let positions = Positions::new("a\nb\r\nc\rd", Encoding::Utf16);
        let offsets: Vec<_> = (0..4).map(|line| positions.offset(at(line, 0))).collect();
        assert_eq!(offsets, [0, 2, 5, 7]);
        assert_eq!(positions.position(4), at(1, 1), "never between CR and LF");
    }

    #[test]
    fn changes_come_one_after_the_other() {
        let mut text = String::from("fn a() {}\n");
        let range = |from, to| Some(Range { start: at(0, from), end: at(0, to) });
        apply_change(&mut text, range(3, 4), "main", Encoding::Utf16);
        apply_change(&mut text, range(7, 7), "_loop", Encoding::Utf16);
        assert_eq!(text, "fn main_loop() {}\n");
        apply_change(&mut text, range(8, 2), "!", Encoding::Utf16);
        assert_eq!(text, "fn main_!loop() {}\n", "a reversed range is empty");
        apply_change(&mut text, None, "new", Encoding::Utf16);
        assert_eq!(text, "new");
    }

    #[test]
    fn edits_touch_only_the_lines_that_change() {
        let edits = minimal_edits("a\nb\nc\nd", "a\nB\nc\n", Encoding::Utf16);
        let whole = |from, to| Range { start: from, end: to };
        assert_eq!(
            edits,
            [(whole(at(1, 0), at(2, 0)), "B\n".into()), (whole(at(3, 0), at(3, 1)), String::new())]
        );
        assert!(minimal_edits("same\n", "same\n", Encoding::Utf16).is_empty());
    }

    fn some_text() -> impl Strategy<Value = String> {
        prop::collection::vec(
            prop::sample::select(vec!["a", "b", "é", "🦀", "\n", "\r\n", "\r", "\u{feff}", "x y"]),
            0..40,
        )
        .prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn minimal_edits_give_the_new_text(before in some_text(), after in some_text()) {
            for encoding in ENCODINGS {
                let edits = minimal_edits(&before, &after, encoding);
                prop_assert!(edits.windows(2).all(|pair| pair[0].0.end <= pair[1].0.start));
                let mut text = before.clone();
                for (range, new) in edits.into_iter().rev() {
                    apply_change(&mut text, Some(range), &new, encoding);
                }
                prop_assert_eq!(&text, &after);
            }
        }

        #[test]
        fn offsets_and_positions_agree(text in some_text(), line in 0u32..20, character in 0u32..20) {
            for encoding in ENCODINGS {
                let positions = Positions::new(&text, encoding);
                for (offset, _) in text.char_indices().chain([(text.len(), ' ')]) {
                    let inside_crlf = text[..offset].ends_with('\r') && text[offset..].starts_with('\n');
                    let back = positions.offset(positions.position(offset));
                    prop_assert_eq!(back, if inside_crlf { offset - 1 } else { offset });
                }
                let offset = positions.offset(at(line, character));
                prop_assert!(text.is_char_boundary(offset));
                prop_assert_eq!(positions.offset(positions.position(offset)), offset);
            }
        }
    }
}
