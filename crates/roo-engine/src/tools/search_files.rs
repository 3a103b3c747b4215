//! `search_files`: lines that match a regular expression, with a line around each.

use std::borrow::Cow;
use std::collections::HashSet;
use std::io;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::BoxFuture;
use globset::{GlobBuilder, GlobMatcher};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::sinks::Bytes;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use tokio_util::sync::CancellationToken;

use super::unmasked_lines::UnmaskedLines;
use crate::policy::{Action, CheckedCall, Gate, Permitted, Refusal, RefusalRule, Tool, ToolCallContext};
use crate::tool_run::{Outcome, ToolContext};
use roo_catalog::SearchFiles;
use roo_protocol::event::ToolStatus;
use roo_sandbox::exec::redaction::TextMask;
use roo_text::render::{cut, one_line};
use roo_workspace::{
    Contents, EDIT_LIMIT, FileVisitor, Location, Purpose, ReadAccess, ReadError, Resolved, VisitedFile,
    Workspace, as_utf8,
};

/// The most matching lines of a result.
const RESULTS: usize = 300;

/// The most characters of a line.
const LINE_CHARACTERS: usize = 500;

/// The most text of a result, in bytes.
const RESULT_BYTES: usize = 256 << 10;

/// The most matches that are skipped, since they are found all the same.
const SKIPPED: usize = 10_000;

/// The largest compiled expression, in bytes.
const EXPRESSION_BYTES: usize = 10 << 20;

/// Searches a file, or those below a directory.
#[derive(Debug)]
struct Search {
    /// A file or a directory.
    place: Resolved,
    /// Rust regex syntax.
    regex: String,
    /// Globs on file names below a directory.
    file_pattern: Option<String>,
    /// Number of matches to skip.
    offset: usize,
}

impl Tool for SearchFiles {
    async fn judge(self, gate: &Gate, call_context: ToolCallContext<'_>) -> Result<CheckedCall, Refusal> {
        let place = match gate.resolve(&self.path, Purpose::Read) {
            Ok(file) if file.is_file() => file,
            _ => gate.resolve(&self.path, Purpose::List)?,
        };
        if self.offset > SKIPPED {
            let text = format!("At most {SKIPPED} matches can be skipped. Use a narrower search.");
            return Err(Refusal::mistake(RefusalRule::Content, text));
        }
        let what = format!("{} {:?} {}", self.regex, self.file_pattern, self.offset);
        Ok(CheckedCall::from(gate.look(call_context, "Search", place, what, |place| Search {
            place,
            regex: self.regex,
            file_pattern: self.file_pattern,
            offset: self.offset,
        })?))
    }
}

impl Action for Search {
    fn run<'a>(self: Box<Self>, _: Permitted, context: &'a ToolContext) -> BoxFuture<'a, Outcome> {
        Box::pin(run(*self, context))
    }
}

/// Searches a file, or the files below a directory: unsaved text where an editor has it open, else the disk.
/// Below a directory, ignored files, likely secrets, binary files and those over [`EDIT_LIMIT`] are left out; the last are
/// counted.
async fn run(Search { place, regex, file_pattern, offset }: Search, context: &ToolContext) -> Outcome {
    let shown = place.display();
    let failed = |text| Outcome::new(ToolStatus::Failed, text, format!("Did not search {shown}"));
    let matcher = RegexMatcherBuilder::new()
        // Makes an expression that could only match over several lines an error.
        .line_terminator(Some(b'\n'))
        .size_limit(EXPRESSION_BYTES)
        .dfa_size_limit(EXPRESSION_BYTES)
        .build(&regex);
    let matcher = match matcher {
        Ok(matcher) => matcher,
        Err(error) => {
            return failed(format!(
                "The regular expression can't be used (Rust syntax, single lines): {error}"
            ));
        }
    };
    let pattern = match FilePattern::new(file_pattern.as_deref().unwrap_or_default(), &place) {
        Ok(pattern) => pattern,
        Err(error) => return failed(format!("The file_pattern can't be used: {error}")),
    };
    // A file that is named is searched as it would be read, whatever the pattern.
    let file = match place.is_directory() {
        true => None,
        false => match context.workspace.read(&place).await {
            Ok(Contents::Text(file)) => Some(file.text),
            Ok(Contents::Binary { .. }) => return failed(format!("{shown} is not a text file.")),
            Err(error) => return failed(error.to_string()),
        },
    };

    let (workspace, cancel) = (Arc::clone(&context.workspace), context.cancel.clone());
    let mask = context.read_mask().await;
    let work = move || {
        let unmasked = UnmaskedLines::new(&regex, EXPRESSION_BYTES);
        let open = open_files(&workspace, &place);
        let (workspace, matcher, pattern) = (&workspace, &matcher, pattern.as_ref());
        let (mask, fits_any, cancel) = (&mask, AtomicBool::new(false), &cancel);
        let search =
            FileSearch { workspace, matcher, unmasked, pattern, fits_any, mask, offset, open, cancel };
        match file {
            None => search.below(&place),
            Some(text) => search.in_file(&place, &text),
        }
    };
    match roo_durable::spawn_blocking(work).await {
        Ok(Some(results)) => {
            let summary = format!("Found {} results in {shown}", results.shown());
            Outcome::new(ToolStatus::Ok, results.into_text(), summary)
        }
        Ok(None) | Err(_) => {
            Outcome::new(ToolStatus::Interrupted, "The search was interrupted.", "Interrupted")
        }
    }
}

