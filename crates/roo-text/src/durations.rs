//! Lengths of time in words. Pure.

/// Formats milliseconds, as exactly as it matters: `3 s`, `10 min`, `2 h 5 min`.
pub fn in_words(milliseconds: i64) -> String {
    let seconds = milliseconds.max(0).saturating_add(999) / 1000;
    let (hours, minutes) = (seconds / 3600, seconds % 3600 / 60);
    match (hours, minutes, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, 0) => format!("{minutes} min"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, 0, _) => format!("{hours} h"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_of_time_is_told_as_exactly_as_it_matters() {
        for (milliseconds, words) in [
            (-5, "0 s"),
            (1, "1 s"),
            (59_000, "59 s"),
            (60_000, "1 min"),
            (90_500, "1 min 31 s"),
            (600_000, "10 min"),
            (3_600_000, "1 h"),
            (7_512_000, "2 h 5 min"),
        ] {
            assert_eq!(in_words(milliseconds), words);
        }
    }
}
