//! An editor whose answers follow from the seed, and what its user types into it.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use roo_durable::simulated_disk::Random;
use roo_protocol::task::Range;
use roo_text::position::{Encoding, apply_change};
use roo_workspace::{Change, DocumentChange, Documents, EditRefused, Editor, FileOperations, file_uri};

use super::plan::{Part, Plan, numbers};
use super::world::Witness;

/// The encoding of positions.
pub const ENCODING: Encoding = Encoding::Utf16;

/// An editor. It outlives the server, and tells the next one what it has open.
#[derive(Debug)]
pub struct PlannedEditor {
    folder: PathBuf,
    plan: Plan,
    witness: Witness,
    state: Mutex<State>,
}

struct State {
    random: Random,
    buffers: BTreeMap<String, Buffer>,
    documents: Arc<Documents>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("buffers", &self.buffers).finish_non_exhaustive()
    }
}

#[derive(Clone, Debug)]
struct Buffer {
    uri: String,
    version: i32,
    text: String,
}

/// A document, the version that the ranges are of, and the edits.
type DocumentEdits = (String, Option<i32>, Vec<(Range, String)>);

/// How the editor takes an edit.
enum Mood {
    Willing,
    /// It refuses.
    Refuses,
    /// Its user types in between.
    Typing,
    /// It never answers, but may have applied the edit.
    Silent {
        applies: bool,
    },
}