/// Pattern of the files to search: globs with commas between them. Those that begin with `!` leave files out.
struct FilePattern {
    /// As the model wrote it.
    text: String,
    /// Any file when empty.
    wanted: Vec<FileGlob>,
    unwanted: Vec<FileGlob>,
    /// Path of the directory in its workspace folder, with a `/` at its end; empty for the folder itself.
    directory: String,
}

/// Glob on the names of files, or on their paths when it has a `/`.
struct FileGlob {
    glob: GlobMatcher,
    whole_path: bool,
}

impl FilePattern {
    /// None where every file fits.
    fn new(text: &str, directory: &Resolved) -> Result<Option<Self>, globset::Error> {
        let (mut wanted, mut unwanted) = (Vec::new(), Vec::new());
        for glob in globs(text) {
            match glob.strip_prefix('!') {
                Some(glob) => unwanted.extend(FileGlob::parse(glob)?),
                None => wanted.extend(FileGlob::parse(glob)?),
            }
        }
        let directory = match (directory.location(), directory.relative()) {
            (Location::Outside, _) | (_, "") => String::new(),
            (_, directory) => format!("{directory}/"),
        };
        let is_any = wanted.is_empty() && unwanted.is_empty();
        Ok((!is_any).then(|| Self { text: text.to_owned(), wanted, unwanted, directory }))
    }

    /// Returns whether to search a file, by its path below the directory.
    fn fits(&self, path: &str) -> bool {
        let any = |globs: &[FileGlob]| globs.iter().any(|glob| glob.fits(&self.directory, path));
        (self.wanted.is_empty() || any(&self.wanted)) && !any(&self.unwanted)
    }
}

impl FileGlob {
    fn parse(glob: &str) -> Result<Vec<Self>, globset::Error> {
        let whole_path = glob.contains('/');
        let glob = glob.trim_start_matches("./").trim_start_matches('/');
        // An extension alone, which may be a name too.
        let is_extension = !whole_path && glob.starts_with('.') && !glob.contains(['*', '?', '[', '{']);
        let globs = [Some(glob.to_owned()), is_extension.then(|| format!("*{glob}"))];
        let compile = |glob: String| {
            let glob = GlobBuilder::new(&glob).literal_separator(true).build()?;
            Ok(Self { glob: glob.compile_matcher(), whole_path })
        };
        globs.into_iter().flatten().filter(|glob| !glob.is_empty()).map(compile).collect()
    }

    /// A glob for paths may begin at the directory or at the workspace folder.
    fn fits(&self, directory: &str, path: &str) -> bool {
        match self.whole_path {
            false => self.glob.is_match(path.rsplit('/').next().unwrap_or(path)),
            true => {
                self.glob.is_match(path)
                    || !directory.is_empty() && self.glob.is_match(format!("{directory}{path}"))
            }
        }
    }
}

/// The globs of a text, which has commas between them. Those in braces and brackets are part of a glob.
fn globs(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_usize;
    let ends_glob = move |c: char| {
        match c {
            '{' | '[' => depth += 1,
            '}' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    };
    text.split(ends_glob).map(str::trim).filter(|glob| !glob.is_empty())
}

/// Pattern of a search, and the files that it covers.
struct FileSearch<'a> {
    workspace: &'a Workspace,
    matcher: &'a RegexMatcher,
    unmasked: UnmaskedLines<'a>,
    pattern: Option<&'a FilePattern>,
    /// Set when a file fits the pattern.
    fits_any: AtomicBool,
    mask: &'a TextMask,
    /// Number of matches to skip.
    offset: usize,
    /// Files that an editor has open, below the directory.
    open: HashSet<String>,
    cancel: &'a CancellationToken,
}

