//! Scope of an intent: globs over paths relative to a root, `/` separated.
//!
//! `*` stays within a name, `**` goes over names, and neither matches a name that begins with a dot
//! unless the pattern's own name does. `src/**` covers what is below `src`, not `src` itself; a pattern
//! without a wildcard covers a file of that name or what is below a directory of that name. A leading `!`
//! excludes, whatever the order; exclusions ignore case and characters that can't be seen. Matching takes
//! time linear in the path for each pattern.

use globset::{GlobBuilder, GlobMatcher};

use roo_text::names::fold;
use roo_text::render::is_invisible;

/// The longest pattern, in bytes.
const MAX_PATTERN_BYTES: usize = 1024;
/// The most patterns of a scope, alternatives in braces counted one by one.
const MAX_PATTERNS: usize = 1000;
/// Pattern that matches any number of names, including none.
const ANY_DEPTH: &str = "**";

/// The files that an intent owns.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    granted: Vec<Pattern>,
    excluded: Vec<Pattern>,
}

/// Answer of a scope for a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Covered {
    /// It is owned, by this pattern.
    By(String),
    /// It is left out, by this pattern.
    Excluded(String),
    /// No pattern names it.
    No,
}

/// A pattern that can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the pattern `{pattern}` can't be used: {why}")]
pub struct BadPattern {
    /// Index in the list, from 0; none when the list as a whole is meant.
    pub index: Option<usize>,
    /// As written.
    pub pattern: String,
    /// Problem and remedy.
    pub why: String,
}

/// Literal beginning of a pattern: as far as it names places literally.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Prefix {
    /// Relative to the root; empty for the root itself.
    pub path: String,
    /// True if the pattern is nothing but this path.
    pub whole: bool,
}

#[derive(Clone, Debug)]
struct Pattern {
    /// As written, without the `!`.
    text: String,
    names: Vec<Name>,
    /// True if it has no wildcard, so that what is below is covered too.
    literal: bool,
}

#[derive(Clone, Debug)]
enum Name {
    AnyDepth,
    Literal(String),
    Wild { text: String, matcher: GlobMatcher },
}

impl Name {
    fn text(&self) -> &str {
        match self {
            Self::AnyDepth => ANY_DEPTH,
            Self::Literal(text) | Self::Wild { text, .. } => text,
        }
    }

    fn matches(&self, name: &str, dots: Dots) -> bool {
        match self {
            Self::AnyDepth => dots.are_plain() || !name.starts_with('.'),
            Self::Literal(text) => text == name,
            Self::Wild { text, matcher } => {
                (dots.are_plain() || !name.starts_with('.') || text.starts_with('.'))
                    && matcher.is_match(name)
            }
        }
    }
}

/// Treatment of a leading dot by wildcards.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Dots {
    Plain,
    Explicit,
}

impl Dots {
    fn are_plain(self) -> bool {
        self == Self::Plain
    }
}

impl Scope {
    /// Reads a list of patterns.
    ///
    /// # Errors
    /// Every pattern that can't be used; an empty list; one with exclusions alone. A scope with a bad
    /// pattern is none: leaving the pattern out could grant what it was to exclude.
    pub fn parse<S: AsRef<str>>(patterns: &[S]) -> Result<Self, Vec<BadPattern>> {
        let mut scope = Self::default();
        let mut bad = Vec::new();
        for (index, pattern) in patterns.iter().map(AsRef::as_ref).enumerate() {
            let (excludes, text) = match pattern.strip_prefix('!') {
                Some(rest) => (true, rest),
                None => (false, pattern),
            };
            let list = if excludes { &mut scope.excluded } else { &mut scope.granted };
            match Pattern::parse(text, excludes) {
                Ok(patterns) => list.extend(patterns),
                Err(why) => bad.push(BadPattern { index: Some(index), pattern: pattern.to_owned(), why }),
            }
        }
        let whole = |why: &str| BadPattern { index: None, pattern: String::new(), why: why.to_owned() };
        if bad.is_empty() && scope.granted.is_empty() {
            bad.push(whole("it grants nothing: add at least one pattern that doesn't start with `!`"));
        }
        if scope.granted.len() + scope.excluded.len() > MAX_PATTERNS {
            bad.push(whole("it has more than 1000 patterns; name directories instead of files"));
        }
        if bad.is_empty() { Ok(scope) } else { Err(bad) }
    }

