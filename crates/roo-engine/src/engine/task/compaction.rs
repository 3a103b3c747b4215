//! Compaction: when a conversation is shortened so that the next request fits the model's window, and which events come
//! of it. What is left out is chosen by [`super::shortening`], the sizes are those of [`super::context`].
//!
//! Placeholders come first, as they lose nothing that could not be had again. Where they don't make room for many
//! turns, a model is asked for a summary, and where that fails, earlier turns become a list of their calls.

use super::context::{CertainExcess, ContextState, Excess, MeasuredRequest};
use super::conversation::{LeftOut, LeftOutText};
use super::engine_question::ask_engine_question;
use super::ongoing_compaction::{Compaction, CompactionOutcome};
use super::shortening::{self, Placeholders, Reach};
use super::summary_excerpts::{kept_images, summary_excerpts};
use super::transcript::{Speaker, Spoken};
use super::{Conversation, Phase, TRY_AGAIN, Task};
use crate::engine::event::Event;
use roo_catalog::ToolCall;
use roo_model::prompts::condense::{self, SummaryInput};
use roo_model::providers::{AssistantBlock, Item};
use roo_protocol::context::ShorteningMethod;
use roo_protocol::event::QuestionKind;
use roo_protocol::ids::ToolCallId;
use roo_protocol::task::Usage;

/// The longest summary that is taken, in bytes.
const MAX_SUMMARY_BYTES: u64 = 32 << 10;
/// The shortest summary for which a model is asked, in bytes.
const MIN_SUMMARY_BYTES: u64 = 1 << 10;
/// Why a conversation gets no summary.
const NO_ROOM: &str = "There is no room for a summary.";
/// Why a conversation stays as it is.
const NOTHING_LEFT: &str = "Nothing is left that could be shortened.";

/// Turns that are to be replaced.
pub(in crate::engine) struct ReplacedTurns<'a> {
    /// The place behind them.
    pub(super) cut: usize,
    /// They, without what is pinned.
    pub(in crate::engine) items: Vec<&'a Item>,
}

/// The place before which turns can be replaced; none where that would bring little.
pub(super) fn cut(conversation: &Conversation, context: &ContextState) -> Option<usize> {
    let recent = context.recent_bytes(conversation.size());
    shortening::cut(&conversation.all(), |index| conversation.is_pinned(index), recent)
}

/// The turns before a place, without what is pinned.
pub(in crate::engine) fn turns_before(conversation: &Conversation, cut: usize) -> ReplacedTurns<'_> {
    let items = conversation.items().iter().take(cut).enumerate();
    let replaced = items.filter(|(index, _)| !conversation.is_pinned(*index)).map(|(_, item)| item);
    ReplacedTurns { cut, items: replaced.collect() }
}

/// Items before a place with who said what, and what the user said behind it.
pub(in crate::engine) fn spoken_before(task: &Task, cut: usize) -> Vec<Spoken<'_>> {
    let conversation = &task.conversation;
    let mut is_begun = task.parent.is_none();
    let spoken = |(index, item)| {
        let is_pinned = conversation.is_pinned(index);
        let is_brief = is_pinned && !std::mem::replace(&mut is_begun, true);
        let speaker = match is_pinned {
            _ if is_brief => Speaker::Parent,
            true if index < cut => Speaker::User,
            true => Speaker::UserLater,
            false => Speaker::Other,
        };
        (index < cut || is_pinned).then_some((speaker, item))
    };
    conversation.items().iter().enumerate().filter_map(spoken).collect()
}

/// Returns the length of the longest summary of this conversation that is taken, in bytes.
pub(in crate::engine) fn longest_summary(context: &ContextState, conversation: &Conversation) -> usize {
    let room = summary_room(context, conversation).min(MAX_SUMMARY_BYTES);
    usize::try_from(room).unwrap_or(usize::MAX)
}

/// Returns the bytes that a summary of this conversation may have.
fn summary_room(context: &ContextState, conversation: &Conversation) -> u64 {
    context.summary_bytes(conversation.size()).unwrap_or(MAX_SUMMARY_BYTES)
}

/// Returns whether there is room for a summary that is worth its request.
fn has_room_for_summary(context: &ContextState, conversation: &Conversation) -> bool {
    summary_room(context, conversation) >= MIN_SUMMARY_BYTES
}

