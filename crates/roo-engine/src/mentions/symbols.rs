//! Definitions in all code of a workspace by their names: what `@Name` in a message leads to, and what completes it.
//!
//! Files are looked at as a search does, in a bounded time: as editors have them open, and those not at all that may not be
//! read. An index, where there is one, says which come first; nothing depends on it.

use std::collections::HashSet;
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use memchr::memmem::Finder;

use roo_index::CodeIndex;
use roo_syntax::{Symbol, SymbolName, is_code, symbols};
use roo_workspace::{
    FileReader, FoundKind, Location, Purpose, ReadAccess, Resolved, Walk, Workspace, to_utf8,
};

/// The largest file that is looked into, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Files that one thread takes at once.
const BATCH: usize = 32;

/// The most threads.
const WORKERS: usize = 4;

/// Definitions to find.
#[derive(Clone, Debug)]
pub enum WantedSymbols {
    /// Those of this name.
    Named(SymbolName),
    /// Those whose names begin with this text.
    Beginning(String),
}

impl WantedSymbols {
    /// A text that each file has in it that defines one of them.
    fn text(&self) -> &str {
        match self {
            Self::Named(name) => name.last(),
            Self::Beginning(text) => text,
        }
    }

    /// Whether a definition of this name may be one of them, whatever is around it.
    fn may_be(&self, name: &str) -> bool {
        match self {
            Self::Named(wanted) => name == wanted.last(),
            Self::Beginning(text) => name.starts_with(text.as_str()),
        }
    }

    fn has(&self, symbol: &Symbol) -> bool {
        match self {
            Self::Named(name) => name.is_of(symbol),
            Self::Beginning(_) => self.may_be(&symbol.name),
        }
    }
}

/// Bounds of a search for definitions.
#[derive(Clone, Copy, Debug)]
pub struct SymbolLimits {
    /// The longest time.
    pub time: Duration,
    /// The most definitions: more than these are not looked for.
    pub most: usize,
}

/// Definitions that were found.
#[derive(Debug, Default)]
pub struct FoundSymbols {
    /// Each with its file, by path and line.
    pub symbols: Vec<(Resolved, Symbol)>,
    /// True if all files were looked at.
    pub is_complete: bool,
}

/// Finds definitions in the code of the workspace folders. Reads the disk, on several threads.
pub fn find_symbols(
    workspace: &Workspace,
    index: Option<&CodeIndex>,
    wanted: &WantedSymbols,
    limits: SymbolLimits,
) -> FoundSymbols {
    let deadline = Instant::now() + limits.time;
    let folders: Vec<Resolved> = workspace
        .roots()
        .paths()
        .filter_map(|path| workspace.resolve(path.to_str()?, Purpose::List).ok())
        .collect();
    let buffers: HashSet<PathBuf> =
        workspace.documents().with_files().into_iter().map(|(path, _)| path).collect();
    let may_be_read = |file: &Resolved| {
        matches!(file.location(), Location::Inside { .. })
            && is_code(file.relative())
            && workspace.read_access(file) == ReadAccess::Free
    };
    let in_editor: Vec<Resolved> = buffers
        .iter()
        .filter_map(|path| workspace.resolve(path.to_str()?, Purpose::Read).ok())
        .filter(may_be_read)
        .collect();
    let in_index = index.map(|index| index.files_with(wanted.text())).unwrap_or_default();
    let in_index = in_index.into_iter().filter(may_be_read);
    let walked = folders.iter().flat_map(|folder| {
        let walk = Walk { recursive: true, leave_out: |name| name == ".git" };
        let found = walk.below(folder, workspace.rules(folder));
        let found = found.filter(|found| found.kind == FoundKind::File && found.access == ReadAccess::Free);
        found.filter(|found| is_code(&found.path)).map(move |found| folder.below(&found.path))
    });
    let mut seen: HashSet<PathBuf> = in_editor.iter().map(|file| file.absolute().to_path_buf()).collect();
    let is_new = |file: &Resolved| seen.insert(file.absolute().to_path_buf());
    let files = Mutex::new(in_index.chain(walked).filter(is_new));
    let search = SymbolSearch {
        workspace,
        folders: &folders,
        buffers: &buffers,
        wanted,
        finder: Finder::new(wanted.text()),
        deadline,
        most: limits.most,
        found: Mutex::default(),
        is_over: AtomicBool::new(false),
    };
    // These are few, and whoever asks is at work on them: whatever the time.
    for file in &in_editor {
        search.add(file, search.look_in_editor(file).unwrap_or_default());
    }
    let next = || -> Vec<Resolved> {
        let mut files = files.lock().unwrap_or_else(PoisonError::into_inner);
        files.by_ref().take_while(|_| !search.is_over()).take(BATCH).collect()
    };
    let workers = std::thread::available_parallelism().map_or(1, NonZero::get).min(WORKERS);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| search.work(&next));
        }
    });
    let is_complete = !search.is_over.load(Ordering::Relaxed);
    let mut symbols = search.found.into_inner().unwrap_or_else(PoisonError::into_inner);
    symbols.sort_by_cached_key(|(file, symbol)| (file.display(), symbol.lines.start, symbol.lines.end));
    symbols.truncate(limits.most);
    FoundSymbols { symbols, is_complete }
}

