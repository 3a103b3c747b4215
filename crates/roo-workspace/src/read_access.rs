//! Whether agents may read a file.

/// Permission to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadAccess {
    /// Without asking.
    Free,
    /// Never: `.rooignore` says so.
    Ignored,
    /// Only when asked for by name and allowed: it is likely to hold a secret.
    Secret,
    /// Only when allowed: it is outside the workspace.
    Outside,
}
