//! Markdown of models in which nothing is loaded or hidden: images become the text by which they were written, with their
//! address, and HTML becomes text. Code stays as it is where every reader of Markdown takes it for code; elsewhere a
//! backslash too many does no harm. Pure.

/// Characters before which a fence may stand within a list or a quotation.
const MARKERS: &[char] = &[' ', '\t', '>', '*', '+', '-', '.', ')', ':'];
/// The most characters in which this program shows one that can't be seen: `<U+10FFFF>`.
const CODE_POINT: usize = 10;

/// Makes a whole text inert.
pub(crate) fn inert(text: &str) -> String {
    let mut stream = InertMarkdown::default();
    let mut shown = stream.push(text);
    shown.push_str(&stream.finish());
    shown
}

/// The same for a text on one line that is put beside others: no code span begins in it and ends elsewhere.
pub(super) fn inert_line(line: &str) -> String {
    let mut stream =
        InertMarkdown { line: line.to_owned(), kind: Some(LineKind::Text), ..Default::default() };
    let shown = stream.finish();
    if !stream.has_open_span {
        return shown;
    }
    let mut shown = String::with_capacity(line.len() + 8);
    for (at, c) in line.char_indices() {
        let is_mark = matches!(c, '`' | '$') || begins_html(line, at);
        if (is_mark && !is_escaped(line, at)) || begins_image(line, at) {
            shown.push('\\');
        }
        shown.push(c);
    }
    shown
}

/// A text without images that some readers take for Markdown, and others for plain text.
pub(crate) fn without_images(text: &str) -> String {
    text.replace("![", "!\\[")
}

/// A text that comes piece by piece. What is returned of it is inert, whatever follows.
#[derive(Debug, Default)]
pub(crate) struct InertMarkdown {
    block: Block,
    /// The line that has not ended, as it came.
    line: String,
    /// None as long as its beginning doesn't tell.
    kind: Option<LineKind>,
    /// Number of its bytes that were taken care of.
    done: usize,
    /// True if a code span may have begun in this paragraph that has not ended: until its end, nothing in it is certainly code.
    has_open_span: bool,
    /// True after a carriage return, which ends a line by itself.
    is_returned: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineKind {
    Code,
    Text,
}

/// What the lines before say of the next one.
#[derive(Clone, Copy, Debug, Default)]
enum Block {
    #[default]
    Text,
    /// Code between fences.
    Code(Fence),
    /// Perhaps code between fences within a list or quotation. The item of a list that certainly holds it, if one does.
    Nested(Option<Fence>),
    /// Readers differ about it.
    Unknown,
}

/// The beginning of a fence.
#[derive(Clone, Copy, Debug)]
struct Fence {
    /// Columns before it.
    indent: usize,
    mark: char,
    length: usize,
}

/// How a line begins.
struct LineStart {
    /// Columns of white space.
    indent: usize,
    is_blank: bool,
    /// True if it begins with what may be the mark of a list or quotation.
    is_marked: bool,
    fence: Option<Fence>,
    /// True if nothing but white space stands before the fence.
    is_plain: bool,
    /// True if the mark of one item of a list stands before the fence.
    is_item: bool,
    /// True if nothing stands behind the fence.
    is_bare: bool,
    /// True if it may begin a footnote, which readers end in different places.
    is_footnote: bool,
}

impl LineStart {
    /// Reads it; none as long as more of the line has to come.
    fn read(line: &str, is_whole: bool) -> Option<Self> {
        let is_marker = |c: char| MARKERS.contains(&c) || c.is_ascii_digit();
        let rest = line.trim_start_matches(is_marker);
        let before = line.get(..line.len() - rest.len()).unwrap_or_default();
        if matches!(rest, "" | "[") && !is_whole {
            return None;
        }
        let white = before.trim_start_matches([' ', '\t']);
        let spaces = before.get(..before.len() - white.len()).unwrap_or_default();
        let column = |column: usize, c: char| if c == '\t' { column / 4 * 4 + 4 } else { column + 1 };
        let indent = spaces.chars().fold(0, column);
        let mark = rest.chars().next().filter(|mark| matches!(mark, '`' | '~'));
        let length = mark.map_or(0, |mark| rest.chars().take_while(|c| *c == mark).count());
        let behind = rest.get(length..).unwrap_or_default();
        if mark.is_some() && !is_whole && (length >= 3 || behind.is_empty()) {
            return None;
        }
        let is_fence = length >= 3 && !(mark == Some('`') && behind.contains('`'));
        let fence = mark.filter(|_| is_fence).map(|mark| Fence { indent, mark, length });
        let item = before.strip_prefix(['-', '+', '*']);
        Some(Self {
            indent,
            is_blank: rest.is_empty() && white.is_empty(),
            is_marked: !before.is_empty(),
            fence,
            is_plain: white.is_empty(),
            is_item: item.is_some_and(|spaces| matches!(spaces, " " | "  " | "   ")),
            is_bare: behind.trim_matches([' ', '\t']).is_empty(),
            is_footnote: rest.starts_with("[^"),
        })
    }

