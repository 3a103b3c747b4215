//! Finding the place of each block and changing the text there.

use super::document::{BUDGET, Document, OverBudget};
use super::format::Block;
use super::indentation::nested_alike;
use super::readings::Parts;
use super::replacement::Unclear;
use crate::lines;
use crate::nearest::{self, Candidate};
use crate::render;

/// Required similarity of a searched text, from 0.5 to 1. At 1, the default, only blanks and typography may differ.
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

/// Leniency needed to find a block's place, from none to much.
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
        /// Similarity in percent.
        percent: u8,
    },
}

/// Interpretation of the lines of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// As they are written, or without the line numbers before all of them.
    AsWritten,
    /// Without line numbers or bars before some of them.
    WithoutPrefixes,
    /// With HTML entities decoded.
    Decoded,
}

impl Reading {
    fn notice(self) -> Option<&'static str> {
        match self {
            Self::AsWritten => None,
            Self::WithoutPrefixes => Some("line numbers and bars before its lines were left out"),
            Self::Decoded => Some(
                "its HTML entities were decoded (amp, lt, gt and so on), as the file has the characters; send plain \
                 characters",
            ),
        }
    }
}

/// A block that was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppliedBlock {
    /// Number of the block, from 1.
    pub block: usize,
    /// Leniency with which its place was found.
    pub rung: Rung,
    /// Interpretation of its lines.
    pub reading: Reading,
    /// First line in the new text, from 1.
    pub line: usize,
}

