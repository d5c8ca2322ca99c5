//! Work that cannot be finished is not begun: room on disk, inodes and memory are looked at before each claim.

use std::path::Path;

use harvest_core::Code;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const DISK: u64 = GIB;
const INODES: u64 = 20_000;
const MEMORY: u64 = 256 * MIB;
/// What an agent and its tools may need, for choosing how many run side by side.
const MEMORY_PER_AGENT: u64 = 1536 * MIB;
const AGENTS_PER_CORE: usize = 4;

/// Why no work is taken here now, and the way out, with its code.
pub fn no_room(data: &Path) -> Option<String> {
    refuse(data).map(|why| format!("{why} ({})", Code::Guard))
}

/// Why no work should begin here now, and the way out.
pub(crate) fn refuse(data: &Path) -> Option<String> {
    if let Ok(stat) = rustix::fs::statvfs(data) {
        let free = stat.f_bavail.saturating_mul(stat.f_frsize);
        if free < DISK {
            return Some(format!("only {} MiB are free in {}: free some space there", free / MIB, data.display()));
        }
        // Some file systems do not count inodes.
        if stat.f_files > 0 && stat.f_favail < INODES {
            return Some(format!("only {} inodes are free in {}: remove files there", stat.f_favail, data.display()));
        }
    }
    let available = available_memory()?;
    (available < MEMORY).then(|| format!("only {} MiB of memory are available: stop some programs", available / MIB))
}

/// Whether nothing more can be written there.
pub(crate) fn is_full(data: &Path) -> bool {
    let is_root = rustix::process::geteuid().is_root();
    rustix::fs::statvfs(data).is_ok_and(|stat| if is_root { stat.f_bfree == 0 } else { stat.f_bavail == 0 })
}

/// How many agents fit on this machine. They mostly wait for a model, so there may be more than cores.
pub(crate) fn fitting_agents() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let memory = available_memory().map_or(1, |bytes| usize::try_from(bytes / MEMORY_PER_AGENT).unwrap_or(1));
    memory.clamp(1, cores * AGENTS_PER_CORE)
}

fn available_memory() -> Option<u64> {
    let info = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = info.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_room_for_someone() {
        assert!(fitting_agents() >= 1);
        assert!(available_memory().is_some());
    }
}
