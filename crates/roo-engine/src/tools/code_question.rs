//! Questions to the language servers, for the tools that ask them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::time::timeout;

use crate::policy::{Action, CheckedCall, Gate, Permitted, Refusal, ToolCallContext};
use crate::tool_run::{Outcome, ToolContext};
use roo_catalog::SymbolAt;
use roo_language_servers::{
    Answer, CodeAction, Document, LanguageServers, Location, Place, Problem, Question, Reply, Symbol,
};
use roo_protocol::code::{
    CodeAskParams, CodeAskResult, CodePlace, CodeQuestionKind, CodeSymbol, OfferedCodeAction,
};
use roo_protocol::editor::Severity;
use roo_protocol::event::ToolStatus;
use roo_text::render::{counted, exact_line, one_line};
use roo_workspace::{Contents, Diagnostic, FileReport, Purpose, ReadAccess, Resolved, Workspace, path_of};

/// The most lines of a result.
const LINES: usize = 100;

/// The longest line of source, in characters.
const LINE: usize = 200;

/// The most places or symbols of an editor's answer.
const ANSWERED: usize = 5000;

/// The most actions of an editor's answer.
const ACTIONS: usize = 50;

/// The most bytes that are shown of an editor's text.
const TEXT: usize = 16 << 10;

/// Time limit for an editor's language servers.
pub(super) const EDITOR: Duration = Duration::from_secs(20);

/// The most documents of an editor that a server is shown.
const DOCUMENTS: usize = 50;

/// What a question is about.
#[derive(Clone, Debug)]
pub(super) enum About {
    /// A symbol in a line of the file.
    Symbol(SymbolAt),
    /// A line of the file, from 1.
    Line(usize),
    /// The file, or the project around it.
    File,
}

impl About {
    /// Byte offset in the file's text, or why there is no such place.
    pub(super) fn offset(&self, path: &str, text: &str) -> Result<usize, String> {
        match self {
            Self::Symbol(symbol) => find_symbol(text, symbol),
            Self::Line(line) => line_start(path, text, *line),
            Self::File => Ok(0),
        }
    }

    /// Returns what people read of it.
    fn name(&self) -> String {
        match self {
            Self::Symbol(symbol) => one_line(&symbol.name, LINE),
            Self::Line(line) => format!("line {line}"),
            Self::File => "the file".to_owned(),
        }
    }
}

/// A question to a language server.
#[derive(Debug)]
struct CodeQuestion {
    servers: Arc<LanguageServers>,
    question: Question,
    place: Resolved,
    about: About,
    /// Number of results to skip.
    skip: usize,
}

/// Judges a question as a look at the file that it is about.
pub(super) fn judge(
    gate: &Gate,
    call_context: ToolCallContext<'_>,
    question: Question,
    (path, about): (&str, About),
    skip: usize,
) -> Result<CheckedCall, Refusal> {
    let place = gate.resolve(path, Purpose::Read)?;
    let servers = Arc::clone(gate.language_servers());
    let title = match question {
        Question::References => "Find references from",
        Question::Definition => "Find a definition from",
        Question::Hover => "Ask about a symbol of",
        Question::Problems | Question::CheckedProblems => "Find the problems of",
        Question::Actions => "Find fixes for",
        Question::Symbols(_) => "Find symbols of the project of",
        // What changes files is judged by `code_edit.rs`.
        Question::Rename(_) | Question::Action(_) => "Ask about",
    };
    let what = format!("{about:?} {question:?} {skip}");
    let ask = |place| CodeQuestion { servers, question, place, about, skip };
    Ok(CheckedCall::from(gate.look(call_context, title, place, what, ask)?))
}

impl Action for CodeQuestion {
    fn run<'a>(self: Box<Self>, _: Permitted, context: &'a ToolContext) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let summary = format!("Found nothing about {} in {}", self.about.name(), self.place.display());
            match self.ask(context).await {
                Ok(outcome) => outcome,
                Err(_) if context.cancel.is_cancelled() => {
                    Outcome::new(ToolStatus::Interrupted, "The question was interrupted.", "Interrupted")
                }
                Err(reason) => Outcome::new(ToolStatus::Failed, reason, summary),
            }
        })
    }
}

