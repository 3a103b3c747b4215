//! What is said of a model request that waits, in one line.

/// Says when a model request follows, such as `in 2 s`.
pub(crate) fn retry_line(attempt: u32, when: &str) -> String {
    match attempt {
        0 | 1 => format!("the request follows {when}"),
        _ => format!("attempt {attempt} follows {when}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_attempt_is_the_request_itself() {
        assert_eq!(retry_line(1, "in 2 s"), "the request follows in 2 s");
        assert_eq!(retry_line(2, "at 10:00"), "attempt 2 follows at 10:00");
    }
}
