//! Real shells against structures: what a structure says may run is what runs, with just these words.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::super::structure::{Body, List, Part, Simple, Stage, Structure, Word};
use super::super::*;
use super::oracle::{BASH, FAILING, SH, Stubs};

/// The programs of these lines: all print their name, and one of them fails.
const PROGRAMS: &[&str] = &["p", "q", "a", FAILING];

/// A shell that knows no more than structures.
#[derive(Default)]
struct Model {
    ran: Vec<Vec<String>>,
    files: BTreeSet<String>,
    variables: BTreeMap<String, String>,
    /// True if the last command ended well.
    succeeded: bool,
}

/// Case that this model doesn't cover.
struct Unknown;

type Played<T> = Result<T, Unknown>;

impl Model {
    /// Runs a list and gives what it prints.
    fn list(&mut self, list: &List) -> Played<String> {
        let mut printed = String::new();
        for item in &list.items {
            let runs = match item.join {
                Some(Join::And) => self.succeeded,
                Some(Join::Or) => !self.succeeded,
                _ => true,
            };
            if !runs {
                continue;
            }
            match item.stages.as_slice() {
                [only] => printed.push_str(&self.stage(only)?),
                [first @ .., last] => {
                    for stage in first {
                        self.within(|model| model.stage(stage))?;
                    }
                    printed.push_str(&self.within(|model| model.stage(last))?);
                }
                [] => return Err(Unknown),
            }
            self.succeeded ^= item.is_negated;
        }
        Ok(printed)
    }

    /// Runs something in a shell of its own.
    fn within(&mut self, run: impl FnOnce(&mut Self) -> Played<String>) -> Played<String> {
        let variables = self.variables.clone();
        let printed = run(self)?;
        self.variables = variables;
        Ok(printed)
    }

    fn stage(&mut self, stage: &Stage) -> Played<String> {
        let mut is_file = false;
        for redirect in &stage.redirects {
            match (redirect.operator, redirect.target.literal()) {
                (">" | ">>" | ">|", Some(name)) if redirect.descriptor.is_empty() && is_name(&name) => {
                    self.files.insert(name);
                    is_file = true;
                }
                ("<<", _) => {}
                _ => return Err(Unknown),
            }
        }
        let printed = match &stage.body {
            Body::Simple(simple) => self.simple(simple)?,
            Body::Subshell(list) => self.within(|model| model.list(list))?,
            Body::Group(list) => self.list(list)?,
            Body::For { variable, words, body } => {
                let mut fields = Vec::new();
                for word in words {
                    fields.extend(self.fields(word)?);
                }
                let mut printed = String::new();
                if fields.is_empty() {
                    self.succeeded = true;
                }
                for field in fields {
                    self.variables.insert(variable.clone(), field);
                    printed.push_str(&self.list(body)?);
                }
                printed
            }
            Body::If { branches, otherwise } => {
                let mut printed = String::new();
                for (condition, body) in branches {
                    printed.push_str(&self.list(condition)?);
                    if self.succeeded {
                        return Ok(silent(is_file, printed + &self.list(body)?));
                    }
                }
                match otherwise {
                    Some(list) => printed.push_str(&self.list(list)?),
                    None => self.succeeded = true,
                }
                printed
            }
            // Whether it says while or until the structure doesn't tell.
            Body::While { .. } => return Err(Unknown),
        };
        Ok(silent(is_file, printed))
    }

    fn simple(&mut self, simple: &Simple) -> Played<String> {
        let mut fields = Vec::new();
        for word in &simple.words {
            fields.extend(self.fields(word)?);
        }
        let Some(program) = fields.first().cloned() else {
            if simple.assignments.is_empty() || !simple.words.is_empty() {
                return Err(Unknown);
            }
            let runs = |part: &Part| matches!(part, Part::Substitution { .. });
            let has_status = simple.assignments.iter().any(|assignment| assignment.value.iter().any(runs));
            for assignment in &simple.assignments {
                let value = self.text(&assignment.value)?;
                self.variables.insert(assignment.name.clone(), value);
            }
            self.succeeded |= !has_status;
            return Ok(String::new());
        };
        // A variable that is set for it alone.
        for assignment in &simple.assignments {
            self.text(&assignment.value)?;
        }
        if !PROGRAMS.contains(&program.as_str()) {
            return Err(Unknown);
        }
        self.ran.push(fields);
        self.succeeded = program != FAILING;
        Ok(program + "\n")
    }

