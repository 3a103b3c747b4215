//! The edits of `search_and_replace`, `insert_content` and `write_to_file`, from text to text.
//!
//! Models write LF; a file keeps the line ends and the byte order mark that it has.

use std::borrow::Cow;
use std::ops::Range;

use regex::{Captures, Regex, RegexBuilder};

use super::entities;
use super::lines::{self, Eol, LineRange};
use super::nearest::{self, Candidate};

/// Maximum size of a compiled expression, in bytes.
const MAX_REGEX_BYTES: usize = 4 << 20;

/// A search for a text or an expression, and what to put in place of what it finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacement {
    /// Text to find; not empty.
    pub search: String,
    /// Replacement.
    pub replace: String,
    /// Lines to search; the whole text when none.
    pub range: Option<LineRange>,
    /// True if `search` is a regular expression.
    pub use_regex: bool,
    /// True if case is ignored.
    pub ignore_case: bool,
    /// Required number of matches.
    pub occurrences: Occurrences,
}

/// Required number of matches of a searched text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occurrences {
    /// Exactly once: the contract of `edit` and `search_replace`.
    One,
    /// At least once; all are replaced.
    All,
}

/// Reasons why an edit could not be made. The text is for the model: it says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// The text would stay as it is.
    #[error("The file already has the result of this edit; nothing was changed.")]
    Unchanged,
    /// Nothing to search or to insert.
    #[error("There is nothing to {0}: the text is empty.")]
    Empty(&'static str),
    /// The searched text does not occur.
    #[error(
        "The searched text is not in the file. {}\nCopy it exactly as it is; read the file again if it may \
         have changed.",
        nearest::described(.closest.as_ref())
    )]
    NotFound {
        /// Closest candidate.
        closest: Option<Candidate>,
    },
    /// The expression matches nowhere.
    #[error(
        "The regular expression `{0}` matches nothing in the file. `^` and `$` are the ends of a line; write \
         `(?s)` to let `.` cross lines."
    )]
    NoMatch(String),
    /// The searched text occurs, but not where it may be replaced.
    #[error("It does not occur in lines {}, only at {}.", span(.range), at_lines(.lines))]
    Outside {
        /// Searched lines.
        range: LineRange,
        /// Lines where it occurs, from 1.
        lines: Vec<usize>,
    },
    /// It occurs more than once where once is asked for.
    #[error(
        "The searched text occurs {} times, at {}. Search for more of the surrounding text, so that only one place matches.",
        .lines.len(),
        at_lines(.lines)
    )]
    Several {
        /// Lines where it occurs, from 1.
        lines: Vec<usize>,
    },
    /// It occurs in another number of places than was expected.
    #[error(
        "The searched text occurs {found} times, but {expected} {} expected. Search for more of the surrounding text, or expect \
         {found}.",
        if *expected == 1 { "was" } else { "were" }
    )]
    Unexpected {
        /// Expected number.
        expected: usize,
        /// Number of places.
        found: usize,
    },
    /// It occurs with other indentation, and it can't be told how far a new line is to be indented.
    #[error(
        "The searched text is at line {line}, but is indented differently there, so it is unclear how far `{unclear}` \
         is to be indented. Write both texts with the indentation of the file:\n{}",
        .numbered.trim_end_matches('\n')
    )]
    Indentation {
        /// First line, from 1.
        line: usize,
        /// The new line.
        unclear: String,
        /// The lines of the file with their numbers.
        numbered: String,
    },
    /// The replacement of an expression names a group as other programs do.
    #[error(
        "The replacement has `\\{0}`, which would be put in as it is: write `${{{0}}}` for the group. If that text is meant, make \
         the group one that is not counted, `(?:…)`."
    )]
    BackslashGroup(usize),
    /// The regular expression can't be read or is too large.
    #[error("The regular expression can't be used: {0}")]
    Regex(String),
    /// There is no such line.
    #[error("There is no line {line}: {}. Use 0 to append.", lines_there(.count))]
    NoLine {
        /// The line that was named.
        line: usize,
        /// Number of lines the file has; none when there is no file.
        count: Option<usize>,
    },
}

