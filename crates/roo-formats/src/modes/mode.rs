//! Modes and their permissions.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::{Component, Path};

use fancy_regex::{Regex, RegexBuilder};

use crate::config::ToolChoice;
use roo_catalog::{Group, ServerToolName, TOOLS, ToolName};

/// A specialised agent.
#[derive(Clone, Debug)]
pub struct Mode {
    /// Names it in settings and on the wire.
    pub slug: String,
    /// Marks it in prompts and trees.
    pub emoji: String,
    /// For people.
    pub name: String,
    /// Description for people, in a few words.
    pub description: Option<String>,
    /// Guidance for other modes on when to choose it.
    pub when_to_use: Option<String>,
    /// Role of the model in this mode.
    pub role: String,
    /// The groups that bring its tools, besides what every mode has.
    pub groups: Vec<Group>,
    /// Files that its edits may touch; all when none.
    pub file_restriction: Option<FileRestriction>,
    /// The MCP servers that it may use, if it may use any; all when none.
    pub mcp_servers: Option<BTreeSet<String>>,
    /// The slugs of the modes to which it may delegate.
    pub can_delegate_to: Vec<String>,
    /// True if it may delegate but once for each message of the user.
    pub delegates_once: bool,
    /// True if the server gathers facts about the system before its first turn.
    pub gathers_context: bool,
    /// Step-by-step instructions; empty for a custom mode.
    pub instructions: String,
    /// Additions of its author to the prompt.
    pub custom_instructions: Option<String>,
    /// Source.
    pub source: Source,
}

/// Source of a mode, from weak to strong: of two modes with one slug the stronger counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// The server itself.
    BuiltIn,
    /// The user's own file.
    Global,
    /// The workspace's file.
    Project,
}

impl Source {
    /// Its name, as on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BuiltIn => "built-in",
            Self::Global => "global",
            Self::Project => "project",
        }
    }
}

/// Files that a mode may change. The default lets none pass.
#[derive(Clone, Debug, Default)]
pub struct FileRestriction {
    /// Description of what it matches, for people.
    pub description: String,
    /// The pattern as it was written.
    written: String,
    pattern: Option<Regex>,
}

/// Files that edits may touch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Edits<'a> {
    None,
    Matching(&'a str),
    Any,
}

/// Reason why a pattern can't be used, in one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PatternError(String);

/// The largest compiled pattern, in bytes.
const PATTERN_SIZE: usize = 1 << 20;
/// Maximum number of backtracking steps of a look-around or a back-reference for one path. All else is linear.
const PATTERN_STEPS: usize = 100_000;

impl FileRestriction {
    /// A restriction to files whose path, relative to its root, matches `pattern`. Look-around, with
    /// which Roo's users exclude files, is understood, and so is what only JavaScript takes for itself in a class.
    ///
    /// # Errors
    /// When the pattern is no regular expression, or too large.
    pub fn new(pattern: &str, description: &str) -> Result<Self, PatternError> {
        let compiled = compiled(pattern).or_else(|error| {
            // What is wrong is told of the pattern that was written.
            match of_javascript(pattern) {
                Cow::Borrowed(_) => Err(error),
                Cow::Owned(pattern) => compiled(&pattern).map_err(|_| error),
            }
        });
        let compiled = compiled.map_err(|error| {
            let text = error.to_string();
            // What the engine says of one that outgrows its limit.
            let is_large = text.contains("building NFA");
            let reason = if is_large { "it is too large" } else { text.lines().last().unwrap_or_default() };
            PatternError(reason.to_owned())
        })?;
        Ok(Self { description: description.to_owned(), written: pattern.to_owned(), pattern: Some(compiled) })
    }

    /// Returns whether the file may be changed. A path on which the pattern goes back too often may not.
    pub fn matches(&self, path: &str) -> bool {
        self.pattern.as_ref().is_some_and(|pattern| pattern.is_match(path).unwrap_or(false))
    }

    /// The pattern as it was written.
    pub fn pattern(&self) -> &str {
        &self.written
    }
}

fn compiled(pattern: &str) -> Result<Regex, Box<fancy_regex::Error>> {
    let mut builder = RegexBuilder::new(pattern);
    let built = builder.backtrack_limit(PATTERN_STEPS).delegate_size_limit(PATTERN_SIZE).build();
    built.map_err(Box::new)
}

