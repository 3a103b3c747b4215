//! Server-sent events from bytes, by the
//! [HTML standard](https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream).
//!
//! Two things differ from it on purpose: the last event counts without a blank line after it, as some
//! endpoints never send that line, and an event has a greatest size. `id` and `retry` are ignored.

use std::borrow::Cow;

use memchr::memchr2;

use roo_text::work;

/// The greatest size of one event.
pub(crate) const MAX_EVENT_BYTES: usize = 16 * 1024 * 1024;

/// One event, in the reader's own buffers: a stream has an event for every few letters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SseEvent<'a> {
    /// Its type, where one was sent.
    pub event: Option<&'a str>,
    /// Its data, lines joined by LF.
    pub data: &'a str,
}

/// An event is larger than 16 MiB. The stream can't be read any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the endpoint sent an event of more than {} MiB", MAX_EVENT_BYTES / (1024 * 1024))]
pub struct Oversized;

/// Reads events from chunks that may be cut anywhere.
#[derive(Debug, Default)]
pub struct SseReader {
    /// The line in hand.
    line: Vec<u8>,
    /// Empty where none was sent.
    event: String,
    /// Each line of data with an LF behind it; empty while none came, as such an event is not delivered.
    data: String,
    /// The last byte was a CR, so that an LF belongs to it.
    after_return: bool,
    /// The first line is behind us: no byte order mark can come.
    begun: bool,
    oversized: bool,
}

