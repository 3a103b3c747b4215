//! The index of a workspace as its users have it: questions about code, and what is known of the index itself.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::chunks::chunks;
use super::embedder::EmbedderSource;
use super::pass::{LARGEST, Mask, leave_out, text_of};
use super::passes::{Passes, Progress};
use super::ranked_chunk::{KeptChunk, RankedChunk};
use super::ranking::fused;
use super::store::{Fact, Scope, Store, StoreError};
use super::vector::Vector;
use super::words::question_words;
use roo_protocol::ids::Digest;
use roo_text::lines::LineRange;
use roo_workspace::{FileReader, Location, Purpose, ReadAccess, Resolved, WalkRules, Workspace};

/// Time that a search waits for the index to have all files.
const WAIT: Duration = Duration::from_secs(10);

/// Time that an embedder may take for a question.
const QUESTION: Duration = Duration::from_secs(10);

/// Chunks that are looked at for a result: some are of files that may not be read any more.
const CANDIDATES: usize = 200;

/// The most chunks of one file in a result, unless that file alone is searched.
const OF_ONE_FILE: usize = 2;

/// The index of a workspace, made and kept up when somebody searches.
///
/// A value holds no file open and runs nothing while nobody searches.
pub struct CodeIndex {
    passes: Option<Arc<Passes>>,
}

impl fmt::Debug for CodeIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CodeIndex").field("is_offered", &self.is_offered()).finish()
    }
}

/// A question about the code of a workspace.
#[derive(Clone, Debug)]
pub struct Question {
    /// The question, in any words.
    pub text: String,
    /// The file or directory to search; none for all workspace folders.
    pub place: Option<Resolved>,
    /// The most results.
    pub limit: usize,
}

/// Part of a file that a question is about.
#[derive(Clone, Debug)]
pub struct FoundChunk {
    /// The file.
    pub file: Resolved,
    /// Score, at most 1. It orders the results of one search and is not comparable to that of another.
    pub score: f64,
    /// Its lines.
    pub lines: LineRange,
    /// Their text as it is now, secrets masked.
    pub text: String,
}

/// Answer to a question.
#[derive(Debug)]
pub struct Findings {
    /// The best first.
    pub chunks: Vec<FoundChunk>,
    /// What the user of the results has to know, each a sentence.
    pub notes: Vec<String>,
}

/// Reasons why a search has no answer.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// There is no index here.
    #[error("there is no code index here")]
    NoIndex,
    /// It was cancelled.
    #[error("the search was cancelled")]
    Cancelled,
    /// The place is outside of all workspace folders.
    #[error("the code index has the workspace folders alone")]
    Outside,
    /// The question has only words that all texts have.
    #[error("the question has no word to search for: name what the code is about")]
    NoWords,
    /// The index can't be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The program ends.
    #[error("roo-lsp is ending")]
    Ending,
}

/// State of an index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexStatus {
    /// Files in it.
    pub files: u64,
    /// Files that there are.
    pub total: u64,
    /// Files that are left out because there are too many, or too large ones together.
    pub left_out: u64,
    /// Parts of files.
    pub chunks: u64,
    /// Vectors of those.
    pub vectors: u64,
    /// Size on disk, in bytes.
    pub bytes: u64,
    /// True if all files were looked at once.
    pub is_complete: bool,
}

impl IndexStatus {
    /// Share of the files that are in it, in percent.
    pub fn percent(&self) -> u64 {
        percent(self.files, self.total)
    }
}

fn percent(done: u64, total: u64) -> u64 {
    (done.min(total) * 100).checked_div(total).unwrap_or_default()
}

impl CodeIndex {
    /// The index of a workspace in a directory that is its own. Nothing is read or made by that.
    pub fn new(workspace: Arc<Workspace>, directory: PathBuf, embedders: EmbedderSource) -> Self {
        Self { passes: Some(Arc::new(Passes::new(workspace, directory, embedders))) }
    }

    /// No index.
    pub fn none() -> Self {
        Self { passes: None }
    }

    /// Returns whether there is, or can be, an index.
    pub fn is_offered(&self) -> bool {
        self.passes.as_ref().is_some_and(|passes| passes.workspace.roots().paths().next().is_some())
    }

