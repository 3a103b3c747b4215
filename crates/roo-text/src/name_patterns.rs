//! Lists of patterns for paths, in the syntax of `.gitignore`. Pure; no path is looked up here.
//!
//! They compare as the most lenient file system does (`fold`), because they take something away: a spelling that
//! one system tells apart and another doesn't must not be a way around them.

use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::lines::BOM;
use super::names::fold;

/// Patterns that were understood.
#[derive(Clone, Debug)]
pub struct NamePatterns(Gitignore);

/// A pattern that can't be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PatternError {
    /// Its line, from 0.
    pub line: usize,
    /// Problem.
    pub message: String,
}

impl NamePatterns {
    /// Reads the lines of a list. A later `!pattern` takes back what an earlier pattern of the same list covers.
    ///
    /// # Errors
    /// Every line that is no pattern.
    pub fn parse<'a>(lines: impl IntoIterator<Item = &'a str>) -> Result<Self, Vec<PatternError>> {
        let mut builder = GitignoreBuilder::new("");
        let mut errors = Vec::new();
        for (line, pattern) in lines.into_iter().enumerate() {
            let pattern = if line == 0 { pattern.strip_prefix(BOM).unwrap_or(pattern) } else { pattern };
            if let Err(error) = builder.add_line(None, &fold(pattern)) {
                errors.push(PatternError { line, message: error.to_string() });
            }
        }
        match builder.build() {
            Ok(matcher) if errors.is_empty() => Ok(Self(matcher)),
            Ok(_) => Err(errors),
            Err(error) => Err([errors, vec![PatternError { line: 0, message: error.to_string() }]].concat()),
        }
    }

    /// The pattern, folded, that covers a path relative to the root of the list, or a directory above it.
    ///
    /// Whether the path leads to a directory isn't asked: a pattern for directories covers a file of that name too.
    pub fn covering(&self, relative: &str) -> Option<&str> {
        let folded = fold(relative);
        let relative = folded.trim_matches('/');
        if self.0.is_empty() || relative.is_empty() {
            return None;
        }
        // From the top down: as in git, what is below a covered directory can't be had back by a `!`.
        let mut ends = relative.match_indices('/').map(|(end, _)| end).chain([relative.len()]);
        ends.find_map(|end| match self.0.matched(&relative[..end], true) {
            ignore::Match::Ignore(glob) => Some(glob.original()),
            ignore::Match::None | ignore::Match::Whitelist(_) => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covering(list: &str, path: &str) -> Option<String> {
        NamePatterns::parse(list.lines()).unwrap().covering(path).map(str::to_owned)
    }

    #[test]
    fn a_pattern_covers_a_path_and_all_below_it_however_it_is_spelled() {
        let list = "# ours\n\n/infra/\n*.tf\ndocs/adr/*.md\n";
        for path in ["infra", "infra/a/b", "INFRA/x", "\u{ff49}nfra/x", "a/b/Main.TF", "docs/adr/1.md"] {
            assert!(covering(list, path).is_some(), "{path}");
        }
        for path in ["", "a/infra", "infrastructure", "docs/adr/deep/1.md", "docs/1.md"] {
            assert_eq!(covering(list, path), None, "{path}");
        }
        assert_eq!(covering(list, "a/b.tf").as_deref(), Some("*.tf"));
    }

    #[test]
    fn a_list_takes_back_only_what_it_gave_itself() {
        let list = "*.tf\n!free.tf\ninfra/\n!infra/free.tf\n";
        assert_eq!(covering(list, "free.tf"), None);
        assert!(covering(list, "infra/free.tf").is_some(), "its directory is covered");
    }

    #[test]
    fn lines_that_are_no_patterns_are_told() {
        let errors = NamePatterns::parse(["\u{feff}a", "b{", "c"]).unwrap_err();
        assert_eq!(errors.iter().map(|error| error.line).collect::<Vec<_>>(), [1]);
        assert!(errors[0].message.contains("unclosed"), "{}", errors[0].message);
    }
}
