//! What kind of change was made: the same behaviour in another form, or new behaviour. The server finds it
//! by comparing syntax; what a model says of its own change is never asked.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use tree_sitter::{Node, Tree};

use super::normal_form::{self, TooDeep};
use super::syntax::{self, Language};
use super::value;
use crate::protocol::ids::Digest;

/// The stack on which trees are walked, in bytes. Only what is used of it costs memory.
const STACK: usize = 64 << 20;

/// The class of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MutationClass {
    /// The syntax is the same but for comments, white space, the names of locals, and private definitions
    /// that were moved or renamed.
    #[serde(rename = "AST_REFACTOR")]
    AstRefactor,
    /// Anything else.
    #[serde(rename = "INTENT_EVOLUTION", other)]
    IntentEvolution,
}

impl MutationClass {
    /// As it stands in records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AstRefactor => "AST_REFACTOR",
            Self::IntentEvolution => "INTENT_EVOLUTION",
        }
    }
}

/// By what a class was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// By comparing syntax trees.
    Ast,
    /// By comparing text: there is no grammar, or the text is too long or can't be parsed.
    Text,
    /// By its author's word. Never written, for a word can be wrong.
    Declared,
}

/// A change of one file.
pub(super) struct Change<'a> {
    pub(super) path: &'a str,
    pub(super) old_path: Option<&'a str>,
    /// None where there is no text.
    pub(super) before: Option<&'a str>,
    /// None where there is no text.
    pub(super) after: Option<&'a str>,
    /// Whether the file is the same by its digest.
    pub(super) same: bool,
    /// The written lines.
    pub(super) written: &'a [(usize, usize)],
}

/// What a change is.
pub(super) struct Analysis {
    pub(super) class: MutationClass,
    pub(super) basis: Basis,
    /// The definitions that were touched.
    pub(super) symbols: Vec<String>,
    /// Of the new text's normal form.
    pub(super) ast: Option<Digest>,
}

/// The class of a change of text, and by what it was found.
pub fn class_of(path: &str, before: &str, after: &str) -> (MutationClass, Basis) {
    let (before, after) = (Some(before), Some(after));
    let change = Change { path, old_path: None, before, after, same: before == after, written: &[] };
    let analysis = analyse(&change);
    (analysis.class, analysis.basis)
}

/// Looks at a change on a stack of its own, for code may be nested as deep as its author likes.
pub(super) fn analyse(change: &Change<'_>) -> Analysis {
    let by_text = || Analysis { class: by_text(change), basis: Basis::Text, symbols: vec![], ast: None };
    let (Some(language), Some(after)) = (Language::of(change.path), change.after) else { return by_text() };
    std::thread::scope(|scope| {
        let compared = std::thread::Builder::new()
            .stack_size(STACK)
            .spawn_scoped(scope, || by_syntax(change, language, after));
        // Without a thread there is still the text.
        compared.ok().and_then(|thread| thread.join().ok()).flatten().unwrap_or_else(by_text)
    })
}

fn by_syntax(change: &Change<'_>, language: Language, after: &str) -> Option<Analysis> {
    let new = Source { language, text: after, tree: language.parse(after)? };
    let form = new.normal_form(&HashMap::new()).ok()?;
    let analysis = |class| Analysis {
        class,
        basis: Basis::Ast,
        symbols: syntax::touched(language, &new.tree, after, change.written, value::LIST),
        ast: Some(Digest::of(&form.bytes)),
    };
    let Some(before) = change.before else {
        return Some(analysis(MutationClass::IntentEvolution));
    };
    let moved_to_other_language = change.old_path.is_some_and(|path| Language::of(path) != Some(language));
    if moved_to_other_language && !change.same {
        return Some(analysis(MutationClass::IntentEvolution));
    }
    let old = Source { language, text: before, tree: language.parse(before)? };
    let same = is_refactoring(&old, &new, &form).ok()?;
    Some(analysis(if same { MutationClass::AstRefactor } else { MutationClass::IntentEvolution }))
}