    fn passes(&self) -> Result<&Arc<Passes>, SearchError> {
        self.passes.as_ref().ok_or(SearchError::NoIndex)
    }

    /// Answers a question from the files as they are now, as far as the index gets to them in ten seconds. `report` is
    /// called while it waits, with the files that are done and all.
    ///
    /// # Errors
    /// [`SearchError`]; a damaged index is none, it is made anew.
    pub async fn search(
        &self,
        question: Question,
        mask: Mask,
        cancel: &CancellationToken,
        report: &(dyn Fn(usize, usize) + Sync),
    ) -> Result<Findings, SearchError> {
        let passes = self.passes()?;
        if question.place.as_ref().is_some_and(|place| place.location() == Location::Outside) {
            return Err(SearchError::Outside);
        }
        let words = question_words(&question.text);
        if words.is_empty() {
            return Err(SearchError::NoWords);
        }
        let work = Arc::new(Work { passes: Arc::clone(passes), question, words, mask });
        let answer = async {
            match work.answer(report).await {
                // The pass may not have come to what is damaged.
                Err(SearchError::Store(StoreError::Damaged)) => {
                    passes.discard()?;
                    work.answer(report).await
                }
                answer => answer,
            }
        };
        cancel.run_until_cancelled(answer).await.unwrap_or(Err(SearchError::Cancelled))
    }

    /// Brings the index to the state of the files, however long that takes. `report` is called with the files that are
    /// done and all. Returns why the embedder did not serve, if one is configured.
    ///
    /// # Errors
    /// As for [`Self::search`].
    pub async fn build(
        &self,
        mask: Mask,
        cancel: &CancellationToken,
        report: &(dyn Fn(usize, usize) + Sync),
    ) -> Result<Option<String>, SearchError> {
        let passes = self.passes()?;
        if cancel.run_until_cancelled(reach(passes, &mask, report)).await.is_none() {
            passes.stop().await;
            return Err(SearchError::Cancelled);
        }
        let progress = passes.progress();
        match progress.fault {
            Some(fault) => {
                Err(SearchError::Store(Arc::try_unwrap(fault).unwrap_or_else(|fault| copy_of(&fault))))
            }
            None => Ok(progress.embedder_fault),
        }
    }

    /// State of the index; none where there is none. Reads the disk.
    ///
    /// # Errors
    /// An index that can't be read.
    pub fn status(&self) -> Result<Option<IndexStatus>, SearchError> {
        let passes = self.passes()?;
        Ok(match passes.directory.open_to_read()? {
            Some(store) => Some(IndexStatus { bytes: passes.directory.size(), ..status(&store)? }),
            None => None,
        })
    }

    /// Removes the index. Returns whether there was one. Reads the disk.
    ///
    /// # Errors
    /// [`StoreError::Busy`] while it is being built.
    pub fn clear(&self) -> Result<bool, SearchError> {
        let directory = &self.passes()?.directory;
        let existed = directory.exists();
        if existed {
            directory.remove(&directory.lock()?)?;
        }
        Ok(existed)
    }

    /// Stops what is being built. It goes on with the next search.
    pub async fn shut_down(&self) {
        if let Some(passes) = &self.passes {
            passes.stop().await;
        }
    }
}

/// Waits until a pass has ended that began after now.
async fn reach(passes: &Arc<Passes>, mask: &Mask, report: &(dyn Fn(usize, usize) + Sync)) {
    let (wanted, mut progress) = passes.request(mask);
    loop {
        let files = {
            let now = progress.borrow_and_update();
            if now.ended >= wanted {
                return;
            }
            now.files
        };
        if let Some((done, total)) = files.filter(|(_, total)| *total > 0) {
            report(done, total);
        }
        if progress.changed().await.is_err() {
            return;
        }
    }
}

/// An error of the same meaning, for a further reader.
fn copy_of(error: &StoreError) -> StoreError {
    match error {
        StoreError::Damaged => StoreError::Damaged,
        StoreError::Busy => StoreError::Busy,
        other => StoreError::Io {
            path: PathBuf::from("the index"),
            source: std::io::Error::other(other.to_string()),
        },
    }
}

