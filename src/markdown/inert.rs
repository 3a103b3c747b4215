//! Markdown of models in which nothing is loaded or hidden: images become the text by which they were written, with their
//! address, and HTML becomes text. Code stays as it is where every reader of Markdown takes it for code. In code that only
//! some readers see, a backslash is shown that isn't part of it. Pure.

use super::blocks::{Blocks, LineKind, run};

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
    let mut stream = InertMarkdown {
        line: line.to_owned(),
        kind: Some(LineKind::Text),
        is_beside_others: true,
        ..Default::default()
    };
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
    blocks: Blocks,
    /// The line that has not ended, as it came.
    line: String,
    /// None as long as its beginning doesn't tell.
    kind: Option<LineKind>,
    /// Number of its bytes that were taken care of.
    done: usize,
    /// True if a code span may have begun in this paragraph that has not ended: until its end, nothing in it is certainly code.
    has_open_span: bool,
    /// True if a formula may have begun in this paragraph, which ends at the next `$`, be it between backticks.
    has_dollar: bool,
    /// True if other text is put on the same line.
    is_beside_others: bool,
    /// True after a carriage return, which ends a line by itself.
    is_returned: bool,
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
                    self.blocks.end_line(&self.line);
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
            let Some(kind) = self.blocks.begin_line(&self.line, is_whole) else { return };
            if kind != LineKind::Text {
                (self.has_open_span, self.has_dollar) = (false, false);
            }
            self.kind = Some(kind);
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
            self.has_dollar |= step.opens_formula;
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
            '<' if is_escaped(line, at) || !begins_html(line, at) => Some(plain),
            '<' => match autolink(rest) {
                Autolink::Begins if !is_whole => None,
                Autolink::Whole => Some(plain),
                Autolink::Begins | Autolink::None => Some(Step { is_shielded: true, ..plain }),
            },
            // Some readers take what is between two of them for a formula, with the backticks in it.
            '$' if is_escaped(line, at) => Some(plain),
            '$' if self.is_beside_others => Some(Step { is_shielded: true, ..plain }),
            '$' => Some(Step { opens_formula: true, ..plain }),
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
        let length = run(rest, '`');
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
            let (start, other) = (from + found, run(rest.get(from + found..).unwrap_or_default(), '`'));
            from = start + other;
            if from == rest.len() && !is_whole {
                return None;
            }
            if other == length {
                let code = rest.get(length..start).unwrap_or_default();
                // The cells of a table are apart, whatever stands in them, and a formula may end here.
                let is_divided = code.contains('|') || (self.has_dollar && code.contains('$'));
                return if is_divided { open } else { Some(Step { length: from, ..Step::default() }) };
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
    opens_formula: bool,
}

/// What a text begins with, as to an address between `<` and `>`.
enum Autolink {
    None,
    /// It may be one when more has come.
    Begins,
    Whole,
}

