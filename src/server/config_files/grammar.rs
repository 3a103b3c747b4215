//! Grammar of the configuration files, with descriptions: one table for completion and hover.

use std::sync::LazyLock;

use serde_json::Value;

use super::kind::ConfigFileKind;
use roo_engine::hooks::{Compared, EventName, all_tool_names};
use roo_formats::config::{self, yaml::Step};
use roo_formats::intents::{Enforced, Status};

/// The names of the groups, with what each brings.
pub(super) const GROUPS: [(&str, &str); 6] = [
    ("read", "Reads files, searches them and lists directories."),
    ("edit", "Changes files: all, or those that match `fileRegex`."),
    ("command", "Runs shell commands."),
    ("browser", "Steers a browser. There is no tool for it yet."),
    ("mcp", "Calls MCP servers. There is no tool for it yet."),
    (
        "modes",
        "Nothing beyond what every mode has; `canDelegateTo` lists the modes to which it may delegate.",
    ),
];

/// Values allowed at a position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    /// A mapping with these keys.
    Keys(Vec<Key>),
    /// Names of groups; whether the list itself is meant, or one item.
    Groups { list: bool },
    /// Slugs of modes that there are.
    Slugs { list: bool },
    /// The slug of the mode that is defined here.
    OwnSlug,
    /// A pattern of file paths.
    Pattern,
    /// A glob of an intent's scope.
    Scope,
    /// For what the hooks of an event run.
    Matcher(EventName),
    /// One of these words.
    Words(Vec<String>),
    /// Anything.
    Anything,
}

/// A key and what it means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) name: String,
    pub(super) about: String,
    pub(super) holds: Holds,
}

/// Type of a key's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holds {
    Text,
    List,
    Mapping,
}

type Row = (&'static str, Holds, &'static str);

const FILE: [Row; 1] =
    [("customModes", Holds::List, "The modes of this file, at most 200. A file may have 1 MiB.")];

const MODE: [Row; 9] = [
    (
        "slug",
        Holds::Text,
        "Names the mode everywhere: ASCII letters, digits and `-`. With the slug of another mode it replaces that mode. Required.",
    ),
    (
        "name",
        Holds::Text,
        "The mode's name for people. An emoji at its start marks the mode in trees. Required.",
    ),
    ("roleDefinition", Holds::Text, "Who the model is in this mode, in the second person. Required."),
    (
        "groups",
        Holds::List,
        "Which tools the mode has besides those that every mode has: read, edit, command, browser, mcp, modes. `[edit, { fileRegex: … }]` limits which files it changes. Required; may be empty.",
    ),
    ("description", Holds::Text, "What the mode does, for people, in one line."),
    ("whenToUse", Holds::Text, "Tells other modes when to delegate to it."),
    ("customInstructions", Holds::Text, "Instructions for the mode besides its role."),
    (
        "canDelegateTo",
        Holds::List,
        "The slugs of the modes to which it may delegate. Default: none, or those of the built-in mode with this slug.",
    ),
    (
        "source",
        Holds::Text,
        "`project` or `global`, as Roo Code writes it. It has no effect: the location of the file decides.",
    ),
];

const OPTIONS: [Row; 2] = [
    (
        "fileRegex",
        Holds::Text,
        "A regular expression for the paths that the mode may change, relative to the workspace. It may match anywhere in the path; anchor it with `^` and `$`.",
    ),
    ("description", Holds::Text, "Which files these are, for people and for the model."),
];

const INTENTS: [Row; 1] =
    [("active_intents", Holds::List, "The intents, at most 1000. A file may have 256 KiB of plain YAML.")];

const INTENT: [Row; 11] = [
    (
        "id",
        Holds::Text,
        "Id by which tasks select it, such as `INT-001`: a letter, then letters, digits, `.`, `_` and `-`. Required.",
    ),
    ("name", Holds::Text, "Display name. Required."),
    (
        "status",
        Holds::Text,
        "Status. Tasks may select intents that are `PENDING` or `IN_PROGRESS`; the server writes `IN_PROGRESS` when one does. Required.",
    ),
    (
        "owned_scope",
        Holds::List,
        "The files that may be changed: globs relative to the workspace. `*` matches within a name, `**` matches any number of names, neither matches a leading dot; a leading `!` excludes (quote it). Required.",
    ),
    ("constraints", Holds::List, "Constraints, in words for the model."),
    (
        "enforce",
        Holds::List,
        "Constraints that the server checks: `no_new_files`, `no_delete`, `ask_commands`.",
    ),
    ("acceptance_criteria", Holds::List, "Acceptance criteria, in words for the model."),
    (
        "requirements",
        Holds::List,
        "Requirements that it implements, such as `REQ-001`; recorded in the trace.",
    ),
    ("network", Holds::List, "Hosts that its commands may ask to reach. Default: none."),
    ("parent", Holds::Text, "Id of the parent intent; this one never covers more than its parent."),
    ("related_files", Holds::List, "Files that the model should look at."),
];

