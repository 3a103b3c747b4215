//! Lines as models see them: where they occur when blanks and typography don't count, and what comes
//! closest when they don't occur at all.

use std::cmp::Reverse;
use std::fmt;
use std::ops::Range;

use rapidfuzz::distance::levenshtein::{Args, BatchComparator};

use super::lines::{self, LineRange};

/// Below this likeness a place is not worth showing.
const WORTH_SHOWING: f64 = 0.3;
/// Characters of the longest search that is compared by edit distance.
const MAX_SEARCH_CHARS: usize = 20_000;
/// Maximum number of places that are compared by edit distance, and the work that this may take, in steps of a machine word.
/// Both bound the time for hostile texts; ordinary ones stay far below.
const MAX_PLACES: usize = 64;
const MAX_STEPS: usize = 4_000_000;

/// The lines that come closest to what was searched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub lines: LineRange,
    /// Similarity in percent; 100 only when nothing but blanks differs.
    pub percent: u8,
    /// The lines with their numbers.
    pub numbered: String,
}

impl Candidate {
    /// A place with its lines.
    pub(super) fn new(place: RankedPlace, lines: &[&str]) -> Self {
        let first = place.line + 1;
        Self {
            lines: LineRange { start: first, end: place.line + lines.len() },
            percent: place.percent(),
            numbered: lines::number(&lines.join("\n"), first),
        }
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lines: LineRange { start, end }, percent, numbered } = self;
        match start == end {
            true => writeln!(f, "The closest text is line {start}, {percent}% alike:")?,
            false => writeln!(f, "The closest text is lines {start}-{end}, {percent}% alike:")?,
        }
        f.write_str(numbered.trim_end_matches('\n'))
    }
}

/// Describes the closest candidate.
pub(super) fn described(closest: Option<&Candidate>) -> String {
    closest.map_or_else(|| "Nothing like it is.".to_owned(), Candidate::to_string)
}

/// Finds what comes closest to the searched lines, if anything does.
pub(super) fn candidate(text: &[&str], search: &[&str], expected: Option<usize>) -> Option<Candidate> {
    let normal = NormalLines::new(text.iter().copied());
    let place = closest_to(&normal, &NormalLines::new(search.iter().copied()), expected)?;
    let range = place.line..(place.line + search.len()).min(text.len());
    Some(Candidate::new(place, text.get(range)?))
}

/// The place that is most like the searched lines, if any is worth showing; of several the nearest to a line.
pub(super) fn closest_to(
    text: &NormalLines,
    search: &NormalLines,
    expected: Option<usize>,
) -> Option<RankedPlace> {
    let places = closest(text, search, WORTH_SHOWING);
    places.into_iter().min_by_key(|place| expected.map_or(0, |expected| place.line.abs_diff(expected)))
}

/// Lines in a form that ignores how much white space there is and which quotes, dashes and dots were
/// typed: their words, one space after each, as one string.
#[derive(Clone)]
pub(super) struct NormalLines {
    words: String,
    /// Start of each line, and the end.
    starts: Vec<usize>,
}

impl NormalLines {
    pub(super) fn new<'a>(lines: impl Iterator<Item = &'a str>) -> Self {
        let mut normal = Self { words: String::new(), starts: vec![0] };
        for line in lines {
            push_words(&mut normal.words, line);
            normal.starts.push(normal.words.len());
        }
        normal
    }

    pub(super) fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// The words of some lines, each with a space after it; nothing for lines that don't exist.
    pub(super) fn words(&self, lines: Range<usize>) -> &str {
        match (self.starts.get(lines.start), self.starts.get(lines.end)) {
            (Some(start), Some(end)) => self.words.get(*start..*end).unwrap_or_default(),
            _ => "",
        }
    }

    pub(super) fn line(&self, line: usize) -> &str {
        self.words(line..line.saturating_add(1))
    }

    /// Returns the lines where the searched lines occur. Words may stand on other lines of the place.
    pub(super) fn occurrences(&self, search: &Self) -> Vec<usize> {
        let places = (self.len() + 1).saturating_sub(search.len());
        (0..places).filter(|line| self.words(*line..line + search.len()) == search.words).collect()
    }

    /// Puts other lines in the place of some.
    pub(super) fn splice<'a>(&mut self, lines: Range<usize>, new: impl Iterator<Item = &'a str>) {
        let new = Self::new(new);
        let (Some(&start), Some(&end)) = (self.starts.get(lines.start), self.starts.get(lines.end)) else {
            return;
        };
        self.words.replace_range(start..end, &new.words);
        for later in self.starts.iter_mut().skip(lines.end + 1) {
            *later = *later - end + start + new.words.len();
        }
        let starts = new.starts.iter().skip(1).map(|offset| start + offset);
        self.starts.splice(lines.start + 1..lines.end + 1, starts);
    }
}

