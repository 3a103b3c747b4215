//! Cost of blocks, in lines that are looked at: not the number of blocks times the length of the text.

use super::super::apply::apply_within;
use super::super::document::BUDGET;
use super::*;
use crate::work;

const BLOCKS: usize = 100;

/// Lines of which each is another, and many have the same in common.
fn text(lines: usize) -> String {
    (0..lines)
        .map(|n| if n % 3 == 0 { "}\n".to_owned() } else { format!("    value_{n} = next();\n") })
        .collect()
}

/// Blocks all over a text, each of three lines.
fn blocks(text: &str, change: impl Fn(&mut Block)) -> Vec<Block> {
    let lines: Vec<&str> = text.lines().collect();
    let block = |number: usize| {
        let at = number * (lines.len() / BLOCKS);
        let search: Vec<String> = lines[at..at + 3].iter().map(|line| (*line).to_owned()).collect();
        let mut replace = search.clone();
        replace[1] = format!("    changed_{number}();");
        let mut block = Block { line: 1, start_line: Some(at + 1), decoded: false, search, replace };
        change(&mut block);
        block
    };
    (0..BLOCKS).map(block).collect()
}

/// The lines that are looked at, and how many blocks were applied.
fn cost(lines: usize, budget: usize, change: impl Fn(&mut Block)) -> (usize, usize) {
    let text = text(lines);
    let blocks = blocks(&text, change);
    let mut applied = 0;
    let work = work::of(|| {
        let result = apply_within(budget, &text, &blocks, Threshold::default());
        applied = result.map_or(0, |applied| applied.applied.len());
    });
    (work, applied)
}

#[track_caller]
fn assert_independent_of_the_length(change: impl Fn(&mut Block)) {
    let ((short, all), (long, all_too)) = (cost(1_000, BUDGET, &change), cost(20_000, BUDGET, &change));
    assert_eq!((all, all_too), (BLOCKS, BLOCKS));
    // Each line once for the index, and once for the result.
    assert!(long < short + 3 * 20_000, "{short} lines are looked at in 1,000, and {long} in 20,000");
}

#[test]
fn blocks_with_a_line_cost_what_they_change() {
    assert_independent_of_the_length(|_| {});
}

#[test]
fn blocks_without_a_line_are_found_by_an_index() {
    assert_independent_of_the_length(|block| block.start_line = None);
    assert_independent_of_the_length(|block| block.start_line = block.start_line.map(|line| line + 2));
}

#[test]
fn blocks_with_other_white_space_are_found_by_an_index() {
    assert_independent_of_the_length(|block| block.search[1].push(' '));
    assert_independent_of_the_length(|block| block.search[1] = block.search[1].replace('=', "  =  "));
    assert_independent_of_the_length(|block| {
        let Block { search, replace, .. } = block;
        search.iter_mut().chain(replace).for_each(|line| *line = line.replace("    ", "\t"));
    });
}

#[test]
fn what_has_no_place_is_looked_for_as_long_as_the_budget_lasts() {
    let misspelt = |block: &mut Block| block.search[1] = "something else entirely".to_owned();
    let budget = 1_000_000;
    assert!(cost(2_000, budget, misspelt).0 < budget + 100_000);
    let text = text(2_000);
    let mut blocks = blocks(&text, misspelt);
    let good = Block {
        line: 1,
        start_line: None,
        decoded: false,
        search: vec!["    value_1 = next();".into()],
        replace: vec![],
    };
    blocks.push(good);
    let result = apply_within(budget, &text, &blocks, Threshold::default()).unwrap();
    let problems: Vec<_> = result.failed.iter().map(|failure| &failure.problem).collect();
    assert!(matches!(problems[0], BlockProblem::NotFound { closest: Some(_) }), "{}", problems[0]);
    assert_eq!(problems.last(), Some(&&BlockProblem::NotSearched));
    assert_eq!(result.applied.len(), 1, "what an index finds is still found");
    assert!(problems.last().unwrap().to_string().contains("in another call"));
}
