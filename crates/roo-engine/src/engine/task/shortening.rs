//! What of a conversation is left out when it becomes too long, and in which order: earlier copies of what was read
//! again, old results, large arguments of old calls, and at last whole turns.
//!
//! Everything here is a pure function of the items. A call always keeps its result, and what the user said is never left
//! out: their messages, their answers and refusals, and what governs the task. Nor is what the model said to the user in a
//! call, unless a summary stands for the whole turn; [`super::summary_excerpts`] has what remains of it then.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use roo_catalog::{Effect, Repetition, ToolCall, ToolName, ToolSpec};
use roo_model::prompts::condense::{self, Again};
use roo_model::prompts::{self, replies};
use roo_model::providers::{AssistantBlock, Item, ToolResult};
use roo_protocol::event::ToolStatus;
use roo_protocol::ids::{Digest, ToolCallId};
use roo_text::render::one_line;

use super::context::{ConversationSize, ResultRoom};

/// A result or an argument up to this length is sent whole, in bytes.
const SHORT: usize = 400;
/// Bytes that a block takes besides its text.
const FRAME: usize = 40;
/// The least that is replaced by a summary, in bytes.
const MIN_REPLACED_BYTES: u64 = 2_000;
/// The longest line of an outline, in characters.
const OUTLINE_LINE: usize = 160;
/// The most of what the model loaded to follow that no placeholder takes, in bytes; a quarter of a short conversation.
const LOADED: u64 = 16 << 10;
/// Line between a summary and the calls that were made after the turns that it is of.
const LATER_CALLS: &str = "\nCalls that were made after that:\n";

/// The calls of which something is left out.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Placeholders {
    /// Calls that were made again later: their results.
    pub duplicates: Vec<ToolCallId>,
    /// Their results.
    pub results: Vec<ToolCallId>,
    /// What the placeholders of these results say of their digests, in the same order, so that reading a log needs to hash none
    /// of them. Logs of earlier versions have none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub digests: Vec<String>,
    /// Their large arguments.
    pub arguments: Vec<ToolCallId>,
    /// Calls of the newest answer: the middle of their results.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub middles: Vec<CutResult>,
    /// Calls of the newest answer: the images of their results.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<ToolCallId>,
    /// The middle of what was looked up for the user's messages.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub texts: Vec<CutText>,
}

/// A text beside the user's messages of which the beginning and the end stay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CutText {
    /// Its place in the conversation as it was before.
    pub item: usize,
    /// Bytes that stay.
    pub bytes: u64,
}

/// A result of which the beginning and the end stay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CutResult {
    pub call_id: ToolCallId,
    /// Bytes that stay.
    pub bytes: u64,
}

/// Digests follow from the results, whether they are told or not.
impl PartialEq for Placeholders {
    fn eq(&self, other: &Self) -> bool {
        let Self { duplicates, results, digests: _, arguments, middles, images, texts } = self;
        *duplicates == other.duplicates
            && *results == other.results
            && *arguments == other.arguments
            && *middles == other.middles
            && *images == other.images
            && *texts == other.texts
    }
}

impl Eq for Placeholders {}

impl Placeholders {
    /// The results in place of which there are placeholders, each with what is known of its digest.
    pub(super) fn results_with_digests(&self) -> impl Iterator<Item = (&ToolCallId, Option<&str>)> {
        let mut digests = self.digests.iter().map(String::as_str);
        let are_known = self.digests.len() == self.results.len();
        self.results.iter().map(move |call| (call, digests.next().filter(|_| are_known)))
    }

    /// The calls of whose parameters or results text is left out.
    pub(super) fn calls(&self) -> HashSet<ToolCallId> {
        let Self { duplicates, results, digests: _, arguments, middles, images: _, texts: _ } = self;
        let named = [duplicates, results, arguments].into_iter().flatten();
        named.chain(middles.iter().map(|cut| &cut.call_id)).cloned().collect()
    }

    /// Returns whether nothing is left out.
    pub fn is_empty(&self) -> bool {
        self.duplicates.is_empty()
            && self.results.is_empty()
            && self.arguments.is_empty()
            && self.middles.is_empty()
            && self.images.is_empty()
            && self.texts.is_empty()
    }
}

