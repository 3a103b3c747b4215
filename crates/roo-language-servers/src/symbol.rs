//! Symbols of a project that a server finds by a part of their names.

use roo_text::render::one_line;
use serde_json::Value;

use crate::location::{Location, location};

/// The most symbols of an answer.
const SYMBOLS: usize = 1000;

/// The longest name, in characters.
const NAME: usize = 200;

/// Kinds of symbols, by their numbers in LSP from 1.
const KINDS: &[&str] = &[
    "file",
    "module",
    "namespace",
    "package",
    "class",
    "method",
    "property",
    "field",
    "constructor",
    "enum",
    "interface",
    "function",
    "variable",
    "constant",
    "string",
    "number",
    "boolean",
    "array",
    "object",
    "key",
    "null",
    "enum member",
    "struct",
    "event",
    "operator",
    "type parameter",
];

/// A symbol of a project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Its name, on one line.
    pub name: String,
    /// Its kind in a word, such as `function`.
    pub kind: &'static str,
    /// Name of what it is in, on one line; empty where the server tells none.
    pub container: String,
    /// Line of its definition.
    pub location: Location,
}

impl Symbol {
    /// Makes a symbol of what is told of it: its names on one line, its kind by the number that LSP has for it.
    pub fn new(name: &str, kind: u64, container: &str, location: Location) -> Self {
        let kind = usize::try_from(kind).ok().and_then(|kind| KINDS.get(kind.checked_sub(1)?));
        Self {
            name: one_line(name, NAME),
            kind: kind.copied().unwrap_or("symbol"),
            container: one_line(container, NAME),
            location,
        }
    }
}

pub(crate) fn symbols(answer: &Value) -> Vec<Symbol> {
    let symbol = |value: &Value| {
        let (kind, container) = (value["kind"].as_u64(), value["containerName"].as_str());
        // Some servers tell the file alone, and the place when they are asked again.
        let location = location(&value["location"])?;
        Some(Symbol::new(
            value["name"].as_str()?,
            kind.unwrap_or_default(),
            container.unwrap_or_default(),
            location,
        ))
    };
    answer.as_array().into_iter().flatten().filter_map(symbol).take(SYMBOLS).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_symbol_has_a_kind_a_container_and_a_line() {
        let location =
            json!({ "uri": "file:///w/a.rs", "range": { "start": { "line": 2, "character": 0 } } });
        let answer = json!([
            { "name": "area", "kind": 12, "location": location },
            { "name": "new", "kind": 6, "containerName": "Shape", "location": location },
            { "name": "odd", "kind": 99, "location": location },
            { "name": "nowhere", "kind": 12, "location": { "uri": "file:///w/a.rs" } },
        ]);
        let found: Vec<String> = symbols(&answer)
            .iter()
            .map(|it| format!("{} {} in '{}' line {}", it.kind, it.name, it.container, it.location.line))
            .collect();
        assert_eq!(
            found,
            ["function area in '' line 2", "method new in 'Shape' line 2", "symbol odd in '' line 2"]
        );
        assert!(symbols(&Value::Null).is_empty());
    }
}
