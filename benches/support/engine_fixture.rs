//! An engine in this process, on the scripted model.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Zoned;
use roo_durable::WorkspaceDirectory;
use roo_engine::customization::{Customization, Setup as CustomizationSetup};
use roo_engine::engine::clock::{Clock, SystemClock};
use roo_engine::engine::{Engine, Follower, Setup as EngineSetup};
use roo_engine::tool_run::UserShell;
use roo_formats::config::{Directories, Settings};
use roo_model::providers::ConfiguredModels;
use roo_protocol::event::Event;
use roo_protocol::task::ApprovalRespondParams;
use roo_sandbox::exec::sandbox::Helper;
use roo_text::position::Encoding;
use roo_workspace::{Documents, Setup, Workspace};
use serde_json::json;
use uuid::Uuid;

/// Counts microseconds where the engine thinks of milliseconds, so that an event's time tells to the
/// microsecond when it was made.
struct Microseconds(Instant);

impl Clock for Microseconds {
    fn now(&self) -> i64 {
        i64::try_from(self.0.elapsed().as_micros()).unwrap_or(i64::MAX)
    }

    fn zoned(&self) -> Zoned {
        SystemClock.zoned()
    }

    fn random(&self) -> Uuid {
        SystemClock.random()
    }

    fn ordered(&self) -> Uuid {
        SystemClock.ordered()
    }
}

/// An engine over the folder `work`, that plays a script and keeps its logs under `name`.
///
/// # Errors
/// When its files can't be made.
pub fn engine(folder: &Path, name: &str, script: &str) -> Result<Arc<Engine>, Box<dyn std::error::Error>> {
    let path = folder.join(format!("{name}.yaml"));
    std::fs::write(&path, script)?;
    let settings: Settings = serde_json::from_value(json!({
        "profiles": { "default": { "provider": "scripted", "script": path } },
        "autoApprove": { "write": true },
    }))?;
    let work = folder.join("work");
    std::fs::create_dir_all(&work)?;
    let state = WorkspaceDirectory::new(&folder.join(name), &work);
    let workspace = Workspace::open(Setup {
        folders: vec![work.clone()],
        state_directory: state.path().to_owned(),
        documents: Arc::new(Documents::default()),
        editor: None,
        encoding: Encoding::Utf8,
    })?;
    let customization = Customization::open(CustomizationSetup {
        folders: vec![work],
        directories: Directories {
            config: folder.join("config"),
            state: folder.join(name),
            home: None,
            settings_file: None,
        },
        state_directory: state.path().to_owned(),
    })?;
    let (workspace, customization) = (Arc::new(workspace), Arc::new(customization));
    let clock = Arc::new(Microseconds(Instant::now()));
    Ok(Arc::new(Engine::new(EngineSetup {
        settings: Arc::new(Arc::new(settings)),
        workspace,
        customization,
        directory: state,
        directories: Directories {
            config: folder.join("config"),
            state: folder.join(name),
            home: None,
            settings_file: None,
        },
        helper: Helper::at(env!("CARGO_BIN_EXE_roo-lsp")),
        clock,
        models: Arc::new(ConfiguredModels),
        commands: Arc::new(UserShell),
        server_tools: Arc::new(roo_engine::server_tools::NoServerTools),
        language_servers: Arc::new(roo_language_servers::LanguageServers::none()),
        code_index: Arc::new(roo_index::CodeIndex::none()),
    })))
}

/// Reads a request to its end, and allows what it asks for. Returns how long each numbered event was on its way.
///
/// # Errors
/// When the log can't be read, or an approval can't be answered.
pub async fn read(engine: Arc<Engine>, mut follower: Follower) -> Result<Vec<Duration>, String> {
    let mut delays = Vec::new();
    loop {
        let batch = follower.next(|| engine.now()).await.map_err(|error| error.to_string())?;
        let now = engine.now();
        for params in batch.iter().filter(|params| params.seq.is_some()) {
            delays.push(Duration::from_micros(u64::try_from(now - params.at).unwrap_or(0)));
            if let Event::ApprovalRequested { approval } = &params.event {
                let answer = ApprovalRespondParams {
                    approval_id: approval.approval_id.clone(),
                    digest: approval.digest,
                    option_id: "allow_once".to_owned(),
                    opened: true,
                    text: None,
                    hunks: vec![],
                };
                engine.respond(answer, "bench").await.map_err(|error| error.to_string())?;
            }
            if params.task_id.is_root()
                && matches!(&params.event, Event::TaskState { state, .. } if state.is_final())
            {
                return Ok(delays);
            }
        }
    }
}
