//! The tree of branches at the bottom of a terminal.

use std::fmt::Write as _;

use crate::view::{draw_tree, state_label};
use roo_protocol::tree::TreeNode;

/// The most lines of a tree that stays at the bottom: what scrolls off can't be drawn over.
const FOOTER_LINES: usize = 10;

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
        let drawing = draw_tree(nodes, None, state_label);
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
