//! Recorded changes as later ones of the same file leave them: where they are then, and what is around them.

use super::recorded::{CONTEXT, RecordedLines};
use roo_protocol::review::HunkKind;

/// A change, by lines, with some before and behind it.
struct Window {
    /// Number of the first line of the change.
    start: usize,
    before: Vec<String>,
    lines: Vec<String>,
    behind: Vec<String>,
    /// True if more lines may be before those.
    before_cut: bool,
    /// True if more lines may be behind those.
    behind_cut: bool,
}

fn split(text: &str) -> Vec<String> {
    text.split_inclusive('\n').map(str::to_owned).collect()
}

impl Window {
    fn new(change: &RecordedLines) -> Self {
        let (before, behind) = (split(&change.leading), split(&change.trailing));
        Self {
            start: change.start,
            // As many as are kept don't tell whether the file begins or ends there.
            before_cut: change.leading_cut || before.len() >= CONTEXT,
            behind_cut: change.trailing_cut || behind.len() >= CONTEXT,
            before,
            lines: split(&change.new_text),
            behind,
        }
    }

    /// The numbers of the first line of all, of the change's first one, of the first one behind it, and of the first one behind all.
    fn bounds(&self) -> Option<[usize; 4]> {
        let first = self.start.checked_sub(self.before.len())?;
        let end = self.start + self.lines.len();
        Some([first, self.start, end, end + self.behind.len()])
    }

    fn line(&self, number: usize) -> Option<&String> {
        let at = number.checked_sub(self.start.checked_sub(self.before.len())?)?;
        self.before.iter().chain(&self.lines).chain(&self.behind).nth(at)
    }

    /// Returns whether these lines are there at this number, as far as that place is seen.
    fn shows(&self, lines: &[String], from: usize) -> bool {
        let mut seen = lines.iter().enumerate().map(|(at, line)| (self.line(from + at), line));
        seen.all(|(seen, line)| seen.is_none_or(|seen| seen == line))
    }

    /// Takes note of a later change. Returns none where that replaced a part of this one, or doesn't fit what is known.
    fn follow(&mut self, later: &RecordedLines) -> Option<()> {
        let [first, begin, end, last] = self.bounds()?;
        let (old, new) = (split(&later.old_text), split(&later.new_text));
        let (from, to) = (later.start, later.start + old.len());
        if from > last {
            return Some(());
        }
        if to < first {
            self.start = (self.start + new.len()).checked_sub(old.len())?;
            return Some(());
        }
        if !self.shows(&old, from) {
            // What is around a change is from the end of its call, so another change of that call may be in there already.
            let is_there = !new.is_empty() && from >= end && self.shows(&new, from);
            return is_there.then_some(());
        }
        let other = Self::new(later);
        if to <= begin {
            let own: Vec<String> = (first..from).filter_map(|number| self.line(number).cloned()).collect();
            let rest: Vec<String> =
                (to.max(first)..begin).filter_map(|number| self.line(number).cloned()).collect();
            let (mut before, cut) = if own.len() > other.before.len() {
                (own, self.before_cut)
            } else {
                (other.before, other.before_cut)
            };
            before.extend(new.iter().cloned().chain(rest));
            self.before_cut = cut || before.len() > CONTEXT;
            self.before = before.split_off(before.len().saturating_sub(CONTEXT));
            self.start = (self.start + new.len()).checked_sub(old.len())?;
            return Some(());
        }
        if from >= end {
            let own: Vec<String> = (to..last).filter_map(|number| self.line(number).cloned()).collect();
            let mut behind: Vec<String> =
                (end..from).filter_map(|number| self.line(number).cloned()).collect();
            let (rest, cut) = if own.len() > other.behind.len() {
                (own, self.behind_cut)
            } else {
                (other.behind, other.behind_cut)
            };
            behind.extend(new.into_iter().chain(rest));
            self.behind_cut = cut || behind.len() > CONTEXT;
            behind.truncate(CONTEXT);
            self.behind = behind;
            return Some(());
        }
        None
    }
}

