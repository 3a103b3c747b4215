//! Indentation of the new lines of a block that is indented otherwise than the file.
//!
//! Models shift a whole block, write it in another unit, trim its first line, or misplace a line. The lines
//! that a block repeats tell how its depths translate. A new line gets a depth only where all that is known
//! about it agrees; where it doesn't, nothing is guessed.

use std::cmp::{Ordering, Reverse};
use std::collections::HashMap;
use std::ops::RangeInclusive;

/// The most pairs from which a translation of the whole block is derived. Bounds the work on hostile texts.
const MAX_BASES: usize = 16;
/// Number of lines of a text that are read to learn how deep its levels are.
const STEP_LINES: usize = 10_000;
/// The widest and the narrowest level of blanks.
const BLANKS: RangeInclusive<usize> = 2..=8;

/// The indentation of one line, in the block and in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pair<'a> {
    block: &'a str,
    file: &'a str,
}

impl<'a> Pair<'a> {
    /// The pair of a line of the block and the line of the file that it is; blank lines have none.
    pub(super) fn new(block: &'a str, file: &'a str) -> Option<Self> {
        let is_text = !block.trim().is_empty() && !file.trim().is_empty();
        is_text.then(|| Self { block: leading_blanks(block), file: leading_blanks(file) })
    }

    fn is_same_in_both(&self) -> bool {
        self.block == self.file
    }

    /// Returns whether a line of these two depths is deeper, less deep or as deep as this one in both.
    fn is_in_order_with(&self, block: &str, file: &str) -> bool {
        compare(block, self.block).is_none_or(|in_block| compare(file, self.file) == Some(in_block))
    }
}

/// Returns whether lines are nested in the file as in the block: equal depths are equal, deeper ones deeper.
pub(super) fn nested_alike<'a>(lines: impl Iterator<Item = Pair<'a>>) -> bool {
    let mut depths: Vec<_> = lines.map(|pair| (pair.block.len(), pair.file.len())).collect();
    depths.sort_unstable();
    depths.dedup();
    depths.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1)
}

/// Knowledge about a new line besides the block as a whole.
pub(super) struct Neighbours<'a> {
    /// True if no line comes before it in its part of the block.
    pub(super) is_first: bool,
    /// The searched line of which it is another version.
    pub(super) earlier: Option<Pair<'a>>,
    /// The line before it, the next one that stays, and those in whose place it stands.
    pub(super) beside: Vec<Pair<'a>>,
}

/// Translation of a block's indentation to that of its place.
pub(super) struct Indentation<'a> {
    /// The first line, where its indentation was cut off. It says nothing of the others.
    trimmed: Option<Pair<'a>>,
    /// Distinct, each with how many lines have it.
    pairs: Vec<(Pair<'a>, usize)>,
    unit: Option<Unit>,
    is_nested_alike: bool,
    /// Translation of most lines.
    dominant: Option<Translation<'a>>,
}

