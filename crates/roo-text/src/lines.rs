//! Lines as the tools count them: 1-based, ended by LF or CRLF.
//!
//! A lone CR is text here, as it is for the models and for the programs that print line numbers.
//! The protocol counts it as a line end; that view is in [`super::position`].

use serde::{Deserialize, Serialize};

/// The mark that some editors put before UTF-8 text.
pub const BOM: char = '\u{feff}';

/// Lines of a text, 1-based, both ends included; `start <= end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineRange {
    /// First line, at least 1.
    pub start: usize,
    /// Last line, included; `usize::MAX` for the end of the file.
    pub end: usize,
}

/// Line ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eol {
    /// `\n`
    Lf,
    /// `\r\n`
    CrLf,
}

impl Eol {
    /// The characters.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lf => "\n",
            Self::CrLf => "\r\n",
        }
    }
}

/// A line without its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// Text without the line ending.
    pub text: &'a str,
    /// Line ending; none for a last line without one.
    pub eol: Option<Eol>,
}

/// The lines of a text. Empty text has none, and nothing follows a final line end.
pub fn lines(text: &str) -> impl Iterator<Item = Line<'_>> {
    text.split_inclusive('\n').map(|line| match line.strip_suffix('\n') {
        None => Line { text: line, eol: None },
        Some(line) => match line.strip_suffix('\r') {
            None => Line { text: line, eol: Some(Eol::Lf) },
            Some(line) => Line { text: line, eol: Some(Eol::CrLf) },
        },
    })
}

/// Number of lines [`lines`] gives.
pub fn count(text: &str) -> usize {
    text.split_inclusive('\n').count()
}

/// Returns the most frequent line ending; LF when it is a draw.
pub(crate) fn dominant_eol(text: &str) -> Eol {
    let (lf, crlf) = count_ends(text);
    if crlf > lf { Eol::CrLf } else { Eol::Lf }
}

/// Returns the common line ending; none when they differ or when no line has one.
pub(crate) fn uniform_eol(text: &str) -> Option<Eol> {
    match count_ends(text) {
        (1.., 0) => Some(Eol::Lf),
        (0, 1..) => Some(Eol::CrLf),
        _ => None,
    }
}

fn count_ends(text: &str) -> (usize, usize) {
    lines(text).fold((0, 0), |(lf, crlf), line| match line.eol {
        Some(Eol::Lf) => (lf + 1, crlf),
        Some(Eol::CrLf) => (lf, crlf + 1),
        None => (lf, crlf),
    })
}

/// Splits off a byte order mark: `(mark or nothing, the rest)`.
pub(crate) fn split_bom(text: &str) -> (&str, &str) {
    text.split_at(if text.starts_with(BOM) { BOM.len_utf8() } else { 0 })
}

/// The lines of a range with their ends; what lies past the end of the text is left out.
pub fn slice(text: &str, range: LineRange) -> &str {
    let start = start_of(text, range.start);
    let end = range.end.checked_add(1).map_or(text.len(), |next| start_of(text, next));
    text.get(start..end).unwrap_or_default()
}

/// The byte offset where a 1-based line starts; the length of the text for lines past its end.
pub(crate) fn start_of(text: &str, line: usize) -> usize {
    text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum()
}

/// Puts a number before every line, as the model gets to see files: `12 | text`, aligned to the
/// right, LF as line end. `first` is the number of the first line.
pub fn number(text: &str, first: usize) -> String {
    let width = first.saturating_add(count(text)).saturating_sub(1).to_string().len();
    let mut numbered = String::with_capacity(text.len() + text.len() / 4);
    for (index, line) in lines(text).enumerate() {
        numbered.push_str(&format!("{:>width$} | {}", first.saturating_add(index), line.text));
        if line.eol.is_some() {
            numbered.push('\n');
        }
    }
    if text.is_empty() && first > 1 {
        return format!("{first} | ");
    }
    numbered
}

/// Splits a line as [`number`] makes it into its number and its text.
pub(crate) fn split_number(line: &str) -> Option<(usize, &str)> {
    let line = line.trim_start();
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = line.split_at(digits);
    let rest = rest.strip_prefix([' ', '\t'])?.trim_start().strip_prefix('|')?;
    // Two bars are an operator of many languages.
    if rest.starts_with('|') {
        return None;
    }
    Some((number.parse().ok()?, rest.strip_prefix(' ').unwrap_or(rest)))
}

/// Line numbers to be read, the first ten of them.
pub(super) fn list(numbers: &[usize]) -> String {
    const SHOWN: usize = 10;
    let shown: Vec<_> = numbers.iter().take(SHOWN).map(usize::to_string).collect();
    match numbers.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_know_how_they_end() {
        let all: Vec<_> = lines("a\nb\r\n\r\nc\rd").map(|line| (line.text, line.eol)).collect();
        assert_eq!(
            all,
            [("a", Some(Eol::Lf)), ("b", Some(Eol::CrLf)), ("", Some(Eol::CrLf)), ("c\rd", None)]
        );
        assert_eq!(lines("").count(), 0);
        assert_eq!(count("a\n"), 1);
        assert_eq!(count("a\n\n"), 2);
    }

    #[test]
    fn dominant_and_uniform_ends() {
        assert_eq!(dominant_eol("a\r\nb\r\nc\n"), Eol::CrLf);
        assert_eq!(dominant_eol("a\r\nb\n"), Eol::Lf);
        assert_eq!(uniform_eol("a\r\nb\r\nc"), Some(Eol::CrLf));
        assert_eq!(uniform_eol("a\r\nb\n"), None);
        assert_eq!(uniform_eol("a"), None);
    }

    #[test]
    fn slices_keep_the_ends_and_stop_at_the_text() {
        let text = "a\r\nb\nc";
        assert_eq!(slice(text, LineRange { start: 1, end: 2 }), "a\r\nb\n");
        assert_eq!(slice(text, LineRange { start: 3, end: usize::MAX }), "c");
        assert_eq!(slice(text, LineRange { start: 4, end: 9 }), "");
        assert_eq!(slice(text, LineRange { start: 3, end: 2 }), "");
    }

    #[test]
    fn numbers_are_aligned_to_the_last_one() {
        assert_eq!(number("a\r\n\nc\n", 9), " 9 | a\n10 | \n11 | c\n");
        assert_eq!(number("a\nb", 1), "1 | a\n2 | b");
        assert_eq!(number("", 1), "");
        assert_eq!(number("", 7), "7 | ");
    }

    #[test]
    fn a_numbered_line_is_split_at_its_bar() {
        assert_eq!(split_number(" 12 |  x | y"), Some((12, " x | y")));
        assert_eq!(split_number("3 |"), Some((3, "")));
        for other in ["a | b", "| b", "1 || b", "1|b", "1", "", "99999999999999999999999 | b"] {
            assert_eq!(split_number(other), None, "{other}");
        }
    }
}
