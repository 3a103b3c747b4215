//! Edits that the user makes themselves through the server, such as to undo what an agent has changed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::gate::Gate;
use crate::tool_run::make_executable;
use roo_workspace::{
    BytesEdit, ChangedFile, FileEdit, FileOrLink, Location, PathEntry, Resolved, TextEncoding,
};

#[derive(Clone, Debug, Default)]
pub(crate) struct RestoreEdits {
    pub(crate) texts: Vec<FileEdit>,
    /// Of files that are no text, or become none or text again.
    pub(crate) bytes: Vec<BytesEdit>,
    /// Places where something else is than is to be. Their turn comes when the files are written.
    pub(crate) replaced: Vec<ReplacedPlace>,
    /// Files among those that are made, which can be executed.
    pub(crate) executables: Vec<Resolved>,
    /// Directories that were made for files among those that are deleted.
    pub(crate) directories: BTreeSet<PathBuf>,
}

/// A place where one kind of thing makes room for another.
#[derive(Clone, Debug)]
pub(crate) struct ReplacedPlace {
    pub(crate) place: Resolved,
    /// What is there.
    pub(crate) standing: PathEntry,
    pub(crate) made: MadeThere,
}

/// What comes to a place.
#[derive(Clone, Debug)]
pub(crate) enum MadeThere {
    /// Nothing, where a link is.
    Nothing,
    /// A text, where room is made.
    Text(FileEdit),
    /// What is no text, where room is made.
    Bytes(BytesEdit),
    /// A symbolic link to this, where room is made.
    Link(Arc<[u8]>),
    /// The second for the first.
    Swapped(FileOrLink, FileOrLink),
}

impl RestoreEdits {
    pub(crate) fn is_empty(&self) -> bool {
        self.texts.is_empty() && self.bytes.is_empty() && self.replaced.is_empty()
    }

    /// The absolute paths at which nothing is left.
    pub(crate) fn removed_places(&self) -> BTreeSet<PathBuf> {
        let texts = self.texts.iter().filter(|edit| edit.after().is_none()).map(FileEdit::file);
        let bytes = self.bytes.iter().filter(|edit| edit.after.is_none()).map(|edit| &edit.file);
        let replaced = self.replaced.iter().filter(|it| matches!(it.made, MadeThere::Nothing));
        let removed = texts.chain(bytes).chain(replaced.map(|it| &it.place));
        removed.map(|place| place.absolute().to_owned()).collect()
    }
}

impl Gate {
    /// Writes edits of the user's to files of one workspace folder, all or none, if each file is as its edit says. Rules
    /// for agents don't bind the user, but nothing outside of the workspace folders is written.
    async fn write_all_for_user(
        &self,
        edits: &[FileEdit],
        bytes: &[BytesEdit],
        label: &str,
    ) -> Result<Vec<ChangedFile>, String> {
        let mut places = edits.iter().flat_map(FileEdit::places).chain(bytes.iter().map(|edit| &edit.file));
        if let Some(place) = places.find(|place| !matches!(place.location(), Location::Inside { .. })) {
            return Err(format!("{} is outside of the workspace", place.display()));
        }
        self.workspace().write_all_with(edits, bytes, label).await.map_err(|error| error.reason())
    }

    /// Restores files: those of a workspace folder all or none, and where one folder fails, those of the others get back
    /// what they held. What takes the place of something else comes last.
    ///
    /// # Errors
    /// The reason, in words for the user.
    pub(crate) async fn restore_for_user(&self, edits: &RestoreEdits, label: &str) -> Result<(), String> {
        let inverses = self.write_by_folder(&edits.texts, &edits.bytes, label).await?;
        if let Err(reason) = self.replace_for_user(&edits.replaced, label).await {
            return Err(format!("{reason}{}", self.write_back(inverses, label).await));
        }
        for file in &edits.executables {
            if let Err(error) = make_executable(file.absolute()) {
                tracing::warn!(%error, file = %file.display(), "a restored file can't be made executable");
            }
        }
        // What is below comes behind what is above it, and one that holds anything stays.
        for directory in edits.directories.iter().rev() {
            let _ = fs::remove_dir(directory);
        }
        Ok(())
    }

