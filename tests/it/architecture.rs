//! What Cargo can't say of the layout: which code clippy holds pure, who prints, which module of the engine may import which,
//! which modules form no circle, and that every test is run. What crates may import is in their manifests.

mod circles;
mod waiting;

use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;

use self::circles::{FromParents, circle_below};

/// Code that does no input or output and knows no clock: clippy holds it to that, by the methods in clippy.toml.
const PURE: &[&str] = &[
    "crates/roo-catalog/src/lib.rs",
    "crates/roo-engine/src/engine/task.rs",
    "crates/roo-engine/src/engine/tree.rs",
    "crates/roo-formats/src/declaration.rs",
    "crates/roo-formats/src/front_matter/mod.rs",
    "crates/roo-formats/src/hooks/mod.rs",
    "crates/roo-formats/src/intents/mod.rs",
    "crates/roo-formats/src/mcp/mod.rs",
    "crates/roo-formats/src/modes/mod.rs",
    "crates/roo-model/src/parser/mod.rs",
    "crates/roo-model/src/prompts/mod.rs",
    "crates/roo-protocol/src/lib.rs",
    "crates/roo-shell/src/lib.rs",
    "crates/roo-syntax/src/lib.rs",
    "crates/roo-text/src/lib.rs",
    "src/markdown.rs",
    "src/roo_api/mod.rs",
    "src/view/mod.rs",
];

/// The modules of the engine. Each imports only from those before it.
const ENGINE_MODULES: &[&str] = &[
    "approvals",
    "hooks",
    "customization",
    "intent_store",
    "server_prompts",
    "server_tools",
    "file_contents",
    "tagged_text",
    "mentions",
    "project_info",
    "tool_run",
    "policy",
    "tools",
    "engine",
];

/// Modules whose files form no circle, not even a child with its parent: the sources of a crate, and a module of it.
const WITHOUT_CIRCLES: &[(&str, &str)] = &[
    ("crates/roo-engine/src", "policy"),
    ("crates/roo-mcp/src", ""),
    ("crates/roo-process/src", ""),
    ("crates/roo-protocol/src", ""),
    ("crates/roo-text/src", ""),
    ("crates/roo-trace/src", ""),
];

fn rust_files(path: &Path, found: &mut Vec<PathBuf>) {
    if path.is_dir() {
        let mut entries: Vec<_> = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
        entries.sort();
        entries.iter().for_each(|entry| rust_files(entry, found));
    } else if path.extension().is_some_and(|extension| extension == "rs") {
        found.push(path.to_path_buf());
    }
}

/// Returns whether all of a file is tests, or serves them.
fn is_test(file: &str) -> bool {
    file.split('/').any(|part| part == "tests") || file.trim_end_matches(".rs").ends_with("tests")
}

/// The text of every source file below a path of the repository, without its tests.
fn sources(below: &str) -> Vec<(String, String)> {
    let package = crate::support::package();
    let mut files = Vec::new();
    rust_files(&package.join(below), &mut files);
    assert!(!files.is_empty(), "{below} is gone");
    let files = files.into_iter().map(|file| {
        let name = file.strip_prefix(&package).unwrap().to_string_lossy().into_owned();
        let text = fs::read_to_string(&file).unwrap();
        (name, text.split("#[cfg(test)]\nmod tests {").next().unwrap().to_owned())
    });
    files.filter(|(name, _)| !is_test(name)).collect()
}

fn all_sources() -> Vec<(String, String)> {
    [sources("src"), sources("crates")].concat()
}

/// Every path in a piece of code, imports in full: `use std::{fs, io::Read};` names `std::fs` and
/// `std::io::Read`.
fn names(code: &str) -> Vec<String> {
    let code: String =
        code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
    let path = Regex::new(r"\w+(?:::\w+)+").unwrap();
    let import = Regex::new(r"(?m)^\s*(?:pub(?:\(\w+\))? )?use ([^;]+);").unwrap();
    let mut found: Vec<String> = path.find_iter(&code).map(|path| path.as_str().to_owned()).collect();
    for statement in import.captures_iter(&code) {
        expand("", &statement[1], &mut found);
    }
    found
}

/// The paths in an import, or in one pair of its braces.
fn expand(start: &str, list: &str, found: &mut Vec<String>) {
    let mut depth = 0;
    let apart = |c: char| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    };
    for item in list.split(apart).map(str::trim).filter(|item| !item.is_empty()) {
        match item.split_once('{') {
            Some((head, inner)) => expand(&format!("{start}{head}"), inner.trim_end_matches('}'), found),
            None => found.push(format!("{start}{item}")),
        }
    }
}

#[test]
fn names_are_found_wherever_they_stand() {
    let code = "use std::{fs, io::{self, Read}};\n// use tokio::time;\npub(crate) use crate::text::{\n    lines,\n    render as r,\n};\n\
                fn f() { std::env::var(x); }\n";
    for name in ["std::fs", "std::io::Read", "crate::text::lines", "std::env::var"] {
        assert!(names(code).iter().any(|found| found == name), "{name}: {:?}", names(code));
    }
    assert!(!names(code).iter().any(|found| found.starts_with("tokio")));
}

