//! The diff document of an approval: a unified diff with one section a hunk, each headed by the hunk's id. Its added lines may be
//! changed there before the hunk is accepted. Pure.

use roo_protocol::review::{Hunk, HunkKind};
use roo_protocol::task::FilePreview;

/// Begin of the line above each file, as `git diff` writes it.
const FILE_HEAD: &str = "diff --git ";
/// Lines around a hunk.
const CONTEXT: usize = 3;

/// Writes the hunks of an edit. `name` gives the name of a file by its URI.
pub(super) fn render(files: &[FilePreview], name: impl Fn(&str) -> String) -> String {
    let mut text = String::new();
    for file in files {
        let (old, new) = (name(&file.uri), name(file.moved_to.as_deref().unwrap_or(&file.uri)));
        // No line of a hunk begins like this, but a removed line may look like the head below.
        text.push_str(&format!("{FILE_HEAD}a/{old} b/{new}\n"));
        match &file.before {
            None => text.push_str("--- /dev/null\n"),
            Some(_) => text.push_str(&format!("--- a/{old}\n")),
        }
        match file.deleted {
            true => text.push_str("+++ /dev/null\n"),
            false => text.push_str(&format!("+++ b/{new}\n")),
        }
        let before: Vec<&str> = file.before.as_deref().unwrap_or_default().split_inclusive('\n').collect();
        let edits: Vec<&Hunk> = file.hunks.iter().filter(|hunk| hunk.kind == HunkKind::Edit).collect();
        for hunk in file.hunks.iter().filter(|hunk| hunk.kind != HunkKind::Edit) {
            push_hunk(&mut text, hunk, (&[], &[]));
        }
        let mut shown = 0;
        for (index, hunk) in edits.iter().enumerate() {
            let (start, end) = (hunk.old_range.start as usize, hunk.old_range.end as usize);
            let next = edits.get(index + 1).map_or(before.len(), |next| next.old_range.start as usize);
            let first = start.saturating_sub(CONTEXT).max(shown);
            let last = (end + CONTEXT).min(next);
            let lines = |from: usize, to: usize| before.get(from..to).unwrap_or_default();
            push_hunk(&mut text, hunk, (lines(first, start), lines(end, last)));
            shown = last;
        }
    }
    text
}

fn push_hunk(text: &mut String, hunk: &Hunk, (leading, trailing): (&[&str], &[&str])) {
    let context = leading.len() + trailing.len();
    let extent = |start: u32, end: u32| {
        let start = start as usize - leading.len().min(start as usize);
        let length = end as usize - start + trailing.len();
        let first = if length == 0 { start } else { start + 1 };
        debug_assert!(length >= context);
        format!("{first},{length}")
    };
    let old = extent(hunk.old_range.start, hunk.old_range.end);
    let new = extent(hunk.new_range.start, hunk.new_range.end);
    let what = if hunk.kind == HunkKind::Move { " (the file is renamed)" } else { "" };
    text.push_str(&format!("@@ -{old} +{new} @@ {}{what}\n", hunk.hunk_id));
    push_lines(text, ' ', leading.iter().copied());
    push_lines(text, '-', hunk.old_text.split_inclusive('\n'));
    push_lines(text, '+', hunk.new_text.split_inclusive('\n'));
    push_lines(text, ' ', trailing.iter().copied());
}

fn push_lines<'a>(text: &mut String, sign: char, lines: impl Iterator<Item = &'a str>) {
    for line in lines {
        text.push(sign);
        text.push_str(roo_text::render::visible(line.trim_end_matches(['\r', '\n'])).as_ref());
        text.push('\n');
        if !line.ends_with('\n') {
            text.push_str("\\ No newline at end of file\n");
        }
    }
}

/// A hunk of a diff document as it stands there.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ShownHunk<'a> {
    pub(super) id: &'a str,
    /// Its added lines.
    pub(super) added: String,
    /// All others, with their signs.
    pub(super) others: Vec<&'a str>,
}

/// The hunk at a line of a diff document, counted from 0.
pub(super) fn hunk_at(text: &str, line: usize) -> Option<ShownHunk<'_>> {
    let lines: Vec<&str> = text.lines().collect();
    let head = (0..=line.min(lines.len().checked_sub(1)?)).rev().find(|at| id_of(lines[*at]).is_some())?;
    let section = section(&lines[head + 1..]);
    if line > head + section.len() {
        return None;
    }
    Some(ShownHunk::new(id_of(lines[head])?, section))
}

/// All hunks of a diff document.
pub(super) fn hunks(text: &str) -> Vec<ShownHunk<'_>> {
    let lines: Vec<&str> = text.lines().collect();
    let heads = lines.iter().enumerate().filter_map(|(at, line)| Some((at, id_of(line)?)));
    heads.map(|(at, id)| ShownHunk::new(id, section(&lines[at + 1..]))).collect()
}

