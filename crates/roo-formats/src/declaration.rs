//! Declaration of a configuration format: a Rust type whose documented fields are the keys of the file.
//!
//! Readers get values of that type. Everything else that has to know the format asks the type's JSON Schema: the check of a
//! file for its keys, types and bounds, completion and hover for what is allowed at a position, editors for the schema
//! itself. What a text means beyond its shape is said by its type, such as [`crate::modes::ModeSlug`]; what a file means is
//! for its reader.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::config::yaml::Step;
use crate::placed;
use crate::problem::Severity;
use roo_text::misspelling;
use roo_text::render::{exact_line, one_line};

/// Keyword of editors for keys that they accept and don't suggest.
const NOT_SUGGESTED: &str = "doNotSuggest";
/// Number of characters that are shown of a text in a message about it.
const MAX_FOUND_CHARS: usize = 60;
/// Maximum number of references and alternatives that are followed from one part to its shapes.
const DEPTH: usize = 8;

/// Format of a file.
#[derive(Debug)]
pub struct Declaration {
    schema: Value,
}

impl Declaration {
    /// The format that a type declares.
    pub fn of<T: JsonSchema>() -> Self {
        Self { schema: schemars::schema_for!(T).into() }
    }

    /// The document as a whole.
    pub fn root(&self) -> Part<'_> {
        Part::new(&self.schema, [&self.schema])
    }

    /// The part at the end of a path; none where nothing is declared.
    pub fn at(&self, path: &[Step]) -> Option<Part<'_>> {
        path.iter().try_fold(self.root(), |part, step| part.step(step))
    }
}

/// Returns the JSON Schema of a format for editors. They know draft 7 best, and no formats of numbers.
pub fn published<T: JsonSchema>() -> Value {
    let plain = |schema: &mut Schema| {
        if schema.get("type").is_some_and(|kind| kind != "string") {
            schema.remove("format");
        }
        // No particular value, where any is allowed.
        if schema.get("default").is_some_and(Value::is_null) {
            schema.remove("default");
        }
        if let Some(about) = schema.get("description").and_then(Value::as_str).map(unwrapped) {
            schema.insert("description".to_owned(), about.into());
        }
    };
    let settings = SchemaSettings::draft07().with_transform(RecursiveTransform(plain));
    settings.into_generator().into_root_schema_for::<T>().into()
}

/// Returns the words of a type that is one of several.
pub(crate) fn words_of<T: JsonSchema>() -> Vec<Word> {
    Declaration::of::<T>().root().words()
}

/// A path as people write it.
pub(crate) fn shown(path: &[Step]) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            Step::Key(key) | Step::Name(key) => {
                text.push_str(if text.is_empty() { "" } else { "." });
                text.push_str(key);
            }
            Step::Index(index) => text.push_str(&format!("[{index}]")),
        }
    }
    text
}

/// A text without the line breaks of the source in which it stands. Paragraphs stay.
fn unwrapped(text: &str) -> String {
    text.split("\n\n").map(|paragraph| paragraph.replace('\n', " ")).collect::<Vec<_>>().join("\n\n")
}

/// Part of a format, in all the shapes that are allowed there.
#[derive(Clone, Debug)]
pub struct Part<'a> {
    schema: &'a Value,
    is_nullable: bool,
    /// True for an item of a list.
    is_item: bool,
    shapes: Vec<Shape<'a>>,
}

/// One shape of a part.
#[derive(Clone, Copy, Debug)]
struct Shape<'a> {
    /// The name of its type; none for a type without a name.
    type_name: Option<&'a str>,
    keywords: &'a Map<String, Value>,
}

