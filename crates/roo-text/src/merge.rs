//! Three-way merges: what two sides made of one text, put together line by line.

use std::ops::Range;

use similar::DiffTag;

use super::diff::{operations, split};

/// The two sides of a text, merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merge {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// Lines on which both sides agree, or that one of them changed.
    Settled(String),
    /// Lines that both sides changed, each in its own way.
    Conflict { ours: String, theirs: String },
}

impl Part {
    fn settled(&self) -> Option<&str> {
        match self {
            Self::Settled(text) => Some(text),
            Self::Conflict { .. } => None,
        }
    }
}

/// Names of the two sides in conflict markers.
#[derive(Clone, Copy, Debug)]
pub struct SideNames<'a> {
    /// The side whose lines come first.
    pub ours: &'a str,
    /// The other side.
    pub theirs: &'a str,
}

impl Merge {
    /// Merges what two sides made of `base`. Changes that touch each other conflict, unless they are the same.
    pub fn new(base: &str, ours: &str, theirs: &str) -> Self {
        let lines = split(base);
        let (left, right) = (Changes::of(&lines, ours), Changes::of(&lines, theirs));
        let mut merge = Self { parts: Vec::new() };
        let (mut next_left, mut next_right, mut at) = (0, 0, 0);
        loop {
            let starts = [left.get(next_left), right.get(next_right)];
            let Some(start) = starts.iter().flatten().map(|change| change.old.start).min() else { break };
            // All changes of either side that touch each other, beginning with the first.
            let (from_left, from_right, mut end) = (next_left, next_right, start);
            loop {
                let touches = |change: &&Change<'_>| change.old.start <= end;
                if let Some(change) = left.get(next_left).filter(touches) {
                    end = end.max(change.old.end);
                    next_left += 1;
                } else if let Some(change) = right.get(next_right).filter(touches) {
                    end = end.max(change.old.end);
                    next_right += 1;
                } else {
                    break;
                }
            }
            merge.settle(lines.get(at..start).unwrap_or_default().concat());
            let region = start..end;
            let original = lines.get(region.clone()).unwrap_or_default().concat();
            let ours = left.region(from_left..next_left, &lines, &region);
            let theirs = right.region(from_right..next_right, &lines, &region);
            if ours == theirs || theirs == original {
                merge.settle(ours);
            } else if ours == original {
                merge.settle(theirs);
            } else {
                merge.parts.push(Part::Conflict { ours, theirs });
            }
            at = end;
        }
        merge.settle(lines.get(at..).unwrap_or_default().concat());
        merge
    }

    fn settle(&mut self, text: String) {
        match self.parts.last_mut() {
            Some(Part::Settled(settled)) => settled.push_str(&text),
            _ if text.is_empty() => {}
            _ => self.parts.push(Part::Settled(text)),
        }
    }

    /// Number of places where the sides conflict.
    pub fn conflicts(&self) -> usize {
        self.parts.iter().filter(|part| matches!(part, Part::Conflict { .. })).count()
    }

    /// The merged text; none where the sides conflict.
    pub fn text(&self) -> Option<String> {
        self.parts.iter().map(Part::settled).collect()
    }

    /// The merged text, with both sides between markers where they conflict.
    pub fn marked(&self, names: SideNames<'_>) -> String {
        let crlf = self.parts.iter().any(|part| match part {
            Part::Settled(text) => text.contains("\r\n"),
            Part::Conflict { ours, theirs } => ours.contains("\r\n") || theirs.contains("\r\n"),
        });
        let end = if crlf { "\r\n" } else { "\n" };
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Settled(settled) => text.push_str(settled),
                Part::Conflict { ours, theirs } => {
                    // Lines before it end; only the last line of a text may not.
                    for (head, side) in
                        [(format!("<<<<<<< {}", names.ours), ours), ("=======".to_owned(), theirs)]
                    {
                        text.push_str(&head);
                        text.push_str(end);
                        text.push_str(side);
                        if !side.is_empty() && !side.ends_with('\n') {
                            text.push_str(end);
                        }
                    }
                    text.push_str(&format!(">>>>>>> {}{end}", names.theirs));
                }
            }
        }
        text
    }
}

/// What one side changed, in the order of lines.
struct Changes<'a>(Vec<Change<'a>>);

