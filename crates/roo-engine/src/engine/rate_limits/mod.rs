//! Turns at the endpoints of models: how often requests may begin, by the limits of their profiles and the endpoints' own
//! word, for all tasks together. Whoever comes first begins first. Whether a failed request is made again is decided elsewhere.

mod account;

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use self::account::{Account, MAX_HOLD_MS, Turn};
pub(super) use self::account::{DelayReason, RateLimit};
use super::clock::Clock;
use roo_model::providers::{AccountId, ModelError};

/// A shorter wait is not worth telling, in milliseconds.
const UNNOTICED: i64 = 1000;
/// A change of the time at which a request begins is told again from so many milliseconds on, and from this part of the wait.
const RETOLD: (i64, i64) = (5_000, 5);

/// The accounts of a process.
pub(super) struct RateLimits {
    clock: Arc<dyn Clock>,
    accounts: Mutex<HashMap<AccountId, Arc<SharedAccount>>>,
}

/// An account, for all whose requests it has.
#[derive(Default)]
struct SharedAccount {
    state: Mutex<AccountState>,
}

#[derive(Default)]
struct AccountState {
    account: Account,
    /// The requests in the queue, by number.
    waiters: HashMap<u64, Waiter>,
}

/// What a request that waits knows.
#[derive(Default)]
struct Waiter {
    /// It has to look again.
    changed: Arc<Notify>,
    /// The time until which it sleeps; none where it has not looked yet.
    sleeps_until: Option<i64>,
    /// The time at which it was said to begin.
    told: Option<i64>,
}

impl Waiter {
    /// Returns whether its user should be told that it begins at this time.
    fn is_worth_telling(&self, due: i64, now: i64) -> bool {
        let wait = due - now;
        let (least, part) = RETOLD;
        wait >= UNNOTICED && self.told.is_none_or(|told| (told - due).abs() >= least.max(wait / part))
    }
}

impl SharedAccount {
    fn lock(&self) -> MutexGuard<'_, AccountState> {
        // A panic under the lock leaves an old schedule at worst.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the account.
    fn change(&self, now: i64, change: impl FnOnce(&mut Account)) {
        let mut state = self.lock();
        change(&mut state.account);
        state.reschedule(now);
    }
}

impl AccountState {
    /// Estimates again when each request begins, and wakes those for which that makes a difference: the first, those that
    /// begin sooner than they wake, and those whose users are to be told. The others find it when they wake.
    fn reschedule(&mut self, now: i64) {
        self.account.schedule(now);
        for (place, (number, due)) in self.account.expected().enumerate() {
            let Some(waiter) = self.waiters.get(&number) else { continue };
            let sooner = waiter.sleeps_until.is_some_and(|until| due < until);
            if place == 0 || sooner || waiter.is_worth_telling(due, now) {
                waiter.changed.notify_one();
            }
        }
    }
}

impl RateLimits {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, accounts: Mutex::default() }
    }

    /// Puts a request of about so many tokens at the end of an account's queue.
    pub(super) fn join(&self, account: AccountId, limit: RateLimit, tokens: u64) -> QueuedRequest {
        let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        let account = Arc::clone(accounts.entry(account).or_default());
        let waiter = Waiter::default();
        let changed = Arc::clone(&waiter.changed);
        let mut state = account.lock();
        let number = state.account.join(limit, tokens);
        state.waiters.insert(number, waiter);
        state.reschedule(self.clock.now());
        drop(state);
        QueuedRequest { account, clock: Arc::clone(&self.clock), number, changed, was_delayed: false }
    }
}

/// A request in a queue. It leaves when it is dropped.
pub(super) struct QueuedRequest {
    account: Arc<SharedAccount>,
    clock: Arc<dyn Clock>,
    number: u64,
    /// It has to look again.
    changed: Arc<Notify>,
    was_delayed: bool,
}

/// What a request waits for is over, or known better.
pub(super) enum Step {
    /// It is to begin at this time, in milliseconds since the Unix epoch.
    Delayed {
        /// The time.
        due: i64,
        reason: DelayReason,
    },
    /// It may begin.
    Begins(BegunRequest),
}

impl QueuedRequest {
    /// Waits until the request may begin, or until its user should be told when.
    pub(super) async fn next(&mut self) -> Step {
        loop {
            let now = self.clock.now();
            let due = match self.look(now) {
                ControlFlow::Continue(due) => due,
                ControlFlow::Break(step) => return step,
            };
            match u64::try_from(due - now).unwrap_or(0) {
                // Those before begin first, and the first is woken.
                0 => self.changed.notified().await,
                left => tokio::select! {
                    biased;
                    () = self.changed.notified() => {}
                    () = tokio::time::sleep(Duration::from_millis(left)) => {}
                },
            }
        }
    }