impl<'a> Shape<'a> {
    fn get(self, keyword: &str) -> Option<&'a Value> {
        self.keywords.get(keyword)
    }

    fn list(self, keyword: &str) -> &'a [Value] {
        self.get(keyword).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    fn properties(self) -> impl Iterator<Item = (&'a String, &'a Value)> {
        self.get("properties").and_then(Value::as_object).into_iter().flatten()
    }

    fn types(self) -> impl Iterator<Item = &'a str> {
        let one = self.get("type").and_then(Value::as_str);
        one.into_iter().chain(self.list("type").iter().filter_map(Value::as_str))
    }

    fn is_of_type(self, name: &str) -> bool {
        self.types().any(|one| one == name)
    }

    fn is_type_of(self, value: &Value) -> bool {
        match value {
            Value::Null => false,
            Value::Bool(_) => self.is_of_type("boolean"),
            Value::Number(number) => {
                self.is_of_type("number") || (self.is_of_type("integer") && !number.is_f64())
            }
            Value::String(_) => self.is_of_type("string"),
            Value::Array(_) => self.is_of_type("array"),
            Value::Object(_) => self.is_of_type("object"),
        }
    }

    /// Describes the bound that a value exceeds.
    fn out_of_bounds(self, value: &Value) -> Option<String> {
        let bound = |keyword| self.get(keyword).and_then(Value::as_f64);
        match value {
            // The pattern of texts in which something has to stand.
            Value::String(text) => {
                let is_blank = self.get("pattern").is_some_and(|it| it == r"\S") && text.trim().is_empty();
                is_blank.then(|| "must not be empty".to_owned())
            }
            Value::Array(items) => {
                let most = bound("maxItems").filter(|most| items.len() as f64 > *most)?;
                Some(format!("has more than {most} entries"))
            }
            Value::Number(number) => {
                let (least, above, most) = (bound("minimum"), bound("exclusiveMinimum"), bound("maximum"));
                let number = number.as_f64()?;
                // A bound that only the width of the type sets is no bound that anybody meant.
                let widest = f64::from(u32::MAX);
                let is_too_wide = self.get("format").is_some_and(|it| it == "uint32") && number > widest;
                let most = most.or(is_too_wide.then_some(widest));
                let is_in = least.is_none_or(|least| number >= least)
                    && above.is_none_or(|above| number > above)
                    && most.is_none_or(|most| number <= most);
                let bounds = [(least, "of at least"), (above, "above"), (most, "at most")];
                let bounds = bounds.into_iter().filter_map(|(at, word)| Some(format!("{word} {}", at?)));
                (!is_in).then(|| format!("must be a number {}", bounds.collect::<Vec<_>>().join(" and ")))
            }
            _ => None,
        }
    }
}

/// Type of a key's value, as far as it decides how the value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// A text.
    Text,
    /// A number, a flag or one of several.
    Scalar,
    /// A list.
    List,
    /// Keys and values.
    Mapping,
}

/// A key and its meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key<'a> {
    /// Name.
    pub name: &'a str,
    /// Description for people.
    pub about: String,
    /// Type of its value.
    pub holds: Holds,
    /// False for keys that are accepted and not worth suggesting, such as older names.
    pub is_suggested: bool,
}

/// One of the texts that are allowed at a position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// Text.
    pub word: String,
    /// Description for people; empty where there is none.
    pub about: String,
    /// True for `true` and `false`, which are no texts.
    pub is_flag: bool,
}

/// A key that its mapping doesn't have. Displays as the problem to report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownKey<'o, 'a> {
    /// Name, as written.
    pub name: &'o str,
    /// The key that it may be meant for.
    pub meant: Option<&'a str>,
}

impl fmt::Display for UnknownKey<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown key `{}`, ignored{}", exact_line(self.name), did_you_mean(self.meant))
    }
}

/// The end of a message about a misspelt text; empty where there is no suggestion.
pub fn did_you_mean(suggestion: Option<&str>) -> String {
    suggestion.map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default()
}

/// Returns the end of a message about a text that isn't one of those that are known, and the one that it may be meant for.
/// Where there is none, the message lists the known ones after `introduction`, such as `the groups are`.
pub fn meant_or_known<'a>(written: &str, known: &[&'a str], introduction: &str) -> (String, Option<&'a str>) {
    match misspelling::meant(written, known.iter().copied()) {
        Some(meant) => (did_you_mean(Some(meant)), Some(meant)),
        None => (format!("; {introduction} {}", known.join(", ")), None),
    }
}

/// Kind of a [`Mismatch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MismatchKind {
    /// A key that isn't declared.
    UnknownKey,
    /// A key that must be there and isn't.
    Missing,
    /// A value of another type.
    Value,
    /// A value beyond its bounds.
    Bounds,
}

