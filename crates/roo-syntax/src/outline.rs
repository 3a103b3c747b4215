//! Source code without what no definition is taken from: the bodies of functions, and the comments between definitions.
//! Parsing these takes most of a parser's time, so they are left out before it, and lines are counted as if they were
//! still there.
//!
//! A text whose braces don't match is parsed as a whole: what is being written is the parser's to make out.

use std::borrow::Cow;

use roo_text::lines::LineRange;
use tree_sitter::Node;

use super::grammar::Language;

/// A text as a parser gets it.
pub(super) struct Outline<'t> {
    text: Cow<'t, str>,
    /// In the order of the text.
    cuts: Vec<Cut>,
}

/// A place where text is left out.
#[derive(Clone, Copy)]
struct Cut {
    /// Position in the outline, in bytes.
    at: usize,
    /// Number of line ends that are left out here and before.
    line_ends: usize,
}

impl<'t> Outline<'t> {
    /// The outline of a text; the text itself in a language whose bodies can't be told without its grammar.
    pub(super) fn new(language: Language, text: &'t str) -> Self {
        match Syntax::from_language(language).and_then(|syntax| Scan::new(syntax, text).left_out()) {
            Some(left_out) => Self::without(text, &left_out),
            None => Self { text: Cow::Borrowed(text), cuts: vec![] },
        }
    }

    fn without(text: &str, left_out: &[Span]) -> Self {
        let (mut kept, mut cuts) = (String::new(), Vec::with_capacity(left_out.len()));
        let (mut end, mut line_ends) = (0, 0);
        for span in left_out {
            // Spans begin and end beside ASCII characters.
            kept.push_str(text.get(end..span.start).unwrap_or_default());
            let left_out = text.as_bytes().get(span.start..span.end).unwrap_or_default();
            line_ends += left_out.iter().filter(|byte| **byte == b'\n').count();
            cuts.push(Cut { at: kept.len(), line_ends });
            end = span.end;
        }
        kept.push_str(text.get(end..).unwrap_or_default());
        Self { text: Cow::Owned(kept), cuts }
    }

    /// What is parsed.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The lines that a node has in the whole text.
    pub(super) fn lines_of(&self, node: Node<'_>) -> LineRange {
        let (start, end) = (node.start_position(), node.end_position());
        let first = start.row + 1 + self.line_ends(|cut| cut.at <= node.start_byte());
        let line_ends = self.line_ends(|cut| cut.at < node.end_byte());
        // Some nodes end with the line end, which is before the next line.
        let is_before = end.column == 0 && end.row > start.row;
        let last = if is_before { end.row } else { end.row + 1 };
        LineRange { start: first, end: (last + line_ends).max(first) }
    }

    /// Number of line ends that are left out at the cuts that a condition holds for: those before a place.
    fn line_ends(&self, is_before: impl Fn(&Cut) -> bool) -> usize {
        let count = self.cuts.partition_point(is_before);
        count.checked_sub(1).and_then(|last| self.cuts.get(last)).map_or(0, |cut| cut.line_ends)
    }
}

/// A part of a text, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    start: usize,
    end: usize,
}

/// What a language's text is made of, as far as it takes to match its braces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Syntax {
    /// No definition holds another, so that all that is in braces is left out.
    C,
    /// As C, with strings in backquotes and without a preprocessor.
    Go,
    /// Functions are left out. Comments nest, strings may be raw and go over lines, and quotes begin lifetimes, too.
    Rust,
}

impl Syntax {
    fn from_language(language: Language) -> Option<Self> {
        match language {
            Language::C => Some(Self::C),
            Language::Go => Some(Self::Go),
            Language::Rust => Some(Self::Rust),
            _ => None,
        }
    }
}

/// An open bracket between definitions.
struct Open {
    closes: u8,
    /// What was known before it.
    head: Head,
}

/// What is known of the words since the last definition.
#[derive(Clone, Copy)]
struct Head {
    /// Where those go on that are neither in brackets nor in comments.
    words_from: usize,
    /// In Rust: whether those before are of a function.
    is_function: bool,
}

impl Head {
    fn at(from: usize) -> Self {
        Self { words_from: from, is_function: false }
    }
}

/// A text that is gone through from its beginning to its end.
struct Scan<'t> {
    syntax: Syntax,
    text: &'t str,
    bytes: &'t [u8],
    at: usize,
    left_out: Vec<Span>,
}

