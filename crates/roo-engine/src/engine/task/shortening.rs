//! What of a conversation is left out when it becomes too long, and in which order: earlier copies of what was read
//! again, old results, large arguments of old calls, and at last whole turns.
//!
//! Everything here is a pure function of the items. A call always keeps its result, and what the user said is never left
//! out: their messages, their answers and refusals, and what governs the task.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use roo_catalog::{ToolCall, ToolName};
use roo_model::prompts::{self, condense, replies};
use roo_model::providers::{AssistantBlock, Item, ToolResult};
use roo_protocol::event::ToolStatus;
use roo_protocol::ids::{Digest, ToolCallId};
use roo_text::render::one_line;

use super::context::ConversationSize;

/// A result or an argument up to this length is sent whole, in bytes.
const SHORT: usize = 400;
/// Bytes that a block takes besides its text.
const FRAME: usize = 40;
/// The least that is replaced by a summary, in bytes.
const LEAST_REPLACED: u64 = 2_000;
/// The longest line of an outline, in characters.
const OUTLINE_LINE: usize = 160;
/// The longest summary that an outline takes over, in bytes.
const OLD_SUMMARY: usize = 4_000;
/// The longest text of what the user decided, each, in characters.
const DECISION: usize = 2_000;

/// The calls of which something is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Placeholders {
    /// Calls that were made again later: their results.
    pub duplicates: Vec<ToolCallId>,
    /// Their results.
    pub results: Vec<ToolCallId>,
    /// Their large arguments.
    pub arguments: Vec<ToolCallId>,
}

impl Placeholders {
    /// Returns whether nothing is left out.
    pub fn is_empty(&self) -> bool {
        self.duplicates.is_empty() && self.results.is_empty() && self.arguments.is_empty()
    }
}

/// Part of a conversation in which placeholders may be put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// All before the newest answer of the model.
    Earlier,
    /// All.
    Everything,
}

/// Calls to be shortened so that at least this many bytes become free, and how many that are. It may be less.
pub(super) fn placeholders(items: &[&Item], wanted: u64, reach: Reach, image: u64) -> (Placeholders, u64) {
    let end = match reach {
        Reach::Earlier => last_answer(items).unwrap_or(0),
        Reach::Everything => items.len(),
    };
    let mut found = Placeholders::default();
    let mut free = 0;
    let calls: HashMap<&ToolCallId, &ToolCall> =
        items.iter().copied().flat_map(calls_of).map(|call| (&call.id, call)).collect();
    let gain = |result: &ToolResult, text: &str| {
        (result.text.len().saturating_sub(text.len()) as u64) + image * result.images.len() as u64
    };

    // From the newest on, so that the newest copy stays.
    let mut read = HashSet::new();
    for (index, item) in items.iter().enumerate().rev() {
        for result in results(item).iter().rev() {
            let Some(call) = calls.get(&result.call_id).filter(|call| reads(call, result)) else { continue };
            let is_first = read.insert((call.name.as_str(), Value::Object(call.params.clone()).to_string()));
            if !is_first && index < end && is_long(result) {
                found.duplicates.push(result.call_id.clone());
                free += gain(result, &duplicate_text(result));
            }
        }
    }
    found.duplicates.reverse();
    let duplicates: HashSet<&ToolCallId> = found.duplicates.iter().collect();
    for result in items[..end].iter().flat_map(|item| results(item)) {
        if free >= wanted {
            break;
        }
        if is_long(result) && !is_kept(result) && !duplicates.contains(&result.call_id) {
            found.results.push(result.call_id.clone());
            free += gain(result, &result_text(result));
        }
    }
    for call in items[..end].iter().copied().flat_map(calls_of) {
        if free >= wanted {
            break;
        }
        if let Some(short) = with_short_arguments(call) {
            found.arguments.push(call.id.clone());
            free += params_size(&call.params).saturating_sub(params_size(&short.params)) as u64;
        }
    }
    (found, free)
}

fn calls_of(item: &Item) -> impl Iterator<Item = &ToolCall> {
    let blocks = match item {
        Item::Assistant { blocks } => blocks.as_slice(),
        Item::User { .. } | Item::Results { .. } | Item::Summary { .. } => &[],
    };
    blocks.iter().filter_map(|block| match block {
        AssistantBlock::Call { call } => Some(call),
        AssistantBlock::Text { .. } | AssistantBlock::Thinking { .. } => None,
    })
}

fn results(item: &Item) -> &[ToolResult] {
    match item {
        Item::Results { results } => results,
        Item::User { .. } | Item::Assistant { .. } | Item::Summary { .. } => &[],
    }
}

