//! The size of a task's next model request in tokens, and the bounds that it has to keep.
//!
//! An endpoint tells the tokens of a request only in its answer. Until then they are estimated from the number of bytes,
//! at the rate of the newest request whose tokens the endpoint has told. What is shortened, and how, is elsewhere.

use serde::{Deserialize, Serialize};

use roo_protocol::context::{ContextMeter, Shortening, ShorteningMethod};

/// Tokens of 1,000 bytes before an endpoint has told any: more than in most texts.
const CAUTIOUS_RATE: u64 = 400;
/// The fewest tokens of 1,000 bytes before an endpoint has told any: prose and code have more.
const MIN_RATE: u64 = 220;
/// Tokens of 1,000 bytes that an endpoint may tell. What is outside isn't a count of the whole request.
const PLAUSIBLE_RATES: std::ops::RangeInclusive<u64> = 120..=1_200;
/// The smallest request from which a rate is taken, in bytes.
const MIN_COUNTED_BYTES: u64 = 2_000;
/// Tokens of an image, of whatever size.
const IMAGE: u64 = 1_600;
/// Share of the window that requests and answers may fill, in percent: estimates are not exact.
const USABLE: u64 = 90;
/// Share of its limit to which a conversation is shortened, in percent. Each shortening costs the provider's prompt
/// cache, so it has to make room for many turns.
const LOW_WATER: u64 = 60;
/// Share of the space for what can be shortened that stays used at least, in percent. In a small window the rest of the
/// request may have more than [`LOW_WATER`] by itself.
const MIN_USED_PERCENT: u64 = 50;
/// Share of the limit that one result of a tool may fill, in percent.
const RESULT: u64 = 25;
/// Share of the space for what can be shortened that the results of one answer may fill together, in percent.
const RESULTS: u64 = 75;
/// Share of that space that the newest turns keep when earlier ones are replaced, in percent.
const RECENT: u64 = 20;
/// Share of that space that a summary may fill, in percent.
const SUMMARY: u64 = 25;
/// Growth of a conversation, in percent of that space, before a shortening that failed or brought little is tried again.
const GROWTH: u64 = 10;
/// The least such growth, in percent of what a request may have: where little or no space is left, each bit would count.
const MIN_GROWTH_PERCENT: u64 = 2;
/// The window of a model that writes summaries, where it isn't known, in tokens.
const USUAL_WINDOW: u64 = 128_000;
/// Bytes of system prompt and tools before any request was made. In a small window they count as half of what is allowed.
const USUAL_FRAME: u64 = 50_000;
/// Maximum number of refusals of an endpoint, of failed summaries and of other failed shortenings, in a row.
const MAX_FAILURES: u32 = 3;
/// Tokens of an answer whose length is not limited by the profile.
const USUAL_ANSWER: u64 = 8_192;
/// The fewest tokens of such an answer: with fewer, a model can't make a call.
const MIN_ANSWER_TOKENS: u64 = 1_024;

/// Everything of a request but its conversation, as it was sent last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RequestFrame {
    /// Tokens that a request and its answer may have together, where that is known.
    pub window: Option<u64>,
    /// Tokens that an answer may have, where its profile says so.
    pub answer: Option<u64>,
    /// Share of the window above which the conversation is shortened, in percent.
    pub threshold: u8,
    /// True if a model may be asked for a summary.
    pub condense: bool,
    /// Bytes of the system prompt.
    pub system: u64,
    /// Bytes of the tools' definitions.
    pub tools: u64,
    /// Bytes of the part that changes with every request.
    pub tail: u64,
    /// True if notes are sent in place of images.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub leaves_out_images: bool,
}

/// Share of a model's window that a request has beside its conversation. All in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameShare {
    /// Of the frame, by the lowest estimate.
    pub least: u64,
    /// Of the frame, by the highest estimate.
    pub most: u64,
    /// That a whole request may have.
    pub allowed: u64,
    pub window: u64,
}

impl RequestFrame {
    fn bytes(&self) -> u64 {
        self.system + self.tools + self.tail
    }

    /// Tokens of the images of a conversation.
    fn images(&self, size: &ConversationSize) -> u64 {
        if self.leaves_out_images { 0 } else { IMAGE * size.images }
    }

