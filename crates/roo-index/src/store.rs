//! The index on disk: one SQLite database for a workspace, in its part of the state directory.
//!
//! It has words and places, never the text of a file: that is read from the file when it is shown. It is a cache, so a
//! database that is damaged or from another version is removed. Each use opens it again, as another process may have
//! replaced it; who writes holds [`BuildLock`].

use std::collections::{HashMap, HashSet};
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::iter;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::types::Value;
use rusqlite::{
    Connection, ErrorCode, OpenFlags, OptionalExtension as _, Transaction, TransactionBehavior, params,
    params_from_iter,
};

use super::ranked_chunk::{KeptChunk, RankedChunk};
use super::ranking::{RankedBy, ranked_by};
use super::vector::Vector;
use roo_durable::Fingerprint;
use roo_protocol::ids::Digest;
use roo_text::lines::LineRange;

/// Version of the tables, and of how texts become chunks and words.
const VERSION: i64 = 4;

/// Time to wait while another process writes.
const BUSY: Duration = Duration::from_secs(5);

/// The most vectors of texts that are gone, and of other models, besides as many as there are chunks.
const SPARE_VECTORS: i64 = 1000;

/// Files of a database, by what is after its name.
const SUFFIXES: [&str; 3] = ["", "-wal", "-shm"];

const SCHEMA: &str = "
    CREATE TABLE facts(name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
    INSERT INTO facts VALUES('identity', random() & 9223372036854775807);
    CREATE TABLE roots(id INTEGER PRIMARY KEY, path BLOB NOT NULL UNIQUE);
    CREATE TABLE files(
        id INTEGER PRIMARY KEY, root INTEGER NOT NULL, path TEXT NOT NULL, fingerprint BLOB, digest BLOB NOT NULL,
        UNIQUE(root, path)
    );
    CREATE TABLE chunks(
        id INTEGER PRIMARY KEY, file INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, digest BLOB NOT NULL
    );
    CREATE INDEX chunks_of_file ON chunks(file);
    CREATE VIRTUAL TABLE words USING fts5(
        path, name, body, content='', contentless_delete=1, tokenize='porter ascii'
    );
    CREATE TABLE vectors(
        id INTEGER PRIMARY KEY, model TEXT NOT NULL, digest BLOB NOT NULL, vector BLOB NOT NULL, UNIQUE(model, digest)
    );
    CREATE TABLE embedded(root INTEGER NOT NULL, model TEXT NOT NULL, replaced INTEGER NOT NULL, PRIMARY KEY(root, model))
        WITHOUT ROWID;
";

/// Reasons why the index can't be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file is damaged.
    #[error("the index of the workspace is damaged")]
    Damaged,
    /// It is being built, by this process or another one, so it can be neither changed nor removed.
    #[error("the index of this workspace is being built, perhaps by another roo-lsp process")]
    Busy,
    /// A pass ended by an error of this program's.
    #[error("building the index of the workspace failed unexpectedly")]
    Panicked,
    /// A file operation failed.
    #[error("can't use {}: {source}", path.display())]
    Io {
        /// File or directory.
        path: PathBuf,
        /// Reason.
        source: io::Error,
    },
    /// The database failed.
    #[error("the index of the workspace can't be used: {0}")]
    Database(rusqlite::Error),
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Damaged,
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy,
            // A table is gone, or a value is not what only this program writes there.
            Some(ErrorCode::Unknown) => Self::Damaged,
            None if !matches!(error, rusqlite::Error::QueryReturnedNoRows) => Self::Damaged,
            _ => Self::Database(error),
        }
    }
}

/// The files of a workspace's index.
#[derive(Clone, Debug)]
pub(crate) struct IndexDirectory(PathBuf);

/// The right to change what an index has of files, among all processes. It ends with the process.
#[derive(Debug)]
pub(crate) struct BuildLock {
    _file: File,
}

/// The right to add vectors to an index, among all processes: so that no text is sent twice. Whoever has it waits for an
/// endpoint, so it keeps nobody from building.
#[derive(Debug)]
pub(crate) struct EmbeddingLock {
    _file: File,
}

