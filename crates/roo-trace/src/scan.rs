//! Scan of a large file of records: hashes are computed on all processors, lines are visited in order.

use std::io::{self, Read};
use std::num::NonZeroUsize;

use super::chain::{self, VerifiedLink};

/// Number of bytes read for one thread at a time.
const CHUNK: usize = 2 << 20;
/// The longest line of a record, in bytes.
const MAX_LINE_BYTES: usize = 64 << 20;
/// The most threads.
const MAX_THREADS: usize = 8;

/// A line of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScannedLine {
    /// A record whose hash is right.
    Record(VerifiedLink),
    /// Anything else.
    Bad,
    /// A last line without a line end.
    Cut,
}

/// Visits all lines. Memory is bounded by the chunks in progress, whatever the file's size.
pub(super) fn lines(mut file: impl Read, chain: &str, mut visit: impl FnMut(ScannedLine)) -> io::Result<()> {
    let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get).min(MAX_THREADS);
    let mut rest = Vec::new();
    let mut ended = false;
    while !ended {
        let mut chunks = Vec::with_capacity(threads);
        while chunks.len() < threads && !ended {
            let (chunk, more) = whole_lines(&mut file, &mut rest)?;
            ended = !more;
            chunks.push(chunk);
        }
        let found = std::thread::scope(|scope| {
            let work = |chunk: &Vec<u8>| facts(chunk, chain);
            let start = |chunk| std::thread::Builder::new().spawn_scoped(scope, move || work(chunk)).ok();
            let others: Vec<_> = chunks[1..].iter().map(start).collect();
            let mut found = vec![Some(work(&chunks[0]))];
            found.extend(others.into_iter().map(|thread| thread?.join().ok()));
            found
        });
        for (facts, chunk) in found.into_iter().zip(&chunks) {
            // If no thread could be started, this one does the work.
            facts.unwrap_or_else(|| self::facts(chunk, chain)).into_iter().for_each(&mut visit);
        }
    }
    if !rest.is_empty() {
        visit(ScannedLine::Cut);
    }
    Ok(())
}

/// Reads the next complete lines. Returns whether there is more; `rest` keeps what follows the last line end.
fn whole_lines(file: &mut impl Read, rest: &mut Vec<u8>) -> io::Result<(Vec<u8>, bool)> {
    let mut chunk = std::mem::take(rest);
    loop {
        let before = chunk.len();
        let read = file.by_ref().take(CHUNK as u64).read_to_end(&mut chunk)?;
        let end = chunk[before..].iter().rposition(|byte| *byte == b'\n').map(|at| before + at + 1);
        match end {
            Some(end) => {
                *rest = chunk.split_off(end);
                return Ok((chunk, read == CHUNK));
            }
            None if read < CHUNK => {
                *rest = chunk;
                return Ok((Vec::new(), false));
            }
            // Such a long line can't be a record, so part of it is enough.
            None if chunk.len() > MAX_LINE_BYTES => chunk.truncate(1),
            None => {}
        }
    }
}

fn facts(chunk: &[u8], chain: &str) -> Vec<ScannedLine> {
    let lines = chunk.split_inclusive(|byte| *byte == b'\n');
    let line = |line: &[u8]| chain::read(line.strip_suffix(b"\n").unwrap_or(line), chain);
    lines.map(|bytes| line(bytes).map_or(ScannedLine::Bad, ScannedLine::Record)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_seen_once_and_in_order() {
        for (text, lines) in [("", ""), ("a\n", "b"), ("a\nb\n\nc", "bbbc"), ("a", "c")] {
            let mut found = String::new();
            self::lines(text.as_bytes(), "", |line| {
                found.push(match line {
                    ScannedLine::Record(_) => 'r',
                    ScannedLine::Bad => 'b',
                    ScannedLine::Cut => 'c',
                });
            })
            .unwrap();
            assert_eq!(found, lines, "{text:?}");
        }
        let long = format!("{}\n{}\n", "x".repeat(CHUNK * 5 / 2), "y".repeat(10)).repeat(3);
        let mut count = 0;
        self::lines(long.as_bytes(), "", |_| count += 1).unwrap();
        assert_eq!(count, 6);
    }
}
