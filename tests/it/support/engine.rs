//! An engine in this process, over a folder of its own.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use roo_durable::WorkspaceDirectory;
use roo_durable::disk::{Disk, RealDisk};
use roo_durable::simulated_disk::SimulatedDisk;
use roo_engine::customization::{Customization, Setup as CustomizationSetup};
use roo_engine::engine::clock::SystemClock;
use roo_engine::engine::{Engine, Follower, Setup as EngineSetup};
use roo_engine::server_tools::{NoServerTools, ServerTools};
use roo_engine::tool_run::UserShell;
use roo_formats::config::{Directories, Settings};
use roo_index::CodeIndex;
use roo_language_servers::LanguageServers;
use roo_model::providers::ConfiguredModels;
use roo_protocol::event::{Event, EventParams};
use roo_protocol::ids::TaskId;
use roo_protocol::task::{
    ApprovalRespondParams, SendWhen, TaskSendParams, TaskSnapshot, TaskStartParams, TaskState,
};
use roo_sandbox::exec::sandbox::Helper;
use roo_text::position::Encoding;
use roo_workspace::{Documents, Setup, Workspace};
use serde_json::{Value, json};

use super::project::Project;

/// No event of a test may take longer than this.
const PATIENCE: Duration = Duration::from_secs(20);

/// An engine and its folder.
pub struct Fixture {
    pub project: Arc<Project>,

    pub engine: Arc<Engine>,
}

fn directories(project: &Project) -> Directories {
    Directories {
        config: project.beside("config"),
        state: project.beside("state"),
        home: None,
        settings_file: None,
    }
}

/// What a user and the workspace bring to a project.
pub fn customization(project: &Project, state: &WorkspaceDirectory) -> Customization {
    Customization::open(CustomizationSetup {
        folders: vec![project.folder()],
        directories: directories(project),
        state_directory: state.path().to_owned(),
    })
    .unwrap()
}

impl Fixture {
    /// An engine with these settings.
    pub fn new(project: Project, settings: Value) -> Self {
        Self::over(Arc::new(project), settings, Arc::new(RealDisk), Arc::new(NoServerTools))
    }

    /// An engine on the scripted model that keeps its logs on this disk.
    pub fn on(disk: &SimulatedDisk, files: &[(&str, &str)], script: &str, more: Value) -> Self {
        let project = Project::new(files);
        let settings = scripted(&project, script, more);
        Self::over(Arc::new(project), settings, Arc::new(disk.clone()), Arc::new(NoServerTools))
    }

    /// Another engine over the same folder, as of a second window.
    pub fn beside(other: &Self, settings: Value) -> Self {
        Self::over(Arc::clone(&other.project), settings, Arc::new(RealDisk), Arc::new(NoServerTools))
    }

    /// An engine on the scripted model, with tools of servers.
    pub fn with_server_tools(
        files: &[(&str, &str)],
        script: &str,
        more: Value,
        server_tools: Arc<dyn ServerTools>,
    ) -> Self {
        let project = Project::new(files);
        let settings = scripted(&project, script, more);
        Self::on_project(project, settings, server_tools)
    }

    /// An engine with these settings and tools of servers.
    pub fn on_project(project: Project, settings: Value, server_tools: Arc<dyn ServerTools>) -> Self {
        Self::over(Arc::new(project), settings, Arc::new(RealDisk), server_tools)
    }

    /// The engine works in the mode `code` where neither settings nor request name one.
    fn over(
        project: Arc<Project>,
        settings: Value,
        disk: Arc<dyn Disk>,
        server_tools: Arc<dyn ServerTools>,
    ) -> Self {
        Self::over_folders(project, vec![], settings, disk, server_tools)
    }

    /// An engine over the folder of a project and another one.
    pub fn over_two(project: Arc<Project>, second: PathBuf, settings: Value) -> Self {
        Self::over_folders(project, vec![second], settings, Arc::new(RealDisk), Arc::new(NoServerTools))
    }

    fn over_folders(
        project: Arc<Project>,
        further: Vec<PathBuf>,
        mut settings: Value,
        disk: Arc<dyn Disk>,
        server_tools: Arc<dyn ServerTools>,
    ) -> Self {
        if let Value::Object(keys) = &mut settings {
            keys.entry("mode").or_insert("code".into());
        }
        let settings: Settings = serde_json::from_value(settings).unwrap();
        let state = WorkspaceDirectory::on(disk, &project.beside("state"), &project.folder());
        let workspace = Workspace::open(Setup {
            folders: [vec![project.folder()], further].concat(),
            state_directory: state.path().to_owned(),
            documents: Arc::new(Documents::default()),
            editor: None,
            encoding: Encoding::Utf8,
        })
        .unwrap();
        let customization = customization(&project, &state);
        let (workspace, customization) = (Arc::new(workspace), Arc::new(customization));
        let clock = Arc::new(SystemClock);
        let engine = Engine::new(EngineSetup {
            settings: Arc::new(Arc::new(settings)),
            workspace,
            customization,
            directory: state,
            directories: directories(&project),
            helper: Helper::at(env!("CARGO_BIN_EXE_roo-lsp")),
            clock,
            models: Arc::new(ConfiguredModels),
            commands: Arc::new(UserShell),
            server_tools,
            language_servers: Arc::new(LanguageServers::none()),
            code_index: Arc::new(CodeIndex::none()),
        });
        Self { project, engine: Arc::new(engine) }
    }