impl CodeQuestion {
    async fn ask(&self, context: &ToolContext) -> Result<Outcome, String> {
        let workspace = &context.workspace;
        let text = match workspace.read(&self.place).await {
            Ok(Contents::Text(text)) => text.text,
            Ok(Contents::Binary { .. }) => {
                return Err(format!("{} is not a text file.", self.place.display()));
            }
            Err(error) => return Err(error.to_string()),
        };
        let (mask, shown) = (context.read_mask().await, self.place.display());
        let offset =
            self.about.offset(&shown, &text).map_err(|reason| mask.masked(&reason).unwrap_or(reason))?;
        let document = Document { path: self.place.absolute().to_owned(), text: text.as_str().into() };
        let place = Place { document, offset };
        let in_editor = context.cancel.run_until_cancelled(self.ask_editor(workspace, (&text, offset)));
        let reply = match in_editor.await.flatten() {
            Some(reply) => reply,
            None => {
                let others = open_documents(workspace);
                let reply = self.servers.ask(self.question.clone(), &place, &others, &context.cancel).await;
                reply.map_err(|error| error.to_string())?
            }
        };
        let notes = notes(&reply).map(|note| mask.masked(&note).unwrap_or(note));
        let notes: String = notes.flat_map(|note| ["\n".to_owned(), note]).collect();
        let name = self.about.name();
        let (text, summary) = match reply.answer {
            Answer::Text(text) if text.is_empty() => {
                (format!("Nothing is known of {name}."), format!("{name} in {shown}"))
            }
            Answer::Text(text) => (mask.masked(&text).unwrap_or(text), format!("{name} in {shown}")),
            Answer::Locations(locations) => {
                let summary = format!("{} of {name}", counted(locations.len(), "place"));
                (list(&locations, self.skip, context).await, summary)
            }
            Answer::Problems { found, is_cut } => {
                let text = list_problems(&found, is_cut, &shown, self.skip);
                (
                    mask.masked(&text).unwrap_or(text),
                    format!("{} in {shown}", counted(found.len(), "problem")),
                )
            }
            Answer::Actions(actions) => {
                let lines: Vec<String> = actions.iter().map(action_line).collect();
                let text = page(&lines, self.skip, "The language server offers nothing for this line.");
                (mask.masked(&text).unwrap_or(text), format!("{} for {name}", counted(lines.len(), "action")))
            }
            Answer::Symbols(symbols) => {
                let lines: Vec<String> =
                    symbols.iter().filter_map(|symbol| symbol_line(symbol, workspace)).collect();
                let text = page(&lines, self.skip, "Nothing found.");
                (mask.masked(&text).unwrap_or(text), counted(lines.len(), "symbol"))
            }
            // Only asked for by what judges an edit.
            Answer::Edit(_) => return Err("The language server proposed an edit.".to_owned()),
        };
        Ok(Outcome::new(ToolStatus::Ok, text + &notes, summary))
    }
}

impl CodeQuestion {
    /// What the language servers answer that an editor runs; none where they don't, or not in time.
    async fn ask_editor(&self, workspace: &Workspace, place: (&str, usize)) -> Option<Reply> {
        if self.question == Question::CheckedProblems {
            // It has told them unasked.
            let report = workspace.report_of(&self.place)?;
            let is_cut = report.is_cut;
            let mut problems = problems_of(report);
            problems.sort_by_key(|problem| (problem.line, problem.column));
            let answer = Answer::Problems { found: problems, is_cut };
            return Some(Reply { answer, is_loading: false, is_unchecked: false, trouble: None });
        }
        let question = for_editor(&self.question)?;
        let asked = workspace.ask_code(&self.place, place, &question);
        let answer = answer_of(question.question, timeout(EDITOR, asked).await.ok()??.result)?;
        Some(Reply { answer, is_loading: false, is_unchecked: false, trouble: None })
    }
}

/// A question as editors are asked it, but for the place; none for one that they are not asked.
pub(super) fn for_editor(question: &Question) -> Option<CodeAskParams> {
    let asked = |question| CodeAskParams { question, ..CodeAskParams::default() };
    Some(match question {
        Question::References => asked(CodeQuestionKind::References),
        Question::Definition => asked(CodeQuestionKind::Definition),
        Question::Hover => asked(CodeQuestionKind::Hover),
        Question::Actions => asked(CodeQuestionKind::Actions),
        Question::Symbols(query) => {
            CodeAskParams { query: Some(query.clone()), ..asked(CodeQuestionKind::Symbols) }
        }
        Question::Rename(name) => {
            CodeAskParams { new_name: Some(name.clone()), ..asked(CodeQuestionKind::Rename) }
        }
        Question::Action(title) => {
            CodeAskParams { title: Some(title.clone()), ..asked(CodeQuestionKind::Action) }
        }
        Question::Problems | Question::CheckedProblems => return None,
    })
}