impl IndexDirectory {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self(path)
    }

    fn database(&self) -> PathBuf {
        self.0.join("index.sqlite")
    }

    fn io(path: &Path) -> impl FnOnce(io::Error) -> StoreError {
        let path = path.to_owned();
        |source| StoreError::Io { path, source }
    }

    /// Returns whether there is an index.
    pub(crate) fn exists(&self) -> bool {
        self.database().exists()
    }

    /// Size on disk, in bytes.
    pub(crate) fn size(&self) -> u64 {
        let size = |path: PathBuf| fs::metadata(path).map_or(0, |found| found.len());
        self.files().map(size).sum()
    }

    fn files(&self) -> impl Iterator<Item = PathBuf> {
        SUFFIXES.iter().map(|suffix| self.0.join(format!("index.sqlite{suffix}")))
    }

    /// Takes the right to change the index, without waiting.
    ///
    /// # Errors
    /// [`StoreError::Busy`] while another process has it.
    pub(crate) fn lock(&self) -> Result<BuildLock, StoreError> {
        Ok(BuildLock { _file: self.lock_file("index.lock")?.ok_or(StoreError::Busy)? })
    }

    /// Takes the right to add vectors, without waiting; none while another process has it.
    pub(crate) fn lock_vectors(&self) -> Result<Option<EmbeddingLock>, StoreError> {
        Ok(self.lock_file("vectors.lock")?.map(|file| EmbeddingLock { _file: file }))
    }

    fn lock_file(&self, name: &str) -> Result<Option<File>, StoreError> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.0).map_err(Self::io(&self.0))?;
        let path = self.0.join(name);
        let file =
            OpenOptions::new().create(true).append(true).mode(0o600).open(&path).map_err(Self::io(&path))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(source)) => Err(StoreError::Io { path, source }),
        }
    }

    /// Removes the index. Readers in other processes end with what they have open.
    pub(crate) fn remove(&self, _lock: &BuildLock) -> Result<(), StoreError> {
        for path in self.files() {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(Self::io(&path)(error)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Opens the index for changes, and makes it where there is none. One from another version is replaced.
    pub(crate) fn open(&self, lock: &BuildLock) -> Result<Store, StoreError> {
        let path = self.database();
        // SQLite gives its other files the mode of this one.
        OpenOptions::new().create(true).append(true).mode(0o600).open(&path).map_err(Self::io(&path))?;
        let store = Store::connect(&path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        match store.version()? {
            VERSION => return Ok(store),
            0 => {}
            _ => {
                drop(store);
                self.remove(lock)?;
                return self.open(lock);
            }
        }
        store.connection.pragma_update(None, "journal_mode", "wal")?;
        let made = store.connection.unchecked_transaction()?;
        made.execute_batch(SCHEMA)?;
        made.pragma_update(None, "user_version", VERSION)?;
        made.commit()?;
        Ok(store)
    }

    /// Opens the index as it is, for reading and for vectors; none where there is none of this version.
    pub(crate) fn open_existing(&self) -> Result<Option<Store>, StoreError> {
        let path = self.database();
        if !path.exists() {
            return Ok(None);
        }
        // Not read-only: the first reader after a crash has to look through the write-ahead log.
        let store = Store::connect(&path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        Ok((store.version()? == VERSION).then_some(store))
    }
}

/// An open index.
pub(crate) struct Store {
    connection: Connection,
}

/// A file as it is known to the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KnownFile {
    pub(crate) id: i64,
    /// None where it can't tell whether the file has changed: the text was not on disk, or had just been written.
    pub(crate) fingerprint: Option<Fingerprint>,
    pub(crate) digest: Digest,
}

/// A chunk to be kept.
pub(crate) struct NewChunk {
    pub(crate) lines: LineRange,
    /// Of its text.
    pub(crate) digest: Digest,
    /// Words of the definitions that it is about.
    pub(crate) name: String,
    /// Words of its text.
    pub(crate) body: String,
}

/// What a search covers.
#[derive(Clone, Debug)]
pub(crate) enum Scope {
    /// All files below these roots.
    Roots(Vec<i64>),
    /// A file of a root, or a directory and what is below it.
    Below { root: i64, path: String },
}

impl Scope {
    /// The condition on `files`, and its parameters.
    fn condition(&self) -> (String, Vec<Value>) {
        match self {
            Self::Roots(roots) => {
                let ids: Vec<String> = roots.iter().map(i64::to_string).collect();
                (format!("files.root IN ({})", ids.join(",")), vec![])
            }
            Self::Below { root, path } => {
                let condition =
                    format!("files.root = {root} AND (files.path = ? OR files.path >= ? AND files.path < ?)");
                // `0` follows `/`.
                let bounds = [path.clone(), format!("{path}/"), format!("{path}0")];
                (condition, bounds.map(Value::Text).to_vec())
            }
        }
    }
}

/// Bounds of a search by words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WordSearchBounds {
    /// Chunks that are found at most.
    pub(crate) found: usize,
    /// Chunks that are ranked at most. SQLite ranks about 2,000 by one word in a millisecond, or 600 by three.
    pub(crate) ranked: u32,
    /// Chunks that are ranked at most where each word is in more than `ranked`: not all can be compared anyway, and each
    /// of them takes the time of several words.
    pub(crate) ranked_by_common: u32,
}

/// What a search by words finds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct WordMatches {
    /// The best first.
    pub(crate) chunks: Vec<RankedChunk>,
    /// True if better ones may not have been compared, since every word is in too many chunks.
    pub(crate) is_partial: bool,
}

/// Figures of some roots of an index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) files: u64,
    pub(crate) chunks: u64,
    pub(crate) vectors: u64,
}

