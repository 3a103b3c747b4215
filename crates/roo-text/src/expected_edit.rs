//! The edit of `edit_file`: a text replaced in a known number of places, where its white space may differ from the file's.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::ops::Range;

use crate::blocks::{Destination, DocumentLine, IndentationStep, Unclear, new_lines};
use crate::edit::{
    EditError, Match, Occurrences, Plain, Replaced, Replacement, compiled, replace, with_replacements,
};
use crate::nearest::NormalLines;
use crate::{entities, lines, render};

/// Maximum length of the line that a refusal names, in characters.
const SHOWN_LINE: usize = 60;

/// A text to replace in a known number of places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedReplacement {
    /// Text to find, whose white space may differ.
    pub search: String,
    /// Replacement.
    pub replace: String,
    /// Number of places where it has to fit, at least 1.
    pub count: usize,
}

/// Replaces a text in exactly as many places as expected: where it stands as it is; else where it differs in white space within
/// lines, or where lines end elsewhere. In such a place new lines are indented as those of the file are.
///
/// # Errors
/// [`EditError`], worded for the model.
pub fn replace_expected(text: &str, request: &ExpectedReplacement) -> Result<Replaced, EditError> {
    let ExpectedReplacement { search, replace: replacement, count: expected } = request;
    let literal = Replacement {
        search: search.clone(),
        replace: replacement.clone(),
        range: None,
        use_regex: false,
        ignore_case: false,
        occurrences: Occurrences::All,
    };
    let as_expected = |found: Replaced| match found.count == *expected {
        true => Ok(found),
        false => Err(EditError::Unexpected { expected: *expected, found: found.count }),
    };
    let not_found = match replace(text, &literal) {
        Err(error @ EditError::NotFound { .. }) if !search.trim().is_empty() => error,
        found => return found.and_then(as_expected),
    };
    let decoded = || {
        let search = entities::decode(search)?;
        let replace = entities::decode(replacement).unwrap_or_else(|| replacement.clone());
        Some(ExpectedReplacement { search, replace, count: *expected })
    };
    if let Some(found) = replace_loosely(text, request)? {
        return Ok(found);
    }
    let found = decoded().map(|request| replace_loosely(text, &request)).transpose()?.flatten();
    found.map(|found| Replaced { decoded: true, ..found }).ok_or(not_found)
}

/// Replaces a text where it differs in white space within lines, else where lines end elsewhere; none where it is nowhere.
fn replace_loosely(text: &str, request: &ExpectedReplacement) -> Result<Option<Replaced>, EditError> {
    let (_, body) = lines::split_bom(text);
    let plain = Plain::new(body);
    let search = &request.search;
    for pattern in [with_any_blanks(search.trim()), with_any_white_space(search)] {
        // A pattern that is too large finds nothing.
        let Ok(pattern) = compiled(&pattern, false) else { continue };
        let places: Vec<Range<usize>> = pattern.find_iter(&plain.text).map(|found| found.range()).collect();
        if places.is_empty() {
            continue;
        }
        if places.len() != request.count {
            return Err(EditError::Unexpected { expected: request.count, found: places.len() });
        }
        let file = SearchedFile { text: &plain.text, step: OnceCell::new() };
        let matches =
            places.into_iter().map(|place| file.fitted(place, request)).collect::<Result<Vec<_>, _>>()?;
        return Ok(Some(Replaced { loose: true, ..with_replacements(text, &plain, &matches)? }));
    }
    Ok(None)
}

/// A text with LF for every line end.
struct SearchedFile<'t> {
    text: &'t str,
    /// One level of its indentation.
    step: OnceCell<Option<IndentationStep>>,
}

