//! Allowed and denied commands of Roo Code as rules of this program.
//!
//! Roo Code compares the beginning of a command's text, in small letters, with texts: of those that fit the longest one decides,
//! and of an allowed and a denied one of the same length the denied one. Here a rule is a list of whole words, and a denial wins
//! over everything.

use serde_json::{Map, Value};

/// The key of allowed commands.
const ALLOWED: &str = "allowedCommands";
/// The key of denied ones.
const DENIED: &str = "deniedCommands";

/// Commands as rules.
#[derive(Debug, Default, PartialEq)]
pub(super) struct CommandRules {
    /// Each a list of words.
    pub(super) rules: Vec<Vec<String>>,
    /// Sentences on those that are no rule here.
    pub(super) left_out: Vec<String>,
    /// A sentence on those whose rule matches less.
    pub(super) remark: Option<String>,
}

/// The commands that were allowed.
pub(super) fn allowed(global: &Map<String, Value>) -> CommandRules {
    let mut commands = CommandRules::default();
    for command in texts(global, ALLOWED) {
        commands.take(ALLOWED, command);
    }
    commands
}

/// The commands that were denied. `counted`: whether Roo Code looked at them at all; otherwise it asked about every command.
pub(super) fn denied(global: &Map<String, Value>, counted: bool) -> CommandRules {
    let mut commands = CommandRules::default();
    if !counted {
        if texts(global, DENIED).any(|command| !command.trim().is_empty()) {
            commands.left_out.push(format!(
                "`{DENIED}`: they had no effect in Roo Code, where every command asked; `autoApprove.execute.deny` refuses commands \
                 here"
            ));
        }
        return commands;
    }
    let mut inexact = Vec::new();
    for command in texts(global, DENIED) {
        let words = small_words(command);
        let exception = texts(global, ALLOWED).find(|allowed| {
            let allowed = small_words(allowed);
            allowed.len() > words.len() && allowed.starts_with(&words)
        });
        if let Some(exception) = exception.filter(|_| !words.is_empty()) {
            commands.left_out.push(format!(
                "`{command}` of `{DENIED}`: Roo Code allowed `{exception}` all the same, and a denial here has no exceptions"
            ));
        } else if commands.take(DENIED, command) && !command.ends_with(char::is_whitespace) {
            inexact.push(format!("`{}`", command.trim()));
        }
    }
    if !inexact.is_empty() {
        commands.remark = Some(format!(
            "Roo Code refused whatever begins with the same text as `{DENIED}`, such as `rm -rf` with `rm -r`; the rules for these \
             refuse whole words: {}",
            inexact.join(", ")
        ));
    }
    commands
}

impl CommandRules {
    /// Takes a command that can be a rule and is none yet. Returns whether it was one.
    fn take(&mut self, key: &str, command: &str) -> bool {
        let is_plain = !command.contains(['"', '\'', '\\', '*', '$', '`', '|', '&', ';', '<', '>', '(', ')']);
        let words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
        if words.is_empty() || self.rules.contains(&words) {
            return false;
        }
        match is_plain {
            true => self.rules.push(words),
            false => {
                self.left_out.push(format!("`{command}` of `{key}`: a rule here is a list of whole words"));
            }
        }
        is_plain
    }
}

fn texts<'a>(global: &'a Map<String, Value>, key: &str) -> impl Iterator<Item = &'a str> {
    let listed = global.get(key).and_then(Value::as_array);
    listed.into_iter().flatten().filter_map(Value::as_str)
}

fn small_words(command: &str) -> Vec<String> {
    command.to_lowercase().split_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn denials(allowed: &[&str], denied: &[&str]) -> CommandRules {
        let global = json!({ ALLOWED: allowed, DENIED: denied });
        super::denied(global.as_object().unwrap(), true)
    }

    #[test]
    fn a_denial_with_an_allowed_exception_is_no_rule() {
        for (allowed, denied) in [
            ("git status", "git"),
            ("Git Status", "git"),
            ("git push --dry-run", "git push"),
            // What can't be a rule is an exception all the same.
            ("git commit -m \"a b\"", "git commit"),
        ] {
            let CommandRules { rules, left_out, remark } = denials(&[allowed], &[denied]);
            assert_eq!((rules, remark), (Vec::<Vec<String>>::new(), None), "{denied}");
            let sentence = format!(
                "`{denied}` of `deniedCommands`: Roo Code allowed `{allowed}` all the same, and a denial here has no exceptions"
            );
            assert_eq!(left_out, [sentence]);
        }
    }

    #[test]
    fn a_denial_that_is_as_long_as_what_is_allowed_or_longer_is_a_rule() {
        for allowed in ["git", "git push", "*", "gitk --all", "npm test"] {
            assert_eq!(denials(&[allowed], &["git push"]).rules, [["git", "push"]], "{allowed}");
        }
        assert_eq!(denials(&["git status"], &["git", "git push"]).rules, [["git", "push"]]);
    }

    #[test]
    fn denials_of_parts_of_words_are_said_with_the_rules_for_them() {
        let CommandRules { rules, left_out, remark } =
            denials(&[], &["rm -r", "npm run deploy:", "git push "]);
        assert_eq!(rules, [vec!["rm", "-r"], vec!["npm", "run", "deploy:"], vec!["git", "push"]]);
        // A blank at the end leaves no room for a longer word.
        let remark = remark.unwrap();
        assert!(remark.ends_with("refuse whole words: `rm -r`, `npm run deploy:`"), "{remark}");
        // They are rules, so they are not left out.
        assert_eq!(left_out, Vec::<String>::new());
        assert_eq!(denials(&[], &["git push "]).remark, None);
    }

    #[test]
    fn what_was_not_looked_at_denies_nothing() {
        let denied = |denied: Value| super::denied(json!({ DENIED: denied }).as_object().unwrap(), false);
        assert_eq!(denied(json!([])), CommandRules::default());
        let CommandRules { rules, left_out, .. } = denied(json!(["git push"]));
        assert_eq!(rules, Vec::<Vec<String>>::new());
        assert!(left_out[0].contains("every command asked"), "{left_out:?}");
    }
}
