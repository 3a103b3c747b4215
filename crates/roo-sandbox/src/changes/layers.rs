//! Private layers over directories outside of the workspace, such as those of build tools: what commands write there is
//! kept from one command to the next and is never seen outside. Mounting them is [`crate::exec::sandbox`]'s.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use super::files::remove_tree;
use crate::exec::sandbox::Staged;
use roo_durable::disk::{Disk as _, HeldLock, RealDisk};
use roo_protocol::ids::Digest;

/// The most commands at the same time that have layers of their own.
const MAX_COMMANDS: usize = 64;
/// The beginning of the names of directories that belong to the kernel for the time of one command.
const WORK: &str = "work-";

/// The layers of one command. No other command gets the same ones until they are dropped: what an overlay shows whose
/// layer is in use by another is undefined.
pub struct LeasedLayers {
    layers: Vec<Staged>,
    /// Tells others, also other servers, that they are in use.
    _lock: HeldLock,
}

impl LeasedLayers {
    /// Leases layers over some directories. Those with the lowest number that are free are taken, so that commands one
    /// after the other find what the one before left. Writes the disk.
    ///
    /// # Errors
    /// When they can't be made, or too many are in use.
    pub fn lease(area: &Path, directories: &[PathBuf]) -> io::Result<Self> {
        for number in 0..MAX_COMMANDS {
            let own = area.join(number.to_string());
            DirBuilder::new().recursive(true).mode(0o700).create(&own)?;
            let own = own.canonicalize()?;
            if let Some(lock) = RealDisk.try_lock(&own.join("lock"))? {
                let layers = directories.iter().map(|directory| layer(&own, directory));
                return Ok(Self { layers: layers.collect::<Result<_, _>>()?, _lock: lock });
            }
        }
        Err(io::Error::other(format!("{MAX_COMMANDS} commands at once have layers in {}", area.display())))
    }

    /// By directory.
    pub fn layers(&self) -> &[Staged] {
        &self.layers
    }
}

impl Drop for LeasedLayers {
    /// Removes the kernel's directories: it leaves one in each that not even its owner can list, so that whoever deletes the
    /// state directory would fail at it. Those of a server that was killed go with the next lease.
    fn drop(&mut self) {
        for layer in &self.layers {
            if let Err(error) = remove_tree(&layer.work) {
                tracing::debug!(%error, path = %layer.work.display(), "a directory of a layer is left");
            }
        }
    }
}

fn layer(own: &Path, directory: &Path) -> io::Result<Staged> {
    let name: String = Digest::of(directory.as_os_str().as_bytes()).hex().chars().take(16).collect();
    let place = own.join(name);
    DirBuilder::new().recursive(true).mode(0o700).create(&place)?;
    for entry in fs::read_dir(&place)? {
        let path = entry?.path();
        if path.file_name().is_some_and(|name| name.as_bytes().starts_with(WORK.as_bytes())) {
            remove_tree(&path)?;
        }
    }
    let upper = place.join("upper");
    DirBuilder::new().recursive(true).mode(0o700).create(&upper)?;
    // What is seen of the directory itself is the layer's.
    let mode = fs::metadata(directory)?.permissions().mode() & 0o7777;
    fs::set_permissions(&upper, fs::Permissions::from_mode(mode | 0o700))?;
    // The kernel does not take one again that it has used.
    let work = place.join(format!("{WORK}{}", uuid::Uuid::now_v7()));
    DirBuilder::new().mode(0o700).create(&work)?;
    Ok(Staged { root: directory.to_owned(), upper, work })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_one_after_the_other_share_layers_and_those_at_once_do_not() {
        let place = tempfile::tempdir().unwrap();
        let directories = [place.path().join("a"), place.path().join("b")];
        for directory in &directories {
            fs::create_dir(directory).unwrap();
        }
        let area = place.path().join("area");
        let lease = || LeasedLayers::lease(&area, &directories).unwrap();
        let (one, other) = (lease(), lease());
        let uppers = |leased: &LeasedLayers| {
            leased.layers().iter().map(|layer| layer.upper.clone()).collect::<Vec<_>>()
        };
        let first = uppers(&one);
        assert!(first.iter().all(|upper| upper.is_dir() && !uppers(&other).contains(upper)));
        fs::write(first[0].join("f"), "f").unwrap();
        let work = one.layers()[0].work.clone();
        // As the kernel leaves it.
        DirBuilder::new().mode(0o000).create(work.join("work")).unwrap();
        drop(one);
        assert!(!work.exists());
        let again = lease();
        assert_eq!(uppers(&again), first);
        assert!(first[0].join("f").exists() && again.layers()[0].work != work);
    }
}
