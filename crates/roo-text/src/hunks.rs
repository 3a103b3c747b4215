//! Hunks: the changes between two texts, each of which can be taken, left or replaced by itself.

use std::ops::Range;

use similar::DiffTag;

use super::diff::{operations, split};

/// One change of a text: lines of the old one, and the lines that stand in their place in the new one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hunk {
    /// Lines of the old text, counted from 0.
    pub old: Range<usize>,
    /// Lines of the new text, counted from 0.
    pub new: Range<usize>,
    /// The old lines with their ends.
    pub old_text: String,
    /// The new lines with their ends.
    pub new_text: String,
}

/// What becomes of a hunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HunkChoice<'a> {
    /// The text gets its new lines.
    Take,
    /// The text keeps its old lines.
    Leave,
    /// The text gets these lines instead.
    Replace(&'a str),
}

/// A text that some hunks were applied to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppliedHunks {
    pub text: String,
    /// For each hunk, where the lines begin that the text holds for it, counted from 0.
    pub lines: Vec<usize>,
}

impl Hunk {
    /// These lines in place of the new ones: with the line ends of the hunk, and with one at their end unless the hunk has none.
    pub fn replacement(&self, text: &str) -> String {
        let crlf =
            self.old_text.contains("\r\n") || self.old_text.is_empty() && self.new_text.contains("\r\n");
        let end = if crlf { "\r\n" } else { "\n" };
        let mut lines = match crlf {
            true => text.replace("\r\n", "\n").replace('\n', "\r\n"),
            false => text.to_owned(),
        };
        let is_ended = self.old_text.ends_with('\n') || self.new_text.ends_with('\n');
        if is_ended && !lines.is_empty() && !lines.ends_with('\n') {
            lines.push_str(end);
        }
        lines
    }
}

/// The changes that make the new text of the old one, in order. Changes between which only lines without letters and digits
/// stay are one: who takes half of such a block has nothing that fits together.
pub fn between(before: &str, after: &str) -> Vec<Hunk> {
    let (old, new) = (split(before), split(after));
    let mut changes: Vec<(Range<usize>, Range<usize>)> = Vec::new();
    for operation in operations(&old, &new).iter().filter(|operation| operation.tag() != DiffTag::Equal) {
        let (removed, added) = (operation.old_range(), operation.new_range());
        match changes.last_mut() {
            Some((last_removed, last_added)) if is_filler(&old[last_removed.end..removed.start]) => {
                last_removed.end = removed.end;
                last_added.end = added.end;
            }
            _ => changes.push((removed, added)),
        }
    }
    let hunk = |(removed, added): (Range<usize>, Range<usize>)| Hunk {
        old_text: old[removed.clone()].concat(),
        new_text: new[added.clone()].concat(),
        old: removed,
        new: added,
    };
    changes.into_iter().map(hunk).collect()
}

fn is_filler(lines: &[&str]) -> bool {
    lines.iter().all(|line| !line.chars().any(char::is_alphanumeric))
}

