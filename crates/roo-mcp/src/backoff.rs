//! Schedule for restarts of a server that failed. Pure: the caller has the clock.

use std::collections::VecDeque;
use std::time::Duration;

/// The first pause.
const FIRST: Duration = Duration::from_secs(1);
/// The longest pause.
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// Maximum number of restarts within [`WINDOW`].
const MAX_RESTARTS: usize = 5;
/// The time in which restarts are counted.
const WINDOW: Duration = Duration::from_secs(600);

/// The restarts of one server.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    /// Times of the restarts, as time since some fixed moment.
    restarts: VecDeque<Duration>,
}

impl Backoff {
    /// Decides on a restart after a failure at `now`, a time since some fixed moment: the pause before it, or none when
    /// there were too many.
    pub(crate) fn next_pause(&mut self, now: Duration) -> Option<Duration> {
        while self.restarts.front().is_some_and(|&at| now.saturating_sub(at) >= WINDOW) {
            self.restarts.pop_front();
        }
        if self.restarts.len() >= MAX_RESTARTS {
            return None;
        }
        let exponent = u32::try_from(self.restarts.len()).unwrap_or(u32::MAX);
        self.restarts.push_back(now);
        Some(FIRST.saturating_mul(4_u32.saturating_pow(exponent)).min(MAX_PAUSE))
    }

    /// The pause before a restart that is tried however many there were.
    pub(crate) fn next_pause_of_many(&mut self, now: Duration) -> Duration {
        self.next_pause(now).unwrap_or(MAX_PAUSE)
    }

    /// Forgets all failures: somebody asked for a restart.
    pub(crate) fn reset(&mut self) {
        self.restarts.clear();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn pauses_grow_until_there_is_no_further_restart() {
        let mut backoff = Backoff::default();
        let seconds = |pause: Option<Duration>| pause.map(|pause| pause.as_secs());
        let pauses: Vec<_> = (0..7).map(|n| seconds(backoff.next_pause(Duration::from_secs(n)))).collect();
        assert_eq!(pauses, [Some(1), Some(4), Some(16), Some(60), Some(60), None, None]);
        assert_eq!(seconds(backoff.next_pause(Duration::from_secs(600))), Some(60));
        assert_eq!(seconds(backoff.next_pause(Duration::from_secs(2000))), Some(1));
        backoff.reset();
        assert_eq!(seconds(backoff.next_pause(Duration::from_secs(2000))), Some(1));
    }

    proptest! {
        #[test]
        fn no_ten_minutes_see_more_than_five_restarts(gaps in proptest::collection::vec(0_u64..400, 1..60)) {
            let mut backoff = Backoff::default();
            let mut now = 0;
            let mut restarts: Vec<u64> = Vec::new();
            for gap in gaps {
                now += gap;
                if backoff.next_pause(Duration::from_secs(now)).is_some() {
                    restarts.push(now);
                }
            }
            for &start in &restarts {
                let within = restarts.iter().filter(|&&at| at >= start && at < start + 600).count();
                prop_assert!(within <= MAX_RESTARTS);
            }
        }
    }
}