/// Returns the events that begin a shortening before the next request, if one is due.
pub(super) fn due(task: &Task) -> Vec<Event> {
    let (context, conversation) = (&task.context, &task.conversation);
    if context.is_requested() {
        return vec![match cut(conversation, context) {
            Some(_) if !has_room_for_summary(context, conversation) => {
                kept(task, NO_ROOM.to_owned(), Usage::default())
            }
            Some(_) => Event::ShorteningStarted { method: ShorteningMethod::Summary, manual: true },
            None => kept(task, "There is too little to summarise yet.".to_owned(), Usage::default()),
        }];
    }
    let started = |method| Event::ShorteningStarted { method, manual: false };
    method_due(context, conversation).map(started).into_iter().collect()
}

/// Returns the way in which a conversation is to be shortened before the next request; none where it fits, or where
/// nothing more can be done.
pub(super) fn method_due(context: &ContextState, conversation: &Conversation) -> Option<ShorteningMethod> {
    let size = conversation.size();
    let (limit, allowed, low_water) = (context.limit()?, context.allowed()?, context.low_water(size)?);
    let tokens = context.estimate(size);
    let fits = tokens <= limit || tokens <= allowed && context.is_kept(tokens, size);
    if fits || !context.may_fail_again() {
        return None;
    }
    let items = conversation.all();
    let pinned = |index| conversation.is_pinned(index);
    let wanted = context.bytes(tokens.saturating_sub(low_water));
    let (found, free) =
        shortening::placeholders(&items, pinned, wanted, Reach::Earlier, context.image_bytes());
    if free >= wanted {
        return Some(ShorteningMethod::Placeholders);
    }
    let can_replace = cut(conversation, context).is_some();
    let may_condense = has_room_for_summary(context, conversation) && context.may_condense(tokens, size);
    if can_replace && may_condense {
        return Some(ShorteningMethod::Summary);
    }
    // A little each turn would cost the prompt cache each turn.
    if !found.is_empty() && free >= context.bytes(context.step(size)) {
        return Some(ShorteningMethod::Placeholders);
    }
    if tokens <= allowed {
        return None;
    }
    if can_replace && !context.is_tried(tokens) {
        return Some(ShorteningMethod::Outline);
    }
    let (everything, _) =
        shortening::placeholders(&items, pinned, wanted, Reach::Everything, context.image_bytes());
    (!everything.is_empty()).then_some(ShorteningMethod::Placeholders)
}

/// Returns the tokens above which the endpoint is taken to refuse requests, as it refused the newest one; none where
/// the conversation can't be shortened to that.
pub(super) fn limit_of_refused(task: &Task, refused: Option<&MeasuredRequest>) -> Option<u64> {
    if !task.context.may_be_refused_again() {
        return None;
    }
    let mut context = task.context.clone();
    if let Some(request) = refused {
        context.measure(*request);
    }
    let tokens = context.estimate(task.conversation.size()) / 10 * 9;
    // The endpoint may have told its window as it refused.
    let tokens = context.allowed().map_or(tokens, |allowed| allowed.min(tokens));
    context.limit_to(tokens);
    method_due(&context, &task.conversation).map(|_| tokens)
}

/// Returns the events that follow on a request that was too long to be sent. What can be shortened is shortened next.
/// Where nothing can, the user is asked, or the endpoint has the last word.
pub(super) fn not_sent(task: &Task, request: Option<&MeasuredRequest>) -> Vec<Event> {
    let Some(request) = request else { return vec![] };
    let mut context = task.context.clone();
    context.measure(*request);
    let size = task.conversation.size();
    if context.is_requested() || method_due(&context, &task.conversation).is_some() {
        return vec![];
    }
    match context.excess(request.frame, size) {
        Some(Excess { tokens, certain: Some(CertainExcess { window, frame }), .. }) => {
            let text = format!(
                "The next request would have at least {tokens} tokens, too many for the model's window of {window} \
                 tokens, and nothing more can be left out. The system prompt and the definitions of tools have about \
                 {frame} of them. Use a model with a larger window, raise `contextWindow` if the model takes more, or \
                 offer the model fewer tools."
            );
            ask_engine_question(task, QuestionKind::ApiReqFailed, text, TRY_AGAIN)
        }
        Some(Excess { certain: None, .. }) | None => {
            let reason = format!("{NOTHING_LEFT} The request is sent as it is.");
            vec![kept(task, reason, Usage::default())]
        }
    }
}