const COMMAND: [Row; 3] = [
    (
        "description",
        Holds::Text,
        "Description of the command for people: one line of at most 1024 characters.",
    ),
    ("argument-hint", Holds::Text, "Hint for people about the command's arguments, such as `<file>`."),
    ("mode", Holds::Text, "The slug of the mode to which the command switches."),
];

const SKILL: [Row; 3] = [
    (
        "name",
        Holds::Text,
        "The name of the skill's directory: lower-case letters and digits, in words with `-` between them, at most 64 characters. Required.",
    ),
    ("description", Holds::Text, "Tells a model when to load the skill: at most 1024 characters. Required."),
    ("modeSlugs", Holds::List, "The slugs of the modes that have the skill. Default: all."),
];

const HOOK_FILE: [Row; 3] = [
    (
        "hooks",
        Holds::Mapping,
        "The hooks of each event. All hooks whose matcher matches run at the same time, and the strictest answer wins.",
    ),
    ("disableAllHooks", Holds::Text, "`true` disables every hook of this file."),
    ("description", Holds::Text, "Description of these hooks for people."),
];

const HOOK_GROUP: [Row; 2] = [
    (
        "matcher",
        Holds::Text,
        "Selects what the hooks run for: `*` or nothing for everything, exact names (`Edit|Write`), or a regular expression that matches anywhere (`mcp__.*`). The tool names of other agents work too.",
    ),
    ("hooks", Holds::List, "Hooks to run. Equal commands run once."),
];

const HOOK: [Row; 9] = [
    ("type", Holds::Text, "`command`, the only supported type. Required."),
    (
        "command",
        Holds::Text,
        "A line for `bash -c`, or with `args` a program. It reads the event as JSON from its standard input. Exit code 0: continue, and JSON on standard output is applied; 2: denied, with standard error as the reason; any other: a warning. Required.",
    ),
    (
        "args",
        Holds::List,
        "The arguments of the program; no shell is run then. `${CLAUDE_PROJECT_DIR}` stands for the workspace folder.",
    ),
    (
        "timeout",
        Holds::Text,
        "Timeout in seconds. Default: 600; for UserPromptSubmit 30, for SessionEnd 1.5.",
    ),
    (
        "if",
        Holds::Text,
        "Narrows the calls that it runs for: `Bash(git *)`, `Edit(src/**)`. In doubt it runs.",
    ),
    ("async", Holds::Text, "`true`: it is not waited for, and its output has no effect."),
    ("shell", Holds::Text, "`bash`, the only supported shell."),
    ("statusMessage", Holds::Text, "Description for people."),
    ("roo", Holds::Mapping, "Options of roo-lsp that other agents don't have."),
];

const OWN_OF_HOOK: [Row; 2] = [
    (
        "failClosed",
        Holds::Text,
        "`true`: a call is denied if the hook fails, crashes or times out. Only for PreToolUse.",
    ),
    (
        "sandbox",
        Holds::Text,
        "`false`: the hook runs outside the sandbox, with all of your permissions. Only for hooks of your own hooks file.",
    ),
];

fn keys(rows: &[Row]) -> Expected {
    let key = |(name, holds, about): &Row| Key {
        name: (*name).to_owned(),
        about: (*about).to_owned(),
        holds: *holds,
    };
    Expected::Keys(rows.iter().map(key).collect())
}

/// Returns what is allowed at the end of a path.
pub(super) fn expected(kind: ConfigFileKind, path: &[Step]) -> Expected {
    match kind {
        ConfigFileKind::Modes(_) => in_mode_file(path),
        ConfigFileKind::Command => match path {
            [] => keys(&COMMAND),
            [Step::Key(key)] if key == "mode" => Expected::Slugs { list: false },
            _ => Expected::Anything,
        },
        ConfigFileKind::Skill => match path {
            [] => keys(&SKILL),
            [Step::Key(key), rest @ ..] if key == "modeSlugs" && rest.len() < 2 => {
                Expected::Slugs { list: rest.is_empty() }
            }
            _ => Expected::Anything,
        },
        ConfigFileKind::Hooks(_) => in_hooks(path),
        ConfigFileKind::Settings => in_settings(path),
        ConfigFileKind::Intents => in_intents(path),
        ConfigFileKind::Rules
        | ConfigFileKind::Ignore
        | ConfigFileKind::Protected
        | ConfigFileKind::McpServers => Expected::Anything,
    }
}

