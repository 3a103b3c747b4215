//! Schedule for starts of a server that failed. Pure: the caller has the clock.

use std::time::Duration;

use tokio::time::Instant;

/// The first pause. Each further one is four times as long.
const FIRST: Duration = Duration::from_secs(1);
/// Maximum number of failures in a row; then the server is not started again.
const MAX_FAILURES: u32 = 5;

/// The failures of one server since it last answered.
#[derive(Debug, Default)]
pub(crate) struct Restarts {
    failures: u32,
    next: Option<Instant>,
}

/// Whether a server may be started.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// At once.
    Now,
    /// After a pause.
    In(Duration),
    /// Not any more.
    Never,
}

impl Restarts {
    /// Notes that it could not be started, died or hangs.
    pub(crate) fn failed(&mut self, now: Instant) {
        self.next = now.checked_add(FIRST * 4_u32.pow(self.failures.min(MAX_FAILURES)));
        self.failures += 1;
    }

    /// Notes that it answered.
    pub(crate) fn answered(&mut self) {
        *self = Self::default();
    }

    /// Decides whether it may be started.
    pub(crate) fn start(&self, now: Instant) -> Start {
        if self.failures >= MAX_FAILURES {
            return Start::Never;
        }
        match self.next.map(|next| next.saturating_duration_since(now)) {
            None | Some(Duration::ZERO) => Start::Now,
            Some(pause) => Start::In(pause),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_until_it_is_given_up_and_an_answer_forgives() {
        let (mut restarts, mut now) = (Restarts::default(), Instant::now());
        for seconds in [1, 4, 16, 64] {
            assert_eq!(restarts.start(now), Start::Now);
            restarts.failed(now);
            assert_eq!(restarts.start(now), Start::In(Duration::from_secs(seconds)));
            now += Duration::from_secs(seconds);
        }
        restarts.failed(now);
        assert_eq!(restarts.start(now + Duration::from_secs(3600)), Start::Never);
        restarts.answered();
        assert_eq!(restarts.start(now), Start::Now);
    }
}
