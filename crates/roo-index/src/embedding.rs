//! Vectors for the texts that have none, made by the embedder, request by request.
//!
//! It keeps nobody from building: passes go on while a request is under way, and what it brings is kept after them.

use std::collections::{HashSet, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;

use super::chunks::{Chunk, chunks};
use super::embedder::Embedder;
use super::pass::{MAX_FILE_BYTES, Mask, buffer, leave_out, text_of};
use super::store::{EmbeddingLock, Fact, IndexDirectory, Store, StoreError};
use super::vector::Vector;
use super::words::prefix;
use roo_protocol::ids::Digest;
use roo_workspace::{Purpose, Resolved, WalkRules, Workspace};

/// Files whose texts are gathered together.
const BATCH_FILES: usize = 64;

/// Texts that are sent to an embedder together.
const EMBEDDED: usize = 32;

/// The longest text that is sent to an embedder, in bytes.
const EMBEDDED_TEXT: usize = 2400;

/// What vectors are made with.
pub(crate) struct EmbeddingContext<'a> {
    pub(crate) workspace: &'a Workspace,
    pub(crate) directory: &'a IndexDirectory,
    pub(crate) mask: &'a Mask,
    pub(crate) embedder: &'a Arc<dyn Embedder>,
    pub(crate) runtime: &'a Handle,
    /// Receives the number of requests that were answered.
    pub(crate) report: &'a dyn Fn(usize),
}

/// How the making of vectors ended.
#[derive(Debug)]
pub(crate) enum EmbeddingEnd {
    /// All texts have one, or another process makes them.
    Complete,
    /// Something else is to be done first.
    Interrupted,
    /// The embedder did not serve, for this reason.
    Fault(String),
}

/// The making of vectors, over several interruptions.
#[derive(Default)]
pub(crate) struct Embedding {
    request: Option<Request>,
    lock: Option<EmbeddingLock>,
}

/// A request that is under way. It ends when this is dropped.
struct Request {
    model: String,
    digests: Vec<Digest>,
    answer: AbortOnDropHandle<Result<Vec<Vec<f32>>, String>>,
}

/// Where the texts are gathered from next.
struct Gathering {
    /// Identity of the index, by whose ids and numbers this goes.
    index: u64,
    model: String,
    /// The roots that are left, the next one last, each with its id and the number of files that had been taken in.
    roots: Vec<(Resolved, i64, u64)>,
    /// The path after which the files of that root follow.
    after: String,
    texts: WaitingTexts,
}

/// Texts that wait to be sent, each once, in the order in which they were found.
#[derive(Default)]
struct WaitingTexts {
    order: VecDeque<(Digest, String)>,
    digests: HashSet<Digest>,
}

impl WaitingTexts {
    fn add(&mut self, digest: Digest, text: String) {
        if self.digests.insert(digest) {
            self.order.push_back((digest, text));
        }
    }

    /// Takes at most so many of them.
    fn take(&mut self, most: usize) -> Vec<(Digest, String)> {
        let taken: Vec<_> = self.order.drain(..most.min(self.order.len())).collect();
        for (digest, _) in &taken {
            self.digests.remove(digest);
        }
        taken
    }
}

impl Embedding {
    /// Makes vectors until all texts have one, or until `interrupted` completes, which is awaited for each request.
    pub(crate) fn run<F: Future<Output = ()>>(
        &mut self,
        context: &EmbeddingContext<'_>,
        interrupted: impl Fn() -> F,
    ) -> Result<EmbeddingEnd, StoreError> {
        if self.lock.is_none() {
            self.lock = context.directory.lock_vectors()?;
        }
        if self.lock.is_none() {
            return Ok(EmbeddingEnd::Complete);
        }
        let ended = self.make(context, interrupted)?;
        if !matches!(ended, EmbeddingEnd::Interrupted) {
            self.lock = None;
        }
        Ok(ended)
    }