fn push_words(words: &mut String, line: &str) {
    let start = words.len();
    let end_word = |words: &mut String| {
        if words.len() > start && !words.ends_with(' ') {
            words.push(' ');
        }
    };
    for c in line.chars() {
        match c {
            '\u{2018}' | '\u{2019}' => words.push('\''),
            '\u{201c}' | '\u{201d}' => words.push('"'),
            '\u{2013}' | '\u{2014}' => words.push('-'),
            '\u{2026}' => words.push_str("..."),
            c if c.is_whitespace() => end_word(words),
            c => words.push(c),
        }
    }
    end_word(words);
}

/// A place and how much it is like what was searched.
#[derive(Clone, Copy, Debug)]
pub(super) struct RankedPlace {
    /// The first line, counted from 0.
    pub(super) line: usize,
    /// From 0 to 1.
    pub(super) likeness: f64,
}

impl RankedPlace {
    pub(super) fn percent(self) -> u8 {
        (self.likeness * 100.0).floor().clamp(0.0, 100.0) as u8
    }
}

/// The places that are most like the searched lines, and at least so much; more than one only when
/// they are equally like it.
///
/// Likeness is 1 − edit distance / length of the longer text. Places are visited by falling number of
/// shared runs of three characters, which bounds the distance from below, so that few are compared.
pub(super) fn closest(text: &NormalLines, search: &NormalLines, at_least: f64) -> Vec<RankedPlace> {
    let wanted = Characters::new(search);
    let searched = wanted.trimmed(0..search.len());
    if text.len() == 0 || searched.is_empty() || searched.len() > MAX_SEARCH_CHARS {
        return vec![];
    }
    let there = Characters::new(text);
    let height = search.len().min(text.len());
    let mut places: Vec<(usize, usize)> =
        shared_runs(&there, &wanted, height).into_iter().enumerate().collect();
    places.sort_by_key(|(_, shared)| Reverse(*shared));

    let steps = searched.len() * searched.len() / 64 + 1;
    let comparator = BatchComparator::new(searched.iter().copied());
    let mut best: Vec<RankedPlace> = vec![];
    let mut floor = at_least;
    for (line, shared) in places.into_iter().take((MAX_STEPS / steps).clamp(1, MAX_PLACES)) {
        let window = there.trimmed(line..line + height);
        let longer = searched.len().max(window.len());
        // The small number makes up for what 1 − 0.9 loses in binary.
        let most_edits = ((1.0 - floor) * longer as f64 + 1e-9) as usize;
        if window.len().abs_diff(searched.len()) > most_edits || shared + 3 * most_edits + 2 < longer {
            continue;
        }
        let args = Args::default().score_cutoff(most_edits);
        let Some(edits) = comparator.distance_with_args(window.iter().copied(), &args) else { continue };
        let likeness = 1.0 - edits as f64 / longer as f64;
        match best.first() {
            Some(first) if likeness < first.likeness => {}
            Some(first) if likeness == first.likeness => best.push(RankedPlace { line, likeness }),
            _ => best = vec![RankedPlace { line, likeness }],
        }
        floor = floor.max(likeness);
    }
    best
}

/// Normal lines as characters.
struct Characters {
    characters: Vec<char>,
    starts: Vec<usize>,
}

impl Characters {
    fn new(lines: &NormalLines) -> Self {
        let mut characters = Vec::with_capacity(lines.words.len());
        let mut starts = vec![0];
        for line in 0..lines.len() {
            characters.extend(lines.line(line).chars());
            starts.push(characters.len());
        }
        Self { characters, starts }
    }

    fn between(&self, lines: Range<usize>) -> Range<usize> {
        let at = |line: usize| self.starts.get(line).copied().unwrap_or(self.characters.len());
        at(lines.start)..at(lines.end)
    }

    /// Some lines, without the space after the last word.
    fn trimmed(&self, lines: Range<usize>) -> &[char] {
        let window = self.characters.get(self.between(lines)).unwrap_or_default();
        window.strip_suffix(&[' ']).unwrap_or(window)
    }

    /// A small hash of the three characters that begin at each place.
    fn runs(&self) -> Vec<u16> {
        let hash = |run: &[char]| {
            let mixed = run.iter().fold(0u32, |hash, c| (hash ^ u32::from(*c)).wrapping_mul(0x9e37_79b1));
            (mixed >> 16) as u16
        };
        self.characters.windows(3).map(hash).collect()
    }
}

