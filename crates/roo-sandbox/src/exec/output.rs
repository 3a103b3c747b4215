//! Output of a command as a text of bounded size.

use std::collections::VecDeque;
use std::sync::Arc;

use super::escapes::{Escapes, Glyph};
use super::redaction::Redactor;

/// Bytes of output that go to the model in full.
const PREVIEW: usize = 10 * 1024;
/// Bytes of output that are kept to be saved.
const KEPT: usize = 16 * 1024 * 1024;
/// Characters after which a line is taken as it stands and can't be overwritten any more.
const LINE: usize = 64 * 1024;

/// Collects output as a person at a terminal would see it: control sequences are taken out, carriage
/// returns and backspaces overwrite, and a line that repeats is counted. Takes time linear in the
/// output and memory bounded by the limits.
#[derive(Debug)]
pub struct Collector {
    escapes: Escapes,
    line: CurrentLine,
    /// The line written last, and how often it came again since.
    previous: Option<String>,
    repeats: u64,
    kept: Kept,
    preview: usize,
}

/// The collected output.
#[derive(Debug, PartialEq, Eq)]
pub struct Output {
    /// The output, or its beginning and its end around a mark.
    pub preview: String,
    /// Part that the preview leaves out.
    pub overflow: Option<Overflow>,
}

/// Output that is longer than its preview.
#[derive(Debug, PartialEq, Eq)]
pub struct Overflow {
    /// The output, or as much of its beginning and its end as was kept.
    pub text: String,
    /// Bytes of the whole output.
    pub bytes: u64,
    /// Bytes in the middle that `text` lacks too.
    pub lost: u64,
}

impl Default for Collector {
    fn default() -> Self {
        Self::with_limits(PREVIEW, KEPT)
    }
}

impl Collector {
    /// A collector that previews and keeps about so many bytes; `preview` is at most `kept`.
    pub(crate) fn with_limits(preview: usize, kept: usize) -> Self {
        Self {
            escapes: Escapes::default(),
            line: CurrentLine::default(),
            previous: None,
            repeats: 0,
            kept: Kept { redactor: Redactor::new(false, &Arc::default()), text: HeadTail::new(kept) },
            preview: preview.min(kept),
        }
    }

    /// Masks secrets in the collected text, before it is shortened, so that no cut leaves a part of one.
    #[must_use]
    pub fn with_redactor(mut self, redactor: Redactor) -> Self {
        self.kept.redactor = redactor;
        self
    }

    /// Adds a piece of output.
    pub fn push(&mut self, text: &str) {
        for piece in text.split_inclusive('\n') {
            match piece.strip_suffix('\n') {
                Some(line) if self.line.is_fresh() && line.len() <= LINE && self.escapes.passes(line) => {
                    self.end_line(line);
                }
                _ => piece.chars().for_each(|c| self.push_char(c)),
            }
        }
    }

    /// Takes what has been collected; the collection goes on. What may be the beginning of a secret stays for later.
    pub fn take(&mut self) -> Output {
        let last = self.line.take();
        if !last.is_empty() {
            self.flush_repeats();
            self.previous = None;
            self.kept.push(&last);
            self.line.continued = true;
        }
        self.flush_repeats();
        let fresh = HeadTail::new(self.kept.text.half * 2);
        std::mem::replace(&mut self.kept.text, fresh).finish(self.preview)
    }

    /// Ends the collection.
    pub fn finish(mut self) -> Output {
        let last = self.line.take();
        if !last.is_empty() {
            self.flush_repeats();
            self.kept.push(&last);
        }
        self.flush_repeats();
        self.kept.finish(self.preview)
    }

    fn push_char(&mut self, c: char) {
        match self.escapes.next(c) {
            None => {}
            Some(Glyph::EraseToEnd) => self.line.chars.truncate(self.line.cursor),
            Some(Glyph::EraseLine) => self.line.clear(),
            Some(Glyph::Char('\r')) => self.line.cursor = 0,
            Some(Glyph::Char('\u{8}')) => self.line.cursor = self.line.cursor.saturating_sub(1),
            Some(Glyph::Char('\n')) => {
                let continued = self.line.continued;
                let line = self.line.take();
                if continued {
                    self.kept.push(&line);
                    self.kept.push("\n");
                } else {
                    self.end_line(&line);
                }
            }
            Some(Glyph::Char(c)) => {
                if self.line.cursor >= LINE {
                    let part = self.line.take();
                    self.line.continued = true;
                    self.flush_repeats();
                    self.previous = None;
                    self.kept.push(&part);
                }
                self.line.write(c);
            }
        }
    }

