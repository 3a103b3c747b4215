//! `.rooignore` against a plain reading of what gitignore says: segment by segment, last rule first, and what
//! is below an ignored directory can't be had back.

use roo_workspace::is_ignored;

use crate::Input;

const PATTERN: [&str; 9] = ["a", "b", "ab", "*", "?", "a*", "*b", "**", ".a"];
const NAMES: [&str; 6] = ["a", "b", "ab", "aab", ".a", "c"];

struct Rule {
    segments: Vec<&'static str>,
    is_anchored: bool,
    is_directory: bool,
    is_negated: bool,
}

/// The property.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let rules: Vec<Rule> = (0..1 + input.below(4)).map(|_| rule(&mut input)).collect();
    let text: String = rules.iter().map(|rule| written(rule) + "\n").collect();
    for _ in 0..4 {
        let names: Vec<&str> = (0..1 + input.below(4)).map(|_| input.one(&NAMES)).collect();
        let is_directory = input.byte() % 2 == 0;
        let path = names.join("/");
        let expected = plainly(&rules, &names, is_directory);
        let found = is_ignored(&text, &path, is_directory).expect("the rules are plain");
        assert_eq!(found, expected, "{path} (directory: {is_directory}) by {text:?}");
    }
    // Anything else only must not panic.
    let mut raw = input.text();
    let path = raw.split_off(raw.char_indices().nth(raw.chars().count() / 2).map_or(0, |(at, _)| at));
    let _ = is_ignored(&raw, &path, false);
}

fn rule(input: &mut Input<'_>) -> Rule {
    let flags = input.byte();
    let segments: Vec<&str> = (0..1 + input.below(3)).map(|_| input.one(&PATTERN)).collect();
    Rule {
        is_anchored: flags & 1 != 0 || segments.len() > 1,
        is_directory: flags & 2 != 0,
        is_negated: flags & 4 != 0,
        segments,
    }
}

fn written(rule: &Rule) -> String {
    let negation = if rule.is_negated { "!" } else { "" };
    let anchor = if rule.is_anchored && rule.segments.len() == 1 { "/" } else { "" };
    let end = if rule.is_directory { "/" } else { "" };
    format!("{negation}{anchor}{}{end}", rule.segments.join("/"))
}

fn plainly(rules: &[Rule], names: &[&str], is_directory: bool) -> bool {
    (1..=names.len()).any(|length| {
        let is_directory = is_directory || length < names.len();
        let last = rules.iter().rev().find(|rule| {
            (!rule.is_directory || is_directory)
                && (matches(&rule.segments, &names[..length])
                    || (!rule.is_anchored && matches(&rule.segments, &names[length - 1..length])))
        });
        last.is_some_and(|rule| !rule.is_negated)
    })
}

fn matches(segments: &[&str], names: &[&str]) -> bool {
    match (segments, names) {
        ([], []) => true,
        // At the end it stands for everything inside, so for one name at least.
        (["**"], names) => !names.is_empty(),
        (["**", rest @ ..], names) => (0..=names.len()).any(|skip| matches(rest, &names[skip..])),
        ([segment, segments @ ..], [name, names @ ..]) => {
            fits(segment.as_bytes(), name.as_bytes()) && matches(segments, names)
        }
        _ => false,
    }
}

fn fits(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern, name) {
        ([], []) => true,
        ([b'*', rest @ ..], name) => (0..=name.len()).any(|skip| fits(rest, &name[skip..])),
        ([b'?', pattern @ ..], [_, name @ ..]) => fits(pattern, name),
        ([one, pattern @ ..], [other, name @ ..]) => one == other && fits(pattern, name),
        _ => false,
    }
}
