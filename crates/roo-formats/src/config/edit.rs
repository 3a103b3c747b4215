//! Writes profiles into the text of a settings file and takes them out, with all that the user wrote beside them.
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
    #[error("there is already a profile of that name")]
    Exists,
    /// There is no profile of that name.
    #[error("the file has no profile of that name")]
    Missing,
    /// The value is written in a form that can't be changed line by line, such as `profiles: { … }`.
    #[error("the layout of the file is too unusual to be edited automatically; change the profile by hand")]
    Unusual,
}

/// The text of a settings file with one more profile, made the default one. `fields` are plain texts.
///
/// # Errors
/// See [`EditError`]; the text is then to be left as it is.
pub fn with_profile(text: &str, name: &str, fields: &[(&str, Value)]) -> Result<String, EditError> {
    if has_profile(text, name)? {
        return Err(EditError::Exists);
    }
    let fields = fields.iter().map(|(key, value)| ((*key).to_owned(), value.clone()));
    set_profile(text, name, &fields.collect::<Vec<_>>(), true)
}

/// Returns whether the text defines a profile of that name.
///
/// # Errors
/// See [`EditError`].
pub fn has_profile(text: &str, name: &str) -> Result<bool, EditError> {
    Ok(settings(text)?.get("profiles").is_some_and(|profiles| profiles.get(name).is_some()))
}

/// The text of a settings file with these fields of a profile, which is added if there is none of that name. A field of the
/// value `null` is removed, and one that is not named stays as it is, with its comments. `is_default` makes the profile
/// the one that modes without one of their own work with.
///
/// # Errors
/// See [`EditError`]; the text is then to be left as it is.
pub fn set_profile(
    text: &str,
    name: &str,
    fields: &[(String, Value)],
    is_default: bool,
) -> Result<String, EditError> {
    let mut expected = settings(text)?;
    let profiles = expected.entry("profiles").or_insert(Value::Null);
    if profiles.is_null() {
        *profiles = Value::Object(Map::new());
    }
    let profiles = profiles.as_object_mut().ok_or(EditError::Unreadable)?;
    let profile = profiles.entry(name).or_insert(Value::Null);
    if profile.is_null() {
        *profile = Value::Object(Map::new());
    }
    let profile = profile.as_object_mut().ok_or(EditError::Unreadable)?;
    for (key, value) in fields {
        match value {
            Value::Null => profile.remove(key),
            value => profile.insert(key.clone(), value.clone()),
        };
    }
    if is_default {
        expected.insert("profile".to_owned(), name.into());
    }

    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    if is_default {
        set_default(&mut lines, name);
    }
    let (end, indent) = match lines.iter().position(|line| has_key(line, "profiles")) {
        Some(at) => end_of_block(&lines, at),
        None => {
            lines.push("profiles:".to_owned());
            (lines.len(), 2)
        }
    };
    let set: Vec<&(String, Value)> = fields.iter().filter(|(_, value)| !value.is_null()).collect();
    match profile_block(&lines, name, indent) {
        None => {
            let margin = " ".repeat(indent);
            let mut block = vec![format!("{margin}{}:", scalar(name))];
            block.extend(set.iter().map(|(key, value)| format!("{margin}  {key}: {}", flow(value))));
            lines.splice(end..end, block);
        }
        Some(block) => {
            for (key, value) in fields {
                set_field(&mut lines, block, key, value);
            }
        }
    }
    checked(text, lines, &expected)
}

/// The text of a settings file without a profile. `default` is the one that takes its place where modes work with it;
/// none for no key `profile` at all.
///
/// # Errors
/// See [`EditError`]; the text is then to be left as it is.
pub fn without_profile(text: &str, name: &str, default: Option<&str>) -> Result<String, EditError> {
    let mut expected = settings(text)?;
    let profiles = expected.get_mut("profiles").and_then(Value::as_object_mut).ok_or(EditError::Missing)?;
    profiles.remove(name).ok_or(EditError::Missing)?;
    let is_last = profiles.is_empty();
    if is_last {
        expected.remove("profiles");
    }
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let at = lines.iter().position(|line| has_key(line, "profiles")).ok_or(EditError::Unusual)?;
    let (_, indent) = end_of_block(&lines, at);
    let block = profile_block(&lines, name, indent).ok_or(EditError::Unusual)?;
    lines.drain(block..end_of(&lines, block));
    if is_last {
        // Comments that stood below the key stay.
        lines.remove(at);
    }
    if expected.get("profile").and_then(Value::as_str) == Some(name) {
        let at = lines.iter().position(|line| has_key(line, "profile")).ok_or(EditError::Unusual)?;
        match default {
            Some(default) => {
                expected.insert("profile".to_owned(), default.into());
                set_default(&mut lines, default);
            }
            None => {
                expected.remove("profile");
                lines.remove(at);
            }
        }
    }
    checked(text, lines, &expected)
}

