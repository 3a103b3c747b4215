//! Messages by which one mode delegates to another: the message of `new_task`, and the tree of who works for whom.
//!
//! The message is read line by line and rewritten in one form, with the server's own tree: whatever
//! history a model draws does not count. Whether the caller may delegate to the target, and whether the
//! context files exist, is decided elsewhere.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::built_in::BUILT_IN;
use super::mode::Mode;
use super::pictograph::is_pictograph;
use roo_protocol::ids::Urid;
use roo_text::render::{exact_line, is_invisible, one_line};

#[cfg(test)]
mod tests;

/// The most words of a description in a header line.
const MAX_WORDS: usize = 8;
/// The most context files of one message: each of them must be read before work begins.
const MAX_FILES: usize = 64;
/// The most characters of a title in a tree.
const MAX_TITLE_CHARS: usize = 120;
/// Stands under the reader's own branch.
const HERE: &str = "^ we are here";
/// Stands above the list of context files.
const FILES: &str = "Relevant context files";

/// Content of a `new_task` message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Delegation {
    /// The short description, 1 to 8 words on one line, as in the tree; without the emoji.
    pub title: String,
    /// Description and context: everything before the list of files, or before the tree where none
    /// are listed.
    pub before: String,
    /// The context files, each once, as `.roo/tasks/<URID>/…` relative to the first root. That they
    /// exist has not been looked at.
    pub context_files: Vec<String>,
    /// Text after the list of context files; may be empty.
    pub next_step: String,
}

/// Expectations that a message is checked against.
#[derive(Clone, Copy, Debug)]
pub struct Expected<'a> {
    /// The mode to which it delegates.
    pub target: &'a Mode,
    /// The id of the request that it belongs to.
    pub urid: &'a Urid,
    /// The request's directory, see [`super::task_directory`].
    pub task_directory: &'a str,
}

/// A part of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The first line: emoji and short description.
    Header,
    /// The line with the request's id.
    Urid,
    /// Description, context and next step.
    Body,
    /// The list of context files.
    ContextFiles,
    /// The line `@.roo/tasks/<URID>/`.
    Marker,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Header => "the header line",
            Self::Urid => "the URID line",
            Self::Body => "the description",
            Self::ContextFiles => "the list of context files",
            Self::Marker => "the directory marker",
        })
    }
}

/// A message that can't be passed on. The text is for the model that wrote it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "The message of new_task is malformed: line {line}, {part}: {problem}\n\nA correct message for this mode \
     and this request (the invocation tree is drawn for you; leave out the list and the last line when there \
     are no context files):\n\n{example}"
)]
pub struct Malformed {
    /// The part that is wrong or missing.
    pub part: Part,
    /// The line of the message where it stands or should stand, from 1.
    pub line: usize,
    /// Problem, and what is expected.
    pub problem: String,
    example: String,
}

/// Reads the message of a `new_task` call.
///
/// Surrounding white space, CRLF, missing blank lines, one code fence around everything and the
/// variation selector of an emoji make no difference, and an invocation tree is cut out wherever it
/// stands.
///
/// # Errors
/// [`Malformed`] for the first part that is wrong.
pub fn parse(message: &str, expected: &Expected<'_>) -> Result<Delegation, Malformed> {
    read(message, expected).map_err(|(part, line, problem)| Malformed {
        part,
        line,
        problem,
        example: example(expected),
    })
}

/// The message in its one form, with the server's own tree.
pub fn render(delegation: &Delegation, emoji: &str, urid: &Urid, tree: &str) -> String {
    let mut parts = vec![format!("{emoji} {}", delegation.title).trim().to_owned(), format!("URID: {urid}")];
    parts.extend([delegation.before.clone(), tree.to_owned()]);
    if !delegation.context_files.is_empty() {
        parts.push(format!("{FILES}:\n{}", delegation.context_files.join("\n")));
    }
    parts.push(delegation.next_step.clone());
    if !delegation.context_files.is_empty() {
        parts.push(format!("@{}/", super::task_directory(urid)));
    }
    parts.retain(|part| !part.is_empty());
    parts.join("\n\n")
}

fn example(expected: &Expected<'_>) -> String {
    let delegation = Delegation {
        title: "Describe the task in few words".to_owned(),
        before: "What is to be done, with every detail, prerequisite and requirement.".to_owned(),
        context_files: vec![format!("{}/analysis.md", expected.task_directory)],
        next_step: "Read the context files first, then say what you did and how you checked it.".to_owned(),
    };
    render(&delegation, &expected.target.emoji, expected.urid, "")
}

