//! Room on the disks that a command can write: what it has to leave there, and when it leaves less.
//!
//! No limit of the kernel bounds all that a command and its children write together, and nothing tells that
//! a disk fills up. So it is measured while the command runs; what is written between two looks may be more.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{StatVfs, statvfs};
use tokio::time::{MissedTickBehavior, interval};

/// What is left free, in bytes.
const BYTES: u64 = 256 << 20;
/// What is left free, in files.
const FILES: u64 = 10_000;
/// How often a disk is looked at.
const LOOK: Duration = Duration::from_millis(250);

/// A disk with what has to stay free there.
#[derive(Clone, Debug)]
struct Disk {
    place: PathBuf,
    id: u64,
    bytes: u64,
    files: u64,
}

impl Disk {
    /// What is nearly full before is filled by others: half of what is free may be used in any case.
    fn new(place: PathBuf, found: &StatVfs) -> Self {
        Self {
            place,
            id: found.f_fsid,
            bytes: BYTES.min(bytes(found) / 2),
            files: FILES.min(found.f_favail / 2),
        }
    }

    /// What can't be looked at is not full.
    fn is_full(&self) -> bool {
        statvfs(&self.place).is_ok_and(|found| bytes(&found) < self.bytes || found.f_favail < self.files)
    }
}

fn bytes(found: &StatVfs) -> u64 {
    found.f_bavail.saturating_mul(found.f_frsize)
}

/// The disks that a command can write.
pub(super) struct Room {
    disks: Vec<Disk>,
}

impl Room {
    /// The disks of these places, as they are before the command. Places that aren't there have none.
    pub(super) fn of<'a>(places: impl IntoIterator<Item = &'a Path>) -> Self {
        let mut disks: Vec<Disk> = Vec::new();
        for place in places {
            if let Ok(found) = statvfs(place)
                && !disks.iter().any(|disk| disk.id == found.f_fsid)
            {
                disks.push(Disk::new(place.to_owned(), &found));
            }
        }
        Self { disks }
    }

    /// Waits until a disk has less room than it is to have; for ever where there is no disk to look at.
    pub(super) async fn runs_out(&self) {
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first is at once.
        looks.tick().await;
        loop {
            looks.tick().await;
            // A disk of another machine may take its time to answer.
            let disks = self.disks.clone();
            let looked = tokio::task::spawn_blocking(move || disks.iter().any(Disk::is_full));
            if looked.await.unwrap_or_default() {
                return;
            }
        }
    }
}
