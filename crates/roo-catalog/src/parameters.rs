//! One type per tool: what a well-formed call asks for.

use serde::{Deserialize, Serialize};

use roo_protocol::event::Suggestion;
use roo_protocol::ids::CommandId;
use roo_protocol::task::TodoStatus;
use roo_text::edit::Replacement;
use roo_text::lines::LineRange;

/// One file to read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadRequest {
    /// As the model wrote it.
    pub path: String,
    /// The ranges; the whole file when empty.
    pub ranges: Vec<LineRange>,
}

/// `read_file`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadFile {
    /// At least one.
    pub files: Vec<ReadRequest>,
}

/// `write_to_file`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteToFile {
    /// As the model wrote it.
    pub path: String,
    /// The whole text.
    pub content: String,
}

/// `apply_diff`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplyDiff {
    /// As the model wrote it.
    pub path: String,
    /// SEARCH/REPLACE blocks.
    pub diff: String,
}

/// `search_and_replace`, and Roo's later `edit` and `search_replace`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchAndReplace {
    /// As the model wrote it.
    pub path: String,
    /// What becomes of the file's text.
    pub replacement: Replacement,
}

/// `insert_content`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InsertContent {
    /// As the model wrote it.
    pub path: String,
    /// Before which 1-based line; 0 appends.
    pub line: usize,
    /// The lines.
    pub content: String,
}

/// `apply_patch`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplyPatch {
    /// As the model wrote it.
    pub patch: String,
}

impl ApplyPatch {
    /// The files that its headers name, for people: nothing has been made of it yet.
    pub fn named_files(&self) -> impl Iterator<Item = &str> {
        const HEADERS: [&str; 4] = ["*** Add File:", "*** Delete File:", "*** Update File:", "*** Move to:"];
        let named = |line| HEADERS.iter().find_map(|header| str::strip_prefix(line, header)).map(str::trim);
        self.patch.lines().filter_map(named)
    }
}

/// `list_files`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListFiles {
    /// As the model wrote it.
    pub path: String,
    /// Whether to go into directories.
    pub recursive: bool,
}

/// `search_files`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchFiles {
    /// As the model wrote it.
    pub path: String,
    /// Rust regex syntax.
    pub regex: String,
    /// A glob on file names.
    pub file_pattern: Option<String>,
}

/// `execute_command`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecuteCommand {
    /// A command line for the shell.
    pub command: String,
    /// As the model wrote it; the first root when none.
    pub cwd: Option<String>,
    /// How long its end is waited for, in seconds, at least 1.
    pub timeout: Option<u64>,
    /// Whether it is to reach the network.
    pub network: bool,
}

/// `read_command_output`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadCommandOutput {
    /// The command; all that run in the background when none.
    pub command: Option<CommandId>,
    /// How long its end is waited for, in seconds.
    pub timeout: u64,
}

/// `stop_command`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StopCommand {
    /// The command.
    pub command: CommandId,
}

/// `ask_followup_question`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskFollowupQuestion {
    /// The question.
    pub question: String,
    /// Suggested answers; may be empty when a model left them out.
    pub suggestions: Vec<Suggestion>,
}

/// `update_todo_list`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateTodoList {
    /// The whole list.
    pub items: Vec<(String, TodoStatus)>,
}

/// `switch_mode`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchMode {
    /// The slug of the mode.
    pub mode: String,
    /// Why, for the user.
    pub reason: Option<String>,
}

/// `skill`, and Roo's earlier `fetch_instructions`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skill {
    /// Its name.
    pub name: String,
    /// What it is to be used on.
    pub arguments: Option<String>,
}

/// `select_active_intent`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectActiveIntent {
    /// As the model wrote it.
    pub intent_id: String,
}

/// `request_scope_expansion`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestScopeExpansion {
    /// As the model wrote them; not empty.
    pub patterns: Vec<String>,
    /// For the user.
    pub reason: String,
}

/// `new_task`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTask {
    /// The slug of the mode that does the subtask.
    pub mode: String,
    /// The brief, as the model wrote it.
    pub message: String,
    /// The subtask's first to-do list.
    pub todos: Vec<(String, TodoStatus)>,
}

/// `attempt_completion`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptCompletion {
    /// What was achieved.
    pub result: String,
}

/// `complete_with_failure`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompleteWithFailure {
    /// What stood in the way.
    pub reason: String,
}
