//! What servers ask the user while they answer a call (*elicitation*): a form, or a visit to an address. Forms are read into
//! fields whose answers are checked here, by the same schema that the server checks them by. How the user is asked is
//! not known here.

use rmcp::model::{
    ElicitRequestParams, ElicitResult, ElicitationAction, EnumSchema, MultiSelectEnumSchema,
    PrimitiveSchemaDefinition, SingleSelectEnumSchema, StringFormat,
};
use roo_sandbox::exec::redaction::is_secret_name;
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;
use url::Url;

/// The most fields of a form.
const FIELDS: usize = 20;
/// The most choices of a field.
const CHOICES: usize = 100;
/// The longest text of a server's in a question, in characters.
const TEXT: usize = 2000;
/// The longest address, in bytes.
const ADDRESS: usize = 2000;

/// Something that a server asks the user.
#[derive(Debug)]
pub struct Elicitation {
    /// The server's words.
    pub message: String,
    /// What it asks for.
    pub wanted: Wanted,
    /// Receives the answer. To drop it cancels the question; it is closed when the server takes the question back.
    pub answer: oneshot::Sender<Answer>,
}

impl Elicitation {
    /// Reports whether what is typed in answer is likely to be a secret, by the server's words for all of it.
    pub fn is_secret(&self) -> bool {
        is_secret_name(&self.message)
    }
}

/// What a server asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Wanted {
    /// Answers to these fields; none where it asks for consent alone.
    Form(Vec<FormField>),
    /// A visit to an address, over `https` or on this machine.
    Visit {
        /// The address.
        url: String,
        /// Its host, in ASCII.
        host: String,
    },
}

/// The user's answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The values of the fields.
    Accepted(Map<String, Value>),
    /// The user agreed to visit the address.
    Visited,
    /// The user refused.
    Declined,
}

#[derive(Clone, Debug, PartialEq)]
pub struct FormField {
    /// Its name in the answer.
    pub name: String,
    /// A name for people.
    pub title: Option<String>,
    pub description: Option<String>,
    /// True if it can't be left out.
    pub required: bool,
    /// What fits.
    pub kind: FieldKind,
    /// The text that [`FormField::read`] takes for the default value.
    pub default: Option<String>,
}

/// What fits into a field.
#[derive(Clone, Debug, PartialEq)]
pub enum FieldKind {
    Text {
        /// The least and the greatest number of characters.
        length: (Option<u32>, Option<u32>),
        /// Form of the text.
        format: Option<TextFormat>,
    },
    /// A number between these, both included.
    Number(Option<f64>, Option<f64>),
    /// A whole number between these, both included.
    Integer(Option<i64>, Option<i64>),
    /// Yes or no.
    Boolean,
    /// One of these.
    OneOf(Vec<Choice>),
    /// Some of these.
    SomeOf {
        /// All that there are.
        choices: Vec<Choice>,
        /// The least and the greatest number of them.
        count: (Option<u64>, Option<u64>),
    },
}

/// Form of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextFormat {
    /// An address of electronic mail.
    Email,
    /// An address with a scheme.
    Uri,
    /// `YYYY-MM-DD`.
    Date,
    /// A date and a time, as in RFC 3339.
    DateTime,
}

/// A choice of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Its value in the answer.
    pub value: String,
    /// Its name for people.
    pub title: String,
}

impl Wanted {
    /// Reads what a server asks for, with its words.
    ///
    /// # Errors
    /// Says why the user can't be asked that.
    pub(crate) fn read(params: ElicitRequestParams) -> Result<(String, Self), String> {
        match params {
            ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } => {
                if requested_schema.properties.len() > FIELDS {
                    return Err(format!("its form has more than {FIELDS} fields"));
                }
                let required = requested_schema.required.unwrap_or_default();
                let fields = requested_schema.properties.into_iter();
                let fields = fields.map(|(name, schema)| {
                    let required = required.contains(&name);
                    FormField::new(name, required, schema)
                });
                Ok((cut(&message), Self::Form(fields.collect::<Result<_, _>>()?)))
            }
            ElicitRequestParams::UrlElicitationParams { message, url, .. } => {
                Ok((cut(&message), address(&url)?))
            }
            _ => Err("it asks in a way that is not known".to_owned()),
        }
    }
}