/// Part of a conversation in which placeholders may be put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// All before the newest answer of the model.
    Earlier,
    /// All. Of results that the model has not seen, only the middle and the images are left out, and of what was looked up
    /// for the user's messages only the middle.
    Everything,
}

/// Calls to be shortened so that at least this many bytes become free, and how many that are. It may be less. `pinned`
/// says which items are the user's own words.
pub(super) fn placeholders(
    items: &[&Item],
    pinned: impl Fn(usize) -> bool,
    wanted: u64,
    reach: Reach,
    image: u64,
) -> (Placeholders, u64) {
    let newest = last_answer(items).unwrap_or(0);
    let end = match reach {
        Reach::Earlier => newest,
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
    let loaded = loaded(items);
    let may_go = |result: &&ToolResult| {
        let stays = is_kept(result) || is_report(result) || loaded.contains(&result.call_id);
        is_long(result) && !stays && !duplicates.contains(&result.call_id)
    };
    let old = || items[..newest].iter().flat_map(|item| results(item)).filter(may_go);
    // What the model can have again at no risk goes first.
    for result in old().filter(|result| looks(result)).chain(old().filter(|result| !looks(result))) {
        if free >= wanted {
            break;
        }
        let digest = digest(&result.text);
        free += gain(result, &result_text(result, &digest));
        found.results.push(result.call_id.clone());
        found.digests.push(digest);
    }
    for call in items[..end].iter().copied().flat_map(calls_of).filter(|call| !speaks(call)) {
        if free >= wanted {
            break;
        }
        if let Some(short) = with_short_arguments(call) {
            found.arguments.push(call.id.clone());
            free += params_size(&call.params).saturating_sub(params_size(&short.params)) as u64;
        }
    }
    if reach == Reach::Everything && free < wanted {
        let unseen: Vec<&ToolResult> = items[newest..].iter().flat_map(|item| results(item)).collect();
        let lengths: Vec<u64> = unseen.iter().map(|result| result.text.len() as u64).collect();
        let left = lengths.iter().sum::<u64>().saturating_sub(wanted - free);
        let longest = fair_share(&lengths, left).max(SHORT as u64);
        let unseen =
            || unseen.iter().filter(|result| !duplicates.contains(&result.call_id) && !is_kept(result));
        for result in unseen() {
            if result.text.len() as u64 > longest {
                let cut = bounded((*result).clone(), longest);
                free += (result.text.len().saturating_sub(cut.text.len())) as u64;
                found.middles.push(CutResult { call_id: result.call_id.clone(), bytes: longest });
            }
        }
        // Images can't be cut.
        for result in unseen().filter(|result| !result.images.is_empty()) {
            if free >= wanted {
                break;
            }
            free += image * result.images.len() as u64;
            found.images.push(result.call_id.clone());
        }
    }
    if reach == Reach::Everything && free < wanted {
        let texts: Vec<(usize, &str)> = (items.iter().enumerate())
            .filter(|(index, _)| !pinned(*index))
            .filter_map(|(index, item)| Some((index, message_text(item)?)))
            .collect();
        let lengths: Vec<u64> = texts.iter().map(|(_, text)| text.len() as u64).collect();
        let left = lengths.iter().sum::<u64>().saturating_sub(wanted - free);
        let longest = fair_share(&lengths, left).max(SHORT as u64);
        for (index, text) in texts {
            if let Some(cut) = bounded_text(text, longest).filter(|cut| cut.len() < text.len()) {
                free += (text.len() - cut.len()) as u64;
                found.texts.push(CutText { item: index, bytes: longest });
            }
        }
    }
    (found, free)
}

fn message_text(item: &Item) -> Option<&str> {
    match item {
        Item::User { text, .. } => Some(text),
        Item::Assistant { .. } | Item::Results { .. } | Item::Summary { .. } => None,
    }
}

/// Returns the greatest length with which texts of these lengths, each cut to it, have no more than so many bytes
/// together.
fn fair_share(lengths: &[u64], all: u64) -> u64 {
    let mut lengths = lengths.to_vec();
    lengths.sort_unstable();
    let (mut left, mut count) = (all, lengths.len() as u64);
    for length in lengths {
        if length.saturating_mul(count) > left {
            return left / count;
        }
        left -= length;
        count -= 1;
    }
    u64::MAX
}

pub(super) fn calls_of(item: &Item) -> impl Iterator<Item = &ToolCall> {
    let blocks = match item {
        Item::Assistant { blocks, .. } => blocks.as_slice(),
        Item::User { .. } | Item::Results { .. } | Item::Summary { .. } => &[],
    };
    blocks.iter().filter_map(|block| match block {
        AssistantBlock::Call { call } => Some(call),
        AssistantBlock::Text { .. } | AssistantBlock::Thinking { .. } => None,
    })
}

pub(super) fn results(item: &Item) -> &[ToolResult] {
    match item {
        Item::Results { results } => results,
        Item::User { .. } | Item::Assistant { .. } | Item::Summary { .. } => &[],
    }
}

/// Returns whether a call that is made again has the same result, but for what has changed since.
fn reads(call: &ToolCall, result: &ToolResult) -> bool {
    let looks = |tool: ToolName| {
        use ToolName::{
            CodeActions, CodebaseSearch, Diagnostics, FindReferences, GoToDefinition, Hover,
            ListCodeDefinitionNames, ListFiles, ReadFile, SearchFiles, SearchMcpTools, WorkspaceSymbols,
        };
        matches!(
            tool,
            ReadFile
                | ListFiles
                | SearchFiles
                | SearchMcpTools
                | CodebaseSearch
                | ListCodeDefinitionNames
                | FindReferences
                | GoToDefinition
                | Hover
                | WorkspaceSymbols
                | Diagnostics
                | CodeActions
        )
    };
    result.status == ToolStatus::Ok && ToolName::parse(&call.name).is_some_and(looks)
}

/// Returns whether the call of a result has no effect, so that nothing is wrong with making it again.
fn looks(result: &ToolResult) -> bool {
    let looks = |spec: &ToolSpec| spec.effect == Effect::Read && spec.repetition != Repetition::Rest;
    ToolName::parse(&result.name).is_some_and(|tool| looks(tool.spec()))
}

/// Returns whether a result has what no other call returns.
fn is_unique(result: &ToolResult) -> bool {
    ToolName::parse(&result.name).is_some_and(|tool| tool.spec().repetition == Repetition::Rest)
}

/// Returns whether a result tells of the work of a subtask: to have it again, all of that would be done again.
fn is_report(result: &ToolResult) -> bool {
    ToolName::parse(&result.name) == Some(ToolName::NewTask)
}

/// Returns whether there is anything to leave out of a result.
pub(super) fn is_long(result: &ToolResult) -> bool {
    result.text.len() > SHORT || !result.images.is_empty()
}

/// Returns whether the arguments of a call are what the model says to the user or to another agent: a question, a result, a
/// brief. No other call returns them.
fn speaks(call: &ToolCall) -> bool {
    use ToolName::{AskFollowupQuestion, AttemptCompletion, CompleteWithFailure, NewTask};
    let speaks =
        |tool| matches!(tool, AskFollowupQuestion | AttemptCompletion | CompleteWithFailure | NewTask);
    ToolName::parse(&call.name).is_some_and(speaks)
}

/// Returns whether the model loaded a result to follow it: a skill, instructions or a command.
pub(super) fn is_loaded(result: &ToolResult) -> bool {
    result.status == ToolStatus::Ok && ToolName::parse(&result.name).is_some_and(loads)
}

/// Returns whether calls of a tool load what the model is to follow.
pub(super) fn loads(tool: ToolName) -> bool {
    matches!(tool, ToolName::Skill | ToolName::FetchInstructions | ToolName::RunSlashCommand)
}

/// What the model loaded to follow and has not loaded again since, newest first, as far as there is room for it.
fn loaded<'a>(items: &[&'a Item]) -> HashSet<&'a ToolCallId> {
    let all: u64 = items.iter().map(|item| size(item, false).bytes()).sum();
    let mut left = LOADED.min(all / 4);
    let mut newest = HashSet::new();
    let results = items.iter().rev().flat_map(|item| results(item).iter().rev());
    let mut fits = |result: &ToolResult| match left.checked_sub(result.text.len() as u64) {
        Some(rest) => {
            left = rest;
            true
        }
        None => false,
    };
    results
        .filter(|result| is_loaded(result) && newest.insert((&result.name, &result.subject)) && fits(result))
        .map(|result| &result.call_id)
        .collect()
}

