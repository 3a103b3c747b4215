//! The hunks of a patch brought into the text of one file.
//!
//! All places are found in the text as it is before any of them changes. A line that stays keeps every byte
//! that it has, whatever the patch wrote in its place; a new one is indented as the lines around it are.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::HashMap;
use std::fmt;

use super::format::{Hunk, HunkLine, Mark};
use crate::blocks::{Destination, DocumentLine, IndentationStep, Origin, Unclear, new_lines_of};
use crate::lines::{self, Eol, Line};
use crate::{entities, nearest, render};

/// Maximum length of the searched text in a refusal, in characters.
const SHOWN: usize = 200;
/// Number of places a refusal names.
const NAMED: usize = 5;
/// Maximum length of the line that a refusal names, in characters.
const SHOWN_LINE: usize = 60;

/// A text with all hunks in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The new text.
    pub text: String,
    /// Hunks that fit only when something is overlooked, for the model.
    pub notices: Vec<String>,
}

/// A hunk that has no place. The text is for the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Hunk {hunk} (line {line} of the patch): {problem}")]
pub struct HunkError {
    /// Number of the hunk in its file, from 1.
    pub hunk: usize,
    /// Its first line in the patch, from 1.
    pub line: usize,
    /// Reason.
    pub problem: HunkProblem,
}

/// Reasons why a hunk has no place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HunkProblem {
    /// A line after `@@` is not in the file, or not where it may be.
    NoContext {
        /// The line.
        context: String,
    },
    /// The lines are not in the file.
    NotFound {
        /// Their beginning.
        wanted: String,
        /// Closest candidate.
        closest: Option<nearest::Candidate>,
    },
    /// The lines stand only above the hunk before.
    OutOfOrder {
        /// From 1.
        line: usize,
    },
    /// The lines are not the last ones.
    NotAtEnd {
        /// Their beginning.
        wanted: String,
    },
    /// There are several places.
    Ambiguous {
        /// From 1, the first ones.
        lines: Vec<usize>,
        /// Number of places.
        count: usize,
    },
    /// The place is known, but not how far a new line is to be indented there.
    Indentation {
        /// First line, from 1.
        line: usize,
        /// The new line.
        unclear: String,
        /// The lines of the file with their numbers.
        numbered: String,
    },
}

impl fmt::Display for HunkProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoContext { context } => write!(
                f,
                "no line `{context}` was found for this hunk. After `@@`, write a whole line exactly as it is in the file, or leave it out."
            ),
            Self::NotFound { wanted, closest } => write!(
                f,
                "its lines are not in the file:\n{wanted}\n{}\nCopy them exactly as they are; read the file \
                 again if it may have changed.",
                nearest::described(closest.as_ref())
            ),
            Self::OutOfOrder { line } => write!(
                f,
                "its lines are at line {line}, above those of the hunk before. Put the hunks into the order of \
                 the file."
            ),
            Self::NotAtEnd { wanted } => write!(
                f,
                "its lines are not the end of the file:\n{wanted}\nLeave `*** End of File` out, or read the \
                 file again."
            ),
            Self::Ambiguous { lines, count } => {
                let named: Vec<String> = lines.iter().map(usize::to_string).collect();
                let more = if *count > lines.len() { " and more" } else { "" };
                write!(
                    f,
                    "its lines fit in {count} places: at lines {}{more}. Add lines around the right one, or name \
                     a line above it after `@@`.",
                    named.join(", ")
                )
            }
            Self::Indentation { line, unclear, numbered } => write!(
                f,
                "its lines are at line {line} of the file, but are indented differently there, so it is unclear how \
                 far `{unclear}` is to be indented. Write the hunk again with the indentation of the file:\n{}",
                numbered.trim_end_matches('\n')
            ),
        }
    }
}

