//! What the tests stand on.

pub mod client;
pub mod engine;
pub mod model_server;
pub mod processes;
pub mod project;
pub mod terminal;

use std::path::PathBuf;

use serde_json::Value;

/// The folder of the package, where it is now: binaries outlive the folder that they were built in.
pub fn package() -> PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo says where the package is").into()
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