/// A number that the index keeps about itself, in a row of the table `facts`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fact {
    /// 1 once all files have been looked at.
    Complete,
    /// Number of files that the last look found.
    Total,
    /// Number of those that were too many or too large together.
    LeftOut,
    /// Number of files that were taken in so far: while it stays the same, no text is new.
    Replaced,
    /// Random number that tells this index from another one that was made in its place.
    Identity,
}

impl Fact {
    fn name(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Total => "total",
            Self::LeftOut => "left_out",
            Self::Replaced => "replaced",
            Self::Identity => "identity",
        }
    }
}

impl Store {
    fn connect(path: &Path, flags: OpenFlags) -> Result<Self, StoreError> {
        let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
        connection.busy_timeout(BUSY)?;
        // It is a cache: what a loss of power takes is made again.
        connection.pragma_update(None, "synchronous", "off")?;
        connection.pragma_update(None, "cache_size", -8192)?;
        Ok(Self { connection })
    }

    fn version(&self) -> Result<i64, StoreError> {
        Ok(self.connection.pragma_query_value(None, "user_version", |row| row.get(0))?)
    }

    /// The id of a root, if the index knows it.
    pub(crate) fn root(&self, path: &Path) -> Result<Option<i64>, StoreError> {
        let mut found = self.connection.prepare_cached("SELECT id FROM roots WHERE path = ?")?;
        Ok(found.query_row([path.as_os_str().as_bytes()], |row| row.get(0)).optional()?)
    }

