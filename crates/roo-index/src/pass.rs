//! A pass over the workspace, which brings the index to the state of its files: the open documents of the editor over the
//! disk. It runs on a thread of its own and keeps what it has done so far, so that the next one goes on from there.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use tokio_util::sync::CancellationToken;

use super::chunks::chunks;
use super::store::{Changes, Fact, KnownFile, NewChunk, Store, StoreError};
use super::words::append_words;
use roo_durable::Fingerprint;
use roo_protocol::ids::Digest;
use roo_workspace::{FoundKind, Purpose, ReadAccess, Resolved, Walk, Workspace, as_utf8};

/// The largest file, in bytes.
pub(crate) const MAX_FILE_BYTES: u64 = 1 << 20;

/// The most files.
const FILES: usize = 100_000;

/// The most text of all files together, in bytes.
const TOTAL: u64 = 2 << 30;

/// Files that are kept together.
const BATCH_FILES: usize = 64;

/// Text that is kept together, in bytes: what is done again after a kill.
const BATCH_BYTES: usize = 4 << 20;

/// Pages that are merged between two looks at whether to go on.
const MERGED_PAGES: i64 = 64;

/// Replaces secrets in a text, each line where it was; none where there is none.
pub type Mask = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Names of directories that are not looked into.
pub(crate) fn leave_out(name: &str) -> bool {
    name == ".git"
}

/// Returns whether a file is generated or data, which would hide what people write.
fn is_generated(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    matches!(name, "package-lock.json" | "pnpm-lock.yaml" | "npm-shrinkwrap.json" | "go.sum")
        || [".lock", ".min.js", ".min.css", ".map", ".svg", ".snap", ".csv", ".tsv", ".jsonl", ".ndjson"]
            .iter()
            .any(|ending| name.ends_with(ending))
}

/// A file of the index: the path of its root, and its own below that.
pub(crate) type IndexedFile = (PathBuf, String);

/// What a pass works with.
pub(crate) struct Pass<'a> {
    pub(crate) workspace: &'a Workspace,
    pub(crate) store: &'a Store,
    pub(crate) mask: &'a Mask,
    /// Files that have to be taken in whether they have changed or not.
    pub(crate) retaken: &'a HashSet<IndexedFile>,
    pub(crate) stop: &'a CancellationToken,
    /// Receives the number of files that are up to date, and of all.
    pub(crate) report: &'a dyn Fn(usize, usize),
}

/// How a pass ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PassEnd {
    /// All files were looked at.
    Complete,
    /// It was stopped.
    Stopped,
}

/// A file that the walk has found.
struct Found {
    path: String,
    fingerprint: Option<Fingerprint>,
}

/// A file that has to be looked into, in the folder of this number.
struct Stale {
    folder: usize,
    found: Found,
    known: Option<KnownFile>,
}

/// What differs between the files and the index.
struct Comparison {
    folders: Vec<Folder>,
    stale: Vec<Stale>,
}

/// A workspace folder during a pass.
struct Folder {
    place: Resolved,
    root: i64,
}

/// What the index is to have of a file that was read.
enum FileChange {
    /// The contents of this file are the known ones.
    Fingerprint { file: i64, fingerprint: Option<Fingerprint> },
    /// They are new, or differ.
    Contents {
        root: i64,
        path: String,
        fingerprint: Option<Fingerprint>,
        digest: Digest,
        chunks: Vec<NewChunk>,
    },
}

impl FileChange {
    fn keep(&self, changes: &Changes<'_>) -> Result<(), StoreError> {
        match self {
            Self::Fingerprint { file, fingerprint } => changes.touch(*file, *fingerprint),
            Self::Contents { root, path, fingerprint, digest, chunks } => {
                changes.replace(*root, path, (*fingerprint, *digest), chunks)
            }
        }
    }
}

