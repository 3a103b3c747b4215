//! Completion of a prompt that is being written: `@` and a file or what else can be pointed at, `/` and a mode or a command,
//! and arguments of prompts of MCP servers.
//! Task documents and forms of typed clients offer the same, in the same order.

mod of_code;
mod of_servers;

use std::cmp::Reverse;
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use tower_lsp::jsonrpc::{Error, Result};

use super::customization::{ask, server_prompts};
use super::session::{Session, WorkspaceServices};
use roo_protocol::prompt::{PromptItem, PromptItemKind};
use roo_text::render::one_line;
use roo_workspace::{FoundKind, Purpose, Walk, Workspace};

/// Maximum number of entries searched to find files, and of files offered.
const ENTRIES_TRIED: usize = 20_000;
const FILES: usize = 200;
/// The most files that are ordered by their time of change: each costs a look at the disk.
const DATED: usize = 2000;
/// The longest description, in characters.
const ABOUT: usize = 120;
/// Endings of images that models can be shown.
const IMAGES: [&str; 5] = [".png", ".jpg", ".jpeg", ".gif", ".webp"];

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

/// Completions of a prompt, the best one first.
#[derive(Default)]
pub(super) struct PromptCompletion {
    /// The end of the prompt that each of them replaces.
    pub(super) replaced: String,
    pub(super) items: Vec<PromptItem>,
    /// True if there are more for what was typed so far.
    pub(super) is_incomplete: bool,
}

/// Completes a prompt up to the cursor; none where there is nothing to complete.
pub(super) async fn complete(
    session: &Session,
    services: &WorkspaceServices,
    prompt: &str,
) -> Result<Option<PromptCompletion>> {
    let Some(token) = token(prompt) else { return of_servers::argument(services, prompt).await };
    let replaced = match token {
        Token::At(typed) => format!("@{typed}"),
        Token::Slash(typed, _) => format!("/{typed}"),
    };
    let (items, is_incomplete) = match token {
        Token::Slash(_, is_first) => (modes_and_commands(services, is_first).await?, false),
        Token::At(typed) => {
            let (of_servers, has_more) = of_servers::resources(services, typed).await?;
            let typed = typed.to_owned();
            let workspace = Arc::clone(services.engine.workspace());
            let open: HashSet<PathBuf> =
                session.documents.with_files().into_iter().map(|(path, _)| path).collect();
            let of_files = (Arc::clone(&workspace), typed.clone());
            let listed = tokio::task::spawn_blocking(move || mentions(&of_files.0, &of_files.1, &open));
            // Both at once: each of them goes through the workspace.
            let (of_code, listed) = tokio::join!(of_code::symbols(&workspace, &typed), listed);
            let (of_code, (mut items, is_cut)) = (of_code?, listed.map_err(|_| Error::internal_error())?);
            let keywords = items.iter().take_while(|item| item.kind == PromptItemKind::Keyword).count();
            items.splice(keywords..keywords, of_servers);
            items.extend(of_code.symbols);
            (items, is_cut || has_more || of_code.is_cut)
        }
    };
    Ok(Some(PromptCompletion { replaced, items, is_incomplete }))
}

async fn modes_and_commands(services: &WorkspaceServices, is_first: bool) -> Result<Vec<PromptItem>> {
    let mut items = modes_and_own_commands(services, is_first).await?;
    for prompt in server_prompts(services).await? {
        let about = [prompt.argument_hint, prompt.description].into_iter().flatten();
        let about = about.collect::<Vec<_>>().join(" · ");
        items.push(item(format!("/{}", prompt.name), PromptItemKind::Command, &about));
    }
    Ok(items)
}

async fn modes_and_own_commands(services: &WorkspaceServices, is_first: bool) -> Result<Vec<PromptItem>> {
    ask(services, move |customization| {
        let commands = customization.commands();
        let mut items = Vec::new();
        if is_first {
            let modes = customization.modes();
            let is_command = |slug: &str| commands.iter().any(|command| command.name == slug);
            for mode in modes.iter().filter(|mode| !is_command(&mode.slug)) {
                items.push(item(format!("/{}", mode.slug), PromptItemKind::Mode, &mode.name));
            }
        }
        for command in &commands {
            let about = command.description.as_deref().unwrap_or_default();
            items.push(item(format!("/{}", command.name), PromptItemKind::Command, about));
        }
        for skill in customization.skills().beside_commands(&commands) {
            let text = format!("/{}", skill.name);
            if items.iter().all(|item| item.text != text) {
                items.push(item(text, PromptItemKind::Command, &skill.description));
            }
        }
        items
    })
    .await
}

fn item(text: String, kind: PromptItemKind, about: &str) -> PromptItem {
    let detail = (!about.is_empty()).then(|| one_line(about, ABOUT));
    PromptItem { text, kind, detail }
}