/// The lines of a hunk at the beginning of these.
fn section<'a, 't>(lines: &'a [&'t str]) -> &'a [&'t str] {
    let ends = |line: &&str| line.starts_with("@@ ") || line.starts_with(FILE_HEAD);
    &lines[..lines.iter().position(ends).unwrap_or(lines.len())]
}

impl<'a> ShownHunk<'a> {
    fn new(id: &'a str, section: &[&'a str]) -> Self {
        let (mut added, mut others, mut is_last_added) = (String::new(), Vec::new(), false);
        for line in section {
            if let Some(line) = line.strip_prefix('+') {
                added.push_str(line);
                added.push('\n');
            } else if is_last_added && line.starts_with('\\') {
                // The last line has no end.
                added.pop();
            } else {
                others.push(*line);
            }
            is_last_added = line.starts_with('+');
        }
        let end = others.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1);
        others.truncate(end);
        Self { id, added, others }
    }
}

fn id_of(line: &str) -> Option<&str> {
    let (_, rest) = line.strip_prefix("@@ -")?.split_once(" @@ ")?;
    rest.split(' ').next().filter(|id| id.starts_with('h'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use roo_protocol::ids::{Digest, HunkId};
    use roo_protocol::review::LineRange;

    fn hunk(id: &str, old: (u32, u32), new: (u32, u32), texts: (&str, &str)) -> Hunk {
        Hunk {
            hunk_id: HunkId::new(id),
            digest: Digest::of(id),
            kind: HunkKind::Edit,
            old_range: LineRange { start: old.0, end: old.1 },
            new_range: LineRange { start: new.0, end: new.1 },
            old_text: texts.0.into(),
            new_text: texts.1.into(),
        }
    }

    fn shown() -> String {
        let file = FilePreview {
            uri: "file:///w/a.py".into(),
            before: Some("1\n2\n3\n4\n5\n6\n".into()),
            after: "1\ntwo\n3\n4\n5\n6\n7\n".into(),
            deleted: false,
            moved_to: None,
            hunks: vec![
                hunk("h1", (1, 2), (1, 2), ("2\n", "two\n")),
                hunk("h2", (6, 6), (6, 7), ("", "7\n")),
            ],
        };
        render(&[file], |_| "a.py".to_owned())
    }

    #[test]
    fn each_hunk_has_a_section_with_its_id() {
        assert_eq!(
            shown(),
            "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n\
             @@ -1,5 +1,5 @@ h1\n 1\n-2\n+two\n 3\n 4\n 5\n\
             @@ -6,1 +6,2 @@ h2\n 6\n+7\n"
        );
    }

    #[test]
    fn the_hunk_at_a_line_has_the_lines_that_stand_there_now() {
        let text = shown().replace("+two\n", "+two\n+and a half\n");
        let found = hunk_at(&text, 6).unwrap();
        assert_eq!((found.id, found.added.as_str()), ("h1", "two\nand a half\n"));
        assert_eq!(found.others, [" 1", "-2", " 3", " 4", " 5"]);
        assert_eq!(hunk_at(&text, 12).unwrap().id, "h2");
        assert_eq!(hunk_at(&text, 0), None);
    }

    #[test]
    fn a_removed_comment_that_looks_like_the_head_of_a_file_ends_no_hunk() {
        let removed = "-- a/b\n-- /dev/null\n";
        let file = |uri: &str, hunk| FilePreview {
            uri: uri.into(),
            before: Some(removed.into()),
            after: "++ b/c\n".into(),
            deleted: false,
            moved_to: None,
            hunks: vec![hunk],
        };
        let files = [
            file("file:///w/a.sql", hunk("h1", (0, 2), (0, 1), (removed, "++ b/c\n"))),
            file("file:///w/b.sql", hunk("h2", (0, 2), (0, 1), (removed, "++ b/c\n"))),
        ];
        let text = render(&files, |uri| uri.rsplit('/').next().unwrap_or_default().to_owned());
        let added: Vec<String> = hunks(&text).into_iter().map(|hunk| hunk.added).collect();
        assert_eq!(added, ["++ b/c\n", "++ b/c\n"]);
    }

    #[test]
    fn a_last_line_without_an_end_can_be_changed_and_given_one() {
        let hunk = hunk("h1", (0, 1), (0, 1), ("1\n", "one"));
        let mut text = String::new();
        push_hunk(&mut text, &hunk, (&[], &[]));
        let added = |text: &str| hunk_at(text, 0).unwrap().added;
        assert_eq!(added(&text), "one");
        assert_eq!(added(&text.replace("+one", "+eins")), "eins");
        assert_eq!(added(&text.replace("\\ No newline at end of file\n", "")), "one\n");
    }
}
