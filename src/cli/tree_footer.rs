//! The tree of branches at the bottom of a terminal, and below it what is at work.

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
            // What is typed is echoed at the cursor, and moves it.
            lines => format!("\r\u{1b}[{lines}A\u{1b}[J"),
        }
    }

    /// Draws the tree and a line below it at the cursor, which must be at the beginning of a line. A request of one task has
    /// no tree.
    pub(super) fn draw(&mut self, nodes: &[TreeNode], activity: Option<&str>) -> String {
        let drawing = if nodes.len() < 2 { String::new() } else { draw_tree(nodes, None, state_label) };
        let mut lines: Vec<&str> = drawing.lines().take(FOOTER_LINES).collect();
        let more = drawing.lines().count() - lines.len();
        let more = format!("… and {more} more");
        if drawing.lines().count() > FOOTER_LINES {
            lines.push(&more);
        }
        lines.extend(activity);
        self.lines = lines.len();
        if lines.is_empty() {
            return String::new();
        }
        // A line that wrapped would count as several: the terminal is to cut it.
        format!("\u{1b}[?7l{}\n\u{1b}[?7h", lines.join("\n"))
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
        assert_eq!(footer.draw(&[node(0, "Alone", "running")], None), "");
        assert_eq!(footer.erase(), "");
        let alone = footer.draw(&[node(0, "Alone", "running")], Some("… make · 3 s"));
        assert_eq!(alone, "\u{1b}[?7l… make · 3 s\n\u{1b}[?7h");
        assert_eq!(footer.erase(), "\r\u{1b}[1A\u{1b}[J");
        let nodes: Vec<TreeNode> = (0..30).map(|number| node(number, "B", "running")).collect();
        for (count, lines) in [(2, 2), (10, 10), (11, 11), (30, 11)] {
            let text = footer.draw(&nodes[..count], None);
            assert_eq!(text.matches('\n').count(), lines);
            assert!(text.starts_with("\u{1b}[?7l") && text.ends_with("\u{1b}[?7h"), "{text:?}");
            assert_eq!(footer.erase(), format!("\r\u{1b}[{lines}A\u{1b}[J"));
            assert_eq!(footer.erase(), "");
        }
        assert!(footer.draw(&nodes, None).contains("… and 20 more\n"));
    }
}