impl SearchedFile<'_> {
    /// The replacement for a place where the searched text is, with the indentation of the lines there.
    fn fitted<'r>(
        &self,
        place: Range<usize>,
        request: &'r ExpectedReplacement,
    ) -> Result<Match<'r>, EditError> {
        let ExpectedReplacement { search, replace, .. } = request;
        // White space around the searched text is the file's, which keeps it.
        let mut put = replace.as_str();
        if search.ends_with(char::is_whitespace) {
            put = put.trim_end();
        }
        let indented = if search.starts_with(char::is_whitespace) { from_first_text(put) } else { put };
        if search.starts_with(char::is_whitespace) {
            put = put.trim_start();
        }
        let start = self.text[..place.start].rfind('\n').map_or(0, |end| end + 1);
        let begins_line = self.text[start..place.start].trim().is_empty();
        let there: Vec<DocumentLine<'_>> =
            lines::lines(&self.text[start..place.end]).map(DocumentLine::from).collect();
        let searched: Vec<&str> =
            lines::lines(from_first_text(search).trim_end()).map(|line| line.text).collect();
        if !put.contains('\n') || !(begins_line || have_line_in_common(&there, &searched)) {
            return Ok((place, put.into()));
        }
        let step = || {
            let of_file = || IndentationStep::of_file(lines::lines(self.text).map(|line| line.text));
            *self.step.get_or_init(of_file)
        };
        let destination = Destination { lines: &there, is_exact: false, step: &step };
        let new: Vec<&str> = lines::lines(indented).map(|line| line.text).collect();
        let fitted = new_lines(&destination, &searched, &new).map_err(|Unclear { line }| {
            let line_number = lines::count(&self.text[..start]) + 1;
            EditError::Indentation {
                line: line_number,
                unclear: render::one_line(line.trim(), SHOWN_LINE),
                numbered: lines::number(&self.text[start..place.end], line_number),
            }
        })?;
        let fitted: Vec<&str> = fitted.iter().map(|line| line.text.as_ref()).collect();
        let mut text = fitted.join("\n");
        if indented.ends_with('\n') {
            text.push('\n');
        }
        Ok(match begins_line {
            true => (start..place.end, Cow::Owned(text)),
            // What is before the place stays, so the first line has no indentation of its own.
            false if put.starts_with(char::is_whitespace) => (place, text.into()),
            false => (place, text.trim_start().to_owned().into()),
        })
    }
}

/// A text from its first line that is not blank.
fn from_first_text(text: &str) -> &str {
    let blank = &text[..text.len() - text.trim_start().len()];
    &text[blank.rfind('\n').map_or(0, |end| end + 1)..]
}

