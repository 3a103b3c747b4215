//! `list_files`: what a directory holds.

use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::policy::{Action, CheckedCall, Gate, Permitted, Refusal, Tool, ToolCallContext};
use crate::tool_run::{Outcome, ToolContext};
use roo_catalog::ListFiles;
use roo_protocol::event::ToolStatus;
use roo_text::render::exact_line;
use roo_workspace::{FoundKind, Purpose, Resolved, Walk, WalkEntry};
use tokio::time::Instant;

/// The most entries of a list. So many directories of the first level come in addition.
const LIMIT: usize = 200;

/// Time that a list may take; what was found by then is returned.
const DEADLINE: Duration = Duration::from_secs(10);

/// Directories that a recursive list leaves out: what programs put there is rarely asked for.
const LEFT_OUT: &[&str] =
    &["__pycache__", "dist", "node_modules", "out", "Pods", "target", "tmp", "vendor", "venv"];

/// Lists a directory.
#[derive(Debug)]
struct List {
    directory: Resolved,
    /// True if it goes into directories.
    recursive: bool,
    /// Number of entries to skip.
    offset: usize,
}

impl Tool for ListFiles {
    async fn judge(self, gate: &Gate, call_context: ToolCallContext<'_>) -> Result<CheckedCall, Refusal> {
        let directory = gate.resolve(&self.path, Purpose::List)?;
        let what = format!("{} {}", self.recursive, self.offset);
        Ok(CheckedCall::from(gate.look(call_context, "List", directory, what, |directory| List {
            directory,
            recursive: self.recursive,
            offset: self.offset,
        })?))
    }
}

impl Action for List {
    fn run<'a>(self: Box<Self>, _: Permitted, context: &'a ToolContext) -> BoxFuture<'a, Outcome> {
        Box::pin(run(*self, context))
    }
}

/// Lists a directory, with what is below when `recursive`.
async fn run(List { directory, recursive, offset }: List, context: &ToolContext) -> Outcome {
    let shown = directory.display();
    if recursive && is_too_broad(&directory) {
        let text = format!(
            "{shown} is too broad for a recursive list: list it without `recursive`, or list a directory below it."
        );
        return Outcome::new(ToolStatus::Failed, text, format!("Did not list {shown}"));
    }
    let (workspace, cancel) = (context.workspace.clone(), context.cancel.clone());
    let mask = context.read_mask().await;
    let work = move || {
        let rules = workspace.rules(&directory);
        let own_name = directory.absolute().file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let leave_out: fn(&str) -> bool = match (recursive, is_left_out(own_name)) {
            (false, _) => |_| false,
            // Whoever asks for such a directory wants to see what it holds.
            (true, true) => |name| name == ".git",
            (true, false) => is_left_out,
        };
        let until = Instant::now() + DEADLINE;
        let mut entries = Vec::new();
        let mut skipped = 0;
        let mut cut = None;
        for found in (Walk { recursive, leave_out }).below(&directory, rules.clone()) {
            if cancel.is_cancelled() {
                return None;
            }
            if entries.len() == LIMIT {
                let next = offset.saturating_add(LIMIT);
                let which = match offset {
                    0 => format!("Only the first {LIMIT} entries are listed"),
                    _ => format!("The entries {} to {next} are listed", offset.saturating_add(1)),
                };
                cut = Some(format!("({which}. Use `offset` {next} to go on, or list a directory below it.)"));
                break;
            }
            if Instant::now() > until {
                cut = Some(format!(
                    "(The list is incomplete: it took more than {} seconds. List a directory below it to see more.)",
                    DEADLINE.as_secs()
                ));
                break;
            }
            match skipped < offset {
                true => skipped += 1,
                false => entries.push(found),
            }
        }
        if cut.is_some() && recursive && offset == 0 {
            // They sort behind what is listed already.
            let first_level = Walk { recursive: false, leave_out }.below(&directory, rules);
            let missing: Vec<WalkEntry> = first_level
                .filter(|found| found.kind == FoundKind::Directory && !entries.contains(found))
                .take(LIMIT)
                .collect();
            entries.extend(missing);
        }
        Some((entries, skipped, cut))
    };
    match roo_durable::spawn_blocking(work).await {
        Ok(Some((entries, skipped, cut))) => {
            let mut lines: Vec<String> = entries.iter().map(line).collect();
            if lines.is_empty() && cut.is_none() {
                lines.push(match skipped {
                    0 => "No files found.".to_owned(),
                    count => format!("There are no more entries: there are {count} in all."),
                });
            }
            lines.extend(cut);
            let summary = format!("Listed {} entries of {shown}", entries.len());
            let list = lines.join("\n");
            Outcome::new(ToolStatus::Ok, mask.masked(&list).unwrap_or(list), summary)
        }
        Ok(None) | Err(_) => {
            Outcome::new(ToolStatus::Interrupted, "The list was interrupted.", "Interrupted")
        }
    }
}

fn line(found: &WalkEntry) -> String {
    let end = if found.kind == FoundKind::Directory { "/" } else { "" };
    format!("{}{end}", exact_line(&found.path))
}

fn is_left_out(name: &str) -> bool {
    name.starts_with('.') || LEFT_OUT.contains(&name)
}

