//! Prompts of servers as users write them: `/server:prompt`, and the arguments behind it on its line. Which prompts there are
//! is told by [`super::server_tools`]; putting one before a model is done by [`super::mentions`].

use std::collections::BTreeMap;

use serde_json::Value;

use roo_catalog::Object;
use roo_text::render::one_line;

/// The longest part of a command, in bytes.
const PART: usize = 128;
/// The longest name of an argument in a hint, in characters.
const HINT: usize = 40;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerPrompts {
    pub server: String,
    /// Its prompts, or the reason why they are not known, such as `starting`.
    pub prompts: Result<Vec<ServerPrompt>, String>,
}

/// A prompt of a server. What the server says of it is untrusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerPrompt {
    pub name: String,
    /// Description for people.
    pub description: Option<String>,
    /// Its arguments, in its order.
    pub arguments: Vec<PromptArgument>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptArgument {
    pub name: String,
    /// True if it must be given.
    pub required: bool,
}

/// Argument that a user is writing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgumentInProgress {
    pub name: String,
    /// Its value, as far as it is written.
    pub value: String,
    /// Where its word begins, or that of the value where the name is left out: a byte of the arguments.
    pub start: usize,
    /// True if it is written with its name.
    pub is_named: bool,
    /// Values of the arguments before it.
    pub known: BTreeMap<String, String>,
}

/// Reasons why arguments can't be used. The text is for the user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentError {
    /// Arguments that must be given are missing.
    #[error("it needs {}", .0.iter().map(|name| format!("`{name}=…`")).collect::<Vec<_>>().join(" and "))]
    Missing(Vec<String>),
    /// An argument was given twice.
    #[error("`{0}` is given twice")]
    Twice(String),
    /// A quotation mark is open.
    #[error("a quotation mark in its arguments is not closed")]
    Unclosed,
}

impl ServerPrompts {
    /// Returns the prompt of a command, which is written as [`Self::command`] has it.
    pub fn find(&self, prompt: &str) -> Option<&ServerPrompt> {
        let prompts = self.prompts.as_ref().ok()?;
        prompts.iter().find(|known| command_word(&known.name) == prompt)
    }

    /// Reports whether a command names this server.
    pub fn is_named(&self, server: &str) -> bool {
        command_word(&self.server) == server
    }

    /// A prompt as a message names it, without the slash: `server:prompt`. What can't be written in a word becomes `_`.
    pub fn command(&self, prompt: &ServerPrompt) -> String {
        format!("{}:{}", command_word(&self.server), command_word(&prompt.name))
    }
}

impl ServerPrompt {
    /// Hint about the arguments, in one line: `city=… [units=…]`.
    pub fn hint(&self) -> Option<String> {
        let hints = self.arguments.iter().map(|argument| {
            let name = one_line(&argument.name, HINT);
            if argument.required { format!("{name}=…") } else { format!("[{name}=…]") }
        });
        let hints: Vec<String> = hints.collect();
        (!hints.is_empty()).then(|| hints.join(" "))
    }

    /// Reads arguments that are written as `name=value` or in order, in quotation marks where they have blanks. The last one
    /// takes all words that are left.
    ///
    /// # Errors
    /// See [`ArgumentError`].
    pub fn arguments(&self, written: &str) -> Result<Object, ArgumentError> {
        if self.arguments.is_empty() {
            return Ok(Object::new());
        }
        let words = match shlex::split(written) {
            Some(words) => words,
            // An apostrophe in a sentence opens nothing.
            None if !written.contains('"') => written.split_whitespace().map(str::to_owned).collect(),
            None => return Err(ArgumentError::Unclosed),
        };
        let mut given = Object::new();
        let mut in_order = Vec::new();
        for word in words {
            let named = word
                .split_once('=')
                .filter(|(name, _)| self.arguments.iter().any(|known| known.name == *name));
            match named {
                Some((name, _)) if given.contains_key(name) => {
                    return Err(ArgumentError::Twice(name.to_owned()));
                }
                Some((name, value)) => {
                    given.insert(name.to_owned(), Value::from(value));
                }
                None => in_order.push(word),
            }
        }
        let open = self.arguments.iter().filter(|known| !given.contains_key(&known.name));
        let open: Vec<&str> = open.map(|known| known.name.as_str()).collect();
        let mut words = in_order.into_iter();
        for (index, name) in open.iter().enumerate() {
            let value = match index + 1 == open.len() {
                true => words.by_ref().collect::<Vec<_>>().join(" "),
                false => words.next().unwrap_or_default(),
            };
            if !value.is_empty() {
                given.insert((*name).to_owned(), Value::from(value));
            }
        }
        let missing =
            self.arguments.iter().filter(|known| known.required && !given.contains_key(&known.name));
        let missing: Vec<String> = missing.map(|known| known.name.clone()).collect();
        if missing.is_empty() { Ok(given) } else { Err(ArgumentError::Missing(missing)) }
    }

