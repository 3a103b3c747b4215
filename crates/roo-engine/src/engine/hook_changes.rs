//! Changes that hooks make in the files which a call has just written, such as those of a formatter.

use std::path::PathBuf;

use roo_protocol::ids::Digest;
use roo_text::diff::operations;
use roo_trace::record::{Author, FileChange, Side};
use roo_workspace::{EDIT_LIMIT, Purpose, Workspace, WriteMark, read_disk};

/// The files of a call as they are on disk before hooks hear of it.
pub(super) struct FilesBeforeHooks {
    changes: Vec<FileChange>,
    /// Those that are on disk as the call left them: the index of the last change of each.
    on_disk: Vec<usize>,
    mark: WriteMark,
}

/// What hooks changed in the files of a call.
pub(super) struct HookChanges {
    /// The call's changes, with what hooks made of them.
    pub together: Vec<FileChange>,
    /// What hooks changed alone. Lines that stand where the call's lines stood are the model's, and nobody knows whose the
    /// others are.
    pub by_hooks: Vec<FileChange>,
}

impl FilesBeforeHooks {
    /// Looks at the files that a call has changed. Reads the disk, so not for a thread of the runtime.
    pub(super) fn new(changes: Vec<FileChange>, workspace: &Workspace) -> Self {
        let mark = workspace.mark();
        let is_last = |index: usize, path: &str| !changes[index + 1..].iter().any(|later| later.path == path);
        let is_on_disk = |change: &FileChange| match &change.after {
            Side::Text { digest, .. } => {
                on_disk(workspace, &change.path).is_some_and(|file| file.1 == *digest)
            }
            Side::Absent | Side::Opaque(_) => false,
        };
        let found = changes.iter().enumerate();
        let found = found.filter(|(index, change)| is_last(*index, &change.path) && is_on_disk(change));
        let on_disk = found.map(|(index, _)| index).collect();
        Self { changes, on_disk, mark }
    }

    /// Returns what hooks have changed since; none where they changed nothing. What an editor or another task has written is
    /// not theirs. Reads the disk, so not for a thread of the runtime.
    pub(super) fn compare(self, workspace: &Workspace) -> Option<HookChanges> {
        let Self { mut changes, on_disk: files, mark } = self;
        let mut by_hooks = Vec::new();
        let written = workspace.written_since(&mark);
        for index in files {
            let Some(change) = changes.get_mut(index) else { continue };
            let Side::Text { text: by_call, digest: of_call } = &change.after else { continue };
            let Some((place, digest, text)) = on_disk(workspace, &change.path) else { continue };
            if digest == *of_call || written.left(&place, Some(digest)) {
                continue;
            }
            let now = Side::Text { text: text.as_str().into(), digest };
            let mut before = change.after.clone();
            for (text, author) in parts(&change.before, by_call, &text) {
                let after = text.map_or_else(|| now.clone(), Side::text);
                let path = change.path.clone();
                by_hooks.push(FileChange { path, old_path: None, before, after: after.clone(), author });
                before = after;
            }
            change.after = now;
        }
        (!by_hooks.is_empty()).then_some(HookChanges { together: changes, by_hooks })
    }
}

/// The full path of a file, the digest of its bytes, and its text; none where it is no text that edits have.
fn on_disk(workspace: &Workspace, path: &str) -> Option<(PathBuf, Digest, String)> {
    let place = workspace.resolve(path, Purpose::Read).ok()?;
    let bytes = read_disk(&place, EDIT_LIMIT).ok()?;
    let digest = Digest::of(&bytes);
    let text = String::from_utf8(bytes).ok()?;
    let text = text.strip_prefix('\u{feff}').map_or_else(|| text.clone(), str::to_owned);
    Some((place.absolute().to_path_buf(), digest, text))
}

/// Takes a change of hooks apart by its author: the text after each part, none for the last one.
fn parts(before_call: &Side, by_call: &str, now: &str) -> Vec<(Option<String>, Author)> {
    let call: Vec<&str> = by_call.split_inclusive('\n').collect();
    let now: Vec<&str> = now.split_inclusive('\n').collect();
    let is_of_model = written_lines(before_call, &call);
    let (mut of_model, mut of_others, mut between) = (false, false, String::new());
    for operation in operations(&call, &now) {
        let (old_range, new_range) = (operation.old_range(), operation.new_range());
        let (old, new) = (call[old_range.clone()].concat(), now[new_range].concat());
        if old == new {
            between.push_str(&old);
            continue;
        }
        // What comes up between two lines belongs to both.
        let around = match old_range.is_empty() {
            true => old_range.start.saturating_sub(1)..(old_range.end + 1).min(call.len()),
            false => old_range,
        };
        let is_own = is_of_model[around].contains(&true);
        of_model |= is_own;
        of_others |= !is_own;
        between.push_str(if is_own { &new } else { &old });
    }
    match (of_model, of_others) {
        (true, true) => vec![(Some(between), Author::Ai), (None, Author::Unknown)],
        (true, false) => vec![(None, Author::Ai)],
        _ => vec![(None, Author::Unknown)],
    }
}

/// For each line of a text, whether a call has written it. All are the call's where it isn't known what was there before.
fn written_lines(before: &Side, after: &[&str]) -> Vec<bool> {
    let Side::Text { text: before, .. } = before else { return vec![true; after.len()] };
    let before: Vec<&str> = before.split_inclusive('\n').collect();
    let mut written = vec![false; after.len()];
    for operation in operations(&before, after) {
        let (old, new) = (operation.old_range(), operation.new_range());
        if before[old] != after[new.clone()] {
            written[new].fill(true);
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn found(before: Option<&str>, by_call: &str, now: &str) -> Vec<(Option<String>, Author)> {
        parts(&before.map_or(Side::Absent, Side::text), by_call, now)
    }

    #[test]
    fn what_a_formatter_makes_of_the_models_lines_is_the_models() {
        let ai = vec![(None, Author::Ai)];
        assert_eq!(found(None, "fn  a( )\n", "fn a()\n"), ai);
        assert_eq!(found(Some("x\n\ny\n"), "x\n\nfn  a( )\ny\n", "x\n\nfn a()\ny\n"), ai);
        assert_eq!(found(Some("x\n"), "x\nfn a() { 1 }\n", "x\nfn a() {\n    1\n}\n"), ai);
    }

    #[test]
    fn what_it_makes_of_other_lines_is_nobodys() {
        let unknown = (None, Author::Unknown);
        assert_eq!(
            found(Some("a( )\nb\nc\n"), "a( )\nb\nC\n", "a()\nb\nC\n"),
            std::slice::from_ref(&unknown)
        );
        let both = found(Some("a( )\nb\nc\nd\n"), "a( )\nb\nc\nD( )\n", "a()\nb\nc\nD()\n");
        assert_eq!(both, [(Some("a( )\nb\nc\nD()\n".to_owned()), Author::Ai), unknown]);
    }

    proptest::proptest! {
        #[test]
        fn any_change_has_a_part_that_ends_in_it(
            before in "[a-c]?(\n[a-c]){0,6}", by_call in "[a-c]?(\n[a-c]){0,6}", now in "[a-c]?(\n[a-c]){0,6}",
        ) {
            let parts = found(Some(&before), &by_call, &now);
            proptest::prop_assert!(matches!(parts.as_slice(), [(None, _)] | [(Some(_), Author::Ai), (None, Author::Unknown)]));
        }
    }
}
