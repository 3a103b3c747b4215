//! The lines that a block puts in the place of those that it found.
//!
//! Which line of REPLACE is which line of SEARCH comes from a diff of the two, or from the marks of a patch. Lines in
//! both keep the bytes of the file; new ones are indented as their place is, by [`Indentation`].

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use rapidfuzz::distance::indel;
use similar::{Algorithm, DiffTag, capture_diff_slices};

use super::indentation::{Indentation, IndentationStep, Neighbours, Pair};
use super::line::DocumentLine;
use crate::nearest::NormalLines;

/// Minimum similarity of two lines for one to be another version of the other.
const ANOTHER_VERSION: f64 = 0.6;
/// The most lines that a new one is compared with for that, and how much of each. Bounds the work on hostile texts.
const MAX_COMPARED_LINES: usize = 32;
const COMPARED_CHARACTERS: usize = 200;

/// Destination of a block.
pub(crate) struct Destination<'p, 'a> {
    /// The lines there: the searched ones, but for an empty line after the end of the file.
    pub(crate) lines: &'p [DocumentLine<'a>],
    /// True if they are what the block says, byte for byte but for blanks at line ends.
    pub(crate) is_exact: bool,
    /// One level of the file's indentation, if it has such.
    pub(crate) step: &'p dyn Fn() -> Option<IndentationStep>,
}

/// It can't be told how far a new line is to be indented.
#[derive(Debug)]
pub(crate) struct Unclear<'a> {
    pub(crate) line: &'a str,
}

/// Origin of a line of REPLACE.
#[derive(Clone)]
pub(crate) enum Origin {
    /// The searched line of this number.
    Kept(usize),
    /// A line that stands in the place of these searched lines, and which of its kind.
    New { replaced: Range<usize>, index: usize },
}

/// The lines that go to a place. Those that no line of the file tells how to end have no end yet.
pub(crate) fn new_lines<'a, 'p>(
    place: &Destination<'_, 'a>,
    search: &[&'p str],
    replace: &[&'p str],
) -> Result<Vec<DocumentLine<'a>>, Unclear<'p>> {
    new_lines_of(place, search, replace, &origins(search, replace))
}

/// [`new_lines`] where the origin of each line of REPLACE is known.
pub(crate) fn new_lines_of<'a, 'p>(
    place: &Destination<'_, 'a>,
    search: &[&'p str],
    replace: &[&'p str],
    origins: &[Origin],
) -> Result<Vec<DocumentLine<'a>>, Unclear<'p>> {
    let pairs = known_pairs(place.lines, search);
    let fitting = (!place.is_exact).then(|| Fitting::new(place, search, replace, &pairs, origins));
    let mut new: Vec<DocumentLine<'a>> = Vec::with_capacity(replace.len());
    // The last line so far that says something.
    let mut before: Option<usize> = None;
    for (index, (line, origin)) in replace.iter().zip(origins).enumerate() {
        let kept = match origin {
            Origin::Kept(searched) => place.lines.get(*searched).filter(|_| pairs[*searched].is_same),
            Origin::New { .. } => None,
        };
        let written_before = before.and_then(|before| Pair::new(replace[before], &new[before].text));
        if !line.trim().is_empty() {
            before = Some(index);
        }
        if let Some(kept) = kept {
            new.push(kept.clone());
            continue;
        }
        let text = match &fitting {
            None => (*line).to_owned(),
            Some(fitting) => fitting.fit(index, line, written_before).ok_or(Unclear { line })?,
        };
        let stands_for = match origin {
            Origin::Kept(searched) => Some(*searched),
            Origin::New { replaced, index } => {
                Some(replaced.start + index).filter(|line| replaced.contains(line))
            }
        };
        let eol = stands_for.and_then(|line| place.lines.get(line)).and_then(|line| line.eol);
        new.push(DocumentLine { text: Cow::Owned(text), eol, new: true });
    }
    Ok(new)
}

fn origins(search: &[&str], replace: &[&str]) -> Vec<Origin> {
    let mut origins = Vec::with_capacity(replace.len());
    for operation in capture_diff_slices(Algorithm::Myers, search, replace) {
        let replaced = operation.old_range();
        for index in 0..operation.new_range().len() {
            origins.push(match operation.tag() {
                DiffTag::Equal => Origin::Kept(replaced.start + index),
                _ => Origin::New { replaced: replaced.clone(), index },
            });
        }
    }
    origins
}

/// A searched line beside the line of the file.
struct Known<'p> {
    /// True if they have the same words.
    is_same: bool,
    /// Their indentation, if so.
    pair: Option<Pair<'p>>,
}

fn known_pairs<'p>(there: &'p [DocumentLine<'_>], search: &[&'p str]) -> Vec<Known<'p>> {
    let wanted = NormalLines::new(search.iter().copied());
    let normal = NormalLines::new(there.iter().map(|line| line.text.as_ref()));
    let known = |(line, searched): (usize, &&'p str)| {
        let there = there.get(line);
        let is_same = there.is_some() && normal.line(line) == wanted.line(line);
        let pair = there.filter(|_| is_same).and_then(|there| Pair::new(searched, &there.text));
        Known { is_same, pair }
    };
    search.iter().enumerate().map(known).collect()
}

/// Indentation of the new lines of a block.
struct Fitting<'p> {
    indentation: Indentation<'p>,
    /// Of the searched lines.
    pairs: &'p [Known<'p>],
    search: &'p [&'p str],
    origins: &'p [Origin],
    /// Of each line of REPLACE, the pair of the next one that stays.
    next_kept: Vec<Option<Pair<'p>>>,
    /// Searched lines by their text; none where it stands at several depths of the file.
    by_text: HashMap<&'p str, Option<Pair<'p>>>,
}

