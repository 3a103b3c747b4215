//! The text of `.orchestration/active_intents.yaml`: a public format, with a few optional keys of ours
//! that can only narrow.
//!
//! A file that can't be read is an error and never an empty list: no list would mean no rules. An
//! intent with a mistake in it is left out with its problems, and nothing can be done under it. Keys
//! that mean nothing here are left alone; but one that is nearly a key of ours is told, and where that key
//! would bound the intent, it is a mistake: a bound must not be lost by a typo.

use serde_json::{Map, Value};

use super::declaration::{DECLARATION, IntentEntry};
use super::intent::{Enforced, Intent, Status, is_intent_id};
use super::scope::Scope;
use crate::config::yaml::{self, Step};
use crate::declaration::{UnknownKey, meant_or_known};
use crate::problem::{Problem, Severity};
use crate::problem_list::ProblemList;
use crate::text_range::Position;
use roo_text::misspelling;

/// The largest file, in bytes.
pub const FILE_LIMIT: usize = 256 << 10;
/// The most intents.
const MAX_INTENTS: usize = 1000;
/// Maximum nesting of the file.
const DEPTH: usize = 16;
/// The longest text of an intent, in bytes.
const MAX_TEXT_BYTES: usize = 4096;
/// The most problems that are told one by one.
const PROBLEMS: usize = 50;
/// The names of the list, the public one first.
pub(super) const LISTS: [&str; 2] = ["active_intents", "intents"];

/// The keys without which an intent would allow more.
const BOUNDING: [&str; 4] = ["owned_scope", "constraints", "enforce", "parent"];
/// The longest key that may be a misspelt one, in bytes.
const MAX_MISSPELT_KEY_BYTES: usize = 32;

/// An intent that can't be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// Its id, where it has one.
    pub id: Option<String>,
    /// Reason, in a sentence.
    pub why: String,
}

/// A file that could be read.
#[derive(Clone, Debug, Default)]
pub struct IntentFile {
    /// Those that can be used, in the order of the file.
    pub intents: Vec<Intent>,
    /// Those that can't.
    pub invalid: Vec<Invalid>,
    /// In the order of the file.
    pub problems: Vec<Problem>,
}

impl IntentFile {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// A text that is too large, no plain YAML, or has no list of intents.
    pub fn parse(text: &str) -> Result<Self, Problem> {
        let (list, entries) = entries(text)?;
        let problems = ProblemList::new(text, yaml::locate, PROBLEMS);
        let mut reader = IntentReader { list, file: Self::default(), problems };
        for (index, entry) in entries.iter().enumerate() {
            reader.entry(index, entry);
        }
        reader.check_together(&entries);
        Ok(Self { problems: reader.problems.finish(), ..reader.file })
    }

    /// The intent of this id that can be used.
    pub fn get(&self, id: &str) -> Option<&Intent> {
        self.intents.iter().find(|intent| intent.id == id)
    }

    /// Returns the reason why the intent of this id can't be used.
    pub fn why_invalid(&self, id: &str) -> Option<&str> {
        self.invalid.iter().find(|invalid| invalid.id.as_deref() == Some(id)).map(|it| it.why.as_str())
    }

    /// The intents that `intent` is within, from near to far; none when one of them is missing or they
    /// go in a circle.
    pub fn ancestors(&self, intent: &Intent) -> Option<Vec<&Intent>> {
        let mut found: Vec<&Intent> = Vec::new();
        let mut parent = intent.parent.as_deref();
        while let Some(id) = parent {
            let next = self.get(id).filter(|next| next.id != intent.id)?;
            if found.iter().any(|known| known.id == next.id) {
                return None;
            }
            found.push(next);
            parent = next.parent.as_deref();
        }
        Some(found)
    }
}

impl Intent {
    /// The intent that [`Self::governing`] made this of; none where it isn't such a value. Its status is not known.
    pub fn from_governing(mut governing: Value) -> Option<Self> {
        governing.as_object_mut()?.insert("status".to_owned(), Status::Pending.as_str().into());
        let problems = ProblemList::new("", yaml::locate, PROBLEMS);
        let mut reader = IntentReader { list: LISTS[0], file: IntentFile::default(), problems };
        reader.entry(0, &governing);
        reader.file.intents.pop()
    }
}