fn is_too_broad(directory: &Resolved) -> bool {
    let path = directory.absolute();
    path.parent().is_none() || std::env::home_dir().is_some_and(|home| home == path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::fixture::Fixture;
    use roo_workspace::Purpose;

    async fn list(fixture: &Fixture, name: &str, recursive: bool) -> String {
        list_from(fixture, name, recursive, 0).await
    }

    async fn list_from(fixture: &Fixture, name: &str, recursive: bool, offset: usize) -> String {
        let directory = fixture.context.workspace.resolve(name, Purpose::List).unwrap();
        let outcome = run(List { directory, recursive, offset }, &fixture.context).await;
        assert_eq!(outcome.status, ToolStatus::Ok);
        outcome.text
    }

    #[tokio::test]
    async fn an_ignore_file_that_is_a_pipe_makes_nobody_wait() {
        use rustix::fs::{CWD, FileType, Mode, mknodat};

        let fixture = Fixture::new(&[("sub/a.rs", ""), (".git/info/x", "")]);
        for name in [".gitignore", ".ignore", "sub/.gitignore", ".git/info/exclude"] {
            mknodat(CWD, fixture.path(name), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        }
        assert!(list(&fixture, ".", true).await.contains("sub/a.rs"));
    }

    #[tokio::test]
    async fn directories_come_before_what_they_hold_in_natural_order() {
        let fixture =
            Fixture::new(&[("a10.rs", ""), ("a2.rs", ""), ("B/x/y.rs", ""), ("B/.hidden", ""), ("c.rs", "")]);
        assert_eq!(list(&fixture, ".", false).await, "a2.rs\na10.rs\nB/\nc.rs");
        assert_eq!(list(&fixture, ".", true).await, "a2.rs\na10.rs\nB/\nB/.hidden\nB/x/\nB/x/y.rs\nc.rs");
        assert_eq!(list(&fixture, "B", true).await, ".hidden\nx/\nx/y.rs");
    }

    #[tokio::test]
    async fn ignored_names_do_not_appear() {
        let fixture = Fixture::new(&[
            (".gitignore", "*.log\n"),
            (".rooignore", "private/\n"),
            ("a.log", ""),
            ("a.rs", ""),
            ("private/x", ""),
            ("sub/b.log", ""),
            ("sub/private/x", ""),
            ("sub/.env", ""),
        ]);
        assert_eq!(list(&fixture, ".", true).await, ".gitignore\na.rs\nsub/\nsub/.env");
        assert_eq!(list(&fixture, "sub", false).await, ".env");
    }

    #[tokio::test]
    async fn what_a_write_has_there_for_a_moment_does_not_appear() {
        let (one, other) = (roo_durable::temporary_name(), roo_durable::temporary_name());
        let below = format!("sub/{other}");
        let fixture =
            Fixture::new(&[(&one, ""), (&below, ""), ("sub/a.tmp", ""), (".roo-lsp-notes.tmp", "")]);
        assert_eq!(list(&fixture, ".", true).await, ".roo-lsp-notes.tmp\nsub/\nsub/a.tmp");
        assert_eq!(list(&fixture, "sub", false).await, "a.tmp");
    }

    #[tokio::test]
    async fn a_recursive_list_leaves_out_what_programs_made_unless_asked_for_it() {
        let fixture = Fixture::new(&[("node_modules/p/i.js", ""), (".git/HEAD", ""), ("src/a.js", "")]);
        assert_eq!(list(&fixture, ".", true).await, "src/\nsrc/a.js");
        assert_eq!(list(&fixture, "node_modules", true).await, "p/\np/i.js");
        assert_eq!(list(&fixture, ".", false).await, ".git/\nnode_modules/\nsrc/");
    }

    #[tokio::test]
    async fn a_cut_list_is_a_beginning_and_all_directories_of_the_first_level() {
        let many: Vec<String> = (0..250).map(|number| format!("a/{number}.txt")).collect();
        let files: Vec<(&str, &str)> =
            many.iter().map(|name| (name.as_str(), "")).chain([("b/x", ""), ("z/y", "")]).collect();
        let text = list(&Fixture::new(&files), ".", true).await;
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), LIMIT + 3);
        assert_eq!(lines[..3], ["a/", "a/0.txt", "a/1.txt"]);
        assert_eq!(lines[LIMIT - 1..LIMIT + 2], ["a/198.txt", "b/", "z/"]);
        assert!(lines[LIMIT + 2].contains("first 200 entries"));
    }

    #[tokio::test]
    async fn a_flat_directory_is_listed_to_its_end_page_by_page() {
        let many: Vec<String> = (0..250).map(|number| format!("{number}/x")).collect();
        let files: Vec<(&str, &str)> = many.iter().map(|name| (name.as_str(), "")).collect();
        let fixture = Fixture::new(&files);
        let first = list(&fixture, ".", false).await;
        assert!(
            first.ends_with(
                "\n199/\n(Only the first 200 entries are listed. Use `offset` 200 to go on, or list a directory below it.)"
            ),
            "{first}"
        );
        let second = list_from(&fixture, ".", false, 200).await;
        assert!(second.starts_with("200/\n") && second.ends_with("\n249/"), "{second}");
        let below = list_from(&fixture, ".", true, 200).await;
        assert!(below.starts_with("100/\n100/x\n"), "{below}");
        assert!(below.contains("(The entries 201 to 400 are listed. Use `offset` 400 to go on"), "{below}");
        let none = list_from(&fixture, ".", false, 250).await;
        assert_eq!(none, "There are no more entries: there are 250 in all.");
    }

    #[tokio::test]
    async fn strange_names_stay_on_their_line() {
        let fixture = Fixture::new(&[("a\nb", "")]);
        assert_eq!(list(&fixture, ".", false).await, "a<U+000A>b");
        assert_eq!(list(&Fixture::new(&[]), ".", true).await, "No files found.");
    }

    #[tokio::test]
    async fn the_whole_file_system_is_not_listed() {
        let fixture = Fixture::new(&[]);
        let top = fixture.context.workspace.resolve("/", Purpose::List).unwrap();
        let list = List { directory: top, recursive: true, offset: 0 };
        assert_eq!(run(list, &fixture.context).await.status, ToolStatus::Failed);
    }
}
