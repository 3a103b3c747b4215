//! The index of a workspace as its users have it: questions about code, and what is known of the index itself.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::chunks::chunks;
use super::embedder::EmbedderSource;
use super::pass::{IndexedFile, MAX_FILE_BYTES, Mask, buffer, leave_out, text_of};
use super::passes::{Passes, Progress};
use super::ranked_chunk::{KeptChunk, RankedChunk};
use super::ranking::fused;
use super::store::{Counts, Fact, Scope, Store, StoreError, WordSearchBounds};
use super::vector::Vector;
use super::words::question_words;
use roo_protocol::ids::Digest;
use roo_text::lines::LineRange;
use roo_workspace::{FileReader, Location, Purpose, Resolved, WalkRules, Workspace};

/// Time that a search waits for the index to have all files.
const WAIT: Duration = Duration::from_secs(10);

/// Time that an embedder may take for a question.
const QUESTION: Duration = Duration::from_secs(10);

/// Time that a search waits for vectors of what has changed, where there is little of that.
const VECTORS: Duration = Duration::from_secs(5);

/// Chunks that are looked at for a result: some are of files that may not be read any more.
const CANDIDATES: usize = 200;

/// Bounds of looking them up by words.
const BY_WORDS: WordSearchBounds =
    WordSearchBounds { found: CANDIDATES, ranked: 20_000, ranked_by_common: 5_000 };

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
    pub file: Resolved,
    /// Score, at most 1. It orders the results of one search and is not comparable to that of another.
    pub score: f64,
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
    #[error("the code index covers workspace folders only")]
    Outside,
    /// The question has only words that all texts have.
    #[error("the question has no word to search for: name what the code is about")]
    NoWords,
    /// The index can't be used. All who wait for a pass get the same error.
    #[error(transparent)]
    Store(Arc<StoreError>),
    /// The program ends.
    #[error("roo-lsp is ending")]
    Ending,
}

impl From<StoreError> for SearchError {
    fn from(error: StoreError) -> Self {
        Self::Store(Arc::new(error))
    }
}

