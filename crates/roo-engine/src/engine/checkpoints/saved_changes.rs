//! What becomes of one file when changes are undone: from its content as it is now, back through the changes, the newest
//! first. What the user changed since is merged and never replaced; what is no text can't be merged.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::Arc;

use crate::tool_run::{RecordedLines, SavedContent, SavedFile, WhyLeftOut};
use roo_protocol::ids::Digest;
use roo_text::merge::{Merge, SideNames};
use roo_workspace::{Contents, TextEncoding};

/// The byte order mark, which texts of open documents don't have.
const BOM: char = '\u{feff}';

/// Content of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// Text, whatever encodes it.
    Text(String),
    /// What is no text.
    Bytes(Arc<[u8]>),
    /// A symbolic link to this.
    Link(Arc<[u8]>),
}

impl Content {
    /// By which it is known: of the text, of the bytes, or of a link's target.
    pub(super) fn digest(&self) -> Digest {
        match self {
            Self::Text(text) => Digest::of(text),
            Self::Bytes(bytes) | Self::Link(bytes) => Digest::of(bytes),
        }
    }

    pub(super) fn is_link(&self) -> bool {
        matches!(self, Self::Link(_))
    }

    /// Its text, where it is some in any encoding.
    pub(super) fn text(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Text(text) => Some(Cow::Borrowed(text)),
            Self::Link(_) => None,
            Self::Bytes(bytes) => match Contents::from_bytes(bytes.to_vec()) {
                Contents::Text(text) if !text.lossy => Some(Cow::Owned(text.text)),
                Contents::Text(_) | Contents::Binary { .. } => None,
            },
        }
    }
}

/// What becomes of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Restored {
    /// It gets this content; none where it is deleted.
    Content(Option<Content>),
    /// The user has changed it in the same place.
    Conflict {
        reason: &'static str,
        /// Its text with both versions between conflict markers; none where one of them is no text.
        marked: Option<String>,
    },
    /// It can't be restored, for this reason.
    LeftOut(String),
}

/// Contents of files by their digests. One that isn't there is no longer kept.
pub(super) type LoadedContents = BTreeMap<Digest, Vec<u8>>;

/// Successive changes of a file between which nobody else changed it: one step from the content before to the one after.
struct Step<'a> {
    before: SavedContent,
    after: SavedContent,
    lines: &'a [RecordedLines],
    left_out: Option<String>,
}

/// Returns the files of a checkpoint that were made and may be others that were moved: a file of the same name was deleted with
/// them whose content nobody knows.
pub(super) fn possible_moves(files: &[SavedFile]) -> impl Iterator<Item = &SavedFile> {
    let name = |file: &SavedFile| Path::new(&file.path).file_name().map(OsStr::to_owned);
    let is_unknown = |file: &&SavedFile| file.before == SavedContent::LeftOut(WhyLeftOut::Unknown);
    let lost = files.iter().filter(|file| file.after == SavedContent::Absent).filter(is_unknown);
    let lost: BTreeSet<OsString> = lost.filter_map(name).collect();
    let made = files.iter().filter(|file| file.before == SavedContent::Absent);
    made.filter(move |file| name(file).is_some_and(|name| lost.contains(&name)))
}

/// Undoes changes of a file, which are given in the order in which they were made.
pub(super) fn undo(changes: &[&SavedFile], now: Option<Content>, contents: &LoadedContents) -> Restored {
    let mut content = now;
    let mut conflict = None;
    for step in steps(changes).iter().rev() {
        match step.undo(content, contents) {
            Restored::Content(undone) => content = undone,
            Restored::Conflict { reason, marked } => {
                let Some(marked) = marked else { return Restored::Conflict { reason, marked: None } };
                conflict = Some(reason);
                content = Some(Content::Text(marked));
            }
            left_out @ Restored::LeftOut(_) => return left_out,
        }
    }
    match (conflict, content) {
        (None, content) => Restored::Content(content),
        (Some(reason), Some(Content::Text(marked))) => Restored::Conflict { reason, marked: Some(marked) },
        (Some(reason), _) => Restored::Conflict { reason, marked: None },
    }
}

/// The content of a file before the first of these changes.
pub(super) fn before(changes: &[&SavedFile], contents: &LoadedContents) -> Result<Option<Content>, String> {
    changes.first().map_or(Ok(None), |first| load(first.before, contents))
}

/// The content of a file after the last of these changes.
pub(super) fn after(changes: &[&SavedFile], contents: &LoadedContents) -> Result<Option<Content>, String> {
    changes.last().map_or(Ok(None), |last| load(last.after, contents))
}

