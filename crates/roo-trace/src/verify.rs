//! Verification of the trace: every record against its hash, its neighbours, the head and the signed heads; and a copy
//! against the original.
//!
//! Only the user can write the original, so a finding there is an accident or was done with the user's permissions.
//! Changes by somebody who also has the signing key are not found. The first wrong record is reported with the kind of
//! its damage; later ones are not examined.
//!
//! The original takes memory for a few chunks of it, whatever its size; a copy takes 32 bytes for each record.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::anchor::{Anchor, Head, Signer};
use super::chain::{self, VerifiedLink};
use super::directory::TraceDirectory;
use super::history::{self, Header};
use super::projection::{self, Projected};
use super::scan::{self, ScannedLine};
use roo_durable::open_regular;
use roo_protocol::ids::Digest;

/// Number of lines read ahead to distinguish a forged record from the one after it.
const AHEAD: usize = 16;
/// The longest torn line that is compared with the beginning of a record, in bytes.
const MAX_TORN_LINE_BYTES: u64 = 16 << 20;
/// The most gaps that are tracked; further ones are joined.
const MAX_GAPS: usize = 1000;

/// Kind of damage to a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Tamper {
    /// It was changed.
    Edit,
    /// It is missing, and later ones exist.
    Delete,
    /// A line before it was never written by this program.
    Insert,
    /// It is at another position.
    Reorder,
    /// It occurs twice.
    Duplicate,
    /// It and all later ones are missing.
    Truncation,
    /// It belongs to another chain.
    Replacement,
    /// The segment that begins with it does not follow the one before.
    BrokenSegmentLink,
    /// The head or the anchors are missing or changed.
    Anchor,
}

impl Tamper {
    /// Its name in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Edit => "edit",
            Self::Delete => "delete",
            Self::Insert => "insert",
            Self::Reorder => "reorder",
            Self::Duplicate => "duplicate",
            Self::Truncation => "truncation",
            Self::Replacement => "replacement",
            Self::BrokenSegmentLink => "broken segment link",
            Self::Anchor => "anchor",
        }
    }
}

/// The first problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// The number of the first wrong record.
    pub seq: u64,
    /// Kind of damage.
    pub kind: Tamper,
    /// In words.
    pub detail: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "record {}: {}: {}", self.seq, self.kind.as_str(), self.detail)
    }
}

/// Checked file, and the result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckedFile {
    /// The directory of the original, or the file of a copy.
    pub path: PathBuf,
    /// Number of valid records.
    pub records: u64,
    /// Number of signed heads the records were compared with.
    pub anchors: usize,
    /// The first problem, if any.
    pub finding: Option<Finding>,
}

/// Result of a verification.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The chain's id. None if there is no trace.
    pub chain: Option<String>,
    /// The public key that signs heads, in hex digits.
    pub key: Option<String>,
    /// The newest record that ever existed.
    pub newest: u64,
    pub original: CheckedFile,
    /// The copy, where one is or should be.
    pub copy: Option<CheckedFile>,
}

impl Report {
    /// Returns whether there is no problem.
    pub fn is_whole(&self) -> bool {
        self.original.finding.is_none() && self.copy.as_ref().is_none_or(|copy| copy.finding.is_none())
    }
}

