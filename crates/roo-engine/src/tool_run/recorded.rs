//! Changes of files as the log keeps them: the lines before and after, with a few around them by which they are found again.

use std::collections::BTreeSet;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::file_details::FileDetails;
use roo_protocol::review::HunkKind;
use roo_sandbox::exec::redaction::TextMask;
use roo_text::hunks;
use roo_trace::record::{Author, FileChange, Side};
use roo_workspace::TextEncoding;

/// The largest text of which changes are recorded, in bytes.
const MAX_TEXT_BYTES: usize = 256 << 10;
/// The most files of one call whose changes are recorded.
const MAX_FILES: usize = 200;
/// Lines kept on either side of a change.
pub(super) const CONTEXT: usize = 3;

/// A file that a call changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedFile {
    /// The file as tools name it.
    pub path: String,
    /// True for what the user made of a proposal.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_user: bool,
    /// Its changes, in the order of lines.
    pub changes: Vec<RecordedLines>,
    /// The encoding of a file that was deleted; none for plain UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<TextEncoding>,
}

/// One change of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedLines {
    /// What it did.
    pub kind: HunkKind,
    /// First line in the text after, counted from 0.
    pub start: usize,
    /// The lines before.
    pub old_text: String,
    /// The lines after.
    pub new_text: String,
    /// Lines in front of it.
    pub leading: String,
    /// Lines behind it.
    pub trailing: String,
    /// True if a secret ends the lines in front of it, and not the beginning of the file.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub leading_cut: bool,
    /// True if a secret ends the lines behind it, and not the end of the file.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub trailing_cut: bool,
}

/// The changes of a call's files, as far as their texts are known and not too large. Changes of lines with a secret are left
/// out: the log has none.
pub fn recorded(changes: &[FileChange], details: &FileDetails, mask: &TextMask) -> Vec<RecordedFile> {
    let mut files = Vec::new();
    let mut rest = changes.iter().take(MAX_FILES).peekable();
    while let Some(change) = rest.next() {
        let by_user = rest.next_if(|next| {
            next.author == Author::Human && next.path == change.path && next.before == change.after
        });
        match by_user {
            Some(by_user) => files.extend(edited_proposal(change, by_user, mask)),
            None => files.push(RecordedFile {
                path: change.path.clone(),
                by_user: change.author == Author::Human,
                changes: lines_of(change, mask).unwrap_or_default(),
                encoding: details.encoding_of(&change.path).filter(|_| change.after == Side::Absent),
            }),
        }
    }
    files.retain(|file| !file.changes.is_empty());
    files
}

/// A proposal and what its user made of it. What the file never held is in neither part.
fn edited_proposal(proposal: &FileChange, by_user: &FileChange, mask: &TextMask) -> [RecordedFile; 2] {
    let of_user = lines_of(by_user, mask).unwrap_or_default();
    let range =
        |lines: &RecordedLines| lines.start..lines.start + lines.new_text.split_inclusive('\n').count();
    let touches = |lines: &RecordedLines| {
        let own = range(lines);
        of_user.iter().map(range).any(|other| own.start <= other.end && other.start <= own.end)
    };
    let whole = FileChange { after: by_user.after.clone(), ..proposal.clone() };
    let all = lines_of(&whole, mask).unwrap_or_default();
    let (of_user, of_model): (Vec<_>, Vec<_>) = all.into_iter().partition(touches);
    [(false, of_model), (true, of_user)].map(|(by_user, changes)| RecordedFile {
        path: proposal.path.clone(),
        by_user,
        changes,
        encoding: None,
    })
}

/// The changes of a file that has secrets, if none of its changed lines has one.
pub(super) fn lines_without_secrets(change: &FileChange, mask: &TextMask) -> Option<Vec<RecordedLines>> {
    let (Side::Text { text: before, .. }, Side::Text { text: after, .. }) = (&change.before, &change.after)
    else {
        return None;
    };
    let lines = lines_of(change, mask)?;
    (lines.len() == hunks::between(before, after).len()).then_some(lines)
}

