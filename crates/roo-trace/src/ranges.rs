//! The lines that a change wrote, and the hashes by which they are found again after they have moved.
//!
//! Lines are compared without their line ends, so another kind of line end is not a change.

use similar::DiffTag;

use roo_protocol::ids::Digest;
use roo_text::{diff, lines};

/// The most hunks of a change. Of more, those that are nearest to each other are joined.
const MAX_HUNKS: usize = 512;

/// Lines that replaced others. Both sides count from 0; either may be empty, not both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hunk {
    /// The first old line.
    pub old_start: usize,
    /// Number of old lines.
    pub old_len: usize,
    /// The first new line.
    pub new_start: usize,
    /// Number of new lines.
    pub new_len: usize,
}

/// Changes that turned one text into another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changes {
    /// In order, with unchanged lines between them.
    pub hunks: Vec<Hunk>,
    /// The lines of the new text that were written, or where lines were deleted if nothing else was done.
    pub ranges: Vec<Span>,
    /// True if lines were deleted and none written.
    pub deletion: bool,
    /// Number of lines the new text has.
    pub lines: usize,
}

/// Lines of a text, from 1, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first.
    pub start: usize,
    /// The last.
    pub end: usize,
}

/// The lines of a text without their ends.
pub fn split(text: &str) -> Vec<&str> {
    lines::lines(text).map(|line| line.text).collect()
}

impl Changes {
    /// Computes the smallest changes that turn the old lines into the new ones.
    pub fn between(old: &[&str], new: &[&str]) -> Self {
        let mut hunks: Vec<Hunk> = Vec::new();
        for operation in diff::operations(old, new) {
            if operation.tag() == DiffTag::Equal {
                continue;
            }
            let (before, after) = (operation.old_range(), operation.new_range());
            match hunks.last_mut() {
                Some(last)
                    if last.old_start + last.old_len == before.start
                        && last.new_start + last.new_len == after.start =>
                {
                    last.old_len += before.len();
                    last.new_len += after.len();
                }
                _ => hunks.push(Hunk {
                    old_start: before.start,
                    old_len: before.len(),
                    new_start: after.start,
                    new_len: after.len(),
                }),
            }
        }
        coarsen(&mut hunks);
        let deletion = !hunks.is_empty() && hunks.iter().all(|hunk| hunk.new_len == 0);
        let span = |hunk: &Hunk| {
            if deletion {
                let line = hunk.new_start.max(1);
                return Some(Span { start: line, end: line });
            }
            let end = hunk.new_start + hunk.new_len;
            (hunk.new_len > 0).then_some(Span { start: hunk.new_start + 1, end })
        };
        let mut ranges: Vec<Span> = hunks.iter().filter_map(span).collect();
        ranges.dedup();
        Self { ranges, deletion, lines: new.len(), hunks }
    }
}

/// Joins the hunks that are nearest to each other until there are few enough.
fn coarsen(hunks: &mut Vec<Hunk>) {
    if hunks.len() <= MAX_HUNKS {
        return;
    }
    let gap = |pair: &[Hunk]| pair[1].old_start - (pair[0].old_start + pair[0].old_len);
    let mut gaps: Vec<usize> = hunks.windows(2).map(gap).collect();
    gaps.sort_unstable();
    let widest = gaps[hunks.len() - MAX_HUNKS - 1];
    let mut left = hunks.len() - MAX_HUNKS;
    let mut joined: Vec<Hunk> = Vec::with_capacity(MAX_HUNKS);
    for hunk in hunks.drain(..) {
        match joined.last_mut() {
            Some(last) if left > 0 && hunk.old_start - (last.old_start + last.old_len) <= widest => {
                last.old_len = hunk.old_start + hunk.old_len - last.old_start;
                last.new_len = hunk.new_start + hunk.new_len - last.new_start;
                left -= 1;
            }
            _ => joined.push(hunk),
        }
    }
    *hunks = joined;
}

/// The hash of lines, independent of their position and line ends.
pub(crate) fn content_hash(lines: &[&str]) -> Digest {
    Digest::of(lines.join("\n"))
}

/// The same without indentation, so that lines that moved into another block are still found.
pub(crate) fn norm_hash(lines: &[&str]) -> Digest {
    let lines: Vec<&str> = lines.iter().map(|line| without_indentation(line)).collect();
    content_hash(&lines)
}