impl<'t> Scan<'t> {
    fn new(syntax: Syntax, text: &'t str) -> Self {
        Self { syntax, text, bytes: text.as_bytes(), at: 0, left_out: vec![] }
    }

    /// What is left out; none where the text is not understood.
    fn left_out(mut self) -> Option<Vec<Span>> {
        // What holds definitions in C++, whose headers look like those of C.
        if self.syntax == Syntax::C
            && ["class", "namespace", "template"].iter().any(|word| has_word(self.text, word))
        {
            return None;
        }
        let mut open: Vec<Open> = vec![];
        let mut head = Head::at(self.at);
        while let Some((at, byte)) = self.next(&BETWEEN) {
            if self.syntax == Syntax::Rust && !matches!(byte, b')' | b']') {
                head.is_function |= names_function(self.text.get(head.words_from..at).unwrap_or_default());
            }
            match byte {
                b'{' if self.is_left_out(at, head, &open) => {
                    let end = self.end_of_block()?;
                    self.left_out.push(Span { start: at + 1, end });
                    head = Head::at(self.at);
                }
                b'(' | b'[' | b'{' => {
                    let closes = if byte == b'(' { b')' } else { byte + 2 };
                    open.push(Open { closes, head });
                    head = Head::at(self.at);
                }
                b')' | b']' | b'}' => {
                    let before = open.pop().filter(|before| before.closes == byte)?;
                    // A block ends what it belongs to.
                    head = if byte == b'}' { Head::at(self.at) } else { before.head };
                }
                b';' => head = Head::at(self.at),
                b'/' => {
                    let is_comment = matches!(self.bytes.get(self.at), Some(b'/' | b'*'));
                    self.comment()?;
                    if is_comment {
                        self.left_out.push(Span { start: at, end: self.at });
                    }
                }
                _ => self.skip(at, byte)?,
            }
            head.words_from = self.at;
        }
        open.is_empty().then_some(self.left_out)
    }

    /// Returns whether nothing in a block can be a definition.
    fn is_left_out(&self, at: usize, head: Head, open: &[Open]) -> bool {
        let is_in_block = open.last().is_none_or(|open| open.closes == b'}');
        match self.syntax {
            Syntax::Rust => head.is_function && is_in_block,
            // The declarations of `extern "C"` are among the others.
            Syntax::C => !self.text.get(..at).unwrap_or_default().trim_end().ends_with('"'),
            Syntax::Go => true,
        }
    }

    /// The next byte that means something, and its position. It is passed.
    fn next(&mut self, meanings: &Meanings) -> Option<(usize, u8)> {
        let rest = self.bytes.get(self.at..)?;
        let at = self.at + rest.iter().position(|byte| meanings.0[usize::from(*byte)])?;
        self.at = at + 1;
        Some((at, *self.bytes.get(at)?))
    }

    /// Passes a block whose brace was passed. Returns the position of the brace that closes it.
    fn end_of_block(&mut self) -> Option<usize> {
        let mut depth = 1_usize;
        loop {
            let (at, byte) = self.next(&WITHIN)?;
            match byte {
                b'{' => depth += 1,
                b'}' => depth -= 1,
                b'/' => self.comment()?,
                _ => {
                    // Which of two parts counts is not known here.
                    let rest = self.bytes.get(self.at..)?.trim_ascii_start();
                    if self.syntax == Syntax::C && byte == b'#' && rest.starts_with(b"el") {
                        return None;
                    }
                    self.skip(at, byte)?;
                }
            }
            if depth == 0 {
                return Some(at);
            }
        }
    }

    /// Passes what begins with a quote or a mark that was passed.
    fn skip(&mut self, at: usize, byte: u8) -> Option<()> {
        match (self.syntax, byte) {
            (Syntax::Rust, b'"') => self.rust_string(at),
            (_, b'"') => self.quoted(b'"'),
            (Syntax::Rust, b'\'') => self.rust_quote(),
            (_, b'\'') => self.quoted(b'\''),
            (Syntax::Go, b'`') => self.pass(b"`"),
            (Syntax::C, b'#') => self.directive(at),
            _ => Some(()),
        }
    }

    /// Passes everything until after a text.
    fn pass(&mut self, until: &[u8]) -> Option<()> {
        let rest = self.bytes.get(self.at..)?;
        self.at += rest.windows(until.len()).position(|bytes| bytes == until)? + until.len();
        Some(())
    }

