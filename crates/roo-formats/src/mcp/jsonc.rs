//! JSON with comments and trailing commas, as editors accept it: its value, and where the parts of it are.

use std::borrow::Cow;
use std::ops::Range;

use serde_json::Value;

use crate::config::yaml::{self, Step};
use crate::problem::Problem;
use crate::text_range::Position;

/// Reads one document. Duplicate keys are errors.
pub(super) fn parse(text: &str) -> Result<Value, Problem> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let plain = plain(text);
    if plain.trim().is_empty() {
        return Ok(Value::Null);
    }
    yaml::parse_json(&plain).map_err(|(Position { line, column }, message)| {
        // Comments were replaced byte by byte: columns are those of the original line in bytes.
        let content = text.lines().nth(line.saturating_sub(1)).unwrap_or_default();
        Problem::error_at(text, Some(Position { line, column: characters(content, column) }), message)
    })
}

/// Counts the characters in the first `bytes` bytes of a line.
fn characters(line: &str, bytes: usize) -> usize {
    line.char_indices().take_while(|(index, _)| *index < bytes).count().max(1)
}

/// Returns the start of the part at the end of `path`, in a text that [`parse`] reads; none when there is no such part.
pub(super) fn locate(text: &str, path: &[Step]) -> Option<Position> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let plain = plain(text);
    let offset = Scanner { bytes: plain.as_bytes(), at: 0 }.seek(path)?;
    let before = text.get(..offset)?;
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    Some(Position { line, column })
}

/// Where an object of a text is, in bytes.
pub(super) struct Object {
    /// Its opening brace.
    pub open: usize,
    /// Its closing brace.
    pub close: usize,
    /// In the order of the text.
    pub members: Vec<Member>,
}

/// Where a member of an object is, in bytes.
pub(super) struct Member {
    /// The key, unescaped.
    pub name: String,
    /// The key as it is written, with its quotes.
    pub key: Range<usize>,
    /// The value.
    pub value: Range<usize>,
}

impl Object {
    /// The member of this name.
    pub(super) fn member(&self, name: &str) -> Option<&Member> {
        self.members.iter().find(|member| member.name == name)
    }
}

/// Returns where the object at the end of `path` is, in a text that [`parse`] reads; none when there is no such object.
pub(super) fn object(text: &str, path: &[Step]) -> Option<Object> {
    let content = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mark = text.len() - content.len();
    let plain = plain(content);
    let mut scanner = Scanner { bytes: plain.as_bytes(), at: 0 };
    let open = scanner.seek(path)?;
    if scanner.peek()? != b'{' {
        return None;
    }
    scanner.at += 1;
    let mut members = Vec::new();
    while scanner.peek()? != b'}' {
        let start = scanner.at;
        scanner.skip()?;
        let key = start..scanner.at;
        let name = serde_json::from_slice(scanner.bytes.get(key.clone())?).ok()?;
        scanner.peek()?;
        let start = scanner.at;
        scanner.skip()?;
        let value = start + mark..scanner.at + mark;
        members.push(Member { name, key: key.start + mark..key.end + mark, value });
    }
    Some(Object { open: open + mark, close: scanner.at + mark, members })
}

