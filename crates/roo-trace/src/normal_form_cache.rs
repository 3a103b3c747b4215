//! Cache of the normal forms of texts: the text after an edit is the text before the next one.
//!
//! Neither texts nor trees are kept.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::source::Source;
use super::syntax::{self, Definition, Language};
use roo_protocol::ids::Digest;

/// The stack on which trees are walked, in bytes: code may be nested as deep as its author likes. Only what
/// is used of it costs memory.
const STACK: usize = 64 << 20;
/// The most texts that are remembered.
const MAX_TEXTS: usize = 32;
/// The most definitions that are remembered of all of them.
const MAX_DEFINITIONS: usize = 20_000;

/// Runs a walk over a tree on a large stack. None if it panics.
pub(super) fn on_deep_stack<T>(walk: impl FnOnce() -> T) -> Option<T> {
    // Nothing that it has changed is used after a panic.
    std::panic::catch_unwind(AssertUnwindSafe(|| stacker::grow(STACK, walk))).ok()
}

/// Comparable form of one text.
#[derive(Debug)]
pub(super) struct ComparableForm {
    /// Of its normal form.
    pub(super) digest: Digest,
    /// The names of definitions that are only visible within the file.
    pub(super) private: Vec<String>,
    definitions: Vec<Definition>,
}

impl ComparableForm {
    /// None for a text without a tree, or with one that is too deep.
    fn from_text(language: Language, text: &str) -> Option<Self> {
        let source = Source::parse(language, text)?;
        Some(Self {
            digest: Digest::of(&source.normal_form(&HashMap::new()).ok()?.bytes),
            private: source.private_definitions().into_iter().map(|(name, _)| name.to_owned()).collect(),
            definitions: syntax::definitions(language, &source.tree, text),
        })
    }

    /// The definitions that lines belong to, as `Type.method`, at most `most` of them, in order of their
    /// names. Lines count from 1; the ranges are in order and apart.
    pub(super) fn touched(&self, written: &[(usize, usize)], most: usize) -> Vec<String> {
        let mut found = BTreeSet::new();
        for Definition { lines, outer, name } in &self.definitions {
            let next = written.partition_point(|span| span.1 < lines.0);
            if written.get(next).is_some_and(|span| span.0 <= lines.1) {
                found.insert(name.as_str());
                // The most specific name is enough.
                found.remove(outer.as_str());
            }
        }
        found.into_iter().take(most).map(str::to_owned).collect()
    }
}

type Slot = Arc<OnceLock<Option<Arc<ComparableForm>>>>;

/// The forms of the most recently used texts.
#[derive(Default)]
pub struct ComparableForms {
    /// The newest last.
    known: Mutex<VecDeque<(Language, Digest, Slot)>>,
}

impl ComparableForms {
    /// Form of a text. Waits if another thread is computing it. None for a text without one.
    pub(super) fn form(&self, language: Language, text: &str) -> Option<Arc<ComparableForm>> {
        let slot = self.slot(language, text);
        // A text without a form is compared as text.
        let compute = || on_deep_stack(|| ComparableForm::from_text(language, text)).flatten().map(Arc::new);
        slot.get_or_init(compute).clone()
    }

    fn slot(&self, language: Language, text: &str) -> Slot {
        let digest = Digest::of(text);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let found = known.iter().position(|(of, text, _)| (*of, *text) == (language, digest));
        let slot = found.and_then(|index| known.remove(index)).map_or_else(Slot::default, |(.., slot)| slot);
        known.push_back((language, digest, Arc::clone(&slot)));
        let definitions = |(.., slot): &(Language, Digest, Slot)| match slot.get() {
            Some(Some(form)) => form.definitions.len(),
            _ => 0,
        };
        while known.len() > MAX_TEXTS || known.iter().map(definitions).sum::<usize>() > MAX_DEFINITIONS {
            known.pop_front();
        }
        slot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_of_a_text_is_computed_once() {
        let forms = ComparableForms::default();
        let text = "fn f() {}\n";
        let [first, again] = [(); 2].map(|()| forms.form(Language::Rust, text).unwrap());
        assert!(Arc::ptr_eq(&first, &again));
        assert_eq!(forms.known.lock().unwrap().len(), 1);
        assert!(forms.form(Language::Go, text).is_none(), "it is not Go");
    }

    #[test]
    fn only_so_many_are_remembered() {
        let forms = ComparableForms::default();
        for number in 0..MAX_TEXTS + 5 {
            forms.form(Language::Rust, &format!("fn f{number}() {{}}\n"));
        }
        assert_eq!(forms.known.lock().unwrap().len(), MAX_TEXTS);
        let many = |name: &str| format!("fn {name}() {{}}\n").repeat(MAX_DEFINITIONS / 2 + 1);
        forms.form(Language::Rust, &many("f"));
        forms.form(Language::Rust, &many("g"));
        forms.form(Language::Rust, "fn f() {}\n");
        let known = forms.known.lock().unwrap();
        assert_eq!(known.len(), 2, "the new one, and the most recently used long one");
    }
}
