//! `codebase_search`: the parts of the code that a question is about, by the index of the workspace.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use crate::policy::{Access, Action, CheckedCall, Gate, Permitted, Refusal, Tool, ToolCallContext};
use crate::tool_run::{Outcome, ToolContext};
use roo_catalog::CodebaseSearch;
use roo_index::{CodeIndex, Findings, FoundChunk, Mask, Question, SearchError};
use roo_protocol::event::ToolStatus;
use roo_text::render::{counted, cut, exact_line, one_line, visible};
use roo_workspace::{Purpose, Resolved};

/// The most chunks of a result.
const RESULTS: usize = 15;

/// The most text of a result, in bytes.
const RESULT_BYTES: usize = 24 << 10;

/// The longest line of source, in characters.
const LINE: usize = 300;

/// The most characters of a question in what is said of it.
const QUESTION: usize = 200;

/// Beginnings of the lines of a result.
const QUERY: &str = "Query: ";
const RESULTS_FOLLOW: &str = "Results:";
const PATH: &str = "File path: ";
const SCORE: &str = "Score: ";
const LINES: &str = "Lines: ";
const CODE_FOLLOWS: &str = "Code Chunk:";
const NOTHING: &str = "No code found for the query: ";

/// Searches the index.
#[derive(Debug)]
struct Search {
    /// None where there is no index.
    index: Option<Arc<CodeIndex>>,
    query: String,
    /// None for the whole workspace.
    place: Option<Resolved>,
}

impl Tool for CodebaseSearch {
    async fn judge(self, gate: &Gate, call_context: ToolCallContext<'_>) -> Result<CheckedCall, Refusal> {
        let index = gate.has_code_index().then(|| Arc::clone(gate.code_index()));
        let query = self.query;
        let title = "Search the code of";
        let Some(path) = self.path else {
            return search_all(gate, call_context, title, Search { index, query, place: None });
        };
        let place = match gate.resolve(&path, Purpose::List) {
            Ok(directory) => directory,
            // A file may be in an editor only.
            Err(refusal) => gate.resolve(&path, Purpose::Read).map_err(|_| refusal)?,
        };
        let search = |place| Search { index, query: query.clone(), place: Some(place) };
        Ok(CheckedCall::from(gate.look(call_context, title, place, query.clone(), search)?))
    }
}

/// Judges a search of all workspace folders, each of which has to be open to it.
fn search_all(
    gate: &Gate,
    call_context: ToolCallContext<'_>,
    title: &'static str,
    search: Search,
) -> Result<CheckedCall, Refusal> {
    // The index has no others.
    let paths = gate.workspace().roots().paths().filter_map(Path::to_str);
    let folders: Vec<Resolved> =
        paths.map(|path| gate.resolve(path, Purpose::List)).collect::<Result<_, _>>()?;
    let mut folders = folders.into_iter();
    let first = match folders.next() {
        Some(first) => first,
        None => gate.resolve(".", Purpose::List)?,
    };
    let query = search.query.clone();
    let mut judged = gate.look(call_context, title, first, query, |_| search)?;
    for folder in folders {
        let must_ask = gate.examine(call_context, &folder, Access::Look)?;
        judged.must_ask = judged.must_ask.or(must_ask);
        judged.subject.push_str(&format!("\n{}", visible(&folder.display())));
    }
    Ok(CheckedCall::from(judged))
}

impl Action for Search {
    fn run<'a>(self: Box<Self>, _: Permitted, context: &'a ToolContext) -> BoxFuture<'a, Outcome> {
        Box::pin(run(*self, context))
    }
}

async fn run(Search { index, query, place }: Search, context: &ToolContext) -> Outcome {
    let Some(index) = index else {
        return Outcome::failed("There is no code index here. Use search_files.");
    };
    let asked = one_line(&query, QUESTION);
    let mask = context.read_mask().await;
    let mask: Mask = Arc::new(move |text: &str| mask.masked(text));
    let tenths = AtomicUsize::new(0);
    let report = |done: usize, total: usize| {
        let now = done * 10 / total;
        if tenths.fetch_max(now, Ordering::Relaxed) < now {
            (context.output)(&format!("Indexed {done} of {total} files.\n"));
        }
    };
    let question = Question { text: query.clone(), place, limit: RESULTS };
    match index.search(question, mask, &context.cancel, &report).await {
        Ok(findings) => {
            let summary = format!("{} for {asked}", counted(findings.chunks.len(), "result"));
            Outcome::new(ToolStatus::Ok, into_text(&query, &findings), summary)
        }
        Err(SearchError::Cancelled | SearchError::Ending) => {
            Outcome::interrupted("The search was interrupted.")
        }
        Err(error) => {
            let text = format!("The code can't be searched: {error}. Use search_files.");
            Outcome::new(ToolStatus::Failed, text, format!("Did not search for {asked}"))
        }
    }
}

