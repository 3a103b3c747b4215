//! `list_code_definition_names`: what source files define, by their syntax.

use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream;

use crate::policy::{Action, CheckedCall, Gate, Permitted, Refusal, Tool, ToolCallContext};
use crate::tool_run::{Outcome, ToolContext};
use roo_catalog::ListCodeDefinitionNames;
use roo_protocol::event::ToolStatus;
use roo_sandbox::exec::redaction::TextMask;
use roo_syntax::{definitions, is_supported};
use roo_text::render::{exact_line, one_line};
use roo_workspace::{Contents, FoundKind, Purpose, ReadAccess, Resolved, Rules, Walk};

/// The most files of a directory.
const FILES: usize = 200;

/// The most text of a result, in bytes.
const RESULT_BYTES: usize = 64 << 10;

/// Number of files that are read and parsed at once.
const AT_ONCE: usize = 4;

/// The longest line of source, in characters.
const LINE: usize = 200;

/// The most blanks before it, in bytes.
const INDENT: usize = 40;

#[derive(Debug)]
struct ListDefinitions {
    place: Resolved,
    is_directory: bool,
}

impl Tool for ListCodeDefinitionNames {
    async fn judge(self, gate: &Gate, call_context: ToolCallContext<'_>) -> Result<CheckedCall, Refusal> {
        let (place, is_directory) = match gate.resolve(&self.path, Purpose::List) {
            Ok(directory) => (directory, true),
            // A file may be in an editor only.
            Err(refusal) => (gate.resolve(&self.path, Purpose::Read).map_err(|_| refusal)?, false),
        };
        let list = |place| ListDefinitions { place, is_directory };
        Ok(CheckedCall::from(gate.look(
            call_context,
            "List the definitions of",
            place,
            String::new(),
            list,
        )?))
    }
}

impl Action for ListDefinitions {
    fn run<'a>(self: Box<Self>, _: Permitted, context: &'a ToolContext) -> BoxFuture<'a, Outcome> {
        Box::pin(run(*self, context))
    }
}

/// Lists the definitions of a file, or of the files directly in a directory: of unsaved text where an editor has it open.
async fn run(ListDefinitions { place, is_directory }: ListDefinitions, context: &ToolContext) -> Outcome {
    let shown = place.display();
    let (mut files, mut left_out) = (vec![place.clone()], 0);
    if is_directory {
        let workspace = context.workspace.clone();
        let found = roo_durable::spawn_blocking(move || files_of(&place, workspace.rules(&place))).await;
        (files, left_out) = found.unwrap_or_default();
    }
    let mut list = List::default();
    let (count, mask) = (files.len(), context.read_mask().await);
    let mask = &mask;
    let mut listed = stream::iter(files.into_iter().enumerate())
        .map(|(index, file)| async move {
            let name = file.display();
            let listed = list_file(&name, &file, mask.clone(), context).await;
            (index, name, listed)
        })
        .buffered(AT_ONCE);
    while let Some((index, name, listed)) = listed.next().await {
        if context.cancel.is_cancelled() {
            return Outcome::new(ToolStatus::Interrupted, "The list was interrupted.", "Interrupted");
        }
        if list.text.len() > RESULT_BYTES {
            left_out += count - index;
            break;
        }
        match (listed, is_directory) {
            (Ok(text), _) => list.add(&name, &text),
            (Err(reason), false) => {
                return Outcome::new(
                    ToolStatus::Failed,
                    reason,
                    format!("Did not list the definitions of {shown}"),
                );
            }
            (Err(_), true) => list.unread += 1,
        }
    }
    let summary = match list.count {
        1 => format!("1 definition in {shown}"),
        count => format!("{count} definitions in {shown}"),
    };
    Outcome::new(ToolStatus::Ok, list.into_text(left_out), summary)
}

/// The files directly in a directory whose definitions can be told, and the number of those that are too many.
fn files_of(directory: &Resolved, rules: Option<Arc<Rules>>) -> (Vec<Resolved>, usize) {
    let walk = Walk { recursive: false, leave_out: |_| false };
    let found = walk.below(directory, rules).filter(|found| {
        found.kind == FoundKind::File && found.access == ReadAccess::Free && is_supported(&found.path)
    });
    let mut files: Vec<Resolved> = found.map(|found| directory.below(&found.path)).collect();
    let left_out = files.len().saturating_sub(FILES);
    files.truncate(FILES);
    (files, left_out)
}

/// The definitions of a file as lines, or why they can't be told.
async fn list_file(
    name: &str,
    file: &Resolved,
    mask: TextMask,
    context: &ToolContext,
) -> Result<String, String> {
    let text = match context.workspace.read(file).await {
        Ok(Contents::Text(text)) => text.text,
        Ok(Contents::Binary { .. }) => return Err(format!("{} is not a text file.", exact_line(name))),
        Err(error) => return Err(error.to_string()),
    };
    let (path, named) = (name.to_owned(), exact_line(name));
    let work = move || {
        // Masked text has the same lines.
        let text = mask.masked(&text).unwrap_or(text);
        let lines: Vec<&str> = text.split('\n').collect();
        let found = definitions(&path, &text).map_err(|error| {
            format!("The definitions of {named} can't be listed: {error}. Use read_file or search_files.")
        })?;
        let mut list = String::new();
        for range in &found {
            if list.len() > RESULT_BYTES {
                list.push_str("(The list is cut off here. Use search_files to find the rest.)\n");
                break;
            }
            let line = lines.get(range.start - 1).copied().unwrap_or_default();
            let indent = (line.len() - line.trim_start_matches([' ', '\t']).len()).min(INDENT);
            let (indent, line) = line.split_at(indent);
            let line = one_line(line, LINE);
            list.push_str(&format!("{}--{} | {indent}{line}\n", range.start, range.end));
        }
        Ok(list)
    };
    roo_durable::spawn_blocking(work).await.unwrap_or_else(|error| Err(error.to_string()))
}