    /// Makes room, and writes what comes there. Where that fails, what was there is put back.
    async fn replace_for_user(&self, replaced: &[ReplacedPlace], label: &str) -> Result<(), String> {
        let (mut texts, mut bytes, mut done) = (vec![], vec![], vec![]);
        let mut problem = None;
        for replaced in replaced {
            match &replaced.made {
                MadeThere::Text(edit) => texts.push(edit.clone()),
                MadeThere::Bytes(edit) => bytes.push(edit.clone()),
                MadeThere::Nothing | MadeThere::Link(_) | MadeThere::Swapped(..) => {}
            }
            match self.replace(replaced) {
                Ok(()) => done.push(replaced),
                Err(error) => {
                    problem = Some(format!("{}: {error}", replaced.place.display()));
                    break;
                }
            }
        }
        if problem.is_none() {
            problem = self.write_by_folder(&texts, &bytes, label).await.err();
        }
        let Some(mut problem) = problem else { return Ok(()) };
        for replaced in done.into_iter().rev() {
            if let Err(error) = self.put_back(replaced) {
                problem.push_str(&format!("; {} could not be put back: {error}", replaced.place.display()));
            }
        }
        Err(problem)
    }

    fn replace(&self, ReplacedPlace { place, standing, made }: &ReplacedPlace) -> io::Result<()> {
        let workspace = self.workspace();
        match made {
            MadeThere::Swapped(from, to) => workspace.swap(place, from, to),
            MadeThere::Nothing | MadeThere::Text(_) | MadeThere::Bytes(_) => {
                workspace.make_room(place, standing)
            }
            MadeThere::Link(target) => {
                workspace.make_room(place, standing)?;
                workspace.make_link(place, target)
            }
        }
    }

    /// Takes back what was replaced. Directories come back with their files.
    fn put_back(&self, ReplacedPlace { place, standing, made }: &ReplacedPlace) -> io::Result<()> {
        let workspace = self.workspace();
        match (made, standing) {
            (MadeThere::Swapped(from, to), _) => workspace.swap(place, to, from),
            (MadeThere::Link(target), _) => workspace.make_room(place, &PathEntry::Link(target.to_vec())),
            (MadeThere::Nothing, PathEntry::Link(target)) => workspace.make_link(place, target),
            _ => Ok(()),
        }
    }

    /// Writes files, those of a workspace folder all or none. Where one folder fails, those of the others get back what they
    /// held. Returns what takes it all back.
    async fn write_by_folder(
        &self,
        texts: &[FileEdit],
        bytes: &[BytesEdit],
        label: &str,
    ) -> Result<Vec<FolderEdits>, String> {
        let root_of = |file: &Resolved| match file.location() {
            Location::Inside { root } => Ok(root),
            Location::Outside => Err(format!("{} is outside of the workspace", file.display())),
        };
        let mut by_root: BTreeMap<usize, FolderEdits> = BTreeMap::new();
        for edit in texts {
            by_root.entry(root_of(edit.file())?).or_default().0.push(edit.clone());
        }
        for edit in bytes {
            by_root.entry(root_of(&edit.file)?).or_default().1.push(edit.clone());
        }
        let mut inverses: Vec<FolderEdits> = Vec::new();
        for (texts, bytes) in by_root.into_values() {
            match self.write_all_for_user(&texts, &bytes, label).await {
                Ok(changed) => {
                    let encodings = changed
                        .into_iter()
                        .map(|changed| changed.removed_encoding.unwrap_or(TextEncoding::UTF_8));
                    let texts = texts.into_iter().zip(encodings);
                    inverses.push((
                        texts.map(|(edit, encoding)| edit.inverse(encoding)).collect(),
                        bytes.into_iter().map(BytesEdit::inverse).collect(),
                    ));
                }
                Err(reason) => return Err(format!("{reason}{}", self.write_back(inverses, label).await)),
            }
        }
        Ok(inverses)
    }

    /// Takes edits back. Returns what could not be, in words that follow a reason.
    async fn write_back(&self, inverses: Vec<FolderEdits>, label: &str) -> String {
        let mut left = String::new();
        for (texts, bytes) in inverses.into_iter().rev() {
            if let Err(error) = self.write_all_for_user(&texts, &bytes, label).await {
                left.push_str(&format!("; files of another folder could not be put back: {error}"));
            }
        }
        left
    }
}

/// Edits of the files of one workspace folder.
type FolderEdits = (Vec<FileEdit>, Vec<BytesEdit>);