/// The settings of a text, which stand at its margin.
fn settings(text: &str) -> Result<Map<String, Value>, EditError> {
    let settings = match yaml::parse(text).map_err(|_| EditError::Unreadable)? {
        Value::Null => Map::new(),
        Value::Object(keys) => keys,
        _ => return Err(EditError::Unreadable),
    };
    // Those below `roo` would count, and those at the margin would not.
    if settings.contains_key("roo") { Err(EditError::Unusual) } else { Ok(settings) }
}

/// Puts lines together, if they say what is expected.
fn checked(text: &str, lines: Vec<String>, expected: &Map<String, Value>) -> Result<String, EditError> {
    let line_end = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let mut edited = lines.join(line_end);
    if !edited.is_empty() {
        edited.push_str(line_end);
    }
    match yaml::parse(&edited) {
        Ok(Value::Object(found)) if same(&found, expected) => Ok(edited),
        Ok(Value::Null) if expected.is_empty() => Ok(edited),
        _ => Err(EditError::Unusual),
    }
}

fn set_default(lines: &mut Vec<String>, name: &str) {
    match lines.iter().position(|line| has_key(line, "profile")) {
        Some(at) => lines[at] = format!("profile: {}{}", scalar(name), comment(&lines[at])),
        None => {
            // Before the first key, behind what the file says of itself.
            let at = lines.iter().position(|line| has_key(line, "profiles")).unwrap_or(lines.len());
            lines.insert(at, format!("profile: {}", scalar(name)));
        }
    }
}

/// Finds the line of a profile's name, in the block below `profiles`.
fn profile_block(lines: &[String], name: &str, indent: usize) -> Option<usize> {
    let at = lines.iter().position(|line| has_key(line, "profiles"))?;
    let (end, _) = end_of_block(lines, at);
    let names = [name.to_owned(), yaml::quoted(name), format!("'{name}'")];
    (at + 1..end).find(|at| {
        let line = &lines[*at];
        margin(line) == indent && names.iter().any(|name| has_key(&line[indent..], name))
    })
}

/// Sets one field of a profile whose name stands on a line of its own, or removes it.
fn set_field(lines: &mut Vec<String>, block: usize, key: &str, value: &Value) {
    let (end, indent) = (end_of(lines, block), fields_indent(lines, block));
    let found =
        (block + 1..end).find(|at| margin(&lines[*at]) == indent && has_key(&lines[*at][indent..], key));
    let line = format!("{}{key}: {}", " ".repeat(indent), flow(value));
    match (found, value) {
        (Some(at), Value::Null) => drop(lines.drain(at..end_of(lines, at))),
        (Some(at), _) => {
            let behind = comment(&lines[at]).to_owned();
            let end = end_of(lines, at);
            lines.splice(at..end, [line + &behind]);
        }
        (None, Value::Null) => {}
        (None, _) => lines.insert(end, line),
    }
}

/// The indentation of a profile's fields.
fn fields_indent(lines: &[String], block: usize) -> usize {
    let own = margin(&lines[block]);
    let first = lines[block + 1..].iter().find(|line| !is_blank(line)).map(|line| margin(line));
    first.filter(|first| *first > own).unwrap_or(own + 2)
}

/// The end of what belongs to the key on a line: the lines below that are indented further. Comments and empty lines
/// behind the last of them belong to what follows.
fn end_of(lines: &[String], at: usize) -> usize {
    let own = margin(&lines[at]);
    let mut end = at + 1;
    for (next, line) in lines.iter().enumerate().skip(at + 1) {
        if is_blank(line) {
            continue;
        }
        // A sequence may stand at the indentation of its key.
        if margin(line) <= own && !(margin(line) == own && line[own..].starts_with("- ")) {
            break;
        }
        end = next + 1;
    }
    end
}

