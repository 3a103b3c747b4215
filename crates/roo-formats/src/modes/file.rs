//! The text of a mode file: `.roomodes` of a workspace, `custom-modes.yaml` of a user. YAML or JSON with
//! the one key `customModes`, as Roo Code writes it, and `canDelegateTo` besides.
//!
//! A mode that is wrong is left out with its problem, and the others stay. A mode with a built-in's slug
//! takes its place. What Roo's format has no word for it keeps: the emoji when its name has none, the
//! delegation when there is no `canDelegateTo`, and how the entry mode works.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::built_in::BUILT_IN;
use super::declaration::{DECLARATION, GroupName, MODES_LIMIT};
use super::mode::{FileRestriction, Mode, Source};
use crate::config::yaml::{self, Step};
use crate::declaration::{meant_or_known, words_of};
use crate::problem::{Problem, Severity};
use crate::problem_list::ProblemList;
use crate::text_range::TextRange;
use roo_catalog::Group;
use roo_text::render::{exact_line, is_invisible, without_hidden};

/// The largest mode file, in bytes.
pub const FILE_LIMIT: usize = 1 << 20;
/// The most problems of a file that are told one by one.
const PROBLEMS_LIMIT: usize = 20;
/// Maximum length of text searched for positions, in bytes: each is a walk from the beginning.
const WALK_LIMIT: usize = 1 << 20;
/// The longest name, in characters.
const NAME_LIMIT: usize = 100;
/// The longest emoji, in bytes: one that is joined of four people has 25.
const EMOJI_LIMIT: usize = 32;
/// Marks a mode whose name begins with no emoji.
const DEFAULT_EMOJI: &str = "🤖";

const LIST: &str = "customModes";

/// The modes of a file, and what is wrong with the others.
#[derive(Clone, Debug, Default)]
pub struct ParsedModes {
    /// Those that can be used, in the order of the file; each slug once.
    pub modes: Vec<Mode>,
    /// In the order of the file.
    pub problems: Vec<Problem>,
    /// True if one of its modes, usable or not, has a `canDelegateTo`. Files of Roo Code have none: there every mode may
    /// delegate to every other.
    pub names_delegation: bool,
}

impl ParsedModes {
    /// Reads the text of a file. Where it is wrong as it stands, what word processors make of quotes, dashes
    /// and spaces is undone first.
    ///
    /// # Errors
    /// A text that is too large, no YAML or JSON, or has no list `customModes`.
    pub fn parse(text: &str, source: Source) -> Result<Self, Problem> {
        if text.len() > FILE_LIMIT {
            let message =
                format!("the file has more than {FILE_LIMIT} bytes; keep long texts in rules files");
            return Err(Problem::error(None, message));
        }
        let exact = Self::parse_exactly(text, source);
        if errors(&exact) == 0 {
            return exact;
        }
        match plain_typing(text) {
            Cow::Owned(plain) => {
                let repaired = Self::parse_exactly(&plain, source);
                if errors(&repaired) < errors(&exact) {
                    repaired.map(Self::without_suggestions)
                } else {
                    exact
                }
            }
            Cow::Borrowed(_) => exact,
        }
    }

    /// Positions in a repaired text may be a few columns off: no edit goes by them.
    fn without_suggestions(mut self) -> Self {
        self.problems.iter_mut().for_each(|problem| problem.suggestion = None);
        self
    }

    fn parse_exactly(text: &str, source: Source) -> Result<Self, Problem> {
        let problems = ProblemList::new(text, yaml::locate, places_limit(text));
        let mut reader = ModeReader { text, source, problems, slugs: BTreeSet::new() };
        let value = yaml::parse(text)?;
        let modes = reader.file(&value)?;
        let entries = value.get(LIST).and_then(Value::as_array);
        let names_delegation =
            entries.is_some_and(|entries| entries.iter().any(|entry| entry.get("canDelegateTo").is_some()));
        Ok(Self { modes, problems: reader.problems.finish(), names_delegation })
    }
}