/// Sentence about what may be missing.
fn completeness(status: &IndexStatus, is_current: bool, progress: &Progress) -> Option<String> {
    let missing = "results may be missing";
    let fault = progress.fault.as_deref();
    if !status.is_complete {
        let (done, total) = match progress.files {
            Some((done, total)) if total > 0 => (done as u64, total as u64),
            _ => (status.files, status.total),
        };
        let why = fault.map(|fault| format!(" ({fault})")).unwrap_or_default();
        return Some(format!(
            "The index is {} % complete, so {missing}{why}. Search again later, or use search_files.",
            percent(done, total)
        ));
    }
    if let Some(fault) = fault {
        return Some(format!("The index is not up to date, so {missing}: {fault}."));
    }
    if !is_current {
        return Some(format!("The index is being updated, so {missing}."));
    }
    (status.left_out > 0).then(|| {
        format!("The workspace is too large: {} files are not in the index, so {missing}.", status.left_out)
    })
}

fn status(store: &Store) -> Result<IndexStatus, StoreError> {
    let counts = store.counts()?;
    Ok(IndexStatus {
        files: counts.files,
        chunks: counts.chunks,
        vectors: counts.vectors,
        total: store.fact(Fact::Total)?,
        left_out: store.fact(Fact::LeftOut)?,
        is_complete: store.fact(Fact::Complete)? == 1,
        bytes: 0,
    })
}

/// A search.
struct Work {
    passes: Arc<Passes>,
    question: Question,
    words: Vec<String>,
    mask: Mask,
}

impl Work {
    async fn answer(
        self: &Arc<Self>,
        report: &(dyn Fn(usize, usize) + Sync),
    ) -> Result<Findings, SearchError> {
        let is_current = timeout(WAIT, reach(&self.passes, &self.mask, report)).await.is_ok();
        let mut notes = Vec::new();
        if self.passes.take_damage() {
            notes.push("The index was damaged, so it was built anew.".to_owned());
        }
        let progress = self.passes.progress();
        let (vector, fault) = match self.embed_question().await {
            Ok(vector) => (vector, progress.embedder_fault.clone()),
            Err(fault) => (None, Some(fault)),
        };
        notes.extend(fault.map(|fault| format!("Ranked by words alone: {fault}.")));
        let work = Arc::clone(self);
        let found = roo_durable::spawn_blocking(move || work.find(vector)).await;
        let (chunks, status) = found.map_err(|_| SearchError::Ending)??;
        notes.extend(completeness(&status, is_current, &progress));
        Ok(Findings { chunks, notes })
    }

    /// Returns the vector of the question, and the model that made it; none where no embedder is configured.
    async fn embed_question(&self) -> Result<Option<(String, Vector)>, String> {
        let source = Arc::clone(self.passes.embedders());
        // It reads the settings.
        let embedder = roo_durable::spawn_blocking(move || source()).await.ok().flatten();
        let Some(embedder) = embedder.transpose()? else { return Ok(None) };
        let answer = timeout(QUESTION, embedder.embed(vec![self.question.text.clone()])).await;
        let late = || format!("the embeddings endpoint did not answer within {} s", QUESTION.as_secs());
        let vectors = answer.unwrap_or_else(|_| Err(late()))?;
        let vector = vectors.first().and_then(|numbers| Vector::new(numbers));
        let vector = vector.ok_or("the embeddings endpoint returned no vector for the question")?;
        Ok(Some((embedder.name(), vector)))
    }

    fn find(&self, vector: Option<(String, Vector)>) -> Result<(Vec<FoundChunk>, IndexStatus), SearchError> {
        let Some(store) = self.passes.directory.open_to_read()? else {
            return Ok((vec![], IndexStatus::default()));
        };
        let mut roots = HashMap::new();
        for path in self.passes.workspace.roots().paths() {
            let place =
                path.to_str().and_then(|path| self.passes.workspace.resolve(path, Purpose::List).ok());
            if let (Some(root), Some(place)) = (store.root(path)?, place) {
                roots.insert(root, place);
            }
        }
        let Some(scope) = self.scope(&roots) else { return Ok((vec![], status(&store)?)) };
        let by_words = store.with_words(&self.words, &scope, CANDIDATES)?;
        let ranked = match vector {
            None => by_words,
            Some((model, vector)) => {
                let by_vector = store.near(&model, &vector, &scope, CANDIDATES)?;
                fused(&[by_words, by_vector])
            }
        };
        Ok((self.read(&ranked, &roots), status(&store)?))
    }

