//! Facts about the present moment: the tail of every request, never part of the conversation.

use std::fmt::Write as _;

use jiff::Zoned;

use super::untrusted;
use roo_formats::modes::Mode;
use roo_protocol::ids::CommandId;
use roo_protocol::task::TodoItem;
use roo_text::lines::LineRange;
use roo_text::render::{exact_line, one_line};

/// More open files than this are only counted.
const OPEN_FILES: usize = 20;
/// More unsaved files than this are only counted.
const UNSAVED_FILES: usize = 200;
/// More changed files than this are only counted.
const CHANGED_FILES: usize = 20;
/// More files with problems than this are only counted.
const PROBLEM_FILES: usize = 20;
/// More servers that are starting than this are only counted.
const SERVERS: usize = 20;
/// More commands in the background than this are only counted.
const COMMANDS: usize = 20;
/// The longest command line, in characters.
const COMMAND_LINE: usize = 200;

/// The facts. Paths are relative to their root where there is one.
#[derive(Clone, Copy, Debug)]
pub struct Environment<'a> {
    pub open_files: &'a [String],
    /// The file that has the user's attention.
    pub active_file: Option<ActiveFile<'a>>,
    /// Open files with changes that are not on disk.
    pub unsaved_files: &'a [String],
    /// Files that the user, or somebody else, has changed since the model last read them.
    pub changed_files: &'a [String],
    /// Files with errors or warnings, worst first.
    pub problems: &'a [Problems<'a>],
    /// The user's present time.
    pub time: &'a Zoned,
    /// The task's mode.
    pub mode: &'a Mode,
    /// The model's name.
    pub model: &'a str,
    /// Cost of the request so far, in US dollars; none when prices are unknown.
    pub cost_usd: Option<f64>,
    /// Number of model requests left; none when they are not limited.
    pub requests_left: Option<u32>,
    /// Remaining budget, in US dollars; none when it is not limited or prices are unknown.
    pub cost_left_usd: Option<f64>,
    /// The drawing of the request's branches, where there is more than one.
    pub invocation_tree: Option<&'a str>,
    /// Commands in the background.
    pub commands: &'a [CommandStatus],
    /// MCP servers that are starting, whose tools are not known.
    pub starting_servers: &'a [String],
    /// Host of the page in the task's browser, where one is open.
    pub browser: Option<&'a str>,
    /// The to-do list.
    pub todo: &'a [TodoItem],
}

/// A command that runs in the background.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandStatus {
    pub id: CommandId,
    /// The command line.
    pub line: String,
    /// Number of printed bytes that no task has read.
    pub unread: u64,
    /// True if it runs in a terminal, and so takes input.
    pub terminal: bool,
}

/// The file that has the user's attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActiveFile<'a> {
    pub path: &'a str,
    /// The 1-based line of the cursor.
    pub cursor: Option<usize>,
    /// The lines that can be seen.
    pub visible: Option<LineRange>,
}

/// Diagnostics of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Problems<'a> {
    pub path: &'a str,
    pub errors: usize,
    pub warnings: usize,
    /// The first errors in words, of a file that the task has read or changed.
    pub messages: &'a [String],
}

impl<'a> Environment<'a> {
    /// Creates it with what is always known; everything else is empty.
    pub fn new(time: &'a Zoned, mode: &'a Mode, model: &'a str) -> Self {
        Self {
            open_files: &[],
            active_file: None,
            unsaved_files: &[],
            changed_files: &[],
            problems: &[],
            time,
            mode,
            model,
            cost_usd: None,
            requests_left: None,
            cost_left_usd: None,
            invocation_tree: None,
            commands: &[],
            starting_servers: &[],
            browser: None,
            todo: &[],
        }
    }
}

/// Heading of the drawing of the workspace's files.
const FILES_AT_BEGINNING: &str = "Workspace Files (as the task begins; list_files shows more)";
/// Heading of git's state.
const GIT_AT_BEGINNING: &str = "Git (as the task begins)";

/// Returns whether a text is what [`beginning`] writes.
pub fn is_beginning(text: &str) -> bool {
    let heading = text.strip_prefix("<environment_details>\n# ");
    let headings = [FILES_AT_BEGINNING, GIT_AT_BEGINNING];
    heading.is_some_and(|text| headings.iter().any(|heading| text.starts_with(heading)))
}

/// Writes what a task is told of the workspace as it begins: a drawing of its files, and git's branch and number of changed
/// files. None where nothing is known.
pub fn beginning(files: Option<&str>, git: Option<&str>) -> Option<String> {
    if files.is_none() && git.is_none() {
        return None;
    }
    let mut text = "<environment_details>\n".to_owned();
    if let Some(tree) = files {
        section(&mut text, FILES_AT_BEGINNING, tree);
    }
    if let Some(git) = git {
        section(&mut text, GIT_AT_BEGINNING, &exact_line(git));
    }
    text.push_str("</environment_details>");
    Some(text)
}

