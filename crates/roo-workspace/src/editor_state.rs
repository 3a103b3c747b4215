//! Reports that an editor sends unasked: the active file and diagnostics; and, from the open documents, which files its
//! user has changed.
//!
//! The newest report of each kind is kept, within bounds. Files that are hidden from agents are left out when reports
//! are read, as the rules may change in between.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::editor::EditorId;
use super::resolver::{Purpose, Resolved, real_path};
use super::uri::path_of;
use super::{ReadAccess, Workspace};
use roo_protocol::editor::{ActiveEditor, EditorDiagnostic, Severity};
use roo_protocol::ids::Digest;
use roo_protocol::task::{Position, Range};
use roo_text::lines::LineRange;
use roo_text::position::{Encoding, Positions};
use roo_text::render::cut;

/// The most files with diagnostics; of more, those that were reported longest ago are forgotten.
const FILES: usize = 500;
/// The most diagnostics of one file, worst first.
const PER_FILE: usize = 100;
/// The longest text of a diagnostic, in characters.
const MESSAGE: usize = 500;
/// The longest name of what reports a diagnostic, in characters.
const SOURCE: usize = 60;
/// The most changed files.
const CHANGED: usize = 20;
/// The most files that aren't open and are compared with what a task has seen, since that is done before every request.
const CLOSED: usize = 500;

/// The active file of the editor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActiveFile {
    /// As [`Resolved::display`].
    pub path: String,
    /// The line of the cursor, from 1.
    pub cursor: Option<usize>,
    /// The lines that can be seen.
    pub visible: Option<LineRange>,
}

/// A diagnostic of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The file, as [`Resolved::display`].
    pub path: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    pub severity: Severity,
    /// Program that reported it.
    pub source: Option<String>,
    pub message: String,
}

/// The last report of an editor about a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileReport {
    /// Its number among all reports, from 1.
    pub number: u64,
    /// Diagnostics, the worst first.
    pub diagnostics: Vec<Diagnostic>,
    /// True if the editor has reported more.
    pub is_cut: bool,
}

/// Problems in a file, counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileProblems {
    /// The file, as [`Resolved::display`].
    pub path: String,
    pub errors: usize,
    pub warnings: usize,
}

/// Last report of an editor.
#[derive(Default)]
pub(super) struct EditorState {
    said: Mutex<EditorReports>,
}

#[derive(Default)]
struct EditorReports {
    active: Option<ActiveLocation>,
    /// By real path.
    reports: HashMap<PathBuf, DiagnosticsReport>,
    /// Numbers of the last reports of files without problems, and who reported.
    clean: HashMap<PathBuf, (u64, EditorId)>,
    /// Number of reports; 0 before the first one.
    reported: u64,
}

#[derive(Clone)]
struct ActiveLocation {
    path: PathBuf,
    cursor: Option<usize>,
    visible: Option<LineRange>,
}

/// The diagnostics of one file, as an editor reported them last.
#[derive(Clone)]
pub(super) struct DiagnosticsReport {
    /// Number of the report.
    number: u64,
    /// The editor that reported.
    editor: EditorId,
    errors: usize,
    warnings: usize,
    /// The worst first, without their path.
    found: Vec<FoundDiagnostic>,
    /// True if there were more.
    is_cut: bool,
}

#[derive(Clone)]
struct FoundDiagnostic {
    severity: Severity,
    line: usize,
    column: usize,
    source: Option<String>,
    message: String,
}

impl EditorState {
    fn lock(&self) -> MutexGuard<'_, EditorReports> {
        // Every change under the lock is complete or not begun.
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn active(&self) -> Option<ActiveLocation> {
        self.lock().active.clone()
    }

    /// Everything that was reported, the files with most errors first; none when nothing ever was.
    fn reports(&self) -> Option<Vec<(PathBuf, DiagnosticsReport)>> {
        let mut reports: Vec<(PathBuf, DiagnosticsReport)> = {
            let said = self.lock();
            if said.reports.is_empty() && said.clean.is_empty() {
                return None;
            }
            said.reports.iter().map(|(path, report)| (path.clone(), report.clone())).collect()
        };
        reports.sort_by(|(one_path, one), (other_path, other)| {
            let worst = |report: &DiagnosticsReport| Reverse((report.errors, report.warnings));
            worst(one).cmp(&worst(other)).then_with(|| one_path.cmp(other_path))
        });
        Some(reports)
    }
}