impl<'a> Indentation<'a> {
    /// Reads the translation from lines whose place is known. `steps` are what one level is in the block and in
    /// the file; they count where the lines themselves don't tell.
    pub(super) fn new(
        lines: impl Iterator<Item = Pair<'a>>,
        steps: Option<(IndentationStep, IndentationStep)>,
    ) -> Self {
        let mut lines: Vec<Pair<'a>> = lines.collect();
        let trimmed = is_first_trimmed(&lines).then(|| lines.remove(0));
        let mut pairs: Vec<(Pair<'a>, usize)> = Vec::new();
        for pair in lines {
            match pairs.iter_mut().find(|(known, _)| *known == pair) {
                Some((_, count)) => *count += 1,
                None => pairs.push((pair, 1)),
            }
        }
        let unit = Unit::from_pairs(&pairs, steps);
        let dominant = dominant(&pairs, unit);
        let is_nested_alike = nested_alike(pairs.iter().map(|(pair, _)| *pair));
        Self { trimmed, pairs, unit, is_nested_alike, dominant }
    }

    /// A line of the block as it is to stand in the file; none where its depth can't be told. Blank lines stay as
    /// they are.
    pub(super) fn translate(&self, line: &str, neighbours: &Neighbours<'_>) -> Option<String> {
        let depth = leading_blanks(line);
        let is_only_line = matches!(self.pairs.as_slice(), [(_, 1)]);
        let indentation = match neighbours.earlier {
            _ if line.trim().is_empty() => depth.to_owned(),
            Some(earlier) if earlier.block == depth => earlier.file.to_owned(),
            // The line may be trimmed as well, or be meant for the margin.
            _ if self.trimmed.is_some() && neighbours.is_first && depth.is_empty() => return None,
            _ if self.pairs.iter().all(|(pair, _)| pair.is_same_in_both()) => depth.to_owned(),
            // Either the line goes deeper, or the only searched line was trimmed and this one was not.
            Some(earlier) if earlier.file == depth && is_only_line => return None,
            _ => self.depth(depth, &neighbours.beside)?,
        };
        Some(indentation + &line[depth.len()..])
    }

    fn depth(&self, depth: &str, beside: &[Pair<'_>]) -> Option<String> {
        let mut as_deep = beside.iter().filter(|pair| pair.block == depth).map(|pair| pair.file);
        let indentation = match (as_deep.next(), as_deep.next()) {
            (Some(first), Some(second)) => {
                (first == second && as_deep.all(|other| other == first)).then(|| first.to_owned())
            }
            (Some(only), None) => self.known(depth).filter(|known| only == known),
            _ => self.known(depth),
        }?;
        let mut beside = beside.iter().filter(|pair| Some(**pair) != self.trimmed);
        beside.all(|pair| pair.is_in_order_with(depth, &indentation)).then_some(indentation)
    }

    /// The depth in the file by the block as a whole.
    fn known(&self, depth: &str) -> Option<String> {
        let mut as_deep = self.pairs.iter().map(|(pair, _)| pair).filter(|pair| pair.block == depth);
        match (&self.dominant, as_deep.next(), as_deep.next()) {
            (Some(dominant), None, _) => dominant.translate(depth),
            (Some(dominant), Some(first), second) => {
                let translated = dominant.translate(depth);
                match (translated, second) {
                    (None, None) => Some(first.file.to_owned()),
                    (translated, None) => translated.filter(|translated| first.file == *translated),
                    (translated, Some(_)) => translated,
                }
            }
            (None, Some(only), None) => {
                // Beside a line that stands as in the file, one that doesn't may be misplaced.
                let is_sure = self.is_nested_alike && (only.is_same_in_both() || !keeps_some(&self.pairs));
                is_sure.then(|| only.file.to_owned())
            }
            (None, Some(_), Some(_)) => None,
            (None, None, _) => self.between(depth),
        }
    }

    /// The depth on which the nearest shallower and the nearest deeper lines of the block agree.
    fn between(&self, depth: &str) -> Option<String> {
        let side = |wanted: Ordering| {
            let pairs = || self.pairs.iter().map(|(pair, _)| pair);
            let of_side = move |pair: &&Pair<'a>| compare(pair.block, depth) == Some(wanted);
            let lengths = pairs().filter(of_side).map(|pair| pair.block.len());
            let nearest = if wanted == Ordering::Less { lengths.max() } else { lengths.min() };
            pairs().filter(of_side).filter(move |pair| Some(pair.block.len()) == nearest)
        };
        let mut translated = side(Ordering::Less)
            .chain(side(Ordering::Greater))
            .map(|pair| Translation { block: pair.block, file: pair.file, unit: self.unit }.translate(depth));
        let first = translated.next()??;
        translated.all(|other| other.as_ref() == Some(&first)).then_some(first)
    }
}

/// Returns whether the first line was trimmed: it is at the margin, while all others stand as in the file.
fn is_first_trimmed(pairs: &[Pair<'_>]) -> bool {
    let Some((first, others)) = pairs.split_first() else { return false };
    first.block.is_empty()
        && !first.file.is_empty()
        && others.iter().all(Pair::is_same_in_both)
        && others.iter().any(|pair| !pair.block.is_empty())
}

/// Returns whether a line stands as in the file, and not only at the margin.
fn keeps_some(pairs: &[(Pair<'_>, usize)]) -> bool {
    pairs.iter().any(|(pair, _)| !pair.block.is_empty() && pair.is_same_in_both())
}

/// The translation that explains more than half of the lines; rather the one that changes nothing.
fn dominant<'a>(pairs: &[(Pair<'a>, usize)], unit: Option<Unit>) -> Option<Translation<'a>> {
    let total: usize = pairs.iter().map(|(_, count)| count).sum();
    let explained = |translation: &Translation<'_>| -> usize {
        let base = Pair { block: translation.block, file: translation.file };
        let fits = |(pair, _): &&(Pair<'_>, usize)| {
            base.is_in_order_with(pair.block, pair.file)
                && translation.translate(pair.block).is_some_and(|file| pair.file == file)
        };
        pairs.iter().filter(fits).map(|(_, count)| count).sum()
    };
    let with = |unit| {
        pairs.iter().take(MAX_BASES).map(move |(pair, _)| Translation {
            block: pair.block,
            file: pair.file,
            unit,
        })
    };
    let all = with(None).chain(with(unit).filter(|_| unit.is_some()));
    let rank = |translation: &Translation<'_>| {
        let keeps = translation.block == translation.file;
        (explained(translation), keeps, translation.unit.is_some(), Reverse(translation.block.len()))
    };
    all.max_by_key(rank).filter(|best| explained(best) * 2 > total)
}