    /// Tokens that a request may have in the window; none where that isn't known.
    fn allowed(&self) -> Option<u64> {
        let window = self.window?;
        let answer = self.answer.map_or(USUAL_ANSWER.min(window / 4), |answer| answer.min(window / 4 * 3));
        Some(percent(window, USABLE).saturating_sub(answer))
    }

    /// Its share of the window; none where that isn't known.
    pub(in crate::engine) fn share(&self) -> Option<FrameShare> {
        let (least, most) = (tokens(self.bytes(), MIN_RATE), tokens(self.bytes(), CAUTIOUS_RATE));
        Some(FrameShare { least, most, allowed: self.allowed()?, window: self.window? })
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConversationSize {
    /// Bytes of what is never shortened.
    pub pinned: u64,
    /// Bytes of the contents of files.
    pub files: u64,
    /// Bytes of all else.
    pub other: u64,
    /// Number of images.
    pub images: u64,
}

impl ConversationSize {
    /// Bytes of all texts.
    pub fn bytes(&self) -> u64 {
        self.pinned + self.files + self.other
    }
}

impl std::ops::AddAssign for ConversationSize {
    fn add_assign(&mut self, other: Self) {
        self.pinned += other.pinned;
        self.files += other.files;
        self.other += other.other;
        self.images += other.images;
    }
}

impl std::ops::SubAssign for ConversationSize {
    fn sub_assign(&mut self, other: Self) {
        self.pinned = self.pinned.saturating_sub(other.pinned);
        self.files = self.files.saturating_sub(other.files);
        self.other = self.other.saturating_sub(other.other);
        self.images = self.images.saturating_sub(other.images);
    }
}

/// A request that was made, with its size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MeasuredRequest {
    /// All but the conversation.
    pub frame: RequestFrame,
    pub conversation: ConversationSize,
    pub tokens: u64,
    /// True if the endpoint counted them; they are estimated where it didn't, or told something that can't be the count.
    pub counted: bool,
    /// Number of tokens above which requests of this task were shortened.
    pub limit: Option<u64>,
}

impl MeasuredRequest {
    /// Its size by parts.
    pub(crate) fn meter(&self) -> ContextMeter {
        let Self { frame, conversation: size, tokens: used, .. } = *self;
        let texts = used.saturating_sub(frame.images(&size));
        let part = |bytes: u64| scaled(texts, bytes, self.bytes().max(1));
        let (system, tools) = (part(frame.system + frame.tail), part(frame.tools));
        let (pinned, files) = (part(size.pinned), part(size.files));
        ContextMeter {
            window: frame.window,
            limit: self.limit,
            used,
            system,
            tools,
            pinned,
            files,
            // What is left of rounding goes here too.
            conversation: used.saturating_sub(system + tools + pinned + files),
        }
    }

    fn bytes(&self) -> u64 {
        self.frame.bytes() + self.conversation.bytes()
    }

    /// Tokens of 1,000 bytes in it; none where the endpoint told nothing that can be one.
    fn rate(&self) -> Option<u64> {
        let texts = self.tokens.saturating_sub(self.frame.images(&self.conversation));
        let rate = scaled(texts, 1_000, self.bytes().max(1));
        let is_plausible = self.bytes() >= MIN_COUNTED_BYTES && PLAUSIBLE_RATES.contains(&rate);
        (self.counted && is_plausible).then_some(rate)
    }
}

/// Bytes that the results of one answer's calls may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) struct ResultRoom {
    /// Each of them.
    pub(in crate::engine) each: u64,
    /// All of them together.
    pub(in crate::engine) all: u64,
    /// Bytes that count as much as an image.
    pub(super) image: u64,
}

/// A request that is too long for its model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Excess {
    /// Estimated tokens of the request.
    pub(crate) tokens: u64,
    /// Tokens that it may have.
    pub(crate) allowed: u64,
    /// Set if it doesn't fit the window even by the lowest estimate.
    pub(crate) certain: Option<CertainExcess>,
}