/// A text with replacements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replaced {
    /// The new text.
    pub text: String,
    /// Number of occurrences replaced.
    pub count: usize,
    /// Lines of the new text, from 1, that have them; each once.
    pub lines: Vec<usize>,
    /// True if both texts had to be HTML-decoded for that.
    pub decoded: bool,
    /// True if white space of the searched text differed.
    pub loose: bool,
}

impl Replaced {
    /// Returns a notice for the model about several occurrences: not all of them may have been meant.
    pub fn occurrences(&self) -> Option<String> {
        (self.count > 1)
            .then(|| format!("{} occurrences were replaced, at {}.", self.count, at_lines(&self.lines)))
    }

    /// Returns a notice for the model about how the text was found.
    pub fn notice(&self) -> Option<String> {
        // No entity is quoted in such notices: the tags around them would escape it once more.
        let text = "The HTML entities of the searched and the new text (amp, lt, gt and so on) were decoded, as the \
                    file has the characters; send plain characters.";
        let loose = "The white space of the searched text differed from the file's; what stands around the place was kept.";
        let notices = [(self.decoded, text), (self.loose, loose)];
        let told: Vec<&str> = notices.iter().filter(|(applies, _)| *applies).map(|(_, text)| *text).collect();
        (!told.is_empty()).then(|| told.join("\n"))
    }
}

/// Replaces what is searched; where that is nowhere and has HTML entities, both texts are decoded. Without `use_regex` both texts are literal. In a regular expression `^`
/// and `$` are the ends of lines; its replacement may name groups by `$1`, `${name}` or `$<name>`, the
/// match by `$&` and a dollar by `$$`. LF in the search stands for any line end, and the replacement
/// takes the line end of the line that it goes to.
///
/// # Errors
/// [`EditError`], worded for the model.
pub fn replace(text: &str, request: &Replacement) -> Result<Replaced, EditError> {
    let error = match replace_as_written(text, request) {
        Err(error @ (EditError::NotFound { .. } | EditError::NoMatch(_) | EditError::Regex(_))) => error,
        other => return other,
    };
    let Some(search) = entities::decode(&request.search) else { return Err(error) };
    let replace = entities::decode(&request.replace).unwrap_or_else(|| request.replace.clone());
    let decoded = Replacement { search, replace, ..request.clone() };
    replace_as_written(text, &decoded).map(|found| Replaced { decoded: true, ..found }).map_err(|_| error)
}

fn replace_as_written(text: &str, request: &Replacement) -> Result<Replaced, EditError> {
    if request.search.is_empty() {
        return Err(EditError::Empty("search for"));
    }
    let pattern = Pattern::new(request)?;
    let (_, body) = lines::split_bom(text);
    let count = lines::count(body);
    if let Some(range) = request.range.filter(|range| range.start > count.max(1)) {
        return Err(EditError::NoLine { line: range.start, count: Some(count) });
    }
    let plain = Plain::new(body);
    let matches = pattern.matches(&plain, request.range);
    if matches.is_empty() {
        return Err(why_not_found(body, &plain, request, &pattern));
    }
    if request.occurrences == Occurrences::One && matches.len() > 1 {
        return Err(EditError::Several { lines: line_numbers(&plain.text, &matches) });
    }
    with_replacements(text, &plain, &matches)
}

