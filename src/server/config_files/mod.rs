//! The server as a language server for the files that steer it: modes, slash commands, skills, rules,
//! `.rooignore`, `.rooprotected`, settings.
//!
//! An open file is checked as its editor has it, while it is typed; a closed one as it is on disk. Which
//! files there are and what counts of them is said in [`roo_engine::customization`] and [`roo_formats::config`]; here
//! is what an editor shows of them. Other documents are told from these by their paths alone.

mod completion;
mod cursor;
mod diagnostics;
mod grammar;
mod hover;
mod kind;
mod known_files;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tower_lsp::jsonrpc::{Error, Request};
use tower_lsp::ls_types::notification::Notification;
use tower_lsp::ls_types::{self, DiagnosticSeverity};

use self::completion::{Completion, KnownNames, complete};
use self::diagnostics::{check, ranges, replacement};
use self::hover::{FileNames, hover};
use self::kind::{ConfigFile, ConfigFileKind};
pub(super) use self::known_files::ConfigFiles;
use self::known_files::SentDiagnostics;
use super::code_actions::{Action, Effect, QUICK_FIX};
use super::customization::ask;
use super::document_request::{self, Answer, DocumentRequest, TextDocument};
use super::documents::TextSync;
use super::editor::workspace_edit;
use super::line_hover;
use super::negotiated::Edits;
use super::session::{Session, WorkspaceServices};
use crate::live_settings::Configured;
use roo_durable::SAVING;
use roo_engine::customization::Customization;
use roo_formats::modes::{FILE_LIMIT, Modes, ParsedModes};
use roo_formats::{Problem, Severity};
use roo_text::position::{Encoding, Position, Positions, Range};
use roo_workspace::{Document, DocumentChange, FoundKind, Purpose, Walk, Workspace, file_uri};

/// Time without typing after which a document is checked.
const PAUSE: Duration = Duration::from_millis(150);
/// Number of changes on disk that are looked at together.
const CHANGES: usize = 200;
/// On how many files a pattern is tried, and how much is looked at to find them.
const FILES_TRIED: usize = 2000;
const ENTRIES_TRIED: usize = 20_000;

/// The notification of changes on disk.
pub(super) const WATCHED_FILES: &str = "workspace/didChangeWatchedFiles";

/// A file of ours to which something happens.
pub(super) struct Concerned {
    file: ConfigFile,
    uri: String,
    what: What,
}

enum What {
    Opened,
    Changed,
    /// Saved or closed: what is on disk counts.
    Disk,
}

/// Returns whether text sync is about a file of ours. To be asked before it is applied.
pub(super) fn concerned(session: &Session, sync: &TextSync) -> Option<Concerned> {
    let (uri, what) = match sync {
        TextSync::Opened { uri, .. } => (uri, What::Opened),
        TextSync::Changed { uri, .. } => (uri, What::Changed),
        TextSync::Saved { uri } | TextSync::Closed { uri } => (uri, What::Disk),
    };
    Some(Concerned { file: session.config_files.find(uri)?, uri: uri.clone(), what })
}

/// Sees to the diagnostics of a file, now that what happened to it is applied.
pub(super) fn follow(session: &Arc<Session>, concerned: Concerned) {
    let Concerned { file, uri, what } = concerned;
    let this = Arc::clone(session);
    let token = session.config_files.next_check(&uri);
    session.spawn(async move {
        if matches!(what, What::Changed)
            && token.run_until_cancelled(tokio::time::sleep(PAUSE)).await.is_none()
        {
            return;
        }
        let Ok(services) = this.services().await else { return };
        if matches!(what, What::Disk) && matches!(file.kind, ConfigFileKind::Settings) {
            // Whoever saves them wants to see that they count.
            services.settings.read().await;
        }
        match what {
            What::Opened | What::Changed => show_open(&this, services, file, &uri).await,
            What::Disk => refresh_with(&this, services, vec![file]).await,
        }
        token.cancel();
        follow_saving(&this, services).await;
    });
}

