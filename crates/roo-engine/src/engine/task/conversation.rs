//! The conversation of a task with its model, and the files that the model has seen in it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::context::ConversationSize;
use super::quotation::may_hold_call;
use super::shortening::{self, InPlace, Placeholders};
use roo_catalog::ToolCall;
use roo_model::providers::{AssistantBlock, Item, Items, ToolResult};
use roo_protocol::ids::{Digest, ToolCallId};

/// Conversation that the model is sent with each request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conversation {
    items: Items,
    /// Whether each item is the user's word, or the brief of the task, and is never shortened.
    pinned: Vec<bool>,
    /// Size of all items.
    size: ConversationSize,
    /// Number of messages, answers and results that it would have without summaries.
    length: usize,
    /// Texts that are left out now and in which a call could stand.
    quotable: Vec<String>,
}

/// Part of a conversation as it was before a shortening.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LeftOut {
    /// Items in place of which there is a summary, each with whether it is pinned.
    pub items: Vec<(Item, bool)>,
    /// Results in place of which there are placeholders.
    pub results: Vec<ToolResult>,
    /// Calls whose arguments are placeholders.
    pub calls: Vec<ToolCall>,
    /// Texts beside the user's messages of which the middle is left out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub texts: Vec<LeftOutText>,
}

/// A text of which the middle is left out.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LeftOutText {
    /// As it is sent.
    pub now: String,
    /// As it was.
    pub before: String,
}

impl Conversation {
    /// The items, oldest first.
    pub fn items(&self) -> &Items {
        &self.items
    }

    /// The size of all items.
    pub(crate) fn size(&self) -> &ConversationSize {
        &self.size
    }

    /// The number of messages, answers and results, with those that a summary stands for.
    pub(in crate::engine) fn length(&self) -> usize {
        self.length
    }

    /// The items, oldest first, by reference.
    pub(super) fn all(&self) -> Vec<&Item> {
        self.items.iter().collect()
    }

    pub(super) fn is_pinned(&self, index: usize) -> bool {
        self.pinned.get(index).copied().unwrap_or(false)
    }

    /// Puts stubs in place of long results before this index, as logs of earlier versions say it.
    pub(super) fn reduce(&mut self, before: usize) {
        let results = self.calls_before(before).into_iter().collect();
        self.put_placeholders(&Placeholders { results, ..Placeholders::default() });
    }

    /// Puts placeholders in place of results and arguments. Their texts are in the log alone from then on.
    pub(super) fn put_placeholders(&mut self, left_out: &Placeholders) {
        let duplicates: HashSet<&ToolCallId> = left_out.duplicates.iter().collect();
        let old: HashMap<&ToolCallId, Option<&str>> = left_out.results_with_digests().collect();
        let arguments: HashSet<&ToolCallId> = left_out.arguments.iter().collect();
        let middles: HashMap<&ToolCallId, u64> =
            left_out.middles.iter().map(|cut| (&cut.call_id, cut.bytes)).collect();
        let images: HashSet<&ToolCallId> = left_out.images.iter().collect();
        let shortened = |result: &ToolResult| {
            let (middle, loses_images) = (middles.get(&result.call_id), images.contains(&result.call_id));
            if middle.is_some() || loses_images {
                let mut short = match middle {
                    Some(&bytes) => shortening::bounded(result.clone(), bytes),
                    None => result.clone(),
                };
                if loses_images {
                    short.images.clear();
                }
                return Some(short);
            }
            // So are nearly all that were shortened before.
            if !shortening::is_long(result) {
                return None;
            }
            let in_place = match duplicates.contains(&result.call_id) {
                true => InPlace::Duplicate,
                false => InPlace::Result(*old.get(&result.call_id)?),
            };
            shortening::shortened_result(result, in_place)
        };
        let call = |call: &ToolCall| {
            arguments.contains(&call.id).then(|| shortening::with_short_arguments(call)).flatten()
        };
        self.change(&shortened, &call);
        for cut in &left_out.texts {
            self.change_text(cut.item, |text| shortening::bounded_text(text, cut.bytes));
        }
    }

    /// Puts a message in place of the items before this index, but for pinned ones.
    pub(super) fn condense(&mut self, cut: usize, summary: Item) {
        let cut = cut.min(self.items.len());
        let mut items: Vec<Arc<Item>> = vec![];
        for (index, item) in self.items.shared()[..cut].iter().enumerate() {
            if self.is_pinned(index) {
                items.push(Arc::clone(item));
            } else {
                self.quotable.extend(texts(item).filter(|text| may_hold_call(text)).cloned());
            }
        }
        let pinned = vec![true; items.len()];
        items.push(Arc::new(summary));
        self.pinned.splice(..cut, pinned.into_iter().chain([false]));
        self.items.replace_first(cut, items);
        self.measure();
    }

