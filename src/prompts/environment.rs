//! What is true at this moment: the tail of every request, never part of the conversation.

use std::fmt::Write as _;

use jiff::Zoned;

use crate::modes::Mode;
use crate::protocol::task::TodoItem;
use crate::text::render::exact_line;

/// More open files than this are only counted.
const OPEN_FILES: usize = 20;
/// More unsaved files than this are only counted.
const UNSAVED_FILES: usize = 200;

/// The facts. Paths are relative to their root where there is one.
#[derive(Clone, Copy, Debug)]
pub struct Environment<'a> {
    /// Files that are open.
    pub open_files: &'a [String],
    /// Open files with changes that are not on disk.
    pub unsaved_files: &'a [String],
    /// The user's present time.
    pub time: &'a Zoned,
    /// The task's mode.
    pub mode: &'a Mode,
    /// The model's name.
    pub model: &'a str,
    /// What the request has cost so far, in US dollars; none when prices are unknown.
    pub cost_usd: Option<f64>,
    /// The to-do list.
    pub todo: &'a [TodoItem],
}

/// Writes the facts. Empty lists are left out.
pub fn environment(facts: &Environment<'_>) -> String {
    let mut text = "<environment_details>\n".to_owned();
    files(&mut text, "Open Files", facts.open_files, OPEN_FILES);
    files(&mut text, "Unsaved Files", facts.unsaved_files, UNSAVED_FILES);
    section(&mut text, "Current Time", &time(facts.time));
    let cost = facts.cost_usd.map_or_else(|| "not available".to_owned(), |cost| format!("${cost:.2}"));
    section(&mut text, "Current Cost", &cost);
    let mode = format!(
        "<slug>{}</slug>\n<name>{}</name>\n<model>{}</model>",
        facts.mode.slug,
        facts.mode.name,
        exact_line(facts.model)
    );
    section(&mut text, "Current Mode", &mode);
    if !facts.todo.is_empty() {
        section(&mut text, "REMINDERS", &todo(facts.todo));
    }
    text.push_str("</environment_details>");
    text
}

fn section(text: &mut String, heading: &str, body: &str) {
    // Writing to a string can't fail.
    let _ = writeln!(text, "# {heading}\n{body}\n");
}

fn files(text: &mut String, heading: &str, files: &[String], limit: usize) {
    if files.is_empty() {
        return;
    }
    let mut lines: Vec<String> = files.iter().take(limit).map(|file| exact_line(file)).collect();
    if let Some(more) = files.len().checked_sub(limit).filter(|&more| more > 0) {
        lines.push(format!("({more} more)"));
    }
    section(text, heading, &lines.join("\n"));
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
    use crate::modes::Modes;
    use crate::protocol::task::TodoStatus;

    static CODE: std::sync::LazyLock<Modes> = std::sync::LazyLock::new(Modes::built_in);

    fn at_nine() -> Zoned {
        date(2025, 3, 7).at(9, 5, 0, 0).to_zoned(TimeZone::fixed(offset(1))).unwrap()
    }

    fn nothing(time: &Zoned) -> Environment<'_> {
        Environment {
            open_files: &[],
            unsaved_files: &[],
            time,
            mode: CODE.find("code").unwrap(),
            model: "test-model",
            cost_usd: None,
            todo: &[],
        }
    }

    #[test]
    fn every_fact_has_its_heading() {
        let todo =
            |content: &str, status| TodoItem { id: content.to_owned(), content: content.to_owned(), status };
        let text = environment(&Environment {
            open_files: &["src/main.rs".to_owned(), "src/lib.rs".to_owned()],
            unsaved_files: &["src/lib.rs".to_owned(), "a\n# Current Mode".to_owned()],
            cost_usd: Some(0.125),
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
