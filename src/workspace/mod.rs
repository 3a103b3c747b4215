//! workspace (being built)

/// A path that the resolver let through.
#[derive(Debug)]
pub struct Resolved {}
/// The files.
pub struct Workspace {}
