//! A text between two blocks: what it was, and what the blocks so far made of it.
//!
//! The lines of the text never move. What blocks wrote stands in regions over them, so that a block costs what it
//! searches and writes, however long the text is. Lines are found by an index of their words; what no index finds
//! is paid from a budget for all blocks of a diff.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;

use super::indentation::{IndentationStep, Pair};
use super::line::DocumentLine;
use super::replacement::{Destination, Unclear, new_lines};
use crate::lines::{self, Eol};
use crate::nearest::{self, Candidate, NormalLines};
use crate::work;

/// Total cost of the blocks of a diff beyond their own text, in comparisons of two lines.
pub(super) const BUDGET: usize = 100_000_000;
/// Cost of normalising a line of the text, and of comparing its similarity.
const NORMAL_COST: usize = 10;
const LIKENESS_COST: usize = 40;

/// The blocks of the diff so far have used up what may be spent on searching.
#[derive(Clone, Copy, Debug)]
pub(super) struct OverBudget;

/// A text between two blocks. Its last line has no end; after a final line end that line is empty. Places are line
/// numbers from 0, in the text as it is by now.
pub(super) struct Document<'a> {
    lines: Vec<DocumentLine<'a>>,
    normal: NormalLines,
    index: OnceCell<LineIndex>,
    /// Replacements of lines of the text, in their order. No region is without lines that it replaces.
    regions: Vec<Region<'a>>,
    edits: Vec<Edit>,
    /// The text as it is by now in normal form; none since a block changed it.
    current: RefCell<Option<NormalLines>>,
    left: Cell<usize>,
    /// Line ending of new lines where the lines around have none.
    eol: Eol,
    /// One level of its indentation.
    step: OnceCell<Option<IndentationStep>>,
}

/// Lines in the place of others.
struct Region<'a> {
    /// The lines of the original text.
    original: Range<usize>,
    /// Current start of its own lines.
    start: usize,
    lines: Vec<DocumentLine<'a>>,
    normal: NormalLines,
}

impl Region<'_> {
    fn end(&self) -> usize {
        self.start + self.lines.len()
    }
}

/// The lines of the original text that have the same words, and those that blocks wrote.
struct LineIndex {
    hasher: RandomState,
    /// Hashes of the words of the original lines, with their numbers; sorted.
    original: Vec<(u64, usize)>,
    /// For the hash of the words of a written line, an original line that its region replaces.
    written: HashMap<u64, Vec<usize>>,
}

impl LineIndex {
    fn new(normal: &NormalLines, regions: &[Region<'_>]) -> Self {
        work::add(normal.len());
        let hasher = RandomState::new();
        let mut original: Vec<(u64, usize)> =
            (0..normal.len()).map(|line| (hasher.hash_one(normal.line(line)), line)).collect();
        original.sort_unstable();
        let mut index = Self { hasher, original, written: HashMap::new() };
        for region in regions {
            index.add(&region.normal, region.original.start);
        }
        index
    }

    /// Adds lines of the region that replaces an original line.
    fn add(&mut self, written: &NormalLines, original: usize) {
        for line in 0..written.len() {
            let known = self.written.entry(self.hasher.hash_one(written.line(line))).or_default();
            if known.last() != Some(&original) {
                known.push(original);
            }
        }
    }

    fn original(&self, hash: u64) -> &[(u64, usize)] {
        let start = self.original.partition_point(|(other, _)| *other < hash);
        let rest = self.original.get(start..).unwrap_or_default();
        rest.get(..rest.partition_point(|(other, _)| *other == hash)).unwrap_or_default()
    }

    fn written(&self, hash: u64) -> &[usize] {
        self.written.get(&hash).map_or(&[], Vec::as_slice)
    }
}

/// Lines that a block replaced, counted from 0 in the text of that moment.
struct Edit {
    at: usize,
    removed: usize,
    added: usize,
}

impl Edit {
    fn shift(&self, line: usize) -> usize {
        match line {
            line if line >= self.at + self.removed => (line - self.removed).saturating_add(self.added),
            line => line.min(self.at + self.added),
        }
    }
}

impl<'a> Document<'a> {
    /// A text that no block has changed yet; `budget` is what all blocks may spend on searching it.
    pub(super) fn new(text: &'a str, budget: usize) -> Self {
        let mut all: Vec<_> = lines::lines(text).map(DocumentLine::from).collect();
        if all.last().is_none_or(|last| last.eol.is_some()) {
            all.push(DocumentLine { text: "".into(), eol: None, new: false });
        }
        Self {
            normal: NormalLines::new(all.iter().map(|line| line.text.as_ref())),
            lines: all,
            index: OnceCell::new(),
            regions: vec![],
            edits: vec![],
            current: RefCell::new(None),
            left: Cell::new(budget),
            eol: lines::dominant_eol(text),
            step: OnceCell::new(),
        }
    }

