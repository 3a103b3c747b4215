//! The diff document of an approval: a unified diff with one section a hunk, each headed by the hunk's id. Its added lines may be
//! changed there before the hunk is accepted. Pure.

use roo_protocol::review::{Hunk, HunkKind};
use roo_protocol::task::FilePreview;

/// Lines around a hunk.
const CONTEXT: usize = 3;

/// Writes the hunks of an edit. `name` gives the name of a file by its URI.
pub(super) fn render(files: &[FilePreview], name: impl Fn(&str) -> String) -> String {
    let mut text = String::new();
    for file in files {
        let (old, new) = (name(&file.uri), name(file.moved_to.as_deref().unwrap_or(&file.uri)));
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

/// The added lines of a hunk as the document shows them.
pub(super) fn added_lines(hunk: &Hunk) -> String {
    let shown = |line: &str| roo_text::render::visible(line).into_owned() + "\n";
    hunk.new_text.lines().map(shown).collect()
}

/// A hunk of a diff document as it stands there.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ShownHunk {
    /// Its id.
    pub(super) id: String,
    /// Its added lines, as they are now.
    pub(super) lines: String,
}

/// The hunk at a line of a diff document, counted from 0.
pub(super) fn hunk_at(text: &str, line: usize) -> Option<ShownHunk> {
    let lines: Vec<&str> = text.lines().collect();
    let head = (0..=line.min(lines.len().checked_sub(1)?)).rev().find(|at| id_of(lines[*at]).is_some())?;
    let id = id_of(lines[head])?;
    let ends =
        |line: &&str| line.starts_with("@@ ") || line.starts_with("--- a/") || line.starts_with("--- /dev/");
    let section: Vec<&str> = lines[head + 1..].iter().take_while(|line| !ends(line)).copied().collect();
    if line > head + section.len() {
        return None;
    }
    let mut added = String::new();
    for line in section {
        if let Some(line) = line.strip_prefix('+') {
            added.push_str(line);
            added.push('\n');
        }
    }
    Some(ShownHunk { id: id.to_owned(), lines: added })
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
            "--- a/a.py\n+++ b/a.py\n\
             @@ -1,5 +1,5 @@ h1\n 1\n-2\n+two\n 3\n 4\n 5\n\
             @@ -6,1 +6,2 @@ h2\n 6\n+7\n"
        );
    }

    #[test]
    fn the_hunk_at_a_line_has_the_lines_that_stand_there_now() {
        let text = shown().replace("+two\n", "+two\n+and a half\n");
        let found = hunk_at(&text, 5).unwrap();
        assert_eq!((found.id.as_str(), found.lines.as_str()), ("h1", "two\nand a half\n"));
        assert_eq!(hunk_at(&text, 11).unwrap().id, "h2");
        assert_eq!(hunk_at(&text, 0), None);
    }
}