struct Change<'a> {
    /// Lines of the base, counted from 0.
    old: Range<usize>,
    /// What stands there instead.
    new: Vec<&'a str>,
}

impl<'a> Changes<'a> {
    fn of(base: &[&str], side: &'a str) -> Self {
        let new = split(side);
        let changed = |tag| tag != DiffTag::Equal;
        let found = operations(base, &new).into_iter().filter(|operation| changed(operation.tag()));
        let change = |operation: similar::DiffOp| Change {
            old: operation.old_range(),
            new: new.get(operation.new_range()).unwrap_or_default().to_vec(),
        };
        Self(found.map(change).collect())
    }

    fn get(&self, index: usize) -> Option<&Change<'a>> {
        self.0.get(index)
    }

    /// The lines that this side has in the place of a region of the base, in which these of its changes are.
    fn region(&self, changes: Range<usize>, base: &[&str], region: &Range<usize>) -> String {
        let mut text = String::new();
        let mut at = region.start;
        for change in self.0.get(changes).unwrap_or_default() {
            text.extend(base.get(at..change.old.start).unwrap_or_default().iter().copied());
            text.extend(change.new.iter().copied());
            at = change.old.end;
        }
        text.extend(base.get(at..region.end).unwrap_or_default().iter().copied());
        text
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    fn text() -> impl Strategy<Value = String> {
        let line = prop::sample::select(vec!["a\n", "b\n", "c\r\n", "\n", "}\n", "dé\n"]);
        (prop::collection::vec(line, 0..12), any::<bool>()).prop_map(|(lines, ended)| {
            let text = lines.concat();
            if ended { text } else { text.trim_end_matches(['\r', '\n']).to_owned() }
        })
    }

    #[test]
    fn changes_apart_from_each_other_are_both_kept() {
        let merge = Merge::new("a\nb\nc\nd\ne\n", "A\nb\nc\nd\ne\n", "a\nb\nc\nd\nE\nf\n");
        assert_eq!((merge.text().as_deref(), merge.conflicts()), (Some("A\nb\nc\nd\nE\nf\n"), 0));
    }

    #[test]
    fn a_line_that_both_changed_is_a_conflict() {
        let merge = Merge::new("a\nb\nc\n", "a\nmine\nc\n", "a\ntheirs\nc\n");
        assert_eq!((merge.text(), merge.conflicts()), (None, 1));
        let names = SideNames { ours: "current", theirs: "restored" };
        let marked = "a\n<<<<<<< current\nmine\n=======\ntheirs\n>>>>>>> restored\nc\n";
        assert_eq!(merge.marked(names), marked);
    }

    #[test]
    fn the_same_change_of_both_sides_is_no_conflict() {
        assert_eq!(Merge::new("a\nb\n", "a\nx\n", "a\nx\n").text().as_deref(), Some("a\nx\n"));
        assert_eq!(Merge::new("a", "a\n", "a\n").text().as_deref(), Some("a\n"));
    }

    proptest! {
        #[test]
        fn a_side_without_changes_takes_those_of_the_other(base in text(), side in text()) {
            prop_assert_eq!(Merge::new(&base, &side, &base).text(), Some(side.clone()));
            prop_assert_eq!(Merge::new(&base, &base, &side).text(), Some(side.clone()));
            prop_assert_eq!(Merge::new(&base, &side, &side).text(), Some(side));
        }

        #[test]
        fn every_line_of_either_side_that_is_not_in_the_base_stays(
            base in text(), ours in text(), theirs in text(),
        ) {
            let merge = Merge::new(&base, &ours, &theirs);
            let marked = merge.marked(SideNames { ours: "o", theirs: "t" });
            for side in [&ours, &theirs] {
                for line in side.lines().filter(|line| base.lines().all(|other| other != *line)) {
                    prop_assert!(marked.lines().any(|found| found == line), "{line:?} in {marked:?}");
                }
            }
            prop_assert_eq!(merge.text().is_some(), merge.conflicts() == 0);
        }

        #[test]
        fn the_sides_are_alike(base in text(), ours in text(), theirs in text()) {
            let (merge, other) = (Merge::new(&base, &ours, &theirs), Merge::new(&base, &theirs, &ours));
            prop_assert_eq!(merge.text(), other.text());
            prop_assert_eq!(merge.conflicts(), other.conflicts());
        }
    }
}