fn margin(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

fn is_blank(line: &str) -> bool {
    line.trim().is_empty() || line.trim_start().starts_with('#')
}

/// A value on one line.
fn flow(value: &Value) -> String {
    match value {
        Value::String(text) => scalar(text),
        Value::Array(values) => format!("[{}]", values.iter().map(flow).collect::<Vec<_>>().join(", ")),
        Value::Object(keys) => {
            let keys = keys.iter().map(|(key, value)| format!("{}: {}", scalar(key), flow(value)));
            format!("{{ {} }}", keys.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
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
    use serde_json::json;

    use super::*;

    fn ollama() -> [(&'static str, Value); 2] {
        [("provider", "ollama".into()), ("model", "qwen3:8b".into())]
    }

    #[test]
    fn a_new_file_is_the_profile_alone() {
        let text = "profile: default\nprofiles:\n  default:\n    provider: ollama\n    model: \"qwen3:8b\"\n";
        assert_eq!(with_profile("", "default", &ollama()).unwrap(), text);
    }

    #[test]
    fn comments_order_and_indentation_stay() {
        let before = "# mine\nmode: code   # the usual\nprofile: main # best\n\nprofiles:\n    # by day\n    main:\n        \
                      provider: anthropic # paid\n        model: claude-sonnet-4-5\n\n# the end\nlimits: { costUsd: 2 }\n";
        let after = with_profile(before, "local", &ollama()).unwrap();
        let expected = before.replace("profile: main # best", "profile: local # best").replace(
            "    model: claude-sonnet-4-5\n",
            "    model: claude-sonnet-4-5\n    local:\n      provider: ollama\n      model: \"qwen3:8b\"\n",
        );
        assert_eq!(after, expected);
    }

    #[test]
    fn line_endings_stay() {
        let after = with_profile("mode: code\r\n", "local", &ollama()[..1]).unwrap();
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
            assert_eq!(with_profile(text, "default", &ollama()), Err(error), "{text}");
        }
    }

    fn fields(fields: Value) -> Vec<(String, Value)> {
        fields.as_object().unwrap().clone().into_iter().collect()
    }

    #[test]
    fn a_profile_is_changed_where_it_stands() {
        let before = "profiles:\n  main: # by day\n    # the good one\n    provider: anthropic   # paid\n    \
                      model: old\n    timeouts:\n      idleSec: 9\n    apiKeyCommand:\n    - pass\n    - key\n\n  \
                      # by night\n  local:\n    provider: ollama\n";
        let changed = json!({
            "model": "claude-sonnet-4-5", "apiKeyCommand": null, "apiKeyEnv": "MY_KEY",
            "pricePerMillion": { "input": 3, "output": 15.5 },
        });
        let after = set_profile(before, "main", &fields(changed), false).unwrap();
        let expected = "profiles:\n  main: # by day\n    # the good one\n    provider: anthropic   # paid\n    \
                        model: claude-sonnet-4-5\n    timeouts:\n      idleSec: 9\n    apiKeyEnv: MY_KEY\n    \
                        pricePerMillion: { input: 3, output: 15.5 }\n\n  # by night\n  local:\n    \
                        provider: ollama\n";
        assert_eq!(after, expected);
    }

    #[test]
    fn a_profile_is_taken_out_and_another_one_takes_its_place() {
        let before = "profile: main # best\nprofiles:\n  main:\n    provider: anthropic\n\n  # by night\n  local:\n    \
                      provider: ollama\nmode: code\n";
        let after = without_profile(before, "main", Some("local")).unwrap();
        let expected =
            "profile: local # best\nprofiles:\n\n  # by night\n  local:\n    provider: ollama\nmode: code\n";
        assert_eq!(after, expected);
        assert_eq!(without_profile(&after, "local", None).unwrap(), "\n  # by night\nmode: code\n");
        assert_eq!(without_profile(before, "other", None), Err(EditError::Missing));
        assert_eq!(without_profile("", "other", None), Err(EditError::Missing));
        let flow = "profiles: { main: { provider: openai } }\n";
        assert_eq!(without_profile(flow, "main", None), Err(EditError::Unusual));
        let one_line = "profiles:\n  main: { provider: openai }\n  b: { provider: ollama }\n";
        assert_eq!(
            without_profile(one_line, "main", None).unwrap(),
            "profiles:\n  b: { provider: ollama }\n"
        );
    }

    #[test]
    fn a_profile_on_one_line_is_not_changed_by_lines() {
        let text = "profiles:\n  main: { provider: openai }\n";
        assert_eq!(
            set_profile(text, "main", &fields(json!({ "model": "gpt-5" })), false),
            Err(EditError::Unusual)
        );
    }

    proptest! {
        #[test]
        fn what_is_set_and_taken_out_again_leaves_the_rest(
            name in "[a-z]{1,6}", model in "\\PC{0,12}", before in "(# [a-z]{0,5}\n){0,2}(mode: [a-z]{1,4} # x\n)?"
        ) {
            let set = set_profile(&before, &name, &fields(json!({ "provider": "ollama", "model": model })), true);
            if let Ok(set) = set {
                prop_assert_eq!(without_profile(&set, &name, None).unwrap(), before);
            }
        }

        #[test]
        fn any_name_and_value_is_read_as_it_was_written(name in "\\PC{1,12}", model in "\\PC{0,20}") {
            if let Ok(text) = with_profile("mode: code\n", &name, &[("model", model.as_str().into())]) {
                let read = yaml::parse(&text).unwrap();
                prop_assert_eq!(&read["profiles"][&name]["model"], &Value::from(model));
                prop_assert_eq!(&read["profile"], &Value::from(name));
            }
        }
    }
}
