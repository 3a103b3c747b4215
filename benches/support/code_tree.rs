//! A generated tree of source code: 10,000 files with functions, 100 MB together, the same each time.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Files of the tree.
pub const FILES: usize = 10_000;

/// Lines of each, at least.
const LINES: usize = 250;

/// Words of which the names in the tree are made.
pub const WORDS: &[&str] = &[
    "account", "batch", "buffer", "cache", "channel", "client", "config", "cursor", "delay", "digest",
    "encoder", "event", "filter", "frame", "grant", "header", "index", "invoice", "journal", "kernel",
    "label", "ledger", "lock", "marker", "metric", "node", "offset", "order", "packet", "parser", "policy",
    "queue", "record", "render", "retry", "route", "schema", "session", "signal", "socket", "stream",
    "table", "ticket", "token", "trace", "user", "vector", "widget", "window", "writer",
];

/// Writes files of functions with names of the list, the same each time. Returns their size.
pub fn fill(root: &Path) -> Result<usize, Box<dyn std::error::Error>> {
    let mut seed = 7_u64;
    let mut word = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        WORDS[(seed >> 33) as usize % WORDS.len()]
    };
    let mut bytes = 0;
    for number in 0..FILES {
        let directory = root.join(format!("pkg{:02}/m{:03}", number / 50 % 20, number / 50));
        if number % 50 == 0 {
            fs::create_dir_all(&directory)?;
        }
        let mut text = String::new();
        while text.lines().count() < LINES {
            let (one, two, three) = (word(), word(), word());
            writeln!(text, "/// Returns the {one} of a {two}, unless the {three} is closed.")?;
            writeln!(text, "pub fn {one}_{two}{number}({three}: &{}) -> Option<u64> {{", word())?;
            for _ in 0..8 {
                writeln!(
                    text,
                    "    let {} = {}.{}({}::{}_{});",
                    word(),
                    word(),
                    word(),
                    word(),
                    word(),
                    word()
                )?;
            }
            text.push_str("    Some(1)\n}\n\n");
        }
        bytes += text.len();
        fs::write(directory.join(format!("f{:02}.rs", number % 50)), text)?;
    }
    Ok(bytes)
}
