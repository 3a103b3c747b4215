//! A page as text: its accessibility tree, one element a line, and the refs by which elements are named.

use std::collections::{BTreeMap, HashMap, HashSet};

use roo_catalog::ElementRef;
use roo_text::render::one_line;
use serde_json::Value;

use crate::protocol::AccessibilityNode;
use crate::secret_mask::SecretMask;

/// The longest name or text of an element, in characters.
const NAME: usize = 200;
/// The most elements of a page that are looked at.
const NODES: usize = 20_000;
/// The deepest indentation; what lies deeper stands at this one.
const DEPTH: usize = 30;

/// Roles that say nothing: what is in them stands in their place.
const TRANSPARENT: &[&str] =
    &["none", "generic", "RootWebArea", "InlineTextBox", "LineBreak", "ListMarker", ""];
/// Roles of elements that are used, even where they can't be focused.
const USED: &[&str] = &[
    "button",
    "checkbox",
    "combobox",
    "ComboBoxMenuButton",
    "ComboBoxGrouping",
    "link",
    "listbox",
    "menuitem",
    "menuitemcheckbox",
    "menuitemradio",
    "option",
    "radio",
    "searchbox",
    "slider",
    "spinbutton",
    "switch",
    "tab",
    "textbox",
    "treeitem",
];
/// States that are shown where they hold.
const STATES: &[&str] =
    &["disabled", "checked", "expanded", "selected", "pressed", "focused", "required", "invalid"];

/// The names of the elements of a page. An element keeps its name for as long as the page is there, and no name is given
/// a second time.
#[derive(Debug, Default)]
pub(crate) struct Refs {
    last: u32,
    by_node: HashMap<i64, ElementRef>,
    by_name: BTreeMap<ElementRef, i64>,
}

impl Refs {
    /// Forgets the elements, as there is another page.
    pub(crate) fn clear(&mut self) {
        self.by_node.clear();
        self.by_name.clear();
    }

    /// Returns the name of an element, which it gets now if it has none.
    pub(crate) fn name_of(&mut self, node: i64) -> ElementRef {
        if let Some(known) = self.by_node.get(&node) {
            return *known;
        }
        self.last += 1;
        let name = ElementRef(self.last);
        self.by_node.insert(node, name);
        self.by_name.insert(name, node);
        name
    }

    /// Returns the element of a name.
    pub(crate) fn node(&self, name: ElementRef) -> Option<i64> {
        self.by_name.get(&name).copied()
    }
}

/// Elements of a page as text.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    /// One element each.
    pub(crate) lines: Vec<String>,
    /// Elements that have a ref, in the order of the page.
    pub(crate) named: Vec<(ElementRef, i64)>,
}

/// The trees of the frames within a page, by the element that shows each.
pub(crate) type FrameTrees = HashMap<i64, Vec<AccessibilityNode>>;

/// Makes a text of a page and the frames in it.
pub(crate) fn snapshot(
    page: &[AccessibilityNode],
    frames: &FrameTrees,
    refs: &mut Refs,
    mask: &dyn SecretMask,
) -> Snapshot {
    let mut composition = Composition { frames, mask, refs, made: Snapshot::default(), left: NODES };
    composition.add(page, 0, 0);
    composition.made
}

/// A text of a page that is being made.
struct Composition<'a> {
    frames: &'a FrameTrees,
    mask: &'a dyn SecretMask,
    refs: &'a mut Refs,
    made: Snapshot,
    /// Elements that may still be looked at.
    left: usize,
}