impl EditorState {
    /// Takes over what another editor has reported. Returns whether it has an active file.
    pub(super) fn adopt(&self, other: &Self, editor: EditorId) -> bool {
        let (active, reports, clean) = {
            let other = other.lock();
            let clean: Vec<PathBuf> = other.clean.keys().cloned().collect();
            (other.active.clone(), other.reports.clone(), clean)
        };
        let mut said = self.lock();
        for path in clean {
            said.report(path, None, editor);
        }
        for (path, report) in reports {
            said.report(path, Some(report), editor);
        }
        let is_active = active.is_some();
        if is_active {
            said.active = active;
        }
        is_active
    }

    /// Drops what an editor has reported of files, and returns which ones these were.
    pub(super) fn forget(&self, editor: EditorId) -> Vec<PathBuf> {
        let mut said = self.lock();
        let reports = said.reports.extract_if(|_, report| report.editor == editor).map(|(path, _)| path);
        let mut forgotten: Vec<PathBuf> = reports.collect();
        let clean = said.clean.extract_if(|_, (_, reporter)| *reporter == editor).map(|(path, _)| path);
        forgotten.extend(clean);
        forgotten
    }

    /// Takes over what another editor has reported of these files.
    pub(super) fn restore(&self, other: &Self, editor: EditorId, paths: &[PathBuf]) {
        let reports: Vec<(PathBuf, Option<DiagnosticsReport>)> = {
            let other = other.lock();
            let known = paths
                .iter()
                .filter(|path| other.reports.contains_key(*path) || other.clean.contains_key(*path));
            known.map(|path| (path.clone(), other.reports.get(path).cloned())).collect()
        };
        let mut said = self.lock();
        for (path, report) in reports {
            said.report(path, report, editor);
        }
    }

    /// See [`super::Documents::set_active`].
    pub(super) fn set_active(&self, active: Option<ActiveEditor>) {
        let active = active.and_then(|active| {
            Some(ActiveLocation {
                path: real_path(&path_of(&active.uri)?),
                cursor: active.cursor.map(|cursor| from_one(cursor.line)),
                visible: active.visible.map(lines),
            })
        });
        self.lock().active = active;
    }

    /// Replaces the diagnostics of the file at a real path.
    pub(super) fn set_diagnostics(&self, path: PathBuf, report: DiagnosticsReport, editor: EditorId) {
        self.lock().report(path, (!report.found.is_empty()).then_some(report), editor);
    }
}

impl DiagnosticsReport {
    /// A report of these. Positions are those in `text`, the file's if it is open.
    pub(super) fn new(
        mut diagnostics: Vec<EditorDiagnostic>,
        text: Option<&str>,
        encoding: Encoding,
    ) -> Self {
        let count = |severity| diagnostics.iter().filter(|found| found.severity == severity).count();
        let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
        diagnostics.sort_by_key(|found| (found.severity, found.range.start));
        let is_cut = diagnostics.len() > PER_FILE;
        diagnostics.truncate(PER_FILE);
        let positions = text.map(|text| (text, Positions::new(text, encoding)));
        let found: Vec<FoundDiagnostic> =
            diagnostics.into_iter().map(|diagnostic| found(diagnostic, positions.as_ref())).collect();
        Self { number: 0, editor: EditorId::default(), errors, warnings, found, is_cut }
    }
}