/// Returns whether a result is the user's word, or says what governs the task.
pub(super) fn is_kept(result: &ToolResult) -> bool {
    let governs =
        |tool: ToolName| matches!(tool, ToolName::AskFollowupQuestion | ToolName::SelectActiveIntent);
    result.status == ToolStatus::Denied
        || ToolName::parse(&result.name).is_some_and(governs)
        || replies::review_in(&result.text).is_some()
}

/// The place of the newest answer of the model.
pub(super) fn last_answer(items: &[&Item]) -> Option<usize> {
    items.iter().rposition(|item| matches!(item, Item::Assistant { .. }))
}

/// Where what is sent in place of an old result sends the model.
#[derive(Clone, Copy, Debug)]
pub(super) enum InPlace<'a> {
    /// To a later result of the same call.
    Duplicate,
    /// To the call itself. The beginning of the result's digest, where it is known.
    Result(Option<&'a str>),
}

/// The result to send in place of an old one; none where it stays as it is.
pub(super) fn shortened_result(result: &ToolResult, in_place: InPlace<'_>) -> Option<ToolResult> {
    if !is_long(result) {
        return None;
    }
    let text = match in_place {
        InPlace::Duplicate => duplicate_text(result),
        InPlace::Result(Some(known)) => result_text(result, known),
        InPlace::Result(None) => result_text(result, &digest(&result.text)),
    };
    let text = if result.text.len() > SHORT { text } else { result.text.clone() };
    let ToolResult { call_id, name, subject, status, text: _, images: _ } = result;
    let (call_id, name, subject) = (call_id.clone(), name.clone(), subject.clone());
    Some(ToolResult { call_id, name, subject, status: *status, text, images: vec![] })
}

