//! One server that is initialized: its documents, and questions to it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use roo_text::position::{Encoding, Position, Positions};
use roo_text::render::one_line;
use roo_workspace::file_uri;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use crate::code_action::{CodeAction, OfferedAction, merge, offered};
use crate::connection::{Connection, RequestError, ServerSetup};
use crate::launcher::{LaunchedServer, ServerProcess};
use crate::location::{Location, locations};
use crate::preset::InstalledServer;
use crate::problem::{Problem, problems};
use crate::symbol::{Symbol, symbols};
use crate::workspace_edit::WorkspaceEdit;

/// Time limit for a server's work on the project, before it is asked all the same.
const WORK: Duration = Duration::from_secs(10);

/// The same for questions whose answers are of little use from a part of the project.
const LOAD: Duration = Duration::from_secs(30);

/// Time that a server has after its start to say that it loads the project.
const BEGIN: Duration = Duration::from_secs(1);

/// Time limit for the server's answer to `shutdown`.
const SHUTDOWN: Duration = Duration::from_secs(1);

/// Time limit for a server to report problems of a text that it was just shown.
const REPORT: Duration = Duration::from_secs(10);

/// Time that a server may take between the parts of one report: some check the syntax first.
const SETTLE: Duration = Duration::from_millis(300);

/// Time limit for a compiler's check of what is saved, with the time to load the project.
const CHECK: Duration = Duration::from_secs(30);

/// Time that a server has to begin such a check.
const CHECK_BEGIN: Duration = Duration::from_secs(10);

/// The most ranges of problems in one line that a server is asked for actions about.
const RANGES: usize = 8;

/// The most bytes that are kept of a text.
const TEXT: usize = 16 << 10;

/// A file as the workspace has it, saved or not.
#[derive(Clone, Debug)]
pub struct Document {
    /// Absolute path.
    pub path: PathBuf,
    pub text: Arc<str>,
}

/// A place in a document.
#[derive(Clone, Debug)]
pub struct Place {
    pub document: Document,
    /// Byte offset in its text.
    pub offset: usize,
}

/// Questions about what is at a place, about its document, or about the project around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// Where it is used and declared.
    References,
    /// Where it is defined.
    Definition,
    /// What is known of it.
    Hover,
    /// What changes where it gets this name.
    Rename(String),
    /// What the server offers to do about its line.
    Actions,
    /// What changes by the action of this title.
    Action(String),
    /// What is wrong in its document, as far as the server finds that itself.
    Problems,
    /// The same, and what a compiler finds wrong in it that the server has check what is saved.
    CheckedProblems,
    /// Symbols of the project whose names are like this.
    Symbols(String),
}

/// Answer of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Lines, ordered by path; each once.
    Locations(Vec<Location>),
    /// Text; empty where nothing is known.
    Text(String),
    /// Proposed changes; none where nothing changes.
    Edit(WorkspaceEdit),
    /// Offered actions, in the server's order.
    Actions(Vec<CodeAction>),
    /// Problems of the document.
    Problems {
        /// The first ones that were reported, in the order of the document's text.
        found: Vec<Problem>,
        /// True if there are more.
        is_cut: bool,
    },
    /// Symbols, in the server's order.
    Symbols(Vec<Symbol>),
}

/// Answer of a server, with what it says of its knowledge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub answer: Answer,
    /// True if the server had not read the whole project, so that something may be missing.
    pub is_loading: bool,
    /// True if problems lack what a compiler would find: it has not finished, or the document is not saved.
    pub is_unchecked: bool,
    /// What the server says is wrong with itself or the project, on one line.
    pub trouble: Option<String>,
}

/// A document as a server was shown it.
struct ShownDocument {
    version: i32,
    text: Arc<str>,
    /// Number of reports before it was shown.
    reports: u64,
}

/// A server that is initialized.
pub(crate) struct Session {
    connection: Connection,
    process: Box<dyn ServerProcess>,
    encoding: Encoding,
    /// True if the server is asked for problems, and doesn't report them unasked.
    pulls: bool,
    /// The open documents, by path.
    open: HashMap<PathBuf, ShownDocument>,
    /// When the server was initialized.
    started: Instant,
}

