//! workspace (being built): a stand-in with what `tools::execute_command` uses.

use std::path::{Path, PathBuf};

/// A path that the resolver let through.
#[derive(Debug)]
pub struct Resolved {
    absolute: PathBuf,
}

impl Resolved {
    /// Stand-in.
    pub fn new(absolute: PathBuf) -> Self {
        Self { absolute }
    }
    /// The path.
    pub fn absolute(&self) -> &Path {
        &self.absolute
    }
    /// For people and models.
    pub fn display(&self) -> String {
        self.absolute.display().to_string()
    }
}

/// The files.
#[derive(Default)]
pub struct Workspace {
    /// Stand-in: the first root.
    pub root: PathBuf,
    /// Stand-in: what stays unsaved.
    pub unsaved: Vec<Unsaved>,
}

/// An open document whose text is not on disk.
#[derive(Clone)]
pub struct Unsaved {
    /// As the editor names it.
    pub uri: String,
    /// Its real path, for people.
    pub path: String,
}

impl Workspace {
    /// Saves dirty buffers and returns those that stay unsaved.
    pub async fn save_dirty(&self) -> Vec<Unsaved> {
        self.unsaved.clone()
    }

    /// Writes a file of a task directory, relative to the first root.
    pub fn save_output(&self, relative: &str, bytes: &[u8]) -> Result<(), String> {
        let path = self.root.join(relative);
        path.parent()
            .map_or(Ok(()), std::fs::create_dir_all)
            .and_then(|()| std::fs::write(&path, bytes))
            .map_err(|error| format!("{relative} can't be written: {error}"))
    }
}