    /// Returns the scope's answer for a path relative to the root, as it is on disk.
    pub fn covers(&self, relative: &str) -> Covered {
        let names: Vec<&str> = relative.split('/').collect();
        if relative.is_empty() || names.iter().any(|name| matches!(*name, "" | "." | "..")) {
            return Covered::No;
        }
        if !self.excluded.is_empty() {
            let folded = fold(relative);
            let folded: Vec<&str> = folded.split('/').collect();
            if let Some(pattern) = self.excluded.iter().find(|pattern| pattern.matches(&folded, Dots::Plain))
            {
                return Covered::Excluded(format!("!{}", pattern.text));
            }
        }
        match self.granted.iter().find(|pattern| pattern.matches(&names, Dots::Explicit)) {
            Some(pattern) => Covered::By(pattern.text.clone()),
            None => Covered::No,
        }
    }

    /// Pairs of patterns of both scopes that may cover one path. Exclusions don't count.
    pub fn overlaps(&self, other: &Self) -> Vec<(String, String)> {
        let mut pairs = Vec::new();
        for one in &self.granted {
            for another in &other.granted {
                if meet(one, another) && !pairs.contains(&(one.text.clone(), another.text.clone())) {
                    pairs.push((one.text.clone(), another.text.clone()));
                }
            }
        }
        pairs
    }

    /// The granted patterns that may cover what no granted pattern of `other` covers. Where that can't be
    /// told, a pattern counts as one. Exclusions don't count.
    pub fn wider_than(&self, other: &Self) -> Vec<String> {
        let is_new = |pattern: &&Pattern| !other.granted.iter().any(|known| takes_in(known, pattern));
        let mut wider: Vec<String> =
            self.granted.iter().filter(is_new).map(|pattern| pattern.text.clone()).collect();
        wider.dedup();
        wider
    }

    /// [`Self::wider_than`], and the exclusions of `other` that are missing.
    pub fn beyond(&self, other: &Self) -> Vec<String> {
        let kept = |lost: &&Pattern| !self.excluded.iter().any(|kept| kept.text == lost.text);
        let lost = other.excluded.iter().filter(kept).map(|pattern| format!("no longer !{}", pattern.text));
        let mut beyond = self.wider_than(other);
        beyond.extend(lost);
        beyond.dedup();
        beyond
    }

    /// Returns the directories and files below which it grants anything; one within another is left out.
    pub fn prefixes(&self) -> Vec<Prefix> {
        let mut prefixes: Vec<Prefix> = self.granted.iter().map(Pattern::prefix).collect();
        prefixes.sort();
        prefixes.dedup();
        let all = prefixes.clone();
        prefixes.retain(|prefix| {
            !all.iter().any(|other| {
                other != prefix
                    && !other.whole
                    && (other.path.is_empty()
                        || prefix
                            .path
                            .strip_prefix(other.path.as_str())
                            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
            })
        });
        prefixes
    }
}

impl Pattern {
    /// All alternatives of a pattern.
    fn parse(text: &str, excludes: bool) -> Result<Vec<Self>, String> {
        let text = text.strip_prefix("./").unwrap_or(text);
        if text.is_empty() {
            return Err("it is empty".to_owned());
        }
        if text.len() > MAX_PATTERN_BYTES {
            return Err(format!("it has more than {MAX_PATTERN_BYTES} bytes"));
        }
        if text.starts_with('/') {
            return Err("patterns are relative to the workspace folder; remove the leading `/`".to_owned());
        }
        if text.contains('\\') {
            return Err("it has a backslash; `/` separates names".to_owned());
        }
        if text.chars().any(|c| c.is_control() || is_invisible(c)) {
            return Err("it contains invisible characters".to_owned());
        }
        let folded = if excludes { fold(text) } else { text.to_owned() };
        alternatives(&folded)?.iter().map(|alternative| Self::one(text, alternative)).collect()
    }