impl EditorReports {
    /// Takes the newest report about a file; none says that it has no problems.
    fn report(&mut self, path: PathBuf, report: Option<DiagnosticsReport>, editor: EditorId) {
        self.reported += 1;
        let number = self.reported;
        let Some(report) = report else {
            self.reports.remove(&path);
            if self.clean.len() >= FILES {
                self.clean.clear();
            }
            self.clean.insert(path, (number, editor));
            return;
        };
        self.clean.remove(&path);
        self.reports.insert(path, DiagnosticsReport { number, editor, ..report });
        if self.reports.len() > FILES {
            let oldest = self.reports.iter().min_by_key(|(_, report)| report.number);
            if let Some(oldest) = oldest.map(|(path, _)| path.clone()) {
                self.reports.remove(&oldest);
            }
        }
    }
}

fn found(diagnostic: EditorDiagnostic, positions: Option<&(&str, Positions<'_>)>) -> FoundDiagnostic {
    let start = diagnostic.range.start;
    let before = positions.map(|(text, positions)| {
        let line = positions.offset(Position { character: 0, ..start });
        text.get(line..positions.offset(start)).unwrap_or_default().chars().count()
    });
    FoundDiagnostic {
        severity: diagnostic.severity,
        line: from_one(start.line),
        column: before.map_or_else(|| from_one(start.character), |before| before + 1),
        source: diagnostic.source.map(|source| cut(&source, SOURCE).into_owned()),
        message: cut(&diagnostic.message, MESSAGE).into_owned(),
    }
}

fn from_one(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX).saturating_add(1)
}

/// The lines of a range; one that ends at the beginning of a line does not reach into it.
fn lines(range: Range) -> LineRange {
    let last = if range.end.character == 0 { range.end.line.saturating_sub(1) } else { range.end.line };
    LineRange { start: from_one(range.start.line), end: from_one(last.max(range.start.line)) }
}

impl Workspace {
    /// The file that has the user's attention, unless `.rooignore` hides it. Looks at the disk.
    pub fn active_file(&self) -> Option<ActiveFile> {
        let ActiveLocation { path, cursor, visible } = self.documents.editor_state().active()?;
        let place = self.place(&path).filter(|place| self.read_access(place) != ReadAccess::Ignored)?;
        Some(ActiveFile { path: place.display(), cursor, visible })
    }

    /// Returns the diagnostics of the files of the workspace that agents may read without asking, file by file, worst
    /// first; none when no editor has reported anything yet. At most 500 files with 100 diagnostics each. Looks at the
    /// disk.
    pub fn diagnostics(&self) -> Option<Vec<Diagnostic>> {
        let reports = self.documents.editor_state().reports()?;
        let readable = reports.into_iter().filter_map(|(path, report)| Some((self.readable(&path)?, report)));
        let diagnostics = readable.flat_map(|(path, report)| {
            report.found.into_iter().map(move |found| {
                let FoundDiagnostic { severity, line, column, source, message } = found;
                Diagnostic { path: path.clone(), line, column, severity, source, message }
            })
        });
        Some(diagnostics.collect())
    }

    /// Returns the last report about a file that an editor has open; none where no editor has ever reported about it.
    pub fn report_of(&self, place: &Resolved) -> Option<FileReport> {
        self.documents.at(place.absolute())?;
        let said = self.documents.editor_state().lock();
        let Some(report) = said.reports.get(place.absolute()) else {
            let (number, _) = *said.clean.get(place.absolute())?;
            return Some(FileReport { number, diagnostics: vec![], is_cut: false });
        };
        let path = place.display();
        let found = report.found.iter().cloned().map(|found| {
            let FoundDiagnostic { severity, line, column, source, message } = found;
            Diagnostic { path: path.clone(), line, column, severity, source, message }
        });
        let (number, is_cut) = (report.number, report.is_cut);
        Some(FileReport { number, diagnostics: found.collect(), is_cut })
    }

    /// The files of [`Self::diagnostics`] with errors or warnings, counted, worst first. Looks at the disk.
    pub fn problems(&self) -> Vec<FileProblems> {
        let reports = self.documents.editor_state().reports().unwrap_or_default();
        let bad = reports.into_iter().filter(|(_, report)| report.errors + report.warnings > 0);
        bad.filter_map(|(path, DiagnosticsReport { errors, warnings, .. })| {
            Some(FileProblems { path: self.readable(&path)?, errors, warnings })
        })
        .collect()
    }