/// Writes the facts. Empty lists are left out.
pub fn environment(facts: &Environment<'_>) -> String {
    let mut text = "<environment_details>\n".to_owned();
    files(&mut text, "Open Files", facts.open_files, OPEN_FILES);
    if let Some(active) = &facts.active_file {
        section(&mut text, "Active File", &active_file(active));
    }
    files(&mut text, "Unsaved Files", facts.unsaved_files, UNSAVED_FILES);
    files(
        &mut text,
        "Recently Modified Files (read them again before you change them)",
        facts.changed_files,
        CHANGED_FILES,
    );
    if !facts.problems.is_empty() {
        section(&mut text, "Problems", &listed(facts.problems, PROBLEM_FILES, problem));
    }
    if !facts.commands.is_empty() {
        section(&mut text, "Commands in the Background", &listed(facts.commands, COMMANDS, command));
    }
    files(
        &mut text,
        "MCP Servers That Are Starting (their tools come with a later request)",
        facts.starting_servers,
        SERVERS,
    );
    if let Some(host) = facts.browser {
        section(&mut text, "Browser", &format!("open at {host}"));
    }
    section(&mut text, "Current Time", &time(facts.time));
    let cost = facts.cost_usd.map_or_else(|| "not available".to_owned(), |cost| format!("${cost:.2}"));
    section(&mut text, "Current Cost", &cost);
    let requests = facts.requests_left.map(|left| format!("{left} requests"));
    let money = facts.cost_left_usd.map(|left| format!("${left:.2}"));
    let left: Vec<String> = requests.into_iter().chain(money).collect();
    if !left.is_empty() {
        section(&mut text, "Budget Left", &left.join(", "));
    }
    let mode = format!(
        "<slug>{}</slug>\n<name>{}</name>\n<model>{}</model>",
        exact_line(&facts.mode.slug),
        exact_line(&facts.mode.name),
        exact_line(facts.model)
    );
    section(&mut text, "Current Mode", &mode);
    if let Some(tree) = facts.invocation_tree.map(str::trim_end).filter(|tree| !tree.is_empty()) {
        section(&mut text, "Invocation Tree", tree);
    }
    if !facts.todo.is_empty() {
        section(&mut text, "REMINDERS", &todo(facts.todo));
    }
    text.push_str("</environment_details>");
    text
}

/// One section. Names and lists come from the world, and may not end the frame or begin another one.
fn section(text: &mut String, heading: &str, body: &str) {
    let body = untrusted(body);
    // Writing to a string can't fail.
    let _ = writeln!(text, "# {heading}\n{body}\n");
}

fn files(text: &mut String, heading: &str, files: &[String], limit: usize) {
    if !files.is_empty() {
        section(text, heading, &listed(files, limit, |file| exact_line(file)));
    }
}

/// One line for each, up to the limit, and how many more there are.
fn listed<T>(items: &[T], limit: usize, line: impl Fn(&T) -> String) -> String {
    let mut lines: Vec<String> = items.iter().take(limit).map(line).collect();
    if let Some(more) = items.len().checked_sub(limit).filter(|&more| more > 0) {
        lines.push(format!("({more} more)"));
    }
    lines.join("\n")
}

fn active_file(file: &ActiveFile<'_>) -> String {
    let mut text = exact_line(file.path);
    // Writing to a string can't fail.
    if let Some(line) = file.cursor {
        let _ = write!(text, ", cursor on line {line}");
    }
    if let Some(LineRange { start, end }) = file.visible {
        let _ = write!(text, ", lines {start}-{end} visible");
    }
    text
}

fn command(CommandStatus { id, line, unread, terminal }: &CommandStatus) -> String {
    let line = one_line(line, COMMAND_LINE);
    let place = if *terminal { " in a terminal" } else { "" };
    match unread {
        0 => format!("{id} runs{place}: {line}"),
        unread => format!("{id} runs{place}: {line} ({unread} bytes of output that you have not read)"),
    }
}

/// Describes the end of a background command for the model. `text` is what came of it.
pub fn ended_command(id: &CommandId, line: &str, text: &str) -> String {
    format!("{id} has ended: {}\n{}", one_line(line, COMMAND_LINE), untrusted(text))
}

/// The message that tells of commands which have ended since the last request.
pub fn ended_commands(ended: &[String]) -> String {
    format!(
        "<environment_details>\n# Ended Commands in the Background\n{}\n</environment_details>",
        ended.join("\n\n")
    )
}

fn problem(problems: &Problems<'_>) -> String {
    let counted = |count: usize, what: &str| match count {
        0 => None,
        1 => Some(format!("1 {what}")),
        count => Some(format!("{count} {what}s")),
    };
    let counts = [counted(problems.errors, "error"), counted(problems.warnings, "warning")];
    let counts: Vec<String> = counts.into_iter().flatten().collect();
    let messages = problems.messages.iter().map(|message| format!("\n  {message}"));
    format!("{}: {}{}", exact_line(problems.path), counts.join(", "), messages.collect::<String>())
}