fn in_intents(path: &[Step]) -> Expected {
    let words = |words: &[&str]| Expected::Words(words.iter().map(|word| (*word).to_owned()).collect());
    let [Step::Key(_), entry @ ..] = path else { return keys(&INTENTS) };
    let [Step::Index(_), Step::Key(field), rest @ ..] = entry else {
        return if entry.len() == 1 { keys(&INTENT) } else { Expected::Anything };
    };
    match (field.as_str(), rest) {
        ("status", []) => words(&Status::ALL.map(Status::as_str)),
        ("enforce", [Step::Index(_)]) => words(&Enforced::ALL.map(Enforced::as_str)),
        ("owned_scope" | "scope", [Step::Index(_)]) => Expected::Scope,
        _ => Expected::Anything,
    }
}

fn in_mode_file(path: &[Step]) -> Expected {
    let [Step::Key(list), entry @ ..] = path else { return keys(&FILE) };
    if list != "customModes" {
        return Expected::Anything;
    }
    let [Step::Index(_), Step::Key(field), rest @ ..] = entry else {
        return if entry.len() == 1 { keys(&MODE) } else { Expected::Anything };
    };
    match (field.as_str(), rest) {
        ("slug", []) => Expected::OwnSlug,
        ("source", []) => Expected::Words(vec!["project".to_owned(), "global".to_owned()]),
        ("groups", []) => Expected::Groups { list: true },
        ("groups", [Step::Index(_)] | [Step::Index(_), Step::Index(0)]) => Expected::Groups { list: false },
        ("groups", [Step::Index(_), Step::Index(1)]) => keys(&OPTIONS),
        ("groups", [Step::Index(_), Step::Index(1), Step::Key(key)]) if key == "fileRegex" => {
            Expected::Pattern
        }
        ("canDelegateTo", []) => Expected::Slugs { list: true },
        ("canDelegateTo", [Step::Index(_)]) => Expected::Slugs { list: false },
        _ => Expected::Anything,
    }
}

fn in_hooks(path: &[Step]) -> Expected {
    let words = |words: &[&str]| Expected::Words(words.iter().map(|word| (*word).to_owned()).collect());
    let flags = || words(&["true", "false"]);
    let rest = match path {
        [] => return keys(&HOOK_FILE),
        [Step::Key(key)] if key == "disableAllHooks" => return flags(),
        [Step::Key(key), rest @ ..] if key == "hooks" => rest,
        _ => return Expected::Anything,
    };
    let (event, rest) = match rest {
        [] => {
            let key = |event: EventName| Key {
                name: event.as_str().to_owned(),
                about: event.about().to_owned(),
                holds: Holds::List,
            };
            return Expected::Keys(EventName::all().map(key).collect());
        }
        [Step::Key(name), Step::Index(_), rest @ ..] => match EventName::parse(name) {
            Some(event) => (event, rest),
            None => return Expected::Anything,
        },
        _ => return Expected::Anything,
    };
    match rest {
        [] => keys(&HOOK_GROUP),
        [Step::Key(key)] if key == "matcher" => Expected::Matcher(event),
        [Step::Key(list), Step::Index(_), rest @ ..] if list == "hooks" => match rest {
            [] => keys(&HOOK),
            [Step::Key(key)] => match key.as_str() {
                "type" => words(&["command"]),
                "shell" => words(&["bash"]),
                "async" => flags(),
                "roo" => keys(&OWN_OF_HOOK),
                _ => Expected::Anything,
            },
            [Step::Key(own), Step::Key(key)]
                if own == "roo" && matches!(key.as_str(), "failClosed" | "sandbox") =>
            {
                flags()
            }
            _ => Expected::Anything,
        },
        _ => Expected::Anything,
    }
}

/// Returns the values that a matcher of an event may name, with their other names.
pub(super) fn matched(event: EventName) -> Vec<(String, String)> {
    match event.compared() {
        Compared::Tool => all_tool_names().into_iter().map(|(name, also)| (name.to_owned(), also)).collect(),
        Compared::Word(words) => words.iter().map(|word| ((*word).to_owned(), String::new())).collect(),
        Compared::Mode | Compared::Nothing => vec![],
    }
}