/// Returns whether a call that is made again has the same result, but for what has changed since.
fn reads(call: &ToolCall, result: &ToolResult) -> bool {
    let looks =
        |tool: ToolName| matches!(tool, ToolName::ReadFile | ToolName::ListFiles | ToolName::SearchFiles);
    result.status == ToolStatus::Ok && ToolName::parse(&call.name).is_some_and(looks)
}

fn is_long(result: &ToolResult) -> bool {
    result.text.len() > SHORT || !result.images.is_empty()
}

/// Returns whether a result is the user's word, or says what governs the task.
fn is_kept(result: &ToolResult) -> bool {
    let governs =
        |tool: ToolName| matches!(tool, ToolName::AskFollowupQuestion | ToolName::SelectActiveIntent);
    result.status == ToolStatus::Denied || ToolName::parse(&result.name).is_some_and(governs)
}

/// The place of the newest answer of the model.
pub(super) fn last_answer(items: &[&Item]) -> Option<usize> {
    items.iter().rposition(|item| matches!(item, Item::Assistant { .. }))
}

/// The result to send in place of an old one; none where it stays as it is.
pub(super) fn shortened_result(result: &ToolResult, is_duplicate: bool) -> Option<ToolResult> {
    let text = match (is_long(result), is_duplicate) {
        (false, _) => return None,
        (true, true) => duplicate_text(result),
        (true, false) => result_text(result),
    };
    let text = if result.text.len() > SHORT { text } else { result.text.clone() };
    Some(ToolResult { text, images: vec![], ..result.clone() })
}

fn result_text(result: &ToolResult) -> String {
    let reads = ToolName::parse(&result.name) == Some(ToolName::ReadFile);
    condense::left_out_result(&subject(result), result.text.len(), &digest(&result.text), reads)
}

fn duplicate_text(result: &ToolResult) -> String {
    condense::left_out_duplicate(&subject(result), result.text.len())
}

fn subject(result: &ToolResult) -> String {
    match result.subject.as_str() {
        "" => result.name.clone(),
        subject => format!("{} '{}'", result.name, one_line(subject, OUTLINE_LINE)),
    }
}

/// The beginning of a text's digest.
fn digest(text: &str) -> String {
    short_digest(&Digest::of(text))
}

/// The beginning of a digest, which distinguishes the versions of a file.
pub(super) fn short_digest(digest: &Digest) -> String {
    digest.hex().chars().take(12).collect()
}

/// The call to send in place of an old one; none where it stays as it is.
pub(super) fn with_short_arguments(call: &ToolCall) -> Option<ToolCall> {
    let short = |(name, value): (&String, &Value)| {
        let text = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        if text.len() <= SHORT {
            return (name.clone(), value.clone());
        }
        (name.clone(), Value::String(condense::left_out_argument(text.len(), &digest(&text))))
    };
    let params: Map<String, Value> = call.params.iter().map(short).collect();
    (params != call.params).then(|| ToolCall { params, ..call.clone() })
}

fn params_size(params: &Map<String, Value>) -> usize {
    params.iter().map(|(name, value)| name.len() + value_size(value) + FRAME / 4).sum()
}

fn value_size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(|value| value_size(value) + 2).sum(),
        Value::Object(params) => params_size(params),
        Value::Null | Value::Bool(_) | Value::Number(_) => 5,
    }
}

/// A result with at most so many bytes, and how to read on.
pub(super) fn bounded(result: ToolResult, longest: Option<u64>) -> ToolResult {
    let longest = longest.map_or(usize::MAX, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX)).max(SHORT);
    if result.text.len() <= longest || is_kept(&result) {
        return result;
    }
    let (head, tail) = (longest / 4 * 3, longest / 4);
    let head = beginning(&result.text, head);
    let tail = &result.text[beginning(&result.text, result.text.len() - tail).len()..];
    let left_out = result.text.len() - head.len() - tail.len();
    let text = format!("{head}\n{}\n{tail}", condense::left_out_middle(left_out));
    ToolResult { text, ..result }
}