/// What was read within a class of JavaScript.
#[derive(Clone, Copy, PartialEq, Eq)]
enum InClass {
    /// Nothing, or a whole range: what follows begins something new.
    Start,
    /// A character, or a set such as `\w`: a `-` may make a range of it.
    Item { is_set: bool },
    /// The `-` of a range.
    Dash,
}

/// A pattern of JavaScript for this engine, which has operators in classes: there `[`, `&` and `~` are plain characters, and so
/// is a `-` that is no range's or has a set such as `\w` beside it. These are escaped, and all else stays as it is.
fn of_javascript(pattern: &str) -> Cow<'_, str> {
    let is_set = |c: char| matches!(c, 'w' | 'W' | 'd' | 'D' | 's' | 'S');
    let mut text = String::with_capacity(pattern.len() + 4);
    let mut chars = pattern.chars().peekable();
    let mut class: Option<InClass> = None;
    let behind = |place: InClass, is_set: bool| match place {
        InClass::Dash => InClass::Start,
        InClass::Start | InClass::Item { .. } => InClass::Item { is_set },
    };
    while let Some(c) = chars.next() {
        class = match (c, class) {
            ('\\', _) => {
                let escaped = chars.next();
                text.push(c);
                text.extend(escaped);
                class.map(|place| behind(place, escaped.is_some_and(is_set)))
            }
            ('[', None) => {
                text.push(c);
                text.extend(chars.next_if_eq(&'^'));
                // A class of nothing, or of everything, which this engine reads in another way.
                if chars.peek() == Some(&']') {
                    return Cow::Borrowed(pattern);
                }
                Some(InClass::Start)
            }
            (']', Some(_)) => {
                text.push(c);
                None
            }
            ('-', Some(InClass::Item { is_set: is_behind_set })) if chars.peek() != Some(&']') => {
                let mut ahead = chars.clone();
                let is_before_set = ahead.next() == Some('\\') && ahead.next().is_some_and(is_set);
                text.push_str(if is_behind_set || is_before_set { r"\-" } else { "-" });
                Some(InClass::Dash)
            }
            ('[' | '-' | '&' | '~', Some(place)) => {
                text.extend(['\\', c]);
                Some(behind(place, false))
            }
            (c, place) => {
                text.push(c);
                place.map(|place| behind(place, false))
            }
        };
    }
    if text == pattern { Cow::Borrowed(pattern) } else { Cow::Owned(text) }
}

/// A mode does not permit a call. The text is for the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModeRefusal {
    /// The mode has no such tool.
    #[error("The mode '{mode}' does not have the tool {tool}. It has {}.", names(tools))]
    Tool {
        /// The mode's slug.
        mode: String,
        /// Called tool.
        tool: ToolName,
        /// Tools of the mode.
        tools: Vec<ToolName>,
    },
    /// The mode has no tools of servers.
    #[error("The mode '{mode}' does not have the tools of servers, so {tool} can't be called.")]
    ServerTool {
        /// The mode's slug.
        mode: String,
        /// Called tool.
        tool: ServerToolName,
    },
    /// The mode may use other servers only.
    #[error("The mode '{mode}' does not have the MCP server '{server}'. It has {}.", servers.join(", "))]
    Server {
        /// The mode's slug.
        mode: String,
        /// The server.
        server: String,
        /// Servers of the mode.
        servers: Vec<String>,
    },
    /// The mode's edits may not touch the file.
    #[error(
        "The mode '{mode}' may change {} only (pattern `{pattern}`), and '{path}' is not one of \
         them. Work within that, or end with what should be changed in this file.",
        without_only(.description)
    )]
    File {
        /// The mode's slug.
        mode: String,
        /// Description of what the pattern matches.
        description: String,
        /// The mode's pattern.
        pattern: String,
        /// The file.
        path: String,
    },
    /// The mode may only write notes.
    #[error(
        "The mode '{mode}' may write below `{task_directory}/` only, and '{path}' is not there. Put text that \
         you want to keep there, or end with what should be changed in this file."
    )]
    OutsideTaskDirectory {
        /// The mode's slug.
        mode: String,
        /// The request's own directory.
        task_directory: String,
        /// The file.
        path: String,
    },
}

fn names(tools: &[ToolName]) -> String {
    tools.iter().map(|tool| tool.as_str()).collect::<Vec<_>>().join(", ")
}