/// Kind of a copy.
#[derive(Clone, Copy, Debug)]
pub enum Copy<'a> {
    /// The one in this workspace folder.
    OfFolder(&'a Path),
    /// A file anywhere.
    File(&'a Path),
}

/// Checks the trace in a workspace's state directory, and a copy of it.
///
/// # Errors
/// When a file can't be read. A copy in the workspace that is missing is a finding.
pub fn verify(state_directory: &Path, copy: Option<Copy<'_>>) -> io::Result<Report> {
    verify_in(TraceDirectory::new(state_directory), copy)
}

pub(super) fn verify_in(directory: TraceDirectory, copy: Option<Copy<'_>>) -> io::Result<Report> {
    let path = directory.path().to_owned();
    // Waits for a running append, so that head and records belong together.
    let (head, lengths, opened) = {
        // No process can append in a directory that can't be written.
        let _lock = directory.exists()?.then(|| directory.lock().ok());
        let lengths =
            directory.segments()?.into_iter().map(|number| Ok((number, directory.segment_length(number)?)));
        // The copy belongs to the same moment; an opened file isn't affected by its replacement.
        let opened = copy.map(OpenedCopy::open);
        (Head::read(&directory)?, lengths.collect::<io::Result<Vec<_>>>()?, opened)
    };
    let (anchors, bad_anchors) = Anchor::read_all(&directory)?;
    let key = Signer::public_key(&directory)?;
    let mut headers = BTreeMap::new();
    for (number, _) in &lengths {
        headers.insert(*number, header(&directory, *number)?);
    }
    let chain = head.as_ref().map(|head| head.chain.clone());
    let first_chain = || headers.values().flatten().map(|(header, _)| header.chain.clone()).next();
    let chain = chain.or_else(first_chain).or_else(|| anchors.first().map(|anchor| anchor.chain.clone()));
    let mut walk = VerifyWalk::new(Some(1), copy.is_some());
    let mut newest = 0;
    let mut compared = 0;
    if let Some(chain) = &chain {
        walk.last = Some(chain::genesis(chain));
        for anchor in &anchors {
            let signed = anchor.is_genuine() && key.as_deref().is_none_or(|key| key == anchor.key());
            if !signed || anchor.chain != *chain {
                walk.found(anchor.seq, Tamper::Anchor, "its signed head is not signed by this trace's key");
                continue;
            }
            compared += 1;
            newest = newest.max(anchor.seq);
            walk.anchors.insert(anchor.seq, anchor.hash);
        }
        if bad_anchors > 0 {
            let seq = anchors.last().map_or(1, |anchor| anchor.seq);
            walk.found(seq, Tamper::Anchor, "the list of signed heads has invalid lines");
        }
        match &head {
            Some(head) => {
                newest = newest.max(head.seq);
                if head.seq > 0 {
                    walk.anchors.insert(head.seq, head.hash);
                }
            }
            None => walk.found(newest.max(1), Tamper::Anchor, "the head of the trace is missing"),
        }
        walk.newest = newest;
        for (number, length) in &lengths {
            let (marker, start) = match &headers[number] {
                Some((header, start)) if header.segment == *number => (Some(header.clone()), *start),
                Some((_, start)) => (None, *start),
                None => (None, 0),
            };
            walk.step(VerifyItem::Segment(marker.filter(|header| header.chain == *chain)));
            let file = BufReader::new(directory.read_segment(*number, start)?);
            scan::lines(file.take(length.saturating_sub(start)), chain, |line| {
                walk.step(VerifyItem::Line(line))
            })?;
        }
    }
    let hashes = walk.end();
    let original = CheckedFile { path, records: walk.right, anchors: compared, finding: walk.finding };
    let copy = match opened {
        None => None,
        Some(opened) => {
            let known = KnownRecords {
                directory: &directory,
                chain: chain.as_deref().unwrap_or_default(),
                newest,
                projected: head.as_ref().and_then(|head| head.projection),
                hashes,
            };
            check_copy(opened, known)?
        }
    };
    Ok(Report { chain, key, newest, original, copy })
}

/// A segment's header and its length with its line end.
fn header(directory: &TraceDirectory, number: u64) -> io::Result<Option<(Header, u64)>> {
    let mut line = Vec::new();
    let file = directory.read_segment(number, 0)?;
    BufReader::new(file.take(4096)).read_until(b'\n', &mut line)?;
    let header = line.strip_suffix(b"\n").and_then(Header::read);
    Ok(header.map(|header| (header, line.len() as u64)))
}

/// A copy as it was at one moment.
struct OpenedCopy {
    path: PathBuf,
    /// With its length; none where there is no such file.
    file: io::Result<Option<(File, u64)>>,
    /// True if it is the one in the workspace, which the server keeps.
    is_kept: bool,
}

impl OpenedCopy {
    fn open(copy: Copy<'_>) -> Self {
        let (path, is_kept) = match copy {
            Copy::OfFolder(folder) => (projection::path_of(folder), true),
            Copy::File(path) => (path.to_owned(), false),
        };
        let file = match open_regular(&path) {
            Err(error) if is_kept && error.kind() == io::ErrorKind::NotFound => Ok(None),
            opened => opened.and_then(|file| {
                let length = file.metadata()?.len();
                Ok(Some((file, length)))
            }),
        };
        Self { path, file, is_kept }
    }
}

/// Known records that a copy is compared with.
struct KnownRecords<'a> {
    directory: &'a TraceDirectory,
    chain: &'a str,
    /// The newest record that ever existed.
    newest: u64,
    /// The workspace's copy as it was written last.
    projected: Option<Projected>,
    hashes: Hashes,
}

