//! Changes to the text of the file of intents that leave everything else as people wrote it: comments,
//! order, quotes. Each change is checked by reading the result: it says what was wanted and nothing else
//! has changed, or there is no change.

use serde_json::{Value, json};

use super::file::{IntentFile, entries, key, scope_key};
use super::intent::{Status, is_intent_id};
use super::scope::Scope;
use crate::config::yaml::{self, Step, quoted};

/// Change to one intent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// New status.
    Status(Status),
    /// New name.
    Name(String),
    /// One more entry of a list: `owned_scope`, `constraints`, `acceptance_criteria`, `requirements`.
    Add {
        /// The list's key.
        list: &'static str,
        /// The entry.
        text: String,
    },
    /// One entry less.
    Remove {
        /// The list's key.
        list: &'static str,
        /// The entry.
        text: String,
    },
}

/// A new intent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewIntent {
    /// Its id.
    pub id: String,
    /// Display name.
    pub name: String,
    /// The patterns of its scope.
    pub owned_scope: Vec<String>,
    /// Constraints, in words.
    pub constraints: Vec<String>,
    /// Acceptance criteria.
    pub acceptance_criteria: Vec<String>,
}

/// Reasons why the text can't be changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// The file can't be read.
    #[error("the intents file can't be read, so it was not changed: {0}")]
    File(String),
    /// No intent of that id.
    #[error("there is no intent '{0}'")]
    Unknown(String),
    /// The new values are wrong.
    #[error("{0}")]
    Invalid(String),
    /// The text is laid out so that the change can't be made without touching more.
    #[error(
        "`{key}` of {id} can't be changed without changing other parts of the file; edit the file by hand"
    )]
    Layout {
        /// The intent.
        id: String,
        /// The key.
        key: String,
    },
}

/// The text with one more intent at the end of its list. Of a file that isn't there, `text` is empty.
///
/// # Errors
/// [`EditError`] when the intent is no good, its id is taken, or the file can't be read.
pub fn create(text: &str, new: &NewIntent) -> Result<String, EditError> {
    if !is_intent_id(&new.id) {
        let why = "an id starts with a letter, followed by at most 63 letters, digits, `.`, `_` or `-`";
        return Err(EditError::Invalid(why.to_owned()));
    }
    if let Err(bad) = Scope::parse(&new.owned_scope) {
        let why: Vec<String> = bad
            .iter()
            .map(|bad| if bad.index.is_some() { bad.to_string() } else { bad.why.clone() })
            .collect();
        return Err(EditError::Invalid(why.join("; ")));
    }
    let empty = text.trim().is_empty();
    let base = if empty { "active_intents:\n" } else { text };
    let (list, old) = read(base)?;
    if old.iter().any(|entry| entry.get("id").and_then(Value::as_str) == Some(&new.id)) {
        return Err(EditError::Invalid(format!("the intent {} already exists", new.id)));
    }
    let layout = || EditError::Layout { id: new.id.clone(), key: list.to_owned() };
    let lines: Vec<&str> = base.split_inclusive('\n').collect();
    // After the last entry, indented as the first.
    let (at, indent) = match old.len() {
        0 => {
            let place = yaml::locate(base, &[Step::Name(list.to_owned())]).ok_or_else(layout)?;
            (place.line, "  ".to_owned())
        }
        count => {
            let first = yaml::locate(base, &[key(list), Step::Index(0)]).ok_or_else(layout)?;
            let dash = lines.get(first.line - 1).and_then(|line| line.find("- ")).ok_or_else(layout)?;
            let last = yaml::locate(base, &[key(list), Step::Index(count - 1)]).ok_or_else(layout)?;
            (end_of_block(&lines, last.line, dash), " ".repeat(dash))
        }
    };
    let mut block = format!("{indent}- id: {}\n", quoted(&new.id));
    let mut line = |text: String| block.push_str(&format!("{indent}  {text}\n"));
    line(format!("name: {}", quoted(&new.name)));
    line(format!("status: {}", quoted(Status::Pending.as_str())));
    for (name, values) in [
        ("owned_scope", &new.owned_scope),
        ("constraints", &new.constraints),
        ("acceptance_criteria", &new.acceptance_criteria),
    ] {
        line(format!(
            "{name}: [{}]",
            values.iter().map(|value| quoted(value)).collect::<Vec<_>>().join(", ")
        ));
    }
    let mut changed: String = lines[..at.min(lines.len())].concat();
    if !changed.ends_with('\n') {
        changed.push('\n');
    }
    changed.push_str(&block);
    changed.push_str(&lines[at.min(lines.len())..].concat());
    // An empty list in brackets has its value on the line of the key.
    let changed = if old.is_empty() {
        changed.replacen(&format!("{list}: []"), &format!("{list}:"), 1)
    } else {
        changed
    };

    let mut wanted = old;
    wanted.push(json!({
        "id": new.id,
        "name": new.name,
        "status": Status::Pending.as_str(),
        "owned_scope": new.owned_scope,
        "constraints": new.constraints,
        "acceptance_criteria": new.acceptance_criteria,
    }));
    verified(changed, &wanted).ok_or_else(layout)
}