/// Returns the placeholders that make the next request fit as far as they can.
fn placeholders(context: &ContextState, conversation: &Conversation) -> Placeholders {
    let size = conversation.size();
    let (Some(allowed), Some(low_water)) = (context.allowed(), context.low_water(size)) else {
        return Placeholders::default();
    };
    let items = conversation.all();
    let pinned = |index| conversation.is_pinned(index);
    let tokens = context.estimate(size);
    let wanted = context.bytes(tokens.saturating_sub(low_water));
    let image = context.image_bytes();
    let (found, free) = shortening::placeholders(&items, pinned, wanted, Reach::Earlier, image);
    if free >= context.bytes(tokens.saturating_sub(allowed)) && !found.is_empty() {
        return found;
    }
    let needed = context.bytes(tokens.saturating_sub(allowed)).max(1);
    shortening::placeholders(&items, pinned, needed.max(free), Reach::Everything, image).0
}

/// The events of a shortening whose effect has ended.
pub(super) fn shortened(task: &Task, outcome: CompactionOutcome, used: Usage) -> Vec<Event> {
    let Some(&Phase::Compacting(compaction)) = task.phase() else { return vec![] };
    let Compaction { method, is_manual, .. } = compaction;
    match (outcome, method) {
        (CompactionOutcome::Refused(reason), _) => {
            let mut events = vec![kept(task, reason.clone(), used)];
            let tokens = task.context.estimate(task.conversation.size());
            if !is_manual && task.context.allowed().is_some_and(|allowed| tokens > allowed) {
                let text = format!("The conversation is too long for the model. {reason}");
                events.extend(ask_engine_question(task, QuestionKind::ApiReqFailed, text, TRY_AGAIN));
            }
            events
        }
        (CompactionOutcome::Failed(reason), _) => vec![kept(task, reason, used)],
        (_, ShorteningMethod::Placeholders) => vec![with_placeholders(task, used)],
        (_, ShorteningMethod::Outline) => vec![condensed(task, compaction, None, used)],
        (CompactionOutcome::Summary(text), ShorteningMethod::Summary) => {
            let text = text.trim();
            if text.is_empty() {
                return vec![kept(task, "The model gave no summary.".to_owned(), used)];
            }
            let whole = condensed(task, compaction, Some(text), used);
            let longest = longest_summary(&task.context, &task.conversation);
            if text.len() <= longest || matches!(whole, Event::ContextKept { .. }) {
                return vec![whole];
            }
            // Turns are not to vanish without a word.
            match shortening::beginning(text, longest).trim() {
                "" => vec![kept(task, NO_ROOM.to_owned(), used)],
                beginning => vec![condensed(task, compaction, Some(beginning), used)],
            }
        }
        (CompactionOutcome::Agreed, ShorteningMethod::Summary) => {
            vec![kept(task, "The model gave no summary.".to_owned(), used)]
        }
    }
}

/// The conversation stays as it is.
fn kept(task: &Task, reason: String, used: Usage) -> Event {
    Event::ContextKept { reason, total: task.totals.including(used) }
}

fn with_placeholders(task: &Task, used: Usage) -> Event {
    let left_out = placeholders(&task.context, &task.conversation);
    let mut after = task.conversation.clone();
    after.put_placeholders(&left_out);
    let tokens = |conversation: &Conversation| task.context.estimate(conversation.size());
    let (tokens_before, tokens_after) = (tokens(&task.conversation), tokens(&after));
    if tokens_after >= tokens_before {
        return kept(task, NOTHING_LEFT.to_owned(), used);
    }
    Event::ContextShortened { left_out, tokens_before, tokens_after }
}

