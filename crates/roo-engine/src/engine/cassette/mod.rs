//! Cassettes: a request kept as a file in a team's repository, so that its CI finds out what a change of modes, rules or
//! prompts does to it.
//!
//! A cassette has what came from outside (the prompt, the model's answers as blocks, results of tools, the user's
//! answers) and what is expected of the rest: prompts of the modes, messages to the model, which calls run and what the
//! model is told of them, and how each task ends. [`Cassette::from_log`] takes one from a log; [`play`] gives what came
//! from outside to the pure machine of tasks, with today's modes, and returns the cassette that this makes. Both are read
//! by one `TurnRecorder`, so that a cassette whose request behaves as recorded is equal to the one it was made
//! from. No tool is run, no model or user is asked, and no disk is touched.
//!
//! Environment details are not in it: they vary with every request. What else may vary is replaced; see
//! [`Placeholders`].

mod placeholders;
mod player;
mod turns;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::event::{EndState, Event};
use roo_catalog::ToolProtocol;
use roo_durable::Record;
use roo_formats::config::ToolChoice;
use roo_model::providers::Finish;
use roo_protocol::event::ToolStatus;
use roo_protocol::ids::{TaskId, Urid};

pub use self::placeholders::{InvalidMatcher, Placeholders};
pub use self::player::{Conditions, Played, play};

/// The version of the format.
const VERSION: u32 = 1;

/// A recorded request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Cassette {
    version: u32,
    /// What the user asked.
    pub request: CassetteRequest,
    /// Regular expressions of what may vary, by the name of the placeholder that stands for it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub matchers: BTreeMap<String, String>,
    /// The tasks of the request: the root, then branches by their numbers.
    pub tasks: Vec<CassetteTask>,
    /// What models are told before a task begins, by the slug of the mode.
    pub prompts: BTreeMap<String, ModePrompt>,
}

/// Beginning of a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CassetteRequest {
    /// The user's words.
    pub prompt: String,
    /// The slug of the mode.
    pub mode: String,
    /// Protocol in which tools are called, in all modes.
    pub protocol: ToolProtocol,
    /// The id for people. It is played with the same one.
    pub id: Urid,
    /// Opt-in tools of the model's profile, which all tasks of a play get.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub included_tools: Vec<String>,
    /// Tools that the profile keeps from its model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub excluded_tools: Vec<String>,
}

impl CassetteRequest {
    /// The choice of tools for the models of all tasks.
    pub fn tools(&self) -> ToolChoice {
        ToolChoice::of_names(&self.included_tools, &self.excluded_tools)
    }
}

/// One task of the request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CassetteTask {
    /// Which branch it is: `2.1` is the first one of the root's second; none for the root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// Requests to the model with their answers.
    pub turns: Vec<CassetteTurn>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<EndState>,
}

/// One request to the model, its answer, and what came of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CassetteTurn {
    /// The slug of the mode.
    pub mode: String,
    /// Messages that are new in the request, but for results of calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<String>,
    /// Lookups for the model before the request.
    #[serde(default, skip_serializing_if = "LookedUp::is_empty")]
    pub looked_up: LookedUp,
    /// The blocks of the answer.
    pub answer: Vec<CassetteBlock>,
    /// Why the answer ended; none where the model was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish: Option<Finish>,
}

/// What the server looked up for the model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct LookedUp {
    /// Texts of the slash commands in the user's message.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub commands: String,
    /// Other text.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub text: String,
}

impl LookedUp {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A block of an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "BlockFields", into = "BlockFields")]
pub enum CassetteBlock {
    /// Visible text.
    Text(String),
    Thinking(String),
    /// A call, with its result.
    Call(Box<CassetteCall>),
}

/// A call, and what came of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CassetteCall {
    /// The name as sent.
    pub tool: String,
    /// The parameters as sent.
    pub params: Map<String, Value>,
    /// Problem of the call, found as the answer was read.
    pub problem: Option<String>,
    /// The rule by which policy denied it.
    pub denied: Option<String>,
    /// The user's refusal.
    pub refused: Option<UserRefusal>,
    /// The user's answer to the question that it asked.
    pub answered: Option<String>,
    /// Files that the task knows by it.
    pub seen: Vec<String>,
    /// Status at its end; none where it got no result.
    pub status: Option<ToolStatus>,
    /// What the model was told.
    pub result: Option<String>,
}

