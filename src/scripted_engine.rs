//! An engine for tests: its model plays a script, in a folder of its own.

use std::path::PathBuf;
use std::sync::Arc;

use roo_durable::WorkspaceDirectory;
use roo_engine::customization::{Customization, Setup as CustomizationSetup};
use roo_engine::engine::Engine;
use roo_engine::engine::clock::SystemClock;
use roo_formats::config::{Directories, Layer, load};
use roo_text::position::Encoding;
use roo_workspace::{Setup as WorkspaceSetup, Workspace};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::mcp::McpServers;
use crate::workspace_engine::workspace_engine;
use crate::workspace_parts::WorkspaceParts;

/// An engine with its folder.
pub(crate) struct ScriptedEngine {
    pub(crate) engine: Arc<Engine>,
    pub(crate) customization: Arc<Customization>,
    /// The workspace folder.
    pub(crate) folder: PathBuf,
    /// Removed at the end.
    _directory: TempDir,
}

impl ScriptedEngine {
    /// An engine whose model plays a script, with these settings besides.
    pub(crate) fn new(script: &str, settings: Value) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let path = |name: &str| root.join(name);
        std::fs::create_dir(path("work")).unwrap();
        std::fs::write(path("script.yaml"), script).unwrap();
        let profile = json!({ "provider": "scripted", "script": path("script.yaml") });
        let mut keys = json!({ "profiles": { "default": profile } }).as_object().unwrap().clone();
        keys.extend(settings.as_object().unwrap().clone());
        let settings = Arc::new(load([Layer::from_command_line(keys)]).unwrap().settings);
        let directories =
            Directories { config: path("config"), state: path("state"), home: None, settings_file: None };
        let folder = path("work");
        let state = WorkspaceDirectory::new(&directories.state, &folder);
        let customization = Customization::open(CustomizationSetup {
            folders: vec![folder.clone()],
            directories: directories.clone(),
            state_directory: state.path().to_owned(),
        });
        let workspace = Workspace::open(WorkspaceSetup {
            folders: vec![folder.clone()],
            state_directory: state.path().to_owned(),
            documents: Arc::default(),
            editor: None,
            encoding: Encoding::Utf8,
        });
        let customization = Arc::new(customization.unwrap());
        let parts = WorkspaceParts {
            settings: Arc::new(settings),
            workspace: Arc::new(workspace.unwrap()),
            customization: Arc::clone(&customization),
            directory: state,
            directories,
        };
        let mcp = Arc::new(McpServers::new(parts.clone()));
        let engine = Arc::new(workspace_engine(parts, Arc::new(SystemClock), mcp));
        Self { engine, customization, folder, _directory: directory }
    }
}
