//! The requests of one account: those of the last minute, those that wait for their turn, and when each may begin. No
//! timers and no clock: times are milliseconds since the Unix epoch, given by the caller.

use std::collections::VecDeque;
use std::num::{NonZeroU32, NonZeroU64};

use roo_formats::config::Profile;

/// The time over which requests and tokens are counted.
const MINUTE: i64 = 60_000;
/// The longest time for which an endpoint holds requests back.
pub(super) const MAX_HOLD_MS: i64 = 600_000;

/// What a profile says of the rate of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::engine) struct RateLimit {
    /// Least time between two requests, in milliseconds.
    spacing: i64,
    requests_per_minute: Option<NonZeroU32>,
    tokens_per_minute: Option<NonZeroU64>,
}

impl From<&Profile> for RateLimit {
    fn from(profile: &Profile) -> Self {
        let spacing = i64::try_from(profile.rate_limit_seconds.saturating_mul(1000)).unwrap_or(i64::MAX);
        Self {
            spacing,
            requests_per_minute: profile.requests_per_minute,
            tokens_per_minute: profile.tokens_per_minute,
        }
    }
}

/// Reason why a request has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum DelayReason {
    /// The profile's `rateLimitSeconds`.
    Spacing,
    /// Its `requestsPerMinute`.
    Requests,
    /// Its `tokensPerMinute`.
    Tokens,
    /// The endpoint asked another request to come back later.
    Endpoint,
}

/// Answer to a request that asks for its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It begins now, and is counted.
    Begun,
    /// It is expected to begin at this time, unless something changes.
    Due { at: i64, reason: DelayReason },
}

/// A request that has begun.
#[derive(Clone, Copy, Debug)]
struct BegunRequest {
    number: u64,
    at: i64,
    /// Estimated while it runs.
    tokens: u64,
}

/// A request that waits.
#[derive(Clone, Copy, Debug)]
struct WaitingRequest {
    number: u64,
    limit: RateLimit,
    tokens: u64,
    /// When it is expected to begin, by the last schedule.
    due: i64,
    reason: DelayReason,
}

/// The requests of an account.
#[derive(Debug, Default)]
pub(super) struct Account {
    next_number: u64,
    begun: BegunRequests,
    /// Until when the endpoint wants no request.
    held_until: Option<i64>,
    /// In the order in which they came.
    waiting: VecDeque<WaitingRequest>,
}

/// The requests that have begun, oldest first.
#[derive(Clone, Debug, Default)]
struct BegunRequests {
    last: Option<i64>,
    /// Those of the last minute.
    recent: VecDeque<BegunRequest>,
}

impl Account {
    /// Puts a request of about so many tokens at the end of the queue. Returns its number. It is in no schedule yet.
    pub(super) fn join(&mut self, limit: RateLimit, tokens: u64) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        let (due, reason) = (i64::MAX, DelayReason::Endpoint);
        self.waiting.push_back(WaitingRequest { number, limit, tokens, due, reason });
        number
    }

    /// Takes a request out of the queue. Returns whether it was there.
    pub(super) fn leave(&mut self, number: u64) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|waiting| waiting.number != number);
        self.waiting.len() < before
    }

    /// Estimates again when each request begins. To be called after every change.
    pub(super) fn schedule(&mut self, now: i64) {
        self.bring_up_to_date(now);
        let mut begun = self.begun.clone();
        let mut earliest = now;
        let mut reason = None;
        for waiting in &mut self.waiting {
            let (due, own_reason) = begun.due(waiting, earliest, self.held_until);
            // Whoever waits for nothing but those before waits for what they wait for.
            reason = own_reason.or(reason);
            (waiting.due, waiting.reason) = (due, reason.unwrap_or(DelayReason::Endpoint));
            begun.add(*waiting, due);
            earliest = due;
        }
    }

    /// The requests that wait, in their order, with the times at which they are expected to begin.
    pub(super) fn expected(&self) -> impl Iterator<Item = (u64, i64)> {
        self.waiting.iter().map(|waiting| (waiting.number, waiting.due))
    }

    /// Begins a request if it is its turn; then there has to be a new schedule. One that isn't in the queue begins.
    pub(super) fn take_turn(&mut self, number: u64, now: i64) -> Turn {
        match self.waiting.front().copied() {
            Some(first) if first.number == number => {
                self.bring_up_to_date(now);
                let (due, reason) = self.begun.due(&first, now, self.held_until);
                if due > now {
                    return Turn::Due { at: due, reason: reason.unwrap_or(first.reason) };
                }
                self.waiting.pop_front();
                self.begun.add(first, now);
                Turn::Begun
            }
            // The one before begins now too, and the next one is told then.
            _ => match self.waiting.iter().find(|waiting| waiting.number == number) {
                Some(waiting) => Turn::Due { at: waiting.due, reason: waiting.reason },
                None => Turn::Begun,
            },
        }
    }

    /// Forgets what no longer counts, and moves what a clock that was set back left in the future.
    fn bring_up_to_date(&mut self, now: i64) {
        self.begun.last = self.begun.last.map(|last| last.min(now));
        self.begun.recent.retain(|request| request.at > now - MINUTE);
        self.begun.recent.iter_mut().for_each(|request| request.at = request.at.min(now));
        self.held_until =
            self.held_until.filter(|until| *until > now).map(|until| until.min(now + MAX_HOLD_MS));
    }

    /// Replaces the estimate of a request that has begun.
    pub(super) fn settle(&mut self, number: u64, tokens: u64) {
        if let Some(request) = self.begun.recent.iter_mut().find(|request| request.number == number) {
            request.tokens = tokens;
        }
    }

    /// The endpoint wants no request before a time.
    pub(super) fn hold_until(&mut self, until: i64) {
        self.held_until = self.held_until.max(Some(until));
    }
}

