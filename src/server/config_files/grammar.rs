//! Finds what is allowed at a position of a configuration file, by the declaration of its format.

use super::kind::ConfigFileKind;
use roo_engine::hooks::all_tool_names;
use roo_formats::config::{self, yaml::Step};
use roo_formats::declaration::{Key, Part, Word};
use roo_formats::front_matter;
use roo_formats::hooks::{self, Compared, EventName, MatcherText};
use roo_formats::intents::{self, ScopePattern};
use roo_formats::mcp;
use roo_formats::modes::{self, FilePattern, GroupName, McpServerName, ModeSlug, NewModeSlug};

/// Values allowed at a position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    /// A mapping with these keys.
    Keys(Vec<Key<'static>>),
    /// Names of groups; whether the list itself is meant, or one item.
    Groups {
        list: bool,
        names: Vec<Word>,
    },
    /// Slugs of modes that there are.
    Slugs {
        list: bool,
    },
    /// Names of MCP servers that are configured.
    Servers {
        list: bool,
    },
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
    Anything,
}

/// Returns what is allowed at the end of a path.
pub(super) fn expected(kind: ConfigFileKind, path: &[Step]) -> Expected {
    match kind {
        ConfigFileKind::Modes(_) => expected_by_declaration(modes::DECLARATION.at(path)),
        ConfigFileKind::Command => expected_by_declaration(front_matter::COMMAND.at(path)),
        ConfigFileKind::Skill => expected_by_declaration(front_matter::SKILL.at(path)),
        ConfigFileKind::Hooks(_) => in_hooks(path),
        ConfigFileKind::Settings => expected_by_declaration(in_settings(path)),
        ConfigFileKind::Intents => expected_by_declaration(intents::DECLARATION.at(path)),
        ConfigFileKind::McpServers => expected_by_declaration(mcp::DECLARATION.at(path)),
        ConfigFileKind::Rules | ConfigFileKind::Ignore | ConfigFileKind::Protected => Expected::Anything,
    }
}

fn in_hooks(path: &[Step]) -> Expected {
    let part = hooks::DECLARATION.at(path);
    match path {
        [_, Step::Key(event), ..] if part.as_ref().is_some_and(Part::is::<MatcherText>) => {
            EventName::parse(event).map_or(Expected::Anything, Expected::Matcher)
        }
        _ => expected_by_declaration(part),
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
fn expected_by_declaration(part: Option<Part<'static>>) -> Expected {
    let Some(part) = part else { return Expected::Anything };
    if let Some(items) = part.items() {
        if items.is::<ModeSlug>() {
            return Expected::Slugs { list: true };
        }
        if items.is::<McpServerName>() {
            return Expected::Servers { list: true };
        }
        if items.is::<GroupName>() {
            return Expected::Groups { list: true, names: items.words() };
        }
    }
    if part.is::<ModeSlug>() {
        return Expected::Slugs { list: false };
    }
    if part.is::<McpServerName>() {
        return Expected::Servers { list: false };
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
    if part.is::<ScopePattern>() {
        return Expected::Scope;
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
    use roo_engine::customization::Scope;

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
    fn every_key_says_what_it_means() {
        let hooks = ConfigFileKind::Hooks(Scope::Project);
        let modes = ConfigFileKind::Modes(Scope::Project);
        let settings =
            ["", "limits", "autoApprove", "autoApprove execute", "profiles x", "sandbox", "systemContext"];
        let places = [
            (ConfigFileKind::Settings, &settings[..]),
            (modes, &["", "customModes 0", "customModes 0 groups 0 1"]),
            (ConfigFileKind::Intents, &["", "active_intents 0"]),
            (hooks, &["", "hooks", "hooks Stop 0", "hooks Stop 0 hooks 0", "hooks Stop 0 hooks 0 roo"]),
            (ConfigFileKind::Command, &[""]),
            (ConfigFileKind::Skill, &[""]),
            (ConfigFileKind::McpServers, &["", "mcpServers x"]),
        ];
        for (kind, places) in places {
            for place in places {
                let Expected::Keys(keys) = expected(kind, &path(place)) else { panic!("{kind:?} {place}") };
                assert!(keys.iter().all(|key| !key.about.is_empty()), "{kind:?} {place}: {keys:?}");
            }
        }
    }

    #[test]
    fn values_of_hooks_are_known_by_their_declaration() {
        let hooks = ConfigFileKind::Hooks(Scope::Project);
        assert_eq!(names(hooks, "hooks Stop 0 hooks 0 type"), ["command"]);
        assert_eq!(names(hooks, "hooks Stop 0 hooks 0 async"), ["true", "false"]);
        assert_eq!(names(hooks, "hooks PreToolUse 0 matcher"), ["Matcher(PreToolUse)"]);
        assert_eq!(names(hooks, "hooks Nonsense 0 matcher"), ["Anything"]);
    }
}