/// What was listed so far.
#[derive(Default)]
struct List {
    text: String,
    /// Number of the definitions.
    count: usize,
    /// Number of files whose definitions can't be told.
    unread: usize,
}

impl List {
    /// Adds the lines of a file.
    fn add(&mut self, name: &str, lines: &str) {
        if lines.is_empty() {
            return;
        }
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text.push_str(&format!("# {}\n{lines}", exact_line(name)));
        self.count += lines.lines().count();
    }

    fn into_text(mut self, left_out: usize) -> String {
        if self.text.is_empty() {
            self.text.push_str("No definitions found.\n");
        }
        match self.unread {
            0 => {}
            1 => self.text.push_str("(1 file could not be parsed.)\n"),
            count => self.text.push_str(&format!("({count} files could not be parsed.)\n")),
        }
        match left_out {
            0 => {}
            1 => self.text.push_str("(1 more file was left out: name it to see its definitions.)\n"),
            count => self
                .text
                .push_str(&format!("({count} more files were left out: name one to see its definitions.)\n")),
        }
        self.text.truncate(self.text.trim_end().len());
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::fixture::Fixture;

    async fn list(fixture: &Fixture, name: &str) -> Outcome {
        let workspace = &fixture.context.workspace;
        let (place, is_directory) = match workspace.resolve(name, Purpose::List) {
            Ok(place) => (place, true),
            Err(_) => (workspace.resolve(name, Purpose::Read).unwrap(), false),
        };
        run(ListDefinitions { place, is_directory }, &fixture.context).await
    }

    #[tokio::test]
    async fn a_file_has_its_definitions_with_their_lines() {
        let fixture = Fixture::new(&[("src/a.rs", "struct A;\n\nimpl A {\n    fn b() {}\r\n}\n")]);
        let outcome = list(&fixture, "src/a.rs").await;
        assert_eq!(outcome.text, "# src/a.rs\n1--1 | struct A;\n3--5 | impl A {\n4--4 |     fn b() {}");
        assert_eq!(outcome.summary, "3 definitions in src/a.rs");
        fixture.open("src/a.rs", "fn unsaved() {}\n");
        assert_eq!(list(&fixture, "src/a.rs").await.text, "# src/a.rs\n1--1 | fn unsaved() {}");
    }

    #[tokio::test]
    async fn a_directory_has_those_of_its_own_files_that_may_be_read() {
        let fixture = Fixture::new(&[
            (".rooignore", "secret.py\n"),
            ("a.py", "def a(): pass\n"),
            ("b.md", "# B\n"),
            ("c.txt", "c"),
            ("d.py", "d = 1\n"),
            ("secret.py", "def e(): pass\n"),
            ("sub/f.py", "def f(): pass\n"),
        ]);
        assert_eq!(list(&fixture, ".").await.text, "# a.py\n1--1 | def a(): pass\n\n# b.md\n1--1 | # B");
        assert_eq!(list(&Fixture::new(&[("a.txt", "")]), ".").await.text, "No definitions found.");
    }

    #[tokio::test]
    async fn what_can_not_be_parsed_is_told() {
        let fixture = Fixture::new(&[("a.xyz", "x"), ("b.rs", "fn b() {}\n")]);
        fixture.put("c.rs", &[b'x', 0, 1, 2]);
        let outcome = list(&fixture, "a.xyz").await;
        assert_eq!(outcome.status, ToolStatus::Failed);
        assert!(outcome.text.contains("definitions of this kind of file are not known"), "{}", outcome.text);
        assert_eq!(list(&fixture, "c.rs").await.text, "c.rs is not a text file.");
        assert_eq!(list(&fixture, ".").await.text, "# b.rs\n1--1 | fn b() {}\n(1 file could not be parsed.)");
    }

    #[tokio::test]
    async fn a_file_of_many_definitions_on_a_long_line_has_a_short_list() {
        let text = format!("{}{}\n{}", " ".repeat(400_000), "mod a{".repeat(900), "}\n".repeat(900));
        let listed = list(&Fixture::new(&[("a.rs", &text)]), "a.rs").await.text;
        assert!(listed.len() < RESULT_BYTES + 1024, "{}", listed.len());
        assert!(listed.contains("1--901 | "), "{}", &listed[..200]);
        assert!(listed.ends_with("(The list is cut off here. Use search_files to find the rest.)"));
    }

    #[tokio::test]
    async fn a_long_list_says_what_it_leaves_out() {
        let text = "fn f() {}\n".repeat(1000);
        let names: Vec<String> = (0..10).map(|number| format!("{number}.rs")).collect();
        let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), text.as_str())).collect();
        let listed = list(&Fixture::new(&files), ".").await.text;
        assert!(listed.len() < RESULT_BYTES + (32 << 10), "{}", listed.len());
        assert!(listed.ends_with("more files were left out: name one to see its definitions.)"), "{listed}");
    }
}