/// A request that doesn't fit the window of its model. All in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CertainExcess {
    pub(crate) window: u64,
    /// Of the system prompt and the tools' definitions.
    pub(crate) frame: u64,
}

/// What a task knows of the size of its requests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContextState {
    /// The newest request that was made.
    newest: Option<MeasuredRequest>,
    /// The newest request whose tokens are known.
    counted: Option<MeasuredRequest>,
    /// The conversation of the request that is under way; none where the mode or the model has changed since.
    sent: Option<ConversationSize>,
    /// Tokens above which the endpoint is known to refuse requests.
    refused_above: Option<u64>,
    /// The endpoint is known to refuse images.
    refuses_images: bool,
    /// Images were left out as it refused a request with them, and the model has not answered since.
    leaves_out_newest_images: bool,
    /// Requests that were refused as too long since the model last answered.
    refusals: u32,
    /// Summaries that changed nothing since the model last answered.
    failed_summaries: u32,
    /// Other shortenings that changed nothing since then.
    failures: u32,
    /// Tokens of the request when a summary was last tried in vain, or brought little.
    tried_at: Option<u64>,
    /// Tokens of the request up to which the conversation stays as it is: nothing could be left out, a hook refused that,
    /// or the user undid it.
    kept_at: Option<u64>,
    /// The user wants a summary.
    requested: bool,
    /// All shortenings, oldest first.
    shortenings: Vec<Shortening>,
}

impl ContextState {
    /// A request with this conversation is under way.
    pub(super) fn begin_request(&mut self, conversation: ConversationSize) {
        self.sent = Some(conversation);
    }

    /// The conversation of the request that is under way; none where what its endpoint tells of it says nothing of the
    /// next request.
    pub(super) fn sent(&self) -> Option<ConversationSize> {
        self.sent
    }

    /// Takes note of a request that was made.
    pub(super) fn measure(&mut self, request: MeasuredRequest) {
        self.newest = Some(request);
        if request.rate().is_some() {
            self.counted = Some(request);
        }
    }

    /// The model answered.
    pub(super) fn answered(&mut self) {
        self.refusals = 0;
        self.failed_summaries = 0;
        self.failures = 0;
        self.leaves_out_newest_images = false;
    }

    /// The endpoint refuses requests of more tokens.
    pub(super) fn limit_to(&mut self, tokens: u64) {
        self.refused_above = Some(self.refused_above.map_or(tokens, |before| before.min(tokens)));
        self.refusals += 1;
    }

    /// The endpoint refuses images.
    pub(super) fn refuse_images(&mut self) {
        self.refuses_images = true;
    }

    /// Returns whether the endpoint is known to refuse images.
    pub(in crate::engine) fn refuses_images(&self) -> bool {
        self.refuses_images
    }

    /// The newest images are left out: the endpoint refused a request with them.
    pub(super) fn leave_out_newest_images(&mut self) {
        self.leaves_out_newest_images = true;
    }

    /// Returns whether images were left out since the model last answered.
    pub(super) fn leaves_out_newest_images(&self) -> bool {
        self.leaves_out_newest_images
    }

    /// Another mode or model follows. With another model nothing that is known counts.
    pub(super) fn change_frame(&mut self, model: bool) {
        self.sent = None;
        if model {
            self.newest = None;
            self.counted = None;
            self.refused_above = None;
            self.try_again();
        }
    }

    /// What was tried in vain is tried again: the user lets the task go on, or another model follows.
    pub(super) fn try_again(&mut self) {
        self.refuses_images = false;
        self.leaves_out_newest_images = false;
        self.refusals = 0;
        self.failed_summaries = 0;
        self.failures = 0;
        self.tried_at = None;
        self.kept_at = None;
    }

    pub(super) fn request_summary(&mut self) {
        self.requested = true;
    }

    pub(super) fn is_requested(&self) -> bool {
        self.requested
    }

    /// A summary is tried with this many tokens in the request, and whoever wanted one gets it.
    pub(super) fn try_summary(&mut self, size: &ConversationSize) {
        self.tried_at = Some(self.estimate(size));
        self.requested = false;
    }

