//! What the tests stand on.

pub mod client;
pub mod engine;
pub mod model_server;
pub mod project;
