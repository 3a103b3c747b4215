//! YAML between two lines of `---` at the start of a Markdown file.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod declaration;

use std::ops::Range;

use serde_json::{Map, Value};

use crate::config::yaml::{self, Step};
use crate::declaration::MismatchKind;
use crate::problem::{Problem, Severity};
use crate::text_range::Position;

pub use self::declaration::{COMMAND, CommandKeys, Keys, SKILL, SkillKeys};

/// The longest front matter, in bytes.
pub const MAX_BYTES: usize = 16 << 10;

/// The keys and values before a Markdown text.
#[derive(Clone, Debug, PartialEq)]
pub struct FrontMatter<'a, T> {
    /// Begins in the second line of the file.
    yaml: &'a str,
    /// The declared keys; their defaults where the text has no front matter.
    pub keys: T,
    /// Problems with keys that are left out.
    pub problems: Vec<Problem>,
}

impl<'a, T: Keys> FrontMatter<'a, T> {
    /// Splits a file into front matter and body. A text that does not begin with a line `---`, or in
    /// which no second one follows, is all body. A byte order mark is dropped.
    ///
    /// # Errors
    /// [`Problem`] for what is no YAML mapping, has a key twice, is longer than 16 KiB, or has a wrong value for one of
    /// [`Keys::ESSENTIAL`].
    pub fn split(text: &'a str) -> Result<(Self, &'a str), Problem> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let (yaml, body) = fenced(text).unwrap_or(("", text));
        if yaml.len() > MAX_BYTES {
            let message = format!("The front matter is longer than {} KiB: shorten it.", MAX_BYTES >> 10);
            return Err(Problem::error_at(text, Some(Position::START), message));
        }
        let mut values = match yaml::parse(yaml) {
            Ok(Value::Null) => Map::new(),
            Ok(Value::Object(values)) => values,
            Ok(_) => {
                let message = "The front matter is not a list of `key: value` lines.";
                return Err(Problem::error_at(text, Some(Position { line: 2, column: 1 }), message));
            }
            Err(problem) => return Err(in_file(problem)),
        };
        let problems = check::<T>(yaml, &mut values)?;
        let keys = T::deserialize(Value::Object(values));
        let keys = keys.map_err(|error| Problem::error_at(text, Some(Position::START), error.to_string()))?;
        Ok((Self { yaml, keys, problems }, body))
    }

    /// Something wrong with the value of a key.
    pub fn problem(&self, key: &str, message: String) -> Problem {
        problem_at(self.yaml, &[Step::Key(key.to_owned())], message)
    }
}

/// Takes out the values that their declaration doesn't allow. Other programs have keys of their own: only those that
/// look like one of ours, which is missing, are pointed out.
fn check<T: Keys>(yaml: &str, values: &mut Map<String, Value>) -> Result<Vec<Problem>, Problem> {
    let declared = T::declaration().root();
    let unknown = declared
        .unknown_keys(values)
        .into_iter()
        .filter(|key| key.meant.is_some_and(|meant| !values.contains_key(meant)));
    let mut problems: Vec<Problem> = unknown
        .map(|key| {
            let problem = problem_at(yaml, &[Step::Name(key.name.to_owned())], key.to_string());
            Problem { severity: Severity::Warning, ..problem.with_suggestion(key.meant) }
        })
        .collect();
    for mismatch in declared.mismatches(&Value::Object(values.clone()), None) {
        let Some(Step::Key(key)) = mismatch.path.first() else { continue };
        if mismatch.kind != MismatchKind::Value {
            continue;
        }
        let problem = problem_at(yaml, &mismatch.path, mismatch.message);
        if T::ESSENTIAL.contains(&key.as_str()) {
            return Err(problem);
        }
        values.remove(key);
        problems.push(problem);
    }
    Ok(problems)
}

fn problem_at(yaml: &str, path: &[Step], message: String) -> Problem {
    in_file(Problem::error_at(yaml, yaml::locate(yaml, path), message))
}

/// A problem in the file from one in the YAML, which begins in the second line.
fn in_file(problem: Problem) -> Problem {
    Problem { range: problem.range.map(|range| range.below(1)), ..problem }
}

/// Returns the range of the YAML in a file; to the end of one that is being typed and has no second fence yet.
pub fn region(text: &str) -> Option<Range<usize>> {
    let begin = text.len() - text.strip_prefix('\u{feff}').unwrap_or(text).len();
    let plain = text.get(begin..)?;
    let first = plain.split_inclusive('\n').next().filter(|line| is_fence(line))?;
    let start = begin + first.len();
    Some(start..fenced(plain).map_or(text.len(), |(yaml, _)| start + yaml.len()))
}

/// Splits a file into the text between the two fences and the rest.
fn fenced(text: &str) -> Option<(&str, &str)> {
    let mut lines = text.split_inclusive('\n');
    let first = lines.next().filter(|line| is_fence(line))?;
    let mut end = first.len();
    for line in lines {
        let next = end + line.len();
        if is_fence(line) {
            return Some((text.get(first.len()..end)?, text.get(next..)?));
        }
        end = next;
    }
    None
}

/// Returns whether the text begins with the first fence and holds no second one.
pub fn is_open(text: &str) -> bool {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    text.lines().next().is_some_and(is_fence) && fenced(text).is_none()
}

