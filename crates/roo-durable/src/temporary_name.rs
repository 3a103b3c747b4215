//! Names of the temporary files that come to be beside files of users while these are replaced. Agents are shown none of
//! them: they are gone a moment later.

/// What they begin with.
const PREFIX: &str = ".roo-lsp-";
/// What those of files end with.
const SUFFIX: &str = ".tmp";

/// A new name for a file that is going to take the place of another one.
pub fn temporary_name() -> String {
    format!("{PREFIX}{}{SUFFIX}", uuid::Uuid::new_v4().simple())
}

/// Returns whether a name is such a one, or one by which something is moved.
pub fn is_temporary_name(name: &[u8]) -> bool {
    let rest = name.strip_prefix(PREFIX.as_bytes());
    let id = rest.map(|rest| rest.strip_suffix(SUFFIX.as_bytes()).unwrap_or(rest));
    id.is_some_and(|id| uuid::Uuid::try_parse_ascii(id).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_names_are_temporary() {
        assert!(is_temporary_name(temporary_name().as_bytes()));
        assert!(is_temporary_name(b".roo-lsp-a1a2a3a4-b1b2-c1c2-d1d2-d3d4d5d6d7d8"));
        for name in
            [".roo-lsp-notes.tmp", ".roo-lsp-.tmp", "a.tmp", "x.roo-lsp-a1a2a3a4b1b2c1c2d1d2d3d4d5d6d7d8.tmp"]
        {
            assert!(!is_temporary_name(name.as_bytes()), "{name}");
        }
    }
}
