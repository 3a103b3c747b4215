//! How fast a stream is parsed: an answer of a size, in pieces of a size, in both protocols.

use divan::counter::BytesCount;
use divan::{Bencher, black_box};
use roo_catalog::ToolProtocol;
use roo_model::parser::{StreamEvent, StreamParser};

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// Bytes of the answer, bytes of a piece.
const SIZES: [(usize, usize); 3] = [(80 * KIB, 12), (MIB, 16), (8 * MIB, 16)];

fn main() {
    divan::main();
}

/// Source code with tags in it.
fn source(bytes: usize) -> String {
    "    if a < b && c > d { list.push(\"<path>x</path>\"); } // </content>\n"
        .chars()
        .cycle()
        .take(bytes)
        .collect()
}

/// The pieces of a text of ASCII characters.
fn pieces(text: &str, size: usize) -> impl Iterator<Item = String> {
    text.as_bytes().chunks(size).map(|piece| String::from_utf8_lossy(piece).into_owned())
}

fn run(bencher: Bencher<'_, '_>, protocol: ToolProtocol, events: Vec<StreamEvent>, bytes: usize) {
    bencher.counter(BytesCount::new(bytes)).with_inputs(|| events.clone()).bench_local_values(|events| {
        let mut parser = StreamParser::new(protocol);
        for event in events {
            let mut updates = Vec::new();
            parser.push(event, &mut updates);
            black_box(updates);
        }
        let mut updates = Vec::new();
        parser.finish(true, &mut updates);
        updates
    });
}

#[divan::bench(args = SIZES, sample_count = 20, sample_size = 1)]
fn xml_write(bencher: Bencher<'_, '_>, (bytes, piece): (usize, usize)) {
    let answer = format!(
        "<write_to_file>\n<path>a</path>\n<content>\n{}\n</content>\n</write_to_file>",
        source(bytes)
    );
    run(bencher, ToolProtocol::Xml, pieces(&answer, piece).map(StreamEvent::Text).collect(), bytes);
}

#[divan::bench(args = SIZES, sample_count = 20, sample_size = 1)]
fn native_write(bencher: Bencher<'_, '_>, (bytes, piece): (usize, usize)) {
    let arguments = serde_json::json!({ "path": "a", "content": source(bytes) }).to_string();
    let mut events = vec![StreamEvent::CallStart { index: 0, id: "1".into(), name: "write_to_file".into() }];
    events.extend(pieces(&arguments, piece).map(|text| StreamEvent::CallArguments { index: 0, text }));
    events.push(StreamEvent::CallEnd { index: 0 });
    run(bencher, ToolProtocol::Native, events, bytes);
}

#[divan::bench(args = [ToolProtocol::Xml, ToolProtocol::Native], sample_count = 20, sample_size = 1)]
fn plain_text(bencher: Bencher<'_, '_>, protocol: ToolProtocol) {
    let bytes = 80 * KIB;
    let answer: String =
        "Some words of an answer, with a `name` or two.\n".chars().cycle().take(bytes).collect();
    run(bencher, protocol, pieces(&answer, 12).map(StreamEvent::Text).collect(), bytes);
}