    /// The argument whose value ends at the end of what is written, as [`Self::arguments`] reads it; none where there is
    /// none left, or none can be told.
    pub fn argument_in_progress(&self, written: &str) -> Option<ArgumentInProgress> {
        let start = last_word(written);
        let before = shlex::split(written.get(..start)?)?;
        let word = unquoted(written.get(start..)?)?;
        let is_known = |name: &str| self.arguments.iter().any(|known| known.name == name);
        let named = |word: &str| -> Option<(String, String)> {
            let (name, value) = word.split_once('=').filter(|(name, _)| is_known(name))?;
            Some((name.to_owned(), value.to_owned()))
        };
        let in_progress = named(&word);
        let mut known: BTreeMap<String, String> = before.iter().filter_map(|word| named(word)).collect();
        let is_open = |argument: &&PromptArgument| {
            let is_this = in_progress.as_ref().is_some_and(|(name, _)| *name == argument.name);
            !is_this && !known.contains_key(&argument.name)
        };
        let open: Vec<&str> =
            self.arguments.iter().filter(is_open).map(|argument| argument.name.as_str()).collect();
        let in_order: Vec<&String> = before.iter().filter(|word| named(word).is_none()).collect();
        let next = open.get(in_order.len()).copied();
        known.extend(open.iter().zip(in_order).map(|(name, value)| ((*name).to_owned(), value.clone())));
        let is_named = in_progress.is_some();
        // Words after the last argument belong to its value, which no server knows how to go on with.
        let (name, value) = in_progress.or_else(|| Some((next?.to_owned(), word)))?;
        known.remove(&name);
        Some(ArgumentInProgress { name, value, start, is_named, known })
    }

    /// An argument as it can be written: with its name or without, in quotation marks where that is needed.
    pub fn written(argument: &ArgumentInProgress, value: &str) -> String {
        let is_plain = |c: char| c.is_alphanumeric() || "-_./:@%+,".contains(c);
        let name = if argument.is_named { format!("{}=", argument.name) } else { String::new() };
        if !value.is_empty() && value.chars().all(is_plain) {
            return name + value;
        }
        let mut quoted = String::new();
        for c in value.chars() {
            if matches!(c, '"' | '\\' | '$' | '`') {
                quoted.push('\\');
            }
            quoted.push(c);
        }
        format!("{name}\"{quoted}\"")
    }
}

/// Reports whether a text can be a part of a command.
pub fn is_command_part(text: &str) -> bool {
    (1..=PART).contains(&text.len())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/'))
}

/// Where the last word of a command line begins; at its end, where that is blank.
fn last_word(line: &str) -> usize {
    let (mut start, mut quote, mut escaped, mut is_within) = (line.len(), None, false, false);
    for (at, c) in line.char_indices() {
        if !is_within && !c.is_whitespace() {
            (start, is_within) = (at, true);
        }
        match c {
            _ if escaped => escaped = false,
            '\\' if quote != Some('\'') => escaped = true,
            '"' | '\'' if quote.is_none() => quote = Some(c),
            c if quote == Some(c) => quote = None,
            c if quote.is_none() && c.is_whitespace() => (start, is_within) = (line.len(), false),
            _ => {}
        }
    }
    start
}

/// A word whose quotation mark may still be open.
fn unquoted(word: &str) -> Option<String> {
    let closed = ["", "\"", "'"].into_iter().find_map(|end| shlex::split(&format!("{word}{end}")))?;
    Some(closed.join(" "))
}

