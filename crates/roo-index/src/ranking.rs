//! The words that chunks are ranked by, and one order of chunks made of two: reciprocal rank fusion.

use std::collections::HashMap;

use super::ranked_chunk::RankedChunk;

/// Weight of ranks against each other: with a large one, being in both orders counts more than being first in one.
/// The value is that of Cormack, Clarke and Büttcher, "Reciprocal Rank Fusion" (SIGIR 2009).
const RANK: f64 = 60.0;

/// Puts two orders together, each the best first. A chunk that is the first of both has the score 1.
pub(crate) fn fused(orders: &[Vec<RankedChunk>; 2]) -> Vec<RankedChunk> {
    let mut chunks: HashMap<i64, RankedChunk> = HashMap::new();
    for order in orders {
        for (rank, RankedChunk { chunk, .. }) in (0_u32..).zip(order) {
            let known =
                chunks.entry(chunk.id).or_insert_with(|| RankedChunk { chunk: chunk.clone(), score: 0.0 });
            known.score += (RANK + 1.0) / (RANK + 1.0 + f64::from(rank)) / 2.0;
        }
    }
    let mut fused: Vec<RankedChunk> = chunks.into_values().collect();
    fused.sort_by(|one, other| other.score.total_cmp(&one.score).then(one.chunk.id.cmp(&other.chunk.id)));
    fused
}

/// What chunks are ranked by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RankedBy<'a> {
    /// These words, in all chunks that have one of them.
    Rarest(Vec<&'a str>),
    /// These words, each of which is in more chunks than are ranked.
    Common(Vec<&'a str>),
}

/// Chooses among words that are in so many chunks each: the rarest, which together are in `most` at most. The others would hardly
/// change the order, and take most of the time. All that are in any, where even the rarest is in more.
pub(crate) fn ranked_by(mut counted: Vec<(u32, &str)>, most: u32) -> RankedBy<'_> {
    counted.retain(|(chunks, _)| *chunks > 0);
    if counted.iter().all(|(chunks, _)| *chunks > most) {
        return RankedBy::Common(counted.into_iter().map(|(_, word)| word).collect());
    }
    counted.sort_by_key(|(chunks, _)| *chunks);
    let mut left = most;
    let fitting = counted.into_iter().map_while(|(chunks, word)| {
        left = left.checked_sub(chunks)?;
        Some(word)
    });
    RankedBy::Rarest(fitting.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranked_chunk::KeptChunk;
    use roo_protocol::ids::Digest;
    use roo_text::lines::LineRange;

    fn order(ids: &[i64]) -> Vec<RankedChunk> {
        let chunk = |&id: &i64| KeptChunk {
            id,
            root: 1,
            path: "a".to_owned(),
            lines: LineRange { start: 1, end: 1 },
            file_digest: Digest::of(""),
            digest: Digest::of(""),
        };
        ids.iter().map(|id| RankedChunk { chunk: chunk(id), score: 0.5 }).collect()
    }

    #[test]
    fn what_is_in_both_orders_goes_before_what_is_first_in_one() {
        let ids = |orders: &[Vec<RankedChunk>; 2]| -> Vec<i64> {
            fused(orders).into_iter().map(|ranked| ranked.chunk.id).collect()
        };
        assert_eq!(ids(&[order(&[1, 2, 3]), order(&[4, 2])]), [2, 1, 4, 3]);
        assert_eq!(fused(&[order(&[1]), order(&[1])])[0].score, 1.0);
        assert_eq!(ids(&[order(&[]), order(&[])]), Vec::<i64>::new());
    }

    #[test]
    fn common_words_are_left_out_where_rarer_ones_find_enough() {
        let of = |counted: &[(u32, &'static str)]| ranked_by(counted.to_vec(), 100);
        assert_eq!(
            of(&[(60, "config"), (3, "retry"), (90, "the"), (20, "socket")]),
            RankedBy::Rarest(vec!["retry", "socket", "config"])
        );
        assert_eq!(of(&[(101, "config"), (0, "absent"), (100, "retry")]), RankedBy::Rarest(vec!["retry"]));
        // None of them tells more than the others.
        assert_eq!(
            of(&[(101, "config"), (0, "absent"), (101, "the")]),
            RankedBy::Common(vec!["config", "the"])
        );
        assert_eq!(of(&[(0, "absent")]), RankedBy::Common(vec![]));
    }
}