    /// Puts back what a shortening left out, as far as it has not been left out otherwise since.
    pub(super) fn restore(&mut self, left_out: &LeftOut) {
        let summary = self.items.iter().position(|item| matches!(item, Item::Summary { .. }));
        if let Some(summary) = summary.filter(|_| !left_out.items.is_empty()) {
            let items = left_out.items.iter().map(|(item, _)| Arc::new(item.clone())).collect();
            let pinned: Vec<bool> = left_out.items.iter().map(|(_, is_pinned)| *is_pinned).collect();
            self.pinned.splice(..=summary, pinned);
            self.items.replace_first(summary + 1, items);
            self.measure();
        }
        let result =
            |now: &ToolResult| left_out.results.iter().find(|one| one.call_id == now.call_id).cloned();
        let call = |now: &ToolCall| left_out.calls.iter().find(|one| one.id == now.id).cloned();
        self.change(&result, &call);
        for index in 0..self.items.len() {
            let before = |text: &str| {
                let left_out = left_out.texts.iter().find(|left_out| left_out.now == text);
                left_out.map(|left_out| left_out.before.clone())
            };
            if !self.is_pinned(index) {
                self.change_text(index, before);
            }
        }
    }

    /// Puts another text in place of that of a message, if there is any.
    fn change_text(&mut self, index: usize, other: impl FnOnce(&str) -> Option<String>) {
        let Some(Item::User { text, images }) = self.items.get(index) else { return };
        let Some(other) = other(text) else { return };
        let item = Item::User { text: other, images: images.clone() };
        self.quotable.extend(may_hold_call(text).then(|| text.clone()));
        self.replace(index, item);
    }

    /// Puts a text in place of a result that no model has read.
    pub(super) fn replace_result(&mut self, call: &ToolCallId, text: &str) {
        let other = |result: &ToolResult| {
            let text = text.to_owned();
            (result.call_id == *call).then(|| ToolResult { text, images: vec![], ..result.clone() })
        };
        self.change(&other, &|_| None);
    }

    /// Takes the images out of the newest item that has any, which is told in their place.
    pub(super) fn leave_out_newest_images(&mut self, told: &str) {
        let other = |item: &Item| match item {
            Item::User { text, images } if !images.is_empty() => {
                Some(Item::User { text: format!("{text}\n{told}"), images: vec![] })
            }
            Item::Results { results } if results.iter().any(|result| !result.images.is_empty()) => {
                let results = results.iter().map(|result| match result.images.is_empty() {
                    true => result.clone(),
                    false => ToolResult {
                        text: format!("{}\n{told}", result.text),
                        images: vec![],
                        ..result.clone()
                    },
                });
                Some(Item::Results { results: results.collect() })
            }
            Item::User { .. } | Item::Results { .. } | Item::Assistant { .. } | Item::Summary { .. } => None,
        };
        let newest =
            self.items.iter().enumerate().rev().find_map(|(index, item)| Some((index, other(item)?)));
        if let Some((index, item)) = newest {
            self.replace(index, item);
        }
    }

    /// Puts other results and calls in place of those for which there are any.
    fn change(
        &mut self,
        result: &dyn Fn(&ToolResult) -> Option<ToolResult>,
        call: &dyn Fn(&ToolCall) -> Option<ToolCall>,
    ) {
        let mut changed = vec![];
        let mut quotable = vec![];
        for (index, item) in self.items.iter().enumerate() {
            let other = match item {
                Item::Results { results } => {
                    let others: Vec<Option<ToolResult>> = results.iter().map(result).collect();
                    let pairs = || results.iter().zip(&others).filter(|(_, other)| other.is_some());
                    if pairs().next().is_none() {
                        continue;
                    }
                    let given = pairs().map(|(result, _)| &result.text).filter(|text| may_hold_call(text));
                    quotable.extend(given.cloned());
                    let results = results.iter().zip(others);
                    let results = results.map(|(result, other)| other.unwrap_or_else(|| result.clone()));
                    Item::Results { results: results.collect() }
                }
                Item::Assistant { blocks, tail } => {
                    let other = |block: &AssistantBlock| match block {
                        AssistantBlock::Call { call: one } => call(one),
                        AssistantBlock::Text { .. } | AssistantBlock::Thinking { .. } => None,
                    };
                    if blocks.iter().all(|block| other(block).is_none()) {
                        continue;
                    }
                    let blocks = blocks.iter().map(|block| match other(block) {
                        Some(call) => AssistantBlock::Call { call },
                        None => block.clone(),
                    });
                    Item::Assistant { blocks: blocks.collect(), tail: tail.clone() }
                }
                Item::User { .. } | Item::Summary { .. } => continue,
            };
            changed.push((index, other));
        }
        self.quotable.append(&mut quotable);
        for (index, item) in changed {
            self.replace(index, item);
        }
    }