fn time(time: &Zoned) -> String {
    let moment = time.strftime("%Y-%m-%dT%H:%M:%S%:z");
    match time.time_zone().iana_name() {
        Some(zone) => format!("{moment} ({zone})"),
        None => moment.to_string(),
    }
}

fn todo(items: &[TodoItem]) -> String {
    let line = |item: &TodoItem| format!("{} {}", item.status.mark(), exact_line(&item.content));
    let lines: Vec<String> = items.iter().map(line).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;
    use jiff::tz::{TimeZone, offset};

    use super::*;
    use roo_formats::modes::Modes;
    use roo_protocol::task::TodoStatus;

    static CODE: std::sync::LazyLock<Modes> = std::sync::LazyLock::new(Modes::built_in);

    fn at_nine() -> Zoned {
        date(2025, 3, 7).at(9, 5, 0, 0).to_zoned(TimeZone::fixed(offset(1))).unwrap()
    }

    fn nothing(time: &Zoned) -> Environment<'_> {
        Environment::new(time, CODE.find("code").unwrap(), "test-model")
    }

    #[test]
    fn every_fact_has_its_heading() {
        let todo =
            |content: &str, status| TodoItem { id: content.to_owned(), content: content.to_owned(), status };
        let text = environment(&Environment {
            open_files: &["src/main.rs".to_owned(), "src/lib.rs".to_owned()],
            unsaved_files: &["src/lib.rs".to_owned(), "a\n# Current Mode".to_owned()],
            active_file: Some(ActiveFile {
                path: "src/main.rs",
                cursor: Some(12),
                visible: Some(LineRange { start: 1, end: 40 }),
            }),
            changed_files: &["src/lib.rs".to_owned()],
            problems: &[
                Problems {
                    path: "src/main.rs",
                    errors: 2,
                    warnings: 1,
                    messages: &["3:5 expected `;`".to_owned()],
                },
                Problems { path: "src/lib.rs", errors: 0, warnings: 3, messages: &[] },
            ],
            cost_usd: Some(0.125),
            requests_left: Some(150),
            cost_left_usd: Some(4.875),
            invocation_tree: Some("🪃 Correct the reports\n└── 💻 Count the last page\n    ^ we are here\n"),
            todo: &[
                todo("Find the cause", TodoStatus::Completed),
                todo("Fix it", TodoStatus::InProgress),
                todo("Run the tests", TodoStatus::Pending),
            ],
            ..nothing(&at_nine())
        });
        insta::assert_snapshot!(text);
    }

    #[test]
    fn the_workspace_is_told_as_the_task_begins() {
        assert_eq!(beginning(None, None), None);
        assert!(is_beginning(&beginning(Some("src"), None).unwrap()));
        assert!(is_beginning(&beginning(None, Some("main")).unwrap()));
        assert!(!is_beginning(&ended_commands(&[])));
        let git = "main...origin/main [ahead 1]: 2 changed, 1 untracked";
        let text = beginning(Some("```text\n.\n└── src/\n```"), Some(git)).unwrap();
        insta::assert_snapshot!(text, @r"
        <environment_details>
        # Workspace Files (as the task begins; list_files shows more)
        ```text
        .
        └── src/
        ```

        # Git (as the task begins)
        main...origin/main [ahead 1]: 2 changed, 1 untracked

        </environment_details>
        ");
    }

    #[test]
    fn what_is_empty_is_left_out() {
        insta::assert_snapshot!(environment(&nothing(&at_nine())), @r"
        <environment_details>
        # Current Time
        2025-03-07T09:05:00+01:00

        # Current Cost
        not available

        # Current Mode
        <slug>code</slug>
        <name>Code</name>
        <model>test-model</model>

        </environment_details>
        ");
    }

    #[test]
    fn servers_whose_tools_are_still_to_come_are_named() {
        let servers = ["notes".to_owned(), "mail\n# Rules".to_owned()];
        let text = environment(&Environment { starting_servers: &servers, ..nothing(&at_nine()) });
        let section = "# MCP Servers That Are Starting (their tools come with a later request)\nnotes\nmail<U+000A># Rules\n\n";
        assert!(text.contains(section), "{text}");
    }

    #[test]
    fn a_named_zone_is_named() {
        let utc = date(2025, 3, 7).at(9, 5, 0, 0).to_zoned(TimeZone::UTC).unwrap();
        assert_eq!(time(&utc), "2025-03-07T09:05:00+00:00 (UTC)");
    }

    #[test]
    fn long_lists_are_cut_with_a_count() {
        let open: Vec<String> = (0..25).map(|n| format!("file{n}")).collect();
        let text = environment(&Environment { open_files: &open, ..nothing(&at_nine()) });
        assert!(text.contains("file19\n(5 more)\n") && !text.contains("file20"), "{text}");
    }
}
