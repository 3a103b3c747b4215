//! Hooks of another program's settings (`.claude/settings.json`) taken into a hooks file of ours.

use serde_json::{Map, Value, json};

use super::file::{self, Form, Hook, HookFile, Source};
use roo_formats::Problem;
use roo_formats::hooks::EventName;

/// Reasons why nothing can be taken over.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The settings can't be read.
    #[error("{0}")]
    Settings(Problem),
    /// The hooks file that is there can't be read, so that nothing can be added to it.
    #[error("the existing hooks file can't be read, so nothing was added to it: {0}")]
    Own(Problem),
}

/// Result of importing hooks.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    /// The new text of our file.
    pub text: String,
    /// Hooks that are new in it, for people.
    pub added: Vec<String>,
    /// Number of hooks that existed already.
    pub known: usize,
    /// Hooks that were left out or behave differently here.
    pub problems: Vec<Problem>,
}

/// Adds the hooks of `settings` to a hooks file with the text `own`, which may be empty. What is there already
/// stays as it is.
///
/// # Errors
/// [`ImportError`] when one of the two is no JSON of that form.
pub fn import(own: &str, settings: &str) -> Result<Imported, ImportError> {
    let parsed =
        HookFile::parse(settings, Form::Settings, Source::Workspace).map_err(ImportError::Settings)?;
    let given = file::value(settings).map_err(ImportError::Settings)?;
    let before = HookFile::parse(own, Form::Hooks, Source::Workspace).map_err(ImportError::Own)?;
    let mut text = match file::value(own).map_err(ImportError::Own)? {
        Value::Null => json!({ "hooks": {} }),
        value => value,
    };
    if text.get("hooks").is_none_or(Value::is_null) {
        text["hooks"] = json!({});
    }
    let (mut added, mut known) = (Vec::new(), 0);
    let mut taken = before.hooks;
    for hook in parsed.hooks {
        if taken.iter().any(|there| is_same(there, &hook)) {
            known += 1;
            continue;
        }
        let group = given.get("hooks").and_then(|events| events.get(hook.event.as_str()));
        let value = group.and_then(|groups| groups.get(hook.position.group));
        let value = value.and_then(|group| group.get("hooks")?.get(hook.position.hook));
        if let Some(value) = value {
            if !add(&mut text["hooks"], hook.event, &hook.matcher_text, value.clone()) {
                let message = format!(
                    "`hooks` or its `{}` doesn't have the form of the contract; correct it by hand",
                    hook.event
                );
                return Err(ImportError::Own(Problem::error(None, message)));
            }
            added.push(hook.shown());
        }
        taken.push(hook);
    }
    let mut text = serde_json::to_string_pretty(&text).unwrap_or_default();
    text.push('\n');
    Ok(Imported { text, added, known, problems: parsed.problems })
}

fn is_same(a: &Hook, b: &Hook) -> bool {
    (a.event, &a.matcher_text, &a.program, &a.condition)
        == (b.event, &b.matcher_text, &b.program, &b.condition)
}

/// Adds a hook, to the group with this matcher if there is one; whether there is a place for it.
fn add(events: &mut Value, event: EventName, matcher: &str, hook: Value) -> bool {
    let Value::Object(events) = events else { return false };
    let groups = events.entry(event.as_str()).or_insert_with(|| json!([]));
    let Value::Array(groups) = groups else { return false };
    let of = |group: &Value| group.get("matcher").and_then(Value::as_str).unwrap_or_default().to_owned();
    let hooks = groups.iter_mut().find(|group| of(group) == matcher).and_then(|group| group.get_mut("hooks"));
    if let Some(Value::Array(hooks)) = hooks {
        hooks.push(hook);
        return true;
    }
    let mut group = Map::new();
    if !matcher.is_empty() {
        group.insert("matcher".to_owned(), matcher.into());
    }
    group.insert("hooks".to_owned(), json!([hook]));
    groups.push(Value::Object(group));
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: &str = r#"{
  "model": "opus",
  "permissions": { "allow": ["Bash"] },
  "hooks": {
    "PreToolUse": [
      { "matcher": "Bash", "hooks": [
        { "type": "command", "command": "guard.sh", "timeout": 5 },
        { "type": "http", "url": "http://x" } ] },
      { "matcher": "(", "hooks": [{ "type": "command", "command": "never" }] }
    ],
    "WorktreeCreate": [{ "hooks": [{ "type": "command", "command": "x" }] }],
    "Stop": [{ "hooks": [{ "type": "command", "command": "tests.sh" }] }]
  }
}"#;

    #[test]
    fn what_can_run_is_taken_and_the_rest_is_told() {
        let imported = import("", SETTINGS).unwrap();
        assert_eq!(imported.added, ["PreToolUse (Bash): guard.sh", "Stop: tests.sh"]);
        let messages: Vec<String> = imported.problems.iter().map(|p| p.message.clone()).collect();
        assert_eq!(messages.len(), 3, "{messages:?}");
        assert!(messages[0].contains("'http'") && messages[1].contains("matcher '('"));
        assert!(messages[2].contains("'WorktreeCreate' is not supported"));
        let again = HookFile::parse(&imported.text, Form::Hooks, Source::User).unwrap();
        assert_eq!((again.hooks.len(), again.problems), (2, vec![]));
        assert!(!imported.text.contains("model"));
    }

    #[test]
    fn what_is_there_stays_and_comes_once() {
        let own = r#"{ "description": "ours", "hooks": { "PreToolUse": [
            { "matcher": "Bash", "hooks": [{ "type": "command", "command": "own.sh", "roo": { "failClosed": true } }] } ] } }"#;
        let first = import(own, SETTINGS).unwrap();
        let value: Value = serde_json::from_str(&first.text).unwrap();
        let hooks = &value["hooks"]["PreToolUse"][0]["hooks"];
        assert_eq!(
            (hooks[0]["command"].as_str(), hooks[1]["command"].as_str()),
            (Some("own.sh"), Some("guard.sh"))
        );
        assert_eq!(
            (hooks[0]["roo"]["failClosed"].as_bool(), value["description"].as_str()),
            (Some(true), Some("ours"))
        );
        let second = import(&first.text, SETTINGS).unwrap();
        assert_eq!((second.text, second.added.len(), second.known), (first.text, 0, 2));
    }

    #[test]
    fn nothing_is_added_to_what_can_not_be_read() {
        assert!(matches!(import("{", SETTINGS), Err(ImportError::Own(_))));
        for own in [r#"{ "hooks": { "Stop": 3 } }"#, r#"{ "hooks": 3 }"#] {
            assert!(matches!(import(own, SETTINGS), Err(ImportError::Own(_))), "{own}");
        }
        assert!(matches!(import("", "["), Err(ImportError::Settings(_))));
        assert_eq!(import("", "{}").unwrap().added, Vec::<String>::new());
    }
}