/// Sees to the diagnostics of files that the client saw change on disk.
pub(super) fn changed_on_disk(session: &Arc<Session>, params: &Value) {
    let changes = params.get("changes").and_then(Value::as_array).into_iter().flatten();
    let uris = changes.filter_map(|change| change.get("uri")?.as_str());
    let files: Vec<ConfigFile> =
        uris.filter_map(|uri| session.config_files.find(uri)).take(CHANGES).collect();
    if files.is_empty() {
        return;
    }
    let this = Arc::clone(session);
    session.spawn(async move {
        if let Ok(services) = this.services().await {
            if files.iter().any(|file| matches!(file.kind, ConfigFileKind::Settings)) {
                services.settings.read().await;
            }
            refresh_with(&this, services, files).await;
            follow_saving(&this, services).await;
        }
    });
}

/// Looks again at files that may have been read while they were being saved, until they are what counts.
async fn follow_saving(session: &Session, services: &WorkspaceServices) {
    while ask(services, Customization::is_being_saved).await.unwrap_or(false) {
        tokio::time::sleep(SAVING).await;
        refresh(session, services).await;
    }
}

/// Asks the client to tell of changes on disk, where it can: a file may be deleted that isn't open.
pub(super) async fn watch(session: &Session) {
    if !session.negotiated().is_some_and(|negotiated| negotiated.watches) {
        return;
    }
    let watchers = ["**/.roomodes", "**/.rooignore", "**/.rooprotected", "**/.{roo,agents}/**"]
        .map(|glob| json!({ "globPattern": glob }));
    let registration = ls_types::Registration {
        id: "config-files".to_owned(),
        method: WATCHED_FILES.to_owned(),
        register_options: Some(json!({ "watchers": watchers })),
    };
    if let Err(error) = session.client.register_capability(vec![registration]).await {
        tracing::info!(%error, "the client does not report changes on disk");
    }
}

/// Shows what is wrong with an open document now.
async fn show_open(session: &Session, services: &WorkspaceServices, file: ConfigFile, uri: &str) {
    let mut shown = session.config_files.shown.lock().await;
    let Some(document) = session.documents.get(uri) else { return };
    let encoding = encoding(session);
    let (text, checked) = (Arc::clone(&document.text), file.clone());
    let found = ask(services, move |customization| {
        let findings = check(&checked, &text, customization);
        with_ranges(&text, findings, encoding)
    });
    // What was typed meanwhile is checked after it.
    if let Ok(diagnostics) = found.await
        && session.documents.get(uri).is_some_and(|now| now.version == document.version)
    {
        show(session, &mut shown, file.path, uri, Some(document.version), diagnostics).await;
    }
}

/// Shows what is wrong with all files of ours, as they are on disk or in the editor.
pub(super) async fn refresh(session: &Session, services: &WorkspaceServices) {
    refresh_with(session, services, vec![]).await;
}

async fn refresh_with(session: &Session, services: &WorkspaceServices, mut changed: Vec<ConfigFile>) {
    let mut shown = session.config_files.shown.lock().await;
    let documents = session.documents.with_files().into_iter();
    let open: Vec<(ConfigFile, Document)> = documents
        .filter_map(|(_, document)| Some((session.config_files.find(&document.uri)?, document)))
        .collect();
    let encoding = encoding(session);
    let settings = session.process.directories.config_file();
    let before: BTreeSet<PathBuf> = shown.keys().cloned().collect();
    if let Some(places) = session.config_files.places.get() {
        changed.extend(before.iter().filter_map(|path| places.find(path)));
        changed.extend(places.pattern_files());
    }
    let found = ask(services, move |customization| {
        let of_open = open.into_iter().map(|(file, document)| {
            let findings = check(&file, &document.text, customization);
            (file.path, document.clone(), with_ranges(&document.text, findings, encoding))
        });
        let of_open: Vec<_> = of_open.collect();
        let is_open = |path: &PathBuf| of_open.iter().any(|(open, ..)| open == path);
        let mut on_disk = on_disk(customization, settings, before, changed);
        on_disk.retain(|path, _| !is_open(path));
        let on_disk: Vec<_> = on_disk
            .into_iter()
            .map(|(path, findings)| {
                let places = findings.iter().any(|finding| finding.range.is_some());
                let text = places.then(|| customization.text_of(&path)).flatten().unwrap_or_default();
                (path, with_ranges(&text, findings, encoding))
            })
            .collect();
        (of_open, on_disk)
    });
    let Ok((of_open, on_disk)) = found.await else { return };
    for (path, document, diagnostics) in of_open {
        if session.documents.get(&document.uri).is_some_and(|now| now.version == document.version) {
            show(session, &mut shown, path, &document.uri, Some(document.version), diagnostics).await;
        }
    }
    for (path, diagnostics) in on_disk {
        let uri = file_uri(&path);
        show(session, &mut shown, path, &uri, None, diagnostics).await;
    }
}