/// The files below a directory that an editor has open.
fn open_files(workspace: &Workspace, directory: &Resolved) -> HashSet<String> {
    let open = workspace.documents().with_files().into_iter();
    open.filter_map(|(path, _)| Some(path.strip_prefix(directory.absolute()).ok()?.to_str()?.to_owned()))
        .collect()
}

impl FileSearch<'_> {
    /// None when it was cancelled.
    fn below(&self, directory: &Resolved) -> Option<Results> {
        let mut results = Results { offset: self.offset, ..Results::default() };
        self.workspace.visit_files(
            directory,
            |name| name == ".git",
            self,
            |file| {
                results.add(file);
                if results.more { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            },
        );
        if let Some(pattern) = self.pattern
            && !self.fits_any.load(Ordering::Relaxed)
        {
            results.unfit_pattern = Some(pattern.text.clone());
        }
        (!self.cancel.is_cancelled()).then_some(results)
    }

    /// None when it was cancelled.
    fn in_file(&self, file: &Resolved, text: &str) -> Option<Results> {
        let (mut searcher, mut matcher) = self.worker();
        let mut results = Results { offset: self.offset, ..Results::default() };
        let found = FileFindings { offset: self.offset, ..FileFindings::default() };
        if let Some(found) = self.in_text(&mut searcher, &mut matcher, text.as_bytes(), found) {
            results.add(FileFindings { path: file.display(), ..found });
        }
        (!self.cancel.is_cancelled()).then_some(results)
    }

    /// Searches the text of a file; none where there is nothing to report.
    fn in_text(
        &self,
        searcher: &mut Searcher,
        matcher: &mut RegexMatcher,
        bytes: &[u8],
        mut found: FileFindings,
    ) -> Option<FileFindings> {
        let mut text = without_carriage_returns(as_utf8(bytes));
        if !is_found(searcher, matcher, &text) {
            return None;
        }
        let readable = String::from_utf8_lossy(&text);
        if let Some(masked) = self.mask.masked(&readable) {
            // What is masked isn't found either, nor is it said that there would be a match: a search could guess it letter by letter.
            if !self.unmasked.are_found(&readable, &masked) {
                return None;
            }
            text = Cow::Owned(masked.into_bytes());
            found.is_masked = true;
        }
        // The sink never fails, and a slice is read without I/O.
        let _ =
            searcher.search_slice(&*matcher, &text, LineSink { found: &mut found, unmasked: &self.unmasked });
        Some(found)
    }
}

impl FileVisitor for FileSearch<'_> {
    type Worker = (Searcher, RegexMatcher);
    type Found = FileFindings;

    fn worker(&self) -> Self::Worker {
        let searcher = SearcherBuilder::new()
            .before_context(1)
            .after_context(1)
            .binary_detection(BinaryDetection::quit(0))
            .build();
        (searcher, self.matcher.clone())
    }

    fn is_wanted(&self, path: &str) -> bool {
        let Some(pattern) = self.pattern else { return true };
        let fits = pattern.fits(path);
        if fits {
            self.fits_any.store(true, Ordering::Relaxed);
        }
        fits
    }

    fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }

    /// Searches a file; none where there is nothing to report.
    fn visit(
        &self,
        (searcher, matcher): &mut Self::Worker,
        file: &mut VisitedFile<'_>,
    ) -> Option<FileFindings> {
        let is_open = !self.open.is_empty() && self.open.contains(file.path());
        let in_editor = is_open.then(|| file.place());
        let document = in_editor.as_ref().and_then(|place| self.workspace.documents().at(place.absolute()));
        let mut found = FileFindings { offset: self.offset, ..FileFindings::default() };
        let bytes = match (&in_editor, &document) {
            (Some(place), Some(document)) => {
                // By its other names too.
                if self.workspace.read_access(place) != ReadAccess::Free {
                    return None;
                }
                document.text.as_bytes()
            }
            _ => match file.read(EDIT_LIMIT) {
                Ok(bytes) => bytes?,
                Err(ReadError::Io { .. }) => {
                    found.is_unread = true;
                    return Some(found);
                }
                Err(ReadError::TooLarge { .. }) => {
                    found.is_too_large = true;
                    return Some(found);
                }
                // What is no file is never searched, and what is gone has no matches.
                Err(_) => return None,
            },
        };
        let found = self.in_text(searcher, matcher, bytes, found)?;
        Some(FileFindings { path: file.place().display(), ..found })
    }
}

