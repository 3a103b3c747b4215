//! Changes to the text of the file of intents that leave everything else as people wrote it.

use serde_json::Value;

use super::file::{IntentFile, entries, key, scope_key};
use super::intent::{Status, is_intent_id};
use super::scope::Scope;
use crate::config::yaml::Step;
use crate::yaml_edit::{UnusualLayout, YamlEdit};

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
    // A file that isn't there begins with the key.
    let base = if text.trim().is_empty() { "active_intents:\n" } else { text };
    let (list, old) = read(base)?;
    if old.iter().any(|entry| entry.get("id").and_then(Value::as_str) == Some(&new.id)) {
        return Err(EditError::Invalid(format!("the intent {} already exists", new.id)));
    }
    let fields = [
        ("id", Value::from(new.id.as_str())),
        ("name", new.name.as_str().into()),
        ("status", Status::Pending.as_str().into()),
        ("owned_scope", new.owned_scope.clone().into()),
        ("constraints", new.constraints.clone().into()),
        ("acceptance_criteria", new.acceptance_criteria.clone().into()),
    ];
    let mut file = open(base)?;
    file.push_mapping(&[key(list)], &fields.map(|(key, value)| (key.to_owned(), value)))
        .map_err(|UnusualLayout| EditError::Layout { id: new.id.clone(), key: list.to_owned() })?;
    let text = file.into_text();
    read(&text)?;
    Ok(text)
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
    let (list, entries) = read(text)?;
    let index = entries
        .iter()
        .position(|entry| entry.get("id").and_then(Value::as_str) == Some(id))
        .ok_or_else(|| EditError::Unknown(id.to_owned()))?;
    let entry = &entries[index];
    let at = |name: &str| [key(list), Step::Index(index), key(name)];
    let place = |name: &str, text: &str| {
        let items = entry.get(name).and_then(Value::as_array);
        items.and_then(|items| items.iter().position(|item| item.as_str() == Some(text)))
    };
    let mut file = open(text)?;
    let (name, edited) = match change {
        Change::Status(status) => ("status", file.set(&at("status"), &status.as_str().into(), None)),
        Change::Name(name) => ("name", file.set(&at("name"), &name.as_str().into(), None)),
        Change::Add { list: name, text } => match present(entry, name) {
            name if place(name, text).is_some() => (name, Ok(())),
            name => (name, file.push(&at(name), text)),
        },
        Change::Remove { list: name, text } => {
            let name = present(entry, name);
            let gone = place(name, text).map(|gone| [&at(name)[..], &[Step::Index(gone)]].concat());
            (name, gone.map_or(Ok(()), |gone| file.remove(&gone)))
        }
    };
    edited.map_err(|UnusualLayout| EditError::Layout { id: id.to_owned(), key: name.to_owned() })?;
    Ok(file.into_text())
}

/// The key under which the list stands.
fn present<'a>(entry: &Value, name: &'a str) -> &'a str {
    if name == "owned_scope" { scope_key(entry.as_object()) } else { name }
}

fn read(text: &str) -> Result<(&'static str, Vec<Value>), EditError> {
    entries(text).map_err(|problem| EditError::File(problem.to_string()))
}

fn open(text: &str) -> Result<YamlEdit, EditError> {
    YamlEdit::new(text).map_err(|problem| EditError::File(problem.to_string()))
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
        assert_eq!(diff(&one), "-    status: IN_PROGRESS # for weeks\n+    status: COMPLETED # for weeks");
        let name = update(TEXT, "INT-001", &[Change::Name("a \"b\": c".into())]).unwrap();
        assert_eq!(diff(&name), "-    name: 'It''s JWT'\n+    name: \"a \\\"b\\\": c\"");
        let long =
            "active_intents:\n  - id: a\n    status: TODO\n    name: |\n      b\n    owned_scope: [c]\n";
        let renamed = update(long, "a", &[Change::Name("c".into())]).unwrap();
        assert_eq!(renamed, long.replace("|\n      b\n", "c\n"));
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
        assert_eq!(changed, flow.replace("TODO", "IN_PROGRESS"));
        assert!(matches!(update("a: [", "a", &[Change::Status(Status::Blocked)]), Err(EditError::File(_))));
        let constraint = Change::Add { list: "constraints", text: "no new files".into() };
        let added = update(flow, "a", &[constraint]);
        assert!(matches!(added, Err(EditError::Layout { .. })), "{added:?}");
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
