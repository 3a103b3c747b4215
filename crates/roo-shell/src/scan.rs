//! The broad reading: commands in anything at all, for what is denied.
//!
//! It fits any text, also one that no grammar does, and takes linear time at any length.

use std::iter::Peekable;
use std::str::Chars;

/// Nested commands deeper than this are not looked at.
const DEPTH: usize = 32;

/// Visible parts of a line. Never complete: it serves to refuse, not to allow.
#[derive(Default)]
pub struct Seen {
    /// Each command as its words without redirections, also from pipes, lists, groups, substitutions.
    pub commands: Vec<Vec<String>>,
    /// The texts of here-documents. Some command reads them, and may run them.
    pub documents: Vec<String>,
    /// True if something was nested too deeply to be looked at.
    pub too_deep: bool,
}

/// Reads a line broadly.
pub fn scan(line: &str) -> Seen {
    let mut scan = Scan::new(line);
    scan.list(None, 0);
    // Two open brackets begin arithmetic, where `<<` shifts, or a group within a group.
    if line.contains("((") && line.contains("<<") {
        let mut grouped = Scan { groups_only: true, ..Scan::new(line) };
        grouped.list(None, 0);
        scan.take(grouped.seen);
    }
    scan.seen
}

struct Scan<'a> {
    chars: Peekable<Chars<'a>>,
    /// The here-documents that begin with the next line.
    pending: Vec<Delimiter>,
    /// True if a here-document had no end. From there on all text is read as commands.
    endless: bool,
    /// Number of open double brackets.
    arithmetic: usize,
    /// True if double brackets are taken for groups.
    groups_only: bool,
    seen: Seen,
}

/// Delimiter of a here-document.
struct Delimiter {
    text: String,
    /// True if the document's text is literal.
    quoted: bool,
    /// True if tabs at the beginning of its lines don't count.
    tabs: bool,
}

/// The command that is being read.
#[derive(Default)]
struct ScannedCommand {
    words: Vec<String>,
    word: Option<String>,
    /// True if the next word is where a redirection goes.
    target: bool,
}

impl ScannedCommand {
    fn end_word(&mut self) {
        if let Some(word) = self.word.take()
            && !std::mem::take(&mut self.target)
        {
            self.words.push(word);
        }
    }

    fn push(&mut self, c: char) {
        self.word.get_or_insert_default().push(c);
    }
}

