//! Hover over the element under a cursor. Pure, but for the names of files that a pattern is tried on.

use std::ops::Range;

use super::cursor::{self, Slot};
use super::grammar::{self, Expected};
use super::kind::ConfigFileKind;
use roo_catalog::{Group, TOOLS};
use roo_engine::hooks::{Compared, EventName, Matcher};
use roo_formats::config::yaml;
use roo_formats::declaration::Word;
use roo_formats::intents::{Covered, Scope};
use roo_formats::modes::{FileRestriction, GroupName, Mode, Modes};
use roo_text::render::{exact_line, one_line};

/// The most files that are named.
const FILES_SHOWN: usize = 5;
/// The longest text of a mode that is shown, in characters.
const ABOUT: usize = 300;

/// Hover text and range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hover {
    /// In bytes.
    pub(super) range: Range<usize>,
    /// Markdown that can be read as plain text.
    pub(super) text: String,
}

/// The names of some files of the workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FileNames {
    /// Relative to the workspace's root, with `/`.
    pub(super) names: Vec<String>,
    /// True if there are more.
    pub(super) cut: bool,
}

/// Describes the element at a byte offset. `modes` are those that count, with those of the text where it defines some;
/// `files` is asked for a pattern only.
pub(super) fn hover(
    kind: ConfigFileKind,
    text: &str,
    offset: usize,
    modes: &Modes,
    files: impl FnOnce() -> FileNames,
) -> Option<Hover> {
    let (cursor, _) = kind.cursor_at(text, offset)?;
    let token = text.get(cursor.token.clone()).filter(|token| !token.is_empty())?;
    let word = cursor::unquoted(token);
    let text = match (cursor.slot, grammar::expected(kind, &cursor.path)) {
        (Slot::Key { .. }, Expected::Keys(keys)) => {
            let key = keys.into_iter().find(|key| key.name == word)?;
            format!("**{}**: {}", key.name, key.about)
        }
        (Slot::Value { .. }, Expected::Groups { names, .. }) => group(described(word, &names)?, word),
        (Slot::Value { .. }, Expected::Words(words)) => described(word, &words)?,
        (Slot::Value { .. }, Expected::Slugs { .. } | Expected::OwnSlug) => match modes.find(word) {
            Ok(found) => mode(found),
            Err(unknown) => exact_line(&unknown.to_string()),
        },
        (Slot::Value { .. }, Expected::Matcher(event)) => {
            let value = yaml::parse(token).ok();
            matcher(value.as_ref().and_then(|value| value.as_str()).unwrap_or(word), event, modes)
        }
        (Slot::Value { .. }, Expected::Pattern) => {
            // With the escapes of its quotes resolved.
            let value = yaml::parse(token).ok();
            pattern(value.as_ref().and_then(|value| value.as_str()).unwrap_or(word), files)
        }
        (Slot::Value { .. }, Expected::Scope) => {
            let value = yaml::parse(token).ok();
            scope(value.as_ref().and_then(|value| value.as_str()).unwrap_or(word), files)
        }
        _ => return None,
    };
    Some(Hover { range: cursor.token, text })
}

/// For what the hooks of a matcher run.
fn matcher(text: &str, event: EventName, modes: &Modes) -> String {
    let matcher = match Matcher::parse(text, event) {
        Ok(matcher) => matcher,
        Err(error) => {
            return format!("This matcher is invalid: {}", one_line(&error.to_string(), ABOUT));
        }
    };
    if event.compared() == Compared::Nothing {
        return format!("{event} has no matcher: its hooks always run.");
    }
    if matches!(matcher, Matcher::All) {
        return "Matches everything.".to_owned();
    }
    let names = match event.compared() {
        Compared::Mode => modes.iter().map(|mode| (mode.slug.clone(), String::new())).collect(),
        _ => grammar::matched(event),
    };
    let matching = names.iter().filter(|(name, _)| matcher.first([name.as_str()]).is_some());
    let lines: String = matching
        .map(|(name, also)| match also.as_str() {
            "" => format!("\n- `{name}`"),
            also => format!("\n- `{name}` ({also})"),
        })
        .collect();
    match lines.as_str() {
        "" => "Matches no known value; tools of MCP servers are named `mcp__<server>__<tool>`.".to_owned(),
        lines => format!("Matches:\n{lines}"),
    }
}

