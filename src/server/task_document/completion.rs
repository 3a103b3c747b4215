//! Completion in the prompt of a task document: `@` and a file or what else can be pointed at, `/` and a mode or a
//! command.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};
use tower_lsp::jsonrpc::{Error, Result};

use super::DocumentPosition;
use crate::server::customization::ask;
use crate::server::session::Session;
use roo_text::position::Range;
use roo_text::render::one_line;
use roo_workspace::{FoundKind, Purpose, Walk, Workspace};

/// Maximum number of entries searched to find files, and of files offered.
const ENTRIES_TRIED: usize = 20_000;
const FILES: usize = 200;
/// The longest description, in characters.
const ABOUT: usize = 120;
/// LSP's kinds of items.
const FILE: u32 = 17;
const KEYWORD: u32 = 14;
const MODE: u32 = 20;
const COMMAND: u32 = 3;

/// Token that is being written.
#[derive(Debug, PartialEq, Eq)]
enum Token<'a> {
    /// Behind `@`.
    At(&'a str),
    /// Behind `/`; whether it is the prompt's first word, and so may name a mode.
    Slash(&'a str, bool),
}

/// The word that ends at the end of this text.
fn token(prompt: &str) -> Option<Token<'_>> {
    let word = prompt.rsplit(char::is_whitespace).next().unwrap_or_default();
    match word.chars().next()? {
        '@' => Some(Token::At(&word[1..])),
        '/' => Some(Token::Slash(&word[1..], prompt.trim_start().len() == word.len())),
        _ => None,
    }
}

/// `textDocument/completion`.
pub(super) async fn complete(session: &Arc<Session>, place: &DocumentPosition) -> Result<Value> {
    let positions = place.positions();
    let offset = positions.offset(place.position);
    let prompt = place.prompt_start();
    let Some(token) = place.text.get(prompt..offset).and_then(token) else { return Ok(Value::Null) };
    let (Token::At(typed) | Token::Slash(typed, _)) = &token;
    let range = DocumentPosition::range_of(&positions, &(offset - typed.len() - 1..offset));
    let services = session.services().await?;
    match token {
        Token::Slash(_, first) => {
            ask(services, move |customization| {
                let commands = customization.commands();
                let mut items = Vec::new();
                if first {
                    let modes = customization.modes();
                    let is_command = |slug: &str| commands.iter().any(|command| command.name == slug);
                    for mode in modes.iter().filter(|mode| !is_command(&mode.slug)) {
                        items.push(item(&format!("/{}", mode.slug), MODE, &mode.name, range));
                    }
                }
                for command in &commands {
                    let about = command.description.as_deref().unwrap_or_default();
                    items.push(item(&format!("/{}", command.name), COMMAND, about, range));
                }
                json!({ "isIncomplete": false, "items": items })
            })
            .await
        }
        Token::At(typed) => {
            let typed = typed.to_owned();
            let workspace = Arc::clone(services.engine.workspace());
            let listed = tokio::task::spawn_blocking(move || {
                let mut items: Vec<Value> = [
                    ("problems", "what the editor finds wrong"),
                    ("git-changes", "what is not committed yet"),
                ]
                .iter()
                .map(|(name, about)| item(&format!("@{name}"), KEYWORD, about, range))
                .collect();
                let (files, cut) = files(&workspace, &typed);
                items.extend(files.iter().map(|path| item(&format!("@{}", escaped(path)), FILE, "", range)));
                json!({ "isIncomplete": cut, "items": items })
            });
            listed.await.map_err(|_| Error::internal_error())
        }
    }
}

fn item(label: &str, kind: u32, about: &str, range: Range) -> Value {
    let mut item = json!({
        "label": label,
        "kind": kind,
        "filterText": label,
        "textEdit": { "range": range, "newText": label },
    });
    if !about.is_empty() {
        item["detail"] = one_line(about, ABOUT).into();
    }
    item
}

/// A path as it is mentioned.
fn escaped(path: &str) -> String {
    path.replace(' ', "\\ ")
}

/// Files and directories of the first workspace folder that an agent may see and whose paths have what was
/// typed in them, and whether there are more. Reads the disk.
fn files(workspace: &Workspace, typed: &str) -> (Vec<String>, bool) {
    let Ok(root) = workspace.resolve(".", Purpose::List) else { return (vec![], false) };
    let typed = typed.trim_start_matches('/').replace("\\ ", " ").to_lowercase();
    let walk = Walk { recursive: true, leave_out: |name| name == ".git" };
    let mut paths = BTreeSet::new();
    let mut cut = false;
    for (index, found) in walk.below(&root, workspace.rules(&root)).enumerate() {
        if index >= ENTRIES_TRIED || paths.len() >= FILES {
            cut = true;
            break;
        }
        let path = if found.kind == FoundKind::File { found.path } else { format!("{}/", found.path) };
        if path.to_lowercase().contains(&typed) {
            paths.insert(path);
        }
    }
    (paths.into_iter().collect(), cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_before_the_cursor_is_completed() {
        assert_eq!(token("look at @src/a"), Some(Token::At("src/a")));
        assert_eq!(token("\n\n/co"), Some(Token::Slash("co", true)));
        assert_eq!(token("do /in"), Some(Token::Slash("in", false)));
        assert_eq!(token("a\u{a0}@b"), Some(Token::At("b")));
        for nothing in ["", "word", "a@b", "@a "] {
            assert_eq!(token(nothing), None, "{nothing}");
        }
    }
}