impl<'a> Scan<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            chars: text.chars().peekable(),
            pending: Vec::new(),
            endless: false,
            arithmetic: 0,
            groups_only: false,
            seen: Seen::default(),
        }
    }

    /// Reads commands up to `end`, or to the end of the line.
    fn list(&mut self, end: Option<char>, depth: usize) {
        if depth > DEPTH {
            self.seen.too_deep = true;
            self.chars = "".chars().peekable();
        }
        let mut command = ScannedCommand::default();
        while let Some(c) = self.chars.next() {
            if Some(c) == end {
                break;
            }
            match c {
                '\n' => {
                    self.end(&mut command);
                    for delimiter in std::mem::take(&mut self.pending) {
                        self.document(&delimiter, depth);
                    }
                }
                ';' | '|' | '&' | ')' => self.end(&mut command),
                '(' => {
                    self.end(&mut command);
                    let double = self.chars.peek() == Some(&'(') && !self.groups_only;
                    self.arithmetic += usize::from(double);
                    self.list(Some(')'), depth + 1);
                    self.arithmetic -= usize::from(double);
                }
                c if c.is_whitespace() => command.end_word(),
                '<' | '>' => self.redirection(c, &mut command, depth),
                '$' | '`' => self.substitution(c, &mut command, depth),
                '#' if command.word.is_none() => while self.chars.next_if(|&c| c != '\n').is_some() {},
                '\\' => self.escaped(&mut command),
                '\'' => {
                    let word = command.word.get_or_insert_default();
                    word.extend(self.chars.by_ref().take_while(|&c| c != '\''));
                }
                '"' => {
                    command.word.get_or_insert_default();
                    while let Some(c) = self.chars.next() {
                        match c {
                            '"' => break,
                            '\\' => self.escaped(&mut command),
                            '$' | '`' => self.substitution(c, &mut command, depth),
                            c => command.push(c),
                        }
                    }
                }
                c => command.push(c),
            }
        }
        self.end(&mut command);
    }

    fn redirection(&mut self, c: char, command: &mut ScannedCommand, depth: usize) {
        if self.chars.next_if_eq(&'(').is_some() {
            self.list(Some(')'), depth + 1);
            command.push(c);
            return;
        }
        command.end_word();
        if c == '<' && self.chars.next_if_eq(&'<').is_some() && self.chars.next_if_eq(&'<').is_none() {
            if self.arithmetic == 0 && !self.endless {
                let delimiter = self.delimiter();
                self.pending.push(delimiter);
            }
            return;
        }
        command.target = true;
        self.chars.next_if(|&c| matches!(c, '>' | '&' | '|'));
    }

    /// A substitution's text can't be known; its commands can.
    fn substitution(&mut self, c: char, command: &mut ScannedCommand, depth: usize) {
        command.push(c);
        if c == '`' {
            self.list(Some('`'), depth + 1);
        } else if self.chars.next_if_eq(&'(').is_some() {
            let double = self.chars.peek() == Some(&'(') && !self.groups_only;
            self.arithmetic += usize::from(double);
            self.list(Some(')'), depth + 1);
            self.arithmetic -= usize::from(double);
        }
    }

    fn escaped(&mut self, command: &mut ScannedCommand) {
        match self.chars.next() {
            None | Some('\n') => {}
            Some(c) => command.push(c),
        }
    }

    fn end(&mut self, command: &mut ScannedCommand) {
        command.end_word();
        command.target = false;
        if !command.words.is_empty() {
            self.seen.commands.push(std::mem::take(&mut command.words));
        }
    }

    /// The word after `<<`, without its quotes.
    fn delimiter(&mut self) -> Delimiter {
        let tabs = self.chars.next_if_eq(&'-').is_some();
        while self.chars.next_if(|&c| matches!(c, ' ' | '\t')).is_some() {}
        let (mut text, mut quoted) = (String::new(), false);
        while let Some(c) =
            self.chars.next_if(|&c| !matches!(c, ' ' | '\t' | '\n' | ';' | '|' | '&' | '<' | '>' | '(' | ')'))
        {
            match c {
                '\\' => {
                    quoted = true;
                    text.extend(self.chars.next());
                }
                '\'' | '"' => {
                    quoted = true;
                    text.extend(self.chars.by_ref().take_while(|&end| end != c));
                }
                c => text.push(c),
            }
        }
        Delimiter { text, quoted, tabs }
    }

    /// Reads a here-document. One without an end is read as commands instead: its end may be one that
    /// isn't recognised here.
    fn document(&mut self, delimiter: &Delimiter, depth: usize) {
        if self.endless {
            return;
        }
        let begin = self.chars.clone();
        let mut text = String::new();
        while self.chars.peek().is_some() {
            let line = self.line(!delimiter.quoted);
            let plain = if delimiter.tabs { line.trim_start_matches('\t') } else { &line };
            if plain == delimiter.text {
                if !delimiter.quoted {
                    self.expansions(&text, depth);
                }
                self.seen.documents.push(text);
                return;
            }
            text.push_str(&line);
            text.push('\n');
        }
        self.endless = true;
        self.chars = begin;
    }

    /// The next line; where it can be continued by a backslash, as a whole.
    fn line(&mut self, continued: bool) -> String {
        let mut line = String::new();
        let mut escaped = false;
        for c in self.chars.by_ref() {
            if c == '\n' {
                if !(continued && escaped) {
                    break;
                }
                line.pop();
                escaped = false;
                continue;
            }
            escaped = c == '\\' && !escaped;
            line.push(c);
        }
        line
    }

    /// The substitutions in the text of a here-document.
    fn expansions(&mut self, text: &str, depth: usize) {
        let mut scan = Scan { groups_only: self.groups_only, ..Scan::new(text) };
        while let Some(c) = scan.chars.next() {
            match c {
                '\\' => drop(scan.chars.next()),
                '$' | '`' => scan.substitution(c, &mut ScannedCommand::default(), depth + 1),
                _ => {}
            }
        }
        self.take(scan.seen);
    }

    fn take(&mut self, mut seen: Seen) {
        self.seen.commands.append(&mut seen.commands);
        self.seen.documents.append(&mut seen.documents);
        self.seen.too_deep |= seen.too_deep;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    use super::*;

    #[test]
    fn commands_are_seen_wherever_they_stand() {
        let check = |line: &str, expected: &[&str]| {
            let seen: Vec<String> = scan(line).commands.iter().map(|words| words.join(" ")).collect();
            assert_eq!(seen, expected, "{line:?}");
        };
        check("a b; c|d && e & f\ng", &["a b", "c", "d", "e", "f", "g"]);
        check("(a b); { c; }", &["a b", "{ c", "}"]);
        check("a $(b $(c)) d `e f` \"g $(h)\"", &["c", "b $", "e f", "h", "a $ d ` g $"]);
        check("a <(b) >(c) <x >>y 2>&1 d", &["b", "c", "a < > 2 d"]);
        check("'a;b' \"c;d\" e\\;f # g", &["a;b c;d e;f"]);
        check("to\\\nuch x", &["touch x"]);
        check("cat <<EOF; a\nrm x\nEOF", &["cat", "a"]);
        check("cat <<<word\nb", &["cat", "b"]);
        check("cat <<A <<-'B'; a\nrm\nA\nrm $(x)\n\tB\nb", &["cat", "a", "b"]);
        check("cat <<A\n$(b) \\$(c) `d`\ne\\\nA\nA\nf", &["cat", "b", "d", "f"]);
        check("cat <<\"A B\"\n$(b)\nA B\nc", &["cat", "c"]);
        // Without an end it is no document, as far as that can be told here.
        check("cat <<A\nb", &["cat", "b"]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 400, rng_seed: RngSeed::Fixed(1), failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn no_line_breaks_the_reading(line in "([\\PC\n]|[;|&()<>$`'\"\\\\ #]){0,60}") {
            let _ = scan(&line);
        }
    }
}