/// Brings the hunks into a text. The line ends, the byte order mark and whether the last line is ended stay
/// as they are.
///
/// # Errors
/// [`HunkError`] of the first hunk that has no place, or several.
pub fn apply(text: &str, hunks: &[Hunk]) -> Result<Applied, HunkError> {
    let (mark, body) = lines::split_bom(text);
    let file = SearchText::new(body);
    let mut places = Vec::new();
    let mut notices = Vec::new();
    let mut below = 0;
    let decoded: Vec<Option<Hunk>> = hunks.iter().map(decoded).collect();
    for (index, hunk) in hunks.iter().enumerate() {
        let error = |problem| HunkError { hunk: index + 1, line: hunk.line, problem };
        let place = match file.find(hunk, below) {
            Err(
                problem @ (HunkProblem::NotFound { .. }
                | HunkProblem::NotAtEnd { .. }
                | HunkProblem::NoContext { .. }),
            ) => {
                let place = decoded[index].as_ref().and_then(|hunk| file.find(hunk, below).ok());
                let place = place.ok_or_else(|| error(problem))?;
                notices.push(format!(
                    "the HTML entities of hunk {} were decoded (amp, lt, gt and so on), as the file has the \
                     characters; send plain characters",
                    index + 1
                ));
                place
            }
            found => found.map_err(error)?,
        };
        let inserted = file.inserted(&place).map_err(|Unclear { line }| {
            let unclear = render::one_line(line.trim(), SHOWN_LINE);
            error(HunkProblem::Indentation {
                line: place.first + 1,
                unclear,
                numbered: file.numbered(&place),
            })
        })?;
        if let Some(overlooked) = place.level.overlooks() {
            let new = if inserted.iter().any(|line| matches!(line, Cow::Owned(_))) {
                ", and new ones were indented like them"
            } else {
                ""
            };
            notices.push(format!(
                "hunk {} fits at line {} only if {overlooked} are ignored; unchanged lines were left as they were{new}",
                index + 1,
                place.first + 1
            ));
        }
        // What goes to the end of the file holds up nothing.
        if !(place.old.is_empty() && hunk.contexts.is_empty()) {
            below = below.max(place.first + place.old.len());
        }
        places.push((place, inserted));
    }
    // Those at the end of the file may stand between others.
    places.sort_by_key(|(place, _)| place.first);
    let mut new = Rebuilt { lines: vec![], eol: lines::dominant_eol(body) };
    let mut done = 0;
    for (place, inserted) in &places {
        new.lines.extend_from_slice(&file.lines[done..place.first]);
        done = place.first;
        let mut inserted = inserted.iter();
        for line in place.lines {
            match line.mark {
                Mark::Insert => {
                    new.lines.extend(inserted.next().map(|text| Line { text, eol: Some(new.eol) }))
                }
                Mark::Keep => new.lines.push(file.lines[done]),
                Mark::Remove => {}
            }
            done += usize::from(line.mark != Mark::Insert);
        }
    }
    new.lines.extend_from_slice(&file.lines[done..]);
    let ended = file.lines.last().is_none_or(|line| line.eol.is_some());
    Ok(Applied { text: new.text(mark, ended, text.len()), notices })
}

/// A hunk with its HTML entities decoded; none where what it looks for has none.
fn decoded(hunk: &Hunk) -> Option<Hunk> {
    let decode = |text: &String| entities::decode(text).unwrap_or_else(|| text.clone());
    let contexts: Vec<String> = hunk.contexts.iter().map(decode).collect();
    let line = |line: &HunkLine| HunkLine { mark: line.mark, text: decode(&line.text) };
    let lines: Vec<HunkLine> = hunk.lines.iter().map(line).collect();
    let is_other = |(new, old): (&HunkLine, &HunkLine)| old.mark != Mark::Insert && new.text != old.text;
    let changes = contexts != hunk.contexts || lines.iter().zip(&hunk.lines).any(is_other);
    changes.then(|| Hunk { contexts, lines, ..hunk.clone() })
}

