//! Files cut into chunks: definitions as far as they are short, else their members, and windows of lines for the rest.

use std::ops::RangeInclusive;

use roo_syntax::definitions;
use roo_text::lines::LineRange;

/// The most lines of a chunk.
const LINES: usize = 60;

/// The most text of a chunk in bytes, but for one that is a single line.
const BYTES: usize = 2400;

/// The most lines of a chunk that is put together with the next one.
const FEW_LINES: usize = 6;

/// A part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chunk<'a> {
    pub(crate) lines: LineRange,
    /// Their text.
    pub(crate) text: &'a str,
    /// The first lines of the definitions that it holds, or that hold it.
    pub(crate) names: Vec<&'a str>,
}

/// Cuts a file into chunks in the order of its text. They don't overlap, and have every line that isn't blank.
pub(crate) fn chunks<'a>(path: &str, text: &'a str) -> Vec<Chunk<'a>> {
    let lines = Lines::new(text);
    // Without a grammar there are windows of lines.
    let definitions = definitions(path, text).unwrap_or_default();
    let mut cut = Cut { lines: &lines, pieces: Vec::new() };
    cut.piece(1..=lines.count(), &definitions);
    let pieces = lines.together(cut.pieces);
    let chunk = |lines_of: RangeInclusive<usize>| {
        let (start, end) = (*lines_of.start(), *lines_of.end());
        let concerns = |definition: &&LineRange| {
            lines_of.contains(&definition.start) || definition.start < start && start <= definition.end
        };
        let names = definitions.iter().filter(concerns).map(|definition| lines.line(definition.start).trim());
        Chunk { lines: LineRange { start, end }, text: lines.text(&lines_of), names: names.collect() }
    };
    pieces.into_iter().map(chunk).collect()
}

/// A text by its lines, from 1.
struct Lines<'a> {
    text: &'a str,
    /// Where each begins, and the end of the text.
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    fn new(text: &'a str) -> Self {
        let mut starts = vec![0];
        starts.extend(memchr::memchr_iter(b'\n', text.as_bytes()).map(|at| at + 1));
        if starts.last() != Some(&text.len()) {
            starts.push(text.len());
        }
        Self { text, starts }
    }

    fn count(&self) -> usize {
        self.starts.len() - 1
    }

    fn text(&self, lines: &RangeInclusive<usize>) -> &'a str {
        if lines.is_empty() {
            return "";
        }
        &self.text[self.starts[lines.start() - 1]..self.starts[*lines.end()]]
    }

    fn line(&self, number: usize) -> &'a str {
        self.text(&(number..=number))
    }

    fn is_blank(&self, number: usize) -> bool {
        self.line(number).trim().is_empty()
    }

    fn fits(&self, lines: &RangeInclusive<usize>) -> bool {
        lines.end() - lines.start() < LINES && self.text(lines).len() <= BYTES
    }

    /// The lines without blank ones at both ends; none where all are.
    fn trimmed(&self, lines: RangeInclusive<usize>) -> Option<RangeInclusive<usize>> {
        let start = lines.clone().find(|&line| !self.is_blank(line))?;
        let end = lines.rev().find(|&line| !self.is_blank(line))?;
        Some(start..=end)
    }

    /// The first line of a definition with the comments and attributes directly above it, not before `first`.
    fn beginning(&self, definition: usize, first: usize) -> usize {
        let belongs = |&line: &usize| {
            let text = self.line(line).trim_start();
            ["//", "/*", "*", "#", "@", "--", "[", "\"\"\""].iter().any(|mark| text.starts_with(mark))
        };
        (first..definition).rev().take_while(belongs).last().unwrap_or(definition)
    }

    /// Puts short pieces together with the next one.
    fn together(&self, pieces: Vec<RangeInclusive<usize>>) -> Vec<RangeInclusive<usize>> {
        let mut merged: Vec<RangeInclusive<usize>> = Vec::new();
        let is_short = |piece: &RangeInclusive<usize>| piece.end() - piece.start() < FEW_LINES;
        for piece in pieces {
            if let Some(last) = merged.last_mut() {
                let both = *last.start()..=*piece.end();
                if (is_short(last) || is_short(&piece)) && self.fits(&both) {
                    *last = both;
                    continue;
                }
            }
            merged.push(piece);
        }
        merged
    }
}

struct Cut<'l, 'a> {
    lines: &'l Lines<'a>,
    pieces: Vec<RangeInclusive<usize>>,
}

