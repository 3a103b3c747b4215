//! Edits of YAML text that leave everything else as people wrote it: comments, order, quotes, line ends.
//!
//! Where something stands is asked of the reader of these files ([`yaml::locate`]), and each edit is read again before it
//! counts: the text then says what was wanted and nothing else, or nothing is edited. This is no editor of all YAML: it
//! takes what people write by hand, one key a line, and refuses what is laid out in another way.

use std::ops::Range;

use serde_json::{Map, Value};

use crate::config::yaml::{self, Step};
use crate::problem::Problem;

/// Number of columns by which a new block is indented.
const INDENT: usize = 2;

/// The layout of the text is in the way of an edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnusualLayout;

/// A YAML document that is being edited.
#[derive(Clone, Debug)]
pub(crate) struct YamlEdit {
    /// Without the byte order mark.
    text: String,
    value: Value,
    has_mark: bool,
}

/// A key on a line of its own, or behind the dash of a list item.
#[derive(Clone, Copy, Debug)]
struct KeyPlace {
    start: usize,
    /// Bytes before it on its line.
    column: usize,
    /// The byte after its colon.
    end: usize,
}

impl YamlEdit {
    /// Reads a document.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub(crate) fn new(text: &str) -> Result<Self, Problem> {
        let value = yaml::parse(text)?;
        let unmarked = text.strip_prefix('\u{feff}');
        Ok(Self { text: unmarked.unwrap_or(text).to_owned(), value, has_mark: unmarked.is_some() })
    }

    /// The value at the end of a path, if there is one.
    pub(crate) fn get(&self, path: &[Step]) -> Option<&Value> {
        path.iter().try_fold(&self.value, |value, step| match step {
            Step::Key(key) | Step::Name(key) => value.get(key),
            Step::Index(index) => value.get(index),
        })
    }

    /// The text as it is now.
    pub(crate) fn into_text(self) -> String {
        if self.has_mark { format!("\u{feff}{}", self.text) } else { self.text }
    }

    /// Sets the value of a key. A key that isn't there is added behind the others of its mapping, or before the one that
    /// is named by `before`.
    pub(crate) fn set(
        &mut self,
        path: &[Step],
        value: &Value,
        before: Option<&str>,
    ) -> Result<(), UnusualLayout> {
        let edited = if self.get(path).is_some() {
            self.with_value(path, value)
        } else {
            let lines = vec![format!("{}: {}", scalar(name_of(path)?), inline(value))];
            self.with_key(path, lines, before)
        };
        let mut wanted = self.value.clone();
        put(&mut wanted, path, value.clone())?;
        self.take(edited, wanted)
    }

    /// Adds a key whose value is a mapping, of one field a line.
    pub(crate) fn set_mapping(
        &mut self,
        path: &[Step],
        fields: &[(String, Value)],
    ) -> Result<(), UnusualLayout> {
        let mut lines = vec![format!("{}:", scalar(name_of(path)?))];
        lines.extend(fields.iter().map(|(key, value)| format!("{:INDENT$}{}", "", field(key, value))));
        let edited = match self.get(path) {
            Some(before) if is_empty(before) => self.with_block(path, lines.split_off(1)),
            Some(_) => None,
            None => self.with_key(path, lines, None),
        };
        let mut wanted = self.value.clone();
        put(&mut wanted, path, fields.iter().cloned().collect::<Map<_, _>>().into())?;
        self.take(edited, wanted)
    }

    /// Adds an item to the end of a list, which is made if it isn't there.
    pub(crate) fn push(&mut self, list: &[Step], item: &str) -> Result<(), UnusualLayout> {
        let mut items = match self.get(list) {
            None | Some(Value::Null) => return self.set(list, &Value::from(vec![item]), None),
            Some(Value::Array(items)) => items.clone(),
            Some(_) => return Err(UnusualLayout),
        };
        let Some(last) = items.len().checked_sub(1) else {
            return self.set(list, &Value::from(vec![item]), None);
        };
        let edited = self.with_item(&[list, &[Step::Index(last)]].concat(), &[inline(&item.into())]);
        items.push(item.into());
        let mut wanted = self.value.clone();
        put(&mut wanted, list, items.into())?;
        self.take(edited, wanted)
    }

    /// Adds a mapping to the end of a list, of one field a line. The list is made if it isn't there.
    pub(crate) fn push_mapping(
        &mut self,
        list: &[Step],
        fields: &[(String, Value)],
    ) -> Result<(), UnusualLayout> {
        let lines: Vec<String> = fields.iter().map(|(key, value)| field(key, value)).collect();
        let mut items = match self.get(list) {
            None | Some(Value::Null) => vec![],
            Some(Value::Array(items)) => items.clone(),
            Some(_) => return Err(UnusualLayout),
        };
        let edited = match items.len().checked_sub(1) {
            Some(last) => self.with_item(&[list, &[Step::Index(last)]].concat(), &lines),
            None => {
                let item = indented(&as_item(&lines));
                if self.get(list).is_some() {
                    self.with_block(list, item)
                } else {
                    let key = vec![format!("{}:", scalar(name_of(list)?))];
                    self.with_key(list, [key, item].concat(), None)
                }
            }
        };
        items.push(fields.iter().cloned().collect::<Map<_, _>>().into());
        let mut wanted = self.value.clone();
        put(&mut wanted, list, items.into())?;
        self.take(edited, wanted)
    }

    /// Removes a key or an item. A mapping that loses its last key goes with it, without the comments in it.
    pub(crate) fn remove(&mut self, path: &[Step]) -> Result<(), UnusualLayout> {
        let (last, above) = path.split_last().ok_or(UnusualLayout)?;
        let mut wanted = self.value.clone();
        let edited = match last {
            Step::Index(index) => {
                let items = at_mut(&mut wanted, above).and_then(Value::as_array_mut).ok_or(UnusualLayout)?;
                if *index >= items.len() {
                    return Err(UnusualLayout);
                }
                items.remove(*index);
                if items.is_empty() {
                    return self.set(above, &Value::Array(vec![]), None);
                }
                self.without_item(path)
            }
            Step::Key(_) | Step::Name(_) => {
                let emptied = remove_key(&mut wanted, path)?;
                self.without_keys(path, emptied)
            }
        };
        self.take(edited, wanted)
    }

    /// Makes an edit count, if the text now says just what is wanted.
    fn take(&mut self, edited: Option<String>, wanted: Value) -> Result<(), UnusualLayout> {
        let text = edited.ok_or(UnusualLayout)?;
        let found = yaml::parse(&text).map_err(|_| UnusualLayout)?;
        let is_wanted = found == wanted || (found.is_null() && wanted.as_object().is_some_and(Map::is_empty));
        if !is_wanted {
            return Err(UnusualLayout);
        }
        (self.text, self.value) = (text, found);
        Ok(())
    }

    /// The text with another value of a key that is there.
    fn with_value(&self, path: &[Step], value: &Value) -> Option<String> {
        let Some(key) = self.key(path) else {
            // In brackets.
            let start = self.start(path)?;
            let end = value_end(&self.text, start, true)?;
            return Some(self.replaced(start..end, &self.like(start, value)));
        };
        let end = self.block_end(key);
        let line = key.end..self.content_end(key.start);
        if let Some(old) = self.value_on(line).filter(|_| self.next_line(key.start) >= end) {
            return Some(self.replaced(old.clone(), &self.like(old.start, value)));
        }
        let comment = self.comment(key).to_owned();
        let new = format!(" {}{comment}{}", inline(value), self.line_end());
        Some(self.replaced(key.end..end, &new))
    }

    /// A value as it is written in place of another one: a text that was quoted stays so.
    fn like(&self, old: usize, value: &Value) -> String {
        match value {
            Value::String(text) if self.text[old..].starts_with(['"', '\'']) => yaml::quoted(text),
            value => inline(value),
        }
    }

    /// The text with a block of lines in place of the empty value of a key.
    fn with_block(&self, path: &[Step], lines: Vec<String>) -> Option<String> {
        let key = self.key(path)?;
        let margin = " ".repeat(key.column);
        let block: String = lines.iter().map(|line| format!("{margin}{line}{}", self.line_end())).collect();
        let comment = self.comment(key).to_owned();
        let value = key.end..self.next_line(key.start);
        Some(self.replaced(value, &format!("{comment}{}{block}", self.line_end())))
    }

    /// The text with one more key, whose lines are given, in the mapping above it.
    fn with_key(&self, path: &[Step], lines: Vec<String>, before: Option<&str>) -> Option<String> {
        let (_, above) = path.split_last()?;
        let keys = match self.get(above) {
            None => {
                let key = vec![format!("{}:", scalar(name_of(above).ok()?))];
                return self.with_key(above, [key, indented(&lines)].concat(), None);
            }
            Some(empty) if is_empty(empty) && above.is_empty() => {
                return Some(self.with_lines(self.text.len(), 0, &lines));
            }
            Some(empty) if is_empty(empty) => return self.with_block(above, indented(&lines)),
            Some(value) => value.as_object()?,
        };
        let place = |name: &str| self.key(&[above, &[Step::Key(name.to_owned())]].concat());
        let places: Vec<KeyPlace> = keys.keys().map(|name| place(name)).collect::<Option<_>>()?;
        let column = places.first()?.column;
        let at = match before.filter(|before| keys.contains_key(*before)) {
            Some(before) => self.line_start(place(before)?.start),
            // After a comment at the end of the file, too.
            None if above.is_empty() => self.text.len(),
            None => places.iter().map(|key| self.block_end(*key)).max()?,
        };
        Some(self.with_lines(at, column, &lines))
    }

    /// The text with one more item behind one that is there.
    fn with_item(&self, last: &[Step], lines: &[String]) -> Option<String> {
        let start = self.start(last)?;
        if let Some(dash) = self.dash(start) {
            let end = self.block_end(KeyPlace { start, column: dash, end: start });
            return Some(self.with_lines(end, dash, &as_item(lines)));
        }
        let [item] = lines else { return None };
        let end = value_end(&self.text, start, true)?;
        Some(self.replaced(end..end, &format!(", {item}")))
    }

    fn without_item(&self, path: &[Step]) -> Option<String> {
        let start = self.start(path)?;
        if let Some(dash) = self.dash(start) {
            let end = self.block_end(KeyPlace { start, column: dash, end: start });
            return Some(self.replaced(self.line_start(start)..end, ""));
        }
        // In brackets: with the comma behind it, or else the one before.
        let end = value_end(&self.text, start, true)?;
        let behind = self.text[end..].trim_start();
        if let Some(rest) = behind.strip_prefix(',') {
            let next = self.text.len() - rest.trim_start_matches(' ').len();
            return Some(self.replaced(start..next, ""));
        }
        let before = self.text[..start].trim_end();
        Some(self.replaced(before.strip_suffix(',')?.len()..end, ""))
    }

    /// The text without a key, and without those of the mappings above it that are empty then.
    fn without_keys(&self, path: &[Step], emptied: usize) -> Option<String> {
        let mut text = self.clone();
        let key = self.key(path)?;
        text.text = text.replaced(self.line_of(key)?.start..self.block_end(key), "");
        // From below: what stands above is where it was.
        for length in (path.len() - emptied..path.len()).rev() {
            let line = self.line_of(self.key(&path[..length])?)?;
            text.text = text.replaced(line, "");
        }
        Some(text.text)
    }

    /// The line of a key, if nothing else begins there.
    fn line_of(&self, key: KeyPlace) -> Option<Range<usize>> {
        let start = self.line_start(key.start);
        self.text[start..key.start].trim().is_empty().then(|| start..self.next_line(key.start))
    }

    /// The key at the end of a path, if it stands where block style has keys.
    fn key(&self, path: &[Step]) -> Option<KeyPlace> {
        let (last, above) = path.split_last()?;
        let Step::Key(name) = last else { return None };
        let start = self.start(&[above, &[Step::Name(name.clone())]].concat())?;
        let line = self.line_start(start);
        if !self.text[line..start].chars().all(|c| matches!(c, ' ' | '-')) {
            return None;
        }
        let rest = &self.text[start..self.content_end(start)];
        let length = match rest.chars().next()? {
            '"' | '\'' => value_end(rest, 0, false)?,
            _ => rest
                .match_indices(':')
                .map(|(at, _)| at)
                .find(|at| rest[at + 1..].chars().next().is_none_or(char::is_whitespace))?,
        };
        let colon =
            rest[length..].find(|c: char| c != ' ').filter(|at| rest[length + at..].starts_with(':'))?;
        Some(KeyPlace { start, column: start - line, end: start + length + colon + 1 })
    }

    /// The byte at which the value at the end of a path begins, or the key for a path that ends in its name.
    fn start(&self, path: &[Step]) -> Option<usize> {
        Some(yaml::locate(&self.text, path)?.offset(&self.text))
    }

    /// The column of the dash before a list item that begins at `start`; none in brackets.
    fn dash(&self, start: usize) -> Option<usize> {
        let before = &self.text[self.line_start(start)..start];
        (before.trim() == "-").then(|| before.find('-'))?
    }

    /// The end of what belongs to a key: the lines below it that are indented further, and a list at the indentation of the
    /// key. Comments belong to it where they are indented as its value is; blank lines and other comments after the last
    /// of these lines belong to what follows.
    fn block_end(&self, key: KeyPlace) -> usize {
        let mut end = self.next_line(key.start);
        let mut at = end;
        let mut goes_on = self.value_on(key.end..self.content_end(key.start)).is_none();
        while at < self.text.len() {
            let next = self.next_line(at);
            let line = &self.text[at..next];
            let content = line.trim_start_matches(' ');
            let margin = line.len() - content.len();
            let content = content.trim_end();
            // The item of a list ends where the next one begins; the value of a key may be a list.
            let is_item =
                key.end > key.start && margin == key.column && (content == "-" || content.starts_with("- "));
            let is_comment = content.starts_with('#');
            if content.is_empty() || (is_comment && (margin <= key.column || !goes_on)) {
                at = next;
                continue;
            }
            if margin <= key.column && !is_item {
                break;
            }
            goes_on = true;
            (end, at) = (next, next);
        }
        end
    }

    /// The comment after the value of a key on its line, with the space before it.
    fn comment(&self, key: KeyPlace) -> &str {
        let line = key.end..self.content_end(key.start);
        let rest = match self.value_on(line.clone()) {
            Some(value) => &self.text[value.end..line.end],
            None => &self.text[line],
        };
        let is_header = rest.trim_start().starts_with(['|', '>']);
        let at = comment_at(rest).filter(|at| is_header || rest[..*at].trim().is_empty());
        at.map_or("", |at| rest[at..].trim_end())
    }

    /// The value that begins on a part of a line, after a key, and ends there.
    fn value_on(&self, line: Range<usize>) -> Option<Range<usize>> {
        let text = &self.text[line.clone()];
        let start = line.start + (text.len() - text.trim_start().len());
        if matches!(self.text[start..line.end].chars().next(), None | Some('#')) {
            return None;
        }
        value_end(&self.text, start, false).filter(|end| *end <= line.end).map(|end| start..end)
    }

    fn with_lines(&self, at: usize, column: usize, lines: &[String]) -> String {
        let (margin, line_end) = (" ".repeat(column), self.line_end());
        let mut new = String::new();
        if at > 0 && !self.text[..at].ends_with('\n') {
            new.push_str(line_end);
        }
        for line in lines {
            new.push_str(&format!("{margin}{line}{line_end}"));
        }
        self.replaced(at..at, &new)
    }

    fn replaced(&self, range: Range<usize>, new: &str) -> String {
        format!("{}{new}{}", &self.text[..range.start], &self.text[range.end..])
    }

    fn line_end(&self) -> &'static str {
        if self.text.contains("\r\n") { "\r\n" } else { "\n" }
    }

    fn line_start(&self, at: usize) -> usize {
        self.text[..at].rfind('\n').map_or(0, |at| at + 1)
    }

    fn next_line(&self, at: usize) -> usize {
        self.text[at..].find('\n').map_or(self.text.len(), |end| at + end + 1)
    }

    /// The end of a line without its line break.
    fn content_end(&self, at: usize) -> usize {
        let line = &self.text[..self.next_line(at)];
        line.trim_end_matches(['\n', '\r']).len().max(at)
    }
}

