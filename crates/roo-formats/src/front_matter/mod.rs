//! YAML between two lines of `---` at the start of a Markdown file.

mod declaration;

use std::ops::Range;

use serde_json::{Map, Value};

use crate::config::Position;
use crate::config::yaml::{self, Step};

pub use self::declaration::{COMMAND, CommandKeys, ModeSlugs, SKILL, SkillKeys};

/// The longest front matter, in bytes.
pub const LONGEST: usize = 16 << 10;

/// The keys and values before a Markdown text; none when it has no front matter.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FrontMatter<'a> {
    /// Begins in the second line of the file.
    yaml: &'a str,
    values: Map<String, Value>,
}

/// Problem with front matter, and its position in the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    /// The place in the file.
    pub position: Option<Position>,
    /// Problem and remedy.
    pub message: String,
}

impl<'a> FrontMatter<'a> {
    /// Splits a file into front matter and body. A text that does not begin with a line `---`, or in
    /// which no second one follows, is all body. A byte order mark is dropped.
    ///
    /// # Errors
    /// [`Fault`] for what is no YAML mapping, has a key twice, or is longer than 16 KiB.
    pub fn split(text: &'a str) -> Result<(Self, &'a str), Fault> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let Some((yaml, body)) = fenced(text) else { return Ok((Self::default(), text)) };
        if yaml.len() > LONGEST {
            let message = format!("The front matter is longer than {} KiB: shorten it.", LONGEST >> 10);
            return Err(Fault { position: Some(Position { line: 1, column: 1 }), message });
        }
        match yaml::parse(yaml) {
            Ok(Value::Null) => Ok((Self::default(), body)),
            Ok(Value::Object(values)) => Ok((Self { yaml, values }, body)),
            Ok(_) => Err(Fault {
                position: Some(Position { line: 2, column: 1 }),
                message: "The front matter is not a list of `key: value` lines.".to_owned(),
            }),
            Err((position, message)) => Err(Fault { position: position.map(in_file), message }),
        }
    }

    /// The text of a key, trimmed; none when it is missing or empty.
    ///
    /// # Errors
    /// [`Fault`] when the value is a list or a mapping.
    pub fn text(&self, key: &str) -> Result<Option<String>, Fault> {
        match self.values.get(key).map(scalar) {
            None => Ok(None),
            Some(Some(text)) => Ok((!text.is_empty()).then_some(text)),
            Some(None) => Err(self.fault(key, format!("'{key}' must be a string: put quotes around it."))),
        }
    }

    /// The texts of a key: a list, or one text. None when it is missing or holds nothing.
    ///
    /// # Errors
    /// [`Fault`] when it holds anything else.
    pub fn texts(&self, key: &str) -> Result<Option<Vec<String>>, Fault> {
        let texts: Option<Vec<String>> = match self.values.get(key) {
            None => return Ok(None),
            Some(Value::Array(items)) => items.iter().map(scalar).collect(),
            Some(value) => scalar(value).map(|text| vec![text]),
        };
        let mut texts =
            texts.ok_or_else(|| self.fault(key, format!("'{key}' must be a list of strings.")))?;
        texts.retain(|text| !text.is_empty());
        Ok((!texts.is_empty()).then_some(texts))
    }

    /// Something wrong with the value of a key.
    pub fn fault(&self, key: &str, message: String) -> Fault {
        let position = yaml::locate(self.yaml, &[Step::Key(key.to_owned())]);
        Fault { position: position.map(in_file), message }
    }
}

/// Returns the range of the YAML in a file; to the end of one that is being typed and has no second fence yet.
pub fn region(text: &str) -> Option<Range<usize>> {
    let begin = text.len() - text.strip_prefix('\u{feff}').unwrap_or(text).len();
    let plain = text.get(begin..)?;
    let first = plain.split_inclusive('\n').next().filter(|line| is_fence(line))?;
    let start = begin + first.len();
    Some(start..fenced(plain).map_or(text.len(), |(yaml, _)| start + yaml.len()))
}

/// Splits a file into the text between the two fences and the rest.
fn fenced(text: &str) -> Option<(&str, &str)> {
    let mut lines = text.split_inclusive('\n');
    let first = lines.next().filter(|line| is_fence(line))?;
    let mut end = first.len();
    for line in lines {
        let next = end + line.len();
        if is_fence(line) {
            return Some((text.get(first.len()..end)?, text.get(next..)?));
        }
        end = next;
    }
    None
}

