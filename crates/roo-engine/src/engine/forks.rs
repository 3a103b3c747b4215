//! Forks of requests: a new request that begins with the events of another one, up to any of them.
//!
//! The events are shared, not copied (`roo-durable/src/fork.rs`), and read under the fork's own ids. Its first event of its
//! own is [`Event::Forked`], which makes what was open void; with the ends that follow from that, it is the beginning of the
//! fork's log, so there is no fork without them.

use std::path::PathBuf;

use tokio_util::sync::CancellationToken;

use super::event::Event;
use super::log_fold::{fold_log, state};
use super::shared_records::as_own;
use super::{Engine, EngineError};
use crate::mentions::git::{Git, NewWorkTree, WorkTreePurpose};
use roo_durable::{Record, RequestDirectory};
use roo_formats::modes;
use roo_protocol::checkpoint::LeftOutFile;
use roo_protocol::ids::{TaskId, Urid};
use roo_protocol::task::{ForkOrigin, SendWhen, TaskForkParams, TaskForkResult, TaskSendParams};
use roo_sandbox::exec::{Environment, EnvironmentRules};
use roo_text::render;

impl Engine {
    /// Forks a request, running or not: what it does goes on. Nothing of it runs in the fork, which waits for a message unless a
    /// prompt is given.
    ///
    /// # Errors
    /// [`EngineError::NotFound`] for an event that isn't there, [`EngineError::WrongState`] for a branch,
    /// [`EngineError::Configuration`] for an empty prompt, [`EngineError::Store`] when the log can't be made.
    pub async fn fork(&self, params: TaskForkParams) -> Result<TaskForkResult, EngineError> {
        if params.worktree && params.prompt.is_some() {
            let problem =
                "a fork with a folder of its own goes on where that is opened, so it takes no prompt here";
            return Err(EngineError::Mismatch { problem: problem.to_owned() });
        }
        let forked = self.begin_fork(&params).await?;
        if let Some(text) = params.prompt {
            let (task_id, when) = (forked.task_id.clone(), SendWhen::Now);
            self.send(TaskSendParams { task_id, text, images: vec![], when }).await?;
        }
        Ok(forked)
    }

    /// Forks a request as [`Engine::fork`] does, but leaves it to the caller to say the prompt.
    ///
    /// # Errors
    /// Those of [`Engine::fork`].
    pub async fn begin_fork(&self, params: &TaskForkParams) -> Result<TaskForkResult, EngineError> {
        let TaskForkParams { task_id, seq, prompt, worktree } = params.clone();
        if prompt.as_ref().is_some_and(|prompt| prompt.trim().is_empty()) {
            return Err(EngineError::Configuration("the prompt is empty".into()));
        }
        if !task_id.is_root() {
            let problem = "it is a branch; fork its request instead".to_owned();
            return Err(EngineError::WrongState { task: task_id, problem });
        }
        let parent = self.readable(&task_id).await?;
        let newest = self.read(&task_id).await?.last_seq();
        let seq = seq.unwrap_or(newest);
        // Before its second event a request has no prompt.
        if !(2..=newest).contains(&seq) {
            return Err(EngineError::NotFound { what: "event", id: seq.to_string() });
        }
        let directory = parent.clone();
        let seq = roo_durable::spawn_blocking(move || with_result(&directory, seq)).await;
        let seq = seq.unwrap_or(Err(EngineError::Ending))?;
        let id = TaskId::new(self.services.clock.ordered().to_string());
        let (urid, files) = match worktree {
            true => {
                let clock = &self.services.clock;
                let urid = modes::urid(clock.zoned().datetime(), clock.random());
                let files = self.own_files(&task_id, seq, &urid).await?;
                (urid, files)
            }
            false => {
                let (urid, directory) = self.draw_urid();
                let directory = directory.unwrap_or_else(|error| {
                    tracing::warn!(%urid, %error, "a fork has no directory for working files");
                    None
                });
                (urid, ForkFiles { work_tree: None, folder: None, directory, left_out: vec![] })
            }
        };
        let ForkFiles { work_tree, folder, directory, left_out } = files;
        let fork = NewFork {
            urid: urid.clone(),
            title: prompt.as_deref().map(|prompt| render::one_line(prompt.trim(), super::task::TITLE)),
            directory,
            at: self.now(),
        };
        let requests = folder
            .as_ref()
            .map_or_else(|| self.directory.clone(), |folder| self.directory.for_workspace(folder));
        let (place, own) = (requests.request(&id), id.clone());
        let made = roo_durable::spawn_blocking(move || fork.make((&parent, &task_id), seq, (&place, &own)));
        if let Err(error) = made.await.unwrap_or(Err(EngineError::Ending)) {
            if let Some(top) = work_tree {
                let environment = self.git_environment().await;
                let git = Git { workspace: self.workspace(), environment: &environment };
                git.remove_work_tree(&top).await;
            }
            return Err(error);
        }
        if let Some(folder) = folder {
            let folder = Some(folder.display().to_string());
            return Ok(TaskForkResult { task_id: id, urid, seq, folder, left_out });
        }
        drop(self.open(&id).await?);
        Ok(TaskForkResult { task_id: id, urid, seq, folder: None, left_out })
    }