    /// The words that a word becomes.
    fn fields(&mut self, word: &Word) -> Played<Vec<String>> {
        let mut fields: Vec<String> = Vec::new();
        let mut open: Option<String> = None;
        for part in &word.parts {
            let (text, splits) = match part {
                Part::Text(text) => (text.clone(), false),
                Part::Wildcard(_) => return Err(Unknown),
                Part::Variable { quoted, .. } | Part::Substitution { quoted, .. } => {
                    (self.text(std::slice::from_ref(part))?, !quoted)
                }
                Part::Status => (self.text(std::slice::from_ref(part))?, true),
            };
            if !splits {
                open.get_or_insert_default().push_str(&text);
                continue;
            }
            if text.starts_with(char::is_whitespace) {
                fields.extend(open.take());
            }
            let mut pieces = text.split_whitespace().peekable();
            while let Some(piece) = pieces.next() {
                open.get_or_insert_default().push_str(piece);
                if pieces.peek().is_some() || text.ends_with(char::is_whitespace) {
                    fields.extend(open.take());
                }
            }
        }
        fields.extend(open);
        Ok(fields)
    }

    fn text(&mut self, parts: &[Part]) -> Played<String> {
        let mut text = String::new();
        for part in parts {
            match part {
                Part::Text(more) => text.push_str(more),
                Part::Wildcard(c) => text.push(*c),
                Part::Variable { name, .. } => {
                    text.push_str(self.variables.get(name).map_or("", String::as_str));
                }
                Part::Status => text.push_str(if self.succeeded { "0" } else { "1" }),
                Part::Substitution { list, .. } => {
                    let printed = self.within(|model| model.list(list))?;
                    text.push_str(printed.trim_end_matches('\n'));
                }
            }
        }
        Ok(text)
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.contains('/') && name != "." && name != ".."
}

fn silent(is_file: bool, printed: String) -> String {
    if is_file { String::new() } else { printed }
}

fn played(structure: &Structure) -> Option<(Vec<Vec<String>>, BTreeSet<String>)> {
    let mut model = Model { succeeded: true, ..Model::default() };
    model.list(&structure.list).ok()?;
    model.ran.sort();
    Some((model.ran, model.files))
}

#[test]
fn compound_lines_run_as_they_are_read() {
    let stubs = Stubs::new();
    for line in [
        "p && { q; a; } || no",
        "no || (p; q) && a > o",
        "! no && p; ! p && q",
        "if no; then p; elif q; then a; else no; fi; p",
        "if no\nthen p\nelse q\nfi | a",
        "for v in a 'b c' \"$(p)\" $(p; q); do p \"$v\" $v; done",
        "for v in a b\ndo\n for w in $v 1; do p $v$w; done\ndone",
        "v=p; p \"$v\" ${v}x \"a $v.b\"; $v 1",
        "p $? ; no; p \"$?\"",
        "p \"$(p; q)\" $(p; q) x$(p)y",
        "p \"$(cat <<'E'\n a `b` \"c\nE\n)\" 2",
        "(v=1; p $v); p \"$v\"",
        "{ v=1; p; } && p $v",
        "v=1 | p; p \"$v\"",
        "p > o | q; { p; q; } > o2",
        "p \"$(p \"$(q \"a b\")\")\"",
        "v='a  b'; p $v \"$v\"",
        "p a\"$v\"b '' \"$v\" $v",
        "(p) && (q); ( (p) )",
        "! no; ! (no) && p",
    ] {
        let script = read(line);
        let structure = script.structure().unwrap_or_else(|problem| panic!("{line:?}: {problem}"));
        let Some(expected) = played(structure) else {
            // The model knows no other program than the stubs.
            assert!(line.contains("cat"), "{line:?}");
            continue;
        };
        for shell in [BASH, SH] {
            assert_eq!(stubs.run(shell, line), expected, "{line:?} in {shell:?}");
        }
    }
}

/// A simple command.
fn simple() -> impl Strategy<Value = String> {
    prop::sample::select(
        &[
            "p",
            "q",
            "no",
            "p 1",
            "q \"$v\"",
            "p $v",
            "a x$v",
            "p 'x y'",
            "a \"$w b\"",
            "v=1",
            "v='1 2'",
            "w=$v",
            "p > o",
            "v=x q",
            "p # c\n",
            "p <<E\nx\nE\n",
            "p <<'E'\n$q `\nE\n",
        ][..],
    )
    .prop_map(str::to_owned)
}

/// A line of commands in each other.
fn line() -> impl Strategy<Value = String> {
    simple().prop_recursive(4, 12, 3, |inner| {
        let joins = prop::sample::select(&[" && ", " || ", "; ", " | ", "\n", " &&\n"][..]);
        prop_oneof![
            4 => (inner.clone(), joins, inner.clone()).prop_map(|(one, join, two)| format!("{one}{join}{two}")),
            1 => inner.clone().prop_map(|list| format!("({list})")),
            1 => inner.clone().prop_map(|list| format!("{{ {list}; }}")),
            1 => inner.clone().prop_map(|list| format!("! {list}")),
            1 => inner.clone().prop_map(|list| format!("p \"$({list})\"")),
            1 => inner.clone().prop_map(|list| format!("q $({list}) 1")),
            1 => inner.clone().prop_map(|list| format!("w=$({list}); p $w")),
            2 => inner.clone().prop_map(|list| format!("for v in a 'b c' $w; do {list}; done")),
            1 => (inner.clone(), inner.clone()).prop_map(|(list, one)| format!("for w in $({one})\ndo {list}\ndone > o")),
            2 => (inner.clone(), inner.clone(), inner).prop_map(|(condition, one, two)| {
                format!("if {condition}; then {one}; else {two}; fi")
            }),
        ]
    })
}

/// Generates text that is inserted into a line to change its meaning.
fn noise() -> impl Strategy<Value = &'static str> {
    prop::sample::select(
        &[
            "", "", "", " ", "\n", ";", "(", ")", "'", "\"", "\\", "$", "&", "|", "#", "=", "{", "}", "$(",
            "fi", "done ", " do ", "then ", "! ", "in ", "\\\n", "`", ">o ", "<<E\n", "v", "$v", "if ",
            "else ",
        ][..],
    )
}

