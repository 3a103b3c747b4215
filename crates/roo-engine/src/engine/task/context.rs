//! The size of a task's next model request in tokens, and the bounds that it has to keep.
//!
//! An endpoint tells the tokens of a request only in its answer. Until then they are estimated from the number of bytes,
//! at the rate of the newest request whose tokens the endpoint has told. What is shortened, and how, is elsewhere.

use serde::{Deserialize, Serialize};

use roo_protocol::context::{ContextMeter, Shortening};

/// Tokens of 1,000 bytes before an endpoint has told any: more than in most texts.
const CAUTIOUS_RATE: u64 = 400;
/// Tokens of 1,000 bytes that an endpoint may tell. What is outside isn't a count of the whole request.
const PLAUSIBLE_RATES: std::ops::RangeInclusive<u64> = 120..=1_200;
/// The smallest request from which a rate is taken, in bytes.
const LEAST_COUNTED: u64 = 2_000;
/// Tokens of an image, of whatever size.
const IMAGE: u64 = 1_600;
/// Share of the window that requests and answers may fill, in percent: estimates are not exact.
const USABLE: u64 = 90;
/// Share of its limit to which a conversation is shortened, in percent. Each shortening costs the provider's prompt
/// cache, so it has to make room for many turns.
const LOW_WATER: u64 = 60;
/// Share of the limit that one result of a tool may fill, in percent.
const RESULT: u64 = 25;
/// Share of the limit that the newest turns keep when earlier ones are replaced, in percent.
const RECENT: u64 = 20;
/// Growth of a conversation, in percent of the limit, before a summary that failed or brought little is tried again.
const GROWTH: u64 = 10;
/// Maximum number of refusals of an endpoint, and of failed shortenings, in a row.
const MAX_FAILURES: u32 = 3;
/// Tokens of an answer whose length is not limited by the profile.
const USUAL_ANSWER: u64 = 8_192;

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
}

impl RequestFrame {
    fn bytes(&self) -> u64 {
        self.system + self.tools + self.tail
    }
}

/// Size of a conversation.
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
    /// The conversation.
    pub conversation: ConversationSize,
    /// Tokens.
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
        let texts = used.saturating_sub(IMAGE * size.images);
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
        let texts = self.tokens.saturating_sub(IMAGE * self.conversation.images);
        let rate = scaled(texts, 1_000, self.bytes().max(1));
        let is_plausible = self.bytes() >= LEAST_COUNTED && PLAUSIBLE_RATES.contains(&rate);
        (self.counted && is_plausible).then_some(rate)
    }
}

/// What a task knows of the size of its requests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContextState {
    /// The newest request that was made.
    newest: Option<MeasuredRequest>,
    /// The newest request whose tokens are known.
    counted: Option<MeasuredRequest>,
    /// True if the next request has another frame than the newest one.
    frame_changed: bool,
    /// Tokens above which the endpoint is known to refuse requests.
    refused_above: Option<u64>,
    /// Requests that were refused as too long since the model last answered.
    refusals: u32,
    /// Shortenings that changed nothing since the model last answered.
    failures: u32,
    /// Tokens of the conversation when a summary was last tried.
    tried_at: Option<u64>,
    /// The user wants a summary.
    requested: bool,
    /// All shortenings, oldest first.
    shortenings: Vec<Shortening>,
}

impl ContextState {
    /// Takes note of a request that was made.
    pub(super) fn measure(&mut self, request: MeasuredRequest) {
        self.newest = Some(request);
        if request.rate().is_some() {
            self.counted = Some(request);
        }
        self.frame_changed = false;
    }

    /// The model answered.
    pub(super) fn answered(&mut self) {
        self.refusals = 0;
        self.failures = 0;
    }

    /// The endpoint refuses requests of more tokens.
    pub(super) fn limit_to(&mut self, tokens: u64) {
        self.refused_above = Some(self.refused_above.map_or(tokens, |before| before.min(tokens)));
        self.refusals += 1;
    }