/// Walks over JSON that is known to be sound.
struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Scanner<'_> {
    fn peek(&mut self) -> Option<u8> {
        while self.bytes.get(self.at)?.is_ascii_whitespace()
            || matches!(self.bytes.get(self.at), Some(b',' | b':'))
        {
            self.at += 1;
        }
        self.bytes.get(self.at).copied()
    }

    fn seek(&mut self, path: &[Step]) -> Option<usize> {
        let first = self.peek()?;
        let Some((step, rest)) = path.split_first() else { return Some(self.at) };
        match (first, step) {
            (b'{', Step::Key(_) | Step::Name(_)) => self.seek_key(step, rest),
            (b'[', Step::Index(wanted)) => {
                self.at += 1;
                for _ in 0..*wanted {
                    if self.peek()? == b']' {
                        return None;
                    }
                    self.skip()?;
                }
                if self.peek()? == b']' { None } else { self.seek(rest) }
            }
            _ => None,
        }
    }

    fn seek_key(&mut self, step: &Step, rest: &[Step]) -> Option<usize> {
        let (Step::Key(wanted) | Step::Name(wanted)) = step else { return None };
        self.at += 1;
        loop {
            if self.peek()? != b'"' {
                return None;
            }
            let start = self.at;
            self.skip()?;
            let key: String = serde_json::from_slice(self.bytes.get(start..self.at)?).ok()?;
            if key == *wanted {
                return if matches!(step, Step::Name(_)) { Some(start) } else { self.seek(rest) };
            }
            self.skip()?;
        }
    }

    /// Goes after a value.
    fn skip(&mut self) -> Option<()> {
        self.peek()?;
        let mut depth = 0_usize;
        loop {
            match self.bytes.get(self.at)? {
                b'"' => self.at = end_of_string(self.bytes, self.at),
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b'}' | b']' => {
                    depth = depth.checked_sub(1)?;
                    self.at += 1;
                }
                _ if depth > 0 => {
                    self.at += 1;
                    continue;
                }
                // A number or a word.
                _ => {
                    let is_end = |byte: &u8| byte.is_ascii_whitespace() || b",]}".contains(byte);
                    let rest = self.bytes.get(self.at..)?;
                    self.at += rest.iter().position(is_end).unwrap_or(rest.len());
                }
            }
            if depth == 0 {
                return Some(());
            }
        }
    }
}

/// Returns the ranges of the comments of a text, in bytes. A comment without an end is an error of the file and ends the
/// search.
pub fn comments(text: &str) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(&byte) = bytes.get(at) {
        let end = match (byte, bytes.get(at + 1)) {
            (b'/', Some(b'/')) => Some(find(bytes, at, b"\n").unwrap_or(bytes.len())),
            (b'/', Some(b'*')) => match find(bytes, at + 2, b"*/") {
                Some(end) => Some(end + 2),
                None => break,
            },
            _ => None,
        };
        found.extend(end.map(|end| at..end));
        at = match byte {
            b'"' => end_of_string(bytes, at),
            _ => end.unwrap_or(at + 1),
        };
    }
    found
}

/// Replaces comments by spaces, so that every position stays what it was.
pub fn without_comments(text: &str) -> Cow<'_, str> {
    let comments = comments(text);
    if comments.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut bytes = text.as_bytes().to_vec();
    comments.into_iter().for_each(|comment| blank(&mut bytes, comment));
    // Whole comments were replaced by ASCII.
    String::from_utf8(bytes).map_or(Cow::Borrowed(text), Cow::Owned)
}

/// Replaces comments and trailing commas by spaces. What is wrong stays as it is, for the reader of JSON to report.
fn plain(text: &str) -> Cow<'_, str> {
    let text = without_comments(text);
    let bytes = text.as_bytes();
    let mut trailing = Vec::new();
    let mut at = 0;
    // Position of the last comma after a value that only space has followed so far.
    let mut comma = None;
    let mut after_value = false;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => {
                at = end_of_string(bytes, at);
                (comma, after_value) = (None, true);
                continue;
            }
            b',' => (comma, after_value) = (after_value.then_some(at), false),
            b'}' | b']' => {
                trailing.extend(comma.take());
                after_value = true;
            }
            byte if !byte.is_ascii_whitespace() => {
                (comma, after_value) = (None, !matches!(byte, b'{' | b'[' | b':'));
            }
            _ => {}
        }
        at += 1;
    }
    if trailing.is_empty() {
        return text;
    }
    let mut bytes = bytes.to_vec();
    trailing.into_iter().for_each(|comma| blank(&mut bytes, comma..comma + 1));
    // ASCII was replaced by ASCII.
    String::from_utf8(bytes).map_or(text, Cow::Owned)
}

