//! Comments that are meant for an agent: those with `AI!` want something done, those with `AI?` an answer.
//! Known by their marks alone, whatever the language. Pure.

use std::ops::Range;

/// Openings of comments in all languages; the longest first.
const BEGINS: &[&str] = &["<!--", "///", "//!", "/**", "/*", "//", "--", "{-", "(*", "#", ";", "%", "*"];
const ENDS: &[&str] = &["-->", "*/", "-}", "*)"];
/// The most lines of one comment that are looked at, before and behind.
const MAX_COMMENT_LINES: usize = 40;

/// Purpose of a comment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// `AI!`
    Do,
    /// `AI?`
    Answer,
}

/// A comment for an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Comment {
    pub(super) wish: Wish,
    /// Text, without comment markers.
    pub(super) text: String,
    /// Its lines, from 0.
    pub(super) lines: Range<u32>,
}

/// The comments for an agent that touch some lines of a text, counted from 0.
pub(super) fn find(text: &str, lines: Range<u32>) -> Vec<Comment> {
    let all: Vec<&str> = text.lines().collect();
    let first = usize::try_from(lines.start).unwrap_or(usize::MAX).min(all.len());
    let last = usize::try_from(lines.end).unwrap_or(usize::MAX).min(all.len()).max(first);
    let mut found = Vec::new();
    let mut line = first;
    while line < last {
        let Some(part) = all.get(line).copied().and_then(comment_of) else {
            line += 1;
            continue;
        };
        // A comment behind code stands alone; lines that are comments belong together.
        let mut whole = line..line + 1;
        if part.alone {
            let is_part =
                |line: &usize| all.get(*line).copied().and_then(comment_of).is_some_and(|part| part.alone);
            whole.start = (line.saturating_sub(MAX_COMMENT_LINES)..line)
                .rev()
                .take_while(is_part)
                .last()
                .unwrap_or(line);
            whole.end = (line + 1..line + MAX_COMMENT_LINES)
                .take_while(is_part)
                .last()
                .map_or(line + 1, |end| end + 1);
        }
        let parts = all.get(whole.clone()).unwrap_or_default().iter().filter_map(|line| comment_of(line));
        let said: Vec<&str> = parts.map(|part| part.text).filter(|text| !text.is_empty()).collect();
        line = whole.end;
        if let Some((wish, text)) = wish_of(&said.join("\n")) {
            let number = |line: usize| u32::try_from(line).unwrap_or(u32::MAX);
            found.push(Comment { wish, text, lines: number(whole.start)..number(whole.end) });
        }
    }
    found
}

struct CommentPart<'a> {
    text: &'a str,
    /// True if nothing stands before it on its line.
    alone: bool,
}

fn comment_of(line: &str) -> Option<CommentPart<'_>> {
    let trimmed = line.trim_start();
    if ENDS.contains(&trimmed.trim_end()) {
        return Some(CommentPart { text: "", alone: true });
    }
    let begin = BEGINS.iter().find(|begin| trimmed.starts_with(**begin));
    let (behind, alone) = match begin {
        Some(begin) => (trimmed.strip_prefix(begin)?, true),
        None => {
            // Behind code, white space shows that it is a comment and not an operator.
            let marks = BEGINS.iter().filter(|begin| **begin != "*");
            let at = marks.filter_map(|begin| {
                let found = line.match_indices(begin).find(|(at, _)| line[..*at].ends_with([' ', '\t']));
                found.map(|(at, begin)| (at, at + begin.len()))
            });
            let (_, end) = at.min_by_key(|(at, end)| (*at, std::cmp::Reverse(*end)))?;
            (line.get(end..)?, false)
        }
    };
    let mut text = behind.trim();
    for end in ENDS {
        text = text.strip_suffix(end).unwrap_or(text).trim_end();
    }
    Some(CommentPart { text, alone })
}

/// Parses the purpose and the text of a comment; none for one that is meant for people.
fn wish_of(text: &str) -> Option<(Wish, String)> {
    let marks = [("AI!", Wish::Do), ("AI?", Wish::Answer)];
    let (at, mark, wish) = marks.iter().find_map(|(mark, wish)| {
        let is_word = |at: usize| {
            let before = text[..at].chars().next_back();
            let behind = text[at + mark.len()..].chars().next();
            !before.is_some_and(char::is_alphanumeric) && !behind.is_some_and(char::is_alphanumeric)
        };
        let at = text.match_indices(mark).map(|(at, _)| at).find(|at| is_word(*at))?;
        Some((at, *mark, *wish))
    })?;
    let (before, behind) = (text[..at].trim_end(), &text[at + mark.len()..]);
    let behind = behind.trim_start_matches(':').trim();
    let said = [before, behind].iter().filter(|part| !part.is_empty()).copied().collect::<Vec<_>>().join(" ");
    let said = said.trim().to_owned();
    (!said.is_empty()).then_some((wish, said))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn one(text: &str) -> Comment {
        let mut found = find(text, 0..100);
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0)
    }

    #[test]
    fn a_mark_says_what_is_wanted() {
        for (text, wish, said) in [
            ("// add a test AI!", Wish::Do, "add a test"),
            ("# AI! add a test", Wish::Do, "add a test"),
            ("-- AI?: why is this slow?", Wish::Answer, "why is this slow?"),
            ("/* why? AI? */", Wish::Answer, "why?"),
            ("<!-- shorter AI! -->", Wish::Do, "shorter"),
            ("let x = 1; // name it AI!", Wish::Do, "name it"),
        ] {
            let comment = one(text);
            assert_eq!((comment.wish, comment.text.as_str()), (wish, said), "{text}");
        }
    }

    #[test]
    fn lines_of_one_comment_belong_together() {
        let text = "fn a() {}\n// Make it\n// faster. AI!\nfn b() {}\n/*\n * Rename\n * it. AI!\n */\n";
        let found = find(text, 2..7);
        let told: Vec<_> =
            found.iter().map(|comment| (comment.text.as_str(), comment.lines.clone())).collect();
        assert_eq!(told, [("Make it\nfaster.", 1..3), ("Rename\nit.", 4..8)]);
        assert_eq!(find(text, 0..1), []);
    }

    #[test]
    fn what_is_no_comment_for_an_agent_is_left_alone() {
        for text in ["// plain", "let a = \"AI!\";", "// MAIL AI!x", "# AI!", "a//AI! b", "HAI! // x"] {
            assert_eq!(find(text, 0..10), [], "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "[#/* AI!?a\n-]{0,60}", first in 0u32..9, count in 0u32..9) {
            for comment in find(&text, first..first + count) {
                prop_assert!(!comment.text.trim().is_empty());
                prop_assert!(comment.lines.start < comment.lines.end);
            }
        }
    }
}