/// Returns whether anything matches at all.
fn is_found(searcher: &mut Searcher, matcher: &RegexMatcher, bytes: &[u8]) -> bool {
    let mut is_found = false;
    let first = Bytes(|_, _| {
        is_found = true;
        Ok(false)
    });
    // A slice is read without I/O.
    let searched = searcher.search_slice(matcher, bytes, first);
    searched.is_ok() && is_found
}

/// So that `$` matches before any line end.
fn without_carriage_returns(bytes: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    if memchr::memchr(b'\r', &bytes).is_none() {
        return bytes;
    }
    let next = bytes.iter().skip(1).copied().map(Some).chain([None]);
    let kept = bytes.iter().zip(next).filter(|&(&byte, next)| !(byte == b'\r' && next == Some(b'\n')));
    Cow::Owned(kept.map(|(&byte, _)| byte).collect())
}

#[derive(Default)]
struct Results {
    text: String,
    /// Number of the first matches that are left out.
    offset: usize,
    /// Number of the matches so far, with those that are left out.
    count: usize,
    /// True if there are more than are shown.
    more: bool,
    /// Number of files that could not be read.
    unread: usize,
    /// Number of files that are larger than [`EDIT_LIMIT`].
    too_large: usize,
    /// Number of files with something that looks like a secret.
    masked: usize,
    /// A pattern that no file fits.
    unfit_pattern: Option<String>,
}

impl Results {
    /// Adds what was found in the next file, as far as it is shown.
    fn add(&mut self, file: FileFindings) {
        self.unread += usize::from(file.is_unread);
        self.too_large += usize::from(file.is_too_large);
        self.masked += usize::from(file.is_masked);
        if file.pieces.is_empty() {
            return;
        }
        let matches = file.pieces.iter().filter(|piece| matches!(piece, Piece::Match(_))).count();
        if self.count + matches <= self.offset {
            self.count += matches;
            return;
        }
        self.text.push_str(&format!("# {}\n", file.path));
        for piece in file.pieces {
            match piece {
                Piece::Match(_) if self.count < self.offset => self.count += 1,
                // What is around a match that is left out.
                Piece::Context(_) | Piece::Break if self.count < self.offset => {}
                Piece::Match(_) if self.shown() == RESULTS || self.text.len() > RESULT_BYTES => {
                    self.more = true;
                    break;
                }
                Piece::Match(line) => {
                    self.count += 1;
                    self.text.push_str(&line);
                }
                Piece::Context(line) => self.text.push_str(&line),
                Piece::Break => self.text.push_str("----\n"),
            }
        }
        self.more |= file.is_cut;
        self.text.push_str("----\n");
    }

    /// Number of the matches that are shown.
    fn shown(&self) -> usize {
        self.count.saturating_sub(self.offset)
    }

    fn into_text(self) -> String {
        let unread = match self.unread {
            0 => String::new(),
            1 => "\n(1 file could not be read, so it was not searched.)".to_owned(),
            count => format!("\n({count} files could not be read, so they were not searched.)"),
        };
        let limit = EDIT_LIMIT >> 20;
        let too_large = match self.too_large {
            0 => String::new(),
            1 => format!("\n(1 file is larger than {limit} MiB and was not searched.)"),
            count => format!("\n({count} files are larger than {limit} MiB and were not searched.)"),
        };
        let masked = match self.masked {
            0 => "",
            _ => {
                "\n(What looks like a secret is not searched and shown as [masked: …]. Don't write a mask into a file.)"
            }
        };
        self.into_found() + masked + &unread + &too_large
    }

    fn into_found(self) -> String {
        let (offset, until) = (self.offset, self.count);
        let next = match until <= SKIPPED {
            true => format!("`offset` {until} to go on"),
            false => "a narrower search".to_owned(),
        };
        match (self.shown(), self.more) {
            (0, _) if until == 0 => match self.unfit_pattern {
                None => "No results found.".to_owned(),
                Some(pattern) => format!(
                    "No results found: no file here fits the file_pattern `{}`, so none was searched.",
                    one_line(&pattern, LINE_CHARACTERS)
                ),
            },
            (0, _) => format!("There are no more results: there are {until} in all."),
            (count, true) if offset == 0 => format!(
                "Showing first {count} of {count}+ results. Use a narrower search, or `offset` {until} to go on.\n\n{}",
                self.text
            ),
            (_, true) => {
                format!("Showing results {} to {until} of {until}+. Use {next}.\n\n{}", offset + 1, self.text)
            }
            (_, false) if offset > 0 => {
                format!("Showing results {} to {until} of {until}.\n\n{}", offset + 1, self.text)
            }
            (1, false) => format!("Found 1 result.\n\n{}", self.text),
            (count, false) => format!("Found {count} results.\n\n{}", self.text),
        }
    }
}

