//! Path of a cursor in a YAML or JSON text, however broken the text is: it is being typed.
//!
//! A scan by lines, indentation and brackets, in one pass. It knows as much of YAML as configuration
//! files use; what a text means is for the parser to say.

use std::ops::Range;

use roo_formats::config::yaml::Step;

/// A place in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cursor {
    /// From the top to the value, or to the mapping whose key it is.
    pub(super) path: Vec<Step>,
    pub(super) slot: Slot,
    /// The key or value that the cursor touches, with its quotes; empty where nothing stands. In bytes.
    pub(super) token: Range<usize>,
    /// The other keys of the mapping, or items of the list.
    pub(super) siblings: Vec<String>,
}

/// Kind of position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    Key {
        /// True if a colon follows it.
        colon: bool,
    },
    Value {
        /// True if it has its line for itself.
        alone: bool,
    },
}

/// Returns what a cursor at a byte offset touches; none inside of longer texts, comments and characters.
pub(super) fn find(text: &str, offset: usize) -> Option<Cursor> {
    if !text.is_char_boundary(offset) {
        return None;
    }
    let mut scan = Scan { text, cursor: offset, frames: vec![], containers: 0, entries: vec![], found: None };
    let mut start = 0;
    while start <= text.len() {
        start = scan.line(start);
    }
    let (container, mut cursor) = scan.found.take()?;
    let others = scan.entries.iter().filter(|entry| container == Some(entry.container));
    let others = others.filter(|entry| entry.token != cursor.token);
    cursor.siblings = others.map(|entry| unquoted(scan.slice(entry.token.clone())).to_owned()).collect();
    Some(cursor)
}

/// A token without its quotes.
pub(super) fn unquoted(token: &str) -> &str {
    let quote = token.chars().next().filter(|c| matches!(c, '"' | '\''));
    let inner = quote
        .and_then(|quote| token.strip_prefix(quote).map(|rest| rest.strip_suffix(quote).unwrap_or(rest)));
    inner.unwrap_or(token)
}

struct Scan<'a> {
    text: &'a str,
    cursor: usize,
    /// The mappings and lists that are open, outermost first.
    frames: Vec<Frame>,
    /// Number of containers.
    containers: usize,
    /// Every key and every plain item.
    entries: Vec<CursorEntry>,
    found: Option<(Option<usize>, Cursor)>,
}

#[derive(Clone)]
struct Frame {
    container: usize,
    /// The column where its keys or dashes stand; of no meaning between brackets.
    indent: usize,
    at: At,
    /// True if the current value is there.
    filled: bool,
}

#[derive(Clone)]
enum At {
    Key(Option<String>),
    Index(usize),
}

struct CursorEntry {
    container: usize,
    token: Range<usize>,
}

