//! Declaration of a hooks file: its keys, their values and their descriptions.

use std::borrow::Cow;
use std::sync::LazyLock;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value};

use super::event::EventName;
use crate::declaration::{Declaration, published};

/// The format of `.roo/hooks.json` and `hooks.json`.
pub static DECLARATION: LazyLock<Declaration> = LazyLock::new(Declaration::of::<HookList>);

/// The JSON Schema of hooks files, for editors.
pub fn schema() -> Value {
    published::<HookList>()
}

/// Hooks of a workspace or of a user.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields, title = "Hooks", extend("required" = ["hooks"]))]
pub struct HookList {
    /// The hooks of each event. All hooks whose matcher matches run at the same time, and the strictest answer wins.
    pub hooks: Option<HooksByEvent>,
    /// `true` disables every hook of this file.
    pub disable_all_hooks: Option<bool>,
    /// Description of these hooks for people.
    pub description: Option<String>,
    /// Address of the schema by which an editor checks the file.
    #[schemars(rename = "$schema", extend("doNotSuggest" = true))]
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
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct HookGroup {
    /// Selects what the hooks run for: `*` or nothing for everything, exact names (`Edit|Write`), or a regular expression
    /// that matches anywhere (`mcp__.*`). The tool names of other agents work too.
    pub matcher: Option<MatcherText>,
    /// Hooks to run. Equal commands run once.
    pub hooks: Vec<HookEntry>,
    /// Description of these hooks for people.
    #[schemars(extend("doNotSuggest" = true))]
    pub description: Option<String>,
}

/// Pattern of what hooks run for.
#[derive(JsonSchema)]
pub struct MatcherText(pub String);

/// A hook as it is written.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct HookEntry {
    /// `command`, the only supported type. Required.
    #[schemars(rename = "type")]
    pub hook_type: HookType,
    /// A line for `bash -c`, or with `args` a program. It reads the event as JSON from its standard input. Exit code 0:
    /// continue, and JSON on standard output is applied; 2: denied, with standard error as the reason; any other: a
    /// warning. Required.
    #[schemars(regex(pattern = r"\S"))]
    pub command: String,
    /// The arguments of the program; no shell is run then. `${CLAUDE_PROJECT_DIR}` stands for the workspace folder.
    pub args: Option<Vec<String>>,
    /// Timeout in seconds. Default: 600; for UserPromptSubmit 30, for SessionEnd 1.5.
    #[schemars(range(max = 86_400), extend("exclusiveMinimum" = 0))]
    pub timeout: Option<f64>,
    /// Narrows the calls that it runs for: `Bash(git *)`, `Edit(src/**)`. In doubt it runs.
    #[schemars(rename = "if")]
    pub condition: Option<String>,
    /// `true`: it is not waited for, and its output has no effect.
    #[schemars(rename = "async")]
    pub background: Option<bool>,
    /// `true`: the same as `async`.
    #[schemars(extend("doNotSuggest" = true))]
    pub async_rewake: Option<bool>,
    /// `bash`, the only supported shell.
    pub shell: Option<HookShell>,
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
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct HookOptions {
    /// `true`: a call is denied if the hook fails, crashes or times out. Only for PreToolUse.
    pub fail_closed: Option<bool>,
    /// `false`: the hook runs outside the sandbox, with all of your permissions. Only for hooks of your own hooks file.
    pub sandbox: Option<bool>,
}