/// Describes one of several words; none where there is nothing to say of it.
fn described(word: &str, words: &[Word]) -> Option<String> {
    let found = words.iter().find(|known| known.word == word && !known.about.is_empty())?;
    Some(format!("**{word}**: {}", found.about))
}

/// Adds the tools of a group to its description.
fn group(about: String, name: &str) -> String {
    let group = GroupName::parse(name).and_then(GroupName::tools);
    let of_group = TOOLS.iter().filter(|spec| Some(spec.group) == group);
    let tools: Vec<String> = of_group.map(|spec| format!("`{}`", spec.name)).collect();
    if tools.is_empty() { about } else { format!("{about}\n\nTools: {}", tools.join(", ")) }
}

fn mode(mode: &Mode) -> String {
    let mut lines = vec![format!(
        "{} **{}** (`{}`, {})",
        mode.emoji,
        exact_line(&mode.name),
        mode.slug,
        mode.source.as_str()
    )];
    if let Some(about) = mode.description.as_ref().or(mode.when_to_use.as_ref()) {
        lines.push(one_line(about, ABOUT));
    }
    let tools: Vec<String> = mode.tools().iter().map(|tool| format!("`{tool}`")).collect();
    lines.push(format!("Tools: {}", tools.join(", ")));
    lines.push(match (&mode.file_restriction, mode.groups.contains(&Group::Edit)) {
        (Some(files), true) => {
            format!(
                "Changes: {} (`{}`)",
                one_line(&files.description, ABOUT),
                one_line(files.pattern(), ABOUT)
            )
        }
        (None, true) => "Changes: all files".to_owned(),
        (_, false) => "Changes: only notes in the task's own directory".to_owned(),
    });
    if let Some(servers) = &mode.mcp_servers {
        let servers: Vec<&str> = servers.iter().map(String::as_str).collect();
        lines.push(format!("MCP servers: {}", one_line(&servers.join(", "), ABOUT)));
    }
    lines.push(match mode.can_delegate_to.as_slice() {
        [] => "Delegates to: nobody".to_owned(),
        slugs => format!("Delegates to: {}", slugs.join(", ")),
    });
    if let Some(below) = Modes::built_in().find(&mode.slug).ok().filter(|below| below.source != mode.source) {
        let more = mode.beyond(below);
        lines.push(match more.as_slice() {
            [] => "Replaces the built-in mode, and gives it nothing more.".to_owned(),
            more => format!(
                "Replaces the built-in mode, and gives it more: {}",
                one_line(&more.join(", "), ABOUT)
            ),
        });
    }
    lines.join("\n\n")
}

fn pattern(pattern: &str, files: impl FnOnce() -> FileNames) -> String {
    let restriction = match FileRestriction::new(pattern, "") {
        Ok(restriction) => restriction,
        Err(error) => {
            return format!("This pattern is invalid: {}", one_line(&error.to_string(), ABOUT));
        }
    };
    matching(files(), |name| restriction.matches(name))
}

/// Describes the files that a glob of an intent's scope covers.
fn scope(pattern: &str, files: impl FnOnce() -> FileNames) -> String {
    let plain = pattern.strip_prefix('!').unwrap_or(pattern);
    match Scope::parse(&[plain]) {
        Ok(scope) => matching(files(), |name| matches!(scope.covers(name), Covered::By(_))),
        Err(bad) => bad.iter().map(|bad| one_line(&bad.to_string(), ABOUT)).collect::<Vec<_>>().join("\n"),
    }
}