fn check_copy(copy: OpenedCopy, known: KnownRecords<'_>) -> io::Result<Option<CheckedFile>> {
    let OpenedCopy { path, file, is_kept } = copy;
    let first = known.projected.map(|projected| projected.first);
    let Some((mut file, length)) = file? else {
        let finding = first.filter(|_| known.newest > 0).map(|first| Finding {
            seq: first,
            kind: Tamper::Truncation,
            detail: "the workspace's copy is missing; the next record restores it".to_owned(),
        });
        let missing = finding.is_some();
        let checked = CheckedFile { path, records: 0, anchors: 0, finding };
        return Ok(missing.then_some(checked));
    };
    let mut walk = VerifyWalk::new(None, false);
    walk.starts = [Some(1), first].into_iter().flatten().collect();
    // Records that were never copied, as after a crash or on a full disk, are not missing: the next append copies
    // them.
    let copied = known.projected.and_then(|projected| projected.last).filter(|_| is_kept);
    walk.newest = known.newest;
    walk.copied = copied;
    walk.truth = Some(known.hashes);
    scan::lines((&file).take(length), known.chain, |line| walk.step(VerifyItem::Line(line)))?;
    walk.end_of_copy(|expected| {
        let begun = is_kept.then(|| last_line(&mut file, length)).transpose()?;
        let begun = begun.filter(|line| !line.is_empty());
        begun.map_or(Ok(false), |line| begins_record(known.directory, known.chain, expected, &line))
    })?;
    Ok(Some(CheckedFile { path, records: walk.right, anchors: 0, finding: walk.finding }))
}

/// Reads the text after the last line end of a file of this length, up to the maximum length of a record.
fn last_line(file: &mut File, length: u64) -> io::Result<Vec<u8>> {
    let from = length.saturating_sub(MAX_TORN_LINE_BYTES);
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.by_ref().take(length - from).read_to_end(&mut bytes)?;
    Ok(match bytes.iter().rposition(|byte| *byte == b'\n') {
        Some(end) => bytes.split_off(end + 1),
        // Such a long line is not a torn record.
        None => Vec::new(),
    })
}

/// Returns whether a part of a line is the beginning of a record of the original: a crash left it so.
fn begins_record(directory: &TraceDirectory, chain: &str, seq: u64, begun: &[u8]) -> io::Result<bool> {
    let newest = history::newest(directory, MAX_TORN_LINE_BYTES)?;
    let mut lines = newest.lines.split(|byte| *byte == b'\n').filter(|line| line.starts_with(begun));
    Ok(lines.any(|line| chain::read(line, chain).is_some_and(|fact| fact.seq == seq)))
}

/// Hashes by number.
type Hashes = Vec<Option<Digest>>;

enum VerifyItem {
    /// A segment begins; none where its header is not what it should be.
    Segment(Option<Header>),
    Line(ScannedLine),
}

/// Walks over the lines of a file and finds the first problem.
struct VerifyWalk {
    /// The next number. None before the first record of a copy.
    expected: Option<u64>,
    /// Possible starts of a copy.
    starts: Vec<u64>,
    /// The hash of the record before.
    last: Option<Digest>,
    /// Number of lines since then that are not records.
    bad: u64,
    /// True if the last line is torn.
    cut: bool,
    /// Skipped numbers: the first and the last of each run, and whether one of them came later.
    gaps: Vec<(u64, u64, bool)>,
    /// Known records from elsewhere.
    anchors: BTreeMap<u64, Digest>,
    /// The newest record that ever existed.
    newest: u64,
    /// For the workspace's copy: the newest record that was written to it, where that is known.
    copied: Option<u64>,
    /// For a copy: the original's hashes.
    truth: Option<Hashes>,
    /// For the original: its hashes, if a copy is to be compared with them.
    hashes: Option<Hashes>,
    ahead: VecDeque<VerifyItem>,
    finding: Option<Finding>,
    right: u64,
}

