//! A small workspace for the tests of tools.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use tokio_util::sync::CancellationToken;

use crate::intent_store::Orchestration;
use crate::server_tools::NoTask;
use crate::tool_run::{CommandLimits, ForegroundControl, NoChanges, ToolContext, UserShell};
use roo_documents::Extractor;
use roo_protocol::ids::CommandId;
use roo_protocol::rule::SandboxAccess;
use roo_sandbox::exec::EnvironmentRules;
use roo_text::position::Encoding;
use roo_workspace::{Setup, Workspace, file_uri};

pub(super) struct Fixture {
    directory: tempfile::TempDir,
    pub(super) context: ToolContext,
    /// Text that the tool has shown so far.
    pub(super) shown: Arc<Mutex<String>>,
}

impl Fixture {
    /// A workspace with these files, no editor attached.
    pub(super) fn new(files: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("w");
        fs::create_dir(&root).unwrap();
        let workspace = Workspace::open(Setup {
            folders: vec![root],
            state_directory: directory.path().join("state"),
            documents: Arc::default(),
            editor: None,
            encoding: Encoding::Utf16,
        })
        .unwrap();
        let workspace = Arc::new(workspace);
        let shown = Arc::new(Mutex::new(String::new()));
        let sink = Arc::clone(&shown);
        let context = ToolContext {
            variables: BTreeMap::new(),
            environment: EnvironmentRules::default(),
            redact_secrets: true,
            orchestration: Arc::new(Orchestration::new(
                Arc::clone(&workspace),
                &directory.path().join("state"),
            )),
            recent: Arc::new(|_| vec![]),
            workspace,
            output: Arc::new(move |text| sink.lock().unwrap().push_str(text)),
            cancel: CancellationToken::new(),
            overflow_stem: "call".to_owned(),
            task_directory: ".roo/tasks/20260102-03-04-abcdef01".to_owned(),
            review: false,
            declined: SandboxAccess::default(),
            command_limits: CommandLimits::default(),
            command_id: CommandId::new("cmd-1"),
            background: Arc::default(),
            browser: Arc::default(),
            foreground: ForegroundControl::default(),
            commands: Arc::new(UserShell),
            shadow: None,
            changes: Arc::new(NoChanges),
            extractor: Extractor::in_process(),
            caller: Arc::new(NoTask),
        };
        let fixture = Self { directory, context, shown };
        for (name, text) in files {
            fixture.put(name, text.as_bytes());
        }
        fixture
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join("w").join(name)
    }

    pub(super) fn put(&self, name: &str, bytes: &[u8]) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), bytes).unwrap();
    }

    pub(super) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// Opens a file in the editor.
    pub(super) fn open(&self, name: &str, text: &str) {
        self.context.workspace.documents().open(&file_uri(&self.path(name)), 1, text);
    }
}