impl Pass<'_> {
    /// Brings the index to the state of the files.
    pub(crate) fn run(&self) -> Result<PassEnd, StoreError> {
        let Some(Comparison { folders, stale }) = self.compare()? else { return Ok(PassEnd::Stopped) };
        let total = usize::try_from(self.store.fact(Fact::Total)?).unwrap_or_default();
        let mut left = stale.len();
        let is_large = left > BATCH_FILES;
        (self.report)(total.saturating_sub(left), total);
        let mut stale = stale.into_iter();
        while left > 0 {
            let batch = self.prepare(&folders, &mut stale);
            // No file is read and parsed meanwhile: other writers wait for the end of it.
            let changes = self.store.change()?;
            batch.iter().try_for_each(|change| change.keep(&changes))?;
            changes.commit()?;
            if self.stop.is_cancelled() {
                return Ok(PassEnd::Stopped);
            }
            left -= batch.len();
            (self.report)(total.saturating_sub(left), total);
        }
        if is_large && !self.merge()? {
            return Ok(PassEnd::Stopped);
        }
        let done = self.store.change()?;
        done.set(Fact::Complete, 1)?;
        done.commit()?;
        Ok(PassEnd::Complete)
    }

    /// Reads the next files, as many as are kept together: fewer when it was stopped.
    fn prepare(&self, folders: &[Folder], stale: &mut impl Iterator<Item = Stale>) -> Vec<FileChange> {
        let mut batch = Vec::new();
        let mut bytes = 0;
        let mut readers: HashMap<usize, _> = HashMap::new();
        while batch.len() < BATCH_FILES && bytes < BATCH_BYTES && !self.stop.is_cancelled() {
            let Some(Stale { folder, found, known }) = stale.next() else { break };
            let Folder { place, root } = &folders[folder];
            let reader = readers.entry(folder).or_insert_with(|| self.workspace.file_reader(place));
            let file = place.below(&found.path);
            let contents = match buffer(self.workspace, &file) {
                Some(text) => Some((None, text.as_bytes().to_vec())),
                // What can't be read, or not any more, has nothing to be found.
                None => {
                    let read = reader.read(&file, MAX_FILE_BYTES).ok().flatten();
                    read.map(|bytes| (found.fingerprint, bytes))
                }
            };
            // It may be hidden by another of its names, which no fingerprint shows.
            let (fingerprint, contents) = contents.unwrap_or_default();
            let digest = Digest::of(&contents);
            bytes += contents.len();
            batch.push(match known.filter(|known| known.digest == digest) {
                Some(known) => FileChange::Fingerprint { file: known.id, fingerprint },
                None => {
                    let chunks = new_chunks(&found.path, &contents, self.mask);
                    FileChange::Contents { root: *root, path: found.path, fingerprint, digest, chunks }
                }
            });
        }
        batch
    }

    /// Removes from the index what is gone, and returns what is new or changed; none when it was stopped.
    fn compare(&self) -> Result<Option<Comparison>, StoreError> {
        let roots: Vec<PathBuf> = self.workspace.roots().paths().map(PathBuf::from).collect();
        let (mut total, mut bytes, mut left_out) = (0, 0, 0);
        let (mut folders, mut stale) = (Vec::new(), Vec::new());
        for path in &roots {
            let place = path.to_str().and_then(|path| self.workspace.resolve(path, Purpose::List).ok());
            let Some(place) = place else { continue };
            let changes = self.store.change()?;
            let root = changes.add_root(path)?;
            changes.commit()?;
            let mut known = self.store.files(root)?;
            // Files of a folder within this one are that one's.
            let inner: Vec<String> = roots
                .iter()
                .filter_map(|other| other.strip_prefix(path).ok()?.to_str().map(|below| format!("{below}/")))
                .filter(|below| below != "/")
                .collect();
            let walk = Walk { recursive: true, leave_out };
            for entry in walk.below(&place, self.workspace.rules(&place)) {
                if self.stop.is_cancelled() {
                    return Ok(None);
                }
                let is_text = entry.kind == FoundKind::File
                    && entry.access == ReadAccess::Free
                    && !is_generated(&entry.path)
                    && !inner.iter().any(|inner| entry.path.starts_with(inner));
                if !is_text {
                    continue;
                }
                let Ok(found) = fs::symlink_metadata(path.join(&entry.path)) else { continue };
                if !found.is_file() || found.len() > MAX_FILE_BYTES {
                    continue;
                }
                if total == FILES || bytes + found.len() > TOTAL {
                    left_out += 1;
                    continue;
                }
                (total, bytes) = (total + 1, bytes + found.len());
                let fingerprint = Some(Fingerprint::from_metadata(&found));
                let fingerprint = fingerprint.filter(|found| found.is_settled(SystemTime::now()));
                let found = Found { fingerprint, path: entry.path };
                let known = known.remove(&found.path);
                let is_retaken =
                    !self.retaken.is_empty() && self.retaken.contains(&(path.clone(), found.path.clone()));
                let known = known.filter(|_| !is_retaken);
                let is_same = match (known, buffer(self.workspace, &place.below(&found.path))) {
                    (Some(known), Some(text)) => known.digest == Digest::of(text.as_bytes()),
                    (Some(known), None) => fingerprint.is_some() && known.fingerprint == fingerprint,
                    (None, _) => false,
                };
                if !is_same {
                    stale.push(Stale { folder: folders.len(), found, known });
                }
            }
            let changes = self.store.change()?;
            known.values().try_for_each(|gone| changes.remove(gone.id))?;
            changes.commit()?;
            folders.push(Folder { place, root });
        }
        let changes = self.store.change()?;
        for (root, path) in changes.roots()? {
            // Another server may have a folder that this one doesn't.
            if !roots.contains(&path) && !path.is_dir() {
                changes.remove_root(root)?;
            }
        }
        changes.set(Fact::Total, total as u64)?;
        changes.set(Fact::LeftOut, left_out)?;
        changes.commit()?;
        Ok(Some(Comparison { folders, stale }))
    }

    /// Merges what was written in many pieces, step by step. Returns false when it was stopped.
    fn merge(&self) -> Result<bool, StoreError> {
        let mut pages = -MERGED_PAGES;
        while self.store.merge(pages)? {
            if self.stop.is_cancelled() {
                return Ok(false);
            }
            pages = MERGED_PAGES;
        }
        self.store.checkpoint()?;
        Ok(true)
    }
}