    /// A conversation of this size was shortened.
    pub(super) fn add(&mut self, shortening: Shortening, size: &ConversationSize) {
        if shortening.method == ShorteningMethod::Summary {
            let after = shortening.tokens_after;
            // One that leaves little room is not followed by another at once.
            let is_full = self.limit().is_some_and(|limit| after.saturating_add(self.step(size)) > limit);
            self.tried_at = is_full.then_some(after);
        }
        self.kept_at = None;
        self.shortenings.push(shortening);
    }

    /// The conversation stays as it is, in spite of this way to shorten it, and whoever wanted a summary is told so.
    pub(super) fn keep(&mut self, method: Option<ShorteningMethod>, size: &ConversationSize) {
        self.requested = false;
        // Another way may be tried where there is no summary.
        if method == Some(ShorteningMethod::Summary) {
            self.failed_summaries += 1;
        } else {
            self.failures += 1;
            self.kept_at = Some(self.estimate(size));
        }
    }

    /// A shortening was undone, which made the conversation this long. As far as it fits, it stays so.
    pub(super) fn restore(&mut self, seq: u64, size: &ConversationSize) {
        self.shortenings.iter_mut().filter(|one| one.seq == seq).for_each(|one| one.restored = true);
        self.tried_at = None;
        self.kept_at = Some(self.estimate(size));
    }

    /// The shortenings, oldest first.
    pub(crate) fn shortenings(&self) -> &[Shortening] {
        &self.shortenings
    }

    /// The size of the next request, with this conversation; none before one was made.
    pub(crate) fn meter(&self, size: &ConversationSize) -> Option<ContextMeter> {
        let frame = self.newest?.frame;
        let tokens = self.estimate(size);
        let limit = self.limit();
        Some(MeasuredRequest { frame, conversation: *size, tokens, counted: false, limit }.meter())
    }

    /// A request with this frame and conversation, of which the endpoint told so many tokens.
    pub(super) fn measured(
        &self,
        frame: RequestFrame,
        conversation: ConversationSize,
        told: u64,
    ) -> MeasuredRequest {
        let told = MeasuredRequest { frame, conversation, tokens: told, counted: true, limit: None };
        let mut next = self.clone();
        next.measure(told);
        let limit = next.limit();
        match told.rate() {
            Some(_) => MeasuredRequest { limit, ..told },
            None => {
                let tokens = next.estimate(&conversation);
                MeasuredRequest { tokens, counted: false, limit, ..told }
            }
        }
    }

    /// Estimated tokens of the next request, with this conversation.
    pub(crate) fn estimate(&self, size: &ConversationSize) -> u64 {
        let frame = self.newest.map_or(0, |newest| newest.frame.bytes());
        let bytes = frame + size.bytes();
        let images = self.newest.map_or(IMAGE * size.images, |newest| newest.frame.images(size));
        let Some((counted, rate)) = self.counted.and_then(|counted| Some((counted, counted.rate()?))) else {
            return tokens(bytes, CAUTIOUS_RATE) + images;
        };
        // What is new may be another kind of text than what was counted.
        let known = bytes.min(counted.bytes());
        tokens(known, rate) + self.cautious(bytes - known) + images
    }

    /// Bytes of so many tokens.
    pub(super) fn bytes(&self, tokens: u64) -> u64 {
        scaled(tokens, 1_000, self.rate().unwrap_or(CAUTIOUS_RATE))
    }

    /// Bytes that count as much as an image.
    pub(super) fn image_bytes(&self) -> u64 {
        self.bytes(IMAGE)
    }

    /// Tokens that a request may have; none where nothing is known of its endpoint.
    pub(super) fn allowed(&self) -> Option<u64> {
        let of_window = self.newest.and_then(|newest| newest.frame.allowed());
        [of_window, self.refused_above].into_iter().flatten().min()
    }

    /// Tokens above which the conversation is shortened.
    pub(super) fn limit(&self) -> Option<u64> {
        let allowed = self.allowed()?;
        let frame = self.newest.map(|newest| newest.frame).filter(|frame| frame.condense);
        let threshold = frame.and_then(|frame| Some(percent(frame.window?, frame.threshold.into())));
        Some(threshold.map_or(allowed, |threshold| threshold.min(allowed)))
    }

