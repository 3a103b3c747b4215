//! Normal forms of texts, computed once for each text: what an agent writes is what its next edit begins with, and what
//! it is about to write can be looked at while that is on its way to the disk.
//!
//! No text and no tree is kept.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::source::Source;
use super::syntax::{self, Definition, Language};
use roo_protocol::ids::Digest;

/// The stack on which trees are walked, in bytes: code may be nested as deep as its author likes. Only what
/// is used of it costs memory.
const STACK: usize = 64 << 20;
/// The most texts that are remembered.
const MOST: usize = 32;
/// The most definitions that are remembered of all of them.
const MOST_DEFINITIONS: usize = 20_000;

/// Does what walks a tree. None without a thread to do it on, or when it fails.
pub(super) fn on_deep_stack<T: Send>(walk: impl FnOnce() -> T + Send) -> Option<T> {
    std::thread::scope(|scope| {
        let walked = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, walk);
        walked.ok()?.join().ok()
    })
}

/// Comparable form of one text.
#[derive(Debug)]
pub(super) struct ComparableForm {
    /// Of its normal form.
    pub(super) digest: Digest,
    /// The names that nothing outside of the file can name.
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
                // The most exact name is enough.
                found.remove(outer.as_str());
            }
        }
        found.into_iter().take(most).map(str::to_owned).collect()
    }
}

type Slot = Arc<OnceLock<Option<Arc<ComparableForm>>>>;

/// The forms of the texts that were of use last.
#[derive(Default)]
pub struct Forms {
    /// The newest last.
    known: Mutex<VecDeque<(Language, Digest, Slot)>>,
}

impl Forms {
    /// Finds the forms of texts, each with the path of its file, before they are asked for. Takes some
    /// milliseconds for a thousand lines.
    pub fn look_ahead<'t>(&self, texts: impl IntoIterator<Item = (&'t str, &'t str)>) {
        let texts: Vec<_> =
            texts.into_iter().filter_map(|(path, text)| Some((Language::from_path(path)?, text))).collect();
        self.of(&texts);
    }

    /// The forms of texts, side by side. Waits for those that are being found. None for a text that has none.
    pub(super) fn of(&self, texts: &[(Language, &str)]) -> Vec<Option<Arc<ComparableForm>>> {
        let slots: Vec<Slot> = texts.iter().map(|(language, text)| self.slot(*language, text)).collect();
        std::thread::scope(|scope| {
            for ((language, text), slot) in texts.iter().zip(&slots) {
                if slot.get().is_none() {
                    let find =
                        || _ = slot.get_or_init(|| ComparableForm::from_text(*language, text).map(Arc::new));
                    // A text whose form can't be found is compared as a text.
                    let _ = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, find);
                }
            }
        });
        slots.iter().map(|slot| slot.get().cloned().flatten()).collect()
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
        while known.len() > MOST || known.iter().map(definitions).sum::<usize>() > MOST_DEFINITIONS {
            known.pop_front();
        }
        slot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_looked_at_once() {
        let forms = Forms::default();
        let text = "fn f() {}\n";
        forms.look_ahead([("a.rs", text), ("a.md", text), ("b.rs", text)]);
        let [first, again] = forms.of(&[(Language::Rust, text), (Language::Rust, text)]).try_into().unwrap();
        assert!(Arc::ptr_eq(&first.unwrap(), &again.unwrap()));
        assert_eq!(forms.known.lock().unwrap().len(), 1);
        let other = forms.of(&[(Language::Go, text)]);
        assert!(other[0].is_none(), "it is not Go");
    }

    #[test]
    fn only_so_many_are_remembered() {
        let forms = Forms::default();
        for number in 0..MOST + 5 {
            forms.look_ahead([("a.rs", format!("fn f{number}() {{}}\n").as_str())]);
        }
        assert_eq!(forms.known.lock().unwrap().len(), MOST);
        let many = |name: &str| format!("fn {name}() {{}}\n").repeat(MOST_DEFINITIONS / 2 + 1);
        forms.look_ahead([("a.rs", many("f").as_str())]);
        forms.look_ahead([("a.rs", many("g").as_str())]);
        forms.look_ahead([("a.rs", "fn f() {}\n")]);
        let known = forms.known.lock().unwrap();
        assert_eq!(known.len(), 2, "the new one, and of the long ones that which was of use last");
    }
}