/// Checks the files on disk. Those that had diagnostics `before` are among them, be it with none; of rules,
/// `.rooignore` and `.rooprotected`, only those that `changed`.
fn on_disk(
    customization: &Customization,
    settings: PathBuf,
    before: BTreeSet<PathBuf>,
    mut changed: Vec<ConfigFile>,
) -> BTreeMap<PathBuf, Vec<Problem>> {
    let mut files: BTreeMap<PathBuf, Vec<Problem>> = before.into_iter().map(|path| (path, vec![])).collect();
    for problem in customization.problems() {
        files.entry(problem.file.clone()).or_default().push(problem.problem);
    }
    files.insert(settings.clone(), diagnostics::settings_problems(&Configured::load(&settings)));
    // What customization knows is there already.
    changed.retain(|file| {
        matches!(file.kind, ConfigFileKind::Rules | ConfigFileKind::Ignore | ConfigFileKind::Protected)
    });
    for file in changed {
        let text = customization.text_of(&file.path);
        let findings = text.map(|text| check(&file, &text, customization)).unwrap_or_default();
        files.insert(file.path, findings);
    }
    files
}

fn encoding(session: &Session) -> Encoding {
    session.negotiated().map(|negotiated| negotiated.encoding).unwrap_or_default()
}

fn with_ranges(text: &str, findings: Vec<Problem>, encoding: Encoding) -> Vec<Value> {
    let ranges = ranges(text, &findings, encoding);
    ranges.into_iter().zip(&findings).map(|(range, finding)| diagnostic(range, finding)).collect()
}

fn diagnostic(range: Range, finding: &Problem) -> Value {
    json!({
        "range": range,
        "severity": match finding.severity {
            Severity::Error => DiagnosticSeverity::ERROR,
            Severity::Warning => DiagnosticSeverity::WARNING,
            Severity::Information => DiagnosticSeverity::INFORMATION,
        },
        "source": "roo-lsp",
        "message": finding.message,
    })
}

/// Returns the edits that replace misspelt keys and values of a configuration file, for those that overlap with a range.
/// None for other documents.
pub(super) async fn corrections(
    session: &Arc<Session>,
    document: &Document,
    selection: Range,
) -> Result<Vec<Action>, Error> {
    let file = session.config_files.find(&document.uri);
    let Some(file) = file.filter(|_| document.text.len() <= FILE_LIMIT) else { return Ok(vec![]) };
    let (encoding, text) = (encoding(session), Arc::clone(&document.text));
    let found = ask(session.services().await?, move |customization| {
        let mut findings = check(&file, &text, customization);
        findings.retain(|finding| finding.suggestion.is_some());
        let ranges = ranges(&text, &findings, encoding);
        let found = ranges.into_iter().zip(findings).filter_map(|(range, finding)| {
            let replacement = replacement(&text, &finding)?;
            Some((range, diagnostic(range, &finding), finding.suggestion?, replacement))
        });
        found.filter(|(range, ..)| overlaps(*range, selection)).collect::<Vec<_>>()
    });
    let edits = session.negotiated().and_then(|negotiated| negotiated.edits).unwrap_or(Edits::Plain);
    let action = |(range, diagnostic, suggestion, replacement)| {
        let change = DocumentChange::Text {
            uri: document.uri.clone(),
            version: Some(document.version),
            edits: vec![(range, replacement)],
        };
        Action {
            title: format!("Change to `{suggestion}`"),
            kind: QUICK_FIX,
            effect: Effect::Edit(workspace_edit(edits, &[change])),
            fixes: Some(diagnostic),
        }
    };
    Ok(found.await?.into_iter().map(action).collect())
}

