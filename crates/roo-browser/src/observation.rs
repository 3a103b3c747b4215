//! What a step in a browser comes to.

use roo_catalog::ScreenSize;

/// The state of the page after a step. Secrets are masked in texts that are cut; in the others they are whole, for whoever
/// shows them to mask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observation {
    /// Address of the page.
    pub url: String,
    /// Title of the page.
    pub title: String,
    /// Size of what is visible.
    pub viewport: ScreenSize,
    /// Place of the mouse, if it was moved.
    pub mouse: Option<(u32, u32)>,
    /// A picture of what is visible, as a JPEG file in base64.
    pub screenshot: Option<String>,
    /// The elements of the page, one a line; none where the step is not about them.
    pub elements: Option<String>,
    /// What was logged since the step before.
    pub log: Vec<LogEntry>,
    /// Older entries that were left out.
    pub left_out: u64,
    /// True if the page was still loading when the time was over.
    pub is_loading: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    pub kind: LogKind,
    pub text: String,
    /// Times that it came in a row.
    pub times: u64,
}

/// Kinds of log entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogKind {
    /// What the page wrote to its console.
    Log,
    /// The same as a warning.
    Warning,
    /// The same as an error, and errors that it did not catch.
    Error,
    /// A request.
    Network,
    /// What the browser did not let the page do.
    Refused,
}

impl LogKind {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Network => "network",
            Self::Refused => "refused",
        }
    }
}
