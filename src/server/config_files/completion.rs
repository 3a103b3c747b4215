//! Completion at a cursor. Pure.

use std::ops::Range;

use super::cursor::{self, Cursor, Slot};
use super::grammar::{self, Expected};
use super::kind::ConfigFileKind;
use roo_engine::hooks::Compared;
use roo_formats::declaration::{Holds, Key, Word};
use roo_formats::modes::Modes;
use roo_text::render::one_line;

/// Completion, with the text that it replaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Completion {
    /// In bytes, on one line.
    pub(super) range: Range<usize>,
    pub(super) items: Vec<CompletionEntry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CompletionEntry {
    pub(super) label: String,
    pub(super) about: String,
    pub(super) is_key: bool,
    pub(super) text: String,
    /// The same with places to fill in, for clients that know snippets.
    pub(super) snippet: Option<String>,
}

/// Names that a file can refer to.
#[derive(Clone, Copy)]
pub(super) struct KnownNames<'a> {
    pub(super) modes: &'a Modes,
    /// The MCP servers that are configured.
    pub(super) servers: &'a [String],
}

/// Returns the completions at a byte offset; none where anything may stand.
pub(super) fn complete(
    kind: ConfigFileKind,
    text: &str,
    offset: usize,
    known: KnownNames<'_>,
) -> Option<Completion> {
    let (cursor, is_json) = kind.cursor_at(text, offset)?;
    let token = text.get(cursor.token.clone())?;
    if token.contains('\n') {
        return None;
    }
    let form = EntrySyntax::new(text, &cursor, is_json);
    let range = match form.quoted {
        // What stands between the quotes.
        true => {
            let inner = cursor::unquoted(token);
            cursor.token.start + 1..cursor.token.start + 1 + inner.len()
        }
        false => cursor.token.clone(),
    };
    let mut items = form.items(kind, &cursor, known);
    items.retain(|item| !cursor.siblings.contains(&item.label));
    (!items.is_empty()).then_some(Completion { range, items })
}

fn text_word(word: &str, about: String) -> Word {
    Word { word: word.to_owned(), about, is_flag: false }
}

fn suggested<'a>(keys: &'a [Key<'_>]) -> impl Iterator<Item = &'a Key<'a>> {
    keys.iter().filter(|key| key.is_suggested)
}

/// Syntax of entries at a position.
struct EntrySyntax {
    json: bool,
    /// Inside of quotes that are there already.
    quoted: bool,
    /// Directly after a colon or a dash, where YAML needs a space.
    needs_space: bool,
}

impl EntrySyntax {
    fn new(text: &str, cursor: &Cursor, json: bool) -> Self {
        let before = text.get(..cursor.token.start).unwrap_or_default();
        let token = text.get(cursor.token.clone()).unwrap_or_default();
        Self {
            json,
            quoted: token.starts_with(['"', '\'']),
            needs_space: !json && before.ends_with([':', '-']),
        }
    }

    fn items(&self, kind: ConfigFileKind, cursor: &Cursor, known: KnownNames<'_>) -> Vec<CompletionEntry> {
        let KnownNames { modes, servers } = known;
        match (cursor.slot, grammar::expected(kind, &cursor.path)) {
            (Slot::Key { colon }, Expected::Keys(keys)) => {
                suggested(&keys).map(|key| self.key(key, colon)).collect()
            }
            // The first key of a mapping.
            (Slot::Value { .. }, Expected::Keys(keys)) if !self.json && !self.quoted => {
                suggested(&keys).map(|key| self.key(key, false)).collect()
            }
            (Slot::Value { alone }, Expected::Groups { list, names }) => {
                let names = names.iter().map(|name| self.value(name, list, alone));
                names.chain((!self.quoted && !list).then(|| self.limited_edit())).collect()
            }
            (Slot::Value { alone }, Expected::Slugs { list }) => {
                let about = |text: &Option<String>| one_line(text.as_deref().unwrap_or_default(), 200);
                let words = modes.iter().map(|mode| text_word(&mode.slug, about(&mode.description)));
                words.map(|word| self.value(&word, list, alone)).collect()
            }
            (Slot::Value { alone }, Expected::Servers { list }) => {
                let words = servers.iter().map(|name| text_word(name, String::new()));
                words.map(|word| self.value(&word, list, alone)).collect()
            }
            (Slot::Value { alone }, Expected::Matcher(event)) => {
                let slugs = modes.iter().map(|mode| (mode.slug.clone(), String::new()));
                let names: Vec<(String, String)> = match event.compared() {
                    Compared::Mode => slugs.collect(),
                    _ => grammar::matched(event),
                };
                let about = |also: &str| match also {
                    "" => String::new(),
                    also => format!("The same as {also}."),
                };
                let words = names.iter().map(|(name, also)| text_word(name, about(also)));
                words.map(|word| self.value(&word, false, alone)).collect()
            }
            (Slot::Value { alone }, Expected::Words(words)) => {
                words.iter().map(|word| self.value(word, false, alone)).collect()
            }
            _ => vec![],
        }
    }

