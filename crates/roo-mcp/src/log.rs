//! Log of a server: the newest of its standard error and of its log messages.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum number of lines of one server.
const LINES: usize = 500;
/// Maximum length of a line, in characters.
const LINE_LENGTH: usize = 1000;

/// The newest lines of one server. Clones are the same log.
#[derive(Clone, Debug, Default)]
pub struct ServerLog {
    lines: Arc<Mutex<VecDeque<LogLine>>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// Source of the line.
    pub source: LogSource,
    /// The line, cut where it is long.
    pub text: String,
}

/// Source of a line of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogSource {
    /// Standard error of its program.
    Stderr,
    /// A log message of the protocol.
    Message,
    /// The hub itself.
    Hub,
}

impl ServerLog {
    /// The lines that are kept, the oldest first.
    pub fn lines(&self) -> Vec<LogLine> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// The last line that the server's program wrote.
    pub(crate) fn last_stderr(&self) -> Option<String> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let mut written = lines.iter().rev().filter(|line| line.source == LogSource::Stderr);
        written.find(|line| !line.text.trim().is_empty()).map(|line| line.text.clone())
    }

    pub(crate) fn add(&self, source: LogSource, text: &str) {
        let text = match text.char_indices().nth(LINE_LENGTH) {
            Some((end, _)) => format!("{}… [cut]", text.get(..end).unwrap_or_default()),
            None => text.to_owned(),
        };
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == LINES {
            lines.pop_front();
        }
        lines.push_back(LogLine { source, text });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_lines_are_kept_and_long_ones_cut() {
        let log = ServerLog::default();
        log.add(LogSource::Stderr, "first");
        for n in 0..LINES {
            log.add(LogSource::Message, &format!("{n}"));
        }
        log.add(LogSource::Stderr, &"é".repeat(5000));
        let lines = log.lines();
        assert_eq!((lines.len(), lines[0].text.as_str()), (LINES, "1"));
        assert_eq!(lines.last().unwrap().text.chars().count(), LINE_LENGTH + "… [cut]".chars().count());
        assert!(log.last_stderr().unwrap().starts_with('é'));
    }
}
