//! Schemas of servers' tools in a form that every provider takes. One that a provider refuses fails the whole request.
//!
//! OpenAI refuses an object without `properties`, an array without `items`, and `anyOf`, `oneOf`, `allOf`, `not` and `enum` at
//! the top level; Anthropic refuses `anyOf`, `oneOf` and `allOf` there. What is lost by that, the server checks itself.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

/// Keywords that only narrow what a schema allows.
const NARROWING: [&str; 2] = ["not", "enum"];
/// Keywords whose value is one schema.
const ONE: [&str; 9] = [
    "items",
    "additionalProperties",
    "contains",
    "else",
    "if",
    "not",
    "propertyNames",
    "then",
    "unevaluatedProperties",
];
/// Keywords whose value is a list of schemas.
const LISTS: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];
/// Keywords whose value has schemas by name.
const NAMED: [&str; 5] = ["$defs", "definitions", "dependentSchemas", "patternProperties", "properties"];

/// Returns the schema of an object that allows all that this one allows, in a form that every provider takes.
pub(crate) fn portable(schema: &Value) -> Value {
    let merged = Merged { root: schema, resolved: BTreeSet::new() }.flat(schema);
    let mut portable = schema.as_object().cloned().unwrap_or_default();
    portable.retain(|key, _| !is_combination(key) && !NARROWING.contains(&key.as_str()) && key != "$ref");
    portable.insert("type".to_owned(), "object".into());
    portable.insert("properties".to_owned(), merged.properties.into());
    match merged.required.is_empty() {
        true => portable.remove("required"),
        false => portable.insert("required".to_owned(), json!(merged.required)),
    };
    let mut portable = Value::Object(portable);
    complete_arrays(&mut portable);
    portable
}

fn is_combination(key: &str) -> bool {
    matches!(key, "allOf" | "anyOf" | "oneOf")
}

/// Properties of an object, with those that are required.
#[derive(Default)]
struct Properties {
    properties: Map<String, Value>,
    required: Vec<String>,
}

/// The merging of a schema's alternatives and parts into one object.
struct Merged<'a> {
    root: &'a Value,
    /// References that were followed: each counts once, so that there is an end.
    resolved: BTreeSet<&'a str>,
}

impl<'a> Merged<'a> {
    /// The properties of a schema with those of its alternatives and parts.
    fn flat(&mut self, schema: &'a Value) -> Properties {
        let mut flat = Properties::default();
        if let Some(properties) = schema["properties"].as_object() {
            flat.properties.clone_from(properties);
        }
        flat.require(&names(&schema["required"]));
        let target = schema["$ref"].as_str().filter(|target| self.resolved.insert(target));
        if let Some(part) = target.and_then(|target| self.root.pointer(target.strip_prefix('#')?)) {
            let part = self.flat(part);
            flat.require(&part.required);
            flat.add(part.properties);
        }
        for part in schema["allOf"].as_array().into_iter().flatten() {
            let part = self.flat(part);
            flat.require(&part.required);
            flat.add(part.properties);
        }
        for alternatives in ["anyOf", "oneOf"].iter().filter_map(|key| schema[*key].as_array()) {
            // What one alternative alone requires may be missing.
            let mut required: Option<Vec<String>> = None;
            for alternative in alternatives {
                let alternative = self.flat(alternative);
                required = Some(match required {
                    None => alternative.required,
                    Some(before) => {
                        before.into_iter().filter(|name| alternative.required.contains(name)).collect()
                    }
                });
                flat.add(alternative.properties);
            }
            flat.require(&required.unwrap_or_default());
        }
        flat
    }
}

impl Properties {
    fn require(&mut self, names: &[String]) {
        for name in names {
            if !self.required.contains(name) {
                self.required.push(name.clone());
            }
        }
    }

    /// Adds properties. One that is there with another schema may have either.
    fn add(&mut self, properties: Map<String, Value>) {
        for (name, schema) in properties {
            let Some(before) = self.properties.get_mut(&name) else {
                self.properties.insert(name, schema);
                continue;
            };
            if *before == schema {
                continue;
            }
            match before.as_object_mut().filter(|before| before.len() == 1) {
                Some(before) if before.get("anyOf").is_some_and(Value::is_array) => {
                    if let Some(known) = before.get_mut("anyOf").and_then(Value::as_array_mut)
                        && !known.contains(&schema)
                    {
                        known.push(schema);
                    }
                }
                _ => *before = json!({ "anyOf": [before.take(), schema] }),
            }
        }
    }
}

