//! The text of a mode file: `.roomodes` of a workspace, `custom-modes.yaml` of a user. YAML or JSON with
//! the one key `customModes`, as Roo Code writes it, and `canDelegateTo` besides.
//!
//! A mode that is wrong is left out with its problem, and the others stay. A mode with a built-in's slug
//! takes its place. What Roo's format has no word for it keeps: the emoji when its name has none, the
//! delegation when there is no `canDelegateTo`, and how the entry mode works.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::Value;

use super::built_in::BUILT_IN;
use super::declaration::{
    DECLARATION, FilePattern, GroupName, GroupOptions, MODES_LIMIT, ModeEntry, ModeFile,
};
use super::mode::{FileRestriction, Mode, Source};
use super::pictograph::is_part_of_pictograph;
use crate::config::yaml::{self, Step};
use crate::declaration::{meant_or_known, words_of};
use crate::placed::Placed;
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
        let mut reader = ModeReader { source, problems, slugs: BTreeSet::new(), names_delegation: false };
        let modes = reader.file(&yaml::parse(text)?)?;
        let ModeReader { problems, names_delegation, .. } = reader;
        Ok(Self { modes, problems: problems.finish(), names_delegation })
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
    let file: ModeFile = DECLARATION.root().read::<_, ModeEntry>(&[], &value).0;
    let entries = file.custom_modes.unwrap_or_default();
    let read = |(index, entry): (usize, &Value)| {
        let here = entries.below(Step::Index(index));
        Some(DECLARATION.at(&here)?.read::<ModeEntry, GroupName>(&here, entry).0)
    };
    let modes: Vec<ModeEntry> = entries.value.iter().enumerate().take(MODES_LIMIT).filter_map(read).collect();
    let place = |part: &ModePart<'_>| {
        let (ModePart::Slug(wanted) | ModePart::DelegatesTo { slug: wanted, .. }) = *part;
        let is_wanted = |mode: &&ModeEntry| mode.slug.as_ref().is_some_and(|slug| slug.value == wanted);
        let mode = modes.iter().find(is_wanted)?;
        let target = match part {
            ModePart::Slug(_) => None,
            ModePart::DelegatesTo { target, .. } => {
                mode.can_delegate_to.value.iter().flatten().find(|named| named.value == *target)
            }
        };
        let found = target.or(mode.slug.as_ref())?;
        Some(TextRange::at(text, yaml::locate(text, &found.path)?))
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

/// Groups of a mode, and what their options limit.
#[derive(Default)]
struct Groups {
    groups: Vec<Group>,
    file_restriction: Option<FileRestriction>,
    mcp_servers: Option<BTreeSet<String>>,
}

/// Reads values and collects what is wrong with them.
struct ModeReader<'a> {
    source: Source,
    problems: ProblemList<'a>,
    /// Those that came already.
    slugs: BTreeSet<String>,
    /// True if one of the modes, usable or not, says to whom it may delegate.
    names_delegation: bool,
}