/// The text with one intent changed.
///
/// # Errors
/// [`EditError`] when there is no such intent, a value is wrong, or the text's layout is in the way.
pub fn update(text: &str, id: &str, changes: &[Change]) -> Result<String, EditError> {
    let mut text = text.to_owned();
    for change in changes {
        text = changed(&text, id, change)?;
    }
    let file = IntentFile::parse(&text).map_err(|problem| EditError::File(problem.to_string()))?;
    match file.why_invalid(id) {
        Some(why) => Err(EditError::Invalid(why.to_owned())),
        None => Ok(text),
    }
}

fn changed(text: &str, id: &str, change: &Change) -> Result<String, EditError> {
    let (list, mut wanted) = read(text)?;
    let index = wanted
        .iter()
        .position(|entry| entry.get("id").and_then(Value::as_str) == Some(id))
        .ok_or_else(|| EditError::Unknown(id.to_owned()))?;
    let at = |name: &str| [key(list), Step::Index(index), key(name)];
    let layout = |name: &str| EditError::Layout { id: id.to_owned(), key: name.to_owned() };
    let edited = match change {
        Change::Status(_) | Change::Name(_) => {
            let (name, value) = match change {
                Change::Status(status) => ("status", status.as_str()),
                Change::Name(value) => ("name", value.as_str()),
                _ => return Ok(text.to_owned()),
            };
            wanted[index][name] = value.into();
            let place = yaml::locate(text, &at(name)).ok_or_else(|| layout(name))?;
            replace_scalar(text, place.line, place.column, &quoted(value)).ok_or_else(|| layout(name))?
        }
        Change::Add { list: name, text: entry } => {
            let name = present(&wanted[index], name);
            let items = wanted[index].get(name).and_then(Value::as_array).cloned().unwrap_or_default();
            if items.iter().any(|item| item.as_str() == Some(entry)) {
                return Ok(text.to_owned());
            }
            let edited = match items.len() {
                0 => insert_list(text, &at("id"), wanted[index].get(name).is_some(), &at(name), name, entry),
                count => {
                    let last = [&at(name)[..], &[Step::Index(count - 1)]].concat();
                    insert_after(text, &last, entry)
                }
            };
            wanted[index][name] = items.into_iter().chain([entry.as_str().into()]).collect();
            edited.ok_or_else(|| layout(name))?
        }
        Change::Remove { list: name, text: entry } => {
            let name = present(&wanted[index], name);
            let mut items = wanted[index].get(name).and_then(Value::as_array).cloned().unwrap_or_default();
            let Some(gone) = items.iter().position(|item| item.as_str() == Some(entry)) else {
                return Ok(text.to_owned());
            };
            items.remove(gone);
            wanted[index][name] = items.into();
            let path = [&at(name)[..], &[Step::Index(gone)]].concat();
            remove_item(text, &path).ok_or_else(|| layout(name))?
        }
    };
    let name = match change {
        Change::Status(_) => "status",
        Change::Name(_) => "name",
        Change::Add { list, .. } | Change::Remove { list, .. } => list,
    };
    verified(edited, &wanted).ok_or_else(|| layout(name))
}

/// The key under which the list stands.
fn present<'a>(entry: &Value, name: &'a str) -> &'a str {
    if name == "owned_scope" { scope_key(entry.as_object()) } else { name }
}

fn read(text: &str) -> Result<(&'static str, Vec<Value>), EditError> {
    entries(text).map_err(|problem| EditError::File(problem.to_string()))
}

/// The text, if it says just this.
fn verified(text: String, wanted: &[Value]) -> Option<String> {
    let (_, found) = entries(&text).ok()?;
    (found == wanted).then_some(text)
}

/// The byte at a place; both count from 1, columns in characters.
fn byte_at(text: &str, line: usize, column: usize) -> Option<usize> {
    let bom = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let begin: usize = text[bom..].split_inclusive('\n').take(line - 1).map(str::len).sum();
    let rest = text.get(bom + begin..)?;
    let within = rest.char_indices().nth(column - 1).map_or(rest.len(), |(at, _)| at);
    Some(bom + begin + within)
}