    /// Returns whether it ends code that this fence began.
    fn ends(&self, begin: Fence) -> bool {
        let is_same = |fence: Fence| fence.mark == begin.mark && fence.length >= begin.length;
        self.is_plain && self.is_bare && self.fence.is_some_and(is_same)
    }
}

impl Block {
    /// The kind of a line, and what it says of the next one.
    fn next(self, start: &LineStart, width: usize) -> (LineKind, Self) {
        let nested = |fence: Fence| {
            let fence = Fence { indent: width, ..fence };
            Self::Nested(Some(fence).filter(|_| start.is_item))
        };
        match self {
            Self::Unknown => (LineKind::Text, self),
            Self::Text | Self::Nested(_) if start.is_footnote => (LineKind::Text, Self::Unknown),
            Self::Text => match start.fence {
                Some(fence) if start.is_plain && fence.indent <= 3 => (LineKind::Code, Self::Code(fence)),
                Some(fence) => (LineKind::Text, nested(fence)),
                None => (LineKind::Text, self),
            },
            Self::Code(_) if start.is_blank => (LineKind::Code, self),
            Self::Code(begin) => match (start.indent, start.ends(begin)) {
                // Within an item of a list, the item ends here, and the code with it.
                (indent, _) if indent < begin.indent => (LineKind::Text, Self::Unknown),
                (..=3, true) => (LineKind::Code, Self::Text),
                // Within an item of a list it may end here.
                (_, true) if begin.indent > 0 => (LineKind::Text, Self::Unknown),
                _ => (LineKind::Code, self),
            },
            Self::Nested(_) if start.is_blank => (LineKind::Text, self),
            // Whatever there was has ended.
            Self::Nested(_) if !start.is_marked => Self::Text.next(start, width),
            Self::Nested(item) => match (start.fence, item) {
                (Some(_), Some(begin)) if start.ends(begin) && start.indent == begin.indent => {
                    (LineKind::Text, Self::Text)
                }
                (Some(fence), _) if start.is_plain && fence.indent <= 3 => (LineKind::Text, Self::Unknown),
                _ => (LineKind::Text, Self::Nested(item.filter(|begin| start.indent >= begin.indent))),
            },
        }
    }
}

impl InertMarkdown {
    /// Takes in a piece, and returns what is certain now.
    pub(crate) fn push(&mut self, text: &str) -> String {
        let mut shown = String::with_capacity(text.len() + 8);
        for c in text.chars() {
            let is_second = std::mem::replace(&mut self.is_returned, c == '\r') && c == '\n';
            match c {
                '\n' if is_second => {}
                '\n' | '\r' => {
                    self.advance(&mut shown, true);
                    shown.push('\n');
                    (self.kind, self.done) = (None, 0);
                    self.line.clear();
                }
                c => self.line.push(c),
            }
        }
        self.advance(&mut shown, false);
        shown
    }

    /// Returns the rest, as nothing follows.
    pub(crate) fn finish(&mut self) -> String {
        let mut shown = String::new();
        self.advance(&mut shown, true);
        shown
    }

    fn advance(&mut self, shown: &mut String, is_whole: bool) {
        if self.kind.is_none() {
            let Some(start) = LineStart::read(&self.line, is_whole) else { return };
            let width = self.line.find(['`', '~']).unwrap_or_default();
            let (kind, block) = self.block.next(&start, width);
            if start.is_blank || kind == LineKind::Code {
                self.has_open_span = false;
            }
            (self.kind, self.block) = (Some(kind), block);
        }
        if self.kind == Some(LineKind::Code) {
            shown.push_str(self.line.get(self.done..).unwrap_or_default());
            self.done = self.line.len();
            return;
        }
        while let Some(step) = self.step(is_whole) {
            if step.is_shielded {
                shown.push('\\');
            }
            self.has_open_span |= step.opens_span;
            let end = self.done + step.length;
            shown.push_str(self.line.get(self.done..end).unwrap_or_default());
            self.done = end;
        }
    }

