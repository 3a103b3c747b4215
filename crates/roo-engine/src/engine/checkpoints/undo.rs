//! Undoing what a request has changed in another folder, which nobody uses yet: a fork's work tree. A restore of the
//! workspace goes by a plan instead.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::{Component, Path};

use super::content::bytes_of;
use super::past::take_possible_moves;
use super::saved_changes::{self, Content, LoadedContents, Restored};
use crate::engine::{Engine, EngineError};
use crate::mentions::git::make_parents;
use crate::tool_run::{SavedFile, make_executable};
use roo_protocol::checkpoint::LeftOutFile;
use roo_protocol::ids::TaskId;
use roo_workspace::{Contents, TextEncoding};

impl Engine {
    /// Undoes in another folder what a request has changed since an event: there the files are as in the workspace now. Returns
    /// those for which that fails.
    pub(in crate::engine) async fn undo_since(
        &self,
        request: &TaskId,
        seq: u64,
        folder: &Path,
    ) -> Result<Vec<LeftOutFile>, EngineError> {
        let past = self.past(request, None).await?;
        let mut by_path = past.by_path(|known| known.seq > seq);
        let contents = self.load(request, &by_path).await?;
        let mut left_out = take_possible_moves(&mut by_path, past.possible_moves(|known| known.seq > seq));
        // What is in the way of one file may go with another.
        by_path.retain(|path, saved| undo_in(folder, path, saved, &contents).is_err());
        for (path, saved) in by_path {
            if let Err(reason) = undo_in(folder, &path, &saved, &contents) {
                left_out.push(LeftOutFile { path, reason });
            }
        }
        Ok(left_out)
    }
}

/// Undoes changes of a file in a folder that nobody else uses yet. Returns the reason why it can't.
fn undo_in(folder: &Path, path: &str, saved: &[&SavedFile], contents: &LoadedContents) -> Result<(), String> {
    let relative = Path::new(path);
    let is_within = relative.components().all(|part| matches!(part, Component::Normal(_)));
    let place = folder.join(relative);
    let leads_in = || make_parents(folder, relative).map_err(|error| error.to_string());
    let link = saved_changes::was_link(saved).then(|| std::fs::read_link(&place).ok()).flatten();
    if !is_within || !leads_in()? || (place.is_symlink() && link.is_none()) {
        return Err("it is outside of the folder, or behind a link or a file".to_owned());
    }
    if place.is_dir() && link.is_none() {
        remove_empty_directories(&place).map_err(|error| format!("it is a directory: {error}"))?;
    }
    let removed = saved_changes::removed_encoding(saved);
    let read = || std::fs::read(&place).map(Contents::from_bytes);
    let (now, encoding) = match link.as_ref().map_or_else(read, |_| Err(io::ErrorKind::NotFound.into())) {
        Ok(Contents::Text(file)) if !file.lossy => {
            (Some(Content::Text(file.text)), removed.unwrap_or(file.encoding))
        }
        Ok(Contents::Text(_)) => return Err("it can't be decoded without loss".to_owned()),
        Ok(Contents::Binary { bytes, .. }) => {
            (Some(Content::Bytes(bytes.into())), removed.unwrap_or(TextEncoding::UTF_8))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            (None, removed.unwrap_or(TextEncoding::UTF_8))
        }
        Err(error) => return Err(error.to_string()),
    };
    let now = link.map_or(now, |target| Some(Content::Link(target.as_os_str().as_bytes().into())));
    let is_there = now.is_some();
    let was_link = now.as_ref().is_some_and(Content::is_link);
    let remove = |place: &Path| if is_there { std::fs::remove_file(place) } else { Ok(()) };
    let done = match saved_changes::undo(saved, now, contents) {
        Restored::Content(Some(Content::Link(target))) => {
            remove(&place).and_then(|()| symlink(OsStr::from_bytes(&target), &place))
        }
        Restored::Content(Some(content)) => {
            let bytes = bytes_of(&content, encoding)?;
            let removed = if was_link { remove(&place) } else { Ok(()) };
            let written = removed.and_then(|()| std::fs::write(&place, bytes));
            match !is_there && saved_changes::was_executable(saved) {
                true => written.and_then(|()| make_executable(&place)),
                false => written,
            }
        }
        Restored::Content(None) if is_there => std::fs::remove_file(&place),
        Restored::Content(None) => Ok(()),
        Restored::LeftOut(reason) => return Err(reason),
        Restored::Conflict { reason, .. } => return Err(reason.to_owned()),
    };
    done.map_err(|error| error.to_string())
}