    fn key(&self, key: &Key<'_>, colon: bool) -> CompletionEntry {
        let name = if self.json && !self.quoted { format!("\"{}\"", key.name) } else { key.name.to_owned() };
        let space = if self.needs_space { " " } else { "" };
        let (text, snippet) = if colon || self.quoted {
            (name, None)
        } else {
            let filled = match (key.holds, self.json) {
                (Holds::List, _) => Some("[$0]"),
                (Holds::Text, true) => Some("\"$0\""),
                (Holds::Mapping, true) => Some("{ $0 }"),
                (Holds::Scalar, _) | (Holds::Text | Holds::Mapping, false) => None,
            };
            // What a mapping holds stands in lines below.
            let gap = if matches!((key.holds, self.json), (Holds::Mapping, false)) { "" } else { " " };
            (format!("{space}{name}:{gap}"), filled.map(|filled| format!("{space}{name}: {filled}")))
        };
        CompletionEntry { label: key.name.to_owned(), about: key.about.clone(), is_key: true, text, snippet }
    }

    /// A word, as the whole value or as an item of a list that isn't there yet.
    fn value(&self, Word { word, about, is_flag }: &Word, list: bool, alone: bool) -> CompletionEntry {
        let needs_quotes = self.json && !self.quoted && !is_flag;
        let quoted = if needs_quotes { format!("\"{word}\"") } else { word.clone() };
        let text = match (list && !self.quoted, alone && !self.json) {
            (true, true) => format!("- {quoted}"),
            (true, false) => format!("[{quoted}]"),
            (false, _) => quoted,
        };
        let space = if self.needs_space { " " } else { "" };
        CompletionEntry {
            label: word.clone(),
            about: about.clone(),
            is_key: false,
            text: format!("{space}{text}"),
            snippet: None,
        }
    }