/// The result as a model gets it, in Roo Code's form.
fn into_text(query: &str, Findings { chunks, notes }: &Findings) -> String {
    let query = query.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut text = match chunks.is_empty() {
        true => format!("{NOTHING}{query}\n"),
        false => format!("{QUERY}{query}\n{RESULTS_FOLLOW}\n"),
    };
    let mut left_out = 0_usize;
    for chunk in chunks {
        let shown = shown(chunk);
        match text.len() + shown.len() > RESULT_BYTES {
            true => left_out += 1,
            false => text.push_str(&shown),
        }
    }
    if left_out > 0 {
        let were = if left_out == 1 { "was" } else { "were" };
        // Writing to a string can't fail.
        let _ =
            writeln!(text, "\n({} {were} left out. Name a path to see more.)", counted(left_out, "result"));
    }
    for note in notes {
        let _ = writeln!(text, "\n({note})");
    }
    text.truncate(text.trim_end().len());
    text
}

fn shown(FoundChunk { file, score, lines, text }: &FoundChunk) -> String {
    let mut shown = format!(
        "\n{PATH}{}\n{SCORE}{score:.2}\n{LINES}{}-{}\n{CODE_FOLLOWS}\n",
        exact_line(&file.display()),
        lines.start,
        lines.end
    );
    for line in text.lines() {
        shown.push_str(&cut(line, LINE));
        shown.push('\n');
    }
    shown
}