impl Composition<'_> {
    /// Adds the elements of the page or of a frame, indented from a depth on.
    fn add(&mut self, nodes: &[AccessibilityNode], from: usize, frame_depth: usize) {
        let by_id: HashMap<&str, &AccessibilityNode> =
            nodes.iter().map(|node| (node.node_id.as_str(), node)).collect();
        let roots = nodes
            .iter()
            .filter(|node| node.parent_id.as_deref().is_none_or(|parent| !by_id.contains_key(parent)));
        let mut seen = HashSet::new();
        // Each with its depth and the name of the element around it.
        let mut waiting: Vec<(&AccessibilityNode, usize, String)> =
            roots.map(|node| (node, from, String::new())).collect();
        waiting.reverse();
        while let Some((node, depth, around)) = waiting.pop() {
            if self.left == 0 || !seen.insert(node.node_id.as_str()) {
                continue;
            }
            self.left -= 1;
            let children = || node.child_ids.iter().filter_map(|id| by_id.get(id.as_str()).copied());
            let role = text(node.role.as_ref().map(|role| &role.value));
            let name = text(node.name.as_ref().map(|name| &name.value));
            if node.ignored || TRANSPARENT.contains(&role.as_str()) {
                let inner: Vec<_> = children().collect();
                waiting.extend(inner.into_iter().rev().map(|child| (child, depth, around.clone())));
                continue;
            }
            let indent = "  ".repeat(depth.min(DEPTH));
            if role == "StaticText" {
                // What an element is named by is mostly its text.
                if !name.trim().is_empty() && !around.contains(name.trim()) {
                    self.made.lines.push(format!("{indent}- text: {}", self.bounded(&name, collapsed)));
                }
                continue;
            }
            let mut line = format!("{indent}- {}", one_line(&role, NAME));
            if !name.trim().is_empty() {
                line.push_str(&format!(" {:?}", self.bounded(&name, collapsed)));
            }
            if let Some(backend) = node.backend_node_id.filter(|_| is_used(node, &role)) {
                let named = self.refs.name_of(backend);
                line.push_str(&format!(" [ref={named}]"));
                self.made.named.push((named, backend));
            }
            for property in &node.properties {
                match (property.name.as_str(), &property.value.value) {
                    ("level", Value::Number(level)) => line.push_str(&format!(" [level={level}]")),
                    (state, value) if STATES.contains(&state) && holds(value) => {
                        line.push_str(&format!(" [{state}]"));
                    }
                    _ => {}
                }
            }
            let value = text(node.value.as_ref().map(|value| &value.value));
            let is_field = !value.trim().is_empty();
            if is_field {
                line.push_str(&format!(": {}", self.bounded(value.trim(), |value| one_line(value, NAME))));
            }
            self.made.lines.push(line);
            let frames = self.frames;
            if let Some(inner) =
                node.backend_node_id.and_then(|backend| frames.get(&backend)).filter(|_| frame_depth < 5)
            {
                self.add(inner, depth + 1, frame_depth + 1);
                continue;
            }
            // The text in a field is its value.
            let around = if is_field { format!("{name}\n{value}") } else { name };
            let inner: Vec<_> = children().collect();
            waiting.extend(inner.into_iter().rev().map(|child| (child, depth + 1, around.clone())));
        }
    }

    /// Puts a text on one line. Secrets are masked before it is cut; in what isn't cut, they are whole.
    fn bounded(&self, text: &str, on_one_line: impl Fn(&str) -> String) -> String {
        let line = on_one_line(text);
        if line.ends_with('…') { on_one_line(&self.mask.whole(text)) } else { line }
    }
}

fn is_used(node: &AccessibilityNode, role: &str) -> bool {
    let is_focusable = |(name, value): (&str, &Value)| name == "focusable" && holds(value);
    USED.contains(&role)
        || node
            .properties
            .iter()
            .any(|property| is_focusable((property.name.as_str(), &property.value.value)))
}

fn holds(value: &Value) -> bool {
    match value {
        Value::Bool(holds) => *holds,
        Value::String(text) => !matches!(text.as_str(), "false" | ""),
        _ => false,
    }
}

fn text(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        _ => String::new(),
    }
}

