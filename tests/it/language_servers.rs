//! Language servers, asked by the model through the real server: two that are installed, and one that dies.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use roo_catalog::ToolProtocol;
use roo_durable::WorkspaceDirectory;
use roo_engine::engine::{Governed, Instructions, ToolSources};
use roo_engine::intent_store::Orchestration;
use roo_formats::config::{RequireIntent, ToolChoice};
use roo_formats::modes::Modes;
use serde_json::json;

use crate::support::client::{Client, Home, Options};
use crate::support::engine::{Fixture, customization};
use crate::support::{package, processes};

/// Writes files of the workspace.
fn write(home: &Home, files: &[(&str, &str)]) {
    for (name, text) in files {
        fs::write(home.work(name), text).unwrap();
    }
}

/// Starts the server in a trusted workspace, with these programs before those of the machine.
fn start(home: &Home, programs: &Path) -> Client {
    let path = std::env::var("PATH").unwrap();
    let environment = vec![("PATH", format!("{}:{path}", programs.display()))];
    let mut client = Client::start(home, Options { environment, ..Options::typed() });
    client.request("roo/trust/grant", json!({}));
    client
}

fn completes(client: &mut Client, prompt: &str) {
    client.start_task(prompt);
    let end = client.wait_for("the end", |message| {
        ["completed", "failed"].iter().any(|state| message["params"]["event"]["state"] == *state)
    });
    assert_eq!(end["params"]["event"]["state"], "completed", "{end}");
}

/// Where `scripts/test` installs language servers.
fn installed() -> PathBuf {
    let path = package().join("target/language-servers/node_modules/.bin");
    assert!(path.exists(), "{} is missing: ./scripts/test installs it", path.display());
    path
}

const DONE: &str = "    calls: [{ tool: attempt_completion, params: { result: Done. } }]\n";

#[test]
#[ignore = "needs pyright and typescript-language-server; ./scripts/test runs it"]
fn pyright_finds_what_is_meant_and_not_what_has_the_same_name() {
    let script = r#"
turns:
  - calls: [{ tool: find_references, params: { path: shapes.py, line: 1, symbol: area } }]
  - when: { contains: ["main.py:1 | from shapes import area\nmain.py:3 | print(area(2))\nshapes.py:1 | def area(side: int) -> int:"] }
    calls: [{ tool: go_to_definition, params: { path: main.py, line: 3, symbol: area } }]
  - when: { contains: "shapes.py:1 | def area(side: int) -> int:" }
    calls: [{ tool: hover, params: { path: main.py, line: 3, symbol: area } }]
  - when: { contains: "(function) def area(side: int) -> int" }
    calls: [{ tool: write_to_file, params: { path: more.py, content: "import shapes\nprint(shapes.area(4))\n" } }]
  - calls: [{ tool: find_references, params: { path: more.py, line: 2, symbol: area } }]
  - when: { contains: "more.py:2 | print(shapes.area(4))" }
"#;
    let home = Home::playing(&(script.to_owned() + DONE));
    home.configure("mode: code\nautoApprove: { write: true }\n");
    write(
        &home,
        &[
            ("pyproject.toml", ""),
            ("shapes.py", "def area(side: int) -> int:\n    return side * side\n"),
            ("main.py", "from shapes import area\n\nprint(area(2))\n"),
            ("other.py", "def area() -> str:\n    return 'area'\n"),
        ],
    );
    let mut client = start(&home, &installed());
    completes(&mut client, "Where is it used?");
    assert_eq!(client.shut_down(), 0);
    let left = processes::with(&home.path("work").display().to_string());
    assert!(left.is_empty(), "{left:?}");
}

