//! Declaration of a hooks file: its keys, their values and their descriptions.

use std::borrow::Cow;
use std::sync::LazyLock;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::event::EventName;
use crate::declaration::{Declaration, published};
use crate::placed::Placed;

/// The format of `.roo/hooks.json` and `hooks.json`.
pub static DECLARATION: LazyLock<Declaration> = LazyLock::new(Declaration::of::<HookList>);

/// The JSON Schema of hooks files, for editors.
pub fn schema() -> Value {
    published::<HookList>()
}

/// Hooks of a workspace or of a user.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields, title = "Hooks", extend("required" = ["hooks"]))]
pub struct HookList {
    /// The hooks of each event. All hooks whose matcher matches run at the same time, and the strictest answer wins.
    #[schemars(with = "Option<HooksByEvent>")]
    pub hooks: Option<Placed<Map<String, Value>>>,
    /// `true` disables every hook of this file.
    pub disable_all_hooks: Option<Placed<bool>>,
    /// Description of these hooks for people.
    pub description: Option<String>,
    /// Address of the schema by which an editor checks the file.
    #[serde(rename = "$schema")]
    #[schemars(extend("doNotSuggest" = true))]
    pub schema: Option<String>,
}

/// Groups of hooks by the name of their event.
pub struct HooksByEvent;

impl JsonSchema for HooksByEvent {
    fn schema_name() -> Cow<'static, str> {
        Cow::Borrowed("HooksByEvent")
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let groups = generator.subschema_for::<Vec<HookGroup>>();
        let property = |event: EventName| {
            let mut groups = groups.clone();
            groups.insert("description".to_owned(), event.about().into());
            (event.as_str().to_owned(), groups.into())
        };
        let properties: Map<String, Value> = EventName::all().map(property).collect();
        json_schema!({ "type": "object", "properties": properties, "additionalProperties": false })
    }
}

/// Hooks that run for the same.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
pub struct HookGroup {
    /// Selects what the hooks run for: `*` or nothing for everything, exact names (`Edit|Write`), or a regular expression
    /// that matches anywhere (`mcp__.*`). The tool names of other agents work too.
    pub matcher: Option<Placed<MatcherText>>,
    /// Hooks to run. Equal commands run once.
    #[schemars(with = "Vec<HookEntry>")]
    pub hooks: Option<Placed<Vec<Value>>>,
    /// Description of these hooks for people.
    #[schemars(extend("doNotSuggest" = true))]
    pub description: Option<String>,
}

/// Pattern of what hooks run for.
#[derive(Debug, Default, Deserialize, JsonSchema)]
pub struct MatcherText(pub String);

/// A hook as it is written.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields, extend("required" = ["type", "command"]))]
pub struct HookEntry {
    /// `command`, the only supported type. Required.
    #[serde(rename = "type", default)]
    #[schemars(with = "HookType")]
    pub hook_type: Placed<Option<String>>,
    /// A line for `bash -c`, or with `args` a program. It reads the event as JSON from its standard input. Exit code 0:
    /// continue, and JSON on standard output is applied; 2: denied, with standard error as the reason; any other: a
    /// warning. Required.
    #[schemars(required, regex(pattern = r"\S"))]
    pub command: Option<Placed<String>>,
    /// The arguments of the program; no shell is run then. `${CLAUDE_PROJECT_DIR}` stands for the workspace folder.
    pub args: Option<Vec<String>>,
    /// Timeout in seconds. Default: 600; for UserPromptSubmit 30, for SessionEnd 1.5.
    #[schemars(range(max = 86_400), extend("exclusiveMinimum" = 0))]
    pub timeout: Option<f64>,
    /// Narrows the calls that it runs for: `Bash(git *)`, `Edit(src/**)`. In doubt it runs.
    #[serde(rename = "if")]
    pub condition: Option<Placed<String>>,
    /// `true`: it is not waited for, and its output has no effect.
    #[serde(rename = "async")]
    pub background: Option<Placed<bool>>,
    /// `true`: the same as `async`.
    #[schemars(extend("doNotSuggest" = true))]
    pub async_rewake: Option<Placed<bool>>,
    /// `bash`, the only supported shell.
    #[schemars(with = "Option<HookShell>")]
    pub shell: Option<Placed<String>>,
    /// Description for people.
    pub status_message: Option<String>,
    /// Has no effect here.
    #[schemars(extend("doNotSuggest" = true))]
    pub once: Option<bool>,
    /// Description for people.
    #[schemars(extend("doNotSuggest" = true))]
    pub description: Option<String>,
    /// Options of roo-lsp that other agents don't have.
    pub roo: Option<HookOptions>,
}

/// Type of a hook.
#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
pub enum HookType {
    /// Runs a command.
    Command,
}

/// Shell that runs a hook's line.
#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
pub enum HookShell {
    /// `bash -c`.
    Bash,
}

/// Options of a hook that other agents don't have.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
pub struct HookOptions {
    /// `true`: a call is denied if the hook fails, crashes or times out. Only for PreToolUse.
    pub fail_closed: Option<Placed<bool>>,
    /// `false`: the hook runs outside the sandbox, with all of your permissions. Only for hooks of your own hooks file.
    pub sandbox: Option<Placed<bool>>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::yaml::Step;
    use crate::declaration::disagreements;

    #[test]
    fn what_is_declared_is_what_is_read() {
        let at = |path: &[&str]| {
            let step = |step: &&str| step.parse().map_or_else(|_| (*step).into(), Step::Index);
            DECLARATION.at(&path.iter().map(step).collect::<Vec<_>>())
        };
        assert_eq!(disagreements::<HookList>(at(&[])), [""; 0]);
        assert_eq!(disagreements::<HookGroup>(at(&["hooks", "Stop", "0"])), [""; 0]);
        let hook = ["hooks", "Stop", "0", "hooks", "0"];
        assert_eq!(disagreements::<HookEntry>(at(&hook)), [""; 0]);
        assert_eq!(disagreements::<HookOptions>(at(&[&hook[..], &["roo"]].concat())), [""; 0]);
    }
}