/// What `@` may point at. Reads the disk.
fn mentions(workspace: &Workspace, typed: &str, open: &HashSet<PathBuf>) -> (Vec<PromptItem>, bool) {
    let keywords =
        [("problems", "what the editor finds wrong"), ("git-changes", "what is not committed yet")];
    let named = |name: &str| name.contains(&typed.to_lowercase());
    let keywords = keywords.into_iter().filter(|(name, _)| named(name));
    let mut items: Vec<PromptItem> =
        keywords.map(|(name, about)| item(format!("@{name}"), PromptItemKind::Keyword, about)).collect();
    let (files, is_cut) = files(workspace, typed, open);
    items.extend(files.into_iter().map(|path| {
        let name = path.to_lowercase();
        let kind = match () {
            () if path.ends_with('/') => PromptItemKind::Folder,
            () if IMAGES.iter().any(|ending| name.ends_with(ending)) => PromptItemKind::Image,
            () => PromptItemKind::File,
        };
        item(format!("@{}", escaped(&path)), kind, "")
    }));
    (items, is_cut)
}

/// A path as it is mentioned.
fn escaped(path: &str) -> String {
    path.replace(' ', "\\ ")
}

/// How well a path fits what was typed, from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    /// The name is what was typed.
    Name,
    /// The name begins with it.
    NameStart,
    /// A folder above begins with it, or the path does.
    PartStart,
    /// The name has it in it.
    InName,
    /// The path has it in it.
    InPath,
    /// The path has its letters, in this order.
    Letters,
}

impl Fit {
    /// `typed` is in small letters.
    fn new(path: &str, typed: &str) -> Option<Self> {
        let path = path.to_lowercase();
        let whole = path.trim_end_matches('/');
        let name = whole.rsplit('/').next().unwrap_or(whole);
        let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
        Some(if name == typed || stem == typed {
            Self::Name
        } else if name.starts_with(typed) {
            Self::NameStart
        } else if path.starts_with(typed) || path.contains(&format!("/{typed}")) {
            Self::PartStart
        } else if name.contains(typed) {
            Self::InName
        } else if path.contains(typed) {
            Self::InPath
        } else {
            let mut letters = path.chars();
            typed.chars().all(|wanted| letters.any(|letter| letter == wanted)).then_some(Self::Letters)?
        })
    }
}

/// Files and folders of the first workspace folder that an agent may see and whose paths fit what was typed, and whether
/// there are more: first how well they fit, then whether they are open, then when they were changed. Reads the disk.
fn files(workspace: &Workspace, typed: &str, open: &HashSet<PathBuf>) -> (Vec<String>, bool) {
    let Ok(root) = workspace.resolve(".", Purpose::List) else { return (vec![], false) };
    let folder = workspace.roots().paths().next().map(Path::to_path_buf).unwrap_or_default();
    let typed = typed.trim_start_matches('/').replace("\\ ", " ").to_lowercase();
    let walk = Walk { recursive: true, leave_out: |name| name == ".git" };
    let mut found = Vec::new();
    let mut is_cut = false;
    for (index, entry) in walk.below(&root, workspace.rules(&root)).enumerate() {
        if index >= ENTRIES_TRIED {
            is_cut = true;
            break;
        }
        let path = if entry.kind == FoundKind::File { entry.path } else { format!("{}/", entry.path) };
        if let Some(fit) = Fit::new(&path, &typed) {
            let is_closed = !open.contains(&folder.join(&path));
            found.push((fit, is_closed, path));
        }
    }
    found.sort();
    let changed = |path: &str| fs::metadata(folder.join(path)).and_then(|found| found.modified()).ok();
    let dated = found.len().min(DATED);
    let mut dated: Vec<(Fit, bool, Reverse<Option<SystemTime>>, String)> = found
        .drain(..dated)
        .map(|(fit, is_closed, path)| (fit, is_closed, Reverse(changed(&path)), path))
        .collect();
    dated.sort();
    is_cut |= dated.len() + found.len() > FILES;
    let paths = dated.into_iter().map(|(.., path)| path).take(FILES);
    (paths.collect(), is_cut)
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

    #[test]
    fn a_name_fits_better_than_a_path_and_letters_fit_last() {
        let fits = [
            ("src/cart.py", Fit::Name),
            ("src/cart_test.py", Fit::NameStart),
            ("cart/a.py", Fit::PartStart),
            ("lib/shopcart.py", Fit::InName),
            ("lib/mycart/a.py", Fit::InPath),
            ("core/art.py", Fit::Letters),
        ];
        for (path, fit) in fits {
            assert_eq!(Fit::new(path, "cart"), Some(fit), "{path}");
        }
        assert!(fits.is_sorted_by_key(|(_, fit)| *fit));
        assert_eq!(Fit::new("src/dog.py", "cart"), None);
        assert_eq!(Fit::new("src/", "src"), Some(Fit::Name));
    }
}