#[test]
fn pure_code_is_held_to_it_by_clippy() {
    let root = crate::support::package();
    let kept = fs::read_to_string(root.join("clippy.toml")).unwrap();
    for method in ["std::env::var", "std::fs::read", "std::process::Command::new", "std::time::Instant::now"]
    {
        assert!(kept.contains(&format!("\"{method}\"")), "clippy.toml lets pure code call {method}");
    }
    for file in PURE {
        let code = fs::read_to_string(root.join(file)).unwrap();
        let held = code.contains("\n#![cfg_attr(not(test), deny(clippy::disallowed_methods))]\n");
        assert!(held, "{file} may call what clippy.toml keeps from pure code");
        // Clippy knows methods of types, not all that a crate has.
        let module = file.trim_end_matches("/mod.rs").trim_end_matches("/lib.rs");
        let below = module.trim_end_matches(".rs");
        let directory = (below != module && root.join(below).is_dir()).then(|| sources(below));
        for (file, code) in sources(module).into_iter().chain(directory.into_iter().flatten()) {
            let tokio = names(&code).into_iter().find(|name| name.starts_with("tokio"));
            assert_eq!(tokio, None, "{file} waits, or runs something beside it");
            assert!(!code.contains("allow(clippy::disallowed_methods"), "{file} is not held to it");
        }
    }
}

#[test]
fn what_blocks_in_the_engine_is_on_one_thread_in_a_simulation() {
    for below in ["crates/roo-engine/src", "crates/roo-sandbox/src", "crates/roo-workspace/src"] {
        for (file, code) in sources(below) {
            let own = names(&code).into_iter().find(|name| name == "tokio::task::spawn_blocking");
            assert_eq!(own, None, "{file} does not use roo_durable::spawn_blocking");
        }
    }
}

#[test]
fn modules_of_the_engine_import_only_from_those_before_them() {
    let place = |module: &str| ENGINE_MODULES.iter().position(|known| *known == module);
    for (file, code) in sources("crates/roo-engine/src") {
        let below = file.strip_prefix("crates/roo-engine/src/").unwrap();
        let module = below.split('/').next().unwrap().trim_end_matches(".rs");
        if module == "lib" {
            continue;
        }
        let own = place(module).unwrap_or_else(|| panic!("{module} has no place in the order of modules"));
        for name in names(&code) {
            let imported = name.strip_prefix("crate::").and_then(|name| name.split("::").next());
            let is_before = imported.and_then(place).is_none_or(|imported| imported <= own);
            assert!(is_before, "{file} imports {name}, which comes after {module}");
        }
    }
}

#[test]
fn files_of_modules_form_no_circle() {
    for (sources, module) in WITHOUT_CIRCLES {
        assert_eq!(circle_below(sources, module, FromParents::Counted), None, "of {sources}");
    }
}

#[test]
fn files_of_a_crate_form_no_circle_but_with_the_modules_that_declare_them() {
    let crates = fs::read_dir(crate::support::package().join("crates")).unwrap();
    let names = crates.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let sources = names.map(|name| format!("crates/{name}/src")).chain(["src".to_owned()]);
    for sources in sources {
        assert_eq!(circle_below(&sources, "", FromParents::Allowed), None, "of {sources}");
    }
}

#[test]
fn only_the_server_knows_the_lsp_crate() {
    for (file, code) in all_sources() {
        assert!(file.starts_with("src/server/") || !code.contains("tower_lsp"), "{file} names tower_lsp");
    }
}

#[test]
fn only_its_front_end_knows_the_crate_of_the_agent_client_protocol() {
    for (file, code) in all_sources() {
        let name = "agent_client_protocol";
        assert!(file.starts_with("src/acp/") || !code.contains(name), "{file} names {name}");
    }
}

#[test]
fn only_one_module_knows_the_client_of_nats() {
    for (file, code) in all_sources() {
        assert!(file.starts_with("src/nats/") || !code.contains("async_nats"), "{file} names async_nats");
    }
}

#[test]
fn only_the_command_line_and_the_server_print() {
    for (file, code) in all_sources() {
        // Its process writes the text of a document to a pipe.
        let is_extractor = file == "crates/roo-documents/src/extractor.rs";
        let prints = code.contains("io::stdout()") || code.contains("println!");
        assert!(file.starts_with("src/") || is_extractor || !prints, "{file} prints");
    }
}

#[test]
fn tests_that_cargo_test_leaves_out_are_run_by_the_test_script() {
    let root = crate::support::package();
    let script = fs::read_to_string(root.join("scripts/test")).unwrap();
    for targets in ["--lib --bins", "--test '*'"] {
        let step = format!("cargo nextest run --locked --workspace --run-ignored all {targets}\n");
        assert!(script.contains(&step), "{step}");
    }
    let mut files = vec![];
    for directory in ["crates", "src", "tests"] {
        rust_files(&root.join(directory), &mut files);
    }
    let ignored = Regex::new(r"(?m)^\s*#\[ignore(.*)\]$").unwrap();
    for file in files {
        for found in ignored.captures_iter(&fs::read_to_string(&file).unwrap()) {
            assert!(found[1].ends_with("./scripts/test runs it\""), "{}: {}", file.display(), &found[0]);
        }
    }
}