impl Mode {
    /// Its tools, in the order of the catalogue, but for those that only some models get.
    pub fn tools(&self) -> Vec<ToolName> {
        self.tools_with(&ToolChoice::default())
    }

    /// Its tools for a model, in the order of the catalogue.
    pub fn tools_with(&self, choice: &ToolChoice) -> Vec<ToolName> {
        let own = TOOLS
            .iter()
            .filter(|spec| !matches!(spec.group, Group::Intents | Group::Mcp))
            .map(|spec| spec.name);
        own.filter(|&tool| self.has(tool) && choice.has(tool)).collect()
    }

    /// Returns whether it has the tool. Every mode can write: its request's own directory is open to it.
    pub fn has(&self, tool: ToolName) -> bool {
        match tool.spec().group {
            Group::Always | Group::Intents => true,
            Group::Delegation => !self.can_delegate_to.is_empty(),
            group => tool.spec().is_in_every_mode || self.groups.contains(&group),
        }
    }

    /// Describes what it may do that another mode may not: tools, files, delegation. Empty when it only tightens.
    pub fn beyond(&self, other: &Mode) -> Vec<String> {
        let mut more: Vec<String> =
            self.tools().into_iter().filter(|&tool| !other.has(tool)).map(|tool| tool.to_string()).collect();
        more.extend(self.servers_beyond(other));
        match (self.edits(), other.edits()) {
            (Edits::None, _) | (_, Edits::Any) => {}
            (ours, theirs) if ours == theirs => {}
            (Edits::Matching(pattern), _) => more.push(format!("changing files that match `{pattern}`")),
            (Edits::Any, _) => more.push("changing any file".to_owned()),
        }
        let further = self.can_delegate_to.iter().filter(|slug| !other.can_delegate_to.contains(slug));
        more.extend(further.map(|slug| format!("delegating to {slug}")));
        more
    }

    /// Describes the MCP servers that it may use and another mode may not.
    fn servers_beyond(&self, other: &Mode) -> Option<String> {
        if !self.groups.contains(&Group::Mcp) {
            return None;
        }
        let none = BTreeSet::new();
        let theirs = match other.groups.contains(&Group::Mcp) {
            true => other.mcp_servers.as_ref()?,
            false => &none,
        };
        match &self.mcp_servers {
            None => Some("MCP servers".to_owned()),
            Some(ours) => {
                let more: Vec<&str> = ours.difference(theirs).map(String::as_str).collect();
                (!more.is_empty()).then(|| format!("the MCP servers {}", more.join(", ")))
            }
        }
    }

    /// Returns the files that its edits may touch, its request's own directory aside.
    fn edits(&self) -> Edits<'_> {
        let pattern =
            self.file_restriction.as_ref().map(|files| files.pattern.as_ref().map(|_| files.pattern()));
        match pattern {
            _ if !self.groups.contains(&Group::Edit) => Edits::None,
            Some(None) => Edits::None,
            // The empty pattern matches every path.
            None | Some(Some("")) => Edits::Any,
            Some(Some(pattern)) => Edits::Matching(pattern),
        }
    }

    /// Returns whether it may call the tool at all.
    ///
    /// # Errors
    /// [`ModeRefusal::Tool`].
    pub fn permits(&self, tool: ToolName) -> Result<(), ModeRefusal> {
        if self.has(tool) {
            Ok(())
        } else {
            Err(ModeRefusal::Tool { mode: self.slug.clone(), tool, tools: self.tools() })
        }
    }

    /// Returns whether it may call this tool of a server.
    ///
    /// # Errors
    /// [`ModeRefusal::ServerTool`], [`ModeRefusal::Server`].
    pub fn permits_server_tool(&self, tool: &ServerToolName) -> Result<(), ModeRefusal> {
        if !self.groups.contains(&Group::Mcp) {
            return Err(ModeRefusal::ServerTool { mode: self.slug.clone(), tool: tool.clone() });
        }
        self.permits_server(tool.server())
    }

    /// Returns whether this server is one of those that it may use, if it may use any.
    ///
    /// # Errors
    /// [`ModeRefusal::Server`].
    pub fn permits_server(&self, server: &str) -> Result<(), ModeRefusal> {
        match &self.mcp_servers {
            Some(servers) if !servers.contains(server) => Err(ModeRefusal::Server {
                mode: self.slug.clone(),
                server: server.to_owned(),
                servers: servers.iter().cloned().collect(),
            }),
            _ => Ok(()),
        }
    }

    /// Returns whether it may call the tool on this file. `path` is resolved and relative to its root, with
    /// `/` between its parts; `task_directory` is the request's own, see [`super::task_directory`], and
    /// none in a root that has none.
    ///
    /// # Errors
    /// [`ModeRefusal`], worded for the model.
    pub fn permits_file(
        &self,
        tool: ToolName,
        path: &str,
        task_directory: Option<&str>,
    ) -> Result<(), ModeRefusal> {
        self.permits(tool)?;
        if tool.spec().group != Group::Edit {
            return Ok(());
        }
        if tool.spec().is_in_every_mode && task_directory.is_some_and(|own| is_below(path, own)) {
            return Ok(());
        }
        if !self.groups.contains(&Group::Edit) {
            return Err(ModeRefusal::OutsideTaskDirectory {
                mode: self.slug.clone(),
                task_directory: task_directory.unwrap_or(".roo/tasks").to_owned(),
                path: path.to_owned(),
            });
        }
        match &self.file_restriction {
            Some(restriction) if !restriction.matches(path) => Err(ModeRefusal::File {
                mode: self.slug.clone(),
                description: restriction.description.clone(),
                pattern: restriction.pattern().to_owned(),
                path: path.to_owned(),
            }),
            _ => Ok(()),
        }
    }
}