/// The new lines.
struct Rebuilt<'a> {
    lines: Vec<Line<'a>>,
    eol: Eol,
}

impl Rebuilt<'_> {
    fn text(&self, mark: &str, ended: bool, size: usize) -> String {
        let mut text = String::with_capacity(size + 1024);
        text.push_str(mark);
        for (index, line) in self.lines.iter().enumerate() {
            text.push_str(line.text);
            let is_last = index + 1 == self.lines.len();
            if !is_last || ended {
                text.push_str(line.eol.unwrap_or(self.eol).as_str());
            }
        }
        text
    }
}

/// Exactness of a match, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Exact,
    TrimEnd,
    Trim,
    Normal,
}

impl Level {
    const ALL: [Self; 4] = [Self::Exact, Self::TrimEnd, Self::Trim, Self::Normal];

    fn overlooks(self) -> Option<&'static str> {
        match self {
            Self::Exact => None,
            Self::TrimEnd => Some("trailing blanks"),
            Self::Trim => Some("indentation and trailing blanks"),
            Self::Normal => Some("leading and trailing blanks and the style of quotes and dashes"),
        }
    }

    fn has_indentation_of_file(self) -> bool {
        matches!(self, Self::Exact | Self::TrimEnd)
    }

    fn normalized(self, line: &str) -> Cow<'_, str> {
        match self {
            Self::Exact => line.into(),
            Self::TrimEnd => line.trim_end().into(),
            Self::Trim => line.trim().into(),
            Self::Normal => match line.is_ascii() {
                true => line.trim().into(),
                false => line.trim().chars().map(normal).collect::<String>().into(),
            },
        }
    }
}

/// The plain form of typography.
fn normal(c: char) -> char {
    match c {
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        '\u{2018}'..='\u{201b}' => '\'',
        '\u{201c}'..='\u{201f}' => '"',
        '\u{a0}' | '\u{2002}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => ' ',
        other => other,
    }
}

/// Destination of a hunk.
struct HunkPlace<'h> {
    /// Before which of the file's lines, from 0.
    first: usize,
    /// The lines that it found there.
    old: Vec<&'h str>,
    /// All of its lines that count.
    lines: &'h [HunkLine],
    level: Level,
}

/// A text to be searched.
struct SearchText<'a> {
    lines: Vec<Line<'a>>,
    /// By level.
    indexes: [OnceCell<LineNumbers<'a>>; 4],
    /// One level of its indentation.
    step: OnceCell<Option<IndentationStep>>,
}

/// The lines as numbers, so that any search is linear.
struct LineNumbers<'a> {
    numbers: Vec<u32>,
    known: HashMap<Cow<'a, str>, u32>,
}

impl<'a> SearchText<'a> {
    fn new(body: &'a str) -> Self {
        Self { lines: lines::lines(body).collect(), indexes: Default::default(), step: OnceCell::new() }
    }