    /// Another mode or model follows. With another model nothing that is known counts.
    pub(super) fn change_frame(&mut self, model: bool) {
        self.frame_changed = true;
        if model {
            self.newest = None;
            self.counted = None;
            self.refused_above = None;
        }
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

    pub(super) fn add(&mut self, shortening: Shortening) {
        self.shortenings.push(shortening);
    }

    /// The conversation stays as it is, and whoever wanted a summary is told so.
    pub(super) fn fail(&mut self) {
        self.failures += 1;
        self.requested = false;
    }

    /// A shortening was undone. What follows it may be tried again at once.
    pub(super) fn restore(&mut self, seq: u64) {
        self.shortenings.iter_mut().filter(|one| one.seq == seq).for_each(|one| one.restored = true);
        self.tried_at = None;
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
        let images = IMAGE * size.images;
        let Some((counted, rate)) = self.counted.and_then(|counted| Some((counted, counted.rate()?))) else {
            return tokens(bytes, CAUTIOUS_RATE) + images;
        };
        // What is new may be another kind of text than what was counted.
        let known = bytes.min(counted.bytes());
        tokens(known, rate) + tokens(bytes - known, rate.max(CAUTIOUS_RATE)) + images
    }

    /// Bytes of so many tokens.
    pub(super) fn bytes(&self, tokens: u64) -> u64 {
        scaled(tokens, 1_000, self.counted.and_then(|counted| counted.rate()).unwrap_or(CAUTIOUS_RATE))
    }

    /// Bytes that count as much as an image.
    pub(super) fn image_bytes(&self) -> u64 {
        self.bytes(IMAGE)
    }

    /// Tokens that a request may have; none where nothing is known of its endpoint.
    pub(super) fn allowed(&self) -> Option<u64> {
        let of_window = self.newest.and_then(|newest| {
            let RequestFrame { window, answer, .. } = newest.frame;
            let window = window?;
            let answer = answer.map_or(USUAL_ANSWER.min(window / 4), |answer| answer.min(window / 4 * 3));
            Some(percent(window, USABLE).saturating_sub(answer))
        });
        [of_window, self.refused_above].into_iter().flatten().min()
    }

    /// Tokens above which the conversation is shortened.
    pub(super) fn limit(&self) -> Option<u64> {
        let allowed = self.allowed()?;
        let frame = self.newest.map(|newest| newest.frame).filter(|frame| frame.condense);
        let threshold = frame.and_then(|frame| Some(percent(frame.window?, frame.threshold.into())));
        Some(threshold.map_or(allowed, |threshold| threshold.min(allowed)))
    }

    /// Tokens to which the conversation is shortened.
    pub(super) fn low_water(&self) -> Option<u64> {
        self.limit().map(|limit| percent(limit, LOW_WATER))
    }

    /// Bytes that one result of a tool may have.
    pub(super) fn longest_result(&self) -> Option<u64> {
        self.allowed().map(|allowed| self.bytes(percent(allowed, RESULT)))
    }

    /// Bytes of the newest turns that are kept when earlier ones are replaced.
    pub(super) fn recent_bytes(&self, size: &ConversationSize) -> u64 {
        let used = self.estimate(size);
        self.bytes(percent(self.limit().map_or(used, |limit| limit.min(used)), RECENT))
    }

    /// Tokens that count as progress.
    pub(super) fn step(&self) -> u64 {
        self.limit().map_or(0, |limit| percent(limit, GROWTH))
    }

    /// Returns whether the size of the next request is known well enough without the request itself.
    pub(crate) fn is_measured(&self) -> bool {
        self.newest.is_some() && !self.frame_changed
    }

    /// Returns the tokens of a request with this frame and those that it may have, where it has more.
    pub(crate) fn excess(&self, frame: RequestFrame, size: &ConversationSize) -> Option<(u64, u64)> {
        let mut next = self.clone();
        next.measure(self.measured(frame, *size, 0));
        let (tokens, allowed) = (next.estimate(size), next.allowed()?);
        (tokens > allowed).then_some((tokens, allowed))
    }

    /// Returns whether a request of this task that the endpoint refuses as too long is worth another try.
    pub(super) fn may_be_refused_again(&self) -> bool {
        self.refusals < MAX_FAILURES
    }

    /// Returns whether another shortening is worth a try before the model answers.
    pub(super) fn may_fail_again(&self) -> bool {
        self.failures < MAX_FAILURES
    }

    /// Returns whether a model may be asked for a summary now.
    pub(super) fn may_condense(&self, tokens: u64) -> bool {
        let allows = self.newest.is_none_or(|newest| newest.frame.condense);
        allows && self.tried_at.is_none_or(|tried| tokens >= tried.saturating_add(self.step()))
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
        assert_eq!((state.allowed(), state.low_water()), (Some(12_000), Some(7_200)));
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
    fn a_summary_is_not_tried_again_before_the_conversation_has_grown() {
        let mut state = measured(10_000);
        assert!(state.may_condense(20_000));
        state.try_summary(&size(60_000));
        let tried = state.estimate(&size(60_000));
        assert!(!state.may_condense(tried + 2_000));
        assert!(state.may_condense(tried + 3_000));
    }
}
