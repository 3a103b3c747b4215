//! Throughput of masking: ordinary output, encoded files, and text made to be slow.

use std::sync::Arc;

use divan::counter::BytesCount;
use divan::{Bencher, black_box};
use roo_sandbox::exec::redaction::{ExactValues, Redactor};

const MIB: usize = 1024 * 1024;

fn main() {
    divan::main();
}

/// Repeats a text up to a length.
fn repeated(text: &str, bytes: usize) -> String {
    text.chars().cycle().take(bytes / text.len() * text.chars().count() + 1).collect()
}

fn exact() -> Arc<ExactValues> {
    let mut exact = ExactValues::default();
    for number in 0..50 {
        exact.add(&format!("SECRET_{number}"), &format!("value-{number}-that-nobody-may-see"));
    }
    Arc::new(exact)
}

fn run(bencher: Bencher<'_, '_>, text: &str, piece: usize, exact: &Arc<ExactValues>) {
    // Pieces of the same number of characters, which are mostly ASCII.
    let characters: Vec<char> = text.chars().collect();
    let pieces: Vec<String> = characters.chunks(piece).map(|piece| piece.iter().collect()).collect();
    bencher.counter(BytesCount::new(text.len())).bench_local(|| {
        let mut redactor = Redactor::new(true, exact);
        for piece in &pieces {
            black_box(redactor.push(piece));
        }
        redactor.finish()
    });
}

/// Build output, lock files, hashes, source code.
#[divan::bench(args = [8192, 16], sample_count = 10, sample_size = 1)]
fn ordinary_output(bencher: Bencher<'_, '_>, piece: usize) {
    let text = repeated(include_str!("../tests/corpus/ordinary_output.txt"), 4 * MIB);
    run(bencher, &text, piece, &Arc::default());
}

#[divan::bench(args = [8192, 16], sample_count = 10, sample_size = 1)]
fn ordinary_output_with_fifty_values(bencher: Bencher<'_, '_>, piece: usize) {
    let text = repeated(include_str!("../tests/corpus/ordinary_output.txt"), 4 * MIB);
    run(bencher, &text, piece, &exact());
}

/// One long line, as of an image.
#[divan::bench(args = [8192], sample_count = 10, sample_size = 1)]
fn encoded_file(bencher: Bencher<'_, '_>, piece: usize) {
    run(bencher, &repeated("iVBORw0KGgoAAAANSUhEUgAAB4AAAAQ4CAYAAADo08FD", 4 * MIB), piece, &Arc::default());
}

/// Text that makes a recognizer look far ahead for nothing.
#[divan::bench(
    args = [
        "eyJ", "-eyJabc", "password=", "password=a1", "token: \"x", "://", "://a@", "://a:b", "sk-", "-----BEGIN ",
        "-----BEGIN RSA PRIVATE KEY-----\n: ", "authorization: ", "bearer ", "a", "value-4-",
    ],
    sample_count = 3, sample_size = 1
)]
fn hostile(bencher: Bencher<'_, '_>, text: &str) {
    run(bencher, &repeated(text, MIB), 8192, &exact());
}

/// The same in pieces of one character.
#[divan::bench(
    args = ["eyJ", "password=a1", "token: \"x", "://a:b", "-----BEGIN RSA PRIVATE KEY-----\n: ", "value-4-"],
    sample_count = 3, sample_size = 1
)]
fn hostile_by_characters(bencher: Bencher<'_, '_>, text: &str) {
    run(bencher, &repeated(text, MIB / 4), 1, &exact());
}