    fn replace(&mut self, index: usize, item: Item) {
        let is_pinned = self.is_pinned(index);
        if let Some(before) = self.items.get(index) {
            self.size -= shortening::size(before, is_pinned);
        }
        self.size += shortening::size(&item, is_pinned);
        self.items.replace(index, item);
    }

    fn measure(&mut self) {
        let mut size = ConversationSize::default();
        for (index, item) in self.items.iter().enumerate() {
            size += shortening::size(item, self.is_pinned(index));
        }
        self.size = size;
    }

    /// The calls whose results stand before this index.
    pub(super) fn calls_before(&self, index: usize) -> HashSet<ToolCallId> {
        let results = self.items.iter().take(index).flat_map(|item| match item {
            Item::Results { results } => results.as_slice(),
            _ => &[],
        });
        results.map(|result| result.call_id.clone()).collect()
    }

    pub(super) fn push(&mut self, item: Item) {
        self.append(item, false);
    }

    /// Appends what the user said, or the brief of the task.
    pub(super) fn push_pinned(&mut self, item: Item) {
        self.append(item, true);
    }

    fn append(&mut self, item: Item, is_pinned: bool) {
        self.size += shortening::size(&item, is_pinned);
        self.items.push(item);
        self.pinned.push(is_pinned);
        self.length += 1;
    }

    pub(super) fn push_text(&mut self, text: impl Into<String>) {
        self.push(Item::User { text: text.into(), images: vec![] });
    }

    /// Appends an answer of the model, with what stays of its request: the tail, and before it what was told of the
    /// workspace.
    pub(super) fn push_answer(
        &mut self,
        blocks: Vec<AssistantBlock>,
        tail: Option<Box<str>>,
        beginning: Option<&str>,
    ) {
        // Endpoints refuse an answer without content.
        if blocks.iter().any(|block| !matches!(block, AssistantBlock::Thinking { .. })) {
            if let Some(text) = beginning {
                self.push_text(text);
                // To the user it is part of the request, not a message.
                self.length -= 1;
            }
            self.push(Item::Assistant { blocks, tail });
        }
    }

    pub(super) fn remove(&mut self, index: usize) -> Option<Arc<Item>> {
        let item = self.items.remove(index)?;
        let is_pinned = index < self.pinned.len() && self.pinned.remove(index);
        self.size -= shortening::size(&item, is_pinned);
        self.length = self.length.saturating_sub(1);
        Some(item)
    }

    /// The texts that the model was given and in which a call could stand: messages and results.
    pub(super) fn given_texts(&self) -> impl Iterator<Item = &str> + Clone {
        self.quotable.iter().chain(self.items.iter().flat_map(texts)).map(String::as_str)
    }

    /// The newest images of the user's messages, or of the task's brief, so many and so many bytes at the most.
    pub(super) fn newest_images(&self, most: usize, mut bytes: usize) -> Vec<String> {
        let pinned = self.items.iter().enumerate().filter(|(index, _)| self.is_pinned(*index));
        let images = pinned.flat_map(|(_, item)| match item {
            Item::User { images, .. } => images.as_slice(),
            Item::Assistant { .. } | Item::Results { .. } | Item::Summary { .. } => &[],
        });
        let all: Vec<&String> = images.collect();
        let fits = |image: &&&String| match bytes.checked_sub(image.len()) {
            Some(rest) => {
                bytes = rest;
                true
            }
            None => false,
        };
        let mut newest: Vec<String> =
            all.iter().rev().take(most).filter(fits).map(|image| (*image).clone()).collect();
        newest.reverse();
        newest
    }

    /// Returns whether the model has answered.
    pub(super) fn has_answers(&self) -> bool {
        self.items.iter().any(|item| matches!(item, Item::Assistant { .. }))
    }

