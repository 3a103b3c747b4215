//! A task in the storage of Roo Code and of Cline, which Roo Code began as: the conversation with the model, what its user was
//! shown, and the entry of the history. Read into one neutral form, and written from it.
//!
//! Source: the files that Roo Code 3.x writes into `tasks/<id>/` of its global storage (`history_item.json` from 3.49 on,
//! `api_conversation_history.json`, `ui_messages.json`), and their earlier names. The conversation is an array in the shape of
//! Anthropic's messages; one version wrote `{"version": 2, "messages": […]}` with the parts of the AI SDK, which is read too.
//! Where a file lies is not known here.

mod conversation;
mod item;
mod ui_messages;

use serde_json::{Map, Value};

use self::conversation::Conversation;
pub(crate) use self::conversation::{answer as answer_part, image as image_url};
pub use self::item::TaskItem;
pub(crate) use self::item::count;
use self::ui_messages::Shown;

/// Name of the file of a task's entry in the history.
pub const ITEM_FILE: &str = "history_item.json";
/// Names of the file of the conversation with the model, the newest first.
pub const CONVERSATION_FILES: [&str; 2] = ["api_conversation_history.json", "claude_messages.json"];
/// Name of the file of what the user was shown.
pub const MESSAGES_FILE: &str = "ui_messages.json";
/// The longest file of a task that is read, in bytes.
pub const TASK_FILE_LIMIT: u64 = 64 << 20;
/// The longest id of a task, in bytes.
const MAX_ID_BYTES: usize = 128;

/// A task.
#[derive(Clone, Debug, PartialEq)]
pub struct PastTask {
    /// Its entry in the history.
    pub item: TaskItem,
    /// The time of its beginning, in milliseconds since the Unix epoch.
    pub created_at: i64,
    /// The conversation, oldest first.
    pub messages: Vec<PastMessage>,
}

/// A message between the program and its model.
#[derive(Clone, Debug, PartialEq)]
pub struct PastMessage {
    /// Milliseconds since the Unix epoch; none where the file doesn't say.
    pub at: Option<i64>,
    /// Content.
    pub content: PastContent,
}

/// Content of a message.
#[derive(Clone, Debug, PartialEq)]
pub enum PastContent {
    /// For the model, from the user or from the program.
    Input(Vec<InputPart>),
    /// Of the model.
    Answer(Vec<AnswerPart>),
    /// A summary that stands for all messages before it.
    Summary(String),
}

/// Part of what the model gets.
#[derive(Clone, Debug, PartialEq)]
pub enum InputPart {
    /// What the user said, without what the program put around it.
    Words(String),
    /// What the program told the model.
    Text(String),
    /// An image as a data URL.
    Image(String),
    /// The result of a call that the model made natively.
    Result(PastResult),
}

/// The result of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct PastResult {
    /// The id of the call.
    pub call: String,
    /// Text.
    pub text: String,
    /// Images as data URLs.
    pub images: Vec<String>,
    /// The tool failed or was refused.
    pub is_error: bool,
}

/// Part of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum AnswerPart {
    /// Text; before native calls, the calls are in it as tags.
    Text(String),
    /// Thinking that may be shown.
    Thinking(String),
    /// A native call.
    Call(PastCall),
}

/// A native call.
#[derive(Clone, Debug, PartialEq)]
pub struct PastCall {
    /// The id by which its result names it.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The parameters.
    pub params: Map<String, Value>,
}

/// The texts of a task's files.
#[derive(Clone, Copy, Debug, Default)]
pub struct TaskFiles<'a> {
    /// Name of its directory.
    pub id: &'a str,
    /// Its entry in the history.
    pub item: Option<&'a str>,
    /// The same from a list of all tasks, for what has no file of its own.
    pub listed: Option<&'a TaskItem>,
    /// The conversation with the model.
    pub conversation: Option<&'a str>,
    /// What the user was shown. What is wrong with it is no reason to leave the task out.
    pub messages: Option<&'a str>,
}

/// The files of a task as they are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskFileTexts {
    /// [`ITEM_FILE`].
    pub item: String,
    /// The first of [`CONVERSATION_FILES`].
    pub conversation: String,
    /// [`MESSAGES_FILE`].
    pub messages: String,
}

/// A task can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TaskError {
    /// A file is no JSON.
    #[error("{file} is not valid JSON (line {line}, column {column})")]
    Json {
        /// The file.
        file: &'static str,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
    },
    /// The name of the directory can be no id.
    #[error("its directory has a name that no task has")]
    Id,
    /// A file is other JSON.
    #[error("{file} is not what Roo Code writes")]
    Shape {
        /// The file.
        file: &'static str,
    },
    /// The entry in the history names another task.
    #[error("{ITEM_FILE} is that of another task, {}", id.escape_debug())]
    OtherId {
        /// The id in it.
        id: String,
    },
    /// There is no conversation.
    #[error("it has no {}", CONVERSATION_FILES[0])]
    NoConversation,
    /// There is nothing in the conversation that the user said.
    #[error("there is no message of the user in it")]
    Empty,
}

