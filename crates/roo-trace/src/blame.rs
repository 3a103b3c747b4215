//! Finds the record that wrote a line.
//!
//! The trace has no texts, so lines are followed through the records. As long as each change of a file begins with the
//! text that the one before it left, its hunks give the exact new position of every line. After an unrecorded change,
//! such as a person's edit, lines are found again by their marks (16 bits of each line): first in order, as in a diff,
//! then at the positions they were moved to; lines that were written as one range also have to match their hash. A line
//! that isn't found has no record: a person wrote it, or changed it since.

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;
use similar::{Algorithm, DiffTag, capture_diff_slices};

use super::directory::TraceDirectory;
use super::history::{self, Position};
use super::ranges::{self, says_something};
use super::record::{Author, FileState, PromptRef, Record};
use super::value::{self, bounded};
use roo_protocol::ids::Digest;

/// Texts with more lines than this are not searched for lines that moved by unrecorded edits.
const MAX_LINES: usize = 20_000;
/// Number of unrecorded edits a file's lines are followed over.
const MAX_LAYERS: usize = 8;
/// The most runs of lines that are kept for all files, a few dozen bytes each. Files that were not written
/// for longest are forgotten first.
const MAX_RUNS: usize = 500_000;

/// Author and purpose of a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Attribution {
    /// The record's number.
    pub seq: u64,
    /// Time, RFC 3339 in UTC.
    pub at: String,
    /// A model alone, or with its user.
    pub author: Author,
    /// The intent's id.
    pub intent: Option<String>,
    /// The intent's name.
    pub intent_name: Option<String>,
    pub task: String,
    /// The request.
    pub urid: String,
    /// The mode's slug.
    pub mode: String,
    /// `provider/model`.
    pub model: Option<String>,
    /// Prompt of the user.
    pub prompt: Option<PromptRef>,
    /// The tool that wrote it.
    pub tool: String,
}

/// The lines of existing files that agents wrote. Updated as the trace grows, so that a lookup doesn't have to read it.
pub struct Index {
    directory: TraceDirectory,
    at: Position,
    files: HashMap<String, History>,
    runs: usize,
}

/// History of a file's lines.
#[derive(Default)]
struct History {
    /// One for the state at each unrecorded change; the last one is the current state.
    layers: Vec<Layer>,
    /// The newest record about it.
    seq: u64,
}

/// The lines of a text as records left it.
#[derive(Default)]
struct Layer {
    /// The text's digest. None when it is not known.
    after: Option<Digest>,
    runs: Vec<Run>,
}

/// Lines one after another, of one origin.
#[derive(Clone)]
struct Run {
    lines: usize,
    /// None for lines that no record wrote.
    piece: Option<Arc<Piece>>,
    /// Index of the first line in the piece.
    from: usize,
}

/// Lines that a record wrote.
struct Piece {
    attribution: Arc<Attribution>,
    /// One for each line; none when there were too many.
    marks: Vec<u16>,
    norm_hash: Option<Digest>,
    lines: usize,
}

impl Run {
    fn unknown(lines: usize) -> Self {
        Self { lines, piece: None, from: 0 }
    }

    fn part(&self, range: Range<usize>) -> Self {
        Self { lines: range.len(), piece: self.piece.clone(), from: self.from + range.start }
    }

    fn attribution(&self) -> Option<Arc<Attribution>> {
        self.piece.as_ref().map(|piece| Arc::clone(&piece.attribution))
    }

    /// The marks of its lines.
    fn marks(&self) -> Option<&[u16]> {
        self.piece.as_ref()?.marks.get(self.from..self.from + self.lines)
    }

    /// The hash that its lines must have, if they are a complete range of a record.
    fn hash(&self) -> Option<Digest> {
        let piece = self.piece.as_ref().filter(|piece| piece.lines == self.lines)?;
        piece.norm_hash
    }
}

/// Finds who wrote a line of a file's current text, by reading the trace. For several lookups keep an
/// [`Index`].
///
/// # Errors
/// When the trace can't be read.
pub fn line(
    state_directory: &Path,
    path: &str,
    text: &str,
    line: usize,
) -> io::Result<Option<Arc<Attribution>>> {
    let mut index = Index::new(state_directory);
    index.refresh()?;
    Ok(index.line(path, text, line))
}

impl Index {
    /// An empty index; [`Index::refresh`] fills it.
    pub fn new(state_directory: &Path) -> Self {
        let directory = TraceDirectory::new(state_directory);
        Self { directory, at: Position::default(), files: HashMap::new(), runs: 0 }
    }