/// The end of a value on one line of a block, or between brackets; none for a block scalar and what has an anchor or a tag.
fn value_end(text: &str, start: usize, is_in_brackets: bool) -> Option<usize> {
    let rest = &text[start..];
    let length = match rest.chars().next()? {
        quote @ ('"' | '\'') => quoted_length(rest, quote)?,
        '[' | '{' => bracketed_length(rest)?,
        '|' | '>' | '&' | '*' | '!' => return None,
        _ => {
            let line = rest.lines().next().unwrap_or_default();
            let comment = comment_at(line);
            let bracket = is_in_brackets.then(|| line.find([',', '[', ']', '{', '}'])).flatten();
            let end = [comment, bracket].into_iter().flatten().min().unwrap_or(line.len());
            line[..end].trim_end().len()
        }
    };
    Some(start + length)
}

/// The beginning of the comment on a line without quotes, with the space before it.
fn comment_at(line: &str) -> Option<usize> {
    let sign =
        line.char_indices().find(|(at, c)| *c == '#' && (*at == 0 || line[..*at].ends_with([' ', '\t'])));
    sign.map(|(at, _)| line[..at].trim_end().len())
}

fn quoted_length(text: &str, quote: char) -> Option<usize> {
    let mut characters = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = characters.next() {
        if c == '\\' && quote == '"' {
            characters.next();
        } else if c == quote && (quote == '"' || characters.next_if(|(_, next)| *next == '\'').is_none()) {
            return Some(at + 1);
        }
    }
    None
}

