//! Blocks that are indented otherwise than the file: a new line gets its depth from the line that it stands for,
//! or the block is refused.

use pretty_assertions::assert_eq;
use proptest::sample::Index;

use super::*;

const TWO_DEPTHS: &str = "def f(x):\n    a = 1\n    if x:\n        go()\n    return a\n";

/// The lines of [`TWO_DEPTHS`] with `go()` too far to the left.
const FLATTENED: &str = "def f(x):\n    a = 1\n    if x:\n    go()\n    return a";

#[track_caller]
fn unclear(text: &str, diff: &str) -> String {
    match problem(text, diff) {
        BlockProblem::Indentation { unclear, .. } => unclear,
        other => panic!("{other}"),
    }
}

#[test]
fn a_new_line_has_the_depth_of_the_line_that_it_stands_for() {
    for (old, new) in [("a = 1", "a = 2"), ("return a", "return b"), ("a = 1", "something(else)")] {
        let replace = FLATTENED.replace(&format!("    {old}"), &format!("    {new}"));
        assert_eq!(applied(TWO_DEPTHS, &diff(FLATTENED, &replace)), TWO_DEPTHS.replace(old, new));
    }
    let replace = FLATTENED.replace("go()", "go(now)");
    assert_eq!(applied(TWO_DEPTHS, &diff(FLATTENED, &replace)), TWO_DEPTHS.replace("go()", "go(now)"));
    let replace = FLATTENED.replace("    a = 1", "    a = 1\n    b = 2");
    assert_eq!(
        applied(TWO_DEPTHS, &diff(FLATTENED, &replace)),
        TWO_DEPTHS.replace("a = 1", "a = 1\n    b = 2")
    );
}

#[test]
fn a_line_that_could_stand_at_two_depths_is_refused_with_the_lines_of_the_file() {
    for (old, new, line) in [
        ("    go()", "    go()\n    log()", "log()"),
        ("    go()", "    log()\n    go()", "log()"),
        ("    go()", "    something(else)", "something(else)"),
    ] {
        assert_eq!(unclear(TWO_DEPTHS, &diff(FLATTENED, &FLATTENED.replace(old, new))), line);
    }
    let message =
        problem(TWO_DEPTHS, &diff(FLATTENED, &FLATTENED.replace("go()", "log()\n    go()"))).to_string();
    assert!(
        message.contains("at line 1")
            && message.contains("`log()`")
            && message.contains("\n4 |         go()\n"),
        "{message}"
    );
}

#[test]
fn a_line_as_deep_as_a_misplaced_one_is_refused_where_the_rest_says_otherwise() {
    let text = "def f(x):\n    a()\n    b()\n    c()\n";
    let search = "def f(x):\n        a()\n    b()\n    c()";
    assert_eq!(unclear(text, &diff(search, &search.replace("    b()", "    b()\n        d()"))), "d()");
    let edited = search.replace("a()", "a(1)");
    assert_eq!(applied(text, &diff(search, &edited)), text.replace("a()", "a(1)"));
}

#[test]
fn another_unit_is_converted() {
    let text = "class A:\n    def f(self):\n        one()\n        two()\n";
    let search = "class A:\n  def f(self):\n    one()";
    let replace = "class A:\n  def f(self):\n    if self.x:\n      zero()\n    one()";
    assert_eq!(
        applied(text, &diff(search, replace)),
        text.replace("        one()", "        if self.x:\n            zero()\n        one()")
    );
    // One depth alone doesn't tell; what one level is in the block and in the file does.
    let replace = "  def f(self):\n    zero()";
    assert_eq!(
        applied(text, &diff("  def f(self):", replace)),
        text.replace("def f(self):", "def f(self):\n        zero()")
    );
    let tabs = "class A:\n\tdef f(self):\n\t\tone()\n\t\ttwo()\n";
    assert_eq!(
        applied(tabs, &diff("def f(self):", "def f(self):\n    zero()")),
        tabs.replace("def f(self):", "def f(self):\n\t\tzero()")
    );
}

#[test]
fn a_trimmed_first_line_says_nothing_of_the_others() {
    let text = "class A {\n    f() {\n        a();\n    }\n}\n";
    let search = "f() {\n        a();";
    assert_eq!(
        applied(text, &diff(search, "f() {\n        x();\n        a();")),
        text.replace("a();", "x();\n        a();")
    );
    // It may be trimmed as well, or stand where it is to be.
    assert_eq!(unclear(text, &diff(search, "before();\n    f() {\n        a();")), "before();");
}