impl Session {
    /// Initializes a server that was started. The caller limits the time.
    pub(crate) async fn start(
        launched: LaunchedServer,
        server: &InstalledServer,
        folders: &[PathBuf],
    ) -> Result<Self, (RequestError, Option<String>)> {
        let LaunchedServer { stdin, stdout, stderr, cache, process } = launched;
        let settings = server.compiler.zip(cache);
        let settings = settings.map(|(compiler, cache)| (compiler.section, compiler.settings(&cache)));
        let options = settings.as_ref().map(|(_, settings)| settings.clone());
        let check_token = server.compiler.map(|compiler| compiler.token);
        let connection = Connection::new(stdin, stdout, stderr, ServerSetup { settings, check_token });
        match initialize(&connection, folders, options).await {
            Ok((encoding, pulls)) => {
                let (open, started) = (HashMap::new(), Instant::now());
                Ok(Self { connection, process, encoding, pulls, open, started })
            }
            Err(error) => Err((error, connection.last_words())),
        }
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Asks about a place, with exactly this document and the others open. May be dropped at any time.
    pub(crate) async fn ask(
        &mut self,
        server: &InstalledServer,
        question: Question,
        place: &Place,
        others: &[Document],
    ) -> Result<Reply, RequestError> {
        self.show(server, &place.document, others).await?;
        let asked = Instant::now();
        let saved = match question {
            Question::CheckedProblems => self.save(server, &place.document).await?,
            _ => None,
        };
        let (limit, begins_by) = match question {
            Question::References | Question::Definition | Question::Rename(_) | Question::Symbols(_) => {
                (LOAD, self.started + BEGIN)
            }
            Question::CheckedProblems if server.compiler.is_some() => (LOAD, self.started + BEGIN),
            // A document's own problems are told soon or not at all.
            Question::Problems | Question::CheckedProblems => (WORK, Instant::now()),
            Question::Hover | Question::Actions | Question::Action(_) => (WORK, self.started + BEGIN),
        };
        // A server that works for longer is asked all the same: it may have the answer.
        let _ = timeout(limit, self.connection.loaded(begins_by)).await;
        let was_loading = self.connection.is_loading();
        if was_loading && matches!(question, Question::Rename(_)) {
            return Err(RequestError::Loading);
        }
        let is_checked = match saved {
            Some(checks) => {
                let checked = self.connection.checked(checks, Instant::now() + CHECK_BEGIN, SETTLE);
                timeout_at(asked + CHECK, checked).await.unwrap_or(false)
            }
            None => false,
        };
        let is_unchecked = question == Question::CheckedProblems && server.compiler.is_some() && !is_checked;
        let answer = self.answer(question, place, is_checked).await?;
        let is_loading = was_loading || self.connection.is_loading();
        Ok(Reply { answer, is_loading, is_unchecked, trouble: self.connection.trouble() })
    }

    /// Has a compiler check what is saved, by telling the server that a document was: it is the same on disk. Returns the
    /// number of checks that had begun before; none where there is no compiler, or the document is another one on disk.
    async fn save(&self, server: &InstalledServer, document: &Document) -> Result<Option<u64>, RequestError> {
        if server.compiler.is_none() {
            return Ok(None);
        }
        let path = document.path.clone();
        let read = tokio::task::spawn_blocking(move || std::fs::read(path)).await;
        if !read.is_ok_and(|read| read.is_ok_and(|bytes| bytes == document.text.as_bytes())) {
            return Ok(None);
        }
        let checks = self.connection.checks();
        let params = json!({ "textDocument": { "uri": file_uri(&document.path) } });
        self.connection.notify("textDocument/didSave", params).await?;
        Ok(Some(checks))
    }

    /// Asks about a place of an open document. Where a compiler has checked what is saved, what it found is among the problems.
    async fn answer(
        &self,
        question: Question,
        place: &Place,
        is_checked: bool,
    ) -> Result<Answer, RequestError> {
        let text = &place.document.text;
        let path = &place.document.path;
        let Position { line, character } = Positions::new(text, self.encoding).position(place.offset);
        let document = json!({ "uri": file_uri(path) });
        let at_place =
            json!({ "textDocument": document, "position": { "line": line, "character": character } });
        let with = |mut params: Value, key: &str, value: Value| {
            params[key] = value;
            params
        };
        let unusable = RequestError::Unusable;
        let edit =
            |answer: &Value| WorkspaceEdit::read(answer, self.encoding).map(Answer::Edit).map_err(unusable);
        Ok(match question {
            Question::References => {
                let params = with(at_place, "context", json!({ "includeDeclaration": true }));
                let answer = self.connection.request("textDocument/references", params).await?;
                Answer::Locations(locations(&answer))
            }
            Question::Definition => {
                let answer = self.connection.request("textDocument/definition", at_place).await?;
                Answer::Locations(locations(&answer))
            }
            Question::Hover => {
                let answer = self.connection.request("textDocument/hover", at_place).await?;
                Answer::Text(hover_text(&answer))
            }
            Question::Rename(name) => {
                let uses = self.uses(path, &at_place).await?;
                let params = with(at_place, "newName", name.into());
                let answer = self.connection.request("textDocument/rename", params).await?;
                let edit = WorkspaceEdit::read(&answer, self.encoding).map_err(unusable)?;
                if let Some(left) = left_out(&uses, &edit) {
                    let reason = format!(
                        "it leaves out {}, where the symbol is used, so nothing was changed; make the call again, or change \
                         the uses by other tools",
                        one_line(&left.path.to_string_lossy(), TEXT)
                    );
                    return Err(RequestError::Unusable(reason));
                }
                Answer::Edit(edit)
            }
            Question::Actions => {
                let offered = self.actions(path, line).await?;
                Answer::Actions(offered.into_iter().map(|offered| offered.action).collect())
            }
            Question::Action(title) => {
                let offered = self.actions(path, line).await?;
                let titles: Vec<String> =
                    offered.iter().map(|offered| format!("`{}`", offered.action.title)).collect();
                let Some(chosen) = offered.into_iter().find(|offered| offered.action.title == title) else {
                    let there_are = if titles.is_empty() { "none".to_owned() } else { titles.join(", ") };
                    let reason =
                        format!("it offers no action of that title for this line; it offers {there_are}");
                    return Err(RequestError::Unusable(reason));
                };
                match chosen.sent["edit"].is_null() {
                    false => edit(&chosen.sent["edit"])?,
                    true => {
                        let resolved = self.connection.request("codeAction/resolve", chosen.sent).await?;
                        if resolved["edit"].is_null() {
                            let reason = "this action changes no text by itself".to_owned();
                            return Err(RequestError::Unusable(reason));
                        }
                        edit(&resolved["edit"])?
                    }
                }
            }
            Question::Problems | Question::CheckedProblems => {
                let mut reported = self.reported(path).await?;
                if is_checked {
                    let by_compiler = self.connection.reports().of(path).map(|report| report.problems);
                    merge_checked(&mut reported, by_compiler.unwrap_or_default());
                }
                let (found, is_cut) = problems(&reported, text, self.encoding);
                Answer::Problems { found, is_cut }
            }
            Question::Symbols(query) => {
                let answer = self.connection.request("workspace/symbol", json!({ "query": query })).await?;
                Answer::Symbols(symbols(&answer))
            }
        })
    }

    /// Returns where what is at a place is used, once the server has read the project: before, some answer with what they know
    /// so far.
    async fn uses(&self, path: &Path, at_place: &Value) -> Result<Vec<Location>, RequestError> {
        // Problems of a document are reported when what it belongs to has been read.
        let _ = self.reported(path).await;
        let mut params = at_place.clone();
        params["context"] = json!({ "includeDeclaration": true });
        Ok(locations(&self.connection.request("textDocument/references", params).await?))
    }

    /// Returns what the server offers to do about a line of an open document.
    async fn actions(&self, path: &Path, line: u32) -> Result<Vec<OfferedAction>, RequestError> {
        // Fixes are found by the problems that they are for.
        let mut reported = self.reported(path).await.unwrap_or_default();
        let is_of_line = |problem: &Value| {
            let at = |end: &str| problem["range"][end]["line"].as_u64();
            at("start") <= Some(line.into()) && at("end") >= Some(line.into())
        };
        reported.retain(is_of_line);
        // Servers offer the fixes of the problems within the range that they are asked about.
        let mut by_range: Vec<(Value, Vec<Value>)> = vec![];
        for problem in reported {
            match by_range.iter_mut().find(|(range, _)| *range == problem["range"]) {
                Some((_, problems)) => problems.push(problem),
                None => by_range.push((problem["range"].clone(), vec![problem])),
            }
        }
        if by_range.is_empty() {
            by_range.push((self.range_of_line(path, line), vec![]));
        }
        let mut all = vec![];
        for (range, problems) in by_range.into_iter().take(RANGES) {
            let params = json!({
                "textDocument": { "uri": file_uri(path) },
                "range": range,
                "context": { "diagnostics": problems, "triggerKind": 1 },
            });
            merge(&mut all, offered(&self.connection.request("textDocument/codeAction", params).await?));
        }
        Ok(all)
    }

    /// Returns the whole range of a line of an open document.
    fn range_of_line(&self, path: &Path, line: u32) -> Value {
        let text = self.open.get(path).map(|document| Arc::clone(&document.text)).unwrap_or_default();
        let positions = Positions::new(&text, self.encoding);
        let end = positions.position(positions.offset(Position { line, character: u32::MAX }));
        let at = |character: u32| json!({ "line": line, "character": character });
        json!({ "start": at(0), "end": at(end.character) })
    }

    /// Returns the problems of an open document as the server sends them: asked for, or reported unasked about the text that
    /// it was shown last.
    async fn reported(&self, path: &Path) -> Result<Vec<Value>, RequestError> {
        if self.pulls {
            let params = json!({ "textDocument": { "uri": file_uri(path) } });
            let mut answer = self.connection.request("textDocument/diagnostic", params).await?;
            return Ok(match answer["items"].take() {
                Value::Array(items) => items,
                _ => vec![],
            });
        }
        let Some(document) = self.open.get(path) else { return Ok(vec![]) };
        let reports = self.connection.reports();
        let mut news = reports.subscribe();
        let deadline = Instant::now() + REPORT;
        loop {
            let of_text = reports.of(path).filter(|report| {
                report.number > document.reports
                    && report.version.is_none_or(|version| version == i64::from(document.version))
            });
            let settled = of_text.as_ref().map_or(deadline, |report| report.time + SETTLE);
            if let Some(report) = of_text.filter(|_| Instant::now() >= settled.min(deadline)) {
                return Ok(report.problems);
            }
            if Instant::now() >= deadline {
                let reason = "it has not reported anything about this text yet".to_owned();
                return Err(RequestError::Unusable(reason));
            }
            tokio::select! {
                () = sleep_until(settled.min(deadline)) => {}
                news = timeout_at(deadline, news.changed()) => if let Ok(Err(_)) = news {
                    return Err(RequestError::Gone);
                },
                () = self.connection.ended() => return Err(RequestError::Gone),
            }
        }
    }

    /// Makes these documents the open ones.
    async fn show(
        &mut self,
        server: &InstalledServer,
        document: &Document,
        others: &[Document],
    ) -> Result<(), RequestError> {
        let mut wanted: HashMap<PathBuf, (&'static str, &Arc<str>)> = HashMap::new();
        for Document { path, text } in others.iter().chain([document]) {
            if let Some(language) = server.language_of(path) {
                wanted.insert(path.clone(), (language, text));
            }
        }
        // Before a server gets to see them, as it may report at once.
        self.connection.reports().keep(wanted.keys().cloned().collect());
        let closed: Vec<PathBuf> =
            self.open.keys().filter(|path| !wanted.contains_key(*path)).cloned().collect();
        for path in closed {
            let uri = file_uri(&path);
            let params = json!({ "textDocument": { "uri": uri } });
            self.connection.notify("textDocument/didClose", params).await?;
            // From now on it counts what is on disk, which may have changed since the server last looked.
            let changed = json!({ "changes": [{ "uri": uri, "type": 2 }] });
            self.connection.notify("workspace/didChangeWatchedFiles", changed).await?;
            self.open.remove(&path);
        }
        for (path, (language, text)) in wanted {
            let uri = file_uri(&path);
            let (method, version, params) = match self.open.get(&path) {
                Some(open) if open.text == *text => continue,
                Some(open) if server.reports_on_open_only => {
                    let version = open.version + 1;
                    self.open.remove(&path);
                    self.close(&uri).await?;
                    let document =
                        json!({ "uri": uri, "languageId": language, "version": version, "text": &**text });
                    ("textDocument/didOpen", version, json!({ "textDocument": document }))
                }
                Some(open) => {
                    let version = open.version + 1;
                    let document = json!({ "uri": uri, "version": version });
                    let params = json!({ "textDocument": document, "contentChanges": [{ "text": &**text }] });
                    ("textDocument/didChange", version, params)
                }
                None => {
                    let document =
                        json!({ "uri": uri, "languageId": language, "version": 1, "text": &**text });
                    ("textDocument/didOpen", 1, json!({ "textDocument": document }))
                }
            };
            let reports = self.connection.reports().count();
            self.connection.notify(method, params).await?;
            self.open.insert(path, ShownDocument { version, text: Arc::clone(text), reports });
        }
        Ok(())
    }

    /// Closes a document, and waits until what the server reports of that is here: that there are no problems.
    async fn close(&self, uri: &str) -> Result<(), RequestError> {
        self.connection.notify("textDocument/didClose", json!({ "textDocument": { "uri": uri } })).await?;
        // An optional request is refused by every server that doesn't know it, in its turn.
        match self.connection.request("$/roo-lsp/closed", Value::Null).await {
            Err(gone @ RequestError::Gone) => Err(gone),
            _ => Ok(()),
        }
    }

    /// Ends the server.
    pub(crate) async fn end(self) {
        let Self { connection, process, .. } = self;
        let asked = timeout(SHUTDOWN, connection.request("shutdown", Value::Null)).await;
        if asked.is_ok_and(|answer| answer.is_ok()) {
            // The queue may be full.
            let _ = timeout(SHUTDOWN, connection.notify("exit", Value::Null)).await;
        }
        process.end().await;
    }
}

/// Returns a use that a rename leaves as it is, which would break the code; none where the server renames nothing at all.
fn left_out<'a>(uses: &'a [Location], edit: &WorkspaceEdit) -> Option<&'a Location> {
    let is_left_out = |used: &&Location| !edit.files.contains_key(&used.path);
    uses.iter().find(is_left_out).filter(|_| !edit.files.is_empty())
}