impl VerifyWalk {
    fn new(expected: Option<u64>, keeps: bool) -> Self {
        Self {
            expected,
            starts: vec![],
            last: None,
            bad: 0,
            cut: false,
            gaps: vec![],
            anchors: BTreeMap::new(),
            newest: 0,
            copied: None,
            truth: None,
            hashes: keeps.then(Vec::new),
            ahead: VecDeque::with_capacity(AHEAD + 1),
            finding: None,
            right: 0,
        }
    }

    /// Keeps the first problem.
    fn found(&mut self, seq: u64, kind: Tamper, detail: impl Into<String>) {
        if self.finding.as_ref().is_none_or(|finding| seq < finding.seq) {
            self.finding = Some(Finding { seq, kind, detail: detail.into() });
        }
    }

    fn step(&mut self, item: VerifyItem) {
        self.ahead.push_back(item);
        if self.ahead.len() > AHEAD {
            self.next();
        }
    }

    fn next(&mut self) {
        let Some(item) = self.ahead.pop_front() else { return };
        match item {
            VerifyItem::Segment(header) => self.segment(header),
            VerifyItem::Line(ScannedLine::Cut) => self.cut = true,
            VerifyItem::Line(ScannedLine::Bad) => self.bad += 1,
            VerifyItem::Line(ScannedLine::Record(fact)) if self.is_genuine(fact) => self.record(fact),
            VerifyItem::Line(ScannedLine::Record(_)) => self.bad += 1,
        }
    }

    fn segment(&mut self, header: Option<Header>) {
        // Only the last line of a segment can be torn, and then it counts as missing.
        self.bad += u64::from(std::mem::take(&mut self.cut));
        let expected = self.expected.unwrap_or(1);
        match header {
            None => {
                self.found(
                    expected,
                    Tamper::BrokenSegmentLink,
                    "the header of its segment is damaged or of another chain",
                );
            }
            // Records before it are missing or changed; the next record reveals which.
            Some(header) if header.first > expected => {}
            Some(header) => {
                let follows = header.first == expected && self.last.is_none_or(|last| last == header.prev);
                if !follows && self.bad == 0 {
                    self.found(
                        expected,
                        Tamper::BrokenSegmentLink,
                        "its segment doesn't follow the previous one",
                    );
                }
            }
        }
    }

    /// Returns whether a record with a correct hash belongs to this chain: by the original, or by the records that
    /// follow it.
    fn is_genuine(&self, fact: VerifiedLink) -> bool {
        if let Some(truth) = &self.truth {
            let known = usize::try_from(fact.seq).ok().and_then(|index| truth.get(index).copied().flatten());
            return match known {
                Some(hash) => hash == fact.hash,
                // The original has lost it, or it was never written.
                None => fact.seq <= self.newest && self.last.is_none_or(|last| last == fact.prev),
            };
        }
        let known = self.anchors.get(&fact.seq);
        if known == Some(&fact.hash) {
            return true;
        }
        let ahead = || {
            self.ahead.iter().filter_map(|item| match item {
                VerifyItem::Line(ScannedLine::Record(fact)) => Some(*fact),
                _ => None,
            })
        };
        let after = |fact: VerifiedLink| ahead().filter(move |next| next.seq == fact.seq + 1);
        let is_followed = |fact: VerifiedLink| after(fact).any(|next| next.prev == fact.hash);
        // Known to be another one: a single line that does not belong, or, with those that follow it, a
        // history that was rewritten.
        if known.is_some_and(|known| !is_followed(fact) || ahead().any(|next| next.hash == *known)) {
            return false;
        }
        if is_followed(fact) {
            return true;
        }
        // The next record does not follow this one, and is itself followed or known.
        !after(fact).any(|next| is_followed(next) || self.anchors.get(&next.seq) == Some(&next.hash))
    }