/// A refusal by the user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct UserRefusal {
    /// What the user said with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub feedback: Option<String>,
    /// Nobody was asked.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unattended: bool,
}

/// A block as it is in a file.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct BlockFields {
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<String>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    params: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    denied: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<UserRefusal>,
    #[serde(skip_serializing_if = "Option::is_none")]
    answered: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    seen: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<ToolStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<String>,
}

impl TryFrom<BlockFields> for CassetteBlock {
    type Error = &'static str;

    fn try_from(fields: BlockFields) -> Result<Self, Self::Error> {
        let BlockFields {
            text,
            thinking,
            tool,
            params,
            problem,
            denied,
            refused,
            answered,
            seen,
            status,
            result,
        } = fields;
        match (text, thinking, tool) {
            (Some(text), None, None) => Ok(Self::Text(text)),
            (None, Some(text), None) => Ok(Self::Thinking(text)),
            (None, None, Some(tool)) => Ok(Self::Call(Box::new(CassetteCall {
                tool,
                params,
                problem,
                denied,
                refused,
                answered,
                seen,
                status,
                result,
            }))),
            _ => Err("an entry of `answer` has either `text`, `thinking` or `tool`"),
        }
    }
}

impl From<CassetteBlock> for BlockFields {
    fn from(block: CassetteBlock) -> Self {
        match block {
            CassetteBlock::Text(text) => Self { text: Some(text), ..Self::default() },
            CassetteBlock::Thinking(text) => Self { thinking: Some(text), ..Self::default() },
            CassetteBlock::Call(call) => {
                let CassetteCall { tool, params, problem, denied, refused, answered, seen, status, result } =
                    *call;
                Self {
                    tool: Some(tool),
                    params,
                    problem,
                    denied,
                    refused,
                    answered,
                    seen,
                    status,
                    result,
                    ..Self::default()
                }
            }
        }
    }
}

/// What a model is told in a mode before a task begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ModePrompt {
    /// The names of its tools.
    pub tools: Vec<String>,
    /// The system prompt.
    pub system: String,
    /// What is sent of each tool beside the prompt, where tools are called natively.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub definitions: BTreeMap<String, ToolDefinition>,
}

/// A tool as a model that calls tools natively gets it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolDefinition {
    /// What it does.
    pub description: String,
    /// The JSON Schema of its parameters.
    pub parameters: Value,
}

/// Reasons why a request can't be kept as a cassette.
#[derive(Debug, thiserror::Error)]
pub enum NotRecordable {
    /// It has no events, or none that make a task.
    #[error("its log has no beginning")]
    Empty,
    /// It goes on, or waits.
    #[error("it has not ended")]
    NotEnded,
    /// It has what a cassette doesn't keep.
    #[error("event {seq}: {what}, which a cassette doesn't keep")]
    Unsupported {
        /// The number of the event.
        seq: u64,
        /// What happened.
        what: &'static str,
    },
}

impl Cassette {
    /// Takes the recorded request out of its log. The prompts of the modes are not in there; they are composed as it is
    /// played. `tools_of` returns the choice of tools of a profile.
    ///
    /// # Errors
    /// [`NotRecordable`].
    pub fn from_log(
        root: &TaskId,
        records: &[Record<Event>],
        tools_of: impl FnOnce(&str) -> ToolChoice,
    ) -> Result<Self, NotRecordable> {
        let mut recorder = turns::TurnRecorder::new(root.clone());
        records.iter().for_each(|record| recorder.add(record));
        if let Some((seq, what)) = recorder.unsupported() {
            return Err(NotRecordable::Unsupported { seq, what });
        }
        let (profile, mut request) = recorder.request().ok_or(NotRecordable::Empty)?;
        (request.included_tools, request.excluded_tools) = tools_of(&profile).names();
        let tasks = recorder.finish();
        match tasks.first() {
            Some(CassetteTask { end: Some(_), .. }) => Ok(Self {
                version: VERSION,
                request,
                matchers: BTreeMap::new(),
                tasks,
                prompts: BTreeMap::new(),
            }),
            _ => Err(NotRecordable::NotEnded),
        }
    }

    /// Returns whether this version of the program can play it.
    pub fn is_of_this_version(&self) -> bool {
        self.version == VERSION
    }

    /// The task of this branch; the root for none.
    pub fn task(&self, branch: Option<&str>) -> Option<&CassetteTask> {
        self.tasks.iter().find(|task| task.branch.as_deref() == branch)
    }
}