    fn end_line(&mut self, line: &str) {
        if self.previous.as_deref() == Some(line) {
            self.repeats = self.repeats.saturating_add(1);
            return;
        }
        self.flush_repeats();
        self.kept.push(line);
        self.kept.push("\n");
        let previous = self.previous.get_or_insert_default();
        previous.clear();
        previous.push_str(line);
    }

    fn flush_repeats(&mut self) {
        let repeats = std::mem::take(&mut self.repeats);
        let Some(line) = self.previous.as_deref().filter(|_| repeats > 0) else { return };
        let mark = format!("[the line above {repeats} more times]\n");
        let bytes = u64::try_from(line.len()).unwrap_or(u64::MAX).saturating_add(1).saturating_mul(repeats);
        if u64::try_from(mark.len()).is_ok_and(|mark| mark < bytes) {
            self.kept.push(&mark);
        } else {
            for _ in 0..repeats {
                self.kept.push(line);
                self.kept.push("\n");
            }
        }
    }
}

/// The line that the cursor is on.
#[derive(Debug, Default)]
struct CurrentLine {
    chars: Vec<char>,
    /// At most the number of characters.
    cursor: usize,
    /// True if the line's beginning was taken already because it was too long.
    continued: bool,
}

impl CurrentLine {
    fn is_fresh(&self) -> bool {
        self.chars.is_empty() && !self.continued
    }

    fn write(&mut self, c: char) {
        match self.chars.get_mut(self.cursor) {
            Some(there) => *there = c,
            None => self.chars.push(c),
        }
        self.cursor += 1;
    }

    fn take(&mut self) -> String {
        let text = self.chars.iter().collect();
        self.clear();
        self.continued = false;
        text
    }

    fn clear(&mut self) {
        self.chars.clear();
        self.cursor = 0;
    }
}

/// The collected text with its secrets masked.
#[derive(Debug)]
struct Kept {
    redactor: Redactor,
    text: HeadTail,
}

impl Kept {
    fn push(&mut self, text: &str) {
        self.text.push(self.redactor.push(text).as_bytes());
    }

    fn finish(mut self, preview: usize) -> Output {
        self.text.push(self.redactor.finish().as_bytes());
        self.text.finish(preview)
    }
}

/// The beginning and the end of a text.
#[derive(Debug)]
struct HeadTail {
    half: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
}

impl HeadTail {
    fn new(limit: usize) -> Self {
        Self { half: limit / 2, head: Vec::new(), tail: VecDeque::new(), total: 0 }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.total = self.total.saturating_add(bytes.len() as u64);
        let room = self.half - self.head.len();
        let (head, rest) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(head);
        let rest = &rest[rest.len().saturating_sub(self.half)..];
        let surplus = (self.tail.len() + rest.len()).saturating_sub(self.half);
        self.tail.drain(..surplus);
        self.tail.extend(rest);
    }

    fn finish(mut self, preview: usize) -> Output {
        let kept = (self.head.len() + self.tail.len()) as u64;
        let cut = kept < self.total;
        if !cut {
            self.head.extend(std::mem::take(&mut self.tail));
        }
        let head = valid(self.head);
        let mut tail = Vec::from(self.tail);
        // A cut may leave the end of a character at the front.
        tail.drain(..tail.iter().take_while(|&&byte| byte & 0xc0 == 0x80).count());
        let tail = valid(tail);
        if !cut && head.len() <= preview {
            return Output { preview: head, overflow: None };
        }
        let beginning = beginning(&head, preview / 2);
        let end = end(if cut { &tail } else { &head }, preview / 2);
        let shown = join(beginning, end, self.total);
        let (text, lost) = if cut {
            (join(&head, &tail, self.total), self.total - (head.len() + tail.len()) as u64)
        } else {
            (head, 0)
        };
        Output { preview: shown, overflow: Some(Overflow { text, bytes: self.total, lost }) }
    }
}

