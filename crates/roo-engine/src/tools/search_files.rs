//! `search_files`: lines that match a regular expression, with a line around each.

use std::collections::HashSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use globset::{GlobBuilder, GlobMatcher};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::sinks::Bytes;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use tokio_util::sync::CancellationToken;

use super::{Outcome, ToolContext};
use crate::policy::{Action, Checked, Gate, Permitted, Refusal, Tool, ToolCallContext};
use roo_catalog::SearchFiles;
use roo_protocol::event::ToolStatus;
use roo_sandbox::exec::redaction::TextMask;
use roo_text::render::cut;
use roo_workspace::{
    EDIT_LIMIT, Found, FoundKind, Purpose, ReadAccess, ReadError, Resolved, Walk, Workspace, read_disk,
};

/// The most matching lines of a result.
const RESULTS: usize = 300;

/// The most characters of a line.
const LINE_CHARACTERS: usize = 500;

/// The most text of a result, in bytes.
const RESULT_BYTES: usize = 256 << 10;

/// The largest compiled expression, in bytes.
const EXPRESSION_BYTES: usize = 10 << 20;

/// Searches below a directory.
#[derive(Debug)]
struct Search {
    directory: Resolved,
    /// Rust regex syntax.
    regex: String,
    /// A glob on file names.
    file_pattern: Option<String>,
}

impl Tool for SearchFiles {
    async fn judge(self, gate: &Gate, subject: ToolCallContext<'_>) -> Result<Checked, Refusal> {
        let directory = gate.resolve(&self.path, Purpose::List)?;
        let what = format!("{} {:?}", self.regex, self.file_pattern);
        Ok(Checked::from(gate.look(subject, "Search", directory, what, |directory| Search {
            directory,
            regex: self.regex,
            file_pattern: self.file_pattern,
        })?))
    }
}

impl Action for Search {
    fn run<'a>(self: Box<Self>, _: Permitted, context: &'a ToolContext) -> BoxFuture<'a, Outcome> {
        Box::pin(run(self.directory, self.regex, self.file_pattern, context))
    }
}

/// Searches the files below a directory: unsaved text where an editor has it open, else the disk.
/// Ignored files, likely secrets, binary files and those over [`EDIT_LIMIT`] are left out.
async fn run(
    directory: Resolved,
    regex: String,
    file_pattern: Option<String>,
    context: &ToolContext,
) -> Outcome {
    let shown = directory.display();
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
    let pattern = match file_pattern.as_deref().filter(|pattern| !pattern.is_empty()).map(FilePattern::new) {
        None => None,
        Some(Ok(pattern)) => Some(pattern),
        Some(Err(error)) => return failed(format!("The file_pattern can't be used: {error}")),
    };

    let (workspace, cancel) = (Arc::clone(&context.workspace), context.cancel.clone());
    let mask = context.mask();
    let work = move || search(&workspace, &directory, &matcher, pattern.as_ref(), &mask, &cancel);
    match tokio::task::spawn_blocking(work).await {
        Ok(Some(results)) => {
            let summary = format!("Found {} results in {shown}", results.count);
            Outcome::new(ToolStatus::Ok, results.into_text(), summary)
        }
        Ok(None) | Err(_) => {
            Outcome::new(ToolStatus::Interrupted, "The search was interrupted.", "Interrupted")
        }
    }
}

/// Which files are searched: by name, or by path below the directory when the glob has a `/`.
struct FilePattern {
    glob: GlobMatcher,
    whole_path: bool,
}

impl FilePattern {
    fn new(pattern: &str) -> Result<Self, globset::Error> {
        let glob = GlobBuilder::new(pattern.trim_start_matches("./")).literal_separator(true).build()?;
        Ok(Self { glob: glob.compile_matcher(), whole_path: pattern.contains('/') })
    }

    fn fits(&self, path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or(path);
        self.glob.is_match(if self.whole_path { path } else { name })
    }
}