/// The answer of an editor to a question that changes nothing; none where it has not answered this question, as one that doesn't know
/// it.
fn answer_of(kind: CodeQuestionKind, result: CodeAskResult) -> Option<Answer> {
    let CodeAskResult { places, symbols, text, actions, .. } = result;
    let location = |place: &CodePlace| Some(Location { path: path_of(&place.uri)?, line: place.line });
    Some(match kind {
        CodeQuestionKind::References | CodeQuestionKind::Definition => {
            let found: BTreeSet<Location> = places.iter().take(ANSWERED).filter_map(location).collect();
            Answer::Locations(found.into_iter().collect())
        }
        CodeQuestionKind::Symbols => {
            let symbol = |symbol: &CodeSymbol| {
                let container = symbol.container.as_deref().unwrap_or_default();
                Some(Symbol::new(&symbol.name, symbol.kind.into(), container, location(&symbol.place)?))
            };
            Answer::Symbols(symbols.iter().take(ANSWERED).filter_map(symbol).collect())
        }
        CodeQuestionKind::Hover => {
            let text = text.filter(|text| !text.trim().is_empty())?;
            Answer::Text(text[..text.floor_char_boundary(TEXT)].trim().to_owned())
        }
        // It took the question for another one.
        CodeQuestionKind::Actions if !places.is_empty() => return None,
        CodeQuestionKind::Actions => {
            let action = |it: &OfferedCodeAction| {
                CodeAction::new(&it.title, it.kind.as_deref().unwrap_or_default(), it.is_preferred)
            };
            Answer::Actions(actions.iter().take(ACTIONS).map(action).collect())
        }
        CodeQuestionKind::Rename | CodeQuestionKind::Action => return None,
    })
}

/// Why an answer may be incomplete, for the model.
fn notes(reply: &Reply) -> impl Iterator<Item = String> {
    let loading =
        "(The language server is still loading the project, so something may be missing. Ask again later.)";
    let loading = reply.is_loading.then(|| loading.to_owned());
    let unchecked = "(What only the compiler's own check finds may be missing: it has not finished, can't be made, or the file has \
                     unsaved changes.)";
    let unchecked = reply.is_unchecked.then(|| unchecked.to_owned());
    let trouble = reply.trouble.as_ref().map(|trouble| {
        format!("(The language server has a problem, so something may be missing. It says: {trouble})")
    });
    loading.into_iter().chain(unchecked).chain(trouble)
}

/// The problems that an editor has reported.
pub(crate) fn problems_of(report: FileReport) -> Vec<Problem> {
    let problem = |found: Diagnostic| Problem {
        line: found.line,
        column: found.column,
        severity: found.severity,
        message: match found.source {
            Some(source) => format!("{} ({source})", found.message),
            None => found.message,
        },
    };
    report.diagnostics.into_iter().map(problem).collect()
}

/// A problem as `path:line:column severity: message`.
pub(crate) fn problem_line(path: &str, problem: &Problem) -> String {
    let severity = match problem.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Information => "information",
        Severity::Hint => "hint",
    };
    let Problem { line, column, message, .. } = problem;
    format!("{}:{line}:{column} {severity}: {message}", exact_line(path))
}

/// One page of the problems of a file, and whether there are more than can be listed.
fn list_problems(found: &[Problem], is_cut: bool, path: &str, skip: usize) -> String {
    let lines: Vec<String> = found.iter().map(|problem| problem_line(path, problem)).collect();
    let text = page(&lines, skip, "There are no problems.");
    match is_cut {
        true => {
            let count = lines.len();
            format!("{text}\n(There are more than {count} problems. Only {count} of them can be listed.)")
        }
        false => text,
    }
}

fn action_line(action: &CodeAction) -> String {
    let kind = if action.kind.is_empty() { String::new() } else { format!(" ({})", action.kind) };
    let preferred = if action.is_preferred { ", preferred" } else { "" };
    format!("- {}{kind}{preferred}", action.title)
}

/// A symbol as `path:line kind name`; none where it is in a file that may not be read.
fn symbol_line(symbol: &Symbol, workspace: &Workspace) -> Option<String> {
    let Symbol { name, kind, container, location } = symbol;
    let place = workspace.resolve(&location.path.to_string_lossy(), Purpose::Read).ok()?;
    let may_be_named = matches!(workspace.read_access(&place), ReadAccess::Free | ReadAccess::Outside);
    let within = if container.is_empty() { String::new() } else { format!(" in {container}") };
    let line = u64::from(location.line) + 1;
    may_be_named.then(|| format!("{}:{line} {kind} {name}{within}", place.display()))
}

