//! Problems that an edit brings: the model is told of them with the edit's result, in words.
//!
//! What is known of the files before and after is compared, with lines where the edit has moved them. It comes from the editor
//! where it has the file open and reports diagnostics, else from a language server that is installed. Neither is waited
//! for beyond a few seconds.

use std::collections::BTreeMap;
use std::time::Duration;

use quick_xml::escape::partial_escape;
use tokio::time::{Instant, timeout_at};

use super::services::EngineServices;
use crate::policy::PlannedEdit;
use crate::tool_run::Outcome;
use crate::tools::code_question::{open_documents, problem_line, problems_of};
use roo_language_servers::{Document, Problem};
use roo_protocol::editor::Severity;
use roo_protocol::event::ToolStatus;
use roo_text::render::one_line;
use roo_workspace::{FileReport, Purpose, ReadAccess, Resolved};

/// Time limit for a language server, before an edit and after it.
const SERVER: Duration = Duration::from_secs(5);

/// Time limit for an editor, which checks a file when it has changed.
const EDITOR: Duration = Duration::from_secs(2);

/// The most files of an edit that are looked at.
const FILES: usize = 10;

/// The most problems that are told.
const TOLD: usize = 20;

/// The longest of them, in characters.
const LINE: usize = 400;

/// What was known of the files of an edit before it was made.
#[derive(Default)]
pub(super) struct ProblemsBefore {
    /// By name; none for a file whose problems were not known.
    files: BTreeMap<String, Option<KnownFile>>,
}

/// A file with its problems.
struct KnownFile {
    text: String,
    problems: Vec<Problem>,
    /// Number of the editor's report that they are from.
    report: u64,
}

/// Source of what is known of a file.
enum Source {
    Editor,
    Server,
}

impl ProblemsBefore {
    /// Looks at the files that an edit is about to change.
    pub(super) async fn of(edit: &PlannedEdit, services: &EngineServices) -> Self {
        let mut files = BTreeMap::new();
        let deadline = Instant::now() + SERVER;
        for (name, before, after) in edit.places().into_iter().take(FILES) {
            let Some(place) = place(name, services).filter(|_| after.is_some()) else { continue };
            let Some(source) = source(&place, services).await else { continue };
            if before.is_none() {
                let nothing = KnownFile { text: String::new(), problems: vec![], report: 0 };
                files.insert(name.to_owned(), Some(nothing));
                continue;
            }
            let known = match source {
                Source::Editor => match services.workspace.read_for_edit(&place).await {
                    Ok(text) => {
                        services.workspace.report_of(&place).map(|report| of_editor(text.text, report))
                    }
                    Err(_) => None,
                },
                Source::Server => {
                    let documents = documents_with(std::slice::from_ref(&place), services).await;
                    of_server(&place, &documents, deadline, services).await.map(|(_, known)| known)
                }
            };
            files.insert(name.to_owned(), known);
        }
        Self { files }
    }

    /// Tells the model, after the result of the edit, what became of the problems.
    pub(super) async fn tell(self, outcome: &mut Outcome, services: &EngineServices) {
        if self.files.is_empty() || outcome.status != ToolStatus::Ok || outcome.edits.is_empty() {
            return;
        }
        let deadline = Instant::now() + SERVER;
        let places: Vec<Resolved> =
            self.files.keys().filter_map(|name| self::place(name, services)).collect();
        let mut documents = None;
        let mut comparison = Comparison::default();
        for (name, before) in self.files {
            let Some(place) = place(&name, services) else { continue };
            match source(&place, services).await {
                Some(Source::Editor) => {
                    let report = before.as_ref().map_or(0, |known| known.report);
                    if let Some(after) = wait_for_editor(&place, report, services).await {
                        comparison.add(&name, "the editor", before.as_ref(), &after);
                    }
                }
                Some(Source::Server) => {
                    let documents = match &mut documents {
                        Some(documents) => documents,
                        none => none.insert(documents_with(&places, services).await),
                    };
                    if let Some((server, after)) = of_server(&place, documents, deadline, services).await {
                        comparison.add(&name, server, before.as_ref(), &after);
                    }
                }
                None => {}
            }
        }
        if let Some(text) = comparison.into_text() {
            let mask = services.gate.mask();
            outcome.text.push_str(&mask.masked(&text).unwrap_or(text));
        }
    }
}

fn place(name: &str, services: &EngineServices) -> Option<Resolved> {
    let place = services.workspace.resolve(name, Purpose::Read).ok()?;
    (services.workspace.read_access(&place) == ReadAccess::Free).then_some(place)
}

async fn source(place: &Resolved, services: &EngineServices) -> Option<Source> {
    if services.workspace.report_of(place).is_some() {
        return Some(Source::Editor);
    }
    let servers = services.gate.language_servers();
    if !servers.serve(place.absolute()) {
        return None;
    }
    let servers = std::sync::Arc::clone(servers);
    // It reads whether the workspace is trusted.
    let offered = roo_durable::spawn_blocking(move || servers.are_offered()).await;
    offered.unwrap_or(false).then_some(Source::Server)
}

