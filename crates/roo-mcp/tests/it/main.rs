//! The hub with servers in this process, as programs, and over HTTP.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "tests")]

mod calls;
mod conformance;
mod faults;
mod http;
mod http_server;
mod lifecycle;
mod login;
mod programs;
mod real_servers;
mod sampling;
mod support;
