//! The invocation tree for people: drawn with what state each branch is in, at the bottom of a terminal
//! or as it comes.

use std::fmt::Write as _;

use roo_formats::modes::delegation::{self, Branch};
use roo_protocol::ids::TaskId;
use roo_protocol::task::TaskState;
use roo_protocol::tree::TreeNode;

/// The most lines of a tree that stays at the bottom: what scrolls off can't be drawn over.
const FOOTER_LINES: usize = 10;

/// The tree, with a note behind each branch and without a line end after the last line.
pub(super) fn draw(nodes: &[TreeNode], here: Option<&TaskId>, note: impl Fn(&TreeNode) -> String) -> String {
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

/// Returns the name of a branch: its mode's emoji and its title.
pub(super) fn label(node: &TreeNode) -> String {
    delegation::draw(&[Branch { parent: None, emoji: &node.emoji, title: &node.title }], None)
}

/// The state of a branch, in a word.
pub(super) fn state(node: &TreeNode) -> String {
    node.state.as_str().to_owned()
}

/// The state of a branch, and the number by which it can be named.
pub(super) fn numbered(node: &TreeNode) -> String {
    match node.id.as_str().split_once('.') {
        Some((_, number)) => format!("{}, .{number}", node.state.as_str()),
        None => state(node),
    }
}

/// Returns whether nothing goes on before somebody answers.
pub(super) fn stands_still(nodes: &[TreeNode]) -> bool {
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

/// A tree that stays below everything that a terminal is told.
#[derive(Debug, Default)]
pub(super) struct Footer {
    /// Number of its lines above the cursor.
    lines: usize,
}

impl Footer {
    /// Returns the escape sequence that erases the tree.
    pub(super) fn erase(&mut self) -> String {
        match std::mem::take(&mut self.lines) {
            0 => String::new(),
            lines => format!("\u{1b}[{lines}A\u{1b}[J"),
        }
    }

    /// Draws the tree at the cursor, which must be at the beginning of a line. Nothing for a request of one task.
    pub(super) fn draw(&mut self, nodes: &[TreeNode]) -> String {
        if nodes.len() < 2 {
            return String::new();
        }
        let drawing = draw(nodes, None, state);
        // A line that wrapped would count as several: the terminal is to cut it.
        let mut text = "\u{1b}[?7l".to_owned();
        for line in drawing.lines().take(FOOTER_LINES) {
            // Writing to a string can't fail.
            let _ = writeln!(text, "{line}");
        }
        self.lines = drawing.lines().count();
        if let Some(more) = self.lines.checked_sub(FOOTER_LINES).filter(|more| *more > 0) {
            let _ = writeln!(text, "… and {more} more");
            self.lines = FOOTER_LINES + 1;
        }
        text + "\u{1b}[?7h"
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A branch below the root.
    fn node(number: u32, title: &str, state: &str) -> TreeNode {
        let (id, parent) = if number == 0 { ("t".into(), None) } else { (format!("t.{number}"), Some("t")) };
        serde_json::from_value(json!({
            "id": id, "parentId": parent, "mode": "code", "emoji": "💻", "title": title, "state": state,
            "startedAt": 0, "tokens": 0, "costUsd": 0.0,
        }))
        .unwrap()
    }

    #[test]
    fn branches_are_drawn_with_state_and_number() {
        let nodes = [node(0, "All", "paused"), node(3, "One", "completed"), node(7, "Two", "running")];
        insta::assert_snapshot!(draw(&nodes, Some(&TaskId::new("t.3")), numbered), @"
        💻 All — paused
        ├── 💻 One — completed, .3
        │   ^ we are here
        └── 💻 Two — running, .7
        ");
        assert!(!stands_still(&nodes));
        assert!(!stands_still(&nodes[..2]), "the next branch is about to begin");
        assert!(stands_still(&[
            node(0, "All", "paused"),
            node(3, "One", "waiting"),
            node(7, "Two", "failed")
        ]));
    }

    #[test]
    fn a_footer_takes_away_as_many_lines_as_it_drew() {
        let mut footer = Footer::default();
        assert_eq!(footer.draw(&[node(0, "Alone", "running")]), "");
        assert_eq!(footer.erase(), "");
        let nodes: Vec<TreeNode> = (0..30).map(|number| node(number, "B", "running")).collect();
        for (count, lines) in [(2, 2), (10, 10), (11, 11), (30, 11)] {
            let text = footer.draw(&nodes[..count]);
            assert_eq!(text.matches('\n').count(), lines);
            assert!(text.starts_with("\u{1b}[?7l") && text.ends_with("\u{1b}[?7h"), "{text:?}");
            assert_eq!(footer.erase(), format!("\u{1b}[{lines}A\u{1b}[J"));
            assert_eq!(footer.erase(), "");
        }
        assert!(footer.draw(&nodes).contains("… and 20 more\n"));
    }
}