impl<'a> Scan<'a> {
    fn slice(&self, range: Range<usize>) -> &'a str {
        self.text.get(range).unwrap_or_default()
    }

    fn end_of_line(&self, at: usize) -> usize {
        self.text.get(at..).and_then(|rest| rest.find('\n')).map_or(self.text.len(), |length| at + length)
    }

    /// Scans from the start of a line, and returns the start of the next one to scan.
    fn line(&mut self, start: usize) -> usize {
        let stop = self.end_of_line(start);
        let line = self.slice(start..stop).trim_end();
        let content = line.trim_start_matches(' ');
        let indent = line.len() - content.len();
        if content.is_empty() || content.starts_with('#') || matches!(content, "---" | "...") {
            if content.is_empty() && (start..=stop).contains(&self.cursor) {
                self.blank(self.cursor - start);
            }
            return stop + 1;
        }
        self.dedent(indent, is_dash(content));
        self.node(start, start + indent, start + line.len())
    }

    /// Leaves what a line of this indentation is no part of.
    fn dedent(&mut self, indent: usize, dash: bool) {
        while let Some(top) = self.frames.last() {
            let stays = match top.at {
                At::Key(_) => top.indent <= indent,
                At::Index(_) => top.indent < indent || (top.indent == indent && dash),
            };
            if stays {
                return;
            }
            self.frames.pop();
        }
    }

    /// The cursor is on a line of its own.
    fn blank(&mut self, column: usize) {
        let (kept, mut left) = (self.frames.clone(), None);
        while let Some(top) = self.frames.last() {
            match top.at {
                At::Key(_) if top.indent <= column => break,
                At::Index(_) if top.indent < column => break,
                At::Index(_) if top.indent == column => left = Some(top.container),
                _ => {}
            }
            self.frames.pop();
        }
        let nothing = self.cursor..self.cursor;
        match self.frames.last() {
            Some(top) if matches!(top.at, At::Key(_)) && top.indent == column => {
                self.found_key(nothing, false);
            }
            Some(top) if top.filled && left.is_none() => {}
            Some(_) => self.found_value(nothing, true, left),
            None if kept.is_empty() => self.found_value(nothing, true, None),
            None => {}
        }
        self.frames = kept;
    }

    /// Scans what stands on a line: dashes, a key, a value.
    fn node(&mut self, start: usize, mut at: usize, end: usize) -> usize {
        loop {
            let (column, rest) = (at - start, self.slice(at..end));
            if !is_dash(rest) {
                let Some((key, colon)) = self.key(at, end) else {
                    if self.top_keys(column).is_some() && !rest.starts_with(['[', '{']) {
                        // It is being typed.
                        self.touch_key(at..end, false);
                        return self.end_of_line(at) + 1;
                    }
                    return self.value(at, end);
                };
                let name = unquoted(self.slice(key.clone())).to_owned();
                match self.top_keys(column) {
                    Some(top) => (top.at, top.filled) = (At::Key(Some(name)), false),
                    None => self.push(column, At::Key(Some(name))),
                }
                self.enter(key.clone());
                self.touch_key(key, true);
                return self.value(colon + 1, end);
            }
            match self.frames.last_mut() {
                Some(Frame { at: At::Index(index), indent, filled, .. }) if *indent == column => {
                    (*index, *filled) = (*index + 1, false);
                }
                _ => self.push(column, At::Index(0)),
            }
            at += 1;
            let content = self.slice(at..end).trim_start();
            if content.is_empty() || content.starts_with('#') {
                return self.value(at, end);
            }
            at = end - content.len();
        }
    }

    /// The mapping at this column, when it is the innermost.
    fn top_keys(&mut self, column: usize) -> Option<&mut Frame> {
        self.frames.last_mut().filter(|top| matches!(top.at, At::Key(_)) && top.indent == column)
    }

    /// The key that begins at a place, and where its colon is.
    fn key(&self, at: usize, end: usize) -> Option<(Range<usize>, usize)> {
        let rest = self.slice(at..end);
        let is_end = |rest: &str| rest.is_empty() || rest.starts_with([' ', '\t']);
        if rest.starts_with(['"', '\'']) {
            let stop = self.quoted(at).min(end);
            let behind = self.slice(stop..end).trim_start();
            let is_key = behind.strip_prefix(':').is_some_and(is_end);
            return is_key.then_some((at..stop, end - behind.len()));
        }
        if rest.starts_with(['[', '{', '#', '|', '>']) {
            return None;
        }
        let plain = rest.find(" #").and_then(|comment| rest.get(..comment)).unwrap_or(rest);
        let mut colons = plain.match_indices(':').map(|(index, _)| index);
        let colon = colons.find(|index| plain.get(index + 1..).is_some_and(is_end))?;
        Some((at..at + plain.get(..colon)?.trim_end().len(), at + colon))
    }

    /// Scans the value that begins at a place or in the lines below.
    fn value(&mut self, mut at: usize, end: usize) -> usize {
        let stop = self.end_of_line(at);
        loop {
            let content = self.slice(at..end).trim_start();
            let begin = end - content.len();
            match content.chars().next() {
                None | Some('#') => {
                    let limit = if content.is_empty() { stop } else { begin };
                    if (at..=limit).contains(&self.cursor) {
                        self.found_value(self.cursor..self.cursor, false, None);
                    }
                    return stop + 1;
                }
                Some('|' | '>') => return self.block_text(stop + 1),
                Some('[' | '{') => return self.flow(begin),
                Some('"' | '\'') => {
                    let close = self.quoted(begin);
                    self.scalar(begin..close);
                    return self.end_of_line(close) + 1;
                }
                Some('&' | '!') => at = begin + content.find(' ').unwrap_or(content.len()),
                Some(_) => {
                    let plain = content.split(" #").next().unwrap_or_default().trim_end();
                    self.scalar(begin..begin + plain.len());
                    return stop + 1;
                }
            }
        }
    }

    /// Skips the lines of a text that is indented deeper than what holds it.
    fn block_text(&mut self, mut start: usize) -> usize {
        if let Some(top) = self.frames.last_mut() {
            top.filled = true;
        }
        let floor = self.frames.last().map_or(0, |top| top.indent);
        while start < self.text.len() {
            let stop = self.end_of_line(start);
            let line = self.slice(start..stop);
            if !line.trim().is_empty() && line.len() - line.trim_start_matches(' ').len() <= floor {
                return start;
            }
            start = stop + 1;
        }
        // Behind the end, where a cursor would still be in the text.
        self.text.len() + 1
    }

    /// The place after the quote that closes the one here; the end of the line when none does.
    fn quoted(&self, at: usize) -> usize {
        let rest = self.slice(at..self.text.len());
        let Some(quote) = rest.chars().next() else { return at };
        let mut chars = rest.char_indices().skip(1).peekable();
        while let Some((index, c)) = chars.next() {
            if c == '\\' && quote == '"' {
                chars.next();
            } else if c == quote && (quote == '"' || chars.next_if(|(_, next)| *next == quote).is_none()) {
                return at + index + 1;
            }
        }
        let stop = self.end_of_line(at);
        at + self.slice(at..stop).trim_end().len()
    }

    /// Scans what is between brackets, over as many lines as it takes.
    fn flow(&mut self, mut at: usize) -> usize {
        let floor = self.frames.last().map(|top| top.indent);
        let depth = self.frames.len();
        loop {
            let gap = at;
            at = match self.skip(at, floor) {
                Ok(next) => next,
                Err(line) => {
                    if (gap..line).contains(&self.cursor) && self.frames.len() > depth {
                        self.gap();
                    }
                    self.frames.truncate(depth);
                    return line;
                }
            };
            if (gap..=at).contains(&self.cursor) && self.frames.len() > depth {
                self.gap();
            }
            let Some(c) = self.slice(at..self.text.len()).chars().next() else {
                self.frames.truncate(depth);
                return self.text.len() + 1;
            };
            match c {
                '[' => self.push(0, At::Index(0)),
                '{' => self.push(0, At::Key(None)),
                ']' | '}' => {
                    self.frames.pop();
                    if let Some(top) = self.frames.last_mut() {
                        top.filled = true;
                    }
                    if self.frames.len() <= depth {
                        return self.end_of_line(at) + 1;
                    }
                }
                ',' => {
                    if let Some(top) = self.frames.last_mut() {
                        top.filled = false;
                        top.at = match &top.at {
                            At::Key(_) => At::Key(None),
                            At::Index(index) => At::Index(index + 1),
                        };
                    }
                }
                ':' => {}
                _ => {
                    at = self.flow_scalar(at);
                    continue;
                }
            }
            at += 1;
        }
    }

    /// Scans a key or a value between brackets; returns the place behind it.
    fn flow_scalar(&mut self, at: usize) -> usize {
        let rest = self.slice(at..self.text.len());
        let end = if rest.starts_with(['"', '\'']) {
            self.quoted(at)
        } else {
            let is_end = |(index, c): &(usize, char)| match c {
                ',' | '[' | ']' | '{' | '}' | '\n' => true,
                ':' => rest.get(index + 1..).is_none_or(|rest| {
                    rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n', ',', ']', '}'])
                }),
                '#' => rest.get(..*index).is_some_and(|before| before.ends_with(' ')),
                _ => false,
            };
            let length = rest.char_indices().skip(1).find(is_end).map_or(rest.len(), |(index, _)| index);
            at + rest.get(..length).unwrap_or_default().trim_end().len()
        };
        // A quote that nothing closes and nothing follows.
        let end = end.max(at + rest.chars().next().map_or(1, char::len_utf8));
        let is_key = self.frames.last().is_some_and(|top| matches!(top.at, At::Key(None)));
        if !is_key {
            self.scalar(at..end);
            return end;
        }
        let behind = self.slice(end..self.text.len()).trim_start();
        let colon = behind.starts_with(':').then(|| self.text.len() - behind.len());
        let name = unquoted(self.slice(at..end)).to_owned();
        self.enter(at..end);
        self.touch_key(at..end, colon.is_some());
        match (colon, self.frames.last_mut()) {
            (Some(colon), Some(top)) => {
                top.at = At::Key(Some(name));
                colon + 1
            }
            _ => end,
        }
    }

    /// Skips white space and comments between brackets. An error, with its start, where a line begins that
    /// is no deeper than what holds the brackets: they were left open.
    fn skip(&self, mut at: usize, floor: Option<usize>) -> Result<usize, usize> {
        loop {
            let rest = self.slice(at..self.text.len());
            let content = rest.trim_start_matches([' ', '\t', '\r']);
            let begin = self.text.len() - content.len();
            let spaced = begin > at || self.slice(0..at).ends_with([' ', '\n']);
            if content.starts_with('#') && spaced {
                at = self.end_of_line(begin);
                continue;
            }
            let Some(below) = content.strip_prefix('\n') else { return Ok(begin) };
            at = begin + 1;
            let first = below.trim_start_matches([' ', '\t']);
            let is_content = !first.is_empty() && !first.starts_with(['\r', '\n', ']', '}']);
            if is_content && floor.is_some_and(|floor| below.len() - first.len() <= floor) {
                return Err(at);
            }
        }
    }

    fn push(&mut self, indent: usize, at: At) {
        self.containers += 1;
        self.frames.push(Frame { container: self.containers, indent, at, filled: false });
    }

    /// Notes a key or an item.
    fn enter(&mut self, token: Range<usize>) {
        if let Some(top) = self.frames.last() {
            self.entries.push(CursorEntry { container: top.container, token });
        }
    }

    fn scalar(&mut self, token: Range<usize>) {
        if self.frames.last().is_some_and(|top| matches!(top.at, At::Index(_))) {
            self.enter(token.clone());
        }
        if (token.start..=token.end).contains(&self.cursor) {
            self.found_value(token, false, None);
        }
        if let Some(top) = self.frames.last_mut() {
            top.filled = true;
        }
    }

    /// The cursor is between brackets where nothing stands, unless something before it touches it.
    fn gap(&mut self) {
        if self.found.is_some() {
            return;
        }
        let nothing = self.cursor..self.cursor;
        match self.frames.last() {
            Some(Frame { filled: true, .. }) | None => {}
            Some(Frame { at: At::Key(None), .. }) => self.found_key(nothing, false),
            Some(_) => self.found_value(nothing, false, None),
        }
    }

    fn touch_key(&mut self, token: Range<usize>, colon: bool) {
        if (token.start..=token.end).contains(&self.cursor) {
            self.found_key(token, colon);
        }
    }

    fn found_key(&mut self, token: Range<usize>, colon: bool) {
        let Some((top, above)) = self.frames.split_last() else { return };
        let cursor = Cursor { path: path(above), slot: Slot::Key { colon }, token, siblings: vec![] };
        self.found = Some((Some(top.container), cursor));
    }

    /// `list` is the list in whose place the value would come.
    fn found_value(&mut self, token: Range<usize>, alone: bool, list: Option<usize>) {
        let own = self.frames.last().filter(|top| matches!(top.at, At::Index(_)));
        let container = list.or(own.map(|top| top.container));
        let path = path(&self.frames);
        self.found = Some((container, Cursor { path, slot: Slot::Value { alone }, token, siblings: vec![] }));
    }
}

