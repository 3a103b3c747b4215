//! Sockets in the file system, by which a command could ask programs outside to act for it: a
//! read-only mount does not keep anyone from connecting to them.

use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

/// The sockets that programs of this machine listen on, by proc(5)'s table of them.
pub(super) fn reachable() -> Vec<PathBuf> {
    let table = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let mut found: Vec<PathBuf> = table.lines().skip(1).filter_map(path).filter_map(real).collect();
    found.sort();
    found.dedup();
    found
}

/// The path of a line: the eighth field, up to the end. Abstract names begin with `@`.
fn path(line: &str) -> Option<&Path> {
    let mut rest = line;
    for _ in 0..7 {
        rest = rest.trim_start().split_once(' ')?.1;
    }
    let rest = rest.trim_start();
    rest.starts_with('/').then(|| Path::new(rest))
}

fn real(path: &Path) -> Option<PathBuf> {
    let real = path.canonicalize().ok()?;
    real.symlink_metadata().is_ok_and(|found| found.file_type().is_socket()).then_some(real)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_its_path_with_all_its_spaces() {
        let line = |name: &str| format!("0000000000000000: 00000002 00000000 00010000 0001 01 17411 {name}");
        assert_eq!(path(&line("/home/a b/x.sock")), Some(Path::new("/home/a b/x.sock")));
        assert_eq!(path(&line("@/tmp/x")), None);
        assert_eq!(path("0000000000000000: 00000003 00000000 00000000 0001 03 17411"), None);
    }
}
