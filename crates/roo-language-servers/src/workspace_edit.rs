//! Edits that a server proposes: changes of texts, several files at once. Nothing is written here, and what a server says of
//! positions is checked against the texts.

use std::collections::BTreeMap;
use std::path::PathBuf;

use roo_text::position::{Encoding, Position, Positions, Range};
use roo_workspace::path_of;
use serde_json::Value;

/// The most files of one edit.
const FILES: usize = 200;

/// The most changes of one edit.
const CHANGES: usize = 20_000;

/// Proposed edit of several files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkspaceEdit {
    /// The changes of each file, by its absolute path; none twice.
    pub files: BTreeMap<PathBuf, Vec<RangeEdit>>,
    /// Unit of the positions.
    pub encoding: Encoding,
}

/// New text for a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeEdit {
    /// Range in the text before.
    pub range: Range,
    /// Text to put there.
    pub text: String,
}

/// Reasons why changes don't fit a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnfitEdit {
    /// There is no such place.
    #[error("it names line {0}, character {1}, which is not there")]
    NoSuchPlace(u32, u32),
    /// Two changes are about the same text.
    #[error("two of its changes overlap in line {0}")]
    Overlap(u32),
}

impl WorkspaceEdit {
    /// Creates an edit of these files.
    ///
    /// # Errors
    /// The reason, without a full stop, where it is too large.
    pub fn new(
        proposed: impl IntoIterator<Item = (PathBuf, Vec<RangeEdit>)>,
        encoding: Encoding,
    ) -> Result<Self, String> {
        let mut files: BTreeMap<PathBuf, Vec<RangeEdit>> = BTreeMap::new();
        for (path, edits) in proposed {
            files.entry(path).or_default().extend(edits);
            if files.len() > FILES || files.values().map(Vec::len).sum::<usize>() > CHANGES {
                return Err("it changes too much at once".to_owned());
            }
        }
        files.retain(|_, edits| !edits.is_empty());
        Ok(Self { files, encoding })
    }

    /// Reads an answer of a server, null for no changes. Returns the reason where it wants something else than to change texts.
    pub(crate) fn read(answer: &Value, encoding: Encoding) -> Result<Self, String> {
        let mut files: BTreeMap<PathBuf, Vec<RangeEdit>> = BTreeMap::new();
        let mut count = 0;
        let mut add = |uri: &Value, edits: &Value| {
            let path = uri.as_str().and_then(path_of).ok_or("it names a document that is no file")?;
            let file = files.entry(path).or_default();
            for edit in edits.as_array().into_iter().flatten() {
                count += 1;
                file.push(range_edit(edit).ok_or("one of its changes can't be read")?);
            }
            match files.len() > FILES || count > CHANGES {
                true => Err("it changes too much at once"),
                false => Ok(()),
            }
        };
        match answer["documentChanges"].as_array() {
            Some(changes) => {
                for change in changes {
                    if let Some(kind) = change["kind"].as_str() {
                        return Err(format!("it wants to {kind} a file, and only texts are changed"));
                    }
                    add(&change["textDocument"]["uri"], &change["edits"])?;
                }
            }
            None => {
                for (uri, edits) in answer["changes"].as_object().into_iter().flatten() {
                    add(&Value::from(uri.as_str()), edits)?;
                }
            }
        }
        files.retain(|_, edits| !edits.is_empty());
        Ok(Self { files, encoding })
    }
}

fn range_edit(value: &Value) -> Option<RangeEdit> {
    let range = Range { start: position(&value["range"]["start"])?, end: position(&value["range"]["end"])? };
    // Snippets are never asked for.
    Some(RangeEdit { range, text: value["newText"].as_str()?.to_owned() })
}

pub(crate) fn position(value: &Value) -> Option<Position> {
    let number = |name: &str| u32::try_from(value.get(name)?.as_u64()?).ok();
    Some(Position { line: number("line")?, character: number("character")? })
}