    /// The files whose text is no longer what a task has seen, by [`Resolved::display`], sorted; at most 20. Of files that
    /// aren't open, the first 500 are looked at on disk. A file that is gone is not named.
    pub fn changed_since(&self, seen: &BTreeMap<String, Digest>) -> Vec<String> {
        let open: HashMap<String, PathBuf> = (self.documents.with_files().into_iter())
            .map(|(path, _)| (self.roots.name(&path), path))
            .collect();
        let is_as_seen = |path: &Path, digest: Digest| {
            let Some(document) = self.documents.at(path) else { return true };
            let text = document.text;
            // A byte order mark is part of what is seen on disk, and of no buffer.
            Digest::of(&*text) == digest || Digest::of(format!("\u{feff}{text}")) == digest
        };
        let closed = seen.iter().filter(|(name, _)| !open.contains_key(*name)).take(CLOSED);
        let on_disk = closed
            .filter(|(name, digest)| self.disk_digests.differs(self, name, **digest))
            .map(|(name, _)| name.clone());
        let in_buffers = open
            .iter()
            .filter(|(name, path)| seen.get(*name).is_some_and(|digest| !is_as_seen(path, *digest)))
            .map(|(name, _)| name.clone());
        let mut changed: Vec<String> = on_disk.chain(in_buffers).collect();
        changed.sort();
        changed.truncate(CHANGED);
        changed
    }

    fn place(&self, path: &Path) -> Option<Resolved> {
        self.resolve(path.to_str()?, Purpose::Read).ok()
    }