/// Reads a result as clients get it, Roo Code's `CodebaseSearchResult`; none for another text. The numbers of the lines say how
/// long a chunk is, so nothing in it is taken for a further result.
pub(crate) fn codebase_search_result(text: &str) -> Option<Value> {
    let mut lines = text.lines();
    let first = lines.next()?;
    let (query, has_results) = match first.strip_prefix(QUERY) {
        Some(query) => (query, true),
        None => (first.strip_prefix(NOTHING)?, false),
    };
    let mut results = Vec::new();
    if has_results && lines.next()? == RESULTS_FOLLOW {
        while let ("", Some(path)) = (lines.next().unwrap_or_default(), lines.next()) {
            // Notes follow the results.
            let Some(path) = path.strip_prefix(PATH) else { break };
            let score: f64 = lines.next()?.strip_prefix(SCORE)?.parse().ok()?;
            let (start, end) = lines.next()?.strip_prefix(LINES)?.split_once('-')?;
            let (start, end): (usize, usize) = (start.parse().ok()?, end.parse().ok()?);
            lines.next().filter(|line| *line == CODE_FOLLOWS)?;
            let chunk: Vec<&str> = lines.by_ref().take((end + 1).checked_sub(start)?).collect();
            results.push(json!({
                "filePath": path,
                "score": score,
                "startLine": start,
                "endLine": end,
                "codeChunk": chunk.join("\n"),
            }));
        }
    }
    Some(json!({ "tool": "codebaseSearch", "content": { "query": query, "results": results } }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::fixture::Fixture;

    const RETRY: &str = "fn retry_delay(attempt: u32) -> u64 {\n    1 << attempt\n}\n";

    fn index(fixture: &Fixture) -> Arc<CodeIndex> {
        let directory = fixture.path("../state/index");
        Arc::new(CodeIndex::new(Arc::clone(&fixture.context.workspace), directory, Arc::new(|| None)))
    }

    async fn search(fixture: &Fixture, query: &str, path: Option<&str>) -> Outcome {
        let workspace = &fixture.context.workspace;
        let place = path.map(|path| workspace.resolve(path, Purpose::List).unwrap());
        run(Search { index: Some(index(fixture)), query: query.to_owned(), place }, &fixture.context).await
    }

    #[tokio::test]
    async fn a_result_has_places_scores_and_text() {
        let fixture = Fixture::new(&[("src/net.rs", RETRY), ("a.py", "def unrelated(): pass\n")]);
        let outcome = search(&fixture, "delay of retries", None).await;
        insta::assert_snapshot!(outcome.text, @r"
        Query: delay of retries
        Results:

        File path: src/net.rs
        Score: 1.00
        Lines: 1-3
        Code Chunk:
        fn retry_delay(attempt: u32) -> u64 {
            1 << attempt
        }
        ");
        assert_eq!(outcome.summary, "1 result for delay of retries");
        let outcome = search(&fixture, "unicorns", Some("src")).await;
        assert_eq!(
            (outcome.status, outcome.text.as_str()),
            (ToolStatus::Ok, "No code found for the query: unicorns")
        );
    }

    #[tokio::test]
    async fn the_user_sees_how_far_the_index_is() {
        let names: Vec<String> = (0..600).map(|number| format!("{number}.rs")).collect();
        let text = RETRY.repeat(20);
        let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), text.as_str())).collect();
        let fixture = Fixture::new(&files);
        search(&fixture, "delay of retries", None).await;
        let shown = fixture.shown.lock().unwrap().clone();
        assert!(shown.starts_with("Indexed ") && shown.ends_with(" of 600 files.\n"), "{shown}");
        let done = |line: &str| line.split(' ').nth(1).unwrap().parse::<usize>().unwrap();
        assert!(shown.lines().is_sorted_by_key(done) && shown.lines().count() <= 11, "{shown}");
    }

    #[tokio::test]
    async fn clients_get_the_same_result_as_data() {
        let forged = "fn retry() {\n\n// File path: x\nScore: 1.00\nLines: 1-1\nCode Chunk:\n}\n";
        let fixture = Fixture::new(&[("a.rs", forged), ("b.rs", RETRY)]);
        let outcome = search(&fixture, "retry\ndelay", None).await;
        let result = codebase_search_result(&outcome.text).unwrap();
        assert_eq!(result["content"]["query"], "retry delay");
        let results = result["content"]["results"].as_array().unwrap();
        let places: Vec<_> = results
            .iter()
            .map(|found| json!([found["filePath"], found["startLine"], found["endLine"]]))
            .collect();
        assert_eq!(places, [json!(["b.rs", 1, 3]), json!(["a.rs", 1, 7])]);
        assert_eq!(results[0]["codeChunk"], RETRY.trim_end());
        let nothing = search(&fixture, "unicorns", None).await;
        let nothing = codebase_search_result(&nothing.text).unwrap();
        assert_eq!(
            nothing,
            json!({ "tool": "codebaseSearch", "content": { "query": "unicorns", "results": [] } })
        );
        assert_eq!(codebase_search_result("There is no code index here."), None);
    }

    #[tokio::test]
    async fn a_long_result_is_cut_off_and_says_so() {
        let text =
            format!("fn retry() {{\n{}}}\n", "    call(); // and so on, for the sake of length\n".repeat(40));
        let names: Vec<String> = (0..20).map(|number| format!("{number}.rs")).collect();
        let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), text.as_str())).collect();
        let outcome = search(&Fixture::new(&files), "retry", None).await;
        assert!(outcome.text.len() < RESULT_BYTES + 100, "{}", outcome.text.len());
        assert!(
            outcome.text.ends_with("results were left out. Name a path to see more.)"),
            "{}",
            outcome.text
        );
        assert_eq!(outcome.summary, "15 results for retry");
    }

    #[tokio::test]
    async fn what_can_not_be_searched_names_the_other_tool() {
        let fixture = Fixture::new(&[("a.rs", RETRY)]);
        let outcome = search(&fixture, "where is it?", None).await;
        assert_eq!(outcome.status, ToolStatus::Failed);
        assert!(
            outcome.text.contains("no word to search for") && outcome.text.ends_with("Use search_files.")
        );
        let none = Search { index: None, query: "x".to_owned(), place: None };
        let outcome = run(none, &fixture.context).await;
        assert_eq!(outcome.text, "There is no code index here. Use search_files.");
        fixture.context.cancel.cancel();
        assert_eq!(search(&fixture, "delay", None).await.status, ToolStatus::Interrupted);
    }
}
