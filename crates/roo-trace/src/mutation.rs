//! Classification of changes: refactoring with the same behaviour, or new behaviour. The server compares syntax; a
//! model's claim about its own change doesn't count.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use tree_sitter::Node;

use super::normal_form::{self, TooDeep};
use super::normal_form_cache::{ComparableForm, ComparableForms, on_deep_stack};
use super::source::Source;
use super::syntax::Language;
use super::value;
use roo_protocol::ids::Digest;

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
    /// Its name in records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AstRefactor => "AST_REFACTOR",
            Self::IntentEvolution => "INTENT_EVOLUTION",
        }
    }
}

/// Method by which a class was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// By comparing syntax trees.
    Ast,
    /// By comparing text: there is no grammar, or the text is too long or can't be parsed.
    Text,
    /// By its author's claim. Never written by this program, as a claim can be wrong.
    Declared,
}

/// A change of one file.
pub(super) struct FileMutation<'a> {
    pub(super) path: &'a str,
    pub(super) old_path: Option<&'a str>,
    /// None where there is no text.
    pub(super) before: Option<&'a str>,
    /// None where there is no text.
    pub(super) after: Option<&'a str>,
    /// True if the file is the same by its digest.
    pub(super) same: bool,
    /// The written lines.
    pub(super) written: &'a [(usize, usize)],
}

/// Analysis of a change.
pub(super) struct Analysis {
    pub(super) class: MutationClass,
    pub(super) basis: Basis,
    /// The definitions that were touched.
    pub(super) symbols: Vec<String>,
    /// Of the new text's normal form.
    pub(super) ast: Option<Digest>,
}

/// The class of a change of text, and the method by which it was found.
pub fn class_of(path: &str, before: &str, after: &str) -> (MutationClass, Basis) {
    let (before, after) = (Some(before), Some(after));
    let change = FileMutation { path, old_path: None, before, after, same: before == after, written: &[] };
    let analysis = analyse(&change, &ComparableForms::default());
    (analysis.class, analysis.basis)
}

/// Analyses a change; comparable forms of its texts are cached in `forms`.
pub(super) fn analyse(change: &FileMutation<'_>, forms: &ComparableForms) -> Analysis {
    by_syntax(change, forms).unwrap_or_else(|| Analysis {
        class: by_text(change),
        basis: Basis::Text,
        symbols: vec![],
        ast: None,
    })
}

fn by_syntax(change: &FileMutation<'_>, forms: &ComparableForms) -> Option<Analysis> {
    let (language, after) = (Language::from_path(change.path)?, change.after?);
    let new = forms.form(language, after)?;
    let analysis = |class| Analysis {
        class,
        basis: Basis::Ast,
        symbols: new.touched(change.written, value::LIST),
        ast: Some(new.digest),
    };
    let Some(before) = change.before else {
        return Some(analysis(MutationClass::IntentEvolution));
    };
    let moved_to_other_language =
        change.old_path.is_some_and(|path| Language::from_path(path) != Some(language));
    if moved_to_other_language && !change.same {
        return Some(analysis(MutationClass::IntentEvolution));
    }
    let old = forms.form(language, before)?;
    let same = old.digest == new.digest
        || (may_be_renamed(&old, &new)
            && on_deep_stack(|| is_renamed(language, before, after, new.digest))??);
    Some(analysis(if same { MutationClass::AstRefactor } else { MutationClass::IntentEvolution }))
}

/// The private definitions that only the first of the two has.
fn gone<'f>(old: &'f ComparableForm, new: &'f ComparableForm) -> impl Iterator<Item = &'f String> {
    old.private.iter().filter(|name| !new.private.contains(name))
}

/// Returns whether as many private definitions were added as removed.
fn may_be_renamed(old: &ComparableForm, new: &ComparableForm) -> bool {
    let count = gone(old, new).count();
    count > 0 && count == gone(new, old).count()
}

/// Returns whether two texts differ only in the names of private definitions. `form` is of the new one.
fn is_renamed(language: Language, before: &str, after: &str, form: Digest) -> Option<bool> {
    let (old, new) = (Source::parse(language, before)?, Source::parse(language, after)?);
    find_renames(&old, &new, form).ok()
}

fn find_renames(old: &Source<'_>, new: &Source<'_>, form: Digest) -> Result<bool, TooDeep> {
    let (all_old, all_new) = (old.private_definitions(), new.private_definitions());
    let has = |all: &[(&str, Node<'_>)], name: &str| all.iter().any(|(other, _)| *other == name);
    let gone: Vec<_> = all_old.iter().filter(|(name, _)| !has(&all_new, name)).collect();
    let mut come: Vec<_> = all_new.iter().filter(|(name, _)| !has(&all_old, name)).collect();
    let names = old.normal_form(&HashMap::new())?.names;
    // Guesses which one became which, by their bodies without the names in question; the full texts are compared below.
    let hidden: HashMap<&str, &str> = gone.iter().chain(&come).map(|(name, _)| (*name, "\0")).collect();
    let mut renames: HashMap<&str, &str> = HashMap::new();
    for (name, node) in gone {
        let body = normal_form::normalize_definition(old.language, *node, old.text, &hidden)?;
        let mut found = None;
        for (index, (_, candidate)) in come.iter().enumerate() {
            if normal_form::normalize_definition(new.language, *candidate, new.text, &hidden)? == body {
                found = Some(index);
                break;
            }
        }
        let Some(index) = found else { return Ok(false) };
        let (new_name, _) = come.remove(index);
        // A name that meant something else would now mean this.
        if names.contains(new_name) {
            return Ok(false);
        }
        renames.insert(name, new_name);
    }
    Ok(Digest::of(&old.normal_form(&renames)?.bytes) == form)
}

/// Compares texts without white space.
fn by_text(change: &FileMutation<'_>) -> MutationClass {
    let same = change.same
        || match (change.before, change.after) {
            (Some(before), Some(after)) if Language::from_path(change.path) == Some(Language::Python) => {
                // Indentation is syntax here.
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