    /// Returns the time until which there is nothing to do, or what there is.
    fn look(&mut self, now: i64) -> ControlFlow<Step, i64> {
        let mut state = self.account.lock();
        let (due, reason) = match state.account.take_turn(self.number, now) {
            Turn::Begun => {
                state.waiters.remove(&self.number);
                state.reschedule(now);
                return ControlFlow::Break(Step::Begins(BegunRequest {
                    account: Arc::clone(&self.account),
                    clock: Arc::clone(&self.clock),
                    number: self.number,
                }));
            }
            Turn::Due { at, reason } => (at, reason),
        };
        if let Some(waiter) = state.waiters.get_mut(&self.number) {
            waiter.sleeps_until = Some(due);
            if waiter.is_worth_telling(due, now) {
                waiter.told = Some(due);
                self.was_delayed = true;
                return ControlFlow::Break(Step::Delayed { due, reason });
            }
        }
        ControlFlow::Continue(due)
    }

    /// Waits until the request may begin, where nobody is told when.
    pub(super) async fn begin(mut self) -> BegunRequest {
        loop {
            if let Step::Begins(begun) = self.next().await {
                return begun;
            }
        }
    }

    /// Returns whether a delay was told.
    pub(super) fn was_delayed(&self) -> bool {
        self.was_delayed
    }
}

impl Drop for QueuedRequest {
    fn drop(&mut self) {
        let mut state = self.account.lock();
        state.waiters.remove(&self.number);
        // One that has begun is no longer there.
        if state.account.leave(self.number) {
            state.reschedule(self.clock.now());
        }
    }
}

/// A request that has begun.
pub(super) struct BegunRequest {
    account: Arc<SharedAccount>,
    clock: Arc<dyn Clock>,
    number: u64,
}

impl BegunRequest {
    /// The request had so many tokens. None stands for an endpoint that told nothing: the estimate stays.
    pub(super) fn used(&self, tokens: u64) {
        if tokens > 0 {
            self.account.change(self.clock.now(), |account| account.settle(self.number, tokens));
        }
    }

