//! Finding the place of each block and changing the text there.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::ops::Range;

use super::format::Block;
use super::indentation::{Pair, Step, nested_alike};
use super::replacement::{Place, new_lines};
use crate::text::lines::{self, Eol, Line};
use crate::text::nearest::{self, Candidate, NormalLines};
use crate::text::render;

/// How many lines of a file are looked at to learn how deep its levels are.
const STEP_LINES: usize = 10_000;

/// How much of a searched text must be there, from 0.5 to 1. At 1, the default, only blanks and
/// typography may differ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Threshold(f64);

impl Threshold {
    /// Takes the nearest value that makes sense.
    pub fn new(value: f64) -> Self {
        if value.is_nan() { Self::default() } else { Self(value.clamp(0.5, 1.0)) }
    }
}

impl Default for Threshold {
    fn default() -> Self {
        Self(1.0)
    }
}

/// What had to be overlooked to find a block's place, from nothing to much.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rung {
    /// Nothing: the lines are where the block says.
    AtLine,
    /// Nothing: the lines are there once.
    Unique,
    /// Several equal places; the block names a line, and this one is nearest.
    Nearest,
    /// Blanks at line ends.
    TrailingBlanks,
    /// Blanks and typography; the lines are nested alike.
    Indentation,
    /// Blanks, typography and where lines break.
    Whitespace,
    /// Other text too.
    Similar {
        /// How much is alike.
        percent: u8,
    },
}

/// A block that was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppliedBlock {
    /// Which one, from 1.
    pub block: usize,
    /// How its place was found.
    pub rung: Rung,
    /// Where its lines begin in the new text, from 1.
    pub line: usize,
}

impl AppliedBlock {
    /// What the model should know about how the place was found.
    pub fn notice(&self) -> Option<String> {
        let overlooked = match self.rung {
            Rung::AtLine | Rung::Unique | Rung::TrailingBlanks => return None,
            Rung::Nearest => "several places fit and this one is nearest to its start line".to_owned(),
            Rung::Indentation => "its indentation was fitted to the file's".to_owned(),
            Rung::Whitespace => "the white space of its SEARCH part differs from the file's".to_owned(),
            Rung::Similar { percent } => format!("only {percent}% of its SEARCH part is in the file"),
        };
        Some(format!("Block {} was applied at line {}: {overlooked}.", self.block, self.line))
    }
}

/// A text with at least one block applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The new text.
    pub text: String,
    /// The blocks in it.
    pub applied: Vec<AppliedBlock>,
    /// The blocks that are not.
    pub failed: Vec<BlockFailure>,
}

/// A block that could not be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Block {block} (line {line} of the diff): {problem}")]
pub struct BlockFailure {
    /// Which one, from 1.
    pub block: usize,
    /// The line of the diff on which it begins, from 1.
    pub line: usize,
    /// Why.
    pub problem: BlockProblem,
}

/// Why a block could not be applied. The text is for the model: it says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlockProblem {
    /// It searches for nothing, or for empty lines only.
    #[error(
        "its SEARCH part is empty. To add lines, repeat a line that is there in both parts, or insert them \
         by line number."
    )]
    EmptySearch,
    /// It changes nothing.
    #[error("its SEARCH and REPLACE parts are the same, so there is nothing to change.")]
    Unchanged,
    /// It has line numbers before some of the new lines and not before others.
    #[error("some lines of its REPLACE part begin with a line number and some don't. Leave the numbers out.")]
    PartlyNumbered,
    /// Several places fit equally well.
    #[error(
        "its SEARCH part fits at lines {}. Name the right one with :start_line:, or search for more lines \
         around it.",
        lines::list(.lines)
    )]
    Ambiguous {
        /// Where they begin, from 1.
        lines: Vec<usize>,
    },
    /// Where its lines are is known, but not how far its new lines are to be indented there.
    #[error(
        "its SEARCH part is in the file at line {line}, but its lines are indented otherwise there, and so it can't \
         be told how far `{unclear}` of its REPLACE part is to be indented. Write the block again with the \
         indentation of the file:\n{}",
        .numbered.trim_end_matches('\n')
    )]
    Indentation {
        /// Where its lines begin, from 1.
        line: usize,
        /// The new line.
        unclear: String,
        /// The lines of the file with their numbers.
        numbered: String,
    },
    /// Another block of the same diff changed the lines.
    #[error("an earlier block of this diff already changed these lines. Make one block of the two.")]
    Overlap,
    /// What it would put there is there already, and what it searches is not.
    #[error(
        "its SEARCH part is not in the file, but its REPLACE part is, at line {line}: it seems to be done."
    )]
    AlreadyDone {
        /// Where, from 1.
        line: usize,
    },
    /// No place fits.
    #[error(
        "its SEARCH part is not in the file. {}\nCopy the lines exactly as they are; read the file again if \
         it may have changed.",
        nearest::described(.closest.as_ref())
    )]
    NotFound {
        /// What comes closest.
        closest: Option<Candidate>,
    },
}

