//! Text of models, tools and users as parts of a Markdown document: nothing in it can pass for a part of the
//! document's own, and nothing in it is loaded from elsewhere. Pure.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod blocks;
mod inert;

use roo_text::render::{one_line, visible};

pub(crate) use self::inert::{InertMarkdown, inert, without_images};

/// The longest line that is put between backticks, in characters.
const CODE: usize = 200;
/// The most lines and characters of a fenced text; what is left out is said.
const FENCED_LINES: usize = 400;
const FENCED_CHARS: usize = 64 * 1024;

/// Prose of a model: headings of its own are no headings of the document, and a fence that it leaves open
/// ends with it.
pub(crate) fn prose(text: &str) -> String {
    let shown = inert(text.trim_end());
    let shown = visible(&shown);
    let mut prose = String::with_capacity(shown.len() + 16);
    let mut open: Option<(char, usize)> = None;
    for line in shown.trim_start_matches('\n').lines() {
        if !prose.is_empty() {
            prose.push('\n');
        }
        let marks = line.trim_start();
        match (open, fence_of(marks)) {
            (None, Some(fence)) => open = Some(fence),
            (Some((mark, length)), Some((other, longer)))
                if mark == other && longer >= length && marks.trim_matches(mark).trim().is_empty() =>
            {
                open = None;
            }
            (None, None) if marks.starts_with('#') => {
                prose.push_str(&line[..line.len() - marks.len()]);
                prose.push('\\');
                prose.push_str(marks);
                continue;
            }
            _ => {}
        }
        prose.push_str(line);
    }
    if let Some((mark, length)) = open {
        prose.push('\n');
        prose.extend(std::iter::repeat_n(mark, length));
    }
    prose
}

/// The mark and the length of a fence that a line begins with.
fn fence_of(line: &str) -> Option<(char, usize)> {
    let mark = line.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
    let length = line.chars().take_while(|c| *c == mark).count();
    (length >= 3).then_some((mark, length))
}

/// Formats somebody else's words as a quotation.
pub(crate) fn quote(text: &str) -> String {
    let shown = inert(text.trim());
    let lines: Vec<String> = visible(&shown)
        .lines()
        .map(|line| if line.is_empty() { ">".to_owned() } else { format!("> {line}") })
        .collect();
    lines.join("\n")
}

/// Text as it is, between fences that it can't close. The end of what is too long is kept.
pub(crate) fn fenced(language: &str, text: &str) -> String {
    let shown = visible(text.trim_end_matches('\n'));
    let lines: Vec<&str> = shown.lines().collect();
    let left_out = lines.len().saturating_sub(FENCED_LINES);
    let mut inner = lines.get(left_out..).unwrap_or_default().join("\n");
    if let Some((start, _)) = inner.char_indices().rev().nth(FENCED_CHARS) {
        inner.drain(..start);
    }
    let note = if left_out == 0 { String::new() } else { format!("*{left_out} lines before these*\n\n") };
    note + &fenced_whole(language, &inner)
}

/// Text as it is and however long, between fences that it can't close.
pub(crate) fn fenced_whole(language: &str, text: &str) -> String {
    let shown = visible(text.trim_end_matches('\n'));
    let longest = shown.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}{language}\n{shown}\n{fence}")
}

/// A name, a path or a command on one line, between backticks.
pub(crate) fn code(text: &str) -> String {
    let line = one_line(text, CODE);
    let longest = line.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    if longest == 0 {
        return format!("`{line}`");
    }
    let ticks = "`".repeat(longest + 1);
    format!("{ticks} {line} {ticks}")
}

/// Prose on one line, which begins neither a heading nor a list.
pub(crate) fn line(text: &str) -> String {
    let line = one_line(text, CODE);
    let begins_block = line.starts_with(['#', '-', '*', '+', '>']) || fence_of(&line).is_some();
    inert::inert_line(&if begins_block { format!("\\{line}") } else { line })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_models_headings_are_none_of_the_document() {
        assert_eq!(prose("# Title\ntext\n  ## Prompt"), "\\# Title\ntext\n  \\## Prompt");
        assert_eq!(prose("```sh\n# a comment\n```\n# b"), "```sh\n# a comment\n```\n\\# b");
    }

    #[test]
    fn nothing_is_loaded_from_elsewhere() {
        let image = "![x](https://evil.example/p.png?d=1)";
        let shown = r"!\[x](https://evil.example/p.png?d=1)";
        assert_eq!(prose(image), shown);
        assert_eq!(quote(image), format!("> {shown}"));
        assert_eq!(line(image), shown);
        assert_eq!(line("`Vec<T>` is <b>"), r"`Vec<T>` is \<b>");
        assert_eq!(line("```a` <b>"), r"\`\`\`a\` \<b>");
    }

    #[test]
    fn an_open_fence_ends_with_its_text() {
        assert_eq!(prose("````\n```\n# x"), "````\n```\n# x\n````");
        assert_eq!(prose("~~~\n```"), "~~~\n```\n~~~");
    }

    #[test]
    fn a_fence_is_longer_than_any_in_it() {
        assert_eq!(fenced("diff", "+a\n+````\n"), "`````diff\n+a\n+````\n`````");
        assert_eq!(code("a `b` c"), "`` a `b` c ``");
    }

    #[test]
    fn the_end_of_a_long_text_is_kept() {
        let text: String = (0..FENCED_LINES + 2).map(|line| format!("{line}\n")).collect();
        let shown = fenced("", &text);
        assert!(shown.starts_with("*2 lines before these*\n\n```\n2\n") && shown.ends_with("401\n```"));
    }

    proptest! {
        #[test]
        fn no_prose_leaves_a_fence_open(text in "[`~# a\n]{0,40}") {
            let after = prose(&format!("{}\n## Prompt", prose(&text)));
            prop_assert!(after.ends_with("\\## Prompt"), "{after:?}");
        }
    }
}