#[test]
#[ignore = "needs pyright and typescript-language-server; ./scripts/test runs it"]
fn typescript_language_server_sees_what_is_not_saved() {
    let script = r#"
turns:
  - calls: [{ tool: find_references, params: { path: shapes.ts, line: 1, symbol: area } }]
  - when: { contains: ["main.ts:1 | import { area } from \"./shapes\";\nmain.ts:2 | unsaved(area(2));\nshapes.ts:1 | export function area"] }
    calls: [{ tool: go_to_definition, params: { path: main.ts, line: 2, symbol: area } }]
  - when: { contains: "shapes.ts:1 | export function area" }
    calls: [{ tool: hover, params: { path: shapes.ts, line: 1, symbol: area } }]
  - when: { contains: "function area(side: number): number" }
"#;
    let home = Home::playing(&(script.to_owned() + DONE));
    home.configure("mode: code\n");
    write(
        &home,
        &[
            ("tsconfig.json", "{}"),
            ("shapes.ts", "export function area(side: number): number {\n  return side * side;\n}\n"),
            ("main.ts", "\n"),
        ],
    );
    let mut client = start(&home, &installed());
    client.open(&home.work("main.ts"), "import { area } from \"./shapes\";\nunsaved(area(2));\n");
    completes(&mut client, "Where is it used?");
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn a_server_that_ends_at_once_is_an_error_for_the_model_and_nothing_else() {
    let script = r#"
turns:
  - calls: [{ tool: hover, params: { path: a.py, line: 1, symbol: a } }]
  - when: { contains: ["language server pyright-langserver can't be started: no licence found"] }
    calls: [{ tool: hover, params: { path: a.py, line: 2, symbol: a } }]
  - when: { contains: "a.py has no line 2: it ends at line 1" }
    calls: [{ tool: hover, params: { path: a.rs, line: 1, symbol: a } }]
  - when: { contains: There is no language server for this file here }
"#;
    let home = Home::playing(&(script.to_owned() + DONE));
    home.configure("mode: code\n");
    write(&home, &[("setup.py", ""), ("a.py", "a = 1\n"), ("a.rs", "fn a() {}\n")]);
    let programs = home.path("bin");
    fs::create_dir(&programs).unwrap();
    for name in ["basedpyright-langserver", "pyright-langserver"] {
        let program = programs.join(name);
        fs::write(&program, "#!/bin/sh\necho no licence found >&2\nexit 3\n").unwrap();
        let mode = if name == "pyright-langserver" { 0o755 } else { 0o644 };
        fs::set_permissions(&program, fs::Permissions::from_mode(mode)).unwrap();
    }
    let mut client = start(&home, &programs);
    completes(&mut client, "What is it?");
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn the_tools_are_offered_where_there_is_a_server_and_nowhere_else() {
    let fixture = Fixture::scripted(&[], "turns: []", json!({}));
    let state = WorkspaceDirectory::new(&fixture.project.beside("state"), &fixture.project.folder());
    let customization = customization(&fixture.project, &state);
    let workspace = Arc::clone(fixture.engine.workspace());
    let orchestration = Orchestration::new(Arc::clone(&workspace), state.path());
    let modes = Modes::built_in();
    let governed = Governed { orchestration: &orchestration, require: RequireIntent::default() };
    for protocol in [ToolProtocol::Native, ToolProtocol::Xml] {
        for has_language_server in [true, false] {
            let choice = ToolChoice::default();
            let tools =
                ToolSources { has_language_server, has_code_index: true, ..ToolSources::built_in(&choice) };
            let mode = modes.find("code").unwrap();
            let told = Instructions::new(mode, &modes, protocol, tools, &customization, governed, &workspace);
            for tool in ["find_references", "go_to_definition", "hover"] {
                let is_offered = told.tools.iter().any(|offered| offered.name() == tool);
                assert_eq!(is_offered, has_language_server, "{tool} {protocol:?}");
                let is_described = told.system.contains(&format!("### {tool}\n"));
                assert_eq!(is_described, has_language_server && protocol == ToolProtocol::Xml, "{tool}");
            }
        }
    }
}
