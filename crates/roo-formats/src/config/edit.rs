//! Writes a profile into the text of a settings file, with all that the user wrote in it.
//!
//! The text is changed by lines and read again: what the reader doesn't find as it should be is not written.

use serde_json::{Map, Value};

use super::yaml;

/// The text can't be changed by lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// It is no settings file.
    #[error("the file is not a YAML mapping; fix it first")]
    Unreadable,
    /// There is a profile of that name.
    #[error("a profile of that name is there already")]
    Exists,
    /// The value is written in a form that can't be changed line by line, such as `profiles: { … }`.
    #[error("the file is written in a way that can't be changed by lines; add the profile by hand")]
    Unusual,
}

/// The text of a settings file with one more profile, made the default one. `fields` are plain texts.
///
/// # Errors
/// See [`EditError`]; the text is then to be left as it is.
pub fn with_profile(text: &str, name: &str, fields: &[(&str, &str)]) -> Result<String, EditError> {
    let before = match yaml::parse(text).map_err(|_| EditError::Unreadable)? {
        Value::Null => Map::new(),
        Value::Object(keys) => keys,
        _ => return Err(EditError::Unreadable),
    };
    if before.contains_key("roo") {
        // The settings stand below it, and those at the margin don't count.
        return Err(EditError::Unusual);
    }
    let mut expected = before.clone();
    let profiles = expected.entry("profiles").or_insert(Value::Null);
    if profiles.is_null() {
        *profiles = Value::Object(Map::new());
    }
    let profiles = profiles.as_object_mut().ok_or(EditError::Unreadable)?;
    if profiles.contains_key(name) {
        return Err(EditError::Exists);
    }
    let fields_value = fields.iter().map(|(key, value)| ((*key).to_owned(), Value::from(*value)));
    profiles.insert(name.to_owned(), Value::Object(fields_value.collect()));
    expected.insert("profile".to_owned(), name.into());

    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    match lines.iter().position(|line| has_key(line, "profile")) {
        Some(at) => lines[at] = format!("profile: {}{}", scalar(name), comment(&lines[at])),
        None => {
            // Before the first key, behind what the file says of itself.
            let at = lines.iter().position(|line| has_key(line, "profiles")).unwrap_or(lines.len());
            lines.insert(at, format!("profile: {}", scalar(name)));
        }
    }
    let (at, indent) = match lines.iter().position(|line| has_key(line, "profiles")) {
        Some(at) => end_of_block(&lines, at),
        None => {
            lines.push("profiles:".to_owned());
            (lines.len(), 2)
        }
    };
    let margin = " ".repeat(indent);
    let mut block = vec![format!("{margin}{}:", scalar(name))];
    block.extend(fields.iter().map(|(key, value)| format!("{margin}  {key}: {}", scalar(value))));
    lines.splice(at..at, block);

    let line_end = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let mut edited = lines.join(line_end);
    edited.push_str(line_end);
    match yaml::parse(&edited) {
        Ok(Value::Object(found)) if same(&found, &expected) => Ok(edited),
        _ => Err(EditError::Unusual),
    }
}

/// Returns whether a line begins with a key at the margin.
fn has_key(line: &str, key: &str) -> bool {
    line.strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with(':'))
}

/// The comment at the end of a line, with the space before it.
fn comment(line: &str) -> &str {
    line.find(" #").map_or("", |at| &line[at..])
}

/// Returns the end of a block below a key at the margin, and the indentation of its keys.
fn end_of_block(lines: &[String], key: usize) -> (usize, usize) {
    let mut end = key + 1;
    let mut indent = None;
    for (at, line) in lines.iter().enumerate().skip(key + 1) {
        let own = line.len() - line.trim_start().len();
        if line.trim().is_empty() || line.trim_start().starts_with('#') {
            continue;
        }
        if own == 0 {
            break;
        }
        indent.get_or_insert(own);
        end = at + 1;
    }
    (end, indent.unwrap_or(2))
}

/// A text as YAML: bare where nobody could take it for something else.
fn scalar(text: &str) -> String {
    let plain = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c));
    let reserved = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    if plain && !reserved.contains(&text.to_ascii_lowercase().as_str()) {
        text.to_owned()
    } else {
        yaml::quoted(text)
    }
}

/// Returns whether two settings say the same, whatever their order.
fn same(one: &Map<String, Value>, other: &Map<String, Value>) -> bool {
    one.len() == other.len()
        && one.iter().all(|(key, value)| match (value, other.get(key)) {
            (Value::Object(value), Some(Value::Object(other))) => same(value, other),
            (value, other) => Some(value) == other,
        })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FIELDS: [(&str, &str); 2] = [("provider", "ollama"), ("model", "qwen3:8b")];

    #[test]
    fn a_new_file_is_the_profile_alone() {
        let text = "profile: default\nprofiles:\n  default:\n    provider: ollama\n    model: \"qwen3:8b\"\n";
        assert_eq!(with_profile("", "default", &FIELDS).unwrap(), text);
    }

    #[test]
    fn comments_order_and_indentation_stay() {
        let before = "# mine\nmode: code   # the usual\nprofile: main # best\n\nprofiles:\n    # by day\n    main:\n        \
                      provider: anthropic # paid\n        model: claude-sonnet-4-5\n\n# the end\nlimits: { costUsd: 2 }\n";
        let after = with_profile(before, "local", &FIELDS).unwrap();
        let expected = before.replace("profile: main # best", "profile: local # best").replace(
            "    model: claude-sonnet-4-5\n",
            "    model: claude-sonnet-4-5\n    local:\n      provider: ollama\n      model: \"qwen3:8b\"\n",
        );
        assert_eq!(after, expected);
    }

    #[test]
    fn line_endings_stay() {
        let after = with_profile("mode: code\r\n", "local", &FIELDS[..1]).unwrap();
        assert_eq!(
            after,
            "mode: code\r\nprofile: local\r\nprofiles:\r\n  local:\r\n    provider: ollama\r\n"
        );
    }

    #[test]
    fn what_can_not_be_changed_by_lines_is_left() {
        for (text, error) in [
            ("profiles: { main: { provider: openai } }\n", EditError::Unusual),
            ("roo: { mode: code }\n", EditError::Unusual),
            ("profiles: [\n", EditError::Unreadable),
            ("- a\n", EditError::Unreadable),
            ("profiles:\n  default: { provider: openai }\n", EditError::Exists),
        ] {
            assert_eq!(with_profile(text, "default", &FIELDS), Err(error), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_name_and_value_is_read_as_it_was_written(name in "\\PC{1,12}", model in "\\PC{0,20}") {
            if let Ok(text) = with_profile("mode: code\n", &name, &[("model", &model)]) {
                let read = yaml::parse(&text).unwrap();
                prop_assert_eq!(&read["profiles"][&name]["model"], &Value::from(model));
                prop_assert_eq!(&read["profile"], &Value::from(name));
            }
        }
    }
}