/// The event that puts a message in place of earlier turns: the summary of a model, or else a list of their calls.
fn condensed(task: &Task, compaction: Compaction, summary: Option<&str>, used: Usage) -> Event {
    let Compaction { is_manual: manual, cut, .. } = compaction;
    let Some(cut) = cut else {
        return kept(task, "There is too little to summarise.".to_owned(), used);
    };
    let replaced = turns_before(&task.conversation, cut);
    let items = replaced.items.iter().copied();
    let (summary, by_model) = match summary {
        Some(summary) => (summary.to_owned(), true),
        None => {
            // The last means may have a little more than there is room for.
            let longest = longest_summary(&task.context, &task.conversation).max(MIN_SUMMARY_BYTES as usize);
            (shortening::outline(items.clone(), longest), false)
        }
    };
    let longest = longest_summary(&task.context, &task.conversation);
    let words = summary_excerpts(items.clone(), longest);
    let images = kept_images(items.clone());
    let files: Vec<(String, String)> = (task.files.seen.iter())
        .map(|(path, digest)| (path.clone(), shortening::short_digest(digest)))
        .collect();
    let unread: Vec<String> = task.files.unread.iter().cloned().collect();
    let text = condense::summary_message(&SummaryInput {
        summary: &summary,
        by_model,
        kept: &words,
        files: &files,
        unread: &unread,
    });
    let answers = items.map(|item| match item {
        Item::Assistant { .. } => 1,
        Item::Summary { answers, .. } => *answers,
        Item::User { .. } | Item::Results { .. } => 0,
    });
    let item = Item::Summary { text, summary, kept: words, images, answers: answers.sum() };
    let mut after = task.conversation.clone();
    after.condense(replaced.cut, item.clone());
    let tokens = |conversation: &Conversation| task.context.estimate(conversation.size());
    let (tokens_before, tokens_after) = (tokens(&task.conversation), tokens(&after));
    if tokens_after >= tokens_before {
        return kept(task, "The summary is longer than what it would replace.".to_owned(), used);
    }
    Event::ContextCondensed {
        cut: replaced.cut,
        message: item,
        by_model,
        manual,
        tokens_before,
        tokens_after,
        cost_usd: used.cost_usd.max(0.0),
        total: task.totals.including(used),
    }
}

/// Part of a conversation that a shortening left out, from the conversation as it was before.
pub(in crate::engine) fn left_out_by(event: &Event, before: &Conversation) -> Option<LeftOut> {
    match event {
        Event::ContextShortened { left_out, .. } => {
            let mut found = LeftOut::default();
            let text_cut = |index| left_out.texts.iter().find(|cut| cut.item == index);
            for (index, item) in before.items().iter().enumerate() {
                match item {
                    Item::Results { results } => {
                        let cut = |id: &ToolCallId| left_out.middles.iter().any(|cut| cut.call_id == *id);
                        let named = |id| {
                            left_out.results.contains(id)
                                || left_out.duplicates.contains(id)
                                || left_out.images.contains(id)
                                || cut(id)
                        };
                        found.results.extend(results.iter().filter(|result| named(&result.call_id)).cloned());
                    }
                    Item::Assistant { blocks, .. } => {
                        let named = |call: &&ToolCall| left_out.arguments.contains(&call.id);
                        let calls = blocks.iter().filter_map(|block| match block {
                            AssistantBlock::Call { call } => Some(call),
                            AssistantBlock::Text { .. } | AssistantBlock::Thinking { .. } => None,
                        });
                        found.calls.extend(calls.filter(named).cloned());
                    }
                    Item::User { text, .. } => {
                        let now = text_cut(index).and_then(|cut| shortening::bounded_text(text, cut.bytes));
                        found.texts.extend(now.map(|now| LeftOutText { now, before: text.clone() }));
                    }
                    Item::Summary { .. } => {}
                }
            }
            Some(found)
        }
        Event::ContextCondensed { cut, .. } => {
            let items = before.items().iter().take(*cut).enumerate();
            let items = items.map(|(index, item)| (item.clone(), before.is_pinned(index)));
            Some(LeftOut { items: items.collect(), ..LeftOut::default() })
        }
        _ => None,
    }
}

/// The undo of a shortening; nothing where it can't be undone.
pub(super) fn restored(task: &Task, seq: u64, left_out: LeftOut) -> Vec<Event> {
    if why_not_restored(task, seq).is_some() {
        return vec![];
    }
    let mut after = task.conversation.clone();
    after.restore(&left_out);
    let tokens = |conversation: &Conversation| task.context.estimate(conversation.size());
    let (tokens_before, tokens_after) = (tokens(&task.conversation), tokens(&after));
    vec![Event::ContextRestored { seq, left_out: Box::new(left_out), tokens_before, tokens_after }]
}

/// Returns the reason why a shortening can't be undone, in words; none where it can.
pub(crate) fn why_not_restored(task: &Task, seq: u64) -> Option<&'static str> {
    let done = task.context.shortenings();
    let Some(place) = done.iter().position(|one| one.seq == seq) else {
        return Some("it has no shortening with this number");
    };
    if done[place].restored {
        return Some("this shortening is undone already");
    }
    // What stands in place of turns stands for all before.
    let replaces = |method| method != ShorteningMethod::Placeholders;
    if done[place + 1..].iter().any(|later| replaces(later.method) && !later.restored) {
        return Some("a later summary stands for the same turns; undo that one first");
    }
    matches!(task.phase(), Some(Phase::Compacting(_))).then_some("its conversation is being shortened now")
}