/// Returns whether two ranges have a character in common or touch.
fn overlaps(one: Range, other: Range) -> bool {
    let order = |position: Position| (position.line, position.character);
    order(one.start) <= order(other.end) && order(other.start) <= order(one.end)
}

/// `textDocument/publishDiagnostics`, with a document's URI as its editor spells it.
enum PublishDiagnostics {}

impl Notification for PublishDiagnostics {
    type Params = Value;
    const METHOD: &'static str = "textDocument/publishDiagnostics";
}

/// Sends diagnostics, unless the client has them.
async fn show(
    session: &Session,
    shown: &mut SentDiagnostics,
    path: PathBuf,
    uri: &str,
    version: Option<i32>,
    diagnostics: Vec<Value>,
) {
    let is_empty = diagnostics.is_empty();
    let mut params = json!({ "uri": uri, "diagnostics": diagnostics });
    if let Some(version) = version {
        params["version"] = version.into();
    }
    let before = shown.remove(&path);
    // One file, but another name for it.
    if let Some(other) = before.as_ref().map(|before| &before["uri"]).filter(|before| *before != uri) {
        let nothing = json!({ "uri": other, "diagnostics": [] });
        session.client.send_notification::<PublishDiagnostics>(nothing).await;
    }
    let is_known = match &before {
        None => version.is_none() && is_empty,
        Some(before) => *before == params,
    };
    if !is_known {
        session.client.send_notification::<PublishDiagnostics>(params.clone()).await;
    }
    if version.is_some() || !is_empty {
        shown.insert(path, params);
    }
}

/// The largest document whose lines are looked up in the trace, in bytes.
const TRACED: usize = 4 << 20;

/// Names for completion and hover.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PositionParams {
    text_document: TextDocument,
    position: Position,
}

/// Answers `textDocument/completion` and `textDocument/hover`. In a document that is no file of ours a hover
/// tells who wrote the line, and nothing is completed.
pub(super) fn answer(session: &Arc<Session>, request: Request) -> Answer {
    let request: DocumentRequest<PositionParams> = match document_request::read(request) {
        Ok(request) => request,
        Err(answer) => return answer,
    };
    let uri = &request.params.text_document.uri;
    let file = session.config_files.find(uri);
    // The text as it is now: what comes later is another question.
    let document = session.documents.get(uri);
    let session = Arc::clone(session);
    let Some(file) = file else {
        let traced = document.filter(|document| document.text.len() <= TRACED);
        return match traced.filter(|_| request.method == "textDocument/hover") {
            None => request.answer(Value::Null),
            Some(document) => request.answer_with(|_, asked| async move {
                let uri = asked.text_document.uri;
                line_hover::hovered(&session, uri, document.text, asked.position).await
            }),
        };
    };
    let Some(document) = document.filter(|document| document.text.len() <= FILE_LIMIT) else {
        return request.answer(Value::Null);
    };
    request.answer_with(|method, asked| async move {
        let place = ConfigPosition { kind: file.kind, text: document.text, position: asked.position };
        match &*method {
            "textDocument/hover" => hovered(&session, place).await,
            _ => completed(&session, place).await,
        }
    })
}

/// A position in a text of ours.
struct ConfigPosition {
    kind: ConfigFileKind,
    text: Arc<str>,
    position: Position,
}

