//! The events of Roo Code's API (`RooCodeEventName`), each with its payload: an array.

use roo_protocol::ids::TaskId;
use roo_protocol::task::ToolUsage;
use serde::Serialize;
use serde_json::{Value, json};

use super::message::ClineMessage;
use super::names::Say;
use crate::masking::Mask;

/// What happened to a task as a whole. The payload is its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lifecycle {
    Created,
    Started,
    Aborted,
    Focused,
    Unfocused,
    Active,
    Interactive,
    Resumable,
    Idle,
    Paused,
    Unpaused,
    AskResponded,
    UserMessage,
}

impl Lifecycle {
    fn name(self) -> &'static str {
        match self {
            Self::Created => "taskCreated",
            Self::Started => "taskStarted",
            Self::Aborted => "taskAborted",
            Self::Focused => "taskFocused",
            Self::Unfocused => "taskUnfocused",
            Self::Active => "taskActive",
            Self::Interactive => "taskInteractive",
            Self::Resumable => "taskResumable",
            Self::Idle => "taskIdle",
            Self::Paused => "taskPaused",
            Self::Unpaused => "taskUnpaused",
            Self::AskResponded => "taskAskResponded",
            Self::UserMessage => "taskUserMessage",
        }
    }
}

/// Tokens and money of a task so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TokenUsage {
    /// With those that were read from and written to the provider's cache.
    pub(crate) total_tokens_in: u64,
    pub(crate) total_tokens_out: u64,
    pub(crate) total_cache_writes: u64,
    pub(crate) total_cache_reads: u64,
    /// In US dollars.
    pub(crate) total_cost: f64,
    /// Size of the newest model request.
    pub(crate) context_tokens: u64,
}

/// A message that waits for its task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct QueuedMessage {
    /// Time since when it waits, in milliseconds since the Unix epoch.
    pub(crate) timestamp: i64,
    pub(crate) id: String,
    pub(crate) text: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) images: Vec<String>,
}

/// Whether a message is new.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum MessageAction {
    Created,
    Updated,
}

/// An event of the API.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RooEvent {
    Lifecycle(Lifecycle, TaskId),
    TaskCompleted {
        task: TaskId,
        usage: TokenUsage,
        tools: ToolUsage,
        is_subtask: bool,
    },
    TaskSpawned {
        parent: TaskId,
        child: TaskId,
    },
    TaskDelegated {
        parent: TaskId,
        child: TaskId,
    },
    TaskDelegationCompleted {
        parent: TaskId,
        child: TaskId,
        summary: String,
    },
    TaskDelegationResumed {
        parent: TaskId,
        child: TaskId,
    },
    Message {
        task: TaskId,
        action: MessageAction,
        message: Box<ClineMessage>,
    },
    TaskModeSwitched {
        task: TaskId,
        mode: String,
    },
    QueuedMessagesUpdated {
        task: TaskId,
        messages: Vec<QueuedMessage>,
    },
    TaskTokenUsageUpdated {
        task: TaskId,
        usage: TokenUsage,
        tools: ToolUsage,
    },
    TaskToolFailed {
        task: TaskId,
        tool: String,
        error: String,
    },
    ModeChanged {
        mode: String,
    },
    ProviderProfileChanged {
        name: String,
        provider: String,
    },
    /// Answer to a question about slash commands.
    Commands(Value),
    /// Answer to a question about modes.
    Modes(Value),
    /// Answer to a question about models.
    Models(Value),
}