/// State of an index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexStatus {
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
    /// [`SearchError`]; a damaged index is none: it is rebuilt.
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
        let search = Arc::new(Search { passes: Arc::clone(passes), question, words, mask });
        let answer = async {
            match search.answer(report).await {
                // The pass may not have come to what is damaged.
                Err(SearchError::Store(error)) if matches!(*error, StoreError::Damaged) => {
                    let passes = Arc::clone(passes);
                    // It removes files.
                    let discarded = roo_durable::spawn_blocking(move || passes.discard()).await;
                    discarded.map_err(|_| SearchError::Ending)??;
                    search.answer(report).await
                }
                answer => answer,
            }
        };
        cancel.run_until_cancelled(answer).await.unwrap_or(Err(SearchError::Cancelled))
    }

    /// Brings the index to the state of the files, with all vectors, however long that takes. `report` is called with the
    /// files that are done and all. Returns why the embedder did not serve, if one is configured.
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
        let build = async {
            up_to_date(passes, &mask, report).await;
            passes.idle().await;
        };
        if cancel.run_until_cancelled(build).await.is_none() {
            passes.stop().await;
            return Err(SearchError::Cancelled);
        }
        let progress = passes.progress();
        match progress.fault {
            Some(fault) => Err(SearchError::Store(fault)),
            None => Ok(progress.embedder_fault),
        }
    }

    /// Files that may have a name in them, the likeliest first, by the index as it is: it is not brought up to date, so files
    /// may be missing, and others may have changed. Nothing where there is no index. Reads the disk.
    pub fn files_with(&self, name: &str) -> Vec<Resolved> {
        let Ok(passes) = self.passes() else { return vec![] };
        passes.files_with(&question_words(name)).unwrap_or_else(|error| {
            tracing::debug!(%error, "the code index could not be read");
            vec![]
        })
    }

    /// State of the index; none where there is none. Reads the disk.
    ///
    /// # Errors
    /// An index that can't be read.
    pub fn status(&self) -> Result<Option<IndexStatus>, SearchError> {
        let passes = self.passes()?;
        Ok(match passes.directory.open_existing()? {
            Some(store) => {
                let paths = passes.workspace.roots().paths();
                let roots: Vec<Option<i64>> = paths.map(|path| store.root(path)).collect::<Result<_, _>>()?;
                let roots: Vec<i64> = roots.into_iter().flatten().collect();
                let Counts { files, chunks, vectors } = store.counts(&roots)?;
                let bytes = passes.directory.size();
                let Completeness { total, left_out, is_complete, .. } = Completeness::read(&store, &roots)?;
                Some(IndexStatus { files, total, left_out, chunks, vectors, bytes, is_complete })
            }
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

    /// Stops what is being built, and waits for its end for a few seconds. It goes on with the next search.
    pub async fn shut_down(&self) {
        if let Some(passes) = &self.passes {
            passes.stop().await;
        }
    }
}

impl Passes {
    /// The workspace folders that the index knows, by their ids in it.
    fn folders(&self, store: &Store) -> Result<HashMap<i64, Resolved>, StoreError> {
        let mut folders = HashMap::new();
        for path in self.workspace.roots().paths() {
            let place = path.to_str().and_then(|path| self.workspace.resolve(path, Purpose::List).ok());
            if let (Some(root), Some(place)) = (store.root(path)?, place) {
                folders.insert(root, place);
            }
        }
        Ok(folders)
    }

    /// The files whose chunks have most of these words, as far as they may be read.
    fn files_with(&self, words: &[String]) -> Result<Vec<Resolved>, StoreError> {
        let Some(store) = self.directory.open_existing()? else { return Ok(vec![]) };
        let folders = self.folders(&store)?;
        let scope = Scope::Roots(folders.keys().copied().collect());
        let mut rules = HashMap::new();
        let (mut seen, mut files) = (HashSet::new(), Vec::new());
        for RankedChunk { chunk, .. } in store.with_words(words, &scope, BY_WORDS)?.chunks {
            let Some(folder) = folders.get(&chunk.root) else { continue };
            let rules = rules
                .entry(chunk.root)
                .or_insert_with(|| WalkRules::new(self.workspace.rules(folder), leave_out));
            if rules.has(folder, &chunk.path) && seen.insert((chunk.root, chunk.path.clone())) {
                files.push(folder.below(&chunk.path));
            }
        }
        Ok(files)
    }
}

/// Waits until a pass has ended that began after now.
async fn up_to_date(passes: &Arc<Passes>, mask: &Mask, report: &(dyn Fn(usize, usize) + Sync)) {
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

/// What of the files that there are is in the index.
#[derive(Clone, Copy, Debug, Default)]
struct Completeness {
    files: u64,
    total: u64,
    left_out: u64,
    is_complete: bool,
}

impl Completeness {
    fn read(store: &Store, roots: &[i64]) -> Result<Self, StoreError> {
        Ok(Self {
            files: store.count_files(roots)?,
            total: store.fact(Fact::Total)?,
            left_out: store.fact(Fact::LeftOut)?,
            is_complete: store.fact(Fact::Complete)? == 1,
        })
    }

    /// Sentence about what may be missing.
    fn note(&self, is_current: bool, progress: &Progress) -> Option<String> {
        let missing = "results may be missing";
        let fault = progress.fault.as_deref();
        if !self.is_complete {
            let (done, total) = match progress.files {
                Some((done, total)) if total > 0 => (done as u64, total as u64),
                _ => (self.files, self.total),
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
        (self.left_out > 0).then(|| {
            format!("The workspace is too large: {} files are not in the index, so {missing}.", self.left_out)
        })
    }
}

/// A search that is under way.
struct Search {
    passes: Arc<Passes>,
    question: Question,
    /// Words of the question.
    words: Vec<String>,
    mask: Mask,
}

/// What a search has found in the index as it is.
#[derive(Default)]
struct Found {
    chunks: Vec<FoundChunk>,
    /// Files of which the index has words that are masked by now, so their place in the order would tell of secrets. None
    /// of their chunks is among those that were found.
    otherwise_masked: HashSet<IndexedFile>,
    completeness: Completeness,
    /// True if better chunks may not have been compared.
    is_partial: bool,
}

impl Search {
    async fn answer(
        self: &Arc<Self>,
        report: &(dyn Fn(usize, usize) + Sync),
    ) -> Result<Findings, SearchError> {
        let update = || timeout(WAIT, up_to_date(&self.passes, &self.mask, report));
        let mut is_current = update().await.is_ok();
        let mut notes = Vec::new();
        if self.passes.take_damage() {
            notes.push("The index was damaged, so it was rebuilt.".to_owned());
        }
        let has_vectors = timeout(VECTORS, self.passes.wait_for_embedding()).await.unwrap_or(false);
        let (vector, fault) = match self.embed_question().await {
            Ok(vector) => (vector, None),
            Err(fault) => (None, Some(fault)),
        };
        let is_ranked_by_vectors = vector.is_some();
        let mut found = self.find(vector.clone()).await?;
        if !found.otherwise_masked.is_empty() {
            self.passes.retake(std::mem::take(&mut found.otherwise_masked));
            is_current = update().await.is_ok();
            found = self.find(vector).await?;
        }
        match (fault, self.passes.progress().embedder_fault) {
            (Some(fault), _) => notes.push(format!("Ranked by words alone: {fault}.")),
            (None, Some(fault)) if is_ranked_by_vectors => {
                notes.push(format!("Some of the code has no embedding yet, so results may be missing: {fault}."));
            }
            (None, None) if is_ranked_by_vectors && !has_vectors => notes.push(
                "Embeddings are still being computed, so code that shares no word with the query may be missing."
                    .to_owned(),
            ),
            _ => {}
        }
        if found.is_partial {
            notes.push(
                "The words of the query are in so much of the code that only a part was compared. Add a rarer word, or a path."
                    .to_owned(),
            );
        }
        notes.extend(found.completeness.note(is_current, &self.passes.progress()));
        Ok(Findings { chunks: found.chunks, notes })
    }

    /// Returns the vector of the question, and the model that made it; none where no embedder is configured.
    async fn embed_question(&self) -> Result<Option<(String, Vector)>, String> {
        let source = Arc::clone(self.passes.embedders());
        // It reads the settings.
        let embedder = roo_durable::spawn_blocking(move || source()).await.ok().flatten();
        let Some(embedder) = embedder.transpose()? else { return Ok(None) };
        let text = (self.mask)(&self.question.text).unwrap_or_else(|| self.question.text.clone());
        let answer = timeout(QUESTION, embedder.embed(vec![text])).await;
        let late = || format!("the embeddings endpoint did not answer within {} s", QUESTION.as_secs());
        let vectors = answer.unwrap_or_else(|_| Err(late()))?;
        let vector = vectors.first().and_then(|numbers| Vector::new(numbers));
        let vector = vector.ok_or("the embeddings endpoint returned no vector for the question")?;
        Ok(Some((embedder.name(), vector)))
    }

    async fn find(self: &Arc<Self>, vector: Option<(String, Vector)>) -> Result<Found, SearchError> {
        let search = Arc::clone(self);
        let found = roo_durable::spawn_blocking(move || search.look_up(vector)).await;
        found.map_err(|_| SearchError::Ending)?
    }

    fn look_up(&self, vector: Option<(String, Vector)>) -> Result<Found, SearchError> {
        let Some(store) = self.passes.directory.open_existing()? else { return Ok(Found::default()) };
        // A pass may be under way, perhaps in another process.
        let moment = store.one_moment()?;
        let roots = self.passes.folders(&store)?;
        let known: Vec<i64> = roots.keys().copied().collect();
        let completeness = Completeness::read(&store, &known)?;
        let Some(scope) = self.scope(&roots) else { return Ok(Found { completeness, ..Found::default() }) };
        let by_words = store.with_words(&self.words, &scope, BY_WORDS)?;
        let ranked = match vector {
            None => by_words.chunks,
            Some((model, vector)) => {
                let by_vector = store.near(&model, &vector, &scope, CANDIDATES)?;
                fused(&[by_words.chunks, by_vector])
            }
        };
        drop(moment);
        Ok(Found { completeness, is_partial: by_words.is_partial, ..self.read(&ranked, &roots) })
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
    fn read(&self, ranked: &[RankedChunk], roots: &HashMap<i64, Resolved>) -> Found {
        let workspace = &self.passes.workspace;
        let mut readers: HashMap<i64, (WalkRules, FileReader<'_>)> = HashMap::new();
        let mut files: HashMap<(i64, &str), Option<SearchedFile>> = HashMap::new();
        let is_file = self.question.place.as_ref().is_some_and(|place| !place.is_directory());
        let most = if is_file { self.question.limit } else { OF_ONE_FILE };
        let mut found = Found::default();
        for RankedChunk { chunk: kept, score } in ranked {
            let Some(folder) = roots.get(&kept.root) else { continue };
            let file = files.entry((kept.root, &kept.path)).or_insert_with(|| {
                let (rules, reader) = readers.entry(kept.root).or_insert_with(|| {
                    (WalkRules::new(workspace.rules(folder), leave_out), workspace.file_reader(folder))
                });
                let is_searched = rules.has(folder, &kept.path);
                is_searched.then(|| self.searched_file(folder.below(&kept.path), reader)).flatten()
            });
            let Some(file) = file.as_mut().filter(|file| file.count < most) else { continue };
            let (lines, text) = match self.current(kept, file) {
                Current::Text(lines, text) => (lines, text),
                Current::OtherwiseMasked => {
                    found.otherwise_masked.insert((folder.absolute().to_owned(), kept.path.clone()));
                    continue;
                }
                Current::Nothing => continue,
            };
            // What has changed may have become one chunk.
            let is_known =
                |known: &FoundChunk| known.file.absolute() == file.file.absolute() && known.lines == lines;
            if found.chunks.iter().any(is_known) {
                continue;
            }
            file.count += 1;
            found.chunks.push(FoundChunk { file: file.file.clone(), score: *score, lines, text });
            if found.chunks.len() == self.question.limit {
                break;
            }
        }
        found
    }

    /// Reads a file; none where it has no text.
    fn searched_file(&self, file: Resolved, reader: &mut FileReader<'_>) -> Option<SearchedFile> {
        let bytes = match buffer(&self.passes.workspace, &file) {
            Some(text) => text.as_bytes().to_vec(),
            None => reader.read(&file, MAX_FILE_BYTES).ok().flatten()?,
        };
        let text = text_of(&bytes, &self.mask)?;
        Some(SearchedFile { file, digest: Digest::of(&bytes), text, count: 0 })
    }

    /// A chunk as it is now.
    fn current(&self, kept: &KeptChunk, file: &SearchedFile) -> Current {
        let is_same = file.digest == kept.file_digest;
        let lines = if is_same { Some(kept.lines) } else { self.best_chunk(&kept.path, &file.text) };
        let Some(lines) = lines else { return Current::Nothing };
        let text = file.text.split_inclusive('\n');
        let shown: String = text.skip(lines.start - 1).take(lines.end + 1 - lines.start).collect();
        if is_same && Digest::of(&shown) != kept.digest {
            return Current::OtherwiseMasked;
        }
        if shown.is_empty() { Current::Nothing } else { Current::Text(lines, shown) }
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

/// A file of which chunks were found, as it is now.
struct SearchedFile {
    file: Resolved,
    digest: Digest,
    /// Its text with secrets masked.
    text: String,
    /// Number of its chunks that are among those that were found.
    count: usize,
}

/// A chunk of the index as its file has it now.
enum Current {
    /// Its lines, and their text with secrets masked.
    Text(LineRange, String),
    /// The text is the same, and other parts of it are masked than when it was taken in.
    OtherwiseMasked,
    /// It is gone, or may not be read.
    Nothing,
}
