//! Line diffs: for people and models to read, and as the ground of [`super::position::minimal_edits`].

use std::time::{Duration, Instant};

use similar::{Algorithm, DiffOp, DiffTag, capture_diff_slices_deadline, group_diff_ops};

/// After this the rest counts as replaced: still a right diff, no longer a short one.
const PATIENCE: Duration = Duration::from_millis(250);
/// Texts with more bytes than this together are not compared line by line between the first and the
/// last line that differ.
const MOST_BYTES: usize = 32 << 20;
const CONTEXT: usize = 3;

/// How many lines a change adds and removes; a changed line counts as both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// Lines that only the new text has.
    pub added: usize,
    /// Lines that only the old text has.
    pub removed: usize,
}

/// A unified diff with three lines of context; empty when nothing changed. Line ends stay as they are,
/// so that a change of line ends is a change.
pub fn unified(before: &str, after: &str, path: &str) -> String {
    let (old, new) = (split(before), split(after));
    let hunks = group_diff_ops(operations(&old, &new), CONTEXT);
    if hunks.is_empty() {
        return String::new();
    }
    let mut diff = format!("--- a/{path}\n+++ b/{path}\n");
    for hunk in hunks {
        let (Some(first), Some(last)) = (hunk.first(), hunk.last()) else { continue };
        diff.push_str(&format!(
            "@@ -{} +{} @@\n",
            extent(first.old_range().start, last.old_range().end),
            extent(first.new_range().start, last.new_range().end)
        ));
        for operation in &hunk {
            match operation.tag() {
                DiffTag::Equal => push_lines(&mut diff, ' ', &old[operation.old_range()]),
                DiffTag::Delete | DiffTag::Insert | DiffTag::Replace => {
                    push_lines(&mut diff, '-', &old[operation.old_range()]);
                    push_lines(&mut diff, '+', &new[operation.new_range()]);
                }
            }
        }
    }
    diff
}

/// How much a change adds and removes.
pub fn stat(before: &str, after: &str) -> Stat {
    let changes = operations(&split(before), &split(after));
    changes.iter().filter(|change| change.tag() != DiffTag::Equal).fold(Stat::default(), |stat, change| {
        Stat {
            added: stat.added + change.new_range().len(),
            removed: stat.removed + change.old_range().len(),
        }
    })
}

/// Lines with their ends.
pub(super) fn split(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

/// What turns the old lines into the new ones, in order and without gaps.
pub(super) fn operations(old: &[&str], new: &[&str]) -> Vec<DiffOp> {
    let bytes: usize = old.iter().chain(new).map(|line| line.len()).sum();
    if bytes <= MOST_BYTES {
        let deadline = Instant::now().checked_add(PATIENCE);
        return capture_diff_slices_deadline(Algorithm::Myers, old, new, deadline);
    }
    let prefix = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    let (old, new) = (&old[prefix..], &new[prefix..]);
    let suffix = old.iter().rev().zip(new.iter().rev()).take_while(|(old, new)| old == new).count();
    let (old_len, new_len) = (old.len() - suffix, new.len() - suffix);
    let (old_index, new_index) = (prefix + old_len, prefix + new_len);
    [
        DiffOp::Equal { old_index: 0, new_index: 0, len: prefix },
        DiffOp::Replace { old_index: prefix, old_len, new_index: prefix, new_len },
        DiffOp::Equal { old_index, new_index, len: suffix },
    ]
    .into_iter()
    .filter(|operation| !operation.old_range().is_empty() || !operation.new_range().is_empty())
    .collect()
}

/// The lines of a hunk header: an empty side names the line before it.
fn extent(start: usize, end: usize) -> String {
    match end - start {
        0 => format!("{start},0"),
        1 => format!("{}", start + 1),
        length => format!("{},{length}", start + 1),
    }
}

fn push_lines(diff: &mut String, sign: char, lines: &[&str]) {
    for line in lines {
        diff.push(sign);
        diff.push_str(line);
        if !line.ends_with('\n') {
            diff.push_str("\n\\ No newline at end of file\n");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_hunk_has_three_lines_of_context() {
        let before = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
        let after = "1\n2\n3\n4\nfive\n6\n7\n8\n9\n";
        assert_eq!(
            unified(before, after, "src/a.rs"),
            "--- a/src/a.rs\n+++ b/src/a.rs\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n"
        );
        assert_eq!(stat(before, after), Stat { added: 1, removed: 1 });
    }

    #[test]
    fn a_new_file_and_a_missing_line_end() {
        assert_eq!(
            unified("", "a\nb", "n"),
            "--- a/n\n+++ b/n\n@@ -0,0 +1,2 @@\n+a\n+b\n\\ No newline at end of file\n"
        );
        assert_eq!(unified("a\n", "", "n"), "--- a/n\n+++ b/n\n@@ -1 +0,0 @@\n-a\n");
        assert_eq!(unified("same", "same", "n"), "");
        assert_eq!(stat("same", "same"), Stat::default());
    }

    #[test]
    fn other_line_ends_are_a_change() {
        assert_eq!(stat("a\nb\n", "a\r\nb\n"), Stat { added: 1, removed: 1 });
    }

    #[test]
    fn huge_texts_are_compared_by_their_ends_only() {
        let line = "x".repeat(1 << 20);
        let mut before = String::from("first\n");
        for n in 0..20 {
            writeln!(before, "{n}{line}").unwrap();
        }
        let after = before.replacen("\n0", "\nnew\n0", 1);
        assert_eq!(stat(&before, &after), Stat { added: 1, removed: 0 });
    }
}