/// An address that a user may be sent to.
fn address(text: &str) -> Result<Wanted, String> {
    let url = Url::parse(text).ok().filter(|_| text.len() <= ADDRESS);
    let url = url.ok_or("its address can't be read, or is too long")?;
    let is_own = match url.host() {
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        Some(url::Host::Domain(name)) => name == "localhost",
        None => false,
    };
    if url.scheme() != "https" && !(url.scheme() == "http" && is_own) {
        return Err("its address is not one of `https`".to_owned());
    }
    // The part before an `@` passes for the host.
    if !url.username().is_empty() || url.password().is_some() {
        return Err("its address has a user name".to_owned());
    }
    let host = url.host_str().unwrap_or_default().to_owned();
    Ok(Wanted::Visit { url: url.into(), host })
}

fn cut(text: &str) -> String {
    text.trim().chars().take(TEXT).collect()
}

impl FormField {
    fn new(name: String, required: bool, schema: PrimitiveSchemaDefinition) -> Result<Self, String> {
        // All kinds have them, each in a struct of its own.
        let of = |key: &str| {
            let schema = serde_json::to_value(&schema).ok()?;
            schema.get(key)?.as_str().map(cut).filter(|text| !text.is_empty())
        };
        let (title, description) = (of("title"), of("description"));
        let (kind, default) = match schema {
            PrimitiveSchemaDefinition::String(text) => {
                let format = text.format.map(TextFormat::read).transpose()?;
                (FieldKind::Text { length: (text.min_length, text.max_length), format }, text.default)
            }
            PrimitiveSchemaDefinition::Number(number) => (
                FieldKind::Number(number.minimum, number.maximum),
                number.default.map(|number| number.to_string()),
            ),
            PrimitiveSchemaDefinition::Integer(number) => (
                FieldKind::Integer(number.minimum, number.maximum),
                number.default.map(|number| number.to_string()),
            ),
            PrimitiveSchemaDefinition::Boolean(boolean) => {
                let default = boolean.default.map(|default| if default { YES } else { NO }.to_owned());
                (FieldKind::Boolean, default)
            }
            PrimitiveSchemaDefinition::Enum(choices) => Self::choice(choices)?,
            _ => return Err(format!("the field `{}` is of a kind that is not known", cut(&name))),
        };
        let field = Self { name, title, description, required, kind, default: None };
        // A default that doesn't fit is none.
        let default = default.filter(|default| field.read(default).is_ok());
        Ok(Self { default, ..field })
    }

    fn choice(schema: EnumSchema) -> Result<(FieldKind, Option<String>), String> {
        let plain = |values: Vec<String>| -> Vec<Choice> {
            values.into_iter().map(|value| Choice { title: value.clone(), value }).collect()
        };
        let titled = |values: Vec<rmcp::model::ConstTitle>| -> Vec<Choice> {
            values.into_iter().map(|one| Choice { value: one.const_, title: one.title }).collect()
        };
        let (choices, count, default) = match schema {
            EnumSchema::Single(SingleSelectEnumSchema::Untitled(one)) => {
                (plain(one.enum_), None, one.default)
            }
            EnumSchema::Single(SingleSelectEnumSchema::Titled(one)) => {
                (titled(one.one_of), None, one.default)
            }
            EnumSchema::Legacy(one) => {
                let mut names = one.enum_names.unwrap_or_default().into_iter();
                let choices = plain(one.enum_).into_iter();
                let named =
                    choices.map(|choice| Choice { title: names.next().unwrap_or(choice.title), ..choice });
                (named.collect(), None, one.default)
            }
            EnumSchema::Multi(MultiSelectEnumSchema::Untitled(some)) => {
                let default = some.default.map(|default| default.join(", "));
                (plain(some.items.enum_), Some((some.min_items, some.max_items)), default)
            }
            EnumSchema::Multi(MultiSelectEnumSchema::Titled(some)) => {
                let default = some.default.map(|default| default.join(", "));
                (titled(some.items.any_of), Some((some.min_items, some.max_items)), default)
            }
            _ => return Err("it offers choices in a way that is not known".to_owned()),
        };
        if choices.is_empty() || choices.len() > CHOICES {
            return Err(format!("a field has no choices, or more than {CHOICES}"));
        }
        Ok(match count {
            None => (FieldKind::OneOf(choices), default),
            Some(count) => (FieldKind::SomeOf { choices, count }, default),
        })
    }

