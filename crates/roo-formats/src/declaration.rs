//! Declaration of a configuration format: a Rust type whose documented fields are the keys of the file.
//!
//! Everything that has to know the format asks the JSON Schema of that type: readers for the keys that they know, completion
//! and hover for what is allowed at a position, editors for the schema itself. What a text means beyond its shape is said by
//! its type, such as [`crate::modes::ModeSlug`]; what a file means is for its reader.

use std::fmt;

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value};

use crate::config::yaml::Step;
use roo_text::misspelling;
use roo_text::render::exact_line;

/// Keyword of editors for keys that they accept and don't suggest.
const NOT_SUGGESTED: &str = "doNotSuggest";
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
        // No value in particular, where any may stand.
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
pub fn words_of<T: JsonSchema>() -> Vec<Word> {
    Declaration::of::<T>().root().words()
}

/// A text without the line breaks of the source in which it stands. Paragraphs stay.
fn unwrapped(text: &str) -> String {
    text.split("\n\n").map(|paragraph| paragraph.replace('\n', " ")).collect::<Vec<_>>().join("\n\n")
}

/// Part of a format, in all the shapes that are allowed there.
#[derive(Clone, Debug)]
pub struct Part<'a> {
    schema: &'a Value,
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

    fn is_of_type(self, name: &str) -> bool {
        match self.get("type") {
            Some(Value::Array(types)) => types.iter().any(|one| one == name),
            Some(one) => one == name,
            None => false,
        }
    }
}

/// Type of a key's value, as far as it decides how the value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// A text, a number or a flag.
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
}

/// A key that its mapping doesn't have. Displays as the problem to report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownKey<'a> {
    /// Name, as written.
    pub name: &'a str,
    /// The key that it may be meant for.
    pub meant: Option<&'a str>,
}

impl fmt::Display for UnknownKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown key `{}`, ignored", exact_line(self.name))?;
        match self.meant {
            Some(meant) => write!(f, "; did you mean `{meant}`?"),
            None => Ok(()),
        }
    }
}

impl<'a> Part<'a> {
    fn new(schema: &'a Value, of: impl IntoIterator<Item = &'a Value>) -> Self {
        let mut part = Self { schema, shapes: vec![] };
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
        if alternatives.is_empty() && shape.get("type").is_none_or(|kind| kind != "null") {
            self.shapes.push(shape);
        }
        for alternative in alternatives {
            self.expand(alternative, type_name, depth - 1);
        }
    }

    /// The part one step further.
    fn step(&self, step: &Step) -> Option<Self> {
        let within = |shape: &Shape<'a>| match step {
            Step::Key(key) | Step::Name(key) => {
                let own = shape.properties().find(|(name, _)| *name == key).map(|(_, value)| value);
                own.or_else(|| shape.get("additionalProperties").filter(|value| value.is_object()))
            }
            Step::Index(index) => shape.list("prefixItems").get(*index).or_else(|| shape.get("items")),
        };
        let mut within = self.shapes.iter().filter_map(within).peekable();
        within.peek()?;
        Some(Self::new(self.schema, within))
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
            _ => Holds::Scalar,
        }
    }

    fn key_names(&self) -> impl Iterator<Item = &'a str> {
        self.shapes.iter().flat_map(|shape| shape.properties()).map(|(name, _)| name.as_str())
    }

    /// The keys of a mapping that aren't declared here.
    pub fn unknown_keys<'o>(&self, object: &'o Map<String, Value>) -> Vec<UnknownKey<'o>>
    where
        'a: 'o,
    {
        let unknown = object.keys().filter(|name| self.key_names().all(|known| known != *name));
        let meant = |name: &str| misspelling::meant(name, self.key_names());
        unknown.map(|name| UnknownKey { name, meant: meant(name) }).collect()
    }

    /// The texts that are allowed here or worth suggesting, in the order of the declaration; empty where any may stand.
    pub fn words(&self) -> Vec<Word> {
        let mut words = Vec::new();
        for shape in &self.shapes {
            let about = shape.get("description").and_then(Value::as_str).map(unwrapped).unwrap_or_default();
            if let Some(Value::String(word)) = shape.get("const") {
                words.push(Word { word: word.clone(), about });
                continue;
            }
            let listed = shape.list("enum").iter().chain(shape.list("examples")).filter_map(Value::as_str);
            let flags = ["true", "false"].into_iter().filter(|_| shape.is_of_type("boolean"));
            words
                .extend(listed.chain(flags).map(|word| Word { word: word.to_owned(), about: String::new() }));
        }
        words
    }
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
    fn published_schemas_have_no_line_breaks_and_no_formats_of_numbers() {
        let schema = published::<File>().to_string();
        assert!(schema.contains("The list, over two lines.") && schema.contains("draft-07"), "{schema}");
        assert!(!schema.contains("uint32"), "{schema}");
    }
}
