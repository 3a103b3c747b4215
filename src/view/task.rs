//! One task of a request, what it asks its user, and the commands that it left running.

use roo_protocol::context::ContextMeter;
use roo_protocol::ids::{CommandId, TaskId};
use roo_protocol::task::{
    PendingApproval, PendingQuestion, QueueItem, TaskSnapshot, TaskState, TodoItem, ToolUsage, Usage,
};
use roo_protocol::tree::TreeNode;
use roo_text::render::one_line;

/// The longest title of a task or a prompt, in characters.
const TITLE: usize = 80;

/// One task, as far as its events tell.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TaskView {
    pub(crate) id: TaskId,
    pub(crate) parent: Option<TaskId>,
    pub(crate) emoji: String,
    pub(crate) title: String,
    pub(crate) mode: String,
    /// The model profile that it was switched to.
    pub(crate) profile: Option<String>,
    pub(crate) state: TaskState,
    /// Reason why it is in its state, where that isn't plain.
    pub(crate) reason: Option<String>,
    pub(crate) result: Option<String>,
    pub(crate) usage: Usage,
    /// The size of the newest model request.
    pub(crate) context: Option<ContextMeter>,
    pub(crate) tool_usage: ToolUsage,
    pub(crate) todo: Vec<TodoItem>,
    /// Messages that wait for it.
    pub(crate) queue: Vec<QueueItem>,
}

impl TaskView {
    pub(super) fn new(id: &TaskId, parent: Option<&TaskId>, mode: &str, title: &str, emoji: &str) -> Self {
        Self {
            id: id.clone(),
            parent: parent.cloned(),
            emoji: emoji.to_owned(),
            title: title.to_owned(),
            mode: mode.to_owned(),
            profile: None,
            state: TaskState::Running,
            reason: None,
            result: None,
            usage: Usage::default(),
            context: None,
            tool_usage: ToolUsage::default(),
            todo: vec![],
            queue: vec![],
        }
    }

    pub(super) fn of_snapshot(task: &TaskSnapshot, node: Option<&TreeNode>) -> Self {
        let TaskSnapshot { item, .. } = task;
        let parent = node.and_then(|node| node.parent_id.as_ref());
        let emoji = node.map_or("", |node| &node.emoji);
        Self {
            state: item.state,
            reason: task.reason.clone(),
            result: task.result.clone(),
            usage: item.usage,
            context: task.context,
            tool_usage: task.tool_usage.clone(),
            todo: task.todo.clone(),
            queue: task.queue.clone(),
            ..Self::new(&item.task_id, parent, &item.mode, &item.title, emoji)
        }
    }

    /// What was used and waits is another request's.
    pub(super) fn begin_fork(&mut self) {
        self.usage = Usage::default();
        self.tool_usage = ToolUsage::default();
        self.queue.clear();
    }

    /// Takes in what a change of state brings besides.
    pub(super) fn end(&mut self, result: Option<&str>, usage: Option<Usage>, tool_usage: &ToolUsage) {
        if let Some(result) = result {
            self.result = Some(result.to_owned());
        }
        self.usage = usage.unwrap_or(self.usage);
        if !tool_usage.is_empty() {
            self.tool_usage = tool_usage.clone();
        }
    }

    pub(super) fn switch(&mut self, mode: Option<&str>, profile: Option<&str>) {
        if let Some(mode) = mode {
            mode.clone_into(&mut self.mode);
        }
        if let Some(profile) = profile {
            self.profile = Some(profile.to_owned());
        }
    }

    /// Returns its name: the mode of a request's own task, title and mode of a branch.
    pub(crate) fn name(&self) -> String {
        let title = one_line(&self.title, TITLE);
        let name = if self.id.is_root() { self.mode.clone() } else { format!("{title} ({})", self.mode) };
        if self.emoji.is_empty() { name } else { format!("{} {name}", self.emoji) }
    }
}

/// Something that waits for the user.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Prompt {
    /// A request for permission.
    Approval(PendingApproval),
    Question(PendingQuestion),
}

impl Prompt {
    /// The id by which it is answered.
    pub(crate) fn id(&self) -> &str {
        match self {
            Self::Approval(approval) => approval.approval_id.as_str(),
            Self::Question(question) => question.question_id.as_str(),
        }
    }

    /// Returns its title, on one line.
    pub(crate) fn title(&self) -> String {
        match self {
            Self::Approval(approval) => one_line(&approval.title, TITLE),
            Self::Question(question) => one_line(&question.text, TITLE * 2),
        }
    }

    /// The approval, if it is one.
    pub(super) fn approval(self) -> Option<PendingApproval> {
        match self {
            Self::Approval(approval) => Some(approval),
            Self::Question(_) => None,
        }
    }

    /// The question, if it is one.
    pub(super) fn question(self) -> Option<PendingQuestion> {
        match self {
            Self::Question(question) => Some(question),
            Self::Approval(_) => None,
        }
    }
}

/// A command that runs in the background.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BackgroundCommand {
    pub(crate) id: CommandId,
    /// The command line.
    pub(crate) line: String,
}