/// Counts errors.
fn errors(outcome: &Result<ParsedModes, Problem>) -> usize {
    match outcome {
        Ok(parsed) => parsed.problems.iter().filter(|problem| problem.severity == Severity::Error).count(),
        Err(_) => usize::MAX,
    }
}

/// Returns whether a text may be a mode's slug: ASCII letters, digits and hyphens. Such a text is also a plain part of
/// a file name.
pub fn is_slug(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Returns the parts of a file's text that problems with its modes are about. Each costs a walk over the text, see
/// [`places_limit`].
pub fn locate(text: &str, parts: &[ModePart<'_>]) -> Vec<Option<TextRange>> {
    let value = yaml::parse(text).unwrap_or_default();
    let entries = value.get(LIST).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let is = |value: Option<&Value>, text: &str| value.and_then(Value::as_str) == Some(text);
    let place = |part: &ModePart<'_>| {
        let (ModePart::Slug(slug) | ModePart::DelegatesTo { slug, .. }) = *part;
        let index = entries.iter().position(|entry| is(entry.get("slug"), slug))?;
        let target = match part {
            ModePart::Slug(_) => None,
            ModePart::DelegatesTo { target, .. } => {
                let targets = entries.get(index)?.get("canDelegateTo").and_then(Value::as_array);
                targets.and_then(|targets| targets.iter().position(|value| is(Some(value), target)))
            }
        };
        let mode = [key(LIST), Step::Index(index)];
        let within = match target {
            Some(target) => vec![key("canDelegateTo"), Step::Index(target)],
            None => vec![key("slug")],
        };
        Some(TextRange::at(text, yaml::locate(text, &[&mode[..], &within].concat())?))
    };
    parts.iter().map(place).collect()
}

/// Part of a mode file that a problem is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModePart<'a> {
    /// The slug of a mode.
    Slug(&'a str),
    /// An entry of a mode's `canDelegateTo`; the mode's slug where the file doesn't have the entry.
    DelegatesTo {
        /// The slug of the mode.
        slug: &'a str,
        /// The entry.
        target: &'a str,
    },
}

/// Maximum number of places in a text that are searched: the longer it is, the fewer.
pub fn places_limit(text: &str) -> usize {
    (WALK_LIMIT / text.len().max(1)).clamp(1, PROBLEMS_LIMIT)
}

fn key(name: &str) -> Step {
    Step::Key(name.to_owned())
}

/// A text with plain quotes, hyphens and spaces for those of word processors. Lines stay where they are.
fn plain_typing(text: &str) -> Cow<'_, str> {
    let plain = |c: char| match c {
        '\u{a0}' | '\u{2007}' | '\u{202f}' => Some(' '),
        '\u{2018}'..='\u{201b}' => Some('\''),
        '\u{201c}'..='\u{201f}' => Some('"'),
        '\u{2010}'..='\u{2015}' | '\u{2212}' => Some('-'),
        // Not the joiner of emojis.
        '\u{200b}' | '\u{200c}' | '\u{2060}' | '\u{feff}' => None,
        other => Some(other),
    };
    if text.chars().all(|c| plain(c) == Some(c)) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().filter_map(plain).collect())
}

/// Reads values and collects what is wrong with them.
struct ModeReader<'a> {
    text: &'a str,
    source: Source,
    problems: ProblemList<'a>,
    /// Those that came already.
    slugs: BTreeSet<String>,
}

type JsonObject = Map<String, Value>;

