//! The documentation is true of the program: its links lead somewhere, its examples are valid, the names that it
//! mentions exist, and its reference pages are those that the program's own definitions give.
//!
//! Every fenced block has a language and says behind it how it is checked (see `examples.rs`), such as
//! ```` ```yaml settings ````, or why it isn't: ```` ```lua unchecked: needs Neovim ````.

mod examples;
mod links;
mod markdown;
mod names;
mod paths;
mod references;

use std::fs;
use std::path::{Path, PathBuf};

use self::markdown::Page;

/// The pages beside the book that people read first.
const BESIDE: [&str; 8] = [
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "README.md",
    "SECURITY.md",
    "editors/emacs/README.md",
    "editors/helix/README.md",
    "editors/vscode/README.md",
];

/// The book's pages, with their paths from the root of the repository.
fn book() -> Vec<Page> {
    let mut paths = Vec::new();
    collect(&crate::support::package().join("docs/src"), &mut paths);
    paths.sort();
    paths.iter().map(|path| page(path)).collect()
}

/// The book and the pages beside it.
fn all_pages() -> Vec<Page> {
    let root = crate::support::package();
    let beside = BESIDE.iter().map(|path| page(&root.join(path)));
    beside.chain(book()).collect()
}

/// The page with this path from the root of the repository.
fn page(path: &Path) -> Page {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let name = path.strip_prefix(crate::support::package()).unwrap();
    Page::parse(name, &text)
}

fn collect(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

/// Fails with all problems at once.
#[track_caller]
fn assert_none(problems: &[String]) {
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn the_readme_is_short_enough_to_be_read() {
    let size = fs::metadata(crate::support::package().join("README.md")).unwrap().len();
    assert!(size <= 7 * 1024, "README.md has {size} bytes; what a visitor doesn't need belongs in docs/src");
}
