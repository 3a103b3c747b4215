//! The invocation tree as the symbols of a task document, and its files as links.

use std::ops::Range;

use serde_json::{Value, json};

use super::DocumentPosition;
use super::transcript::{MarkKind, Rendering, TextMark};
use crate::server::session::Session;
use crate::view::{RequestView, TaskView};
use roo_protocol::ids::TaskId;

/// LSP's kinds of symbols: a task, and what waits in it.
const TASK: u32 = 12;
const WAITS: u32 = 24;

/// `textDocument/documentSymbol`: as a tree where the client knows trees, else as a list that is drawn like
/// one.
pub(super) fn symbols(session: &Session, place: &DocumentPosition) -> Value {
    let (Some(document), Some(rendering)) = (&place.document, place.rendering()) else { return json!([]) };
    let hierarchical = session.negotiated().is_some_and(|negotiated| negotiated.symbol_trees);
    let transcript = document.transcript();
    let tree =
        SymbolTree { place, view: transcript.view(), rendering: &rendering, positions: place.positions() };
    let Some(root) = transcript.view().root() else { return json!([]) };
    if hierarchical {
        return json!([tree.symbol(root)]);
    }
    let mut list = Vec::new();
    tree.list(root, 0, None, &mut list);
    list.into()
}

/// `textDocument/documentLink`.
pub(super) fn links(place: &DocumentPosition) -> Value {
    let Some(rendering) = place.rendering() else { return Value::Null };
    let positions = place.positions();
    let link = |mark: &TextMark| match &mark.kind {
        MarkKind::Link(uri) => {
            Some(json!({ "range": DocumentPosition::range_of(&positions, &mark.range), "target": uri }))
        }
        _ => None,
    };
    rendering.marks.iter().filter_map(link).collect()
}

struct SymbolTree<'a> {
    place: &'a DocumentPosition,
    view: &'a RequestView,
    rendering: &'a Rendering,
    positions: roo_text::position::Positions<'a>,
}

impl SymbolTree<'_> {
    fn children(&self, of: &TaskId) -> impl Iterator<Item = &TaskView> {
        self.view.tasks().iter().filter(move |task| task.parent.as_ref() == Some(of))
    }

    /// Returns what waits in a task: where, and what.
    fn waits(&self, task: &TaskId) -> Vec<(Range<usize>, String)> {
        let prompts = self.view.prompts().filter(|(owner, _)| *owner == task);
        prompts
            .filter_map(|(_, prompt)| Some((heading_of(self.rendering, prompt.id())?, prompt.title())))
            .collect()
    }

    fn symbol(&self, task: &TaskView) -> Value {
        let heading = sections(self.rendering, &task.id).next().map(|section| section.0).unwrap_or_default();
        let mut children: Vec<Value> = self
            .waits(&task.id)
            .into_iter()
            .map(|(range, title)| {
                let range = DocumentPosition::range_of(&self.positions, &range);
                json!({ "name": format!("? {title}"), "kind": WAITS, "range": range, "selectionRange": range })
            })
            .collect();
        children.extend(self.children(&task.id).map(|child| self.symbol(child)));
        json!({
            "name": task.name(),
            "detail": task.state.as_str(),
            "kind": TASK,
            "range": DocumentPosition::range_of(&self.positions, &self.whole(&task.id)),
            "selectionRange": DocumentPosition::range_of(&self.positions, &heading),
            "children": children,
        })
    }

    /// From where a task begins to where the last task below it ends.
    fn whole(&self, task: &TaskId) -> Range<usize> {
        let mut own = sections(self.rendering, task);
        let mut range = own.next().map(|(heading, end)| heading.start..end).unwrap_or_default();
        range.end = own.map(|(_, end)| end).fold(range.end, usize::max);
        for child in self.children(task) {
            range.end = range.end.max(self.whole(&child.id).end);
        }
        range
    }

    fn list(&self, task: &TaskView, depth: usize, parent: Option<&str>, list: &mut Vec<Value>) {
        let heading = sections(self.rendering, &task.id).next().map(|section| section.0).unwrap_or_default();
        let name = format!("{}{}: {}", branch(depth), task.name(), task.state.as_str());
        let mut push = |name: String, kind: u32, range: &Range<usize>, container: Option<&str>| {
            let location =
                json!({ "uri": self.place.uri, "range": DocumentPosition::range_of(&self.positions, range) });
            let mut symbol = json!({ "name": name, "kind": kind, "location": location });
            if let Some(container) = container {
                symbol["containerName"] = container.into();
            }
            list.push(symbol);
        };
        push(name, TASK, &heading, parent);
        let own = task.name();
        for (range, title) in self.waits(&task.id) {
            push(format!("{}? {title}", branch(depth + 1)), WAITS, &range, Some(&own));
        }
        for child in self.children(&task.id) {
            self.list(child, depth + 1, Some(&own), list);
        }
    }
}

fn branch(depth: usize) -> String {
    if depth == 0 { String::new() } else { format!("{}└ ", "  ".repeat(depth - 1)) }
}

/// The sections of a task: each heading, and where its section ends.
fn sections<'a>(
    rendering: &'a Rendering,
    task: &'a TaskId,
) -> impl Iterator<Item = (Range<usize>, usize)> + 'a {
    let mut headings =
        rendering.marks.iter().filter(|mark| matches!(mark.kind, MarkKind::Section(_))).peekable();
    std::iter::from_fn(move || {
        loop {
            let mark = headings.next()?;
            let end = headings.peek().map_or(rendering.text.len(), |next| next.range.start);
            if matches!(&mark.kind, MarkKind::Section(id) if id == task) {
                return Some((mark.range.clone(), end));
            }
        }
    })
}

/// Returns the heading of something that waits.
pub(super) fn heading_of(rendering: &Rendering, id: &str) -> Option<Range<usize>> {
    let is_it = |mark: &&TextMark| matches!(&mark.kind, MarkKind::Asked(asked) if asked == id);
    rendering.marks.iter().find(is_it).map(|mark| mark.range.clone())
}

/// The task in whose section a place is.
pub(super) fn task_at(rendering: &Rendering, offset: usize) -> Option<&TaskId> {
    let before = rendering.marks.iter().filter(|mark| mark.range.start <= offset);
    before
        .filter_map(|mark| match &mark.kind {
            MarkKind::Section(task) => Some(task),
            _ => None,
        })
        .next_back()
}