    /// The request failed. Where the endpoint said how long to wait, that is for all requests.
    pub(super) fn failed(&self, error: &ModelError) {
        if let Some(wait) = error.kind.retry_after() {
            let wait = i64::try_from(wait.as_millis()).unwrap_or(MAX_HOLD_MS).min(MAX_HOLD_MS);
            let now = self.clock.now();
            self.account.change(now, |account| account.hold_until(now.saturating_add(wait)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use futures_util::FutureExt as _;
    use jiff::Zoned;
    use roo_formats::config::Profile;
    use roo_model::providers::{self, ModelErrorKind};
    use tokio::time::Instant;
    use uuid::Uuid;

    use super::*;

    /// A clock that goes by the runtime's simulated time.
    struct SimulatedClock {
        begun: Instant,
        set_back: AtomicI64,
    }

    impl Clock for SimulatedClock {
        fn now(&self) -> i64 {
            i64::try_from(self.begun.elapsed().as_millis()).unwrap() - self.set_back.load(Ordering::Relaxed)
        }

        fn zoned(&self) -> Zoned {
            Zoned::default()
        }

        fn random(&self) -> Uuid {
            Uuid::nil()
        }

        fn ordered(&self) -> Uuid {
            Uuid::nil()
        }
    }

    /// Requests of one profile, in simulated time.
    struct Endpoint {
        clock: Arc<SimulatedClock>,
        limits: Arc<RateLimits>,
        profile: Profile,
        account: AccountId,
    }

    impl Endpoint {
        fn new(more: serde_json::Value) -> Self {
            let clock = Arc::new(SimulatedClock { begun: Instant::now(), set_back: AtomicI64::new(0) });
            let mut fields = serde_json::json!({
                "provider": "openai", "model": "m", "baseUrl": "http://127.0.0.1:1/v1",
            });
            fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let profile: Profile = serde_json::from_value(fields).unwrap();
            let account = providers::connect(&profile, &|_| None).unwrap().account();
            let limits = Arc::new(RateLimits::new(Arc::clone(&clock) as Arc<dyn Clock>));
            Self { clock, limits, profile, account }
        }

        fn join(&self) -> QueuedRequest {
            self.limits.join(self.account, RateLimit::from(&self.profile), 0)
        }

        /// The seconds from the start.
        fn seconds(&self) -> i64 {
            self.clock.now() / 1000
        }

        /// Begins a request that waits. Returns the second at which it began, and those that it was told before.
        async fn begin(&self, mut queued: QueuedRequest) -> (i64, Vec<i64>, BegunRequest) {
            let mut told = vec![];
            loop {
                match queued.next().await {
                    Step::Delayed { due, .. } => told.push(due / 1000),
                    Step::Begins(begun) => return (self.seconds(), told, begun),
                }
            }
        }
    }

    /// What an endpoint says that has too many requests.
    fn wait_for(seconds: u64) -> ModelError {
        let kind = ModelErrorKind::RateLimited(Some(Duration::from_secs(seconds)));
        ModelError { kind, message: "status 429".to_owned() }
    }

    #[tokio::test(start_paused = true)]
    async fn tasks_take_turns_in_the_order_in_which_they_came() {
        let endpoint = Endpoint::new(serde_json::json!({ "rateLimitSeconds": 10 }));
        let queued = [(); 3].map(|()| endpoint.join());
        let runs = queued.map(|queued| endpoint.begin(queued));
        let begun = futures_util::future::join_all(runs).await;
        let times: Vec<_> = begun.into_iter().map(|(at, told, _)| (at, told)).collect();
        assert_eq!(times, [(0, vec![]), (10, vec![10]), (20, vec![20])]);
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_cancelled_lets_the_next_one_pass_at_once() {
        let endpoint = Endpoint::new(serde_json::json!({ "rateLimitSeconds": 10 }));
        let _first = endpoint.begin(endpoint.join()).await;
        let (mut second, third) = (endpoint.join(), endpoint.join());
        let leaves = async {
            assert!(matches!(second.next().await, Step::Delayed { due: 10_000, .. }));
            tokio::time::sleep(Duration::from_secs(3)).await;
            drop(second);
        };
        let ((), (at, told, _)) = tokio::join!(leaves, endpoint.begin(third));
        assert_eq!((at, told), (10, vec![20, 10]), "it is told both times");
    }

    #[tokio::test(start_paused = true)]
    async fn an_endpoint_that_asks_for_a_pause_holds_back_the_others_too() {
        let endpoint = Endpoint::new(serde_json::json!({}));
        let (_, _, first) = endpoint.begin(endpoint.join()).await;
        first.failed(&wait_for(30));
        let (at, told, _) = endpoint.begin(endpoint.join()).await;
        assert_eq!((at, told), (30, vec![30]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_that_comes_while_a_request_waits_is_told() {
        let endpoint = Endpoint::new(serde_json::json!({ "rateLimitSeconds": 10 }));
        let (_, _, first) = endpoint.begin(endpoint.join()).await;
        let holds = async {
            tokio::time::sleep(Duration::from_secs(2)).await;
            first.failed(&wait_for(40));
        };
        let ((), (at, told, _)) = tokio::join!(holds, endpoint.begin(endpoint.join()));
        assert_eq!((at, told), (42, vec![10, 42]));
    }

    #[tokio::test(start_paused = true)]
    async fn tokens_that_were_not_used_make_room() {
        let endpoint = Endpoint::new(serde_json::json!({ "tokensPerMinute": 100 }));
        let limit = RateLimit::from(&endpoint.profile);
        let (_, _, first) = endpoint.begin(endpoint.limits.join(endpoint.account, limit, 90)).await;
        let ends = async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            first.used(20);
        };
        let second = endpoint.limits.join(endpoint.account, limit, 80);
        let ((), (at, told, _)) = tokio::join!(ends, endpoint.begin(second));
        assert_eq!((at, told), (5, vec![60]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_small_change_of_the_time_is_not_told_again() {
        let endpoint = Endpoint::new(serde_json::json!({}));
        let (_, _, first) = endpoint.begin(endpoint.join()).await;
        first.failed(&wait_for(30));
        let holds = async {
            for seconds in [33, 40] {
                tokio::time::sleep(Duration::from_secs(1)).await;
                first.failed(&wait_for(seconds));
            }
        };
        let ((), (at, told, _)) = tokio::join!(holds, endpoint.begin(endpoint.join()));
        assert_eq!((at, told), (42, vec![30, 42]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_wakes_only_those_whom_it_concerns() {
        let endpoint = Endpoint::new(serde_json::json!({ "rateLimitSeconds": 10 }));
        let _first = endpoint.begin(endpoint.join()).await;
        let mut queued = Vec::from([(); 4].map(|()| endpoint.join()));
        for request in &mut queued {
            assert!(matches!(request.next().await, Step::Delayed { .. }));
        }
        for request in &mut queued {
            assert!(request.next().now_or_never().is_none());
        }
        let woken = |queued: &[QueuedRequest]| -> Vec<bool> {
            queued.iter().map(|request| request.changed.notified().now_or_never().is_some()).collect()
        };
        drop(endpoint.join());
        assert_eq!(woken(&queued), [true, false, false, false], "only the first one looks");
        drop(queued.remove(0));
        assert_eq!(woken(&queued), [true; 3], "all begin sooner");
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_is_set_back_costs_at_most_one_wait() {
        let endpoint = Endpoint::new(serde_json::json!({ "rateLimitSeconds": 10 }));
        let _first = endpoint.begin(endpoint.join()).await;
        endpoint.clock.set_back.store(86_400_000, Ordering::Relaxed);
        let begun = Instant::now();
        endpoint.begin(endpoint.join()).await;
        assert_eq!(begun.elapsed().as_secs(), 10);
    }
}
