//! Headings of a Markdown text, each with the section below it.

use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag};
use roo_text::lines::{self, LineRange};

/// The sections of a text in order.
pub(super) fn sections(text: &str) -> Vec<LineRange> {
    let events = Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter();
    let headings: Vec<(HeadingLevel, usize)> = events
        .filter_map(|(event, range)| match event {
            Event::Start(Tag::Heading { level, .. }) => Some((level, range.start)),
            _ => None,
        })
        .collect();
    let mut line_of = LineOf { text, at: 0, line: 1 };
    let headings: Vec<_> = headings.into_iter().map(|(level, at)| (level, line_of.line(at))).collect();
    let last = lines::count(text);
    let section = |(number, (level, start)): (usize, &(HeadingLevel, usize))| {
        let next = headings.iter().skip(number + 1).find(|(other, _)| other <= level);
        LineRange { start: *start, end: next.map_or(last, |(_, line)| line - 1) }
    };
    headings.iter().enumerate().map(section).collect()
}

/// Numbers of the lines of places that only go forward.
struct LineOf<'t> {
    text: &'t str,
    at: usize,
    line: usize,
}

impl LineOf<'_> {
    fn line(&mut self, at: usize) -> usize {
        let passed = self.text.as_bytes().get(self.at..at).unwrap_or_default();
        self.line += passed.iter().filter(|&&byte| byte == b'\n').count();
        self.at = at;
        self.line
    }
}
