//! Input and output of a tool run: its context, its outcome, and the commands that run on in the background. The
//! policy needs it to say what a permit runs with; what each tool does is in [`crate::tools`].

mod background;
mod binary_contents;
mod command_runner;
mod context;
mod file_details;
mod later_changes;
mod outcome;
mod recorded;
mod saved;
mod shadow;
mod task_browser;

pub use background::{BackgroundCommands, RunningCommand, StopReason};
pub use binary_contents::BinaryContents;
pub use command_runner::{CommandRunner, ShowOutput, UserShell};
pub use context::{
    CommandLimits, ForegroundControl, NoChanges, RecentOf, RequestChanges, RequestDiff, ToolContext,
};
pub use file_details::FileDetails;
pub(crate) use file_details::{is_executable, make_executable, missing_directories};
pub use outcome::{AppliedEdit, ChangesUnknown, Outcome};
pub use recorded::{RecordedFile, RecordedLines, recorded};
pub use saved::{SavedContent, SavedFile, WhyLeftOut, digest_of, save};
pub(crate) use shadow::Snapshot;
pub use shadow::{ShadowError, ShadowRepositories};
pub use task_browser::{BrowserNetwork, TaskBrowser};