impl ModeReader<'_> {
    fn file(&mut self, value: &Value) -> Result<Vec<Mode>, Problem> {
        let Value::Object(file) = value else {
            if value.is_null() {
                return Ok(vec![]);
            }
            return Err(Problem::error(None, format!("expected `{LIST}:` with a list of modes")));
        };
        let entries = match file.get(LIST) {
            Some(Value::Array(entries)) => entries.as_slice(),
            Some(Value::Null) => &[],
            Some(_) => {
                let position = yaml::locate(self.text, &[key(LIST)]);
                let message = format!("`{LIST}` must be a list of modes");
                return Err(Problem::error_at(self.text, position, message));
            }
            None => return Err(self.without_list(file)),
        };
        self.problems.check(Some(&DECLARATION.root()), &[], value, &[LIST]);
        if entries.len() > MODES_LIMIT {
            let message = format!("there are more than {MODES_LIMIT} modes; the rest are ignored");
            self.problems.error(&[key(LIST), Step::Index(MODES_LIMIT)], message);
        }
        let entries = entries.iter().enumerate().take(MODES_LIMIT);
        Ok(entries.filter_map(|(index, entry)| self.entry(index, entry)).collect())
    }

    /// The problem of a file without the list, at a key that may be meant for it.
    fn without_list(&self, file: &JsonObject) -> Problem {
        let misspelt = DECLARATION.root().unknown_keys(file).into_iter().find(|key| key.meant == Some(LIST));
        let Some(key) = misspelt else {
            return Problem::error(None, format!("`{LIST}` is missing; add it with a list of modes"));
        };
        let position = yaml::locate(self.text, &[Step::Name(key.name.to_owned())]);
        Problem::error_at(self.text, position, key.to_string()).with_suggestion(key.meant)
    }

    /// One mode; none when something in it is wrong.
    fn entry(&mut self, index: usize, value: &Value) -> Option<Mode> {
        let here = [key(LIST), Step::Index(index)];
        let Value::Object(object) = value else {
            self.problems.error(&here, "expected a mode: `slug`, `name`, `roleDefinition`, `groups`");
            return None;
        };
        self.problems.take_first_error();
        self.problems.check(DECLARATION.at(&here).as_ref(), &here, value, &["groups"]);
        let source = self.source;
        let mut entry = ModeEntry { reader: self, index, object };
        let slug = entry.slug();
        let name = entry.name();
        let role = entry.text("roleDefinition");
        let description = entry.text("description");
        let when_to_use = entry.text("whenToUse");
        let custom_instructions = entry.text("customInstructions");
        let (groups, file_restriction) = entry.groups();
        let can_delegate_to = entry.can_delegate_to();
        if self.problems.take_first_error().is_some() {
            return None;
        }
        let (Some(slug), Some((emoji, name)), Some(role)) = (slug, name, role) else {
            self.problems.error(&here, "`name` and `roleDefinition` must have visible characters");
            return None;
        };
        let below = BUILT_IN.iter().find(|mode| mode.slug == slug);
        let emoji = emoji.or_else(|| below.map(|mode| mode.emoji.clone()));
        Some(Mode {
            // A name that is nothing but an emoji.
            name: if name.is_empty() { slug.clone() } else { name },
            emoji: emoji.unwrap_or_else(|| DEFAULT_EMOJI.to_owned()),
            description,
            when_to_use,
            role,
            groups,
            file_restriction,
            can_delegate_to: can_delegate_to
                .or_else(|| below.map(|mode| mode.can_delegate_to.clone()))
                .unwrap_or_default(),
            delegates_once: below.is_some_and(|mode| mode.delegates_once),
            gathers_context: below.is_some_and(|mode| mode.gathers_context),
            instructions: String::new(),
            custom_instructions,
            source,
            slug,
        })
    }
}

/// One entry of the list.
struct ModeEntry<'a, 'b> {
    reader: &'a mut ModeReader<'b>,
    index: usize,
    object: &'a JsonObject,
}

impl ModeEntry<'_, '_> {
    fn path(&self, field: &str, rest: &[Step]) -> Vec<Step> {
        let start = [key(LIST), Step::Index(self.index), key(field)];
        start.into_iter().chain(rest.iter().cloned()).collect()
    }