/// None when it was cancelled.
fn search(
    workspace: &Workspace,
    directory: &Resolved,
    matcher: &RegexMatcher,
    pattern: Option<&FilePattern>,
    mask: &TextMask,
    cancel: &CancellationToken,
) -> Option<Results> {
    let mut searcher = SearcherBuilder::new()
        .before_context(1)
        .after_context(1)
        .binary_detection(BinaryDetection::quit(0))
        .build();
    let open: HashSet<PathBuf> =
        workspace.documents().with_files().into_iter().map(|(path, _)| path).collect();
    let mut results = Results::default();
    let walk = Walk { recursive: true, leave_out: |name| name == ".git" };
    for Found { path, .. } in walk.below(directory, workspace.rules(directory)).filter(|found| {
        found.kind == FoundKind::File
            && found.access == ReadAccess::Free
            && pattern.is_none_or(|pattern| pattern.fits(&found.path))
    }) {
        if cancel.is_cancelled() {
            return None;
        }
        let file = directory.below(&path);
        // By its other names too.
        if matches!(workspace.read_access(&file), ReadAccess::Ignored | ReadAccess::Secret) {
            continue;
        }
        let buffer = match open.contains(file.absolute()) {
            true => workspace.documents().at(file.absolute()),
            false => None,
        };
        let bytes = match buffer {
            Some(document) => document.text.as_bytes().to_vec(),
            None => match read_disk(&file, EDIT_LIMIT) {
                Ok(bytes) => bytes,
                // What is too large or no file is never searched, and what is gone has no matches.
                Err(error) => {
                    results.unread += usize::from(matches!(error, ReadError::Io { .. }));
                    continue;
                }
            },
        };
        let mut bytes = without_carriage_returns(bytes);
        if !is_found(&mut searcher, matcher, &bytes) {
            continue;
        }
        // What is masked isn't found either: else a search could spell it out.
        if let Some(masked) = mask.masked(&String::from_utf8_lossy(&bytes)) {
            bytes = masked.into_bytes();
            results.masked += 1;
        }
        let mut lines = FileLines { results: &mut results, path: file.display(), begun: false };
        let searched = searcher.search_slice(matcher, &bytes, &mut lines);
        let begun = lines.begun;
        if begun {
            results.text.push_str("----\n");
        }
        // The sink never fails, and a slice is read without I/O.
        if searched.is_err() || results.more {
            break;
        }
    }
    Some(results)
}

/// Whether anything matches at all.
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
fn without_carriage_returns(bytes: Vec<u8>) -> Vec<u8> {
    if !bytes.contains(&b'\r') {
        return bytes;
    }
    let next = bytes.iter().skip(1).copied().map(Some).chain([None]);
    let kept = bytes.iter().zip(next).filter(|&(&byte, next)| !(byte == b'\r' && next == Some(b'\n')));
    kept.map(|(&byte, _)| byte).collect()
}

#[derive(Default)]
struct Results {
    text: String,
    count: usize,
    /// Whether there are more than are shown.
    more: bool,
    /// How many files could not be read.
    unread: usize,
    /// How many had something that looks like a secret.
    masked: usize,
}

impl Results {
    fn into_text(self) -> String {
        let unread = match self.unread {
            0 => String::new(),
            1 => "\n(1 file could not be read, so it was not searched.)".to_owned(),
            count => format!("\n({count} files could not be read, so they were not searched.)"),
        };
        let masked = match self.masked {
            0 => "",
            _ => {
                "\n(What looks like a secret is not searched and shown as [masked: …]. Don't write a mask into a file.)"
            }
        };
        self.into_found() + masked + &unread
    }

    fn into_found(self) -> String {
        match (self.count, self.more) {
            (0, _) => "No results found.".to_owned(),
            (count, true) => {
                format!("Showing first {count} of {count}+ results. Use a narrower search.\n\n{}", self.text)
            }
            (1, false) => format!("Found 1 result.\n\n{}", self.text),
            (count, false) => format!("Found {count} results.\n\n{}", self.text),
        }
    }
}

/// Receives the lines of one file.
struct FileLines<'a> {
    results: &'a mut Results,
    path: String,
    begun: bool,
}

impl FileLines<'_> {
    fn push(&mut self, number: Option<u64>, line: &[u8]) {
        if !self.begun {
            self.begun = true;
            self.results.text.push_str(&format!("# {}\n", self.path));
        }
        let line = String::from_utf8_lossy(line);
        let line = line.trim_end_matches(['\n', '\r']);
        let number = number.unwrap_or_default();
        self.results.text.push_str(&format!("{number:>3} | {}\n", cut(line, LINE_CHARACTERS)));
    }
}

impl Sink for FileLines<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        if self.results.count == RESULTS || self.results.text.len() > RESULT_BYTES {
            self.results.more = true;
            return Ok(false);
        }
        self.results.count += 1;
        self.push(found.line_number(), found.bytes());
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> io::Result<bool> {
        self.push(context.line_number(), context.bytes());
        Ok(true)
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        self.results.text.push_str("----\n");
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::tools::fixture::Fixture;
    use roo_workspace::Purpose;

    async fn search_in(fixture: &Fixture, directory: &str, regex: &str, pattern: Option<&str>) -> Outcome {
        let directory = fixture.context.workspace.resolve(directory, Purpose::List).unwrap();
        run(directory, regex.to_owned(), pattern.map(str::to_owned), &fixture.context).await
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
    }

    #[tokio::test]
    async fn secrets_are_neither_shown_nor_found() {
        let token = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9".repeat(2));
        let fixture = Fixture::new(&[("a.ini", &*format!("a=1\nt={token} x\n"))]);
        let text = found(&fixture, "t=").await;
        assert!(text.contains("  2 | t=[masked: ") && text.contains("Don't write a mask"), "{text}");
        assert!(!text.contains(&token), "{text}");
        assert!(found(&fixture, "ghp_a1B").await.starts_with("No results found."));
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
    async fn a_cancelled_search_is_interrupted() {
        let fixture = Fixture::new(&[("a.txt", "x")]);
        fixture.context.cancel.cancel();
        assert_eq!(search_in(&fixture, ".", "x", None).await.status, ToolStatus::Interrupted);
    }
}
