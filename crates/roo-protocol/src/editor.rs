//! The types of `roo/editor/*`: what a client says of its editor without being asked, for agents to know.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::task::{Position, Range};

/// `roo/editor/didChange`: where the user's attention is. Replaces what was said before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EditorDidChangeParams {
    /// The file that has the focus; none when no file has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<ActiveEditor>,
}

/// The file that has the focus.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ActiveEditor {
    /// A `file:` URI.
    pub uri: String,
    /// Position of the cursor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Position>,
    /// Visible lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visible: Option<Range>,
}

/// `roo/editor/diagnostics`: what other language servers and tools find wrong in a file. Replaces what was
/// said of that file before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EditorDiagnosticsParams {
    /// A `file:` URI.
    pub uri: String,
    /// All of it; empty when nothing is wrong any more.
    pub diagnostics: Vec<EditorDiagnostic>,
}

/// Something wrong in a file: the part of LSP's `Diagnostic` that is of use here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EditorDiagnostic {
    /// Range.
    pub range: Range,
    /// Severity; an error when left out.
    #[serde(default)]
    pub severity: Severity,
    /// Program that reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Message.
    pub message: String,
}

/// Severity of a diagnostic, worst first. LSP's `DiagnosticSeverity`: a number on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub enum Severity {
    /// It is wrong.
    #[default]
    Error = 1,
    /// It may be wrong.
    Warning = 2,
    /// Worth knowing.
    Information = 3,
    /// Could be better.
    Hint = 4,
}

impl TryFrom<u8> for Severity {
    type Error = String;

    fn try_from(number: u8) -> Result<Self, String> {
        let all = [Self::Error, Self::Warning, Self::Information, Self::Hint];
        let found = all.into_iter().find(|severity| u8::from(*severity) == number);
        found.ok_or_else(|| {
            format!("a severity is 1 (error), 2 (warning), 3 (information) or 4 (hint), not {number}")
        })
    }
}

impl From<Severity> for u8 {
    fn from(severity: Severity) -> Self {
        severity as Self
    }
}

impl JsonSchema for Severity {
    fn schema_name() -> Cow<'static, str> {
        "DiagnosticSeverity".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "integer",
            "enum": [1, 2, 3, 4],
            "description": "How bad a diagnostic is: 1 error, 2 warning, 3 information, 4 hint."
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_severity_is_the_number_that_editors_know() {
        for (number, severity) in
            [(1, Severity::Error), (2, Severity::Warning), (3, Severity::Information), (4, Severity::Hint)]
        {
            assert_eq!(serde_json::from_value::<Severity>(json!(number)).unwrap(), severity);
            assert_eq!(json!(severity), json!(number));
        }
        let error = serde_json::from_value::<Severity>(json!(5)).unwrap_err().to_string();
        assert!(error.ends_with("4 (hint), not 5"), "{error}");
    }
}