fn is_fence(line: &str) -> bool {
    line.trim_end() == "---"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::declaration::disagreements;

    fn split<T: Keys>(text: &str) -> (FrontMatter<'_, T>, &str) {
        FrontMatter::split(text).unwrap()
    }

    fn fault<T: Keys>(text: &str) -> (Option<Position>, String) {
        let problem = FrontMatter::<T>::split(text).map(|_| ()).unwrap_err();
        (problem.start(), problem.message)
    }

    fn at(line: usize, column: usize) -> Option<Position> {
        Some(Position { line, column })
    }

    #[test]
    fn front_matter_and_body_are_parted() {
        for text in [
            "---\ndescription: Deploys\nargument-hint: 3\nallowed-tools: [x]\n---\nBody\n---\nmore\n",
            "\u{feff}---\r\ndescription: Deploys\r\nargument-hint: 3\r\n---  \r\nBody\n---\nmore\n",
        ] {
            let (front, body) = split::<CommandKeys>(text);
            let keys = CommandKeys {
                description: Some("Deploys".to_owned()),
                argument_hint: Some("3".to_owned()),
                ..CommandKeys::default()
            };
            assert_eq!((front.keys, front.problems, body), (keys, vec![], "Body\n---\nmore\n"));
        }
    }

    #[test]
    fn a_text_without_two_fences_is_all_body() {
        for text in ["", "Body", "---", "---\na: 1\n", " ---\na: 1\n---\n", "----\na: 1\n----\n"] {
            let (front, body) = split::<SkillKeys>(text);
            assert_eq!((front.keys, body), (SkillKeys::default(), text));
        }
        assert_eq!(split::<SkillKeys>("---\n---\nBody").1, "Body");
        assert_eq!(split::<SkillKeys>("---\n# nothing\n---").1, "");
    }

    #[test]
    fn the_yaml_is_found_while_it_is_typed() {
        assert_eq!(region("---\r\na: 1\n---\nb"), Some(5..10));
        assert_eq!(region("\u{feff}---\nmode: "), Some(7..13));
        assert_eq!(region("a: 1\n---\n"), None);
    }

    #[test]
    fn a_list_may_be_one_text() {
        let slugs = |yaml: &str| {
            let text = format!("---\nname: x\nmodeSlugs: {yaml}\n---\n");
            FrontMatter::<SkillKeys>::split(&text).map(|(front, _)| front.keys.mode_slugs)
        };
        assert_eq!(slugs("[x, ' y ', '']"), Ok(Some(vec!["x".to_owned(), "y".to_owned()])));
        assert_eq!(slugs("y"), Ok(Some(vec!["y".to_owned()])));
        assert_eq!(slugs("[]"), Ok(Some(vec![])), "which is not the same as nothing");
        assert_eq!((slugs("''"), slugs("")), (Ok(None), Ok(None)));
        let problem = slugs("{e: 1}").unwrap_err();
        assert_eq!(problem.to_string(), "`modeSlugs` must be a list or a string");
        assert_eq!(problem.start(), at(3, 12));
    }

    #[test]
    fn problems_have_their_position_in_the_file() {
        let (start, message) = fault::<CommandKeys>("---\nmode: code\nmode: ask\n---\n");
        assert_eq!((start, message.contains("duplicate key 'mode'")), (at(3, 1), true), "{message}");
        assert_eq!(fault::<CommandKeys>("---\n- a\n---\n").0, at(2, 1));
        let (start, message) = fault::<SkillKeys>("---\nname: x\ndescription: [y]\n---\n");
        assert_eq!((start, message.as_str()), (at(3, 14), "`description` must be a string"));
        assert!(fault::<SkillKeys>("---\na: [\n---\n").0.is_some());
    }

    #[test]
    fn a_wrong_value_without_which_the_file_can_be_used_is_left_out() {
        let (front, body) = split::<CommandKeys>("---\ndescription: [a]\nmode: code\n---\nBody");
        assert_eq!((front.keys.description, front.keys.mode.as_deref()), (None, Some("code")));
        assert_eq!((front.problems[0].start(), body), (at(2, 14), "Body"));
        let (front, body) = split::<CommandKeys>("---\ndescription: a\nmode: [code]\n---\nBody");
        assert_eq!((front.keys.description.as_deref(), front.keys.mode), (Some("a"), None));
        assert_eq!((front.problems[0].start(), body), (at(3, 7), "Body"));
    }

    #[test]
    fn a_key_that_looks_like_a_missing_one_is_pointed_out() {
        let (front, _) = split::<CommandKeys>("---\nargument_hint: a\nmodel: b\nallowed-tools: c\n---\n");
        let [problem] = &front.problems[..] else { panic!("{:?}", front.problems) };
        assert_eq!(problem.message, "unknown key `argument_hint`, ignored; did you mean `argument-hint`?");
        assert_eq!((problem.start(), problem.severity), (at(2, 1), Severity::Warning));
        assert_eq!(problem.suggestion.as_deref(), Some("argument-hint"));
        assert_eq!(split::<SkillKeys>("---\nname: a\nnames: [b]\n---\n").0.problems, []);
    }

    #[test]
    fn what_is_declared_is_what_is_read() {
        assert_eq!(disagreements::<CommandKeys>(Some(COMMAND.root())), [""; 0]);
        assert_eq!(disagreements::<SkillKeys>(Some(SKILL.root())), [""; 0]);
    }

    #[test]
    fn front_matter_is_bounded() {
        let long = format!("---\na: {}\n---\n", "x".repeat(MAX_BYTES));
        assert!(fault::<CommandKeys>(&long).1.contains("16 KiB"));
    }

    proptest::proptest! {
        #[test]
        fn no_text_is_too_strange(text in r"(---\r?\n)?[a-c:\[\]{}&*|\n 'ä-]{0,40}(\n---\n)?[x-]{0,5}") {
            if let Ok((_, body)) = FrontMatter::<CommandKeys>::split(&text) {
                assert!(text.ends_with(body));
            }
        }
    }
}