/// A line of a generated file: its depth in levels and its text, which no other line has.
#[derive(Clone, Debug)]
struct GeneratedLine {
    depth: usize,
    text: String,
}

/// Fate of a line in an edit.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Stays,
    Edited,
    Goes,
    /// Another line of about this depth comes before it.
    Preceded(usize),
    /// Another line of about this depth comes in its place.
    Replaced(usize),
}

/// Indentation errors of a model, in both parts of a block alike.
#[derive(Clone, Copy, Debug)]
enum Damage {
    /// All lines are so many blanks less deep, as far as the least deep allows.
    Dedented(usize),
    Indented(usize),
    /// A level is so many blanks.
    Blanks(usize),
    Tabs,
    FirstLineTrimmed,
    /// One line, also in its new version, is at another level.
    OneLine(Index, usize),
    /// All are at the margin.
    Flat,
    /// Every line, also in its new version, is anywhere.
    Anywhere(u64),
}

impl Damage {
    /// Returns whether what is left tells the true result.
    fn can_be_told(self, search: &[PartLine], block: &[String], unit: &str) -> bool {
        let right: Vec<usize> = search.iter().map(|(_, line)| line.depth * unit.len()).collect();
        let wrong: Vec<usize> = block.iter().map(|line| depth(line)).collect();
        let mut pairs: Vec<_> = wrong.iter().zip(&right).collect();
        pairs.sort_unstable();
        pairs.dedup();
        match self {
            Self::Flat | Self::Anywhere(_) => false,
            // Where the searched lines are as the file has them, new ones are taken as they are written.
            _ if wrong == right => false,
            // A block that is nested as the file is may as well be shifted.
            Self::FirstLineTrimmed => search.len() > 1,
            Self::OneLine(_, 0) if wrong[0] != right[0] => search.len() > 1,
            Self::OneLine(..) => {
                pairs.windows(2).any(|pair| pair[0].0 == pair[1].0 || pair[0].1 >= pair[1].1)
            }
            _ => true,
        }
    }
}

fn depth(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

fn some_file() -> impl Strategy<Value = Vec<GeneratedLine>> {
    prop::collection::vec((0usize..4, any::<prop::sample::Index>()), 4..14).prop_map(|steps| {
        let mut deepest = 0usize;
        let line = |(number, (up, word)): (usize, (usize, Index))| {
            // One level deeper than the line before, or any less.
            let depth = if up == 0 { deepest } else { deepest.saturating_sub(up - 1) };
            deepest = depth + 1;
            let word = word.get(&["call", "let", "if", "for", "return", "yield", "match", "while"]);
            GeneratedLine { depth, text: format!("{word} name_{number}(value_{number}):") }
        };
        steps.into_iter().enumerate().map(line).collect()
    })
}

fn some_fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        4 => Just(Fate::Stays),
        2 => Just(Fate::Edited),
        1 => Just(Fate::Goes),
        2 => (0usize..3).prop_map(Fate::Preceded),
        1 => (0usize..3).prop_map(Fate::Replaced),
    ]
}

fn some_damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        1 => (1usize..9).prop_map(Damage::Dedented),
        1 => (1usize..9).prop_map(Damage::Indented),
        1 => prop::sample::select(vec![2, 3, 4, 8]).prop_map(Damage::Blanks),
        1 => Just(Damage::Tabs),
        1 => Just(Damage::FirstLineTrimmed),
        3 => (any::<Index>(), 0usize..5).prop_map(|(line, depth)| Damage::OneLine(line, depth)),
        1 => Just(Damage::Flat),
        3 => any::<u64>().prop_map(Damage::Anywhere),
    ]
}

/// A line of a part of a block: its number in the part of the file that is searched, if it is or was there.
type PartLine = (Option<usize>, GeneratedLine);