/// Returns the end of a scalar that begins here, on its line.
fn scalar_end(text: &str, begin: usize) -> Option<usize> {
    let rest = &text[begin..];
    let line = rest.lines().next().unwrap_or_default();
    let quote = line.chars().next()?;
    if quote == '"' || quote == '\'' {
        let mut characters = line.char_indices().skip(1).peekable();
        while let Some((at, c)) = characters.next() {
            if c == '\\' && quote == '"' {
                characters.next();
            } else if c == quote {
                if quote == '\'' && characters.next_if(|(_, next)| *next == '\'').is_some() {
                    continue;
                }
                return Some(begin + at + 1);
            }
        }
        return None;
    }
    if matches!(quote, '|' | '>' | '[' | '{') {
        return None;
    }
    let end = [line.find(" #"), line.find([',', ']', '}'])].into_iter().flatten().min();
    Some(begin + line[..end.unwrap_or(line.len())].trim_end().len())
}

fn replace_scalar(text: &str, line: usize, column: usize, value: &str) -> Option<String> {
    let begin = byte_at(text, line, column)?;
    let end = scalar_end(text, begin)?;
    Some(format!("{}{value}{}", &text[..begin], &text[end..]))
}

/// One more entry behind the last one of a list, on a line of its own where those are.
fn insert_after(text: &str, last: &[Step], entry: &str) -> Option<String> {
    let place = yaml::locate(text, last)?;
    let begin = byte_at(text, place.line, place.column)?;
    let end = scalar_end(text, begin)?;
    let line_begin = text[..begin].rfind('\n').map_or(0, |at| at + 1);
    let before = &text[line_begin..begin];
    if before.trim_start().starts_with("- ") && !before.contains('[') {
        let line_end = text[end..].find('\n').map_or(text.len(), |at| end + at);
        let indent: String = before.chars().take_while(|c| c.is_whitespace()).collect();
        return Some(format!("{}\n{indent}- {}{}", &text[..line_end], quoted(entry), &text[line_end..]));
    }
    Some(format!("{}, {}{}", &text[..end], quoted(entry), &text[end..]))
}

/// A list of one entry, where there is none or an empty one.
fn insert_list(
    text: &str,
    id: &[Step],
    present: bool,
    at: &[Step],
    name: &str,
    entry: &str,
) -> Option<String> {
    if present {
        let place = yaml::locate(text, at)?;
        let begin = byte_at(text, place.line, place.column)?;
        let rest = text[begin..].strip_prefix("[]")?;
        return Some(format!("{}[{}]{rest}", &text[..begin], quoted(entry)));
    }
    let place = yaml::locate(text, id)?;
    let begin = byte_at(text, place.line, place.column)?;
    let line_begin = text[..begin].rfind('\n').map_or(0, |at| at + 1);
    let line_end = text[begin..].find('\n').map_or(text.len(), |at| begin + at);
    let column = text[line_begin..].find("id")?;
    let indent = " ".repeat(column);
    Some(format!("{}\n{indent}{name}: [{}]{}", &text[..line_end], quoted(entry), &text[line_end..]))
}

fn remove_item(text: &str, path: &[Step]) -> Option<String> {
    let place = yaml::locate(text, path)?;
    let begin = byte_at(text, place.line, place.column)?;
    let end = scalar_end(text, begin)?;
    let line_begin = text[..begin].rfind('\n').map_or(0, |at| at + 1);
    if text[line_begin..begin].trim() == "-" {
        let line_end = text[end..].find('\n').map_or(text.len(), |at| end + at + 1);
        return Some(format!("{}{}", &text[..line_begin], &text[line_end..]));
    }
    // In brackets: with the comma behind it, or else the one before.
    let after = text[end..].trim_start();
    if let Some(rest) = after.strip_prefix(',') {
        return Some(format!("{}{}", &text[..begin], rest.trim_start()));
    }
    let before = text[..begin].trim_end();
    Some(format!("{}{}", before.strip_suffix(',').unwrap_or(before), &text[end..]))
}