    /// Reads the records that were added since the last call. The first call reads all of them, which takes a second
    /// for some hundred thousand.
    ///
    /// # Errors
    /// When the trace can't be read.
    pub fn refresh(&mut self) -> io::Result<()> {
        let length = self.directory.segment_length(self.at.segment);
        if self.at != Position::default() && length.is_ok_and(|length| length < self.at.offset) {
            // The trace was replaced by another one.
            *self = Self {
                directory: self.directory.clone(),
                at: Position::default(),
                files: HashMap::new(),
                runs: 0,
            };
        }
        let directory = self.directory.clone();
        self.at = history::changes(&directory, self.at, |record| self.add(record))?;
        Ok(())
    }

    /// Adds the next record.
    pub fn add(&mut self, record: &Record) {
        let Some(own) = record.own() else { return };
        for file in &record.files {
            if let Some(history) = own.old_path.as_ref().and_then(|path| self.files.remove(path)) {
                self.files.insert(file.path.clone(), history);
            }
            let after = match own.after {
                Some(FileState::Absent) => {
                    if let Some(history) = self.files.remove(&file.path) {
                        self.runs -= history.size();
                    }
                    continue;
                }
                Some(FileState::Present(digest)) => Some(digest),
                None => None,
            };
            let history = self.files.entry(file.path.clone()).or_default();
            self.runs -= history.size();
            history.seq = own.seq;
            history.change(record, file, own.before, after);
            self.runs += history.size();
        }
        if self.runs > MAX_RUNS {
            self.forget();
        }
    }

    /// Forgets the files that were not written for longest, a tenth of all runs.
    fn forget(&mut self) {
        let mut oldest: Vec<(u64, String)> =
            self.files.iter().map(|(path, history)| (history.seq, path.clone())).collect();
        oldest.sort_unstable();
        for (_, path) in oldest {
            if self.runs <= MAX_RUNS / 10 * 9 {
                break;
            }
            if let Some(history) = self.files.remove(&path) {
                self.runs -= history.size();
            }
        }
    }

    /// The paths of files that have lines of agents, in order.
    pub fn paths(&self) -> Vec<&str> {
        let mut paths: Vec<&str> = self.files.keys().map(String::as_str).collect();
        paths.sort_unstable();
        paths
    }

    /// Returns the author of a line of a file's current text; lines count from 1. None for a line that no agent wrote as
    /// it is now.
    pub fn line(&self, path: &str, text: &str, line: usize) -> Option<Arc<Attribution>> {
        self.lines(path, text).into_iter().nth(line.checked_sub(1)?).flatten()
    }

    /// Returns the author of each line of a file's current text.
    pub fn lines(&self, path: &str, text: &str) -> Vec<Option<Arc<Attribution>>> {
        let current = ranges::split(text);
        let mut found = vec![None; current.len()];
        let Some(history) = self.files.get(bounded(path, value::PATH).as_ref()) else { return found };
        let mut layers = history.layers.iter().rev().peekable();
        if let Some(newest) = layers.peek()
            && newest.after == Some(Digest::of(text))
            && newest.runs.iter().map(|run| run.lines).sum::<usize>() == current.len()
        {
            let mut at = 0;
            for run in &newest.runs {
                found[at..at + run.lines].fill(run.attribution());
                at += run.lines;
            }
            layers.next();
        }
        if layers.peek().is_some() && current.len() <= MAX_LINES && found.iter().any(Option::is_none) {
            let mut search = Search::new(&current, found);
            for layer in layers {
                search.align(layer);
            }
            found = search.found;
        }
        found
    }
}

impl History {
    fn size(&self) -> usize {
        self.layers.iter().map(|layer| layer.runs.len()).sum()
    }

    fn change(
        &mut self,
        record: &Record,
        file: &super::record::File,
        before: Option<FileState>,
        after: Option<Digest>,
    ) {
        let detail = record.own().and_then(|own| own.files.get(&file.path));
        let Some((detail, lines)) = detail.and_then(|detail| Some((detail, detail.lines?))) else {
            // Its current text is unknown.
            self.push(Layer { after, runs: vec![] });
            return;
        };
        let continues = match (before, self.layers.last()) {
            (Some(FileState::Present(before)), Some(layer)) => layer.after == Some(before),
            _ => false,
        };
        if before == Some(FileState::Absent) {
            self.layers.clear();
        }
        let number = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let (mut came, mut went) = (0_usize, 0_usize);
        for hunk in &detail.hunks {
            (went, came) = (went.saturating_add(number(hunk[1])), came.saturating_add(number(hunk[3])));
        }
        let pieces = pieces(record, file, detail);
        let old = match self.layers.last() {
            Some(layer) if continues => layer.runs.clone(),
            _ => vec![Run::unknown(number(lines).saturating_add(went).saturating_sub(came))],
        };
        let runs = applied(&old, &detail.hunks, pieces);
        let layer = Layer { after, runs: runs.unwrap_or_default() };
        match self.layers.last_mut() {
            Some(newest) if continues => *newest = layer,
            _ => self.push(layer),
        }
    }