/// The text with a replacement of each match.
pub(super) fn with_replacements(
    text: &str,
    plain: &Plain,
    matches: &[Match<'_>],
) -> Result<Replaced, EditError> {
    let (mark, body) = lines::split_bom(text);
    let mut ends = LineEnds { body, eol: Eol::Lf, known_to: 0, dominant: lines::dominant_eol(body) };
    let mut replaced = String::with_capacity(text.len());
    replaced.push_str(mark);
    let (mut done, mut line, mut counted) = (0, 1, 0);
    let mut changed_lines = Vec::new();
    for (at, replacement) in matches {
        let (start, end) = (plain.original(at.start), plain.original(at.end));
        replaced.push_str(&body[done..start]);
        line += replaced[counted..].matches('\n').count();
        counted = replaced.len();
        changed_lines.push(line);
        match replacement.contains('\n') {
            true => replaced.push_str(&with_eol(replacement, ends.at(start))),
            false => replaced.push_str(replacement),
        }
        done = end;
    }
    replaced.push_str(&body[done..]);
    if replaced == text {
        return Err(EditError::Unchanged);
    }
    changed_lines.dedup();
    Ok(Replaced { text: replaced, count: matches.len(), lines: changed_lines, decoded: false, loose: false })
}

/// Inserts lines before a 1-based line, or at the end for 0 and for the line after the last. They take
/// the line ends of the file; whether the last line of the file is ended stays as it is. Without a text
/// there is no file yet: line 0 or 1 makes one of exactly this content.
///
/// # Errors
/// [`EditError::NoLine`], [`EditError::Empty`].
pub fn insert(text: Option<&str>, line: usize, content: &str) -> Result<String, EditError> {
    if content.is_empty() {
        return Err(EditError::Empty("insert"));
    }
    let Some(text) = text.filter(|text| !text.is_empty()) else {
        return if line <= 1 {
            Ok(content.to_owned())
        } else {
            Err(EditError::NoLine { line, count: text.map(|_| 0) })
        };
    };
    let (mark, body) = lines::split_bom(text);
    let count = lines::count(body);
    if line > count + 1 {
        return Err(EditError::NoLine { line, count: Some(count) });
    }
    let at = if line == 0 { body.len() } else { lines::start_of(body, line) };
    let (before, after) = body.split_at(at);
    let eol =
        lines::lines(after).next().and_then(|line| line.eol).unwrap_or_else(|| lines::dominant_eol(body));
    let content = content.strip_suffix('\n').map_or(content, |line| line.strip_suffix('\r').unwrap_or(line));
    let content = with_eol(content, eol);
    let eol = eol.as_str();
    Ok(match before.is_empty() || before.ends_with('\n') {
        true => format!("{mark}{before}{content}{eol}{after}"),
        false => format!("{mark}{before}{eol}{content}"),
    })
}

/// The text of a file that is written whole. It keeps the byte order mark of the file that was there
/// and, where all lines ended in CRLF, these line ends. Line numbers that a model copied before every
/// line are dropped, unless the file had such.
///
/// # Errors
/// [`EditError::Unchanged`].
pub fn whole(before: Option<&str>, content: &str) -> Result<String, EditError> {
    let (mark, body) = before.map_or(("", ""), lines::split_bom);
    let had_numbers = before.is_some() && without_numbers(body).is_some();
    let content =
        without_numbers(content).filter(|_| !had_numbers).map_or(Cow::Borrowed(content), Cow::Owned);
    let only_lf = !content.contains('\r');
    let content = match lines::uniform_eol(body) {
        Some(Eol::CrLf) if only_lf => with_eol(&content, Eol::CrLf),
        _ => content.into_owned(),
    };
    let mark = if content.starts_with(lines::BOM) { "" } else { mark };
    let content = format!("{mark}{content}");
    if before == Some(content.as_str()) { Err(EditError::Unchanged) } else { Ok(content) }
}

/// The lines without their numbers, if all have one and they count up.
fn without_numbers(text: &str) -> Option<String> {
    let mut plain = String::with_capacity(text.len());
    let mut next = None;
    for line in lines::lines(text) {
        let (number, rest) = lines::split_number(line.text)?;
        if next.is_some_and(|next| next != number) {
            return None;
        }
        next = Some(number.checked_add(1)?);
        plain.push_str(rest);
        plain.push_str(line.eol.map_or("", Eol::as_str));
    }
    next.map(|_| plain)
}

fn with_eol(text: &str, eol: Eol) -> String {
    let lf = text.replace("\r\n", "\n");
    if eol == Eol::CrLf { lf.replace('\n', "\r\n") } else { lf }
}

/// A text with LF for every line end, and the way back.
pub(super) struct Plain {
    pub(super) text: String,
    /// Offsets in `text` where a CR was left out, ascending.
    left_out: Vec<usize>,
}

impl Plain {
    pub(super) fn new(text: &str) -> Self {
        let mut plain = Self { text: String::with_capacity(text.len()), left_out: vec![] };
        for line in lines::lines(text) {
            plain.text.push_str(line.text);
            if line.eol == Some(Eol::CrLf) {
                plain.left_out.push(plain.text.len());
            }
            if line.eol.is_some() {
                plain.text.push('\n');
            }
        }
        plain
    }

    /// The offset in the text that this was made from.
    fn original(&self, offset: usize) -> usize {
        offset + self.left_out.partition_point(|left_out| *left_out < offset)
    }
}

/// The line ends of a text, looked up from its start to its end.
struct LineEnds<'a> {
    body: &'a str,
    eol: Eol,
    /// Up to where `eol` holds.
    known_to: usize,
    dominant: Eol,
}