/// The encoding that a file had before these changes; none where none of them removed it, so that it still has it.
pub(super) fn removed_encoding(changes: &[&SavedFile]) -> Option<TextEncoding> {
    // Changes of its text keep its encoding, so it still had it when it was removed first.
    let first = changes.first().filter(|first| first.before != SavedContent::Absent);
    let removal = first.and(changes.iter().find(|change| change.after == SavedContent::Absent));
    removal.map(|removal| removal.encoding.unwrap_or(TextEncoding::UTF_8))
}

/// Returns whether a file could be executed before these changes, where one of them removed it.
pub(super) fn was_executable(changes: &[&SavedFile]) -> bool {
    let first = changes.first().filter(|first| first.before != SavedContent::Absent);
    first
        .and(changes.iter().find(|change| change.after == SavedContent::Absent))
        .is_some_and(|it| it.executable)
}

/// The number of directories right above a file that the first of these changes made with it.
pub(super) fn made_directories(changes: &[&SavedFile]) -> u32 {
    changes.first().map_or(0, |first| first.directories)
}

/// Returns whether a file was a symbolic link at a time that is recorded.
pub(super) fn was_link(changes: &[&SavedFile]) -> bool {
    let is_link = |content: SavedContent| matches!(content, SavedContent::Link(_));
    changes.iter().any(|change| is_link(change.before) || is_link(change.after))
}

/// The digests of all contents that are kept of a file.
pub(super) fn digests(file: &SavedFile) -> impl Iterator<Item = Digest> {
    [file.before, file.after].into_iter().filter_map(SavedContent::kept)
}

fn steps<'a>(changes: &[&'a SavedFile]) -> Vec<Step<'a>> {
    let mut steps: Vec<Step<'a>> = Vec::new();
    for change in changes {
        match steps.last_mut() {
            Some(last)
                if last.after == change.before
                    && last.lines.is_empty()
                    && change.lines.is_empty()
                    && !matches!(change.before, SavedContent::LeftOut(_)) =>
            {
                last.after = change.after;
                let why = change.left_out().map(|why| why.to_string());
                last.left_out = last.left_out.take().or(why);
            }
            _ => steps.push(Step {
                before: change.before,
                after: change.after,
                lines: &change.lines,
                left_out: change.left_out().map(|why| why.to_string()),
            }),
        }
    }
    steps
}

impl Step<'_> {
    fn undo(&self, ours: Option<Content>, contents: &LoadedContents) -> Restored {
        if !self.lines.is_empty() {
            let mut text = match ours {
                None => None,
                Some(Content::Text(text)) => Some(text),
                Some(Content::Bytes(_) | Content::Link(_)) => {
                    return Restored::Conflict { reason: CHANGED, marked: None };
                }
            };
            for change in self.lines.iter().rev() {
                match change.undo(text.as_deref()) {
                    Some(undone) => text = undone,
                    None => return Restored::Conflict { reason: CHANGED, marked: None },
                }
            }
            return Restored::Content(text.map(Content::Text));
        }
        if let Some(why) = &self.left_out {
            return Restored::LeftOut(why.clone());
        }
        let (base, theirs) = match (load(self.after, contents), load(self.before, contents)) {
            (Ok(base), Ok(theirs)) => (base, theirs),
            (Err(why), _) | (_, Err(why)) => return Restored::LeftOut(why),
        };
        if is_same(&ours, &base) {
            return Restored::Content(theirs);
        }
        if is_same(&ours, &theirs) || is_same(&base, &theirs) {
            return Restored::Content(ours);
        }
        let texts = [&base, &ours, &theirs].map(|content| content.as_ref()?.text());
        let (base, ours, theirs) = match &texts {
            [Some(base), Some(ours), Some(theirs)] => (base, ours, theirs),
            _ => {
                let reason = match (&base, &ours, &theirs) {
                    (_, None, _) => "it was deleted since",
                    (None, _, _) => "there is another file of this name by now",
                    (_, _, None) => "it was changed since it was created",
                    _ => "it was changed since, and is not text",
                };
                return Restored::Conflict { reason, marked: None };
            }
        };
        let merge = Merge::new(without_mark(base), without_mark(ours), without_mark(theirs));
        match merge.text() {
            Some(text) => Restored::Content(Some(Content::Text(text))),
            None => {
                let names = SideNames { ours: "current", theirs: "restored" };
                Restored::Conflict { reason: CHANGED, marked: Some(merge.marked(names)) }
            }
        }
    }
}

/// Reason for a conflict.
const CHANGED: &str = "it was changed since in the same lines";