    fn error(&mut self, field: &str, rest: &[Step], message: String) {
        let path = self.path(field, rest);
        self.reader.problems.error(&path, message);
    }

    fn slug(&mut self) -> Option<String> {
        // What can't be seen is no part of a slug, and it is told as such.
        let slug = self.object.get("slug").and_then(Value::as_str)?.trim().to_owned();
        if !is_slug(&slug) {
            let slug = exact_line(&slug);
            self.error(
                "slug",
                &[],
                format!("the slug '{slug}' may contain only letters, digits and hyphens"),
            );
            return None;
        }
        if !self.reader.slugs.insert(slug.clone()) {
            self.error("slug", &[], format!("duplicate slug '{slug}'; only the first mode is used"));
            return None;
        }
        Some(slug)
    }

    /// The emoji that the name begins with, and the name.
    fn name(&mut self) -> Option<(Option<String>, String)> {
        let (emoji, name) = split_emoji(&self.text("name")?);
        if emoji.as_ref().is_some_and(|emoji| emoji.len() > EMOJI_LIMIT) {
            self.error("name", &[], "`name` begins with more than one emoji; keep one".to_owned());
            return None;
        }
        if name.chars().count() > NAME_LIMIT {
            let message = format!("`name` has more than {NAME_LIMIT} characters; shorten it");
            self.error("name", &[], message);
            return None;
        }
        Some((emoji, name))
    }

    /// A text; none where it is missing or empty.
    fn text(&mut self, field: &str) -> Option<String> {
        let text = self.object.get(field).and_then(Value::as_str)?.trim();
        // An emoji is joined and shaped by what can't be seen.
        let kept = if field == "name" { emoji_length(text) } else { 0 };
        let (emoji, rest) = text.split_at_checked(kept).unwrap_or(("", text));
        let shown = self.shown(&self.path(field, &[]), rest);
        Some(format!("{emoji}{shown}").trim().to_owned()).filter(|text| !text.is_empty())
    }