    /// An engine on the scripted model.
    pub fn scripted(files: &[(&str, &str)], script: &str, more: Value) -> Self {
        let project = Project::new(files);
        let settings = scripted(&project, script, more);
        Self::new(project, settings)
    }

    /// Starts a task and follows it.
    pub async fn start(&self, prompt: &str) -> Watched<'_> {
        let params = TaskStartParams { prompt: prompt.into(), ..TaskStartParams::default() };
        let task = self.engine.start(params).unwrap().task_id;
        self.watch(task, 0).await
    }

    /// Sends a message to a request that was completed, and waits until it is completed again, with this result.
    pub async fn say(&self, task: &TaskId, text: &str, result: &str) {
        let seq = self.engine.get(task).await.unwrap().item.seq;
        let params = TaskSendParams {
            task_id: task.clone(),
            text: text.to_owned(),
            images: vec![],
            when: SendWhen::Now,
        };
        self.engine.send(params).await.unwrap();
        let end = self.watch(task.clone(), seq).await.end().await;
        assert_eq!(end, (TaskState::Completed, result.to_owned()));
    }

    /// Follows a task behind an event.
    pub async fn watch(&self, task: TaskId, after: u64) -> Watched<'_> {
        let follower = self.engine.follow(&task, after).await.unwrap();
        Watched { fixture: self, task, follower, waiting: Vec::new(), seen: Vec::new() }
    }
}

/// Settings for a model that plays this script.
fn scripted(project: &Project, script: &str, more: Value) -> Value {
    let path: PathBuf = project.script(script);
    let mut settings = json!({ "profiles": { "default": { "provider": "scripted", "script": path } } });
    merge(&mut settings, more);
    settings
}

fn merge(into: &mut Value, more: Value) {
    if let (Value::Object(into), Value::Object(more)) = (into, more) {
        into.extend(more);
    }
}

/// A task under observation.
pub struct Watched<'a> {
    fixture: &'a Fixture,
    pub task: TaskId,
    follower: Follower,
    waiting: Vec<Arc<EventParams>>,
    /// All numbered events until now.
    pub seen: Vec<Arc<EventParams>>,
}

impl Watched<'_> {
    /// The next event.
    pub async fn next(&mut self) -> Arc<EventParams> {
        if self.waiting.is_empty() {
            let engine = &self.fixture.engine;
            let batch = tokio::time::timeout(PATIENCE, self.follower.next(|| engine.now())).await;
            let batch =
                batch.unwrap_or_else(|_| panic!("nothing came after {:#?}", self.seen.last())).unwrap();
            self.waiting = batch.into_iter().rev().collect();
        }
        let event = self.waiting.pop().unwrap();
        if event.seq.is_some() {
            self.seen.push(Arc::clone(&event));
        }
        event
    }

    /// Waits for an event that fits, and returns what is taken from it.
    pub async fn until<T>(&mut self, mut pick: impl FnMut(&Event) -> Option<T>) -> T {
        loop {
            if let Some(picked) = pick(&self.next().await.event) {
                return picked;
            }
        }
    }

    /// Waits for the end of the task.
    pub async fn end(&mut self) -> (TaskState, String) {
        self.until(|event| match event {
            Event::TaskState { state, result, reason, .. } if state.is_final() => {
                Some((*state, result.clone().or_else(|| reason.clone()).unwrap_or_default()))
            }
            _ => None,
        })
        .await
    }

    /// Waits for an approval and answers it.
    pub async fn decide(&mut self, option: &str) {
        let params = self
            .until(|event| match event {
                Event::ApprovalRequested { approval } => Some(ApprovalRespondParams {
                    approval_id: approval.approval_id.clone(),
                    digest: approval.digest,
                    option_id: option.into(),
                    opened: false,
                    text: None,
                    hunks: vec![],
                }),
                _ => None,
            })
            .await;
        assert!(self.fixture.engine.respond(params, "test").await.unwrap().accepted);
    }

    /// The task as it is now.
    pub async fn snapshot(&self) -> TaskSnapshot {
        self.fixture.engine.get(&self.task).await.unwrap()
    }

    /// Event numbers must be gapless from the first one seen.
    #[track_caller]
    pub fn assert_gapless(&self) {
        let events: Vec<Value> = self.seen.iter().map(|event| serde_json::to_value(event).unwrap()).collect();
        let first = self.seen.first().and_then(|event| event.seq);
        super::assert_gapless(&events, first.unwrap_or(1));
    }
}