/// The name of the list, and what is in it.
pub(super) fn entries(text: &str) -> Result<(&'static str, Vec<Value>), Problem> {
    if text.len() > FILE_LIMIT {
        return Err(Problem::error(None, format!("the file has more than {FILE_LIMIT} bytes")));
    }
    if let Some((position, what)) = beyond_plain(text) {
        let message = format!("{what} is not supported here: write the value itself, or put it in quotes");
        return Err(Problem::error_at(text, Some(position), message));
    }
    let value = yaml::parse(text)?;
    if deeper_than(&value, DEPTH) {
        return Err(Problem::error(None, format!("it is nested deeper than {DEPTH} levels")));
    }
    let missing = || Problem::error(None, "expected `active_intents:` with a list of intents".to_owned());
    let Value::Object(mut root) = value else {
        return Err(missing());
    };
    let list = LISTS.into_iter().find(|list| root.contains_key(*list)).ok_or_else(missing)?;
    let entries = match root.remove(list) {
        Some(Value::Array(entries)) => entries,
        Some(Value::Null) => vec![],
        _ => {
            let position = yaml::locate(text, &[key(list)]);
            return Err(Problem::error_at(text, position, format!("`{list}` must be a list of intents")));
        }
    };
    if entries.len() > MAX_INTENTS {
        return Err(Problem::error(None, format!("there are more than {MAX_INTENTS} intents")));
    }
    Ok((list, entries))
}

pub(super) fn key(name: &str) -> Step {
    Step::Key(name.to_owned())
}

/// The characters with which YAML begins what has its meaning elsewhere, what it is called, and a character that means
/// nothing to YAML in place of each.
const INDICATORS: [(char, &str, char); 3] = [
    ('&', "an anchor (`&`)", '\u{e000}'),
    ('*', "an alias (`*`)", '\u{e001}'),
    ('!', "a tag (`!`)", '\u{e002}'),
];

/// The text with the first `count` of these characters replaced.
fn without_indicators(text: &str, count: usize) -> String {
    let mut left = count;
    let replaced = text.chars().map(|c| match INDICATORS.iter().find(|(indicator, ..)| *indicator == c) {
        Some((_, _, other)) if left > 0 => {
            left -= 1;
            *other
        }
        _ => c,
    });
    replaced.collect()
}

/// A value with the characters back for which others were put in its text.
fn with_indicators(value: Value) -> Value {
    let text = |text: String| -> String {
        let back =
            |c| INDICATORS.iter().find(|(.., other)| *other == c).map_or(c, |(indicator, ..)| *indicator);
        text.chars().map(back).collect()
    };
    match value {
        Value::String(inner) => Value::String(text(inner)),
        Value::Array(items) => items.into_iter().map(with_indicators).collect(),
        Value::Object(entries) => {
            entries.into_iter().map(|(key, value)| (text(key), with_indicators(value))).collect()
        }
        value => value,
    }
}

/// YAML whose meaning is elsewhere in the file: anchors, aliases, tags, merge keys. Whether a character is one of those or
/// a part of a text is the parser's to say: without it, a text differs by that character alone.
fn beyond_plain(text: &str) -> Option<(Position, &'static str)> {
    let read = |count| yaml::parse(&without_indicators(text, count)).ok().map(with_indicators);
    let places: Vec<(Position, &str)> = indicators(text).collect();
    let original = read(0);
    let plain = read(places.len());
    if plain != original {
        // The first that makes a difference or, where it can't be read with them, the last that is in the way.
        let is_behind = |count| match original {
            Some(_) => read(count) != original,
            None => read(count).is_some(),
        };
        let (mut same, mut other) = (0, places.len());
        while other - same > 1 {
            let middle = same.midpoint(other);
            if is_behind(middle) { other = middle } else { same = middle }
        }
        return places.get(other.saturating_sub(1)).copied();
    }
    let path = merge_key(original.as_ref()?)?;
    Some((yaml::locate(text, &path).unwrap_or(Position::START), "a merge key (`<<`)"))
}

/// Where these characters are, and what each may be.
fn indicators(text: &str) -> impl Iterator<Item = (Position, &'static str)> {
    let lines = text.strip_prefix('\u{feff}').unwrap_or(text).lines().enumerate();
    lines.flat_map(|(line, content)| {
        content.chars().enumerate().filter_map(move |(column, c)| {
            let (_, what, _) = INDICATORS.iter().find(|(indicator, ..)| *indicator == c)?;
            Some((Position { line: line + 1, column: column + 1 }, *what))
        })
    })
}