    /// Reads what the user wrote.
    ///
    /// # Errors
    /// Says what fits.
    pub fn read(&self, text: &str) -> Result<Value, String> {
        let text = text.trim();
        match &self.kind {
            FieldKind::Text { length: (least, most), format } => {
                let length = text.chars().count();
                let fits = least.is_none_or(|least| length >= least as usize)
                    && most.is_none_or(|most| length <= most as usize)
                    && format.is_none_or(|format| format.fits(text));
                if fits { Ok(json!(text)) } else { Err(self.kind.in_words()) }
            }
            FieldKind::Number(least, most) => {
                let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
                let fits = |number: &f64| {
                    least.is_none_or(|least| *number >= least) && most.is_none_or(|most| *number <= most)
                };
                number.filter(fits).map(|number| json!(number)).ok_or_else(|| self.kind.in_words())
            }
            FieldKind::Integer(least, most) => {
                let fits = |number: &i64| {
                    least.is_none_or(|least| *number >= least) && most.is_none_or(|most| *number <= most)
                };
                let number = text.parse::<i64>().ok().filter(fits);
                number.map(|number| json!(number)).ok_or_else(|| self.kind.in_words())
            }
            FieldKind::Boolean => match text.to_ascii_lowercase().as_str() {
                "yes" | "true" => Ok(json!(true)),
                "no" | "false" => Ok(json!(false)),
                _ => Err(self.kind.in_words()),
            },
            FieldKind::OneOf(choices) => {
                chosen(choices, text).map(|value| json!(value)).ok_or_else(|| self.kind.in_words())
            }
            FieldKind::SomeOf { choices, count: (least, most) } => {
                let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
                let values: Option<Vec<&str>> = parts.map(|part| chosen(choices, part)).collect();
                let fits = |values: &Vec<&str>| {
                    let count = values.len() as u64;
                    least.is_none_or(|least| count >= least) && most.is_none_or(|most| count <= most)
                };
                values.filter(fits).map(|values| json!(values)).ok_or_else(|| self.kind.in_words())
            }
        }
    }

    /// Reports whether its value is likely to be a secret, by what it is called and how it is described.
    pub fn is_secret(&self) -> bool {
        let words = [Some(&self.name), self.title.as_ref(), self.description.as_ref()];
        words.into_iter().flatten().any(|words| is_secret_name(words))
    }
}

fn chosen<'a>(choices: &'a [Choice], text: &str) -> Option<&'a str> {
    let by_title = choices.iter().find(|choice| choice.title == text);
    let choice = by_title.or_else(|| choices.iter().find(|choice| choice.value == text));
    choice.map(|choice| choice.value.as_str())
}

/// The answers to a field that is yes or no.
const YES: &str = "Yes";
const NO: &str = "No";