impl AppliedBlock {
    /// Returns a notice for the model about how the place was found.
    pub fn notice(&self) -> Option<String> {
        let overlooked = match self.rung {
            Rung::AtLine | Rung::Unique | Rung::TrailingBlanks => None,
            Rung::Nearest => Some("several places fit and this one is nearest to its start line".to_owned()),
            Rung::Indentation => Some("its indentation was fitted to the file's".to_owned()),
            Rung::Whitespace => Some("the white space of its SEARCH part differs from the file's".to_owned()),
            Rung::Similar { percent } => Some(format!("only {percent}% of its SEARCH part is in the file")),
        };
        let all: Vec<String> =
            overlooked.into_iter().chain(self.reading.notice().map(str::to_owned)).collect();
        if all.is_empty() {
            return None;
        }
        Some(format!("Block {} was applied at line {}: {}.", self.block, self.line, all.join("; ")))
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
    /// Number of the block, from 1.
    pub block: usize,
    /// The line of the diff on which it begins, from 1.
    pub line: usize,
    /// Reason.
    pub problem: BlockProblem,
}

/// Reasons why a block could not be applied. The text is for the model: it says what to do.
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
    /// It has line numbers or bars before some of the new lines and not before others.
    #[error("some lines of its REPLACE part begin with a line number and some don't. Remove the numbers.")]
    PartlyNumbered,
    /// Several places fit equally well.
    #[error(
        "its SEARCH part fits at lines {}. Name the right one with :start_line:, or search for more lines \
         around it.",
        lines::list(.lines)
    )]
    Ambiguous {
        /// First lines, from 1.
        lines: Vec<usize>,
    },
    /// The place of its lines is known, but not how far its new lines are to be indented there.
    #[error(
        "its SEARCH part is in the file at line {line}, but its lines are indented differently there, so it is \
         unclear how far `{unclear}` of its REPLACE part is to be indented. Write the block again with the \
         indentation of the file:\n{}",
        .numbered.trim_end_matches('\n')
    )]
    Indentation {
        /// First line, from 1.
        line: usize,
        /// The new line.
        unclear: String,
        /// The lines of the file with their numbers.
        numbered: String,
    },
    /// Another block of the same diff changed the lines.
    #[error("an earlier block of this diff already changed these lines. Make one block of the two.")]
    Overlap,
    /// Its replacement is there already, and its searched text is not.
    #[error(
        "its SEARCH part is not in the file, but its REPLACE part is, at line {line}: it seems to be done."
    )]
    AlreadyDone {
        /// Line, from 1.
        line: usize,
    },
    /// The blocks of the diff together took as much searching as they may.
    #[error(
        "it was not searched for any further, because too many blocks of this diff are not in the file as they are written. Send this one in another call, with its :start_line:."
    )]
    NotSearched,
    /// No place fits.
    #[error(
        "its SEARCH part is not in the file. {}\nCopy the lines exactly as they are; read the file again if \
         it may have changed.",
        nearest::described(.closest.as_ref())
    )]
    NotFound {
        /// Closest candidate.
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
/// A block costs what it searches and writes. What has to be looked for in the whole text is paid from one
/// budget for all blocks; when that is used up, the others fail with [`BlockProblem::NotSearched`].
///
/// # Errors
/// [`NothingApplied`] when no block has a place.
pub fn apply(text: &str, blocks: &[Block], threshold: Threshold) -> Result<Applied, NothingApplied> {
    apply_within(BUDGET, text, blocks, threshold)
}

/// [`apply`] with another budget for searching.
pub(super) fn apply_within(
    budget: usize,
    text: &str,
    blocks: &[Block],
    threshold: Threshold,
) -> Result<Applied, NothingApplied> {
    let (mark, body) = lines::split_bom(text);
    let mut document = Document::new(body, budget);
    let (mut fits, mut failed) = (Vec::new(), Vec::new());
    for (index, block) in blocks.iter().enumerate() {
        match apply_block(&mut document, block, threshold) {
            Ok(fit) => fits.push((index + 1, fit)),
            Err(problem) => failed.push(BlockFailure { block: index + 1, line: block.line, problem }),
        }
    }
    if fits.is_empty() {
        return Err(NothingApplied { failed });
    }
    let applied = |(block, Fit { rung, reading, edit })| AppliedBlock {
        block,
        rung,
        reading,
        line: document.line_after(edit) + 1,
    };
    let applied = fits.into_iter().map(applied).collect();
    Ok(Applied { text: format!("{mark}{}", document.text()), applied, failed })
}

/// Place of the searched lines.
struct BlockMatch {
    rung: Rung,
    /// The line, counted from 0, or the lines among which nothing chooses.
    place: Result<usize, Vec<usize>>,
}

/// Fit of a block.
struct Fit {
    rung: Rung,
    reading: Reading,
    /// The edit of the document.
    edit: usize,
}

impl From<OverBudget> for BlockProblem {
    fn from(_: OverBudget) -> Self {
        Self::NotSearched
    }
}

/// Applies one block.
fn apply_block(
    document: &mut Document<'_>,
    block: &Block,
    threshold: Threshold,
) -> Result<Fit, BlockProblem> {
    if block.search == block.replace {
        return Err(BlockProblem::Unchanged);
    }
    let parts = as_written(document, block)?;
    let (reading, parts, found) = match find(document, &parts, threshold)? {
        Some(found) => (Reading::AsWritten, parts, found),
        None => match find_otherwise(document, &parts)? {
            Some(found) => found,
            None => return Err(why_nowhere(document, &parts)?),
        },
    };
    let reading = if block.decoded { Reading::Decoded } else { reading };
    let BlockMatch { rung, place } = found;
    let place = place.map_err(|places| BlockProblem::Ambiguous {
        lines: places.into_iter().map(|place| place + 1).collect(),
    })?;
    let (search, replace) = (parts.search(), parts.replace());
    let edit = document.edits();
    let replaced = document.replace(place, &search, &replace, rung <= Rung::TrailingBlanks);
    replaced.map_err(|Unclear { line }| {
        let there: Vec<_> = document.at(place, search.len()).map(|line| line.text.as_ref()).collect();
        BlockProblem::Indentation {
            line: place + 1,
            unclear: render::one_line(line.trim(), 60),
            numbered: lines::number(&there.join("\n"), place + 1),
        }
    })?;
    Ok(Fit { rung, reading, edit })
}

/// The lines of a block without the numbers that a model copied with them, unless those numbers are in the text.
fn as_written<'p>(document: &Document<'_>, block: &'p Block) -> Result<Parts<'p>, BlockProblem> {
    let plain = Parts::plain(block);
    let parts = match plain.without_numbers() {
        Some(stripped) if document.exact(&plain.search())?.is_empty() => {
            if stripped.is_partly_numbered {
                return Err(BlockProblem::PartlyNumbered);
            }
            stripped.parts
        }
        _ => plain,
    };
    if parts.search == parts.replace {
        return Err(BlockProblem::Unchanged);
    }
    if parts.search.iter().all(|line| line.trim().is_empty()) {
        return Err(BlockProblem::EmptySearch);
    }
    Ok(parts)
}

/// Finds the lines of a block that are not in the text as they are written, in another reading.
fn find_otherwise<'p>(
    document: &Document<'_>,
    parts: &Parts<'p>,
) -> Result<Option<(Reading, Parts<'p>, BlockMatch)>, BlockProblem> {
    let is_text = |parts: &Parts<'_>| parts.search.iter().any(|line| !line.trim().is_empty());
    if let Some(stripped) = parts.without_prefixes().filter(|stripped| is_text(&stripped.parts))
        && let Some(found) = find(document, &stripped.parts, Threshold::default())?
    {
        if stripped.is_partly_numbered {
            return Err(BlockProblem::PartlyNumbered);
        }
        return Ok(Some((Reading::WithoutPrefixes, stripped.parts, found)));
    }
    if let Some(decoded) = parts.decoded().filter(is_text)
        && let Some(found) = find(document, &decoded, Threshold::default())?
    {
        return Ok(Some((Reading::Decoded, decoded, found)));
    }
    Ok(None)
}