impl MismatchKind {
    /// Returns its severity where the format says nothing else.
    pub fn severity(self) -> Severity {
        match self {
            Self::UnknownKey => Severity::Warning,
            Self::Missing | Self::Value | Self::Bounds => Severity::Error,
        }
    }
}

/// Something in a value that its declaration doesn't allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// Path within the value.
    pub path: Vec<Step>,
    /// Kind.
    pub kind: MismatchKind,
    /// Problem and remedy.
    pub message: String,
    /// The key that an unknown one may be meant for.
    pub suggestion: Option<String>,
}

impl<'a> Part<'a> {
    fn new(schema: &'a Value, of: impl IntoIterator<Item = &'a Value>) -> Self {
        let mut part = Self { schema, is_nullable: false, is_item: false, shapes: vec![] };
        for one in of {
            part.expand(one, None, DEPTH);
        }
        part
    }

    /// Adds the shapes of a schema: those that it refers to, and each of its alternatives but `null`.
    fn expand(&mut self, schema: &'a Value, type_name: Option<&'a str>, depth: usize) {
        let Some(keywords) = schema.as_object().filter(|_| depth > 0) else { return };
        let shape = Shape { type_name, keywords };
        if let Some(pointer) = shape.get("$ref").and_then(Value::as_str).and_then(|it| it.strip_prefix('#')) {
            let name = pointer.rsplit('/').next();
            if let Some(target) = self.schema.pointer(pointer) {
                self.expand(target, name, depth - 1);
            }
            return;
        }
        let alternatives: Vec<_> =
            ["anyOf", "oneOf"].iter().flat_map(|keyword| shape.list(keyword)).collect();
        self.is_nullable |= shape.is_of_type("null");
        if alternatives.is_empty() && shape.get("type").is_none_or(|kind| kind != "null") {
            self.shapes.push(shape);
        }
        for alternative in alternatives {
            self.expand(alternative, type_name, depth - 1);
        }
    }