fn lines_of(change: &FileChange, mask: &TextMask) -> Option<Vec<RecordedLines>> {
    let text = |side: &Side| match side {
        Side::Absent => Some(None),
        Side::Text { text, .. } if text.len() <= MAX_TEXT_BYTES => Some(Some(text.to_string())),
        Side::Text { .. } | Side::Opaque(_) => None,
    };
    let whole = |kind, old_text: String, new_text: String| {
        if mask.masked(&old_text).or_else(|| mask.masked(&new_text)).is_some() {
            return vec![];
        }
        let (leading, trailing) = (String::new(), String::new());
        let (leading_cut, trailing_cut) = (false, false);
        vec![RecordedLines {
            kind,
            start: 0,
            old_text,
            new_text,
            leading,
            trailing,
            leading_cut,
            trailing_cut,
        }]
    };
    Some(match (text(&change.before)?, text(&change.after)?) {
        (None, None) => vec![],
        (None, Some(after)) => whole(HunkKind::Create, String::new(), after),
        (Some(before), None) => whole(HunkKind::Delete, before, String::new()),
        (Some(before), Some(after)) => {
            let new: Vec<&str> = after.split_inclusive('\n').collect();
            let (old_secrets, new_secrets) = (secret_lines(&before, mask), secret_lines(&after, mask));
            let holds = |secrets: &BTreeSet<usize>, range: &Range<usize>| {
                secrets.range(range.clone()).next().is_some()
            };
            let lines = |range: Range<usize>| new.get(range).unwrap_or_default().concat();
            hunks::between(&before, &after)
                .into_iter()
                .filter(|hunk| !holds(&old_secrets, &hunk.old) && !holds(&new_secrets, &hunk.new))
                .map(|hunk| {
                    let (first, last) = (hunk.new.start, hunk.new.end);
                    let leading = first.saturating_sub(CONTEXT)..first;
                    let trailing = last..new.len().min(last + CONTEXT);
                    // Up to the nearest secret on either side.
                    let from =
                        new_secrets.range(leading.clone()).next_back().map_or(leading.start, |at| at + 1);
                    let to = new_secrets.range(trailing.clone()).next().copied().unwrap_or(trailing.end);
                    RecordedLines {
                        kind: HunkKind::Edit,
                        start: first,
                        leading: lines(from..first),
                        trailing: lines(last..to),
                        leading_cut: from > leading.start,
                        trailing_cut: to < trailing.end,
                        old_text: hunk.old_text,
                        new_text: hunk.new_text,
                    }
                })
                .collect()
        }
    })
}

/// Returns the lines of a text that hold a part of a secret, counted from 0.
fn secret_lines(text: &str, mask: &TextMask) -> BTreeSet<usize> {
    let Some(masked) = mask.masked(text) else { return BTreeSet::new() };
    let lines = text.split('\n').zip(masked.split('\n')).enumerate();
    lines.filter(|(_, (line, masked))| line != masked).map(|(at, _)| at).collect()
}

impl RecordedLines {
    /// The line, counted from 0, where a text holds this change; none where it doesn't, or in several places.
    pub fn find(&self, current: Option<&str>) -> Option<usize> {
        let current = match (self.kind, current) {
            (HunkKind::Delete, None) => return Some(0),
            (HunkKind::Create, Some(text)) => return (text == self.new_text).then_some(0),
            (HunkKind::Edit, Some(text)) => text,
            _ => return None,
        };
        let lines: Vec<&str> = current.split_inclusive('\n').collect();
        // At its old place, if the lines right before and after it are still the same.
        if self.places(&lines, 1, 1).contains(&self.start) {
            return Some(self.start);
        }
        // Later changes may have touched the lines around it, so fewer of them are tried too. Lines that were only removed
        // are between their neighbours and nowhere else.
        let mut found =
            (1..=CONTEXT).rev().map(|context| self.places(&lines, context, context)).collect::<Vec<_>>();
        if !self.new_text.is_empty() {
            let beside = [self.places(&lines, 1, 0), self.places(&lines, 0, 1)].concat();
            found.push(beside.into_iter().collect::<BTreeSet<_>>().into_iter().collect());
            found.push(self.places(&lines, 0, 0));
        }
        match found.into_iter().find(|places| !places.is_empty())?.as_slice() {
            [place] => Some(*place),
            _ => None,
        }
    }

