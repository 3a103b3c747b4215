//! The state of a request as calling agents get it: what came of it, what it waits for, and who can go on with it.

use schemars::JsonSchema;
use serde::Serialize;

use super::error::RequestError;
use crate::masking::Mask;
use crate::view::{MessageRole, branch_name, conversation, waits_for_user};
use roo_engine::engine::{Engine, Resumable};
use roo_protocol::event::QuestionKind;
use roo_protocol::ids::TaskId;
use roo_protocol::task::{PendingApproval, PendingQuestion, TaskSnapshot, TaskState};
use roo_protocol::tree::TreeNode;

/// The longest message or subject, in bytes.
const MESSAGE: usize = 4 << 10;
/// The longest result, in bytes.
const RESULT: usize = 16 << 10;
/// The most changed files that are named.
const FILES: usize = 100;
/// The most things that it waits for.
const WAITS: usize = 20;

/// State of a task, for a calling agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Stage {
    /// The model or a tool is at work.
    Working,
    /// It asked something that you can answer.
    WaitsForAnswer,
    /// It waits for its user, whom you can't answer for.
    WaitsForUser,
    /// It was cut off; answer_task lets it go on.
    Interrupted,
    /// It ended well.
    Completed,
    /// It ended without reaching its goal.
    Failed,
    /// It was cancelled.
    Cancelled,
}

/// Who can give an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answerer {
    /// Whoever calls this server.
    You,
    /// The user of roo-lsp alone.
    User,
}

/// Something that a task waits for.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub(super) struct WaitsFor {
    /// Who can answer it.
    answered_by: Answerer,
    /// Branch that asks; absent for the task itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    branch: Option<String>,
    /// For answer_task; absent for what the user answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    question_id: Option<String>,
    /// The question, or what permission is asked for.
    text: String,
    /// The exact action: a diff, a command line.
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<String>,
    /// Suggested answers; any other text is allowed too.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    suggestions: Vec<String>,
    /// True if it is the model's question, and none about how to go on.
    #[serde(skip)]
    is_followup: bool,
}

/// A question of the model in a task.
pub(super) struct OpenQuestion {
    pub(super) id: String,
    pub(super) text: String,
    pub(super) suggestions: Vec<String>,
}

/// State of a task.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub(super) struct TaskStatus {
    /// Names the task in all tools.
    id: String,
    /// Its prompt on one line, shortened.
    title: String,
    /// The mode that it works in.
    mode: String,
    state: Stage,
    /// What can be done next.
    next: String,
    /// What it waits for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    waits_for: Vec<WaitsFor>,
    /// The newest text of its model.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_message: Option<String>,
    /// What came of it, if it is completed.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<String>,
    /// Reason for its state, where that isn't plain.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// Files that it has changed, as far as that was recorded; at most 100.
    files_changed: Vec<String>,
    /// Cost so far, in US dollars; 0 where no price is known.
    cost_usd: f64,
    /// Input tokens so far, without those from the provider's cache.
    tokens_in: u64,
    /// Output tokens so far.
    tokens_out: u64,
    #[serde(skip)]
    is_open_elsewhere: bool,
}

impl TaskStatus {
    /// Returns whether another process drives it.
    pub(super) fn is_open_elsewhere(&self) -> bool {
        self.is_open_elsewhere
    }

    /// The first question of the model that the caller can answer.
    pub(super) fn question(&self) -> Option<OpenQuestion> {
        let asked = self.waits_for.iter().find(|waits| waits.is_followup)?;
        let who = asked.branch.as_ref().map(|branch| format!(" ({branch})")).unwrap_or_default();
        Some(OpenQuestion {
            id: asked.question_id.clone()?,
            text: format!("The task \"{}\"{who} asks: {}", self.title, asked.text),
            suggestions: asked.suggestions.clone(),
        })
    }
}

/// Reads the state of a request. `is_driven`: whether this process drives it; `folder`: the workspace, as a word of a command
/// line; `mask` is over all texts of models, tools and users.
pub(super) async fn read(
    engine: &Engine,
    task: &TaskId,
    is_driven: bool,
    folder: &str,
    mask: &Mask,
) -> Result<TaskStatus, RequestError> {
    let cut = |text: &str, most: usize| cut(&mask.masked(text.to_owned()), most);
    let snapshot = engine.get(task).await?;
    let Resumable { nodes, approvals, questions, .. } = engine.resumable(task).await?;
    let changes = engine.changes(task).await?;
    let mut waits_for: Vec<WaitsFor> =
        approvals.iter().map(|(task, asked)| waits_for_approval(&nodes, task, asked, cut)).collect();
    waits_for.extend(questions.iter().map(|(task, asked)| waits_for_answer(&nodes, task, asked, cut)));
    waits_for.truncate(WAITS);
    let item = &snapshot.item;
    let stage = stage(item.state, &nodes, &waits_for);
    let is_open_elsewhere = !is_driven && !item.state.is_final() && item.state != TaskState::Interrupted;
    let id = item.urid.to_string();
    Ok(TaskStatus {
        next: next(stage, is_open_elsewhere, &id, folder),
        title: mask.masked(item.title.clone()),
        mode: item.mode.clone(),
        state: stage,
        waits_for,
        last_message: last_message(&snapshot).map(|text| cut(text, MESSAGE)),
        result: snapshot.result.as_deref().map(|text| cut(text, RESULT)),
        reason: snapshot.reason.as_deref().map(|text| cut(text, MESSAGE)),
        files_changed: changes.files.into_iter().take(FILES).map(|file| mask.masked(file.path)).collect(),
        cost_usd: item.usage.cost_usd,
        tokens_in: item.usage.tokens_in,
        tokens_out: item.usage.tokens_out,
        is_open_elsewhere,
        id,
    })
}