/// Problem with a part of the message, and its line.
type Wrong = (Part, usize, String);

/// A line with its number, from 1.
type NumberedLine<'a> = (usize, &'a str);

fn read(message: &str, expected: &Expected<'_>) -> Result<Delegation, Wrong> {
    let lines: Vec<NumberedLine<'_>> = message
        .lines()
        .map(|line| line.trim_end_matches('\r'))
        .zip(1..)
        .map(|(line, at)| (at, line))
        .collect();
    let mut rest = unwrap_fence(trim(&lines));
    let end = lines.len().max(1);
    let title = match rest.split_first() {
        Some((&(at, line), after)) => {
            rest = trim(after);
            header(line, expected.target).map_err(|problem| (Part::Header, at, problem))?
        }
        None => return Err((Part::Header, end, format!("it is missing. {}", header_form(expected.target)))),
    };
    let urid = rest.split_first().and_then(|(&(at, line), after)| Some((at, urid_value(line)?, after)));
    match urid {
        Some((_, urid, after)) if urid.eq_ignore_ascii_case(expected.urid.as_str()) => rest = trim(after),
        Some((at, urid, _)) => {
            let problem = format!(
                "'{}' is not the id of this request. Expected `URID: {}`.",
                exact_line(&one_line(urid, MAX_TITLE_CHARS)),
                expected.urid
            );
            return Err((Part::Urid, at, problem));
        }
        None => {
            let at = rest.first().map_or(end, |&(at, _)| at);
            let problem = format!("expected `URID: {}` below the header line.", expected.urid);
            return Err((Part::Urid, at, problem));
        }
    }
    let begin = rest.first().map_or(end, |&(at, _)| at);
    let (lines, tree) = without_trees(rest, &expected.target.emoji);
    let marker = take_marker(&lines, expected)?;
    let lines = marker.map_or(lines.as_slice(), |marker| &lines[..marker.index]);
    let Body { before, files, next_step } = body(lines, tree, expected)?;
    match (marker, files.last()) {
        (Some(Marker { at, .. }), None) => {
            let problem = format!(
                "it stands only where context files are listed. List them under `{FILES}:`, or leave the line out."
            );
            Err((Part::Marker, at, problem))
        }
        (None, Some(_)) => {
            let problem = format!(
                "it is missing. Where context files are listed, the last line is `@{}/`.",
                expected.task_directory
            );
            Err((Part::Marker, end, problem))
        }
        _ if before.is_empty() && next_step.is_empty() => {
            let problem = "it is missing. Expected everything that the other mode needs to know: it sees \
                           nothing of your conversation."
                .to_owned();
            Err((Part::Body, begin, problem))
        }
        _ => Ok(Delegation { title, before, context_files: files, next_step }),
    }
}

/// Lines without the blank ones around them.
fn trim<'l, 'a>(lines: &'l [NumberedLine<'a>]) -> &'l [NumberedLine<'a>] {
    let full = |(_, line): &NumberedLine<'_>| !line.trim().is_empty();
    match (lines.iter().position(full), lines.iter().rposition(full)) {
        (Some(first), Some(last)) => &lines[first..=last],
        _ => &[],
    }
}

fn is_fence(line: &str) -> bool {
    let line = line.trim();
    line.starts_with("```") || line.starts_with("~~~")
}

/// The lines inside a code fence around all of them.
fn unwrap_fence<'l, 'a>(lines: &'l [NumberedLine<'a>]) -> &'l [NumberedLine<'a>] {
    match lines {
        [(_, first), inner @ .., (_, last)] if is_fence(first) && is_fence(last) => trim(inner),
        _ => lines,
    }
}

/// The description in a header line.
fn header(line: &str, target: &Mode) -> Result<String, String> {
    let Some(description) = without_emoji(line.trim(), &target.emoji) else {
        return Err(format!("it does not begin with the emoji of the mode. {}", header_form(target)));
    };
    let words: Vec<&str> = description.split_whitespace().collect();
    match words.len() {
        1..=MAX_WORDS if description.chars().count() > MAX_TITLE_CHARS => Err(format!(
            "its description has more than {MAX_TITLE_CHARS} characters. {}",
            header_form(target)
        )),
        1..=MAX_WORDS => Ok(exact_line(&words.join(" "))),
        0 => Err(format!("its description is missing. {}", header_form(target))),
        count => Err(format!("its description has {count} words. {}", header_form(target))),
    }
}

