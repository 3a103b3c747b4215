//! Reading the files of one directory that holds `.roo` and `.agents`: bounded, and from a workspace
//! nothing that may not be read, wherever links lead.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

use super::Scope;
use super::access::{self, Withheld};
use roo_formats::{FileProblem, Position, TextRange};
use roo_text::render;
use roo_workspace::{Ignores, PathError, Purpose, Resolved, RootError, Roots};

/// The most entries of a directory.
const MAX_ENTRIES: usize = 1000;

/// A home directory or a workspace root.
pub(super) struct CustomizationDirectory {
    roots: Roots,
    ignores: Ignores,
    path: PathBuf,
    pub(super) scope: Scope,
}

/// Reasons why a file can't be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refused {
    #[error("{0}")]
    Path(#[from] PathError),
    #[error(transparent)]
    Withheld(#[from] Withheld),
}

impl CustomizationDirectory {
    pub(super) fn open(path: &Path, scope: Scope) -> Result<Self, RootError> {
        let roots = Roots::open(&[path.to_path_buf()])?;
        Ok(Self { roots, ignores: Ignores::new(1), path: path.to_path_buf(), scope })
    }

    /// The path of something below, for people.
    pub(super) fn path(&self, below: &str) -> PathBuf {
        self.path.join(below)
    }

    /// The names below a directory, sorted; none when it is missing. Names that aren't UTF-8 are left
    /// out.
    pub(super) fn names(&self, below: &str) -> Result<Vec<String>, FileProblem> {
        let problem = |message: String| FileProblem::error(&self.path(below), None, message);
        let place = match self.find(below, Purpose::List) {
            Err(Refused::Path(PathError::NotFound { .. })) => return Ok(Vec::new()),
            found => found.map_err(|error| problem(error.to_string()))?,
        };
        let list = || -> io::Result<Vec<String>> {
            let entries = place.absolute().read_dir()?.take(MAX_ENTRIES + 1);
            let names = entries.map(|entry| Ok(entry?.file_name().into_string().ok()));
            Ok(names.collect::<io::Result<Vec<_>>>()?.into_iter().flatten().collect())
        };
        let mut names = list().map_err(|error| problem(format!("The directory can't be listed: {error}")))?;
        if names.len() > MAX_ENTRIES {
            let message = format!("It has more than {MAX_ENTRIES} entries, so nothing is loaded from it.");
            return Err(problem(message));
        }
        names.sort();
        Ok(names)
    }

    /// Resolves a path below, if it may be read.
    pub(super) fn find(&self, below: &str, purpose: Purpose) -> Result<Resolved, Refused> {
        let place = self.roots.resolve(below, purpose)?;
        if self.scope == Scope::Project {
            access::check(&self.ignores, &place, place.relative() != below)?;
        }
        Ok(place)
    }
}

/// A text without characters that can't be seen, and what begins with the first that is suspicious.
pub(super) fn without_hidden(text: &str) -> (Cow<'_, str>, Option<TextRange>) {
    let (shown, first) = render::without_hidden(text);
    let before = first.and_then(|first| text.get(..first));
    let place = |before: &str| {
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        TextRange::at(text, Position { line, column })
    };
    (shown, before.map(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_are_left_out_and_found() {
        assert_eq!(without_hidden("plain\r\n\ttext").0, "plain\r\n\ttext");
        let (text, first) = without_hidden("a\nb\u{e0041}\u{200b}c");
        let first = first.map(|range| range.start);
        assert_eq!((text.as_ref(), first), ("a\nbc", Some(Position { line: 2, column: 2 })));
        let (text, first) = without_hidden("\u{26a0}\u{fe0f} Careful");
        assert_eq!((text.as_ref(), first), ("\u{26a0} Careful", None));
    }
}
