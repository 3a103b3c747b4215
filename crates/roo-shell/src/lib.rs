//! Meaning of a command line, as bash would read it, without running anything.
//!
//! A line is read three times, because no single reading can serve both sides of a policy. [`read`] takes
//! it apart by a full grammar of the shell's language: every simple command, wherever it stands. `strict`
//! reads it once more by the shell's own lexical rules, as far as they are the same everywhere (lists, pipes,
//! redirections, groups, loops, conditions, plain expansions), and only a [`structure`] that both readings
//! agree on can be allowed. [`scan()`] looks for commands in anything at all, also where the grammar finds
//! only errors; it serves to refuse, never to allow.
//!
//! What commands mean, and whether they may run, is for `roo_engine::policy::command`.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![warn(unreachable_pub)]

mod construct;
mod scan;
mod script;
mod strict;
pub mod structure;
mod tree;
mod word;

pub use construct::{Document, Join, Way};
pub use scan::{Seen, scan};
pub use script::{Command, Problem, Redirect, Script, Word};
pub use tree::read;
pub use word::{Opaque, Pattern, Value};

/// The longest line that is taken apart, in bytes.
pub const LINE_BYTES: usize = 16 * 1024;
/// The most characters of syntax in a line that is taken apart: what the grammar's time grows with.
pub const SYNTAX_CHARACTERS: usize = 2048;
/// The most commands in a line that can still be plain.
pub const PLAIN_COMMANDS: usize = 50;
/// Maximum nesting of constructs.
pub const DEPTH: usize = 64;

/// Returns whether a word sets a variable when it stands before a command.
pub fn is_assignment(word: &str) -> bool {
    word.split_once('=')
        .is_some_and(|(name, _)| word::is_variable_name(name.strip_suffix('+').unwrap_or(name)))
}

/// The characters that could make a line look like another one, or mean different things to different shells: controls,
/// blanks other than the space, and what can't be seen. What only holds an emoji together hides nothing.
pub fn deceptive_characters(line: &str) -> impl Iterator<Item = char> + '_ {
    let mut rest = line.chars().peekable();
    let mut before = None;
    std::iter::from_fn(move || {
        loop {
            let c = rest.next()?;
            let previous = before.replace(c);
            if is_deceptive(c) && !roo_text::render::is_of_emoji(previous, c, rest.peek().copied()) {
                return Some(c);
            }
        }
    })
}

fn is_deceptive(c: char) -> bool {
    c != '\n' && (c.is_control() || (c.is_whitespace() && c != ' ') || roo_text::render::is_invisible(c))
}

#[cfg(test)]
mod tests;
