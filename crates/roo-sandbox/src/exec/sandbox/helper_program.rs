//! The program that runs as a helper.

use std::path::{Path, PathBuf};

/// The first argument of a helper process.
pub(super) const HELPER: &str = "sandbox-helper";
/// The role of a helper that makes a network.
pub(super) const NETWORK: &str = "network";

/// The role of a helper that connects to a port in a network.
pub(super) const CONNECT: &str = "connect";

/// The program that helpers are started from: this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Helper(PathBuf);

impl Helper {
    /// This very program, even when its file has been replaced since it started.
    pub fn own() -> Self {
        Self("/proc/self/exe".into())
    }

    /// The program at a path, for tests and for programs that are not `roo-lsp`.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// No program, as on a machine without a sandbox. Nothing is started to find that out.
    pub fn none() -> Self {
        Self(PathBuf::new())
    }

    pub(in crate::exec) fn is_none(&self) -> bool {
        self.0.as_os_str().is_empty()
    }

    pub(in crate::exec) fn path(&self) -> &Path {
        &self.0
    }
}
