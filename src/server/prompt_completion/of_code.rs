//! Completion by what the code of the workspace defines: `@Name` and `@symbol:Name`.

use std::sync::Arc;
use std::time::Duration;

use roo_engine::mentions::{FoundSymbols, SymbolLimits, WantedSymbols, find_symbols};
use tower_lsp::jsonrpc::{Error, Result};

use super::item;
use roo_protocol::prompt::{PromptItem, PromptItemKind};
use roo_workspace::Workspace;

/// What stands before a name that can be nothing else.
const PREFIX: &str = "symbol:";
/// The fewest letters of a name that are completed: fewer fit too much.
const LETTERS: usize = 3;
/// The most names.
const NAMES: usize = 20;
/// The most definitions that are looked for, of which several may have one name.
const DEFINITIONS: usize = 100;
/// Time for a name, and for one that can be nothing else: somebody is typing.
const TIME: Duration = Duration::from_millis(100);
const LONGER_TIME: Duration = Duration::from_secs(1);

/// Completions with names of definitions.
#[derive(Default)]
pub(super) struct SymbolItems {
    pub(super) symbols: Vec<PromptItem>,
    /// True if there may be more.
    pub(super) is_cut: bool,
}

/// The definitions whose names begin with what was typed behind the `@`, by their names. Reads the disk.
pub(super) async fn symbols(workspace: &Arc<Workspace>, typed: &str) -> Result<SymbolItems> {
    let (prefix, name) = match typed.strip_prefix(PREFIX) {
        Some(name) => (PREFIX, name),
        None => ("", typed),
    };
    let is_name = name.chars().all(|c| c.is_alphanumeric() || c == '_') && name.chars().count() >= LETTERS;
    if !is_name {
        return Ok(SymbolItems::default());
    }
    let limits = SymbolLimits { time: if prefix.is_empty() { TIME } else { LONGER_TIME }, most: DEFINITIONS };
    let (workspace, wanted) = (Arc::clone(workspace), WantedSymbols::Beginning(name.to_owned()));
    let search = move || find_symbols(&workspace, None, &wanted, limits);
    let found = tokio::task::spawn_blocking(search).await.map_err(|_| Error::internal_error())?;
    Ok(items(prefix, found))
}

fn items(prefix: &str, FoundSymbols { mut symbols, is_complete }: FoundSymbols) -> SymbolItems {
    symbols.sort_by(|(_, one), (_, other)| {
        // The shorter a name, the more of it was typed.
        (one.name.chars().count(), &one.name).cmp(&(other.name.chars().count(), &other.name))
    });
    let mut named: Vec<PromptItem> = Vec::new();
    let mut by_name = symbols.chunk_by(|(_, one), (_, other)| one.name == other.name);
    for group in by_name.by_ref().take(NAMES) {
        let Some((file, symbol)) = group.first() else { continue };
        let more = match group.len() {
            1 => String::new(),
            count => format!(" and {} more", count - 1),
        };
        let about = format!("{}:{}{more}", file.display(), symbol.lines.start);
        named.push(item(format!("@{prefix}{}", symbol.name), PromptItemKind::Symbol, &about));
    }
    let is_cut = by_name.next().is_some() || !is_complete;
    SymbolItems { symbols: named, is_cut }
}