impl PlannedEditor {
    pub fn new(folder: PathBuf, plan: &Plan, witness: Witness) -> Self {
        let random = numbers(plan.seed, Part::Editor);
        let state = State { random, buffers: BTreeMap::new(), documents: Arc::default() };
        Self { folder, plan: plan.clone(), witness, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn uri(&self, name: &str) -> String {
        file_uri(&self.folder.join(name))
    }

    /// A server begins: it is told what is open.
    pub fn connect(&self, documents: Arc<Documents>) {
        let mut state = self.state();
        for buffer in state.buffers.values() {
            documents.open(&buffer.uri, buffer.version, buffer.text.as_str());
        }
        state.documents = documents;
    }

    /// The machine has lost power: what was not saved is gone.
    pub fn lose_power(&self) {
        let mut state = self.state();
        for (name, buffer) in std::mem::take(&mut state.buffers) {
            let saved = fs::read_to_string(self.folder.join(&name)).unwrap_or_default();
            let mut seen = self.witness.seen();
            for line in buffer.text.lines().filter(|line| !saved.lines().any(|kept| kept == *line)) {
                if let Some(lines) = seen.by_user.get_mut(&name) {
                    lines.remove(line);
                }
            }
        }
    }

    /// The text of an open file.
    pub fn text(&self, name: &str) -> Option<String> {
        self.state().buffers.get(name).map(|buffer| buffer.text.clone())
    }

    /// Opens a file, or closes it if nothing is unsaved.
    pub fn toggle(&self, name: &str) {
        let mut state = self.state();
        let saved = fs::read_to_string(self.folder.join(name));
        match (state.buffers.get(name), saved) {
            (Some(buffer), Ok(saved)) if buffer.text == saved => {
                state.documents.close(&self.uri(name)).unwrap();
                state.buffers.remove(name);
                drop(state);
                self.witness.tell(format!("the user closes {name}"));
            }
            (None, Ok(text)) => {
                let buffer = Buffer { uri: self.uri(name), version: 1, text };
                state.documents.open(&buffer.uri, 1, buffer.text.as_str());
                state.buffers.insert(name.to_owned(), buffer);
                drop(state);
                self.witness.tell(format!("the user opens {name}"));
            }
            _ => {}
        }
    }

    /// The user types a line at the end of an open file.
    pub fn type_line(&self, name: &str, line: &str) -> bool {
        let mut state = self.state();
        let State { buffers, documents, .. } = &mut *state;
        let Some(buffer) = buffers.get_mut(name) else { return false };
        buffer.text.push_str(line);
        buffer.text.push('\n');
        buffer.version += 1;
        let change = Change { range: None, text: buffer.text.clone() };
        documents.change(&buffer.uri, buffer.version, &[change], ENCODING).unwrap();
        true
    }

    /// The user saves an open file.
    pub fn save_file(&self, name: &str) {
        let state = self.state();
        if let Some(buffer) = state.buffers.get(name) {
            fs::write(self.folder.join(name), &buffer.text).unwrap();
            state.documents.save(&buffer.uri).unwrap();
        }
    }

    fn mood(&self) -> Mood {
        let mut state = self.state();
        let random = &mut state.random;
        match self.plan.editor_faults.happens(random) {
            false => Mood::Willing,
            true => match random.below(4) {
                0 => Mood::Refuses,
                1 => Mood::Typing,
                _ => Mood::Silent { applies: random.one_in(2) },
            },
        }
    }

    fn name_of(&self, uri: &str) -> Option<String> {
        self.state().buffers.iter().find(|(_, buffer)| buffer.uri == uri).map(|(name, _)| name.clone())
    }

    /// Applies edits to open documents, all of them or none.
    fn apply(&self, edits: Vec<DocumentEdits>) -> Result<(), EditRefused> {
        let refused = |reason: &str| EditRefused { reason: reason.to_owned() };
        let mut changed = Vec::new();
        for (uri, version, edits) in edits {
            let name = self.name_of(&uri).ok_or_else(|| refused("it is not open"))?;
            let buffer = self.state().buffers[&name].clone();
            if version.is_some_and(|version| version != buffer.version) {
                return Err(refused("it has changed"));
            }
            let mut text = buffer.text.clone();
            let mut edits = edits;
            edits.sort_by_key(|(range, _)| (range.start.line, range.start.character));
            for (range, new) in edits.into_iter().rev() {
                apply_change(&mut text, Some(range), &new, ENCODING);
            }
            changed.push((name, Buffer { version: buffer.version + 1, text, ..buffer }));
        }
        let mut state = self.state();
        for (name, buffer) in changed {
            let change = Change { range: None, text: buffer.text.clone() };
            state.documents.change(&buffer.uri, buffer.version, &[change], ENCODING).unwrap();
            state.buffers.insert(name, buffer);
        }
        Ok(())
    }

    async fn take(&self, edits: Vec<DocumentEdits>) -> Result<(), EditRefused> {
        for line in edits.iter().flat_map(|(.., edits)| edits).flat_map(|(_, text)| text.lines()) {
            if self.witness.seen().by_model.contains(line) {
                self.witness.is_done("the editor is told to write", line);
            }
        }
        let mood = self.mood();
        tokio::time::sleep(Duration::from_millis(7)).await;
        match mood {
            Mood::Willing => self.apply(edits),
            Mood::Refuses => Err(EditRefused { reason: "the user is holding it".to_owned() }),
            Mood::Typing => {
                for (uri, ..) in &edits {
                    if let Some(name) = self.name_of(uri) {
                        self.user_types(&name);
                    }
                }
                self.apply(edits)
            }
            Mood::Silent { applies } => {
                if applies {
                    // What it says is never heard.
                    let _ = self.apply(edits);
                }
                std::future::pending().await
            }
        }
    }

    /// The user types a new line into an open file.
    pub fn user_types(&self, name: &str) {
        let line = format!("user {:08x}", self.state().random.next() & 0xffff_ffff);
        if self.type_line(name, &line) {
            self.witness.tell(format!("the user types '{line}' into {name}"));
            self.witness.seen().by_user.entry(name.to_owned()).or_default().insert(line);
        }
    }
}

impl Editor for PlannedEditor {
    fn apply_edit<'a>(
        &'a self,
        _: &'a str,
        uri: &'a str,
        version: i32,
        edits: Vec<(Range, String)>,
    ) -> BoxFuture<'a, Result<(), EditRefused>> {
        Box::pin(self.take(vec![(uri.to_owned(), Some(version), edits)]))
    }

    fn apply_all<'a>(
        &'a self,
        _: &'a str,
        changes: Vec<DocumentChange>,
    ) -> BoxFuture<'a, Result<(), EditRefused>> {
        let edits = changes.into_iter().map(|change| match change {
            DocumentChange::Text { uri, version, edits } => Some((uri, version, edits)),
            _ => None,
        });
        match edits.collect() {
            Some(edits) => Box::pin(self.take(edits)),
            None => {
                let reason = "it changes only texts".to_owned();
                Box::pin(std::future::ready(Err(EditRefused { reason })))
            }
        }
    }

    fn file_operations(&self) -> FileOperations {
        FileOperations::default()
    }

    fn save<'a>(&'a self, uris: &'a [String]) -> BoxFuture<'a, Vec<String>> {
        Box::pin(async move {
            match self.mood() {
                Mood::Willing | Mood::Typing => {
                    for uri in uris {
                        if let Some(name) = self.name_of(uri) {
                            self.save_file(&name);
                        }
                    }
                    uris.to_vec()
                }
                Mood::Refuses => vec![],
                Mood::Silent { .. } => std::future::pending().await,
            }
        })
    }
}
