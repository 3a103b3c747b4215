//! Code actions in the user's own files: a request begins from selected lines, from a comment that is meant
//! for an agent, or from what the editor finds wrong. In configuration files a misspelt key or value can be changed.

mod action;
mod comment;
mod review;

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use tower_lsp::jsonrpc::Request;

pub(super) use self::action::{Action, Effect, QUICK_FIX, wire};
use self::comment::{Comment, Wish};
use super::config_files;
use super::customization::ask;
use super::document_request::{self, Answer, DocumentRequest, TextDocument};
use super::session::Session;
use super::task_document::lines;
use roo_protocol::task::{Position, Range};
use roo_text::render::one_line;
use roo_workspace::path_of;

/// LSP's kind of actions that change what is there.
const REFACTOR: &str = "refactor";
/// The kinds that are served.
pub(super) const KINDS: &[&str] = &[QUICK_FIX, REFACTOR];
/// The longest piece of a file in a title, in characters.
const TITLE: usize = 60;
/// Maximum number of the editor's diagnostics that are offered.
const FINDINGS: usize = 5;
/// LSP's kind of an editor that asks by itself, at every move of the cursor.
const AUTOMATIC: u64 = 2;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CodeActionParams {
    text_document: TextDocument,
    range: Range,
    #[serde(default)]
    context: Context,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Context {
    #[serde(default)]
    diagnostics: Vec<Value>,
    only: Option<Vec<String>>,
    trigger_kind: Option<u64>,
}

impl Context {
    fn wants(&self, kind: &str) -> bool {
        let only = self.only.as_deref().filter(|only| !only.is_empty());
        only.is_none_or(|only| {
            only.iter().any(|wanted| {
                kind.strip_prefix(wanted.as_str())
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            })
        })
    }
}

/// Answers `textDocument/codeAction`.
pub(super) fn answer(session: &Arc<Session>, request: Request) -> Answer {
    let request: DocumentRequest<CodeActionParams> = match document_request::read(request) {
        Ok(request) => request,
        Err(answer) => return answer,
    };
    let uri = &request.params.text_document.uri;
    let document = session.documents.get(uri).filter(|_| path_of(uri).is_some());
    let Some(document) = document else { return request.answer(json!([])) };
    let session = Arc::clone(session);
    request.answer_with(|_, asked| async move {
        let reviews = review::offered(&session, &asked, &document.text).await?;
        if let Some(diff) = reviews.diff {
            return Ok(wire(&session, diff));
        }
        let can_ask = ask(session.services().await?, |customization| {
            customization.modes().iter().any(|mode| mode.slug == "ask")
        });
        let mut actions = reviews.actions;
        actions.extend(config_files::corrections(&session, &document, asked.range).await?);
        actions.extend(offered(&asked, &document.text, can_ask.await?));
        actions.retain(|action| asked.context.wants(action.kind));
        Ok(wire(&session, actions))
    })
}

/// Returns the actions that can be started at a position: the findings of the editor, then comments, then the lines
/// themselves.
fn offered(asked: &CodeActionParams, text: &str, can_ask: bool) -> Vec<Action> {
    let uri = &asked.text_document.uri;
    let path = path_of(uri).unwrap_or_default();
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let (first, last) = lines(asked.range);
    let which = if first == last { format!("line {first}") } else { format!("lines {first}-{last}") };
    let ask_mode = can_ask.then_some("ask");
    let new_task = |prompt: String, mode: Option<&str>, range: Range| {
        let mut argument = json!({ "prompt": prompt, "context": [{ "uri": uri, "range": range }] });
        if let Some(mode) = mode {
            argument["mode"] = mode.into();
        }
        Effect::Command { name: "roo.newTask", argument }
    };
    let mut actions = Vec::new();
    for finding in asked.context.diagnostics.iter().take(FINDINGS) {
        let Some(found) = EditorDiagnostic::read(finding) else { continue };
        let line = found.range.start.line.saturating_add(1);
        let prompt = format!("Fix this problem in line {line} of {name}: {}", found.whole());
        actions.push(Action {
            title: format!("Roo: fix this: {}", one_line(&found.message, TITLE)),
            kind: QUICK_FIX,
            effect: new_task(prompt, None, found.range),
            fixes: Some(finding.clone()),
        });
    }
    for Comment { wish, text, lines } in comment::find(text, first - 1..last) {
        let at = |line| Position { line, character: 0 };
        let range = Range { start: at(lines.start), end: at(lines.end) };
        let shown = one_line(&text, TITLE);
        let (title, mode) = match wish {
            Wish::Do => (format!("Roo: do this: {shown}"), None),
            Wish::Answer => (format!("Roo: answer this: {shown}"), ask_mode),
        };
        let effect = new_task(text, mode, range);
        actions.push(Action { title, kind: QUICK_FIX, effect, fixes: None });
    }
    let is_empty = asked.range.start == asked.range.end;
    if is_empty && asked.context.trigger_kind == Some(AUTOMATIC) {
        return actions;
    }
    let about = json!({ "context": [{ "uri": uri, "range": asked.range }] });
    actions.push(Action {
        title: format!("Roo: write a request about {which}"),
        kind: REFACTOR,
        effect: Effect::Command { name: "roo.newTask", argument: about },
        fixes: None,
    });
    actions.push(Action {
        title: format!("Roo: explain {which}"),
        kind: REFACTOR,
        effect: new_task(format!("Explain {which} of {name}."), ask_mode, asked.range),
        fixes: None,
    });
    if !is_empty {
        let say = if first == last { "says" } else { "say" };
        actions.push(Action {
            title: format!("Roo: do what {which} {say}"),
            kind: REFACTOR,
            effect: new_task(format!("Do what {which} of {name} {say}."), None, asked.range),
            fixes: None,
        });
    }
    actions
}

#[derive(Deserialize)]
struct EditorDiagnostic {
    range: Range,
    message: String,
    source: Option<String>,
    code: Option<Value>,
}

impl EditorDiagnostic {
    fn read(value: &Value) -> Option<Self> {
        Self::deserialize(value).ok()
    }

    /// The message, and who says so.
    fn whole(&self) -> String {
        let code = match &self.code {
            Some(Value::String(code)) => Some(code.clone()),
            Some(Value::Number(code)) => Some(code.to_string()),
            _ => None,
        };
        let by: Vec<String> = [self.source.clone(), code].into_iter().flatten().collect();
        if by.is_empty() { self.message.clone() } else { format!("{} ({})", self.message, by.join(" ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn titles(range: Value, context: Value, text: &str) -> Vec<String> {
        let params =
            json!({ "textDocument": { "uri": "file:///work/a.sh" }, "range": range, "context": context });
        let asked: CodeActionParams = serde_json::from_value(params).unwrap();
        let mut actions = offered(&asked, text, true);
        actions.retain(|action| asked.context.wants(action.kind));
        actions.into_iter().map(|action| action.title).collect()
    }

    fn range(start: u32, end: u32) -> Value {
        json!({ "start": { "line": start, "character": 0 }, "end": { "line": end, "character": 0 } })
    }

    #[test]
    fn lines_a_comment_and_a_finding_begin_requests() {
        let finding = json!({ "range": range(1, 1), "message": "unused", "source": "lint", "code": 7 });
        let text = "x=1\n# greet politely AI!\necho hey\n";
        assert_eq!(
            titles(range(0, 2), json!({ "diagnostics": [finding] }), text),
            [
                "Roo: fix this: unused",
                "Roo: do this: greet politely",
                "Roo: write a request about lines 1-2",
                "Roo: explain lines 1-2",
                "Roo: do what lines 1-2 say",
            ]
        );
    }

    #[test]
    fn a_cursor_alone_is_offered_something_only_when_somebody_asks() {
        let quiet = json!({ "diagnostics": [], "triggerKind": 2 });
        assert_eq!(titles(range(0, 0), quiet, "echo\n"), Vec::<String>::new());
        let asked = json!({ "diagnostics": [], "triggerKind": 1 });
        assert_eq!(titles(range(0, 0), asked, "echo\n").len(), 2);
    }

    #[test]
    fn only_the_kinds_that_are_wanted_are_offered() {
        let only = |kinds: &[&str]| titles(range(0, 1), json!({ "only": kinds }), "# a AI?\n");
        assert_eq!(only(&["source.organizeImports"]), Vec::<String>::new());
        assert_eq!(only(&["quickfix"]), ["Roo: answer this: a"]);
        assert_eq!(only(&["refactor"]).len(), 3);
        assert_eq!(only(&[]).len(), 4);
    }
}