    /// The lines at which it may begin, with so many lines before and behind it as they were. None where what is compared
    /// may stand anywhere.
    fn places(&self, lines: &[&str], before: usize, behind: usize) -> Vec<usize> {
        let split = |text: &str| text.split_inclusive('\n').map(str::to_owned).collect::<Vec<_>>();
        let (leading, new, trailing) = (split(&self.leading), split(&self.new_text), split(&self.trailing));
        // At an end of the file there are fewer lines.
        let at_start = leading.len() < before && !self.leading_cut;
        let at_end = trailing.len() < behind && !self.trailing_cut;
        let leading = &leading[leading.len().saturating_sub(before)..];
        let trailing = &trailing[..behind.min(trailing.len())];
        let pattern: Vec<&String> = leading.iter().chain(&new).chain(trailing).collect();
        let has_context = !leading.is_empty() || !trailing.is_empty() || at_start && at_end;
        // Where one side may be anything, lines such as `}` say nothing.
        let is_open = before.min(behind) == 0;
        let telling = pattern.iter().filter(|line| line.contains(char::is_alphanumeric)).count();
        if is_open && telling < 2 || !is_open && !has_context {
            return vec![];
        }
        let fits = |at: &usize| {
            let found = lines.get(*at..*at + pattern.len());
            found.is_some_and(|found| {
                found.iter().zip(&pattern).all(|(line, wanted)| *line == wanted.as_str())
            }) && (!at_start || *at == 0)
                && (!at_end || *at + pattern.len() == lines.len())
        };
        (0..=lines.len()).filter(fits).map(|at| at + leading.len()).collect()
    }

