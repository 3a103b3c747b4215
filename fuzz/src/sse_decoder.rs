//! Server-sent events: any cutting of the same bytes gives the same events, and what is read is what the
//! standard says of it, as far as a plain reading of whole text can say it.

use roo_model::parser::{SseEvent, SseReader};

use crate::{Input, cuts};

/// The property.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let seed = input.byte();
    let stream = input.0;
    let whole = read(&[stream]);
    let mut chunks = Vec::new();
    let mut from = 0;
    for cut in cuts(stream.len(), seed) {
        chunks.push(&stream[from..cut]);
        from = cut;
    }
    chunks.push(&stream[from..]);
    assert_eq!(read(&chunks), whole);
    assert_eq!(plainly(stream), whole);
}

/// Type and data.
type Event = (Option<String>, String);

fn read(chunks: &[&[u8]]) -> Vec<Event> {
    let mut reader = SseReader::new();
    let mut events = Vec::new();
    let mut keep = |SseEvent { event, data }: SseEvent<'_>| events.push((event.map(str::to_owned), data.to_owned()));
    for chunk in chunks {
        reader.push(chunk, &mut keep).unwrap();
    }
    reader.finish(keep);
    events
}

/// The standard, read off the page: whole text, line by line.
fn plainly(stream: &[u8]) -> Vec<Event> {
    let mut lines: Vec<Vec<u8>> = vec![vec![]];
    let mut bytes = stream.iter().peekable();
    while let Some(&byte) = bytes.next() {
        match byte {
            b'\r' => {
                bytes.next_if_eq(&&b'\n');
                lines.push(vec![]);
            }
            b'\n' => lines.push(vec![]),
            byte => lines.last_mut().unwrap().push(byte),
        }
    }
    // The last event counts without a blank line after it.
    lines.push(vec![]);
    let (mut events, mut event, mut data) = (vec![], String::new(), None::<String>);
    for (index, line) in lines.iter().enumerate() {
        let line = String::from_utf8_lossy(line);
        let line = line.strip_prefix('\u{feff}').filter(|_| index == 0).unwrap_or(&line);
        if line.is_empty() {
            if let Some(data) = data.take() {
                events.push((Some(event.clone()).filter(|event| !event.is_empty()), data));
            }
            event.clear();
            continue;
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => event = value.to_owned(),
            "data" => {
                data = Some(match data {
                    Some(data) => format!("{data}\n{value}"),
                    None => value.to_owned(),
                });
            }
            _ => {}
        }
    }
    events
}