/// The path of a key that would have its mapping take over another one.
fn merge_key(value: &Value) -> Option<Vec<Step>> {
    let below = |step: Step, value| {
        let path = merge_key(value)?;
        Some([vec![step], path].concat())
    };
    match value {
        Value::Object(entries) if entries.contains_key("<<") => Some(vec![Step::Name("<<".to_owned())]),
        Value::Object(entries) => entries.iter().find_map(|(name, value)| below(key(name), value)),
        Value::Array(items) => {
            items.iter().enumerate().find_map(|(index, value)| below(Step::Index(index), value))
        }
        _ => None,
    }
}

fn deeper_than(value: &Value, limit: usize) -> bool {
    match value {
        _ if limit == 0 => true,
        Value::Array(items) => items.iter().any(|item| deeper_than(item, limit - 1)),
        Value::Object(object) => object.values().any(|item| deeper_than(item, limit - 1)),
        _ => false,
    }
}

/// The key under which an intent has its scope: the older name counts where the newer is missing.
pub(super) fn scope_key(entry: Option<&Map<String, Value>>) -> &'static str {
    let has = |name| entry.and_then(|entry| entry.get(name)).is_some_and(|value| !value.is_null());
    if !has("owned_scope") && has("scope") { "scope" } else { "owned_scope" }
}

/// The keys of an intent that are nearly one of ours, with that one. A key that is there and bounds nothing isn't meant
/// once more.
fn misspelt(entry: &Map<String, Value>) -> impl Iterator<Item = UnknownKey<'_, 'static>> {
    let known: Vec<&str> = DECLARATION
        .at(&[key(LISTS[0]), Step::Index(0)])
        .map(|part| part.keys())
        .unwrap_or_default()
        .into_iter()
        .map(|key| key.name)
        .collect();
    let is_foreign =
        |name: &str| name.len() > MAX_MISSPELT_KEY_BYTES || name.starts_with("x-") || name.starts_with("x_");
    entry.keys().map(String::as_str).filter(move |name| !is_foreign(name)).filter_map(move |name| {
        let free = known.iter().copied().filter(|key| BOUNDING.contains(key) || !entry.contains_key(*key));
        let meant = Some(misspelling::meant(name, free).filter(|_| !known.contains(&name))?);
        Some(UnknownKey { name, meant })
    })
}

struct IntentReader<'a> {
    list: &'static str,
    file: IntentFile,
    problems: ProblemList<'a>,
}

