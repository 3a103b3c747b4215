//! Positions in the text of a file as its parser counts them, and the part that begins at one.

/// A position in a text file; both count from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column, in characters.
    pub column: usize,
}

impl Position {
    /// The beginning of a text.
    pub const START: Self = Self { line: 1, column: 1 };

    /// Returns the byte offset in a text. Lines end where YAML ends them, and a byte order mark at the start has no
    /// column. A column past the end of its line is the end of the line, a line past the last one the end of the text.
    pub fn offset(self, text: &str) -> usize {
        let begin = text.len() - text.strip_prefix('\u{feff}').unwrap_or(text).len();
        let (mut line, mut column) = (1, 1);
        let mut chars = text.get(begin..).unwrap_or_default().char_indices().peekable();
        while let Some((index, c)) = chars.next() {
            let is_end = matches!(c, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}');
            if line == self.line && (column >= self.column || is_end) {
                return begin + index;
            }
            if c == '\r' && chars.peek().is_some_and(|(_, next)| *next == '\n') {
                continue;
            }
            (line, column) = if is_end { (line + 1, 1) } else { (line, column + 1) };
        }
        text.len()
    }

    fn on_line(self, line: usize) -> Self {
        Self { line, ..self }
    }
}

/// Part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextRange {
    /// Its first character.
    pub start: Position,
    /// The character after its last one; equal to the start where nothing begins there.
    pub end: Position,
}

impl TextRange {
    /// The key or value that begins at a position: a word, a quoted text, or brackets with what is in them. Ends on the
    /// line of the position.
    pub fn at(text: &str, start: Position) -> Self {
        let offset = start.offset(text);
        let line = text.get(offset..).unwrap_or_default();
        let line = line.split(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}']).next().unwrap_or_default();
        let length = match line.chars().next() {
            Some(quote @ ('"' | '\'')) => quoted_length(line, quote),
            Some('[' | '{') => bracketed_length(line),
            _ => Some(plain_length(text.get(..offset).unwrap_or_default(), line)),
        };
        let part = length.and_then(|length| line.get(..length)).unwrap_or_else(|| line.trim_end());
        Self { start, end: Position { column: start.column + part.chars().count(), ..start } }
    }

    /// From a position to the end of its line, without space at the end.
    pub fn to_line_end(text: &str, start: Position) -> Self {
        let line = text.get(start.offset(text)..).unwrap_or_default();
        let line = line.split(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}']).next().unwrap_or_default();
        Self { start, end: Position { column: start.column + line.trim_end().chars().count(), ..start } }
    }

    /// The same part of a text that has more lines before this one.
    #[must_use]
    pub fn below(self, lines: usize) -> Self {
        let Self { start, end } = self;
        Self { start: start.on_line(start.line + lines), end: end.on_line(end.line + lines) }
    }
}

/// The length of a quoted text at the start of a line, with its quotes.
fn quoted_length(line: &str, quote: char) -> Option<usize> {
    let mut chars = line.char_indices().skip(1);
    while let Some((index, c)) = chars.next() {
        if c == '\\' && quote == '"' {
            chars.next();
        } else if c == quote {
            return Some(index + 1);
        }
    }
    None
}

/// The length of brackets at the start of a line, with what is in them.
fn bracketed_length(line: &str) -> Option<usize> {
    let mut depth = 0usize;
    for (index, c) in line.char_indices() {
        match c {
            '[' | '{' => depth += 1,
            ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return Some(index + 1);
        }
    }
    None
}

/// The length of a plain key or value at the start of a line. Commas and brackets end it where brackets are open in
/// the text before it on its line.
fn plain_length(before: &str, line: &str) -> usize {
    let above = before.rsplit('\n').next().unwrap_or_default();
    let is_in_brackets = above.matches(['[', '{']).count() > above.matches([']', '}']).count();
    let is_end = |(index, c): &(usize, char)| {
        let behind = line.get(index + c.len_utf8()..).unwrap_or_default();
        match c {
            ',' | ']' | '}' => is_in_brackets,
            ':' => behind.is_empty() || behind.starts_with(' '),
            '#' => line.get(..*index).is_some_and(|text| text.ends_with(' ')),
            _ => false,
        }
    };
    let length = line.char_indices().find(is_end).map_or(line.len(), |(index, _)| index);
    line.get(..length).unwrap_or_default().trim_end().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(text: &str, line: usize, column: usize) -> &str {
        let TextRange { start, end } = TextRange::at(text, Position { line, column });
        &text[start.offset(text)..end.offset(text)]
    }

    #[test]
    fn the_part_is_the_word_the_quoted_text_or_the_brackets() {
        let text = "a: [read, reed, edit] # x\nb: some text # comment\nc: \"q, ] \\\" x\" y\nfoo: 1\n";
        assert_eq!(part(text, 1, 11), "reed");
        assert_eq!(part(text, 1, 4), "[read, reed, edit]");
        assert_eq!(part(text, 2, 4), "some text");
        assert_eq!(part(text, 3, 4), "\"q, ] \\\" x\"");
        assert_eq!(part(text, 4, 1), "foo");
        assert_eq!(part(text, 4, 9), "");
        assert_eq!(part("", 1, 1), "");
    }

    #[test]
    fn lines_and_columns_are_those_of_the_parser() {
        assert_eq!(part("\u{feff}a: x\r\nb: ä🦀 y\r\n", 2, 4), "ä🦀 y");
        assert_eq!(part("\u{feff}foo: x", 1, 1), "foo");
        assert_eq!(part("a: x\u{2028}\nfoo: 1\n", 3, 1), "foo");
        let range = TextRange::at("b: ä🦀 y", Position { line: 1, column: 4 });
        assert_eq!(range.end, Position { line: 1, column: 8 });
    }

    #[test]
    fn a_position_in_deep_brackets_is_found_quickly() {
        let before = std::time::Instant::now();
        let text = format!("customModes: {}", "[".repeat(1_000_000));
        let range = TextRange::at(&text, Position { line: 1, column: 14 + 128 });
        assert_eq!(range.end.offset(&text), text.len());
        assert!(before.elapsed().as_secs() < 20, "{:?}", before.elapsed());
    }

    proptest::proptest! {
        #[test]
        fn any_position_has_a_part(text in "[a\"'\\[\\]{}:#\\- \\n\\r\u{feff}ä🦀\u{2028}]{0,30}", line in 0usize..8, column in 0usize..40) {
            let TextRange { start, end } = TextRange::at(&text, Position { line, column });
            proptest::prop_assert!(text.get(start.offset(&text)..end.offset(&text)).is_some());
        }
    }
}