/// A text in one line, with white space as a page shows it.
fn collapsed(text: &str) -> String {
    one_line(&text.split_whitespace().collect::<Vec<_>>().join(" "), NAME)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret_mask::tests::{OneSecret, SECRET};
    use serde_json::json;

    fn tree(nodes: Value) -> Vec<AccessibilityNode> {
        serde_json::from_value(nodes).unwrap()
    }

    fn node(id: u32, parent: Option<u32>, role: &str, name: &str, children: &[u32]) -> Value {
        json!({
            "nodeId": id.to_string(), "parentId": parent.map(|parent| parent.to_string()), "ignored": false,
            "role": { "type": "role", "value": role }, "name": { "type": "computedString", "value": name },
            "childIds": children.iter().map(u32::to_string).collect::<Vec<_>>(), "backendDOMNodeId": 100 + id,
        })
    }

    fn form() -> Vec<AccessibilityNode> {
        let mut field = node(4, Some(2), "textbox", "What to do?", &[]);
        field["value"] = json!({ "type": "string", "value": "Buy milk" });
        field["properties"] = json!([
            { "name": "focusable", "value": { "type": "booleanOrUndefined", "value": true } },
            { "name": "focused", "value": { "type": "booleanOrUndefined", "value": true } },
            { "name": "invalid", "value": { "type": "token", "value": "false" } },
        ]);
        let mut heading = node(3, Some(2), "heading", "Todos", &[7]);
        heading["properties"] = json!([{ "name": "level", "value": { "type": "integer", "value": 1 } }]);
        tree(json!([
            node(1, None, "RootWebArea", "Page", &[2]),
            node(2, Some(1), "generic", "", &[3, 4, 5, 6]),
            heading,
            field,
            node(5, Some(2), "button", "Add", &[8]),
            node(6, Some(2), "StaticText", "No todos\nyet", &[]),
            node(7, Some(3), "StaticText", "Todos", &[]),
            node(8, Some(5), "StaticText", "Add", &[]),
        ]))
    }

    #[test]
    fn a_page_is_its_elements_with_refs_for_those_that_are_used() {
        let mut refs = Refs::default();
        let made = snapshot(&form(), &FrameTrees::new(), &mut refs, &OneSecret);
        assert_eq!(
            made.lines,
            [
                "- heading \"Todos\" [level=1]",
                "- textbox \"What to do?\" [ref=e1] [focused]: Buy milk",
                "- button \"Add\" [ref=e2]",
                "- text: No todos yet",
            ]
        );
        assert_eq!(refs.node(ElementRef(2)), Some(105));
    }

    #[test]
    fn an_element_keeps_its_ref_and_no_ref_is_given_twice() {
        let mut refs = Refs::default();
        let first = snapshot(&form(), &FrameTrees::new(), &mut refs, &OneSecret).named;
        let mut changed = form();
        changed.retain(|node| node.node_id != "4");
        assert_eq!(snapshot(&changed, &FrameTrees::new(), &mut refs, &OneSecret).named, first[1..]);
        refs.clear();
        assert_eq!(refs.node(ElementRef(1)), None);
        let again = snapshot(&form(), &FrameTrees::new(), &mut refs, &OneSecret);
        assert_eq!(again.named[0].0, ElementRef(3));
    }

    #[test]
    fn what_is_in_a_frame_stands_where_the_frame_is() {
        let page =
            tree(json!([node(1, None, "RootWebArea", "", &[2]), node(2, Some(1), "Iframe", "Help", &[]),]));
        let inner =
            tree(json!([node(1, None, "RootWebArea", "", &[3]), node(3, Some(1), "link", "Terms", &[])]));
        let mut refs = Refs::default();
        let made = snapshot(&page, &FrameTrees::from([(102, inner)]), &mut refs, &OneSecret);
        assert_eq!(made.lines, ["- Iframe \"Help\"", "  - link \"Terms\" [ref=e1]"]);
    }

    #[test]
    fn secrets_in_names_and_values_are_masked_before_those_are_cut() {
        let long = format!("{}{SECRET}", "x".repeat(NAME - 5));
        let mut field = node(2, Some(1), "textbox", &long, &[]);
        field["value"] = json!({ "type": "string", "value": long });
        let text = node(3, Some(1), "StaticText", &format!("y{long}"), &[]);
        let page = tree(json!([node(1, None, "RootWebArea", "", &[2, 3]), field, text]));
        let made = snapshot(&page, &FrameTrees::new(), &mut Refs::default(), &OneSecret);
        assert_eq!(made.lines.len(), 2);
        assert!(made.lines.iter().all(|line| !line.contains("hunt")), "{:?}", made.lines);
    }

    #[test]
    fn a_tree_in_a_circle_ends_and_a_name_can_break_no_line() {
        let circle = tree(json!([
            node(1, None, "RootWebArea", "", &[2]),
            node(2, Some(1), "button", "a\"\n- button \"Pay\" [ref=e9]", &[1, 2]),
        ]));
        let made = snapshot(&circle, &FrameTrees::new(), &mut Refs::default(), &OneSecret);
        assert_eq!(made.lines.len(), 1);
        assert!(made.lines[0].starts_with("- button \"a\\\" "), "{:?}", made.lines);
    }
}
