//! Interpretations of the lines of a block: models copy line numbers with the lines, and some send HTML entities.

use std::borrow::Cow;
use std::collections::HashSet;

use super::format::Block;
use crate::{entities, lines};

/// The lines of a block in one reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parts<'a> {
    pub(super) start_line: Option<usize>,
    pub(super) search: Vec<Cow<'a, str>>,
    pub(super) replace: Vec<Cow<'a, str>>,
}

/// A reading without the prefixes that models copy from numbered text.
pub(super) struct Stripped<'a> {
    pub(super) parts: Parts<'a>,
    /// Some new lines have a prefix and others not, and it isn't clear what they are.
    pub(super) is_partly_numbered: bool,
}

impl<'a> Parts<'a> {
    /// The lines as they are written.
    pub(super) fn plain(block: &'a Block) -> Self {
        let lines = |lines: &'a [String]| lines.iter().map(|line| line.as_str().into()).collect();
        Self { start_line: block.start_line, search: lines(&block.search), replace: lines(&block.replace) }
    }

    pub(super) fn search(&self) -> Vec<&str> {
        self.search.iter().map(Cow::as_ref).collect()
    }

    pub(super) fn replace(&self) -> Vec<&str> {
        self.replace.iter().map(Cow::as_ref).collect()
    }

    /// Without line numbers, where every searched line has one.
    pub(super) fn without_numbers(&self) -> Option<Stripped<'a>> {
        let number = |line: &str| lines::split_number(line).map(|(_, text)| text.to_owned());
        let is_numbered = |line: &Cow<'_, str>| line.trim().is_empty() || number(line).is_some();
        self.search.iter().all(is_numbered).then(|| self.stripped(number)).flatten()
    }

    /// Without the line numbers and bars before some of the searched lines.
    pub(super) fn without_prefixes(&self) -> Option<Stripped<'a>> {
        let number = |line: &str| lines::split_number(line).map(|(_, text)| text.to_owned());
        let has_bar = self.search.iter().any(|line| bar(line).is_some());
        self.stripped(|line| number(line).or_else(|| bar(line).filter(|_| has_bar).map(str::to_owned)))
    }

    fn stripped(&self, prefix: impl Fn(&str) -> Option<String>) -> Option<Stripped<'a>> {
        if !self.search.iter().any(|line| prefix(line).is_some()) {
            return None;
        }
        let strip = |line: &Cow<'a, str>| prefix(line).map_or_else(|| line.clone(), Cow::Owned);
        let search: Vec<_> = self.search.iter().map(strip).collect();
        let first = self.search.iter().enumerate().find_map(|(index, line)| {
            lines::split_number(line)?.0.checked_sub(index).filter(|first| *first > 0)
        });
        let is_plain = |line: &&Cow<'_, str>| !line.trim().is_empty() && prefix(line).is_none();
        let is_partly_numbered = self.replace.iter().any(|line| is_plain(&line)) && {
            let known: HashSet<&str> = search.iter().map(Cow::as_ref).collect();
            let is_copied = |text: String| known.contains(text.as_str());
            !self.replace.iter().filter_map(|line| prefix(line)).all(is_copied)
        };
        let replace = self.replace.iter().map(strip).collect();
        let parts = Self { start_line: self.start_line.or(first), search, replace };
        Some(Stripped { parts, is_partly_numbered })
    }

    /// With its entities decoded, where a searched line has any.
    pub(super) fn decoded(&self) -> Option<Self> {
        let decode = |line: &Cow<'a, str>| entities::decode(line).map_or_else(|| line.clone(), Cow::Owned);
        let search: Vec<_> = self.search.iter().map(decode).collect();
        (search != self.search).then(|| Self {
            start_line: self.start_line,
            search,
            replace: self.replace.iter().map(decode).collect(),
        })
    }
}

/// A line without a bar that was left of its number.
fn bar(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix('|')?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix(' ') }
}
