//! Prompts of servers as users write them: `/server:prompt`, and the arguments behind it on its line. Which prompts there are
//! is told by [`super::server_tools`]; putting one before a model is done by [`super::mentions`].

use serde_json::Value;

use roo_catalog::Object;
use roo_text::render::one_line;

/// The longest part of a command, in bytes.
const PART: usize = 128;
/// The longest name of an argument in a hint, in characters.
const HINT: usize = 40;

/// The prompts of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerPrompts {
    /// The server.
    pub server: String,
    /// Its prompts, or the reason why they are not known, such as `starting`.
    pub prompts: Result<Vec<ServerPrompt>, String>,
}

/// A prompt of a server. What the server says of it is untrusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerPrompt {
    /// Its name.
    pub name: String,
    /// Description for people.
    pub description: Option<String>,
    /// Its arguments, in its order.
    pub arguments: Vec<PromptArgument>,
}

/// An argument of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptArgument {
    /// Its name.
    pub name: String,
    /// True if it must be given.
    pub required: bool,
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
        prompts.iter().find(|known| word(&known.name) == prompt)
    }

    /// Reports whether a command names this server.
    pub fn is_named(&self, server: &str) -> bool {
        word(&self.server) == server
    }

    /// A prompt as a message names it, without the slash: `server:prompt`. What can't be written in a word becomes `_`.
    pub fn command(&self, prompt: &ServerPrompt) -> String {
        format!("{}:{}", word(&self.server), word(&prompt.name))
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
}

/// Reports whether a text can be a part of a command.
pub fn is_command_part(text: &str) -> bool {
    (1..=PART).contains(&text.len())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/'))
}

/// A name as a part of a command.
fn word(name: &str) -> String {
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
