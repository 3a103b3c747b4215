//! The pages of the program's own file that this process has mapped.
//!
//! The system maps 64 KiB around each page that is touched. So a start maps most of a large program, little of which a process
//! that waits needs again, and all of it counts as its memory.

use std::path::Path;

/// Gives up what is mapped of the program's file. What is needed again is mapped again when it is touched: the pages stay in
/// the system's cache, from which they also came. Where the system tells nothing, nothing happens.
pub fn release() {
    #[cfg(target_os = "linux")]
    {
        let program = std::fs::read_link("/proc/self/exe");
        let mappings = std::fs::read_to_string("/proc/self/smaps");
        if let (Ok(program), Ok(mappings)) = (program, mappings) {
            unchanged_parts(&mappings, &program).for_each(release_part);
        }
    }
}

/// The addresses and lengths of parts of a file that can't be written and of which no page is this process's own. Relocated
/// constants can't be written either, and are its own.
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "nothing tells of them"))]
fn unchanged_parts(mappings: &str, file: &Path) -> impl Iterator<Item = (usize, usize)> {
    let mut part = None;
    mappings.lines().filter_map(move |line| match line.strip_prefix("Anonymous:") {
        Some(own) => part.take().filter(|_| own.trim() == "0 kB"),
        None => {
            part = part_of(line, file).or(part);
            None
        }
    })
}

/// The address and length of a mapping, from the first of its lines; none for another file's, or where it may be written.
fn part_of(line: &str, file: &Path) -> Option<(usize, usize)> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let (start, end) = (usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?);
    let is_unwritable = words.next()?.starts_with("r-");
    let is_of_file = line.ends_with(file.to_str()?) && words.nth(2)? != "0";
    Some((start, end.checked_sub(start)?)).filter(|_| is_unwritable && is_of_file)
}

#[cfg(target_os = "linux")]
fn release_part((start, length): (usize, usize)) {
    #[expect(unsafe_code, reason = "to give up pages is unsafe where they have been changed")]
    // SAFETY: the part is mapped from a file and can't be written, and no page of it differs from the file, so that each is
    // read from there again. Nobody unmaps the program.
    let _ = unsafe { libc::madvise(start as *mut libc::c_void, length, libc::MADV_DONTNEED) };
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPPINGS: &str = "\
55d0a0000000-55d0a0100000 r--p 00000000 fe:00 1234                       /usr/bin/program
Rss:                 512 kB
Anonymous:             0 kB
VmFlags: rd mr mw me
55d0a0100000-55d0a0300000 r-xp 00100000 fe:00 1234                       /usr/bin/program
Anonymous:             0 kB
55d0a0300000-55d0a0400000 r--p 00300000 fe:00 1234                       /usr/bin/program
Anonymous:           640 kB
55d0a0400000-55d0a0401000 rw-p 00400000 fe:00 1234                       /usr/bin/program
Anonymous:             0 kB
55d0a0500000-55d0a0600000 r--p 00000000 00:00 0
Anonymous:             0 kB
7f0000000000-7f0000100000 r-xp 00000000 fe:00 99                         /usr/lib/libc.so.6
Anonymous:             0 kB
";

    #[test]
    fn only_what_is_as_in_the_file_is_given_up() {
        let parts: Vec<_> = unchanged_parts(MAPPINGS, Path::new("/usr/bin/program")).collect();
        assert_eq!(parts, [(0x55d0_a000_0000, 0x10_0000), (0x55d0_a010_0000, 0x20_0000)]);
    }

    #[test]
    fn a_program_runs_on_without_its_pages() {
        let before = std::collections::BTreeMap::from([(1, "one"), (2, "two")]);
        release();
        assert_eq!(format!("{before:?}"), r#"{1: "one", 2: "two"}"#);
    }
}