    /// Makes a git worktree for a fork, with the files as they were at an event of the request.
    async fn own_files(&self, request: &TaskId, seq: u64, urid: &Urid) -> Result<ForkFiles, EngineError> {
        let workspace = self.workspace();
        if workspace.roots().paths().count() != 1 {
            let problem = "a fork has a folder of its own only where the workspace is one folder";
            return Err(EngineError::Configuration(problem.to_owned()));
        }
        let environment = self.git_environment().await;
        let git = Git { workspace, environment: &environment };
        let made = git.add_work_tree(WorkTreePurpose::Fork, urid.as_str(), &CancellationToken::new()).await;
        let made = made.map_err(|error| {
            EngineError::Configuration(format!("the fork can't have a git worktree of its own: {error}"))
        })?;
        let NewWorkTree { top, folder, left_out } = made;
        let reason = "it is neither a file nor a link";
        let left_out = left_out.into_iter().map(|path| LeftOutFile { path, reason: reason.to_owned() });
        let mut left_out: Vec<LeftOutFile> = left_out.collect();
        match self.undo_since(request, seq, &folder).await {
            Ok(not_undone) => left_out.extend(not_undone),
            Err(error) => {
                git.remove_work_tree(&top).await;
                return Err(error);
            }
        }
        let directory = modes::task_directory(urid);
        if let Err(error) = std::fs::create_dir_all(folder.join(&directory)) {
            tracing::warn!(%urid, %error, "a fork has no directory for working files");
        }
        // By its real path, as whoever opens it finds its state by that.
        let folder = folder.canonicalize().unwrap_or(folder);
        Ok(ForkFiles { work_tree: Some(top), folder: Some(folder), directory: Some(directory), left_out })
    }

    async fn git_environment(&self) -> Environment {
        Environment::inherited_by(&EnvironmentRules::new(self.settings().await.sandbox.env.clone()))
    }
}

/// Returns the number of the result of the call whose checkpoint an event is: what has changed without it would look as if it had been
/// interrupted. Of any other event its own. Reads the disk.
fn with_result(request: &RequestDirectory, seq: u64) -> Result<u64, EngineError> {
    let (mut call, mut found) = (None, seq);
    roo_durable::read_while(request, 0, |record: Record<Event>| {
        match record.event {
            Event::CheckpointSaved { call_id, .. } if record.seq == seq => call = Some(call_id),
            // They are one append.
            Event::ToolFinished { result, .. } if call.as_ref() == Some(&result.call_id) => {
                found = record.seq
            }
            _ => {}
        }
        record.seq <= seq
    })?;
    Ok(found)
}

/// Where a fork works.
struct ForkFiles {
    /// The top of the git worktree that was made for it.
    work_tree: Option<PathBuf>,
    /// None where that is the request's own folder.
    folder: Option<PathBuf>,
    /// Its directory for working files.
    directory: Option<String>,
    /// Files that are not in the folder as they were.
    left_out: Vec<LeftOutFile>,
}

/// What a fork is to be.
struct NewFork {
    urid: Urid,
    /// None for that of the request.
    title: Option<String>,
    directory: Option<String>,
    /// Time of its first events.
    at: i64,
}

impl NewFork {
    /// Makes the log of a fork of a request up to an event. Reads and writes the disk.
    fn make(
        self,
        (parent, root): (&RequestDirectory, &TaskId),
        seq: u64,
        (place, id): (&RequestDirectory, &TaskId),
    ) -> Result<(), EngineError> {
        let (fold, ()) = fold_log(parent, root, Some(seq + 1), |(), _, _| {})?;
        let tree = state(root, fold)?;
        let task = tree.root();
        let mut usage = tree.usage();
        if let Some(earlier) = &task.forked_from {
            usage += earlier.usage;
        }
        let from = ForkOrigin { task_id: root.clone(), urid: task.urid.clone(), seq, usage };
        let title = self.title.unwrap_or_else(|| task.title().to_owned());
        let forked = Event::Forked { urid: self.urid, title, from, directory: self.directory };
        let records = (seq + 1..).zip(tree.fork(forked, self.at)).map(|(seq, (task_id, event))| {
            let mut record = Record { seq, at: self.at, task_id, event };
            as_own(id, &mut record);
            record
        });
        let records: Vec<Record<Event>> = records.collect();
        Ok(place.fork(parent, seq, &records)?)
    }
}