/// No block could be applied; the text stays as it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Nothing was changed.\n{}", .failed.iter().map(BlockFailure::to_string).collect::<Vec<_>>().join("\n"))]
pub struct NothingApplied {
    /// Every block.
    pub failed: Vec<BlockFailure>,
}

/// Applies the blocks in their order. Each is looked for in the text as the blocks before it left it,
/// first among the lines that they left alone. Lines that a block repeats in both parts keep their
/// bytes, new lines take the line ends of those that they stand for, and a text keeps its byte order
/// mark and its missing final line end.
///
/// # Errors
/// [`NothingApplied`] when no block has a place.
pub fn apply(text: &str, blocks: &[Block], threshold: Threshold) -> Result<Applied, NothingApplied> {
    let (mark, body) = lines::split_bom(text);
    let mut document = Document::new(body);
    let (mut applied, mut failed) = (Vec::new(), Vec::new());
    for (index, block) in blocks.iter().enumerate() {
        match document.apply(block, threshold) {
            Ok((rung, edit)) => applied.push((index + 1, rung, edit)),
            Err(problem) => failed.push(BlockFailure { block: index + 1, line: block.line, problem }),
        }
    }
    if applied.is_empty() {
        return Err(NothingApplied { failed });
    }
    let applied = applied
        .into_iter()
        .map(|(block, rung, edit)| AppliedBlock { block, rung, line: document.line_after(edit) + 1 })
        .collect();
    Ok(Applied { text: format!("{mark}{}", document.text()), applied, failed })
}

/// A text between two blocks. Its last line has no end; after a final line end that line is empty.
struct Document<'a> {
    original: &'a str,
    lines: Vec<DocumentLine<'a>>,
    normal: NormalLines,
    /// How new lines end where nothing around says it.
    eol: Eol,
    /// One level of its indentation, once that was looked up.
    step: OnceCell<Option<Step>>,
    edits: Vec<Edit>,
}

/// A line of the text as it is by now.
#[derive(Clone)]
pub(super) struct DocumentLine<'a> {
    pub(super) text: Cow<'a, str>,
    pub(super) eol: Option<Eol>,
    /// Whether a block of this diff wrote it.
    pub(super) new: bool,
}

/// Lines that a block replaced, counted from 0 in the text of that moment.
struct Edit {
    at: usize,
    removed: usize,
    added: usize,
}

/// Where the searched lines are.
struct Found {
    rung: Rung,
    /// The line, counted from 0, or the lines among which nothing chooses.
    place: Result<usize, Vec<usize>>,
}

impl<'a> Document<'a> {
    fn new(text: &'a str) -> Self {
        let line = |line: Line<'a>| DocumentLine { text: line.text.into(), eol: line.eol, new: false };
        let mut all: Vec<_> = lines::lines(text).map(line).collect();
        if all.last().is_none_or(|last| last.eol.is_some()) {
            all.push(DocumentLine { text: "".into(), eol: None, new: false });
        }
        let normal = NormalLines::new(all.iter().map(|line| line.text.as_ref()));
        Self {
            original: text,
            lines: all,
            normal,
            eol: lines::dominant_eol(text),
            step: OnceCell::new(),
            edits: vec![],
        }
    }

    fn text(&self) -> String {
        self.lines.iter().flat_map(|line| [line.text.as_ref(), line.eol.map_or("", Eol::as_str)]).collect()
    }

    /// Applies one block; gives how its place was found and the index of the edit.
    fn apply(&mut self, block: &'a Block, threshold: Threshold) -> Result<(Rung, usize), BlockProblem> {
        if block.search == block.replace {
            return Err(BlockProblem::Unchanged);
        }
        let parts = self.parts(block)?;
        if parts.search.iter().all(|line| line.trim().is_empty()) {
            return Err(BlockProblem::EmptySearch);
        }
        let expected = parts.start_line.map(|line| self.line_now(line.saturating_sub(1)));
        let found = self.find(&parts.search, expected, threshold);
        // What an earlier block took away is not looked for in places that only resemble it.
        let exact = found.as_ref().is_some_and(|found| found.rung <= Rung::Nearest);
        if !exact && !self.edits.is_empty() && !Document::new(self.original).exact(&parts.search).is_empty() {
            return Err(BlockProblem::Overlap);
        }
        let Found { rung, place } = found.ok_or_else(|| self.why_nowhere(&parts, expected))?;
        let place = place.map_err(|places| BlockProblem::Ambiguous {
            lines: places.into_iter().map(|place| place + 1).collect(),
        })?;
        self.replace(place, &parts, rung)?;
        Ok((rung, self.edits.len() - 1))
    }