    fn push(&mut self, layer: Layer) {
        self.layers.retain(|layer| layer.runs.iter().any(|run| run.piece.is_some()));
        if self.layers.len() >= MAX_LAYERS {
            self.layers.remove(0);
        }
        self.layers.push(layer);
    }
}

/// Returns the ranges that a record wrote in a file.
fn pieces(
    record: &Record,
    file: &super::record::File,
    detail: &super::record::FileDetail,
) -> Vec<Arc<Piece>> {
    let Some(own) = record.own().filter(|_| detail.mutation.is_none()) else { return vec![] };
    let Some(conversation) = file.conversations.first() else { return vec![] };
    // What a hook made of lines of others is nobody's that is known.
    if conversation.contributor.as_ref().is_some_and(|contributor| contributor.kind == Author::Unknown) {
        return vec![];
    }
    let attribution = Arc::new(Attribution {
        seq: own.seq,
        at: record.timestamp.clone(),
        author: conversation.contributor.as_ref().map_or(Author::Unknown, |contributor| contributor.kind),
        intent: own.intent_id.clone(),
        intent_name: own.intent_name.clone(),
        task: own.task.clone(),
        urid: own.urid.clone(),
        mode: own.mode.clone(),
        model: own.model.clone(),
        prompt: own.prompt.clone(),
        tool: own.tool_call.clone(),
    });
    let digits = detail.marks.as_bytes().chunks_exact(4);
    let mut marks = digits.map(|four| {
        std::str::from_utf8(four).ok().and_then(|four| u16::from_str_radix(four, 16).ok()).unwrap_or_default()
    });
    let ranges = conversation.ranges.iter().enumerate().map(|(index, range)| {
        let lines =
            usize::try_from((range.end_line + 1).saturating_sub(range.start_line)).unwrap_or_default();
        let marks: Vec<u16> = marks.by_ref().take(lines).collect();
        Arc::new(Piece {
            attribution: Arc::clone(&attribution),
            marks: if marks.len() == lines { marks } else { vec![] },
            norm_hash: detail.norm_hash.get(index).copied(),
            lines,
        })
    });
    ranges.collect()
}

/// The lines after a change. None when the hunks don't fit the lines before.
fn applied(old: &[Run], hunks: &[[u64; 4]], pieces: Vec<Arc<Piece>>) -> Option<Vec<Run>> {
    let mut pieces = pieces.into_iter();
    let mut new = Vec::with_capacity(old.len() + hunks.len());
    let mut rest = old.iter().cloned();
    let mut run: Option<Run> = rest.next();
    let mut at = 0;
    // The next lines of the old text.
    let mut take = |mut count: usize, kept: Option<&mut Vec<Run>>| -> Option<()> {
        let mut sink = Vec::new();
        let kept = kept.unwrap_or(&mut sink);
        while count > 0 {
            let first = run.take()?;
            let taken = first.lines.min(count);
            kept.push(first.part(0..taken));
            run = if taken < first.lines { Some(first.part(taken..first.lines)) } else { rest.next() };
            count -= taken;
        }
        Some(())
    };
    for hunk in hunks {
        let [old_start, old_len, _, new_len] =
            hunk.map(|number| usize::try_from(number).unwrap_or(usize::MAX));
        take(old_start.checked_sub(at)?, Some(&mut new))?;
        take(old_len, None)?;
        at = old_start.checked_add(old_len)?;
        if new_len > 0 {
            let piece = pieces.next().filter(|piece| piece.lines == new_len);
            new.push(Run { lines: new_len, piece, from: 0 });
        }
    }
    let left: usize = old.iter().map(|run| run.lines).sum();
    take(left.checked_sub(at)?, Some(&mut new))?;
    new.retain(|run| run.lines > 0);
    new.dedup_by(|next, run| {
        let same = match (&run.piece, &next.piece) {
            (None, None) => true,
            (Some(a), Some(b)) => Arc::ptr_eq(a, b) && run.from + run.lines == next.from,
            _ => false,
        };
        if same {
            run.lines += next.lines;
        }
        same
    });
    Some(new)
}