    fn index(&self, level: Level) -> &LineNumbers<'a> {
        self.indexes[level as usize].get_or_init(|| {
            let mut known = HashMap::new();
            let number = |line: &Line<'a>| {
                let next = u32::try_from(known.len()).unwrap_or(u32::MAX);
                *known.entry(level.normalized(line.text)).or_insert(next)
            };
            let numbers = self.lines.iter().map(number).collect();
            LineNumbers { numbers, known }
        })
    }

    /// All places of some lines, at the first level that has one.
    fn occurrences(&self, wanted: &[&str]) -> (Level, Vec<usize>) {
        for level in Level::ALL {
            let index = self.index(level);
            let pattern: Option<Vec<u32>> =
                wanted.iter().map(|line| index.known.get(level.normalized(line).as_ref()).copied()).collect();
            let Some(pattern) = pattern else { continue };
            let found = search(&index.numbers, &pattern);
            if !found.is_empty() {
                return (level, found);
            }
        }
        (Level::Normal, vec![])
    }

    /// The place of a hunk, at or below a line.
    fn find<'h>(&self, hunk: &'h Hunk, below: usize) -> Result<HunkPlace<'h>, HunkProblem> {
        match self.find_lines(hunk, &hunk.lines, below) {
            // Empty lines at its end may be those between two files of the patch.
            Err(problem @ (HunkProblem::NotFound { .. } | HunkProblem::NotAtEnd { .. })) => {
                let is_empty = |line: &HunkLine| line.mark == Mark::Keep && line.text.is_empty();
                let blank = hunk.lines.iter().rev().take_while(|line| is_empty(line)).count();
                match blank {
                    0 => Err(problem),
                    _ => self
                        .find_lines(hunk, &hunk.lines[..hunk.lines.len() - blank], below)
                        .map_err(|_| problem),
                }
            }
            found => found,
        }
    }

    fn find_lines<'h>(
        &self,
        hunk: &'h Hunk,
        lines: &'h [HunkLine],
        below: usize,
    ) -> Result<HunkPlace<'h>, HunkProblem> {
        let old: Vec<&str> =
            lines.iter().filter(|line| line.mark != Mark::Insert).map(|line| line.text.as_str()).collect();
        let place = |first, level| HunkPlace { first, old: old.clone(), lines, level };
        let starts = self.starts(&hunk.contexts, below)?;
        if old.is_empty() {
            return match starts.as_slice() {
                // Nothing says where: they go to the end.
                [_] if hunk.contexts.is_empty() || hunk.at_end => Ok(place(self.lines.len(), Level::Exact)),
                [(start, level)] => Ok(place(*start, *level)),
                several => Err(ambiguous(several.iter().map(|(start, _)| *start))),
            };
        }
        let (level, all) = self.occurrences(&old);
        let from = |start: usize| all.partition_point(|&place| place < start);
        if hunk.at_end {
            let last = self.lines.len().checked_sub(old.len());
            return match last.filter(|last| *last >= below && all.binary_search(last).is_ok()) {
                Some(last) => Ok(place(last, level)),
                None => Err(HunkProblem::NotAtEnd { wanted: beginning(&old) }),
            };
        }
        let found: Vec<usize> = if hunk.contexts.is_empty() {
            all[from(below)..].to_vec()
        } else {
            // The first place below a line is the one that the line names.
            let mut found: Vec<usize> =
                starts.iter().filter_map(|(start, _)| all.get(from(*start)).copied()).collect();
            found.dedup();
            found
        };
        match found.as_slice() {
            [only] => Ok(place(*only, level)),
            [] => Err(match all.last() {
                Some(above) if hunk.contexts.is_empty() => HunkProblem::OutOfOrder { line: above + 1 },
                _ => self.nowhere(&old),
            }),
            several => Err(ambiguous(several.iter().copied())),
        }
    }

    /// Below which lines a hunk may be, by the lines that it names.
    fn starts(&self, contexts: &[String], below: usize) -> Result<Vec<(usize, Level)>, HunkProblem> {
        let mut starts = vec![(below, Level::Exact)];
        for context in contexts {
            let (level, all) = self.occurrences(&[context.as_str()]);
            let first = starts.first().map_or(below, |(start, _)| *start);
            starts = all.iter().filter(|&&line| line >= first).map(|line| (line + 1, level)).collect();
            if starts.is_empty() {
                let context = context.chars().take(SHOWN).collect();
                return Err(HunkProblem::NoContext { context });
            }
        }
        Ok(starts)
    }

    /// The new lines of a hunk, indented as its place is.
    fn inserted<'h>(&self, place: &HunkPlace<'h>) -> Result<Vec<Cow<'h, str>>, Unclear<'h>> {
        let is_new = |line: &&HunkLine| line.mark == Mark::Insert;
        let as_written = || place.lines.iter().filter(is_new).map(|line| Cow::Borrowed(line.text.as_str()));
        if place.old.is_empty() || place.level.has_indentation_of_file() {
            return Ok(as_written().collect());
        }
        let there: Vec<DocumentLine<'_>> = self.at(place).map(|line| DocumentLine::from(*line)).collect();
        let of_file = || IndentationStep::of_file(self.lines.iter().map(|line| line.text));
        let step = || *self.step.get_or_init(of_file);
        let destination = Destination { lines: &there, is_exact: false, step: &step };
        let replace: Vec<&HunkLine> = place.lines.iter().filter(|line| line.mark != Mark::Remove).collect();
        let texts: Vec<&str> = replace.iter().map(|line| line.text.as_str()).collect();
        let new = new_lines_of(&destination, &place.old, &texts, &origins(place.lines))?;
        let fitted = new.into_iter().zip(replace).filter(|(_, line)| is_new(line)).map(|(new, _)| new.text);
        let keep_written = |(fitted, written): (Cow<'_, str>, Cow<'h, str>)| match fitted == written {
            true => written,
            false => Cow::Owned(fitted.into_owned()),
        };
        Ok(fitted.zip(as_written()).map(keep_written).collect())
    }

    /// The lines that a hunk found.
    fn at(&self, place: &HunkPlace<'_>) -> impl Iterator<Item = &Line<'a>> {
        self.lines.iter().skip(place.first).take(place.old.len())
    }

    fn numbered(&self, place: &HunkPlace<'_>) -> String {
        let there: Vec<&str> = self.at(place).map(|line| line.text).collect();
        lines::number(&there.join("\n"), place.first + 1)
    }

    fn nowhere(&self, old: &[&str]) -> HunkProblem {
        let all: Vec<&str> = self.lines.iter().map(|line| line.text).collect();
        HunkProblem::NotFound { wanted: beginning(old), closest: nearest::candidate(&all, old, None) }
    }
}

