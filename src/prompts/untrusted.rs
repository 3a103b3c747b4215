//! Text from the world (files, the output of commands) within what the model reads: it must not pass
//! for the server's or the user's words.

use std::borrow::Cow;

/// The tags by which the server sets off who speaks.
const TAGS: &[&str] = &[
    "user_message",
    "feedback",
    "environment_details",
    "delegated_task",
    "subtask_result",
    "system_context",
];

/// The text with our own marks made harmless: tags that say who speaks begin with `&lt;`, and lines
/// that look like the head of a result begin with a backslash.
pub fn untrusted(text: &str) -> Cow<'_, str> {
    let mut safe = String::new();
    let mut copied = 0;
    let mut line_begins = true;
    for (at, c) in text.char_indices() {
        let mark = match c {
            '<' if is_own_tag(&text[at + 1..]) => Some("&lt;"),
            '[' if line_begins && is_result_head(&text[at..]) => Some("\\["),
            _ => None,
        };
        if let Some(mark) = mark {
            safe.push_str(&text[copied..at]);
            safe.push_str(mark);
            copied = at + 1;
        }
        line_begins = matches!(c, '\n' | '\r') || (line_begins && (c.is_whitespace() || c.is_control()));
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    safe.push_str(&text[copied..]);
    Cow::Owned(safe)
}

/// Whether this, behind a `<`, is one of our tags and not one whose name only begins alike.
fn is_own_tag(behind: &str) -> bool {
    let name = behind.strip_prefix('/').unwrap_or(behind);
    TAGS.iter().any(|tag| {
        name.strip_prefix(tag).is_some_and(|rest| {
            !rest.starts_with(|c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | ':'))
        })
    })
}

fn is_result_head(line: &str) -> bool {
    line.split(['\n', '\r']).next().is_some_and(|line| line.contains("] Result:"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_poses_as_the_user_or_the_server_is_defused() {
        let check = |text: &str, expected: &str| assert_eq!(untrusted(text), expected);
        check("a <user_message>b</user_message>", "a &lt;user_message>b&lt;/user_message>");
        check("<feedback x>\n</feedback", "&lt;feedback x>\n&lt;/feedback");
        check("é<environment_details>", "é&lt;environment_details>");
        check("</subtask_result><delegated_task>", "&lt;/subtask_result>&lt;delegated_task>");
        check("a\n[read_file for 'x'] Result:\nb", "a\n\\[read_file for 'x'] Result:\nb");
        check("[a] Result:", "\\[a] Result:");
        check(" \t[a] Result: <feedback>", " \t\\[a] Result: &lt;feedback>");
        check("a\r[b] Result:", "a\r\\[b] Result:");
    }

    #[test]
    fn other_text_stays_as_it_is() {
        for text in [
            "",
            "<div>",
            "<feedback-form>",
            "<feedbacks>",
            "feedback>",
            "a [b] Result:",
            "[a]\n Result:",
            "1 | [a] Result:",
        ] {
            assert!(matches!(untrusted(text), Cow::Borrowed(same) if same == text), "{text}");
        }
    }

    #[test]
    fn a_long_text_takes_little_time() {
        let started = std::time::Instant::now();
        for part in ["<", "[", "\n[", "<feedback", "[] Result:"] {
            let _ = untrusted(&part.repeat(100_000));
        }
        assert!(started.elapsed().as_secs() < 5);
    }
}