/// Strips "only" from a description such as "Documentation files only".
fn without_only(description: &str) -> &str {
    let only = " only";
    let start = description.len().saturating_sub(only.len());
    match description.get(start..) {
        Some(end) if end.eq_ignore_ascii_case(only) => &description[..start],
        _ => description,
    }
}

/// Returns whether a path goes down from a directory: part by part, and never up again.
fn is_below(path: &str, directory: &str) -> bool {
    Path::new(path).strip_prefix(directory).is_ok_and(|rest| {
        rest.components().next().is_some()
            && rest.components().all(|part| matches!(part, Component::Normal(_)))
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::Modes;
    use super::super::built_in::BUILT_IN;
    use super::*;

    const OWN: &str = ".roo/tasks/20250307-09-05-0a1b2c3d";

    fn mode(slug: &str) -> Arc<Mode> {
        Arc::clone(Modes::built_in().find(slug).unwrap())
    }

    #[test]
    fn each_mode_has_the_documented_tools() {
        let all = ["new-task", "orchestrator", "architect", "code", "debug", "ask"];
        let who_has = |tool: ToolName| -> Vec<&str> {
            BUILT_IN.iter().filter(|mode| mode.has(tool)).map(|mode| mode.slug.as_str()).collect()
        };
        for spec in TOOLS {
            let expected: &[&str] = match spec.name {
                ToolName::ApplyDiff
                | ToolName::InsertContent
                | ToolName::SearchAndReplace
                | ToolName::EditFile
                | ToolName::ApplyCodeAction
                | ToolName::RenameSymbol
                | ToolName::ApplyPatch
                | ToolName::GenerateImage => &["architect", "code", "debug"],
                ToolName::ExecuteCommand
                | ToolName::ReadCommandOutput
                | ToolName::SendCommandInput
                | ToolName::StopCommand => &["new-task", "code", "debug"],
                ToolName::BrowserAction => &["architect", "code", "debug", "ask"],
                ToolName::NewTask => &["new-task", "orchestrator", "code"],
                ToolName::SearchMcpTools | ToolName::UseMcpTool | ToolName::AccessMcpResource => {
                    &["orchestrator", "architect", "code", "debug", "ask"]
                }
                _ => &all,
            };
            assert_eq!(who_has(spec.name), expected, "{}", spec.name);
        }
    }

    #[test]
    fn a_tool_of_another_mode_is_refused_with_what_there_is() {
        let refusal = mode("ask").permits(ToolName::ExecuteCommand).unwrap_err();
        assert_eq!(
            refusal.to_string(),
            "The mode 'ask' does not have the tool execute_command. It has read_file, write_to_file, \
             list_files, search_files, codebase_search, list_code_definition_names, find_references, \
             go_to_definition, hover, workspace_symbols, diagnostics, code_actions, browser_action, \
             ask_followup_question, update_todo_list, switch_mode, skill, \
             fetch_instructions, attempt_completion, complete_with_failure."
        );
    }

    #[test]
    fn architect_changes_markdown_only() {
        let permits = |tool, path| mode("architect").permits_file(tool, path, Some(OWN));
        assert_eq!(permits(ToolName::ApplyDiff, "docs/plan.md"), Ok(()));
        assert_eq!(permits(ToolName::ReadFile, "src/main.rs"), Ok(()));
        for path in ["src/main.rs", "plan.md.sh", "plan.mdx", "md", "a.md\n.rs"] {
            let refusal = permits(ToolName::WriteToFile, path).unwrap_err().to_string();
            for part in ["'architect'", r"`\.md$`", path] {
                assert!(refusal.contains(part), "{refusal}");
            }
        }
    }

    #[test]
    fn a_description_that_says_only_says_it_once() {
        for (description, expected) in [
            ("Documentation files only", "change Documentation files only (pattern"),
            ("tests", "change tests only (pattern"),
            ("für ü", "change für ü only (pattern"),
            ("", "change  only (pattern"),
        ] {
            let refusal = ModeRefusal::File {
                mode: "docs".to_owned(),
                description: description.to_owned(),
                pattern: String::new(),
                path: String::new(),
            };
            assert!(refusal.to_string().contains(expected), "{refusal}");
        }
    }

    #[test]
    fn every_mode_writes_whole_files_in_its_own_task_directory() {
        for mode in BUILT_IN.iter() {
            let permits = |tool, path: &str| mode.permits_file(tool, path, Some(OWN)).is_ok();
            assert!(permits(ToolName::WriteToFile, &format!("{OWN}/notes/a.json")), "{}", mode.slug);
        }
        let ask = |path: &str| mode("ask").permits_file(ToolName::WriteToFile, path, Some(OWN));
        for path in [
            "src/main.rs",
            ".roo/tasks/20250307-09-05-ffffffff/a.md",
            ".roo/tasks/20250307-09-05-0a1b2c3dx/a.md",
            ".roo/tasks/20250307-09-05-0a1b2c3d/../../rules.md",
            OWN,
        ] {
            let refusal = ask(path).unwrap_err().to_string();
            assert!(
                refusal.contains(path) && refusal.contains(OWN) && refusal.contains("'ask'"),
                "{refusal}"
            );
        }
        // Block edits have no such grant.
        let edit = mode("architect").permits_file(ToolName::ApplyDiff, &format!("{OWN}/a.json"), Some(OWN));
        assert!(matches!(edit, Err(ModeRefusal::File { .. })));
    }

    #[test]
    fn code_changes_any_file() {
        assert_eq!(mode("code").permits_file(ToolName::WriteToFile, "src/main.rs", Some(OWN)), Ok(()));
    }

    #[test]
    fn what_is_more_than_another_mode_may_do_is_named() {
        let (architect, ask) = (mode("architect"), mode("ask"));
        assert_eq!(ask.beyond(&architect), Vec::<String>::new());
        let edits = [
            "apply_diff",
            "search_and_replace",
            "insert_content",
            "generate_image",
            "apply_code_action",
            "rename_symbol",
        ];
        let more = architect.beyond(&ask);
        assert_eq!(more[..6], edits);
        assert_eq!(more[6..], [r"changing files that match `\.md$`"]);
        let mut wide = Mode::clone(&architect);
        wide.file_restriction = None;
        wide.can_delegate_to = vec!["code".to_owned()];
        assert_eq!(wide.beyond(&architect), ["new_task", "changing any file", "delegating to code"]);
        assert_eq!(architect.beyond(&wide), Vec::<String>::new());
        let code = mode("code");
        assert_eq!(
            Mode { groups: vec![Group::Read], ..Mode::clone(&code) }.beyond(&code),
            Vec::<String>::new()
        );
    }

    #[test]
    fn an_empty_pattern_means_any_file() {
        let empty = |mode: &Mode| Mode {
            groups: vec![Group::Edit],
            file_restriction: Some(FileRestriction::new("", "all").unwrap()),
            ..Mode::clone(mode)
        };
        for slug in ["ask", "architect"] {
            let below = mode(slug);
            let more = empty(&below).beyond(&below);
            assert!(more.contains(&"changing any file".to_owned()), "{more:?}");
        }
        assert_eq!(empty(&mode("code")).beyond(&mode("code")), Vec::<String>::new());
        // Nor is a restriction that lets none pass one that lets all pass.
        let none = Mode { file_restriction: Some(FileRestriction::default()), ..empty(&mode("code")) };
        assert_eq!(mode("architect").beyond(&none).last().unwrap(), r"changing files that match `\.md$`");
    }

    #[test]
    fn a_pattern_that_is_no_regex_lets_nothing_pass() {
        assert!(FileRestriction::new("(", "nothing").is_err());
        assert!(FileRestriction::new(r"\w{900}{900}", "too much").is_err());
        assert!(!FileRestriction::default().matches("("));
    }

    #[test]
    fn classes_of_javascript_are_understood() {
        for (pattern, matching, others) in [
            (
                r"^docs/[\w-/]+\.md$",
                &["docs/a-b/c_1.md", "docs/-/x.md"][..],
                &["docs/a b.md", "src/a.md"][..],
            ),
            (r"^[\w-.]+$", &["a-b.md"], &["a/b"]),
            (r"^[\d-x]+$", &["1-x"], &["5y", "a"]),
            (r"^[a-\d]+$", &["a-1"], &["b", "A"]),
            (r"^[^\s-/]+$", &["ab"], &["a-b", "a/b", "a b"]),
            (r"^[\w-\s]+$", &["a - b"], &["a/b"]),
            (r"^[[\w]+$", &["[a"], &["]a", "-"]),
            (r"^pages/[[\w-/]+(?<!x)\.tsx$", &["pages/[id/a-b.tsx"], &["pages/id].tsx", "pages/x.tsx"]),
            (r"^[(\w-)]+\.md$", &["(a-b).md"], &["a b.md"]),
            // What JavaScript reads as a range is none wider here.
            (r"^[\d-a-z]+$", &["1-az"], &["b"]),
            (r"^[\w-&&a]+$", &["a&-"], &["/"]),
        ] {
            let restriction = FileRestriction::new(pattern, "").unwrap();
            assert_eq!(restriction.pattern(), pattern);
            let matched = |paths: &[&str]| paths.iter().filter(|path| restriction.matches(path)).count();
            assert_eq!((matched(matching), matched(others)), (matching.len(), 0), "{pattern}");
        }
        let error = |pattern: &str| FileRestriction::new(pattern, "").unwrap_err().to_string();
        let before = compiled(r"[\w-/]+(").unwrap_err().to_string();
        assert_eq!(error(r"[\w-/]+("), before.lines().last().unwrap(), "told of what was written");
    }

    proptest::proptest! {
        #[test]
        fn a_pattern_that_compiles_stays_as_it_is(pattern in r"[\[\]\\^a\-wds/|&~.(){}*?]{0,12}") {
            match (compiled(&pattern), FileRestriction::new(&pattern, "")) {
                (Ok(_), Ok(restriction)) => {
                    assert_eq!(restriction.pattern.unwrap().as_str(), pattern);
                }
                (Ok(_), Err(error)) => panic!("{pattern}: {error}"),
                (Err(_), Ok(restriction)) => {
                    let rewritten = restriction.pattern.as_ref().unwrap().as_str();
                    let plain = |pattern: &str| pattern.replace('\\', "");
                    assert_eq!(plain(rewritten), plain(&pattern));
                    assert_eq!(of_javascript(rewritten), rewritten, "and it is enough to do it once");
                    assert_eq!(restriction.pattern(), pattern);
                }
                (Err(_), Err(_)) => {}
            }
        }
    }

    #[test]
    fn a_class_of_nothing_is_not_read_as_another_one() {
        for pattern in [r"^[][\w-/]]$", r"^[^][\w-/]]$"] {
            assert!(FileRestriction::new(pattern, "").is_err(), "{pattern}");
        }
    }

    #[test]
    fn patterns_of_roo_that_look_around_are_understood_and_can_not_go_on_for_ever() {
        let no_tests = FileRestriction::new(r"^(?!.*\.test\.(js|tsx)$).*\.(js|tsx)$", "no tests").unwrap();
        assert!(no_tests.matches("src/a.js") && !no_tests.matches("src/a.test.js"));
        let endless = FileRestriction::new(r"^(?=x)(?:(x+x+)+)\1y$", "endless").unwrap();
        let begun = std::time::Instant::now();
        assert!(!endless.matches(&"x".repeat(60)));
        assert!(begun.elapsed().as_secs() < 20);
        let greedy = FileRestriction::new("(a+)+$", "greedy").unwrap();
        assert!(!greedy.matches(&format!("{}b", "a".repeat(100_000))));
    }
}
