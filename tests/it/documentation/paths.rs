//! Files and directories of the repository that pages for its developers name in code exist.

use std::path::Path;

use super::markdown::Page;
use super::{all_pages, assert_none, page};

/// Pages for developers. Other pages name files of their readers.
const FOR_DEVELOPERS: [&str; 6] = [
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "docs/src/clients.md",
    "docs/src/fuzzing.md",
    "docs/src/performance.md",
];

/// Chapters about the design, which are for developers too.
const DESIGN: &str = "docs/src/design";

/// What a path from the root of the repository begins with.
const FOLDERS: [&str; 9] =
    ["benches/", "crates/", "docs/", "editors/", "fuzz/src", "schemas/", "scripts/", "src/", "tests/"];

/// Why code in the text of a page for developers is no path; none where it is one, or something else.
fn problem(page: &Page, code: &str) -> Option<&'static str> {
    let is_design = page.path == Path::new("ARCHITECTURE.md") || page.path.starts_with(DESIGN);
    if !is_design && !FOR_DEVELOPERS.iter().any(|known| page.path == Path::new(known)) {
        return None;
    }
    if FOLDERS.iter().any(|folder| code.starts_with(folder)) {
        let is_pattern = code.contains(['<', '*', ' ']);
        let exists = is_pattern || crate::support::package().join(code).exists();
        return (!exists).then_some("there is no such file");
    }
    // A path that begins elsewhere can't be checked, and a reader has to guess where it begins.
    let is_source = [".rs", ".ts", ".lua"].iter().any(|end| code.ends_with(end)) && !code.contains(' ');
    (is_design && is_source).then_some("write the path from the root of the repository")
}

#[test]
fn paths_in_pages_for_developers_exist() {
    let mut problems = Vec::new();
    for page in all_pages() {
        for (line, code) in &page.code {
            if let Some(problem) = problem(&page, code) {
                problems.push(format!("{}:{line}: `{code}`: {problem}", page.path.display()));
            }
        }
    }
    assert_none(&problems);
}

#[test]
fn paths_that_are_gone_are_found() {
    let problem = |name: &str, code: &str| problem(&page(&crate::support::package().join(name)), code);
    let developers = ["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/src/design/engine.md"];
    for page in developers {
        for right in ["src/main.rs", "crates/roo-engine/", "crates/*/Cargo.toml", "cargo test", "Task"] {
            assert_eq!(problem(page, right), None, "{page}: {right}");
        }
        for wrong in ["src/mains.rs", "crates/roo-engines/", "docs/src/design/engines.md"] {
            assert!(problem(page, wrong).is_some(), "{page}: {wrong}");
        }
    }
    assert_eq!(problem("CONTRIBUTING.md", "read_file.rs"), None);
    for page in ["ARCHITECTURE.md", "docs/src/design/engine.md"] {
        for relative in ["read_file.rs", "engine/task.rs", "lua/roo/request.lua"] {
            assert!(problem(page, relative).is_some(), "{page}: {relative}");
        }
    }
    // An example of a file in the project of a reader.
    assert_eq!(problem("docs/src/hooks.md", "scripts/check.sh"), None);
}