fn of_editor(text: String, report: FileReport) -> KnownFile {
    let number = report.number;
    KnownFile { text, problems: problems_of(report), report: number }
}

/// Returns what an editor reports of a file once it has looked at it again; none where it doesn't.
async fn wait_for_editor(place: &Resolved, before: u64, services: &EngineServices) -> Option<KnownFile> {
    let workspace = &services.workspace;
    let deadline = Instant::now() + EDITOR;
    let mut happenings = workspace.documents().subscribe();
    loop {
        let report = workspace.report_of(place)?;
        if report.number > before {
            let text = workspace.read_for_edit(place).await.ok()?;
            return Some(of_editor(text.text, report));
        }
        if !matches!(timeout_at(deadline, happenings.changed()).await, Ok(Ok(()))) {
            return None;
        }
    }
}

/// Returns the open documents and these files, as they are.
async fn documents_with(places: &[Resolved], services: &EngineServices) -> Vec<Document> {
    let workspace = &services.workspace;
    let mut documents = open_documents(workspace);
    for place in places {
        if let Ok(read) = workspace.read_for_edit(place).await {
            documents.retain(|document| document.path != place.absolute());
            documents.push(Document { path: place.absolute().to_owned(), text: read.text.into() });
        }
    }
    documents
}

/// Returns what a language server finds in one of these documents, with the others open.
async fn of_server(
    place: &Resolved,
    documents: &[Document],
    deadline: Instant,
    services: &EngineServices,
) -> Option<(&'static str, KnownFile)> {
    let document = documents.iter().find(|document| document.path == place.absolute())?.clone();
    let text = document.text.to_string();
    let left = deadline.saturating_duration_since(Instant::now());
    let servers = services.gate.language_servers();
    let (server, problems) = servers.problems_within(document, documents.to_vec(), left).await?;
    Some((server, KnownFile { text, problems, report: 0 }))
}

/// Comparison of the problems of all files.
#[derive(Default)]
struct Comparison {
    sources: Vec<&'static str>,
    /// Lines about problems that are new, or may be.
    told: Vec<String>,
    new: usize,
    /// Number of problems in files of which nothing was known before.
    undated: usize,
    gone: usize,
    left: usize,
}

impl Comparison {
    fn add(&mut self, name: &str, source: &'static str, before: Option<&KnownFile>, after: &KnownFile) {
        if !self.sources.contains(&source) {
            self.sources.push(source);
        }
        let (old_problems, old_text) = match before {
            Some(before) => (before.problems.as_slice(), before.text.as_str()),
            None => (&[][..], after.text.as_str()),
        };
        let delta = Delta::between((old_text, old_problems), (&after.text, &after.problems));
        match before {
            Some(_) => self.new += delta.new.len(),
            None => self.undated += delta.new.len(),
        }
        self.told.extend(delta.new.into_iter().map(|problem| one_line(&problem_line(name, problem), LINE)));
        self.gone += delta.gone;
        self.left += delta.left;
    }

    /// Returns the text for the model; none where nobody could tell anything.
    fn into_text(self) -> Option<String> {
        let Self { sources, told, new, undated, gone, left } = self;
        if sources.is_empty() {
            return None;
        }
        let mut counts = vec![match (new, undated) {
            (0, 0) => "no new problems".to_owned(),
            (0, undated) => format!("{undated} that may be from before"),
            (new, 0) => format!("{new} new"),
            (new, undated) => format!("{new} new, {undated} that may be from before"),
        }];
        counts.extend((gone > 0).then(|| format!("{gone} gone")));
        counts.extend((left > 0).then(|| format!("{left} as before")));
        let mut text = format!("\n<problems by=\"{}\">\n{}\n", sources.join(", "), counts.join(", "));
        for problem in told.iter().take(TOLD) {
            text.push_str(&format!("{}\n", partial_escape(problem.as_str())));
        }
        if told.len() > TOLD {
            text.push_str(&format!("({} more)\n", told.len() - TOLD));
        }
        text.push_str("</problems>");
        Some(text)
    }
}

/// Difference between the problems before an edit and after it.
struct Delta<'a> {
    new: Vec<&'a Problem>,
    gone: usize,
    left: usize,
}

