//! Tool calls: what one is about, what it has printed so far, and how its end is marked.

use roo_catalog::ToolName;
use roo_protocol::event::ToolStatus;
use roo_protocol::ids::ToolCallId;
use roo_protocol::task::CallOutcome;

/// Number of lines of running output that are kept. Front ends show no more than these.
pub(crate) const OUTPUT_LINES: usize = 20;
/// Number of bytes of running output that are kept: a line may have no end.
const OUTPUT_BYTES: usize = 64 * 1024;

/// Tool and subject of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CallTarget {
    /// The tool's name, as the server says it.
    pub(crate) name: String,
    /// A path, a command, a title.
    pub(crate) subject: String,
    /// The tool, if it is one of the server's own.
    tool: Option<ToolName>,
}

impl CallTarget {
    pub(crate) fn new(name: &str, subject: &str) -> Self {
        Self { name: name.to_owned(), subject: subject.to_owned(), tool: ToolName::parse(name) }
    }

    /// The target of a call that runs a command line.
    pub(super) fn command(line: &str) -> Self {
        let tool = ToolName::ExecuteCommand;
        Self { name: tool.as_str().to_owned(), subject: line.to_owned(), tool: Some(tool) }
    }

    /// Returns whether it runs a command.
    pub(crate) fn is_command(&self) -> bool {
        self.tool == Some(ToolName::ExecuteCommand)
    }

    /// Returns whether it gives a task to another mode.
    pub(crate) fn is_delegation(&self) -> bool {
        self.tool == Some(ToolName::NewTask)
    }

    /// The path of the one file that it is about.
    pub(crate) fn file(&self) -> Option<&str> {
        use ToolName::{ApplyDiff, InsertContent, ReadFile, SearchAndReplace, WriteToFile};
        let of_file = [ReadFile, WriteToFile, ApplyDiff, SearchAndReplace, InsertContent];
        let is_one = self.tool.is_some_and(|tool| of_file.contains(&tool))
            && !self.subject.is_empty()
            // Several files that are read at once.
            && !self.subject.contains(['\n', ',']);
        is_one.then_some(&*self.subject)
    }
}

/// A call that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunningCall {
    pub(crate) id: ToolCallId,
    pub(crate) target: CallTarget,
    /// The end of what it has printed.
    output: String,
    /// The number of line ends in it.
    line_ends: usize,
}

impl RunningCall {
    pub(super) fn new(id: &ToolCallId, target: CallTarget) -> Self {
        Self { id: id.clone(), target, output: String::new(), line_ends: 0 }
    }

    /// Appends output, and forgets its beginning once that is long.
    pub(super) fn add_output(&mut self, text: &str) {
        self.output.push_str(text);
        self.line_ends += line_ends(text);
        if self.output.len() > OUTPUT_BYTES {
            // Half of it at a time, so that not every piece moves all that is kept.
            self.keep_from(self.output.ceil_char_boundary(self.output.len() - OUTPUT_BYTES / 2));
        }
        if self.line_ends > OUTPUT_LINES * 4 {
            let mut ends = self.output.rmatch_indices('\n').map(|(at, _)| at + 1);
            // The last line may have begun after the last line end.
            if let Some(from) = ends.nth(OUTPUT_LINES) {
                self.keep_from(from);
            }
        }
    }

    fn keep_from(&mut self, from: usize) {
        self.output.drain(..from);
        self.line_ends = line_ends(&self.output);
    }

    /// The last lines of its output.
    pub(crate) fn last_lines(&self) -> Vec<&str> {
        let mut lines: Vec<&str> = self.output.lines().collect();
        lines.drain(..lines.len().saturating_sub(OUTPUT_LINES));
        lines
    }

    /// Returns whether it has printed something that can be seen.
    pub(crate) fn has_output(&self) -> bool {
        !self.output.trim().is_empty()
    }
}

fn line_ends(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}

/// Outcome of a call, or of a command in the background.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallResult<'e> {
    pub(crate) status: ToolStatus,
    /// One line for people.
    pub(crate) summary: &'e str,
    /// The exit code of the command that it ran.
    pub(crate) exit_code: Option<i32>,
}

impl<'e> CallResult<'e> {
    pub(super) fn of_outcome(outcome: &'e CallOutcome) -> Self {
        Self { status: outcome.status, summary: &outcome.summary, exit_code: outcome.exit_code }
    }

    /// Returns whether the call did its work. The command that it ran may have failed.
    pub(crate) fn is_success(self) -> bool {
        self.status == ToolStatus::Ok
    }

    /// Its kind.
    pub(crate) fn ending(self) -> CallEnding {
        match self.status {
            ToolStatus::Ok if self.exit_code.is_some_and(|code| code != 0) => CallEnding::FailedExit,
            ToolStatus::Ok => CallEnding::Done,
            ToolStatus::Skipped => CallEnding::Skipped,
            ToolStatus::Failed | ToolStatus::Denied | ToolStatus::Interrupted => CallEnding::Failed,
        }
    }
}

/// Kind of outcome, as front ends tell it apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallEnding {
    /// The tool did its work.
    Done,
    /// The tool did its work, and the command that it ran failed.
    FailedExit,
    /// It was not run.
    Skipped,
    /// It failed, was refused, or was cut off.
    Failed,
}

impl CallEnding {
    pub(crate) fn mark(self) -> &'static str {
        match self {
            Self::Done => "✓",
            Self::FailedExit => "!",
            Self::Skipped => "–",
            Self::Failed => "✗",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn running() -> RunningCall {
        RunningCall::new(&ToolCallId::new("c1"), CallTarget::command("yes"))
    }

    #[test]
    fn the_last_lines_are_kept() {
        let mut call = running();
        for number in 1..=1000 {
            call.add_output(&format!("line {number}\n"));
            assert!(call.line_ends <= OUTPUT_LINES * 4);
        }
        call.add_output("not yet ended");
        let lines = call.last_lines();
        assert_eq!((lines.len(), lines[0], lines[19]), (OUTPUT_LINES, "line 982", "not yet ended"));
    }

    #[test]
    fn of_a_line_without_end_the_end_is_kept() {
        let mut call = running();
        for _ in 0..1024 {
            call.add_output(&"é".repeat(5 * 1024));
            assert!(call.output.len() <= OUTPUT_BYTES);
        }
        call.add_output("\nnext\n");
        let lines = call.last_lines();
        assert_eq!(lines.len(), 2);
        assert!(lines[0].len() >= OUTPUT_BYTES / 4 && lines[0].chars().all(|character| character == 'é'));
    }
}
