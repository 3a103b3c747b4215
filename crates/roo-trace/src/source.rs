//! A text with its syntax tree, for classifying changes: its normal form, and which of its definitions are private to
//! the file.

use std::collections::HashMap;

use tree_sitter::{Node, Tree};

use super::normal_form::{self, NormalForm, TooDeep};
use super::syntax::{self, Language};

/// A text that could be parsed.
pub(super) struct Source<'t> {
    pub(super) language: Language,
    pub(super) text: &'t str,
    pub(super) tree: Tree,
}

impl<'t> Source<'t> {
    /// None for a text without a tree.
    pub(super) fn parse(language: Language, text: &'t str) -> Option<Self> {
        Some(Self { language, text, tree: language.parse(text)? })
    }

    pub(super) fn normal_form(&self, renames: &HashMap<&str, &str>) -> Result<NormalForm<'_>, TooDeep> {
        normal_form::normalize(self.language, &self.tree, self.text, renames)
    }

    /// The definitions at the top level that are only visible within the file.
    pub(super) fn private_definitions(&self) -> Vec<(&str, Node<'_>)> {
        let root = self.tree.root_node();
        let mut cursor = root.walk();
        let top: Vec<Node<'_>> = root.named_children(&mut cursor).collect();
        let exported = self.exported_by_name(&top);
        let mut found = Vec::new();
        for node in top.into_iter().filter(|node| self.language.is_definition(*node)) {
            let Some(name) = self.language.name_of(node, self.text) else { continue };
            let private = match self.language {
                Language::Rust => {
                    matches!(
                        node.kind(),
                        "function_item" | "struct_item" | "type_item" | "const_item" | "static_item"
                    ) && !has_child(node, "visibility_modifier")
                        && name != "main"
                        && self.has_harmless_attributes(node)
                }
                Language::Python => name.starts_with('_') && !name.starts_with("__"),
                Language::Go => {
                    node.kind() != "method_declaration"
                        && name.starts_with(|c: char| c.is_lowercase() || c == '_')
                        && !matches!(name, "main" | "init")
                }
                Language::JavaScript | Language::TypeScript | Language::Tsx => {
                    let seen = |texts: &Vec<&str>| texts.iter().any(|text| mentions(text, name));
                    node.kind() != "export_statement" && exported.as_ref().is_some_and(|texts| !seen(texts))
                }
                // A shell function is visible to all files that are sourced with it.
                Language::Bash => false,
            };
            if private {
                found.push((name, node));
            }
        }
        found
    }

    /// The texts of a script's exports. None if it isn't a module, as all of it is then visible to others.
    fn exported_by_name(&self, top: &[Node<'_>]) -> Option<Vec<&str>> {
        if !self.language.is_script() {
            return None;
        }
        let text = |node: &Node<'_>| self.text.get(node.byte_range()).unwrap_or_default();
        let exports = |node: &&Node<'_>| {
            node.kind() == "export_statement"
                || (node.kind() == "expression_statement"
                    && (text(node).starts_with("module.exports") || text(node).starts_with("exports.")))
        };
        let is_module = top.iter().any(|node| node.kind() == "import_statement" || exports(&node))
            || self.text.contains("require(");
        is_module.then(|| {
            let lists = top.iter().filter(exports).filter(|node| !self.language.is_definition(**node));
            lists.map(text).collect()
        })
    }

    /// Returns whether no attribute of a definition gives its name a meaning outside of the file.
    fn has_harmless_attributes(&self, node: Node<'_>) -> bool {
        let mut before = node.prev_sibling();
        while let Some(sibling) = before {
            match sibling.kind() {
                "attribute_item" => {
                    let text = self.text.get(sibling.byte_range()).unwrap_or_default();
                    let harmless = ["#[inline", "#[allow", "#[must_use", "#[expect", "#[test]", "#[cold]"];
                    if !harmless.iter().any(|start| text.starts_with(start)) {
                        return false;
                    }
                }
                _ if syntax::is_comment(sibling) => {}
                _ => return true,
            }
            before = sibling.prev_sibling();
        }
        true
    }
}

/// Returns whether a name occurs in a text as a word.
fn mentions(text: &str, name: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    text.match_indices(name)
        .any(|(at, _)| !text[..at].ends_with(part) && !text[at + name.len()..].starts_with(part))
}

fn has_child(node: Node<'_>, kind: &str) -> bool {
    let mut cursor = node.walk();
    node.children(&mut cursor).any(|child| child.kind() == kind)
}