/// Climbs down the ladder until lines fit.
fn find(
    document: &Document<'_>,
    parts: &Parts<'_>,
    threshold: Threshold,
) -> Result<Option<BlockMatch>, BlockProblem> {
    let search = parts.search();
    let expected = parts.start_line.map(|line| document.line_now(line.saturating_sub(1)));
    if let Some(place) = expected
        && document.is_at(place, &search)
        && !document.is_new(place, search.len())
    {
        return Ok(Some(BlockMatch { rung: Rung::AtLine, place: Ok(place) }));
    }
    let places = document.places(&search)?;
    let choose = |rung: Rung, fits: &dyn Fn(usize) -> bool| {
        let places = places.iter().copied().filter(|place| fits(*place));
        pick(document, places.collect(), search.len(), expected, rung)
    };
    if let Some(found) = choose(Rung::Unique, &|place| document.is_at(place, &search)) {
        return Ok(Some(found));
    }
    // What an earlier block took away is not looked for in places that only resemble it.
    if document.is_edited() && document.was_in_original(&search)? {
        return Err(BlockProblem::Overlap);
    }
    let same_but_for_ends = |place: usize| {
        let mut pairs = document.at(place, search.len()).zip(&search);
        pairs.all(|(line, searched)| line.text.trim_end() == searched.trim_end())
    };
    let found = choose(Rung::TrailingBlanks, &same_but_for_ends)
        .or_else(|| choose(Rung::Indentation, &|place| nested_alike(document.pairs(place, &search))));
    if found.is_some() {
        return Ok(found);
    }
    let loose = document.loose_places(&search)?;
    let found = pick(document, loose, search.len(), expected, Rung::Whitespace);
    if found.is_some() || threshold.0 >= 1.0 {
        return Ok(found);
    }
    let similar = document.similar_places(&search, threshold.0)?;
    let percent = similar.first().map_or(0, |place| place.percent());
    let fits = similar.iter().map(|place| place.line);
    let fits = fits.filter(|place| document.at(*place, search.len()).count() == search.len()).collect();
    Ok(pick(document, fits, search.len(), expected, Rung::Similar { percent }))
}

/// Chooses among places that fit equally well: lines that no block wrote come first, then what is nearest to the
/// expected line.
fn pick(
    document: &Document<'_>,
    places: Vec<usize>,
    height: usize,
    expected: Option<usize>,
    rung: Rung,
) -> Option<BlockMatch> {
    let (new, old): (Vec<_>, Vec<_>) = places.into_iter().partition(|place| document.is_new(*place, height));
    let places = if old.is_empty() { new } else { old };
    let distance = |place: &usize| expected.map_or(0, |expected| place.abs_diff(expected));
    let least = places.iter().map(distance).min()?;
    let mut nearest = places.iter().copied().filter(|place| distance(place) == least);
    let (Some(place), None) = (nearest.next(), nearest.next()) else {
        return Some(BlockMatch { rung, place: Err(places) });
    };
    let rung = match rung {
        Rung::Unique if expected == Some(place) => Rung::AtLine,
        Rung::Unique if places.len() > 1 => Rung::Nearest,
        rung => rung,
    };
    Some(BlockMatch { rung, place: Ok(place) })
}

/// Returns the reason why lines are nowhere.
fn why_nowhere(document: &Document<'_>, parts: &Parts<'_>) -> Result<BlockProblem, OverBudget> {
    let replace = parts.replace();
    let is_text = replace.iter().any(|line| line.chars().any(char::is_alphanumeric));
    Ok(match document.exact(&replace)?.as_slice() {
        [line] if is_text => BlockProblem::AlreadyDone { line: line + 1 },
        _ => {
            let expected = parts.start_line.map(|line| document.line_now(line.saturating_sub(1)));
            BlockProblem::NotFound { closest: document.closest(&parts.search(), expected)? }
        }
    })
}
