//! Room on the disks that a command can write: what it has to leave there, and when it leaves less.
//!
//! No limit of the kernel bounds all that a command and its children write together, and nothing tells that
//! a disk fills up. So it is measured while the command runs; what is written between two looks may be more.

use std::path::PathBuf;
use std::time::Duration;

use rustix::fs::{StatVfs, statvfs};
use tokio::time::{MissedTickBehavior, interval};

/// Space left free, in bytes.
const BYTES: u64 = 256 << 20;
/// Files left free.
const FILES: u64 = 10_000;
/// Interval between checks of a disk.
const LOOK: Duration = Duration::from_millis(250);

/// A disk with what has to stay free there.
#[derive(Debug)]
struct Disk {
    place: PathBuf,
    id: u64,
    bytes: u64,
    files: u64,
}

impl Disk {
    /// Starts watching a disk; one that is nearly full already was filled by others: half of what is free may be used
    /// in any case.
    fn new(place: PathBuf, found: &StatVfs) -> Self {
        Self {
            place,
            id: found.f_fsid,
            bytes: BYTES.min(bytes(found) / 2),
            files: FILES.min(found.f_favail / 2),
        }
    }

    /// Returns whether the disk is full; one that can't be checked is not.
    fn is_full(&self) -> bool {
        statvfs(&self.place).is_ok_and(|found| bytes(&found) < self.bytes || found.f_favail < self.files)
    }
}

fn bytes(found: &StatVfs) -> u64 {
    found.f_bavail.saturating_mul(found.f_frsize)
}

/// The disks of these places, as they are now. Places that aren't there have none.
fn disks_of(places: &[PathBuf]) -> Vec<Disk> {
    let mut disks: Vec<Disk> = Vec::new();
    for place in places {
        if let Ok(found) = statvfs(place)
            && !disks.iter().any(|disk| disk.id == found.f_fsid)
        {
            disks.push(Disk::new(place.clone(), &found));
        }
    }
    disks
}

/// Waits until a disk of these places has less space than a command is to leave, of what there is when this
/// begins; forever where there is no disk to look at.
pub(super) async fn runs_out(places: Vec<PathBuf>) {
    let mut looks = interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first is at once. A disk of another machine may take its time to answer, so no look is taken here.
    looks.tick().await;
    let mut disks = roo_durable::spawn_blocking(move || disks_of(&places)).await.unwrap_or_default();
    loop {
        looks.tick().await;
        let looked = roo_durable::spawn_blocking(move || (disks.iter().any(Disk::is_full), disks)).await;
        match looked {
            Ok((false, same)) => disks = same,
            Ok((true, _)) => return,
            // Only a runtime that is ending runs nothing more, and its commands with it.
            Err(_) => return std::future::pending().await,
        }
    }
}