    fn make<F: Future<Output = ()>>(
        &mut self,
        context: &EmbeddingContext<'_>,
        interrupted: impl Fn() -> F,
    ) -> Result<EmbeddingEnd, StoreError> {
        let mut answered = 0;
        let mut gathering: Option<Gathering> = None;
        loop {
            if let Some(mut request) = self.request.take() {
                let answer = context.runtime.block_on(async {
                    tokio::select! {
                        biased;
                        () = interrupted() => None,
                        answer = &mut request.answer => Some(answer),
                    }
                });
                let Some(answer) = answer else {
                    self.request = Some(request);
                    return Ok(EmbeddingEnd::Interrupted);
                };
                let vectors = match answer {
                    Ok(Ok(vectors)) => vectors,
                    Ok(Err(fault)) => return Ok(EmbeddingEnd::Fault(fault)),
                    // The program ends.
                    Err(_) => return Ok(EmbeddingEnd::Interrupted),
                };
                if let Err(fault) = request.keep(context.directory, vectors)? {
                    return Ok(EmbeddingEnd::Fault(fault));
                }
                answered += 1;
                (context.report)(answered);
            }
            // Opened for each request: the index may have been removed meanwhile.
            let Some(store) = context.directory.open_existing()? else { return Ok(EmbeddingEnd::Complete) };
            let index = store.fact(Fact::Identity)?;
            let gathering = match &mut gathering {
                Some(gathering) if gathering.index == index => gathering,
                // It may also have been rebuilt.
                other => other.insert(Gathering::new(context, &store, index)?),
            };
            let Some(texts) = gathering.next(context, &store)? else {
                if answered > 0 {
                    let changes = store.change()?;
                    changes.remove_old_vectors(&gathering.model)?;
                    changes.commit()?;
                }
                return Ok(EmbeddingEnd::Complete);
            };
            let (digests, texts): (Vec<Digest>, Vec<String>) = texts.into_iter().unzip();
            let embedder = Arc::clone(context.embedder);
            let answer = context.runtime.spawn(async move { embedder.embed(texts).await });
            let answer = AbortOnDropHandle::new(answer);
            self.request = Some(Request { model: gathering.model.clone(), digests, answer });
        }
    }
}

impl Request {
    /// Keeps the vectors of its texts; says why, where they are none.
    fn keep(
        self,
        directory: &IndexDirectory,
        vectors: Vec<Vec<f32>>,
    ) -> Result<Result<(), String>, StoreError> {
        let (count, sent) = (vectors.len(), self.digests.len());
        if count != sent {
            return Ok(Err(format!("it returned {count} vectors for {sent} texts")));
        }
        let vectors: Option<Vec<Vector>> = vectors.iter().map(|numbers| Vector::new(numbers)).collect();
        let Some(vectors) = vectors else {
            return Ok(Err("it returned a vector that is zero or not finite".to_owned()));
        };
        let Some(store) = directory.open_existing()? else { return Ok(Ok(())) };
        let changes = store.change()?;
        for (digest, vector) in self.digests.iter().zip(&vectors) {
            changes.add_vector(&self.model, digest, vector)?;
        }
        changes.commit()?;
        Ok(Ok(()))
    }
}

impl Gathering {
    fn new(context: &EmbeddingContext<'_>, store: &Store, index: u64) -> Result<Self, StoreError> {
        let model = context.embedder.name();
        let replaced = store.fact(Fact::Replaced)?;
        let mut roots = Vec::new();
        for path in context.workspace.roots().paths().map(PathBuf::from) {
            let place = path.to_str().and_then(|path| context.workspace.resolve(path, Purpose::List).ok());
            let (Some(place), Some(root)) = (place, store.root(&path)?) else { continue };
            if !store.is_embedded(root, &model)? {
                roots.push((place, root, replaced));
            }
        }
        roots.reverse();
        Ok(Self { index, model, roots, after: String::new(), texts: WaitingTexts::default() })
    }

    /// The next texts to send; none when all have been.
    fn next(
        &mut self,
        context: &EmbeddingContext<'_>,
        store: &Store,
    ) -> Result<Option<Vec<(Digest, String)>>, StoreError> {
        while self.texts.order.len() < EMBEDDED {
            let Some((folder, root, replaced)) = self.roots.last() else { break };
            let files = store.without_vectors(&self.model, *root, &self.after, BATCH_FILES)?;
            let Some(last) = files.last().cloned() else {
                // What is still to be sent is of it.
                if !self.texts.order.is_empty() {
                    break;
                }
                let changes = store.change()?;
                changes.set_embedded(*root, &self.model, *replaced)?;
                changes.commit()?;
                self.roots.pop();
                self.after.clear();
                continue;
            };
            let mut reader = context.workspace.file_reader(folder);
            // As they are now: what is ignored since it was indexed is not sent.
            let rules = WalkRules::new(context.workspace.rules(folder), leave_out);
            for path in files.iter().filter(|path| rules.has(folder, path)) {
                let file = folder.below(path);
                let bytes = match buffer(context.workspace, &file) {
                    Some(text) => text.as_bytes().to_vec(),
                    None => reader.read(&file, MAX_FILE_BYTES).ok().flatten().unwrap_or_default(),
                };
                for (digest, text) in texts_to_embed(path, &bytes, context.mask) {
                    if !store.has_vector(&self.model, &digest)? {
                        self.texts.add(digest, text);
                    }
                }
            }
            self.after = last;
        }
        let next = self.texts.take(EMBEDDED);
        Ok((!next.is_empty()).then_some(next))
    }
}

/// The texts of a file's chunks as a model gets them, with the digests by which they are kept.
fn texts_to_embed(path: &str, bytes: &[u8], mask: &Mask) -> Vec<(Digest, String)> {
    let Some(text) = text_of(bytes, mask) else { return vec![] };
    let sent = |chunk: Chunk<'_>| (Digest::of(chunk.text), prefix(chunk.text, EMBEDDED_TEXT).to_owned());
    chunks(path, &text).into_iter().map(sent).collect()
}