    /// The text without this change; none where the text doesn't hold it. The outer none stands for no file.
    pub fn undo(&self, current: Option<&str>) -> Option<Option<String>> {
        let at = self.find(current)?;
        Some(match self.kind {
            HunkKind::Create => None,
            HunkKind::Delete => Some(self.old_text.clone()),
            HunkKind::Edit | HunkKind::Move => {
                let mut lines: Vec<&str> = current?.split_inclusive('\n').collect();
                let length = self.new_text.split_inclusive('\n').count();
                lines.splice(at..at + length, [self.old_text.as_str()]);
                Some(lines.concat())
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use roo_sandbox::exec::redaction::ExactValues;

    fn changes(before: &str, after: &str) -> Vec<RecordedLines> {
        let change = FileChange {
            path: "a".into(),
            old_path: None,
            before: Side::text(before),
            after: Side::text(after),
            author: Author::Ai,
        };
        let mask = TextMask::new(true, ExactValues::default);
        recorded(&[change], &FileDetails::default(), &mask)
            .into_iter()
            .flat_map(|file| file.changes)
            .collect()
    }

    #[test]
    fn a_change_is_taken_back_around_what_the_user_changed_since() {
        let changes = changes("a\nb\nc\nd\ne\nf\n", "a\nB\nc\nd\ne\nF\n");
        let current = "mine\na\nB\nc\nd\ne\nF\nmine\n";
        assert_eq!(changes[0].undo(Some(current)), Some(Some("mine\na\nb\nc\nd\ne\nF\nmine\n".into())));
        assert_eq!(changes[1].find(Some(current)), Some(6));
        assert_eq!(changes[0].undo(Some("a\nmine\nc\nd\ne\nF\n")), None, "the user's line stays");
        assert_eq!(changes[0].undo(None), None);
    }

    #[test]
    fn what_the_user_made_of_a_proposal_is_recorded_with_the_lines_before_the_proposal() {
        let change = FileChange {
            path: "a".into(),
            old_path: None,
            before: Side::text("a\nb\nc\nd\ne\n"),
            after: Side::text("a\nmine\nc\nD\ne\n"),
            author: Author::Ai,
        };
        let mask = TextMask::new(true, ExactValues::default);
        let by_user = change.edited_by_user("a\nB\nc\nD\ne\n");
        let files = recorded(&by_user, &FileDetails::default(), &mask);
        let lines = files.iter().flat_map(|file| {
            file.changes.iter().map(|lines| (file.by_user, lines.old_text.as_str(), lines.new_text.as_str()))
        });
        assert_eq!(lines.collect::<Vec<_>>(), [(false, "d\n", "D\n"), (true, "b\n", "mine\n")]);
    }

    #[test]
    fn no_secret_is_recorded() {
        let token = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9".repeat(2));
        let before = format!("a\nb\nt={token}\nc\nd\n");
        let after = before.replace("c\n", "C\n");
        let all = changes(&before, &after);
        assert_eq!((all[0].leading.as_str(), all[0].trailing.as_str()), ("", "d\n"));
        assert_eq!(all[0].undo(Some(&after)), Some(Some(before.clone())));
        assert_eq!(changes(&before, "a\nb\nt=\nc\nd\n"), []);
        assert_eq!(changes("a\n", &before), []);
    }

    #[test]
    fn lines_next_to_a_secret_come_back() {
        let token = format!("t=ghp_{}\n", "a1B2c3D4e5F6g7H8i9".repeat(2));
        let without = format!("a\n{token}c\nd\n");
        for before in [format!("a\n{token}b\nc\nd\n"), format!("a\nb\n{token}c\nd\n")] {
            let change = &changes(&before, &without)[0];
            assert_eq!(change.undo(Some(&without)), Some(Some(before.clone())));
            let moved = |text: &str| format!("mine\n{text}");
            assert_eq!(change.undo(Some(&moved(&without))), Some(Some(moved(&before))));
            assert_eq!(change.undo(Some("mine\n")), None);
        }
    }

    #[test]
    fn lines_that_could_stand_anywhere_are_not_taken_for_the_change() {
        let before = "fn a() {\n    one();\n}\n";
        let change = &changes(before, "fn a() {\n    one();\n    return;\n}\n")[0];
        assert_eq!(change.undo(Some("fn b() {\n    two();\n    return;\n}\n")), None);
        let rewritten = "fn a() {\n    one();\n    return;\n    // mine\n}\n";
        let undone = "fn a() {\n    one();\n    // mine\n}\n";
        assert_eq!(change.undo(Some(rewritten)), Some(Some(undone.into())), "one neighbour is as it was");
        let change = &changes("a\nb\nc\n", "a\nfirst line\nsecond line\nc\n")[0];
        let found = change.find(Some("x\nfirst line\nsecond line\ny\n"));
        assert_eq!(found, Some(1), "several lines are found by themselves");
    }

    #[test]
    fn a_record_of_an_earlier_version_ends_where_its_file_does() {
        let old = serde_json::json!({
            "kind": "edit", "start": 0, "oldText": "a\n", "newText": "", "leading": "", "trailing": "b\n",
        });
        let change: RecordedLines = serde_json::from_value(old).unwrap();
        assert_eq!(change.undo(Some("b\n")), Some(Some("a\nb\n".into())));
        assert_eq!(change.undo(Some("mine\nb\n")), None);
    }

    #[test]
    fn lines_that_were_removed_come_back_only_between_their_neighbours() {
        let changes = changes("a\nb\nc\n", "a\nc\n");
        assert_eq!(changes[0].undo(Some("x\na\nc\n")), Some(Some("x\na\nb\nc\n".into())));
        assert_eq!(changes[0].undo(Some("a\nx\nc\n")), None);
    }

    proptest! {
        #[test]
        fn all_changes_taken_back_make_the_old_text(before in "([abcd]\n){0,9}", after in "([abcd]\n){0,9}") {
            let mut text = Some(after.clone());
            for change in changes(&before, &after).iter().rev() {
                text = change.undo(text.as_deref()).unwrap();
            }
            prop_assert_eq!(text, Some(before));
        }
    }
}
