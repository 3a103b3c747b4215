//! The names of asks and says that our events lead to, and those that never come.

use serde::Serialize;

/// Question of a task to its user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ask {
    Followup,
    Command,
    CompletionResult,
    Tool,
    ApiReqFailed,
    ResumeTask,
    MistakeLimitReached,
    BrowserActionLaunch,
    UseMcpServer,
    AutoApprovalMaxReqReached,
}

/// Message of a task to its user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Say {
    Error,
    ApiReqStarted,
    ApiReqRetried,
    ApiReqRetryDelayed,
    ApiReqRateLimitWait,
    Text,
    Image,
    Reasoning,
    CompletionResult,
    UserFeedback,
    UserFeedbackDiff,
    CommandOutput,
    BrowserAction,
    BrowserActionResult,
    McpServerRequestStarted,
    McpServerResponse,
    SubtaskResult,
    CheckpointSaved,
    RooignoreError,
    DiffError,
    CondenseContext,
    CondenseContextError,
    SlidingWindowTruncation,
    CodebaseSearchResult,
}

/// Names of Roo Code's that never come, each with the reason.
#[cfg(test)]
pub(super) const ABSENT: &[(&str, &str)] = &[
    ("ask command_output", "nobody is asked whether a command may go on while its output is shown"),
    ("ask api_req_deleted", "no model request is deleted from a log"),
    ("ask resume_completed_task", "what is said to a completed task continues it, without a question first"),
    ("say api_req_finished", "unused in Roo Code too: the end of a request updates api_req_started"),
    ("say api_req_deleted", "no model request is deleted from a log"),
    ("say shell_integration_warning", "commands run without the editor's terminal"),
    ("say browser_session_status", "a browser belongs to its task, there is no session to turn on and off"),
    ("say user_edit_todos", "the to-do list is the model's; users change it by a message"),
    ("say too_many_tools_warning", "the tools of servers that don't fit are found by a search"),
    (
        "payload CommandExecutionStatus",
        "Roo Code sends it to its own web view only; output is command_output",
    ),
    ("event evalPass", "results of Roo Code's own evaluation"),
    ("event evalFail", "results of Roo Code's own evaluation"),
];