    /// A text at a place without what can't be seen, in which orders to a model could hide.
    fn shown<'t>(&mut self, path: &[Step], text: &'t str) -> Cow<'t, str> {
        let (shown, hidden) = without_hidden(text);
        if hidden.is_some() {
            self.reader.problems.warning(path, "invisible characters were ignored; remove them");
        }
        shown
    }

    fn groups(&mut self) -> (Vec<Group>, Option<FileRestriction>) {
        let (mut groups, mut restriction, mut seen) = (Vec::new(), None, BTreeSet::new());
        let entries = self.object.get("groups").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        for (index, entry) in entries.iter().enumerate() {
            let at = [Step::Index(index)];
            let (name, options) = match entry {
                Value::String(name) => (name, None),
                Value::Array(pair) => match pair.as_slice() {
                    [Value::String(name)] => (name, None),
                    [Value::String(name), options @ Value::Object(_)] => (name, Some(options)),
                    _ => {
                        let message = "expected a group and its options: `[edit, { fileRegex: … }]`";
                        self.error("groups", &at, message.to_owned());
                        continue;
                    }
                },
                _ => {
                    self.error("groups", &at, "expected the name of a group".to_owned());
                    continue;
                }
            };
            let Some(group) = GroupName::parse(name) else {
                self.unknown_group(&at, entry.is_array(), name);
                continue;
            };
            if !seen.insert(group) {
                self.error("groups", &at, format!("duplicate group '{name}'; keep one"));
                continue;
            }
            let found = options.and_then(|options| self.restriction(&at, options));
            match group {
                GroupName::Edit => restriction = found,
                _ if found.is_some() => {
                    let message = "fileRegex applies only to the group edit; it has no effect here";
                    let path = self.path("groups", &at);
                    self.reader.problems.warning(&path, message);
                }
                _ => {}
            }
            groups.extend(group.tools());
        }
        (groups, restriction)
    }

    fn unknown_group(&mut self, at: &[Step], has_options: bool, name: &str) {
        let words: Vec<String> = words_of::<GroupName>().into_iter().map(|known| known.word).collect();
        let known: Vec<&str> = words.iter().map(String::as_str).collect();
        let (end, meant) = meant_or_known(name, &known, "the groups are");
        let inner: &[Step] = if has_options { &[Step::Index(0)] } else { &[] };
        let path = self.path("groups", &[at, inner].concat());
        let message = format!("there is no group '{}'{end}", exact_line(name));
        self.reader.problems.suggest(Severity::Error, &path, message, meant);
    }

    /// The pattern of a group's options. One that can't be used is an error: it would let everything pass.
    fn restriction(&mut self, at: &[Step], options: &Value) -> Option<FileRestriction> {
        let field = |name: &str| [at, &[Step::Index(1), key(name)]].concat();
        let path = self.path("groups", &[at, &[Step::Index(1)]].concat());
        self.reader.problems.check(DECLARATION.at(&path).as_ref(), &path, options, &[]);
        let text = |name: &str| options.get(name).and_then(Value::as_str);
        let description = text("description").map(str::trim).filter(|text| !text.is_empty());
        let pattern = text("fileRegex")?;
        if let (Cow::Owned(_), _) = without_hidden(pattern) {
            let message = "the pattern contains invisible characters; write them as `\\u{…}`".to_owned();
            self.error("groups", &field("fileRegex"), message);
            return None;
        }
        let path = self.path("groups", &field("description"));
        let description = self.shown(&path, description.unwrap_or("files that match a pattern"));
        match FileRestriction::new(pattern, &description) {
            Ok(restriction) => Some(restriction),
            Err(error) => {
                let message = format!("the pattern '{}' can't be used: {error}", exact_line(pattern));
                self.error("groups", &field("fileRegex"), message);
                None
            }
        }
    }

    /// To whom it may delegate; none when nothing is said.
    fn can_delegate_to(&mut self) -> Option<Vec<String>> {
        let entries = self.object.get("canDelegateTo").and_then(Value::as_array)?;
        let mut slugs: Vec<String> = Vec::new();
        for (index, entry) in entries.iter().enumerate() {
            match entry.as_str() {
                Some(slug) if !is_slug(slug) => {
                    self.error("canDelegateTo", &[Step::Index(index)], "expected a mode's slug".to_owned());
                }
                Some(slug) if slugs.iter().any(|known| known == slug) => {}
                Some(slug) => slugs.push(slug.to_owned()),
                None => {}
            }
        }
        Some(slugs)
    }
}

/// The emoji that a name begins with, and the rest as one line.
fn split_emoji(name: &str) -> (Option<String>, String) {
    let (emoji, rest) = name.split_at_checked(emoji_length(name)).unwrap_or(("", name));
    let rest = rest.split_whitespace().collect::<Vec<_>>().join(" ");
    ((!emoji.is_empty()).then(|| emoji.to_owned()), rest)
}

/// In bytes. What only shapes an emoji begins none.
fn emoji_length(name: &str) -> usize {
    if name.starts_with(is_invisible) {
        return 0;
    }
    name.chars().take_while(|&c| is_pictograph(c)).map(char::len_utf8).sum()
}

/// Returns whether a character is a picture or a part of one: symbols, pictographs, joiner, presentation selector.
fn is_pictograph(c: char) -> bool {
    matches!(c,
        '\u{a9}' | '\u{ae}' | '\u{200d}' | '\u{203c}' | '\u{2049}' | '\u{20e3}' | '\u{2122}' | '\u{2139}'
        | '\u{2190}'..='\u{2bff}' | '\u{3030}' | '\u{303d}' | '\u{3297}' | '\u{3299}' | '\u{fe0f}'
        | '\u{1f000}'..='\u{1faff}')
}

#[cfg(test)]
mod tests;
