//! Questions about a symbol to the language servers, for the tools that ask them.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::policy::{Action, CheckedCall, Gate, Permitted, Refusal, ToolCallContext};
use crate::tool_run::{Outcome, ToolContext};
use roo_catalog::SymbolAt;
use roo_language_servers::{Answer, Document, LanguageServers, Location, Place, Question};
use roo_protocol::event::ToolStatus;
use roo_text::render::{exact_line, one_line};
use roo_workspace::{Contents, Purpose, ReadAccess, Resolved, Workspace};

/// The most lines of a result.
const LINES: usize = 100;

/// The longest line of source, in characters.
const LINE: usize = 200;

/// The most documents of an editor that a server is shown.
const DOCUMENTS: usize = 50;

/// A question about a symbol.
#[derive(Debug)]
struct SymbolQuestion {
    servers: Arc<LanguageServers>,
    question: Question,
    place: Resolved,
    symbol: SymbolAt,
    offset: usize,
}

/// Judges a question as a look at the file that has the symbol.
pub(super) fn judge(
    gate: &Gate,
    call_context: ToolCallContext<'_>,
    question: Question,
    symbol: SymbolAt,
    offset: usize,
) -> Result<CheckedCall, Refusal> {
    let place = gate.resolve(&symbol.path, Purpose::Read)?;
    let servers = Arc::clone(gate.language_servers());
    let title = match question {
        Question::References => "Find references from",
        Question::Definition => "Find a definition from",
        Question::Hover => "Ask about a symbol of",
    };
    let what = format!("{} {} {offset}", symbol.line, symbol.name);
    let ask = |place| SymbolQuestion { servers, question, place, symbol, offset };
    Ok(CheckedCall::from(gate.look(call_context, title, place, what, ask)?))
}

impl Action for SymbolQuestion {
    fn run<'a>(self: Box<Self>, _: Permitted, context: &'a ToolContext) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let summary =
                format!("Did not find {} in {}", one_line(&self.symbol.name, LINE), self.place.display());
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

impl SymbolQuestion {
    async fn ask(&self, context: &ToolContext) -> Result<Outcome, String> {
        let workspace = &context.workspace;
        let text = match workspace.read(&self.place).await {
            Ok(Contents::Text(text)) => text.text,
            Ok(Contents::Binary { .. }) => {
                return Err(format!("{} is not a text file.", self.place.display()));
            }
            Err(error) => return Err(error.to_string()),
        };
        let mask = context.mask();
        let offset =
            find_symbol(&text, &self.symbol).map_err(|reason| mask.masked(&reason).unwrap_or(reason))?;
        let document = Document { path: self.place.absolute().to_owned(), text: text.as_str().into() };
        let place = Place { document, offset };
        let others = open_documents(workspace);
        let answer = self.servers.ask(self.question, &place, &others, &context.cancel).await;
        let (name, shown) = (one_line(&self.symbol.name, LINE), self.place.display());
        match answer.map_err(|error| error.to_string())? {
            Answer::Text(text) if text.is_empty() => Ok(Outcome::new(
                ToolStatus::Ok,
                format!("Nothing is known of {name}."),
                format!("{name} in {shown}"),
            )),
            Answer::Text(text) => {
                let text = mask.masked(&text).unwrap_or(text);
                Ok(Outcome::new(ToolStatus::Ok, text, format!("{name} in {shown}")))
            }
            Answer::Locations(locations) => {
                let count = locations.len();
                let summary = match count {
                    1 => format!("1 place of {name}"),
                    _ => format!("{count} places of {name}"),
                };
                let text = list(&locations, self.offset, context).await;
                Ok(Outcome::new(ToolStatus::Ok, text, summary))
            }
        }
    }
}

/// The byte offset of a symbol in its line: where it stands as a word of its own, else where it first occurs.
fn find_symbol(text: &str, symbol: &SymbolAt) -> Result<usize, String> {
    let mut start = 0;
    let Some(line) = text.split_inclusive('\n').nth(symbol.line - 1) else {
        let count = text.lines().count();
        return Err(format!(
            "{} has no line {}: it ends at line {count}.",
            exact_line(&symbol.path),
            symbol.line
        ));
    };
    for before in text.split_inclusive('\n').take(symbol.line - 1) {
        start += before.len();
    }
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
fn open_documents(workspace: &Workspace) -> Vec<Document> {
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
    for (place, numbers) in lists {
        let Ok(Contents::Text(text)) = workspace.read(&place).await else {
            wrong += numbers.len();
            continue;
        };
        let text = text.text;
        let mask = context.mask();
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
    let count = lines.len();
    let mut text: Vec<String> = lines.into_iter().skip(offset).take(LINES).collect();
    let next = offset.saturating_add(text.len());
    if text.is_empty() {
        text.push(if count == 0 { "Nothing found." } else { "There are no more results." }.to_owned());
    } else if next < count {
        text.push(format!("({} more: call it again with `offset` {next}.)", count - next));
    }
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