/// The number of lines up to the end of the block that begins in `line` (from 1) with its dash at
/// `column` (from 0).
fn end_of_block(lines: &[&str], line: usize, column: usize) -> usize {
    let below = |text: &&str| {
        let indent = text.len() - text.trim_start().len();
        text.trim().is_empty() || indent > column
    };
    let mut end = line + lines[line.min(lines.len())..].iter().take_while(|text| below(text)).count();
    while end > line && lines[end - 1].trim().is_empty() {
        end -= 1;
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# Ours.
active_intents:
  - id: \"INT-001\"  # the first
    name: 'It''s JWT'
    status: IN_PROGRESS # for weeks
    owned_scope: [\"src/auth/**\", src/jwt.ts] # both
    mine: kept
  # the other
  - id: fix-bug-42
    name: Off by one
    status: todo
    owned_scope:
      - src/util   # all of it
      - '!**/*.snap'

# end
";

    fn diff(new: &str) -> String {
        roo_text::diff::unified(TEXT, new, "x")
            .lines()
            .filter(|line| {
                line.starts_with(['+', '-']) && !line.starts_with("+++") && !line.starts_with("---")
            })
            .collect::<Vec<_>>()
            .join("\n")
    }

    #[test]
    fn only_what_is_wanted_changes() {
        let one = update(TEXT, "INT-001", &[Change::Status(Status::Completed)]).unwrap();
        assert_eq!(
            diff(&one),
            "-    status: IN_PROGRESS # for weeks\n+    status: \"COMPLETED\" # for weeks"
        );
        let name = update(TEXT, "INT-001", &[Change::Name("a \"b\": c".into())]).unwrap();
        assert_eq!(diff(&name), "-    name: 'It''s JWT'\n+    name: \"a \\\"b\\\": c\"");
        let add =
            |id, text: &str| update(TEXT, id, &[Change::Add { list: "owned_scope", text: text.into() }]);
        assert_eq!(
            diff(&add("INT-001", "docs/**").unwrap()),
            "-    owned_scope: [\"src/auth/**\", src/jwt.ts] # both\n+    owned_scope: [\"src/auth/**\", src/jwt.ts, \"docs/**\"] # both"
        );
        assert_eq!(diff(&add("fix-bug-42", "docs/**").unwrap()), "+      - \"docs/**\"");
        let remove =
            |id, text: &str| update(TEXT, id, &[Change::Remove { list: "owned_scope", text: text.into() }]);
        assert_eq!(diff(&remove("fix-bug-42", "!**/*.snap").unwrap()), "-      - '!**/*.snap'");
        assert!(
            diff(&remove("INT-001", "src/auth/**").unwrap()).ends_with("owned_scope: [src/jwt.ts] # both")
        );
        let constraint = Change::Add { list: "constraints", text: "no new files".into() };
        assert_eq!(
            diff(&update(TEXT, "INT-001", &[constraint]).unwrap()),
            "+    constraints: [\"no new files\"]"
        );
    }

    #[test]
    fn what_makes_no_sense_changes_nothing() {
        let add =
            |text: &str| update(TEXT, "INT-001", &[Change::Add { list: "owned_scope", text: text.into() }]);
        assert!(matches!(add("../x"), Err(EditError::Invalid(_))));
        assert_eq!(add("src/jwt.ts").unwrap(), TEXT, "it is there already");
        assert_eq!(
            update(TEXT, "X", &[Change::Status(Status::Blocked)]),
            Err(EditError::Unknown("X".into()))
        );
        let flow = "active_intents: [{id: a, name: b, status: TODO, owned_scope: [c]}]\n";
        let changed = update(flow, "a", &[Change::Status(Status::InProgress)]).unwrap();
        assert_eq!(changed, flow.replace("TODO", "\"IN_PROGRESS\""));
        assert!(matches!(update("a: [", "a", &[Change::Status(Status::Blocked)]), Err(EditError::File(_))));
        let long =
            "active_intents:\n  - id: a\n    status: TODO\n    owned_scope: [c]\n    name: |\n      b\n";
        let renamed = update(long, "a", &[Change::Name("c".into())]);
        assert!(matches!(renamed, Err(EditError::Layout { .. })), "{renamed:?}");
    }

    fn new() -> NewIntent {
        NewIntent {
            id: "INT-002".into(),
            name: "Ünï \"x\"".into(),
            owned_scope: vec!["docs/**".into()],
            constraints: vec![],
            acceptance_criteria: vec!["done: yes".into()],
        }
    }

    #[test]
    fn a_new_intent_stands_behind_the_last() {
        let text = create(TEXT, &new()).unwrap();
        let added = diff(&text);
        assert!(added.lines().all(|line| line.starts_with('+')), "{added}");
        assert!(text.ends_with("\"done: yes\"]\n\n# end\n"), "{text}");
        assert_eq!(IntentFile::parse(&text).unwrap().intents.len(), 3);
        for empty in ["", "active_intents: []\n", "# c\nactive_intents:\n"] {
            let text = create(empty, &new()).unwrap();
            assert_eq!(IntentFile::parse(&text).unwrap().intents.len(), 1, "{text}");
        }
        assert!(matches!(create(&text, &new()), Err(EditError::Invalid(_))));
        assert!(matches!(create("a: [", &new()), Err(EditError::File(_))));
        let bad = NewIntent { owned_scope: vec!["/etc/**".into()], ..new() };
        assert!(matches!(create(TEXT, &bad), Err(EditError::Invalid(_))));
    }
}