    fn record(&mut self, fact: VerifiedLink) {
        let first = self.expected.is_none();
        let expected = self.expected.unwrap_or_else(|| {
            let start = self.starts.iter().copied().filter(|start| *start <= fact.seq).max();
            start.unwrap_or(1)
        });
        let bad = std::mem::take(&mut self.bad);
        if fact.seq < expected {
            if bad > 0 {
                self.found(expected, Tamper::Insert, "an earlier line was never written by roo-lsp");
            }
            let gap = self.gaps.iter_mut().find(|gap| gap.0 <= fact.seq && fact.seq <= gap.1);
            match gap {
                Some(gap) => {
                    gap.2 = true;
                    let seq = gap.0;
                    self.found(seq, Tamper::Reorder, "it is not where it was written");
                }
                None => self.found(fact.seq, Tamper::Duplicate, "it occurs more than once"),
            }
            return;
        }
        let missing = fact.seq - expected;
        match (missing, bad) {
            (0, 0) => {
                if !first && self.last.is_some_and(|last| last != fact.prev) {
                    self.found(expected, Tamper::Replacement, "it doesn't follow the previous record");
                }
            }
            (0, _) => self.found(expected, Tamper::Insert, "an earlier line was never written by roo-lsp"),
            (_, 0) => {
                if self.gaps.len() < MAX_GAPS {
                    self.gaps.push((expected, fact.seq - 1, false));
                } else {
                    self.found(expected, Tamper::Delete, "it is gone");
                }
            }
            (_, _) => self.found(expected, Tamper::Edit, "its line is not the one that was written"),
        }
        if self.anchors.get(&fact.seq).is_some_and(|hash| *hash != fact.hash) {
            let fits = self.anchors.range(..fact.seq).next_back().map_or(0, |(seq, _)| *seq);
            let detail = format!(
                "it is not the original record; others after record {fits} may have been replaced too"
            );
            self.found(fact.seq, Tamper::Replacement, detail);
        }
        if let Some(hashes) = &mut self.hashes
            && let Ok(index) = usize::try_from(fact.seq)
            // A number from a damaged line must not cost its size in memory.
            && index <= hashes.len() + (1 << 20)
        {
            hashes.resize(hashes.len().max(index + 1), None);
            hashes[index] = Some(fact.hash);
        }
        self.right += 1;
        self.last = Some(fact.hash);
        self.expected = Some(fact.seq + 1);
    }

    /// Checks the end of a copy. `begins` returns whether a torn last line is the beginning of this record.
    fn end_of_copy(&mut self, begins: impl FnOnce(u64) -> io::Result<bool>) -> io::Result<()> {
        while !self.ahead.is_empty() {
            self.next();
        }
        if self.cut && self.bad == 0 {
            let start = self.starts.iter().copied().max().unwrap_or(1);
            self.cut = !begins(self.expected.unwrap_or(start))?;
        }
        self.end();
        Ok(())
    }

    /// Checks the end of the file. Returns the collected hashes.
    fn end(&mut self) -> Hashes {
        while !self.ahead.is_empty() {
            self.next();
        }
        let start = || self.starts.iter().copied().max().unwrap_or(1);
        let expected = self.expected.unwrap_or_else(start);
        let missing = self.copied.unwrap_or(self.newest) >= expected;
        match (self.bad > 0, missing) {
            (true, _) if self.right == 0 => {
                self.found(expected, Tamper::Replacement, "there is no record of this trace");
            }
            (true, true) => {
                self.found(expected, Tamper::Edit, "its line is not the one that was written");
            }
            (true, false) => {
                self.found(expected, Tamper::Insert, "an earlier line was never written by roo-lsp")
            }
            (false, true) => {
                let detail =
                    format!("it and all later records are missing; the newest was record {}", self.newest);
                self.found(expected, Tamper::Truncation, detail);
            }
            (false, false) if self.cut => {
                self.found(expected, Tamper::Insert, "part of an earlier line was never written by roo-lsp");
            }
            (false, false) => {}
        }
        for (from, to, _) in std::mem::take(&mut self.gaps).into_iter().filter(|gap| !gap.2) {
            let detail = match to - from {
                0 => "it is gone".to_owned(),
                _ => format!("it is missing, along with all up to record {to}"),
            };
            self.found(from, Tamper::Delete, detail);
        }
        self.hashes.take().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