/// For each place, how many runs of three characters it shares with the searched text. Runs with the
/// same hash count as shared, and so do runs that reach over the end of a place: never too few.
fn shared_runs(text: &Characters, search: &Characters, height: usize) -> Vec<usize> {
    let runs = text.runs();
    let of_line = |line: usize| {
        let Range { start, end } = text.between(line..line + 1);
        runs.get(start..end.min(runs.len())).unwrap_or_default()
    };
    let mut window = Window::new(&search.runs());
    (0..height).for_each(|line| window.enter(of_line(line)));
    let mut all = vec![window.shared];
    for line in height..text.starts.len() - 1 {
        window.leave(of_line(line - height));
        window.enter(of_line(line));
        all.push(window.shared);
    }
    all
}

/// Counts of the wanted runs in the lines that have entered and not left.
struct Window {
    /// By hash: how many more are wanted; negative when there are too many.
    missing: Vec<i32>,
    shared: usize,
}

impl Window {
    fn new(wanted: &[u16]) -> Self {
        let mut missing = vec![0; 1 << 16];
        wanted.iter().for_each(|run| missing[usize::from(*run)] += 1);
        Self { missing, shared: 0 }
    }

    fn enter(&mut self, runs: &[u16]) {
        for run in runs {
            let missing = &mut self.missing[usize::from(*run)];
            self.shared += usize::from(*missing > 0);
            *missing -= 1;
        }
    }

    fn leave(&mut self, runs: &[u16]) {
        for run in runs {
            let missing = &mut self.missing[usize::from(*run)];
            *missing += 1;
            self.shared -= usize::from(*missing > 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rapidfuzz::distance::levenshtein;

    use super::*;

    fn normal(text: &str) -> NormalLines {
        NormalLines::new(text.split('\n'))
    }

    #[test]
    fn blanks_and_typography_do_not_count() {
        assert_eq!(normal("\t“a”\u{a0} –  b…  ").words, "\"a\" - b... ");
        assert_eq!(normal("a\n\nb c").occurrences(&normal(" a\n")), [0]);
        assert_eq!(normal("x\na b\nc").occurrences(&normal("a\nb c")), [1], "words may change lines");
        assert_eq!(normal("a").occurrences(&normal("a\nb")), [0usize; 0]);
    }

    #[test]
    fn a_candidate_shows_its_lines() {
        let text = ["fn a() {", "    let x = compute(1);", "}", "fn b() {}"];
        let found = candidate(&text, &["    let x = compute(2);", "}"], None).unwrap();
        assert_eq!(found.lines, LineRange { start: 2, end: 3 });
        assert_eq!(
            found.to_string(),
            "The closest text is lines 2-3, 95% alike:\n2 |     let x = compute(1);\n3 | }"
        );
        assert_eq!(candidate(&text, &["something else entirely"], None), None);
    }

    proptest! {
        #[test]
        fn splicing_is_the_same_as_reading_again(
            lines in prop::collection::vec("[ab ]{0,4}", 1..8),
            new in prop::collection::vec("[ab ]{0,4}", 0..4),
            at in 0usize..8,
            removed in 0usize..8,
        ) {
            let range = at.min(lines.len())..(at + removed).min(lines.len());
            let mut spliced = NormalLines::new(lines.iter().map(String::as_str));
            spliced.splice(range.clone(), new.iter().map(String::as_str));
            let mut lines = lines;
            lines.splice(range, new);
            let read = NormalLines::new(lines.iter().map(String::as_str));
            prop_assert_eq!((spliced.words, spliced.starts), (read.words, read.starts));
        }

        #[test]
        fn the_closest_place_is_not_passed_over(
            lines in prop::collection::vec("[abc ]{0,12}", 1..20),
            search in prop::collection::vec("[abc]{1,12}", 1..3),
        ) {
            let text = NormalLines::new(lines.iter().map(String::as_str));
            let search = NormalLines::new(search.iter().map(String::as_str));
            let wanted = search.words.trim_end();
            let height = search.len().min(text.len());
            let likeness = |line: usize| {
                let window = text.words(line..line + height).trim_end();
                let edits = levenshtein::distance(wanted.chars(), window.chars());
                1.0 - edits as f64 / wanted.len().max(window.len()) as f64
            };
            let best = (0..=text.len() - height).map(likeness).fold(0.0, f64::max);
            match closest(&text, &search, 0.6).first() {
                Some(found) => prop_assert_eq!(found.likeness, best),
                None => prop_assert!(best < 0.6),
            }
        }
    }
}
