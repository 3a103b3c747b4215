//! The events of the public hook contract: what fires them, what their matchers are compared with, and
//! what it means when a hook refuses.

use std::fmt;
use std::time::Duration;

/// An event at which hooks run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventName {
    /// Before a tool call, when its parameters are known.
    PreToolUse,
    /// Before the user is asked about a call.
    PermissionRequest,
    /// After a call was refused without asking.
    PermissionDenied,
    /// After a call succeeded.
    PostToolUse,
    /// After a call failed.
    PostToolUseFailure,
    /// After all calls of one answer.
    PostToolBatch,
    /// The user is notified.
    Notification,
    /// Before a prompt of the user reaches the model.
    UserPromptSubmit,
    /// Before a request ends.
    Stop,
    /// A request ended because its model failed.
    StopFailure,
    /// A branch begins.
    SubagentStart,
    /// Before a branch ends.
    SubagentStop,
    /// Before a conversation is shortened.
    PreCompact,
    /// After a conversation was shortened.
    PostCompact,
    /// A request begins or resumes.
    SessionStart,
    /// A request has ended.
    SessionEnd,
}

/// Value that a matcher is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compared {
    /// The names of the tool.
    Tool,
    /// The mode of the branch.
    Mode,
    /// A word, mostly one of these.
    Word(&'static [&'static str]),
    /// Nothing: hooks of this event always run.
    Nothing,
}

/// Effect of exit code 2, or of an answer that blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The call does not run, and the model is told why.
    DenyCall,
    /// The model is told; what happened stays.
    TellModel,
    /// The prompt is dropped, and the user is told why.
    DropPrompt,
    /// The task goes on, and the model is told why.
    GoOn,
    /// The model is not asked again.
    EndTurn,
    /// The conversation stays as long as it is.
    KeepConversation,
    /// Nothing but a warning for the user.
    TellUser,
    /// Nothing.
    Nothing,
}

/// All that is said of an event.
struct Spec {
    event: EventName,
    name: &'static str,
    about: &'static str,
    compared: Compared,
    refusal: Refusal,
    /// True if a model reads what its hooks add.
    context: bool,
    /// True if `continue` and `systemMessage` count.
    universal: bool,
}

const fn spec(
    event: EventName,
    name: &'static str,
    about: &'static str,
    compared: Compared,
    refusal: Refusal,
    (context, universal): (bool, bool),
) -> Spec {
    Spec { event, name, about, compared, refusal, context, universal }
}

const SOURCES: Compared = Compared::Word(&["startup", "resume", "clear", "compact", "fork"]);
const ENDS: Compared = Compared::Word(&["clear", "resume", "logout", "prompt_input_exit", "other"]);
const TRIGGERS: Compared = Compared::Word(&["manual", "auto"]);
const NOTIFICATIONS: Compared = Compared::Word(&[
    "permission_prompt",
    "idle_prompt",
    "auth_success",
    "elicitation_dialog",
    "elicitation_url_dialog",
    "elicitation_complete",
    "elicitation_response",
    "agent_needs_input",
    "agent_completed",
]);
const ERRORS: Compared = Compared::Word(&[
    "rate_limit",
    "overloaded",
    "authentication_failed",
    "oauth_org_not_allowed",
    "billing_error",
    "invalid_request",
    "model_not_found",
    "server_error",
    "max_output_tokens",
    "unknown",
]);

