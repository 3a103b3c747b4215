//! The processes of this machine, found by their arguments: a command in a sandbox can't tell its own number.

use std::fs;

/// A number of seconds that no other test sleeps: this process's, and one within it.
pub fn mark(number: usize) -> String {
    format!("{}.{number:03}", 100_000 + std::process::id())
}

/// The command lines of the processes that have a word, zombies aside.
pub fn with(word: &str) -> Vec<String> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| {
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        let words: Vec<String> =
            line.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        (words.first()?.ends_with("sleep") && words.iter().any(|own| own == word)).then(|| words.join(" "))
    });
    lines.collect()
}
