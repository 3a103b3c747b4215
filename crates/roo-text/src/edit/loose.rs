//! Replacing a text whose white space differs from the file's.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::ops::Range;

use super::{EditError, ExpectedReplacement, Match, Plain, Replaced, compiled, with_replacements};
use crate::blocks::{Destination, DocumentLine, IndentationStep, Unclear, new_lines};
use crate::nearest::NormalLines;
use crate::{lines, render};

/// Maximum length of the line that a refusal names, in characters.
const SHOWN_LINE: usize = 60;

/// Replaces a text where it differs in white space within lines, else where lines end elsewhere; none where it is nowhere.
pub(super) fn replace(text: &str, request: &ExpectedReplacement) -> Result<Option<Replaced>, EditError> {
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