    /// The files of a root by their paths.
    pub(crate) fn files(&self, root: i64) -> Result<HashMap<String, KnownFile>, StoreError> {
        let mut found =
            self.connection.prepare("SELECT path, id, fingerprint, digest FROM files WHERE root = ?")?;
        let mut rows = found.query([root])?;
        let mut files = HashMap::new();
        while let Some(row) = rows.next()? {
            let (path, id, fingerprint, digest) = (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
            let fingerprint: Option<[u8; Fingerprint::BYTES]> = fingerprint;
            let (fingerprint, digest) =
                (fingerprint.map(Fingerprint::from_bytes), Digest::from_bytes(digest));
            files.insert(path, KnownFile { id, fingerprint, digest });
        }
        Ok(files)
    }

    /// A number that the index keeps about itself; 0 where it has none.
    pub(crate) fn fact(&self, fact: Fact) -> Result<u64, StoreError> {
        let mut found = self.connection.prepare_cached("SELECT value FROM facts WHERE name = ?")?;
        let value: Option<i64> = found.query_row([fact.name()], |row| row.get(0)).optional()?;
        Ok(value.unwrap_or_default().unsigned_abs())
    }

    /// The figures of these roots.
    pub(crate) fn counts(&self, roots: &[i64]) -> Result<Counts, StoreError> {
        let (condition, _) = Scope::Roots(roots.to_vec()).condition();
        let count = |counted: &str, further: &str| {
            let sql = format!(
                "SELECT count({counted}) FROM files JOIN chunks ON chunks.file = files.id WHERE {condition} {further}"
            );
            self.connection.query_row(&sql, [], |row| row.get::<_, i64>(0)).map(i64::unsigned_abs)
        };
        Ok(Counts {
            files: self.count_files(roots)?,
            chunks: count("*", "")?,
            vectors: count("DISTINCT chunks.digest", "AND chunks.digest IN (SELECT digest FROM vectors)")?,
        })
    }

    /// The number of files of these roots.
    pub(crate) fn count_files(&self, roots: &[i64]) -> Result<u64, StoreError> {
        let (condition, _) = Scope::Roots(roots.to_vec()).condition();
        let sql = format!("SELECT count(*) FROM files WHERE {condition}");
        Ok(self.connection.query_row(&sql, [], |row| row.get::<_, i64>(0))?.unsigned_abs())
    }

    /// Has everything that is read until the end of the returned value be of one moment.
    pub(crate) fn one_moment(&self) -> Result<Transaction<'_>, StoreError> {
        Ok(self.connection.unchecked_transaction()?)
    }

    /// Returns whether a scope has all files of the index.
    fn is_all(&self, scope: &Scope) -> Result<bool, StoreError> {
        let Scope::Roots(roots) = scope else { return Ok(false) };
        let mut known = self.connection.prepare_cached("SELECT id FROM roots")?;
        let known: Vec<i64> = known.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
        Ok(known.iter().all(|root| roots.contains(root)))
    }

