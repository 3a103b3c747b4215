//! Symbolic links on the way along a path, followed name by name as the kernel does, for checks that look at each of them.
//! Where a path leads, without more, is [`Path::canonicalize`]'s to tell.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

/// The most links that are followed for one path, as by the kernel.
const LINKS: usize = 40;

/// What a name on a path is.
#[derive(Debug)]
pub(super) enum NameKind {
    /// A symbolic link.
    Link,
    /// Anything else that is there.
    Other,
    /// It is missing, or can't be looked at.
    Unknown(io::Error),
}

/// Follows an absolute path, which need not be there, and returns the path to which it leads. `visit` gets each name that is
/// passed, as a path without links before it, and ends the walk by an error. Reads the disk.
///
/// # Errors
/// Those of `visit`, and more links than the kernel follows.
pub(super) fn follow(
    path: &Path,
    mut visit: impl FnMut(&Path, NameKind) -> io::Result<()>,
) -> io::Result<PathBuf> {
    let names = |path: &Path| -> Vec<OsString> {
        path.components().rev().map(|name| name.as_os_str().to_owned()).collect()
    };
    let (mut real, mut left, mut links) = (PathBuf::from("/"), names(path), 0);
    while let Some(name) = left.pop() {
        match Path::new(&name).components().next() {
            // An absolute link begins at the root again.
            Some(Component::RootDir) => real = PathBuf::from("/"),
            Some(Component::ParentDir) => {
                real.pop();
            }
            Some(Component::Normal(name)) => {
                let next = real.join(name);
                match fs::read_link(&next) {
                    Ok(target) => {
                        visit(&next, NameKind::Link)?;
                        links += 1;
                        if links > LINKS {
                            return Err(io::Error::other("the path has too many symbolic links"));
                        }
                        left.extend(names(&target));
                    }
                    Err(error) => {
                        let is_there = error.kind() == io::ErrorKind::InvalidInput;
                        visit(&next, if is_there { NameKind::Other } else { NameKind::Unknown(error) })?;
                        real = next;
                    }
                }
            }
            _ => {}
        }
    }
    Ok(real)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_path_is_followed_through_its_links_and_each_name_is_seen() {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path().canonicalize().unwrap();
        fs::create_dir_all(top.join("a/b")).unwrap();
        fs::write(top.join("a/file"), "").unwrap();
        symlink("a/b", top.join("relative")).unwrap();
        symlink(top.join("a"), top.join("absolute")).unwrap();
        symlink("loop", top.join("loop")).unwrap();
        let follow = |path: &str| {
            let mut passed = Vec::new();
            let real = follow(&top.join(path), |name, kind| {
                if let Ok(name) = name.strip_prefix(&top)
                    && name != Path::new("")
                {
                    let kind = match kind {
                        NameKind::Link => "link",
                        NameKind::Other => "other",
                        NameKind::Unknown(_) => "unknown",
                    };
                    passed.push(format!("{} {kind}", name.display()));
                }
                Ok(())
            });
            (real.map(|real| real.strip_prefix(&top).unwrap().display().to_string()).ok(), passed)
        };
        let led = |to: &str, passed: &[&str]| {
            (Some(to.to_owned()), passed.iter().map(|&name| name.to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(follow("a/./file"), led("a/file", &["a other", "a/file other"]));
        assert_eq!(
            follow("relative/../file"),
            led("a/file", &["relative link", "a other", "a/b other", "a/file other"])
        );
        let (real, passed) = follow("absolute/none/x");
        assert_eq!(real.as_deref(), Some("a/none/x"));
        assert!(
            passed.ends_with(&["a/none unknown".to_owned(), "a/none/x unknown".to_owned()]),
            "{passed:?}"
        );
        assert_eq!(follow("loop").0, None);
    }

    #[test]
    fn a_visitor_ends_the_walk() {
        let mut count = 0;
        let ended = follow(Path::new("/a/b/c"), |_, _| {
            count += 1;
            Err(io::Error::other("seen enough"))
        });
        assert_eq!((ended.unwrap_err().to_string().as_str(), count), ("seen enough", 1));
    }
}
