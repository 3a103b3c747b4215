//! The `.orchestration` directory of a workspace as policy sees it: which intents there are now, which
//! version of each the user has accepted, and the server's own changes to the file.
//!
//! Read again whenever it is asked, never watched. What the text means is said in [`roo_formats::intents`];
//! whether a call may run under an intent, in [`crate::policy`].

mod accepted;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use self::accepted::Accepted;
use roo_durable::PrivateFile;
use roo_formats::intents::{
    self, Change, EditError, FILE_LIMIT, IGNORED_INTENTS, INTENTS_FILE, Intent, IntentFile, NewIntent, Status,
};
use roo_formats::{FileProblem, Problem};
use roo_protocol::ids::Digest;
use roo_protocol::intent::{IntentItem, IntentListResult};
use roo_workspace::{Location, PathError, Purpose, ReadError, Workspace, WriteError, read_disk};

/// An intent as a task has bound it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Binding {
    /// The intent.
    pub id: String,
    /// Of what governed when it was bound.
    pub digest: Digest,
}

/// The intents of a workspace at one moment.
#[derive(Clone, Debug)]
pub enum Intents {
    /// There is no file: the implicit intent applies.
    Absent,
    /// There is one that can't be read: nothing may be changed.
    Broken(Problem),
    /// Content of the file, and the ids that may not be selected.
    Present {
        file: Arc<IntentFile>,
        /// From `.intentignore`.
        ignored: Arc<Vec<String>>,
    },
}

impl Intents {
    /// What is wrong with the file, or with intents in it.
    pub fn problems(&self) -> Vec<FileProblem> {
        let problems = match self {
            Self::Absent => &[],
            Self::Broken(problem) => std::slice::from_ref(problem),
            Self::Present { file, .. } => file.problems.as_slice(),
        };
        problems.iter().map(|problem| FileProblem::new(Path::new(INTENTS_FILE), problem.clone())).collect()
    }
}

/// Reasons why an intent can't be used. The texts are for models.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IntentRefusal {
    /// None is bound, or none of that id may be.
    #[error("You must cite a valid active Intent ID.{0}")]
    NoActive(String),
    /// The file is broken.
    #[error("{INTENTS_FILE} can't be read, so nothing may be changed: {0}. Ask the user to correct it.")]
    Broken(String),
    /// The file is gone that had the intent which was bound.
    #[error(
        "{INTENTS_FILE} is not there any more, and the task is bound to {0} of it, so nothing may be changed. Ask the user to \
         bring it back, such as by switching to the branch that has it, or to start a new task."
    )]
    Gone(String),
    /// The governing part has changed since it was bound.
    #[error(
        "The intent {0} has changed since you selected it. Call select_active_intent again to see what \
         holds now."
    )]
    Stale(String),
    /// It, or one that it is within, allows more than the user has accepted.
    #[error(
        "The intent {0} allows more now than the user has accepted. The additions take effect once a task has selected it with select_active_intent and the user has accepted them."
    )]
    Wider(String),
}

impl IntentRefusal {
    /// The file has this problem.
    pub(crate) fn broken(problem: &Problem) -> Self {
        Self::Broken(told(problem).trim_end_matches('.').to_owned())
    }

    /// The field's name of the failure.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoActive(_) => "NO_ACTIVE_INTENT",
            Self::Broken(_) | Self::Gone(_) => "INTENT_INVALID",
            Self::Stale(_) | Self::Wider(_) => "INTENT_STALE",
        }
    }
}