/// Adds the problems that a compiler found to those of a server, which finds some of them itself. What belongs to another
/// problem comes with that.
fn merge_checked(reported: &mut Vec<Value>, by_compiler: Vec<Value>) {
    const HINT: u64 = 4;
    let is_known = |found: &Value| {
        let is_same = |known: &Value| {
            !found["code"].is_null()
                && known["code"] == found["code"]
                && known["range"]["start"]["line"] == found["range"]["start"]["line"]
        };
        reported.iter().any(is_same)
    };
    let new: Vec<Value> = by_compiler
        .into_iter()
        .filter(|found| found["severity"].as_u64() != Some(HINT) && !is_known(found))
        .collect();
    reported.extend(new);
}

/// Returns the unit of positions, and whether problems are to be asked for.
async fn initialize(
    connection: &Connection,
    folders: &[PathBuf],
    options: Option<Value>,
) -> Result<(Encoding, bool), RequestError> {
    let name =
        |path: &Path| path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let named: Vec<Value> =
        folders.iter().map(|path| json!({ "uri": file_uri(path), "name": name(path) })).collect();
    let params = json!({
        // In the sandbox it sees no process of this id, and would end at once.
        "processId": null,
        "clientInfo": { "name": "roo-lsp", "version": env!("CARGO_PKG_VERSION") },
        "rootUri": folders.first().map(|path| file_uri(path)),
        "workspaceFolders": named,
        "initializationOptions": options,
        "capabilities": {
            "general": { "positionEncodings": ["utf-8", "utf-16", "utf-32"] },
            "textDocument": {
                "synchronization": { "didSave": true },
                "references": {},
                "definition": { "linkSupport": true },
                "hover": { "contentFormat": ["plaintext", "markdown"] },
                "rename": {},
                "codeAction": {
                    "codeActionLiteralSupport": { "codeActionKind": { "valueSet": [
                        "quickfix", "refactor", "refactor.extract", "refactor.inline", "refactor.rewrite", "source",
                        "source.organizeImports", "source.fixAll",
                    ] } },
                    "dataSupport": true,
                    "disabledSupport": true,
                    "isPreferredSupport": true,
                    "resolveSupport": { "properties": ["edit"] },
                },
                "publishDiagnostics": { "versionSupport": true },
                "diagnostic": {},
            },
            "workspace": {
                "workspaceFolders": true,
                "configuration": true,
                // They are told of what agents change. Those that watch the disk themselves are to go on with that, as it is
                // not watched here.
                "didChangeWatchedFiles": { "dynamicRegistration": false },
                "symbol": {},
                "workspaceEdit": { "documentChanges": true, "resourceOperations": [] },
            },
            "window": { "workDoneProgress": true },
            // rust-analyzer's word that it has loaded the project: its progress pauses between two parts.
            "experimental": { "serverStatusNotification": true },
        },
    });
    let answer = connection.request("initialize", params).await?;
    let encoding = match answer["capabilities"]["positionEncoding"].as_str() {
        None | Some("utf-16") => Encoding::Utf16,
        Some("utf-8") => Encoding::Utf8,
        Some("utf-32") => Encoding::Utf32,
        Some(_) => return Err(RequestError::Refused("it counts positions in an unknown unit".to_owned())),
    };
    connection.notify("initialized", json!({})).await?;
    Ok((encoding, answer["capabilities"]["diagnosticProvider"].is_object()))
}