fn path(frames: &[Frame]) -> Vec<Step> {
    let step = |frame: &Frame| match &frame.at {
        At::Key(name) => name.clone().map(Step::Key),
        At::Index(index) => Some(Step::Index(*index)),
    };
    frames.iter().filter_map(step).collect()
}

fn is_dash(content: &str) -> bool {
    content == "-" || content.starts_with("- ")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;
    use roo_formats::config::yaml;

    /// The cursor at `|`, in words: path, what belongs there, the token, the siblings.
    fn cursor_at(marked: &str) -> String {
        let offset = marked.find('|').unwrap();
        let text = marked.replacen('|', "", 1);
        let Some(cursor) = find(&text, offset) else { return "nothing".to_owned() };
        let step = |step: &Step| match step {
            Step::Index(index) => index.to_string(),
            Step::Key(name) | Step::Name(name) => name.clone(),
        };
        let path: Vec<String> = cursor.path.iter().map(step).collect();
        let slot = match cursor.slot {
            Slot::Key { colon: true } => "key:",
            Slot::Key { colon: false } => "key",
            Slot::Value { alone: true } => "line",
            Slot::Value { alone: false } => "value",
        };
        let siblings = cursor.siblings.join(" ");
        format!("{} {slot} '{}' [{siblings}]", path.join("."), &text[cursor.token])
    }

    #[test]
    fn keys_of_an_entry_are_found_by_their_column() {
        assert_eq!(
            cursor_at("customModes:\n  - slug: a\n    na|\n    groups: []\n"),
            "customModes.0 key 'na' [slug groups]"
        );
        assert_eq!(
            cursor_at("customModes:\n  - slug: a\n    |\n    groups: []\n"),
            "customModes.0 key '' [slug groups]"
        );
        assert_eq!(cursor_at("customModes:\n  - slug: a\n  - sl|ug: b\n"), "customModes.1 key: 'slug' []");
        assert_eq!(cursor_at("customModes:\n- slug: a\n  |"), "customModes.0 key '' [slug]");
        assert_eq!(cursor_at("a: 1\n|"), " key '' [a]");
        assert_eq!(cursor_at("cus|"), " value 'cus' []");
        assert_eq!(cursor_at("|"), " line '' []");
    }

    #[test]
    fn values_are_found_with_what_else_is_in_their_list() {
        assert_eq!(cursor_at("g:\n  - read\n  - ed|\n"), "g.1 value 'ed' [read]");
        assert_eq!(cursor_at("g:\n  - read\n  - |\n"), "g.1 value '' [read]");
        assert_eq!(cursor_at("g:\n  - read\n  |\n"), "g line '' [read]");
        assert_eq!(cursor_at("g:\n  |\n"), "g line '' []");
        assert_eq!(cursor_at("g: [read, |]\n"), "g.1 value '' [read]");
        assert_eq!(cursor_at("g: [read, ed|it, mcp]\n"), "g.1 value 'edit' [read mcp]");
        assert_eq!(cursor_at("g: [|\nh: 1\n"), "g.0 value '' []");
        assert_eq!(cursor_at("g:\n  - - edit\n    - file|: x\n"), "g.0.1 key: 'file' []");
        assert_eq!(cursor_at("g:\n  - [edit, { fileRegex: '|' }]\n"), "g.0.1.fileRegex value '''' []");
        assert_eq!(cursor_at("g:\n  - [edit, { a: 1, | }]\n"), "g.0.1 key '' [a]");
        assert_eq!(cursor_at("mode: |\n"), "mode value '' []");
        assert_eq!(cursor_at("mode: co|de # comment\n"), "mode value 'code' []");
    }

    #[test]
    fn json_is_yaml() {
        assert_eq!(cursor_at("{\"m\": [\n\t{\"a\": 1, |\"b\": 2}]}"), "m.0 key: '\"b\"' [a]");
        assert_eq!(cursor_at("{\"m\": [\n\t{\"a\": 1, \"|"), "m.0 key '\"' [a]");
        assert_eq!(cursor_at("{\"g\": [\"read\", \"|\"]}"), "g.1 value '\"\"' [read]");
    }

    #[test]
    fn texts_and_comments_hold_nothing() {
        assert_eq!(cursor_at("a: >-\n  role: |x\nb: 1\n"), "nothing");
        assert_eq!(cursor_at("a: >-\n  text\n\n  |\n  more\nb: 1\n"), "nothing");
        assert_eq!(cursor_at("# mode: |\n"), "nothing");
        assert_eq!(cursor_at("a: >-\n  role: x\nb: |\n"), "b value '' []");
    }

    #[test]
    fn an_open_bracket_ends_where_the_next_key_begins() {
        assert_eq!(cursor_at("m:\n  - g: [read,\n    h: |\n"), "m.0.h value '' []");
    }

    #[test]
    fn deep_brackets_cost_no_more_than_others() {
        let before = std::time::Instant::now();
        for open in ["[", "{a: ", "[a, "] {
            let text = format!("customModes: {}", open.repeat(1_000_000 / open.len()));
            let _ = find(&text, text.len());
        }
        assert!(before.elapsed().as_secs() < 20, "{:?}", before.elapsed());
    }

    /// Every scalar of a value, with the path to it.
    fn leaves(value: &Value, path: &mut Vec<Step>, found: &mut Vec<Vec<Step>>) {
        match value {
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    path.push(Step::Index(index));
                    leaves(item, path, found);
                    path.pop();
                }
            }
            Value::Object(entries) => {
                for (name, value) in entries {
                    path.push(Step::Key(name.clone()));
                    leaves(value, path, found);
                    path.pop();
                }
            }
            _ => found.push(path.clone()),
        }
    }

    fn some_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::from("wörd")),
            Just(Value::from("x: y")),
            Just(Value::from(7)),
            Just(Value::from("\\.md$"))
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 1..4).prop_map(Value::Array),
                prop::collection::btree_map("[a-c]{1,2}|d e", inner, 1..4)
                    .prop_map(|entries| Value::Object(entries.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_scan_agrees_with_the_parser(value in some_value()) {
            let texts = [
                serde_yaml::to_string(&value).unwrap(),
                serde_json::to_string_pretty(&value).unwrap(),
                serde_json::to_string(&value).unwrap(),
            ];
            for text in texts {
                let mut paths = Vec::new();
                leaves(&value, &mut Vec::new(), &mut paths);
                for path in paths.iter().filter(|path| !path.is_empty()) {
                    let place = yaml::locate(&text, path).unwrap();
                    let start: usize = text.split_inclusive('\n').take(place.line - 1).map(str::len).sum();
                    let line = &text[start..];
                    let column: usize = line.chars().take(place.column - 1).map(char::len_utf8).sum();
                    let cursor = find(&text, start + column);
                    let found = cursor.map(|cursor| cursor.path);
                    prop_assert_eq!(found.as_ref(), Some(path), "{}", text);
                }
            }
        }

        #[test]
        fn no_text_is_too_strange(text in r#"[a-b:\-\[\]{}&!|>#,"'\\ \n\r\tä]{0,60}"#, cursor in 0usize..64) {
            if let Some(found) = find(&text, cursor) {
                prop_assert!(text.get(found.token).is_some());
            }
        }
    }
}
