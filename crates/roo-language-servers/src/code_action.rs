//! Fixes and refactorings that a server offers for a line.

use roo_text::render::one_line;
use serde_json::Value;

/// The most actions of an answer.
const ACTIONS: usize = 50;

/// The longest title, in characters.
const TITLE: usize = 200;

/// An action that a server offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeAction {
    /// Its title, on one line.
    pub title: String,
    /// Its kind, such as `quickfix`; empty where the server tells none.
    pub kind: String,
    /// True if the server says that it is what most users want.
    pub is_preferred: bool,
}

impl CodeAction {
    /// Makes an action of what is told of it, its title and kind on one line.
    pub fn new(title: &str, kind: &str, is_preferred: bool) -> Self {
        Self { title: one_line(title, TITLE), kind: one_line(kind, TITLE), is_preferred }
    }
}

/// An action as the server sent it.
pub(crate) struct OfferedAction {
    pub(crate) action: CodeAction,
    pub(crate) sent: Value,
}

/// Reads the actions of an answer that change texts. Commands, which the server would carry out by itself, are left out.
pub(crate) fn offered(answer: &Value) -> Vec<OfferedAction> {
    let action = |sent: &Value| {
        let is_command = sent["command"].is_string();
        let has_effect_elsewhere =
            sent["command"].is_object() && sent["edit"].is_null() && sent["data"].is_null();
        if is_command || has_effect_elsewhere || !sent["disabled"].is_null() {
            return None;
        }
        let (kind, is_preferred) = (sent["kind"].as_str(), sent["isPreferred"].as_bool());
        let action = CodeAction::new(
            sent["title"].as_str()?,
            kind.unwrap_or_default(),
            is_preferred.unwrap_or_default(),
        );
        Some(OfferedAction { action, sent: sent.clone() })
    };
    answer.as_array().into_iter().flatten().filter_map(action).take(ACTIONS).collect()
}

/// Adds what a server offers for another problem of the same line. An action is chosen by its title, so one of a title that is there
/// already is left out.
pub(crate) fn merge(offered: &mut Vec<OfferedAction>, more: Vec<OfferedAction>) {
    for one in more {
        if offered.len() < ACTIONS && offered.iter().all(|other| other.action.title != one.action.title) {
            offered.push(one);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn actions_that_change_texts_are_offered_and_commands_are_not() {
        let answer = json!([
            { "title": "Add import", "kind": "quickfix", "isPreferred": true, "edit": {} },
            { "title": "To be resolved", "data": 1, "command": { "command": "x" } },
            { "title": "Run", "command": "run" },
            { "title": "Run", "command": { "title": "Run", "command": "run" } },
            { "title": "Off", "edit": {}, "disabled": { "reason": "no" } },
            { "kind": "quickfix" },
        ]);
        let titles: Vec<String> = offered(&answer).into_iter().map(|offered| offered.action.title).collect();
        assert_eq!(titles, ["Add import", "To be resolved"]);
        assert!(offered(&answer)[0].action.is_preferred);
        assert!(offered(&Value::Null).is_empty());
    }
}
