//! Names of a request's branches in messages and questions.

use std::collections::HashMap;

use roo_protocol::event::{Event, EventParams};
use roo_protocol::ids::TaskId;
use roo_protocol::tree::TreeNode;

/// The names of a request's branches, from its events. The request's own task has none: it is just "roo".
#[derive(Debug, Default)]
pub(super) struct Branches(HashMap<TaskId, String>);

impl Branches {
    /// Takes in what came together. The tree comes behind the events that changed it, so this goes before a
    /// look at them.
    pub(super) fn read<'a>(&mut self, events: impl IntoIterator<Item = &'a EventParams>) {
        for event in events {
            if let Event::TreeChanged { nodes } = &event.event {
                let branches = nodes.iter().filter(|node| node.parent_id.is_some());
                self.0 = branches.map(|node| (node.id.clone(), name(node))).collect();
            }
        }
    }

    /// The name of a branch.
    pub(super) fn name(&self, task: &TaskId) -> Option<&str> {
        self.0.get(task).map(String::as_str)
    }
}

/// A branch by emoji and title, as the tree draws it.
pub(super) fn name(node: &TreeNode) -> String {
    format!("{} {}", node.emoji, node.title)
}

/// A whole tree with what each branch does, one line a branch, for people.
pub(super) fn outline(nodes: &[TreeNode]) -> String {
    let mut depths: HashMap<&TaskId, usize> = HashMap::new();
    let lines = nodes.iter().map(|node| {
        // Parents come before children.
        let parent = node.parent_id.as_ref().and_then(|parent| depths.get(parent));
        let depth = parent.map_or(0, |depth| depth + 1);
        depths.insert(&node.id, depth);
        format!("{}{}: {}", "  ".repeat(depth), name(node), node.state.as_str())
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use roo_protocol::task::TaskState;

    fn node(id: &str, parent: Option<&str>, state: TaskState) -> TreeNode {
        TreeNode {
            id: TaskId::new(id),
            parent_id: parent.map(TaskId::new),
            mode: "code".into(),
            emoji: "💻".into(),
            title: format!("Title of {id}"),
            state,
            started_at: 0,
            ended_at: None,
            tokens: 0,
            cost_usd: 0.0,
        }
    }

    #[test]
    fn an_outline_has_a_line_for_each_branch() {
        let nodes = [
            node("t", None, TaskState::Paused),
            node("t.1", Some("t"), TaskState::Paused),
            node("t.3", Some("t.1"), TaskState::Waiting),
            node("t.2", Some("t"), TaskState::Completed),
        ];
        insta::assert_snapshot!(outline(&nodes), @r"
        💻 Title of t: paused
          💻 Title of t.1: paused
            💻 Title of t.3: waiting
          💻 Title of t.2: completed
        ");
    }

    #[test]
    fn only_branches_have_names() {
        let nodes = vec![node("t", None, TaskState::Paused), node("t.1", Some("t"), TaskState::Running)];
        let root = TaskId::new("t");
        let event = EventParams {
            root_id: root.clone(),
            task_id: root.clone(),
            seq: None,
            from: None,
            at: 0,
            event: Event::TreeChanged { nodes },
        };
        let mut branches = Branches::default();
        branches.read([&event]);
        assert_eq!(branches.name(&TaskId::new("t.1")), Some("💻 Title of t.1"));
        assert_eq!(branches.name(&root), None);
    }
}