    fn one(text: &str, alternative: &str) -> Result<Self, String> {
        let mut names = Vec::new();
        for name in alternative.strip_suffix('/').unwrap_or(alternative).split('/') {
            names.push(match name {
                "" => return Err("it has an empty name between two `/`".to_owned()),
                "." | ".." => return Err(format!("it must not contain `{name}`")),
                ANY_DEPTH => Name::AnyDepth,
                name if name.contains(ANY_DEPTH) => {
                    return Err("`**` must be a whole name, as in `src/**/*.rs`".to_owned());
                }
                name if name.contains(['*', '?', '[', ']']) => {
                    let glob = GlobBuilder::new(name)
                        .literal_separator(true)
                        .backslash_escape(false)
                        .build()
                        .map_err(|error| error.kind().to_string())?;
                    Name::Wild { text: name.to_owned(), matcher: glob.compile_matcher() }
                }
                name => Name::Literal(name.to_owned()),
            });
        }
        if alternative.ends_with('/') {
            names.push(Name::AnyDepth);
        }
        let literal = names.iter().all(|name| matches!(name, Name::Literal(_)));
        Ok(Self { text: text.to_owned(), names, literal })
    }

    fn matches(&self, names: &[&str], dots: Dots) -> bool {
        if self.literal {
            let own = self.names.iter().zip(names).all(|(own, name)| own.matches(name, dots));
            let below = names.get(self.names.len()..).unwrap_or_default();
            return own
                && names.len() >= self.names.len()
                && (dots.are_plain() || !below.iter().any(|name| name.starts_with('.')));
        }
        // Which beginnings of the path the names of the pattern so far match: one pass over both.
        let mut reached = vec![false; names.len() + 1];
        reached[0] = true;
        let last = self.names.len().saturating_sub(1);
        for (index, own) in self.names.iter().enumerate() {
            let mut next = vec![false; names.len() + 1];
            if matches!(own, Name::AnyDepth) {
                // At the end it stands for one name at least.
                let least = usize::from(index == last);
                for (from, _) in reached.iter().enumerate().filter(|(_, reached)| **reached) {
                    for to in from..=names.len() {
                        if to > from && !own.matches(names[to - 1], dots) {
                            break;
                        }
                        if to - from >= least {
                            if next[to] {
                                continue;
                            }
                            next[to] = true;
                        }
                    }
                }
            } else {
                for (from, name) in names.iter().enumerate() {
                    next[from + 1] = reached[from] && own.matches(name, dots);
                }
            }
            reached = next;
        }
        reached[names.len()]
            // Whoever excludes a directory excludes what is in it.
            || (dots.are_plain() && reached[1..].iter().any(|reached| *reached))
    }

    fn prefix(&self) -> Prefix {
        let literal = self.names.iter().map_while(|name| match name {
            Name::Literal(text) => Some(text.as_str()),
            _ => None,
        });
        Prefix { path: literal.collect::<Vec<_>>().join("/"), whole: self.literal }
    }

    /// As [`Self::spread`], but what looks like the name of a file has nothing below it.
    fn reach(&self) -> Vec<Vec<&Name>> {
        let mut spread = self.spread();
        if self.literal && self.names.last().is_some_and(|name| name.text().contains('.')) {
            spread.truncate(1);
        }
        spread
    }

