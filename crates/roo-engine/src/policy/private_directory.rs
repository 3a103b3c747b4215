//! Private directories of programs in the sandbox, below the workspace's part of the state directory.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use roo_protocol::ids::Urid;

/// Below the workspace's part of the state directory: temporary directories of requests, MCP servers and browsers.
pub(super) const TEMPORARY: &str = "tmp";

/// Paths of a program's private directories, below the workspace's part of the state directory.
pub(super) struct PrivatePaths {
    /// In place of `/tmp`.
    pub(super) temp: PathBuf,
    /// For what build tools keep.
    pub(super) cache: PathBuf,
}

/// Makes a directory that only its user can read; none where it can't be made.
pub(super) fn make_private(path: &Path) -> Option<PathBuf> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path).ok()?;
    path.canonicalize().ok()
}

/// A directory of one program. It is removed when this is dropped, or by [`remove_abandoned`] after a crash.
pub(super) struct PrivateDirectory {
    pub(super) path: PathBuf,
    /// Locked as long as the directory is used.
    _lock: File,
}

/// The file in a private directory that is locked as long as the directory is used.
const LOCK: &str = "lock";
/// The last part of the name of a private directory that is not locked yet.
const UNLOCKED: &str = ".unlocked";
/// The first part of the names of private directories of MCP servers.
pub(super) const SERVER_PREFIX: &str = "mcp-";
/// The same of browsers.
pub(super) const BROWSER_PREFIX: &str = "browser-";

impl PrivateDirectory {
    /// Creates the directory at a path where there is none.
    pub(super) fn create(path: PathBuf) -> io::Result<Self> {
        // Under a name that `remove_abandoned` leaves alone: nobody can come between the file and its lock.
        let mut unlocked = path.clone().into_os_string();
        unlocked.push(UNLOCKED);
        let unlocked = PathBuf::from(unlocked);
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&unlocked)?;
        let lock = File::create(unlocked.join(LOCK))?;
        lock.lock()?;
        fs::rename(&unlocked, &path)?;
        Ok(Self { path, _lock: lock })
    }
}

impl Drop for PrivateDirectory {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// Removes a private directory, and its lock last: what can't be removed now is still known as abandoned later.
fn remove(directory: &Path) {
    let remove_all = || -> io::Result<()> {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            if entry.file_name() == LOCK {
                continue;
            }
            match entry.file_type()?.is_dir() {
                true => fs::remove_dir_all(entry.path())?,
                false => fs::remove_file(entry.path())?,
            }
        }
        fs::remove_dir_all(directory)
    };
    if let Err(error) = remove_all() {
        tracing::warn!(%error, directory = %directory.display(), "what a program left can't be removed");
    }
}

/// Removes the private directories that programs left whose roo-lsp was killed.
pub(super) fn remove_abandoned(temporary: &Path) {
    for entry in fs::read_dir(temporary).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_private = [SERVER_PREFIX, BROWSER_PREFIX].iter().any(|prefix| name.starts_with(prefix));
        if !is_private || name.ends_with(UNLOCKED) {
            continue;
        }
        match File::open(entry.path().join(LOCK)) {
            // The lock is held until the directory is gone.
            Ok(lock) if lock.try_lock().is_ok() => remove(&entry.path()),
            // A directory has its lock from the moment on at which it has this name.
            Err(error) if error.kind() == io::ErrorKind::NotFound => remove(&entry.path()),
            Ok(_) | Err(_) => {}
        }
    }
}

/// Removes what the commands of a request have written to their temporary directory.
pub(super) fn remove_of_request(temporary: &Path, urid: &Urid) {
    let name = Path::new(urid.as_str());
    if name.components().count() == 1 && name.file_name() == Some(name.as_os_str()) {
        remove_written(&temporary.join(name));
    }
}