/// Reasons why the file of intents was not changed.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// The change is no good.
    #[error(transparent)]
    Edit(#[from] EditError),
    /// The user has to accept it first.
    #[error("it allows more than the user has accepted: {}", .0.join("; "))]
    Loosens(Vec<String>),
    /// Somebody was faster.
    #[error("the intents file has changed in the meantime; review it again")]
    Changed,
    /// It can't be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// It can't be reached.
    #[error(transparent)]
    Path(#[from] PathError),
    /// It can't be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The accepted scope can't be saved.
    #[error("the accepted scope can't be saved: {0}")]
    Keep(String),
}

/// The intents of one workspace.
pub struct Orchestration {
    workspace: Arc<Workspace>,
    accepted: Accepted,
    parsed: Mutex<Option<(Digest, Parsed)>>,
}

/// Result of reading the file.
type Parsed = Result<Arc<IntentFile>, Problem>;

impl Orchestration {
    /// The intents of a workspace; what the user accepts of them is kept below `state_directory`, which is the
    /// workspace's part of the state directory.
    pub fn new(workspace: Arc<Workspace>, state_directory: &std::path::Path) -> Self {
        let accepted = Accepted::new(PrivateFile::new(state_directory.join("intents.json")));
        Self { workspace, accepted, parsed: Mutex::default() }
    }

    /// The intents as they are on disk now. What is typed and not saved does not count.
    pub fn intents(&self) -> Intents {
        let text = match self.text(INTENTS_FILE) {
            Ok(None) => return Intents::Absent,
            Ok(Some(text)) => text,
            Err(message) => {
                return Intents::Broken(Problem::error(None, message));
            }
        };
        let digest = Digest::of(&text);
        let mut parsed = self.parsed.lock().unwrap_or_else(PoisonError::into_inner);
        let file = match parsed.as_ref().filter(|(known, _)| *known == digest) {
            Some((_, file)) => file.clone(),
            None => {
                let file = IntentFile::parse(&text).map(Arc::new);
                *parsed = Some((digest, file.clone()));
                file
            }
        };
        drop(parsed);
        match file {
            Err(problem) => Intents::Broken(problem),
            Ok(file) => match self.text(IGNORED_INTENTS) {
                Ok(text) => Intents::Present { file, ignored: Arc::new(ids(text.as_deref())) },
                // Whom it was to keep out can't be told.
                Err(problem) => {
                    Intents::Broken(Problem::error(None, format!("{IGNORED_INTENTS}: {problem}")))
                }
            },
        }
    }

    /// All intents, for people.
    pub fn list(&self) -> IntentListResult {
        let (file, ignored) = match self.intents() {
            Intents::Absent => return IntentListResult::default(),
            Intents::Broken(problem) => {
                let problems = vec![told(&problem)];
                return IntentListResult { governed: true, intents: vec![], problems };
            }
            Intents::Present { file, ignored } => (file, ignored),
        };
        let item = |intent: &Intent| IntentItem {
            intent_id: intent.id.clone(),
            name: intent.name.clone(),
            status: intent.status.as_str().to_owned(),
            owned_scope: intent.owned_scope.clone(),
            constraints: intent.constraints.clone(),
            acceptance_criteria: intent.acceptance_criteria.clone(),
            digest: intent.digest(),
            selectable: intent.status.is_selectable() && !ignored.contains(&intent.id),
            loosened: self.loosened(intent),
        };
        IntentListResult {
            governed: true,
            intents: file.intents.iter().map(item).collect(),
            problems: file.problems.iter().map(told).collect(),
        }
    }

    /// The intent that may be selected under this id, with those that it is within.
    ///
    /// # Errors
    /// [`IntentRefusal`], in words for the model.
    pub fn selectable(&self, id: &str) -> Result<Arc<IntentFile>, IntentRefusal> {
        let (file, ignored) = self.present()?;
        let no = |why: &str| Err(IntentRefusal::NoActive(format!(" {why}")));
        if ignored.iter().any(|ignored| ignored == id) {
            return no(&format!(
                "{id} is listed in {IGNORED_INTENTS} and can't be selected.{}",
                active(&file, &ignored)
            ));
        }
        if let Some(why) = file.why_invalid(id) {
            return no(&format!("The intent {id} is not valid: {why}."));
        }
        let Some(intent) = file.get(id) else {
            let shown = roo_text::render::one_line(id, 64);
            return no(&format!("There is no intent '{shown}'.{}", active(&file, &ignored)));
        };
        if !intent.status.is_selectable() {
            return no(&format!("{id} is {}.{}", intent.status.as_str(), active(&file, &ignored)));
        }
        if file.ancestors(intent).is_none() {
            return no(&format!("A parent of {id} is missing, or the parents form a cycle."));
        }
        Ok(file)
    }

    /// The intent that a task has bound, as it is now.
    ///
    /// # Errors
    /// [`IntentRefusal`] when it has changed, closed or gone.
    pub fn bound(&self, binding: &Binding) -> Result<(Arc<IntentFile>, Intent), IntentRefusal> {
        let file = self.selectable(&binding.id)?;
        let stale = || IntentRefusal::Stale(binding.id.clone());
        let intent = file.get(&binding.id).ok_or_else(stale)?.clone();
        if intent.digest() != binding.digest {
            return Err(stale());
        }
        Ok((file, intent))
    }

    /// Returns what an intent now allows beyond what the user has accepted; none if the user has yet to see it first, and
    /// all of it where what was accepted can't be read.
    pub fn loosened(&self, intent: &Intent) -> Vec<String> {
        match self.accepted.get(&intent.id) {
            Ok(known) => known.map(|known| intent.loosens(&known)).unwrap_or_default(),
            Err(_) => intent.allows(),
        }
    }

    /// Keeps that the user has accepted an intent as it is.
    ///
    /// # Errors
    /// [`ChangeError::Keep`].
    pub fn accept(&self, intent: &Intent) -> Result<(), ChangeError> {
        self.accepted.put(intent).map_err(|error| ChangeError::Keep(error.to_string()))
    }

    /// Changes an intent in the file, leaving the rest of the text as it is. What the user accepts goes
    /// with it.
    ///
    /// # Errors
    /// [`ChangeError`]; [`ChangeError::Loosens`] when the change allows more than is accepted and
    /// `accepting` is not the digest of what would govern.
    pub async fn update(
        &self,
        id: &str,
        changes: &[Change],
        accepting: Option<Digest>,
    ) -> Result<Intent, ChangeError> {
        let (_, changed) = self.preview(id, changes).await?;
        let loosened = self.would_loosen(&changed).await?;
        if !loosened.is_empty() && accepting != Some(changed.digest()) {
            return Err(ChangeError::Loosens(loosened));
        }
        self.edit(&format!("roo-lsp: change intent {id}"), |text| intents::update(text, id, changes)).await?;
        self.accept(&changed)?;
        Ok(changed)
    }

    /// The intent as it is and as it would be.
    ///
    /// # Errors
    /// [`ChangeError`].
    pub async fn preview(&self, id: &str, changes: &[Change]) -> Result<(Intent, Intent), ChangeError> {
        let text = self.current().await?.map(|(text, _)| text).unwrap_or_default();
        let find = |text: &str| -> Result<Intent, ChangeError> {
            let file = IntentFile::parse(text).map_err(|problem| EditError::File(problem.to_string()))?;
            Ok(file.get(id).cloned().ok_or_else(|| EditError::Unknown(id.to_owned()))?)
        };
        Ok((find(&text)?, find(&intents::update(&text, id, changes)?)?))
    }

    async fn would_loosen(&self, changed: &Intent) -> Result<Vec<String>, ChangeError> {
        let known = match self.accepted.get(&changed.id) {
            Ok(Some(known)) => Some(known),
            Err(_) => return Ok(changed.allows()),
            // Until a task has selected it, the file itself is what the user has accepted.
            Ok(None) => {
                let text = self.current().await?.map(|(text, _)| text).unwrap_or_default();
                IntentFile::parse(&text).ok().and_then(|file| file.get(&changed.id).cloned())
            }
        };
        Ok(known.map(|known| changed.loosens(&known)).unwrap_or_default())
    }

    /// Adds an intent to the file, which is made where there is none.
    ///
    /// # Errors
    /// [`ChangeError`].
    pub async fn create(&self, new: &NewIntent) -> Result<(), ChangeError> {
        self.edit(&format!("roo-lsp: add intent {}", new.id), |text| intents::create(text, new)).await
    }

    /// Puts an intent that nobody has worked on yet to work. Nothing else is changed.
    ///
    /// # Errors
    /// [`ChangeError`].
    pub async fn begin(&self, id: &str) -> Result<(), ChangeError> {
        self.edit(&format!("roo-lsp: begin intent {id}"), |text| {
            let file = IntentFile::parse(text).map_err(|problem| EditError::File(problem.to_string()))?;
            match file.get(id).map(|intent| intent.status) {
                Some(Status::Pending) => intents::update(text, id, &[Change::Status(Status::InProgress)]),
                _ => Ok(text.to_owned()),
            }
        })
        .await
    }

    async fn edit(
        &self,
        label: &str,
        edit: impl FnOnce(&str) -> Result<String, EditError>,
    ) -> Result<(), ChangeError> {
        let current = self.current().await?;
        let (text, digest) = current.map_or((String::new(), None), |(text, digest)| (text, Some(digest)));
        let changed = edit(&text)?;
        if changed == text {
            return Ok(());
        }
        let place = self.workspace.resolve(INTENTS_FILE, Purpose::Write)?;
        self.workspace.write(&place, digest, &changed, label).await.map_err(|error| match error {
            WriteError::Stale { .. } | WriteError::Exists { .. } => ChangeError::Changed,
            other => other.into(),
        })?;
        // Policy goes by what is on disk.
        self.workspace.save(&place).await;
        Ok(())
    }

    /// The text of the file, with what is typed and not saved.
    async fn current(&self) -> Result<Option<(String, Digest)>, ChangeError> {
        let place = self.workspace.resolve(INTENTS_FILE, Purpose::Write)?;
        match self.workspace.read_for_edit(&place).await {
            Ok(file) => Ok(Some((file.text, file.digest))),
            Err(ReadError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn present(&self) -> Result<(Arc<IntentFile>, Arc<Vec<String>>), IntentRefusal> {
        match self.intents() {
            Intents::Present { file, ignored } => Ok((file, ignored)),
            Intents::Broken(problem) => Err(IntentRefusal::broken(&problem)),
            Intents::Absent => Err(IntentRefusal::NoActive(format!(" There is no {INTENTS_FILE}."))),
        }
    }

    /// The text of a file below the first root; none when there is none.
    fn text(&self, path: &str) -> Result<Option<String>, String> {
        let place = match self.workspace.resolve(path, Purpose::Read) {
            Ok(place) => place,
            Err(PathError::NoRoot { .. } | PathError::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error.to_string()),
        };
        if !matches!(place.location(), Location::Inside { root: 0 }) {
            return Err("it points outside the workspace folder".to_owned());
        }
        match read_disk(&place, FILE_LIMIT as u64 + 1) {
            Ok(bytes) => String::from_utf8(bytes).map(Some).map_err(|_| "it is not UTF-8".to_owned()),
            Err(ReadError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// A problem with its line.
fn told(problem: &Problem) -> String {
    match problem.start() {
        Some(at) => format!("line {}: {problem}", at.line),
        None => problem.to_string(),
    }
}

/// The ids of a `.intentignore`, one a line; `#` begins a comment.
fn ids(text: Option<&str>) -> Vec<String> {
    let lines =
        text.unwrap_or_default().lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    lines.filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// Lists the intents that may be selected, to follow a refusal.
fn active(file: &IntentFile, ignored: &[String]) -> String {
    let active: Vec<&str> = file
        .intents
        .iter()
        .filter(|intent| intent.status.is_selectable() && !ignored.contains(&intent.id))
        .map(|intent| intent.id.as_str())
        .take(20)
        .collect();
    match active.as_slice() {
        [] => " No intent is active; ask the user to add one.".to_owned(),
        ids => format!(" Active are {}.", ids.join(", ")),
    }
}

#[cfg(test)]
mod tests;