impl ModeReader<'_> {
    fn file(&mut self, value: &Value) -> Result<Vec<Mode>, Problem> {
        let file = match value {
            Value::Object(file) => file,
            Value::Null => return Ok(vec![]),
            _ => return Err(Problem::error(None, "expected `customModes:` with a list of modes")),
        };
        let file: ModeFile =
            self.problems.read_file::<_, ModeEntry>(&DECLARATION, file, "a list of modes")?;
        let Some(entries) = file.custom_modes else { return Ok(vec![]) };
        if entries.value.len() > MODES_LIMIT {
            let message = format!("there are more than {MODES_LIMIT} modes; the rest are ignored");
            self.problems.error(&entries.below(Step::Index(MODES_LIMIT)), message);
        }
        let read = |(index, entry): (usize, &Value)| self.entry(&entries.below(Step::Index(index)), entry);
        Ok(entries.value.iter().enumerate().take(MODES_LIMIT).filter_map(read).collect())
    }

    /// One mode; none when something in it is wrong.
    fn entry(&mut self, here: &[Step], value: &Value) -> Option<Mode> {
        if !value.is_object() {
            self.problems.error(here, "expected a mode: `slug`, `name`, `roleDefinition`, `groups`");
            return None;
        }
        self.problems.take_first_error();
        let part = DECLARATION.at(here);
        let entry: ModeEntry = self.problems.read_outer::<_, GroupName>(part.as_ref(), here, value);
        self.names_delegation |= entry.can_delegate_to.is_written();
        let source = self.source;
        let slug = self.slug(entry.slug);
        let name = self.name(entry.name);
        let role = self.text(entry.role_definition);
        let description = self.text(entry.description);
        let when_to_use = self.text(entry.when_to_use);
        let custom_instructions = self.text(entry.custom_instructions);
        let Groups { groups, file_restriction, mcp_servers } = self.groups(&entry.groups.unwrap_or_default());
        let can_delegate_to = entry.can_delegate_to.value.map(|slugs| self.targets(slugs));
        if self.problems.take_first_error().is_some() {
            return None;
        }
        let (Some(slug), Some((emoji, name)), Some(role)) = (slug, name, role) else {
            self.problems.error(here, "`name` and `roleDefinition` must have visible characters");
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
            mcp_servers,
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

    fn slug(&mut self, slug: Option<Placed<String>>) -> Option<String> {
        let Placed { path, value } = slug?;
        // What can't be seen is no part of a slug, and it is reported as such.
        let slug = value.trim();
        if !is_slug(slug) {
            let slug = exact_line(slug);
            let message = format!("the slug '{slug}' may contain only letters, digits and hyphens");
            self.problems.error(&path, message);
            return None;
        }
        if !self.slugs.insert(slug.to_owned()) {
            self.problems.error(&path, format!("duplicate slug '{slug}'; only the first mode is used"));
            return None;
        }
        Some(slug.to_owned())
    }

    /// The emoji that the name begins with, and the name.
    fn name(&mut self, name: Option<Placed<String>>) -> Option<(Option<String>, String)> {
        let Placed { path, value } = name?;
        let name = value.trim();
        // An emoji is joined and shaped by what can't be seen.
        let (emoji, rest) = name.split_at_checked(emoji_length(name)).unwrap_or(("", name));
        let name = format!("{emoji}{}", self.shown(&path, rest));
        let (emoji, name) = split_emoji(Some(name.trim()).filter(|name| !name.is_empty())?);
        if emoji.as_ref().is_some_and(|emoji| emoji.len() > EMOJI_LIMIT) {
            self.problems.error(&path, "`name` begins with more than one emoji; keep one");
            return None;
        }
        if name.chars().count() > NAME_LIMIT {
            self.problems.error(&path, format!("`name` has more than {NAME_LIMIT} characters; shorten it"));
            return None;
        }
        Some((emoji, name))
    }

    /// A text; none where it is missing or empty.
    fn text(&mut self, text: Option<Placed<String>>) -> Option<String> {
        let Placed { path, value } = text?;
        let shown = self.shown(&path, value.trim());
        Some(shown.trim().to_owned()).filter(|text| !text.is_empty())
    }

    /// A text at a place without what can't be seen, in which orders to a model could hide.
    fn shown<'t>(&mut self, path: &[Step], text: &'t str) -> Cow<'t, str> {
        let (shown, hidden) = without_hidden(text);
        if hidden.is_some() {
            self.problems.warning(path, "invisible characters were ignored; remove them");
        }
        shown
    }

    fn groups(&mut self, entries: &Placed<Vec<Value>>) -> Groups {
        let (mut found, mut seen) = (Groups::default(), BTreeSet::new());
        for (index, entry) in entries.value.iter().enumerate() {
            let here = entries.below(Step::Index(index));
            let within = |index: usize| [&here[..], &[Step::Index(index)]].concat();
            let (name, at, options) = match entry {
                Value::String(name) => (name, here.clone(), None),
                Value::Array(pair) => match pair.as_slice() {
                    [Value::String(name)] => (name, within(0), None),
                    [Value::String(name), options @ Value::Object(_)] => (name, within(0), Some(options)),
                    _ => {
                        let message = "expected a group and its options: `[edit, { fileRegex: … }]`";
                        self.problems.error(&here, message);
                        continue;
                    }
                },
                _ => {
                    self.problems.error(&here, "expected the name of a group");
                    continue;
                }
            };
            let Some(group) = GroupName::parse(name) else {
                self.unknown_group(&at, name);
                continue;
            };
            if !seen.insert(group) {
                self.problems.error(&here, format!("duplicate group '{name}'; keep one"));
                continue;
            }
            let (files, servers) =
                options.map(|options| self.options(&within(1), options)).unwrap_or_default();
            match group {
                GroupName::Edit => found.file_restriction = files,
                _ if files.is_some() => {
                    let message = "fileRegex applies only to the group edit; it has no effect here";
                    self.problems.warning(&here, message);
                }
                _ => {}
            }
            match group {
                GroupName::Mcp => found.mcp_servers = servers,
                _ if servers.is_some() => {
                    let message = "servers applies only to the group mcp; it has no effect here";
                    self.problems.warning(&here, message);
                }
                _ => {}
            }
            found.groups.extend(group.tools());
        }
        found
    }

    fn unknown_group(&mut self, path: &[Step], name: &str) {
        let words: Vec<String> = words_of::<GroupName>().into_iter().map(|known| known.word).collect();
        let known: Vec<&str> = words.iter().map(String::as_str).collect();
        let (end, meant) = meant_or_known(name, &known, "the groups are");
        let message = format!("there is no group '{}'{end}", exact_line(name));
        self.problems.suggest(Severity::Error, path, message, meant);
    }

    /// What a group's options limit: files, or servers.
    fn options(
        &mut self,
        here: &[Step],
        options: &Value,
    ) -> (Option<FileRestriction>, Option<BTreeSet<String>>) {
        let part = DECLARATION.at(here);
        let mut options: GroupOptions = self.problems.read(part.as_ref(), here, options);
        let Placed { path, value } = std::mem::take(&mut options.servers);
        let servers = value.map(|servers| {
            if servers.is_empty() {
                let message = "`servers` names no server; name one, or leave out the group mcp";
                self.problems.error(&path, message);
            }
            servers.into_iter().map(|server| server.value).collect()
        });
        (self.restriction(options), servers)
    }

    /// The pattern of a group's options. One that can't be used is an error: it would let everything pass.
    fn restriction(&mut self, options: GroupOptions) -> Option<FileRestriction> {
        let Placed { path, value: FilePattern(pattern) } = options.file_regex?;
        if let (Cow::Owned(_), _) = without_hidden(&pattern) {
            let message = "the pattern contains invisible characters; write them as `\\u{…}`";
            self.problems.error(&path, message);
            return None;
        }
        let description = self.text(options.description);
        match FileRestriction::new(&pattern, description.as_deref().unwrap_or("files that match a pattern")) {
            Ok(restriction) => Some(restriction),
            Err(error) => {
                let message = format!("the pattern '{}' can't be used: {error}", exact_line(&pattern));
                self.problems.error(&path, message);
                None
            }
        }
    }

    /// To whom it may delegate.
    fn targets(&mut self, entries: Vec<Placed<String>>) -> Vec<String> {
        let mut slugs: Vec<String> = Vec::new();
        for Placed { path, value: slug } in entries {
            if !is_slug(&slug) {
                self.problems.error(&path, "expected a mode's slug");
            } else if !slugs.contains(&slug) {
                slugs.push(slug);
            }
        }
        slugs
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
    name.chars().take_while(|&c| is_part_of_pictograph(c)).map(char::len_utf8).sum()
}

#[cfg(test)]
mod tests;
