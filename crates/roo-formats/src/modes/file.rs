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
use super::declaration::{DECLARATION, GroupName};
use super::mode::{FileRestriction, Mode, Source};
use crate::config::Position;
use crate::config::yaml::{self, Step};
use crate::declaration::words_of;
use roo_catalog::Group;
use roo_text::render::{exact_line, is_invisible, without_hidden};

/// The largest mode file, in bytes.
pub const FILE_LIMIT: usize = 1 << 20;
/// The most modes of a file.
pub(super) const MODES_LIMIT: usize = 200;
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
/// Severity of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Something counts, but perhaps not as it was meant.
    Warning,
    /// Something does not count.
    Error,
}

/// Problem with a mode file or with a part of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ModeFileProblem {
    /// Position, if known.
    pub position: Option<Position>,
    /// Severity.
    pub severity: Severity,
    /// Problem and remedy.
    pub message: String,
}

impl ModeFileProblem {
    fn whole_file(message: String) -> Self {
        Self { position: None, severity: Severity::Error, message }
    }
}

/// The modes of a file, and what is wrong with the others.
#[derive(Clone, Debug, Default)]
pub struct ParsedModes {
    /// Those that can be used, in the order of the file; each slug once.
    pub modes: Vec<Mode>,
    /// In the order of the file.
    pub problems: Vec<ModeFileProblem>,
}

impl ParsedModes {
    /// Reads the text of a file. Where it is wrong as it stands, what word processors make of quotes, dashes
    /// and spaces is undone first.
    ///
    /// # Errors
    /// A text that is too large, no YAML or JSON, or has no list `customModes`.
    pub fn parse(text: &str, source: Source) -> Result<Self, ModeFileProblem> {
        if text.len() > FILE_LIMIT {
            let message =
                format!("the file has more than {FILE_LIMIT} bytes; keep long texts in rules files");
            return Err(ModeFileProblem::whole_file(message));
        }
        let exact = Self::parse_exactly(text, source);
        if errors(&exact) == 0 {
            return exact;
        }
        match plain_typing(text) {
            Cow::Owned(plain) => {
                let repaired = Self::parse_exactly(&plain, source);
                if errors(&repaired) < errors(&exact) { repaired } else { exact }
            }
            Cow::Borrowed(_) => exact,
        }
    }

    fn parse_exactly(text: &str, source: Source) -> Result<Self, ModeFileProblem> {
        let value = yaml::parse(text).map_err(|(position, message)| ModeFileProblem {
            position,
            ..ModeFileProblem::whole_file(message)
        })?;
        let mut reader =
            ModeReader { text, source, problems: vec![], errors: 0, untold: 0, slugs: BTreeSet::new() };
        let modes = reader.file(&value)?;
        Ok(Self { modes, problems: reader.finish() })
    }
}