    /// Passes a comment whose first slash was passed: until its line end, or after its end. A slash alone is none.
    fn comment(&mut self) -> Option<()> {
        match self.bytes.get(self.at) {
            Some(b'/') => {
                let rest = self.bytes.get(self.at..)?;
                self.at += rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
                Some(())
            }
            Some(b'*') if self.syntax == Syntax::Rust => {
                self.at += 1;
                let mut depth = 1_usize;
                while depth > 0 {
                    let rest = self.bytes.get(self.at..)?;
                    let next = rest.windows(2).position(|pair| matches!(pair, b"/*" | b"*/"))?;
                    if rest.get(next) == Some(&b'/') {
                        depth += 1
                    } else {
                        depth -= 1
                    }
                    self.at += next + 2;
                }
                Some(())
            }
            Some(b'*') => {
                self.at += 1;
                self.pass(b"*/")
            }
            _ => Some(()),
        }
    }

    /// Passes a string or character of one line.
    fn quoted(&mut self, quote: u8) -> Option<()> {
        loop {
            let byte = *self.bytes.get(self.at)?;
            self.at += 1;
            match byte {
                b'\\' => self.at += 1,
                b'\n' => return None,
                _ if byte == quote => return Some(()),
                _ => {}
            }
        }
    }

    /// Passes a string of Rust whose quote was passed.
    fn rust_string(&mut self, at: usize) -> Option<()> {
        let before = self.bytes.get(..at)?;
        let marks = before.iter().rev().take_while(|byte| **byte == b'#').count();
        let mut prefix = before.iter().rev().skip(marks);
        if prefix.next() == Some(&b'r') {
            let is_prefix = match prefix.next() {
                Some(b'b' | b'c') => !prefix.next().is_some_and(|byte| is_word(*byte)),
                other => !other.is_some_and(|byte| is_word(*byte)),
            };
            if is_prefix {
                return self.pass(format!("\"{}", "#".repeat(marks)).as_bytes());
            }
        }
        loop {
            let rest = self.bytes.get(self.at..)?;
            let next = rest.iter().position(|byte| matches!(byte, b'\\' | b'"'))?;
            self.at += next + 1;
            match rest.get(next) {
                Some(b'\\') => self.at += 1,
                _ => return Some(()),
            }
        }
    }

    /// Passes a character of Rust whose quote was passed; of a lifetime, the quote alone.
    fn rust_quote(&mut self) -> Option<()> {
        let rest = self.text.get(self.at..)?;
        let mut characters = rest.char_indices();
        if characters.next()?.1 == '\\' {
            self.at += 2;
            return self.pass(b"'");
        }
        if let Some((next, '\'')) = characters.next() {
            self.at += next + 1;
        }
        Some(())
    }

    /// Passes a line for the preprocessor, as far as the mark begins one.
    fn directive(&mut self, at: usize) -> Option<()> {
        let before = self.bytes.get(..at)?.iter().rev();
        if before.take_while(|byte| **byte != b'\n').any(|byte| !matches!(byte, b' ' | b'\t')) {
            return Some(());
        }
        loop {
            let rest = self.bytes.get(self.at..)?;
            let Some(next) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\\' | b'/')) else {
                self.at = self.bytes.len();
                return Some(());
            };
            self.at += next + 1;
            match rest.get(next) {
                // The line goes on where its end is escaped.
                Some(b'\\') => self.at += if rest.get(next + 1) == Some(&b'\r') { 2 } else { 1 },
                Some(b'/') => self.comment()?,
                _ => return Some(()),
            }
        }
    }
}

/// The bytes that mean something.
struct Meanings([bool; 256]);

impl Meanings {
    const fn new(bytes: &[u8]) -> Self {
        let mut meanings = [false; 256];
        let mut next = 0;
        while next < bytes.len() {
            meanings[bytes[next] as usize] = true;
            next += 1;
        }
        Self(meanings)
    }
}

/// Between definitions.
static BETWEEN: Meanings = Meanings::new(b"{}()[];/\"'`#");

/// In a block that is left out.
static WITHIN: Meanings = Meanings::new(b"{}/\"'`#");

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

/// Returns whether words of Rust have a function's name in them. Its type has none.
fn names_function(words: &str) -> bool {
    let bytes = words.as_bytes();
    words.match_indices("fn").any(|(at, _)| {
        let (before, behind) = (bytes.get(..at).unwrap_or_default(), bytes.get(at + 2..).unwrap_or_default());
        let name = behind.trim_ascii_start();
        !before.last().is_some_and(|byte| is_word(*byte) || *byte == b'#')
            && name.len() < behind.len()
            && name.first().is_some_and(|byte| is_word(*byte))
    })
}

fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let before = text.as_bytes().get(..at).and_then(|before| before.last());
        let behind = text.as_bytes().get(at + word.len());
        ![before, behind].into_iter().flatten().any(|byte| is_word(*byte))
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::ops::ControlFlow;
    use std::path::Path;

    use pretty_assertions::assert_eq;

    use super::*;
    use crate::definitions::each;
    use crate::parse;

    #[track_caller]
    fn check(language: Language, text: &str, outline: &str) {
        assert_eq!(Outline::new(language, text).text(), outline);
    }

    #[test]
    fn bodies_of_functions_are_left_out_and_what_holds_definitions_is_not() {
        check(
            Language::Rust,
            "/// fn a() {\nimpl A for fn() {\n    // x\n    fn b(c: [u8; { 1 }]) -> D where E: F { g({ h }) }\n}\nmod i {\n    struct J { k: fn(u8) -> u8 }\n    fn l();\n    mod m { const fn r#n() {o} }\n}\n",
            "\nimpl A for fn() {\n    \n    fn b(c: [u8; { 1 }]) -> D where E: F {}\n}\nmod i {\n    struct J { k: fn(u8) -> u8 }\n    fn l();\n    mod m { const fn r#n() {} }\n}\n",
        );
        check(
            Language::Go,
            "package a\ntype B struct {\n\tc int // d\n}\nfunc (b *B) D() { e(`}`, '}', \"}\") /* } */ }\n",
            "package a\ntype B struct {}\nfunc (b *B) D() {}\n",
        );
        check(
            Language::C,
            "#define A {\nextern \"C\" {\nint f(void) { return '}'; }\n}\nstruct b { int c; };\n",
            "#define A {\nextern \"C\" {\nint f(void) {}\n}\nstruct b {};\n",
        );
    }

    #[test]
    fn braces_in_strings_characters_and_comments_are_none() {
        for body in [
            r#" "}" "#,
            r#" "\"}" "#,
            r##" r#""}"# "##,
            r#" br"\" "#,
            " '}' ",
            r" '\'' ",
            r" '\u{7d}' ",
            " &'a b ",
            " '\u{e9}' ",
            " b'}' ",
            " /* /* } */ } */ ",
            " // }\n",
            " a / b ",
            r#" r#fn("}") "#,
        ] {
            check(Language::Rust, &format!("fn a() {{{body}}}\nfn b() {{ c }}"), "fn a() {}\nfn b() {}");
        }
    }

    #[test]
    fn a_text_whose_braces_do_not_match_is_kept() {
        for text in [
            "fn a() { b(\n\nfn c() { d }\n",
            "fn a() { b }}",
            "mod a { fn b() { c }",
            "mod a { ( }",
            "fn a() { \"b }",
        ] {
            check(Language::Rust, text, text);
        }
        let text = "int a(void) {\n#if B\nif (c) {\n#else\n{\n#endif\n}\n}\n";
        check(Language::C, text, text);
    }

    #[test]
    fn other_languages_are_kept() {
        check(Language::Python, "def a():\n    return {1}\n", "def a():\n    return {1}\n");
    }

    /// The lines of all definitions, by a tree of what is parsed.
    fn lines(language: Language, outline: &Outline<'_>) -> Vec<LineRange> {
        let tree = parse(language, outline.text()).unwrap();
        let mut lines = vec![];
        each(language, &tree, |node| {
            lines.push(outline.lines_of(node));
            ControlFlow::Continue(())
        });
        lines
    }

    #[test]
    fn the_definitions_of_real_sources_are_those_of_the_whole_texts() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let (mut todo, mut whole, mut parsed) = (vec![crates.to_owned()], 0, 0);
        while let Some(path) = todo.pop() {
            if path.is_dir() {
                todo.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
            } else if let Some(language @ Language::Rust) = path.to_str().and_then(Language::from_path) {
                let text = fs::read_to_string(&path).unwrap();
                let outline = Outline::new(language, &text);
                let everything = Outline { text: Cow::Borrowed(&text), cuts: vec![] };
                assert_eq!(lines(language, &outline), lines(language, &everything), "{}", path.display());
                whole += text.len();
                parsed += outline.text().len();
            }
        }
        assert!(parsed < whole / 2, "{parsed} of {whole} bytes are parsed");
    }
}