impl FieldKind {
    /// What fits, as the end of "Write …".
    pub fn in_words(&self) -> String {
        fn between<T: std::fmt::Display>(least: Option<T>, most: Option<T>) -> String {
            match (least, most) {
                (Some(least), Some(most)) => format!(" from {least} to {most}"),
                (Some(least), None) => format!(" of at least {least}"),
                (None, Some(most)) => format!(" of at most {most}"),
                (None, None) => String::new(),
            }
        }
        match self {
            Self::Text { length: (least, most), format } => {
                let what = match format {
                    None => "text",
                    Some(TextFormat::Email) => "an e-mail address",
                    Some(TextFormat::Uri) => "an address such as https://example.com",
                    Some(TextFormat::Date) => "a date as YYYY-MM-DD",
                    Some(TextFormat::DateTime) => "a time as 2026-01-31T09:00:00Z",
                };
                let length = between(*least, *most);
                if length.is_empty() { what.to_owned() } else { format!("{what}{length} characters") }
            }
            Self::Number(least, most) => format!("a number{}", between(*least, *most)),
            Self::Integer(least, most) => format!("a whole number{}", between(*least, *most)),
            Self::Boolean => format!("{YES} or {NO}"),
            Self::OneOf(_) => "one of the choices".to_owned(),
            Self::SomeOf { count: (least, most), .. } => {
                let count = between(*least, *most);
                let count = if count.is_empty() { count } else { format!(", a number{count} of them") };
                format!("choices with commas between them{count}")
            }
        }
    }

    /// The answers that can be suggested.
    pub fn suggestions(&self) -> Vec<String> {
        match self {
            Self::Boolean => vec![YES.to_owned(), NO.to_owned()],
            Self::OneOf(choices) | Self::SomeOf { choices, .. } => {
                choices.iter().map(|choice| choice.title.clone()).collect()
            }
            Self::Text { .. } | Self::Number(..) | Self::Integer(..) => vec![],
        }
    }
}

impl TextFormat {
    fn read(format: StringFormat) -> Result<Self, String> {
        Ok(match format {
            StringFormat::Email => Self::Email,
            StringFormat::Uri => Self::Uri,
            StringFormat::Date => Self::Date,
            StringFormat::DateTime => Self::DateTime,
            _ => return Err("it wants text of a form that is not known".to_owned()),
        })
    }

    fn fits(self, text: &str) -> bool {
        match self {
            Self::Email => text.split_once('@').is_some_and(|(name, host)| {
                !name.is_empty()
                    && !host.is_empty()
                    && !host.contains('@')
                    && !text.contains(char::is_whitespace)
            }),
            Self::Uri => Url::parse(text).is_ok(),
            Self::Date => text.parse::<jiff::civil::Date>().is_ok() && text.len() == 10,
            Self::DateTime => text.parse::<jiff::Timestamp>().is_ok(),
        }
    }
}