impl<'a> Delta<'a> {
    /// Compares errors and warnings. A problem stays one where its line was moved or changed.
    fn between((before, old): (&str, &[Problem]), (after, now): (&str, &'a [Problem])) -> Self {
        let counts = |problem: &&Problem| problem.severity <= Severity::Warning;
        let moved = MovedLines::between(before, after);
        let mut old: Vec<&Problem> = old.iter().filter(counts).collect();
        let mut left = 0;
        let mut new: Vec<&Problem> = now.iter().filter(counts).collect();
        let is_same =
            |one: &Problem, other: &Problem| one.severity == other.severity && one.message == other.message;
        // First those in lines that stayed, so that one that comes again elsewhere is not taken for them.
        for in_changed_lines in [false, true] {
            new.retain(|problem| {
                let found = old.iter().position(|known| {
                    let line = moved.line(known.line);
                    let fits = if in_changed_lines { line.is_none() } else { line == Some(problem.line) };
                    fits && is_same(known, problem)
                });
                if let Some(index) = found {
                    old.swap_remove(index);
                    left += 1;
                }
                found.is_none()
            });
        }
        Self { new, gone: old.len(), left }
    }
}

/// Lines that an edit left as they were, before and behind what it changed.
struct MovedLines {
    /// Number of lines that are the same at the beginning.
    begin: usize,
    /// Number of the first line, from 1, that is the same up to the end.
    end: usize,
    before: usize,
    after: usize,
}

impl MovedLines {
    fn between(before: &str, after: &str) -> Self {
        let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
        let begin = old.iter().zip(&new).take_while(|(one, other)| one == other).count();
        let rest = old.len().min(new.len()) - begin;
        let same = old.iter().rev().zip(new.iter().rev()).take(rest);
        let end = same.take_while(|(one, other)| one == other).count();
        Self { begin, end: old.len() - end + 1, before: old.len(), after: new.len() }
    }

    /// The line after the edit; none for one that it changed.
    fn line(&self, line: usize) -> Option<usize> {
        if line <= self.begin {
            Some(line)
        } else if line >= self.end {
            (line + self.after).checked_sub(self.before)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn problem(line: usize, message: &str) -> Problem {
        Problem { line, column: 1, severity: Severity::Error, message: message.to_owned() }
    }

    fn delta(before: (&str, &[Problem]), after: (&str, &[Problem])) -> (Vec<usize>, usize, usize) {
        let Delta { new, gone, left } = Delta::between(before, after);
        (new.into_iter().map(|problem| problem.line).collect(), gone, left)
    }

    #[test]
    fn a_problem_that_was_moved_or_whose_line_changed_is_not_new() {
        let (before, after) = ("a\nb\nc\n", "a\nx\ny\nb2\nc\n");
        let old = [problem(1, "p"), problem(2, "q"), problem(3, "r"), problem(3, "fixed")];
        let now = [problem(1, "p"), problem(2, "new"), problem(4, "q"), problem(5, "r")];
        assert_eq!(delta((before, &old), (after, &now)), (vec![2], 1, 3));
        assert_eq!(delta((before, &old), (before, &old)), (vec![], 0, 4));
    }

    #[test]
    fn a_problem_that_comes_again_elsewhere_is_new() {
        let old = [problem(1, "p")];
        let now = [problem(1, "p"), problem(2, "p")];
        assert_eq!(delta(("a\n", &old), ("a\nb\n", &now)), (vec![2], 0, 1));
        let shorter = delta(("a\nb\nc\n", &[problem(3, "p")]), ("c\n", &[problem(1, "p")]));
        assert_eq!(shorter, (vec![], 0, 1));
    }

    #[test]
    fn hints_are_not_told() {
        let hint = Problem { severity: Severity::Hint, ..problem(1, "could be shorter") };
        assert_eq!(delta(("a", &[]), ("b", &[hint])), (vec![], 0, 0));
    }

    #[test]
    fn the_model_reads_counts_and_new_problems() {
        let mut comparison = Comparison::default();
        assert_eq!(Comparison::default().into_text(), None);
        let file = |text: &str, problems| KnownFile { text: text.to_owned(), problems, report: 0 };
        let before = file("a\nb\n", vec![problem(2, "gone")]);
        let after = file("a\nc\n", vec![problem(2, "</problems>")]);
        comparison.add("a.py", "pyright-langserver", Some(&before), &after);
        assert_eq!(
            comparison.into_text().unwrap(),
            "\n<problems by=\"pyright-langserver\">\n1 new, 1 gone\na.py:2:1 error: &lt;/problems&gt;\n</problems>"
        );
        let mut clean = Comparison::default();
        clean.add("a.py", "pyright-langserver", None, &file("", vec![]));
        assert_eq!(
            clean.into_text().unwrap(),
            "\n<problems by=\"pyright-langserver\">\nno new problems\n</problems>"
        );
        let mut undated = Comparison::default();
        undated.add("a.py", "pyright-langserver", None, &file("a\n", vec![problem(1, "p")]));
        assert_eq!(
            undated.into_text().unwrap(),
            "\n<problems by=\"pyright-langserver\">\n1 that may be from before\na.py:1:1 error: p\n</problems>"
        );
    }
}