/// A search that is under way.
struct SymbolSearch<'a> {
    workspace: &'a Workspace,
    folders: &'a [Resolved],
    /// Files that an editor has open, by real path.
    buffers: &'a HashSet<PathBuf>,
    wanted: &'a WantedSymbols,
    finder: Finder<'a>,
    deadline: Instant,
    most: usize,
    found: Mutex<Vec<(Resolved, Symbol)>>,
    /// Set when not all files are looked at.
    is_over: AtomicBool,
}

impl SymbolSearch<'_> {
    fn is_over(&self) -> bool {
        let is_late = Instant::now() >= self.deadline;
        if is_late {
            self.is_over.store(true, Ordering::Relaxed);
        }
        is_late || self.is_over.load(Ordering::Relaxed)
    }

    /// Looks into files until there are no more.
    fn work(&self, next: &dyn Fn() -> Vec<Resolved>) {
        let mut readers: Vec<(Location, FileReader<'_>)> = self
            .folders
            .iter()
            .map(|folder| (folder.location(), self.workspace.file_reader(folder)))
            .collect();
        loop {
            let files = next();
            if files.is_empty() {
                return;
            }
            for file in files {
                if self.is_over() {
                    return;
                }
                let of_folder = readers.iter_mut().find(|(location, _)| *location == file.location());
                let Some((_, reader)) = of_folder else { continue };
                self.add(&file, self.look(&file, reader));
            }
        }
    }

    fn add(&self, file: &Resolved, symbols: Vec<Symbol>) {
        if symbols.is_empty() {
            return;
        }
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.extend(symbols.into_iter().map(|symbol| (file.clone(), symbol)));
        if found.len() > self.most {
            self.is_over.store(true, Ordering::Relaxed);
        }
    }

    /// The wanted definitions of a file on disk, or of what an editor has of it by another of its names.
    fn look(&self, file: &Resolved, reader: &mut FileReader<'_>) -> Vec<Symbol> {
        if let Some(found) = self.look_in_editor(file) {
            return found;
        }
        // What can't be read is nothing that a name leads to.
        match reader.read(file, MAX_FILE_BYTES) {
            Ok(Some(bytes)) => self.find(file, &to_utf8(bytes)),
            Ok(None) | Err(_) => vec![],
        }
    }

    /// Those of a file that an editor has open; none for another.
    fn look_in_editor(&self, file: &Resolved) -> Option<Vec<Symbol>> {
        let is_open = self.buffers.contains(file.absolute());
        let document = is_open.then(|| self.workspace.documents().at(file.absolute())).flatten()?;
        // By its other names too.
        let is_free = self.workspace.read_access(file) == ReadAccess::Free;
        Some(if is_free { self.find(file, document.text.as_bytes()) } else { vec![] })
    }

    fn find(&self, file: &Resolved, text: &[u8]) -> Vec<Symbol> {
        if self.finder.find(text).is_none() {
            return vec![];
        }
        let text = String::from_utf8_lossy(text);
        let is_wanted = |name: &str| self.wanted.may_be(name);
        let mut found = symbols(file.relative(), &text, is_wanted).unwrap_or_default();
        found.retain(|symbol| self.wanted.has(symbol));
        found
    }
}