    /// Tokens of all that can't be shortened.
    fn fixed(&self, size: &ConversationSize) -> u64 {
        let frame = self.newest.map_or(0, |newest| newest.frame.bytes());
        tokens(frame + size.pinned, self.rate().unwrap_or(CAUTIOUS_RATE))
    }

    /// Tokens that what can be shortened may have; none where nothing is known of the endpoint.
    fn room(&self, size: &ConversationSize) -> Option<u64> {
        Some(self.limit()?.saturating_sub(self.fixed(size)))
    }

    /// Tokens to which the conversation is shortened.
    pub(super) fn low_water(&self, size: &ConversationSize) -> Option<u64> {
        let (limit, room) = (self.limit()?, self.room(size)?);
        Some(percent(limit, LOW_WATER).max(limit - percent(room, 100 - MIN_USED_PERCENT)))
    }

    /// Returns whether a conversation that fits the window stays as it is, though it is above the user's threshold.
    pub(super) fn is_kept(&self, tokens: u64, size: &ConversationSize) -> bool {
        self.kept_at.is_some_and(|kept| tokens < kept.saturating_add(self.step(size)))
    }

    /// Returns whether a request of so many tokens could not be shortened further.
    pub(super) fn is_tried(&self, tokens: u64) -> bool {
        self.kept_at.is_some_and(|kept| tokens <= kept)
    }

    /// Room for the results of the newest answer's calls, behind this conversation; none where nothing is known of the
    /// endpoint. `newest` is the size of that answer in bytes.
    pub(super) fn result_room(&self, size: &ConversationSize, newest: u64) -> Option<ResultRoom> {
        let allowed = self.allowed()?;
        let room = allowed.saturating_sub(self.fixed(size));
        // Large arguments of that answer can be left out; results that no model has read can't.
        let answer = self.cautious(newest).min(room / 2);
        let all = percent(room - answer, RESULTS);
        let bytes = |tokens| scaled(tokens, 1_000, self.cautious_rate());
        let each = bytes(percent(allowed, RESULT).min(all));
        Some(ResultRoom { each, all: bytes(all), image: bytes(IMAGE) })
    }

    /// Room for what is looked up for the user's messages, behind this conversation; none where no window is known. Before
    /// the first request, only these limits are known of its frame.
    pub(in crate::engine) fn lookup_room(
        &self,
        limits: RequestFrame,
        size: &ConversationSize,
    ) -> Option<ResultRoom> {
        let mut next = self.clone();
        if next.newest.is_none() {
            let allowed = limits.allowed()?;
            let system = USUAL_FRAME.min(scaled(allowed / 2, 1_000, CAUTIOUS_RATE));
            let frame = RequestFrame { system, ..limits };
            next.newest = Some(MeasuredRequest { frame, ..MeasuredRequest::default() });
        }
        next.result_room(size, 0)
    }

    /// Bytes of the newest turns that are kept when earlier ones are replaced.
    pub(super) fn recent_bytes(&self, size: &ConversationSize) -> u64 {
        let used = self.estimate(size).saturating_sub(self.fixed(size));
        self.bytes(percent(self.room(size).map_or(used, |room| room.min(used)), RECENT))
    }

    /// Bytes that a summary may have; none where nothing is known of the endpoint.
    pub(super) fn summary_bytes(&self, size: &ConversationSize) -> Option<u64> {
        let room = self.room(size)?;
        Some(scaled(percent(room, SUMMARY), 1_000, self.cautious_rate()))
    }

    /// Bytes that a request for a summary may have, within these limits of the model that writes it. `is_own` says that it
    /// is the task's own model, whose rate is known.
    pub(in crate::engine) fn summary_request_bytes(&self, limits: RequestFrame, is_own: bool) -> u64 {
        let window = limits.window.unwrap_or(USUAL_WINDOW);
        let allowed = RequestFrame { window: Some(window), ..limits }.allowed().unwrap_or(0);
        let (allowed, rate) = match is_own {
            true => {
                // The text is a little different from the conversation.
                let rate = self.rate().map(|rate| rate + rate / 10);
                let refused = self.refused_above.unwrap_or(u64::MAX);
                (allowed.min(refused), rate.unwrap_or(CAUTIOUS_RATE))
            }
            false => (allowed, self.cautious_rate()),
        };
        scaled(allowed, 1_000, rate)
    }