impl BegunRequests {
    fn add(&mut self, request: WaitingRequest, at: i64) {
        self.last = Some(at);
        self.recent.push_back(BegunRequest { number: request.number, at, tokens: request.tokens });
    }

    /// Returns the first time from `earliest` on at which a request may begin behind these, and what it waits for until
    /// then.
    fn due(
        &self,
        request: &WaitingRequest,
        earliest: i64,
        held_until: Option<i64>,
    ) -> (i64, Option<DelayReason>) {
        let RateLimit { spacing, requests_per_minute, tokens_per_minute } = request.limit;
        let mut due = (earliest, None);
        let mut not_before = |time: i64, reason: DelayReason| {
            if time > due.0 {
                due = (time, Some(reason));
            }
        };
        if let Some(held_until) = held_until {
            not_before(held_until, DelayReason::Endpoint);
        }
        if let Some(last) = self.last {
            not_before(last.saturating_add(spacing), DelayReason::Spacing);
        }
        let recent: Vec<(i64, u64)> = (self.recent.iter())
            .filter(|request| request.at > earliest - MINUTE)
            .map(|request| (request.at, request.tokens))
            .collect();
        if let Some(most) = requests_per_minute.and_then(|most| usize::try_from(most.get()).ok())
            && let Some(last_in_the_way) = recent.len().checked_sub(most)
        {
            not_before(recent[last_in_the_way].0 + MINUTE, DelayReason::Requests);
        }
        if let Some(most) = tokens_per_minute {
            // A request that is larger than the limit begins where there is no other.
            let mut tokens =
                recent.iter().fold(request.tokens, |sum, (_, tokens)| sum.saturating_add(*tokens));
            for (at, of_request) in recent {
                if tokens <= most.get() {
                    break;
                }
                tokens = tokens.saturating_sub(of_request);
                not_before(at + MINUTE, DelayReason::Tokens);
            }
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The time at which everything begins.
    const START: i64 = 1_000_000;

    fn limit(profile: serde_json::Value) -> RateLimit {
        let mut fields = serde_json::json!({ "provider": "openai" });
        fields.as_object_mut().unwrap().extend(profile.as_object().unwrap().clone());
        RateLimit::from(&serde_json::from_value::<Profile>(fields).unwrap())
    }

    fn due(seconds: i64, reason: DelayReason) -> Turn {
        Turn::Due { at: START + seconds * 1000, reason }
    }

    /// The turn of a request at so many seconds from the start.
    fn turn(account: &mut Account, number: u64, seconds: i64) -> Turn {
        account.schedule(START + seconds * 1000);
        account.take_turn(number, START + seconds * 1000)
    }

    #[test]
    fn without_limits_every_request_begins_at_once() {
        let mut account = Account::default();
        for _ in 0..100 {
            let number = account.join(RateLimit::default(), 1_000_000);
            assert_eq!(turn(&mut account, number, 0), Turn::Begun);
        }
    }

    #[test]
    fn requests_begin_one_after_another_in_the_order_in_which_they_came() {
        let mut account = Account::default();
        let limit = limit(serde_json::json!({ "rateLimitSeconds": 10 }));
        let [first, second, third] = [(); 3].map(|()| account.join(limit, 0));
        assert_eq!(turn(&mut account, second, 0), due(10, DelayReason::Spacing), "the first goes first");
        assert_eq!(turn(&mut account, first, 0), Turn::Begun);
        assert_eq!(turn(&mut account, third, 4), due(20, DelayReason::Spacing));
        assert_eq!(turn(&mut account, second, 4), due(10, DelayReason::Spacing));
        assert_eq!(turn(&mut account, second, 12), Turn::Begun);
        assert_eq!(turn(&mut account, third, 12), due(22, DelayReason::Spacing), "from begin to begin");
    }

    #[test]
    fn who_leaves_the_queue_makes_room() {
        let mut account = Account::default();
        let limit = limit(serde_json::json!({ "rateLimitSeconds": 10 }));
        let [first, second, third] = [(); 3].map(|()| account.join(limit, 0));
        assert_eq!(turn(&mut account, first, 0), Turn::Begun);
        account.leave(second);
        assert_eq!(turn(&mut account, third, 1), due(10, DelayReason::Spacing));
        assert_eq!(turn(&mut account, third, 10), Turn::Begun);
    }

    #[test]
    fn no_minute_has_more_requests_than_allowed() {
        let mut account = Account::default();
        let limit = limit(serde_json::json!({ "requestsPerMinute": 2 }));
        let [a, b, c, d] = [(); 4].map(|()| account.join(limit, 0));
        assert_eq!(turn(&mut account, a, 0), Turn::Begun);
        assert_eq!(turn(&mut account, b, 30), Turn::Begun);
        assert_eq!(turn(&mut account, c, 31), due(60, DelayReason::Requests));
        assert_eq!(turn(&mut account, d, 31), due(90, DelayReason::Requests));
        assert_eq!(turn(&mut account, c, 60), Turn::Begun);
        assert_eq!(turn(&mut account, d, 89), due(90, DelayReason::Requests));
    }

    #[test]
    fn tokens_count_as_estimated_until_the_endpoint_tells_them() {
        let mut account = Account::default();
        let limit = limit(serde_json::json!({ "tokensPerMinute": 1000 }));
        let [first, second] = [400, 700].map(|tokens| account.join(limit, tokens));
        assert_eq!(turn(&mut account, first, 0), Turn::Begun);
        assert_eq!(turn(&mut account, second, 1), due(60, DelayReason::Tokens));
        account.settle(first, 300);
        assert_eq!(turn(&mut account, second, 1), Turn::Begun);
    }

    #[test]
    fn a_request_larger_than_the_limit_begins_when_it_is_alone() {
        let mut account = Account::default();
        let limit = limit(serde_json::json!({ "tokensPerMinute": 1000 }));
        let [small, large, after] = [10, 5000, 1].map(|tokens| account.join(limit, tokens));
        assert_eq!(turn(&mut account, small, 0), Turn::Begun);
        assert_eq!(turn(&mut account, large, 1), due(60, DelayReason::Tokens));
        assert_eq!(turn(&mut account, large, 60), Turn::Begun);
        assert_eq!(turn(&mut account, after, 61), due(120, DelayReason::Tokens));
    }

    #[test]
    fn an_endpoint_that_asks_for_a_pause_holds_back_all() {
        let mut account = Account::default();
        let first = account.join(RateLimit::default(), 0);
        assert_eq!(turn(&mut account, first, 0), Turn::Begun);
        account.hold_until(START + 30_000);
        account.hold_until(START + 20_000);
        let [second, third] = [(); 2].map(|()| account.join(RateLimit::default(), 0));
        assert_eq!(turn(&mut account, second, 1), due(30, DelayReason::Endpoint));
        assert_eq!(turn(&mut account, third, 1), due(30, DelayReason::Endpoint));
        assert_eq!(turn(&mut account, second, 30), Turn::Begun);
        assert_eq!(turn(&mut account, third, 30), Turn::Begun);
    }

    #[test]
    fn each_request_waits_by_the_limits_of_its_own_profile() {
        let mut account = Account::default();
        let slow = limit(serde_json::json!({ "rateLimitSeconds": 60 }));
        let [first, quick, second] = [slow, RateLimit::default(), slow].map(|limit| account.join(limit, 0));
        assert_eq!(turn(&mut account, first, 0), Turn::Begun);
        assert_eq!(turn(&mut account, quick, 1), Turn::Begun);
        assert_eq!(turn(&mut account, second, 2), due(61, DelayReason::Spacing), "any request counts");
    }

    #[test]
    fn a_clock_that_is_set_back_makes_nobody_wait_longer() {
        let mut account = Account::default();
        let limit = limit(serde_json::json!({ "rateLimitSeconds": 10, "requestsPerMinute": 1 }));
        let [first, second] = [(); 2].map(|()| account.join(limit, 0));
        assert_eq!(turn(&mut account, first, 0), Turn::Begun);
        assert_eq!(turn(&mut account, second, -86_400), due(-86_400 + 60, DelayReason::Requests));
        account.hold_until(START + 86_400_000);
        let longest = MAX_HOLD_MS / 1000;
        assert_eq!(turn(&mut account, second, 0), due(longest, DelayReason::Endpoint));
    }
}