    /// The part one step further.
    pub fn step(&self, step: &Step) -> Option<Self> {
        let within = |shape: &Shape<'a>| match step {
            Step::Key(key) | Step::Name(key) => {
                let own = shape.properties().find(|(name, _)| *name == key).map(|(_, value)| value);
                own.or_else(|| shape.get("additionalProperties").filter(|value| value.is_object()))
            }
            Step::Index(index) => shape.list("prefixItems").get(*index).or_else(|| shape.get("items")),
        };
        let mut within = self.shapes.iter().filter_map(within).peekable();
        within.peek()?;
        Some(Self { is_item: matches!(step, Step::Index(_)), ..Self::new(self.schema, within) })
    }

    /// The items of a list that may have any number of them.
    pub fn items(&self) -> Option<Self> {
        let lists = self.shapes.iter().filter(|shape| shape.list("prefixItems").is_empty());
        let mut items = lists.filter_map(|shape| shape.get("items")).peekable();
        items.peek()?;
        Some(Self::new(self.schema, items))
    }

    /// Returns whether a value of this type is allowed here.
    pub fn is<T: JsonSchema>(&self) -> bool {
        let name = T::schema_name();
        self.shapes.iter().any(|shape| shape.type_name == Some(&*name))
    }

    /// The keys of a mapping, in the order of the declaration.
    pub fn keys(&self) -> Vec<Key<'a>> {
        let key = |(name, value): (&'a String, &'a Value)| {
            let part = Self::new(self.schema, [value]);
            let described = std::iter::once(value.get("description"));
            let described = described.chain(part.shapes.iter().map(|shape| shape.get("description")));
            Key {
                name,
                about: described.flatten().find_map(Value::as_str).map(unwrapped).unwrap_or_default(),
                holds: part.holds(),
                is_suggested: value.get(NOT_SUGGESTED).is_none(),
            }
        };
        self.shapes.iter().flat_map(|shape| shape.properties()).map(key).collect()
    }

    fn holds(&self) -> Holds {
        match self.shapes.first() {
            Some(shape) if shape.is_of_type("array") => Holds::List,
            Some(shape) if shape.is_of_type("object") => Holds::Mapping,
            Some(shape) if shape.is_of_type("string") => Holds::Text,
            _ => Holds::Scalar,
        }
    }

    /// Returns whether a mapping is declared here.
    pub(crate) fn has_keys(&self) -> bool {
        self.takes_any_key() || self.shapes.iter().any(|shape| shape.properties().next().is_some())
    }

    fn takes_any_key(&self) -> bool {
        self.shapes.iter().any(|shape| shape.get("additionalProperties").is_some_and(Value::is_object))
    }

    /// The keys of a mapping that aren't declared here; none where any may stand by declaration.
    pub(crate) fn unknown_keys<'o>(&self, object: &'o Map<String, Value>) -> Vec<UnknownKey<'o, 'a>> {
        let declared = self.shapes.iter().flat_map(|shape| shape.properties());
        let known: Vec<(&'a str, bool)> = declared
            .map(|(name, value)| (name.as_str(), Self::new(self.schema, [value]).holds() == Holds::Mapping))
            .collect();
        let is_unknown = |name: &str| !self.takes_any_key() && known.iter().all(|(known, _)| *known != name);
        let unknown = object.iter().filter(|(name, _)| is_unknown(name));
        let unknown = unknown.map(|(name, value)| {
            // Of two that are as near, one that isn't there yet, and the one that holds what is given:
            // `profils: {}` is no `profile`.
            let mut known = known.clone();
            known.sort_by_key(|(known, is_mapping)| {
                (object.contains_key(*known), *is_mapping != value.is_object())
            });
            UnknownKey { name, meant: misspelling::meant(name, known.into_iter().map(|(name, _)| name)) }
        });
        unknown.collect()
    }

    /// Reads a value at a path of its file as the type that is declared here, and returns what the declaration doesn't allow.
    /// All keys of the type may be missing: a key has no value, and a list no item, where it isn't allowed. Values of
    /// `Inner` and lists of them are not looked into, as they are read one by one.
    pub fn read<T: DeserializeOwned + Default, Inner: JsonSchema>(
        &self,
        path: &[Step],
        value: &Value,
    ) -> (T, Vec<Mismatch>) {
        let mut mismatches = self.mismatches(value, Some(&*Inner::schema_name()));
        let is_refused =
            |mismatch: &&Mismatch| matches!(mismatch.kind, MismatchKind::Value | MismatchKind::Bounds);
        let refused: HashSet<&[Step]> =
            mismatches.iter().filter(is_refused).map(|mismatch| mismatch.path.as_slice()).collect();
        let read = placed::read(value, path, &refused).unwrap_or_else(|error| {
            let message = error.to_string();
            mismatches.push(Mismatch { path: vec![], kind: MismatchKind::Value, message, suggestion: None });
            T::default()
        });
        (read, mismatches)
    }

    /// The first of the keys that a mapping must have and this one doesn't have.
    pub fn missing_key(&self, object: &Map<String, Value>) -> Option<&'a str> {
        self.required().find(|key| self.lacks(object, key))
    }

    /// The keys that a mapping must have.
    pub(crate) fn required(&self) -> impl Iterator<Item = &'a str> {
        self.shapes.iter().flat_map(|shape| shape.list("required")).filter_map(Value::as_str)
    }

    /// Compares a value with the declaration: keys, types and bounds. Which texts are allowed is up to whoever reads them: they
    /// may have other names. Values of the type `inner` and lists of them are not looked into.
    pub(crate) fn mismatches(&self, value: &Value, inner: Option<&str>) -> Vec<Mismatch> {
        let mut found = Vec::new();
        self.compare(value, inner, &mut Vec::new(), &mut found);
        found
    }

    /// Returns whether values of a type are allowed here, or lists of them.
    fn holds_type(&self, name: &str) -> bool {
        let is_of_type = |part: &Self| part.shapes.iter().any(|shape| shape.type_name == Some(name));
        is_of_type(self) || self.items().as_ref().is_some_and(is_of_type)
    }

    fn compare(&self, value: &Value, inner: Option<&str>, path: &mut Vec<Step>, found: &mut Vec<Mismatch>) {
        let mut add = |path: &[Step], kind, message| {
            found.push(Mismatch { path: path.to_vec(), kind, message, suggestion: None });
        };
        let Some(shape) = self.shapes.iter().find(|shape| shape.is_type_of(value)) else {
            let is_anything =
                self.shapes.is_empty() || self.shapes.iter().any(|shape| shape.get("type").is_none());
            let is_allowed = is_anything || (value.is_null() && self.is_nullable);
            if !is_allowed {
                add(path, MismatchKind::Value, format!("`{}` must be {}", shown(path), self.expected(value)));
            }
            return;
        };
        if inner.is_some_and(|inner| self.holds_type(inner)) {
            return;
        }
        if let Some(message) = shape.out_of_bounds(value) {
            add(path, MismatchKind::Bounds, format!("`{}` {message}", shown(path)));
        }
        match value {
            Value::Object(object) => {
                let required = shape.list("required").iter().filter_map(Value::as_str);
                let missing: Vec<&str> = required.filter(|key| self.lacks(object, key)).collect();
                for key in &missing {
                    add(path, MismatchKind::Missing, format!("`{key}` is missing"));
                }
                let is_closed = shape.get("additionalProperties") == Some(&Value::Bool(false));
                found.extend(self.unknown_keys(object).into_iter().filter(|_| is_closed).map(|unknown| {
                    Mismatch {
                        path: [path, &[Step::Name(unknown.name.to_owned())][..]].concat(),
                        kind: MismatchKind::UnknownKey,
                        message: unknown.to_string(),
                        suggestion: unknown.meant.map(str::to_owned),
                    }
                }));
                for (key, value) in object.iter().filter(|(key, _)| !missing.contains(&key.as_str())) {
                    let Some(part) = self.step(&Step::Key(key.clone())) else { continue };
                    path.push(Step::Key(key.clone()));
                    part.compare(value, inner, path, found);
                    path.pop();
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    path.push(Step::Index(index));
                    if let Some(part) = self.step(&Step::Index(index)) {
                        part.compare(item, inner, path, found);
                    }
                    path.pop();
                }
            }
            _ => {}
        }
    }

    /// Returns whether a mapping has no value for a key, where `null` is none.
    fn lacks(&self, object: &Map<String, Value>, key: &str) -> bool {
        let may_be_null = || self.step(&Step::Key(key.to_owned())).is_some_and(|part| part.is_nullable);
        object.get(key).is_none_or(|value| value.is_null() && !may_be_null())
    }

    /// Describes the values that are allowed here in place of another.
    fn expected(&self, value: &Value) -> String {
        format!("{}{}", self.types(), if self.is_unquoted(value) { "; put it in quotes" } else { "" })
    }

    /// The types of what is allowed here, in words.
    fn types(&self) -> String {
        let types = self.shapes.iter().filter_map(|shape| shape.types().find(|name| *name != "null"));
        let in_words = |name| match name {
            "string" => "a string",
            "array" => "a list",
            "object" => "an object",
            "boolean" => "true or false",
            "integer" => "a whole number",
            _ => "a number",
        };
        let mut words: Vec<&str> = types.map(in_words).collect();
        words.dedup();
        words.join(" or ")
    }

    /// Returns whether a value would be allowed if it were in quotes.
    fn is_unquoted(&self, value: &Value) -> bool {
        self.types() == "a string" && (value.is_number() || value.is_boolean())
    }

    /// A key of a mapping with its default, to follow "must have keys below it"; empty where none has a plain one.
    fn example_key(&self) -> String {
        let defaults =
            self.shapes.iter().flat_map(|shape| shape.properties()).filter_map(|(name, schema)| {
                let default =
                    schema.get("default").filter(|default| default.is_boolean() || default.is_u64())?;
                Some(format!(", such as `{name}: {default}`"))
            });
        defaults.take(1).collect()
    }

    /// What to write in place of a text that was meant for a list, to follow "must be a list, not …". A list within a list has
    /// the words of a command; any other text may have spaces, as paths do. Empty where it would be too long.
    fn as_list(&self, text: &str) -> String {
        let is_plain = |word: &str| {
            let is_start = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '/' | '-' | '_');
            word.starts_with(is_start) && word.chars().all(|c| is_start(c) || matches!(c, '+' | '='))
        };
        let is_of_lists = self.items().is_some_and(|items| items.types() == "a list");
        let is_command = self.is_item || is_of_lists;
        let (introduction, entries): (_, Vec<&str>) = match is_command {
            true => ("write each word by itself", text.split_whitespace().collect()),
            false => ("write it as", text.split(", ").map(str::trim).collect()),
        };
        if entries.iter().any(|entry| entry.chars().count() > MAX_FOUND_CHARS) {
            return String::new();
        }
        let entries = entries.iter().map(|entry| match is_plain(entry) {
            true => (*entry).to_owned(),
            false => Value::from(*entry).to_string(),
        });
        let list = format!("[{}]", entries.collect::<Vec<_>>().join(", "));
        let list = if is_of_lists { format!("[{list}]") } else { list };
        format!("; {introduction}: {}", exact_line(&list))
    }

    /// Says after the name of a key why a value isn't allowed here: what is, and what was found. Looks at type, texts and
    /// bounds of this value, not into it. `is_secret` leaves out what the value is.
    pub(crate) fn refusal(&self, value: &Value, is_secret: bool) -> Option<String> {
        let Some(shape) = self.shapes.iter().find(|shape| shape.is_type_of(value)) else {
            let found = match value {
                Value::Null => "nothing".to_owned(),
                Value::Bool(value) => value.to_string(),
                Value::Number(number) if !is_secret => number.to_string(),
                Value::Number(_) => "a number".to_owned(),
                Value::String(text) if !is_secret => format!("the string {}", quoted(text)),
                Value::String(_) => "a string".to_owned(),
                Value::Array(_) => "a list".to_owned(),
                Value::Object(_) => "an object".to_owned(),
            };
            let types = self.types();
            return Some(match (value, &*types) {
                (_, "an object") => {
                    let example = if is_secret { String::new() } else { self.example_key() };
                    format!("must have keys below it{example}, and is {found}")
                }
                (Value::String(text), "a list") if !is_secret => {
                    format!("must be a list, not {found}{}", self.as_list(text))
                }
                _ if self.is_unquoted(value) => format!("must be {types}, not {found}; put it in quotes"),
                _ => format!("must be {types}, not {found}"),
            });
        };
        let words = self.words();
        let words: Vec<&str> = words.iter().map(|word| word.word.as_str()).collect();
        let mut texts = self.shapes.iter().filter(|shape| shape.is_of_type("string")).peekable();
        let is_closed = texts.peek().is_some()
            && texts.all(|shape| shape.get("const").is_some() || shape.get("enum").is_some());
        let is_unknown = value.as_str().is_some_and(|text| is_closed && !words.contains(&text));
        let allowed = match shape.out_of_bounds(value) {
            Some(message) => message,
            None if is_unknown => {
                let shapes =
                    self.shapes.iter().filter(|shape| !shape.is_of_type("string")).copied().collect();
                let others = Self { shapes, ..self.clone() }.types();
                let others = if others.is_empty() { others } else { format!(", or {others}") };
                format!("must be one of `{}`{others}", words.join("`, `"))
            }
            None => return None,
        };
        Some(match value {
            Value::Number(number) if !is_secret => format!("{allowed}, not {number}"),
            Value::String(text) if !is_secret => format!("{allowed}, not {}", quoted(text)),
            _ => allowed,
        })
    }

    /// The allowed text that a misspelt one may be meant for.
    pub fn meant(&self, written: &str) -> Option<String> {
        let words = self.words();
        let words = words.iter().filter(|word| !word.is_flag).map(|word| word.word.as_str());
        misspelling::meant(written, words).map(str::to_owned)
    }

    /// The texts that are allowed here or worth suggesting, in the order of the declaration; empty where any may stand.
    pub fn words(&self) -> Vec<Word> {
        let mut words = Vec::new();
        for shape in &self.shapes {
            let about = shape.get("description").and_then(Value::as_str).map(unwrapped).unwrap_or_default();
            if let Some(Value::String(word)) = shape.get("const") {
                words.push(Word { word: word.clone(), about, is_flag: false });
                continue;
            }
            let listed = shape.list("enum").iter().chain(shape.list("examples")).filter_map(Value::as_str);
            let listed = listed.map(|word| (word, false));
            let is_flag = shape.is_of_type("boolean") && !shape.is_of_type("string");
            let flags = ["true", "false"].into_iter().filter(|_| is_flag);
            words.extend(listed.chain(flags.map(|flag| (flag, true))).map(|(word, is_flag)| Word {
                word: word.to_owned(),
                about: String::new(),
                is_flag,
            }));
        }
        words
    }
}