impl Cut<'_, '_> {
    /// Cuts lines at the definitions in them, which are in the order of the text, those within another one behind it.
    fn piece(&mut self, lines: RangeInclusive<usize>, definitions: &[LineRange]) {
        let Some(lines) = self.lines.trimmed(lines) else { return };
        if self.lines.fits(&lines) {
            return self.pieces.push(lines);
        }
        let (mut next, mut rest) = (*lines.start(), definitions);
        while let Some((definition, after)) = rest.split_first() {
            let members = after.iter().take_while(|member| member.end <= definition.end).count();
            let (members, after) = after.split_at(members);
            rest = after;
            let end = definition.end.min(*lines.end());
            // Several may be in one line.
            if end < next {
                continue;
            }
            let start = self.lines.beginning(definition.start.max(next), next);
            self.windows(next..=start - 1);
            self.piece(start..=end, members);
            next = end + 1;
        }
        self.windows(next..=*lines.end());
    }

    /// Cuts lines without definitions, where there is a blank one if possible.
    fn windows(&mut self, lines: RangeInclusive<usize>) {
        let mut left = self.lines.trimmed(lines);
        while let Some(lines) = left {
            let (start, end) = (*lines.start(), *lines.end());
            let most =
                (start..=end).take_while(|&last| self.lines.fits(&(start..=last))).last().unwrap_or(start);
            let middle = start + (most - start) / 2;
            let blank = (middle..=most).rev().find(|&line| line > start && self.lines.is_blank(line));
            let last = if most == end { end } else { blank.unwrap_or(most) };
            self.pieces.extend(self.lines.trimmed(start..=last));
            left = self.lines.trimmed(last + 1..=end);
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    fn shown(path: &str, text: &str) -> Vec<String> {
        let chunk = |chunk: Chunk<'_>| {
            format!("{}-{} {}", chunk.lines.start, chunk.lines.end, chunk.names.join(" | "))
        };
        chunks(path, text).into_iter().map(chunk).collect()
    }

    #[test]
    fn a_short_file_is_one_chunk_with_its_names() {
        let text = "use a;\n\nstruct A;\n\nimpl A {\n    fn b() {}\n}\n\n";
        assert_eq!(shown("a.rs", text), ["1-7 struct A; | impl A { | fn b() {}"]);
        assert_eq!(chunks("a.rs", text)[0].text, text.trim_end_matches('\n').to_owned() + "\n");
        assert_eq!(shown("a.rs", "\n \n"), Vec::<String>::new());
        assert_eq!(shown("a.xyz", "one"), ["1-1 "]);
    }

    #[test]
    fn a_long_type_is_cut_at_its_members_which_keep_its_name() {
        let body = "        let a = 1;\n".repeat(40);
        let member = |name: &str| format!("    /// About {name}.\n    fn {name}() {{\n{body}    }}\n");
        let text =
            format!("use a;\n\nimpl Parser {{\n{}\n{}}}\n\nfn end() {{}}\n", member("one"), member("two"));
        assert_eq!(
            shown("a.rs", &text),
            ["1-46 impl Parser { | fn one() {", "48-93 impl Parser { | fn two() { | fn end() {}"]
        );
    }

    #[test]
    fn a_long_function_and_a_file_without_grammar_are_cut_in_windows() {
        let lines = "x = 1\n".repeat(50) + "\n" + &"y = 2\n".repeat(60);
        assert_eq!(shown("a.txt", &lines), ["1-50 ", "52-111 "]);
        let text = format!("def f():\n{}", "    call()\n".repeat(100));
        assert_eq!(shown("a.py", &text), ["1-60 def f():", "61-101 def f():"]);
    }

    proptest! {
        #[test]
        fn every_line_that_is_not_blank_is_in_one_chunk(
            name in prop::sample::select(vec!["a.rs", "a.py", "a.ts", "a.md", "a.txt", "a.json"]),
            lines in prop::collection::vec("(fn |class |def |# |impl |    |\\{|\\}|\\(\\)|:|a|\"\"\"|// ){0,5}", 0..200),
        ) {
            let text = lines.join("\n");
            let chunks = chunks(name, &text);
            let mut next = 1;
            for chunk in &chunks {
                prop_assert!(next <= chunk.lines.start && chunk.lines.start <= chunk.lines.end, "{:?}", chunk.lines);
                prop_assert!(chunk.lines.end - chunk.lines.start < LINES);
                for line in next..chunk.lines.start {
                    prop_assert!(lines[line - 1].trim().is_empty(), "{line}");
                }
                next = chunk.lines.end + 1;
            }
            prop_assert!(lines.iter().skip(next - 1).all(|line| line.trim().is_empty()));
        }
    }
}