/// Findings in one file.
#[derive(Default)]
struct FileFindings {
    path: String,
    pieces: Vec<Piece>,
    /// Number of the pieces that are matches, and the text in bytes of those that are shown even if all that are left out
    /// are in this file.
    matches: usize,
    bytes: usize,
    /// Number of matches to skip, here or in other files.
    offset: usize,
    /// True if it has more matches than fit.
    is_cut: bool,
    /// True if it could not be read.
    is_unread: bool,
    /// True if it is larger than [`EDIT_LIMIT`].
    is_too_large: bool,
    /// True if it had something that looks like a secret.
    is_masked: bool,
}

/// A piece of what is shown of a file.
enum Piece {
    /// A line that matches.
    Match(String),
    /// A line beside one.
    Context(String),
    /// Lines are left out here.
    Break,
}

impl FileFindings {
    /// Returns a line with its number, and counts it.
    fn numbered(&mut self, number: Option<u64>, line: &str) -> String {
        let text = format!("{:>3} | {line}\n", number.unwrap_or_default());
        if self.matches >= self.offset {
            self.bytes += text.len();
        }
        text
    }
}

/// Takes the lines of a file that are shown.
struct LineSink<'a> {
    found: &'a mut FileFindings,
    unmasked: &'a UnmaskedLines<'a>,
}

impl Sink for LineSink<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, matched: &SinkMatch<'_>) -> io::Result<bool> {
        let found = &mut *self.found;
        // Only a match tells that there are more than fit.
        found.is_cut = found.matches >= RESULTS + found.offset || found.bytes > RESULT_BYTES;
        if found.is_cut {
            return Ok(false);
        }
        let line = line_text(matched.bytes());
        let line = found.numbered(matched.line_number(), &around_match(&line, self.unmasked));
        found.pieces.push(Piece::Match(line));
        found.matches += 1;
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> io::Result<bool> {
        let line = line_text(context.bytes());
        let line = self.found.numbered(context.line_number(), &cut(&line, LINE_CHARACTERS));
        self.found.pieces.push(Piece::Context(line));
        Ok(true)
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        self.found.pieces.push(Piece::Break);
        Ok(true)
    }
}

/// The text of a line without its end.
fn line_text(line: &[u8]) -> Cow<'_, str> {
    let end = line.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r')).map_or(0, |last| last + 1);
    String::from_utf8_lossy(line.get(..end).unwrap_or_default())
}

