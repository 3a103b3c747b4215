//! What the tests stand on.

pub mod client;
pub mod model_server;
pub mod project;
