//! The integration tests, in one binary.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod architecture;
mod attacks;
mod background;
mod branches;
mod cassettes;
mod checkpoints;
mod cli;
mod config_files;
mod confined;
mod context;
mod crash;
mod delegation;
mod dependencies;
mod documentation;
mod earlier_versions;
mod egress;
mod engine;
mod faults;
mod forks;
mod governed;
mod grants;
mod hooked;
mod live_settings;
mod many_tasks;
mod mcp;
mod mcp_files;
#[path = "../../benches/support/mod.rs"]
#[expect(dead_code, reason = "measurements use the rest")]
mod measured;
mod messages;
mod models;
mod policy;
mod prompt;
mod providers;
mod rate_limits;
mod recorded_events;
mod replay;
mod review;
mod run_output;
mod sandbox;
mod schemas;
mod server;
mod server_tools;
mod several_processes;
mod soak;
mod support;
mod task_document;
mod toolchains;
mod trace;
mod user_hooks;
mod wire;
mod wording;
mod worktrees;
