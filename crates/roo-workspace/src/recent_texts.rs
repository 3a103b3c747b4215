//! The most recently read texts, by digest, to compute what has changed since one was read. In memory and bounded.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use roo_protocol::ids::Digest;

/// The longest text that is kept, in bytes.
const TEXT: usize = 256 << 10;
/// The most that all kept texts have together, in bytes.
const TOTAL: usize = 4 << 20;

/// The texts, the oldest first.
#[derive(Default)]
pub(super) struct RecentTexts(Mutex<TextQueue>);

#[derive(Default)]
struct TextQueue {
    texts: VecDeque<(Digest, Arc<str>)>,
    bytes: usize,
}

impl RecentTexts {
    fn kept(&self) -> MutexGuard<'_, TextQueue> {
        // No code panics while it holds the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn remember(&self, digest: Digest, text: &str) {
        if text.len() > TEXT {
            return;
        }
        let mut kept = self.kept();
        if let Some(at) = kept.texts.iter().position(|(known, _)| *known == digest) {
            // It was used again.
            if let Some(known) = kept.texts.remove(at) {
                kept.texts.push_back(known);
            }
            return;
        }
        kept.bytes += text.len();
        kept.texts.push_back((digest, text.into()));
        while kept.bytes > TOTAL
            && let Some((_, old)) = kept.texts.pop_front()
        {
            kept.bytes -= old.len();
        }
    }

    pub(super) fn recall(&self, digest: Digest) -> Option<Arc<str>> {
        let kept = self.kept();
        kept.texts.iter().find(|(known, _)| *known == digest).map(|(_, text)| Arc::clone(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_recently_used_texts_are_kept() {
        let recent = RecentTexts::default();
        let text = |n: usize| format!("{n:04}{}", " ".repeat(TEXT - 4));
        let all: Vec<String> = (0..TOTAL / TEXT + 1).map(text).collect();
        let digests: Vec<Digest> = all.iter().map(Digest::of).collect();
        recent.remember(digests[0], &all[0]);
        recent.remember(digests[1], &all[1]);
        recent.remember(digests[0], &all[0]);
        for (digest, text) in digests.iter().zip(&all).skip(2) {
            recent.remember(*digest, text);
        }
        assert_eq!(recent.recall(digests[0]).as_deref(), Some(all[0].as_str()));
        assert_eq!(recent.recall(digests[1]), None);
        recent.remember(Digest::of("long"), &" ".repeat(TEXT + 1));
        assert_eq!(recent.recall(Digest::of("long")), None);
    }
}