impl LineEnds<'_> {
    /// The end of the line at an offset that is not before the last one.
    fn at(&mut self, offset: usize) -> Eol {
        if offset >= self.known_to {
            let line = self.body[offset..].split_inclusive('\n').next().unwrap_or_default();
            self.known_to = offset + line.len().max(1);
            self.eol = lines::lines(line).next().and_then(|line| line.eol).unwrap_or(self.dominant);
        }
        self.eol
    }
}

pub(super) fn compiled(expression: &str, ignore_case: bool) -> Result<Regex, EditError> {
    RegexBuilder::new(expression)
        .multi_line(true)
        .case_insensitive(ignore_case)
        .size_limit(MAX_REGEX_BYTES)
        .build()
        .map_err(|error| EditError::Regex(error.to_string()))
}

/// Match in a plain text, and its replacement.
pub(super) type Match<'a> = (Range<usize>, Cow<'a, str>);

/// Pattern and its replacement.
enum Pattern<'a> {
    Literal { search: String, replace: &'a str },
    Folded { search: Regex, replace: &'a str },
    Regex { search: Regex, template: Vec<ReplacementPart<'a>> },
}

impl<'a> Pattern<'a> {
    fn new(request: &'a Replacement) -> Result<Self, EditError> {
        let (search, replace) = (request.search.replace("\r\n", "\n"), request.replace.as_str());
        let compile = |expression: &str| compiled(expression, request.ignore_case);
        Ok(match (request.use_regex, request.ignore_case) {
            (true, _) => {
                let search = compile(&search)?;
                if let Some(group) = backslash_group(replace, &search) {
                    return Err(EditError::BackslashGroup(group));
                }
                let template = template(replace, &search);
                Self::Regex { search, template }
            }
            (false, true) => Self::Folded { search: compile(&regex::escape(&search))?, replace },
            (false, false) => Self::Literal { search, replace },
        })
    }

    fn matches(&self, plain: &Plain, range: Option<LineRange>) -> Vec<Match<'_>> {
        let text = plain.text.as_str();
        let (start, text) = match range {
            Some(range) => (lines::start_of(text, range.start), lines::slice(text, range)),
            None => (0, text),
        };
        // After a final line end no line begins.
        let is_line = |at: &Range<usize>| !(at.is_empty() && at.start == text.len() && text.ends_with('\n'));
        let shift = |at: Range<usize>| start + at.start..start + at.end;
        match self {
            Self::Literal { search, replace } => text
                .match_indices(search)
                .map(|(at, _)| (shift(at..at + search.len()), Cow::Borrowed(*replace)))
                .collect(),
            Self::Folded { search, replace } => {
                search.find_iter(text).map(|found| (shift(found.range()), Cow::Borrowed(*replace))).collect()
            }
            Self::Regex { search, template } => search
                .captures_iter(text)
                .filter_map(|captures| {
                    let at = captures.get(0)?.range();
                    is_line(&at).then(|| (shift(at), Cow::Owned(expand(template, &captures))))
                })
                .collect(),
        }
    }
}

/// A piece of a replacement.
enum ReplacementPart<'a> {
    Text(&'a str),
    Group(usize),
}

/// Returns the number of the first group that a replacement names by a backslash.
fn backslash_group(replace: &str, search: &Regex) -> Option<usize> {
    let groups = 1..search.captures_len();
    let digits =
        replace.match_indices('\\').filter_map(|(at, _)| replace[at + 1..].chars().next()?.to_digit(10));
    digits.filter_map(|digit| usize::try_from(digit).ok()).find(|group| groups.contains(group))
}

/// Reads the references in a replacement; what names no group is text.
fn template<'a>(replace: &'a str, search: &Regex) -> Vec<ReplacementPart<'a>> {
    let mut parts = Vec::new();
    let mut rest = replace;
    while let Some(dollar) = rest.find('$') {
        let (text, reference) = rest.split_at(dollar);
        let (part, length) = reference_to(reference, search).unwrap_or((ReplacementPart::Text("$"), 1));
        parts.extend([ReplacementPart::Text(text), part]);
        rest = &reference[length..];
    }
    parts.push(ReplacementPart::Text(rest));
    parts
}

