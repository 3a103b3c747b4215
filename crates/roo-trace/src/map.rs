//! `intent_map.md`: which code was written for which intent. Derived from the trace alone, so that the same trace has
//! the same map.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::mutation::MutationClass;
use super::record::{FileState, Outcome, Record};
use super::value;
use roo_protocol::ids::Digest;
use roo_text::render;

/// The longest name of an intent, in characters.
const NAME: usize = 120;

/// Summary of intents, updated record by record.
#[derive(Clone, Debug, Default)]
pub struct IntentMap {
    intents: BTreeMap<String, Intent>,
}

#[derive(Clone, Debug, Default)]
struct Intent {
    name: String,
    places: BTreeMap<String, MapEntry>,
}

#[derive(Clone, Debug, Default)]
struct MapEntry {
    symbols: BTreeSet<String>,
    ast: Option<Digest>,
    last: u64,
}

/// The map of these records.
pub fn render<'a>(records: impl IntoIterator<Item = &'a Record>) -> String {
    let mut map = IntentMap::default();
    records.into_iter().for_each(|record| map.add(record));
    map.render()
}

impl IntentMap {
    /// Adds the next record.
    pub fn add(&mut self, record: &Record) {
        let Some(own) = record.own().filter(|own| own.outcome == Outcome::Ok) else { return };
        for file in &record.files {
            if let Some(old_path) = &own.old_path {
                for intent in self.intents.values_mut() {
                    if let Some(place) = intent.places.remove(old_path) {
                        intent.places.insert(file.path.clone(), place);
                    }
                }
            }
            if own.after == Some(FileState::Absent) {
                self.intents.values_mut().for_each(|intent| drop(intent.places.remove(&file.path)));
                continue;
            }
            let (Some(id), Some(MutationClass::IntentEvolution)) = (&own.intent_id, own.mutation_class)
            else {
                continue;
            };
            let intent = self.intents.entry(id.clone()).or_default();
            intent.name = own.intent_name.clone().unwrap_or_default();
            let place = intent.places.entry(file.path.clone()).or_default();
            place.last = own.seq;
            if let Some(detail) = own.files.get(&file.path) {
                place.ast = detail.ast;
                let room = value::LIST.saturating_sub(place.symbols.len());
                place.symbols.extend(detail.symbols.iter().take(room).cloned());
            }
        }
        // An intent without remaining code has no section.
        self.intents.retain(|_, intent| !intent.places.is_empty());
    }

    /// As Markdown.
    pub fn render(&self) -> String {
        let mut text = "# Intent Map\n".to_owned();
        for (id, intent) in &self.intents {
            let name = render::one_line(&intent.name, NAME);
            // Writing to a string can't fail.
            let _ = write!(text, "\n## {}", markdown(id));
            if !name.is_empty() {
                let _ = write!(text, " - {}", markdown(&name));
            }
            text.push_str("\n\n");
            for (path, place) in &intent.places {
                let _ = write!(text, "- {} (", code(path));
                if !place.symbols.is_empty() {
                    let symbols: Vec<String> = place.symbols.iter().map(|symbol| markdown(symbol)).collect();
                    let _ = write!(text, "symbols: {}; ", symbols.join(", "));
                }
                if let Some(ast) = place.ast {
                    let _ = write!(text, "ast: `{ast}`; ");
                }
                let _ = writeln!(text, "last: seq {})", place.last);
            }
        }
        text
    }
}

/// Text on one line, with Markdown escaped.
fn markdown(text: &str) -> String {
    let mut shown = String::new();
    for c in render::exact_line(text).chars() {
        if matches!(c, '\\' | '`' | '*' | '[' | ']' | '<' | '>' | '#' | '|' | '!') {
            shown.push('\\');
        }
        shown.push(c);
    }
    shown
}

/// As code, whatever quotes are in it.
fn code(text: &str) -> String {
    let text = render::exact_line(text);
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest + 1);
    if longest == 0 { format!("`{text}`") } else { format!("{fence} {text} {fence}") }
}