/// One page of lines, and how to go on.
fn page(lines: &[String], skip: usize, nothing: &str) -> String {
    let mut text: Vec<String> = lines.iter().skip(skip).take(LINES).cloned().collect();
    let next = skip.saturating_add(text.len());
    if text.is_empty() {
        text.push(if lines.is_empty() { nothing } else { "There are no more results." }.to_owned());
    } else if next < lines.len() {
        text.push(format!("({} more: call it again with `offset` {next}.)", lines.len() - next));
    }
    text.join("\n")
}

/// The byte offset at which a line begins.
fn line_start(path: &str, text: &str, line: usize) -> Result<usize, String> {
    let count = text.lines().count();
    match line > count.max(1) {
        true => Err(format!("{} has no line {line}: it ends at line {count}.", exact_line(path))),
        false => Ok(text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum()),
    }
}

/// The byte offset of a symbol in its line: where it stands as a word of its own, else where it first occurs.
fn find_symbol(text: &str, symbol: &SymbolAt) -> Result<usize, String> {
    let start = line_start(&symbol.path, text, symbol.line)?;
    let line = text.get(start..).unwrap_or_default();
    let line = line.split_inclusive('\n').next().unwrap_or_default();
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let stands_alone = |at: usize| {
        let (before, after) = (&line[..at], &line[at + symbol.name.len()..]);
        !before.ends_with(is_word) && !after.starts_with(is_word)
    };
    let mut found = line.match_indices(&symbol.name).map(|(at, _)| at);
    let first = found.next().ok_or_else(|| {
        let (name, line) = (one_line(&symbol.name, LINE), one_line(line, LINE));
        format!("Line {} of {} has no `{name}`. It is: {line}", symbol.line, exact_line(&symbol.path))
    })?;
    let word = std::iter::once(first).chain(found).find(|at| stands_alone(*at));
    Ok(start + word.unwrap_or(first))
}

/// The documents of the editor that a task may read.
pub(crate) fn open_documents(workspace: &Workspace) -> Vec<Document> {
    let may_be_read = |path: &std::path::Path| {
        let place = workspace.resolve(&path.to_string_lossy(), Purpose::Read);
        place.is_ok_and(|place| workspace.read_access(&place) == ReadAccess::Free)
    };
    let open = workspace.documents().with_files().into_iter();
    open.filter(|(path, _)| may_be_read(path))
        .take(DOCUMENTS)
        .map(|(path, document)| Document { path, text: document.text })
        .collect()
}