/// Unit of one level: so many of a character.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct IndentationStep {
    character: char,
    count: usize,
}

impl IndentationStep {
    /// The step of a block: what all its depths have in common.
    pub(super) fn of_block<'b>(lines: impl Iterator<Item = &'b str>) -> Option<Self> {
        let (mut character, mut count, mut first) = (None, 0, None);
        for blanks in lines.filter(|line| !line.trim().is_empty()).map(leading_blanks) {
            let (first, character) = (*first.get_or_insert(blanks.len()), &mut character);
            if let Some(c) = blanks.chars().next() {
                let of_all = *character.get_or_insert(c);
                if blanks.chars().any(|c| c != of_all) {
                    return None;
                }
            }
            count = greatest_common_divisor(count, first.abs_diff(blanks.len()));
        }
        Some(Self { character: character?, count }).filter(|step| step.is_usual())
    }

    /// The step of a file: by what its first lines most often go deeper.
    pub(crate) fn of_file<'b>(lines: impl Iterator<Item = &'b str>) -> Option<Self> {
        let mut counts: HashMap<Self, usize> = HashMap::new();
        let mut before: Option<&str> = None;
        for blanks in lines.take(STEP_LINES).filter(|line| !line.trim().is_empty()).map(leading_blanks) {
            let deeper = before.and_then(|before| blanks.strip_prefix(before)).unwrap_or_default();
            let character = deeper.chars().next();
            if let Some(character) = character.filter(|c| deeper.chars().all(|other| other == *c)) {
                *counts.entry(Self { character, count: deeper.len() }).or_default() += 1;
            }
            before = Some(blanks);
        }
        counts.retain(|step, _| step.is_usual());
        counts
            .into_iter()
            .max_by_key(|(step, count)| (*count, step.character, step.count))
            .map(|(step, _)| step)
    }

    fn is_usual(self) -> bool {
        if self.character == '\t' { self.count == 1 } else { BLANKS.contains(&self.count) }
    }

    /// Returns whether so much indentation is a number of whole steps.
    fn divides(self, blanks: &str) -> bool {
        blanks.chars().all(|c| c == self.character) && blanks.len().is_multiple_of(self.count)
    }
}

fn greatest_common_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// A step of the block and the step of the file for which it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Unit {
    block: IndentationStep,
    file: IndentationStep,
    /// No two lines of the block confirm it.
    assumed: bool,
}