/// The answer for the server; none of the user's cancels.
pub(crate) fn result(answer: Option<Answer>) -> ElicitResult {
    match answer {
        Some(Answer::Accepted(values)) => {
            ElicitResult::new(ElicitationAction::Accept).with_content(Value::Object(values))
        }
        Some(Answer::Visited) => ElicitResult::new(ElicitationAction::Accept),
        Some(Answer::Declined) => ElicitResult::new(ElicitationAction::Decline),
        None => ElicitResult::new(ElicitationAction::Cancel),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(properties: Value) -> Result<Vec<FormField>, String> {
        let schema = json!({ "type": "object", "properties": properties, "required": ["name"] });
        let params = json!({ "mode": "form", "message": "Who?", "requestedSchema": schema });
        match Wanted::read(serde_json::from_value(params).unwrap())?.1 {
            Wanted::Form(fields) => Ok(fields),
            visit @ Wanted::Visit { .. } => panic!("{visit:?}"),
        }
    }

    fn field(schema: Value) -> FormField {
        form(json!({ "name": schema })).unwrap().remove(0)
    }

    #[test]
    fn answers_are_read_by_the_schema_of_their_field() {
        let color = json!([{ "const": "r", "title": "Red" }, { "const": "g", "title": "Green" }]);
        for (schema, text, value) in [
            (json!({ "type": "string" }), " Ada ", Some(json!("Ada"))),
            (json!({ "type": "string", "minLength": 2, "maxLength": 3 }), "é", None),
            (json!({ "type": "string", "minLength": 2, "maxLength": 3 }), "éé", Some(json!("éé"))),
            (json!({ "type": "string", "minLength": 2, "maxLength": 3 }), "long", None),
            (json!({ "type": "string", "format": "email" }), "a@b.example", Some(json!("a@b.example"))),
            (json!({ "type": "string", "format": "email" }), "a b@c", None),
            (json!({ "type": "string", "format": "uri" }), "x", None),
            (json!({ "type": "string", "format": "date" }), "2026-02-30", None),
            (json!({ "type": "string", "format": "date" }), "2026-02-28", Some(json!("2026-02-28"))),
            (json!({ "type": "string", "format": "date-time" }), "2026-02-28", None),
            (json!({ "type": "integer", "minimum": 1, "maximum": 9 }), "9", Some(json!(9))),
            (json!({ "type": "integer", "minimum": 1, "maximum": 9 }), "10", None),
            (json!({ "type": "integer" }), "1.5", None),
            (json!({ "type": "number", "maximum": 2.5 }), "2.5", Some(json!(2.5))),
            (json!({ "type": "number" }), "NaN", None),
            (json!({ "type": "boolean" }), "yes", Some(json!(true))),
            (json!({ "type": "boolean" }), "maybe", None),
            (json!({ "type": "string", "enum": ["r", "g"] }), "g", Some(json!("g"))),
            (
                json!({ "type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"] }),
                "Green",
                Some(json!("g")),
            ),
            (json!({ "type": "string", "oneOf": color }), "Green", Some(json!("g"))),
            (json!({ "type": "string", "oneOf": color }), "Blue", None),
            (
                json!({ "type": "array", "items": { "type": "string", "enum": ["r", "g"] }, "minItems": 1 }),
                "r, g",
                Some(json!(["r", "g"])),
            ),
            (
                json!({ "type": "array", "items": { "type": "string", "enum": ["r"] }, "minItems": 1 }),
                "",
                None,
            ),
            (
                json!({ "type": "array", "items": { "anyOf": color }, "maxItems": 1 }),
                "Red",
                Some(json!(["r"])),
            ),
            (json!({ "type": "array", "items": { "anyOf": color }, "maxItems": 1 }), "Red, Green", None),
        ] {
            assert_eq!(field(schema.clone()).read(text).ok(), value, "{text} for {schema}");
        }
    }

    #[test]
    fn defaults_that_do_not_fit_are_none_and_forms_without_bounds_are_refused() {
        assert_eq!(field(json!({ "type": "integer", "default": 5 })).default.as_deref(), Some("5"));
        assert_eq!(field(json!({ "type": "integer", "maximum": 3, "default": 5 })).default, None);
        assert_eq!(field(json!({ "type": "boolean", "default": false })).default.as_deref(), Some("No"));
        assert!(field(json!({ "type": "string", "title": "API key" })).is_secret());
        assert!(!field(json!({ "type": "string", "title": "Author" })).is_secret());
        assert!(field(json!({ "type": "string", "description": "The password of the desk." })).is_secret());
        assert!(!field(json!({ "type": "string", "description": "The name of the desk." })).is_secret());
        let many: Map<String, Value> =
            (0..=FIELDS).map(|n| (n.to_string(), json!({ "type": "string" }))).collect();
        assert!(form(Value::Object(many)).unwrap_err().contains("more than 20 fields"));
    }

    #[test]
    fn addresses_lead_over_https_or_to_this_machine_and_hide_no_host() {
        for (url, host) in [
            ("https://example.com/sign-in", Some("example.com")),
            ("https://ex\u{430}mple.com/", Some("xn--exmple-4nf.com")),
            ("http://127.0.0.1:8000/", Some("127.0.0.1")),
            ("http://localhost/", Some("localhost")),
            ("http://example.com/", None),
            ("https://example.com@evil.example/", None),
            ("file:///etc/passwd", None),
            ("javascript:alert(1)", None),
            ("vscode://x", None),
            ("not an address", None),
        ] {
            let found = match address(url) {
                Ok(Wanted::Visit { host, .. }) => Some(host),
                Ok(Wanted::Form(_)) | Err(_) => None,
            };
            assert_eq!(found.as_deref(), host, "{url}");
        }
    }
}
