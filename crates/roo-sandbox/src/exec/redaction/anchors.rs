//! Anchors: fixed texts with which a secret may begin, found in one pass.

use aho_corasick::{AhoCorasick, MatchKind};

/// The result of a search, with offsets into the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnchorSearch {
    /// The offset and number of the first anchor, the longest at that offset.
    Found(usize, usize),
    /// The offset up to which there is no anchor. The rest may be the beginning of one.
    Clear(usize),
}

/// A set of anchors.
#[derive(Clone, Debug)]
pub(super) struct Anchors {
    automaton: Option<AhoCorasick>,
    /// The texts, folded and sorted.
    sorted: Vec<Vec<u8>>,
    /// The first two bytes of each.
    pairs: BytePairs,
    longest: usize,
    ignore_case: bool,
}

impl Anchors {
    /// Creates a set of texts of at least two bytes.
    pub(super) fn new(texts: impl IntoIterator<Item = Vec<u8>>, ignore_case: bool) -> Self {
        let fold = |mut text: Vec<u8>| {
            if ignore_case {
                text.make_ascii_lowercase();
            }
            text
        };
        let mut sorted: Vec<Vec<u8>> = texts.into_iter().map(fold).collect();
        sorted.sort();
        sorted.dedup();
        let longest = sorted.iter().map(Vec::len).max().unwrap_or(0);
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .ascii_case_insensitive(ignore_case)
            .build(&sorted);
        let pairs = BytePairs::new(sorted.iter().filter_map(|text| text.first_chunk()));
        // Building fails only for sets that exceed the limits of the automaton.
        Self { automaton: automaton.ok().filter(|_| !sorted.is_empty()), sorted, pairs, longest, ignore_case }
    }

    /// Returns the texts, folded and sorted. Their indices are their numbers.
    pub(super) fn texts(&self) -> &[Vec<u8>] {
        &self.sorted
    }

    /// Finds the first anchor, or the offset at which an incomplete one may begin. `last` says that no text follows.
    pub(super) fn next(&self, text: &[u8], last: bool) -> AnchorSearch {
        let found = self.automaton.as_ref().and_then(|automaton| automaton.find(text));
        // Only an incomplete anchor that begins before a complete one, or with it, can change the result.
        let begun = if last { None } else { self.begun(text, found.map(|found| found.start())) };
        match (found, begun) {
            (_, Some(begun)) => AnchorSearch::Clear(begun),
            (Some(found), None) => AnchorSearch::Found(found.start(), found.pattern().as_usize()),
            (None, None) => AnchorSearch::Clear(text.len()),
        }
    }

    /// Returns the first offset, up to a given one, from which the rest of the text is the beginning of an anchor.
    fn begun(&self, text: &[u8], up_to: Option<usize>) -> Option<usize> {
        let from = text.len().saturating_sub(self.longest.saturating_sub(1));
        let to = up_to.map_or(text.len(), |place| (place + 1).min(text.len()));
        (from..to).find(|&place| text.get(place..).is_some_and(|end| self.is_beginning(end)))
    }

    /// Reports whether a longer anchor begins with this text.
    fn is_beginning(&self, text: &[u8]) -> bool {
        let fold = |byte: u8| if self.ignore_case { byte.to_ascii_lowercase() } else { byte };
        if let Some([first, second]) = text.first_chunk()
            && !self.pairs.has(fold(*first), fold(*second))
        {
            return false;
        }
        let compared = |anchor: &[u8]| anchor.iter().copied().cmp(text.iter().map(|byte| fold(*byte)));
        let next = self.sorted.partition_point(|anchor| compared(anchor).is_le());
        // What follows a text in order begins with it, if anything does.
        let begins = |anchor: &Vec<u8>| anchor.get(..text.len()).is_some_and(|begin| compared(begin).is_eq());
        self.sorted.get(next).is_some_and(begins)
    }
}

/// A set of pairs of bytes.
#[derive(Clone, Debug)]
struct BytePairs(Vec<u64>);

impl BytePairs {
    fn new<'a>(pairs: impl Iterator<Item = &'a [u8; 2]>) -> Self {
        let mut bits = vec![0; 1 << 10];
        for [first, second] in pairs {
            let (word, bit) = Self::place(*first, *second);
            if let Some(word) = bits.get_mut(word) {
                *word |= bit;
            }
        }
        Self(bits)
    }

    fn has(&self, first: u8, second: u8) -> bool {
        let (word, bit) = Self::place(first, second);
        self.0.get(word).is_some_and(|word| word & bit != 0)
    }

    fn place(first: u8, second: u8) -> (usize, u64) {
        let number = usize::from(first) << 8 | usize::from(second);
        (number >> 6, 1 << (number & 63))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(text: &str, last: bool) -> AnchorSearch {
        Anchors::new(["token", "tok-x", "://"].map(|text| text.as_bytes().to_vec()), true)
            .next(text.as_bytes(), last)
    }

    #[test]
    fn anchors_are_found_and_their_beginnings_wait() {
        assert_eq!(next("a TOKEN b", false), AnchorSearch::Found(2, 2));
        assert_eq!(next("nothing", false), AnchorSearch::Clear(7));
        assert_eq!(next("a to", false), AnchorSearch::Clear(2));
        assert_eq!(next("a to", true), AnchorSearch::Clear(4));
        assert_eq!(next("http:/", false), AnchorSearch::Clear(4));
        // A further beginning after an anchor changes nothing.
        assert_eq!(next("token tok", false), AnchorSearch::Found(0, 2));
        assert_eq!(Anchors::new([], false).next(b"a", false), AnchorSearch::Clear(1));
    }

    #[test]
    fn a_longer_anchor_at_the_same_place_is_waited_for() {
        let anchors = Anchors::new(["sk-", "sk-ant-"].map(|text| text.as_bytes().to_vec()), true);
        assert_eq!(anchors.next(b"sk-", false), AnchorSearch::Clear(0));
        assert_eq!(anchors.next(b"sk-an", false), AnchorSearch::Clear(0));
        assert_eq!(anchors.next(b"sk-ax", false), AnchorSearch::Found(0, 0));
        assert_eq!(anchors.next(b"sk-an", true), AnchorSearch::Found(0, 0));
    }
}