/// The text of a file in the editor, where it is open: an empty one where another of its names hides it.
pub(crate) fn buffer(workspace: &Workspace, file: &Resolved) -> Option<Arc<str>> {
    let text = workspace.documents().at(file.absolute())?.text;
    Some(if workspace.read_access(file) == ReadAccess::Free { text } else { Arc::default() })
}

/// The text of a file as it is searched and shown, whatever its encoding; none for a binary file.
pub(crate) fn text_of(bytes: &[u8], mask: &Mask) -> Option<String> {
    let bytes = as_utf8(bytes);
    if memchr::memchr(0, &bytes).is_some() {
        return None;
    }
    let text = String::from_utf8_lossy(&bytes);
    // What is masked isn't found either: else a search could spell it out.
    Some(mask(&text).unwrap_or_else(|| text.into_owned()))
}

/// The chunks of a file as they are kept.
fn new_chunks(path: &str, bytes: &[u8], mask: &Mask) -> Vec<NewChunk> {
    let Some(text) = text_of(bytes, mask) else { return vec![] };
    let chunk = |chunk: super::chunks::Chunk<'_>| {
        let (mut name, mut body) = (String::new(), String::new());
        chunk.names.iter().for_each(|line| append_words(line, &mut name));
        append_words(chunk.text, &mut body);
        NewChunk { lines: chunk.lines, digest: Digest::of(chunk.text), name, body }
    };
    chunks(path, &text).into_iter().map(chunk).collect()
}