/// The bytes up to a character that was cut.
fn valid(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| {
        let end = error.utf8_error().valid_up_to();
        let mut bytes = error.into_bytes();
        bytes.truncate(end);
        String::from_utf8(bytes).unwrap_or_default()
    })
}

/// At most `limit` bytes from the front, whole lines unless that would lose half of them.
fn beginning(text: &str, limit: usize) -> &str {
    let border = text.floor_char_boundary(limit);
    match text[..border].rfind('\n') {
        Some(newline) if newline >= border / 2 => &text[..=newline],
        _ => &text[..border],
    }
}

/// At most `limit` bytes from the back, whole lines unless that would lose half of them.
fn end(text: &str, limit: usize) -> &str {
    let border = text.ceil_char_boundary(text.len().saturating_sub(limit));
    let text = &text[border..];
    match text.find('\n') {
        Some(newline) if newline < text.len() / 2 => &text[newline + 1..],
        _ => text,
    }
}

fn join(head: &str, tail: &str, total: u64) -> String {
    let omitted = total.saturating_sub((head.len() + tail.len()) as u64);
    let newline = if head.is_empty() || head.ends_with('\n') { "" } else { "\n" };
    format!("{head}{newline}[... {omitted} bytes omitted ...]\n{tail}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::redaction::ExactValues;
    use super::*;

    fn collect(text: &str) -> Output {
        let mut collector = Collector::default();
        collector.push(text);
        collector.finish()
    }

    /// Checks a short output, in any pieces.
    fn check(text: &str, expected: &str) {
        assert_eq!(collect(text), Output { preview: expected.to_owned(), overflow: None }, "{text:?}");
        let mut collector = Collector::default();
        text.chars().for_each(|c| collector.push(&c.to_string()));
        assert_eq!(collector.finish().preview, expected, "{text:?} character by character");
    }

    #[test]
    fn plain_text_stays_as_it_is() {
        check("", "");
        check("a\n\nb", "a\n\nb");
        check("a\nb\n", "a\nb\n");
    }

    #[test]
    fn a_progress_bar_collapses_to_what_is_left_on_the_screen() {
        check("10%\r50%\r100%\ndone\n", "100%\ndone\n");
        check("100%\r5%\n", "5%0%\n");
        check("100%\r\x1b[K5%\n", "5%\n");
        check("100%\x1b[2K\r5%\n", "5%\n");
        check("windows\r\n", "windows\n");
        check("ab\u{8}\u{8}\u{8}xé\u{8}y\n", "xy\n");
    }

    #[test]
    fn a_line_that_repeats_is_counted_when_that_is_shorter() {
        check("x\nx\nx\ny\n", "x\nx\nx\ny\n");
        let line = "warning: the same thing again\n";
        check(&format!("{}end", line.repeat(100)), &format!("{line}[the line above 99 more times]\nend"));
        check(&line.repeat(3), &format!("{line}[the line above 2 more times]\n"));
    }

    #[test]
    fn secrets_are_masked_as_they_stand_on_the_screen() {
        let mut exact = ExactValues::default();
        exact.add("PIN", "blue-Horse7");
        let exact = Arc::new(exact);
        let masked = |text: &str, (preview, kept)| {
            let collector = Collector::with_limits(preview, kept);
            let mut collector = collector.with_redactor(Redactor::new(true, &exact));
            text.chars().for_each(|c| collector.push(&c.to_string()));
            collector.finish()
        };
        let line = "pin \x1b[1mblue\x1b[0m-Horxx\u{8}\u{8}se7, port 80\n";
        for count in [1, 3] {
            let text = masked(&line.repeat(count), (1000, 1000)).preview;
            assert!(text.starts_with("pin [masked: PIN], port 80\n") && !text.contains("Horse"), "{text}");
        }
        // A value that is masked when the output ends, and one that a cut would go through.
        assert_eq!(masked("blue-Horse7", (1000, 1000)).preview, "[masked: PIN]");
        let output = masked(&"blue-Horse7".repeat(100), (30, 60));
        let overflow = output.overflow.unwrap().text;
        assert!(!output.preview.contains("Horse") && !overflow.contains("Horse"), "{overflow}");
    }

    #[test]
    fn what_was_taken_does_not_come_again() {
        let mut collector = Collector::default();
        collector.push("one\none\ntw");
        assert_eq!(collector.take().preview, "one\none\ntw");
        assert_eq!(collector.take().preview, "");
        collector.push("o\none\n");
        assert_eq!(collector.finish().preview, "o\none\n");
        let mut collector = Collector::with_limits(10, 20);
        collector.push(&"x".repeat(30));
        assert!(collector.take().overflow.is_some());
        collector.push("y");
        assert_eq!(collector.finish(), Output { preview: "y".to_owned(), overflow: None });
    }

    #[test]
    fn a_secret_that_comes_in_two_pieces_is_masked_though_the_first_was_taken() {
        let mut exact = ExactValues::default();
        exact.add("PIN", "blue-Horse7");
        let mut collector = Collector::default().with_redactor(Redactor::new(true, &Arc::new(exact)));
        collector.push("pin blue-Ho");
        let first = collector.take().preview;
        collector.push("rse7\n");
        assert_eq!(format!("{first}{}", collector.finish().preview), "pin [masked: PIN]\n");
        assert!(!first.contains("blue"), "{first}");
    }

    #[test]
    fn control_sequences_never_reach_the_text() {
        check("\x1b[32mok\x1b[0m\x1b]52;c;eA==\x07\n", "ok\n");
    }

    #[test]
    fn a_long_output_shows_whole_lines_of_both_ends() {
        let text: String = (0..10_000).map(|n| format!("line {n}\n")).collect();
        let output = collect(&text);
        let overflow = output.overflow.expect("it is long");
        assert_eq!(
            (overflow.text.as_str(), overflow.bytes, overflow.lost),
            (text.as_str(), text.len() as u64, 0)
        );
        let (head, rest) = output.preview.split_once("[... ").expect("a mark");
        let (omitted, tail) = rest.split_once(" bytes omitted ...]\n").expect("a mark");
        assert!(text.starts_with(head) && head.ends_with('\n') && head.len() > PREVIEW / 2 - 20);
        assert!(text.ends_with(tail) && tail.starts_with("line ") && tail.len() > PREVIEW / 2 - 20);
        assert_eq!(omitted.parse(), Ok(text.len() - head.len() - tail.len()));
    }

    #[test]
    fn one_endless_line_is_cut_between_characters() {
        let output = collect(&"€".repeat(100_000));
        let (head, tail) = output.preview.split_once("\n[... 289764 bytes omitted ...]\n").expect("a mark");
        assert!(head.chars().chain(tail.chars()).all(|c| c == '€'));
    }

    #[test]
    fn what_is_kept_is_bounded_and_says_what_is_lost() {
        let mut collector = Collector::with_limits(10, 100);
        (0..1000).for_each(|n| collector.push(&format!("é{n}\n")));
        let total: usize = (0..1000).map(|n| format!("é{n}\n").len()).sum();
        let output = collector.finish();
        let overflow = output.overflow.expect("it is long");
        assert_eq!(overflow.bytes, total as u64);
        assert!(overflow.text.starts_with("é0\né1\n") && overflow.text.ends_with("é998\né999\n"));
        assert!(overflow.text.contains(&format!("[... {} bytes omitted ...]", overflow.lost)));
        assert!(overflow.text.len() < 150);
        assert_eq!(output.preview, format!("é0\n[... {} bytes omitted ...]\n", total - 4 - 4) + "999\n");
    }

    proptest! {
        #[test]
        fn pieces_change_nothing(
            text in "([ab€]{0,3}[\n\r\u{8}\u{1b}\\[K2]?){0,30}",
            size in 1usize..7,
        ) {
            let mut collector = Collector::with_limits(20, 40);
            collector.push(&text);
            let whole = collector.finish();
            let mut collector = Collector::with_limits(20, 40);
            let chars: Vec<char> = text.chars().collect();
            chars.chunks(size).for_each(|piece| collector.push(&piece.iter().collect::<String>()));
            prop_assert_eq!(collector.finish(), whole);
        }
    }
}
