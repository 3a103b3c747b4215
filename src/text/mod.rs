//! Minimal stand-in; the real room replaces this file.
#![allow(missing_docs)]

pub mod position {
    use crate::protocol::task::{Position, Range};

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Encoding {
        Utf8,
        Utf16,
        Utf32,
    }

    fn units(c: char, encoding: Encoding) -> usize {
        match encoding {
            Encoding::Utf8 => c.len_utf8(),
            Encoding::Utf16 => c.len_utf16(),
            Encoding::Utf32 => 1,
        }
    }

    fn offset(text: &str, position: Position, encoding: Encoding) -> usize {
        let mut start = 0;
        for _ in 0..position.line {
            match text[start..].find('\n') {
                Some(end) => start += end + 1,
                None => return text.len(),
            }
        }
        let mut left = position.character as usize;
        for (index, c) in text[start..].char_indices() {
            if left == 0 || c == '\n' {
                return start + index;
            }
            left = left.saturating_sub(units(c, encoding));
        }
        text.len()
    }

    fn position(text: &str, at: usize, encoding: Encoding) -> Position {
        let before = &text[..at];
        let start = before.rfind('\n').map_or(0, |index| index + 1);
        Position {
            line: before.matches('\n').count() as u32,
            character: before[start..].chars().map(|c| units(c, encoding)).sum::<usize>() as u32,
        }
    }

    pub fn apply_change(text: &mut String, range: Option<Range>, new: &str, encoding: Encoding) {
        match range {
            None => *text = new.to_owned(),
            Some(range) => {
                let start = offset(text, range.start, encoding);
                let end = offset(text, range.end, encoding).max(start);
                text.replace_range(start..end, new);
            }
        }
    }

    pub fn minimal_edits(before: &str, after: &str, encoding: Encoding) -> Vec<(Range, String)> {
        if before == after {
            return Vec::new();
        }
        let same = |(a, b): &(char, char)| a == b;
        let start: usize =
            before.chars().zip(after.chars()).take_while(same).map(|(c, _)| c.len_utf8()).sum();
        let tail: usize = before[start..]
            .chars()
            .rev()
            .zip(after[start..].chars().rev())
            .take_while(same)
            .map(|(c, _)| c.len_utf8())
            .sum();
        let range = Range {
            start: position(before, start, encoding),
            end: position(before, before.len() - tail, encoding),
        };
        vec![(range, after[start..after.len() - tail].to_owned())]
    }
}

pub mod lines {
    pub fn number(text: &str, first: usize) -> String {
        let count = text.lines().count();
        let width = (first + count.saturating_sub(1)).to_string().len();
        let mut out = String::new();
        for (index, line) in text.split_inclusive('\n').enumerate() {
            out.push_str(&format!("{:>width$} | {line}", first + index));
        }
        out
    }
}
