//! Hard links: a file is protected if any of its names is. The resolver handles symbolic links.

use std::collections::HashMap;
use std::fs::Metadata;
use std::path::Path;
use std::time::{Duration, SystemTime};

use ::ignore::WalkBuilder;

use super::read_access::ReadAccess;

/// Time by which a file system's clock may be behind ours.
const CLOCK_SLACK: Duration = Duration::from_secs(2);

/// A file, whatever its name: device and number.
pub type FileId = (u64, u64);

/// The files below one root that have several names, one of which is not free to read.
pub(super) struct HiddenLinks {
    looked: SystemTime,
    access: HashMap<FileId, ReadAccess>,
}

impl HiddenLinks {
    /// Looks at every name below a root; `access_by_name` says what one name of a file, relative to it, gives.
    pub(super) fn below(root: &Path, access_by_name: impl Fn(&str) -> ReadAccess) -> Self {
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
            let name = access_by_name(relative);
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
    pub(super) fn access(&self, file: &LinkedFile) -> Option<ReadAccess> {
        let is_known = file.changed + CLOCK_SLACK < self.looked;
        is_known.then(|| self.access.get(&file.id).copied().unwrap_or(ReadAccess::Free))
    }

    /// The access right after [`Self::below`], when no newer name has to be considered.
    pub(super) fn access_now(&self, file: &LinkedFile) -> ReadAccess {
        self.access.get(&file.id).copied().unwrap_or(ReadAccess::Free)
    }
}

/// A file that has several names.
pub struct LinkedFile {
    pub id: FileId,
    /// Time of its last status change, which includes its names and can't be set by programs.
    changed: SystemTime,
}

/// A file, if it has several names.
#[cfg(unix)]
pub fn several_names(found: &Metadata) -> Option<LinkedFile> {
    use std::os::unix::fs::MetadataExt as _;
    let is_linked = found.is_file() && found.nlink() > 1;
    is_linked.then(|| LinkedFile {
        id: (found.dev(), found.ino()),
        changed: SystemTime::UNIX_EPOCH + Duration::from_secs(found.ctime().unsigned_abs()),
    })
}

#[cfg(not(unix))]
pub fn several_names(_: &Metadata) -> Option<LinkedFile> {
    None
}