    /// The size of the newest item where it is an answer of the model, in bytes.
    pub(super) fn newest_answer(&self) -> u64 {
        match self.items.last() {
            Some(item @ Item::Assistant { .. }) => shortening::size(item, false).bytes(),
            _ => 0,
        }
    }

    /// The calls of the newest answer that made any and has their results, each with the text of its own.
    pub(crate) fn newest_batch(&self) -> Vec<(ToolCall, String)> {
        let answered = self.items.shared().windows(2).rev().find_map(|pair| match [&*pair[0], &*pair[1]] {
            [Item::Assistant { blocks, .. }, Item::Results { results }] => Some((blocks, results)),
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

/// The texts of an item that the model was given.
fn texts(item: &Item) -> impl Iterator<Item = &String> + Clone {
    let (message, results) = match item {
        Item::User { text, .. } | Item::Summary { text, .. } => (Some(text), [].as_slice()),
        Item::Results { results } => (None, results.as_slice()),
        Item::Assistant { .. } => (None, [].as_slice()),
    };
    message.into_iter().chain(results.iter().map(|result| &result.text))
}

/// What a call tells of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FilePart {
    /// Its result has the text.
    Read,
    /// Its parameters have the whole text.
    Written,
    /// Its parameters have the changed places.
    Changed,
}

/// The files that the model knows or must get to know.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FileContext {
    /// The whole-file digests that it has seen, by path.
    pub seen: BTreeMap<String, Digest>,
    /// What tells the text of each file: a call, or a message (none), that has all of it, and the edits in places since.
    pub(super) sources: BTreeMap<String, Vec<Option<ToolCallId>>>,
    /// Files that were seen and whose text the conversation does not have as a whole: it no longer does, or never did.
    pub(super) left_out: BTreeSet<String>,
    /// Those that results hold which the model gets with its next request: of what it does in the same answer, nothing is
    /// based on them.
    pub(super) waiting: BTreeMap<String, Digest>,
    /// Files that the task must read before it changes, runs or delegates anything.
    pub unread: BTreeSet<String>,
}

impl FileContext {
    /// Takes note of files that the model has seen now; of one without digest it knows nothing any more.
    pub(super) fn see(&mut self, seen: &[(String, Option<Digest>)]) {
        for (path, digest) in seen {
            self.keep(path, *digest);
            self.come_from(path, digest.is_some().then_some(None));
        }
    }

    fn keep(&mut self, path: &str, digest: Option<Digest>) {
        self.waiting.remove(path);
        match digest {
            Some(digest) => {
                self.unread.remove(path);
                self.seen.insert(path.to_owned(), digest);
            }
            None => {
                self.seen.remove(path);
            }
        }
    }

    /// The whole text of a file stands here now; nowhere if nothing is known of it.
    fn come_from(&mut self, path: &str, source: Option<Option<ToolCallId>>) {
        self.left_out.remove(path);
        match source {
            Some(source) => self.sources.insert(path.to_owned(), vec![source]),
            None => self.sources.remove(path),
        };
    }

    /// As [`FileContext::see`], for the files of a call's result that the model has yet to get. What it wrote it knows by
    /// now, unless it wrote into a file that it doesn't know yet.
    pub(super) fn see_with_next_request(
        &mut self,
        call: &ToolCallId,
        seen: &[(String, Option<Digest>)],
        part: FilePart,
    ) {
        let wrote = part != FilePart::Read;
        for (path, digest) in seen {
            let is_known = self.seen.get(path) == digest.as_ref() && (wrote || !self.left_out.contains(path));
            match digest {
                Some(digest) if !is_known && (!wrote || self.waiting.contains_key(path)) => {
                    self.unread.remove(path);
                    self.seen.remove(path);
                    self.waiting.insert(path.clone(), *digest);
                }
                _ => self.keep(path, *digest),
            }
            match part {
                FilePart::Changed if digest.is_some() => {
                    let sources = self.sources.entry(path.clone()).or_default();
                    if sources.is_empty() {
                        // It has never had more than the changed places.
                        self.left_out.insert(path.clone());
                    }
                    sources.push(Some(call.clone()));
                }
                _ => self.come_from(path, digest.is_some().then(|| Some(call.clone()))),
            }
        }
    }

    /// The conversation no longer has all that these calls tell, nor the messages if `with_messages`.
    pub(super) fn leave_out(&mut self, calls: &HashSet<ToolCallId>, with_messages: bool) {
        let is_lost = |source: &Option<ToolCallId>| match source {
            Some(call) => calls.contains(call),
            None => with_messages,
        };
        let lost = self.sources.iter().filter(|(_, sources)| sources.iter().any(is_lost));
        self.left_out.extend(lost.map(|(path, _)| path.clone()));
    }

    /// The digests of the files whose whole text the model has before it. What it replaces or removes as a whole has to be
    /// among them.
    pub fn at_hand(&self) -> BTreeMap<String, Digest> {
        let seen = self.seen.iter().filter(|(path, _)| !self.left_out.contains(*path));
        seen.map(|(path, digest)| (path.clone(), *digest)).collect()
    }

    /// The digests of all files whose text the model has or is about to get.
    pub fn seen_by_next_request(&self) -> BTreeMap<String, Digest> {
        self.seen.iter().chain(&self.waiting).map(|(path, digest)| (path.clone(), *digest)).collect()
    }

    /// The model gets the results.
    pub(super) fn begin_request(&mut self) {
        self.seen.append(&mut self.waiting);
    }

    /// Forgets what was seen.
    pub(super) fn forget(&mut self) {
        let unread = std::mem::take(&mut self.unread);
        *self = Self { unread, ..Self::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use roo_protocol::event::ToolStatus;

    #[test]
    fn nothing_is_based_on_a_result_before_the_model_has_it() {
        let read = |text: &str| [("a".to_owned(), Some(Digest::of(text)))];
        let known = |text: &str| BTreeMap::from([("a".to_owned(), Digest::of(text))]);
        let mut files = FileContext::default();
        let call = ToolCallId::new("1");
        files.see_with_next_request(&call, &read("one"), FilePart::Read);
        assert_eq!(files.seen, BTreeMap::new());
        // An edit in places changes what it doesn't know.
        files.see_with_next_request(&call, &read("two"), FilePart::Changed);
        assert_eq!(files.seen, BTreeMap::new());
        files.begin_request();
        assert_eq!(files.seen, known("two"));
        files.see_with_next_request(&call, &read("two"), FilePart::Read);
        assert_eq!(files.seen, known("two"), "it is what it knows");
        files.see_with_next_request(&call, &read("three"), FilePart::Written);
        assert_eq!(files.seen, known("three"), "it has written that itself");
        files.see_with_next_request(&call, &read("of the user"), FilePart::Read);
        assert_eq!(files.seen, BTreeMap::new(), "what it knew is no more");
        files.see_with_next_request(&call, &[("a".to_owned(), None)], FilePart::Read);
        files.begin_request();
        assert_eq!(files.seen, BTreeMap::new());
    }

    #[test]
    fn an_edit_in_places_does_not_tell_the_rest_of_a_file() {
        let file = |text: &str| [("a".to_owned(), Some(Digest::of(text)))];
        let mut files = FileContext::default();
        let known = |files: &FileContext| files.at_hand().contains_key("a");
        for edit in ["one", "two"] {
            files.see_with_next_request(&ToolCallId::new(edit), &file(edit), FilePart::Changed);
            files.begin_request();
            assert!(!known(&files));
            assert_eq!(files.seen["a"], Digest::of(edit), "changes by others are told");
        }
        files.see_with_next_request(&ToolCallId::new("read"), &file("two"), FilePart::Read);
        files.begin_request();
        assert!(known(&files));
    }

    #[test]
    fn a_text_is_at_hand_while_the_conversation_has_all_of_it() {
        let file = |text: &str| [("a".to_owned(), Some(Digest::of(text)))];
        let calls = |ids: &[&str]| ids.iter().copied().map(ToolCallId::new).collect::<HashSet<_>>();
        let known = |files: &FileContext| files.at_hand().contains_key("a");
        let mut files = FileContext::default();
        files.see_with_next_request(&ToolCallId::new("read"), &file("one"), FilePart::Read);
        files.begin_request();
        files.see_with_next_request(&ToolCallId::new("edit"), &file("two"), FilePart::Changed);
        files.leave_out(&calls(&["other"]), true);
        assert!(known(&files));
        for lost in ["read", "edit"] {
            let mut files = files.clone();
            files.leave_out(&calls(&[lost]), false);
            assert!(!known(&files), "without what '{lost}' told");
            assert_eq!(files.seen["a"], Digest::of("two"), "its changes are still told");
            files.see_with_next_request(&ToolCallId::new("again"), &file("three"), FilePart::Changed);
            assert!(!known(&files), "it knows the changed places alone");
            files.see_with_next_request(&ToolCallId::new("read again"), &file("three"), FilePart::Read);
            assert!(!known(&files), "the result is yet to come");
            files.begin_request();
            assert!(known(&files));
        }
        files.see_with_next_request(&ToolCallId::new("write"), &file("whole"), FilePart::Written);
        files.leave_out(&calls(&["read", "edit"]), false);
        assert!(known(&files), "it wrote the whole text later");
        files.see(&file("mentioned"));
        files.see_with_next_request(&ToolCallId::new("edit of it"), &file("changed"), FilePart::Changed);
        files.leave_out(&calls(&["write"]), false);
        assert!(known(&files));
        files.leave_out(&calls(&[]), true);
        assert!(!known(&files), "the message may be among what was condensed");
    }

    fn results(text: &str) -> Item {
        Item::Results {
            results: vec![ToolResult {
                call_id: ToolCallId::new(text),
                name: "read_file".into(),
                subject: "a".into(),
                status: ToolStatus::Ok,
                text: text.into(),
                images: vec![],
            }],
        }
    }

    fn conversation(texts: &[&str]) -> Conversation {
        let mut conversation = Conversation::default();
        texts.iter().for_each(|text| conversation.push(results(text)));
        conversation
    }

    fn summary() -> Item {
        let (text, summary) = ("They read.".into(), "They read.".into());
        Item::Summary { text, summary, kept: vec![], images: vec![], answers: 1 }
    }

    #[test]
    fn branches_get_the_newest_images_of_the_user() {
        let user = |images: &[&str]| Item::User {
            text: "Look.".into(),
            images: images.iter().map(|image| (*image).to_owned()).collect(),
        };
        let mut conversation = Conversation::default();
        conversation.push_pinned(user(&["1", "22"]));
        conversation.push(user(&["mentioned"]));
        conversation.push_pinned(user(&["333"]));
        assert_eq!(conversation.newest_images(4, 100), ["1", "22", "333"]);
        assert_eq!(conversation.newest_images(2, 100), ["22", "333"]);
        assert_eq!(conversation.newest_images(4, 4), ["1", "333"], "what is too large is left out");
    }

    #[test]
    fn only_long_results_before_the_mark_become_stubs() {
        let long = "x".repeat(401);
        let mut conversation = conversation(&[&long, "short", &"y".repeat(401)]);
        let before = conversation.items().clone();
        conversation.reduce(2);
        let Some(Item::Results { results }) = conversation.items().get(0) else { panic!() };
        assert!(results[0].text.starts_with("[Left out to save space: 401 bytes"), "{}", results[0].text);
        let pairs = conversation.items().shared().iter().zip(before.shared());
        let kept: Vec<bool> = pairs.map(|(now, then)| Arc::ptr_eq(now, then)).collect();
        assert_eq!(kept, [false, true, true], "what does not change is shared");
        let mut measured = conversation.clone();
        measured.measure();
        assert_eq!(conversation.size(), measured.size());
    }

    #[test]
    fn what_is_left_out_is_kept_where_a_call_stands_in_it() {
        let filler = "x".repeat(400);
        let call = format!("{filler} <execute_command><command>ls</command></execute_command>");
        let mut conversation = conversation(&[&call, &filler.repeat(2)]);
        conversation.reduce(2);
        let given: Vec<&str> = conversation.given_texts().collect();
        assert_eq!((given.len(), given[0]), (3, &*call));
        conversation.condense(2, summary());
        assert_eq!(conversation.given_texts().collect::<Vec<_>>(), [&*call, "They read."]);
    }

    #[test]
    fn a_summary_stands_behind_what_is_pinned_and_what_it_replaced_comes_back() {
        let user = |text: &str| Item::User { text: text.into(), images: vec![] };
        let mut conversation = Conversation::default();
        conversation.push_pinned(user("Fix it."));
        conversation.push(user("Looked up."));
        conversation.push(results("old"));
        conversation.push_pinned(user("And this."));
        conversation.push(results("new"));
        let before = conversation.clone();
        conversation.condense(4, summary());
        let items: Vec<&Item> = conversation.items().iter().collect();
        assert_eq!(items, [&user("Fix it."), &user("And this."), &summary(), &results("new")]);
        assert_eq!(conversation.size().pinned, before.size().pinned);
        assert_eq!(conversation.length(), 5, "what the summary stands for counts");
        let items = (0..4).map(|index| (before.items().get(index).unwrap().clone(), before.is_pinned(index)));
        conversation.restore(&LeftOut { items: items.collect(), ..LeftOut::default() });
        assert_eq!(conversation, before);
    }
}