fn stage(state: TaskState, nodes: &[TreeNode], waits_for: &[WaitsFor]) -> Stage {
    let waiting = || match waits_for.iter().any(|waits| waits.answered_by == Answerer::User) {
        true => Stage::WaitsForUser,
        false => Stage::WaitsForAnswer,
    };
    match state {
        TaskState::Completed => Stage::Completed,
        TaskState::Failed => Stage::Failed,
        TaskState::Cancelled => Stage::Cancelled,
        TaskState::Interrupted if waits_for.is_empty() => Stage::Interrupted,
        TaskState::Interrupted => waiting(),
        TaskState::Running | TaskState::Waiting | TaskState::Paused => {
            match !waits_for.is_empty() && waits_for_user(nodes) {
                true => waiting(),
                false => Stage::Working,
            }
        }
    }
}

/// Says what can be done next.
fn next(stage: Stage, is_open_elsewhere: bool, id: &str, folder: &str) -> String {
    if is_open_elsewhere {
        return "It is open in another roo-lsp, such as an editor or a terminal of its user, and is steered there. \
                wait_for_task looks at it again when its time is over."
            .to_owned();
    }
    match stage {
        Stage::Working => "wait_for_task waits until it needs something or has ended.".to_owned(),
        Stage::WaitsForAnswer => "answer_task answers it.".to_owned(),
        Stage::WaitsForUser => format!(
            "Only its user can answer what it waits for; no tool of this server can. Tell your user what it is, and that they \
             answer by continuing the task in an editor with roo-lsp, or in a terminal with: roo-lsp --workspace {folder} tasks \
             resume {id}"
        ),
        Stage::Interrupted => "answer_task with what to do next lets it go on.".to_owned(),
        Stage::Completed | Stage::Failed | Stage::Cancelled => {
            "It has ended. read_task has all of it; answer_task with more to do lets it go on.".to_owned()
        }
    }
}

fn waits_for_approval(
    nodes: &[TreeNode],
    task: &TaskId,
    approval: &PendingApproval,
    cut: impl Fn(&str, usize) -> String,
) -> WaitsFor {
    let reason = match approval.reason.as_str() {
        "" => String::new(),
        reason => format!(" ({reason})"),
    };
    WaitsFor {
        answered_by: Answerer::User,
        branch: branch(nodes, task).map(|name| cut(&name, MESSAGE)),
        question_id: None,
        text: cut(&format!("Permission: {}{reason}", approval.title), MESSAGE),
        subject: Some(cut(&approval.subject, MESSAGE)),
        suggestions: vec![],
        is_followup: false,
    }
}

fn waits_for_answer(
    nodes: &[TreeNode],
    task: &TaskId,
    question: &PendingQuestion,
    cut: impl Fn(&str, usize) -> String,
) -> WaitsFor {
    let is_callers = !question.kind.is_for_user_alone();
    WaitsFor {
        answered_by: if is_callers { Answerer::You } else { Answerer::User },
        branch: branch(nodes, task).map(|name| cut(&name, MESSAGE)),
        question_id: is_callers.then(|| question.question_id.to_string()),
        text: cut(&question.text, MESSAGE),
        subject: None,
        suggestions: question.suggestions.iter().map(|suggestion| cut(&suggestion.text, MESSAGE)).collect(),
        is_followup: question.kind == QuestionKind::Followup,
    }
}

fn branch(nodes: &[TreeNode], task: &TaskId) -> Option<String> {
    let node = nodes.iter().find(|node| node.id == *task && node.parent_id.is_some());
    node.map(branch_name)
}

fn last_message(task: &TaskSnapshot) -> Option<&str> {
    let answers = conversation(task).filter(|passage| passage.role == MessageRole::Answer);
    answers.last().map(|passage| passage.message.text.trim()).filter(|text| !text.is_empty())
}

/// The beginning of a text, with a mark where it was cut.
fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(most)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(cut("äöü", 6), "äöü");
        assert_eq!(cut("äöü", 3), "ä…");
    }
}
