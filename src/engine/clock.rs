//! Time and randomness, injected so that tests are deterministic.

use jiff::civil::DateTime;
use jiff::{Timestamp, Zoned};
use uuid::Uuid;

/// Where times and identifiers come from.
pub trait Clock: Send + Sync {
    /// Milliseconds since the Unix epoch.
    fn now(&self) -> i64;

    /// The local date and time, for the ids that people read.
    fn local(&self) -> DateTime;

    /// A random UUID.
    fn random(&self) -> Uuid;

    /// A UUID ordered by time, for the ids of requests.
    fn ordered(&self) -> Uuid;
}

/// The machine's clock and randomness.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> i64 {
        Timestamp::now().as_millisecond()
    }

    fn local(&self) -> DateTime {
        Zoned::now().datetime()
    }

    fn random(&self) -> Uuid {
        Uuid::new_v4()
    }

    fn ordered(&self) -> Uuid {
        Uuid::now_v7()
    }
}
