//! Three-way merges: what two sides made of one text, put together line by line.

use std::ops::Range;

use similar::{MergeRegion, MergeResolution, TextMerge};

/// The two sides of a text, merged.
pub struct Merge<'a>(TextMerge<'a, 'a, 'a, str>);

/// Names of the two sides in conflict markers.
#[derive(Clone, Copy, Debug)]
pub struct SideNames<'a> {
    /// The side whose lines come first.
    pub ours: &'a str,
    /// The other side.
    pub theirs: &'a str,
}

impl<'a> Merge<'a> {
    /// Merges what two sides made of `base`. Changes that touch each other conflict, unless they are the same.
    pub fn new(base: &'a str, ours: &'a str, theirs: &'a str) -> Self {
        Self(TextMerge::from_lines(base, ours, theirs))
    }

    /// The merged text; none where the sides conflict.
    pub fn text(&self) -> Option<String> {
        (!self.0.is_conflicted()).then(|| self.render(|_, _| {}))
    }

    /// The lines of `ours` in which the sides conflict, from 0. A range is empty where the other side alone has lines.
    pub fn conflicts(&self) -> Vec<Range<usize>> {
        let regions = self.0.regions().iter();
        let conflicts = regions.filter(|region| matches!(region.resolution(), MergeResolution::Conflict));
        conflicts.map(|region| region.ours_range()).collect()
    }

    /// The merged text, with both sides between markers where they conflict.
    pub fn marked(&self, names: SideNames<'_>) -> String {
        let lines = (0..self.0.ours_len()).filter_map(|line| self.0.ours_line(line));
        let crlf = lines.chain((0..self.0.theirs_len()).filter_map(|line| self.0.theirs_line(line)));
        let end = if crlf.into_iter().any(|line| line.ends_with("\r\n")) { "\r\n" } else { "\n" };
        self.render(|text, region| {
            // Lines before it end; only the last line of a text may not.
            let sides = [
                (format!("<<<<<<< {}", names.ours), self.ours(region.ours_range())),
                ("=======".to_owned(), self.theirs(region.theirs_range())),
            ];
            for (head, side) in sides {
                text.push_str(&head);
                text.push_str(end);
                text.push_str(&side);
                if !side.is_empty() && !side.ends_with(['\n', '\r']) {
                    text.push_str(end);
                }
            }
            text.push_str(&format!(">>>>>>> {}{end}", names.theirs));
        })
    }

    fn render(&self, conflict: impl Fn(&mut String, &MergeRegion)) -> String {
        let mut text = String::new();
        for region in self.0.regions() {
            match region.resolution() {
                MergeResolution::Conflict => conflict(&mut text, region),
                MergeResolution::Theirs => text.push_str(&self.theirs(region.theirs_range())),
                _ => text.push_str(&self.ours(region.ours_range())),
            }
        }
        text
    }

    fn ours(&self, lines: Range<usize>) -> String {
        lines.filter_map(|line| self.0.ours_line(line)).collect()
    }

    fn theirs(&self, lines: Range<usize>) -> String {
        lines.filter_map(|line| self.0.theirs_line(line)).collect()
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
        assert_eq!(merge.text().as_deref(), Some("A\nb\nc\nd\nE\nf\n"));
    }

    #[test]
    fn a_line_that_both_changed_is_a_conflict() {
        let merge = Merge::new("a\nb\nc\n", "a\nmine\nc\n", "a\ntheirs\nc\n");
        assert_eq!(merge.text(), None);
        assert_eq!(merge.conflicts(), std::slice::from_ref(&(1..2)));
        let names = SideNames { ours: "current", theirs: "restored" };
        let marked = "a\n<<<<<<< current\nmine\n=======\ntheirs\n>>>>>>> restored\nc\n";
        assert_eq!(merge.marked(names), marked);
    }

    #[test]
    fn markers_end_their_lines_as_the_text_does() {
        let merge = Merge::new("a\r\nb", "a\r\nmine", "a\r\ntheirs");
        let marked = "a\r\n<<<<<<< current\r\nmine\r\n=======\r\ntheirs\r\n>>>>>>> restored\r\n";
        assert_eq!(merge.marked(SideNames { ours: "current", theirs: "restored" }), marked);
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
            prop_assert_eq!(merge.text().is_none(), marked.contains("<<<<<<< o"));
        }

        #[test]
        fn the_sides_are_alike(base in text(), ours in text(), theirs in text()) {
            let (merge, other) = (Merge::new(&base, &ours, &theirs), Merge::new(&base, &theirs, &ours));
            prop_assert_eq!(merge.text(), other.text());
            let conflicts = |merge: &Merge<'_>| {
                let marked = merge.marked(SideNames { ours: "o", theirs: "t" });
                marked.matches("<<<<<<< o").count()
            };
            prop_assert_eq!(conflicts(&merge), conflicts(&other));
        }
    }
}