/// Removes the temporary directories of requests that nobody has used for some time. `kept` returns the requests whose
/// directories stay; none where they can't be listed.
pub(super) fn remove_old_of_requests(
    temporary: &Path,
    age: Duration,
    kept: impl FnOnce() -> Option<HashSet<Urid>>,
) {
    let is_old = |path: &Path| {
        let found = path.symlink_metadata().ok().filter(fs::Metadata::is_dir);
        let modified = found.and_then(|found| found.modified().ok());
        modified.is_some_and(|at| at.elapsed().is_ok_and(|passed| passed > age))
    };
    let of_requests = fs::read_dir(temporary).into_iter().flatten().flatten().filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let is_programs = [SERVER_PREFIX, BROWSER_PREFIX].iter().any(|prefix| name.starts_with(prefix));
        (!is_programs && is_old(&entry.path())).then(|| Urid::new(name))
    });
    let old: Vec<Urid> = of_requests.collect();
    if old.is_empty() {
        return;
    }
    let Some(kept) = kept() else { return };
    for urid in old.iter().filter(|urid| !kept.contains(urid)) {
        remove_of_request(temporary, urid);
    }
}

/// Removes a directory with all that commands have written there, also where they let nobody write.
fn remove_written(directory: &Path) {
    let removed = match fs::remove_dir_all(directory) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            make_writable(directory);
            fs::remove_dir_all(directory)
        }
        removed => removed,
    };
    if let Err(error) = removed
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(%error, directory = %directory.display(), "what commands wrote to it can't be removed");
    }
}

fn make_writable(directory: &Path) {
    let _ = fs::set_permissions(directory, fs::Permissions::from_mode(0o700));
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            make_writable(&entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_directories_of_requests_are_removed_with_what_nobody_may_write() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        for name in ["gone/module", "open", "mcp-one"] {
            fs::create_dir_all(at(name)).unwrap();
        }
        fs::write(at("gone/module/m.go"), "").unwrap();
        fs::set_permissions(at("gone/module"), fs::Permissions::from_mode(0o500)).unwrap();
        let kept = || Some(HashSet::from([Urid::new("open")]));
        let left = || ["gone", "open", "mcp-one"].map(|name| at(name).is_dir());
        remove_old_of_requests(directory.path(), Duration::from_secs(3600), kept);
        assert_eq!(left(), [true, true, true]);
        remove_old_of_requests(directory.path(), Duration::ZERO, || None);
        assert_eq!(left(), [true, true, true]);
        remove_old_of_requests(directory.path(), Duration::ZERO, kept);
        assert_eq!(left(), [false, true, true]);
        for urid in ["..", ".", "", "open/..", "/"] {
            remove_of_request(&at("open"), &Urid::new(urid));
        }
        assert_eq!(left(), [false, true, true]);
    }

    #[test]
    fn only_directories_of_servers_that_have_ended_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let used = PrivateDirectory::create(at("mcp-used")).unwrap();
        // As after a kill: the lock is gone with the process, the directory is not.
        let killed = PrivateDirectory::create(at("mcp-killed")).unwrap();
        killed._lock.unlock().unwrap();
        // As after a removal that failed half-way.
        fs::create_dir_all(at("browser-left").join("profile")).unwrap();
        fs::create_dir(at("a-request")).unwrap();
        remove_abandoned(directory.path());
        let left = |name: &str| at(name).is_dir();
        assert_eq!(
            ["mcp-used", "mcp-killed", "browser-left", "a-request"].map(left),
            [true, false, false, true]
        );
        drop(used);
        assert!(!left("mcp-used"));
    }

    #[test]
    fn a_directory_that_is_being_made_is_not_taken_for_an_abandoned_one() {
        let directory = tempfile::tempdir().unwrap();
        // Before its file is locked.
        let unlocked = directory.path().join(format!("mcp-new{UNLOCKED}"));
        fs::create_dir(&unlocked).unwrap();
        File::create(unlocked.join(LOCK)).unwrap();
        remove_abandoned(directory.path());
        assert!(unlocked.is_dir());

        let made = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                while !made.load(std::sync::atomic::Ordering::SeqCst) {
                    remove_abandoned(directory.path());
                }
            });
            let create =
                |number: i32| PrivateDirectory::create(directory.path().join(format!("mcp-{number}")));
            let all: Vec<_> = (0..100).map(create).collect();
            made.store(true, std::sync::atomic::Ordering::SeqCst);
            assert!(all.iter().all(|made| made.as_ref().is_ok_and(|made| made.path.join(LOCK).is_file())));
        });
    }
}