fn result_text(result: &ToolResult, digest: &str) -> String {
    let again = match ToolName::parse(&result.name) {
        Some(ToolName::ReadFile) => Again::Read,
        _ if looks(result) => Again::Call,
        _ if is_unique(result) => Again::Never,
        _ => Again::WithEffect,
    };
    condense::left_out_result(&subject(result), result.text.len(), digest, again)
}

fn duplicate_text(result: &ToolResult) -> String {
    condense::left_out_duplicate(&subject(result), result.text.len())
}

/// A call in words, from its result.
pub(super) fn subject(result: &ToolResult) -> String {
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

/// The results of one answer's calls as far as there is room for them.
pub(super) fn within(results: Vec<ToolResult>, room: Option<ResultRoom>) -> Vec<ToolResult> {
    let Some(ResultRoom { each, all, image }) = room else { return results };
    let images: usize = results.iter().map(|result| result.images.len()).sum();
    let all = all.saturating_sub(image * images as u64);
    let lengths: Vec<u64> = results.iter().map(|result| result.text.len() as u64).collect();
    let longest = fair_share(&lengths, all).min(each);
    results.into_iter().map(|result| bounded(result, longest)).collect()
}

/// A result with at most so many bytes, and how to read on.
pub(super) fn bounded(result: ToolResult, longest: u64) -> ToolResult {
    let longest = usize::try_from(longest).unwrap_or(usize::MAX).max(SHORT);
    if is_kept(&result) {
        return result;
    }
    let text = condense::without_middle(&result.text, longest).unwrap_or(result.text);
    ToolResult { text, ..result }
}

/// A message without its middle; none where it has no more than so many bytes.
pub(super) fn bounded_text(text: &str, longest: u64) -> Option<String> {
    condense::without_middle(text, usize::try_from(longest).unwrap_or(usize::MAX).max(SHORT))
}

/// The longest beginning of a text within so many bytes.
pub(super) fn beginning(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
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
        Item::Summary { text, images, .. } => {
            size.images = images.len() as u64;
            size.other = (text.len() + FRAME) as u64;
        }
        Item::Assistant { blocks, tail } => {
            let tail = tail.as_ref().map_or(0, |tail| tail.len());
            size.other = (blocks.iter().map(block_size).sum::<usize>() + tail) as u64;
        }
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
    (replaced >= MIN_REPLACED_BYTES).then_some(cut)
}

/// A list of the calls in turns that are replaced, behind the summary that there was before: of that the beginning, of the
/// calls the newest, within so many bytes.
pub(super) fn outline<'a>(replaced: impl Iterator<Item = &'a Item> + Clone, longest: usize) -> String {
    let statuses: HashMap<&ToolCallId, ToolStatus> = replaced
        .clone()
        .flat_map(|item| results(item).iter().map(|result| (&result.call_id, result.status)))
        .collect();
    let mut lines: Vec<String> = vec![];
    let mut before = "";
    for item in replaced {
        if let Item::Summary { summary, .. } = item {
            let (words, calls) = match summary.split_once(LATER_CALLS) {
                Some((words, calls)) => (words, calls),
                None if summary.lines().all(|line| line.starts_with("- ")) => ("", summary.as_str()),
                None => (summary.as_str(), ""),
            };
            before = words;
            lines.extend(calls.lines().map(str::to_owned));
        }
        let Item::Assistant { blocks, .. } = item else { continue };
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
    let before = beginning(before, longest / 2);
    let mut taken = before.len();
    let first = lines.iter().rposition(|line| {
        taken += line.len() + 1;
        taken > longest
    });
    let lines = &lines[first.map_or(0, |first| first + 1)..];
    let calls = prompts::untrusted(&lines.join("\n")).into_owned();
    if before.is_empty() { calls } else { format!("{before}{LATER_CALLS}{calls}") }
}

#[cfg(test)]
mod tests {
    use super::super::conversation::{Conversation, LeftOut, LeftOutText};
    use super::super::summary_excerpts::summary_excerpts;
    use super::*;

    fn call(id: &str, name: &str) -> Item {
        let params = [("path".to_owned(), Value::from(id))].into_iter().collect();
        let call = ToolCall { id: ToolCallId::new(id), name: name.into(), params, problem: None, note: None };
        Item::Assistant { blocks: vec![AssistantBlock::Call { call }], tail: None }
    }

    fn result(id: &str, name: &str, text: &str) -> Item {
        let (call_id, name, subject) = (ToolCallId::new(id), name.to_owned(), id.to_owned());
        let (status, text, images) = (ToolStatus::Ok, text.to_owned(), vec![]);
        Item::Results { results: vec![ToolResult { call_id, name, subject, status, text, images }] }
    }

    /// Names of the calls whose results are left out so that so many bytes become free.
    fn left_out(items: &[Item], wanted: u64) -> Vec<String> {
        let items: Vec<&Item> = items.iter().collect();
        let (found, _) = placeholders(&items, |_| false, wanted, Reach::Earlier, 0);
        found.results.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_can_be_had_again_is_left_out_first_and_a_subtasks_report_never() {
        let long = "x".repeat(2_000);
        let mut items = vec![];
        for (id, name) in
            [("1", "execute_command"), ("2", "new_task"), ("3", "read_file"), ("4", "read_file")]
        {
            items.extend([call(id, name), result(id, name, &long)]);
        }
        items.push(call("5", "read_file"));
        assert_eq!(left_out(&items, 1_000), ["3"]);
        assert_eq!(left_out(&items, 10_000), ["3", "4", "1"]);
        items[0] = call("1", "read_command_output");
        items[1] = result("1", "read_command_output", &long);
        assert_eq!(left_out(&items, 10_000), ["3", "4", "1"], "no other call returns it");
    }

    #[test]
    fn what_the_model_loaded_to_follow_stays_as_far_as_there_is_room() {
        let mut items = vec![];
        let mut load = |id: &str, subject: &str, bytes: usize| {
            let mut loaded = result(id, "skill", &"x".repeat(bytes));
            let Item::Results { results } = &mut loaded else { panic!("it has results") };
            subject.clone_into(&mut results[0].subject);
            items.extend([call(id, "skill"), loaded]);
        };
        load("1", "long", 9_000);
        load("2", "short", 2_000);
        load("3", "short", 2_000);
        load("4", "middle", 8_000);
        for id in ["5", "6", "7", "8", "9"] {
            items.extend([call(id, "read_file"), result(id, "read_file", &"x".repeat(10_000))]);
        }
        items.push(call("10", "read_file"));
        let gone = left_out(&items, 100_000);
        assert_eq!(
            gone,
            ["1", "2", "5", "6", "7", "8", "9"],
            "the newest fit, and one that was not loaded again"
        );
    }

    #[test]
    fn of_results_that_the_model_has_not_seen_only_middles_and_images_are_left_out() {
        let seen = |text: &str, images: usize| {
            let mut item = result("1", "read_file", text);
            let Item::Results { results } = &mut item else { panic!("it has results") };
            results[0].images = vec!["data:image/png;base64,AA==".to_owned(); images];
            let items = [call("1", "read_file"), item];
            let found = placeholders(
                &items.each_ref().map(|item| item)[..],
                |_| false,
                3_000,
                Reach::Everything,
                1_600,
            );
            let mut conversation = Conversation::default();
            items.into_iter().for_each(|item| conversation.push(item));
            conversation.put_placeholders(&found.0);
            let result = results_of(&conversation);
            assert!(found.0.results.is_empty(), "{found:?}");
            (result.text, result.images.len())
        };
        let short = "It has two images.";
        assert_eq!(seen(short, 2), (short.to_owned(), 0));
        let long = format!("begins {} ends", "x".repeat(1_000));
        let (text, images) = seen(&long, 2);
        assert!(text.starts_with("begins x") && text.ends_with("x ends"), "{text}");
        assert_eq!(images, 0);
        let (text, images) = seen(&long.repeat(10), 1);
        assert!(text.len() < 8_000 && text.ends_with("x ends"), "{text}");
        assert_eq!(images, 1, "there is room for it");
    }

    #[test]
    fn what_was_looked_up_for_a_message_is_cut_before_nothing_is_left_and_comes_back() {
        let user = |text: &str| Item::User { text: text.to_owned(), images: vec![] };
        let own = "In my own words. ".repeat(1_000);
        let mentioned = format!("begins {} ends", "x".repeat(20_000));
        let mut conversation = Conversation::default();
        conversation.push_pinned(user(&own));
        conversation.push(user(&mentioned));
        conversation.push(user("short"));
        let before = conversation.clone();
        let found = |reach| {
            let pinned = |index| before.is_pinned(index);
            placeholders(&before.all(), pinned, 15_000, reach, 0)
        };
        assert!(found(Reach::Earlier).0.is_empty());
        let (cut, free) = found(Reach::Everything);
        assert_eq!(cut.texts.iter().map(|cut| cut.item).collect::<Vec<_>>(), [1]);
        assert!((15_000..15_300).contains(&free), "{free}");
        conversation.put_placeholders(&cut);
        let text = |index| message_text(conversation.items().get(index).unwrap()).unwrap();
        assert!(text(1).starts_with("begins x") && text(1).ends_with("x ends") && text(1).len() < 5_100);
        assert!(text(1).contains("Read the file in parts"));
        assert_eq!((text(0), text(2)), (&*own, "short"));
        assert_eq!(conversation.size().bytes() + free, before.size().bytes());
        let left_out = LeftOut {
            texts: vec![LeftOutText { now: text(1).to_owned(), before: mentioned }],
            ..LeftOut::default()
        };
        conversation.restore(&left_out);
        assert_eq!(conversation.items(), before.items());
        assert_eq!(conversation.size(), before.size());
    }

    fn results_of(conversation: &Conversation) -> ToolResult {
        let all = conversation.all();
        results(all[1])[0].clone()
    }

    #[test]
    fn a_placeholder_says_whether_a_call_can_be_repeated() {
        let text = |name: &str| {
            let items = result("1", name, &"x".repeat(2_000));
            shortened_result(&results(&items)[0], InPlace::Result(None)).unwrap().text
        };
        assert!(text("read_file").ends_with("Read the file again if you need it.]"));
        assert!(text("list_files").ends_with("Make the call again if you need its result.]"));
        assert!(text("read_command_output").contains("It can't be had again"));
        assert!(text("execute_command").ends_with("only where a repetition does no harm.]"));
    }

    #[test]
    fn placeholders_say_the_same_whether_digests_are_told_or_not() {
        let text = "x".repeat(2_000);
        let items = [call("1", "read_file"), result("1", "read_file", &text), call("2", "read_file")];
        let items: Vec<&Item> = items.iter().collect();
        let (told, _) = placeholders(&items, |_| false, 10_000, Reach::Earlier, 0);
        let untold = Placeholders { digests: vec![], ..told.clone() };
        assert_eq!((told.digests.len(), &told), (1, &untold));
        let of = |placeholders: &Placeholders| {
            let (_, digest) = placeholders.results_with_digests().next().unwrap();
            shortened_result(&results(items[1])[0], InPlace::Result(digest)).unwrap()
        };
        assert_eq!(of(&told), of(&untold));
        let read: Placeholders = serde_json::from_value(serde_json::to_value(&told).unwrap()).unwrap();
        assert_eq!(read.digests, told.digests);
    }

    #[test]
    fn what_the_model_says_in_a_call_is_left_out_by_no_placeholder() {
        let long = "x".repeat(2_000);
        let says = |id: &str, name: &str, parameter: &str| {
            let params = [(parameter.to_owned(), Value::from(long.clone()))].into_iter().collect();
            let call =
                ToolCall { id: ToolCallId::new(id), name: name.into(), params, problem: None, note: None };
            Item::Assistant { blocks: vec![AssistantBlock::Call { call }], tail: None }
        };
        let items = [
            says("1", "ask_followup_question", "question"),
            says("2", "attempt_completion", "result"),
            says("3", "complete_with_failure", "reason"),
            says("4", "new_task", "message"),
            says("5", "write_to_file", "content"),
            call("6", "read_file"),
        ];
        let items: Vec<&Item> = items.iter().collect();
        for reach in [Reach::Earlier, Reach::Everything] {
            let (found, _) = placeholders(&items, |_| false, 100_000, reach, 0);
            assert_eq!(found.arguments, [ToolCallId::new("5")]);
        }
    }

    #[test]
    fn what_the_user_decided_about_parts_of_an_edit_is_kept() {
        let edits = "<user_edits>\nThe user decided on each change.\n</user_edits>";
        let text = format!("Applied. {}\n{edits}", "x".repeat(2_000));
        let items = [call("1", "apply_diff"), result("1", "apply_diff", &text), call("2", "read_file")];
        assert_eq!(left_out(&items, 10_000), [""; 0]);
        assert_eq!(summary_excerpts(items.iter(), 1_000), [format!("apply_diff '1': {edits}")]);
    }

    #[test]
    fn a_list_of_calls_keeps_the_summary_before_and_drops_its_oldest_calls() {
        let summary = |summary: &str| Item::Summary {
            text: String::new(),
            summary: summary.to_owned(),
            kept: vec![],
            images: vec![],
            answers: 1,
        };
        let turns = |id: &str| [call(id, "read_file"), result(id, "read_file", "short")];
        let first: Vec<Item> =
            [summary("They read.")].into_iter().chain(turns("1")).chain(turns("2")).collect();
        let outline_of = |items: &[Item], longest| outline(items.iter(), longest);
        let first = outline_of(&first, 1_000);
        insta::assert_snapshot!(first, @r"
        They read.
        Calls that were made after that:
        - read_file '1': done
        - read_file '2': done
        ");
        let second: Vec<Item> = [summary(&first)].into_iter().chain(turns("3")).collect();
        insta::assert_snapshot!(outline_of(&second, 60), @r"
        They read.
        Calls that were made after that:
        - read_file '2': done
        - read_file '3': done
        ");
        let only_calls = outline_of(&turns("4"), 1_000);
        let third: Vec<Item> = [summary(&only_calls)].into_iter().chain(turns("5")).collect();
        assert_eq!(outline_of(&third, 1_000), "- read_file '4': done\n- read_file '5': done");
        assert_eq!(outline_of(&third, 30), "- read_file '5': done");
    }

    #[test]
    fn the_room_for_results_is_shared_so_that_short_ones_stay_whole() {
        assert_eq!(fair_share(&[100, 900, 5_000], 2_000), 1_000);
        assert_eq!(fair_share(&[5_000, 5_000], 2_000), 1_000);
        assert_eq!(fair_share(&[100, 200], 2_000), u64::MAX);
        assert_eq!(fair_share(&[], 0), u64::MAX);
        assert_eq!(fair_share(&[100, 200], 0), 0);
    }
}