/// Reads an address that every reader takes for a link that is only followed when the user wants it.
fn autolink(text: &str) -> Autolink {
    for scheme in ["<https://", "<http://"] {
        if let Some(address) = text.strip_prefix(scheme) {
            let is_other = |c: char| c.is_whitespace() || c.is_control() || "<\"'`$|\\![](){}".contains(c);
            return match address.find(|c| c == '>' || is_other(c)) {
                None => Autolink::Begins,
                Some(end) if end > 0 && address[end..].starts_with('>') => Autolink::Whole,
                Some(_) => Autolink::None,
            };
        }
        if scheme.starts_with(text) {
            return Autolink::Begins;
        }
    }
    Autolink::None
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
            "It costs $5, as a `Vec<String>` does; `Vec<u8>` costs $6.",
            "See <https://example.com/a?b=c#d> or <http://x.y>.",
            "- Outer\n  - Inner:\n    ```sh\n    cat <file>\n    ```\n\n    And `a<b>`.\n\n\
             Then:\n\n```rust\nlet v: Vec<String> = vec![];\n```\n\n- a\n\n```html\n<div>hello</div>\n```\n",
            "1. One\n   - Two\n     1. Three:\n\n        ~~~\n        ![x](u)\n        ~~~\n\n   - ```<b>``` \n",
            "* **One**:\n    ```sh\n    cat <file>\n\n    \tcat <file>\n    ```\n* Two\n  ```sh\n  cat <file>\n  ```\n",
            "> - Quoted:\n>   ```sh\n>   cat <file>\n>   ```\n\n```sh\ncat <file>\n```\n",
            "- lazy\nline\n\n  ```sh\n  cat <file>\n  ```\n",
            "[^1]: A note.\n\nText.\n\n```sh\ncat <file>\n```\n",
        ] {
            assert_eq!(inert(text), text);
        }
    }

    #[test]
    fn only_whole_addresses_are_links() {
        for text in
            ["<https://x y>", "<https://x", "<https:/x>", "<https://>", "<javascript://x>", "<https://a`b>"]
        {
            assert_eq!(inert(text), format!("\\{text}"));
        }
    }

    #[test]
    fn where_readers_differ_nothing_is_code() {
        for (text, expected) in [
            // The item may end with the line that is not indented, and the code is then outside of it.
            ("- a|\nb\n  ```\n  <b>\n", "- a|\nb\n  ```\n  \\<b>\n"),
            ("-\n\n  ```\n  <b>\n", "-\n\n  ```\n  \\<b>\n"),
            ("-\ta\n\n\t```\n\t<b>\n", "-\ta\n\n\t```\n\t\\<b>\n"),
            ("[^1]: a\n```\n<b>\n", "[^1]: a\n```\n\\<b>\n"),
            ("[^1]: ```\n\n```\n![x](u)\n", "[^1]: ```\n\n```\n!\\[x](u)\n"),
            ("$a `b$ <b>`", "$a `b$ \\<b>`"),
        ] {
            assert_eq!(inert(text), expected);
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
            ": ",
            "<https://x.y/>",
            "***",
        ]);
        prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
    }

    /// Lines of lists, quotations and code, as they may follow each other.
    fn lines() -> impl Strategy<Value = String> {
        let indent = prop_oneof![4 => "", 6 => " {1,8}", 1 => " {0,2}\t {0,2}"];
        let marker = prop::sample::select(vec![
            "", "", "", "", "- ", "* ", "1. ", "2) ", "14. ", "> ", "-   ", "- - ", "> - ", "-", ">",
            "1.     ", "-\t", "[^1]: ", ": ",
        ]);
        let content = prop::sample::select(vec![
            "", "", "", "```", "```", "```", "```sh", "````", "~~~", "a", "a", "![x](u)", "![x](u)", "<b>",
            "`<b>`", "a | b", "-|-", "# a", "---", "***", "===", "[r]: u", "[^1]", "$a", "    a", "    ```",
            "2. a", "$`", "`$ <b>",
        ]);
        let line = (indent, marker, content)
            .prop_map(|(indent, marker, content)| format!("{indent}{marker}{content}\n"));
        prop::collection::vec(line, 0..14).prop_map(|lines| lines.concat())
    }

    /// Items of lists within each other, which have code, with text before and behind.
    fn nested_code() -> impl Strategy<Value = String> {
        let marker = prop::sample::select(vec!["- ", "* ", "1. ", "12. ", "-   "]);
        let fence = prop::sample::select(vec!["```", "````", "~~~"]);
        let gap = prop::sample::select(vec!["\n", "\n\n"]);
        let item = (prop::collection::vec(marker, 0..4), fence, 0..4_usize, gap);
        let text = |(markers, fence, further, gap): (Vec<&str>, &str, usize, &str)| {
            let mut text = String::new();
            let mut column = 0;
            for marker in markers {
                // Only an item that begins with the number one goes on right after a paragraph.
                text.push_str(if marker == "12. " { "\n" } else { "" });
                text.push_str(&format!("{}{marker}Costs $5, `a<b>`:\n", " ".repeat(column)));
                column += marker.len();
            }
            let (further, indent) = (if column == 0 { 0 } else { further }, " ".repeat(column));
            let start = format!("{indent}{}", " ".repeat(further));
            text.push_str(&format!("{}{start}{fence}sh\n{start}cat <file>\n\n", &gap[1..]));
            text.push_str(&format!("{indent}![x](u)\n{start}{fence}\n{gap}"));
            text
        };
        prop::collection::vec(item.prop_map(text), 1..5).prop_map(|items| items.join("\nBehind it.\n\n"))
    }

    /// Sets of what readers of Markdown know.
    fn readers() -> [Options; 4] {
        let notes = (Options::all() - Options::ENABLE_OLD_FOOTNOTES) | Options::ENABLE_FOOTNOTES;
        [Options::empty(), Options::ENABLE_TABLES, notes, Options::all()].map(|options| {
            options
                - Options::ENABLE_YAML_STYLE_METADATA_BLOCKS
                - Options::ENABLE_PLUSES_DELIMITED_METADATA_BLOCKS
        })
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
        fn no_text_behind_another_loads_or_hides_anything(one in lines(), other in lines()) {
            // Whoever puts one behind another closes code that is open.
            let one = one.replace(['`', '~'], "'");
            let quoted = |text: &str| text.lines().map(|line| format!("> {line}\n")).collect::<String>();
            let both = format!("{}\n\n{}", inert(&one), inert(&other));
            for shown in [inert(&other).as_str(), both.as_str(), &quoted(&both)] {
                for options in readers() {
                    prop_assert_eq!(loaded(shown, options), None, "{:?}", shown);
                }
            }
        }

        #[test]
        fn code_in_lists_stays_as_it_is(text in nested_code()) {
            prop_assert_eq!(inert(&text), text);
        }

        #[test]
        fn lines_beside_each_other_load_nothing(one in pieces(), other in pieces()) {
            let line = |text: &str| inert_line(&text.replace(['\n', '\r'], " "));
            let both = format!("**{}** — said {}", line(&one), line(&other));
            prop_assert_eq!(loaded(&both, Options::all()), None, "{:?}", both);
        }

        #[test]
        fn piece_by_piece_it_is_the_same(text in prop_oneof![pieces(), lines()]) {
            let mut stream = InertMarkdown::default();
            let mut shown: String = text.chars().map(|c| stream.push(c.encode_utf8(&mut [0; 4]))).collect();
            shown.push_str(&stream.finish());
            prop_assert_eq!(shown, inert(&text));
        }
    }
}