impl Unit {
    fn from_pairs(
        pairs: &[(Pair<'_>, usize)],
        steps: Option<(IndentationStep, IndentationStep)>,
    ) -> Option<Self> {
        let step = |text: &str, character| {
            let is_pure = !text.is_empty() && text.chars().all(|other| other == character);
            is_pure.then_some(IndentationStep { character, count: text.len() })
        };
        // Tabs for blanks, or blanks for tabs.
        for (pair, _) in pairs {
            for (from, to) in [(' ', '\t'), ('\t', ' ')] {
                if let (Some(block), Some(file)) = (step(pair.block, from), step(pair.file, to)) {
                    let (more, fewer) = (block.count.max(file.count), block.count.min(file.count));
                    let tabs = if from == '\t' { block.count } else { file.count };
                    if tabs == fewer && more.is_multiple_of(fewer) {
                        let of =
                            |step: IndentationStep| IndentationStep { count: step.count / fewer, ..step };
                        return Some(Self { block: of(block), file: of(file), assumed: false });
                    }
                }
            }
        }
        if keeps_some(pairs) {
            return None;
        }
        let mut depths: Vec<_> = pairs.iter().map(|(pair, _)| (pair.block, pair.file)).collect();
        depths.sort_unstable_by_key(|(block, file)| (block.len(), file.len()));
        let gaps = depths.windows(2).map(|pair| {
            let deeper = pair[1].0.strip_prefix(pair[0].0).zip(pair[1].1.strip_prefix(pair[0].1))?;
            let of = |text: &str| step(text, text.chars().next()?);
            of(deeper.0).zip(of(deeper.1))
        });
        let gaps: Vec<(IndentationStep, IndentationStep)> = gaps.collect::<Option<_>>()?;
        let Some(&(block, file)) = gaps.iter().min_by_key(|(block, _)| block.count) else {
            // All lines are equally deep: the steps must do.
            let (block, file) = steps.filter(|(block, file)| {
                block != file && pairs.iter().all(|(pair, _)| file.divides(pair.file))
            })?;
            return Some(Self { block, file, assumed: true });
        };
        let is_proportional = |(other_block, other_file): &(IndentationStep, IndentationStep)| {
            (other_block.character, other_file.character) == (block.character, file.character)
                && other_block.count * file.count == other_file.count * block.count
        };
        let unit = Self { block, file, assumed: false };
        (block != file && gaps.iter().all(is_proportional)).then_some(unit)
    }

    /// Converts additional depth in the block to the file's indentation.
    fn convert(&self, more: &str) -> Option<String> {
        let rest = more.trim_start_matches(self.block.character);
        let steps = (more.len() - rest.len()) / self.block.count;
        let rest = more.get(steps * self.block.count..)?;
        // Behind tabs, blanks align; anything else is no whole level.
        let aligns = self.block.character != self.file.character && rest.chars().all(|c| c == ' ');
        if !rest.is_empty() && !aligns {
            return None;
        }
        Some(self.file.character.to_string().repeat(steps * self.file.count) + rest)
    }
}

/// A translation of all depths by that of one line.
#[derive(Clone, Copy, Debug)]
struct Translation<'a> {
    block: &'a str,
    file: &'a str,
    unit: Option<Unit>,
}

impl Translation<'_> {
    fn translate(&self, depth: &str) -> Option<String> {
        let Some(unit) = self.unit else { return self.shift(depth, |more| Some(more.to_owned())) };
        let converted = self.shift(depth, |more| unit.convert(more))?;
        if !unit.assumed {
            return Some(converted);
        }
        // Two readings: the block has another unit, or is only shifted. The second is out where it leads to
        // depths that the file doesn't have.
        let shifted = self.shift(depth, |more| Some(more.to_owned()));
        let is_only = shifted.is_none_or(|shifted| shifted == converted || !unit.file.divides(&shifted));
        is_only.then_some(converted)
    }

    fn shift(&self, depth: &str, convert: impl Fn(&str) -> Option<String>) -> Option<String> {
        if let Some(more) = depth.strip_prefix(self.block) {
            return Some(format!("{}{}", self.file, convert(more)?));
        }
        // Less deep: take as much away in the file, but never more than there is.
        let less = convert(self.block.strip_prefix(depth)?)?;
        if less.len() >= self.file.len() {
            return Some(String::new());
        }
        self.file.strip_suffix(&*less).map(str::to_owned)
    }
}

/// Compares two depths; none where neither continues the other.
fn compare(a: &str, b: &str) -> Option<Ordering> {
    match a.len().cmp(&b.len()) {
        Ordering::Equal => (a == b).then_some(Ordering::Equal),
        Ordering::Greater => a.starts_with(b).then_some(Ordering::Greater),
        Ordering::Less => b.starts_with(a).then_some(Ordering::Less),
    }
}

/// The tabs and spaces before the text of a line.
fn leading_blanks(line: &str) -> &str {
    &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
}