/// Applies hunks to the text that they are of; one without a choice is left.
pub fn apply(before: &str, hunks: &[Hunk], choices: &[HunkChoice<'_>]) -> AppliedHunks {
    let old = split(before);
    let (mut text, mut lines, mut at) = (String::new(), Vec::new(), 0);
    let mut count = 0;
    for (index, hunk) in hunks.iter().enumerate() {
        let kept = old.get(at..hunk.old.start).unwrap_or_default();
        text.extend(kept.iter().copied());
        count += kept.len();
        lines.push(count);
        let replacement;
        let chosen = match choices.get(index) {
            Some(HunkChoice::Take) => &hunk.new_text,
            Some(HunkChoice::Replace(with)) => {
                replacement = hunk.replacement(with);
                &replacement
            }
            Some(HunkChoice::Leave) | None => &hunk.old_text,
        };
        text.push_str(chosen);
        count += split(chosen).len();
        at = hunk.old.end;
    }
    text.extend(old.get(at..).unwrap_or_default().iter().copied());
    AppliedHunks { text, lines }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    /// Few different lines, so that texts have much in common; the last one may lack its end.
    fn text() -> impl Strategy<Value = String> {
        let line = prop::sample::select(vec!["a\n", "b\n", "c\r\n", "\n", "}\n", "dé\n"]);
        (prop::collection::vec(line, 0..14), any::<bool>()).prop_map(|(lines, ended)| {
            let text = lines.concat();
            if ended { text } else { text.trim_end_matches('\n').to_owned() }
        })
    }

    fn three() -> (String, String) {
        let before: String = (1..=12).map(|line| format!("line {line}\n")).collect();
        let after = before
            .replace("line 2\n", "second\n")
            .replace("line 6\n", "sixth\nand more\n")
            .replace("line 11\n", "");
        (before, after)
    }

    #[test]
    fn each_change_is_a_hunk() {
        let (before, after) = three();
        let hunks = between(&before, &after);
        let found: Vec<_> = hunks.iter().map(|hunk| (hunk.old.clone(), hunk.new.clone())).collect();
        assert_eq!(found, [(1..2, 1..2), (5..6, 5..7), (10..11, 11..11)]);
        assert_eq!(hunks[1].old_text, "line 6\n");
        assert_eq!(hunks[1].new_text, "sixth\nand more\n");
    }

    #[test]
    fn changes_around_a_blank_line_or_a_brace_belong_together() {
        assert_eq!(between("a\n\nb\n", "x\n\ny\n").len(), 1);
        assert_eq!(between("a\n}\nb\n", "x\n}\ny\n").len(), 1);
        assert_eq!(between("a\nk\nb\n", "x\nk\ny\n").len(), 2);
    }

    #[test]
    fn a_replacement_gets_the_line_ends_of_its_hunk() {
        let hunks = between("a\r\nb\r\n", "a\r\nc\r\n");
        assert_eq!(apply("a\r\nb\r\n", &hunks, &[HunkChoice::Replace("x\ny")]).text, "a\r\nx\r\ny\r\n");
        let hunks = between("a\nb", "a\nc");
        assert_eq!(apply("a\nb", &hunks, &[HunkChoice::Replace("x")]).text, "a\nx");
        assert_eq!(apply("a\nb", &hunks, &[HunkChoice::Replace("")]).text, "a\n");
    }

    #[test]
    fn the_lines_of_each_hunk_are_found_in_the_result() {
        let (before, after) = three();
        let hunks = between(&before, &after);
        let choices = [HunkChoice::Take, HunkChoice::Replace("6\n7\n8\n"), HunkChoice::Leave];
        let applied = apply(&before, &hunks, &choices);
        assert_eq!(applied.lines, [1, 5, 12]);
        let lines: Vec<&str> = applied.text.lines().collect();
        assert_eq!((lines[1], lines[5], lines[12]), ("second", "6", "line 11"));
    }

    proptest! {
        #[test]
        fn all_hunks_make_the_new_text_and_none_leave_the_old_one(before in text(), after in text()) {
            let hunks = between(&before, &after);
            prop_assert_eq!(apply(&before, &hunks, &vec![HunkChoice::Take; hunks.len()]).text, after);
            prop_assert_eq!(apply(&before, &hunks, &vec![HunkChoice::Leave; hunks.len()]).text, before.clone());
            prop_assert_eq!(apply(&before, &hunks, &[]).text, before);
        }

        #[test]
        fn a_subset_of_hunks_replaces_only_their_lines(
            before in text(), after in text(), taken in prop::collection::vec(any::<bool>(), 14),
        ) {
            let hunks = between(&before, &after);
            let choices: Vec<_> =
                taken.iter().map(|taken| if *taken { HunkChoice::Take } else { HunkChoice::Leave }).collect();
            let applied = apply(&before, &hunks, &choices);
            // Line by line, by another way: from the last hunk to the first.
            let mut lines: Vec<String> = split(&before).into_iter().map(str::to_owned).collect();
            for (hunk, _) in hunks.iter().zip(&taken).filter(|(_, taken)| **taken).rev() {
                prop_assert_eq!(lines[hunk.old.clone()].concat(), hunk.old_text.clone());
                lines.splice(hunk.old.clone(), [hunk.new_text.clone()]);
            }
            prop_assert_eq!(applied.text, lines.concat());
            prop_assert_eq!(applied.lines.len(), hunks.len());
        }

        #[test]
        fn hunks_are_in_order_and_apart(before in text(), after in text()) {
            let hunks = between(&before, &after);
            for pair in hunks.windows(2) {
                prop_assert!(pair[0].old.end < pair[1].old.start && pair[0].new.end < pair[1].new.start);
            }
            for hunk in &hunks {
                prop_assert_ne!(&hunk.old_text, &hunk.new_text);
            }
        }
    }
}