/// Where the kept and the new lines of a hunk come from. New ones stand for the removed ones beside them.
fn origins(lines: &[HunkLine]) -> Vec<Origin> {
    let (mut origins, mut searched) = (Vec::new(), 0);
    for change in lines.chunk_by(|a, b| (a.mark == Mark::Keep) == (b.mark == Mark::Keep)) {
        let old = change.iter().filter(|line| line.mark != Mark::Insert).count();
        let replaced = searched..searched + old;
        if change.iter().any(|line| line.mark == Mark::Keep) {
            origins.extend(replaced.clone().map(Origin::Kept));
        } else {
            let new = (0..change.len() - old).map(|index| Origin::New { replaced: replaced.clone(), index });
            origins.extend(new);
        }
        searched = replaced.end;
    }
    origins
}

fn beginning(lines: &[&str]) -> String {
    lines.join("\n").chars().take(SHOWN).collect()
}

fn ambiguous(places: impl ExactSizeIterator<Item = usize>) -> HunkProblem {
    HunkProblem::Ambiguous { count: places.len(), lines: places.take(NAMED).map(|line| line + 1).collect() }
}

/// Finds the occurrences of a pattern, by Knuth, Morris and Pratt. An empty one occurs nowhere.
fn search(text: &[u32], pattern: &[u32]) -> Vec<usize> {
    if pattern.is_empty() {
        return vec![];
    }
    let mut borders = vec![0usize; pattern.len()];
    let mut length = 0;
    for end in 1..pattern.len() {
        while length > 0 && pattern[end] != pattern[length] {
            length = borders[length - 1];
        }
        length += usize::from(pattern[end] == pattern[length]);
        borders[end] = length;
    }
    let (mut found, mut length) = (Vec::new(), 0);
    for (end, number) in text.iter().enumerate() {
        while length > 0 && pattern[length] != *number {
            length = borders[length - 1];
        }
        length += usize::from(pattern[length] == *number);
        if length == pattern.len() {
            found.push(end + 1 - length);
            length = borders[length - 1];
        }
    }
    found
}