fn matching(files: FileNames, is_one: impl Fn(&str) -> bool) -> String {
    let FileNames { names, cut } = files;
    let matching: Vec<&String> = names.iter().filter(|name| is_one(name)).collect();
    let among = format!("{}{} files", if cut { "the first " } else { "" }, names.len());
    if matching.is_empty() {
        return format!("Matches none of {among} of this workspace.");
    }
    let shown: String =
        matching.iter().take(FILES_SHOWN).map(|name| format!("\n- `{}`", exact_line(name))).collect();
    let more = match matching.len().saturating_sub(FILES_SHOWN) {
        0 => String::new(),
        more => format!("\n- and {more} more"),
    };
    format!("Matches {} of {among} of this workspace:\n{shown}{more}", matching.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use roo_engine::customization::Scope;
    use roo_formats::modes::{ParsedModes, Source};

    const KIND: ConfigFileKind = ConfigFileKind::Modes(Scope::Project);

    fn at_kind(kind: ConfigFileKind, marked: &str) -> String {
        let offset = marked.find('|').unwrap();
        let text = marked.replacen('|', "", 1);
        let own = ParsedModes::parse(&text, Source::Project).map(|parsed| parsed.modes).unwrap_or_default();
        let files =
            || FileNames { names: ["a.md", "b/c.md", "d.rs"].map(str::to_owned).to_vec(), cut: false };
        let hover = hover(kind, &text, offset, &Modes::built_in().with(own), files);
        hover.map(|hover| hover.text).unwrap_or_default()
    }

    fn hover_at(marked: &str) -> String {
        at_kind(KIND, marked)
    }

    #[test]
    fn keys_say_what_they_mean() {
        assert!(hover_at("customModes:\n  - sl|ug: a\n").starts_with("**slug**: Names the mode everywhere"));
        assert!(
            at_kind(ConfigFileKind::Settings, "limits:\n  dep|th: 3\n")
                .starts_with("**depth**: Maximum depth")
        );
        assert!(
            at_kind(ConfigFileKind::Skill, "---\nmodeSl|ugs: [code]\n---\n").starts_with("**modeSlugs**: ")
        );
        assert_eq!(hover_at("customModes:\n  - sluug|: a\n"), "");
    }

    #[test]
    fn a_group_shows_its_tools() {
        insta::assert_snapshot!(hover_at("customModes:\n  - groups: [co|mmand]\n"), @r"
        **command**: Runs shell commands.

        Tools: `execute_command`, `read_command_output`, `send_command_input`, `stop_command`
        ");
        assert!(hover_at("customModes:\n  - groups: [[\"ed|it\", {}]]\n").contains("`write_to_file`"));
    }

    #[test]
    fn a_mode_shows_what_it_may_do_and_what_it_gives_to_a_built_in_one() {
        let text = "customModes:\n  - slug: as|k\n    name: Ask\n    roleDefinition: x\n    groups: [read, command]\n    \
                    canDelegateTo: [code]\n";
        insta::assert_snapshot!(hover_at(text), @r"
        ❓ **Ask** (`ask`, project)

        Tools: `read_file`, `write_to_file`, `list_files`, `search_files`, `codebase_search`, `list_code_definition_names`, `find_references`, `go_to_definition`, `hover`, `workspace_symbols`, `diagnostics`, `code_actions`, `execute_command`, `read_command_output`, `send_command_input`, `stop_command`, `ask_followup_question`, `update_todo_list`, `switch_mode`, `skill`, `fetch_instructions`, `new_task`, `attempt_completion`, `complete_with_failure`

        Changes: only notes in the task's own directory

        Delegates to: code

        Replaces the built-in mode, and gives it more: execute_command, read_command_output, send_command_input, stop_command, new_task, delegating to code
        ");
        assert!(
            at_kind(ConfigFileKind::Command, "---\nmode: archi|tect\n---\n")
                .contains("Changes: Markdown files (`\\.md$`)")
        );
        assert!(
            hover_at("customModes:\n  - canDelegateTo: [nob|ody]\n").starts_with("There is no mode 'nobody'")
        );
    }

    #[test]
    fn a_scope_is_tried_on_files() {
        let with = |pattern: &str| {
            at_kind(ConfigFileKind::Intents, &format!("active_intents:\n  - owned_scope: [{pattern}]\n"))
        };
        assert!(with("'|b'").starts_with("Matches 1 of 3 files"), "{}", with("'|b'"));
        assert!(with("'!**|/*.md'").starts_with("Matches 2 of 3 files"));
        assert!(with("'|../x'").contains("can't be used"));
    }

    #[test]
    fn a_pattern_is_tried_on_files() {
        let with = |pattern: &str| {
            hover_at(&format!("customModes:\n  - groups:\n      - [edit, {{ fileRegex: {pattern} }}]\n"))
        };
        insta::assert_snapshot!(with(r"'\.|md$'"), @r"
        Matches 2 of 3 files of this workspace:

        - `a.md`
        - `b/c.md`
        ");
        assert_eq!(with(r#""\\.|md$""#), with(r"'\.|md$'"));
        assert_eq!(with("'|zig$'"), "Matches none of 3 files of this workspace.");
        insta::assert_snapshot!(with("'|(a'"), @"This pattern is invalid: Parsing error at position 2: Opening parenthesis without closing parenthesis");
    }
}