impl RecordedLines {
    /// This change as later ones of its file leave it, up to the first that replaced a part of it.
    pub fn followed_by<'a>(&self, later: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut window = Window::new(self);
        if self.kind == HunkKind::Edit {
            let _ = later.into_iter().try_for_each(|later| match later.kind {
                HunkKind::Edit => window.follow(later),
                _ => None,
            });
        }
        let Window { start, before, behind, before_cut, behind_cut, .. } = window;
        Self {
            start,
            leading: before.concat(),
            trailing: behind.concat(),
            leading_cut: before_cut,
            trailing_cut: behind_cut,
            ..self.clone()
        }
    }

    /// The text of a file that this change created, after later ones of it; none where they don't fit.
    pub fn created<'a>(&self, later: impl IntoIterator<Item = &'a Self>) -> Option<String> {
        let mut lines = split(&self.new_text);
        for change in later {
            let old = split(&change.old_text);
            let range = change.start..change.start + old.len();
            if change.kind != HunkKind::Edit || lines.get(range.clone()) != Some(old.as_slice()) {
                return None;
            }
            lines.splice(range, split(&change.new_text));
        }
        (self.kind == HunkKind::Create).then(|| lines.concat())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::file_details::FileDetails;
    use super::super::recorded::{RecordedFile, recorded};
    use super::*;
    use roo_sandbox::exec::redaction::{ExactValues, TextMask};
    use roo_trace::record::{Author, FileChange, Side};

    /// The changes by which a file gets these texts, one call each.
    fn calls(texts: &[&str]) -> Vec<Vec<RecordedLines>> {
        let mask = TextMask::new(true, ExactValues::default);
        let side = |text: &str| if text.is_empty() { Side::Absent } else { Side::text(text) };
        let call = |pair: &[&str]| {
            let change = FileChange {
                path: "a".into(),
                old_path: None,
                before: side(pair[0]),
                after: side(pair[1]),
                author: Author::Ai,
            };
            let files = recorded(&[change], &FileDetails::default(), &mask);
            files.into_iter().flat_map(|RecordedFile { changes, .. }| changes).collect()
        };
        texts.windows(2).map(call).collect()
    }

    fn found(calls: &[Vec<RecordedLines>], text: &str) -> Vec<Option<usize>> {
        let first = calls[0].iter();
        first.map(|change| change.followed_by(calls[1..].iter().flatten()).find(Some(text))).collect()
    }

    #[test]
    fn a_change_is_found_though_later_ones_touched_all_lines_around_it() {
        let calls = calls(&["a\nb\nc\n", "a\nB\nc\n", "A\nB\nc\n", "A\nB\nC\n"]);
        assert_eq!(found(&calls, "A\nB\nC\n"), [Some(1)]);
        assert_eq!(found(&calls, "mine\nA\nB\nC\nmine\n"), [Some(2)], "the user's lines are around it too");
        assert_eq!(found(&calls, "mine\nB\nmine\n"), [None]);
        let undone = calls[0][0].followed_by(calls[1..].iter().flatten()).undo(Some("A\nB\nC\n"));
        assert_eq!(undone, Some(Some("A\nb\nC\n".into())));
    }

    #[test]
    fn lines_that_were_removed_are_between_what_later_changes_put_there() {
        let calls = calls(&["a\nx\nb\n", "a\nb\n", "new\na\nb\n", "new\nA\nb\n", "new\nA\nB\nend\n"]);
        assert_eq!(found(&calls, "new\nA\nB\nend\n"), [Some(2)]);
        assert_eq!(found(&calls, "new\nA\nmine\nB\nend\n"), [None]);
    }

    #[test]
    fn what_a_later_change_replaced_is_gone() {
        let calls = calls(&["a\nb\nc\n", "a\nB\nc\n", "a\nX\nc\n"]);
        assert_eq!(found(&calls, "a\nX\nc\n"), [None]);
        assert_eq!(found(&calls, "a\nB\nc\n"), [Some(1)], "it is there again");
    }

    #[test]
    fn a_file_that_was_created_has_its_later_changes() {
        let calls = calls(&["", "a\nb\n", "a\nB\nc\n", "x\na\nB\n"]);
        let created = calls[0][0].created(calls[1..].iter().flatten());
        assert_eq!(created.as_deref(), Some("x\na\nB\n"));
        assert_eq!(calls[0][0].created(calls[2..].iter().flatten()), None, "a change is missing");
    }

    proptest! {
        /// Each line of the first text has a word of its own, so that what is left of a change can be told.
        #[test]
        fn changes_whose_lines_are_still_there_are_found_where_they_are(
            (first, second) in (proptest::collection::vec(0..3_u8, 6), proptest::collection::vec(0..4_u8, 6)),
        ) {
            // Per line: left, changed, or removed; and then, also with a line in front of it.
            let base: Vec<String> = (0..6).map(|at| format!("line{at}\n")).collect();
            let edit = |lines: &[String], acts: &[u8], mark: &str| -> Vec<String> {
                let one = |(line, act): (&String, &u8)| match act {
                    1 => vec![format!("{}{mark}\n", line.trim_end())],
                    2 => vec![],
                    3 => vec![format!("{mark}{line}"), line.clone()],
                    _ => vec![line.clone()],
                };
                lines.iter().zip(acts.iter().chain(std::iter::repeat(&0))).flat_map(one).collect()
            };
            let once = edit(&base, &first, "x");
            let twice = edit(&once, &second, "y");
            prop_assume!(!once.is_empty() && !twice.is_empty());
            let calls = calls(&[&base.concat(), &once.concat(), &twice.concat()]);
            let now = twice.concat();
            for (change, place) in calls[0].iter().zip(found(&calls, &now)) {
                let lines = split(&change.new_text);
                let there = twice.windows(lines.len().max(1)).position(|window| !lines.is_empty() && window == lines);
                match (place, there) {
                    (Some(place), Some(there)) => prop_assert_eq!(place, there),
                    (None, Some(there)) => prop_assert!(false, "{change:?} is in line {there} of {now:?}"),
                    // Lines that were removed, or were replaced since.
                    (_, None) => prop_assert!(lines.is_empty() || place.is_none()),
                }
            }
        }
    }
}
