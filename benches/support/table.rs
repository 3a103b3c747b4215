//! Figures as a table.

use std::io::{self, Write as _};
use std::time::Duration;

/// What is measured, and in which unit.
#[derive(Clone, Copy)]
pub struct Row<'a> {
    /// What.
    pub what: &'a str,
    /// Of the figures.
    pub unit: &'a str,
    /// What to reach, in words.
    pub target: &'a str,
}

/// Prints the head of the table.
pub fn head() -> io::Result<()> {
    let (what, unit) = ("what", "unit");
    writeln!(
        io::stdout(),
        "{what:<58} {unit:>8} {:>5} {:>10} {:>10} {:>10}  target",
        "n",
        "median",
        "p95",
        "min"
    )
}

/// Prints one row. Without samples there is none.
pub fn row(row: Row<'_>, mut samples: Vec<f64>) -> io::Result<()> {
    samples.sort_by(f64::total_cmp);
    let (Some(&least), Some(&last)) = (samples.first(), samples.last()) else { return Ok(()) };
    let at = |share: f64| {
        // The index is within the samples: a share is below 1.
        samples.get((samples.len() as f64 * share) as usize).copied().unwrap_or(last)
    };
    let Row { what, unit, target } = row;
    let (n, median, p95) = (samples.len(), at(0.5), at(0.95));
    writeln!(io::stdout(), "{what:<58} {unit:>8} {n:>5} {median:>10.3} {p95:>10.3} {least:>10.3}  {target}")
}

/// A time in milliseconds.
pub fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
