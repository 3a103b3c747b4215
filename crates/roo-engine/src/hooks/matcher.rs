//! The matchers of the contract: everything, a list of exact names, or a regular expression.

use fancy_regex::{Regex, RegexBuilder};
use roo_formats::hooks::EventName;

/// The longest pattern, in bytes.
const PATTERN_LENGTH: usize = 1000;
/// The largest compiled pattern, in bytes.
const PATTERN_SIZE: usize = 1 << 20;
/// Maximum number of backtracking steps of a look-around for one name. All else is linear.
const PATTERN_STEPS: usize = 10_000;

/// For which tools, modes or words a hook runs.
#[derive(Clone, Debug)]
pub enum Matcher {
    /// `*`, an empty text, or none.
    All,
    /// Exactly one of these.
    Names(Vec<String>),
    /// A pattern that matches anywhere, as in JavaScript.
    Pattern(Box<Regex>),
}

/// Reason why a matcher can't be used, in one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MatcherError(String);

impl Matcher {
    /// Reads a matcher. Which form it has depends on its characters, and a little on the event.
    ///
    /// # Errors
    /// When it is no regular expression, or too large.
    pub fn parse(text: &str, event: EventName) -> Result<Self, MatcherError> {
        if matches!(text, "" | "*") {
            return Ok(Self::All);
        }
        // What errors are called has a narrower form in the contract.
        let narrow = event == EventName::StopFailure;
        let is_plain = |c: char| {
            c.is_ascii_alphanumeric() || matches!(c, '_' | '|') || (!narrow && matches!(c, '-' | ' ' | ','))
        };
        if text.chars().all(is_plain) {
            let apart = |c: char| c == '|' || (!narrow && c == ',');
            let names = text.split(apart).map(str::trim).filter(|name| !name.is_empty());
            return Ok(Self::Names(names.map(str::to_owned).collect()));
        }
        if text.len() > PATTERN_LENGTH {
            return Err(MatcherError(format!("it has more than {PATTERN_LENGTH} bytes")));
        }
        let compiled =
            RegexBuilder::new(text).backtrack_limit(PATTERN_STEPS).delegate_size_limit(PATTERN_SIZE).build();
        let pattern = compiled.map_err(|error| {
            let text = error.to_string();
            // What the engine says of one that outgrows its limit.
            let is_large = text.contains("building NFA");
            let reason = if is_large { "it is too large" } else { text.lines().last().unwrap_or_default() };
            MatcherError(reason.to_owned())
        })?;
        Ok(Self::Pattern(Box::new(pattern)))
    }

    /// The first of these names that it matches. A name on which a pattern goes back too often counts as
    /// matched: a hook that guards something rather runs once too often.
    pub fn first<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
        names.into_iter().find(|name| match self {
            Self::All => true,
            Self::Names(wanted) => wanted.iter().any(|wanted| wanted == name),
            Self::Pattern(pattern) => pattern.is_match(name).unwrap_or(true),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(matcher: &str, name: &str) -> bool {
        Matcher::parse(matcher, EventName::PreToolUse).unwrap().first([name]).is_some()
    }

    #[test]
    fn everything_matches_what_says_nothing() {
        for matcher in ["", "*"] {
            assert!(matches(matcher, "Bash"));
        }
    }

    #[test]
    fn plain_names_are_exact_and_may_be_several() {
        assert!(matches("Bash", "Bash") && !matches("Bash", "BashOutput") && !matches("bash", "Bash"));
        for list in ["Edit|Write", "Edit, Write", " Edit | Write ", "Edit,Write|"] {
            assert!(matches(list, "Edit") && matches(list, "Write"), "{list}");
            assert!(!matches(list, "MultiEdit") && !matches(list, ""), "{list}");
        }
        assert!(matches("code-reviewer", "code-reviewer"));
        assert!(!matches("code-reviewer", "senior-code-reviewer"));
        // A server's prefix is a name that no tool has.
        assert!(!matches("mcp__memory", "mcp__memory__store"));
    }

    #[test]
    fn other_characters_make_a_pattern_that_matches_anywhere() {
        assert!(matches("Edit.*", "MultiEdit") && !matches("^Edit$", "MultiEdit"));
        assert!(matches("mcp__.*__write.*", "mcp__files__write_all"));
        assert!(matches("mcp__memory__.*", "mcp__memory__store"));
        assert!(matches("^(?!Bash$)", "Read") && !matches("^(?!Bash$)", "Bash"));
    }

    #[test]
    fn the_names_of_errors_are_told_apart_by_bars_alone() {
        let matcher = Matcher::parse("rate_limit|overloaded", EventName::StopFailure).unwrap();
        assert!(matcher.first(["overloaded"]).is_some());
        let matcher = Matcher::parse("rate_limit, overloaded", EventName::StopFailure).unwrap();
        assert!(matcher.first(["overloaded"]).is_none());
    }

    #[test]
    fn what_is_no_pattern_or_too_large_is_refused() {
        let error = |text: &str| Matcher::parse(text, EventName::PreToolUse).unwrap_err().to_string();
        assert!(!error("(").contains('\n'));
        assert_eq!(error("(a{1000}){1000}"), "it is too large");
        assert_eq!(error(&".".repeat(1001)), "it has more than 1000 bytes");
    }

    #[test]
    fn a_pattern_that_would_take_for_ever_counts_as_matched() {
        let matcher = Matcher::parse(r"^(?:a|a(?=a))+$", EventName::PreToolUse).unwrap();
        let name = format!("{}b", "a".repeat(60));
        assert!(matcher.first([name.as_str()]).is_some());
    }

    proptest::proptest! {
        #[test]
        fn no_matcher_is_too_strange(text in r"[a-c()\[\]{}*+?.|\\^$!=<>, -]{0,30}", name in "[a-c_]{0,20}") {
            if let Ok(matcher) = Matcher::parse(&text, EventName::PreToolUse) {
                let _ = matcher.first([name.as_str()]);
            }
        }
    }
}