/// One page of the places as `path:line` with the line's text.
async fn list(locations: &[Location], offset: usize, context: &ToolContext) -> String {
    let workspace = &context.workspace;
    let (mut lines, mut hidden, mut wrong) = (vec![], 0, 0);
    let mut lists: Vec<(Resolved, Vec<u32>)> = vec![];
    for location in locations {
        let Ok(place) = workspace.resolve(&location.path.to_string_lossy(), Purpose::Read) else {
            wrong += 1;
            continue;
        };
        match workspace.read_access(&place) {
            ReadAccess::Free => match lists.last_mut() {
                Some((last, numbers)) if last.absolute() == place.absolute() => numbers.push(location.line),
                _ => lists.push((place, vec![location.line])),
            },
            // In a library, which isn't read here.
            ReadAccess::Outside => {
                lines.push(format!("{}:{}", place.display(), u64::from(location.line) + 1))
            }
            _ => hidden += 1,
        }
    }
    let mask = context.read_mask().await;
    for (place, numbers) in lists {
        let Ok(Contents::Text(text)) = workspace.read(&place).await else {
            wrong += numbers.len();
            continue;
        };
        let text = text.text;
        let mask = mask.clone();
        // Masked text has the same lines.
        let masked = roo_durable::spawn_blocking(move || mask.masked(&text).unwrap_or(text)).await;
        let Ok(text) = masked else { continue };
        let source: Vec<&str> = text.lines().collect();
        for number in numbers.into_iter().collect::<BTreeSet<_>>() {
            match usize::try_from(number).ok().and_then(|index| source.get(index)) {
                Some(line) => {
                    lines.push(format!(
                        "{}:{} | {}",
                        place.display(),
                        u64::from(number) + 1,
                        one_line(line.trim(), LINE)
                    ));
                }
                None => wrong += 1,
            }
        }
    }
    let mut text = vec![page(&lines, offset, "Nothing found.")];
    if hidden > 0 {
        text.push(format!("({hidden} in files that you may not read.)"));
    }
    if wrong > 0 {
        text.push(format!("({wrong} left out: the server named lines that are not there.)"));
    }
    text.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::fixture::Fixture;

    fn symbol(line: usize, name: &str) -> SymbolAt {
        SymbolAt { path: "a.rs".to_owned(), line, name: name.to_owned() }
    }

    #[test]
    fn a_symbol_is_found_as_a_word_of_its_line() {
        let text = "fn a() {}\r\nfn aba(b: a) { ä }\n";
        let at = |line, name: &str| find_symbol(text, &symbol(line, name));
        assert_eq!(at(1, "a"), Ok(3));
        assert_eq!(at(2, "a"), Ok(21));
        assert_eq!(at(2, "ab"), Ok(14), "a part of a word, where there is no such word");
        assert_eq!(at(2, "x").unwrap_err(), "Line 2 of a.rs has no `x`. It is: fn aba(b: a) { ä }");
        assert_eq!(at(3, "a").unwrap_err(), "a.rs has no line 3: it ends at line 2.");
    }

    #[tokio::test]
    async fn places_are_lines_of_files_that_may_be_read() {
        let fixture = Fixture::new(&[
            (".rooignore", "secret.rs\n"),
            ("a.rs", "fn a() {}\n  a();\n"),
            ("secret.rs", "a();\n"),
        ]);
        let at = |name: &str, line| Location { path: fixture.path(name), line };
        let library = Location { path: "/etc/passwd".into(), line: 2 };
        assert_eq!(list(&[library], 0, &fixture.context).await, "/etc/passwd:3", "of others no text");
        let places = [at("a.rs", 0), at("a.rs", 1), at("a.rs", 7), at("gone.rs", 0), at("secret.rs", 0)];
        let shown = list(&places, 0, &fixture.context).await;
        assert_eq!(
            shown,
            "a.rs:1 | fn a() {}\na.rs:2 | a();\n(1 in files that you may not read.)\n\
             (2 left out: the server named lines that are not there.)"
        );
        fixture.open("a.rs", "unsaved\n");
        assert_eq!(list(&places[..1], 0, &fixture.context).await, "a.rs:1 | unsaved");
        assert_eq!(list(&[], 0, &fixture.context).await, "Nothing found.");
    }

    #[test]
    fn an_answer_that_may_be_incomplete_says_why() {
        let said = |is_loading, is_unchecked, trouble: Option<&str>| {
            let trouble = trouble.map(str::to_owned);
            notes(&Reply { answer: Answer::Locations(vec![]), is_loading, is_unchecked, trouble })
                .collect::<Vec<_>>()
                .join("\n")
        };
        assert_eq!(said(false, false, None), "");
        insta::assert_snapshot!(said(true, true, Some("Failed to load Cargo.toml")), @r"
        (The language server is still loading the project, so something may be missing. Ask again later.)
        (What only the compiler's own check finds may be missing: it has not finished, can't be made, or the file has unsaved changes.)
        (The language server has a problem, so something may be missing. It says: Failed to load Cargo.toml)
        ");
    }

    #[test]
    fn many_problems_come_in_pages_and_the_end_of_the_list_is_told() {
        let problem =
            |line| Problem { line, column: 1, severity: Severity::Error, message: "wrong".to_owned() };
        let found: Vec<Problem> = (1..=200).map(problem).collect();
        let cut = "\n(There are more than 200 problems. Only 200 of them can be listed.)";
        let first = list_problems(&found, true, "a.rs", 0);
        let last = "a.rs:100:1 error: wrong\n(100 more: call it again with `offset` 100.)";
        assert!(first.ends_with(&format!("{last}{cut}")), "{first}");
        let second = list_problems(&found, true, "a.rs", 100);
        assert!(second.starts_with("a.rs:101:1 error") && second.ends_with(cut), "{second}");
        assert!(list_problems(&found, false, "a.rs", 100).ends_with("a.rs:200:1 error: wrong"));
    }

    #[tokio::test]
    async fn many_places_come_in_pages() {
        let fixture = Fixture::new(&[("a.rs", &"a();\n".repeat(150))]);
        let places: Vec<Location> =
            (0..150).map(|line| Location { path: fixture.path("a.rs"), line }).collect();
        let first = list(&places, 0, &fixture.context).await;
        assert!(first.ends_with("a.rs:100 | a();\n(50 more: call it again with `offset` 100.)"), "{first}");
        let second = list(&places, 100, &fixture.context).await;
        assert!(second.starts_with("a.rs:101 | a();\n") && second.ends_with("a.rs:150 | a();"), "{second}");
        assert_eq!(list(&places, 150, &fixture.context).await, "There are no more results.");
    }
}