/// By the JSON Schema of the settings.
fn in_settings(path: &[Step]) -> Expected {
    static SCHEMA: LazyLock<Value> = LazyLock::new(config::settings_schema);
    let path = match path {
        [Step::Key(key), inner @ ..] if key == "roo" => inner,
        path => path,
    };
    if matches!(path, [Step::Key(key)] if key == "mode") {
        return Expected::Slugs { list: false };
    }
    let mut node = resolve(&SCHEMA, &SCHEMA);
    for step in path {
        let inner = match step {
            Step::Key(key) | Step::Name(key) => {
                let own = node.get("properties").and_then(|properties| properties.get(key));
                own.or_else(|| node.get("additionalProperties"))
            }
            Step::Index(_) => node.get("items"),
        };
        let Some(inner) = inner else { return Expected::Anything };
        node = resolve(&SCHEMA, inner);
    }
    if let Some(properties) = node.get("properties").and_then(Value::as_object) {
        let key = |(name, value): (&String, &Value)| Key {
            name: name.clone(),
            about: about(value).or_else(|| about(resolve(&SCHEMA, value))).unwrap_or_default(),
            holds: match resolve(&SCHEMA, value).get("type").and_then(Value::as_str) {
                Some("object") => Holds::Mapping,
                Some("array") => Holds::List,
                _ => Holds::Text,
            },
        };
        return Expected::Keys(properties.iter().map(key).collect());
    }
    let of_type = |name: &str| node.get("type").is_some_and(|kind| kind == name);
    let given = node.get("enum").and_then(Value::as_array).cloned();
    let described = node
        .get("oneOf")
        .and_then(Value::as_array)
        .map(|options| options.iter().filter_map(|option| option.get("const")).cloned().collect::<Vec<_>>());
    let words: Vec<String> = match given.or(described) {
        Some(values) => values.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        None if of_type("boolean") => vec!["true".to_owned(), "false".to_owned()],
        None => vec![],
    };
    if words.is_empty() { Expected::Anything } else { Expected::Words(words) }
}

fn about(node: &Value) -> Option<String> {
    node.get("description").and_then(Value::as_str).map(str::to_owned)
}

/// Resolves a reference, or a value that may be left out.
fn resolve<'a>(schema: &'a Value, mut node: &'a Value) -> &'a Value {
    // The schema has no circles; a bound costs nothing.
    for _ in 0..8 {
        let options = node.get("anyOf").and_then(Value::as_array);
        let option =
            options.and_then(|all| all.iter().find(|one| one.get("type").is_none_or(|kind| kind != "null")));
        let reference = node.get("$ref").and_then(Value::as_str).and_then(|name| name.strip_prefix('#'));
        match option.or_else(|| schema.pointer(reference?)) {
            Some(inner) => node = inner,
            None => break,
        }
    }
    node
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(steps: &str) -> Vec<Step> {
        let step = |step: &str| step.parse().map_or_else(|_| Step::Key(step.to_owned()), Step::Index);
        steps.split_whitespace().map(step).collect()
    }

    fn names(kind: ConfigFileKind, steps: &str) -> Vec<String> {
        match expected(kind, &path(steps)) {
            Expected::Keys(keys) => keys.into_iter().map(|key| key.name).collect(),
            Expected::Words(words) => words,
            other => vec![format!("{other:?}")],
        }
    }

    #[test]
    fn settings_are_known_by_their_schema() {
        assert!(names(ConfigFileKind::Settings, "").contains(&"autoApprove".to_owned()));
        assert!(names(ConfigFileKind::Settings, "roo limits").contains(&"costUsd".to_owned()));
        assert!(names(ConfigFileKind::Settings, "profiles fast").contains(&"provider".to_owned()));
        assert!(names(ConfigFileKind::Settings, "profiles fast timeouts").contains(&"idleSec".to_owned()));
        assert_eq!(names(ConfigFileKind::Settings, "intents require"), ["destructive", "all"]);
        assert_eq!(names(ConfigFileKind::Settings, "autoApprove read"), ["true", "false"]);
        assert_eq!(names(ConfigFileKind::Settings, "mode"), ["Slugs { list: false }"]);
        assert_eq!(names(ConfigFileKind::Settings, "nonsense x 3"), ["Anything"]);
    }

    #[test]
    fn every_key_of_a_setting_says_what_it_means() {
        for place in
            ["", "limits", "autoApprove", "autoApprove execute", "profiles x", "sandbox", "systemContext"]
        {
            let Expected::Keys(keys) = expected(ConfigFileKind::Settings, &path(place)) else {
                panic!("{place}")
            };
            assert!(keys.iter().all(|key| !key.about.is_empty()), "{place}: {keys:?}");
        }
    }
}