/// A name as a part of a command.
pub fn command_word(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '/') { c } else { '_' };
    let mut word: String = name.chars().map(plain).take(PART).collect();
    // Punctuation behind a mention is not a part of it.
    while word.ends_with('.') {
        word.pop();
        word.push('_');
    }
    word
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn prompt(arguments: &[(&str, bool)]) -> ServerPrompt {
        let argument = |(name, required): &(&str, bool)| PromptArgument {
            name: (*name).to_owned(),
            required: *required,
        };
        ServerPrompt {
            name: "weather".to_owned(),
            description: None,
            arguments: arguments.iter().map(argument).collect(),
        }
    }

    #[test]
    fn arguments_are_named_or_in_order_and_the_last_takes_the_rest() {
        let weather = prompt(&[("city", true), ("units", false)]);
        for (written, expected) in [
            ("Berlin", json!({ "city": "Berlin" })),
            ("Berlin metric", json!({ "city": "Berlin", "units": "metric" })),
            ("units=metric Berlin", json!({ "city": "Berlin", "units": "metric" })),
            ("city=\"New York\" units=", json!({ "city": "New York", "units": "" })),
            ("'New York' a=b c", json!({ "city": "New York", "units": "a=b c" })),
        ] {
            assert_eq!(weather.arguments(written).map(Value::Object), Ok(expected), "{written}");
        }
        let review = prompt(&[("code", true)]);
        let all = review.arguments("what's this").unwrap();
        assert_eq!(Value::Object(all), json!({ "code": "what's this" }));
        assert_eq!(prompt(&[]).arguments("please"), Ok(Object::new()));
    }

    #[test]
    fn the_argument_at_the_end_is_known_by_its_name_or_its_place() {
        let weather = prompt(&[("city", true), ("units", false)]);
        for (written, name, value, rest, known) in [
            ("", "city", "", "", ""),
            ("Ber", "city", "Ber", "Ber", ""),
            ("Berlin ", "units", "", "", "city=Berlin"),
            ("Berlin me", "units", "me", "me", "city=Berlin"),
            ("units=metric 'New Y", "city", "New Y", "'New Y", "units=metric"),
            ("city=\"New Y", "city", "New Y", "city=\"New Y", ""),
            ("'New York' units=", "units", "", "units=", "city=New York"),
        ] {
            let found = weather.argument_in_progress(written).unwrap();
            assert_eq!(
                (&*found.name, &*found.value, &written[found.start..]),
                (name, value, rest),
                "{written}"
            );
            let joined = found.known.iter().map(|(name, value)| format!("{name}={value}"));
            assert_eq!(joined.collect::<Vec<_>>().join(" "), known, "{written}");
        }
        for none in ["Berlin metric and", "units=a city=b c"] {
            assert_eq!(weather.argument_in_progress(none), None, "{none}");
        }
        assert_eq!(prompt(&[]).argument_in_progress("x"), None);
    }

    #[test]
    fn an_argument_is_written_so_that_it_is_read_the_same() {
        let weather = prompt(&[("city", true), ("units", false)]);
        for (begun, value, expected) in [
            ("Ber", "Berlin", "Berlin"),
            ("city=", "Zürich", "city=Zürich"),
            ("city=\"N", "New York", "city=\"New York\""),
            ("\"", "the \"old\" `$x`\\", r#""the \"old\" \`\$x\`\\""#),
            ("", "what's", "\"what's\""),
        ] {
            let argument = weather.argument_in_progress(begun).unwrap();
            let written = ServerPrompt::written(&argument, value);
            assert_eq!(written, expected);
            assert_eq!(weather.arguments(&written).unwrap()["city"], value);
        }
    }

    #[test]
    fn what_is_missing_or_doubled_is_said() {
        let weather = prompt(&[("city", true), ("units", true)]);
        let refused = |written: &str| weather.arguments(written).unwrap_err().to_string();
        assert_eq!(refused(""), "it needs `city=…` and `units=…`");
        assert_eq!(refused("city=a city=b"), "`city` is given twice");
        assert_eq!(refused("\"open"), "a quotation mark in its arguments is not closed");
    }

    #[test]
    fn every_name_can_be_written_as_a_word() {
        let of = |server: &str, name: &str| {
            let prompt = ServerPrompt { name: name.to_owned(), ..prompt(&[]) };
            let prompts = ServerPrompts { server: server.to_owned(), prompts: Ok(vec![prompt.clone()]) };
            let command = prompts.command(&prompt);
            let (server, name) = command.split_once(':').unwrap();
            assert!(is_command_part(server) && is_command_part(name), "{command}");
            assert!(prompts.is_named(server) && prompts.find(name) == Some(&prompt), "{command}");
            command
        };
        assert_eq!(of("my server", "a:b c."), "my_server:a_b_c_");
        assert_eq!(of("é", &"long".repeat(100)).len(), 2 + PART);
    }
}