impl SseReader {
    /// A reader at the start of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads more of the stream. Bytes that are not UTF-8 become U+FFFD.
    ///
    /// # Errors
    /// [`Oversized`], then and from then on. Events before that were delivered.
    pub fn push(&mut self, bytes: &[u8], mut sink: impl FnMut(SseEvent<'_>)) -> Result<(), Oversized> {
        let mut rest = bytes;
        if self.after_return && !rest.is_empty() {
            self.after_return = false;
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        }
        while let Some(end) = line_end(rest) {
            let (line, after) = rest.split_at(end);
            self.check(line.len())?;
            if self.line.is_empty() {
                // Most lines come whole, and are read where they are.
                self.end_line(line, &mut sink);
            } else {
                let mut held = std::mem::take(&mut self.line);
                held.extend_from_slice(line);
                self.end_line(&held, &mut sink);
                held.clear();
                self.line = held;
            }
            rest = match after {
                [b'\r'] => {
                    self.after_return = true;
                    &[]
                }
                [b'\r', b'\n', after @ ..] | [_, after @ ..] => after,
                [] => &[],
            };
        }
        self.check(rest.len())?;
        self.line.extend_from_slice(rest);
        Ok(())
    }

    /// The stream has ended: delivers the event in hand. The reader is then at the start of a new stream.
    pub fn finish(&mut self, mut sink: impl FnMut(SseEvent<'_>)) {
        let mut last = std::mem::take(self);
        if !last.oversized {
            let line = std::mem::take(&mut last.line);
            last.end_line(&line, &mut sink);
            last.deliver(&mut sink);
        }
    }

    /// Returns whether so many more bytes are within the limit.
    fn check(&mut self, more: usize) -> Result<(), Oversized> {
        let held = self.line.len() + self.event.len() + self.data.len();
        if self.oversized || held.saturating_add(more) > MAX_EVENT_BYTES {
            *self = Self { oversized: true, ..Self::default() };
            return Err(Oversized);
        }
        work::add(more);
        Ok(())
    }

    fn end_line(&mut self, line: &[u8], sink: &mut impl FnMut(SseEvent<'_>)) {
        // Valid text, nearly always, is checked much faster than it is repaired.
        let text = std::str::from_utf8(line).map_or_else(|_| String::from_utf8_lossy(line), Cow::Borrowed);
        let text = match std::mem::replace(&mut self.begun, true) {
            false => text.strip_prefix('\u{feff}').unwrap_or(&text),
            true => &text,
        };
        if text.is_empty() {
            self.deliver(sink);
        } else {
            let value_of = |field: &str| {
                let rest = text.strip_prefix(field)?;
                let value = if rest.is_empty() { rest } else { rest.strip_prefix(':')? };
                Some(value.strip_prefix(' ').unwrap_or(value))
            };
            if let Some(value) = value_of("data") {
                self.data.push_str(value);
                self.data.push('\n');
            } else if let Some(value) = value_of("event") {
                self.event.clear();
                self.event.push_str(value);
            }
        }
    }

    fn deliver(&mut self, sink: &mut impl FnMut(SseEvent<'_>)) {
        if let Some(data) = self.data.strip_suffix('\n') {
            sink(SseEvent { event: (!self.event.is_empty()).then_some(&*self.event), data });
        }
        self.event.clear();
        self.data.clear();
    }
}

/// Returns the end of the first line.
fn line_end(bytes: &[u8]) -> Option<usize> {
    memchr2(b'\r', b'\n', bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Owned = (Option<String>, String);

    fn read(chunks: &[&[u8]]) -> Vec<Owned> {
        let mut reader = SseReader::new();
        let mut events = Vec::new();
        let mut keep = |SseEvent { event: name, data }: SseEvent<'_>| events.push(event(name, data));
        for chunk in chunks {
            reader.push(chunk, &mut keep).unwrap();
        }
        reader.finish(keep);
        events
    }

    fn event(event: Option<&str>, data: &str) -> Owned {
        (event.map(str::to_owned), data.to_owned())
    }

    #[test]
    fn fields_comments_and_lines_are_read_by_the_standard() {
        let stream = ": hello\nevent: start\ndata: one\ndata:two\ndata\nid: 7\nretry: 5\n\n\
                      event: no data\n\ndata:  two spaces\n\n";
        assert_eq!(
            read(&[stream.as_bytes()]),
            [event(Some("start"), "one\ntwo\n"), event(None, " two spaces")]
        );
    }

    #[test]
    fn every_kind_of_newline_ends_a_line() {
        for newline in ["\n", "\r", "\r\n"] {
            let stream = ["event: a", "data: 1", "", "data: 2", "", ""].join(newline);
            assert_eq!(read(&[stream.as_bytes()]), [event(Some("a"), "1"), event(None, "2")], "{newline:?}");
        }
    }

    #[test]
    fn the_event_type_does_not_stay_for_the_next_event() {
        assert_eq!(read(&[b"event: a\ndata: 1\n\ndata: 2\n\n"]), [event(Some("a"), "1"), event(None, "2")]);
    }

    #[test]
    fn the_last_event_needs_no_blank_line() {
        assert_eq!(read(&[b"data: 1\n\ndata: 2"]), [event(None, "1"), event(None, "2")]);
        assert_eq!(read(&[b"data: 1\n"]), [event(None, "1")]);
        assert_eq!(read(&[b"\n\n"]), []);
    }

    #[test]
    fn one_byte_order_mark_at_the_start_is_dropped() {
        assert_eq!(read(&["\u{feff}data: \u{feff}1\n\n".as_bytes()]), [event(None, "\u{feff}1")]);
    }

    #[test]
    fn bytes_that_are_not_utf8_become_replacement_characters() {
        assert_eq!(read(&[b"data: a\xff\xe2\x82\n\n"]), [event(None, "a\u{fffd}\u{fffd}")]);
    }

    #[test]
    fn an_oversized_event_is_refused_in_one_line_and_in_many() {
        let chunk = vec![b'a'; 1024 * 1024];
        let mut reader = SseReader::new();
        let mut count = 0;
        assert_eq!(reader.push(b"data: small\n\ndata: ", |_| count += 1), Ok(()));
        let taken = (0..64).take_while(|_| reader.push(&chunk, |_| count += 1).is_ok()).count();
        assert_eq!((taken, count), (15, 1));
        assert_eq!(reader.line.capacity(), 0, "nothing is kept");
        assert_eq!(reader.push(b"data: 1\n\n", |_| count += 1), Err(Oversized));
        reader.finish(|_| count += 1);
        assert_eq!(count, 1);

        let line = [b"data: ", chunk.as_slice(), b"\n"].concat();
        let mut reader = SseReader::new();
        assert!((0..15).all(|_| reader.push(&line, |_| ()).is_ok()));
        assert!((0..2).any(|_| reader.push(&line, |_| ()).is_err()));
    }

    #[test]
    fn an_event_of_nearly_the_limit_passes() {
        let mut reader = SseReader::new();
        let mut length = 0;
        reader.push(b"data:", |_| ()).unwrap();
        reader.push(&vec![b'a'; MAX_EVENT_BYTES - 5], |_| ()).unwrap();
        reader.push(b"\n\n", |event| length = event.data.len()).unwrap();
        assert_eq!(length, MAX_EVENT_BYTES - 5);
    }

    #[test]
    fn the_work_is_linear() {
        let work = |bytes: usize| {
            let stream = format!("data: {}", "a".repeat(bytes));
            work::of(|| {
                let mut reader = SseReader::new();
                stream.as_bytes().chunks(1).for_each(|chunk| reader.push(chunk, |_| ()).unwrap());
            })
        };
        assert!(work(100_000) <= 11 * work(10_000));
    }

    proptest! {
        #[test]
        fn any_chunking_gives_the_same_events(
            fields in prop::collection::vec(prop::sample::select(vec![
                &b"data: one"[..], b"data:", b"data: \xf0\x9f\x98\x80", b"data: \xff\xf0\x9f", b"event: e\xc3\xa9",
                b": comment", b"", b"", b"\xef\xbb\xbf", b"data: {\"a\":1}", b"id: 1", b"data", b":",
            ]), 0..20),
            newlines in prop::collection::vec(prop::sample::select(vec![&b"\n"[..], b"\r", b"\r\n"]), 20),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
        ) {
            let stream: Vec<u8> =
                fields.iter().zip(&newlines).flat_map(|(field, newline)| [*field, *newline].concat()).collect();
            let whole = read(&[&stream]);
            let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
            at.extend([0, stream.len()]);
            at.sort_unstable();
            let chunks: Vec<&[u8]> = at.windows(2).map(|pair| &stream[pair[0]..pair[1]]).collect();
            prop_assert_eq!(&read(&chunks), &whole);
            let bytes: Vec<&[u8]> = stream.chunks(1).collect();
            prop_assert_eq!(&read(&bytes), &whole);
        }
    }
}
