//! What is allowed at a position of a configuration file, by the declaration of its format.

use super::kind::ConfigFileKind;
use roo_engine::hooks::{Compared, EventName, all_tool_names};
use roo_formats::config::{self, yaml::Step};
use roo_formats::declaration::{Holds, Key, Part, Word};
use roo_formats::intents::{Enforced, Status};
use roo_formats::modes::{self, FilePattern, GroupName, ModeSlug, NewModeSlug};

/// Values allowed at a position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    /// A mapping with these keys.
    Keys(Vec<Key<'static>>),
    /// Names of groups; whether the list itself is meant, or one item.
    Groups { list: bool, names: Vec<Word> },
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
    Words(Vec<Word>),
    /// Anything.
    Anything,
}

type Row = (&'static str, Holds, &'static str);

const INTENTS: [Row; 1] =
    [("active_intents", Holds::List, "The intents, at most 1000. A file may have 256 KiB of plain YAML.")];

const INTENT: [Row; 11] = [
    (
        "id",
        Holds::Scalar,
        "Id by which tasks select it, such as `INT-001`: a letter, then letters, digits, `.`, `_` and `-`. Required.",
    ),
    ("name", Holds::Scalar, "Display name. Required."),
    (
        "status",
        Holds::Scalar,
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
    ("parent", Holds::Scalar, "Id of the parent intent; this one never covers more than its parent."),
    ("related_files", Holds::List, "Files that the model should look at."),
];

const COMMAND: [Row; 3] = [
    (
        "description",
        Holds::Scalar,
        "Description of the command for people: one line of at most 1024 characters.",
    ),
    ("argument-hint", Holds::Scalar, "Hint for people about the command's arguments, such as `<file>`."),
    ("mode", Holds::Scalar, "The slug of the mode to which the command switches."),
];

const SKILL: [Row; 3] = [
    (
        "name",
        Holds::Scalar,
        "The name of the skill's directory: lower-case letters and digits, in words with `-` between them, at most 64 characters. Required.",
    ),
    (
        "description",
        Holds::Scalar,
        "Tells a model when to load the skill: at most 1024 characters. Required.",
    ),
    ("modeSlugs", Holds::List, "The slugs of the modes that have the skill. Default: all."),
];

const HOOK_FILE: [Row; 3] = [
    (
        "hooks",
        Holds::Mapping,
        "The hooks of each event. All hooks whose matcher matches run at the same time, and the strictest answer wins.",
    ),
    ("disableAllHooks", Holds::Scalar, "`true` disables every hook of this file."),
    ("description", Holds::Scalar, "Description of these hooks for people."),
];

const HOOK_GROUP: [Row; 2] = [
    (
        "matcher",
        Holds::Scalar,
        "Selects what the hooks run for: `*` or nothing for everything, exact names (`Edit|Write`), or a regular expression that matches anywhere (`mcp__.*`). The tool names of other agents work too.",
    ),
    ("hooks", Holds::List, "Hooks to run. Equal commands run once."),
];

const HOOK: [Row; 9] = [
    ("type", Holds::Scalar, "`command`, the only supported type. Required."),
    (
        "command",
        Holds::Scalar,
        "A line for `bash -c`, or with `args` a program. It reads the event as JSON from its standard input. Exit code 0: continue, and JSON on standard output is applied; 2: denied, with standard error as the reason; any other: a warning. Required.",
    ),
    (
        "args",
        Holds::List,
        "The arguments of the program; no shell is run then. `${CLAUDE_PROJECT_DIR}` stands for the workspace folder.",
    ),
    (
        "timeout",
        Holds::Scalar,
        "Timeout in seconds. Default: 600; for UserPromptSubmit 30, for SessionEnd 1.5.",
    ),
    (
        "if",
        Holds::Scalar,
        "Narrows the calls that it runs for: `Bash(git *)`, `Edit(src/**)`. In doubt it runs.",
    ),
    ("async", Holds::Scalar, "`true`: it is not waited for, and its output has no effect."),
    ("shell", Holds::Scalar, "`bash`, the only supported shell."),
    ("statusMessage", Holds::Scalar, "Description for people."),
    ("roo", Holds::Mapping, "Options of roo-lsp that other agents don't have."),
];

const OWN_OF_HOOK: [Row; 2] = [
    (
        "failClosed",
        Holds::Scalar,
        "`true`: a call is denied if the hook fails, crashes or times out. Only for PreToolUse.",
    ),
    (
        "sandbox",
        Holds::Scalar,
        "`false`: the hook runs outside the sandbox, with all of your permissions. Only for hooks of your own hooks file.",
    ),
];

fn keys(rows: &[Row]) -> Expected {
    let key = |(name, holds, about): &Row| Key {
        name,
        about: (*about).to_owned(),
        holds: *holds,
        is_suggested: true,
    };
    Expected::Keys(rows.iter().map(key).collect())
}

/// Returns what is allowed at the end of a path.
pub(super) fn expected(kind: ConfigFileKind, path: &[Step]) -> Expected {
    match kind {
        ConfigFileKind::Modes(_) => of_part(modes::DECLARATION.at(path)),
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
        ConfigFileKind::Settings => of_part(in_settings(path)),
        ConfigFileKind::Intents => in_intents(path),
        ConfigFileKind::Rules
        | ConfigFileKind::Ignore
        | ConfigFileKind::Protected
        | ConfigFileKind::McpServers => Expected::Anything,
    }
}

fn in_intents(path: &[Step]) -> Expected {
    let words = |words: &[&str]| {
        let word = |word: &&str| Word { word: (*word).to_owned(), about: String::new() };
        Expected::Words(words.iter().map(word).collect())
    };
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

fn in_hooks(path: &[Step]) -> Expected {
    let words = |words: &[&str]| {
        let word = |word: &&str| Word { word: (*word).to_owned(), about: String::new() };
        Expected::Words(words.iter().map(word).collect())
    };
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
                name: event.as_str(),
                about: event.about().to_owned(),
                holds: Holds::List,
                is_suggested: true,
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

/// Settings may stand below the key `roo`, as clients send them.
fn in_settings(path: &[Step]) -> Option<Part<'static>> {
    match path {
        [Step::Key(key), inner @ ..] if key == "roo" => config::SETTINGS.at(inner),
        path => config::SETTINGS.at(path),
    }
}

/// Returns what a part of a declaration allows.
fn of_part(part: Option<Part<'static>>) -> Expected {
    let Some(part) = part else { return Expected::Anything };
    if let Some(items) = part.items() {
        if items.is::<ModeSlug>() {
            return Expected::Slugs { list: true };
        }
        if items.is::<GroupName>() {
            return Expected::Groups { list: true, names: items.words() };
        }
    }
    if part.is::<ModeSlug>() {
        return Expected::Slugs { list: false };
    }
    if part.is::<NewModeSlug>() {
        return Expected::OwnSlug;
    }
    if part.is::<GroupName>() {
        return Expected::Groups { list: false, names: part.words() };
    }
    if part.is::<FilePattern>() {
        return Expected::Pattern;
    }
    let (keys, words) = (part.keys(), part.words());
    match (keys.is_empty(), words.is_empty()) {
        (false, _) => Expected::Keys(keys),
        (true, false) => Expected::Words(words),
        (true, true) => Expected::Anything,
    }
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
            Expected::Keys(keys) => keys.into_iter().map(|key| key.name.to_owned()).collect(),
            Expected::Words(words) => words.into_iter().map(|word| word.word).collect(),
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