/// Counts errors.
fn errors(outcome: &Result<ParsedModes, ModeFileProblem>) -> usize {
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

/// Returns the positions of the modes with these slugs in the text of a file. Each costs a walk over the text, see
/// [`places_limit`].
pub fn locate(text: &str, slugs: &[&str]) -> Vec<Option<Position>> {
    let value = yaml::parse(text).unwrap_or_default();
    let entries = value.get(LIST).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let is = |entry: &Value, slug: &str| entry.get("slug").and_then(Value::as_str) == Some(slug);
    let place = |slug: &&str| {
        let index = entries.iter().position(|entry| is(entry, slug))?;
        yaml::locate(text, &[key(LIST), Step::Index(index), key("slug")])
    };
    slugs.iter().map(place).collect()
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
    problems: Vec<ModeFileProblem>,
    errors: usize,
    untold: usize,
    /// Those that came already.
    slugs: BTreeSet<String>,
}

type JsonObject = Map<String, Value>;

impl ModeReader<'_> {
    fn file(&mut self, value: &Value) -> Result<Vec<Mode>, ModeFileProblem> {
        let Value::Object(file) = value else {
            if value.is_null() {
                return Ok(vec![]);
            }
            return Err(ModeFileProblem::whole_file(format!("expected `{LIST}:` with a list of modes")));
        };
        let entries = match file.get(LIST) {
            Some(Value::Array(entries)) => entries.as_slice(),
            Some(Value::Null) => &[],
            Some(_) => {
                let position = yaml::locate(self.text, &[key(LIST)]);
                let message = format!("`{LIST}` must be a list of modes");
                return Err(ModeFileProblem { position, ..ModeFileProblem::whole_file(message) });
            }
            None => {
                return Err(ModeFileProblem::whole_file(format!(
                    "`{LIST}` is missing; add it with a list of modes"
                )));
            }
        };
        self.unknown_keys(file, &[]);
        if entries.len() > MODES_LIMIT {
            let message = format!("there are more than {MODES_LIMIT} modes; the rest are ignored");
            self.error(&[key(LIST), Step::Index(MODES_LIMIT)], message);
        }
        let entries = entries.iter().enumerate().take(MODES_LIMIT);
        Ok(entries.filter_map(|(index, entry)| self.entry(index, entry)).collect())
    }

    /// Points out the keys of a mapping that aren't declared at `path`.
    fn unknown_keys(&mut self, object: &JsonObject, path: &[Step]) {
        for unknown in DECLARATION.at(path).iter().flat_map(|part| part.unknown_keys(object)) {
            self.warning(&[path, &[Step::Name(unknown.name.to_owned())]].concat(), unknown.to_string());
        }
    }

    fn finish(mut self) -> Vec<ModeFileProblem> {
        if self.untold > 0 {
            let message = format!("and {} more problems in this file", self.untold);
            self.problems.push(ModeFileProblem::whole_file(message));
        }
        self.problems
    }

    fn error(&mut self, path: &[Step], message: String) {
        self.errors += 1;
        self.problem(Severity::Error, path, message);
    }

    fn warning(&mut self, path: &[Step], message: String) {
        self.problem(Severity::Warning, path, message);
    }

    fn problem(&mut self, severity: Severity, path: &[Step], message: String) {
        if self.problems.len() >= places_limit(self.text) {
            self.untold += 1;
            return;
        }
        let position = yaml::locate(self.text, path);
        self.problems.push(ModeFileProblem { position, severity, message });
    }

    /// One mode; none when something in it is wrong.
    fn entry(&mut self, index: usize, value: &Value) -> Option<Mode> {
        let before = self.errors;
        let here = [key(LIST), Step::Index(index)];
        let Value::Object(object) = value else {
            self.error(&here, "expected a mode: `slug`, `name`, `roleDefinition`, `groups`".to_owned());
            return None;
        };
        let mut entry = ModeEntry { reader: self, index, object };
        let slug = entry.slug();
        let name = entry.name();
        let role = entry.required("roleDefinition");
        let description = entry.optional("description");
        let when_to_use = entry.optional("whenToUse");
        let custom_instructions = entry.optional("customInstructions");
        let (groups, file_restriction) = entry.groups();
        let can_delegate_to = entry.can_delegate_to();
        self.unknown_keys(object, &here);
        let source = self.source;
        if self.errors > before {
            return None;
        }
        let (slug, (emoji, name)) = (slug?, name?);
        let below = BUILT_IN.iter().find(|mode| mode.slug == slug);
        let emoji = emoji.or_else(|| below.map(|mode| mode.emoji.clone()));
        Some(Mode {
            // A name that is nothing but an emoji.
            name: if name.is_empty() { slug.clone() } else { name },
            emoji: emoji.unwrap_or_else(|| DEFAULT_EMOJI.to_owned()),
            description,
            when_to_use,
            role: role?,
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
        self.reader.error(&path, message);
    }

    fn slug(&mut self) -> Option<String> {
        let slug = self.required("slug")?;
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
        let (emoji, name) = split_emoji(&self.required("name")?);
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

    /// A text that must be there. What is one line in a prompt is one line here.
    fn required(&mut self, field: &str) -> Option<String> {
        if self.object.get(field).is_none_or(Value::is_null) {
            let path = [key(LIST), Step::Index(self.index)];
            self.reader.error(&path, format!("the mode lacks `{field}`"));
            return None;
        }
        let text = self.text(field)?;
        if text.is_empty() {
            self.error(field, &[], format!("`{field}` must not be empty"));
            return None;
        }
        Some(text)
    }

    /// A text that may be missing; empty is missing.
    fn optional(&mut self, field: &str) -> Option<String> {
        self.text(field).filter(|text| !text.is_empty())
    }

    fn text(&mut self, field: &str) -> Option<String> {
        match self.object.get(field)? {
            Value::Null => None,
            // What can't be seen is no part of a slug, and it is told as such.
            Value::String(text) if field == "slug" => Some(text.trim().to_owned()),
            Value::String(text) => {
                let text = text.trim();
                // An emoji is joined and shaped by what can't be seen.
                let kept = if field == "name" { emoji_length(text) } else { 0 };
                let (emoji, rest) = text.split_at_checked(kept).unwrap_or(("", text));
                let shown = self.shown(&self.path(field, &[]), rest);
                Some(format!("{emoji}{shown}").trim().to_owned())
            }
            _ => {
                self.error(field, &[], format!("`{field}` must be a string; put it in quotes"));
                None
            }
        }
    }

    /// A text at a place without what can't be seen, in which orders to a model could hide.
    fn shown<'t>(&mut self, path: &[Step], text: &'t str) -> Cow<'t, str> {
        let (shown, hidden) = without_hidden(text);
        if hidden.is_some() {
            let message = "invisible characters were ignored; remove them".to_owned();
            self.reader.warning(path, message);
        }
        shown
    }

    fn groups(&mut self) -> (Vec<Group>, Option<FileRestriction>) {
        let (mut groups, mut restriction, mut seen) = (Vec::new(), None, BTreeSet::new());
        let entries = match self.object.get("groups") {
            Some(Value::Array(entries)) => entries.as_slice(),
            None | Some(Value::Null) => {
                let path = [key(LIST), Step::Index(self.index)];
                self.reader.error(&path, "the mode lacks `groups`; write `groups: []` for none".to_owned());
                &[]
            }
            Some(_) => {
                self.error("groups", &[], "`groups` must be a list".to_owned());
                &[]
            }
        };
        for (index, entry) in entries.iter().enumerate() {
            let at = [Step::Index(index)];
            let (name, options) = match entry {
                Value::String(name) => (name, None),
                Value::Array(pair) => match pair.as_slice() {
                    [Value::String(name)] => (name, None),
                    [Value::String(name), Value::Object(options)] => (name, Some(options)),
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
                let words: Vec<String> =
                    words_of::<GroupName>().into_iter().map(|known| known.word).collect();
                let message =
                    format!("there is no group '{}'; the groups are {}", exact_line(name), words.join(", "));
                self.error("groups", &at, message);
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
                    let message =
                        "fileRegex applies only to the group edit; it has no effect here".to_owned();
                    let path = self.path("groups", &at);
                    self.reader.warning(&path, message);
                }
                _ => {}
            }
            groups.extend(group.tools());
        }
        (groups, restriction)
    }

    /// The pattern of a group's options. One that can't be used is an error: it would let everything pass.
    fn restriction(&mut self, at: &[Step], options: &JsonObject) -> Option<FileRestriction> {
        let field = |name: &str| [at, &[Step::Index(1), key(name)]].concat();
        let path = self.path("groups", &[at, &[Step::Index(1)]].concat());
        self.reader.unknown_keys(options, &path);
        let mut text = |name: &str| match options.get(name) {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text.as_str()),
            Some(_) => {
                self.error("groups", &field(name), format!("`{name}` must be a string; put it in quotes"));
                None
            }
        };
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
        let entries = match self.object.get("canDelegateTo")? {
            Value::Null => return None,
            Value::Array(entries) => entries,
            _ => {
                self.error("canDelegateTo", &[], "`canDelegateTo` must be a list of slugs".to_owned());
                return None;
            }
        };
        if entries.len() > MODES_LIMIT {
            let message = format!("`canDelegateTo` has more than {MODES_LIMIT} modes");
            self.error("canDelegateTo", &[], message);
            return None;
        }
        let mut slugs: Vec<String> = Vec::new();
        for (index, entry) in entries.iter().enumerate() {
            match entry.as_str().filter(|slug| is_slug(slug)) {
                Some(slug) if slugs.iter().any(|known| known == slug) => {}
                Some(slug) => slugs.push(slug.to_owned()),
                None => {
                    self.error("canDelegateTo", &[Step::Index(index)], "expected a mode's slug".to_owned())
                }
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
