//! What the tests stand on.

pub mod bounded_process;
pub mod client;
pub mod engine;
pub mod model_server;
pub mod processes;
pub mod project;
pub mod replays;
pub mod repository;
pub mod terminal;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// The folder of the package, where it is now: binaries outlive the folder that they were built in.
pub fn package() -> PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo says where the package is").into()
}

/// A directory for fixtures of which commands see what surrounds the workspace: in the package, or, where that lies below
/// a directory of temporary files, which a command sees as its own, in the user's cache.
pub fn scratch() -> PathBuf {
    let is_temporary = |path: &Path| ["/tmp", "/var/tmp"].iter().any(|temporary| path.starts_with(temporary));
    let in_package = package().canonicalize().unwrap().join("target/tmp");
    let scratch = if is_temporary(&in_package) {
        let home =
            PathBuf::from(std::env::var_os("HOME").expect("below /tmp these tests need a home directory"));
        assert!(!is_temporary(&home), "these tests need the package or the home directory outside of /tmp");
        home.join(".cache/roo-lsp-tests")
    } else {
        in_package
    };
    fs::create_dir_all(&scratch).unwrap();
    scratch.canonicalize().unwrap()
}

/// The numbers of events follow each other without a gap; a merged event stands for several.
#[track_caller]
pub fn assert_gapless(events: &[Value], first: u64) {
    let mut next = first;
    for event in events {
        assert_eq!(event["from"].as_u64().or(event["seq"].as_u64()), Some(next), "{event}");
        next = event["seq"].as_u64().unwrap() + 1;
    }
}