/// In the order of the enum; a test holds that.
const EVENTS: [Spec; 16] = [
    spec(
        EventName::PreToolUse,
        "PreToolUse",
        "Before a tool call. A hook may allow, deny or rewrite it, or have the user asked.",
        Compared::Tool,
        Refusal::DenyCall,
        (true, true),
    ),
    spec(
        EventName::PermissionRequest,
        "PermissionRequest",
        "Before the user is asked about a tool call. A hook may answer in their place.",
        Compared::Tool,
        Refusal::Nothing,
        (false, true),
    ),
    spec(
        EventName::PermissionDenied,
        "PermissionDenied",
        "After a tool call was refused without asking. A hook may tell the model to try again.",
        Compared::Tool,
        Refusal::Nothing,
        (false, true),
    ),
    spec(
        EventName::PostToolUse,
        "PostToolUse",
        "After a tool call succeeded. A hook may add to its result or replace it.",
        Compared::Tool,
        Refusal::TellModel,
        (true, true),
    ),
    spec(
        EventName::PostToolUseFailure,
        "PostToolUseFailure",
        "After a tool call failed. A hook may add to the error that the model sees.",
        Compared::Tool,
        Refusal::TellModel,
        (true, true),
    ),
    spec(
        EventName::PostToolBatch,
        "PostToolBatch",
        "After all tool calls of one answer, before the model is asked again.",
        Compared::Nothing,
        Refusal::EndTurn,
        (true, true),
    ),
    spec(
        EventName::Notification,
        "Notification",
        "When the user is notified. The output of its hooks has no effect.",
        NOTIFICATIONS,
        Refusal::Nothing,
        (false, false),
    ),
    spec(
        EventName::UserPromptSubmit,
        "UserPromptSubmit",
        "Before a prompt reaches the model. A hook may block it or add to it; its standard output is added too.",
        Compared::Nothing,
        Refusal::DropPrompt,
        (true, true),
    ),
    spec(
        EventName::Stop,
        "Stop",
        "Before a request ends. A hook may say why it must go on.",
        Compared::Nothing,
        Refusal::GoOn,
        (true, true),
    ),
    spec(
        EventName::StopFailure,
        "StopFailure",
        "When a request ended because its model failed. The output of its hooks has no effect.",
        ERRORS,
        Refusal::Nothing,
        (false, false),
    ),
    spec(
        EventName::SubagentStart,
        "SubagentStart",
        "When a branch begins. A hook may add context for it. The matcher is its mode.",
        Compared::Mode,
        Refusal::TellUser,
        (true, true),
    ),
    spec(
        EventName::SubagentStop,
        "SubagentStop",
        "Before a branch ends. A hook may say why it must go on. The matcher is its mode.",
        Compared::Mode,
        Refusal::GoOn,
        (true, true),
    ),
    spec(
        EventName::PreCompact,
        "PreCompact",
        "Before a conversation is shortened. A hook may refuse that.",
        TRIGGERS,
        Refusal::KeepConversation,
        (false, false),
    ),
    spec(
        EventName::PostCompact,
        "PostCompact",
        "After a conversation was shortened.",
        TRIGGERS,
        Refusal::TellUser,
        (false, false),
    ),
    spec(
        EventName::SessionStart,
        "SessionStart",
        "When a request begins or resumes. The output of a hook is added to the model's context.",
        SOURCES,
        Refusal::TellUser,
        (true, true),
    ),
    spec(
        EventName::SessionEnd,
        "SessionEnd",
        "When a request has ended. Its hooks have 1.5 seconds unless they say otherwise.",
        ENDS,
        Refusal::TellUser,
        (false, false),
    ),
];

/// Events of the contract that never come here, for there is nothing that could fire them.
const NEVER: &[&str] = &[
    "ConfigChange",
    "CwdChanged",
    "DirectoryAdded",
    "Elicitation",
    "ElicitationResult",
    "FileChanged",
    "InstructionsLoaded",
    "MessageDisplay",
    "PostModelSwitch",
    "PreModelSwitch",
    "Setup",
    "TaskCompleted",
    "TaskCreated",
    "TeammateIdle",
    "UserPromptExpansion",
    "WorktreeCreate",
    "WorktreeRemove",
];

impl EventName {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        EVENTS.iter().map(|spec| spec.event)
    }

    /// The event of this name, exactly as the contract spells it.
    pub fn parse(name: &str) -> Option<Self> {
        EVENTS.iter().find(|spec| spec.name == name).map(|spec| spec.event)
    }

    /// Returns whether the contract has an event of this name that never comes here.
    pub fn never_comes(name: &str) -> bool {
        NEVER.contains(&name)
    }

    /// The name as the contract spells it.
    pub fn as_str(self) -> &'static str {
        self.spec().name
    }

    /// Describes the event and what a hook can do, for people.
    pub fn about(self) -> &'static str {
        self.spec().about
    }

    /// Returns the value that a matcher is compared with.
    pub fn compared(self) -> Compared {
        self.spec().compared
    }

    /// Returns the effect of a hook's refusal.
    pub fn refusal(self) -> Refusal {
        self.spec().refusal
    }

    /// Returns whether a model reads what a hook adds.
    pub fn takes_context(self) -> bool {
        self.spec().context
    }

    /// Returns whether what a hook prints, and is no JSON, is added to what the model reads.
    pub fn prints_context(self) -> bool {
        matches!(self, Self::SessionStart | Self::UserPromptSubmit)
    }

    /// Returns whether a hook's `continue` and `systemMessage` count.
    pub fn heeds_universal(self) -> bool {
        self.spec().universal
    }

    /// Returns the timeout of a hook that doesn't set one.
    pub fn default_timeout(self) -> Duration {
        match self {
            Self::UserPromptSubmit => Duration::from_secs(30),
            Self::SessionEnd => Duration::from_millis(1500),
            _ => Duration::from_secs(600),
        }
    }

    fn spec(self) -> &'static Spec {
        &EVENTS[self as usize]
    }
}

impl fmt::Display for EventName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_enum() {
        for event in EventName::all() {
            assert_eq!(event.spec().event, event);
            assert_eq!(EventName::parse(event.as_str()), Some(event));
            assert!(!EventName::never_comes(event.as_str()) && !event.about().is_empty());
        }
        assert_eq!(EventName::parse("pretooluse"), None);
        assert!(EventName::never_comes("WorktreeCreate"));
    }
}