/// Returns whether a line of the file is the searched one in its place, but for white space.
fn have_line_in_common(there: &[DocumentLine<'_>], searched: &[&str]) -> bool {
    let words = NormalLines::new(there.iter().map(|line| line.text.as_ref()));
    let wanted = NormalLines::new(searched.iter().copied());
    let is_same = |line| !words.line(line).is_empty() && words.line(line) == wanted.line(line);
    (0..words.len().min(wanted.len())).any(is_same)
}

/// A pattern of a text in which the length of white space doesn't matter.
fn with_any_blanks(text: &str) -> String {
    let mut pattern = String::new();
    let mut rest = text;
    while !rest.is_empty() {
        let blank = rest.len() - rest.trim_start().len();
        let (space, behind) = rest.split_at(blank);
        let word = behind.find(char::is_whitespace).unwrap_or(behind.len());
        pattern.push_str(match space {
            "" => "",
            space if space.contains('\n') => r"\s+",
            _ => r"[\t ]+",
        });
        pattern.push_str(&regex::escape(behind.get(..word).unwrap_or_default()));
        rest = behind.get(word..).unwrap_or_default();
    }
    pattern
}

/// A pattern of the words of a text, with any white space between them.
fn with_any_white_space(text: &str) -> String {
    text.split_whitespace().map(regex::escape).collect::<Vec<_>>().join(r"\s+")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_text_is_replaced_where_it_fits_as_often_as_expected() {
        let edit = |text: &str, search: &str, replace: &str, count| {
            let request = ExpectedReplacement { search: search.into(), replace: replace.into(), count };
            replace_expected(text, &request).map(|found| (found.text, found.loose))
        };
        assert_eq!(edit("a b\na b\n", "a b", "$1", 2), Ok(("$1\n$1\n".to_owned(), false)));
        assert_eq!(
            edit("a b\na b\n", "a b", "c", 1).unwrap_err().to_string(),
            "The searched text occurs 2 times, but 1 was expected. Search for more of the surrounding text, or expect 2."
        );
        let code = "fn a() {\r\n\tlet b  = 1;\r\n}\r\n";
        assert_eq!(
            edit(code, "fn a() {\n    let b = 1;\n}", "fn a() {\n    $b\n}", 1),
            Ok(("fn a() {\r\n\t$b\r\n}\r\n".to_owned(), true))
        );
        assert_eq!(
            edit("f(a,\n  b)", "f(a, b)", "g()", 1),
            Ok(("g()".to_owned(), true)),
            "lines end elsewhere"
        );
        assert_eq!(
            edit("\tlet b  = 1;\n\n\tnext();\n", "let b = 1;\n", "let b = 2;\n", 1),
            Ok(("\tlet b = 2;\n\n\tnext();\n".to_owned(), true)),
            "what stands around it stays"
        );
        assert_eq!(
            edit("    f(a,\n      b);\n", "    f(a, b);\n", "    g();\n", 1),
            Ok(("    g();\n".to_owned(), true)),
            "nor is it doubled"
        );
        assert!(matches!(edit("a", "b", "c", 1), Err(EditError::NotFound { .. })));
        assert!(matches!(edit("a", "  ", "c", 1), Err(EditError::NotFound { .. })));
        assert!(edit("a", "", "c", 1).is_err());
    }

    #[test]
    fn new_lines_of_a_text_that_is_indented_otherwise_are_indented_as_the_file() {
        let edit = |text: &str, search: &str, replace: &str| {
            let request = ExpectedReplacement { search: search.into(), replace: replace.into(), count: 1 };
            replace_expected(text, &request).map(|found| found.text)
        };
        let method = "class A:\n    def f(self):\n        a = 1\n        return a\n";
        for (text, search, replace, expected) in [
            ("  foo(a)\n  bar\n", "foo(a)\nbar", "q(a)\nbar2", "  q(a)\n  bar2\n"),
            // The first line is trimmed, the others are not.
            ("  foo  a\n  bar\n", "foo a\n  bar", "foo b\n  bar\n  baz", "  foo b\n  bar\n  baz\n"),
            (
                method,
                "def f(self):\n    a = 1\n",
                "def f(self):\n    a = 1\n    if a:\n        b = 2\n",
                "class A:\n    def f(self):\n        a = 1\n        if a:\n            b = 2\n        return a\n",
            ),
            (
                method,
                "\tdef f(self):\n\t\ta = 1\n",
                "\tdef f(self):\n\t\twhile a:\n\t\t\ta = 2\n",
                "class A:\n    def f(self):\n        while a:\n            a = 2\n        return a\n",
            ),
            // What is before the place is not its indentation.
            ("x = f(a,\n      b)\n", "f(a,\n  b)", "f(a,\n  c)", "x = f(a,\n      c)\n"),
            ("x = f(a,  b)\n", "f(a, b)", "f(\n    a)", "x = f(\n    a)\n"),
            ("    f(a,\n      b);\n", "f(a, b);", "g();\nh();", "    g();\n    h();\n"),
        ] {
            assert_eq!(edit(text, search, replace).as_deref(), Ok(expected), "{search}");
        }
        let unclear = edit("\ta\n    b\n", "a\nb", "a\nc\n").unwrap_err();
        assert_eq!(
            unclear.to_string(),
            "The searched text is at line 1, but is indented differently there, so it is unclear how far `c` is to be \
             indented. Write both texts with the indentation of the file:\n1 | \ta\n2 |     b"
        );
    }

    proptest! {
        #[test]
        fn nothing_panics(
            text in "[ab \r\n\t\u{feff}日]{0,20}",
            search in "[ab \n\t&;lt]{0,8}",
            content in "[a \r\n\t$]{0,8}",
        ) {
            for search in [search, text.replace('\n', " \n "), text.replace('\n', "\n\t")] {
                let request = ExpectedReplacement { search, replace: content.clone(), count: 1 };
                let _ = replace_expected(&text, &request).map_err(|error| error.to_string());
            }
        }
    }
}