fn bracketed_length(text: &str) -> Option<usize> {
    let (mut depth, mut at) = (0_usize, 0);
    // A quote opens a text only where a value may begin.
    let mut may_begin = true;
    while let Some(c) = text[at..].chars().next() {
        let is_after_blank = text[..at].ends_with(char::is_whitespace);
        match c {
            '"' | '\'' if may_begin => {
                at += quoted_length(&text[at..], c)?;
                may_begin = false;
                continue;
            }
            '#' if is_after_blank => {
                at += text[at..].find('\n')?;
                continue;
            }
            '[' | '{' => (depth, may_begin) = (depth + 1, true),
            ']' | '}' => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
                may_begin = false;
            }
            ',' | ':' => may_begin = true,
            c if c.is_whitespace() => {}
            _ => may_begin = false,
        }
        at += c.len_utf8();
    }
    None
}

/// A value on one line.
fn inline(value: &Value) -> String {
    match value {
        Value::String(text) => scalar(text),
        Value::Array(values) => format!("[{}]", values.iter().map(inline).collect::<Vec<_>>().join(", ")),
        Value::Object(keys) if keys.is_empty() => "{}".to_owned(),
        Value::Object(keys) => {
            let keys = keys.iter().map(|(key, value)| field(key, value));
            format!("{{ {} }}", keys.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

fn field(key: &str, value: &Value) -> String {
    format!("{}: {}", scalar(key), inline(value))
}

/// A text as YAML: bare where no reader takes it for something else.
fn scalar(text: &str) -> String {
    let plain = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c));
    // Words of YAML 1.1, which other programs may read.
    let reserved = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    if plain && !reserved.contains(&text.to_ascii_lowercase().as_str()) {
        text.to_owned()
    } else {
        yaml::quoted(text)
    }
}

/// Lines as the item of a list.
fn as_item(lines: &[String]) -> Vec<String> {
    let line = |(index, line): (usize, &String)| format!("{}{line}", if index == 0 { "- " } else { "  " });
    lines.iter().enumerate().map(line).collect()
}

fn indented(lines: &[String]) -> Vec<String> {
    lines.iter().map(|line| format!("{:INDENT$}{line}", "")).collect()
}

fn name_of(path: &[Step]) -> Result<&str, UnusualLayout> {
    match path.last() {
        Some(Step::Key(name)) => Ok(name),
        _ => Err(UnusualLayout),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(keys) => keys.is_empty(),
        _ => false,
    }
}

fn at_mut<'a>(value: &'a mut Value, path: &[Step]) -> Option<&'a mut Value> {
    path.iter().try_fold(value, |value, step| match step {
        Step::Key(key) | Step::Name(key) => value.get_mut(key),
        Step::Index(index) => value.get_mut(index),
    })
}