    /// The next piece of a line of text; none at its end, and where it has to be known what follows.
    fn step(&self, is_whole: bool) -> Option<Step> {
        let (line, at) = (self.line.as_str(), self.done);
        let rest = line.get(at..)?;
        let c = rest.chars().next()?;
        let plain = Step { length: c.len_utf8(), ..Step::default() };
        let before = line.get(..at).unwrap_or_default();
        match c {
            '`' if is_escaped(line, at) => Some(plain),
            '`' => self.step_of_backticks(is_whole),
            '<' if rest.len() < CODE_POINT && !is_whole && (rest.len() < 2 || rest.starts_with("<U+")) => {
                None
            }
            '<' => Some(Step { is_shielded: begins_html(line, at) && !is_escaped(line, at), ..plain }),
            // Some readers take what is between two of them for a formula, with the backticks in it.
            '$' => Some(Step { opens_span: !is_escaped(line, at), ..plain }),
            '[' if begins_image(line, at) => Some(Step { is_shielded: true, ..plain }),
            // What follows may hold a backtick that begins no code.
            '[' | '(' if before.ends_with(']') && !self.has_open_span => {
                let (end, others) = if c == '[' { (']', "`\\") } else { (')', "`\"'<\\( \t") };
                let found = rest.get(1..)?.find(|c| c == end || others.contains(c));
                if found.is_none() && !is_whole {
                    return None;
                }
                let ends = found
                    .is_some_and(|found| rest.get(found + 1..).is_some_and(|rest| rest.starts_with(end)));
                Some(Step { opens_span: !ends, ..plain })
            }
            _ => Some(plain),
        }
    }