/// One part of a block, as a model writes it.
fn damaged(part: &[PartLine], damage: Damage, unit: &str, searched: usize, least: usize) -> Vec<String> {
    let true_depth = |line: &GeneratedLine| unit.repeat(line.depth);
    let blanks = |(index, (number, line)): (usize, &PartLine)| match damage {
        Damage::Dedented(by) => true_depth(line)[by.min(least * unit.len())..].to_owned(),
        Damage::Indented(by) => " ".repeat(by) + &true_depth(line),
        Damage::Blanks(count) => " ".repeat(line.depth * count),
        Damage::Tabs => "\t".repeat(line.depth),
        Damage::FirstLineTrimmed if index == 0 => String::new(),
        Damage::OneLine(which, depth) if *number == Some(which.index(searched)) => unit.repeat(depth),
        Damage::Flat => String::new(),
        Damage::Anywhere(seed) => {
            let number = number.map_or(line.text.len() + index, |number| number * 7) as u64;
            " ".repeat((seed.rotate_left((number % 64) as u32) % 13) as usize)
        }
        Damage::FirstLineTrimmed | Damage::OneLine(..) => true_depth(line),
    };
    let text = |line: (usize, &PartLine)| format!("{}{}", blanks(line), line.1.1.text);
    part.iter().enumerate().map(text).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    #[test]
    fn no_line_moves_and_no_new_one_contradicts_its_neighbours(
        file in some_file(),
        fates in prop::collection::vec(some_fate(), 14),
        begin in any::<Index>(),
        height in 1usize..8,
        unit in prop::sample::select(vec!["  ", "    ", "\t"]),
        damage in some_damage(),
    ) {
        let begin = begin.index(file.len());
        let end = (begin + height).min(file.len());
        let search: Vec<PartLine> =
            file[begin..end].iter().cloned().enumerate().map(|(number, line)| (Some(number), line)).collect();
        let mut replace: Vec<PartLine> = vec![];
        for (number, line) in search.iter().map(|(number, line)| (*number, line.clone())) {
            let fresh = |shift: usize| {
                let depth = (line.depth + shift).saturating_sub(1);
                (None, GeneratedLine { depth, text: format!("brand.new.{}", line.text.len() * 31 + shift) })
            };
            match fates[number.unwrap()] {
                Fate::Stays => replace.push((number, line)),
                Fate::Edited => replace.push((number, GeneratedLine { text: format!("{} # edited", line.text), ..line })),
                Fate::Goes => {}
                Fate::Preceded(shift) => replace.extend([fresh(shift), (number, line)]),
                Fate::Replaced(shift) => replace.push(fresh(shift)),
            }
        }
        let least = search.iter().chain(&replace).map(|(_, line)| line.depth).min().unwrap_or(0);
        let block = Block {
            line: 1,
            start_line: None,
            decoded: false,
            search: damaged(&search, damage, unit, search.len(), least),
            replace: damaged(&replace, damage, unit, search.len(), least),
        };
        if block.search == block.replace {
            return Ok(());
        }
        let whole = |lines: &[GeneratedLine]| -> String {
            lines.iter().map(|line| format!("{}{}\n", unit.repeat(line.depth), line.text)).collect()
        };
        let before = whole(&file);
        let Ok(result) = apply(&before, std::slice::from_ref(&block), Threshold::default()) else {
            let is_shifted = matches!(damage, Damage::Dedented(_) | Damage::Indented(_) | Damage::Tabs);
            prop_assert!(!is_shifted, "a block that is shifted as a whole was refused: {:#?}", block);
            return Ok(());
        };
        let of_edit: Vec<GeneratedLine> = replace.iter().map(|(_, line)| line.clone()).collect();
        let true_result = [&file[..begin], &of_edit, &file[end..]].concat();
        if damage.can_be_told(&search, &block.search, unit) {
            prop_assert_eq!(&result.text, &whole(&true_result), "{:#?}", block);
        }
        // A first line at the margin beside lines that are right was trimmed, and says nothing of them.
        let mut depths = block.search.iter().zip(&search).map(|(wrong, (_, line))| (depth(wrong), line.depth * unit.len()));
        let is_trimmed = depths.next().is_some_and(|(first, _)| first == 0) && depths.all(|(wrong, right)| wrong == right);
        let there: Vec<&str> = result.text.lines().skip(begin).take(replace.len()).collect();
        prop_assert_eq!(result.text.lines().count(), true_result.len());
        for (index, (number, line)) in replace.iter().enumerate() {
            let stays = |index: usize| {
                replace[index].0.is_some_and(|number| block.search[number] == block.replace[index])
            };
            if stays(index) {
                prop_assert_eq!(there[index], format!("{}{}", unit.repeat(line.depth), line.text));
            } else if number.is_none() && !is_trimmed {
                let neighbours = [index.checked_sub(1), Some(index + 1).filter(|next| *next < replace.len())];
                for neighbour in neighbours.into_iter().flatten().filter(|neighbour| stays(*neighbour)) {
                    let in_block = depth(&block.replace[index]).cmp(&depth(&block.replace[neighbour]));
                    let in_file = depth(there[index]).cmp(&depth(there[neighbour]));
                    prop_assert_eq!(in_block, in_file, "{:#?}\n{}", block, result.text);
                }
            }
        }
    }
}