    pub(super) fn text(&self) -> String {
        self.between(0..self.len())
            .flat_map(|line| [line.text.as_ref(), line.eol.map_or("", Eol::as_str)])
            .collect()
    }

    pub(super) fn is_edited(&self) -> bool {
        !self.edits.is_empty()
    }

    fn len(&self) -> usize {
        match self.regions.last() {
            None => self.lines.len(),
            Some(last) => last.end() + self.lines.len() - last.original.end,
        }
    }

    /// The region that has a line or comes before it.
    fn region_before(&self, line: usize) -> Option<&Region<'a>> {
        self.regions
            .partition_point(|region| region.start <= line)
            .checked_sub(1)
            .map(|last| &self.regions[last])
    }

    pub(super) fn line(&self, line: usize) -> Option<&DocumentLine<'a>> {
        work::add(1);
        match self.region_before(line) {
            None => self.lines.get(line),
            Some(region) => match line.checked_sub(region.end()) {
                None => region.lines.get(line - region.start),
                Some(behind) => self.lines.get(region.original.end + behind),
            },
        }
    }

    fn between(&self, lines: Range<usize>) -> impl Iterator<Item = &DocumentLine<'a>> {
        lines.map_while(|line| self.line(line))
    }

    /// The words of a line, each with a space after it.
    fn words(&self, line: usize) -> &str {
        work::add(1);
        match self.region_before(line) {
            None => self.normal.line(line),
            Some(region) => match line.checked_sub(region.end()) {
                None => region.normal.line(line - region.start),
                Some(behind) => self.normal.line(region.original.end + behind),
            },
        }
    }

    /// Returns the current line of a line of the original text; none where a block replaced it.
    fn place_of(&self, original: usize) -> Option<usize> {
        let behind = self.regions.partition_point(|region| region.original.start <= original);
        match behind.checked_sub(1).map(|last| &self.regions[last]) {
            None => Some(original),
            Some(region) => original.checked_sub(region.original.end).map(|behind| region.end() + behind),
        }
    }

    /// The region that replaces a line of the original text.
    fn region_of(&self, original: usize) -> Option<&Region<'a>> {
        let behind = self.regions.partition_point(|region| region.original.start <= original);
        self.regions.get(behind.checked_sub(1)?).filter(|region| region.original.contains(&original))
    }

    fn index(&self) -> &LineIndex {
        self.index.get_or_init(|| LineIndex::new(&self.normal, &self.regions))
    }

    fn spend(&self, cost: usize) -> Result<(), OverBudget> {
        // What is dear may be refused while what is cheap still goes.
        self.left.set(self.left.get().checked_sub(cost).ok_or(OverBudget)?);
        work::add(cost);
        Ok(())
    }

    /// Returns whether lines are at a place byte for byte.
    pub(super) fn is_at(&self, place: usize, search: &[&str]) -> bool {
        let mut lines = self.at(place, search.len());
        search.iter().all(|searched| lines.next().is_some_and(|line| line.text == *searched))
    }

    /// Returns whether a block wrote one of the lines at a place.
    pub(super) fn is_new(&self, place: usize, height: usize) -> bool {
        self.at(place, height).any(|line| line.new)
    }

    /// The lines at a place.
    pub(super) fn at(&self, place: usize, height: usize) -> impl Iterator<Item = &DocumentLine<'a>> {
        self.between(place..place.saturating_add(height))
    }

    /// The indentation of searched lines and of the lines at a place.
    pub(super) fn pairs<'b>(&'b self, place: usize, search: &'b [&str]) -> impl Iterator<Item = Pair<'b>> {
        self.at(place, search.len())
            .zip(search)
            .filter_map(|(line, searched)| Pair::new(searched, &line.text))
    }

    /// Returns the places where lines with the same words follow each other, in ascending order.
    pub(super) fn places(&self, search: &[&str]) -> Result<Vec<usize>, OverBudget> {
        let wanted = NormalLines::new(search.iter().copied());
        let index = self.index();
        let hashes = (0..wanted.len()).filter(|line| !wanted.line(*line).is_empty()).map(|line| {
            let hash = index.hasher.hash_one(wanted.line(line));
            (index.original(hash).len() + index.written(hash).len(), line, hash)
        });
        // The line that stands at the fewest places.
        let Some((count, line, hash)) = hashes.min() else { return Ok(vec![]) };
        self.spend(count)?;
        let original = index.original(hash).iter().filter_map(|(_, original)| self.place_of(*original));
        let mut places: Vec<usize> = original.collect();
        for region in index.written(hash).iter().filter_map(|original| self.region_of(*original)) {
            self.spend(region.lines.len())?;
            let same = |at: &usize| region.normal.line(*at) == wanted.line(line);
            places.extend((0..region.lines.len()).filter(same).map(|at| region.start + at));
        }
        let first = places.into_iter().filter_map(|place| place.checked_sub(line));
        let end = self.len();
        let mut places: Vec<usize> = first
            .filter(|place| place + search.len() <= end)
            .filter(|place| (0..search.len()).all(|line| self.words(place + line) == wanted.line(line)))
            .collect();
        places.sort_unstable();
        places.dedup();
        Ok(places)
    }

    /// Returns the places where lines are equal, byte for byte.
    pub(super) fn exact(&self, search: &[&str]) -> Result<Vec<usize>, OverBudget> {
        let mut places = self.places(search)?;
        places.retain(|place| self.is_at(*place, search));
        Ok(places)
    }

    /// Returns whether the lines stood in the original text, byte for byte.
    pub(super) fn was_in_original(&self, search: &[&str]) -> Result<bool, OverBudget> {
        let index = self.index();
        let words = |line: &str| NormalLines::new(std::iter::once(line));
        let hashes =
            search.iter().enumerate().filter(|(_, line)| !line.trim().is_empty()).map(|(number, line)| {
                let hash = index.hasher.hash_one(words(line).line(0));
                (index.original(hash).len(), number, hash)
            });
        let Some((count, number, hash)) = hashes.min() else { return Ok(false) };
        self.spend(count)?;
        let mut places = index.original(hash).iter().filter_map(|(_, line)| line.checked_sub(number));
        Ok(places.any(|place| {
            let there = self.lines.get(place..place + search.len()).unwrap_or_default();
            there.len() == search.len() && there.iter().zip(search).all(|(line, text)| line.text == *text)
        }))
    }

    /// Returns the places where lines with the same words stand, also with other line ends between them.
    pub(super) fn loose_places(&self, search: &[&str]) -> Result<Vec<usize>, OverBudget> {
        let wanted = NormalLines::new(search.iter().copied());
        self.with_current(1, |current| current.occurrences(&wanted))
    }

    /// The places that are most like the searched lines.
    pub(super) fn similar_places(
        &self,
        search: &[&str],
        at_least: f64,
    ) -> Result<Vec<nearest::RankedPlace>, OverBudget> {
        let wanted = NormalLines::new(search.iter().copied());
        self.with_current(LIKENESS_COST, |current| nearest::closest(current, &wanted, at_least))
    }

    /// Returns the closest match of the searched lines, if any.
    pub(super) fn closest(
        &self,
        search: &[&str],
        expected: Option<usize>,
    ) -> Result<Option<Candidate>, OverBudget> {
        let wanted = NormalLines::new(search.iter().copied());
        let find = |current: &NormalLines| nearest::closest_to(current, &wanted, expected);
        let place = self.with_current(LIKENESS_COST, find)?;
        Ok(place.map(|place| {
            let shown: Vec<_> = self.at(place.line, search.len()).map(|line| line.text.as_ref()).collect();
            Candidate::new(place, &shown)
        }))
    }

    fn with_current<T>(&self, cost: usize, look: impl FnOnce(&NormalLines) -> T) -> Result<T, OverBudget> {
        self.spend(self.len().saturating_mul(cost))?;
        if self.regions.is_empty() {
            return Ok(look(&self.normal));
        }
        let mut current = self.current.borrow_mut();
        if current.is_none() {
            self.spend(self.len().saturating_mul(NORMAL_COST))?;
        }
        let lines = || self.between(0..self.len()).map(|line| line.text.as_ref());
        Ok(look(current.get_or_insert_with(|| NormalLines::new(lines()))))
    }

    /// Puts new lines in the place of the searched ones.
    pub(super) fn replace<'p>(
        &mut self,
        place: usize,
        search: &[&'p str],
        replace: &[&'p str],
        is_exact: bool,
    ) -> Result<(), Unclear<'p>> {
        let mut there = place..place + search.len();
        let mut replace = replace;
        // The empty line after a final line end is no line of the file: it stays.
        if there.end == self.len() && self.line(there.end - 1).is_some_and(|last| last.text.is_empty()) {
            there.end -= 1;
            let blank = |line: Option<&&str>| line.is_some_and(|line| line.trim().is_empty());
            if blank(search.last()) && blank(replace.last()) {
                replace = &replace[..replace.len() - 1];
            }
        }
        let step = || {
            let lines = || self.lines.iter().map(|line| line.text.as_ref());
            *self.step.get_or_init(|| IndentationStep::of_file(lines()))
        };
        let old: Vec<DocumentLine<'a>> = self.between(there.clone()).cloned().collect();
        let mut new = new_lines(&Destination { lines: &old, is_exact, step: &step }, search, replace)?;
        self.end_lines(&there, &mut new);
        self.write(there, new);
        Ok(())
    }

    /// Gives every line an end, as the one before it has, and none to the last line of the text.
    fn end_lines(&self, there: &Range<usize>, new: &mut Vec<DocumentLine<'a>>) {
        let eol = |line: usize| self.line(line).and_then(|line| line.eol);
        let before = there.start.checked_sub(1).and_then(eol);
        let mut around = before.or(eol(there.start)).unwrap_or(self.eol);
        for line in new.iter_mut() {
            around = *line.eol.get_or_insert(around);
        }
        if there.end == self.len() {
            match new.last_mut() {
                Some(last) => last.eol = None,
                None => new.push(DocumentLine { text: "".into(), eol: None, new: true }),
            }
        }
    }

    /// Puts lines in the place of others. Regions that these are in become one.
    fn write(&mut self, there: Range<usize>, new: Vec<DocumentLine<'a>>) {
        let is_before = |region: &Region<'_>| region.end() <= there.start && region.start < there.start;
        let first = self.regions.partition_point(is_before);
        let last = first + self.regions[first..].partition_point(|region| region.start < there.end);
        let (removed, added) = (there.len(), new.len());
        let mut original = self.original_at(first, there.start)..self.original_at(last, there.end);
        let normal = NormalLines::new(new.iter().map(|line| line.text.as_ref()));
        let mut touched = self.regions.drain(first..last);
        let region = match touched.next() {
            None => Region { original, start: there.start, lines: new, normal: normal.clone() },
            Some(mut region) => {
                let from = there.start.saturating_sub(region.start);
                let to = region.end().min(there.end) - region.start;
                let ends_behind = region.end() >= there.end;
                if region.start <= there.start {
                    original.start = region.original.start;
                }
                if ends_behind {
                    original.end = region.original.end;
                }
                region.start = region.start.min(there.start);
                region.normal.splice(from..to, new.iter().map(|line| line.text.as_ref()));
                region.lines.splice(from..to, new);
                if let Some(mut tail) = touched.next_back().filter(|tail| tail.end() >= there.end) {
                    original.end = tail.original.end;
                    tail.lines.drain(..there.end - tail.start);
                    let end = region.lines.len();
                    region.normal.splice(end..end, tail.lines.iter().map(|line| line.text.as_ref()));
                    region.lines.append(&mut tail.lines);
                }
                region.original = original;
                region
            }
        };
        drop(touched);
        if let Some(index) = self.index.get_mut() {
            index.add(&normal, region.original.start);
        }
        self.regions.insert(first, region);
        for later in &mut self.regions[first + 1..] {
            later.start = later.start - removed + added;
        }
        self.edits.push(Edit { at: there.start, removed, added });
        self.current.get_mut().take();
    }

    /// Returns the line of the original text for a line that stands in front of a region, or behind all.
    fn original_at(&self, region: usize, line: usize) -> usize {
        match region.checked_sub(1).map(|before| &self.regions[before]) {
            None => line,
            Some(before) => before.original.end + line.saturating_sub(before.end()),
        }
    }

    /// Number of edits.
    pub(super) fn edits(&self) -> usize {
        self.edits.len()
    }

    /// Returns the current line of a line of the original text, or its last place.
    pub(super) fn line_now(&self, line: usize) -> usize {
        self.edits.iter().fold(line, |line, edit| edit.shift(line))
    }

    /// Returns the first line of an edit, after the edits that followed it.
    pub(super) fn line_after(&self, edit: usize) -> usize {
        let at = self.edits.get(edit).map_or(0, |edit| edit.at);
        self.edits.iter().skip(edit + 1).fold(at, |line, edit| edit.shift(line))
    }
}
