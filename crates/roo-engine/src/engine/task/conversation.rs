//! The conversation of a task with its model, and the files that the model has seen in it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use roo_catalog::ToolCall;
use roo_model::providers::{AssistantBlock, Item};
use roo_protocol::ids::Digest;

/// Maximum number of times in a row that old results are shortened before the user is asked.
const MAX_REDUCTIONS: u32 = 3;

/// What the model is sent with each request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conversation {
    items: Arc<Vec<Item>>,
    reduced_before: usize,
    /// Reductions since the model last answered.
    reductions: u32,
}

impl Conversation {
    /// The items, oldest first.
    pub fn items(&self) -> &Arc<Vec<Item>> {
        &self.items
    }

    /// Results in items before this index are sent as stubs.
    pub fn reduced_before(&self) -> usize {
        self.reduced_before
    }

    /// Returns whether a request that is too long can be made shorter, by stubs in place of earlier results.
    pub fn can_be_shortened(&self) -> bool {
        self.items.len() > self.reduced_before && self.reductions < MAX_REDUCTIONS
    }

    /// The index before which results are to be sent as stubs next: half of what is still whole.
    pub(super) fn next_reduction(&self) -> usize {
        let whole = self.items.len().saturating_sub(self.reduced_before);
        self.reduced_before + whole.div_ceil(2)
    }

    pub(super) fn reduce(&mut self, before: usize) {
        self.reduced_before = before;
        self.reductions += 1;
    }

    pub(super) fn push(&mut self, item: Item) {
        Arc::make_mut(&mut self.items).push(item);
    }

    pub(super) fn push_text(&mut self, text: impl Into<String>) {
        self.push(Item::User { text: text.into(), images: vec![] });
    }

    /// Appends an answer of the model.
    pub(super) fn push_answer(&mut self, blocks: Vec<AssistantBlock>) {
        self.reductions = 0;
        // Endpoints refuse an answer without content.
        if blocks.iter().any(|block| !matches!(block, AssistantBlock::Thinking { .. })) {
            self.push(Item::Assistant { blocks });
        }
    }

    pub(super) fn remove(&mut self, index: usize) -> Option<Item> {
        (index < self.items.len()).then(|| Arc::make_mut(&mut self.items).remove(index))
    }

    /// The texts that the model was given: messages and results.
    pub(super) fn given_texts(&self) -> impl Iterator<Item = &str> {
        self.items.iter().flat_map(|item| {
            let (message, results) = match item {
                Item::User { text, .. } => (Some(text), [].as_slice()),
                Item::Results { results } => (None, results.as_slice()),
                Item::Assistant { .. } => (None, [].as_slice()),
            };
            message.into_iter().chain(results.iter().map(|result| &result.text)).map(String::as_str)
        })
    }

    /// The calls of the newest answer that made any and has their results, each with the text of its own.
    pub fn newest_batch(&self) -> Vec<(ToolCall, String)> {
        let answered = self.items.windows(2).rev().find_map(|pair| match pair {
            [Item::Assistant { blocks }, Item::Results { results }] => Some((blocks, results)),
            _ => None,
        });
        let Some((blocks, results)) = answered else { return vec![] };
        let calls = blocks.iter().filter_map(|block| match block {
            AssistantBlock::Call { call } => Some(call.clone()),
            AssistantBlock::Text { .. } | AssistantBlock::Thinking { .. } => None,
        });
        calls.zip(results).map(|(call, result)| (call, result.text.clone())).collect()
    }
}

/// The files that the model knows or must get to know.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FileContext {
    /// The whole-file digests that it has seen, by path.
    pub seen: BTreeMap<String, Digest>,
    /// Files that the task must read before it changes, runs or delegates anything.
    pub unread: BTreeSet<String>,
}

impl FileContext {
    /// Takes note of files that the model has seen now; of one without digest it knows nothing any more.
    pub(super) fn see(&mut self, seen: &[(String, Option<Digest>)]) {
        for (path, digest) in seen {
            match digest {
                Some(digest) => {
                    self.unread.remove(path);
                    self.seen.insert(path.clone(), *digest);
                }
                None => {
                    self.seen.remove(path);
                }
            }
        }
    }
}