impl RooEvent {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Lifecycle(lifecycle, _) => lifecycle.name(),
            Self::TaskCompleted { .. } => "taskCompleted",
            Self::TaskSpawned { .. } => "taskSpawned",
            Self::TaskDelegated { .. } => "taskDelegated",
            Self::TaskDelegationCompleted { .. } => "taskDelegationCompleted",
            Self::TaskDelegationResumed { .. } => "taskDelegationResumed",
            Self::Message { .. } => "message",
            Self::TaskModeSwitched { .. } => "taskModeSwitched",
            Self::QueuedMessagesUpdated { .. } => "queuedMessagesUpdated",
            Self::TaskTokenUsageUpdated { .. } => "taskTokenUsageUpdated",
            Self::TaskToolFailed { .. } => "taskToolFailed",
            Self::ModeChanged { .. } => "modeChanged",
            Self::ProviderProfileChanged { .. } => "providerProfileChanged",
            Self::Commands(_) => "commandsResponse",
            Self::Modes(_) => "modesResponse",
            Self::Models(_) => "modelsResponse",
        }
    }

    pub(crate) fn payload(&self) -> Value {
        match self {
            Self::Lifecycle(_, task) => json!([task]),
            Self::TaskCompleted { task, usage, tools, is_subtask } => {
                json!([task, usage, tools, { "isSubtask": is_subtask }])
            }
            Self::TaskSpawned { parent, child }
            | Self::TaskDelegated { parent, child }
            | Self::TaskDelegationResumed { parent, child } => json!([parent, child]),
            Self::TaskDelegationCompleted { parent, child, summary } => json!([parent, child, summary]),
            Self::Message { task, action, message } => {
                json!([{ "taskId": task, "action": action, "message": message }])
            }
            Self::TaskModeSwitched { task, mode } => json!([task, mode]),
            Self::QueuedMessagesUpdated { task, messages } => json!([task, messages]),
            Self::TaskTokenUsageUpdated { task, usage, tools } => json!([task, usage, tools]),
            Self::TaskToolFailed { task, tool, error } => json!([task, tool, error]),
            Self::ModeChanged { mode } => json!([mode]),
            Self::ProviderProfileChanged { name, provider } => {
                json!([{ "name": name, "provider": provider }])
            }
            Self::Commands(list) | Self::Modes(list) | Self::Models(list) => json!([list]),
        }
    }

    /// The event as clients get it.
    pub(crate) fn to_json(&self) -> Value {
        json!({ "eventName": self.name(), "payload": self.payload() })
    }

    /// Puts masks in place of secrets.
    pub(super) fn mask(&mut self, mask: &Mask) {
        let apply = |text: &mut String| *text = mask.masked(std::mem::take(text));
        match self {
            Self::Message { message, .. } => {
                if let Some(text) = &mut message.text {
                    mask_text(text, mask);
                }
                if let Some(condensed) = &mut message.context_condense {
                    apply(&mut condensed.summary);
                }
            }
            Self::TaskDelegationCompleted { summary, .. } => apply(summary),
            Self::TaskToolFailed { error, .. } => apply(error),
            Self::QueuedMessagesUpdated { messages, .. } => {
                messages.iter_mut().for_each(|queued| apply(&mut queued.text));
            }
            _ => {}
        }
    }
}

/// Something to tell clients that no log has, such as a command that failed. The vocabulary has it only as a message, and that only of
/// a task.
pub(crate) fn notice(task: Option<TaskId>, at: i64, text: String) -> RooEvent {
    let task = task.unwrap_or_else(|| TaskId::new(""));
    let message = Box::new(ClineMessage::new(at, Say::Error, Some(text)));
    RooEvent::Message { task, action: MessageAction::Created, message }
}

/// Masks a text, or the texts in one that is JSON: there a secret with escapes in it isn't found. What holds no secret stays as it
/// is, byte for byte: read and written again, a long number would be another one.
fn mask_text(text: &mut String, mask: &Mask) {
    let object = text.starts_with('{').then(|| serde_json::from_str::<Value>(text).ok()).flatten();
    if let Some(object @ Value::Object(_)) = object {
        let mut masked = object.clone();
        mask.apply_to_texts(&mut masked);
        if masked != object {
            *text = masked.to_string();
            return;
        }
    }
    // A field that comes twice was read once.
    *text = mask.masked(std::mem::take(text));
}
