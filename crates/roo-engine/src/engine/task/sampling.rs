//! What MCP servers have had a task's model asked (*sampling*), and what they may still.

use std::collections::BTreeSet;

/// The most requests of servers in a task.
pub(in crate::engine) const SAMPLING_REQUESTS: u32 = 10;
/// The most tokens that servers use in a task, of requests and answers together.
const TOKENS: u64 = 40_000;

/// Use of a task's model by servers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SamplingTally {
    requests: u32,
    tokens: u64,
    /// What of the tokens was set aside for the newest request.
    set_aside: u64,
    /// Servers that the user allows without a question, as far as the budget goes.
    allowed: BTreeSet<String>,
}

impl SamplingTally {
    /// Number of requests so far.
    pub(in crate::engine) fn requests(&self) -> u32 {
        self.requests
    }

    /// Returns whether the user allows requests of a server in this task without a question.
    pub(in crate::engine) fn allows(&self, server: &str) -> bool {
        self.allowed.contains(server)
    }

    /// Returns the reason why a request of at most so many tokens is refused; none where the budget has room for it.
    pub(in crate::engine) fn refusal(&self, tokens: u64) -> Option<String> {
        if self.requests >= SAMPLING_REQUESTS {
            return Some(format!(
                "servers have made the {SAMPLING_REQUESTS} requests that they have in a task"
            ));
        }
        let left = TOKENS.saturating_sub(self.tokens);
        (tokens > left).then(|| {
            format!(
                "the request may take {tokens} tokens, and {left} are left of the {TOKENS} that servers have in a task"
            )
        })
    }

    /// Counts a request that begins, with the most tokens that it may take: what is cut off has used them for all one knows.
    pub(in crate::engine) fn begin(&mut self, server: &str, tokens: u64, allow_all: bool) {
        self.requests = self.requests.saturating_add(1);
        self.tokens = self.tokens.saturating_add(tokens);
        self.set_aside = tokens;
        if allow_all {
            self.allowed.insert(server.to_owned());
        }
    }

    /// Counts what the newest request has taken in place of the most that it might; none where that isn't known.
    pub(in crate::engine) fn end(&mut self, taken: Option<u64>) {
        let set_aside = std::mem::take(&mut self.set_aside);
        if let Some(taken) = taken {
            self.tokens = (self.tokens - set_aside.min(self.tokens)).saturating_add(taken);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_tokens_are_bounded_and_what_is_cut_off_counts_in_full() {
        let mut tally = SamplingTally::default();
        assert_eq!(tally.refusal(TOKENS), None);
        assert!(tally.refusal(TOKENS + 1).is_some());
        tally.begin("desk", 30_000, false);
        tally.end(Some(1_000));
        assert_eq!(tally.refusal(39_000), None, "what was not taken is free again");
        tally.begin("desk", 30_000, true);
        assert!(tally.refusal(10_000).is_some());
        tally.end(None);
        assert!(tally.refusal(10_000).is_some(), "nobody knows what it took");
        for _ in 2..SAMPLING_REQUESTS {
            tally.begin("desk", 1, false);
            tally.end(Some(1));
        }
        assert_eq!(tally.refusal(1).unwrap(), "servers have made the 10 requests that they have in a task");
        assert!(tally.allows("desk") && !tally.allows("other"));
    }
}