    fn step_of_backticks(&self, is_whole: bool) -> Option<Step> {
        let rest = self.line.get(self.done..)?;
        let length = run(rest);
        if length == rest.len() && !is_whole {
            return None;
        }
        let open = Some(Step { length, opens_span: true, ..Step::default() });
        let word =
            self.line.get(..self.done).unwrap_or_default().rsplit([' ', '\t']).next().unwrap_or_default();
        let word = word.to_ascii_lowercase();
        // Many readers take an address for a link, with the backticks in it.
        let is_address = ["://", "www.", "@", "mailto:", "xmpp:"].iter().any(|part| word.contains(part));
        if self.has_open_span || is_address {
            return open;
        }
        let mut from = length;
        loop {
            let Some(found) = rest.get(from..).and_then(|behind| behind.find('`')) else {
                return if is_whole { open } else { None };
            };
            let (start, other) = (from + found, run(rest.get(from + found..).unwrap_or_default()));
            from = start + other;
            if from == rest.len() && !is_whole {
                return None;
            }
            if other == length {
                // The cells of a table are apart, whatever stands in them.
                let has_cells = rest.get(length..start).is_some_and(|code| code.contains('|'));
                return if has_cells { open } else { Some(Step { length: from, ..Step::default() }) };
            }
        }
    }
}

/// A piece of a line.
#[derive(Default)]
struct Step {
    /// In bytes.
    length: usize,
    /// True if a backslash comes before it.
    is_shielded: bool,
    opens_span: bool,
}

/// Number of backticks with which a text begins.
fn run(text: &str) -> usize {
    text.bytes().take_while(|byte| *byte == b'`').count()
}

/// Returns whether a backslash takes its meaning from the character at a place.
fn is_escaped(line: &str, at: usize) -> bool {
    let before = line.as_bytes().get(..at).unwrap_or_default();
    before.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1
}

fn begins_image(line: &str, at: usize) -> bool {
    line.get(at..).is_some_and(|rest| rest.starts_with('['))
        && line.get(..at).is_some_and(|before| before.ends_with('!'))
}

fn begins_html(line: &str, at: usize) -> bool {
    let Some(rest) = line.get(at..).and_then(|rest| rest.strip_prefix('<')) else { return false };
    let is_code_point = rest
        .strip_prefix("U+")
        .and_then(|rest| rest.split_once('>'))
        .is_some_and(|(digits, _)| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let is_begin = |c: char| c.is_ascii_alphabetic() || matches!(c, '/' | '!' | '?');
    rest.starts_with(is_begin) && !is_code_point
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use pulldown_cmark::{Event, Options, Parser, Tag};

    use super::*;

    /// What a reader of Markdown would load or hide.
    fn loaded(text: &str, options: Options) -> Option<String> {
        Parser::new_ext(text, options).find_map(|event| match event {
            Event::Start(Tag::Image { dest_url, .. }) => Some(dest_url.to_string()),
            Event::Html(html) | Event::InlineHtml(html) => Some(html.to_string()),
            _ => None,
        })
    }

    #[test]
    fn images_and_html_become_text() {
        for (text, expected) in [
            ("![x](https://evil.example/p.png?d=1)", r"!\[x](https://evil.example/p.png?d=1)"),
            ("See ![x][r].\n\n[r]: https://evil.example/p", "See !\\[x][r].\n\n[r]: https://evil.example/p"),
            (r"\![x](u)", r"\!\[x](u)"),
            ("<img src=u> and </b> <!-- x --> <?x?>", r"\<img src=u> and \</b> \<!-- x --> \<?x?>"),
            (r"\<img> \\<img>", r"\<img> \\\<img>"),
            ("a < b, <3 and <U+200B>", "a < b, <3 and <U+200B>"),
            ("- ```\n  <b>\n  ```\n![x](u)", "- ```\n  \\<b>\n  ```\n!\\[x](u)"),
            ("<!--\n```\n-->\n![x](u)\n", "\\<!--\n```\n-->\n![x](u)\n"),
        ] {
            assert_eq!(inert(text), expected);
            assert_eq!(loaded(&inert(text), Options::all()), None, "{text}");
        }
    }

    #[test]
    fn code_stays_as_it_is() {
        for text in [
            "Use `Vec<String>` and `#![allow(x)]`, see [the docs](https://example.com/a). Then `<b>`.",
            "```rust\n#![allow(x)]\nlet a: Vec<String>;\n```\nDone.",
            "~~~\n<b>\n```\n<i>\n~~~\n",
            "1. Run this:\n\n   ```html\n   <b>\n\n     <i>\n   ```\n2. `<b>`",
            "``a ` <b>``",
        ] {
            assert_eq!(inert(text), text);
        }
    }

    #[test]
    fn a_line_begins_no_code_that_ends_elsewhere() {
        assert_eq!(inert_line("`<b>` and ![x](u)"), r"`<b>` and !\[x](u)");
        assert_eq!(inert_line("a ` <b> ![x](u)"), r"a \` \<b> !\[x](u)");
    }

    fn pieces() -> impl Strategy<Value = String> {
        let piece = prop::sample::select(vec![
            "`",
            "``",
            "```",
            "~~~",
            "![x](u)",
            "![x][r]",
            "<b>",
            "<!-- ",
            "-->",
            "<pre>",
            "\n",
            "\n\n",
            "- ",
            "* ",
            "> ",
            "1. ",
            "14. ",
            " ",
            "  ",
            "    ",
            "a",
            "|",
            "\n|-|-|\n",
            "\\",
            "[a](",
            "[a][",
            "[r]: u",
            ")",
            "]",
            "\t",
            "\r",
            "\"",
            "https://x.y/",
            "# ",
            "[^1]: ",
            "!",
            "[",
            "(u)",
            "$",
        ]);
        prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2048))]

        #[test]
        fn no_text_loads_or_hides_anything(text in pieces()) {
            let shown = inert(&text);
            for options in [Options::empty(), Options::ENABLE_TABLES, Options::all()] {
                prop_assert_eq!(loaded(&shown, options), None, "{:?}", shown);
            }
        }

        #[test]
        fn lines_beside_each_other_load_nothing(one in pieces(), other in pieces()) {
            let line = |text: &str| inert_line(&text.replace(['\n', '\r'], " "));
            let both = format!("**{}** — said {}", line(&one), line(&other));
            prop_assert_eq!(loaded(&both, Options::all()), None, "{:?}", both);
        }

        #[test]
        fn piece_by_piece_it_is_the_same(text in pieces()) {
            let mut stream = InertMarkdown::default();
            let mut shown: String = text.chars().map(|c| stream.push(c.encode_utf8(&mut [0; 4]))).collect();
            shown.push_str(&stream.finish());
            prop_assert_eq!(shown, inert(&text));
        }
    }
}