/// Returns whether the text begins with the first fence and holds no second one.
pub fn is_open(text: &str) -> bool {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    text.lines().next().is_some_and(is_fence) && fenced(text).is_none()
}

fn is_fence(line: &str) -> bool {
    line.trim_end() == "---"
}

/// A place in the file from one in the YAML, which begins in the second line.
fn in_file(position: Position) -> Position {
    Position { line: position.line + 1, ..position }
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::Null => Some(String::new()),
        Value::String(text) => Some(text.trim().to_owned()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> (FrontMatter<'_>, &str) {
        FrontMatter::split(text).unwrap()
    }

    fn at(line: usize, column: usize) -> Option<Position> {
        Some(Position { line, column })
    }

    #[test]
    fn front_matter_and_body_are_parted() {
        for text in [
            "---\ndescription: Deploys\nretries: 3\n---\nBody\n---\nmore\n",
            "\u{feff}---\r\ndescription: Deploys\r\nretries: 3\r\n---  \r\nBody\n---\nmore\n",
        ] {
            let (front, body) = split(text);
            assert_eq!(front.text("description"), Ok(Some("Deploys".to_owned())));
            assert_eq!(front.text("retries"), Ok(Some("3".to_owned())));
            assert_eq!(front.text("missing"), Ok(None));
            assert_eq!(body, "Body\n---\nmore\n");
        }
    }

    #[test]
    fn a_text_without_two_fences_is_all_body() {
        for text in ["", "Body", "---", "---\na: 1\n", " ---\na: 1\n---\n", "----\na: 1\n----\n"] {
            assert_eq!(split(text), (FrontMatter::default(), text));
        }
        assert_eq!(split("---\n---\nBody"), (FrontMatter::default(), "Body"));
        assert_eq!(split("---\n# nothing\n---").1, "");
    }

    #[test]
    fn the_yaml_is_found_while_it_is_typed() {
        assert_eq!(region("---\r\na: 1\n---\nb"), Some(5..10));
        assert_eq!(region("\u{feff}---\nmode: "), Some(7..13));
        assert_eq!(region("a: 1\n---\n"), None);
    }

    #[test]
    fn a_list_may_be_one_text() {
        let (front, _) = split("---\na: [x, 2, '']\nb: y\nc: []\nd: {e: 1}\n---\n");
        assert_eq!(front.texts("a"), Ok(Some(vec!["x".to_owned(), "2".to_owned()])));
        assert_eq!(front.texts("b"), Ok(Some(vec!["y".to_owned()])));
        assert_eq!(front.texts("c"), Ok(None));
        assert_eq!(front.texts("d").unwrap_err().position.map(|at| at.line), Some(5));
    }

    #[test]
    fn faults_are_placed_in_the_file() {
        let twice = FrontMatter::split("---\nmode: code\nmode: ask\n---\n").unwrap_err();
        assert_eq!(twice.position, at(3, 1));
        assert!(twice.message.contains("duplicate key 'mode'"), "{twice}");
        let list = FrontMatter::split("---\n- a\n---\n").unwrap_err();
        assert_eq!(list.position, at(2, 1));
        let (front, _) = split("---\nname: x\nmode: [code]\n---\n");
        assert_eq!(front.text("mode").unwrap_err().position, at(3, 7));
        assert!(FrontMatter::split("---\na: [\n---\n").unwrap_err().position.is_some());
    }

    #[test]
    fn front_matter_is_bounded() {
        let long = format!("---\na: {}\n---\n", "x".repeat(LONGEST));
        assert!(FrontMatter::split(&long).unwrap_err().message.contains("16 KiB"));
    }

    proptest::proptest! {
        #[test]
        fn no_text_is_too_strange(text in r"(---\r?\n)?[a-c:\[\]{}&*|\n 'ä-]{0,40}(\n---\n)?[x-]{0,5}") {
            if let Ok((front, body)) = FrontMatter::split(&text) {
                let _ = front.texts("a");
                assert!(text.ends_with(body));
            }
        }
    }
}
