//! Problems that a server reports in a document, and reports that it sends unasked.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use roo_protocol::editor::Severity;
use roo_text::position::{Encoding, Position, Positions};
use roo_text::render::one_line;
use roo_workspace::path_of;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::workspace_edit::position;

/// The most problems of a document.
const PROBLEMS: usize = 200;

/// The longest message, in characters.
const MESSAGE: usize = 500;

/// A problem in a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    pub severity: Severity,
    /// Message on one line, with the code that the server gives it.
    pub message: String,
}

/// Reads the first problems of a document, in the order of the text, and whether there are more.
pub(crate) fn problems(reported: &[Value], text: &str, encoding: Encoding) -> (Vec<Problem>, bool) {
    let positions = Positions::new(text, encoding);
    let problem = |value: &Value| {
        let start = position(&value["range"]["start"])?;
        let line = positions.offset(Position { character: 0, ..start });
        let before = text.get(line..positions.offset(start)).unwrap_or_default();
        let severity = value["severity"].as_u64().and_then(|number| u8::try_from(number).ok());
        let code = match &value["code"] {
            Value::String(code) => format!(" ({})", one_line(code, MESSAGE)),
            Value::Number(code) => format!(" ({code})"),
            _ => String::new(),
        };
        Some(Problem {
            line: usize::try_from(start.line).ok()?.saturating_add(1),
            column: before.chars().count() + 1,
            severity: severity.and_then(|number| Severity::try_from(number).ok()).unwrap_or_default(),
            message: format!("{}{code}", one_line(value["message"].as_str()?, MESSAGE)),
        })
    };
    let mut all = reported.iter().filter_map(problem);
    let mut found: Vec<Problem> = all.by_ref().take(PROBLEMS).collect();
    let is_cut = all.next().is_some();
    found.sort_by_key(|problem| (problem.line, problem.column));
    (found, is_cut)
}

/// Newest reports that a server has sent unasked of the open documents. They are known by their paths, as servers write URIs in
/// their own ways.
pub(crate) struct Reports {
    /// None for a document of which nothing has come yet.
    newest: Mutex<HashMap<PathBuf, Option<Report>>>,
    /// Number of reports of open documents so far.
    count: watch::Sender<u64>,
}

/// A report about a document.
#[derive(Clone)]
pub(crate) struct Report {
    /// Its number among all reports of the server.
    pub(crate) number: u64,
    /// Version of the document, where the server tells it.
    pub(crate) version: Option<i64>,
    /// Problems as they were sent.
    pub(crate) problems: Vec<Value>,
    /// Time when it came.
    pub(crate) time: Instant,
}

impl Default for Reports {
    fn default() -> Self {
        Self { newest: Mutex::default(), count: watch::Sender::new(0) }
    }
}

impl Reports {
    /// Takes the parameters of `textDocument/publishDiagnostics`.
    pub(crate) fn take(&self, mut params: Value) {
        let Some(path) = params["uri"].as_str().and_then(path_of) else { return };
        let problems = match params["diagnostics"].take() {
            // One more tells that there are more.
            Value::Array(problems) => problems.into_iter().take(PROBLEMS + 1).collect(),
            _ => vec![],
        };
        let number = self.count() + 1;
        let report = Report { number, version: params["version"].as_i64(), problems, time: Instant::now() };
        {
            let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(kept) = newest.get_mut(&path) else { return };
            *kept = Some(report);
        }
        self.count.send_replace(number);
    }

    /// Keeps the reports of these documents from now on, and of no others.
    pub(crate) fn keep(&self, open: HashSet<PathBuf>) {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        newest.retain(|path, _| open.contains(path));
        for path in open {
            newest.entry(path).or_default();
        }
    }

    /// Returns the number of reports so far.
    pub(crate) fn count(&self) -> u64 {
        *self.count.borrow()
    }

    /// Tells of each report.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.count.subscribe()
    }

    pub(crate) fn of(&self, path: &Path) -> Option<Report> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner).get(path).cloned().flatten()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn problems_have_lines_and_columns_of_the_text() {
        let at = |line: u64, character: u64| json!({ "start": { "line": line, "character": character } });
        let reported = [
            json!({ "range": at(1, 3), "severity": 2, "code": "W1", "message": "unused\nname" }),
            json!({ "range": at(0, 0), "code": 7, "message": "wrong" }),
            json!({ "range": at(9, 9), "severity": 99, "message": "beyond" }),
            json!({ "range": {}, "message": "nowhere" }),
            json!({ "range": at(0, 0) }),
        ];
        let (found, is_cut) = problems(&reported, "a\n𝒳 b", Encoding::Utf16);
        assert!(!is_cut);
        let shown: Vec<String> = found
            .iter()
            .map(|it| format!("{}:{} {:?} {}", it.line, it.column, it.severity, it.message))
            .collect();
        assert_eq!(shown, ["1:1 Error wrong (7)", "2:3 Warning unused ⏎ name (W1)", "10:1 Error beyond"]);
    }

    #[test]
    fn a_long_list_is_cut_and_says_so() {
        let reports = Reports::default();
        let path = Path::new("/w/a.rs");
        reports.keep([path.to_owned()].into());
        let read = |count: usize| {
            let problem = json!({ "range": { "start": { "line": 0, "character": 0 } }, "message": "wrong" });
            reports.take(json!({ "uri": "file:///w/a.rs", "diagnostics": vec![problem; count] }));
            let (found, is_cut) = problems(&reports.of(path).unwrap().problems, "a", Encoding::Utf16);
            (found.len(), is_cut)
        };
        assert_eq!((read(PROBLEMS), read(2 * PROBLEMS)), ((PROBLEMS, false), (PROBLEMS, true)));
    }

    #[test]
    fn reports_of_open_documents_are_kept_however_their_uris_are_written() {
        let reports = Reports::default();
        let open = |paths: &[&str]| reports.keep(paths.iter().map(PathBuf::from).collect());
        let report = |uri: &str, message: &str| {
            reports.take(json!({ "uri": uri, "diagnostics": [{ "message": message }] }));
        };
        let message = |path: &str| Some(reports.of(Path::new(path))?.problems[0]["message"].clone());
        open(&["/w/b c.rs", "/w/d.rs"]);
        assert_eq!(message("/w/b c.rs"), None);
        report("file:///w/b%20c.rs", "one");
        report("file:///w/other.rs", "of a closed document");
        report("untitled:x", "of no file");
        assert_eq!(
            (message("/w/b c.rs"), message("/w/other.rs"), reports.count()),
            (Some(json!("one")), None, 1)
        );
        report("file://localhost/w/b c.rs", "two");
        open(&["/w/b c.rs"]);
        assert_eq!((message("/w/b c.rs"), reports.count()), (Some(json!("two")), 2));
        open(&[]);
        open(&["/w/b c.rs"]);
        assert_eq!(message("/w/b c.rs"), None, "it was closed in between");
    }
}
