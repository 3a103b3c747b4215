//! The times by which the messages of a task are known. Roo Code's clients tell messages apart by `ts` alone, so no two messages
//! have the same, and a message has the same whether its text was seen while it was written or only once it was complete.

use std::collections::HashMap;

use roo_protocol::ids::MessageId;

/// Number of milliseconds behind a model request that are kept for the blocks of its answer: what is known of a block before it is
/// complete is its request and its place.
const BLOCKS: i64 = 64;

/// Times of messages, by the ids of our log.
#[derive(Clone, Debug, Default)]
pub(super) struct MessageTimes {
    times: HashMap<MessageId, i64>,
    last: i64,
    /// The model request whose answer is written now.
    request: Option<(MessageId, i64)>,
}

impl MessageTimes {
    /// The time of a message; of a new one, `at` or the next free time behind it.
    pub(super) fn time(&mut self, id: &MessageId, at: i64) -> i64 {
        if let Some(known) = self.times.get(id) {
            return *known;
        }
        let time = self.block_time(id).unwrap_or_else(|| {
            self.last = at.max(self.last + 1);
            self.last
        });
        self.times.insert(id.clone(), time);
        time
    }

    /// The time of a new model request. Its number may be that of an earlier one, which a restore has undone.
    pub(super) fn begin_request(&mut self, id: &MessageId, at: i64) -> i64 {
        let prefix = format!("{id}.");
        self.times.retain(|known, _| known != id && !known.as_str().starts_with(&prefix));
        let time = self.time(id, at);
        self.last = time + BLOCKS;
        self.request = Some((id.clone(), time));
        time
    }

    /// The time of a block that is still being written, by its place behind its request.
    pub(super) fn block_time(&self, id: &MessageId) -> Option<i64> {
        let (request, time) = self.request.as_ref()?;
        let place = id.as_str().strip_prefix(request.as_str())?.strip_prefix(".b")?;
        let place: i64 = place.parse().ok()?;
        (0..BLOCKS - 1).contains(&place).then_some(time + 1 + place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(id: &str) -> MessageId {
        MessageId::new(id)
    }

    #[test]
    fn no_two_messages_have_one_time_and_none_changes_it() {
        let mut times = MessageTimes::default();
        assert_eq!(times.time(&id("m1"), 100), 100);
        assert_eq!(times.begin_request(&id("r1"), 100), 101);
        assert_eq!(times.time(&id("m2"), 103), 166, "behind all blocks that may come");
        assert_eq!(times.time(&id("r1.b1"), 5000), 103, "whenever it is complete");
        assert_eq!(times.time(&id("r1.b0"), 90), 102);
        assert_eq!(times.time(&id("r1.b63"), 4000), 4000, "behind the blocks that have a place");
        assert_eq!(times.time(&id("m1"), 9000), 100);
    }

    #[test]
    fn a_request_whose_number_comes_again_is_another_one() {
        let mut times = MessageTimes::default();
        times.begin_request(&id("r1"), 100);
        times.time(&id("r1.b0"), 100);
        assert_eq!(times.begin_request(&id("r1"), 200), 200);
        assert_eq!(times.time(&id("r1.b0"), 210), 201);
    }
}
