//! Whether a regular expression matches what of a text is shown, and not only the secrets in it or the masks in their place.

use std::ops::Range;
use std::sync::OnceLock;

use regex_automata::meta::{Config, Regex};
use regex_automata::{Input, util::syntax};

/// The beginning of what stands in place of a secret; it ends with a bracket.
const MASK: &str = "[masked: ";

/// Looks for an expression outside of masks. It is made when the first text with a secret is met.
pub(super) struct UnmaskedLines<'a> {
    expression: &'a str,
    /// Bound of the compiled expression, in bytes.
    limit: usize,
    regex: OnceLock<Option<Regex>>,
}

impl<'a> UnmaskedLines<'a> {
    /// For an expression that has been compiled for lines already.
    pub(super) fn new(expression: &'a str, limit: usize) -> Self {
        Self { expression, limit, regex: OnceLock::new() }
    }

    /// Returns whether a line matches outside of masks. What is found by the secrets of a text, or by the masks in their place,
    /// would tell whoever searches what they are.
    pub(super) fn are_found(&self, text: &str, masked: &str) -> bool {
        let Some(regex) = self.regex.get_or_init(|| self.compile()) else { return false };
        text.lines().zip(masked.lines()).any(|(line, shown)| match line == shown {
            true => regex.is_match(line),
            // What is around it still counts at the edge of a part, so that `$` is no mask's begin.
            false => unmasked_parts(shown).any(|part| regex.is_match(Input::new(shown).range(part))),
        })
    }

    /// Returns the first match in a line as it is shown, outside of masks.
    pub(super) fn first_match(&self, shown: &str) -> Option<Range<usize>> {
        let regex = self.regex.get_or_init(|| self.compile()).as_ref()?;
        let find = |part| regex.find(Input::new(shown).range(part)).map(|found| found.range());
        match shown.contains(MASK) {
            true => unmasked_parts(shown).find_map(find),
            false => find(0..shown.len()),
        }
    }

    fn compile(&self) -> Option<Regex> {
        // As the search takes it, which finds bytes too.
        let bytes = syntax::Config::new().utf8(false);
        let bounds = Config::new()
            .utf8_empty(false)
            .nfa_size_limit(Some(self.limit))
            .hybrid_cache_capacity(self.limit);
        Regex::builder().syntax(bytes).configure(bounds).build(self.expression).ok()
    }
}

/// The parts of a line that are not masked; none of a line where a mask goes on that began above.
fn unmasked_parts(line: &str) -> impl Iterator<Item = Range<usize>> {
    let mut parts = Vec::new();
    let mut begin = 0;
    while let Some(at) = line[begin..].find(MASK).map(|at| begin + at) {
        let Some(end) = line[at..].find(']').map(|end| at + end + 1) else { break };
        parts.push(begin..at);
        begin = end;
    }
    if begin > 0 {
        parts.push(begin..line.len());
    }
    parts.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "name = x\nkey = ghp_abc; rest\nlast\n";
    const MASKED: &str = "name = x\nkey = [masked: GitHub token]; rest\nlast\n";

    #[test]
    fn what_is_beside_a_mask_is_found_and_what_is_under_it_is_not() {
        let found = |expression| UnmaskedLines::new(expression, 1 << 20).are_found(TEXT, MASKED);
        for expression in ["name", "^last$", "key =", r"key\s*=.*", "rest$", r"^\w+ = ", "; r"] {
            assert!(found(expression), "{expression}");
        }
        for expression in
            ["ghp_a", "masked", r"key = \[", "key = g", "key = $", "^; rest", "GitHub|ghp_a", r"= ghp_[a-m]"]
        {
            assert!(!found(expression), "{expression}");
        }
    }

    #[test]
    fn the_first_match_of_a_line_is_outside_of_its_masks() {
        let line = "key = [masked: GitHub token]; rest";
        let found = |expression, line| UnmaskedLines::new(expression, 1 << 20).first_match(line);
        assert_eq!(found("e.", line), Some(1..3));
        assert_eq!(found("to|re", line), Some(30..32));
        assert_eq!(found("GitHub", line), None);
        assert_eq!(found("to", "a token"), Some(2..4));
    }

    #[test]
    fn a_line_within_a_mask_of_several_lines_has_nothing_to_find() {
        let found = |expression| {
            UnmaskedLines::new(expression, 1 << 20).are_found("a\nb\nc\n", "[masked: private key]\n\nc\n")
        };
        assert!(found("c") && !found("b") && !found("^$"));
    }
}
