//! The tree of branches: their names, the tree as text, and whether anything in it goes on by itself.

use std::collections::HashMap;

use roo_formats::modes::delegation::{self, Branch};
use roo_protocol::event::{Event, EventParams};
use roo_protocol::ids::TaskId;
use roo_protocol::task::TaskState;
use roo_protocol::tree::TreeNode;

/// All branches of a request as the server knows them, parents before children.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct BranchTree(Vec<TreeNode>);

impl BranchTree {
    /// Replaces all branches.
    pub(crate) fn set(&mut self, nodes: &[TreeNode]) {
        self.0 = nodes.to_vec();
    }

    /// The branches, the request's own task first.
    pub(crate) fn nodes(&self) -> &[TreeNode] {
        &self.0
    }

    fn node(&self, task: &TaskId) -> Option<&TreeNode> {
        self.0.iter().find(|node| node.id == *task)
    }

    /// Returns the name of a branch; none for the request's own task and for what isn't known yet.
    pub(crate) fn name(&self, task: &TaskId) -> Option<String> {
        self.node(task).filter(|node| node.parent_id.is_some()).map(branch_name)
    }

    /// The place of a branch among all, from 0.
    pub(crate) fn position(&self, task: &TaskId) -> Option<usize> {
        self.0.iter().position(|node| node.id == *task)
    }

    /// Number of branches above a branch.
    pub(crate) fn depth(&self, task: &TaskId) -> usize {
        let parent = |id: &TaskId| self.node(id)?.parent_id.clone();
        let above = std::iter::successors(parent(task), parent);
        // A circle is never walked twice.
        above.take(self.0.len()).count()
    }
}

/// Returns the name of a branch: its mode's emoji and its title.
pub(crate) fn branch_name(node: &TreeNode) -> String {
    delegation::draw(&[Branch { parent: None, emoji: &node.emoji, title: &node.title }], None)
}

/// The newest tree among events that came together. It comes behind the events that changed it, and front ends name
/// branches by it while they show those, so they look for it first.
pub(crate) fn newest_tree<'e>(events: impl IntoIterator<Item = &'e EventParams>) -> Option<&'e [TreeNode]> {
    let tree = |params: &'e EventParams| match &params.event {
        Event::TreeChanged { nodes } => Some(nodes.as_slice()),
        _ => None,
    };
    events.into_iter().filter_map(tree).last()
}

/// Draws the tree with a note behind each branch, without a line end after the last line. `here` is marked.
pub(crate) fn draw_tree(
    nodes: &[TreeNode],
    here: Option<&TaskId>,
    note: impl Fn(&TreeNode) -> String,
) -> String {
    let place = |id: &TaskId| nodes.iter().position(|node| node.id == *id);
    let titles: Vec<String> = nodes.iter().map(|node| format!("{} — {}", node.title, note(node))).collect();
    let branches: Vec<Branch<'_>> = nodes
        .iter()
        .zip(&titles)
        .map(|(node, title)| Branch {
            parent: node.parent_id.as_ref().and_then(place),
            emoji: &node.emoji,
            title,
        })
        .collect();
    delegation::draw(&branches, here.and_then(place))
}

/// The state of a branch, in a word.
pub(crate) fn state_label(node: &TreeNode) -> String {
    node.state.as_str().to_owned()
}

/// The state of a branch, and the number by which it can be named.
pub(crate) fn state_with_number(node: &TreeNode) -> String {
    match node.id.as_str().split_once('.') {
        Some((_, number)) => format!("{}, .{number}", node.state.as_str()),
        None => state_label(node),
    }
}

/// Returns the tree with the state of each branch, one line a branch, for a message of plain text.
pub(crate) fn outline(nodes: &[TreeNode]) -> String {
    let mut depths: HashMap<&TaskId, usize> = HashMap::new();
    let lines = nodes.iter().map(|node| {
        // Parents come before children.
        let parent = node.parent_id.as_ref().and_then(|parent| depths.get(parent));
        let depth = parent.map_or(0, |depth| depth + 1);
        depths.insert(&node.id, depth);
        format!("{}{}: {}", "  ".repeat(depth), branch_name(node), node.state.as_str())
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns whether nothing goes on before somebody answers.
pub(crate) fn waits_for_user(nodes: &[TreeNode]) -> bool {
    // A branch that has been decided on but is not there yet is about to begin.
    let has_branch = |parent: &TreeNode| {
        nodes.iter().any(|node| node.parent_id.as_ref() == Some(&parent.id) && !node.state.is_final())
    };
    nodes.iter().all(|node| match node.state {
        TaskState::Waiting => true,
        TaskState::Paused => has_branch(node),
        state => state.is_final(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: &str, parent: Option<&str>, title: &str, state: TaskState) -> TreeNode {
        TreeNode {
            id: TaskId::new(id),
            parent_id: parent.map(TaskId::new),
            mode: "code".into(),
            emoji: "💻".into(),
            title: title.into(),
            state,
            started_at: 0,
            ended_at: None,
            tokens: 0,
            cost_usd: 0.0,
        }
    }

    #[test]
    fn branches_are_drawn_with_state_and_number() {
        use TaskState::{Completed, Failed, Paused, Running, Waiting};
        let all = node("t", None, "All", Paused);
        let two = |state| node("t.7", Some("t"), "Two", state);
        let one = |state| node("t.3", Some("t"), "One", state);
        let nodes = [all.clone(), one(Completed), two(Running)];
        insta::assert_snapshot!(draw_tree(&nodes, Some(&TaskId::new("t.3")), state_with_number), @"
        💻 All — paused
        ├── 💻 One — completed, .3
        │   ^ we are here
        └── 💻 Two — running, .7
        ");
        assert!(!waits_for_user(&nodes));
        assert!(!waits_for_user(&nodes[..2]), "the next branch is about to begin");
        assert!(waits_for_user(&[all, one(Waiting), two(Failed)]));
    }

    #[test]
    fn an_outline_has_a_line_for_each_branch() {
        let nodes = [
            node("t", None, "Title of t", TaskState::Paused),
            node("t.1", Some("t"), "Title of t.1", TaskState::Paused),
            node("t.3", Some("t.1"), "Title of t.3", TaskState::Waiting),
            node("t.2", Some("t"), "Title of t.2", TaskState::Completed),
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
        let mut tree = BranchTree::default();
        tree.set(&[
            node("t", None, "All", TaskState::Paused),
            node("t.1", Some("t"), "One", TaskState::Running),
        ]);
        assert_eq!(tree.name(&TaskId::new("t.1")).as_deref(), Some("💻 One"));
        assert_eq!(tree.name(&TaskId::new("t")), None);
        assert_eq!((tree.depth(&TaskId::new("t.1")), tree.depth(&TaskId::new("t"))), (1, 0));
    }
}