/// The index after a string that begins at `start`; the end of the text if it has none.
fn end_of_string(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    loop {
        match bytes.get(at) {
            Some(b'\\') => at += 2,
            Some(b'"') => return at + 1,
            Some(_) => at += 1,
            None => return bytes.len(),
        }
    }
}

fn find(bytes: &[u8], from: usize, what: &[u8]) -> Option<usize> {
    let rest = bytes.get(from..)?;
    rest.windows(what.len()).position(|window| window == what).map(|found| from + found)
}

/// Overwrites with spaces, byte by byte. Line ends stay.
fn blank(bytes: &mut [u8], range: Range<usize>) {
    for byte in bytes.iter_mut().take(range.end).skip(range.start) {
        if !matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<serde_json::Value, serde_json::Error> {
        serde_json::from_str(&plain(text))
    }

    #[test]
    fn comments_and_trailing_commas_are_left_out() {
        let text =
            "// servers\n{ \"a\": [1, 2, /* last */ ], /* b\n */ \"b\": \"// no, */ text\\\",]\", } // end";
        let expected = serde_json::json!({ "a": [1, 2], "b": "// no, */ text\",]" });
        assert_eq!(read(text).unwrap(), expected);
    }

    #[test]
    fn what_is_wrong_stays_wrong() {
        for text in ["{,}", "[1,,]", "{\"a\": /* }", "{\"a\": \"b,}", "[1 2]"] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    fn at(line: usize, column: usize) -> Option<Position> {
        Some(Position { line, column })
    }

    #[test]
    fn parts_are_located_by_line_and_character() {
        let text = "{ // ä\n  /* ö */ \"a\": [1, {\"b\\u0063\": true}, ],\n\t\"d\": \"x\"\n}";
        let key = |name: &str| Step::Key(name.to_owned());
        assert_eq!(locate(text, &[key("a")]), at(2, 16));
        assert_eq!(locate(text, &[Step::Name("a".to_owned())]), at(2, 11));
        assert_eq!(locate(text, &[key("a"), Step::Index(1), key("bc")]), at(2, 32));
        assert_eq!(locate(text, &[key("d")]), at(3, 7));
        assert_eq!(locate(text, &[key("a"), Step::Index(2)]), None);
        assert_eq!(locate(text, &[key("e")]), None);
        assert_eq!(locate(text, &[]), at(1, 1));
    }

    #[test]
    fn errors_have_a_line_and_a_character() {
        let problem = parse("{\n  /* äö */ \"a\": 1 \"b\"}").unwrap_err();
        let (position, message) = (problem.start(), problem.message);
        assert_eq!((position, message.as_str()), (at(2, 19), "expected `,` or `}`"));
        let problem = parse("{\"a\": 1,\n \"a\": 2}").unwrap_err();
        let (position, message) = (problem.start(), problem.message);
        assert_eq!((position.map(|at| at.line), message.contains("duplicate key")), (Some(2), true));
        assert!(parse(&"[".repeat(100_000)).is_err());
    }

    proptest! {
        #[test]
        fn plain_json_is_not_touched(text in "[a-z0-9:{}\\[\\] \\n]{0,40}") {
            let json = serde_json::to_string(&serde_json::json!({ "a,}": [text, "//", ",]"] })).unwrap();
            prop_assert!(matches!(plain(&json), Cow::Borrowed(_)));
        }

        #[test]
        fn no_text_is_too_strange(text in r#"[a"{}\[\]:,/* \n\\ä1]{0,40}"#) {
            let _ = parse(&text);
            let _ = locate(&text, &[Step::Key("a".to_owned()), Step::Index(1)]);
        }

        #[test]
        fn lines_and_lengths_stay(text in "[\"/*,}\\]\\[ä\\n\\\\ a]{0,60}") {
            let plain = plain(&text);
            prop_assert_eq!(plain.len(), text.len());
            prop_assert_eq!(plain.lines().count(), text.lines().count());
        }
    }
}