/// The part of a line that is shown: its beginning, or what is around its first match where that is farther on.
fn around_match<'l>(line: &'l str, unmasked: &UnmaskedLines<'_>) -> Cow<'l, str> {
    let beginning = cut(line, LINE_CHARACTERS);
    if beginning.len() == line.len() {
        return beginning;
    }
    // An expression can match a part of a character.
    let is_whole = |found: &Range<usize>| line.get(found.clone()).is_some();
    let Some(found) = unmasked.first_match(line).filter(is_whole) else { return beginning };
    let (before, rest) = line.split_at(found.start);
    let matched = line[found].chars().take(LINE_CHARACTERS).count();
    if before.chars().take(LINE_CHARACTERS).count() + matched < LINE_CHARACTERS {
        return beginning;
    }
    // The mark of what is left out before.
    let room = LINE_CHARACTERS - 1;
    let after = rest.chars().take(room).count();
    let lead = (room.saturating_sub(matched) / 2).max(room - after);
    let start = before.char_indices().rev().take(lead).last().map_or(before.len(), |(start, _)| start);
    Cow::Owned(format!("…{}", cut(&line[start..], room)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::tools::fixture::Fixture;
    use roo_workspace::Purpose;

    async fn search_in(fixture: &Fixture, directory: &str, regex: &str, pattern: Option<&str>) -> Outcome {
        let place = fixture.context.workspace.resolve(directory, Purpose::List).unwrap();
        let search =
            Search { place, regex: regex.to_owned(), file_pattern: pattern.map(str::to_owned), offset: 0 };
        run(search, &fixture.context).await
    }

    #[tokio::test]
    async fn more_results_than_are_shown_come_page_by_page() {
        let fixture =
            Fixture::new(&[("a", &"hit\n".repeat(250)), ("b", &"hit\n".repeat(400)), ("c", "hit\nx\n")]);
        let page = async |offset| search_from(&fixture, "hit", offset).await;
        let first = page(0).await;
        assert!(first.starts_with(
            "Showing first 300 of 300+ results. Use a narrower search, or `offset` 300 to go on."
        ));
        let second = page(300).await;
        assert!(
            second.starts_with(
                "Showing results 301 to 600 of 600+. Use `offset` 600 to go on.\n\n# b\n 51 | hit\n"
            ),
            "{second}"
        );
        let third = page(600).await;
        assert!(third.starts_with("Showing results 601 to 651 of 651.\n\n# b\n351 | hit\n"), "{third}");
        assert!(third.ends_with("400 | hit\n----\n# c\n  1 | hit\n  2 | x\n----\n"), "{third}");
        assert_eq!(page(700).await, "There are no more results: there are 651 in all.");
    }

    async fn search_from(fixture: &Fixture, regex: &str, offset: usize) -> String {
        let place = fixture.context.workspace.resolve(".", Purpose::List).unwrap();
        let search = Search { place, regex: regex.to_owned(), file_pattern: None, offset };
        run(search, &fixture.context).await.text
    }

    async fn found(fixture: &Fixture, regex: &str) -> String {
        search_in(fixture, ".", regex, None).await.text
    }

    #[tokio::test]
    async fn matches_come_in_groups_with_a_line_around_them() {
        let fixture = Fixture::new(&[
            ("src/a.rs", "one\ntwo hit\nthree\nfour\nfive\nsix\nhit seven"),
            ("src/b.rs", "nothing"),
            ("z.md", "hit\nhit\n"),
        ]);
        assert_eq!(
            found(&fixture, "hit").await,
            "Found 4 results.\n\n\
             # src/a.rs\n  1 | one\n  2 | two hit\n  3 | three\n----\n  6 | six\n  7 | hit seven\n----\n\
             # z.md\n  1 | hit\n  2 | hit\n----\n"
        );
        assert_eq!(found(&fixture, "absent").await, "No results found.");
    }

    #[tokio::test]
    async fn many_files_are_searched_in_the_order_of_their_names() {
        let files: Vec<(String, &str)> = (0..400)
            .map(|number| (format!("d{}/f{number}", number % 7), if number % 2 == 0 { "hit" } else { "" }))
            .collect();
        let fixture = Fixture::new(&files.iter().map(|(name, text)| (&**name, *text)).collect::<Vec<_>>());
        let text = found(&fixture, "hit").await;
        let shown: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# ")).collect();
        let mut expected: Vec<(usize, usize)> =
            (0..files.len()).step_by(2).map(|number| (number % 7, number)).collect();
        expected.sort_unstable();
        let expected: Vec<String> =
            expected.iter().map(|(directory, file)| format!("d{directory}/f{file}")).collect();
        assert_eq!(shown, expected);
    }

    #[tokio::test]
    async fn a_file_pattern_is_for_names_or_for_paths() {
        let fixture = Fixture::new(&[("src/a.rs", "hit"), ("src/deep/b.ts", "hit"), ("c.tsx", "hit")]);
        let names = async |pattern| {
            let text = search_in(&fixture, ".", "hit", Some(pattern)).await.text;
            text.lines().filter_map(|line| line.strip_prefix("# ").map(str::to_owned)).collect::<Vec<_>>()
        };
        assert_eq!(names("*.rs").await, ["src/a.rs"]);
        assert_eq!(names("*.{ts,tsx}").await, ["c.tsx", "src/deep/b.ts"]);
        assert_eq!(names("src/*").await, ["src/a.rs"]);
        assert_eq!(names("src/**").await, ["src/a.rs", "src/deep/b.ts"]);
        assert_eq!(names("").await.len(), 3);
        assert_eq!(names("*.rs, *.tsx").await, ["c.tsx", "src/a.rs"]);
        assert_eq!(names("!*.rs").await, ["c.tsx", "src/deep/b.ts"]);
        assert_eq!(names("src/**,!src/deep/**").await, ["src/a.rs"]);
        assert_eq!(names(".rs").await, ["src/a.rs"]);
        assert_eq!(names("/src/a.rs").await, ["src/a.rs"]);
        assert_eq!(names("./src/*.{rs,ts}").await, ["src/a.rs"]);
        let below = search_in(&fixture, "src", "hit", Some("src/**/*.ts")).await.text;
        assert!(below.contains("# src/deep/b.ts"), "{below}");
        let below = search_in(&fixture, "src", "hit", Some("deep/*.ts")).await.text;
        assert!(below.contains("# src/deep/b.ts"), "{below}");
    }

    #[tokio::test]
    async fn a_pattern_that_no_file_fits_is_told() {
        let fixture = Fixture::new(&[("a.rs", "hit")]);
        let text = search_in(&fixture, ".", "hit", Some("*.py")).await.text;
        let expected = "No results found: no file here fits the file_pattern `*.py`, so none was searched.";
        assert_eq!(text, expected);
        assert_eq!(search_in(&fixture, ".", "absent", Some("*.rs")).await.text, "No results found.");
    }

    #[tokio::test]
    async fn one_file_is_searched_as_it_is_read() {
        let fixture = Fixture::new(&[
            (".gitignore", "built/\n"),
            ("built/a.js", "one\r\nhit\r\n"),
            ("open.txt", "old hit"),
        ]);
        fixture.put("binary", b"hit\0hit");
        fixture.open("open.txt", "new hit");
        let search = async |name| {
            let place = fixture.context.workspace.resolve(name, Purpose::Read).unwrap();
            let search = Search { place, regex: "hit$".into(), file_pattern: Some("*.md".into()), offset: 0 };
            run(search, &fixture.context).await
        };
        let expected = "Found 1 result.\n\n# built/a.js\n  1 | one\n  2 | hit\n----\n";
        assert_eq!(search("built/a.js").await.text, expected);
        assert!(search("open.txt").await.text.contains("1 | new hit"));
        let binary = search("binary").await;
        assert_eq!((binary.status, &*binary.text), (ToolStatus::Failed, "binary is not a text file."));
    }

    #[tokio::test]
    async fn secrets_are_neither_shown_nor_found() {
        let token = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9".repeat(2));
        let fixture = Fixture::new(&[("a.ini", &*format!("a=1\nt={token} x\n"))]);
        let text = found(&fixture, "t=").await;
        assert!(text.contains("  2 | t=[masked: ") && text.contains("Don't write a mask"), "{text}");
        assert!(!text.contains(&token), "{text}");
        // Whether a guess is right or wrong makes no difference.
        let wrong = found(&fixture, "ghp_z").await;
        assert!(wrong.starts_with("No results found."));
        for guess in ["ghp_a1B", r"\[masked: |ghp_a", "t=$|ghp_a", "GitHub token|ghp_a"] {
            assert_eq!(found(&fixture, guess).await, wrong, "{guess}");
        }
    }

    #[tokio::test]
    async fn bad_expressions_and_patterns_are_named() {
        let fixture = Fixture::new(&[("a", "x")]);
        for regex in ["a(", r"a\nb", "(?P<n>x){1000000000}"] {
            let outcome = search_in(&fixture, ".", regex, None).await;
            assert_eq!(outcome.status, ToolStatus::Failed, "{regex}");
            assert!(outcome.text.starts_with("The regular expression can't be used"), "{}", outcome.text);
        }
        let outcome = search_in(&fixture, ".", "x", Some("[")).await;
        assert!(outcome.text.starts_with("The file_pattern can't be used"));
    }

    #[tokio::test]
    async fn unsaved_text_is_searched_instead_of_the_disk() {
        let fixture = Fixture::new(&[("a.txt", "on disk"), ("b.txt", "on disk")]);
        fixture.open("a.txt", "in the buffer");
        assert!(found(&fixture, "in the buffer").await.contains("# a.txt"));
        assert_eq!(found(&fixture, "on disk").await.matches("# ").count(), 1);
    }

    #[tokio::test]
    async fn what_is_ignored_secret_binary_or_elsewhere_is_not_searched() {
        let fixture = Fixture::new(&[
            (".rooignore", "hidden.txt\n"),
            (".gitignore", "built/\n"),
            ("hidden.txt", "hit"),
            ("built/x", "hit"),
            (".env", "hit"),
            (".git/config", "hit"),
            ("seen.txt", "hit"),
        ]);
        fixture.put("binary", b"hit\0hit");
        let out = tempfile::tempdir().unwrap();
        std::fs::write(out.path().join("x"), "hit").unwrap();
        symlink(out.path(), fixture.path("linked")).unwrap();
        symlink(out.path().join("x"), fixture.path("linked.txt")).unwrap();
        symlink("hidden.txt", fixture.path("alias.txt")).unwrap();
        assert_eq!(found(&fixture, "hit").await, "Found 1 result.\n\n# seen.txt\n  1 | hit\n----\n");
    }

    #[tokio::test]
    async fn results_are_limited() {
        let fixture = Fixture::new(&[("a.txt", &"hit\n".repeat(301)), ("wide", &"é".repeat(501))]);
        let text = found(&fixture, "hit").await;
        assert!(text.starts_with("Showing first 300 of 300+ results."));
        assert_eq!(text.matches("| hit").count(), 300);
        assert!(found(&fixture, "é").await.contains(&format!("{}…\n", "é".repeat(499))));
    }

    #[tokio::test]
    async fn a_match_far_into_a_long_line_is_shown() {
        let line = format!("{}, \"needle\": 1, {}", "é".repeat(3000), "y".repeat(3000));
        let fixture = Fixture::new(&[("a.json", &line), ("b.json", &format!("{}hit", "x".repeat(600)))]);
        let shown = found(&fixture, "needle").await;
        let shown = shown.lines().find_map(|line| line.strip_prefix("  1 | ")).unwrap();
        assert_eq!(shown.chars().count(), LINE_CHARACTERS);
        assert!(
            shown.starts_with("…é") && shown.ends_with("y…") && shown.contains("é, \"needle\": 1, y"),
            "{shown}"
        );
        // The end of a line, as much as fits.
        assert!(found(&fixture, "hit").await.contains(&format!("| …{}hit\n", "x".repeat(496))));
        // A match that is longer than what is shown.
        let shown = found(&fixture, "y+").await;
        assert!(shown.contains(&format!("| …{}…\n", "y".repeat(498))), "{shown}");
    }

    #[tokio::test]
    async fn results_of_one_file_that_are_too_large_come_page_by_page() {
        let line = format!("{}\n", "é".repeat(500));
        let fixture = Fixture::new(&[("wide", &line.repeat(400))]);
        let first = found(&fixture, "é").await;
        let shown = first.matches(" | é").count();
        assert!((250..300).contains(&shown), "{shown}");
        let expected = format!(
            "Showing first {shown} of {shown}+ results. Use a narrower search, or `offset` {shown} to go on."
        );
        assert!(first.starts_with(&expected), "{}", &first[..200]);
        let rest = search_from(&fixture, "é", shown).await;
        let expected = format!("Showing results {} to 400 of 400.\n\n# wide\n{} | é", shown + 1, shown + 1);
        assert!(rest.starts_with(&expected), "{}", &rest[..200]);
    }

    #[tokio::test]
    async fn a_line_end_is_a_line_end() {
        let fixture = Fixture::new(&[("a.txt", "one\r\ntwo\r\n")]);
        assert!(found(&fixture, "one$").await.contains("  1 | one\n  2 | two\n"));
    }

    #[tokio::test]
    async fn files_that_could_not_be_read_are_told() {
        use std::os::unix::fs::PermissionsExt as _;

        let fixture = Fixture::new(&[("a.txt", "hit"), ("closed", "hit")]);
        std::fs::set_permissions(fixture.path("closed"), std::fs::Permissions::from_mode(0o0)).unwrap();
        // Root reads everything.
        if std::fs::read(fixture.path("closed")).is_err() {
            let note = "\n(1 file could not be read, so it was not searched.)";
            assert_eq!(found(&fixture, "absent").await, format!("No results found.{note}"));
            assert!(found(&fixture, "hit").await.ends_with(note));
        }
        let results = Results { unread: 2, ..Results::default() };
        let note = "\n(2 files could not be read, so they were not searched.)";
        assert_eq!(results.into_text(), format!("No results found.{note}"));
    }

    #[tokio::test]
    async fn files_that_are_too_large_to_be_searched_are_told() {
        let fixture = Fixture::new(&[("a.txt", "hit"), (".gitignore", "*.log\n")]);
        let large =
            |name: &str| std::fs::File::create(fixture.path(name)).unwrap().set_len(21 << 20).unwrap();
        large("ignored.log");
        large("one.txt");
        let note = "\n(1 file is larger than 20 MiB and was not searched.)";
        assert_eq!(found(&fixture, "absent").await, format!("No results found.{note}"));
        large("two.txt");
        let text = found(&fixture, "hit").await;
        assert!(text.ends_with("\n(2 files are larger than 20 MiB and were not searched.)"), "{text}");
        // Those that the pattern leaves out were not asked about.
        assert!(!search_in(&fixture, ".", "hit", Some("a.*")).await.text.contains("MiB"));
    }

    #[tokio::test]
    async fn a_cancelled_search_is_interrupted() {
        let fixture = Fixture::new(&[("a.txt", "x")]);
        fixture.context.cancel.cancel();
        assert_eq!(search_in(&fixture, ".", "x", None).await.status, ToolStatus::Interrupted);
    }
}