    /// Editing some files only.
    fn limited_edit(&self) -> CompletionEntry {
        let space = if self.needs_space { " " } else { "" };
        let (text, snippet) = if self.json {
            (
                r#"["edit", { "fileRegex": "\\.md$", "description": "Markdown files" }]"#.to_owned(),
                r#"["edit", { "fileRegex": "${1:\\\\.md\$}", "description": "${2:Markdown files}" \}]"#
                    .to_owned(),
            )
        } else {
            (
                format!("{space}[edit, {{ fileRegex: '\\.md$', description: Markdown files }}]"),
                format!(
                    "{space}[edit, {{ fileRegex: '${{1:\\\\.md\\$}}', description: ${{2:Markdown files}} \\}}]"
                ),
            )
        };
        CompletionEntry {
            label: "[edit, { fileRegex: … }]".to_owned(),
            about: "Changes only files whose path matches a regular expression.".to_owned(),
            is_key: false,
            text,
            snippet: Some(snippet),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use roo_engine::customization::Scope;

    const MODES: ConfigFileKind = ConfigFileKind::Modes(Scope::Project);

    fn complete_marked(kind: ConfigFileKind, marked: &str) -> Option<(String, Completion)> {
        let offset = marked.find('|').unwrap();
        let text = marked.replacen('|', "", 1);
        let (modes, servers) = (Modes::built_in(), ["files".to_owned(), "git".to_owned()]);
        let known = KnownNames { modes: &modes, servers: &servers };
        complete(kind, &text, offset, known).map(|completion| (text, completion))
    }

    fn labels(kind: ConfigFileKind, marked: &str) -> Vec<String> {
        let found = complete_marked(kind, marked).map(|(_, completion)| completion.items).unwrap_or_default();
        found.into_iter().map(|item| item.label).collect()
    }

    /// The text after an item is chosen.
    fn chosen(kind: ConfigFileKind, marked: &str, label: &str) -> String {
        let (mut text, completion) = complete_marked(kind, marked).unwrap();
        let item = completion.items.into_iter().find(|item| item.label == label).unwrap();
        text.replace_range(completion.range, &item.text);
        text
    }

    #[test]
    fn a_mode_gets_the_keys_that_it_lacks() {
        let marked = "customModes:\n  - slug: a\n    name: A\n    |\n    groups: [read]\n";
        let expected =
            ["roleDefinition", "description", "whenToUse", "customInstructions", "canDelegateTo", "source"];
        assert_eq!(labels(MODES, marked), expected);
        assert_eq!(labels(MODES, "|"), ["customModes"]);
        assert_eq!(labels(MODES, "customModes:\n  - sl|"), labels(MODES, "customModes:\n  - |"));
        assert_eq!(chosen(MODES, "customModes:\n  - sl|", "slug"), "customModes:\n  - slug: ");
        assert_eq!(chosen(MODES, "customModes:\n  - sl|u: a\n", "slug"), "customModes:\n  - slug: a\n");
    }

    #[test]
    fn groups_and_their_long_form() {
        let open = "customModes:\n  - slug: a\n    groups:\n      - read\n      - e|\n";
        assert_eq!(
            labels(MODES, open),
            ["edit", "command", "browser", "mcp", "modes", "[edit, { fileRegex: … }]"]
        );
        let expected = open.replace("e|\n", "[edit, { fileRegex: '\\.md$', description: Markdown files }]\n");
        assert_eq!(chosen(MODES, open, "[edit, { fileRegex: … }]"), expected);
        assert_eq!(
            labels(MODES, "customModes:\n  - groups:\n      - [edit, { | }]\n"),
            ["fileRegex", "description", "servers"]
        );
        let servers = "customModes:\n  - groups:\n      - - mcp\n        - servers: [git, |]\n";
        assert_eq!(labels(MODES, servers), ["files"]);
        assert_eq!(
            chosen(MODES, "customModes:\n  - groups:|\n", "read"),
            "customModes:\n  - groups: [read]\n"
        );
        let alone = "customModes:\n  - groups:\n      |\n";
        assert_eq!(chosen(MODES, alone, "read"), alone.replace('|', "- read"));
    }

    #[test]
    fn modes_to_delegate_to() {
        let marked = "customModes:\n  - slug: a\n    canDelegateTo: [code, |\n    groups: []\n";
        assert_eq!(labels(MODES, marked), ["new-task", "orchestrator", "architect", "debug", "ask"]);
        assert_eq!(
            labels(ConfigFileKind::Command, "---\nmode: c|\n---\nText"),
            labels(ConfigFileKind::Skill, "---\nmodeSlugs: [|]\n---\n")
        );
        assert_eq!(chosen(ConfigFileKind::Command, "---\nmode:|", "ask"), "---\nmode: ask");
    }

    #[test]
    fn front_matter_gets_its_keys_and_the_text_below_gets_nothing() {
        assert_eq!(
            labels(ConfigFileKind::Command, "---\ndescription: x\n|\n---\n"),
            ["argument-hint", "mode"]
        );
        assert_eq!(labels(ConfigFileKind::Skill, "---\n|"), ["name", "description", "modeSlugs"]);
        assert_eq!(complete_marked(ConfigFileKind::Command, "---\nmode: code\n---\nmo|"), None);
        assert_eq!(complete_marked(ConfigFileKind::Command, "mo|"), None);
        assert_eq!(complete_marked(ConfigFileKind::Rules, "---\nmo|"), None);
    }

    #[test]
    fn json_is_written_with_quotes() {
        let open = "{\"customModes\": [{\"slug\": \"a\", |}]}";
        assert_eq!(chosen(MODES, open, "name"), open.replace('|', "\"name\": "));
        let open = "{\"customModes\": [{\"groups\": [\"|\"]}]}";
        assert_eq!(chosen(MODES, open, "edit"), open.replace('|', "edit"));
        let open = "{\"customModes\": [{\"groups\": [|]}]}";
        assert_eq!(chosen(MODES, open, "edit"), open.replace('|', "\"edit\""));
        let (_, completion) = complete_marked(MODES, open).unwrap();
        let long = completion.items.last().unwrap();
        assert!(serde_json::from_str::<serde_json::Value>(&long.text).is_ok(), "{}", long.text);
    }

    /// Fills a snippet with its placeholders.
    fn filled(snippet: &str) -> String {
        let place = regex::Regex::new(r"\$\{\d:((?:\\.|[^}\\])*)\}").unwrap();
        let plain = place.replace_all(snippet, "$1").replace("$0", "");
        regex::Regex::new(r"\\(.)").unwrap().replace_all(&plain, "$1").into_owned()
    }

    #[test]
    fn a_snippet_is_the_text_with_places_to_fill_in() {
        for open in ["customModes:\n  - groups: [|]", "{\"customModes\": [{\"groups\": [|]}]}"] {
            let (_, completion) = complete_marked(MODES, open).unwrap();
            let long = completion.items.last().unwrap();
            assert_eq!(filled(long.snippet.as_deref().unwrap()), long.text);
        }
    }

    #[test]
    fn intents_are_completed() {
        let marked = "active_intents:\n  - id: a\n    st|\n";
        assert!(labels(ConfigFileKind::Intents, marked).contains(&"status".to_owned()));
        let marked = "active_intents:\n  - id: a\n    status: |\n";
        let words = ["PENDING", "IN_PROGRESS", "BLOCKED", "COMPLETED", "ABANDONED"];
        assert_eq!(labels(ConfigFileKind::Intents, marked), words);
        assert_eq!(
            labels(ConfigFileKind::Intents, "active_intents:\n  - enforce: [|]\n"),
            ["no_new_files", "no_delete", "ask_commands"]
        );
    }

    #[test]
    fn servers_are_completed_among_comments() {
        let labels = |marked: &str| labels(ConfigFileKind::McpServers, marked);
        assert_eq!(labels("{ | }"), ["mcpServers"]);
        let open = "// ours\n{ \"mcpServers\": { /* { */ \"a\": { \"command\": \"x\", // \"b\n |\n }, } }";
        assert!(
            labels(open).contains(&"watchPaths".to_owned()) && !labels(open).contains(&"command".to_owned())
        );
        for silent in ["{ \"mcpServers\": { \"a\": { // |\n } } }", "{ /* | */ }", "|", "// |"] {
            assert_eq!(complete_marked(ConfigFileKind::McpServers, silent), None, "{silent}");
        }
        let open = "{ \"mcpServers\": { \"a\": { \"type\": | } } }";
        assert_eq!(labels(open), ["stdio", "streamable-http", "sse"]);
        assert_eq!(chosen(ConfigFileKind::McpServers, open, "sse"), open.replace('|', "\"sse\""));
        let open = "{ \"mcpServers\": { \"a\": { \"disabled\": | } } }";
        assert_eq!(chosen(ConfigFileKind::McpServers, open, "true"), open.replace('|', "true"));
    }

    #[test]
    fn settings_are_completed() {
        assert!(labels(ConfigFileKind::Settings, "limits:\n  d|").contains(&"depth".to_owned()));
        assert_eq!(labels(ConfigFileKind::Settings, "autoApprove:\n  write: |"), ["true", "false"]);
    }

    proptest::proptest! {
        #[test]
        fn no_text_is_too_strange(text in r#"(---\n)?[a-b:\-\[\]{}"'|>/* \nä]{0,40}"#, cursor in 0usize..48) {
            let modes = Modes::built_in();
            let known = KnownNames { modes: &modes, servers: &[] };
            for kind in [MODES, ConfigFileKind::Command, ConfigFileKind::Settings, ConfigFileKind::McpServers] {
                if let Some(completion) = complete(kind, &text, cursor, known) {
                    proptest::prop_assert!(text.get(completion.range).is_some_and(|old| !old.contains('\n')));
                }
            }
        }
    }
}