impl IntentReader<'_> {
    fn entry(&mut self, index: usize, value: &Value) {
        let Value::Object(entry) = value else {
            let why = "an intent must be a mapping with `id`, `name`, `status` and `owned_scope`".to_owned();
            self.problems.error(&[key(self.list), Step::Index(index)], why.clone());
            self.file.invalid.push(Invalid { id: None, why });
            return;
        };
        let id = entry.get("id").and_then(Value::as_str).map(str::to_owned);
        match self.read(index, entry, value) {
            Ok(intent) => self.file.intents.push(intent),
            Err(why) => self.file.invalid.push(Invalid { id, why }),
        }
    }

    /// One intent, or the first thing that is wrong with it; all are reported as problems.
    fn read(&mut self, index: usize, entry: &Map<String, Value>, value: &Value) -> Result<Intent, String> {
        let here = [key(self.list), Step::Index(index)];
        let at = |step: Step| [&here[..], &[step]].concat();
        let problems = &mut self.problems;
        problems.take_first_error();
        for unknown in misspelt(entry) {
            let bounds = unknown.meant.is_some_and(|meant| BOUNDING.contains(&meant));
            let severity = if bounds { Severity::Error } else { Severity::Warning };
            problems.unknown_key(severity, &here, &unknown);
        }
        let part = DECLARATION.at(&here);
        let written: IntentEntry = problems.read(part.as_ref(), &here, value);
        for known in part.map(|part| part.keys()).unwrap_or_default() {
            let texts = |value: &Value| match value {
                Value::Array(items) => items.iter().filter_map(Value::as_str).map(str::len).max(),
                value => value.as_str().map(str::len),
            };
            if entry.get(known.name).and_then(texts).is_some_and(|longest| longest > MAX_TEXT_BYTES) {
                problems.error(
                    &at(key(known.name)),
                    format!("`{}` has more than {MAX_TEXT_BYTES} bytes", known.name),
                );
            }
        }
        let (id, name, parent) = (written.id, written.name, written.parent);
        let scope_key = scope_key(Some(entry));
        let owned_scope = if scope_key == "scope" { written.scope } else { written.owned_scope };
        let owned_scope = owned_scope.unwrap_or_default();
        if let Some(id) = &id {
            if !is_intent_id(id) {
                let message =
                    "an id starts with a letter, followed by at most 63 letters, digits, `.`, `_` or `-`";
                problems.error(&at(key("id")), message);
            } else if self.file.intents.iter().any(|known| known.id == *id)
                || self.file.invalid.iter().any(|known| known.id.as_deref() == Some(id))
            {
                problems.error(&at(key("id")), format!("duplicate id {id}; keep one"));
            }
        }
        if let Some(parent) = &parent
            && !is_intent_id(parent)
        {
            problems.error(&at(key("parent")), "`parent` must be the id of an intent");
        }
        let status = written.status.and_then(|word| {
            let status = Status::parse(&word);
            if status.is_none() {
                let known = Status::ALL.map(Status::as_str);
                let (end, meant) = meant_or_known(&word, &known, "the statuses are");
                let message = format!("there is no status '{word}'{end}");
                problems.suggest(Severity::Error, &at(key("status")), message, meant);
            }
            status
        });
        let mut enforce = Vec::new();
        for (number, word) in written.enforce.iter().flatten().enumerate() {
            match Enforced::parse(word) {
                Some(enforced) => enforce.push(enforced),
                None => {
                    let known = Enforced::ALL.map(Enforced::as_str);
                    let (end, meant) = meant_or_known(word, &known, "those are");
                    let message = format!("'{word}' is not a constraint that can be checked{end}");
                    let path = [&at(key("enforce"))[..], &[Step::Index(number)]].concat();
                    problems.suggest(Severity::Error, &path, message, meant);
                }
            }
        }
        let scope = match Scope::parse(&owned_scope) {
            Ok(scope) => Some(scope),
            Err(bad) => {
                let is_missing = entry.get(scope_key).is_none_or(Value::is_null);
                for bad in bad {
                    let path = [&at(key(scope_key))[..], bad.index.map(Step::Index).as_slice()].concat();
                    match bad.index {
                        Some(_) => problems.error(&path, bad.to_string()),
                        None if is_missing => problems.error(&here, "`owned_scope` is missing"),
                        None => problems.error(&path, format!("`{scope_key}` can't be used: {}", bad.why)),
                    }
                }
                None
            }
        };
        let first = problems.take_first_error();
        match (id, name, status, scope, first) {
            (Some(id), Some(name), Some(status), Some(scope), None) => Ok(Intent {
                id,
                name,
                status,
                owned_scope,
                scope,
                constraints: written.constraints.unwrap_or_default(),
                enforce,
                acceptance_criteria: written.acceptance_criteria.unwrap_or_default(),
                requirements: written.requirements.unwrap_or_default(),
                network: written.network.unwrap_or_default(),
                mcp: written.mcp,
                parent,
                related_files: written.related_files.unwrap_or_default(),
            }),
            (.., first) => Err(first.unwrap_or_else(|| "it is incomplete".to_owned())),
        }
    }

    /// Checks what depends on all intents together.
    fn check_together(&mut self, entries: &[Value]) {
        let intents = std::mem::take(&mut self.file.intents);
        // An invalid intent has a place too.
        let place =
            |id: &str| entries.iter().position(|entry| entry.get("id").and_then(Value::as_str) == Some(id));
        let scope_key = |at: usize| key(scope_key(entries[at].as_object()));
        let mut found = Vec::new();
        for (index, intent) in intents.iter().enumerate() {
            let Some(at) = place(&intent.id) else { continue };
            if let Some(parent) = &intent.parent {
                match intents.iter().find(|known| known.id == *parent) {
                    None => found.push((
                        Severity::Error,
                        vec![Step::Index(at), key("parent")],
                        format!("there is no valid intent {parent}, so nothing is granted"),
                    )),
                    Some(parent) => {
                        let beyond = intent.scope.wider_than(&parent.scope);
                        if !beyond.is_empty() {
                            found.push((
                                Severity::Warning,
                                vec![Step::Index(at), scope_key(at)],
                                format!(
                                    "not within {}, so it is not granted: {}",
                                    parent.id,
                                    beyond.join(", ")
                                ),
                            ));
                        }
                    }
                }
            }
            if intent.status != Status::InProgress {
                continue;
            }
            for other in intents[..index].iter().filter(|other| other.status == Status::InProgress) {
                if let Some((one, another)) = intent.scope.overlaps(&other.scope).first()
                    && intent.parent.as_ref() != Some(&other.id)
                    && other.parent.as_ref() != Some(&intent.id)
                {
                    found.push((
                        Severity::Warning,
                        vec![Step::Index(at), scope_key(at)],
                        format!("`{one}` and `{another}` of {} cover the same files", other.id),
                    ));
                }
            }
        }
        self.file.intents = intents;
        for (severity, path, message) in found {
            self.problems.add(severity, &[&[key(self.list)], &path[..]].concat(), message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = r#"# kept
active_intents:
  - id: "INT-001"
    name: "JWT Authentication Migration"
    status: "IN_PROGRESS"
    owned_scope: ["src/auth/**", "src/middleware/jwt.ts", "!**/*.snap"]
    constraints: ["Must not use external auth providers"]
    acceptance_criteria: ["Unit tests in tests/auth/ pass"]
    requirements: ["REQ-001"]
    network: []
    parent: null
    progress: { checklist: [{ done: true, label: x }] }
  - id: fix-bug-42
    name: Off by one
    status: todo
    scope:
      - src/util
    enforce: [no_new_files]
"#;

    fn parse(text: &str) -> IntentFile {
        IntentFile::parse(text).expect("a file")
    }

    fn messages(text: &str) -> Vec<String> {
        match IntentFile::parse(text) {
            Ok(file) => file.problems.iter().map(told).collect(),
            Err(problem) => vec![told(&problem)],
        }
    }

    fn told(problem: &Problem) -> String {
        let at = problem.start().map_or("-".to_owned(), |at| format!("{}:{}", at.line, at.column));
        format!("{at} {}", problem.message)
    }

    #[test]
    fn the_public_format_is_read() {
        let file = parse(EXAMPLE);
        assert_eq!((file.invalid.len(), file.problems.as_slice()), (0, &[][..]));
        let [jwt, bug] = file.intents.as_slice() else { panic!("two intents") };
        assert_eq!(
            (jwt.id.as_str(), jwt.status, bug.status),
            ("INT-001", Status::InProgress, Status::Pending)
        );
        assert_eq!(jwt.requirements, ["REQ-001"]);
        assert_eq!(
            (bug.owned_scope.as_slice(), bug.enforce.as_slice()),
            (&["src/util".to_owned()][..], &[Enforced::NoNewFiles][..])
        );
    }

    #[test]
    fn where_it_stands_does_not_govern() {
        let (one, other) =
            (parse(EXAMPLE), parse(&EXAMPLE.replace("todo", "DONE").replace("done: true", "done: false")));
        for (one, other) in one.intents.iter().zip(&other.intents) {
            assert_eq!(one.digest(), other.digest());
        }
        let wider = parse(&EXAMPLE.replace("src/util", "src"));
        assert_ne!(wider.intents[1].digest(), one.intents[1].digest());
        assert_eq!(wider.intents[1].loosens(&one.intents[1]), ["scope: src"]);
        assert_eq!(one.intents[1].loosens(&wider.intents[1]), Vec::<String>::new());
    }

    #[test]
    fn an_intent_may_name_servers_and_tools_and_less_is_no_loosening() {
        let with = |mcp: &str| parse(&EXAMPLE.replace("network: []", mcp)).intents[0].clone();
        let (all, some, one) =
            (with("network: []"), with("mcp: [git, issues/search]"), with("mcp: [issues/search]"));
        let permits = |server, tool| [&all, &some, &one].map(|intent| intent.permits_server(server, tool));
        assert_eq!(permits("git", Some("log")), [true, true, false]);
        assert_eq!(permits("git", None), [true, true, false]);
        assert_eq!(permits("issues", Some("search")), [true, true, true]);
        assert_eq!(permits("issues", Some("close")), [true, false, false]);
        assert_eq!(permits("issues", None), [true, false, false]);
        assert!(!with("mcp: []").permits_server("git", Some("log")));
        assert_eq!(all.loosens(&some), ["mcp: every server"]);
        assert_eq!(some.loosens(&one), ["mcp: git"]);
        assert_eq!((some.loosens(&all), one.loosens(&some)), (vec![], vec![]));
        assert_ne!(all.digest(), some.digest());
    }

    #[test]
    fn mistakes_have_a_place_and_leave_the_intent_out() {
        assert_eq!(
            messages(
                "active_intents:\n  - id: 1\n    name: a\n    status: FINE\n    owned_scope: [../**, '[']\n"
            ),
            [
                "2:9 `id` must be a string; put it in quotes",
                "4:13 there is no status 'FINE'; the statuses are PENDING, IN_PROGRESS, BLOCKED, COMPLETED, ABANDONED",
                "5:19 the pattern `../**` can't be used: it must not contain `..`",
                "5:26 the pattern `[` can't be used: unclosed character class; missing ']'",
            ]
        );
        assert_eq!(
            messages("active_intents:\n  - id: a\n")[..2],
            ["2:5 `name` is missing", "2:5 `status` is missing"]
        );
        assert_eq!(messages("active_intents: 1"), ["1:17 `active_intents` must be a list of intents"]);
        assert_eq!(messages("a: 1"), ["- expected `active_intents:` with a list of intents"]);
        let twice =
            format!("{EXAMPLE}  - id: INT-001\n    name: n\n    status: TODO\n    owned_scope: [a]\n");
        let file = parse(&twice);
        assert_eq!((file.intents.len(), file.why_invalid("INT-001").is_some()), (2, true));
    }

    #[test]
    fn a_key_that_is_nearly_one_that_bounds_leaves_the_intent_out() {
        let with =
            |key: &str| messages(&EXAMPLE.replace("    enforce: [no_new_files]", &format!("    {key}: [a]")));
        for (key, meant) in [
            ("enforc", "enforce"),
            ("enfroce", "enforce"),
            ("Enforce", "enforce"),
            ("enforced", "enforce"),
            ("constrains", "constraints"),
            ("constraint", "constraints"),
            ("ownedScope", "owned_scope"),
            ("owned-scop", "owned_scope"),
            ("parnet", "parent"),
        ] {
            let expected = format!("18:5 unknown key `{key}`, ignored; did you mean `{meant}`?");
            assert_eq!(with(key), [expected], "{key}");
        }
        let file = parse(&EXAMPLE.replace("enforce:", "enforc:"));
        assert_eq!(file.intents.len(), 1);
        assert!(file.why_invalid("fix-bug-42").is_some_and(|why| why.contains("did you mean `enforce`?")));
    }

    #[test]
    fn a_key_that_is_nearly_another_one_is_told_and_a_foreign_one_is_left_alone() {
        let with = |key: &str| {
            let file = parse(&EXAMPLE.replace("    enforce: [no_new_files]", &format!("    {key}: x")));
            assert_eq!(file.intents.len(), 2, "{key}");
            file.problems
        };
        for (key, meant) in
            [("related_file", "related_files"), ("acceptance_criterias", "acceptance_criteria")]
        {
            let [problem] = &with(key)[..] else { panic!("{key}") };
            assert_eq!(problem.severity, Severity::Warning);
            assert_eq!(told(problem), format!("18:5 unknown key `{key}`, ignored; did you mean `{meant}`?"));
        }
        for key in [
            "foo",
            "x-enforce",
            "x_parent",
            "created_at",
            "updated_at",
            "github_issues",
            "progress",
            "recent_history",
            "description",
            "owner",
            "agent",
            "force",
            "state",
            "date",
            "score",
            "content",
            "priority",
            "tags",
        ] {
            assert_eq!(with(key), [], "{key}");
        }
    }

    #[test]
    fn a_file_that_can_not_be_read_is_no_empty_list() {
        for text in [
            "active_intents:\n  - id: a\n      name: deeper\n",
            "active_intents: [",
            "active_intents:\n  - id: a\n    id: b\n",
            "active_intents: &a\n  - *a\n",
            "active_intents:\n  - !x {}\n",
            "a: &b {x: 1}\nactive_intents: []\n",
            "active_intents:\n  - <<: {id: a}\n",
            "active_intents:\n\t- id: a\n",
            "",
        ] {
            assert!(IntentFile::parse(text).is_err(), "{text:?}");
        }
        assert!(IntentFile::parse(&"# x\n".repeat(FILE_LIMIT)).is_err());
        let deep = format!("active_intents:\n  - id: a\n    x: {}{}", "[".repeat(20), "]".repeat(20));
        assert!(IntentFile::parse(&deep).is_err());
        assert!(parse("active_intents: []").intents.is_empty());
    }

    #[test]
    fn only_what_the_parser_takes_for_an_alias_an_anchor_or_a_tag_is_refused() {
        for text in [
            r#"{name: "&a *b !c", x: 'it''s *b', y: "\\" }"#,
            "{x: R&D *now* wait! <<} # *x &y !z",
            "\n    name: Fix logins, *urgent*",
            "\n    description: |\n      **Important**\n      *x\n      !y\n      &z\n    name: x",
            "\n    description: >-\n      Folded, and\n      !Important",
            "\n    name: in plain text\n      *over* lines\n      !x",
            "\n    name: \"in quotes\n      *over* lines: *x\n      &y\"",
            "\n    owned_scope: [src/**, '!x', \"*.md\", a,*b]",
            "\n    name: a:*b [*c &d, !e",
            "\n    # *x: !y\n    name: don't *stop* &now",
        ] {
            let text = format!("active_intents:\n  - {}\n", text.trim_start());
            let is_plain = !text.contains("a,*b");
            assert_eq!(entries(&text).is_ok(), is_plain, "{text}: {:?}", entries(&text));
        }
        let refused = |text: &str| told(&entries(text).unwrap_err());
        let beyond = |at: &str, what: &str| {
            format!("{at} {what} is not supported here: write the value itself, or put it in quotes")
        };
        for (text, at, what) in [
            ("x: &a 1\nactive_intents: []\n", "1:4", "an anchor (`&`)"),
            ("a: {x: &b [1]}\nactive_intents: []\n", "1:8", "an anchor (`&`)"),
            ("a: &b {x: '*'}\nactive_intents: []\n", "1:4", "an anchor (`&`)"),
            ("n: '*x'\na: [&b c, *b]\nactive_intents: []\n", "2:5", "an anchor (`&`)"),
            ("&a active_intents: []\n", "1:1", "an anchor (`&`)"),
            ("n: a*b\nactive_intents: *gone\n", "2:17", "an alias (`*`)"),
            ("active_intents:\n  - name: *urgent* logins\n", "2:11", "an alias (`*`)"),
            ("active_intents: !x []\n", "1:17", "a tag (`!`)"),
            ("n: hm!\nactive_intents: [{id: !!str 5}]\n", "2:23", "a tag (`!`)"),
            ("active_intents:\n  - id: !x a\n    x: [! b]\n", "3:9", "a tag (`!`)"),
            ("active_intents:\n  - x: {<<: {id: a}}\n", "2:9", "a merge key (`<<`)"),
            ("\u{feff}x: &a 1\nactive_intents: []\n", "1:4", "an anchor (`&`)"),
        ] {
            assert_eq!(refused(text), beyond(at, what), "{text}");
        }
    }

    #[test]
    fn many_such_characters_take_no_time() {
        let text = format!("active_intents:\n  - x: |\n{}", "      *&!\n".repeat(25_000));
        assert!(entries(&text).is_ok());
        assert!(entries(&format!("{text}    y: *x\n")).is_err());
    }

    #[test]
    fn scopes_that_share_files_are_told() {
        let text = EXAMPLE.replace("todo", "ACTIVE").replace("src/util", "src/auth/a.ts");
        assert_eq!(
            messages(&text),
            ["17:7 `src/auth/a.ts` and `src/auth/**` of INT-001 cover the same files"]
        );
        let child = text.replace("enforce: [no_new_files]", "parent: INT-001");
        assert_eq!(messages(&child), Vec::<String>::new());
        let out = child.replace("src/auth/a.ts", "docs");
        assert!(messages(&out)[0].contains("not within INT-001"), "{:?}", messages(&out));
        assert!(messages(&child.replace("parent: INT-001", "parent: X"))[1].contains("no valid intent X"));
    }

    proptest::proptest! {
        #[test]
        fn no_text_is_too_strange(text in r"(active_intents:\n  - )?[a-c:\-\[\]{}&*!|>\n 'ä\t<\x22]{0,60}") {
            let _ = IntentFile::parse(&text);
        }
    }
}
