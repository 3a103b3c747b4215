//! Hard links: a file that has another name is protected by what that name is. Symbolic links are the
//! resolver's.

use std::collections::HashMap;
use std::fs::Metadata;
use std::path::Path;
use std::time::{Duration, SystemTime};

use ::ignore::WalkBuilder;

use super::ignore::{ReadAccess, Rules};

/// By how much a file system's clock may be behind ours.
const CLOCK_SLACK: Duration = Duration::from_secs(2);

/// A file, whatever its name: device and number.
pub type FileId = (u64, u64);

/// The files below one root that have several names, one of which is not free to read.
pub(super) struct Hidden {
    looked: SystemTime,
    access: HashMap<FileId, ReadAccess>,
}

impl Hidden {
    /// Looks at every name below a root.
    pub(super) fn below(root: &Path, rules: &Rules) -> Self {
        let looked = SystemTime::now();
        let mut access = HashMap::new();
        let names = WalkBuilder::new(root).standard_filters(false).follow_links(false).build();
        for entry in names.filter_map(Result::ok) {
            if !entry.file_type().is_some_and(|kind| kind.is_file()) {
                continue;
            }
            let Some(relative) = entry.path().strip_prefix(root).ok().and_then(Path::to_str) else {
                continue;
            };
            let name = rules.access(relative, false);
            if name != ReadAccess::Free
                && let Some(file) = entry.metadata().ok().as_ref().and_then(several_names)
            {
                let known = access.entry(file.id).or_insert(name);
                if name == ReadAccess::Ignored {
                    *known = name;
                }
            }
        }
        Self { looked, access }
    }

    /// The access to a file by all the names that it has; none if it may have got one since.
    pub(super) fn access(&self, file: &Linked) -> Option<ReadAccess> {
        let is_known = file.changed + CLOCK_SLACK < self.looked;
        is_known.then(|| self.access.get(&file.id).copied().unwrap_or(ReadAccess::Free))
    }

    /// As [`Self::access`], for one who has just looked.
    pub(super) fn access_now(&self, file: &Linked) -> ReadAccess {
        self.access.get(&file.id).copied().unwrap_or(ReadAccess::Free)
    }
}

/// A file that has several names.
pub struct Linked {
    pub id: FileId,
    /// Time of its last change, including its names; nobody can set it.
    changed: SystemTime,
}

/// A file, if it has several names.
#[cfg(unix)]
pub fn several_names(found: &Metadata) -> Option<Linked> {
    use std::os::unix::fs::MetadataExt as _;
    let is_linked = found.is_file() && found.nlink() > 1;
    is_linked.then(|| Linked {
        id: (found.dev(), found.ino()),
        changed: SystemTime::UNIX_EPOCH + Duration::from_secs(found.ctime().unsigned_abs()),
    })
}

#[cfg(not(unix))]
pub fn several_names(_: &Metadata) -> Option<Linked> {
    None
}