/// The text of a hover, in any of its forms.
fn hover_text(answer: &Value) -> String {
    fn of(contents: &Value) -> String {
        match contents {
            Value::String(text) => text.clone(),
            Value::Array(parts) => parts.iter().map(of).collect::<Vec<_>>().join("\n\n"),
            Value::Object(marked) => {
                marked.get("value").and_then(Value::as_str).unwrap_or_default().to_owned()
            }
            _ => String::new(),
        }
    }
    let mut text = of(&answer["contents"]);
    text.truncate(text.floor_char_boundary(TEXT));
    text.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rename_that_leaves_a_use_out_is_found() {
        let at = |path: &str| Location { path: path.into(), line: 0 };
        let edit = |paths: &[&str]| WorkspaceEdit {
            files: paths.iter().map(|path| (PathBuf::from(path), vec![])).collect(),
            encoding: Encoding::Utf8,
        };
        let uses = [at("/w/a.ts"), at("/w/b.ts")];
        assert_eq!(left_out(&uses, &edit(&["/w/a.ts"])), Some(&uses[1]));
        assert_eq!(left_out(&uses, &edit(&["/w/a.ts", "/w/b.ts", "/w/c.ts"])), None);
        assert_eq!(left_out(&uses, &edit(&[])), None);
    }

    #[test]
    fn a_hover_is_text_whatever_its_form() {
        let text = |contents: Value| hover_text(&json!({ "contents": contents }));
        assert_eq!(text(json!("a")), "a");
        assert_eq!(text(json!({ "kind": "plaintext", "value": " a\n" })), "a");
        assert_eq!(text(json!(["a", { "language": "rust", "value": "b" }])), "a\n\nb");
        assert_eq!(hover_text(&Value::Null), "");
        assert_eq!(text(json!("ä".repeat(TEXT))).len(), TEXT);
    }
}
