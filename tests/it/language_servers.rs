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
use serde_json::{Value, json};

use crate::support::client::{Client, Home, Options, eventually, is_end_of_request, uri};
use crate::support::engine::{Fixture, customization};
use crate::support::{package, processes};

/// Writes files of the workspace.
fn write(home: &Home, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = home.work(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
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

/// Runs a task to its end. Returns its id.
fn completes(client: &mut Client, prompt: &str) -> String {
    let task = client.start_task(prompt);
    let end = client.wait_for("the end", |message| {
        ["completed", "failed"].iter().any(|state| message["params"]["event"]["state"] == *state)
    });
    assert_eq!(end["params"]["event"]["state"], "completed", "{end}");
    task
}

/// Where `scripts/test` installs language servers.
fn installed() -> PathBuf {
    let path = package().join("target/language-servers/node_modules/.bin");
    assert!(path.exists(), "{} is missing: ./scripts/test installs it", path.display());
    path
}

/// Where `scripts/test` has those of Debian, and the compiler's own programs, which need no home directory of their user.
fn installed_by_debian() -> PathBuf {
    let path = package().join("target/language-servers/bin");
    assert!(path.exists(), "{} is missing: ./scripts/test makes it", path.display());
    let sysroot = std::process::Command::new("rustc").args(["--print", "sysroot"]).output().unwrap();
    let sysroot = String::from_utf8(sysroot.stdout).unwrap();
    PathBuf::from(format!("{}:{}/bin", path.display(), sysroot.trim()))
}

/// Restores the files of a task to before its only checkpoint, in one step.
fn undo(client: &mut Client, task: &str) {
    let listed = client.request("roo/checkpoint/list", json!({ "taskId": task }));
    let checkpoints = listed["checkpoints"].as_array().unwrap();
    assert_eq!(checkpoints.len(), 1, "{listed}");
    let params = json!({ "taskId": task, "seq": checkpoints[0]["seq"], "what": "files", "scope": "request" });
    let with = |key: &str, value: Value| {
        let mut params = params.clone();
        params[key] = value;
        params
    };
    let preview = client.request("roo/checkpoint/restore", with("preview", true.into()));
    client.request("roo/checkpoint/restore", with("digest", preview["digest"].clone()));
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
#[ignore = "needs pyright and typescript-language-server; ./scripts/test runs it"]
fn a_rename_over_files_is_one_edit_that_is_undone_in_one_step() {
    let script = r#"
turns:
  - calls: [{ tool: rename_symbol, params: { path: shapes.py, line: 1, symbol: area, new_name: surface } }]
  - when: { contains: ["<path>main.py</path><operation>modified</operation>", "<path>shapes.py</path><operation>modified</operation>"] }
    calls: [{ tool: workspace_symbols, params: { path: main.py, query: surface } }]
  - when: { contains: "shapes.py:1 function surface" }
"#;
    let home = Home::playing(&(script.to_owned() + DONE));
    home.configure("mode: code\nautoApprove: { write: true }\n");
    let files = [
        ("pyproject.toml", ""),
        ("shapes.py", "def area(side: int) -> int:\n    return side * side\n"),
        ("main.py", "from shapes import area\n\nprint(area(2))  # the area\n"),
        ("other.py", "def area() -> str:\n    return 'area'\n"),
    ];
    write(&home, &files);
    let mut client = start(&home, &installed());
    let task = completes(&mut client, "Rename it.");
    let read = |name: &str| fs::read_to_string(home.work(name)).unwrap();
    assert_eq!(read("shapes.py"), "def surface(side: int) -> int:\n    return side * side\n");
    assert_eq!(read("main.py"), "from shapes import surface\n\nprint(surface(2))  # the area\n");
    assert_eq!(read("other.py"), files[3].1, "a namesake");
    undo(&mut client, &task);
    for (name, text) in files {
        assert_eq!(read(name), text, "{name}");
    }
    assert_eq!(client.shut_down(), 0);
}

#[test]
#[ignore = "needs pyright and typescript-language-server; ./scripts/test runs it"]
fn a_problem_that_an_edit_brings_is_told_with_it_and_gone_with_the_next() {
    let script = r##"
turns:
  - calls: [{ tool: write_to_file, params: { path: main.py, content: "from shapes import area\n\nprint(are(2))\n" } }]
  - when: { contains: ["<problems by=\"pyright-langserver\">\n1 new\nmain.py:3:7 error:", "\"are\" is not defined"] }
    calls: [{ tool: diagnostics, params: { path: main.py } }]
  - when: { contains: "main.py:3:7 error:" }
    calls: [{ tool: search_and_replace, params: { path: main.py, search: "are(", replace: "area(" } }]
  - when: { contains: "<problems by=\"pyright-langserver\">\nno new problems, 1 gone\n</problems>" }
    calls: [{ tool: search_and_replace, params: { path: shapes.py, search: "def area(", replace: "# Of a square.\ndef area(" } }]
  - when: { contains: "<problems by=\"pyright-langserver\">\nno new problems\n</problems>" }
"##;
    let home = Home::playing(&(script.to_owned() + DONE));
    home.configure("mode: code\nautoApprove: { write: true }\n");
    write(
        &home,
        &[("pyproject.toml", ""), ("shapes.py", "def area(side: int) -> int:\n    return side * side\n")],
    );
    let mut client = start(&home, &installed());
    completes(&mut client, "Write the program.");
    assert_eq!(client.shut_down(), 0);
}

#[test]
#[ignore = "needs pyright and typescript-language-server; ./scripts/test runs it"]
fn typescript_language_server_renames_reports_and_fixes() {
    let script = r#"
turns:
  - calls: [{ tool: rename_symbol, params: { path: shapes.ts, line: 1, symbol: area, new_name: surface } }]
  - when: { contains: ["<path>main.ts</path><operation>modified</operation>", "<path>shapes.ts</path><operation>modified</operation>"] }
    calls: [{ tool: write_to_file, params: { path: more.ts, content: "console.log(surface(4));\n" } }]
  - when: { contains: ["more.ts:1:13 error: Cannot find name 'surface'", "1 new"] }
    calls: [{ tool: code_actions, params: { path: more.ts, line: 1 } }]
  - when: { contains: "- Add import from \"./shapes\" (quickfix)" }
    calls: [{ tool: apply_code_action, params: { path: more.ts, line: 1, title: "Add import from \"./shapes\"" } }]
  - when: { contains: ["<path>more.ts</path><operation>modified</operation>", "1 gone"] }
    calls: [{ tool: apply_code_action, params: { path: more.ts, line: 1, title: "Make it fast" } }]
  - when: { contains: "it offers no action of that title for this line" }
    calls: [{ tool: workspace_symbols, params: { path: main.ts, query: surface } }]
  - when: { contains: "shapes.ts:1 function surface" }
"#;
    let home = Home::playing(&(script.to_owned() + DONE));
    home.configure("mode: code\nautoApprove: { write: true }\n");
    write(
        &home,
        &[
            (
                "tsconfig.json",
                "{ \"compilerOptions\": { \"lib\": [\"es2020\", \"dom\"], \"module\": \"es2020\" } }",
            ),
            ("shapes.ts", "export function area(side: number): number {\n  return side * side;\n}\n"),
            ("main.ts", "import { area } from \"./shapes\";\nconsole.log(area(2));\n"),
        ],
    );
    let mut client = start(&home, &installed());
    completes(&mut client, "Rename it.");
    let read = |name: &str| fs::read_to_string(home.work(name)).unwrap();
    assert_eq!(read("main.ts"), "import { surface } from \"./shapes\";\nconsole.log(surface(2));\n");
    let more = read("more.ts");
    assert!(more.starts_with("import { surface } from \"./shapes\";\n"), "{more}");
    assert_eq!(client.shut_down(), 0);
}

/// A server whose model plays a script and may write, in a workspace with these files and a language server of Debian.
fn start_writing(script: &str, files: &[(&str, &str)]) -> (Home, Client) {
    let home = Home::playing(&(script.to_owned() + DONE));
    home.configure("mode: code\nautoApprove: { write: true }\n");
    write(&home, files);
    let client = start(&home, &installed_by_debian());
    (home, client)
}

/// A package of Rust, with the lock file that no server can write.
const RUST: [(&str, &str); 4] = [
    ("Cargo.toml", "[package]\nname = \"shapes\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"),
    ("Cargo.lock", "version = 4\n\n[[package]]\nname = \"shapes\"\nversion = \"0.1.0\"\n"),
    ("src/lib.rs", "pub mod shapes;\n\npub fn total() -> u32 {\n    shapes::area(2) + shapes::area(3)\n}\n"),
    ("src/shapes.rs", "pub fn area(side: u32) -> u32 {\n    side * side\n}\n"),
];

#[test]
#[ignore = "needs rust-analyzer; ./scripts/test runs it"]
fn rust_analyzer_renames_over_files_and_that_is_undone_in_one_step() {
    let script = r#"
turns:
  - calls: [{ tool: find_references, params: { path: src/shapes.rs, line: 1, symbol: area } }]
  - when: { contains: ["src/lib.rs:4 | shapes::area(2) + shapes::area(3)", "src/shapes.rs:1 | pub fn area(side: u32) -> u32 {"] }
    calls: [{ tool: hover, params: { path: src/lib.rs, line: 4, symbol: area } }]
  - when: { contains: "pub fn area(side: u32) -> u32" }
    calls: [{ tool: rename_symbol, params: { path: src/shapes.rs, line: 1, symbol: area, new_name: surface } }]
  - when: { contains: ["<path>src/lib.rs</path><operation>modified</operation>", "<path>src/shapes.rs</path><operation>modified</operation>"] }
"#;
    let (home, mut client) = start_writing(script, &RUST);
    let task = completes(&mut client, "Rename it.");
    let read = |name: &str| fs::read_to_string(home.work(name)).unwrap();
    assert!(read("src/lib.rs").contains("shapes::surface(2) + shapes::surface(3)"));
    assert!(read("src/shapes.rs").starts_with("pub fn surface(side: u32)"));
    undo(&mut client, &task);
    for (name, text) in RUST {
        assert_eq!(read(name), text, "{name}");
    }
    assert_eq!(client.shut_down(), 0);
    let left = processes::with(&home.path("work").display().to_string());
    assert!(left.is_empty(), "{left:?}");
}

#[test]
#[ignore = "needs rust-analyzer; ./scripts/test runs it"]
fn rust_analyzer_reports_what_edits_bring() {
    let script = r#"
turns:
  - calls: [{ tool: search_and_replace, params: { path: src/lib.rs, search: "area(3)", replace: "area(3, 4)" } }]
  - when: { contains: ["<problems by=\"rust-analyzer\">\n1 new\nsrc/lib.rs:4:39 error: expected 1 argument, found 2"] }
    calls: [{ tool: search_and_replace, params: { path: src/lib.rs, search: "area(3, 4)", replace: "area(4)" } }]
  - when: { contains: "<problems by=\"rust-analyzer\">\nno new problems, 1 gone\n</problems>" }
"#;
    let (home, mut client) = start_writing(script, &RUST);
    completes(&mut client, "Add four of them.");
    let text = fs::read_to_string(home.work("src/lib.rs")).unwrap();
    assert!(text.contains("shapes::area(2) + shapes::area(4)"), "{text}");
    assert_eq!(client.shut_down(), 0);
}

#[test]
#[ignore = "needs rust-analyzer; ./scripts/test runs it"]
fn rust_analyzer_tells_what_only_the_compiler_finds() {
    let script = r#"
turns:
  - calls: [{ tool: diagnostics, params: { path: src/shapes.rs } }]
  - when: { contains: "There are no problems.", notContains: ["check finds may be missing"] }
    calls: [{ tool: diagnostics, params: { path: src/lib.rs } }]
  - when: { contains: ["src/lib.rs:5:10 error: use of moved value: `text`", "(E0382)"], notContains: ["check finds may be missing", "has a problem"] }
    calls: [{ tool: search_and_replace, params: { path: src/lib.rs, search: "    drop(text);\n    drop(text);", replace: "    drop(text);" } }]
  - calls: [{ tool: diagnostics, params: { path: src/lib.rs } }]
  - when: { contains: "There are no problems.", notContains: ["check finds may be missing"] }
"#;
    let moved = (
        "src/lib.rs",
        "pub mod shapes;\n\npub fn twice(text: String) {\n    drop(text);\n    drop(text);\n}\n",
    );
    let (home, mut client) = start_writing(script, &[RUST[0], RUST[1], RUST[3], moved]);
    completes(&mut client, "What is wrong?");
    assert!(!home.work("target").exists(), "it builds elsewhere");
    assert_eq!(client.shut_down(), 0);
}

/// A module of Go.
const GO: [(&str, &str); 3] = [
    ("go.mod", "module example.com/shapes\n\ngo 1.19\n"),
    (
        "main.go",
        "package main\n\nimport \"example.com/shapes/shapes\"\n\nfunc main() {\n\tprintln(shapes.Area(2))\n}\n",
    ),
    (
        "shapes/shapes.go",
        "package shapes\n\n// Area is that of a square.\nfunc Area(side int) int {\n\treturn side * side\n}\n",
    ),
];

#[test]
#[ignore = "needs gopls; ./scripts/test runs it"]
fn gopls_renames_over_files_and_that_is_undone_in_one_step() {
    let script = r#"
turns:
  - calls: [{ tool: find_references, params: { path: shapes/shapes.go, line: 4, symbol: Area } }]
  - when: { contains: ["main.go:6 | println(shapes.Area(2))", "shapes/shapes.go:4 | func Area(side int) int {"] }
    calls: [{ tool: hover, params: { path: main.go, line: 6, symbol: Area } }]
  - when: { contains: ["func shapes.Area(side int) int", "Area is that of a square."] }
    calls: [{ tool: rename_symbol, params: { path: shapes/shapes.go, line: 4, symbol: Area, new_name: Surface } }]
  - when: { contains: ["<path>main.go</path><operation>modified</operation>", "<path>shapes/shapes.go</path><operation>modified</operation>"] }
"#;
    let (home, mut client) = start_writing(script, &GO);
    let task = completes(&mut client, "Rename it.");
    let read = |name: &str| fs::read_to_string(home.work(name)).unwrap();
    assert!(read("main.go").contains("println(shapes.Surface(2))"));
    assert!(read("shapes/shapes.go").contains("// Surface is that of a square.\nfunc Surface(side int)"));
    undo(&mut client, &task);
    for (name, text) in GO {
        assert_eq!(read(name), text, "{name}");
    }
    assert_eq!(client.shut_down(), 0);
    let left = processes::with(&home.path("work").display().to_string());
    assert!(left.is_empty(), "{left:?}");
}

#[test]
#[ignore = "needs gopls; ./scripts/test runs it"]
fn gopls_reports_what_edits_bring() {
    let script = r#"
turns:
  - calls: [{ tool: search_and_replace, params: { path: main.go, search: "Area(2)", replace: "Are(2)" } }]
  - when: { contains: ["<problems by=\"gopls\">\n1 new\nmain.go:6:17 error: Are not declared by package shapes"] }
    calls: [{ tool: search_and_replace, params: { path: main.go, search: "Are(2)", replace: "Area(4)" } }]
  - when: { contains: "<problems by=\"gopls\">\nno new problems, 1 gone\n</problems>" }
"#;
    let (home, mut client) = start_writing(script, &GO);
    completes(&mut client, "Make it four.");
    let text = fs::read_to_string(home.work("main.go")).unwrap();
    assert!(text.contains("println(shapes.Area(4))"), "{text}");
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

/// Installs a program as the language server of Python.
fn install(home: &Home, program: &str) -> PathBuf {
    let programs = home.path("bin");
    fs::create_dir(&programs).unwrap();
    let path = programs.join("basedpyright-langserver");
    fs::write(&path, program).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    programs
}

/// A language server for bash: it names lines that are not there, and changes them.
const LIAR: &str = r#"#!/bin/bash
export LC_ALL=C
answer() {
  local body="{\"jsonrpc\":\"2.0\",\"id\":$1,\"result\":$2}"
  printf 'Content-Length: %d\r\n\r\n%s' "${#body}" "$body"
}
at() { echo "{\"start\":{\"line\":$1,\"character\":0},\"end\":{\"line\":$1,\"character\":1}}"; }
while IFS= read -r header; do
  header=${header%$'\r'}
  case $header in
    Content-Length:*) length=${header#Content-Length: }; continue ;;
    '') IFS= read -r -N "$length" body ;;
    *) continue ;;
  esac
  [[ $body =~ \"method\":\"([^\"]+)\" ]] && method=${BASH_REMATCH[1]} || continue
  [[ $method == exit ]] && exit
  [[ $body =~ \"id\":([0-9]+) ]] && id=${BASH_REMATCH[1]} || continue
  [[ $body =~ \"uri\":\"([^\"]+)\" ]] && uri=${BASH_REMATCH[1]}
  case $method in
    initialize) answer "$id" '{"capabilities":{"diagnosticProvider":{}}}' ;;
    textDocument/diagnostic) answer "$id" '{"items":[]}' ;;
    textDocument/references)
      answer "$id" "[{\"uri\":\"$uri\",\"range\":$(at 0)},{\"uri\":\"$uri\",\"range\":$(at 99999)}]" ;;
    textDocument/definition) answer "$id" "[{\"uri\":\"$uri\",\"range\":$(at 4294967295)}]" ;;
    textDocument/rename)
      answer "$id" "{\"changes\":{\"$uri\":[{\"range\":$(at 500),\"newText\":\"lost\"}]}}" ;;
    *) answer "$id" null ;;
  esac
done
"#;

#[test]
fn a_server_that_lies_about_positions_shows_and_changes_nothing_that_is_not_there() {
    let script = r#"
turns:
  - calls: [{ tool: find_references, params: { path: a.py, line: 1, symbol: a } }]
  - when: { contains: ["a.py:1 | a = 1", "(1 left out: the server named lines that are not there.)"] }
    calls: [{ tool: go_to_definition, params: { path: a.py, line: 1, symbol: a } }]
  - when: { contains: "Nothing found.\n(1 left out: the server named lines that are not there.)" }
    calls: [{ tool: rename_symbol, params: { path: a.py, line: 1, symbol: a, new_name: b } }]
  - when: { contains: ["doesn't fit its text", "Nothing was changed."] }
"#;
    let home = Home::playing(&(script.to_owned() + DONE));
    home.configure("mode: code\nautoApprove: { write: true }\n");
    write(&home, &[("setup.py", ""), ("a.py", "a = 1\n")]);
    let programs = install(&home, LIAR);
    let mut client = start(&home, &programs);
    completes(&mut client, "Rename it.");
    assert_eq!(fs::read_to_string(home.work("a.py")).unwrap(), "a = 1\n");
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn a_server_that_hangs_ends_with_the_program_and_keeps_no_task_from_being_cancelled() {
    let script = "
turns:
  - calls: [{ tool: hover, params: { path: a.py, line: 1, symbol: a } }]
";
    let home = Home::playing(script);
    home.configure("mode: code\n");
    write(&home, &[("setup.py", ""), ("a.py", "a = 1\n")]);
    let mark = processes::mark(1);
    let programs = install(&home, &format!("#!/bin/sh\nexec sleep {mark}\n"));
    let mut client = start(&home, &programs);
    let task = client.start_task("What is it?");
    eventually("the server is started", || !processes::with(&mark).is_empty());
    client.request("roo/task/cancel", json!({ "taskId": task }));
    client.state("cancelled");
    assert_eq!(client.shut_down(), 0);
    eventually("the server has ended", || processes::with(&mark).is_empty());
}

#[test]
fn an_editor_that_offers_it_asks_its_own_language_servers_and_none_is_started() {
    let script = r#"
turns:
  - calls: [{ tool: find_references, params: { path: a.py, line: 1, symbol: area } }]
  - when: { contains: "a.py:1 | äreal = area = 1\nb.py:2 | print(area)" }
    calls: [{ tool: workspace_symbols, params: { path: a.py, query: are } }]
  - when: { contains: "a.py:1 variable area in shapes" }
    calls: [{ tool: go_to_definition, params: { path: b.py, line: 2, symbol: area } }]
  - when: { contains: There is no language server for this file here }
    calls: [{ tool: diagnostics, params: { path: a.py } }]
  - when: { contains: "a.py:1:9 warning: it is not read (linter)" }
"#;
    let home = Home::playing(&(script.to_owned() + DONE));
    home.configure("mode: code\n");
    write(&home, &[("a.py", "äreal = area = 1\n"), ("b.py", "from a import area\nprint(area)\n")]);
    let offer = json!({ "capabilities": { "experimental": { "roo": { "codeAsk": true } } } });
    let mut client = Client::start(&home, Options::typed().with(offer));
    let open = client.open(&home.work("a.py"), "äreal = area = 1\n");
    let at = |character: u32| json!({ "line": 0, "character": character });
    let unread = json!({
        "range": { "start": at(9), "end": at(13) }, "severity": 2, "source": "linter", "message": "it is not read",
    });
    client.notify("roo/editor/diagnostics", json!({ "uri": open, "diagnostics": [unread] }));
    client.start_task("Where is it used?");
    let place = |name: &str, line: u32| json!({ "uri": uri(&home.work(name)), "line": line });
    let asked = |client: &mut Client, question: &str, result: Value| {
        let request = client.wait_for("a question about code", |message| message["method"] == "roo/code/ask");
        assert_eq!(request["params"]["question"], question, "{request}");
        client.reply(&request, result);
        request["params"].clone()
    };
    let found = json!({ "isKnown": true, "places": [place("b.py", 1), place("a.py", 0), place("a.py", 0)] });
    let params = asked(&mut client, "references", found);
    assert_eq!(params["uri"], uri(&home.work("a.py")));
    assert_eq!(params["position"], json!({ "line": 0, "character": 9 }), "in UTF-8");
    let symbol = json!({ "name": "area", "kind": 13, "container": "shapes", "place": place("a.py", 0) });
    let params = asked(&mut client, "symbols", json!({ "isKnown": true, "symbols": [symbol] }));
    assert_eq!(params["query"], "are");
    // Where it knows nothing, a server of ours is asked, of which there is none here.
    asked(&mut client, "definition", json!({ "isKnown": false }));
    client.state("completed");
    assert_eq!(client.shut_down(), 0);
}

/// Answers questions about code until the request has ended. Returns its end.
fn answer_until_end(client: &mut Client, mut answer: impl FnMut(&Client, &Value) -> Value) -> Value {
    loop {
        let message = client.wait_for("a question about code, or the end", |message| {
            message["method"] == "roo/code/ask"
                || message["method"] == "roo/event" && is_end_of_request(&message["params"])
        });
        if message["method"] == "roo/event" {
            return message["params"]["event"].clone();
        }
        let told = answer(client, &message["params"]);
        client.reply(&message, told);
    }
}

/// A range within a line.
fn range(line: u32, from: u32, to: u32) -> Value {
    json!({ "start": { "line": line, "character": from }, "end": { "line": line, "character": to } })
}

/// An editor that answers questions about code, in units of UTF-16.
fn start_editor(home: &Home) -> Client {
    let offer = json!({ "capabilities": {
        "general": { "positionEncodings": ["utf-16"] },
        "experimental": { "roo": { "codeAsk": true } },
    } });
    Client::start(home, Options::typed().with(offer))
}

#[test]
fn an_editor_tells_hovers_and_actions_and_proposes_changes_that_the_server_judges_and_writes_as_one() {
    let script = r#"
turns:
  - calls: [{ tool: hover, params: { path: a.py, line: 1, symbol: area } }]
  - when: { contains: "area: int" }
    calls: [{ tool: code_actions, params: { path: a.py, line: 1 } }]
  - when: { contains: "- Shrink (quickfix), preferred" }
    calls: [{ tool: rename_symbol, params: { path: a.py, line: 1, symbol: area, new_name: size } }]
  - when: { contains: ["<path>a.py</path><operation>modified</operation>", "<path>b.py</path><operation>modified</operation>"] }
    calls: [{ tool: apply_code_action, params: { path: a.py, line: 1, title: Shrink } }]
  - when: { contains: "<path>a.py</path><operation>modified</operation>" }
    calls: [{ tool: apply_code_action, params: { path: a.py, line: 1, title: Grow } }]
  - when: { contains: "The language server of the editor proposes nothing: it offers only `Shrink`." }
"#;
    let home = Home::playing(&(script.to_owned() + DONE));
    home.configure("mode: code\nautoApprove: { write: true }\n");
    write(&home, &[("a.py", "äreal = area = 1\n"), ("b.py", "from a import area\nprint(area)\n")]);
    let mut client = start_editor(&home);
    let text = "𝒳 = 0; area = 1\n";
    let open = client.open(&home.work("a.py"), text);
    client.start_task("Rename it.");
    let closed = uri(&home.work("b.py"));
    let mut asked: Vec<String> = vec![];
    let end = answer_until_end(&mut client, |client, params| {
        let question = params["question"].as_str().unwrap();
        asked.push(question.to_owned());
        let version = client.documents[&open].version;
        let change = |range: Value, text: &str| json!({ "range": range, "newText": text });
        match question {
            "hover" => {
                assert_eq!(params["position"], json!({ "line": 0, "character": 8 }), "in UTF-16");
                json!({ "isKnown": true, "text": "area: int" })
            }
            "actions" => {
                let shrink = json!({ "title": "Shrink", "kind": "quickfix", "isPreferred": true });
                json!({ "isKnown": true, "actions": [shrink] })
            }
            "rename" => {
                assert_eq!(params["newName"], "size");
                json!({ "isKnown": true, "files": [
                    { "uri": open, "version": version, "edits": [change(range(0, 8, 12), "size")] },
                    { "uri": closed, "edits": [change(range(0, 14, 18), "size"), change(range(1, 6, 10), "size")] },
                ] })
            }
            "references" => {
                let places = [json!({ "uri": open, "line": 0 }), json!({ "uri": closed, "line": 1 })];
                json!({ "isKnown": true, "places": places })
            }
            "action" if params["title"] == "Shrink" => {
                let edits = [change(range(0, 12, 15), "")];
                json!({ "isKnown": true, "files": [{ "uri": open, "version": version, "edits": edits }] })
            }
            "action" => json!({ "isKnown": true, "refusal": "it offers only `Shrink`" }),
            other => panic!("{other}"),
        }
    });
    assert_eq!(end["state"], "completed", "{end}");
    assert_eq!(client.documents[&open].text, "𝒳 = 0; size1\n");
    assert_eq!(fs::read_to_string(home.work("b.py")).unwrap(), "from a import size\nprint(size)\n");
    assert!(
        asked.contains(&"references".to_owned()),
        "uses that a rename leaves out are looked for: {asked:?}"
    );
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn what_an_editor_proposes_about_other_texts_or_in_part_changes_nothing() {
    let script = r#"
turns:
  - calls: [{ tool: rename_symbol, params: { path: a.py, line: 1, symbol: area, new_name: old } }]
  - when: { contains: There is no language server for this file here }
    calls: [{ tool: rename_symbol, params: { path: a.py, line: 1, symbol: area, new_name: stale } }]
  - when: { contains: There is no language server for this file here }
    calls: [{ tool: rename_symbol, params: { path: a.py, line: 1, symbol: area, new_name: beyond } }]
  - when: { contains: There is no language server for this file here }
    calls: [{ tool: rename_symbol, params: { path: a.py, line: 1, symbol: area, new_name: part } }]
  - when: { contains: ["leaves out", "b.py, where the symbol is used, so nothing was changed"] }
"#;
    let home = Home::playing(&(script.to_owned() + DONE));
    home.configure("mode: code\nautoApprove: { write: true }\nlimits: { mistakes: 9 }\n");
    write(&home, &[("a.py", "area = 1\n"), ("b.py", "from a import area\nprint(area)\n")]);
    let mut client = start_editor(&home);
    let open = client.open(&home.work("a.py"), "area = 1\n");
    client.start_task("Rename it.");
    let closed = uri(&home.work("b.py"));
    let end = answer_until_end(&mut client, |_, params| {
        let edits = |range: Value| json!([{ "range": range, "newText": "size" }]);
        let own = json!({ "uri": open, "version": 1, "edits": edits(range(0, 0, 4)) });
        let files = match params["newName"].as_str() {
            // Of an earlier version of the document.
            Some("old") => json!([{ "uri": open, "version": 0, "edits": edits(range(0, 0, 4)) }]),
            // Of a text on disk of which the editor's server has not heard.
            Some("stale") => json!([own, { "uri": closed, "edits": edits(range(1, 0, 4)) }]),
            Some("beyond") => json!([{ "uri": open, "version": 1, "edits": edits(range(9, 0, 4)) }]),
            Some(_) => json!([own]),
            None => {
                assert_eq!(params["question"], "references");
                return json!({ "isKnown": true, "places": [{ "uri": open, "line": 0 }, { "uri": closed, "line": 0 }] });
            }
        };
        json!({ "isKnown": true, "files": files })
    });
    assert_eq!(end["state"], "completed", "{end}");
    assert_eq!(client.documents[&open].text, "area = 1\n");
    assert_eq!(fs::read_to_string(home.work("b.py")).unwrap(), "from a import area\nprint(area)\n");
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
            for tool in [
                "find_references",
                "go_to_definition",
                "hover",
                "workspace_symbols",
                "diagnostics",
                "code_actions",
                "apply_code_action",
                "rename_symbol",
            ] {
                let is_offered = told.tools.iter().any(|offered| offered.name() == tool);
                assert_eq!(is_offered, has_language_server, "{tool} {protocol:?}");
                let is_described = told.system.contains(&format!("### {tool}\n"));
                assert_eq!(is_described, has_language_server && protocol == ToolProtocol::Xml, "{tool}");
            }
        }
    }
}