    /// The names, with what a literal pattern covers below itself.
    fn spread(&self) -> Vec<Vec<&Name>> {
        const BELOW: &Name = &Name::AnyDepth;
        let own: Vec<&Name> = self.names.iter().collect();
        if !self.literal {
            return vec![own];
        }
        let below = own.iter().copied().chain([BELOW]).collect();
        vec![own, below]
    }
}

/// The alternatives of `{a,b}`, also nested.
fn alternatives(text: &str) -> Result<Vec<String>, String> {
    let mut done = Vec::new();
    let mut open = vec![text.to_owned()];
    while let Some(text) = open.pop() {
        let Some(begin) = text.find(['{', '}']) else {
            done.push(text);
            continue;
        };
        let unbalanced = || "a brace is not closed or not opened".to_owned();
        if text[begin..].starts_with('}') {
            return Err(unbalanced());
        }
        let (mut depth, mut parts, mut from, mut end) = (0_usize, Vec::new(), begin + 1, None);
        for (at, c) in text[begin..].char_indices().map(|(at, c)| (at + begin, c)) {
            match c {
                '{' => depth += 1,
                '}' if depth == 1 => {
                    parts.push(&text[from..at]);
                    end = Some(at + 1);
                    break;
                }
                '}' => depth -= 1,
                ',' if depth == 1 => {
                    parts.push(&text[from..at]);
                    from = at + 1;
                }
                _ => {}
            }
        }
        let end = end.ok_or_else(unbalanced)?;
        if done.len() + open.len() + parts.len() > MAX_PATTERNS {
            return Err("its braces expand to more than 1000 patterns".to_owned());
        }
        // The first alternative is looked at first.
        open.extend(parts.iter().rev().map(|part| format!("{}{part}{}", &text[..begin], &text[end..])));
    }
    Ok(done)
}

/// Returns whether some path may be covered by both.
fn meet(one: &Pattern, another: &Pattern) -> bool {
    // What looks like the name of a file is taken for one: this only tells people.
    one.reach().iter().any(|one| another.reach().iter().any(|another| sequences_meet(one, another)))
}

fn sequences_meet(one: &[&Name], another: &[&Name]) -> bool {
    // Cell (i, j): whether the rest of `one` from i and that of `another` from j may meet.
    let (rows, columns) = (one.len(), another.len());
    let mut meets = vec![vec![false; columns + 1]; rows + 1];
    for i in (0..=rows).rev() {
        for j in (0..=columns).rev() {
            meets[i][j] = match (one.get(i), another.get(j)) {
                (None, None) => true,
                (Some(Name::AnyDepth), None) => meets[i + 1][j],
                (None, Some(Name::AnyDepth)) => meets[i][j + 1],
                (Some(Name::AnyDepth), Some(Name::AnyDepth)) => meets[i + 1][j] || meets[i][j + 1],
                (Some(Name::AnyDepth), Some(name)) => {
                    meets[i + 1][j] || (!name.text().starts_with('.') && meets[i][j + 1])
                }
                (Some(name), Some(Name::AnyDepth)) => {
                    meets[i][j + 1] || (!name.text().starts_with('.') && meets[i + 1][j])
                }
                (Some(a), Some(b)) => names_meet(a, b) && meets[i + 1][j + 1],
                _ => false,
            };
        }
    }
    meets[0][0]
}

fn names_meet(one: &Name, another: &Name) -> bool {
    match (one, another) {
        (Name::Literal(name), other) | (other, Name::Literal(name)) => other.matches(name, Dots::Explicit),
        // Two names with wildcards: it may be.
        _ => one.text().starts_with('.') == another.text().starts_with('.'),
    }
}

/// Returns whether `known` surely covers all that `pattern` covers.
fn takes_in(known: &Pattern, pattern: &Pattern) -> bool {
    known.text == pattern.text
        || pattern
            .spread()
            .iter()
            .all(|names| known.spread().iter().any(|known| sequence_takes_in(known, names)))
}

fn sequence_takes_in(known: &[&Name], names: &[&Name]) -> bool {
    match (known.split_first(), names.split_first()) {
        (None, None) => true,
        // At the end it stands for one name at least.
        (Some((Name::AnyDepth, [])), None) => false,
        (Some((Name::AnyDepth, [])), Some(_)) => names.iter().all(|name| !name.text().starts_with('.')),
        (Some((Name::AnyDepth, rest)), _) => {
            sequence_takes_in(rest, names)
                || names.split_first().is_some_and(|(name, below)| {
                    !name.text().starts_with('.') && sequence_takes_in(known, below)
                })
        }
        (Some((own, rest)), Some((name, below))) => {
            let same = own.text() == name.text()
                || match (own, name) {
                    (_, Name::Literal(literal)) => own.matches(literal, Dots::Explicit),
                    (Name::Wild { text, .. }, Name::Wild { text: other, .. }) => {
                        text == "*" && !other.starts_with('.')
                    }
                    _ => false,
                };
            same && sequence_takes_in(rest, below)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    use super::*;

    fn scope(patterns: &[&str]) -> Scope {
        Scope::parse(patterns).expect("a scope")
    }

    fn grants(patterns: &[&str], path: &str) -> bool {
        matches!(scope(patterns).covers(path), Covered::By(_))
    }

    #[test]
    fn stars_stay_within_a_name_and_double_stars_do_not() {
        assert!(grants(&["src/*.rs"], "src/a.rs"));
        assert!(!grants(&["src/*.rs"], "src/a/b.rs"));
        assert!(grants(&["src/**/*.rs"], "src/b.rs"), "`**` stands for no name too");
        assert!(grants(&["src/**/*.rs"], "src/a/b/c.rs"));
        assert!(grants(&["**"], "README.md"));
        assert!(grants(&["src/{auth,middleware}/**"], "src/middleware/jwt.ts"));
        assert!(grants(&["{src,tests/{unit,it}}/**"], "tests/it/a.rs"));
        assert!(grants(&["src/[ab]?.rs"], "src/a1.rs"));
    }

    #[test]
    fn a_directory_does_not_cover_itself_nor_its_neighbours() {
        for path in ["src", "src-evil/x", "SRC/x", "src/.hidden/x", "src/../README.md", "", "src//x"] {
            assert!(!grants(&["src/**"], path), "{path}");
        }
        assert!(grants(&["src/.hidden/**"], "src/.hidden/x"));
        assert!(grants(&["src/.*/x"], "src/.hidden/x"));
    }

    #[test]
    fn a_pattern_without_a_wildcard_covers_what_is_below() {
        assert!(grants(&["src/auth"], "src/auth/a/b.rs"));
        assert!(grants(&["src/auth.ts"], "src/auth.ts"));
        assert!(!grants(&["src/auth"], "src/authority.rs"));
        assert!(!grants(&["src/auth"], "src/auth/.env"));
        assert!(grants(&["src/"], "src/a") && !grants(&["src/"], "src"));
    }

    #[test]
    fn an_exclusion_wins_whatever_its_place_and_spelling() {
        let scope = scope(&["!**/*.snap", "src/**", "!src/Secret"]);
        assert_eq!(scope.covers("src/a.snap"), Covered::Excluded("!**/*.snap".into()));
        assert_eq!(scope.covers("src/a.SNAP"), Covered::Excluded("!**/*.snap".into()));
        assert_eq!(scope.covers("src/secret/x"), Covered::Excluded("!src/Secret".into()));
        assert_eq!(scope.covers("src/se\u{200b}cret/x"), Covered::Excluded("!src/Secret".into()));
        assert_eq!(scope.covers("src/a.rs"), Covered::By("src/**".into()));
        assert!(!grants(&["**", "!**/private"], "a/private/b"), "what is in an excluded directory");
    }

    #[test]
    fn bad_patterns_make_no_scope() {
        for pattern in [
            "../**",
            "/**",
            "",
            "**/../x",
            "src/{a",
            "src/a}",
            "[",
            "src\\a",
            "a**b",
            "a//b",
            "a\u{200b}",
            ".",
        ] {
            assert!(Scope::parse(&["src/**", pattern]).is_err(), "{pattern:?}");
        }
        assert!(Scope::parse(&["!only-negative"]).is_err());
        assert!(Scope::parse::<&str>(&[]).is_err());
        let bombs = "{a,b}".repeat(12);
        assert!(Scope::parse(&[bombs]).is_err());
        assert_eq!(Scope::parse(&["a", "["]).unwrap_err()[0].index, Some(1));
    }

    #[test]
    fn overlaps_are_found() {
        let pairs = |one: &[&str], other: &[&str]| scope(one).overlaps(&scope(other)).len();
        assert_eq!(pairs(&["src/**"], &["src/auth/**"]), 1);
        assert_eq!(pairs(&["src/auth"], &["src/auth/jwt.ts"]), 1);
        assert_eq!(pairs(&["src/*.rs"], &["src/a*"]), 1);
        assert_eq!(pairs(&["src/a/**"], &["src/b/**"]), 0);
        assert_eq!(pairs(&["**/*.rs"], &["docs/a.md"]), 0);
        assert_eq!(pairs(&["src/**"], &["src/.hidden/**"]), 0);
    }

    #[test]
    fn what_goes_beyond_is_told() {
        let beyond = |new: &[&str], old: &[&str]| scope(new).beyond(&scope(old));
        assert_eq!(beyond(&["src/auth/**"], &["src/**"]), Vec::<String>::new());
        assert_eq!(beyond(&["src/auth"], &["src/**"]), Vec::<String>::new());
        assert_eq!(beyond(&["src/a/*.rs"], &["src/**/*.rs"]), Vec::<String>::new());
        assert_eq!(beyond(&["**"], &["src/**"]), ["**"]);
        assert_eq!(beyond(&["src/**", "docs/**"], &["src/**"]), ["docs/**"]);
        assert_eq!(beyond(&["src/**"], &["src/**", "!src/x"]), ["no longer !src/x"]);
        assert_eq!(beyond(&["src/.git/**"], &["src/**"]), ["src/.git/**"]);
    }

    #[test]
    fn prefixes_are_the_literal_beginnings() {
        let prefixes = |patterns: &[&str]| -> Vec<(String, bool)> {
            scope(patterns).prefixes().into_iter().map(|prefix| (prefix.path, prefix.whole)).collect()
        };
        assert_eq!(
            prefixes(&["src/**", "src/auth/*.rs", "a.txt"]),
            [("a.txt".into(), true), ("src".into(), false)]
        );
        assert_eq!(prefixes(&["*.md", "src/**"]), [(String::new(), false)]);
    }

    /// A pattern of a few names, and a path of a few names.
    fn names(of: &'static str) -> impl Strategy<Value = Vec<String>> {
        proptest::collection::vec(of, 1..5)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, rng_seed: RngSeed::Fixed(1), failure_persistence: None, ..ProptestConfig::default() })]

        /// Against a plain backtracking reading of the rules.
        #[test]
        fn patterns_match_as_the_rules_say(pattern in names("[ab*]{1,2}|\\.a|\\*\\*"), path in names("[ab]{1,2}|\\.a")) {
            let (pattern, path) = (pattern.join("/"), path.join("/"));
            if let Ok(scope) = Scope::parse(&[&pattern]) {
                let expected = reference(&pattern.split('/').collect::<Vec<_>>(), &path.split('/').collect::<Vec<_>>())
                    || (!pattern.contains('*')
                        && path.strip_prefix(&format!("{pattern}/")).is_some_and(|below| below.split('/').all(|name| !name.starts_with('.'))));
                prop_assert_eq!(matches!(scope.covers(&path), Covered::By(_)), expected, "{} {}", pattern, path);
            }
        }

        /// A scope that is said to be no wider never covers more.
        #[test]
        fn what_is_taken_in_covers_no_more(one in names("[ab*]{1,2}|\\*\\*"), other in names("[ab*]{1,2}|\\*\\*"), path in names("[ab]{1,2}|\\.a")) {
            let (one, other, path) = (one.join("/"), other.join("/"), path.join("/"));
            if let (Ok(one), Ok(other)) = (Scope::parse(&[one]), Scope::parse(&[other])) {
                let both = [&one, &other].map(|scope| matches!(scope.covers(&path), Covered::By(_)));
                if one.beyond(&other).is_empty() && both[0] {
                    prop_assert!(both[1]);
                }
                if both == [true, true] {
                    prop_assert!(!one.overlaps(&other).is_empty());
                }
            }
        }

        #[test]
        fn no_pattern_is_too_strange(pattern in "\\PC{0,20}|[{},*?\\[\\]!/.a]{0,30}", path in "\\PC{0,20}") {
            if let Ok(scope) = Scope::parse(&[&pattern]) {
                let _ = scope.covers(&path);
                let _ = scope.prefixes();
            }
        }
    }

