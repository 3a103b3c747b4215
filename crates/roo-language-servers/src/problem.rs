//! Problems that a server reports in a document, and reports that it sends unasked.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use roo_protocol::editor::Severity;
use roo_text::position::{Encoding, Position, Positions};
use roo_text::render::one_line;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::workspace_edit::position;

/// The most problems of a document.
const PROBLEMS: usize = 200;

/// The longest message, in characters.
const MESSAGE: usize = 500;

/// The most documents whose newest report is kept. What is above is forgotten.
const DOCUMENTS: usize = 500;

/// A problem in a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Severity.
    pub severity: Severity,
    /// Message on one line, with the code that the server gives it.
    pub message: String,
}

/// Reads the problems of a document, in the order of the text.
pub(crate) fn problems(reported: &[Value], text: &str, encoding: Encoding) -> Vec<Problem> {
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
    let mut found: Vec<Problem> = reported.iter().filter_map(problem).take(PROBLEMS).collect();
    found.sort_by_key(|problem| (problem.line, problem.column));
    found
}

/// Newest reports that a server has sent unasked, by document.
pub(crate) struct Reports {
    newest: Mutex<HashMap<String, Report>>,
    /// Number of reports so far.
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
        let Some(uri) = params["uri"].as_str().map(str::to_owned) else { return };
        let problems = match params["diagnostics"].take() {
            Value::Array(problems) => problems.into_iter().take(PROBLEMS).collect(),
            _ => vec![],
        };
        let number = self.count() + 1;
        let report = Report { number, version: params["version"].as_i64(), problems, time: Instant::now() };
        {
            let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
            if newest.len() >= DOCUMENTS && !newest.contains_key(&uri) {
                newest.clear();
            }
            newest.insert(uri, report);
        }
        self.count.send_replace(number);
    }

    /// Returns the number of reports so far.
    pub(crate) fn count(&self) -> u64 {
        *self.count.borrow()
    }

    /// Tells of each report.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.count.subscribe()
    }

    pub(crate) fn of(&self, uri: &str) -> Option<Report> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner).get(uri).cloned()
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
        let found = problems(&reported, "a\n𝒳 b", Encoding::Utf16);
        let shown: Vec<String> = found
            .iter()
            .map(|it| format!("{}:{} {:?} {}", it.line, it.column, it.severity, it.message))
            .collect();
        assert_eq!(shown, ["1:1 Error wrong (7)", "2:3 Warning unused ⏎ name (W1)", "10:1 Error beyond"]);
    }
}
