//! A place without a disk, for those who measure or fuzz the decision of command lines alone.

use super::{Entry, Place, Program, Repository};

/// A directory of a workspace in which everything is there, everything may be read and every program is installed.
#[derive(Clone, Copy, Debug)]
pub struct NoDisk {
    /// True if everything may be written without asking, too.
    pub is_writable: bool,
}

impl Place for NoDisk {
    fn directory(&self) -> &str {
        "/w"
    }

    fn inside(&self, path: &str) -> Result<(), String> {
        Err(path.to_owned())
    }

    fn enterable(&self, _: &str) -> Result<(), String> {
        Ok(())
    }

    fn is_same(&self, _: &str, _: &str) -> bool {
        false
    }

    fn unreadable_below(&self, _: &str) -> Result<Vec<String>, String> {
        Ok(vec![])
    }

    fn below(&self, _: &str) -> Result<Vec<Entry>, String> {
        Ok(vec![])
    }

    fn repository(&self, _: &str) -> Repository {
        Repository::default()
    }

    fn ignored(&self, _: &str) -> Option<String> {
        None
    }

    fn writable(&self, path: &str) -> Result<(), String> {
        if self.is_writable { Ok(()) } else { Err(path.to_owned()) }
    }

    fn readable(&self, _: &str) -> Result<(), String> {
        Ok(())
    }

    fn within(&self, _: &str) -> Result<(), String> {
        Ok(())
    }

    fn reachable(&self, _: &str) -> Result<(), String> {
        Ok(())
    }

    fn recorded(&self, _: &str, _: &str) -> Result<(), String> {
        Ok(())
    }

    fn is_there(&self, _: &str) -> bool {
        true
    }

    fn is_directory(&self, _: &str) -> bool {
        false
    }

    fn matching(&self, pattern: &str, _: usize) -> Result<Vec<String>, String> {
        Ok(vec![pattern.to_owned()])
    }

    fn program(&self, name: &str) -> Program {
        Program::Installed(format!("/bin/{name}").into())
    }

    fn script(&self, _: &str) -> Option<String> {
        None
    }
}