    fn reference(pattern: &[&str], path: &[&str]) -> bool {
        match (pattern.split_first(), path.split_first()) {
            (None, None) => true,
            (Some((&"**", rest)), _) => {
                let skip = !rest.is_empty() && reference(rest, path);
                let take = path.split_first().is_some_and(|(name, below)| {
                    !name.starts_with('.')
                        && (reference(pattern, below) || (rest.is_empty() && below.is_empty()))
                });
                skip || take
            }
            (Some((own, rest)), Some((name, below))) => wild(own, name) && reference(rest, below),
            _ => false,
        }
    }

    fn wild(pattern: &str, name: &str) -> bool {
        if name.starts_with('.') && !pattern.starts_with('.') {
            return false;
        }
        match pattern.split_once('*') {
            None => pattern == name,
            Some((begin, rest)) => name.strip_prefix(begin).is_some_and(|name| {
                (0..=name.len()).filter(|&at| name.is_char_boundary(at)).any(|at| {
                    let tail = &name[at..];
                    if rest.is_empty() { tail.is_empty() } else { wild_tail(rest, tail) }
                })
            }),
        }
    }

    fn wild_tail(pattern: &str, name: &str) -> bool {
        match pattern.split_once('*') {
            None => pattern == name,
            Some((begin, rest)) => name.strip_prefix(begin).is_some_and(|name| {
                (0..=name.len()).filter(|&at| name.is_char_boundary(at)).any(|at| {
                    if rest.is_empty() { name[at..].is_empty() } else { wild_tail(rest, &name[at..]) }
                })
            }),
        }
    }
}
