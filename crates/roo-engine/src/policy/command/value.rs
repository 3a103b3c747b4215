//! Values of a line's words when they reach a program, as far as that is known without running anything.

use std::collections::{BTreeMap, BTreeSet};

/// The most directories that a command may run in, one of which it will be.
const DIRECTORIES: usize = 8;

/// The value of a variable, or what a substitution prints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Text {
    /// Exactly this.
    Known(String),
    /// The name of a file that is there now.
    Found(String),
    /// Digits.
    Number,
    /// Anything.
    Unknown,
}

/// Degrees to which an argument is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It is this text.
    Exact,
    /// It is this text, and came from the name of a file that is there now.
    Found,
    /// It is this text, but for digits in place of some of it.
    Number,
    /// It stands for the names of files that this pattern fits, of which so many bytes are no pattern.
    Pattern(usize),
    /// It begins with this text.
    Unknown,
}

/// A word as a program gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Argument {
    /// Known part of its text.
    pub(super) text: String,
    pub(super) kind: Kind,
}

impl Argument {
    /// The text, where it is known and the line's own.
    pub(super) fn exact(&self) -> Option<&str> {
        (self.kind == Kind::Exact).then_some(&self.text)
    }

    /// As the value of a variable.
    pub(super) fn into_text(self) -> Text {
        match self.kind {
            Kind::Exact => Text::Known(self.text),
            Kind::Found => Text::Found(self.text),
            Kind::Number if self.text.bytes().all(|byte| byte.is_ascii_digit()) => Text::Number,
            // A pattern that is set stays one until it is used.
            Kind::Number | Kind::Pattern(_) | Kind::Unknown => Text::Unknown,
        }
    }
}

/// State that a command finds when it starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State {
    /// Directories in one of which it runs, from the place of the line.
    pub(super) directories: BTreeSet<String>,
    /// The variables that the line has set and whose values are known.
    pub(super) variables: BTreeMap<String, Text>,
}

impl State {
    /// At the beginning of a line.
    pub(super) fn new() -> Self {
        Self { directories: BTreeSet::from([String::new()]), variables: BTreeMap::new() }
    }

    /// One or the other.
    ///
    /// # Errors
    /// When it may then run in too many directories.
    pub(super) fn or(mut self, other: Self) -> Result<Self, String> {
        self.directories.extend(other.directories);
        if self.directories.len() > DIRECTORIES {
            return Err("it changes the directory too often".to_owned());
        }
        self.variables.retain(|name, value| other.variables.get(name) == Some(value));
        Ok(self)
    }
}

/// Returns whether a text is one word wherever the shell splits it, and no pattern.
pub(super) fn is_one_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || "_./@%+=:,-^~#{}".contains(c))
}

/// A path from another one, as the shell's `cd` makes it: `..` takes away what stands before it. Outside of the place
/// of the line it is absolute. None where it climbs above everything.
pub(super) fn join(from: &str, to: &str, place: &str) -> Option<String> {
    let absolute = match (to.starts_with('/'), from.starts_with('/')) {
        (true, _) => to.to_owned(),
        (false, true) => format!("{from}/{to}"),
        (false, false) => format!("{place}/{from}/{to}"),
    };
    let mut names: Vec<&str> = Vec::new();
    for name in absolute.split('/').filter(|name| !matches!(*name, "" | ".")) {
        match name {
            ".." => {
                names.pop()?;
            }
            name => names.push(name),
        }
    }
    let joined = format!("/{}", names.join("/"));
    Some(match joined.strip_prefix(place.trim_end_matches('/')) {
        Some("") => String::new(),
        Some(below) if below.starts_with('/') => below[1..].to_owned(),
        _ => joined,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_joined_as_the_shell_does() {
        let check = |from: &str, to: &str, joined: Option<&str>| {
            assert_eq!(join(from, to, "/w/s").as_deref(), joined, "{from} {to}");
        };
        check("", "a/b", Some("a/b"));
        check("a", "./b/", Some("a/b"));
        check("a/b", "..", Some("a"));
        check("a", "..", Some(""));
        check("a", "../..", Some("/w"));
        check("/w", "s/a", Some("a"));
        check("", "/w/s", Some(""));
        check("", "/w/sa", Some("/w/sa"));
        check("a", "../../../../..", None);
        assert_eq!(join("", "/a", "/").as_deref(), Some("a"));
    }

    #[test]
    fn what_falls_apart_is_no_word() {
        for text in ["a", "src/a-b_c.rs", "v1.2", "é"] {
            assert!(is_one_word(text), "{text}");
        }
        for text in ["", "a b", "a\tb", "a*", "a?", "[a]", "a\\b", "a'b", "$a"] {
            assert!(!is_one_word(text), "{text}");
        }
    }

    #[test]
    fn what_holds_on_both_ways_holds() {
        let state = |directory: &str, value: &str| State {
            directories: BTreeSet::from([directory.to_owned()]),
            variables: BTreeMap::from([
                ("a".to_owned(), Text::Known("1".to_owned())),
                ("b".to_owned(), Text::Known(value.to_owned())),
            ]),
        };
        let both = state("x", "1").or(state("y", "2")).unwrap();
        assert_eq!(both.directories.len(), 2);
        assert_eq!(both.variables.keys().collect::<Vec<_>>(), ["a"]);
        let many = (0..=DIRECTORIES).try_fold(state("", ""), |all, n| all.or(state(&n.to_string(), "")));
        assert!(many.is_err());
    }
}
