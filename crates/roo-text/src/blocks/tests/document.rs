//! A document is the lines that it was made from with other lines in the place of some.

use proptest::sample::Index;

use super::super::document::{BUDGET, Document};
use super::*;

fn occurrences(lines: &[String], search: &[&str]) -> Vec<usize> {
    let last = lines.len().saturating_sub(search.len());
    let is_at = |place: &usize| lines[*place..].iter().zip(search).all(|(line, wanted)| line == wanted);
    if search.len() > lines.len() { vec![] } else { (0..=last).filter(is_at).collect() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn lines_are_where_all_edits_so_far_put_them(
        body in prop::collection::vec("[a-c]", 1..12),
        edits in prop::collection::vec((any::<Index>(), 1usize..4, prop::collection::vec("[a-e]", 0..4)), 1..10),
        searched_first: bool,
    ) {
        let text = body.concat();
        let text: String = text.chars().flat_map(|line| [line, '\n']).collect();
        let mut document = Document::new(&text, BUDGET);
        // The empty line after the final line end is a line.
        let mut lines: Vec<String> = body.into_iter().chain([String::new()]).collect();
        if searched_first {
            document.exact(&["a"]).unwrap();
        }
        for (at, height, new) in edits {
            if lines.len() == 1 {
                break;
            }
            let at = at.index(lines.len() - 1);
            let there = at..(at + height).min(lines.len() - 1);
            let search: Vec<String> = lines[there.clone()].to_vec();
            let strs = |lines: &[String]| lines.iter().map(|line| line.clone().leak() as &str).collect::<Vec<_>>();
            document.replace(at, &strs(&search), &strs(&new), true).unwrap();
            lines.splice(there, new);
            prop_assert_eq!(document.text(), lines.join("\n"));
            for search in [&["a"][..], &["b"], &["d"], &["a", "b"], &["c", "a"], &["d", "a"], &["e", "e"]] {
                prop_assert_eq!(document.exact(search).unwrap(), occurrences(&lines, search), "{:?} {:?}", search, lines);
                prop_assert_eq!(document.loose_places(search).unwrap(), occurrences(&lines, search));
            }
        }
    }
}