/// Puts a value at the end of a path; mappings on the way are made.
fn put(root: &mut Value, path: &[Step], new: Value) -> Result<(), UnusualLayout> {
    let mut at = root;
    for step in path {
        at = match step {
            Step::Index(index) => at.get_mut(index).ok_or(UnusualLayout)?,
            Step::Key(key) | Step::Name(key) => {
                if at.is_null() {
                    *at = Value::Object(Map::new());
                }
                at.as_object_mut().ok_or(UnusualLayout)?.entry(key).or_insert(Value::Null)
            }
        };
    }
    *at = new;
    Ok(())
}

/// Removes a key. Returns the number of mappings above it that were empty then and are removed, too.
fn remove_key(root: &mut Value, path: &[Step]) -> Result<usize, UnusualLayout> {
    for emptied in 0..path.len() {
        let (last, above) = path[..path.len() - emptied].split_last().ok_or(UnusualLayout)?;
        let Step::Key(name) = last else { return Err(UnusualLayout) };
        let keys = at_mut(root, above).and_then(Value::as_object_mut).ok_or(UnusualLayout)?;
        keys.remove(name).ok_or(UnusualLayout)?;
        if above.is_empty() || !keys.is_empty() {
            return Ok(emptied);
        }
    }
    Err(UnusualLayout)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn path(names: &[&str]) -> Vec<Step> {
        names.iter().map(|name| Step::from(*name)).collect()
    }

    fn edited(text: &str, edit: impl FnOnce(&mut YamlEdit) -> Result<(), UnusualLayout>) -> String {
        let mut file = YamlEdit::new(text).unwrap();
        edit(&mut file).unwrap_or_else(|UnusualLayout| panic!("refused: {text}"));
        file.into_text()
    }

    fn set(text: &str, names: &[&str], value: Value) -> String {
        edited(text, |file| file.set(&path(names), &value, None))
    }

    #[test]
    fn a_number_sign_in_quotes_begins_no_comment() {
        for (before, after) in [
            ("a: \"x # y\" # z\n", "a: \"new\" # z\n"),
            ("a: 'it''s # y'   # z\n", "a: \"new\"   # z\n"),
            ("a: x \"y # z\n", "a: new # z\n"),
            ("a: x#y\n", "a: new\n"),
            ("a: [x, \"y # ]\", z'] # c\n", "a: new # c\n"),
            ("a: # c\n", "a: new # c\n"),
            ("a: | # c\n  x # y\n  # z\nb: 1\n", "a: new # c\nb: 1\n"),
            ("a: \"x # y\n  z\"\nb: 1\n", "a: new\nb: 1\n"),
            ("a: # c\n  b: \"x # y\"\n  # d\n# e\n", "a: new # c\n# e\n"),
        ] {
            assert_eq!(set(before, &["a"], "new".into()), after, "{before}");
        }
    }

    #[test]
    fn a_key_is_added_where_its_mapping_ends() {
        let text = "a:\n    # first\n    b: |\n        x\n\n        # y\n\n# end\nc: 1\n";
        let after = "a:\n    # first\n    b: |\n        x\n\n        # y\n    d: [1, yes]\n\n# end\nc: 1\n";
        assert_eq!(set(text, &["a", "d"], json!([1, "yes"])), after.replace("yes", "\"yes\""));
        assert_eq!(set("", &["a", "b", "c"], true.into()), "a:\n  b:\n    c: true\n");
        assert_eq!(set("a: {} # c", &["a", "b"], 1.into()), "a: # c\n  b: 1\n");
        assert_eq!(set("\u{feff}a: 1\r\nb: 2", &["c"], 3.into()), "\u{feff}a: 1\r\nb: 2\r\nc: 3\r\n");
        let before = edited("# c\na: 1\n\nb: 2\n", |file| file.set(&path(&["x"]), &3.into(), Some("b")));
        assert_eq!(before, "# c\na: 1\n\nx: 3\nb: 2\n");
    }

    #[test]
    fn a_mapping_goes_with_its_last_key_and_its_comments_stay() {
        let text = "a: 1\nb: # c\n  # d\n  e:\n    f: 1\n# g\n";
        assert_eq!(edited(text, |file| file.remove(&path(&["b", "e", "f"]))), "a: 1\n  # d\n# g\n");
        let text = "a: 1\n  # of b\nb:\n  c: 1\n  # of b\nd: 1\n";
        assert_eq!(edited(text, |file| file.remove(&path(&["a"]))), "  # of b\nb:\n  c: 1\n  # of b\nd: 1\n");
        assert_eq!(edited(text, |file| file.remove(&path(&["b"]))), "a: 1\n  # of b\nd: 1\n");
    }

    #[test]
    fn items_come_and_go() {
        let list = path(&["a"]);
        let first = [list.clone(), vec![Step::Index(0)]].concat();
        for (before, pushed, removed) in [
            ("a: [x, y z] # c\n", "a: [x, y z, \"1\"] # c\n", "a: [y z] # c\n"),
            (
                "a:\n- \"x # y\" # c\n- z\nb: 1\n",
                "a:\n- \"x # y\" # c\n- z\n- \"1\"\nb: 1\n",
                "a:\n- z\nb: 1\n",
            ),
            ("a: # c\n  - x\n", "a: # c\n  - x\n  - \"1\"\n", "a: [] # c\n"),
            ("a: [\n  x, # c\n  y\n]\n", "a: [\n  x, # c\n  y, \"1\"\n]\n", "a: [\n  # c\n  y\n]\n"),
        ] {
            assert_eq!(edited(before, |file| file.push(&list, "1")), pushed);
            assert_eq!(edited(before, |file| file.remove(&first)), removed);
        }
        assert_eq!(edited("a: []\n", |file| file.push(&list, "x")), "a: [x]\n");
        assert_eq!(edited("b: 1\n", |file| file.push(&list, "x")), "b: 1\na: [x]\n");
        let fields = [("x".to_owned(), json!("a b")), ("l".to_owned(), json!([1]))];
        for (before, after) in [
            ("a:\n- x: 1\n  y: 2\n\n# c\n", "a:\n- x: 1\n  y: 2\n- x: \"a b\"\n  l: [1]\n\n# c\n"),
            ("a: [] # c\n", "a: # c\n  - x: \"a b\"\n    l: [1]\n"),
            ("", "a:\n  - x: \"a b\"\n    l: [1]\n"),
        ] {
            assert_eq!(edited(before, |file| file.push_mapping(&list, &fields)), after);
        }
    }

    #[test]
    fn what_is_laid_out_in_another_way_is_left() {
        for text in ["a: { b: 1 }\n", "? a\n: b: 1\n", "a: &x { b: 1 }\nc: *x\n", "- a\n", "a: 1\n...\n"] {
            let mut file = YamlEdit::new(text).unwrap();
            for key in [&["a", "c"][..], &["d"]] {
                let added = file.set(&path(key), &1.into(), None);
                assert!(added == Err(UnusualLayout) || text != file.text, "{text}");
            }
            if file.value == yaml::parse(text).unwrap() {
                assert_eq!(file.text, text);
            }
        }
    }

    /// A value as people may write it, after its key and a space, with a comment; further lines are at the margin.
    fn written() -> impl Strategy<Value = (Vec<&'static str>, Value)> {
        prop::sample::select(vec![
            (vec!["plain text"], json!("plain text")),
            (vec!["it's \"so\""], json!("it's \"so\"")),
            (vec!["\"x # y, ] }\""], json!("x # y, ] }")),
            (vec!["'it''s # y'"], json!("it's # y")),
            (vec!["[a, \"b # ]\", c'd]"], json!(["a", "b # ]", "c'd"])),
            (vec!["{ k: [1, 2], l: '}' }"], json!({ "k": [1, 2], "l": "}" })),
            (vec!["", "  - a # b", "  - \"c # d\""], json!(["a", "c # d"])),
            (vec!["", "- a", "# in it", "- b"], json!(["a", "b"])),
            (
                vec!["|", "  text # text", "", "    more", "  # text"],
                json!("text # text\n\n  more\n# text\n"),
            ),
            (vec![">-", "  folded", "  text"], json!("folded text")),
            (vec!["", "  x: 1", "", "  # c", "  y: \"# 2\""], json!({ "x": 1, "y": "# 2" })),
            (vec!["12.5"], json!(12.5)),
            (vec![""], Value::Null),
        ])
    }

    /// What stands before a key.
    fn above() -> impl Strategy<Value = &'static str> {
        prop::sample::select(vec!["", "", "\n", "# c: \"d\n", "\n\n# - e\n# f\n"])
    }

    /// The text of each key with what stands before it, and its value.
    type Written = Vec<(String, String, Value)>;

    fn keys(margin: &'static str) -> impl Strategy<Value = Written> {
        let comment = prop::sample::select(vec!["", "", " # it's \"x\"", "   # [y"]);
        prop::collection::vec((above(), written(), comment), 1..6).prop_map(move |keys| {
            let key = |index, above: &str, (lines, value): (Vec<&str>, Value), comment| {
                let space = if lines[0].is_empty() { "" } else { " " };
                let mut text = format!("{margin}k{index}:{space}{}{comment}\n", lines[0]);
                for line in &lines[1..] {
                    text.push_str(&if line.is_empty() {
                        "\n".to_owned()
                    } else {
                        format!("{margin}{line}\n")
                    });
                }
                (above.replace('#', &format!("{margin}#")), text, value)
            };
            let keys = keys.into_iter().enumerate();
            keys.map(|(index, (above, written, comment))| key(index, above, written, comment)).collect()
        })
    }

    fn joined(keys: &[(String, String, Value)]) -> String {
        keys.iter().map(|(above, text, _)| format!("{above}{text}")).collect()
    }

    proptest! {
        /// The lines of other keys stay to the byte, and the result reads as expected: all of these layouts can be edited.
        #[test]
        fn an_edit_changes_its_own_key_alone(
            keys in keys("  "), at in 0..6_usize, new in prop::sample::select(vec![
                json!("x # y"), json!("plain"), json!(["a", "b: c"]), json!({ "z": 1.5 }), json!(-3), json!("yes"),
            ]), windows in any::<bool>(),
        ) {
            let at = at % keys.len();
            let line_ends = |text: String| if windows { text.replace('\n', "\r\n") } else { text };
            let (head, tail) = ("# head\na: 1\nin:\n", "# tail\nz: \"1 # 2\"");
            let text = line_ends(format!("{head}{}{tail}", joined(&keys)));
            let value = yaml::parse(&text).unwrap();
            prop_assert_eq!(&value["in"][format!("k{at}")], &keys[at].2);
            let key = path(&["in", &format!("k{at}")]);
            let before = line_ends(format!("{head}{}{}", joined(&keys[..at]), keys[at].0));
            let after = line_ends(format!("{}{tail}", joined(&keys[at + 1..])));

            let changed = edited(&text, |file| file.set(&key, &new, None));
            let mut expected = value.clone();
            expected["in"][format!("k{at}")] = new.clone();
            prop_assert_eq!(yaml::parse(&changed).unwrap(), expected);
            prop_assert!(changed.starts_with(&before) && changed.ends_with(&after), "{}", changed);
            let own = &changed[before.len()..changed.len() - after.len()];
            prop_assert_eq!(own.lines().count(), 1, "{}", own);
            let first = keys[at].1.lines().next().unwrap();
            for comment in [" # it's \"x\"", "   # [y"] {
                prop_assert_eq!(own.trim_end().ends_with(comment), first.ends_with(comment), "{}", changed);
            }

            let added = edited(&text, |file| file.set(&path(&["in", "new"]), &new, None));
            let line = line_ends(format!("  new: {}\n", inline(&new)));
            prop_assert_eq!(added.replacen(&line, "", 1), text.clone());
            prop_assert_eq!(&yaml::parse(&added).unwrap()["in"]["new"], &new);

            let removed = edited(&text, |file| file.remove(&key));
            if keys.len() > 1 {
                prop_assert_eq!(removed, format!("{before}{after}"));
            }
        }
    }
}