fn load(content: SavedContent, contents: &LoadedContents) -> Result<Option<Content>, String> {
    let loaded = match content {
        SavedContent::Absent => return Ok(None),
        SavedContent::LeftOut(why) => return Err(why.to_string()),
        SavedContent::Kept(digest) => {
            contents.get(&digest).and_then(|bytes| String::from_utf8(bytes.clone()).ok()).map(Content::Text)
        }
        SavedContent::KeptBytes(digest) => {
            contents.get(&digest).map(|bytes| Content::Bytes(bytes.as_slice().into()))
        }
        SavedContent::Link(digest) => {
            contents.get(&digest).map(|target| Content::Link(target.as_slice().into()))
        }
    };
    loaded.map(Some).ok_or_else(|| "its earlier content is no longer kept".to_owned())
}

/// Returns a text without byte order mark.
pub(super) fn without_mark(text: &str) -> &str {
    text.strip_prefix(BOM).unwrap_or(text)
}

fn is_same(one: &Option<Content>, other: &Option<Content>) -> bool {
    match (one, other) {
        (Some(Content::Bytes(one)), Some(Content::Bytes(other)))
        | (Some(Content::Link(one)), Some(Content::Link(other))) => one == other,
        // What a command wrote in another encoding is kept by its bytes, and read as text.
        (Some(one), Some(other)) => match (one.text(), other.text()) {
            (Some(one), Some(other)) => without_mark(&one) == without_mark(&other),
            _ => false,
        },
        (one, other) => one.is_none() && other.is_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Changes of one file through these texts; none for no file.
    fn saved(texts: &[Option<&str>], contents: &mut LoadedContents) -> Vec<SavedFile> {
        let mut keep = |text: &Option<&str>| match text {
            None => SavedContent::Absent,
            Some(text) => {
                let digest = Digest::of(text);
                contents.insert(digest, text.as_bytes().to_vec());
                SavedContent::Kept(digest)
            }
        };
        let file = |before, after| SavedFile {
            path: "a".into(),
            before,
            after,
            lines: vec![],
            encoding: None,
            executable: false,
            directories: 0,
        };
        texts.windows(2).map(|pair| file(keep(&pair[0]), keep(&pair[1]))).collect()
    }

    fn undone(files: &[SavedFile], now: Option<&str>, contents: &LoadedContents) -> Restored {
        let now = now.map(|text| Content::Text(text.to_owned()));
        undo(&files.iter().collect::<Vec<_>>(), now, contents)
    }

    fn text(text: &str) -> Restored {
        Restored::Content(Some(Content::Text(text.to_owned())))
    }

    #[test]
    fn text_that_a_command_wrote_in_another_encoding_is_restored_by_its_bytes() {
        let mut contents = LoadedContents::new();
        let mut keep = |bytes: &[u8]| {
            let digest = Digest::of(bytes);
            contents.insert(digest, bytes.to_vec());
            SavedContent::KeptBytes(digest)
        };
        let (old, new) = (b"gr\xfcn und blau\nb\nc\nd\n", b"gr\xfcn und rot\nb\nc\nd\n");
        let (before, after) = (keep(old), keep(new));
        let file = SavedFile {
            path: "a".into(),
            before,
            after,
            lines: vec![],
            encoding: None,
            executable: false,
            directories: 0,
        };
        let back = |now: Content| undo(&[&file], Some(now), &contents);
        let bytes = |bytes: &[u8]| Content::Bytes(bytes.into());
        assert_eq!(
            back(Content::Text("grün und rot\nb\nc\nd\n".into())),
            Restored::Content(Some(bytes(old)))
        );
        assert_eq!(
            back(Content::Text("grün und rot\nb\nc\nmine\n".into())),
            text("grün und blau\nb\nc\nmine\n")
        );
        assert_eq!(back(bytes(new)), Restored::Content(Some(bytes(old))));
        let other = Restored::Conflict { reason: "it was changed since, and is not text", marked: None };
        assert_eq!(back(bytes(b"\x00\xff\x01")), other);
    }

    #[test]
    fn a_file_that_nobody_else_changed_gets_its_earlier_text() {
        let mut contents = LoadedContents::new();
        let files = saved(&[None, Some("a\n"), Some("b\n")], &mut contents);
        assert_eq!(undone(&files, Some("b\n"), &contents), Restored::Content(None));
        assert_eq!(undone(&files[1..], Some("b\n"), &contents), text("a\n"));
    }

    #[test]
    fn what_the_user_changed_since_or_in_between_stays() {
        let mut contents = LoadedContents::new();
        let mut files = saved(&[Some("a\nb\nc\nd\n"), Some("A\nb\nc\nd\n")], &mut contents);
        files.extend(saved(&[Some("A\nb\nc\nmine\n"), Some("A\nB\nc\nmine\n")], &mut contents));
        assert_eq!(undone(&files, Some("A\nB\nc\nmine\nmore\n"), &contents), text("a\nb\nc\nmine\nmore\n"));
    }

    #[test]
    fn a_conflict_names_its_reason_and_has_both_versions() {
        let mut contents = LoadedContents::new();
        let files = saved(&[Some("a\n"), Some("b\n")], &mut contents);
        let marked = "<<<<<<< current\nmine\n=======\na\n>>>>>>> restored\n".to_owned();
        let conflict = Restored::Conflict { reason: CHANGED, marked: Some(marked) };
        assert_eq!(undone(&files, Some("mine\n"), &contents), conflict);
        let created = saved(&[None, Some("b\n")], &mut contents);
        let Restored::Conflict { reason, marked: None } = undone(&created, Some("mine\n"), &contents) else {
            panic!()
        };
        assert_eq!(reason, "it was changed since it was created");
    }

    #[test]
    fn a_content_that_is_not_kept_is_told() {
        let mut contents = LoadedContents::new();
        let files = saved(&[Some("a\n"), Some("b\n")], &mut contents);
        contents.clear();
        assert!(matches!(undone(&files, Some("b\n"), &contents), Restored::LeftOut(_)));
        let unknown = [SavedFile { before: SavedContent::LeftOut(WhyLeftOut::Unknown), ..files[0].clone() }];
        assert!(matches!(undone(&unknown, Some("b\n"), &contents), Restored::LeftOut(_)));
    }

    #[test]
    fn a_new_file_may_be_the_deleted_one_of_its_name_whose_content_nobody_knows() {
        let kept = SavedContent::Kept(Digest::of("x"));
        let unknown = SavedContent::LeftOut(WhyLeftOut::Unknown);
        let file = |path: &str, before, after| SavedFile {
            path: path.into(),
            before,
            after,
            lines: vec![],
            encoding: None,
            executable: false,
            directories: 0,
        };
        let files = [
            file("lib/a", SavedContent::Absent, kept),
            file("lib/b", SavedContent::Absent, kept),
            file("src/a", unknown, SavedContent::Absent),
            file("src/b", kept, SavedContent::Absent),
        ];
        assert_eq!(possible_moves(&files).collect::<Vec<_>>(), [&files[0]]);
    }

    #[test]
    fn what_is_no_text_goes_back_as_bytes_and_is_never_merged() {
        let mut contents = LoadedContents::new();
        let [old, new, mine] = [&b"\x89PNG\0old"[..], &b"\x89PNG\0new"[..], &b"\x89PNG\0mine"[..]];
        let [kept_old, kept_new] = [old, new].map(|bytes| {
            contents.insert(Digest::of(bytes), bytes.to_vec());
            SavedContent::KeptBytes(Digest::of(bytes))
        });
        let content = |bytes: &[u8]| Some(Content::Bytes(bytes.into()));
        let file = |before, after| SavedFile {
            path: "a".into(),
            before,
            after,
            lines: vec![],
            encoding: None,
            executable: false,
            directories: 0,
        };
        let (made, changed) = (file(SavedContent::Absent, kept_old), file(kept_old, kept_new));
        assert_eq!(undo(&[&made, &changed], content(new), &contents), Restored::Content(None));
        assert_eq!(undo(&[&changed], content(new), &contents), Restored::Content(content(old)));
        assert_eq!(undo(&[&changed], content(old), &contents), Restored::Content(content(old)), "as it was");
        for (change, now, why) in [
            (&changed, content(mine), "it was changed since, and is not text"),
            (&changed, Some(Content::Text("mine".into())), "it was changed since, and is not text"),
            (&changed, None, "it was deleted since"),
            (&made, content(mine), "it was changed since it was created"),
        ] {
            let conflict = Restored::Conflict { reason: why, marked: None };
            assert_eq!(undo(&[change], now, &contents), conflict);
        }
        contents.clear();
        assert!(matches!(undo(&[&changed], content(new), &contents), Restored::LeftOut(_)));
    }

    proptest! {
        #[test]
        fn a_restore_that_is_undone_leaves_the_file_as_it_was(
            texts in prop::collection::vec(prop::option::of("([abc]\n){0,6}"), 2..6),
            now in prop::option::of("([abcx]\n){0,6}"),
        ) {
            let mut contents = LoadedContents::new();
            let texts: Vec<Option<&str>> = texts.iter().map(Option::as_deref).collect();
            let files = saved(&texts, &mut contents);
            let Restored::Content(restored) = undone(&files, now.as_deref(), &contents) else { return Ok(()) };
            let restored = restored.map(|content| match content {
                Content::Text(text) => text,
                Content::Bytes(_) | Content::Link(_) => panic!("of texts comes text"),
            });
            if now.as_deref() == *texts.last().unwrap() {
                prop_assert_eq!(restored.as_deref(), texts[0]);
            }
            let back = saved(&[now.as_deref(), restored.as_deref()], &mut contents);
            let now = now.map(Content::Text);
            prop_assert_eq!(undone(&back, restored.as_deref(), &contents), Restored::Content(now));
        }
    }
}
