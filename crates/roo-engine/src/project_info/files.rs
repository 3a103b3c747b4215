//! A drawing of the files below a directory.

use std::collections::VecDeque;

use super::Limits;
use roo_text::render::exact_line;
use roo_workspace::{FoundKind, Resolved, Walk, Workspace};
use tokio::time::Instant;

/// The most entries of one directory, so that a large one does not displace all others.
const PER_DIRECTORY: usize = 80;

/// Directories that are named, not opened: what programs put there says little about a project.
const CLOSED: &[&str] = &["__pycache__", "node_modules", "Pods", "target", "vendor", "venv", ".venv"];

struct Node {
    line: String,
    children: Vec<usize>,
    /// Entries that are there and not drawn.
    more: usize,
}

/// Draws what is below a directory, level by level until a limit is reached, so that what is cut off
/// lies deep. What `.gitignore` or `.rooignore` names, and `.git`, is left out.
pub(super) fn tree(workspace: &Workspace, root: &Resolved, limits: Limits, until: Instant) -> String {
    let rules = workspace.rules(root);
    let mut nodes = vec![Node { line: ".".to_owned(), children: Vec::new(), more: 0 }];
    let mut open = VecDeque::from([(0, String::new(), 0)]);
    let mut late = false;
    while let Some((parent, path, depth)) = open.pop_front() {
        late |= Instant::now() > until;
        if late || depth >= limits.depth || nodes.len() > limits.entries {
            nodes[parent].line.push_str(" (not shown)");
            continue;
        }
        let directory = if path.is_empty() { root.clone() } else { root.below(&path) };
        let walk = Walk { recursive: false, leave_out: |name| name == ".git" };
        for found in walk.below(&directory, rules.clone()) {
            if nodes[parent].children.len() == PER_DIRECTORY || nodes.len() > limits.entries {
                nodes[parent].more += 1;
                if nodes[parent].more.is_multiple_of(1024) && Instant::now() > until {
                    late = true;
                    break;
                }
                continue;
            }
            let index = nodes.len();
            let is_directory = found.kind == FoundKind::Directory;
            let below = if path.is_empty() { found.path.clone() } else { format!("{path}/{}", found.path) };
            let mut line = exact_line(&found.path);
            if is_directory {
                line.push('/');
                // The notes of earlier requests are not the project.
                match CLOSED.contains(&found.path.as_str()) || below == ".roo/tasks" {
                    true => line.push_str(" (not shown)"),
                    false => open.push_back((index, below, depth + 1)),
                }
            }
            nodes.push(Node { line, children: Vec::new(), more: 0 });
            nodes[parent].children.push(index);
        }
    }
    let drawn = draw(&nodes);
    let note = if late { "\n\nThis took too long and is incomplete." } else { "" };
    format!("```text\n{drawn}\n```{note}")
}

fn draw(nodes: &[Node]) -> String {
    let mut lines = Vec::new();
    // What is still to be drawn, the next one last: the line, its node, and the start of lines below it.
    let mut open = vec![(nodes[0].line.clone(), Some(0), String::new())];
    while let Some((line, index, below)) = open.pop() {
        lines.push(line);
        let Some(node) = index.map(|index: usize| &nodes[index]) else { continue };
        let children = node.children.iter().map(|&child| (nodes[child].line.clone(), Some(child)));
        let more = (node.more > 0).then(|| (format!("… {} more", node.more), None));
        for (position, (line, index)) in
            children.chain(more).collect::<Vec<_>>().into_iter().rev().enumerate()
        {
            // From the last one up.
            let (start, beyond) =
                if position == 0 { ("└── ", "    ") } else { ("├── ", "│   ") };
            open.push((format!("{below}{start}{line}"), index, format!("{below}{beyond}")));
        }
    }
    lines.join("\n")
}