    /// The lines of a block without the numbers that a model copied with them, unless those numbers
    /// are in the file.
    fn parts(&self, block: &'a Block) -> Result<Parts<'a>, BlockProblem> {
        let plain = Parts {
            start_line: block.start_line,
            search: block.search.iter().map(String::as_str).collect(),
            replace: block.replace.iter().map(String::as_str).collect(),
        };
        let Some((first, search)) = without_numbers(&plain.search) else { return Ok(plain) };
        if !self.exact(&plain.search).is_empty() {
            return Ok(plain);
        }
        let replace = match without_numbers(&plain.replace) {
            Some((_, replace)) => replace,
            None if plain.replace.iter().any(|line| lines::split_number(line).is_some()) => {
                return Err(BlockProblem::PartlyNumbered);
            }
            None => plain.replace,
        };
        if search == replace {
            return Err(BlockProblem::Unchanged);
        }
        Ok(Parts { start_line: plain.start_line.or(Some(first)), search, replace })
    }

    /// Climbs down the ladder until lines fit.
    fn find(&self, search: &[&str], expected: Option<usize>, threshold: Threshold) -> Option<Found> {
        let wanted = NormalLines::new(search.iter().copied());
        let places = self.normal.occurrences(&wanted);
        let pick = |rung: Rung, fits: &dyn Fn(usize) -> bool| {
            let places = places.iter().copied().filter(|place| fits(*place));
            self.pick(places.collect(), search.len(), expected, rung)
        };
        let same = |place: usize, equal: fn(&str, &str) -> bool| {
            self.lines[place..].iter().zip(search).all(|(line, searched)| equal(&line.text, searched))
        };
        let nested_alike = |place: usize| {
            (0..search.len()).all(|line| self.normal.line(place + line) == wanted.line(line))
                && nested_alike(self.pairs(place, search))
        };
        pick(Rung::Unique, &|place| same(place, |a, b| a == b))
            .or_else(|| pick(Rung::TrailingBlanks, &|place| same(place, |a, b| a.trim_end() == b.trim_end())))
            .or_else(|| pick(Rung::Indentation, &nested_alike))
            .or_else(|| pick(Rung::Whitespace, &|_| true))
            .or_else(|| {
                if threshold.0 >= 1.0 {
                    return None;
                }
                let places = nearest::closest(&self.normal, &wanted, threshold.0);
                let percent = places.first()?.percent();
                let fits = places.iter().map(|place| place.line);
                let fits = fits.filter(|place| place + search.len() <= self.lines.len()).collect();
                self.pick(fits, search.len(), expected, Rung::Similar { percent })
            })
    }

    /// Chooses among places that fit equally well: lines that no block wrote come first, then what is
    /// nearest to the expected line.
    fn pick(&self, places: Vec<usize>, height: usize, expected: Option<usize>, rung: Rung) -> Option<Found> {
        let is_new = |place: &usize| self.lines[*place..].iter().take(height).any(|line| line.new);
        let (new, old): (Vec<_>, Vec<_>) = places.into_iter().partition(is_new);
        let places = if old.is_empty() { new } else { old };
        let distance = |place: &usize| expected.map_or(0, |expected| place.abs_diff(expected));
        let least = places.iter().map(distance).min()?;
        let mut nearest = places.iter().copied().filter(|place| distance(place) == least);
        let (Some(place), None) = (nearest.next(), nearest.next()) else {
            return Some(Found { rung, place: Err(places) });
        };
        let rung = match rung {
            Rung::Unique if expected == Some(place) => Rung::AtLine,
            Rung::Unique if places.len() > 1 => Rung::Nearest,
            rung => rung,
        };
        Some(Found { rung, place: Ok(place) })
    }

    /// Where lines are, byte for byte.
    fn exact(&self, search: &[&str]) -> Vec<usize> {
        let mut places = self.normal.occurrences(&NormalLines::new(search.iter().copied()));
        places.retain(|place| self.lines[*place..].iter().zip(search).all(|(line, text)| line.text == *text));
        places
    }

    fn why_nowhere(&self, parts: &Parts<'_>, expected: Option<usize>) -> BlockProblem {
        let is_text = parts.replace.iter().any(|line| line.chars().any(char::is_alphanumeric));
        match self.exact(&parts.replace).as_slice() {
            [line] if is_text => BlockProblem::AlreadyDone { line: line + 1 },
            _ => {
                let all: Vec<_> = self.lines.iter().map(|line| line.text.as_ref()).collect();
                BlockProblem::NotFound { closest: nearest::candidate(&all, &parts.search, expected) }
            }
        }
    }

    /// The indentation of searched lines and of the lines from a place on.
    fn pairs<'b>(&'b self, place: usize, search: &'b [&str]) -> impl Iterator<Item = Pair<'b>> {
        self.lines[place..].iter().zip(search).filter_map(|(line, searched)| Pair::new(searched, &line.text))
    }

    /// Puts the new lines in the place of the searched ones.
    fn replace(&mut self, place: usize, parts: &Parts<'a>, rung: Rung) -> Result<(), BlockProblem> {
        let mut region = place..place + parts.search.len();
        let mut replace = parts.replace.as_slice();
        // The empty line after a final line end is no line of the file: it stays.
        if region.end == self.lines.len() && self.lines.last().is_some_and(|last| last.text.is_empty()) {
            region.end -= 1;
            let blank = |line: Option<&&str>| line.is_some_and(|line| line.trim().is_empty());
            if blank(parts.search.last()) && blank(replace.last()) {
                replace = &replace[..replace.len() - 1];
            }
        }
        let step = || {
            let lines = || self.lines.iter().take(STEP_LINES).map(|line| line.text.as_ref());
            *self.step.get_or_init(|| Step::of_file(lines()))
        };
        let there =
            Place { lines: &self.lines[region.clone()], is_exact: rung <= Rung::TrailingBlanks, step: &step };
        let mut new = new_lines(&there, &parts.search, replace).map_err(|unclear| {
            let shown: Vec<_> = self.lines[region.clone()].iter().map(|line| line.text.as_ref()).collect();
            BlockProblem::Indentation {
                line: region.start + 1,
                unclear: render::one_line(unclear.line.trim(), 60),
                numbered: lines::number(&shown.join("\n"), region.start + 1),
            }
        })?;
        self.end_lines(&region, &mut new);
        self.normal.splice(region.clone(), new.iter().map(|line| line.text.as_ref()));
        self.edits.push(Edit { at: region.start, removed: region.len(), added: new.len() });
        self.lines.splice(region, new);
        Ok(())
    }

    /// Gives every line an end, as the one before it has, and none to the last line of the text.
    fn end_lines(&self, region: &Range<usize>, new: &mut Vec<DocumentLine<'a>>) {
        let before = region.start.checked_sub(1).and_then(|line| self.lines[line].eol);
        let mut around =
            before.or(self.lines.get(region.start).and_then(|line| line.eol)).unwrap_or(self.eol);
        for line in new.iter_mut() {
            around = *line.eol.get_or_insert(around);
        }
        if region.end == self.lines.len() {
            match new.last_mut() {
                Some(last) => last.eol = None,
                None => new.push(DocumentLine { text: "".into(), eol: None, new: true }),
            }
        }
    }

    /// Where a line of the original text is now.
    fn line_now(&self, line: usize) -> usize {
        self.edits.iter().fold(line, |line, edit| edit.shift(line))
    }

    /// Where the lines of an edit begin, after the edits that followed it.
    fn line_after(&self, edit: usize) -> usize {
        let at = self.edits.get(edit).map_or(0, |edit| edit.at);
        self.edits.iter().skip(edit + 1).fold(at, |line, edit| edit.shift(line))
    }
}

impl Edit {
    fn shift(&self, line: usize) -> usize {
        match line {
            line if line >= self.at + self.removed => (line - self.removed).saturating_add(self.added),
            line => line.min(self.at + self.added),
        }
    }
}

/// What a block comes down to.
struct Parts<'a> {
    start_line: Option<usize>,
    search: Vec<&'a str>,
    replace: Vec<&'a str>,
}

/// The first number and the lines without numbers, if every line that isn't blank has one.
fn without_numbers<'a>(numbered: &[&'a str]) -> Option<(usize, Vec<&'a str>)> {
    let mut first = None;
    let mut plain = Vec::with_capacity(numbered.len());
    for line in numbered {
        if line.trim().is_empty() {
            plain.push(*line);
            continue;
        }
        let (number, text) = lines::split_number(line)?;
        first.get_or_insert(number);
        plain.push(text);
    }
    Some((first?, plain))
}