impl ConfigPosition {
    /// The modes that there are, and those of this text even where they don't count yet.
    fn modes(&self, customization: &Customization, offset: usize) -> Modes {
        let modes = Modes::clone(&customization.modes());
        let ConfigFileKind::Modes(scope) = self.kind else { return modes };
        let own = ParsedModes::parse(&self.text, scope.into()).or_else(|_| {
            // The line that is being typed is what breaks it, mostly.
            let before =
                self.text.get(..offset).unwrap_or_default().rsplit_once('\n').map_or("", |split| split.0);
            let behind =
                self.text.get(offset..).unwrap_or_default().split_once('\n').map_or("", |split| split.1);
            ParsedModes::parse(&format!("{before}\n\n{behind}"), scope.into())
        });
        modes.with(own.map(|parsed| parsed.modes).unwrap_or_default())
    }
}

async fn completed(session: &Arc<Session>, place: ConfigPosition) -> Result<Value, Error> {
    let services = session.services().await?;
    let snippets = session.negotiated().is_some_and(|negotiated| negotiated.snippets);
    let encoding = encoding(session);
    ask(services, move |customization| {
        let positions = Positions::new(&place.text, encoding);
        let offset = positions.offset(place.position);
        let modes = place.modes(customization, offset);
        let servers = customization.mcp_servers().into_iter();
        let servers: Vec<String> = servers.map(|server| server.configured.server.name).collect();
        let known = KnownNames { modes: &modes, servers: &servers };
        complete(place.kind, &place.text, offset, known).map_or(Value::Null, |completion| {
            let Completion { range, items } = completion;
            let range = Range { start: positions.position(range.start), end: positions.position(range.end) };
            items
                .into_iter()
                .enumerate()
                .map(|(index, item)| wire_item(index, item, range, snippets))
                .collect()
        })
    })
    .await
}

fn wire_item(index: usize, item: completion::CompletionEntry, range: Range, snippets: bool) -> Value {
    use ls_types::{CompletionItemKind, InsertTextFormat};
    let snippet = item.snippet.filter(|_| snippets);
    let format = if snippet.is_some() { InsertTextFormat::SNIPPET } else { InsertTextFormat::PLAIN_TEXT };
    let kind = if item.is_key { CompletionItemKind::PROPERTY } else { CompletionItemKind::VALUE };
    let mut wire = json!({
        "label": item.label,
        "kind": kind,
        "filterText": item.label.trim_start_matches('['),
        // In the order of the table.
        "sortText": format!("{index:03}"),
        "insertTextFormat": format,
        "textEdit": { "range": range, "newText": snippet.unwrap_or(item.text) },
    });
    if !item.about.is_empty() {
        wire["documentation"] = item.about.into();
    }
    wire
}

async fn hovered(session: &Arc<Session>, place: ConfigPosition) -> Result<Value, Error> {
    let services = session.services().await?;
    let (told, encoding) = (Arc::clone(session), encoding(session));
    let workspace = Arc::clone(services.engine.workspace());
    ask(services, move |customization| {
        let positions = Positions::new(&place.text, encoding);
        let offset = positions.offset(place.position);
        let modes = place.modes(customization, offset);
        let hover = hover(place.kind, &place.text, offset, &modes, || files(&workspace));
        hover.map_or(Value::Null, |hover| {
            let range = Range {
                start: positions.position(hover.range.start),
                end: positions.position(hover.range.end),
            };
            json!({ "contents": told.hover_contents(&hover.text), "range": range })
        })
    })
    .await
}

/// Names of files of the first workspace folder that an agent may see. Reads the disk.
fn files(workspace: &Workspace) -> FileNames {
    let Ok(root) = workspace.resolve(".", Purpose::List) else { return FileNames::default() };
    let walk = Walk { recursive: true, leave_out: |name| name == ".git" };
    let found = walk.below(&root, workspace.rules(&root)).take(ENTRIES_TRIED);
    let files = found.filter(|found| found.kind == FoundKind::File).map(|found| found.path);
    let mut names: Vec<String> = files.take(FILES_TRIED + 1).collect();
    let cut = names.len() > FILES_TRIED;
    names.truncate(FILES_TRIED);
    FileNames { names, cut }
}
