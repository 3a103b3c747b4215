//! Torn tails: an incomplete line at the end of a file of lines, left by a crash or a full disk.

use std::io;
use std::path::{Path, PathBuf};

use super::disk::{Access, Disk};

/// Copies the bytes after an offset of a file to a new file beside it, whose name contains the offset. The copy
/// survives a loss of power when this returns, so that the tail can be truncated next.
///
/// # Errors
/// Those of the disk; the file is unchanged and no copy remains.
pub fn keep_torn_tail(disk: &dyn Disk, file: &Path, from: u64) -> io::Result<PathBuf> {
    let mut kept = PathBuf::from(format!("{}.torn-{from}", file.display()));
    // An earlier copy from the same offset is kept.
    for another in 2.. {
        if !disk.exists(&kept)? {
            break;
        }
        kept = PathBuf::from(format!("{}.torn-{from}-{another}", file.display()));
    }
    let copied = disk
        .read(file, from)
        .and_then(|mut tail| disk.write(&kept, &mut tail, Access::Private))
        .and_then(|()| disk.sync(&kept))
        .and_then(|()| disk.sync(file.parent().unwrap_or(Path::new("/"))));
    if copied.is_err() {
        // Each attempt would leave another copy, on a disk that may be full.
        let _ = disk.remove(&kept);
    }
    copied.map(|()| kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated_disk::SimulatedDisk;

    const FILE: &str = "/lines";

    fn disk_with_torn_line() -> SimulatedDisk {
        let disk = SimulatedDisk::new();
        let file = disk.open(Path::new(FILE), true).unwrap();
        file.append_all(b"whole\nto").unwrap();
        file.sync().unwrap();
        disk.sync(Path::new("/")).unwrap();
        disk
    }

    /// Moves the tail away, as a caller does.
    fn repair(disk: &SimulatedDisk) -> io::Result<PathBuf> {
        let kept = keep_torn_tail(disk, Path::new(FILE), 6)?;
        let file = disk.open(Path::new(FILE), false)?;
        file.truncate(6)?;
        file.sync()?;
        Ok(kept)
    }

    #[test]
    fn a_loss_of_power_at_any_moment_loses_neither_the_lines_nor_the_tail() {
        let disk = disk_with_torn_line();
        let begun = disk.operations();
        let kept = repair(&disk).unwrap();
        assert_eq!(kept, Path::new("/lines.torn-6"));
        let mut states = 0;
        for (operations, left) in disk.every_power_loss(begun) {
            let lines = left.bytes(Path::new(FILE)).unwrap();
            let tail = left.bytes(&kept);
            match lines.as_slice() {
                b"whole\n" => assert_eq!(tail.as_deref(), Some(&b"to"[..]), "after {operations}"),
                lines => assert_eq!(lines, b"whole\nto", "after {operations}"),
            }
            states += 1;
        }
        assert!(states > 10, "{states}");
    }

    #[test]
    fn a_full_disk_leaves_the_tail_where_it_is() {
        let mut refused = 0;
        for first in 0..10 {
            let disk = disk_with_torn_line();
            disk.fill_from(first);
            let repaired = repair(&disk);
            disk.heal();
            let lines = disk.bytes(Path::new(FILE)).unwrap();
            assert_eq!(lines, if repaired.is_ok() { &b"whole\n"[..] } else { b"whole\nto" });
            // No partial copy takes up space, or pushes the next one to another name.
            let copies = disk.files().into_iter().filter(|path| path != Path::new(FILE));
            assert_eq!(
                copies.collect::<Vec<_>>(),
                repaired.iter().cloned().collect::<Vec<_>>(),
                "full from call {first} on"
            );
            refused += usize::from(repaired.is_err());
        }
        assert!(refused > 0);
    }

    #[test]
    fn a_second_tail_at_the_same_offset_gets_another_name() {
        let disk = disk_with_torn_line();
        repair(&disk).unwrap();
        disk.open(Path::new(FILE), false).unwrap().append_all(b"again").unwrap();
        let kept = repair(&disk).unwrap();
        assert_eq!(kept, Path::new("/lines.torn-6-2"));
        assert_eq!(disk.bytes(Path::new("/lines.torn-6")).unwrap(), b"to");
        assert_eq!(disk.bytes(&kept).unwrap(), b"again");
    }
}