fn header_form(target: &Mode) -> String {
    format!(
        "Expected `{} <short description>`: the emoji of the mode '{}', then 1 to {MAX_WORDS} words.",
        target.emoji, target.slug
    )
}

/// Asks for the picture as emoji instead of text; often left out.
const VARIATION_SELECTOR: char = '\u{fe0f}';

/// Returns the text after an emoji, whether or not line or emoji have variation selectors.
fn without_emoji<'a>(line: &'a str, emoji: &str) -> Option<&'a str> {
    let mut rest = line;
    for c in emoji.chars().filter(|&c| c != VARIATION_SELECTOR) {
        rest = rest.trim_start_matches(VARIATION_SELECTOR).strip_prefix(c)?;
    }
    Some(rest.trim_start_matches(VARIATION_SELECTOR))
}

/// Recognises characters that only decorate words.
fn is_markup(c: char) -> bool {
    matches!(c, '*' | '`' | '#') || c.is_whitespace()
}

/// The rest of a line that begins with these ASCII words, in any case and markup.
fn after_words<'a>(line: &'a str, words: &str) -> Option<&'a str> {
    let line = line.trim_start_matches(is_markup);
    let (start, rest) = line.split_at_checked(words.len())?;
    start.eq_ignore_ascii_case(words).then_some(rest)
}

fn urid_value(line: &str) -> Option<&str> {
    let rest = after_words(line, "URID")?.trim_start_matches(is_markup);
    Some(rest.strip_prefix(':')?.trim_matches(is_markup))
}