/// Removes a directory in which there are only directories.
fn remove_empty_directories(directory: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_empty_directories(&entry.path())?;
        }
    }
    std::fs::remove_dir(directory)
}

#[cfg(test)]
mod tests {
    use roo_protocol::ids::Digest;
    use roo_workspace::FileText;

    use super::*;
    use crate::tool_run::SavedContent;

    #[test]
    fn changes_of_a_file_that_is_not_utf_8_are_undone_in_its_encoding() {
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path().canonicalize().unwrap();
        let wide = |text: &str| -> Vec<u8> {
            format!("\u{feff}{text}").encode_utf16().flat_map(u16::to_le_bytes).collect()
        };
        let Contents::Text(FileText { encoding, .. }) = Contents::from_bytes(wide("x")) else { panic!() };
        let texts = ["Straße\n", "Gasse\n"];
        let contents = LoadedContents::from(texts.map(|text| (Digest::of(text), text.as_bytes().to_vec())));
        let [old, new] = texts.map(|text| SavedContent::Kept(Digest::of(text)));
        let changed = SavedFile {
            path: "a".into(),
            before: old,
            after: new,
            lines: vec![],
            encoding: None,
            executable: false,
            directories: 0,
        };
        let deleted = SavedFile { after: SavedContent::Absent, encoding: Some(encoding), ..changed.clone() };
        std::fs::write(folder.join("a"), wide("Gasse\n")).unwrap();
        undo_in(&folder, "a", &[&changed], &contents).unwrap();
        assert_eq!(std::fs::read(folder.join("a")).unwrap(), wide("Straße\n"));
        std::fs::remove_file(folder.join("a")).unwrap();
        undo_in(&folder, "a", &[&deleted], &contents).unwrap();
        assert_eq!(std::fs::read(folder.join("a")).unwrap(), wide("Straße\n"));
        // Deleted and recreated in UTF-8.
        std::fs::write(folder.join("a"), "Gasse\n").unwrap();
        let made = SavedFile { before: SavedContent::Absent, ..changed };
        undo_in(&folder, "a", &[&deleted, &made], &contents).unwrap();
        assert_eq!(std::fs::read(folder.join("a")).unwrap(), wide("Straße\n"));
    }

    #[test]
    fn files_directories_and_links_take_each_others_place_in_another_folder() {
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path().canonicalize().unwrap();
        let texts = ["text\n", "target", "other"];
        let contents = LoadedContents::from(texts.map(|text| (Digest::of(text), text.as_bytes().to_vec())));
        let kept = SavedContent::Kept(Digest::of("text\n"));
        let [link, other] = ["target", "other"].map(|target| SavedContent::Link(Digest::of(target)));
        let file = |before, after| SavedFile {
            path: "a".into(),
            before,
            after,
            lines: vec![],
            encoding: None,
            executable: false,
            directories: 0,
        };
        let place = folder.join("a");
        std::fs::create_dir_all(place.join("empty")).unwrap();
        undo_in(&folder, "a", &[&file(kept, SavedContent::Absent)], &contents).unwrap();
        assert_eq!(std::fs::read_to_string(&place).unwrap(), "text\n");
        undo_in(&folder, "a", &[&file(link, kept)], &contents).unwrap();
        assert_eq!(std::fs::read_link(&place).unwrap(), Path::new("target"));
        // It leads to somewhere else by now.
        assert!(undo_in(&folder, "a", &[&file(kept, other)], &contents).is_err());
        undo_in(&folder, "a", &[&file(kept, link)], &contents).unwrap();
        assert_eq!(std::fs::read_to_string(&place).unwrap(), "text\n");
    }

    #[test]
    fn pictures_are_undone_in_another_folder_by_their_bytes() {
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path().canonicalize().unwrap();
        let (old, new) = (b"\x89PNG\r\n\x1a\n old", b"\x89PNG\r\n\x1a\n new");
        let contents = LoadedContents::from([old, new].map(|bytes| (Digest::of(bytes), bytes.to_vec())));
        let [kept_old, kept_new] = [old, new].map(|bytes| SavedContent::KeptBytes(Digest::of(bytes)));
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
        std::fs::write(folder.join("a"), new).unwrap();
        undo_in(&folder, "a", &[&changed], &contents).unwrap();
        assert_eq!(std::fs::read(folder.join("a")).unwrap(), old);
        undo_in(&folder, "a", &[&made], &contents).unwrap();
        assert!(!folder.join("a").exists());
    }
}
