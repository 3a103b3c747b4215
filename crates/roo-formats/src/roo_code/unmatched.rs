//! Settings of Roo Code that no setting here stands for, and what to do instead.

use serde_json::{Map, Value};

/// A setting without a counterpart.
struct Unmatched {
    key: &'static str,
    usual: Usual,
    /// What users read after the key.
    advice: &'static str,
}

/// What Roo Code takes where a setting is not set: then nothing is lost.
enum Usual {
    On,
    Off,
    /// No text, or nothing in a list or an object.
    Nothing,
}

impl Usual {
    fn is(&self, value: &Value) -> bool {
        match (self, value) {
            (_, Value::Null) => true,
            (Self::On, value) => *value != Value::Bool(false),
            (Self::Off, value) => *value != Value::Bool(true),
            (Self::Nothing, value) => is_nothing(value),
        }
    }
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::String(text) => text.trim().is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(entries) => entries.values().all(is_nothing),
        _ => true,
    }
}

const fn of(key: &'static str, usual: Usual, advice: &'static str) -> Unmatched {
    Unmatched { key, usual, advice }
}

/// Those that change what agents do. Those for the looks, sounds and terminals of VS Code are not among them.
const UNMATCHED: &[Unmatched] = &[
    of("mcpEnabled", Usual::On, "it was off; servers of your mcp.json start here unless they are `disabled`"),
    of("disabledTools", Usual::Nothing, "name these tools in `excludedTools` of each profile"),
    of(
        "customSupportPrompts",
        Usual::Nothing,
        "a file `.roo/commands/<name>.md` makes a slash command of a prompt",
    ),
    of("customCondensingPrompt", Usual::Nothing, "the prompt for summaries can't be changed"),
    of("enableSubfolderRules", Usual::Off, "rules in folders below the workspace's are not read"),
    of("showRooIgnoredFiles", Usual::Off, "what .rooignore hides is not listed"),
    of("includeDiagnosticMessages", Usual::On, "agents are told of the problems that their edits bring"),
    of(
        "preventCompletionWithOpenTodos",
        Usual::Off,
        "a task may end with open to-dos; a hook can refuse that",
    ),
    of("commandTimeoutAllowlist", Usual::Nothing, "`limits.commandTimeoutSec` counts for every command"),
];

/// The same for what ran without asking. They count only where Roo Code approved anything by itself.
const UNMATCHED_APPROVALS: &[Unmatched] = &[
    of("alwaysAllowFollowupQuestions", Usual::Off, "a question of an agent waits for your answer"),
    of("alwaysAllowReadOnlyOutsideWorkspace", Usual::Off, "reading files outside of the workspace asks"),
    of("alwaysAllowWriteOutsideWorkspace", Usual::Off, "no files outside of the workspace are written"),
    of("alwaysAllowWriteProtected", Usual::Off, "changing protected files asks"),
];

/// Those of a profile, with the provider that they count for.
const UNMATCHED_OF_PROFILES: &[(&str, Unmatched)] = &[
    (
        "openai",
        of(
            "openAiStreamingEnabled",
            Usual::On,
            "it was off; answers are asked for as streams, and one that comes whole is taken too",
        ),
    ),
    (
        "anthropic",
        of(
            "anthropicUseAuthToken",
            Usual::Off,
            "write your key as `authorization: Bearer …` into its `headers`",
        ),
    ),
];

/// Sentences on those of a profile that are not as usual.
pub(super) fn left_out_of_profile(config: &Map<String, Value>, provider: &str) -> Vec<String> {
    let of_provider = UNMATCHED_OF_PROFILES.iter().filter(|(of, _)| *of == provider);
    let set = of_provider
        .filter(|(_, unmatched)| config.get(unmatched.key).is_some_and(|value| !unmatched.usual.is(value)));
    let mut sentences: Vec<String> =
        set.map(|(_, Unmatched { key, advice, .. })| format!("`{key}`: {advice}")).collect();
    let server = super::text(config, "openRouterSpecificProvider");
    // The name that Roo Code has for none.
    if let Some(server) = server.filter(|server| provider == "openrouter" && *server != "[default]") {
        sentences.push(format!(
            "`openRouterSpecificProvider`: OpenRouter chooses who serves the model, not `{server}` alone; its own settings can \
             restrict that"
        ));
    }
    sentences
}

/// Sentences on those that are not as usual.
pub(super) fn left_out(global: &Map<String, Value>, approves: bool) -> Vec<String> {
    let mut sentences = Vec::new();
    // English is what agents speak unless they are told otherwise.
    if let Some(language) = super::text(global, "language").filter(|language| *language != "en") {
        sentences.push(format!("`language`: say in a rule that agents are to answer in `{language}`"));
    }
    let approvals = UNMATCHED_APPROVALS.iter().filter(|_| approves);
    let set = UNMATCHED
        .iter()
        .chain(approvals)
        .filter(|unmatched| global.get(unmatched.key).is_some_and(|value| !unmatched.usual.is(value)));
    sentences.extend(set.map(|Unmatched { key, advice, .. }| format!("`{key}`: {advice}")));
    sentences
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(global: &Value, approves: bool) -> Vec<String> {
        left_out(global.as_object().unwrap(), approves)
    }

    #[test]
    fn what_is_as_usual_is_not_said() {
        let usual = json!({
            "language": "en", "mcpEnabled": true, "disabledTools": [], "customSupportPrompts": {"EXPLAIN": "", "FIX": null},
            "customCondensingPrompt": " ", "enableSubfolderRules": false, "includeDiagnosticMessages": true,
            "alwaysAllowFollowupQuestions": false, "commandTimeoutAllowlist": null,
        });
        assert_eq!(of(&usual, true), Vec::<String>::new());
        assert_eq!(of(&json!({}), true), Vec::<String>::new());
    }

    #[test]
    fn each_setting_that_is_lost_is_said_once() {
        let set = json!({
            "language": "de", "mcpEnabled": false, "disabledTools": ["execute_command"],
            "customSupportPrompts": {"EXPLAIN": "Explain"}, "customCondensingPrompt": "Be brief.", "enableSubfolderRules": true,
            "showRooIgnoredFiles": true, "includeDiagnosticMessages": false, "preventCompletionWithOpenTodos": true,
            "commandTimeoutAllowlist": ["make"], "alwaysAllowFollowupQuestions": true,
            "alwaysAllowReadOnlyOutsideWorkspace": true, "alwaysAllowWriteOutsideWorkspace": true,
            "alwaysAllowWriteProtected": true,
        });
        let said = of(&set, true);
        assert_eq!(said.len(), set.as_object().unwrap().len());
        assert_eq!(said[0], "`language`: say in a rule that agents are to answer in `de`");
        for unmatched in UNMATCHED.iter().chain(UNMATCHED_APPROVALS) {
            let sentence = format!("`{}`: {}", unmatched.key, unmatched.advice);
            assert!(said.contains(&sentence), "{sentence}");
        }
    }

    #[test]
    fn approvals_are_said_only_where_anything_was_approved() {
        assert_eq!(of(&json!({"alwaysAllowFollowupQuestions": true}), false), Vec::<String>::new());
    }
}
