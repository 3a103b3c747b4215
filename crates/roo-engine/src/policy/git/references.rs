//! The commits that the references of a repository name, read from its files.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::directories::GitDirectory;
use roo_durable::read_regular;

/// The largest file of one reference, in bytes.
const MAX_REFERENCE_BYTES: u64 = 4 << 10;
/// The largest file of packed references, in bytes.
const MAX_PACKED_BYTES: u64 = 64 << 20;
/// The most references that have files of their own.
const MAX_REFERENCES: usize = 20_000;

/// A reference or a head: its name, and the object.
pub(super) type Reference = (String, String);

/// Returns the references and the detached heads of a repository; none where not all can be read.
pub(super) fn all(directory: &GitDirectory) -> Option<BTreeSet<Reference>> {
    if directory.common.join("reftable").exists() {
        return None;
    }
    let mut found: BTreeSet<Reference> = packed(directory)?.into_iter().collect();
    let mut open: Vec<_> = directory.writable().map(|git| git.join("refs")).collect();
    let mut count = 0;
    while let Some(place) = open.pop() {
        for entry in fs::read_dir(&place).into_iter().flatten().flatten() {
            count += 1;
            if count > MAX_REFERENCES {
                return None;
            }
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => open.push(entry.path()),
                _ => {
                    let name = entry.path().to_string_lossy().into_owned();
                    found.extend(read(&entry.path()).filter(|id| is_id(id)).map(|id| (name, id)));
                }
            }
        }
    }
    let head = directory.own.join("HEAD");
    let detached = read(&head).filter(|id| is_id(id));
    found.extend(detached.map(|id| (head.to_string_lossy().into_owned(), id)));
    Some(found)
}

/// The commit of the work tree's head.
pub(super) fn head(directory: &GitDirectory) -> Option<String> {
    let text = read(&directory.own.join("HEAD"))?;
    let Some(name) = text.strip_prefix("ref:").map(str::trim) else {
        return Some(text).filter(|id| is_id(id));
    };
    if !name.starts_with("refs/") || name.contains("..") {
        return None;
    }
    let loose = directory.writable().find_map(|git| read(&git.join(name))).filter(|id| is_id(id));
    let name = directory.common.join(name).to_string_lossy().into_owned();
    loose.or_else(|| packed(directory)?.into_iter().find(|(packed, _)| *packed == name).map(|(_, id)| id))
}

/// The packed references, and the objects of their tags. A name is the path of the file that it would have.
fn packed(directory: &GitDirectory) -> Option<Vec<Reference>> {
    let file = directory.common.join("packed-refs");
    if file.symlink_metadata().is_err() {
        return Some(vec![]);
    }
    let text = read_regular(&file, MAX_PACKED_BYTES).ok()?;
    let mut found: Vec<Reference> = Vec::new();
    for line in text.lines() {
        let of_tag =
            line.strip_prefix('^').zip(found.last()).map(|(id, (name, _))| (id, format!("{name}^{{}}")));
        let named = || {
            let (id, name) = line.split_once(' ')?;
            Some((id, directory.common.join(name).to_string_lossy().into_owned()))
        };
        found.extend(
            of_tag.or_else(named).filter(|(id, _)| is_id(id)).map(|(id, name)| (name, id.to_owned())),
        );
    }
    Some(found)
}

fn read(file: &Path) -> Option<String> {
    Some(read_regular(file, MAX_REFERENCE_BYTES).ok()?.trim().to_owned())
}

/// Returns whether a text is the whole name of an object.
pub(super) fn is_id(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