struct Source<'t> {
    language: Language,
    text: &'t str,
    tree: Tree,
}

impl Source<'_> {
    fn normal_form(&self, renames: &HashMap<&str, &str>) -> Result<normal_form::NormalForm<'_>, TooDeep> {
        normal_form::of(self.language, &self.tree, self.text, renames)
    }

    /// The definitions at the top of the file that nothing outside of it can name.
    fn private_definitions(&self) -> Vec<(&str, Node<'_>)> {
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
                // A function of the shell is seen by all that is sourced with it.
                Language::Bash => false,
            };
            if private {
                found.push((name, node));
            }
        }
        found
    }

    /// The texts by which a script exports. None for one that is no module: all of it is seen by others.
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

    /// Whether attributes before a definition leave its name without meaning to others.
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

/// Whether a name stands in a text as a word.
fn mentions(text: &str, name: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    text.match_indices(name)
        .any(|(at, _)| !text[..at].ends_with(part) && !text[at + name.len()..].starts_with(part))
}

fn has_child(node: Node<'_>, kind: &str) -> bool {
    let mut cursor = node.walk();
    node.children(&mut cursor).any(|child| child.kind() == kind)
}

/// Whether the two are one program, perhaps with private definitions renamed.
fn is_refactoring(
    old: &Source<'_>,
    new: &Source<'_>,
    form: &normal_form::NormalForm<'_>,
) -> Result<bool, TooDeep> {
    let before = old.normal_form(&HashMap::new())?;
    if before.bytes == form.bytes {
        return Ok(true);
    }
    let (gone, come) = (old.private_definitions(), new.private_definitions());
    let names = |all: &[(&str, Node<'_>)]| -> Vec<String> {
        all.iter().map(|(name, _)| (*name).to_owned()).collect()
    };
    let (old_names, new_names) = (names(&gone), names(&come));
    let gone: Vec<_> =
        gone.into_iter().filter(|(name, _)| !new_names.iter().any(|other| other == name)).collect();
    let mut come: Vec<_> =
        come.into_iter().filter(|(name, _)| !old_names.iter().any(|other| other == name)).collect();
    if gone.is_empty() || gone.len() != come.len() {
        return Ok(false);
    }
    // A guess which became which, by their bodies without the names in question; the whole is compared below.
    let hidden: HashMap<&str, &str> = gone.iter().chain(&come).map(|(name, _)| (*name, "\0")).collect();
    let mut renames: HashMap<&str, &str> = HashMap::new();
    for (name, node) in &gone {
        let body = normal_form::of_definition(old.language, *node, old.text, &hidden)?;
        let mut found = None;
        for (index, (_, candidate)) in come.iter().enumerate() {
            if normal_form::of_definition(new.language, *candidate, new.text, &hidden)? == body {
                found = Some(index);
                break;
            }
        }
        let Some(index) = found else { return Ok(false) };
        let (new_name, _) = come.remove(index);
        // A name that meant something else would now mean this.
        if before.names.contains(new_name) {
            return Ok(false);
        }
        renames.insert(name, new_name);
    }
    Ok(old.normal_form(&renames)?.bytes == form.bytes)
}

/// White space alone is a change of form.
fn by_text(change: &Change<'_>) -> MutationClass {
    let same = change.same
        || match (change.before, change.after) {
            (Some(before), Some(after)) if Language::of(change.path) == Some(Language::Python) => {
                // What is indented how far is what is done.
                fn lines(text: &str) -> impl Iterator<Item = &str> {
                    text.lines().map(str::trim_end).filter(|line| !line.is_empty())
                }
                lines(before).eq(lines(after))
            }
            (Some(before), Some(after)) => {
                let visible = |c: &char| !c.is_whitespace();
                before.chars().filter(visible).eq(after.chars().filter(visible))
            }
            _ => false,
        };
    if same { MutationClass::AstRefactor } else { MutationClass::IntentEvolution }
}

#[cfg(test)]
mod tests;