fn names(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Gives `items` to each array without them, wherever a schema may stand.
fn complete_arrays(schema: &mut Value) {
    let Some(schema) = schema.as_object_mut() else { return };
    let is_array = match schema.get("type") {
        Some(Value::String(name)) => name == "array",
        Some(Value::Array(names)) => names.iter().any(|name| name == "array"),
        _ => false,
    };
    if is_array {
        schema.entry("items").or_insert_with(|| json!({}));
    }
    for (key, value) in schema.iter_mut() {
        match value {
            Value::Array(schemas) if LISTS.contains(&key.as_str()) => {
                schemas.iter_mut().for_each(complete_arrays);
            }
            Value::Object(schemas) if NAMED.contains(&key.as_str()) => {
                schemas.values_mut().for_each(complete_arrays);
            }
            value if ONE.contains(&key.as_str()) => complete_arrays(value),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn an_object_has_properties_and_an_array_items() {
        assert_eq!(portable(&json!({ "type": "object" })), json!({ "type": "object", "properties": {} }));
        let nullable = json!({ "type": "object", "properties": null, "required": null });
        assert_eq!(portable(&nullable), json!({ "type": "object", "properties": {} }));
        let given = json!({
            "type": "object",
            "properties": {
                "list": { "type": ["array", "null"], "default": { "type": "array" } },
                "type": { "type": "array", "items": { "anyOf": [{ "type": "array" }, { "type": "string" }] } },
            },
            "$defs": { "Rows": { "type": "array", "prefixItems": [{ "type": "array" }] } },
        });
        let expected = json!({
            "type": "object",
            "properties": {
                "list": { "type": ["array", "null"], "default": { "type": "array" }, "items": {} },
                "type": {
                    "type": "array",
                    "items": { "anyOf": [{ "type": "array", "items": {} }, { "type": "string" }] },
                },
            },
            "$defs": { "Rows": { "type": "array", "prefixItems": [{ "type": "array", "items": {} }], "items": {} } },
        });
        assert_eq!(portable(&given), expected);
    }

    #[test]
    fn an_ordinary_schema_is_left_as_it_is() {
        let own = json!({
            "$schema": "http://json-schema.org/draft-07/schema#",
            "type": "object",
            "properties": { "path": { "oneOf": [{ "type": "string" }, { "type": "null" }] } },
            "required": ["path"],
            "additionalProperties": false,
        });
        assert_eq!(portable(&own), own);
    }

    #[test]
    fn alternatives_become_one_object_that_requires_what_all_require() {
        let by = |kind: &str, field: &str| {
            json!({
                "type": "object",
                "properties": { "kind": { "const": kind }, field: { "type": "string" } },
                "required": ["kind", field],
            })
        };
        let given = json!({
            "type": "object",
            "properties": { "limit": { "type": "integer" } },
            "required": ["limit"],
            "oneOf": [by("id", "id"), by("name", "name"), by("mail", "mail")],
            "not": { "required": ["limit", "id"] },
        });
        let expected = json!({
            "type": "object",
            "properties": {
                "limit": { "type": "integer" },
                "kind": { "anyOf": [{ "const": "id" }, { "const": "name" }, { "const": "mail" }] },
                "id": { "type": "string" },
                "name": { "type": "string" },
                "mail": { "type": "string" },
            },
            "required": ["limit", "kind"],
        });
        assert_eq!(portable(&given), expected);
        let either = json!({
            "type": "object",
            "properties": { "a": {}, "b": {} },
            "anyOf": [{ "required": ["a"] }, { "required": ["b"] }],
        });
        assert_eq!(portable(&either), json!({ "type": "object", "properties": { "a": {}, "b": {} } }));
    }

    #[test]
    fn parts_of_a_schema_become_one_object_that_requires_what_any_requires() {
        let defs =
            json!({ "Page": { "properties": { "page": { "type": "integer" } }, "required": ["page"] } });
        let given = json!({
            "type": "object",
            "allOf": [
                { "$ref": "#/$defs/Page" },
                { "properties": { "query": { "type": "string" } }, "required": ["query"] },
            ],
            "$defs": defs,
        });
        let expected = json!({
            "type": "object",
            "properties": { "page": { "type": "integer" }, "query": { "type": "string" } },
            "required": ["page", "query"],
            "$defs": defs,
        });
        assert_eq!(portable(&given), expected);
    }

    #[test]
    fn a_schema_that_refers_to_itself_has_an_end() {
        let endless = json!({ "type": "object", "allOf": [{ "$ref": "#" }, { "$ref": "#/allOf/0" }] });
        assert_eq!(portable(&endless), json!({ "type": "object", "properties": {} }));
    }
}