/// A text as messages show it.
fn quoted(text: &str) -> String {
    format!("\"{}\"", one_line(text, MAX_FOUND_CHARS))
}

/// A string, or a number or truth value that stands for its text.
#[derive(Deserialize)]
#[serde(untagged)]
pub(crate) enum Text {
    String(String),
    Number(serde_json::Number),
    Bool(bool),
}

impl JsonSchema for Text {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        Cow::Borrowed("Text")
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "number", "boolean"] })
    }
}

impl From<Text> for String {
    fn from(text: Text) -> Self {
        match text {
            Text::String(text) => text,
            Text::Number(number) => number.to_string(),
            Text::Bool(value) => value.to_string(),
        }
    }
}

/// Returns the keys with values that the declaration of a mapping allows and the type by which it is read doesn't take.
#[cfg(test)]
pub(crate) fn disagreements<T: DeserializeOwned + Default>(part: Option<Part<'_>>) -> Vec<String> {
    let values = serde_json::json!([null, true, -1, 3, 0.5, "", "x", [], ["x"], [["x"]], [1], {}, { "x": 1 }, { "x": [] }]);
    let part = part.expect("a mapping");
    let keys: Vec<&str> = part.keys().iter().map(|key| key.name).collect();
    assert!(!keys.is_empty());
    let pairs =
        keys.iter().flat_map(|key| values.as_array().into_iter().flatten().map(move |value| (key, value)));
    let told = pairs.flat_map(|(key, value)| {
        let (_, mismatches) = part.read::<T, ()>(&[], &serde_json::json!({ *key: value }));
        let is_of_type =
            |mismatch: &Mismatch| mismatch.path.is_empty() && mismatch.kind == MismatchKind::Value;
        let refused = mismatches.into_iter().filter(is_of_type);
        refused.map(move |mismatch| format!("{key}: {value}: {}", mismatch.message)).collect::<Vec<_>>()
    });
    told.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A file.
    #[derive(JsonSchema)]
    #[schemars(rename_all = "camelCase", deny_unknown_fields)]
    #[expect(dead_code, reason = "read through its schema")]
    struct File {
        /// The list, over
        /// two lines.
        entries: Option<Vec<Entry>>,
        /// By name.
        by_name: std::collections::BTreeMap<String, Inner>,
        /// An older name.
        #[schemars(extend("doNotSuggest" = true))]
        older: Option<bool>,
    }

    #[derive(JsonSchema)]
    #[schemars(untagged)]
    #[expect(dead_code, reason = "read through its schema")]
    enum Entry {
        Name(Name),
        Pair(Name, Inner),
    }

    #[derive(JsonSchema)]
    #[schemars(rename_all = "lowercase")]
    #[expect(dead_code, reason = "read through its schema")]
    enum Name {
        /// The first one.
        First,
        /// The second one.
        Second,
    }

    /// Of an inner mapping.
    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "read through its schema")]
    struct Inner {
        depth: Option<u32>,
        others: Option<Vec<Name>>,
    }

    fn at<'a>(file: &'a Declaration, path: &[&str]) -> Option<Part<'a>> {
        let step = |step: &&str| step.parse().map_or_else(|_| Step::Key((*step).to_owned()), Step::Index);
        file.at(&path.iter().map(step).collect::<Vec<_>>())
    }

    #[test]
    fn keys_have_the_descriptions_and_types_of_their_fields() {
        let file = Declaration::of::<File>();
        let key = |name, about: &str, holds, is_suggested| Key {
            name,
            about: about.to_owned(),
            holds,
            is_suggested,
        };
        let expected = [
            key("entries", "The list, over two lines.", Holds::List, true),
            key("byName", "By name.", Holds::Mapping, true),
            key("older", "An older name.", Holds::Scalar, false),
        ];
        assert_eq!(file.root().keys(), expected);
        let inner: Vec<&str> =
            at(&file, &["byName", "x"]).unwrap().keys().iter().map(|key| key.name).collect();
        assert_eq!(inner, ["depth", "others"]);
    }

    #[test]
    fn every_alternative_is_found() {
        let file = Declaration::of::<File>();
        let words = |path: &[&str]| -> Vec<String> {
            let words = at(&file, path).map(|part| part.words()).unwrap_or_default();
            words.into_iter().map(|word| format!("{}: {}", word.word, word.about)).collect()
        };
        let names = ["first: The first one.", "second: The second one."];
        for path in [&["entries", "3"][..], &["entries", "3", "0"], &["byName", "x", "others", "0"]] {
            assert!(at(&file, path).unwrap().is::<Name>());
            assert_eq!(words(path), names);
        }
        assert_eq!(words(&["older"]), ["true: ", "false: "]);
        assert!(at(&file, &["entries", "3", "1"]).unwrap().is::<Inner>());
        assert!(at(&file, &["byName", "x", "others"]).unwrap().items().unwrap().is::<Name>());
        assert!(at(&file, &["entries", "0"]).unwrap().items().is_none());
        for path in [&["nonsense"][..], &["older", "x"], &["byName", "x", "y"]] {
            assert!(at(&file, path).is_none());
        }
    }

    #[test]
    fn unknown_keys_are_told_with_what_they_may_mean() {
        let object = json!({ "entrys": 1, "older": 2, "oldr": 3, "colour": 4 });
        let file = Declaration::of::<File>();
        let told: Vec<String> =
            file.root().unknown_keys(object.as_object().unwrap()).iter().map(ToString::to_string).collect();
        let expected = [
            "unknown key `entrys`, ignored; did you mean `entries`?",
            "unknown key `oldr`, ignored; did you mean `older`?",
            "unknown key `colour`, ignored",
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn a_value_is_compared_with_its_declaration() {
        let told = |value: Value| -> Vec<String> {
            let found = Declaration::of::<File>().root().mismatches(&value, None);
            found.into_iter().map(|mismatch| mismatch.message).collect()
        };
        let fine =
            json!({ "entries": ["first", ["second", { "depth": 1 }]], "byName": { "x": {} }, "older": null });
        assert_eq!(told(fine), [""; 0]);
        let wrong =
            json!({ "entries": [7], "byName": { "x": { "depth": 1.5, "others": "first" } }, "oldr": 1 });
        let expected = [
            "unknown key `oldr`, ignored; did you mean `older`?",
            "`byName.x.depth` must be a whole number",
            "`byName.x.others` must be a list",
            "`entries[0]` must be a string or a list",
        ];
        let mut found = told(wrong);
        found.sort_by_key(|message| expected.iter().position(|known| known == message));
        assert_eq!(found, expected);
        assert_eq!(told(json!({ "entries": {} })), ["`byName` is missing", "`entries` must be a list"]);
    }

    #[test]
    fn a_type_that_does_not_match_its_declaration_refuses_instead_of_being_read_in_part() {
        /// Read as a text, although it is declared as a number.
        #[derive(Debug, Default, PartialEq, Deserialize, JsonSchema)]
        struct Wrong {
            #[schemars(with = "Option<u32>")]
            depth: Option<String>,
            name: Option<String>,
        }
        let declaration = Declaration::of::<Wrong>();
        let (read, mismatches) =
            declaration.root().read::<Wrong, ()>(&[], &json!({ "depth": 3, "name": "x" }));
        assert_eq!(read, Wrong::default());
        assert_eq!(mismatches.iter().map(|found| found.kind).collect::<Vec<_>>(), [MismatchKind::Value]);
        let told = disagreements::<Wrong>(Some(declaration.root()));
        assert!(told.len() == 1 && told[0].starts_with("depth: 3: "), "{told:?}");
    }

    #[test]
    fn published_schemas_have_no_line_breaks_and_no_formats_of_numbers() {
        let schema = published::<File>().to_string();
        assert!(schema.contains("The list, over two lines.") && schema.contains("draft-07"), "{schema}");
        assert!(!schema.contains("uint32"), "{schema}");
    }
}
