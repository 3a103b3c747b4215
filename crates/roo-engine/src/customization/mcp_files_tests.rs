use std::fs;

use tempfile::TempDir;

use super::*;
use crate::customization::fixture::leaping;
use crate::customization::{Customization, GLOBAL_MCP, Grant, Setup};
use roo_formats::config::Directories;

/// A trusted workspace, and a configuration directory.
struct McpFixture {
    directory: TempDir,
    customization: Customization,
}

impl McpFixture {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        for name in ["work/.roo", "work/tools", "home", "config"] {
            fs::create_dir_all(directory.path().join(name)).unwrap();
        }
        let path = |name: &str| directory.path().join(name);
        let directories = Directories {
            config: path("config"),
            state: path("state"),
            home: Some(path("home")),
            settings_file: None,
        };
        let setup =
            Setup { folders: vec![path("work")], directories, state_directory: path("state/workspaces/one") };
        let customization = leaping(Customization::open(setup).unwrap());
        customization.grant(&Grant::Workspace).unwrap();
        Self { directory, customization }
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.directory.path().join(name);
        // As editors do it: another file takes the name.
        let _ = fs::remove_file(&path);
        fs::write(path, text).unwrap();
    }

    fn project(&self, entry: &str) {
        self.write("work/.roo/mcp.json", &format!(r#"{{"mcpServers": {{"notes": {entry}}}}}"#));
    }

    /// Each server with its level, and whether it may run.
    fn servers(&self) -> Vec<(String, Level, bool)> {
        let servers = self.customization.mcp_servers().into_iter();
        servers
            .map(|McpServer { configured, is_approved }| {
                (configured.server.name, configured.level, is_approved)
            })
            .collect()
    }

    fn is_approved(&self) -> bool {
        self.customization.mcp_servers().iter().all(|server| server.is_approved)
    }

    fn pending(&self) -> Vec<PendingTrust> {
        self.customization.trust().pending_approvals
    }

    fn approve(&self) {
        let grant = Grant::File { path: PROJECT_MCP.to_owned(), digest: None };
        self.customization.grant(&grant).unwrap();
    }
}

const ENTRY: &str =
    r#"{"command": "node", "args": ["tools/notes.js"], "env": {"TOKEN": "${env:NOTES_TOKEN}"}}"#;

#[test]
fn a_workspaces_server_waits_for_its_approval_and_the_users_does_not() {
    let fixture = McpFixture::new();
    fixture.write(&format!("config/{GLOBAL_MCP}"), r#"{"mcpServers": {"mail": {"command": "mail"}}}"#);
    fixture.write("work/tools/notes.js", "1");
    fixture.project(ENTRY);
    let expected = |approved| {
        vec![("mail".to_owned(), Level::User, true), ("notes".to_owned(), Level::Workspace, approved)]
    };
    assert_eq!(fixture.servers(), expected(false));
    let pending = fixture.pending();
    assert_eq!(pending.len(), 1);
    assert_eq!(
        pending[0].widens[0],
        "MCP server notes would start `node tools/notes.js` with TOKEN=${env:NOTES_TOKEN}; it gets NOTES_TOKEN from \
         your environment"
    );
    assert!(pending[0].widens[1].starts_with("with tools/notes.js as it is now"), "{pending:?}");
    assert!(
        fixture
            .customization
            .problems()
            .iter()
            .any(|problem| problem.problem.message.contains("no server of this file"))
    );
    assert_eq!(fixture.customization.trust().brings, [".roo/mcp.json"]);
    fixture.approve();
    assert_eq!(fixture.servers(), expected(true));
    assert_eq!(fixture.pending(), []);
}

#[test]
fn what_decides_what_runs_waits_again_when_it_changes() {
    for changed in [
        r#"{"command": "deno", "args": ["tools/notes.js"], "env": {"TOKEN": "${env:NOTES_TOKEN}"}}"#,
        r#"{"command": "node", "args": ["tools/notes.js", "-x"], "env": {"TOKEN": "${env:NOTES_TOKEN}"}}"#,
        r#"{"command": "node", "args": ["tools/notes.js"], "env": {"TOKEN": "${env:OTHER}"}}"#,
        r#"{"command": "node", "args": ["tools/notes.js"], "env": {"NODE_OPTIONS": "${env:NOTES_TOKEN}"}}"#,
        r#"{"command": "node", "args": ["tools/notes.js"], "env": {"TOKEN": "${env:NOTES_TOKEN}"}, "cwd": "tools"}"#,
        r#"{"type": "streamable-http", "url": "https://example.com/mcp"}"#,
    ] {
        let fixture = McpFixture::new();
        fixture.write("work/tools/notes.js", "1");
        fixture.project(ENTRY);
        fixture.approve();
        assert!(fixture.is_approved());
        fixture.project(changed);
        assert!(!fixture.is_approved(), "{changed}");
    }
    let fixture = McpFixture::new();
    fixture.write("work/tools/notes.js", "1");
    fixture.project(ENTRY);
    fixture.approve();
    fixture.project(&ENTRY.replace(r#"{"command""#, r#"{"timeout": 5, "disabledTools": ["x"], "command""#));
    assert!(fixture.is_approved(), "what only narrows calls needs no approval");
    fixture.write("work/tools/notes.js", "2");
    assert!(!fixture.is_approved(), "the script runs");
}

#[test]
fn a_script_that_is_named_from_the_servers_directory_counts() {
    let fixture = McpFixture::new();
    fixture.write("work/tools/notes.js", "1");
    fixture.project(r#"{"command": "node", "args": ["notes.js"], "cwd": "${workspaceFolder}/tools"}"#);
    fixture.approve();
    assert!(fixture.is_approved());
    fixture.write("work/tools/notes.js", "2");
    assert!(!fixture.is_approved());
}

#[test]
fn nothing_of_a_workspace_that_is_not_trusted_is_read() {
    let fixture = McpFixture::new();
    fixture.project(ENTRY);
    assert_eq!(fixture.servers().len(), 1);
    fixture.customization.revoke().unwrap();
    assert_eq!(fixture.servers(), []);
    assert_eq!(fixture.pending(), []);
}

#[test]
fn a_file_that_breaks_keeps_the_users_servers_and_none_of_the_workspaces() {
    let fixture = McpFixture::new();
    let file = format!("config/{GLOBAL_MCP}");
    fixture.write(&file, r#"{"mcpServers": {"mail": {"command": "mail"}}}"#);
    fixture.project(ENTRY);
    assert_eq!(fixture.servers().len(), 2);
    fixture.write(&file, "{");
    fixture.write("work/.roo/mcp.json", "{");
    assert_eq!(fixture.servers(), [("mail".to_owned(), Level::User, true)]);
    let problems = fixture.customization.problems();
    assert!(
        problems.iter().any(|problem| problem.problem.message.contains("stay connected")),
        "{problems:?}"
    );
}

#[test]
fn servers_stay_while_their_file_is_being_saved() {
    let fixture = McpFixture::new();
    let file = format!("config/{GLOBAL_MCP}");
    fixture.write(&file, r#"{"mcpServers": {"mail": {"command": "mail"}}}"#);
    fixture.project(ENTRY);
    let before = fixture.servers();
    assert_eq!(before.len(), 2);
    for name in [&file[..], "work/.roo/mcp.json"] {
        let path = fixture.directory.path().join(name);
        let text = fs::read_to_string(&path).unwrap();
        fs::remove_file(&path).unwrap();
        // By its clock, an hour passes from one look to the next.
        assert_eq!(fixture.servers(), before, "{name}");
        assert_eq!(fixture.servers().len(), 1, "{name}");
        fs::write(&path, text).unwrap();
    }
}