fn noisy_line() -> impl Strategy<Value = String> {
    (line(), noise(), any::<prop::sample::Index>()).prop_map(|(mut line, noise, at)| {
        let places: Vec<usize> = line.char_indices().map(|(at, _)| at).chain([line.len()]).collect();
        line.insert_str(places[at.index(places.len())], noise);
        line
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, rng_seed: RngSeed::Fixed(6), failure_persistence: None, ..ProptestConfig::default() })]

    /// The permission of compound lines rests on this property.
    #[test]
    fn random_compound_lines_run_as_they_are_read(line in noisy_line()) {
        thread_local! {
            static STUBS: Stubs = Stubs::new();
        }
        let script = read(&line);
        if let Ok(structure) = script.structure() && let Some(expected) = played(structure) {
            // To other shells `&>` starts a command in the background.
            let shells = if line.contains("&>") { &[BASH][..] } else { &[BASH, SH] };
            for shell in shells.iter().copied() {
                let ran = STUBS.with(|stubs| stubs.run(shell, &line));
                prop_assert_eq!(&ran, &expected, "{:?} in {:?}", &line, shell);
            }
        }
    }
}

/// That the property above has something to say.
#[test]
fn many_random_compound_lines_have_a_structure() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::{Config, TestRunner};
    let mut runner = TestRunner::new(Config { rng_seed: RngSeed::Fixed(6), ..Config::default() });
    let strategy = noisy_line();
    let is_compound = |line: &String| {
        let script = read(line);
        let is_played = script.structure().is_ok_and(|structure| played(structure).is_some());
        is_played && script.commands.iter().any(|command| !command.ways.is_empty())
    };
    let lines = (0..400).map(|_| strategy.new_tree(&mut runner).unwrap().current());
    let compound = lines.filter(is_compound).count();
    assert!(compound >= 60, "{compound}");
}