impl<'p> Fitting<'p> {
    fn new(
        place: &'p Destination<'_, '_>,
        search: &'p [&'p str],
        replace: &'p [&'p str],
        pairs: &'p [Known<'p>],
        origins: &'p [Origin],
    ) -> Self {
        let mut known: Vec<Pair<'p>> = pairs.iter().filter_map(|known| known.pair).collect();
        if known.is_empty() {
            // No line fits as a whole: the first ones that say something must do.
            let text = |line: &&str| !line.trim().is_empty();
            let first = search.iter().copied().find(text);
            let there = place.lines.iter().map(|line| line.text.as_ref()).find(text);
            known.extend(first.zip(there).and_then(|(line, there)| Pair::new(line, there)));
        }
        let steps = IndentationStep::of_block(search.iter().chain(replace).copied()).zip((place.step)());
        let mut next_kept = vec![None; origins.len()];
        let mut next = None;
        for (slot, origin) in next_kept.iter_mut().zip(origins).rev() {
            *slot = next;
            if let Origin::Kept(searched) = origin {
                next = pairs[*searched].pair.or(next);
            }
        }
        let mut by_text: HashMap<&str, Option<Pair<'p>>> = HashMap::new();
        for (line, known) in search.iter().zip(pairs) {
            let pair = by_text.entry(line).or_insert(known.pair);
            *pair = pair.filter(|pair| Some(*pair) == known.pair);
        }
        let indentation = Indentation::new(known.into_iter(), steps);
        Self { indentation, pairs, search, origins, next_kept, by_text }
    }

    /// A line of REPLACE with the indentation of its place; `before` is the pair of the line before it.
    fn fit(&self, index: usize, line: &str, before: Option<Pair<'_>>) -> Option<String> {
        let replaced = match &self.origins[index] {
            Origin::Kept(searched) => *searched..searched + 1,
            Origin::New { replaced, .. } => replaced.clone(),
        };
        let moved = self.by_text.get(line).copied().flatten();
        let earlier = moved.or_else(|| self.another_version(line, index, replaced.clone()));
        let removed = self.pairs[replaced].iter().filter_map(|known| known.pair);
        let is_first = before.is_none();
        let beside = before.into_iter().chain(self.next_kept[index]).chain(removed).collect();
        self.indentation.translate(line, &Neighbours { is_first, earlier, beside })
    }

    /// The line among those that are replaced that is most like this one, if it is like it and it is known where
    /// that stands.
    fn another_version(&self, line: &str, index: usize, replaced: Range<usize>) -> Option<Pair<'p>> {
        let Origin::New { .. } = self.origins[index] else { return None };
        if replaced.len() > MAX_COMPARED_LINES {
            return None;
        }
        let text = |line: &'_ str| line.trim().chars().take(COMPARED_CHARACTERS).collect::<Vec<_>>();
        let line = text(line);
        let likeness =
            |searched: usize| indel::normalized_similarity(text(self.search[searched]), line.iter().copied());
        let all = replaced.map(|searched| (likeness(searched), searched));
        let (likeness, searched) = all.max_by(|a, b| a.0.total_cmp(&b.0))?;
        self.pairs[searched].pair.filter(|_| likeness >= ANOTHER_VERSION)
    }
}