    /// The name of a file that agents may read without asking.
    fn readable(&self, path: &Path) -> Option<String> {
        let place = self.place(path)?;
        (self.read_access(&place) == ReadAccess::Free).then(|| place.display())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use roo_protocol::editor::EditorDiagnosticsParams;

    use super::super::{Change, Setup, file_uri};
    use super::*;

    struct Fixture {
        directory: tempfile::TempDir,
        workspace: Workspace,
    }

    impl Fixture {
        /// A workspace `w` with these files.
        fn new(files: &[(&str, &str)]) -> Self {
            let directory = tempfile::tempdir().unwrap();
            for (name, text) in files {
                let path = directory.path().join("w").join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            let workspace = Workspace::open(Setup {
                folders: vec![directory.path().join("w")],
                state_directory: directory.path().join("state"),
                documents: Arc::default(),
                editor: None,
                encoding: Encoding::Utf16,
            });
            Self { directory, workspace: workspace.unwrap() }
        }

        fn uri(&self, name: &str) -> String {
            file_uri(&self.directory.path().join("w").join(name))
        }

        fn attend(&self, name: &str, cursor: Option<Position>, visible: Option<Range>) {
            let uri = self.uri(name);
            self.workspace.documents().set_active(Some(ActiveEditor { uri, cursor, visible }));
        }

        fn report(&self, name: &str, diagnostics: Vec<EditorDiagnostic>) {
            let params = EditorDiagnosticsParams { uri: self.uri(name), diagnostics };
            self.workspace.documents().set_diagnostics(params, Encoding::Utf16);
        }

        /// As `path:line:column message`.
        fn diagnostics(&self) -> Vec<String> {
            let line = |found: Diagnostic| {
                format!("{}:{}:{} {}", found.path, found.line, found.column, found.message)
            };
            self.workspace.diagnostics().unwrap().into_iter().map(line).collect()
        }
    }

    fn at(line: u32, character: u32) -> Position {
        Position { line, character }
    }

    fn wrong(severity: Severity, start: Position, message: &str) -> EditorDiagnostic {
        let range = Range { start, end: start };
        EditorDiagnostic { range, severity, source: Some("rustc".into()), message: message.into() }
    }

    #[test]
    fn the_active_file_is_the_one_that_was_named_last() {
        let fixture = Fixture::new(&[("src/a.rs", ""), ("b.rs", "")]);
        assert_eq!(fixture.workspace.active_file(), None);
        fixture.attend("b.rs", None, None);
        fixture.attend("src/a.rs", Some(at(4, 2)), Some(Range { start: at(0, 0), end: at(40, 0) }));
        let expected = ActiveFile {
            path: "src/a.rs".into(),
            cursor: Some(5),
            visible: Some(LineRange { start: 1, end: 40 }),
        };
        assert_eq!(fixture.workspace.active_file(), Some(expected));
        fixture.workspace.documents().set_active(None);
        assert_eq!(fixture.workspace.active_file(), None);
    }

    #[test]
    fn what_is_no_file_or_is_hidden_is_no_active_file() {
        let fixture = Fixture::new(&[(".rooignore", "secret.rs\n"), ("secret.rs", "")]);
        fixture.attend("secret.rs", None, None);
        assert_eq!(fixture.workspace.active_file(), None);
        let uri = "untitled:Untitled-1".to_owned();
        fixture.workspace.documents().set_active(Some(ActiveEditor { uri, cursor: None, visible: None }));
        assert_eq!(fixture.workspace.active_file(), None);
    }

    #[test]
    fn a_range_that_ends_before_it_begins_is_one_line() {
        assert_eq!(lines(Range { start: at(7, 0), end: at(2, 0) }), LineRange { start: 8, end: 8 });
        let last = at(u32::MAX, u32::MAX);
        assert_eq!(lines(Range { start: last, end: last }).start, from_one(u32::MAX));
    }

    #[test]
    fn diagnostics_come_worst_first_and_go_when_they_are_fixed() {
        let fixture = Fixture::new(&[("a.rs", ""), ("b.rs", "")]);
        assert_eq!(fixture.workspace.diagnostics(), None, "nobody reports");
        fixture.report("a.rs", vec![wrong(Severity::Hint, at(0, 0), "shorter")]);
        let warning = wrong(Severity::Warning, at(1, 0), "unused");
        fixture.report("b.rs", vec![warning, wrong(Severity::Error, at(9, 4), "mismatched")]);
        assert_eq!(fixture.diagnostics(), ["b.rs:10:5 mismatched", "b.rs:2:1 unused", "a.rs:1:1 shorter"]);
        let counted = FileProblems { path: "b.rs".into(), errors: 1, warnings: 1 };
        assert_eq!(fixture.workspace.problems(), [counted]);
        fixture.report("a.rs", vec![]);
        fixture.report("b.rs", vec![]);
        assert_eq!(fixture.workspace.diagnostics(), Some(vec![]), "nothing is wrong");
    }

    #[test]
    fn a_column_counts_characters_where_the_text_is_known() {
        let fixture = Fixture::new(&[("a.rs", "")]);
        let place = || vec![wrong(Severity::Error, at(1, 4), "here")];
        fixture.report("a.rs", place());
        assert_eq!(fixture.diagnostics(), ["a.rs:2:5 here"]);
        fixture.workspace.documents().open(&fixture.uri("a.rs"), 1, "one\n🦀🦀x\n");
        fixture.report("a.rs", place());
        assert_eq!(fixture.diagnostics(), ["a.rs:2:3 here"]);
        fixture.report("a.rs", vec![wrong(Severity::Error, at(70, 9), "behind the end")]);
        assert_eq!(fixture.diagnostics(), ["a.rs:71:1 behind the end"]);
    }

    #[test]
    fn what_agents_may_not_read_has_no_diagnostics() {
        let fixture = Fixture::new(&[(".rooignore", "private.rs\n"), ("private.rs", ""), (".env", "")]);
        for name in ["private.rs", ".env", "../outside.rs", "a.rs"] {
            fixture.report(name, vec![wrong(Severity::Error, at(0, 0), "hunter2")]);
        }
        assert_eq!(fixture.diagnostics(), ["a.rs:1:1 hunter2"], "not on disk yet");
        assert_eq!(fixture.workspace.problems().len(), 1);
    }

    #[test]
    fn reports_are_bounded() {
        let fixture = Fixture::new(&[("a.rs", "")]);
        let many = (0..300).map(|line| wrong(Severity::Warning, at(line, 0), &"é".repeat(1000)));
        fixture.report("a.rs", many.chain([wrong(Severity::Error, at(999, 0), "last")]).collect());
        let found = fixture.workspace.diagnostics().unwrap();
        assert_eq!((found.len(), found[0].message.as_str()), (PER_FILE, "last"));
        assert_eq!(found[1].message.chars().count(), MESSAGE);
        let counted = FileProblems { path: "a.rs".into(), errors: 1, warnings: 300 };
        assert_eq!(fixture.workspace.problems(), [counted]);

        for number in 0..FILES {
            fixture.report(&format!("{number}.rs"), vec![wrong(Severity::Hint, at(0, 0), "x")]);
        }
        let found = fixture.workspace.diagnostics().unwrap();
        assert_eq!(found.len(), FILES);
        assert!(found.iter().all(|found| found.path != "a.rs"), "the oldest report is forgotten");
    }

    #[test]
    fn a_file_that_its_user_changed_has_changed_since() {
        let fixture = Fixture::new(&[("a.txt", "one\n"), ("b.txt", "two\n")]);
        let documents = fixture.workspace.documents();
        let mut seen = BTreeMap::from([
            ("a.txt".to_owned(), Digest::of("one\n")),
            ("b.txt".to_owned(), Digest::of("two\n")),
        ]);
        documents.open(&fixture.uri("a.txt"), 1, "one\n");
        assert_eq!(fixture.workspace.changed_since(&seen), Vec::<String>::new());
        let typed = [Change { range: None, text: "one more\n".into() }];
        documents.change(&fixture.uri("a.txt"), 2, &typed, Encoding::Utf16).unwrap();
        assert_eq!(fixture.workspace.changed_since(&seen), ["a.txt"]);
        seen.insert("a.txt".to_owned(), Digest::of("one more\n"));
        assert_eq!(fixture.workspace.changed_since(&seen), Vec::<String>::new(), "it was read again");
        assert_eq!(fixture.workspace.changed_since(&BTreeMap::new()), Vec::<String>::new());
    }

    #[test]
    fn a_file_that_is_not_open_has_changed_on_disk() {
        let fixture = Fixture::new(&[("a.txt", "one\n"), ("b.txt", "two\n"), ("c.txt", "three\n")]);
        let seen = BTreeMap::from([
            ("a.txt".to_owned(), Digest::of("one\n")),
            ("b.txt".to_owned(), Digest::of("two\n")),
            ("c.txt".to_owned(), Digest::of("three\n")),
        ]);
        assert_eq!(fixture.workspace.changed_since(&seen), Vec::<String>::new());
        let folder = fixture.directory.path().join("w");
        // As long as before, and within the same second.
        fs::write(folder.join("b.txt"), "TWO\n").unwrap();
        fs::remove_file(folder.join("c.txt")).unwrap();
        assert_eq!(fixture.workspace.changed_since(&seen), ["b.txt"]);
        fs::write(folder.join("b.txt"), "two\n").unwrap();
        assert_eq!(fixture.workspace.changed_since(&seen), Vec::<String>::new(), "it is as it was");
    }

    #[test]
    fn a_byte_order_mark_is_no_change() {
        let fixture = Fixture::new(&[("a.txt", "\u{feff}one\n")]);
        fixture.workspace.documents().open(&fixture.uri("a.txt"), 1, "one\n");
        let seen = BTreeMap::from([("a.txt".to_owned(), Digest::of("\u{feff}one\n"))]);
        assert_eq!(fixture.workspace.changed_since(&seen), Vec::<String>::new());
    }

    #[test]
    fn at_most_twenty_changed_files_are_named() {
        let fixture = Fixture::new(&[("a.txt", "")]);
        let mut seen = BTreeMap::new();
        for number in 10..40 {
            let name = format!("{number}.txt");
            fixture.workspace.documents().open(&fixture.uri(&name), 1, "new");
            seen.insert(name, Digest::of("old"));
        }
        let changed = fixture.workspace.changed_since(&seen);
        assert_eq!((changed.len(), changed[0].as_str(), changed[19].as_str()), (20, "10.txt", "29.txt"));
    }
}