    /// What is searched; none where the index has nothing of it.
    fn scope(&self, roots: &HashMap<i64, Resolved>) -> Option<Scope> {
        let Some(place) = &self.question.place else {
            return Some(Scope::Roots(roots.keys().copied().collect()));
        };
        let root =
            roots.iter().find(|(_, root)| root.location() == place.location()).map(|(root, _)| *root)?;
        match place.relative() {
            "" => Some(Scope::Roots(vec![root])),
            path => Some(Scope::Below { root, path: path.to_owned() }),
        }
    }

    /// Reads the chunks from their files, as a search of the files would.
    fn read(&self, ranked: &[RankedChunk], roots: &HashMap<i64, Resolved>) -> Vec<FoundChunk> {
        let workspace = &self.passes.workspace;
        let mut readers: HashMap<i64, (WalkRules, FileReader<'_>)> = HashMap::new();
        let mut of_file: HashMap<(i64, &str), usize> = HashMap::new();
        let is_file = self.question.place.as_ref().is_some_and(|place| !place.is_directory());
        let most = if is_file { self.question.limit } else { OF_ONE_FILE };
        let mut found: Vec<FoundChunk> = Vec::new();
        for RankedChunk { chunk: kept, score } in ranked {
            let count = of_file.entry((kept.root, &kept.path)).or_default();
            let Some(folder) = roots.get(&kept.root).filter(|_| *count < most) else { continue };
            let (rules, reader) = readers.entry(kept.root).or_insert_with(|| {
                (WalkRules::new(workspace.rules(folder), leave_out), workspace.file_reader(folder))
            });
            let file = folder.below(&kept.path);
            if !rules.has(folder, &kept.path) {
                continue;
            }
            let Some((lines, text)) = self.current(kept, &file, reader) else { continue };
            // What has changed may have become one chunk.
            if found.iter().any(|known| known.file.absolute() == file.absolute() && known.lines == lines) {
                continue;
            }
            *count += 1;
            found.push(FoundChunk { file, score: *score, lines, text });
            if found.len() == self.question.limit {
                break;
            }
        }
        found
    }

    /// The lines of a chunk and their text as they are now; none where they may not be read, or are gone.
    fn current(
        &self,
        kept: &KeptChunk,
        file: &Resolved,
        reader: &mut FileReader<'_>,
    ) -> Option<(LineRange, String)> {
        let workspace = &self.passes.workspace;
        let bytes = match workspace.documents().at(file.absolute()) {
            // By its other names too.
            Some(_) if workspace.read_access(file) != ReadAccess::Free => return None,
            Some(document) => document.text.as_bytes().to_vec(),
            None => reader.read(file, LARGEST).ok().flatten()?,
        };
        let is_same = Digest::of(&bytes) == kept.digest;
        let text = text_of(&bytes, &self.mask)?;
        let lines = if is_same { kept.lines } else { self.best_chunk(&kept.path, &text)? };
        let shown: String =
            text.split_inclusive('\n').skip(lines.start - 1).take(lines.end + 1 - lines.start).collect();
        (!shown.is_empty()).then_some((lines, shown))
    }

    /// The lines of the chunk with most words of the question, in a file that has changed since the index has it.
    fn best_chunk(&self, path: &str, text: &str) -> Option<LineRange> {
        let count = |text: &str| {
            let words = question_words(text);
            self.words.iter().filter(|word| words.contains(word)).count()
        };
        let counted = chunks(path, text).into_iter().map(|chunk| (count(chunk.text), chunk.lines));
        counted
            .filter(|(count, _)| *count > 0)
            .max_by_key(|(count, lines)| (*count, usize::MAX - lines.start))
            .map(|(_, lines)| lines)
    }
}