/// The longest beginning of a text within so many bytes.
pub(super) fn beginning(text: &str, bytes: usize) -> &str {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The size of an item.
pub(super) fn size(item: &Item, is_pinned: bool) -> ConversationSize {
    let mut size = ConversationSize::default();
    match item {
        Item::User { text, images } => {
            size.images = images.len() as u64;
            let bytes = (text.len() + FRAME) as u64;
            *(if is_pinned { &mut size.pinned } else { &mut size.other }) = bytes;
        }
        Item::Summary { text, .. } => size.other = (text.len() + FRAME) as u64,
        Item::Assistant { blocks } => size.other = blocks.iter().map(block_size).sum::<usize>() as u64,
        Item::Results { results } => {
            for result in results {
                let bytes = (result.text.len() + result.subject.len() + FRAME) as u64;
                let reads = ToolName::parse(&result.name) == Some(ToolName::ReadFile);
                *(if reads { &mut size.files } else { &mut size.other }) += bytes;
                size.images += result.images.len() as u64;
            }
        }
    }
    size
}

fn block_size(block: &AssistantBlock) -> usize {
    FRAME
        + match block {
            AssistantBlock::Text { text } => text.len(),
            // Only what its provider made is sent back.
            AssistantBlock::Thinking { opaque, .. } => opaque.as_ref().map_or(0, value_size),
            AssistantBlock::Call { call } => call.name.len() + params_size(&call.params),
        }
}

/// The place before which turns can be replaced so that about `recent` bytes stay: before an answer of the model, and
/// not behind its newest one. None where that would bring little.
pub(super) fn cut(items: &[&Item], pinned: impl Fn(usize) -> bool, recent: u64) -> Option<usize> {
    let newest = last_answer(items)?;
    let mut kept = 0;
    let mut cut = newest;
    for index in (0..items.len()).rev() {
        kept += size(items[index], false).bytes();
        if index < newest && kept > recent {
            break;
        }
        if index <= newest && matches!(items[index], Item::Assistant { .. }) {
            cut = index;
        }
    }
    let replaced: u64 =
        (0..cut).filter(|&index| !pinned(index)).map(|index| size(items[index], false).bytes()).sum();
    (replaced >= LEAST_REPLACED).then_some(cut)
}

/// What is kept word for word of turns that are replaced: what the user decided, and what governs the task.
pub(super) fn kept_words<'a>(replaced: impl Iterator<Item = &'a Item>) -> Vec<String> {
    let mut kept: Vec<String> = vec![];
    for item in replaced {
        if let Item::Summary { kept: before, .. } = item {
            kept.extend(before.iter().cloned());
        }
        for result in results(item).iter().filter(|result| is_kept(result)) {
            let intent = ToolName::parse(&result.name) == Some(ToolName::SelectActiveIntent);
            if intent {
                // The newest one counts.
                kept.retain(|text| !text.starts_with(&result.name));
            }
            let asked = ToolName::parse(&result.name) == Some(ToolName::AskFollowupQuestion);
            if !intent && !asked && !replies::is_denied_by_user(&result.text) {
                continue;
            }
            let text: String = result.text.chars().take(DECISION).collect();
            let word = format!("{}: {text}", subject(result));
            if !kept.contains(&word) {
                kept.push(word);
            }
        }
    }
    kept
}

/// A list of the calls in turns that are replaced, the newest ones within so many bytes, behind the summary that there
/// was before.
pub(super) fn outline<'a>(replaced: impl Iterator<Item = &'a Item> + Clone, longest: u64) -> String {
    let statuses: HashMap<&ToolCallId, ToolStatus> = replaced
        .clone()
        .flat_map(|item| results(item).iter().map(|result| (&result.call_id, result.status)))
        .collect();
    let mut lines: Vec<String> = vec![];
    let mut before = None;
    for item in replaced {
        if let Item::Summary { summary, .. } = item {
            before = Some(summary);
        }
        let Item::Assistant { blocks } = item else { continue };
        for block in blocks {
            match block {
                AssistantBlock::Text { text } if !text.trim().is_empty() => {
                    lines.push(format!("- You said: {}", one_line(text.trim(), OUTLINE_LINE)));
                }
                AssistantBlock::Call { call } => {
                    let status = statuses.get(&call.id).copied().unwrap_or(ToolStatus::Interrupted);
                    let subject = one_line(&call.subject(), OUTLINE_LINE);
                    lines.push(format!("- {} '{subject}': {}", call.name, condense::status(status)));
                }
                AssistantBlock::Text { .. } | AssistantBlock::Thinking { .. } => {}
            }
        }
    }
    let longest = usize::try_from(longest).unwrap_or(usize::MAX);
    let mut taken = 0;
    let first = lines.iter().rposition(|line| {
        taken += line.len() + 1;
        taken > longest
    });
    let lines = &lines[first.map_or(0, |first| first + 1)..];
    let before = before.map(|text| beginning(text, OLD_SUMMARY).to_owned());
    let mut parts: Vec<String> = before.into_iter().collect();
    parts.push(prompts::untrusted(&lines.join("\n")).into_owned());
    parts.join("\n")
}