    /// Tokens that count as progress.
    pub(super) fn step(&self, size: &ConversationSize) -> u64 {
        let least = self.allowed().map_or(0, |allowed| percent(allowed, MIN_GROWTH_PERCENT));
        self.room(size).map_or(0, |room| percent(room, GROWTH)).max(least)
    }

    /// Returns by how much a request with this frame and conversation is too long; none where it fits.
    pub(crate) fn excess(&self, frame: RequestFrame, size: &ConversationSize) -> Option<Excess> {
        let mut next = self.clone();
        next.measure(self.measured(frame, *size, 0));
        let (tokens, allowed) = (next.estimate(size), next.allowed()?);
        let certain = next.certain_excess(frame, size);
        // Where nothing could be left out, the endpoint has the last word.
        certain.or((tokens > allowed && !next.is_tried(tokens)).then_some(Excess {
            tokens,
            allowed,
            certain: None,
        }))
    }

    /// The excess of a request with this frame and conversation that doesn't fit the window even by the lowest estimate.
    fn certain_excess(&self, frame: RequestFrame, size: &ConversationSize) -> Option<Excess> {
        let (window, allowed) = (frame.window?, self.allowed()?);
        let rate = self.rate().unwrap_or(MIN_RATE);
        let answer = frame.answer.unwrap_or(MIN_ANSWER_TOKENS.min(window / 8)).min(window / 4 * 3);
        let least = tokens(frame.bytes() + size.bytes(), rate) + frame.images(size);
        let certain = CertainExcess { window, frame: tokens(frame.bytes(), rate) };
        (least + answer > window).then_some(Excess { tokens: least, allowed, certain: Some(certain) })
    }

    /// Returns whether a request of this task that the endpoint refuses as too long is worth another try.
    pub(super) fn may_be_refused_again(&self) -> bool {
        self.refusals < MAX_FAILURES
    }

    /// Returns whether another shortening, summaries aside, is worth a try before the model answers.
    pub(super) fn may_fail_again(&self) -> bool {
        self.failures < MAX_FAILURES
    }

    /// Returns whether a model may be asked for a summary now.
    pub(super) fn may_condense(&self, tokens: u64, size: &ConversationSize) -> bool {
        let allows = self.newest.is_none_or(|newest| newest.frame.condense);
        let may_fail_again = self.failed_summaries < MAX_FAILURES;
        allows
            && may_fail_again
            && self.tried_at.is_none_or(|tried| tokens >= tried.saturating_add(self.step(size)))
    }

    /// Tokens of 1,000 bytes, as the endpoint told them.
    fn rate(&self) -> Option<u64> {
        self.counted.and_then(|counted| counted.rate())
    }

    /// Tokens of 1,000 bytes of a text that the endpoint has not counted.
    fn cautious_rate(&self) -> u64 {
        self.rate().unwrap_or(0).max(CAUTIOUS_RATE)
    }

    /// Tokens of so many bytes that the endpoint has not counted.
    fn cautious(&self, bytes: u64) -> u64 {
        tokens(bytes, self.cautious_rate())
    }
}

/// Tokens of so many bytes, at this rate.
fn tokens(bytes: u64, rate: u64) -> u64 {
    scaled(bytes, rate, 1_000)
}

fn percent(whole: u64, share: u64) -> u64 {
    scaled(whole, share, 100)
}