impl PastTask {
    /// Reads the files of a task.
    ///
    /// # Errors
    /// [`TaskError`].
    pub fn read(files: &TaskFiles<'_>) -> Result<Self, TaskError> {
        let TaskFiles { id, item, listed, conversation, messages } = *files;
        if !is_id(id) {
            return Err(TaskError::Id);
        }
        let own = item.map(|text| TaskItem::read(&parse(ITEM_FILE, text)?)).transpose()?;
        if let Some(own) = own.as_ref().filter(|own| own.id != id) {
            return Err(TaskError::OtherId { id: own.id.clone() });
        }
        let conversation = conversation.ok_or(TaskError::NoConversation)?;
        let Conversation { messages: past, folder, mode } =
            Conversation::read(&parse(CONVERSATION_FILES[0], conversation)?)?;
        let prompt = past.iter().find_map(|message| match &message.content {
            PastContent::Input(parts) => parts.iter().find_map(|part| match part {
                InputPart::Words(words) => Some(words.clone()),
                _ => None,
            }),
            PastContent::Answer(_) | PastContent::Summary(_) => None,
        });
        let prompt = prompt.ok_or(TaskError::Empty)?;
        let shown = messages.and_then(|text| parse(MESSAGES_FILE, text).ok());
        let shown = shown.as_ref().map(Shown::read).unwrap_or_default();
        let times = || past.iter().filter_map(|message| message.at);
        let first = times().next().or(shown.first_at);
        let mut item =
            own.or_else(|| listed.filter(|listed| listed.id == id).cloned()).unwrap_or_else(|| TaskItem {
                id: id.to_owned(),
                ts: times().next_back().or(shown.last_at).unwrap_or_default(),
                usage: shown.usage,
                ..TaskItem::default()
            });
        if item.task.trim().is_empty() {
            item.task = prompt;
        }
        item.workspace = item.workspace.or(folder);
        item.mode = item.mode.or(mode);
        let created_at = time_in(id).filter(is_time).or(first).unwrap_or(item.ts);
        Ok(Self { item, created_at, messages: past })
    }

    /// Writes the files of the task.
    pub fn write(&self) -> TaskFileTexts {
        let text = |value: Value| format!("{value}");
        TaskFileTexts {
            item: text(self.item.to_json()),
            conversation: text(conversation::to_json(&self.messages, self.created_at)),
            messages: text(ui_messages::to_json(self)),
        }
    }

    /// Returns whether the model called tools natively, and not by tags in its text.
    pub fn has_native_calls(&self) -> bool {
        self.messages.iter().any(|message| match &message.content {
            PastContent::Answer(parts) => parts.iter().any(|part| matches!(part, AnswerPart::Call(_))),
            PastContent::Input(_) | PastContent::Summary(_) => false,
        })
    }
}

/// Reads a list of all tasks: an array of entries, or an object that has them.
///
/// # Errors
/// [`TaskError::Json`] and [`TaskError::Shape`] for `file`. Entries that can't be read are left out.
pub fn read_list(file: &'static str, text: &str) -> Result<Vec<TaskItem>, TaskError> {
    let value = parse(file, text)?;
    let entries = value.as_array().or_else(|| value.get("entries")?.as_array());
    let entries = entries.ok_or(TaskError::Shape { file })?;
    Ok(entries.iter().filter_map(|entry| TaskItem::read(entry).ok()).collect())
}

/// The user's words in a text that the program put something around; none where it has none.
pub fn words_in(text: &str) -> Option<String> {
    conversation::input_texts(text).into_iter().find_map(|part| match part {
        InputPart::Words(words) => Some(words),
        InputPart::Text(_) | InputPart::Image(_) | InputPart::Result(_) => None,
    })
}

/// Returns whether a name may be the id of a task.
pub fn is_id(name: &str) -> bool {
    (1..=MAX_ID_BYTES).contains(&name.len())
        && !name.starts_with('.')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

/// Returns whether a number may be a time, in milliseconds since the Unix epoch: until 2286.
fn is_time(at: &i64) -> bool {
    (1..10_000_000_000_000).contains(at)
}

fn parse(file: &'static str, text: &str) -> Result<Value, TaskError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    serde_json::from_str(text).map_err(|error| TaskError::Json {
        file,
        line: error.line(),
        column: error.column(),
    })
}

/// The time that an id holds: that of a UUID ordered by time, or the id itself.
fn time_in(id: &str) -> Option<i64> {
    /// Ids of 2001 to 2286 have so many digits.
    const DIGITS: usize = 13;
    if id.len() == DIGITS && id.bytes().all(|byte| byte.is_ascii_digit()) {
        return id.parse().ok();
    }
    let id = uuid::Uuid::parse_str(id).ok().filter(|id| id.get_version_num() == 7)?;
    let (seconds, nanoseconds) = id.get_timestamp()?.to_unix();
    i64::try_from(seconds.checked_mul(1000)?.checked_add(u64::from(nanoseconds / 1_000_000))?).ok()
}

#[cfg(test)]
mod tests;