/// Lines without invocation trees, and how many lines are left before the first one. A blank line
/// stands for each, so that nothing grows together that did not belong together.
fn without_trees<'a>(lines: &[NumberedLine<'a>], emoji: &str) -> (Vec<NumberedLine<'a>>, Option<usize>) {
    let (mut kept, mut first, mut fenced) = (Vec::<NumberedLine<'a>>::new(), None, false);
    let mut rest = lines;
    while let Some((&line, after)) = rest.split_first() {
        let Some(length) = tree_length(rest, emoji) else {
            fenced ^= is_fence(line.1);
            kept.push(line);
            rest = after;
            continue;
        };
        rest = &rest[length..];
        if let (Some((_, above)), Some(((_, below), after))) = (kept.last(), rest.split_first())
            && fenced
            && is_fence(above)
            && is_fence(below)
        {
            kept.pop();
            fenced = false;
            rest = after;
        }
        drop_label(&mut kept);
        first.get_or_insert(kept.len());
        kept.push((line.0, ""));
    }
    (kept, first)
}

/// Number of lines the invocation tree takes with which these lines begin.
fn tree_length(lines: &[NumberedLine<'_>], emoji: &str) -> Option<usize> {
    let (_, root) = lines.first()?;
    let root = root.trim();
    let of_a_mode = without_emoji(root, emoji).is_some_and(|rest| rest.len() < root.len())
        || BUILT_IN.iter().any(|mode| without_emoji(root, &mode.emoji).is_some());
    if !of_a_mode && !root.starts_with(is_pictograph) {
        return None;
    }
    let below = lines.iter().skip(1).map(|(_, line)| line.trim());
    let below: Vec<&str> =
        below.take_while(|line| line.starts_with(['├', '└', '│']) || is_here(line)).collect();
    // Without the mark only a mode's emoji tells such a tree from a drawing of something else.
    let is_tree = !below.is_empty() && (of_a_mode || below.iter().any(|line| is_here(line)));
    is_tree.then_some(below.len() + 1)
}

fn is_here(line: &str) -> bool {
    let line = line.trim_start_matches(|c: char| c == '│' || c.is_whitespace());
    line.trim_end().eq_ignore_ascii_case(HERE)
}

/// Takes blank lines and captions of the tree away from the end of the lines above it.
fn drop_label(lines: &mut Vec<NumberedLine<'_>>) {
    let is_label = |line: &str| {
        let line = after_words(line, "current ").unwrap_or(line);
        after_words(line, "invocation tree")
            .is_some_and(|rest| rest.chars().all(|c| c == ':' || is_markup(c)))
    };
    while lines.pop_if(|(_, line)| line.trim().is_empty() || is_label(line)).is_some() {}
}

/// Position of the marker of the task directory.
#[derive(Clone, Copy)]
struct Marker {
    index: usize,
    at: usize,
}

/// The marker, which is the last line or nowhere.
fn take_marker(lines: &[NumberedLine<'_>], expected: &Expected<'_>) -> Result<Option<Marker>, Wrong> {
    let markers = lines.iter().enumerate().filter_map(|(index, (at, line))| {
        let directory = line.trim_matches(is_markup).strip_prefix('@')?;
        let parts: Vec<&str> = parts(directory).collect();
        matches!(parts[..], [".roo", "tasks", _]).then_some((index, *at, parts))
    });
    let markers: Vec<_> = markers.collect();
    let Some((index, at, directory)) = markers.first() else { return Ok(None) };
    if !parts(expected.task_directory).eq(directory.iter().copied()) {
        let problem =
            format!("it is not the directory of this request. Expected `@{}/`.", expected.task_directory);
        return Err((Part::Marker, *at, problem));
    }
    if lines.iter().skip(index + 1).any(|(_, line)| !line.trim().is_empty()) {
        return Err((Part::Marker, *at, "it must be the last line of the message.".to_owned()));
    }
    Ok(Some(Marker { index: *index, at: *at }))
}

/// The parts of a path, without those that change nothing.
fn parts(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').map(str::trim).filter(|part| !matches!(*part, "" | "."))
}

struct Body {
    before: String,
    files: Vec<String>,
    next_step: String,
}

/// Section of the body that a line belongs to.
enum Section {
    Before,
    /// Below the line that opens the list, with the number of that line.
    List {
        head: usize,
        /// Kind of the previous line.
        last: Last,
    },
    After,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    /// The head: no entry came yet.
    Head,
    Entry,
    /// A blank line below an entry.
    Blank,
}

/// Divides the lines between the URID and the marker. `tree` says where the first tree stood.
fn body(lines: &[NumberedLine<'_>], tree: Option<usize>, expected: &Expected<'_>) -> Result<Body, Wrong> {
    let (mut before, mut after) = (Vec::new(), Vec::new());
    let mut files = Vec::new();
    let mut section = Section::Before;
    let nothing = |head: usize| {
        let directory = expected.task_directory;
        (
            Part::ContextFiles,
            head,
            format!("it names no file. Expected one path a line, each inside `{directory}/`."),
        )
    };
    for &(at, line) in lines {
        let mut entry = line;
        if let Some(first) = list_head(line) {
            if let Section::List { head, last: Last::Head } = section {
                return Err(nothing(head));
            }
            section = Section::List { head: at, last: Last::Head };
            after.push((at, ""));
            entry = first;
        }
        match &mut section {
            Section::Before => before.push((at, line)),
            Section::After => after.push((at, line)),
            Section::List { last, .. } if entry.trim().is_empty() => {
                if *last == Last::Entry {
                    *last = Last::Blank;
                }
            }
            Section::List { head, last } => match list_entry(entry, *last) {
                Some(ListEntry::File(path)) => {
                    *last = Last::Entry;
                    let path = inside(path, expected).map_err(|problem| (Part::ContextFiles, at, problem))?;
                    if !files.contains(&path) {
                        files.push(path);
                    }
                    if files.len() > MAX_FILES {
                        let problem =
                            format!("it has more than {MAX_FILES} files. Name those that matter most.");
                        return Err((Part::ContextFiles, at, problem));
                    }
                }
                Some(ListEntry::Nothing) => *last = Last::Entry,
                None if *last == Last::Head => return Err(nothing(*head)),
                None => {
                    section = Section::After;
                    after.push((at, line));
                }
            },
        }
    }
    match (section, tree) {
        (Section::List { head, last: Last::Head }, _) => return Err(nothing(head)),
        (Section::Before, Some(tree)) => after = before.split_off(tree.min(before.len())),
        _ => {}
    }
    drop_label(&mut before);
    Ok(Body { before: joined(&before), files, next_step: joined(&after) })
}

fn joined(lines: &[NumberedLine<'_>]) -> String {
    trim(lines).iter().map(|(_, line)| *line).collect::<Vec<_>>().join("\n")
}

/// Returns the text after the words that open the list of files, if a line opens it.
fn list_head(line: &str) -> Option<&str> {
    let rest = after_words(line, FILES)?.trim_start_matches(is_markup);
    let (colon, rest) = rest.strip_prefix(':').map_or((false, rest), |rest| (true, rest));
    let rest = rest.trim_matches(|c: char| c == '*' || c.is_whitespace());
    (rest.is_empty() || colon && list_entry(rest, Last::Head).is_some()).then_some(rest)
}

enum ListEntry<'a> {
    File(&'a str),
    /// The word "none".
    Nothing,
}

/// A line of the list of files, or nothing where the list is over.
fn list_entry(line: &str, last: Last) -> Option<ListEntry<'_>> {
    let line = without_bullet(line.trim());
    if last == Last::Head && line.trim_matches(|c: char| !c.is_alphanumeric()).eq_ignore_ascii_case("none") {
        return Some(ListEntry::Nothing);
    }
    let path = match line.strip_prefix('`').and_then(|rest| rest.split_once('`')) {
        Some((path, _)) => path.trim(),
        None => line,
    };
    let path = path.strip_prefix('@').unwrap_or(path);
    let own = parts(path).next() == Some(".roo");
    // A next step may follow without a blank line, and may begin with a path after one.
    let like_a_path = last != Last::Blank
        && !path.contains(char::is_whitespace)
        && (path.contains('/') || path.trim_end_matches(['.', '…']).contains('.'));
    (own || like_a_path).then_some(ListEntry::File(path))
}

fn without_bullet(line: &str) -> &str {
    let number = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let bullet = if number.len() < line.len() {
        number.strip_prefix(['.', ')'])
    } else {
        line.strip_prefix(['-', '*', '+', '•'])
    };
    match bullet {
        Some(rest) if rest.starts_with(char::is_whitespace) => rest.trim_start(),
        _ => line,
    }
}

/// The path of a context file, normalised.
fn inside(path: &str, expected: &Expected<'_>) -> Result<String, String> {
    let directory: Vec<&str> = parts(expected.task_directory).collect();
    let found: Vec<&str> = parts(path).collect();
    let climbs = found.contains(&"..") || path.starts_with('/');
    match found.strip_prefix(directory.as_slice()) {
        Some([_, ..]) if !climbs => Ok(found.join("/")),
        _ => Err(format!(
            "'{}' is not a file inside `{}/`. Save what the other mode needs there, or mention other files in \
             the description.",
            exact_line(&one_line(path, MAX_TITLE_CHARS)),
            expected.task_directory
        )),
    }
}

/// One branch of an invocation tree.
#[derive(Clone, Copy, Debug)]
pub struct Branch<'a> {
    /// The index of the branch that opened it, which stands before it; none for the root.
    pub parent: Option<usize>,
    /// The emoji of its mode.
    pub emoji: &'a str,
    /// Its short description.
    pub title: &'a str,
}

/// Draws an invocation tree, without a line end after the last line. `here` is the reader's own branch;
/// the mark stands below it, where its children begin.
///
/// A branch whose parent does not stand before it is drawn as a root.
pub fn draw(branches: &[Branch<'_>], here: Option<usize>) -> String {
    let mut children = vec![Vec::new(); branches.len()];
    // What is still to be drawn, the next one last: index, start of its own line, start of those below.
    let mut open = Vec::new();
    for (index, branch) in branches.iter().enumerate() {
        match branch.parent.filter(|&parent| parent < index) {
            Some(parent) => children[parent].push(index),
            None => open.push((index, String::new(), String::new())),
        }
    }
    open.reverse();
    let mut lines = Vec::new();
    while let Some((index, start, below)) = open.pop() {
        let branch = &branches[index];
        let line = format!(
            "{start}{} {}",
            picture(branch.emoji),
            exact_line(&one_line(branch.title, MAX_TITLE_CHARS))
        );
        lines.push(line.trim_end().to_owned());
        if here == Some(index) {
            lines.push(format!("{below}{HERE}"));
        }
        for (position, &child) in children[index].iter().enumerate().rev() {
            let last = position + 1 == children[index].len();
            let (start, beyond) = if last { ("└── ", "    ") } else { ("├── ", "│   ") };
            open.push((child, format!("{below}{start}"), format!("{below}{beyond}")));
        }
    }
    lines.join("\n")
}

/// An emoji without what could break or turn its line. Joiners and variation selectors belong to it.
fn picture(emoji: &str) -> String {
    let belongs =
        |c: char| matches!(c, '\u{200d}' | VARIATION_SELECTOR) || !c.is_control() && !is_invisible(c);
    emoji.chars().filter(|&c| belongs(c)).collect()
}
