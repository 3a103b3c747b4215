//! Time and randomness, injected so that tests are deterministic.

use jiff::{Timestamp, Zoned};
use uuid::Uuid;

/// Source of times and identifiers.
pub trait Clock: Send + Sync {
    /// Milliseconds since the Unix epoch.
    fn now(&self) -> i64;

    /// The user's date and time, with their zone.
    fn zoned(&self) -> Zoned;

    /// A random UUID.
    fn random(&self) -> Uuid;

    /// A UUID ordered by time, for the ids of requests.
    fn ordered(&self) -> Uuid;
}

/// A moment in milliseconds since the Unix epoch, as the user's clock on the wall shows it: `14:05:30`.
pub fn time_of_day(moment: i64) -> String {
    let at = Timestamp::from_millisecond(moment).unwrap_or_default();
    at.to_zoned(jiff::tz::TimeZone::system()).strftime("%H:%M:%S").to_string()
}

/// The machine's clock and randomness.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> i64 {
        Timestamp::now().as_millisecond()
    }

    fn zoned(&self) -> Zoned {
        Zoned::now()
    }

    fn random(&self) -> Uuid {
        Uuid::new_v4()
    }

    fn ordered(&self) -> Uuid {
        Uuid::now_v7()
    }
}
