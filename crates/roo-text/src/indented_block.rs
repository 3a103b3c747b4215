//! The block around a line, by indentation: the function, class or branch that a line is in, whatever the language.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::lines::LineRange;

/// The widest step of indentation that is recognised, in columns.
const MAX_INDENT_COLUMNS: usize = 8;

/// Step of a text whose lines show none.
const USUAL: usize = 4;

/// The block that is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndentedBlock {
    /// Line that is in it, from 1.
    pub anchor: usize,
    /// Number of levels around the line's own to go out; 0 for all of them.
    pub levels: usize,
    /// True if other blocks of the outermost level belong to it, too.
    pub siblings: bool,
    /// True if comments and attributes before its first line belong to it.
    pub header: bool,
    /// The most lines.
    pub most: usize,
}

/// The line of a block isn't there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("There is no line {line}: the file has {count} lines.")]
pub struct NoSuchLine {
    pub line: usize,
    /// Number of lines.
    pub count: usize,
}

impl IndentedBlock {
    /// Returns the block's lines. It grows from its line in both directions, in turns, so that what is cut off is farthest.
    ///
    /// # Errors
    /// [`NoSuchLine`].
    pub fn find(self, lines: &[&str]) -> Result<LineRange, NoSuchLine> {
        let Self { anchor, levels, siblings, header, most } = self;
        if anchor == 0 || anchor > lines.len() {
            return Err(NoSuchLine { line: anchor, count: lines.len() });
        }
        let depths = depths(lines);
        let own = depths[anchor - 1];
        let outermost = if levels == 0 { 0 } else { own.saturating_sub(levels) };
        let (mut first, mut last) = (anchor - 1, anchor - 1);
        // A block has one line before it and one behind it on the level of both, such as `fn f() {` and `}`.
        let (mut begins, mut ends) = (own == outermost, false);
        let (mut up, mut down) = (true, true);
        while (up || down) && last - first + 1 < most {
            if up {
                up = first > 0 && depths[first - 1] >= outermost;
                if up && !siblings && depths[first - 1] == outermost && !is_blank(lines[first - 1]) {
                    up = !begins || (header && is_header(lines[first - 1]));
                    begins = true;
                }
                first -= usize::from(up);
            }
            if down && last - first + 1 < most {
                down = last + 1 < lines.len() && depths[last + 1] >= outermost;
                if down && !siblings && depths[last + 1] == outermost && !is_blank(lines[last + 1]) {
                    down = !ends && !begins_block(&depths, lines, last + 1);
                    ends = true;
                }
                last += usize::from(down);
            }
        }
        while first < anchor - 1 && is_blank(lines[first]) {
            first += 1;
        }
        while last > anchor - 1 && is_blank(lines[last]) {
            last -= 1;
        }
        Ok(LineRange { start: first + 1, end: last + 1 })
    }
}

fn is_blank(line: &str) -> bool {
    line.trim().is_empty()
}

/// Returns whether a line is a comment or an attribute, in the syntax of any common language.
fn is_header(line: &str) -> bool {
    ["//", "#", "/*", "*", "--", ";", "@", "\"\"\"", "'''", "<!--", "%"]
        .iter()
        .any(|begin| line.trim_start().starts_with(begin))
}

/// Returns whether a deeper line follows, so that this one is the beginning of the next block and not the end of the last one.
fn begins_block(depths: &[usize], lines: &[&str], line: usize) -> bool {
    let closes =
        lines[line].trim_start().starts_with(['}', ')', ']']) || lines[line].trim_start().starts_with("end");
    let next = (line + 1..lines.len()).find(|&next| !is_blank(lines[next]));
    !closes && next.is_some_and(|next| depths[next] > depths[line])
}

/// The levels of all lines; a blank one has that of the line before it.
fn depths(lines: &[&str]) -> Vec<usize> {
    let step = step(lines);
    let mut before = 0;
    let depth = |line: &&str| {
        if !is_blank(line) {
            before = columns(line) / step;
        }
        before
    };
    lines.iter().map(depth).collect()
}