/// `value` × `times` ÷ `by`, without overflow, rounded up.
fn scaled(value: u64, times: u64, by: u64) -> u64 {
    let product = u128::from(value) * u128::from(times);
    u64::try_from(product.div_ceil(u128::from(by.max(1)))).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(window: u64) -> RequestFrame {
        RequestFrame {
            window: Some(window),
            answer: Some(2_000),
            threshold: 100,
            condense: true,
            system: 6_000,
            tools: 3_000,
            tail: 1_000,
            leaves_out_images: false,
        }
    }

    fn size(bytes: u64) -> ConversationSize {
        ConversationSize { other: bytes, ..ConversationSize::default() }
    }

    fn measured(tokens: u64) -> ContextState {
        let mut state = ContextState::default();
        state.measure(state.measured(frame(32_000), size(30_000), tokens));
        state
    }

    #[test]
    fn before_an_endpoint_has_counted_the_estimate_is_cautious() {
        let state = ContextState::default();
        assert_eq!(state.estimate(&size(10_000)), 4_000);
        let images = ConversationSize { images: 2, ..size(0) };
        assert_eq!(state.estimate(&images), 3_200);
        assert_eq!((state.allowed(), state.limit()), (None, None));
    }

    #[test]
    fn images_that_are_not_sent_have_no_tokens() {
        let mut state = ContextState::default();
        let (images, frame) = (ConversationSize { images: 9, ..size(30_000) }, frame(32_000));
        state.measure(state.measured(RequestFrame { leaves_out_images: true, ..frame }, images, 10_000));
        assert_eq!(state.estimate(&images), 10_000);
        assert_eq!(state.estimate(&size(30_000)), 10_000);
    }

    #[test]
    fn what_an_endpoint_counted_is_the_rate_of_what_it_counted() {
        let state = measured(10_000);
        assert_eq!(state.estimate(&size(30_000)), 10_000);
        assert_eq!(state.estimate(&size(10_000)), 5_000);
        assert_eq!(state.estimate(&size(31_000)), 10_400, "what is new is estimated cautiously");
    }

    #[test]
    fn a_count_that_cannot_be_one_is_no_rate() {
        for told in [0, 900, 60_000] {
            let state = measured(told);
            assert_eq!(state.estimate(&size(30_000)), 16_000, "{told}");
        }
    }

    #[test]
    fn the_bound_is_the_window_without_the_answer_and_a_margin() {
        let mut state = measured(10_000);
        assert_eq!((state.allowed(), state.limit()), (Some(26_800), Some(26_800)));
        let condensed_early = RequestFrame { threshold: 50, ..frame(32_000) };
        state.measure(state.measured(condensed_early, size(30_000), 10_000));
        assert_eq!((state.allowed(), state.limit()), (Some(26_800), Some(16_000)));
        state.limit_to(12_000);
        state.limit_to(14_000);
        let short = size(0);
        assert_eq!((state.allowed(), state.low_water(&short)), (Some(12_000), Some(7_250)));
        state.change_frame(true);
        assert_eq!(state.allowed(), None, "another model has another window");
    }

    #[test]
    fn the_parts_of_a_request_add_up() {
        let conversation = ConversationSize { pinned: 5_000, files: 10_000, other: 15_000, images: 1 };
        let state = ContextState::default();
        let meter = state.measured(frame(32_000), conversation, 11_600).meter();
        let ContextMeter { used, system, tools, pinned, files, conversation, .. } = meter;
        assert_eq!((used, system, tools, pinned, files), (11_600, 1_750, 750, 1_250, 2_500));
        assert_eq!(system + tools + pinned + files + conversation, used);
    }

    #[test]
    fn what_is_looked_up_before_the_first_request_leaves_room_for_the_instructions() {
        let state = ContextState::default();
        let limits = |window| RequestFrame { window: Some(window), ..RequestFrame::default() };
        let room = |window| state.lookup_room(limits(window), &size(0)).map(|room| (room.each, room.all));
        assert_eq!(room(32_000), Some((13_000, 19_500)));
        assert_eq!(room(200_000), Some((107_380, 284_640)));
        assert_eq!(state.lookup_room(RequestFrame::default(), &size(0)), None);
        // What is known counts.
        let known = measured(10_000).lookup_room(limits(200_000), &size(0)).unwrap();
        assert_eq!(known.each, 16_750);
    }

    #[test]
    fn a_summary_is_not_tried_again_before_the_conversation_has_grown() {
        let mut state = measured(10_000);
        let size = size(60_000);
        assert!(state.may_condense(20_000, &size));
        state.try_summary(&size);
        let tried = state.estimate(&size);
        assert!(!state.may_condense(tried + 2_000, &size));
        assert!(state.may_condense(tried + 3_000, &size));
    }
}