/// 16 bits of a line's hash, without its indentation: too few to reveal its text, and enough to recognise several lines
/// in a row.
pub fn mark(line: &str) -> u16 {
    // Half of a checksum is what is wanted.
    (crc32fast::hash(without_indentation(line).as_bytes()) & 0xffff) as u16
}

/// Returns whether a line is distinctive enough for a match to be significant.
pub(super) fn says_something(line: &str) -> bool {
    line.chars().filter(|c| c.is_alphanumeric()).nth(2).is_some()
}

fn without_indentation(line: &str) -> &str {
    line.trim_start_matches([' ', '\t'])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn spans(before: &str, after: &str) -> (Vec<(usize, usize)>, bool) {
        let changes = Changes::between(&split(before), &split(after));
        (changes.ranges.iter().map(|span| (span.start, span.end)).collect(), changes.deletion)
    }

    #[test]
    fn ranges_are_the_lines_that_differ() {
        assert_eq!(spans("", "a\nb\n"), (vec![(1, 2)], false));
        assert_eq!(spans("a\nb\nc\n", "a\nB\nC\nc\n"), (vec![(2, 3)], false));
        assert_eq!(spans("a\nb\nc\nd\n", "A\nb\nc\nD\n"), (vec![(1, 1), (4, 4)], false));
        assert_eq!(spans("a\nb\n", "a\r\nb"), (vec![], false));
    }

    #[test]
    fn a_pure_deletion_names_the_line_before() {
        assert_eq!(spans("a\nb\nc\n", "a\nc\n"), (vec![(1, 1)], true));
        assert_eq!(spans("a\nb\n", "b\n"), (vec![(1, 1)], true));
        assert_eq!(spans("a\nb\n", ""), (vec![(1, 1)], true));
        // Something was written too, so the deletion has no range of its own.
        assert_eq!(spans("a\nb\nc\nd\n", "a\nc\nD\n"), (vec![(3, 3)], false));
    }

    const BLOCK: [&str; 3] = ["if token.is_expired() {", "    return Err(Expired);", "}"];

    #[test]
    fn a_hash_is_independent_of_the_position_of_lines() {
        let hash = content_hash(&BLOCK);
        let above: String = (0..100).map(|n| format!("line {n}\n")).collect();
        let moved = above.clone() + &BLOCK.join("\n") + "\n";
        assert_eq!(content_hash(&split(&moved)[100..]), hash);
        let windows = format!("// elsewhere\r\n{}\r\n", BLOCK.join("\r\n"));
        assert_eq!(content_hash(&split(&windows)[1..]), hash);
        let other = BLOCK.join("\n").replace("Expired", "Outdated");
        assert_ne!(content_hash(&split(&other)), hash);
    }

    #[test]
    fn only_the_other_hash_forgives_indentation() {
        let deeper: Vec<String> = BLOCK.iter().map(|line| format!("\t    {line}")).collect();
        let deeper: Vec<&str> = deeper.iter().map(String::as_str).collect();
        assert_eq!(norm_hash(&deeper), norm_hash(&BLOCK));
        assert_ne!(content_hash(&deeper), content_hash(&BLOCK));
        assert_ne!(norm_hash(&["a b"]), norm_hash(&["ab"]));
    }

    #[test]
    fn very_many_hunks_are_joined() {
        let old: Vec<String> = (0..4000).map(|n| format!("{n}\n")).collect();
        let new: Vec<String> =
            (0..4000).map(|n| if n % 3 == 0 { format!("x{n}\n") } else { format!("{n}\n") }).collect();
        let (old, new) = (old.concat(), new.concat());
        let changes = Changes::between(&split(&old), &split(&new));
        assert_eq!(changes.hunks.len(), MAX_HUNKS);
        assert_eq!(changes.ranges.last(), Some(&Span { start: 4000, end: 4000 }));
    }

    proptest! {
        #[test]
        fn hunks_rebuild_the_new_text(old in "([ab]\n){0,12}", new in "([ab]\n){0,12}") {
            let (old, new) = (split(&old), split(&new));
            let changes = Changes::between(&old, &new);
            let mut built = Vec::new();
            let mut at = 0;
            for hunk in &changes.hunks {
                built.extend_from_slice(&old[at..hunk.old_start]);
                prop_assert_eq!(built.len(), hunk.new_start);
                built.extend_from_slice(&new[hunk.new_start..hunk.new_start + hunk.new_len]);
                at = hunk.old_start + hunk.old_len;
            }
            built.extend_from_slice(&old[at..]);
            prop_assert_eq!(built, new);
        }
    }
}