/// Finds the lines of layers in a text.
struct Search<'a> {
    current: &'a [&'a str],
    marks: Vec<u16>,
    found: Vec<Option<Arc<Attribution>>>,
}

impl<'a> Search<'a> {
    fn new(current: &'a [&'a str], found: Vec<Option<Arc<Attribution>>>) -> Self {
        let marks = current.iter().map(|line| ranges::mark(line)).collect();
        Self { current, marks, found }
    }

    fn align(&mut self, layer: &Layer) {
        // A line without a mark matches nothing: it gets a number beyond those of marks, different on each side.
        let mut old: Vec<u32> = Vec::new();
        let mut owners: Vec<usize> = Vec::new();
        for (index, run) in layer.runs.iter().enumerate() {
            match run.marks() {
                Some(marks) if old.len() + marks.len() <= MAX_LINES => {
                    old.extend(marks.iter().map(|mark| u32::from(*mark)));
                    owners.extend(std::iter::repeat_n(index, marks.len()));
                }
                _ => {
                    old.push(0x1_0000 + u32::try_from(index % 0x1000_0000).unwrap_or_default());
                    owners.push(index);
                }
            }
        }
        let new: Vec<u32> = (0_u32..)
            .zip(self.marks.iter().zip(&self.found))
            .map(
                |(index, (mark, found))| if found.is_some() { 0x8000_0000 | index } else { u32::from(*mark) },
            )
            .collect();
        let mut matched = vec![0; layer.runs.len()];
        for operation in capture_diff_slices(Algorithm::Myers, &old, &new) {
            if operation.tag() != DiffTag::Equal {
                continue;
            }
            let (from, to) = (operation.old_range(), operation.new_range());
            if !self.current[to.clone()].iter().any(|line| says_something(line)) {
                continue;
            }
            let mut at = from.start;
            while at < from.end {
                let owner = owners[at];
                let end =
                    owners[at..from.end].iter().position(|next| *next != owner).map_or(from.end, |n| at + n);
                let place = to.start + (at - from.start)..to.start + (end - from.start);
                self.claim(&layer.runs[owner], place, &mut matched[owner]);
                at = end;
            }
        }
        self.find_moved(layer, &matched);
    }

    /// Gives lines to a run, unless they are as many as it has and not the same.
    fn claim(&mut self, run: &Run, place: Range<usize>, matched: &mut usize) {
        if place.len() == run.lines
            && run.hash().is_some_and(|hash| hash != ranges::norm_hash(&self.current[place.clone()]))
        {
            return;
        }
        *matched += place.len();
        self.found[place].fill(run.attribution());
    }

    /// Finds runs that were moved as a whole, among those that were not found in order.
    fn find_moved(&mut self, layer: &Layer, matched: &[usize]) {
        let lost: Vec<&Run> = layer
            .runs
            .iter()
            .zip(matched)
            .filter(|(_, matched)| **matched == 0)
            .map(|(run, _)| run)
            .collect();
        if lost.iter().all(|run| run.marks().is_none()) {
            return;
        }
        let mut places: HashMap<u16, Vec<usize>> = HashMap::new();
        for (index, mark) in self.marks.iter().enumerate() {
            places.entry(*mark).or_default().push(index);
        }
        for run in lost {
            let Some(marks) = run.marks().filter(|marks| !marks.is_empty()) else { continue };
            // Part of a run has no hash, so it has to be long enough for its marks to be significant.
            if run.hash().is_none() && marks.len() < 3 {
                continue;
            }
            // Starts at the rarest line, or a file of equal lines would be searched again and again.
            let count = |mark: &u16| places.get(mark).map_or(0, Vec::len);
            let Some((offset, rarest)) = marks.iter().enumerate().min_by_key(|(_, mark)| count(mark)) else {
                continue;
            };
            let found = places.get(rarest).into_iter().flatten().take(64).find_map(|index| {
                let start = index.checked_sub(offset)?;
                let place = start..start + marks.len();
                let fits = self.marks.get(place.clone())? == marks
                    && self.found[place.clone()].iter().all(Option::is_none)
                    && self.current[place.clone()].iter().any(|line| says_something(line))
                    && run.hash().is_none_or(|hash| hash == ranges::norm_hash(&self.current[place.clone()]));
                fits.then_some(place)
            });
            if let Some(place) = found {
                self.found[place].fill(run.attribution());
            }
        }
    }
}

#[cfg(test)]
mod tests;
