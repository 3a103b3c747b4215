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

pub(crate) fn symbols(answer: &Value) -> Vec<Symbol> {
    let symbol = |value: &Value| {
        let number = value["kind"].as_u64().and_then(|number| usize::try_from(number).ok());
        Some(Symbol {
            name: one_line(value["name"].as_str()?, NAME),
            kind: number.and_then(|number| KINDS.get(number.checked_sub(1)?)).copied().unwrap_or("symbol"),
            container: one_line(value["containerName"].as_str().unwrap_or_default(), NAME),
            // Some servers tell the file alone, and the place when they are asked again.
            location: location(&value["location"])?,
        })
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