/// Reads one reference at the start of a text, and how long it is.
fn reference_to<'a>(text: &str, search: &Regex) -> Option<(ReplacementPart<'a>, usize)> {
    let groups = search.captures_len();
    let after = text.strip_prefix('$')?;
    let group = |name: &str| match name.parse() {
        Ok(number) => Some(number).filter(|number: &usize| *number < groups),
        Err(_) => search.capture_names().position(|known| known == Some(name)),
    };
    if after.starts_with('$') {
        return Some((ReplacementPart::Text("$"), 2));
    }
    if after.starts_with('&') {
        return Some((ReplacementPart::Group(0), 2));
    }
    for (open, close) in [('{', '}'), ('<', '>')] {
        if let Some((name, _)) = after.strip_prefix(open).and_then(|after| after.split_once(close)) {
            return Some((ReplacementPart::Group(group(name)?), name.len() + 3));
        }
    }
    // Two digits if there are so many groups, else one.
    [2, 1].into_iter().find_map(|digits| {
        let number = after.get(..digits).filter(|number| number.bytes().all(|byte| byte.is_ascii_digit()))?;
        Some((ReplacementPart::Group(group(number)?), digits + 1))
    })
}

fn expand(template: &[ReplacementPart<'_>], captures: &Captures<'_>) -> String {
    let text = |part: &ReplacementPart<'_>| match part {
        ReplacementPart::Text(text) => (*text).to_owned(),
        ReplacementPart::Group(group) => {
            captures.get(*group).map_or_else(String::new, |found| found.as_str().to_owned())
        }
    };
    template.iter().map(text).collect()
}

fn why_not_found(body: &str, plain: &Plain, request: &Replacement, pattern: &Pattern<'_>) -> EditError {
    if let Some(range) = request.range {
        let lines = line_numbers(&plain.text, &pattern.matches(plain, None));
        if !lines.is_empty() {
            return EditError::Outside { range, lines };
        }
    }
    if request.use_regex {
        return EditError::NoMatch(request.search.clone());
    }
    let all: Vec<_> = lines::lines(body).map(|line| line.text).collect();
    let search: Vec<_> = lines::lines(&request.search).map(|line| line.text).collect();
    let expected = request.range.map(|range| range.start.saturating_sub(1));
    EditError::NotFound { closest: nearest::candidate(&all, &search, expected) }
}

/// On which lines, from 1, matches begin.
fn line_numbers(text: &str, matches: &[Match<'_>]) -> Vec<usize> {
    let (mut line, mut done) = (1, 0);
    let number = |(at, _): &Match<'_>| {
        line += text[done..at.start].matches('\n').count();
        done = at.start;
        line
    };
    matches.iter().map(number).collect()
}

fn at_lines(lines: &[usize]) -> String {
    format!("{} {}", if lines.len() == 1 { "line" } else { "lines" }, lines::list(lines))
}