    /// Begins changes that are made together.
    pub(crate) fn change(&self) -> Result<Changes<'_>, StoreError> {
        // Two processes may write. One that has read first can't become a writer once the other has written.
        let transaction = Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate)?;
        Ok(Changes(transaction))
    }

    /// The chunks with these words, the best first. The more of them, the rarer they are and the shorter the chunk, the
    /// better. Where every word is in very many chunks, those with all of them are ranked, and no more than so many.
    pub(crate) fn with_words(
        &self,
        words: &[String],
        scope: &Scope,
        bounds: WordSearchBounds,
    ) -> Result<WordMatches, StoreError> {
        let WordSearchBounds { found: limit, ranked: most, ranked_by_common } = bounds;
        let mut counted: Vec<(u32, &str)> = Vec::with_capacity(words.len());
        for word in words {
            counted.push((self.count(&quoted(word), most)?, word.as_str()));
        }
        let (mut ranked, is_partial) = match ranked_by(counted, most) {
            RankedBy::Rarest(words) => (self.matching(&joined(&words, " OR "), scope, limit, None)?, false),
            RankedBy::Common(words) if words.is_empty() => (vec![], false),
            RankedBy::Common(words) => {
                let all = joined(&words, " AND ");
                let mut ranked = self.matching(&all, scope, limit, Some(ranked_by_common))?;
                let mut is_partial = self.count(&all, ranked_by_common)? > ranked_by_common;
                if ranked.len() < limit && words.len() > 1 {
                    let known: HashSet<i64> = ranked.iter().map(|(chunk, _)| chunk.id).collect();
                    let any = self.matching(&joined(&words, " OR "), scope, limit, Some(ranked_by_common))?;
                    ranked.extend(any.into_iter().filter(|(chunk, _)| !known.contains(&chunk.id)));
                    is_partial = true;
                }
                (ranked, is_partial)
            }
        };
        // Stable, so that what is equal keeps the order of the database. BM25 of SQLite: the less the better, and below 0.
        ranked.sort_by(|(_, one), (_, other)| one.total_cmp(other));
        ranked.truncate(limit);
        let best = ranked.first().map_or(0.0, |(_, rank)| *rank);
        let score = |rank: f64| if best < 0.0 { rank / best } else { 1.0 };
        let chunks =
            ranked.into_iter().map(|(chunk, rank)| RankedChunk { chunk, score: score(rank) }).collect();
        Ok(WordMatches { chunks, is_partial })
    }

    /// The best chunks of a scope that match an expression of FTS5, with their ranks; of `most` chunks alone, if there is a bound.
    fn matching(
        &self,
        expression: &str,
        scope: &Scope,
        limit: usize,
        most: Option<u32>,
    ) -> Result<Vec<(KeptChunk, f64)>, StoreError> {
        let (condition, bounds) = scope.condition();
        let is_all = self.is_all(scope)?;
        let in_words = "SELECT rowid, rank FROM words WHERE words MATCH ?";
        let found = match most {
            // Those outside must neither take the places of those in the scope nor count.
            Some(most) if !is_all => format!(
                "SELECT words.rowid AS rowid, rank FROM words CROSS JOIN chunks ON chunks.id = words.rowid
                 CROSS JOIN files ON files.id = chunks.file WHERE words MATCH ? AND {condition} LIMIT {most}"
            ),
            // The best need not be sorted out of all that match: by `rank` alone, the table itself sorts all.
            Some(most) => format!("SELECT * FROM ({in_words} LIMIT {most}) ORDER BY +rank LIMIT {limit}"),
            None if is_all => format!("{in_words} ORDER BY +rank LIMIT {limit}"),
            None => in_words.to_owned(),
        };
        let sql = format!(
            "SELECT chunks.id, files.root, files.path, chunks.first, chunks.last, files.digest, chunks.digest, found.rank
             FROM ({found}) AS found JOIN chunks ON chunks.id = found.rowid JOIN files ON files.id = chunks.file
             WHERE {condition} ORDER BY found.rank, files.path, chunks.first LIMIT {limit}"
        );
        let is_scoped_twice = most.is_some() && !is_all;
        let given = iter::once(Value::Text(expression.to_owned()))
            .chain(is_scoped_twice.then(|| bounds.clone()).into_iter().flatten())
            .chain(bounds);
        let mut statement = self.connection.prepare_cached(&sql)?;
        let rows = statement.query_map(params_from_iter(given), |row| Ok((kept_chunk(row)?, row.get(7)?)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Number of chunks that match an expression of FTS5, or `most` and one.
    fn count(&self, expression: &str, most: u32) -> Result<u32, StoreError> {
        // A count that ends at the bound takes a fraction of the time of ranking what it counts.
        let sql = "SELECT count(*) FROM (SELECT 1 FROM words WHERE words MATCH ? LIMIT ?)";
        let mut statement = self.connection.prepare_cached(sql)?;
        Ok(statement.query_row(params![expression, most.saturating_add(1)], |row| row.get(0))?)
    }

    /// The chunks whose vectors are nearest to this one, the best first.
    pub(crate) fn near(
        &self,
        model: &str,
        to: &Vector,
        scope: &Scope,
        limit: usize,
    ) -> Result<Vec<RankedChunk>, StoreError> {
        let mut chunks = self.digests(scope)?;
        chunks.sort_unstable();
        let of_text = |digest: Digest| {
            let start = chunks.partition_point(|(known, _)| *known < digest);
            let count = chunks[start..].partition_point(|(known, _)| *known == digest);
            &chunks[start..start + count]
        };
        // In their order on disk: an index would lead from one end of the table to the other.
        let sql = "SELECT digest, vector FROM vectors NOT INDEXED WHERE model = ?";
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut rows = statement.query([model])?;
        let mut nearest: Vec<(f32, i64)> = Vec::new();
        while let Some(row) = rows.next()? {
            let bytes = row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
            let similarity = to.similarity_to_bytes(bytes);
            // Vectors of texts that are gone are kept for a while.
            let chunks = of_text(Digest::from_bytes(row.get(0)?));
            nearest.extend(chunks.iter().map(|&(_, id)| (similarity, id)));
            if nearest.len() > limit.saturating_mul(16).max(4096) {
                keep_nearest(&mut nearest, limit);
            }
        }
        keep_nearest(&mut nearest, limit);
        let ranked = nearest.into_iter().map(|(similarity, id)| {
            Ok(RankedChunk { chunk: self.chunk(id)?, score: f64::from(similarity.clamp(0.0, 1.0)) })
        });
        ranked.collect()
    }

    /// The chunks of a scope by the digests of their texts.
    fn digests(&self, scope: &Scope) -> Result<Vec<(Digest, i64)>, StoreError> {
        let (condition, bounds) = scope.condition();
        let (sql, bounds) = match self.is_all(scope)? {
            true => ("SELECT digest, id FROM chunks".to_owned(), vec![]),
            false => {
                let of_files = "FROM files JOIN chunks ON chunks.file = files.id";
                (format!("SELECT chunks.digest, chunks.id {of_files} WHERE {condition}"), bounds)
            }
        };
        let mut statement = self.connection.prepare_cached(&sql)?;
        let rows = statement
            .query_map(params_from_iter(bounds), |row| Ok((Digest::from_bytes(row.get(0)?), row.get(1)?)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    fn chunk(&self, id: i64) -> Result<KeptChunk, StoreError> {
        let sql = "SELECT chunks.id, root, path, first, last, files.digest, chunks.digest
                   FROM chunks JOIN files ON files.id = file WHERE chunks.id = ?";
        Ok(self.connection.prepare_cached(sql)?.query_row([id], kept_chunk)?)
    }

    /// Returns whether all texts of a root have had their vector of a model since a file was last taken in.
    pub(crate) fn is_embedded(&self, root: i64, model: &str) -> Result<bool, StoreError> {
        let mut found =
            self.connection.prepare_cached("SELECT replaced FROM embedded WHERE root = ? AND model = ?")?;
        let at: Option<i64> = found.query_row(params![root, model], |row| row.get(0)).optional()?;
        Ok(at.map(i64::unsigned_abs) == Some(self.fact(Fact::Replaced)?))
    }

    /// Files of a root with chunks that have no vector of a model, in the order of their paths, behind the path `after`.
    pub(crate) fn without_vectors(
        &self,
        model: &str,
        root: i64,
        after: &str,
        limit: usize,
    ) -> Result<Vec<String>, StoreError> {
        let sql = "SELECT DISTINCT files.path FROM files JOIN chunks ON chunks.file = files.id
                   LEFT JOIN vectors ON vectors.digest = chunks.digest AND vectors.model = ?
                   WHERE files.root = ? AND files.path > ? AND vectors.digest IS NULL ORDER BY files.path LIMIT ?";
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut statement = self.connection.prepare_cached(sql)?;
        let rows = statement.query_map(params![model, root, after, limit], |row| row.get(0))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Returns whether there is a vector of a model for this text.
    pub(crate) fn has_vector(&self, model: &str, digest: &Digest) -> Result<bool, StoreError> {
        let sql = "SELECT 1 FROM vectors WHERE model = ? AND digest = ?";
        Ok(self.connection.prepare_cached(sql)?.exists(params![model, digest.as_bytes()])?)
    }

    /// Merges what was written in many pieces, so that searches are fast, for about so many pages; a negative number begins
    /// with it. Returns whether there is more to merge.
    pub(crate) fn merge(&self, pages: i64) -> Result<bool, StoreError> {
        let before = self.connection.total_changes();
        self.connection
            .prepare_cached("INSERT INTO words(words, rank) VALUES('merge', ?)")?
            .execute([pages])?;
        // A step that merged nothing counts as one change: https://sqlite.org/fts5.html#the_merge_command
        Ok(self.connection.total_changes() - before >= 2)
    }

    /// Brings all into the one file of the database.
    pub(crate) fn checkpoint(&self) -> Result<(), StoreError> {
        Ok(self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?)
    }
}

fn keep_nearest(found: &mut Vec<(f32, i64)>, limit: usize) {
    found.sort_unstable_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
    found.truncate(limit);
}

/// Reads id, root, path, first and last line, digest of the file and digest of the chunk.
fn kept_chunk(row: &rusqlite::Row<'_>) -> rusqlite::Result<KeptChunk> {
    let line = |index| row.get::<_, i64>(index).map(|line| usize::try_from(line).unwrap_or(1).max(1));
    let (start, end) = (line(3)?, line(4)?);
    Ok(KeptChunk {
        id: row.get(0)?,
        root: row.get(1)?,
        path: row.get(2)?,
        lines: LineRange { start, end: end.max(start) },
        file_digest: Digest::from_bytes(row.get(5)?),
        digest: Digest::from_bytes(row.get(6)?),
    })
}

/// Changes that are made together, or not at all where [`Changes::commit`] isn't reached.
pub(crate) struct Changes<'a>(Transaction<'a>);

impl Changes<'_> {
    /// Adds a root, if it isn't there, and returns its id.
    pub(crate) fn add_root(&self, path: &Path) -> Result<i64, StoreError> {
        let path = path.as_os_str().as_bytes();
        self.0.prepare_cached("INSERT OR IGNORE INTO roots(path) VALUES(?)")?.execute([path])?;
        Ok(self
            .0
            .prepare_cached("SELECT id FROM roots WHERE path = ?")?
            .query_row([path], |row| row.get(0))?)
    }

    /// The roots, by their ids.
    pub(crate) fn roots(&self) -> Result<Vec<(i64, PathBuf)>, StoreError> {
        let mut statement = self.0.prepare_cached("SELECT id, path FROM roots")?;
        let rows = statement.query_map([], |row| {
            let path: Vec<u8> = row.get(1)?;
            Ok((row.get(0)?, PathBuf::from(std::ffi::OsStr::from_bytes(&path))))
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Removes a root with its files.
    pub(crate) fn remove_root(&self, root: i64) -> Result<(), StoreError> {
        let mut statement = self.0.prepare_cached("SELECT id FROM files WHERE root = ?")?;
        let files: Vec<i64> = statement.query_map([root], |row| row.get(0))?.collect::<Result<_, _>>()?;
        files.into_iter().try_for_each(|file| self.remove(file))?;
        self.0.execute("DELETE FROM roots WHERE id = ?", [root])?;
        self.0.execute("DELETE FROM embedded WHERE root = ?", [root])?;
        Ok(())
    }

    /// Removes a file.
    pub(crate) fn remove(&self, file: i64) -> Result<(), StoreError> {
        self.0
            .prepare_cached("DELETE FROM words WHERE rowid IN (SELECT id FROM chunks WHERE file = ?)")?
            .execute([file])?;
        self.0.prepare_cached("DELETE FROM chunks WHERE file = ?")?.execute([file])?;
        self.0.prepare_cached("DELETE FROM files WHERE id = ?")?.execute([file])?;
        Ok(())
    }

    /// Keeps a file in the place of what was known of it.
    pub(crate) fn replace(
        &self,
        root: i64,
        path: &str,
        (fingerprint, digest): (Option<Fingerprint>, Digest),
        chunks: &[NewChunk],
    ) -> Result<(), StoreError> {
        let known = self.0.prepare_cached("SELECT id FROM files WHERE root = ? AND path = ?")?;
        let known: Option<i64> = { known }.query_row(params![root, path], |row| row.get(0)).optional()?;
        if let Some(known) = known {
            self.remove(known)?;
        }
        self.0
            .prepare_cached("INSERT INTO files(root, path, fingerprint, digest) VALUES(?, ?, ?, ?)")?
            .execute(params![root, path, fingerprint.map(Fingerprint::to_bytes), digest.as_bytes()])?;
        let file = self.0.last_insert_rowid();
        self.0
            .prepare_cached(
                "INSERT INTO facts VALUES(?, 1) ON CONFLICT(name) DO UPDATE SET value = value + 1",
            )?
            .execute([Fact::Replaced.name()])?;
        let mut path_words = String::new();
        super::words::append_words(path, &mut path_words);
        let mut chunk_row =
            self.0.prepare_cached("INSERT INTO chunks(file, first, last, digest) VALUES(?, ?, ?, ?)")?;
        let mut words_row =
            self.0.prepare_cached("INSERT INTO words(rowid, path, name, body) VALUES(?, ?, ?, ?)")?;
        for chunk in chunks {
            let (first, last) = (line(chunk.lines.start), line(chunk.lines.end));
            chunk_row.execute(params![file, first, last, chunk.digest.as_bytes()])?;
            words_row.execute(params![self.0.last_insert_rowid(), path_words, chunk.name, chunk.body])?;
        }
        Ok(())
    }

    /// Keeps the fingerprint of a file whose contents are the known ones.
    pub(crate) fn touch(&self, file: i64, fingerprint: Option<Fingerprint>) -> Result<(), StoreError> {
        self.0
            .prepare_cached("UPDATE files SET fingerprint = ? WHERE id = ?")?
            .execute(params![fingerprint.map(Fingerprint::to_bytes), file])?;
        Ok(())
    }

    pub(crate) fn set(&self, fact: Fact, value: u64) -> Result<(), StoreError> {
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        self.0
            .prepare_cached("INSERT OR REPLACE INTO facts VALUES(?, ?)")?
            .execute(params![fact.name(), value])?;
        Ok(())
    }

    /// Keeps the vector of a text.
    pub(crate) fn add_vector(&self, model: &str, digest: &Digest, vector: &Vector) -> Result<(), StoreError> {
        self.0
            .prepare_cached("INSERT OR REPLACE INTO vectors(model, digest, vector) VALUES(?, ?, ?)")?
            .execute(params![model, digest.as_bytes(), vector.as_bytes()])?;
        Ok(())
    }

    /// Keeps that all texts of a root had their vector of a model when so many files had been taken in.
    pub(crate) fn set_embedded(&self, root: i64, model: &str, replaced: u64) -> Result<(), StoreError> {
        let replaced = i64::try_from(replaced).unwrap_or(i64::MAX);
        self.0
            .prepare_cached("INSERT OR REPLACE INTO embedded VALUES(?, ?, ?)")?
            .execute(params![root, model, replaced])?;
        Ok(())
    }

    /// Removes the vectors of other models and of texts that are gone, once there are too many of them. Until then they
    /// serve a text that comes back, as with another branch of a repository.
    pub(crate) fn remove_old_vectors(&self, model: &str) -> Result<(), StoreError> {
        let count = |table: &str| {
            let sql = format!("SELECT count(*) FROM {table}");
            self.0.query_row(&sql, [], |row| row.get::<_, i64>(0))
        };
        if count("vectors")? <= 2 * count("chunks")? + SPARE_VECTORS {
            return Ok(());
        }
        self.0.execute(
            "DELETE FROM vectors WHERE model <> ? OR digest NOT IN (SELECT digest FROM chunks)",
            [model],
        )?;
        self.0.execute("DELETE FROM embedded WHERE model <> ?", [model])?;
        Ok(())
    }

    pub(crate) fn commit(self) -> Result<(), StoreError> {
        Ok(self.0.commit()?)
    }
}

fn line(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// An expression of FTS5 of words with an operator between them.
fn joined(words: &[&str], operator: &str) -> String {
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    words.join(operator)
}

/// A word as a string of FTS5, whatever it may mean there.
fn quoted(word: &str) -> String {
    format!("\"{word}\"")
}
