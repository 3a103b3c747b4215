//! What a process holds in memory.

use std::fs;

/// Its proportional set size, in MB.
///
/// # Errors
/// When the system doesn't tell.
pub fn of_process(process: u32) -> Result<f64, Box<dyn std::error::Error>> {
    megabytes(&format!("/proc/{process}/smaps_rollup"), "Pss:")
}

/// The most that it held at a time, in MB: its resident set, pages shared with others among it.
///
/// # Errors
/// When the system doesn't tell.
pub fn most_of_process(process: u32) -> Result<f64, Box<dyn std::error::Error>> {
    megabytes(&format!("/proc/{process}/status"), "VmHWM:")
}

fn megabytes(file: &str, name: &str) -> Result<f64, Box<dyn std::error::Error>> {
    let figures = fs::read_to_string(file)?;
    let line = figures.lines().find_map(|line| line.strip_prefix(name));
    let kib: f64 = line.ok_or(format!("{file} has no {name}"))?.trim().trim_end_matches(" kB").parse()?;
    Ok(kib * 1024.0 / 1e6)
}