fn lines_there(count: &Option<usize>) -> String {
    match count {
        None => "the file does not exist yet".to_owned(),
        Some(1) => "the file has 1 line".to_owned(),
        Some(count) => format!("the file has {count} lines"),
    }
}

fn span(range: &LineRange) -> String {
    match range.end {
        usize::MAX => format!("from {} on", range.start),
        end => format!("{}-{end}", range.start),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn request(search: &str, replace: &str) -> Replacement {
        Replacement {
            search: search.into(),
            replace: replace.into(),
            range: None,
            use_regex: false,
            ignore_case: false,
            occurrences: Occurrences::All,
        }
    }

    fn regex(search: &str, replace: &str) -> Replacement {
        Replacement { use_regex: true, ..request(search, replace) }
    }

    #[track_caller]
    fn replaced(text: &str, request: &Replacement) -> String {
        replace(text, request).unwrap().text
    }

    fn lines(start: usize, end: usize) -> Option<LineRange> {
        Some(LineRange { start, end })
    }

    #[test]
    fn literal_text_is_taken_as_it_is() {
        assert_eq!(replaced("a.b axb\n", &request("a.b", "$1$&\\n")), "$1$&\\n axb\n");
        let result = replace("x x\nx\n", &request("x", "y")).unwrap();
        assert_eq!((result.text.as_str(), result.count), ("y y\ny\n", 3));
        assert_eq!(result.occurrences().unwrap(), "3 occurrences were replaced, at lines 1, 2.");
        assert_eq!(replace("a\nx\n", &request("x", "y")).unwrap().occurrences(), None);
        // By the lines of the new text.
        assert_eq!(replace("\u{feff}x\nx\n", &request("x", "y\ny")).unwrap().lines, [1, 3]);
        assert_eq!(replaced("A.b a.B", &Replacement { ignore_case: true, ..request("a.b", "$1") }), "$1 $1");
    }

    #[test]
    fn one_occurrence_is_one() {
        let once = |text| replace(text, &Replacement { occurrences: Occurrences::One, ..request("x", "y") });
        assert_eq!(once("a\nx\n").unwrap().text, "a\ny\n");
        let error = once("x x\n\nx\n").unwrap_err();
        assert_eq!(error, EditError::Several { lines: vec![1, 1, 3] });
        assert!(error.to_string().starts_with("The searched text occurs 3 times, at lines 1, 1, 3."));
    }

    #[test]
    fn line_ends_are_those_of_the_file() {
        assert_eq!(replaced("a\r\nb\r\nc\r\n", &request("a\nb", "x\ny\nz")), "x\r\ny\r\nz\r\nc\r\n");
        assert_eq!(replaced("a\nb\n", &request("a\r\nb", "x\r\ny")), "x\ny\n");
        assert_eq!(replaced("a\r\nb\nc", &request("c", "x\ny")), "a\r\nb\nx\ny");
        assert_eq!(replaced("a\r\nb\r\nx", &request("x", "y\nz")), "a\r\nb\r\ny\r\nz");
        assert_eq!(replaced("a\r\nb\r\n", &request("a\n", "")), "b\r\n");
        assert_eq!(replaced("a\r\nb\r\n", &regex("a$", "x")), "x\r\nb\r\n");
        assert_eq!(replaced("\u{feff}a\n", &regex("^a", "x")), "\u{feff}x\n");
    }

    #[test]
    fn expressions_see_lines() {
        assert_eq!(replaced("a\nb\n", &regex("^", "> ")), "> a\n> b\n");
        assert_eq!(replaced("a1\na2\n", &regex(r"^a(\d)$", "$1")), "1\n2\n");
        assert_eq!(replaced("A\n", &Replacement { ignore_case: true, ..regex("a", "x") }), "x\n");
    }

    #[test]
    fn references_name_groups() {
        let dated = |replace| replaced("2024-05", &regex(r"(?<year>\d+)-(\d+)", replace));
        for (replace, expected) in [
            ("$2/$1", "05/2024"),
            ("$1st", "2024st"),
            ("$12", "20242"),
            ("[$&]$$", "[2024-05]$"),
            ("${year}$<year>${2}", "2024202405"),
            ("$3 ${no} $ $", "$3 ${no} $ $"),
            ("$日", "$日"),
        ] {
            assert_eq!(dated(replace), expected, "{replace}");
        }
    }

    #[test]
    fn a_group_named_by_a_backslash_is_refused() {
        let error = replace("a b", &regex(r"(\w) (\w)", r"\2 \1")).unwrap_err();
        assert_eq!(error, EditError::BackslashGroup(2));
        assert!(
            error.to_string().contains(r"has `\2`") && error.to_string().contains("write `${2}`"),
            "{error}"
        );
        // What names no group is text.
        assert_eq!(replaced("a b", &regex(r"(?:\w) (\w)", r"\2 \0 \n")), r"\2 \0 \n");
        assert_eq!(replaced("a b", &request("a b", r"\1")), r"\1");
    }

    #[test]
    fn bad_expressions_are_explained() {
        let error = replace("a", &regex("(", "x")).unwrap_err().to_string();
        assert!(error.contains("unclosed group"), "{error}");
        let error = replace("a", &regex(r"\w{9999}{9999}", "x")).unwrap_err();
        assert!(matches!(error, EditError::Regex(_)), "{error}");
    }

    #[test]
    fn a_range_of_lines_limits_the_search() {
        let within = |range| replace("x\nx\nx\n", &Replacement { range, ..regex("^x\n", "y\n") });
        assert_eq!(within(lines(2, 2)).unwrap().text, "x\ny\nx\n");
        assert_eq!(within(lines(2, usize::MAX)).unwrap().text, "x\ny\ny\n");
        assert_eq!(within(lines(9, 9)), Err(EditError::NoLine { line: 9, count: Some(3) }));
        let outside = replace("a\nx\nb\n", &Replacement { range: lines(1, 1), ..request("x", "y") });
        assert_eq!(outside.unwrap_err().to_string(), "It does not occur in lines 1-1, only at line 2.");
    }

    #[test]
    fn what_is_not_there_is_answered_with_what_comes_closest() {
        let error = replace("let a = 1;\nlet b = 2;\n", &request("let  b=2;", "x")).unwrap_err().to_string();
        assert!(error.contains("line 2, 80% alike:\n2 | let b = 2;"), "{error}");
        assert_eq!(replace("a", &regex("b+", "x")), Err(EditError::NoMatch("b+".into())));
        assert_eq!(replace("a", &request("a", "a")), Err(EditError::Unchanged));
        assert_eq!(replace("a", &request("", "a")), Err(EditError::Empty("search for")));
    }

    #[test]
    fn entities_are_decoded_where_only_the_characters_are_in_the_file() {
        let replaced =
            replace("a < b && c\n", &request("a &lt; b &amp;&amp;", "b &gt; a &amp;&amp;")).unwrap();
        assert_eq!((replaced.text.as_str(), replaced.decoded), ("b > a && c\n", true));
        assert!(replaced.notice().unwrap().contains("HTML entities"));
        let replaced = replace("<p>&lt;</p>\n", &request("&lt;", "&gt;")).unwrap();
        assert_eq!((replaced.text.as_str(), replaced.notice()), ("<p>&gt;</p>\n", None));
        let replaced = replace("a1\n", &regex("a(?&lt;n&gt;\\d)", "${n}&amp;")).unwrap();
        assert_eq!(replaced.text, "1&\n");
        assert!(matches!(replace("a\n", &request("&lt;", "x")), Err(EditError::NotFound { .. })));
    }

    #[test]
    fn lines_are_inserted_before_a_line() {
        for (text, line, content, expected) in [
            ("a\nb\n", 1, "x", "x\na\nb\n"),
            ("a\nb\n", 2, "x\ny\n", "a\nx\ny\nb\n"),
            ("a\nb\n", 3, "x", "a\nb\nx\n"),
            ("a\nb\n", 0, "x\n", "a\nb\nx\n"),
            ("a\nb", 0, "x\n", "a\nb\nx"),
            ("a\nb", 3, "x", "a\nb\nx"),
            ("a\r\nb\r\n", 2, "x\ny", "a\r\nx\r\ny\r\nb\r\n"),
            ("a\r\nb", 2, "x\r\n", "a\r\nx\r\nb"),
            ("\u{feff}a\n", 1, "x", "\u{feff}x\na\n"),
            ("a\n", 1, "\n", "\na\n"),
            ("", 0, "x", "x"),
        ] {
            assert_eq!(insert(Some(text), line, content).unwrap(), expected, "{text:?} {line} {content:?}");
        }
    }

    #[test]
    fn there_is_nothing_to_insert_before_a_line_past_the_end() {
        let error = insert(Some("a\nb\n"), 4, "x").unwrap_err();
        assert_eq!(error.to_string(), "There is no line 4: the file has 2 lines. Use 0 to append.");
        assert_eq!(insert(None, 1, "x\n").unwrap(), "x\n");
        assert_eq!(insert(None, 0, "x").unwrap(), "x");
        assert_eq!(insert(None, 2, "x"), Err(EditError::NoLine { line: 2, count: None }));
        assert_eq!(insert(Some("a"), 1, ""), Err(EditError::Empty("insert")));
    }

    #[test]
    fn a_file_written_whole_keeps_its_form() {
        for (before, content, expected) in [
            (None, "a\nb", "a\nb"),
            (Some("x\r\ny\r\n"), "a\nb\n", "a\r\nb\r\n"),
            (Some("x\r\ny\n"), "a\nb\n", "a\nb\n"),
            (Some("x\n"), "a\r\n", "a\r\n"),
            (Some("\u{feff}x\r\n"), "a\n", "\u{feff}a\r\n"),
            (Some("\u{feff}x"), "\u{feff}a", "\u{feff}a"),
            (Some("x"), "", ""),
        ] {
            assert_eq!(whole(before, content).unwrap(), expected, "{before:?} {content:?}");
        }
        assert_eq!(whole(Some("a\r\n"), "a\n"), Err(EditError::Unchanged));
        assert_eq!(whole(None, "").unwrap(), "");
    }

    #[test]
    fn copied_line_numbers_are_dropped_when_every_line_has_one() {
        assert_eq!(whole(None, " 9 | a\n10 |   b\n").unwrap(), "a\n  b\n");
        for content in ["1 | a\nb\n", "1 | a\n3 | b\n", "| a | b |\n"] {
            assert_eq!(whole(None, content).unwrap(), content);
        }
        assert_eq!(whole(Some("1 | x\n"), "1 | a\n").unwrap(), "1 | a\n", "the file has such lines");
    }

    proptest! {
        #[test]
        fn nothing_panics(text in "[ab\r\n\u{feff}日]{0,20}", search in any::<String>(), regex in "[ab.^$*|()\n]{1,6}",
                          content in "[a\r\n$0-9{}<>&]{0,8}", line in 0usize..6, width in 0usize..4) {
            let range = lines(line.max(1), line.max(1) + width);
            for (search, use_regex) in [(&search, false), (&regex, true), (&text, false)] {
                let request = Replacement { use_regex, range, ..request(search, &content) };
                let _ = replace(&text, &request).map_err(|error| error.to_string());
                let _ = replace(&text, &Replacement { range: None, ..request });
            }
            let _ = insert(Some(&text), line, &content);
            let _ = whole(Some(&text), &content);
        }

        #[test]
        fn replacing_lf_text_is_what_the_standard_library_does(text in "[ab\n]{0,30}", search in "[ab\n]{1,3}") {
            match replace(&text, &request(&search, "x\ny")) {
                Ok(result) => prop_assert_eq!(result.text, text.replace(&search, "x\ny")),
                Err(error) => prop_assert!(!text.contains(&search), "{}", error),
            }
        }
    }
}
