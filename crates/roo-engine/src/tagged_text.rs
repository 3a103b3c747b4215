//! Text of others within tags of ours, which it can neither end nor begin.

use std::borrow::Cow;

/// The tags around what is added to messages. No text within may open or close one.
const TAGS: &[&str] = &[
    "file_content",
    "directory_listing",
    "workspace_diagnostics",
    "git_working_state",
    "git_commit",
    "mcp_prompt",
    "mcp_resource",
    "symbol_definitions",
];

/// A text in which neither our tags nor `own` begin or end.
pub(crate) fn without_tags<'a>(own: &str, text: &'a str) -> Cow<'a, str> {
    let is_tag = |behind: &str| {
        let name = behind.trim_start();
        let name = name.strip_prefix('/').unwrap_or(name).trim_start();
        let length = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(name.len());
        let name = name.get(..length).unwrap_or_default();
        TAGS.iter().chain([&own]).any(|tag| name.eq_ignore_ascii_case(tag))
    };
    let mut safe = String::new();
    let mut copied = 0;
    for (at, _) in text.match_indices('<') {
        let behind = text.get(at + 1..).unwrap_or_default();
        if is_tag(behind) {
            safe.push_str(text.get(copied..at).unwrap_or_default());
            safe.push_str("&lt;");
            copied = at + 1;
        }
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    safe.push_str(text.get(copied..).unwrap_or_default());
    Cow::Owned(safe)
}