/// Returns the text with the changes made, all of them against positions of the text before.
///
/// # Errors
/// [`UnfitEdit`] where they don't fit the text.
pub fn apply_range_edits(text: &str, edits: &[RangeEdit], encoding: Encoding) -> Result<String, UnfitEdit> {
    let positions = Positions::new(text, encoding);
    let offset = |position: Position| {
        let offset = positions.offset(position);
        // A range of whole lines may end at the beginning of a line after the last one.
        let is_end = offset == text.len() && position.character == 0;
        match positions.position(offset) == position || is_end {
            true => Ok(offset),
            false => Err(UnfitEdit::NoSuchPlace(position.line.saturating_add(1), position.character)),
        }
    };
    let mut changes = Vec::new();
    for (order, edit) in edits.iter().enumerate() {
        let (start, end) = (offset(edit.range.start)?, offset(edit.range.end)?);
        if end < start {
            return Err(UnfitEdit::Overlap(edit.range.start.line.saturating_add(1)));
        }
        changes.push((start, end, order, edit));
    }
    // Of several insertions at one place, the order counts.
    changes.sort_by_key(|(start, end, order, _)| (*start, *end, *order));
    let mut changed = String::with_capacity(text.len());
    let mut copied = 0;
    for (start, end, _, edit) in changes {
        if start < copied {
            return Err(UnfitEdit::Overlap(edit.range.start.line.saturating_add(1)));
        }
        changed.push_str(text.get(copied..start).unwrap_or_default());
        changed.push_str(&edit.text);
        copied = end;
    }
    changed.push_str(text.get(copied..).unwrap_or_default());
    Ok(changed)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    fn edit(start: (u32, u32), end: (u32, u32), text: &str) -> RangeEdit {
        let at = |(line, character)| Position { line, character };
        RangeEdit { range: Range { start: at(start), end: at(end) }, text: text.to_owned() }
    }

    #[test]
    fn changes_are_made_against_the_text_before() {
        let apply = |text: &str, edits: &[RangeEdit]| apply_range_edits(text, edits, Encoding::Utf16);
        let edits = [edit((1, 4), (1, 5), "long"), edit((0, 0), (0, 1), "b"), edit((0, 0), (0, 0), "x")];
        assert_eq!(apply("a\nä𝒳 c", &edits), Ok("xb\nä𝒳 long".to_owned()));
        assert_eq!(apply("a\n", &[edit((0, 0), (1, 0), "")]), Ok(String::new()), "a whole line");
        assert_eq!(
            apply("a", &[edit((0, 0), (1, 0), "b")]),
            Ok("b".to_owned()),
            "up to a line behind the last"
        );
        assert_eq!(apply("a", &[edit((0, 0), (0, 2), "b")]), Err(UnfitEdit::NoSuchPlace(1, 2)));
        assert_eq!(apply("𝒳", &[edit((0, 1), (0, 1), "b")]), Err(UnfitEdit::NoSuchPlace(1, 1)));
        assert_eq!(apply("a", &[edit((4, 3), (4, 4), "b")]), Err(UnfitEdit::NoSuchPlace(5, 3)));
        assert_eq!(
            apply("abc", &[edit((0, 0), (0, 2), ""), edit((0, 1), (0, 3), "")]),
            Err(UnfitEdit::Overlap(1))
        );
        assert_eq!(apply("abc", &[edit((0, 2), (0, 1), "")]), Err(UnfitEdit::Overlap(1)));
    }

    #[test]
    fn an_answer_comes_in_two_forms_and_may_want_too_much() {
        let range = json!({ "start": { "line": 0, "character": 0 }, "end": { "line": 0, "character": 1 } });
        let edits = json!([{ "range": range, "newText": "b" }]);
        let expected = BTreeMap::from([(PathBuf::from("/w/a.rs"), vec![edit((0, 0), (0, 1), "b")])]);
        for answer in [
            json!({ "changes": { "file:///w/a.rs": edits, "file:///w/empty.rs": [] } }),
            json!({ "documentChanges": [{ "textDocument": { "uri": "file:///w/a.rs", "version": null }, "edits": edits }] }),
        ] {
            assert_eq!(WorkspaceEdit::read(&answer, Encoding::Utf16).unwrap().files, expected);
        }
        assert_eq!(WorkspaceEdit::read(&Value::Null, Encoding::Utf8).unwrap().files, BTreeMap::new());
        let error = |answer: Value| WorkspaceEdit::read(&answer, Encoding::Utf8).unwrap_err();
        let rename = json!({ "documentChanges": [{ "kind": "rename", "oldUri": "file:///a", "newUri": "file:///b" }] });
        assert_eq!(error(rename), "it wants to rename a file, and only texts are changed");
        assert_eq!(
            error(json!({ "changes": { "untitled:x": edits } })),
            "it names a document that is no file"
        );
        let bad = json!({ "changes": { "file:///w/a.rs": [{ "range": {}, "newText": "b" }] } });
        assert_eq!(error(bad), "one of its changes can't be read");
        let many = vec![json!({ "range": range, "newText": "b" }); CHANGES + 1];
        assert_eq!(error(json!({ "changes": { "file:///w/a.rs": many } })), "it changes too much at once");
    }
}
