//! Line diffs: for people and models to read, and as the ground of [`super::position::minimal_edits`].

use similar::{Algorithm, DiffOp, DiffTag, capture_diff_slices, group_diff_ops};

/// Texts of which both have more lines than this between the first and the last that differ are not
/// compared there: below it the search is bounded by its own rules, which know no clock.
const MAX_LINES: usize = 50_000;
const CONTEXT: usize = 3;

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

/// As [`unified`], of a file that may be new: what is compared with no file is headed so.
pub fn of_file(before: Option<&str>, after: &str, path: &str) -> String {
    let diff = unified(before.unwrap_or_default(), after, path);
    match diff.split_once('\n') {
        Some((_, rest)) if before.is_none() => format!("--- /dev/null\n{rest}"),
        _ => diff,
    }
}

/// As [`unified`], of a file that goes.
pub fn of_deleted(before: &str, path: &str) -> String {
    match unified(before, "", path).split_once('\n') {
        Some((head, rest)) => {
            let hunks = rest.split_once('\n').map_or("", |(_, hunks)| hunks);
            format!("{head}\n+++ /dev/null\n{hunks}")
        }
        None => format!("--- a/{path}\n+++ /dev/null\n"),
    }
}

/// As [`unified`], of a file that gets another name; the names alone where its text stays.
pub fn of_moved(before: &str, after: &str, from: &str, to: &str) -> String {
    match unified(before, after, to).split_once('\n') {
        Some((_, rest)) => format!("--- a/{from}\n{rest}"),
        None => format!("--- a/{from}\n+++ b/{to}\n"),
    }
}

/// What stands for a diff of a file that is no text on a side where there is one, in git's words. True for a side with a file.
pub fn of_bytes(before: bool, after: bool, path: &str) -> String {
    let side = |is_there, prefix| if is_there { format!("{prefix}/{path}") } else { "/dev/null".to_owned() };
    format!("Binary files {} and {} differ\n", side(before, "a"), side(after, "b"))
}

/// Lines with their ends.
pub(super) fn split(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

/// Returns the operations that turn the old lines into the new ones, in order and without gaps: the same for the same
/// texts, and as short as it can be unless they differ in very many lines.
pub fn operations(old: &[&str], new: &[&str]) -> Vec<DiffOp> {
    let prefix = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    let (old_rest, new_rest) = (&old[prefix..], &new[prefix..]);
    let suffix = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(|(old, new)| old == new).count();
    let (old_len, new_len) = (old_rest.len() - suffix, new_rest.len() - suffix);
    if old_len.min(new_len) <= MAX_LINES {
        return capture_diff_slices(Algorithm::Myers, old, new);
    }
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
    }

    #[test]
    fn a_new_file_and_a_missing_line_end() {
        assert_eq!(
            unified("", "a\nb", "n"),
            "--- a/n\n+++ b/n\n@@ -0,0 +1,2 @@\n+a\n+b\n\\ No newline at end of file\n"
        );
        assert_eq!(unified("a\n", "", "n"), "--- a/n\n+++ b/n\n@@ -1 +0,0 @@\n-a\n");
        assert_eq!(unified("same", "same", "n"), "");
    }

    #[test]
    fn a_new_file_is_compared_with_none() {
        assert_eq!(of_file(None, "a\n", "n"), "--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+a\n");
        assert_eq!(of_file(Some(""), "a\n", "n"), unified("", "a\n", "n"));
        assert_eq!(of_file(None, "", "n"), "");
    }

    #[test]
    fn other_line_ends_are_a_change() {
        assert_eq!(unified("a\nb\n", "a\r\nb\n", "n"), "--- a/n\n+++ b/n\n@@ -1,2 +1,2 @@\n-a\n+a\r\n b\n");
    }

    /// Returns the changes, as `old lines -> new lines` where each begins.
    fn changes(old: &[&str], new: &[&str]) -> Vec<(std::ops::Range<usize>, std::ops::Range<usize>)> {
        let changed = |operation: &DiffOp| operation.tag() != DiffTag::Equal;
        operations(old, new).iter().filter(|o| changed(o)).map(|o| (o.old_range(), o.new_range())).collect()
    }

    #[test]
    fn far_apart_changes_of_a_long_text_stay_apart() {
        let old: Vec<String> = (0..MAX_LINES).map(|line| line.to_string()).collect();
        let old: Vec<&str> = old.iter().map(String::as_str).collect();
        let mut new = old.clone();
        (new[0], new[MAX_LINES - 1]) = ("first", "last");
        let last = MAX_LINES - 1..MAX_LINES;
        assert_eq!(changes(&old, &new), [(0..1, 0..1), (last.clone(), last)]);
    }

    #[test]
    fn what_is_too_long_to_compare_is_one_change() {
        let old = vec!["same"; MAX_LINES + 3];
        let mut new = old.clone();
        (new[1], new[MAX_LINES + 1]) = ("first", "last");
        let middle = 1..MAX_LINES + 2;
        assert_eq!(changes(&old, &new), [(middle.clone(), middle)]);
    }

    #[test]
    fn a_text_turned_upside_down_is_still_told_right() {
        let old: Vec<String> = (0..5000).map(|line| line.to_string()).collect();
        let old: Vec<&str> = old.iter().map(String::as_str).collect();
        let new: Vec<&str> = old.iter().rev().copied().collect();
        let told: Vec<&str> =
            operations(&old, &new).iter().flat_map(|o| &new[o.new_range()]).copied().collect();
        assert_eq!(told, new);
        for operation in operations(&old, &new).iter().filter(|o| o.tag() == DiffTag::Equal) {
            assert_eq!(old[operation.old_range()], new[operation.new_range()]);
        }
    }
}