/// Columns before the first character of a line.
fn columns(line: &str) -> usize {
    line.chars().take_while(|c| matches!(c, ' ' | '\t')).map(|c| if c == '\t' { USUAL } else { 1 }).sum()
}

/// By how many columns lines of this text go in, most often.
fn step(lines: &[&str]) -> usize {
    let mut steps: BTreeMap<usize, usize> = BTreeMap::new();
    let mut before = 0;
    for line in lines.iter().filter(|line| !is_blank(line) && !line.trim_start().starts_with('*')) {
        let now = columns(line);
        if now > before && now - before <= MAX_INDENT_COLUMNS {
            *steps.entry(now - before).or_default() += 1;
        }
        before = now;
    }
    let most = steps.into_iter().max_by_key(|&(step, count)| (count, std::cmp::Reverse(step)));
    most.map_or(USUAL, |(step, _)| step)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RUST: &str = "use a;\n\n/// Doc.\n#[test]\nfn first() {\n    if x {\n        deep();\n    }\n    after();\n}\n\nfn second() {\n    other();\n}\n";

    fn block(anchor: usize) -> IndentedBlock {
        IndentedBlock { anchor, levels: 0, siblings: false, header: true, most: 2000 }
    }

    fn found(text: &str, wanted: IndentedBlock) -> (usize, usize) {
        let lines: Vec<&str> = text.lines().collect();
        let range = wanted.find(&lines).unwrap();
        (range.start, range.end)
    }

    #[test]
    fn a_line_leads_to_the_block_around_it_with_what_stands_before_it() {
        assert_eq!(found(RUST, block(7)), (3, 10));
        assert_eq!(found(RUST, IndentedBlock { header: false, ..block(7) }), (5, 10));
        assert_eq!(found(RUST, IndentedBlock { levels: 1, ..block(7) }), (6, 8));
        assert_eq!(found(RUST, block(5)), (3, 10), "the block that begins there");
        assert_eq!(found(RUST, IndentedBlock { siblings: true, ..block(7) }), (1, 14));
        assert_eq!(found(RUST, block(13)), (12, 14));
    }

    #[test]
    fn steps_of_two_columns_and_tabs_count_as_levels() {
        let script = "class A {\n  b() {\n    if (c) {\n      d();\n    }\n  }\n\n  e() {}\n}\n";
        assert_eq!(found(script, IndentedBlock { levels: 2, ..block(4) }), (2, 6));
        let tabs = "func a() {\n\tif b {\n\t\tc()\n\t}\n}\n";
        assert_eq!(found(tabs, IndentedBlock { levels: 1, ..block(3) }), (2, 4));
        let python = "import a\n\n\ndef b():\n    c = 1\n    return c\n\n\ndef d():\n    pass\n";
        assert_eq!(found(python, block(5)), (4, 6));
    }

    #[test]
    fn a_long_block_is_cut_around_its_line() {
        let text = format!("fn a() {{\n{}}}\n", "    b();\n".repeat(100));
        assert_eq!(found(&text, IndentedBlock { most: 11, ..block(50) }), (45, 55));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            block(103).find(&lines).unwrap_err().to_string(),
            "There is no line 103: the file has 102 lines."
        );
        assert!(block(0).find(&lines).is_err() && block(1).find(&[]).is_err());
    }

    proptest! {
        #[test]
        fn a_block_holds_its_line_and_no_more_than_it_may(
            lines in prop::collection::vec("[ \t]{0,6}[a}#]{0,2}", 1..40),
            anchor in 1_usize..40,
            levels in 0_usize..4,
            siblings: bool,
            header: bool,
            most in 0_usize..20,
        ) {
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            let wanted = IndentedBlock { anchor, levels, siblings, header, most };
            match wanted.find(&lines) {
                Ok(LineRange { start, end }) => {
                    prop_assert!(1 <= start && start <= anchor && anchor <= end && end <= lines.len());
                    prop_assert!(end - start < most.max(1));
                }
                Err(_) => prop_assert!(anchor > lines.len()),
            }
        }
    }
}
