//! What a process holds in memory.

use std::fs;

/// Its proportional set size, in MB.
///
/// # Errors
/// When the system doesn't tell.
pub fn of_process(process: u32) -> Result<f64, Box<dyn std::error::Error>> {
    let figures = fs::read_to_string(format!("/proc/{process}/smaps_rollup"))?;
    let line = figures.lines().find_map(|line| line.strip_prefix("Pss:"));
    let kib: f64 = line.ok_or("smaps_rollup has no Pss")?.trim().trim_end_matches(" kB").parse()?;
    Ok(kib * 1024.0 / 1e6)
}
